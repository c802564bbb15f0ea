/* state_space.c - a hidden linear system seen through noise, with gaps: fit, standard errors, imputation, forecast.

   cc -O3 -march=native -fopenmp -I. examples/state_space.c -o state_space -lm
   nvcc -O3 -x cu -DPU_CUDA -I. examples/state_space.c -o state_space -lcublas -lcufft -lcurand       (for --device cuda)
   ./state_space --length 2000 --states 2 --hide 0.1 --forecast 24 --svg ss.svg     simulated
   ./state_space --data lynx.csv --columns value --transform log --states 3          a column of a file
   ./state_space --data stocks.csv --columns DAX,CAC,FTSE --states 1 --unit          columns as a vector: a dynamic factor model
   ./state_space --data sales.csv --columns north,south --each --intercept --regress price

   z_t = A z_{t-1} + N(0, Q),   y_t = C z_t + d + B x_t + N(0, diag sigma2),   z_t of S states, begun in its stationary distribution,
   at zero, or diffuse. d: --intercept, else the mean is taken out before. x_t: columns of the file (--regress). Several columns are
   the entries of y_t; --each: series of their own with the same parameters, y_t = c'z_t + d + b'x_t + N(0, sigma2).

   Other coordinates of the states give the same y, so A, C, Q are not to be compared with a truth one by one (nor have they
   standard errors); sigma2, d, B, the eigenvalues of A, the likelihood and what is said about y are. --unit fixes Q = I: with one
   state only the sign of C is then open, and there are standard errors of everything; more states may still be rotated. --anchor fixes the first S rows of C
   at I, the first S columns see a state each: then everything is known, whatever S. A diffuse start needs that: "nothing is known"
   is said in the units of the states, so that its likelihood has no maximum when those are free.
*/
#define _POSIX_C_SOURCE 200809L /* the clock in program.h */
#define PU_IMPLEMENTATION
#include "pu.h"

#include "common/program.h"
#include "common/fit.h"
#include "common/series.h"
#include "common/ar.h"
#include "common/estimates.h"
#include "common/series_report.h"

enum { S_MAX = 64, DIFFUSE = 2 }; /* S_MAX: the covariance of 1.5 S^2 parameters; DIFFUSE: place of that word in --start */

/* The system, what is fixed of it, regressors around it. theta = [entries of the system that are free | b]; the system has
   [A | c | L | log sigma2], as a vector [A | C | L | d | log sigma2], and b then the regressors of the first output, of the second, .. */
typedef struct {
    pu_model system, fixed, around;
    pu_model *model;                /* the one that is fitted */
    int S, outputs, unit, anchor;   /* outputs: entries of a vector; 1 also where series are no vectors */
    pu_int C, L, d, sigma2;         /* where they begin in the system's theta; d = sigma2 where there is none */
    pu_int *from;                   /* of the system's entries: place in theta, or PU_ZERO */
    pu_real *value;                 /* what they are fixed at */
    pu_int open;                    /* how many of them are free */
    pu_int columns;                 /* regressors of each output, without an intercept that is d */
    pu_real *X;                     /* of a vector: steps outputs x outputs columns */
} space;

/* What the command line asks for. */
typedef struct {
    long length, count, states, outputs, starts;
    double missing;
    int optimizer, start, each, unit, anchor;
} request;

/* Damped rotations, two states each, with their own frequencies, and a slow decay when a state is left over. Outputs see the
   states in proportions of their own. With Q = I what was in Q is in C. */
static void make_truth(const space *m, int intercept, pu_real *theta)
{
    const int S = m->S;
    pu_real *C = theta + m->C, *L = theta + m->L;
    int i, r;
    for (i = 0; i + 1 < S; i += 2) {
        const double radius = 0.97, angle = 0.5 / (1 + i / 2);
        theta[i * S + i] = theta[(i + 1) * S + i + 1] = (pu_real)(radius * cos(angle));
        theta[i * S + i + 1] = (pu_real)(-radius * sin(angle)), theta[(i + 1) * S + i] = (pu_real)(radius * sin(angle));
    }
    if (S % 2) theta[S * S - 1] = PU_R(0.9);
    for (r = 0; r < m->outputs; r++) {
        for (i = 0; i < S; i++) {
            const double turn = 0.8 * (1 + i / 2);
            C[r * S + i] = (pu_real)((i % 2 ? sin(turn * r) : cos(turn * r)) * (m->unit ? 0.3 : 1));
        }
        for (i = 0; i < S && m->anchor && r < S; i++) C[r * S + i] = (pu_real)(i == r);
        theta[m->sigma2 + r] = (pu_real)log(0.25);
        if (m->d < m->sigma2) theta[m->d + r] = (pu_real)(intercept ? 1 : 0);
    }
    for (i = 0; i < S; i++) L[i * (i + 1) / 2 + i] = m->unit ? PU_R(0) : (pu_real)log(0.3);
}

