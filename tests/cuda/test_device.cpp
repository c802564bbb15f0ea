/* test_device.cpp - pu_gradient, pu_fit and pu_solve with a CUDA backend against the same calls on the host, kernels executed on the
   CPU: all models and kinds of gradients, batches under a budget of memory, failures of every allocation and launch, streams that
   overtake each other, graphs. Compiled in both precisions with -include sim.h; see README.md. */
#define PU_IMPLEMENTATION
#include "pu.h"

#include "pu_test.h"
#include "test_common.h"

/* ---- small problems, one per model ------------------------------------------------------------ */

typedef enum { FACTORS, FACTOR_LISTS, PPCA, SPARSE, SPARSE_FOURIER, REGRESSION, NEURAL, AR, STATE_SPACE, STATE_SPACE_GIVEN, CASES } which;

static const char *const names[CASES] = {"factors", "factors, lists", "ppca", "sparse", "sparse Fourier", "regression", "neural",
                                         "noisy AR", "state space", "state space, given start"};

enum { INPUTS = 2, HIDDEN = 4 };

typedef struct {
    which kind;
    pu_model model;
    pu_op dictionary;
    pu_fourier fourier;
    pu_real *X, *y, *theta;
    unsigned char *mask;
    pu_int *start, *index;
    pu_int M, D, N;
    pu_data data;
} problem;

static pu_status make_model(problem *p, pu_report *report)
{
    switch (p->kind) {
    case FACTORS:
    case FACTOR_LISTS: return pu_model_factors(&p->model, p->M, p->D, report);
    case PPCA: return pu_model_ppca(&p->model, p->M, p->D, report);
    case SPARSE:
    case SPARSE_FOURIER: return pu_model_sparse(&p->model, &p->dictionary, report);
    case REGRESSION: return pu_model_regression(&p->model, &p->dictionary, report);
    case NEURAL: return pu_model_neural(&p->model, p->M, INPUTS, p->X, HIDDEN, 0, report);
    case AR: return pu_model_noisy_ar(&p->model, p->M, 5, report);
    case STATE_SPACE: return pu_model_state_space(&p->model, p->M, 2, PU_SSM_STATIONARY, report);
    default: return pu_model_state_space(&p->model, p->M, 2, PU_SSM_GIVEN, report);
    }
}

/* Ragged lists out of the masked data: datum 1 is empty, datum 2 is whole. */
static void to_lists(problem *p)
{
    pu_int n, i, at = 0;
    p->start = (pu_int *)tc_bytes((size_t)(p->N + 1) * sizeof *p->start);
    p->index = (pu_int *)tc_bytes((size_t)(p->N * p->M) * sizeof *p->index);
    pu_real *y = tc_reals(p->N * p->M);
    for (n = 0; n < p->N; n++) {
        p->start[n] = at;
        for (i = 0; i < p->M && n != 1; i++)
            if (n == 2 || p->mask[n * p->M + i]) p->index[at] = i, y[at++] = PU_R(0.1) * (pu_real)(i - n);
    }
    p->start[p->N] = at;
    p->data = pu_data_lists(p->N, p->M, p->start, p->index, y);
}

static void make(problem *p, which kind, pu_int N)
{
    static const pu_int rows[CASES] = {23, 40, 12, 20, 70, 15, 11, 70, 30, 30}, cols[CASES] = {5, 7, 3, 9, 35, 6, 4, 0, 0, 0};
    const uint64_t seed = 1000 + 100 * (uint64_t)kind;
    pu_report report;
    size_t bytes = 0;
    pu_int i;
    memset(p, 0, sizeof *p);
    p->kind = kind, p->M = rows[kind], p->D = cols[kind], p->N = N;
    if (kind == SPARSE || kind == REGRESSION) p->dictionary = pu_op_dense(p->M, p->D, tc_normal(seed + 1, p->M * p->D));
    if (kind == SPARSE_FOURIER) {
        if (pu_fourier_bytes(5, 7, &bytes) || pu_fourier_init(&p->fourier, 5, 7, tc_bytes(bytes), bytes)) exit(2);
        p->dictionary = pu_op_fourier(&p->fourier);
    }
    p->X = tc_normal(seed + 2, p->M * INPUTS);
    p->y = tc_normal(seed + 3, N * p->M);
    p->mask = (unsigned char *)tc_bytes((size_t)(N * p->M));
    for (i = 0; i < N * p->M; i++) {
        p->mask[i] = tc_hash(seed + 1000 + (uint64_t)i) % 4 != 0;
        if (!p->mask[i]) p->y[i] = PU_R(NAN); /* never to be read */
    }
    p->data = pu_data_masked(N, p->M, p->y, p->mask);
    if (kind == FACTOR_LISTS) to_lists(p);
    p->model.memory = tc_workspace();
    if (make_model(p, &report) != PU_OK) exit(2);
    p->D = p->model.lgm.Gamma->rows;
    p->theta = tc_normal(seed + 4, p->model.params);
    for (i = 0; i < p->model.params; i++) p->theta[i] *= PU_R(0.4);
    if (kind >= STATE_SPACE)
        for (i = 0; i < 2; i++) p->theta[3 * i] += PU_R(0.4), p->theta[4 + i] += PU_R(1);
    tc_set_case("%s", names[kind]);
}

/* ---- a device ---------------------------------------------------------------------------------- */

static pu_cuda device;

static int open_device(size_t budget)
{
    pu_cuda_options o;
    pu_report report;
    pu_cuda_close(&device); /* of a test that failed */
    memset(&o, 0, sizeof o);
    o.budget = budget;
    return pu_cuda_open(&device, &o, &report) == PU_OK;
}

typedef struct {
    pu_real *grad, *se;
    pu_report report;
    pu_status status;
} answer;

static answer ask(problem *p, pu_options o, const pu_backend *backend, int se)
{
    answer a;
    pu_workspace ws = tc_workspace();
    memset(&a, 0, sizeof a);
    a.grad = tc_reals(p->model.params), a.se = se ? tc_reals(p->model.params) : NULL;
    o.backend = backend;
    a.status = pu_model_gradient(&p->model, p->theta, &p->data, &o, &ws, a.grad, a.se, &a.report);
    return a;
}

/* Both sides do the same arithmetic in another order, so they differ by rounding: eps times the number of steps times what the
   conditioning makes of it. The problems are well conditioned (condition below 1e3); 2000 eps of the largest entry. */
static int differ(pu_int n, const pu_real *x, const pu_real *y, double factor, const char *what)
{
    double worst = 0, size = 0;
    pu_int i;
    for (i = 0; i < n; i++) {
        const double e = fabs((double)x[i] - (double)y[i]);
        if (!(e <= worst)) worst = e;
        if (fabs((double)y[i]) > size) size = fabs((double)y[i]);
    }
    if (worst <= factor * PU_TEST_EPS * size || (worst == 0 && size == 0)) return 0;
    snprintf(pu_test_message, sizeof pu_test_message, "%s: off by %g of %g, that is %.3g eps", what, worst, size,
             worst / size / PU_TEST_EPS);
    return 1;
}

/* What rounding leaves is measured on the host alone: there PU_INEXACT may be told of the same numbers. */
static pu_status told_by_a_device(pu_status host) { return host == PU_INEXACT ? PU_OK : host; }

/* `factor`, or what the host tells of its own rounding, in eps: the mean of an unstable state space enlarges it. */
static double factor_or_told(double factor, const pu_report *host)
{
    return fmax(factor, host->rounding_error / PU_TEST_EPS);
}

#define SAME(p, a, b, factor)                                                                                  \
    do {                                                                                                       \
        TC_STATUS(told_by_a_device((a).status), told_by_a_device((b).status));                                 \
        if (differ((p)->model.params, (a).grad, (b).grad, factor_or_told(factor, &(b).report), "gradient"))    \
            FAILm(tc_say(pu_test_message));                                                                    \
        TC_CLOSE((a).report.q, (b).report.q, (factor) * PU_TEST_EPS * (1 + fabs((b).report.c)));               \
        TC_CLOSE((a).report.nll, (b).report.nll, (factor) * PU_TEST_EPS * (1 + fabs((b).report.c)));           \
    } while (0)

static pu_options options(pu_kind kind, pu_solver solver)
{
    pu_options o;
    memset(&o, 0, sizeof o);
    o.kind = kind, o.samples = 3, o.solve.iterations = kind == PU_MONTE_CARLO ? 0 : 4, o.solve.solver = solver, o.seed = 7;
    return o;
}

/* ---- gradients --------------------------------------------------------------------------------- */

