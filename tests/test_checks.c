/* test_checks.c - pu_op_check and pu_model_check: mistakes are planted, one at a time, in an operator and in a model as a
   user writes them, and must be found, under the right name; every built-in operator and model must pass with room. */
#include "pu_test.h"
#include "test_common.h"
#include "op_fixtures.h"

/* ---- an operator with everything: the precision of a chain, t (1 + a^2) I - t a (neighbours), ends t ---------- */

typedef enum {
    RIGHT,
    IGNORES_ADD,
    ALWAYS_ADDS,
    IGNORES_LD,
    READS_BEYOND,
    FIRST_COLUMN_ONLY,
    UNDECLARED_SCRATCH,
    SCRATCH_OVERRUN,
    READS_OLD_SCRATCH,
    WRITES_OUTSIDE,
    CHANGES_INPUT,
    HAS_STATE,
    FAILS,
    NOT_LINEAR,
    WRONG_TRANSPOSE,
    NOT_SYMMETRIC,
    NOT_DEFINITE,
    WRONG_GRAD,
    GRAD_OVERWRITES,
    GRAD_WITHOUT_WEIGHT,
    GRAD_OVERRUN,
    WRONG_DIAG,
    DIAG_OVERWRITES,
    WRONG_GRAM_DIAG,
    WRONG_SAMPLE,
    SHORT_NOISE,
    WRONG_SOLVE,
    WRONG_LOGDET,
    WRONG_LOGDET_GRAD,
    LOGDET_GRAD_WITHOUT_WEIGHT,
    WRONG_CONDITION,
    WRONG_APPLY_ROWS,
    WRONG_APPLY_ROWS_T,
    WRONG_GRAD_ROWS,
    WRONG_BAND_ADD,
    BAND_TOO_NARROW,
    WRONG_BAND_GRAD,
    WRONG_ROW,
    ROW_OUTSIDE,
    ROW_OVERRUN,
    WRONG_ROW_GRAD,
    REFUSED_BY_CHECK
} mistake;

static mistake planted;
static int calls; /* of apply: the state that an operator must not have */

typedef struct {
    pu_real a, t;
} chain;

enum { LENGTH = 11 };

/* Entry (i, j) of the matrix, and its derivatives in a and t. */
static double entry_of(const chain *c, pu_int n, pu_int i, pu_int j, int derivative)
{
    double a = (double)c->a, t = (double)c->t, inner = i > 0 && i < n - 1;
    if (planted == NOT_DEFINITE) t = -t;
    if (i == j && derivative == 0) return t * (1 + inner * a * a) + (planted == REFUSED_BY_CHECK);
    if (i == j) return derivative == 1 ? 2 * t * inner * a : 1 + inner * a * a;
    if (i - j != 1 && j - i != 1) return 0;
    if (planted == NOT_SYMMETRIC && i < j) a *= 1.01;
    if (derivative == 0) return -t * a;
    return derivative == 1 ? -t : -a;
}

static double element(const pu_op *op, pu_int i, pu_int j, int derivative)
{
    return entry_of((const chain *)op->data, op->rows, i, j, derivative);
}

static pu_status product(const pu_op *op, pu_int n, const pu_int *rows, pu_int k, pu_block X, pu_block Y, int add,
                         int transposed, double factor)
{
    pu_int nx = transposed ? n : op->cols, ny = transposed ? op->cols : n;
    for (pu_int c = 0; c < k; c++) {
        const pu_real *x = X.at + c * (planted == IGNORES_LD ? nx : X.ld);
        pu_real *y = Y.at + c * (planted == IGNORES_LD ? ny : Y.ld);
        for (pu_int i = 0; i < ny; i++) {
            double sum = 0;
            for (pu_int j = 0; j < nx; j++) {
                pu_int at = rows ? rows[transposed ? j : i] : (transposed ? j : i);
                sum += factor * (transposed ? element(op, at, i, 0) : element(op, at, j, 0)) * (double)x[j];
            }
            y[i] = (pu_real)(add ? (double)y[i] + sum : sum);
        }
    }
    return PU_OK;
}

static pu_status my_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    pu_int n = op->rows;
    if (planted == IGNORES_ADD) add = 0;
    if (planted == ALWAYS_ADDS) add = 1;
    if (planted == FIRST_COLUMN_ONLY && k > 1) k = 1;
    product(op, n, NULL, k, X, Y, add, 0, 1);
    if (planted == READS_BEYOND) Y.at[0] += PU_R(1e-3) * X.at[n];
    if (planted == UNDECLARED_SCRATCH) work[0] = X.at[0];
    if (planted == SCRATCH_OVERRUN) work[k * op->work] = X.at[0];
    if (planted == READS_OLD_SCRATCH) Y.at[0] += work[0] * PU_R(1e-3);
    if (planted == WRITES_OUTSIDE) Y.at[(k - 1) * Y.ld + n] = 0;
    if (planted == CHANGES_INPUT) X.at[1] = 0;
    if (planted == HAS_STATE) Y.at[2] += PU_R(1e-3) * (pu_real)(calls++ % 7);
    for (pu_int j = 0; planted == NOT_LINEAR && j < k; j++) {
        if (X.at[j * X.ld + 3] > 0) Y.at[j * Y.ld + 3] += PU_R(0.01) * X.at[j * X.ld + 3];
    }
    return planted == FAILS ? PU_E_OPERATOR : PU_OK;
}

static pu_status my_apply_t(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    (void)work;
    return product(op, op->rows, NULL, k, X, Y, add, 1, planted == WRONG_TRANSPOSE ? 1.01 : 1);
}

static pu_status my_apply_rows(const pu_op *op, pu_int n, const pu_int *rows, pu_int k, pu_block X, pu_block Y, int add,
                               pu_real *work)
{
    (void)work;
    return product(op, n, rows, k, X, Y, add, 0, planted == WRONG_APPLY_ROWS ? 0.99 : 1);
}

static pu_status my_apply_rows_t(const pu_op *op, pu_int n, const pu_int *rows, pu_int k, pu_block X, pu_block Y, int add,
                                 pu_real *work)
{
    (void)work;
    return product(op, n, rows, k, X, Y, add, 1, planted == WRONG_APPLY_ROWS_T ? 0.99 : 1);
}

static pu_status derivatives(const pu_op *op, pu_int n, const pu_int *rows, pu_int k, pu_block P, pu_block Q,
                             const pu_real *weight, pu_real *grad, double factor)
{
    double sum[2] = {0, 0};
    for (int d = 0; d < 2; d++) {
        for (pu_int c = 0; c < k; c++) {
            for (pu_int i = 0; i < n; i++) {
                for (pu_int j = 0; j < op->cols; j++) {
                    sum[d] += factor * (planted == GRAD_WITHOUT_WEIGHT ? 1 : (double)weight[c]) *
                              (double)P.at[c * P.ld + i] * element(op, rows ? rows[i] : i, j, d + 1) *
                              (double)Q.at[c * Q.ld + j];
                }
            }
        }
    }
    for (int d = 0; d < 2; d++) grad[d] = (pu_real)((planted == GRAD_OVERWRITES ? 0 : (double)grad[d]) + sum[d]);
    if (planted == GRAD_OVERRUN) grad[2] = 0;
    return PU_OK;
}

static pu_status my_grad(const pu_op *op, pu_int k, pu_block P, pu_block Q, const pu_real *weight, pu_real *grad,
                         pu_real *work)
{
    (void)work;
    return derivatives(op, op->rows, NULL, k, P, Q, weight, grad, planted == WRONG_GRAD ? 1.02 : 1);
}

