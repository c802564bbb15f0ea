/* frame.h - all columns of a table of one's own as a matrix of numbers with gaps, from CSV or from what numpy.save has written.

       frame f;
       frame_default(&f);
       count += frame_flags_table(&f, list + count);       --data --columns --exclude --missing --separator --header
       options_read(..);
       frame_read(&f, quiet);                              ends the program, with line and name, where the file is wrong
       .. f.x: f.rows x f.terms, NaN = a gap; f.term[k].name ..
       frame_fill_in(&f, "full.csv");                      the file again, byte for byte, with f.x where it had gaps
       frame_free(&f);

   The file is read twice, a block at a time: once to see what its columns are, then for the numbers that are wanted, so that memory is
   that of the matrix. Cells are table.h's: quotes, comments, , ; tab or :: between them. The first line has names if a cell of it is
   none of a number, or if it counts 0, 1, 2, .. as pandas does.

   Unless --columns says which, all columns are taken but for those that say nothing: texts, constants, columns without a number, and
   numbers of rows that are called so (id, index, no name). What is left out is told. A column of numbers with a few other texts is
   refused with the line of the first one. Columns called alike are told apart by their place: x, x (5). f.response (a column) comes
   first where the program wants one; texts of --categories become a column of 0 and 1 for each level but the first.
   Include after program.h, csv.h, table.h, npy.h, report.h. */
#ifndef EXAMPLES_FRAME_H
#define EXAMPLES_FRAME_H

#include <stdarg.h>

enum { FRAME_FLAGS = 6, FRAME_LEVELS = 200, FRAME_NAME = 120, FRAME_WHY = 600 };
enum { FRAME_PLAIN, FRAME_ASKED, FRAME_CATEGORY, FRAME_RESPONSE, FRAME_EXCLUDED }; /* what the command line says of a column */
enum { FRAME_NUMBER, FRAME_GAP, FRAME_TEXT };                                     /* what a cell is */

/* A column of the file. */
typedef struct {
    char *name;
    int is_named, use;
    int twin; /* the first column of the same name, from 1; 0: none */
    long numbers, gaps, texts;
    long text_row;  /* where the first text is, and what */
    char text[41];
    double low, high, last;
    int counts;     /* each number is one more than that before it */
    int term, terms; /* of the matrix; terms 0: not in it */
    table_names levels;
    int32_t base; /* of a category: the level without a term; -1: the rows that are used have none */
} frame_column;

/* A column of the matrix. */
typedef struct {
    char *name;
    int place;     /* column of the file, -1: it has none */
    int32_t level; /* of a category, -1: numbers */
} frame_term;

typedef struct frame {
    /* flags */
    const char *data, *column_list, *exclude_list, *category_list, *missing, *response;
    int separator, header, has_categories;
    /* the file */
    int columns, is_numpy, has_names;
    frame_column *column;
    long rows, comments;
    /* the matrix */
    int terms;
    frame_term *term;
    pu_real *x;
    /* what was left out, a line each */
    int quiet, notes;
    char **note;
    /* of rows to predict: the frame that these are for */
    struct frame *model;
} frame;

/* A gap of a line that is to be filled. */
typedef struct {
    size_t at, length;
    double x;
} frame_gap;

/* A way through the file. */
typedef struct frame_walk {
    frame *f;
    /* of every cell, or of the columns with terms only; text is NULL for numpy's. 0: why */
    int (*cell)(struct frame_walk *w, long row, int place, int kind, double x, const table_cell *text);
    int terms_only;
    long row;
    char why[FRAME_WHY];
    /* frame_fill_in: the line as it was, and its gaps; behind these patch[columns].at is where the scanner has it */
    FILE *out;
    char *line;
    size_t length;
    int has_line;
    int patches;
    frame_gap *patch;
} frame_walk;

static inline void frame_default(frame *f) { memset(f, 0, sizeof *f); }

static inline int frame_flags_table(frame *f, option *list)
{
    int n = 0;
    list[n++] = opt_text("data", "table, a row a line, names in the first one or none; or .npy. Empty, NA, NaN = a gap", &f->data);
    list[n++] =
        opt_text("columns", "to take: names or numbers from 1, with commas between, also 3-10; none = all that say something", &f->column_list);
    list[n++] = opt_text("exclude", "columns to leave out, likewise", &f->exclude_list);
    list[n++] = opt_text("missing", "more words for a gap, with commas between, e.g. -999,?", &f->missing);
    list[n++] = opt_choice("separator", "of cells", &f->separator, "found,comma,semicolon,tab,colons");
    list[n++] = opt_choice("header", "are there names in the first line?", &f->header, "found,yes,no");
    return n;
}

