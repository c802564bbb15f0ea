/* user_operators.h - operators as a user would write them: plain loops against the public struct, nothing of the
   library's own. For test_user_ops.c and bench/user_ops.c, which compare them with the built-in ones.

   user_diagonal(n, params, a)   diag(a): params = n, one entry each; 1, all equal; 0, the identity (a is NULL)
   user_dense(rows, cols, a)     a row-major matrix

   Both state their form. The functions are those that Phi and Gamma need for every engine.
   Include after pu.h. */
#ifndef USER_OPERATORS_H
#define USER_OPERATORS_H

#include <math.h>
#include <stddef.h>
#include <string.h>

#if defined(__GNUC__)
#define USER_FN __attribute__((unused)) static
#else
#define USER_FN static
#endif

/* ---- diagonal -------------------------------------------------------------------------------- */

/* Entry i of the diagonal. */
USER_FN pu_real user_entry(const pu_op *op, pu_int i)
{
    const pu_real *a = (const pu_real *)op->data;
    if (op->params == 0) return PU_R(1);
    return op->params == 1 ? a[0] : a[i];
}

/* Y = diag(a) X or Y += diag(a) X; the transposed product is the same. */
USER_FN pu_status user_diagonal_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    pu_int i, j;
    (void)work;
    for (j = 0; j < k; j++) {
        const pu_real *x = X.at + j * X.ld;
        pu_real *y = Y.at + j * Y.ld;
        for (i = 0; i < op->rows; i++) {
            const pu_real term = user_entry(op, i) * x[i];
            y[i] = add ? y[i] + term : term;
        }
    }
    return PU_OK;
}

/* grad_i += sum_j weight_j p_ij q_ij, or the sum over i of that where the entries are equal. */
USER_FN pu_status user_diagonal_grad(const pu_op *op, pu_int k, pu_block P, pu_block Q, const pu_real *weight,
                                     pu_real *grad, pu_real *work)
{
    pu_int i, j;
    (void)work;
    if (op->params == 0) return PU_OK;
    for (j = 0; j < k; j++) {
        const pu_real *p = P.at + j * P.ld;
        const pu_real *q = Q.at + j * Q.ld;
        double sum = 0;
        for (i = 0; i < op->rows; i++) {
            if (op->params == 1) sum += (double)p[i] * (double)q[i];
            else grad[i] += weight[j] * (p[i] * q[i]);
        }
        if (op->params == 1) grad[0] += (pu_real)((double)weight[j] * sum);
    }
    return PU_OK;
}

/* y_i += a_i */
USER_FN pu_status user_diagonal_diag(const pu_op *op, pu_real *y, pu_real *work)
{
    pu_int i;
    (void)work;
    for (i = 0; i < op->rows; i++) y[i] += user_entry(op, i);
    return PU_OK;
}

/* y_i += w_i a_i^2 */
USER_FN pu_status user_diagonal_gram_diag(const pu_op *op, const pu_real *w, pu_real *y, pu_real *work)
{
    pu_int i;
    (void)work;
    for (i = 0; i < op->rows; i++) y[i] += w[i] * (user_entry(op, i) * user_entry(op, i));
    return PU_OK;
}

/* y_i = sqrt(a_i) e_i */
USER_FN pu_status user_diagonal_sample(const pu_op *op, pu_int k, pu_block E, pu_block Y, pu_real *work)
{
    pu_int i, j;
    (void)work;
    for (j = 0; j < k; j++) {
        for (i = 0; i < op->rows; i++) {
            Y.at[j * Y.ld + i] = (pu_real)sqrt((double)user_entry(op, i)) * E.at[j * E.ld + i];
        }
    }
    return PU_OK;
}

/* y_i = x_i / a_i */
USER_FN pu_status user_diagonal_solve(const pu_op *op, pu_int k, pu_block X, pu_block Y, pu_real *work)
{
    pu_int i, j;
    (void)work;
    for (j = 0; j < k; j++) {
        for (i = 0; i < op->rows; i++) Y.at[j * Y.ld + i] = X.at[j * X.ld + i] / user_entry(op, i);
    }
    return PU_OK;
}

/* sum_i log a_i */
USER_FN pu_status user_diagonal_logdet(const pu_op *op, double *value, pu_real *work)
{
    pu_int i;
    (void)work;
    *value = 0;
    for (i = 0; i < op->rows; i++) *value += log((double)user_entry(op, i));
    return PU_OK;
}

/* grad_i += weight / a_i */
USER_FN pu_status user_diagonal_logdet_grad(const pu_op *op, pu_real weight, pu_real *grad, pu_real *work)
{
    pu_int i;
    (void)work;
    if (op->params == 1) grad[0] += weight * (pu_real)op->rows / user_entry(op, 0);
    if (op->params <= 1) return PU_OK;
    for (i = 0; i < op->rows; i++) grad[i] += weight / user_entry(op, i);
    return PU_OK;
}

/* As Gamma of the banded engine: entry (i, i) is at B[i (width + 1)]. */
USER_FN pu_status user_diagonal_band_add(const pu_op *op, pu_int width, double *B, pu_real *work)
{
    pu_int i;
    (void)work;
    for (i = 0; i < op->rows; i++) B[i * (width + 1)] += (double)user_entry(op, i);
    return PU_OK;
}