/* The system itself, and what is to be fixed of it: L at I, or the upper part of C; d at 0 where the mean has been taken out. */
static void make_system(space *m, const request *ask, const series *s)
{
    static const pu_ssm_start starts[] = {PU_SSM_STATIONARY, PU_SSM_ZERO, PU_SSM_DIFFUSE};
    const int S = (int)ask->states;
    pu_report told;
    pu_int i, last;
    m->S = S, m->unit = ask->unit, m->anchor = ask->anchor, m->outputs = s->vector ? (int)s->count : 1;
    if (s->vector)
        need(pu_model_dynamic_factors(&m->system, s->length, s->count, S, starts[ask->start], &told), &told);
    else
        need(pu_model_state_space(&m->system, s->length, S, starts[ask->start], &told), &told);
    last = m->system.params;
    m->C = S * S, m->L = m->C + m->outputs * S, m->sigma2 = last - m->outputs;
    m->d = s->vector ? m->sigma2 - m->outputs : m->sigma2;
    m->from = (pu_int *)need_bytes((size_t)last * sizeof *m->from);
    m->value = need_reals(last); /* zeros: d, L below its diagonal, and the logarithm of that */
    for (i = 0; i < last; i++) {
        const int fixed = (m->unit && i >= m->L && i < m->d) || (!s->intercept && i >= m->d && i < m->sigma2);
        const int anchored = m->anchor && i >= m->C && i < m->C + S * S;
        m->from[i] = fixed || anchored ? PU_ZERO : m->open++;
        if (anchored) m->value[i] = (pu_real)((i - m->C) % (S + 1) == 0);
    }
}

/* And the models around it: s->X for series of their own; for a vector every output has coefficients of its own. */
static void make_space(space *m, const request *ask, const series *s)
{
    const pu_int skip = s->vector && s->intercept, p = s->regressors;
    const pu_real *X = s->X;
    pu_report told;
    pu_int t, r, k, q;
    make_system(m, ask, s);
    q = m->outputs;
    m->model = &m->system;
    m->columns = p - skip;
    if (m->open < m->system.params) {
        need(pu_model_fix(&m->fixed, &m->system, m->from, m->value, &told), &told);
        m->model = &m->fixed;
    }
    if (!m->columns) return;
    if (s->vector) {
        X = m->X = need_reals(s->length * q * q * m->columns);
        for (t = 0; t < s->length; t++)
            for (r = 0; r < q; r++)
                for (k = 0; k < m->columns; k++)
                    m->X[((t * q + r) * q + r) * m->columns + k] = s->X[t * p + skip + k];
    }
    need(pu_model_regressors(&m->around, m->model, q * m->columns, X, 0, &told), &told);
    m->model = &m->around;
}

static void free_space(space *m)
{
    free(m->from), free(m->value), free(m->X);
    pu_model_free(&m->around);
    pu_model_free(&m->fixed);
    pu_model_free(&m->system);
}

/* theta of a simulation, and that. A diffuse state cannot be drawn: it is stationary then. */
static void simulate(space *m, const request *ask, series *s, uint64_t seed, pu_real *theta)
{
    pu_real *full = need_reals(m->system.params);
    request drawn = *ask;
    space from;
    pu_int i;
    memset(&from, 0, sizeof from);
    make_truth(m, s->intercept, full);
    for (i = 0; i < m->system.params; i++)
        if (m->from[i] >= 0) theta[m->from[i]] = full[i];
    if (s->intercept && !s->vector) theta[m->open] = 1;
    if (ask->start == DIFFUSE) drawn.start = 0;
    make_space(&from, &drawn, s);
    series_simulate(s, from.model, theta, s->count, ask->missing, seed);
    free_space(&from);
    free(full);
}

/* What is fixed moves scales to where they are free: states of a start have variance one, see pu_model_state_space. */
static void adjust_start(const space *m, pu_real *theta)
{
    int r, k;
    for (k = 0; k < m->S; k++) {
        const double a = (double)theta[k * (m->S + 1)], innovation = sqrt(fmax(1 - a * a, 0.01));
        for (r = 0; r < m->outputs && m->unit; r++) theta[m->from[m->C + r * m->S + k]] *= (pu_real)innovation;
        if (m->anchor) theta[m->from[m->L + k * (k + 3) / 2]] += theta[m->from[m->sigma2 + k]] / 2;
    }
}

