/* test_models.c - models in their own parameters: the struct, the calls on it, and the built-in models. */
#include "pu_test.h"
#include "test_common.h"

/* ---- small problems, one per model ------------------------------------------------------------ */

typedef enum { FACTORS, PPCA, SPARSE, SPARSE_FOURIER, REGRESSION, NEURAL, NEURAL_FEATURES, CASES } which;

static const char *const names[CASES] = {
    "factor analysis",            "probabilistic PCA",   "sparse Bayesian learning", "sparse Bayesian learning",
    "Bayesian linear regression", "neural linear model", "neural linear model"};

enum { POINTS = 8, INPUTS = 2, HIDDEN = 4, FEATURES = 3 };

typedef struct {
    which kind;
    pu_model model;
    pu_op dictionary;
    pu_fourier fourier;
    pu_real *X, *y, *theta;
    unsigned char *mask;
    pu_int M, D, N;
    pu_data data;
    pu_workspace ws;
} problem;

/* Makes the model into p->model, whose memory is set already. */
static pu_status make_model(problem *p, pu_report *report)
{
    switch (p->kind) {
    case FACTORS: return pu_model_factors(&p->model, p->M, p->D, report);
    case PPCA: return pu_model_ppca(&p->model, p->M, p->D, report);
    case SPARSE:
    case SPARSE_FOURIER: return pu_model_sparse(&p->model, &p->dictionary, report);
    case REGRESSION: return pu_model_regression(&p->model, &p->dictionary, report);
    case NEURAL: return pu_model_neural(&p->model, POINTS, INPUTS, p->X, HIDDEN, 0, report);
    default: return pu_model_neural(&p->model, POINTS, INPUTS, p->X, HIDDEN, FEATURES, report);
    }
}

/* Everything of a problem but its model: sizes, dictionary or inputs, data with about a quarter missing, a theta. */
static void new_problem(problem *p, which kind)
{
    static const pu_int sizes[CASES][3] = {{6, 3, 4}, {5, 2, 4}, {7, 5, 3}, {12, 6, 2}, {8, 4, 2}, {POINTS, HIDDEN, 2},
                                           {POINTS, FEATURES, 2}}; /* M, D, N */
    const uint64_t seed = 100 * (uint64_t)kind;
    size_t bytes = 0;
    pu_int i;
    memset(p, 0, sizeof *p);
    p->kind = kind;
    p->M = sizes[kind][0], p->D = sizes[kind][1], p->N = sizes[kind][2];
    if (kind == SPARSE || kind == REGRESSION) p->dictionary = pu_op_dense(p->M, p->D, tc_normal(seed + 1, p->M * p->D));
    if (kind == SPARSE_FOURIER) {
        if (pu_fourier_bytes(2, 3, &bytes) || pu_fourier_init(&p->fourier, 2, 3, tc_bytes(bytes), bytes)) exit(2);
        p->dictionary = pu_op_fourier(&p->fourier);
    }
    p->X = tc_normal(seed + 2, POINTS * INPUTS);
    p->y = tc_normal(seed + 3, p->N * p->M);
    p->mask = (unsigned char *)tc_bytes((size_t)(p->N * p->M));
    for (i = 0; i < p->N * p->M; i++) {
        p->mask[i] = tc_hash(seed + 1000 + (uint64_t)i) % 4 != 0;
        if (!p->mask[i]) p->y[i] = PU_R(NAN); /* never to be read */
    }
    p->data = pu_data_masked(p->N, p->M, p->y, p->mask);
    p->theta = tc_normal(seed + 4, 64);
    for (i = 0; i < 64; i++) p->theta[i] *= PU_R(0.5);
    p->ws = tc_workspace();
    p->model.memory = tc_workspace();
}

static void make(problem *p, which kind)
{
    pu_report report;
    char text[200];
    new_problem(p, kind);
    if (make_model(p, &report) != PU_OK || p->model.params > 64) {
        fprintf(stderr, "test_models: %s\n", pu_explain(&report, text, sizeof text));
        exit(2);
    }
    tc_set_case("%s, %d", names[kind], (int)kind);
}

static pu_options exact_options(pu_engine engine)
{
    pu_options o;
    memset(&o, 0, sizeof o);
    o.kind = PU_EXACT, o.engine = engine;
    return o;
}

/* ---- parameters ------------------------------------------------------------------------------- */

TEST descriptions(void)
{
    static const struct {
        which kind;
        pu_int i;
        const char *name;
        pu_scale scale;
    } want[] = {
        {FACTORS, 0, "Phi[0,0]", PU_SCALE_FREE},       {FACTORS, 17, "Phi[5,2]", PU_SCALE_FREE},
        {FACTORS, 18, "eta[0]", PU_SCALE_FREE},        {FACTORS, 29, "psi[5]", PU_SCALE_LOG},
        {PPCA, 3, "Phi[1,1]", PU_SCALE_FREE},          {PPCA, 14, "eta[4]", PU_SCALE_FREE},
        {PPCA, 15, "beta", PU_SCALE_LOG},              {SPARSE, 4, "alpha[4]", PU_SCALE_LOG},
        {SPARSE, 5, "beta", PU_SCALE_LOG},             {SPARSE_FOURIER, 6, "beta", PU_SCALE_LOG},
        {REGRESSION, 0, "alpha", PU_SCALE_LOG},        {REGRESSION, 1, "beta", PU_SCALE_LOG},
        {NEURAL, 7, "W1[3,1]", PU_SCALE_FREE},         {NEURAL, 11, "b1[3]", PU_SCALE_FREE},
        {NEURAL, 12, "alpha", PU_SCALE_LOG},           {NEURAL, 13, "beta", PU_SCALE_LOG},
        {NEURAL_FEATURES, 23, "W2[2,3]", PU_SCALE_FREE}, {NEURAL_FEATURES, 26, "b2[2]", PU_SCALE_FREE},
        {NEURAL_FEATURES, 28, "beta", PU_SCALE_LOG},
    };
    static const pu_int params[CASES] = {30, 16, 6, 7, 2, 14, 29};
    problem p;
    pu_param param;
    size_t i;
    int k;
    pu_int j;
    for (i = 0; i < sizeof want / sizeof *want; i++) {
        make(&p, want[i].kind);
        TC_STATUS(pu_model_param(&p.model, want[i].i, &param), PU_OK);
        TC_ASSERT(strcmp(param.name, want[i].name) == 0);
        TC_ASSERT(param.scale == want[i].scale);
    }
    for (k = 0; k < CASES; k++) {
        make(&p, (which)k);
        TC_ASSERT(strcmp(p.model.name, names[k]) == 0);
        TC_ASSERT(p.model.params == params[k]);
        for (j = 0; j < p.model.params; j++) {
            double theta = (double)p.theta[j], x;
            TC_STATUS(pu_model_param(&p.model, j, &param), PU_OK);
            x = pu_param_natural(&param, theta);
            TC_ASSERT(x > param.lower && x < param.upper);
            TC_CLOSE(x, param.scale == PU_SCALE_LOG ? exp(theta) : theta, 0);
            /* log exp: the error of exp, relative, becomes absolute */
            TC_CLOSE(pu_param_theta(&param, x), theta, 4 * DBL_EPSILON);
        }
        TC_STATUS(pu_model_param(&p.model, -1, &param), PU_E_ARGUMENT);
        TC_STATUS(pu_model_param(&p.model, p.model.params, &param), PU_E_ARGUMENT);
        TC_STATUS(pu_model_param(&p.model, 0, NULL), PU_E_NULL);
    }
    TC_STATUS(pu_model_param(NULL, 0, &param), PU_E_NULL);
    param.scale = PU_SCALE_ATANH;
    PU_CHECK_CLOSE(pu_param_natural(&param, 0.3), tanh(0.3), 0);
    PU_CHECK_CLOSE(pu_param_theta(&param, tanh(0.3)), 0.3, 4 * DBL_EPSILON);
    PASS();
}

