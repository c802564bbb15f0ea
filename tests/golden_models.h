/* golden_models.h - the second of three parts of golden.c: makes a pu_lgm and data out of a file's records.

   A file names its model. `models`, the table near the end, has two functions for each name: one makes the model out
   of the theta.* and extra.* records, the other turns the gradients that the library returns into gradients with
   respect to the theta.* records. To add a model, write these two and a line of the table. A model that the library
   already has as a pu_model (factor analysis, sparse learning ..) needs a line in make_named only, and one in
   theta_order where its parameters have new names. */
#ifndef GOLDEN_MODELS_H
#define GOLDEN_MODELS_H

#include "golden_file.h"

/* Rounding unit and name of the precision that this program is built for. */
#ifdef PU_FLOAT
#define EPS       ((double)FLT_EPSILON)
#define PRECISION "float"
#else
#define EPS       DBL_EPSILON
#define PRECISION "double"
#endif

/* Gradients as the library returns them: of nu, eta, psi and of the operators' own parameters. */
typedef struct {
    pu_real *nu, *Gamma, *Phi, *eta, *psi;
} gradient;

typedef struct problem problem;
typedef struct file_score file_score; /* results of the comparisons, in golden.c */

typedef struct family {
    const char *name;
    /* Makes p->lgm out of the theta.* and extra.* records, read with input(). The operators, in p->prior and p->map
       or in memory of take(), live as long as p->f. 0 after fail(). */
    int (*setup)(problem *p);
    /* out: the gradient of one theta record, from the gradients that the library returned. */
    void (*pull_back)(problem *p, const gradient *g, const record *theta, double *out);
} family;

struct problem {
    file *f;
    const family *model;
    pu_model named; /* fa, ppca, sbl, blr, nlm */
    pu_int D, M, N, K;
    pu_op prior, map;
    pu_fourier *fourier; /* sbl on a grid */
    pu_ar *ar;           /* ar, ar_phi */
    pu_int states;       /* ssm */
    pu_lgm lgm;
    pu_data data;
    pu_real *y, *delta, *minv, *step;
    unsigned char *mask;
    pu_workspace ws;
    const double *A, *Sigma, *b; /* as stored: the systems A [b | u], and Sigma = A^-1 */
    const double *u, *m;         /* right-hand sides of the probes; diagonal of the preconditioner */
    double c;                    /* largest |c| */
    double cond;                 /* of A, a bound */
    double rounding;             /* 16 eps cond */
    double floor_;               /* smallest tolerance */
    file_score *score;
};

/* ---- records as inputs ----------------------------------------------------------------------- */

/* The size that a letter stands for. */
static pu_int size_of_letter(const problem *p, char letter)
{
    if (letter == 'D') return p->D;
    if (letter == 'M') return p->M;
    if (letter == 'N') return p->N;
    return p->K;
}

/* Does the record hold numbers of shape dims, e.g. "NKD"? */
static int has_shape(const problem *p, const record *r, const char *dims)
{
    int i;
    if (r->text || r->ndim != (int)strlen(dims)) return 0;
    for (i = 0; i < r->ndim; i++) {
        if (r->dim[i] != (size_t)size_of_letter(p, dims[i])) return 0;
    }
    return 1;
}

/* A record that a check needs, of shape dims. NULL after a message when it is missing or has another shape. */
static record *need(problem *p, const char *name, const char *dims)
{
    record *r = find(p->f, name);
    if (!r) {
        fail(p->f, "%s: no such record", name);
        return NULL;
    }
    if (has_shape(p, r, dims)) return r;
    fail(p->f, "line %d: %s: has not the shape (%s)", r->line, name, dims);
    r->use = CHECKED;
    return NULL;
}

/* The numbers of a record that the model or the data are made of. NULL after a message. */
static const double *input(problem *p, const char *name, const char *dims)
{
    record *r = need(p, name, dims);
    if (!r) return NULL;
    if (r->use == UNUSED) r->use = INPUT;
    return r->value;
}

/* A record of any shape, as input. NULL after a message. */
static const record *input_record(problem *p, const char *name)
{
    record *r = find(p->f, name);
    if (!r) fail(p->f, "%s: missing", name);
    else if (r->use == UNUSED) r->use = INPUT;
    return r;
}

