/* test_badinput.c - a table of spoilt calls: each must be refused with the right status, name the
   culprit, and leave every output as it was. A few rows at the end look odd but are legal and must
   run. */
#include "pu_test.h"
#include "test_common.h"
#include <limits.h>

enum { D = 5, M = 4, N = 3, K = 2, STEPS = 6, WIDTH = 3 };

/* ---- a valid call of everything, all of whose parts can be changed --------------------------- */

typedef struct {
    /* arrays, all writable */
    pu_real gamma[D * D], factor[D * D], phi[M * D], nu[D], eta[M], psi[M], y[N * M];
    pu_real delta[N * K * D], x0[N * (K + 1) * D], m[N * D], step[N];
    unsigned char mask[N * M];
    pu_int start[N + 1], index[N * M], id[N];
    pu_real U[D * WIDTH], weight[WIDTH], start_x[D * WIDTH];
    /* what is called */
    pu_op Gamma, Phi, A;
    pu_lgm model;
    pu_data data;
    pu_options options;
    pu_backend backend;
    pu_workspace ws;
    pu_int k, ldu, ldx, datum;
    /* the arguments themselves, so that one of them can be NULL */
    const pu_lgm *model_p;
    const pu_data *data_p;
    const pu_op *A_p;
    const pu_real *U_p, *x0_p, *weight_p;
    const pu_backend *backend_p;
    pu_workspace *ws_p;
    /* outputs */
    tc_outputs o;
    pu_real solve_out[2 * D * WIDTH + D * D];
    pu_column columns[WIDTH];
    pu_real *X_p, *grad_A;
    pu_real exact_out[2 * D * D + 2 * D];
    pu_exact_result exact;
    pu_exact_result *exact_p;
    double nll, se, *nll_p;
} setup;

static void positive(uint64_t seed, pu_int n, pu_real *x)
{
    pu_int i;
    tc_fill_normal(seed, n, x);
    for (i = 0; i < n; i++) x[i] = (pu_real)exp(0.3 * (double)x[i]);
}

static void fill_arrays(setup *s)
{
    pu_int i;
    positive(1, D, s->gamma);
    tc_fill_normal(2, M * D, s->phi);
    tc_fill_normal(3, D, s->nu);
    tc_fill_normal(4, M, s->eta);
    positive(5, M, s->psi);
    tc_fill_normal(6, N * M, s->y);
    tc_fill_normal(7, N * K * D, s->delta);
    tc_fill_normal(8, N * (K + 1) * D, s->x0);
    positive(9, N * D, s->m);
    tc_fill(N, s->step, PU_R(0.01));
    tc_fill_normal(10, D * WIDTH, s->U);
    tc_fill_normal(11, WIDTH, s->weight);
    tc_fill_normal(12, D * WIDTH, s->start_x);
    for (i = 0; i < N * M; i++) s->mask[i] = i % 5 != 4;
    for (i = 0; i <= N; i++) s->start[i] = i * 3;
    for (i = 0; i < N * M; i++) s->index[i] = i % 3 + 1; /* three entries each: rows 1, 2, 3 */
    for (i = 0; i < N; i++) s->id[i] = i;
}

static void place_outputs(setup *s)
{
    s->o = tc_make_outputs(&s->model, N, K, 10 * D + 100);
    memset(s->solve_out, TC_PATTERN, sizeof s->solve_out);
    memset(s->columns, TC_PATTERN, sizeof s->columns);
    memset(s->exact_out, TC_PATTERN, sizeof s->exact_out);
    s->X_p = s->solve_out;
    s->grad_A = NULL;
    s->exact.A = s->exact_out;
    s->exact.Sigma = s->exact_out + D * D;
    s->exact.b = s->exact_out + 2 * D * D;
    s->exact.mu = s->exact_out + 2 * D * D + D;
    s->exact.c = s->exact.logdet = s->exact.nll = -777;
    s->exact.observed = -777;
    s->exact_p = &s->exact;
    s->nll = s->se = -777;
    s->nll_p = &s->nll;
}

static void make_setup(setup *s)
{
    memset(s, 0, sizeof *s);
    fill_arrays(s);
    s->Gamma = pu_op_diagonal(D, s->gamma);
    s->Phi = pu_op_dense(M, D, s->phi);
    s->A = pu_op_diagonal(D, s->gamma);
    s->model.Gamma = &s->Gamma;
    s->model.Phi = &s->Phi;
    s->model.nu = s->nu;
    s->model.eta = s->eta;
    s->model.psi = s->psi;
    s->data = pu_data_masked(N, M, s->y, s->mask);
    s->options.samples = K;
    s->options.solve.iterations = STEPS;
    s->options.threads = 1; /* some user operators below count their calls */
    s->backend = *pu_backend_cpu();
    s->model_p = &s->model;
    s->data_p = &s->data;
    s->A_p = &s->A;
    s->U_p = s->U;
    s->k = WIDTH;
    place_outputs(s);
}

static int unchanged(double x)
{
    return !(x < -777) && !(x > -777);
}

static int outputs_untouched(const setup *s)
{
    return tc_outputs_untouched(&s->o) &&
           tc_is_pattern((const unsigned char *)s->solve_out, sizeof s->solve_out) &&
           tc_is_pattern((const unsigned char *)s->columns, sizeof s->columns) &&
           tc_is_pattern((const unsigned char *)s->exact_out, sizeof s->exact_out) &&
           unchanged(s->exact.c) && unchanged(s->exact.logdet) && unchanged(s->exact.nll) &&
           s->exact.observed == -777 && unchanged(s->nll) && unchanged(s->se);
}

/* ---- the table's columns --------------------------------------------------------------------- */

enum {
    GRADIENT = 1,
    NLL = 2,
    EXACT = 4,
    SOLVE = 8,
    BYTES = 16, /* the size query sees sizes and options, but not the numbers */
    NUMBERS = GRADIENT | NLL | EXACT,
    SHAPES = NUMBERS | BYTES,
    OPTIONS = GRADIENT | NLL | BYTES
};

#define ANY (-9)

typedef struct row row;
struct row {
    const char *name;
    void (*spoil)(setup *s, const row *r);
    int calls;
    pu_status status;
    const char *what;
    pu_int datum, column, index; /* -1: does not apply, ANY: depends on the run */
    double value;                /* for spoilers that put a number at (datum, index) */
};

#define SPOIL(name, statement)                                                                     \
    static void name(setup *s, const row *r)                                                       \
    {                                                                                              \
        (void)r;                                                                                   \
        statement;                                                                                 \
    }

/* ---- user operators that misbehave ----------------------------------------------------------- */

typedef enum { FAIL_NEVER, FAIL_APPLY, FAIL_APPLY_T } fail_place;

/* A dense n x n or M x n matrix behind callbacks; `fail_after` calls of the chosen function
   succeed. */
static struct {
    pu_real a[D * D];
    fail_place fail;
    int fail_after, nan_after;
} user;

static pu_status user_multiply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add,
                               int transpose)
{
    pu_int i, j, l, rows = transpose ? op->cols : op->rows, cols = transpose ? op->rows : op->cols;
    for (j = 0; j < k; j++) {
        for (i = 0; i < rows; i++) {
            pu_real sum = add ? Y.at[j * Y.ld + i] : PU_R(0);
            for (l = 0; l < cols; l++) {
                pu_int entry = transpose ? l * op->cols + i : i * op->cols + l;
                sum += user.a[entry] * X.at[j * X.ld + l];
            }
            Y.at[j * Y.ld + i] = sum;
        }
    }
    if (user.nan_after >= 0 && user.nan_after-- == 0) {
        user.nan_after = 0;
        Y.at[0] = PU_R(NAN);
    }
    return PU_OK;
}

static pu_status user_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add,
                            pu_real *work)
{
    (void)work;
    if (user.fail == FAIL_APPLY && user.fail_after-- <= 0) return PU_E_ARGUMENT;
    return user_multiply(op, k, X, Y, add, 0);
}

static pu_status user_apply_t(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add,
                              pu_real *work)
{
    (void)work;
    if (user.fail == FAIL_APPLY_T && user.fail_after-- <= 0) return PU_E_ARGUMENT;
    return user_multiply(op, k, X, Y, add, 1);
}

static pu_status fail_grad(const pu_op *op, pu_int k, pu_block P, pu_block Q, const pu_real *weight,
                           pu_real *grad, pu_real *work)
{
    (void)op, (void)k, (void)P, (void)Q, (void)weight, (void)grad, (void)work;
    return PU_E_ARGUMENT;
}

static pu_status fail_diag(const pu_op *op, pu_real *y, pu_real *work)
{
    (void)op, (void)y, (void)work;
    return PU_E_ARGUMENT;
}

static pu_status fail_gram_diag(const pu_op *op, const pu_real *w, pu_real *y, pu_real *work)
{
    (void)op, (void)w, (void)y, (void)work;
    return PU_E_ARGUMENT;
}

static pu_status fail_sample(const pu_op *op, pu_int k, pu_block E, pu_block Y, pu_real *work)
{
    (void)op, (void)k, (void)E, (void)Y, (void)work;
    return PU_E_ARGUMENT;
}

static pu_status fail_logdet(const pu_op *op, double *value, pu_real *work)
{
    (void)op, (void)value, (void)work;
    return PU_E_ARGUMENT;
}

static pu_status nan_logdet(const pu_op *op, double *value, pu_real *work)
{
    (void)op, (void)work;
    *value = (double)NAN;
    return PU_OK;
}

static pu_status fail_logdet_grad(const pu_op *op, pu_real weight, pu_real *grad, pu_real *work)
{
    (void)op, (void)weight, (void)grad, (void)work;
    return PU_E_ARGUMENT;
}

static pu_status fail_check(const pu_op *op, pu_int *index)
{
    (void)op;
    *index = 3;
    return PU_E_NOT_POSITIVE;
}

/* "Ran, but": a status that would promise outputs. */
static pu_status odd_check(const pu_op *op, pu_int *index)
{
    (void)op;
    *index = -1;
    return PU_CAP;
}

static pu_op user_op(pu_int rows, pu_int cols)
{
    pu_op op;
    memset(&op, 0, sizeof op);
    op.rows = rows;
    op.cols = cols;
    op.apply = user_apply;
    op.apply_t = user_apply_t;
    return op;
}

static void set_user_diagonal(pu_real value)
{
    pu_int i;
    memset(&user, 0, sizeof user);
    user.nan_after = -1;
    for (i = 0; i < D; i++) user.a[i * D + i] = value;
}

/* Gamma becomes a callback that is 2 I; the probes are supplied, since it cannot draw any. */
static void user_gamma(setup *s)
{
    set_user_diagonal(PU_R(2));
    s->Gamma = user_op(D, D);
    s->options.delta = s->delta;
    s->o.out.Gamma = NULL;
}

/* Phi becomes a callback with the values it had. */
static void user_phi(setup *s)
{
    set_user_diagonal(PU_R(0));
    memcpy(user.a, s->phi, sizeof s->phi);
    s->Phi = user_op(M, D);
    s->o.out.Phi = NULL;
}

/* ---- spoilers: null pointers ----------------------------------------------------------------- */

SPOIL(null_model, s->model_p = NULL)
SPOIL(null_data, s->data_p = NULL)
SPOIL(null_gamma, s->model.Gamma = NULL)
SPOIL(null_phi, s->model.Phi = NULL)
SPOIL(null_psi, s->model.psi = NULL)
SPOIL(null_y, s->data.y = NULL)
SPOIL(null_mask, s->data.mask = NULL)
SPOIL(null_gamma_apply, s->Gamma.apply = NULL)
SPOIL(null_phi_apply, s->Phi.apply = NULL)
SPOIL(null_phi_apply_t, s->Phi.apply_t = NULL)
SPOIL(null_exact_result, s->exact_p = NULL)
SPOIL(null_nll, s->nll_p = NULL)

static void as_lists(setup *s)
{
    s->data = pu_data_lists(N, M, s->start, s->index, s->y);
}

SPOIL(null_start, as_lists(s); s->data.start = NULL)
SPOIL(null_index, as_lists(s); s->data.index = NULL)

/* An allocator that can only give back. */
static void give_back(void *block, size_t bytes, void *context)
{
    (void)bytes, (void)context;
    free(block);
}

SPOIL(half_allocator, s->ws.allocator.free = give_back; s->ws_p = &s->ws)

/* ---- spoilers: sizes ------------------------------------------------------------------------- */

SPOIL(no_data, s->data.n = 0)
SPOIL(negative_n, s->data.n = -2)
SPOIL(data_m_less, s->data.m = M - 1)
SPOIL(data_m_more, s->data.m = M + 1)
SPOIL(data_m_negative, s->data.m = -M)
SPOIL(short_ldy, s->data.ldy = M - 1)
SPOIL(negative_ldy, s->data.ldy = -M)
SPOIL(n_overflows, s->data.n = PTRDIFF_MAX / 2)
SPOIL(ldy_overflows, s->data.ldy = PTRDIFF_MAX / 2)
SPOIL(no_latents, s->Gamma = pu_op_diagonal(0, s->gamma); s->Phi = pu_op_dense(M, 0, s->phi))
SPOIL(gamma_negative, s->Gamma.rows = s->Gamma.cols = -D)
SPOIL(gamma_not_square, s->Gamma.cols = D - 1)
SPOIL(phi_wrong_cols, s->Phi = pu_op_dense(M, D - 1, s->phi))
SPOIL(phi_no_rows, s->Phi = pu_op_dense(0, D, s->phi); s->data.m = 0)
SPOIL(phi_negative_rows, s->Phi.rows = -M)
SPOIL(gamma_negative_params, s->Gamma.params = -1)
SPOIL(phi_negative_params, s->Phi.params = -1)
SPOIL(gamma_negative_work, s->Gamma.work = -1)
SPOIL(phi_negative_work, s->Phi.work = -1)
SPOIL(gamma_negative_noise, s->Gamma.noise = -1)
SPOIL(k_overflows, s->options.samples = PTRDIFF_MAX)
SPOIL(k_plus_1_overflows, s->options.samples = INT32_MAX) /* a pu_int of 32 bits has no K + 1 */
SPOIL(i_overflows, s->options.solve.iterations = PTRDIFF_MAX / 2)

