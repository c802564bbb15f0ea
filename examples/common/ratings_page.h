/* ratings_page.h - how good predicted ratings are, measured and drawn: simple rivals, errors against what was expected of them,
   the way of the fit.

       ratings_way w;  ratings_way_add(&w, step, error);            validation errors on the way
       ratings_rivals(&r, &rivals);                                 what simple means would have done
       ratings_check(&r, &lgm, &exact, &ws, &c);                    test ratings beside their predictions
       ratings_draw_way(..), ratings_draw_check(..)                 figures
       ratings_check_free(&c);

   Of a single process, not of a team. Include after ratings_model.h and report.h. */
#ifndef EXAMPLES_RATINGS_PAGE_H
#define EXAMPLES_RATINGS_PAGE_H

#include <limits.h>

/* ---- the way of the fit ---- */

enum { RATINGS_WAY = 1000 };

typedef struct {
    int points, every, skipped; /* of more errors than there is room for only every 2nd, 4th, .. is kept */
    double step[RATINGS_WAY], error[RATINGS_WAY];
} ratings_way;

static inline void ratings_way_add(ratings_way *w, double step, double error)
{
    int i;
    if (w->points == RATINGS_WAY) {
        for (i = 0; i < RATINGS_WAY / 2; i++) w->step[i] = w->step[2 * i], w->error[i] = w->error[2 * i];
        w->points = RATINGS_WAY / 2, w->every = 2 * (w->every ? w->every : 1), w->skipped = 0;
    }
    if (w->every && w->skipped++ % w->every) return;
    w->step[w->points] = step, w->error[w->points++] = error;
}

/* each: steps of an epoch; best_step: whose parameters were kept; mean: the error of the mean of each item */
static inline double ratings_draw_way(const ratings_way *w, double each, double best_step, double mean, FILE *file, double below)
{
    double x[RATINGS_WAY], low = mean, high = mean, ends[2] = {0, 1}, line[2];
    svg_plot p;
    int i, kept = 0;
    for (i = 0; i < w->points; i++) {
        x[i] = w->step[i] / each;
        low = fmin(low, w->error[i]), high = fmax(high, w->error[i]);
        if (w->step[i] <= best_step) kept = i;
    }
    memset(&p, 0, sizeof p);
    p.file = file, p.below = below, p.title = "error of the validation ratings during the fit", p.top = 30;
    p.x_label = "passes through the users", p.y_label = "validation error", p.x1 = w->points ? x[w->points - 1] : 1;
    p.y0 = low - 0.05 * (high - low), p.y1 = high + 0.15 * (high - low); /* room for a word */
    ends[1] = p.x1, line[0] = line[1] = mean;
    svg_begin(&p);
    svg_legend(&p, "c2", '-', "the fit"), svg_legend(&p, "c1", '=', "mean of each item");
    svg_line(&p, 2, ends, line, "c1", 1, 0);
    svg_line(&p, w->points, x, w->error, "c2", 0, w->points < 60);
    if (w->points) svg_mark(&p, x[kept], "kept");
    svg_end(&p);
    return below + p.bottom + 56;
}

/* ---- rivals ---- */

typedef struct {
    double mean, both;             /* error of the mean of each item; and with the mean offset of each user */
    double valid_mean;             /* of the validation ratings, the first */
    pu_real *item;                 /* means of the items' training ratings, */
    pu_int *count;                 /* and how many there are */
} ratings_rival;

static inline double ratings_rival_error(const ratings *r, const ratings_rival *v, const ratings_lists *held, int offset)
{
    double sum = 0;
    pu_int u, k;
    for (u = 0; u < r->users; u++) {
        double own = 0;
        for (k = r->train.start[u]; k < r->train.start[u + 1] && offset; k++) own += (double)(r->train.y[k] - v->item[r->train.item[k]]);
        if (r->train.start[u + 1] > r->train.start[u]) own /= (double)(r->train.start[u + 1] - r->train.start[u]);
        for (k = held->start[u]; k < held->start[u + 1]; k++) {
            const double off = ratings_clip(r, (double)v->item[held->item[k]] + own) - (double)held->y[k];
            sum += off * off;
        }
    }
    return held->start[r->users] > 0 ? sqrt(sum / (double)held->start[r->users]) : (double)NAN;
}

static inline void ratings_rivals(const ratings *r, ratings_rival *v)
{
    double sum = 0, *of = (double *)need_bytes((size_t)r->items * sizeof *of);
    const pu_int all = r->train.start[r->users];
    pu_int k;
    v->item = need_reals(r->items), v->count = (pu_int *)need_bytes((size_t)r->items * sizeof *v->count);
    for (k = 0; k < all; k++) of[r->train.item[k]] += (double)r->train.y[k], v->count[r->train.item[k]]++, sum += (double)r->train.y[k];
    for (k = 0; k < r->items; k++) v->item[k] = (pu_real)(v->count[k] ? of[k] / (double)v->count[k] : all ? sum / (double)all : 3);
    free(of);
    v->mean = ratings_rival_error(r, v, &r->test, 0), v->both = ratings_rival_error(r, v, &r->test, 1);
    v->valid_mean = ratings_rival_error(r, v, &r->valid, 0);
}

static inline void ratings_rival_free(ratings_rival *v) { free(v->item), free(v->count); }

/* ---- predictions beside the test ratings ---- */

enum { RATINGS_CHECKED = 20000, RATINGS_BINS = 10 };

