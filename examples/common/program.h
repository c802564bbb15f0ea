/* program.h - what the larger examples share around the work itself: options, errors, memory, files, clock.

   Options are --name VALUE or --name=VALUE, flags are --name, and --help. A wrong command line is explained on
   stderr and ends the program with code 2, any other failure with code 1; output that cannot be written (a full disk) is one.
   Include after pu.h; needs POSIX 2008 for the clock.
*/
#ifndef EXAMPLES_PROGRAM_H
#define EXAMPLES_PROGRAM_H

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    const char *name; /* without the dashes */
    const char *help;
    long *number; /* an integer from min to max, or */
    long min, max;
    const char **text; /* a string that is not empty, or */
    double *real;      /* a number from low to high, or */
    double low, high;
    int *choice; /* the place of a word in `choices`, or, without those, a flag that becomes 1 */
    const char *choices; /* words with a comma between */
} option;

/* One line of an option table each. */
static inline option opt_number(const char *name, const char *help, long *number, long min, long max)
{
    option o = {NULL, NULL, NULL, 0, 0, NULL, NULL, 0, 0, NULL, NULL};
    o.name = name, o.help = help, o.number = number, o.min = min, o.max = max;
    return o;
}

static inline option opt_real(const char *name, const char *help, double *real, double low, double high)
{
    option o = {NULL, NULL, NULL, 0, 0, NULL, NULL, 0, 0, NULL, NULL};
    o.name = name, o.help = help, o.real = real, o.low = low, o.high = high;
    return o;
}

static inline option opt_text(const char *name, const char *help, const char **text)
{
    option o = {NULL, NULL, NULL, 0, 0, NULL, NULL, 0, 0, NULL, NULL};
    o.name = name, o.help = help, o.text = text;
    return o;
}

static inline option opt_choice(const char *name, const char *help, int *choice, const char *choices)
{
    option o = {NULL, NULL, NULL, 0, 0, NULL, NULL, 0, 0, NULL, NULL};
    o.name = name, o.help = help, o.choice = choice, o.choices = choices;
    return o;
}

static inline option opt_flag(const char *name, const char *help, int *flag)
{
    return opt_choice(name, help, flag, NULL);
}

/* A line among the options, above those that belong together. */
static inline option opt_heading(const char *text)
{
    option o = {"", NULL, NULL, 0, 0, NULL, NULL, 0, 0, NULL, NULL};
    o.help = text;
    return o;
}

static const char *program_name = "example";

/* What options_read has read, for a page of results to tell; the table must live as long as that. */
static struct {
    int argc, count;
    char **argv;
    const option *list;
} program_call;

static inline void fail(int code, const char *what, const char *why)
{
    fprintf(stderr, "%s: %s: %s\n", program_name, what, why);
    exit(code);
}

/* After a call that sets errno. */
static inline void fail_errno(const char *what, const char *path)
{
    fprintf(stderr, "%s: %s %s: %s\n", program_name, what, path, strerror(errno));
    exit(1);
}

/* At the end of the program: what was printed must have arrived. exit() is on its way and cannot be called again. */
static inline void output_close(void)
{
    const int bad = ferror(stdout);
    if (fclose(stdout) == 0 && !bad) return;
    fprintf(stderr, "%s: standard output: writing failed\n", program_name);
    _exit(1);
}

/* ---- options ---- */

/* where word number `place` of the choices begins */
static inline const char *option_word(const option *o, int place)
{
    const char *at = o->choices;
    for (; place > 0 && strchr(at, ','); place--) at = strchr(at, ',') + 1;
    return at;
}

/* What --help says below the options: examples, what is written where. Set before options_read; NULL: nothing. */
static const char *program_more;

enum { HELP_INDENT = 29, HELP_WIDTH = 100 };

/* A text in lines of at most HELP_WIDTH characters from column `at` on, broken at blanks; later lines begin at HELP_INDENT. */
static inline void help_wrap(const char *text, int at)
{
    while (*text) {
        int word = (int)strcspn(text, " ");
        if (at > HELP_INDENT && at + 1 + word > HELP_WIDTH) printf("\n%*s", HELP_INDENT, ""), at = HELP_INDENT;
        else if (at > HELP_INDENT) printf(" "), at++;
        printf("%.*s", word, text);
        at += word, text += word, text += strspn(text, " ");
    }
}

