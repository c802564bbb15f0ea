/* ratings.h - ratings for factor analysis: split for training, validation and test, lists by user, the error of predictions.

       ratings r;
       memset(&r, 0, sizeof r);
       if (!movielens_read(path, &r.all)) fail(1, path, r.all.error);    or fill in r.all, then movielens_index
       ratings_split(&r, seed, 1);
       .. fit pu_model_factors to r.data ..
       ratings_rmse(&r, &model.lgm, &r.test, &options, &ws)
       ratings_free(&r);

   Include after pu.h, program.h and movielens.h. */
#ifndef EXAMPLES_RATINGS_H
#define EXAMPLES_RATINGS_H

enum { RATINGS_AT_ONCE = 256 }; /* users predicted at a time */

/* Ratings by user: entries start[u] .. start[u+1]-1 are of user u. */
typedef struct {
    pu_int *start, *item;
    pu_real *y;
} ratings_lists;

typedef struct {
    movielens all;             /* after the split without its ratings: the lists have them all */
    pu_int users, seen, items; /* users with training ratings are numbered first */
    pu_int *number;            /* of users: number[place in the file's order] */
    ratings_lists train, valid, test;
    pu_data data; /* the training ratings */
} ratings;

/* Which part a rating is for, 0 training, 1 validation, 2 test: 10 % test, then 10 % of the rest validation (or none), the
   first places of a random order. */
static inline unsigned char *ratings_parts(const ratings *r, long seed, int validation)
{
    const pu_int n = (pu_int)r->all.count, test = n / 10, valid = (n - test) / 10;
    pu_int *order = (pu_int *)need_bytes((size_t)n * sizeof *order), i;
    unsigned char *part = (unsigned char *)need_bytes((size_t)n);
    uint32_t key[2] = {0, 0x73706c74u}, counter[4] = {0, 0, 0, 0}, word[4];
    key[0] = (uint32_t)seed;
    for (i = 0; i < n; i++) order[i] = i;
    for (i = 0; i < test + valid; i++) {
        pu_int j, keep = order[i];
        counter[0] = (uint32_t)i;
        pu_philox(key, counter, word);
        j = i + (pu_int)(((uint64_t)word[0] << 32 | word[1]) % (uint64_t)(n - i));
        order[i] = order[j], order[j] = keep;
        part[order[i]] = (unsigned char)(i < test ? 2 : validation != 0);
    }
    free(order);
    return part;
}

/* The ratings of one part, by the users' new numbers. */
static inline ratings_lists ratings_list(const ratings *r, const unsigned char *part, int which)
{
    const movielens_rating *at = r->all.rating;
    pu_int i, count = 0, *next = (pu_int *)need_bytes(((size_t)r->users + 1) * sizeof(pu_int));
    ratings_lists l;
    for (i = 0; i < r->all.count; i++) count += part[i] == which;
    l.start = (pu_int *)need_bytes(((size_t)r->users + 1) * sizeof(pu_int));
    l.item = (pu_int *)need_bytes(((size_t)count + 1) * sizeof(pu_int));
    l.y = need_reals(count + 1);
    for (i = 0; i < r->all.count; i++) l.start[r->number[at[i].user] + 1] += part[i] == which;
    for (i = 0; i < r->users; i++) l.start[i + 1] += l.start[i], next[i] = l.start[i];
    for (i = 0; i < r->all.count; i++)
        if (part[i] == which) {
            const pu_int to = next[r->number[at[i].user]]++;
            l.item[to] = at[i].item, l.y[to] = (pu_real)at[i].value;
        }
    free(next);
    return l;
}

static inline void ratings_split(ratings *r, long seed, int validation)
{
    unsigned char *part = ratings_parts(r, seed, validation);
    pu_int i, seen = 0, unseen;
    r->users = r->all.users, r->items = r->all.items;
    r->number = (pu_int *)need_bytes((size_t)r->users * sizeof(pu_int));
    for (i = 0; i < r->all.count; i++)
        if (part[i] == 0) r->number[r->all.rating[i].user] = 1;
    for (i = 0; i < r->users; i++) r->seen += r->number[i];
    for (unseen = r->seen, i = 0; i < r->users; i++) r->number[i] = r->number[i] ? seen++ : unseen++;
    r->train = ratings_list(r, part, 0), r->valid = ratings_list(r, part, 1), r->test = ratings_list(r, part, 2);
    free(part), free(r->all.rating), r->all.rating = NULL;
    r->data = pu_data_lists(r->seen, r->items, r->train.start, r->train.item, r->train.y);
}

