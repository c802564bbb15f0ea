/* test_effects.c - mixed effects with crossed, nested and sloped groups against dense Gaussian algebra (effects_reference.h), by
   every engine that serves them; gaps, empty levels, single rows; refusals. */
#include "pu_test.h"
#include "test_common.h"

#include "chance.h"
#include "effects_reference.h"

static const ref_shape shapes[] = {
    {"crossed", 40, 2, {7, 5}, 0, 0, 1, 0, 0},
    {"the second is larger", 40, 2, {4, 9}, 0, 0, 1, 0, 0},
    {"one group", 20, 1, {6}, 0, 0, 1, 0, 0},
    {"no regressors", 30, 2, {6, 5}, 0, 0, 0, 0, 0},
    {"two regressors, gaps", 40, 2, {8, 6}, 0, 0, 2, 0.3, 0},
    {"nested", 40, 2, {5, 10}, 0, 1, 1, 0, 0},
    {"slopes", 40, 2, {7, 5}, 2, 0, 1, 0, 0},
    {"all slopes, gaps", 40, 2, {7, 5}, 3, 0, 2, 0.2, 0},
    {"three groups", 50, 3, {8, 6, 4}, 0, 0, 1, 0, 0},
    {"four groups, slopes, gaps", 60, 4, {5, 9, 4, 6}, 10, 0, 3, 0.25, 0},
    {"same rows again", 40, 2, {7, 5}, 0, 0, 1, 0, 4},
    {"empty levels", 12, 2, {15, 20}, 0, 0, 1, 0, 0},
    {"one level", 15, 2, {1, 4}, 0, 0, 1, 0, 0},
    {"one level of one group", 5, 1, {1}, 0, 0, 1, 0, 0},
    {"one row", 1, 2, {3, 2}, 0, 0, 1, 0, 0},
};
#define SHAPES ((int)(sizeof shapes / sizeof shapes[0]))

static const pu_engine exact[] = {PU_DENSE, PU_DUAL, PU_SCHUR};

/* The model of a design, made; theta in pu_real. */
static pu_status make(const ref_design *d, pu_model *model, pu_real *theta)
{
    pu_report r;
    memset(model, 0, sizeof *model);
    model->memory = tc_workspace();
    for (int i = 0; i < 16; i++) theta[i] = (pu_real)d->theta[i];
    return pu_model_effects(model, d->shape.M, d->shape.G, d->group, d->shape.p, d->X, d->method, &r);
}

/* theta is rounded to pu_real before the library sees it, and a likelihood's parts are sums of so many terms. */
static double allowed(const ref_design *d, const ref_answer *want)
{
    return 20 * PU_TEST_EPS * (want->cond + d->shape.M);
}