/* What follows the explanation of an option: the words it takes, and its default, where there is one. */
static inline void help_values(const option *o, char *text, size_t size)
{
    size_t used = 0;
    const char *word;
    *text = 0;
    if (o->number) snprintf(text, size, "(%ld)", *o->number);
    else if (o->real && *o->real == *o->real) snprintf(text, size, "(%g)", *o->real);
    else if (o->text && *o->text) snprintf(text, size, "(%.200s)", *o->text);
    if (!o->choices) return;
    for (word = o->choices; *word && used < size; word += strcspn(word, ","), word += *word == ',')
        used += (size_t)snprintf(text + used, size - used, "%s%.*s", used ? ", " : "", (int)strcspn(word, ","), word);
    word = option_word(o, *o->choice);
    if (used < size) snprintf(text + used, size - used, " (%.*s)", (int)strcspn(word, ","), word);
}

static inline void help_option(const option *o)
{
    const char *takes = o->number || o->real ? "NUMBER" : o->choices ? "WORD" : o->text ? "TEXT" : "";
    char values[600], whole[1400];
    int at = printf("  --%s %s", o->name, takes);
    if (at > HELP_INDENT - 2) printf("\n"), at = 0;
    printf("%*s", HELP_INDENT - at, "");
    help_values(o, values, sizeof values);
    snprintf(whole, sizeof whole, "%.700s%s %s", o->help, o->choices ? "; one of" : "", values);
    help_wrap(whole, HELP_INDENT);
    printf("\n");
}

static inline void options_help(const char *about, int count, const option *list)
{
    const option help = opt_flag("help", "this text", NULL);
    int i;
    printf("usage: %s [options]\n%s\n\noptions (default)\n", program_name, about);
    for (i = 0; i < count; i++)
        if (*list[i].name) help_option(&list[i]);
        else printf("\n%s\n", list[i].help);
    help_option(&help);
    if (program_more) printf("\n%s\n", program_more);
    printf("\nends with 0; 1 where something failed, 2 where the command line is wrong (stderr says what, and what would do); 130 after\n"
           "Ctrl-C, with the results of what there is\n");
}

/* *o->choice = the place of this word */
static inline void option_choose(const option *o, const char *word, const char *value)
{
    const char *at = o->choices;
    int place;
    for (place = 0; at; place++, at = strchr(at, ','), at = at ? at + 1 : NULL)
        if (strlen(value) == strcspn(at, ",") && !strncmp(at, value, strlen(value))) {
            *o->choice = place;
            return;
        }
    {
        char why[300];
        snprintf(why, sizeof why, "needs one of %.200s, not %.40s", o->choices, value);
        fail(2, word, why);
    }
}

static inline void options_read(int argc, char **argv, const char *name, const char *about, int count,
                                const option *list)
{
    int i, j;
    program_name = name;
    program_call.argc = argc, program_call.argv = argv, program_call.count = count, program_call.list = list;
    if (atexit(output_close)) fail(1, "atexit", "failed");
    for (i = 1; i < argc; i++) {
        const char *word = argv[i], *value = strchr(word, '=');
        const size_t length = value ? (size_t)(value - word) : strlen(word);
        const option *o = NULL;
        if (!strcmp(word, "--help") || !strcmp(word, "-h")) {
            options_help(about, count, list);
            exit(0);
        }
        for (j = 0; j < count && !o; j++)
            if (*list[j].name && !strncmp(word, "--", 2) && length == strlen(list[j].name) + 2 &&
                !strncmp(word + 2, list[j].name, length - 2))
                o = &list[j];
        if (!o) fail(2, word, "no such option; see --help");
        if (o->choice && !o->choices) { /* a flag */
            if (value) fail(2, word, "takes no value; see --help");
            *o->choice = 1;
            continue;
        }
        value = value ? value + 1 : i + 1 < argc ? argv[++i] : "";
        if (!*value) fail(2, word, "needs a value; see --help");
        if (o->choices) option_choose(o, word, value);
        else if (o->real) {
            char *end, why[120];
            *o->real = strtod(value, &end);
            snprintf(why, sizeof why, "needs a number from %g to %g, not %.40s", o->low, o->high, value);
            if (*end || !(*o->real >= o->low && *o->real <= o->high)) fail(2, word, why);
        } else if (o->number) {
            char *end, why[100];
            errno = 0;
            *o->number = strtol(value, &end, 10);
            snprintf(why, sizeof why, "needs an integer from %ld to %ld, not %.40s", o->min, o->max, value);
            if (*end || errno || *o->number < o->min || *o->number > o->max) fail(2, word, why);
        } else {
            *o->text = value;
        }
    }
}