/* An entry of the system by its name: where outputs are columns of a file, that of the column stands for the number. */
static void name_entry(const space *m, const series *s, pu_int i, pu_param *param, char *name)
{
    if (pu_model_param(&m->system, i, param)) fail(1, "pu_model_param", "failed");
    if (s->vector && i >= m->C && i < m->L)
        snprintf(name, ESTIMATE_NAME, "C.%s[%d]", s->table.name[(i - m->C) / m->S], (int)((i - m->C) % m->S));
    else if (s->vector && i >= m->d)
        snprintf(name, ESTIMATE_NAME, "%s.%s", i < m->sigma2 ? "d" : "sigma2", s->table.name[(i - m->d) % m->outputs]);
    else snprintf(name, ESTIMATE_NAME, "%s", param->name);
}

/* One for each entry of theta, in its order. */
static void make_estimates(const space *m, const series *s, const pu_real *theta, const pu_real *C, estimate *e)
{
    const pu_int n = m->model->params, skip = s->regressors - m->columns;
    estimate *of = (estimate *)need_bytes((size_t)(s->regressors + 1) * sizeof *of);
    pu_int *at = (pu_int *)need_bytes((size_t)(s->regressors + 1) * sizeof *at), i, r, k;
    for (i = 0; i < m->system.params; i++)
        if (m->from[i] >= 0) {
            estimate *one = e + m->from[i];
            pu_param param;
            name_entry(m, s, i, &param, one->name);
            estimate_make(&param, theta[m->from[i]], C[m->from[i] * (n + 1)], (double)NAN, one);
        }
    if (!s->vector) estimate_last(s, theta, C, n, NULL, e + m->open);
    for (r = 0; r < m->outputs && s->vector && s->regressors; r++) {
        if (skip) at[0] = m->from[m->d + r];
        for (k = 0; k < m->columns; k++) at[skip + k] = m->open + r * m->columns + k;
        estimate_regressors(s, theta, C, n, at, NULL, of);
        for (k = 0; k < s->regressors; k++) {
            estimate *one = e + at[k];
            if (k >= skip) snprintf(one->name, ESTIMATE_NAME, "b.%s.%s", s->regressor[k], s->table.name[r]);
            one->value = of[k].value, one->se = of[k].se, one->low = of[k].low, one->high = of[k].high, one->truth = of[k].truth;
        }
    }
    free(of), free(at);
}

/* |largest eigenvalue| of A, by its powers: the memory of the system. */
static double radius_of(const pu_ssm *m)
{
    const int S = (int)m->states;
    double *B = (double *)need_bytes((size_t)(2 * S * S) * sizeof *B), *T = B + S * S, log_scale = 0, power = 1;
    int i, j, l, step;
    for (i = 0; i < S * S; i++) B[i] = (double)m->A[i];
    for (step = 0; step < 30; step++, power *= 2) { /* A^(2^step) = exp(log_scale) B */
        double size = 0;
        for (i = 0; i < S * S; i++) size = fmax(size, fabs(B[i]));
        if (!(size > 0)) {
            free(B);
            return 0;
        }
        log_scale += log(size);
        for (i = 0; i < S * S; i++) B[i] /= size;
        for (i = 0; i < S; i++)
            for (j = 0; j < S; j++)
                for (T[i * S + j] = 0, l = 0; l < S; l++) T[i * S + j] += B[i * S + l] * B[l * S + j];
        memcpy(B, T, (size_t)(S * S) * sizeof *B), log_scale *= 2;
    }
    free(B);
    return exp(log_scale / power);
}

/* Where what is said about y begins, behind the coordinates of the states: d or sigma2. */
static int of_y(const space *m) { return (int)(m->from[m->sigma2] - (m->from[m->d] >= 0 ? m->sigma2 - m->d : 0)); }

/* Those that can be read: with a standard error, or of y and not of the coordinates of the states. Returns how many. */
static int readable(const space *m, int count, const estimate *e, estimate *shown)
{
    int k, n = 0;
    for (k = 0; k < count; k++)
        if (e[k].se == e[k].se || k >= of_y(m)) shown[n++] = e[k];
    return n;
}