TEST exact_engines_agree_with_dense_algebra(void)
{
    for (int i = 0; i < SHAPES; i++)
        for (int method = 0; method < 2; method++)
            for (size_t e = 0; e < sizeof exact / sizeof *exact; e++) {
                ref_design d;
                ref_answer want;
                pu_model model;
                pu_options o;
                pu_report r;
                pu_real theta[16], grad[16];
                pu_posterior_result post;
                pu_predict_result pred;
                double nll, tol, size = 1;
                ref_fill(&d, shapes + i, (pu_method)method, (uint64_t)(100 * i + method));
                for (int k = 0; k < 16; k++) d.theta[k] = (double)(pu_real)d.theta[k];
                ref_solve(&d, &want);
                tc_set_case("%s, %s, %s", shapes[i].name, method ? "REML" : "ML", pu_engine_text(exact[e]));
                if (exact[e] == PU_DUAL && (method == PU_REML && d.shape.p > 0)) continue; /* refused: see below */
                tol = allowed(&d, &want);
                if (tol > 0.25) continue;
                TC_STATUS(make(&d, &model, theta), PU_OK);
                memset(&o, 0, sizeof o);
                o.engine = exact[e];
                o.kind = PU_EXACT;
                pu_data data = pu_data_nan(1, d.shape.M, d.y);
                TC_STATUS(pu_model_nll(&model, theta, &data, &o, NULL, &nll, NULL, &r), PU_OK);
                TC_CLOSE(nll, want.nll, tol * (1 + fabs(want.nll)));
                TC_STATUS(pu_model_gradient(&model, theta, &data, &o, NULL, grad, NULL, &r), PU_OK);
                TC_CLOSE(r.nll, want.nll, tol * (1 + fabs(want.nll)));
                for (int k = 0; k < model.params; k++) size += fabs(want.grad[k]);
                for (int k = 0; k < model.params; k++) TC_CLOSE(grad[k], want.grad[k], tol * size);
                memset(&post, 0, sizeof post);
                post.mean = tc_reals(d.D);
                post.variance = tc_reals(d.D);
                TC_STATUS(pu_model_posterior(&model, theta, &data, &o, NULL, &post, &r), PU_OK);
                TC_ASSERT(post.exact);
                for (int k = 0; k < d.D; k++) {
                    TC_CLOSE(post.mean[k], want.mean[k], tol * 5);
                    TC_CLOSE(post.variance[k], want.variance[k], tol * (1 + want.variance[k]));
                }
                memset(&pred, 0, sizeof pred);
                pred.mean = tc_reals(d.shape.M);
                pred.fit = tc_reals(d.shape.M);
                pred.variance = tc_reals(d.shape.M);
                TC_STATUS(pu_model_predict(&model, theta, &data, &o, NULL, &pred, &r), PU_OK);
                for (int m = 0; m < d.shape.M; m++) {
                    TC_CLOSE(pred.mean[m], want.fit_mean[m], tol * 10);
                    TC_CLOSE(pred.fit[m], want.fit[m], tol * (1 + 4 * want.fit[m]));
                    TC_CLOSE(pred.variance[m] - pred.fit[m], exp(d.theta[model.params - 1]), tol * (5 + want.fit[m]));
                }
            }
    PASS();
}

TEST names_start_and_functions_pass_the_check(void)
{
    for (int i = 0; i < SHAPES; i++)
        for (int method = 0; method < 2; method++) {
            ref_design d;
            pu_model model;
            pu_report r;
            pu_check_report check;
            pu_real theta[16];
            pu_param param;
            char text[4096];
            ref_fill(&d, shapes + i, (pu_method)method, (uint64_t)(1000 + i));
            if (d.shape.M < 10) continue;
            tc_set_case("%s, %s", shapes[i].name, method ? "REML" : "ML");
            d.group[0].name = "user";
            TC_STATUS(make(&d, &model, theta), PU_OK);
            pu_data data = pu_data_nan(1, d.shape.M, d.y);
            int at = method ? 0 : d.shape.p;
            TC_ASSERT(model.params == at + d.shape.G + 1);
            TC_ASSERT(pu_model_param(&model, at, &param) == PU_OK && !strcmp(param.name, "var.user"));
            TC_ASSERT(param.scale == PU_SCALE_LOG && !param.linear);
            TC_ASSERT(pu_model_param(&model, at + d.shape.G, &param) == PU_OK && !strcmp(param.name, "var.residual"));
            if (d.shape.G > 1)
                TC_ASSERT(pu_model_param(&model, at + 1, &param) == PU_OK && !strcmp(param.name, "var.1"));
            if (at) TC_ASSERT(pu_model_param(&model, 0, &param) == PU_OK && !strcmp(param.name, "b[0]") && param.linear);
            TC_STATUS(pu_model_start(&model, &data, 0, theta, &r), PU_OK);
            pu_status status = pu_model_check(&model, theta, &data, NULL, &check);
            GREATEST_ASSERTm(tc_say(pu_check_explain(&check, 0, text, sizeof text)), status == PU_OK || status == PU_INEXACT);
        }
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    RUN_TEST(exact_engines_agree_with_dense_algebra);
    RUN_TEST(names_start_and_functions_pass_the_check);
    PU_TEST_MAIN_END();
}
