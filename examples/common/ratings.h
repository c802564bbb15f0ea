/* ratings.h - ratings for factor analysis: split for training, validation and test, lists by user, the error of predictions.

       ratings r;
       memset(&r, 0, sizeof r);
       if (!ratings_load(path, NULL, seed, 1, &r, NULL, NULL)) fail(1, path, r.all.error);
       .. fit pu_model_factors to r.data ..
       ratings_rmse(&r, &model.lgm, &r.test, &options, &ws)
       ratings_free(&r);

   or movielens_read (or movielens_add for each, and movielens_index) into r.all, then ratings_split(&r, seed, 1).
   With a team each process reads its piece of the file and has the ratings of its own users alone, those whose numbers
   pu_team_share(r.seen) says; the last numbers, of users without training ratings, are the first process's. Lists have places for all
   users, those of others are empty. Sums and errors then take all processes, and have the same bits at any number of them.
   Include after pu.h, program.h and movielens.h. */
#ifndef EXAMPLES_RATINGS_H
#define EXAMPLES_RATINGS_H

#include "share.h"

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
    long total[3]; /* training, validation, test ratings of all processes */
    pu_data data;  /* the training ratings */
    pu_team team;  /* ranks 0: alone; else total is `seen` */
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

/* Numbers of users: in their order, those with training ratings first. begin[u] is the first rating of user u among those of all. */
static inline void ratings_number(ratings *r, const unsigned char *part, const long *begin)
{
    pu_int u, seen = 0, unseen;
    long k;
    r->number = (pu_int *)need_bytes((size_t)r->users * sizeof(pu_int));
    r->seen = 0;
    for (u = 0; u < r->users; u++) {
        for (k = begin[u]; k < begin[u + 1] && ratings_part(part, k) != RATINGS_TRAIN; k++) {}
        r->number[u] = k < begin[u + 1];
        r->seen += r->number[u];
    }
    for (unseen = r->seen, u = 0; u < r->users; u++) r->number[u] = r->number[u] ? seen++ : unseen++;
}

/* The ratings that are here into lists. Training ratings stay in their memory, in their order, which is that of the new numbers;
   the others get some of their own. */
static inline void ratings_divide(ratings *r, const unsigned char *part, const long *begin)
{
    movielens *const m = &r->all;
    const size_t room = ((size_t)r->users + 1) * sizeof(pu_int);
    pu_int *count[3], *next[3], i;
    long k, train = 0, at = 0; /* at: place among the ratings of all */
    int p;
    for (p = 0; p < 3; p++) count[p] = (pu_int *)need_bytes(room);
    for (k = 0; k < m->count; k++, at++) {
        const int32_t u = movielens_user(m, k);
        if (k == 0 || u != movielens_user(m, k - 1)) at = begin[u];
        count[ratings_part(part, at)][r->number[u]]++;
    }
    r->valid = ratings_room(r->users, count[RATINGS_VALID], &next[RATINGS_VALID]);
    r->test = ratings_room(r->users, count[RATINGS_TEST], &next[RATINGS_TEST]);
    {
        int32_t before = -1, u;
        for (k = 0; k < m->count; k++, at++, before = u) {
            const pu_int item = movielens_item(m, k);
            u = movielens_user(m, k);
            if (u != before) at = begin[u];
            p = ratings_part(part, at);
            if (p == RATINGS_TRAIN) {
                memcpy((char *)m->pair + (size_t)train * sizeof item, &item, sizeof item); /* never beyond pair k */
                m->value[train++] = m->value[k];
            } else {
                const ratings_lists *const to = p == RATINGS_VALID ? &r->valid : &r->test;
                const pu_int place = next[p][r->number[u]]++;
                to->item[place] = item, to->y[place] = m->value[k];
            }
        }
    }
    free(next[RATINGS_VALID]), free(next[RATINGS_TEST]);
    r->train.start = (pu_int *)need_bytes(room);
    for (i = 0; i < r->users; i++) r->train.start[i + 1] = r->train.start[i] + count[RATINGS_TRAIN][i];
    for (p = 0; p < 3; p++) free(count[p]);
    r->train.item = (pu_int *)ratings_shrink(m->pair, (size_t)train, sizeof(pu_int));
    r->train.y = (pu_real *)ratings_shrink(m->value, (size_t)train, sizeof(pu_real));
    m->pair = NULL, m->value = NULL;
    r->data = pu_data_lists(r->seen, r->items, r->train.start, r->train.item, r->train.y);
}

/* Sizes, and where the ratings of each user begin among those of all, from how many each has. */
static inline long *ratings_begin(ratings *r, long total, int validation, const int32_t *of_user)
{
    long *begin = (long *)need_bytes(((size_t)r->all.users + 1) * sizeof *begin);
    int32_t u;
    r->users = r->all.users, r->items = r->all.items;
    for (u = 0; u < r->all.users; u++) begin[u + 1] = begin[u] + of_user[u];
    r->total[RATINGS_TEST] = total / 10;
    r->total[RATINGS_VALID] = validation ? (total - total / 10) / 10 : 0;
    r->total[RATINGS_TRAIN] = total - r->total[RATINGS_TEST] - r->total[RATINGS_VALID];
    return begin;
}