static void print_estimates(const space *m, int has_errors, int count, const estimate *e)
{
    estimate *shown = (estimate *)need_bytes((size_t)count * sizeof *shown);
    const int n = readable(m, count, e, shown);
    estimates_print(n, shown, 0);
    if (n < count && has_errors)
        printf("  %d parameters of A, C, Q have no standard error: other coordinates of the states do as well%s\n", count - n,
               m->unit ? " (--anchor)" : " (--unit, --anchor)");
    free(shown);
}

static void print_matrix(int rows, int columns, const char *name, const pu_real *x)
{
    int i;
    printf("  %s", name);
    for (i = 0; i < rows * columns; i++) printf("%s %9.4f", i && i % columns == 0 ? "\n   " : "", (double)x[i]);
    printf("\n");
}

static void write_json(const fit_flags *flags, const space *m, const series *s, const pu_fit_report *report, const double *nll,
                       const pu_real *full, const estimate *e)
{
    const pu_ssm *ssm = pu_model_get_ssm(m->model);
    const int S = m->S, count = (int)m->model->params;
    pu_real *sigma2 = need_reals(m->outputs);
    json j = json_open(flags->json);
    int r;
    for (r = 0; r < m->outputs; r++) sigma2[r] = (pu_real)exp((double)full[m->sigma2 + r]);
    json_fit(&j, flags, report, nll[0], nll[1]);
    json_converged(&j, report);
    json_number(&j, "states", (double)S);
    json_array(&j, "A", S * S, ssm->A);
    json_array(&j, s->vector ? "C" : "c", m->outputs * S, full + m->C);
    json_array(&j, "Q", S * S, ssm->Q);
    if (s->vector) json_array(&j, "sigma2", m->outputs, sigma2);
    else json_number(&j, "sigma2", (double)sigma2[0]);
    json_number(&j, "spectral_radius", radius_of(ssm));
    json_estimates(&j, "parameters", count, e, 0);
    json_estimates(&j, "standard_errors", count, e, 1);
    if (report->starts > 1) json_number(&j, "starts", (double)report->starts), json_number(&j, "near_best", (double)report->near_best);
    if (!s->data) json_number(&j, "nll_truth", nll[2]);
    series_json(s, &j);
    json_close(&j);
    free(sigma2);
}

/* ---- the page of --report ---- */

/* States are drawn where they have coordinates of their own: with --anchor, or a single one with --unit. */
static void report_states(const report_page *r, space *m, series *s, const pu_real *theta, const pu_options *options)
{
    const pu_data data = s->vector ? series_data(s) : pu_data_nan(1, s->length, s->y);
    double *curve = (double *)need_bytes(3 * sizeof(double) * (size_t)s->length);
    const int S = m->S;
    pu_posterior_result out;
    pu_report told;
    char label[2 * CSV_NAME], name[3 * CSV_NAME];
    svg_plot p;
    pu_int t;
    int i, side;
    memset(&out, 0, sizeof out);
    out.mean = need_reals(2 * s->length * S), out.variance = out.mean + s->length * S;
    need(pu_model_posterior(m->model, theta, &data, options, NULL, &out, &told), &told);
    report_section(r, S == 1 ? "The hidden state" : "The hidden states");
    for (i = 0; i < S && i < SERIES_PANELS; i++) {
        for (t = 0; t < s->length; t++)
            for (side = -1; side <= 1; side++)
                curve[3 * t + side + 1] = (double)out.mean[t * S + i] + side * 1.96 * sqrt((double)out.variance[t * S + i]);
        if (m->anchor && s->vector) snprintf(name, sizeof name, "state %d (%s)", i + 1, series_label(s, i, label));
        else snprintf(name, sizeof name, "state %d", i + 1);
        memset(&p, 0, sizeof p);
        p.file = r->file, p.title = p.y_label = name, p.height = 130;
        report_figure(r);
        series_panel(s, &p, curve, -1, series_end(s, 400), s->length, NULL);
        report_caption(r, "Now it is %s (95 %%: %s to %s).%s", report_digits(3, curve[3 * (s->known - 1) + 1]),
                       report_digits(3, curve[3 * (s->known - 1)]), report_digits(3, curve[3 * (s->known - 1) + 2]),
                       m->anchor ? " Its unit is that of the column it is anchored to."
                                 : " Its unit is its innovation; with the sign of C turned over, it would be upside down.");
    }
    if (S > SERIES_PANELS) report_text(r, "%d more states are left out here.", S - SERIES_PANELS);
    free(out.mean), free(curve);
}

