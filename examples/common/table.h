/* table.h - columns of a large table: numbers, and names that become level numbers. Read in blocks, one pass, strict.

       table_column column[] = {table_want("rating", TABLE_NUMBER), table_want("user", TABLE_LEVEL), ..};
       table t;
       char why[CSV_WHY];
       table_open(&t, 2, column);
       if (!table_read(&t, "ratings.csv", why)) puts(why);          "line 17, column 3: not a number: abc"
       .. column[0].number[row], column[1].level[row], table_name(&column[1].names, level) ..
       table_free(&t);

   Files are as csv.h has them (quotes, comments, byte order mark, blank lines at the end), with , ; tab or :: between cells: found
   from the first line unless t.separator says which. Columns are wanted by name or by number from 1; where all are numbers
   the first line is data if its response is a number or missing, else a header. Of levels several columns may be named with
   a colon between (a:b): one level for each combination. Levels are numbered in the order in which they come, by the text of
   their cells: 1 and 1.0 differ. The separator is one of these four strings.

   Column 0 is the response. A row in which it is missing (empty, NA, NaN) is left out and counted, and so is one in which
   another wanted cell is. A second table_read appends: t.predict = 1 then keeps rows without a response (NaN), also where the
   file has no such column, and refuses other gaps. Memory: what the columns take, the names, and one block. Include after csv.h. */
#ifndef EXAMPLES_TABLE_H
#define EXAMPLES_TABLE_H

#include <stdint.h>

enum { TABLE_NUMBER, TABLE_LEVEL };
enum { TABLE_PARTS = 8, TABLE_SPEC = 200, TABLE_BLOCK = 1 << 20 }; /* columns of a combination; bytes of its name, of a line */
enum { TABLE_CELLS = 16384 };                                     /* of a line, for table_scanner.visit */

enum { TABLE_BETWEEN = 31 }; /* byte between the parts of a combination's name, in no cell of one; print a colon for it */

/* A place of the hash table. */
typedef struct {
    uint32_t hash;
    int32_t level; /* -1: free */
} table_slot;

/* Names and their numbers: texts one behind the other, and a hash table of places. */
typedef struct {
    int32_t count;
    char *text;
    size_t used, room; /* bytes of text */
    size_t *start;     /* names room: where each begins; it ends with a zero */
    size_t names_room;
    table_slot *slot;
    size_t slots; /* a power of 2, at most three quarters taken */
} table_names;

typedef struct {
    const char *wanted; /* name or number; of levels several with a colon between */
    int kind;
    char name[TABLE_SPEC];   /* set: in the words of the header, where there is one */
    int place[TABLE_PARTS];  /* set: columns of the file, from 0; -1: not there */
    int parts;               /* set */
    pu_real *number;         /* set: rows */
    int32_t *level;          /* set: rows */
    table_names names;       /* set: of levels */
} table_column;

typedef struct {
    table_column *column;
    int columns;
    const char *separator; /* yours: NULL = found */
    int header;            /* yours: 1 there is one, -1 there is none, 0 found */
    int predict;           /* yours: see above */
    size_t block;          /* yours: bytes; 0 = TABLE_BLOCK */
    pu_int rows, room;
    long comments;            /* lines that begin with # */
    long no_response, no_cell; /* rows left out */
    long gap_line;             /* the first row that lacks another cell */
    int gap_column;
} table;

/* Where the bytes come from: a file, or memory. */
typedef struct {
    FILE *file;
    const char *text;
    size_t left;
} table_source;

typedef struct {
    char *begin, *end;
} table_cell;

/* What is known while a file is being read. */
typedef struct table_scanner {
    table *t;
    char separator[3];
    size_t separator_length;
    int cells; /* of every line; 0 before the first */
    long line, blank;
    table_cell cell[TABLE_CELLS];
    char *why;
    /* Instead of t's columns (frame.h): called for every line as it is, and for one that is neither a comment nor blank. 0: why. */
    void (*raw)(struct table_scanner *s, const char *p, const char *end);
    int (*visit)(struct table_scanner *s, char *p, char *end);
    void *user;
} table_scanner;

static inline table_column table_want(const char *wanted, int kind)
{
    table_column c;
    memset(&c, 0, sizeof c);
    c.wanted = wanted, c.kind = kind;
    return c;
}

static inline void table_open(table *t, int columns, table_column *column)
{
    memset(t, 0, sizeof *t);
    t->columns = columns, t->column = column;
}

