/* share.h - how the processes of a pu_team divide a file of ratings: each reads a piece of it and ends with the ratings of its own
   users, in the numbers that all of them agree on.

       if (!share_read(path, team, &s, m, progress, told)) puts(m->error);   the same text on every process
       ..  m->user_id, m->item_id are of all, m->pair and m->value of the piece ..
       share_deal(path, team, owner, &s, m)                                   now of the users whose owner is this process

   share_begin and share_end pass an array from the first process to the last, each of which adds what it has, and back to all: sums
   in the order of all data, whatever the number of processes. A process that has gone ends the program.
   Include after program.h and movielens.h. */
#ifndef EXAMPLES_SHARE_H
#define EXAMPLES_SHARE_H

enum { SHARE_PIECE = 1 << 20, SHARE_DEAL = 1 << 14 }; /* bytes of a message; ratings of one */

typedef struct {
    long total;         /* ratings of all processes */
    int32_t *of_user;   /* how many each user has, on all processes */
} share_counts;

static inline void share_need(pu_status status)
{
    if (status) fail(1, "team", pu_status_text(status));
}

/* Is there anybody to talk to? */
static inline int share_is_one(const pu_team *team) { return !team || team->ranks <= 1; }

/* Bytes to or from another process, which calls the other function. */
static inline void share_pass(const pu_team *team, int peer, size_t bytes, const void *out, void *in)
{
    char *other = (char *)need_bytes(SHARE_PIECE);
    size_t at, length;
    for (at = 0; at < bytes; at += length) {
        length = bytes - at < SHARE_PIECE ? bytes - at : (size_t)SHARE_PIECE;
        share_need(team->swap(team->user, peer, out ? (const char *)out + at : other, in ? (char *)in + at : other, length));
    }
    free(other);
}
static inline void share_send(const pu_team *team, int peer, size_t bytes, const void *x) { share_pass(team, peer, bytes, x, NULL); }
static inline void share_receive(const pu_team *team, int peer, size_t bytes, void *x) { share_pass(team, peer, bytes, NULL, x); }

/* x is what the processes before this one have left there; on the first one it stays as it is. */
static inline void share_begin(const pu_team *team, size_t bytes, void *x)
{
    if (!share_is_one(team) && team->rank > 0) share_receive(team, team->rank - 1, bytes, x);
}

/* What the last process has in x goes to all. */
static inline void share_last(const pu_team *team, size_t bytes, void *x)
{
    if (share_is_one(team)) return;
    if (team->rank + 1 == team->ranks) share_send(team, 0, bytes, x);
    if (team->rank == 0) share_receive(team, team->ranks - 1, bytes, x);
    share_need(pu_team_broadcast(team, bytes, x));
}

/* x goes on; at the end all have what the last one has left there. */
static inline void share_end(const pu_team *team, size_t bytes, void *x)
{
    if (share_is_one(team)) return;
    if (team->rank + 1 < team->ranks) share_send(team, team->rank + 1, bytes, x);
    share_last(team, bytes, x);
}

/* ---- what all must know of a file ---- */

typedef struct {
    int ok;
    uint64_t mark; /* of the file; 0: unknown */
    long lines, count;
    double low, high;
    char error[sizeof ((movielens *)NULL)->error];
} share_note;

/* A number that another file, or another state of it, hardly has: of length, beginning and end. 0: it cannot be read. */
static inline uint64_t share_mark_one(FILE *file, uint64_t hash)
{
    unsigned char block[4096];
    const long size = movielens_size(file);
    int end;
    for (end = 0; end < 2; end++) {
        const long from = end && size > (long)sizeof block ? size - (long)sizeof block : 0;
        size_t got, i;
        if (fseek(file, from, SEEK_SET)) return 0;
        got = fread(block, 1, sizeof block, file);
        for (i = 0; i < got; i++) hash = (hash ^ block[i]) * UINT64_C(1099511628211);
    }
    hash = (hash ^ (uint64_t)size) * UINT64_C(1099511628211);
    return hash ? hash : 1;
}

/* The same of what --data names: a file, or several with commas between them. */
static inline uint64_t share_mark(const char *path)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    FILE *file = fopen(path, "rb");
    if (file) {
        hash = share_mark_one(file, hash);
        fclose(file);
        return hash;
    }
    while (*path && hash) {
        char name[1024];
        const size_t length = strcspn(path, ",");
        snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), path);
        file = fopen(name, "rb");
        hash = file ? share_mark_one(file, hash) : 0;
        if (file) fclose(file);
        path += length + (path[length] == ',');
    }
    return hash;
}

