/* field_models.h - models with a sparse A: fields on a grid with a sparse prior, as a user writes one, and rows of Phi that
   see a few points; the same with dense matrices beside them. Include after test_common.h. */
#ifndef FIELD_MODELS_H
#define FIELD_MODELS_H

/* A model twice: with Gamma and Phi as sparse matrices, and with the same as dense ones. */
typedef struct {
    pu_int D, M, N;
    pu_csr phi, gamma;
    double *gamma_factor; /* Cholesky, for draws and log det */
    pu_real *phi_dense, *gamma_dense, *gamma_dense_factor, *gamma_diagonal;
    pu_real *psi, *nu, *y;
    unsigned char *mask;
    pu_op Gamma, Phi, Gamma_dense, Phi_dense;
    pu_lgm sparse, dense;
    pu_data data;
} field;

PU_TEST_FN pu_csr csr_of_dense(pu_int rows, pu_int cols, const pu_real *a)
{
    pu_int *start = (pu_int *)tc_bytes((size_t)(rows + 1) * sizeof *start), count = 0, i;
    pu_int *index;
    pu_real *value;
    pu_csr csr;
    for (i = 0; i < rows * cols; i++) {
        count += a[i] != 0;
        start[i / cols + 1] = count;
    }
    index = (pu_int *)tc_bytes((size_t)count * sizeof *index);
    value = tc_reals(count);
    for (count = 0, i = 0; i < rows * cols; i++) {
        if (a[i] == 0) continue;
        index[count] = i % cols;
        value[count++] = a[i];
    }
    csr.rows = rows;
    csr.cols = cols;
    csr.start = start;
    csr.index = index;
    csr.value = value;
    return csr;
}

/* A sparse prior as a user writes one: functions of his own, and the form stated. */
PU_TEST_FN pu_status prior_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    const pu_csr *a = (const pu_csr *)op->data;
    pu_int i, j, s;
    (void)work;
    for (j = 0; j < k; j++)
        for (i = 0; i < a->rows; i++) {
            pu_real sum = add ? Y.at[j * Y.ld + i] : 0;
            for (s = a->start[i]; s < a->start[i + 1]; s++) sum += a->value[s] * X.at[j * X.ld + a->index[s]];
            Y.at[j * Y.ld + i] = sum;
        }
    return PU_OK;
}

PU_TEST_FN pu_status prior_sample(const pu_op *op, pu_int k, pu_block E, pu_block Y, pu_real *work)
{
    const double *l = (const double *)op->aux;
    pu_int i, j, s, n = op->rows;
    (void)work;
    for (j = 0; j < k; j++)
        for (i = 0; i < n; i++) {
            double sum = 0;
            for (s = 0; s <= i; s++) sum += l[i * n + s] * (double)E.at[j * E.ld + s];
            Y.at[j * Y.ld + i] = (pu_real)sum;
        }
    return PU_OK;
}

PU_TEST_FN pu_status prior_logdet(const pu_op *op, double *value, pu_real *work)
{
    (void)work;
    *value = tc_logdet(op->rows, (const double *)op->aux);
    return PU_OK;
}

PU_TEST_FN pu_status prior_logdet_grad(const pu_op *op, pu_real weight, pu_real *grad, pu_real *work)
{
    const pu_csr *a = (const pu_csr *)op->data;
    pu_int n = op->rows, i, s;
    double *inverse = tc_doubles(n * n);
    (void)work;
    tc_inverse(n, (const double *)op->aux, inverse);
    for (i = 0; i < n; i++)
        for (s = a->start[i]; s < a->start[i + 1]; s++) grad[s] += weight * (pu_real)inverse[i * n + a->index[s]];
    return PU_OK;
}

PU_TEST_FN pu_op prior_op(const pu_csr *a, const double *factor)
{
    pu_op op;
    memset(&op, 0, sizeof op);
    op.rows = op.cols = a->rows;
    op.params = a->start[a->rows];
    op.form = PU_FORM_SPARSE;
    op.data = a;
    op.aux = factor;
    op.apply = op.apply_t = prior_apply;
    op.sample = prior_sample;
    op.logdet = prior_logdet;
    op.logdet_grad = prior_logdet_grad;
    return op;
}

/* A field on a grid of w x h points: Gamma = kappa + five-point Laplacian (or its diagonal alone), rows of Phi that see one
   to three points, some of them none, a fifth of the entries missing. */