static inline void table_free(table *t)
{
    int i;
    for (i = 0; i < t->columns; i++) {
        table_column *c = t->column + i;
        free(c->number), free(c->level), free(c->names.text), free(c->names.start), free(c->names.slot);
        *c = table_want(c->wanted, c->kind);
    }
    t->rows = t->room = 0;
}

/* ---- names ---- */

static inline const char *table_name(const table_names *n, int32_t level) { return n->text + n->start[level]; }

/* FNV-1a; its upper bits are mixed into the lower ones, which choose the slot. */
static inline uint32_t table_hash(size_t length, const char *text)
{
    uint64_t h = 14695981039346656037u;
    size_t i;
    for (i = 0; i < length; i++) h = (h ^ (unsigned char)text[i]) * 1099511628211u;
    h ^= h >> 32;
    return (uint32_t)(h * 2654435769u >> 7);
}

/* A larger array in place of a full one; NULL: no memory, and the old one stays. */
static inline void *table_grow(void *array, size_t count, size_t size)
{
    return count <= (size_t)-1 / size ? realloc(array, count * size) : NULL;
}

/* Twice the slots; names find their places again by the hashes that are kept. */
static inline int table_more_slots(table_names *n)
{
    const size_t slots = n->slots ? 2 * n->slots : 64;
    table_slot *fresh = (table_slot *)table_grow(NULL, slots, sizeof *fresh);
    size_t i, at;
    if (!fresh) return 0;
    for (i = 0; i < slots; i++) fresh[i].hash = 0, fresh[i].level = -1;
    for (i = 0; i < n->slots; i++) {
        if (n->slot[i].level < 0) continue;
        for (at = n->slot[i].hash & (slots - 1); fresh[at].level >= 0; at = (at + 1) & (slots - 1)) continue;
        fresh[at] = n->slot[i];
    }
    free(n->slot);
    n->slot = fresh, n->slots = slots;
    return 1;
}

/* The number of this name, a new one where it has none; -1: no memory (or 2^31 - 1 names). */
static inline int32_t table_level(table_names *n, size_t length, const char *text)
{
    const uint32_t hash = table_hash(length, text);
    size_t at;
    if (4 * ((size_t)n->count + 1) > 3 * n->slots && !table_more_slots(n)) return -1;
    for (at = hash & (n->slots - 1); n->slot[at].level >= 0; at = (at + 1) & (n->slots - 1)) {
        const int32_t level = n->slot[at].level;
        const char *name = n->text + n->start[level];
        if (n->slot[at].hash == hash && !strncmp(name, text, length) && !name[length]) return level;
    }
    if (n->count == INT32_MAX) return -1;
    while (n->room - n->used < length + 1) {
        const size_t room = n->room ? 2 * n->room : 4096;
        char *more = (char *)table_grow(n->text, room, 1);
        if (!more) return -1;
        n->text = more, n->room = room;
    }
    if ((size_t)n->count == n->names_room) {
        const size_t room = n->names_room ? 2 * n->names_room : 256;
        size_t *more = (size_t *)table_grow(n->start, room, sizeof *n->start);
        if (!more) return -1;
        n->start = more, n->names_room = room;
    }
    memcpy(n->text + n->used, text, length);
    n->text[n->used + length] = 0;
    n->start[n->count] = n->used;
    n->used += length + 1;
    n->slot[at].hash = hash, n->slot[at].level = n->count;
    return n->count++;
}

static const table_names *table_sorted; /* of table_name_order */

/* Numbers by their values and before other names, which go by their bytes. */
static inline int table_name_order(const void *a, const void *b)
{
    const char *p = table_name(table_sorted, *(const int32_t *)a), *q = table_name(table_sorted, *(const int32_t *)b);
    char *p_end, *q_end;
    const double x = strtod(p, &p_end), y = strtod(q, &q_end);
    if (!*p_end != !*q_end) return *p_end ? 1 : -1;
    if (!*p_end && x < y) return -1;
    if (!*p_end && x > y) return 1;
    return strcmp(p, q);
}

/* The numbers of all names, in this order. */
static inline void table_order(const table_names *n, int32_t *order)
{
    int32_t k;
    for (k = 0; k < n->count; k++) order[k] = k;
    table_sorted = n;
    qsort(order, (size_t)n->count, sizeof *order, table_name_order);
}

/* ---- cells ---- */