/* A scalar; 0 after a message. */
static double input_scalar(problem *p, const char *name)
{
    const double *v = input(p, name, "");
    return v ? *v : 0;
}

/* A whole number from 1 to 1000; 0 after a message. */
static pu_int input_size(problem *p, const char *name)
{
    const double *value = input(p, name, "");
    if (!value) return 0;
    if (*value >= 1 && *value <= 1000 && floor(*value) == *value) return (pu_int)*value;
    fail(p->f, "line %d: %s: not a size", find(p->f, name)->line, name);
    return 0;
}

/* A text; NULL after a message. */
static const char *input_text(file *f, const char *name)
{
    record *r = find(f, name);
    if (!r || !r->text) {
        fail(f, "%s: no such string record", name);
        return NULL;
    }
    r->use = INPUT;
    return r->text;
}

/* A record's numbers, rounded to the precision of the library. */
static pu_real *rounded(problem *p, const record *r)
{
    pu_real *x = take_reals(p->f, (pu_int)r->count);
    size_t i;
    for (i = 0; i < r->count; i++) x[i] = (pu_real)r->value[i];
    return x;
}

/* input() and rounded() in one. */
static pu_real *input_reals(problem *p, const char *name, const char *dims)
{
    return input(p, name, dims) ? rounded(p, find(p->f, name)) : NULL;
}

/* Is there a record whose name begins like this? */
static int has_records(const problem *p, const char *prefix)
{
    size_t i;
    for (i = 0; i < p->f->count; i++) {
        if (strncmp(p->f->records[i].name, prefix, strlen(prefix)) == 0) return 1;
    }
    return 0;
}

/* The name behind "theta.", or NULL for any other record. */
static const char *theta_name(const record *r)
{
    return strncmp(r->name, "theta.", 6) == 0 ? r->name + 6 : NULL;
}

/* Is this the record "theta.<name>"? */
static int is_theta(const record *r, const char *name)
{
    return theta_name(r) && strcmp(theta_name(r), name) == 0;
}

/* max |v_i| */
static double largest(size_t n, const double *v)
{
    double m = 0;
    size_t i;
    for (i = 0; i < n; i++) {
        if (fabs(v[i]) > m) m = fabs(v[i]);
    }
    return m;
}

/* out = from, in double */
static void copy_out(size_t n, const pu_real *from, double *out)
{
    size_t i;
    for (i = 0; i < n; i++) out[i] = (double)from[i];
}

/* ---- model "generic": dense operators, every parameter free ---------------------------------- */

/* The record "theta.Gamma" as a symmetric matrix: its two triangles may differ in the last digit. */
static pu_real *symmetrised(problem *p, const double *G)
{
    const pu_int D = p->D;
    pu_real *Gamma = take_reals(p->f, D * D);
    pu_int i, j;
    for (i = 0; i < D; i++) {
        for (j = 0; j < D; j++) Gamma[i * D + j] = (pu_real)((G[i * D + j] + G[j * D + i]) / 2);
    }
    return Gamma;
}

/* Dense operators from theta.nu, Gamma, Phi, eta and psi. */
static int setup_generic(problem *p)
{
    pu_real *nu = input_reals(p, "theta.nu", "D");
    const double *G = input(p, "theta.Gamma", "DD");
    pu_real *Phi = input_reals(p, "theta.Phi", "MD");
    pu_real *eta = input_reals(p, "theta.eta", "M");
    pu_real *psi = input_reals(p, "theta.psi", "M");
    pu_real *Gamma, *factor;
    pu_status status;
    if (!nu || !G || !Phi || !eta || !psi) return 0;
    Gamma = symmetrised(p, G);
    factor = take_reals(p->f, p->D * p->D);
    status = pu_spd_factor(p->D, Gamma, factor, NULL);
    if (status != PU_OK) fail(p->f, "Gamma: pu_spd_factor: %s", pu_status_text(status));
    p->prior = pu_op_spd(p->D, Gamma, factor);
    p->map = pu_op_dense(p->M, p->D, Phi);
    p->lgm.Gamma = &p->prior;
    p->lgm.Phi = &p->map;
    p->lgm.nu = nu;
    p->lgm.eta = eta;
    p->lgm.psi = psi;
    return status == PU_OK;
}

