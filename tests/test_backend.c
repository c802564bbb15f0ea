/* test_backend.c - the primitives of the CPU vector backend against plain loops in double. */
#include "pu_test.h"
#include "test_common.h"

static const pu_int sizes[] = {0, 1, 2, 15, 16, 17, 31, 33, 1000, 4097};
static const pu_int widths[] = {1, 2, 5, 40};

#define SIZES  ((int)(sizeof sizes / sizeof sizes[0]))
#define WIDTHS ((int)(sizeof widths / sizeof widths[0]))

static uint64_t next_seed = 1;

/* A block of normals; between and after its columns lie NaN, which nobody may read or write. */
typedef struct {
    pu_block b;
    pu_int n, k, ld;
} guarded;

static guarded normal_block(pu_int n, pu_int k, pu_int pad)
{
    guarded g;
    pu_int j;
    g.n = n;
    g.k = k;
    g.ld = n + pad;
    g.b = tc_block(tc_reals(g.ld * k), g.ld);
    tc_fill(g.ld * k, g.b.at, PU_R(NAN));
    for (j = 0; j < k; j++) tc_fill_normal(++next_seed, n, g.b.at + j * g.ld);
    return g;
}

static guarded copy_block(const guarded *g)
{
    guarded c = *g;
    c.b.at = tc_reals(g->ld * g->k);
    memcpy(c.b.at, g->b.at, (size_t)(g->ld * g->k) * sizeof(pu_real));
    return c;
}

static double at(const guarded *g, pu_int i, pu_int j)
{
    return (double)g->b.at[j * g->ld + i];
}

/* Only the columns may differ between a block and its copy: the padding keeps its NaN. */
static int padding_intact(const guarded *g)
{
    pu_int i, j;
    for (j = 0; j < g->k; j++) {
        for (i = g->n; i < g->ld; i++) {
            if (!isnan(g->b.at[j * g->ld + i])) return 0;
        }
    }
    return 1;
}

static int column_same_bits(const guarded *a, const guarded *b, pu_int j)
{
    return memcmp(a->b.at + j * a->ld, b->b.at + j * b->ld, (size_t)a->n * sizeof(pu_real)) == 0;
}

static void poison_column(guarded *g, pu_int j)
{
    tc_fill(g->n, g->b.at + j * g->ld, PU_R(NAN));
}

/* Chunks of 512 entries are summed in 16 lanes, folded, and added up in double: an entry passes at
   most 32 additions in its lane, 4 in the folding, and two products; the chunks add nothing that
   shows, and the result is rounded once. */
static double sum_unit(pu_int n)
{
    double lane = (double)(n < 512 ? n : 512) / 16;
    return (lane + 8) * PU_TEST_EPS;
}

/* ---- dot ------------------------------------------------------------------------------------- */

TEST dot(pu_int n, pu_int k, int with_m)
{
    const pu_backend *cpu = pu_backend_cpu();
    guarded x = normal_block(n, k, 3), y = normal_block(n, k, 5);
    pu_real *m = with_m ? tc_random_positive(++next_seed, n) : NULL, *s = tc_reals(k + 1);
    pu_int i, j;
    tc_set_case("n %d k %d m %d", (int)n, (int)k, with_m);
    tc_fill(k + 1, s, PU_R(NAN));
    cpu->dot(cpu->user, n, k, m, x.b, y.b, s);
    for (j = 0; j < k; j++) {
        double want = 0, size = 0;
        for (i = 0; i < n; i++) {
            double term = (m ? (double)m[i] : 1) * at(&x, i, j) * at(&y, i, j);
            want += term;
            size += fabs(term);
        }
        TC_CLOSE(s[j], want, sum_unit(n) * size);
    }
    TC_ASSERT(isnan(s[k]));
    PASS();
}

/* Order of summation fixed by n alone: the same column alone, among others, and at every alignment.
   */
