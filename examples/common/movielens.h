/* movielens.h - reads ratings: the three text formats of MovieLens, and arrays of numpy.save.

       1::1193::5::978300760            ratings.dat: two colons between fields
       196 <tab> 242 <tab> 3 <tab> ..   u.data: tabs
       userId,movieId,rating,timestamp  ratings.csv: commas
       1,1,4.0,964982703

   Text: the separator of the first line holds for all; a file has 3 columns or, with time stamps, 4. The first line may name the
   columns, in this order: user.., movie.. or item.., rating.. Numbers of users and items are integers from 0 to 2^63 - 1 in any
   order and with gaps, ratings are plain decimals from 0 to 1000. Anything else is refused with the number of its line: a wrong
   count of fields, signs, quotes, spaces, empty or endless lines, zero bytes, a second rating of the same item by the same user.
   Lines may end in CR LF; the last one need not end at all; a byte order mark is skipped.

       np.save("ratings.npy", a)                           a: n x 3 (or 4) integers or floats: user, item, rating
       np.save("ratings.npy", frame.to_records())          records: columns user.., movie.. or item.., rating.. by their names
       "user.npy,item.npy,rating.npy"                      three files, a vector each

   Wrong numbers are refused with the number of their row, which begins at 0 (see npy.h for what else is).

       movielens m;
       if (!movielens_read(path, &m)) fail(1, path, m.error);
       ..  movielens_user(&m, i), movielens_item(&m, i), m.value[i], i = 0 .. m.count-1, by user, then by item
       movielens_free(&m);

   or, in place of a file, memset, then movielens_add for each rating, then movielens_index.

   Time: each byte is looked at once, numbers of the file become places by hashing, and the order is made by a radix sort in place,
   unless it is there. Memory: 8 bytes a rating and a pu_real; while reading also some 50 bytes for each user and item. Values are
   rounded to float, whatever pu_real is. Include after pu.h. */
#ifndef EXAMPLES_MOVIELENS_H
#define EXAMPLES_MOVIELENS_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "npy.h"

enum { MOVIELENS_LINE = 200, MOVIELENS_BLOCK = 1 << 18 }; /* bytes of the longest line, and read at a time */
enum { MOVIELENS_SMALL = 1 << 20 };                      /* numbers of users and items below this have a table, others are hashed */

typedef struct {
    int64_t id;
    int32_t place;
} movielens_slot;

/* Numbers of a file and the order in which they were met. Places are + 1, 0 = none. */
typedef struct {
    int32_t *small;       /* place of the numbers 0 .. MOVIELENS_SMALL - 1 */
    movielens_slot *slot; /* of larger ones: open addresses */
    size_t slots;         /* a power of two, or 0 */
    int64_t *id;          /* count of them, as they were met */
    int32_t count, room, hashed;
} movielens_ids;

typedef struct {
    long count;
    int32_t users, items;       /* that have a rating */
    uint64_t *pair;             /* count, increasing: places in user_id and in item_id, see movielens_user */
    pu_real *value;             /* count */
    int item_bits;              /* of a pair: how many its item takes */
    int64_t *user_id, *item_id; /* their numbers in the file, increasing */
    double low, high;           /* smallest and largest rating */
    char error[300];            /* when a function returns 0 */
    /* while ratings are added */
    long room;
    movielens_ids user, item;
} movielens;

/* Told about every 256 kB: ratings so far, and how much of the file that is, 0 to 1 (or less than 0: unknown). */
typedef void (*movielens_progress)(long count, double share, void *user);

static inline int32_t movielens_user(const movielens *m, long i) { return (int32_t)(m->pair[i] >> m->item_bits); }
static inline int32_t movielens_item(const movielens *m, long i)
{
    return (int32_t)(m->pair[i] & (((uint64_t)1 << m->item_bits) - 1));
}

static inline void movielens_ids_free(movielens_ids *s)
{
    free(s->small), free(s->slot), free(s->id);
    memset(s, 0, sizeof *s);
}

static inline void movielens_free(movielens *m)
{
    free(m->pair), free(m->value), free(m->user_id), free(m->item_id);
    movielens_ids_free(&m->user), movielens_ids_free(&m->item);
    m->pair = NULL, m->value = NULL, m->user_id = m->item_id = NULL, m->count = m->room = 0, m->users = m->items = 0;
}

/* Always 0, for `return movielens_fail(..)`. line 0: none. */
static inline int movielens_fail(movielens *m, long line, const char *why)
{
    if (line > 0)
        snprintf(m->error, sizeof m->error, "line %ld: %.250s", line, why);
    else
        snprintf(m->error, sizeof m->error, "%s", why);
    movielens_free(m);
    return 0;
}