/* grad_i += weight S_ii */
USER_FN pu_status user_diagonal_band_grad(const pu_op *op, pu_int width, const double *S, double weight,
                                          pu_real *grad, pu_real *work)
{
    double sum = 0;
    pu_int i;
    (void)work;
    for (i = 0; i < op->rows; i++) {
        sum += S[i * (width + 1)];
        if (op->params > 1) grad[i] += (pu_real)(weight * S[i * (width + 1)]);
    }
    if (op->params == 1) grad[0] += (pu_real)(weight * sum);
    return PU_OK;
}

/* As Phi of the banded engine: row m has one entry, in column m. */
USER_FN pu_int user_diagonal_row(const pu_op *op, pu_int m, pu_int *first, pu_real *value)
{
    *first = m;
    *value = user_entry(op, m);
    return 1;
}

/* grad += g d/da of that entry */
USER_FN pu_status user_diagonal_row_grad(const pu_op *op, pu_int m, const double *g, pu_real *grad)
{
    if (op->params == 1) grad[0] += (pu_real)g[0];
    if (op->params > 1) grad[m] += (pu_real)g[0];
    return PU_OK;
}

/* diag(a) of size n > 1; see the head of this file. */
USER_FN pu_op user_diagonal(pu_int n, pu_int params, const pu_real *a)
{
    pu_op op;
    memset(&op, 0, sizeof op);
    op.form = PU_FORM_DIAGONAL;
    op.rows = n;
    op.cols = n;
    op.params = params;
    op.data = a;
    op.apply = user_diagonal_apply;
    op.apply_t = user_diagonal_apply;
    op.grad = user_diagonal_grad;
    op.diag = user_diagonal_diag;
    op.gram_diag = user_diagonal_gram_diag;
    op.sample = user_diagonal_sample;
    op.solve = user_diagonal_solve;
    op.logdet = user_diagonal_logdet;
    op.logdet_grad = user_diagonal_logdet_grad;
    op.band_add = user_diagonal_band_add;
    op.band_grad = user_diagonal_band_grad;
    op.row = user_diagonal_row;
    op.row_grad = user_diagonal_row_grad;
    return op;
}

/* ---- dense ----------------------------------------------------------------------------------- */

/* Y = A X or Y += A X */
USER_FN pu_status user_dense_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    const pu_real *a = (const pu_real *)op->data;
    pu_int i, j, m;
    (void)work;
    for (j = 0; j < k; j++) {
        const pu_real *x = X.at + j * X.ld;
        pu_real *y = Y.at + j * Y.ld;
        for (m = 0; m < op->rows; m++) {
            pu_real sum = add ? y[m] : PU_R(0);
            for (i = 0; i < op->cols; i++) sum += a[m * op->cols + i] * x[i];
            y[m] = sum;
        }
    }
    return PU_OK;
}

/* Y = A' X or Y += A' X */
USER_FN pu_status user_dense_apply_t(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    const pu_real *a = (const pu_real *)op->data;
    pu_int i, j, m;
    (void)work;
    for (j = 0; j < k; j++) {
        const pu_real *x = X.at + j * X.ld;
        pu_real *y = Y.at + j * Y.ld;
        if (!add) {
            for (i = 0; i < op->cols; i++) y[i] = 0;
        }
        for (m = 0; m < op->rows; m++) {
            for (i = 0; i < op->cols; i++) y[i] += a[m * op->cols + i] * x[m];
        }
    }
    return PU_OK;
}

/* grad_mi += sum_j weight_j p_mj q_ij */
USER_FN pu_status user_dense_grad(const pu_op *op, pu_int k, pu_block P, pu_block Q, const pu_real *weight,
                                  pu_real *grad, pu_real *work)
{
    pu_int i, j, m;
    (void)work;
    for (j = 0; j < k; j++) {
        const pu_real *p = P.at + j * P.ld;
        const pu_real *q = Q.at + j * Q.ld;
        for (m = 0; m < op->rows; m++) {
            for (i = 0; i < op->cols; i++) grad[m * op->cols + i] += weight[j] * p[m] * q[i];
        }
    }
    return PU_OK;
}

/* y_i += sum_m w_m a_mi^2 */
USER_FN pu_status user_dense_gram_diag(const pu_op *op, const pu_real *w, pu_real *y, pu_real *work)
{
    const pu_real *a = (const pu_real *)op->data;
    pu_int i, m;
    (void)work;
    for (m = 0; m < op->rows; m++) {
        for (i = 0; i < op->cols; i++) y[i] += w[m] * (a[m * op->cols + i] * a[m * op->cols + i]);
    }
    return PU_OK;
}

/* A row-major matrix, whose entries are the parameters. */
USER_FN pu_op user_dense(pu_int rows, pu_int cols, const pu_real *a)
{
    pu_op op;
    memset(&op, 0, sizeof op);
    op.form = PU_FORM_MATRIX;
    op.rows = rows;
    op.cols = cols;
    op.params = rows * cols;
    op.data = a;
    op.apply = user_dense_apply;
    op.apply_t = user_dense_apply_t;
    op.grad = user_dense_grad;
    op.gram_diag = user_dense_gram_diag;
    return op;
}

#endif /* USER_OPERATORS_H */