static inline int table_blank(char c) { return c == ' ' || c == '\t'; }

/* A quoted cell that begins at p: what is between the quotes, written over it with double quotes made single ones. Returns where its
   separator, or the end of the line, must be; NULL: quotes are not in order. */
static inline char *table_quoted(char *p, char *end, table_cell *cell)
{
    char *to = ++p;
    cell->begin = p;
    for (;; p++) {
        if (p == end) return NULL;
        if (*p == '"') {
            if (p + 1 == end || p[1] != '"') break;
            p++;
        }
        *to++ = *p;
    }
    cell->end = to;
    return p + 1;
}

/* Cuts a line into s->cell; how many there are, or -(column) where quotes are not in order; one more than most: too many. */
static inline int table_cut(table_scanner *s, char *p, char *end, int most)
{
    const char first = s->separator[0];
    const size_t width = s->separator_length;
    int c = 0;
    for (;; c++) {
        table_cell *cell;
        if (c == most) return most + 1;
        cell = s->cell + c;
        while (p < end && table_blank(*p) && *p != first) p++;
        if (p < end && *p == '"') {
            p = table_quoted(p, end, cell);
            if (!p) return -(c + 1);
            while (p < end && table_blank(*p) && *p != first) p++;
            if (p < end && (*p != first || (width == 2 && (p + 1 == end || p[1] != first)))) return -(c + 1);
        } else {
            cell->begin = p;
            for (; p < end && (*p != first || (width == 2 && (p + 1 == end || p[1] != first))); p++)
                if (*p == '"') return -(c + 1);
            cell->end = p;
            while (cell->end > cell->begin && table_blank(cell->end[-1])) cell->end--;
        }
        if (p == end) return c + 1;
        p += width;
    }
}

static inline int table_missing(table_cell c)
{
    const size_t n = (size_t)(c.end - c.begin);
    if (n == 2) return c.begin[0] == 'N' && c.begin[1] == 'A';
    return n == 0 || (n == 3 && (!memcmp(c.begin, "NaN", 3) || !memcmp(c.begin, "nan", 3) || !memcmp(c.begin, "NAN", 3)));
}

/* 1: *x is the number, NaN for a missing one. Up to 15 digits and powers of ten up to 22 are numbers of a double, so that one
   multiplication or division rounds as it should; csv_number has the rest. */
static inline int table_number(table_cell c, pu_real *x)
{
    static const double ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    static const csv_format plain = {',', 1, NULL, 0, 0};
    const char *p = c.begin;
    int64_t digits = 0;
    int count = 0, behind = 0, point = 0, negative = 0;
    char text[128];
    *x = (pu_real)NAN;
    if (table_missing(c)) return 1;
    if (*p == '-' || *p == '+') negative = *p++ == '-';
    for (; p < c.end && ((*p >= '0' && *p <= '9') || (*p == '.' && !point)); p++) {
        if (*p == '.') {
            point = 1;
            continue;
        }
        if (++count > 15) break;
        digits = 10 * digits + (*p - '0');
        behind += point;
    }
    if (p == c.end && count > 0 && behind < (int)(sizeof ten / sizeof *ten)) {
        const double value = (double)digits / ten[behind];
        *x = (pu_real)(negative ? -value : value);
        return 1;
    }
    if ((size_t)(c.end - c.begin) >= sizeof text) return 0;
    memcpy(text, c.begin, (size_t)(c.end - c.begin));
    text[c.end - c.begin] = 0;
    return csv_number(&plain, text, x);
}

/* ---- the first line ---- */

/* A copy of a cell that ends with a zero, cut at size - 1 bytes. */
static inline const char *table_text(table_cell c, char *text, size_t size)
{
    const size_t n = (size_t)(c.end - c.begin) < size - 1 ? (size_t)(c.end - c.begin) : size - 1;
    memcpy(text, c.begin, n);
    text[n] = 0;
    return text;
}

/* The number that a word is, from 1; 0: it is none. */
static inline long table_digits(const char *word, size_t length)
{
    size_t i;
    long x = 0;
    for (i = 0; i < length && i < 7; i++) {
        if (word[i] < '0' || word[i] > '9') return 0;
        x = 10 * x + (word[i] - '0');
    }
    return i == length && length > 0 ? x : 0;
}