/* ---- numbers of the file -> places ---- */

static inline size_t movielens_hash(int64_t id, size_t slots)
{
    uint64_t h = (uint64_t)id;
    h = (h ^ h >> 32) * 0x9e3779b97f4a7c15u;
    return (size_t)(h ^ h >> 29) & (slots - 1);
}

/* Where the number is, or the free slot where it belongs. */
static inline size_t movielens_find(const movielens_ids *s, int64_t id)
{
    size_t at = movielens_hash(id, s->slots);
    while (s->slot[at].place && s->slot[at].id != id) at = (at + 1) & (s->slots - 1);
    return at;
}

/* Twice as many slots; 0: no memory. */
static inline int movielens_ids_grow(movielens_ids *s)
{
    const size_t slots = s->slots ? 2 * s->slots : 1024;
    movielens_slot *const old = s->slot, *slot = (movielens_slot *)calloc(slots, sizeof *slot);
    const size_t before = s->slots;
    size_t i;
    if (!slot) return 0;
    s->slot = slot, s->slots = slots;
    for (i = 0; i < before; i++)
        if (old[i].place) slot[movielens_find(s, old[i].id)] = old[i];
    free(old);
    return 1;
}

/* One that was not met before, and has no place yet; its place + 1, 0: no memory. */
static inline int32_t movielens_new(movielens_ids *s, int64_t id)
{
    if (s->count == s->room) {
        const int32_t room = s->room < 1 << 29 ? 2 * s->room + 1024 : INT32_MAX;
        int64_t *more = (size_t)room <= (size_t)-1 / sizeof *more ? (int64_t *)realloc(s->id, (size_t)room * sizeof *more) : NULL;
        if (!more) return 0;
        s->id = more, s->room = room;
    }
    s->id[s->count] = id;
    return ++s->count;
}

/* Where the place of a number is noted; NULL: no memory. */
static inline int32_t *movielens_note(movielens_ids *s, int64_t id)
{
    size_t at;
    if (id < MOVIELENS_SMALL) {
        if (!s->small) s->small = (int32_t *)calloc(MOVIELENS_SMALL, sizeof *s->small);
        return s->small ? &s->small[id] : NULL;
    }
    if ((size_t)s->hashed >= s->slots / 4 * 3 && !movielens_ids_grow(s)) return NULL;
    at = movielens_find(s, id);
    if (!s->slot[at].place) s->slot[at].id = id, s->hashed++;
    return &s->slot[at].place;
}

/* The place of a number, a new one where it was not met before; -1: no memory. */
static inline int32_t movielens_meet(movielens_ids *s, int64_t id)
{
    int32_t *const place = movielens_note(s, id);
    if (!place) return -1;
    if (!*place) *place = movielens_new(s, id);
    return *place - 1;
}

static inline int movielens_id_order(const void *a, const void *b)
{
    const int64_t p = *(const int64_t *)a, q = *(const int64_t *)b;
    return p < q ? -1 : p > q;
}

/* Where in an increasing array a number is, or -1. */
static inline int32_t movielens_place(int64_t number, int32_t n, const int64_t *id)
{
    const int64_t *at = (const int64_t *)bsearch(&number, id, (size_t)n, sizeof *id, movielens_id_order);
    return at ? (int32_t)(at - id) : -1;
}

/* Turns the order in which numbers were met into increasing order. The numbers go to *ids; returns the place of each as it
   was met, or NULL: no memory. */
static inline int32_t *movielens_ranks(movielens_ids *s, int64_t **ids)
{
    int32_t *rank = (int32_t *)malloc((size_t)s->count * sizeof *rank), i;
    int64_t *id = s->id;
    int is_sorted = 1;
    if (!rank) return NULL;
    for (i = 0; i < s->count; i++) {
        rank[i] = i;
        if (i > 0 && id[i] < id[i - 1]) is_sorted = 0;
    }
    if (!is_sorted) {
        qsort(id, (size_t)s->count, sizeof *id, movielens_id_order);
        for (i = 0; i < s->count; i++) rank[movielens_meet(s, id[i])] = i; /* all were met */
    }
    s->id = NULL;
    *ids = id;
    movielens_ids_free(s);
    return rank;
}

/* ---- ratings ---- */

