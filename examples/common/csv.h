/* csv.h - columns of numbers from a CSV file, with gaps; strict, so that a wrong file is not taken for data.

       csv_format format = {',', 1, "PM2.5,TEMP", 0, 0};
       csv_table table;
       char why[CSV_WHY];
       if (!csv_read("air.csv", &format, &table, why)) puts(why);    "line 17, column 3: not a number: abc"
       .. table.value[column * table.rows + row], NaN where missing ..
       csv_free(&table);

   A file is lines of cells with one separator between (, ; or tab), ended by LF or CR LF; every line has the same number of
   cells. Cells may be quoted ("a, ""b"""), but hold no line end. Spaces and tabs around a cell do not count. Lines that begin
   with # are comments, and so is a byte order mark. The first line names the columns, unless the format says that it does
   not. A cell of a wanted column is a decimal number, or missing: empty, NA, NaN, or the format's own mark (such as -999.99).
   Blank lines at the end of the file are no rows.
   Anything else is refused with its line and column: no infinities, hexadecimals, thousands separators, numbers too large for
   pu_real. Columns that are not wanted may hold anything. Include after pu.h. */
#ifndef EXAMPLES_CSV_H
#define EXAMPLES_CSV_H

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CSV_COLUMNS = 256, CSV_NAME = 64, CSV_WHY = 300 }; /* columns of a file, bytes of a name, of a message */

typedef struct {
    char separator;      /* , ; or tab */
    int header;          /* the first line holds names */
    const char *columns; /* wanted: names, or numbers from 1, with commas between. NULL = all */
    int marked;          /* `mark` means missing, too */
    double mark;
} csv_format;

typedef struct {
    pu_int rows, columns;
    pu_real *value; /* columns x rows */
    char name[CSV_COLUMNS][CSV_NAME];
} csv_table;

/* Always 0, for `return csv_wrong(..)`. */
static inline int csv_wrong(char *why, long line, int column, const char *what, const char *cell, const char *hint)
{
    int n = snprintf(why, CSV_WHY, "line %ld", line);
    if (column > 0) n += snprintf(why + n, CSV_WHY - (size_t)n, ", column %d", column);
    n += snprintf(why + n, CSV_WHY - (size_t)n, ": %s", what);
    if (cell) n += snprintf(why + n, CSV_WHY - (size_t)n, ": %.40s", cell);
    snprintf(why + n, CSV_WHY - (size_t)n, "%s", hint);
    return 0;
}

/* What to try when a cell is not what it should be: another separator, fewer columns. */
static inline const char *csv_hint(const csv_format *format, const char *cell, int columns)
{
    if (format->separator != ';' && strchr(cell, ';')) return "; are cells separated by semicolons? --separator semicolon";
    if (format->separator != '\t' && strchr(cell, '\t')) return "; are cells separated by tabs? --separator tab";
    if (format->separator != ',' && strchr(cell, ',') && columns == 1)
        return "; are cells separated by commas? --separator comma";
    if (strspn(cell, "+-,0123456789") == strlen(cell) && strchr(cell, ',')) return "; decimals are behind a point, not a comma";
    return columns > 1 ? "; name the columns that are numbers: --columns" : "";
}

/* The next cell of the line that starts at *at and ends before `end`, unquoted and trimmed, into cell (cut at `size` bytes,
   which *cut tells). *at moves behind its separator, or to NULL at the end of the line. 0: quotes are not in order. */
static inline int csv_cell(const char **at, const char *end, char separator, char *cell, size_t size, int *cut)
{
    const char *p = *at;
    size_t n = 0;
    int quoted;
    *cut = 0;
    while (p < end && (*p == ' ' || *p == '\t') && *p != separator) p++;
    quoted = p < end && *p == '"';
    if (quoted) p++;
    for (; p < end && (quoted || *p != separator); p++) {
        if (*p == '"') {
            if (!quoted) return 0;
            if (p + 1 == end || p[1] != '"') break; /* the closing one; a double one stands for itself */
            p++;
        }
        if (n + 1 < size) cell[n++] = *p;
        else *cut = 1;
    }
    if (quoted) {
        if (p == end) return 0;
        for (p++; p < end && *p != separator; p++)
            if (*p != ' ' && *p != '\t') return 0;
    } else
        while (n > 0 && (cell[n - 1] == ' ' || cell[n - 1] == '\t')) n--;
    cell[n] = 0;
    *at = p < end ? p + 1 : NULL;
    return 1;
}