/* ---- spoilers: one number of an array -------------------------------------------------------- */

#define VALUE            ((pu_real)r->value)
#define PER_DATUM(width) (r->datum * (width) + r->index)

static void prior_scaled(setup *s)
{
    s->Gamma = pu_op_scaled_identity(D, s->gamma);
}

static void prior_spd(setup *s)
{
    pu_int i;
    memset(s->gamma, 0, sizeof s->gamma);
    for (i = 0; i < D; i++) s->gamma[i * D + i] = PU_R(3);
    for (i = 0; i + 1 < D; i++) s->gamma[i * D + i + 1] = s->gamma[i * D + D + i] = PU_R(0.5);
    if (pu_spd_factor(D, s->gamma, s->factor, NULL) != PU_OK) exit(2);
    s->Gamma = pu_op_spd(D, s->gamma, s->factor);
}

SPOIL(put_nu, s->nu[r->index] = VALUE)
SPOIL(put_eta, s->eta[r->index] = VALUE)
SPOIL(put_psi, s->psi[r->index] = VALUE)
SPOIL(put_phi, s->phi[r->index] = VALUE)
SPOIL(put_diagonal, s->gamma[r->index] = VALUE)
SPOIL(put_scaled, prior_scaled(s); s->gamma[0] = VALUE)
SPOIL(put_spd, prior_spd(s); s->gamma[r->index] = VALUE)
SPOIL(put_factor, prior_spd(s); s->factor[r->index] = VALUE)
SPOIL(put_y_full, s->data = pu_data_full(N, M, s->y); s->y[PER_DATUM(M)] = VALUE)
SPOIL(put_y_masked, s->mask[PER_DATUM(M)] = 1; s->y[PER_DATUM(M)] = VALUE)
SPOIL(put_y_nan_kind, s->data = pu_data_nan(N, M, s->y); s->y[PER_DATUM(M)] = VALUE)
/* a list names rows of Phi: place p holds row p + 1 */
SPOIL(put_y_lists, as_lists(s); s->y[s->start[r->datum] + r->index - 1] = VALUE)
SPOIL(put_y_strided, s->data = pu_data_full(N - 1, M, s->y); s->data.ldy = M + 1;
      s->y[r->datum * (M + 1) + r->index] = VALUE)
SPOIL(put_delta, s->options.delta = s->delta; s->delta[r->datum * K * D + r->index] = VALUE)
SPOIL(put_x0, s->options.x0 = s->x0; s->o.out.logdet = NULL;
      s->x0[r->datum * (K + 1) * D + r->index] = VALUE)
/* Finite, but its square is not. */
#define TOO_LARGE PU_TEST_PICK(1e200, 1e30)

SPOIL(large_y, s->y[0] = PU_R(TOO_LARGE))
SPOIL(large_y_dense, s->y[0] = PU_R(TOO_LARGE); s->options.engine = PU_DENSE;
      s->options.kind = PU_MONTE_CARLO; s->o.out.logdet = NULL)
SPOIL(large_y_exact, s->y[0] = PU_R(TOO_LARGE); s->options.kind = PU_EXACT; s->o.out.logdet = NULL)
SPOIL(put_m, s->options.solve.solver = PU_PCG; s->options.solve.precond = s->m;
      s->m[PER_DATUM(D)] = VALUE)
SPOIL(put_step, s->options.solve.solver = PU_GD; s->options.solve.step = s->step;
      s->o.out.logdet = NULL; s->step[r->datum] = VALUE)

/* ---- spoilers: lists ------------------------------------------------------------------------- */

SPOIL(list_repeats, as_lists(s); s->index[4] = s->index[3])
SPOIL(list_decreases, as_lists(s); s->index[4] = 3; s->index[5] = 2)
SPOIL(list_beyond, as_lists(s); s->index[8] = M)
SPOIL(list_far_beyond, as_lists(s); s->index[8] = PTRDIFF_MAX)
SPOIL(list_negative, as_lists(s); s->index[3] = -1)
SPOIL(start_decreases, as_lists(s); s->start[2] = 2)
SPOIL(start_negative, as_lists(s); s->start[0] = -1)

/* start = 0, 7, 3, 3: only three entries exist. What comes after them is not to be read, so the
   rows there, which do not increase either, must not be what is complained about. */
SPOIL(start_overshoots, as_lists(s); s->start[1] = 7; s->start[2] = 3; s->start[3] = 3)

/* ---- spoilers: properties of operators ------------------------------------------------------- */

SPOIL(user_not_symmetric, user_gamma(s); user.a[1] = PU_R(1))
SPOIL(user_slightly_not_symmetric, user_gamma(s); user.a[1] = PU_R(0.01))
SPOIL(user_negative, user_gamma(s); set_user_diagonal(PU_R(-2)))
/* One small negative eigenvalue: x'Gamma x of a random x is positive nearly always, but D steps of
   CG must meet it. */
static void mildly_indefinite(setup *s)
{
    pu_int m;
    user_gamma(s);
    user.a[D * D - 1] = PU_R(-0.25);
    for (m = 0; m < M; m++) s->phi[m * D + D - 1] = PU_R(0); /* the data must not repair it */
}

SPOIL(user_mildly_indefinite, mildly_indefinite(s))

/* Positive diagonal, indefinite all the same: nobody factorises it, so the curvature must tell. */
static void indefinite_spd(setup *s)
{
    pu_int m;
    prior_spd(s);
    memset(s->gamma + (D - 2) * D, 0, 2 * D * sizeof(pu_real));
    for (m = 0; m < D; m++) s->gamma[m * D + D - 1] = s->gamma[m * D + D - 2] = PU_R(0);
    s->gamma[D * D - 1] = s->gamma[D * D - D - 2] = PU_R(1);
    s->gamma[D * D - 2] = s->gamma[D * D - D - 1] = PU_R(2);
    for (m = 0; m < M; m++) s->phi[m * D + D - 1] = s->phi[m * D + D - 2] = PU_R(0);
    s->Gamma = pu_op_spd(D, s->gamma, NULL);
    s->options.delta = s->delta;
    s->o.out.Gamma = NULL;
}

SPOIL(spd_indefinite, indefinite_spd(s))
SPOIL(spd_indefinite_dense, indefinite_spd(s); s->options.kind = PU_MONTE_CARLO;
      s->options.engine = PU_DENSE; s->o.out.logdet = NULL)

/* The matrix of a dense operator need not be symmetric, but as a prior precision it must be. */
SPOIL(dense_prior, prior_spd(s); s->gamma[1] = PU_R(0.25); s->Gamma = pu_op_dense(D, D, s->gamma);
      s->options.delta = s->delta; s->o.out.Gamma = NULL)

static pu_op summand; /* sums borrow their operands */

SPOIL(sum_prior, prior_spd(s); s->gamma[1] = PU_R(0.25); summand = pu_op_dense(D, D, s->gamma);
      s->Gamma = pu_op_sum(&summand, &summand); s->options.delta = s->delta; s->o.out.Gamma = NULL)

/* A factor of some other matrix. */
SPOIL(stale_factor, prior_spd(s); s->factor[r->index] *= PU_R(1.5))

/* ---- spoilers: user functions that fail ------------------------------------------------------ */

SPOIL(gamma_apply_fails, user_gamma(s); s->Gamma.trusted = 2; user.fail = FAIL_APPLY)
SPOIL(gamma_apply_fails_in_test, user_gamma(s); user.fail = FAIL_APPLY)
SPOIL(gamma_apply_fails_late, user_gamma(s); user.fail = FAIL_APPLY; user.fail_after = 12)
SPOIL(phi_apply_fails, user_phi(s); user.fail = FAIL_APPLY)
SPOIL(phi_apply_fails_late, user_phi(s); user.fail = FAIL_APPLY; user.fail_after = 7)
SPOIL(phi_apply_t_fails, user_phi(s); user.fail = FAIL_APPLY_T)
SPOIL(phi_apply_t_fails_late, user_phi(s); user.fail = FAIL_APPLY_T; user.fail_after = 9)
SPOIL(gamma_grad_fails, s->Gamma.grad = fail_grad)
SPOIL(phi_grad_fails, s->Phi.grad = fail_grad)
SPOIL(gamma_sample_fails, s->Gamma.sample = fail_sample)
SPOIL(gamma_logdet_fails, s->Gamma.logdet = fail_logdet)
SPOIL(gamma_logdet_nan, s->Gamma.logdet = nan_logdet)
SPOIL(gamma_logdet_grad_fails, s->Gamma.logdet_grad = fail_logdet_grad)
SPOIL(gamma_check_fails, s->Gamma.check = fail_check)
SPOIL(phi_check_fails, s->Phi.check = fail_check)
SPOIL(phi_check_positive, s->Phi.check = odd_check)
SPOIL(gamma_diag_fails, s->options.solve.solver = PU_PCG; s->Gamma.diag = fail_diag)
SPOIL(phi_gram_diag_fails, s->options.solve.solver = PU_PCG; s->Phi.gram_diag = fail_gram_diag)
SPOIL(gamma_apply_nan, user_gamma(s); s->Gamma.trusted = 2; user.nan_after = 0)
SPOIL(gamma_apply_nan_in_test, user_gamma(s); user.nan_after = 0)
SPOIL(gamma_apply_nan_late, user_gamma(s); user.nan_after = 8)
SPOIL(phi_apply_nan, user_phi(s); user.nan_after = 0)
SPOIL(phi_apply_nan_late, user_phi(s); user.nan_after = 11)

/* ---- spoilers: functions that are missing ---------------------------------------------------- */

SPOIL(no_gamma_grad, s->Gamma.grad = NULL)
SPOIL(no_phi_grad, s->Phi.grad = NULL)
SPOIL(no_gamma_sample, s->Gamma.sample = NULL)
SPOIL(no_gamma_logdet, s->Gamma.logdet = NULL)
SPOIL(no_gamma_logdet_grad, s->Gamma.logdet_grad = NULL)
SPOIL(no_gamma_diag, s->options.solve.solver = PU_PCG; s->Gamma.diag = NULL)
SPOIL(no_phi_gram_diag, s->options.solve.solver = PU_PCG; s->Phi.gram_diag = NULL)
SPOIL(nll_by_sd, s->options.solve.solver = PU_SD)
SPOIL(nll_by_gd, s->options.solve.solver = PU_GD)
SPOIL(nll_warm, s->options.x0 = s->x0)
SPOIL(logdet_by_sd, s->options.solve.solver = PU_SD)
SPOIL(logdet_by_gd, s->options.solve.solver = PU_GD)
SPOIL(logdet_exact, s->options.kind = PU_EXACT)
SPOIL(logdet_warm, s->options.x0 = s->x0)

/* ---- spoilers: options ----------------------------------------------------------------------- */

SPOIL(no_samples_network, s->options.samples = PU_ZERO)
SPOIL(no_samples_output, s->options.samples = PU_ZERO; s->options.kind = PU_OUTPUT)
SPOIL(no_samples_mc, s->options.samples = PU_ZERO; s->options.kind = PU_MONTE_CARLO)
SPOIL(no_samples_mc_dense, s->options.samples = PU_ZERO; s->options.kind = PU_MONTE_CARLO;
      s->options.engine = PU_DENSE)
SPOIL(samples_wrong, s->options.samples = -7)
SPOIL(samples_negative, s->options.samples = -5)
SPOIL(iterations_wrong, s->options.solve.iterations = -7)
SPOIL(iterations_negative, s->options.solve.iterations = -7)
SPOIL(tolerance_negative, s->options.solve.tolerance = -1e-3)
SPOIL(tolerance_nan, s->options.solve.tolerance = (double)NAN)
SPOIL(tolerance_infinite, s->options.solve.tolerance = HUGE_VAL)
SPOIL(absolute_negative, s->options.solve.absolute2 = -1e-3)
SPOIL(absolute_nan, s->options.solve.absolute2 = (double)NAN)
SPOIL(check_every_negative, s->options.solve.check_every = -1)
SPOIL(checkpoint_negative, s->options.solve.tape_every = -5)
SPOIL(checkpoint_reorthogonal, s->options.solve.tape_every = 2;
      s->options.solve.adjoint = PU_ADJOINT_REORTHOGONAL)
SPOIL(checkpoint_auto_adjoint, s->options.solve.tape_every = PU_CHOOSE;
      s->options.solve.adjoint = PU_ADJOINT_AUTO)
