/* custom_operator.c - an operator of your own: the precision of an autoregression, with two parameters.

   cc -O3 -march=native -fopenmp -I. examples/custom_operator.c -o custom_operator -lm
   nvcc -O3 -x cu -DPU_CUDA -I. examples/custom_operator.c -o custom_operator -lcublas -lcufft -lcurand       (for --device cuda)

   The hidden series is z_i = a z_{i-1} + noise of precision t, stationary; we see it through noise, in parts.
   Its prior precision Gamma is tridiagonal:

       Gamma_ii = t (1 + a^2), but t at both ends;      Gamma_{i,i+1} = Gamma_{i+1,i} = -t a

   A pu_op is a struct of functions, so Gamma needs no matrix, and its gradient has the two entries one wants,
   (d/da, d/dt), rather than n x n. The program then gives the library the same numbers as a dense matrix and
   compares: gradients, solutions and likelihood must agree to rounding, or the exit code is 1.

   The same operator for a GPU is below, after the one for the host: three functions of it are needed there.
*/
#define _POSIX_C_SOURCE 200809L /* the clock in program.h */
#define PU_IMPLEMENTATION
#include "pu.h"

#include <float.h>
#include <math.h>

#include "common/program.h"
#include "common/fit.h"

enum { LENGTH = 80, SERIES = 6, SAMPLES = 10, COLUMNS = SAMPLES + 1 }; /* columns: mean and probes */

typedef struct { /* what op->data points to: the parameters, in the order of the gradient, next to each other */
    pu_real a, t;
} ar1;

#ifdef DEVICE_CODE
#define HERE_AND_THERE __host__ __device__
#else
#define HERE_AND_THERE
#endif

/* Gamma_ii / t */
static HERE_AND_THERE pu_real diagonal(const ar1 *p, pu_int i, pu_int n)
{
    return i == 0 || i == n - 1 ? PU_R(1) : PU_R(1) + p->a * p->a;
}

/* entry i of Gamma x */
static HERE_AND_THERE pu_real product(const ar1 *p, pu_int i, pu_int n, const pu_real *x)
{
    const pu_real neighbours = (i > 0 ? x[i - 1] : PU_R(0)) + (i < n - 1 ? x[i + 1] : PU_R(0));
    return p->t * (diagonal(p, i, n) * x[i] - p->a * neighbours);
}

/* entry i of F e, where F F' = Gamma. A stationary autoregression looks the same backwards in time; written backwards, z_i = a
   z_{i+1} + noise, it makes F lower bidiagonal. That is the Cholesky factor, so the matrix in main() gets the same probes from
   the same seed. */
static HERE_AND_THERE pu_real probe(const ar1 *p, pu_int i, pu_int n, const pu_real *e)
{
    const pu_real own = i == n - 1 ? (pu_real)sqrt(1 - (double)p->a * (double)p->a) * e[i] : e[i];
    return (pu_real)sqrt((double)p->t) * (i > 0 ? own - p->a * e[i - 1] : own);
}

/* Y = Gamma X or Y += Gamma X. k columns at once, column j at at + j ld; they may not be contiguous. */
static pu_status ar1_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    const ar1 *p = (const ar1 *)op->data;
    const pu_int n = op->rows;
    pu_int i, j;
    (void)work; /* scratch of op->work reals per column, if one asks for it */
    for (j = 0; j < k; j++) {
        const pu_real *x = X.at + j * X.ld;
        pu_real *y = Y.at + j * Y.ld;
        for (i = 0; i < n; i++) y[i] = (add ? y[i] : PU_R(0)) + product(p, i, n, x);
    }
    return PU_OK;
}

/* grad += sum_j weight_j d(p'Gamma q)/d(a, t): the one derivative that every gradient is made of.
   p'Gamma q = t (ends + (1 + a^2) inner - a cross), three sums that do not depend on the parameters. */