/* 1: *x is the number, or NaN for a missing one. 0: neither. */
static inline int csv_number(const csv_format *format, const char *cell, pu_real *x)
{
    char *end;
    double value;
    *x = (pu_real)NAN;
    if (!*cell || !strcmp(cell, "NA") || !strcmp(cell, "NaN") || !strcmp(cell, "nan") || !strcmp(cell, "NAN")) return 1;
    if (strspn(cell, "+-.0123456789eE") != strlen(cell)) return 0; /* strtod would take more than decimal numbers */
    value = strtod(cell, &end);
    if (end == cell || *end || !(fabs(value) <= (sizeof(pu_real) == sizeof(float) ? (double)FLT_MAX : DBL_MAX))) return 0;
    if (!format->marked || fabs(value - format->mark) > 1e-9 * fabs(format->mark)) *x = (pu_real)value;
    return 1;
}

/* place[c] = which wanted column the file's column c is, or -1. The `count` names of the file are in `names`. */
static inline int csv_choose(const csv_format *format, int count, char (*names)[CSV_NAME], csv_table *table, int *place,
                             char *why)
{
    const char *at = format->columns;
    int c;
    for (c = 0; c < count; c++) place[c] = at ? -1 : c;
    table->columns = at ? 0 : count;
    for (c = 0; c < count && !at; c++) memcpy(table->name[c], names[c], CSV_NAME);
    while (at) {
        const size_t length = strcspn(at, ",");
        char name[CSV_NAME];
        int found = -1;
        snprintf(name, sizeof name, "%.*s", (int)(length < CSV_NAME ? length : CSV_NAME - 1), at);
        for (c = 0; c < count; c++)
            if (!strcmp(names[c], name)) {
                if (found >= 0) return snprintf(why, CSV_WHY, "two columns are called %.60s", name), 0;
                found = c;
            }
        if (found < 0 && length > 0 && length < 5 && strspn(name, "0123456789") == length) { /* by number, where no name is that */
            const int number = atoi(name);
            if (number >= 1 && number <= count) found = number - 1;
        }
        if (found < 0) {
            int n = snprintf(why, CSV_WHY, "there is no column %.60s; there is ", name);
            for (c = 0; c < count && n < CSV_WHY - 80; c++) n += snprintf(why + n, CSV_WHY - (size_t)n, "%s%.60s", c ? ", " : "", names[c]);
            if (c < count) snprintf(why + n, CSV_WHY - (size_t)n, ", ..");
            else snprintf(why + n, CSV_WHY - (size_t)n, "%s", count == 1 ? csv_hint(format, names[0], 1) : "");
            return 0;
        }
        if (place[found] >= 0) return snprintf(why, CSV_WHY, "column %.60s is wanted twice", name), 0;
        memcpy(table->name[table->columns], names[found], CSV_NAME);
        place[found] = (int)table->columns++;
        at = at[length] ? at + length + 1 : NULL;
    }
    return 1;
}

static inline void csv_free(csv_table *table)
{
    free(table->value);
    table->value = NULL, table->rows = table->columns = 0;
}