/* The canonical form, written out here once more from the definitions. */
TEST canonical_forms(void)
{
    const double eps = PU_TEST_EPS;
    problem p;
    pu_report report;
    pu_int i, j, l;
    make(&p, FACTORS);
    TC_STATUS(pu_model_set(&p.model, p.theta, &report), PU_OK);
    TC_ASSERT(p.model.lgm.Gamma == &p.model.Gamma && p.model.lgm.Phi == &p.model.Phi && !p.model.lgm.nu && !p.model.precond);
    TC_ASSERT(p.model.uses == (PU_USES_PHI | PU_USES_ETA | PU_USES_PSI));
    for (i = 0; i < 18; i++) TC_CLOSE(((const pu_real *)p.model.Phi.data)[i], p.theta[i], 0);
    for (i = 0; i < 6; i++) TC_CLOSE(p.model.lgm.eta[i], p.theta[18 + i], 0);
    for (i = 0; i < 6; i++) PU_CHECK_REL(p.model.lgm.psi[i], exp((double)p.theta[24 + i]), 2 * eps);
    make(&p, PPCA);
    TC_STATUS(pu_model_set(&p.model, p.theta, &report), PU_OK);
    for (i = 0; i < 5; i++) PU_CHECK_REL(p.model.lgm.psi[i], exp((double)p.theta[15]), 2 * eps);
    make(&p, SPARSE);
    TC_STATUS(pu_model_set(&p.model, p.theta, &report), PU_OK);
    TC_ASSERT(p.model.lgm.Phi == &p.dictionary);
    for (j = 0; j < 5; j++) {
        double norm = 0, alpha = exp((double)p.theta[j]), beta = exp((double)p.theta[5]);
        for (i = 0; i < 7; i++) norm += pow((double)((const pu_real *)p.dictionary.data)[i * 5 + j], 2);
        PU_CHECK_REL(((const pu_real *)p.model.Gamma.data)[j], alpha, 2 * eps);
        PU_CHECK_REL(p.model.precond[j], 1 / (alpha + beta * norm), 16 * eps); /* positive terms: each rounding once */
    }
    make(&p, NEURAL_FEATURES);
    TC_STATUS(pu_model_set(&p.model, p.theta, &report), PU_OK);
    for (i = 0; i < POINTS; i++)
        for (j = 0; j < FEATURES; j++) {
            double sum = (double)p.theta[24 + j], size = fabs(sum);
            for (l = 0; l < HIDDEN; l++) {
                double a = (double)p.theta[8 + l] + (double)p.theta[2 * l] * (double)p.X[2 * i] +
                           (double)p.theta[2 * l + 1] * (double)p.X[2 * i + 1];
                double term = (double)p.theta[12 + j * HIDDEN + l] * tanh(a);
                sum += term, size += fabs(term);
            }
            TC_CLOSE(((const pu_real *)p.model.Phi.data)[i * FEATURES + j], sum, 8 * eps * size);
        }
    PASS();
}

/* ---- gradients -------------------------------------------------------------------------------- */

/* NLL at theta with entry i moved by `by`. The distance that was really moved, after rounding, comes back in *moved. */
static double moved_nll(problem *p, pu_int i, double by, double *moved)
{
    const pu_options o = exact_options(PU_DENSE);
    const pu_real keep = p->theta[i];
    double nll = NAN;
    p->theta[i] = (pu_real)((double)keep + by);
    *moved = (double)p->theta[i] - (double)keep;
    if (pu_model_nll(&p->model, p->theta, &p->data, &o, &p->ws, &nll, NULL, NULL) != PU_OK) nll = NAN;
    p->theta[i] = keep;
    return nll;
}

/* Fisher's identity: the exact gradient is that of the NLL. Differences by the six-point rule, whose own error is
   h^6 f^(7) / 140. Seventh derivatives reach 4e6 here (features of the last case); at these h that is below a tenth of what
   is allowed, ten times the rounding of the values over h. */
TEST fisher(void)
{
    static const double weight[3] = {45.0 / 60, -9.0 / 60, 1.0 / 60};
    const double h = PU_TEST_PICK(0.002, 0.03);
    int k, s;
    for (k = 0; k < CASES; k++) {
        const pu_options o = exact_options(PU_DENSE);
        pu_real grad[64];
        pu_report report;
        problem p;
        pu_int i;
        make(&p, (which)k);
        TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, &o, &p.ws, grad, NULL, &report), PU_OK);
        for (i = 0; i < p.model.params; i++) {
            double slope = 0, size = fabs(report.nll) + fabs(report.c), up, down;
            for (s = 0; s < 3; s++) {
                double high = moved_nll(&p, i, (s + 1) * h, &up), low = moved_nll(&p, i, -(s + 1) * h, &down);
                /* entries are rounded, so that h is not quite h: as far as it matters, that is a factor */
                slope += weight[s] * (high - low) * (2 * (s + 1) / (up - down));
            }
            TC_CLOSE(grad[i], slope, 10 * PU_TEST_EPS * size / h);
        }
    }
    PASS();
}

/* The two direct engines, and the converged network gradient against Monte Carlo: the same sums in another order. A has a
   condition number below 100 in all these problems, and its solutions carry eps times that. */
TEST engines_agree(void)
{
    int k;
    for (k = 0; k < CASES; k++) {
        pu_options dense = exact_options(PU_DENSE), dual = exact_options(PU_DUAL), mc, network;
        pu_real a[64], b[64];
        pu_report ra, rb;
        problem p;
        make(&p, (which)k);
        TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, &dense, &p.ws, a, NULL, &ra), PU_OK);
        TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, &dual, &p.ws, b, NULL, &rb), PU_OK);
        TC_ASSERT(ra.engine == PU_DENSE && rb.engine == PU_DUAL);
        GREATEST_ASSERTm(tc_say(pu_test_message),
                         pu_test_vector_close("dual", (size_t)p.model.params, b, a, 100 * PU_TEST_EPS));
        TC_CLOSE(rb.nll, ra.nll, 100 * PU_TEST_EPS * (fabs(ra.nll) + fabs(ra.c)));
        memset(&mc, 0, sizeof mc);
        mc.samples = 3, mc.kind = PU_MONTE_CARLO, mc.engine = PU_DENSE;
        memset(&network, 0, sizeof network);
        network.samples = 3, network.solve.iterations = p.D, network.solve.adjoint = PU_ADJOINT_REORTHOGONAL;
        TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, &mc, &p.ws, a, NULL, &ra), PU_OK);
        TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, &network, &p.ws, b, NULL, &rb), PU_OK);
        GREATEST_ASSERTm(tc_say(pu_test_message),
                         pu_test_vector_close("network", (size_t)p.model.params, b, a, 100 * PU_TEST_EPS));
    }
    PASS();
}

/* Mean over 1,000 sets of probes against the exact gradient, in units of its standard error. Under the hypothesis the z are
   standard normal: the chance that one of about a hundred exceeds 4.5 is below 1e-3, and their mean square is 1 with a
   standard deviation of sqrt(2 / n), n the number of independent ones. Components of a model are correlated; with n = 20 of
   the hundred, three standard deviations are 0.95. The draws are fixed by seed and step, so the outcome is too.
   The standard errors that came with the gradients: the mean of their squares estimates the variance, and so does the
   spread of the 1,000. Components are sums of squares of normals, of kurtosis up to 15 (one square), so each of the two is good
   to sqrt(14 / 1000) = 12 % or better, their ratio to 17 %, three times which is allowed; their mean over components
   to far less. */
