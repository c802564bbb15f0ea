/* pu.c - what R calls (.Call): handles of pu.h's flat layer as external pointers, matrices in and out.

       cd examples/r && R CMD SHLIB pu.c        # makes pu.so; Makevars has the flags

   pu.R has the functions that people use. Every function here returns before it lets R raise an error: the library's frames
   are never left by a jump. A status goes back as a number, and R makes a condition of it. All memory of results is R's and
   is there before the library is called; handles belong to R's garbage collector. */
#ifndef PU_IMPLEMENTATION_ONCE /* with it: linked with libpu, see Makevars */
#define PU_STATIC
#define PU_IMPLEMENTATION
#endif
#include "pu.h"

#define R_NO_REMAP
#include <R.h>
#include <R_ext/Rdynload.h>
#include <Rinternals.h>

static int alive; /* handles that have not been freed */

static pu_flat *handle(SEXP pointer)
{
    pu_flat *f = TYPEOF(pointer) == EXTPTRSXP ? (pu_flat *)R_ExternalPtrAddr(pointer) : NULL;
    if (!f) Rf_error("this model is of another session of R, or was freed");
    return f;
}

static const char *text_of(SEXP text)
{
    if (TYPEOF(text) != STRSXP || XLENGTH(text) != 1 || STRING_ELT(text, 0) == NA_STRING) Rf_error("one text is wanted");
    return CHAR(STRING_ELT(text, 0));
}

static pu_real *reals_of(SEXP x, double count, const char *what)
{
    if (TYPEOF(x) != REALSXP || (double)XLENGTH(x) != count)
        Rf_error("%s: %.0f numbers are wanted, here are %.0f", what, count, (double)XLENGTH(x));
    return REAL(x);
}

/* A number of the handle's that is needed to make room: 0 where the model cannot be made, which the next call then tells. */
static int size_of(pu_flat *f, const char *name)
{
    const double size = pu_flat_number(f, name);
    if (size > 2147483647.0) Rf_error("%s: too many for R", name);
    return size >= 0 ? (int)size : 0;
}

/* list(status =, ...) of results, which are protected by the caller. */
static SEXP answer(int status, const char *const *names, const SEXP *values)
{
    int count = 0;
    SEXP list, labels;
    while (names[count]) count++;
    list = PROTECT(Rf_allocVector(VECSXP, count + 1));
    labels = PROTECT(Rf_allocVector(STRSXP, count + 1));
    SET_VECTOR_ELT(list, 0, Rf_ScalarInteger(status));
    SET_STRING_ELT(labels, 0, Rf_mkChar("status"));
    for (int i = 0; i < count; i++) {
        SET_VECTOR_ELT(list, i + 1, values[i]);
        SET_STRING_ELT(labels, i + 1, Rf_mkChar(names[i]));
    }
    Rf_setAttrib(list, R_NamesSymbol, labels);
    UNPROTECT(2);
    return list;
}

/* ---- handles ---- */

static void finalize(SEXP pointer)
{
    pu_flat *f = (pu_flat *)R_ExternalPtrAddr(pointer);
    if (!f) return;
    pu_flat_free(f);
    R_ClearExternalPtr(pointer);
    alive--;
}

static SEXP pu_r_new(SEXP name)
{
    const char *model = text_of(name);
    SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, R_NilValue, R_NilValue));
    pu_flat *f;
    R_RegisterCFinalizerEx(pointer, finalize, TRUE);
    f = pu_flat_new(model);
    if (!f) Rf_error("out of memory");
    R_SetExternalPtrAddr(pointer, f);
    alive++;
    UNPROTECT(1);
    return pointer;
}

static SEXP pu_r_free(SEXP pointer)
{
    finalize(pointer);
    return R_NilValue;
}

static SEXP pu_r_alive(void) { return Rf_ScalarInteger(alive); }

static SEXP pu_r_is_alive(SEXP pointer) { return Rf_ScalarLogical(R_ExternalPtrAddr(pointer) != NULL); }

/* A key's value: a text, an array (as: "a"; integers as they are, doubles as they are) or a number. */
static SEXP pu_r_set(SEXP pointer, SEXP key, SEXP value, SEXP as)
{
    pu_flat *f = handle(pointer);
    const char *name = text_of(key);
    if (TYPEOF(value) == STRSXP) return Rf_ScalarInteger(pu_flat_set_text(f, name, text_of(value)));
    if (*text_of(as) != 'a') return Rf_ScalarInteger(pu_flat_set_number(f, name, *reals_of(value, 1, name)));
    if (TYPEOF(value) == INTSXP)
        return Rf_ScalarInteger(pu_flat_set_array(f, name, INTEGER(value), 'i', (pu_int)XLENGTH(value)));
    return Rf_ScalarInteger(pu_flat_set_array(f, name, reals_of(value, (double)XLENGTH(value), name), 'd', (pu_int)XLENGTH(value)));
}