/* Are all columns wanted by number? */
static inline int table_numbered(const table *t)
{
    int i;
    for (i = 0; i < t->columns; i++) {
        const char *at = t->column[i].wanted;
        for (;;) {
            const size_t n = strcspn(at, ":");
            if (!table_digits(at, n)) return 0;
            if (!at[n]) break;
            at += n + 1;
        }
    }
    return 1;
}

/* The separator that occurs outside of quotes; of several the first of tab, ::, semicolon, comma. */
static inline void table_find_separator(table_scanner *s, const char *p, const char *end)
{
    static const char *const kinds[] = {"\t", "::", ";", ","};
    int found[4] = {0, 0, 0, 0}, quoted = 0, i;
    for (; p < end; p++) {
        if (*p == '"') quoted = !quoted;
        if (quoted) continue;
        found[0] |= *p == '\t', found[2] |= *p == ';', found[3] |= *p == ',';
        found[1] |= *p == ':' && p + 1 < end && p[1] == ':';
    }
    for (i = 0; i < 3 && !found[i]; i++) continue;
    memcpy(s->separator, kinds[i], strlen(kinds[i]) + 1);
}

/* "there is no column x; there is a, b, .." */
static inline int table_no_column(table_scanner *s, const char *word, size_t length, int header)
{
    char name[CSV_NAME];
    int c, n = snprintf(s->why, CSV_WHY, "there is no column %.*s; there ", (int)(length < 60 ? length : 60), word);
    if (!header) {
        n += snprintf(s->why + n, CSV_WHY - (size_t)n, "are %d, and the first line is data", s->cells);
        return 0;
    }
    n += snprintf(s->why + n, CSV_WHY - (size_t)n, "is ");
    for (c = 0; c < s->cells && n < CSV_WHY - 80; c++)
        n += snprintf(s->why + n, CSV_WHY - (size_t)n, "%s%.60s", c ? ", " : "", table_text(s->cell[c], name, sizeof name));
    if (c < s->cells) snprintf(s->why + n, CSV_WHY - (size_t)n, ", ..");
    return 0;
}

/* The column of the file that a word means: by name where there is a header that has it (numbered: not), else by number. -1: none. */
static inline int table_find(table_scanner *s, const char *word, size_t length, int header, int numbered, int *twice)
{
    const long number = table_digits(word, length);
    int c, found = -1;
    *twice = 0;
    for (c = 0; c < s->cells && header && !numbered; c++)
        if ((size_t)(s->cell[c].end - s->cell[c].begin) == length && !memcmp(s->cell[c].begin, word, length)) {
            *twice |= found >= 0;
            found = c;
        }
    if (found < 0 && number >= 1 && number <= s->cells) found = (int)number - 1;
    return found;
}

/* Places and names of the columns that are wanted; the first line is in s->cell. */
static inline int table_choose(table_scanner *s, int header, int numbered)
{
    table *t = s->t;
    int i, twice;
    for (i = 0; i < t->columns; i++) {
        table_column *c = t->column + i;
        const char *at = c->wanted;
        size_t used = 0;
        c->parts = 0;
        for (;;) {
            const size_t n = c->kind == TABLE_LEVEL ? strcspn(at, ":") : strlen(at);
            char word[CSV_NAME];
            const int found = table_find(s, at, n, header, numbered, &twice);
            if (twice) return snprintf(s->why, CSV_WHY, "two columns are called %.*s", (int)(n < 60 ? n : 60), at), 0;
            if (found < 0 && !(t->predict && i == 0)) return table_no_column(s, at, n, header);
            if (c->parts == TABLE_PARTS) return snprintf(s->why, CSV_WHY, "%.100s: too many columns in one group", c->wanted), 0;
            c->place[c->parts++] = found;
            snprintf(word, sizeof word, "%.*s", (int)n, at);
            if (header && found >= 0) table_text(s->cell[found], word, sizeof word);
            if (!t->predict) used += (size_t)snprintf(c->name + used, sizeof c->name - used, "%s%s", used ? ":" : "", word);
            if (used >= sizeof c->name) return snprintf(s->why, CSV_WHY, "%.100s: the name is too long", c->wanted), 0;
            if (!at[n]) break;
            at += n + 1;
        }
    }
    return 1;
}

/* ---- rows ---- */