SPOIL(bad_solver, s->options.solve.solver = (pu_solver)17)
SPOIL(bad_kind, s->options.kind = (pu_kind)17)
SPOIL(bad_engine, s->options.engine = (pu_engine)17)
SPOIL(bad_adjoint, s->options.solve.adjoint = (pu_adjoint)17)
SPOIL(bad_data_kind, s->data.kind = (pu_data_kind)17)
SPOIL(threads_negative, s->options.threads = -1)
SPOIL(lanes_negative, s->options.lanes = -1)
SPOIL(lanes_many, s->options.lanes = 1000001)
SPOIL(lanes_overflow, s->options.lanes = INT_MAX / 4 + 1)
SPOIL(lanes_most, s->options.lanes = INT_MAX)
SPOIL(error_nan, s->options.error = (double)NAN)
SPOIL(error_infinite, s->options.error = HUGE_VAL)
SPOIL(error_negative, s->options.error = -0.1)
SPOIL(error_alone, s->options.error = 0.05)
SPOIL(most_samples_alone, s->options.most_samples = 50)
SPOIL(most_iterations_alone, s->options.most_iterations = 50)
SPOIL(error_alone_exact, s->options.kind = PU_EXACT; s->options.error = 0.05; s->o.out.logdet = NULL)
SPOIL(m_and_cg, s->options.solve.precond = s->m)
SPOIL(m_and_gd, s->options.solve.precond = s->m; s->options.solve.solver = PU_GD; s->o.out.logdet = NULL)
SPOIL(step_and_cg, s->options.solve.step = s->step)
SPOIL(step_and_pcg, s->options.solve.step = s->step; s->options.solve.solver = PU_PCG)
SPOIL(exact_choose, s->options.kind = PU_EXACT; s->options.samples = PU_CHOOSE; s->o.out.logdet = NULL)
SPOIL(absolute_infinite, s->options.solve.absolute2 = HUGE_VAL)
SPOIL(columns_negative, s->options.columns = -1)
SPOIL(network_dense, s->options.engine = PU_DENSE)
SPOIL(datum_negative, s->datum = -1)
SPOIL(datum_too_large, s->datum = N)
SPOIL(negative_id, s->data.id = s->id; s->id[1] = -1)

/* ---- spoilers: pu_solve ---------------------------------------------------------------------- */

SPOIL(null_A, s->A_p = NULL)
SPOIL(null_A_apply, s->A.apply = NULL)
SPOIL(null_U, s->U_p = NULL)
SPOIL(null_X, s->X_p = NULL)
SPOIL(no_columns, s->k = 0)
SPOIL(negative_columns, s->k = -3)
SPOIL(short_ldu, s->ldu = D - 1)
SPOIL(short_ldx, s->ldx = D - 1)
SPOIL(negative_ldu, s->ldu = -D)
/* U starts with a NaN, so that a call which goes to column 1 before it has looked at the distance
   stops there. */
SPOIL(ldu_overflows, s->U[0] = PU_R(NAN); s->ldu = PTRDIFF_MAX / 2)
SPOIL(ldx_overflows, s->U[0] = PU_R(NAN); s->ldx = PTRDIFF_MAX / 2)
SPOIL(A_no_rows, s->A = pu_op_diagonal(0, s->gamma))
SPOIL(A_not_square, s->A = pu_op_dense(M, D, s->phi))
SPOIL(A_negative_params, s->A.params = -1)
SPOIL(A_negative_work, s->A.work = -1)
SPOIL(no_A_grad, s->A.grad = NULL; s->grad_A = s->solve_out + D * WIDTH)
SPOIL(no_A_diag, s->A.diag = NULL; s->options.solve.solver = PU_PCG)
SPOIL(put_U, s->U[r->column * D + r->index] = VALUE)
SPOIL(put_start, s->x0_p = s->start_x; s->start_x[r->column * D + r->index] = VALUE)
SPOIL(put_weight, s->weight_p = s->weight; s->weight[r->index] = VALUE)
SPOIL(put_solve_m, s->options.solve.solver = PU_PCG; s->options.solve.precond = s->m;
      s->m[r->index] = VALUE)
SPOIL(put_solve_step, s->options.solve.solver = PU_GD; s->options.solve.step = s->step;
      s->step[0] = VALUE)
SPOIL(A_diag_negative_pcg, s->gamma[r->index] = PU_R(-1); s->options.solve.solver = PU_PCG)
SPOIL(A_negative_direction, s->gamma[2] = PU_R(-1))
SPOIL(A_grad_fails, s->A.grad = fail_grad; s->grad_A = s->solve_out + D * WIDTH)
SPOIL(A_diag_fails, s->A.diag = fail_diag; s->options.solve.solver = PU_PCG)

static void user_A(setup *s)
{
    set_user_diagonal(PU_R(2));
    s->A = user_op(D, D);
}

SPOIL(A_not_symmetric, user_A(s); user.a[1] = PU_R(1))
SPOIL(A_negative, user_A(s); set_user_diagonal(PU_R(-2)))
SPOIL(A_apply_fails, user_A(s); user.fail = FAIL_APPLY; s->A.trusted = 2)
SPOIL(A_apply_fails_late, user_A(s); user.a[0] = PU_R(5); user.a[6] = PU_R(3);
      user.fail = FAIL_APPLY; user.fail_after = 3)
SPOIL(A_apply_nan, user_A(s); user.nan_after = 0; s->A.trusted = 2)
SPOIL(A_apply_nan_late, user_A(s); user.a[0] = PU_R(5); user.a[6] = PU_R(3); user.nan_after = 3)
SPOIL(A_dense_not_symmetric, prior_spd(s); s->gamma[1] = PU_R(0.25);
      s->A = pu_op_dense(D, D, s->gamma))
SPOIL(A_spd_not_symmetric, prior_spd(s); s->gamma[1] = PU_R(0.25);
      s->A = pu_op_spd(D, s->gamma, NULL))
SPOIL(large_U, s->U[0] = PU_R(TOO_LARGE))

/* ---- the table ------------------------------------------------------------------------------- */

#define NOWHERE      -1, -1, -1, 0
#define NOT_A_NUMBER ((double)NAN)