TEST models_agree(which kind)
{
    static const pu_kind kinds[] = {PU_NETWORK, PU_OUTPUT, PU_MONTE_CARLO};
    static const pu_solver solvers[] = {PU_CG, PU_PCG, PU_SD, PU_GD};
    problem p;
    make(&p, kind, 5);
    ASSERT(open_device(0));
    for (int k = 0; k < 3; k++)
        for (int s = 0; s < 4; s++) {
            pu_options o = options(kinds[k], solvers[s]);
            answer host, there;
            if (kinds[k] == PU_MONTE_CARLO && solvers[s] != PU_CG && solvers[s] != PU_PCG) continue; /* these take for ever */
            tc_set_case("%s, kind %d, solver %d", names[kind], k, s);
            host = ask(&p, o, NULL, 0), there = ask(&p, o, &device.backend, 0);
            SAME(&p, there, host, 2000);
            TC_ASSERT(there.report.served[PU_ITERATIVE] == p.N && strstr(there.report.plan, "on the device"));
            TC_ASSERT(there.report.device_bytes > 0 && there.report.batch == (solvers[s] == PU_GD ? 1 : p.N));
            TC_CLOSE(there.report.nll_se, host.report.nll_se, 1e-3 * (1 + fabs(host.report.nll_se)));
        }
    pu_cuda_close(&device);
    PASS();
}

/* Reverse passes, checkpoints, warm starts, probes of one's own, standard errors, control variates. */
TEST options_agree(which kind)
{
    static const pu_adjoint adjoints[] = {PU_ADJOINT_FULL, PU_ADJOINT_SHORTCUT, PU_ADJOINT_REORTHOGONAL, PU_ADJOINT_AUTO};
    problem p;
    answer host, there;
    make(&p, kind, 4);
    ASSERT(open_device(0));
    for (int a = 0; a < 4; a++)
        for (int s = 0; s < 2; s++)
            for (pu_int every = 0; every < 3; every++) {
                pu_options o = options(PU_NETWORK, s ? PU_PCG : PU_CG);
                o.solve.adjoint = adjoints[a], o.solve.iterations = 5, o.solve.tape_every = every;
                if (every && a > 1) continue;
                tc_set_case("%s, adjoint %d, solver %d, checkpoint %d", names[kind], a, s, (int)every);
                host = ask(&p, o, NULL, 0), there = ask(&p, o, &device.backend, 0);
                SAME(&p, there, host, 4000);
                /* blocks of columns that are repeated are larger there */
                TC_ASSERT(!there.report.reorthogonalised == !host.report.reorthogonalised);
            }
    {
        pu_options o = options(PU_NETWORK, PU_CG);
        o.x0 = tc_normal(5, p.N * 4 * p.D), o.delta = tc_normal(6, p.N * 3 * p.D);
        tc_set_case("%s, warm start and probes of one's own", names[kind]);
        host = ask(&p, o, NULL, 0), there = ask(&p, o, &device.backend, 0);
        SAME(&p, there, host, 4000);
        o.x0 = o.delta = NULL, o.columns = 2;
        tc_set_case("%s, two columns at a time", names[kind]);
        there = ask(&p, o, &device.backend, 0), o.columns = 0, host = ask(&p, o, NULL, 0);
        SAME(&p, there, host, 2000);
        TC_ASSERT(there.report.batch == 1 && there.report.columns == 2);
        tc_set_case("%s, standard errors", names[kind]);
        host = ask(&p, o, NULL, 1), there = ask(&p, o, &device.backend, 1);
        SAME(&p, there, host, 2000);
        if (differ(p.model.params, there.se, host.se, 4000, "standard errors")) FAILm(tc_say(pu_test_message));
        o.kind = PU_OUTPUT, o.rao_blackwell = 1;
        if (p.model.lgm.Gamma->band_grad && p.model.lgm.Phi->gram_diag) {
            tc_set_case("%s, Rao-Blackwell", names[kind]);
            host = ask(&p, o, NULL, 1), there = ask(&p, o, &device.backend, 1);
            SAME(&p, there, host, 2000);
            if (differ(p.model.params, there.se, host.se, 4000, "standard errors")) FAILm(tc_say(pu_test_message));
        }
        o = options(PU_OUTPUT, PU_CG);
        o.solve.tolerance = 1e-3, o.solve.iterations = 50;
        tc_set_case("%s, to a tolerance", names[kind]);
        host = ask(&p, o, NULL, 0), there = ask(&p, o, &device.backend, 0);
        {   /* 2000 eps stand for four steps; the products tell how many a column took here (its mean and three probes) */
            const double steps = host.report.products / (double)(4 * p.N);
            SAME(&p, there, host, 500 * fmax(4, steps));
        }
    }
    pu_cuda_close(&device);
    PASS();
}

/* The arrays of results besides the gradients. */
TEST results_agree(void)
{
    enum { N = 3, K = 2, I = 3 };
    problem p;
    pu_gradient_result out[2];
    pu_report report[2];
    pu_options o = options(PU_NETWORK, PU_PCG);
    make(&p, FACTORS, N);
    ASSERT(open_device(0));
    TC_STATUS(pu_model_set(&p.model, p.theta, NULL), PU_OK);
    o.samples = K, o.solve.iterations = I;
    for (int s = 0; s < 2; s++) {
        const pu_int all = N * (K + 1);
        memset(&out[s], 0, sizeof out[s]);
        out[s].x = tc_reals(all * p.D), out[s].residual = tc_reals(all * p.D), out[s].alpha = tc_reals(all * I);
        out[s].beta = tc_reals(all * I), out[s].logdet = tc_reals(N * K), out[s].nu = tc_reals(p.D);
        out[s].columns = (pu_column *)tc_bytes((size_t)all * sizeof(pu_column));
        o.backend = s ? &device.backend : NULL;
        TC_STATUS(pu_gradient(&p.model.lgm, &p.data, &o, NULL, &out[s], &report[s]), PU_OK);
    }
    if (differ(N * (K + 1) * p.D, out[1].x, out[0].x, 500, "x") || differ(p.D, out[1].nu, out[0].nu, 500, "nu") ||
        differ(N * (K + 1) * p.D, out[1].residual, out[0].residual, 2000, "residual") ||
        differ(N * (K + 1) * I, out[1].alpha, out[0].alpha, 500, "alpha") ||
        differ(N * (K + 1) * I, out[1].beta, out[0].beta, 500, "beta") || differ(N * K, out[1].logdet, out[0].logdet, 500, "logdet"))
        FAILm(tc_say(pu_test_message));
    for (pu_int j = 0; j < N * (K + 1); j++) {
        TC_ASSERT(out[1].columns[j].steps == out[0].columns[j].steps && out[1].columns[j].stop == out[0].columns[j].stop);
        TC_CLOSE(out[1].columns[j].rhs, out[0].columns[j].rhs, 100 * PU_TEST_EPS * out[0].columns[j].rhs);
    }
    pu_cuda_close(&device);
    PASS();
}

/* Exact engines run on the host, and the plan says so; so does auto. Moments are the host's. */
TEST host_work_is_told(void)
{
    problem p;
    answer host, there;
    pu_options o = options(PU_EXACT, PU_CG);
    pu_posterior_result out;
    pu_report report;
    make(&p, AR, 2);
    ASSERT(open_device(0));
    o.samples = 0;
    host = ask(&p, o, NULL, 0), there = ask(&p, o, &device.backend, 0);
    SAME(&p, there, host, 0);
    TC_ASSERT(strstr(there.report.plan, "on the host") && there.report.served[PU_ITERATIVE] == 0);
    o.kind = PU_NETWORK, o.engine = PU_ENGINE_AUTO;
    there = ask(&p, o, &device.backend, 0);
    TC_STATUS(there.status, PU_OK);
    TC_ASSERT(strstr(there.report.plan, "on the device (auto is for engines of the host)"));
    memset(&out, 0, sizeof out);
    out.mean = tc_reals(p.N * p.D);
    o.backend = &device.backend;
    TC_STATUS(pu_posterior(&p.model.lgm, &p.data, &o, NULL, &out, &report), PU_OK);
    TC_ASSERT(report.device_bytes == 0);
    pu_cuda_close(&device);
    PASS();
}

static pu_status odd_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    return pu__diagonal_apply(op, k, X, Y, add, work);
}

/* reverses: a root of the identity, too */
static pu_status odd_sample(const pu_op *op, pu_int k, pu_block E, pu_block Y, pu_real *work)
{
    (void)work;
    for (pu_int j = 0; j < k; j++)
        for (pu_int i = 0; i < op->rows; i++) Y.at[j * Y.ld + i] = E.at[j * E.ld + op->rows - 1 - i];
    return PU_OK;
}