/* 1: all is well everywhere, and `note` is of all. 0: not on some process; m->error says what the first of these has said, which has
   `lines` of its own piece (0: none), with the line of the file, and m is freed. */
static inline int share_agree(const pu_team *team, share_note *note, movielens *m)
{
    share_note *all = (share_note *)need_bytes((size_t)team->ranks * sizeof *all);
    long lines = 0;
    int r, ok = 1;
    all[team->rank] = *note;
    share_need(pu_team_gather(team, sizeof *all, all));
    note->count = 0, note->low = HUGE_VAL, note->high = -HUGE_VAL;
    /* first, because pieces of different files go wrong in ways that mean nothing */
    for (r = 1; r < team->ranks && ok; r++)
        if (all[r].mark && all[0].mark && all[r].mark != all[0].mark) {
            char why[120];
            snprintf(why, sizeof why, "process %d has another file under this name than the first one", r);
            ok = movielens_fail(m, 0, why);
        }
    for (r = 0; r < team->ranks && ok; r++) {
        ok = all[r].ok;
        if (!ok) movielens_fail(m, all[r].lines ? lines + all[r].lines : 0, all[r].error);
        lines += all[r].lines, note->count += all[r].count;
        if (all[r].count && all[r].low < note->low) note->low = all[r].low;
        if (all[r].count && all[r].high > note->high) note->high = all[r].high;
    }
    free(all);
    return ok;
}

/* Two increasing arrays into one without repetitions, which takes their place at *x. */
static inline void share_merge(int64_t **x, int64_t *count, const int64_t *other, int64_t others)
{
    int64_t *to = (int64_t *)need_bytes((size_t)(*count + others) * sizeof *to), n = 0, i = 0, j = 0;
    while (i < *count || j < others) {
        const int first = j == others || (i < *count && (*x)[i] <= other[j]);
        const int64_t next = first ? (*x)[i] : other[j];
        if (first) i++;
        else j++;
        if (n == 0 || to[n - 1] != next) to[n++] = next;
    }
    free(*x);
    *x = to, *count = n;
}

/* The numbers that any process has met, increasing. Returns the place of each that this one has met, in its order. */
static inline int32_t *share_ids(const pu_team *team, movielens_ids *met, int64_t **ids, int32_t *count)
{
    const int64_t mine = met->count;
    int32_t *place = (int32_t *)need_bytes((size_t)mine * sizeof *place), i;
    int64_t *x = (int64_t *)need_bytes((size_t)mine * sizeof *x), *other, n = mine, others;
    if (mine) memcpy(x, met->id, (size_t)mine * sizeof *x);
    qsort(x, (size_t)mine, sizeof *x, movielens_id_order);
    if (team->rank > 0) {
        share_receive(team, team->rank - 1, sizeof others, &others);
        other = (int64_t *)need_bytes((size_t)others * sizeof *other);
        share_receive(team, team->rank - 1, (size_t)others * sizeof *other, other);
        share_merge(&x, &n, other, others);
        free(other);
    }
    if (team->rank + 1 < team->ranks) {
        share_send(team, team->rank + 1, sizeof n, &n);
        share_send(team, team->rank + 1, (size_t)n * sizeof *x, x);
    }
    others = n; /* the last one has them all */
    share_last(team, sizeof others, &others);
    if (team->rank + 1 < team->ranks) {
        free(x);
        x = (int64_t *)need_bytes((size_t)others * sizeof *x);
    }
    share_last(team, (size_t)others * sizeof *x, x);
    *ids = x, *count = (int32_t)others;
    for (i = 0; i < (int32_t)mine; i++) place[i] = movielens_place(met->id[i], *count, x);
    movielens_ids_free(met);
    return place;
}