static const row rows[] = {
    /* null pointers */
    {"null model", null_model, SHAPES, PU_E_NULL, "model", NOWHERE},
    {"null data", null_data, SHAPES, PU_E_NULL, "data", NOWHERE},
    {"null Gamma", null_gamma, SHAPES, PU_E_NULL, "model.Gamma", NOWHERE},
    {"null Phi", null_phi, SHAPES, PU_E_NULL, "model.Phi", NOWHERE},
    {"null psi", null_psi, SHAPES, PU_E_NULL, "model.psi", NOWHERE},
    {"null y", null_y, SHAPES, PU_E_NULL, "data.y", NOWHERE},
    {"null mask", null_mask, SHAPES, PU_E_NULL, "data.mask", NOWHERE},
    {"null start", null_start, SHAPES, PU_E_NULL, "data.start", NOWHERE},
    {"null index", null_index, SHAPES, PU_E_NULL, "data.index", NOWHERE},
    {"null Gamma apply", null_gamma_apply, SHAPES, PU_E_NULL, "Gamma.apply", NOWHERE},
    {"null Phi apply", null_phi_apply, SHAPES, PU_E_NULL, "Phi.apply", NOWHERE},
    {"null Phi apply_t", null_phi_apply_t, SHAPES, PU_E_NULL, "Phi.apply_t", NOWHERE},
    {"null exact result", null_exact_result, EXACT, PU_E_NULL, "result", NOWHERE},
    {"null nll", null_nll, NLL, PU_E_NULL, "nll", NOWHERE},
    {"half an allocator", half_allocator, NUMBERS, PU_E_NULL, "workspace.allocator", NOWHERE},

    /* sizes */
    {"N = 0", no_data, SHAPES, PU_E_ARGUMENT, "data.n", NOWHERE},
    {"N < 0", negative_n, SHAPES, PU_E_ARGUMENT, "data.n", NOWHERE},
    {"data.m too small", data_m_less, SHAPES, PU_E_SIZE, "data.m", NOWHERE},
    {"data.m too large", data_m_more, SHAPES, PU_E_SIZE, "data.m", NOWHERE},
    {"data.m < 0", data_m_negative, SHAPES, PU_E_SIZE, "data.m", NOWHERE},
    {"ldy < m", short_ldy, SHAPES, PU_E_SIZE, "data.ldy", NOWHERE},
    {"ldy < 0", negative_ldy, SHAPES, PU_E_SIZE, "data.ldy", NOWHERE},
    {"N overflows", n_overflows, SHAPES, PU_E_OVERFLOW, "data.n", NOWHERE},
    {"N ldy overflows", ldy_overflows, SHAPES, PU_E_OVERFLOW, "data.ldy", NOWHERE},
    {"D = 0", no_latents, SHAPES, PU_E_ARGUMENT, "Gamma.rows", NOWHERE},
    {"D < 0", gamma_negative, SHAPES, PU_E_ARGUMENT, "Gamma.rows", NOWHERE},
    {"Gamma not square", gamma_not_square, SHAPES, PU_E_SIZE, "Gamma.cols", NOWHERE},
    {"Phi cols != D", phi_wrong_cols, SHAPES, PU_E_SIZE, "Phi.cols", NOWHERE},
    {"M = 0", phi_no_rows, SHAPES, PU_E_ARGUMENT, "Phi.rows", NOWHERE},
    {"M < 0", phi_negative_rows, SHAPES, PU_E_ARGUMENT, "Phi.rows", NOWHERE},
    {"Gamma params < 0", gamma_negative_params, SHAPES, PU_E_OVERFLOW, "Gamma", NOWHERE},
    {"Phi params < 0", phi_negative_params, SHAPES, PU_E_OVERFLOW, "Phi", NOWHERE},
    {"Gamma work < 0", gamma_negative_work, SHAPES, PU_E_ARGUMENT, "Gamma.work", NOWHERE},
    {"Phi work < 0", phi_negative_work, SHAPES, PU_E_ARGUMENT, "Phi.work", NOWHERE},
    {"Gamma noise < 0", gamma_negative_noise, SHAPES, PU_E_ARGUMENT, "Gamma.noise", NOWHERE},
    {"K overflows", k_overflows, OPTIONS, PU_E_OVERFLOW, "options.samples", NOWHERE},
    {"K + 1 overflows", k_plus_1_overflows, OPTIONS, PU_E_OVERFLOW, "options.samples", NOWHERE},
    {"I overflows", i_overflows, OPTIONS, PU_E_OVERFLOW, "options.solve.iterations", NOWHERE},

    /* numbers of the model */
    {"nu NaN", put_nu, NUMBERS, PU_E_NONFINITE, "model.nu", -1, -1, 3, NOT_A_NUMBER},
    {"nu +Inf", put_nu, NUMBERS, PU_E_NONFINITE, "model.nu", -1, -1, 0, HUGE_VAL},
    {"nu -Inf", put_nu, NUMBERS, PU_E_NONFINITE, "model.nu", -1, -1, 4, -HUGE_VAL},
    {"eta NaN", put_eta, NUMBERS, PU_E_NONFINITE, "model.eta", -1, -1, 2, NOT_A_NUMBER},
    {"eta +Inf", put_eta, NUMBERS, PU_E_NONFINITE, "model.eta", -1, -1, 0, HUGE_VAL},
    {"eta -Inf", put_eta, NUMBERS, PU_E_NONFINITE, "model.eta", -1, -1, 3, -HUGE_VAL},
    {"psi NaN", put_psi, NUMBERS, PU_E_NONFINITE, "model.psi", -1, -1, 1, NOT_A_NUMBER},
    {"psi +Inf", put_psi, NUMBERS, PU_E_NONFINITE, "model.psi", -1, -1, 0, HUGE_VAL},
    {"psi -Inf", put_psi, NUMBERS, PU_E_NONFINITE, "model.psi", -1, -1, 3, -HUGE_VAL},
    {"psi = 0", put_psi, NUMBERS, PU_E_NOT_POSITIVE, "model.psi", -1, -1, 2, 0},
    {"psi < 0", put_psi, NUMBERS, PU_E_NOT_POSITIVE, "model.psi", -1, -1, 3, -1},
    {"Phi NaN", put_phi, NUMBERS, PU_E_NONFINITE, "Phi", -1, -1, 13, NOT_A_NUMBER},
    {"Phi +Inf", put_phi, NUMBERS, PU_E_NONFINITE, "Phi", -1, -1, 0, HUGE_VAL},
    {"Phi -Inf", put_phi, NUMBERS, PU_E_NONFINITE, "Phi", -1, -1, 19, -HUGE_VAL},
    {"diagonal NaN", put_diagonal, NUMBERS, PU_E_NONFINITE, "Gamma", -1, -1, 2, NOT_A_NUMBER},
    {"diagonal +Inf", put_diagonal, NUMBERS, PU_E_NONFINITE, "Gamma", -1, -1, 0, HUGE_VAL},
    {"diagonal -Inf", put_diagonal, NUMBERS, PU_E_NONFINITE, "Gamma", -1, -1, 4, -HUGE_VAL},
    {"diagonal = 0", put_diagonal, NUMBERS, PU_E_NOT_POSITIVE, "Gamma", -1, -1, 3, 0},
    {"diagonal < 0", put_diagonal, NUMBERS, PU_E_NOT_POSITIVE, "Gamma", -1, -1, 1, -2},
    {"scaled identity NaN", put_scaled, NUMBERS, PU_E_NONFINITE, "Gamma", -1, -1, 0, NOT_A_NUMBER},
    {"scaled identity +Inf", put_scaled, NUMBERS, PU_E_NONFINITE, "Gamma", -1, -1, 0, HUGE_VAL},
    {"scaled identity = 0", put_scaled, NUMBERS, PU_E_NOT_POSITIVE, "Gamma", -1, -1, 0, 0},
    {"scaled identity < 0", put_scaled, NUMBERS, PU_E_NOT_POSITIVE, "Gamma", -1, -1, 0, -3},
    {"spd NaN", put_spd, NUMBERS, PU_E_NONFINITE, "Gamma", -1, -1, 7, NOT_A_NUMBER},
    {"spd +Inf", put_spd, NUMBERS, PU_E_NONFINITE, "Gamma", -1, -1, 24, HUGE_VAL},
    {"spd -Inf", put_spd, NUMBERS, PU_E_NONFINITE, "Gamma", -1, -1, 0, -HUGE_VAL},
    {"spd not symmetric", put_spd, NUMBERS, PU_E_NOT_SYMMETRIC, "Gamma", -1, -1, 15, 0.25},
    {"spd diagonal = 0", put_spd, NUMBERS, PU_E_NOT_DEFINITE, "Gamma", -1, -1, 6, 0},
    {"spd diagonal < 0", put_spd, NUMBERS, PU_E_NOT_DEFINITE, "Gamma", -1, -1, 18, -1},
    {"spd factor NaN", put_factor, NUMBERS, PU_E_ARGUMENT, "Gamma (stale factor)", -1, -1, 12, NOT_A_NUMBER},
    {"spd factor stale", stale_factor, NUMBERS, PU_E_ARGUMENT, "Gamma (stale factor)", -1, -1, 12, 0},
    {"spd factor stale, first row", stale_factor, NUMBERS, PU_E_ARGUMENT, "Gamma (stale factor)", -1, -1, 0, 0},

    /* data */
    {"y NaN, full", put_y_full, SHAPES, PU_E_NONFINITE, "data.y", 1, -1, 2, NOT_A_NUMBER},
    {"y +Inf, full", put_y_full, SHAPES, PU_E_NONFINITE, "data.y", 0, -1, 0, HUGE_VAL},
    {"y -Inf, full", put_y_full, SHAPES, PU_E_NONFINITE, "data.y", 2, -1, 3, -HUGE_VAL},
    {"y NaN, masked", put_y_masked, SHAPES, PU_E_NONFINITE, "data.y", 2, -1, 1, NOT_A_NUMBER},
    {"y +Inf, masked", put_y_masked, SHAPES, PU_E_NONFINITE, "data.y", 0, -1, 3, HUGE_VAL},
    {"y +Inf, NaN marks", put_y_nan_kind, SHAPES, PU_E_NONFINITE, "data.y", 1, -1, 0, HUGE_VAL},
    {"y -Inf, NaN marks", put_y_nan_kind, SHAPES, PU_E_NONFINITE, "data.y", 2, -1, 2, -HUGE_VAL},
    {"y NaN, rows apart", put_y_strided, SHAPES, PU_E_NONFINITE, "data.y", 1, -1, 3, NOT_A_NUMBER},
    {"y NaN, lists", put_y_lists, SHAPES, PU_E_NONFINITE, "data.y", 2, -1, 2, NOT_A_NUMBER},
    {"y -Inf, lists", put_y_lists, SHAPES, PU_E_NONFINITE, "data.y", 0, -1, 3, -HUGE_VAL},
    {"list repeats", list_repeats, SHAPES, PU_E_ARGUMENT, "data.index", 1, -1, 4, 0},
    {"list decreases", list_decreases, SHAPES, PU_E_ARGUMENT, "data.index", 1, -1, 5, 0},
    {"list beyond M", list_beyond, SHAPES, PU_E_ARGUMENT, "data.index", 2, -1, 8, 0},
    {"list far beyond M", list_far_beyond, SHAPES, PU_E_ARGUMENT, "data.index", 2, -1, 8, 0},
    {"list negative", list_negative, SHAPES, PU_E_ARGUMENT, "data.index", 1, -1, 3, 0},
    {"start decreases", start_decreases, SHAPES, PU_E_ARGUMENT, "data.start", 1, -1, 2, 0},
    {"start negative", start_negative, SHAPES, PU_E_ARGUMENT, "data.start", 0, -1, 0, 0},
    {"start overshoots", start_overshoots, SHAPES, PU_E_ARGUMENT, "data.start", 1, -1, 2, 0},
    {"id negative", negative_id, SHAPES, PU_E_ARGUMENT, "data.id", 1, -1, 1, 0},
    {"data kind", bad_data_kind, SHAPES, PU_E_ARGUMENT, "data.kind", NOWHERE},
    {"datum < 0", datum_negative, EXACT, PU_E_ARGUMENT, "datum", NOWHERE},
    {"datum = N", datum_too_large, EXACT, PU_E_ARGUMENT, "datum", NOWHERE},

    /* arrays among the options */
    {"delta NaN", put_delta, GRADIENT | NLL, PU_E_NONFINITE, "options.delta", 1, 2, 7,
     NOT_A_NUMBER},
    {"delta Inf", put_delta, GRADIENT | NLL, PU_E_NONFINITE, "options.delta", 2, 2, 9, HUGE_VAL},
    {"x0 NaN", put_x0, GRADIENT, PU_E_NONFINITE, "options.x0", 2, 2, 14, NOT_A_NUMBER},
    {"x0 Inf", put_x0, GRADIENT, PU_E_NONFINITE, "options.x0", 0, 0, 0, -HUGE_VAL},
    {"m NaN", put_m, GRADIENT | NLL, PU_E_NONFINITE, "options.solve.precond", 1, -1, 2, NOT_A_NUMBER},
    {"m Inf", put_m, GRADIENT | NLL, PU_E_NONFINITE, "options.solve.precond", 0, -1, 4, HUGE_VAL},
    {"m = 0", put_m, GRADIENT | NLL, PU_E_NOT_POSITIVE, "options.solve.precond", 2, -1, 0, 0},
    {"m < 0", put_m, GRADIENT | NLL, PU_E_NOT_POSITIVE, "options.solve.precond", 2, -1, 4, -1},
    {"step NaN", put_step, GRADIENT, PU_E_NONFINITE, "options.solve.step", 1, -1, 0, NOT_A_NUMBER},
    {"step Inf", put_step, GRADIENT, PU_E_NONFINITE, "options.solve.step", 0, -1, 0, HUGE_VAL},
    {"step = 0", put_step, GRADIENT, PU_E_NOT_POSITIVE, "options.solve.step", 2, -1, 0, 0},
    {"step < 0", put_step, GRADIENT, PU_E_NOT_POSITIVE, "options.solve.step", 1, -1, 0, -0.01},

    /* operators that are not what they should be */
    {"Gamma not symmetric", user_not_symmetric, GRADIENT, PU_E_NOT_SYMMETRIC, "Gamma", NOWHERE},
    {"Gamma slightly not symmetric", user_slightly_not_symmetric, GRADIENT, PU_E_NOT_SYMMETRIC,
     "Gamma", NOWHERE},
    {"Gamma negative", user_negative, GRADIENT, PU_E_NOT_DEFINITE, "Gamma", NOWHERE},
    {"Gamma mildly indefinite", user_mildly_indefinite, GRADIENT, PU_BREAKDOWN, "solver", ANY, ANY,
     ANY, 0},
    {"spd prior indefinite", spd_indefinite, GRADIENT, PU_BREAKDOWN, "solver", ANY, ANY, ANY, 0},
    {"spd prior indefinite, dense", spd_indefinite_dense, GRADIENT, PU_E_NOT_DEFINITE, "A", 0, -1,
     24, 0},
    {"dense prior not symmetric", dense_prior, GRADIENT, PU_E_NOT_SYMMETRIC, "Gamma", NOWHERE},
    {"sum as prior not symmetric", sum_prior, GRADIENT, PU_E_NOT_SYMMETRIC, "Gamma", NOWHERE},

    /* functions that fail */
    {"Gamma apply fails", gamma_apply_fails, GRADIENT, PU_E_OPERATOR, "Gamma.apply", NOWHERE},
    {"Gamma apply fails in the test", gamma_apply_fails_in_test, GRADIENT, PU_E_OPERATOR, "Gamma.apply",
     NOWHERE},
    {"Gamma apply fails late", gamma_apply_fails_late, GRADIENT, PU_E_OPERATOR, "Gamma.apply", ANY, ANY, ANY,
     0},
    {"Phi apply fails", phi_apply_fails, NUMBERS, PU_E_OPERATOR, "Phi.apply", NOWHERE},
    {"Phi apply fails late", phi_apply_fails_late, GRADIENT, PU_E_OPERATOR, "Phi.apply", ANY, ANY, ANY, 0},
    {"Phi apply_t fails", phi_apply_t_fails, NUMBERS, PU_E_OPERATOR, "Phi.apply_t", NOWHERE},
    {"Phi apply_t fails late", phi_apply_t_fails_late, GRADIENT, PU_E_OPERATOR, "Phi.apply_t", ANY, ANY, ANY,
     0},
    {"Gamma grad fails", gamma_grad_fails, GRADIENT, PU_E_OPERATOR, "Gamma.grad", 0, -1, -1, 0},
    {"Phi grad fails", phi_grad_fails, GRADIENT, PU_E_OPERATOR, "Phi.grad", 0, -1, -1, 0},
    {"Gamma sample fails", gamma_sample_fails, GRADIENT | NLL, PU_E_OPERATOR, "Gamma.sample", 0, -1,
     -1, 0},
    {"Gamma logdet fails", gamma_logdet_fails, NUMBERS, PU_E_OPERATOR, "Gamma.logdet", NOWHERE},
    {"Gamma logdet NaN", gamma_logdet_nan, NUMBERS, PU_NONFINITE, "Gamma.logdet", NOWHERE},
    {"Gamma logdet_grad fails", gamma_logdet_grad_fails, GRADIENT, PU_E_OPERATOR,
     "Gamma.logdet_grad", NOWHERE},
    {"Gamma check fails", gamma_check_fails, NUMBERS, PU_E_NOT_POSITIVE, "Gamma", -1, -1, 3, 0},
    {"Phi check fails", phi_check_fails, NUMBERS, PU_E_NOT_POSITIVE, "Phi", -1, -1, 3, 0},
    {"Phi check gives a positive status", phi_check_positive, NUMBERS, PU_E_OPERATOR, "Phi.check",
     NOWHERE},
    {"Gamma diag fails", gamma_diag_fails, GRADIENT | NLL, PU_E_OPERATOR, "Gamma.diag", NOWHERE},
    {"Phi gram_diag fails", phi_gram_diag_fails, GRADIENT | NLL, PU_E_OPERATOR,
     "Phi.gram_diag", 0, -1, -1, 0},
    {"Gamma apply gives NaN", gamma_apply_nan, GRADIENT, PU_NONFINITE, NULL, ANY, ANY, ANY, 0},
    {"Gamma apply gives NaN in the test", gamma_apply_nan_in_test, GRADIENT, PU_NONFINITE, "Gamma",
     NOWHERE},
    {"Gamma apply gives NaN late", gamma_apply_nan_late, GRADIENT, PU_NONFINITE, NULL, ANY, ANY,
     ANY, 0},
    {"Phi gives NaN", phi_apply_nan, NUMBERS, PU_NONFINITE, NULL, ANY, ANY, ANY, 0},
    {"Phi gives NaN late", phi_apply_nan_late, GRADIENT, PU_NONFINITE, NULL, ANY, ANY, ANY, 0},
    {"numbers overflow", large_y, NUMBERS, PU_NONFINITE, NULL, ANY, ANY, ANY, 0},
    {"numbers overflow, dense", large_y_dense, GRADIENT | NLL, PU_NONFINITE, NULL, ANY, ANY, ANY,
     0},
    {"numbers overflow, exact", large_y_exact, GRADIENT | NLL, PU_NONFINITE, NULL, ANY, ANY, ANY,
     0},

    /* functions that are missing */
    {"no Gamma grad", no_gamma_grad, GRADIENT | BYTES, PU_E_UNSUPPORTED, "Gamma.grad", NOWHERE},
    {"no Phi grad", no_phi_grad, GRADIENT | BYTES, PU_E_UNSUPPORTED, "Phi.grad", NOWHERE},
    {"no Gamma sample", no_gamma_sample, OPTIONS, PU_E_UNSUPPORTED,
     "Gamma.sample (or give options.delta)", NOWHERE},
    {"no Gamma logdet", no_gamma_logdet, NLL | EXACT, PU_E_UNSUPPORTED, "Gamma.logdet", NOWHERE},
    {"no Gamma logdet_grad", no_gamma_logdet_grad, GRADIENT | BYTES, PU_E_UNSUPPORTED,
     "Gamma.logdet_grad", NOWHERE},
    {"no Gamma diag", no_gamma_diag, OPTIONS, PU_E_UNSUPPORTED,
     "Gamma.diag (or give options.solve.precond)", NOWHERE},
    {"no Phi gram_diag", no_phi_gram_diag, OPTIONS, PU_E_UNSUPPORTED,
     "Phi.gram_diag (or give options.solve.precond)", NOWHERE},
    {"nll by SD", nll_by_sd, NLL, PU_E_UNSUPPORTED,
     "options.solve.solver (CG or PCG gives the log det)", NOWHERE},
    {"nll by GD", nll_by_gd, NLL, PU_E_UNSUPPORTED,
     "options.solve.solver (CG or PCG gives the log det)", NOWHERE},
    {"nll from a warm start", nll_warm, NLL, PU_E_ARGUMENT,
     "options.x0 (a warm start gives no log det)", NOWHERE},

    {"logdet by SD", logdet_by_sd, GRADIENT | BYTES, PU_E_UNSUPPORTED, "results.logdet", NOWHERE},
    {"logdet by GD", logdet_by_gd, GRADIENT | BYTES, PU_E_UNSUPPORTED, "results.logdet", NOWHERE},
    {"logdet, exact", logdet_exact, GRADIENT | BYTES, PU_E_UNSUPPORTED, "results.logdet", NOWHERE},
    {"logdet, warm start", logdet_warm, GRADIENT | BYTES, PU_E_UNSUPPORTED, "results.logdet",
     NOWHERE},

    /* options */
    {"K none, network", no_samples_network, OPTIONS, PU_E_ARGUMENT, "options.samples", NOWHERE},
    {"K none, output", no_samples_output, OPTIONS, PU_E_ARGUMENT, "options.samples", NOWHERE},
    {"K none, Monte Carlo", no_samples_mc, OPTIONS, PU_E_ARGUMENT, "options.samples", NOWHERE},
    {"K none, Monte Carlo dense", no_samples_mc_dense, GRADIENT | BYTES, PU_E_ARGUMENT,
     "options.samples", NOWHERE},
    {"K = -7", samples_wrong, OPTIONS, PU_E_ARGUMENT, "options.samples", NOWHERE},
    {"K < 0", samples_negative, OPTIONS, PU_E_ARGUMENT, "options.samples", NOWHERE},
    {"I = -7", iterations_wrong, OPTIONS, PU_E_ARGUMENT, "options.solve.iterations", NOWHERE},
    {"I < 0", iterations_negative, OPTIONS, PU_E_ARGUMENT, "options.solve.iterations", NOWHERE},
    {"tolerance < 0", tolerance_negative, OPTIONS, PU_E_ARGUMENT, "options.solve.tolerance",
     NOWHERE},
    {"tolerance NaN", tolerance_nan, OPTIONS, PU_E_ARGUMENT, "options.solve.tolerance", NOWHERE},
    {"tolerance Inf", tolerance_infinite, OPTIONS, PU_E_ARGUMENT, "options.solve.tolerance",
     NOWHERE},
    {"absolute2 < 0", absolute_negative, OPTIONS, PU_E_ARGUMENT, "options.solve.absolute2",
     NOWHERE},
    {"absolute2 NaN", absolute_nan, OPTIONS, PU_E_ARGUMENT, "options.solve.absolute2", NOWHERE},
    {"check_every < 0", check_every_negative, OPTIONS, PU_E_ARGUMENT, "options.solve.check_every",
     NOWHERE},
    {"checkpoint < 0", checkpoint_negative, OPTIONS, PU_E_ARGUMENT, "options.solve.tape_every",
     NOWHERE},
    {"checkpoint and reorthogonal", checkpoint_reorthogonal, GRADIENT | BYTES, PU_E_ARGUMENT,
     "options.solve.tape_every (needs adjoint FULL or SHORTCUT)", NOWHERE},
    {"checkpoint and adjoint auto", checkpoint_auto_adjoint, GRADIENT | BYTES, PU_E_ARGUMENT,
     "options.solve.tape_every (needs adjoint FULL or SHORTCUT)", NOWHERE},
    {"solver", bad_solver, OPTIONS, PU_E_ARGUMENT, "options.solve.solver", NOWHERE},
    {"kind", bad_kind, OPTIONS, PU_E_ARGUMENT, "options.kind", NOWHERE},
    {"engine", bad_engine, OPTIONS, PU_E_ARGUMENT, "options.engine", NOWHERE},
    {"adjoint", bad_adjoint, OPTIONS, PU_E_ARGUMENT, "options.solve.adjoint", NOWHERE},
    {"threads < 0", threads_negative, OPTIONS, PU_E_ARGUMENT, "options.threads", NOWHERE},
    {"lanes < 0", lanes_negative, OPTIONS, PU_E_ARGUMENT, "options.lanes", NOWHERE},
    {"lanes > 1,000,000", lanes_many, OPTIONS, PU_E_ARGUMENT, "options.lanes", NOWHERE},
    {"lanes overflow times 4", lanes_overflow, OPTIONS, PU_E_ARGUMENT, "options.lanes", NOWHERE},
    {"lanes INT_MAX", lanes_most, OPTIONS, PU_E_ARGUMENT, "options.lanes", NOWHERE},
    {"error NaN", error_nan, OPTIONS, PU_E_ARGUMENT, "options.error", NOWHERE},
    {"error Inf", error_infinite, OPTIONS, PU_E_ARGUMENT, "options.error", NOWHERE},
    {"error < 0", error_negative, OPTIONS, PU_E_ARGUMENT, "options.error", NOWHERE},
    {"error without PU_CHOOSE", error_alone, OPTIONS, PU_E_ARGUMENT, "options.error", NOWHERE},
    {"most_samples without PU_CHOOSE", most_samples_alone, OPTIONS, PU_E_ARGUMENT, "options.most_samples", NOWHERE},
    {"most_iterations without PU_CHOOSE", most_iterations_alone, OPTIONS, PU_E_ARGUMENT, "options.most_iterations", NOWHERE},
    {"error and PU_EXACT", error_alone_exact, OPTIONS, PU_E_ARGUMENT, "options.error", NOWHERE},
    {"m, CG", m_and_cg, OPTIONS | SOLVE, PU_E_ARGUMENT, "options.solve.precond (needs solver = PU_PCG)", NOWHERE},
    {"m, GD", m_and_gd, GRADIENT | BYTES | SOLVE, PU_E_ARGUMENT, "options.solve.precond (needs solver = PU_PCG)",
     NOWHERE},
    {"step, CG", step_and_cg, OPTIONS | SOLVE, PU_E_ARGUMENT, "options.solve.step (needs solver = PU_GD)", NOWHERE},
    {"step, PCG", step_and_pcg, OPTIONS | SOLVE, PU_E_ARGUMENT, "options.solve.step (needs solver = PU_GD)", NOWHERE},
    {"PU_CHOOSE and PU_EXACT", exact_choose, GRADIENT | BYTES, PU_E_ARGUMENT,
     "options.samples (at least 1, or 0 = 10; PU_ZERO only with PU_EXACT, PU_CHOOSE with the other kinds)", NOWHERE},
    {"absolute2 Inf", absolute_infinite, OPTIONS | SOLVE, PU_E_ARGUMENT, "options.solve.absolute2", NOWHERE},
    {"columns < 0", columns_negative, OPTIONS, PU_E_ARGUMENT, "options.columns", NOWHERE},
    {"network by the dense engine", network_dense, GRADIENT | BYTES, PU_E_ARGUMENT,
     "options.engine", NOWHERE},

    /* pu_solve */
    {"null A", null_A, SOLVE, PU_E_NULL, "A", NOWHERE},
    {"null A apply", null_A_apply, SOLVE, PU_E_NULL, "A.apply", NOWHERE},
    {"null U", null_U, SOLVE, PU_E_NULL, "U", NOWHERE},
    {"null X", null_X, SOLVE, PU_E_NULL, "X", NOWHERE},
    {"k = 0", no_columns, SOLVE, PU_E_ARGUMENT, "k", NOWHERE},
    {"k < 0", negative_columns, SOLVE, PU_E_ARGUMENT, "k", NOWHERE},
    {"ldu < n", short_ldu, SOLVE, PU_E_SIZE, "ldu", NOWHERE},
    {"ldu < 0", negative_ldu, SOLVE, PU_E_SIZE, "ldu", NOWHERE},
    {"ldx < n", short_ldx, SOLVE, PU_E_SIZE, "ldx", NOWHERE},
    {"ldu overflows", ldu_overflows, SOLVE, PU_E_OVERFLOW, "ldu", NOWHERE},
    {"ldx overflows", ldx_overflows, SOLVE, PU_E_OVERFLOW, "ldx", NOWHERE},
    {"A without rows", A_no_rows, SOLVE, PU_E_ARGUMENT, "A.rows", NOWHERE},
    {"A not square", A_not_square, SOLVE, PU_E_SIZE, "A.cols", NOWHERE},
    {"A params < 0", A_negative_params, SOLVE, PU_E_OVERFLOW, "A.params", NOWHERE},
    {"A work < 0", A_negative_work, SOLVE, PU_E_ARGUMENT, "A.work", NOWHERE},
    {"no A grad", no_A_grad, SOLVE, PU_E_UNSUPPORTED, "A.grad", NOWHERE},
    {"no A diag", no_A_diag, SOLVE, PU_E_UNSUPPORTED, "A.diag (or give options.solve.precond)", NOWHERE},
    {"A NaN", put_diagonal, SOLVE, PU_E_NONFINITE, "A", -1, -1, 3, NOT_A_NUMBER},
    {"U NaN", put_U, SOLVE, PU_E_NONFINITE, "U", -1, 1, 2, NOT_A_NUMBER},
    {"U Inf", put_U, SOLVE, PU_E_NONFINITE, "U", -1, 2, 4, HUGE_VAL},
    {"solve x0 NaN", put_start, SOLVE, PU_E_NONFINITE, "x0", -1, 2, 0, NOT_A_NUMBER},
    {"weight NaN", put_weight, SOLVE, PU_E_NONFINITE, "weight", -1, -1, 1, NOT_A_NUMBER},
    {"weight Inf", put_weight, SOLVE, PU_E_NONFINITE, "weight", -1, -1, 2, -HUGE_VAL},
    {"solve m NaN", put_solve_m, SOLVE, PU_E_NONFINITE, "options.solve.precond", -1, -1, 3, NOT_A_NUMBER},
    {"solve m = 0", put_solve_m, SOLVE, PU_E_NOT_POSITIVE, "options.solve.precond", -1, -1, 0, 0},
    {"solve m < 0", put_solve_m, SOLVE, PU_E_NOT_POSITIVE, "options.solve.precond", -1, -1, 4, -1},
    {"solve step NaN", put_solve_step, SOLVE, PU_E_NONFINITE, "options.solve.step", -1, -1, 0,
     NOT_A_NUMBER},
    {"solve step < 0", put_solve_step, SOLVE, PU_E_NOT_POSITIVE, "options.solve.step", -1, -1, 0,
     -1},
    {"A diagonal < 0, PCG", A_diag_negative_pcg, SOLVE, PU_E_NOT_POSITIVE, "diag(A)", -1, -1, 2, 0},
    {"A diagonal < 0, CG", A_negative_direction, SOLVE, PU_BREAKDOWN, "solver", -1, ANY, ANY, 0},
    {"A not symmetric", A_not_symmetric, SOLVE, PU_E_NOT_SYMMETRIC, "A", NOWHERE},
    {"A negative", A_negative, SOLVE, PU_E_NOT_DEFINITE, "A", NOWHERE},
    {"A spd not symmetric", A_spd_not_symmetric, SOLVE, PU_E_NOT_SYMMETRIC, "A", -1, -1, 5, 0},
    {"A dense not symmetric", A_dense_not_symmetric, SOLVE, PU_E_NOT_SYMMETRIC, "A", -1, -1, ANY,
     0},
    {"A apply fails", A_apply_fails, SOLVE, PU_E_OPERATOR, "A.apply", NOWHERE},
    {"A apply fails late", A_apply_fails_late, SOLVE, PU_E_OPERATOR, "A.apply", NOWHERE},
    {"A apply gives NaN", A_apply_nan, SOLVE, PU_NONFINITE, "solver", -1, ANY, ANY, 0},
    {"A apply gives NaN late", A_apply_nan_late, SOLVE, PU_NONFINITE, "solver", -1, ANY, ANY, 0},
    {"A grad fails", A_grad_fails, SOLVE, PU_E_OPERATOR, "A.grad", NOWHERE},
    {"A diag fails", A_diag_fails, SOLVE, PU_E_OPERATOR, "A.diag", NOWHERE},
    {"solve overflows", large_U, SOLVE, PU_NONFINITE, "solver", -1, 0, ANY, 0},
    {"solve solver", bad_solver, SOLVE, PU_E_ARGUMENT, "options.solve.solver", NOWHERE},
    {"solve adjoint", bad_adjoint, SOLVE, PU_E_ARGUMENT, "options.solve.adjoint", NOWHERE},
    {"solve tolerance", tolerance_nan, SOLVE, PU_E_ARGUMENT, "options.solve.tolerance", NOWHERE},
    {"solve I < 0", iterations_negative, SOLVE, PU_E_ARGUMENT, "options.solve.iterations", NOWHERE},
    {"solve half an allocator", half_allocator, SOLVE, PU_E_NULL, "workspace.allocator", NOWHERE},
};