/* How each column sees the states, with 95 % intervals. */
static void report_loadings(const report_page *r, const space *m, const series *s, const estimate *e)
{
    enum { MOST = 40 };
    svg_row row[MOST];
    svg_plot p;
    int i, k, most = -1, n;
    report_section(r, "How the columns see the states");
    for (i = 0; i < m->S && i < 4; i++) {
        char head[32];
        for (k = 0, n = 0, most = -1; k < m->outputs && n < MOST; k++) {
            const pu_int at = m->from[m->C + k * m->S + i];
            if (at < 0) continue; /* anchored */
            snprintf(row[n].name, sizeof row[n].name, "%.60s", s->table.name[k]);
            row[n].low = e[at].low, row[n].value = e[at].value, row[n].high = e[at].high;
            if (most < 0 || fabs(row[n].value) > fabs(row[most].value)) most = n;
            n++;
        }
        if (n == 0) continue;
        memset(&p, 0, sizeof p);
        *head = 0;
        if (m->S > 1) snprintf(head, sizeof head, "state %d", i + 1);
        p.file = r->file, p.title = "loadings with 95 % intervals", p.x_label = "loading (units of the column per unit of the state)";
        report_figure(r);
        svg_forest(&p, n, row, head, 1);
        report_caption(r, "%s%s moves most with the state, by %s per unit of it.%s",
                       row[most].high > row[most].low ? "Bars are 95 % intervals. " : "", row[most].name,
                       report_digits(3, row[most].value), m->outputs > MOST ? " The first 40 columns." : "");
    }
}

/* Gauss with pivots: S rows of S + 1 complex numbers; the solution comes in the last column. */
static void solve_complex(int S, double *M)
{
    const int width = 2 * (S + 1);
    int i, j, l, k;
    for (i = 0; i < S; i++) {
        int best = i;
        double size;
        for (l = i + 1; l < S; l++)
            if (hypot(M[l * width + 2 * i], M[l * width + 2 * i + 1]) > hypot(M[best * width + 2 * i], M[best * width + 2 * i + 1])) best = l;
        for (k = 0; k < width && best != i; k++) {
            const double swap = M[i * width + k];
            M[i * width + k] = M[best * width + k], M[best * width + k] = swap;
        }
        size = M[i * width + 2 * i] * M[i * width + 2 * i] + M[i * width + 2 * i + 1] * M[i * width + 2 * i + 1];
        for (l = 0; l < S; l++) {
            const double *p = M + i * width + 2 * i, *x = M + l * width + 2 * i;
            const double re = (x[0] * p[0] + x[1] * p[1]) / size, im = (x[1] * p[0] - x[0] * p[1]) / size;
            for (j = i; j <= S && l != i; j++) {
                const double *from = M + i * width + 2 * j;
                M[l * width + 2 * j] -= re * from[0] - im * from[1], M[l * width + 2 * j + 1] -= re * from[1] + im * from[0];
            }
        }
    }
    for (i = 0; i < S; i++) {
        const double *p = M + i * width + 2 * i;
        double *x = M + i * width + 2 * S;
        const double size = p[0] * p[0] + p[1] * p[1], re = (x[0] * p[0] + x[1] * p[1]) / size;
        x[1] = (x[1] * p[0] - x[0] * p[1]) / size, x[0] = re;
    }
}

/* Densities of the first outputs without their noise, |c' (e^iw I - A)^-1 Q^1/2|^2: x solves the transposed system for c. */
static void report_spectrum(const report_page *r, const space *m, const series *s, const pu_real *full)
{
    const pu_ssm *ssm = pu_model_get_ssm(m->model);
    const int S = m->S, curves = m->outputs < SPECTRA ? m->outputs : SPECTRA;
    double *density = (double *)need_bytes(sizeof(double) * SPECTRA * SPECTRUM);
    double *M = (double *)need_bytes(sizeof(double) * (size_t)(2 * S * (S + 1)));
    const int steady = radius_of(ssm) < 0.9999;
    int f, k, i, j, l;
    for (f = 0; f < SPECTRUM && steady; f++)
        for (k = 0; k < curves; k++) {
            const double turn = 3.14159265358979323846 * (f + 0.5) / SPECTRUM;
            double sum = 0;
            for (i = 0; i < S; i++) { /* rows of [e^iw I - A' | c], real and imaginary parts side by side */
                for (j = 0; j < S; j++)
                    M[2 * (i * (S + 1) + j)] = -(double)ssm->A[j * S + i] + (i == j ? cos(turn) : 0),
                                         M[2 * (i * (S + 1) + j) + 1] = i == j ? sin(turn) : 0;
                M[2 * (i * (S + 1) + S)] = (double)full[m->C + k * S + i], M[2 * (i * (S + 1) + S) + 1] = 0;
            }
            solve_complex(S, M);
            for (i = 0; i < S; i++)
                for (l = 0; l < S; l++) {
                    const double *x = M + 2 * (i * (S + 1) + S), *z = M + 2 * (l * (S + 1) + S);
                    sum += (double)ssm->Q[i * S + l] * (x[0] * z[0] + x[1] * z[1]);
                }
            density[k * SPECTRUM + f] = sum;
        }
    if (steady) series_report_spectrum(r, s, curves, density, m->outputs == 1 ? exp((double)full[m->sigma2]) : 0);
    free(density), free(M);
}