/* Operators without a device side are refused by name, before any memory is taken. */
TEST no_side_is_refused(void)
{
    pu_real t[4] = {PU_R(2), PU_R(0.5), PU_R(0.25), PU_R(0)}, memory[400], psi[4] = {1, 1, 1, 1}, y[4] = {1, 2, 3, 4}, grad[4];
    pu_lags lags;
    pu_status made = pu_toeplitz_factor(&lags, 4, t, 1, memory, sizeof memory, NULL);
    pu_op Gamma = pu_op_toeplitz(4, t, &lags), Phi = pu_op_identity(4);
    pu_lgm model = {&Gamma, &Phi, NULL, NULL, psi, 0};
    pu_data data = pu_data_full(1, 4, y);
    pu_options o = options(PU_OUTPUT, PU_CG);
    pu_gradient_result out;
    pu_report report;
    memset(&out, 0, sizeof out);
    out.Gamma = grad;
    TC_STATUS(made, PU_OK);
    ASSERT(open_device(0));
    o.backend = &device.backend;
    TC_STATUS(pu_gradient(&model, &data, &o, NULL, &out, &report), PU_E_UNSUPPORTED);
    TC_ASSERT(strcmp(report.where.what, "Gamma (no device side)") == 0);
    /* a prior whose root reaches beyond its band: any root will do for the host, but not there */
    Gamma = pu_op_diagonal(4, psi), Gamma.apply = Gamma.apply_t = odd_apply, Gamma.sample = odd_sample;
    TC_STATUS(pu_gradient(&model, &data, &o, NULL, &out, &report), PU_E_UNSUPPORTED);
    TC_ASSERT(strcmp(report.where.what, "Gamma (no device side)") == 0);
    pu_cuda_close(&device);
    PASS();
}

/* ---- memory ------------------------------------------------------------------------------------ */

/* Any budget that is enough gives the same gradient; less is refused with the bytes lacking, and nothing is written. */
TEST budgets(which kind)
{
    problem p;
    answer all, some;
    size_t need = 0;
    pu_options o = options(PU_NETWORK, PU_CG);
    make(&p, kind, 6);
    ASSERT(open_device(0));
    all = ask(&p, o, &device.backend, 0);
    TC_STATUS(all.status, PU_OK);
    need = all.report.device_bytes;
    pu_cuda_close(&device);
    for (int cut = 2; cut <= 64; cut *= 2) {
        ASSERT(open_device(need / (size_t)cut));
        some = ask(&p, o, &device.backend, 0);
        tc_set_case("%s, 1/%d of %zu bytes: %zu, batch %d, columns %d", names[kind], cut, need, some.report.device_bytes,
                    (int)some.report.batch, (int)some.report.columns);
        if (some.status == PU_E_MEMORY) {
            char text[300], number[80];
            TC_ASSERT(some.report.device_bytes > need / (size_t)cut && some.report.batch <= 1 && some.report.columns <= 1);
            snprintf(number, sizeof number, "bytes of device memory needed %zu", some.report.device_bytes);
            TC_ASSERT(strstr(pu_explain(&some.report, text, sizeof text), number));
            for (pu_int i = 0; i < p.model.params; i++) TC_ASSERT(some.grad[i] == PU_R(0));
            TC_ASSERT(cut > 2);
        } else {
            SAME(&p, some, all, 500);
            TC_ASSERT(some.report.device_bytes <= need / (size_t)cut && some.report.batch < p.N);
            TC_ASSERT(device.bytes <= need / (size_t)cut);
        }
        pu_cuda_close(&device);
    }
    PASS();
}

/* A device with a part of the memory that all data side by side would take there, and a host's
   block of just what the query then tells. */
static pu_status scarce(problem *p, pu_options *o, double share, pu_workspace *ws, pu_report *report)
{
    size_t bytes = 0;
    pu_status status;
    if (!open_device(0)) return PU_E_NO_DEVICE;
    o->backend = &device.backend;
    status = pu_model_gradient_bytes(&p->model, &p->data, o, 0, &bytes, report);
    if (status) return status;
    if (!open_device((size_t)(share * (double)report->device_bytes))) return PU_E_NO_DEVICE;
    o->backend = &device.backend;
    status = pu_model_gradient_bytes(&p->model, &p->data, o, 0, &bytes, report);
    *ws = tc_workspace();
    pu_workspace_block(ws, tc_reals((pu_int)(bytes / sizeof(pu_real)) + 1), bytes);
    return status;
}

/* The host's block that is enough for all data is enough for any part of them, whatever the device's memory has room for. */
TEST parts_fit_the_block_of_all(which kind)
{
    problem p;
    pu_options o = options(PU_NETWORK, PU_CG);
    pu_workspace ws;
    pu_report report;
    o.solve.iterations = 1, o.samples = 2;
    make(&p, kind, 9);
    for (int share = 9; share >= 5; share -= 2) {
        TC_STATUS(scarce(&p, &o, share / 10.0, &ws, &report), PU_OK);
        TC_ASSERT(report.batch < p.N);
        for (pu_int n = 1; n <= p.N; n++) {
            pu_data part = p.data;
            pu_real *grad = tc_reals(p.model.params);
            part.n = n;
            tc_set_case("%s, %d of %d data, %d/10 of the memory", names[kind], (int)n, (int)p.N, share);
            TC_STATUS(pu_model_gradient(&p.model, p.theta, &part, &o, &ws, grad, NULL, &report), PU_OK);
        }
        pu_cuda_close(&device);
    }
    PASS();
}

/* The block for the limits of K is enough for the fewer probes that PU_CHOOSE comes to, of which more data fit on the device. */
TEST tuned_fits_the_block_of_limits(which kind)
{
    problem p;
    pu_options o = options(PU_NETWORK, PU_PCG);
    pu_workspace ws;
    pu_report report;
    o.solve.iterations = 2, o.samples = PU_CHOOSE, o.most_samples = 16, o.error = 0.9;
    make(&p, kind, 40);
    for (int cut = 2; cut <= 4; cut *= 2) {
        pu_real *grad = tc_reals(p.model.params);
        TC_STATUS(scarce(&p, &o, 1.0 / cut, &ws, &report), PU_OK);
        const pu_int before = report.batch;
        TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, &o, &ws, grad, NULL, &report), PU_OK);
        tc_set_case("%s, 1/%d of the memory, batch %d, then %d", names[kind], cut, (int)before, (int)report.batch);
        TC_ASSERT(report.samples < 16 && report.batch > before);
        pu_cuda_close(&device);
    }
    PASS();
}

/* The second call of a size allocates nothing, on either side; what a call asks for is what the query told. */
TEST second_call_allocates_nothing(which kind)
{
    problem p;
    pu_workspace ws;
    pu_report report;
    pu_options o = options(PU_NETWORK, PU_PCG);
    size_t bytes = 0, device_bytes;
    long before;
    make(&p, kind, 3);
    ASSERT(open_device(0));
    ws = tc_workspace();
    o.backend = &device.backend;
    TC_STATUS(pu_model_gradient_bytes(&p.model, &p.data, &o, 0, &bytes, &report), PU_OK);
    device_bytes = report.device_bytes;
    pu_real *grad = tc_reals(p.model.params);
    TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, &o, &ws, grad, NULL, &report), PU_OK);
    TC_ASSERT(report.device_bytes == device_bytes && device.bytes == device_bytes && ws.bytes >= bytes);
    before = sim_count().allocations;
    const size_t own = device.allocations, host = ws.allocations;
    for (int again = 0; again < 2; again++) {
        p.theta[0] += PU_R(0.01), o.step++;
        TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, &o, &ws, grad, NULL, &report), PU_OK);
    }
    TC_ASSERT(sim_count().allocations == before && device.allocations == own && ws.allocations == host);
    pu_cuda_close(&device);
    TC_ASSERT(sim_leaks(stderr) == 0);
    PASS();
}

/* Every allocation that can fail: out of memory is told, nothing leaks, nothing is written, and the next call works. */
TEST every_allocation_may_fail(which kind)
{
    problem p;
    answer want, a;
    pu_options o = options(PU_NETWORK, PU_CG);
    int failures = 0;
    make(&p, kind, 3);
    ASSERT(open_device(0));
    want = ask(&p, o, &device.backend, 0);
    pu_cuda_close(&device);
    for (long n = 1;; n++) {
        pu_report report;
        sim_reset_counters();
        sim_fail_allocation(n);
        tc_set_case("%s, allocation %ld", names[kind], n);
        if (pu_cuda_open(&device, NULL, &report) != PU_OK) {
            TC_STATUS(report.status, PU_E_MEMORY);
            failures++;
            sim_fail_allocation(0);
            TC_ASSERT(!device.backend.dot && sim_leaks(stderr) == 0); /* zeroed */
            continue;
        }
        a = ask(&p, o, &device.backend, 0);
        sim_fail_allocation(0);
        if (a.status == PU_OK) {
            pu_cuda_close(&device);
            break; /* all of them have had their turn */
        }
        failures++;
        TC_STATUS(a.status, PU_E_MEMORY);
        for (pu_int i = 0; i < p.model.params; i++) TC_ASSERT(a.grad[i] == PU_R(0));
        a = ask(&p, o, &device.backend, 0);
        SAME(&p, a, want, 0);
        pu_cuda_close(&device);
        TC_ASSERT(sim_leaks(stderr) == 0);
    }
    ASSERT(failures > 8);
    PASS();
}