#define ROWS ((int)(sizeof rows / sizeof rows[0]))

/* ---- running a row --------------------------------------------------------------------------- */

static pu_status call(setup *s, int which, pu_report *report)
{
    size_t bytes;
    switch (which) {
    case GRADIENT:
        return pu_gradient(s->model_p, s->data_p, &s->options, s->ws_p, &s->o.out, report);
    case NLL: return pu_nll(s->model_p, s->data_p, &s->options, s->ws_p, s->nll_p, &s->se, report);
    case EXACT: return pu_exact(s->model_p, s->data_p, s->datum, s->ws_p, s->exact_p, report);
    case SOLVE:
        return tc_pu_solve(s->A_p, s->k, s->U_p, s->ldu, s->X_p, s->ldx, s->x0_p, s->weight_p,
                        &s->options.solve, NULL, s->ws_p, s->grad_A, NULL, s->columns, report);
    default: break;
    }
    return pu_gradient_bytes(s->model_p, s->data_p, &s->options, &s->o.out, &bytes, report);
}

static const char *call_name(int which)
{
    switch (which) {
    case GRADIENT: return "pu_gradient";
    case NLL: return "pu_nll";
    case EXACT: return "pu_exact";
    case SOLVE: return "pu_solve";
    default: break;
    }
    return "pu_gradient_bytes";
}

static int matches(pu_int got, pu_int want)
{
    return want == ANY || got == want;
}

/* Does the text name this number? */
static int says(const char *text, const char *label, pu_int number)
{
    char part[64];
    snprintf(part, sizeof part, ", %s %ld", label, (long)number);
    return strstr(text, part) != NULL;
}

