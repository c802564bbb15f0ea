/* estimates.h - fitted parameters as people read them: natural values by name, standard errors, 95 % intervals.

       has_errors = estimates_errors(model, &data, &exact, &flags, &report, theta, C);   one step of Newton's method, covariance
       estimate_make(&param, theta[i], variance, truth, &e[i]);                           of each parameter
       estimate_phi(P, 1, C, n, e, e + n, "phi");                                           of an autoregression
       estimate_last(&s, theta, C, n, truth, e + ..);                                     of regressors
       estimates_print(count, e, truth);  json_converged(&j, &report);  json_estimates(&j, "parameters", count, e, 0);

   Standard errors are of the natural values (delta method), 95 % intervals those of the scale on which a parameter is free,
   e.g. the logarithm of a variance. What is not identified, or fixed, has NaN: "-" in a table, null in JSON. Include after
   program.h, fit.h, series.h, ar.h; brings report.h along. */
#ifndef EXAMPLES_ESTIMATES_H
#define EXAMPLES_ESTIMATES_H

#include "report.h"

enum { ESTIMATE_NAME = 2 * CSV_NAME + 16 };

/* A line of the table. */
typedef struct {
    char name[ESTIMATE_NAME];
    double value, se, low, high, truth; /* NaN where there is none */
} estimate;

/* What a page of results is written from. */
typedef struct {
    const pu_fit_report *report;
    int has_errors, count; /* of the estimates */
    const estimate *e;
    double nll;
} outcome;

/* ---- what a fit is worth ---- */

/* Covariance of theta; NaN, and 0, where there is none. Says how long it may take. */
static inline int estimates_covariance(pu_model *model, const pu_data *data, const pu_options *options, const fit_flags *flags,
                                       double one, const pu_real *theta, pu_real *C)
{
    const double predicted = 2 * (double)model->params * one;
    pu_report told;
    pu_status status;
    pu_int i;
    if (predicted > 5 && !flags->quiet)
        fprintf(stderr, "%s: standard errors, about %.0f s\n", program_name, predicted);
    status = pu_fit_covariance(model, data, options, NULL, theta, C, &told);
    if (status == PU_OK || status == PU_UNIDENTIFIED || status == PU_INEXACT) return 1;
    for (i = 0; i < model->params * model->params; i++) C[i] = (pu_real)NAN;
    return 0;
}

/* One step of Newton's method from where the fit came to rest, theta - N C g, which a small part of a standard error is left
   of; kept where the likelihood agrees. Parameters without a covariance stay. */
static inline void estimates_refine(pu_model *model, const pu_data *data, const pu_options *options, const pu_real *C,
                                    pu_real *theta)
{
    const pu_int n = model->params;
    pu_real *g = need_reals(2 * n), *next = g + n;
    pu_report before, after;
    double nll = 0;
    pu_int i, j;
    if (pu_model_gradient(model, theta, data, options, NULL, g, NULL, &before) == PU_OK) {
        for (i = 0; i < n; i++) {
            double step = 0;
            for (j = 0; j < n; j++)
                if (C[i * n + j] == C[i * n + j]) step += (double)C[i * n + j] * (double)g[j];
            next[i] = (pu_real)((double)theta[i] - (double)data->n * step);
        }
        if (pu_model_nll(model, next, data, options, NULL, &nll, NULL, &after) == PU_OK && nll <= before.nll)
            memcpy(theta, next, (size_t)n * sizeof *theta);
    }
    free(g);
}

/* The fit goes on until its gradient is next to nothing. What is left of it bends the likelihood along parameters that are not
   identified, which looks like a maximum. Where that gains more than rounding the fit had come to rest on a saddle: then it goes
   on as far as it takes, and the report is of its new end. */
static inline void estimates_polish(pu_model *model, const pu_data *data, const pu_options *options, pu_fit_report *report,
                                    pu_real *theta)
{
    pu_fit_options more;
    pu_fit_report again;
    memset(&more, 0, sizeof more);
    more.optimizer = PU_LBFGS, more.gradient = *options;
    more.tolerance = 1e-9 * (1 + fabs(report->best));
    (void)pu_fit(model, data, &more, NULL, theta, &again); /* where it fails theta is no worse than it was */
    if (!((double)data->n * (report->best - again.best) > 1e-4)) return;
    more.tolerance = 0, more.steps = report->steps;
    need_fit(pu_fit(model, data, &more, NULL, theta, &again), &again);
    again.step += report->step, again.gradients += report->gradients, again.seconds = report->seconds;
    *report = again;
}

/* After a fit: theta refined, and its covariance C (params x params). options: exact ones. 0, and NaN, where the fit has not
   converged or its end is no minimum. The report is another one where the fit had to go on. */