/* Of ratings that are all here. */
static inline void ratings_split(ratings *r, long seed, int validation)
{
    movielens *const m = &r->all;
    int32_t *of_user = (int32_t *)need_bytes((size_t)m->users * sizeof *of_user);
    unsigned char *part;
    long *begin, k;
    for (k = 0; k < m->count; k++) of_user[movielens_user(m, k)]++;
    begin = ratings_begin(r, m->count, validation, of_user);
    free(of_user);
    part = ratings_parts(m->count, seed, validation);
    ratings_number(r, part, begin);
    ratings_divide(r, part, begin);
    free(part), free(begin);
}

/* Whose users these are: by the shares of the team for those with training ratings, the others the first one's. */
static inline int32_t *ratings_owners(const ratings *r, const pu_team *team)
{
    int32_t *owner = (int32_t *)need_bytes((size_t)r->users * sizeof *owner);
    pu_team one = *team;
    pu_int first, count, u = 0;
    one.total = r->seen;
    for (one.rank = 0; one.rank < one.ranks; one.rank++) {
        share_need(pu_team_share(&one, &first, &count));
        for (; u < r->users && (r->number[u] < first + count || r->number[u] >= r->seen); u++)
            owner[u] = r->number[u] < r->seen ? one.rank : 0;
    }
    return owner;
}

/* A copy of the team, if there is one, that knows its number of parts and of data. */
static inline void ratings_join(ratings *r, const pu_team *team)
{
    if (!team) return;
    r->team = *team;
    r->team.split = PU_TEAM_DATA, r->team.total = r->seen;
    if (r->team.parts == 0) r->team.parts = 8;
}

/* Of lists of all users those of others go, in place. */
static inline void ratings_drop_others(ratings *r, ratings_lists *l)
{
    pu_int first, count, u, k, at = 0;
    share_need(pu_team_share(&r->team, &first, &count));
    for (u = 0, k = 0; u < r->users; u++) {
        const int is_mine = u < r->seen ? u >= first && u < first + count : r->team.rank == 0;
        for (; k < l->start[u + 1]; k++)
            if (is_mine) l->item[at] = l->item[k], l->y[at++] = l->y[k];
        l->start[u + 1] = at; /* k is where the next user began */
    }
    l->item = (pu_int *)ratings_shrink(l->item, (size_t)at, sizeof(pu_int)), l->y = (pu_real *)ratings_shrink(l->y, (size_t)at, sizeof(pu_real));
}

/* Of ratings that every process has made for itself, and split: each keeps those of its own users. */
static inline void ratings_keep_own(ratings *r, const pu_team *team)
{
    ratings_join(r, team);
    if (share_is_one(team)) return;
    ratings_drop_others(r, &r->train), ratings_drop_others(r, &r->valid), ratings_drop_others(r, &r->test);
    r->data = pu_data_lists(r->seen, r->items, r->train.start, r->train.item, r->train.y);
}

/* Reads a file and splits it; of a team (NULL: alone) all call it, each with its own rank. 0: r->all.error says why, on all. */
static inline int ratings_load(const char *path, const pu_team *team, long seed, int validation, ratings *r,
                               movielens_progress progress, void *told)
{
    share_counts s;
    unsigned char *part = NULL;
    int32_t *owner;
    long *begin;
    size_t bytes;
    int ok;
    if (share_is_one(team)) {
        if (!movielens_load(path, &r->all, progress, told)) return 0;
        if (r->all.count < 100) return movielens_fail(&r->all, 0, "fewer than 100 ratings cannot be split");
        ratings_split(r, seed, validation);
        ratings_join(r, team);
        return 1;
    }
    if (!share_read(path, team, &s, &r->all, progress, told)) return 0;
    begin = ratings_begin(r, s.total, validation, s.of_user);
    bytes = (size_t)s.total / 4 + 1;
    part = team->rank ? (unsigned char *)need_bytes(bytes) : ratings_parts(s.total, seed, validation);
    share_need(pu_team_broadcast(team, bytes, part));
    ratings_number(r, part, begin);
    owner = ratings_owners(r, team);
    ok = share_deal(path, team, owner, &s, &r->all);
    free(owner), free(s.of_user);
    if (ok && s.total < 100) ok = movielens_fail(&r->all, 0, "fewer than 100 ratings cannot be split");
    if (ok) ratings_divide(r, part, begin), ratings_join(r, team);
    else free(r->number), r->number = NULL;
    free(part), free(begin);
    return ok;
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
    movielens *m = &r->all;
    pu_int *each = ratings_made_counts(m, users, items, count), u, i, total = 0, at = 0;
    double *sum = ratings_made_items(m, items, seed);
    int32_t *met = (int32_t *)need_bytes((size_t)items * sizeof *met);
    uint64_t draw = 0;
    for (u = 0; u < users; u++) total += each[u];
    free(m->pair), free(m->value), free(m->user_id), free(m->item_id);
    m->pair = (uint64_t *)need_bytes((size_t)total * sizeof *m->pair), m->value = need_reals(total);
    m->user_id = (int64_t *)need_bytes((size_t)users * sizeof(int64_t)), m->item_id = (int64_t *)need_bytes((size_t)items * sizeof(int64_t));
    m->count = (long)total, m->users = (int32_t)users, m->items = (int32_t)items, m->item_bits = movielens_bits(m->items);
    for (u = 0; u < users; u++) m->user_id[u] = u + 1;
    for (i = 0; i < items; i++) m->item_id[i] = i + 1;
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
            met[lo] = (int32_t)u + 1, m->pair[at + k++] = (uint64_t)u << m->item_bits | (uint64_t)lo;
        }
        movielens_sort(m->pair + at, m->value + at, (long)each[u], m->item_bits > 8 ? m->item_bits - 8 : 0); /* by item */
        for (k = at; k < at + each[u]; k++) {
            const double kind = ratings_uniform(seed, 3, (uint64_t)u), liked = ratings_uniform(seed, 4, (uint64_t)movielens_item(m, (long)k));
            const double y = m->low + (m->high - m->low) * (0.2 + (kind + liked) / 4 + ratings_uniform(seed, 5, (uint64_t)k) / 2);
            m->value[k] = (pu_real)(float)(y > m->high ? m->high : floor(y + 0.5));
        }
    }
    free(each), free(sum), free(met);
}