/* ---- ratings that are made up ---- */

static inline int ratings_larger(const void *a, const void *b)
{
    const double p = *(const double *)a, q = *(const double *)b;
    return p < q ? 1 : p > q ? -1 : 0;
}

/* Counts in falling order, stretched to another length: entry i of n is where i is among those of m. */
static inline double *ratings_stretch(pu_int m, double *count, pu_int n)
{
    double *wide = (double *)need_bytes((size_t)n * sizeof *wide);
    pu_int i;
    qsort(count, (size_t)m, sizeof *count, ratings_larger);
    for (i = 0; i < n; i++) wide[i] = count[(pu_int)(((double)i + 0.5) * (double)m / (double)n)];
    free(count);
    return wide;
}

/* A uniform number, the i-th of this stream. */
static inline double ratings_uniform(long seed, uint32_t stream, uint64_t i)
{
    uint32_t key[2] = {0, 0x6d616465u}, counter[4] = {0, 0, 0, 0}, word[4];
    key[0] = (uint32_t)seed, counter[0] = (uint32_t)i, counter[1] = (uint32_t)(i >> 32), counter[2] = stream;
    pu_philox(key, counter, word);
    return ((double)word[0] + (double)word[1] / 4294967296.0) / 4294967296.0;
}

/* How many ratings each user gives: as those of the file are distributed, about `count` in all, an eighth of the items at most. */
static inline pu_int *ratings_made_counts(const movielens *like, pu_int users, pu_int items, double count)
{
    double *of = (double *)need_bytes((size_t)like->users * sizeof *of), *wide, sum = 0, left = 0;
    pu_int *number = (pu_int *)need_bytes((size_t)users * sizeof *number), i;
    for (i = 0; i < like->count; i++) of[like->rating[i].user]++;
    wide = ratings_stretch(like->users, of, users);
    for (i = 0; i < users; i++) sum += wide[i];
    for (i = 0; i < users; i++) {
        left += wide[i] * count / sum;
        number[i] = left < 1 ? 1 : left > (double)items / 8 ? items / 8 : (pu_int)left;
        left -= (double)number[i];
        if (left > (double)items) left = (double)items; /* what the longest lists could not take is lost */
    }
    free(wide);
    return number;
}

/* Sums of the items' weights, which are distributed as those of the file are; items come in a random order. */
static inline double *ratings_made_items(const movielens *like, pu_int items, long seed)
{
    double *of = (double *)need_bytes((size_t)like->items * sizeof *of), *wide;
    pu_int i;
    for (i = 0; i < like->count; i++) of[like->rating[i].item]++;
    wide = ratings_stretch(like->items, of, items);
    for (i = items - 1; i > 0; i--) {
        const pu_int j = (pu_int)(ratings_uniform(seed, 1, (uint64_t)i) * (double)(i + 1));
        const double moved = wide[i];
        wide[i] = wide[j], wide[j] = moved;
    }
    for (i = 1; i < items; i++) wide[i] += wide[i - 1];
    return wide;
}

/* Ratings in the place of those of r->all, with margins like theirs at another size: so many users, items and, about, ratings. For
   measuring time and memory: there is nothing to find in them but that some users and items have higher ratings than others. */