/* This process's piece of the file: m->pair and value of it, by the places of all users and items; all else of all. */
static inline int share_read(const char *path, const pu_team *team, share_counts *s, movielens *m, movielens_progress progress, void *told)
{
    share_note note;
    int32_t *user, *item;
    size_t bytes;
    long i;
    memset(&note, 0, sizeof note);
    note.mark = share_mark(path);
    note.ok = movielens_collect(path, team->rank, team->ranks, m, progress, told, &note.lines);
    memcpy(note.error, m->error, sizeof note.error);
    note.count = m->count, note.low = HUGE_VAL, note.high = -HUGE_VAL;
    for (i = 0; i < m->count; i++) {
        if ((double)m->value[i] < note.low) note.low = (double)m->value[i];
        if ((double)m->value[i] > note.high) note.high = (double)m->value[i];
    }
    if (!share_agree(team, &note, m)) return 0;
    if (note.count == 0) return movielens_fail(m, 0, "there is no rating in it");
    if (note.count >= INT32_MAX) return movielens_fail(m, 0, "there are too many ratings");
    s->total = note.count, m->low = note.low, m->high = note.high;
    user = share_ids(team, &m->user, &m->user_id, &m->users), item = share_ids(team, &m->item, &m->item_id, &m->items);
    m->item_bits = movielens_bits(m->items);
    bytes = (size_t)m->users * sizeof *s->of_user;
    s->of_user = (int32_t *)need_bytes(bytes);
    share_begin(team, bytes, s->of_user);
    for (i = 0; i < m->count; i++) {
        m->pair[i] = (uint64_t)user[m->pair[i] >> 32] << m->item_bits | (uint64_t)item[m->pair[i] & UINT32_MAX];
        s->of_user[movielens_user(m, i)]++;
    }
    share_end(team, bytes, s->of_user);
    free(user), free(item);
    return 1;
}

/* ---- to each its own ---- */

typedef struct {
    uint64_t pair;
    double value;
} share_rating;

/* The next rating at or behind *at whose user is of this process; 0: there is none. */
static inline int share_next(const movielens *m, const int32_t *owner, int32_t whose, long *at)
{
    while (*at < m->count && owner[movielens_user(m, *at)] != whose) ++*at;
    return *at < m->count;
}

/* What this process and another one have for each other; `to` gets more. */
static inline void share_trade(const pu_team *team, int peer, const movielens *m, const int32_t *owner, share_rating *letter, movielens *to)
{
    int64_t mine = 0, theirs = 0;
    share_rating *const answer = letter + SHARE_DEAL;
    long at, i;
    for (at = 0; share_next(m, owner, peer, &at); at++) mine++;
    share_need(team->swap(team->user, peer, &mine, &theirs, sizeof mine));
    for (at = 0; mine > 0 || theirs > 0;) {
        const int64_t most = mine > theirs ? mine : theirs, length = most < SHARE_DEAL ? most : (int64_t)SHARE_DEAL;
        for (i = 0; i < length && share_next(m, owner, peer, &at); i++, at++)
            letter[i].pair = m->pair[at], letter[i].value = (double)m->value[at];
        share_need(team->swap(team->user, peer, letter, answer, (size_t)length * sizeof *letter));
        for (i = 0; i < length && i < theirs; i++) to->pair[to->count] = answer[i].pair, to->value[to->count++] = (pu_real)answer[i].value;
        mine = mine > length ? mine - length : 0, theirs = theirs > length ? theirs - length : 0;
    }
}

/* Ratings go to the owner of their user; those of this process are then in m, by user and item. 0: as share_agree, or one is there
   twice. */
static inline int share_deal(const char *path, const pu_team *team, const int32_t *owner, const share_counts *s, movielens *m)
{
    share_rating *letter = (share_rating *)need_bytes(2 * SHARE_DEAL * sizeof *letter);
    share_note note;
    movielens to = *m;
    long room = 0, i;
    int round;
    int32_t u;
    for (u = 0; u < m->users; u++)
        if (owner[u] == team->rank) room += s->of_user[u];
    to.pair = (uint64_t *)need_bytes((size_t)room * sizeof *to.pair), to.value = need_reals(room), to.count = 0;
    for (round = 0; round < team->ranks; round++) {
        const int peer = (round - team->rank + team->ranks) % team->ranks;
        if (peer != team->rank) share_trade(team, peer, m, owner, letter, &to);
        else
            for (i = 0; share_next(m, owner, peer, &i); i++) to.pair[to.count] = m->pair[i], to.value[to.count++] = m->value[i];
    }
    free(letter), free(m->pair), free(m->value);
    *m = to;
    if (m->count != room) fail(1, "team", "ratings were lost on their way");
    i = movielens_bits(m->users) + m->item_bits;
    movielens_sort(m->pair, m->value, m->count, i > 8 ? (int)i - 8 : 0);
    memset(&note, 0, sizeof note);
    note.ok = 1;
    for (i = 1; i < m->count && note.ok; i++)
        if (m->pair[i] == m->pair[i - 1]) {
            movielens copy = *m;
            note.ok = movielens_twice(&copy, i, movielens_second(path, m, i));
            memcpy(note.error, copy.error, sizeof note.error);
        }
    return share_agree(team, &note, m);
}

#endif /* EXAMPLES_SHARE_H */