TEST dot_same_bits_anywhere(pu_int n)
{
    const pu_backend *cpu = pu_backend_cpu();
    guarded x = normal_block(n, 40, 1), y = normal_block(n, 40, 2);
    pu_real *m = tc_random_positive(++next_seed, n), s[40], with_m[40];
    pu_real *moved_x = tc_reals(n + 16), *moved_y = tc_reals(n + 16);
    pu_int j, shift;
    tc_set_case("n %d", (int)n);
    cpu->dot(cpu->user, n, 40, NULL, x.b, y.b, s);
    cpu->dot(cpu->user, n, 40, m, x.b, y.b, with_m);
    for (j = 0; j < 40; j++) {
        shift = j % 16;
        memcpy(moved_x + shift, x.b.at + j * x.ld, (size_t)n * sizeof *moved_x);
        memcpy(moved_y + 15 - shift, y.b.at + j * y.ld, (size_t)n * sizeof *moved_y);
        {
            pu_real one[2];
            pu_block a = tc_block(moved_x + shift, n), b = tc_block(moved_y + 15 - shift, n);
            cpu->dot(cpu->user, n, 1, NULL, a, b, &one[0]);
            cpu->dot(cpu->user, n, 1, m, a, b, &one[1]);
            TC_ASSERT(memcmp(&one[0], &s[j], sizeof s[j]) == 0);
            TC_ASSERT(memcmp(&one[1], &with_m[j], sizeof s[j]) == 0);
        }
    }
    PASS();
}

/* ---- combine --------------------------------------------------------------------------------- */

enum { TERMS = 4 };

/* Which parts the t-th term has: all four combinations of coefficients and multiplier vector occur.
   */
static pu_term make_term(const guarded *x, int t, pu_int n, pu_int k)
{
    static const double scales[TERMS] = {1, -1, 0.5, -2.75};
    pu_term term;
    term.x = x->b;
    term.scale = PU_R(scales[t]);
    term.c = t % 2 ? tc_normal(++next_seed, k) : NULL;
    term.m = t / 2 ? tc_normal(++next_seed, n) : NULL;
    return term;
}

/* Entry (i, j) of the combination, in double, and the sum of the sizes of its terms. */
static double naive_entry(int count, const pu_term *terms, const guarded *values, pu_int i,
                          pu_int j, double *size)
{
    double sum = 0;
    int t;
    *size = 0;
    for (t = 0; t < count; t++) {
        double coefficient = (double)terms[t].scale * (terms[t].c ? (double)terms[t].c[j] : 1);
        double value = at(&values[t], i, j) * (terms[t].m ? (double)terms[t].m[i] : 1);
        if (!(fabs(coefficient) > 0)) continue;
        sum += coefficient * value;
        *size += fabs(coefficient * value);
    }
    return sum;
}

/* The rotation starts the list of terms at another one, so that every kind is first once. `alias`
   is the position of the term that is y itself, or -1. */
TEST combine(pu_int n, pu_int k, int count, int rotation, int alias)
{
    const pu_backend *cpu = pu_backend_cpu();
    guarded x[TERMS], values[TERMS], y = normal_block(n, k, 2);
    pu_term terms[TERMS];
    pu_int i, j;
    int t;
    tc_set_case("n %d k %d count %d rotation %d alias %d", (int)n, (int)k, count, rotation, alias);
    for (t = 0; t < count; t++) {
        x[t] = t == alias ? y : normal_block(n, k, t);
        values[t] = copy_block(&x[t]);
        terms[t] = make_term(&x[t], (t + rotation) % TERMS, n, k);
    }
    for (j = 0; alias < 0 && j < k; j++) poison_column(&y, j);
    cpu->combine(cpu->user, n, k, y.b, count, terms);
    for (j = 0; j < k; j++) {
        for (i = 0; i < n; i++) {
            double size, want = naive_entry(count, terms, values, i, j, &size);
            TC_CLOSE(at(&y, i, j), want, 8 * PU_TEST_EPS * size);
        }
    }
    TC_ASSERT(padding_intact(&y));
    for (t = 0; t < count; t++) {
        for (j = 0; t != alias && j < k; j++) TC_ASSERT(column_same_bits(&x[t], &values[t], j));
    }
    PASS();
}

