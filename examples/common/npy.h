/* npy.h - columns of numbers from files that numpy.save has written, row by row, and files that numpy.load reads.

       npy_file f;
       char why[NPY_WHY];
       if (!npy_open("ratings.npy", &f, why)) puts(why);    "not a file of numpy.save"
       .. f.rows, f.columns, f.column[c].name ("" where there is none) ..
       npy_close(&f);
       if (!npy_write(file, 1, "<f4", rows, columns, value)) ..    of the caller's open file, value: rows x columns doubles

   An array of one or two dimensions, rows of C or columns of Fortran, or one of records (a structured array, DataFrame.to_records);
   integers and floating-point numbers of 1 to 8 bytes, of either byte order. Columns of records that are of another kind have no
   numbers (kind 0). All else is refused: three dimensions, other types, a header that is not one, a file that is shorter or longer
   than its header says. */
#ifndef EXAMPLES_NPY_H
#define EXAMPLES_NPY_H

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NPY_COLUMNS = 256, NPY_NAME = 40, NPY_HEADER = 65536, NPY_WHY = 200 }; /* columns of records, bytes of a name, a header, a message */
enum { NPY_WIDE = 1 << 20 };                                                  /* columns of a plain array: see npy_of */

typedef struct {
    char name[NPY_NAME];
    char kind;           /* i, u, f: integers with and without a sign, floating point; 0 = no number */
    int swapped;         /* the bytes are in the other order than here */
    size_t size, offset; /* bytes of a number; where in a row */
} npy_column;

typedef struct {
    FILE *file;
    long rows;
    int columns;
    npy_column column[NPY_COLUMNS];
    size_t row;   /* bytes from row to row; by columns (Fortran): of one number */
    int is_plain; /* all columns are as the first one, and there may be more than NPY_COLUMNS: npy_of */
    int is_apart; /* by columns: column c begins rows numbers of column[c].size bytes after the one before */
    long begin;   /* where in the file the first row is */
} npy_file;

/* Column c, from 0, also of a plain array with more than are in the list. */
static inline npy_column npy_of(const npy_file *f, int c)
{
    npy_column column = f->column[f->is_plain ? 0 : c];
    if (f->is_plain && !f->is_apart) column.offset = (size_t)c * column.size;
    return column;
}

static inline int npy_wrong(char *why, const char *what) { return snprintf(why, NPY_WHY, "%s", what), 0; }

static inline void npy_close(npy_file *f)
{
    if (f->file) fclose(f->file);
    f->file = NULL;
}

/* ---- the header: {'descr': '<f8', 'fortran_order': False, 'shape': (100, 3), } ---- */

static inline void npy_space(const char **at)
{
    while (**at == ' ' || **at == '\n' || **at == '\t') ++*at;
}

/* Takes this byte, with space before it, if it is next. */
static inline int npy_take(const char **at, char byte)
{
    npy_space(at);
    if (**at != byte) return 0;
    ++*at;
    return 1;
}

/* A string in quotes; 0: there is none, or it is too long. */
static inline int npy_string(const char **at, char *to, size_t room)
{
    size_t n = 0;
    char quote;
    npy_space(at);
    quote = **at;
    if (quote != '\'' && quote != '"') return 0;
    for (++*at; **at && **at != quote && **at != '\\'; ++*at) {
        if (n + 1 == room) return 0;
        to[n++] = **at;
    }
    to[n] = 0;
    return npy_take(at, quote);
}

static inline int npy_count(const char **at, long *count)
{
    char *end;
    npy_space(at);
    if (**at < '0' || **at > '9') return 0;
    errno = 0;
    *count = strtol(*at, &end, 10);
    *at = end;
    return errno == 0;
}

/* Is the lowest byte of a number the first one here? */
static inline int npy_is_little(void)
{
    const uint16_t one = 1;
    unsigned char low;
    memcpy(&low, &one, 1);
    return low != 0;
}

/* '<f8': byte order, kind, size. Kinds without numbers have their size, too. */
static inline int npy_type(const char *text, npy_column *c)
{
    const char *at = text + 1;
    long size;
    if (!*text || !strchr("<>|=", *text) || !*at) return 0;
    at++;
    if (!npy_count(&at, &size) || size > 1 << 20) return 0;
    if (*at && text[1] != 'M' && text[1] != 'm') return 0; /* 'M8[s]': the unit of a time */
    c->size = (size_t)size * (text[1] == 'U' ? 4 : 1);
    c->kind = 0;
    if (strchr("iu", text[1]) && (size == 1 || size == 2 || size == 4 || size == 8)) c->kind = text[1];
    if (text[1] == 'f' && (size == 4 || size == 8)) c->kind = 'f';
    c->swapped = *text == (npy_is_little() ? '>' : '<');
    return 1;
}