PU_TEST_FN void make_field(field *f, pu_int w, pu_int h, pu_int M, pu_int N, int diagonal, double kappa, double noise)
{
    pu_int D = w * h, i, m;
    memset(f, 0, sizeof *f);
    f->D = D;
    f->M = M;
    f->N = N;
    f->gamma_dense = tc_reals(D * D);
    for (i = 0; i < D; i++) {
        pu_int x = i % w, y = i / w;
        pu_int beside[4];
        int b;
        beside[0] = x > 0 ? i - 1 : -1;
        beside[1] = x + 1 < w ? i + 1 : -1;
        beside[2] = y > 0 ? i - w : -1;
        beside[3] = y + 1 < h ? i + w : -1;
        f->gamma_dense[i * D + i] = (pu_real)kappa;
        for (b = 0; b < 4; b++) {
            if (beside[b] < 0) continue;
            f->gamma_dense[i * D + i] += 1;
            if (!diagonal) f->gamma_dense[i * D + beside[b]] = -1;
        }
    }
    f->gamma_diagonal = tc_reals(D);
    f->gamma_factor = tc_doubles(D * D);
    for (i = 0; i < D; i++) f->gamma_diagonal[i] = f->gamma_dense[i * D + i];
    for (i = 0; i < D * D; i++) f->gamma_factor[i] = (double)f->gamma_dense[i];
    if (!tc_cholesky(D, f->gamma_factor)) exit(2);
    f->gamma_dense_factor = tc_reals(D * D);
    if (pu_spd_factor(D, f->gamma_dense, f->gamma_dense_factor, NULL)) exit(2);
    f->phi_dense = tc_reals(M * D);
    for (m = 0; m < M; m++) {
        uint64_t random = tc_hash((uint64_t)m + 77);
        pu_int count = (pu_int)(random % 4), s;
        for (s = 0; s < count; s++)
            f->phi_dense[m * D + (pu_int)(tc_hash(random + (uint64_t)s) % (uint64_t)D)] = PU_R(0.5) + (pu_real)s / 4;
    }
    f->phi = csr_of_dense(M, D, f->phi_dense);
    f->gamma = csr_of_dense(D, D, f->gamma_dense);
    f->psi = tc_random_positive(5, M);
    for (m = 0; m < M; m++) f->psi[m] /= (pu_real)noise;
    f->nu = tc_normal(6, D);
    f->y = tc_normal(7, N * M);
    f->mask = (unsigned char *)tc_bytes((size_t)(N * M));
    for (i = 0; i < N * M; i++) f->mask[i] = tc_hash(1000 + (uint64_t)i) % 5 != 0;
    f->Phi = pu_op_csr(&f->phi);
    f->Phi_dense = pu_op_dense(M, D, f->phi_dense);
    f->Gamma = diagonal ? pu_op_diagonal(D, f->gamma_diagonal) : prior_op(&f->gamma, f->gamma_factor);
    f->Gamma_dense = pu_op_spd(D, f->gamma_dense, f->gamma_dense_factor);
    f->sparse.Gamma = &f->Gamma;
    f->sparse.Phi = &f->Phi;
    f->dense.Gamma = &f->Gamma_dense;
    f->dense.Phi = &f->Phi_dense;
    f->sparse.psi = f->dense.psi = f->psi;
    f->sparse.nu = f->dense.nu = f->nu;
    f->data = pu_data_masked(N, M, f->y, f->mask);
}

/* Probes sqrt(D) L e_k of datum n with A = L L', whose mean of sigma sigma' is Sigma; and log det A. */
PU_TEST_FN pu_real *field_probes(const field *f, double *logdet)
{
    pu_int D = f->D, n, i, j, m, k;
    pu_real *delta = tc_reals(f->N * D * D);
    for (n = 0; n < f->N; n++) {
        double *a = tc_doubles(D * D);
        for (i = 0; i < D * D; i++) a[i] = (double)f->gamma_dense[i];
        for (m = 0; m < f->M; m++) {
            const pu_real *row = f->phi_dense + m * D;
            if (!f->mask[n * f->M + m]) continue;
            for (i = 0; i < D; i++)
                for (j = 0; j < D && row[i] != 0; j++) a[i * D + j] += (double)f->psi[m] * (double)row[i] * (double)row[j];
        }
        if (!tc_cholesky(D, a)) exit(2);
        logdet[n] = tc_logdet(D, a);
        for (k = 0; k < D; k++)
            for (i = 0; i < D; i++)
                delta[(n * D + k) * D + i] = (pu_real)(i < k ? 0 : sqrt((double)D) * a[i * D + k]);
    }
    return delta;
}

#endif /* FIELD_MODELS_H */