/* A row of y is a datum; NA is a NaN to C, and so a gap. */
static SEXP pu_r_data(SEXP pointer, SEXP y)
{
    pu_flat *f = handle(pointer);
    const pu_int n = Rf_nrows(y), m = Rf_ncols(y), real = (pu_int)sizeof(double);
    return Rf_ScalarInteger(pu_flat_data(f, n, m, reals_of(y, (double)n * (double)m, "y"), 'd', real, n * real));
}

static SEXP pu_r_number(SEXP pointer, SEXP name)
{
    const double number = pu_flat_number(handle(pointer), text_of(name));
    return Rf_ScalarReal(isnan(number) ? NA_REAL : number);
}

static SEXP pu_r_text(SEXP pointer, SEXP name) { return Rf_mkString(pu_flat_text(handle(pointer), text_of(name))); }

/* list(name, scale, natural) of theta; theta may be NULL. */
static SEXP pu_r_params(SEXP pointer, SEXP theta)
{
    static const char *const names[] = {"name", "scale", "natural", NULL};
    pu_flat *f = handle(pointer);
    const int count = size_of(f, "params");
    const pu_real *value = Rf_isNull(theta) ? NULL : reals_of(theta, count, "theta");
    SEXP all[3], list;
    all[0] = PROTECT(Rf_allocVector(STRSXP, count));
    all[1] = PROTECT(Rf_allocVector(INTSXP, count));
    all[2] = PROTECT(Rf_allocVector(REALSXP, count));
    for (int i = 0; i < count; i++) {
        SET_STRING_ELT(all[0], i, Rf_mkChar(pu_flat_param_name(f, i)));
        INTEGER(all[1])[i] = pu_flat_param_scale(f, i);
        REAL(all[2])[i] = value ? pu_flat_param_natural(f, i, value[i]) : NA_REAL;
    }
    list = answer((int)pu_flat_number(f, "status"), names, all);
    UNPROTECT(3);
    return list;
}

/* ---- fits ---- */

typedef struct {
    SEXP call, env; /* the user's function, or R_NilValue */
    int interrupted, failed;
} watch;

static void check_interrupt(void *unused)
{
    (void)unused;
    R_CheckUserInterrupt();
}

/* A function of R's own with the step and the objective: TRUE ends the fit. Its errors, and Ctrl-C, end it too: R's jumps stay
   within R_ToplevelExec and R_tryEval, and this function returns. */
static int progress(pu_flat *f, void *user)
{
    watch *w = (watch *)user;
    SEXP call, said;
    int stop = 0;
    if (!R_ToplevelExec(check_interrupt, NULL)) {
        w->interrupted = 1;
        return 1;
    }
    if (Rf_isNull(w->call)) return 0;
    call = PROTECT(Rf_lang3(w->call, PROTECT(Rf_ScalarReal(pu_flat_number(f, "steps"))),
                            PROTECT(Rf_ScalarReal(pu_flat_number(f, "objective")))));
    said = R_tryEval(call, w->env, &w->failed);
    if (!w->failed) stop = TYPEOF(said) == LGLSXP && XLENGTH(said) == 1 && LOGICAL(said)[0] == TRUE;
    UNPROTECT(3);
    return stop || w->failed;
}

static SEXP pu_r_start(SEXP pointer)
{
    static const char *const names[] = {"theta", NULL};
    pu_flat *f = handle(pointer);
    SEXP theta = PROTECT(Rf_allocVector(REALSXP, size_of(f, "params"))), list;
    list = answer(pu_flat_start(f, REAL(theta)), names, &theta);
    UNPROTECT(1);
    return list;
}

static SEXP pu_r_fit(SEXP pointer, SEXP start, SEXP function, SEXP env)
{
    static const char *const names[] = {"theta", "interrupted", "failed", NULL};
    pu_flat *f = handle(pointer);
    SEXP all[3], list;
    watch w;
    int status;
    w.call = function;
    w.env = env;
    w.interrupted = w.failed = 0;
    (void)reals_of(start, size_of(f, "params"), "theta");
    all[0] = PROTECT(Rf_duplicate(start));
    all[1] = PROTECT(Rf_allocVector(LGLSXP, 1));
    all[2] = PROTECT(Rf_allocVector(LGLSXP, 1));
    (void)pu_flat_progress(f, progress, &w);
    status = pu_flat_fit(f, REAL(all[0]));
    (void)pu_flat_progress(f, NULL, NULL); /* w is about to end */
    LOGICAL(all[1])[0] = w.interrupted;
    LOGICAL(all[2])[0] = w.failed;
    list = answer(status, names, all);
    UNPROTECT(3);
    return list;
}

/* ---- what needs theta ---- */