/* ---- what is told ---- */

/* Ends the program with the name of the file. */
static inline void frame_fail(const frame *f, const char *why)
{
    char what[300];
    snprintf(what, sizeof what, "%.290s", f->data);
    fail(1, what, why);
}

static inline char *frame_copy(const char *text)
{
    char *copy = (char *)need_bytes(strlen(text) + 1);
    memcpy(copy, text, strlen(text));
    return copy;
}

/* On stderr, and kept for the report. */
static inline void frame_note(frame *f, const char *format, ...)
{
    char text[FRAME_WHY];
    char **more = (char **)realloc(f->note, (size_t)(f->notes + 1) * sizeof *more);
    va_list list;
    if (!more) fail(1, "memory", "there is not enough");
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    f->note = more, f->note[f->notes++] = frame_copy(text);
    if (!f->quiet) fprintf(stderr, "%s: %s\n", program_name, text);
}

/* "line 17" or "row 17", from 1: numpy's files have no lines. */
static inline const char *frame_unit(const frame *f) { return f->is_numpy ? "row" : "line"; }

/* A name as it can be shown anywhere, at most size - 1 bytes: what is no UTF-8, or a control, becomes a question mark. */
static inline void frame_clean(const char *from, char *to, size_t size)
{
    const unsigned char *at = (const unsigned char *)from;
    size_t used = 0;
    while (*at) {
        const int more = *at < 0x80 ? 0 : *at >= 0xc2 && *at < 0xe0 ? 1 : *at >= 0xe0 && *at < 0xf0 ? 2 : *at >= 0xf0 && *at < 0xf5 ? 3 : -1;
        int k, good = more >= 0 && *at >= 32 && *at != 127;
        for (k = 1; good && k <= more; k++) good = (at[k] & 0xc0) == 0x80;
        if (used + (size_t)(good ? more : 0) + 2 > size) break;
        if (good) memcpy(to + used, at, (size_t)more + 1), used += (size_t)more + 1, at += more + 1;
        else to[used++] = '?', at++;
    }
    to[used] = 0;
}

/* A name as text of a picture, of at most so many characters. */
static inline void frame_label(FILE *file, const char *name, int most)
{
    char text[200];
    fputs(svg_safe(text, sizeof text, name, most), file);
}

/* A name in so many characters (not bytes), cut or padded. */
static inline void frame_pad(const char *name, int width)
{
    for (; *name && width > 0; width--) {
        do putchar(*name++);
        while (((unsigned char)*name & 0xc0) == 0x80);
    }
    printf("%*s", width, "");
}

/* ---- cells ---- */

/* Is it one of --missing's words? */
static inline int frame_marked(const frame *f, const table_cell *c)
{
    const size_t n = (size_t)(c->end - c->begin);
    const char *at = f->missing;
    while (at) {
        const size_t length = strcspn(at, ",");
        if (length == n && !memcmp(at, c->begin, n)) return 1;
        at = at[length] ? at + length + 1 : NULL;
    }
    return 0;
}

static inline int frame_kind(const frame *f, const table_cell *c, double *x)
{
    pu_real value;
    *x = (double)NAN;
    if (f->missing && frame_marked(f, c)) return FRAME_GAP;
    if (!table_number(*c, &value)) return FRAME_TEXT;
    *x = (double)value;
    return value == value ? FRAME_NUMBER : FRAME_GAP;
}

/* Does the first line have names? Its cells are in s. */
static inline int frame_has_names(frame *f, const table_scanner *s)
{
    int c, first = 0, texts = 0;
    double x;
    for (c = 0; c < s->cells; c++) texts += frame_kind(f, s->cell + c, &x) == FRAME_TEXT;
    if (f->header || texts) return f->header != 2 && (texts > 0 || f->header == 1);
    if (s->cell[0].begin == s->cell[0].end) first = 1; /* the index of pandas has no name */
    for (c = first; c < s->cells; c++) {
        double begin;
        (void)frame_kind(f, s->cell + first, &begin);
        if (frame_kind(f, s->cell + c, &x) != FRAME_NUMBER || (begin != 0 && begin != 1) || x != begin + (double)(c - first)) return 0;
    }
    if (s->cells - first < 4) return 0;
    frame_note(f, "the first line counts its columns: taken for their names (--header no: it is data)");
    return 1;
}

/* ---- which column is meant ---- */