TEST combine_all(pu_int n, pu_int k)
{
    size_t mark = tc_kept_count;
    int count, rotation, alias;
    for (count = 1; count <= TERMS; count++) {
        for (rotation = 0; rotation < TERMS; rotation++) {
            for (alias = -1; alias < count; alias++) {
                CHECK_CALL(combine(n, k, count, rotation, alias));
                tc_release_to(mark);
            }
        }
    }
    PASS();
}

/* No term at all clears the block, whatever it held. */
TEST combine_nothing(pu_int n, pu_int k)
{
    const pu_backend *cpu = pu_backend_cpu();
    guarded y = normal_block(n, k, 2);
    pu_int i, j;
    tc_set_case("n %d k %d", (int)n, (int)k);
    for (j = 0; j < k; j++) poison_column(&y, j);
    cpu->combine(cpu->user, n, k, y.b, 0, NULL);
    for (j = 0; j < k; j++) {
        for (i = 0; i < n; i++) TC_CLOSE(at(&y, i, j), 0, 0);
    }
    TC_ASSERT(padding_intact(&y));
    PASS();
}

/* A coefficient of zero, whether by scale or by c[j], hides NaN and infinity; also in y itself,
   when y is a term. With c[j] only every other column is dead. */
typedef struct {
    int count, dead, by_scale, alias;
} zero_case;

static void kill_columns(const zero_case *z, guarded *x, pu_real *c)
{
    pu_int j;
    for (j = 0; j < x->k; j += z->by_scale ? 1 : 2) {
        if (!z->by_scale) c[j] = PU_R(0);
        poison_column(x, j);
        if (x->n > 1) x->b.at[j * x->ld + 1] = PU_R(INFINITY);
    }
}

TEST combine_zero_is_not_read(pu_int n, pu_int k, const zero_case *z)
{
    const pu_backend *cpu = pu_backend_cpu();
    guarded x[TERMS], values[TERMS], y = normal_block(n, k, 1);
    pu_term terms[TERMS];
    pu_real *c = tc_normal(++next_seed, k);
    pu_int i, j;
    int t;
    tc_set_case("n %d k %d count %d dead %d by scale %d alias %d", (int)n, (int)k, z->count,
                z->dead, z->by_scale, z->alias);
    for (t = 0; t < z->count; t++) {
        x[t] = t == z->alias ? y : normal_block(n, k, t);
        terms[t] = make_term(&x[t], t, n, k);
        if (t != z->dead) continue;
        kill_columns(z, &x[t], c);
        terms[t].c = c;
        if (z->by_scale) terms[t].scale = PU_R(0);
    }
    for (t = 0; t < z->count; t++) values[t] = copy_block(&x[t]);
    cpu->combine(cpu->user, n, k, y.b, z->count, terms);
    for (j = 0; j < k; j++) {
        for (i = 0; i < n; i++) {
            double size, want = naive_entry(z->count, terms, values, i, j, &size);
            TC_CLOSE(at(&y, i, j), want, 8 * PU_TEST_EPS * size);
        }
    }
    PASS();
}

TEST combine_zeros(pu_int n, pu_int k)
{
    size_t mark = tc_kept_count;
    zero_case z;
    for (z.count = 1; z.count <= TERMS; z.count++) {
        for (z.dead = 0; z.dead < z.count; z.dead++) {
            for (z.by_scale = 0; z.by_scale <= 1; z.by_scale++) {
                for (z.alias = -1; z.alias < z.count; z.alias++) {
                    CHECK_CALL(combine_zero_is_not_read(n, k, &z));
                    tc_release_to(mark);
                }
            }
        }
    }
    PASS();
}

/* ---- advance --------------------------------------------------------------------------------- */

/* x += a d, r -= a q, rho = r'(m o r); every third column is frozen (a = 0) and its d and q hold
   NaN. Without x the rest is the same. */
