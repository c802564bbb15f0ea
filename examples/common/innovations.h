/* innovations.h - what a model of time did not expect: y_t less its mean given all before it, in units of its standard deviation.

   Of a model that is right they are independent N(0, 1). Their sum of squares and variances is the likelihood, which tells whether
   they are computed right: innovations_nll beside that of the library.

       nll = innovations(&system, length, y, e);         of one series; y: length x outputs, the mean taken out, NaN = missing
       innovations_look(count, length, e, &check);       autocorrelations, largest one
       innovations_report(&page, &series, &check, ..);   a section of a report
       innovations_ar(ar, .., &system);                  an autoregression as a system

   Include after program.h, series.h, report.h. */
#ifndef EXAMPLES_INNOVATIONS_H
#define EXAMPLES_INNOVATIONS_H

enum { INNOVATIONS_LAGS = 24 };

/* z_t = A z_{t-1} + N(0, Q), z_1 of covariance P0, y_t = C z_t + noise of variances 1 / psi (length x outputs). */
typedef struct {
    int S, outputs;
    const double *A, *Q, *P0, *C;
    const pu_real *psi;
} innovations_system;

/* About how many operations a series takes. */
static inline double innovations_work(const innovations_system *m, pu_int length)
{
    double entries = 0;
    int i;
    for (i = 0; i < m->S * m->S; i++) entries += m->A[i] < 0 || m->A[i] > 0;
    return (double)length * (2 * entries * m->S + (1 + 2.0 * m->outputs) * m->S * m->S);
}

/* P = A P A' + Q by the entries of A that are not zero: at + row[i] .. row[i + 1]. */
static inline void innovations_step(const innovations_system *m, const int *row, const int *at, double *a, double *P, double *T)
{
    const int S = m->S;
    int i, j, k;
    for (i = 0; i < S; i++) {
        double sum = 0;
        for (j = 0; j < S; j++) T[i * S + j] = 0;
        for (k = row[i]; k < row[i + 1]; k++) {
            const double x = m->A[i * S + at[k]], *from = P + at[k] * S;
            for (j = 0; j < S; j++) T[i * S + j] += x * from[j];
            sum += x * a[at[k]];
        }
        T[S * S + i] = sum;
    }
    memcpy(a, T + S * S, (size_t)S * sizeof *a);
    for (i = 0; i < S; i++)
        for (j = 0; j <= i; j++) {
            double sum = m->Q[i * S + j];
            for (k = row[j]; k < row[j + 1]; k++) sum += T[i * S + at[k]] * m->A[j * S + at[k]];
            P[i * S + j] = P[j * S + i] = sum;
        }
}

/* A Kalman filter; outputs one after the other, their noise being independent. Returns the negative log-likelihood. */
static inline double innovations(const innovations_system *m, pu_int length, const double *y, double *e)
{
    const int S = m->S;
    double *a = (double *)need_bytes((size_t)(2 * S * S + 3 * S) * sizeof *a), *P = a + S, *T = P + S * S, *K = T + S * S + S, nll = 0;
    int *row = (int *)need_bytes((size_t)(S * S + S + 1) * sizeof *row), *at = row + S + 1, i, j, r, n;
    pu_int t;
    for (i = 0, n = 0; i < S; row[++i] = n)
        for (j = 0; j < S; j++)
            if (m->A[i * S + j] < 0 || m->A[i * S + j] > 0) at[n++] = j;
    memcpy(P, m->P0, (size_t)(S * S) * sizeof *P);
    for (t = 0; t < length; t++) {
        if (t > 0) innovations_step(m, row, at, a, P, T);
        for (r = 0; r < m->outputs; r++) {
            const double *c = m->C + r * S;
            double F = 1 / (double)m->psi[t * m->outputs + r], v = y[t * m->outputs + r];
            e[t * m->outputs + r] = (double)NAN;
            if (v != v) continue;
            for (i = 0; i < S; F += c[i] * K[i], v -= c[i] * a[i], i++)
                for (K[i] = 0, j = 0; j < S; j++) K[i] += P[i * S + j] * c[j];
            nll += (log(6.28318530717958647692 * F) + v * v / F) / 2;
            e[t * m->outputs + r] = v / sqrt(F);
            for (i = 0; i < S; i++) {
                a[i] += K[i] * v / F;
                for (j = 0; j < S; j++) P[i * S + j] -= K[i] * K[j] / F;
            }
        }
    }
    free(a), free(row);
    return nll;
}