static inline void frame_no_column(const frame *f, const char *option_name, const char *word, size_t length)
{
    char why[FRAME_WHY];
    int c, n = snprintf(why, sizeof why, "there is no column %.*s; there ", (int)(length < 60 ? length : 60), word);
    if (!f->has_names) {
        snprintf(why + n, sizeof why - (size_t)n, "%s %d, without names", f->columns == 1 ? "is" : "are", f->columns);
        fail(2, option_name, why);
    }
    n += snprintf(why + n, sizeof why - (size_t)n, "is ");
    for (c = 0; c < f->columns && n < FRAME_WHY - 90; c++)
        n += snprintf(why + n, sizeof why - (size_t)n, "%s%.60s", c ? ", " : "", f->column[c].name);
    if (c < f->columns) snprintf(why + n, sizeof why - (size_t)n, ", ..");
    fail(2, option_name, why);
}

/* The column of this name, or number; -1: none. */
static inline int frame_find(const frame *f, const char *option_name, const char *word, size_t length)
{
    const long number = table_digits(word, length);
    int c, found = -1;
    for (c = 0; c < f->columns && found < 0; c++)
        if (f->column[c].is_named && strlen(f->column[c].name) == length && !strncmp(f->column[c].name, word, length)) found = c;
    for (c = 0; c < f->columns && found >= 0; c++)
        if (f->column[c].twin == found + 1) {
            char why[200];
            snprintf(why, sizeof why, "two columns are called %.*s: say which by number, %d or %d", (int)(length < 60 ? length : 60), word,
                     found + 1, c + 1);
            fail(2, option_name, why);
        }
    if (found < 0 && number >= 1 && number <= f->columns) found = (int)number - 1;
    return found;
}

/* All columns that a list names get this use. */
static inline void frame_ask(frame *f, const char *option_name, const char *at, int use)
{
    while (at && *at) {
        const size_t length = strcspn(at, ",");
        const char *dash = (const char *)memchr(at, '-', length);
        int from = frame_find(f, option_name, at, length), to = from, c;
        if (from < 0 && dash) {
            const long low = table_digits(at, (size_t)(dash - at)), high = table_digits(dash + 1, length - (size_t)(dash + 1 - at));
            if (low >= 1 && high >= low && high <= f->columns) from = (int)low - 1, to = (int)high - 1;
        }
        if (from < 0) frame_no_column(f, option_name, at, length);
        for (c = from; c <= to; c++) {
            if (f->column[c].use == FRAME_PLAIN) f->column[c].use = use;
            else if (f->column[c].use == FRAME_RESPONSE && use == FRAME_ASKED && to == from)
                fail(2, option_name, "the response cannot explain itself");
            else if (f->column[c].use != FRAME_RESPONSE && f->column[c].use != FRAME_CATEGORY && f->column[c].use != use)
                fail(2, f->column[c].name, "is in --columns and in --exclude");
        }
        at += length + (at[length] == ',');
    }
}

/* Names are known: what does the command line say of each column? */
static inline void frame_uses(frame *f)
{
    int c;
    if (f->model) return;
    if (f->response) {
        const int found = frame_find(f, "--response", f->response, strlen(f->response));
        if (found < 0) frame_no_column(f, "--response", f->response, strlen(f->response));
        f->column[found].use = FRAME_RESPONSE;
    }
    frame_ask(f, "--categories", f->category_list, FRAME_CATEGORY);
    frame_ask(f, "--exclude", f->exclude_list, FRAME_EXCLUDED);
    frame_ask(f, "--columns", f->column_list, FRAME_ASKED);
    for (c = 0; c < f->columns && f->column_list; c++)
        if (f->column[c].use == FRAME_PLAIN) f->column[c].use = FRAME_EXCLUDED;
}

/* A column gets its name: a copy, its number, or, where it is not the first of this name, both. */
static inline void frame_name(frame *f, int place, const char *name)
{
    char text[FRAME_NAME + 20], clean[FRAME_NAME];
    int c, twice = 0;
    frame_clean(name, clean, sizeof clean);
    name = clean;
    for (c = 0; c < place && *name && !twice; c++) twice = strcmp(f->column[c].name, name) ? 0 : c + 1;
    f->column[place].twin = twice;
    f->column[place].is_named = *name != 0;
    if (!*name) snprintf(text, sizeof text, "%d", place + 1);
    else if (twice) snprintf(text, sizeof text, "%.*s (%d)", FRAME_NAME - 1, name, place + 1);
    else snprintf(text, sizeof text, "%.*s", FRAME_NAME - 1, name);
    f->column[place].name = frame_copy(text);
    if (twice && !f->model) frame_note(f, "two columns are called %.60s: the one in place %d is %s here", name, place + 1, f->column[place].name);
}