TEST check_report(const row *r, const pu_report *report)
{
    char text[300], found[300];
    const pu_where *w = &report->where;
    TC_STATUS(report->status, r->status);
    TC_ASSERT(w->what != NULL && w->what[0] != 0);
    snprintf(found, sizeof found, "culprit: %s, datum %ld, column %ld, index %ld", w->what,
             (long)w->datum, (long)w->column, (long)w->index);
    ASSERTm(tc_say(found), r->what == NULL || tc_named(w->what, r->what));
    /* who is told that a number is wrong is told which would do */
    ASSERTm(tc_say(found), (r->status != PU_E_ARGUMENT && r->status != PU_E_SIZE) || strchr(w->what, '(') != NULL);
    ASSERTm(tc_say(found), matches(w->datum, r->datum));
    ASSERTm(tc_say(found), matches(w->column, r->column));
    ASSERTm(tc_say(found), matches(w->index, r->index));
    pu_explain(report, text, sizeof text);
    TC_ASSERT(strstr(text, w->what) != NULL);
    TC_ASSERT(strstr(text, pu_status_text(r->status)) != NULL);
    TC_ASSERT(w->datum < 0 || says(text, "datum", w->datum));
    TC_ASSERT(w->column < 0 || says(text, "column", w->column));
    TC_ASSERT(w->index < 0 || says(text, "index", w->index) || says(text, "step", w->index));
    TC_ASSERT(strstr(text, "-1") == NULL); /* what does not apply is not mentioned */
    PASS();
}

TEST refused(const row *r, int which)
{
    setup s;
    pu_report report;
    int with_report;
    for (with_report = 1; with_report >= 0; with_report--) {
        tc_set_case("%s, %s%s", r->name, call_name(which), with_report ? "" : ", no report");
        make_setup(&s);
        r->spoil(&s, r);
        memset(&report, TC_PATTERN, sizeof report);
        if (s.ws_p == NULL) {
            TC_STATUS(call(&s, which, with_report ? &report : NULL), r->status);
        } else { /* whatever comes of it, the workspace's memory must not leak into the next row */
            pu_status status = call(&s, which, with_report ? &report : NULL);
            pu_workspace_free(s.ws_p);
            TC_STATUS(status, r->status);
        }
        TC_ASSERT(outputs_untouched(&s));
        if (with_report) CHECK_CALL(check_report(r, &report));
    }
    PASS();
}

/* Before anything is spoilt, the same calls succeed and write. */
TEST unspoilt_calls_work(int which)
{
    setup s;
    pu_report report;
    tc_set_case("nothing spoilt, %s", call_name(which));
    make_setup(&s);
    TC_STATUS(call(&s, which, &report), PU_OK);
    TC_STATUS(report.status, PU_OK);
    TC_ASSERT(report.where.what != NULL);
    TC_ASSERT(which == BYTES || !outputs_untouched(&s));
    PASS();
}

/* ---- odd but legal --------------------------------------------------------------------------- */

SPOIL(legal_no_nu, s->model.nu = NULL)
SPOIL(legal_no_eta, s->model.eta = NULL)
SPOIL(legal_no_steps, s->options.solve.iterations = PU_ZERO)
SPOIL(legal_no_logdet, s->Gamma.logdet = NULL; s->Gamma.logdet_grad = NULL; s->o.out.Gamma = NULL)
SPOIL(legal_no_sample, s->Gamma.sample = NULL; s->options.delta = s->delta)
SPOIL(legal_no_grad, s->Gamma.grad = NULL; s->Gamma.logdet_grad = NULL; s->Phi.grad = NULL;
      s->o.out.Gamma = s->o.out.Phi = NULL)
SPOIL(legal_no_diag, s->Gamma.diag = NULL; s->Phi.gram_diag = NULL;
      s->options.solve.solver = PU_PCG; s->options.solve.precond = s->m)
SPOIL(legal_mask_bits, s->mask[0] = 255; s->mask[1] = 2)
SPOIL(legal_empty_list, as_lists(s); s->start[1] = 0; s->start[2] = 3; s->start[3] = 6)
SPOIL(legal_all_lists_empty, as_lists(s); memset(s->start, 0, sizeof s->start))
SPOIL(legal_user_gamma, user_gamma(s))
SPOIL(legal_user_phi, user_phi(s))
SPOIL(legal_wide_ldy, s->data = pu_data_full(N - 1, M, s->y); s->data.ldy = M + 1)
SPOIL(legal_many_lanes, s->options.lanes = 1000; s->options.threads = 1000;
      s->options.columns = 1000)
SPOIL(legal_one_sample, s->options.samples = 1)
SPOIL(legal_exact_no_samples, s->options.kind = PU_EXACT; s->options.samples = PU_ZERO;
      s->o.out.logdet = NULL)
/* pu_nll has no use for the error, but the same options as a gradient that has */
SPOIL(legal_error, s->options.samples = PU_CHOOSE; s->options.most_samples = 4; s->options.error = 0.5)
SPOIL(legal_error_exact, legal_error(s, r); s->options.engine = PU_DENSE; s->options.kind = PU_MONTE_CARLO)
SPOIL(legal_zero_phi, memset(s->phi, 0, sizeof s->phi))

typedef struct {
    const char *name;
    void (*spoil)(setup *s, const row *r);
    int calls;
} legal_row;

static const legal_row legal_rows[] = {
    {"nu NULL", legal_no_nu, SHAPES},
    {"eta NULL", legal_no_eta, SHAPES},
    {"no steps", legal_no_steps, OPTIONS},
    {"no logdet, no Gamma gradient", legal_no_logdet, GRADIENT | BYTES},
    {"no sample, probes given", legal_no_sample, OPTIONS},
    {"no grad, no such gradient", legal_no_grad, OPTIONS},
    {"PCG without diag, m given", legal_no_diag, OPTIONS},
    {"mask bytes other than one", legal_mask_bits, SHAPES},
    {"one list empty", legal_empty_list, SHAPES},
    {"all lists empty", legal_all_lists_empty, SHAPES},
    {"user Gamma", legal_user_gamma, GRADIENT | BYTES},
    {"user Phi", legal_user_phi, SHAPES},
    {"rows of y apart", legal_wide_ldy, SHAPES},
    {"more lanes, threads and columns than work", legal_many_lanes, OPTIONS},
    {"one probe", legal_one_sample, OPTIONS},
    {"exact without probes", legal_exact_no_samples, OPTIONS},
    {"an error with PU_CHOOSE", legal_error, NLL | BYTES},
    {"an error with PU_CHOOSE, dense", legal_error_exact, NLL},
    {"Phi = 0", legal_zero_phi, SHAPES},
};

#define LEGAL_ROWS ((int)(sizeof legal_rows / sizeof legal_rows[0]))

TEST accepted(const legal_row *r, int which)
{
    setup s;
    pu_report report;
    tc_set_case("%s, %s", r->name, call_name(which));
    make_setup(&s);
    r->spoil(&s, NULL);
    TC_STATUS(call(&s, which, &report), PU_OK);
    TC_STATUS(report.status, PU_OK);
    TC_ASSERT(which == BYTES || !outputs_untouched(&s));
    TC_ASSERT(tc_gaps_untouched(&s.o));
    PASS();
}

/* Whatever stands in an unobserved entry, the bits of every result are the same. */
TEST unobserved_entries_are_not_read(int nan_marks)
{
    static const pu_real odd[] = {PU_R(0), PU_R(NAN), PU_R(INFINITY), PU_R(-INFINITY)};
    unsigned char *first = NULL;
    int which;
    for (which = 0; which < (nan_marks ? 2 : 4); which++) {
        setup s;
        pu_int i;
        tc_set_case("value %d, NaN marks %d", which, nan_marks);
        make_setup(&s);
        for (i = 0; i < N * M; i++) {
            if (!s.mask[i]) s.y[i] = odd[which];
        }
        if (nan_marks && which == 1) s.data = pu_data_nan(N, M, s.y);
        TC_STATUS(call(&s, GRADIENT, NULL), PU_OK);
        if (first == NULL) {
            first = (unsigned char *)tc_bytes(s.o.size);
            memcpy(first, s.o.bytes, s.o.size);
        }
        TC_ASSERT(memcmp(first, s.o.bytes, s.o.size) == 0);
    }
    PASS();
}

/* Nothing observed: mu = nu. CG solves the diagonal system in D steps, to rounding times its
   condition (below 10). */
TEST empty_mask_gives_the_prior(void)
{
    setup s;
    pu_report report;
    pu_int n, i;
    make_setup(&s);
    memset(s.mask, 0, sizeof s.mask);
    tc_set_case("empty mask");
    TC_STATUS(call(&s, GRADIENT, &report), PU_OK);
    for (n = 0; n < N; n++) {
        for (i = 0; i < D; i++) {
            TC_CLOSE(s.o.out.x[n * (K + 1) * D + i], s.nu[i], 100 * PU_TEST_EPS);
        }
    }
    for (i = 0; i < M; i++) {
        TC_CLOSE(s.o.out.eta[i], 0, 0);
        TC_CLOSE(s.o.out.psi[i], 0, 0);
    }
    TC_STATUS(call(&s, EXACT, &report), PU_OK);
    TC_ASSERT(s.exact.observed == 0);
    TC_CLOSE(s.exact.nll, 0, 100 * PU_TEST_EPS); /* the likelihood of no data is one */
    for (i = 0; i < D; i++) TC_CLOSE(s.exact.mu[i], s.nu[i], 100 * PU_TEST_EPS);
    PASS();
}

/* No step at all: x is the start, zero, and the output gradient is that of zero solutions. */
TEST no_steps_leave_zero(void)
{
    setup s;
    pu_report report;
    pu_int i;
    make_setup(&s);
    s.options.solve.iterations = PU_ZERO;
    tc_set_case("no steps");
    TC_STATUS(call(&s, GRADIENT, &report), PU_OK);
    TC_ASSERT(report.iterations == 0);
    for (i = 0; i < N * (K + 1) * D; i++) TC_CLOSE(s.o.out.x[i], 0, 0);
    PASS();
}

TEST missing_logdet_is_reported(void)
{
    setup s;
    pu_report report;
    make_setup(&s);
    legal_no_logdet(&s, NULL);
    tc_set_case("no logdet");
    TC_STATUS(call(&s, GRADIENT, &report), PU_OK);
    TC_ASSERT(report.has_objective == 0 && report.has_nll == 0);
    TC_CLOSE(report.c, 0, 0);
    TC_CLOSE(report.q, 0, 0);
    TC_CLOSE(report.nll, 0, 0);
    PASS();
}

TEST optional_arguments_may_be_null(void)
{
    setup s;
    pu_options options = {0};
    pu_report report;
    double nll;
    make_setup(&s);
    ASSERT_EQ(pu_gradient(&s.model, &s.data, NULL, NULL, NULL, NULL), PU_OK);
    ASSERT_EQ(pu_gradient(&s.model, &s.data, NULL, NULL, NULL, &report), PU_OK);
    /* zeroed options choose the engine, and tell; the paper's recipe is one line */
    ASSERT(report.engine == PU_ENGINE_AUTO && report.seconds > 0 && report.plan[0]);
    options.engine = PU_ITERATIVE;
    ASSERT_EQ(pu_gradient(&s.model, &s.data, &options, NULL, NULL, &report), PU_OK);
    ASSERT(report.samples == 10 && report.iterations == 30 && report.kind == PU_NETWORK);
    ASSERT(report.served[PU_ITERATIVE] == s.data.n);
    ASSERT_EQ(pu_nll(&s.model, &s.data, NULL, NULL, &nll, NULL, NULL), PU_OK);
    ASSERT_EQ(pu_gradient_bytes(&s.model, &s.data, NULL, NULL, NULL, &report), PU_E_NULL);
    ASSERT_STR_EQ("bytes", report.where.what);
    ASSERT_EQ(pu_exact_bytes(&s.model, NULL, NULL), PU_E_NULL);
    ASSERT_EQ(pu_solve_bytes(&s.A, 1, NULL, 0, NULL, NULL), PU_E_NULL);
    PASS();
}

/* Steps allowed when a tolerance rules and no number is given: 10 n + 100, as the header has it. */
TEST default_cap_is_the_documented_one(pu_int n)
{
    pu_op Gamma = pu_op_identity(n), Phi = pu_op_dense(1, n, tc_normal(21, n));
    pu_real psi = PU_R(2), y = PU_R(1);
    pu_lgm model = {&Gamma, &Phi, NULL, NULL, NULL, 0};
    pu_data data = pu_data_full(1, 1, &y);
    pu_options options;
    pu_report report;
    memset(&options, 0, sizeof options);
    model.psi = &psi;
    options.kind = PU_MONTE_CARLO;
    tc_set_case("n %d", (int)n);
    TC_STATUS(pu_gradient(&model, &data, &options, NULL, NULL, &report), PU_OK);
    TC_CLOSE(report.iterations, n < 90 ? 10 * n + 100 : 1000, 0);
    PASS();
}

/* ---- texts ----------------------------------------------------------------------------------- */

TEST explain_fits_any_buffer(void)
{
    setup s;
    pu_report report;
    char whole[300], part[302];
    size_t capacity;
    make_setup(&s);
    s.y[1 * M + 1] = PU_R(NAN);
    s.mask[1 * M + 1] = 1;
    ASSERT_EQ(call(&s, GRADIENT, &report), PU_E_NONFINITE);
    ASSERT_EQ(pu_explain(&report, whole, sizeof whole), whole);
    ASSERT(strlen(whole) > 20);
    for (capacity = 1; capacity <= strlen(whole) + 2; capacity++) {
        memset(part, 'x', sizeof part);
        pu_explain(&report, part, capacity);
        ASSERT(strlen(part) < capacity);
        ASSERT(memcmp(part, whole, strlen(part)) == 0);
        ASSERT(strlen(part) == capacity - 1 || strlen(part) == strlen(whole));
        ASSERT_EQ(part[capacity], 'x');
    }
    ASSERT(pu_explain(NULL, part, sizeof part) == part && part[0] == 0);
    ASSERT(pu_explain(&report, NULL, 0) != NULL);
    PASS();
}