static void report_innovations(const report_page *r, const space *m, const series *s, const pu_real *full, double nll)
{
    const pu_ssm *ssm = pu_model_get_ssm(m->model);
    const pu_lgm *lgm = &m->model->lgm;
    const int S = m->S, q = m->outputs;
    const pu_int data = s->vector ? 1 : s->count;
    double *room = (double *)need_bytes((size_t)(2 * S * S + q * S) * sizeof *room), found = 0;
    double *y = (double *)need_bytes((size_t)(s->length * q) * sizeof *y), *got = (double *)need_bytes((size_t)(s->length * q) * sizeof *got);
    double *e = (double *)need_bytes((size_t)(s->count * s->length) * sizeof *e);
    innovations_system system;
    innovations_check check;
    pu_int n, t;
    int i, k;
    for (i = 0; i < S * S; i++) room[i] = (double)ssm->A[i], room[S * S + i] = (double)ssm->Q[i];
    for (i = 0; i < q * S; i++) room[2 * S * S + i] = (double)full[m->C + i];
    system.S = S, system.outputs = q, system.A = room, system.Q = room + S * S, system.C = room + 2 * S * S, system.P0 = ssm->P0,
    system.psi = lgm->psi;
    if (ssm->P0[0] < HUGE_VAL && innovations_work(&system, s->length) * (double)data < 3e9) {
        for (n = 0; n < data; n++) {
            for (t = 0; t < s->length; t++)
                for (k = 0; k < q; k++) {
                    const pu_int from = (n + k) * s->length + t; /* series of their own have one output each */
                    y[t * q + k] = (double)s->y[from] - (lgm->eta ? (double)lgm->eta[t * q + k] : 0);
                }
            found += innovations(&system, s->length, y, got) / (double)data;
            for (t = 0; t < s->length; t++)
                for (k = 0; k < q; k++) e[(n + k) * s->length + t] = got[t * q + k];
        }
        innovations_look(s->count, s->length, e, &check);
        innovations_report(r, s, &check, found, nll);
    }
    free(room), free(y), free(got), free(e);
}

static void write_report(space *m, series *s, const pu_real *theta, const pu_real *full, const pu_options *options, const outcome *o)
{
    const double radius = radius_of(pu_model_get_ssm(m->model));
    const pu_fit_report *fit = o->report;
    const estimate *e = o->e;
    const int count = o->count, known = m->anchor || (m->unit && m->S == 1);
    estimate *shown = (estimate *)need_bytes((size_t)count * sizeof *shown);
    report_page r = series_report_open(s);
    char text[1000], memory[300];
    int n = readable(m, count, e, shown);
    if (radius >= 1) snprintf(memory, sizeof memory, "The states have no resting point: the spectral radius of A is %.4f.", radius);
    else snprintf(memory, sizeof memory, "What lasts longest in the states has lost half of its size after %s steps (spectral radius %.4f).",
                  report_digits(2, radius > 0.5 ? log(0.5) / log(radius) : 1), radius);
    series_say_forecast(s, text, sizeof text);
    report_answer(&r, "%s", *text ? text : memory);
    report_doubts(&r, fit, o->has_errors, known ? count : count - of_y(m), known ? e : e + of_y(m));
    series_report_pictures(&r, s);
    report_text(&r, "A hidden state of %d number%s behind %ld series of %ld values%s. %s", m->S, m->S == 1 ? "" : "s", (long)s->count,
                (long)s->known, s->vector ? ", which are the entries of one vector" : "", *text ? memory : "");
    if (known && (s->vector || s->count == 1)) report_states(&r, m, s, theta, options);
    if (known && s->vector) report_loadings(&r, m, s, e);
    report_spectrum(&r, m, s, full);
    report_innovations(&r, m, s, full, o->nll);
    series_report_forecast(&r, s);
    report_section(&r, "Parameters");
    *text = 0;
    if (n < count)
        report_add(text, sizeof text, "%d parameters of A, C and Q are left out: other coordinates of the states do as well%s.",
                   count - n, m->unit ? "; --anchor fixes them" : "; --unit or --anchor fixes them");
    report_add(text, sizeof text, "sigma2: variance of the noise. Negative log-likelihood%s: %.6g.", s->vector ? "" : " per series", o->nll);
    if (fit->starts > 1) report_add(text, sizeof text, "%ld of %ld starts reach it.", (long)fit->near_best, (long)fit->starts);
    report_estimates(&r, n, shown, 0, text);
    report_end(&r);
    free(shown);
}