/* theta is what the library's gradients are of. */
static void pull_generic(problem *p, const gradient *g, const record *theta, double *out)
{
    const pu_real *from = g->psi;
    (void)p;
    if (is_theta(theta, "nu")) from = g->nu;
    if (is_theta(theta, "Gamma")) from = g->Gamma;
    if (is_theta(theta, "Phi")) from = g->Phi;
    if (is_theta(theta, "eta")) from = g->eta;
    copy_out(theta->count, from, out);
}

/* ---- models that the library has as a pu_model: fa, ppca, sbl, blr, nlm ---------------------- */

/* sbl on a grid: p->map becomes Fourier sensing. The other records of such a file say the same once more. */
static int setup_fourier(problem *p)
{
    const record *grid = input_record(p, "extra.grid");
    pu_fourier *f = (pu_fourier *)take(p->f, 1, sizeof *f);
    pu_int rows = 0, cols = 0;
    size_t bytes = 0;
    pu_status status;
    input_record(p, "extra.Phi");
    input_record(p, "extra.fmask");
    input_record(p, "extra.y_re");
    input_record(p, "extra.y_im");
    if (grid->count == 2) {
        rows = (pu_int)grid->value[0];
        cols = (pu_int)grid->value[1];
    }
    status = pu_fourier_bytes(rows, cols, &bytes);
    if (status == PU_OK) status = pu_fourier_init(f, rows, cols, take(p->f, bytes, 1), bytes);
    if (status != PU_OK) {
        fail(p->f, "extra.grid: %s", pu_status_text(status));
        return 0;
    }
    p->fourier = f;
    p->map = pu_op_fourier(f);
    return 1;
}

/* The given Phi of sbl and blr: Fourier sensing where the file has a grid, else a matrix. */
static int setup_dictionary(problem *p)
{
    const char *name = find(p->f, "extra.X") ? "extra.X" : "extra.Phi";
    if (find(p->f, "extra.grid")) return setup_fourier(p);
    p->map = pu_op_dense(p->M, p->D, input_reals(p, name, "MD"));
    return p->map.data != NULL;
}

/* nlm: inputs X (M x features) and the layers W1 and, for linear features, W2. */
static pu_status make_neural(problem *p, pu_report *report)
{
    const record *X = input_record(p, "extra.X");
    const record *form = input_record(p, "extra.features");
    const record *W1 = find(p->f, "theta.W1");
    const record *W2 = find(p->f, "theta.W2");
    int ok = X && form && form->text && W1;
    ok = ok && X->ndim == 2 && X->dim[0] == (size_t)p->M;
    ok = ok && W1->ndim == 2 && W1->dim[1] == X->dim[1];
    ok = ok && (strcmp(form->text, "linear") == 0) == (W2 != NULL);
    if (!ok) {
        fail(p->f, "extra.X, extra.features, theta.W1, theta.W2 do not agree");
        return PU_E_SIZE;
    }
    return pu_model_neural(&p->named, p->M, (pu_int)X->dim[1], rounded(p, X), (pu_int)W1->dim[0], W2 ? p->D : 0,
                           report);
}

/* Makes p->named; its parameters are not set yet. */
static pu_status make_named(problem *p, pu_report *report)
{
    const char *name = p->model->name;
    if (strcmp(name, "fa") == 0) return pu_model_factors(&p->named, p->M, p->D, report);
    if (strcmp(name, "ppca") == 0) return pu_model_ppca(&p->named, p->M, p->D, report);
    if (strcmp(name, "nlm") == 0) return make_neural(p, report);
    if (!setup_dictionary(p)) return PU_E_ARGUMENT;
    if (strcmp(name, "sbl") == 0) return pu_model_sparse(&p->named, &p->map, report);
    return pu_model_regression(&p->named, &p->map, report);
}

/* Parameters of all these models, in the order in which a pu_model has them in its theta. */
static const char *const theta_order[] = {"Phi", "eta", "log_psi", "W1", "b1", "W2", "b2", "log_alpha", "log_beta"};

/* The offset of "theta.<name>" in the theta of the pu_model, or, for a NULL name, the length of theta. */
static pu_int theta_offset(const problem *p, const char *name)
{
    pu_int offset = 0;
    char full[MAX_NAME];
    size_t i;
    for (i = 0; i < sizeof theta_order / sizeof *theta_order; i++) {
        const record *part;
        if (name && strcmp(theta_order[i], name) == 0) return offset;
        snprintf(full, sizeof full, "theta.%s", theta_order[i]);
        part = find(p->f, full);
        if (part) offset += (pu_int)part->count;
    }
    return offset;
}