TEST unbiased(void)
{
    enum { SETS = 1000 };
    double squares = 0, ratios = 0;
    int k, count = 0, still = 0;
    for (k = 0; k < CASES; k++) {
        pu_options exact = exact_options(PU_DENSE), o;
        double sum[64] = {0}, square[64] = {0}, se2[64] = {0};
        pu_real grad[64], want[64], one_se[64];
        problem p;
        pu_int i;
        make(&p, (which)k);
        TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, &exact, &p.ws, want, NULL, NULL), PU_OK);
        memset(&o, 0, sizeof o);
        o.kind = PU_MONTE_CARLO, o.samples = 4, o.seed = 12, o.threads = 1;
        for (o.step = 0; o.step < SETS; o.step++) {
            TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, &o, &p.ws, grad, one_se, NULL), PU_OK);
            for (i = 0; i < p.model.params; i++) {
                const double off = (double)grad[i] - (double)want[i];
                sum[i] += off / SETS, square[i] += off * off / SETS;
                se2[i] += (double)one_se[i] * (double)one_se[i] / SETS;
            }
        }
        for (i = 0; i < p.model.params; i++) {
            const double se = sqrt((square[i] - sum[i] * sum[i]) / (SETS - 1));
            const double rounding = 100 * PU_TEST_EPS * (fabs((double)want[i]) + 1); /* as in engines_agree */
            if (sqrt(square[i]) <= rounding) { /* no probe enters: eta */
                still++;
                TC_ASSERT(se2[i] == 0);
                continue;
            }
            TC_ASSERT(se > 0);
            TC_CLOSE(sum[i] / se, 0, 4.5);
            TC_CLOSE(se2[i] / (SETS * se * se), 1, 0.5);
            squares += sum[i] * sum[i] / (se * se), count++;
            ratios += se2[i] / (SETS * se * se);
        }
    }
    ASSERT_EQ_FMT(11, still, "%d"); /* eta of the two factor models */
    PU_CHECK_CLOSE(squares / count, 1, 0.95);
    PU_CHECK_CLOSE(ratios / count, 1, 0.05);
    PASS();
}

/* Where theta is the canonical parameter, or its logarithm, the standard errors are those of pu_gradient. None without
   probes; groups as asked for; one probe is refused. */
TEST standard_errors(void)
{
    pu_real grad[64], se[64], Phi[18], psi[6], se_Phi[18], se_psi[6];
    pu_options exact = exact_options(PU_DENSE), o;
    pu_gradient_result out;
    pu_report report;
    problem p;
    pu_int i;
    make(&p, FACTORS);
    memset(&o, 0, sizeof o);
    memset(&out, 0, sizeof out);
    out.Phi = Phi, out.psi = psi, out.se_Phi = se_Phi, out.se_psi = se_psi;
    o.samples = 7, o.groups = 3;
    TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, &o, &p.ws, grad, se, &report), PU_OK);
    /* two degrees of freedom, and what skewness adds */
    TC_ASSERT(report.groups == 3 && report.se_95 > 4.25 && report.se_95 < 4.3 + 15.3 / 7 + 45.0 / 49);
    TC_STATUS(pu_gradient(&p.model.lgm, &p.data, &o, &p.ws, &out, NULL), PU_OK);
    /* a replicate is rounded once, relative to the gradient, before the mean is taken away again */
    for (i = 0; i < 18; i++) TC_CLOSE(se[i], se_Phi[i], 8 * PU_TEST_EPS * (fabs((double)Phi[i]) + (double)se_Phi[i]));
    for (i = 0; i < 6; i++) TC_ASSERT(se[18 + i] == PU_R(0));
    for (i = 0; i < 6; i++)
        TC_CLOSE(se[24 + i], se_psi[i] * p.model.lgm.psi[i],
                 8 * PU_TEST_EPS * (double)p.model.lgm.psi[i] * (fabs((double)psi[i]) + (double)se_psi[i]));
    TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, &exact, &p.ws, grad, se, &report), PU_OK);
    for (i = 0; i < 30; i++) TC_ASSERT(se[i] == PU_R(0));
    tc_fill(64, grad, PU_R(7)), tc_fill(64, se, PU_R(7));
    o.samples = 1, o.groups = 0;
    TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, &o, &p.ws, grad, se, &report), PU_E_ARGUMENT);
    o.samples = 4, o.groups = 5;
    TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, &o, &p.ws, grad, se, &report), PU_E_ARGUMENT);
    for (i = 0; i < 64; i++) TC_ASSERT(grad[i] == PU_R(7) && se[i] == PU_R(7));
    PASS();
}

/* K chosen by the call: replicates are those of the K that was run, not of the largest that might have been. */
TEST standard_errors_of_a_tuned_run(void)
{
    pu_real grad[3][64], se[3][64];
    pu_options o;
    pu_report report;
    problem p;
    size_t bytes;
    make(&p, FACTORS);
    memset(&o, 0, sizeof o);
    o.samples = o.solve.iterations = PU_CHOOSE;
    o.error = 0.9; /* few probes */
    TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, &o, &p.ws, grad[0], se[0], &report), PU_OK);
    TC_ASSERT(report.samples >= 2 && report.samples < 16 && report.groups == report.samples);
    TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, &o, &p.ws, grad[1], se[1], NULL), PU_OK);
    o.samples = report.samples, o.solve.iterations = report.iterations, o.error = 0;
    TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, &o, &p.ws, grad[2], se[2], NULL), PU_OK);
    bytes = (size_t)p.model.params * sizeof(pu_real);
    TC_ASSERT(memcmp(se[0], se[1], bytes) == 0 && memcmp(se[0], se[2], bytes) == 0);
    TC_ASSERT(memcmp(grad[0], grad[1], bytes) == 0 && memcmp(grad[0], grad[2], bytes) == 0);
    PASS();
}

/* Targets that share the features: the mean over both is the mean of each alone. */
TEST targets_share_features(void)
{
    const pu_options o = exact_options(PU_DENSE);
    pu_real both[64], one[2][64];
    pu_report report;
    double nll[2], mean;
    problem p;
    pu_data data;
    pu_int i, n;
    make(&p, NEURAL_FEATURES);
    TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, &o, &p.ws, both, NULL, &report), PU_OK);
    mean = report.nll;
    for (n = 0; n < 2; n++) {
        data = pu_data_masked(1, POINTS, p.y + n * POINTS, p.mask + n * POINTS);
        TC_STATUS(pu_model_gradient(&p.model, p.theta, &data, &o, &p.ws, one[n], NULL, &report), PU_OK);
        nll[n] = report.nll;
    }
    TC_CLOSE(mean, (nll[0] + nll[1]) / 2, 16 * PU_TEST_EPS * (fabs(nll[0]) + fabs(nll[1])));
    for (i = 0; i < p.model.params; i++)
        TC_CLOSE(both[i], ((double)one[0][i] + (double)one[1][i]) / 2,
                 16 * PU_TEST_EPS * (fabs((double)one[0][i]) + fabs((double)one[1][i])));
    PASS();
}

/* ---- the preconditioner ------------------------------------------------------------------------ */

/* PCG uses the model's m; the same numbers given by hand, once, per datum, or farther apart, give the same bits. */
TEST preconditioner(void)
{
    enum { FAR = 9 };
    pu_real grad[4][64], *m;
    pu_options o;
    pu_report report;
    problem p;
    pu_int i, n;
    int v;
    make(&p, SPARSE);
    memset(&o, 0, sizeof o);
    o.samples = 2, o.solve.iterations = 3, o.solve.solver = PU_PCG, o.constant_precond = 1;
    TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, &o, &p.ws, grad[0], NULL, &report), PU_OK);
    m = tc_reals((p.N - 1) * FAR + p.D);
    for (v = 1; v < 4; v++) {
        const pu_int stride = v == 1 ? 0 : v == 2 ? p.D : FAR;
        tc_fill((p.N - 1) * FAR + p.D, m, PU_R(NAN));
        for (n = 0; n < p.N; n++)
            for (i = 0; i < p.D; i++) m[n * stride + i] = p.model.precond[i];
        o.solve.precond = m, o.solve.precond_stride = v == 1 ? PU_ZERO : v == 2 ? 0 : FAR;
        TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, &o, &p.ws, grad[v], NULL, &report), PU_OK);
        TC_ASSERT(memcmp(grad[0], grad[v], (size_t)p.model.params * sizeof(pu_real)) == 0);
    }
    o.solve.precond = NULL, o.solve.precond_stride = 0, p.model.precond = NULL; /* 1/diag(A) of each datum: another solver */
    TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, &o, &p.ws, grad[1], NULL, &report), PU_OK);
    TC_ASSERT(memcmp(grad[0], grad[1], (size_t)p.model.params * sizeof(pu_real)) != 0);
    o.solve.precond = m;
    for (v = 0; v < 3; v++) {
        static const pu_int bad[3] = {4, -5, PU_CHOOSE}; /* D = 5 */
        o.solve.precond_stride = bad[v];
        TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, &o, &p.ws, grad[1], NULL, &report), PU_E_ARGUMENT);
        TC_ASSERT(tc_named(report.where.what, "options.solve.precond_stride"));
    }
    PASS();
}

