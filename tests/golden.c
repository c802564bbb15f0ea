/* golden.c - pu.h against stored numbers (format of the files: tests/golden/README.md).

       golden [--verbose] [--bits] [--threads N] [--device cpu|cuda] FILE...

   One line per file with the worst relative error of each kind of record, then the last line
   "N passed, N failed". A file fails when it is malformed, lacks a record, holds one that no check
   uses, or when a number is off by more than its tolerance.

     --verbose    a line for every comparison
     --bits       a line "bits HASH": 64-bit FNV-1a over the bytes of every number that was compared, in order, as
                  doubles; also of those whose tolerance says nothing. Two versions of the library that agree in it,
                  built by the same compiler with the same flags, gave the same bits.
     --threads N  options.threads of every run (default: the library's choice). It must not change any bit.
     --device     where the iterative engine runs

   Three parts, one translation unit: golden_file.h (the parser), golden_models.h (records to models; how to add one
   is said there) and this file (the checks).

   TOLERANCES. The error of a record is max|got - want| / max|want| over the record; cond is the
   largest |A| |Sigma| (infinity norms) over the data; eps is the rounding unit of pu_real.
     floor     double: 1e-11, far above the rounding errors of the stored numbers. float:
               16 eps cond, because rounding the inputs to float alone moves a solution by up to
               eps cond; sums are short (at most 24 terms), so 16 covers the arithmetic after it.
               What a solver made in I steps: I times that.
     network   net_grad: 100 err_est eps / eps_double, but at least the floor. err_est is stored
               with each run: the error that double precision suffers in the network gradient,
               measured against 80 bits; so err_est / eps_double is how much the run amplifies
               rounding, in any precision. It is one number for the gradient in all theta, relative
               to the largest entry of them all: the error is of that size wherever it comes out,
               and so the tolerance of one theta's record is larger by the largest entry of all
               over the largest of its own. (Errors of the stored cases are 0.1 to 9 err_est in
               that norm, for every theta alike; relative to their own records up to 38.)
               err_est_detached likewise for the shortcut, which amplifies more; and for AUTO
               where a column says that it ran the shortcut, whose rounding is what there is then:
               at most the floor times the growth that the column tells (pu_column), which is
               below 100, since beyond that AUTO repeats.
               logdet_A_estimate: max(floor, 100 err_est eps / eps_double).
     forward   x, r, alpha, beta and, through x, q_I, F_net and out_grad: CG loses more digits in
               these than in the network gradient. max(floor, 20 spread), where the spread is the
               distance between textbook CG in the precision of pu_real and CG that is kept
               orthogonal, in double: both written here, on the stored A, the former four times
               with A and u changed by eps. At the stored x, given as a warm start without steps,
               q_I and out_grad must agree to the floor.
     residual  u - A x is a difference: 16 eps cond max|u| is allowed in addition.
     cancelled float: a gradient is a difference of the gradient of c and of terms in x; its tolerance is
               relative to the larger of the two (the former is stored: no steps).
     zero      a gradient record below 16 eps_double times the largest entry of its gradient is
               rounding of a zero: then ours must be one to 16 eps of that entry.
     values    q, F, nll are sums of terms as large as c that cancel: 16 eps max|c| in addition.
   Where this exceeds 1/4 a comparison says nothing: it is not made, and the line says so. */
#define _POSIX_C_SOURCE 200809L /* execv */
#include "golden_file.h"
#include "golden_models.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

enum { MAX_NOTE = 256, MEMBER = 2 * MAX_NAME }; /* MEMBER: room for "solver.cg_I5.net_grad.nu" */

static const double VACUOUS = 0.25; /* a tolerance above this does not tell right from wrong */

static const pu_backend *backend; /* NULL: the CPU's */
static int threads;               /* 0: the library's choice */

/* ---- what a file scored ---------------------------------------------------------------------- */

/* Kinds of record in the order of the output line: identifier, heading. */
#define KIND_LIST(X)                                                                               \
    X(K_PROBE, "probe")                                                                            \
    X(K_MODEL, "model")                                                                            \
    X(K_A, "A")                                                                                    \
    X(K_B, "b")                                                                                    \
    X(K_C, "c")                                                                                    \
    X(K_MU, "mu")                                                                                  \
    X(K_SIGMA, "Sigma")                                                                            \
    X(K_LOGDET, "logdet")                                                                          \
    X(K_NLL, "nll")                                                                                \
    X(K_Q, "q")                                                                                    \
    X(K_GSTAR, "g*")                                                                               \
    X(K_SAMPLE, "sigma#")                                                                          \
    X(K_GSHARP, "g#")                                                                              \
    X(K_X, "x")                                                                                    \
    X(K_R, "r")                                                                                    \
    X(K_ALPHA, "alpha")                                                                            \
    X(K_BETA, "beta")                                                                              \
    X(K_QI, "qI")                                                                                  \
    X(K_F, "F")                                                                                    \
    X(K_OUT, "out")                                                                                \
    X(K_NET, "net")                                                                                \
    X(K_SHORTCUT, "shortcut")                                                                      \
    X(K_REORTHOGONAL, "reorth")                                                                    \
    X(K_AUTO, "auto")                                                                              \
    X(K_TAPE, "tape")                                                                              \
    X(K_SLQ, "slq")

typedef enum {
#define X(id, heading) id,
    KIND_LIST(X)
#undef X
        KINDS
} kind;

static const char *const headings[KINDS] = {
#define X(id, heading) heading,
    KIND_LIST(X)
#undef X
};

typedef struct {
    long count;
    double worst; /* largest error */
    double ratio; /* largest error / allowed */
} tally;

struct file_score {
    tally tallies[KINDS];
    long beyond; /* step sizes not compared: the column had reached rounding level before */
    char notes[KINDS][MAX_NOTE]; /* runs where a comparison would say nothing */
};

/* ---- the hash of --bits ---------------------------------------------------------------------- */

static uint64_t bits = UINT64_C(14695981039346656037); /* FNV's offset basis */

/* Takes n numbers into the hash. */
static void hash_doubles(size_t n, const double *x)
{
    size_t i, j;
    for (i = 0; i < n; i++) {
        unsigned char bytes[sizeof(double)];
        memcpy(bytes, &x[i], sizeof bytes);
        for (j = 0; j < sizeof bytes; j++) {
            bits ^= bytes[j];
            bits *= UINT64_C(1099511628211);
        }
    }
}