/* Does a pu_model have parameters of this name? */
static int is_in_order(const char *name)
{
    size_t i;
    for (i = 0; i < sizeof theta_order / sizeof *theta_order; i++) {
        if (strcmp(theta_order[i], name) == 0) return 1;
    }
    return 0;
}

/* All theta.* records in one vector of `params` entries, in the order of the pu_model. */
static pu_real *gather_theta(problem *p, pu_int params)
{
    pu_real *theta = take_reals(p->f, params);
    size_t i, j;
    for (i = 0; i < p->f->count; i++) {
        record *part = &p->f->records[i];
        const char *name = theta_name(part);
        pu_int offset;
        if (!name || !is_in_order(name)) continue;
        if (part->use == UNUSED) part->use = INPUT;
        offset = theta_offset(p, name);
        for (j = 0; j < part->count; j++) theta[offset + (pu_int)j] = (pu_real)part->value[j];
    }
    return theta;
}

/* The library's own model, with theta gathered from the records. */
static int setup_named(problem *p)
{
    const pu_int params = theta_offset(p, NULL);
    pu_report report;
    pu_status status;
    char text[256];
    memset(&report, 0, sizeof report);
    status = make_named(p, &report);
    if (p->f->errors) return 0;
    if (status == PU_OK && params != p->named.params) {
        fail(p->f, "theta has %ld entries, the model wants %ld", (long)params, (long)p->named.params);
        return 0;
    }
    if (status == PU_OK) status = pu_model_set(&p->named, gather_theta(p, params), &report);
    if (status != PU_OK) fail(p->f, "%s: %s", p->model->name, pu_explain(&report, text, sizeof text));
    p->lgm = p->named.lgm;
    return status == PU_OK;
}

/* Through the model's own pull, which is given nothing but the gradients it says it uses. */
static void pull_named(problem *p, const gradient *g, const record *theta, double *out)
{
    const unsigned uses = p->named.uses;
    pu_real *grad = take_nan(p->f, p->named.params);
    pu_gradient_result r;
    memset(&r, 0, sizeof r);
    if (uses & PU_USES_NU) r.nu = g->nu;
    if (uses & PU_USES_GAMMA) r.Gamma = g->Gamma;
    if (uses & PU_USES_PHI) r.Phi = g->Phi;
    if (uses & PU_USES_ETA) r.eta = g->eta;
    if (uses & PU_USES_PSI) r.psi = g->psi;
    if (p->named.grad(&p->named, &r, grad) != PU_OK) fail(p->f, "pull failed");
    copy_out(theta->count, grad + theta_offset(p, theta_name(theta)), out);
}

/* ---- time series: ar, ar_phi, ssm ------------------------------------------------------------ */

/* n entries, all exp(log_value) */
static pu_real *exponentials(problem *p, pu_int n, double log_value)
{
    pu_real *x = take_reals(p->f, n);
    pu_int i;
    for (i = 0; i < n; i++) x[i] = (pu_real)exp(log_value);
    return x;
}

/* The model with the operators in p->prior and p->map, zero means and this psi; 0 when the sizes do not agree. */
static int finish_series(problem *p, pu_real *psi)
{
    p->lgm.Gamma = &p->prior;
    p->lgm.Phi = &p->map;
    p->lgm.nu = NULL;
    p->lgm.eta = NULL;
    p->lgm.psi = psi;
    return p->prior.rows == p->D && p->map.rows == p->M && p->map.cols == p->D;
}

/* The derivative by log lambda, where every psi_i = 1 / lambda. */
static double pull_log_lambda(const problem *p, const gradient *g)
{
    double sum = 0;
    pu_int i;
    for (i = 0; i < p->M; i++) sum += -(double)p->lgm.psi[i] * (double)g->psi[i];
    return sum;
}

/* The coefficients phi that the library made must be those of the file. */
static void check_phi(problem *p, const record *phi)
{
    size_t i;
    for (i = 0; i < phi->count; i++) {
        const double off = fabs((double)p->ar->phi[i] - phi->value[i]);
        if (!(off <= 100 * EPS)) fail(p->f, "extra.phi: entry %d differs", (int)i);
    }
}