/* ---- a way through a text ---- */

static inline int frame_first(frame_walk *w, table_scanner *s, char *p, char *end, int *is_row)
{
    frame *f = w->f;
    char text[FRAME_NAME];
    int c;
    static const char *const separators[] = {NULL, ",", ";", "\t", "::"};
    if (f->separator) memcpy(s->separator, separators[f->separator], strlen(separators[f->separator]) + 1);
    else table_find_separator(s, p, end);
    s->separator_length = strlen(s->separator);
    s->cells = table_cut(s, p, end, TABLE_CELLS);
    if (s->cells < 0) return csv_wrong(s->why, s->line, -s->cells, "quotes are not in order", NULL, "");
    if (s->cells > TABLE_CELLS) return csv_wrong(s->why, s->line, 0, "too many columns (more than 16384)", NULL, "");
    if (!f->column) {
        f->columns = s->cells;
        f->column = (frame_column *)need_bytes((size_t)f->columns * sizeof *f->column);
        f->has_names = frame_has_names(f, s);
        for (c = 0; c < f->columns; c++) frame_name(f, c, f->has_names ? table_text(s->cell[c], text, sizeof text) : "");
        frame_uses(f);
    }
    *is_row = !f->has_names;
    return 1;
}

/* A line that is neither comment nor blank. */
static inline int frame_line(table_scanner *s, char *p, char *end)
{
    frame_walk *w = (frame_walk *)s->user;
    frame *f = w->f;
    int cells = s->cells, is_row = 1, c;
    if (!cells) {
        if (!frame_first(w, s, p, end, &is_row)) return 0;
    } else {
        cells = table_cut(s, p, end, s->cells);
        if (cells < 0) return csv_wrong(s->why, s->line, -cells, "quotes are not in order", NULL, "");
        if (cells != s->cells)
            return csv_wrong(s->why, s->line, 0, cells > s->cells ? "more cells than in the first line" : "fewer cells than in the first line",
                             NULL, "");
    }
    for (c = 0; c < s->cells && is_row; c++) {
        double x;
        int kind;
        if (w->terms_only && !f->column[c].terms) continue;
        kind = frame_kind(f, s->cell + c, &x);
        if (!w->cell(w, s->line, c, kind, x, s->cell + c)) return snprintf(s->why, CSV_WHY, "%.290s", w->why), 0;
    }
    w->row += is_row;
    return 1;
}

static inline void frame_walk_text(frame_walk *w, void (*raw)(table_scanner *s, const char *p, const char *end))
{
    table_scanner *s = (table_scanner *)need_bytes(sizeof *s);
    table_source from = {NULL, NULL, 0};
    table t;
    char *buffer = (char *)need_bytes(TABLE_BLOCK), why[CSV_WHY] = "";
    int ok;
    table_open(&t, 0, NULL);
    from.file = fopen(w->f->data, "rb");
    if (!from.file) frame_fail(w->f, strerror(errno));
    s->t = &t, s->why = why, s->visit = frame_line, s->raw = raw, s->user = w;
    ok = table_lines(s, &from, buffer, TABLE_BLOCK);
    if (ferror(from.file)) ok = snprintf(why, sizeof why, "cannot be read to its end: %s", strerror(errno)) < 0;
    if (!ok) frame_fail(w->f, why);
    w->f->comments = t.comments;
    fclose(from.file);
    free(s), free(buffer);
}

/* ---- a way through numpy's ---- */

static inline void frame_open_numpy(const frame *f, npy_file *file)
{
    char why[NPY_WHY];
    if (f->missing) fail(2, "--missing", "is for texts: in a file of numpy NaN marks a gap");
    if (!npy_open(f->data, file, why)) frame_fail(f, why);
}

/* All numbers in the order of the file. */
static inline void frame_walk_numpy(frame_walk *w)
{
    frame *f = w->f;
    npy_file file;
    unsigned char *line;
    long r, rows, parts;
    int c, part;
    frame_open_numpy(f, &file);
    if (!f->column) {
        f->columns = file.columns;
        f->column = (frame_column *)need_bytes((size_t)f->columns * sizeof *f->column);
        f->has_names = !file.is_plain;
        for (c = 0; c < f->columns; c++) frame_name(f, c, file.is_plain ? "" : file.column[c].name);
        frame_uses(f);
    }
    rows = file.rows, parts = file.is_apart ? file.columns : 1;
    line = (unsigned char *)need_bytes(file.row);
    for (part = 0; part < parts; part++)
        for (r = 0; r < rows; r++) {
            if (fread(line, 1, file.row, file.file) != file.row) frame_fail(f, "cut short, or cannot be read to its end");
            for (c = file.is_apart ? part : 0; c < (file.is_apart ? part + 1 : f->columns); c++) {
                const npy_column column = npy_of(&file, c);
                const double x = column.kind ? npy_real(&column, line + column.offset) : 0;
                const int kind = !column.kind ? FRAME_TEXT : x != x ? FRAME_GAP : x - x != 0 ? FRAME_TEXT : FRAME_NUMBER;
                if (w->terms_only && !f->column[c].terms) continue;
                w->row = r;
                if (!w->cell(w, r + 1, c, kind, x, NULL)) frame_fail(f, w->why);
            }
        }
    w->row = rows;
    free(line);
    npy_close(&file);
}