/* Bytes that are lacking are those of the memory that is meant. */
TEST lacking_memory_is_told(void)
{
    static const struct {
        const char *what, *text;
        size_t device;
    } cases[] = {{"workspace", ", bytes needed 300", 0},
                 {"workspace", ", bytes needed 300", 7000},
                 {"device memory (over its budget)", ", bytes of device memory needed 7000", 7000},
                 {"out of memory", ", bytes of device memory needed 7000", 7000}}; /* a driver's words */
    char text[300];
    size_t i;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        pu_report report;
        memset(&report, 0, sizeof report);
        report.status = PU_E_MEMORY, report.bytes = 300, report.device_bytes = cases[i].device;
        report.where.what = cases[i].what;
        report.where.datum = report.where.column = report.where.index = report.where.most = report.where.rank = -1;
        pu_explain(&report, text, sizeof text);
        ASSERTm(text, strstr(text, cases[i].text) != NULL);
    }
    PASS();
}

/* A number that is too large: the largest that would do is told. */
TEST the_largest_number_is_told(void)
{
    setup s;
    pu_report report;
    char text[300];
    make_setup(&s);
    s.datum = N;
    ASSERT_EQ(call(&s, EXACT, &report), PU_E_ARGUMENT);
    ASSERT(report.where.most == N - 1 && strstr(pu_explain(&report, text, sizeof text), ", at most 2"));
    s.options.groups = K + 1, s.o.out.se_psi = s.o.out.psi;
    ASSERT_EQ(pu_gradient(&s.model, &s.data, &s.options, NULL, &s.o.out, &report), PU_E_ARGUMENT);
    ASSERT(report.where.most == K);
    /* of one datum, which is datum 0 */
    s.data = pu_data_full(1, M, s.y), s.datum = 1;
    ASSERT_EQ(call(&s, EXACT, &report), PU_E_ARGUMENT);
    ASSERT(report.where.most == 0 && strstr(pu_explain(&report, text, sizeof text), ", at most 0"));
    PASS();
}

TEST every_status_has_a_name_and_a_text(void)
{
    static const pu_status all[] = {
#define PU_X(name, value, text) name,
        PU_STATUS_LIST(PU_X)
#undef PU_X
    };
    static const char *const names[] = {
#define PU_X(name, value, text) #name,
        PU_STATUS_LIST(PU_X)
#undef PU_X
    };
    size_t i;
    int stop;
    for (i = 0; i < sizeof all / sizeof all[0]; i++) {
        ASSERT_STR_EQ(names[i], pu_status_name(all[i]));
        ASSERT(strlen(pu_status_text(all[i])) > 1);
    }
    ASSERT(pu_status_name((pu_status)-77) != NULL && pu_status_text((pu_status)77) != NULL);
    for (stop = 0; stop < PU_STOP_COUNT; stop++) ASSERT(strlen(pu_stop_text((pu_stop)stop)) > 1);
    ASSERT(pu_stop_text((pu_stop)99) != NULL);
    ASSERT_STR_EQ(PU_VERSION, pu_version());
    PASS();
}

/* ---- pointers, and limits of PU_CHOOSE ------------------------------------------------------- */

TEST null_pointers_do_no_harm(void)
{
    pu_model model;
    pu_options o;
    pu_report report;
    pu_ar ar;
    pu_real gamma[2] = {PU_R(0.5), PU_R(0.1)}, grad[2] = {7, 7}, theta[16] = {0}, se[16], y[4] = {1, 2, 3, 5};
    pu_data data = pu_data_full(2, 2, y);
    memset(&model, 0, sizeof model);
    memset(&o, 0, sizeof o);
    pu_workspace_block(&model.memory, tc_bytes(20000), 20000);
    tc_set_case("null pointers");
    ASSERT(isnan(pu_param_natural(NULL, 1)) && isnan(pu_param_theta(NULL, 1)));
    TC_STATUS(pu_ar_set(&ar, 5, 2, gamma, 1, NULL), PU_OK);
    pu_ar_phi_grad(NULL, gamma, grad);
    pu_ar_phi_grad(&ar, NULL, grad);
    ASSERT(grad[0] == PU_R(7) && grad[1] == PU_R(7));
    pu_ar_phi_grad(&ar, gamma, NULL);
    pu_workspace_block(NULL, grad, sizeof grad);
    TC_STATUS(pu_model_factors(&model, 2, 1, NULL), PU_OK);
    TC_STATUS(pu_model_start(&model, &data, 1, theta, NULL), PU_OK);
    for (int choose = 0; choose < 2; choose++) {
        o.samples = choose ? PU_CHOOSE : 0;
        TC_STATUS(pu_fit_errors(&model, NULL, &o, NULL, theta, se, &report), PU_E_NULL);
        TC_ASSERT(strcmp(report.where.what, "data") == 0);
        TC_STATUS(pu_fit_covariance(&model, NULL, &o, NULL, theta, se, &report), PU_E_NULL);
        TC_STATUS(pu_fit_errors(NULL, &data, &o, NULL, theta, se, &report), PU_E_NULL);
        TC_STATUS(pu_fit_errors(&model, &data, &o, NULL, NULL, se, &report), PU_E_NULL);
        TC_STATUS(pu_fit_errors(&model, &data, &o, NULL, theta, NULL, &report), PU_E_NULL);
    }
    PASS();
}

/* A spectrum on which the pilot predicts no end, and a limit that nobody could count to. */
TEST choosing_ends(void)
{
    enum { WIDE = 60 };
    pu_real a[WIDE] = {0}, psi[WIDE], y[WIDE], grad[WIDE];
    pu_op prior = pu_op_diagonal(WIDE, a), map = pu_op_identity(WIDE);
    pu_lgm model = {&prior, &map, NULL, NULL, psi, 0};
    pu_data data = pu_data_full(1, WIDE, y);
    pu_gradient_result out;
    pu_options o, tuned;
    pu_report report;
    for (int i = 0; i < WIDE; i++) {
        a[i] = (pu_real)pow(10, 12.0 * i / (WIDE - 1));
        psi[i] = 1;
        y[i] = (pu_real)(i % 3);
    }
    memset(&o, 0, sizeof o);
    memset(&out, 0, sizeof out);
    out.Gamma = grad;
    o.samples = 2, o.solve.iterations = PU_CHOOSE;
    tc_set_case("limits of PU_CHOOSE");
    o.most_iterations = PTRDIFF_MAX;
    TC_STATUS(pu_tune(&model, &data, &o, NULL, &out, &tuned, &report), PU_E_ARGUMENT);
    TC_ASSERT(strncmp(report.where.what, "options.most_iterations", 23) == 0);
    o.most_iterations = 1000001;
    TC_STATUS(pu_gradient(&model, &data, &o, NULL, &out, &report), PU_E_ARGUMENT);
    o.most_iterations = 1000000; /* a second at most */
    TC_STATUS(pu_tune(&model, &data, &o, NULL, &out, &tuned, &report), PU_OK);
    TC_ASSERT(tuned.solve.iterations >= 1 && tuned.solve.iterations <= 1000000);
    PASS();
}

/* ---- options of a fit ------------------------------------------------------------------------ */

static double no_clock(void *unused)
{
    (void)unused;
    return 0;
}

static double no_validation(pu_model *model, const pu_real *theta, void *unused)
{
    (void)model, (void)unused;
    return -(double)theta[0];
}

/* Every double of the options, at a value that is none: refused by name, theta as it was. */
TEST fit_options_must_be_numbers(double value)
{
    static const char *const names[] = {"fit.rate",    "fit.decay",     "fit.momentum", "fit.beta1",
                                        "fit.beta2",   "fit.epsilon",   "fit.tolerance", "fit.seconds",
                                        "options.solve.tolerance", "options.solve.absolute2", "options.error"};
    pu_model model;
    pu_real y[4] = {1, 2, 3, 5}, theta[8] = {0}, start[8];
    pu_data data = pu_data_full(2, 2, y);
    memset(&model, 0, sizeof model);
    pu_workspace_block(&model.memory, tc_bytes(20000), 20000);
    TC_STATUS(pu_model_factors(&model, 2, 1, NULL), PU_OK);
    TC_STATUS(pu_model_start(&model, &data, 1, theta, NULL), PU_OK);
    memcpy(start, theta, sizeof start);
    for (int i = 0; i < 11; i++) {
        pu_fit_options o;
        pu_fit_report report;
        double *fields[11] = {&o.rate,    &o.decay,     &o.momentum, &o.beta1, &o.beta2,
                              &o.epsilon, &o.tolerance, &o.seconds,  &o.gradient.solve.tolerance,
                              &o.gradient.solve.absolute2, &o.gradient.error};
        memset(&o, 0, sizeof o);
        o.steps = 2;
        o.clock = no_clock;
        *fields[i] = value;
        tc_set_case("%s = %g", names[i], value);
        TC_STATUS(pu_fit(&model, &data, &o, NULL, theta, &report), PU_E_ARGUMENT);
        TC_ASSERT(strncmp(report.where.what, names[i], strlen(names[i])) == 0);
        TC_ASSERT(memcmp(theta, start, sizeof start) == 0);
    }
    PASS();
}

/* Options that nothing would read: refused by name with what they need, and theta stays. With what they need they do. */
TEST fit_options_must_be_of_use(void)
{
    static const struct {
        const char *what;
        pu_optimizer useless, useful;
    } cases[] = {{"fit.momentum (needs PU_SGD", PU_OPTIMIZER_DEFAULT, PU_SGD},
                 {"fit.momentum (needs PU_SGD", PU_ADAM, PU_SGD},
                 {"fit.momentum (needs PU_SGD", PU_LBFGS, PU_SGD},
                 {"fit.beta1 (needs PU_ADAM", PU_LBFGS, PU_OPTIMIZER_DEFAULT},
                 {"fit.beta1 (needs PU_ADAM", PU_SGD, PU_ADAM},
                 {"fit.beta2 (needs PU_ADAM", PU_LBFGS, PU_OPTIMIZER_DEFAULT},
                 {"fit.beta2 (needs PU_ADAM", PU_SGD, PU_ADAM},
                 {"fit.epsilon (needs PU_ADAM", PU_LBFGS, PU_OPTIMIZER_DEFAULT},
                 {"fit.epsilon (needs PU_ADAM", PU_SGD, PU_ADAM},
                 {"fit.history (needs PU_LBFGS", PU_ADAM, PU_LBFGS},
                 {"fit.history (needs PU_LBFGS", PU_SGD, PU_OPTIMIZER_DEFAULT},
                 {"fit.decay (needs PU_RATE_HYPERBOLIC", PU_OPTIMIZER_DEFAULT, PU_ADAM},
                 {"fit.validate_every (needs validate", PU_ADAM, PU_ADAM},
                 {"fit.checkpoint_every (needs checkpoint", PU_ADAM, PU_ADAM}};
    pu_model model;
    pu_real y[4] = {1, 2, 3, 5}, theta[8] = {0}, start[8];
    pu_data data = pu_data_full(2, 2, y);
    memset(&model, 0, sizeof model);
    pu_workspace_block(&model.memory, tc_bytes(20000), 20000);
    TC_STATUS(pu_model_factors(&model, 2, 1, NULL), PU_OK);
    TC_STATUS(pu_model_start(&model, &data, 1, theta, NULL), PU_OK);
    memcpy(start, theta, sizeof start);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *what = cases[i].what;
        pu_fit_options o;
        pu_fit_report report;
        memset(&o, 0, sizeof o);
        o.steps = 2, o.gradient.kind = PU_EXACT, o.optimizer = cases[i].useless;
        if (strstr(what, "momentum")) o.momentum = 0.5;
        if (strstr(what, "beta1")) o.beta1 = 0.5;
        if (strstr(what, "beta2")) o.beta2 = 0.5;
        if (strstr(what, "epsilon")) o.epsilon = 1e-6;
        if (strstr(what, "history")) o.history = 3;
        if (strstr(what, "decay")) o.decay = 5;
        if (strstr(what, "validate_every")) o.validate_every = 1;
        if (strstr(what, "checkpoint_every")) o.checkpoint_every = 1;
        tc_set_case("%s, optimiser %d", what, (int)cases[i].useless);
        memcpy(theta, start, sizeof start);
        TC_STATUS(pu_fit(&model, &data, &o, NULL, theta, &report), PU_E_ARGUMENT);
        TC_ASSERT(strncmp(report.where.what, what, strlen(what)) == 0 && report.gradients == 0);
        TC_ASSERT(memcmp(theta, start, sizeof start) == 0);
        o.optimizer = cases[i].useful;
        if (o.decay > 0) o.schedule = PU_RATE_HYPERBOLIC;
        if (o.validate_every) o.validate = no_validation;
        if (o.checkpoint_every) continue; /* with a file: test_checkpoint.c */
        TC_STATUS(pu_fit(&model, &data, &o, NULL, theta, &report), PU_OK);
        TC_ASSERT(report.gradients > 0 && memcmp(theta, start, sizeof start) != 0);
    }
    PASS();
}

/* Reads as the host does, but the first array of step sizes, which is the first read of more than a few numbers, comes back with
   an infinite one. */
static int reads;

static void lossy_read(void *unused, void *host, const void *device, size_t bytes)
{
    (void)unused;
    memmove(host, device, bytes);
    if (bytes > 4 * sizeof(pu_real) && reads++ == 0) *(pu_real *)host = PU_R(INFINITY);
}