static void read_options(int argc, char **argv, request *ask, series *s, fit_flags *flags)
{
    static option list[FIT_FLAGS + SERIES_FLAGS + 13];
    int n = 0;
    memset(ask, 0, sizeof *ask);
    series_default(s), fit_flags_default(flags);
    flags->rate = 0;
    ask->length = 1000, ask->count = 3, ask->states = 2, ask->outputs = 1, ask->starts = 1, ask->missing = 0.1;
    list[n++] = opt_heading("the model");
    list[n++] = opt_number("states", "S, size of the hidden state", &ask->states, 1, S_MAX);
    list[n++] = opt_choice("start", "of the state, what is known of it at first", &ask->start, "stationary,zero,diffuse");
    list[n++] = opt_flag("unit", "fix Q = I", &ask->unit);
    list[n++] = opt_flag("anchor", "fix the first S rows of C at I", &ask->anchor);
    list[n++] = opt_flag("each", "several columns are series with the same parameters, not the entries of a vector", &ask->each);
    list[n++] = opt_number("starts", "fits from so many starts; the best one counts", &ask->starts, 1, 1000);
    list[n++] = opt_number("length", "simulate: entries of a series", &ask->length, 1, 100000000);
    list[n++] = opt_number("series", "simulate: how many, with the same parameters", &ask->count, 1, CSV_COLUMNS);
    list[n++] = opt_number("outputs", "simulate: a single series of vectors of this size", &ask->outputs, 1, CSV_COLUMNS);
    list[n++] = opt_real("missing", "simulate: share of missing entries", &ask->missing, 0, 0.99);
    list[n++] = opt_choice("optimizer", "of the fit; without --rate its own: 1, 0.1, 0.01", &ask->optimizer, "lbfgs,adam,sgd");
    n += series_flags_table(s, list + n);
    n += series_regress_table(s, list + n);
    n += fit_flags_table(flags, list + n);
    program_more =
        "--data is a CSV file: names in the first line, then a row for each time, in order; empty cells, NA and NaN are gaps. Without --data\n"
        "series are simulated.\n\n"
        "  state_space --data lynx.csv --time time --columns value --transform log --states 3 --forecast 20 --report lynx.html\n"
        "  state_space --data stocks.csv --columns DAX,CAC,FTSE --states 1 --unit      columns as a vector: a dynamic factor model\n"
        "  state_space --data sales.csv --columns north,south --each --intercept --regress price\n\n"
        "Tables go to standard output, progress to stderr, files only where an option names one: --report, --svg, --json, --save.";
    options_read(argc, argv, "state_space",
                 "Fits a linear state space model to series with gaps. Several columns are a vector per time step (a dynamic factor\n"
                 "model); with --each they are series with the same parameters, and \"nll\" is the mean over them.", n, list);
    options_apart(argc, argv, "data", "length,series,missing,outputs");
    if (ask->outputs > 1 && option_given(argc, argv, "series", 6)) fail(2, "--series", "and --outputs: a series of vectors is one");
    if (ask->unit && ask->anchor) fail(2, "--unit", "and --anchor: one of them is enough");
    if (ask->start == DIFFUSE && !ask->anchor)
        fail(2, "--start diffuse", "needs --anchor: its likelihood has no maximum in free coordinates of the states");
    if (!s->data && ask->each) fail(2, "--each", "is for columns of --data");
    series_regress_check(s);
    s->vector = s->data ? !ask->each : ask->outputs > 1;
    if (!s->data) s->count = (pu_int)(s->vector ? ask->outputs : ask->count);
}

