/* report.h - a page of results, in one file that needs no other: light, dark, wide, and narrow as a phone.

   A person wants the answer first, then a picture, then a table, then how it was made; the calls come in that order:

       report_page r = report_open(path, "noisy_ar: report");          path NULL: r.file is NULL, and the program writes none
       report_answer(&r, "The noise is %.2g +- %.1g.", x, se);         one sentence, set large
       report_warning(&r, "The fit has not converged ..");             what makes the answer doubtful stands right below it
       report_text(&r, "Five series of %ld entries ..", n);            a paragraph
       report_section(&r, "The series");
       report_figure(&r);                                              then svg_begin(&plot) .. svg_end(&plot) with
                                                                       plot.file = r.file, or picture_embed(&p, r.file, "alt")
       report_caption(&r, "Look at ..");                               a sentence that says what to look at; ends the figure
       report_table(&r, "parameter|estimate|std. error");              the first column is text, the others are numbers
       report_row(&r, "kappa");
       report_cell(&r, 0, "%.3g", x);                                  1 instead of 0 marks the best value of its column
       report_number(&r, 4, x);                                        a cell with so many digits; a dash where x is none
       report_table_end(&r, "Standard errors from ..");                with a note below, or NULL
       report_close(&r, argc, argv, count, list);                      settings from the table of options, version, command line
       report_end(&r);                                                 the same as options_read has had them

   Text is escaped here; a figure's SVG is written as it is (report_escape for names in it). After Ctrl-C the same calls show what
   there is. Writing fails as for other files. Include after pu.h, program.h and svg.h. */
#ifndef EXAMPLES_REPORT_H
#define EXAMPLES_REPORT_H

#include <stdarg.h>
#include "svg.h"

typedef struct {
    FILE *file;
    const char *path;
} report_page;

/* Beside svg_style. A table that is too wide scrolls in its own box; words break before the page would grow. Pictures of class ink
   are ink on white paper: on a dark page they are turned over, and the paper is the page. */
static const char *const report_style =
    "*{box-sizing:border-box}html{color-scheme:light dark}\n"
    "body{max-width:40rem;margin:0 auto;padding:1rem;font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere;\n"
    "color:var(--ink);background:var(--paper)}\n"
    "h1{font-size:1rem;font-weight:600;color:var(--soft);margin:.5rem 0}h2{font-size:1.15rem;margin:2.2rem 0 .6rem}\n"
    ".answer{font-size:1.4rem;line-height:1.35;margin:.3rem 0 1rem}.soft,figcaption,footer{color:var(--soft);font-size:.875rem}\n"
    "figure{margin:1rem 0}figcaption{margin-top:.4rem}.plot{display:block;width:100%;height:auto}\n"
    ".box{overflow-x:auto;overflow-wrap:normal;margin:1rem 0 .4rem}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\n"
    "th,td{text-align:right;vertical-align:bottom;padding:.3rem .5rem;border-bottom:1px solid var(--rule);white-space:nowrap}\n"
    "th:first-child,td:first-child{text-align:left;padding-left:0}th{font-weight:600}.best{font-weight:700;color:var(--c3)}\n"
    ".pictures{display:flex;flex-wrap:wrap;gap:.75rem}.pictures>*{flex:1 1 8rem;margin:0;min-width:0}\n"
    "figure img{display:block;width:100%;height:auto;image-rendering:pixelated}\n"
    ".warning{border-left:.3rem solid var(--c1);padding:.3rem .8rem;margin:.8rem 0}\n"
    "dl{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,2fr);gap:.15rem .8rem;font-size:.875rem}dd{margin:0}dt{color:var(--soft)}\n"
    "footer{margin-top:2.5rem;border-top:1px solid var(--rule);padding-top:.6rem}code{font-size:.85rem}\n"
    ".smooth img{image-rendering:auto}@media (prefers-color-scheme:dark){.ink img{filter:invert(1);mix-blend-mode:screen}}\n"
    "@media (min-width:40rem){.plot{font-size:13px}}\n";

/* Text as HTML, and as SVG, has it. A number and its % stay together. */
static inline void report_escape(FILE *file, const char *text)
{
    char one[8];
    while (*text) {
        const int stays = *text == ' ' && text[1] == '%', length = svg_character(&text, one);
        if (stays) fputs("&#160;", file);
        else fwrite(one, 1, (size_t)length, file);
    }
}

/* before, the escaped text, after. Longer texts than 2000 bytes are cut. */
static inline void report_put(const report_page *r, const char *before, const char *after, const char *format, va_list list)
{
    char text[2001];
    vsnprintf(text, sizeof text, format, list);
    fputs(before, r->file), report_escape(r->file, text), fputs(after, r->file);
}

/* A number with so many digits, as people write them: 11410, not 1.141e+04. A dash where it is none. Stays until eight more were made. */
static inline const char *report_digits(int digits, double x)
{
    static char text[8][40];
    static int turn;
    char *to = text[turn = (turn + 1) % 8];
    const double size = fabs(x);
    if (!(x - x == 0)) snprintf(to, sizeof text[0], "-");
    else if (size < 1e7 && size >= 1e-4) snprintf(to, sizeof text[0], "%.*f", (int)fmax(0, digits - 1 - floor(log10(size) + 1e-12)), x);
    else snprintf(to, sizeof text[0], "%.*g", digits, x);
    return to;
}

