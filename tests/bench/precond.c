/* precond.c - steps and time of PCG by kind of preconditioner: a field of 256 x 256; crossed groups, and factors at D = 1,000, of a file of ratings.

       cc -std=c99 -O3 -march=native -I. tests/bench/precond.c -o precond -lm
       ./precond                     the field alone
       ./precond u.data              and the ratings of a file of lines "user item rating .." (numbers from 1)

   One likelihood and output gradient each: 16 probes, relative residual 1e-6, one thread. Steps are those of the first mean and of the slowest
   column; compiled with PU_USE_CHOLMOD it begins with the exact value; time is the processor's, of the whole call, so that making the preconditioner is in it. */
#define PU_IMPLEMENTATION
#include "../../pu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 1 << 20 };
static const char *const names[] = {"none (CG)", "diagonal", "SSOR", "incomplete", "the model's own"};

static pu_options asked(int kind)
{
    pu_options o;
    memset(&o, 0, sizeof o);
    o.engine = PU_ITERATIVE, o.kind = PU_MONTE_CARLO, o.samples = 16, o.threads = 1;
    o.solve.solver = kind == 0 ? PU_CG : PU_PCG, o.solve.tolerance = 1e-6;
    o.solve.preconditioner = kind == 2 ? PU_PRECOND_SSOR : kind == 3 ? PU_PRECOND_INCOMPLETE : PU_PRECOND_DIAGONAL;
    return o;
}

static void told(const char *name, pu_status status, const pu_report *r, const pu_column *columns, clock_t began)
{
    const double seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
    char text[400];
    if (status && status != PU_INEXACT) {
        printf("| %s | %s |\n", name, pu_explain(r, text, sizeof text));
        return;
    }
    printf("| %s | %d | %d | %.2f | %.2f +- %.2g |\n", name, columns ? (int)columns[0].steps : -1, (int)r->iterations, seconds, r->nll, r->nll_95);
    fflush(stdout);
}

/* pu_lgm with each kind; M: the model's own, or NULL. */
static void all_kinds(const pu_lgm *lgm, const pu_data *data, const pu_op *M)
{
    int kind;
    pu_column columns[17];
#ifdef PU_USE_CHOLMOD
    double exact = 0;
    pu_report told_by;
    pu_options direct;
    memset(&direct, 0, sizeof direct);
    direct.kind = PU_EXACT, direct.engine = PU_CHOLMOD;
    clock_t before = clock();
    if (!pu_nll(lgm, data, &direct, NULL, &exact, NULL, &told_by))
        printf("| none: CHOLMOD, exact | | | %.2f | %.2f |\n", (double)(clock() - before) / CLOCKS_PER_SEC, exact);
#endif
    for (kind = 0; kind < 4 + (M != NULL); kind++) {
        pu_gradient_result out;
        pu_options o = asked(kind);
        pu_report r;
        clock_t began = clock();
        pu_status status;
        memset(&out, 0, sizeof out);
        out.Gamma = (pu_real *)malloc((size_t)(lgm->Gamma->params + 1) * sizeof(pu_real));
        out.columns = columns;
        o.tied_psi = 1;
        if (kind == 4) o.solve.M = M;
        status = pu_gradient(lgm, data, &o, NULL, &out, &r);
        pu_int i, most = 0;
        for (i = 0; i < 17; i++) most = columns[i].steps > most ? columns[i].steps : most;
        r.iterations = most;
        told(names[kind], status, &r, columns, began);
        free(out.Gamma);
    }
}

static void a_field(void)
{
    const pu_int size[2] = {256, 256}, n = 65536;
    const pu_real theta[4] = {PU_R(2.325), PU_R(-2.36), 0, PU_R(-2.303)}; /* variance 1, range 30, noise 0.1 */
    pu_model model;
    pu_report r;
    pu_real *y = (pu_real *)malloc((size_t)n * sizeof *y), *z = (pu_real *)malloc((size_t)n * sizeof *z);
    uint32_t state = 1;
    pu_int i;
    memset(&model, 0, sizeof model);
    if (pu_model_field(&model, 2, size, NULL, 2, 0, &r) || pu_model_simulate(&model, theta, 1, 1, NULL, z, y, &r)) exit(1);
    for (i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        if (state < 1717986918u) y[i] = PU_R(NAN); /* 40 % */
    }
    pu_data data = pu_data_nan(1, n, y);
    if (pu_model_set(&model, theta, &r)) exit(1);
    printf("\nfield 256 x 256, alpha = 2, 40 %% missing\n\n| | steps of the mean | most | processor s | NLL |\n|---|---|---|---|---|\n");
    all_kinds(&model.lgm, &data, model.M);
    pu_model_free(&model);
}