/* ---- first pass: what the columns are ---- */

static inline int frame_look(frame_walk *w, long row, int place, int kind, double x, const table_cell *text)
{
    frame_column *c = w->f->column + place;
    char word[64];
    if (c->use == FRAME_CATEGORY && kind != FRAME_GAP) {
        const size_t length = text ? (size_t)(text->end - text->begin) : (size_t)snprintf(word, sizeof word, "%.15g", x);
        if (c->levels.count <= FRAME_LEVELS && table_level(&c->levels, length, text ? text->begin : word) < 0)
            fail(1, "memory", "there is not enough");
    }
    if (kind == FRAME_GAP) {
        c->gaps++;
        return 1;
    }
    if (kind == FRAME_TEXT) {
        if (!c->texts++) {
            c->text_row = row;
            if (text) table_text(*text, c->text, sizeof c->text);
            else snprintf(c->text, sizeof c->text, "%s", x == 0 ? "no number" : "infinity");
        }
        return 1;
    }
    if (!c->numbers++) c->low = c->high = x, c->counts = 1;
    else c->counts &= x == c->last + 1;
    c->low = fmin(c->low, x), c->high = fmax(c->high, x), c->last = x;
    return 1;
}

/* Is this what people call a number of the row? */
static inline int frame_is_index(const frame_column *c)
{
    static const char *const names[] = {"id", "ID", "Id", "index", "Index", "row", "Row", "rownames", "Unnamed: 0", "nr", "no", "obs"};
    size_t i;
    if (!c->counts || c->gaps || c->texts || (c->low != 0 && c->low != 1)) return 0;
    for (i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(c->name, names[i])) return 1;
    return !c->is_named;
}

/* A text where a number should be: line, name, text, and what would do. */
static inline void frame_not_a_number(const frame *f, const frame_column *c)
{
    char why[FRAME_WHY];
    const int comma = strspn(c->text, "+-,0123456789") == strlen(c->text) && strchr(c->text, ',');
    snprintf(why, sizeof why, "%s %ld, column %s: not a number: %s; %s", frame_unit(f), c->text_row, c->name, c->text,
             comma ? "decimals are behind a point, not a comma"
             : c->use == FRAME_RESPONSE ? "the response must be numbers"
             : f->is_numpy ? "--exclude leaves the column out"
             : f->has_categories ? "--missing WORD makes it a gap, --exclude leaves the column out, --categories takes it as names"
                                 : "--missing WORD makes it a gap, --exclude leaves the column out");
    frame_fail(f, why);
}

/* Names, as many as fit. */
typedef struct {
    char text[FRAME_WHY];
    int count;
} frame_words;

static inline void frame_word(frame_words *w, const char *name)
{
    const size_t used = strlen(w->text);
    if (used < FRAME_WHY - 220) snprintf(w->text + used, FRAME_WHY - used, "%s%.100s", w->count ? ", " : "", name);
    else if (strcmp(w->text + used - 2, "..")) snprintf(w->text + used, FRAME_WHY - used, ", ..");
    w->count++;
}

static inline void frame_left_out(frame *f, const char *why, const frame_words *w)
{
    if (w->count) frame_note(f, "left out, %s: %s", why, w->text);
}

static inline frame_term *frame_add(frame *f, int place, int32_t level)
{
    frame_column *c = f->column + place;
    frame_term *t = f->term + f->terms;
    char name[2 * FRAME_NAME];
    t->place = place, t->level = level;
    if (level < 0) snprintf(name, sizeof name, "%s", c->name);
    else {
        char clean[FRAME_NAME];
        frame_clean(table_name(&c->levels, level), clean, sizeof clean);
        snprintf(name, sizeof name, "%s=%s", c->name, clean);
    }
    t->name = frame_copy(name);
    if (!c->terms++) c->term = f->terms;
    f->terms++;
    return t;
}

