/* user_ops.c - one gradient with a built-in Phi or with the same Phi as a user would write it; float, one thread.

   user_ops CASE builtin|user|unstated
   user_ops cases                       the names of the cases, one per line

   For counting the instructions of pu_gradient (valgrind --tool=callgrind --toggle-collect=puf_gradient): a user's operator
   that states its form costs at most 1.05 times the built-in one. unstated: the same functions with PU_FORM_GENERAL, which
   is what a form saves. Prints one line with a sum over all results, so that one sees that both did the same.

   identity-D, diagonal-D   noisy AR(5), one series of length D, a tenth missing; network gradient, K = 4, I = 10
   ratings                  factor analysis, M = 1,000 items, D = 50 factors, 20 users with 40 to 80 ratings each; output
                            gradient, K = I = 10
   ratings-network          the same, network gradient
   ratings-auto             the same, by the engine that the planner picks */
#define PU_FLOAT
#define PU_IMPLEMENTATION
#include "pu.h"

#include "tests/user_operators.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ORDER = 5, ITEMS = 1000, FACTORS = 50, USERS = 20, FEWEST = 40, SPREAD = 41 };

typedef enum { PHI_IDENTITY, PHI_DIAGONAL, PHI_DENSE } phi_kind;

/* A case of the command line. */
typedef struct {
    const char *name;
    phi_kind phi;
    pu_int D;
    pu_kind kind;
    pu_engine engine;
    pu_int samples, iterations;
} bench_case;

static const bench_case cases[] = {
    {"identity-3000", PHI_IDENTITY, 3000, PU_NETWORK, PU_ITERATIVE, 4, 10},
    {"identity-30000", PHI_IDENTITY, 30000, PU_NETWORK, PU_ITERATIVE, 4, 10},
    {"diagonal-3000", PHI_DIAGONAL, 3000, PU_NETWORK, PU_ITERATIVE, 4, 10},
    {"diagonal-30000", PHI_DIAGONAL, 30000, PU_NETWORK, PU_ITERATIVE, 4, 10},
    {"ratings", PHI_DENSE, FACTORS, PU_OUTPUT, PU_ITERATIVE, 10, 10},
    {"ratings-network", PHI_DENSE, FACTORS, PU_NETWORK, PU_ITERATIVE, 10, 10},
    {"ratings-auto", PHI_DENSE, FACTORS, PU_OUTPUT, PU_ENGINE_AUTO, 10, 10},
};

/* A model, its data, and room for the gradients. */
typedef struct {
    pu_ar ar;
    pu_op Gamma, Phi;
    pu_lgm lgm;
    pu_data data;
    pu_gradient_result out;
} problem;

/* n zeroed elements that live until the program ends. */
static void *need_memory(pu_int n, size_t size)
{
    void *at = calloc((size_t)n, size);
    if (!at) {
        fprintf(stderr, "user_ops: out of memory\n");
        exit(1);
    }
    return at;
}

static pu_real *need_reals(pu_int n)
{
    return (pu_real *)need_memory(n, sizeof(pu_real));
}

/* n standard normals times scale. */
static pu_real *normals(uint64_t seed, pu_int n, double scale)
{
    pu_real *x = need_reals(n);
    pu_int i;
    pu_normals(seed, 0, 0, 0, 0, 0, n, x);
    for (i = 0; i < n; i++) x[i] = (pu_real)(scale * (double)x[i]);
    return x;
}

/* n entries, all of this value. */
static pu_real *constant(pu_int n, pu_real value)
{
    pu_real *x = need_reals(n);
    pu_int i;
    for (i = 0; i < n; i++) x[i] = value;
    return x;
}

/* Ends the program with a word when the library refuses. */
static void need(pu_status status, const pu_report *report)
{
    char text[300];
    if (status == PU_OK) return;
    fprintf(stderr, "user_ops: %s\n", pu_explain(report, text, sizeof text));
    exit(1);
}

/* Noisy AR(5) with Phi the identity or a diagonal. Partial autocorrelations well inside (-1, 1) and strong noise: the
   solver does not reach rounding level in 10 steps. */
static void make_ar(problem *p, const bench_case *c, int builtin)
{
    static const pu_real gamma[ORDER] = {PU_R(0.8), PU_R(-0.5), PU_R(0.4), PU_R(-0.3), PU_R(0.2)};
    const pu_int D = c->D;
    pu_real *a = normals(1, D, 0.2);
    pu_real *wild = normals(2, D, 1);
    pu_real *y = need_reals(D);
    pu_report report;
    pu_int i;
    for (i = 0; i < D; i++) a[i] += 1;
    if (pu_ar_set(&p->ar, D, ORDER, gamma, PU_R(1), NULL) != PU_OK) exit(1);
    p->Gamma = pu_op_ar(&p->ar);
    p->lgm.Gamma = &p->Gamma;
    p->lgm.Phi = &p->Phi;
    p->lgm.psi = constant(D, PU_R(2));
    /* the data come from the built-in operator in any case */
    p->Phi = c->phi == PHI_IDENTITY ? pu_op_identity(D) : pu_op_diagonal(D, a);
    need(pu_simulate(&p->lgm, 1, 7, NULL, NULL, y, &report), &report);
    for (i = 0; i < D; i++) {
        if (wild[i] > PU_R(1.2815516)) y[i] = PU_R(NAN); /* the upper tenth */
    }
    p->data = pu_data_nan(1, D, y);
    if (builtin) return;
    p->Phi = c->phi == PHI_IDENTITY ? user_diagonal(D, 0, NULL) : user_diagonal(D, D, a);
}

