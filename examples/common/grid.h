/* grid.h - a rectangle of numbers with gaps: grey pictures (PGM, P2 or P5, 8 or 16 bits) and grids of text, read and written.

       grid g;  char why[GRID_WHY];
       if (!grid_read("name.pgm", &g, why)) ..;     the bytes decide: P2 and P5 are pictures, all else is text
       g.value[i * g.cols + j]                       NAN where a cell is empty, NA, NaN, null or ?
       grid_write("name.csv", rows, cols, value, low, high);   .pgm: 8 bits, low is black, high is white, gaps are 0
       grid_free(&g);

   Cells of text are separated by one comma, semicolon or tab, or by any number of blanks; all lines have as many. Include after pu.h and
   program.h. */
#ifndef EXAMPLES_GRID_H
#define EXAMPLES_GRID_H

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GRID_WHY = 300, GRID_MOST = 65536 }; /* bytes of a message; the longest side */

typedef struct {
    pu_int rows, cols;
    pu_real *value;
    int picture; /* it was one; then */
    long white;  /* its largest value */
} grid;

static inline void grid_free(grid *g)
{
    free(g->value);
    g->value = NULL;
}

/* Always 0, for `return grid_wrong(..)`. */
static inline int grid_wrong(char *why, const char *what, long line, long column, const char *hint)
{
    int n = snprintf(why, GRID_WHY, "%s", what);
    if (line > 0) n += snprintf(why + n, GRID_WHY - (size_t)n, ", line %ld", line);
    if (column > 0) n += snprintf(why + n, GRID_WHY - (size_t)n, ", cell %ld", column);
    snprintf(why + n, GRID_WHY - (size_t)n, "%s", hint);
    return 0;
}

static inline int grid_room(grid *g, pu_int rows, pu_int cols, char *why)
{
    g->rows = rows, g->cols = cols;
    g->value = (pu_real *)malloc((size_t)(rows * cols) * sizeof(pu_real));
    return g->value ? 1 : grid_wrong(why, "there is not enough memory for it", 0, 0, "");
}

/* ---- pictures ---- */

/* The next number of a PGM's head or of a P2's pixels, after blanks and comments; -1: there is none, or it is above 2^20. */
static inline long grid_pgm_number(const unsigned char *text, size_t length, size_t *at)
{
    long x = 0;
    size_t begin;
    while (*at < length && (isspace(text[*at]) || text[*at] == '#'))
        if (text[(*at)++] == '#')
            while (*at < length && text[*at] != '\n') ++*at;
    begin = *at;
    while (*at < length && isdigit(text[*at]) && x <= 1L << 20) x = 10 * x + (text[(*at)++] - '0');
    return *at == begin || x > 1L << 20 ? -1 : x;
}

static inline int grid_pgm(const unsigned char *text, size_t length, grid *g, char *why)
{
    size_t at = 2, place;
    const int binary = text[1] == '5';
    const long cols = grid_pgm_number(text, length, &at), rows = grid_pgm_number(text, length, &at);
    const long white = grid_pgm_number(text, length, &at), wide = white > 255 ? 2 : 1;
    pu_int i, n;
    if (rows < 1 || cols < 1 || rows > GRID_MOST || cols > GRID_MOST)
        return grid_wrong(why, "a PGM without sizes from 1 to 65536 in its head", 0, 0, "");
    if (white < 1 || white > 65535) return grid_wrong(why, "a PGM whose largest value is not in 1 .. 65535", 0, 0, "");
    n = (pu_int)rows * cols;
    if (binary && (at >= length || (length - at - 1) / (size_t)wide < (size_t)n))
        return grid_wrong(why, "a PGM that ends before its last pixel", 0, 0, "; was it cut off?");
    if (!binary && (length - at) / 2 < (size_t)n) return grid_wrong(why, "a PGM that ends before its last pixel", 0, 0, "; was it cut off?");
    if (!grid_room(g, rows, cols, why)) return 0;
    g->picture = 1, g->white = white;
    place = at + 1; /* one blank after the head */
    for (i = 0; i < n; i++) {
        long x;
        if (binary) {
            x = text[place++];
            if (wide == 2) x = 256 * x + text[place++];
        } else
            x = grid_pgm_number(text, length, &at);
        if (x < 0 || x > white) {
            grid_free(g);
            return grid_wrong(why, "a PGM with a pixel that is missing or above its largest value", 0, 0, "");
        }
        g->value[i] = (pu_real)x;
    }
    return 1;
}

/* ---- text ---- */

/* A cell without blanks around it as a number; empty and NA are gaps. */
static inline int grid_cell(const char *at, const char *end, pu_real *x)
{
    static const char *const gaps[] = {"NA", "na", "NaN", "nan", "NAN", "null", "?"};
    char cell[64], *rest;
    double value;
    size_t i, length;
    while (at < end && isspace((unsigned char)*at)) at++;
    while (end > at && isspace((unsigned char)end[-1])) end--;
    if (end - at > 1 && *at == '"' && end[-1] == '"') at++, end--;
    length = (size_t)(end - at);
    *x = (pu_real)NAN;
    if (length == 0) return 1;
    if (length >= sizeof cell) return 0;
    memcpy(cell, at, length), cell[length] = 0;
    for (i = 0; i < sizeof gaps / sizeof *gaps; i++)
        if (!strcmp(cell, gaps[i])) return 1;
    value = strtod(cell, &rest);
    *x = (pu_real)value;
    return *rest == 0 && *x - *x == 0;
}

