/* test_tuning.c - PU_CHOOSE and pu_tune: samples K and iterations I that meet a wanted error, in the memory that was told. */
#include "pu_test.h"
#include "test_common.h"
#include "error_problems.h"

/* PU_CHOOSE: the error that was wanted is the error that comes, in the mean over seeds, within a factor of two below and 1.5
   above; K and I are said; the same call with those numbers gives the same bits. */
static greatest_test_res tuned(problem *p, pu_kind kind, double wanted)
{
    enum { RUNS = 12 };
    const pu_int size[3] = {p->Gamma.params, p->Phi.params, p->Phi.rows};
    pu_real *exact[3], *got[3], *again[3];
    pu_options o = options_for(p, PU_EXACT, 0), fixed;
    pu_gradient_result out;
    pu_report report;
    double error = 0, norm = 0;
    size_t bytes = 0;
    pu_workspace ws = tc_workspace();
    int b, run;
    pu_int i;
    tc_set_case("%s, kind %d, error %g", p->name, (int)kind, wanted);
    memset(&out, 0, sizeof out);
    for (b = 0; b < 3; b++) exact[b] = tc_reals(size[b]), got[b] = tc_reals(size[b]), again[b] = tc_reals(size[b]);
    out.Gamma = exact[0], out.Phi = exact[1], out.psi = exact[2];
    TC_STATUS(pu_gradient(&p->lgm, &p->data, &o, NULL, &out, &report), PU_OK);
    out.Gamma = got[0], out.Phi = got[1], out.psi = got[2];
    o = options_for(p, kind, PU_CHOOSE);
    o.solve.iterations = PU_CHOOSE, o.error = wanted, o.most_samples = 2000;
    TC_STATUS(pu_gradient_bytes(&p->lgm, &p->data, &o, &out, &bytes, &report), PU_OK);
    for (run = 0; run < RUNS; run++) {
        o.seed = (uint64_t)run + 77;
        TC_STATUS(pu_gradient(&p->lgm, &p->data, &o, &ws, &out, &report), PU_OK);
        for (b = 0; b < 3; b++)
            for (i = 0; i < size[b]; i++) {
                error += pow((double)got[b][i] - (double)exact[b][i], 2) / RUNS;
                norm += pow((double)exact[b][i], 2) / RUNS;
            }
    }
    error = sqrt(error / norm);
    if (getenv("PU_SHOW")) printf("%s, wanted %g, got %g: %s\n", p->name, wanted, error, report.plan);
    TC_ASSERT(report.samples >= 2 && report.samples < 2000 && report.iterations >= 1 && strstr(report.plan, "K = "));
    TC_ASSERT(strstr(report.plan, "I = ") && report.bytes <= bytes);
    TC_ASSERT(error < 1.5 * wanted && error > wanted / 2);
    TC_STATUS(pu_tune(&p->lgm, &p->data, &o, &ws, &out, &fixed, &report), PU_OK);
    TC_ASSERT(fixed.samples == report.samples && fixed.solve.iterations == report.iterations && fixed.samples > 0);
    out.Gamma = again[0], out.Phi = again[1], out.psi = again[2];
    TC_STATUS(pu_gradient(&p->lgm, &p->data, &fixed, &ws, &out, &report), PU_OK);
    for (b = 0; b < 3; b++) TC_ASSERT(memcmp(got[b], again[b], (size_t)size[b] * sizeof(pu_real)) == 0);
    { /* a block of the size that was told is enough */
        pu_workspace block;
        memset(&block, 0, sizeof block);
        pu_workspace_block(&block, tc_bytes(bytes), bytes);
        TC_STATUS(pu_gradient(&p->lgm, &p->data, &o, &block, &out, &report), PU_OK);
    }
    o.most_samples = 3, o.most_iterations = 2;
    TC_STATUS(pu_gradient(&p->lgm, &p->data, &o, &ws, &out, &report), PU_OK);
    if (getenv("PU_SHOW")) printf("limited: %d %d %s\n", (int)report.samples, (int)report.iterations, report.plan);
    TC_ASSERT(report.samples == 3 && report.iterations <= 2 && strstr(report.plan, "at its limit"));
    PASS();
}

TEST auto_meets_the_wanted_error(void)
{
    problem p;
    noisy_ar(&p);
    CHECK_CALL(tuned(&p, PU_OUTPUT, 0.05));
    noisy_ar(&p);
    CHECK_CALL(tuned(&p, PU_NETWORK, 0.1));
    factors(&p);
    CHECK_CALL(tuned(&p, PU_OUTPUT, 0.03));
    factors(&p);
    CHECK_CALL(tuned(&p, PU_NETWORK, 0.03));
    PASS();
}