/* Lists of observed items for each user: every step from one item to the next is a random one. */
static pu_data make_lists(void)
{
    pu_int *start = (pu_int *)need_memory(USERS + 1, sizeof(pu_int));
    pu_int *index = (pu_int *)need_memory(USERS * ITEMS, sizeof(pu_int));
    pu_int n, at, count = 0;
    uint32_t state = 1;
    for (n = 0; n < USERS; n++) {
        const pu_int wanted = FEWEST + n * 7 % SPREAD;
        const pu_int step = ITEMS / wanted;
        for (at = 0; at < wanted; at++) {
            state = state * 1664525u + 1013904223u;
            index[count] = at * step + (pu_int)(state >> 8) % step;
            count++;
        }
        start[n + 1] = count;
    }
    return pu_data_lists(USERS, ITEMS, start, index, normals(3, count, 1));
}

/* Factor analysis with a dense Phi, most entries missing. */
static void make_ratings(problem *p, const bench_case *c, int builtin)
{
    pu_real *a = normals(4, ITEMS * c->D, 1 / sqrt((double)c->D));
    p->Gamma = pu_op_identity(c->D);
    p->Phi = builtin ? pu_op_dense(ITEMS, c->D, a) : user_dense(ITEMS, c->D, a);
    p->lgm.Gamma = &p->Gamma;
    p->lgm.Phi = &p->Phi;
    p->lgm.eta = normals(5, ITEMS, 0.1);
    p->lgm.psi = constant(ITEMS, PU_R(2));
    p->data = make_lists();
}

/* sum_i |x_i|; x may be NULL. */
static double sum_of(pu_int n, const pu_real *x)
{
    double sum = 0;
    pu_int i;
    if (!x) return 0;
    for (i = 0; i < n; i++) sum += fabs((double)x[i]);
    return sum;
}

/* One gradient of a case, all parameters. */
static void run_case(const bench_case *c, int builtin, int stated)
{
    static problem p;
    pu_options o;
    pu_report report;
    pu_workspace ws;
    double sum;
    if (c->phi == PHI_DENSE) make_ratings(&p, c, builtin);
    else make_ar(&p, c, builtin);
    if (!stated) p.Phi.form = PU_FORM_GENERAL;
    if (p.Gamma.params > 0) p.out.Gamma = need_reals(p.Gamma.params);
    if (p.Phi.params > 0) p.out.Phi = need_reals(p.Phi.params);
    if (p.lgm.eta) p.out.eta = need_reals(p.Phi.rows);
    p.out.psi = need_reals(p.Phi.rows);
    memset(&o, 0, sizeof o);
    memset(&ws, 0, sizeof ws);
    o.kind = c->kind;
    o.engine = c->engine;
    o.samples = c->samples;
    o.solve.iterations = c->iterations;
    o.threads = 1;
    need(pu_gradient(&p.lgm, &p.data, &o, &ws, &p.out, &report), &report);
    sum = sum_of(p.Gamma.params, p.out.Gamma) + sum_of(p.Phi.params, p.out.Phi);
    sum += sum_of(p.Phi.rows, p.out.eta) + sum_of(p.Phi.rows, p.out.psi);
    printf("%s: sum of the gradient's absolute entries %.6g, q %.6g\n", c->name, sum, report.q);
    pu_workspace_free(&ws);
}

/* Prints how the program is called. */
static int usage(void)
{
    fprintf(stderr, "usage: user_ops CASE builtin|user|unstated, or user_ops cases\n");
    return 2;
}

int main(int argc, char **argv)
{
    const size_t count = sizeof cases / sizeof *cases;
    size_t i;
    if (argc == 2 && strcmp(argv[1], "cases") == 0) {
        for (i = 0; i < count; i++) printf("%s\n", cases[i].name);
        return 0;
    }
    if (argc != 3) return usage();
    if (strcmp(argv[2], "builtin") != 0 && strcmp(argv[2], "user") != 0 && strcmp(argv[2], "unstated") != 0) return usage();
    for (i = 0; i < count; i++) {
        if (strcmp(cases[i].name, argv[1]) != 0) continue;
        run_case(&cases[i], strcmp(argv[2], "builtin") == 0, strcmp(argv[2], "unstated") != 0);
        return 0;
    }
    return usage();
}
