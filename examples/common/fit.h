/* fit.h - what the programs that fit a model share: the flags that scripts may rely on, a line of progress, JSON.

       fit_flags flags;
       option list[FIT_FLAGS + 2];
       int count = 0;
       fit_flags_default(&flags);
       list[count++] = opt_number("length", ..);       the program's own
       count += fit_flags_table(&flags, list + count); --seed --threads --samples .. --quiet
       options_read(argc, argv, "name", "about", count, list);
       device_open();
       fit_flags_options(&flags, &fit_options);
       fit_run(.., &report);                           Ctrl-C ends it after its step
       json = json_open(flags.json);  json_fit(json, &flags, &report, nll, nll_se);  json_..;  json_close(json);
       device_close();
       return fit_code();

   Include after program.h; brings device.h along. Needs POSIX 2008, and getrusage for the peak of memory. */
#ifndef EXAMPLES_FIT_H
#define EXAMPLES_FIT_H

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <unistd.h>

#include "device.h"

enum { FIT_FLAGS = 14, FIT_KEEP = 2 };

typedef struct {
    long seed, threads, samples, iterations, steps;
    double rate;
    int solver, gradient, engine, quiet; /* places in the lists of fit_flags_table */
    const char *json;
    const char *checkpoint, *resume; /* of fit_keep_table */
    double every;  /* seconds between lines of progress where stderr is no terminal; 0 = none */
    double drawn;  /* when the last one was written; 0 before the first step */
} fit_flags;

static inline void fit_flags_default(fit_flags *f)
{
    memset(f, 0, sizeof *f);
    f->seed = 1, f->samples = 10, f->iterations = 30, f->steps = 200, f->rate = 0.1, f->every = 10;
    f->solver = 2 /* cg */, f->gradient = 3 /* network */, f->engine = 0 /* auto */;
}

static inline int fit_flags_table(fit_flags *f, option *list)
{
    int n = 0;
    list[n++] = opt_heading("how it is fitted");
    list[n++] = opt_number("seed", "of all random numbers", &f->seed, 0, 1000000000);
    list[n++] = opt_number("threads", "0 = as many as are worth it, at most one per core", &f->threads, 0, 1024);
    list[n++] = opt_number("samples", "K, probes per datum of the iterative engine", &f->samples, 1, 100000);
    list[n++] = opt_number("iterations", "I, its solver's steps", &f->iterations, 1, 100000);
    list[n++] = opt_choice("solver", "of the iterative engine", &f->solver, "gd,sd,cg,pcg");
    list[n++] = opt_choice("gradient", "of the iterative engine; exact: an exact engine instead", &f->gradient,
                           "exact,mc,output,network");
    list[n++] = opt_choice("engine", "auto takes the cheapest; all but iterative give the exact gradient", &f->engine,
                           "auto,iterative,dense,dual,banded,kalman,cholmod");
    list[n++] = opt_number("steps", "of the optimiser, at most", &f->steps, f->steps > 0, 100000000);
    list[n++] = opt_real("rate", "of the optimiser, its step size", &f->rate, f->rate > 0 ? 1e-9 : 0, 1e3);
    list[n++] = opt_device();
    list[n++] = opt_text("json", "write the results to this file", &f->json);
    list[n++] = opt_real("progress", "seconds between lines of progress where stderr is no terminal; 0 = none", &f->every, 0, 1e9);
    list[n++] = opt_flag("quiet", "no progress, no tables", &f->quiet);
    return n;
}

static inline int fit_converged(const pu_fit_report *report)
{
    return report->stop == PU_FIT_CONVERGED || report->stop == PU_FIT_BOUNDARY || report->stop == PU_FIT_GRADIENT;
}

/* For what is looked at after a fit: exact, whatever the fit was made by. */
static inline pu_options fit_exact(const fit_flags *f)
{
    pu_options exact;
    memset(&exact, 0, sizeof exact);
    exact.kind = PU_EXACT;
    exact.threads = (int)f->threads;
    return exact;
}