static pu_status my_grad_rows(const pu_op *op, pu_int n, const pu_int *rows, pu_int k, pu_block P, pu_block Q,
                              const pu_real *weight, pu_real *grad, pu_real *work)
{
    (void)work;
    return derivatives(op, n, rows, k, P, Q, weight, grad, planted == WRONG_GRAD_ROWS ? 1.02 : 1);
}

static pu_status my_diag(const pu_op *op, pu_real *y, pu_real *work)
{
    (void)work;
    for (pu_int i = 0; i < op->rows; i++) {
        double d = element(op, i, i, 0) * (planted == WRONG_DIAG && i == 4 ? 1.01 : 1);
        y[i] = (pu_real)((planted == DIAG_OVERWRITES ? 0 : (double)y[i]) + d);
    }
    return PU_OK;
}

static pu_status my_gram_diag(const pu_op *op, const pu_real *w, pu_real *y, pu_real *work)
{
    (void)work;
    for (pu_int i = 0; i < op->cols; i++) {
        for (pu_int m = 0; m < op->rows; m++) {
            double a = element(op, m, i, 0);
            y[i] += (pu_real)((double)w[m] * a * (planted == WRONG_GRAM_DIAG ? 1 : a));
        }
    }
    return PU_OK;
}

/* The Cholesky factor of the chain, backwards: F_ii = sqrt(t), F_{i, i-1} = -a sqrt(t), the last one sqrt(t (1 - a^2)). */
static pu_status my_sample(const pu_op *op, pu_int k, pu_block E, pu_block Y, pu_real *work)
{
    const chain *c = (const chain *)op->data;
    double a = (double)c->a, root = sqrt((double)c->t) * (planted == WRONG_SAMPLE ? sqrt(2.0) : 1);
    pu_int n = op->rows;
    (void)work;
    for (pu_int j = 0; j < k; j++) {
        for (pu_int i = 0; i < n; i++) {
            const pu_real *e = E.at + j * E.ld;
            double own = (i == n - 1 ? sqrt(1 - a * a) : 1) * (double)e[i];
            Y.at[j * Y.ld + i] = (pu_real)(root * (i > 0 ? own - a * (double)e[i - 1] : own));
        }
    }
    return PU_OK;
}

/* By elimination without pivoting, in op->work = rows + 1 reals a column. */
static pu_status my_solve(const pu_op *op, pu_int k, pu_block X, pu_block Y, pu_real *work)
{
    pu_int n = op->rows;
    for (pu_int c = 0; c < k; c++) {
        pu_real *pivot = work + c * op->work, *y = Y.at + c * Y.ld;
        for (pu_int i = 0; i < n; i++) {
            double f = i > 0 ? element(op, i, i - 1, 0) / (double)pivot[i - 1] : 0;
            pivot[i] = (pu_real)(element(op, i, i, 0) - (i > 0 ? f * element(op, i - 1, i, 0) : 0));
            y[i] = (pu_real)((double)X.at[c * X.ld + i] - (i > 0 ? f * (double)y[i - 1] : 0));
        }
        for (pu_int i = n - 1; i >= 0; i--) {
            double next = i < n - 1 ? element(op, i, i + 1, 0) * (double)y[i + 1] : 0;
            y[i] = (pu_real)(((double)y[i] - next) / (double)pivot[i]);
        }
        for (pu_int i = 0; i < n && planted == WRONG_SOLVE; i++) y[i] *= PU_R(2);
    }
    return PU_OK;
}

static pu_status my_logdet(const pu_op *op, double *value, pu_real *work)
{
    const chain *c = (const chain *)op->data;
    (void)work;
    *value = (double)op->rows * log((double)c->t) + log(1 - (double)c->a * (double)c->a);
    if (planted == WRONG_LOGDET) *value *= 0.5;
    return PU_OK;
}

static pu_status my_logdet_grad(const pu_op *op, pu_real weight, pu_real *grad, pu_real *work)
{
    const chain *c = (const chain *)op->data;
    double w = planted == LOGDET_GRAD_WITHOUT_WEIGHT ? 1 : (double)weight, a = (double)c->a;
    (void)work;
    grad[0] -= (pu_real)(w * 2 * a / (1 - a * a));
    grad[1] += (pu_real)(w * (double)op->rows / (double)c->t * (planted == WRONG_LOGDET_GRAD ? 1.1 : 1));
    return PU_OK;
}

static double my_condition(const pu_op *op)
{
    double a = fabs((double)((const chain *)op->data)->a);
    return planted == WRONG_CONDITION ? 0 : (1 + a) * (1 + a) / ((1 - a) * (1 - a));
}

static pu_status my_check(const pu_op *op, pu_int *index)
{
    (void)op;
    *index = 1;
    return planted == REFUSED_BY_CHECK ? PU_E_NOT_POSITIVE : PU_OK;
}

static pu_status my_band_add(const pu_op *op, pu_int width, double *B, pu_real *work)
{
    (void)work;
    for (pu_int i = 0; i < op->rows; i++) {
        for (pu_int j = 0; j <= (planted == BAND_TOO_NARROW ? 0 : 1) && j <= i; j++) {
            B[i * (width + 1) + j] += element(op, i, i - j, 0) * (planted == WRONG_BAND_ADD && i == 5 ? 1.01 : 1);
        }
    }
    return PU_OK;
}

static pu_status my_band_grad(const pu_op *op, pu_int width, const double *S, double weight, pu_real *grad, pu_real *work)
{
    (void)work;
    for (int d = 0; d < 2; d++) {
        double sum = 0;
        for (pu_int i = 0; i < op->rows; i++) {
            for (pu_int j = 0; j <= 1 && j <= i; j++) {
                sum += (j && planted != WRONG_BAND_GRAD ? 2 : 1) * element(op, i, i - j, d + 1) * S[i * (width + 1) + j];
            }
        }
        grad[d] += (pu_real)(weight * sum);
    }
    return PU_OK;
}

static pu_int my_row(const pu_op *op, pu_int m, pu_int *first, pu_real *value)
{
    pu_int last = m + 1 < op->cols ? m + 1 : op->cols - 1;
    *first = m > 0 ? m - 1 : 0;
    for (pu_int j = *first; j <= last; j++) value[j - *first] = (pu_real)element(op, m, j, 0);
    if (planted == WRONG_ROW && m == 7) value[0] *= PU_R(1.5);
    if (planted == ROW_OVERRUN) value[3] = 0;
    if (planted == ROW_OUTSIDE) *first += op->cols;
    return last - *first + 1 + (planted == ROW_OUTSIDE ? op->cols : 0);
}

static pu_status my_row_grad(const pu_op *op, pu_int m, const double *g, pu_real *grad)
{
    pu_int first = m > 0 ? m - 1 : 0, last = m + 1 < op->cols ? m + 1 : op->cols - 1;
    for (int d = 0; d < 2; d++) {
        for (pu_int j = first; j <= last; j++) {
            grad[d] += (pu_real)((planted == WRONG_ROW_GRAD ? -1 : 1) * g[j - first] * element(op, m, j, d + 1));
        }
    }
    return PU_OK;
}

static pu_op my_op(pu_int n, const chain *c)
{
    pu_op op;
    memset(&op, 0, sizeof op);
    op.rows = op.cols = n;
    op.params = 2;
    op.work = planted == UNDECLARED_SCRATCH ? 0 : n + 1;
    op.noise = planted == SHORT_NOISE ? n - 1 : 0;
    op.data = c;
    op.apply = my_apply;
    op.apply_t = my_apply_t;
    op.grad = my_grad;
    op.diag = my_diag;
    op.gram_diag = my_gram_diag;
    op.sample = my_sample;
    op.solve = planted == UNDECLARED_SCRATCH ? NULL : my_solve;
    op.logdet = my_logdet;
    op.logdet_grad = my_logdet_grad;
    op.check = my_check;
    op.condition = my_condition;
    op.apply_rows = my_apply_rows;
    op.apply_rows_t = my_apply_rows_t;
    op.grad_rows = my_grad_rows;
    op.band = 2;
    op.band_add = my_band_add;
    op.band_grad = my_band_grad;
    op.row = my_row;
    op.row_grad = my_row_grad;
    return op;
}