/* The autoregression as a system of its last P values; `room` of 3 P^2 + P. Autocovariances from partial autocorrelations. */
static inline innovations_system innovations_ar(const pu_ar *ar, const pu_real *psi, double *room)
{
    const int P = (int)ar->order;
    double *A = room, *Q = A + P * P, *P0 = Q + P * P, *C = P0 + P * P;
    double *cov = (double *)need_bytes((size_t)(3 * P + 1) * sizeof *cov), *phi = cov + P + 1, *old = phi + P, left;
    innovations_system m;
    int i, j, k;
    for (cov[0] = (double)ar->kappa, i = 0; i < P; i++) cov[0] /= 1 - (double)ar->gamma[i] * (double)ar->gamma[i];
    for (k = 0, left = cov[0]; k < P; k++) { /* phi: the predictor of order k; left: the variance of its errors */
        const double g = (double)ar->gamma[k];
        for (cov[k + 1] = g * left, j = 0; j < k; j++) cov[k + 1] += phi[j] * cov[k - j];
        memcpy(old, phi, (size_t)k * sizeof *phi);
        for (j = 0; j < k; j++) phi[j] = old[j] - g * old[k - 1 - j];
        phi[k] = g, left *= 1 - g * g;
    }
    for (i = 0; i < P; i++) {
        A[i] = (double)ar->phi[i];
        if (i > 0) A[i * P + i - 1] = 1;
        for (j = 0; j < P; j++) P0[i * P + j] = cov[i > j ? i - j : j - i];
    }
    Q[0] = (double)ar->kappa, C[0] = 1;
    free(cov);
    m.S = P, m.outputs = 1, m.A = A, m.Q = Q, m.P0 = P0, m.C = C, m.psi = psi;
    return m;
}

/* ---- what they tell ---- */

typedef struct {
    long count;
    int lags, outside, worst; /* autocorrelations; those beyond their 95 % bound; the largest of them, 0 = none */
    double acf[INNOVATIONS_LAGS], bound[INNOVATIONS_LAGS];
    double deviation, largest; /* root mean square; the one of the largest size, */
    pu_int series, entry;      /* and where */
} innovations_check;

/* Of count series, e[n * length + t]. */
static inline void innovations_look(pu_int count, pu_int length, const double *e, innovations_check *c)
{
    double square = 0;
    pu_int n, t;
    int h;
    memset(c, 0, sizeof *c);
    for (n = 0; n < count; n++)
        for (t = 0; t < length; t++) {
            const double x = e[n * length + t];
            if (x != x) continue;
            c->count++, square += x * x;
            if (fabs(x) > fabs(c->largest)) c->largest = x, c->series = n, c->entry = t;
        }
    c->deviation = c->count ? sqrt(square / (double)c->count) : (double)NAN;
    c->lags = length / 4 < INNOVATIONS_LAGS ? (int)(length / 4) : INNOVATIONS_LAGS;
    for (h = 1; h <= c->lags; h++) {
        double sum = 0;
        long pairs = 0;
        for (n = 0; n < count; n++)
            for (t = h; t < length; t++) {
                const double x = e[n * length + t] * e[n * length + t - h];
                if (x == x) sum += x, pairs++;
            }
        c->acf[h - 1] = pairs && square > 0 ? sum / (double)pairs / (square / (double)c->count) : (double)NAN;
        c->bound[h - 1] = pairs ? 1.96 / sqrt((double)pairs) : (double)NAN;
        if (!(fabs(c->acf[h - 1]) > c->bound[h - 1])) continue;
        c->outside++;
        if (!c->worst || fabs(c->acf[h - 1]) / c->bound[h - 1] > fabs(c->acf[c->worst - 1]) / c->bound[c->worst - 1]) c->worst = h;
    }
}