/* Of programs whose state can be kept in a file. */
static inline int fit_keep_table(fit_flags *f, option *list)
{
    list[0] = opt_text("checkpoint", "file to keep the state of the fit in", &f->checkpoint);
    list[1] = opt_text("resume", "go on from this checkpoint, and keep the state there", &f->resume);
    return FIT_KEEP;
}

/* reads: does this process read the file? */
static inline void fit_keep(const fit_flags *f, int reads, pu_fit_options *o)
{
    FILE *file = f->resume && reads ? fopen(f->resume, "rb") : NULL;
    if (f->checkpoint && f->resume && strcmp(f->checkpoint, f->resume) != 0) fail(2, "--resume", "names another file than --checkpoint");
    if (f->resume && reads && !file) fail_errno("cannot read", f->resume);
    if (file) fclose(file);
    o->checkpoint = f->resume ? f->resume : f->checkpoint, o->resume = f->resume != NULL;
}

static inline double fit_clock(void *user)
{
    (void)user;
    return seconds();
}

/* kind, engine, solver, K, I, seed, threads, device */
static inline void fit_flags_gradient(const fit_flags *f, pu_options *o)
{
    static const pu_solver solvers[] = {PU_GD, PU_SD, PU_CG, PU_PCG};
    static const pu_kind kinds[] = {PU_EXACT, PU_MONTE_CARLO, PU_OUTPUT, PU_NETWORK};
    static const pu_engine engines[] = {PU_ENGINE_AUTO, PU_ITERATIVE, PU_DENSE, PU_DUAL, PU_BANDED, PU_KALMAN, PU_CHOLMOD};
    memset(o, 0, sizeof *o);
    o->kind = kinds[f->gradient], o->engine = engines[f->engine], o->solve.solver = solvers[f->solver];
    if (o->engine != PU_ENGINE_AUTO && o->engine != PU_ITERATIVE) o->kind = PU_EXACT;
    if (o->kind == PU_EXACT && o->engine == PU_ITERATIVE) fail(2, "--gradient exact", "needs an exact --engine, or auto");
    o->samples = (pu_int)f->samples, o->solve.iterations = (pu_int)f->iterations;
    if (o->kind == PU_MONTE_CARLO) o->solve.iterations = 0; /* to convergence */
    o->seed = (uint64_t)f->seed, o->threads = (int)f->threads, o->backend = device_backend();
}

/* ---- Ctrl-C while a fit runs: it ends after the step at hand and keeps its checkpoint; a second one ends the program ---- */

static volatile sig_atomic_t fit_interrupted;

static void fit_interrupt(int number)
{
    fit_interrupted = 1;
    signal(number, SIG_DFL);
}

/* From here on Ctrl-C sets fit_interrupted. Programs of several fits, or of none, look at it and end with what there is. */
static inline void fit_listen(void)
{
    if (signal(SIGINT, fit_interrupt) == SIG_IGN) signal(SIGINT, SIG_IGN); /* in the background of a script: not for us */
}

/* What main returns: 0, or what the shell says of a program that Ctrl-C has ended. */
static inline int fit_code(void) { return fit_interrupted ? 128 + SIGINT : 0; }

/* On a terminal a line that is rewritten about five times a second, elsewhere one every so often. */
static inline int fit_progress(const pu_fit_report *now, void *user)
{
    fit_flags *f = (fit_flags *)user;
    const int terminal = isatty(2);
    const double t = seconds();
    const long left = now->seconds_left > 0 ? (long)(now->seconds_left + 0.5) : 0;
    if (fit_interrupted) return 1;
    if (f->quiet || (!terminal && !(f->every > 0))) return 0;
    if (f->drawn <= 0 && !terminal) f->drawn = t; /* the first line comes when there is something to wait for */
    if (t - f->drawn < (terminal ? 0.2 : f->every) && (now->step < now->steps || !terminal)) return 0;
    f->drawn = t;
    fprintf(stderr, "%s  step %ld of %ld  objective %.6g", terminal ? "\r" : "", (long)now->step, (long)now->steps, now->objective);
    if (now->objective_se > 0) fprintf(stderr, " +- %.2g", now->objective_se);
    fprintf(stderr, "  |gradient| %.3g  %.1f steps/s  at most %ld:%02ld:%02ld left%s", now->gradient, now->steps_per_second,
            left / 3600, left / 60 % 60, left % 60, terminal ? " \033[K" : "\n");
    fflush(stderr);
    return 0;
}