TEST advance(pu_int n, pu_int k, int with_m, int without_x)
{
    const pu_backend *cpu = pu_backend_cpu();
    guarded d = normal_block(n, k, 0), q = normal_block(n, k, 1), x = normal_block(n, k, 2);
    guarded r = normal_block(n, k, 3), x0 = copy_block(&x), r0 = copy_block(&r);
    pu_real *m = with_m ? tc_random_positive(++next_seed, n) : NULL;
    pu_real *a = tc_normal(++next_seed, k), *rho = tc_reals(k);
    pu_int i, j;
    tc_set_case("n %d k %d m %d", (int)n, (int)k, with_m);
    tc_fill(k, rho, PU_R(NAN));
    for (j = 0; j < k; j += 3) {
        a[j] = PU_R(0);
        poison_column(&d, j);
        poison_column(&q, j);
    }
    if (without_x) {
        x.b.at = NULL;
        cpu->advance(cpu->user, n, k, a, m, d.b, q.b, x.b, r.b, rho);
        x = copy_block(&x0);
        for (j = 0; j < k; j++) { /* what was left to the caller */
            for (i = 0; i < n && j % 3; i++) x.b.at[j * x.ld + i] += a[j] * d.b.at[j * d.ld + i];
        }
    } else cpu->advance(cpu->user, n, k, a, m, d.b, q.b, x.b, r.b, rho);
    for (j = 0; j < k; j++) {
        double want = 0, step = (double)a[j];
        if (j % 3 == 0) TC_ASSERT(column_same_bits(&x, &x0, j) && column_same_bits(&r, &r0, j));
        for (i = 0; i < n; i++) {
            double ad = j % 3 ? step * at(&d, i, j) : 0, aq = j % 3 ? step * at(&q, i, j) : 0;
            double r1 = at(&r, i, j);
            TC_CLOSE(at(&x, i, j), at(&x0, i, j) + ad,
                     2 * PU_TEST_EPS * (fabs(at(&x0, i, j)) + fabs(ad)));
            TC_CLOSE(r1, at(&r0, i, j) - aq, 2 * PU_TEST_EPS * (fabs(at(&r0, i, j)) + fabs(aq)));
            want += (m ? (double)m[i] : 1) * r1 * r1;
        }
        TC_CLOSE(rho[j], want, sum_unit(n) * want);
    }
    TC_ASSERT(padding_intact(&x) && padding_intact(&r));
    PASS();
}

/* ---- retreat --------------------------------------------------------------------------------- */

/* rbar += m o dbar, dbar = be dbar + a xbar. Every third column is frozen (a = 0): its xbar holds NaN.
   Every other column has be = 0. */
TEST retreat(pu_int n, pu_int k, int with_m)
{
    const pu_backend *cpu = pu_backend_cpu();
    guarded xbar = normal_block(n, k, 0), rbar = normal_block(n, k, 1);
    guarded dbar = normal_block(n, k, 3), r0 = copy_block(&rbar), d0 = copy_block(&dbar);
    pu_real *m = with_m ? tc_random_positive(++next_seed, n) : NULL;
    pu_real *a = tc_normal(++next_seed, k), *be = tc_normal(++next_seed, k);
    pu_int i, j;
    tc_set_case("n %d k %d m %d", (int)n, (int)k, with_m);
    for (j = 0; j < k; j += 3) {
        a[j] = PU_R(0);
        poison_column(&xbar, j);
    }
    for (j = 0; j < k; j += 2) be[j] = PU_R(0);
    cpu->retreat(cpu->user, n, k, a, be, m, xbar.b, rbar.b, dbar.b);
    for (j = 0; j < k; j++) {
        for (i = 0; i < n; i++) {
            double md = (m ? (double)m[i] : 1) * at(&d0, i, j), ax = j % 3 ? (double)a[j] * at(&xbar, i, j) : 0;
            double bd = (double)be[j] * at(&d0, i, j);
            TC_CLOSE(at(&rbar, i, j), at(&r0, i, j) + md, 2 * PU_TEST_EPS * (fabs(at(&r0, i, j)) + fabs(md)));
            TC_CLOSE(at(&dbar, i, j), bd + ax, 2 * PU_TEST_EPS * (fabs(bd) + fabs(ax)));
        }
    }
    TC_ASSERT(padding_intact(&rbar) && padding_intact(&dbar));
    PASS();
}

/* ---- row_dot --------------------------------------------------------------------------------- */

