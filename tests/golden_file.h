/* golden_file.h - the first of three parts of golden.c: reads a file of golden numbers.

   The format is described in tests/golden/README.md. A file becomes an array of records. A record is a name with a
   text or with up to three dimensions of numbers. Whatever is malformed is reported with its line. The parser accepts
   any bytes: sizes are bounded by the length of the file before memory is taken.

   Every record also remembers what became of it (record_use), so that golden.c can complain about unused ones. */
#ifndef GOLDEN_FILE_H
#define GOLDEN_FILE_H

#include "pu.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DIMS = 3, MAX_NAME = 128, MAX_MESSAGES = 12 };

static int verbose = 0; /* --verbose: every comparison is printed, and no message is left out */

/* What became of a record. No record may end as UNUSED. */
typedef enum { UNUSED, INPUT, CHECKED, NOT_COMPARABLE, USES } record_use;

typedef struct {
    const char *name;
    const char *text; /* a string record; NULL for numbers */
    int line;
    int ndim;
    size_t dim[MAX_DIMS];
    size_t count; /* product of the dimensions */
    double *value;
    record_use use;
} record;

/* Head of an allocation; a file keeps all of its own in a list. */
typedef struct chunk chunk;
struct chunk {
    chunk *next;
};

typedef struct {
    const char *name; /* without directories */
    char *buffer;     /* the file; record names and texts point into it */
    size_t size;
    record *records;
    size_t count, capacity;
    chunk *chunks; /* everything allocated for this file */
    int errors;
} file;

/* Counts an error of this file and prints it, but no more than MAX_MESSAGES per file. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void
fail(file *f, const char *format, ...)
{
    va_list arguments;
    f->errors++;
    if (f->errors > MAX_MESSAGES && !verbose) return;
    printf("%s: ", f->name);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
}

/* Ends the program: something is wrong that has nothing to do with the file. */
static void die(const char *what)
{
    fprintf(stderr, "golden: %s\n", what);
    exit(2);
}

/* ---- memory that lives as long as the file --------------------------------------------------- */

/* count zeroed elements of `size` bytes. */
static void *take(file *f, size_t count, size_t size)
{
    const size_t head = 32; /* keeps what follows aligned for any type */
    chunk *c;
    if (count > (SIZE_MAX - head) / size) die("size overflow");
    c = (chunk *)calloc(1, head + count * size);
    if (!c) die("out of memory");
    c->next = f->chunks;
    f->chunks = c;
    return (char *)c + head;
}

/* count zeros in double. */
static double *take_doubles(file *f, size_t count)
{
    return (double *)take(f, count, sizeof(double));
}

/* count zeros in the precision of the library. */
static pu_real *take_reals(file *f, pu_int count)
{
    return (pu_real *)take(f, (size_t)count, sizeof(pu_real));
}

/* count NaNs: an entry that the library does not write then fails its comparison. */
static pu_real *take_nan(file *f, pu_int count)
{
    pu_real *v = take_reals(f, count);
    pu_int i;
    for (i = 0; i < count; i++) v[i] = (pu_real)NAN;
    return v;
}

/* Frees the file and everything taken for it. */
static void release(file *f)
{
    while (f->chunks) {
        chunk *next = f->chunks->next;
        free(f->chunks);
        f->chunks = next;
    }
    free(f->records);
    free(f->buffer);
}

/* ---- records --------------------------------------------------------------------------------- */

/* The record of this name, or NULL. */
static record *find(const file *f, const char *name)
{
    size_t i;
    for (i = 0; i < f->count; i++) {
        if (strcmp(f->records[i].name, name) == 0) return &f->records[i];
    }
    return NULL;
}

/* Appends an empty record. The pointer is valid until the next one is added. */
static record *add_record(file *f, const char *name, int line)
{
    record *r;
    if (f->count == f->capacity) {
        f->capacity = f->capacity ? 2 * f->capacity : 256;
        f->records = (record *)realloc(f->records, f->capacity * sizeof(record));
        if (!f->records) die("out of memory");
    }
    r = &f->records[f->count++];
    memset(r, 0, sizeof *r);
    r->name = name;
    r->line = line;
    return r;
}

/* ---- parsing --------------------------------------------------------------------------------- */

/* Reads the whole file into f->buffer; 0 after a message. */
static int read_buffer(file *f, const char *path)
{
    size_t capacity = 1 << 16, got;
    FILE *stream = fopen(path, "rb");
    if (!stream) {
        fail(f, "cannot be opened");
        return 0;
    }
    f->buffer = (char *)malloc(capacity);
    if (!f->buffer) die("out of memory");
    do {
        got = fread(f->buffer + f->size, 1, capacity - f->size, stream);
        f->size += got;
        if (f->size == capacity) {
            capacity *= 2;
            f->buffer = (char *)realloc(f->buffer, capacity);
            if (!f->buffer) die("out of memory");
        }
    } while (got > 0);
    if (ferror(stream)) fail(f, "cannot be read");
    fclose(stream);
    return f->errors == 0;
}