/* Room for `more` ratings in all; what is there stays. */
static inline int movielens_reserve(movielens *m, long more)
{
    uint64_t *pair;
    pu_real *value;
    if ((size_t)more > (size_t)-1 / sizeof *pair) return 0;
    pair = (uint64_t *)realloc(m->pair, (size_t)more * sizeof *pair);
    if (pair) m->pair = pair;
    value = (pu_real *)realloc(m->value, (size_t)more * sizeof *value);
    if (value) m->value = value;
    if (pair && value) m->room = more;
    return pair && value;
}

/* One more. 0: there is not enough memory. */
static inline int movielens_add(movielens *m, int64_t user, int64_t item, float value)
{
    int32_t u, i;
    if (m->count == m->room && !movielens_reserve(m, m->room ? m->room + m->room / 2 : 4096)) return 0;
    u = movielens_meet(&m->user, user), i = movielens_meet(&m->item, item);
    if (u < 0 || i < 0) return 0;
    m->pair[m->count] = (uint64_t)(uint32_t)u << 32 | (uint32_t)i;
    m->value[m->count++] = (pu_real)value;
    return 1;
}

/* Pairs and their values, by insertion. */
static inline void movielens_insert(uint64_t *pair, pu_real *value, long n)
{
    long i, j;
    for (i = 1; i < n; i++) {
        const uint64_t p = pair[i];
        const pu_real v = value[i];
        for (j = i; j > 0 && pair[j - 1] > p; j--) pair[j] = pair[j - 1], value[j] = value[j - 1];
        pair[j] = p, value[j] = v;
    }
}

/* Pairs and their values in increasing order, in place: by the eight bits from `shift` on, then each of the 256 piles by the
   bits below. Every swap takes one of them to the pile where it stays. */
static inline void movielens_sort(uint64_t *pair, pu_real *value, long n, int shift)
{
    long next[256], end[256], i;
    int pile;
    if (n <= 32) {
        movielens_insert(pair, value, n);
        return;
    }
    memset(end, 0, sizeof end);
    for (i = 0; i < n; i++) end[pair[i] >> shift & 255]++;
    for (i = 0, pile = 0; pile < 256; pile++) next[pile] = i, i += end[pile], end[pile] = i;
    for (pile = 0; pile < 256; pile++)
        while (next[pile] < end[pile]) {
            uint64_t p = pair[next[pile]];
            pu_real v = value[next[pile]];
            int to;
            while ((to = (int)(p >> shift & 255)) != pile) {
                const long at = next[to]++;
                const uint64_t other = pair[at];
                const pu_real y = value[at];
                pair[at] = p, value[at] = v;
                p = other, v = y;
            }
            pair[next[pile]] = p, value[next[pile]++] = v;
        }
    if (shift == 0) return;
    for (i = 0, pile = 0; pile < 256; i = end[pile++])
        movielens_sort(pair + i, value + i, end[pile] - i, shift > 8 ? shift - 8 : 0);
}

/* How many bits a number below `count` takes. */
static inline int movielens_bits(int32_t count)
{
    int bits = 1;
    while ((int64_t)1 << bits < count) bits++;
    return bits;
}

/* Turns what was added into ratings by user, then by item. 0: no memory (nothing is left), or a repetition, the first of which
   is then at *twice, and everything is left. */
static inline int movielens_order(movielens *m, long *twice)
{
    const int32_t users = m->user.count, items = m->item.count;
    const int bits = movielens_bits(items), all = bits + movielens_bits(users);
    int32_t *user = movielens_ranks(&m->user, &m->user_id), *item = user ? movielens_ranks(&m->item, &m->item_id) : NULL;
    int is_sorted = 1;
    long i;
    *twice = -1;
    (void)movielens_reserve(m, m->count); /* gives back what is too much */
    if (!item) {
        free(user);
        return movielens_fail(m, 0, "there is not enough memory");
    }
    m->users = users, m->items = items, m->item_bits = bits;
    m->low = m->high = (double)m->value[0];
    for (i = 0; i < m->count; i++) {
        const double y = (double)m->value[i];
        m->pair[i] = (uint64_t)user[m->pair[i] >> 32] << bits | (uint64_t)item[m->pair[i] & UINT32_MAX];
        if (i > 0 && m->pair[i] < m->pair[i - 1]) is_sorted = 0;
        if (y < m->low) m->low = y;
        if (y > m->high) m->high = y;
    }
    free(user), free(item);
    if (!is_sorted) movielens_sort(m->pair, m->value, m->count, all > 8 ? all - 8 : 0);
    for (i = 1; i < m->count && *twice < 0; i++)
        if (m->pair[i] == m->pair[i - 1]) *twice = i;
    return *twice < 0;
}

