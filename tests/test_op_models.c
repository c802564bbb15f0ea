/* test_op_models.c - structured operators as Gamma and Phi of a model: sparse rows, low rank, Toeplitz, circulant and
   Kronecker, in pairs. The gradient is that of the model with the dense matrices of the same numbers. */
#include "pu_test.h"
#include "test_common.h"
#include "op_fixtures.h"

static pu_real *rounded(pu_int n, const double *a)
{
    pu_real *x = tc_reals(n);
    pu_int i;
    for (i = 0; i < n; i++) x[i] = (pu_real)a[i];
    return x;
}

/* Dense gradient g contracted with the derivative of each parameter, against `got`. */
TEST check_contraction(const fixture *f, const pu_real *got, const pu_real *g, double tol)
{
    pu_int i, e, size = f->op.rows * f->op.cols;
    double *gd = tc_doubles(size), scale;
    for (e = 0; e < size; e++) gd[e] = (double)g[e];
    scale = tc_norm(size, gd);
    for (i = 0; i < f->op.params; i++) {
        size_t mark = tc_kept_count;
        double share, *d = derivative(f, i, &share), want = 0;
        for (e = 0; e < size; e++) want += share * d[e] * gd[e];
        CLOSE(f, W_GRADIENT, got[i], want, tol * scale * (1 + tc_norm(size, d)));
        tc_release_to(mark);
    }
    PASS();
}

TEST check_model(const fixture *prior, const fixture *map, pu_kind kind)
{
    enum { N = 3, K = 4, I = 4 };
    pu_int D = map->op.cols, M = map->op.rows, i;
    double *gamma, *phi = matrix(map, 0), tol;
    pu_real *gamma_r, *phi_r = rounded(M * D, phi), *factor = tc_reals(D * D);
    pu_real *psi = tc_random_positive(++next_seed, M), *nu = tc_normal(++next_seed, D);
    pu_real *y = tc_normal(++next_seed, N * M);
    pu_op dense_prior, dense_map = pu_op_dense(M, D, phi_r);
    pu_lgm model, other;
    pu_data data = pu_data_nan(N, M, y);
    pu_options options;
    pu_report report, other_report;
    pu_workspace ws = tc_workspace();
    tc_outputs a, b;
    gamma = matrix(prior, 0);
    gamma_r = rounded(D * D, gamma);
    for (i = 0; i < N * M; i++) {
        if (tc_hash((uint64_t)i + 77) % 4 == 0) y[i] = PU_R(NAN);
    }
    TC_STATUS(pu_spd_factor(D, gamma_r, factor, NULL), PU_OK);
    dense_prior = pu_op_spd(D, gamma_r, factor);
    memset(&model, 0, sizeof model);
    model.Gamma = &prior->op;
    model.Phi = &map->op;
    model.psi = psi;
    model.nu = nu;
    other = model;
    other.Gamma = &dense_prior;
    other.Phi = &dense_map;
    memset(&options, 0, sizeof options);
    options.kind = kind;
    options.samples = kind == PU_EXACT ? PU_ZERO : K;
    options.solve.iterations = I;
    if (kind != PU_EXACT) options.delta = tc_normal(++next_seed, N * K * D);
    a = tc_make_outputs(&model, N, kind == PU_EXACT ? 0 : K, I);
    b = tc_make_outputs(&other, N, kind == PU_EXACT ? 0 : K, I);
    a.out.x = a.out.residual = a.out.alpha = a.out.beta = a.out.logdet = NULL;
    b.out.x = b.out.residual = b.out.alpha = b.out.beta = b.out.logdet = NULL;
    TC_STATUS(pu_gradient(&model, &data, &options, &ws, &a.out, &report), PU_OK);
    TC_STATUS(pu_gradient(&other, &data, &options, &ws, &b.out, &other_report), PU_OK);
    /* each run perturbs A by its roundings, which add up like a random walk, and every step passes that on times the
       condition of A */
    tol = 4 * I * sqrt(roundings(prior) + roundings(map) + (double)(M + D)) * PU_TEST_EPS *
          tc_posterior_condition(gamma, phi, psi, D, M);
    CHECK_CALL(check_contraction(prior, a.out.Gamma, b.out.Gamma, tol));
    CHECK_CALL(check_contraction(map, a.out.Phi, b.out.Phi, tol));
    GREATEST_ASSERTm(tc_say(pu_test_message), pu_test_vector_close("nu", (size_t)D, a.out.nu, b.out.nu, tol));
    GREATEST_ASSERTm(tc_say(pu_test_message), pu_test_vector_close("psi", (size_t)M, a.out.psi, b.out.psi, tol));
    GREATEST_ASSERTm(tc_say(pu_test_message), pu_test_vector_close("eta", (size_t)M, a.out.eta, b.out.eta, tol));
    TC_ASSERT(report.has_objective && other_report.has_objective);
    TC_CLOSE(report.c, other_report.c, tol * (1 + fabs(other_report.c)));
    TC_CLOSE(report.q, other_report.q, tol * (1 + fabs(other_report.q)));
    if (kind == PU_EXACT) TC_CLOSE(report.nll, other_report.nll, tol * (1 + fabs(other_report.nll)));
    options.delta = NULL; /* with the operator's own draws it runs as well */
    TC_STATUS(pu_gradient(&model, &data, &options, &ws, &a.out, &report), PU_OK);
    TC_ASSERT(tc_gaps_untouched(&a));
    PASS();
}

static fixture *model_map(int which)
{
    switch (which) {
    case 0: return csr(11, 12);
    case 1: return kronecker(dense(3, 4), dense(5, 3));
    case 2: return toeplitz(12);
    default: break;
    }
    return kronecker(identity(2), csr(7, 6));
}

static fixture *model_prior(int which)
{
    switch (which) {
    case 0: return low_rank(12, 3);
    case 1: return toeplitz(12);
    case 2: return circulant(12);
    case 3: return kronecker(spd(4), toeplitz(3));
    case 4: return kronecker(low_rank(4, 2), circulant(3));
    default: break;
    }
    return diagonal(12);
}

TEST gradient_is_that_of_the_dense_operator(int prior, int map)
{
    static const pu_kind kinds[] = {PU_NETWORK, PU_OUTPUT, PU_EXACT};
    int i;
    for (i = 0; i < 3; i++) {
        fixture *f = model_prior(prior), *g = model_map(map);
        tc_set_case("prior %d, map %d, kind %d", prior, map, i);
        CHECK_CALL(check_model(f, g, kinds[i]));
    }
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    int prior, map;
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    for (prior = 0; prior < 6; prior++) {
        for (map = 0; map < 4; map++) RUN_TESTp(gradient_is_that_of_the_dense_operator, prior, map);
    }
    print_worst();
    PU_TEST_MAIN_END();
}