static inline int estimates_errors(pu_model *model, const pu_data *data, const pu_options *options, const fit_flags *flags,
                                   pu_fit_report *report, pu_real *theta, pu_real *C)
{
    const double one = report->seconds / (double)(report->gradients > 0 ? report->gradients : 1);
    pu_int i;
    for (i = 0; i < model->params * model->params; i++) C[i] = (pu_real)NAN;
    if (!fit_converged(report)) return 0;
    if (estimates_covariance(model, data, options, flags, one, theta, C)) estimates_refine(model, data, options, C, theta);
    else estimates_polish(model, data, options, report, theta);
    if (!fit_converged(report)) return 0;
    return estimates_covariance(model, data, options, flags, one, theta, C);
}

/* ---- natural values ---- */

/* d natural / d theta at the natural value x */
static inline double estimate_derivative(const pu_param *param, double x)
{
    switch (param->scale) {
    case PU_SCALE_LOG: return x;
    case PU_SCALE_ATANH: return 1 - x * x;
    case PU_SCALE_LOGIT: return (x - param->lower) * (param->upper - x) / (param->upper - param->lower);
    default: return 1;
    }
}

/* From an entry of theta, its variance, and the entry it was simulated with (NaN: none); the name is left alone. */
static inline void estimate_make(const pu_param *param, pu_real theta, pu_real variance, double truth, estimate *e)
{
    const double se = sqrt((double)variance), at = (double)theta;
    e->value = pu_param_natural(param, at);
    e->se = se * estimate_derivative(param, e->value);
    e->low = pu_param_natural(param, at - 1.96 * se), e->high = pu_param_natural(param, at + 1.96 * se);
    e->truth = truth == truth ? pu_param_natural(param, truth) : (double)NAN;
}

/* A parameter that is fixed. */
static inline void estimate_fixed(const char *name, double value, estimate *e)
{
    snprintf(e->name, sizeof e->name, "%s", name);
    e->value = value, e->se = e->low = e->high = e->truth = (double)NAN;
}

/* phi of an autoregression of order P, called name[0] .., from its partial autocorrelations, whose covariance on the scale of
   theta is the upper left P x P of C, with n numbers in a row: the delta method. sign = -1: theta of a moving average, which is to
   gamma.ma what -phi is to -gamma. Returns P. */
static inline int estimate_phi(int P, int sign, const pu_real *C, pu_int n, const estimate *gamma, estimate *out, const char *name)
{
    double *J = (double *)need_bytes((size_t)(2 * P * (P + 1) + 1) * sizeof *J);
    double *unused = J + P * P, *phi = unused + P * P, *truth = phi + P;
    pu_real *at = need_reals(P + 1);
    int i, j, k;
    for (i = 0; i < P; i++) at[i] = (pu_real)(sign * gamma[i].truth);
    ar_derivatives(P, at, truth, unused);
    for (i = 0; i < P; i++) at[i] = (pu_real)(sign * gamma[i].value);
    ar_derivatives(P, at, phi, J);
    for (k = 0; k < P; k++) {
        double variance = 0;
        for (i = 0; i < P; i++)
            for (j = 0; j < P; j++) /* C is NaN where a parameter is not identified, which matters only where it enters */
                if (J[k * P + i] != 0 && J[k * P + j] != 0) variance += J[k * P + i] * J[k * P + j] * (double)C[i * n + j];
        snprintf(out[k].name, sizeof out[k].name, "%s[%d]", name, k);
        out[k].value = sign * phi[k], out[k].se = sqrt(variance), out[k].truth = sign * truth[k];
        out[k].low = out[k].value - 1.96 * out[k].se, out[k].high = out[k].value + 1.96 * out[k].se;
    }
    free(J), free(at);
    return P;
}

/* Coefficients of the columns of the file from those of the columns of s->X, which have centres and scales: entries at[0] ..
   of theta (n of them, covariance C), the intercept, if there is one, first. Names are left alone. */
static inline void estimate_regressors(const series *s, const pu_real *theta, const pu_real *C, pu_int n, const pu_int *at,
                                       const pu_real *truth, estimate *e)
{
    const pu_int p = s->regressors;
    double *w = (double *)need_bytes((size_t)p * sizeof *w);
    pu_int j, k, l;
    for (j = 0; j < p; j++) {
        double variance = 0;
        for (k = 0; k < p; k++) w[k] = 0; /* natural value j = w'b */
        for (k = 1; k < p && j == 0; k++) w[k] = -s->centre[k] / s->scale[k];
        w[j] = 1 / s->scale[j];
        e[j].value = 0, e[j].truth = truth ? 0 : (double)NAN;
        for (k = 0; k < p; k++) {
            e[j].value += w[k] * (double)theta[at[k]];
            if (truth) e[j].truth += w[k] * (double)truth[at[k]];
            for (l = 0; l < p; l++)
                if (w[k] != 0 && w[l] != 0) variance += w[k] * w[l] * (double)C[at[k] * n + at[l]];
        }
        e[j].se = sqrt(variance);
        e[j].low = e[j].value - 1.96 * e[j].se, e[j].high = e[j].value + 1.96 * e[j].se;
    }
    free(w);
}