/* Room for one more row in all columns. */
static inline int table_room(table *t)
{
    const pu_int room = t->room ? 2 * t->room : 4096;
    int i;
    if (t->rows < t->room) return 1;
    for (i = 0; i < t->columns; i++) {
        table_column *c = t->column + i;
        const int number = c->kind == TABLE_NUMBER;
        void *more = table_grow(number ? (void *)c->number : (void *)c->level, (size_t)room, number ? sizeof(pu_real) : sizeof(int32_t));
        if (!more) return 0;
        if (number) c->number = (pu_real *)more;
        else c->level = (int32_t *)more;
    }
    t->room = room;
    return 1;
}

/* The level of a row: of one cell, or of several. -1: no memory; -2: too long, or holding the byte between */
static inline int32_t table_combine(const table_scanner *s, table_column *c)
{
    char text[4096];
    size_t used = 0;
    int k;
    table_cell cell = s->cell[c->place[0]];
    if (c->parts == 1) return table_level(&c->names, (size_t)(cell.end - cell.begin), cell.begin);
    for (k = 0; k < c->parts; k++) {
        size_t n;
        cell = s->cell[c->place[k]];
        n = (size_t)(cell.end - cell.begin);
        if (used + n + 1 > sizeof text || memchr(cell.begin, TABLE_BETWEEN, n)) return -2;
        if (k) text[used++] = TABLE_BETWEEN;
        memcpy(text + used, cell.begin, n);
        used += n;
    }
    return table_level(&c->names, used, text);
}

/* Cells of a row into the columns. A row with a gap does not count, and brings no levels. */
static inline int table_row(table_scanner *s)
{
    table *t = s->t;
    char text[64];
    int i, k, no_response = 0, gap = -1;
    if (!table_room(t)) return snprintf(s->why, CSV_WHY, "there is not enough memory"), 0;
    for (i = 0; i < t->columns; i++) {
        table_column *c = t->column + i;
        for (k = 0; k < c->parts; k++) {
            const int place = c->place[k], missing = place < 0 || table_missing(s->cell[place]);
            if (missing && i == 0) no_response = 1;
            else if (missing && gap < 0) gap = place;
            if (c->kind == TABLE_LEVEL) continue;
            c->number[t->rows] = (pu_real)NAN;
            if (!missing && !table_number(s->cell[place], c->number + t->rows))
                return csv_wrong(s->why, s->line, place + 1, "not a number", table_text(s->cell[place], text, sizeof text),
                                 i ? "; names are for groups, or factor(..)" : "");
        }
    }
    if (t->predict && gap >= 0)
        return csv_wrong(s->why, s->line, gap + 1, "missing, but a prediction needs it", NULL, "");
    if (gap >= 0 && t->no_cell++ == 0) t->gap_line = s->line, t->gap_column = gap + 1;
    else if (gap < 0 && no_response && !t->predict) t->no_response++;
    if (gap >= 0 || (no_response && !t->predict)) return 1;
    for (i = 0; i < t->columns; i++) {
        table_column *c = t->column + i;
        if (c->kind != TABLE_LEVEL) continue;
        c->level[t->rows] = table_combine(s, c);
        if (c->level[t->rows] == -2) return csv_wrong(s->why, s->line, 0, "the names of this combination are too long, or no text", NULL, "");
        if (c->level[t->rows] < 0) return snprintf(s->why, CSV_WHY, "there is not enough memory"), 0;
    }
    t->rows++;
    return 1;
}

/* The first line that is no comment: separator, header, places. It is data where *row is set. */
static inline int table_first(table_scanner *s, char *p, char *end, int *row)
{
    const table *t = s->t;
    const int numbered = table_numbered(t);
    pu_real unused;
    int cells, header = t->header, place;
    if (t->separator) memcpy(s->separator, t->separator, strlen(t->separator) + 1);
    else table_find_separator(s, p, end);
    s->separator_length = strlen(s->separator);
    cells = table_cut(s, p, end, CSV_COLUMNS);
    if (cells < 0) return csv_wrong(s->why, s->line, -cells, "quotes are not in order", NULL, "");
    if (cells > CSV_COLUMNS) return csv_wrong(s->why, s->line, 0, "too many columns", NULL, "");
    s->cells = cells;
    place = (int)table_digits(t->column[0].wanted, strlen(t->column[0].wanted)) - 1;
    if (!header && numbered) header = place < cells && place >= 0 && !table_number(s->cell[place], &unused) ? 1 : -1;
    else if (!header) header = 1;
    *row = header < 0;
    return table_choose(s, header > 0, numbered);
}