/* The columns of records: [('userId', '<i8'), ('rating', '<f4')]. */
static inline int npy_records(const char **at, npy_file *f)
{
    char type[NPY_NAME];
    if (!npy_take(at, '[')) return 0;
    while (!npy_take(at, ']')) {
        npy_column *c = &f->column[f->columns];
        if (f->columns == NPY_COLUMNS) return 0;
        if (!npy_take(at, '(') || !npy_string(at, c->name, NPY_NAME) || !npy_take(at, ',')) return 0;
        if (!npy_string(at, type, sizeof type) || !npy_type(type, c) || !npy_take(at, ')')) return 0;
        c->offset = f->row;
        f->row += c->size;
        f->columns++;
        if (!npy_take(at, ',')) {
            npy_space(at);
            if (**at != ']') return 0;
        }
    }
    return f->columns > 0;
}

/* (100,) or (100, 3) */
static inline int npy_shape(const char **at, int *dimensions, long *size)
{
    if (!npy_take(at, '(')) return 0;
    for (*dimensions = 0; !npy_take(at, ')'); ++*dimensions) {
        if (*dimensions == 2 || !npy_count(at, &size[*dimensions])) return 0;
        if (!npy_take(at, ',')) {
            npy_space(at);
            if (**at != ')') return 0;
        }
    }
    return *dimensions > 0;
}

/* All of it. A plain array has one type, and as many columns as its shape says. */
static inline int npy_header(const char *at, npy_file *f, char *why)
{
    char key[NPY_NAME], type[NPY_NAME];
    long size[2] = {0, 1};
    int seen = 0, dimensions = 0, is_plain = 0, c;
    if (!npy_take(&at, '{')) return npy_wrong(why, "the header is not one of numpy.save");
    while (!npy_take(&at, '}')) {
        int ok = npy_string(&at, key, sizeof key) && npy_take(&at, ':');
        npy_space(&at);
        if (ok && !strcmp(key, "descr") && !(seen & 1)) {
            seen |= 1;
            is_plain = *at != '[';
            if (is_plain) ok = npy_string(&at, type, sizeof type) && npy_type(type, &f->column[0]);
            else ok = npy_records(&at, f);
        } else if (ok && !strcmp(key, "fortran_order") && !(seen & 2)) {
            seen |= 2;
            f->is_apart = !strncmp(at, "True", 4);
            ok = f->is_apart || !strncmp(at, "False", 5);
            if (ok) at += f->is_apart ? 4 : 5;
        } else if (ok && !strcmp(key, "shape") && !(seen & 4)) {
            seen |= 4;
            ok = npy_shape(&at, &dimensions, size);
        } else
            ok = 0;
        if (ok && !npy_take(&at, ',')) {
            npy_space(&at);
            ok = *at == '}';
        }
        if (!ok) return npy_wrong(why, "the header is not one of numpy.save, or its array not of one or two dimensions and of numbers");
    }
    npy_space(&at);
    if (seen != 7 || *at) return npy_wrong(why, "the header is not one of numpy.save");
    f->rows = size[0];
    if (!is_plain) {
        f->is_apart = 0; /* of records the order says nothing */
        return dimensions == 1 ? 1 : npy_wrong(why, "an array of records must have one dimension");
    }
    if (!f->column[0].kind) return npy_wrong(why, "the numbers must be integers or float32, float64");
    if (size[1] < 1 || size[1] > NPY_WIDE) return npy_wrong(why, "there must be 1 to 1048576 columns");
    f->columns = (int)size[1];
    f->is_apart = f->is_apart && f->columns > 1;
    f->is_plain = 1;
    for (c = 1; c < f->columns && c < NPY_COLUMNS; c++) f->column[c] = npy_of(f, c);
    f->row = f->column[0].size * (f->is_apart ? 1 : (size_t)f->columns);
    return 1;
}

/* ---- the file ---- */