/* Launches and copies that are refused, and work that fails later: PU_E_DEVICE with the library's words, nothing written. */
TEST every_launch_may_fail(which kind)
{
    problem p;
    answer a;
    pu_options o = options(PU_NETWORK, PU_CG);
    o.solve.iterations = 2;
    make(&p, kind, 2);
    for (int what = 0; what < 3; what++)
        for (long n = 1;; n += what == 2 ? 37 : n < 12 ? 1 : 7) {
            sim_reset();
            ASSERT(open_device(0));
            if (what == 0) sim_fail_launch(n);
            else if (what == 1) sim_fail_copy(n);
            else sim_fail_execution(n);
            a = ask(&p, o, &device.backend, 0);
            tc_set_case("%s, failure %d of kind %d", names[kind], (int)n, what);
            sim_fail_launch(0), sim_fail_copy(0), sim_fail_execution(0);
            if (a.status == PU_OK) {
                pu_cuda_close(&device);
                ASSERT(n > 5);
                break;
            }
            TC_STATUS(a.status, PU_E_DEVICE);
            TC_ASSERT(a.report.where.what && strlen(a.report.where.what) > 5);
            for (pu_int i = 0; i < p.model.params; i++) TC_ASSERT(a.grad[i] == PU_R(0));
            pu_cuda_close(&device);
        }
    sim_reset();
    PASS();
}

TEST no_device(void)
{
    pu_report report;
    char text[200];
    pu_cuda_options o;
    sim_no_device(1);
    TC_STATUS(pu_cuda_open(&device, NULL, &report), PU_E_NO_DEVICE);
    (void)pu_explain(&report, text, sizeof text);
    sim_no_device(0);
    TC_ASSERT(strstr(text, pu_status_text(PU_E_NO_DEVICE)) && strstr(text, cudaGetErrorString(cudaErrorNoDevice)));
    memset(&o, 0, sizeof o);
    o.device = 7;
    TC_STATUS(pu_cuda_open(&device, &o, &report), PU_E_ARGUMENT);
    TC_ASSERT(strcmp(report.where.what, "options.device") == 0);
    TC_STATUS(pu_cuda_open(NULL, NULL, &report), PU_E_NULL);
    pu_cuda_close(&device), pu_cuda_close(NULL);
    PASS();
}

/* A stream and a block of the caller's are used, and left alone. */
TEST callers_stream_and_memory(void)
{
    problem p;
    answer want, a;
    pu_cuda_options o;
    cudaStream_t stream;
    void *block;
    pu_options wanted = options(PU_NETWORK, PU_CG);
    make(&p, FACTORS, 3);
    ASSERT(open_device(0));
    want = ask(&p, wanted, &device.backend, 0);
    pu_cuda_close(&device);
    ASSERT(cudaStreamCreate(&stream) == cudaSuccess);
    ASSERT(cudaMalloc(&block, want.report.device_bytes + 100) == cudaSuccess);
    memset(&o, 0, sizeof o);
    o.stream = stream, o.memory = (char *)block + 4, o.bytes = want.report.device_bytes;
    TC_STATUS(pu_cuda_open(&device, &o, NULL), PU_OK);
    a = ask(&p, wanted, &device.backend, 0);
    SAME(&p, a, want, 0);
    pu_cuda_close(&device);
    o.bytes = want.report.device_bytes / 50;
    TC_STATUS(pu_cuda_open(&device, &o, NULL), PU_OK);
    a = ask(&p, wanted, &device.backend, 0);
    TC_STATUS(a.status, PU_E_MEMORY);
    pu_cuda_close(&device);
    ASSERT(cudaFree(block) == cudaSuccess && cudaStreamDestroy(stream) == cudaSuccess);
    TC_ASSERT(sim_leaks(stderr) == 0);
    PASS();
}

/* ---- order of work ------------------------------------------------------------------------------ */

/* The host waits a fixed number of times per batch, whatever I is, and reads back a fixed number of bytes but for the histories. */
TEST waiting_does_not_depend_on_steps(void)
{
    problem p;
    long waits[2];
    make(&p, FACTORS, 4);
    for (int t = 0; t < 2; t++) {
        pu_options o = options(PU_NETWORK, PU_CG);
        answer a;
        o.solve.iterations = t ? 12 : 3;
        ASSERT(open_device(0));
        a = ask(&p, o, &device.backend, 0);
        TC_STATUS(a.status, PU_OK);
        sim_reset_counters();
        a = ask(&p, o, &device.backend, 0);
        TC_STATUS(a.status, PU_OK);
        waits[t] = sim_count().synchronisations;
        pu_cuda_close(&device);
    }
    TC_CLOSE(waits[0], waits[1], 0);
    TC_ASSERT(waits[0] <= 24);
    PASS();
}

/* The number of copies is that of the arrays, not of the data, with PCG and with probes of the caller's. */
TEST copies_do_not_depend_on_data(which kind)
{
    problem p;
    for (int probes = 0; probes < 2; probes++) {
        long to[2], back[2];
        for (int t = 0; t < 2; t++) {
            pu_options o = options(PU_NETWORK, PU_PCG);
            answer a;
            make(&p, kind, t ? 60 : 5);
            o.samples = 3;
            if (probes) o.delta = tc_normal(9, p.N * o.samples * p.D);
            ASSERT(open_device(0));
            sim_reset_counters();
            a = ask(&p, o, &device.backend, 0);
            TC_STATUS(a.status, PU_OK);
            ASSERT_EQ(p.N, a.report.batch);
            to[t] = sim_count().copies_to_device;
            back[t] = sim_count().copies_to_host;
            pu_cuda_close(&device);
        }
        tc_set_case("%s, probes of the caller's: %d", names[kind], probes);
        TC_CLOSE(to[1], to[0], 0);
        TC_CLOSE(back[1], back[0], 0);
        TC_ASSERT(to[0] < 30);
    }
    PASS();
}

/* Short columns are taken as they are, however many: launches are those of the steps. */
TEST launches_do_not_depend_on_data(void)
{
    long launches[2];
    for (int t = 0; t < 2; t++) {
        problem p;
        answer a;
        pu_options o = options(PU_OUTPUT, PU_CG);
        make(&p, FACTORS, t ? 420 : 3);
        o.samples = 10;
        o.solve.iterations = 2;
        ASSERT(open_device(0));
        sim_reset_counters();
        a = ask(&p, o, &device.backend, 0);
        TC_STATUS(a.status, PU_OK);
        ASSERT_EQ(p.N, a.report.batch);
        launches[t] = sim_count().launches + sim_count().library_calls;
        pu_cuda_close(&device);
    }
    TC_CLOSE(launches[1], launches[0], 0);
    TC_ASSERT(launches[0] < 60);
    PASS();
}

/* Uploads of the next batch may overtake the work on this one: bits are the same whatever the order of streams and threads. */
TEST order_does_not_show(which kind)
{
    problem p;
    answer first;
    pu_options o = options(PU_NETWORK, PU_PCG);
    size_t need;
    make(&p, kind, 7);
    ASSERT(open_device(0));
    first = ask(&p, o, &device.backend, 0);
    TC_STATUS(first.status, PU_OK);
    need = first.report.device_bytes;
    pu_cuda_close(&device);
    for (int threads = 0; threads < 3; threads++)
        for (int streams = 0; streams < 3; streams++) {
            answer a;
            static pu_real *keep;
            sim_thread_order(threads), sim_stream_order(streams), sim_seed((unsigned)(7 + threads));
            ASSERT(open_device(need / 2));
            a = ask(&p, o, &device.backend, 0);
            tc_set_case("%s, threads %d, streams %d, batch %d", names[kind], threads, streams, (int)a.report.batch);
            TC_STATUS(a.status, PU_OK);
            TC_ASSERT(a.report.batch < p.N);
            if (threads + streams == 0) keep = a.grad;
            TC_ASSERT(memcmp(keep, a.grad, (size_t)p.model.params * sizeof(pu_real)) == 0);
            pu_cuda_close(&device);
        }
    sim_thread_order(SIM_FORWARD), sim_stream_order(SIM_LAZY);
    PASS();
}

/* ---- training ------------------------------------------------------------------------------------ */

