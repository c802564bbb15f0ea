/* ratings.h - ratings for factor analysis: split for training, validation and test, lists by user, the error of predictions.

       ratings r;
       memset(&r, 0, sizeof r);
       if (!movielens_read(path, &r.all)) fail(1, path, r.all.error);    or movielens_add, movielens_index
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

/* Which part a rating is for: training, validation, test. Two bits a rating. */
enum { RATINGS_TRAIN, RATINGS_VALID, RATINGS_TEST };

static inline int ratings_part(const unsigned char *part, long i) { return part[i >> 2] >> 2 * (i & 3) & 3; }

/* 10 % for the test, then 10 % of the rest for validation (or none): the first places of a random order of all ratings, which
   swaps place i with a random one from i on, i = 0, 1, .. The whole order would be as large as the ratings. But only those places
   differ from their number that were swapped with, so that it is enough to go through them piece by piece: first the places that
   are taken (`kept`; if one was swapped with a place behind them, what went there stays written), then the pieces behind. */
static inline unsigned char *ratings_parts(long n, long seed, int validation)
{
    const long test = n / 10, taken = test + (n - test) / 10;
    unsigned char *part = (unsigned char *)need_bytes((size_t)n / 4 + 1);
    int32_t *with = (int32_t *)need_bytes((size_t)taken * sizeof *with), *kept = (int32_t *)need_bytes((size_t)taken * sizeof *kept);
    int32_t *piece = (int32_t *)need_bytes((size_t)taken * sizeof *piece);
    uint32_t key[2] = {0, 0x73706c74u}, counter[4] = {0, 0, 0, 0}, word[4];
    long i, first;
    key[0] = (uint32_t)seed;
    for (i = 0; i < taken; i++) {
        counter[0] = (uint32_t)i;
        pu_philox(key, counter, word);
        with[i] = (int32_t)(i + (long)(((uint64_t)word[0] << 32 | word[1]) % (uint64_t)(n - i)));
        kept[i] = (int32_t)i;
    }
    for (first = 0; first < n && taken > 0; first += taken) {
        int32_t *const place = first ? piece : kept;
        for (i = 0; i < taken && first; i++) piece[i] = (int32_t)(first + i);
        for (i = 0; i < taken; i++) {
            const int what = i < test ? RATINGS_TEST : validation ? RATINGS_VALID : RATINGS_TRAIN;
            const long at = (long)with[i] - first;
            int32_t chosen;
            if (at < 0 || at >= taken) continue;
            chosen = place[at], place[at] = kept[i];
            part[chosen >> 2] = (unsigned char)(part[chosen >> 2] | what << 2 * (chosen & 3));
        }
    }
    free(with), free(kept), free(piece);
    return part;
}

/* Room for the lists of all users, `count[number]` ratings each; *next: where the first of each goes. */
static inline ratings_lists ratings_room(pu_int users, const pu_int *count, pu_int **next)
{
    ratings_lists l;
    pu_int i;
    l.start = (pu_int *)need_bytes(((size_t)users + 1) * sizeof(pu_int));
    for (i = 0; i < users; i++) l.start[i + 1] = l.start[i] + count[i];
    l.item = (pu_int *)need_bytes(((size_t)l.start[users] + 1) * sizeof(pu_int));
    l.y = need_reals(l.start[users] + 1);
    *next = (pu_int *)need_bytes((size_t)users * sizeof(pu_int));
    memcpy(*next, l.start, (size_t)users * sizeof(pu_int));
    return l;
}

/* Gives back what is behind the first `count` of them. */
static inline void *ratings_shrink(void *block, size_t count, size_t size)
{
    void *smaller = realloc(block, (count + 1) * size);
    return smaller ? smaller : block;
}

/* The training ratings stay in the memory of all ratings, the others get some of their own. Users are numbered in their order,
   those with training ratings first, so that training ratings stay in theirs. */