/* The same in the precision of the library: a float is the same number as a double. x may be NULL. */
static void hash_reals(pu_int n, const pu_real *x)
{
    pu_int i;
    if (!x) return;
    for (i = 0; i < n; i++) {
        double value = (double)x[i];
        hash_doubles(1, &value);
    }
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* max|got - want| / max|want|, infinite when anything is not finite. */
static double relative_error(size_t n, const double *got, const double *want)
{
    double error = 0, scale = largest(n, want);
    size_t i;
    for (i = 0; i < n; i++) {
        double e = fabs(got[i] - want[i]);
        if (!(e <= DBL_MAX)) return HUGE_VAL;
        if (e > error) error = e;
    }
    return scale > 0 ? error / scale : error;
}

/* max |a_i - b_i| */
static double largest_change(size_t n, const double *a, const double *b)
{
    double m = 0;
    size_t i;
    for (i = 0; i < n; i++) m = fmax(m, fabs(a[i] - b[i]));
    return m;
}

/* The tolerance of a record that rounding may move by `spread`. */
static double with_spread(const record *r, double floor_, double spread)
{
    double scale = largest(r->count, r->value);
    return fmax(floor_, 20 * spread / (scale > 0 ? scale : 1));
}

/* Remembers the run of a record, "cg_I5" of "solver.cg_I5.net_grad.nu", as not comparable. */
static void note(problem *p, kind k, const char *name)
{
    const char *from = strncmp(name, "solver.", 7) == 0 ? name + 7 : name;
    char *notes = p->score->notes[k];
    char run_name[MAX_NAME + 1];
    size_t length = strlen(notes);
    snprintf(run_name, sizeof run_name, " %.*s", (int)strcspn(from, "."), from);
    if (!strstr(notes, run_name)) snprintf(notes + length, MAX_NOTE - length, "%s", run_name);
}

/* The one place where numbers are judged. got: r->count numbers. */
static void compare_record(problem *p, kind k, record *r, const double *got, double allowed)
{
    tally *t = &p->score->tallies[k];
    double error;
    hash_doubles(r->count, got);
    if (allowed > VACUOUS) {
        if (r->use == UNUSED) r->use = NOT_COMPARABLE;
        note(p, k, r->name);
        return;
    }
    error = relative_error(r->count, got, r->value);
    r->use = CHECKED;
    t->count++;
    if (error > t->worst) t->worst = error;
    if (error / allowed > t->ratio) t->ratio = error / allowed;
    if (!(error <= allowed)) {
        fail(p->f, "line %d: %s (%s): relative error %.2e, allowed %.1e", r->line, r->name, headings[k], error,
             allowed);
    } else if (verbose) {
        printf("    %-40s %-8s error %.1e  allowed %.1e\n", r->name, headings[k], error, allowed);
    }
}

/* The record of this name and shape with numbers in double. */
static void compare(problem *p, kind k, const char *name, const char *dims, const double *got, double allowed)
{
    record *r = need(p, name, dims);
    if (r) compare_record(p, k, r, got, allowed);
}

/* The same with numbers in the precision of the library. */
static void compare_reals(problem *p, kind k, const char *name, const char *dims, const pu_real *got, double allowed)
{
    record *r = need(p, name, dims);
    double *copy;
    if (!r) return;
    copy = take_doubles(p->f, r->count);
    copy_out(r->count, got, copy);
    compare_record(p, k, r, copy, allowed);
}

/* A value of an objective: a scalar, where `allowed` already holds any spread. */
static void compare_value(problem *p, kind k, const char *name, double got, double allowed)
{
    record *r = need(p, name, "");
    if (!r) return;
    if (fabs(r->value[0]) > 0) allowed += 16 * EPS * p->c / fabs(r->value[0]);
    compare_record(p, k, r, &got, allowed);
}

/* ---- tolerances of a file -------------------------------------------------------------------- */

/* Largest absolute row sum of an n x n matrix. */
static double norm_inf(pu_int n, const double *a)
{
    double norm = 0;
    pu_int i, j;
    for (i = 0; i < n; i++) {
        double sum = 0;
        for (j = 0; j < n; j++) sum += fabs(a[i * n + j]);
        if (sum > norm) norm = sum;
    }
    return norm;
}

/* cond, 16 eps cond and the floor, as the head of this file has them. */
static void set_tolerances(problem *p)
{
    pu_int n;
    for (n = 0; n < p->N; n++) {
        pu_int at = n * p->D * p->D;
        double cond = norm_inf(p->D, p->A + at) * norm_inf(p->D, p->Sigma + at);
        if (cond > p->cond) p->cond = cond;
    }
    p->rounding = 16 * EPS * p->cond;
    p->floor_ = sizeof(pu_real) < sizeof(double) ? p->rounding : 1e-11;
}

/* ---- the model and the probes ---------------------------------------------------------------- */

/* A block of columns, ld apart. */
static pu_block block_of(pu_real *at, pu_int ld)
{
    pu_block b;
    b.at = at;
    b.ld = ld;
    return b;
}

/* An operator's matrix, row-major, from its products with unit vectors; or its sampling factor. */
static double *matrix_of(problem *p, const pu_op *op, int sample)
{
    const pu_int rows = op->rows;
    const pu_int cols = sample && op->noise ? op->noise : op->cols;
    pu_real *E = take_reals(p->f, cols * cols);
    pu_real *Y = take_reals(p->f, rows * cols);
    pu_real *work = take_reals(p->f, cols * op->work + 1);
    double *a = take_doubles(p->f, (size_t)(rows * cols));
    pu_status status;
    pu_int i, j;
    for (i = 0; i < cols; i++) E[i * cols + i] = 1;
    if (sample) status = op->sample(op, cols, block_of(E, cols), block_of(Y, rows), work);
    else status = op->apply(op, cols, block_of(E, cols), block_of(Y, rows), 0, work);
    if (status != PU_OK) fail(p->f, "an operator's function failed: %s", pu_status_text(status));
    for (i = 0; i < rows; i++) {
        for (j = 0; j < cols; j++) a[i * cols + j] = (double)Y[j * rows + i];
    }
    return a;
}

/* B = A A', n x k times k x n */
static double *gram(problem *p, pu_int n, pu_int k, const double *a)
{
    double *b = take_doubles(p->f, (size_t)(n * n));
    pu_int i, j, l;
    for (i = 0; i < n; i++) {
        for (j = 0; j < n; j++) {
            for (l = 0; l < k; l++) b[i * n + j] += a[i * k + l] * a[j * k + l];
        }
    }
    return b;
}

/* nu, eta or psi of the model, of length n; NULL stands for zeros. */
static void compare_vector(problem *p, const char *name, const char *dims, const pu_real *v, pu_int n)
{
    compare_reals(p, K_MODEL, name, dims, v ? v : take_reals(p->f, n), p->floor_);
}

/* What setup made of theta is the model of canonical.*, and the prior's draws have covariance Gamma. */
static void check_model(problem *p)
{
    const pu_op *prior = p->lgm.Gamma;
    const pu_int noise = prior->noise ? prior->noise : prior->rows;
    pu_real *work = take_reals(p->f, prior->work + 1);
    double *factor, logdet = 0;
    compare_vector(p, "canonical.nu", "D", p->lgm.nu, p->D);
    compare_vector(p, "canonical.eta", "M", p->lgm.eta, p->M);
    compare_vector(p, "canonical.psi", "M", p->lgm.psi, p->M);
    compare(p, K_MODEL, "canonical.Gamma", "DD", matrix_of(p, prior, 0), p->floor_);
    compare(p, K_MODEL, "canonical.Phi", "MD", matrix_of(p, p->lgm.Phi, 0), p->floor_);
    factor = matrix_of(p, prior, 1);
    compare(p, K_MODEL, "canonical.Gamma", "DD", gram(p, p->D, noise, factor), p->floor_);
    if (prior->logdet(prior, &logdet, work) != PU_OK) fail(p->f, "log det Gamma failed");
    compare(p, K_MODEL, "extra.logdet_Gamma", "", &logdet, p->floor_);
}

/* xi = F eps_xi with F F' = Gamma;  zeta = sqrt(psi) eps_zeta;  delta = xi + Phi' (mask zeta).
   This is about the file alone, in double. A shortened file leaves out all of these records. */
static void check_probes(problem *p)
{
    const double *F, *eps_xi, *eps_zeta, *xi, *zeta, *psi, *Phi;
    const pu_int D = p->D, M = p->M, columns = p->N * p->K;
    double *got_xi = take_doubles(p->f, (size_t)(columns * D));
    double *got_zeta = take_doubles(p->f, (size_t)(columns * M));
    double *got_delta = take_doubles(p->f, (size_t)(columns * D));
    pu_int c, i, j;
    if (!has_records(p, "probe.xi") && !has_records(p, "probe.zeta") && !has_records(p, "probe.eps_")) return;
    F = input(p, "probe.xi_factor", "DD");
    eps_xi = input(p, "probe.eps_xi", "NKD");
    eps_zeta = input(p, "probe.eps_zeta", "NKM");
    xi = input(p, "probe.xi", "NKD");
    zeta = input(p, "probe.zeta", "NKM");
    psi = input(p, "canonical.psi", "M");
    Phi = input(p, "canonical.Phi", "MD");
    if (!F || !eps_xi || !eps_zeta || !xi || !zeta || !psi || !Phi) return;
    for (c = 0; c < columns; c++) {
        const unsigned char *mask = p->mask + c / p->K * M;
        for (j = 0; j < M; j++) got_zeta[c * M + j] = sqrt(psi[j]) * eps_zeta[c * M + j];
        for (i = 0; i < D; i++) {
            double sum = 0, delta = xi[c * D + i];
            for (j = 0; j < D; j++) sum += F[i * D + j] * eps_xi[c * D + j];
            for (j = 0; j < M; j++) delta += mask[j] ? Phi[j * D + i] * zeta[c * M + j] : 0;
            got_xi[c * D + i] = sum;
            got_delta[c * D + i] = delta;
        }
    }
    compare(p, K_PROBE, "canonical.Gamma", "DD", gram(p, D, D, F), 1e-14);
    compare(p, K_PROBE, "probe.xi", "NKD", got_xi, 1e-14);
    compare(p, K_PROBE, "probe.zeta", "NKM", got_zeta, 1e-14);
    compare(p, K_PROBE, "probe.delta", "NKD", got_delta, 1e-14);
}

/* ---- running --------------------------------------------------------------------------------- */

/* Everything that pu_gradient returns. */
typedef struct {
    pu_int steps; /* I */
    gradient g;
    pu_real *x, *residual, *alpha, *beta, *logdet;
    pu_column *columns;
    pu_report report;
} outcome;

/* The stored probes (none for the exact gradient), no control variate. */
static pu_options base_options(const problem *p, pu_kind method)
{
    pu_options o;
    memset(&o, 0, sizeof o);
    o.kind = method;
    o.backend = backend;
    o.threads = threads;
    o.samples = method == PU_EXACT ? PU_ZERO : p->K;
    o.delta = method == PU_EXACT ? NULL : p->delta;
    o.no_control_variate = 1;
    return o;
}

/* Room for a run's results. Step sizes and log det are asked for where they exist. */
static pu_gradient_result make_results(problem *p, const pu_options *o, outcome *r)
{
    const pu_int columns = p->N * (o->samples > 0 ? p->K + 1 : 1);
    const int krylov = o->solve.solver == PU_CG || o->solve.solver == PU_PCG;
    pu_gradient_result out;
    memset(&out, 0, sizeof out);
    memset(r, 0, sizeof *r);
    if (o->solve.iterations > 0 && o->solve.tolerance <= 0) r->steps = o->solve.iterations;
    r->g.nu = take_nan(p->f, p->D);
    r->g.Gamma = take_nan(p->f, p->lgm.Gamma->params);
    r->g.Phi = take_nan(p->f, p->lgm.Phi->params);
    r->g.eta = take_nan(p->f, p->M);
    r->g.psi = take_nan(p->f, p->M);
    r->x = take_nan(p->f, columns * p->D);
    r->residual = take_nan(p->f, columns * p->D);
    if (r->steps > 0) r->alpha = take_nan(p->f, columns * r->steps);
    if (r->steps > 0) r->beta = take_nan(p->f, columns * r->steps);
    if (r->steps > 0 && krylov) r->logdet = take_nan(p->f, p->N * p->K);
    r->columns = (pu_column *)take(p->f, (size_t)columns, sizeof(pu_column));
    out.nu = r->g.nu;
    out.Gamma = r->g.Gamma;
    out.Phi = r->g.Phi;
    out.eta = r->g.eta;
    out.psi = r->g.psi;
    out.x = r->x;
    out.residual = r->residual;
    out.alpha = r->alpha;
    out.beta = r->beta;
    out.logdet = r->logdet;
    out.columns = r->columns;
    return out;
}

/* One gradient with everything it can return; 0 after a message when the library refuses. */
static int run(problem *p, const char *what, const pu_data *data, const pu_options *o, outcome *r)
{
    pu_gradient_result out = make_results(p, o, r);
    char text[256];
    if (pu_gradient(&p->lgm, data, o, &p->ws, &out, &r->report) == PU_OK) return 1;
    fail(p->f, "%s: %s", what, pu_explain(&r->report, text, sizeof text));
    return 0;
}

enum { DRAWS = 4 };

/* Gradients at the stored x and at x moved as far as rounding may. */
typedef struct {
    outcome at, near[DRAWS];
    double q, F; /* change of the two objectives */
} neighbours;

/* Largest change of a theta's gradient between the stored x and its neighbours. */
static double gradient_spread(problem *p, const record *theta, const neighbours *n)
{
    double *at = take_doubles(p->f, theta->count);
    double *near = take_doubles(p->f, theta->count);
    double spread = 0;
    int draw;
    p->model->pull_back(p, &n->at.g, theta, at);
    for (draw = 0; draw < DRAWS; draw++) {
        p->model->pull_back(p, &n->near[draw].g, theta, near);
        spread = fmax(spread, largest_change(theta->count, near, at));
    }
    return spread;
}

/* How much the gradient of a theta cancels: the gradient of c alone (no solver step taken) over the gradient itself,
   at least one. Rounding in float is relative to the terms, not to what is left of them. In double: 1. */
static double cancellation(problem *p, const record *theta, const record *want)
{
    static const char *const runs[2] = {"solver.gd_I0.out_grad", "solver.cg_I0.out_grad"};
    char name[MEMBER];
    double most = largest(want->count, want->value), ratio = 1;
    int i;
    if (sizeof(pu_real) == sizeof(double)) return 1;
    for (i = 0; i < 2; i++) {
        const record *r;
        snprintf(name, sizeof name, "%s.%s", runs[i], theta_name(theta));
        r = find(p->f, name);
        if (r && r->value && most > 0) ratio = fmax(ratio, largest(r->count, r->value) / most);
    }
    return ratio;
}

/* Largest entry of all the records whose names begin like this. */
static double largest_of(const problem *p, const char *prefix)
{
    double most = 0;
    size_t i;
    for (i = 0; i < p->f->count; i++) {
        const record *r = &p->f->records[i];
        if (strncmp(r->name, prefix, strlen(prefix)) == 0 && r->value) most = fmax(most, largest(r->count, r->value));
    }
    return most;
}

/* The record <prefix>.<theta>, in the shape of theta; NULL after a message. */
static record *gradient_record(problem *p, const char *prefix, const record *theta)
{
    char name[MEMBER];
    record *r;
    snprintf(name, sizeof name, "%s.%s", prefix, theta_name(theta));
    r = find(p->f, name);
    if (r && !r->text && r->ndim == theta->ndim && memcmp(r->dim, theta->dim, sizeof theta->dim) == 0) return r;
    fail(p->f, "%s: missing, or not in the shape of %s", name, theta->name);
    return NULL;
}

/* Compares the pulled-back gradient with <prefix>.<theta> for every theta of the file. allowed: relative to the record;
   amplified: relative to the largest entry of all of them, or 0. n: the gradient follows from an x that rounding may
   move; or NULL. */
static void compare_gradients(problem *p, kind k, const char *prefix, const gradient *g, double allowed,
                              double amplified, const neighbours *n)
{
    const double whole = largest_of(p, prefix);
    size_t i;
    for (i = 0; i < p->f->count; i++) {
        const record *theta = &p->f->records[i];
        record *want;
        double *got, tolerance = allowed, own;
        if (!theta_name(theta) || theta->use == UNUSED) continue;
        want = gradient_record(p, prefix, theta);
        if (!want) continue;
        got = take_doubles(p->f, theta->count);
        p->model->pull_back(p, g, theta, got);
        own = largest(want->count, want->value);
        if (own <= 16 * DBL_EPSILON * whole) { /* zero but for stored rounding */
            hash_doubles(theta->count, got);
            want->use = CHECKED;
            if (!(largest(theta->count, got) <= 16 * EPS * whole)) {
                fail(p->f, "line %d: %s: not zero", want->line, want->name);
            }
            continue;
        }
        if (n) tolerance = with_spread(want, allowed, gradient_spread(p, theta, n));
        compare_record(p, k, want, got, fmax(tolerance * cancellation(p, theta, want), amplified * whole / own));
    }
}

/* Splits N x (K+1) x len into column 0 and the K others, in doubles. */
static void split(problem *p, const pu_real *x, pu_int len, double **first, double **rest)
{
    const pu_int K = p->K;
    pu_int n;
    *first = take_doubles(p->f, (size_t)(p->N * len));
    *rest = take_doubles(p->f, (size_t)(p->N * K * len));
    for (n = 0; n < p->N; n++) {
        const pu_real *datum = x + n * (K + 1) * len;
        copy_out((size_t)len, datum, *first + n * len);
        copy_out((size_t)(K * len), datum + len, *rest + n * K * len);
    }
}

/* ---- exact and Monte Carlo ------------------------------------------------------------------- */

/* pu_exact, datum by datum: A, b, c, mu, Sigma, log det A and the likelihood. */
static void check_datums(problem *p)
{
    const pu_int D = p->D;
    pu_real *A = take_nan(p->f, p->N * D * D);
    pu_real *Sigma = take_nan(p->f, p->N * D * D);
    pu_real *b = take_nan(p->f, p->N * D);
    pu_real *mu = take_nan(p->f, p->N * D);
    double *c = take_doubles(p->f, (size_t)p->N);
    double *logdet = take_doubles(p->f, (size_t)p->N);
    double *nll = take_doubles(p->f, (size_t)p->N);
    pu_int n;
    for (n = 0; n < p->N; n++) {
        pu_exact_result e;
        pu_report report;
        char text[256];
        memset(&e, 0, sizeof e);
        e.A = A + n * D * D;
        e.Sigma = Sigma + n * D * D;
        e.b = b + n * D;
        e.mu = mu + n * D;
        if (pu_exact(&p->lgm, &p->data, n, &p->ws, &e, &report) != PU_OK) {
            fail(p->f, "pu_exact: %s", pu_explain(&report, text, sizeof text));
            return;
        }
        c[n] = e.c;
        logdet[n] = e.logdet;
        nll[n] = e.nll;
    }
    compare_reals(p, K_A, "exact.A", "NDD", A, p->floor_);
    compare_reals(p, K_B, "exact.b", "ND", b, p->floor_);
    compare(p, K_C, "exact.c", "N", c, p->floor_);
    compare_reals(p, K_MU, "exact.mu", "ND", mu, p->floor_);
    compare_reals(p, K_SIGMA, "exact.Sigma", "NDD", Sigma, p->floor_);
    compare(p, K_LOGDET, "exact.logdet_A", "N", logdet, p->floor_);
    compare(p, K_NLL, "exact.nll_n", "N", nll, p->floor_);
}

/* The exact gradient, which is that of the likelihood, and pu_nll, which is then exact as well. */
static void check_exact(problem *p)
{
    pu_options o = base_options(p, PU_EXACT);
    pu_report report;
    pu_status status;
    outcome r;
    double nll = 0, se = -1;
    if (run(p, "exact gradient", &p->data, &o, &r)) {
        compare_value(p, K_NLL, "exact.nll", r.report.nll, p->floor_);
        compare_value(p, K_Q, "exact.q_star", r.report.q, p->floor_);
        compare_reals(p, K_MU, "exact.mu", "ND", r.x, p->floor_);
        compare_gradients(p, K_GSTAR, "exact.g_star", &r.g, p->floor_, 0, NULL);
        compare_gradients(p, K_GSTAR, "exact.g_nll", &r.g, p->floor_, 0, NULL);
    }
    o = base_options(p, PU_MONTE_CARLO);
    o.engine = PU_DENSE;
    status = pu_nll(&p->lgm, &p->data, &o, &p->ws, &nll, &se, &report);
    if (status != PU_OK || se > 0 || se < 0) {
        fail(p->f, "pu_nll, dense engine: %s, standard error %g", pu_status_text(report.status), se);
    }
    compare_value(p, K_NLL, "exact.nll", nll, p->floor_);
}

/* Converged samples. Without a tolerance the iterative engine runs to rounding level. */
static void check_monte_carlo(problem *p, pu_engine engine)
{
    const char *what = engine == PU_DENSE ? "Monte Carlo, dense" : "Monte Carlo, iterative";
    pu_options o = base_options(p, PU_MONTE_CARLO);
    outcome r;
    double *mu, *sigma;
    o.engine = engine;
    if (!run(p, what, &p->data, &o, &r)) return;
    split(p, r.x, p->D, &mu, &sigma);
    compare(p, K_MU, "exact.mu", "ND", mu, p->floor_);
    compare(p, K_SAMPLE, "mc.sigma", "NKD", sigma, p->floor_);
    compare_value(p, K_Q, "mc.q_sharp", r.report.q, p->floor_);
    compare_gradients(p, K_GSHARP, "mc.g_sharp", &r.g, p->floor_, 0, NULL);
}

/* ---- solver runs: one solver at one depth ---------------------------------------------------- */

static const struct {
    const char *name;
    pu_solver solver;
} solvers[] = {{"gd", PU_GD}, {"sd", PU_SD}, {"cg", PU_CG}, {"pcg_const", PU_PCG}};

typedef struct {
    char prefix[MAX_NAME]; /* "solver.cg_I3" */
    pu_solver solver;
    pu_int steps;
    double floor_, amplified, amplified_detached; /* see network, at the head of this file */
    double x[2], r[2], alpha, beta; /* spread: [0] the mean column, [1] the probes */
    double *moved[DRAWS];           /* change of x, N x (K+1) x D */
    neighbours *n;
} depth;

/* "<prefix>.<what>" in buffer, MEMBER characters. */
static const char *member(const depth *s, const char *what, char *buffer)
{
    snprintf(buffer, MEMBER, "%s.%s", s->prefix, what);
    return buffer;
}

/* CG and PCG: these amplify rounding, have betas and estimate log det A. */
static int is_krylov(const depth *s)
{
    return s->solver == PU_CG || s->solver == PU_PCG;
}

/* What a run makes of rounding that costs double precision err_est. */
static double amplification(double err_est)
{
    return 100 * err_est * (EPS / DBL_EPSILON);
}

/* If this is a record "solver.<solver>_I<steps>.I", fills in prefix, solver and steps and returns 1. */
static int parse_depth_name(const record *r, depth *s)
{
    char name[MEMBER];
    size_t i;
    for (i = 0; i < sizeof solvers / sizeof *solvers; i++) {
        int length = snprintf(name, sizeof name, "solver.%s_I", solvers[i].name);
        char *end;
        long steps;
        if (strncmp(r->name, name, (size_t)length) != 0) continue;
        steps = strtol(r->name + length, &end, 10);
        if (strcmp(end, ".I") != 0 || steps < 0 || steps > 1000) return 0;
        memset(s, 0, sizeof *s);
        snprintf(s->prefix, sizeof s->prefix, "solver.%s_I%ld", solvers[i].name, steps);
        s->solver = solvers[i].solver;
        s->steps = (pu_int)steps;
        return 1;
    }
    return 0;
}

/* The same, and takes the settings of the run in: its tolerances. */
static int parse_depth(problem *p, const record *r, depth *s)
{
    char name[MEMBER];
    const double *value;
    if (!parse_depth_name(r, s)) return 0;
    s->floor_ = p->floor_;
    if (sizeof(pu_real) < sizeof(double) && s->steps > 0) s->floor_ *= (double)s->steps;
    value = input(p, r->name, "");
    if (value && *value - (double)s->steps != 0) fail(p->f, "%s: not what its name says", r->name);
    value = input(p, member(s, "err_est", name), "");
    if (value) s->amplified = amplification(*value);
    s->amplified_detached = s->amplified;
    if (is_krylov(s) && has_records(p, member(s, "net_grad_detached", name))) {
        value = input(p, member(s, "err_est_detached", name), "");
        if (value) s->amplified_detached = amplification(*value);
    }
    return 1;
}

/* The settings of the run for the library. */
static pu_options depth_options(const problem *p, const depth *s, pu_kind method)
{
    pu_options o = base_options(p, method);
    o.solve.solver = s->solver;
    o.solve.iterations = s->steps > 0 ? s->steps : PU_ZERO;
    if (s->solver == PU_PCG) o.solve.precond = p->minv;
    if (s->solver == PU_GD) o.solve.step = p->step;
    return o;
}

/* ---- what rounding does to CG: the spread of a run ------------------------------------------- */

/* A system of n equations, A x = u, and how textbook() is to solve it. */
typedef struct {
    pu_int n, steps;
    const double *A, *u;
    const double *m; /* diagonal of the preconditioner; CG: ones */
    int exact;       /* in double and re-orthogonalised, else rounded to pu_real wherever something is stored */
} cg_system;

/* x and r = u - A x (n entries), alpha and beta (steps entries). */
typedef struct {
    double *x, *r, *alpha, *beta;
} cg_result;

/* Zeroed results for a system. */
static cg_result take_result(file *f, const cg_system *s)
{
    cg_result c;
    c.x = take_doubles(f, (size_t)s->n);
    c.r = take_doubles(f, (size_t)s->n);
    c.alpha = take_doubles(f, (size_t)s->steps);
    c.beta = take_doubles(f, (size_t)s->steps);
    return c;
}

/* A number as the working precision keeps it. */
static double keep(double v, int exact)
{
    return exact ? v : (double)(pu_real)v;
}

/* r -= its part along the earlier residuals R (one per row), orthogonal in m */
static void orthogonalise(pu_int n, pu_int count, const double *R, const double *m, double *r)
{
    pu_int i, k;
    for (k = 0; k < count; k++) {
        double dot = 0, square = 0;
        for (i = 0; i < n; i++) {
            dot += m[i] * R[k * n + i] * r[i];
            square += m[i] * R[k * n + i] * R[k * n + i];
        }
        for (i = 0; i < n; i++) r[i] -= dot / square * R[k * n + i];
    }
}

/* q = A d, rounded as the system says; returns d'q. */
static double curvature(const cg_system *s, const double *d, double *q)
{
    double pi = 0;
    pu_int i, j;
    for (i = 0; i < s->n; i++) {
        q[i] = 0;
        for (j = 0; j < s->n; j++) q[i] += s->A[i * s->n + j] * d[j];
        q[i] = keep(q[i], s->exact);
        pi += d[i] * q[i];
    }
    return pi;
}

/* PCG (CG: m = 1) from x = 0, frozen at rounding level; then r = u - A x. work: (steps + 3) n */
static void textbook(const cg_system *s, cg_result *c, double *work)
{
    const pu_int n = s->n;
    const int exact = s->exact;
    double *d = work;
    double *q = work + n;
    double *R = work + 2 * n; /* the residuals so far, one per row */
    double rho = 0, rho0, pi, next;
    pu_int i, j, k;
    for (i = 0; i < n; i++) {
        c->x[i] = 0;
        c->r[i] = keep(s->u[i], exact);
        d[i] = keep(s->m[i] * c->r[i], exact);
        rho += c->r[i] * d[i];
    }
    rho0 = rho;
    for (k = 0; k < s->steps; k++) {
        c->alpha[k] = 0;
        c->beta[k] = 0;
        if (rho <= 1e-28 * rho0) continue;
        memcpy(R + k * n, c->r, (size_t)n * sizeof *c->r);
        /* alpha = rho / d'Ad;  x += alpha d;  r -= alpha A d */
        pi = curvature(s, d, q);
        c->alpha[k] = keep(rho / pi, exact);
        for (i = 0; i < n; i++) {
            c->x[i] = keep(c->x[i] + c->alpha[k] * d[i], exact);
            c->r[i] = keep(c->r[i] - c->alpha[k] * q[i], exact);
        }
        if (exact) orthogonalise(n, k + 1, R, s->m, c->r);
        /* beta = rho_next / rho;  d = m r + beta d */
        next = 0;
        for (i = 0; i < n; i++) next += s->m[i] * c->r[i] * c->r[i];
        c->beta[k] = keep(next / rho, exact);
        for (i = 0; i < n; i++) d[i] = keep(s->m[i] * c->r[i] + c->beta[k] * d[i], exact);
        rho = next;
    }
    for (i = 0; i < n; i++) {
        c->r[i] = s->u[i];
        for (j = 0; j < n; j++) c->r[i] -= s->A[i * n + j] * c->x[j];
    }
}

/* A uniform number in (-1, 1); any generator will do. */
static double jitter(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (double)(*state >> 8) / 8388608.0 - 1;
}

/* b = a with relative changes of size eps: a symmetric matrix, or a vector (rows = 1) */
static void jitter_copy(pu_int rows, pu_int n, const double *a, double *b, uint32_t *state)
{
    pu_int i, j;
    for (i = 0; i < rows; i++) {
        for (j = i; j < n; j++) {
            double factor = 1 + EPS * jitter(state);
            b[i * n + j] = a[i * n + j] * factor;
            if (rows > 1) b[j * n + i] = a[j * n + i] * factor;
        }
    }
}

/* Largest change of step sizes that both runs took. */
static double step_change(pu_int n, const double *a, const double *b)
{
    double m = 0;
    pu_int i;
    for (i = 0; i < n; i++) {
        if (fabs(a[i]) > 0 && fabs(b[i]) > 0) m = fmax(m, fabs(a[i] - b[i]));
    }
    return m;
}

/* Enlarges the spread to the distance between two results of one column. probe: 0 the mean, 1 a probe. */
static void widen(depth *s, pu_int D, int probe, const cg_result *near, const cg_result *at)
{
    s->x[probe] = fmax(s->x[probe], largest_change((size_t)D, near->x, at->x));
    s->r[probe] = fmax(s->r[probe], largest_change((size_t)D, near->r, at->r));
    s->alpha = fmax(s->alpha, step_change(s->steps, near->alpha, at->alpha));
    s->beta = fmax(s->beta, step_change(s->steps, near->beta, at->beta));
}

/* The spread of one column: datum n, column c (0: the mean). */
static void measure_column(problem *p, depth *s, pu_int n, pu_int c)
{
    const pu_int D = p->D;
    const pu_int column = n * (p->K + 1) + c;
    double *changed_A = take_doubles(p->f, (size_t)(D * D));
    double *changed_u = take_doubles(p->f, (size_t)D);
    double *m = take_doubles(p->f, (size_t)D);
    double *work = take_doubles(p->f, (size_t)((s->steps + 3) * D));
    uint32_t state = (uint32_t)(1 + column);
    cg_system stored, changed;
    cg_result at, near;
    pu_int i;
    int draw;
    for (i = 0; i < D; i++) m[i] = s->solver == PU_PCG ? p->m[n * D + i] : 1;
    stored.n = D;
    stored.steps = s->steps;
    stored.A = p->A + n * D * D;
    stored.u = c ? p->u + (n * p->K + c - 1) * D : p->b + n * D;
    stored.m = m;
    stored.exact = 1;
    changed = stored;
    changed.A = changed_A;
    changed.u = changed_u;
    changed.exact = 0;
    at = take_result(p->f, &stored);
    near = take_result(p->f, &changed);
    textbook(&stored, &at, work);
    for (draw = 0; draw < DRAWS; draw++) {
        jitter_copy(D, D, stored.A, changed_A, &state);
        jitter_copy(1, D, stored.u, changed_u, &state);
        textbook(&changed, &near, work);
        for (i = 0; i < D; i++) s->moved[draw][column * D + i] = near.x[i] - at.x[i];
        widen(s, D, c > 0, &near, &at);
    }
}

/* Runs at the stored x, moved by `by` (NULL: not), without a step. */
static int run_at(problem *p, const depth *s, const double *by, outcome *r)
{
    char name[MEMBER];
    const record *mu = need(p, member(s, "mu", name), "ND");
    const record *sigma = need(p, member(s, "sigma", name), "NKD");
    const pu_int D = p->D, K = p->K;
    pu_real *x0 = take_reals(p->f, p->N * (K + 1) * D);
    pu_options o = depth_options(p, s, PU_OUTPUT);
    pu_int n, c, i;
    if (!mu || !sigma) return 0;
    for (n = 0; n < p->N; n++) {
        for (c = 0; c <= K; c++) {
            const double *x = c ? sigma->value + (n * K + c - 1) * D : mu->value + n * D;
            const pu_int at = (n * (K + 1) + c) * D;
            for (i = 0; i < D; i++) x0[at + i] = (pu_real)(by ? x[i] + by[at + i] : x[i]);
        }
    }
    o.x0 = x0;
    o.solve.iterations = PU_ZERO;
    return run(p, "warm start", &p->data, &o, r);
}

/* Fills in what rounding does to the run. GD and SD do not amplify it. */
static int measure_spread(problem *p, depth *s)
{
    const size_t size = (size_t)(p->N * (p->K + 1) * p->D);
    pu_int n, c;
    int draw;
    s->n = (neighbours *)take(p->f, 1, sizeof *s->n);
    for (draw = 0; draw < DRAWS; draw++) s->moved[draw] = take_doubles(p->f, size);
    if (is_krylov(s)) {
        for (n = 0; n < p->N; n++) {
            for (c = 0; c <= p->K; c++) measure_column(p, s, n, c);
        }
    }
    if (!run_at(p, s, NULL, &s->n->at)) return 0;
    for (draw = 0; draw < DRAWS; draw++) {
        const pu_report *at = &s->n->at.report, *near = &s->n->near[draw].report;
        if (!run_at(p, s, s->moved[draw], &s->n->near[draw])) return 0;
        s->n->q = fmax(s->n->q, fabs(near->q - at->q));
        s->n->F = fmax(s->n->F, fabs(near->network - at->network));
    }
    return 1;
}

/* ---- checks of a solver run ------------------------------------------------------------------ */

/* A record of the forward pass. */
static void check_spread(problem *p, const depth *s, kind k, const char *what, const char *dims, const double *got,
                         double spread)
{
    char name[MEMBER];
    record *r = need(p, member(s, what, name), dims);
    if (r) compare_record(p, k, r, got, with_spread(r, s->floor_, spread));
}

/* An objective of the forward pass. */
static void check_value(problem *p, const depth *s, kind k, const char *what, double got, double spread)
{
    char name[MEMBER];
    const record *r = need(p, member(s, what, name), "");
    if (r) compare_value(p, k, name, got, with_spread(r, s->floor_, spread));
}

/* A residual rhs - A x: a difference, see the head of this file. */
static void check_residual(problem *p, const depth *s, const char *what, const char *dims, const double *got,
                           const double *rhs, double spread)
{
    char name[MEMBER];
    record *r = need(p, member(s, what, name), dims);
    double scale, difference;
    if (!r) return;
    scale = largest(r->count, r->value);
    difference = p->rounding * largest(r->count, rhs) / (scale > 0 ? scale : 1);
    compare_record(p, K_R, r, got, with_spread(r, s->floor_, spread) + difference);
}

/* Had the reference reached rounding level before step i (0-based) of column c? rho_i / rho_0 is
   the product of the betas. The library then freezes the column, in float earlier than in double;
   the reference may have gone on with noise. */
static int beyond_rounding(problem *p, const depth *s, const outcome *r, pu_int c, pu_int i)
{
    char name[MEMBER];
    const record *beta = find(p->f, member(s, "beta", name));
    double ratio = 1;
    pu_int j;
    if (!is_krylov(s) || !beta || i < r->columns[c].steps) return 0;
    if (r->columns[c].stop != PU_STOP_ROUNDING) return 0;
    for (j = 0; j < r->columns[c].steps; j++) ratio *= beta->value[c * s->steps + j];
    return ratio <= 16 * EPS * EPS;
}

/* Is it N x (K+1) x steps numbers? */
static int has_shape_of_steps(const problem *p, const depth *s, const record *r)
{
    return r->ndim == 3 && r->dim[0] == (size_t)p->N && r->dim[1] == (size_t)p->K + 1 && r->dim[2] == (size_t)s->steps;
}

/* Step sizes: alpha or beta of r. Those beyond rounding level are left out, and counted. */
static void check_steps(problem *p, const depth *s, kind k, const outcome *r)
{
    const int is_alpha = k == K_ALPHA;
    const pu_real *got = is_alpha ? r->alpha : r->beta;
    char name[MEMBER];
    record *want = find(p->f, member(s, is_alpha ? "alpha" : "beta", name));
    pu_int c, i;
    double *copy;
    if (!want || !has_shape_of_steps(p, s, want)) {
        fail(p->f, "%s: missing, or of the wrong shape", name);
        return;
    }
    copy = take_doubles(p->f, want->count);
    for (c = 0; c < p->N * (p->K + 1); c++) {
        for (i = 0; i < s->steps; i++) {
            pu_int at = c * s->steps + i;
            int beyond = beyond_rounding(p, s, r, c, i);
            copy[at] = beyond ? want->value[at] : (double)got[at];
            p->score->beyond += beyond;
        }
    }
    compare_record(p, k, want, copy, with_spread(want, s->floor_, is_alpha ? s->alpha : s->beta));
}

/* What the forward pass leaves, the same for every kind of gradient. */
static void check_forward(problem *p, const depth *s, const outcome *r)
{
    char name[MEMBER];
    double *mu, *sigma;
    split(p, r->x, p->D, &mu, &sigma);
    check_spread(p, s, K_X, "mu", "ND", mu, s->x[0]);
    check_spread(p, s, K_X, "sigma", "NKD", sigma, s->x[1]);
    split(p, r->residual, p->D, &mu, &sigma);
    check_residual(p, s, "r_mu", "ND", mu, p->b, s->r[0]);
    check_residual(p, s, "r_sigma", "NKD", sigma, p->u, s->r[1]);
    check_value(p, s, K_QI, "q_I", r->report.q, s->n->q);
    check_value(p, s, K_F, "F_net", r->report.network, s->n->F);
    if (s->steps > 0 && s->solver != PU_GD) check_steps(p, s, K_ALPHA, r);
    if (s->steps > 0 && is_krylov(s)) {
        check_steps(p, s, K_BETA, r);
        compare_reals(p, K_SLQ, member(s, "logdet_A_estimate", name), "NK", r->logdet, fmax(s->floor_, s->amplified));
    }
}

/* At the stored x nothing has been amplified. */
static void check_at(problem *p, const depth *s)
{
    char name[MEMBER];
    const outcome *r = &s->n->at;
    double *mu, *sigma;
    split(p, r->residual, p->D, &mu, &sigma);
    check_residual(p, s, "r_mu", "ND", mu, p->b, 0);
    check_residual(p, s, "r_sigma", "NKD", sigma, p->u, 0);
    compare_value(p, K_QI, member(s, "q_I", name), r->report.q, p->floor_);
    compare_value(p, K_F, member(s, "F_net", name), r->report.network, p->floor_);
    compare_gradients(p, K_OUT, member(s, "out_grad", name), &r->g, p->floor_, 0, NULL);
}

/* What the columns of AUTO that ran the shortcut may have made of an error on the way back; 0: no column did. Beyond
   100 a column is solved again. */
static double shortcut_growth(const problem *p, const outcome *r)
{
    double most = 0;
    pu_int c;
    for (c = 0; c < p->N * (p->K + 1); c++)
        if (r->columns[c].adjoint == PU_ADJOINT_SHORTCUT) most = fmax(most, fmin(fmax(r->columns[c].growth, 1), 100));
    return most;
}

/* A network gradient, one way of computing it. */
static void check_network(problem *p, const depth *s, kind k, pu_adjoint adjoint, pu_int checkpoint)
{
    const int detached = k == K_SHORTCUT;
    double amplified = detached ? s->amplified_detached : s->amplified;
    char name[MEMBER], what[MEMBER];
    pu_options o = depth_options(p, s, PU_NETWORK);
    outcome r;
    o.solve.adjoint = adjoint;
    o.solve.tape_every = checkpoint;
    snprintf(what, sizeof what, "%s, %s", s->prefix, headings[k]);
    if (!run(p, what, &p->data, &o, &r)) return;
    check_forward(p, s, &r);
    if (k == K_AUTO) amplified = fmax(amplified, fmin(s->amplified_detached, shortcut_growth(p, &r) * s->floor_));
    compare_gradients(p, k, member(s, detached ? "net_grad_detached" : "net_grad", name), &r.g, s->floor_, amplified, NULL);
}

/* All gradients of one run. */
static void check_depth(problem *p, depth *s)
{
    char name[MEMBER];
    pu_options o = depth_options(p, s, PU_OUTPUT);
    outcome r;
    if (!measure_spread(p, s)) return;
    check_at(p, s);
    if (run(p, s->prefix, &p->data, &o, &r)) {
        check_forward(p, s, &r);
        compare_gradients(p, K_OUT, member(s, "out_grad", name), &r.g, s->floor_, 0, s->n);
    }
    check_network(p, s, K_NET, PU_ADJOINT_FULL, 0);
    check_network(p, s, K_TAPE, PU_ADJOINT_FULL, 2);
    check_network(p, s, K_TAPE, PU_ADJOINT_FULL, PU_CHOOSE);
    if (s->solver != PU_GD && has_records(p, member(s, "net_grad_detached", name))) {
        check_network(p, s, K_SHORTCUT, PU_ADJOINT_SHORTCUT, 0);
    }
    if (is_krylov(s)) {
        check_network(p, s, K_REORTHOGONAL, PU_ADJOINT_REORTHOGONAL, 0);
        check_network(p, s, K_AUTO, PU_ADJOINT_AUTO, 0);
    }
}

/* Every solver run of the file; there must be one. */
static void check_solvers(problem *p)
{
    size_t i;
    int runs = 0;
    for (i = 0; i < p->f->count; i++) {
        depth s;
        if (!parse_depth(p, &p->f->records[i], &s)) continue;
        check_depth(p, &s);
        runs++;
    }
    if (runs == 0) fail(p->f, "no solver run");
}

/* ---- three ways to say what is missing ------------------------------------------------------- */

/* Are these n reals the same to the bit? */
static int same_reals(pu_int n, const pu_real *a, const pu_real *b)
{
    return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

/* Are two runs, of CG with all their results, the same to the bit? */
static int same_bits(const problem *p, const outcome *a, const outcome *b)
{
    const pu_int columns = p->N * (p->K + 1);
    int same = same_reals(p->D, a->g.nu, b->g.nu);
    same &= same_reals(p->lgm.Gamma->params, a->g.Gamma, b->g.Gamma);
    same &= same_reals(p->lgm.Phi->params, a->g.Phi, b->g.Phi);
    same &= same_reals(p->M, a->g.eta, b->g.eta);
    same &= same_reals(p->M, a->g.psi, b->g.psi);
    same &= same_reals(columns * p->D, a->x, b->x);
    same &= same_reals(columns * p->D, a->residual, b->residual);
    same &= same_reals(columns * a->steps, a->alpha, b->alpha);
    same &= same_reals(columns * a->steps, a->beta, b->beta);
    same &= same_reals(p->N * p->K, a->logdet, b->logdet);
    same &= memcmp(&a->report.q, &b->report.q, sizeof(double)) == 0;
    same &= memcmp(&a->report.network, &b->report.network, sizeof(double)) == 0;
    same &= memcmp(&a->report.nll, &b->report.nll, sizeof(double)) == 0;
    return same;
}

/* The same numbers as same_bits compares, into the hash of --bits. */
static void hash_outcome(const problem *p, const outcome *a)
{
    const pu_int columns = p->N * (p->K + 1);
    hash_reals(p->D, a->g.nu);
    hash_reals(p->lgm.Gamma->params, a->g.Gamma);
    hash_reals(p->lgm.Phi->params, a->g.Phi);
    hash_reals(p->M, a->g.eta);
    hash_reals(p->M, a->g.psi);
    hash_reals(columns * p->D, a->x);
    hash_reals(columns * p->D, a->residual);
    hash_reals(columns * a->steps, a->alpha);
    hash_reals(columns * a->steps, a->beta);
    hash_reals(p->N * p->K, a->logdet);
    hash_doubles(1, &a->report.q);
    hash_doubles(1, &a->report.network);
    hash_doubles(1, &a->report.nll);
}

/* The data as lists of the observed entries. */
static pu_data list_data(problem *p)
{
    pu_int *start = (pu_int *)take(p->f, (size_t)p->N + 1, sizeof(pu_int));
    pu_int *index = (pu_int *)take(p->f, (size_t)(p->N * p->M), sizeof(pu_int));
    pu_real *y = take_reals(p->f, p->N * p->M);
    pu_int n, m, count = 0;
    for (n = 0; n < p->N; n++) {
        for (m = 0; m < p->M; m++) {
            if (!p->mask[n * p->M + m]) continue;
            index[count] = m;
            y[count] = p->y[n * p->M + m];
            count++;
        }
        start[n + 1] = count;
    }
    return pu_data_lists(p->N, p->M, start, index, y);
}

/* A mask, NaNs and lists that say the same give the same bits. */
static void check_data_kinds(problem *p)
{
    pu_data by_nan = pu_data_nan(p->N, p->M, p->y);
    pu_data by_list = list_data(p);
    pu_options o = base_options(p, PU_NETWORK);
    outcome masked, nan_marked, listed;
    o.solve.iterations = p->D > 3 ? 3 : 1;
    if (!run(p, "data, masked", &p->data, &o, &masked)) return;
    hash_outcome(p, &masked);
    if (run(p, "data, NaN-marked", &by_nan, &o, &nan_marked) && !same_bits(p, &masked, &nan_marked)) {
        fail(p->f, "NaN-marked data and masked data give different bits");
    }
    if (run(p, "data, lists", &by_list, &o, &listed) && !same_bits(p, &masked, &listed)) {
        fail(p->f, "lists and masked data give different bits");
    }
}

/* ---- accounting and output ------------------------------------------------------------------- */

/* Counts what became of the records; an unused one is an error. */
static void account(problem *p, long uses[USES])
{
    size_t i;
    for (i = 0; i < p->f->count; i++) {
        record *r = &p->f->records[i];
        if (r->use == UNUSED) fail(p->f, "line %d: %s: no check uses this record", r->line, r->name);
        uses[r->use]++;
    }
}

/* The line of a file. */
static void print_line(const problem *p, const long uses[USES])
{
    double ratio = 0;
    int k;
    printf("%-18s", p->f->name);
    for (k = 0; k < KINDS; k++) {
        const tally *t = &p->score->tallies[k];
        if (k == K_X) printf(" |");
        if (t->count > 0) printf(" %s %.0e", headings[k], t->worst);
        if (t->ratio > ratio) ratio = t->ratio;
    }
    printf("  worst/allowed %.2g; %ld records checked, %ld read", ratio, uses[CHECKED], uses[INPUT]);
    if (uses[NOT_COMPARABLE]) printf(", %ld not comparable", uses[NOT_COMPARABLE]);
    if (p->score->beyond) printf("; %ld step sizes beyond rounding level left out", p->score->beyond);
    for (k = 0; k < KINDS; k++) {
        const char *notes = p->score->notes[k];
        if (notes[0]) printf("; %s not comparable in " PRECISION " at%s", headings[k], notes);
    }
    printf("  ");
    if (p->f->errors) printf("FAILED (%d)\n", p->f->errors);
    else printf("ok\n");
}

/* All checks of one file. */
static void check_problem(problem *p)
{
    long uses[USES] = {0};
    p->score = (file_score *)take(p->f, 1, sizeof *p->score);
    set_tolerances(p);
    check_probes(p);
    check_model(p);
    check_datums(p);
    check_exact(p);
    check_monte_carlo(p, PU_DENSE);
    check_monte_carlo(p, PU_ITERATIVE);
    check_solvers(p);
    check_data_kinds(p);
    account(p, uses);
    print_line(p, uses);
}

typedef enum { FILE_PASSED, FILE_FAILED, FILE_RESULTS } file_result;

/* Reads a file, makes its model, runs the checks and prints its line. */
static file_result check_file(const char *path)
{
    file f;
    problem p;
    file_result result = FILE_FAILED;
    memset(&p, 0, sizeof p);
    if (!read_file(&f, path) || !setup(&p, &f)) {
        printf("%-18s FAILED (%d)\n", f.name, f.errors);
    } else {
        check_problem(&p);
        if (f.errors == 0) result = FILE_PASSED;
    }
    pu_workspace_free(&p.ws);
    pu_model_free(&p.named);
    pu_fourier_free(p.fourier);
    release(&f);
    return result;
}

/* ---- command line ---------------------------------------------------------------------------- */

#ifdef PU_CUDA
/* Opens the first device; 0 after a message. */
static int open_cuda(char **argv)
{
    static pu_cuda cuda;
    pu_report report;
    char text[300];
    (void)argv;
    if (pu_cuda_open(&cuda, NULL, &report) == PU_OK) {
        backend = &cuda.backend;
        return 1;
    }
    fprintf(stderr, "golden: %s\n", pu_explain(&report, text, sizeof text));
    return 0;
}
#else
/* Built without CUDA: becomes the program of the same precision beside this one whose kernels run,
   golden_cuda_double or golden_cuda_float. 0 after a message when there is none. */
static int open_cuda(char **argv)
{
    const char *slash = strrchr(argv[0], '/');
    const int directory = slash ? (int)(slash - argv[0]) + 1 : 0;
    char other[4096];
    snprintf(other, sizeof other, "%.*sgolden_cuda_%s", directory, argv[0], PRECISION);
    execv(other, argv);
    fprintf(stderr, "golden: built without CUDA, and %s, which is not: %s (./build.sh test cuda/golden makes it)\n",
            other, strerror(errno));
    return 0;
}
#endif

/* --device NAME, which may be NULL; 0 after a message. */
static int open_device(const char *name, char **argv)
{
    if (name && strcmp(name, "cpu") == 0) return 1;
    if (name && strcmp(name, "cuda") == 0) return open_cuda(argv);
    fprintf(stderr, "golden: --device is cpu or cuda\n");
    return 0;
}

/* --threads TEXT, which may be NULL; 0 after a message. */
static int set_threads(const char *text)
{
    char *end = NULL;
    const long count = text ? strtol(text, &end, 10) : 0;
    if (text && *end == '\0' && count >= 1 && count <= 1024) {
        threads = (int)count;
        return 1;
    }
    fprintf(stderr, "golden: --threads is a number from 1 to 1024\n");
    return 0;
}

int main(int argc, char **argv)
{
    int results[FILE_RESULTS] = {0};
    int i, show_bits = 0;
    for (i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--verbose") == 0) {
            verbose = 1;
        } else if (strcmp(argv[i], "--bits") == 0) {
            show_bits = 1;
        } else if (strcmp(argv[i], "--threads") == 0) {
            i++;
            if (!set_threads(argv[i])) return 1;
        } else if (strcmp(argv[i], "--device") == 0) {
            i++;
            if (!open_device(argv[i], argv)) return 1;
        } else {
            results[check_file(argv[i])]++;
        }
    }
    if (argc < 2) {
        fprintf(stderr, "usage: golden [--verbose] [--bits] [--threads N] [--device cpu|cuda] FILE...\n");
    }
    if (show_bits) printf("bits %016" PRIx64 "\n", bits);
    printf("%d passed, %d failed\n", results[FILE_PASSED], results[FILE_FAILED]);
    return results[FILE_FAILED] > 0 || results[FILE_PASSED] == 0;
}