/* Magic bytes, version, length of the header, header. */
static inline int npy_begin(npy_file *f, char *text, char *why)
{
    unsigned char head[12];
    size_t length, first = 10;
    if (fread(head, 1, 10, f->file) != 10 || memcmp(head, "\x93NUMPY", 6)) return npy_wrong(why, "not a file of numpy.save");
    if (head[6] < 1 || head[6] > 3) return npy_wrong(why, "of an unknown version of numpy.save");
    length = (size_t)head[8] | (size_t)head[9] << 8;
    if (head[6] > 1) {
        first = 12;
        if (fread(head + 10, 1, 2, f->file) != 2) return npy_wrong(why, "the header is cut short");
        length |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
    }
    if (length >= NPY_HEADER) return npy_wrong(why, "the header is too long");
    if (fread(text, 1, length, f->file) != length) return npy_wrong(why, "the header is cut short");
    text[length] = 0;
    f->begin = (long)(first + length);
    return strlen(text) == length ? npy_header(text, f, why) : npy_wrong(why, "the header is not text");
}

/* Is the file as long as its header says? One that cannot be searched, a pipe, is not asked. */
static inline int npy_length(npy_file *f, char *why)
{
    const size_t row = f->row * (f->is_apart ? (size_t)f->columns : 1);
    long end;
    if (row == 0 || f->rows > (long)((~0ul >> 1) / (row + 1)) - f->begin) return npy_wrong(why, "the header says more than fits");
    if (fseek(f->file, 0, SEEK_END)) return f->is_apart ? npy_wrong(why, "columns of Fortran cannot come from a pipe") : 1;
    end = ftell(f->file);
    if (end < f->begin + f->rows * (long)row) {
        snprintf(why, NPY_WHY, "cut short: the header says %ld rows, there are %ld", f->rows, (end - f->begin) / (long)row);
        return 0;
    }
    if (end > f->begin + f->rows * (long)row) return npy_wrong(why, "longer than its header says");
    return fseek(f->file, f->begin, SEEK_SET) ? npy_wrong(why, "cannot be read") : 1;
}

/* 1: the file stands at its first row. 0: why. */
static inline int npy_open(const char *path, npy_file *f, char *why)
{
    char *text;
    int ok;
    memset(f, 0, sizeof *f);
    f->file = fopen(path, "rb");
    if (!f->file) return npy_wrong(why, strerror(errno));
    text = (char *)malloc(NPY_HEADER);
    if (!text) npy_wrong(why, "there is not enough memory");
    ok = text && npy_begin(f, text, why) && npy_length(f, why);
    free(text);
    if (!ok) npy_close(f);
    return ok;
}

/* ---- numbers, from the bytes of one ---- */

/* The bytes in the order of this machine. */
static inline void npy_bytes(const npy_column *c, const unsigned char *from, unsigned char *to)
{
    size_t i;
    if (c->size == 8 && !c->swapped)
        memcpy(to, from, 8); /* a size that the compiler knows */
    else
        for (i = 0; i < 8 && i < c->size; i++) to[i] = from[c->swapped ? c->size - 1 - i : i]; /* none is larger */
}