/* Noisy autoregression, by partial autocorrelations ("ar") or by coefficients ("ar_phi"). */
static int setup_ar(problem *p)
{
    const int by_phi = find(p->f, "theta.phi") != NULL;
    const record *coefficients = input_record(p, by_phi ? "theta.phi" : "theta.gamma");
    const record *phi = input_record(p, "extra.phi");
    double kappa, log_lambda;
    pu_real *value;
    pu_int order;
    pu_status status;
    if (by_phi) {
        kappa = input_scalar(p, "theta.kappa");
        log_lambda = log(input_scalar(p, "theta.lambda"));
    } else {
        kappa = exp(input_scalar(p, "theta.log_kappa"));
        log_lambda = input_scalar(p, "theta.log_lambda");
    }
    /* the operator has no such matrix, so nothing is compared with these */
    input_record(p, "extra.P");
    input_record(p, "extra.galbraith_D");
    input_record(p, "extra.logdet_galbraith_D");
    if (!coefficients || !phi) return 0;
    if (coefficients->count > PU_AR_MAX || phi->count != coefficients->count) {
        fail(p->f, "%s, extra.phi: too long, or not of the same length", coefficients->name);
        return 0;
    }
    order = (pu_int)coefficients->count;
    value = rounded(p, coefficients);
    p->ar = (pu_ar *)take(p->f, 1, sizeof *p->ar);
    if (by_phi) status = pu_ar_set_phi(p->ar, p->D, order, value, (pu_real)kappa, NULL);
    else status = pu_ar_set(p->ar, p->D, order, value, (pu_real)kappa, NULL);
    if (status == PU_OK) check_phi(p, phi);
    else fail(p->f, "%s: %s", coefficients->name, pu_status_text(status));
    p->prior = pu_op_ar(p->ar);
    p->map = pu_op_identity(p->D);
    return status == PU_OK && finish_series(p, exponentials(p, p->M, -log_lambda));
}

/* Gamma's parameters are the partial autocorrelations and kappa; lambda comes through psi. */
static void pull_ar(problem *p, const gradient *g, const record *theta, double *out)
{
    const pu_int order = p->ar->order;
    pu_real by_phi[PU_AR_MAX];
    if (is_theta(theta, "gamma")) copy_out(theta->count, g->Gamma, out);
    if (is_theta(theta, "phi")) {
        pu_ar_phi_grad(p->ar, g->Gamma, by_phi);
        copy_out(theta->count, by_phi, out);
    }
    if (is_theta(theta, "kappa")) out[0] = (double)g->Gamma[order];
    if (is_theta(theta, "log_kappa")) out[0] = (double)p->ar->kappa * (double)g->Gamma[order];
    if (is_theta(theta, "log_lambda")) out[0] = pull_log_lambda(p, g);
    /* d log lambda = psi d lambda */
    if (is_theta(theta, "lambda")) out[0] = pull_log_lambda(p, g) * (double)p->lgm.psi[0];
}

/* State space: A, Q, readout c and noise; Q is symmetrised as Gamma of the generic model is. */
static int setup_ssm(problem *p)
{
    const record *A = input_record(p, "theta.A");
    const record *Q = input_record(p, "theta.Q");
    const record *c = input_record(p, "theta.c");
    const record *init = input_record(p, "extra.init");
    const double log_sigma2 = input_scalar(p, "theta.log_sigma2");
    const pu_int S = (pu_int)input_scalar(p, "extra.S");
    pu_ssm *m = (pu_ssm *)take(p->f, 1, sizeof *m);
    pu_real *a, *q;
    pu_status status;
    pu_int i, j;
    if (!A || !Q || !c || !init) return 0;
    if (!init->text || S <= 0 || S > PU_SSM_MAX || A->count != (size_t)(S * S) || Q->count != A->count ||
        c->count != (size_t)S) {
        fail(p->f, "extra.S, extra.init, theta.A, theta.Q, theta.c do not agree");
        return 0;
    }
    a = rounded(p, A);
    q = take_reals(p->f, S * S);
    for (i = 0; i < S; i++) {
        for (j = 0; j < S; j++) q[i * S + j] = (pu_real)((Q->value[i * S + j] + Q->value[j * S + i]) / 2);
    }
    p->states = S;
    status = pu_ssm_set(m, p->M, S, a, q, strcmp(init->text, "zero") == 0 ? PU_SSM_ZERO : PU_SSM_STATIONARY, NULL,
                        NULL);
    if (status != PU_OK) fail(p->f, "theta.A, theta.Q: %s", pu_status_text(status));
    p->prior = pu_op_ssm(m);
    p->map = pu_op_readout(p->M, S, rounded(p, c));
    return status == PU_OK && finish_series(p, exponentials(p, p->M, -log_sigma2));
}