/* More than chance leaves? Of independent ones so many or more are outside in less than one case of 50. */
static inline int innovations_bad(const innovations_check *c)
{
    double chance = 1, term = 1;
    int k;
    for (k = 0; k < c->lags; k++) term *= 0.95;
    for (k = 0; k < c->outside; k++) chance -= term, term *= (double)(c->lags - k) / (k + 1) * 0.05 / 0.95;
    return chance < 0.02;
}

/* The median of the largest size of so many N(0, 1). */
static inline double innovations_largest(long count)
{
    double low = 0, high = 40;
    int i;
    for (i = 0; i < 60; i++) {
        const double middle = (low + high) / 2;
        if (erfc(middle * 0.70710678118654752) > -expm1(-0.69314718055994531 / (double)count)) low = middle;
        else high = middle;
    }
    return low;
}

static inline void innovations_draw(const innovations_check *c, FILE *file)
{
    double x[INNOVATIONS_LAGS], low[INNOVATIONS_LAGS], high[INNOVATIONS_LAGS], reach = 0.1;
    svg_plot p;
    int h;
    for (h = 0; h < c->lags; h++) {
        x[h] = h + 1, low[h] = -c->bound[h], high[h] = c->bound[h];
        reach = fmax(reach, fmax(fabs(c->acf[h]), c->bound[h]));
    }
    memset(&p, 0, sizeof p);
    p.file = file, p.title = "autocorrelation of the innovations", p.x_label = "lag in steps", p.y_label = "autocorrelation";
    p.x0 = 0.5, p.x1 = c->lags + 0.5, p.y0 = -1.1 * reach, p.y1 = 1.1 * reach, p.top = 30, p.height = 150, p.whole_x = 1;
    svg_begin(&p);
    svg_legend(&p, "note", '#', "95 % of independent ones");
    svg_band(&p, c->lags, x, low, high, "note");
    svg_level(&p, 0);
    for (h = 0; h < c->lags; h++)
        if (c->acf[h] == c->acf[h])
            svg_interval(&p, x[h], fmin(0, c->acf[h]), c->acf[h], fmax(0, c->acf[h]), fabs(c->acf[h]) > c->bound[h] ? "c1" : "c2");
    svg_end(&p);
}

/* The section, of one-step innovations whose likelihood is `found` while the library's is `nll`. */
static inline void innovations_report(const report_page *r, const series *s, const innovations_check *c, double found, double nll)
{
    const double digits = sizeof(pu_real) < sizeof(double) ? 1e-3 : 1e-5;
    char text[1200] = "";
    report_section(r, "Does the model leave anything?");
    if (!(fabs(found - nll) <= digits * (1 + fabs(nll)))) {
        report_text(r, "Rounding does not allow to tell: the innovations have a likelihood of their own.");
        return;
    }
    if (c->count < 12 || c->lags < 2) {
        report_text(r, "There are too few values to tell.");
        return;
    }
    report_figure(r);
    innovations_draw(c, r->file);
    report_add(text, sizeof text, "Innovations are what each value differs by from its forecast of one step, in standard deviations.");
    report_add(text, sizeof text, "Of %d autocorrelations %d %s outside the band, where chance puts %.1f.", c->lags, c->outside,
               c->outside == 1 ? "is" : "are", 0.05 * c->lags);
    if (innovations_bad(c))
        report_add(text, sizeof text, "That is more than chance: the model misses something, most at lag %d (%.2f).", c->worst,
                   c->acf[c->worst - 1]);
    else report_add(text, sizeof text, "Nothing says that the model misses something.");
    report_caption(r, "%s", text);
    report_text(
        r, "The largest innovation is %.1f standard deviations, at %s %.10g of %s. Of %ld independent ones the largest has about %.1f.",
        c->largest,
        s->time   ? s->time
        : s->data ? "row"
                  : "time",
        series_when(s, c->entry), s->table.name[c->series], c->count, innovations_largest(c->count));
}

#endif /* EXAMPLES_INNOVATIONS_H */