/* One line, without its end. */
static inline int table_line(table_scanner *s, char *p, char *end)
{
    int cells, row = 1;
    s->line++;
    if (s->raw) s->raw(s, p, end);
    if (s->line == 1 && end - p >= 3 && !memcmp(p, "\xef\xbb\xbf", 3)) p += 3;
    if (p < end && end[-1] == '\r') end--;
    if (p < end && memchr(p, 0, (size_t)(end - p))) return csv_wrong(s->why, s->line, 0, "a zero byte: this is not a text file", NULL, "");
    if (p < end && *p == '#') {
        s->t->comments++;
        return 1;
    }
    if (p == end) {
        if (!s->blank) s->blank = s->line;
        return 1;
    }
    if (s->blank && s->cells) return csv_wrong(s->why, s->blank, 0, "a blank line between rows", NULL, "");
    s->blank = 0;
    if (s->visit) return s->visit(s, p, end);
    if (!s->cells) {
        if (!table_first(s, p, end, &row)) return 0;
        return row ? table_row(s) : 1;
    }
    cells = table_cut(s, p, end, s->cells);
    if (cells < 0) return csv_wrong(s->why, s->line, -cells, "quotes are not in order", NULL, "");
    if (cells != s->cells)
        return csv_wrong(s->why, s->line, 0,
                         cells > s->cells ? "more cells than in the first line" : "fewer cells than in the first line", NULL, "");
    return table_row(s);
}

/* ---- the whole ---- */

static inline size_t table_more(table_source *from, char *to, size_t room)
{
    const size_t n = from->left < room ? from->left : room;
    if (from->file) return fread(to, 1, room, from->file);
    if (n) memcpy(to, from->text, n), from->text += n, from->left -= n;
    return n;
}

/* All lines of a source; `buffer` has `size` bytes, which a line must fit in. */
static inline int table_lines(table_scanner *s, table_source *from, char *buffer, size_t size)
{
    size_t have = 0, got = 1;
    while (got > 0) {
        char *at = buffer, *end;
        got = table_more(from, buffer + have, size - have);
        have += got;
        while ((end = (char *)memchr(at, '\n', have - (size_t)(at - buffer))) != NULL) {
            if (!table_line(s, at, end)) return 0;
            at = end + 1;
        }
        have -= (size_t)(at - buffer);
        if (have == size) return csv_wrong(s->why, s->line + 1, 0, "the line is too long", NULL, "");
        memmove(buffer, at, have);
    }
    if (have > 0 && !table_line(s, buffer, buffer + have)) return 0;
    if (s->cells == 0) return snprintf(s->why, CSV_WHY, "there are no rows"), 0;
    return 1;
}

/* From a source. 1, or 0 and the reason in why (CSV_WHY bytes); the table is then as far as it came, to be freed. */
static inline int table_parse(table *t, table_source *from, char *why)
{
    const size_t size = t->block ? t->block : (size_t)TABLE_BLOCK;
    table_scanner *s = (table_scanner *)calloc(1, sizeof *s);
    char *buffer = (char *)malloc(size);
    const pu_int before = t->rows;
    int ok = 0;
    snprintf(why, CSV_WHY, "there is not enough memory");
    if (s && buffer) {
        s->t = t, s->why = why;
        ok = table_lines(s, from, buffer, size);
    }
    if (ok && t->rows == before)
        ok = snprintf(why, CSV_WHY, t->no_response + t->no_cell ? "every row lacks a wanted cell" : "there are no rows below the names of the columns") < 0;
    free(s), free(buffer);
    return ok;
}

/* From a file, likewise. */
static inline int table_read(table *t, const char *path, char *why)
{
    table_source from = {NULL, NULL, 0};
    int ok;
    from.file = fopen(path, "rb");
    if (!from.file) return snprintf(why, CSV_WHY, "cannot be read: %s", strerror(errno)), 0;
    ok = table_parse(t, &from, why);
    if (ferror(from.file)) ok = snprintf(why, CSV_WHY, "cannot be read to its end") < 0;
    fclose(from.file);
    return ok;
}

/* ---- writing ---- */

/* A name as a cell of CSV, always in quotes. */
static inline void table_write_name(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"') fputc('"', file);
        fputc(*text, file);
    }
    fputc('"', file);
}

/* A comma and a number, which is not there where it is none. */
static inline void table_write_number(FILE *file, double x)
{
    if (x == x) fprintf(file, ",%.15g", x);
    else fprintf(file, ",");
}

#endif /* EXAMPLES_TABLE_H */