TEST row_dot(pu_int n, pu_int k, int with_m, int with_w)
{
    const pu_backend *cpu = pu_backend_cpu();
    guarded p = normal_block(n, k, 3), q = normal_block(n, k, 4);
    pu_real *m = with_m ? tc_normal(++next_seed, n) : NULL;
    pu_real *w = with_w ? tc_normal(++next_seed, k) : NULL;
    pu_real *out = tc_normal(++next_seed, n + 1), *before = tc_reals(n + 1);
    pu_int i, j;
    tc_set_case("n %d k %d m %d w %d", (int)n, (int)k, with_m, with_w);
    memcpy(before, out, (size_t)(n + 1) * sizeof *out);
    cpu->row_dot(cpu->user, n, k, m, w, p.b, q.b, 0, NULL, out);
    for (i = 0; i < n; i++) {
        double sum = 0, size = 0, factor = m ? (double)m[i] : 1;
        for (j = 0; j < k; j++) {
            double term = (w ? (double)w[j] : 1) * at(&p, i, j) * at(&q, i, j);
            sum += term;
            size += fabs(term);
        }
        TC_CLOSE(out[i], (double)before[i] + factor * sum,
                 ((double)k + 4) * PU_TEST_EPS * (fabs((double)before[i]) + fabs(factor) * size));
    }
    TC_ASSERT(memcmp(&out[n], &before[n], sizeof out[n]) == 0);
    PASS();
}

/* rows 0, 3, 6, .. of 3 n */
static pu_int *every_third(pu_int n)
{
    pu_int *rows = (pu_int *)tc_bytes((size_t)(n + 1) * sizeof *rows), i;
    for (i = 0; i < n; i++) rows[i] = 3 * i;
    return rows;
}

/* The same into listed rows: the others stay as they are; without a q it is 1. */
/* Weight zero: the column is not read, in every form, whatever is there; the others count as if it were not there. */
TEST row_dot_skips_weight_zero(int with_m, int with_q, int with_rows)
{
    const pu_backend *cpu = pu_backend_cpu();
    const pu_block none = {NULL, 0};
    enum { n = 33 };
    guarded p = normal_block(n, 3, 2), q = normal_block(n, 3, 0);
    const pu_real w[3] = {2, 0, PU_R(-0.5)}, alone[2] = {2, PU_R(-0.5)};
    pu_real *m = with_m ? tc_reals(n) : NULL, *got = tc_reals(n), *want = tc_reals(n);
    pu_int rows[n];
    pu_int i;
    if (m) tc_fill_normal(++next_seed, n, m);
    for (i = 0; i < n; i++) rows[i] = n - 1 - i;
    for (i = 0; i < 2; i++)
        cpu->row_dot(cpu->user, n, 1, m, alone + i, tc_block(p.b.at + 2 * i * p.ld, p.ld),
                     with_q ? tc_block(q.b.at + 2 * i * q.ld, q.ld) : none, n, with_rows ? rows : NULL, want);
    tc_fill(n, p.b.at + p.ld, PU_R(NAN));
    tc_fill(n, q.b.at + q.ld, PU_R(INFINITY));
    cpu->row_dot(cpu->user, n, 3, m, w, p.b, with_q ? q.b : none, n, with_rows ? rows : NULL, got);
    tc_set_case("m %d, q %d, rows %d", with_m, with_q, with_rows);
    TC_ASSERT(memcmp(got, want, n * sizeof *got) == 0);
    PASS();
}

TEST row_dot_into_rows(pu_int n, pu_int k, int with_m, int with_q)
{
    const pu_backend *cpu = pu_backend_cpu();
    const pu_block none = {NULL, 0};
    guarded p = normal_block(n, k, 3), q = normal_block(n, k, 4);
    pu_real *m = with_m ? tc_normal(++next_seed, n) : NULL, *w = tc_normal(++next_seed, k);
    pu_real *out = tc_normal(++next_seed, 3 * n + 1), *before = tc_reals(3 * n + 1);
    pu_int i, j;
    tc_set_case("n %d k %d m %d q %d", (int)n, (int)k, with_m, with_q);
    memcpy(before, out, (size_t)(3 * n + 1) * sizeof *out);
    cpu->row_dot(cpu->user, n, k, m, w, p.b, with_q ? q.b : none, 3 * n, every_third(n), out);
    for (i = 0; i < 3 * n; i++) {
        double sum = 0, size = 0;
        for (j = 0; j < k && i % 3 == 0; j++) {
            const double term = (double)w[j] * (m ? (double)m[i / 3] : 1) * at(&p, i / 3, j) * (with_q ? at(&q, i / 3, j) : 1);
            sum += term, size += fabs(term);
        }
        TC_CLOSE(out[i], (double)before[i] + sum, ((double)k + 4) * PU_TEST_EPS * (fabs((double)before[i]) + size));
    }
    PASS();
}

