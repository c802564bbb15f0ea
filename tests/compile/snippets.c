/* The snippets of docs/manual.md, as tests/snippets.sh takes them from there, and calls of what they define. Each file is named
   after the heading that it stands under. */
#include "manual_manual_task_by_task.h"

#include "manual_fix_and_tie_parameters_add_regressors.h"
#include "manual_several_series_at_once_and_starts_that_nobody_knows.h"
#include "manual_several_series_at_once_and_starts_that_nobody_knows_2.h"
#include "manual_mixed_effects.h"
#include "manual_fit.h"
#include "manual_a_gradient_by_hand.h"
#include "manual_several_processes.h"
#include "manual_priors.h"
#include "manual_predict.h"
#include "manual_keep_a_model.h"
#include "manual_time_series.h"
#include "manual_fields_on_a_grid_and_pictures_with_holes.h"
#include "manual_choose_an_engine_or_let_it_be_chosen.h"
#include "manual_solve_linear_systems.h"

enum { LENGTH = 200 };

static int failed;

static void check(const char *what, int is_right)
{
    if (is_right) return;
    printf("FAIL  %s\n", what);
    failed = 1;
}

/* The statements that stand in the text, each by itself: they compile, and what they set is there. */
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-variable"
#endif
static void statements(void)
{
    pu_fit_options o;
    pu_options options;
#include "manual_inline.h"
    (void)o;
    (void)options;
}

/* "Your own operator", for a diagonal, whose parameters are its entries. */
static void own_operator(void)
{
    pu_real parameters[3] = {1, 2, 4};
    pu_op op = pu_op_diagonal(3, parameters);
#include "manual_your_own_operator.h"
    check("pu_op_check", found.status == PU_OK && found.count > 10 && found.wrong == 0);
}

/* An AR of order 168 whose coefficients are zero: Gamma = I / kappa. */
static void long_orders(void)
{
    static pu_real gamma[168], x[1000], y[1000];
    x[7] = 3;
    check("weekly", weekly(gamma, 2, x, y) == PU_OK && fabs((double)y[7] - 1.5) < 1e-6 && fabs((double)y[6]) < 1e-6);
}

/* "A gradient by hand": a rank one under noise of precision 4, which is found. */
static void gradient_by_hand(void)
{
    enum { ROWS = 200, M = 4 };
    static pu_real y[ROWS * M], z[ROWS];
    pu_real Phi[M] = {PU_R(0.3), PU_R(0.3), PU_R(0.3), PU_R(0.3)}, psi[M] = {1, 1, 1, 1};
    pu_data data = pu_data_full(ROWS, M, y);
    double first = 0, last = 0;
    pu_normals(8, 0, 0, 0, 3, 0, ROWS * M, y);
    pu_normals(9, 0, 0, 0, 3, 0, ROWS, z);
    for (int i = 0; i < ROWS * M; i++) y[i] = PU_R(0.5) * y[i] + z[i / M];
    check("descend, no step", descend(M, 1, Phi, psi, &data, 0, &first) == PU_OK);
    check("descend", descend(M, 1, Phi, psi, &data, 300, &last) == PU_OK);
    check("what is found", last < first - 1 && fabs((double)psi[0] - 4) < 2 && fabs((double)Phi[0] - 1) < 0.3);
}

/* "Mixed effects": 6 users, 5 items, one rating missing, and a user that nobody knows. */
static void mixed_effects(void)
{
    enum { RATINGS = 31 };
    static int32_t user[RATINGS], item[RATINGS];
    pu_real y[RATINGS], ones[RATINGS], mean[RATINGS], variance[RATINGS], theta[4] = {0};
    pu_group users = {7, user, NULL, "user"}, items = {5, item, NULL, "item"};
    pu_predict_result out = {0};
    pu_normals(8, 0, 0, 0, 3, 0, RATINGS, y);
    for (int m = 0; m < RATINGS; m++) {
        user[m] = m < 30 ? m % 6 : 6;
        item[m] = m % 5;
        ones[m] = 1;
        y[m] += PU_R(3) + PU_R(item[m]) + PU_R(user[m]);
    }
    y[30] = PU_R(NAN);
    out.mean = mean;
    out.variance = variance;
    check("rate", rate(RATINGS, users, items, ones, y, theta, &out) == PU_OK);
    check("its intercept", (double)theta[0] > 5 && (double)theta[0] < 10);
    check("a new user", fabs((double)mean[30] - (double)theta[0]) < 5 && (double)variance[30] > (double)variance[0]);
}

/* "Fields on a grid": a plane with bumps and gaps. */
static void fields(void)
{
    pu_real y[30 * 24], filled[30 * 24];
    double variance = 0, range = 0;
    pu_normals(8, 0, 0, 0, 3, 0, 30 * 24, y);
    for (int i = 0; i < 30 * 24; i++)
        y[i] = i % 4 == 2 ? (pu_real)NAN : (pu_real)(sin(0.3 * (i / 24)) + cos(0.35 * (i % 24)) + 0.3 * (double)y[i]);
    check("fill_in", fill_in(y, 30, 24, filled, &variance, &range) == PU_OK && variance > 0 && range > 0);
    check("filled", fabs((double)filled[2] - cos(0.7)) < 0.5);
}