static inline void ratings_split(ratings *r, long seed, int validation)
{
    movielens *const m = &r->all;
    const size_t users = (size_t)m->users, room = (users + 1) * sizeof(pu_int);
    unsigned char *part = ratings_parts(m->count, seed, validation);
    pu_int *count[3], *next[3], i, seen = 0, unseen;
    long k, train = 0;
    int p;
    r->users = m->users, r->items = m->items;
    r->number = (pu_int *)need_bytes(room);
    for (p = 0; p < 3; p++) count[p] = (pu_int *)need_bytes(room);
    for (k = 0; k < m->count; k++)
        if (ratings_part(part, k) == RATINGS_TRAIN) r->number[movielens_user(m, k)] = 1;
    for (i = 0; i < r->users; i++) r->seen += r->number[i];
    for (unseen = r->seen, i = 0; i < r->users; i++) r->number[i] = r->number[i] ? seen++ : unseen++;
    for (k = 0; k < m->count; k++) count[ratings_part(part, k)][r->number[movielens_user(m, k)]]++;
    r->valid = ratings_room(r->users, count[RATINGS_VALID], &next[RATINGS_VALID]);
    r->test = ratings_room(r->users, count[RATINGS_TEST], &next[RATINGS_TEST]);
    for (k = 0; k < m->count; k++) {
        const pu_int item = movielens_item(m, k);
        p = ratings_part(part, k);
        if (p == RATINGS_TRAIN) {
            memcpy((char *)m->pair + (size_t)train * sizeof item, &item, sizeof item); /* never beyond pair k */
            m->value[train++] = m->value[k];
        } else {
            const ratings_lists *const to = p == RATINGS_VALID ? &r->valid : &r->test;
            const pu_int at = next[p][r->number[movielens_user(m, k)]]++;
            to->item[at] = item, to->y[at] = m->value[k];
        }
    }
    free(part), free(next[RATINGS_VALID]), free(next[RATINGS_TEST]);
    r->train.start = (pu_int *)need_bytes(room);
    for (i = 0; i < r->users; i++) r->train.start[i + 1] = r->train.start[i] + count[RATINGS_TRAIN][i];
    for (p = 0; p < 3; p++) free(count[p]);
    r->train.item = (pu_int *)ratings_shrink(m->pair, (size_t)train, sizeof(pu_int));
    r->train.y = (pu_real *)ratings_shrink(m->value, (size_t)train, sizeof(pu_real));
    m->pair = NULL, m->value = NULL;
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
    for (i = 0; i < like->count; i++) of[movielens_user(like, (long)i)]++;
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
    for (i = 0; i < like->count; i++) of[movielens_item(like, (long)i)]++;
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
    movielens *m = &r->all, made;
    pu_int *each = ratings_made_counts(m, users, items, count), u, at = 0;
    double *sum = ratings_made_items(m, items, seed), low = m->low, high = m->high;
    int32_t *met = (int32_t *)need_bytes((size_t)items * sizeof *met);
    uint64_t draw = 0;
    int ok = 1;
    movielens_free(m);
    memset(&made, 0, sizeof made);
    for (u = 0; u < users; at += each[u++]) {
        const double kind = ratings_uniform(seed, 3, (uint64_t)u);
        pu_int k = 0;
        while (k < each[u]) {
            const double x = ratings_uniform(seed, 2, draw++) * sum[items - 1];
            pu_int lo = 0, hi = items - 1;
            double liked, y;
            while (lo < hi) {
                const pu_int mid = lo + (hi - lo) / 2;
                if (sum[mid] > x) hi = mid;
                else lo = mid + 1;
            }
            if (met[lo] == (int32_t)u + 1) continue;
            met[lo] = (int32_t)u + 1, liked = ratings_uniform(seed, 4, (uint64_t)lo);
            y = low + (high - low) * (0.2 + (kind + liked) / 4 + ratings_uniform(seed, 5, (uint64_t)(at + k++)) / 2);
            ok = ok && movielens_add(&made, (int64_t)u + 1, (int64_t)lo + 1, (float)(y > high ? high : floor(y + 0.5)));
        }
    }
    if (!ok || !movielens_index(&made)) fail(1, "--simulate", made.error);
    *m = made;
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