static inline double ratings_clip(const ratings *r, double y)
{
    return y < r->all.low ? r->all.low : y > r->all.high ? r->all.high : y;
}

/* sum and the squared errors of the held-out ratings of users `from` to before `to`, whose training ratings are here: from posterior
   means of a few users at a time, without a users x items array. */
static inline double ratings_squares(const ratings *r, const pu_lgm *lgm, const ratings_lists *held, pu_int from, pu_int to,
                                     const pu_options *options, pu_workspace *ws, double sum)
{
    const pu_int D = lgm->Phi->cols;
    const pu_real *Phi = (const pu_real *)lgm->Phi->data, *eta = lgm->eta;
    pu_real *mean = need_reals(RATINGS_AT_ONCE * D);
    pu_int pick[RATINGS_AT_ONCE], u = from, n, i, k, j;
    while (u < to) {
        pu_data some = r->data;
        pu_posterior_result out;
        pu_report report;
        pu_status status;
        memset(&out, 0, sizeof out);
        for (n = 0; u < to && n < RATINGS_AT_ONCE; u++)
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
    }
    free(mean);
    return sum;
}

/* The same for users of whom nothing is known: they get a 3. */
static inline double ratings_unknown(const ratings *r, const ratings_lists *held, double sum)
{
    pu_int k;
    for (k = held->start[r->seen]; k < held->start[r->users]; k++) {
        const double off = ratings_clip(r, 3) - (double)held->y[k];
        sum += off * off;
    }
    return sum;
}

/* Users of part p of a team, by their numbers. 0: they are not this process's. */
static inline int ratings_of_part(const ratings *r, pu_int p, pu_int *first, pu_int *count)
{
    pu_team part = r->team;
    pu_int mine, mines;
    share_need(pu_team_share(&r->team, &mine, &mines));
    part.rank = (int)p, part.ranks = (int)r->team.parts;
    share_need(pu_team_share(&part, first, count));
    return *count > 0 && *first >= mine && *first + *count <= mine + mines;
}

/* Root mean square error of the held-out ratings. lgm: a dense Phi and its eta. Of a team each process has those of its users; the sum
   is over parts, and so the same for any number of processes. */
static inline double ratings_rmse(const ratings *r, const pu_lgm *lgm, const ratings_lists *held, const pu_options *options,
                                  pu_workspace *ws)
{
    const pu_int parts = r->team.ranks ? r->team.parts : 0;
    double count = (double)held->start[r->users], sum = 0, *of_part, *passed;
    pu_int p, first, users;
    size_t bytes = ((size_t)parts + 2) * sizeof *of_part;
    if (!parts) {
        if (count > 0) sum = ratings_unknown(r, held, ratings_squares(r, lgm, held, 0, r->seen, options, ws, 0));
        return count > 0 ? sqrt(sum / count) : (double)NAN;
    }
    of_part = (double *)need_bytes(bytes), passed = (double *)need_bytes(bytes);
    for (p = 0; p < parts; p++)
        if (ratings_of_part(r, p, &first, &users)) of_part[p] = ratings_squares(r, lgm, held, first, first + users, options, ws, 0);
    of_part[parts] = ratings_unknown(r, held, 0), of_part[parts + 1] = count;
    share_begin(&r->team, bytes, passed);
    for (p = 0; p < parts + 2; p++) passed[p] += of_part[p]; /* all but one of them are 0, but for the count, which is exact */
    share_end(&r->team, bytes, passed);
    for (p = 0; p <= parts; p++) sum += passed[p];
    count = passed[parts + 1];
    free(of_part), free(passed);
    return count > 0 ? sqrt(sum / count) : (double)NAN;
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