/* Crossed groups as a sparse Phi, and by pu_model_effects, which eliminates the larger one. */
static void ratings(const char *path)
{
    static int32_t level[2][MOST];
    static pu_real y[MOST], psi[MOST];
    static pu_int start[MOST + 1], index[2 * MOST];
    static pu_real value[2 * MOST];
    const pu_real theta[3] = {PU_R(-1.85), PU_R(-1.18), PU_R(-0.155)};
    FILE *file = fopen(path, "r");
    pu_int M = 0, levels[2] = {0, 0}, i, g;
    int user, item, stars;
    char line[256];
    double mean = 0;
    if (!file) exit(1);
    while (M < MOST && fgets(line, sizeof line, file))
        if (sscanf(line, "%d %d %d", &user, &item, &stars) == 3 || sscanf(line, "%d::%d::%d", &user, &item, &stars) == 3) {
            level[0][M] = user - 1, level[1][M] = item - 1, y[M] = (pu_real)stars, mean += stars, M++;
            if (user > levels[0]) levels[0] = user;
            if (item > levels[1]) levels[1] = item;
        }
    fclose(file);
    if (M == 0) exit(1);
    pu_int D = levels[0] + levels[1];
    pu_real *gamma = (pu_real *)malloc((size_t)D * sizeof *gamma);
    for (i = 0; i < D; i++) gamma[i] = (pu_real)exp(-(double)theta[i >= levels[0]]);
    for (i = 0; i < M; i++) {
        y[i] -= (pu_real)(mean / (double)M), psi[i] = (pu_real)exp(-(double)theta[2]);
        start[i + 1] = 2 * i + 2;
        for (g = 0; g < 2; g++) index[2 * i + g] = g * levels[0] + level[g][i], value[2 * i + g] = 1;
    }
    pu_csr csr;
    memset(&csr, 0, sizeof csr);
    csr.rows = M, csr.cols = D, csr.start = start, csr.index = index, csr.value = value;
    pu_op Gamma = pu_op_diagonal(D, gamma), Phi = pu_op_csr(&csr);
    pu_lgm lgm;
    memset(&lgm, 0, sizeof lgm);
    lgm.Gamma = &Gamma, lgm.Phi = &Phi, lgm.psi = psi;
    pu_data data = pu_data_full(1, M, y);
    printf("\n%s: %d + %d levels, %d rows\n\n| | steps of the mean | most | processor s | NLL |\n|---|---|---|---|---|\n", path, (int)levels[0], (int)levels[1], (int)M);
    all_kinds(&lgm, &data, NULL);
    pu_group group[2];
    pu_model model;
    pu_report r;
    pu_real grad[3];
    memset(group, 0, sizeof group);
    memset(&model, 0, sizeof model);
    for (g = 0; g < 2; g++) group[g].level = level[g], group[g].levels = levels[g];
    if (pu_model_effects(&model, M, 2, group, 0, NULL, PU_ML, &r)) exit(1);
    pu_options o = asked(1);
    clock_t began = clock();
    pu_status status = pu_model_gradient(&model, theta, &data, &o, NULL, grad, NULL, &r);
    told("larger group eliminated, diagonal", status, &r, NULL, began);
    pu_model_free(&model);
    free(gamma);
}

/* ---- factors: z of 1,000 entries for each user, y = Phi z + noise, Phi of all ratings ---- */

enum { FACTORS = 1000, STRONG = 20, USERS = 25 };

static double flat(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return ((double)(*state >> 8) + 0.5) / 16777216.0;
}

