/* movielens.h - reads files of ratings in the three formats of MovieLens.

       1::1193::5::978300760            ratings.dat: two colons between fields
       196 <tab> 242 <tab> 3 <tab> ..   u.data: tabs
       userId,movieId,rating,timestamp  ratings.csv: commas, and a header that names the columns in this order
       1,1,4.0,964982703

   The separator of the first line holds for all; a file has 3 columns or, with time stamps, 4. Numbers of users and items
   are integers from 0 to 2^31 - 1 in any order and with gaps, ratings are plain decimals from 0 to 1000. Anything else is
   refused with the number of its line: a wrong count of fields, signs, spaces, empty or endless lines, zero bytes, a second
   rating of the same item by the same user. Lines may end in CR LF; the last one need not end at all.

       movielens m;
       if (!movielens_read(path, &m)) fail(1, path, m.error);
       ..  m.rating[0 .. m.count-1], by user, then by item
       movielens_free(&m);

   Memory: 16 bytes a rating, and twice that while reading. Sorting is the largest part of the time. */
#ifndef EXAMPLES_MOVIELENS_H
#define EXAMPLES_MOVIELENS_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int32_t user, item; /* places in user_id and item_id (while reading: the numbers in the file) */
    float value;
    int32_t line;
} movielens_rating;

typedef struct {
    long count;
    int32_t users, items;       /* that have a rating */
    movielens_rating *rating;   /* count, by user, then by item */
    int32_t *user_id, *item_id; /* their numbers in the file, increasing */
    double low, high;           /* smallest and largest rating */
    char error[200];            /* when movielens_read returns 0 */
} movielens;

static inline void movielens_free(movielens *m)
{
    free(m->rating), free(m->user_id), free(m->item_id);
    m->rating = NULL, m->user_id = m->item_id = NULL, m->count = 0, m->users = m->items = 0;
}

static inline int movielens_fail(movielens *m, long line, const char *why)
{
    if (line > 0)
        snprintf(m->error, sizeof m->error, "line %ld: %s", line, why);
    else
        snprintf(m->error, sizeof m->error, "%s", why);
    movielens_free(m);
    return 0;
}

/* A decimal from 0 to `most` of at most 15 digits; where it ends, or NULL. */
static inline const char *movielens_number(const char *at, int whole, double most, double *x)
{
    double digits = 0, scale = 1;
    int count = 0, point = 0;
    for (; (*at >= '0' && *at <= '9') || (*at == '.' && !whole && !point); at++) {
        if (*at == '.')
            point = 1;
        else {
            digits = 10 * digits + (*at - '0'), count++;
            if (point) scale *= 10;
        }
    }
    *x = digits / scale; /* both exact: the nearest number */
    return count > 0 && count <= 15 && *x <= most ? at : NULL;
}

/* Begins the text with this word, in any case? */
static inline int movielens_word(const char *text, const char *word)
{
    for (; *word; text++, word++)
        if ((*text | 32) != *word) return 0;
    return 1;
}

static inline const char *movielens_next(const char *at, const char *separator)
{
    const char *next = strstr(at, separator);
    return next ? next + strlen(separator) : "";
}

/* One line of fields into r; what is wrong with it, or NULL. */
static inline const char *movielens_line(const char *at, const char *separator, int fields, movielens_rating *r)
{
    static const char *const wrong[] = {"the user is not an integer from 0 to 2147483647",
                                        "the item is not an integer from 0 to 2147483647",
                                        "the rating is not a number from 0 to 1000", "the time stamp is not an integer"};
    static const double most[] = {INT32_MAX, INT32_MAX, 1000, 1e15};
    double x[4];
    int i;
    for (i = 0; i < fields; i++) {
        at = movielens_number(at, i != 2, most[i], &x[i]);
        if (!at || (*at && strncmp(at, separator, strlen(separator)) != 0)) return wrong[i];
        if ((i + 1 < fields) != (*at != 0)) return "another count of fields than in the first line";
        if (*at) at += strlen(separator);
    }
    r->user = (int32_t)x[0], r->item = (int32_t)x[1], r->value = (float)x[2];
    return NULL;
}

/* Separator and count of fields from the first line (a header where the separator is a comma); what is wrong, or NULL. */
static inline const char *movielens_format(const char *line, const char **separator, int *fields)
{
    const char *at = line;
    *separator = strstr(line, "::") ? "::" : strchr(line, '\t') ? "\t" : strchr(line, ',') ? "," : NULL;
    if (!*separator) return "the fields are not separated by ::, tabs or commas";
    for (*fields = 1; (at = strstr(at, *separator)) != NULL; at += strlen(*separator)) ++*fields;
    if (*fields != 3 && *fields != 4) return "there must be 3 or 4 fields: user, item, rating, time stamp";
    if (**separator != ',') return NULL;
    at = movielens_next(line, ",");
    if (!movielens_word(line, "user") || (!movielens_word(at, "movie") && !movielens_word(at, "item")) ||
        !movielens_word(movielens_next(at, ","), "rating"))
        return "with commas the first line must be a header: user.., movie.. or item.., rating..";
    return NULL;
}