/* One datum, many lanes, few probes: the size query covers every K up to the limit, and Monte Carlo still means converged. */
TEST auto_tells_enough_memory(void)
{
    problem p;
    pu_real *grad, *se;
    double error;
    factors(&p);
    p.data.n = 1;
    grad = tc_reals(p.Phi.params), se = tc_reals(p.Phi.params);
    tc_set_case("memory of PU_CHOOSE");
    for (error = 0.05; error < 0.9; error += 0.07) {
        pu_options o = options_for(&p, PU_OUTPUT, PU_CHOOSE);
        pu_gradient_result out;
        pu_report report;
        pu_workspace block;
        size_t bytes = 0;
        memset(&out, 0, sizeof out), memset(&block, 0, sizeof block);
        out.Phi = grad, out.se_Phi = se;
        o.lanes = 16, o.most_samples = 16, o.error = error, o.solve.iterations = PU_CHOOSE;
        TC_STATUS(pu_gradient_bytes(&p.lgm, &p.data, &o, &out, &bytes, &report), PU_OK);
        TC_ASSERT(strstr(report.plan, "asked1") == NULL);
        pu_workspace_block(&block, tc_bytes(bytes), bytes);
        TC_STATUS(pu_gradient(&p.lgm, &p.data, &o, &block, &out, &report), PU_OK);
        o.kind = PU_MONTE_CARLO;
        TC_STATUS(pu_gradient(&p.lgm, &p.data, &o, NULL, &out, &report), PU_OK);
        TC_ASSERT(report.worst_residual < 1e3 * PU_TEST_EPS);
    }
    PASS();
}

/* A block whose gradient is not asked for is held fixed: its standard errors are zero, and it has no part in the choice of K
   and I nor in the errors of the other blocks. The gradient of eta is asked for as well: that of psi comes along with it. */
TEST a_fixed_block_has_no_error_under_auto(int fixed_psi)
{
    problem p;
    pu_real *grad, *eta, *se[2], *alone;
    pu_int size[2], i;
    pu_options o;
    pu_gradient_result out;
    pu_report report, want;
    const int free_ = fixed_psi ? 0 : 1;
    factors(&p);
    tc_set_case("%s fixed", fixed_psi ? "psi" : "Phi");
    size[0] = p.Phi.params, size[1] = p.Phi.rows;
    grad = tc_reals(size[free_]), eta = tc_reals(p.Phi.rows), alone = tc_reals(size[free_]);
    for (i = 0; i < 2; i++) se[i] = tc_reals(size[i]), tc_fill(size[i], se[i], PU_R(7));
    o = options_for(&p, PU_OUTPUT, PU_CHOOSE);
    o.solve.iterations = PU_CHOOSE, o.error = 0.2;
    memset(&out, 0, sizeof out);
    out.eta = eta;
    if (fixed_psi) out.Phi = grad, out.se_Phi = alone;
    else out.psi = grad, out.se_psi = alone;
    TC_STATUS(pu_gradient(&p.lgm, &p.data, &o, NULL, &out, &want), PU_OK);
    out.se_Phi = se[0], out.se_psi = se[1];
    TC_STATUS(pu_gradient(&p.lgm, &p.data, &o, NULL, &out, &report), PU_OK);
    TC_ASSERT(want.samples >= 2 && report.samples == want.samples && report.iterations == want.iterations);
    TC_ASSERT(report.statistical_error == want.statistical_error && report.groups == want.groups && report.groups >= 2);
    for (i = 0; i < size[!free_]; i++) TC_ASSERT(se[!free_][i] == PU_R(0));
    for (i = 0; i < size[free_]; i++) TC_ASSERT(se[free_][i] == alone[i] && alone[i] > PU_R(0));
    { /* the relative error that is told is that of the free block alone */
        double errors = 0, whole = 0;
        for (i = 0; i < size[free_]; i++)
            errors += (double)alone[i] * (double)alone[i], whole += (double)grad[i] * (double)grad[i];
        TC_CLOSE(report.statistical_error, sqrt(errors / whole), 100 * PU_TEST_EPS);
    }
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    RUN_TEST(auto_meets_the_wanted_error);
    RUN_TEST(auto_tells_enough_memory);
    RUN_TESTp(a_fixed_block_has_no_error_under_auto, 0);
    RUN_TESTp(a_fixed_block_has_no_error_under_auto, 1);
    PU_TEST_MAIN_END();
}