/* m->error: rating `twice` is that of the one before. Always 0. */
static inline int movielens_twice(movielens *m, long twice, long line)
{
    char where[40] = "";
    if (line > 0) snprintf(where, sizeof where, "line %ld: ", line);
    snprintf(m->error, sizeof m->error, "%sa second rating of item %lld by user %lld", where,
             (long long)m->item_id[movielens_item(m, twice)], (long long)m->user_id[movielens_user(m, twice)]);
    return 0;
}

static inline int movielens_again(movielens *m, long twice, long line)
{
    movielens_twice(m, twice, line);
    movielens_free(m);
    return 0;
}

/* After the last movielens_add. 0: there was none, or one twice, or there is not enough memory. */
static inline int movielens_index(movielens *m)
{
    long twice;
    if (m->count == 0) return movielens_fail(m, 0, "there is no rating in it");
    if (movielens_order(m, &twice)) return 1;
    return twice < 0 ? 0 : movielens_again(m, twice, 0);
}

/* ---- text ---- */

/* A file of lines, its format, and where we are in it. */
typedef struct {
    FILE *file;
    char *block;         /* MOVIELENS_BLOCK bytes, and one */
    char separator[3];   /* "::", a tab or a comma */
    size_t width;        /* of the separator */
    int fields;          /* 0 before the first line */
    long line;           /* that was read last */
    double bytes, size;  /* read so far; to be read, 0 = unknown */
    long at, to;         /* where in the file the block begins; lines that begin there or behind are not read, 0 = all are */
    const char *wrong;   /* with this line */
    movielens *m;        /* where ratings go, or NULL: */
    int64_t user, item;  /* then this one is searched for, */
    int met;             /* and was met so often */
    movielens_progress progress;
    void *told;
} movielens_text;

typedef struct {
    int64_t user, item;
    float value;
} movielens_row;

static const double movielens_ten[16] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};

/* The decimal digits at `at` as a number, which may overflow; where they end. */
static inline const char *movielens_digits(const char *at, uint64_t *x)
{
    unsigned digit;
    for (; (digit = (unsigned)(unsigned char)*at - '0') <= 9; at++) *x = 10 * *x + digit;
    return at;
}

/* A decimal from 0 to 1000 of at most 15 digits; where it ends, or NULL. */
static inline const char *movielens_decimal(const char *at, float *value)
{
    uint64_t digits = 0;
    const char *const begin = at;
    long behind = 0, count;
    double x;
    at = movielens_digits(at, &digits);
    count = (long)(at - begin);
    if (*at == '.') {
        const char *const point = ++at;
        at = movielens_digits(at, &digits);
        behind = (long)(at - point);
    }
    count += behind;
    if (count < 1 || count > 15) return NULL;
    x = (double)digits / movielens_ten[behind]; /* both exact: the nearest number */
    *value = (float)x;
    return x <= 1000 ? at : NULL;
}

/* An integer of at most 19 digits, at most 2^63 - 1; where it ends, or NULL. */
static inline const char *movielens_integer(const char *at, int64_t *x)
{
    uint64_t digits = 0;
    const char *const end = movielens_digits(at, &digits);
    *x = (int64_t)(digits & INT64_MAX);
    return end > at && end - at <= 19 && digits <= INT64_MAX ? end : NULL;
}

/* One line, ended by a byte that is neither a digit nor a point (its end, or a zero); where it ends, or NULL: *wrong, unless that
   is NULL. The zero in place of a line's end must not be met before: text from memory has none. */
static inline const char *movielens_fields(const movielens_text *t, const char *at, movielens_row *r, const char **wrong)
{
    static const char *const not_one[] = {"the user is not an integer from 0 to 2^63 - 1",
                                          "the item is not an integer from 0 to 2^63 - 1",
                                          "the rating is not a plain number from 0 to 1000", "the time stamp is not an integer"};
    int64_t stamp;
    int i;
    for (i = 0; i < t->fields; i++) {
        int is_separator, is_end;
        at = i == 0 ? movielens_integer(at, &r->user)
           : i == 1 ? movielens_integer(at, &r->item)
           : i == 2 ? movielens_decimal(at, &r->value) : movielens_integer(at, &stamp);
        is_end = at && (*at == '\n' || *at == '\r');
        is_separator = at && at[0] == t->separator[0] && (t->width == 1 || at[1] == t->separator[1]);
        *wrong = not_one[i];
        if (!is_end && !is_separator) return NULL;
        *wrong = "another count of fields than in the first line";
        if (is_end != (i + 1 == t->fields)) return NULL;
        if (is_separator) at += t->width;
    }
    if (*at == '\r') at++;
    *wrong = not_one[t->fields - 1];
    return *at == '\n' ? at : NULL;
}