static inline int movielens_order(const void *a, const void *b)
{
    const movielens_rating *p = (const movielens_rating *)a, *q = (const movielens_rating *)b;
    if (p->user != q->user) return p->user < q->user ? -1 : 1;
    if (p->item != q->item) return p->item < q->item ? -1 : 1;
    return p->line < q->line ? -1 : p->line > q->line;
}

static inline int movielens_int_order(const void *a, const void *b)
{
    const int32_t p = *(const int32_t *)a, q = *(const int32_t *)b;
    return p < q ? -1 : p > q;
}

/* Drops repetitions from a sorted array. */
static inline int32_t movielens_unique(long n, int32_t *x)
{
    long i;
    int32_t kept = 0;
    for (i = 0; i < n; i++)
        if (kept == 0 || x[i] != x[kept - 1]) x[kept++] = x[i];
    return kept;
}

/* Where in a sorted array a number is, or -1. */
static inline int32_t movielens_place(int32_t number, int32_t n, const int32_t *x)
{
    const int32_t *at = (const int32_t *)bsearch(&number, x, (size_t)n, sizeof *x, movielens_int_order);
    return at ? (int32_t)(at - x) : -1;
}

/* Sorts, refuses repetitions, turns numbers of the file into places. */
static inline int movielens_index(movielens *m)
{
    const size_t bytes = (size_t)m->count * sizeof(int32_t);
    long i;
    qsort(m->rating, (size_t)m->count, sizeof *m->rating, movielens_order);
    m->user_id = (int32_t *)malloc(bytes), m->item_id = (int32_t *)malloc(bytes);
    if (!m->user_id || !m->item_id) return movielens_fail(m, 0, "there is not enough memory");
    m->low = m->high = (double)m->rating[0].value;
    for (i = 0; i < m->count; i++) {
        const movielens_rating *r = &m->rating[i];
        if (i > 0 && r->user == r[-1].user && r->item == r[-1].item)
            return movielens_fail(m, r->line, "a second rating of this item by this user");
        m->user_id[i] = r->user, m->item_id[i] = r->item;
        if ((double)r->value < m->low) m->low = (double)r->value;
        if ((double)r->value > m->high) m->high = (double)r->value;
    }
    qsort(m->item_id, (size_t)m->count, sizeof(int32_t), movielens_int_order);
    m->users = movielens_unique(m->count, m->user_id), m->items = movielens_unique(m->count, m->item_id);
    for (i = 0; i < m->count; i++) {
        movielens_rating *r = &m->rating[i];
        r->user = movielens_place(r->user, m->users, m->user_id), r->item = movielens_place(r->item, m->items, m->item_id);
    }
    return 1;
}

/* The next line without its end; 0: there is none. *wrong: it does not fit, or is not text. */
static inline int movielens_text(FILE *file, size_t room, char *line, const char **wrong)
{
    size_t length = 0;
    int c = getc(file);
    if (c == EOF) return 0;
    for (; c != EOF && c != '\n'; c = getc(file)) {
        if (c == 0)
            *wrong = "a zero byte: this is not a text file";
        else if (length + 1 == room)
            *wrong = "the line is too long";
        if (*wrong) return 1;
        line[length++] = (char)c;
    }
    if (length > 0 && line[length - 1] == '\r') length--;
    line[length] = 0;
    return 1;
}

/* 1, or 0 with the reason in m->error and nothing to free. */
static inline int movielens_read(const char *path, movielens *m)
{
    FILE *file = fopen(path, "r");
    const char *separator = NULL, *wrong = NULL;
    char line[200];
    long room = 0, number = 0;
    int fields = 0;
    memset(m, 0, sizeof *m);
    if (!file) return movielens_fail(m, 0, strerror(errno));
    while (!wrong && movielens_text(file, sizeof line, line, &wrong)) {
        if (++number == INT32_MAX) wrong = "there are too many lines";
        if (!wrong && number == 1) {
            wrong = movielens_format(line, &separator, &fields);
            if (!wrong && *separator == ',') continue;
        }
        if (!wrong && m->count == room) {
            movielens_rating *more;
            room = room ? 2 * room : 4096;
            more = (movielens_rating *)realloc(m->rating, (size_t)room * sizeof *more);
            if (more)
                m->rating = more;
            else
                wrong = "there is not enough memory";
        }
        if (!wrong) wrong = movielens_line(line, separator, fields, &m->rating[m->count]);
        if (!wrong) m->rating[m->count++].line = (int32_t)number;
    }
    if (!wrong && ferror(file)) wrong = "cannot be read to its end";
    fclose(file);
    if (wrong) return movielens_fail(m, number, wrong);
    if (m->count == 0) return movielens_fail(m, 0, "there is no rating in it");
    return movielens_index(m);
}

#endif /* EXAMPLES_MOVIELENS_H */