static pu_status ar1_grad(const pu_op *op, pu_int k, pu_block P, pu_block Q, const pu_real *weight,
                          pu_real *grad, pu_real *work)
{
    const ar1 *o = (const ar1 *)op->data;
    const double a = (double)o->a, t = (double)o->t;
    const pu_int n = op->rows;
    double ends = 0, inner = 0, cross = 0; /* in double, also in a float build */
    pu_int i, j;
    (void)work;
    for (j = 0; j < k; j++) {
        const pu_real *p = P.at + j * P.ld, *q = Q.at + j * Q.ld;
        const double w = (double)weight[j];
        ends += w * ((double)(p[0] * q[0]) + (double)(p[n - 1] * q[n - 1]));
        for (i = 1; i < n - 1; i++) inner += w * (double)(p[i] * q[i]);
        for (i = 1; i < n; i++) cross += w * (double)(p[i] * q[i - 1] + p[i - 1] * q[i]);
    }
    grad[0] += (pu_real)(t * (2 * a * inner - cross));
    grad[1] += (pu_real)(ends + (1 + a * a) * inner - a * cross);
    return PU_OK;
}

/* y_i += Gamma_ii: the preconditioner of PCG is made from it. */
static pu_status ar1_diag(const pu_op *op, pu_real *y, pu_real *work)
{
    const ar1 *p = (const ar1 *)op->data;
    pu_int i;
    (void)work;
    for (i = 0; i < op->rows; i++) y[i] += p->t * diagonal(p, i, op->rows);
    return PU_OK;
}

/* Y = F E: probes */
static pu_status ar1_sample(const pu_op *op, pu_int k, pu_block E, pu_block Y, pu_real *work)
{
    const ar1 *p = (const ar1 *)op->data;
    pu_int i, j;
    (void)work;
    for (j = 0; j < k; j++)
        for (i = 0; i < op->rows; i++) Y.at[j * Y.ld + i] = probe(p, i, op->rows, E.at + j * E.ld);
    return PU_OK;
}

/* log det Gamma = n log t + log(1 - a^2), from the diagonal of F */
static pu_status ar1_logdet(const pu_op *op, double *value, pu_real *work)
{
    const ar1 *p = (const ar1 *)op->data;
    (void)work;
    *value = (double)op->rows * log((double)p->t) + log(1 - (double)p->a * (double)p->a);
    return PU_OK;
}

static pu_status ar1_logdet_grad(const pu_op *op, pu_real weight, pu_real *grad, pu_real *work)
{
    const ar1 *p = (const ar1 *)op->data;
    (void)work;
    grad[0] -= weight * 2 * p->a / (1 - p->a * p->a);
    grad[1] += weight * (pu_real)op->rows / p->t;
    return PU_OK;
}

/* Called before every run: bad numbers are refused, with the index of the culprit. */
static pu_status ar1_check(const pu_op *op, pu_int *index)
{
    const ar1 *p = (const ar1 *)op->data;
    *index = 0;
    if (!(p->a > PU_R(-1) && p->a < PU_R(1))) return PU_E_NOT_DEFINITE;
    *index = 1;
    if (!(p->t > PU_R(0))) return PU_E_NOT_POSITIVE;
    *index = -1;
    return PU_OK;
}

static pu_op ar1_op(pu_int n, const ar1 *parameters) /* n >= 2 */
{
    pu_op op = {0}; /* functions that stay NULL are not there, and a call that needs one says so */
    op.rows = op.cols = n;
    op.params = 2;
    op.data = parameters;
    op.apply = op.apply_t = ar1_apply; /* symmetric */
    op.grad = ar1_grad;
    op.diag = ar1_diag;
    op.sample = ar1_sample;
    op.logdet = ar1_logdet;
    op.logdet_grad = ar1_logdet_grad;
    op.check = ar1_check;
    return op;
}