/* Begins the text with this word, in any case, perhaps in quotes? */
static inline int movielens_word(const char *text, const char *word)
{
    if (*text == '"') text++;
    for (; *word; text++, word++)
        if ((*text | 32) != *word) return 0;
    return 1;
}

static inline const char *movielens_next(const char *at, const char *separator)
{
    const char *next = strstr(at, separator);
    return next ? next + strlen(separator) : "";
}

/* Separator and count of fields from the first line, a string. *names: it is a header. What is wrong, or NULL. */
static inline const char *movielens_format(movielens_text *t, const char *line, int *names)
{
    const char *const separator = strstr(line, "::") ? "::" : strchr(line, '\t') ? "\t" : strchr(line, ',') ? "," : NULL;
    const char *at = line;
    int fields = 1;
    if (!separator) return "the fields are not separated by ::, tabs or commas";
    for (; (at = strstr(at, separator)) != NULL; at += strlen(separator)) fields++;
    if (fields != 3 && fields != 4) return "there must be 3 or 4 fields: user, item, rating, time stamp";
    strcpy(t->separator, separator);
    t->width = strlen(separator), t->fields = fields;
    *names = *line == '"' || ((*line | 32) >= 'a' && (*line | 32) <= 'z');
    if (!*names) return NULL;
    at = movielens_next(line, separator);
    if (!movielens_word(line, "user") || (!movielens_word(at, "movie") && !movielens_word(at, "item")) ||
        !movielens_word(movielens_next(at, separator), "rating"))
        return "a first line that names the columns must have the names user.., movie.. or item.., rating..";
    return NULL;
}

/* What is wrong with the line from `at` to `end`, for certain: zeros and length before all else. */
static inline const char *movielens_reason(const char *at, const char *end, const char *wrong)
{
    const size_t length = (size_t)(end - at);
    if (memchr(at, 0, length < MOVIELENS_LINE ? length : (size_t)MOVIELENS_LINE)) return "a zero byte: this is not a text file";
    if (length >= MOVIELENS_LINE) return "the line is too long";
    return length == 0 || (length == 1 && *at == '\r') ? "an empty line" : wrong;
}

/* The first line, whose end is at `end`. *names: it is no rating. */
static inline const char *movielens_first(movielens_text *t, const char *at, const char *end, int *names)
{
    char line[MOVIELENS_LINE + 1];
    size_t length = (size_t)(end - at);
    const char *wrong = movielens_reason(at, end, NULL);
    if (wrong) return wrong;
    memcpy(line, at, length);
    if (length > 0 && line[length - 1] == '\r') length--;
    line[length] = 0;
    return movielens_format(t, line, names);
}

/* The lines from `at` to before `end`, which is behind the end of a line. 0: t->wrong, or met twice what was searched for. */
static inline int movielens_lines(movielens_text *t, const char *at, const char *end)
{
    movielens_row r = {0, 0, 0};
    while (at < end) {
        const char *const begin = at, *wrong = NULL;
        int names = 0;
        t->line++;
        if (t->fields == 0) {
            const char *const stop = (const char *)memchr(at, '\n', (size_t)(end - at));
            t->wrong = movielens_first(t, at, stop, &names);
            if (t->wrong) return 0;
            if (names) {
                at = stop + 1;
                continue;
            }
        }
        at = movielens_fields(t, at, &r, &wrong);
        if (!at) {
            t->wrong = movielens_reason(begin, (const char *)memchr(begin, '\n', (size_t)(end - begin)), wrong);
            return 0;
        }
        at++;
        if (!t->m) {
            t->met += r.user == t->user && r.item == t->item;
            if (t->met == 2) return 0;
        } else if (!movielens_add(t->m, r.user, r.item, r.value)) {
            t->wrong = "there is not enough memory";
            return 0;
        }
    }
    return 1;
}

/* After a block: tells how far we are, and guesses from it how many ratings there will be, so that memory grows once. */
static inline void movielens_pause(movielens_text *t)
{
    const double share = t->size > 0 ? t->bytes / t->size : -1;
    const movielens *const m = t->m;
    if (m && share > 0 && share < 1 && m->count > m->room / 2) {
        const double all = (double)m->count / share * 1.02 + 4096;
        if (all > (double)m->room && all < 2147483647.0) (void)movielens_reserve(t->m, (long)all);
    }
    if (m && t->progress) t->progress(m->count, share, t->told);
}