/* Which: 'g' gradient with errors, 'e' standard errors of theta, 'n' NLL alone. */
static SEXP pu_r_at(SEXP pointer, SEXP theta, SEXP which)
{
    static const char *const names[] = {"value", "se", NULL};
    pu_flat *f = handle(pointer);
    const int count = size_of(f, "params"), what = *text_of(which);
    const pu_real *at = reals_of(theta, count, "theta");
    SEXP all[2], list;
    int status;
    all[0] = PROTECT(Rf_allocVector(REALSXP, what == 'n' ? 0 : count));
    all[1] = PROTECT(Rf_allocVector(REALSXP, what == 'g' ? count : 0));
    if (what == 'g')
        status = pu_flat_gradient(f, at, REAL(all[0]), REAL(all[1]));
    else
        status = what == 'e' ? pu_flat_errors(f, at, REAL(all[0])) : pu_flat_nll(f, at);
    list = answer(status, names, all);
    UNPROTECT(2);
    return list;
}

/* Matrices come as latent x n or rows x n: what is a row to C is a column to R. Which: 'z' posterior of z, 'y' prediction. */
static SEXP pu_r_moments(SEXP pointer, SEXP theta, SEXP which)
{
    static const char *const names[] = {"mean", "variance", "fit", NULL};
    pu_flat *f = handle(pointer);
    const int of_z = *text_of(which) == 'z', n = size_of(f, "data"), size = size_of(f, of_z ? "latent" : "rows");
    const pu_real *at = reals_of(theta, size_of(f, "params"), "theta");
    SEXP all[3], list;
    int status;
    all[0] = PROTECT(Rf_allocMatrix(REALSXP, size, n));
    all[1] = PROTECT(Rf_allocMatrix(REALSXP, size, n));
    all[2] = PROTECT(of_z ? R_NilValue : Rf_allocMatrix(REALSXP, size, n));
    if (of_z)
        status = pu_flat_posterior(f, at, REAL(all[0]), REAL(all[1]));
    else
        status = pu_flat_predict(f, at, REAL(all[0]), REAL(all[2]), REAL(all[1]));
    list = answer(status, names, all);
    UNPROTECT(3);
    return list;
}

static SEXP pu_r_simulate(SEXP pointer, SEXP theta, SEXP number, SEXP seed)
{
    static const char *const names[] = {"z", "y", NULL};
    pu_flat *f = handle(pointer);
    const double n = *reals_of(number, 1, "n"), s = *reals_of(seed, 1, "seed");
    const pu_real *at = reals_of(theta, size_of(f, "params"), "theta");
    SEXP all[2], list;
    int status;
    if (!(n >= 1 && n <= 2147483647.0) || !(s >= 0 && s <= 9007199254740992.0)) Rf_error("n from 1 on, seed from 0 on");
    all[0] = PROTECT(Rf_allocMatrix(REALSXP, size_of(f, "latent"), (int)n));
    all[1] = PROTECT(Rf_allocMatrix(REALSXP, size_of(f, "rows"), (int)n));
    status = pu_flat_simulate(f, at, (pu_int)n, (uint64_t)s, REAL(all[0]), REAL(all[1]));
    list = answer(status, names, all);
    UNPROTECT(2);
    return list;
}

static SEXP pu_r_save(SEXP pointer, SEXP theta, SEXP notes, SEXP file)
{
    pu_flat *f = handle(pointer);
    const pu_real *at = reals_of(theta, size_of(f, "params"), "theta");
    return Rf_ScalarInteger(pu_flat_save(f, at, text_of(notes), text_of(file)));
}

static SEXP pu_r_load(SEXP pointer, SEXP file)
{
    static const char *const names[] = {"theta", NULL};
    pu_flat *f = handle(pointer);
    const char *path = text_of(file);
    SEXP theta = PROTECT(Rf_allocVector(REALSXP, size_of(f, "params"))), list;
    list = answer(pu_flat_load(f, path, REAL(theta)), names, &theta);
    UNPROTECT(1);
    return list;
}

static SEXP pu_r_version(void) { return Rf_mkString(pu_version()); }

#define ENTRY(name, arguments) {#name, (DL_FUNC)name, arguments}
static const R_CallMethodDef entries[] = {
    ENTRY(pu_r_new, 1), ENTRY(pu_r_free, 1), ENTRY(pu_r_alive, 0), ENTRY(pu_r_is_alive, 1), ENTRY(pu_r_set, 4),
    ENTRY(pu_r_data, 2), ENTRY(pu_r_number, 2), ENTRY(pu_r_text, 2), ENTRY(pu_r_params, 2), ENTRY(pu_r_start, 1),
    ENTRY(pu_r_fit, 4), ENTRY(pu_r_at, 3), ENTRY(pu_r_moments, 3), ENTRY(pu_r_simulate, 4), ENTRY(pu_r_save, 4),
    ENTRY(pu_r_load, 2), ENTRY(pu_r_version, 0), {NULL, NULL, 0}};

void R_init_pu(DllInfo *dll)
{
    R_registerRoutines(dll, NULL, entries, NULL, NULL);
    R_useDynamicSymbols(dll, FALSE);
}