/* One line: how many cells; value NULL: they are only counted. -j: cell j is no number. */
static inline pu_int grid_line(const char *at, const char *end, char separator, pu_real *value)
{
    pu_int count = 0;
    for (;;) {
        const char *stop;
        pu_real x;
        if (separator == ' ')
            while (at < end && isspace((unsigned char)*at)) at++;
        if (separator == ' ' && at == end && count > 0) return count;
        for (stop = at; stop < end && (separator == ' ' ? !isspace((unsigned char)*stop) : *stop != separator);) stop++;
        if (!grid_cell(at, stop, &x)) return -(count + 1);
        if (value) value[count] = x;
        count++;
        if (stop == end) return count;
        at = stop + 1;
    }
}

static inline int grid_text(const char *text, size_t length, grid *g, char *why)
{
    const char *end = text + length, *at, *stop;
    char separator = 0;
    pu_int rows = 0, cols = 0, count;
    long line = 0;
    for (at = text; at < end && !separator; at++)
        if (*at == ',' || *at == ';' || *at == '\t') separator = *at;
    if (!separator) separator = ' ';
    if (memchr(text, 0, length)) return grid_wrong(why, "neither a PGM (P2, P5) nor text", 0, 0, "");
    for (int fill = 0; fill < 2; fill++) {
        if (fill && (rows == 0 || !grid_room(g, rows, cols, why))) return rows ? 0 : grid_wrong(why, "it is empty", 0, 0, "");
        rows = 0, line = 0;
        for (at = text; at < end; at = stop + 1) {
            const char *last = (const char *)memchr(at, '\n', (size_t)(end - at));
            stop = last ? last : end, line++;
            for (last = stop; last > at && isspace((unsigned char)last[-1]) && last[-1] != separator;) last--;
            if (last == at) continue; /* an empty line */
            count = grid_line(at, last, separator, fill ? g->value + rows * cols : NULL);
            if (count < 0)
                return grid_wrong(why, "no number", line, -(long)count, "; a gap is an empty cell, NA or NaN; a header line must go");
            if (cols == 0) cols = count;
            if (count != cols) return grid_wrong(why, "not as many cells as the lines before", line, 0, "; a gap needs its separators, or NA");
            if (cols > GRID_MOST || ++rows > GRID_MOST) return grid_wrong(why, "more than 65536 lines or cells in a line", line, 0, "");
        }
    }
    return 1;
}

/* ---- both ---- */

static inline int grid_parse(const char *text, size_t length, grid *g, char *why)
{
    memset(g, 0, sizeof *g);
    if (length > 2 && text[0] == 'P' && (text[1] == '2' || text[1] == '5') && isspace((unsigned char)text[2]))
        return grid_pgm((const unsigned char *)text, length, g, why);
    if (length > 2 && text[0] == 'P' && text[1] >= '1' && text[1] <= '7' && isspace((unsigned char)text[2]))
        return grid_wrong(why, "a picture that is not grey (PGM, P2 or P5)", 0, 0, "; convert it, e.g. with `convert in.png out.pgm`");
    if (length > 7 && (!memcmp(text, "\211PNG", 4) || !memcmp(text, "\377\330\377", 3)))
        return grid_wrong(why, "a PNG or JPEG", 0, 0, "; convert it, e.g. with `convert in.png out.pgm`");
    return grid_text(text, length, g, why);
}

static inline int grid_read(const char *path, grid *g, char *why)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t length = 0, room = 0, got = 1;
    int good;
    memset(g, 0, sizeof *g);
    if (!file) return grid_wrong(why, strerror(errno), 0, 0, "");
    while (got > 0) {
        if (length == room) {
            char *more = (char *)realloc(text, room = room ? 2 * room : 65536);
            if (!more) break;
            text = more;
        }
        got = fread(text + length, 1, room - length, file);
        length += got;
    }
    good = got == 0 && !ferror(file);
    fclose(file);
    good = good ? grid_parse(text, length, g, why) : grid_wrong(why, "it cannot be read", 0, 0, "");
    free(text);
    return good;
}

static inline void grid_write(const char *path, pu_int rows, pu_int cols, const pu_real *value, double low, double high)
{
    const size_t length = strlen(path);
    const int pgm = length > 4 && !strcmp(path + length - 4, ".pgm");
    FILE *file = file_open(path);
    pu_int i;
    if (pgm) fprintf(file, "P5\n%ld %ld\n255\n", (long)cols, (long)rows);
    for (i = 0; i < rows * cols; i++) {
        const double x = high > low ? 255 * ((double)value[i] - low) / (high - low) : 0;
        if (pgm) fputc(x >= 255 ? 255 : x > 0 ? (int)(x + 0.5) : 0, file);
        else if (value[i] == value[i]) fprintf(file, "%.7g%c", (double)value[i], i % cols == cols - 1 ? '\n' : ',');
        else fprintf(file, "NA%c", i % cols == cols - 1 ? '\n' : ',');
    }
    file_close(file, path);
}

#endif /* EXAMPLES_GRID_H */