/* ---- starts ------------------------------------------------------------------------------------ */

/* Data far from unit scale: the start must fit them far better than theta = 0 does, be the same for the same seed, and
   differ for another where it has random parts. */
TEST starts(void)
{
    const pu_options o = exact_options(PU_DENSE);
    pu_real start[3][64], zero[64] = {0};
    pu_report report;
    problem p;
    double good, bad;
    pu_int i;
    int k;
    for (k = 0; k < CASES; k++) {
        const int factors = k == FACTORS || k == PPCA, random = factors || k == NEURAL || k == NEURAL_FEATURES;
        const size_t bytes = sizeof start[0];
        make(&p, (which)k);
        for (i = 0; i < p.N * p.M; i++) p.y[i] = PU_R(10) * p.y[i] + (factors ? PU_R(50) : PU_R(0));
        memset(start, 0, sizeof start);
        TC_STATUS(pu_model_start(&p.model, &p.data, 3, start[0], &report), PU_OK);
        TC_STATUS(pu_model_start(&p.model, &p.data, 3, start[1], NULL), PU_OK);
        TC_STATUS(pu_model_start(&p.model, &p.data, 4, start[2], &report), PU_OK);
        TC_ASSERT(memcmp(start[0], start[1], bytes) == 0);
        TC_ASSERT((memcmp(start[0], start[2], bytes) != 0) == random);
        TC_STATUS(pu_model_nll(&p.model, start[0], &p.data, &o, &p.ws, &good, NULL, &report), PU_OK);
        TC_STATUS(pu_model_nll(&p.model, zero, &p.data, &o, &p.ws, &bad, NULL, &report), PU_OK);
        TC_ASSERT(good < 0.5 * bad); /* y^2 of 100, in units of a variance of 1 or, SBL and BLR, a few */
    }
    PASS();
}

/* Factor models: means of the observed entries, and a total variance that is theirs. */
TEST factor_start_has_the_moments(void)
{
    pu_real theta[64];
    problem p;
    pu_int m, n, d;
    make(&p, FACTORS);
    for (n = 0; n < p.N * p.M; n++) { /* every column misses one of its four values, or none */
        p.y[n] = (pu_real)(tc_hash((uint64_t)n) % 1000) / 100;
        p.mask[n] = n % 5 != 0;
    }
    TC_STATUS(pu_model_start(&p.model, &p.data, 3, theta, NULL), PU_OK);
    for (m = 0; m < p.M; m++) {
        double mean = 0, square = 0, count = 0, loadings = 0, noise = exp(-(double)theta[24 + m]);
        for (n = 0; n < p.N; n++)
            if (p.mask[n * p.M + m]) mean += (double)p.y[n * p.M + m], count += 1;
        mean /= count;
        for (n = 0; n < p.N; n++)
            if (p.mask[n * p.M + m]) square += pow((double)p.y[n * p.M + m] - mean, 2) / count;
        TC_ASSERT(count >= 3);
        TC_CLOSE(theta[18 + m], mean, 16 * PU_TEST_EPS * 10); /* y up to 10 */
        PU_CHECK_REL(noise, 0.75 * square, 64 * PU_TEST_EPS);
        for (d = 0; d < 3; d++) loadings += pow((double)theta[3 * m + d], 2);
        TC_ASSERT(loadings > 0 && loadings < 4 * square); /* square / 4 times a chi^2 of 3, over 3 */
    }
    PASS();
}

/* A column that nobody has observed is taken for an average one, not for zero. */
TEST factor_start_of_an_empty_column(void)
{
    pu_real theta[64];
    problem p;
    double total = 0, count = 0;
    pu_int n;
    make(&p, FACTORS);
    for (n = 0; n < p.N * p.M; n++) {
        p.y[n] = (pu_real)(n % 7), p.mask[n] = n % p.M != 2;
        if (p.mask[n]) total += (double)p.y[n], count += 1;
    }
    TC_STATUS(pu_model_start(&p.model, &p.data, 3, theta, NULL), PU_OK);
    TC_CLOSE(theta[18 + 2], total / count, 4 * PU_TEST_EPS * 7);
    PASS();
}

/* Nothing observed, one value, all values equal: still a theta that can be set and has a likelihood. */
TEST starts_of_poor_data(void)
{
    const pu_options o = exact_options(PU_DENSE);
    pu_real theta[64];
    pu_report report;
    problem p;
    double nll;
    pu_int i;
    int k, poor;
    for (k = 0; k < CASES; k++)
        for (poor = 0; poor < 4; poor++) {
            make(&p, (which)k);
            for (i = 0; i < p.N * p.M; i++) {
                p.y[i] = poor == 3 ? PU_R(0) : PU_R(7);
                p.mask[i] = poor >= 2 || (poor == 1 && i == 0);
            }
            TC_STATUS(pu_model_start(&p.model, &p.data, 3, theta, &report), PU_OK);
            TC_STATUS(pu_model_nll(&p.model, theta, &p.data, &o, &p.ws, &nll, NULL, &report), PU_OK);
            TC_ASSERT(fabs(nll) < DBL_MAX);
        }
    PASS();
}

/* ---- memory ------------------------------------------------------------------------------------ */

TEST allocations(void)
{
    pu_real grad[64], se[64];
    problem p;
    int k;
    for (k = 0; k < CASES; k++) {
        make(&p, (which)k);
        TC_ASSERT(p.model.memory.allocations == 1);
        TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, NULL, &p.ws, grad, se, NULL), PU_OK);
        TC_ASSERT(p.ws.allocations == 1);
        TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, NULL, &p.ws, grad, se, NULL), PU_OK);
        TC_ASSERT(p.ws.allocations == 1 && p.model.memory.allocations == 1);
        pu_model_free(&p.model);
        TC_ASSERT(!p.model.memory.block && !p.model.set);
    }
    pu_model_free(NULL);
    PASS();
}

/* Blocks of exactly the size asked for, for the model and for the gradient; one byte less is refused. */
TEST exact_blocks(void)
{
    int k;
    for (k = 0; k < CASES; k++) {
        pu_real want[64], got[64], want_se[64], se[64];
        pu_report report;
        pu_workspace ws;
        problem p, q;
        size_t bytes = 0, model_bytes;
        make(&p, (which)k);
        TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, NULL, &p.ws, want, want_se, &report), PU_OK);
        new_problem(&q, (which)k);
        memset(&q.model, 0, sizeof q.model);
        pu_workspace_block(&q.model.memory, NULL, 0);
        TC_STATUS(make_model(&q, &report), PU_E_BLOCK);
        model_bytes = report.bytes;
        TC_ASSERT(model_bytes > 0 && !q.model.set);
        pu_workspace_block(&q.model.memory, tc_bytes(model_bytes - 1), model_bytes - 1);
        TC_STATUS(make_model(&q, &report), PU_E_BLOCK);
        pu_workspace_block(&q.model.memory, tc_bytes(model_bytes), model_bytes);
        TC_STATUS(make_model(&q, &report), PU_OK);
        TC_ASSERT(q.model.memory.allocations == 0);
        /* not set yet */
        TC_STATUS(pu_model_gradient_bytes(&q.model, &q.data, NULL, 1, &bytes, &report), PU_OK);
        TC_ASSERT(bytes > 0 && report.bytes == bytes);
        memset(&ws, 0, sizeof ws);
        pu_workspace_block(&ws, tc_bytes(bytes - 1), bytes - 1);
        TC_STATUS(pu_model_gradient(&q.model, q.theta, &q.data, NULL, &ws, got, se, &report), PU_E_BLOCK);
        TC_ASSERT(report.bytes == bytes);
        pu_workspace_block(&ws, tc_bytes(bytes), bytes);
        TC_STATUS(pu_model_gradient(&q.model, q.theta, &q.data, NULL, &ws, got, se, &report), PU_OK);
        TC_ASSERT(report.bytes == bytes);
        TC_ASSERT(memcmp(want, got, (size_t)p.model.params * sizeof(pu_real)) == 0);
        TC_ASSERT(memcmp(want_se, se, (size_t)p.model.params * sizeof(pu_real)) == 0);
        TC_STATUS(pu_model_gradient_bytes(&q.model, &q.data, NULL, 0, &model_bytes, &report), PU_OK);
        TC_ASSERT(model_bytes < bytes);
    }
    PASS();
}