/* A coefficient for each level of a category but the first, in order. */
static inline void frame_add_levels(frame *f, int place)
{
    frame_column *c = f->column + place;
    int32_t *order = (int32_t *)need_bytes((size_t)(c->levels.count + 1) * sizeof *order), k;
    if (c->levels.count > FRAME_LEVELS)
        fail(1, c->name, "has more than 200 names, too many for a coefficient each; examples/mixed takes them as a group");
    if (c->levels.count < 2) frame_note(f, "left out, the same in all rows: %s", c->name);
    table_order(&c->levels, order);
    c->base = c->levels.count ? order[0] : -1;
    for (k = 1; k < c->levels.count; k++) (void)frame_add(f, place, order[k]);
    free(order);
}

/* The columns that are taken. */
static inline void frame_choose(frame *f)
{
    frame_words texts = {"", 0}, constants = {"", 0}, empties = {"", 0}, indices = {"", 0};
    int c, most = 0;
    for (c = 0; c < f->columns; c++) most += f->column[c].use == FRAME_CATEGORY ? FRAME_LEVELS : 1;
    f->term = (frame_term *)need_bytes((size_t)most * sizeof *f->term);
    for (c = 0; c < f->columns; c++) {
        frame_column *p = f->column + c;
        if (p->use != FRAME_RESPONSE) continue;
        if (p->texts) frame_not_a_number(f, p);
        if (!(p->high > p->low))
            frame_fail(f, p->numbers ? "the response is the same in all rows: there is nothing to explain" : "the response has no number");
        (void)frame_add(f, c, -1);
    }
    for (c = 0; c < f->columns; c++) {
        frame_column *p = f->column + c;
        if (p->use == FRAME_CATEGORY) frame_add_levels(f, c);
        if (p->use != FRAME_PLAIN && p->use != FRAME_ASKED) continue;
        if (p->texts && (p->use == FRAME_ASKED || p->texts < p->numbers)) frame_not_a_number(f, p);
        if (p->texts) frame_word(&texts, p->name);
        else if (!p->numbers) frame_word(&empties, p->name);
        else if (!(p->high > p->low)) frame_word(&constants, p->name);
        else if (p->use == FRAME_PLAIN && frame_is_index(p)) frame_word(&indices, p->name);
        else (void)frame_add(f, c, -1);
    }
    frame_left_out(f, f->has_categories ? "texts (--categories takes them as names)" : "texts", &texts);
    frame_left_out(f, "without a number", &empties);
    frame_left_out(f, "the same in all rows", &constants);
    frame_left_out(f, "numbers of rows (--columns takes them)", &indices);
    for (c = 0; c < f->terms; c++) {
        const frame_column *p = f->column + f->term[c].place;
        if (f->term[c].level >= 0) continue;
        if (!(fmax(fabs(p->low), fabs(p->high)) < 1e100)) fail(1, p->name, "has numbers beyond 1e100, whose squares are none: take a larger unit");
        if (fmax(fabs(p->low), fabs(p->high)) > 9007199254740992.0)
            frame_note(f, "%s has numbers beyond 2^53, of which neighbours fall together; is it a number of something? --exclude leaves it out",
                       p->name);
        if (p->high - p->low < 1e-100) fail(1, p->name, "has differences below 1e-100, whose squares vanish: take a smaller unit");
    }
}

/* ---- second pass: the numbers ---- */

static inline int frame_take(frame_walk *w, long row, int place, int kind, double x, const table_cell *text)
{
    frame *f = w->f;
    frame *model = f->model ? f->model : f;
    frame_column *c = f->column + place;
    pu_real *to = f->x + (size_t)w->row * (size_t)f->terms + (size_t)c->term;
    int k;
    if (f->term[c->term].level < 0) {
        if (kind == FRAME_TEXT)
            return snprintf(w->why, sizeof w->why, "%s %ld, column %s: not a number: %.40s", frame_unit(f), row, c->name,
                            text ? table_text(*text, c->text, sizeof c->text) : "infinity"), 0;
        *to = (pu_real)x;
        return 1;
    }
    for (k = 0; k < c->terms; k++) to[k] = (pu_real)NAN;
    if (kind != FRAME_GAP) {
        frame_column *from = &model->column[model->term[c->term].place];
        table_names *names = &from->levels;
        const int32_t before = names->count;
        int is_known = !f->model;
        char word[64];
        const size_t length = text ? (size_t)(text->end - text->begin) : (size_t)snprintf(word, sizeof word, "%.15g", x);
        const int32_t level = table_level(names, length, text ? text->begin : word);
        if (names->count > before)
            return snprintf(w->why, sizeof w->why, "%s %ld, column %s: the data have no such name: %.40s", frame_unit(f), row, c->name,
                            table_name(names, level)), 0;
        for (k = 0; k < c->terms; k++) to[k] = (pu_real)(level == f->term[c->term + k].level), is_known |= to[k] > 0;
        if (!is_known && level != from->base)
            return snprintf(w->why, sizeof w->why, "%s %ld, column %s: no row of the data that is used has this name: %.40s", frame_unit(f), row,
                            c->name, table_name(names, level)), 0;
    }
    return 1;
}