/* ---- reports -------------------------------------------------------------------------------------------------- */

/* The entry of a function; of: "op", "Gamma", "Phi", "model". */
static const pu_check_entry *find(const pu_check_report *report, const char *of, const char *function)
{
    static const pu_check_entry none;
    for (int i = 0; i < report->count; i++) {
        const pu_check_entry *e = &report->entry[i];
        if (strcmp(e->of, of) == 0 && strcmp(e->function, function) == 0) return e;
    }
    return &none;
}

/* The first fault; NULL where there is none. */
static const pu_check_entry *first_fault(const pu_check_report *report)
{
    for (int i = 0; i < report->count; i++) {
        if (report->entry[i].wrong) return &report->entry[i];
    }
    return NULL;
}

static char full_text[16384];

/* The lines of the full text that are wrong or left something out. */
static const char *say_full(void)
{
    static char text[16384];
    size_t used = (size_t)snprintf(text, sizeof text, "[%s]", tc_case);
    char *line = strtok(full_text, "\n");
    for (; line && used + strlen(line) + 2 < sizeof text; line = strtok(NULL, "\n")) {
        if (!strstr(line, "not there")) used += (size_t)snprintf(text + used, sizeof text - used, "\n%s", line);
    }
    return text;
}

/* The largest share of what is allowed that any comparison used. */
static double worst_share(const pu_check_report *report, const char **who)
{
    double worst = 0;
    for (int i = 0; i < report->count; i++) {
        const pu_check_entry *e = &report->entry[i];
        double share = e->allowed > 0 ? e->error / e->allowed : 0;
        if (share > worst) {
            worst = share;
            *who = e->function;
        }
    }
    return worst;
}

/* ---- an operator's mistakes ------------------------------------------------------------------------------------ */

static const struct {
    mistake which;
    const char *function, *what; /* that must be named first; words that must occur */
    pu_int index;                /* that must be told; -2: any */
} op_mistakes[] = {
    {IGNORES_ADD, "apply", "added to what was there", 0},
    {ALWAYS_ADDS, "apply", "not written", 0},
    {IGNORES_LD, "apply", "ld > rows", -2},
    {READS_BEYOND, "apply", "not finite", 0},
    {FIRST_COLUMN_ONLY, "apply", "k = 3", LENGTH},
    {UNDECLARED_SCRATCH, "apply", "op.work is 0", -1},
    {SCRATCH_OVERRUN, "apply", "beyond k * op.work", -1},
    {READS_OLD_SCRATCH, "apply", "not finite", 0},
    {WRITES_OUTSIDE, "apply", "outside of its output", -1},
    {CHANGES_INPUT, "apply", "changes its input", -1},
    {HAS_STATE, "apply", "two calls", -1},
    {FAILS, "apply", "did not return PU_OK", -1},
    {NOT_LINEAR, "apply", "linear", 3},
    {WRONG_TRANSPOSE, "apply_t", "transpose", -2},
    {NOT_SYMMETRIC, "apply", "symmetric", -2},
    {NOT_DEFINITE, "apply", "positive definite", -2},
    {WRONG_GRAD, "grad", "differences", 0},
    {GRAD_OVERWRITES, "grad", "added to what was there", 0},
    {GRAD_WITHOUT_WEIGHT, "grad", "differences", 0},
    {GRAD_OVERRUN, "grad", "outside of its output", -1},
    {WRONG_DIAG, "diag", "Op_ii", 4},
    {DIAG_OVERWRITES, "diag", "added to what was there", 0},
    {WRONG_GRAM_DIAG, "gram_diag", "w_m Op_mi^2", -2},
    {WRONG_SAMPLE, "sample", "F F'q", -2},
    {SHORT_NOISE, "sample", "not finite", LENGTH - 1},
    {WRONG_SOLVE, "solve", "Op Op^-1", -2},
    {WRONG_LOGDET, "logdet", "log det of apply", 0},
    {WRONG_LOGDET_GRAD, "logdet_grad", "against grad", 1},
    {LOGDET_GRAD_WITHOUT_WEIGHT, "logdet_grad", "against grad", 0},
    {WRONG_CONDITION, "condition", "below 1", 0},
    {WRONG_APPLY_ROWS, "apply_rows", "against apply", -2},
    {WRONG_APPLY_ROWS_T, "apply_rows_t", "against apply_t", -2},
    {WRONG_GRAD_ROWS, "grad_rows", "against grad", 0},
    {WRONG_BAND_ADD, "band_add", "against apply", -2},
    {BAND_TOO_NARROW, "band_add", "against apply", -2},
    {WRONG_BAND_GRAD, "band_grad", "against grad", 0},
    {WRONG_ROW, "row", "against apply", 7},
    {ROW_OUTSIDE, "row", "outside of the matrix", -1},
    {ROW_OVERRUN, "row", "outside of its output", -1},
    {WRONG_ROW_GRAD, "row_grad", "against grad", 0},
    {REFUSED_BY_CHECK, "check", "positive", 1},
};

/* Checks the operator with its parameters and this mistake. */
static pu_status check_mine(mistake which, pu_op_role role, pu_check_report *report)
{
    chain *c = (chain *)tc_bytes(sizeof *c);
    pu_check_options options;
    pu_op op;
    pu_status status;
    memset(&options, 0, sizeof options);
    c->a = PU_R(0.6);
    c->t = PU_R(2.5);
    planted = which;
    op = my_op(LENGTH, c);
    options.role = role;
    options.theta = &c->a;
    options.allocator = tc_workspace().allocator;
    status = pu_op_check(&op, &options, report);
    planted = RIGHT;
    pu_check_explain(report, 1, full_text, sizeof full_text);
    if (c->a != PU_R(0.6) || c->t != PU_R(2.5)) exit(2); /* parameters are put back */
    return status;
}

TEST every_mistake_in_an_operator_is_found_and_named(void)
{
    pu_check_report report;
    size_t n = sizeof op_mistakes / sizeof *op_mistakes;
    for (size_t i = 0; i < n; i++) {
        const pu_check_entry *e;
        tc_set_case("mistake %d of %d, in %s", (int)i, (int)n, op_mistakes[i].function);
        TC_STATUS(check_mine(op_mistakes[i].which, PU_ROLE_PRIOR, &report), PU_E_CONTRACT);
        e = first_fault(&report);
        if (getenv("PU_CHECKS_SHOW")) {
            char line[300];
            printf("%s\n", pu_check_explain(&report, 0, line, sizeof line));
        }
        TC_ASSERT(e != NULL && report.wrong >= 1);
        GREATEST_ASSERTm(say_full(), strcmp(e->function, op_mistakes[i].function) == 0);
        GREATEST_ASSERTm(say_full(), strstr(e->what, op_mistakes[i].what) != NULL);
        GREATEST_ASSERTm(say_full(), op_mistakes[i].index == -2 || e->index == op_mistakes[i].index);
        TC_ASSERT(report.where.index == e->index && strcmp(report.where.what, e->function) == 0);
        TC_ASSERT(e->allowed == 0 || e->error > 5 * e->allowed);
    }
    PASS();
}