/* Adds a sentence to a text that is put together, with a blank between. */
static inline void report_add(char *text, size_t size, const char *format, ...)
{
    const size_t used = strlen(text);
    va_list list;
    if (used + 2 > size) return;
    if (used) text[used] = ' ';
    va_start(list, format);
    vsnprintf(text + used + (used > 0), size - used - (used > 0), format, list);
    va_end(list);
}

/* The name of a file without its directories. */
static inline const char *report_base(const char *path)
{
    const char *base = strrchr(path, '/');
    return base && base[1] ? base + 1 : path;
}

static inline report_page report_open(const char *path, const char *title)
{
    report_page r;
    r.path = path, r.file = path ? file_open(path) : NULL;
    if (!path) return r;
    fprintf(r.file, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                    "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>");
    report_escape(r.file, title);
    fprintf(r.file, "</title>\n<style>\n%s%s</style>\n</head>\n<body>\n<h1>", svg_style, report_style);
    report_escape(r.file, title);
    fprintf(r.file, "</h1>\n");
    return r;
}

static inline void report_answer(const report_page *r, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    report_put(r, "<p class=\"answer\">", "</p>\n", format, list);
    va_end(list);
}

static inline void report_text(const report_page *r, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    report_put(r, "<p>", "</p>\n", format, list);
    va_end(list);
}

static inline void report_warning(const report_page *r, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    report_put(r, "<p class=\"warning\">", "</p>\n", format, list);
    va_end(list);
}

static inline void report_section(const report_page *r, const char *heading)
{
    fprintf(r->file, "<h2>"), report_escape(r->file, heading), fprintf(r->file, "</h2>\n");
}

static inline void report_figure(const report_page *r) { fprintf(r->file, "<figure>\n"); }

static inline void report_caption(const report_page *r, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    report_put(r, "<figcaption>", "</figcaption>\n</figure>\n", format, list);
    va_end(list);
}

/* Headings with a | between. */
static inline void report_table(const report_page *r, const char *columns)
{
    fprintf(r->file, "<div class=\"box\"><table>\n<thead><tr>");
    while (*columns) {
        const int length = (int)strcspn(columns, "|");
        char name[200];
        snprintf(name, sizeof name, "%.*s", length, columns);
        fprintf(r->file, "<th>"), report_escape(r->file, name), fprintf(r->file, "</th>");
        columns += length, columns += *columns == '|';
    }
    fprintf(r->file, "</tr></thead>\n<tbody>");
}

/* Begins a row with its first cell. The row ends where the next one or the end of the table comes, as HTML allows. */
static inline void report_row(const report_page *r, const char *name)
{
    fprintf(r->file, "\n<tr><td>"), report_escape(r->file, name), fprintf(r->file, "</td>");
}

static inline void report_cell(const report_page *r, int best, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    report_put(r, best ? "<td class=\"best\">" : "<td>", "</td>", format, list);
    va_end(list);
}

static inline void report_number(const report_page *r, int digits, double x) { report_cell(r, 0, "%s", report_digits(digits, x)); }

static inline void report_table_end(const report_page *r, const char *note)
{
    fprintf(r->file, "\n</tbody></table></div>\n");
    if (!note) return;
    fprintf(r->file, "<p class=\"soft\">"), report_escape(r->file, note), fprintf(r->file, "</p>\n");
}

/* Is this an option about simulated data, beside data of the user's? */
static inline int report_idle(int count, const option *list, const option *o)
{
    int i, data = 0;
    for (i = 0; i < count; i++) data |= !strcmp(list[i].name, "data") && *list[i].text;
    return data && (!strncmp(o->help, "simulate", 8) || !strncmp(o->help, "without --data", 14));
}

/* All options with the values that counted, but for those that were not given and have none. */
static inline void report_settings(const report_page *r, int count, const option *list)
{
    int i;
    fprintf(r->file, "<h2>Settings</h2>\n<dl>\n");
    for (i = 0; i < count; i++) {
        const option *o = &list[i];
        char value[64];
        if (!*o->name || report_idle(count, list, o)) continue; /* a heading */
        if (o->text && !*o->text) continue;
        if (o->choice && !o->choices && !*o->choice) continue;
        if (o->real && *o->real != *o->real) continue;
        if (o->number) snprintf(value, sizeof value, "%ld", *o->number);
        else if (o->real) snprintf(value, sizeof value, "%g", *o->real);
        else if (o->choices) snprintf(value, sizeof value, "%.*s", (int)strcspn(option_word(o, *o->choice), ","), option_word(o, *o->choice));
        else snprintf(value, sizeof value, "yes");
        fprintf(r->file, "<dt>%s</dt><dd>", o->name);
        report_escape(r->file, o->text ? *o->text : value);
        fprintf(r->file, "</dd>\n");
    }
    fprintf(r->file, "</dl>\n");
}

static inline void report_close(report_page *r, int argc, char **argv, int count, const option *list)
{
    int i;
    report_settings(r, count, list);
    fprintf(r->file, "<footer>pu %s, %s precision.<br><code>", pu_version(), sizeof(pu_real) == sizeof(float) ? "single" : "double");
    report_escape(r->file, report_base(argv[0]));
    for (i = 1; i < argc; i++) fputc(' ', r->file), report_escape(r->file, argv[i]);
    fprintf(r->file, "</code></footer>\n</body>\n</html>\n");
    file_close(r->file, r->path);
    r->file = NULL;
}

static inline void report_end(report_page *r)
{
    report_close(r, program_call.argc, program_call.argv, program_call.count, program_call.list);
}

#endif /* EXAMPLES_REPORT_H */
