/* golden.c - pu.h against stored numbers (format of the files: tests/golden/README.md).

       golden [--verbose] [--device cpu|cuda] FILE...

   One line per file with the worst relative error of each kind of record, then the last line
   "N passed, N failed". A file fails when it is malformed, lacks a record, holds one that no check
   uses, or when a number is off by more than its tolerance.

   Adding a model: write the two functions of `struct family` and add a line to `models`; for one of the
   library's own models these are a line in setup_named and pull_named.

   TOLERANCES. The error of a record is max|got - want| / max|want| over the record; cond is the
   largest |A| |Sigma| (infinity norms) over the data; eps is the rounding unit of pu_real.
     floor     double: 1e-11, far above the rounding errors of the stored numbers. float:
               16 eps cond, because rounding the inputs to float alone moves a solution by up to
               eps cond; sums are short (at most 24 terms), so 16 covers the arithmetic after it.
               What a solver made in I steps: I times that.
     network   net_grad, logdet_A_estimate: max(floor, 100 err_est eps / eps_double). err_est is
               stored with each run: the relative error that double precision suffers in the
               network gradient, measured against 80 bits; so err_est / eps_double is how much
               the run amplifies rounding, in any precision. err_est_detached likewise for the
               shortcut, which amplifies more.
     forward   x, r, alpha, beta and, through x, q_I, F_net and out_grad: CG loses more digits in
               these than in the network gradient. max(floor, 20 spread), where the spread is the
               distance between textbook CG in the precision of pu_real and CG that is kept
               orthogonal, in double: both written here, on the stored A, the former four times
               with A and u changed by eps. At the stored x, given as a warm start without steps,
               q_I and out_grad must agree to the floor.
     residual  u - A x is a difference: 16 eps cond max|u| is allowed in addition.
     cancelled float: a gradient is a difference of the gradient of c and of terms in x; its tolerance is
               relative to the larger of the two (the former is stored: no steps).
     zero      a gradient record below 16 eps_double times the largest entry of its gradient is
               rounding of a zero: then ours must be one to 16 eps of that entry.
     values    q, F, nll are sums of terms as large as c that cancel: 16 eps max|c| in addition.
   Where this exceeds 1/4 a comparison says nothing: it is not made, and the line says so. */
#define _POSIX_C_SOURCE 200809L /* execv */
#include "pu.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef PU_FLOAT
#define EPS       ((double)FLT_EPSILON)
#define PRECISION "float"
#else
#define EPS       DBL_EPSILON
#define PRECISION "double"
#endif

enum { MAX_DIMS = 3, MAX_NAME = 128, MAX_NOTE = 256, MAX_MESSAGES = 12 };

static const double VACUOUS = 0.25; /* a tolerance above this does not tell right from wrong */
static int verbose = 0;

/* ---- files ----------------------------------------------------------------------------------- */

typedef enum { UNUSED, INPUT, CHECKED, NOT_COMPARABLE, USES } record_use;

typedef struct {
    const char *name;
    const char *text; /* a string record; NULL for numbers */
    int line;
    int ndim;
    size_t dim[MAX_DIMS];
    size_t count;
    double *value;
    record_use use; /* what became of it: no record may end as UNUSED */
} record;

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

static void die(const char *what)
{
    fprintf(stderr, "golden: %s\n", what);
    exit(2);
}

/* Zeroed memory that lives as long as the file. */
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

static double *take_doubles(file *f, size_t count)
{
    return (double *)take(f, count, sizeof(double));
}

static pu_real *take_reals(file *f, pu_int count)
{
    return (pu_real *)take(f, (size_t)count, sizeof(pu_real));
}

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

static int read_buffer(file *f, const char *path)
{
    size_t capacity = 1 << 16, got;
    FILE *stream = fopen(path, "rb");
    if (!stream) {
        fail(f, "cannot be opened");
        return 0;
    }
    f->buffer = (char *)malloc(capacity);
    while (f->buffer && (got = fread(f->buffer + f->size, 1, capacity - f->size, stream)) > 0) {
        f->size += got;
        if (f->size == capacity) f->buffer = (char *)realloc(f->buffer, capacity *= 2);
    }
    if (!f->buffer) die("out of memory");
    if (ferror(stream)) fail(f, "cannot be read");
    fclose(stream);
    return f->errors == 0;
}

static record *find(const file *f, const char *name)
{
    size_t i;
    for (i = 0; i < f->count; i++)
        if (strcmp(f->records[i].name, name) == 0) return &f->records[i];
    return NULL;
}

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

static int is_name(const char *word)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._";
    size_t length = strlen(word);
    return length > 0 && length < MAX_NAME && strspn(word, allowed) == length;
}

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
            fail(f, "line %d: %s: value %lu, \"%.40s\", is not a number", r->line, r->name,
                 (unsigned long)i, word);
            return;
        }
    }
    if (cursor) fail(f, "line %d: %s: more than %lu values", r->line, r->name, (unsigned long)i);
}

static void parse_numbers(file *f, record *r, const char *ndim, char *cursor)
{
    size_t dims, i;
    if (!parse_size(ndim, &dims) || dims > MAX_DIMS) {
        fail(f, "line %d: %s: bad number of dimensions", r->line, r->name);
        return;
    }
    r->ndim = (int)dims;
    r->count = 1;
    for (i = 0; i < dims; i++) {
        /* No record is larger than its line is long, so that a wild size cannot exhaust memory. */
        if (!parse_size(next_word(&cursor), &r->dim[i]) || r->dim[i] == 0 ||
            (r->count *= r->dim[i]) > f->size) {
            fail(f, "line %d: %s: bad dimension %lu", r->line, r->name, (unsigned long)i + 1);
            return;
        }
    }
    r->value = take_doubles(f, r->count);
    parse_values(f, r, cursor);
}