TEST sum_dot(pu_int n, pu_int k, int with_m)
{
    const pu_backend *cpu = pu_backend_cpu();
    guarded x = normal_block(n, k, 3), y = normal_block(n, k, 4);
    pu_real *m = with_m ? tc_normal(++next_seed, n) : NULL, *w = tc_normal(++next_seed, k), out = PU_R(0.5);
    double sum = 0, size = 0;
    pu_int i, j;
    tc_set_case("n %d k %d m %d", (int)n, (int)k, with_m);
    cpu->sum_dot(cpu->user, n, k, m, x.b, y.b, w, -3, &out);
    for (j = 0; j < k; j++)
        for (i = 0; i < n; i++) {
            const double term = (double)w[j] * (m ? (double)m[i] : 1) * at(&x, i, j) * at(&y, i, j);
            sum += term, size += fabs(term);
        }
    TC_CLOSE(out, 0.5 - 3 * sum, 40 * PU_TEST_EPS * (0.5 + 3 * size));
    PASS();
}

TEST row_terms(pu_int n, int listed)
{
    const pu_backend *cpu = pu_backend_cpu();
    const pu_int step = listed ? 3 : 1, M = step * n;
    guarded t = normal_block(n, 1, 3);
    pu_real *psi = tc_normal(++next_seed, M + 1), *w = tc_reals(n + 1), *mask = tc_reals(n + 1), *e = tc_normal(++next_seed, n + 1);
    pu_real *eta = tc_reals(M + 1), *out = tc_reals(M + 1);
    pu_int i;
    tc_set_case("n %d listed %d", (int)n, listed);
    for (i = 0; i < M; i++) psi[i] = PU_R(0.1) + psi[i] * psi[i], eta[i] = out[i] = PU_R(1);
    for (i = 0; i < n; i++) mask[i] = i % 5 ? PU_R(1) : PU_R(0), w[i] = mask[i] * psi[step * i];
    cpu->row_terms(cpu->user, n, 1, t.b, w, mask, e, psi, M, listed ? every_third(n) : NULL, eta, out);
    for (i = 0; i < M; i++) {
        const int there = i % step == 0 && mask[i / step] > PU_R(0);
        const double ti = there ? at(&t, i / step, 0) : 0, ei = there ? (double)e[i / step] : 0, p = (double)psi[i];
        TC_CLOSE(eta[i], there ? 1 - p * (ti + ei) : 1, 8 * PU_TEST_EPS * (1 + p * (fabs(ti) + fabs(ei))));
        TC_CLOSE(out[i], there ? 1 + (ti + ei / 2) * ei - 1 / (2 * p) : 1,
                 8 * PU_TEST_EPS * (1 + (fabs(ti) + fabs(ei)) * fabs(ei) + 1 / p));
    }
    PASS();
}

/* ---- normals, read, write -------------------------------------------------------------------- */

TEST normals(pu_int n, pu_int k)
{
    const pu_backend *cpu = pu_backend_cpu();
    const uint64_t seed = UINT64_C(0x123456789abcdef0);
    guarded x = normal_block(n, k, 3);
    const uint32_t datum = 11;
    pu_real *want = tc_reals(3 * n + 1);
    pu_int j, i;
    tc_set_case("n %d k %d", (int)n, (int)k);
    cpu->normals(cpu->user, n, NULL, k, x.b, seed, &datum, 22, 33, 2);
    for (j = 0; j < k; j++) {
        pu_normals(seed, 11, 22 + (uint32_t)j, 33, 2, 0, n, want);
        TC_ASSERT(memcmp(want, x.b.at + j * x.ld, (size_t)n * sizeof *want) == 0);
    }
    cpu->normals(cpu->user, n, every_third(n), k, x.b, seed, &datum, 22, 33, 2);
    for (j = 0; j < k; j++) {
        pu_normals(seed, 11, 22 + (uint32_t)j, 33, 2, 0, 3 * n, want);
        for (i = 0; i < n; i++) TC_ASSERT(memcmp(&want[3 * i], x.b.at + j * x.ld + i, sizeof *want) == 0);
    }
    TC_ASSERT(padding_intact(&x));
    PASS();
}