static inline void ratings_simulate(ratings *r, pu_int users, pu_int items, double count, long seed)
{
    movielens *m = &r->all;
    pu_int *each = ratings_made_counts(m, users, items, count), u, i, total = 0, at = 0;
    double *sum = ratings_made_items(m, items, seed);
    int32_t *met = (int32_t *)need_bytes((size_t)items * sizeof *met);
    uint64_t draw = 0;
    for (u = 0; u < users; u++) total += each[u];
    free(m->rating), free(m->user_id), free(m->item_id);
    m->rating = (movielens_rating *)need_bytes((size_t)total * sizeof *m->rating);
    m->user_id = (int32_t *)need_bytes((size_t)users * sizeof(int32_t)), m->item_id = (int32_t *)need_bytes((size_t)items * sizeof(int32_t));
    m->count = (long)total, m->users = (int32_t)users, m->items = (int32_t)items;
    for (u = 0; u < users; u++) m->user_id[u] = (int32_t)u + 1;
    for (i = 0; i < items; i++) m->item_id[i] = (int32_t)i + 1;
    for (u = 0; u < users; at += each[u++]) {
        pu_int k = 0;
        while (k < each[u]) {
            const double x = ratings_uniform(seed, 2, draw++) * sum[items - 1];
            pu_int lo = 0, hi = items - 1;
            while (lo < hi) {
                const pu_int mid = lo + (hi - lo) / 2;
                if (sum[mid] > x) hi = mid;
                else lo = mid + 1;
            }
            if (met[lo] == (int32_t)u + 1) continue;
            met[lo] = (int32_t)u + 1, m->rating[at + k++].item = (int32_t)lo;
        }
        qsort(&m->rating[at], (size_t)each[u], sizeof *m->rating, movielens_order); /* by item: users are still 0 */
        for (k = at; k < at + each[u]; k++) {
            const double kind = ratings_uniform(seed, 3, (uint64_t)u), liked = ratings_uniform(seed, 4, (uint64_t)m->rating[k].item);
            const double y = m->low + (m->high - m->low) * (0.2 + (kind + liked) / 4 + ratings_uniform(seed, 5, (uint64_t)k) / 2);
            m->rating[k].user = (int32_t)u, m->rating[k].value = (float)(y > m->high ? m->high : floor(y + 0.5));
        }
    }
    free(each), free(sum), free(met);
}

static inline double ratings_clip(const ratings *r, double y)
{
    return y < r->all.low ? r->all.low : y > r->all.high ? r->all.high : y;
}

/* Root mean square error of the held-out ratings, from posterior means of a few users at a time: no users x items array.
   lgm: a dense Phi and its eta. A user of whom nothing is known gets a 3. */
static inline double ratings_rmse(const ratings *r, const pu_lgm *lgm, const ratings_lists *held, const pu_options *options,
                                  pu_workspace *ws)
{
    const pu_int D = lgm->Phi->cols;
    const pu_real *Phi = (const pu_real *)lgm->Phi->data, *eta = lgm->eta;
    pu_real *mean;
    pu_int pick[RATINGS_AT_ONCE], u = 0, n, i, k, j;
    double sum = 0;
    if (held->start[r->users] == 0) return (double)NAN;
    mean = need_reals(RATINGS_AT_ONCE * D);
    while (u < r->users) {
        pu_data some = r->data;
        pu_posterior_result out;
        pu_report report;
        pu_status status;
        memset(&out, 0, sizeof out);
        for (n = 0; u < r->seen && n < RATINGS_AT_ONCE; u++)
            if (held->start[u] < held->start[u + 1]) pick[n++] = u;
        some.n = n, some.pick = pick, out.mean = mean;
        status = n ? pu_posterior(lgm, &some, options, ws, &out, &report) : PU_OK;
        if (status != PU_OK && status != PU_STAGNATED && status != PU_CAP) need(status, &report);
        for (i = 0; i < n; i++)
            for (k = held->start[pick[i]]; k < held->start[pick[i] + 1]; k++) {
                double y = (double)eta[held->item[k]], off;
                for (j = 0; j < D; j++) y += (double)Phi[held->item[k] * D + j] * (double)mean[i * D + j];
                off = ratings_clip(r, y) - (double)held->y[k];
                sum += off * off;
            }
        if (u >= r->seen) { /* nothing is known about the others */
            for (k = held->start[r->seen]; k < held->start[r->users]; k++) {
                const double off = ratings_clip(r, 3) - (double)held->y[k];
                sum += off * off;
            }
            u = r->users;
        }
    }
    free(mean);
    return sqrt(sum / (double)held->start[r->users]);
}

/* Options for the means that predictions are made from: one system per user, solved to convergence. */
static inline pu_options ratings_posterior(const pu_options *gradient)
{
    pu_options o = *gradient;
    o.engine = PU_ITERATIVE, o.kind = PU_MONTE_CARLO, o.solve.solver = PU_CG;
    o.solve.iterations = 0, o.solve.tolerance = 1e-4;
    return o;
}

static inline void ratings_lists_free(ratings_lists *l) { free(l->start), free(l->item), free(l->y); }

static inline void ratings_free(ratings *r)
{
    movielens_free(&r->all);
    free(r->number);
    ratings_lists_free(&r->train), ratings_lists_free(&r->valid), ratings_lists_free(&r->test);
}

#endif /* EXAMPLES_RATINGS_H */