/* was --name, or --name=VALUE, on the command line? */
static inline int option_given(int argc, char **argv, const char *name, size_t length)
{
    int i;
    for (i = 1; i < argc; i++)
        if (!strncmp(argv[i], "--", 2) && !strncmp(argv[i] + 2, name, length) && strchr("=", argv[i][2 + length])) return 1;
    return 0;
}

/* Options that mean nothing beside --one are refused beside it; words with a comma between. */
static inline void options_apart(int argc, char **argv, const char *one, const char *others)
{
    if (!option_given(argc, argv, one, strlen(one))) return;
    for (; *others; others += strcspn(others, ","), others += *others == ',') {
        char word[64], why[128];
        if (!option_given(argc, argv, others, strcspn(others, ","))) continue;
        snprintf(word, sizeof word, "--%.*s", (int)strcspn(others, ","), others);
        snprintf(why, sizeof why, "says how to simulate, but --%.60s names what is there", one);
        fail(2, word, why);
    }
}

/* ---- errors, memory, files, time: an example has nothing better to do than to stop ---- */

static int need_silent; /* of what is only tried: a result that has lost digits is no news */

static inline void need(pu_status status, const pu_report *report)
{
    static int warned;
    char text[200];
    if (status == PU_INEXACT) { /* there is a result, and the report knows its error: said once */
        if (need_silent) return;
        if (!warned) fprintf(stderr, "%s: %s\n", program_name, pu_explain(report, text, sizeof text));
        warned = 1;
    } else if (status != PU_OK) fail(1, "pu", pu_explain(report, text, sizeof text));
}

/* The same for a call whose result can be used although a solve ended at its cap or at rounding level; says so. */
static inline void need_result(pu_status status, const pu_report *report)
{
    char text[200];
    if (status == PU_CAP || status == PU_STAGNATED)
        fprintf(stderr, "%s: %s\n", program_name, pu_explain(report, text, sizeof text));
    else need(status, report);
}

static inline void *need_bytes(size_t bytes)
{
    void *block = calloc(bytes ? bytes : 1, 1);
    if (!block) fail(1, "memory", "there is not enough");
    return block;
}

static inline pu_real *need_reals(pu_int count)
{
    return (pu_real *)need_bytes((size_t)count * sizeof(pu_real));
}

static inline FILE *file_open(const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file) fail_errno("cannot write", path);
    return file;
}

/* Do both names mean one file, whatever they look like? A device is none: /dev/null takes everything. */
static inline int file_is_same(const char *a, const char *b)
{
    struct stat p, q;
    return stat(a, &p) == 0 && stat(b, &q) == 0 && S_ISREG(p.st_mode) && p.st_dev == q.st_dev && p.st_ino == q.st_ino;
}

/* A result must not be written over what another option names: the data, or another result, of which `taken` are the names so far. */
static inline void file_apart(const char *path)
{
    enum { MOST = 16 };
    static const char *taken[MOST];
    static int count;
    char what[300], why[200];
    int i;
    snprintf(what, sizeof what, "%.290s", path);
    for (i = 0; i < program_call.count; i++) {
        const option *o = program_call.list + i;
        if (!o->text || !*o->text || *o->text == path || !file_is_same(path, *o->text)) continue;
        snprintf(why, sizeof why, "would be written over --%.60s: name another file", o->name);
        fail(2, what, why);
    }
    for (i = 0; i < count; i++)
        if (taken[i] != path && !strcmp(taken[i], path) && strncmp(path, "/dev/", 5))
            fail(2, what, "is where two results would go: name another file for one");
    if (count < MOST) taken[count++] = path;
}

/* Better to fail now than after the work: can this file be written, and is nothing there that is needed? NULL: none is wanted. */
static inline void file_ready(const char *path)
{
    FILE *there, *file;
    if (!path) return;
    file_apart(path);
    there = fopen(path, "r"), file = fopen(path, "a");
    if (!file) fail_errno("cannot write", path);
    fclose(file);
    if (there) fclose(there);
    else remove(path); /* an empty file would look like a result */
}

static inline void file_close(FILE *file, const char *path)
{
    const int bad = ferror(file);
    if (fclose(file) || bad) fail(1, path, "writing failed");
}

static inline double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* |x - y| / |y| */
static inline double relative_error(pu_int n, const pu_real *x, const pu_real *y)
{
    double error = 0, size = 0;
    pu_int i;
    for (i = 0; i < n; i++) {
        error += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        size += (double)y[i] * (double)y[i];
    }
    return sqrt(error / size);
}

#endif /* EXAMPLES_PROGRAM_H */