static void *no_memory(size_t bytes, void *user)
{
    (void)bytes, (void)user;
    return NULL;
}

TEST no_memory_for_a_model(void)
{
    pu_report report;
    problem p;
    new_problem(&p, FACTORS);
    p.model.memory.allocator.alloc = no_memory;
    ASSERT_EQ(PU_E_MEMORY, make_model(&p, &report));
    ASSERT(report.bytes > 0 && p.model.set == NULL && p.model.memory.block == NULL);
    PASS();
}

/* ---- refusals ---------------------------------------------------------------------------------- */

static int says(const pu_report *report, pu_status status, const char *what, pu_int index)
{
    return report->status == status && tc_named(report->where.what, what) && report->where.index == index;
}

TEST constructors_refuse(void)
{
    const pu_int huge = PTRDIFF_MAX / 4;
    pu_real X[4] = {0, 1, PU_R(NAN), 3}, a[6] = {1, 2, 3, 4, 5, PU_R(INFINITY)};
    pu_op op = pu_op_dense(3, 2, a), none = pu_op_dense(3, 2, NULL), flat = pu_op_dense(0, 2, a);
    pu_model model, before;
    pu_report r;
    memset(&model, 0, sizeof model);
    before = model;
    ASSERT_EQ(PU_E_NULL, pu_model_factors(NULL, 3, 2, &r));
    ASSERT(says(&r, PU_E_NULL, "model", -1));
    ASSERT_EQ(PU_E_ARGUMENT, pu_model_factors(&model, 0, 2, &r));
    ASSERT(says(&r, PU_E_ARGUMENT, "M", -1));
    ASSERT_EQ(PU_E_ARGUMENT, pu_model_ppca(&model, 3, -2, &r));
    ASSERT(says(&r, PU_E_ARGUMENT, "D", -1));
    ASSERT_EQ(PU_E_OVERFLOW, pu_model_factors(&model, huge, huge, &r));
    ASSERT_EQ(PU_E_OVERFLOW, pu_model_factors(&model, huge, 3, NULL));
    ASSERT_EQ(PU_E_NULL, pu_model_sparse(&model, NULL, &r));
    ASSERT(says(&r, PU_E_NULL, "Phi", -1));
    ASSERT_EQ(PU_E_NONFINITE, pu_model_sparse(&model, &op, &r));
    ASSERT(says(&r, PU_E_NONFINITE, "Phi", 5));
    ASSERT_EQ(PU_E_NULL, pu_model_regression(&model, &none, &r));
    ASSERT_EQ(PU_E_ARGUMENT, pu_model_regression(&model, &flat, &r));
    ASSERT(says(&r, PU_E_ARGUMENT, "Phi.rows", -1));
    ASSERT_EQ(PU_E_NONFINITE, pu_model_neural(&model, 2, 2, X, 3, 0, &r));
    ASSERT(says(&r, PU_E_NONFINITE, "X", 2));
    ASSERT_EQ(PU_E_NULL, pu_model_neural(&model, 2, 2, NULL, 3, 0, &r));
    ASSERT_EQ(PU_E_ARGUMENT, pu_model_neural(&model, 0, 2, X, 3, 0, &r));
    ASSERT_EQ(PU_E_ARGUMENT, pu_model_neural(&model, 2, 0, X, 3, 0, &r));
    ASSERT_EQ(PU_E_ARGUMENT, pu_model_neural(&model, 2, 2, X, 0, 0, &r));
    ASSERT_EQ(PU_E_ARGUMENT, pu_model_neural(&model, 2, 2, X, 3, -1, &r));
    ASSERT(says(&r, PU_E_ARGUMENT, "features", -1));
    ASSERT_EQ(PU_E_OVERFLOW, pu_model_neural(&model, huge, 8, X, 3, 0, &r));
    ASSERT_EQ(PU_E_OVERFLOW, pu_model_neural(&model, 1, 2, X, huge, 3, &r));
    ASSERT(memcmp(&model, &before, sizeof model) == 0);
    PASS();
}

/* Every refusal leaves grad and se as they were; a theta that is refused leaves the canonical form. */
TEST calls_refuse(void)
{
    const pu_real most = PU_R(PU_TEST_PICK(1000, 100));
    pu_real grad[64], se[64], psi[16];
    pu_report r;
    size_t bytes = 77;
    double nll = 77;
    problem p;
    pu_data narrow;
    int k, v;
    for (k = 0; k < CASES; k++) {
        pu_int last;
        make(&p, (which)k);
        last = p.model.params - 1; /* on a log scale in all of them */
        tc_fill(64, grad, PU_R(7)), tc_fill(64, se, PU_R(7));
        TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, NULL, &p.ws, grad, NULL, &r), PU_OK);
        TC_ASSERT(grad[0] != PU_R(7) && grad[last + 1] == PU_R(7));
        memcpy(psi, p.model.lgm.psi, (size_t)p.M * sizeof(pu_real));
        tc_fill(64, grad, PU_R(7));
        for (v = 0; v < 4; v++) {
            static const pu_status want[4] = {PU_E_NONFINITE, PU_E_NONFINITE, PU_E_ARGUMENT, PU_E_ARGUMENT};
            const pu_real bad[4] = {PU_R(NAN), PU_R(-INFINITY), most, -most}, keep = p.theta[last];
            p.theta[last] = bad[v];
            TC_STATUS(pu_model_set(&p.model, p.theta, &r), want[v]);
            TC_ASSERT(says(&r, want[v], "theta", last));
            TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, NULL, &p.ws, grad, se, &r), want[v]);
            TC_ASSERT(says(&r, want[v], "theta", last));
            TC_STATUS(pu_model_nll(&p.model, p.theta, &p.data, NULL, &p.ws, &nll, NULL, &r), want[v]);
            p.theta[last] = keep;
            TC_ASSERT(memcmp(psi, p.model.lgm.psi, (size_t)p.M * sizeof(pu_real)) == 0);
        }
        narrow = pu_data_full(1, p.M + 1, p.y);
        TC_STATUS(pu_model_gradient(&p.model, p.theta, &narrow, NULL, &p.ws, grad, NULL, &r), PU_E_SIZE);
        TC_ASSERT(says(&r, PU_E_SIZE, "data.m", -1));
        TC_STATUS(pu_model_start(&p.model, &narrow, 1, grad, &r), PU_E_SIZE);
        TC_STATUS(pu_model_gradient(&p.model, p.theta, NULL, NULL, &p.ws, grad, NULL, &r), PU_E_NULL);
        TC_STATUS(pu_model_start(&p.model, NULL, 1, grad, &r), PU_E_NULL);
        TC_STATUS(pu_model_start(&p.model, &p.data, 1, NULL, &r), PU_E_NULL);
        TC_STATUS(pu_model_start(NULL, &p.data, 1, grad, &r), PU_E_NULL);
        TC_STATUS(pu_model_gradient(&p.model, NULL, &p.data, NULL, &p.ws, grad, NULL, &r), PU_E_NULL);
        TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, NULL, &p.ws, NULL, NULL, &r), PU_E_NULL);
        TC_STATUS(pu_model_gradient(NULL, p.theta, &p.data, NULL, &p.ws, grad, NULL, &r), PU_E_NULL);
        TC_STATUS(pu_model_gradient_bytes(NULL, &p.data, NULL, 0, &bytes, &r), PU_E_NULL);
        TC_STATUS(pu_model_gradient_bytes(&p.model, &p.data, NULL, 0, NULL, &r), PU_E_NULL);
        TC_STATUS(pu_model_gradient_bytes(&p.model, NULL, NULL, 0, &bytes, &r), PU_E_NULL);
        TC_STATUS(pu_model_set(NULL, p.theta, &r), PU_E_NULL);
        TC_STATUS(pu_model_set(&p.model, NULL, NULL), PU_E_NULL);
        TC_ASSERT(bytes == 77 && nll == 77);
        for (v = 0; v < 64; v++) TC_ASSERT(grad[v] == PU_R(7) && se[v] == PU_R(7));
    }
    PASS();
}