/* ---- the same on a device ----------------------------------------------------------------------------

   The functions of a device side have the arguments of the host's, but the numbers are in device memory, and the work is to be
   enqueued on cuda->stream, not waited for. Kernels of your own will do. Here are two ways without one, both with a function
   object that is handed over by value:
       pu_cuda_each    calls it for every entry of every column, and it writes there what it likes: apply, sample
       pu_cuda_sums    adds up what it returns: grad
   Everything else (diag, logdet, check) is asked of the host's operator. */

#ifdef DEVICE_CODE

struct each_product {
    ar1 p;
    pu_int n;
    pu_block X, Y;
    int add;
    __device__ void operator()(pu_int i, pu_int j) const
    {
        pu_real *y = Y.at + j * Y.ld;
        y[i] = (add ? y[i] : PU_R(0)) + product(&p, i, n, X.at + j * X.ld);
    }
};

struct each_probe {
    ar1 p;
    pu_int n;
    pu_block E, Y;
    __device__ void operator()(pu_int i, pu_int j) const { Y.at[j * Y.ld + i] = probe(&p, i, n, E.at + j * E.ld); }
};

/* entry i of column j in d(p'Gamma q)/da, or, with of_t, in d/dt */
struct each_derivative {
    ar1 o;
    pu_int n;
    pu_block P, Q;
    int of_t;
    __device__ pu_real operator()(pu_int i, pu_int j) const
    {
        const pu_real *p = P.at + j * P.ld, *q = Q.at + j * Q.ld;
        const pu_real cross = i > 0 ? p[i] * q[i - 1] + p[i - 1] * q[i] : PU_R(0);
        if (of_t) return diagonal(&o, i, n) * p[i] * q[i] - o.a * cross;
        return o.t * ((i == 0 || i == n - 1 ? PU_R(0) : PU_R(2) * o.a * p[i] * q[i]) - cross);
    }
};

typedef struct { /* what op->data of the device side points to, on the host */
    pu_cuda *cuda;
    const ar1 *parameters;
} ar1_there;

static pu_status there_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    const ar1_there *d = (const ar1_there *)op->data;
    const each_product f = {*d->parameters, op->rows, X, Y, add};
    (void)work;
    return pu_cuda_each(d->cuda, op->rows, k, f);
}

static pu_status there_sample(const pu_op *op, pu_int k, pu_block E, pu_block Y, pu_real *work)
{
    const ar1_there *d = (const ar1_there *)op->data;
    const each_probe f = {*d->parameters, op->rows, E, Y};
    (void)work;
    return pu_cuda_each(d->cuda, op->rows, k, f);
}

static pu_status there_grad(const pu_op *op, pu_int k, pu_block P, pu_block Q, const pu_real *weight, pu_real *grad, pu_real *work)
{
    const ar1_there *d = (const ar1_there *)op->data;
    each_derivative f = {*d->parameters, op->rows, P, Q, 0};
    pu_status status = pu_cuda_sums(d->cuda, op->rows, k, f, weight, grad);
    (void)work;
    f.of_t = 1;
    return status ? status : pu_cuda_sums(d->cuda, op->rows, k, f, weight, grad + 1);
}

#endif /* DEVICE_CODE */

/* With --device cuda, `own` gets its device side. */
static void give_device_side(pu_op *own, const ar1 *parameters)
{
#ifdef DEVICE_CODE
    static ar1_there there;
    static pu_side side;
    if (!device_choice) return;
    there.cuda = &device_cuda;
    there.parameters = parameters;
    side.op.rows = own->rows;
    side.op.cols = own->cols;
    side.op.params = own->params;
    side.op.data = &there;
    side.op.apply = there_apply;
    side.op.apply_t = there_apply;
    side.op.grad = there_grad;
    side.op.sample = there_sample;
    own->device = &side;
#else
    (void)own, (void)parameters;
#endif
}

/* ---- mistakes ---------------------------------------------------------------------------------------- */

static int quiet;