static inline void frame_walk_all(frame_walk *w)
{
    w->row = 0;
    if (w->f->is_numpy) frame_walk_numpy(w);
    else frame_walk_text(w, NULL);
}

static inline void frame_load(frame *f, frame_walk *w)
{
    if ((size_t)f->rows > (size_t)-1 / sizeof(pu_real) / (size_t)f->terms) fail(1, "memory", "there is not enough");
    f->x = need_reals((pu_int)f->rows * f->terms);
    w->cell = frame_take, w->terms_only = 1;
    frame_walk_all(w);
    if (w->row != f->rows) frame_fail(f, "has changed while it was being read, or is a pipe: it is read twice");
}

static inline void frame_open(frame *f, frame_walk *w)
{
    FILE *file = fopen(f->data, "rb");
    char magic[6] = "";
    if (!file) frame_fail(f, strerror(errno));
    f->is_numpy = fread(magic, 1, 6, file) == 6 && !memcmp(magic, "\x93NUMPY", 6);
    fclose(file);
    memset(w, 0, sizeof *w);
    w->f = f, w->cell = frame_look;
    frame_walk_all(w);
    f->rows = w->row;
    if (f->rows == 0) frame_fail(f, f->has_names ? "there are no rows below the names of the columns" : "there are no rows");
}

static inline void frame_read(frame *f, int quiet)
{
    frame_walk w;
    f->quiet = quiet;
    frame_open(f, &w);
    frame_choose(f);
    if (f->terms == 0) frame_fail(f, "no column is left; see --columns");
    frame_load(f, &w);
}

/* Rows for a model of the frame `model`: its columns, by name, or by place where there are no names. A response may lack. */
static inline void frame_read_more(frame *f, frame *model, const char *path)
{
    frame_walk w;
    int k, shift = 0;
    const int response = model->response ? model->term[0].place : -1;
    frame_default(f);
    f->data = path, f->model = model, f->quiet = model->quiet, f->missing = model->missing, f->separator = model->separator;
    f->header = model->header;
    frame_open(f, &w);
    if (!f->has_names && !model->has_names && f->columns == model->columns - 1) shift = response == model->columns - 1;
    if (f->has_names != model->has_names)
        frame_fail(f, f->has_names ? "has names of columns, but the data have none" : "has no names of columns, but the data have");
    if (!f->has_names && f->columns != model->columns && !shift)
        frame_fail(f, "must have as many columns as the data, or lack a response that is the last");
    f->term = (frame_term *)need_bytes((size_t)model->terms * sizeof *f->term), f->terms = model->terms;
    for (k = 0; k < f->terms; k++) {
        const frame_column *from = model->column + model->term[k].place;
        int c = -1, i;
        f->term[k].level = model->term[k].level, f->term[k].name = frame_copy(model->term[k].name);
        if (!f->has_names) c = model->term[k].place < f->columns ? model->term[k].place : -1;
        for (i = 0; i < f->columns && f->has_names; i++)
            if (!strcmp(f->column[i].name, from->name)) c = i;
        f->term[k].place = c;
        if (c < 0 && !(model->response && k == 0)) frame_no_column(f, path, from->name, strlen(from->name));
        if (c >= 0 && !f->column[c].terms++) f->column[c].term = k;
    }
    frame_load(f, &w);
    for (k = 0; k < f->terms; k++)
        if (f->term[k].place < 0) {
            long r;
            for (r = 0; r < f->rows; r++) f->x[r * f->terms + k] = (pu_real)NAN;
        }
}

static inline void frame_free(frame *f)
{
    int i;
    for (i = 0; i < f->columns; i++) {
        frame_column *c = f->column + i;
        free(c->name), free(c->levels.text), free(c->levels.start), free(c->levels.slot);
    }
    for (i = 0; i < f->terms; i++) free(f->term[i].name);
    for (i = 0; i < f->notes; i++) free(f->note[i]);
    free(f->column), free(f->term), free(f->note), free(f->x);
    memset(f, 0, sizeof *f);
}

/* ---- the file again, with its gaps filled in ---- */