/* The same where they are the last entries of theta: e[0] .., with names. */
static inline void estimate_last(const series *s, const pu_real *theta, const pu_real *C, pu_int n, const pu_real *truth,
                                 estimate *e)
{
    pu_int *at = (pu_int *)need_bytes((size_t)s->regressors * sizeof *at), j;
    for (j = 0; j < s->regressors; j++) {
        at[j] = n - s->regressors + j;
        snprintf(e[j].name, sizeof e[j].name, "b.%s", s->regressor[j]);
    }
    estimate_regressors(s, theta, C, n, at, truth, e);
    free(at);
}

/* ---- what is told ---- */

static inline void print_number(double x, int width, int digits)
{
    if (x == x) printf(" %*.*g", width, digits, x);
    else printf(" %*s", width, "-");
}

/* truth: whether there is one to print beside. */
static inline void estimates_print(int count, const estimate *e, int truth)
{
    int k;
    printf("                          estimate   std. error   95 %% interval%s\n", truth ? "                   truth" : "");
    for (k = 0; k < count; k++) {
        printf("  %-20s", e[k].name);
        print_number(e[k].value, 13, 6), print_number(e[k].se, 12, 3), print_number(e[k].low, 12, 4);
        printf(" .. "), print_number(e[k].high, 0, 4);
        if (truth) printf("  (%.4g)", e[k].truth);
        printf("\n");
    }
}

/* Below the table: why there are no standard errors. */
static inline void estimates_explain(const pu_fit_report *report, int has_errors)
{
    if (!fit_converged(report)) printf("  no standard errors: the fit has not converged (more --steps?)\n");
    else if (!has_errors) printf("  no standard errors: this is no minimum\n");
    if (report->stop == PU_FIT_BOUNDARY) printf("  %s is at its boundary, and has no standard error\n", report->boundary_name);
}

/* What makes the results of a fit doubtful, right below the answer of a page. Among the estimates those without an error are named;
   count 0: they are meant to have none. */
static inline void report_doubts(const report_page *r, const pu_fit_report *report, int has_errors, int count, const estimate *e)
{
    char names[200] = "";
    int k, open = 0;
    if (fit_interrupted) report_warning(r, "Interrupted: all that follows is of step %ld of %ld.", (long)report->step, (long)report->steps);
    else if (!fit_converged(report))
        report_warning(
            r,
            "The fit has not converged (%s, step %ld): all that follows is of a fit under way, and has no standard errors. More --steps?",
            pu_fit_stop_text(report->stop), (long)report->step);
    else if (!has_errors) report_warning(r, "The fit came to rest where the likelihood has no minimum: there are no standard errors.");
    if (report->status == PU_INEXACT)
        report_warning(r, "Rounding has taken half of the digits or more; relative errors may be up to %.2g.",
                       report->last.rounding_error);
    if (report->stop == PU_FIT_BOUNDARY)
        report_warning(r, "%s came to rest at the boundary of what it can be, and has no standard error.", report->boundary_name);
    for (k = 0; k < count && has_errors && report->stop != PU_FIT_BOUNDARY; k++)
        if (e[k].se != e[k].se && open++ < 4)
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s%.40s", *names ? ", " : "", e[k].name);
    if (open)
        report_warning(r, "%s%s: no standard error, the data do not identify %s.", names, open > 4 ? " and others" : "",
                       open > 1 ? "them" : "it");
}

/* A table of them, the first sixty. truth: whether there is one. */
static inline void report_estimates(const report_page *r, int count, const estimate *e, int truth, const char *note)
{
    enum { MOST = 60 };
    char more[400];
    int k;
    report_table(r, truth ? "parameter|estimate|std. error|95 % from|to|truth" : "parameter|estimate|std. error|95 % from|to");
    for (k = 0; k < count && k < MOST; k++) {
        report_row(r, e[k].name);
        report_number(r, 5, e[k].value), report_number(r, 2, e[k].se), report_number(r, 4, e[k].low), report_number(r, 4, e[k].high);
        if (truth) report_number(r, 4, e[k].truth);
    }
    snprintf(more, sizeof more, "%s%.340s", count > MOST ? "The first 60; --json has all of them. " : "", note);
    report_table_end(r, more);
}

static inline void json_converged(json *j, const pu_fit_report *report)
{
    json_key(j, "converged");
    if (j->file) fprintf(j->file, fit_converged(report) ? "true" : "false");
    json_text(j, "stop", pu_fit_stop_text(report->stop));
    json_text(j, "boundary", report->boundary_name);
}

/* The estimates as an object: their values, or their standard errors. */
static inline void json_object(json *j, int count, const estimate *e, int errors)
{
    int k;
    if (!j->file) return;
    fprintf(j->file, "{");
    for (k = 0; k < count; k++) {
        if (k) fprintf(j->file, ", ");
        json_string(j, e[k].name);
        fprintf(j->file, ": ");
        json_value(j, errors ? e[k].se : e[k].value);
    }
    fprintf(j->file, "}");
}

static inline void json_estimates(json *j, const char *key, int count, const estimate *e, int errors)
{
    json_key(j, key);
    json_object(j, count, e, errors);
}

#endif /* EXAMPLES_ESTIMATES_H */