/* ---- a model that is not built in, and misbehaves ----------------------------------------------- */

typedef struct {
    pu_real Phi[2], psi[2];
    pu_status set, pull;
    pu_real factor; /* of the gradient */
} odd_state;

static pu_status odd_set(pu_model *model, const pu_real *theta, pu_int *index)
{
    odd_state *s = (odd_state *)model->data;
    if (s->set) *index = 1;
    s->Phi[0] = theta[0], s->Phi[1] = theta[1];
    model->lgm.psi = s->psi;
    return s->set;
}

static pu_status odd_pull(const pu_model *model, const pu_gradient_result *g, pu_real *grad)
{
    const odd_state *s = (const odd_state *)model->data;
    grad[0] = g->Phi[0], grad[1] = s->factor * g->Phi[1];
    return g->psi || g->Gamma || g->eta || g->nu ? PU_E_NULL : s->pull; /* only what it uses */
}

TEST own_model(void)
{
    odd_state s = {{0, 0}, {1, 2}, PU_OK, PU_OK, 1};
    pu_real y[4] = {1, -2, PU_R(0.5), 3}, theta[2] = {1, PU_R(-0.5)}, grad[2] = {7, 7}, direct[2], se[2] = {7, 7};
    pu_data data = pu_data_full(2, 2, y);
    pu_gradient_result out;
    pu_report r;
    pu_param param;
    pu_model m;
    size_t bytes = 0;
    memset(&m, 0, sizeof m);
    ASSERT_EQ(PU_E_NULL, pu_model_set(&m, theta, &r));
    ASSERT(says(&r, PU_E_NULL, "model.set", -1));
    m.set = odd_set, m.data = &s;
    ASSERT_EQ(PU_E_ARGUMENT, pu_model_set(&m, theta, &r));
    ASSERT(says(&r, PU_E_ARGUMENT, "model.params", -1));
    m.params = 2, m.uses = PU_USES_PHI;
    m.Gamma = pu_op_identity(1), m.Phi = pu_op_dense(2, 1, s.Phi);
    ASSERT_EQ(PU_E_NULL, pu_model_gradient_bytes(&m, &data, NULL, 0, &bytes, &r)); /* psi comes with set */
    ASSERT_EQ(PU_E_NULL, pu_model_gradient(&m, theta, &data, NULL, NULL, grad, NULL, &r));
    ASSERT(says(&r, PU_E_NULL, "model.grad", -1));
    m.grad = odd_pull;
    ASSERT_EQ(PU_OK, pu_model_gradient(&m, theta, &data, NULL, NULL, grad, NULL, &r));
    ASSERT(r.has_nll);
    memset(&out, 0, sizeof out);
    out.Phi = direct;
    ASSERT_EQ(PU_OK, pu_gradient(&m.lgm, &data, NULL, NULL, &out, NULL));
    ASSERT(memcmp(grad, direct, sizeof grad) == 0);
    ASSERT_EQ(PU_OK, pu_model_param(&m, 1, &param));
    ASSERT_STR_EQ("theta[1]", param.name);
    ASSERT(param.scale == PU_SCALE_FREE && param.lower < -DBL_MAX && param.upper > DBL_MAX);
    ASSERT_EQ(PU_E_UNSUPPORTED, pu_model_start(&m, &data, 1, grad, &r));

    grad[0] = grad[1] = 7;
    s.pull = PU_E_ARGUMENT;
    ASSERT_EQ(PU_E_OPERATOR, pu_model_gradient(&m, theta, &data, NULL, NULL, grad, se, &r));
    ASSERT(says(&r, PU_E_OPERATOR, "model.grad", -1));
    s.pull = PU_OK, s.factor = PU_R(INFINITY);
    ASSERT_EQ(PU_NONFINITE, pu_model_gradient(&m, theta, &data, NULL, NULL, grad, NULL, &r));
    ASSERT(says(&r, PU_NONFINITE, "gradient of theta", 1));
    s.set = PU_E_NOT_DEFINITE;
    ASSERT_EQ(PU_E_NOT_DEFINITE, pu_model_gradient(&m, theta, &data, NULL, NULL, grad, NULL, &r));
    ASSERT(says(&r, PU_E_NOT_DEFINITE, "theta", 1));
    s.set = PU_CAP; /* not a refusal: nothing would be known about the canonical form */
    ASSERT_EQ(PU_E_OPERATOR, pu_model_set(&m, theta, &r));
    ASSERT(grad[0] == PU_R(7) && grad[1] == PU_R(7) && se[0] == PU_R(7));
    PASS();
}

/* The gradient is the total derivative of report.network, m = 1/(alpha + beta) included; with options.constant_precond it is
   not, and at two steps that is another number. */
TEST network_gradient_through_the_preconditioner(void)
{
    static const which kinds[2] = {SPARSE, SPARSE_FOURIER};
    static const double at[6] = {-3, -2, -1, 1, 2, 3}, weight[6] = {-1.0 / 60, 0.15, -0.75, 0.75, -0.15, 1.0 / 60};
    const double h = PU_TEST_PICK(1e-2, 5e-2);
    int k, j;
    for (k = 0; k < 2; k++) {
        problem p;
        pu_options o;
        pu_report report;
        pu_real grad[64], constant[64], *some = tc_reals(64);
        double size, apart = 0;
        pu_int i;
        make(&p, kinds[k]);
        memset(&o, 0, sizeof o);
        o.samples = 3, o.solve.solver = PU_PCG, o.solve.iterations = 2, o.constant_precond = 1;
        o.delta = tc_normal(9, p.N * 3 * p.D); /* drawn ones would move with theta */
        TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, &o, &p.ws, constant, NULL, &report), PU_OK);
        o.constant_precond = 0;
        TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, &o, &p.ws, grad, NULL, &report), PU_OK);
        size = fabs(report.network) + 2 * fabs(report.c);
        for (i = 0; i < p.model.params; i++) {
            double want = 0;
            for (j = 0; j < 6; j++) {
                memcpy(some, p.theta, 64 * sizeof *some);
                some[i] = (pu_real)((double)some[i] + h * at[j]);
                TC_STATUS(pu_model_gradient(&p.model, some, &p.data, &o, &p.ws, some + 40, NULL, &report), PU_OK);
                want += weight[j] * report.network / h;
            }
            /* rounding 10 eps |value| / h, and the rule's own error, h^6 times a seventh derivative of up to 1e4 */
            snprintf(pu_test_message, sizeof pu_test_message, "theta[%d]: %.12g, not %.12g", (int)i, (double)grad[i], want);
            if (!(fabs((double)grad[i] - want) <= 10 * PU_TEST_EPS * size / h + 1e4 * pow(h, 6) / 140))
                FAILm(tc_say(pu_test_message));
            apart = fmax(apart, fabs((double)grad[i] - (double)constant[i]));
        }
        TC_ASSERT(apart > 1e-3);
        tc_release(NULL);
    }
    PASS();
}