/* All lines of the range. 0: see movielens_lines. */
static inline int movielens_all(movielens_text *t)
{
    size_t have = 0, got = 1;
    while (got > 0) {
        size_t keep;
        char *at = t->block;
        got = fread(t->block + have, 1, MOVIELENS_BLOCK - have, t->file);
        if (t->bytes <= 0 && t->at == 0 && got >= 3 && !memcmp(at, "\xef\xbb\xbf", 3)) at += 3;
        t->bytes += (double)got;
        have += got;
        if (got == 0 && have > 0) t->block[have++] = '\n'; /* the last line need not end */
        for (keep = have; keep > 0 && t->block[keep - 1] != '\n'; keep--) {}
        if (t->to > 0 && t->at + (long)keep >= t->to) { /* the last line of the range ends in this block */
            const size_t from = (size_t)(t->to - t->at - 1);
            keep = (size_t)((char *)memchr(t->block + from, '\n', keep - from) - t->block) + 1;
            got = 0;
        }
        if (keep > 0 && !movielens_lines(t, at, t->block + keep)) return 0;
        if (keep == 0 && have == MOVIELENS_BLOCK) {
            t->line++, t->wrong = movielens_reason(t->block, t->block + have, NULL);
            return 0;
        }
        if (at > t->block + keep) keep = (size_t)(at - t->block); /* a byte order mark, and no line yet */
        have -= keep, t->at += (long)keep;
        memmove(t->block, t->block + keep, have);
        if (t->m && t->m->count > INT32_MAX - MOVIELENS_BLOCK) {
            t->wrong = "there are too many ratings";
            return 0;
        }
        movielens_pause(t);
    }
    if (ferror(t->file)) t->wrong = "cannot be read to its end";
    return !t->wrong;
}

/* Bytes of a file that stands at its begin, which it does again; 0: unknown. */
static inline long movielens_size(FILE *file)
{
    const long size = fseek(file, 0, SEEK_END) ? 0 : ftell(file);
    return fseek(file, 0, SEEK_SET) || size < 0 ? 0 : size;
}

/* Piece `rank` of `ranks` of a file: the lines that begin in its share of the bytes. A piece that is not the first has to know the
   first line. 0: there is nothing in it; *wrong, if there is. */
static inline int movielens_piece(movielens_text *t, int rank, int ranks, const char **wrong)
{
    const long size = movielens_size(t->file), each = size / ranks, rest = size % ranks;
    long from = each * rank + rest * rank / ranks;
    int names, c = 0;
    t->size = (double)size;
    if (ranks == 1) return 1;
    t->to = each * (rank + 1) + rest * (rank + 1) / ranks;
    t->size = (double)(t->to - from);
    if (size == 0) *wrong = "several processes need a file that can be searched, and something in it";
    if (*wrong || from == t->to) return 0;
    if (from == 0) return 1;
    { /* the first line; if it is wrong the piece that has it says so */
        const size_t got = fread(t->block, 1, MOVIELENS_LINE + 8, t->file), mark = got > 3 && !memcmp(t->block, "\xef\xbb\xbf", 3) ? 3 : 0;
        const char *end = (const char *)memchr(t->block, '\n', got);
        if (movielens_first(t, t->block + mark, end ? end : t->block + got, &names)) return 0;
    }
    if (fseek(t->file, from - 1, SEEK_SET)) *wrong = "cannot be read";
    while (!*wrong && from <= t->to && (c = getc(t->file)) != EOF && c != '\n') from++; /* the line that another one has begun */
    t->at = from;
    return !*wrong && c != EOF && from < t->to;
}

/* The line that has the second of two equal pairs, by reading the file again; 0: it cannot be, or there are no lines. */
static inline long movielens_second(const char *path, const movielens *m, long twice)
{
    movielens_text t;
    memset(&t, 0, sizeof t);
    t.user = m->user_id[movielens_user(m, twice)], t.item = m->item_id[movielens_item(m, twice)];
    t.file = fopen(path, "rb"), t.block = (char *)malloc(MOVIELENS_BLOCK + 1);
    if (t.file && t.block) (void)movielens_all(&t);
    if (t.file) fclose(t.file);
    free(t.block);
    return t.met == 2 ? t.line : 0;
}

/* ---- arrays of numpy ---- */

/* User, item and rating, each from a file of its own or from columns of one. */
typedef struct {
    npy_file file[3];
    npy_column column[3];
    int files;            /* that are read: 1, or 3 (also three times the same, by columns) */
    unsigned char *block; /* MOVIELENS_BLOCK bytes for each file */
    char why[NPY_WHY];
} movielens_arrays;