/* "Keep a model": an AR(2) that is kept, and a longer series. */
static void kept(void)
{
    pu_model model = {0};
    pu_real theta[4] = {PU_R(0.5), PU_R(-0.2), 0, PU_R(-1)}, y[LENGTH], mean[LENGTH], variance[LENGTH];
    pu_saved about;
    remove("sales.model");
    pu_normals(8, 0, 0, 0, 3, 0, LENGTH, y);
    for (int i = LENGTH - 5; i < LENGTH; i++) y[i] = (pu_real)NAN;
    check("a model to keep", pu_model_noisy_ar(&model, 50, 2, NULL) == PU_OK);
    check("keep_model", keep_model(&model, theta) == PU_OK);
    check("what is kept", pu_model_saved("sales.model", &about, NULL) == PU_OK && about.params == 4 && about.rows == 50);
    check("forecast_later", forecast_later(y, LENGTH, mean, variance) == PU_OK && variance[LENGTH - 1] > variance[10]);
    pu_model_free(&model);
    remove("sales.model");
}

/* A team of one process, of two series. */
static int team_of_one(const pu_real *y)
{
    pu_team team = {0, 1, 2, PU_TEAM_DATA, 2, NULL, NULL};
    pu_real theta[3] = {0, 0, 0};
    pu_model model = {0};
    int ok = pu_model_noisy_ar(&model, LENGTH / 2, 1, NULL) == PU_OK && fit_by_team(&team, &model, LENGTH / 2, y, theta) == PU_OK;
    pu_model_free(&model);
    return ok && theta[0] != 0;
}

/* "Priors": a variable of constants, whose noise would vanish. */
static void priors(void)
{
    enum { VARIABLES = 3, PEOPLE = 20 };
    pu_real y[PEOPLE * VARIABLES] = {0}, theta[VARIABLES * 3];
    pu_data data = pu_data_full(PEOPLE, VARIABLES, y);
    pu_model model = {0};
    pu_fit_report report;
    pu_normals(5, 0, 0, 0, 3, 0, PEOPLE * VARIABLES, y);
    for (int i = 0; i < PEOPLE * VARIABLES; i += VARIABLES) y[i] = 2;
    check("factors", !pu_model_factors(&model, VARIABLES, 1, NULL) && !pu_model_start(&model, &data, 1, theta, NULL));
    check("fit_with_priors", fit_with_priors(&model, &data, VARIABLES, 1, 0.5, theta, &report) == PU_OK);
    check("its penalty", report.penalty != 0 && report.stop == PU_FIT_CONVERGED);
    check("its noise", fabs(exp(-(double)theta[2 * VARIABLES]) - 1.0 / (PEOPLE + 2)) < 0.01);
    pu_model_free(&model);
}

int main(void)
{
    static pu_real y[LENGTH], theta[4], mean[LENGTH], variance[LENGTH], X[2 * LENGTH], b[5], se[5];
    static pu_real three[3 * LENGTH], factor[10];
    pu_real a[4] = {2, 1, 1, 2}, u[2] = {3, 3}, x[2] = {0, 0};
    pu_op A = pu_op_spd(2, a, NULL);
    pu_data data = pu_data_nan(1, LENGTH, y);
    pu_fit_options fit = {0};
    pu_model model = {0};
    /* an AR(2) of our own, every ninth entry of it missing */
    pu_normals(5, 0, 0, 0, 3, 0, LENGTH, y);
    for (int t = 2; t < LENGTH; t++) y[t] += PU_R(0.6) * y[t - 1] - PU_R(0.3) * y[t - 2];
    for (int t = 4; t < LENGTH; t += 9) y[t] = (pu_real)NAN;
    check("fit_series", fit_series(y, LENGTH) == PU_OK);
    check("fit_by_team", team_of_one(y));
    long_orders();
    gradient_by_hand();
    kept();
    pu_normals(6, 0, 0, 0, 3, 0, 3 * LENGTH, three);
    for (int t = 3; t < 3 * LENGTH; t++) three[t] += PU_R(0.8) * three[t / 3 * 3] + PU_R(0.5) * three[t - 3];
    check("fit_factor", fit_factor(three, LENGTH, factor) == PU_OK && fabs((double)factor[0]) < 1);
    check("fit_trend", fit_trend(y, LENGTH, 1.5, X, b, se) == PU_OK && fabs((double)b[3]) < 1 && se[4] > 0);
    check("model", pu_model_noisy_ar(&model, LENGTH, 2, NULL) == PU_OK && pu_model_start(&model, &data, 1, theta, NULL) == PU_OK);
    check("predict_series", predict_series(&model, theta, &data, &fit, mean, variance) == PU_OK);
    for (int t = 0; t < LENGTH; t++) check("prediction", mean[t] == mean[t] && variance[t] > 0);
    for (int t = LENGTH - 6; t < LENGTH; t++) y[t] = (pu_real)NAN;
    check("forecast_months", forecast_months(y, LENGTH - 6, LENGTH, mean, variance) == PU_OK);
    check("is_affordable", is_affordable(&model, &data, NULL));
    check("solve_one", solve_one(&A, u, x) == PU_OK && fabs((double)x[0] - 1) < 1e-6 && fabs((double)x[1] - 1) < 1e-6);
    pu_model_free(&model);
    statements();
    own_operator();
    mixed_effects();
    priors();
    fields();
    return failed;
}