TEST fits_agree(which kind)
{
    problem p;
    pu_real *theta[2];
    pu_fit_report report;
    make(&p, kind, 6);
    ASSERT(open_device(0));
    for (int s = 0; s < 2; s++) {
        pu_fit_options o;
        memset(&o, 0, sizeof o);
        o.steps = 4, o.rate = 0.05, o.batch = 3, o.gradient = options(PU_NETWORK, PU_CG);
        o.gradient.backend = s ? &device.backend : NULL;
        theta[s] = tc_reals(p.model.params);
        memcpy(theta[s], p.theta, (size_t)p.model.params * sizeof(pu_real));
        TC_STATUS(pu_fit(&p.model, &p.data, &o, NULL, theta[s], &report), PU_OK);
    }
    /* Adam divides by the size of a gradient, so where that is rounding itself a step may go anywhere; here none is */
    if (differ(p.model.params, theta[1], theta[0], 20000, "theta")) FAILm(tc_say(pu_test_message));
    TC_ASSERT(strstr(report.last.plan, "on the device"));
    pu_cuda_close(&device);
    PASS();
}

/* ---- solves ---------------------------------------------------------------------------------------- */

TEST solves_agree(void)
{
    enum { n = 12, k = 3 };
    static const pu_solver solvers[] = {PU_CG, PU_PCG, PU_SD, PU_GD};
    pu_real *a = tc_reals(n * n), *U = tc_normal(2, n * k), *weight = tc_normal(3, k), *x0 = tc_normal(4, n * k);
    pu_real X[2][n * k], G[2][n * n], V[2][n * k];
    pu_op A;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) a[i * n + j] = i == j ? PU_R(4) : PU_R(1) / (pu_real)(1 + (i > j ? i - j : j - i));
    A = pu_op_spd(n, a, NULL);
    ASSERT(open_device(0));
    for (int s = 0; s < 4; s++)
        for (int warm = 0; warm < 2; warm++) {
            pu_solve_options o;
            pu_report report;
            memset(&o, 0, sizeof o);
            o.iterations = 5, o.solver = solvers[s];
            tc_set_case("solver %d, warm %d", s, warm);
            for (int t = 0; t < 2; t++)
                TC_STATUS(tc_pu_solve(&A, k, U, n, X[t], n, warm ? x0 : NULL, weight, &o, t ? &device.backend : NULL, NULL, G[t], V[t],
                                   NULL, &report), PU_OK);
            if (differ(n * k, X[1], X[0], 200, "X") || differ(n * n, G[1], G[0], 1000, "grad_A") ||
                differ(n * k, V[1], V[0], 1000, "grad_U"))
                FAILm(tc_say(pu_test_message));
        }
    { /* grad_U alone */
        pu_report report;
        tc_set_case("grad_U alone");
        for (int t = 0; t < 2; t++)
            TC_STATUS(tc_pu_solve(&A, k, U, n, X[t], n, NULL, weight, NULL, t ? &device.backend : NULL, NULL, NULL, V[t], NULL, &report),
                      PU_OK);
        if (differ(n * k, V[1], V[0], 1000, "grad_U")) FAILm(tc_say(pu_test_message));
    }
    pu_cuda_close(&device);
    PASS();
}

/* A solve whose launches or copies fail: the device's words, nothing written, and the next one works. */
TEST solves_may_fail(void)
{
    enum { n = 9, k = 2 };
    pu_real *a = tc_reals(n * n), *U = tc_normal(2, n * k), *weight = tc_normal(3, k), X[n * k], G[n * n], V[n * k], want[n * k];
    pu_op A;
    pu_report report;
    pu_solve_options o;
    memset(&o, 0, sizeof o);
    o.iterations = 2;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) a[i * n + j] = i == j ? PU_R(4) : PU_R(1) / (pu_real)(1 + (i > j ? i - j : j - i));
    A = pu_op_spd(n, a, NULL);
    TC_STATUS(tc_pu_solve(&A, k, U, n, want, n, NULL, weight, &o, NULL, NULL, NULL, NULL, NULL, &report), PU_OK);
    for (int what = 0; what < 3; what++)
        for (long at = 1;; at += at < 12 ? 1 : 5) {
            pu_status status;
            sim_reset();
            ASSERT(open_device(0));
            memset(X, 0, sizeof X), memset(G, 0, sizeof G), memset(V, 0, sizeof V);
            if (what == 0) sim_fail_launch(at);
            else if (what == 1) sim_fail_copy(at);
            else sim_fail_allocation(at);
            status = tc_pu_solve(&A, k, U, n, X, n, NULL, weight, &o, &device.backend, NULL, G, V, NULL, &report);
            sim_fail_launch(0), sim_fail_copy(0), sim_fail_allocation(0);
            tc_set_case("failure %d of kind %d", (int)at, what);
            if (status == PU_OK) {
                pu_cuda_close(&device);
                ASSERT(what == 2 || at > 5);
                break;
            }
            TC_STATUS(status, what == 2 ? PU_E_MEMORY : PU_E_DEVICE);
            for (int i = 0; i < n * k; i++) TC_ASSERT(X[i] == PU_R(0) && V[i] == PU_R(0));
            for (int i = 0; i < n * n; i++) TC_ASSERT(G[i] == PU_R(0));
            TC_STATUS(tc_pu_solve(&A, k, U, n, X, n, NULL, weight, &o, &device.backend, NULL, G, V, NULL, &report), PU_OK);
            if (differ(n * k, X, want, 200, "X")) FAILm(tc_say(pu_test_message));
            pu_cuda_close(&device);
        }
    sim_reset();
    PASS();
}

static void *to_device(const void *from, size_t bytes)
{
    void *p = NULL;
    if (cudaMalloc(&p, bytes) || cudaMemcpy(p, from, bytes, cudaMemcpyHostToDevice)) exit(2);
    return p;
}