/* Cuts off the word at *cursor: NULL at the end of a line, "" where a space is doubled or last. */
static char *next_word(char **cursor)
{
    char *word = *cursor, *end;
    if (!word) return NULL;
    end = strchr(word, ' ');
    *cursor = end ? end + 1 : NULL;
    if (end) *end = '\0';
    return word;
}

/* Is this the name of a record (or the text of one: the same characters are allowed)? */
static int is_name(const char *word)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._";
    size_t length = strlen(word);
    return length > 0 && length < MAX_NAME && strspn(word, allowed) == length;
}

/* A number of up to six digits; word may be NULL. 0 when it is none. */
static int parse_size(const char *word, size_t *value)
{
    size_t length = word ? strlen(word) : 0;
    if (length == 0 || length > 6 || strspn(word, "0123456789") != length) return 0;
    *value = (size_t)strtoul(word, NULL, 10);
    return 1;
}

/* Decimal notation only: strtod alone would also take nan, inf and hexadecimal. */
static int parse_real(const char *word, double *value)
{
    char *end;
    size_t length = strlen(word);
    if (length == 0 || strspn(word, "+-.0123456789eE") != length) return 0;
    *value = strtod(word, &end);
    return *end == '\0' && fabs(*value) <= DBL_MAX;
}

/* The r->count numbers of a record, from the rest of its line. */
static void parse_values(file *f, record *r, char *cursor)
{
    size_t i;
    for (i = 0; i < r->count; i++) {
        char *word = next_word(&cursor);
        if (!word) {
            fail(f, "line %d: %s: %lu values, expected %lu", r->line, r->name, (unsigned long)i,
                 (unsigned long)r->count);
            return;
        }
        if (!parse_real(word, &r->value[i])) {
            fail(f, "line %d: %s: value %lu, \"%.40s\", is not a number", r->line, r->name, (unsigned long)i, word);
            return;
        }
    }
    if (cursor) fail(f, "line %d: %s: more than %lu values", r->line, r->name, (unsigned long)i);
}

/* The dimensions of a record, from *cursor on, and their product; 0 after a message. No record is larger than its
   line is long, so that a wild size cannot exhaust memory. */
static int parse_dims(file *f, record *r, char **cursor)
{
    int i;
    r->count = 1;
    for (i = 0; i < r->ndim; i++) {
        int ok = parse_size(next_word(cursor), &r->dim[i]) && r->dim[i] > 0;
        if (ok) r->count *= r->dim[i];
        if (!ok || r->count > f->size) {
            fail(f, "line %d: %s: bad dimension %d", r->line, r->name, i + 1);
            return 0;
        }
    }
    return 1;
}

/* A record of numbers: the word that counts its dimensions, then the rest of the line. */
static void parse_numbers(file *f, record *r, const char *ndim, char *cursor)
{
    size_t dims;
    if (!parse_size(ndim, &dims) || dims > MAX_DIMS) {
        fail(f, "line %d: %s: bad number of dimensions", r->line, r->name);
        return;
    }
    r->ndim = (int)dims;
    if (!parse_dims(f, r, &cursor)) return;
    r->value = take_doubles(f, r->count);
    parse_values(f, r, cursor);
}

/* One line, one record. */
static void parse_line(file *f, char *line, int number)
{
    char *cursor = line;
    char *name = next_word(&cursor);
    char *kind = next_word(&cursor);
    record *r;
    if (!is_name(name)) {
        fail(f, "line %d: no record name", number);
        return;
    }
    if (find(f, name)) {
        fail(f, "line %d: %s: second record of this name", number, name);
        return;
    }
    r = add_record(f, name, number);
    if (!kind) {
        fail(f, "line %d: %s: nothing follows the name", number, name);
    } else if (strcmp(kind, "s") == 0) {
        r->text = cursor ? cursor : "";
        if (!is_name(r->text)) fail(f, "line %d: %s: bad text", number, name);
    } else {
        parse_numbers(f, r, kind, cursor);
    }
}

/* Reads and parses; f need not be initialised, and must be released in any case. 0 after messages. */
static int read_file(file *f, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *line;
    int number = 1;
    memset(f, 0, sizeof *f);
    f->name = slash ? slash + 1 : path;
    if (!read_buffer(f, path)) return 0;
    if (f->size == 0 || f->buffer[f->size - 1] != '\n' || memchr(f->buffer, 0, f->size)) {
        fail(f, "not a text file that ends with a newline");
        return 0;
    }
    for (line = f->buffer; line < f->buffer + f->size; number++) {
        char *end = (char *)memchr(line, '\n', (size_t)(f->buffer + f->size - line));
        *end = '\0';
        parse_line(f, line, number);
        line = end + 1;
    }
    return f->errors == 0;
}

#endif /* GOLDEN_FILE_H */