TEST an_operator_without_mistake_passes(void)
{
    const char *who = "";
    pu_check_report report;
    tc_set_case("no mistake");
    GREATEST_ASSERTm(say_full(), check_mine(RIGHT, PU_ROLE_ANY, &report) == PU_OK);
    TC_ASSERT(report.wrong == 0 && report.count == 18 && first_fault(&report) == NULL);
    for (int i = 0; i < report.count; i++) {
        TC_ASSERT(report.entry[i].tested);
        GREATEST_ASSERTm(say_full(), report.entry[i].left_out[0] == 0);
    }
    GREATEST_ASSERTm(say_full(), worst_share(&report, &who) < 0.5);
    PASS();
}

/* A map need not be symmetric or definite; a prior must. */
TEST the_role_decides_what_is_asked(void)
{
    pu_check_report report;
    pu_real a[6] = {1, 2, 3, 4, 5, 6}, square[4] = {1, 2, 0, 1};
    pu_op map = pu_op_dense(3, 2, a), op = pu_op_dense(2, 2, square);
    pu_check_options options;
    tc_set_case("role");
    memset(&options, 0, sizeof options);
    TC_STATUS(pu_op_check(&map, NULL, &report), PU_OK);
    TC_ASSERT(strstr(find(&report, "op", "grad")->left_out, "options.theta"));
    TC_ASSERT(!find(&report, "op", "sample")->tested && strcmp(find(&report, "op", "sample")->left_out, "not there") == 0);
    TC_STATUS(pu_op_check(&op, NULL, &report), PU_OK);
    options.role = PU_ROLE_PRIOR;
    TC_STATUS(pu_op_check(&op, &options, &report), PU_E_CONTRACT);
    TC_ASSERT(strstr(find(&report, "op", "apply")->what, "symmetric"));
    TC_STATUS(pu_op_check(&map, &options, &report), PU_E_CONTRACT);
    TC_ASSERT(strstr(find(&report, "op", "apply")->what, "square"));
    options.role = PU_ROLE_MAP;
    map.apply_t = NULL;
    TC_STATUS(pu_op_check(&map, &options, &report), PU_E_CONTRACT);
    TC_ASSERT(strstr(find(&report, "op", "apply_t")->what, "needs it"));
    PASS();
}

/* What needs all columns says that it was not tested; the rest is. */
TEST a_large_operator_is_tested_as_far_as_it_goes(void)
{
    pu_real *d = tc_random_positive(3, 5000);
    pu_op op = pu_op_diagonal(5000, d);
    pu_check_report report;
    pu_check_options options;
    tc_set_case("large");
    memset(&options, 0, sizeof options);
    options.theta = d;
    options.most = 20;
    TC_STATUS(pu_op_check(&op, &options, &report), PU_OK);
    TC_ASSERT(strstr(find(&report, "op", "diag")->left_out, "options.most"));
    TC_ASSERT(strstr(find(&report, "op", "sample")->left_out, "options.most"));
    TC_ASSERT(strstr(find(&report, "op", "logdet")->left_out, "options.most"));
    TC_ASSERT(find(&report, "op", "solve")->tested && find(&report, "op", "solve")->left_out[0] == 0);
    TC_ASSERT(strcmp(find(&report, "op", "grad")->what, "against differences") == 0 ||
              find(&report, "op", "grad")->left_out[0] == 0);
    PASS();
}

/* ---- refusals and texts ----------------------------------------------------------------------------------------- */

static void *no_memory(size_t bytes, void *user)
{
    (void)bytes;
    (void)user;
    return NULL;
}

TEST calls_that_cannot_be_made_are_refused(void)
{
    pu_check_report report;
    pu_check_options options;
    pu_op good = pu_op_identity(3), op;
    char text[200], tiny[9];
    tc_set_case("refusals");
    TC_STATUS(pu_op_check(&good, NULL, NULL), PU_E_NULL);
    TC_STATUS(pu_op_check(NULL, NULL, &report), PU_E_NULL);
    TC_ASSERT(strstr(pu_check_explain(&report, 0, text, sizeof text), "null: op"));
    op = good, op.apply = NULL;
    TC_STATUS(pu_op_check(&op, NULL, &report), PU_E_NULL);
    TC_ASSERT(strcmp(report.where.what, "op.apply") == 0 && report.count == 0);
    op = good, op.rows = 0;
    TC_STATUS(pu_op_check(&op, NULL, &report), PU_E_ARGUMENT);
    op = good, op.work = -1;
    TC_STATUS(pu_op_check(&op, NULL, &report), PU_E_ARGUMENT);
    op = good, op.flops = -2;
    TC_STATUS(pu_op_check(&op, NULL, &report), PU_E_ARGUMENT);
    op = good, op.params = (pu_int)1 << 29;
    TC_STATUS(pu_op_check(&op, NULL, &report), PU_E_OVERFLOW);
    op = good, op.band = 77;
    TC_STATUS(pu_op_check(&op, NULL, &report), PU_E_ARGUMENT);
    memset(&options, 0, sizeof options);
    options.allocator.alloc = no_memory;
    options.allocator.free = tc_hook_free;
    TC_STATUS(pu_op_check(&good, &options, &report), PU_E_MEMORY);
    TC_STATUS(pu_model_check(NULL, NULL, NULL, NULL, &report), PU_E_NULL);
    TC_STATUS(pu_model_check(NULL, NULL, NULL, NULL, NULL), PU_E_NULL);
    TC_STATUS(pu_op_check(&good, NULL, &report), PU_OK);
    TC_ASSERT(strcmp(pu_check_explain(&report, 0, tiny, sizeof tiny), "no mista") == 0);
    TC_ASSERT(pu_check_explain(&report, 1, NULL, 5)[0] == 0 && pu_check_explain(NULL, 0, text, sizeof text)[0] == 0);
    PASS();
}

/* Same bits from the same seed; other vectors from another. */
TEST a_check_can_be_repeated(void)
{
    pu_check_report one, two;
    tc_set_case("repeat");
    check_mine(WRONG_SAMPLE, PU_ROLE_PRIOR, &one);
    check_mine(WRONG_SAMPLE, PU_ROLE_PRIOR, &two);
    TC_ASSERT(find(&one, "op", "sample")->error == find(&two, "op", "sample")->error);
    TC_ASSERT(find(&one, "op", "sample")->error > 0);
    PASS();
}

/* ---- the built-in operators ------------------------------------------------------------------------------------- */

static double worst_of_all;
static char worst_name[200];

/* One operator must pass with room: a fifth of what is allowed in comparisons of rounding. */
static greatest_test_res passes(const pu_op *op, pu_op_role role, pu_real *theta,
                                pu_status (*set)(void *user, const pu_real *theta), void *user)
{
    pu_check_options options;
    pu_check_report report;
    const char *who = "";
    double share;
    pu_status status;
    memset(&options, 0, sizeof options);
    options.role = role;
    options.theta = theta;
    options.set = set;
    options.user = user;
    status = pu_op_check(op, &options, &report);
    pu_check_explain(&report, 1, full_text, sizeof full_text);
    share = worst_share(&report, &who);
    if (share > worst_of_all) {
        worst_of_all = share;
        snprintf(worst_name, sizeof worst_name, "%s of [%.150s]", who, tc_case);
    }
    GREATEST_ASSERTm(say_full(), status == PU_OK);
    GREATEST_ASSERTm(say_full(), share < 0.5);
    PASS();
}