/* 0: it is no integer from 0 to 2^63 - 1, or of a floating-point number that has only 2^53 of them, none of those. */
static inline int npy_natural(const npy_column *c, const unsigned char *from, int64_t *x)
{
    unsigned char b[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    union {
        int8_t i1;
        int16_t i2;
        int32_t i4;
        int64_t i8;
        uint8_t u1;
        uint16_t u2;
        uint32_t u4;
        uint64_t u8;
        float f4;
        double f8;
    } v;
    double y;
    npy_bytes(c, from, b);
    memcpy(&v, b, 8);
    if (c->kind == 'i') {
        *x = c->size == 1 ? v.i1 : c->size == 2 ? v.i2 : c->size == 4 ? v.i4 : v.i8;
        return *x >= 0;
    }
    if (c->kind == 'u') {
        const uint64_t u = c->size == 1 ? v.u1 : c->size == 2 ? v.u2 : c->size == 4 ? v.u4 : v.u8;
        *x = (int64_t)(u & INT64_MAX);
        return u <= INT64_MAX;
    }
    y = c->size == 4 ? (double)v.f4 : v.f8;
    if (!(y >= 0 && y < (c->size == 4 ? 16777216.0 : 9007199254740992.0))) return 0; /* from there on neighbours fall together */
    *x = (int64_t)y;
    return (double)*x == y;
}

/* Any number, as a double: integers beyond 2^53 are rounded. */
static inline double npy_real(const npy_column *c, const unsigned char *from)
{
    unsigned char b[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    uint64_t bits = 0;
    float f4;
    double f8;
    size_t i;
    npy_bytes(c, from, b);
    memcpy(&f4, b, 4);
    memcpy(&f8, b, 8);
    if (c->kind == 'f') return c->size == 4 ? (double)f4 : f8;
    for (i = 0; i < c->size; i++) bits |= (uint64_t)from[c->swapped == npy_is_little() ? c->size - 1 - i : i] << 8 * i;
    if (c->kind == 'u' || !(bits >> (8 * c->size - 1))) return (double)bits;
    if (c->size < 8) bits |= ~(uint64_t)0 << 8 * c->size; /* the sign goes on */
    return -(double)(~bits + 1);
}

/* A whole array, rows x columns doubles; a column without numbers is refused. NULL: why. To be freed. */
static inline double *npy_load(npy_file *f, char *why)
{
    const size_t rows = (size_t)f->rows, columns = (size_t)f->columns;
    const size_t bytes = f->is_apart ? f->column[0].size : f->row;
    unsigned char *line = (unsigned char *)malloc(bytes);
    double *value = rows <= (size_t)-1 / sizeof(double) / columns ? (double *)malloc((rows * columns + 1) * sizeof(double)) : NULL;
    size_t at, c;
    int ok = line && value;
    if (!ok) npy_wrong(why, "there is not enough memory");
    for (c = 0; ok && c < columns; c++)
        if (!npy_of(f, (int)c).kind) ok = npy_wrong(why, "a column does not hold numbers");
    for (at = 0; ok && at < rows * (f->is_apart ? columns : 1); at++) {
        if (fread(line, 1, bytes, f->file) != bytes) ok = npy_wrong(why, "cut short, or cannot be read to its end");
        else if (f->is_apart) value[at % rows * columns + at / rows] = npy_real(&f->column[0], line);
        else
            for (c = 0; c < columns; c++) {
                const npy_column column = npy_of(f, (int)c);
                value[at * columns + c] = npy_real(&column, line + column.offset);
            }
    }
    free(line);
    if (ok) return value;
    free(value);
    return NULL;
}

/* ---- writing ---- */

/* Can this type hold x? Integers hold no fractions, NaN or what is out of their range. */
static inline int npy_fits(const npy_column *c, double x)
{
    const double high = ldexp(1, (int)(8 * c->size) - (c->kind == 'i'));
    if (c->kind == 'f') return c->size == 8 || !(fabs(x) > (double)FLT_MAX && fabs(x) <= DBL_MAX);
    return x == floor(x) && x < high && x >= (c->kind == 'i' ? -high : 0);
}

/* Header of version 1 to 3 and rows x columns numbers by rows, little-endian: <f4 <f8 |u1 <i4 <i8. 0: the file cannot be
   written, or a number is none of that type's. */
static inline int npy_write(FILE *file, int version, const char *type, long rows, long columns, const double *value)
{
    npy_column c;
    char header[192];
    unsigned char b[8], head[12] = {0x93, 'N', 'U', 'M', 'P', 'Y', 0, 0, 0, 0, 0, 0};
    const size_t first = version == 1 ? 10 : 12;
    const size_t count = (size_t)rows * (size_t)columns;
    size_t i, j, length;
    if (version < 1 || version > 3 || rows < 0 || columns < 1 || !npy_type(type, &c) || !c.kind || *type == '>') return 0;
    for (i = 0; i < count; i++)
        if (!npy_fits(&c, value[i])) return 0;
    length = (size_t)snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (%ld, %ld), }", type, rows, columns);
    while ((first + length + 1) % 64) header[length++] = ' '; /* numbers begin at a multiple of 64 */
    header[length++] = '\n';
    head[6] = (unsigned char)version, head[8] = (unsigned char)length;
    if (fwrite(head, 1, first, file) != first || fwrite(header, 1, length, file) != length) return 0;
    for (i = 0; i < count; i++) {
        const float f4 = c.kind == 'f' && c.size == 4 ? (float)value[i] : 0;
        uint64_t bits;
        uint32_t half;
        memcpy(&half, &f4, 4);
        memcpy(&bits, &value[i], 8);
        if (c.kind == 'i') bits = (uint64_t)(int64_t)value[i];
        else if (c.kind == 'u') bits = (uint64_t)value[i];
        else if (c.size == 4) bits = half;
        for (j = 0; j < c.size; j++) b[j] = (unsigned char)(bits >> 8 * j & 255);
        if (fwrite(b, 1, c.size, file) != c.size) return 0;
    }
    return 1;
}

#endif /* EXAMPLES_NPY_H */