int main(int argc, char **argv)
{
    static const char *const starts[] = {"stationary", "at zero", "diffuse"};
    static series s;
    static space m;
    request ask;
    fit_flags flags;
    double nll[3] = {0, 0, 0}; /* of the fit, its error, at the truth */
    int r, has_se;
    pu_real *theta, *full, *C;
    estimate *e;
    pu_data data;
    pu_fit_options fit;
    pu_fit_report report;
    pu_options exact;
    pu_report told;
    outcome o;
    pu_int i;

    read_options(argc, argv, &ask, &s, &flags);
    device_open();
    memset(&exact, 0, sizeof exact);
    exact.engine = PU_ENGINE_AUTO, exact.kind = PU_EXACT, exact.threads = (int)flags.threads;

    /* the series and the model */
    if (s.data) series_load(&s);
    else s.known = (pu_int)ask.length, s.length = s.known + (pu_int)s.forecast;
    if (s.count == 1) s.vector = 0;
    if (ask.anchor && ask.states > (s.vector ? (long)s.count : 1))
        fail(2, "--anchor", "needs as many columns as states, as a vector");
    series_regressors(&s, s.intercept);
    make_space(&m, &ask, &s);
    theta = need_reals(m.model->params), C = need_reals(m.model->params * m.model->params), full = need_reals(m.system.params);
    e = (estimate *)need_bytes((size_t)m.model->params * sizeof *e);
    if (!s.data) simulate(&m, &ask, &s, (uint64_t)flags.seed, theta);
    series_hide(&s, (uint64_t)flags.seed);
    data = series_data(&s);
    if (!s.data) need(pu_model_nll(m.model, theta, &data, &exact, NULL, &nll[2], NULL, &told), &told);

    /* the fit, and what it is worth */
    fit_flags_options(&flags, &fit);
    fit.optimizer = ask.optimizer == 0 ? PU_LBFGS : ask.optimizer == 1 ? PU_ADAM : PU_SGD;
    fit.fixed_probes = fit.optimizer == PU_LBFGS; /* it needs a deterministic gradient */
    fit.starts = (pu_int)ask.starts;
    need(pu_model_start(m.model, &data, 0, theta, &told), &told); /* 0: that from the moments of the data, nothing random */
    adjust_start(&m, theta);
    fit_run(m.model, &data, &fit, NULL, theta, &report);
    has_se = estimates_errors(m.model, &data, &exact, &flags, &report, theta, C);
    fit_nll(m.model, theta, &data, &fit.gradient, NULL, &nll[0], &nll[1], &told);
    for (i = 0; i < m.system.params; i++) full[i] = m.from[i] >= 0 ? theta[m.from[i]] : m.value[i];
    make_estimates(&m, &s, theta, C, e);
    series_look(&s, m.model, theta, &exact);

    if (!flags.quiet) {
        const pu_ssm *ssm = pu_model_get_ssm(m.model);
        printf("state space model of %ld states: %ld series of %ld entries%s, start %s\n", ask.states, (long)s.count, (long)s.known,
               s.vector ? " as one of vectors" : "", starts[ask.start]);
        printf("  %ld steps, %ld gradients in %.2f s (%s)\n  device %s: %s\n\n", (long)report.step, (long)report.gradients, report.seconds,
               pu_fit_stop_text(report.stop), device_name, report.last.plan);
        print_matrix(m.S, m.S, "A", ssm->A);
        print_matrix(m.outputs, m.S, s.vector ? "C" : "c", full + m.C);
        printf("\n  spectral radius %.4f, sigma2", radius_of(ssm));
        for (r = 0; r < m.outputs; r++) printf(" %.5g", exp((double)full[m.sigma2 + r]));
        printf("%s\n\n", s.data ? "" : ask.states == 1 ? " (truth 0.9, 0.25)" : " (truth 0.97, 0.25)");
        print_estimates(&m, has_se, (int)m.model->params, e);
        estimates_explain(&report, has_se);
        printf("\n  NLL%s %.6f", s.vector ? "" : " per series", nll[0]);
        if (nll[1] > 0) printf(" +- %.2g from %s", nll[1], report.last.served[PU_ITERATIVE] ? "probes" : "rounding");
        if (!s.data) printf(" (at the truth %.6f)", nll[2]);
        if (report.starts > 1) printf(", which %ld of %ld starts reach", (long)report.near_best, (long)report.starts);
        printf("\n");
        series_print(&s);
    }
    write_json(&flags, &m, &s, &report, nll, full, e);
    series_draw(&s, "series, posterior band and forecast");
    o.report = &report, o.has_errors = has_se, o.count = (int)m.model->params, o.e = e, o.nll = nll[0];
    if (s.report) write_report(&m, &s, theta, full, &exact, &o);
    series_free(&s);
    free(theta), free(full), free(C), free(e);
    free_space(&m);
    device_close();
    return fit_code();
}