/* Moves the parameters of a fixture to theta, those that must be equal to their mean, and makes factors again. */
static void refactor(fixture *f)
{
    pu_int n = f->op.rows;
    switch (f->kind) {
    case SPD:
        for (pu_int i = 0; i < n; i++) {
            for (pu_int j = 0; j < i; j++) {
                pu_real mean = (f->theta[i * n + j] + f->theta[j * n + i]) / 2;
                f->theta[i * n + j] = f->theta[j * n + i] = mean;
            }
        }
        if (pu_spd_factor(n, f->theta, f->factor, NULL)) exit(2);
        break;
    case LOW_RANK:
        if (pu_low_rank_factor(&f->low_rank, NULL)) exit(2);
        break;
    case TOEPLITZ:
    case CIRCULANT:
        if (factor(&f->lags, f->kind, n, f->theta, 1, NULL)) exit(2);
        break;
    case KRONECKER:
        refactor(f->left);
        refactor(f->right);
        break;
    default: break;
    }
}

static pu_status set_fixture(void *user, const pu_real *theta)
{
    fixture *f = (fixture *)user;
    for (pu_int i = 0; i < f->op.params; i++) *parameter(f, i) = theta[i];
    refactor(f);
    return PU_OK;
}

static greatest_test_res fixture_passes(fixture *f, pu_op_role role)
{
    pu_real *theta = tc_reals(f->op.params);
    for (pu_int i = 0; i < f->op.params; i++) theta[i] = *parameter(f, i);
    return passes(&f->op, role, theta, set_fixture, f);
}

TEST structured_operators_pass(void)
{
    static const op_case cases[] = {
        {"csr 7 x 5", CSR, 7, 5, 0},        {"csr 40 x 23", CSR, 40, 23, 0},  {"low rank 6, 2", LOW_RANK, 6, 2, 0},
        {"low rank 33, 5", LOW_RANK, 33, 5, 0}, {"toeplitz 9", TOEPLITZ, 9, 0, 0}, {"toeplitz 70", TOEPLITZ, 70, 0, 0},
        {"circulant 8", CIRCULANT, 8, 0, 0}, {"circulant 75", CIRCULANT, 75, 0, 0},
        {"circulant 1", CIRCULANT, 1, 0, 0}, {"circulant 2", CIRCULANT, 2, 0, 0}, {"circulant 3", CIRCULANT, 3, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_CALL(fixture_passes(build(&cases[i]), is_prior(&cases[i]) ? PU_ROLE_PRIOR : PU_ROLE_MAP));
    }
    for (int which = 0; which < 10; which++) {
        op_case c = {"kronecker", KRONECKER, 0, 0, 0};
        c.which = which;
        tc_set_case("kronecker %d", which);
        CHECK_CALL(fixture_passes(build_kronecker(which), is_prior(&c) ? PU_ROLE_PRIOR : PU_ROLE_MAP));
    }
    PASS();
}

TEST plain_operators_pass(void)
{
    static const pu_int sizes[] = {1, 2, 17, 64};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        pu_int n = sizes[i];
        pu_real *d = tc_random_positive(5 + (uint64_t)n, n), *a = tc_normal(6 + (uint64_t)n, n * 3);
        pu_real *two = tc_reals(2 * n);
        pu_op op = pu_op_diagonal(n, d), right = pu_op_diagonal(n, d), both;
        tc_set_case("diagonal %d", (int)n);
        CHECK_CALL(passes(&op, PU_ROLE_PRIOR, d, NULL, NULL));
        CHECK_CALL(passes(&op, PU_ROLE_MAP, d, NULL, NULL));
        tc_set_case("identity %d", (int)n);
        op = pu_op_identity(n);
        CHECK_CALL(passes(&op, PU_ROLE_PRIOR, NULL, NULL, NULL));
        tc_set_case("scaled identity %d", (int)n);
        op = pu_op_scaled_identity(n, d);
        CHECK_CALL(passes(&op, PU_ROLE_PRIOR, d, NULL, NULL));
        tc_set_case("dense %d", (int)n);
        op = pu_op_dense(n, 3, a);
        CHECK_CALL(passes(&op, PU_ROLE_MAP, a, NULL, NULL));
        op = pu_op_dense(3, n, a);
        CHECK_CALL(passes(&op, PU_ROLE_MAP, a, NULL, NULL));
        tc_set_case("spd %d", (int)n);
        CHECK_CALL(fixture_passes(spd(n), PU_ROLE_PRIOR));
        memcpy(two, d, (size_t)n * sizeof *d);
        memcpy(two + n, d, (size_t)n * sizeof *d);
        op = pu_op_diagonal(n, two);
        right = pu_op_diagonal(n, two + n);
        tc_set_case("sum %d", (int)n);
        both = pu_op_sum(&op, &right);
        CHECK_CALL(passes(&both, PU_ROLE_PRIOR, two, NULL, NULL));
        tc_set_case("product %d", (int)n);
        both = pu_op_product(&op, &right);
        CHECK_CALL(passes(&both, PU_ROLE_MAP, two, NULL, NULL));
    }
    PASS();
}

/* ---- series: the parameters are copied into a struct */

static pu_ar ar;
static pu_ssm ssm;

static pu_status set_ar(void *user, const pu_real *theta)
{
    (void)user;
    return pu_ar_set(&ar, ar.n, ar.order, theta, theta[ar.order], NULL);
}

static pu_status set_ssm(void *user, const pu_real *theta)
{
    pu_real Q[4], P0[4];
    const pu_real *q = theta + 4, *p = theta + 8;
    (void)user;
    for (int i = 0; i < 4; i++) {
        Q[i] = (q[i] + q[i % 2 * 2 + i / 2]) / 2;
        P0[i] = ssm.start == PU_SSM_GIVEN ? (p[i] + p[i % 2 * 2 + i / 2]) / 2 : 0;
    }
    return pu_ssm_set(&ssm, ssm.steps, 2, theta, Q, ssm.start, ssm.start == PU_SSM_GIVEN ? P0 : NULL, NULL);
}

TEST series_operators_pass(void)
{
    static const pu_real partial[4] = {PU_R(0.6), PU_R(-0.4), PU_R(0.3), PU_R(0.2)};
    pu_op op;
    for (pu_int order = 0; order <= 4; order++) {
        pu_real *theta = tc_reals(order + 1);
        tc_set_case("AR %d", (int)order);
        memcpy(theta, partial, (size_t)order * sizeof *theta);
        theta[order] = PU_R(0.7);
        if (pu_ar_set(&ar, 30, order, theta, theta[order], NULL)) exit(2);
        op = pu_op_ar(&ar);
        CHECK_CALL(passes(&op, PU_ROLE_PRIOR, theta, set_ar, NULL));
    }
    for (int start = 0; start <= PU_SSM_DIFFUSE; start++) {
        pu_real theta[12] = {PU_R(0.6), PU_R(0.1), PU_R(-0.2), PU_R(0.7), 1, PU_R(0.3), PU_R(0.3), 2, 2, PU_R(0.5),
                             PU_R(0.5), 3};
        tc_set_case("state space, start %d", start);
        if (pu_ssm_set(&ssm, 9, 2, theta, theta + 4, (pu_ssm_start)start, start == PU_SSM_GIVEN ? theta + 8 : NULL, NULL))
            exit(2);
        op = pu_op_ssm(&ssm);
        CHECK_CALL(passes(&op, PU_ROLE_PRIOR, theta, set_ssm, NULL));
        tc_set_case("readout");
        op = pu_op_readout(9, 2, theta);
        CHECK_CALL(passes(&op, PU_ROLE_MAP, theta, NULL, NULL));
        tc_set_case("readouts");
        op = pu_op_readouts(9, 2, 3, theta);
        CHECK_CALL(passes(&op, PU_ROLE_MAP, theta, NULL, NULL));
    }
    PASS();
}