/* The library tries out all functions: guards around every array, adding, strides, F F' = Gamma, log det, and the gradient
   against differences, for which it has to know where the parameters are. Worth a line in the tests of any operator. */
static void look_for_mistakes(const pu_op *own, ar1 *parameters)
{
    static pu_check_report found;
    pu_check_options options = {0};
    char line[300];
    pu_status status;
    options.role = PU_ROLE_PRIOR; /* it is to be a Gamma: symmetric and positive definite */
    options.theta = &parameters->a;
    status = pu_op_check(own, &options, &found);
    pu_check_explain(&found, 0, line, sizeof line);
    if (status != PU_OK) fail(1, "pu_op_check", line);
    if (!quiet) printf("%s\n\n", line);
}

/* ---- the comparison ---------------------------------------------------------------------------------- */

/* One line of the table: first entries of x and y, |x - y| / |y| over all n; the largest stays in *worst. */
static void compare(const char *what, pu_int n, const pu_real *x, const pu_real *y, double *worst)
{
    const double error = relative_error(n, x, y);
    if (!(error <= *worst) && *worst == *worst) *worst = error; /* a NaN comes in, and stays */
    if (!quiet) printf("%-32s %14.8f %14.8f   %8.1e\n", what, (double)x[0], (double)y[0], error);
}

/* The matrix has n^2 gradient entries G_ij. By the chain rule d/da = sum_ij G_ij dGamma_ij/da; t likewise. */
static void chain_rule(pu_int n, const ar1 *p, const pu_real *Gamma, const pu_real *G, pu_real *grad)
{
    double a = 0, t = 0;
    pu_int i, j;
    for (i = 0; i < n; i++)
        for (j = 0; j < n; j++) {
            const double g = (double)G[i * n + j];
            if (i == j && i > 0 && i < n - 1) a += g * 2 * (double)p->a * (double)p->t;
            if (i - j == 1 || j - i == 1) a -= g * (double)p->t;
            t += g * (double)Gamma[i * n + j] / (double)p->t;
        }
    grad[0] = (pu_real)a, grad[1] = (pu_real)t;
}