static inline int csv_scan(const char *text, size_t length, const csv_format *format, csv_table *table, char *why)
{
    char names[CSV_COLUMNS][CSV_NAME], cell[128];
    int place[CSV_COLUMNS];
    const char *at = text, *stop = text + length;
    pu_int lines = 1, row = 0, i;
    long line = 0;
    int cells = 0; /* of a line; 0 before the first */
    if (memchr(text, 0, length)) return snprintf(why, CSV_WHY, "not a text file: it holds a zero byte"), 0;
    if (length >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) at += 3;
    while (stop - at > 1 && stop[-1] == '\n' && (stop[-2] == '\n' || (stop - at > 2 && stop[-2] == '\r' && stop[-3] == '\n')))
        stop -= stop[-2] == '\r' ? 2 : 1; /* blank lines at the end are no rows */
    for (i = 0; i < (pu_int)length; i++) lines += text[i] == '\n'; /* at least as many as rows */
    while (at < stop) {
        const char *const begin = at, *p = at, *end = (const char *)memchr(at, '\n', (size_t)(stop - at));
        const int first = cells == 0;
        int c = 0, cut;
        at = end ? end + 1 : stop;
        if (!end) end = stop;
        if (end > begin && end[-1] == '\r') end--;
        line++;
        if (p < end && *p == '#') continue;
        for (; p && c < (first ? CSV_COLUMNS : cells); c++) {
            if (!csv_cell(&p, end, format->separator, cell, sizeof cell, &cut))
                return csv_wrong(why, line, c + 1, "quotes are not in order", NULL, "");
            if (first && !format->header) snprintf(names[c], CSV_NAME, "%d", c + 1);
            else if (first && (cut || strlen(cell) >= CSV_NAME)) return csv_wrong(why, line, c + 1, "the name is too long", cell, "");
            else if (first) memcpy(names[c], cell, CSV_NAME);
            else if (place[c] >= 0 && (cut || !csv_number(format, cell, table->value + place[c] * lines + row)))
                return csv_wrong(why, line, c + 1, "not a number", cell, csv_hint(format, cell, cells));
        }
        if (p || c < cells) {
            const char *what = first ? "too many columns" : p ? "more cells than in the first line" : "fewer cells than in the first line";
            const int semicolons = format->separator == ',' && memchr(begin, ';', (size_t)(end - begin)) != NULL;
            return csv_wrong(why, line, 0, what, NULL, semicolons ? csv_hint(format, ";", cells) : "");
        }
        if (!first) row++;
        else {
            cells = c;
            if (!csv_choose(format, cells, names, table, place, why)) return 0;
            if ((size_t)lines <= (size_t)-1 / sizeof(pu_real) / (size_t)table->columns)
                table->value = (pu_real *)malloc((size_t)lines * (size_t)table->columns * sizeof(pu_real));
            if (!table->value) return snprintf(why, CSV_WHY, "there is not enough memory"), 0;
            if (!format->header) at = begin, line--; /* the same line again, as numbers */
        }
    }
    if (row == 0)
        return snprintf(why, CSV_WHY, "there are no rows%s",
                        line > 0 && format->header ? " below the names of the columns; is the first line data? --no-header" : ""), 0;
    for (i = 1; i < table->columns; i++) /* close the ranks: columns were `lines` apart */
        memmove(table->value + i * row, table->value + i * lines, (size_t)row * sizeof(pu_real));
    table->rows = row;
    return 1;
}

/* From memory. 1, or 0 and the reason in why (CSV_WHY bytes); *table is then empty. */
static inline int csv_parse(const char *text, size_t length, const csv_format *format, csv_table *table, char *why)
{
    memset(table, 0, sizeof *table);
    if (csv_scan(text, length, format, table, why)) return 1;
    csv_free(table);
    return 0;
}

/* From a file, likewise. */
static inline int csv_read(const char *path, const csv_format *format, csv_table *table, char *why)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t size = 0, room = 0, got = 1;
    int ok = 0;
    memset(table, 0, sizeof *table);
    if (!file) return snprintf(why, CSV_WHY, "cannot be read: %s", strerror(errno)), 0;
    while (got > 0) {
        if (size == room) {
            char *more = room < (size_t)-1 / 2 ? (char *)realloc(text, room = room ? 2 * room : 65536) : NULL;
            if (!more) break;
            text = more;
        }
        got = fread(text + size, 1, room - size, file);
        size += got;
    }
    if (ferror(file)) snprintf(why, CSV_WHY, "cannot be read: %s", strerror(errno));
    else if (got > 0) snprintf(why, CSV_WHY, "there is not enough memory");
    else ok = csv_parse(text, size, format, table, why);
    free(text);
    fclose(file);
    return ok;
}

#endif /* EXAMPLES_CSV_H */