static void parse_line(file *f, char *line, int number)
{
    char *cursor = line, *name = next_word(&cursor), *kind = next_word(&cursor);
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

/* ---- the problem of a file ------------------------------------------------------------------- */

/* Kinds of record in the order of the output line: identifier, heading. */
#define KIND_LIST(X)                                                                               \
    X(K_PROBE, "probe")                                                                            \
    X(K_MODEL, "model")                                                                            \
    X(K_A, "A")                                                                                    \
    X(K_B, "b")                                                                                    \
    X(K_C, "c")                                                                                    \
    X(K_MU, "mu")                                                                                  \
    X(K_SIGMA, "Sigma")                                                                            \
    X(K_LOGDET, "logdet")                                                                          \
    X(K_NLL, "nll")                                                                                \
    X(K_Q, "q")                                                                                    \
    X(K_GSTAR, "g*")                                                                               \
    X(K_SAMPLE, "sigma#")                                                                          \
    X(K_GSHARP, "g#")                                                                              \
    X(K_X, "x")                                                                                    \
    X(K_R, "r")                                                                                    \
    X(K_ALPHA, "alpha")                                                                            \
    X(K_BETA, "beta")                                                                              \
    X(K_QI, "qI")                                                                                  \
    X(K_F, "F")                                                                                    \
    X(K_OUT, "out")                                                                                \
    X(K_NET, "net")                                                                                \
    X(K_SHORTCUT, "shortcut")                                                                      \
    X(K_REORTHOGONAL, "reorth")                                                                    \
    X(K_AUTO, "auto")                                                                              \
    X(K_TAPE, "tape")                                                                              \
    X(K_SLQ, "slq")

typedef enum {
#define X(id, heading) id,
    KIND_LIST(X)
#undef X
        KINDS
} kind;

static const char *const headings[KINDS] = {
#define X(id, heading) heading,
    KIND_LIST(X)
#undef X
};

typedef struct {
    long count;
    double worst; /* largest error */
    double ratio; /* largest error / allowed */
} tally;

/* Gradients as the library returns them: of nu, eta, psi and of the operators' own parameters. */
typedef struct {
    pu_real *nu, *Gamma, *Phi, *eta, *psi;
} gradient;

typedef struct problem problem;

typedef struct family {
    const char *name;
    /* Makes p->lgm out of the theta.* and extra.* records, read with input(). The operators, in
       p->prior and p->map or in memory of take(), live as long as p->f. 0 after fail(). */
    int (*setup)(problem *p);
    /* out: the gradient of one theta record, from the gradients that the library returned. */
    void (*pull_back)(problem *p, const gradient *g, const record *theta, double *out);
} family;

struct problem {
    file *f;
    const family *model;
    pu_model named;     /* fa, ppca, sbl, blr, nlm */
    pu_int D, M, N, K;
    pu_op prior, map;
    pu_fourier *fourier; /* sbl on a grid */
    pu_ar *ar;         /* ar, ar_phi */
    pu_int states;     /* ssm */
    pu_lgm lgm;
    pu_data data;
    pu_real *y, *delta, *minv, *step;
    unsigned char *mask;
    pu_workspace ws;
    const double *A, *b, *u, *m; /* the systems, as stored: A [b | u], preconditioner m */
    double c;                    /* largest |c| */
    double cond;                 /* of A, a bound */
    double rounding;             /* 16 eps cond */
    double floor_;               /* smallest tolerance */
    tally tallies[KINDS];
    long beyond; /* step sizes not compared: the column had reached rounding level before */
    char notes[KINDS][MAX_NOTE]; /* runs where a comparison would say nothing */
};

/* A record that a check needs, of shape dims, e.g. "NKD". NULL after a message when it is missing
   or has another shape. */
static record *need(problem *p, const char *name, const char *dims)
{
    record *r = find(p->f, name);
    int i, ok = r && !r->text && r->ndim == (int)strlen(dims);
    for (i = 0; ok && i < r->ndim; i++) {
        pu_int want = dims[i] == 'D' ? p->D : dims[i] == 'M' ? p->M : dims[i] == 'N' ? p->N : p->K;
        ok = r->dim[i] == (size_t)want;
    }
    if (ok) return r;
    if (r) {
        fail(p->f, "line %d: %s: has not the shape (%s)", r->line, name, dims);
        r->use = CHECKED;
    } else {
        fail(p->f, "%s: no such record", name);
    }
    return NULL;
}

/* The same, used as input. */
static const double *input(problem *p, const char *name, const char *dims)
{
    record *r = need(p, name, dims);
    if (!r) return NULL;
    if (r->use == UNUSED) r->use = INPUT;
    return r->value;
}

static pu_real *input_reals(problem *p, const char *name, const char *dims)
{
    const double *value = input(p, name, dims);
    size_t i, count;
    pu_real *copy;
    if (!value) return NULL;
    count = find(p->f, name)->count;
    copy = (pu_real *)take(p->f, count, sizeof(pu_real));
    for (i = 0; i < count; i++) copy[i] = (pu_real)value[i];
    return copy;
}

/* Is there a record whose name begins like this? */
static int has_records(const problem *p, const char *prefix)
{
    size_t i;
    for (i = 0; i < p->f->count; i++)
        if (strncmp(p->f->records[i].name, prefix, strlen(prefix)) == 0) return 1;
    return 0;
}

static double largest(size_t n, const double *v)
{
    double m = 0;
    size_t i;
    for (i = 0; i < n; i++)
        if (fabs(v[i]) > m) m = fabs(v[i]);
    return m;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static double relative_error(size_t n, const double *got, const double *want)
{
    double error = 0, scale = largest(n, want);
    size_t i;
    for (i = 0; i < n; i++) {
        double e = fabs(got[i] - want[i]);
        if (!(e <= DBL_MAX)) return HUGE_VAL;
        if (e > error) error = e;
    }
    return scale > 0 ? error / scale : error;
}

static double largest_change(size_t n, const double *a, const double *b)
{
    double m = 0;
    size_t i;
    for (i = 0; i < n; i++) m = fmax(m, fabs(a[i] - b[i]));
    return m;
}

/* The tolerance of a record that rounding may move by `spread`. */
static double with_spread(const record *r, double floor_, double spread)
{
    double scale = largest(r->count, r->value);
    return fmax(floor_, 20 * spread / (scale > 0 ? scale : 1));
}

/* Remembers the run of a record, "cg_I5" of "solver.cg_I5.net_grad.nu", as not comparable. */
static void note(problem *p, kind k, const char *name)
{
    const char *from = strncmp(name, "solver.", 7) == 0 ? name + 7 : name;
    char *notes = p->notes[k], run_name[MAX_NAME + 1];
    size_t length = strlen(notes);
    snprintf(run_name, sizeof run_name, " %.*s", (int)strcspn(from, "."), from);
    if (!strstr(notes, run_name)) snprintf(notes + length, MAX_NOTE - length, "%s", run_name);
}

static void compare_record(problem *p, kind k, record *r, const double *got, double allowed)
{
    tally *t = &p->tallies[k];
    double error;
    if (allowed > VACUOUS) {
        if (r->use == UNUSED) r->use = NOT_COMPARABLE;
        note(p, k, r->name);
        return;
    }
    error = relative_error(r->count, got, r->value);
    r->use = CHECKED;
    t->count++;
    if (error > t->worst) t->worst = error;
    if (error / allowed > t->ratio) t->ratio = error / allowed;
    if (!(error <= allowed)) {
        fail(p->f, "line %d: %s (%s): relative error %.2e, allowed %.1e", r->line, r->name,
             headings[k], error, allowed);
    } else if (verbose) {
        printf("    %-40s %-8s error %.1e  allowed %.1e\n", r->name, headings[k], error, allowed);
    }
}

static void compare(problem *p, kind k, const char *name, const char *dims, const double *got,
                    double allowed)
{
    record *r = need(p, name, dims);
    if (r) compare_record(p, k, r, got, allowed);
}

static void compare_reals(problem *p, kind k, const char *name, const char *dims,
                          const pu_real *got, double allowed)
{
    record *r = need(p, name, dims);
    double *copy;
    size_t i;
    if (!r) return;
    copy = take_doubles(p->f, r->count);
    for (i = 0; i < r->count; i++) copy[i] = (double)got[i];
    compare_record(p, k, r, copy, allowed);
}

/* A value of an objective: a scalar, where `allowed` already holds any spread. */
static void compare_value(problem *p, kind k, const char *name, double got, double allowed)
{
    record *r = need(p, name, "");
    if (!r) return;
    if (fabs(r->value[0]) > 0) allowed += 16 * EPS * p->c / fabs(r->value[0]);
    compare_record(p, k, r, &got, allowed);
}

/* ---- models ---------------------------------------------------------------------------------- */

/* Dense operators; G is symmetrised because its two triangles may differ in the last digit. */
static int dense_model(problem *p, pu_real *nu, const double *G, pu_real *Phi, pu_real *eta,
                       pu_real *psi)
{
    pu_real *Gamma = take_reals(p->f, p->D * p->D), *factor = take_reals(p->f, p->D * p->D);
    pu_int i, j;
    pu_status status;
    if (!nu || !G || !Phi || !eta || !psi) return 0;
    for (i = 0; i < p->D; i++)
        for (j = 0; j < p->D; j++)
            Gamma[i * p->D + j] = (pu_real)((G[i * p->D + j] + G[j * p->D + i]) / 2);
    status = pu_op_spd_factor(p->D, Gamma, factor, NULL);
    if (status != PU_OK) fail(p->f, "Gamma: pu_op_spd_factor: %s", pu_status_text(status));
    p->prior = pu_op_spd(p->D, Gamma, factor);
    p->map = pu_op_dense(p->M, p->D, Phi);
    p->lgm.Gamma = &p->prior;
    p->lgm.Phi = &p->map;
    p->lgm.nu = nu;
    p->lgm.eta = eta;
    p->lgm.psi = psi;
    return status == PU_OK;
}

static int setup_generic(problem *p)
{
    return dense_model(p, input_reals(p, "theta.nu", "D"), input(p, "theta.Gamma", "DD"),
                       input_reals(p, "theta.Phi", "MD"), input_reals(p, "theta.eta", "M"),
                       input_reals(p, "theta.psi", "M"));
}

static void pull_back_generic(problem *p, const gradient *g, const record *theta, double *out)
{
    const char *name = theta->name + strlen("theta.");
    const pu_real *from = strcmp(name, "nu") == 0      ? g->nu
                          : strcmp(name, "Gamma") == 0 ? g->Gamma
                          : strcmp(name, "Phi") == 0   ? g->Phi
                          : strcmp(name, "eta") == 0   ? g->eta
                                                       : g->psi;
    size_t i;
    (void)p;
    for (i = 0; i < theta->count; i++) out[i] = (double)from[i];
}

static pu_real *take_nan(file *f, pu_int count)
{
    pu_real *v = take_reals(f, count);
    pu_int i;
    for (i = 0; i < count; i++) v[i] = (pu_real)NAN; /* what the library does not write shows */
    return v;
}

/* ---- the paper's models ---- */

/* A record of any length, as input. */
static const record *raw(problem *p, const char *name)
{
    record *r = find(p->f, name);
    if (!r) fail(p->f, "%s: missing", name);
    else if (r->use == UNUSED) r->use = INPUT;
    return r;
}

static double scalar(problem *p, const char *name)
{
    const double *v = input(p, name, "");
    return v ? *v : 0;
}

/* n entries exp(log[0 or i]) */
static pu_real *exponentials(problem *p, pu_int n, const double *log_value, int each)
{
    pu_real *x = take_reals(p->f, n);
    pu_int i;
    for (i = 0; log_value && i < n; i++) x[i] = (pu_real)exp(log_value[each ? i : 0]);
    return log_value ? x : NULL;
}

/* The operators are in p->prior and p->map; eta may be NULL. */
static int finish_model(problem *p, pu_real *eta, pu_real *psi)
{
    p->lgm.Gamma = &p->prior;
    p->lgm.Phi = &p->map;
    p->lgm.nu = NULL;
    p->lgm.eta = eta;
    p->lgm.psi = psi;
    return psi && p->prior.rows == p->D && p->map.rows == p->M && p->map.cols == p->D;
}

static int is(const record *theta, const char *name)
{
    return strcmp(theta->name + strlen("theta."), name) == 0;
}

/* d/dlog of psi = exp(sign * log): all M at once, since they share it */
static double pull_log_psi(const problem *p, const gradient *g, double sign)
{
    double sum = 0;
    pu_int i;
    for (i = 0; i < p->M; i++) sum += sign * (double)p->lgm.psi[i] * (double)g->psi[i];
    return sum;
}

static pu_real *copy_in(problem *p, const record *r)
{
    pu_real *x = take_reals(p->f, (pu_int)r->count);
    size_t i;
    for (i = 0; i < r->count; i++) x[i] = (pu_real)r->value[i];
    return x;
}

static void copy_out(size_t n, const pu_real *from, double *out)
{
    size_t i;
    for (i = 0; i < n; i++) out[i] = (double)from[i];
}

/* A Fourier dictionary where the file has a grid, else the matrix. */
static int setup_dictionary(problem *p)
{
    if (find(p->f, "extra.grid")) {
        const record *grid = raw(p, "extra.grid");
        pu_fourier *f = (pu_fourier *)take(p->f, 1, sizeof *f);
        size_t bytes = 0;
        pu_int rows = (pu_int)grid->value[0], cols = (pu_int)grid->value[1];
        void *memory;
        raw(p, "extra.Phi"), raw(p, "extra.fmask"), raw(p, "extra.y_re"), raw(p, "extra.y_im"); /* the same, restated */
        if (pu_fourier_bytes(rows, cols, &bytes) != PU_OK) return 0;
        memory = take(p->f, bytes, 1);
        if (pu_fourier_init(f, rows, cols, memory, bytes) != PU_OK) return 0;
        p->fourier = f;
        p->map = pu_op_fourier(f);
        return 1;
    }
    p->map = pu_op_dense(p->M, p->D, input_reals(p, find(p->f, "extra.X") ? "extra.X" : "extra.Phi", "MD"));
    return p->map.data != NULL;
}

/* The library's own models. The theta records in the order of its theta; *at of one: its offset there, *params: their lengths
   together. */
static const record *theta_part(problem *p, const char *name, pu_int *at, pu_int *params)
{
    static const char *const parts[] = {"Phi", "eta", "log_psi", "W1", "b1", "W2", "b2", "log_alpha", "log_beta"};
    const record *found = NULL;
    char full[MAX_NAME];
    size_t i;
    *params = 0;
    for (i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(full, sizeof full, "theta.%s", parts[i]);
        if (!find(p->f, full)) continue;
        if (strcmp(parts[i], name) == 0) found = raw(p, full), *at = *params;
        *params += (pu_int)find(p->f, full)->count;
    }
    return found;
}

static int setup_named(problem *p)
{
    const char *name = p->model->name;
    const record *W1 = find(p->f, "theta.W1"), *W2 = find(p->f, "theta.W2"), *part;
    pu_model *m = &p->named;
    pu_report report;
    pu_status status;
    pu_real *theta;
    pu_int i, j, at = 0, params;
    char text[256];
    if (strcmp(name, "fa") == 0) status = pu_model_factors(m, p->M, p->D, &report);
    else if (strcmp(name, "ppca") == 0) status = pu_model_ppca(m, p->M, p->D, &report);
    else if (strcmp(name, "nlm") == 0) {
        const record *X = raw(p, "extra.X"), *form = raw(p, "extra.features");
        if (!X || !form || !W1 || X->ndim != 2 || X->dim[0] != (size_t)p->M || W1->ndim != 2 || W1->dim[1] != X->dim[1] ||
            (strcmp(form->text, "linear") == 0) != (W2 != NULL)) {
            fail(p->f, "extra.X, extra.features, theta.W1, theta.W2 do not agree");
            return 0;
        }
        status = pu_model_neural(m, p->M, (pu_int)X->dim[1], copy_in(p, X), (pu_int)W1->dim[0], W2 ? p->D : 0, &report);
    } else {
        if (!setup_dictionary(p)) return 0;
        status = strcmp(name, "sbl") == 0 ? pu_model_sparse(m, &p->map, &report) : pu_model_regression(m, &p->map, &report);
    }
    if (status == PU_OK) {
        theta_part(p, "", &at, &params);
        if (params != m->params) {
            fail(p->f, "theta has %ld entries, the model wants %ld", (long)params, (long)m->params);
            return 0;
        }
        theta = take_reals(p->f, params);
        for (i = 0; i < (pu_int)p->f->count; i++) {
            if (strncmp(p->f->records[i].name, "theta.", 6) != 0) continue;
            part = theta_part(p, p->f->records[i].name + 6, &at, &params);
            for (j = 0; part && j < (pu_int)part->count; j++) theta[at + j] = (pu_real)part->value[j];
        }
        status = pu_model_set(m, theta, &report);
    }
    if (status != PU_OK) fail(p->f, "%s: %s", name, pu_explain(&report, text, sizeof text));
    p->lgm = m->lgm;
    return status == PU_OK;
}

static void pull_named(problem *p, const gradient *g, const record *theta, double *out)
{
    pu_results r;
    pu_int at = 0, params = 0;
    pu_real *grad = take_nan(p->f, p->named.params);
    memset(&r, 0, sizeof r); /* pull may read nothing but what it says it uses */
    if (p->named.uses & PU_USES_NU) r.nu = g->nu;
    if (p->named.uses & PU_USES_GAMMA) r.Gamma = g->Gamma;
    if (p->named.uses & PU_USES_PHI) r.Phi = g->Phi;
    if (p->named.uses & PU_USES_ETA) r.eta = g->eta;
    if (p->named.uses & PU_USES_PSI) r.psi = g->psi;
    if (p->named.pull(&p->named, &r, grad) != PU_OK) fail(p->f, "pull failed");
    theta_part(p, theta->name + 6, &at, &params);
    copy_out(theta->count, grad + at, out);
}

static int setup_ar(problem *p)
{
    const int by_phi = find(p->f, "theta.phi") != NULL;
    const record *r = raw(p, by_phi ? "theta.phi" : "theta.gamma"), *phi = raw(p, "extra.phi");
    pu_real value[PU_AR_MAX];
    double kappa = by_phi ? scalar(p, "theta.kappa") : exp(scalar(p, "theta.log_kappa"));
    double log_lambda = by_phi ? log(scalar(p, "theta.lambda")) : scalar(p, "theta.log_lambda"), minus = -log_lambda;
    pu_status status;
    size_t i;
    raw(p, "extra.P"), raw(p, "extra.galbraith_D"), raw(p, "extra.logdet_galbraith_D"); /* the operator has no D */
    if (!r || !phi || r->count > PU_AR_MAX) return 0;
    for (i = 0; i < r->count; i++) value[i] = (pu_real)r->value[i];
    p->ar = (pu_ar *)take(p->f, 1, sizeof *p->ar);
    status = by_phi ? pu_ar_set_phi(p->ar, p->D, (pu_int)r->count, value, (pu_real)kappa, NULL)
                    : pu_ar_set(p->ar, p->D, (pu_int)r->count, value, (pu_real)kappa, NULL);
    if (status != PU_OK) fail(p->f, "%s: %s", r->name, pu_status_text(status));
    for (i = 0; i < phi->count && status == PU_OK; i++)
        if (!(fabs((double)p->ar->phi[i] - phi->value[i]) <= 100 * EPS)) fail(p->f, "extra.phi: entry %d differs", (int)i);
    p->prior = pu_op_ar(p->ar);
    p->map = pu_op_identity(p->D);
    return status == PU_OK && finish_model(p, NULL, exponentials(p, p->M, &minus, 0));
}

static void pull_ar(problem *p, const gradient *g, const record *theta, double *out)
{
    const pu_int P = p->ar->order;
    pu_real by_phi[PU_AR_MAX];
    if (is(theta, "gamma")) copy_out(theta->count, g->Gamma, out);
    if (is(theta, "phi")) {
        pu_ar_pull_phi(p->ar, g->Gamma, by_phi);
        copy_out(theta->count, by_phi, out);
    }
    if (is(theta, "kappa")) out[0] = (double)g->Gamma[P];
    if (is(theta, "log_kappa")) out[0] = (double)p->ar->kappa * (double)g->Gamma[P];
    if (is(theta, "log_lambda")) out[0] = pull_log_psi(p, g, -1);
    if (is(theta, "lambda")) out[0] = pull_log_psi(p, g, -1) * (double)p->lgm.psi[0]; /* d log lambda = dlambda psi */
}

static int setup_ssm(problem *p)
{
    const record *A = raw(p, "theta.A"), *Q = raw(p, "theta.Q"), *c = raw(p, "theta.c"), *init = raw(p, "extra.init");
    pu_ssm *m = (pu_ssm *)take(p->f, 1, sizeof *m);
    pu_real a[PU_SSM_MAX * PU_SSM_MAX], q[PU_SSM_MAX * PU_SSM_MAX], *readout;
    double minus = -scalar(p, "theta.log_sigma2");
    const pu_int S = (pu_int)scalar(p, "extra.S");
    pu_status status;
    pu_int i, j;
    if (!A || !Q || !c || !init || S <= 0 || S > PU_SSM_MAX || A->count != (size_t)(S * S)) return 0;
    readout = take_reals(p->f, S);
    for (i = 0; i < S; i++) {
        readout[i] = (pu_real)c->value[i];
        for (j = 0; j < S; j++) {
            a[i * S + j] = (pu_real)A->value[i * S + j];
            q[i * S + j] = (pu_real)((Q->value[i * S + j] + Q->value[j * S + i]) / 2);
        }
    }
    p->states = S;
    status = pu_ssm_set(m, p->M, S, a, q, strcmp(init->text, "zero") == 0 ? PU_SSM_ZERO : PU_SSM_STATIONARY, NULL, NULL);
    if (status != PU_OK) fail(p->f, "theta.A, theta.Q: %s", pu_status_text(status));
    p->prior = pu_op_ssm(m);
    p->map = pu_op_readout(p->M, S, readout);
    return status == PU_OK && finish_model(p, NULL, exponentials(p, p->M, &minus, 0));
}

static void pull_ssm(problem *p, const gradient *g, const record *theta, double *out)
{
    if (is(theta, "A")) copy_out(theta->count, g->Gamma, out);
    if (is(theta, "Q")) copy_out(theta->count, g->Gamma + p->states * p->states, out);
    if (is(theta, "c")) copy_out(theta->count, g->Phi, out);
    if (is(theta, "log_sigma2")) out[0] = pull_log_psi(p, g, -1);
}

static const family models[] = {
    {"generic", setup_generic, pull_back_generic}, {"fa", setup_named, pull_named},
    {"ppca", setup_named, pull_named},             {"sbl", setup_named, pull_named},
    {"blr", setup_named, pull_named},              {"nlm", setup_named, pull_named},
    {"ar", setup_ar, pull_ar},                     {"ar_phi", setup_ar, pull_ar},
    {"ssm", setup_ssm, pull_ssm},
};

static const family *find_model(const char *name)
{
    size_t i;
    for (i = 0; i < sizeof models / sizeof *models; i++)
        if (strcmp(models[i].name, name) == 0) return &models[i];
    return NULL;
}

/* ---- setting up ------------------------------------------------------------------------------ */

static pu_int input_size(problem *p, const char *name)
{
    const double *value = input(p, name, "");
    if (!value) return 0;
    if (*value >= 1 && *value <= 1000 && floor(*value) == *value) return (pu_int)*value;
    fail(p->f, "line %d: %s: not a size", find(p->f, name)->line, name);
    return 0;
}

static const char *input_text(file *f, const char *name)
{
    record *r = find(f, name);
    if (!r || !r->text) {
        fail(f, "%s: no such string record", name);
        return NULL;
    }
    r->use = INPUT;
    return r->text;
}

/* Entries of y that are missing become NaN: the library must never read them. */
static int setup_data(problem *p)
{
    const double *mask = input(p, "mask", "NM");
    pu_int i, count = p->N * p->M;
    p->y = input_reals(p, "y", "NM");
    if (!mask || !p->y) return 0;
    p->mask = (unsigned char *)take(p->f, (size_t)count, 1);
    for (i = 0; i < count; i++) {
        p->mask[i] = (unsigned char)(mask[i] != 0);
        if (!p->mask[i]) p->y[i] = (pu_real)NAN;
        if (mask[i] != 0 && mask[i] != 1) {
            fail(p->f, "line %d: mask: an entry is neither 0 nor 1", find(p->f, "mask")->line);
            return 0;
        }
    }
    p->data = pu_data_masked(p->N, p->M, p->y, p->mask);
    return 1;
}

static double norm_inf(pu_int n, const double *a)
{
    double norm = 0;
    pu_int i, j;
    for (i = 0; i < n; i++) {
        double sum = 0;
        for (j = 0; j < n; j++) sum += fabs(a[i * n + j]);
        if (sum > norm) norm = sum;
    }
    return norm;
}

static void set_tolerances(problem *p, const double *A, const double *Sigma)
{
    pu_int n;
    for (n = 0; n < p->N; n++) {
        pu_int at = n * p->D * p->D;
        double cond = norm_inf(p->D, A + at) * norm_inf(p->D, Sigma + at);
        if (cond > p->cond) p->cond = cond;
    }
    p->rounding = 16 * EPS * p->cond;
    p->floor_ = sizeof(pu_real) < sizeof(double) ? p->rounding : 1e-11;
}

static int setup(problem *p, file *f)
{
    const record *A, *Sigma, *b, *c;
    const char *name;
    memset(p, 0, sizeof *p);
    p->f = f;
    input_text(f, "case");
    name = input_text(f, "model");
    if (!name) return 0;
    p->model = find_model(name);
    if (!p->model) {
        fail(f, "model: \"%s\" is unknown", name);
        return 0;
    }
    p->D = input_size(p, "D");
    p->M = input_size(p, "M");
    p->N = input_size(p, "N");
    p->K = input_size(p, "K");
    if (f->errors) return 0;
    p->delta = input_reals(p, "probe.delta", "NKD");
    p->minv = input_reals(p, "minv", "ND");
    p->step = input_reals(p, "gd_step", "N");
    A = need(p, "exact.A", "NDD");
    Sigma = need(p, "exact.Sigma", "NDD");
    b = need(p, "exact.b", "ND");
    c = need(p, "exact.c", "N");
    if (!setup_data(p) || f->errors) return 0;
    set_tolerances(p, A->value, Sigma->value);
    p->A = A->value;
    p->b = b->value;
    p->u = input(p, "probe.delta", "NKD");
    p->m = input(p, "minv", "ND");
    p->c = largest(c->count, c->value);
    return p->model->setup(p);
}

/* ---- the model and the probes ---------------------------------------------------------------- */

static pu_block block_of(pu_real *at, pu_int ld)
{
    pu_block b;
    b.at = at;
    b.ld = ld;
    return b;
}

/* An operator's matrix, row-major, from its products with unit vectors; or its sampling factor. */
static double *matrix_of(problem *p, const pu_op *op, int sample)
{
    pu_int cols = sample && op->noise ? op->noise : op->cols, i, j;
    pu_real *E = take_reals(p->f, cols * cols), *Y = take_reals(p->f, op->rows * cols);
    pu_real *work = take_reals(p->f, cols * op->work + 1);
    double *a = take_doubles(p->f, (size_t)(op->rows * cols));
    pu_status status;
    for (i = 0; i < cols; i++) E[i * cols + i] = 1;
    status = sample ? op->sample(op, cols, block_of(E, cols), block_of(Y, op->rows), work)
                    : op->apply(op, cols, block_of(E, cols), block_of(Y, op->rows), 0, work);
    if (status != PU_OK) fail(p->f, "an operator's function failed: %s", pu_status_text(status));
    for (i = 0; i < op->rows; i++)
        for (j = 0; j < cols; j++) a[i * cols + j] = (double)Y[j * op->rows + i];
    return a;
}

/* B = A A', n x k times k x n */
static double *gram(problem *p, pu_int n, pu_int k, const double *a)
{
    double *b = take_doubles(p->f, (size_t)(n * n));
    pu_int i, j, l;
    for (i = 0; i < n; i++)
        for (j = 0; j < n; j++)
            for (l = 0; l < k; l++) b[i * n + j] += a[i * k + l] * a[j * k + l];
    return b;
}

static void compare_vector(problem *p, const char *name, const char *dims, const pu_real *v,
                           pu_int n)
{
    compare_reals(p, K_MODEL, name, dims, v ? v : take_reals(p->f, n), p->floor_);
}

/* What setup made of theta is the model of canonical.*, and the prior's draws have covariance
   Gamma. */
static void check_model(problem *p)
{
    const pu_op *prior = p->lgm.Gamma;
    pu_int noise = prior->noise ? prior->noise : prior->rows;
    pu_real *work = take_reals(p->f, prior->work + 1);
    double logdet = 0;
    compare_vector(p, "canonical.nu", "D", p->lgm.nu, p->D);
    compare_vector(p, "canonical.eta", "M", p->lgm.eta, p->M);
    compare_vector(p, "canonical.psi", "M", p->lgm.psi, p->M);
    compare(p, K_MODEL, "canonical.Gamma", "DD", matrix_of(p, prior, 0), p->floor_);
    compare(p, K_MODEL, "canonical.Phi", "MD", matrix_of(p, p->lgm.Phi, 0), p->floor_);
    compare(p, K_MODEL, "canonical.Gamma", "DD", gram(p, p->D, noise, matrix_of(p, prior, 1)),
            p->floor_);
    if (prior->logdet(prior, &logdet, work) != PU_OK) fail(p->f, "log det Gamma failed");
    compare(p, K_MODEL, "extra.logdet_Gamma", "", &logdet, p->floor_);
}

/* xi = F eps_xi with F F' = Gamma;  zeta = sqrt(psi) eps_zeta;  delta = xi + Phi' (mask zeta).
   This is about the file alone, in double. A shortened file leaves out all of these records. */
static void check_probes(problem *p)
{
    const double *F, *eps_xi, *eps_zeta, *xi, *zeta, *psi, *Phi;
    double *got_xi = take_doubles(p->f, (size_t)(p->N * p->K * p->D));
    double *got_zeta = take_doubles(p->f, (size_t)(p->N * p->K * p->M));
    double *got_delta = take_doubles(p->f, (size_t)(p->N * p->K * p->D));
    pu_int c, i, j, D = p->D, M = p->M;
    if (!has_records(p, "probe.xi") && !has_records(p, "probe.zeta") &&
        !has_records(p, "probe.eps_"))
        return;
    F = input(p, "probe.xi_factor", "DD");
    eps_xi = input(p, "probe.eps_xi", "NKD");
    eps_zeta = input(p, "probe.eps_zeta", "NKM");
    xi = input(p, "probe.xi", "NKD");
    zeta = input(p, "probe.zeta", "NKM");
    psi = input(p, "canonical.psi", "M");
    Phi = input(p, "canonical.Phi", "MD");
    if (!F || !eps_xi || !eps_zeta || !xi || !zeta || !psi || !Phi) return;
    for (c = 0; c < p->N * p->K; c++) {
        const unsigned char *mask = p->mask + c / p->K * M;
        for (j = 0; j < M; j++) got_zeta[c * M + j] = sqrt(psi[j]) * eps_zeta[c * M + j];
        for (i = 0; i < D; i++) {
            double sum = 0, delta = xi[c * D + i];
            for (j = 0; j < D; j++) sum += F[i * D + j] * eps_xi[c * D + j];
            for (j = 0; j < M; j++) delta += mask[j] ? Phi[j * D + i] * zeta[c * M + j] : 0;
            got_xi[c * D + i] = sum;
            got_delta[c * D + i] = delta;
        }
    }
    compare(p, K_PROBE, "canonical.Gamma", "DD", gram(p, D, D, F), 1e-14);
    compare(p, K_PROBE, "probe.xi", "NKD", got_xi, 1e-14);
    compare(p, K_PROBE, "probe.zeta", "NKM", got_zeta, 1e-14);
    compare(p, K_PROBE, "probe.delta", "NKD", got_delta, 1e-14);
}

/* ---- running --------------------------------------------------------------------------------- */

/* Everything that pu_gradient returns. */
typedef struct {
    pu_int steps; /* I */
    gradient g;
    pu_real *x, *residual, *alpha, *beta, *logdet;
    pu_column *columns;
    pu_report report;
} outcome;

static const pu_backend *backend; /* NULL: the CPU's */

static pu_options base_options(const problem *p, pu_kind method)
{
    pu_options o;
    memset(&o, 0, sizeof o);
    o.kind = method, o.backend = backend;
    o.samples = method == PU_EXACT ? PU_NONE : p->K;
    o.delta = method == PU_EXACT ? NULL : p->delta;
    o.no_control_variate = 1;
    return o;
}

/* 0 after a message when the library refuses. Step sizes and log det are asked for where they
   exist. */
static int run(problem *p, const char *what, const pu_data *data, const pu_options *o, outcome *r)
{
    pu_int steps = o->solve.iterations > 0 && o->solve.tolerance <= 0 ? o->solve.iterations : 0;
    pu_int columns = p->N * (o->samples > 0 ? p->K + 1 : 1);
    int krylov = o->solve.solver == PU_CG || o->solve.solver == PU_PCG;
    pu_results out;
    char text[256];
    memset(&out, 0, sizeof out);
    memset(r, 0, sizeof *r);
    r->steps = steps;
    out.nu = r->g.nu = take_nan(p->f, p->D);
    out.Gamma = r->g.Gamma = take_nan(p->f, p->lgm.Gamma->params);
    out.Phi = r->g.Phi = take_nan(p->f, p->lgm.Phi->params);
    out.eta = r->g.eta = take_nan(p->f, p->M);
    out.psi = r->g.psi = take_nan(p->f, p->M);
    out.x = r->x = take_nan(p->f, columns * p->D);
    out.residual = r->residual = take_nan(p->f, columns * p->D);
    if (steps > 0) out.alpha = r->alpha = take_nan(p->f, columns * steps);
    if (steps > 0) out.beta = r->beta = take_nan(p->f, columns * steps);
    if (steps > 0 && krylov) out.logdet = r->logdet = take_nan(p->f, p->N * p->K);
    out.columns = r->columns = (pu_column *)take(p->f, (size_t)columns, sizeof(pu_column));
    if (pu_gradient(&p->lgm, data, o, &p->ws, &out, &r->report) == PU_OK) return 1;
    fail(p->f, "%s: %s", what, pu_explain(&r->report, text, sizeof text));
    return 0;
}

enum { DRAWS = 4 };

/* Gradients at the stored x and at x moved as far as rounding may. */
typedef struct {
    outcome at, near[DRAWS];
    double q, F; /* change of the two objectives */
} neighbours;

/* Largest change of a theta's gradient between the stored x and its neighbours. */
static double gradient_spread(problem *p, const record *theta, const neighbours *n)
{
    double *at = take_doubles(p->f, theta->count), *near = take_doubles(p->f, theta->count);
    double spread = 0;
    int t;
    p->model->pull_back(p, &n->at.g, theta, at);
    for (t = 0; t < DRAWS; t++) {
        p->model->pull_back(p, &n->near[t].g, theta, near);
        spread = fmax(spread, largest_change(theta->count, near, at));
    }
    return spread;
}

/* Compares the pulled-back gradient with <prefix>.<theta> for every theta of the file. n: the
   gradient follows from an x that rounding may move; or NULL. */
/* How much the gradient of a theta cancels: the gradient of c alone (no solver step taken) over the gradient itself, at least
   one. Rounding in float is relative to the terms, not to what is left of them. */
static double cancellation(problem *p, const record *theta, const record *want)
{
    static const char *const runs[2] = {"solver.gd_I0.out_grad", "solver.cg_I0.out_grad"};
    char name[2 * MAX_NAME];
    double most = largest(want->count, want->value), ratio = 1;
    int i;
    for (i = 0; i < 2 && sizeof(pu_real) < sizeof(double); i++) {
        const record *r;
        snprintf(name, sizeof name, "%s.%s", runs[i], theta->name + 6);
        r = find(p->f, name);
        if (r && r->value && most > 0) ratio = fmax(ratio, largest(r->count, r->value) / most);
    }
    return ratio;
}

static void compare_gradients(problem *p, kind k, const char *prefix, const gradient *g,
                              double allowed, const neighbours *n)
{
    size_t i;
    double whole = 0; /* largest entry of the whole gradient */
    for (i = 0; i < p->f->count; i++)
        if (strncmp(p->f->records[i].name, prefix, strlen(prefix)) == 0 && p->f->records[i].value)
            whole = fmax(whole, largest(p->f->records[i].count, p->f->records[i].value));
    for (i = 0; i < p->f->count; i++) {
        const record *theta = &p->f->records[i];
        char name[2 * MAX_NAME];
        record *want;
        double *got;
        if (strncmp(theta->name, "theta.", 6) != 0 || theta->use == UNUSED) continue;
        snprintf(name, sizeof name, "%s.%s", prefix, theta->name + 6);
        want = find(p->f, name);
        if (!want || want->text || want->ndim != theta->ndim ||
            memcmp(want->dim, theta->dim, sizeof theta->dim) != 0) {
            fail(p->f, "%s: missing, or not in the shape of %s", name, theta->name);
            continue;
        }
        got = take_doubles(p->f, theta->count);
        p->model->pull_back(p, g, theta, got);
        if (largest(want->count, want->value) <= 16 * DBL_EPSILON * whole) { /* zero but for stored rounding */
            want->use = CHECKED;
            if (!(largest(theta->count, got) <= 16 * EPS * whole))
                fail(p->f, "line %d: %s: not zero", want->line, want->name);
            continue;
        }
        compare_record(p, k, want, got,
                       (n ? with_spread(want, allowed, gradient_spread(p, theta, n)) : allowed) *
                           cancellation(p, theta, want));
    }
}

/* Splits N x (K+1) x len into column 0 and the K others, in doubles. */
static void split(problem *p, const pu_real *x, pu_int len, double **first, double **rest)
{
    pu_int n, j, i, K = p->K;
    *first = take_doubles(p->f, (size_t)(p->N * len));
    *rest = take_doubles(p->f, (size_t)(p->N * K * len));
    for (n = 0; n < p->N; n++)
        for (j = 0; j <= K; j++)
            for (i = 0; i < len; i++) {
                double v = (double)x[(n * (K + 1) + j) * len + i];
                if (j == 0) (*first)[n * len + i] = v;
                if (j > 0) (*rest)[(n * K + j - 1) * len + i] = v;
            }
}

/* ---- exact and Monte Carlo ------------------------------------------------------------------- */

static void check_datums(problem *p)
{
    pu_int n, D = p->D;
    pu_real *A = take_nan(p->f, p->N * D * D), *Sigma = take_nan(p->f, p->N * D * D);
    pu_real *b = take_nan(p->f, p->N * D), *mu = take_nan(p->f, p->N * D);
    double *c = take_doubles(p->f, (size_t)p->N), *logdet = take_doubles(p->f, (size_t)p->N);
    double *nll = take_doubles(p->f, (size_t)p->N);
    for (n = 0; n < p->N; n++) {
        pu_exact_result e;
        pu_report report;
        char text[256];
        memset(&e, 0, sizeof e);
        e.A = A + n * D * D;
        e.Sigma = Sigma + n * D * D;
        e.b = b + n * D;
        e.mu = mu + n * D;
        if (pu_exact(&p->lgm, &p->data, n, &p->ws, &e, &report) != PU_OK) {
            fail(p->f, "pu_exact: %s", pu_explain(&report, text, sizeof text));
            return;
        }
        c[n] = e.c;
        logdet[n] = e.logdet;
        nll[n] = e.nll;
    }
    compare_reals(p, K_A, "exact.A", "NDD", A, p->floor_);
    compare_reals(p, K_B, "exact.b", "ND", b, p->floor_);
    compare(p, K_C, "exact.c", "N", c, p->floor_);
    compare_reals(p, K_MU, "exact.mu", "ND", mu, p->floor_);
    compare_reals(p, K_SIGMA, "exact.Sigma", "NDD", Sigma, p->floor_);
    compare(p, K_LOGDET, "exact.logdet_A", "N", logdet, p->floor_);
    compare(p, K_NLL, "exact.nll_n", "N", nll, p->floor_);
}

static void check_exact(problem *p)
{
    pu_options o = base_options(p, PU_EXACT);
    pu_report report;
    outcome r;
    double nll = 0, se = -1;
    if (run(p, "exact gradient", &p->data, &o, &r)) {
        compare_value(p, K_NLL, "exact.nll", r.report.nll, p->floor_);
        compare_value(p, K_Q, "exact.q_star", r.report.q, p->floor_);
        compare_reals(p, K_MU, "exact.mu", "ND", r.x, p->floor_);
        compare_gradients(p, K_GSTAR, "exact.g_star", &r.g, p->floor_, NULL);
        compare_gradients(p, K_GSTAR, "exact.g_nll", &r.g, p->floor_, NULL);
    }
    o = base_options(p, PU_MONTE_CARLO);
    o.engine = PU_DENSE;
    if (pu_nll(&p->lgm, &p->data, &o, &p->ws, &nll, &se, &report) != PU_OK || se > 0 || se < 0)
        fail(p->f, "pu_nll, dense engine: %s, standard error %g", pu_status_text(report.status),
             se);
    compare_value(p, K_NLL, "exact.nll", nll, p->floor_);
}

/* Without a tolerance the iterative engine runs to rounding level. */
static void check_monte_carlo(problem *p, pu_engine engine)
{
    pu_options o = base_options(p, PU_MONTE_CARLO);
    outcome r;
    double *mu, *sigma;
    o.engine = engine;
    if (!run(p, engine == PU_DENSE ? "Monte Carlo, dense" : "Monte Carlo, iterative", &p->data, &o,
             &r))
        return;
    split(p, r.x, p->D, &mu, &sigma);
    compare(p, K_MU, "exact.mu", "ND", mu, p->floor_);
    compare(p, K_SAMPLE, "mc.sigma", "NKD", sigma, p->floor_);
    compare_value(p, K_Q, "mc.q_sharp", r.report.q, p->floor_);
    compare_gradients(p, K_GSHARP, "mc.g_sharp", &r.g, p->floor_, NULL);
}

/* ---- solver runs ----------------------------------------------------------------------------- */

static const struct {
    const char *name;
    pu_solver solver;
} solvers[] = {{"gd", PU_GD}, {"sd", PU_SD}, {"cg", PU_CG}, {"pcg_const", PU_PCG}};

/* One solver at one depth. */
typedef struct {
    char prefix[MAX_NAME]; /* "solver.cg_I3" */
    pu_solver solver;
    pu_int steps;
    double floor_, allowed, allowed_detached;
    double x[2], r[2], alpha, beta; /* spread: [0] the mean column, [1] the probes */
    double *moved[DRAWS];           /* change of x, N x (K+1) x D */
    neighbours *n;
} depth;

static const char *member(const depth *s, const char *what, char *buffer)
{
    snprintf(buffer, 2 * MAX_NAME, "%s.%s", s->prefix, what);
    return buffer;
}

static int is_krylov(const depth *s)
{
    return s->solver == PU_CG || s->solver == PU_PCG;
}

static double network_tolerance(const depth *s, double err_est)
{
    return fmax(s->floor_, 100 * err_est * (EPS / DBL_EPSILON));
}

/* Is this the record "solver.<solver>_I<i>.I"? Fills s and takes the settings in. */
static int parse_depth(problem *p, const record *r, depth *s)
{
    char name[2 * MAX_NAME];
    const double *value;
    size_t i;
    for (i = 0; i < sizeof solvers / sizeof *solvers; i++) {
        int at = snprintf(name, sizeof name, "solver.%s_I", solvers[i].name);
        char *end;
        long steps;
        if (strncmp(r->name, name, (size_t)at) != 0) continue;
        steps = strtol(r->name + at, &end, 10);
        if (strcmp(end, ".I") != 0 || steps < 0 || steps > 1000) return 0;
        memset(s, 0, sizeof *s);
        snprintf(s->prefix, sizeof s->prefix, "solver.%s_I%ld", solvers[i].name, steps);
        s->solver = solvers[i].solver;
        s->steps = (pu_int)steps;
        s->floor_ = p->floor_;
        if (sizeof(pu_real) < sizeof(double) && steps > 0) s->floor_ *= (double)steps;
        value = input(p, r->name, "");
        if (value && *value - (double)steps != 0) fail(p->f, "%s: not what its name says", r->name);
        value = input(p, member(s, "err_est", name), "");
        if (value) s->allowed = s->allowed_detached = network_tolerance(s, *value);
        if (is_krylov(s) && has_records(p, member(s, "net_grad_detached", name))) {
            value = input(p, member(s, "err_est_detached", name), "");
            if (value) s->allowed_detached = network_tolerance(s, *value);
        }
        return 1;
    }
    return 0;
}

static pu_options depth_options(const problem *p, const depth *s, pu_kind method)
{
    pu_options o = base_options(p, method);
    o.solve.solver = s->solver;
    o.solve.iterations = s->steps > 0 ? s->steps : PU_NONE;
    if (s->solver == PU_PCG) o.solve.m = p->minv;
    if (s->solver == PU_GD) o.solve.step = p->step;
    return o;
}

/* A number as the working precision keeps it. */
static double keep(double v, int exact)
{
    return exact ? v : (double)(pu_real)v;
}

/* r -= its part along the earlier residuals R (one per row), orthogonal in m */
static void orthogonalise(pu_int n, pu_int count, const double *R, const double *m, double *r)
{
    pu_int i, k;
    for (k = 0; k < count; k++) {
        double dot = 0, square = 0;
        for (i = 0; i < n; i++) {
            dot += m[i] * R[k * n + i] * r[i];
            square += m[i] * R[k * n + i] * R[k * n + i];
        }
        for (i = 0; i < n; i++) r[i] -= dot / square * R[k * n + i];
    }
}

/* PCG (CG: m = 1) from x = 0, frozen at rounding level; then r = u - A x. exact: in double and
   re-orthogonalised, else rounded to pu_real wherever something is stored.
   work: (steps + 3) n */
static void textbook(pu_int n, pu_int steps, const double *A, const double *u, const double *m,
                     int exact, double *x, double *r, double *alpha, double *beta, double *work)
{
    double *d = work, *q = work + n, *R = work + 2 * n, rho = 0, rho0, pi, next;
    pu_int i, j, k;
    for (i = 0; i < n; i++) {
        x[i] = 0;
        r[i] = keep(u[i], exact);
        d[i] = keep(m[i] * r[i], exact);
        rho += r[i] * d[i];
    }
    rho0 = rho;
    for (k = 0; k < steps; k++) {
        alpha[k] = beta[k] = 0;
        if (rho <= 1e-28 * rho0) continue;
        memcpy(R + k * n, r, (size_t)n * sizeof *r);
        for (i = 0, pi = 0; i < n; pi += d[i] * q[i], i++) {
            for (j = 0, q[i] = 0; j < n; j++) q[i] += A[i * n + j] * d[j];
            q[i] = keep(q[i], exact);
        }
        alpha[k] = keep(rho / pi, exact);
        for (i = 0; i < n; i++) {
            x[i] = keep(x[i] + alpha[k] * d[i], exact);
            r[i] = keep(r[i] - alpha[k] * q[i], exact);
        }
        if (exact) orthogonalise(n, k + 1, R, m, r);
        for (i = 0, next = 0; i < n; i++) next += m[i] * r[i] * r[i];
        beta[k] = keep(next / rho, exact);
        for (i = 0; i < n; i++) d[i] = keep(m[i] * r[i] + beta[k] * d[i], exact);
        rho = next;
    }
    for (i = 0; i < n; i++)
        for (j = 0, r[i] = u[i]; j < n; j++) r[i] -= A[i * n + j] * x[j];
}

/* A uniform number in (-1, 1); any generator will do. */
static double jitter(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (double)(*state >> 8) / 8388608.0 - 1;
}

/* b = a with relative changes of size eps: a symmetric matrix, or a vector (rows = 1) */
static void jitter_copy(pu_int rows, pu_int n, const double *a, double *b, uint32_t *state)
{
    pu_int i, j;
    for (i = 0; i < rows; i++)
        for (j = i; j < n; j++) {
            double factor = 1 + EPS * jitter(state);
            b[i * n + j] = a[i * n + j] * factor;
            if (rows > 1) b[j * n + i] = a[j * n + i] * factor;
        }
}

/* Largest change of step sizes that both runs took. */
static double step_change(pu_int n, const double *a, const double *b)
{
    double m = 0;
    pu_int i;
    for (i = 0; i < n; i++)
        if (fabs(a[i]) > 0 && fabs(b[i]) > 0) m = fmax(m, fabs(a[i] - b[i]));
    return m;
}

/* The spread of one column: datum n, column c (0: the mean). */
static void measure_column(problem *p, depth *s, pu_int n, pu_int c)
{
    pu_int D = p->D, I = s->steps, size = 2 * D + 2 * I, i, t;
    const double *A = p->A + n * D * D;
    const double *u = c ? p->u + (n * p->K + c - 1) * D : p->b + n * D;
    double *at = take_doubles(p->f, (size_t)(2 * size)), *near = at + size; /* x, r, alpha, beta */
    double *B = take_doubles(p->f, (size_t)(D * D)), *v = take_doubles(p->f, (size_t)D);
    double *m = take_doubles(p->f, (size_t)D), *work = take_doubles(p->f, (size_t)((I + 3) * D));
    uint32_t state = (uint32_t)(1 + n * (p->K + 1) + c);
    for (i = 0; i < D; i++) m[i] = s->solver == PU_PCG ? p->m[n * D + i] : 1;
    textbook(D, I, A, u, m, 1, at, at + D, at + 2 * D, at + 2 * D + I, work);
    for (t = 0; t < DRAWS; t++) {
        jitter_copy(D, D, A, B, &state);
        jitter_copy(1, D, u, v, &state);
        textbook(D, I, B, v, m, 0, near, near + D, near + 2 * D, near + 2 * D + I, work);
        for (i = 0; i < D; i++) s->moved[t][(n * (p->K + 1) + c) * D + i] = near[i] - at[i];
        s->x[c > 0] = fmax(s->x[c > 0], largest_change((size_t)D, near, at));
        s->r[c > 0] = fmax(s->r[c > 0], largest_change((size_t)D, near + D, at + D));
        s->alpha = fmax(s->alpha, step_change(I, near + 2 * D, at + 2 * D));
        s->beta = fmax(s->beta, step_change(I, near + 2 * D + I, at + 2 * D + I));
    }
}

/* Runs at the stored x, moved by `by` (NULL: not), without a step. */
static int run_at(problem *p, const depth *s, const double *by, outcome *r)
{
    char name[2 * MAX_NAME];
    const record *mu = need(p, member(s, "mu", name), "ND");
    const record *sigma = need(p, member(s, "sigma", name), "NKD");
    pu_int n, c, i, D = p->D, K = p->K;
    pu_real *x0 = take_reals(p->f, p->N * (K + 1) * D);
    pu_options o = depth_options(p, s, PU_OUTPUT);
    if (!mu || !sigma) return 0;
    for (n = 0; n < p->N; n++)
        for (c = 0; c <= K; c++)
            for (i = 0; i < D; i++) {
                pu_int at = (n * (K + 1) + c) * D + i;
                double x = c ? sigma->value[(n * K + c - 1) * D + i] : mu->value[n * D + i];
                x0[at] = (pu_real)(by ? x + by[at] : x);
            }
    o.x0 = x0;
    o.solve.iterations = PU_NONE;
    return run(p, "warm start", &p->data, &o, r);
}

/* Fills in what rounding does to the run. GD and SD do not amplify it. */
static int measure_spread(problem *p, depth *s)
{
    pu_int n, c;
    int t;
    s->n = (neighbours *)take(p->f, 1, sizeof *s->n);
    for (t = 0; t < DRAWS; t++)
        s->moved[t] = take_doubles(p->f, (size_t)(p->N * (p->K + 1) * p->D));
    if (is_krylov(s))
        for (n = 0; n < p->N; n++)
            for (c = 0; c <= p->K; c++) measure_column(p, s, n, c);
    if (!run_at(p, s, NULL, &s->n->at)) return 0;
    for (t = 0; t < DRAWS; t++) {
        if (!run_at(p, s, s->moved[t], &s->n->near[t])) return 0;
        s->n->q = fmax(s->n->q, fabs(s->n->near[t].report.q - s->n->at.report.q));
        s->n->F = fmax(s->n->F, fabs(s->n->near[t].report.network - s->n->at.report.network));
    }
    return 1;
}

/* A record of the forward pass. */
static void check_spread(problem *p, const depth *s, kind k, const char *what, const char *dims,
                         const double *got, double spread)
{
    char name[2 * MAX_NAME];
    record *r = need(p, member(s, what, name), dims);
    if (r) compare_record(p, k, r, got, with_spread(r, s->floor_, spread));
}

static void check_value(problem *p, const depth *s, kind k, const char *what, double got,
                        double spread)
{
    char name[2 * MAX_NAME];
    const record *r = need(p, member(s, what, name), "");
    if (r) compare_value(p, k, name, got, with_spread(r, s->floor_, spread));
}

static void check_residual(problem *p, const depth *s, const char *what, const char *dims,
                           const double *got, const double *rhs, double spread)
{
    char name[2 * MAX_NAME];
    record *r = need(p, member(s, what, name), dims);
    double scale;
    if (!r) return;
    scale = largest(r->count, r->value);
    compare_record(p, K_R, r, got,
                   with_spread(r, s->floor_, spread) +
                       p->rounding * largest(r->count, rhs) / (scale > 0 ? scale : 1));
}

/* Had the reference reached rounding level before step i (0-based) of column c? rho_i / rho_0 is
   the product of the betas. The library then freezes the column, in float earlier than in double;
   the reference may have gone on with noise. */
static int beyond_rounding(problem *p, const depth *s, const outcome *r, pu_int c, pu_int i)
{
    char name[2 * MAX_NAME];
    const record *beta = find(p->f, member(s, "beta", name));
    double ratio = 1;
    pu_int j;
    if (!is_krylov(s) || !beta || i < r->columns[c].steps) return 0;
    if (r->columns[c].stop != PU_STOP_ROUNDING) return 0;
    for (j = 0; j < r->columns[c].steps; j++) ratio *= beta->value[c * s->steps + j];
    return ratio <= 16 * EPS * EPS;
}

/* Step sizes. Those beyond rounding level are left out, and counted. */
static void check_steps(problem *p, const depth *s, kind k, const char *what, const outcome *r,
                        const pu_real *got, double spread)
{
    char name[2 * MAX_NAME];
    record *want = find(p->f, member(s, what, name));
    pu_int c, i;
    double *copy;
    if (!want || want->ndim != 3 || want->dim[0] != (size_t)p->N ||
        want->dim[1] != (size_t)p->K + 1 || want->dim[2] != (size_t)s->steps) {
        fail(p->f, "%s: missing, or of the wrong shape", name);
        return;
    }
    copy = take_doubles(p->f, want->count);
    for (c = 0; c < p->N * (p->K + 1); c++)
        for (i = 0; i < s->steps; i++) {
            pu_int at = c * s->steps + i;
            int beyond = beyond_rounding(p, s, r, c, i);
            copy[at] = beyond ? want->value[at] : (double)got[at];
            p->beyond += beyond;
        }
    compare_record(p, k, want, copy, with_spread(want, s->floor_, spread));
}

/* What the forward pass leaves, the same for every kind of gradient. */
static void check_forward(problem *p, const depth *s, const outcome *r)
{
    char name[2 * MAX_NAME];
    double *mu, *sigma;
    split(p, r->x, p->D, &mu, &sigma);
    check_spread(p, s, K_X, "mu", "ND", mu, s->x[0]);
    check_spread(p, s, K_X, "sigma", "NKD", sigma, s->x[1]);
    split(p, r->residual, p->D, &mu, &sigma);
    check_residual(p, s, "r_mu", "ND", mu, p->b, s->r[0]);
    check_residual(p, s, "r_sigma", "NKD", sigma, p->u, s->r[1]);
    check_value(p, s, K_QI, "q_I", r->report.q, s->n->q);
    check_value(p, s, K_F, "F_net", r->report.network, s->n->F);
    if (s->steps > 0 && s->solver != PU_GD)
        check_steps(p, s, K_ALPHA, "alpha", r, r->alpha, s->alpha);
    if (s->steps > 0 && is_krylov(s)) {
        check_steps(p, s, K_BETA, "beta", r, r->beta, s->beta);
        compare_reals(p, K_SLQ, member(s, "logdet_A_estimate", name), "NK", r->logdet, s->allowed);
    }
}

/* At the stored x nothing has been amplified. */
static void check_at(problem *p, const depth *s)
{
    char name[2 * MAX_NAME];
    const outcome *r = &s->n->at;
    double *mu, *sigma;
    split(p, r->residual, p->D, &mu, &sigma);
    check_residual(p, s, "r_mu", "ND", mu, p->b, 0);
    check_residual(p, s, "r_sigma", "NKD", sigma, p->u, 0);
    compare_value(p, K_QI, member(s, "q_I", name), r->report.q, p->floor_);
    compare_value(p, K_F, member(s, "F_net", name), r->report.network, p->floor_);
    compare_gradients(p, K_OUT, member(s, "out_grad", name), &r->g, p->floor_, NULL);
}

static void check_network(problem *p, const depth *s, kind k, pu_adjoint adjoint, pu_int checkpoint)
{
    char name[2 * MAX_NAME], what[2 * MAX_NAME];
    pu_options o = depth_options(p, s, PU_NETWORK);
    int detached = k == K_SHORTCUT;
    outcome r;
    o.solve.adjoint = adjoint;
    o.solve.checkpoint = checkpoint;
    snprintf(what, sizeof what, "%s, %s", s->prefix, headings[k]);
    if (!run(p, what, &p->data, &o, &r)) return;
    check_forward(p, s, &r);
    compare_gradients(p, k, member(s, detached ? "net_grad_detached" : "net_grad", name), &r.g,
                      detached ? s->allowed_detached : s->allowed, NULL);
}

static void check_depth(problem *p, depth *s)
{
    char name[2 * MAX_NAME];
    pu_options o = depth_options(p, s, PU_OUTPUT);
    outcome r;
    if (!measure_spread(p, s)) return;
    check_at(p, s);
    if (run(p, s->prefix, &p->data, &o, &r)) {
        check_forward(p, s, &r);
        compare_gradients(p, K_OUT, member(s, "out_grad", name), &r.g, s->floor_, s->n);
    }
    check_network(p, s, K_NET, PU_ADJOINT_FULL, 0);
    check_network(p, s, K_TAPE, PU_ADJOINT_FULL, 2);
    check_network(p, s, K_TAPE, PU_ADJOINT_FULL, PU_AUTO);
    if (s->solver != PU_GD && has_records(p, member(s, "net_grad_detached", name)))
        check_network(p, s, K_SHORTCUT, PU_ADJOINT_SHORTCUT, 0);
    if (is_krylov(s)) {
        check_network(p, s, K_REORTHOGONAL, PU_ADJOINT_REORTHOGONAL, 0);
        check_network(p, s, K_AUTO, PU_ADJOINT_AUTO, 0);
    }
}

static void check_solvers(problem *p)
{
    size_t i;
    int runs = 0;
    for (i = 0; i < p->f->count; i++) {
        depth s;
        if (!parse_depth(p, &p->f->records[i], &s)) continue;
        check_depth(p, &s);
        runs++;
    }
    if (runs == 0) fail(p->f, "no solver run");
}

/* ---- three ways to say what is missing ------------------------------------------------------- */

static int same_bits(const problem *p, const outcome *a, const outcome *b)
{
    size_t columns = (size_t)(p->N * (p->K + 1)), real = sizeof(pu_real);
    size_t D = (size_t)p->D, M = (size_t)p->M;
    return memcmp(a->g.nu, b->g.nu, D * real) == 0 &&
           memcmp(a->g.Gamma, b->g.Gamma, (size_t)p->lgm.Gamma->params * real) == 0 &&
           memcmp(a->g.Phi, b->g.Phi, (size_t)p->lgm.Phi->params * real) == 0 &&
           memcmp(a->g.eta, b->g.eta, M * real) == 0 && memcmp(a->g.psi, b->g.psi, M * real) == 0 &&
           memcmp(a->x, b->x, columns * D * real) == 0 &&
           memcmp(a->residual, b->residual, columns * D * real) == 0 &&
           memcmp(a->alpha, b->alpha, columns * (size_t)a->steps * real) == 0 &&
           memcmp(a->beta, b->beta, columns * (size_t)a->steps * real) == 0 &&
           memcmp(a->logdet, b->logdet, (size_t)(p->N * p->K) * real) == 0 &&
           memcmp(&a->report.q, &b->report.q, sizeof(double)) == 0 &&
           memcmp(&a->report.network, &b->report.network, sizeof(double)) == 0 &&
           memcmp(&a->report.nll, &b->report.nll, sizeof(double)) == 0;
}

static pu_data list_data(problem *p)
{
    pu_int n, m, at = 0;
    pu_int *start = (pu_int *)take(p->f, (size_t)p->N + 1, sizeof(pu_int));
    pu_int *index = (pu_int *)take(p->f, (size_t)(p->N * p->M), sizeof(pu_int));
    pu_real *y = take_reals(p->f, p->N * p->M);
    for (n = 0; n < p->N; n++) {
        for (m = 0; m < p->M; m++)
            if (p->mask[n * p->M + m]) {
                index[at] = m;
                y[at++] = p->y[n * p->M + m];
            }
        start[n + 1] = at;
    }
    return pu_data_lists(p->N, p->M, start, index, y);
}

static void check_data_kinds(problem *p)
{
    pu_data by_nan = pu_data_nan(p->N, p->M, p->y), by_list = list_data(p);
    pu_options o = base_options(p, PU_NETWORK);
    outcome masked, nan_marked, listed;
    o.solve.iterations = p->D > 3 ? 3 : 1;
    if (!run(p, "data, masked", &p->data, &o, &masked)) return;
    if (run(p, "data, NaN-marked", &by_nan, &o, &nan_marked) && !same_bits(p, &masked, &nan_marked))
        fail(p->f, "NaN-marked data and masked data give different bits");
    if (run(p, "data, lists", &by_list, &o, &listed) && !same_bits(p, &masked, &listed))
        fail(p->f, "lists and masked data give different bits");
}

/* ---- accounting and output ------------------------------------------------------------------- */

static void account(problem *p, long uses[USES])
{
    size_t i;
    for (i = 0; i < p->f->count; i++) {
        record *r = &p->f->records[i];
        if (r->use == UNUSED)
            fail(p->f, "line %d: %s: no check uses this record", r->line, r->name);
        uses[r->use]++;
    }
}

static void print_line(const problem *p, const long uses[USES])
{
    double ratio = 0;
    int k;
    printf("%-18s", p->f->name);
    for (k = 0; k < KINDS; k++) {
        const tally *t = &p->tallies[k];
        if (k == K_X) printf(" |");
        if (t->count > 0) printf(" %s %.0e", headings[k], t->worst);
        if (t->ratio > ratio) ratio = t->ratio;
    }
    printf("  worst/allowed %.2g; %ld records checked, %ld read", ratio, uses[CHECKED],
           uses[INPUT]);
    if (uses[NOT_COMPARABLE]) printf(", %ld not comparable", uses[NOT_COMPARABLE]);
    if (p->beyond) printf("; %ld step sizes beyond rounding level left out", p->beyond);
    for (k = 0; k < KINDS; k++)
        if (p->notes[k][0])
            printf("; %s not comparable in " PRECISION " at%s", headings[k], p->notes[k]);
    printf("  ");
    if (p->f->errors) printf("FAILED (%d)\n", p->f->errors);
    else printf("ok\n");
}

static void check_problem(problem *p)
{
    long uses[USES] = {0};
    check_probes(p);
    check_model(p);
    check_datums(p);
    check_exact(p);
    check_monte_carlo(p, PU_DENSE);
    check_monte_carlo(p, PU_ITERATIVE);
    check_solvers(p);
    check_data_kinds(p);
    account(p, uses);
    print_line(p, uses);
}

typedef enum { FILE_PASSED, FILE_FAILED, FILE_RESULTS } file_result;

static file_result check_file(const char *path)
{
    file f;
    problem p;
    file_result result = FILE_FAILED;
    memset(&p, 0, sizeof p);
    if (!read_file(&f, path) || !setup(&p, &f)) {
        printf("%-18s FAILED (%d)\n", f.name, f.errors);
    } else {
        check_problem(&p);
        if (f.errors == 0) result = FILE_PASSED;
    }
    pu_workspace_free(&p.ws);
    pu_model_free(&p.named);
    pu_fourier_free(p.fourier);
    release(&f);
    return result;
}

/* Opens the device of --device; 0 with a word when that cannot be. A program built without CUDA hands over to the one beside it
   of the same precision whose kernels run, golden_cuda_double or golden_cuda_float. */
static int open_device(const char *name, char **argv)
{
    if (!name || (strcmp(name, "cpu") && strcmp(name, "cuda"))) {
        fprintf(stderr, "golden: --device is cpu or cuda\n");
        return 0;
    }
    if (strcmp(name, "cuda")) return 1;
#ifdef PU_CUDA
    (void)argv;
    {
        static pu_cuda cuda;
        pu_report report;
        char text[300];
        if (pu_cuda_open(&cuda, NULL, &report) == PU_OK) {
            backend = &cuda.backend;
            return 1;
        }
        fprintf(stderr, "golden: %s\n", pu_explain(&report, text, sizeof text));
    }
#else
    {
        const char *slash = strrchr(argv[0], '/');
        char other[4096];
        snprintf(other, sizeof other, "%.*sgolden_cuda_%s", slash ? (int)(slash - argv[0]) + 1 : 0, argv[0], PRECISION);
        execv(other, argv);
        fprintf(stderr, "golden: built without CUDA, and %s, which is not: %s (./build.sh test cuda/golden makes it)\n", other,
                strerror(errno));
    }
#endif
    return 0;
}

int main(int argc, char **argv)
{
    int i, results[FILE_RESULTS] = {0};
    for (i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--verbose") == 0) {
            verbose = 1;
        } else if (strcmp(argv[i], "--device") == 0) {
            if (!open_device(argv[++i], argv)) return 1;
        } else {
            results[check_file(argv[i])]++;
        }
    }
    if (argc < 2) fprintf(stderr, "usage: golden [--verbose] [--device cpu|cuda] FILE...\n");
    printf("%d passed, %d failed", results[FILE_PASSED], results[FILE_FAILED]);
    printf("\n");
    return results[FILE_FAILED] > 0 || results[FILE_PASSED] == 0;
}