static double dot(pu_int n, const pu_real *a, const pu_real *b)
{
    double sum = 0;
    for (pu_int i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

/* C v, C = mean of Phi_n'Psi Phi_n over the users: each film counts by its share of them. */
static void mean_product(pu_int films, const pu_real *Phi, const double *share, const pu_real *v, pu_real *to)
{
    memset(to, 0, FACTORS * sizeof *to);
    for (pu_int m = 0; m < films; m++) {
        const double by = share[m] * dot(FACTORS, Phi + m * FACTORS, v);
        for (pu_int d = 0; d < FACTORS; d++) to[d] += (pu_real)(by * (double)Phi[m * FACTORS + d]);
    }
}

/* diag(d) + U U' of the STRONG largest eigenvectors of I + C, by a few steps of orthogonal iteration; what is left of the trace is in d. */
static void strong_factors(pu_int films, const pu_real *Phi, const double *share, pu_real *d, pu_real *U)
{
    static pu_real basis[STRONG][FACTORS], next[FACTORS];
    double lambda[STRONG] = {0}, trace = 0, sum = 0;
    uint32_t state = 3;
    for (pu_int m = 0; m < films; m++) trace += share[m] * dot(FACTORS, Phi + m * FACTORS, Phi + m * FACTORS);
    for (int r = 0; r < STRONG; r++)
        for (pu_int i = 0; i < FACTORS; i++) basis[r][i] = (pu_real)(flat(&state) - 0.5);
    for (int turn = 0; turn < 6; turn++)
        for (int r = 0; r < STRONG; r++) {
            mean_product(films, Phi, share, basis[r], next);
            for (int q = 0; q < r; q++) {
                const double by = dot(FACTORS, basis[q], next);
                for (pu_int i = 0; i < FACTORS; i++) next[i] -= (pu_real)(by * (double)basis[q][i]);
            }
            lambda[r] = sqrt(dot(FACTORS, next, next));
            for (pu_int i = 0; i < FACTORS; i++) basis[r][i] = next[i] / (pu_real)lambda[r];
        }
    for (int r = 0; r < STRONG; r++) sum += lambda[r];
    for (pu_int i = 0; i < FACTORS; i++) {
        d[i] = (pu_real)(1 + (trace - sum) / (FACTORS - STRONG));
        for (int r = 0; r < STRONG; r++) U[i * STRONG + r] = basis[r][i] * (pu_real)sqrt(lambda[r]);
    }
}

/* Loadings with the covariance of the ratings themselves: R G / root(D), R the ratings without their mean (films x users), G normal. The first
   USERS users are the data. */
static void factors(const char *path)
{
    static pu_real d[FACTORS], U[FACTORS * STRONG], factor[STRONG * STRONG];
    static double share[MOST];
    FILE *file = fopen(path, "r");
    pu_int films = 0, users = 0, count = 0, m;
    int user, item, stars;
    char line[256];
    if (!file) exit(1);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "%d%*[ \t:]%d%*[ \t:]%d", &user, &item, &stars) == 3) {
            films = item > films ? item : films;
            users = user > users ? user : users;
        }
    pu_real *Phi = (pu_real *)calloc((size_t)films * FACTORS, sizeof *Phi), *psi = (pu_real *)malloc((size_t)films * 2 * sizeof *psi), *noise = psi + films;
    pu_real *y = (pu_real *)malloc((size_t)films * USERS * sizeof *y);
    for (m = 0; m < films * USERS; m++) y[m] = PU_R(NAN);
    rewind(file);
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%d%*[ \t:]%d%*[ \t:]%d", &user, &item, &stars) != 3) continue;
        uint32_t state = 77u * (uint32_t)user;
        if (user <= USERS) y[(user - 1) * films + item - 1] = PU_R(stars - 3.5), count++;
        share[item - 1] += 1.2 / (double)users;
        for (pu_int i = 0; i < FACTORS; i++) /* variance 1 */
            Phi[(item - 1) * FACTORS + i] += (pu_real)((stars - 3.5) * sqrt(12.0 / FACTORS) * (flat(&state) - 0.5) / sqrt((double)users));
    }
    fclose(file);
    for (m = 0; m < films; m++) psi[m] = PU_R(1.2);
    strong_factors(films, Phi, share, d, U);
    pu_op Gamma = pu_op_identity(FACTORS), Dense = pu_op_dense(films, FACTORS, Phi), M;
    pu_low_rank low = {FACTORS, STRONG, d, U, factor};
    pu_lgm lgm;
    pu_data data = pu_data_nan(USERS, films, y);
    if (pu_low_rank_factor(&low, NULL)) exit(1);
    M = pu_op_low_rank(&low);
    memset(&lgm, 0, sizeof lgm);
    lgm.Gamma = &Gamma, lgm.Phi = &Dense, lgm.psi = psi;
    printf("\n%s: factors, D = %d, %d users with %d ratings\n\n| | steps, mean and most | processor s | NLL |\n|---|---|---|---|\n", path, FACTORS, USERS, (int)count);
    for (int kind = -1; kind < 3; kind++) {
        pu_options o = asked(kind);
        pu_report r;
        double nll, se, steps = 0;
        pu_int most = 0;
        static pu_column columns[USERS * 17];
        pu_gradient_result out;
        clock_t began = clock();
        memset(&out, 0, sizeof out);
        out.columns = columns, out.psi = noise;
        if (kind == 2) o.solve.M = &M, o.solve.preconditioner = PU_PRECOND_DIAGONAL;
        if (kind < 0) {
            memset(&o, 0, sizeof o);
            o.kind = PU_EXACT, o.threads = 1;
        }
        if (kind < 0 ? pu_nll(&lgm, &data, &o, NULL, &nll, &se, &r) : pu_gradient(&lgm, &data, &o, NULL, &out, &r)) {
            char text[400];
            printf("| %d | %s |\n", kind, pu_explain(&r, text, sizeof text));
            continue;
        }
        for (int i = 0; kind >= 0 && i < USERS * 17; i++) {
            steps += (double)columns[i].steps / (USERS * 17);
            most = columns[i].steps > most ? columns[i].steps : most;
        }
        printf("| %s | %.1f, %d | %.2f | %.4f +- %.2g |\n", kind < 0 ? "exact" : kind == 2 ? "low rank and diagonal" : names[kind], steps,
               (int)most, (double)(clock() - began) / CLOCKS_PER_SEC, r.nll, r.nll_95);
        fflush(stdout);
    }
    free(Phi), free(psi), free(y);
}

int main(int argc, char **argv)
{
    int i;
    a_field();
    for (i = 1; i < argc; i++) ratings(argv[i]), factors(argv[i]);
    return 0;
}