/* Everything on the device: enqueued without waiting, captured in a graph, and played again with another right-hand side. */
TEST captured_solve(int gradient)
{
    enum { n = 40, k = 5 };
    pu_real gamma[2] = {PU_R(0.5), PU_R(-0.3)}, X[n * k], want[n * k], grad[2 * n * 3];
    pu_real *U = tc_normal(1, 2 * n * k), *weight = tc_normal(2, k);
    pu_real want_grad[8] = {0}, got_grad[8] = {0};
    pu_ar ar;
    pu_op A;
    pu_side full;
    pu_op &side = full.op;
    pu_solve_options o;
    pu_report report;
    size_t side_bytes = 0, bytes = 0;
    int32_t stop[k];
    cudaGraph_t graph;
    cudaGraphExec_t play;
    memset(&o, 0, sizeof o);
    o.iterations = 6;
    TC_STATUS(pu_ar_set(&ar, n, 2, gamma, PU_R(0.8), NULL), PU_OK);
    A = pu_op_ar(&ar);
    ASSERT(open_device(0));
    TC_STATUS(device.backend.side(&device, 0, &A, NULL, &side_bytes, &full), PU_OK);
    void *side_memory = NULL, *memory = NULL;
    ASSERT(cudaMalloc(&side_memory, side_bytes) == cudaSuccess);
    TC_STATUS(device.backend.side(&device, 0, &A, side_memory, &side_bytes, &full), PU_OK);
    TC_STATUS(pu_cuda_solve_bytes(&device, &side, k, &o, gradient, &bytes, &report), PU_OK);
    ASSERT(cudaMalloc(&memory, bytes) == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess);
    pu_real *dU = (pu_real *)to_device(U, n * k * sizeof *U), *dX = (pu_real *)to_device(U, n * k * sizeof *U);
    pu_real *dw = (pu_real *)to_device(weight, k * sizeof *weight), *dG = NULL;
    int32_t *dstop = (int32_t *)to_device(stop, sizeof stop);
    ASSERT(cudaMalloc((void **)&dG, (size_t)side.params * sizeof *dG) == cudaSuccess);
    TC_STATUS(pu_cuda_solve(&device, &side, k, dU, n, dX, n, NULL, dw, &o, memory, bytes - 1, gradient ? dG : NULL, dstop, &report),
              PU_E_BLOCK);
    sim_reset_counters();
    ASSERT(cudaStreamBeginCapture(device.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    ASSERT(cudaMemsetAsync(dG, 0, (size_t)side.params * sizeof *dG, device.stream) == cudaSuccess);
    TC_STATUS(pu_cuda_solve(&device, &side, k, dU, n, dX, n, NULL, dw, &o, memory, bytes, gradient ? dG : NULL, dstop, &report), PU_OK);
    ASSERT(cudaStreamEndCapture(device.stream, &graph) == cudaSuccess);
    TC_ASSERT(sim_count().synchronisations == 0 && sim_count().allocations == 0 && sim_count().copies_to_host == 0);
    ASSERT(cudaGraphInstantiate(&play, graph, 0) == cudaSuccess);
    for (int turn = 0; turn < 2; turn++) {
        tc_set_case("gradient %d, turn %d", gradient, turn);
        ASSERT(cudaMemcpy(dU, U + turn * n * k, n * k * sizeof *U, cudaMemcpyHostToDevice) == cudaSuccess);
        ASSERT(cudaGraphLaunch(play, device.stream) == cudaSuccess && cudaStreamSynchronize(device.stream) == cudaSuccess);
        ASSERT(cudaMemcpy(X, dX, sizeof X, cudaMemcpyDeviceToHost) == cudaSuccess);
        ASSERT(cudaMemcpy(stop, dstop, sizeof stop, cudaMemcpyDeviceToHost) == cudaSuccess);
        TC_STATUS(tc_pu_solve(&A, k, U + turn * n * k, n, want, n, NULL, weight, &o, NULL, NULL, gradient ? want_grad : NULL, NULL, NULL,
                           &report), PU_OK);
        if (differ(n * k, X, want, 200, "X")) FAILm(tc_say(pu_test_message));
        for (int j = 0; j < k; j++) TC_ASSERT(stop[j] == PU_STOP_STEPS);
        if (!gradient) continue;
        ASSERT(cudaMemcpy(grad, dG, (size_t)side.params * sizeof *dG, cudaMemcpyDeviceToHost) == cudaSuccess);
        memset(got_grad, 0, sizeof got_grad);
        TC_STATUS(full.grad_from_sums(&full, grad, got_grad), PU_OK);
        if (differ(A.params, got_grad, want_grad, 2000, "grad_A")) FAILm(tc_say(pu_test_message));
    }
    ASSERT(cudaGraphExecDestroy(play) == cudaSuccess && cudaGraphDestroy(graph) == cudaSuccess);
    cudaFree(dU), cudaFree(dX), cudaFree(dw), cudaFree(dG), cudaFree(dstop), cudaFree(memory), cudaFree(side_memory);
    o.tolerance = 0.1;
    TC_STATUS(pu_cuda_solve_bytes(&device, &side, k, &o, gradient, &bytes, &report), PU_E_UNSUPPORTED);
    pu_cuda_close(&device);
    TC_ASSERT(sim_leaks(stderr) == 0);
    PASS();
}

/* ---- cuFFT -------------------------------------------------------------------------------------------------- */

/* Its work area is within the budget, whatever its size, and where it is larger than cuFFT had told, fewer images go at a time. */
TEST work_area_of_transforms(void)
{
    static const int sizes[][2] = {{1, 1}, {4, 4}, {1, 4}, {1, 30}, {0, 0}, {30, 30}};
    problem p;
    answer want = {}, a;
    pu_options o = options(PU_NETWORK, PU_PCG);
    make(&p, SPARSE_FOURIER, 6);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t before;
        tc_set_case("work area told %d, needed %d", sizes[i][0], sizes[i][1]);
        sim_fft_work(sizes[i][0], sizes[i][1]);
        ASSERT(open_device(0));
        before = sim_count().live_bytes;
        a = ask(&p, o, &device.backend, 0);
        if (i == 0) want = a;
        if (sizes[i][1] > 4 * sizes[i][0] && sizes[i][1] > 4) { /* not even one */
            TC_STATUS(a.status, PU_E_MEMORY);
            TC_ASSERT(strstr(a.report.where.what, "cuFFT"));
        } else {
            SAME(&p, a, want, 0);
            TC_ASSERT(sim_count().live_bytes == before + a.report.device_bytes);
        }
        if (i == 1) { /* with a budget: fewer data side by side */
            ASSERT(open_device(a.report.device_bytes / 2));
            before = sim_count().live_bytes;
            a = ask(&p, o, &device.backend, 0);
            SAME(&p, a, want, 200);
            TC_ASSERT(a.report.batch < p.N && a.report.device_bytes <= device.backend.budget);
            TC_ASSERT(sim_count().live_bytes <= before + device.backend.budget);
        }
        pu_cuda_close(&device);
    }
    sim_fft_work(1, 1);
    TC_ASSERT(sim_leaks(stderr) == 0);
    PASS();
}

/* x + Phi'Phi x for a Fourier operator, on the device */
static pu_status image_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    const pu_side *there = (const pu_side *)op->data;
    const pu_op *Phi = &there->op;
    const pu_block spectra = {work, Phi->rows};
    pu_term terms[2];
    memset(terms, 0, sizeof terms);
    terms[0].x = Y;
    terms[1].x = X;
    terms[0].scale = terms[1].scale = 1;
    if (Phi->apply(Phi, k, X, spectra, 0, work + Phi->rows * k)) return PU_E_DEVICE;
    if (Phi->apply_t(Phi, k, spectra, Y, add, work + Phi->rows * k)) return PU_E_DEVICE;
    device.backend.combine(&device, op->rows, k, Y, 2, terms);
    return PU_OK;
}