/* Numbers far from 1 are no mistake: bands were tried on top of ones, and log det's gradient was compared with its own
   size alone, though that in A is what is left of terms that cancel. */
TEST scale_is_no_mistake(double scale)
{
    pu_real d[3] = {(pu_real)scale, (pu_real)(2 * scale), (pu_real)(3 * scale)};
    pu_real partial[3] = {PU_R(0.6), PU_R(-0.4), (pu_real)scale};
    pu_op op = pu_op_diagonal(3, d);
    tc_set_case("diagonal times %g", scale);
    CHECK_CALL(passes(&op, PU_ROLE_PRIOR, d, NULL, NULL));
    tc_set_case("AR, kappa %g", scale);
    if (pu_ar_set(&ar, 10, 2, partial, partial[2], NULL)) exit(2);
    op = pu_op_ar(&ar);
    CHECK_CALL(passes(&op, PU_ROLE_PRIOR, partial, set_ar, NULL));
    for (int start = 0; start <= PU_SSM_DIFFUSE; start++) {
        pu_real theta[12] = {PU_R(0.6), PU_R(0.1), PU_R(-0.2), PU_R(0.7), 1, PU_R(0.3), PU_R(0.3), 2, 2, PU_R(0.5),
                             PU_R(0.5), 3};
        for (int i = 4; i < 12; i++) theta[i] = (pu_real)((double)theta[i] * scale);
        tc_set_case("state space, start %d, Q and P0 times %g", start, scale);
        if (pu_ssm_set(&ssm, 6, 2, theta, theta + 4, (pu_ssm_start)start, start == PU_SSM_GIVEN ? theta + 8 : NULL, NULL))
            exit(2);
        op = pu_op_ssm(&ssm);
        CHECK_CALL(passes(&op, PU_ROLE_PRIOR, theta, set_ssm, NULL));
    }
    PASS();
}

TEST fourier_operators_pass(void)
{
    static const pu_int sizes[][2] = {{1, 1}, {3, 4}, {8, 8}, {1, 13}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        pu_fourier f;
        size_t bytes = 0;
        pu_op op;
        tc_set_case("fourier %d", (int)i);
        if (pu_fourier_bytes(sizes[i][0], sizes[i][1], &bytes)) exit(2);
        if (pu_fourier_init(&f, sizes[i][0], sizes[i][1], tc_bytes(bytes), bytes)) exit(2);
        op = pu_op_fourier(&f);
        CHECK_CALL(passes(&op, PU_ROLE_MAP, NULL, NULL, NULL));
        pu_fourier_free(&f);
    }
    PASS();
}

/* ---- a model of a user, and its mistakes ------------------------------------------------------------------------- */

typedef enum {
    NONE,
    GRAD_OFF_BY_A_FACTOR,
    USES_FORGOTTEN,
    GRAD_ADDS,
    GRAD_WRITES_OUTSIDE,
    GRAD_NOT_LINEAR,
    GRAD_CHANGES_INPUT,
    SET_WITH_MEMORY,
    START_OUT_OF_BOUNDS,
    START_NOT_FINITE,
    START_TOO_LONG,
    START_WITH_STATE,
    START_REFUSED,
    NAME_WITHOUT_END,
    NAME_TOO_LONG,
    SAME_NAMES,
    BOUNDS_BEYOND_SCALE,
    SCALE_UNKNOWN,
    THETA_OUT_OF_BOUNDS,
    WRONG_GAMMA,
    GAMMA_WITHOUT_SCRATCH,
    WRONG_PHI
} model_mistake;

enum { MY_M = 5, MY_D = 11, MEAN = 0, LOG_T, ATANH_A, LOG_BETA, OFFSET, MY_PARAMS };

static model_mistake slip;
static int sets;

typedef struct { /* z ~ N(mean 1, chain(a, t)^-1), y = Phi z + offset + N(0, 1/beta) */
    chain c;
    pu_real Phi[MY_M * MY_D], nu[MY_D], eta[MY_M], psi[MY_M];
} my_state;

static pu_status model_set(pu_model *model, const pu_real *theta, pu_int *index)
{
    my_state *s = (my_state *)model->data;
    s->c.a = (pu_real)tanh((double)theta[ATANH_A]);
    s->c.t = (pu_real)exp((double)theta[LOG_T]);
    if (!(s->c.t > 0 && s->c.t < PU_R(1e30))) {
        *index = LOG_T;
        return PU_E_ARGUMENT;
    }
    for (int i = 0; i < MY_D; i++) s->nu[i] = theta[MEAN];
    for (int i = 0; i < MY_M; i++) s->eta[i] = theta[OFFSET];
    for (int i = 0; i < MY_M; i++) s->psi[i] = (pu_real)exp((double)theta[LOG_BETA]);
    if (slip == SET_WITH_MEMORY) s->eta[0] += PU_R(0.001) * (pu_real)(sets++);
    return PU_OK;
}

static pu_status model_grad(const pu_model *model, const pu_gradient_result *g, pu_real *grad)
{
    const my_state *s = (const my_state *)model->data;
    double sums[3] = {0, 0, 0}, a = (double)s->c.a, factor = slip == GRAD_OFF_BY_A_FACTOR ? 2 : 1;
    for (int i = 0; i < MY_D; i++) sums[0] += (double)g->nu[i];
    for (int i = 0; i < MY_M; i++) sums[1] += (double)g->eta[i];
    for (int i = 0; i < MY_M; i++) sums[2] += (double)g->psi[i] * (double)s->psi[i];
    grad[MEAN] = (pu_real)((slip == GRAD_ADDS ? (double)grad[MEAN] : 0) + sums[0]);
    grad[ATANH_A] = (pu_real)((double)g->Gamma[0] * (1 - a * a));
    grad[LOG_T] = (pu_real)(factor * (double)g->Gamma[1] * (double)s->c.t);
    grad[LOG_BETA] = (pu_real)sums[2];
    grad[OFFSET] = (pu_real)sums[1];
    if (slip == GRAD_WRITES_OUTSIDE) grad[MY_PARAMS] = 0;
    if (slip == GRAD_NOT_LINEAR) grad[OFFSET] += g->eta[0] * g->eta[0];
    if (slip == GRAD_CHANGES_INPUT) g->nu[0] = 0;
    return PU_OK;
}

static pu_status model_start(const pu_model *model, const pu_data *data, uint64_t seed, pu_real *theta)
{
    static int state;
    (void)model;
    (void)data;
    (void)seed;
    for (int i = 0; i < MY_PARAMS; i++) theta[i] = PU_R(0.1) * (pu_real)i;
    if (slip == START_OUT_OF_BOUNDS) theta[OFFSET] = 50;
    if (slip == START_NOT_FINITE) theta[LOG_BETA] = (pu_real)log(0.0);
    if (slip == START_TOO_LONG) theta[MY_PARAMS] = 0;
    if (slip == START_WITH_STATE) theta[MEAN] += (pu_real)(state++);
    if (slip == START_REFUSED) theta[LOG_T] = PU_R(80);
    return PU_OK;
}