/* Which columns of the one file are wanted. */
static inline int movielens_columns(movielens_arrays *a)
{
    static const char *const name[3] = {"user", "movie", "rating"};
    const npy_file *const f = &a->file[0];
    int is_named = f->column[0].name[0] != 0, i, c;
    if (!is_named && f->columns != 3 && f->columns != 4) {
        snprintf(a->why, sizeof a->why, "there must be 3 or 4 columns: user, item, rating, time stamp; there %s %d",
                 f->columns == 1 ? "is" : "are", f->columns);
        return 0;
    }
    for (i = 0; i < 3; i++) {
        int found = is_named ? -1 : i;
        for (c = 0; c < f->columns && is_named; c++)
            if (movielens_word(f->column[c].name, name[i]) || (i == 1 && movielens_word(f->column[c].name, "item"))) {
                if (found >= 0) return snprintf(a->why, sizeof a->why, "two columns are called %s..", name[i]), 0;
                found = c;
            }
        if (found < 0 || !f->column[found].kind)
            return snprintf(a->why, sizeof a->why, "there is no column of numbers called %s..%s", name[i],
                            i == 1 ? " or item.." : ""), 0;
        a->column[i] = f->column[found];
    }
    return 1;
}

/* One file of columns, or one that is opened three times and stands at the begin of each. */
static inline int movielens_one(movielens_arrays *a, const char *path)
{
    int i;
    a->files = 1;
    if (!npy_open(path, &a->file[0], a->why) || !movielens_columns(a)) return 0;
    if (!a->file[0].is_apart) return 1;
    for (i = 0; i < 3; i++) {
        const long length = a->file[0].rows * (long)a->file[0].row;
        if (i > 0 && !npy_open(path, &a->file[i], a->why)) return 0;
        if (fseek(a->file[i].file, a->file[i].begin + i * length, SEEK_SET)) return npy_wrong(a->why, "cannot be read");
        a->files = i + 1;
    }
    return 1;
}

/* Three files of a vector each: paths with commas between. */
static inline int movielens_three(movielens_arrays *a, const char *paths)
{
    int i;
    for (i = 0; i < 3; i++, paths += strcspn(paths, ","), paths += *paths == ',') {
        char path[1024], why[NPY_WHY];
        const size_t length = strcspn(paths, ",");
        if (length >= sizeof path) return npy_wrong(a->why, "a path is too long");
        memcpy(path, paths, length), path[length] = 0;
        if (!npy_open(path, &a->file[i], why))
            return snprintf(a->why, sizeof a->why, "%.80s: %.100s", path, why), 0;
        a->files = i + 1;
        a->column[i] = a->file[i].column[0];
        if (a->file[i].columns != 1 || !a->column[i].kind)
            return snprintf(a->why, sizeof a->why, "%.80s: not a vector of numbers", path), 0;
        if (a->file[i].rows != a->file[0].rows)
            return snprintf(a->why, sizeof a->why, "%.80s: has %ld numbers, the first file %ld", path, a->file[i].rows,
                            a->file[0].rows), 0;
    }
    return *paths ? npy_wrong(a->why, "there must be three files: user, item, rating") : 1;
}

/* Row `at` of what is in the blocks, row `number` of all. */
static inline int movielens_row_add(movielens_arrays *a, movielens *m, long at, long number)
{
    const unsigned char *from[3];
    int64_t id[2];
    double value;
    int i;
    for (i = 0; i < 3; i++) {
        const int file = a->files == 3 ? i : 0;
        from[i] = a->block + (size_t)file * MOVIELENS_BLOCK + (size_t)at * a->file[file].row + a->column[i].offset;
    }
    for (i = 0; i < 2; i++)
        if (!npy_natural(&a->column[i], from[i], &id[i]))
            return snprintf(a->why, sizeof a->why, "row %ld: the %s is not an integer from 0 to 2^%d - 1", number, i ? "item" : "user",
                            a->column[i].kind != 'f' ? 63 : a->column[i].size == 4 ? 24 : 53), 0;
    value = npy_real(&a->column[2], from[2]);
    if (!(value >= 0 && value <= 1000)) return snprintf(a->why, sizeof a->why, "row %ld: the rating is not from 0 to 1000", number), 0;
    return movielens_add(m, id[0], id[1], (float)value) ? 1 : npy_wrong(a->why, "there is not enough memory");
}