/* The same for work that is not a fit: what is being done. "" wipes the line of a terminal off at the end. */
static inline void work_progress(fit_flags *f, const char *format, ...)
{
    const int terminal = isatty(2), ends = !*format;
    const double t = seconds();
    va_list list;
    if (f->quiet || (!terminal && (ends || !(f->every > 0)))) return;
    if (f->drawn <= 0 && !terminal) f->drawn = t; /* the first line comes when there is something to wait for */
    if (t - f->drawn < (terminal ? 0.2 : f->every) && !ends) return;
    f->drawn = t;
    fprintf(stderr, "%s", terminal ? "\r" : "");
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "%s", terminal ? "\033[K" : "\n");
    fflush(stderr);
}

/* steps and rate of the flags; user = the flags. Sees to it that --json can be written. */
static inline void fit_flags_options(fit_flags *f, pu_fit_options *o)
{
    memset(o, 0, sizeof *o);
    file_ready(f->json);
    fit_flags_gradient(f, &o->gradient);
    o->steps = (pu_int)f->steps, o->rate = f->rate;
    o->clock = fit_clock, o->progress = fit_progress, o->user = f;
}

/* Ends the program when a fit failed; says so when it ended by gradients that cannot be relied on. */
static inline void need_fit(pu_status status, const pu_fit_report *report)
{
    pu_report told = report->last;
    char text[300];
    if (isatty(2)) fprintf(stderr, "\r\033[K"); /* the line of progress */
    if (status == PU_OK || (status == PU_INEXACT && need_silent)) return;
    told.status = report->status, told.where = report->where;
    pu_explain(&told, text, sizeof text);
    if (status != PU_INEXACT && status != PU_DIVERGED) fail(1, "pu_fit", text);
    fprintf(stderr, "%s: pu_fit: %s\n", program_name, text);
}

/* pu_fit, which Ctrl-C ends after its step: what there is then is used and told. options->progress is fit_progress, or returns
   what that returns. */
static inline void fit_run(pu_model *model, const pu_data *data, const pu_fit_options *options, pu_workspace *ws, pu_real *theta,
                           pu_fit_report *report)
{
    pu_status status;
    fit_listen();
    status = pu_fit(model, data, options, ws, theta, report);
    if (signal(SIGINT, SIG_DFL) == SIG_IGN) signal(SIGINT, SIG_IGN);
    need_fit(status, report);
    if (report->stop == PU_FIT_CALLBACK) fit_interrupted = 1; /* here, or on another process of a team */
    if (!fit_interrupted) return;
    fprintf(stderr, "%s: interrupted after step %ld of %ld; what follows is of that step%s%s\n", program_name,
            (long)report->step, (long)report->steps, options->checkpoint ? ", go on with --resume " : "",
            options->checkpoint ? options->checkpoint : "");
}

/* Likelihood of a fitted model with the options of its fit; GD and SD know no log det, so CG steps in for them. */
static inline void fit_nll(pu_model *model, const pu_real *theta, const pu_data *data, const pu_options *options,
                           pu_workspace *ws, double *nll, double *nll_se, pu_report *report)
{
    pu_options o = *options;
    if (o.solve.solver == PU_GD || o.solve.solver == PU_SD) o.solve.solver = PU_CG;
    need_result(pu_model_nll(model, theta, data, &o, ws, nll, nll_se, report), report);
}

/* How good the NLL of a report is: half the width of its 95 % interval, and what the solver leaves where that counts. Empty where
   it is exact. */
typedef struct {
    char text[120];
} nll_words;

static inline nll_words nll_error(const pu_report *report)
{
    nll_words w = {""};
    int used = 0;
    if (report->nll_95 > 0)
        used = snprintf(w.text, sizeof w.text, " +- %.2g (95 %%, %s)", report->nll_95,
                        report->served[PU_ITERATIVE] ? "probes" : "rounding");
    if (report->nll_se < 0) used = snprintf(w.text, sizeof w.text, " (a single probe: error unknown)");
    if (report->served[PU_ITERATIVE] && !report->nll_converged)
        snprintf(w.text + used, sizeof w.text - (size_t)used,
                 ", and the solver has not converged (about %.2g; more --iterations)", report->nll_gap);
    return w;
}