TEST read_and_write(pu_int n)
{
    const pu_backend *cpu = pu_backend_cpu();
    size_t bytes = (size_t)n * sizeof(pu_real);
    pu_real *from = tc_normal(++next_seed, n), *there = tc_reals(n + 1), *back = tc_reals(n + 1);
    tc_set_case("n %d", (int)n);
    there[n] = back[n] = PU_R(7);
    cpu->write(cpu->user, there, from, bytes);
    cpu->read(cpu->user, back, there, bytes);
    TC_ASSERT(memcmp(there, from, bytes) == 0);
    TC_ASSERT(memcmp(back, from, bytes) == 0);
    TC_CLOSE(there[n], 7, 0);
    TC_CLOSE(back[n], 7, 0);
    PASS();
}

/* ---- the CPU backend itself ------------------------------------------------------------------ */

TEST backend_is_complete(void)
{
    const pu_backend *cpu = pu_backend_cpu();
    ASSERT(cpu != NULL && cpu == pu_backend_cpu());
    ASSERT(cpu->dot && cpu->combine && cpu->advance && cpu->stage && cpu->row_dot && cpu->retreat);
    ASSERT(cpu->normals && cpu->read && cpu->write && cpu->sum_dot && cpu->row_terms);
    ASSERT(!cpu->memory && !cpu->batch && !cpu->use_slot && !cpu->side && !cpu->status); /* the host's memory is everybody's */
    PASS();
}

static void run_shape(pu_int n, pu_int k)
{
    char suffix[64];
    int with_m, with_w;
    snprintf(suffix, sizeof suffix, "n %d k %d", (int)n, (int)k);
    for (with_m = 0; with_m <= 1; with_m++) {
        greatest_set_test_suffix(suffix);
        RUN_TESTp(dot, n, k, with_m);
        greatest_set_test_suffix(suffix);
        RUN_TESTp(advance, n, k, with_m, 0);
        greatest_set_test_suffix(suffix);
        RUN_TESTp(advance, n, k, with_m, 1);
        greatest_set_test_suffix(suffix);
        RUN_TESTp(retreat, n, k, with_m);
        for (with_w = 0; with_w <= 1; with_w++) {
            greatest_set_test_suffix(suffix);
            RUN_TESTp(row_dot, n, k, with_m, with_w);
            greatest_set_test_suffix(suffix);
            RUN_TESTp(row_dot_into_rows, n, k, with_m, with_w);
        }
        greatest_set_test_suffix(suffix);
        RUN_TESTp(sum_dot, n, k, with_m);
        greatest_set_test_suffix(suffix);
        RUN_TESTp(row_terms, n, with_m);
    }
    greatest_set_test_suffix(suffix);
    RUN_TESTp(combine_all, n, k);
    greatest_set_test_suffix(suffix);
    RUN_TESTp(combine_nothing, n, k);
    greatest_set_test_suffix(suffix);
    RUN_TESTp(combine_zeros, n, k);
    greatest_set_test_suffix(suffix);
    RUN_TESTp(normals, n, k);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    int i, j;
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    RUN_TEST(backend_is_complete);
    for (i = 0; i < 8; i++) RUN_TESTp(row_dot_skips_weight_zero, i & 1, i >> 1 & 1, i >> 2);
    for (i = 0; i < SIZES; i++) {
        for (j = 0; j < WIDTHS; j++) run_shape(sizes[i], widths[j]);
        RUN_TESTp(dot_same_bits_anywhere, sizes[i]);
        RUN_TESTp(read_and_write, sizes[i]);
    }
    PU_TEST_MAIN_END();
}