/* Gamma's parameters are A and Q, Phi's is the readout c; sigma^2 comes through psi. */
static void pull_ssm(problem *p, const gradient *g, const record *theta, double *out)
{
    if (is_theta(theta, "A")) copy_out(theta->count, g->Gamma, out);
    if (is_theta(theta, "Q")) copy_out(theta->count, g->Gamma + p->states * p->states, out);
    if (is_theta(theta, "c")) copy_out(theta->count, g->Phi, out);
    if (is_theta(theta, "log_sigma2")) out[0] = pull_log_lambda(p, g);
}

/* ---- the table ------------------------------------------------------------------------------- */

static const family models[] = {
    {"generic", setup_generic, pull_generic},
    {"fa", setup_named, pull_named},
    {"ppca", setup_named, pull_named},
    {"sbl", setup_named, pull_named},
    {"blr", setup_named, pull_named},
    {"nlm", setup_named, pull_named},
    {"ar", setup_ar, pull_ar},
    {"ar_phi", setup_ar, pull_ar},
    {"ssm", setup_ssm, pull_ssm},
};

/* The functions of a model's name, or NULL. */
static const family *find_model(const char *name)
{
    size_t i;
    for (i = 0; i < sizeof models / sizeof *models; i++) {
        if (strcmp(models[i].name, name) == 0) return &models[i];
    }
    return NULL;
}

/* ---- the problem of a file ------------------------------------------------------------------- */

/* y and the mask. Entries of y that are missing become NaN: the library must never read them. */
static int setup_data(problem *p)
{
    const double *mask = input(p, "mask", "NM");
    pu_int i, count = p->N * p->M;
    p->y = input_reals(p, "y", "NM");
    if (!mask || !p->y) return 0;
    p->mask = (unsigned char *)take(p->f, (size_t)count, 1);
    for (i = 0; i < count; i++) {
        p->mask[i] = (unsigned char)(mask[i] != 0);
        if (!p->mask[i]) p->y[i] = (pu_real)NAN;
        if (mask[i] != 0 && mask[i] != 1) {
            fail(p->f, "line %d: mask: an entry is neither 0 nor 1", find(p->f, "mask")->line);
            return 0;
        }
    }
    p->data = pu_data_masked(p->N, p->M, p->y, p->mask);
    return 1;
}

/* Sizes, probes, settings of the solvers and the stored systems. 0 after a message. */
static int setup_systems(problem *p)
{
    const record *A, *Sigma, *b, *c;
    p->D = input_size(p, "D");
    p->M = input_size(p, "M");
    p->N = input_size(p, "N");
    p->K = input_size(p, "K");
    if (p->f->errors) return 0;
    p->delta = input_reals(p, "probe.delta", "NKD");
    p->minv = input_reals(p, "minv", "ND");
    p->step = input_reals(p, "gd_step", "N");
    A = need(p, "exact.A", "NDD");
    Sigma = need(p, "exact.Sigma", "NDD");
    b = need(p, "exact.b", "ND");
    c = need(p, "exact.c", "N");
    if (!setup_data(p) || p->f->errors) return 0;
    p->A = A->value;
    p->Sigma = Sigma->value;
    p->b = b->value;
    p->u = input(p, "probe.delta", "NKD");
    p->m = input(p, "minv", "ND");
    p->c = largest(c->count, c->value);
    return 1;
}

/* Everything that the checks work on, out of the records of f. 0 after a message: with a record that is missing or
   of another shape there is no model to check. */
static int setup(problem *p, file *f)
{
    const char *name;
    memset(p, 0, sizeof *p);
    p->f = f;
    input_text(f, "case");
    name = input_text(f, "model");
    if (!name) return 0;
    p->model = find_model(name);
    if (!p->model) {
        fail(f, "model: \"%s\" is unknown", name);
        return 0;
    }
    return setup_systems(p) && p->model->setup(p) && f->errors == 0;
}

#endif /* GOLDEN_MODELS_H */