/* Asked for the network gradient, auto may find direct engines cheaper for all data: then nothing goes through m, and nothing
   is refused. */
TEST preconditioner_and_auto(void)
{
    pu_real grad[2][64];
    pu_options o;
    pu_report report;
    problem p;
    make(&p, SPARSE_FOURIER);
    memset(&o, 0, sizeof o);
    o.samples = 2, o.solve.iterations = 3, o.solve.solver = PU_PCG, o.engine = PU_ENGINE_AUTO;
    TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, &o, &p.ws, grad[0], NULL, &report), PU_OK);
    TC_ASSERT(report.served[PU_ITERATIVE] == 0);
    o.constant_precond = 1;
    TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, &o, &p.ws, grad[1], NULL, &report), PU_OK);
    TC_ASSERT(memcmp(grad[0], grad[1], (size_t)p.model.params * sizeof(pu_real)) == 0);
    PASS();
}

/* ---- predictions with the options of a fit ------------------------------------------------------ */

/* A dictionary without gram_diag: 1/diag(A) is not to be had, so that PCG lives on the model's own preconditioner. */
static void make_without_diagonal(problem *p)
{
    pu_report report;
    new_problem(p, SPARSE);
    p->dictionary.form = PU_FORM_GENERAL, p->dictionary.gram_diag = NULL;
    if (make_model(p, &report) != PU_OK) exit(2);
}

/* Whatever a fit takes for its gradients, a prediction takes as it is, and its mean is that of the dense engine. 30 and more
   steps are many times D, so that CG has converged to eps times the condition of A, which is below 100 here. */
TEST predictions_take_the_options_of_a_fit(void)
{
    static const pu_engine engines[] = {PU_ENGINE_DEFAULT, PU_ITERATIVE, PU_ENGINE_AUTO, PU_DENSE};
    static const pu_kind kinds[] = {PU_NETWORK, PU_OUTPUT, PU_MONTE_CARLO, PU_EXACT};
    const double tolerance = 3000 * PU_TEST_EPS;
    pu_options dense = exact_options(PU_DENSE);
    pu_posterior_result z;
    pu_predict_result want, y;
    pu_report report;
    problem p;
    pu_int i;
    int e, k, choose, solver, run = 0;
    make_without_diagonal(&p);
    memset(&want, 0, sizeof want), memset(&y, 0, sizeof y), memset(&z, 0, sizeof z);
    want.mean = tc_reals(p.N * p.M), y.mean = tc_reals(p.N * p.M), y.variance = tc_reals(p.N * p.M);
    z.mean = tc_reals(p.N * p.D), z.variance = tc_reals(p.N * p.D);
    TC_STATUS(pu_model_predict(&p.model, p.theta, &p.data, &dense, &p.ws, &want, &report), PU_OK);
    for (e = 0; e < 4; e++)
        for (k = 0; k < 4; k++)
            for (choose = 0; choose < 2; choose++)
                for (solver = 0; solver < 2; solver++) {
                    pu_real theta[64];
                    pu_fit_options fit;
                    pu_fit_report told;
                    memset(&fit, 0, sizeof fit);
                    fit.steps = 1, fit.optimizer = PU_SGD, fit.rate = 1e-6;
                    fit.gradient.engine = engines[e], fit.gradient.kind = kinds[k];
                    fit.gradient.solve.solver = solver ? PU_PCG : PU_CG;
                    if (choose) fit.gradient.samples = fit.gradient.solve.iterations = PU_CHOOSE;
                    memcpy(theta, p.theta, (size_t)p.model.params * sizeof(pu_real));
                    tc_set_case("engine %d, kind %d, choose %d, solver %d", e, k, choose, solver);
                    if (pu_fit(&p.model, &p.data, &fit, NULL, theta, &told) != PU_OK) continue; /* not of a fit */
                    run++;
                    TC_STATUS(pu_model_predict(&p.model, p.theta, &p.data, &fit.gradient, &p.ws, &y, &report), PU_OK);
                    for (i = 0; i < p.N * p.M; i++) {
                        TC_CLOSE(y.mean[i], want.mean[i], tolerance * (1 + fabs((double)want.mean[i])));
                        TC_ASSERT(y.variance[i] > 0);
                    }
                    TC_ASSERT(y.exact || y.probes == (choose ? 100 : 10));
                    TC_STATUS(pu_model_posterior(&p.model, p.theta, &p.data, &fit.gradient, &p.ws, &z, &report), PU_OK);
                    for (i = 0; i < p.N * p.D; i++) TC_ASSERT(z.variance[i] > 0);
                }
    TC_ASSERT(run >= 40);
    PASS();
}

/* Draws of the exact kind: of N(mu, Sigma), and the same as those of Monte Carlo with that engine, up to the rounding of two
   routes to the same solutions. */
TEST exact_posteriors_have_draws(void)
{
    enum { DRAWS = 7 };
    static const pu_engine engines[] = {PU_DENSE, PU_DUAL, PU_ENGINE_DEFAULT};
    pu_options o;
    pu_posterior_result a, b;
    pu_report report;
    problem p;
    pu_int i;
    int e;
    make(&p, SPARSE);
    memset(&a, 0, sizeof a), memset(&b, 0, sizeof b);
    a.mean = tc_reals(p.N * p.D), a.variance = tc_reals(p.N * p.D), a.samples = tc_reals(p.N * DRAWS * p.D);
    b.samples = tc_reals(p.N * DRAWS * p.D);
    o = exact_options(PU_DENSE), o.kind = PU_MONTE_CARLO, o.samples = DRAWS;
    TC_STATUS(pu_model_posterior(&p.model, p.theta, &p.data, &o, &p.ws, &b, &report), PU_OK);
    for (e = 0; e < 3; e++) {
        o = exact_options(engines[e]), o.samples = DRAWS;
        TC_STATUS(pu_model_posterior(&p.model, p.theta, &p.data, &o, &p.ws, &a, &report), PU_OK);
        TC_ASSERT(a.exact && a.probes == DRAWS);
        for (i = 0; i < p.N * DRAWS * p.D; i++)
            TC_CLOSE(a.samples[i], b.samples[i], 3000 * PU_TEST_EPS * (1 + fabs((double)b.samples[i])));
    }
    /* an array whose size nobody knows */
    for (e = 0; e < 2; e++) {
        o = exact_options(PU_DENSE), o.samples = e ? PU_CHOOSE : PU_ZERO;
        TC_STATUS(pu_model_posterior(&p.model, p.theta, &p.data, &o, &p.ws, &a, &report), PU_E_ARGUMENT);
        TC_ASSERT(tc_named(report.where.what, "out.samples"));
    }
    o = exact_options(PU_KALMAN), o.samples = DRAWS;
    TC_STATUS(pu_model_posterior(&p.model, p.theta, &p.data, &o, &p.ws, &a, &report), PU_E_ARGUMENT);
    PASS();
}

/* set, then the call of the canonical form: the same bits; a theta that is refused is named, and nothing is written. */
TEST model_calls_set_theta(void)
{
    pu_predict_result y;
    pu_posterior_result z;
    pu_report report;
    problem p;
    pu_real *one, *two;
    make(&p, FACTORS);
    one = tc_reals(3 * p.M), two = tc_reals(3 * p.M);
    TC_STATUS(pu_model_simulate(&p.model, p.theta, 3, 5, NULL, NULL, one, &report), PU_OK);
    TC_STATUS(pu_simulate(&p.model.lgm, 3, 5, NULL, NULL, two, &report), PU_OK);
    TC_ASSERT(memcmp(one, two, (size_t)(3 * p.M) * sizeof(pu_real)) == 0);
    memset(&y, 0, sizeof y), memset(&z, 0, sizeof z);
    p.theta[2] = PU_R(NAN), y.mean = one, z.mean = one;
    TC_STATUS(pu_model_simulate(&p.model, p.theta, 3, 5, NULL, NULL, one, &report), PU_E_NONFINITE);
    TC_STATUS(pu_model_predict(&p.model, p.theta, &p.data, NULL, NULL, &y, &report), PU_E_NONFINITE);
    TC_STATUS(pu_model_posterior(&p.model, p.theta, &p.data, NULL, NULL, &z, &report), PU_E_NONFINITE);
    TC_ASSERT(tc_named(report.where.what, "theta") && report.where.index == 2);
    TC_ASSERT(memcmp(one, two, (size_t)(3 * p.M) * sizeof(pu_real)) == 0);
    TC_STATUS(pu_model_predict(NULL, p.theta, &p.data, NULL, NULL, &y, &report), PU_E_NULL);
    PASS();
}