int main(int argc, char **argv)
{
    static pu_real y[SERIES * LENGTH], psi[LENGTH], Gamma[LENGTH * LENGTH], factor[LENGTH * LENGTH];
    static pu_real x[2][SERIES * COLUMNS * LENGTH], grad_psi[2][LENGTH], grad_matrix[LENGTH * LENGTH];
    const double allowed = 1000 * (sizeof(pu_real) == sizeof(float) ? (double)FLT_EPSILON : DBL_EPSILON);
    ar1 prior = {PU_R(0.8), PU_R(2)};
    pu_op own = ar1_op(LENGTH, &prior), matrix = pu_op_spd(LENGTH, Gamma, factor);
    pu_op identity = pu_op_identity(LENGTH);
    pu_lgm model[2] = {{&own, &identity, NULL, NULL, psi, 0}, {&matrix, &identity, NULL, NULL, psi, 0}};
    pu_data data = pu_data_nan(SERIES, LENGTH, y);
    pu_options options = {0};
    pu_report report;
    pu_int i;
    double worst = 0, start;
    long seed = 1, threads = 0;
    const char *path = NULL;
    const option list[] = {opt_number("seed", "of the data and the probes", &seed, 0, 1000000000),
                           opt_number("threads", "0 = as many as there are cores", &threads, 0, 1024),
                           opt_device(), opt_text("json", "write the results to this file", &path),
                           opt_flag("quiet", "print nothing unless something is wrong", &quiet)};
    int exact, m;
    json j;
    options_read(argc, argv, "custom_operator", "Compares a user-defined operator, the precision of an autoregression, "
                 "with the same numbers as a matrix.", (int)(sizeof list / sizeof *list), list);
    file_ready(path);
    device_open();
    look_for_mistakes(&own, &prior);
    give_device_side(&own, &prior);
    start = seconds();

    /* Data: any will do for the comparison. Stream 3 of the generator is not used by the library's probes. */
    pu_normals((uint64_t)seed, 0, 0, 0, 3, 0, SERIES * LENGTH, y);
    for (i = 3; i < SERIES * LENGTH; i += 7) y[i] = (pu_real)NAN; /* gaps */
    for (i = 0; i < LENGTH; i++) psi[i] = PU_R(4);

    /* The same precision as a matrix, row by row (it is symmetric) as products with unit vectors. */
    for (i = 0; i < LENGTH; i++) {
        pu_real unit[LENGTH] = {0};
        pu_block in = {unit, LENGTH}, out = {Gamma + i * LENGTH, LENGTH};
        unit[i] = PU_R(1);
        if (own.apply(&own, 1, in, out, 0, NULL) != PU_OK) fail(1, "Gamma", "has no product");
    }
    if (pu_spd_factor(LENGTH, Gamma, factor, NULL) != PU_OK) fail(1, "Gamma", "is not positive definite");

    options.seed = (uint64_t)seed, options.threads = (int)threads, options.backend = device_backend();
    options.samples = SAMPLES;
    options.solve.iterations = 25;
    options.solve.solver = PU_PCG;
    if (!quiet) printf("device %s\n\n%-32s %14s %14s   %s\n", device_name, "", "own operator", "as a matrix", "difference");
    for (exact = 0; exact < 2; exact++) {
        pu_real grad[2], chained[2], nll[2];
        options.kind = exact ? PU_EXACT : PU_NETWORK, options.engine = exact ? PU_DENSE : PU_ITERATIVE;
        for (m = 0; m < 2; m++) {
            pu_gradient_result out = {0};
            out.Gamma = m == 0 ? grad : grad_matrix;
            out.psi = grad_psi[m];
            out.x = x[m];
            need(pu_gradient(&model[m], &data, &options, NULL, &out, &report), &report);
            nll[m] = (pu_real)report.nll;
        }
        chain_rule(LENGTH, &prior, Gamma, grad_matrix, chained);
        if (!quiet) printf("%s: %s\n", exact ? "exact" : "network gradient, 25 steps of PCG", report.plan);
        /* as one vector: either entry alone may happen to be near zero, and then consists of rounding */
        compare("  d NLL / d(a, t), first entry", 2, grad, chained, &worst);
        compare("  d NLL / dpsi, first entry", LENGTH, grad_psi[0], grad_psi[1], &worst);
        compare("  solutions, first entry", SERIES * (exact ? 1 : COLUMNS) * LENGTH, x[0], x[1], &worst);
        compare("  NLL", 1, nll, nll + 1, &worst);
        /* An optimiser would rather work on u and v, free of bounds: a = tanh u, t = exp v. */
        if (quiet) continue;
        printf("%-32s %14.8f\n", "  d NLL / du, a = tanh u", (double)(grad[0] * (1 - prior.a * prior.a)));
        printf("%-32s %14.8f\n", "  d NLL / dv, t = exp v", (double)(grad[1] * prior.t));
    }
    if (!quiet) printf("\nlargest difference %.1e, allowed %.1e (1000 eps)\n", worst, allowed);

    j = json_open(path);
    json_text(&j, "engine", "iterative and dense");
    json_text(&j, "device", device_name);
    json_number(&j, "seed", (double)seed);
    json_number(&j, "seconds", seconds() - start);
    json_number(&j, "peak_mb", peak_mb());
    json_number(&j, "nll", report.nll); /* exact: of the last gradient */
    json_text(&j, "status", pu_status_name(report.status));
    json_number(&j, "largest_difference", worst);
    json_number(&j, "allowed", allowed);
    json_close(&j);
    device_close();
    if (!(worst <= allowed)) fail(1, "comparison", "the operator and the matrix disagree");
    return 0;
}