/* Most memory this process has had, in MB. Linux tells it of the program itself; getrusage counts the parent's, too, as it was
   when it started this program. */
static inline double peak_mb(void)
{
    struct rusage use;
    char line[256];
    double kb = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && kb < 0 && fgets(line, sizeof line, status))
        if (sscanf(line, "VmHWM: %lf kB", &kb) != 1) kb = -1;
    if (status) fclose(status);
    if (kb >= 0) return kb / 1024;
    return getrusage(RUSAGE_SELF, &use) == 0 ? (double)use.ru_maxrss / 1024 : 0;
}

/* Processor time of this process so far, of all its threads. */
static inline double processor_seconds(void)
{
    struct rusage use;
    if (getrusage(RUSAGE_SELF, &use) != 0) return (double)NAN;
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) + 1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

/* ---- JSON: one object, one key a line; a NULL file writes nothing. Numbers that are not finite become null. ---- */

typedef struct {
    FILE *file;
    const char *path;
    int keys;
} json;

static inline json json_open(const char *path)
{
    json j = {NULL, NULL, 0};
    j.path = path;
    if (path) j.file = file_open(path), fprintf(j.file, "{");
    return j;
}

static inline void json_key(json *j, const char *key)
{
    if (j->file) fprintf(j->file, "%s\n  \"%s\": ", j->keys++ ? "," : "", key);
}

/* As many digits as read back the same number: 1 - rho of a cycle near its boundary is in the last ones of rho. */
static inline void json_value(json *j, double x)
{
    char text[40] = "null";
    if (!j->file) return;
    if (x - x == 0) snprintf(text, sizeof text, "%.15g", x);
    if (x - x == 0 && strtod(text, NULL) != x) snprintf(text, sizeof text, "%.17g", x);
    fprintf(j->file, "%s", text);
}

static inline void json_number(json *j, const char *key, double x) { json_key(j, key), json_value(j, x); }

static inline void json_array(json *j, const char *key, pu_int n, const pu_real *x)
{
    pu_int i;
    json_key(j, key);
    if (!j->file) return;
    fprintf(j->file, "[");
    for (i = 0; i < n; i++) {
        if (i) fprintf(j->file, ", ");
        json_value(j, (double)x[i]);
    }
    fprintf(j->file, "]");
}

static inline void json_string(json *j, const char *text)
{
    if (!j->file) return;
    fputc('"', j->file);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') fprintf(j->file, "\\%c", *text);
        else if ((unsigned char)*text < 32) fprintf(j->file, "\\u%04x", (unsigned char)*text);
        else fputc(*text, j->file);
    }
    fputc('"', j->file);
}

static inline void json_text(json *j, const char *key, const char *text) { json_key(j, key), json_string(j, text); }

static inline void json_close(json *j)
{
    if (!j->file) return;
    fprintf(j->file, "\n}\n");
    file_close(j->file, j->path);
}

/* The keys that every program has. engine: the one that served most data of the last gradient. */
static inline void json_fit(json *j, const fit_flags *f, const pu_fit_report *r, double nll, double nll_se)
{
    int e, most = 0;
    for (e = 0; e < PU_ENGINES; e++)
        if (r->last.served[e] > r->last.served[most]) most = e;
    json_text(j, "engine", pu_engine_text((pu_engine)most));
    json_text(j, "device", device_name);
    json_text(j, "plan", r->last.plan);
    json_number(j, "seed", (double)f->seed);
    json_number(j, "steps", (double)r->step);
    json_number(j, "seconds", r->seconds);
    json_number(j, "seconds_per_step", r->steps_per_second > 0 ? 1 / r->steps_per_second : 0);
    json_number(j, "peak_mb", peak_mb());
    json_number(j, "nll", nll);
    json_number(j, "nll_se", nll_se);
    json_text(j, "status", pu_status_name(r->status));
    json_text(j, "stopped", pu_fit_stop_text(r->stop));
}

#endif /* EXAMPLES_FIT_H */