/* The rows of piece `rank` of `ranks`; a has its files open. */
static inline int movielens_rows(movielens_arrays *a, int rank, int ranks, movielens *m, movielens_progress progress, void *told)
{
    const long all = a->file[0].rows, begin = (long)((double)all * rank / ranks), rows = (long)((double)all * (rank + 1) / ranks);
    long each = MOVIELENS_BLOCK, at, i;
    int f;
    for (f = 0; f < a->files; f++)
        if (each > (long)(MOVIELENS_BLOCK / a->file[f].row)) each = (long)(MOVIELENS_BLOCK / a->file[f].row);
    if (each < 1) return npy_wrong(a->why, "the rows are too long");
    if (all > INT32_MAX - 1) return npy_wrong(a->why, "there are too many ratings");
    for (f = 0; f < a->files && begin > 0; f++)
        if (fseek(a->file[f].file, begin * (long)a->file[f].row, SEEK_CUR)) return npy_wrong(a->why, "cannot be read");
    a->block = (unsigned char *)malloc((size_t)a->files * MOVIELENS_BLOCK);
    if (!a->block) return npy_wrong(a->why, "there is not enough memory");
    for (at = begin; at < rows; at += each) {
        const long count = rows - at < each ? rows - at : each;
        for (f = 0; f < a->files; f++)
            if (fread(a->block + (size_t)f * MOVIELENS_BLOCK, a->file[f].row, (size_t)count, a->file[f].file) != (size_t)count)
                return npy_wrong(a->why, "cut short, or cannot be read to its end");
        if (at == begin && !movielens_reserve(m, rows - begin)) return npy_wrong(a->why, "there is not enough memory");
        for (i = 0; i < count; i++)
            if (!movielens_row_add(a, m, i, at + i)) return 0;
        if (progress) progress(m->count, (double)m->count / (double)(rows - begin), told);
    }
    return 1;
}

/* What is wrong goes to m->error. */
static inline int movielens_arrays_add(const char *path, int rank, int ranks, movielens *m, movielens_progress progress, void *told)
{
    movielens_arrays *a = (movielens_arrays *)calloc(1, sizeof *a);
    int ok, f;
    if (!a) return movielens_fail(m, 0, "there is not enough memory");
    ok = (strchr(path, ',') ? movielens_three(a, path) : movielens_one(a, path)) && movielens_rows(a, rank, ranks, m, progress, told);
    if (!ok) movielens_fail(m, 0, a->why);
    for (f = 0; f < 3; f++) npy_close(&a->file[f]);
    free(a->block), free(a);
    return ok;
}

/* ---- the whole ---- */

/* Piece `rank` of `ranks` of a file, by movielens_add alone. *lines: of a text file, those that were read. 0: m->error has the
   reason without a line, which *lines is then (0: none); there is nothing to free. */
static inline int movielens_collect(const char *path, int rank, int ranks, movielens *m, movielens_progress progress, void *told,
                                    long *lines)
{
    movielens_text t;
    unsigned char magic[6];
    const char *wrong = NULL;
    int is_array = 0;
    memset(m, 0, sizeof *m), memset(&t, 0, sizeof t);
    *lines = 0;
    t.progress = progress, t.told = told, t.m = m;
    t.file = fopen(path, "rb");
    if (!t.file && !(strchr(path, ',') && strstr(path, ".npy"))) return movielens_fail(m, 0, strerror(errno));
    if (t.file && movielens_size(t.file) >= 6) /* a pipe is text */
        is_array = fread(magic, 1, 6, t.file) == 6 && !memcmp(magic, "\x93NUMPY", 6);
    if (is_array) fclose(t.file);
    if (is_array || !t.file) return movielens_arrays_add(path, rank, ranks, m, progress, told);
    t.block = (char *)malloc(MOVIELENS_BLOCK + 1);
    if (!t.block) wrong = "there is not enough memory";
    if (t.block && movielens_piece(&t, rank, ranks, &wrong) && !movielens_all(&t)) wrong = t.wrong;
    *lines = t.line;
    free(t.block);
    fclose(t.file);
    return wrong ? movielens_fail(m, 0, wrong) : 1;
}

/* 1, or 0 with the reason in m->error and nothing to free. progress may be NULL, and is given `told`. */
static inline int movielens_load(const char *path, movielens *m, movielens_progress progress, void *told)
{
    char why[sizeof m->error];
    long line, twice;
    if (!movielens_collect(path, 0, 1, m, progress, told, &line)) {
        memcpy(why, m->error, sizeof why);
        return movielens_fail(m, line, why);
    }
    if (m->count == 0) return movielens_fail(m, 0, "there is no rating in it");
    if (movielens_order(m, &twice)) return 1;
    return twice < 0 ? 0 : movielens_again(m, twice, movielens_second(path, m, twice));
}

static inline int movielens_read(const char *path, movielens *m) { return movielens_load(path, m, NULL, NULL); }

#endif /* EXAMPLES_MOVIELENS_H */