/* A captured solve with transforms: everything that the graph knows is the caller's, or stays, whatever sizes come after it. */
TEST captured_transforms(void)
{
    enum { n = 35, k = 3 };
    problem p;
    pu_side there;
    pu_op A;
    pu_solve_options o;
    pu_report report;
    size_t side_bytes = 0, bytes = 0;
    void *side_memory = NULL, *memory = NULL;
    pu_real X[2][n * k];
    cudaGraph_t graph;
    cudaGraphExec_t play;
    int kept = 0;
    make(&p, SPARSE_FOURIER, 4);
    memset(&A, 0, sizeof A);
    memset(&o, 0, sizeof o);
    o.iterations = 3;
    ASSERT(open_device(0));
    TC_STATUS(device.backend.side(&device, 1, &p.dictionary, NULL, &side_bytes, &there), PU_OK);
    ASSERT(cudaMalloc(&side_memory, side_bytes) == cudaSuccess);
    TC_STATUS(device.backend.side(&device, 1, &p.dictionary, side_memory, &side_bytes, &there), PU_OK);
    A.rows = A.cols = n;
    A.data = &there;
    A.apply = A.apply_t = image_apply;
    A.work = there.op.work + there.op.rows;
    TC_STATUS(pu_cuda_solve_bytes(&device, &A, k, &o, 0, &bytes, &report), PU_OK);
    ASSERT(cudaMalloc(&memory, bytes) == cudaSuccess);
    pu_real *dU = (pu_real *)to_device(tc_normal(1, n * k), sizeof X[0]), *dX = (pu_real *)to_device(X[0], sizeof X[0]);
    /* nothing can be made while a capture goes on: said so */
    ASSERT(cudaStreamBeginCapture(device.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    TC_STATUS(pu_cuda_solve(&device, &A, k, dU, n, dX, n, NULL, NULL, &o, memory, bytes, NULL, NULL, &report), PU_E_DEVICE);
    TC_ASSERT(strstr(report.where.what, "solve once before"));
    ASSERT(cudaStreamEndCapture(device.stream, &graph) == cudaSuccess && cudaGraphDestroy(graph) == cudaSuccess);
    TC_STATUS(pu_cuda_solve(&device, &A, k, dU, n, dX, n, NULL, NULL, &o, memory, bytes, NULL, NULL, &report), PU_OK);
    ASSERT(cudaStreamSynchronize(device.stream) == cudaSuccess);
    ASSERT(cudaMemcpy(X[0], dX, sizeof X[0], cudaMemcpyDeviceToHost) == cudaSuccess);
    ASSERT(cudaStreamBeginCapture(device.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    TC_STATUS(pu_cuda_solve(&device, &A, k, dU, n, dX, n, NULL, NULL, &o, memory, bytes, NULL, NULL, &report), PU_OK);
    ASSERT(cudaStreamEndCapture(device.stream, &graph) == cudaSuccess);
    ASSERT(cudaGraphInstantiate(&play, graph, 0) == cudaSuccess);
    for (int samples = 2; samples < 14; samples++) { /* other sizes, more than there are places for plans */
        pu_options wanted = options(PU_OUTPUT, PU_CG);
        wanted.samples = samples;
        TC_STATUS(ask(&p, wanted, &device.backend, 0).status, PU_OK);
    }
    for (int l = 0; l < PU_CUDA_PLANS; l++) kept += device.plans[l].kept && device.plans[l].pairs == (k + 1) / 2;
    ASSERT_EQ(1, kept);
    ASSERT(cudaMemset(dX, 0, sizeof X[0]) == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess);
    ASSERT(cudaGraphLaunch(play, device.stream) == cudaSuccess && cudaStreamSynchronize(device.stream) == cudaSuccess);
    ASSERT(cudaMemcpy(X[1], dX, sizeof X[1], cudaMemcpyDeviceToHost) == cudaSuccess);
    TC_ASSERT(memcmp(X[0], X[1], sizeof X[0]) == 0);
    ASSERT(cudaGraphExecDestroy(play) == cudaSuccess && cudaGraphDestroy(graph) == cudaSuccess);
    cudaFree(dU), cudaFree(dX), cudaFree(memory), cudaFree(side_memory);
    pu_cuda_close(&device);
    TC_ASSERT(sim_leaks(stderr) == 0);
    PASS();
}

/* ---- several devices, and errors of others ---------------------------------------------------------------- */

static int current_device(void)
{
    int device_now = -1;
    return cudaGetDevice(&device_now) == cudaSuccess ? device_now : -1;
}

/* A solve with everything on the device, while another one is current. X: what it gave. */
static pu_status solve_there(pu_cuda *cuda, int other, pu_real *X)
{
    enum { n = 12, k = 2 };
    pu_real gamma[2] = {PU_R(0.5), PU_R(-0.3)};
    const pu_real *U = tc_normal(1, n * k);
    pu_ar ar;
    pu_op A;
    pu_side side;
    pu_solve_options o;
    pu_status status;
    size_t side_bytes = 0, bytes = 0;
    void *side_memory = NULL, *memory = NULL;
    memset(&o, 0, sizeof o);
    o.iterations = 6;
    if (pu_ar_set(&ar, n, 2, gamma, PU_R(0.8), NULL) != PU_OK) return PU_E_ARGUMENT;
    A = pu_op_ar(&ar);
    if (cudaSetDevice(cuda->device) != cudaSuccess) return PU_E_DEVICE; /* ours are for the memory below alone */
    (void)cuda->backend.side(cuda, 0, &A, NULL, &side_bytes, &side);
    if (cudaMalloc(&side_memory, side_bytes) != cudaSuccess) return PU_E_MEMORY;
    pu_real *dU = (pu_real *)to_device(U, n * k * sizeof *U), *dX = (pu_real *)to_device(U, n * k * sizeof *U);
    if (cudaSetDevice(other) != cudaSuccess) return PU_E_DEVICE;
    status = cuda->backend.side(cuda, 0, &A, side_memory, &side_bytes, &side);
    if (!status) status = pu_cuda_solve_bytes(cuda, &side.op, k, &o, 0, &bytes, NULL);
    if (cudaSetDevice(cuda->device) != cudaSuccess || cudaMalloc(&memory, bytes) != cudaSuccess) return PU_E_MEMORY;
    if (cudaSetDevice(other) != cudaSuccess) return PU_E_DEVICE;
    if (!status) status = pu_cuda_solve(cuda, &side.op, k, dU, n, dX, n, NULL, NULL, &o, memory, bytes, NULL, NULL, NULL);
    if (!status && cudaStreamSynchronize(cuda->stream) != cudaSuccess) status = PU_E_DEVICE;
    if (cudaMemcpy(X, dX, n * k * sizeof *X, cudaMemcpyDeviceToHost) != cudaSuccess) status = PU_E_DEVICE;
    cudaFree(dU), cudaFree(dX), cudaFree(memory), cudaFree(side_memory);
    return status;
}

/* Contexts on two devices: each call works on its own device and leaves the current one, also where it fails. */
TEST two_devices(void)
{
    problem p;
    answer want, a;
    pu_cuda second;
    pu_cuda_options o;
    pu_options wanted = options(PU_NETWORK, PU_PCG);
    pu_real X[2][24];
    make(&p, FACTOR_LISTS, 3);
    memset(&o, 0, sizeof o);
    o.device = 1;
    sim_devices(2);
    sim_fail_allocation(3);
    TC_STATUS(pu_cuda_open(&second, &o, NULL), PU_E_MEMORY);
    sim_fail_allocation(0);
    ASSERT_EQ(0, current_device());
    ASSERT(open_device(0));
    TC_STATUS(pu_cuda_open(&second, &o, NULL), PU_OK);
    ASSERT_EQ(0, current_device());
    want = ask(&p, wanted, &device.backend, 0);
    a = ask(&p, wanted, &second.backend, 0);
    SAME(&p, a, want, 0);
    ASSERT_EQ(0, current_device());
    TC_STATUS(solve_there(&device, 0, X[0]), PU_OK);
    TC_STATUS(solve_there(&device, 1, X[1]), PU_OK);
    ASSERT_EQ(1, current_device());
    TC_ASSERT(memcmp(X[0], X[1], sizeof X[0]) == 0);
    TC_STATUS(solve_there(&second, 0, X[1]), PU_OK);
    TC_ASSERT(memcmp(X[0], X[1], sizeof X[0]) == 0);
    ASSERT_EQ(0, current_device());
    a = ask(&p, wanted, &second.backend, 0);
    SAME(&p, a, want, 0);
    sim_fail_launch(5);
    TC_STATUS(ask(&p, wanted, &second.backend, 0).status, PU_E_DEVICE);
    sim_fail_launch(0);
    ASSERT_EQ(0, current_device());
    (void)pu_cuda_bulk_normals(&second, 2, X[0], 1, 0); /* whether cuRAND can or not */
    ASSERT_EQ(0, current_device());
    ASSERT(cudaSetDevice(1) == cudaSuccess);
    pu_cuda_close(&device);
    ASSERT_EQ(1, current_device());
    pu_cuda_close(&second);
    ASSERT_EQ(1, current_device());
    sim_reset();
    TC_ASSERT(sim_leaks(stderr) == 0);
    PASS();
}

/* Leaves an error behind, as a caller does who does not look. */
static void leave_an_error(void)
{
    void *unused = NULL;
    (void)cudaMalloc(&unused, (size_t)1 << 40);
}

/* An error that others left is no failure of ours: it is kept where the caller can see it. Ours do not stay behind. */
TEST errors_left_behind(void)
{
    problem p;
    answer want, a;
    pu_report report;
    pu_real X[24];
    pu_options o = options(PU_NETWORK, PU_CG);
    make(&p, FACTORS, 2);
    leave_an_error();
    ASSERT(open_device(0));
    ASSERT_EQ((int)cudaErrorMemoryAllocation, device.left_behind);
    want = ask(&p, o, &device.backend, 0);
    TC_STATUS(want.status, PU_OK);
    device.left_behind = 0;
    leave_an_error();
    a = ask(&p, o, &device.backend, 0);
    SAME(&p, a, want, 0);
    ASSERT_EQ((int)cudaErrorMemoryAllocation, device.left_behind);
    ASSERT_EQ((int)cudaSuccess, (int)cudaGetLastError());
    leave_an_error();
    TC_STATUS(solve_there(&device, 0, X), PU_OK);
    device.left_behind = 0;
    /* one of ours: told by the call, and gone */
    sim_fail_launch(4);
    TC_STATUS(ask(&p, o, &device.backend, 0).status, PU_E_DEVICE);
    sim_fail_launch(0);
    ASSERT_EQ((int)cudaSuccess, (int)cudaGetLastError());
    ASSERT_EQ(0, device.left_behind);
    /* close takes nothing of others */
    leave_an_error();
    pu_cuda_close(&device);
    ASSERT_EQ((int)cudaErrorMemoryAllocation, (int)cudaGetLastError());
    /* a device that others have lost: said so, and that it was before */
    ASSERT(open_device(0));
    sim_fail_execution(1);
    void *block = NULL;
    ASSERT(cudaMalloc(&block, 64) == cudaSuccess && cudaMemset(block, 0, 64) == cudaSuccess);
    (void)cudaDeviceSynchronize();
    a = ask(&p, o, &device.backend, 0);
    TC_STATUS(a.status, PU_E_DEVICE);
    TC_ASSERT(strstr(a.report.where.what, "before this call"));
    ASSERT_EQ((int)cudaErrorLaunchFailure, device.left_behind);
    TC_STATUS(pu_cuda_solve(&device, NULL, 1, NULL, 0, NULL, 0, NULL, NULL, NULL, NULL, 0, NULL, NULL, &report), PU_E_DEVICE);
    TC_ASSERT(strstr(report.where.what, "before this call"));
    pu_cuda_close(&device);
    TC_STATUS(pu_cuda_open(&device, NULL, &report), PU_E_DEVICE);
    TC_ASSERT(strstr(report.where.what, "before this call"));
    sim_reset();
    PASS();
}

/* ---- an operator of one's own --------------------------------------------------------------------------- */

/* a I + t * (differences of neighbours, twice): parameters a, t */
typedef struct {
    pu_int n;
    const pu_real *theta;
} chain;

static pu_status chain_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    const chain *c = (const chain *)op->data;
    (void)work;
    for (pu_int j = 0; j < k; j++)
        for (pu_int i = 0; i < c->n; i++) {
            const pu_real *x = X.at + j * X.ld;
            const pu_real bend = (i > 0 ? x[i] - x[i - 1] : PU_R(0)) + (i + 1 < c->n ? x[i] - x[i + 1] : PU_R(0));
            pu_real *y = Y.at + j * Y.ld + i, v = c->theta[0] * x[i] + c->theta[1] * bend;
            *y = add ? *y + v : v;
        }
    return PU_OK;
}

static pu_status chain_grad(const pu_op *op, pu_int k, pu_block P, pu_block Q, const pu_real *weight, pu_real *grad, pu_real *work)
{
    const chain *c = (const chain *)op->data;
    (void)work;
    for (pu_int j = 0; j < k; j++)
        for (pu_int i = 0; i < c->n; i++) {
            const pu_real *p = P.at + j * P.ld, *q = Q.at + j * Q.ld;
            grad[0] += weight[j] * p[i] * q[i];
            if (i > 0) grad[1] += weight[j] * (p[i] - p[i - 1]) * (q[i] - q[i - 1]);
        }
    return PU_OK;
}

typedef struct { /* the same on the device: a function object for each of the two */
    pu_int n;
    pu_real a, t;
    pu_block X, Y;
    int add;
    __device__ void operator()(pu_int i, pu_int j) const
    {
        const pu_real *x = X.at + j * X.ld;
        const pu_real bend = (i > 0 ? x[i] - x[i - 1] : PU_R(0)) + (i + 1 < n ? x[i] - x[i + 1] : PU_R(0));
        pu_real *y = Y.at + j * Y.ld + i, v = a * x[i] + t * bend;
        *y = add ? *y + v : v;
    }
} chain_product;

typedef struct {
    int which;
    pu_block P, Q;
    __device__ pu_real operator()(pu_int i, pu_int j) const
    {
        const pu_real *p = P.at + j * P.ld, *q = Q.at + j * Q.ld;
        if (which == 0) return p[i] * q[i];
        return i > 0 ? (p[i] - p[i - 1]) * (q[i] - q[i - 1]) : PU_R(0);
    }
} chain_pair;

static pu_status device_chain_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    const chain *c = (const chain *)op->data;
    chain_product f;
    (void)work;
    memset(&f, 0, sizeof f);
    f.n = c->n, f.a = c->theta[0], f.t = c->theta[1], f.X = X, f.Y = Y, f.add = add;
    return pu_cuda_each(&device, c->n, k, f);
}

static pu_status device_chain_grad(const pu_op *op, pu_int k, pu_block P, pu_block Q, const pu_real *weight, pu_real *grad,
                                   pu_real *work)
{
    const chain *c = (const chain *)op->data;
    pu_status status = PU_OK;
    (void)work;
    for (int which = 0; which < 2 && !status; which++) {
        chain_pair f;
        memset(&f, 0, sizeof f);
        f.which = which, f.P = P, f.Q = Q;
        status = pu_cuda_sums(&device, c->n, k, f, weight, grad + which);
    }
    return status;
}

TEST operator_of_ones_own(void)
{
    enum { n = 300, k = 4 };
    pu_real theta[2] = {PU_R(1.5), PU_R(0.7)}, *U = tc_normal(1, n * k), *weight = tc_normal(2, k), *X[2], grad[2][2];
    chain c = {n, theta};
    pu_op A;
    pu_side there;
    pu_solve_options o;
    pu_report report;
    memset(&A, 0, sizeof A), memset(&o, 0, sizeof o);
    A.rows = A.cols = n, A.params = 2, A.data = &c, A.apply = A.apply_t = chain_apply, A.grad = chain_grad;
    memset(&there, 0, sizeof there);
    there.op = A, there.op.apply = there.op.apply_t = device_chain_apply, there.op.grad = device_chain_grad;
    o.iterations = 8;
    ASSERT(open_device(0));
    for (int t = 0; t < 2; t++) {
        X[t] = tc_reals(n * k), A.device = t ? &there : NULL;
        TC_STATUS(tc_pu_solve(&A, k, U, n, X[t], n, NULL, weight, &o, t ? &device.backend : NULL, NULL, grad[t], NULL, NULL, &report),
                  PU_OK);
    }
    if (differ(n * k, X[1], X[0], 200, "X") || differ(2, grad[1], grad[0], 2000, "gradient")) FAILm(tc_say(pu_test_message));
    A.device = NULL;
    TC_STATUS(tc_pu_solve(&A, k, U, n, X[0], n, NULL, weight, &o, &device.backend, NULL, grad[0], NULL, NULL, &report), PU_E_UNSUPPORTED);
    TC_ASSERT(strcmp(report.where.what, "A (no device side)") == 0);
    pu_cuda_close(&device);
    PASS();
}

/* ---- cuRAND ----------------------------------------------------------------------------------------------- */

/* cuRAND's Philox on the host (the real library) gives our words: its sequence s, offset o is counter (o / 4, 0, s, 0). */
TEST philox_is_curands(void)
{
    enum { WORDS = 64 };
    uint32_t words[WORDS], out[4];
    curandGenerator_t generator;
    const unsigned long long seed = 0x123456789abcdefULL;
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, counter[4] = {0, 0, 0, 0};
    if (curandCreateGeneratorHost(&generator, CURAND_RNG_PSEUDO_PHILOX4_32_10) != CURAND_STATUS_SUCCESS) SKIPm("no cuRAND here");
    ASSERT(curandSetPseudoRandomGeneratorSeed(generator, seed) == CURAND_STATUS_SUCCESS);
    ASSERT(curandSetGeneratorOrdering(generator, CURAND_ORDERING_PSEUDO_DEFAULT) == CURAND_STATUS_SUCCESS);
    ASSERT(curandGenerate(generator, words, WORDS) == CURAND_STATUS_SUCCESS);
    curandDestroyGenerator(generator);
    /* its default ordering takes one block of four from each of many sequences in turn; the first block is that of counter 0 */
    pu_philox(key, counter, out);
    for (int i = 0; i < 4; i++) TC_ASSERT(out[i] == words[i]);
    PASS();
}

GREATEST_MAIN_DEFS();

/* Sanitizers make everything ten times slower: there one model of each kind of operators does, and for ThreadSanitizer one in all. */
#if defined(__SANITIZE_THREAD__)
enum { EVERYTHING = 0, SOME = 0 };
#elif defined(__SANITIZE_ADDRESS__)
enum { EVERYTHING = 0, SOME = 1 };
#else
enum { EVERYTHING = 1, SOME = 1 };
#endif

/* how much of the models a test takes: all of them, or those with the different kinds of device sides */
static int wanted(which kind, int all)
{
    if (kind == FACTOR_LISTS) return 1;
    if (kind == SPARSE_FOURIER || kind == AR) return SOME;
    if (kind == STATE_SPACE_GIVEN) return SOME && EVERYTHING;
    return all && EVERYTHING;
}

#define EACH(test, all)                                 \
    for (int c_ = 0; c_ < CASES; c_++) {                \
        if (!wanted((which)c_, all)) continue;          \
        greatest_set_test_suffix(names[c_]);            \
        RUN_TEST1(test, (which)c_);                     \
    }

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    EACH(models_agree, 1);
    EACH(options_agree, 0);
    RUN_TEST(results_agree);
    RUN_TEST(host_work_is_told);
    RUN_TEST(no_side_is_refused);
    EACH(budgets, 0);
    RUN_TEST1(parts_fit_the_block_of_all, FACTOR_LISTS);
    if (EVERYTHING) RUN_TEST1(parts_fit_the_block_of_all, AR);
    RUN_TEST1(tuned_fits_the_block_of_limits, AR);
    EACH(second_call_allocates_nothing, 1);
    RUN_TEST1(every_allocation_may_fail, FACTOR_LISTS);
    if (SOME) RUN_TEST1(every_allocation_may_fail, SPARSE_FOURIER);
    RUN_TEST1(every_launch_may_fail, FACTORS);
    if (EVERYTHING) RUN_TEST1(every_launch_may_fail, SPARSE_FOURIER);
    RUN_TEST(no_device);
    RUN_TEST(callers_stream_and_memory);
    RUN_TEST(waiting_does_not_depend_on_steps);
    RUN_TEST1(copies_do_not_depend_on_data, FACTORS);
    if (EVERYTHING) RUN_TEST(launches_do_not_depend_on_data);
    if (SOME) RUN_TEST1(copies_do_not_depend_on_data, SPARSE_FOURIER);
    if (EVERYTHING) EACH(order_does_not_show, 0);
    RUN_TEST1(fits_agree, FACTOR_LISTS);
    if (SOME) RUN_TEST1(fits_agree, AR);
    RUN_TEST(solves_agree);
    RUN_TEST(solves_may_fail);
    RUN_TEST1(captured_solve, 0);
    RUN_TEST1(captured_solve, 1);
    RUN_TEST(work_area_of_transforms);
    RUN_TEST(captured_transforms);
    RUN_TEST(two_devices);
    RUN_TEST(errors_left_behind);
    RUN_TEST(operator_of_ones_own);
    RUN_TEST(philox_is_curands);
    PU_TEST_MAIN_END();
}