static void model_describe(const pu_model *model, pu_int i, pu_param *param)
{
    static const char *const name[MY_PARAMS] = {"mean", "t", "a", "beta", "offset"};
    (void)model;
    memset(param->name, 0, sizeof param->name);
    snprintf(param->name, sizeof param->name, "%s", name[slip == SAME_NAMES && i == LOG_BETA ? 1 : i]);
    if (i == LOG_T || i == LOG_BETA) {
        param->scale = PU_SCALE_LOG;
        param->lower = slip == BOUNDS_BEYOND_SCALE ? -1 : 0;
    }
    if (i == ATANH_A) {
        param->scale = slip == SCALE_UNKNOWN ? (pu_scale)7 : PU_SCALE_ATANH;
        param->lower = -1;
        param->upper = 1;
    }
    if (i == OFFSET) {
        param->lower = -20;
        param->upper = slip == THETA_OUT_OF_BOUNDS ? -10 : 20;
    }
    if (slip == NAME_WITHOUT_END && i == LOG_T) memset(param->name, 'x', sizeof param->name);
    if (slip == NAME_TOO_LONG && i == LOG_T) memset(param, 'x', sizeof *param + 3);
}

static const struct {
    model_mistake which;
    const char *of, *function, *what;
    pu_int index; /* -2: any */
} model_mistakes[] = {
    {GRAD_OFF_BY_A_FACTOR, "model", "grad", "against differences", LOG_T},
    {USES_FORGOTTEN, "model", "uses", "PU_USES_PSI", LOG_BETA},
    {GRAD_ADDS, "model", "grad", "not written", MEAN},
    {GRAD_WRITES_OUTSIDE, "model", "grad", "outside of its output", -1},
    {GRAD_NOT_LINEAR, "model", "grad", "linear", OFFSET},
    {GRAD_CHANGES_INPUT, "model", "grad", "changes its input", -1},
    {SET_WITH_MEMORY, "model", "set", "two likelihoods", -1},
    {START_OUT_OF_BOUNDS, "model", "start", "out of bounds", OFFSET},
    {START_NOT_FINITE, "model", "start", "not finite", LOG_BETA},
    {START_TOO_LONG, "model", "start", "outside of its output", -1},
    {START_WITH_STATE, "model", "start", "two calls", -1},
    {START_REFUSED, "model", "start", "refused by set", LOG_T},
    {NAME_WITHOUT_END, "model", "describe", "terminating zero", LOG_T},
    {NAME_TOO_LONG, "model", "describe", "outside of *param", LOG_T},
    {SAME_NAMES, "model", "describe", "same name", LOG_BETA},
    {BOUNDS_BEYOND_SCALE, "model", "describe", "bounds", LOG_T},
    {SCALE_UNKNOWN, "model", "describe", "scale", ATANH_A},
    {THETA_OUT_OF_BOUNDS, "model", "describe", "out of bounds", OFFSET},
    {WRONG_GAMMA, "Gamma", "sample", "F F'q", -2},
    {GAMMA_WITHOUT_SCRATCH, "Gamma", "apply", "op.work is 0", -1},
    {WRONG_PHI, "Phi", "apply", "k = 3", -2},
};

/* A Phi that does only the first column. */
static pu_status first_only(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    pu_op dense_op = pu_op_dense(op->rows, op->cols, (const pu_real *)op->data);
    return dense_op.apply(&dense_op, k > 1 ? 1 : k, X, Y, add, work);
}

static pu_status check_model(model_mistake which, pu_check_report *report)
{
    my_state *s = (my_state *)tc_bytes(sizeof *s);
    pu_model model;
    pu_real theta[MY_PARAMS] = {PU_R(0.3), PU_R(0.5), PU_R(-0.4), PU_R(0.2), PU_R(-0.6)};
    pu_real *y = tc_normal(77, 3 * MY_M), *Phi = tc_normal(78, MY_M * MY_D);
    pu_data data = pu_data_nan(3, MY_M, y);
    pu_status status;
    y[4] = PU_R(NAN);
    memcpy(s->Phi, Phi, sizeof s->Phi);
    if (which == WRONG_GAMMA) planted = WRONG_SAMPLE;
    if (which == GAMMA_WITHOUT_SCRATCH) planted = UNDECLARED_SCRATCH;
    memset(&model, 0, sizeof model);
    model.name = "chain";
    model.params = MY_PARAMS;
    model.uses = PU_USES_NU | PU_USES_GAMMA | PU_USES_ETA | PU_USES_PSI;
    if (which == USES_FORGOTTEN) model.uses &= ~(unsigned)PU_USES_PSI;
    model.data = s;
    model.Gamma = my_op(MY_D, &s->c);
    model.Phi = pu_op_dense(MY_M, MY_D, s->Phi);
    if (which == WRONG_PHI) model.Phi.apply = first_only;
    model.lgm.nu = s->nu;
    model.lgm.eta = s->eta;
    model.lgm.psi = s->psi;
    model.set = model_set;
    model.grad = model_grad;
    model.start = model_start;
    model.describe = model_describe;
    slip = which;
    status = pu_model_check(&model, theta, &data, NULL, report);
    slip = NONE;
    planted = RIGHT;
    pu_check_explain(report, 1, full_text, sizeof full_text);
    return status;
}

TEST every_mistake_in_a_model_is_found_and_named(void)
{
    pu_check_report report;
    size_t n = sizeof model_mistakes / sizeof *model_mistakes;
    for (size_t i = 0; i < n; i++) {
        const pu_check_entry *e;
        tc_set_case("model mistake %d of %d", (int)i, (int)n);
        TC_STATUS(check_model(model_mistakes[i].which, &report), PU_E_CONTRACT);
        e = first_fault(&report);
        if (getenv("PU_CHECKS_SHOW")) {
            char line[300];
            printf("%s\n", pu_check_explain(&report, 0, line, sizeof line));
        }
        GREATEST_ASSERTm(say_full(), strcmp(e->of, model_mistakes[i].of) == 0);
        GREATEST_ASSERTm(say_full(), strcmp(e->function, model_mistakes[i].function) == 0);
        GREATEST_ASSERTm(say_full(), strstr(e->what, model_mistakes[i].what) != NULL);
        GREATEST_ASSERTm(say_full(), model_mistakes[i].index == -2 || e->index == model_mistakes[i].index);
        TC_ASSERT(e->allowed == 0 || e->error > 5 * e->allowed);
    }
    PASS();
}

TEST a_model_without_mistake_passes(void)
{
    const char *who = "";
    pu_check_report report;
    tc_set_case("no mistake");
    GREATEST_ASSERTm(say_full(), check_model(NONE, &report) == PU_OK);
    TC_ASSERT(report.count == 41 && find(&report, "Gamma", "solve")->tested);
    GREATEST_ASSERTm(say_full(), find(&report, "model", "grad")->left_out[0] == 0);
    GREATEST_ASSERTm(say_full(), worst_share(&report, &who) < 0.7);
    PASS();
}

/* A theta that the model refuses, and data that do not fit, are the caller's: no entry, but the status of pu_model_set. */
TEST a_theta_that_is_refused_is_refused(void)
{
    pu_model model;
    pu_report made;
    pu_check_report report;
    pu_real *y = tc_normal(3, 8), *theta = tc_reals(64);
    pu_data data = pu_data_full(2, 4, y), wrong = pu_data_full(2, 3, y);
    tc_set_case("theta");
    memset(&model, 0, sizeof model);
    model.memory = tc_workspace();
    if (pu_model_ppca(&model, 4, 2, &made)) exit(2);
    theta[3] = PU_R(NAN);
    TC_STATUS(pu_model_check(&model, theta, &data, NULL, &report), PU_E_NONFINITE);
    TC_ASSERT(report.where.index == 3 && report.count == 0);
    theta[3] = 0;
    TC_STATUS(pu_model_check(&model, theta, &wrong, NULL, &report), PU_E_SIZE);
    TC_STATUS(pu_model_check(&model, theta, NULL, NULL, &report), PU_E_NULL);
    PASS();
}

/* Where rounding takes the digits of the likelihood its differences say nothing about grad: it is left out, and neither status
   nor text look as if it had been compared. */