/* Nothing that is not finite is written: step sizes are looked at as all other results are. */
TEST a_backend_loses_a_step_size(void)
{
    setup s;
    pu_report report;
    pu_real *alpha;
    make_setup(&s);
    alpha = s.o.out.alpha;
    memset(&s.o.out, 0, sizeof s.o.out);
    s.o.out.alpha = alpha;
    s.backend.read = lossy_read, s.options.backend = &s.backend;
    s.options.x0 = s.x0; /* so that no likelihood is made of them */
    reads = 0;
    tc_set_case("alpha");
    TC_STATUS(call(&s, GRADIENT, &report), PU_NONFINITE);
    TC_ASSERT(reads > 0 && strcmp(report.where.what, "alpha") == 0 && report.where.index == 0);
    TC_ASSERT(outputs_untouched(&s));
    PASS();
}

/* K is chosen for the error that is wanted. pu_tune leaves options that pu_gradient takes: nothing is open in them. */
TEST an_error_is_for_choosing(void)
{
    setup s;
    pu_options tuned;
    pu_gradient_result out;
    pu_report report;
    make_setup(&s);
    memset(&out, 0, sizeof out);
    out.psi = s.o.out.psi;
    s.options.error = 0.5;
    tc_set_case("pu_tune");
    tuned.samples = 77;
    TC_STATUS(pu_tune(&s.model, &s.data, &s.options, NULL, &out, &tuned, &report), PU_E_ARGUMENT);
    TC_ASSERT(strncmp(report.where.what, "options.error (", 15) == 0 && tuned.samples == 77);
    s.options.samples = PU_CHOOSE;
    TC_STATUS(pu_gradient(&s.model, &s.data, &s.options, NULL, &out, &report), PU_OK);
    TC_STATUS(pu_tune(&s.model, &s.data, &s.options, NULL, &out, &tuned, &report), PU_OK);
    TC_ASSERT(tuned.samples >= 2 && tuned.error == 0);
    TC_STATUS(pu_tune(&s.model, &s.data, &tuned, NULL, &out, &tuned, &report), PU_OK);
    TC_STATUS(pu_gradient(&s.model, &s.data, &tuned, NULL, &out, &report), PU_OK);
    TC_ASSERT(report.samples == tuned.samples);
    PASS();
}

static pu_status set_nothing(pu_model *model, const pu_real *theta, pu_int *index)
{
    (void)model, (void)theta, (void)index;
    return PU_OK;
}

static pu_status grad_nothing(const pu_model *model, const pu_gradient_result *g, pu_real *grad)
{
    (void)model, (void)g;
    grad[0] = 0;
    return PU_OK;
}

/* A model of the caller's that never filled in its canonical form is refused by name, whatever flags it has. */
TEST fits_of_models_without_operators_are_refused(void)
{
    pu_real y[4] = {1, 2, 3, 5}, theta[1] = {0};
    pu_data data = pu_data_full(2, 2, y);
    pu_fit_report report;
    pu_model model;
    for (int flag = 0; flag < 2; flag++) {
        memset(&model, 0, sizeof model);
        model.params = 1, model.set = set_nothing, model.grad = grad_nothing, model.is_factors = flag;
        TC_STATUS(pu_fit(&model, &data, NULL, NULL, theta, &report), PU_E_NULL);
        TC_ASSERT(strncmp(report.where.what, "model.", 6) == 0);
    }
    PASS();
}

TEST patience_needs_validation(void)
{
    pu_model model;
    pu_fit_options o;
    pu_fit_report report;
    pu_real y[4] = {1, 2, 3, 5}, theta[8] = {0};
    pu_data data = pu_data_full(2, 2, y);
    memset(&model, 0, sizeof model);
    memset(&o, 0, sizeof o);
    pu_workspace_block(&model.memory, tc_bytes(20000), 20000);
    TC_STATUS(pu_model_factors(&model, 2, 1, NULL), PU_OK);
    o.patience = 3;
    tc_set_case("patience");
    TC_STATUS(pu_fit(&model, &data, &o, NULL, theta, &report), PU_E_ARGUMENT);
    TC_ASSERT(strncmp(report.where.what, "fit.patience", 12) == 0);
    PASS();
}

/* ---- odd data and every model ---------------------------------------------------------------- */

enum { MODELS = 10, LENGTH = 6, SERIES = 4, MOST_PARAMS = 64 };

typedef struct {
    pu_model model;
    pu_op Phi;
    pu_real X[LENGTH * 2], matrix[LENGTH * 3], y[SERIES * LENGTH], theta[MOST_PARAMS];
    unsigned char mask[SERIES * LENGTH];
    pu_int start[SERIES + 1], index[1];
} any_model;

/* Each of the built-in models in turn. */
static pu_status make_model(any_model *a, int which)
{
    pu_model *m = &a->model;
    memset(a, 0, sizeof *a);
    tc_fill_normal(1, LENGTH * 2, a->X);
    tc_fill_normal(2, LENGTH * 3, a->matrix);
    a->Phi = pu_op_dense(LENGTH, 3, a->matrix);
    pu_workspace_block(&m->memory, tc_bytes(200000), 200000);
    switch (which) {
    case 0: return pu_model_factors(m, LENGTH, 3, NULL);
    case 1: return pu_model_ppca(m, LENGTH, 3, NULL);
    case 2: return pu_model_sparse(m, &a->Phi, NULL);
    case 3: return pu_model_regression(m, &a->Phi, NULL);
    case 4: return pu_model_neural(m, LENGTH, 2, a->X, 3, 0, NULL);
    case 5: return pu_model_neural(m, LENGTH, 2, a->X, 3, 2, NULL);
    case 6: return pu_model_noisy_ar(m, LENGTH, 2, NULL);
    case 7: return pu_model_state_space(m, LENGTH, 2, PU_SSM_ZERO, NULL);
    case 8: return pu_model_state_space(m, LENGTH, 2, PU_SSM_STATIONARY, NULL);
    default: return pu_model_state_space(m, LENGTH, 2, PU_SSM_GIVEN, NULL);
    }
}

/* Data of one value everywhere, of all sizes that the precision has: the start is finite, and the model takes it. */
TEST constant_data_have_a_start(int which)
{
    static const double values[] = {0,      3,     -7,     1e-10,  1e10,   PU_TEST_PICK(1e-160, 1e-37), 1e-23,
                                    PU_TEST_PICK(1e-300, 1e-44), PU_TEST_PICK(1e150, 1e37), PU_TEST_PICK(-1e300, -3e38)};
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
        any_model a;
        pu_report report;
        pu_data data;
        TC_STATUS(make_model(&a, which), PU_OK);
        TC_ASSERT(a.model.params <= MOST_PARAMS);
        for (int i = 0; i < SERIES * LENGTH; i++) a.y[i] = (pu_real)values[v];
        data = pu_data_full(SERIES, LENGTH, a.y);
        tc_set_case("%s, all %g", a.model.name, values[v]);
        TC_STATUS(pu_model_start(&a.model, &data, 1, a.theta, &report), PU_OK);
        TC_STATUS(pu_model_set(&a.model, a.theta, &report), PU_OK);
    }
    { /* one column alone */
        any_model a;
        pu_data data;
        TC_STATUS(make_model(&a, which), PU_OK);
        tc_fill_normal(3, SERIES * LENGTH, a.y);
        for (int n = 0; n < SERIES; n++) a.y[n * LENGTH + 2] = 5;
        data = pu_data_full(SERIES, LENGTH, a.y);
        tc_set_case("%s, one column constant", a.model.name);
        TC_STATUS(pu_model_start(&a.model, &data, 1, a.theta, NULL), PU_OK);
        TC_STATUS(pu_model_set(&a.model, a.theta, NULL), PU_OK);
    }
    PASS();
}

/* Inputs of a network at the end of the precision. */
TEST tiny_inputs_have_a_start(void)
{
    any_model a;
    pu_data data;
    TC_STATUS(make_model(&a, 4), PU_OK);
    for (int i = 0; i < LENGTH * 2; i++) a.X[i] = PU_TEST_PICK((pu_real)1e-161, PU_R(1e-44));
    data = pu_data_full(SERIES, LENGTH, a.y);
    tc_set_case("tiny inputs");
    TC_STATUS(pu_model_start(&a.model, &data, 1, a.theta, NULL), PU_OK);
    TC_STATUS(pu_model_set(&a.model, a.theta, NULL), PU_OK);
    PASS();
}

/* The three ways to observe nothing. */
static pu_data nothing(any_model *a, int kind)
{
    for (int i = 0; kind == 1 && i < SERIES * LENGTH; i++) a->y[i] = PU_R(NAN);
    if (kind == 0) return pu_data_masked(SERIES, LENGTH, a->y, a->mask);
    return kind == 1 ? pu_data_nan(SERIES, LENGTH, a->y) : pu_data_lists(SERIES, LENGTH, a->start, a->index, a->y);
}

/* Nothing is observed: the posterior is the prior, the likelihood one, every gradient zero; a fit is refused. Gamma is far
   from the identity in some models: its entries, and its log det, round at their own size, which is below 100. */
TEST nothing_observed(int which, int kind)
{
    const double tol = 1000 * PU_TEST_EPS;
    any_model a;
    pu_options o;
    pu_report report;
    pu_fit_report fit;
    pu_exact_result exact;
    pu_posterior_result posterior;
    pu_real grad[MOST_PARAMS], mean[SERIES * LENGTH * 2], variance[SERIES * LENGTH * 2], Sigma[4 * LENGTH * LENGTH];
    pu_data data;
    double nll;
    pu_int d, dims;
    TC_STATUS(make_model(&a, which), PU_OK);
    data = nothing(&a, kind);
    tc_set_case("%s, nothing by way %d", a.model.name, kind);
    TC_STATUS(pu_model_start(&a.model, &data, 1, a.theta, &report), PU_OK);
    memset(&o, 0, sizeof o);
    o.kind = PU_EXACT;
    TC_STATUS(pu_model_gradient(&a.model, a.theta, &data, &o, NULL, grad, NULL, &report), PU_OK);
    for (int i = 0; i < a.model.params; i++) TC_CLOSE(grad[i], 0, tol);
    TC_STATUS(pu_model_nll(&a.model, a.theta, &data, &o, NULL, &nll, NULL, &report), PU_OK);
    TC_CLOSE(nll, 0, tol);
    memset(&exact, 0, sizeof exact);
    exact.Sigma = Sigma;
    TC_STATUS(pu_exact(&a.model.lgm, &data, 0, NULL, &exact, &report), PU_OK);
    TC_ASSERT(exact.observed == 0);
    TC_CLOSE(exact.nll, 0, tol);
    memset(&posterior, 0, sizeof posterior);
    posterior.mean = mean;
    posterior.variance = variance;
    TC_STATUS(pu_posterior(&a.model.lgm, &data, &o, NULL, &posterior, &report), PU_OK);
    dims = a.model.lgm.Gamma->rows;
    for (d = 0; d < dims; d++) {
        double prior = (double)Sigma[d * dims + d];
        TC_CLOSE(mean[d], a.model.lgm.nu ? a.model.lgm.nu[d] : 0, tol);
        TC_CLOSE((double)variance[d] / prior, 1, tol);
    }
    TC_ASSERT(pu_fit(&a.model, &data, NULL, NULL, a.theta, &fit) == PU_E_ARGUMENT);
    TC_ASSERT(strcmp(fit.where.what, "data (nothing is observed)") == 0);
    TC_STATUS(pu_fit_errors(&a.model, &data, &o, NULL, a.theta, grad, &report), PU_E_ARGUMENT);
    TC_ASSERT(strcmp(report.where.what, "data (nothing is observed)") == 0);
    PASS();
}

/* ---- main ------------------------------------------------------------------------------------ */

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    int i, which;
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    for (which = GRADIENT; which <= BYTES; which *= 2) {
        RUN_TESTp(unspoilt_calls_work, which);
        for (i = 0; i < ROWS; i++) {
            if (rows[i].calls & which) RUN_TESTp(refused, &rows[i], which);
        }
        for (i = 0; i < LEGAL_ROWS; i++) {
            if (legal_rows[i].calls & which) RUN_TESTp(accepted, &legal_rows[i], which);
        }
    }
    RUN_TESTp(unobserved_entries_are_not_read, 0);
    RUN_TESTp(unobserved_entries_are_not_read, 1);
    RUN_TEST(empty_mask_gives_the_prior);
    RUN_TEST(no_steps_leave_zero);
    RUN_TEST(missing_logdet_is_reported);
    RUN_TEST(optional_arguments_may_be_null);
    RUN_TESTp(default_cap_is_the_documented_one, 5);
    RUN_TESTp(default_cap_is_the_documented_one, 300);
    RUN_TEST(explain_fits_any_buffer);
    RUN_TEST(lacking_memory_is_told);
    RUN_TEST(the_largest_number_is_told);
    RUN_TEST(every_status_has_a_name_and_a_text);
    RUN_TEST(null_pointers_do_no_harm);
    RUN_TEST(choosing_ends);
    RUN_TESTp(fit_options_must_be_numbers, (double)NAN);
    RUN_TESTp(fit_options_must_be_numbers, HUGE_VAL);
    RUN_TESTp(fit_options_must_be_numbers, -HUGE_VAL);
    RUN_TEST(fit_options_must_be_of_use);
    RUN_TEST(an_error_is_for_choosing);
    RUN_TEST(a_backend_loses_a_step_size);
    RUN_TEST(fits_of_models_without_operators_are_refused);
    RUN_TEST(patience_needs_validation);
    RUN_TEST(tiny_inputs_have_a_start);
    for (i = 0; i < MODELS; i++) {
        RUN_TESTp(constant_data_have_a_start, i);
        for (which = 0; which < 3; which++) RUN_TESTp(nothing_observed, i, which);
    }
    PU_TEST_MAIN_END();
}