/* The line that was kept, with its patches. */
static inline void frame_flush(frame_walk *w, int newline)
{
    size_t at = 0;
    int i;
    if (!w->has_line) return;
    for (i = 0; i < w->patches; i++) {
        fwrite(w->line + at, 1, w->patch[i].at - at, w->out);
        fprintf(w->out, "%.15g", w->patch[i].x);
        at = w->patch[i].at + w->patch[i].length;
    }
    fwrite(w->line + at, 1, w->length - at, w->out);
    if (newline) fputc('\n', w->out);
    w->patches = 0, w->has_line = 0;
}

/* The scanner may write over its line: this keeps it. w->line[0] is p[0]. */
static inline void frame_keep_line(table_scanner *s, const char *p, const char *end)
{
    frame_walk *w = (frame_walk *)s->user;
    frame_flush(w, 1);
    w->length = (size_t)(end - p), w->has_line = 1;
    memcpy(w->line, p, w->length);
    w->patch[w->f->columns].at = (size_t)p; /* where it stands, to find cells by */
}

static inline int frame_patch(frame_walk *w, long row, int place, int kind, double x, const table_cell *text)
{
    const frame *f = w->f;
    size_t at, length;
    (void)row, (void)x;
    if (kind != FRAME_GAP || f->term[f->column[place].term].level >= 0) return 1;
    at = (size_t)text->begin - w->patch[f->columns].at, length = (size_t)(text->end - text->begin);
    if (at > 0 && w->line[at - 1] == '"') at--, length += 2;
    w->patch[w->patches].at = at, w->patch[w->patches].length = length;
    w->patch[w->patches++].x = (double)f->x[(size_t)w->row * (size_t)f->terms + (size_t)f->column[place].term];
    return 1;
}

/* x as the bytes of a number that is in a file of numpy. */
static inline void frame_bytes(const npy_column *c, double x, unsigned char *to)
{
    const float f4 = (float)x;
    unsigned char b[8];
    size_t i;
    if (c->size == 4) memcpy(b, &f4, 4);
    else memcpy(b, &x, 8);
    for (i = 0; i < c->size; i++) to[i] = b[c->swapped ? c->size - 1 - i : i];
}

static inline void frame_fill_numpy(const frame *f, FILE *out)
{
    npy_file file;
    unsigned char *line;
    long r, parts;
    int c, part;
    frame_open_numpy(f, &file);
    line = (unsigned char *)need_bytes(file.row > (size_t)file.begin ? file.row : (size_t)file.begin);
    if (fseek(file.file, 0, SEEK_SET) || fread(line, 1, (size_t)file.begin, file.file) != (size_t)file.begin) frame_fail(f, "cannot be read again");
    fwrite(line, 1, (size_t)file.begin, out);
    parts = file.is_apart ? file.columns : 1;
    for (part = 0; part < parts; part++)
        for (r = 0; r < file.rows; r++) {
            if (fread(line, 1, file.row, file.file) != file.row) frame_fail(f, "cannot be read again");
            for (c = file.is_apart ? part : 0; c < (file.is_apart ? part + 1 : f->columns); c++) {
                const npy_column column = npy_of(&file, c);
                if (column.kind != 'f' || !f->column[c].terms) continue;
                if (npy_real(&column, line + column.offset) == npy_real(&column, line + column.offset)) continue;
                frame_bytes(&column, (double)f->x[(size_t)r * (size_t)f->terms + (size_t)f->column[c].term], line + column.offset);
            }
            fwrite(line, 1, file.row, out);
        }
    free(line);
    npy_close(&file);
}

/* Gaps of columns that were taken get f->x; all else is as it was, to the byte. */
static inline void frame_fill_in(frame *f, const char *path)
{
    FILE *in, *out;
    frame_walk w;
    int last = '\n';
    out = file_open(path);
    if (f->is_numpy) frame_fill_numpy(f, out);
    else {
        memset(&w, 0, sizeof w);
        w.f = f, w.out = out, w.cell = frame_patch, w.terms_only = 1;
        w.line = (char *)need_bytes(TABLE_BLOCK);
        w.patch = (frame_gap *)need_bytes((size_t)(f->columns + 1) * sizeof *w.patch);
        frame_walk_text(&w, frame_keep_line);
        in = fopen(f->data, "rb");
        if (in && !fseek(in, -1, SEEK_END)) last = getc(in);
        if (in) fclose(in);
        frame_flush(&w, last == '\n');
        free(w.line), free(w.patch);
    }
    file_close(out, path);
}

#endif /* EXAMPLES_FRAME_H */