TEST a_likelihood_without_digits_is_no_yardstick(void)
{
    const double tiny = PU_TEST_PICK(1e-6, 1e-3);
    pu_real a[9], *y = tc_normal(13, 12), theta[2] = {0, (pu_real)PU_TEST_PICK(27, 12)};
    pu_op design = pu_op_dense(3, 3, a);
    pu_data data = pu_data_full(4, 3, y);
    pu_check_report report;
    pu_model model;
    char text[400];
    tc_set_case("columns that hardly differ");
    memset(&model, 0, sizeof model);
    model.memory = tc_workspace();
    for (int i = 0; i < 9; i++) a[i] = (pu_real)(1 + tiny * (i * i % 7));
    TC_STATUS(pu_model_regression(&model, &design, NULL), PU_OK);
    TC_STATUS(pu_model_check(&model, theta, &data, NULL, &report), PU_INEXACT);
    pu_check_explain(&report, 1, full_text, sizeof full_text);
    GREATEST_ASSERTm(say_full(), report.wrong == 0 && report.count == 41);
    GREATEST_ASSERTm(say_full(), strstr(full_text, "model.grad: ok, ") && strstr(full_text, "try another theta"));
    TC_ASSERT(strstr(find(&report, "model", "grad")->left_out, "PU_INEXACT") != NULL);
    pu_check_explain(&report, 0, text, sizeof text);
    TC_ASSERT(strstr(text, "not compared with differences: try another theta") != NULL);
    tc_set_case("another theta");
    theta[1] = 0;
    TC_STATUS(pu_model_check(&model, theta, &data, NULL, &report), PU_OK);
    TC_ASSERT(find(&report, "model", "grad")->left_out[0] == 0);
    PASS();
}

/* The lines of the manual. */
TEST the_manual_can_be_followed(void)
{
    chain c = {PU_R(0.6), PU_R(2.5)};
    pu_real *parameters = &c.a;
    pu_op op = my_op(LENGTH, &c);
    pu_check_options o = {0};
    pu_check_report found;
    char text[4096];
    o.role = PU_ROLE_PRIOR;
    o.theta = parameters;
    if (pu_op_check(&op, &o, &found) != PU_OK) puts(pu_check_explain(&found, 1, text, sizeof text));
    ASSERT_EQ(found.status, PU_OK);
    /* the size that is told holds a full report */
    pu_check_explain(&found, 1, text, sizeof text);
    ASSERT(strstr(text, "op.check: ok") && strlen(text) < sizeof text - 1);
    ASSERT(!strstr(text, "wrong") && strstr(pu_check_explain(&found, 0, text, sizeof text), "no mistake found"));
    PASS();
}

/* ---- the built-in models ------------------------------------------------------------------------------------------ */

static greatest_test_res model_passes(pu_model *model, pu_status made, pu_int N, pu_int M, uint64_t seed)
{
    pu_real *y = tc_normal(seed, N * M), *theta;
    pu_data data = pu_data_nan(N, M, y);
    pu_check_report report;
    pu_report started;
    const char *who = "";
    double share;
    pu_status status;
    if (made) exit(2);
    for (pu_int i = 1; i < N * M; i += 5) y[i] = PU_R(NAN);
    theta = tc_reals(model->params);
    TC_STATUS(pu_model_start(model, &data, 3, theta, &started), PU_OK);
    for (pu_int i = 0; i < model->params; i++) { /* off the start, where some gradients vanish */
        theta[i] += PU_R(0.05) * (pu_real)(1 + i % 4);
    }
    status = pu_model_check(model, theta, &data, NULL, &report);
    pu_check_explain(&report, 1, full_text, sizeof full_text);
    share = worst_share(&report, &who);
    if (share > worst_of_all) {
        worst_of_all = share;
        snprintf(worst_name, sizeof worst_name, "%s of [%.150s]", who, tc_case);
    }
    GREATEST_ASSERTm(say_full(), status == PU_OK);
    GREATEST_ASSERTm(say_full(), share < 0.7);
    GREATEST_ASSERTm(say_full(), find(&report, "model", "grad")->left_out[0] == 0);
    pu_model_free(model);
    PASS();
}

TEST built_in_models_pass(void)
{
    pu_real *X = tc_normal(31, 16), *a = tc_normal(32, 35);
    pu_op dictionary = pu_op_dense(7, 5, a);
    pu_model m;
    pu_report r;
    memset(&m, 0, sizeof m);
    tc_set_case("factors");
    CHECK_CALL(model_passes(&m, pu_model_factors(&m, 6, 2, &r), 9, 6, 41));
    tc_set_case("ppca");
    CHECK_CALL(model_passes(&m, pu_model_ppca(&m, 5, 2, &r), 8, 5, 42));
    tc_set_case("sparse");
    CHECK_CALL(model_passes(&m, pu_model_sparse(&m, &dictionary, &r), 2, 7, 43));
    tc_set_case("regression");
    CHECK_CALL(model_passes(&m, pu_model_regression(&m, &dictionary, &r), 2, 7, 44));
    tc_set_case("neural");
    CHECK_CALL(model_passes(&m, pu_model_neural(&m, 8, 2, X, 3, 0, &r), 2, 8, 45));
    tc_set_case("neural with features");
    CHECK_CALL(model_passes(&m, pu_model_neural(&m, 8, 2, X, 3, 2, &r), 2, 8, 46));
    for (pu_int order = 1; order <= 3; order++) {
        tc_set_case("noisy AR %d", (int)order);
        CHECK_CALL(model_passes(&m, pu_model_noisy_ar(&m, 25, order, &r), 3, 25, 47));
    }
    for (int start = 0; start <= PU_SSM_DIFFUSE; start++) {
        tc_set_case("state space, start %d", start);
        CHECK_CALL(model_passes(&m, pu_model_state_space(&m, 12, 2, (pu_ssm_start)start, &r), 2, 12, 48));
        tc_set_case("dynamic factors, start %d", start);
        CHECK_CALL(model_passes(&m, pu_model_dynamic_factors(&m, 12, 3, 2, (pu_ssm_start)start, &r), 2, 36, 49));
    }
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    RUN_TEST(an_operator_without_mistake_passes);
    RUN_TEST(every_mistake_in_an_operator_is_found_and_named);
    RUN_TEST(the_role_decides_what_is_asked);
    RUN_TEST(a_large_operator_is_tested_as_far_as_it_goes);
    RUN_TEST(calls_that_cannot_be_made_are_refused);
    RUN_TEST(a_check_can_be_repeated);
    RUN_TEST(structured_operators_pass);
    RUN_TEST(plain_operators_pass);
    RUN_TEST(series_operators_pass);
    RUN_TESTp(scale_is_no_mistake, 1e-6);
    RUN_TESTp(scale_is_no_mistake, 1e6);
    RUN_TESTp(scale_is_no_mistake, PU_TEST_PICK(1e-12, 1e-7));
    RUN_TESTp(scale_is_no_mistake, PU_TEST_PICK(1e12, 1e7));
    RUN_TEST(fourier_operators_pass);
    RUN_TEST(a_model_without_mistake_passes);
    RUN_TEST(every_mistake_in_a_model_is_found_and_named);
    RUN_TEST(a_theta_that_is_refused_is_refused);
    RUN_TEST(a_likelihood_without_digits_is_no_yardstick);
    RUN_TEST(the_manual_can_be_followed);
    RUN_TEST(built_in_models_pass);
    printf("largest share of what is allowed: %.3f, %s\n", worst_of_all, worst_name);
    PU_TEST_MAIN_END();
}