typedef struct {
    double y, mean, sd; /* the rating; its prediction before it is kept within the scale; the standard deviation of a rating */
    pu_int item;
} ratings_checked;

typedef struct {
    long count, users; /* that were looked at; all of them where there are not too many */
    ratings_checked *at;
} ratings_check_record;

static inline int ratings_by_sd(const void *a, const void *b)
{
    const ratings_checked *p = (const ratings_checked *)a, *q = (const ratings_checked *)b;
    return p->sd < q->sd ? -1 : p->sd > q->sd;
}

/* Every so many users, so that no more than about RATINGS_CHECKED ratings and 1e11 operations come of it; sorted by sd. */
static inline void ratings_check(const ratings *r, const pu_lgm *lgm, const pu_options *exact, pu_workspace *ws, ratings_check_record *c)
{
    const double D = (double)lgm->Phi->cols, all = (double)r->test.start[r->seen];
    const double most = fmin(RATINGS_CHECKED / fmax(all / fmax((double)r->seen, 1), 1e-9), 1e11 / (D * D * D / 3 + 1));
    const pu_int every = (pu_int)fmax(1, ceil((double)r->seen / fmax(most, 1)));
    ratings_pair *pair = (ratings_pair *)need_bytes((size_t)r->items * sizeof *pair);
    pu_int u, k, i;
    memset(c, 0, sizeof *c);
    c->at = (ratings_checked *)need_bytes((size_t)r->test.start[r->seen] * sizeof *c->at);
    for (u = 0; u < r->seen; u += every) {
        const pu_int first = r->test.start[u], n = r->test.start[u + 1] - first;
        ratings_known known = {0, NULL, NULL};
        if (n == 0) continue;
        known.count = r->train.start[u + 1] - r->train.start[u];
        known.item = r->train.item + r->train.start[u], known.y = r->train.y + r->train.start[u];
        for (k = 0; k < n; k += i) { /* the same item may be there twice: no more pairs at a time than there is room for */
            for (i = 0; i < r->items && k + i < n; i++) continue;
            ratings_predict(lgm, &known, exact, ws, (long)i, r->test.item + first + k, pair);
            for (i = 0; i < r->items && k + i < n; i++) {
                ratings_checked *to = &c->at[c->count++];
                to->y = (double)r->test.y[first + k + i], to->mean = pair[i].mean, to->sd = pair[i].sd_rating;
                to->item = r->test.item[first + k + i];
            }
        }
        c->users++;
    }
    qsort(c->at, (size_t)c->count, sizeof *c->at, ratings_by_sd);
    free(pair);
}

static inline void ratings_check_free(ratings_check_record *c) { free(c->at); }

/* The share of the ratings within `wide` standard deviations. */
static inline double ratings_inside(const ratings_check_record *c, double wide)
{
    double inside = 0;
    long i;
    for (i = 0; i < c->count; i++) inside += fabs(c->at[i].y - c->at[i].mean) <= wide * c->at[i].sd;
    return inside / fmax((double)c->count, 1);
}

/* Of ratings from number `from` on: root mean square of the errors, and of the standard deviations. */
static inline void ratings_errors(const ratings_check_record *c, long from, long count, double *error, double *sd)
{
    long i;
    *error = *sd = 0;
    for (i = from; i < from + count; i++) {
        *error += (c->at[i].y - c->at[i].mean) * (c->at[i].y - c->at[i].mean) / (double)count;
        *sd += c->at[i].sd * c->at[i].sd / (double)count;
    }
    *error = sqrt(*error), *sd = sqrt(*sd);
}

/* Errors of groups of ratings, as many in each, against the standard deviations that were expected of them. */
static inline double ratings_draw_check(const ratings_check_record *c, FILE *file, double below)
{
    const int bins = c->count >= 50L * RATINGS_BINS ? RATINGS_BINS : c->count >= 100 ? (int)(c->count / 50) : 1;
    double error[RATINGS_BINS], sd[RATINGS_BINS], wide[RATINGS_BINS], low = HUGE_VAL, high = 0, ends[2];
    svg_plot p;
    int i;
    for (i = 0; i < bins; i++) {
        const long from = c->count * i / bins, n = c->count * (i + 1) / bins - from;
        ratings_errors(c, from, n, &error[i], &sd[i]);
        wide[i] = 1.96 * error[i] / sqrt(2.0 * (double)n); /* of a root mean square */
        low = fmin(low, fmin(sd[i], error[i] - wide[i])), high = fmax(high, fmax(sd[i], error[i] + wide[i]));
    }
    memset(&p, 0, sizeof p);
    p.file = file, p.below = below, p.title = "errors of predicted ratings against their standard deviations", p.top = 30;
    p.x_label = "predicted standard deviation of a rating", p.y_label = "error found";
    p.x0 = p.y0 = fmax(low - 0.05 * (high - low), 0), p.x1 = p.y1 = high + 0.05 * (high - low);
    if (!(p.x1 > p.x0)) p.x1 = p.y1 = p.x0 + 1;
    ends[0] = p.x0, ends[1] = p.x1;
    svg_begin(&p);
    svg_legend(&p, "c2", '.', "groups of test ratings"), svg_legend(&p, "note", '=', "as predicted");
    svg_line(&p, 2, ends, ends, "note", 1, 0);
    for (i = 0; i < bins; i++) svg_interval(&p, sd[i], error[i] - wide[i], error[i], error[i] + wide[i], "c2");
    svg_end(&p);
    return below + p.bottom + 56;
}

#endif /* EXAMPLES_RATINGS_PAGE_H */