/* The likelihood at the end of a fit takes its options, too. */
TEST likelihood_takes_what_is_to_be_chosen(void)
{
    pu_options o;
    pu_report report;
    problem p;
    double nll, se, exact;
    make(&p, SPARSE);
    memset(&o, 0, sizeof o);
    TC_STATUS(pu_model_nll(&p.model, p.theta, &p.data, &o, NULL, &exact, NULL, &report), PU_OK);
    o.engine = PU_ITERATIVE, o.samples = o.solve.iterations = PU_CHOOSE, o.most_samples = 40;
    TC_STATUS(pu_model_nll(&p.model, p.theta, &p.data, &o, NULL, &nll, &se, &report), PU_OK);
    TC_ASSERT(report.samples == 40 && se > 0 && fabs(nll - exact) < 5 * se);
    PASS();
}

/* ---- plans --------------------------------------------------------------------------------------- */

/* A plan is what the call then does: engine, memory, threads; nothing runs, and nothing is written. */
TEST a_plan_is_what_is_done(void)
{
    static const pu_engine engines[] = {PU_ENGINE_DEFAULT, PU_ITERATIVE, PU_ENGINE_AUTO, PU_DENSE};
    pu_real grad[64];
    int kind, e;
    for (kind = 0; kind < CASES; kind++)
        for (e = 0; e < 4; e++) {
            pu_options o;
            pu_report plan, done;
            problem p;
            size_t bytes;
            int i;
            make(&p, (which)kind);
            memset(&o, 0, sizeof o);
            o.engine = engines[e], o.kind = o.engine == PU_DENSE ? PU_EXACT : PU_NETWORK;
            TC_STATUS(pu_model_plan(&p.model, &p.data, &o, &plan), PU_OK);
            TC_STATUS(pu_model_gradient_bytes(&p.model, &p.data, &o, 0, &bytes, &done), PU_OK);
            TC_ASSERT(plan.bytes == bytes);
            TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, &o, &p.ws, grad, NULL, &done), PU_OK);
            for (i = 0; i < PU_ENGINES; i++) TC_ASSERT(plan.served[i] == done.served[i]);
            TC_ASSERT(plan.bytes >= done.bytes && plan.threads == done.threads && plan.engine == done.engine);
            TC_ASSERT(plan.seconds > 0 && !(plan.seconds < done.seconds) && !(plan.seconds > done.seconds));
            TC_ASSERT(strncmp(plan.plan, done.plan, strlen(done.plan)) == 0);
            TC_ASSERT(strstr(plan.plan, "; about ") && strstr(plan.plan, " on one core, "));
        }
    PASS();
}

/* 2,000 random effects, exactly, by the dense engine: before it begins a program can know that it takes a while, and how much
   memory. Twice as many effects and observations: 16 times as long (m D^2 and D^3), 4 times the memory. */
TEST a_plan_tells_time_and_memory(void)
{
    double seconds[2], bytes[2];
    pu_options o = exact_options(PU_ENGINE_AUTO);
    pu_gradient_result out;
    pu_report report;
    pu_real any = PU_R(7);
    int i;
    memset(&out, 0, sizeof out);
    out.Gamma = out.psi = &any;
    for (i = 0; i < 2; i++) {
        const pu_int effects = 1000 * (i + 1), m = 2 * effects;
        pu_real scale = PU_R(1);
        pu_op Gamma = pu_op_scaled_identity(effects, &scale);
        pu_op Phi = pu_op_dense(m, effects, tc_reals(m * effects));
        pu_lgm model = {&Gamma, &Phi, NULL, NULL, NULL, 0};
        pu_data data = pu_data_full(1, m, tc_reals(m));
        model.psi = tc_reals(m);
        TC_STATUS(pu_plan(&model, &data, &o, &out, &report), PU_OK);
        TC_ASSERT(report.served[PU_DENSE] == 1);
        seconds[i] = report.seconds, bytes[i] = (double)report.bytes;
        TC_ASSERT(bytes[i] > (double)(effects * effects) * (double)sizeof(pu_real));
        TC_ASSERT(strstr(report.plan, "dense") && strstr(report.plan, " on one core, "));
    }
    TC_ASSERT(strstr(report.plan, "; about ") && strstr(report.plan, " MB"));
    TC_ASSERT(seconds[1] > 6 * seconds[0] && seconds[1] < 20 * seconds[0]);
    TC_ASSERT(bytes[1] > 3 * bytes[0] && bytes[1] < 5 * bytes[0]);
    TC_ASSERT(any == PU_R(7));
    TC_STATUS(pu_plan(NULL, NULL, &o, &out, &report), PU_E_NULL);
    TC_STATUS(pu_plan(NULL, NULL, &o, &out, NULL), PU_E_NULL);
    TC_STATUS(pu_model_plan(NULL, NULL, &o, &report), PU_E_NULL);
    PASS();
}

/* PU_CHOOSE: the plan of the limits, in memory that is enough whatever comes. */
TEST a_plan_of_what_is_to_be_chosen(void)
{
    pu_real grad[64];
    pu_options o;
    pu_report plan, done;
    problem p;
    make(&p, SPARSE);
    memset(&o, 0, sizeof o);
    o.engine = PU_ITERATIVE, o.samples = o.solve.iterations = PU_CHOOSE;
    TC_STATUS(pu_model_plan(&p.model, &p.data, &o, &plan), PU_OK);
    TC_ASSERT(plan.samples == 100 && plan.iterations == 100 && plan.served[PU_ITERATIVE] == p.N);
    TC_STATUS(pu_model_gradient(&p.model, p.theta, &p.data, &o, &p.ws, grad, NULL, &done), PU_OK);
    TC_ASSERT(done.seconds <= plan.seconds && done.bytes <= plan.bytes);
    PASS();
}

SUITE(models)
{
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    RUN_TEST(descriptions);
    RUN_TEST(network_gradient_through_the_preconditioner);
    RUN_TEST(preconditioner_and_auto);
    RUN_TEST(canonical_forms);
    RUN_TEST(fisher);
    RUN_TEST(engines_agree);
    RUN_TEST(unbiased);
    RUN_TEST(standard_errors);
    RUN_TEST(standard_errors_of_a_tuned_run);
    RUN_TEST(targets_share_features);
    RUN_TEST(preconditioner);
    RUN_TEST(starts);
    RUN_TEST(factor_start_has_the_moments);
    RUN_TEST(factor_start_of_an_empty_column);
    RUN_TEST(starts_of_poor_data);
    RUN_TEST(allocations);
    RUN_TEST(exact_blocks);
    RUN_TEST(no_memory_for_a_model);
    RUN_TEST(constructors_refuse);
    RUN_TEST(calls_refuse);
    RUN_TEST(own_model);
    RUN_TEST(predictions_take_the_options_of_a_fit);
    RUN_TEST(exact_posteriors_have_draws);
    RUN_TEST(model_calls_set_theta);
    RUN_TEST(likelihood_takes_what_is_to_be_chosen);
    RUN_TEST(a_plan_is_what_is_done);
    RUN_TEST(a_plan_tells_time_and_memory);
    RUN_TEST(a_plan_of_what_is_to_be_chosen);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(models);
    PU_TEST_MAIN_END();
}
