/* pu.h - v0.4.0 - maximum likelihood in latent Gaussian models without matrix inversion
   MIT licence (text at the end of this file). One file, C99 = C++11, no dependency but libm.

USE
    In exactly one source file:                      In every other file:
        #define PU_IMPLEMENTATION                        #include "pu.h"
        #include "pu.h"
    cc -O3 -march=native -fopenmp program.c -lm      (-fopenmp is optional)

EXAMPLE (complete; examples/first.c is the same program with more comments)
        #define PU_IMPLEMENTATION
        #include "pu.h"
        #include <stdio.h>
        int main(void)
        {
            pu_real Phi[3*2] = {1,0, 1,1, 0,1}, psi[3] = {4,4,4};    // y = Phi z + noise of precision psi
            pu_real y[2*3] = {1, 2, 1, 0, (pu_real)NAN, 1};          // two data, NAN marks a missing entry
            pu_op prior = pu_op_identity(2), map = pu_op_dense(3, 2, Phi);
            pu_lgm model = {&prior, &map, NULL, NULL, psi};          // z ~ N(0, I)
            pu_data data = pu_data_nan(2, 3, y);
            pu_real grad_Phi[3*2], grad_psi[3];
            pu_gradient_result out = {0};  out.Phi = grad_Phi;  out.psi = grad_psi;
            pu_report report;
            if (pu_gradient(&model, &data, NULL, NULL, &out, &report) != PU_OK) {
                char text[200];  puts(pu_explain(&report, text, sizeof text));  return 1;
            }
            printf("d NLL / d Phi[0] = %g   NLL = %g +- %g\n", (double)grad_Phi[0], report.nll, report.nll_se);
            return 0;
        }

WHAT IT DOES
    For   z ~ N(nu, Gamma^-1),   y | z ~ N(Phi z + eta, diag(psi)^-1),   entries of y missing at will,
    gradient EM needs the posterior mean and covariance of z, i.e. an inverse per datum. pu.h solves
    A X = [b | delta_1 .. delta_K] instead, with a few steps of GD, SD, CG or PCG, and forms the gradient
    of the negative log-likelihood from the posterior samples that come out ("probabilistic unrolling").
    Four gradients, one call: network (through the solver), output (of its result), Monte Carlo, exact.

DOES NOT
    - store or invert A where the iterative engine works. Exact engines (dense, dual, banded, Kalman) do; with zeroed
      options they are chosen where they are cheaper, and report.plan tells;
    - pivot, scale or repair: a precision that is not positive is refused, curvature that is not positive
      stops the column and is reported;
    - differentiate through the probes delta_k or a GD step size: they are constants. So is a preconditioner of
      yours, unless results.precond asks for its gradient; that of a model (model.precond) is not, unless options.constant_precond says so;
    - print, exit, abort, read the environment, keep global state, or allocate inside an iteration;
    - handle non-Gaussian likelihoods, or noise that is correlated between the entries of one y.

CONTENTS (grep for the tag)
    >>config >>types >>api           declarations
    >>status >>memory >>random >>kernel >>vector >>matrix >>operator >>structured >>series >>states >>chain >>fft >>fourier >>toeplitz
    >>check >>solver >>lanczos >>solve >>posterior >>engine >>plan >>batch >>sums >>gradient >>predict >>model >>models >>structural
    >>optimise >>checkpoint >>fit >>trial
                                     implementation

SWITCHES (define before the include; every unit of a program must agree, except on PU_IMPLEMENTATION)
    PU_IMPLEMENTATION    emit the function bodies here
    PU_FLOAT             pu_real is float; every name becomes puf_..., so a float and a double build can
                         live in one program and a mix-up fails at link time.  Default: double
    PU_STATIC            all functions static (needs PU_IMPLEMENTATION in the same unit)
    PU_NO_MALLOC         no malloc/free: memory comes from the caller's block or allocator hook only
    PU_NO_STDIO          no files: pu_fit without checkpoints
    _POSIX_C_SOURCE      (of the system; 200112 or more) checkpoints of pu_fit are safe against a crash of the machine and follow
                         links. gcc and clang set it by themselves unless asked for strict C (-std=c99)
    PU_NO_OPENMP         ignore OpenMP even when the compiler has it switched on
    PU_ASSERT(x)         internal consistency checks.  Default: nothing
    The next two concern the unit with PU_IMPLEMENTATION alone; results agree with the built-in code to
    rounding, not bit by bit. They are off by default because the built-in code is as fast for many sizes:
    docs/design.md has the figures.
    PU_USE_FFTW          transforms by FFTW 3 (link -lfftw3, or -lfftw3f with PU_FLOAT). Give plans back with
                         pu_fft_free, pu_fourier_free. FFTW's planner, so our init and free, must not run on two
                         threads at once. Plans are FFTW_ESTIMATE, the same at every run; where you loaded
                         wisdom for in-place interleaved plans, it is used. Plan with one thread
    PU_USE_CBLAS         products of dense operators with all rows and 8 or more columns by gemm (link any CBLAS,
                         e.g. -lopenblas). Keep the BLAS to one thread (OPENBLAS_NUM_THREADS=1): ours are threads
                         already, and its own may change the rounding from run to run. The bits of a column
                         then depend on options.columns
    PU_CBLAS_HEADER      where gemm is declared.  Default: <cblas.h>
    PU_CUDA              pu_cuda.cuh is included, too: the same calls on a GPU. Implementation in a .cu file only

MEMORY
    pu_gradient takes one block of memory per call and makes at most one allocation (PU_CHOOSE: two); a pu_workspace keeps
    the block, so that a second call of the same size allocates nothing. pu_gradient_bytes() tells the size
    beforehand, pu_workspace_block() lets you supply it. With n = D, k columns at a time and I steps the
    network gradient holds about (10 + I) n k + max(n, M) k + 2 M k reals per thread, whatever the adjoint (one copy
    of the gradient per lane; a copy of each of results.x, residual, alpha, beta that is wanted); with
    options.solve.tape_every = PU_CHOOSE the tape's I becomes about 2 sqrt(2 I) (CG, PCG) or 2 sqrt(I) (GD, SD)
    at the price of one more product with A per step.

STATUS
    0 is success, negative: refused (misuse, sizes, memory, input), positive: ran, but. pu_report.where names
    the array, datum, column and index. Output arrays are written only when the status is PU_OK, PU_CAP,
    PU_DIVERGED, PU_STAGNATED, PU_INEXACT or PU_UNIDENTIFIED; any other status leaves all of them as they were.

DETERMINISM AND THREADS
    Same inputs, seed and build: same bits, at any thread count. Random numbers are a function of (seed,
    datum, sample, step, index). Work is cut into options.lanes parts (default 4) whose sums are added in a
    fixed order; the number of lanes, not of threads, decides the rounding. Operators are called from
    several threads at once. A call takes one thread, and one more for every 10 ms that it is predicted to take,
    up to OpenMP's choice: idle threads spin, so that in short calls they would cost more processor time than
    they save. options.threads asks for another number. -ffast-math voids the NaN checks: refused (#error).
    Across compilers or flags the last bits may differ (contraction of a*b+c).
    In a float build sums of squares below about 1e-37 read as zero: scale data of norm below 1e-18.

MATHS (letters used throughout; W = diag(mask * psi), e = mask * (y - eta))
    A = Gamma + Phi' W Phi        b = Gamma nu + Phi' W e          mu = A^-1 b        Sigma = A^-1
    delta = Gamma^1/2 eps1 + Phi' W^1/2 eps2 ~ N(0, A)             sigma = A^-1 delta ~ N(0, Sigma)
    c = 1/2 e'We + 1/2 nu'Gamma nu - 1/2 sum log psi - 1/2 log det Gamma           (sums over observed entries)
    NLL = c + 1/2 log det A - 1/2 b'mu + M_n/2 log 2 pi
    q   = c + 1/2 mu'A mu - b'mu + 1/2 tr(A Sigma)
    Everything reported is the MEAN over the data of the batch.
*/
#if defined(PU_H) && defined(PU_FLOAT) != defined(PU__FLOAT)
#error "pu.h is included twice in one file, with PU_FLOAT and without: one precision per file"
#endif
#ifndef PU_H
#define PU_H
#ifdef PU_FLOAT
#define PU__FLOAT /* what the first include saw */
#endif

#include <stddef.h>
#include <stdint.h>

#define PU_VERSION "0.4.0"

/* ------------------------------------------------------------------------------------------------
   >>config
   ------------------------------------------------------------------------------------------------ */

#ifdef PU_FLOAT
/* One line per public name: a float build exports puf_ symbols and nothing else. */
#define pu_real puf_real
#define pu_block puf_block
#define pu_term puf_term
#define pu_state puf_state
#define pu_unwinding puf_unwinding
#define pu_backend puf_backend
#define pu_op puf_op
#define pu_side puf_side
#define pu_solve_arrays puf_solve_arrays
#define pu_lgm puf_lgm
#define pu_data puf_data
#define pu_solve_options puf_solve_options
#define pu_options puf_options
#define pu_column puf_column
#define pu_gradient_result puf_gradient_result
#define pu_report puf_report
#define pu_exact_result puf_exact_result
#define pu_model puf_model
#define pu_model_set puf_model_set
#define pu_model_gradient puf_model_gradient
#define pu_model_gradient_bytes puf_model_gradient_bytes
#define pu_model_nll puf_model_nll
#define pu_model_posterior puf_model_posterior
#define pu_model_predict puf_model_predict
#define pu_model_simulate puf_model_simulate
#define pu_model_plan puf_model_plan
#define pu_model_start puf_model_start
#define pu_model_param puf_model_param
#define pu_param_natural puf_param_natural
#define pu_param_theta puf_param_theta
#define pu_model_free puf_model_free
#define pu_model_factors puf_model_factors
#define pu_model_ppca puf_model_ppca
#define pu_model_sparse puf_model_sparse
#define pu_model_regression puf_model_regression
#define pu_model_neural puf_model_neural
#define pu_version puf_version
#define pu_status_text puf_status_text
#define pu_status_name puf_status_name
#define pu_stop_text puf_stop_text
#define pu_explain puf_explain
#define pu_engine_text puf_engine_text
#define pu_workspace_block puf_workspace_block
#define pu_workspace_free puf_workspace_free
#define pu_philox puf_philox
#define pu_normals puf_normals
#define pu_backend_cpu puf_backend_cpu
#define pu_op_dense puf_op_dense
#define pu_op_spd puf_op_spd
#define pu_spd_factor puf_spd_factor
#define pu_op_diagonal puf_op_diagonal
#define pu_op_identity puf_op_identity
#define pu_op_scaled_identity puf_op_scaled_identity
#define pu_op_product puf_op_product
#define pu_op_sum puf_op_sum
#define pu_data_full puf_data_full
#define pu_data_masked puf_data_masked
#define pu_data_nan puf_data_nan
#define pu_data_lists puf_data_lists
#define pu_solve_bytes puf_solve_bytes
#define pu_solve puf_solve
#define pu_gradient_bytes puf_gradient_bytes
#define pu_gradient puf_gradient
#define pu_nll puf_nll
#define pu_fit puf_fit
#define pu_fit_report puf_fit_report
#define pu_fit_options puf_fit_options
#define pu_fit_errors puf_fit_errors
#define pu_fit_bytes puf_fit_bytes
#define pu_fit_covariance puf_fit_covariance
#define pu_fit_stop_text puf_fit_stop_text
#define pu_fit_explain puf_fit_explain
#define pu_tune puf_tune
#define pu_exact_bytes puf_exact_bytes
#define pu_exact puf_exact
#define pu_posterior_result puf_posterior_result
#define pu_predict_result puf_predict_result
#define pu_simulate puf_simulate
#define pu_posterior puf_posterior
#define pu_predict puf_predict
#define pu_plan puf_plan
#define pu_ar puf_ar
#define pu_ar_set puf_ar_set
#define pu_ar_set_phi puf_ar_set_phi
#define pu_ar_phi_grad puf_ar_phi_grad
#define pu_op_ar puf_op_ar
#define pu_ssm puf_ssm
#define pu_ssm_set puf_ssm_set
#define pu_ssm_mean puf_ssm_mean
#define pu_ssm_mean_grad puf_ssm_mean_grad
#define pu_op_ssm puf_op_ssm
#define pu_op_readout puf_op_readout
#define pu_model_noisy_ar puf_model_noisy_ar
#define pu_model_get_ar puf_model_get_ar
#define pu_model_state_space puf_model_state_space
#define pu_model_get_ssm puf_model_get_ssm
#define pu_model_structural puf_model_structural
#define pu_model_part puf_model_part
#define pu_csr puf_csr
#define pu_low_rank puf_low_rank
#define pu_op_csr puf_op_csr
#define pu_op_low_rank puf_op_low_rank
#define pu_low_rank_factor puf_low_rank_factor
#define pu_op_kronecker puf_op_kronecker
#define pu_op_toeplitz puf_op_toeplitz
#define pu_lags puf_lags
#define pu_toeplitz_bytes puf_toeplitz_bytes
#define pu_circulant_bytes puf_circulant_bytes
#define pu_toeplitz_factor puf_toeplitz_factor
#define pu_op_circulant puf_op_circulant
#define pu_circulant_factor puf_circulant_factor
#define pu_fft puf_fft
#define pu_fft_bytes puf_fft_bytes
#define pu_fft_init puf_fft_init
#define pu_fft_run puf_fft_run
#define pu_fft_free puf_fft_free
#define pu_fourier puf_fourier
#define pu_fourier_bytes puf_fourier_bytes
#define pu_fourier_init puf_fourier_init
#define pu_fourier_run puf_fourier_run
#define pu_fourier_free puf_fourier_free
#define pu_op_fourier puf_op_fourier
#define pu_check_options puf_check_options
#define pu_op_check puf_op_check
#define pu_model_check puf_model_check
#define pu_check_explain puf_check_explain
typedef float pu_real;
#else
typedef double pu_real;
#endif

#define PU_R(x) ((pu_real)(x)) /* a literal or a count in the library's precision */

#if defined(__GNUC__) || defined(__clang__)
#define PU_UNUSED __attribute__((unused))
#else
#define PU_UNUSED
#endif

#ifdef PU_STATIC
#define PU_DEF static PU_UNUSED
#else
#define PU_DEF extern
#endif

#ifdef __CUDACC__
#define PU_HD __host__ __device__ /* per-column scalar arithmetic is shared with the GPU */
#else
#define PU_HD
#endif

#ifndef PU_ASSERT
#define PU_ASSERT(x) ((void)0)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------
   >>types
   ------------------------------------------------------------------------------------------------ */

typedef ptrdiff_t pu_int; /* sizes and indices: signed, so that a negative one is seen and refused */

#define PU_ZERO ((pu_int)-1) /* "exactly zero" where a zero field means the default */
#define PU_CHOOSE ((pu_int)-2) /* "choose for me, and report it" */

/* Statuses: enum, name and text from one list. */
#define PU_STATUS_LIST(X)                                                                         \
    X(PU_OK, 0, "ok")                                                                             \
    X(PU_E_NULL, -1, "a required pointer is null")                                                \
    X(PU_E_ARGUMENT, -2, "an argument is out of its range")                                       \
    X(PU_E_SIZE, -3, "dimensions do not agree")                                                   \
    X(PU_E_OVERFLOW, -4, "a size does not fit the machine's integers")                            \
    X(PU_E_MEMORY, -5, "out of memory")                                                           \
    X(PU_E_BLOCK, -6, "the caller's memory block is too small")                                   \
    X(PU_E_NONFINITE, -7, "the input holds a NaN or an infinity")                                 \
    X(PU_E_NOT_POSITIVE, -8, "a value that must be positive is not")                              \
    X(PU_E_NOT_SYMMETRIC, -9, "an operator that must be symmetric is not")                        \
    X(PU_E_NOT_DEFINITE, -10, "an operator that must be positive definite is not")                \
    X(PU_E_UNSUPPORTED, -11, "the operator lacks a function that this call needs")                \
    X(PU_E_OPERATOR, -12, "an operator's function reported failure")                              \
    X(PU_E_NOT_ADJOINT, -13, "apply_t is not the transpose of apply")                             \
    X(PU_E_FILE, -14, "a file cannot be read or written as asked")                                \
    X(PU_E_DEVICE, -15, "the device, its driver or one of its libraries reported an error")       \
    X(PU_E_NO_DEVICE, -16, "there is no device that could be used")                               \
    X(PU_E_CONTRACT, -17, "a function of an operator or model does not do what it must")          \
    X(PU_CAP, 1, "the iteration cap was reached before the tolerance")                            \
    X(PU_BREAKDOWN, 2, "curvature d'Ad was not positive: A is not positive definite")             \
    X(PU_NONFINITE, 3, "a NaN or an infinity arose during the run")                               \
    X(PU_DIVERGED, 4, "gradient descent ended with a larger residual than it began with")         \
    X(PU_STAGNATED, 5, "the residual reached rounding level before the tolerance")                \
    X(PU_INEXACT, 6, "ran, but rounding took more than half of the digits")                       \
    X(PU_UNIDENTIFIED, 7, "a parameter is not identified by the data: its standard error is NaN")

typedef enum {
#define PU_X(name, value, text) name = value,
    PU_STATUS_LIST(PU_X)
#undef PU_X
    PU_STATUS_END = 1000 /* not a status; closes the list */
} pu_status;

/* Why a column stopped changing. */
#define PU_STOP_LIST(X)                                                                           \
    X(PU_STOP_STEPS, 0, "ran all its steps")                                                      \
    X(PU_STOP_TOLERANCE, 1, "residual reached the tolerance")                                     \
    X(PU_STOP_ROUNDING, 2, "residual reached rounding level")                                     \
    X(PU_STOP_ZERO, 3, "residual is exactly zero")                                                \
    X(PU_STOP_BREAKDOWN, 4, "curvature not positive")                                             \
    X(PU_STOP_NONFINITE, 5, "NaN or infinity")                                                    \
    X(PU_STOP_DIRECT, 6, "solved by a direct factorisation")

typedef enum {
#define PU_X(name, value, text) name = value,
    PU_STOP_LIST(PU_X)
#undef PU_X
    PU_STOP_COUNT /* number of reasons */
} pu_stop;

/* The culprit of a status. Numbers that do not apply are -1. */
typedef struct {
    const char *what; /* array, argument or operator function, e.g. "data.y", in brackets what would do; never NULL */
    pu_int datum;     /* which datum of the batch */
    pu_int column;    /* which right-hand side: 0 the mean, 1.. the probes */
    pu_int index;     /* entry of the array (of datum's part of it; data.y: the row of Phi), or the step */
    pu_int most;      /* of a number that is too large: the largest that would do */
} pu_where;

/* Memory. A pu_workspace must start zeroed. It grows by malloc; set `allocator` to use your own functions, or give it
   a fixed block with pu_workspace_block(). Not to be shared by calls that run at the same time. One that holds
   arbitrary bytes instead is refused (PU_E_ARGUMENT) and never freed; what `mark` cannot tell is an allocator of
   arbitrary bytes in a struct that is zero otherwise. */
typedef struct {
    void *(*alloc)(size_t bytes, void *user); /* NULL on failure; at least 16-byte aligned */
    void (*free)(void *block, size_t bytes, void *user);
    void *user;
} pu_allocator;

typedef struct {
    void *block;
    size_t bytes;
    pu_allocator allocator; /* zero: malloc and free */
    int fixed;              /* block belongs to the caller and must not grow */
    size_t allocations;     /* how many times the allocator was asked, ever */
    size_t mark;            /* private: follows from block, bytes and fixed where the library wrote them */
} pu_workspace;

/* Structs that are written out further down. */
typedef struct pu_op pu_op;
typedef struct pu_model pu_model;
typedef struct pu_ar pu_ar;
typedef struct pu_ssm pu_ssm;
typedef struct pu_side pu_side;
typedef struct pu_backend pu_backend;

/* ---- data ------------------------------------------------------------------------------------------------ */

/* Latent Gaussian model; arrays and operators are borrowed, D = Gamma->rows, M = Phi->rows. */
typedef struct {
    const pu_op *Gamma; /* D x D prior precision, symmetric positive definite */
    const pu_op *Phi;   /* M x D */
    const pu_real *nu;  /* D prior mean, NULL = 0 */
    const pu_real *eta; /* M offset, NULL = 0 */
    const pu_real *psi; /* M noise precisions, > 0 */
} pu_lgm;

typedef enum { PU_DATA_FULL, PU_DATA_MASKED, PU_DATA_NAN, PU_DATA_LISTS } pu_data_kind;

/* N data of M entries. Make one with pu_data_full, _masked, _nan or _lists; arrays are borrowed. */
typedef struct {
    pu_int n, m;
    pu_data_kind kind;
    const pu_real *y;          /* N x M rows (lists: start[N] values) */
    pu_int ldy;                /* distance between rows; 0 = m */
    const unsigned char *mask; /* N x M, same ldy: 0 = missing, that entry of y is never read */
    const pu_int *start;       /* lists: datum n holds entries start[n] .. start[n+1]-1 */
    const pu_int *index;       /* lists: rows of Phi, strictly increasing within a datum */
    const pu_int *id;          /* numbers that key each datum's random stream; NULL = 0, 1, 2, .. */
    const pu_int *pick;        /* N numbers: datum n of the batch is number pick[n] of the arrays above (and of id, and
                                  in its random stream), below the number of data there; NULL = n. For mini-batches; all
                                  else counts data as the batch does */
} pu_data;

/* N data of m entries each, arrays borrowed: complete; gaps where mask is 0; gaps where y is NaN; lists of what is
   there. What is wrong with them is found by the call that uses them. */
PU_DEF pu_data pu_data_full(pu_int n, pu_int m, const pu_real *y);
PU_DEF pu_data pu_data_masked(pu_int n, pu_int m, const pu_real *y, const unsigned char *mask);
PU_DEF pu_data pu_data_nan(pu_int n, pu_int m, const pu_real *y);
PU_DEF pu_data pu_data_lists(pu_int n, pu_int m, const pu_int *start, const pu_int *index, const pu_real *y);

/* ---- options: zero means the default written beside the field (C: = {0}, C++: = {}) ---------------- */

typedef enum { PU_CG, PU_PCG, PU_SD, PU_GD } pu_solver;
typedef enum { PU_NETWORK, PU_OUTPUT, PU_MONTE_CARLO, PU_EXACT } pu_kind;

/* How a datum's systems are solved. All but the first are exact; what they need is beside them. */
#define PU_ENGINE_LIST(X)                                                                                   \
    X(PU_ENGINE_DEFAULT, 0, "default")   /* chosen: as auto; but iterative where an option of that engine   \
                                            is set (samples, solve, delta, x0, groups ..) or a result asked \
                                            for that only its probes have, or a kind but PU_EXACT */        \
    X(PU_ITERATIVE, 1, "iterative")      /* a few steps of options.solve.solver, K probes */               \
    X(PU_DENSE, 2, "dense")              /* Cholesky of A: D^3 */                                          \
    X(PU_DUAL, 3, "dual")                /* Woodbury, m observed entries: 2 m^2 D + m^3/3; Gamma.solve */  \
    X(PU_BANDED, 4, "banded")            /* band (block tridiagonal) Cholesky, selected inverse: D band^2; \
                                            Gamma.band_add, band_grad, Phi.row, row_grad */                \
    X(PU_KALMAN, 5, "kalman")            /* square-root smoother: T S^3, several times banded, but the most exact where a \
                                            start is wide; Gamma a pu_op_ssm or pu_op_ar (order <= PU_SSM_MAX), each row \
                                            of Phi within one time step; PU_EXACT only */ \
    X(PU_ENGINE_AUTO, 6, "auto")         /* per datum the cheapest of those that apply; see report.plan */
typedef enum {
#define PU_X(name, value, text) name = value,
    PU_ENGINE_LIST(PU_X)
#undef PU_X
    PU_ENGINES
} pu_engine;

/* How the network gradient goes back through CG and PCG (docs/design.md, "the reverse pass"): FULL differentiates
   alpha and beta too; SHORTCUT treats them as constants, which is the same gradient in exact arithmetic, cheaper, and
   unstable when A has a few far outlying eigenvalues; REORTHOGONAL is the shortcut with both passes re-orthogonalised
   (O(I^2 D) per column), stable on every spectrum. FULL, too, explodes once rounding has cost CG its orthogonality: when
   A is ill conditioned and the solve goes on until eigenvalues have converged. So every solve measures how much an error
   could grow on the way back (see pu_column), and a block of columns (options.columns) one of which is not safe is
   solved again with REORTHOGONAL: FULL beyond a growth of eps^-1/2, SHORTCUT beyond 100, AUTO, which runs the shortcut,
   beyond that or where orthogonality is lost. The report counts them. With tape_every > 0 and more than 10 steps there is
   no room for it: then the status is PU_INEXACT, as it is with no_repeat. SD and GD know FULL and SHORTCUT only (AUTO
   and REORTHOGONAL run FULL, and the columns say so); for GD the two agree, for SD the SHORTCUT is a different gradient. */
typedef enum { PU_ADJOINT_FULL, PU_ADJOINT_SHORTCUT, PU_ADJOINT_REORTHOGONAL, PU_ADJOINT_AUTO } pu_adjoint;

typedef struct {
    pu_int iterations;      /* I; 0 = 30 (with a tolerance: 10 n + 100, at most 1000); PU_ZERO = no step at all;
                               PU_CHOOSE (pu_gradient, CG and PCG): see pu_options.error */
    pu_solver solver;       /* default PU_CG */
    double tolerance;       /* > 0: stop a column at |r| <= tolerance |u|; then I is a cap. 0 = run exactly I steps.
                               Rounding level (1e-14 in double, 3e-7 in float) stops a column in any case */
    double absolute2;       /* > 0: stop at |r|^2 <= absolute2 as well (the paper's rule) */
    pu_int check_every;     /* with a tolerance, scalars on a device: steps between looks at the stop flags; 0 = 5 */
    pu_adjoint adjoint;     /* default PU_ADJOINT_FULL */
    int no_repeat;          /* leave a reverse pass as it is where its check calls it unstable; PU_INEXACT tells */
    pu_int tape_every;      /* tape: 0 = keep all I directions; s > 0 = keep every s-th state; PU_CHOOSE = about sqrt */
    const pu_real *precond; /* PCG (else refused): diagonal of M^-1, positive. pu_solve: n; pu_gradient: N x D. NULL:
                               1/diag(A) */
    const pu_real *step;    /* GD (else refused): step size. pu_solve: 1; pu_gradient: N. NULL: estimated from a few
                               Lanczos steps */
    pu_int precond_stride;  /* pu_gradient: reals from one datum's precond to the next; 0 = D, PU_ZERO = all data share
                               one */
} pu_solve_options;

typedef struct {
    pu_int samples;            /* K; 0 = 10; PU_ZERO = none (PU_EXACT only); PU_CHOOSE: see `error` */
    pu_kind kind;              /* default PU_NETWORK */
    pu_engine engine;          /* default: chosen, report.plan tells; the paper's recipe is PU_ITERATIVE. Exact engines
                                  serve PU_EXACT and, but for Kalman, PU_MONTE_CARLO; PU_ENGINE_AUTO serves all kinds: a
                                  datum that an exact engine takes gets the exact gradient, the others what `kind` says */
    pu_solve_options solve;    /* PU_MONTE_CARLO without a tolerance: to rounding level */
    uint64_t seed;             /* default 0 */
    uint32_t step;             /* changes the probes: keep it fixed for common random numbers, count it up for fresh
                                  ones */
    const pu_real *delta;      /* N x K x D: use these probes instead of drawing */
    const pu_real *x0;         /* N x (K+1) x D: warm start, a constant; NULL = 0 */
    int threads;               /* 0 = one, and one more for every 10 ms that the job is predicted to take on one core, up
                                  to OpenMP's choice (built-in operators' sizes decide) */
    int lanes;                 /* parts whose sums are kept apart; 0 = 4, at most 1,000,000. Memory: one gradient each */
    pu_int columns;            /* columns solved at a time; 0 = as many as fit the cache */
    pu_int groups;             /* of probes, for standard errors (2 .. K); 0 = K, at most 16. Memory: a gradient per
                                  group and lane */
    int rao_blackwell;         /* replace sigma_j^2 in Gamma's gradient by 1/A_jj + (sigma_j - delta_j/A_jj)^2: the same
                                  mean, less variance where A_jj dominates its row. Needs diag(A) and Gamma.band_grad.
                                  The difference is a control variate; PU_NETWORK does not differentiate it through the
                                  solver */
    double error;              /* with samples or solve.iterations = PU_CHOOSE: the relative error wanted of the
                                  gradient; 0 = 0.1. A pilot (pu_tune) on the first data finds K for the statistical
                                  error and then I for a solver error below half of what K leaves. The report says what
                                  was chosen and from what. Without PU_CHOOSE it is refused */
    pu_int most_samples;       /* limit of that K; 0 = 100 */
    pu_int most_iterations;    /* limit of that I; 0 = 100, at most 1,000,000 */
    int tied_psi;              /* psi is one number, written M times (else refused): of its gradient, replicates and
                                  standard errors only the sum over the rows is meant, which saves products where Phi is
                                  Fourier sensing. Models set it */
    int constant_precond;      /* pu_model_gradient, PU_NETWORK with PU_PCG and the model's own precond, which depends on
                                  theta: leave that out of the derivative. Only good for comparisons: with few steps the
                                  two parts are large and cancel (docs/design.md). Standard errors leave it out in any
                                  case */
    int no_control_variate;    /* log det: leave out the free control variate tr(A Sigma) = D (used where diag(A) is
                                  known) */
    const pu_backend *backend; /* default pu_backend_cpu() */
} pu_options;

/* ---- results: arrays you own; NULL = not wanted ----------------------------------------------------- */

typedef struct {
    pu_int steps;         /* steps this column took */
    pu_stop stop;         /* why it stopped */
    pu_adjoint adjoint;   /* how its reverse pass was done (network gradient) */
    double rhs;           /* |u| */
    double residual;      /* |r| as the recurrence has it */
    double true_residual; /* |u - A x| recomputed */
    double orthogonality; /* max_j |r_I'd_j| / (|u| |d_j|); -1 where not measured (only PU_ADJOINT_AUTO does) */
    double growth;        /* factor by which the shortcut's recursion can enlarge an error, and the forward pass as
                             well; -1 where not measured (no reverse pass; SD, GD, REORTHOGONAL) */
} pu_column;

typedef struct {
    pu_real *nu;         /* D               gradients of the mean objective */
    pu_real *Gamma;      /* Gamma->params */
    pu_real *Phi;        /* Phi->params */
    pu_real *eta;        /* M */
    pu_real *psi;        /* M */
    pu_real *precond;    /* D               in options.solve.precond, through the solver. Refused unless PU_NETWORK,
                                            PU_PCG and one precond for all data (precond_stride = PU_ZERO) */
    pu_real *x;          /* N x (K+1) x D   [mu | sigma_1 .. sigma_K] */
    pu_real *residual;   /* N x (K+1) x D   u - A x, recomputed */
    pu_real *alpha;      /* N x (K+1) x I   step sizes, zero where a column had stopped and in direct engines */
    pu_real *beta;       /* N x (K+1) x I */
    pu_real *logdet;     /* N x K           log det A estimate of each probe (CG, PCG, no warm start; else refused) */
    pu_column *columns;  /* N x (K+1) */
    /* Standard errors over the probes, component by component (0 where nothing is random; at least 2 probes). The
       probes form G = report.groups groups; a replicate is the whole gradient as the probes of one group alone would
       have it. A 95 % interval is +- report.se_95 of them. */
    pu_real *se_Gamma;   /* Gamma->params */
    pu_real *se_Phi;     /* Phi->params */
    pu_real *se_psi;     /* M */
    pu_real *replicates; /* G x (Gamma->params + Phi->params + M): [Gamma | Phi | psi]; parts whose gradient is not
                            asked for: 0 */
} pu_gradient_result;

/* What happened. Written on every return (also on refusal: status and where). */
typedef struct {
    pu_status status;
    pu_where where;
    pu_kind kind;                /* what was run, defaults resolved */
    pu_engine engine;
    pu_solver solver;
    pu_int samples, iterations;
    pu_int tape_every;           /* tape interval used, 0 = full tape */
    int threads, lanes;
    pu_int columns;              /* columns at a time */
    size_t bytes;                /* workspace used */
    size_t device_bytes;         /* memory of the backend used, or lacking */
    pu_int batch;                /* data side by side on the device */
    pu_int served[PU_ENGINES];   /* data by the engine that served them */
    char plan[600];              /* the same in words, with the reason; before that, how K and I were chosen */
    double seconds;              /* predicted time on one core, before the run (built-in operators' sizes decide) */

    pu_int groups;               /* of probes behind the standard errors; 0: none were asked for */
    double se_95;                /* a 95 % interval of a component is +- se_95 times its standard error: Student's t, G - 1
                                    degrees of freedom, and (15.3 + 45/S)/S, S = K times the data with probes, because
                                    components are skewed. Where each datum adds one squared normal per probe (alpha of a
                                    sparse model, psi) it covers 95 % from K = 4 on; Student's t alone 82 % (K = 4), 86 %
                                    (10), 92 % (32). It covers more where a component sums many, a little less where it
                                    depends on few of the data */
    double statistical_error;    /* |standard errors| / |gradient| over [Gamma | Phi | psi]; -1: not asked for */
    double solver_error;         /* estimate of the relative error that ending the solver early leaves in the gradient:
                                    eps (PU_NETWORK: I eps^2), eps^2 = sum |x - A^-1 u|_A^2 / sum |x|_A^2, and more
                                    where the mean's share of it meets what cancels, e - Phi mu or mu - nu; -1: unknown
                                    (GD, SD, warm start, or nobody asked for the likelihood) */
    double rounding_error;       /* estimate of the relative error that rounding leaves in the results of direct
                                    engines, to the terms that they are the sum of (in mu, in Sigma, log det), on the safe
                                    side by 10 (docs/design.md, "Rounding"); above 10 times the root of the machine's
                                    epsilon the status is PU_INEXACT; 1: no digit may be right; -1: not measured (a
                                    device; iterative engine without gradients). Iterative engine: what cancels in
                                    gradients; what the solver leaves is solver_error */
    double ritz_min, ritz_max;   /* extreme Ritz values of A (PCG: of M^-1 A) over all columns; 0 where unknown */

    int has_objective;           /* 0 when Gamma has no logdet: then c, q, network, nll are 0 */
    double c, q;                 /* means over data */
    double network;              /* q - mean_k delta_k'sigma_k: the function whose derivative the network gradient is */
    int has_nll;                 /* exact engines, or CG / PCG with probes */
    double nll;                  /* mean negative log-likelihood, with 2 pi */
    double nll_se;               /* its standard error over probes; 0 = exact, -1 = unknown (K = 1). With PU_INEXACT what
                                    rounding leaves is added to it */
    double nll_95;               /* half the width of a 95 % interval: Student's t with N (K - 1) degrees of freedom
                                    times nll_se */
    double nll_gap;              /* estimate of what more iterations would still change through the log det, mean */
    int nll_converged;           /* 0: the gap exceeds a tenth of the standard error, or mean_k delta'sigma is too far
                                    below its expectation D: take more iterations */

    pu_int stops[PU_STOP_COUNT]; /* columns by stop reason */
    pu_int reorthogonalised;     /* columns repeated with re-orthogonalisation: their reverse pass was not safe */
    double worst_orthogonality;  /* largest over columns, PU_ADJOINT_AUTO; else -1 */
    double worst_growth;         /* largest over columns (all adjoints but REORTHOGONAL); else -1 */
    double worst_residual;       /* largest |u - Ax| / |u| over columns (0 / 0 counts as 0) */
    pu_int worst_datum, worst_column;
    double products;             /* products A x column */
} pu_report;

/* ------------------------------------------------------------------------------------------------
   >>api
   ------------------------------------------------------------------------------------------------ */

/* ---- models in their own parameters theta ---------------------------------------------------------------- */

/* theta = x, log x, atanh x, log((x - lower) / (upper - x)) */
typedef enum { PU_SCALE_FREE, PU_SCALE_LOG, PU_SCALE_ATANH, PU_SCALE_LOGIT } pu_scale;

typedef struct {
    char name[32];       /* of the natural value x, e.g. "Phi[3,7]", "kappa"; indices from 0 */
    pu_scale scale;      /* how theta codes it */
    double lower, upper; /* x lies strictly between (infinite where free) */
} pu_param;

enum { PU_USES_NU = 1, PU_USES_GAMMA = 2, PU_USES_PHI = 4, PU_USES_ETA = 8, PU_USES_PSI = 16, PU_USES_PRECOND = 32 };

/* theta (params) -> model->lgm. PU_E_NONFINITE or the model's own status with where = "theta" and the index; the
   built-in models then keep the canonical form they had. */
PU_DEF pu_status pu_model_set(pu_model *model, const pu_real *theta, pu_report *report);

/* Gradient of the mean objective in theta: set, pu_gradient, the model's grad.
     grad   params, overwritten
     se     params or NULL: standard error of grad over the probes, from options.groups of them (0 where no probe enters)
   options, ws, report as for pu_gradient; with PU_PCG and no options.solve.precond the model's own precond is used, and the network
   gradient goes through it, too (options.constant_precond). One block of ws for everything. Cost: that of pu_gradient, and of one
   call of the model's grad, with se one more per group. Status rules as pu_gradient's; grad
   and se are untouched wherever pu_gradient's outputs would be. A model that uses nu may enlarge rounding on the way back
   (a state space whose A has eigenvalues beyond 1): that is in report.rounding_error, at the price of one more grad. */
PU_DEF pu_status pu_model_gradient(pu_model *model, const pu_real *theta, const pu_data *data, const pu_options *options,
                                   pu_workspace *ws, pu_real *grad, pu_real *se, pu_report *report);
/* Bytes of workspace that it needs (se: whether that is wanted). No theta: the model need not have been set, unless it
   is one of yours that fills in lgm no sooner. */
PU_DEF pu_status pu_model_gradient_bytes(pu_model *model, const pu_data *data, const pu_options *options, int se,
                                         size_t *bytes, pu_report *report);
/* set, then pu_nll. */
PU_DEF pu_status pu_model_nll(pu_model *model, const pu_real *theta, const pu_data *data, const pu_options *options,
                              pu_workspace *ws, double *nll, double *se, pu_report *report);
/* A start for these data; same seed, same theta (params). Constant or missing entries are fine. PU_E_UNSUPPORTED: the
   model has none. PU_E_NONFINITE, index: data so large that there is none. report->plan tells where several were tried,
   and how far their ends are apart. */
PU_DEF pu_status pu_model_start(const pu_model *model, const pu_data *data, uint64_t seed, pu_real *theta,
                                pu_report *report);

/* What entry i of theta is. PU_E_NULL, PU_E_ARGUMENT (no such entry). */
PU_DEF pu_status pu_model_param(const pu_model *model, pu_int i, pu_param *param);
/* Its natural value x for an entry theta, and the way back (NaN or infinite when x is out of bounds; NaN for NULL). */
PU_DEF double pu_param_natural(const pu_param *param, double theta);
PU_DEF double pu_param_theta(const pu_param *param, double x);

/* Give back model->memory and zero the rest. NULL is fine. */
PU_DEF void pu_model_free(pu_model *model);

/* The built-in models. *model starts zeroed, except that model->memory may name an allocator or a block of yours; of
   what is there nothing but model->memory is read, and arbitrary bytes there are refused (PU_E_ARGUMENT, "workspace",
   see pu_workspace), whereupon *model is zeroed. One
   block of memory each, taken here; report->bytes is its size, also when a block was too small (PU_E_BLOCK; a block of
   0 bytes asks for the size). theta = the parts in brackets, one after the other, matrices row-major; a theta whose
   exp is 0 or infinite is refused by pu_model_set (PU_E_ARGUMENT, index). Starts are made from the moments of the
   observed entries. Statuses: PU_E_NULL, PU_E_ARGUMENT (a size below 1), PU_E_OVERFLOW, PU_E_MEMORY, PU_E_BLOCK;
   *model is as it was, but zeroed when memory failed. */

/* Factor analysis: z ~ N(0, I), y = Phi z + eta + N(0, diag(psi)^-1), Phi M x D.   [Phi | eta | log psi], M D + 2 M */
PU_DEF pu_status pu_model_factors(pu_model *model, pu_int M, pu_int D, pu_report *report);
/* Probabilistic PCA: the same with psi = beta everywhere.   [Phi | eta | log beta], M D + M + 1 */
PU_DEF pu_status pu_model_ppca(pu_model *model, pu_int M, pu_int D, pu_report *report);
/* Sparse Bayesian learning: z_j ~ N(0, 1/alpha_j), y = Phi z + N(0, 1/beta), any operator as dictionary, borrowed.
   [log alpha | log beta], D + 1. model->precond = 1 / (alpha_j + beta |Phi_j|^2), where Phi has no gram_diag with
   |Phi_j| = 1: A's diagonal when nothing is missing. PU_E_OPERATOR, or the status of Phi's check: as for pu_gradient. */
PU_DEF pu_status pu_model_sparse(pu_model *model, const pu_op *Phi, pu_report *report);
/* Bayesian linear regression: one alpha for all.   [log alpha | log beta], 2 */
PU_DEF pu_status pu_model_regression(pu_model *model, const pu_op *Phi, pu_report *report);
/* Neural linear model: regression on features of `points` inputs, X points x inputs, borrowed; M = points, and several
   targets are several data, which share the features.
     features = 0   Phi = tanh(X W1' + b1),            D = hidden      [W1 | b1 | log alpha | log beta]
     features > 0   Phi = tanh(X W1' + b1) W2' + b2,   D = features    [W1 | b1 | W2 | b2 | log alpha | log beta]
   W1 hidden x inputs, W2 features x hidden. Setting theta costs 2 points hidden (inputs + features) flops, pulling a
   gradient back twice that. PU_E_NONFINITE: X, with its index. */
PU_DEF pu_status pu_model_neural(pu_model *model, pu_int points, pu_int inputs, const pu_real *X, pu_int hidden,
                                 pu_int features, pu_report *report);

typedef enum { PU_SSM_ZERO, PU_SSM_STATIONARY, PU_SSM_GIVEN } pu_ssm_start;
/* Models of series (see pu_model for memory and statuses; PU_E_ARGUMENT also for an order or a number of states that the
   operators above do not take). One datum is one series, M of its length.
   Noisy autoregression: z an AR of this order and length n, y = z + N(0, lambda).
     [atanh gamma | log kappa | log lambda], order + 2. Start: the likelihood may have several maxima, so fits are run
     from up to five shares of the noise, with gamma from the autocovariances of the observed pairs; the one that ends
     best is it.
     These fits see the first 100,000 entries at most; 150 to 600 gradients in all, never more than 1,200 (report.plan
     tells). With a block of yours for memory: no fit.
   State space: z as above, y_t = c'z_t + N(0, sigma2); L L' = Q, L0 L0' = P0, lower triangles row by row, diagonals as log.
     [A | c | L | log sigma2], PU_SSM_GIVEN: [A | c | L | log sigma2 | m0 | L0]
     pu_model_set: PU_E_NOT_DEFINITE with index 0 when A has no stationary covariance but needs one.
     Start: independent states that forget at different rates, from the variance and the autocovariances at lags 1, 2. */
PU_DEF pu_status pu_model_noisy_ar(pu_model *model, pu_int n, pu_int order, pu_report *report);
PU_DEF pu_status pu_model_state_space(pu_model *model, pu_int steps, pu_int states, pu_ssm_start start, pu_report *report);
/* The process as of the last set, e.g. phi of the AR; NULL unless model->Gamma is a pu_op_ar or a pu_op_ssm. */
PU_DEF const pu_ar *pu_model_get_ar(const pu_model *model);
PU_DEF const pu_ssm *pu_model_get_ssm(const pu_model *model);

/* Structural models: y_t = the sum of parts + N(0, var.irregular), t = 1 .. T = `steps`. Each part is a few states, a list of
   them makes the model. theta: of each part in order what is in brackets, then log var.irregular; names as here, a second part of the
   same name has a number behind it (var.season2).
     PU_PART_LEVEL        l_t = l_{t-1} (+ slope) + N(0, var.level)                                    [log var.level]
     PU_PART_SLOPE        of the level just before it: b_t = b_{t-1} + N(0, var.slope), l_t = l_{t-1} + b_{t-1} + ..
                                                                                                       [log var.slope]
     PU_PART_SEASON       of period `size`, dummy form: s_t = -(s_{t-1} + .. + s_{t-size+1}) + N(0, var.season)
                                                                                                       [log var.season]
     PU_PART_SEASON_TRIG  the same as a sum of harmonics 1 .. size/2, each a rotation by 2 pi h / size with noise of
                          var.season in all its states                                                 [log var.season]
     PU_PART_CYCLE        rotation by `frequency` in (0, pi), damped by rho in (0, 1), noise of var.cycle in both states,
                          stationary                              [log var.cycle | logit rho | logit frequency]
     PU_PART_AR           stationary autoregression of order `size`    [atanh gamma.ar, partial autocorrelations | log var.ar]
     PU_PART_MATERN12, 32, 52   Gaussian process with a Matern covariance of smoothness 1/2, 3/2, 5/2 on a grid of spacing
                          `step`: exactly Markov, O(T)                      [log var.matern | log length.matern]
   Levels, slopes and seasons begin diffuse: nothing is known of their first states, and no large number stands for that. The
   likelihood is then the diffuse one of Durbin and Koopman. The others begin in their stationary distribution. constant = 1: a
   level, slope or season that does not move, without a variance in theta.
   Regressors are added by pu_model_regressors, parameters fixed or tied by pu_model_fix. The noise of states may be
   singular, so that z has no precision: the models are served by PU_KALMAN (zeroed options choose it), which works with the
   shocks instead, O(T S^2) or less where matrices are sparse, at most O(T S^3). A datum is a series of T entries with gaps, several data share parameters;
   steps behind the last observation are forecasts (pu_model_predict). pu_model_simulate begins diffuse states at zero.
   PU_E_NOT_DEFINITE of a gradient, "A (diffuse start ..)": the data do not identify a first state, index. */
typedef enum {
    PU_PART_LEVEL,
    PU_PART_SLOPE,
    PU_PART_SEASON,
    PU_PART_SEASON_TRIG,
    PU_PART_CYCLE,
    PU_PART_AR,
    PU_PART_MATERN12,
    PU_PART_MATERN32,
    PU_PART_MATERN52
} pu_part_kind;
typedef struct {
    pu_part_kind kind;
    pu_int size;  /* period, order */
    int constant;
    double step;  /* Matern: spacing of the grid; 0 = 1 */
} pu_part;
PU_DEF pu_status pu_model_structural(pu_model *model, pu_int steps, const pu_part *parts, pu_int count, pu_report *report);
/* What part i adds to y, as a map of z: T x D, for pu_predict_result.map. Without rows where there is no such part. */
PU_DEF pu_op pu_model_part(const pu_model *model, pu_int i);

/* ---- fits ------------------------------------------------------------------------------------------ */

typedef enum { PU_OPTIMIZER_DEFAULT, PU_ADAM, PU_SGD, PU_LBFGS } pu_optimizer; /* default: chosen, see pu_fit */

/* The rate of step t of T: rate; rate (1 + cos(pi t / T)) / 2; rate / (1 + t / decay); rate, and zero linearly over
   the last fifth */
typedef enum { PU_RATE_CONSTANT, PU_RATE_COSINE, PU_RATE_HYPERBOLIC, PU_RATE_TAIL } pu_schedule;

#define PU_FIT_STOP_LIST(X)                                                                       \
    X(PU_FIT_STEPS, 0, "all steps done")                                                          \
    X(PU_FIT_GRADIENT, 1, "gradient within its own error, or below the tolerance")                \
    X(PU_FIT_VALIDATION, 2, "validation no longer improves")                                      \
    X(PU_FIT_TIME, 3, "time is up")                                                               \
    X(PU_FIT_CALLBACK, 4, "stopped by the caller")                                                \
    X(PU_FIT_STUCK, 5, "no acceptable step in this direction")                                    \
    X(PU_FIT_CONVERGED, 6, "converged")                                                           \
    X(PU_FIT_BOUNDARY, 7, "converged, with a parameter at its boundary")

typedef enum {
#define PU_X(name, value, text) name = value,
    PU_FIT_STOP_LIST(PU_X)
#undef PU_X
    PU_FIT_STOPS
} pu_fit_stop;
PU_DEF const char *pu_fit_stop_text(pu_fit_stop stop); /* in words */

/* Where a fit stands: for the progress function after every step, and the report at the end. */
typedef struct {
    pu_status status;
    pu_where where;
    pu_fit_stop stop;                    /* why it ended */
    pu_int step, steps;                  /* steps done; of so many */
    pu_int epoch;                        /* passes through the data begun (mini-batches) */
    pu_int gradients;                    /* pu_model_gradient calls */
    pu_int rejected;                     /* steps that led to a theta the model refuses, halved until it did not */
    pu_int doubtful;                     /* gradients that were PU_INEXACT or PU_DIVERGED; where the one that theta rests
                                            on is among them, that is the status of the fit */
    double objective;                    /* of the last step, at the theta before it: NLL per datum of its batch (q
                                            where there is no NLL) */
    double objective_se;                 /* its standard error over probes; 0 exact, -1 unknown */
    double gradient;                     /* |g| */
    double gradient_se;                  /* |standard errors of g|; -1: not measured */
    double rate;
    double validation;                   /* last value; NaN: never measured */
    double best;                         /* the smallest of what theta is kept by: validation, or an exact objective of
                                            all data */
    pu_int best_step;                    /* of that; -1: the last theta is kept, because nothing comparable was
                                            measured */
    double seconds, steps_per_second, seconds_left; /* by options.clock; -1 without */
    int resumed;                         /* steps that were in the checkpoint it began from; 0: began at the start */
    pu_int boundaries, boundary;         /* PU_FIT_BOUNDARY: parameters on a log or atanh scale that have run to where
                                            the objective no longer depends on them; the first of them, else -1 */
    char boundary_name[32];              /* its name (pu_model_param), else "" */
    char plan[160];                      /* the optimiser in words, and why where it was chosen */
    const pu_real *theta;                /* params: the current point (valid within the call) */
    pu_report last;                      /* of the last gradient: engine, plan, errors */
} pu_fit_report;

/* The report in one line of text: status and culprit, why the fit ended, at which step, the objective and its standard
   error, the best of what theta is kept by, the plan of the last gradient. Written to text (size bytes, cut off where
   they end) and returned; "" when text is NULL or size is 0. A NULL report gives the empty string. */
PU_DEF const char *pu_fit_explain(const pu_fit_report *report, char *text, size_t size);

typedef struct {
    pu_int steps;                        /* 0 = 200 */
    pu_optimizer optimizer;              /* 0 = chosen, see pu_fit. PU_LBFGS is for a deterministic gradient: all data,
                                            and exact engines or fixed probes */
    double rate;                         /* 0 = 0.1 (Adam), 0.01 (SGD), 1 (L-BFGS) */
    pu_schedule schedule;
    double decay;                        /* PU_RATE_HYPERBOLIC: in steps, > 0; 0 = a tenth of the steps. This field and the
                                            next five are refused where nothing reads them */
    double momentum;                     /* SGD; 0 = 0.9, negative = none */
    double beta1, beta2, epsilon;        /* Adam; 0 = 0.9, 0.999, 1e-8 */
    pu_int history;                      /* L-BFGS pairs; 0 = 10. Unread where the fit chooses Adam by itself */
    pu_options gradient;                 /* kind, samples, engine, solver, seed, threads ..; seed also orders the mini-
                                            batches */
    pu_int batch;                        /* data per gradient, drawn without replacement; 0 = all */
    pu_int accumulate;                   /* gradients per step, averaged; 0 = 1 */
    int fixed_probes;                    /* the probes of a datum never change (common random numbers); otherwise fresh
                                            at every step */
    int warm_start;                      /* with fixed probes: solves begin at the last solution. N (K+1) D reals; no
                                            NLL from probes, so q is told */
    double tolerance;                    /* > 0: stop when |g| <= tolerance times |its standard errors| in 3 steps
                                            running (or, with exact or fixed noise, when |g| <= tolerance).
                                            0 = L-BFGS: until it has converged, see pu_fit; else never */
    double seconds;                      /* > 0: stop after that time; needs clock */
    double (*clock)(void *user);         /* seconds since whenever */
    double (*validate)(pu_model *model, const pu_real *theta, void *user); /* smaller is better; NaN stops the fit */
    pu_int validate_every;               /* steps; 0 = 10. Refused without validate, as patience is */
    pu_int patience;                     /* validations without improvement before stopping; 0 = never */
    int (*progress)(const pu_fit_report *now, void *user); /* nonzero: stop */
    void *user;
    const char *checkpoint;              /* file to keep the state in: written beside it, under a name of its own, and
                                            renamed, so that it is whole at any moment; tried out before the first
                                            step. A file that is there and is neither empty nor a checkpoint, or is
                                            write-protected (POSIX), is not replaced (PU_E_FILE). With POSIX (see the switches) it survives a crash of
                                            the machine, too (fsync), links are followed, and what is no regular file is
                                            refused; else a link is replaced by the file, and on Windows a kill between
                                            two system calls may leave the new file under its other name alone */
    pu_int checkpoint_every;             /* steps; 0 = 10; always at the end */
    int resume;                          /* begin from `checkpoint` if it is there; the end is the same to the bit as
                                            without the break. Refused when it is damaged or of a machine with the other
                                            byte order, or when the model, the number of data, precision, version or an
                                            option that a step depends on is another: where.what names it. `steps` may
                                            be larger than it was, unless the schedule depends on it (COSINE, TAIL,
                                            HYPERBOLIC with the default decay) */
} pu_fit_options;

/* Minimise the mean objective over theta (params; the start on entry, see pu_model_start; the result on return: the
   best point where points can be compared, else the last).
   Zeroed options are the best advice. The optimiser is then chosen by sizes and options alone, report.plan tells: L-BFGS
   where exact engines serve all data and a gradient is predicted to take a second at most, or there are too few data for
   mini-batches; else Adam, a cosine of rates and, from 200 data on, mini-batches of 100 and 200 steps or ten passes
   through the data. Who sets a field of Adam's (rate, schedule, decay, beta1, beta2, epsilon, batch, accumulate,
   warm_start) gets Adam and nothing else is chosen.
   L-BFGS moves no parameter on a log or atanh scale by more than 3 per step. Without a tolerance it has converged
   (PU_FIT_CONVERGED) when the distance to the minimum as it sees it, N g'H^-1 g in squared standard errors, is below
   1e-5 (or the rounding of the objective) twice running. Then parameters on a log or atanh scale go on by themselves,
   each by what its own gradient asks for: 2 to 7 gradients. Where that lowers the objective the fit goes on from
   there. Else it forgets what it knows of H, which may be wrong in directions it hardly went, and must come to rest
   again with no more than that gained: min(params, history) gradients or more. Then it stops, as PU_FIT_BOUNDARY where
   some parameters have no influence any more: a variance that went to 0, say. It stops as PU_FIT_STUCK where no step is
   acceptable, or five gained no more than rounding, or the gradient it rests on is no witness (PU_INEXACT, PU_DIVERGED).
   In a float build the sign of such a gradient may be lost in rounding: a parameter so far out stays there.
   A step to a theta that the model refuses, or where numbers
   give out (not finite, not definite, no digit left on the way from nu to theta), is halved, up to 40 times, and counted.
   Same start, options and data: same bits, at any thread count, with or without interruptions. Memory: about 4 params (L-BFGS 2 (history + 3) params) and
   what pu_model_gradient needs, from ws or its allocator, taken at the start.
   Statuses: PU_OK; PU_INEXACT, PU_DIVERGED: the fit ran to its end (report.stop), but the gradient that its result
   rests on, at the best point or of the last step, lost digits or comes from solves that diverged: theta is no better
   than that gradient (report.doubtful counts them all; those on the way are made good by later ones). PU_CAP and
   PU_STAGNATED of a gradient are in report.last alone. Any other status of pu_model_gradient ends the fit, and theta is
   the best or last good point; PU_E_ARGUMENT, PU_E_NULL (options, data without an entry); PU_E_FILE: the checkpoint
   cannot be written, or cannot be taken up (where.what says why). */
PU_DEF pu_status pu_fit(pu_model *model, const pu_data *data, const pu_fit_options *options, pu_workspace *ws, pu_real *theta,
                        pu_fit_report *report);

/* Bytes of workspace that pu_fit needs at most, whatever the mini-batches: for a block of your own. */
PU_DEF pu_status pu_fit_bytes(pu_model *model, const pu_data *data, const pu_fit_options *options, size_t *bytes,
                              pu_report *report);

/* Standard errors of fitted parameters, on the scale of theta: square roots of the diagonal of (N H)^-1, H the second
   derivative of the mean NLL by central differences of the gradient of `options` (exact engines, or the probes held
   fixed). se: params. Cost: 2 params gradients (4 where one on a log or atanh scale has little influence), params^3;
   meant for tens of parameters. Where H is flat in some direction (a rotation of factors, the basis of a state space, a
   variance that went to 0) the parameters that take part in it are not identified: NaN, status PU_UNIDENTIFIED, which
   names the first of them, and the errors of the others hold whatever those are. Flat means: within the asymmetry of H
   (rounding, or noise of probes), or what a theta not quite at the minimum accounts for; on a log or atanh scale also a
   standard error above 30. PU_INEXACT: written, but some of the gradients lost more than half of their digits, and
   differences of them more. PU_E_NOT_DEFINITE: H is negative somewhere, theta is no minimum (index: a parameter). */
PU_DEF pu_status pu_fit_errors(pu_model *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                               const pu_real *theta, pu_real *se, pu_report *report);
/* The whole of (N H)^-1 (params x params), for errors of what is computed from several parameters: J C J' of its
   derivatives J. Likewise in all else. */
PU_DEF pu_status pu_fit_covariance(pu_model *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                                   const pu_real *theta, pu_real *covariance, pu_report *report);

/* ---- draws, posteriors, predictions ---------------------------------------------------------------------- */

/* n draws from the model: z = nu + Gamma^-1 delta, delta ~ N(0, Gamma), so that z ~ N(nu, Gamma^-1), and y = Phi z +
   eta + noise. z: n x D, y: n x M; either may be NULL. Draw i is a function of (seed, i), up to rounding. Needs
   Gamma.sample. Gamma^-1 is Gamma.solve; without it CG (PCG where Gamma.diag is there) to rounding level, PU_CAP or
   PU_STAGNATED when it does not get there. One block of workspace, about n (D + M) reals; like the two calls below, a
   fixed block that is too small is refused with PU_E_BLOCK, the size in report.bytes. Outputs are written under the
   same statuses as pu_gradient's. pu_model_simulate: pu_model_set, then that. */
PU_DEF pu_status pu_simulate(const pu_lgm *model, pu_int n, uint64_t seed, pu_workspace *ws, pu_real *z, pu_real *y,
                             pu_report *report);
PU_DEF pu_status pu_model_simulate(pu_model *model, const pu_real *theta, pu_int n, uint64_t seed, pu_workspace *ws,
                                   pu_real *z, pu_real *y, pu_report *report);

/* The posterior z | y of every datum, by the engine of `options` (gradients are not formed; kind = PU_MONTE_CARLO runs
   the solves to convergence, PU_NETWORK and PU_OUTPUT take what I steps give). Arrays are yours, NULL = not wanted.
   The variance is exact with a direct engine (`exact` = 1), otherwise estimated from the K = `probes` probes, relative
   standard error at most (2 / K)^1/2: where diag(A) is known 1/A_jj + mean_k (sigma_kj - delta_kj / A_jj)^2, whose
   error vanishes where A_jj dominates; else mean_k sigma_kj^2. samples: draws of N(mu, Sigma), K of them whatever the
   kind. With the mean alone wanted a single probe is solved. Options that a gradient takes are taken here: K or I that are
   PU_CHOOSE are at their limits (most_samples, most_iterations, 100 each), there being no gradient to choose them for; a
   backend with memory of its own is left out, the work is the host's. Cost, statuses as pu_gradient; PU_E_ARGUMENT:
   samples wanted while options.samples is PU_CHOOSE or PU_ZERO, so that the size of the array is not known, or by
   PU_KALMAN, which has none.
   pu_model_posterior: pu_model_set, then that with the options of the fit (pu_fit_options.gradient), as pu_model_gradient
   uses them: PU_PCG has the model's own preconditioner. Arrays in the options that belong to data (precond without
   PU_ZERO, step, delta, x0) are of the data of this call. pu_model_predict likewise. */
typedef struct {
    pu_real *mean;     /* N x D       mu */
    pu_real *variance; /* N x D       diagonal of Sigma */
    pu_real *samples;  /* N x K x D   mu + sigma_k */
    int exact;         /* set: the variance of every datum is exact (report.served: who did what) */
    pu_int probes;     /* set: K */
} pu_posterior_result;
PU_DEF pu_status pu_posterior(const pu_lgm *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                              pu_posterior_result *out, pu_report *report);
PU_DEF pu_status pu_model_posterior(pu_model *model, const pu_real *theta, const pu_data *data, const pu_options *options,
                                    pu_workspace *ws, pu_posterior_result *out, pu_report *report);

/* What the model says about every entry of y, observed or not. Variances exact or mean_k (Phi sigma_k)_m^2, as above. */
typedef struct {
    pu_real *mean;     /* N x M   Phi mu + eta */
    pu_real *fit;      /* N x M   variance of the noiseless Phi z + eta: (Phi Sigma Phi')_mm */
    pu_real *variance; /* N x M   variance of a new observation: fit + 1/psi_m */
    pu_real *imputed;  /* N x M, rows next to each other   y where observed, else mean; may be data.y (not of lists) */
    int exact;         /* set: all variances are exact */
    pu_int probes;     /* set: K */
    const pu_op *map;  /* NULL = Phi. Another map of z, M x D, such as pu_model_part, with the functions, and no more scratch
                          or band, than Phi: mean = map mu, fit = variance = diagonal of map Sigma map'; no imputed */
} pu_predict_result;
PU_DEF pu_status pu_predict(const pu_lgm *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                            pu_predict_result *out, pu_report *report);
PU_DEF pu_status pu_model_predict(pu_model *model, const pu_real *theta, const pu_data *data, const pu_options *options,
                                  pu_workspace *ws, pu_predict_result *out, pu_report *report);

/* ---- gradients and likelihood of a latent Gaussian model ------------------------------------------------- */

/* Gradient of the mean objective over a batch, by the method of options->kind:
     PU_EXACT        grad of q in its first argument with Sigma exact = gradient of the NLL (Fisher's identity)
     PU_MONTE_CARLO  tr(A Sigma) replaced by mean_k sigma_k'A sigma_k, solves run to convergence
     PU_OUTPUT       the same with x after I solver steps
     PU_NETWORK      total derivative of q^<I> - mean_k delta_k'sigma_k^<I>, through the solver
   options, ws, out, report may be NULL: defaults; a block allocated and freed within the call; nothing written.
   Cost: N (K+1) (I+1) products with A; PU_NETWORK about 2 I + 1 of them and I + 1 gradient terms each (with a dense Phi about
   3.5 times PU_OUTPUT); dense engine N D^3.
   Status: PU_OK; PU_CAP, PU_STAGNATED (tolerance mode), PU_DIVERGED (GD), PU_INEXACT: outputs written; any other: no output
   array touched. What is written is finite, the report included: PU_NONFINITE otherwise. */
PU_DEF pu_status pu_gradient(const pu_lgm *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                             const pu_gradient_result *out, pu_report *report);

/* K and I for a wanted error (options->error), as pu_gradient itself does for PU_CHOOSE: *tuned = *options with both
   replaced by numbers, and error = 0. A fit tunes once in a while, not at every step. A pilot of 8 probes and 20 steps on the first 4
   data measures the error of one probe and the decay of the solver's; K falls with the number of data. `out` tells
   which gradients count (at least one of Gamma, Phi, psi) and is not written. options->engine = PU_ENGINE_AUTO: no
   pilot where exact engines are cheaper than 2 probes of 4 steps. Status: as pu_gradient; PU_E_UNSUPPORTED: GD, SD,
   x0, or delta with samples = PU_CHOOSE. */
PU_DEF pu_status pu_tune(const pu_lgm *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                         const pu_gradient_result *out, pu_options *tuned, pu_report *report);

/* Bytes of workspace that pu_gradient with the same arguments needs (PU_CHOOSE: at the limits of K and I). */
PU_DEF pu_status pu_gradient_bytes(const pu_lgm *model, const pu_data *data, const pu_options *options,
                                   const pu_gradient_result *out, size_t *bytes, pu_report *report);

/* What pu_gradient with the same arguments would do, without doing it: report.served and report.engine (who serves how
   many data), report.seconds (predicted, on one core: of built-in operators within a factor of 5), report.bytes
   (of workspace), and report.plan, all of it in words, such as "1 of 1 data by dense, as asked; about 45 s on one core,
   96 MB". Ask before a call that might take too long. out NULL: no gradients, the plan of pu_nll, and but for the
   variances that of pu_posterior and pu_predict. PU_CHOOSE: K and I at their limits. A fit takes as many of these as
   it makes gradients. Cost: the data are read once. Statuses as pu_gradient's; PU_E_NULL: no report.
   pu_model_plan: of pu_model_gradient without standard errors. The model need not have been set, unless it is one of
   yours that fills in lgm no sooner. */
PU_DEF pu_status pu_plan(const pu_lgm *model, const pu_data *data, const pu_options *options,
                         const pu_gradient_result *out, pu_report *report);
PU_DEF pu_status pu_model_plan(pu_model *model, const pu_data *data, const pu_options *options, pu_report *report);

/* Mean negative log-likelihood without gradients: exact with an exact engine (also where PU_ENGINE_AUTO chooses one),
   otherwise estimated from the CG coefficients of the probes with its standard error. *se may be NULL; 0 where exact.
   Cost as pu_gradient's, without gradients. PU_CHOOSE: K and I at their limits, as pu_posterior has it. Statuses: those
   of pu_gradient; PU_E_UNSUPPORTED: GD, SD, a Gamma without logdet; PU_E_ARGUMENT: x0. */
PU_DEF pu_status pu_nll(const pu_lgm *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                        double *nll, double *se, pu_report *report);

/* Everything about one datum, densely: for tests, teaching and small problems. Any pointer may be NULL. */
typedef struct {
    pu_real *A, *Sigma; /* D x D row-major */
    pu_real *b, *mu;    /* D */
    double c, logdet, nll;
    pu_int observed;    /* M_n */
} pu_exact_result;
PU_DEF pu_status pu_exact(const pu_lgm *model, const pu_data *data, pu_int datum, pu_workspace *ws,
                          pu_exact_result *result, pu_report *report);
PU_DEF pu_status pu_exact_bytes(const pu_lgm *model, size_t *bytes, pu_report *report);

/* ---- linear systems with any symmetric positive definite operator --------------------------- */

/* What pu_solve reads and writes. Zero what is not needed. */
typedef struct {
    pu_int k;              /* columns */
    const pu_real *U;      /* n x k right-hand sides */
    pu_int ldu;            /* distance between columns of U; 0 = n */
    pu_real *X;            /* n x k solutions, overwritten */
    pu_int ldx;            /* 0 = n */
    const pu_real *x0;     /* n x k packed: where the solver starts, a constant; NULL = 0 */
    const pu_real *weight; /* k weights w_j of the objective below; NULL = 1 */
    pu_real *grad_A;       /* A->params, overwritten: dF/dtheta, needs A->grad; NULL = not wanted */
    pu_real *grad_U;       /* n x k packed, overwritten: dF/dU; NULL = not wanted */
    pu_column *columns;    /* k records of how the columns ended, or NULL */
} pu_solve_arrays;

/* Solves A X = U for k columns and, when asked, differentiates F = sum_j w_j (1/2 x_j'A x_j - u_j'x_j) through the
   solver. options, backend, ws, report may be NULL. Cost: (I + 1) products per column, about 2 I + 1 with gradients.
   Status rules are those of pu_gradient. */
PU_DEF pu_status pu_solve(const pu_op *A, const pu_solve_arrays *arrays, const pu_solve_options *options,
                          const pu_backend *backend, pu_workspace *ws, pu_report *report);
/* Bytes of workspace that it needs on the CPU (gradients: whether grad_A or grad_U is wanted). */
PU_DEF pu_status pu_solve_bytes(const pu_op *A, pu_int k, const pu_solve_options *options, int gradients,
                                size_t *bytes, pu_report *report);

/* A block of k columns: column j starts at at + j * ld and is contiguous. */
typedef struct {
    pu_real *at;
    pu_int ld;
} pu_block;

/* ---- operators you write ----------------------------------------------------------------------------------
   A linear map Op(theta): R^cols -> R^rows with `params` parameters theta. Everything built in is written
   against this struct, and so is yours: zero it, fill rows, cols, data and the functions you have, and let
   pu_op_check look for mistakes: it names the function and by how much it is off.
   All functions are pure (state only in `data` and `work`), may run on several threads at once, must not
   let input and output overlap, and return PU_OK or any other status to stop the run (PU_E_OPERATOR).
   `work` is scratch of k * op->work reals (k: the columns of that call). Needed by the gradient:
     Phi    apply, apply_t, and grad when its gradient is asked for
     Gamma  apply, sample (unless probes are supplied), logdet (for values), and grad + logdet_grad when its
            gradient is asked for; solve for the dual engine. Gamma must be symmetric positive definite. */
typedef enum { /* what is known of an operator beyond its functions; `data` then points at */
    PU_FORM_GENERAL,   /* whatever its functions read: nothing is known */
    PU_FORM_MATRIX,    /* rows x cols entries, row-major, which are the parameters */
    PU_FORM_SYMMETRIC, /* the same of a symmetric matrix, whose gradient is symmetrised */
    PU_FORM_DIAGONAL,  /* the diagonal, which are the parameters: rows of them, or 1 (all equal); NULL: ones, no parameters */
    PU_FORM_SPARSE,    /* a pu_csr */
    PU_FORM_AR,        /* a pu_ar: its precision */
    PU_FORM_STATES,    /* a pu_ssm: its precision */
    PU_FORM_FOURIER,   /* a pu_fourier: Fourier sensing */
    PU_FORM_CHAIN      /* of structural models alone: private */
} pu_form;

struct pu_op {
    pu_int rows, cols, params;
    pu_int work;                  /* reals of scratch per column that any function below may use */
    pu_int noise;                 /* normals per draw that sample consumes; 0 means rows */
    int trusted;                  /* 0: apply_t (of Phi) and symmetry (of Gamma, A) are tested on random vectors at
                                     every call; 1: apply_t needs no test; 2: nor does symmetry. Built-in operators set
                                     it */
    pu_form form;                 /* default PU_FORM_GENERAL. State what is true of yours: it is then as fast as the
                                     built-in one, whose functions are called instead of yours. So a form promises what
                                     grad, sample and log det are, too */
    const void *data, *aux;

    /* Y = Op X, or Y += Op X when add is nonzero.  X: cols x k, Y: rows x k */
    pu_status (*apply)(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work);
    /* Y = Op' X, or Y += Op' X.  X: rows x k, Y: cols x k */
    pu_status (*apply_t)(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work);
    /* grad += sum_j weight[j] * d/dtheta p_j' Op(theta) q_j.  P: rows x k, Q: cols x k, grad: params.
       A symmetric operator with redundant entries returns the symmetrised gradient. */
    pu_status (*grad)(const pu_op *op, pu_int k, pu_block P, pu_block Q, const pu_real *weight, pu_real *grad,
                      pu_real *work);
    /* y_i += Op_ii */
    pu_status (*diag)(const pu_op *op, pu_real *y, pu_real *work);
    /* y_i += sum_m w_m Op_mi^2, the diagonal of Op' diag(w) Op */
    pu_status (*gram_diag)(const pu_op *op, const pu_real *w, pu_real *y, pu_real *work);
    /* Y = F E with F F' = Op: draws of N(0, Op) when E holds standard normals (op->noise x k) */
    pu_status (*sample)(const pu_op *op, pu_int k, pu_block E, pu_block Y, pu_real *work);
    /* Y = Op^-1 X, where that is easy (dual engine) */
    pu_status (*solve)(const pu_op *op, pu_int k, pu_block X, pu_block Y, pu_real *work);
    /* log det Op */
    pu_status (*logdet)(const pu_op *op, double *value, pu_real *work);
    /* grad += weight * d/dtheta log det Op */
    pu_status (*logdet_grad)(const pu_op *op, pu_real weight, pu_real *grad, pu_real *work);
    /* Optional: by how much solve, logdet and logdet_grad enlarge rounding, about the condition number of Op scaled to a
       diagonal of ones; without it 1 is assumed */
    double (*condition)(const pu_op *op);
    /* PU_OK, or what is wrong with the numbers in `data` (and at which index) */
    pu_status (*check)(const pu_op *op, pu_int *index);
    /* Optional, all three or none: apply, apply_t and grad for a subset of the rows, given in ascending order, rows[0]
       < .. < rows[n-1]. Y of apply, X of apply_t and P of grad then have n rows. Without them the library works on all
       rows and multiplies those that are not observed by zero. */
    pu_status (*apply_rows)(const pu_op *op, pu_int n, const pu_int *rows, pu_int k, pu_block X, pu_block Y, int add,
                            pu_real *work);
    pu_status (*apply_rows_t)(const pu_op *op, pu_int n, const pu_int *rows, pu_int k, pu_block X, pu_block Y, int add,
                              pu_real *work);
    pu_status (*grad_rows)(const pu_op *op, pu_int n, const pu_int *rows, pu_int k, pu_block P, pu_block Q,
                           const pu_real *weight, pu_real *grad, pu_real *work);
    /* For the banded engine. A symmetric matrix with entries (i, i - j), j = 0 .. width, is stored at B[i (width + 1)
       + j]; places with i - j < 0 are not used. Gamma: Op_ij = 0 for |i - j| > band, and */
    pu_int band;
    /* B += Op, width >= band */
    pu_status (*band_add)(const pu_op *op, pu_int width, double *B);
    /* grad += weight * d/dtheta tr(Op S); reads the entries of S where Op is not zero, no others */
    pu_status (*band_grad)(const pu_op *op, pu_int width, const double *S, double weight, pu_real *grad);
    /* Phi: row m is zero outside of a short stretch that begins at column *first; value receives its entries, at most
       band + 1. Returns how many */
    pu_int (*row)(const pu_op *op, pu_int m, pu_int *first, pu_real *value);
    /* grad += d/dtheta sum_j g_j Op_{m, first + j} */
    pu_status (*row_grad)(const pu_op *op, pu_int m, const double *g, pu_real *grad);
    double flops;                 /* multiplications of a product with one column, for the planner; 0: params + rows +
                                     cols is assumed */
    const struct pu_side *device; /* the same operator for a backend with memory of its own, see pu_side; NULL: the
                                     backend makes one of a built-in operator, or refuses */
};

/* ---- operators that are there ---------------------------------------------------------------------------- */

/* Arrays and structs that a constructor takes are borrowed: they must outlive the operator, and may change between
   calls. A constructor that gets sizes below 1, sizes that do not fit each other, or NULL returns an operator of size
   0 or without data. The call that is given such an operator refuses it and names it. */

/* rows x cols matrix, row-major; params = its entries. A product costs rows cols multiplications per column. */
PU_DEF pu_op pu_op_dense(pu_int rows, pu_int cols, const pu_real *a);
/* Symmetric positive definite n x n matrix, both triangles; params = its n^2 entries, and the gradient is symmetrised.
   factor: NULL, or the lower Cholesky factor (n x n) from pu_spd_factor. Without it there is no sample, solve, logdet
   or logdet_grad. It must be made again whenever `a` changes; a stale one is refused (PU_E_ARGUMENT). */
PU_DEF pu_op pu_op_spd(pu_int n, const pu_real *a, const pu_real *factor);
/* n^3 / 3 operations. Statuses: PU_E_NULL; PU_E_ARGUMENT (n < 1); PU_E_OVERFLOW; PU_E_NONFINITE, PU_E_NOT_SYMMETRIC,
   PU_E_NOT_DEFINITE, with the entry of `a` where it shows in *index (may be NULL; otherwise -1). `factor` is undefined
   when the matrix is not positive definite. */
PU_DEF pu_status pu_spd_factor(pu_int n, const pu_real *a, pu_real *factor, pu_int *index);
/* diag(a); params = the n entries, which must be positive in a prior. */
PU_DEF pu_op pu_op_diagonal(pu_int n, const pu_real *a);
/* The identity; no parameter. */
PU_DEF pu_op pu_op_identity(pu_int n);
/* a[0] times the identity; one parameter. */
PU_DEF pu_op pu_op_scaled_identity(pu_int n, const pu_real *a);
/* left * right, left->cols = right->rows; params = those of left, then those of right. It has apply, apply_t and grad,
   and takes nothing else from its operands: a product of symmetric operators need not be symmetric. */
PU_DEF pu_op pu_op_product(const pu_op *left, const pu_op *right);
/* left + right, of the same sizes; params = those of left, then those of right. It has diag and sample where both
   operands have them, symmetry where both are symmetric, and no log det. A draw takes the normals of left, then those
   of right. */
PU_DEF pu_op pu_op_sum(const pu_op *left, const pu_op *right);

/* Stationary autoregression of order P and length n >= P, z_t = phi_1 z_{t-1} + .. + phi_P z_{t-P} + N(0, kappa), begun
   in its stationary distribution. Parameters: the partial autocorrelations gamma_1 .. gamma_P, each in (-1, 1) (all of
   these and no others are stationary: optimise atanh gamma), then the innovation variance kappa > 0. P = 0 is white
   noise. The struct is yours, about 700 reals; fill it with pu_ar_set or pu_ar_set_phi, then only read it. */
#define PU_AR_MAX 32 /* largest order */
struct pu_ar {
    pu_int n, order;
    pu_real gamma[PU_AR_MAX], phi[PU_AR_MAX], kappa;
    pu_real band[2 * PU_AR_MAX + 1]; /* row of Gamma away from the ends: lags -P .. P */
    /* rows 0 .. P of X, X'X = Gamma, lower triangular; later rows repeat row P. Entry (t, t-j) at t (t+1) / 2 + j */
    pu_real rows[(PU_AR_MAX + 1) * (PU_AR_MAX + 2) / 2];
    double gap[PU_AR_MAX]; /* 1 - gamma^2; a model has it from atanh gamma, where gamma is too close to 1 for its digits */
};
/* From partial autocorrelations; phi by the Durbin-Levinson recursion. A refused call leaves *ar as it was. *index
   (may be NULL) = the culprit's parameter number (kappa: P), else -1. PU_E_ARGUMENT: n < 1, order not in
   0 .. min(n, PU_AR_MAX), |gamma| >= 1, kappa so small that Gamma overflows; PU_E_NONFINITE; PU_E_NOT_POSITIVE: kappa;
   PU_E_NULL. */
PU_DEF pu_status pu_ar_set(pu_ar *ar, pu_int n, pu_int order, const pu_real *gamma, pu_real kappa, pu_int *index);
/* From coefficients phi, gamma by the recursion backwards. PU_E_ARGUMENT with an index < P: phi is not stationary,
   that partial autocorrelation is not inside (-1, 1). phi is then recomputed from the rounded gamma. */
PU_DEF pu_status pu_ar_set_phi(pu_ar *ar, pu_int n, pu_int order, const pu_real *phi, pu_real kappa, pu_int *index);
/* For those who optimise phi: the gradient in gamma (what a gradient call delivers) turned into that in phi, P numbers
   each; may be the same array. */
PU_DEF void pu_ar_phi_grad(const pu_ar *ar, const pu_real *grad_gamma, pu_real *grad_phi);
/* Its n x n precision Gamma = X'X, banded, P each side; params = P + 1: gamma, kappa. *ar is borrowed and may be set
   anew with the same n and P. Products, solves, draws and gradients are O(n P) per column, no scratch. Bands are
   rounded like any sum of squares: in a float build a process with a root within about 1e-3 of the unit circle has a
   Gamma that is positive definite only together with Phi'W Phi. */
PU_DEF pu_op pu_op_ar(const pu_ar *ar);

/* State space: z_1 ~ N(m0, P0), z_t = A z_{t-1} + N(0, Q), t = 2 .. T = `steps`, each z_t of S = `states` entries,
   stacked t by t, D = S T. With B = I and -A below the diagonal, Gamma = B' blockdiag(P0^-1, Q^-1, .., Q^-1) B, block
   tridiagonal; it is never formed. The start is one of
     PU_SSM_ZERO        P0 = Q: z_0 = 0
     PU_SSM_STATIONARY  P0 = A P0 A' + Q: every z_t has the same covariance; the spectral radius of A must be below 1
     PU_SSM_GIVEN       P0 is yours
   params: A (S x S, row-major), then Q (S x S, gradient symmetrised), then for PU_SSM_GIVEN P0 (likewise). The gradient
   includes the way through P0 in the other two cases.
   pu_ssm_set copies A, Q and P0 (NULL unless PU_SSM_GIVEN) into *m, together with what follows from them, O(S^3); call
   it again whenever they change. index (may be NULL) receives the culprit, counted through the params as above, or -1:
     PU_E_NULL; PU_E_ARGUMENT (steps or states < 1, states > PU_SSM_MAX, a P0 that nothing would read); PU_E_OVERFLOW
     PU_E_NONFINITE, PU_E_NOT_SYMMETRIC, PU_E_NOT_DEFINITE   at that entry of A, Q or P0; NOT_DEFINITE with index 0, an
                       entry of A: A has no stationary covariance
   A pu_ssm that was refused has no size, and an operator made from it is refused in turn. */
#define PU_SSM_MAX 16
struct pu_ssm {
    pu_int steps, states;
    pu_ssm_start start;
    pu_real A[PU_SSM_MAX * PU_SSM_MAX], Q[PU_SSM_MAX * PU_SSM_MAX]; /* S x S, packed, as all below; read only */
    double P0[PU_SSM_MAX * PU_SSM_MAX];  /* the covariance of z_1, whatever the start */
    /* private */
    pu_real W[PU_SSM_MAX * PU_SSM_MAX], W0[PU_SSM_MAX * PU_SSM_MAX]; /* Q^-1, P0^-1 */
    pu_real F[PU_SSM_MAX * PU_SSM_MAX], F0[PU_SSM_MAX * PU_SSM_MAX]; /* F F' = Q^-1, F0 F0' = P0^-1 */
    pu_real At[PU_SSM_MAX * PU_SSM_MAX]; /* A' */
    double Qi[PU_SSM_MAX * PU_SSM_MAX], Pi[PU_SSM_MAX * PU_SSM_MAX]; /* the inverses once more, for the gradients */
    double A_set[PU_SSM_MAX * PU_SSM_MAX], Q_set[PU_SSM_MAX * PU_SSM_MAX]; /* A, Q and P0 as set, in double: for
                                                                              products, */
    double P0_set[PU_SSM_MAX * PU_SSM_MAX]; /* and to see that they were changed since */
    double logdet;
    int doublings;                       /* squarings of A after which the series for P0 has converged */
};
PU_DEF pu_status pu_ssm_set(pu_ssm *m, pu_int steps, pu_int states, const pu_real *A, const pu_real *Q,
                            pu_ssm_start start, const pu_real *P0, pu_int *index);
/* Gamma, borrowing *m. About 3 S^2 T multiplications per column, grad 5 S^2 T, solve 3 S^2 T. Scratch: 288 S reals. */
PU_DEF pu_op pu_op_ssm(const pu_ssm *m);
/* The prior mean that belongs to a start at m0 (S): nu_t = A^(t-1) m0, D entries; m0 = 0 needs none. Its reverse takes
   d/dnu (results.nu) back: grad_A (S x S, may be results.Gamma) += d/dA, grad_m0 (S) += d/dm0; NULL = not wanted. */
PU_DEF pu_status pu_ssm_mean(const pu_ssm *m, const pu_real *m0, pu_real *nu);
PU_DEF pu_status pu_ssm_mean_grad(const pu_ssm *m, const pu_real *nu, const pu_real *grad_nu, pu_real *grad_A,
                                  pu_real *grad_m0);
/* Phi = I (x) c', steps x (states steps): one observation c'z_t per step. c borrowed, of any length; params = c. */
PU_DEF pu_op pu_op_readout(pu_int steps, pu_int states, const pu_real *c);

/* Sparse rows x cols matrix, compressed rows: row i holds value[s] in column index[s] for start[i] <= s < start[i+1].
   start[0] = 0, and columns strictly increase within a row. Anything else is refused with PU_E_SIZE and the entry of
   `start` or `index` at fault. params = the start[rows] stored values. The pattern is fixed: the gradient has no entry
   outside it. diag is there when the matrix is square. A product costs start[rows] multiplications per column. */
typedef struct {
    pu_int rows, cols;
    const pu_int *start; /* rows + 1 */
    const pu_int *index;
    const pu_real *value;
} pu_csr;
PU_DEF pu_op pu_op_csr(const pu_csr *a);

/* diag(d) + U U', d > 0, U: n x r, row-major; params = n + n r, ordered [d | U]. factor: r x r, yours, or NULL.
   pu_low_rank_factor fills it with the lower Cholesky factor of C = I + U' diag(d)^-1 U. It must be made again
   whenever d or U changes; a stale one is refused (PU_E_ARGUMENT, index: the entry of C). Without it there is no
   logdet or logdet_grad. A draw takes n + r normals: sqrt(d) e1 + U e2. Multiplications: 2 n r for a product, n r^2
   for the factor and for the gradient of log det, n + r logarithms for log det. */
typedef struct {
    pu_int n, r;
    const pu_real *d; /* n */
    const pu_real *u; /* n x r */
    pu_real *factor;
} pu_low_rank;
PU_DEF pu_op pu_op_low_rank(const pu_low_rank *a);
/* Statuses: PU_E_NULL; PU_E_ARGUMENT (a size below 1); PU_E_OVERFLOW; PU_E_NONFINITE, PU_E_NOT_POSITIVE (d), with the
   parameter at fault in *index; PU_E_NOT_DEFINITE when C overflows (index: the entry of C; `factor` is undefined).
   index may be NULL. */
PU_DEF pu_status pu_low_rank_factor(const pu_low_rank *a, pu_int *index);

/* Kronecker product left (x) right of any two operators; params = those of left, then those of right. A vector of
   left->cols * right->cols entries is a row-major matrix X with one row per column of left, and the product is left X
   right'. A function is there where both operands have it (diag, sample, log det: and are square; grad: and have apply
   and apply_t). A product costs left->cols products with right and right->rows products with left. */
PU_DEF pu_op pu_op_kronecker(const pu_op *left, const pu_op *right);

/* Discrete Fourier transform of any length n >= 1, unitary both ways:
     X_k = n^-1/2 sum_j x_j e^(-2 pi i j k / n),   inverse: the same with e^(+2 pi i j k / n).
   Mixed radix (4, 2, 3, 5 and any odd prime up to 64); a length with a larger prime factor goes through a convolution
   of the next power of two (Bluestein), so that no length costs more than O(n log n). The plan keeps its tables in
   `memory` (pu_fft_bytes tells how many bytes; any alignment), which must outlive it; once made it is constant and
   may be used by several threads, each with scratch `work` of plan->work reals of its own.
   Statuses: PU_E_NULL; PU_E_ARGUMENT (n < 1); PU_E_OVERFLOW; PU_E_BLOCK (memory too small). */
typedef struct {
    pu_int n, work;        /* length; reals of scratch for pu_fft_run */
    /* private from here on */
    pu_int length;         /* of the mixed radix transform: n, or the power of two of the convolution */
    int convolve, passes;
    int radix[64];         /* length = product */
    const pu_real *table;  /* per pass: (radix - 1) x m factors, re then im; radix > 5: the roots, re then im */
    const pu_real *chirp;  /* e^(-pi i k^2 / n), re then im: n each */
    const pu_real *filter; /* transform of the wrapped conjugate chirp / length: length each */
    void *fftw;            /* FFTW's plan with PU_USE_FFTW, else NULL */
} pu_fft;
PU_DEF pu_status pu_fft_bytes(pu_int n, size_t *bytes);
PU_DEF pu_status pu_fft_init(pu_fft *plan, pu_int n, void *memory, size_t bytes);
/* re + i im (n each) is replaced by its transform. */
PU_DEF pu_status pu_fft_run(const pu_fft *plan, int inverse, pu_real *re, pu_real *im, pu_real *work);
/* Empties the plan; `memory` is yours to free after that. It returns what FFTW allocated: without PU_USE_FFTW nothing
   is lost by leaving the call out. Call it before making a plan anew in the same struct. NULL is allowed. */
PU_DEF void pu_fft_free(pu_fft *plan);

/* The same in two dimensions, arrays of rows x cols, row-major: along the rows, then along the columns. rows = 1 (or
   cols = 1) is the transform in one dimension. */
typedef struct {
    pu_int rows, cols, work; /* reals of scratch for pu_fourier_run */
    pu_real scale;           /* (rows cols)^-1/2 */
    pu_fft along, down;      /* private: of length cols (rows if cols = 1), of length rows (1 if cols = 1) */
    void *fftw;              /* private, as in pu_fft */
} pu_fourier;
PU_DEF pu_status pu_fourier_bytes(pu_int rows, pu_int cols, size_t *bytes);
PU_DEF pu_status pu_fourier_init(pu_fourier *f, pu_int rows, pu_int cols, void *memory, size_t bytes);
PU_DEF pu_status pu_fourier_run(const pu_fourier *f, int inverse, pu_real *re, pu_real *im, pu_real *work);
PU_DEF void pu_fourier_free(pu_fourier *f); /* as pu_fft_free */

/* Fourier sensing of a real image of D = rows cols pixels (row-major): Phi = [Re F; Im F], F the unitary transform, so
   2 D rows: row m is Re F_m, row D + m is Im F_m, m = frequency along rows * cols + frequency along columns.
   A frequency that was not sampled is hidden by masking both of its rows. No parameters; *f is borrowed.
   Phi' [a; b] = Re F^H (a + i b), Phi'Phi = I. Two columns share a transform: a product costs k/2 of them. */
PU_DEF pu_op pu_op_fourier(const pu_fourier *f);

/* What a Toeplitz or circulant matrix needs for products by fast Fourier transforms, and to be a prior. It is made by
   pu_toeplitz_factor or pu_circulant_factor, and made again whenever the lags change; the operator need not be. An
   operator with a stale factor is refused (PU_E_ARGUMENT). The struct is yours. Its arrays lie in `memory`, of
   pu_toeplitz_bytes or pu_circulant_bytes, any alignment; both must outlive the operator. It may be used by several
   threads at once. */
typedef struct {
    pu_int n, params, size;    /* n = 0: it was refused; N, the length of the transforms */
    int prior;                 /* as asked for */
    int embedded;              /* 1: draws cost O(n log n), 0: O(n^2); see pu_toeplitz_factor */
    double logdet;
    /* private from here on */
    pu_fft fft;                /* of length N */
    pu_real *t;                /* params: a copy, to see that the caller changed his */
    pu_real *kappa;            /* n: reflection coefficients of a Toeplitz prior, from 1 on */
    pu_real *p, *q;            /* n: d log det Op = p'dOp q */
    pu_real *roots;            /* N: square roots of lambda */
    pu_real *lambda, *squares; /* N: spectra of the embedding, and of the embedding with its entries squared */
} pu_lags;

/* Symmetric Toeplitz n x n, entry (i, j) = t[|i - j|]; params = n. factor NULL: products, gradients and gram_diag are
   direct sums, O(n^2), and there is no sample, logdet or logdet_grad. With a factor they are O(n log n) from n = 64
   on, rounded relative to the largest entry of a column. Scratch: about 20 n reals per column. */
PU_DEF pu_op pu_op_toeplitz(pu_int n, const pu_real *t, const pu_lags *factor);
/* prior = 0: for products only, O(n log n), any t. prior = 1: for draws and log det as well; the matrix must be
   positive definite. That takes the Levinson recursion once, O(n^2); log det is then O(1), its gradient O(n log n).
   The matrix is embedded in a circulant one of size N, 2 n <= N <= 3 n, whose lags from n on repeat t[n-1]. A draw
   takes N normals. Where no eigenvalue of the embedding is negative (factor->embedded = 1) it is a product with the
   embedding's square root, O(n log n). Otherwise it is the Levinson recursion again, O(n^2), and does not use the last
   N - n normals. Either way the covariance is exactly the matrix. A convex decreasing t >= 0 has no negative
   eigenvalue, up to rounding. Statuses: PU_E_NULL; PU_E_ARGUMENT (n < 1); PU_E_OVERFLOW; PU_E_BLOCK (memory too
   small); PU_E_NONFINITE; PU_E_NOT_DEFINITE (prior = 1). index (may be NULL): the entry of t where it shows, else -1. */
PU_DEF pu_status pu_toeplitz_factor(pu_lags *factor, pu_int n, const pu_real *t, int prior, void *memory, size_t bytes,
                                    pu_int *index);
PU_DEF pu_status pu_toeplitz_bytes(pu_int n, size_t *bytes);

/* Symmetric circulant n x n, entry (i, j) = c[min(l, n - l)], l = |i - j|; params = n/2 + 1, the free lags. The rest
   as for a Toeplitz matrix, with N = n: a draw takes n normals, and everything is O(n log n), also the factor of a
   prior. PU_E_NOT_DEFINITE when an eigenvalue is not positive (index: its frequency). */
PU_DEF pu_op pu_op_circulant(pu_int n, const pu_real *c, const pu_lags *factor);
PU_DEF pu_status pu_circulant_factor(pu_lags *factor, pu_int n, const pu_real *c, int prior, void *memory, size_t bytes,
                                     pu_int *index);
PU_DEF pu_status pu_circulant_bytes(pu_int n, size_t *bytes);

/* ---- models you write ------------------------------------------------------------------------------------ */

/* `set` turns theta into the canonical form, `grad` brings a gradient back. Start zeroed; made by pu_model_*(), or
   filled in by you (examples/custom_model.c): then let pu_model_check look for mistakes. Holds pointers into itself:
   not to be copied once made, nor to be shared by calls that run at the same time. */
struct pu_model {
    const char *name;       /* "factor analysis" */
    pu_int params;          /* length of theta */
    unsigned uses;          /* PU_USES_*: the canonical gradients that grad reads */
    int tied_psi;           /* grad reads only the sum of psi's, and psi is M times the same (pu_options.tied_psi) */
    pu_lgm lgm;             /* canonical form as of the last set: what pu_gradient wants */
    pu_op Gamma, Phi;       /* lgm's operators, when the model keeps them here (rows > 0); then lgm is pointed at
                               them */
    const pu_real *precond; /* D: the model's own diagonal of M^-1 for PCG, NULL = 1/diag(A) */
    void *data;             /* the model's own state */
    uint32_t sets;          /* calls of pu_model_set so far: pu_fit sees whether its own was the last */
    pu_workspace memory;    /* of the built-in models: malloc, your allocator, or your block (set it before
                               pu_model_*()) */
    /* theta (params, finite) -> canonical. PU_OK, or what is wrong, *index = the entry of theta at fault (as given:
       -1) */
    pu_status (*set)(pu_model *model, const pu_real *theta, pu_int *index);
    /* grad (params, overwritten) = (d canonical / d theta)' g, at the theta of the last set; g holds the arrays in
       `uses` (precond: NULL where nothing went through it). Linear in g. Anything but PU_OK stops the call
       (PU_E_OPERATOR) */
    pu_status (*grad)(const pu_model *model, const pu_gradient_result *g, pu_real *grad);
    /* a sensible start for these data, which have been checked; random parts are a function of seed. May be NULL */
    pu_status (*start)(const pu_model *model, const pu_data *data, uint64_t seed, pu_real *theta);
    const char *told;       /* what the last start did, for report->plan; the model's own memory, or NULL */
    /* what entry i of theta is; *param comes as free, unbounded and called "theta[i]". May be NULL */
    void (*describe)(const pu_model *model, pu_int i, pu_param *param);
    /* Facts about grad that save copies of a large gradient; optional (clear both where you replace grad).
       begins_with_Phi: theta begins with Phi's parameters as they are, and grad copies g->Phi to its output, where it
       may be already. grad_is_finite: 1 when it cannot fail and is sure to give finite numbers for this g, which is
       finite; it then writes to the caller's array */
    int begins_with_Phi;
    int (*grad_is_finite)(const pu_model *model, const pu_gradient_result *g);
};

/* ---- checks of operators and models that you wrote ------------------------------------------------------- */

typedef enum { PU_ROLE_ANY, PU_ROLE_MAP, PU_ROLE_PRIOR } pu_op_role; /* what an operator is to be: Phi, or Gamma */

typedef struct {
    pu_real *theta;        /* pu_op_check: op->params parameters, where the operator reads them (often op->data); they are
                              moved, then put back. NULL: grad is not compared with differences */
    pu_op_role role;       /* pu_op_check: a prior must be symmetric positive definite, a map have apply_t. Default: a
                              prior where it has sample or logdet, or no apply_t; else a map */
    pu_status (*set)(void *user, const pu_real *theta); /* if theta is not all: what makes the operator that of theta (a
                              factor, pu_ar_set ..). Entries that must be equal: it makes them their mean */
    void *user;
    pu_int most;           /* columns, and groups of parameters, that are looked at one by one; 0 = 200. What needs all
                              columns (log det, definiteness) is not tested of more: check a small operator of the kind */
    uint64_t seed;         /* of the random vectors; default 0 */
    pu_allocator allocator; /* zero: malloc and free */
} pu_check_options;

typedef struct {
    const char *of;        /* "op"; in the report of a model "Gamma", "Phi" or "model" */
    const char *function;  /* field of pu_op or pu_model, e.g. "apply_t" */
    int tested;            /* it was called */
    int wrong;
    const char *what;      /* what is wrong; otherwise the comparison that came closest to what is allowed */
    const char *left_out;  /* what was not tested and why; "" */
    double error, allowed; /* of that comparison: the difference at index (passed: the largest), and what rounding
                              (differences: and curvature) may explain. Both 0: a fault without a number, or nothing compared */
    pu_int index;          /* first entry at fault of the function's output (of theta, for differences), or -1 */
} pu_check_entry;

typedef struct {
    pu_status status;
    pu_where where;        /* of the first fault, or what was refused */
    int count, wrong;      /* entries; how many of them are wrong */
    pu_check_entry entry[48];
} pu_check_report;

/* Tries out all functions of an operator on random vectors, in arrays with guards: Y = against Y +=, k = 3 against k = 1,
   ld > rows, scratch (k * op->work, whatever is in it), inputs left alone, two calls alike; apply linear, apply_t its
   transpose, a prior symmetric and positive definite; grad against differences of p'Op(theta) q; sample: F F' = Op;
   solve, diag, gram_diag, the functions of rows and bands against apply and grad; logdet and logdet_grad against a
   Cholesky factor; check. form is tested by every call that uses it, device not at all. Nothing that is wrong does harm,
   unless it reaches further than four times the longest vector behind an array, or never returns. options may be NULL.
   Cost: 10 most + noise products, min(cols, most)^3; memory 15 arrays of params or of three vectors, most^2; all given
   back.
   PU_OK: no mistake found; PU_E_CONTRACT: report.wrong of them; PU_E_NULL, PU_E_ARGUMENT, PU_E_SIZE, PU_E_OVERFLOW,
   PU_E_MEMORY: not tried (report.where). */
PU_DEF pu_status pu_op_check(const pu_op *op, const pu_check_options *options, pu_check_report *report);

/* The same for a model at theta (params): set (the same theta, the same likelihood), start (finite, in bounds, accepted,
   repeatable), describe (names, scales, bounds), uses (grad is handed NaN for what `uses` does not name), grad (linear,
   and against differences of the exact NLL of these data); before that both operators as of theta, as by pu_op_check, and
   where these are wrong nothing else. Take small sizes. The model is set to theta after it. Cost: 5 min(params, most)
   exact NLLs.
   Statuses: those above, and those of pu_model_set for theta and of the data. PU_INEXACT: no mistake found, but rounding
   takes the digits of the likelihood at this theta, so that grad was not compared with differences of it, which would
   prove nothing: try another theta, or other data. */
PU_DEF pu_status pu_model_check(pu_model *model, const pu_real *theta, const pu_data *data,
                                const pu_check_options *options, pu_check_report *report);

/* The report in one line: the first mistake, or that there is none. full: a line for every function. Written to text
   (size bytes, cut off where they end; 4096 hold a full report of an operator) and returned. */
PU_DEF const char *pu_check_explain(const pu_check_report *report, int full, char *text, size_t size);

/* ---- random numbers, memory, texts ----------------------------------------------------------------------- */

/* Philox4x32-10: out = f(key, counter). */
PU_DEF void pu_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);
/* n standard normals, entries first .. first+n-1 < 2^32 of the stream (seed, datum, sample, step, stream < 4). Pure
   function. The library draws from streams 0, 1 (probes) and 2 (tests of operators, pu_simulate); stream 3 is yours. */
PU_DEF void pu_normals(uint64_t seed, uint32_t datum, uint32_t sample, uint32_t step, uint32_t stream, uint64_t first,
                       pu_int n, pu_real *out);
PU_DEF const pu_backend *pu_backend_cpu(void);

PU_DEF void pu_workspace_block(pu_workspace *ws, void *block, size_t bytes); /* use this memory, never grow; *ws zeroed before
                                                                                */
PU_DEF void pu_workspace_free(pu_workspace *ws);

PU_DEF const char *pu_version(void);
PU_DEF const char *pu_status_name(pu_status status); /* "PU_E_NULL" */
PU_DEF const char *pu_status_text(pu_status status); /* in words */
PU_DEF const char *pu_stop_text(pu_stop stop);
PU_DEF const char *pu_engine_text(pu_engine engine); /* "iterative", "dense", .. */
/* One line: status in words, culprit, numbers. Returns buffer, always terminated (capacity >= 1). */
PU_DEF const char *pu_explain(const pu_report *report, char *buffer, size_t capacity);

/* ---- for those who write a device: nothing below is needed to use the library ----------------------- */

/* An operator for a backend with memory of its own (see pu_backend.memory): apply, apply_t, grad and, where there are
   any, sample and the three of rows work on that memory; they enqueue work and do not wait for it. The rest of op is
   not used. */
struct pu_side {
    pu_op op;
    /* Optional. Y = (Op + diag(w)) X or Y += that, s_j = x_j'(Op + diag(w)) x_j in one sweep (w, s may be NULL; no s
       with add). */
    pu_status (*apply_plus)(const pu_op *op, const pu_real *w, pu_int k, pu_block X, pu_block Y, int add, pu_real *s);
    /* Optional. Y = Op' diag(w) Op X, or Y += .., where that is cheaper than the two products (w may hold zeros). */
    pu_status (*gram)(const pu_op *op, const pu_real *w, pu_int k, pu_block X, pu_block Y, int add, pu_real *work);
    /* Optional. op.grad may add up other sums than the gradient, op.params of them; this one, which works on host
       memory, then makes a gradient of them: grad (of the host's operator) += . */
    pu_status (*grad_from_sums)(const pu_side *side, const pu_real *sums, pu_real *grad);
};

/* ---- the vector backend --------------------------------------------------------------------------
   The iterative engine touches vectors and per-column scalars only through these functions, so a GPU can supply them; the
   scalars (pu_state) then live in device memory, and the loop never looks at them, except through `read` at a check in
   tolerance mode and at the end of a solve. Exact engines, tests of operators and all that is linear in small arrays is host
   work in any case.

   A backend with memory of its own solves the systems of `count` data at a time, side by side: of k columns the first k / count
   belong to the first datum, and so on. Every m is then n x count, one piece for each datum, and so are the lists of rows, where
   -1 is a row that is not there: zero. Behind a list for n x count rows of M follow M + 1 numbers `start` and n count `place`:
   row m is at the places place[start[m]] .. place[start[m+1] - 1] of the list. */

/* One term c_j * (m o x_j) of a combination; coefficient scale * (c ? c[j] : 1). Exactly zero: not read. */
typedef struct {
    pu_block x;
    const pu_real *c; /* k coefficients, or NULL */
    pu_real scale;
    const pu_real *m; /* n entries multiplied in, or NULL */
} pu_term;

/* Everything per column. Histories are [step][column]: a[i*k + j]. alpha_{i+1} is a[i*k+j], rho_0 is rho[j]. */
typedef struct {
    pu_int k;
    int fixed_step;               /* GD: alpha is `step`, not rho/pi */
    int use_beta;                 /* CG, PCG: d = z + beta d; GD, SD: d = r */
    int detach;                   /* reverse pass: alpha and beta are constants */
    pu_real *a, *be, *pi;         /* I x k */
    pu_real *rho;                 /* (I+1) x k: r'(m o r) */
    pu_real *s0, *s1;             /* k: results of dots */
    pu_real *step, *target;       /* k: GD step; squared residual to stop at (0: none) */
    pu_real *floor_;              /* k: rho at rounding level */
    pu_real *scale;               /* k: norm taken out of xbar, times the column's weight */
    pu_real *rhobar, *rhop, *pib; /* k: cotangents of scalars */
    pu_real *c0, *c1, *c2;        /* k: coefficients for combine */
    int32_t *steps, *stop;        /* k: steps taken; pu_stop, or 0 while running */
    double tolerance2, absolute2; /* squared relative tolerance, absolute squared residual (0: none) */
} pu_state;

typedef enum { /* stages of per-column scalar arithmetic, in the order of the solver's text */
    PU_STAGE_START,   /* s0 = u'(m o u), s1 = u'u, c0 = r'r, rho[0]: targets; finished columns stop */
    PU_STAGE_ALPHA,   /* pi[i] -> a[i], or breakdown */
    PU_STAGE_BETA,    /* rho[i+1] (s1 = r'r) -> be[i], steps, stop tests */
    PU_STAGE_PROJECT, /* c0 = -s0 / rho[i], the Gram-Schmidt coefficient */
    PU_STAGE_XBAR,    /* s0 = |r|^2: c0 = -1/|r|, scale *= |r| */
    PU_STAGE_REV1,    /* s0 = dbar'd -> rhobar, rhop; c0 = 2 rhobar */
    PU_STAGE_REV2,    /* s0 = xbar'd, s1 = rbar'q -> rhobar, pib; c0 = -alpha */
    PU_STAGE_RPREV,   /* c0, c1, c2: r_{i-1} from d_{i-1}, d_{i-2} or r_i */
    PU_STAGE_Q,       /* c1 = 1/alpha */
    PU_STAGE_END,     /* c0 = 2 rhobar */
    PU_STAGE_UNWIND   /* REV1 and REV2 in one, from the sums of unwind_sums in s0, s1, c1; c0 = 2 rhobar */
} pu_stage;

/* A reverse step where alpha and beta depend on theta. Columns with a_j = 0 took no such step. */
typedef struct {
    pu_block d, before;       /* d_i and d_{i-1} */
    pu_block r_i;             /* r_i; at NULL: it is 1/m o (d - be_before before) */
    pu_block xbar;
    pu_block r, rbar, dbar;   /* r_{i+1}, which becomes r_i; cotangents of r_{i+1}, d_{i+1}, which become those of r_i,
                                 d_i but for the product with A */
    pu_block qbar;            /* out */
    const pu_real *a, *be;    /* alpha_{i+1}, beta_{i+1} */
    const pu_real *be_before; /* beta_i; NULL: there is no d_{i-1} */
    const pu_real *twice_rhobar, *pib;
    const pu_real *m, *minv;  /* n, or NULL */
    const pu_real *weight;    /* of the columns in mbar */
    pu_real *mbar;            /* n, the cotangent of m, or NULL */
} pu_unwinding;

struct pu_backend {
    void *user;
    int host;                            /* scalars are in host memory: reading them is free, so a loop ends as soon as
                                            all columns have stopped */
    /* s_j = sum_i m_i x_ij y_ij (m may be NULL). Order of summation fixed by n alone. */
    void (*dot)(void *user, pu_int n, pu_int k, const pu_real *m, pu_block x, pu_block y, pu_real *s);
    /* y = sum of `count` terms (at most 4); y may be one of them. */
    void (*combine)(void *user, pu_int n, pu_int k, pu_block y, int count, const pu_term *terms);
    /* x += a d;  r -= a q;  rho_j = r_j'(m o r_j). A column with a_j = 0 is not touched; rho_j still is. x.at NULL: no x */
    void (*advance)(void *user, pu_int n, pu_int k, const pu_real *a, const pu_real *m, pu_block d, pu_block q,
                    pu_block x, pu_block r, pu_real *rho);
    /* scalar arithmetic of one stage of step i, for all columns */
    void (*stage)(void *user, const pu_state *s, pu_stage stage, pu_int i);
    /* out_r += m_i sum_j w_j p_ij q_ij, where r = rows[i], one of M (rows NULL: r = i; m, w may be NULL; q.at NULL:
       ones). A column of weight exactly zero is not read */
    void (*row_dot)(void *user, pu_int n, pu_int k, const pu_real *m, const pu_real *w, pu_block p, pu_block q, pu_int M,
                    const pu_int *rows, pu_real *out);
    /* standard normals for the columns sample, sample+1, .. of each datum: value = f(seed, datum, sample, step,
       stream, row), rows as above; datum: their numbers, in the backend's memory */
    void (*normals)(void *user, pu_int n, const pu_int *rows, pu_int k, pu_block x, uint64_t seed, const uint32_t *datum,
                    uint32_t sample, uint32_t step, uint32_t stream);
    /* copy bytes to or from the backend's memory */
    void (*read)(void *user, void *host, const void *device, size_t bytes);
    void (*write)(void *user, void *device, const void *host, size_t bytes);
    /* The reverse of advance where alpha and beta are constants:  rbar += m o dbar;  dbar = be dbar + a xbar.  Terms with a
       coefficient of exactly zero are not read. */
    void (*retreat)(void *user, pu_int n, pu_int k, const pu_real *a, const pu_real *be, const pu_real *m, pu_block xbar,
                    pu_block rbar, pu_block dbar);
    /* The same where they are not, in two sweeps; optional, both or none (else dot and combine do it in ten). With q = (r_i - r) / a
         s0 = dbar'd,   s1 = xbar'd - (rbar + m o dbar)'q,   s2 = r'(m o q)          (zero where a is)
         mbar += sum_j weight_j r o (dbar + rhobar r);
         rbar += m o (dbar + 2 rhobar r);  qbar = -a rbar + pib d;  dbar = be dbar + a xbar + pib q;  r = r_i
       and where a is zero qbar = 0, and nothing else is read or written. */
    void (*unwind_sums)(void *user, pu_int n, pu_int k, const pu_unwinding *step, pu_real *s0, pu_real *s1, pu_real *s2);
    void (*unwind)(void *user, pu_int n, pu_int k, const pu_unwinding *step);
    /* out += scale sum_j w_j sum_i m_i x_ij y_ij (m may be NULL) */
    void (*sum_dot)(void *user, pu_int n, pu_int k, const pu_real *m, pu_block x, pu_block y, const pu_real *w, double scale,
                    pu_real *out);
    /* What a gradient has that is linear in b: one column of t = Phi bbar and e for each of k data, w = mask psi; r = rows[i] as
       above.  eta_r -= w (t + e);  psibar_r += mask ((t + e/2) e - 1 / (2 psi_r)) */
    void (*row_terms)(void *user, pu_int n, pu_int k, pu_block t, const pu_real *w, const pu_real *mask, const pu_real *e,
                      const pu_real *psi, pu_int M, const pu_int *rows, pu_real *eta, pu_real *psibar);

    /* The rest belongs to backends with memory of their own; in others all of it is NULL. Those functions above that
       return nothing keep the first error for `status`. */
    void *(*memory)(void *user, size_t bytes); /* its block of memory, which later calls may move when they ask for
                                                  more; NULL: no */
    size_t budget;                       /* the most that may be asked for */
    void (*batch)(void *user, pu_int count); /* so many data are side by side from here on */
    void (*use_slot)(void *user, int slot);  /* what is written from here on goes to slot 0 or 1 of two, used in turns, and
                                            may overtake work on the other */
    /* The device side of a host operator: bytes that it needs with memory NULL, and the operator itself otherwise, at
       least until the next call with the same slot (0: Gamma or A, 1: Phi). PU_E_UNSUPPORTED: it has none */
    pu_status (*side)(void *user, int slot, const pu_op *op, void *memory, size_t *bytes, pu_side *side);
    pu_status (*status)(void *user, const char **what); /* waits for all work; the first error since the last call, in
                                                           words */
};

#ifdef __cplusplus
}
#endif
#endif /* PU_H */
/* ==================================== end of the header part ==================================== */

#if defined(PU_STATIC) && !defined(PU_IMPLEMENTATION)
#error "PU_STATIC needs PU_IMPLEMENTATION in the same file"
#endif

#ifdef PU_IMPLEMENTATION
#ifndef PU_IMPLEMENTATION_ONCE
#define PU_IMPLEMENTATION_ONCE

#if defined(__FAST_MATH__) || defined(_M_FP_FAST) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "pu.h is compiled without -ffast-math, -ffinite-math-only, /fp:fast: they remove its checks for NaN"
#endif

#include <float.h>
#include <math.h>
#include <string.h>
#ifndef PU_NO_MALLOC
#include <stdlib.h>
#endif
#ifndef PU_NO_STDIO
#include <errno.h>
#include <stdio.h>
/* Does this unit see POSIX? In strict C99 (-std=c99) it must ask: -D_POSIX_C_SOURCE=200809L. */
#if !defined(_WIN32) && ((defined(_POSIX_C_SOURCE) && _POSIX_C_SOURCE + 0 >= 200112L) ||                               \
                         (defined(_XOPEN_SOURCE) && _XOPEN_SOURCE + 0 >= 600) || defined(__APPLE__))
#define PU__POSIX 1
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#endif
#endif
#if defined(_OPENMP) && !defined(PU_NO_OPENMP)
#include <omp.h>
#define PU__OPENMP 1
#endif
#if defined(PU_USE_FFTW) || defined(PU_USE_CBLAS)
#include <limits.h>
#endif
#ifdef PU_USE_FFTW
#include <fftw3.h>
#endif
#ifdef PU_USE_CBLAS
#ifndef PU_CBLAS_HEADER
#define PU_CBLAS_HEADER <cblas.h>
#endif
#include PU_CBLAS_HEADER
#endif
#pragma push_macro("I") /* <complex.h>, also inside OpenBLAS's cblas.h, has it; here I is the number of steps */
#undef I

#ifdef __cplusplus
extern "C" {
#endif

/* Initialiser of a struct that begins zeroed. */
#ifdef __cplusplus
#define PU__ZERO {}
#else
#define PU__ZERO {0}
#endif

#define PU__FN static PU_UNUSED
#if defined(__GNUC__) || defined(__clang__) || defined(__CUDACC__)
#define PU__RESTRICT __restrict__
#elif defined(_MSC_VER)
#define PU__RESTRICT __restrict
#else
#define PU__RESTRICT
#endif
#if defined(__GNUC__) || defined(__clang__)
#define PU__NOINLINE __attribute__((noinline))
#else
#define PU__NOINLINE
#endif

#ifdef PU_FLOAT
#define PU__EPS FLT_EPSILON
#define PU__FLOOR2 PU_R(1e-13) /* rho / rho_0 at which a residual is rounding noise: (2.7 eps)^2 */
/* The square root in pu_real. */
PU__FN PU_HD pu_real pu__sqrt(pu_real x) { return sqrtf(x); }
/* The hyperbolic tangent in pu_real. */
PU__FN pu_real pu__tanh(pu_real x) { return tanhf(x); }
#else
#define PU__EPS DBL_EPSILON
#define PU__FLOOR2 PU_R(1e-28) /* (45 eps)^2 */
/* The square root in pu_real. */
PU__FN PU_HD pu_real pu__sqrt(pu_real x) { return sqrt(x); }
/* The hyperbolic tangent in pu_real. */
PU__FN pu_real pu__tanh(pu_real x) { return tanh(x); }
#endif

/* x - x is 0 for every finite x and NaN for the rest: usable on host and device, in C and C++. */
PU__FN PU_HD int pu__finite(pu_real x) { return x - x == 0; }
/* The same in double. */
PU__FN int pu__finite_double(double x) { return x - x == 0.0; }
/* The larger of two numbers. */
PU__FN double pu__max(double x, double y) { return x > y ? x : y; }
/* The smaller of two integers. */
PU__FN PU_HD pu_int pu__min(pu_int x, pu_int y) { return x < y ? x : y; }
/* The larger of two integers. */
PU__FN pu_int pu__most(pu_int x, pu_int y) { return x > y ? x : y; }
/* Sets n reals to zero. */
PU__FN void pu__zeros(pu_real *to, pu_int n) { memset(to, 0, (size_t)n * sizeof(pu_real)); }
/* Copies n reals. The arrays must not overlap. */
PU__FN void pu__copy(pu_real *to, const pu_real *from, pu_int n) { memcpy(to, from, (size_t)n * sizeof(pu_real)); }

/* ------------------------------------------------------------------------------------------------
   >>status   texts for statuses, and the report

   Every fallible function returns a pu_status: 0 for success, negative where nothing was computed, positive where
   the numbers are there but something is to be said about them. The report tells the rest.
   ------------------------------------------------------------------------------------------------ */

/* The version of the implementation; PU_VERSION is that of the header. */
PU_DEF const char *pu_version(void) { return PU_VERSION; }

/* One case of a switch over the names of a list. */
#define PU__CASE_NAME(name, value, text) case name: return #name;
#define PU__CASE_TEXT(name, value, text) case name: return text;

/* The name of a status as the source code spells it. */
PU_DEF const char *pu_status_name(pu_status status)
{
    switch (status) {
        PU_STATUS_LIST(PU__CASE_NAME)
    case PU_STATUS_END: break;
    }
    return "unknown";
}

/* A status in words. */
PU_DEF const char *pu_status_text(pu_status status)
{
    switch (status) {
        PU_STATUS_LIST(PU__CASE_TEXT)
    case PU_STATUS_END: break;
    }
    return "unknown status";
}

/* Why a column stopped, in words. */
PU_DEF const char *pu_stop_text(pu_stop stop)
{
    switch (stop) {
        PU_STOP_LIST(PU__CASE_TEXT)
    case PU_STOP_COUNT: break;
    }
    return "unknown reason";
}

/* The name of an engine. */
PU_DEF const char *pu_engine_text(pu_engine engine)
{
    switch (engine) {
        PU_ENGINE_LIST(PU__CASE_TEXT)
    case PU_ENGINES: break;
    }
    return "unknown engine";
}

/* Text in a bounded buffer, always terminated. It does without stdio, so that no embedded build has to link
   printf. */
typedef struct {
    char *at;
    size_t used, capacity;
} pu__text;

/* Appends s, or as much of it as fits. */
PU__FN void pu__put(pu__text *text, const char *s)
{
    for (; *s && text->used + 1 < text->capacity; s++)
        text->at[text->used++] = *s;
    text->at[text->used] = 0;
}

/* Appends a label and a number. A negative number means that it does not apply: nothing is appended. */
PU__FN void pu__put_number(pu__text *text, const char *label, pu_int number)
{
    char digits[24];
    int first = 23;
    if (number < 0) return;
    digits[first] = 0;
    do {
        digits[--first] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    pu__put(text, label);
    pu__put(text, digits + first);
}

/* The label, then x with six decimals, cut off rather than rounded: enough for a line of text, and without
   printf. Larger numbers than pu_int may hold on any machine are not told. */
PU__FN void pu__put_real(pu__text *text, const char *label, double x)
{
    double size = fabs(x);
    pu__put(text, label);
    /* A NaN comes here, too. */
    if (!(size < 1e9)) {
        pu__put(text, "out of range");
        return;
    }
    pu__put_number(text, x < 0 ? "-" : "", (pu_int)size);
    /* The fraction with its leading zeros: a 1 in front keeps them, and becomes the point. */
    size_t point = text->used;
    pu__put_number(text, "", 1000000 + (pu_int)((size - floor(size)) * 1e6));
    if (text->used > point)
        text->at[point] = '.';
}

/* Appends a label and x >= 0 in percent, with three decimals. */
PU__FN void pu__put_percent(pu__text *text, const char *label, double x)
{
    pu_int thousandths = x < 1e9 ? (pu_int)(1e5 * x + 0.5) : (pu_int)1e14;
    pu_int decimals = thousandths % 1000;
    const char *point = ".";
    if (decimals < 100) point = ".0";
    if (decimals < 10) point = ".00";
    pu__put_number(text, label, thousandths / 1000);
    pu__put_number(text, point, decimals);
    pu__put(text, " %");
}

/* One line about a report: the status in words, what is at fault, and the numbers that apply. report may be NULL. */
PU_DEF const char *pu_explain(const pu_report *report, char *buffer, size_t capacity)
{
    pu__text text = {buffer, 0, capacity};
    const pu_where *where;
    pu_status status;
    if (!buffer || !capacity) return "";
    buffer[0] = 0;
    if (!report) return buffer;
    status = report->status;
    where = &report->where;
    pu__put(&text, pu_status_text(status));
    if (where->what && where->what[0]) {
        pu__put(&text, ": ");
        pu__put(&text, where->what);
    }
    pu__put_number(&text, ", datum ", where->datum);
    pu__put_number(&text, ", column ", where->column);
    /* a warning about a column tells the step of the solver */
    pu__put_number(&text, status > 0 && where->column >= 0 ? ", step " : ", index ", where->index);
    pu__put_number(&text, ", at most ", where->most);
    if (status == PU_E_BLOCK || status == PU_E_MEMORY) {
        /* memory of the host is always called so; what a device lacks has the words of its driver */
        int host = strncmp(where->what, "workspace", 9) == 0;
        if (host || !report->device_bytes)
            pu__put_number(&text, ", bytes needed ", (pu_int)report->bytes);
        else
            pu__put_number(&text, ", bytes of device memory needed ", (pu_int)report->device_bytes);
    }
    return buffer;
}

/* Records what is at fault and returns the status. Every failure of the library passes through here.
   datum, index: -1 where they do not apply. */
PU__FN pu_status pu__fail(pu_report *report, pu_status status, const char *what, pu_int datum, pu_int index)
{
    pu_where where = {what, datum, -1, index, -1};
    report->status = status;
    report->where = where;
    return status;
}

/* The same where neither a datum nor an index is at fault. */
PU__FN pu_status pu__refuse(pu_report *report, pu_status status, const char *what)
{
    return pu__fail(report, status, what, -1, -1);
}

/* A number that is larger than `most`, or else below its range. */
PU__FN pu_status pu__beyond(pu_report *report, const char *what, pu_int most)
{
    (void)pu__refuse(report, PU_E_ARGUMENT, what);
    report->where.most = most;
    return PU_E_ARGUMENT;
}

/* An empty report: PU_OK, and -1 for whatever is not known yet. */
PU__FN void pu__report_clear(pu_report *report)
{
    memset(report, 0, sizeof *report);
    (void)pu__refuse(report, PU_OK, "");
    report->worst_orthogonality = -1;
    report->worst_growth = -1;
    report->worst_datum = -1;
    report->worst_column = -1;
    report->statistical_error = -1;
    report->solver_error = -1;
    report->rounding_error = -1;
}

/* ------------------------------------------------------------------------------------------------
   >>memory   one arena; the same layout code measures (base NULL) and carves

   A layout function takes every array of a call from an arena. It runs twice: first with base NULL, which only
   adds up the bytes, then with a block of that size. Sizes and addresses therefore cannot disagree.
   ------------------------------------------------------------------------------------------------ */

#define PU__ALIGN ((size_t)64) /* cache line and widest vector register */

typedef struct {
    unsigned char *base; /* NULL while measuring */
    size_t used;
    int overflow;        /* a size did not fit into size_t */
    const pu_backend *B; /* the vectors live in its memory; NULL, or a backend without memory of its own: in ours */
    unsigned char *far;  /* that memory, NULL while measuring */
    size_t far_used;
} pu__arena;

/* a * b; sets *overflow where the product exceeds PTRDIFF_MAX. */
PU__FN size_t pu__mul(size_t a, size_t b, int *overflow)
{
    if (b == 0 || a <= (size_t)PTRDIFF_MAX / b)
        return a * b;
    *overflow = 1;
    return 0;
}

/* a + b, likewise. */
PU__FN size_t pu__add(size_t a, size_t b, int *overflow)
{
    if (a <= (size_t)PTRDIFF_MAX - b)
        return a + b;
    *overflow = 1;
    return 0;
}

/* Whether this backend has memory of its own. B may be NULL. */
PU__FN int pu__is_far(const pu_backend *B) { return B && B->memory; }

/* count * each * width bytes, rounded up to whole cache lines, so that every array is aligned.
   far: from the backend's memory, if it has some.
   Returns NULL while measuring, and after an overflow. */
PU__FN void *pu__take_from(pu__arena *arena, int far, pu_int count, pu_int each, size_t width)
{
    int there = far && pu__is_far(arena->B);
    unsigned char *base = there ? arena->far : arena->base;
    size_t *used = there ? &arena->far_used : &arena->used;
    size_t at = *used, bytes;
    PU_ASSERT(count >= 0 && each >= 0);
    /* overflow stays set: whoever opens the arena refuses */
    bytes = pu__mul(pu__mul((size_t)count, (size_t)each, &arena->overflow), width, &arena->overflow);
    bytes = pu__add(bytes, PU__ALIGN - 1, &arena->overflow) / PU__ALIGN * PU__ALIGN;
    *used = pu__add(at, bytes, &arena->overflow);
    return base && !arena->overflow ? base + at : NULL;
}

/* The same from our own memory. */
PU__FN void *pu__take(pu__arena *arena, pu_int count, pu_int each, size_t width)
{
    return pu__take_from(arena, 0, count, each, width);
}

/* count x each reals from our own memory, */
PU__FN pu_real *pu__reals(pu__arena *arena, pu_int count, pu_int each)
{
    return (pu_real *)pu__take(arena, count, each, sizeof(pu_real));
}

/* and where the backend works. */
PU__FN pu_real *pu__far_reals(pu__arena *arena, pu_int count, pu_int each)
{
    return (pu_real *)pu__take_from(arena, 1, count, each, sizeof(pu_real));
}

/* Likewise doubles and indices, always from our own memory. */
PU__FN double *pu__doubles(pu__arena *arena, pu_int count, pu_int each)
{
    return (double *)pu__take(arena, count, each, sizeof(double));
}

/* Indices are whole arrays. */
PU__FN pu_int *pu__indices(pu__arena *arena, pu_int count)
{
    return (pu_int *)pu__take(arena, count, 1, sizeof(pu_int));
}

/* `count` blocks of n x k reals where the backend works. */
PU__FN pu_real *pu__far_blocks(pu__arena *arena, pu_int count, pu_int n, pu_int k)
{
    return (pu_real *)pu__take_from(arena, 1, count, n, pu__mul((size_t)k, sizeof(pu_real), &arena->overflow));
}

/* A block of k columns of n reals from our own memory, */
PU__FN pu_block pu__cols(pu__arena *arena, pu_int n, pu_int k)
{
    pu_block b = {pu__reals(arena, n, k), n};
    return b;
}

/* and where the backend works. */
PU__FN pu_block pu__far_cols(pu__arena *arena, pu_int n, pu_int k)
{
    pu_block b = {pu__far_reals(arena, n, k), n};
    return b;
}

/* Bytes the caller must provide for an arena of `used`: room to align any address. */
PU__FN size_t pu__arena_bytes(const pu__arena *arena) { return arena->used + PU__ALIGN; }

/* Memory from the caller's allocator, or from malloc where there is none. */
PU__FN void *pu__alloc(const pu_allocator *a, size_t bytes)
{
    if (a->alloc)
        return a->alloc(bytes, a->user);
#ifdef PU_NO_MALLOC
    return NULL;
#else
    return malloc(bytes);
#endif
}

/* Gives it back. block may be NULL. */
PU__FN void pu__release(const pu_allocator *a, void *block, size_t bytes)
{
    if (!block)
        return;
    if (a->free) {
        a->free(block, bytes, a->user);
        return;
    }
#ifndef PU_NO_MALLOC
    free(block);
#endif
}

/* The mark of a workspace that the library has written, 0 where it is zeroed. It is all but certainly another number
   where a struct was never zeroed: only a block whose mark is right is given back, and so on. */
PU__FN size_t pu__workspace_mark(const pu_workspace *ws)
{
    return 31 * (size_t)(uintptr_t)ws->block + 7 * ws->bytes + (size_t)ws->fixed;
}

/* Makes a block the workspace: the caller's, which never grows, or one that was allocated. */
PU__FN void pu__workspace_set(pu_workspace *ws, void *block, size_t bytes, int fixed)
{
    ws->block = block;
    ws->bytes = bytes;
    ws->fixed = fixed;
    ws->mark = pu__workspace_mark(ws);
}

/* Makes the caller's block the workspace; it never grows. */
PU_DEF void pu_workspace_block(pu_workspace *ws, void *block, size_t bytes)
{
    if (!ws)
        return;
    pu_workspace_free(ws);
    pu__workspace_set(ws, block, bytes, 1);
}

/* Releases what the workspace allocated; a block of the caller's stays his. ws may be NULL. */
PU_DEF void pu_workspace_free(pu_workspace *ws)
{
    if (!ws)
        return;
    if (pu__workspace_mark(ws) != ws->mark)
        memset(ws, 0, sizeof *ws);
    if (!ws->fixed)
        pu__release(&ws->allocator, ws->block, ws->bytes);
    pu__workspace_set(ws, NULL, 0, 0);
}

/* A workspace that was never zeroed, or whose allocator has one function of two. */
PU__FN pu_status pu__check_workspace(const pu_workspace *ws, pu_report *report)
{
    if (pu__workspace_mark(ws) != ws->mark)
        return pu__refuse(report, PU_E_ARGUMENT, "workspace (not zeroed before its first use)");
    if (!ws->allocator.alloc != !ws->allocator.free)
        return pu__refuse(report, PU_E_NULL, "workspace.allocator (alloc and free, or neither)");
    return PU_OK;
}

/* The first address from `at` on that is a multiple of PU__ALIGN. */
PU__FN unsigned char *pu__aligned(void *at)
{
    return (unsigned char *)at + (PU__ALIGN - (uintptr_t)at % PU__ALIGN) % PU__ALIGN;
}

/* Turns a measured arena into a real one. The workspace grows unless it is fixed; a block that is large enough is
   used as it is, so that a second call of the same size allocates nothing. */
PU__FN pu_status pu__arena_open(pu__arena *arena, pu_workspace *ws, pu_report *report)
{
    size_t need = pu__arena_bytes(arena);
    const pu_backend *B = arena->B;
    const char *what = "device memory";
    void *block;
    if (arena->overflow)
        return pu__refuse(report, PU_E_OVERFLOW, "workspace");
    report->bytes = need;
    if (pu__check_workspace(ws, report))
        return report->status;
    if (ws->bytes < need || !ws->block) {
        if (ws->fixed)
            return pu__refuse(report, PU_E_BLOCK, "workspace");
        pu_workspace_free(ws);
        block = pu__alloc(&ws->allocator, need);
        ws->allocations++;
        if (!block)
            return pu__refuse(report, PU_E_MEMORY, "workspace");
        pu__workspace_set(ws, block, need, 0);
    }
    arena->base = pu__aligned(ws->block);
    arena->used = 0;
    if (!pu__is_far(B))
        return PU_OK;
    /* the backend's part */
    report->device_bytes = arena->far_used + PU__ALIGN;
    if (report->device_bytes > B->budget)
        return pu__refuse(report, PU_E_MEMORY, "device memory (over its budget)");
    block = B->memory(B->user, report->device_bytes);
    if (!block) { /* for want of memory, or because of an earlier error */
        pu_status status = B->status(B->user, &what);
        return pu__refuse(report, status ? status : PU_E_MEMORY, what);
    }
    arena->far = pu__aligned(block);
    arena->far_used = 0;
    return PU_OK;
}

/* ---- a hash of bytes: stamps of operators, checkpoints ---- */

#define PU__FNV UINT64_C(0xcbf29ce484222325) /* where a hash begins */

/* FNV-1a: the hash h, continued by more bytes. Files hold its values, so it must not change. */
PU__FN uint64_t pu__fnv(uint64_t h, const void *data, size_t bytes)
{
    const unsigned char *at = (const unsigned char *)data;
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ at[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* ---- one public call: its report, its workspace, its memory ---- */

typedef struct {
    pu_report *report, own_report; /* the caller's, or our own where there is none */
    pu_workspace *ws, own_ws;
    pu__arena arena;
} pu__call;

/* Lays out (or measures) the memory of a call. */
typedef void (*pu__layout)(void *self, pu__arena *arena);

/* The prologue of every public call. Returns the report, cleared. ws and report may be NULL. */
PU__FN pu_report *pu__begin(pu__call *call, pu_workspace *ws, pu_report *report)
{
    memset(call, 0, sizeof *call);
    call->report = report ? report : &call->own_report;
    call->ws = ws ? ws : &call->own_ws;
    pu__report_clear(call->report);
    return call->report;
}

/* Its epilogue: gives back what the call allocated for itself. */
PU__FN pu_status pu__finish(pu__call *call, pu_status status)
{
    pu_workspace_free(&call->own_ws);
    return status;
}

/* Bytes that the layout needs, into the report and, where that is not NULL, *bytes. */
PU__FN pu_status pu__measure(pu__call *call, pu__layout layout, void *self, size_t *bytes)
{
    memset(&call->arena, 0, sizeof call->arena);
    layout(self, &call->arena);
    if (call->arena.overflow)
        return pu__refuse(call->report, PU_E_OVERFLOW, "workspace");
    if (!bytes)
        return PU_OK;
    *bytes = pu__arena_bytes(&call->arena);
    call->report->bytes = *bytes;
    return PU_OK;
}

/* Memory for the layout: measured, then from the workspace, in one piece.
   The layout runs once more and now gives addresses. */
PU__FN pu_status pu__allocate(pu__call *call, pu__layout layout, void *self)
{
    pu_status status = pu__measure(call, layout, self, NULL);
    if (!status)
        status = pu__arena_open(&call->arena, call->ws, call->report);
    if (!status)
        layout(self, &call->arena);
    return status;
}

/* ------------------------------------------------------------------------------------------------
   >>random   Philox4x32-10 (Salmon et al. 2011): counter in, random words out

   A number is a function of the seed (the key) and of its place (the counter), and of nothing else. There is no
   state, so that threads, blocks of columns and devices may draw in any order and get the same numbers.
   ------------------------------------------------------------------------------------------------ */

/* One of the ten rounds on the counter words c0 .. c3. */
PU__FN PU_HD void pu__philox_round(uint32_t k0, uint32_t k1, uint32_t *c0, uint32_t *c1, uint32_t *c2, uint32_t *c3)
{
    uint64_t p0 = (uint64_t)0xD2511F53u * *c0;
    uint64_t p1 = (uint64_t)0xCD9E8D57u * *c2;
    *c0 = (uint32_t)(p1 >> 32) ^ *c1 ^ k0;
    *c1 = (uint32_t)p1;
    *c2 = (uint32_t)(p0 >> 32) ^ *c3 ^ k1;
    *c3 = (uint32_t)p0;
}

#define PU__PHILOX_ROUNDS 10
#define PU__PHILOX_KEY0   0x9E3779B9u /* added to the key after a round */
#define PU__PHILOX_KEY1   0xBB67AE85u

/* Four random words out of a key of two words and a counter of four. */
PU__FN PU_HD void pu__philox_words(const uint32_t *key, const uint32_t *counter, uint32_t *out)
{
    uint32_t k0 = key[0], k1 = key[1];
    memcpy(out, counter, 4 * sizeof *out);
    for (int i = 0; i < PU__PHILOX_ROUNDS; i++) {
        pu__philox_round(k0, k1, out, out + 1, out + 2, out + 3);
        k0 += PU__PHILOX_KEY0;
        k1 += PU__PHILOX_KEY1;
    }
}

/* The same for callers of the library. */
PU_DEF void pu_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
    pu__philox_words(key, counter, out);
}

/* sum_i c[i] x^i, i < count, by Horner's rule. */
PU__FN PU_HD pu_real pu__horner(pu_real x, const pu_real *c, int count)
{
    pu_real s = c[count - 1];
    for (int i = count - 2; i >= 0; i--)
        s = s * x + c[i];
    return s;
}

#define PU__OVER(n) PU_R(1.0 / (n)) /* a coefficient of a series */

#ifdef PU_FLOAT
enum { PU__ATANH_TERMS = 6, PU__SIN_TERMS = 6, PU__COS_TERMS = 6 };
#else
enum { PU__ATANH_TERMS = 11, PU__SIN_TERMS = 9, PU__COS_TERMS = 10 };
#endif

/* If the upper `bits` bits of v are zero, shifts v up by as many and returns their number; otherwise returns 0. */
PU__FN PU_HD uint32_t pu__shift_up(uint32_t *v, uint32_t bits)
{
    uint32_t top = *v >> (32 - bits);
    *v = top ? *v : *v << bits;
    return top ? 0 : bits;
}

/* log u for u = (2 floor(word/2) + 1) / 2^32 in (0, 1), as -e log 2 + 2 atanh(s). Here s = (t-1)/(t+1), |s| <
   0.172, with t = 2^e u in [0.7, 1.42). t-1 is formed in integers, so that u near 1 loses no digits. */
PU__FN PU_HD pu_real pu__log_uniform(uint32_t word)
{
    static const pu_real series[11] = {1,
                                       PU__OVER(3),
                                       PU__OVER(5),
                                       PU__OVER(7),
                                       PU__OVER(9),
                                       PU__OVER(11),
                                       PU__OVER(13),
                                       PU__OVER(15),
                                       PU__OVER(17),
                                       PU__OVER(19),
                                       PU__OVER(21)};
    uint32_t v = word | 1u, small, e;
    int32_t t;
    pu_real s;
    /* e = leading zeros of v, so that v 2^e is in [2^31, 2^32) */
    e = pu__shift_up(&v, 16);
    e += pu__shift_up(&v, 8);
    e += pu__shift_up(&v, 4);
    e += pu__shift_up(&v, 2);
    e += pu__shift_up(&v, 1);
    /* below sqrt(1/2) twice that is nearer to 1; t stands for 2^32 (t - 1) */
    small = v < 0xB504F334u;
    e += small;
    t = small ? (int32_t)((v & 0x7FFFFFFFu) << 1) : -(int32_t)(~v) - 1;
    s = (pu_real)t / (pu_real)((double)t + 8589934592.0);
    return 2 * s * pu__horner(s * s, series, PU__ATANH_TERMS) - (pu_real)(int32_t)e * PU_R(0.69314718055994530942);
}

/* Two normals radius (cs, sn) from two words, by Box and Muller: radius^2 = -2 log u(w0), and the angle is
   quadrant(w1) pi/2 + a with |a| < pi/4, by Taylor series. Our own series instead of libm give the same numbers on
   every platform. There are no branches, so that a loop over many pairs is vectorised. The caller takes the root:
   a library function that may set errno would prevent that. */
PU__FN PU_HD void pu__normal_parts(uint32_t w0, uint32_t w1, pu_real *radius2, pu_real *cs, pu_real *sn)
{
    static const pu_real sin_series[9] = {1,
                                          PU__OVER(-6),
                                          PU__OVER(120),
                                          PU__OVER(-5040),
                                          PU__OVER(362880),
                                          PU__OVER(-39916800),
                                          PU__OVER(6227020800.0),
                                          PU__OVER(-1307674368000.0),
                                          PU__OVER(355687428096000.0)};
    static const pu_real cos_series[10] = {1,
                                           PU__OVER(-2),
                                           PU__OVER(24),
                                           PU__OVER(-720),
                                           PU__OVER(40320),
                                           PU__OVER(-3628800),
                                           PU__OVER(479001600),
                                           PU__OVER(-87178291200.0),
                                           PU__OVER(20922789888000.0),
                                           PU__OVER(-6402373705728000.0)};
    /* odd, |angle| < 2^30 */
    int32_t angle = (int32_t)((w1 & 0x3FFFFFFFu) << 1) + 1 - ((int32_t)1 << 30);
    pu_real a = (pu_real)angle * PU_R(3.14159265358979323846 / 4294967296.0);
    pu_real sine = a * pu__horner(a * a, sin_series, PU__SIN_TERMS);
    pu_real cosine = pu__horner(a * a, cos_series, PU__COS_TERMS);
    /* bit 30 of w1 adds pi/2, bit 31 adds pi */
    pu_real x = w1 >> 30 & 1 ? -sine : cosine, y = w1 >> 30 & 1 ? cosine : sine;
    *radius2 = -2 * pu__log_uniform(w0);
    *cs = w1 >> 31 ? -x : x;
    *sn = w1 >> 31 ? -y : y;
}

/* Two normals z[0], z[1] from two words. */
PU__FN PU_HD void pu__normal_pair(uint32_t w0, uint32_t w1, pu_real *z)
{
    pu_real radius2;
    pu__normal_parts(w0, w1, &radius2, z, z + 1);
    z[0] *= pu__sqrt(radius2);
    z[1] *= pu__sqrt(radius2);
}

#define PU__DRAW 64 /* counter values at a time */

/* The same over arrays: n <= PU__DRAW pairs of words w0, w1 give the pairs of normals at z, z + 4, .. */
PU__FN void pu__normal_pairs(int n, const uint32_t *w0, const uint32_t *w1, pu_real *z)
{
    pu_real radius[PU__DRAW], cs[PU__DRAW], sn[PU__DRAW];
    for (int l = 0; l < n; l++)
        pu__normal_parts(w0[l], w1[l], radius + l, cs + l, sn + l);
    for (int l = 0; l < n; l++)
        radius[l] = pu__sqrt(radius[l]);
    for (int l = 0; l < n; l++) {
        z[4 * l] = radius[l] * cs[l];
        z[4 * l + 1] = radius[l] * sn[l];
    }
}

/* Which numbers are wanted: the words of the key and of the counter beside the index. */
typedef struct {
    uint64_t seed;
    uint32_t datum, sample, step;
} pu__draw_key;

/* The four normals z[4 l] on of each of count <= PU__DRAW counter values (index / 4 + stream 2^30, sample, datum,
   step). Their first words are in c0, which is overwritten. */
PU__FN void pu__draw(const pu__draw_key *key, int count, uint32_t *c0, pu_real *z)
{
    uint32_t c1[PU__DRAW], c2[PU__DRAW], c3[PU__DRAW];
    uint32_t k0 = (uint32_t)key->seed, k1 = (uint32_t)(key->seed >> 32);
    /* all entries are set: gcc warns of those beyond count otherwise */
    for (int l = 0; l < PU__DRAW; l++) {
        c1[l] = key->sample;
        c2[l] = key->datum;
        c3[l] = key->step;
    }
    /* pu__philox_words of all counter values side by side */
    for (int round = 0; round < PU__PHILOX_ROUNDS; round++) {
        for (int l = 0; l < count; l++)
            pu__philox_round(k0, k1, c0 + l, c1 + l, c2 + l, c3 + l);
        k0 += PU__PHILOX_KEY0;
        k1 += PU__PHILOX_KEY1;
    }
    /* the four words of a counter value give four neighbours */
    pu__normal_pairs(count, c0, c1, z);
    pu__normal_pairs(count, c2, c3, z + 2);
}

/* The first word of a counter value: the block of four numbers, and the stream in the upper two bits. */
PU__FN PU_HD uint32_t pu__counter(uint64_t block, uint32_t stream)
{
    return ((uint32_t)block & 0x3FFFFFFFu) | stream << 30;
}

/* n normals out[i] of the indices first + i. A number depends on its index and the other arguments alone. */
PU_DEF void pu_normals(uint64_t seed, uint32_t datum, uint32_t sample, uint32_t step, uint32_t stream, uint64_t first,
                       pu_int n, pu_real *out)
{
    pu__draw_key key = {seed, datum, sample, step};
    uint32_t c0[PU__DRAW];
    pu_real z[4 * PU__DRAW];
    while (n > 0) {
        /* the first number may lie inside a counter value, behind `skip` others */
        pu_int skip = (pu_int)(first % 4), some = pu__min(n, 4 * PU__DRAW - skip);
        int count = (int)(skip + some + 3) / 4;
        for (int l = 0; l < count; l++)
            c0[l] = pu__counter(first / 4 + (uint64_t)l, stream);
        /* at an end not all four numbers of a counter value are wanted */
        pu__draw(&key, count, c0, z);
        pu__copy(out, z + skip, some);
        first += (uint64_t)some;
        out += some;
        n -= some;
    }
}

/* n normals out[i] of the indices list[i], which ascend. */
PU__FN void pu__normals_at(const pu__draw_key *key, uint32_t stream, pu_int n, const pu_int *list, pu_real *out)
{
    uint32_t c0[PU__DRAW];
    pu_real z[4 * PU__DRAW];
    pu_int end, block;
    for (pu_int from = 0; from < n; from = end) {
        int count = 0;
        block = -1;
        /* as many indices as PU__DRAW counter values serve */
        for (end = from; end < n; end++) {
            if (list[end] / 4 == block)
                continue;
            if (count == PU__DRAW)
                break;
            block = list[end] / 4;
            c0[count++] = pu__counter((uint64_t)block, stream);
        }
        pu__draw(key, count, c0, z);
        /* the same walk once more: count is the place of the counter value */
        block = -1;
        count = -1;
        for (pu_int i = from; i < end; i++) {
            count += list[i] / 4 != block;
            block = list[i] / 4;
            out[i] = z[4 * count + list[i] % 4];
        }
    }
}

enum { PU__STREAM_PRIOR = 0, PU__STREAM_NOISE = 1, PU__STREAM_TEST = 2 };

/* ------------------------------------------------------------------------------------------------
   >>kernel   inner loops that compilers turn into vector code, each equal to a plain loop
   ------------------------------------------------------------------------------------------------ */

/* ---- blocks of columns ---- */

/* Column j of a block. */
PU__FN PU_HD pu_real *pu__col(pu_block b, pu_int j) { return b.at + j * b.ld; }

/* The block that begins with this column. */
PU__FN pu_block pu__from(pu_block b, pu_int column)
{
    b.at = pu__col(b, column);
    return b;
}

/* A block at an array, its columns ld apart. It drops const: the caller knows whether it may be written. Rows of a
   row-major matrix are the columns of such a block. */
PU__FN pu_block pu__rows(const pu_real *at, pu_int ld)
{
    pu_block b = {(pu_real *)(uintptr_t)at, ld};
    return b;
}

/* *y = x, or *y += x if the result is to be added. */
PU__FN void pu__set(pu_real *y, pu_real x, int add) { *y = add ? *y + x : x; }

/* ---- sums in lanes ----
   A sum has PU__LANES independent partial sums: lane l adds up the entries l, l + 16, l + 32, ..  Compilers vectorise this
   without -ffast-math. After PU__CHUNK entries the lanes are added up, and the result is added to a double. */
#define PU__LANES 16
#define PU__CHUNK 512

/* The sum of all lanes, by halves: 16 to 8, to 4, to 2, to 1. */
PU__FN pu_real pu__fold(pu_real *lane)
{
    for (pu_int half = PU__LANES / 2; half > 0; half /= 2)
        for (pu_int l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

/* Sum over i of m_i x_i y_i, i < n <= PU__CHUNK; m may be NULL: ones. Fewer entries than lanes are added in double,
   one by one: the lanes would cost more than the sum. */
PU__FN pu_real pu__dot_chunk(pu_int n, const pu_real *m, const pu_real *x, const pu_real *y)
{
    pu_real lane[PU__LANES] = {0};
    pu_int i = 0;
    if (n < PU__LANES) {
        double s = 0;
        for (; i < n; i++)
            s += (m ? (double)m[i] * (double)x[i] : (double)x[i]) * (double)y[i];
        return (pu_real)s;
    }
    if (m)
        for (; i + PU__LANES <= n; i += PU__LANES)
            for (pu_int l = 0; l < PU__LANES; l++)
                lane[l] += m[i + l] * x[i + l] * y[i + l];
    else
        for (; i + PU__LANES <= n; i += PU__LANES)
            for (pu_int l = 0; l < PU__LANES; l++)
                lane[l] += x[i + l] * y[i + l];
    for (pu_int l = 0; i < n; i++, l++)
        lane[l] += (m ? m[i] * x[i] : x[i]) * y[i];
    return pu__fold(lane);
}

/* Sum over i of m_i x_i y_i, i < n; m may be NULL: ones. */
PU__FN double pu__dot(pu_int n, const pu_real *m, const pu_real *x, const pu_real *y)
{
    double s = 0;
    for (pu_int i = 0; i < n; i += PU__CHUNK)
        s += (double)pu__dot_chunk(pu__min(PU__CHUNK, n - i), m ? m + i : NULL, x + i, y + i);
    return s;
}

/* r -= a q, PU__LANES <= n <= PU__CHUNK, and in the same pass the new r'r with the bits of pu__dot_chunk. */
PU__FN pu_real pu__descend(pu_int n, pu_real a, const pu_real *PU__RESTRICT q, pu_real *PU__RESTRICT r)
{
    pu_real lane[PU__LANES] = {0};
    pu_int i;
    for (i = 0; i + PU__LANES <= n; i += PU__LANES)
        for (pu_int l = 0; l < PU__LANES; l++) {
            pu_real next = r[i + l] - a * q[i + l];
            r[i + l] = next;
            lane[l] += next * next;
        }
    for (pu_int l = 0; i < n; i++, l++) {
        r[i] -= a * q[i];
        lane[l] += r[i] * r[i];
    }
    return pu__fold(lane);
}

/* ---- combinations of vectors ---- */

/* y += c0 x0 + c1 x1 + c2 x2 + c3 x3, added in this order. Each sum is stored: on machines that compute in a wider type
   it is rounded there, as where the terms are added one by one. */
PU__FN void pu__axpy4(pu_int n, const pu_real *c, const pu_real *x0, const pu_real *x1, const pu_real *x2,
                      const pu_real *x3, pu_real *y)
{
    pu_real c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3];
    for (pu_int i = 0; i < n; i++) {
        pu_real sum = y[i] + c0 * x0[i];
        sum += c1 * x1[i];
        sum += c2 * x2[i];
        sum += c3 * x3[i];
        y[i] = sum;
    }
}

/* ---- vectors ---- Sums that must stay in registers, and loops whose arrays may overlap, are written with vectors:
   compilers vectorise plain loops for these at some flags and sizes only. A vector is as wide as the machine allows;
   where the compiler does not know vectors it is one number (PU__WIDTH 1), and the same code is a plain loop. Short
   vectors are for what comes in eights. */
/* Machines that compute numbers in a wider type (x87, s390x floats) mix it with no vector. 16: only half floats. */
#define PU__EXCESS (FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16)
#if (defined(__GNUC__) || defined(__clang__)) && !defined(__CUDACC__) && !PU__EXCESS
#define PU__VECTORS 1
#ifdef __AVX__
#define PU__SHORT (32 / (int)sizeof(pu_real))
#else
#define PU__SHORT (16 / (int)sizeof(pu_real))
#endif
#ifdef __AVX512F__
#define PU__WIDTH (64 / (int)sizeof(pu_real))
#else
#define PU__WIDTH PU__SHORT
#endif
typedef pu_real pu__vector
    __attribute__((vector_size(PU__WIDTH * sizeof(pu_real)), aligned(sizeof(pu_real)), may_alias));
typedef pu_real pu__short
    __attribute__((vector_size(PU__SHORT * sizeof(pu_real)), aligned(sizeof(pu_real)), may_alias));
#else
#define PU__VECTORS 0
#define PU__WIDTH   1
#define PU__SHORT   1
typedef pu_real pu__vector, pu__short;
#endif
#if PU__VECTORS && (defined(__clang__) || __GNUC__ >= 12)
#define PU__SHUFFLE __builtin_shufflevector
#endif
/* Before a loop of a few known turns over an array of vectors: the loop is unrolled, and the vectors stay in
   registers. Other compilers than gcc do so by themselves. */
#if PU__VECTORS && !defined(__clang__)
#define PU__UNROLL _Pragma("GCC unroll 16")
#else
#define PU__UNROLL
#endif
/* PU__INLINE marks functions that must become part of the loop around them, because it is short or gives them
   constants. */
#if PU__VECTORS
#define PU__INLINE static inline PU_UNUSED __attribute__((always_inline))
#else
#define PU__INLINE PU__FN
#endif

/* PU__WIDTH numbers from x on, seen as a vector. */
PU__FN pu__vector *pu__v(pu_real *x) { return (pu__vector *)x; }
/* PU__SHORT of them. */
PU__FN pu__short *pu__s(pu_real *x) { return (pu__short *)x; }
/* The same, to be read. */
PU__FN const pu__short *pu__cs(const pu_real *x) { return (const pu__short *)x; }

/* The vector from x on. */
PU__FN pu__vector pu__vload(const pu_real *x) { return *(const pu__vector *)x; }

/* The same, kept in a register. gcc would read it again for each product that it is in, which takes longer than the
   products. */
PU__FN pu__vector pu__vload_kept(const pu_real *x)
{
    pu__vector v = pu__vload(x);
#if PU__VECTORS && defined(__AVX__)
    __asm__("" : "+v"(v));
#endif
    return v;
}

/* Writes a vector. */
PU__FN void pu__vstore(pu_real *x, pu__vector v) { *pu__v(x) = v; }

/* A vector of zeros. */
PU__FN pu__vector pu__vzero(void)
{
    pu__vector v;
    memset(&v, 0, sizeof v);
    return v;
}

/* y += a x */
PU__FN void pu__axpy(pu_int n, pu_real a, const pu_real *x, pu_real *y)
{
    for (pu_int i = 0; i + PU__WIDTH <= n; i += PU__WIDTH)
        *pu__v(y + i) += a * pu__vload(x + i);
    for (pu_int i = n / PU__WIDTH * PU__WIDTH; i < n; i++)
        y[i] += a * x[i];
}

/* y += c a o x; a may be NULL: ones */
PU__FN void pu__add_product(pu_int n, pu_real c, const pu_real *a, const pu_real *x, pu_real *PU__RESTRICT y)
{
    if (!a) {
        pu__axpy(n, c, x, y);
        return;
    }
    for (pu_int i = 0; i < n; i++)
        y[i] += c * (a[i] * x[i]);
}

/* Zeros, then ones for the last n entries, n < W. What a row has after its whole vectors is read together with the
   entries before it, and those count for nothing. */
PU__FN pu__vector pu__last_ones(pu_int n)
{
    static const pu_real step[32] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}; /* then zeros */
    return PU_R(1) - pu__vload(step + 16 - PU__WIDTH + n);
}

/* Vectors of 16, 8 or 4 numbers are added up by halves, as pu__fold does: first to four numbers, */
#if PU__VECTORS && (defined(PU_FLOAT) || defined(__AVX__))
#define PU__FOURS 1
typedef pu_real pu__four __attribute__((vector_size(4 * sizeof(pu_real)), aligned(sizeof(pu_real)), may_alias));
/* A vector folded to four numbers. */
PU__FN pu__four pu__fours(const pu__vector *v)
{
    const pu__four *q = (const pu__four *)v;
    if (PU__WIDTH == 16)
        return (q[0] + q[2]) + (q[1] + q[3]);
    if (PU__WIDTH == 8)
        return q[0] + q[1];
    return q[0];
}
#endif

/* then to one. */
PU__FN pu_real pu__sum(pu__vector v)
{
    pu_real s[PU__WIDTH < 4 ? 4 : PU__WIDTH];
    pu__vstore(s, v);
#ifdef PU__FOURS
    *(pu__four *)s = pu__fours(&v);
    return (s[0] + s[2]) + (s[1] + s[3]);
#else
    return PU__WIDTH == 2 ? s[0] + s[1] : s[0];
#endif
}

/* out[i] += the sum of s[i], i < 12. The plain loop is the last line. Where the compiler can permute vectors, four
   sums share the last two steps: [a0+a2 a1+a3 b0+b2 b1+b3] and the same of c and d, then [a b c d]. With the plain
   loop a step of factor analysis takes 3 % longer (iterative engine, D = 1,000, AVX2 and AVX-512). */
PU__INLINE void pu__sums12(const pu__vector *s, double *out)
{
#if defined(PU__FOURS) && defined(PU__SHUFFLE)
    for (pu_int i = 0; i < 12; i += 4) {
        pu__four a = pu__fours(s + i), b = pu__fours(s + i + 1);
        pu__four c = pu__fours(s + i + 2), d = pu__fours(s + i + 3);
        pu__four ab = PU__SHUFFLE(a, b, 0, 1, 4, 5) + PU__SHUFFLE(a, b, 2, 3, 6, 7);
        pu__four cd = PU__SHUFFLE(c, d, 0, 1, 4, 5) + PU__SHUFFLE(c, d, 2, 3, 6, 7);
        pu_real sums[4];
        *(pu__four *)sums = PU__SHUFFLE(ab, cd, 0, 2, 4, 6) + PU__SHUFFLE(ab, cd, 1, 3, 5, 7);
        for (pu_int l = 0; l < 4; l++)
            out[i + l] += (double)sums[l];
    }
#else
    for (pu_int i = 0; i < 12; i++)
        out[i] += (double)pu__sum(s[i]);
#endif
}

/* y = c_0 (m o x_0) + sum_t c_t x_t, 0 < t < count; m may be NULL: ones. Any of them may be y. The second loop is the
   plain one. Inlined with a literal count, so that no loop over t remains; c and x may be part of y for all that
   compilers know. */
PU__INLINE void pu__mix_some(pu_int n, int count, const pu_real *m, const pu_real *c, const pu_real *const *x,
                             pu_real *y)
{
    const pu_real *from[4];
    pu_real by[4];
    pu_int i = 0;
    PU__UNROLL
    for (int t = 0; t < count; t++) {
        by[t] = c[t];
        from[t] = x[t];
    }
    for (; i + PU__WIDTH <= n; i += PU__WIDTH) {
        pu__vector sum = pu__vload(from[0] + i);
        if (m)
            sum *= pu__vload(m + i);
        sum *= by[0];
        PU__UNROLL
        for (int t = 1; t < count; t++)
            sum += by[t] * pu__vload(from[t] + i);
        pu__vstore(y + i, sum);
    }
    for (; i < n; i++) {
        pu_real sum = by[0] * (m ? m[i] * from[0][i] : from[0][i]);
        PU__UNROLL
        for (int t = 1; t < count; t++)
            sum += by[t] * from[t][i];
        y[i] = sum;
    }
}

/* The same for any count from 1 to 4, or up to 2 with m: what the solver needs. */
PU__FN void pu__mix(pu_int n, int count, const pu_real *m, const pu_real *c, const pu_real *const *x, pu_real *y)
{
    switch (m ? -count : count) {
    case -2: pu__mix_some(n, 2, m, c, x, y); break;
    case -1: pu__mix_some(n, 1, m, c, x, y); break;
    case 1: pu__mix_some(n, 1, NULL, c, x, y); break;
    case 2: pu__mix_some(n, 2, NULL, c, x, y); break;
    case 3: pu__mix_some(n, 3, NULL, c, x, y); break;
    case 4: pu__mix_some(n, 4, NULL, c, x, y); break;
    }
}

/* ---- reverse steps of the solver ---- */

/* r_i of column j, at most PU__CHUNK entries from `at` on: where it is kept, or d_i itself, or M (d_i - beta d_{i-1})
   in the buffer. */
PU__FN const pu_real *pu__residual_before(const pu_unwinding *step, pu_int j, pu_int at, pu_int n,
                                          pu_real *PU__RESTRICT buffer)
{
    const pu_real *d = pu__col(step->d, j) + at, *b, *m = step->minv ? step->minv + at : NULL;
    pu_real be = step->be_before ? step->be_before[j] : 0;
    if (step->r_i.at)
        return pu__col(step->r_i, j) + at;
    if (be == 0 && !m)
        return d;
    b = be == 0 ? d : pu__col(step->before, j) + at;
    for (pu_int i = 0; i < n; i++)
        buffer[i] = d[i] - be * b[i];
    if (m)
        for (pu_int i = 0; i < n; i++)
            buffer[i] *= m[i];
    return buffer;
}

/* A reverse step, some entries of one column; see pu_unwinding. c: alpha, beta, pibar, 2 rhobar, weight. ri: the
   residual before the step. m and mbar may be NULL. lint: eleven parameters, since compilers believe PU__RESTRICT of
   parameters only */
PU__FN void pu__unwind(pu_int n, const pu_real *c, const pu_real *m, const pu_real *PU__RESTRICT d,
                       const pu_real *PU__RESTRICT ri, const pu_real *PU__RESTRICT xbar, pu_real *PU__RESTRICT r,
                       pu_real *PU__RESTRICT rbar, pu_real *PU__RESTRICT dbar, pu_real *PU__RESTRICT qbar,
                       pu_real *PU__RESTRICT mbar)
{
    pu_real a = c[0], be = c[1], pib = c[2], two = c[3], by = pib / a, rhobar = PU_R(0.5) * two, weight = c[4];
    if (mbar)
        for (pu_int i = 0; i < n; i++)
            mbar[i] += weight * (r[i] * (dbar[i] + rhobar * r[i]));
    if (m)
        for (pu_int i = 0; i < n; i++)
            rbar[i] += m[i] * (dbar[i] + two * r[i]);
    for (pu_int i = 0; i < n; i++) {
        pu_real now = m ? rbar[i] : rbar[i] + (dbar[i] + two * r[i]);
        rbar[i] = now;
        qbar[i] = pib * d[i] - a * now;
        dbar[i] = be * dbar[i] + a * xbar[i] + by * (ri[i] - r[i]);
        r[i] = ri[i];
    }
}

/* ---- rows of a matrix times columns ----
   A few rows, at most PU__ROWS, run along their own vectors, so that a block of them is read from far away once. */
#define PU__ROWS 24
#define PU__SUM  64 /* products that one lane of a vector adds up in pu_real */
#define PU__REACH                                                                                                      \
    (PU__SUM * PU__WIDTH) /* entries of a row, after which the vector is added up, and the result to a double */

/* Four rows of out, 2 W columns: out_r[at + c] += sum_i b[4 i + r] v_i[d + c], r < 4, c < 2 W, in the order of i. As a plain loop:
     for (r, c, i) out[r][at + c] += b[4 * i + r] * v[i][d + c]; */
PU__FN void pu__tile(pu_int n, const pu_real *b, const pu_real *const *v, pu_int d, pu_real *const *out, pu_int at)
{
    pu__vector sum[8];
    PU__UNROLL
    for (int l = 0; l < 8; l++)
        sum[l] = pu__vload(out[l / 2] + at + l % 2 * PU__WIDTH);
    for (pu_int i = 0; i < n; i++) {
        const pu__vector x[2] = {pu__vload(v[i] + d), pu__vload(v[i] + d + PU__WIDTH)};
        PU__UNROLL
        for (int l = 0; l < 8; l++)
            sum[l] += b[4 * i + l / 2] * x[l % 2];
    }
    PU__UNROLL
    for (int l = 0; l < 8; l++)
        pu__vstore(out[l / 2] + at + l % 2 * PU__WIDTH, sum[l]);
}

/* out_r[d] += sum_i b[4 i + r] v_i[d], r < 4, d < wide, in the order of i. out_r may repeat if b does. The columns
   that a whole tile does not reach are computed first, in a copy, by a tile that overlaps its neighbour. */
PU__FN void pu__tiles(pu_int n, const pu_real *b, const pu_real *const *v, pu_int wide, pu_real *const *out)
{
    pu_int T = 2 * PU__WIDTH, rest = wide % T;
    pu_real copy[4 * 2 * PU__WIDTH], *last[4];
    pu_int have = pu__min(wide, T);
    for (pu_int r = 0; r < 4; r++) {
        last[r] = copy + r * T;
        pu__copy(last[r] + T - have, out[r] + wide - have, have);
        for (pu_int i = 0; i < n && wide < T; i++) /* the plain loop */
            pu__axpy(rest, b[4 * i + r], v[i], last[r] + T - rest);
    }
    if (wide >= T && rest)
        pu__tile(n, b, v, wide - T, last, 0);
    for (pu_int d = 0; d + T <= wide; d += T)
        pu__tile(n, b, v, d, out, d);
    for (pu_int r = 0; r < 4; r++)
        pu__copy(out[r] + wide - rest, last[r] + T - rest, rest);
}

/* out[4 r + c] += a_r'x_c over n entries, W <= n <= PU__REACH, r < rows, c < cols. Lane l of a vector adds up the entries
   l, l + W, .., whatever rows and cols are; both are literal, and all sums stay in registers. As a plain loop:
     for (r, c, i) out[4 * r + c] += a[r][i] * x[c][i]; */
PU__INLINE void pu__dot_tile(pu_int n, int rows, int cols, const pu_real *const *a, const pu_real *const *x,
                             double *out)
{
    pu_int W = PU__WIDTH;
    pu__vector sum[12], row[6];
    PU__UNROLL
    for (int l = 0; l < 12; l++)
        sum[l] = pu__vzero();
    if (n % W) { /* the end of the row first */
        pu__vector ones = pu__last_ones(n % W);
        PU__UNROLL
        for (int l = 0; l < rows * cols; l++)
            sum[l] = pu__vload(a[l / cols] + n - W) * ones * pu__vload(x[l % cols] + n - W);
    }
    for (pu_int i = 0; i + W <= n; i += W) {
        PU__UNROLL
        for (int r = 0; r < rows; r++)
            row[r] = pu__vload_kept(a[r] + i);
        PU__UNROLL
        for (int c = 0; c < cols; c++) {
            pu__vector y = pu__vload_kept(x[c] + i);
            PU__UNROLL
            for (int r = 0; r < rows; r++)
                sum[cols * r + c] += row[r] * y;
        }
    }
    if (rows * cols == 12)
        pu__sums12(sum, out);
    else
        for (int r = 0; r < rows; r++)
            out[4 * r] += (double)pu__sum(sum[r]);
}

/* The same for 3 x 4. */
PU__FN PU__NOINLINE void pu__dots12(pu_int n, const pu_real *const *a, const pu_real *const *x, double *out)
{
    pu__dot_tile(n, 3, 4, a, x, out);
}

/* and 6 x 1. */
PU__FN PU__NOINLINE void pu__dots6(pu_int n, const pu_real *const *a, const pu_real *const *x, double *out)
{
    pu__dot_tile(n, 6, 1, a, x, out);
}

/* Y = A X, or Y += A X if add, for n <= PU__ROWS rows v of A, D long. Twelve columns at a time: a stretch of them
   stays in the first-level cache. A missing row or column repeats the last one. Which rows and columns share a tile
   does not show in the sums. Rows shorter than a vector are done by the plain loop. */
PU__FN void pu__rows_apply(pu_int n, const pu_real *const *v, pu_int D, pu_int k, pu_block X, pu_block Y, int add)
{
    enum { WIDE = 12, FOUR = 4 * PU__ROWS }; /* columns; sums of four of them */
    double s[WIDE / 4 * FOUR];
    if (D < PU__WIDTH) {
        for (pu_int j = 0; j < k; j++)
            for (pu_int m = 0; m < n; m++) {
                pu_real sum = 0;
                for (pu_int d = 0; d < D; d++)
                    sum += v[m][d] * pu__col(X, j)[d];
                pu__set(pu__col(Y, j) + m, sum, add);
            }
        return;
    }
    for (pu_int first = 0; first < k; first += WIDE) {
        pu_int count = pu__min(WIDE, k - first);
        memset(s, 0, (size_t)((count + 3) / 4 * FOUR) * sizeof *s);
        for (pu_int d = 0; d < D; d += PU__REACH)
            for (pu_int m = 0; m < n; m += 6) {
                pu_int len = pu__min(PU__REACH, D - d);
                const pu_real *a[6], *x[4];
                for (pu_int r = 0; r < 6; r++)
                    a[r] = v[pu__min(m + r, n - 1)] + d;
                for (pu_int j = 0; j < count; j += 4) {
                    double *out = s + j / 4 * FOUR + 4 * m;
                    for (pu_int c = 0; c < 4; c++)
                        x[c] = pu__col(X, first + pu__min(j + c, count - 1)) + d;
                    if (count - j > 2)
                        for (pu_int r = 0; r < 6 && m + r < n; r += 3)
                            pu__dots12(len, a + r, x, out + 4 * r);
                    else
                        for (pu_int c = 0; c < count - j; c++)
                            pu__dots6(len, a, x + c, out + c);
                }
            }
        for (pu_int j = 0; j < count; j++) {
            const double *out = s + j / 4 * FOUR + j % 4;
            for (pu_int m = 0; m < n; m++)
                pu__set(pu__col(Y, first + j) + m, (pu_real)out[4 * m], add);
        }
    }
}

/* Y += A'(w o X) for n <= PU__ROWS rows v of A, D long; w may be NULL. A stretch of each row stays in cache for 12 columns. One
   or two columns left over gain nothing from tiles. As a plain loop, added in the order of i:
     for (j, d, i) Y[j][d] += w[i] * X[j][i] * v[i][d]; */
PU__FN void pu__rows_apply_t(pu_int n, const pu_real *const *v, pu_int D, const pu_real *w, pu_int k, pu_block X,
                             pu_block Y)
{
    enum { STRETCH = 256, WIDE = 12 };
    const pu_real *a[PU__ROWS];
    pu_real coefficients[WIDE * PU__ROWS], x[PU__ROWS], *y[4];
    pu_int wide, i;
    int zero[WIDE / 4];
    for (pu_int first = 0; first < k; first += WIDE) {
        pu_int count = pu__min(WIDE, k - first);
        for (pu_int j = 0; j < count; j += 4) { /* w o X for four columns; a missing one repeats the last one */
            pu_real *b = coefficients + j * PU__ROWS;
            zero[j / 4] = 1;
            for (pu_int r = 0; r < 4; r++) {
                const pu_real *column = pu__col(X, first + pu__min(j + r, count - 1));
                for (i = 0; i < n; i++) {
                    b[4 * i + r] = w ? w[i] * column[i] : column[i];
                    zero[j / 4] &= column[i] == 0;
                }
            }
        }
        for (pu_int d = 0; d < D; d += wide) {
            wide = D - d < STRETCH + 2 * PU__WIDTH ? D - d : (pu_int)STRETCH; /* no short end */
            for (i = 0; i < n; i++)
                a[i] = v[i] + d;
            for (pu_int j = 0; j < count; j += 4) {
                const pu_real *b = coefficients + j * PU__ROWS;
                if (zero[j / 4])
                    continue; /* unit vectors */
                for (pu_int r = 0; r < 4; r++)
                    y[r] = pu__col(Y, first + pu__min(j + r, count - 1)) + d;
                if (count - j > 2) {
                    pu__tiles(n, b, a, wide, y);
                    continue;
                }
                for (pu_int r = 0; r < count - j; r++) {
                    for (i = 0; i < n; i++)
                        x[i] = b[4 * i + r];
                    for (i = 0; i + 4 <= n; i += 4)
                        pu__axpy4(wide, x + i, a[i], a[i + 1], a[i + 2], a[i + 3], y[r]);
                    for (; i < n; i++)
                        pu__axpy(wide, x[i], a[i], y[r]);
                }
            }
        }
    }
}

#define PU__TALL  6 /* rows and columns of a tile: its 12 vectors of sums, two of B and one of A fill the */
#define PU__BROAD (2 * PU__WIDTH) /* registers */
#define PU__DEEP  128             /* terms that are summed in registers before they are added to C */
#define PU__SPAN  128             /* columns of B that are packed at a time, where there is memory for them */
#define PU__PIECE                                                                                                      \
    (4096 / (PU__BROAD * (int)sizeof(pu_real))) /* terms of a strip that is packed on the stack, in each piece */
#define PU__FEW  4                              /* sides below this are better solved one by one */
#define PU__LEAF 8                              /* triangles up to this size are done entry by entry */

/* A matrix to be read; entry (i, j) is at[i row + j col]. */
typedef struct {
    const pu_real *at;
    pu_int row, col;
    /* As the second factor of a product: row p is that of number list[p] times weight[list[p]], and so is column p of
       the first factor, without the weight. NULL: all rows; ones. */
    const pu_int *list;
    const pu_real *weight;
} pu__matrix;

/* That without a list. */
PU__FN pu__matrix pu__mat(const pu_real *at, pu_int row, pu_int col)
{
    pu__matrix m = {at, row, col, NULL, NULL};
    return m;
}

/* A product of matrices, C += scale A B, and what is packed of B at the moment. A strip of B is as broad as a tile. It
   lies in one piece or in several of the same length. */
typedef struct {
    pu_int rows, cols; /* of C */
    pu__matrix A, B;
    pu_block C; /* by rows: row i is column i of the block */
    pu_real scale;
    pu_int from, to;                         /* only entries (i, j) with i + from <= j <= i + to */
    pu_int first, deep;                      /* the terms at work */
    pu_int piece;                            /* terms in a piece of a strip */
    pu_int offset[PU__DEEP];                 /* of the columns of A */
    const pu_real *at[PU__SPAN / PU__BROAD]; /* the strips, or the pieces of the only one */
} pu__matmul;

/* C (6 x 2 W) += scale sum_p a[r A.row + offset[p]] b[2 W p + c], b the strip; a row of a from `rows` on repeats the
   last one */
PU__FN void pu__core(const pu__matmul *g, const pu_real *const *strip, pu_int rows, const pu_real *a, pu_real *C,
                     pu_int ld)
{
    pu_int W = PU__WIDTH;
    const pu_real *row[PU__TALL];
    pu__vector s[PU__TALL], t[PU__TALL];
    PU__UNROLL
    for (pu_int r = 0; r < PU__TALL; r++) {
        row[r] = a + pu__min(r, rows - 1) * g->A.row;
        s[r] = t[r] = pu__vzero();
    }
    for (pu_int first = 0; first < g->deep; first += g->piece) {
        pu_int end = pu__min(first + g->piece, g->deep);
        const pu_real *b = *strip++;
        for (pu_int p = first; p < end; p++, b += 2 * W) {
            pu_int i = g->offset[p];
            pu__vector u = pu__vload(b), v = pu__vload(b + W);
            PU__UNROLL
            for (pu_int r = 0; r < PU__TALL; r++) {
                s[r] += row[r][i] * u;
                t[r] += row[r][i] * v;
            }
        }
    }
    PU__UNROLL
    for (pu_int r = 0; r < PU__TALL; r++, C += ld) {
        *pu__v(C) += g->scale * s[r];
        *pu__v(C + W) += g->scale * t[r];
    }
}

/* Terms g->first + done on, deep of them, and columns `column` on, cols of them, of B, packed into strips. The last
   strip is filled up with zeros. */
PU__FN void pu__pack(const pu__matmul *g, pu_int done, pu_int deep, pu_int column, pu_int cols,
                     pu_real *PU__RESTRICT to)
{
    pu_int T = PU__BROAD, first = g->first + done;
    const pu_int *list = g->B.list ? g->B.list + first : NULL;
    const pu_real *w = g->B.weight;
    pu__matrix b = g->B;
    b.at += column * b.col;
    if (!list)
        b.at += first * b.row;
    for (pu_int j = 0; j < cols; j += T, b.at += T * b.col, to += T * deep) {
        pu_int wide = pu__min(T, cols - j);
        if (wide < T)
            memset(to, 0, (size_t)(T * deep) * sizeof *to);
        for (pu_int p = 0; p < deep; p++) {
            const pu_real *row = b.at + (list ? list[p] : p) * b.row;
            pu_real *strip = to + p * T;
            if (b.col == 1 && wide == T)
                memcpy(strip, row, PU__BROAD * sizeof *to);
            else
                for (pu_int c = 0; c < wide; c++)
                    strip[c] = row[c * b.col];
            for (pu_int c = 0; c < T && w; c++)
                strip[c] *= w[list[p]];
        }
    }
}

/* ---- autoregression ---- */

#define PU__BLOCK                                                                                                      \
    32 /* outputs that are computed before the first of them is stored: in registers, whatever aliases what */

/* y_i = sum_t c_t x_{i+t} + w_i x_{i + taps/2}, or y_i += that if add; i < n, w may be NULL. A block of outputs stays
   in registers while the taps run. The plain loop is at the end. */
PU__FN void pu__ar_filter(pu_int n, pu_int taps, const pu_real *c, const pu_real *x, const pu_real *w, pu_real *y,
                          int add)
{
    const pu_real *centre = x + taps / 2;
    pu_real s[PU__BLOCK];
    pu_int i = 0, t, l;
    for (; i + PU__BLOCK <= n; i += PU__BLOCK) {
        const pu_real *at = x + i;
        if (w)
            for (l = 0; l < PU__BLOCK; l++)
                s[l] = w[i + l] * centre[i + l] + c[0] * at[l];
        else
            for (l = 0; l < PU__BLOCK; l++)
                s[l] = c[0] * at[l];
        for (t = 1; t < taps; t++)
            for (l = 0; l < PU__BLOCK; l++)
                s[l] += c[t] * at[t + l];
        for (l = 0; l < PU__BLOCK; l++)
            pu__set(y + i + l, s[l], add);
    }
    for (; i < n; i++) {
        pu_real sum = w ? w[i] * centre[i] + c[0] * x[i] : c[0] * x[i];
        for (t = 1; t < taps; t++)
            sum += c[t] * x[i + t];
        pu__set(y + i, sum, add);
    }
}

/* y_u += sum_l c_l (p_{u+d+l} + p_{u-d-l}) and s_l = sum_u x_u (p_{u+d+l} + p_{u-d-l}), l = 0 .. 2, u < n <=
   PU__CHUNK: both read the same entries, and one load of x serves three lags. The second loop is the plain one. Named
   arrays are what compilers keep in vector registers; with an array of arrays this is far slower, and with a y that
   may be NULL by 15 to 25 % at -O2. */
PU__FN void pu__ar_both3(pu_int n, const pu_real *x, const pu_real *p, pu_int d, const pu_real *c,
                         pu_real *PU__RESTRICT y, double *s)
{
    const pu_real *up = p + d, *down = p - d, c0 = c[0], c1 = c[1], c2 = c[2];
    pu_real s0[PU__LANES] = {0}, s1[PU__LANES] = {0}, s2[PU__LANES] = {0};
    pu_int i = 0, l;
    for (; i + PU__LANES <= n; i += PU__LANES)
        for (l = 0; l < PU__LANES; l++) {
            pu_real v0 = up[i + l] + down[i + l];
            pu_real v1 = up[i + l + 1] + down[i + l - 1];
            pu_real v2 = up[i + l + 2] + down[i + l - 2];
            y[i + l] += c0 * v0 + c1 * v1 + c2 * v2;
            s0[l] += x[i + l] * v0;
            s1[l] += x[i + l] * v1;
            s2[l] += x[i + l] * v2;
        }
    for (l = 0; i < n; i++, l++) {
        pu_real v0 = up[i] + down[i];
        pu_real v1 = up[i + 1] + down[i - 1];
        pu_real v2 = up[i + 2] + down[i - 2];
        y[i] += c0 * v0 + c1 * v1 + c2 * v2;
        s0[l] += x[i] * v0;
        s1[l] += x[i] * v1;
        s2[l] += x[i] * v2;
    }
    s[0] = (double)pu__fold(s0);
    s[1] = (double)pu__fold(s1);
    s[2] = (double)pu__fold(s2);
}

/* ---- autoregression of order 5, the commonest one: a vector of outputs at a time ---- */

/* The vector p_{u+l}, where `at` points to p_u, `now` is the vector there, and `next` the one after it. With 64-byte
   vectors all loads but those of p_u lie on two cache lines, so that half of them is taken out of two registers:
   without it a gradient of AR(5) takes 4 to 7 % longer. Narrower vectors gain nothing (0.97 to 1.02). */
#if defined(PU__SHUFFLE) && defined(PU_FLOAT) && defined(__AVX512F__)
#define PU__UP(at, now, next, l)                                                                                       \
    PU__SHUFFLE(now, next, l, l + 1, l + 2, l + 3, l + 4, l + 5, l + 6, l + 7, l + 8, l + 9, l + 10, l + 11, l + 12,   \
                l + 13, l + 14, l + 15)
#else
#define PU__UP(at, now, next, l) pu__vload((at) + (l))
#endif

/* both_l = p_{u+l} + p_{u-l}, l = 1 .. 5, where `at` points to p_u, and now is the vector there. Returns the one after
   it. */
PU__INLINE pu__vector pu__ar_lags(const pu_real *at, PU_UNUSED pu__vector now, pu__vector *both)
{
    pu__vector next = pu__vload(at + PU__WIDTH);
    both[1] = PU__UP(at, now, next, 1) + pu__vload(at - 1);
    both[2] = PU__UP(at, now, next, 2) + pu__vload(at - 2);
    both[3] = PU__UP(at, now, next, 3) + pu__vload(at - 3);
    both[4] = PU__UP(at, now, next, 4) + pu__vload(at - 4);
    both[5] = PU__UP(at, now, next, 5) + pu__vload(at - 5);
    return next;
}

/* y_u = w_u p_u + c_0 p_u + sum_{l = 1 .. 5} c_l (p_{u+l} + p_{u-l}), u < n, a multiple of W. Returns sum_u p_u y_u. As a plain loop:
     for (u) { s = w[u] * p[u] + c[0] * p[u]; for (l = 1; l <= 5; l++) s += c[l] * (p[u + l] + p[u - l]); y[u] = s; } */
PU__FN double pu__ar_filter5(pu_int n, const pu_real *c, const pu_real *p, const pu_real *w, pu_real *PU__RESTRICT y)
{
    pu__vector now = pu__vload(p), next, sum = pu__vzero(), both[6];
    for (pu_int i = 0; i < n; i += PU__WIDTH) {
        pu__vector s = pu__vload(w + i) * now + c[0] * now;
        next = pu__ar_lags(p + i, now, both);
        PU__UNROLL
        for (pu_int l = 1; l <= 5; l++)
            s += c[l] * both[l];
        pu__vstore(y + i, s);
        sum += now * s;
        now = next;
    }
    return (double)pu__sum(sum);
}

#define PU__AR_CHUNK                                                                                                   \
    (PU__WIDTH > 8 ? 512 : 256) /* entries per pass of the lag sums: a vector's worth of partial sums each */

/* For n <= PU__AR_CHUNK entries, a multiple of W, with one load of everything:
     y_u += by f_u where y is not NULL, f_u being what pu__ar_filter5 computes;
     s_l += sum_u x_u (p_{u+l} + p_{u-l}), l = 0 .. 5.
   Returns sum_u x_u w_u p_u. As a plain loop:
     for (u) { y[u] += by * f[u]; for (l = 0; l <= 5; l++) s[l] += x[u] * (p[u + l] + p[u - l]); result += x[u] * (w[u] * p[u]); } */
PU__FN double pu__ar_both5(pu_int n, const pu_real *x, const pu_real *p, const pu_real *c, pu_real by, const pu_real *w,
                           pu_real *PU__RESTRICT y, double *s)
{
    pu__vector now = pu__vload(p), next, with_w = pu__vzero(), sums[6], both[6];
    PU__UNROLL
    for (pu_int l = 0; l <= 5; l++)
        sums[l] = with_w;
    for (pu_int i = 0; i < n; i += PU__WIDTH) {
        pu__vector xs = pu__vload(x + i), shifted = pu__vload(w + i) * now;
        pu__vector sum = shifted + c[0] * now;
        next = pu__ar_lags(p + i, now, both);
        with_w += xs * shifted;
        sums[0] += xs * now;
        PU__UNROLL
        for (pu_int l = 1; l <= 5; l++) {
            sum += c[l] * both[l];
            sums[l] += xs * both[l];
        }
        if (y)
            *pu__v(y + i) += by * sum;
        now = next;
    }
    s[0] += 2 * (double)pu__sum(sums[0]);
    for (pu_int l = 1; l <= 5; l++)
        s[l] += (double)pu__sum(sums[l]);
    return (double)pu__sum(with_w);
}

/* ------------------------------------------------------------------------------------------------
   >>vector   the CPU backend: plain loops over columns

   These are the functions of pu_backend; x_j is column j of a block. A column whose coefficient is zero is not
   read: a frozen column may hold anything. `user` is not used.

   Long columns are worked on in chunks of PU__CHUNK entries, which stay in the first-level cache while several
   loops run over them. Sums run in PU__LANES lanes within a chunk and in double from chunk to chunk. Their order
   depends on n alone, not on the number of columns or threads.
   ------------------------------------------------------------------------------------------------ */

/* How the parameter lists of these functions begin: k columns of n entries. */
#define PU__VECTOR_ARGS PU_UNUSED void *user, pu_int n, PU_UNUSED pu_int k

/* One term scale c_j (m o x_j) of a linear combination. c (k) and m (n) may be NULL: ones. */
PU__FN pu_term pu__term_full(pu_block x, pu_real scale, const pu_real *c, const pu_real *m)
{
    pu_term term = {x, c, scale, m};
    return term;
}

/* The term x_j. */
PU__FN pu_term pu__term(pu_block x) { return pu__term_full(x, 1, NULL, NULL); }
/* The term scale x_j. */
PU__FN pu_term pu__term_scaled(pu_block x, pu_real scale) { return pu__term_full(x, scale, NULL, NULL); }
/* The term c_j x_j. */
PU__FN pu_term pu__term_c(pu_block x, const pu_real *c) { return pu__term_full(x, 1, c, NULL); }
/* The term m o x_j. */
PU__FN pu_term pu__term_m(pu_block x, const pu_real *m) { return pu__term_full(x, 1, NULL, m); }

/* s_j = x_j' diag(m) y_j, j < k. m (n) may be NULL: ones. */
PU__FN void pu__cpu_dot(PU__VECTOR_ARGS, const pu_real *m, pu_block x, pu_block y, pu_real *s)
{
    for (pu_int j = 0; j < k; j++)
        s[j] = (pu_real)pu__dot(n, m, pu__col(x, j), pu__col(y, j));
}

/* y (n) = sum_t c[t] (m[t] o x[t]), t < count, chunk by chunk in a buffer that stays in the first-level cache.
   m[t] may be NULL: ones. Any x[t] may be y. */
PU__FN void pu__add_terms(pu_int n, int count, const pu_real *c, const pu_real *const *m, const pu_real *const *x,
                          pu_real *y)
{
    pu_real buffer[PU__CHUNK];
    for (pu_int at = 0; at < n; at += PU__CHUNK) {
        pu_int len = pu__min(PU__CHUNK, n - at);
        pu__zeros(buffer, len);
        for (int t = 0; t < count; t++)
            pu__add_product(len, c[t], m[t] ? m[t] + at : NULL, x[t] + at, buffer);
        pu__copy(y + at, buffer, len);
    }
}

/* y_j = sum over the terms of scale c_j (m o x_j). The usual forms have loops of their own. Any term may be y. */
PU__FN void pu__cpu_combine(PU__VECTOR_ARGS, pu_block y, int count, const pu_term *terms)
{
    for (pu_int j = 0; j < k; j++) {
        /* the terms that do not vanish in this column */
        const pu_real *x[4] = {NULL}, *m[4] = {NULL};
        pu_real c[4];
        int used = 0, plain = 1;
        for (int t = 0; t < count; t++) {
            c[used] = terms[t].c ? terms[t].scale * terms[t].c[j] : terms[t].scale;
            if (c[used] == 0)
                continue;
            x[used] = pu__col(terms[t].x, j);
            m[used] = terms[t].m;
            plain &= !m[used];
            used++;
        }
        /* m o r + be d is the direction of PCG */
        if (used > 0 && (plain || (used <= 2 && !m[1])))
            pu__mix(n, used, m[0], c, x, pu__col(y, j));
        else
            pu__add_terms(n, used, c, m, x, pu__col(y, j));
    }
}

/* x_j += a_j d_j, r_j -= a_j q_j and rho_j = r_j' diag(m) r_j. x.at NULL: no x; m NULL: ones.
   lint: the parameters are those of pu_backend */
PU__FN void pu__cpu_advance(PU__VECTOR_ARGS, const pu_real *a, const pu_real *m, pu_block d, pu_block q, pu_block x,
                            pu_block r, pu_real *rho)
{
    for (pu_int j = 0; j < k; j++) {
        double s = 0;
        if (x.at && a[j] != 0)
            pu__axpy(n, a[j], pu__col(d, j), pu__col(x, j));
        /* rho of a column at rest is formed anew */
        for (pu_int at = 0; at < n; at += PU__CHUNK) {
            pu_int len = pu__min(PU__CHUNK, n - at);
            const pu_real *qj = pu__col(q, j) + at;
            pu_real *rj = pu__col(r, j) + at;
            if (a[j] != 0 && !m && len >= PU__LANES) {
                s += (double)pu__descend(len, a[j], qj, rj);
                continue;
            }
            if (a[j] != 0)
                pu__axpy(len, -a[j], qj, rj);
            s += (double)pu__dot_chunk(len, m ? m + at : NULL, rj, rj);
        }
        rho[j] = (pu_real)s;
    }
}

/* rbar_j += m o dbar_j, dbar_j := be_j dbar_j + a_j xbar_j. m NULL: ones.
   lint: the parameters are those of pu_backend */
PU__FN void pu__cpu_retreat(PU__VECTOR_ARGS, const pu_real *a, const pu_real *be, const pu_real *m, pu_block xbar,
                            pu_block rbar, pu_block dbar)
{
    for (pu_int j = 0; j < k; j++) {
        pu_block d = pu__from(dbar, j);
        /* a term with coefficient zero is not read */
        const pu_term terms[2] = {pu__term_scaled(d, be[j]), pu__term_scaled(pu__from(xbar, j), a[j])};
        pu__add_product(n, 1, m, d.at, pu__col(rbar, j));
        pu__cpu_combine(user, n, 1, d, 2, terms);
    }
}

enum { PU__PART = PU__CHUNK / 2 }; /* of a chunk: buffers of this length keep the frame small */

/* Entries `at` on of column j, at most PU__CHUNK of them, with q = r_i - r_{i+1} = a A d:
     sum[0] += dbar'd,  sum[1] += xbar'd,  sum[2] += (rbar + m o dbar)'q,  sum[3] += (m o r)'q */
PU__FN void pu__unwind_chunk(const pu_unwinding *step, pu_int j, pu_int at, pu_int n, double *sum)
{
    pu_real buffer[PU__PART], scaled_r[PU__PART], scaled_dbar[PU__PART];
    /* the lanes of the four sums; named arrays, since compilers keep those in registers */
    pu_real t0[PU__LANES] = {0}, t1[PU__LANES] = {0}, t2[PU__LANES] = {0}, t3[PU__LANES] = {0};
    pu_int i;
    for (pu_int end = at + n; at < end; at += PU__PART) {
        pu_int len = pu__min(PU__PART, end - at);
        const pu_real *d = pu__col(step->d, j) + at, *xbar = pu__col(step->xbar, j) + at;
        const pu_real *rbar = pu__col(step->rbar, j) + at, *dbar = pu__col(step->dbar, j) + at;
        const pu_real *r = pu__col(step->r, j) + at, *before = pu__residual_before(step, j, at, len, buffer);
        const pu_real *mr = r, *mdbar = dbar;
        /* products with m are rounded before they are used, whatever the compiler may contract */
        if (step->m) {
            for (i = 0; i < len; i++) {
                scaled_r[i] = step->m[at + i] * r[i];
                scaled_dbar[i] = step->m[at + i] * dbar[i];
            }
            mr = scaled_r;
            mdbar = scaled_dbar;
        }
        for (i = 0; i + PU__LANES <= len; i += PU__LANES)
            for (pu_int l = 0; l < PU__LANES; l++) {
                pu_real q = before[i + l] - r[i + l];
                t0[l] += dbar[i + l] * d[i + l];
                t1[l] += xbar[i + l] * d[i + l];
                t2[l] += (rbar[i + l] + mdbar[i + l]) * q;
                t3[l] += mr[i + l] * q;
            }
        /* what is left of the last part, less than PU__LANES entries */
        for (pu_int l = 0; i < len; i++, l++) {
            pu_real q = before[i] - r[i];
            t0[l] += dbar[i] * d[i];
            t1[l] += xbar[i] * d[i];
            t2[l] += (rbar[i] + mdbar[i]) * q;
            t3[l] += mr[i] * q;
        }
    }
    for (pu_int l = 0; l < PU__LANES; l++) {
        sum[0] += (double)t0[l];
        sum[1] += (double)t1[l];
        sum[2] += (double)t2[l];
        sum[3] += (double)t3[l];
    }
}

/* The inner products of a reverse step, of each column that took it (a_j != 0; otherwise zeros):
     s0_j = dbar'd,  s1_j = xbar'd - (rbar + m o dbar)'A d,  s2_j = (m o r)'A d */
PU__FN void pu__cpu_unwind_sums(PU__VECTOR_ARGS, const pu_unwinding *step, pu_real *s0, pu_real *s1, pu_real *s2)
{
    for (pu_int j = 0; j < k; j++) {
        double a = (double)step->a[j];
        double sum[4] = {0};
        /* chunks are added in double */
        for (pu_int at = 0; at < n && a != 0; at += PU__CHUNK)
            pu__unwind_chunk(step, j, at, pu__min(PU__CHUNK, n - at), sum);
        s0[j] = (pu_real)sum[0];
        s1[j] = (pu_real)(a != 0 ? sum[1] - sum[2] / a : 0);
        s2[j] = (pu_real)(a != 0 ? sum[3] / a : 0);
    }
}

/* The vectors of a reverse step, see pu_unwinding:
     mbar += sum_j weight_j r o (dbar + rhobar r),   rbar += m o (dbar + 2 rhobar r),   qbar = pib d - a rbar,
     dbar = be dbar + a xbar + pib q,   r = r_i.   qbar of a column that did not take the step is zero. */
PU__FN void pu__cpu_unwind(PU__VECTOR_ARGS, const pu_unwinding *step)
{
    pu_real buffer[PU__CHUNK];
    for (pu_int j = 0; j < k; j++) {
        /* the coefficients in the order of pu__unwind */
        const pu_real c[5] = {step->a[j], step->be[j], step->pib[j], step->twice_rhobar[j], step->mbar ? step->weight[j] : 0};
        if (c[0] == 0) {
            pu__zeros(pu__col(step->qbar, j), n);
            continue;
        }
        for (pu_int at = 0; at < n; at += PU__CHUNK) {
            pu_int len = pu__min(PU__CHUNK, n - at);
            pu__unwind(len, c, step->m ? step->m + at : NULL, pu__col(step->d, j) + at,
                       pu__residual_before(step, j, at, len, buffer), pu__col(step->xbar, j) + at, pu__col(step->r, j) + at,
                       pu__col(step->rbar, j) + at, pu__col(step->dbar, j) + at, pu__col(step->qbar, j) + at,
                       step->mbar ? step->mbar + at : NULL);
        }
    }
}

/* ---- the scalar arithmetic of the solver ----
   Written once for CPU and GPU, for one column j. The histories (rho, pi, a, be) have a row for each step i.
   h = i k + j is the place of the column in that row.
   What the vectors contribute is in s0, s1, c0, c1; see pu_stage. */

/* Why the column stops with rho = r'(m o r) and residual2 = |r|^2, or 0. */
PU__FN PU_HD int32_t pu__stage_stop(const pu_state *s, pu_int j, pu_real rho, pu_real residual2)
{
    if (!pu__finite(rho))
        return PU_STOP_NONFINITE;
    if (!(rho > 0))
        return PU_STOP_ZERO;
    if (s->target[j] > 0 && residual2 <= s->target[j])
        return PU_STOP_TOLERANCE;
    return rho <= s->floor_[j] ? PU_STOP_ROUNDING : 0;
}

/* Before the first step: where the column is to stop, and whether it need not start. s0: u'(m o u), s1: u'u, c0: r'r.
   target: tolerance^2 u'u or the absolute one, whichever is larger. floor: below it rho is rounding noise. */
PU__FN PU_HD void pu__stage_start(const pu_state *s, pu_int j)
{
    pu_real rho = s->rho[j];
    pu_real target = s->tolerance2 > 0 ? (pu_real)s->tolerance2 * s->s1[j] : 0;
    s->steps[j] = 0;
    /* u may be zero when x0 is not */
    s->floor_[j] = PU__FLOOR2 * (s->s0[j] > rho ? s->s0[j] : rho);
    s->target[j] = s->absolute2 > (double)target ? (pu_real)s->absolute2 : target;
    s->stop[j] = pu__stage_stop(s, j, rho, s->c0[j]);
}

/* alpha_i = rho_{i-1} / pi_i, pi = d'A d, or the fixed step of gradient descent; 0 for a column that has stopped.
   pi <= 0 is a breakdown: the column stops where it is. */
PU__FN PU_HD void pu__stage_alpha(const pu_state *s, pu_int h, pu_int j)
{
    pu_real pi = s->pi[h];
    pu_real alpha = s->fixed_step ? s->step[j] : s->rho[h] / pi;
    s->a[h] = 0;
    if (s->stop[j])
        return;
    if (pu__finite(pi) && !(pi > 0))
        s->stop[j] = PU_STOP_BREAKDOWN; /* d != 0 here, so A is not positive definite */
    else if (!pu__finite(pi) || !pu__finite(alpha))
        s->stop[j] = PU_STOP_NONFINITE;
    else
        s->a[h] = alpha;
}

/* beta_i = rho_i / rho_{i-1}, and whether the column stops after this step, its (i+1)-th. s1: r'r. */
PU__FN PU_HD void pu__stage_beta(const pu_state *s, pu_int i, pu_int j)
{
    pu_int h = i * s->k + j;
    pu_real rho = s->rho[h + s->k];
    s->be[h] = 0;
    if (s->stop[j])
        return;
    s->steps[j] = (int32_t)(i + 1);
    s->stop[j] = pu__stage_stop(s, j, rho, s->s1[j]);
    if (s->use_beta)
        s->be[h] = rho / s->rho[h];
}

/* The gradient begins with xbar = -r / |r|. |r| goes into the weight of the column, scale. s0: r'r. */
PU__FN PU_HD void pu__stage_xbar(const pu_state *s, pu_int j)
{
    pu_real norm = pu__sqrt(s->s0[j]);
    /* a column whose residual vanishes contributes nothing */
    s->c0[j] = norm > 0 ? -1 / norm : 0;
    s->scale[j] *= norm;
    s->rhobar[j] = 0;
    s->rhop[j] = 0;
    s->pib[j] = 0;
}

/* Reverse of beta_i = rho_i / rho_{i-1}, with its adjoint in s0; c0 = 2 rhobar_i. taken: the column took this
   step, and alpha and beta are not constants. */
PU__FN PU_HD void pu__stage_rev1(const pu_state *s, pu_int h, pu_int j, int taken)
{
    s->rhop[j] = 0;
    if (!taken)
        s->rhobar[j] = 0;
    else if (s->use_beta) {
        s->rhobar[j] += s->s0[j] / s->rho[h];
        s->rhop[j] = -s->s0[j] * s->be[h] / s->rho[h];
    }
    s->c0[j] = 2 * s->rhobar[j];
}

/* Reverse of alpha_i = rho_{i-1} / pi_i, with its adjoint ab. */
PU__FN PU_HD void pu__stage_rev2(const pu_state *s, pu_int h, pu_int j, int taken, pu_real ab)
{
    s->pib[j] = 0;
    if (taken) {
        s->rhop[j] += ab / s->pi[h];
        s->pib[j] = -ab * s->a[h] / s->pi[h];
    }
    s->rhobar[j] = s->rhop[j];
}

/* One stage of column j at step i. */
PU__FN PU_HD void pu__stage_column(const pu_state *s, pu_stage stage, pu_int i, pu_int j)
{
    pu_int h = i * s->k + j;
    /* reverse pass: did this column take step i+1? The start sets the number of steps. */
    int active = stage != PU_STAGE_START && i < (pu_int)s->steps[j];
    int taken = active && !s->detach && !s->fixed_step;
    switch (stage) {
    /* forwards */
    case PU_STAGE_START: pu__stage_start(s, j); break;
    case PU_STAGE_ALPHA: pu__stage_alpha(s, h, j); break;
    case PU_STAGE_BETA: pu__stage_beta(s, i, j); break;
    case PU_STAGE_PROJECT:
        /* A column stopped at step s has s residuals to be orthogonal to. Slots from s on hold its own. */
        s->c0[j] = s->rho[h] > 0 && (!s->stop[j] || active) ? -s->s0[j] / s->rho[h] : 0;
        break;
    /* backwards */
    case PU_STAGE_XBAR: pu__stage_xbar(s, j); break;
    case PU_STAGE_REV1: pu__stage_rev1(s, h, j, taken); break;
    case PU_STAGE_REV2:
        /* the adjoint of alpha is xbar'd - rbar'q */
        pu__stage_rev2(s, h, j, taken, s->s0[j] - s->s1[j]);
        s->c0[j] = -s->a[h];
        break;
    case PU_STAGE_UNWIND:
        /* Both at once. s1 has been formed before rbar received 2 rhobar m o r, whose product with q is c0 c1. */
        pu__stage_rev1(s, h, j, taken);
        pu__stage_rev2(s, h, j, taken, s->s1[j] - s->c0[j] * s->c1[j]);
        break;
    case PU_STAGE_RPREV:
        /* m o r_i = d_i - be_i d_{i-1}; a step not taken leaves r */
        s->c0[j] = active ? 1 : 0;
        s->c1[j] = active && i > 0 ? -s->be[h - s->k] : 0;
        s->c2[j] = active ? 0 : 1;
        break;
    case PU_STAGE_Q:
        /* q = (r_{i-1} - r_i) / alpha_i */
        s->c1[j] = active ? 1 / s->a[h] : 0;
        break;
    case PU_STAGE_END:
        /* r_0 gets 2 rhobar_0 m o r_0 */
        s->c0[j] = 2 * s->rhobar[j];
        break;
    }
}

/* The same for all k columns. */
PU__FN void pu__cpu_stage(PU_UNUSED void *user, const pu_state *s, pu_stage stage, pu_int i)
{
    for (pu_int j = 0; j < s->k; j++)
        pu__stage_column(s, stage, i, j);
}

/* out[rows[i]] += w_j m_i p_ij q_ij, summed over the k columns. m, w, rows, q.at may be NULL: ones, all rows.
   lint: the parameters are those of pu_backend */
PU__FN void pu__cpu_row_dot(PU__VECTOR_ARGS, const pu_real *m, const pu_real *w, pu_block p, pu_block q,
                            PU_UNUSED pu_int M, const pu_int *rows, pu_real *out)
{
    for (pu_int j = 0; j < k; j++) {
        const pu_real *pj = pu__col(p, j);
        const pu_real *qj = q.at ? pu__col(q, j) : NULL;
        pu_real wj = w ? w[j] : 1;
        /* zero times NaN would be NaN: such a column is not read */
        if (wj == 0)
            continue;
        /* the usual forms one by one, so that the loops have no branches */
        if (!qj || rows)
            for (pu_int i = 0; i < n; i++) {
                pu_real x = m ? m[i] * pj[i] : pj[i];
                out[rows ? rows[i] : i] += wj * (qj ? x * qj[i] : x);
            }
        else if (m)
            for (pu_int i = 0; i < n; i++)
                out[i] += wj * (m[i] * pj[i] * qj[i]);
        else
            for (pu_int i = 0; i < n; i++)
                out[i] += wj * (pj[i] * qj[i]);
    }
}

/* Standard normals into the k columns of x, samples `sample` on of one datum; with rows, those of these indices
   alone.
   lint: the parameters are those of pu_backend */
PU__FN void pu__cpu_normals(PU_UNUSED void *user, pu_int n, const pu_int *rows, pu_int k, pu_block x, uint64_t seed,
                            const uint32_t *datum, uint32_t sample, uint32_t step, uint32_t stream)
{
    pu__draw_key key = {seed, *datum, sample, step};
    for (pu_int j = 0; j < k; j++) {
        if (rows)
            pu__normals_at(&key, stream, n, rows, pu__col(x, j));
        else
            pu_normals(seed, *datum, key.sample, step, stream, 0, n, pu__col(x, j));
        key.sample++;
    }
}

/* *out += scale sum_j w_j x_j' diag(m) y_j. m may be NULL: ones.
   lint: the parameters are those of pu_backend */
PU__FN void pu__cpu_sum_dot(PU__VECTOR_ARGS, const pu_real *m, pu_block x, pu_block y, const pu_real *w, double scale,
                            pu_real *out)
{
    double sum = 0;
    for (pu_int j = 0; j < k; j++)
        sum += (double)w[j] * pu__dot(n, m, pu__col(x, j), pu__col(y, j));
    *out += (pu_real)(scale * sum);
}

/* The terms of one datum (k = 1) that are linear in b, from t = Phi bbar and e = y - eta:
     eta -= w o (t + e),   psibar += (t + e/2) o e - 1/(2 psi) where observed.   rows NULL: all rows.
   lint: the parameters are those of pu_backend */
PU__FN void pu__cpu_row_terms(PU__VECTOR_ARGS, pu_block t, const pu_real *w, const pu_real *mask, const pu_real *e,
                              const pu_real *psi, PU_UNUSED pu_int M, const pu_int *rows, pu_real *eta, pu_real *psibar)
{
    for (pu_int i = 0; i < n; i++) {
        /* psi has a term of the observed rows alone; the others have w = 0 */
        pu_int row = rows ? rows[i] : i;
        eta[row] -= w[i] * (t.at[i] + e[i]);
        if (mask[i] != 0)
            psibar[row] += (t.at[i] + e[i] / 2) * e[i] - 1 / (2 * psi[row]);
    }
}

/* Copies bytes. Both read and write: the backend's memory is ours. */
PU__FN void pu__cpu_copy(PU_UNUSED void *user, void *to, const void *from, size_t bytes)
{
    if (bytes)
        memcpy(to, from, bytes);
}

/* The backend itself. It has no memory of its own; scalars are in host memory, so that reading them is free. */
PU_DEF const pu_backend *pu_backend_cpu(void)
{
    static const pu_backend cpu = {NULL,
                                   1,
                                   pu__cpu_dot,
                                   pu__cpu_combine,
                                   pu__cpu_advance,
                                   pu__cpu_stage,
                                   pu__cpu_row_dot,
                                   pu__cpu_normals,
                                   pu__cpu_copy,
                                   pu__cpu_copy,
                                   pu__cpu_retreat,
                                   pu__cpu_unwind_sums,
                                   pu__cpu_unwind,
                                   pu__cpu_sum_dot,
                                   pu__cpu_row_terms,
                                   NULL,
                                   0,
                                   NULL,
                                   NULL,
                                   NULL,
                                   NULL};
    return &cpu;
}

/* k pairs of columns (c_j p_j, q_j), the terms that a reverse step of the solver adds up with weights. c NULL:
   ones. Y, where Y.at is not NULL, receives += the product of the operator with c_j p_j. */
typedef struct {
    pu_int k;
    const pu_real *c;
    pu_block P, Q, Y;
    const pu_real *weight;
} pu__pairs;

/* ------------------------------------------------------------------------------------------------
   >>matrix   products, triangles, bands, small eigenproblems

   Dense matrices are by rows: entry (i, j) of a is a[i ld + j]. Triangles and the Cholesky factor are recursive,
   so that nearly all of the work is in products, and a product is as fast as its inner loop, pu__core. What they
   compute does not depend on the number of threads, nor on the panel.
   ------------------------------------------------------------------------------------------------ */

/* Y (n x k) = 0 unless the result is to be added to it. */
PU__FN void pu__clear(pu_int n, pu_int k, pu_block Y, int add)
{
    if (add)
        return;
    for (pu_int j = 0; j < k; j++)
        pu__zeros(pu__col(Y, j), n);
}

/* The index of the first entry that is not finite, or -1. */
PU__FN pu_int pu__find_nonfinite(pu_int n, const pu_real *x)
{
    pu_int end;
    /* chunk by chunk: a loop without an exit vectorises */
    for (pu_int at = 0; at < n; at = end) {
        int bad = 0;
        end = pu__min(at + PU__CHUNK, n);
        for (pu_int i = at; i < end; i++)
            bad |= !pu__finite(x[i]);
        for (pu_int i = at; bad; i++)
            if (!pu__finite(x[i]))
                return i;
    }
    return -1;
}

/* PU_E_NULL, or PU_E_NONFINITE and the index of the first entry that is not finite. */
PU__FN pu_status pu__check_finite(pu_int n, const pu_real *x, pu_int *index)
{
    if (!x)
        return PU_E_NULL;
    *index = pu__find_nonfinite(n, x);
    return *index < 0 ? PU_OK : PU_E_NONFINITE;
}

/* ---- products ----
   The sums of a tile of C (6 rows, two vectors broad) stay in registers for up to PU__DEEP terms, a stretch.
   Then they are added to C. Before that the rows of B of the stretch are packed into strips as broad as a tile. */

/* How to multiply: C += A B or C -= A B; only the lower triangle, or what is not below the diagonal through the
   last corner. */
enum { PU__ADD = 0, PU__SUBTRACT = 1, PU__LOWER = 2, PU__UPPER = 4 };

/* Room for the strips of products with at most `cols` columns. */
PU__FN pu_real *pu__panel(pu__arena *arena, pu_int cols)
{
    pu_int strips = (pu__min(cols, PU__SPAN) + PU__BROAD - 1) / PU__BROAD;
    return pu__reals(arena, PU__DEEP, strips * PU__BROAD);
}

/* The terms at work of columns `column` on of C, `wide` of them. Strip k is packed at g->at[k]. */
PU__FN void pu__multiply_strips(const pu__matmul *g, pu_int column, pu_int wide)
{
    pu_int T = PU__BROAD;
    pu_real tile[PU__TALL * PU__BROAD];
    for (pu_int i = 0; i < g->rows; i += PU__TALL) {
        pu_int tall = pu__min(PU__TALL, g->rows - i);
        const pu_real *a = g->A.at + i * g->A.row;
        for (pu_int k = 0; k < wide; k += T) {
            pu_int broad = pu__min(T, wide - k);
            /* the row of the tile, where columns count from the tile's first one on */
            pu_int row = i - column - k;
            pu_real *C = pu__col(g->C, i) + column + k;
            /* nothing of the tile is wanted; all of it is */
            if (row + tall - 1 + g->to < 0 || row + g->from > broad - 1)
                continue;
            if (tall == PU__TALL && broad == T && row + tall - 1 + g->from <= 0 && T - 1 <= row + g->to) {
                pu__core(g, g->at + k / T, tall, a, C, g->C.ld);
                continue;
            }
            /* at an edge: the whole tile in a copy, of which a part is used */
            memset(tile, 0, sizeof tile);
            pu__core(g, g->at + k / T, tall, a, tile, T);
            for (pu_int r = 0; r < tall; r++) {
                pu_int end = pu__min(broad, row + r + g->to + 1);
                for (pu_int c = pu__most(0, row + r + g->from); c < end; c++)
                    C[r * g->C.ld + c] += tile[r * T + c];
            }
        }
    }
}

/* The same for one strip, which is packed on the stack; done: terms packed so far. Recursive: each call packs one
   piece of the strip into its own frame, and the last one multiplies. In one piece the strip would make a frame
   of more than 8 KiB. */
PU__FN PU__NOINLINE void pu__multiply_pieces(pu__matmul *g, pu_int column, pu_int done)
{
    pu_real piece[PU__PIECE * PU__BROAD];
    pu_int deep = pu__min(PU__PIECE, g->deep - done);
    pu_int wide = pu__min(PU__BROAD, g->cols - column);
    pu__pack(g, done, deep, column, wide, piece);
    g->at[done / PU__PIECE] = piece;
    if (done + deep < g->deep)
        pu__multiply_pieces(g, column, done + deep);
    else
        pu__multiply_strips(g, column, wide);
}

/* C (rows x cols, by rows) += or -= A B, A: rows x depth. how: as above. The rounding of an entry depends on its
   own row and column alone. panel: from pu__panel, for the strips. NULL: one strip at a time
   on the stack, which is up to a tenth slower. */
PU__FN void pu__multiply(pu_int rows, pu_int cols, pu_int depth, pu__matrix A, pu__matrix B, pu_block C, int how,
                         pu_real *panel)
{
    pu_int distant = PTRDIFF_MAX / 4;
    pu_int stretches = pu__most((depth + PU__DEEP - 1) / PU__DEEP, 1);
    /* stretches of about the same depth: a shallow one would cost more than its share */
    pu_int most = (depth + stretches - 1) / stretches;
    pu_int span = panel ? PU__SPAN : PU__BROAD;
    pu__matmul g;
    g.rows = rows;
    g.cols = cols;
    g.A = A;
    g.B = B;
    g.C = C;
    g.scale = how & PU__SUBTRACT ? -1 : 1;
    /* these two are never reached where all is wanted */
    g.from = how & PU__UPPER ? cols - rows : -distant;
    g.to = how & PU__LOWER ? 0 : distant;
    for (g.first = 0; g.first < depth; g.first += most) {
        g.deep = pu__min(most, depth - g.first);
        g.piece = panel ? g.deep : PU__PIECE;
        for (pu_int i = 0; i < g.deep; i++)
            g.offset[i] = (B.list ? B.list[g.first + i] : g.first + i) * A.col;
        for (pu_int column = 0; column < cols; column += span) {
            pu_int wide = pu__min(span, cols - column);
            if (!panel) {
                pu__multiply_pieces(&g, column, 0);
                continue;
            }
            pu__pack(&g, 0, g.deep, column, wide, panel);
            for (pu_int i = 0; i < wide; i += PU__BROAD)
                g.at[i / PU__BROAD] = panel + i * g.deep;
            pu__multiply_strips(&g, column, wide);
        }
    }
}

/* ---- triangles ---- */

#define PU__SIDES 32 /* of a leaf */

/* X := L^-1 X, or L'^-1 X (transposed), for k <= PU__SIDES sides of n <= PU__LEAF entries. The sides are the
   columns of X, or its rows if by_rows. The work is done in a copy in which sides are adjacent. Not inlined: gcc
   then makes scalar code of it. */
PU__FN PU__NOINLINE void pu__leaf(pu_int n, const pu_real *L, pu_int ld, int transposed, pu_int k, pu_block X,
                                  int by_rows)
{
    pu_int step = by_rows ? X.ld : 1, side = by_rows ? 1 : X.ld; /* from entry to entry, from side to side */
    pu_real copy[PU__LEAF][PU__SIDES];
    if (k < PU__SIDES)
        memset(copy, 0, sizeof copy);
    for (pu_int i = 0; i < n; i++)
        for (pu_int c = 0; c < k; c++)
            copy[i][c] = X.at[i * step + c * side];
    /* x_row = (x_row - sum_p l_p x_p) / L_row,row over the entries that are known: those before it, or after it */
    for (pu_int q = 0; q < n; q++) {
        pu_int row = transposed ? n - 1 - q : q;
        pu_int end = transposed ? n : row;
        pu_real scale = 1 / L[row * (ld + 1)];
        for (pu_int p = transposed ? row + 1 : 0; p < end; p++) {
            pu_real l = transposed ? L[p * ld + row] : L[row * ld + p];
            for (pu_int c = 0; c < PU__SIDES; c++)
                copy[row][c] -= l * copy[p][c];
        }
        for (pu_int c = 0; c < PU__SIDES; c++)
            copy[row][c] *= scale;
    }
    for (pu_int i = 0; i < n; i++)
        for (pu_int c = 0; c < k; c++)
            X.at[i * step + c * side] = copy[i][c];
}

/* The size of the first part of n rows: half of them, in whole leaves. */
PU__FN pu_int pu__half(pu_int n) { return (n / 2 + PU__LEAF - 1) / PU__LEAF * PU__LEAF; }

/* The same for any n and k. L (n x n) is lower triangular, by rows at distance ld. Recursive: solve the half that
   needs no other, subtract its part from the rest, solve that. panel: from pu__panel for max(n, k) columns, or
   NULL. */
PU__FN void pu__triangle(pu_int n, const pu_real *L, pu_int ld, int transposed, pu_int k, pu_block X, int by_rows,
                         pu_real *panel)
{
    pu_int step = by_rows ? X.ld : 1;
    pu_int half = pu__half(n);
    pu_int known = transposed ? n - half : half;
    pu_int rest = n - known;
    pu_block solved = X, other = X;
    if (n <= PU__LEAF) {
        for (pu_int c = 0; c < k; c += PU__SIDES) {
            solved.at = X.at + c * (by_rows ? 1 : X.ld);
            pu__leaf(n, L, ld, transposed, pu__min(PU__SIDES, k - c), solved, by_rows);
        }
        return;
    }
    const pu_real *corner = L + half * ld;
    pu__matrix C = transposed == by_rows ? pu__mat(corner, 1, ld) : pu__mat(corner, ld, 1);
    if (transposed)
        solved.at += half * step;
    else
        other.at += half * step;
    pu__triangle(known, transposed ? corner + half : L, ld, transposed, k, solved, by_rows, panel);
    /* other -= corner solved (corner' solved if transposed), or the transpose of that */
    if (by_rows)
        pu__multiply(rest, k, known, C, pu__mat(solved.at, X.ld, 1), other, PU__SUBTRACT, panel);
    else
        pu__multiply(k, rest, known, pu__mat(solved.at, X.ld, 1), C, other, PU__SUBTRACT, panel);
    pu__triangle(rest, transposed ? L : corner + half, ld, transposed, k, other, by_rows, panel);
}

/* L L' = a in place (lower triangle), for n <= PU__LEAF. Returns the row whose pivot is not positive, or -1. */
PU__FN pu_int pu__cholesky_leaf(pu_int n, pu_real *a, pu_int ld)
{
    for (pu_int i = 0; i < n; i++)
        for (pu_int j = 0; j <= i; j++) {
            pu_real s = a[i * ld + j];
            for (pu_int p = 0; p < j; p++)
                s -= a[i * ld + p] * a[j * ld + p];
            if (j < i)
                a[i * ld + j] = s / a[j * ld + j];
            else if (s > 0 && pu__finite(s))
                a[i * ld + i] = pu__sqrt(s);
            else
                return i;
        }
    return -1;
}

/* The same for any n. Recursive: with a = (a11, .; a21, a22) factor a11, L21 = a21 L11'^-1, a22 -= L21 L21',
   factor a22. panel: from pu__panel for n columns, or NULL. */
PU__FN pu_int pu__cholesky(pu_int n, pu_real *a, pu_int ld, pu_real *panel)
{
    pu_int half = pu__half(n);
    pu_int rest = n - half;
    if (n <= PU__LEAF)
        return pu__cholesky_leaf(n, a, ld);
    pu_real *below = a + half * ld;
    pu_int bad = pu__cholesky(half, a, ld, panel);
    if (bad >= 0)
        return bad;
    pu__triangle(half, a, ld, 0, rest, pu__rows(below, ld), 0, panel);
    pu__multiply(rest, rest, half, pu__mat(below, ld, 1), pu__mat(below, 1, ld), pu__rows(below + half, ld),
                 PU__SUBTRACT | PU__LOWER, panel);
    bad = pu__cholesky(rest, below + half, ld, panel);
    return bad < 0 ? -1 : half + bad;
}

/* L L' = a in place (n x n by rows, lower triangle), in double whatever pu_real is: small matrices that may be nearly
   singular. In a double build it is pu__cholesky_leaf with a log det. *logdet += log det a. Returns the row whose
   pivot is not positive, or -1. */
PU__FN pu_int pu__cholesky_double(pu_int n, double *a, double *logdet)
{
    /* L_ij = (a_ij - sum_{l<j} L_il L_jl) / L_jj, and L_ii is the root of such a difference */
    for (pu_int i = 0; i < n; i++)
        for (pu_int j = 0; j <= i; j++) {
            double s = a[i * n + j];
            for (pu_int l = 0; l < j; l++)
                s -= a[i * n + l] * a[j * n + l];
            if (j < i) {
                a[i * n + j] = s / a[j * n + j];
                continue;
            }
            if (!(s > 0 && pu__finite_double(s)))
                return i;
            *logdet += log(s);
            a[i * n + i] = sqrt(s);
        }
    return -1;
}

/* L := L^-1 in place, the lower triangle, n x n by rows: (L^-1)_ij = (I_ij - sum_{l<i} L_il (L^-1)_lj) / L_ii.
   Column j of the inverse needs the columns of L from j on. */
PU__FN void pu__invert_lower(pu_int n, double *L)
{
    for (pu_int j = 0; j < n; j++)
        for (pu_int i = j; i < n; i++) {
            double sum = i == j;
            for (pu_int l = j; l < i; l++)
                sum -= L[i * n + l] * L[l * n + j];
            L[i * n + j] = sum / L[i * n + i];
        }
}

/* x := L^-1 x for one side whose entries before `first` are zero. L: n x n by rows. */
PU__FN void pu__lower_solve(pu_int n, const pu_real *L, pu_int first, pu_real *x)
{
    for (pu_int i = first; i < n; i++) {
        double known = pu__dot(i - first, NULL, L + i * n + first, x + first);
        x[i] = (pu_real)(((double)x[i] - known) / (double)L[i * n + i]);
    }
}

/* x := L'^-1 x for one side whose entries after `last` are zero. */
PU__FN void pu__upper_solve(pu_int n, const pu_real *L, pu_int last, pu_real *x)
{
    for (pu_int i = last; i >= 0; i--) {
        x[i] /= L[i * n + i];
        pu__axpy(i, -x[i], L + i * n, x);
    }
}

/* sum_i log a[i stride], i < n */
PU__FN double pu__log_diagonal(pu_int n, const pu_real *a, pu_int stride)
{
    double s = 0;
    for (pu_int i = 0; i < n; i++)
        s += log((double)a[i * stride]);
    return s;
}

/* ---- transposes ---- */

enum { PU__PATCH = 16 }; /* rows and columns at a time, so that the lines of either side stay in cache */

/* b (cols x rows) = a' or += a', a: rows x cols, both by rows. */
PU__FN void pu__transpose(pu_int rows, pu_int cols, const pu_real *a, pu_real *b, int add)
{
    for (pu_int i = 0; i < rows; i += PU__PATCH)
        for (pu_int j = 0; j < cols; j += PU__PATCH) {
            pu_int p_end = pu__min(rows, i + PU__PATCH);
            pu_int q_end = pu__min(cols, j + PU__PATCH);
            for (pu_int q = j; q < q_end; q++)
                for (pu_int p = i; p < p_end; p++)
                    pu__set(b + q * rows + p, a[p * cols + q], add);
        }
}

/* The strict lower triangle of a (n x n) becomes the mirror image of the upper one (to_lower), or the other way
   round. */
PU__FN void pu__mirror(pu_int n, pu_real *a, int to_lower)
{
    for (pu_int i0 = 0; i0 < n; i0 += PU__PATCH)
        for (pu_int j0 = 0; j0 <= i0; j0 += PU__PATCH)
            for (pu_int i = i0; i < pu__min(n, i0 + PU__PATCH); i++)
                for (pu_int j = j0; j < pu__min(i, j0 + PU__PATCH); j++)
                    if (to_lower)
                        a[i * n + j] = a[j * n + i];
                    else
                        a[j * n + i] = a[i * n + j];
}

/* ---- eigenvalues of symmetric tridiagonal matrices, several side by side ---- */

enum { PU__DOTS = 5 };     /* u'u, r'r, |u - Ax|^2, u'x, x'(u - Ax) of every column */
enum { PU__ABREAST = 8 };  /* eigenproblems at once, at most; a multiple of 4 */
enum { PU__LANCZOS = 12 }; /* steps for the largest eigenvalue: within a few percent, and 1/lambda needs no more */

/* The state of a sweep of each matrix. */
typedef struct {
    double busy[PU__ABREAST]; /* 1: the matrix takes part in this sweep */
    double shift[PU__ABREAST];
    double c[PU__ABREAST], s[PU__ABREAST]; /* cosine and sine of the last rotation */
    double p[PU__ABREAST];                 /* what it has moved along the diagonal */
    double bulge[PU__ABREAST];             /* the entry that is chased upwards */
    double begun[PU__ABREAST];             /* 1: a rotation has been made since the last cut */
} pu__sweep;

/* One rotation of rows i (0) and i + 1 (1) of the matrices that are busy. Selections instead of branches, and
   operands that cannot trap, let compilers make vectors of it. gcc does not do so once it is inlined. */
PU__FN PU__NOINLINE void pu__rotate(pu_int lanes, pu__sweep *PU__RESTRICT w, double *PU__RESTRICT d0,
                                    double *PU__RESTRICT d1, const double *PU__RESTRICT e0, double *PU__RESTRICT e1,
                                    double *PU__RESTRICT z0, double *PU__RESTRICT z1)
{
    for (pu_int l = 0; l < lanes; l++) {
        double off = e0[l], busy = w->busy[l];
        double f = w->s[l] * off;
        double b = w->c[l] * off;
        double g = w->bulge[l];
        double sum = f * f + g * g;
        /* root and inverse do not wait for each other */
        double r2 = sum + DBL_MIN;
        double root = sqrt(r2);
        double inverse = 1 / r2;
        double sine = sum > DBL_MIN ? f * root * inverse : 0;
        double cosine = sum > DBL_MIN ? g * root * inverse : 1;
        double t = d1[l] - w->p[l];
        double r = (d0[l] - t) * sine + 2 * cosine * b;
        double moved = sine * r;
        double u = z0[l], v = z1[l];
        double along = w->begun[l] * (sum > DBL_MIN ? root : 0);
        double anew = d0[l] - w->shift[l];
        e1[l] = busy != 0 ? along : e1[l];
        d1[l] = busy != 0 ? t + moved : d1[l];
        z1[l] = busy != 0 ? sine * u + cosine * v : v;
        z0[l] = busy * off != 0 ? cosine * u - sine * v : u; /* at a cut row i is not rotated */
        /* beyond a cut the chase begins anew */
        w->bulge[l] = off != 0 ? cosine * r - b : anew;
        w->p[l] = off != 0 ? moved : 0;
        w->s[l] = off != 0 ? sine : 1;
        w->c[l] = off != 0 ? cosine : 1;
        w->begun[l] = off != 0 ? 1 : 0;
    }
}

/* Prepares a sweep for eigenvalue `first`: which matrices still have an off-diagonal entry there, and Wilkinson's
   shifts. A matrix that is not done after 60 sweeps is given up: failed[l] = 1. Returns whether any matrix is
   busy. */
PU__FN int pu__sweep_begin(pu__sweep *w, pu_int n, pu_int lanes, pu_int first, int give_up, const double *d, double *e,
                           double *failed)
{
    int open = 0;
    for (pu_int l = 0; l < lanes; l++) {
        const double *diagonal = d + first * lanes + l;
        double off = e[first * lanes + l];
        double half = 0;
        if (give_up && off != 0) {
            for (pu_int i = 0; i < n; i++)
                e[i * lanes + l] = 0;
            failed[l] = 1;
            off = 0;
        }
        /* the eigenvalue of the leading 2 x 2 block that is nearer to its first entry */
        w->busy[l] = off != 0;
        open |= off != 0;
        if (off != 0)
            half = (diagonal[lanes] - diagonal[0]) / (2 * off);
        w->shift[l] = diagonal[0] - off / (half + (half >= 0 ? 1 : -1) * sqrt(half * half + 1));
        w->bulge[l] = d[(n - 1) * lanes + l] - w->shift[l];
        w->c[l] = 1;
        w->s[l] = 1;
        w->p[l] = 0;
        w->begun[l] = 0;
    }
    return open;
}

/* Eigenvalues of `lanes` symmetric tridiagonal matrices into d, and the first components of the eigenvectors into
   z: implicit QL. A rotation waits for the one before it, so that 4 or 8 matrices take little longer than one.
   Entry i of matrix l is at i lanes + l of d (n diagonal entries), e (n, the last unused, destroyed) and z. What
   happens to a matrix does not depend on the others. failed[l]: 1 without convergence. */
PU__FN void pu__tridiagonal(pu_int n, pu_int lanes, double *d, double *e, double *z, double *failed)
{
    /* the numbers that the matrices are made of are no better than this */
    double small = pu__max(DBL_EPSILON, 1e-3 * (double)PU__EPS);
    pu__sweep w;
    for (pu_int i = 0; i < n * lanes; i++)
        z[i] = i < lanes;
    for (pu_int l = 0; l < lanes; l++) {
        e[(n - 1) * lanes + l] = 0;
        failed[l] = 0;
    }
    for (pu_int first = 0; first < n; first++)
        for (int sweep = 0;; sweep++) {
            /* a negligible off-diagonal entry cuts the matrix */
            for (pu_int i = first * lanes; i < (n - 1) * lanes; i++)
                e[i] = fabs(e[i]) <= small * (fabs(d[i]) + fabs(d[i + lanes])) ? 0 : e[i];
            if (!pu__sweep_begin(&w, n, lanes, first, sweep == 60, d, e, failed))
                break;
            /* chase the bulge upwards */
            for (pu_int i = n - 2; i >= first; i--) {
                pu_int at = i * lanes;
                pu__rotate(lanes, &w, d + at, d + at + lanes, e + at, e + at + lanes, z + at, z + at + lanes);
            }
            /* the last rotation leaves these two entries of the first row */
            for (pu_int l = 0; l < lanes; l++) {
                if (w.busy[l] == 0)
                    continue;
                d[first * lanes + l] -= w.p[l];
                e[first * lanes + l] = w.begun[l] * w.bulge[l];
            }
        }
}

/* The largest ratio of an entry of a diagonal (n, one every `apart`) to its pivot, the square of L_ii. Rounding errors of a
   matrix, scaled to a diagonal of ones, reach its inverse enlarged by that at least: along some direction the matrix is
   that much smaller. */
PU__FN double pu__pivot_ratio(pu_int n, const pu_real *diag, pu_int apart, const pu_real *L)
{
    double worst = 1;
    for (pu_int i = 0; i < n; i++) {
        double pivot = (double)L[i * (n + 1)];
        worst = pu__max(worst, (double)diag[i * apart] / (pivot * pivot));
    }
    return worst;
}

/* v_i = +- diag_i^1/2, signs as if at random. */
PU__FN void pu__signed_roots(pu_int n, const pu_real *diag, pu_real *v)
{
    for (pu_int i = 0; i < n; i++) {
        pu_real root = pu__sqrt(diag[i]);
        v[i] = (uint32_t)i * 2654435769u >> 31 ? root : -root;
    }
}

/* A sum of logarithms, sum + log product, with one log for many terms. */
typedef struct {
    double sum, product;
} pu__logs;

/* Whether x is far from overflow and underflow. */
PU__FN int pu__logs_safe(double x) { return x > 1e-150 && x < 1e150; }

/* Adds log x. */
PU__FN void pu__logs_add(pu__logs *s, double x)
{
    if (!pu__logs_safe(x)) {
        s->sum += log(x);
        return;
    }
    s->product *= x;
    if (pu__logs_safe(s->product))
        return;
    s->sum += log(s->product);
    s->product = 1;
}

/* ---- bands ----
   Row i of a (n x (p+1)) holds A_{i,i}, A_{i,i-1} .. A_{i,i-p}. A block tridiagonal A with blocks of S is a band
   of 2 S - 1. In double in every build: a float band of Gamma can be nearly singular, and these recursions are
   bound by latency, not by the width of a register. */

/* A = L diag(d) L' in place, L unit lower triangular within the band: row i becomes d_i, L_{i,i-1} .. L_{i,i-p};
   inverse (n) = 1/d. Returns the failing row, or -1. */
PU__FN pu_int pu__band_factor(pu_int n, pu_int p, double *a, double *inverse)
{
    pu_int width = p + 1;
    for (pu_int i = 0; i < n; i++) {
        pu_int q = pu__min(i, p);
        double *row = a + i * width;
        double d = row[0];
        /* L_{i,i-j} d_{i-j} */
        for (pu_int j = q; j > 0; j--) {
            const double *up = a + (i - j) * width - j;
            double s = row[j];
            for (pu_int l = j + 1; l <= q; l++)
                s -= row[l] * up[l];
            row[j] = s;
        }
        /* L_{i,i-j}, and d_i = A_ii - sum_j L_{i,i-j}^2 d_{i-j} */
        for (pu_int j = q; j > 0; j--) {
            double scaled = row[j] * inverse[i - j];
            d -= row[j] * scaled;
            row[j] = scaled;
        }
        if (!(d > 0 && pu__finite_double(d)))
            return i;
        row[0] = d;
        inverse[i] = 1 / d;
    }
    return -1;
}

/* x := A^-1 x, with that factor: forwards with L, 1/d, backwards with L'. */
PU__FN void pu__band_solve(pu_int n, pu_int p, const double *a, const double *inverse, double *x)
{
    pu_int width = p + 1;
    for (pu_int i = 0; i < n; i++) {
        double s = x[i];
        for (pu_int j = pu__min(i, p); j > 0; j--)
            s -= a[i * width + j] * x[i - j];
        x[i] = s;
    }
    for (pu_int i = 0; i < n; i++)
        x[i] *= inverse[i];
    for (pu_int i = n - 1; i >= 0; i--)
        for (pu_int j = pu__min(i, p); j > 0; j--)
            x[i - j] -= a[i * width + j] * x[i];
}

/* The entries of Z = A^-1 inside the band, last row first (Takahashi):
     Z_ji = -sum_{k > i} L_ki Z_kj (j > i),   Z_ii = 1/d_i - sum_{k > i} L_ki Z_ki */
PU__FN void pu__band_inverse(pu_int n, pu_int p, const double *a, const double *inverse, double *Z)
{
    pu_int width = p + 1, step = width + 1;
    for (pu_int i = n - 1; i >= 0; i--) {
        pu_int end = pu__min(p, n - 1 - i) * step;
        const double *L = a + i * width;
        double *z = Z + i * width;
        double sum = inverse[i];
        /* entry (i + j, i) of L is L[j step], that of Z is z[j step]; at = k step */
        for (pu_int j = 1; j * step <= end; j++) {
            double s = 0;
            for (pu_int k = 1; k < j; k++)
                s -= L[k * step] * z[j * step - k];
            for (pu_int at = j * step; at <= end; at += step)
                s -= L[at] * z[at - j];
            z[j * step] = s;
        }
        for (pu_int at = step; at <= end; at += step)
            sum -= L[at] * z[at];
        z[0] = sum;
    }
}

/* ------------------------------------------------------------------------------------------------
   >>operator   dense, symmetric positive definite, diagonal, products and sums
   ------------------------------------------------------------------------------------------------ */

/* Parameter lists of the functions of a pu_op, with the names and meanings that its declaration
   gives them:
     apply, apply_t   Y = Op X or Op'X, added to Y when `add` is nonzero; ROWS: for the n listed rows alone
     grad             grad += sum_j weight_j d/dtheta p_j'Op q_j
     solve, sample    Y = Op^-1 X; Y = F X with F F' = Op, where X holds the normals (E in the declaration)
   `work` is scratch of k * op->work reals (one column's for the functions without k), which not all
   of them use; a gradient without parameters uses nothing. */
#define PU__APPLY_ARGS const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, PU_UNUSED pu_real *work
#define PU__GRAD_ARGS                                                                                                  \
    PU_UNUSED const pu_op *op, PU_UNUSED pu_int k, PU_UNUSED pu_block P, PU_UNUSED pu_block Q,                         \
        PU_UNUSED const pu_real *weight, PU_UNUSED pu_real *grad, PU_UNUSED pu_real *work
#define PU__ROWS_ARGS                                                                                                  \
    const pu_op *op, pu_int n, const pu_int *rows, pu_int k, pu_block X, pu_block Y, int add, PU_UNUSED pu_real *work
#define PU__SOLVE_ARGS       const pu_op *op, pu_int k, pu_block X, pu_block Y, PU_UNUSED pu_real *work
#define PU__DIAG_ARGS        const pu_op *op, pu_real *y, PU_UNUSED pu_real *work
#define PU__GRAM_DIAG_ARGS   const pu_op *op, const pu_real *w, pu_real *y, PU_UNUSED pu_real *work
#define PU__LOGDET_ARGS      const pu_op *op, double *value, PU_UNUSED pu_real *work
#define PU__LOGDET_GRAD_ARGS const pu_op *op, pu_real weight, pu_real *grad, PU_UNUSED pu_real *work

/* An operator without functions, where every constructor begins. It counts as symmetric: one that
   need not be so lowers `trusted`. Sizes below 1 make every call refuse the operator. params =
   PU_ZERO makes the call say PU_E_OVERFLOW. */
PU__FN pu_op pu__op_zero(pu_int rows, pu_int cols, pu_int params, const void *data)
{
    pu_op op = PU__ZERO;
    op.rows = rows;
    op.cols = cols;
    op.params = params;
    op.data = data;
    op.trusted = 2;
    return op;
}

/* `data` of an operator whose parameters are what it points at: matrices, diagonals, lags. */
PU__FN const pu_real *pu__entries(const pu_op *op) { return (const pu_real *)op->data; }

/* ---- dense: row-major, so that rows are contiguous ----
   Up to PU__ROWS rows go through the columns together, but every column's own sums run in the same order as alone.
   All functions read data, rows and cols only. They serve every operator whose form is PU_FORM_MATRIX. */

/* Is the operator its matrix and nothing else? Then the library may call the functions below in the
   place of the operator's own, and may read the matrix at op->data. */
PU__FN int pu__plain(const pu_op *op) { return op->form == PU_FORM_MATRIX && op->params == op->rows * op->cols; }

/* Addresses of entries m, m + 1, .. of a list of n rows, at most PU__ROWS of them; returns how
   many. rows NULL: the list of all rows. */
PU__FN pu_int pu__dense_some(const pu_op *op, pu_int n, const pu_int *rows, pu_int m, const pu_real **address)
{
    pu_int some = pu__min(PU__ROWS, n - m);
    for (pu_int i = 0; i < some; i++)
        address[i] = pu__entries(op) + (rows ? rows[m + i] : m + i) * op->cols;
    return some;
}

/* The block without its first `row` rows. */
PU__FN pu_block pu__below(pu_block b, pu_int row)
{
    b.at += row;
    return b;
}

/* Y = A X, or +=, for the n listed rows of A (rows NULL: the first n).
   X: cols x k, Y: n x k. */
PU__FN pu_status pu__dense_apply_rows(PU__ROWS_ARGS)
{
    const pu_real *address[PU__ROWS];
    pu_int some;
    for (pu_int m = 0; m < n; m += some) {
        some = pu__dense_some(op, n, rows, m, address);
        pu__rows_apply(some, address, op->cols, k, X, pu__below(Y, m), add);
    }
    return PU_OK;
}

/* T = A X, Y += A'(w o T) for the n listed rows of A in one sweep, so that each row is read from
   memory once. X: cols x k, or X.at NULL: T is given. w: n, or NULL for ones. T: n x k, Y: cols x
   k. */
PU__FN void pu__dense_gram_rows(const pu_op *op, pu_int n, const pu_int *rows, const pu_real *w, pu_int k, pu_block X,
                                pu_block T, pu_block Y)
{
    const pu_real *address[PU__ROWS];
    pu_int some;
    for (pu_int m = 0; m < n; m += some) {
        pu_block part = pu__below(T, m);
        some = pu__dense_some(op, n, rows, m, address);
        if (X.at)
            pu__rows_apply(some, address, op->cols, k, X, part, 0);
        pu__rows_apply_t(some, address, op->cols, w ? w + m : NULL, k, part, Y);
    }
}

/* Y = A'X, or +=, for the n listed rows of A.
   X: n x k, Y: cols x k. */
PU__FN pu_status pu__dense_apply_rows_t(PU__ROWS_ARGS)
{
    pu__clear(op->cols, k, Y, add);
    pu__dense_gram_rows(op, n, rows, NULL, k, pu__rows(NULL, 0), X, Y);
    return PU_OK;
}

/* grad += sum_j weight_j p_j q_j' in the n listed rows, of which P has the entries.
   P: n x k, Q: cols x k, grad: rows x cols. Tiles of 4 rows; PU__SUM columns at a time, because a
   sum of more terms in pu_real would lose digits. lint: the arguments are those of pu_op. */
PU__FN pu_status pu__dense_grad_rows(const pu_op *op, pu_int n, const pu_int *rows, pu_int k, pu_block P, pu_block Q,
                                     const pu_real *weight, pu_real *grad, PU_UNUSED pu_real *work)
{
    const pu_real *q[PU__SUM];
    pu_real factors[4 * PU__SUM], *to[4];
    for (pu_int j = 0; j < k; j += PU__SUM) {
        pu_int terms = pu__min(PU__SUM, k - j);
        for (pu_int i = 0; i < terms; i++)
            q[i] = pu__col(Q, j + i);
        for (pu_int m = 0; m < n; m += 4) {
            /* factors_ir = weight_i p_i[row r] */
            for (pu_int r = 0; r < 4; r++) {
                pu_int row = pu__min(m + r, n - 1); /* a missing row repeats the last one, which pu__tiles allows */
                to[r] = grad + (rows ? rows[row] : row) * op->cols;
                for (pu_int i = 0; i < terms; i++)
                    factors[4 * i + r] = weight[j + i] * pu__col(P, j + i)[row];
            }
            pu__tiles(terms, factors, q, op->cols, to);
        }
    }
    return PU_OK;
}

/* C (m x n, row-major) = A B, or += A B, with inner dimension `depth`, by BLAS. Returns 0 where
   that is not to be had: without PU_USE_CBLAS, and for sizes that do not fit its integers. Lists of
   rows stay with the code above, because gathering the rows costs more than gemm gains. So do fewer
   than PU__GEMM_COLUMNS columns, where reading the matrix is most of the work. */
#define PU__GEMM_COLUMNS 8
#ifdef PU_USE_CBLAS
PU__FN int pu__gemm(pu_int m, pu_int n, pu_int depth, pu__matrix A, pu__matrix B, int add, pu_real *C, pu_int ld)
{
    /* A factor whose rows are not contiguous is the transpose of one whose rows are. */
    int turn_a = A.col != 1, turn_b = B.col != 1;
    pu_int lda = turn_a ? A.col : A.row, ldb = turn_b ? B.col : B.row;
    if (pu__most(pu__most(m, n), pu__most(depth, pu__most(lda, pu__most(ldb, ld)))) > INT_MAX ||
        lda < (turn_a ? m : depth) || ldb < (turn_b ? depth : n) || ld < n)
        return 0;
#ifdef PU_FLOAT
    cblas_sgemm
#else
    cblas_dgemm
#endif
        (CblasRowMajor, turn_a ? CblasTrans : CblasNoTrans, turn_b ? CblasTrans : CblasNoTrans, (int)m, (int)n,
         (int)depth, 1, A.at, (int)lda, B.at, (int)ldb, add ? 1 : 0, C, (int)ld);
    return 1;
}
#else
#define pu__gemm(m, n, depth, A, B, add, C, ld) 0
#endif

/* Y = A X, or +=, all rows. To BLAS a block of columns is a row-major matrix with one row per
   column: Y' = X'A'. */
PU__FN pu_status pu__dense_apply(PU__APPLY_ARGS)
{
    if (k >= PU__GEMM_COLUMNS &&
        pu__gemm(k, op->rows, op->cols, pu__mat(X.at, X.ld, 1), pu__mat(pu__entries(op), 1, op->cols), add, Y.at, Y.ld))
        return PU_OK;
    return pu__dense_apply_rows(op, op->rows, NULL, k, X, Y, add, work);
}

/* Y = A'X, or +=, all rows; to BLAS Y' = X'A. */
PU__FN pu_status pu__dense_apply_t(PU__APPLY_ARGS)
{
    if (k >= PU__GEMM_COLUMNS &&
        pu__gemm(k, op->cols, op->rows, pu__mat(X.at, X.ld, 1), pu__mat(pu__entries(op), op->cols, 1), add, Y.at, Y.ld))
        return PU_OK;
    return pu__dense_apply_rows_t(op, op->rows, NULL, k, X, Y, add, work);
}

/* grad += P diag(weight) Q', all rows. BLAS knows no weights: Q diag(weight) goes into the scratch
   first, which pu_op_dense asks for only when there is BLAS. */
PU__FN pu_status pu__dense_grad(PU__GRAD_ARGS)
{
    pu_int cols = op->cols;
    if (op->work && work && k >= PU__GEMM_COLUMNS) {
        for (pu_int j = 0; j < k; j++)
            for (pu_int d = 0; d < cols; d++)
                work[j * cols + d] = weight[j] * pu__col(Q, j)[d];
        if (pu__gemm(op->rows, cols, k, pu__mat(P.at, 1, P.ld), pu__mat(work, cols, 1), 1, grad, cols))
            return PU_OK;
    }
    return pu__dense_grad_rows(op, op->rows, NULL, k, P, Q, weight, grad, work);
}

/* y_i += A_ii of a square matrix. */
PU__FN pu_status pu__dense_diag(PU__DIAG_ARGS)
{
    for (pu_int i = 0; i < op->rows; i++)
        y[i] += pu__entries(op)[i * op->cols + i];
    return PU_OK;
}

/* y_d += sum_m w_m A_md^2. Rows of weight zero (unobserved entries) are not read. */
PU__FN pu_status pu__dense_gram_diag(PU__GRAM_DIAG_ARGS)
{
    for (pu_int m = 0; m < op->rows; m++) {
        const pu_real *row = pu__entries(op) + m * op->cols;
        if (w[m] != 0)
            pu__add_product(op->cols, w[m], row, row, y);
    }
    return PU_OK;
}

/* All parameters are finite; *index: the first that is not, else -1. For every operator whose data
   are its parameters, also for one without any (then data may be NULL). */
PU__FN pu_status pu__dense_check(const pu_op *op, pu_int *index)
{
    *index = -1;
    return op->params ? pu__check_finite(op->params, pu__entries(op), index) : PU_OK;
}

/* See the declaration, as for all public functions. A matrix with more entries than fit a pu_int
   has params = PU_ZERO. */
PU_DEF pu_op pu_op_dense(pu_int rows, pu_int cols, const pu_real *a)
{
    pu_op op = pu__op_zero(rows, cols, 0, a);
    if (rows > 0 && cols > 0)
        op.params = rows > PTRDIFF_MAX / cols ? PU_ZERO : rows * cols;
    op.form = PU_FORM_MATRIX;
    op.apply = pu__dense_apply;
    op.apply_t = pu__dense_apply_t;
    op.grad = pu__dense_grad;
    op.gram_diag = pu__dense_gram_diag;
    op.check = pu__dense_check;
    op.apply_rows = pu__dense_apply_rows;
    op.apply_rows_t = pu__dense_apply_rows_t;
    op.grad_rows = pu__dense_grad_rows;
    op.trusted = 1; /* as a prior precision it must show its symmetry; pu_op_spd checks it entry by entry */
#ifdef PU_USE_CBLAS
    op.work = cols; /* grad only */
#endif
    return op;
}

/* ---- symmetric positive definite: A = L L' ----
   data = A, both triangles. aux = L, lower, n x n, zeros above the diagonal; or NULL, and then the
   functions that need L are missing. */

/* L, or NULL. */
PU__FN const pu_real *pu__spd_factor(const pu_op *op) { return (const pu_real *)op->aux; }

/* grad += sum_j weight_j (p_j q_j' + q_j p_j') / 2: the gradient of p'A q among symmetric matrices. */
PU__FN pu_status pu__spd_grad(PU__GRAD_ARGS)
{
    pu_int n = op->rows;
    for (pu_int i = 0; i < n; i++)
        for (pu_int j = 0; j < k; j++) {
            pu_real half = weight[j] / 2, *p = pu__col(P, j), *q = pu__col(Q, j);
            pu__axpy(n, half * p[i], q, grad + i * n);
            pu__axpy(n, half * q[i], p, grad + i * n);
        }
    return PU_OK;
}

/* Y = L X: draws, since L L' = A. */
PU__FN pu_status pu__spd_sample(PU__SOLVE_ARGS)
{
    for (pu_int i = 0; i < op->rows; i++)
        for (pu_int j = 0; j < k; j++)
            pu__col(Y, j)[i] = (pu_real)pu__dot(i + 1, NULL, pu__spd_factor(op) + i * op->rows, pu__col(X, j));
    return PU_OK;
}

/* Y = L'^-1 L^-1 X. Few columns are solved one by one, many together by blocks of the triangle. */
PU__FN pu_status pu__spd_solve(PU__SOLVE_ARGS)
{
    const pu_real *L = pu__spd_factor(op);
    pu_int n = op->rows;
    for (pu_int j = 0; j < k; j++) {
        pu_real *y = pu__col(Y, j);
        pu__copy(y, pu__col(X, j), n);
        if (k >= PU__FEW)
            continue;
        pu__lower_solve(n, L, 0, y);
        pu__upper_solve(n, L, n - 1, y);
    }
    if (k >= PU__FEW) {
        pu__triangle(n, L, n, 0, k, Y, 0, NULL);
        pu__triangle(n, L, n, 1, k, Y, 0, NULL);
    }
    return PU_OK;
}

/* log det A = 2 sum_i log L_ii */
PU__FN pu_status pu__spd_logdet(PU__LOGDET_ARGS)
{
    *value = 2 * pu__log_diagonal(op->rows, pu__spd_factor(op), op->rows + 1);
    return PU_OK;
}

/* d log det A / dA = A^-1: one solve per column, with the unit vector in work (n). */
PU__FN pu_status pu__spd_logdet_grad(PU__LOGDET_GRAD_ARGS)
{
    pu_int n = op->rows;
    for (pu_int j = 0; j < n; j++) {
        pu__zeros(work, n);
        work[j] = 1;
        pu__lower_solve(n, pu__spd_factor(op), j, work);
        pu__upper_solve(n, pu__spd_factor(op), n - 1, work);
        pu__axpy(n, weight, work, grad + j * n);
    }
    return PU_OK;
}

/* Row i of a Cholesky factor L, `length` = i + 1 entries, must have the square of its norm on the
   diagonal of L L'. Otherwise the factor is not one of this n x n matrix: it is stale. */
PU__FN int pu__factor_fits(pu_int n, pu_int length, const pu_real *row, double diagonal)
{
    return fabs(pu__dot(length, NULL, row, row) - diagonal) <= 100 * (double)PU__EPS * (double)n * diagonal;
}

/* What is wrong with A, and in which entry (*index): PU_E_NONFINITE, PU_E_NOT_DEFINITE (a diagonal
   entry is not positive), PU_E_NOT_SYMMETRIC (beyond rounding), PU_E_ARGUMENT (the factor is stale,
   as seen on the diagonal). */
PU__FN pu_status pu__spd_check(const pu_op *op, pu_int *index)
{
    pu_int n = op->rows;
    const pu_real *a = pu__entries(op), *L = pu__spd_factor(op);
    pu_status status = pu__check_finite(op->params, a, index);
    if (status)
        return status;
    for (pu_int i = 0; i < n; i++) {
        const pu_real *row = a + i * n;
        double diagonal = (double)row[i];
        *index = i * n + i;
        if (!(diagonal > 0))
            return PU_E_NOT_DEFINITE;
        if (L && !pu__factor_fits(n, i + 1, L + i * n, diagonal))
            return PU_E_ARGUMENT;
        for (pu_int j = 0; j < i; j++) {
            double difference = fabs((double)row[j] - (double)a[j * n + i]);
            *index = i * n + j;
            if (difference > 100 * (double)PU__EPS * sqrt(diagonal * (double)a[j * n + j]))
                return PU_E_NOT_SYMMETRIC;
        }
    }
    *index = -1;
    return PU_OK;
}

/* From the pivots of the factor, see pu__pivot_ratio. */
PU__FN double pu__spd_condition(const pu_op *op)
{
    return pu__pivot_ratio(op->rows, pu__entries(op), op->rows + 1, (const pu_real *)op->aux);
}

/* The functions of a dense matrix, except for those that know of the symmetry. */
PU_DEF pu_op pu_op_spd(pu_int n, const pu_real *a, const pu_real *factor)
{
    pu_op op = pu_op_dense(n, n, a);
    op.form = PU_FORM_SYMMETRIC;
    op.aux = factor;
    op.work = n;
    op.trusted = 2;
    op.apply_t = pu__dense_apply;
    op.grad = pu__spd_grad;
    op.diag = pu__dense_diag;
    op.check = pu__spd_check;
    /* those of a dense matrix: the gradient here is symmetrised, and so reaches rows that are not observed */
    op.apply_rows = NULL;
    op.apply_rows_t = NULL;
    op.grad_rows = NULL;
    if (!factor)
        return op;
    op.sample = pu__spd_sample;
    op.solve = pu__spd_solve;
    op.logdet = pu__spd_logdet;
    op.logdet_grad = pu__spd_logdet_grad;
    op.condition = pu__spd_condition;
    return op;
}

/* L L' = a in place. *index: -1, or the diagonal entry of `a` whose pivot is not positive. */
PU__FN pu_status pu__factor_spd(pu_int n, pu_real *a, pu_int *index)
{
    *index = pu__cholesky(n, a, n, NULL);
    if (*index < 0)
        return PU_OK;
    *index *= n + 1; /* from the row to its diagonal entry */
    return PU_E_NOT_DEFINITE;
}

/* Checks A, copies its lower triangle and factors the copy in place. */
PU_DEF pu_status pu_spd_factor(pu_int n, const pu_real *a, pu_real *factor, pu_int *index)
{
    pu_op op = pu_op_spd(n, a, NULL);
    pu_int ignored;
    pu_status status;
    if (!index)
        index = &ignored;
    *index = -1;
    if (!a || !factor)
        return PU_E_NULL;
    if (n <= 0)
        return PU_E_ARGUMENT;
    if (op.params < 0)
        return PU_E_OVERFLOW;
    status = pu__spd_check(&op, index);
    if (status)
        return status;
    for (pu_int i = 0; i < op.params; i++)
        factor[i] = i % n <= i / n ? a[i] : 0;
    return pu__factor_spd(n, factor, index);
}

/* ---- diagonal, identity, scaled identity: params = n entries, none (ones) or one (all equal) ----
   Of any operator of PU_FORM_DIAGONAL the functions read rows, params and data. */

/* Does every row have a parameter of its own? The alternatives are one for all rows, and none. */
PU__FN int pu__diagonal_full(const pu_op *op) { return op->params == op->rows || (op->data && op->aux == op->data); }

/* Entry i of the diagonal. */
PU__FN pu_real pu__diagonal_at(const pu_op *op, pu_int i)
{
    return op->data ? pu__entries(op)[pu__diagonal_full(op) ? i : 0] : 1;
}

/* Y = diag(a) X, or +=. One loop for each case, so that each can be vectorised. */
PU__FN pu_status pu__diagonal_apply(PU__APPLY_ARGS)
{
    const pu_real *a = pu__entries(op), scale = pu__diagonal_at(op, 0);
    pu_int n = op->rows;
    int full = pu__diagonal_full(op);
    for (pu_int j = 0; j < k; j++) {
        const pu_real *x = pu__col(X, j);
        pu_real *y = pu__col(Y, j);
        if (full && add)
            pu__add_product(n, 1, a, x, y);
        else if (add)
            pu__axpy(n, scale, x, y);
        else if (full)
            for (pu_int i = 0; i < n; i++)
                y[i] = a[i] * x[i];
        else
            for (pu_int i = 0; i < n; i++)
                y[i] = scale * x[i];
    }
    return PU_OK;
}

/* grad_i += sum_j weight_j p_ij q_ij; a single parameter receives the sum over i. */
PU__FN pu_status pu__diagonal_grad(PU__GRAD_ARGS)
{
    if (pu__diagonal_full(op))
        pu__cpu_row_dot(NULL, op->rows, k, NULL, weight, P, Q, 0, NULL, grad);
    else if (op->params)
        for (pu_int j = 0; j < k; j++)
            grad[0] += weight[j] * (pu_real)pu__dot(op->rows, NULL, pu__col(P, j), pu__col(Q, j));
    return PU_OK;
}

/* y_i += a_i */
PU__FN pu_status pu__diagonal_diag(PU__DIAG_ARGS)
{
    for (pu_int i = 0; i < op->rows; i++)
        y[i] += pu__diagonal_at(op, i);
    return PU_OK;
}

/* y_i += w_i a_i^2 */
PU__FN pu_status pu__diagonal_gram_diag(PU__GRAM_DIAG_ARGS)
{
    for (pu_int i = 0; i < op->rows; i++) {
        pu_real a = pu__diagonal_at(op, i);
        y[i] += w[i] * (a * a);
    }
    return PU_OK;
}

/* Y = diag(a)^1/2 E */
PU__FN pu_status pu__diagonal_sample(PU__SOLVE_ARGS)
{
    for (pu_int i = 0; i < op->rows; i++) {
        pu_real root = pu__sqrt(pu__diagonal_at(op, i));
        for (pu_int j = 0; j < k; j++)
            pu__col(Y, j)[i] = root * pu__col(X, j)[i];
    }
    return PU_OK;
}

/* Y = diag(a)^-1 X */
PU__FN pu_status pu__diagonal_solve(PU__SOLVE_ARGS)
{
    for (pu_int j = 0; j < k; j++)
        for (pu_int i = 0; i < op->rows; i++)
            pu__col(Y, j)[i] = pu__col(X, j)[i] / pu__diagonal_at(op, i);
    return PU_OK;
}

/* sum_i log a_i; n log a for a single parameter; 0 for the identity. */
PU__FN pu_status pu__diagonal_logdet(PU__LOGDET_ARGS)
{
    if (pu__diagonal_full(op))
        *value = pu__log_diagonal(op->rows, pu__entries(op), 1);
    else
        *value = (double)op->rows * log((double)pu__diagonal_at(op, 0));
    return PU_OK;
}

/* grad_i += weight times the number of entries that are parameter i, over a_i. */
PU__FN pu_status pu__diagonal_logdet_grad(PU__LOGDET_GRAD_ARGS)
{
    if (!pu__diagonal_full(op))
        weight *= (pu_real)op->rows;
    for (pu_int i = 0; i < op->params; i++)
        grad[i] += weight / pu__diagonal_at(op, i);
    return PU_OK;
}

/* B += diag(a). B is a band matrix with `width` + 1 entries per row, the diagonal one first. */
PU__FN pu_status pu__diagonal_band_add(const pu_op *op, pu_int width, double *B)
{
    for (pu_int i = 0; i < op->rows; i++)
        B[i * (width + 1)] += (double)pu__diagonal_at(op, i);
    return PU_OK;
}

/* grad_i += weight S_ii, the gradient of tr(diag(a) S), S stored like B. A single parameter
   receives the sum, taken in double. */
PU__FN pu_status pu__diagonal_band_grad(const pu_op *op, pu_int width, const double *S, double weight, pu_real *grad)
{
    int full = pu__diagonal_full(op);
    double sum = 0;
    for (pu_int i = 0; i < op->rows; i++) {
        if (full)
            grad[i] += (pu_real)(weight * *S);
        else
            sum += *S;
        S += width + 1;
    }
    if (op->params && !full)
        grad[0] += (pu_real)(weight * sum);
    return PU_OK;
}

/* Row m as Phi: one entry, in column m. */
PU__FN pu_int pu__diagonal_row(const pu_op *op, pu_int m, pu_int *first, pu_real *value)
{
    *first = m;
    *value = pu__diagonal_at(op, m);
    return 1;
}

/* The gradient of *g a_m. */
PU__FN pu_status pu__diagonal_row_grad(const pu_op *op, pu_int m, const double *g, pu_real *grad)
{
    if (op->params)
        grad[pu__diagonal_full(op) ? m : 0] += (pu_real)*g;
    return PU_OK;
}

/* The diagonal operator with `params` parameters a: n, 1 or 0 (then a may be NULL). */
PU__FN pu_op pu__op_diagonal(pu_int n, pu_int params, const pu_real *a)
{
    pu_op op = pu__op_zero(n, n, params, a);
    op.form = PU_FORM_DIAGONAL;
    if (params == n)
        op.aux = a; /* the mark of an entry each outlives a copy whose params are set to 0 */
    op.apply = op.apply_t = pu__diagonal_apply;
    op.grad = pu__diagonal_grad;
    op.diag = pu__diagonal_diag;
    op.gram_diag = pu__diagonal_gram_diag;
    op.sample = pu__diagonal_sample;
    op.solve = pu__diagonal_solve;
    op.logdet = pu__diagonal_logdet;
    op.logdet_grad = pu__diagonal_logdet_grad;
    op.check = pu__dense_check;
    op.band_add = pu__diagonal_band_add;
    op.band_grad = pu__diagonal_band_grad;
    op.row = pu__diagonal_row;
    op.row_grad = pu__diagonal_row_grad;
    op.flops = (double)n;
    return op;
}

/* The three kinds of diagonals differ in the number of parameters only. */
PU_DEF pu_op pu_op_diagonal(pu_int n, const pu_real *a) { return pu__op_diagonal(n, n, a); }
PU_DEF pu_op pu_op_identity(pu_int n) { return pu__op_diagonal(n, 0, NULL); }
PU_DEF pu_op pu_op_scaled_identity(pu_int n, const pu_real *a) { return pu__op_diagonal(n, 1, a); }

/* ---- products and sums of two operators L and R ----
   data = L, aux = R, both borrowed; parameters [L | R]. A function is there where both operands have
   what it needs. The scratch begins with the intermediate block; the rest of it goes to the operands. */

/* Declares the operands of op as L and R. */
#define PU__OPERANDS(L, R) const pu_op *L = (const pu_op *)op->data, *R = (const pu_op *)op->aux

/* Normals that a draw of this operator consumes. */
PU__FN pu_int pu__noise(const pu_op *op) { return op->noise > 0 ? op->noise : op->rows; }

/* A packed n x k block at the start of the scratch; *work moves behind it. */
PU__FN pu_block pu__scratch(pu_real **work, pu_int n, pu_int k)
{
    pu_block b = pu__rows(*work, n);
    *work += n * k;
    return b;
}

/* Y = L (R X), or +=; R X takes R->rows reals of scratch per column. */
PU__FN pu_status pu__product_apply(PU__APPLY_ARGS)
{
    PU__OPERANDS(L, R);
    pu_block T = pu__scratch(&work, R->rows, k);
    pu_status status = R->apply(R, k, X, T, 0, work);
    return status ? status : L->apply(L, k, T, Y, add, work);
}

/* Y = R'(L'X), or += */
PU__FN pu_status pu__product_apply_t(PU__APPLY_ARGS)
{
    PU__OPERANDS(L, R);
    pu_block T = pu__scratch(&work, L->cols, k);
    pu_status status = L->apply_t(L, k, X, T, 0, work);
    return status ? status : R->apply_t(R, k, T, Y, add, work);
}

/* The gradient of p'L R q: of p'L (R q) in the parameters of L, of (L'p)'R q in those of R. */
PU__FN pu_status pu__product_grad(PU__GRAD_ARGS)
{
    PU__OPERANDS(L, R);
    pu_block T = pu__scratch(&work, R->rows, k);
    pu_status status = PU_OK;
    /* T = R q for the left gradient, then T = L'p for the right one */
    if (L->params) {
        status = R->apply(R, k, Q, T, 0, work);
        if (!status)
            status = L->grad(L, k, P, T, weight, grad, work);
    }
    if (!status && R->params) {
        status = L->apply_t(L, k, P, T, 0, work);
        if (!status)
            status = R->grad(R, k, T, Q, weight, grad + L->params, work);
    }
    return status;
}

/* The checks of both operands. *index counts through the parameters [L | R]; -1 where no parameter
   is at fault. */
PU__FN pu_status pu__pair_check(const pu_op *op, pu_int *index)
{
    PU__OPERANDS(L, R);
    pu_status status;
    *index = -1;
    status = L->check ? L->check(L, index) : PU_OK;
    if (status || !R->check)
        return status;
    status = R->check(R, index);
    if (status && *index >= 0)
        *index += L->params;
    return status;
}

/* Y = L X + R X, or += */
PU__FN pu_status pu__sum_apply(PU__APPLY_ARGS)
{
    PU__OPERANDS(L, R);
    pu_status status = L->apply(L, k, X, Y, add, work);
    return status ? status : R->apply(R, k, X, Y, 1, work);
}

/* Y = L'X + R'X, or += */
PU__FN pu_status pu__sum_apply_t(PU__APPLY_ARGS)
{
    PU__OPERANDS(L, R);
    pu_status status = L->apply_t(L, k, X, Y, add, work);
    return status ? status : R->apply_t(R, k, X, Y, 1, work);
}

/* The gradient of p'L q + p'R q: each operand's own. */
PU__FN pu_status pu__sum_grad(PU__GRAD_ARGS)
{
    PU__OPERANDS(L, R);
    pu_status status = L->params ? L->grad(L, k, P, Q, weight, grad, work) : PU_OK;
    return status || !R->params ? status : R->grad(R, k, P, Q, weight, grad + L->params, work);
}

/* y += diag(L) + diag(R) */
PU__FN pu_status pu__sum_diag(PU__DIAG_ARGS)
{
    PU__OPERANDS(L, R);
    pu_status status = L->diag(L, y, work);
    return status ? status : R->diag(R, y, work);
}

/* F = [F_L | F_R]: independent draws of the two operands add up. The normals of R follow those of L
   in each column. */
PU__FN pu_status pu__sum_sample(PU__SOLVE_ARGS)
{
    PU__OPERANDS(L, R);
    pu_block T = pu__scratch(&work, op->rows, k);
    pu_status status = L->sample(L, k, X, Y, work);
    if (!status)
        status = R->sample(R, k, pu__below(X, pu__noise(L)), T, work);
    if (status)
        return status;
    for (pu_int j = 0; j < k; j++)
        pu__axpy(op->rows, 1, pu__col(T, j), pu__col(Y, j));
    return PU_OK;
}

/* Multiplications of a product with one column, for the planner. */
PU__FN double pu__flops(const pu_op *op)
{
    return op->flops > 0 ? op->flops : (double)op->params + (double)op->rows + (double)op->cols;
}

/* Can be an operand: not NULL, with sizes of which none is negative. */
PU__FN int pu__is_sound(const pu_op *op)
{
    return op && op->rows > 0 && op->cols > 0 && op->work >= 0 && op->noise >= 0;
}

/* A function of a pair of operators, or NULL unless both have what it is made of: the function f, or one that an
   operand without parameters does not owe. */
#define PU__BOTH(f, function) (left->f && right->f ? function : NULL)
#define PU__OWED(f, function) ((!left->params || left->f) && (!right->params || right->f) ? function : NULL)

/* What holds for products, sums and Kronecker products alike. No fact about one operand (form,
   band, the row functions) is one about the pair. Scratch per column: `extra` reals, then what
   either operand needs. aux is NULL when the operands are of no use. */
PU__FN pu_op pu__op_pair(const pu_op *left, const pu_op *right, pu_int extra)
{
    pu_op op = pu__op_zero(0, 0, PU_ZERO, left);
    if (!pu__is_sound(left) || !pu__is_sound(right))
        return op;
    op.aux = right;
    op.rows = left->rows;
    op.cols = right->cols;
    if (left->params >= 0 && right->params >= 0 && left->params <= PTRDIFF_MAX - right->params)
        op.params = left->params + right->params;
    /* where that does not fit, the size query overflows and says so */
    op.work = pu__min(pu__most(left->work, right->work), PTRDIFF_MAX - extra) + extra;
    op.trusted = (int)pu__min(left->trusted, right->trusted);
    op.check = pu__pair_check;
    op.flops = pu__flops(left) + pu__flops(right);
    return op;
}

/* Sizes that do not fit give an operator of size 0, which every call refuses. */
PU_DEF pu_op pu_op_product(const pu_op *left, const pu_op *right)
{
    pu_op op = pu__op_pair(left, right, right ? right->rows : 0);
    if (!op.aux || left->cols != right->rows)
        return pu__op_zero(0, 0, 0, NULL);
    op.apply = PU__BOTH(apply, pu__product_apply);
    op.apply_t = PU__BOTH(apply_t, pu__product_apply_t);
    if (op.apply && op.apply_t)
        op.grad = PU__OWED(grad, pu__product_grad);
    op.trusted = (int)pu__min(op.trusted, 1); /* a product of symmetric operators need not be symmetric */
    return op;
}

/* The same. There is no log det of a sum. */
/* That of the parts whose entries were computed by an inversion. */
PU__FN double pu__sum_condition(const pu_op *op)
{
    PU__OPERANDS(A, B);
    int left = A->form == PU_FORM_STATES && A->condition, right = B->form == PU_FORM_STATES && B->condition;
    return (left ? A->condition(A) : 1) + (right ? B->condition(B) : 1);
}

PU_DEF pu_op pu_op_sum(const pu_op *left, const pu_op *right)
{
    pu_op op = pu__op_pair(left, right, left ? left->rows : 0);
    if (!op.aux || left->rows != right->rows || left->cols != right->cols)
        return pu__op_zero(0, 0, 0, NULL);
    op.apply = PU__BOTH(apply, pu__sum_apply);
    op.apply_t = PU__BOTH(apply_t, pu__sum_apply_t);
    op.grad = PU__OWED(grad, pu__sum_grad);
    op.diag = PU__BOTH(diag, pu__sum_diag);
    op.sample = PU__BOTH(sample, pu__sum_sample);
    if (op.sample)
        op.noise = pu__noise(left) + pu__noise(right);
    op.condition = pu__sum_condition;
    return op;
}

/* ------------------------------------------------------------------------------------------------
   >>structured   sparse rows, diagonal plus low rank, Kronecker products
   ------------------------------------------------------------------------------------------------ */

/* ---- sparse matrix, compressed rows ----
   PU__CSR_WIDE columns at a time are interleaved in the scratch (cols reals per column). A stored entry
   then touches one cache line instead of four and feeds one vector instruction. A last group of two or
   three columns is filled up with zeros. Fewer than PU__CSR_WIDE columns in all have no room for that
   and are taken one by one. */

#define PU__CSR_WIDE 4

/* The stored entries of one row: value[i] in column index[i], i < count. Entry 0 is parameter
   `first` of the operator. */
typedef struct {
    pu_int count, first;
    const pu_int *index;
    const pu_real *value;
} pu__csr_entries;

/* Row m of the matrix behind an operator. */
PU__FN pu__csr_entries pu__csr_row(const pu_op *op, pu_int m)
{
    const pu_csr *a = (const pu_csr *)op->data;
    pu_int first = a->start[m];
    pu__csr_entries row = {a->start[m + 1] - first, first, a->index + first, a->value + first};
    return row;
}

/* How many of the k columns go together from column j on: 1, which is then not interleaved, or 2 ..
   PU__CSR_WIDE. */
PU__FN pu_int pu__csr_group(pu_int k, pu_int j) { return k < PU__CSR_WIDE ? 1 : pu__min(PU__CSR_WIDE, k - j); }

/* Interleaves the first `wide` columns of X, 2 .. PU__CSR_WIDE of them and n long, into T
   (PU__CSR_WIDE n). Zeros take the place of columns that are not there. */
PU__FN void pu__csr_pack(pu_int n, pu_int wide, pu_block X, pu_real *T)
{
    const pu_real *x0 = X.at, *x1 = pu__col(X, 1), *x2 = pu__col(X, wide > 2 ? 2 : 1),
                  *x3 = pu__col(X, wide > 3 ? 3 : 1);
    for (pu_int i = 0; i < n; i++) {
        T[0] = x0[i];
        T[1] = x1[i];
        T[2] = wide > 2 ? x2[i] : 0;
        T[3] = wide > 3 ? x3[i] : 0;
        T += PU__CSR_WIDE;
    }
}

/* The way back: the first `wide` interleaved columns of T into Y, or added to Y. */
PU__FN void pu__csr_unpack(pu_int n, pu_int wide, const pu_real *T, pu_block Y, int add)
{
    for (int c = 0; c < wide; c++) {
        pu_real *y = pu__col(Y, c);
        for (pu_int i = 0; i < n; i++)
            y[i] = T[i * PU__CSR_WIDE + c] + (add ? y[i] : 0);
    }
}

/* s_c = the product of a row with column c of T, in which `wide` columns are interleaved: a constant, so that the
   compiler unrolls the loops over them. As in pu__dot, sums run over PU__CHUNK entries in pu_real and are then
   added in double. */
PU__INLINE void pu__csr_dots(pu__csr_entries row, int wide, const pu_real *T, double *s)
{
    for (int c = 0; c < wide; c++)
        s[c] = 0;
    for (pu_int at = 0; at < row.count; at += PU__CHUNK) {
        pu_int end = pu__min(row.count, at + PU__CHUNK);
        pu_real part[PU__CSR_WIDE] = {0};
        for (pu_int i = at; i < end; i++) {
            pu_real a = row.value[i];
            const pu_real *x = T + row.index[i] * wide;
            for (int c = 0; c < wide; c++)
                part[c] += a * x[c];
        }
        for (int c = 0; c < wide; c++)
            s[c] += (double)part[c];
    }
}

/* Y = A X, or +=. X: cols x k, Y: rows x k. */
PU__FN pu_status pu__csr_apply(PU__APPLY_ARGS)
{
    double s[PU__CSR_WIDE];
    pu_int wide;
    for (pu_int j = 0; j < k; j += wide) {
        wide = pu__csr_group(k, j);
        if (wide > 1)
            pu__csr_pack(op->cols, wide, pu__from(X, j), work);
        for (pu_int m = 0; m < op->rows; m++) {
            pu__csr_entries row = pu__csr_row(op, m);
            if (wide > 1)
                pu__csr_dots(row, PU__CSR_WIDE, work, s);
            else
                pu__csr_dots(row, 1, pu__col(X, j), s);
            /* columns that were filled up with zeros are left out */
            for (int c = 0; c < wide; c++) {
                pu_real *y = pu__col(Y, j + c) + m;
                *y = add ? *y + (pu_real)s[c] : (pu_real)s[c];
            }
        }
    }
    return PU_OK;
}

/* x_c = entry m of column c, times weight_c unless weight is NULL; zeros for the columns that are
   not there. Returns 0 when all are zero: such a row (an unobserved entry) costs nothing. */
PU__FN int pu__csr_across(pu_int wide, pu_block X, pu_int m, const pu_real *weight, pu_real *x)
{
    int some = 0;
    for (int c = 0; c < PU__CSR_WIDE; c++) {
        x[c] = c < wide ? pu__col(X, c)[m] : 0;
        if (weight && c < wide)
            x[c] *= weight[c];
        some |= x[c] != 0;
    }
    return some;
}

/* Y = A'X, or +=. X: rows x k, Y: cols x k. Rows are taken in their order, so that every sum has
   one order. Interleaved columns are added up in the scratch and then moved to Y; a single one is
   added up in Y itself. */
PU__FN pu_status pu__csr_apply_t(PU__APPLY_ARGS)
{
    pu_real x[PU__CSR_WIDE], *y;
    pu_int wide;
    for (pu_int j = 0; j < k; j += wide) {
        wide = pu__csr_group(k, j);
        /* the sums begin with zero in the scratch, and with zero or Y in Y */
        if (wide > 1)
            pu__zeros(work, op->cols * PU__CSR_WIDE);
        else
            pu__clear(op->cols, 1, pu__from(Y, j), add);
        for (pu_int m = 0; m < op->rows; m++) {
            pu__csr_entries row = pu__csr_row(op, m);
            if (!pu__csr_across(wide, pu__from(X, j), m, NULL, x))
                continue;
            y = pu__col(Y, j);
            if (wide == 1)
                for (pu_int i = 0; i < row.count; i++)
                    y[row.index[i]] += row.value[i] * x[0];
            else
                for (pu_int i = 0; i < row.count; i++) {
                    pu_real a = row.value[i];
                    y = work + row.index[i] * PU__CSR_WIDE;
                    for (int c = 0; c < PU__CSR_WIDE; c++)
                        y[c] += a * x[c];
                }
        }
        if (wide > 1)
            pu__csr_unpack(op->cols, wide, work, pu__from(Y, j), add);
    }
    return PU_OK;
}

/* grad_s += sum_j weight_j p_j[row of s] q_j[column of s] for the stored entries s, which are the
   parameters. Of interleaved columns the products are added up before they go to grad. */
PU__FN pu_status pu__csr_grad(PU__GRAD_ARGS)
{
    const pu_real *q;
    pu_real p[PU__CSR_WIDE];
    pu_int wide;
    for (pu_int j = 0; j < k; j += wide) {
        wide = pu__csr_group(k, j);
        if (wide > 1)
            pu__csr_pack(op->cols, wide, pu__from(Q, j), work);
        for (pu_int m = 0; m < op->rows; m++) {
            pu__csr_entries row = pu__csr_row(op, m);
            pu_real *to = grad + row.first;
            if (!pu__csr_across(wide, pu__from(P, j), m, weight + j, p))
                continue;
            q = pu__col(Q, j);
            if (wide == 1)
                for (pu_int i = 0; i < row.count; i++)
                    to[i] += p[0] * q[row.index[i]];
            else
                for (pu_int i = 0; i < row.count; i++) {
                    q = work + row.index[i] * PU__CSR_WIDE;
                    to[i] += (p[0] * q[0] + p[1] * q[1]) + (p[2] * q[2] + p[3] * q[3]);
                }
        }
    }
    return PU_OK;
}

/* y_m += A_mm, where it is stored; of a square matrix. */
PU__FN pu_status pu__csr_diag(PU__DIAG_ARGS)
{
    for (pu_int m = 0; m < op->rows; m++) {
        pu__csr_entries row = pu__csr_row(op, m);
        for (pu_int i = 0; i < row.count; i++)
            if (row.index[i] == m)
                y[m] += row.value[i];
    }
    return PU_OK;
}

/* y_i += sum_m w_m A_mi^2 */
PU__FN pu_status pu__csr_gram_diag(PU__GRAM_DIAG_ARGS)
{
    for (pu_int m = 0; m < op->rows; m++) {
        pu__csr_entries row = pu__csr_row(op, m);
        for (pu_int i = 0; i < row.count; i++)
            y[row.index[i]] += w[m] * (row.value[i] * row.value[i]);
    }
    return PU_OK;
}

/* What is wrong with the arrays, and at which entry of `start`, `index` or `value` (*index).
   `start` is checked in full before any of it is used as an index, then the columns, then the
   values. PU_E_SIZE with *index = -1: the struct was changed since the operator was made. */
PU__FN pu_status pu__csr_check(const pu_op *op, pu_int *index)
{
    const pu_csr *a = (const pu_csr *)op->data;
    *index = -1;
    if (!a || !a->start || !a->index || !a->value)
        return PU_E_NULL;
    if (a->rows != op->rows || a->cols != op->cols)
        return PU_E_SIZE;
    for (pu_int m = 0; m <= a->rows; m++) {
        *index = m;
        if (m ? a->start[m] < a->start[m - 1] : a->start[0] != 0)
            return PU_E_SIZE;
    }
    /* also catches a matrix that has grown or shrunk since the operator was made */
    if (a->start[a->rows] != op->params)
        return PU_E_SIZE;
    /* columns strictly increase within a row */
    for (pu_int m = 0; m < a->rows; m++) {
        pu__csr_entries row = pu__csr_row(op, m);
        for (pu_int i = 0; i < row.count; i++) {
            *index = row.first + i;
            if (row.index[i] >= a->cols || row.index[i] <= (i ? row.index[i - 1] : -1))
                return PU_E_SIZE;
        }
    }
    return pu__check_finite(op->params, a->value, index);
}

/* The operator reads `start` only here; what it holds is not trusted before check. */
PU_DEF pu_op pu_op_csr(const pu_csr *a)
{
    pu_op op = pu__op_zero(0, 0, 0, a);
    if (!a || a->rows <= 0 || a->cols <= 0)
        return op;
    op.form = PU_FORM_SPARSE;
    op.rows = a->rows;
    op.cols = op.work = a->cols;
    op.params = a->start ? pu__most(a->start[a->rows], 0) : 0; /* check compares */
    op.apply = pu__csr_apply;
    op.apply_t = pu__csr_apply_t;
    op.grad = pu__csr_grad;
    op.gram_diag = pu__csr_gram_diag;
    op.check = pu__csr_check;
    if (a->rows == a->cols)
        op.diag = pu__csr_diag;
    op.trusted = 1;
    return op;
}

/* ---- diagonal plus low rank ----
   Op = D + U U' with D = diag(d) and U: n x r, row-major. Inverses and determinants need only
   C = I + U'D^-1 U = L L', r x r, whose factor L is kept. */

/* The matrices behind an operator. */
PU__FN const pu_low_rank *pu__low_rank_of(const pu_op *op) { return (const pu_low_rank *)op->data; }

/* T = U'X. X: n x k; T and `map`: r x k, packed. The sums over n run over PU__CHUNK rows in
   `map`, which is then added to T: many short sums lose fewer digits than a long one. */
PU__FN void pu__low_rank_project(const pu_low_rank *a, pu_int k, pu_block X, pu_real *T, pu_real *part)
{
    pu_int r = a->r;
    pu__zeros(T, r * k);
    for (pu_int at = 0; at < a->n; at += PU__CHUNK) {
        pu_int end = pu__min(a->n, at + PU__CHUNK);
        pu__zeros(part, r * k);
        for (pu_int i = at; i < end; i++)
            for (pu_int j = 0; j < k; j++)
                pu__axpy(r, pu__col(X, j)[i], a->u + i * r, part + j * r);
        pu__axpy(r * k, 1, part, T);
    }
}

/* Y = D X + U T, or +=, with D^1/2 instead of D when `root`.
   X, Y: n x k; T: r x k. */
PU__FN void pu__low_rank_expand(const pu_low_rank *a, int root, pu_int k, pu_block X, pu_block T, pu_block Y, int add)
{
    for (pu_int i = 0; i < a->n; i++) {
        pu_real d = root ? pu__sqrt(a->d[i]) : a->d[i];
        for (pu_int j = 0; j < k; j++) {
            pu_real *y = pu__col(Y, j) + i;
            pu_real s = d * pu__col(X, j)[i] + (pu_real)pu__dot(a->r, NULL, a->u + i * a->r, pu__col(T, j));
            *y = add ? *y + s : s;
        }
    }
}

/* Y = D X + U (U'X), or +=. Scratch: U'X and the partial sums. */
PU__FN pu_status pu__low_rank_apply(PU__APPLY_ARGS)
{
    const pu_low_rank *a = pu__low_rank_of(op);
    pu__low_rank_project(a, k, X, work, work + a->r * k);
    pu__low_rank_expand(a, 0, k, X, pu__rows(work, a->r), Y, add);
    return PU_OK;
}

/* The gradient of p'D q + (U'p)'(U'q): d_i receives p_i q_i, and row i of U receives p_i (U'q)' +
   q_i (U'p)'. grad: [d | U]. Scratch: U'P, U'Q and the partial sums. */
PU__FN pu_status pu__low_rank_grad(PU__GRAD_ARGS)
{
    const pu_low_rank *a = pu__low_rank_of(op);
    pu_int n = a->n, r = a->r;
    pu_real *Up = work, *Uq = Up + r * k, *part = Uq + r * k;
    /* d: entry by entry; U: row by row */
    pu__cpu_row_dot(NULL, n, k, NULL, weight, P, Q, 0, NULL, grad);
    pu__low_rank_project(a, k, P, Up, part);
    pu__low_rank_project(a, k, Q, Uq, part);
    for (pu_int i = 0; i < n; i++)
        for (pu_int j = 0; j < k; j++) {
            pu_real *row = grad + n + i * r;
            pu__axpy(r, weight[j] * pu__col(P, j)[i], Uq + j * r, row);
            pu__axpy(r, weight[j] * pu__col(Q, j)[i], Up + j * r, row);
        }
    return PU_OK;
}

/* y_i += d_i + |u_i|^2, u_i the row i of U. */
PU__FN pu_status pu__low_rank_diag(PU__DIAG_ARGS)
{
    const pu_low_rank *a = pu__low_rank_of(op);
    for (pu_int i = 0; i < a->n; i++) {
        const pu_real *u = a->u + i * a->r;
        y[i] += a->d[i] + (pu_real)pu__dot(a->r, NULL, u, u);
    }
    return PU_OK;
}

/* F = [D^1/2 | U], F F' = Op. A draw takes n + r normals, those for U behind the others. */
PU__FN pu_status pu__low_rank_sample(PU__SOLVE_ARGS)
{
    pu__low_rank_expand(pu__low_rank_of(op), 1, k, X, pu__below(X, op->rows), Y, 0);
    return PU_OK;
}

/* log det Op = log det D + log det C (matrix determinant lemma). */
PU__FN pu_status pu__low_rank_logdet(PU__LOGDET_ARGS)
{
    const pu_low_rank *a = pu__low_rank_of(op);
    *value = pu__log_diagonal(a->n, a->d, 1) + 2 * pu__log_diagonal(a->r, a->factor, a->r + 1);
    return PU_OK;
}

/* Op^-1 = D^-1 - D^-1 U C^-1 U' D^-1 (Woodbury), so with u the row i of U
     d log det / d d_i = (Op^-1)_ii  = (1 - |L^-1 u|^2 / d_i) / d_i
     d log det / d U   = 2 Op^-1 U   = 2 D^-1 U C^-1            (I - C^-1 (C - I) = C^-1: nothing cancels) */
PU__FN pu_status pu__low_rank_logdet_grad(PU__LOGDET_GRAD_ARGS)
{
    const pu_low_rank *a = pu__low_rank_of(op);
    pu_int n = a->n, r = a->r;
    for (pu_int i = 0; i < n; i++) {
        pu_real d = a->d[i];
        /* L^-1 u serves d_i, and L'^-1 L^-1 u = C^-1 u the row of U */
        pu__copy(work, a->u + i * r, r);
        pu__lower_solve(r, a->factor, 0, work);
        grad[i] += weight * ((1 - (pu_real)pu__dot(r, NULL, work, work) / d) / d);
        pu__upper_solve(r, a->factor, r - 1, work);
        pu__axpy(r, 2 * weight / d, work, grad + n + i * r);
    }
    return PU_OK;
}

/* Entries (row, first), (row, first + 1), .. of C up to the diagonal, at most PU__CAPACITANCE of
   them, so that one division by d serves several. The sums over all n are in double. Returns how
   many. */
#define PU__CAPACITANCE 8
PU__FN pu_int pu__low_rank_capacitance(const pu_low_rank *a, pu_int row, pu_int first, double *c)
{
    pu_int count = pu__min(PU__CAPACITANCE, row + 1 - first);
    for (pu_int l = 0; l < count; l++)
        c[l] = 0;
    for (pu_int i = 0; i < a->n; i++) {
        const pu_real *u = a->u + i * a->r;
        double s = (double)u[row] / (double)a->d[i];
        for (pu_int l = 0; l < count; l++)
            c[l] += s * (double)u[first + l];
    }
    if (first + count > row)
        c[row - first] += 1;
    return count;
}

/* d is finite and positive and U is finite, where *index counts through [d | U]. The sizes are
   those that the operator was made with. A factor has the diagonal of this very C; otherwise *index
   is the entry of C. */
PU__FN pu_status pu__low_rank_check(const pu_op *op, pu_int *index)
{
    const pu_low_rank *a = pu__low_rank_of(op);
    pu_int n = a->n, r = a->r;
    double c[PU__CAPACITANCE];
    pu_status status;
    *index = -1;
    if (n != op->rows || n * (r + 1) != op->params)
        return PU_E_SIZE;
    status = pu__check_finite(n, a->d, index);
    if (status)
        return status;
    for (pu_int i = 0; i < n; i++) {
        *index = i;
        if (!(a->d[i] > 0))
            return PU_E_NOT_POSITIVE;
    }
    status = pu__check_finite(n * r, a->u, index);
    if (status == PU_E_NONFINITE)
        *index += n;
    if (status || !a->factor)
        return status;
    for (pu_int i = 0; i < r; i++) {
        /* c[0] = C_ii */
        (void)pu__low_rank_capacitance(a, i, i, c);
        *index = i * (r + 1);
        if (!pu__factor_fits(r, i + 1, a->factor + i * r, c[0]))
            return PU_E_ARGUMENT;
    }
    *index = -1;
    return PU_OK;
}

/* Op^-1 = diag(d)^-1 - (what U adds to what is known): a difference of terms that are larger than it by up to C_ii,
   C = I + U'diag(d)^-1 U = L L'. So is its rounding, relatively. C_ii is the square of row i of L. */
PU__FN double pu__low_rank_condition(const pu_op *op)
{
    const pu_low_rank *a = pu__low_rank_of(op);
    double worst = 1;
    for (pu_int i = 0; i < a->r; i++)
        worst = pu__max(worst, pu__dot(i + 1, NULL, a->factor + i * a->r, a->factor + i * a->r));
    return worst;
}

/* A draw and a product need no factor, a log determinant does. */
PU_DEF pu_op pu_op_low_rank(const pu_low_rank *a)
{
    pu_op op = pu__op_zero(0, 0, 0, a);
    if (!a || a->n <= 0 || a->r <= 0)
        return op;
    op.rows = op.cols = a->n;
    op.params = PU_ZERO;
    if (a->r <= PTRDIFF_MAX / 3 / a->r && a->n <= PTRDIFF_MAX / (a->r + 1)) { /* scratch and factor; parameters */
        op.params = a->n * (a->r + 1);
        op.noise = a->n + a->r;
        op.work = 3 * a->r;
    }
    op.apply = op.apply_t = pu__low_rank_apply;
    op.grad = pu__low_rank_grad;
    op.diag = pu__low_rank_diag;
    op.sample = pu__low_rank_sample;
    op.check = pu__low_rank_check;
    if (!a->factor)
        return op;
    op.logdet = pu__low_rank_logdet;
    op.logdet_grad = pu__low_rank_logdet_grad;
    op.condition = pu__low_rank_condition;
    return op;
}

/* Checks the numbers, makes the lower triangle of C row by row, and factors it in place. */
PU_DEF pu_status pu_low_rank_factor(const pu_low_rank *a, pu_int *index)
{
    double c[PU__CAPACITANCE];
    pu_int ignored, count, r;
    pu_low_rank bare;
    pu_status status;
    pu_op op;
    if (!index)
        index = &ignored;
    *index = -1;
    if (!a || !a->d || !a->u || !a->factor)
        return PU_E_NULL;
    if (a->n <= 0 || a->r <= 0)
        return PU_E_ARGUMENT;
    bare = *a;
    bare.factor = NULL; /* not yet to be compared */
    op = pu_op_low_rank(&bare);
    if (op.params < 0)
        return PU_E_OVERFLOW;
    status = pu__low_rank_check(&op, index);
    if (status)
        return status;
    r = a->r;
    pu__zeros(a->factor, r * r);
    for (pu_int i = 0; i < r; i++)
        for (pu_int j = 0; j <= i; j += count) {
            count = pu__low_rank_capacitance(a, i, j, c);
            for (pu_int l = 0; l < count; l++)
                a->factor[i * r + j + l] = (pu_real)c[l];
        }
    return pu__factor_spd(r, a->factor, index);
}

/* ---- Kronecker product: left = A (ra x ca), right = B (rb x cb), (A (x) B) vec X = vec A X B' ----
   A column of X is a row-major ca x cb matrix. B runs along its rows, which are contiguous. A needs
   its columns, so it runs along the rows of the transpose. Matrices in the scratch have room for
   `area` reals per column. */

/* Which function of the operands. */
typedef enum { PU__APPLY, PU__APPLY_T, PU__SAMPLE } pu__map;

/* Entries of a vector that `map` of an operand takes in. */
PU__FN pu_int pu__kron_in(const pu_op *op, pu__map map)
{
    if (map == PU__SAMPLE)
        return pu__noise(op);
    return map == PU__APPLY ? op->cols : op->rows;
}

/* Entries of a vector that it gives out. */
PU__FN pu_int pu__kron_out(const pu_op *op, pu__map map) { return map == PU__APPLY_T ? op->cols : op->rows; }

/* The longest of an operand's three kinds of vectors: rows, columns, normals. */
PU__FN pu_int pu__kron_side(const pu_op *op)
{
    return pu__most(pu__most(op->rows, op->cols), op->sample ? pu__noise(op) : 0);
}

/* Room for any matrix between the two operands of a Kronecker product. */
PU__FN pu_int pu__kron_area(const pu_op *op)
{
    PU__OPERANDS(A, B);
    return pu__kron_side(A) * pu__kron_side(B);
}

/* Each of k matrices, rows x cols in the columns of X, transposed into the columns of Y, or added
   to them. */
PU__FN void pu__kron_turn(pu_int k, pu_int rows, pu_int cols, pu_block X, pu_block Y, int add)
{
    for (pu_int j = 0; j < k; j++)
        pu__transpose(rows, cols, pu__col(X, j), pu__col(Y, j), add);
}

/* Half of a product: `map` of an operand runs along each of the `rows` rows of the k matrices in
   X. What comes out is transposed into Y, or added to it, so that the other operand can run along
   the rows in turn.
   Scratch: `area` reals per column, then what the operand needs for k * rows columns. */
PU__FN pu_status pu__kron_half(const pu_op *op, pu__map map, pu_int rows, pu_int k, pu_block X, pu_block Y, int add,
                               pu_real *work)
{
    pu_int in = pu__kron_in(op, map), out = pu__kron_out(op, map),
           together = X.ld == rows * in ? k : 1; /* packed columns go through the operand in one call */
    pu_block S = pu__scratch(&work, rows * out, k);
    pu_status status = PU_OK;
    for (pu_int j = 0; j < k && !status; j += together) {
        pu_block from = pu__rows(pu__col(X, j), in), to = pu__rows(pu__col(S, j), out);
        if (map == PU__SAMPLE)
            status = op->sample(op, together * rows, from, to, work);
        else
            status = (map == PU__APPLY ? op->apply : op->apply_t)(op, together * rows, from, to, 0, work);
    }
    if (!status)
        pu__kron_turn(k, rows, out, S, Y, add);
    return status;
}

/* T = (X B')', Y = (T A')' = A X B', or +=. For the transpose A', B' take the place of A, B, and
   for draws their factors F. */
PU__FN pu_status pu__kron_run(const pu_op *op, pu__map map, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    PU__OPERANDS(A, B);
    pu_int ca = pu__kron_in(A, map), rb = pu__kron_out(B, map);
    pu_block T = pu__scratch(&work, ca * rb, k);
    pu_status status = pu__kron_half(B, map, ca, k, X, T, 0, work);
    return status ? status : pu__kron_half(A, map, rb, k, T, Y, add, work);
}

/* Y = A X B', or += */
PU__FN pu_status pu__kron_apply(PU__APPLY_ARGS) { return pu__kron_run(op, PU__APPLY, k, X, Y, add, work); }

/* Y = A' X B, or += */
PU__FN pu_status pu__kron_apply_t(PU__APPLY_ARGS) { return pu__kron_run(op, PU__APPLY_T, k, X, Y, add, work); }

/* (F_A (x) F_B)(F_A (x) F_B)' = A (x) B */
PU__FN pu_status pu__kron_sample(PU__SOLVE_ARGS) { return pu__kron_run(op, PU__SAMPLE, k, X, Y, 0, work); }

/* `count` copies of each of the k weights. */
PU__FN void pu__kron_weights(pu_int k, pu_int count, const pu_real *weight, pu_real *copies)
{
    for (pu_int i = 0; i < k * count; i++)
        copies[i] = weight[i / count];
}

/* p'(A (x) B) q = tr(P' A Q B'), P: ra x rb, Q: ca x cb.
     A: with R = Q B', the sum over the rb columns of p_s' A r_s;
     B: with S = A'P, the sum over the ca rows of s_i' B q_i. */
PU__FN pu_status pu__kron_grad(PU__GRAD_ARGS)
{
    PU__OPERANDS(A, B);
    pu_int ra = A->rows, ca = A->cols, rb = B->rows;
    pu_block Pt = pu__scratch(&work, ra * rb, k), T = pu__scratch(&work, ca * rb, k); /* R', then S */
    pu_real *copies = pu__scratch(&work, pu__most(ca, rb), k).at;
    pu_status status = PU_OK;
    pu__kron_turn(k, ra, rb, P, Pt, 0);
    /* A: T = R'; the columns of P and R are the rows of P' and R' */
    if (A->params) {
        status = pu__kron_half(B, PU__APPLY, ca, k, Q, T, 0, work);
        pu__kron_weights(k, rb, weight, copies);
        if (!status)
            status = A->grad(A, k * rb, pu__rows(Pt.at, ra), pu__rows(T.at, ca), copies, grad, work);
    }
    if (status || !B->params)
        return status;
    /* B: T = S. The columns of Q need not be packed, so that they are taken one by one */
    status = pu__kron_half(A, PU__APPLY_T, rb, k, Pt, T, 0, work);
    pu__kron_weights(k, ca, weight, copies);
    for (pu_int j = 0; j < k && !status; j++)
        status = B->grad(B, ca, pu__rows(pu__col(T, j), rb), pu__rows(pu__col(Q, j), B->cols), copies + j * ca,
                         grad + A->params, work);
    return status;
}

/* y_is += A_ii B_ss */
PU__FN pu_status pu__kron_diag(PU__DIAG_ARGS)
{
    PU__OPERANDS(A, B);
    pu_real *a = work, *b = a + A->rows, *rest = work + 2 * pu__kron_area(op); /* ra + rb <= 2 ra rb */
    pu_status status;
    pu__zeros(work, A->rows + B->rows);
    /* both diagonals, then their outer product */
    status = A->diag(A, a, rest);
    if (!status)
        status = B->diag(B, b, rest);
    if (status)
        return status;
    for (pu_int i = 0; i < A->rows; i++)
        pu__axpy(B->rows, a[i], b, y + i * B->rows);
    return PU_OK;
}

/* y_is += sum_mn w_mn A_mi^2 B_ns^2, with w: ra x rb and y: ca x cb.
   B's own function on each row of w gives G: ra x cb; then A's on each column of G. */
PU__FN pu_status pu__kron_gram_diag(PU__GRAM_DIAG_ARGS)
{
    PU__OPERANDS(A, B);
    pu_int ra = A->rows, ca = A->cols, cb = B->cols;
    pu_real *G = work, *Gt = G + pu__kron_area(op), *rest = Gt + pu__kron_area(op);
    pu_status status = PU_OK;
    /* G_ms = sum_n w_mn B_ns^2, then y_is += sum_m A_mi^2 G_ms */
    pu__zeros(G, ra * cb);
    for (pu_int i = 0; i < ra && !status; i++)
        status = B->gram_diag(B, w + i * B->rows, G + i * cb, rest);
    pu__transpose(ra, cb, G, Gt, 0);
    pu__zeros(G, ca * cb);
    for (pu_int i = 0; i < cb && !status; i++)
        status = A->gram_diag(A, Gt + i * ra, G + i * ca, rest);
    if (!status)
        pu__transpose(cb, ca, G, y, 1);
    return status;
}

/* Inverse and log det are made of those of the factors, whose relative errors add up. */
PU__FN double pu__kron_condition(const pu_op *op)
{
    PU__OPERANDS(A, B);
    return (A->condition ? A->condition(A) : 1) + (B->condition ? B->condition(B) : 1);
}

/* det(A (x) B) = det(A)^rb det(B)^ra */
PU__FN pu_status pu__kron_logdet(PU__LOGDET_ARGS)
{
    PU__OPERANDS(A, B);
    double a = 0, b = 0;
    pu_status status = A->logdet(A, &a, work);
    if (!status)
        status = B->logdet(B, &b, work);
    *value = (double)B->rows * a + (double)A->rows * b;
    return status;
}

/* Each operand's own gradient, as many times as its determinant occurs. */
PU__FN pu_status pu__kron_logdet_grad(PU__LOGDET_GRAD_ARGS)
{
    PU__OPERANDS(A, B);
    pu_status status = A->params ? A->logdet_grad(A, weight * (pu_real)B->rows, grad, work) : PU_OK;
    return status || !B->params ? status : B->logdet_grad(B, weight * (pu_real)A->rows, grad + A->params, work);
}

/* The scratch: three matrices, copies of the weights for grad, and what the operands need, where A
   runs on at most b columns for every one of the product and B on at most a. It is first counted in
   doubles, which do not overflow. */
PU_DEF pu_op pu_op_kronecker(const pu_op *left, const pu_op *right)
{
    pu_op op = pu__op_pair(left, right, 0);
    pu_int a, b;
    double need;
    if (!op.aux)
        return pu__op_zero(0, 0, 0, NULL);
    a = pu__kron_side(left);
    b = pu__kron_side(right);
    op.flops = (double)left->cols * pu__flops(right) + (double)right->rows * pu__flops(left);
    /* not less than the sum below, which is safe when this is */
    need = (double)a * (4 * (double)b + (double)right->work) + (double)b * (double)left->work;
    if (need > (double)(PTRDIFF_MAX / 2))
        op.params = PU_ZERO;
    if (op.params < 0)
        return op;
    op.rows = left->rows * right->rows;
    op.cols = left->cols * right->cols;
    op.work = 3 * a * b + pu__most(a, b) + pu__most(b * left->work, a * right->work);
    op.apply = PU__BOTH(apply, pu__kron_apply);
    op.apply_t = PU__BOTH(apply_t, pu__kron_apply_t);
    if (op.apply && op.apply_t)
        op.grad = PU__OWED(grad, pu__kron_grad);
    op.gram_diag = PU__BOTH(gram_diag, pu__kron_gram_diag);
    if (left->rows != left->cols || right->rows != right->cols)
        return op; /* what follows is for square operands */
    op.diag = PU__BOTH(diag, pu__kron_diag);
    op.sample = PU__BOTH(sample, pu__kron_sample);
    if (op.sample)
        op.noise = pu__noise(left) * pu__noise(right);
    op.logdet = PU__BOTH(logdet, pu__kron_logdet);
    op.condition = op.logdet ? pu__kron_condition : NULL;
    op.logdet_grad = PU__OWED(logdet_grad, pu__kron_logdet_grad);
    return op;
}

/* ------------------------------------------------------------------------------------------------
   >>series   autoregression
   ------------------------------------------------------------------------------------------------ */

/* ---- the precision matrix of an autoregression ----
   Let a = (1, -phi_1, .., -phi_P). Prediction errors of growing order are independent, so that
   Gamma = X'X with X lower triangular:
     row t of X:  (s_m / kappa)^1/2 a^(m)_j at column t - j,  j = 0 .. m,    m = min(t, P).
   a^(m) predicts from the last m values only (Durbin-Levinson):
     a^(0) = (1),   a^(m) = (a^(m-1), 0) - gamma_m (0, a^(m-1) reversed),   s_m = prod_{i > m} (1 - gamma_i^2).
   This is the R'R = Dm of the stationary start, without forming Dm or factorising it. Multiplied
   out, for n >= 2 P:
     A row at least P away from both ends holds sum_j a_j a_{j+k} / kappa at lag k. It is the same for all: a filter.
     The rows i < P are (U U')_ij with U_il = a_{i-l} / kappa^1/2, i >= l >= 0. Gamma is persymmetric, so this
     is the lower end of X'X reversed, where X is Toeplitz. No large numbers are subtracted from each other.
   "Edge rows" are the P rows at each end. For n < 2 P all rows are edge rows. */

#define PU__AR_TRIANGLE ((PU_AR_MAX + 1) * (PU_AR_MAX + 2) / 2) /* entries of a^(0) .. a^(P) */

/* Where a^(m) begins in a triangle of such entries. */
PU__FN pu_int pu__ar_row(pu_int m) { return m * (m + 1) / 2; }

/* 1 - gamma^2, without cancellation. */
PU__FN double pu__ar_gap(pu_real gamma) { return (1 - (double)gamma) * (1 + (double)gamma); }

/* The autoregression that an operator stands for. */
PU__FN const pu_ar *pu__ar_of(const pu_op *op) { return (const pu_ar *)op->data; }

/* x_j := (x_j + g x_{m-j}) / gap for 0 < j < m, in place. With -gamma_m and 1 this is a step of
   Durbin-Levinson; with gamma_m and 1 - gamma_m^2 it takes the step back. */
PU__FN void pu__ar_reflect(pu_int m, double g, double gap, double *x)
{
    for (pu_int j = 1; 2 * j <= m; j++) {
        double low = x[j], high = x[m - j];
        x[j] = (low + g * high) / gap;
        x[m - j] = (high + g * low) / gap;
    }
}

/* Turns a^(m-1) into a^(m), m + 1 numbers; m = 0 begins with a^(0). */
PU__FN void pu__ar_grow(const pu_ar *ar, pu_int m, double *a)
{
    if (m == 0) {
        a[0] = 1;
        return;
    }
    a[m] = -(double)ar->gamma[m - 1];
    pu__ar_reflect(m, a[m], 1, a);
}

/* a = a^(m), m + 1 numbers. */
PU__FN void pu__ar_predictor(const pu_ar *ar, pu_int m, double *a)
{
    for (pu_int l = 0; l <= m; l++)
        pu__ar_grow(ar, l, a);
}

/* s = (s_0, .., s_P), the precision of the errors of a^(m) relative to that of a^(P):
     s_P = 1,   s_{m-1} = s_m (1 - gamma_m^2) */
PU__FN void pu__ar_spread(const pu_ar *ar, double *s)
{
    s[ar->order] = 1;
    for (pu_int m = ar->order; m > 0; m--)
        s[m - 1] = s[m] * ar->gap[m - 1];
}

/* Fills in phi, the rows of X and the band, which follow from n, order, gamma and kappa. */
PU__FN void pu__ar_derive(pu_ar *ar)
{
    double kappa = (double)ar->kappa;
    pu_int P = ar->order;
    double a[PU_AR_MAX + 1], s[PU_AR_MAX + 1];
    pu__ar_spread(ar, s);
    /* row m of X: (s_m / kappa)^1/2 a^(m) */
    for (pu_int m = 0; m <= P; m++) {
        pu__ar_grow(ar, m, a);
        for (pu_int j = 0; j <= m; j++)
            ar->rows[pu__ar_row(m) + j] = (pu_real)(sqrt(s[m] / kappa) * a[j]);
    }
    for (pu_int j = 0; j < P; j++)
        ar->phi[j] = (pu_real)-a[j + 1];
    /* lag k of the filter: sum_j a_j a_{j+k} / kappa */
    for (pu_int k = 0; k <= P; k++) {
        double sum = 0;
        for (pu_int j = 0; j + k <= P; j++)
            sum += a[j] * a[j + k];
        ar->band[P + k] = (pu_real)(sum / kappa);
        ar->band[P - k] = ar->band[P + k];
    }
}

/* Row t of X: entry j is at column t - j, j = 0 .. min(t, P). */
PU__FN const pu_real *pu__ar_x(const pu_ar *ar, pu_int t) { return ar->rows + pu__ar_row(pu__min(t, ar->order)); }

/* Entry i of X'x. */
PU__FN pu_real pu__ar_xt(const pu_ar *ar, const pu_real *x, pu_int i)
{
    pu_int end = pu__min(ar->n, i + ar->order + 1);
    pu_real sum = 0;
    for (pu_int t = i; t < end; t++)
        sum += pu__ar_x(ar, t)[t - i] * x[t];
    return sum;
}

/* How many edge rows there are. */
PU__FN pu_int pu__ar_edges(const pu_ar *ar) { return pu__min(2 * ar->order, ar->n); }

/* Edge row number l: the first P rows, then the last ones. */
PU__FN pu_int pu__ar_edge(const pu_ar *ar, pu_int l) { return l < ar->order ? l : ar->n - pu__ar_edges(ar) + l; }

/* Where the chunk that holds row `at` ends. Chunks begin at multiples of their size. What is
   computed from a chunk is still in the first-level cache when the next step reads it. */
PU__FN pu_int pu__ar_chunk(pu_int at, pu_int size, pu_int end) { return pu__min(at / size * size + size, end); }

/* ---- the ends of products ---- */

/* The P entries of Gamma x at one end, n >= 2 P: s = U (U'x). Entry i is at x[i dir]: dir = 1 at
   the upper end, -1 at the lower one. The sums of U z begin with a_0 if forward, else with z_0. */
PU__FN void pu__ar_end(const pu_ar *ar, pu_int dir, const pu_real *x, int forward, pu_real *s)
{
    pu_int P = ar->order;
    const pu_real *a = pu__ar_x(ar, P);
    pu_real z[PU_AR_MAX] = {0};
    /* z = U'x, tap by tap */
    for (pu_int j = 0; j <= P; j++)
        for (pu_int l = 0; l < P; l++)
            z[l] += a[j] * x[(l + j) * dir];
    /* s = U z, entry by entry */
    for (pu_int i = 0; i < P; i++) {
        s[i] = 0;
        for (pu_int l = 0; l <= i; l++)
            s[i] += forward ? a[l] * z[i - l] : a[i - l] * z[l];
    }
}

/* The 2 P edge rows of y = c Gamma x, or y += if add; n >= 2 P. */
PU__FN void pu__ar_ends(const pu_ar *ar, pu_real c, const pu_real *x, pu_real *y, int add)
{
    pu_real s[2 * PU_AR_MAX];
    pu__ar_end(ar, 1, x, 0, s);
    pu__ar_end(ar, -1, x + ar->n - 1, 0, s + ar->order);
    for (pu_int l = 0; l < 2 * ar->order; l++)
        pu__set(y + (l < ar->order ? l : ar->n - 1 - l + ar->order), c * s[l], add);
}

/* x'Gamma x = |X x|^2, in double: a sum of squares, where x'(Gamma x) cancels when a process near its unit root is far
   from zero. *size as for pu__ssm_square. */
PU__FN double pu__ar_square(const pu_op *op, const pu_real *x, double *size)
{
    const pu_ar *ar = pu__ar_of(op);
    pu_int P = ar->order, some;
    double sum = 0, sizes = 0;
    for (pu_int t = 0; t < ar->n; t += some) {
        const pu_real *row = pu__ar_x(ar, t);
        double u[8] = {0}, terms[8] = {0}; /* of so many rows at a time, if they are there and alike */
        some = t >= P && t + 8 <= ar->n ? 8 : 1;
        for (pu_int j = 0; j <= P && some == 8; j++)
            for (pu_int l = 0; l < 8; l++) {
                double term = (double)row[j] * (double)x[t - j + l];
                u[l] += term;
                terms[l] += fabs(term);
            }
        for (pu_int j = 0; j <= pu__min(t, P) && some == 1; j++) {
            double term = (double)row[j] * (double)x[t - j];
            u[0] += term;
            terms[0] += fabs(term);
        }
        for (pu_int l = 0; l < 8; l++) {
            sum += u[l] * u[l];
            sizes += terms[l] * (fabs(u[l]) + (double)PU__EPS * terms[l]);
        }
    }
    *size += sizes;
    return sum;
}

/* y = X'(X x), or y += if add, for n < 2 P, where the two ends overlap. */
PU__FN void pu__ar_apply_short(const pu_ar *ar, const pu_real *x, pu_real *y, int add)
{
    pu_real u[2 * PU_AR_MAX];
    /* u = X x */
    for (pu_int i = 0; i < ar->n; i++) {
        u[i] = 0;
        for (pu_int j = 0; j <= pu__min(i, ar->order); j++)
            u[i] += pu__ar_x(ar, i)[j] * x[i - j];
    }
    /* y = X'u */
    for (pu_int i = 0; i < ar->n; i++)
        pu__set(y + i, pu__ar_xt(ar, u, i), add);
}

/* ---- products of order 5, the commonest one ----
   Columns of PU__AR_LONG rows or more with a diagonal w have vector code of their own. PU__AR_EDGE
   rows at the upper end and up to twice as many at the lower one are computed in copies with zeros
   around them. So the vector code need not know where a column ends, and what lies between is whole
   vectors. */
enum { PU__AR_EDGE = 16, PU__AR_LONG = 4 * PU__AR_EDGE };

/* Whether that code is to be used. */
PU__FN int pu__ar_is_long5(const pu_ar *ar, const pu_real *w) { return ar->order == 5 && ar->n >= PU__AR_LONG && w; }

/* First row of the lower end. */
PU__FN pu_int pu__ar_lower(pu_int n) { return n / PU__AR_EDGE * PU__AR_EDGE - PU__AR_EDGE; }

/* Copies rows at - 16 .. at + 47 of a column of n, with zeros for those that are not there. at: 0
   or the lower end. */
PU__FN void pu__ar_around(pu_int n, const pu_real *x, pu_int at, pu_real *to)
{
    pu_int from = at > 0 ? at - PU__AR_EDGE : 0;
    pu_int end = pu__min(n, at + 3 * PU__AR_EDGE);
    pu__zeros(to, PU__AR_LONG);
    pu__copy(to + PU__AR_EDGE + from - at, x + from, end - from);
}

/* The five edge rows of y = c (Gamma + diag(w)) x at one end. y holds the rows from `at` on, x and
   w all of them. */
PU__FN void pu__ar_end5(const pu_ar *ar, pu_int at, pu_real c, const pu_real *x, const pu_real *w, pu_real *y)
{
    pu_int dir = at ? -1 : 1;
    pu_int start = at ? ar->n - 1 : 0;
    pu_real s[5];
    pu__ar_end(ar, dir, x + start, 1, s);
    for (pu_int i = 0; i < 5; i++) {
        pu_int row = start + i * dir;
        y[row - at] = c * (s[i] + w[row] * x[row]);
    }
}

/* The rows from `at` on, 0 or pu__ar_lower: y = Gamma x + w o x. Returns the sum of their x_u y_u. */
PU__FN double pu__ar_edge5(const pu_ar *ar, pu_int at, const pu_real *x, const pu_real *w, pu_real *y)
{
    enum { E = PU__AR_EDGE };
    pu_int rows = at ? ar->n - at : (pu_int)E;
    pu_real xs[PU__AR_LONG], ws[PU__AR_LONG], ys[2 * PU__AR_EDGE];
    pu__ar_around(ar->n, x, at, xs);
    pu__ar_around(ar->n, w, at, ws);
    /* all rows as if they were far from the end, then the five that are not */
    pu__ar_filter5(rows > E ? 2 * E : E, ar->band + 5, xs + E, ws + E, ys);
    pu__ar_end5(ar, at, 1, x, w, ys);
    pu__copy(y + at, ys, rows);
    return (double)pu__dot_chunk(rows, NULL, xs + E, ys);
}

/* All rows, where pu__ar_is_long5: y = Gamma x + w o x. Returns x'y. */
PU__FN double pu__ar_apply5(const pu_ar *ar, const pu_real *x, const pu_real *w, pu_real *y)
{
    pu_int lower = pu__ar_lower(ar->n);
    double sum = pu__ar_edge5(ar, 0, x, w, y);
    pu_int end;
    for (pu_int at = PU__AR_EDGE; at < lower; at = end) {
        end = pu__ar_chunk(at, PU__CHUNK, lower);
        sum += pu__ar_filter5(end - at, ar->band + 5, x + at, w + at, y + at);
    }
    return sum + pu__ar_edge5(ar, lower, x, w, y);
}

/* ---- products of any order ---- */

/* y = Gamma x + w o x, or y += if add; w may be NULL. Returns x'y. */
PU__FN double pu__ar_apply_column(const pu_ar *ar, const pu_real *x, const pu_real *w, pu_real *y, int add)
{
    pu_int n = ar->n, P = ar->order;
    double sum = 0;
    pu_int end;
    if (pu__ar_is_long5(ar, w) && !add)
        return pu__ar_apply5(ar, x, w, y);
    if (n < 2 * P)
        pu__ar_apply_short(ar, x, y, add);
    else
        pu__ar_ends(ar, 1, x, y, add);
    /* what lies between is a filter, which adds w o x at once */
    for (pu_int at = P; at < n - P; at = end) {
        end = pu__ar_chunk(at, PU__CHUNK, n - P);
        pu__ar_filter(end - at, 2 * P + 1, ar->band, x + at - P, w ? w + at : NULL, y + at, add);
        sum += (double)pu__dot_chunk(end - at, NULL, x + at, y + at);
    }
    /* the edge rows have no w o x yet */
    for (pu_int l = 0; l < pu__ar_edges(ar); l++) {
        pu_int i = pu__ar_edge(ar, l);
        if (w)
            y[i] += w[i] * x[i];
        sum += (double)x[i] * (double)y[i];
    }
    return sum;
}

/* Y = (Gamma + diag(w)) X, or Y += if add; s_j = x_j'y_j. w (n) and s (k) may be NULL. */
PU__FN pu_status pu__ar_apply_plus(const pu_op *op, const pu_real *w, pu_int k, pu_block X, pu_block Y, int add,
                                   pu_real *s)
{
    const pu_ar *ar = pu__ar_of(op);
    for (pu_int j = 0; j < k; j++) {
        double sum = pu__ar_apply_column(ar, pu__col(X, j), w, pu__col(Y, j), add);
        if (s)
            s[j] = (pu_real)sum;
    }
    return PU_OK;
}

/* pu_op.apply and apply_t: Y = Gamma X, or Y += if add. */
PU__FN pu_status pu__ar_apply(PU__APPLY_ARGS) { return pu__ar_apply_plus(op, NULL, k, X, Y, add, NULL); }

/* pu_op.sample: Y = X'E, with E in the argument X. All but the edge rows are a filter. */
PU__FN pu_status pu__ar_sample(PU__SOLVE_ARGS)
{
    const pu_ar *ar = pu__ar_of(op);
    pu_int P = ar->order;
    for (pu_int j = 0; j < k; j++) {
        const pu_real *e = pu__col(X, j);
        pu_real *y = pu__col(Y, j);
        /* nothing for n <= 2 P */
        pu__ar_filter(ar->n - 2 * P, P + 1, pu__ar_x(ar, P), e + P, NULL, y + P, 0);
        for (pu_int l = 0; l < pu__ar_edges(ar); l++) {
            pu_int i = pu__ar_edge(ar, l);
            y[i] = pu__ar_xt(ar, e, i);
        }
    }
    return PU_OK;
}

/* pu_op.solve: Gamma Y = X, by the two triangles of Gamma = X'X. */
PU__FN pu_status pu__ar_solve(PU__SOLVE_ARGS)
{
    const pu_ar *ar = pu__ar_of(op);
    for (pu_int c = 0; c < k; c++) {
        pu_real *y = pu__col(Y, c);
        pu__copy(y, pu__col(X, c), ar->n);
        /* X'u = x, from the last entry back */
        for (pu_int t = ar->n - 1; t >= 0; t--) {
            const pu_real *row = pu__ar_x(ar, t);
            y[t] /= row[0];
            for (pu_int j = pu__min(t, ar->order); j > 0; j--)
                y[t - j] -= row[j] * y[t];
        }
        /* X y = u, from the first entry on */
        for (pu_int t = 0; t < ar->n; t++) {
            const pu_real *row = pu__ar_x(ar, t);
            for (pu_int j = pu__min(t, ar->order); j > 0; j--)
                y[t] -= row[j] * y[t - j];
            y[t] /= row[0];
        }
    }
    return PU_OK;
}

/* pu_op.diag: y += the diagonal of Gamma, sum_t X_ti^2. All but the edge rows have the same one. */
PU__FN pu_status pu__ar_diag(PU__DIAG_ARGS)
{
    const pu_ar *ar = pu__ar_of(op);
    pu_int n = ar->n, P = ar->order;
    for (pu_int i = 0; i < n; i++) {
        int inner = i >= P && i < n - P;
        pu_real sum = inner ? ar->band[P] : 0;
        for (pu_int t = i; t < pu__min(n, i + P + 1) && !inner; t++) {
            pu_real entry = pu__ar_x(ar, t)[t - i];
            sum += entry * entry;
        }
        y[i] += sum;
    }
    return PU_OK;
}

/* ---- gradients: one sweep over a pair of columns ----
   A sweep adds up what the gradient of q'Gamma p needs, and computes the product with p on the way:
   both read the same entries. Gamma is symmetric, so that no lag is wanted without its opposite. */

typedef struct {
    const pu_ar *ar;
    const pu_real *p, *q;
    /* The diagonal; may be NULL. */
    const pu_real *w;
    /* y += c (Gamma + diag(w)) p; y may be NULL. */
    pu_real c, *y;
    /* sum_u q_u (p_{u+d} + p_{u-d}), d = 0 .. P; entries outside 0 .. n-1 are zero. */
    double lag[PU_AR_MAX + 1];
    /* sum_u w_u q_u p_u */
    double with_w;
} pu__ar_sweep;

/* Rows from .. to-1 of the filter, fewer than PU__LANES of them: too few for partial sums to pay. */
PU__FN void pu__ar_sweep_few(pu__ar_sweep *s, pu_int from, pu_int to)
{
    pu_int P = s->ar->order;
    const pu_real *p = s->p, *w = s->w, *band = s->ar->band + P;
    double with_w = 0;
    for (pu_int u = from; u < to; u++) {
        pu_real q = s->q[u];
        pu_real sum = (w ? band[0] + w[u] : band[0]) * p[u];
        s->lag[0] += 2 * (double)(q * p[u]);
        for (pu_int d = 1; d <= P; d++) {
            pu_real both = p[u + d] + p[u - d];
            sum += band[d] * both;
            s->lag[d] += (double)(q * both);
        }
        if (s->y)
            s->y[u] += s->c * sum;
        if (w)
            with_w += (double)(w[u] * q * p[u]);
    }
    s->with_w += with_w;
}

/* Rows from .. to-1 of the filter, at most PU__AR_CHUNK of them. Lags are taken three at a time. The
   last three may overlap those before; what is known is not added again. Not inlined, for the sake of
   its caller's frame. */
PU__FN PU__NOINLINE void pu__ar_sweep_rows(pu__ar_sweep *s, pu_int from, pu_int to)
{
    pu_int n = to - from, P = s->ar->order;
    const pu_real *p = s->p + from, *q = s->q + from, *band = s->ar->band + P;
    pu_real unwanted[PU__AR_CHUNK], *y = s->y ? s->y + from : unwanted;
    pu_real factor[3];
    double sum[3];
    if (n < PU__LANES) {
        pu__ar_sweep_few(s, from, to);
        return;
    }
    pu__zeros(unwanted, n);
    if (P < 2) {
        /* lag by lag: there are not three of them */
        for (pu_int d = 0; d <= P; d++)
            s->lag[d] += pu__dot(n, NULL, q, p + d) + pu__dot(n, NULL, q, p - d);
        for (pu_int l = 0; l <= 2 * P; l++)
            factor[l] = s->c * band[l - P];
        pu__ar_filter(n, 2 * P + 1, factor, p - P, NULL, y, 1);
    } else {
        for (pu_int d = 0; d <= P; d += 3) {
            pu_int first = pu__min(d, P - 2);
            for (pu_int l = 0; l < 3; l++) {
                factor[l] = s->c * band[first + l];
                /* lag 0 comes as p_u + p_u */
                if (first + l == 0)
                    factor[l] /= 2;
                if (first + l < d)
                    factor[l] = 0;
            }
            pu__ar_both3(n, q, p, first, factor, y, sum);
            for (pu_int l = d - first; l < 3; l++)
                s->lag[first + l] += sum[l];
        }
    }
    if (!s->w)
        return;
    pu__add_product(n, s->c, s->w + from, p, y);
    s->with_w += (double)pu__dot_chunk(n, s->w + from, q, p);
}

/* The whole pair, n >= 2 P: chunks of the filter, then the edge rows. */
PU__FN void pu__ar_sweep_all(pu__ar_sweep *s)
{
    pu_int n = s->ar->n, P = s->ar->order;
    const pu_real *p = s->p, *w = s->w;
    pu_int end;
    for (pu_int at = P; at < n - P; at = end) {
        end = pu__ar_chunk(at, PU__AR_CHUNK, n - P);
        pu__ar_sweep_rows(s, at, end);
    }
    if (s->y)
        pu__ar_ends(s->ar, s->c, p, s->y, 1);
    /* the sums of the edge rows, and their diagonal */
    for (pu_int l = 0; l < 2 * P; l++) {
        pu_int u = pu__ar_edge(s->ar, l);
        double q = (double)s->q[u];
        for (pu_int d = 0; d <= P; d++) {
            if (u + d < n)
                s->lag[d] += q * (double)p[u + d];
            if (u >= d)
                s->lag[d] += q * (double)p[u - d];
        }
        if (!w)
            continue;
        s->with_w += (double)w[u] * q * (double)p[u];
        if (s->y)
            s->y[u] += s->c * (w[u] * p[u]);
    }
}

/* The whole pair without its lags, n < 2 P. */
PU__FN void pu__ar_sweep_short(pu__ar_sweep *s)
{
    pu_real scaled[2 * PU_AR_MAX];
    if (s->w)
        s->with_w = pu__dot(s->ar->n, s->w, s->p, s->q);
    if (!s->y)
        return;
    for (pu_int i = 0; i < s->ar->n; i++)
        scaled[i] = s->c * s->p[i];
    pu__ar_apply_column(s->ar, scaled, s->w, s->y, 1);
}

/* Order 5: the rows from `at` on, 0 or pu__ar_lower. */
PU__FN void pu__ar_sweep_edge5(pu__ar_sweep *s, pu_int at)
{
    enum { E = PU__AR_EDGE };
    const pu_ar *ar = s->ar;
    pu_int rows = at ? ar->n - at : (pu_int)E;
    pu_real qs[PU__AR_LONG], ps[PU__AR_LONG], ws[PU__AR_LONG], ys[2 * E] = {0};
    pu_real *y = s->y ? ys : NULL;
    pu__ar_around(ar->n, s->q, at, qs);
    pu__ar_around(ar->n, s->p, at, ps);
    pu__ar_around(ar->n, s->w, at, ws);
    s->with_w += pu__ar_both5(rows > E ? 2 * E : E, qs + E, ps + E, ar->band + 5, s->c, ws + E, y, s->lag);
    if (!y)
        return;
    pu__ar_end5(ar, at, s->c, s->p, s->w, ys);
    for (pu_int i = 0; i < rows; i++)
        s->y[at + i] += ys[i];
}

/* Order 5: the whole pair, where pu__ar_is_long5. */
PU__FN void pu__ar_sweep5(pu__ar_sweep *s)
{
    pu_int lower = pu__ar_lower(s->ar->n);
    const pu_real *band = s->ar->band + 5;
    pu_int end;
    pu__ar_sweep_edge5(s, 0);
    for (pu_int at = PU__AR_EDGE; at < lower; at = end) {
        pu_real *y = s->y ? s->y + at : NULL;
        end = pu__ar_chunk(at, PU__AR_CHUNK, lower);
        s->with_w += pu__ar_both5(end - at, s->q + at, s->p + at, band, s->c, s->w + at, y, s->lag);
    }
    pu__ar_sweep_edge5(s, lower);
}

/* ---- gradients: from sums to parameters ----
     kappa p'Gamma q = sum_{t < P} s_t (a^(t)*p)_t (a^(t)*q)_t + sum_{t >= P} (a*p)_t (a*q)_t
   For n >= 2 P the second sum is first taken over all t that the taps reach. With the lag sums C of
   p and q that is
     1/2 sum_ij a_i a_j C_{|i-j|}
   What it has too much at the two ends is then subtracted term by term. All of this is in double
   and for the sum over the pairs. At each end they enter by
     S_il = sum_j weight_j c_j (p_i q_l + q_i p_l), i, l < P */

/* weight_j c_j, the factor of pair j. */
PU__FN double pu__ar_weight(const pu__pairs *pairs, pu_int j)
{
    return (double)pairs->weight[j] * (pairs->c ? (double)pairs->c[j] : 1);
}

#define PU__AR_CORNER 96 /* numbers of S that are held at once: three rows of order 32, all of order 8 */

/* Numbers from one row of S to the next: a multiple of 8, so that compilers use whole vectors. */
PU__FN pu_int pu__ar_wide(pu_int P) { return (P + 7) / 8 * 8; }

/* Rows first .. last-1 of S, at the end whose entry l is at p[start - l]. */
PU__FN void pu__ar_corner(const pu__pairs *pairs, pu_int P, pu_int start, pu_int first, pu_int last, double *S)
{
    double u[PU_AR_MAX] = {0}, v[PU_AR_MAX] = {0};
    pu_int wide = pu__ar_wide(P);
    memset(S, 0, PU__AR_CORNER * sizeof *S);
    for (pu_int j = 0; j < pairs->k; j++) {
        const pu_real *p = pu__col(pairs->P, j) + start, *q = pu__col(pairs->Q, j) + start;
        double weight = pu__ar_weight(pairs, j);
        if (weight == 0)
            continue;
        for (pu_int l = 0; l < P; l++) {
            u[l] = (double)p[-l];
            v[l] = (double)q[-l];
        }
        for (pu_int i = first; i < last; i++) {
            double *row = S + (i - first) * wide, wu = weight * u[i], wv = weight * v[i];
            for (pu_int m = 0; m < wide; m += 8)
                for (pu_int l = m; l < m + 8; l++)
                    row[l] += wu * v[l] + wv * u[l];
        }
    }
}

/* The terms of one end, t < P, are quadratic forms b'S b in t + 1 entries of S: */
enum {
    PU__AR_START, /* b = a^(t) in the last t + 1 entries of the upper end */
    PU__AR_UPPER, /* b = (a_0, .., a_t) in the same */
    PU__AR_LOWER  /* b = (a_{P-t}, .., a_P) in the first t + 1 entries of the lower end */
};

/* value[t] = b'S b, and their inner sums, a triangle:
     T_tj = sum_i b_i S_{at+j, at+i}, i, j = 0 .. t, where `at` is P-1-t at the upper end and 0 at the lower one
   S is made some rows at a time, since a whole one of order 32 would be 8 KiB. */
PU__FN void pu__ar_forms(const pu_ar *ar, const pu__pairs *pairs, int what, double *T, double *value)
{
    pu_int P = ar->order, wide = pu__ar_wide(P), last;
    int lower = what == PU__AR_LOWER;
    double S[PU__AR_CORNER], a[PU_AR_MAX + 1];
    pu__ar_predictor(ar, P, a);
    for (pu_int first = 0; first < P; first = last) {
        last = pu__min(first + PU__AR_CORNER / wide, P);
        pu__ar_corner(pairs, P, lower ? ar->n - 1 : P - 1, first, last, S);
        /* the rows serve all terms that reach them */
        for (pu_int t = 0; t < P; t++) {
            pu_int at = lower ? 0 : P - 1 - t;
            const double *b = lower ? a + P - t : a;
            if (what == PU__AR_START)
                pu__ar_grow(ar, t, a);
            if (first == 0)
                value[t] = 0;
            for (pu_int r = pu__most(first, at); r < last && r <= at + t; r++) {
                double sum = 0;
                for (pu_int i = 0; i <= t; i++)
                    sum += b[i] * S[(r - first) * wide + at + i];
                T[pu__ar_row(t) + r - at] = sum;
                value[t] += b[r - at] * sum;
            }
        }
    }
}

/* The terms t < P of the first sum: value[t], and the cotangents of a^(0) .. a^(P-1). */
PU__FN void pu__ar_start_terms(const pu_ar *ar, const pu__pairs *pairs, double *abar, double *value)
{
    double s[PU_AR_MAX + 1];
    pu__ar_spread(ar, s);
    pu__ar_forms(ar, pairs, PU__AR_START, abar, value);
    for (pu_int t = 0; t < ar->order; t++) {
        for (pu_int j = 0; j <= t; j++)
            abar[pu__ar_row(t) + j] *= s[t];
        value[t] = s[t] * value[t] / 2;
    }
}

/* The terms t >= P for n >= 2 P: returns their sum and adds the cotangent of a to the last row of
   abar. The other rows are used as scratch. lag: the lag sums C. */
PU__FN double pu__ar_later_terms(const pu_ar *ar, const pu__pairs *pairs, const double *lag, double *abar)
{
    pu_int P = ar->order;
    double a[PU_AR_MAX + 1], upper[PU_AR_MAX], lower[PU_AR_MAX];
    double *bar = abar + pu__ar_row(P);
    double value = 0;
    /* too much at the lower end: the forms in (a_{P-t}, .., a_P) */
    pu__ar_forms(ar, pairs, PU__AR_LOWER, abar, lower);
    for (pu_int t = P - 1; t >= 0; t--)
        for (pu_int j = 0; j <= t; j++)
            bar[P - t + j] -= abar[pu__ar_row(t) + j];
    /* too much at the upper end: the forms in (a_0, .., a_t) */
    pu__ar_forms(ar, pairs, PU__AR_UPPER, abar, upper);
    for (pu_int t = 0; t < P; t++) {
        for (pu_int j = 0; j <= t; j++)
            bar[j] -= abar[pu__ar_row(t) + j];
        value -= upper[t] / 2;
        value -= lower[P - 1 - t] / 2;
    }
    /* the sum over all t that the taps reach */
    pu__ar_predictor(ar, P, a);
    for (pu_int i = 0; i <= P; i++)
        for (pu_int j = 0; j <= P; j++) {
            double C = lag[i > j ? i - j : j - i];
            value += a[i] * a[j] * C / 2;
            bar[i] += a[j] * C;
        }
    return value;
}

/* The terms t >= P for n < 2 P, one by one: returns their sum, bar += the cotangent of a. */
PU__FN double pu__ar_few_terms(const pu_ar *ar, const pu__pairs *pairs, double *bar)
{
    pu_int P = ar->order;
    double a[PU_AR_MAX + 1], value = 0;
    pu__ar_predictor(ar, P, a);
    for (pu_int c = 0; c < pairs->k; c++) {
        double weight = pu__ar_weight(pairs, c);
        if (weight == 0)
            continue;
        for (pu_int t = P; t < ar->n; t++) {
            const pu_real *p = pu__col(pairs->P, c) + t, *q = pu__col(pairs->Q, c) + t;
            double u = 0, v = 0; /* (a*p)_t, (a*q)_t */
            for (pu_int j = 0; j <= P; j++) {
                u += a[j] * (double)p[-j];
                v += a[j] * (double)q[-j];
            }
            for (pu_int j = 0; j <= P; j++)
                bar[j] += weight * (u * (double)q[-j] + v * (double)p[-j]);
            value += weight * u * v;
        }
    }
    return value;
}

/* Back through Durbin-Levinson: grad += the gradient of sum_t value[t] / kappa, t = 0 .. P.
   value[t] with t < P holds the factor s_t. abar: the cotangents of a^(0) .. a^(P). Changes value
   and abar. */
PU__FN void pu__ar_pull(const pu_ar *ar, double *abar, double *value, pu_real *grad)
{
    pu_int P = ar->order;
    double kappa = (double)ar->kappa;
    double a[PU_AR_MAX + 1];
    /* from now on the sums of value[0] .. value[t] */
    for (pu_int t = 1; t <= P; t++)
        value[t] += value[t - 1];
    /* a^(t) = (a^(t-1), 0) - gamma_t (0, a^(t-1) reversed) */
    for (pu_int t = P; t > 0; t--) {
        double g = (double)ar->gamma[t - 1];
        const double *now = abar + pu__ar_row(t);
        double *before = abar + pu__ar_row(t - 1);
        double gbar = 0;
        pu__ar_predictor(ar, t - 1, a);
        for (pu_int j = 1; j <= t; j++)
            gbar -= now[j] * a[t - j];
        for (pu_int j = 1; j < t; j++)
            before[j] += now[j] - g * now[t - j];
        /* s_0 .. s_{t-1} hold the factor 1 - gamma_t^2 */
        grad[t - 1] += (pu_real)((gbar - 2 * g / ar->gap[t - 1] * value[t - 1]) / kappa);
    }
    grad[P] -= (pu_real)(value[P] / kappa / kappa);
}

/* What a reverse step of the solver needs, in one sweep over each pair. With p_j' = c_j p_j:
     grad += weight_j d/dtheta p_j''Gamma q_j
     s_j = sum_i w_i p_ij q_ij, without c_j, and 0 where c_j is 0
     Y += (Gamma + diag(w)) P', where Y.at is not NULL
   w (n) and s (k) may be NULL. */
PU__FN pu_status pu__ar_grad_pairs(const pu_op *op, const pu_real *w, const pu__pairs *pairs, pu_real *grad, double *s)
{
    const pu_ar *ar = pu__ar_of(op);
    pu_int n = ar->n, P = ar->order;
    double abar[PU__AR_TRIANGLE], value[PU_AR_MAX + 1];
    double lag[PU_AR_MAX + 1] = {0};
    for (pu_int j = 0; j < pairs->k; j++) {
        double weight = pu__ar_weight(pairs, j);
        pu__ar_sweep sweep = {ar,
                              pu__col(pairs->P, j),
                              pu__col(pairs->Q, j),
                              w,
                              pairs->c ? pairs->c[j] : 1,
                              pairs->Y.at ? pu__col(pairs->Y, j) : NULL,
                              {0},
                              0};
        if (s)
            s[j] = 0;
        /* not read: a frozen column may hold anything */
        if (sweep.c == 0 || (weight == 0 && !sweep.y))
            continue;
        if (n < 2 * P)
            pu__ar_sweep_short(&sweep);
        else if (pu__ar_is_long5(ar, w))
            pu__ar_sweep5(&sweep);
        else
            pu__ar_sweep_all(&sweep);
        for (pu_int d = 0; d <= P; d++)
            lag[d] += weight * sweep.lag[d];
        if (s)
            s[j] = sweep.with_w;
    }
    /* from the sums over all pairs to the cotangents of a^(0) .. a^(P), and to the parameters */
    memset(abar + pu__ar_row(P), 0, (size_t)(P + 1) * sizeof *abar);
    if (n < 2 * P)
        value[P] = pu__ar_few_terms(ar, pairs, abar + pu__ar_row(P));
    else
        value[P] = pu__ar_later_terms(ar, pairs, lag, abar);
    pu__ar_start_terms(ar, pairs, abar, value);
    pu__ar_pull(ar, abar, value, grad);
    return PU_OK;
}

/* pu_op.grad: grad += sum_j weight_j d/dtheta p_j'Gamma q_j */
PU__FN pu_status pu__ar_grad(PU__GRAD_ARGS)
{
    pu__pairs pairs = {k, NULL, P, Q, pu__rows(NULL, 0), weight};
    return pu__ar_grad_pairs(op, NULL, &pairs, grad, NULL);
}

/* ---- the banded engine ---- */

/* pu_op.band_add: entry (i, i - j) of Gamma is sum_t X_ti X_{t, i-j}. All but the edge rows have
   the same ones. */
PU__FN pu_status pu__ar_band_add(const pu_op *op, pu_int width, double *B)
{
    const pu_ar *ar = pu__ar_of(op);
    pu_int n = ar->n, P = ar->order;
    for (pu_int i = 0; i < n; i++) {
        double *row = B + i * (width + 1);
        int whole = i >= 2 * P && i < n - P; /* the row is one of the filter's */
        for (pu_int j = 0; whole && j <= P; j++)
            row[j] += (double)ar->band[P + j];
        for (pu_int j = 0; !whole && j <= pu__min(i, P); j++) {
            int inner = i - j >= P && i < n - P;
            double sum = inner ? (double)ar->band[P + j] : 0;
            for (pu_int t = i; t < pu__min(n, i - j + P + 1) && !inner; t++) {
                const pu_real *entry = pu__ar_x(ar, t) + t - i;
                sum += (double)entry[0] * (double)entry[j];
            }
            row[j] += sum;
        }
    }
    return PU_OK;
}

/* pu_op.band_grad: grad += weight d/dtheta tr(Gamma S).
     kappa tr(Gamma S) = sum_{t < P} s_t a^(t)'S_t a^(t) + a'C a
   S_t holds the entries (t-i, t-j) of S, and C_ij = sum_{t >= P} S_{t-i, t-j} is the sum along a
   diagonal of S without its ends. */
PU__FN pu_status pu__ar_band_grad(const pu_op *op, pu_int width, const double *S, double weight, pu_real *grad)
{
    const pu_ar *ar = pu__ar_of(op);
    pu_int n = ar->n, P = ar->order;
    pu_int w = width + 1;
    double abar[PU__AR_TRIANGLE], a[PU_AR_MAX + 1], s[PU_AR_MAX + 1];
    double value[PU_AR_MAX + 1] = {0};
    double lag[PU_AR_MAX + 1] = {0};
    memset(abar, 0, (size_t)pu__ar_row(P + 1) * sizeof *abar);
    pu__ar_spread(ar, s);
    /* sums along whole diagonals of S */
    for (pu_int u = 0; u < n; u++)
        for (pu_int j = 0; j <= pu__min(u, P); j++)
            lag[j] += S[u * w + j];
    for (pu_int t = 0; t <= P; t++) {
        double factor = weight * s[t];
        double *bar = abar + pu__ar_row(t);
        pu__ar_grow(ar, t, a);
        for (pu_int i = 0; i <= t; i++)
            for (pu_int j = i; j <= t; j++) {
                const double *diagonal = S + j - i;
                double C = lag[j - i];
                if (t < P)
                    C = diagonal[(t - i) * w];
                else { /* the ends come off again */
                    for (pu_int u = j - i; u < P - i; u++)
                        C -= diagonal[u * w];
                    for (pu_int u = n - i; u < n; u++)
                        C -= diagonal[u * w];
                }
                /* entry (j, i) is the same and is not visited */
                C *= i == j ? factor : 2 * factor;
                value[t] += a[i] * a[j] * C;
                bar[i] += a[j] * C;
                bar[j] += a[i] * C;
            }
    }
    pu__ar_pull(ar, abar, value, grad);
    return PU_OK;
}

/* ---- log determinant ---- */

/* pu_op.logdet: log det Gamma = -n log kappa + sum_i i log(1 - gamma_i^2) */
PU__FN pu_status pu__ar_logdet(PU__LOGDET_ARGS)
{
    const pu_ar *ar = pu__ar_of(op);
    *value = -(double)ar->n * log((double)ar->kappa);
    for (pu_int i = 0; i < ar->order; i++)
        *value += (double)(i + 1) * log(ar->gap[i]);
    return PU_OK;
}

/* pu_op.logdet_grad: grad += weight times its gradient. */
PU__FN pu_status pu__ar_logdet_grad(PU__LOGDET_GRAD_ARGS)
{
    const pu_ar *ar = pu__ar_of(op);
    double by = (double)weight;
    for (pu_int i = 0; i < ar->order; i++)
        grad[i] -= (pu_real)(by * 2 * (double)(i + 1) * (double)ar->gamma[i] / ar->gap[i]);
    grad[ar->order] -= (pu_real)(by * (double)ar->n / (double)ar->kappa);
    return PU_OK;
}

/* ---- making and checking ---- */

/* Whether an autoregression can have these sizes. */
PU__FN int pu__ar_sizes(pu_int n, pu_int order) { return n > 0 && order >= 0 && order <= n && order <= PU_AR_MAX; }

/* Refuses what makes no autoregression. ar may be NULL. theta: gamma, each in (-1, 1) if bounded, or
   phi, any finite numbers. *index: the parameter at fault (kappa is number P), or -1. */
PU__FN pu_status pu__ar_refuse(const pu_ar *ar, pu_int n, pu_int order, const pu_real *theta, int bounded,
                               pu_real kappa, pu_int *index)
{
    *index = -1;
    if (!ar)
        return PU_E_NULL;
    if (!pu__ar_sizes(n, order))
        return PU_E_ARGUMENT;
    if (order > 0 && !theta)
        return PU_E_NULL;
    for (*index = 0; *index < order; ++*index) {
        pu_real x = theta[*index];
        if (!pu__finite(x))
            return PU_E_NONFINITE;
        if (bounded && !(x > -1 && x < 1))
            return PU_E_ARGUMENT;
    }
    if (!pu__finite(kappa))
        return PU_E_NONFINITE;
    if (!(kappa > 0))
        return PU_E_NOT_POSITIVE;
    *index = -1;
    return PU_OK;
}

/* pu_op.check: the parameters are what pu_ar_set accepts, and the rest of the struct follows from
   them. *index: the parameter or, for a stale band, the lag at fault; -1 otherwise. */
PU__FN pu_status pu__ar_check(const pu_op *op, pu_int *index)
{
    const pu_ar *ar = pu__ar_of(op);
    const pu_real *band = ar->band + ar->order;
    double tolerance = 100 * (double)PU__EPS;
    pu_status status = pu__ar_refuse(ar, ar->n, ar->order, ar->gamma, 1, ar->kappa, index);
    pu_ar now;
    if (status)
        return status;
    if (ar->n != op->rows || ar->order + 1 != op->params)
        return PU_E_SIZE; /* another n or P since pu_op_ar */
    /* stale where gamma or kappa were changed by hand */
    now = *ar;
    pu__ar_derive(&now);
    for (pu_int i = 0; i <= ar->order; i++) {
        const pu_real *fresh = now.band + ar->order;
        *index = i;
        if (!(fabs((double)band[i] - (double)fresh[i]) <= tolerance * (double)fresh[0]))
            return PU_E_ARGUMENT;
    }
    *index = -1;
    return PU_OK;
}

/* pu_ar_set. theta = atanh gamma or NULL: near a unit root 1 - gamma^2 = 1 / cosh(theta)^2 comes from it, since the rounding
   of gamma has cost it digits. *ar changes only where all is well. */
PU__FN pu_status pu__ar_set(pu_ar *ar, pu_int n, pu_int order, const pu_real *gamma, const pu_real *theta, pu_real kappa,
                            pu_int *index)
{
    pu_int unused, *at = index ? index : &unused;
    pu_ar now;
    pu_status status = pu__ar_refuse(ar, n, order, gamma, 1, kappa, at);
    if (status)
        return status;
    memset(&now, 0, sizeof now);
    now.n = n;
    now.order = order;
    now.kappa = kappa;
    for (pu_int i = 0; i < order; i++) {
        now.gamma[i] = gamma[i];
        now.gap[i] = pu__ar_gap(gamma[i]);
        if (theta && now.gap[i] < 0.01)
            now.gap[i] = pow(cosh((double)theta[i]), -2);
    }
    pu__ar_derive(&now);
    /* band[P] is the largest entry of Gamma */
    if (!pu__finite(now.band[order])) {
        *at = order;
        return PU_E_ARGUMENT;
    }
    *ar = now;
    return PU_OK;
}

/* See the declaration. */
PU_DEF pu_status pu_ar_set(pu_ar *ar, pu_int n, pu_int order, const pu_real *gamma, pu_real kappa, pu_int *index)
{
    return pu__ar_set(ar, n, order, gamma, NULL, kappa, index);
}

/* See the declaration. From m = P down to 1:
     gamma_m = phi^(m)_m,   phi^(m-1)_j = (phi^(m)_j + gamma_m phi^(m)_{m-j}) / (1 - gamma_m^2) */
PU_DEF pu_status pu_ar_set_phi(pu_ar *ar, pu_int n, pu_int order, const pu_real *phi, pu_real kappa, pu_int *index)
{
    double now[PU_AR_MAX + 1]; /* phi^(m)_j, j = 1 .. m */
    pu_real gamma[PU_AR_MAX];
    pu_int unused, *at = index ? index : &unused;
    pu_status status = pu__ar_refuse(ar, n, order, phi, 0, kappa, at);
    if (status)
        return status;
    for (pu_int j = 0; j < order; j++)
        now[j + 1] = (double)phi[j];
    for (pu_int m = order; m > 0; m--) {
        double g = now[m];
        *at = m - 1;
        gamma[*at] = (pu_real)g;
        if (!(pu__ar_gap(gamma[*at]) > 0))
            return PU_E_ARGUMENT;
        pu__ar_reflect(m, g, (1 - g) * (1 + g), now);
    }
    return pu_ar_set(ar, n, order, gamma, kappa, at);
}

/* See the declaration. The reverse pass from phi^(P) to gamma is linear; here it is solved for its
   input. With b the cotangent of phi^(m) it is
     gammabar_m = b_m - sum_{j < m} b_j phi^(m-1)_{m-j},   b^(m-1)_j = b_j - gamma_m b_{m-j} */
PU_DEF void pu_ar_phi_grad(const pu_ar *ar, const pu_real *grad_gamma, pu_real *grad_phi)
{
    double a[PU_AR_MAX + 1], b[PU_AR_MAX + 1];
    if (!ar || !grad_gamma || !grad_phi)
        return;
    for (pu_int m = 1; m <= ar->order; m++) {
        pu_real gamma = ar->gamma[m - 1];
        b[m] = (double)grad_gamma[m - 1];
        pu__ar_grow(ar, m - 1, a); /* phi^(m-1) = -a^(m-1) */
        pu__ar_reflect(m, (double)gamma, ar->gap[m - 1], b);
        for (pu_int j = 1; j < m; j++)
            b[m] -= b[j] * a[m - j];
    }
    for (pu_int j = 0; j < ar->order; j++)
        grad_phi[j] = (pu_real)b[j + 1];
}

/* See the declaration. Zero sizes are refused by whoever uses the operator. */
PU_DEF pu_op pu_op_ar(const pu_ar *ar)
{
    pu_int n = ar && pu__ar_sizes(ar->n, ar->order) ? ar->n : 0;
    pu_op op = pu__op_zero(n, n, 0, ar);
    if (n < 1)
        return op;
    op.params = ar->order + 1;
    op.form = PU_FORM_AR;
    op.apply = op.apply_t = pu__ar_apply;
    op.grad = pu__ar_grad;
    op.diag = pu__ar_diag;
    op.sample = pu__ar_sample;
    op.solve = pu__ar_solve;
    op.logdet = pu__ar_logdet;
    op.logdet_grad = pu__ar_logdet_grad;
    op.check = pu__ar_check;
    op.band = ar->order;
    op.band_add = pu__ar_band_add;
    op.band_grad = pu__ar_band_grad;
    op.flops = (double)n * (double)(2 * ar->order + 1);
    return op;
}

/* ------------------------------------------------------------------------------------------------
   >>states   linear state space and its readout
   ------------------------------------------------------------------------------------------------ */

/* ---- state space: Gamma = B' blockdiag(P0^-1, Q^-1, .., Q^-1) B, (B x)_t = x_t - A x_{t-1} ----
   Gamma is applied as this product and never formed. Rounding then leaves it positive definite, and the gradient
   sees the small x_t - A x_{t-1} itself instead of differences of large moments.

   Notation: t = 0 .. T-1; S states; a column x of D = S T entries holds x_0, x_1, .., one after the other.
   W_0 = P0^-1 and W_t = Q^-1 for t > 0; F_t F_t' = W_t.

   Products of S x S blocks are too short for vector registers, so the inner loops run over time. A tile holds
   PU__SSM_STEPS steps of a column, transposed: one row per state. Tiles live in the operator's scratch `work`. */

#define PU__SSM_STEPS  64                  /* steps of a tile, a multiple of PU__LANES */
#define PU__SSM_ROW    (PU__SSM_STEPS + 8) /* length of its rows: also the step before or after; the rest is padding */
#define PU__SSM_TILES  4                   /* tiles of scratch: pu__ssm_grad needs all, a product three */
#define PU__SSM_SQUARE (PU_SSM_MAX * PU_SSM_MAX)

/* The state space behind an operator made by pu_op_ssm. */
PU__FN const pu_ssm *pu__ssm(const pu_op *op) { return (const pu_ssm *)op->data; }

/* Column l of the tile = x_{first - 1 + l}, l = 0 .. PU__SSM_STEPS, and zero where the series has no such step.
   The tile begins one step early, since B needs x_{t-1}. */
PU__FN void pu__ssm_load(const pu_ssm *m, const pu_real *x, pu_int first, pu_real *PU__RESTRICT tile)
{
    pu_int S = m->states;
    pu_int last = pu__min(PU__SSM_STEPS, m->steps - first);
    pu__zeros(tile, S * PU__SSM_ROW);
    /* There is no step before the first. */
    for (pu_int i = 0; i < S; i++)
        for (pu_int l = first == 0; l <= last; l++)
            tile[i * PU__SSM_ROW + l] = x[(first - 1 + l) * S + i];
}

/* out = C in, or base - C in where base is not NULL, for PU__SSM_STEPS columns of a tile; C is S x S, row-major.
   `in` and `base` may point at column 1 of a tile, to be one step ahead. `out` must be another tile. */
PU__FN void pu__ssm_mix(pu_int S, const pu_real *C, const pu_real *in, const pu_real *base, pu_real *PU__RESTRICT out)
{
    pu_int j;
    for (pu_int i = 0; i < S; i++) {
        const pu_real *c = C + i * S;
        pu_real sum[PU__SSM_STEPS] = {0};
        /* Four terms per pass: fewer loads and stores of the sums. */
        for (j = 0; j + 4 <= S; j += 4) {
            pu_real c0 = c[j], c1 = c[j + 1], c2 = c[j + 2], c3 = c[j + 3];
            const pu_real *x = in + j * PU__SSM_ROW;
            for (pu_int l = 0; l < PU__SSM_STEPS; l++)
                sum[l] +=
                    (c0 * x[l] + c1 * x[PU__SSM_ROW + l]) + (c2 * x[2 * PU__SSM_ROW + l] + c3 * x[3 * PU__SSM_ROW + l]);
        }
        for (; j < S; j++)
            pu__axpy(PU__SSM_STEPS, c[j], in + j * PU__SSM_ROW, sum);
        for (pu_int l = 0; l < PU__SSM_STEPS; l++) {
            pu_int at = i * PU__SSM_ROW + l;
            out[at] = base ? base[at] - sum[l] : sum[l];
        }
    }
}

/* Y = B's or Y += B's for k columns, that is y_t = s_t - A's_{t+1}, where
     s_t = W_t (x_t - A x_{t-1})   makes it Gamma X,
     s_t = F_t x_t                 (sample) makes it draws of N(0, Gamma) when X holds standard normals.
   work: three tiles. */
PU__FN pu_status pu__ssm_pass(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, int sample, pu_real *work)
{
    const pu_ssm *m = pu__ssm(op);
    pu_int S = m->states, T = m->steps;
    const pu_real *C0 = sample ? m->F0 : m->W0;
    pu_real *s = work, *in = s + S * PU__SSM_ROW, *out = in + S * PU__SSM_ROW;
    for (pu_int column = 0; column < k; column++)
        /* y_t needs s_{t+1}: one step less comes out of a tile than goes in. */
        for (pu_int first = 0; first < T; first += PU__SSM_STEPS - 1) {
            pu_int steps = pu__min(PU__SSM_STEPS, T - first);
            pu_int n = pu__min(PU__SSM_STEPS - 1, steps);
            const pu_real *x = pu__col(X, column);
            pu_real *y = pu__col(Y, column) + first * S;
            /* s of these steps, and of one step more */
            pu__ssm_load(m, x, first, in);
            if (!sample)
                pu__ssm_mix(S, m->A, in, in + 1, out);
            pu__ssm_mix(S, sample ? m->F : m->W, sample ? in + 1 : out, NULL, s);
            for (pu_int i = 0; i < S; i++) {
                pu_real *row = s + i * PU__SSM_ROW;
                /* There is no step after the last. */
                pu__zeros(row + steps, PU__SSM_ROW - steps);
                if (first > 0)
                    continue;
                /* The first step has no step before, and a precision of its own. */
                row[0] = 0;
                for (pu_int l = 0; l < S; l++)
                    row[0] += C0[i * S + l] * x[l];
            }
            /* y_t = s_t - A's_{t+1}, transposed back into Y */
            pu__ssm_mix(S, m->At, s + 1, s, out);
            for (pu_int i = 0; i < S; i++)
                for (pu_int l = 0; l < n; l++)
                    pu__set(y + l * S + i, out[i * PU__SSM_ROW + l], add);
        }
    return PU_OK;
}

/* x'Gamma x = sum_t (x_t - A x_{t-1})'W_t (x_t - A x_{t-1}), in double. As x'(Gamma x) it would be the small difference
   of large numbers where the states are large and their innovations small. *size += the same with the sizes of the terms
   of one of the two: what a relative error in them changes. */
PU__FN double pu__ssm_square(const pu_op *op, const pu_real *x, double *size)
{
    const pu_ssm *m = pu__ssm(op);
    pu_int S = m->states;
    double sum = 0;
    for (pu_int at = 0; at < op->rows; at += S) {
        const double *W = at > 0 ? m->Qi : m->Pi;
        double u[PU_SSM_MAX], terms[PU_SSM_MAX];
        for (pu_int i = 0; i < S; i++) {
            u[i] = (double)x[at + i];
            terms[i] = fabs(u[i]);
            for (pu_int j = 0; at > 0 && j < S; j++) {
                double term = m->A_set[i * S + j] * (double)x[at - S + j];
                u[i] -= term;
                terms[i] += fabs(term);
            }
        }
        for (pu_int i = 0; i < S * S; i++) {
            sum += u[i / S] * W[i] * u[i % S];
            *size += terms[i / S] * fabs(W[i]) * (fabs(u[i % S]) + (double)PU__EPS * terms[i % S]);
        }
    }
    return sum;
}

/* Y = Gamma X, or Y += Gamma X. Gamma is symmetric, so this is apply_t too. */
PU__FN pu_status pu__ssm_apply(PU__APPLY_ARGS) { return pu__ssm_pass(op, k, X, Y, add, 0, work); }

/* Y = B' blockdiag(F0, F, .., F) X, where F0 F0' = P0^-1 and F F' = Q^-1: draws of N(0, Gamma). */
PU__FN pu_status pu__ssm_sample(PU__SOLVE_ARGS) { return pu__ssm_pass(op, k, X, Y, 0, 1, work); }

/* Y = Gamma^-1 X by the recursions of B'^-1 and B^-1:
     u_t = x_t + A'u_{t+1}       backward in time, then
     y_t = C_t u_t + A y_{t-1}   forward, with C_0 = P0, C_t = Q for t > 0, and y_{-1} = 0.
   The sums of the second recursion are in double. */
PU__FN pu_status pu__ssm_solve(PU__SOLVE_ARGS)
{
    static const pu_real zero[PU_SSM_MAX] = {0};
    const pu_ssm *m = pu__ssm(op);
    pu_int S = m->states, D = op->rows;
    for (pu_int column = 0; column < k; column++) {
        const pu_real *before = zero;
        pu_real *y = pu__col(Y, column), u[PU_SSM_MAX];
        /* u, in the place of y. `at` is the first entry of a step. */
        pu__copy(y, pu__col(X, column), D);
        for (pu_int at = D - S; at > 0; at -= S)
            for (pu_int j = 0; j < S; j++)
                pu__axpy(S, y[at + j], m->A + j * S, y + at - S);
        for (pu_int at = 0; at < D; at += S) {
            const double *C = at > 0 ? m->Q_set : m->P0;
            pu__copy(u, y + at, S); /* y_t takes its place */
            for (pu_int i = 0; i < S; i++) {
                double sum = 0;
                for (pu_int j = 0; j < S; j++)
                    sum += C[i * S + j] * (double)u[j] + m->A_set[i * S + j] * (double)before[j];
                y[at + i] = (pu_real)sum;
            }
            before = y + at;
        }
    }
    return PU_OK;
}

/* y += diag(Gamma). Its blocks are W_t + A'Q^-1 A; the last one is W_t alone. */
PU__FN pu_status pu__ssm_diag(PU__DIAG_ARGS)
{
    const pu_ssm *m = pu__ssm(op);
    pu_int S = m->states;
    const double *A = m->A_set;
    for (pu_int i = 0; i < S; i++) {
        /* (A'Q^-1 A)_ii, what step t + 1 adds to step t */
        double next = 0;
        for (pu_int j = 0; j < S * S; j++)
            next += A[j / S * S + i] * m->Qi[j] * A[j % S * S + i];
        for (pu_int at = i; at < op->rows; at += S) {
            double entry = (at > i ? m->Qi : m->Pi)[i * S + i];
            if (at + S < op->rows)
                entry += next;
            y[at] += (pu_real)entry;
        }
    }
    return PU_OK;
}

/* ---- S x S matrices in double, row-major without gaps: for all that is not done per column ---- */

/* out = a b; ta, tb: with a', b' in their place. out may be a or b, since the product is made in a copy: this saves
   its users a matrix of 2 KiB each, and no frame here may become large. */
PU__FN void pu__ssm_mul(pu_int S, const double *a, int ta, const double *b, int tb, double *out)
{
    pu_int a_down = ta ? 1 : S, a_along = ta ? S : 1;
    pu_int b_down = tb ? 1 : S, b_along = tb ? S : 1;
    double product[PU__SSM_SQUARE];
    for (pu_int i = 0; i < S; i++)
        for (pu_int j = 0; j < S; j++) {
            double sum = 0;
            for (pu_int l = 0; l < S; l++)
                sum += a[i * a_down + l * a_along] * b[l * b_down + j * b_along];
            product[i * S + j] = sum;
        }
    memcpy(out, product, (size_t)(S * S) * sizeof *out);
}

/* out = x in double, n entries. */
PU__FN void pu__ssm_widen(pu_int n, const pu_real *x, double *out)
{
    for (pu_int i = 0; i < n; i++)
        out[i] = (double)x[i];
}

/* to += x, n entries, rounded to pu_real. to may be NULL: then nothing is done. */
PU__FN void pu__ssm_add(pu_int n, const double *x, pu_real *to)
{
    if (!to)
        return;
    for (pu_int i = 0; i < n; i++)
        to[i] += (pu_real)x[i];
}

/* X := (X + X')/2, for a matrix that is symmetric up to rounding, or a gradient for a symmetric matrix. */
PU__FN void pu__ssm_average(pu_int S, double *X)
{
    for (pu_int i = 0; i < S * S; i++) {
        pu_int mirror = i % S * S + i / S;
        if (mirror <= i)
            X[i] = X[mirror] = (X[i] + X[mirror]) / 2;
    }
}

/* out = (C + C')/2 of a matrix that is symmetric up to rounding. */
PU__FN void pu__ssm_symmetric(pu_int S, const pu_real *C, double *out)
{
    pu__ssm_widen(S * S, C, out);
    pu__ssm_average(S, out);
}

/* X := sum_i A^i X A'^i, which solves X = A X A' + X_0, by doubling: X += M X M', M := M M, with M = A at first.
   transposed: A' in the place of A. Returns the number of doublings, or -1 when A is not stable.
   doublings > 0: make that many, for an X of any sign. doublings = 0: X is positive definite, and the sum ends when
   its diagonal, which bounds the other entries, has not moved twice in a row. */
PU__FN int pu__ssm_lyapunov(pu_int S, const pu_real *A, int transposed, int doublings, double *X)
{
    double M[PU__SSM_SQUARE], term[PU__SSM_SQUARE];
    int most = doublings ? doublings : 64; /* a radius of 1 - 1e-16 needs about 59 */
    int step, quiet = 0;                   /* doublings without a change of the diagonal */
    pu__ssm_widen(S * S, A, M);
    for (step = 1; step <= most; step++) {
        /* X += M X M' */
        pu__ssm_mul(S, M, transposed, X, 0, term);
        pu__ssm_mul(S, term, 0, M, !transposed, term);
        quiet++;
        for (pu_int i = 0; i < S * S; i++) {
            X[i] += term[i];
            if (i % (S + 1))
                continue; /* the rest is for the diagonal */
            if (!doublings && !pu__finite_double(X[i]))
                return -1;
            if (!(term[i] <= 1e-16 * X[i]))
                quiet = 0;
        }
        if (!doublings && quiet == 2)
            return step;
        pu__ssm_mul(S, M, 0, M, 0, M);
    }
    return doublings ? doublings : -1;
}

/* ---- gradients ---- */

/* Derivatives with respect to A, Q and P0, or sums on the way to them; S x S each. Together 6 KiB. */
typedef struct {
    double A[PU__SSM_SQUARE], Q[PU__SSM_SQUARE], P0[PU__SSM_SQUARE];
} pu__ssm_sums;

/* grad += the derivatives d/dA = d->A, d/dQ = -d->Q and d/dP0 = -d->P0. The last two are symmetric, and have the sign
   that they bring along from the precisions. They hold for independent A, Q and P0, but P0 may depend on the others.
   Zero start, P0 = Q: d/dQ += d/dP0. Stationary start: dP0 = A dP0 A' + (dA P0 A' + A P0 dA' + dQ), so with
     Lambda = A'Lambda A + d/dP0:   d/dA += 2 Lambda A P0,   d/dQ += Lambda.
   Overwrites d. */
PU__FN void pu__ssm_push(const pu_ssm *m, pu__ssm_sums *d, pu_real *grad)
{
    pu_int S = m->states, SS = S * S;
    double change[PU__SSM_SQUARE] = {0}; /* -Lambda A P0 */
    if (m->start == PU_SSM_STATIONARY) {
        pu__ssm_lyapunov(S, m->A, 1, m->doublings, d->P0); /* now -Lambda */
        pu__ssm_mul(S, m->A_set, 0, m->P0, 0, change);
        pu__ssm_mul(S, d->P0, 0, change, 0, change);
    }
    for (pu_int i = 0; i < SS; i++) {
        if (m->start == PU_SSM_GIVEN)
            grad[2 * SS + i] -= (pu_real)d->P0[i];
        else
            d->Q[i] += d->P0[i];
        grad[i] += (pu_real)(d->A[i] - 2 * change[i]);
        grad[SS + i] -= (pu_real)d->Q[i];
    }
}

/* G := V (G + G')/2 V: from the gradient for a precision V to minus the gradient for the covariance V^-1. */
PU__FN void pu__ssm_to_covariance(pu_int S, const double *V, double *G)
{
    pu__ssm_mul(S, V, 0, G, 0, G);
    pu__ssm_mul(S, G, 0, V, 0, G);
    pu__ssm_average(S, G);
}

/* grad += what follows from d->A = Q d/dA, d->Q = d/dW and d->P0 = d/dW_0, where W = Q^-1 and W_0 = P0^-1.
   Overwrites d. */
PU__FN pu_status pu__ssm_push_precision(const pu_ssm *m, pu__ssm_sums *d, pu_real *grad)
{
    pu__ssm_mul(m->states, m->Qi, 0, d->A, 0, d->A);
    pu__ssm_to_covariance(m->states, m->Qi, d->Q);
    pu__ssm_to_covariance(m->states, m->Pi, d->P0);
    pu__ssm_push(m, d, grad);
    return PU_OK;
}

/* grad += sum_j weight_j d/dtheta p_j'Gamma q_j. With u = B p and v = B q,
     p'Gamma q = p_0'W_0 q_0 + sum_{t>0} u_t'W v_t, so
     d/dW_0 = p_0 q_0'
     d/dW   = sum_{t>0} u_t v_t'
     d/dA   = -W sum_{t>0} (v_t p_{t-1}' + u_t q_{t-1}')
   work: four tiles. The sums over columns and tiles are in double. */
PU__FN pu_status pu__ssm_grad(PU__GRAD_ARGS)
{
    const pu_ssm *m = pu__ssm(op);
    pu_int S = m->states, T = m->steps, tile = S * PU__SSM_ROW;
    pu_real *p = work, *q = p + tile, *u = q + tile, *v = u + tile;
    pu__ssm_sums d = {{0}, {0}, {0}};
    for (pu_int column = 0; column < k; column++) {
        const pu_real *p_all = pu__col(P, column), *q_all = pu__col(Q, column);
        double w = (double)weight[column];
        if (weight[column] == 0)
            continue;
        /* t = 0, then the steps after it, tile by tile */
        for (pu_int at = 0; at < S * S; at++)
            d.P0[at] += w * (double)p_all[at / S] * (double)q_all[at % S];
        for (pu_int first = 1; first < T; first += PU__SSM_STEPS) {
            pu_int n = pu__min(PU__SSM_STEPS, T - first);
            pu__ssm_load(m, p_all, first, p);
            pu__ssm_load(m, q_all, first, q);
            pu__ssm_mix(S, m->A, p, p + 1, u);
            pu__ssm_mix(S, m->A, q, q + 1, v);
            /* Column l of u and v is step first + l, of p and q the step before that. */
            for (pu_int at = 0; at < S * S; at++) {
                pu_int i = at / S * PU__SSM_ROW, j = at % S * PU__SSM_ROW;
                d.Q[at] += w * pu__dot(n, NULL, u + i, v + j);
                d.A[at] -= w * (pu__dot(n, NULL, v + i, p + j) + pu__dot(n, NULL, u + i, q + j));
            }
        }
    }
    return pu__ssm_push_precision(m, &d, grad);
}

/* B += Gamma, its lower triangle, stored as a band of this width (see pu_op.band_add).
   Blocks (t, t) are W_t + A'W A (the last one: W_t alone), blocks (t, t-1) are -W A. */
PU__FN pu_status pu__ssm_band_add(const pu_op *op, pu_int width, double *B)
{
    const pu_ssm *m = pu__ssm(op);
    pu_int S = m->states, D = op->rows;
    double WA[PU__SSM_SQUARE], AWA[PU__SSM_SQUARE];
    pu__ssm_mul(S, m->Qi, 0, m->A_set, 0, WA);
    pu__ssm_mul(S, m->A_set, 1, WA, 0, AWA);
    for (pu_int at = 0; at < D; at++) {
        const double *W = at < S ? m->Pi : m->Qi;
        pu_int i = at % S;
        double *diagonal = B + at * (width + 1) + i; /* diagonal[-j] is the entry in column j of the block */
        /* block (t, t), then block (t, t-1) */
        for (pu_int j = 0; j <= i; j++)
            diagonal[-j] += W[i * S + j] + (at < D - S ? AWA[i * S + j] : 0);
        for (pu_int j = 0; j < S && at >= S; j++)
            diagonal[S - j] -= WA[i * S + j];
    }
    return PU_OK;
}

/* Entry (i, j) of the diagonal block that begins at row `block`, in a band with w entries per row (see pu_op.band_add).
   Only the lower triangle is stored. */
PU__FN double pu__ssm_band_at(const double *band, pu_int w, pu_int block, pu_int i, pu_int j)
{
    pu_int lower = pu__most(i, j);
    return band[(block + lower) * w + 2 * lower - i - j];
}

/* sum_l a_l b_l over S entries, in double. */
PU__FN double pu__ssm_dot(pu_int S, const double *a, const double *b)
{
    double sum = 0;
    for (pu_int l = 0; l < S; l++)
        sum += a[l] * b[l];
    return sum;
}

/* grad += weight d/dtheta tr(Gamma Z), Z given inside the band:
     tr(Gamma Z) = tr(W_0 Z_00) + sum_{t>0} tr(W [Z_tt + A Z_{t-1,t-1} A' - A Z_{t-1,t} - Z_{t,t-1} A']).
   The three sums over t use the places of the derivatives that they become. */
PU__FN pu_status pu__ssm_band_grad(const pu_op *op, pu_int width, const double *Z, double weight, pu_real *grad)
{
    const pu_ssm *m = pu__ssm(op);
    pu_int S = m->states, w = width + 1;
    const double *A = m->A_set;
    pu__ssm_sums d = {{0}, {0}, {0}};
    double *now = d.Q, *lag = d.A, *before = d.P0;
    /* The sums over t > 0 of Z_tt, Z_{t,t-1} and Z_{t-1,t-1}; t counts rows here. */
    for (pu_int t = S; t < op->rows; t += S)
        for (pu_int i = 0; i < S; i++)
            for (pu_int j = 0; j < S; j++) {
                pu_int at = i * S + j;
                now[at] += weight * pu__ssm_band_at(Z, w, t, i, j);
                lag[at] += weight * Z[(t + i) * w + S + i - j];
                before[at] += weight * pu__ssm_band_at(Z, w, t - S, i, j);
            }
    pu__ssm_mul(S, A, 0, before, 0, before);
    /* d/dW = now + A before A' - A lag' - lag A' */
    for (pu_int at = 0; at < S * S; at++) {
        pu_int i = at / S * S, j = at % S * S;
        now[at] += pu__ssm_dot(S, before + i, A + j) - pu__ssm_dot(S, A + i, lag + j) - pu__ssm_dot(S, A + j, lag + i);
    }
    /* Q d/dA = 2 (A before - lag),   d/dW_0 = Z_00 */
    for (pu_int at = 0; at < S * S; at++) {
        d.A[at] = 2 * (before[at] - lag[at]);
        d.P0[at] = weight * pu__ssm_band_at(Z, w, 0, at / S, at % S);
    }
    return pu__ssm_push_precision(m, &d, grad);
}

/* That of Q and P0: Q_ii (Q^-1)_ii is at least the largest ratio of a diagonal entry to a pivot, in any order of the
   states (see pu__pivot_ratio). And what rounding of A does to a stationary start P0 = sum_i A^i Q A'^i: it is enlarged by
   the number of terms that count, about 1 / (1 - r) with r the radius of A. Doublings went on until r^(2^d) was below
   1e-16, and twice more, so that 1 / (1 - r) = 2^(d - 2) / 37 = 2^(d - 7.2); - 6 is on the safe side. */
PU__FN double pu__ssm_condition(const pu_op *op)
{
    const pu_ssm *m = pu__ssm(op);
    double worst = 1;
    for (pu_int i = 0; i < m->states; i++) {
        pu_int at = i * (m->states + 1);
        worst = pu__max(worst, pu__max(m->Q_set[at] * m->Qi[at], m->P0[at] * m->Pi[at]));
    }
    return m->start == PU_SSM_STATIONARY ? pu__max(worst, ldexp(1, m->doublings - 6)) : worst;
}

/* *value = log det Gamma = -log det P0 - (T-1) log det Q, since det B = 1. pu_ssm_set has made it. */
PU__FN pu_status pu__ssm_logdet(PU__LOGDET_ARGS)
{
    *value = pu__ssm(op)->logdet;
    return PU_OK;
}

/* grad += weight d/dtheta log det Gamma. The derivatives are -(T-1) Q^-1 for Q and -P0^-1 for P0; pu__ssm_push takes
   them with the opposite sign. */
PU__FN pu_status pu__ssm_logdet_grad(PU__LOGDET_GRAD_ARGS)
{
    const pu_ssm *m = pu__ssm(op);
    pu__ssm_sums d = {{0}, {0}, {0}};
    for (pu_int i = 0; i < m->states * m->states; i++) {
        d.Q[i] = (double)weight * (double)(m->steps - 1) * m->Qi[i];
        d.P0[i] = (double)weight * m->Pi[i];
    }
    pu__ssm_push(m, &d, grad);
    return PU_OK;
}

/* ---- setting and checking ---- */

/* Are A, Q and P0 finite, and still what pu_ssm_set saw? It has tested all the rest.
   *index counts through A, Q and P0; a P0 that was made from A and Q has no entries of its own there, so it is 0. */
PU__FN pu_status pu__ssm_check(const pu_op *op, pu_int *index)
{
    const pu_ssm *m = pu__ssm(op);
    pu_int S = m->states, SS = S * S;
    const double *const set[3] = {m->A_set, m->Q_set, m->P0_set};
    /* Only a stationary start has counted doublings. */
    int changed = (m->start == PU_SSM_STATIONARY) != (m->doublings > 0);
    *index = -1;
    /* Set for another size since the operator was made? */
    if (op->rows != S * m->steps || op->work != PU__SSM_TILES * PU__SSM_ROW * S)
        return PU_E_ARGUMENT;
    for (pu_int i = 0; i < 3 * SS; i++) {
        double x = m->P0[i % SS];
        if (i < 2 * SS)
            x = (double)(i < SS ? m->A : m->Q)[i % SS];
        /* A NaN differs from everything. */
        changed |= x != set[i / SS][i % SS];
        if (pu__finite_double(x))
            continue;
        *index = i < op->params ? i : 0;
        return PU_E_NONFINITE;
    }
    return changed ? PU_E_ARGUMENT : PU_OK;
}

/* V = C^-1, also rounded into narrow, and F F' = V with F = L'^-1, where L L' = C. Reads the lower triangle of C.
   *logdet += log det C. Returns the row at which C is not positive definite, or -1. */
PU__FN pu_int pu__ssm_invert(pu_int S, const double *C, double *V, pu_real *narrow, pu_real *F, double *logdet)
{
    double L[PU__SSM_SQUARE];
    pu_int i;
    for (i = 0; i < S * S; i++)
        L[i] = i % S <= i / S ? C[i] : 0;
    i = pu__cholesky_double(S, L, logdet);
    if (i >= 0)
        return i;
    pu__invert_lower(S, L);
    /* C^-1 = L'^-1 L^-1 */
    pu__ssm_mul(S, L, 1, L, 0, V);
    for (i = 0; i < S * S; i++) {
        narrow[i] = (pu_real)V[i];
        F[i] = (pu_real)L[i % S * S + i / S];
        if (!pu__finite(narrow[i]))
            return i / S; /* singular as far as this precision can tell */
    }
    return -1;
}

/* out = (C + C')/2 after the checks of pu_op_spd: finite, symmetric to rounding, a positive diagonal.
   *at: the entry of C at fault, counted from `offset`. */
PU__FN pu_status pu__ssm_covariance(pu_int S, const pu_real *C, pu_int offset, double *out, pu_int *at)
{
    pu_op op = pu_op_spd(S, C, NULL);
    pu_status status = pu__spd_check(&op, at);
    if (status)
        *at += offset;
    else
        pu__ssm_symmetric(S, C, out);
    return status;
}

/* pu_ssm_set after the tests of its arguments; m has its sizes and its start.
   *at: the culprit, counted through A, Q and P0, or -1. A start without a given P0 that fails is the fault of A: 0. */
PU__FN pu_status pu__ssm_fill(pu_ssm *m, const pu_real *A, const pu_real *Q, const pu_real *P0, pu_int *at)
{
    pu_int S = m->states, SS = S * S;
    int given = m->start == PU_SSM_GIVEN;
    double logdet_Q = 0, logdet_P = 0;
    pu_int row;
    pu_status status = pu__check_finite(SS, A, at);
    if (!status)
        status = pu__ssm_covariance(S, Q, SS, m->P0, at); /* P0 = Q, unless another one follows */
    if (status)
        return status;
    /* A and Q, in the forms that the functions above want */
    pu__copy(m->A, A, SS);
    pu__copy(m->Q, Q, SS);
    pu__transpose(S, S, A, m->At, 0);
    pu__ssm_widen(SS, A, m->A_set);
    pu__ssm_widen(SS, Q, m->Q_set);
    row = pu__ssm_invert(S, m->P0, m->Qi, m->W, m->F, &logdet_Q);
    if (row >= 0) {
        *at = SS + row * (S + 1);
        return PU_E_NOT_DEFINITE;
    }
    /* P0 */
    if (given)
        status = pu__ssm_covariance(S, P0, 2 * SS, m->P0, at);
    if (status)
        return status;
    if (m->start == PU_SSM_STATIONARY)
        m->doublings = pu__ssm_lyapunov(S, A, 0, 0, m->P0);
    pu__ssm_average(S, m->P0);
    row = m->doublings < 0 ? 0 : pu__ssm_invert(S, m->P0, m->Pi, m->W0, m->F0, &logdet_P);
    if (row >= 0) {
        *at = given ? 2 * SS + row * (S + 1) : 0;
        return PU_E_NOT_DEFINITE;
    }
    /* det B = 1, so only P0 and T - 1 times Q count. */
    memcpy(m->P0_set, m->P0, sizeof m->P0);
    m->logdet = -logdet_P - (double)(m->steps - 1) * logdet_Q;
    return PU_OK;
}

/* PU_OK if a state space can have these sizes and this start, else PU_E_ARGUMENT or PU_E_OVERFLOW.
   pu_model_state_space calls it too, since it must know before it takes memory. */
PU__FN pu_status pu__ssm_sizes(pu_int steps, pu_int states, pu_ssm_start start)
{
    if (steps < 1 || states < 1 || states > PU_SSM_MAX || (unsigned)start > PU_SSM_GIVEN)
        return PU_E_ARGUMENT;
    return steps > PTRDIFF_MAX / (pu_int)sizeof(pu_real) / states ? PU_E_OVERFLOW : PU_OK;
}

/* Copies A, Q and P0 and makes what follows from them. A refused *m is zero, and has no size. */
PU_DEF pu_status pu_ssm_set(pu_ssm *m, pu_int steps, pu_int states, const pu_real *A, const pu_real *Q,
                            pu_ssm_start start, const pu_real *P0, pu_int *index)
{
    int given = start == PU_SSM_GIVEN;
    pu_int unused;
    pu_status status;
    if (!index)
        index = &unused;
    *index = -1;
    if (!m)
        return PU_E_NULL;
    memset(m, 0, sizeof *m);
    /* P0 is required or refused, as the start says. */
    if (!A || !Q || (given && !P0))
        return PU_E_NULL;
    if (P0 && !given)
        return PU_E_ARGUMENT;
    status = pu__ssm_sizes(steps, states, start);
    if (status)
        return status;
    m->steps = steps;
    m->states = states;
    m->start = start;
    status = pu__ssm_fill(m, A, Q, P0, index);
    if (status)
        memset(m, 0, sizeof *m);
    return status;
}

/* Gamma of the process *m, which is borrowed. If pu_ssm_set refused *m, the operator has no size and is refused too. */
PU_DEF pu_op pu_op_ssm(const pu_ssm *m)
{
    pu_int S = m ? m->states : 0;
    pu_int D = m ? m->steps * S : 0;
    pu_op op = pu__op_zero(D, D, 0, m);
    if (D < 1)
        return op;
    /* params: A, Q and, if it is given, P0 */
    op.form = PU_FORM_STATES;
    op.params = (m->start == PU_SSM_GIVEN ? 3 : 2) * S * S;
    op.work = PU__SSM_TILES * PU__SSM_ROW * S;
    op.apply = op.apply_t = pu__ssm_apply;
    op.grad = pu__ssm_grad;
    op.diag = pu__ssm_diag;
    op.sample = pu__ssm_sample;
    op.solve = pu__ssm_solve;
    op.logdet = pu__ssm_logdet;
    op.condition = pu__ssm_condition;
    op.logdet_grad = pu__ssm_logdet_grad;
    op.check = pu__ssm_check;
    /* Block tridiagonal: a row reaches to the beginning of the block before. */
    op.band = (m->steps > 1 ? 2 : 1) * S - 1;
    op.band_add = pu__ssm_band_add;
    op.band_grad = pu__ssm_band_grad;
    op.flops = 3 * (double)(S * S) * (double)m->steps;
    return op;
}

/* nu_0 = m0, nu_t = A nu_{t-1}: the mean of the process, D entries. `at` is the first entry of a step. */
PU_DEF pu_status pu_ssm_mean(const pu_ssm *m, const pu_real *m0, pu_real *nu)
{
    pu_int S = m ? m->states : 0;
    if (!m || !m0 || !nu)
        return PU_E_NULL;
    if (m->steps < 1)
        return PU_E_ARGUMENT;
    pu__copy(nu, m0, S);
    for (pu_int at = S; at < m->steps * S; at += S)
        for (pu_int i = 0; i < S; i++)
            nu[at + i] = (pu_real)pu__dot(S, NULL, m->A + i * S, nu + at - S);
    return PU_OK;
}

/* The reverse of pu_ssm_mean. With g = d/dnu, lambda_{T-1} = g_{T-1} and lambda_t = g_t + A'lambda_{t+1}:
     d/dA = sum_{t>0} lambda_t nu_{t-1}',   d/dm0 = lambda_0. */
PU_DEF pu_status pu_ssm_mean_grad(const pu_ssm *m, const pu_real *nu, const pu_real *grad_nu, pu_real *grad_A,
                                  pu_real *grad_m0)
{
    double lambda[PU_SSM_MAX] = {0}, next[PU_SSM_MAX] = {0}, dA[PU__SSM_SQUARE] = {0};
    pu_int S = m ? m->states : 0;
    if (!m || !nu || !grad_nu)
        return PU_E_NULL;
    if (m->steps < 1)
        return PU_E_ARGUMENT;
    for (pu_int at = (m->steps - 1) * S; at >= 0; at -= S) {
        /* lambda_t = g_t + A'lambda_{t+1} */
        pu__ssm_widen(S, grad_nu + at, next);
        for (pu_int i = 0; i < S * S; i++)
            next[i % S] += m->A_set[i] * lambda[i / S];
        memcpy(lambda, next, sizeof lambda);
        /* There is no nu_{-1}. */
        for (pu_int i = 0; i < S * S && at > 0; i++)
            dA[i] += lambda[i / S] * (double)nu[at - S + i % S];
    }
    pu__ssm_add(S * S, dA, grad_A);
    pu__ssm_add(S, lambda, grad_m0);
    return PU_OK;
}

/* ---- readout: Phi = I (x) c', one observation c'z_t per step; data = c, params = S, rows = T ---- */

/* y_t = c'x_t, or y_t += c'x_t, for k columns. */
PU__FN pu_status pu__readout_apply(PU__APPLY_ARGS)
{
    const pu_real *c = pu__entries(op);
    pu_int S = op->params;
    for (pu_int j = 0; j < k; j++)
        for (pu_int t = 0; t < op->rows; t++) {
            const pu_real *x = pu__col(X, j) + t * S;
            pu_real sum = 0;
            /* A few terms are not worth a call. */
            for (pu_int i = 0; i < S && S < PU__LANES; i++)
                sum += c[i] * x[i];
            if (S >= PU__LANES)
                sum = (pu_real)pu__dot(S, NULL, c, x);
            pu__set(pu__col(Y, j) + t, sum, add);
        }
    return PU_OK;
}

/* y_t = x_t c, or y_t += x_t c, for k columns. */
PU__FN pu_status pu__readout_apply_t(PU__APPLY_ARGS)
{
    const pu_real *c = pu__entries(op);
    pu_int S = op->params;
    for (pu_int j = 0; j < k; j++)
        for (pu_int t = 0; t < op->rows; t++) {
            pu_real x = pu__col(X, j)[t], *y = pu__col(Y, j) + t * S;
            for (pu_int i = 0; i < S; i++)
                pu__set(y + i, x * c[i], add);
        }
    return PU_OK;
}

/* grad_i += sum_j weight_j sum_t p_t q_{t,i}, i = 0 .. S-1.
   PU__SSM_STEPS steps of one state are gathered for a dot product. */
PU__FN pu_status pu__readout_grad(PU__GRAD_ARGS)
{
    pu_int S = op->params;
    for (pu_int j = 0; j < k; j++)
        for (pu_int i = 0; i < S; i++) {
            double sum = 0;
            for (pu_int first = 0; first < op->rows; first += PU__SSM_STEPS) {
                pu_int n = pu__min(PU__SSM_STEPS, op->rows - first);
                pu_real row[PU__SSM_STEPS];
                for (pu_int l = 0; l < n; l++)
                    row[l] = pu__col(Q, j)[(first + l) * S + i];
                sum += pu__dot(n, NULL, pu__col(P, j) + first, row);
            }
            grad[i] += (pu_real)((double)weight[j] * sum);
        }
    return PU_OK;
}

/* y_{t,i} += w_t c_i^2: the diagonal of Phi'diag(w) Phi. */
PU__FN pu_status pu__readout_gram_diag(PU__GRAM_DIAG_ARGS)
{
    const pu_real *c = pu__entries(op);
    for (pu_int t = 0; t < op->rows; t++)
        for (pu_int i = 0; i < op->params; i++)
            *y++ += w[t] * (c[i] * c[i]);
    return PU_OK;
}

/* Row m of Phi: the entries of c, from column *first = m S on. Returns how many. */
PU__FN pu_int pu__readout_row(const pu_op *op, pu_int m, pu_int *first, pu_real *value)
{
    *first = m * op->params;
    pu__copy(value, pu__entries(op), op->params);
    return op->params;
}

/* grad += g, S entries: every row is c, so the gradient for a row is the gradient for c. */
PU__FN pu_status pu__readout_row_grad(const pu_op *op, pu_int m, const double *g, pu_real *grad)
{
    (void)m;
    pu__ssm_add(op->params, g, grad);
    return PU_OK;
}

/* Phi = I (x) c', T x (S T). params = PU_ZERO, which whoever uses the operator refuses, tells that S T overflows. */
PU_DEF pu_op pu_op_readout(pu_int steps, pu_int states, const pu_real *c)
{
    int overflow = 0;
    size_t cols = steps > 0 && states > 0 ? pu__mul((size_t)steps, (size_t)states, &overflow) : 0;
    pu_op op = pu__op_zero(steps, (pu_int)cols, overflow ? PU_ZERO : states, c);
    op.apply = pu__readout_apply;
    op.apply_t = pu__readout_apply_t;
    op.grad = pu__readout_grad;
    op.gram_diag = pu__readout_gram_diag;
    op.check = pu__dense_check; /* its params are the numbers in data */
    op.band = states - 1;
    op.row = pu__readout_row;
    op.row_grad = pu__readout_row_grad;
    op.flops = (double)cols;
    op.trusted = 1;
    return op;
}

/* ------------------------------------------------------------------------------------------------
   >>chain   states whose noise has fewer entries than they have, and starts that nothing is known of

     s_0 = B0 w_0 + delta (on the diffuse states),   s_t = F s_{t-1} + B w_t,   w ~ N(0, I), delta flat

   B B' may be singular, then z = (s_0, s_1, ..) has no precision. It is the Gamma of structural models all the same, which
   are served by the Kalman engine alone: that works with shocks w instead of states (pu__chain_filter), and forms the
   gradient from them. What the parameters of the operator are follows from this:
     Delta  r x S    F becomes F + B Delta: all changes of F that the models make have this form
     K      r x r    B becomes B (I + K)
     K0     r0 x r0  B0 becomes B0 (I + K0)
   ------------------------------------------------------------------------------------------------ */

#define PU__PI 3.14159265358979323846

/* A matrix by its rows: entries start[i] .. start[i+1] - 1 are those of row i that are not zero. */
typedef struct {
    pu_int *start, *col;
    double *value;
} pu__sparse_rows;

typedef struct {
    pu_int T, S, r, r0, d; /* steps, states, shocks per step, shocks at the start, diffuse states */
    pu__sparse_rows F, B;  /* S x S, S x r */
    double *B0;            /* S x r0 */
    pu_int *diffuse;       /* d: states */
    pu_int level;          /* a diffuse state that without shocks stays as it is and moves no other; -1: none */
} pu__chain;

/* The chain behind an operator. */
PU__FN const pu__chain *pu__chain_of(const pu_op *op) { return (const pu__chain *)op->data; }

/* What a structural model has no use for: no product, solve or gradient of a precision that need not exist. */
PU__FN pu_status pu__chain_apply(PU_UNUSED const pu_op *op, PU_UNUSED pu_int k, PU_UNUSED pu_block X, PU_UNUSED pu_block Y,
                                 PU_UNUSED int add, PU_UNUSED pu_real *work)
{
    return PU_E_UNSUPPORTED;
}

/* Likewise. */
PU__FN pu_status pu__chain_grad(PU_UNUSED const pu_op *op, PU_UNUSED pu_int k, PU_UNUSED pu_block P, PU_UNUSED pu_block Q,
                                PU_UNUSED const pu_real *weight, PU_UNUSED pu_real *grad, PU_UNUSED pu_real *work)
{
    return PU_E_UNSUPPORTED;
}

/* y += M x for a matrix M by its rows. */
PU__FN void pu__sparse_add(const pu__sparse_rows *M, pu_int rows, const double *x, double *y)
{
    for (pu_int i = 0; i < rows; i++)
        for (pu_int at = M->start[i]; at < M->start[i + 1]; at++)
            y[i] += M->value[at] * x[M->col[at]];
}

/* Y = s_0, s_1, .. for normals w_0, w_1, ..; diffuse states begin at zero. Together with pu__chain_solve, which leaves them
   as they are, that makes draws from the chain. */
PU__FN pu_status pu__chain_sample(PU__SOLVE_ARGS)
{
    const pu__chain *c = pu__chain_of(op);
    pu_int S = c->S;
    for (pu_int column = 0; column < k; column++) {
        const pu_real *w = pu__col(X, column);
        pu_real *s = pu__col(Y, column);
        for (pu_int i = 0; i < S; i++) {
            double sum = 0;
            for (pu_int j = 0; j < c->r0; j++)
                sum += c->B0[i * c->r0 + j] * (double)w[j];
            s[i] = (pu_real)sum;
        }
        w += c->r0 + c->d;
        for (pu_int t = 1; t < c->T; t++, w += c->r) {
            s += S;
            for (pu_int i = 0; i < S; i++) {
                double sum = 0;
                for (pu_int at = c->F.start[i]; at < c->F.start[i + 1]; at++)
                    sum += c->F.value[at] * (double)s[c->F.col[at] - S];
                for (pu_int at = c->B.start[i]; at < c->B.start[i + 1]; at++)
                    sum += c->B.value[at] * (double)w[c->B.col[at]];
                s[i] = (pu_real)sum;
            }
        }
    }
    return PU_OK;
}

/* See pu__chain_sample. */
PU__FN pu_status pu__chain_solve(PU__SOLVE_ARGS)
{
    for (pu_int j = 0; j < k; j++)
        pu__copy(pu__col(Y, j), pu__col(X, j), op->rows);
    return PU_OK;
}

/* What log det Gamma would be is part of what the engine delivers. */
PU__FN pu_status pu__chain_logdet(PU__LOGDET_ARGS)
{
    (void)op;
    *value = 0;
    return PU_OK;
}

/* Likewise. */
PU__FN pu_status pu__chain_logdet_grad(PU_UNUSED const pu_op *op, PU_UNUSED pu_real weight, PU_UNUSED pu_real *grad,
                                       PU_UNUSED pu_real *work)
{
    return PU_OK;
}

/* The numbers of F, B and B0 are finite? */
PU__FN pu_status pu__chain_check(const pu_op *op, pu_int *index)
{
    const pu__chain *c = pu__chain_of(op);
    int finite = 1;
    *index = -1;
    for (pu_int i = 0; i < c->F.start[c->S]; i++)
        finite &= pu__finite_double(c->F.value[i]);
    for (pu_int i = 0; i < c->B.start[c->S]; i++)
        finite &= pu__finite_double(c->B.value[i]);
    for (pu_int i = 0; i < c->S * c->r0; i++)
        finite &= pu__finite_double(c->B0[i]);
    return finite ? PU_OK : PU_E_NONFINITE;
}

/* The operator of a chain, which is borrowed. */
PU__FN pu_op pu__op_chain(const pu__chain *c)
{
    pu_int D = c ? c->T * c->S : 0;
    pu_op op = pu__op_zero(D, D, 0, c);
    if (D < 1)
        return op;
    op.params = c->r * (c->S + c->r) + c->r0 * c->r0;
    op.form = PU_FORM_CHAIN;
    op.noise = c->r0 + c->d + (c->T - 1) * c->r;
    op.trusted = 2;
    op.apply = pu__chain_apply;
    op.apply_t = pu__chain_apply;
    op.grad = pu__chain_grad;
    op.sample = pu__chain_sample;
    op.solve = pu__chain_solve;
    op.logdet = pu__chain_logdet;
    op.logdet_grad = pu__chain_logdet_grad;
    op.check = pu__chain_check;
    op.band = -1;
    op.flops = (double)c->T * (double)(c->S * (c->S + c->r));
    return op;
}

/* ------------------------------------------------------------------------------------------------
   >>fft   transforms of any length
   ------------------------------------------------------------------------------------------------ */

/* The discrete Fourier transform in Stockham's form. A pass reads x, of length r m s, as x[c + s (p + m l)]
   and writes
       y[c + s (r p + j)] = e^(-2 pi i p j / (r m)) sum_l e^(-2 pi i j l / r) x[c + s (p + m l)],   j = 0 .. r-1,
   with c = 0 .. s-1 and p = 0 .. m-1. The next pass has r times the s, and no bit reversal is needed.

   Every index stands for `lanes` neighbouring numbers: columns of an image, or its rows after a
   transposition. So the innermost loop runs over at least `lanes` contiguous reals that share their
   factors. Real and imaginary parts lie in separate arrays. The loops then need no shuffles, and the
   inverse is the forward transform with the parts exchanged.

   From the inside out: complex arithmetic, butterflies (the sum over l for one c and p), passes, transforms
   of mixed radix, Bluestein's convolution for lengths with large prime factors, plans, FFTW in place of all
   that, the public functions. */

#define PU__FFT_LANES (64 / (int)sizeof(pu_real)) /* transforms side by side: a cache line */
#define PU__FFT_PRIME 64 /* largest prime radix, O(r^2); beyond it Bluestein's convolution is faster */

/* Complex numbers, parts apart: lane q of entry i is re[i * step + q] and im[i * step + q]. */
typedef struct {
    pu_real *re, *im;
    pu_int step;
} pu__re_im;

/* The two arrays as one argument. Arrays that are only read may be const. */
PU__FN pu__re_im pu__parts(const pu_real *re, const pu_real *im, pu_int step)
{
    pu__re_im x = {(pu_real *)(uintptr_t)re, (pu_real *)(uintptr_t)im, step};
    return x;
}

/* x with its parts exchanged: what turns the forward transform into the inverse. */
PU__FN pu__re_im pu__exchanged(pu__re_im x) { return pu__parts(x.im, x.re, x.step); }

/* ---- complex arithmetic, on lines of numbers ---- */

/* A line is what one instruction works on; with AVX-512 that is a whole cache line. Its length does not
   change the bits: every number goes through the same operations. Without vectors of the compiler a line is
   one number. */
#if PU__VECTORS && defined(__AVX512F__)
#define PU__LINE PU__FFT_LANES
typedef pu_real pu__line __attribute__((vector_size(64), aligned(sizeof(pu_real)), may_alias));
#else
#define PU__LINE PU__WIDTH
typedef pu__vector pu__line;
#endif

/* PU__LINE complex numbers, parts apart. */
typedef struct {
    pu__line re, im;
} pu__complex;

/* a + b */
PU__INLINE pu__complex pu__c_add(pu__complex a, pu__complex b)
{
    a.re += b.re;
    a.im += b.im;
    return a;
}

/* a - b */
PU__INLINE pu__complex pu__c_sub(pu__complex a, pu__complex b)
{
    a.re -= b.re;
    a.im -= b.im;
    return a;
}

/* -i a */
PU__INLINE pu__complex pu__c_minus_i(pu__complex a)
{
    pu__complex y = {a.im, -a.re};
    return y;
}

/* -i (a - b). Not written as -i times the difference: where a = b, the zeros would have other signs. */
PU__INLINE pu__complex pu__c_sub_i(pu__complex a, pu__complex b)
{
    pu__complex y = {a.im - b.im, b.re - a.re};
    return y;
}

/* c a with real c */
PU__INLINE pu__complex pu__c_scale(pu_real c, pu__complex a)
{
    a.re *= c;
    a.im *= c;
    return a;
}

/* c a + d b with real c and d */
PU__INLINE pu__complex pu__c_mix(pu_real c, pu__complex a, pu_real d, pu__complex b)
{
    return pu__c_add(pu__c_scale(c, a), pu__c_scale(d, b));
}

/* ---- butterflies: the sum over l for one c and p, and a line of neighbours or a single number ---- */

/* One pass. Where x and y are packed (step = lanes), the s lanes of all c are neighbours and form one
   group. A copy of this struct also tells a butterfly its place. */
typedef struct {
    pu_int radix, s, m;     /* r, s and m of Stockham's form */
    pu_int groups, count;   /* for every p: groups of count neighbours */
    pu__re_im x, y;         /* input and output */
    pu_int x_leg, y_leg;    /* distance of a butterfly's inputs, and of its outputs */
    pu_int p, x_at, y_at;   /* of the butterfly at work: its p, and where its inputs and outputs begin */
    const pu_real *wr, *wi; /* factors e^(-2 pi i p j / (r m)) of outputs j = 1 .. r-1, m each */
    const pu_real *root;    /* odd r > 5: the r roots of unity, re then im (= -sin) */
    int plain;              /* m = 1, where all factors are 1: leave them out */
    int whole;              /* the butterfly works on a line; otherwise on a single number */
} pu__fft_pass;

/* The line at an address, or (not whole) the single number there in its first place, with zeros after it. */
PU__INLINE pu__line pu__fft_line(const pu_real *at, int whole)
{
    pu__line single = {*at};
    return whole ? *(const pu__line *)at : single;
}

/* Input l of the butterfly. */
PU__INLINE pu__complex pu__fft_get(const pu__fft_pass *o, pu_int l)
{
    pu_int at = o->x_at + l * o->x_leg;
    pu__complex a = {pu__fft_line(o->x.re + at, o->whole), pu__fft_line(o->x.im + at, o->whole)};
    return a;
}

/* Output j of the butterfly: a times its factor (output 0 has none). */
PU__INLINE void pu__fft_put(const pu__fft_pass *o, pu_int j, pu__complex a)
{
    pu_int at = o->y_at + j * o->y_leg;
    size_t bytes = sizeof(pu_real) * (o->whole ? PU__LINE : 1);
    if (j > 0 && !o->plain) {
        pu_int factor = (j - 1) * o->m + o->p;
        pu_real wr = o->wr[factor], wi = o->wi[factor];
        pu__line product = a.re * wr - a.im * wi;
        a.im = a.re * wi + a.im * wr;
        a.re = product;
    }
    memcpy(o->y.re + at, &a.re, bytes);
    memcpy(o->y.im + at, &a.im, bytes);
}

/* Outputs i and j: a + b and a - b. */
PU__INLINE void pu__fft_put_two(const pu__fft_pass *o, pu_int i, pu_int j, pu__complex a, pu__complex b)
{
    pu__fft_put(o, i, pu__c_add(a, b));
    pu__fft_put(o, j, pu__c_sub(a, b));
}

/* r = 2: y_0, y_1 = x_0 +- x_1 */
PU__INLINE void pu__fft_2(const pu__fft_pass *o) { pu__fft_put_two(o, 0, 1, pu__fft_get(o, 0), pu__fft_get(o, 1)); }

/* r = 3: with t = x_1 + x_2 and d = -i sin(2 pi / 3) (x_1 - x_2),
     y_0 = x_0 + t,  y_1, y_2 = (x_0 - t/2) +- d. */
PU__INLINE void pu__fft_3(const pu__fft_pass *o)
{
    pu__complex x0 = pu__fft_get(o, 0), x1 = pu__fft_get(o, 1), x2 = pu__fft_get(o, 2);
    pu__complex t = pu__c_add(x1, x2), d = pu__c_scale(PU_R(0.86602540378443864676), pu__c_sub_i(x1, x2));
    pu__complex a = pu__c_sub(x0, pu__c_scale(PU_R(0.5), t));
    pu__fft_put(o, 0, pu__c_add(x0, t));
    pu__fft_put_two(o, 1, 2, a, d);
}

/* Half of a transform of length 4: a, b = x_0 +- x_2,  c = x_1 + x_3  and  d = -i (x_1 - x_3). */
typedef struct {
    pu__complex a, b, c, d;
} pu__fft_half;

/* The same of the butterfly's inputs first, first + by, first + 2 by and first + 3 by. */
PU__INLINE pu__fft_half pu__fft_half_4(const pu__fft_pass *o, pu_int first, pu_int by)
{
    pu__complex x0 = pu__fft_get(o, first), x1 = pu__fft_get(o, first + by);
    pu__complex x2 = pu__fft_get(o, first + 2 * by), x3 = pu__fft_get(o, first + 3 * by);
    pu__fft_half y = {pu__c_add(x0, x2), pu__c_sub(x0, x2), pu__c_add(x1, x3), pu__c_sub_i(x1, x3)};
    return y;
}

/* r = 4: y_0, y_2 = a +- c,  y_1, y_3 = b +- d. */
PU__INLINE void pu__fft_4(const pu__fft_pass *o)
{
    pu__fft_half x = pu__fft_half_4(o, 0, 1);
    pu__fft_put_two(o, 0, 2, x.a, x.c);
    pu__fft_put_two(o, 1, 3, x.b, x.d);
}

/* r = 5: with c_k, s_k = cos, sin of 2 pi k / 5,  t, d = x_1 +- x_4  and  u, e = x_2 +- x_3,
     y_0 = x_0 + t + u,
     y_1, y_4 = (x_0 + c_1 t + c_2 u) -+ i (s_1 d + s_2 e),
     y_2, y_3 = (x_0 + c_2 t + c_1 u) -+ i (s_2 d - s_1 e). */
PU__INLINE void pu__fft_5(const pu__fft_pass *o)
{
    pu_real c1 = PU_R(0.30901699437494742410), c2 = PU_R(-0.80901699437494742410);
    pu_real s1 = PU_R(0.95105651629515357212), s2 = PU_R(0.58778525229247312917);
    pu__complex x0 = pu__fft_get(o, 0);
    pu__complex x1 = pu__fft_get(o, 1), x2 = pu__fft_get(o, 2), x3 = pu__fft_get(o, 3), x4 = pu__fft_get(o, 4);
    pu__complex t = pu__c_add(x1, x4), d = pu__c_sub(x1, x4), u = pu__c_add(x2, x3), e = pu__c_sub(x2, x3);
    pu__complex a = pu__c_add(x0, pu__c_mix(c1, t, c2, u)), b = pu__c_add(x0, pu__c_mix(c2, t, c1, u));
    pu__complex f = pu__c_minus_i(pu__c_mix(s1, d, s2, e)), g = pu__c_minus_i(pu__c_mix(s2, d, -s1, e));
    pu__fft_put(o, 0, pu__c_add(x0, pu__c_add(t, u)));
    pu__fft_put_two(o, 1, 4, a, f);
    pu__fft_put_two(o, 2, 3, b, g);
}

/* r = 8: y_j, y_{j+4} = e_j +- o_j for j = 0 .. 3. Here e is the transform of length 4 of the even inputs.
   o is that of the odd inputs, with o_j times e^(-2 pi i j / 8). With h = 1 / sqrt(2) these factors are
     1,  h (1 - i),  -i,  -h (1 + i).
   The odd half comes first: fewer numbers are alive at once that way. */
PU__INLINE void pu__fft_8(const pu__fft_pass *o)
{
    pu_real h = PU_R(0.70710678118654752440);
    pu__fft_half odd = pu__fft_half_4(o, 1, 2);
    pu__complex f = pu__c_add(odd.b, odd.d), g = pu__c_sub(odd.b, odd.d);
    pu__complex o0 = pu__c_add(odd.a, odd.c), o2 = pu__c_sub_i(odd.a, odd.c);
    pu__fft_half even = pu__fft_half_4(o, 0, 2);
    pu__complex e0 = pu__c_add(even.a, even.c), e1 = pu__c_add(even.b, even.d);
    pu__complex e2 = pu__c_sub(even.a, even.c), e3 = pu__c_sub(even.b, even.d);
    pu__complex o1 = {h * (f.re + f.im), h * (f.im - f.re)}, o3 = {h * (g.im - g.re), -h * (g.re + g.im)};
    pu__fft_put_two(o, 0, 4, e0, o0);
    pu__fft_put_two(o, 1, 5, e1, o1);
    pu__fft_put_two(o, 2, 6, e2, o2);
    pu__fft_put_two(o, 3, 7, e3, o3);
}

/* Odd r: with c_k, s_k = cos, sin of 2 pi k / r  and  l = 1 .. (r-1)/2,
     y_0 = sum_l x_l over all l,
     y_j, y_{r-j} = (x_0 + sum_l c_jl (x_l + x_{r-l})) -+ i sum_l s_jl (x_l - x_{r-l}).
   The inputs are read again for every j: they are in the nearest cache, and r of them would not fit the
   registers. */
PU__INLINE void pu__fft_odd(const pu__fft_pass *o)
{
    pu_int r = o->radix;
    pu__complex x0 = pu__fft_get(o, 0), sum = x0;
    for (pu_int l = 1; l < r; l++)
        sum = pu__c_add(sum, pu__fft_get(o, l));
    pu__fft_put(o, 0, sum);
    for (pu_int j = 1; j <= r / 2; j++) {
        pu__complex cosines = x0;
        pu__complex sines;
        pu_int angle = 0; /* j l mod r */
        memset(&sines, 0, sizeof sines);
        for (pu_int l = 1; l <= r / 2; l++) {
            pu__complex f = pu__fft_get(o, l), g = pu__fft_get(o, r - l);
            angle += j;
            if (angle >= r)
                angle -= r;
            cosines = pu__c_add(cosines, pu__c_scale(o->root[angle], pu__c_add(f, g)));
            sines = pu__c_add(sines, pu__c_scale(o->root[r + angle], pu__c_sub_i(g, f)));
        }
        pu__fft_put_two(o, j, r - j, cosines, sines);
    }
}

/* ---- passes ---- */

/* All butterflies of a pass, on lines, of which the last may overlap the one before it: its numbers then come out
   the same twice. Fewer than a line are taken one by one. butterfly and plain are constants for the compiler, and
   o is a copy that it can keep in registers. */
PU__INLINE void pu__fft_lines(const pu__fft_pass *pass, void (*butterfly)(const pu__fft_pass *), int plain)
{
    pu__fft_pass o = *pass;
    pu_int step;
    o.plain = plain;
    for (o.p = 0; o.p < o.m; o.p++)
        for (pu_int c = 0; c < o.groups; c++) {
            pu_int left = o.count;
            o.x_at = (c + o.s * o.p) * o.x.step;
            o.y_at = (c + o.s * o.radix * o.p) * o.y.step;
            for (o.whole = 1; left >= PU__LINE; left -= step) {
                butterfly(&o);
                step = left > PU__LINE ? pu__min(PU__LINE, left - PU__LINE) : PU__LINE;
                o.x_at += step;
                o.y_at += step;
            }
            for (o.whole = 0; left > 0; left--) {
                butterfly(&o);
                o.x_at++;
                o.y_at++;
            }
        }
}

/* Passes of radix 2 to 5, of any larger odd radix, and two that are always the last (m = 1), on whole lines. */
#define PU__FFT_PASS(name, butterfly, plain)                                                                           \
    PU__FN void name(const pu__fft_pass *pass) { pu__fft_lines(pass, butterfly, plain); }
PU__FFT_PASS(pu__fft_pass_2, pu__fft_2, 0)
PU__FFT_PASS(pu__fft_pass_3, pu__fft_3, 0)
PU__FFT_PASS(pu__fft_pass_4, pu__fft_4, 0)
PU__FFT_PASS(pu__fft_pass_5, pu__fft_5, 0)
PU__FFT_PASS(pu__fft_pass_odd, pu__fft_odd, 0)
PU__FFT_PASS(pu__fft_last_4, pu__fft_4, 1)
PU__FFT_PASS(pu__fft_last_8, pu__fft_8, 1)

/* Copies n entries of `lanes` numbers each. */
PU__FN void pu__fft_copy(pu_int n, pu_int lanes, pu__re_im x, pu__re_im y)
{
    for (pu_int i = 0; i < n; i++) {
        pu__copy(y.re + i * y.step, x.re + i * x.step, lanes);
        pu__copy(y.im + i * y.step, x.im + i * x.step, lanes);
    }
}

/* Reals behind the factors of a pass: the roots of unity of a general odd radix. */
PU__FN pu_int pu__fft_roots(pu_int r) { return r > 5 && r != 8 ? 2 * r : 0; }

/* One pass. Given: radix, s, m, x and y of o; table, its part of the plan's. Returned: the part of the next
   pass. */
PU__FN const pu_real *pu__fft_pass_run(pu__fft_pass *o, pu_int lanes, const pu_real *table)
{
    pu_int r = o->radix, factors = (r - 1) * o->m;
    int packed = o->x.step == lanes && o->y.step == lanes;
    /* by pointer: inlined into one function the passes would share its registers */
    static void (*const by_radix[])(const pu__fft_pass *) = {
        NULL, NULL, pu__fft_pass_2, pu__fft_pass_3, pu__fft_pass_4, pu__fft_pass_5, NULL, NULL, pu__fft_last_8};
    void (*run)(const pu__fft_pass *) = pu__fft_roots(r) ? pu__fft_pass_odd : by_radix[r];
    o->groups = packed ? 1 : o->s;
    o->count = packed ? o->s * lanes : lanes;
    o->x_leg = o->s * o->m * o->x.step;
    o->y_leg = o->s * o->y.step;
    o->wr = table;
    o->wi = table + factors;
    o->root = table + 2 * factors;
    if (r == 4 && o->m == 1 && o->count % PU__LINE == 0)
        run = pu__fft_last_4;
    run(o);
    return o->root + pu__fft_roots(r);
}

/* All passes: the unscaled forward transform of `lanes` neighbours, from x to y, which may be the same.
   f->length entries. work: 4 * length * lanes, two arrays that the passes write by turns. The last pass
   writes y. */
PU__FN void pu__fft_passes(const pu_fft *f, pu_int lanes, pu__re_im x, pu__re_im y, pu_real *work)
{
    pu_int n = f->length, size = n * lanes;
    pu__re_im one = pu__parts(work, work + size, lanes);
    pu__re_im two = pu__parts(work + 2 * size, work + 3 * size, lanes);
    int last = f->passes - 1, end = last < 0 ? 1 : f->radix[last];
    /* The radix 8 works on whole lines only. Lanes that do not fill lines are packed, and copied to y at
       the end. */
    int aside = end == 8 && y.step != lanes && lanes % PU__LINE;
    /* A packed y takes turns with one of the arrays, so that both stay in the nearest cache. With an odd
       number of passes the last one then works in place. It may where it consists of lines: with m = 1 they
       write where they read. */
    int in_place = end == 8 || (end == 4 && n / 4 * lanes % PU__LINE == 0);
    int near = y.step == lanes && last > 0 && (last % 2 || in_place);
    const pu_real *table = f->table;
    pu__fft_pass o = PU__ZERO;
    o.s = 1;
    o.m = n;
    if (last < 1) { /* no second array to write to: start from a copy */
        pu__fft_copy(n, lanes, x, one);
        x = one;
    }
    for (int pass = 0; pass <= last; pass++) {
        int direct = (pass == last && !aside) || (near && pass % 2);
        o.radix = f->radix[pass];
        o.m /= o.radix;
        o.x = x;
        if (direct)
            o.y = y;
        else
            o.y = pass % 2 ? one : two;
        table = pu__fft_pass_run(&o, lanes, table);
        o.s *= o.radix;
        x = o.y;
    }
    if (aside || last < 0)
        pu__fft_copy(n, lanes, x, y);
}

/* y_i = a_i x_i, complex, i = 0 .. n-1, for `lanes` neighbours. a: n real parts, then n imaginary ones. y
   may be x. */
PU__FN void pu__fft_scale(pu_int n, pu_int lanes, const pu_real *a, pu__re_im x, pu__re_im y)
{
    for (pu_int i = 0; i < n; i++) {
        pu_real ar = a[i], ai = a[n + i];
        for (pu_int q = 0; q < lanes; q++) {
            pu_real re = x.re[i * x.step + q], im = x.im[i * x.step + q];
            y.re[i * y.step + q] = re * ar - im * ai;
            y.im[i * y.step + q] = re * ai + im * ar;
        }
    }
}

/* Any length: the unscaled forward transform of `lanes` neighbours, f->n entries, from x to y, which may be
   the same. work: f->work * lanes. The inverse: x and y with their parts exchanged.

   Lengths with large prime factors take Bluestein's way. With the chirp g_k = e^(-pi i k^2 / n),
     j k = (j^2 + k^2 - (k - j)^2) / 2  gives  X_k = g_k sum_j (g_j x_j) conj(g_{k-j}).
   The sum is a convolution, here of period f->length. It is done by a transform, a product with f->filter
   (the transform of conj(g) / length), and the inverse transform. */
PU__FN void pu__fft_lanes(const pu_fft *f, pu_int lanes, pu__re_im x, pu__re_im y, pu_real *work)
{
    pu_int n = f->n, N = f->length, size = N * lanes;
    pu__re_im z = pu__parts(work, work + size, lanes);
    if (!f->convolve) {
        pu__fft_passes(f, lanes, x, y, work);
        return;
    }
    pu__fft_scale(n, lanes, f->chirp, x, z);
    pu__zeros(z.re + n * lanes, (N - n) * lanes);
    pu__zeros(z.im + n * lanes, (N - n) * lanes);
    work += 2 * size;
    pu__fft_passes(f, lanes, z, z, work);
    pu__fft_scale(N, lanes, f->filter, z, z);
    pu__fft_passes(f, lanes, pu__exchanged(z), pu__exchanged(z), work); /* the inverse */
    pu__fft_scale(n, lanes, f->chirp, z, y);
}

/* ---- plans ---- */

/* e^(-2 pi i k / n), 0 <= k < n. The angle is reduced to [0, pi/4] in integers, where sin and cos are
   accurate. */
PU__FN void pu__fft_root(pu_int k, pu_int n, pu_real *re, pu_real *im)
{
    pu_int angle = 8 * k; /* in units of 2 pi / (8 n) */
    int above = angle > 4 * n;
    int left, swap;
    double radians, c, s;
    if (above)
        angle = 8 * n - angle;
    left = angle > 2 * n;
    if (left)
        angle = 4 * n - angle;
    swap = angle > n;
    if (swap)
        angle = 2 * n - angle;
    radians = 0.78539816339744830962 * (double)angle / (double)n;
    c = swap ? sin(radians) : cos(radians);
    s = swap ? cos(radians) : sin(radians);
    *re = (pu_real)(left ? -c : c);
    *im = (pu_real)(above ? s : -s);
}

/* Factors of n into f->radix, 4 first. Returned: what is left of n, 1 or a product of primes above
   PU__FFT_PRIME. Where the fours of a multiple of 128 would leave a 2, an 8 at the end takes the place of a
   4 and the 2. Then s is a multiple of 16 in that pass, and any number of lanes fills whole lines. */
PU__FN pu_int pu__fft_factor(pu_fft *f, pu_int n)
{
    pu_int r = 4, odd = n;
    int eight;
    f->passes = 0;
    while (odd % 4 == 0)
        odd /= 4;
    eight = n % 128 == 0 && odd % 2 == 0;
    if (eight)
        n /= 8;
    while (n > 1 && r <= PU__FFT_PRIME) {
        if (n % r == 0) {
            f->radix[f->passes++] = (int)r;
            n /= r;
        } else
            r = r == 4 ? 2 : r + 1 + r % 2; /* 4, 2, 3, 5, 7, .. */
    }
    if (eight)
        f->radix[f->passes++] = 8;
    return n;
}

/* Fills the tables of a plan. f->table has for each pass of radix r the factors
     e^(-2 pi i p j / (r m)),  j = 1 .. r-1,  p = 0 .. m-1,
   with p running fastest, real parts first, then imaginary ones. The roots of unity follow where
   pu__fft_roots says so. work: 4 * length, NULL unless there is a convolution. */
PU__FN void pu__fft_fill(pu_fft *f, pu_real *work)
{
    pu_int n = f->n, N = f->length;
    pu_real scale = (pu_real)(1 / (double)N);
    pu_real *table = (pu_real *)f->table, *chirp = (pu_real *)f->chirp, *filter = (pu_real *)f->filter;
    pu__re_im x;
    pu_int left = N, square = 0;
    for (int pass = 0; pass < f->passes; pass++) {
        pu_int r = f->radix[pass], factors = (r - 1) * (left / r);
        for (pu_int j = 1; j < r; j++)
            for (pu_int i = 0; i < left / r; i++) {
                pu__fft_root(i * j, left, table, table + factors);
                table++;
            }
        table += factors;
        for (pu_int i = 0; 2 * i < pu__fft_roots(r); i++)
            pu__fft_root(i, r, table + i, table + r + i);
        table += pu__fft_roots(r);
        left /= r;
    }
    if (!f->convolve)
        return;
    pu__zeros(filter, 2 * N);
    for (pu_int i = 0; i < n; i++) {
        pu_int mirrored = (N - i) % N;
        pu__fft_root(square, 2 * n, chirp + i, chirp + n + i);
        square = (square + 2 * i + 1) % (2 * n); /* (i + 1)^2 mod 2 n */
        /* scale is a power of two: exact */
        filter[i] = filter[mirrored] = scale * chirp[i];
        filter[N + i] = filter[N + mirrored] = -scale * chirp[n + i];
    }
    x = pu__parts(filter, filter + N, 1);
    pu__fft_passes(f, 1, x, x, work);
}

/* Sizes of a plan of length f->n and, with arena->base set, the plan itself with its tables in the arena. Sets
   arena->overflow where that is too large. */
PU__FN void pu__fft_make(void *plan, pu__arena *arena)
{
    pu_fft *f = (pu_fft *)plan;
    pu_real *work = NULL;
    pu_int n = f->n, entries;
    f->length = n;
    if (n > PTRDIFF_MAX / 256) { /* angles are counted in units of 2 pi / (16 n); work < 24 n reals */
        arena->overflow = 1;
        return;
    }
    f->convolve = pu__fft_factor(f, n) > 1;
    if (f->convolve) {
        f->length = 1;
        while (f->length < 2 * n - 1)
            f->length *= 2;
        pu__fft_factor(f, f->length);
    }
    f->work = (f->convolve ? 6 : 4) * f->length;
    entries = 2 * (f->length - 1); /* sum over the passes of (r - 1) m = r m - m: all but the ends cancel */
    for (int pass = 0; pass < f->passes; pass++)
        entries += pu__fft_roots(f->radix[pass]);
    f->table = pu__reals(arena, entries, 1);
    if (f->convolve) {
        f->chirp = pu__reals(arena, n, 2);
        f->filter = pu__reals(arena, f->length, 2);
        work = pu__reals(arena, f->length, 4);
    }
    if (arena->base)
        pu__fft_fill(f, work);
}

/* A plan whose sizes are given, in the caller's block, whose address need not be aligned; or (need not NULL) the
   bytes that it needs. Statuses: PU_E_OVERFLOW, PU_E_BLOCK (too small). */
PU__FN pu_status pu__fft_build(pu__layout make, void *plan, void *memory, size_t bytes, size_t *need)
{
    pu__arena arena = PU__ZERO;
    make(plan, &arena);
    if (arena.overflow)
        return PU_E_OVERFLOW;
    if (need)
        *need = pu__arena_bytes(&arena);
    else if (bytes < pu__arena_bytes(&arena))
        return PU_E_BLOCK;
    else {
        arena.base = pu__aligned(memory);
        arena.used = 0;
        make(plan, &arena);
    }
    return PU_OK;
}

/* ---- FFTW, when it is asked for. A transform runs in place in an interleaved, aligned copy. Of all
        that FFTW offers this was the fastest whose plans are the same at every run. Plans for split arrays
        would also depend on the distance between re and im. For a size that FFTW refuses the plan is NULL,
        and the code above is used. ---- */

#ifdef PU_USE_FFTW
#ifdef PU_FLOAT
#define PU__FFTW(name) fftwf_##name
#else
#define PU__FFTW(name) fftw_##name
#endif

/* Reals from one row of the copy to the next: a gap of a cache line makes rows of a power of two a tenth
   faster. */
#define PU__FFTW_GAP    ((pu_int)(PU__ALIGN / 2 / sizeof(pu_real)))
#define PU__FFTW_ROW(n) (2 * ((n) + PU__FFTW_GAP))

/* Reals of scratch for m rows of n, at least `work`. Up to 63 bytes go into the alignment. */
PU__FN pu_int pu__fftw_work(pu_int m, pu_int n, pu_int work)
{
    return pu__most(m * PU__FFTW_ROW(n) + (pu_int)(PU__ALIGN / sizeof(pu_real)), work);
}

/* A plan for m rows of n, or NULL. aligned: any aligned address; FFTW_ESTIMATE does not touch what is there. */
PU__FN void *pu__fftw_plan(pu_int m, pu_int n, const pu_real *aligned)
{
    PU__FFTW(complex) *c = (PU__FFTW(complex) *)(uintptr_t)aligned;
    const int size[2] = {(int)m, (int)n}, room[2] = {(int)m, (int)(n + PU__FFTW_GAP)};
    if (m > INT_MAX || n > INT_MAX - PU__FFTW_GAP)
        return NULL;
    return PU__FFTW(plan_many_dft)(2, size, 1, c, room, 1, 0, c, room, 1, 0, FFTW_FORWARD, FFTW_ESTIMATE);
}

/* y = F (scale x), F without its own scale, m rows of n. x.im NULL: zero; y may be x.
   s, m rows of n, or NULL. With it y = F^H (s o F (scale x)). */
PU__FN void pu__fftw_run(void *plan, pu_int m, pu_int n, pu_real scale, const pu_real *s, pu__re_im x, pu__re_im y,
                         pu_real *work)
{
    pu_real *copy = (pu_real *)(((uintptr_t)work + PU__ALIGN - 1) / PU__ALIGN * PU__ALIGN);
    PU__FFTW(complex) *c = (PU__FFTW(complex) *)copy;
    for (pu_int r = 0; r < m; r++)
        for (pu_int i = 0; i < n; i++) {
            pu_real *at = copy + r * PU__FFTW_ROW(n) + 2 * i;
            at[0] = scale * x.re[r * n + i];
            at[1] = x.im ? scale * x.im[r * n + i] : 0;
        }
    for (int last = !s;; last = 1) {
        PU__FFTW(execute_dft)((PU__FFTW(plan))plan, c, c);
        for (pu_int r = 0; r < m; r++)
            for (pu_int i = 0; i < n; i++) {
                pu_real *at = copy + r * PU__FFTW_ROW(n) + 2 * i, re = at[0], im = at[1];
                if (last) {
                    y.re[r * n + i] = re;
                    y.im[r * n + i] = im;
                } else { /* exchanged: the inverse */
                    at[0] = s[r * n + i] * im;
                    at[1] = s[r * n + i] * re;
                }
            }
        if (last)
            return;
        y = pu__exchanged(y);
    }
}

/* Frees a plan, which may be NULL. */
PU__FN void pu__fftw_free(void *plan)
{
    if (plan)
        PU__FFTW(destroy_plan)((PU__FFTW(plan))plan);
}
#else
#define pu__fftw_work(m, n, work)                      (work)
#define pu__fftw_plan(m, n, aligned)                   NULL
#define pu__fftw_run(plan, m, n, scale, s, x, y, work) ((void)0)
#define pu__fftw_free(plan)                            ((void)0)
#endif

/* ---- the public transform ---- */

/* Bytes of memory for a plan of length n. */
PU_DEF pu_status pu_fft_bytes(pu_int n, size_t *bytes)
{
    pu_fft f = PU__ZERO;
    if (!bytes)
        return PU_E_NULL;
    if (n < 1)
        return PU_E_ARGUMENT;
    f.n = n;
    return pu__fft_build(pu__fft_make, &f, NULL, 0, bytes);
}

/* Measures, then makes the plan. A failure leaves a plan of length 0, which is refused everywhere. */
PU_DEF pu_status pu_fft_init(pu_fft *plan, pu_int n, void *memory, size_t bytes)
{
    pu_fft f = PU__ZERO;
    pu_status status;
    if (!plan || !memory)
        return PU_E_NULL;
    if (n < 1)
        return PU_E_ARGUMENT;
    *plan = f;
    f.n = n;
    status = pu__fft_build(pu__fft_make, &f, memory, bytes, NULL);
    if (status)
        return status;
    f.work = pu__fftw_work(1, n, f.work);
    f.fftw = pu__fftw_plan(1, n, f.table);
    *plan = f;
    return PU_OK;
}

/* The unitary transform, in place. */
PU_DEF pu_status pu_fft_run(const pu_fft *plan, int inverse, pu_real *re, pu_real *im, pu_real *work)
{
    pu__re_im x = pu__parts(re, im, 1);
    pu_real scale;
    if (!plan || !re || !im || !work)
        return PU_E_NULL;
    if (plan->n < 1)
        return PU_E_ARGUMENT;
    if (inverse)
        x = pu__exchanged(x);
    scale = (pu_real)(1 / sqrt((double)plan->n));
    if (plan->fftw) {
        pu__fftw_run(plan->fftw, 1, plan->n, scale, NULL, x, x, work);
        return PU_OK;
    }
    pu__fft_lanes(plan, 1, x, x, work);
    for (pu_int i = 0; i < plan->n; i++) {
        re[i] *= scale;
        im[i] *= scale;
    }
    return PU_OK;
}

/* Empties a plan and gives FFTW's part back. */
PU_DEF void pu_fft_free(pu_fft *plan)
{
    if (!plan)
        return;
    pu__fftw_free(plan->fftw);
    memset(plan, 0, sizeof *plan);
}

/* ------------------------------------------------------------------------------------------------
   >>fourier   the two-dimensional Fourier operator
   ------------------------------------------------------------------------------------------------ */

/* Phi = [Re F; Im F] for real images of D = m n pixels, F the unitary transform. First F itself, for
   complex images. Then products with Phi and Phi', two real columns in one complex transform.
   Then Phi' W Phi, fused with the vectors around it: where the time of compressed sensing goes. */

/* ---- the transform of an image: m rows of n pixels. A column (cols = 1) is taken as one row. ---- */

/* Sizes of a plan of f->rows x f->cols and, with arena->base set, the plan itself. f->work is the most that any of its
   users needs: the transform of a strip of rows with its transposed copy, that of a strip of columns, or FFTW. */
PU__FN void pu__fourier_make(void *plan, pu__arena *arena)
{
    pu_fourier *f = (pu_fourier *)plan;
    pu_int n = f->cols == 1 ? f->rows : f->cols, m = f->cols == 1 ? 1 : f->rows, along, down;
    f->scale = (pu_real)(1 / sqrt((double)f->rows * (double)f->cols));
    if (f->rows > PTRDIFF_MAX / 256 / f->cols / (pu_int)sizeof(pu_real)) { /* 2 D + work <= 28 D reals */
        arena->overflow = 1;
        return;
    }
    f->along.n = n;
    f->down.n = m;
    pu__fft_make(&f->along, arena);
    if (m == n)
        f->down = f->along;
    else
        pu__fft_make(&f->down, arena);
    /* Strips of PU__FFT_LANES rows or columns, or all of them where there are fewer. */
    along = (f->along.work + 2 * n) * pu__min(PU__FFT_LANES, m);
    down = f->down.work * pu__min(PU__FFT_LANES, n);
    f->work = pu__fftw_work(m, n, pu__most(along, down));
}

/* Bytes of memory for a plan of rows x cols. */
PU_DEF pu_status pu_fourier_bytes(pu_int rows, pu_int cols, size_t *bytes)
{
    pu_fourier f = PU__ZERO;
    if (!bytes)
        return PU_E_NULL;
    if (rows < 1 || cols < 1)
        return PU_E_ARGUMENT;
    f.rows = rows;
    f.cols = cols;
    return pu__fft_build(pu__fourier_make, &f, NULL, 0, bytes);
}

/* Measures, then makes the plan. A failure leaves a plan without rows, which is refused everywhere. */
PU_DEF pu_status pu_fourier_init(pu_fourier *f, pu_int rows, pu_int cols, void *memory, size_t bytes)
{
    pu_status status;
    if (!f || !memory)
        return PU_E_NULL;
    if (rows < 1 || cols < 1)
        return PU_E_ARGUMENT;
    memset(f, 0, sizeof *f);
    f->rows = rows;
    f->cols = cols;
    status = pu__fft_build(pu__fourier_make, f, memory, bytes, NULL);
    if (status)
        memset(f, 0, sizeof *f);
    else
        f->fftw = pu__fftw_plan(f->down.n, f->along.n, f->along.table);
    return status;
}

/* pu__fourier_tile: t (B x B, rows dt apart) = scale * transpose of x (rows dx apart), B = PU__TILE. */

#if defined(PU_FLOAT) && defined(__AVX__) && defined(PU__SHUFFLE)
/* By shuffles. Compilers move the numbers of the plain loop below one by one. With that loop a product
   Phi' W Phi of 128 x 128 takes 1.11 (AVX-512) to 1.20 (AVX2) times as long. */
#define PU__TILE        8
#define PU__ZIP_0(a, b) PU__SHUFFLE(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define PU__ZIP_1(a, b) PU__SHUFFLE(a, b, 2, 10, 3, 11, 6, 14, 7, 15)

typedef pu_real pu__quad __attribute__((vector_size(16), aligned(sizeof(pu_real)), may_alias));

/* Four numbers of a row of the tile, then those of the fourth row after it. */
PU__INLINE pu__short pu__fourier_halves(pu_real scale, const pu_real *x, pu_int dx)
{
    return PU__SHUFFLE(*(const pu__quad *)x, *(const pu__quad *)(x + 4 * dx), 0, 1, 2, 3, 4, 5, 6, 7) * scale;
}

/* Four rows of t from four columns of x, taken as two 4 x 4 matrices side by side. Zipping their rows twice
   transposes both. */
PU__INLINE void pu__fourier_zip(pu_real scale, const pu_real *x, pu_int dx, pu_real *t, pu_int dt)
{
    pu__short x0 = pu__fourier_halves(scale, x, dx), x1 = pu__fourier_halves(scale, x + dx, dx);
    pu__short x2 = pu__fourier_halves(scale, x + 2 * dx, dx), x3 = pu__fourier_halves(scale, x + 3 * dx, dx);
    pu__short a = PU__ZIP_0(x0, x2), b = PU__ZIP_1(x0, x2), c = PU__ZIP_0(x1, x3), d = PU__ZIP_1(x1, x3);
    *pu__s(t) = PU__ZIP_0(a, c);
    *pu__s(t + dt) = PU__ZIP_1(a, c);
    *pu__s(t + 2 * dt) = PU__ZIP_0(b, d);
    *pu__s(t + 3 * dt) = PU__ZIP_1(b, d);
}

/* The left half of x gives the upper four rows of t, the right one the lower four. */
PU__INLINE void pu__fourier_tile(pu_real scale, const pu_real *x, pu_int dx, pu_real *t, pu_int dt)
{
    pu__fourier_zip(scale, x, dx, t, dt);
    pu__fourier_zip(scale, x + 4, dx, t + 4 * dt, dt);
}
#undef PU__ZIP_0
#undef PU__ZIP_1
#else
#define PU__TILE 4

/* A plain loop, by way of registers. */
PU__INLINE void pu__fourier_tile(pu_real scale, const pu_real *x, pu_int dx, pu_real *t, pu_int dt)
{
    pu_real block[4][4];
    for (pu_int a = 0; a < 4; a++)
        for (pu_int b = 0; b < 4; b++)
            block[a][b] = scale * x[a * dx + b];
    for (pu_int b = 0; b < 4; b++)
        for (pu_int a = 0; a < 4; a++)
            t[b * dt + a] = block[a][b];
}
#endif

/* t (cols x rows) = scale * transpose of x (rows x cols), tile by tile. */
PU__FN void pu__fourier_transpose(pu_int rows, pu_int cols, pu_real scale, const pu_real *PU__RESTRICT x,
                                  pu_real *PU__RESTRICT t)
{
    pu_int B = PU__TILE, below = rows / B * B, right = cols / B * B;
    for (pu_int i = 0; i < below; i += B)
        for (pu_int j = 0; j < right; j += B)
            pu__fourier_tile(scale, x + i * cols + j, cols, t + j * rows + i, rows);
    /* What is right of the tiles, and whole rows below them. */
    for (pu_int i = 0; i < rows; i++)
        for (pu_int j = i < below ? right : 0; j < cols; j++)
            t[j * rows + i] = scale * x[i * cols + j];
}

/* Both parts of x (rows x cols), transposed. x.im NULL: zero. */
PU__FN void pu__fourier_turn(pu_int rows, pu_int cols, pu_real scale, pu__re_im x, pu__re_im t)
{
    pu__fourier_transpose(rows, cols, scale, x.re, t.re);
    if (x.im)
        pu__fourier_transpose(rows, cols, scale, x.im, t.im);
    else
        pu__zeros(t.im, rows * cols);
}

/* x from entry `at` on. */
PU__FN pu__re_im pu__fourier_from(pu__re_im x, pu_int at)
{
    x.re += at;
    if (x.im)
        x.im += at;
    return x;
}

/* y = F x, scaled. x may be y; x.im NULL: zero. Strips of rows go through a transposed copy. Strips of
   columns are read and written in place by the first and the last pass. */
PU__FN void pu__fourier_forward(const pu_fourier *f, pu__re_im x, pu__re_im y, pu_real *work)
{
    pu_int n = f->along.n, m = f->down.n;
    if (f->fftw) {
        pu__fftw_run(f->fftw, m, n, f->scale, NULL, x, y, work);
        return;
    }
    for (pu_int i = 0; i < m; i += PU__FFT_LANES) {
        pu_int lanes = pu__min(PU__FFT_LANES, m - i);
        pu__re_im t = pu__parts(work, work + n * lanes, lanes);
        pu__fourier_turn(lanes, n, f->scale, pu__fourier_from(x, i * n), t);
        pu__fft_lanes(&f->along, lanes, t, t, work + 2 * n * lanes);
        pu__fourier_turn(n, lanes, 1, t, pu__fourier_from(y, i * n));
    }
    if (m == 1)
        return;
    for (pu_int i = 0; i < n; i += PU__FFT_LANES) {
        pu__re_im strip = pu__parts(y.re + i, y.im + i, n);
        pu__fft_lanes(&f->down, pu__min(PU__FFT_LANES, n - i), strip, strip, work);
    }
}

/* The unitary transform, in place. */
PU_DEF pu_status pu_fourier_run(const pu_fourier *f, int inverse, pu_real *re, pu_real *im, pu_real *work)
{
    pu__re_im x = pu__parts(re, im, 1);
    if (!f || !re || !im || !work)
        return PU_E_NULL;
    if (f->rows < 1)
        return PU_E_ARGUMENT;
    if (inverse)
        x = pu__exchanged(x);
    pu__fourier_forward(f, x, x, work);
    return PU_OK;
}

/* Empties a plan and gives FFTW's part back. */
PU_DEF void pu_fourier_free(pu_fourier *f)
{
    if (!f)
        return;
    pu__fftw_free(f->fftw);
    memset(f, 0, sizeof *f);
}

/* ---- products with Phi. Two real columns are transformed as one, and taken apart by symmetry. ---- */

/* y_k = a u_k + b u_-k, or y_k += that. u and y are images of m x n frequencies k = (row, column).
   Those of -k are m - row and n - column, both modulo the size. */
PU__FN void pu__fourier_fold(const pu_fourier *f, const pu_real *u, pu_real a, pu_real b, pu_real *y, int add)
{
    pu_int n = f->along.n, m = f->down.n;
    for (pu_int r = 0; r < m; r++) {
        /* the row of the negative frequencies, which is read backwards */
        const pu_real *positive = u + r * n, *negative = u + (r > 0 ? m - r : 0) * n;
        pu_real *PU__RESTRICT to = y + r * n, sum = a * positive[0] + b * negative[0];
        to[0] = add ? to[0] + sum : sum;
        for (pu_int c = 1; c < n; c++) {
            sum = a * positive[c] + b * negative[n - c];
            to[c] = add ? to[c] + sum : sum;
        }
    }
}

/* y = x, or y += x. Inline, since n may be a few numbers only. */
PU__INLINE void pu__fourier_give(pu_int n, const pu_real *x, pu_real *PU__RESTRICT y, int add)
{
    if (add)
        for (pu_int i = 0; i < n; i++)
            y[i] += x[i];
    else
        for (pu_int i = 0; i < n; i++)
            y[i] = x[i];
}

/* Y = Phi X, or Y += that. X: D x k, Y: 2 D x k. work: 2 D + f->work. Of two columns x, x' and z = x + i x',
     Re F x = (Re Z_k + Re Z_-k) / 2,   Im F x = (Im Z_k - Im Z_-k) / 2,
     Re F x' = (Im Z_k + Im Z_-k) / 2,  Im F x' = (Re Z_-k - Re Z_k) / 2. */
PU__FN pu_status pu__fourier_apply(PU__APPLY_ARGS)
{
    const pu_fourier *f = (const pu_fourier *)op->data;
    pu_int D = op->cols;
    pu_real h = PU_R(0.5);
    pu__re_im z = pu__parts(work, work + D, 1);
    for (pu_int j = 0; j < k; j += 2) {
        int pair = j + 1 < k;
        pu_real *first = pu__col(Y, j);
        pu__fourier_forward(f, pu__parts(pu__col(X, j), pair ? pu__col(X, j + 1) : NULL, 1), z, work + 2 * D);
        if (pair) {
            pu_real *second = pu__col(Y, j + 1);
            pu__fourier_fold(f, z.re, h, h, first, add);
            pu__fourier_fold(f, z.im, h, -h, first + D, add);
            pu__fourier_fold(f, z.im, h, h, second, add);
            pu__fourier_fold(f, z.re, -h, h, second + D, add);
        } else { /* a column alone: nothing to take apart */
            pu__fourier_give(D, z.re, first, add);
            pu__fourier_give(D, z.im, first + D, add);
        }
    }
    return PU_OK;
}

/* Y = Phi' X, or Y += that. X: 2 D x k, Y: D x k. work: 2 D + f->work.
   Phi'[a; b] = Re F^H g with g = a + i b. That is F^H h, where h_k = (g_k + conj g_-k) / 2 is the Hermitian
   part. F^H h is real. So two columns fit in one transform, of h + i h' with h' from the next column:
     Re Z_k = (a_k + a_-k) / 2 - (b'_k - b'_-k) / 2,
     Im Z_k = (b_k - b_-k) / 2 + (a'_k + a'_-k) / 2. */
PU__FN pu_status pu__fourier_apply_t(PU__APPLY_ARGS)
{
    const pu_fourier *f = (const pu_fourier *)op->data;
    pu_int D = op->cols;
    pu_real h = PU_R(0.5);
    pu__re_im z = pu__parts(work + D, work, 1); /* exchanged: the inverse */
    for (pu_int j = 0; j < k; j += 2) {
        int pair = j + 1 < k;
        const pu_real *first = pu__col(X, j);
        pu__re_im from = pu__parts(first + D, first, 1); /* alone: the real part is taken at the end */
        if (pair) {
            const pu_real *second = pu__col(X, j + 1);
            pu__fourier_fold(f, first, h, h, z.im, 0);
            pu__fourier_fold(f, second + D, -h, h, z.im, 1);
            pu__fourier_fold(f, first + D, h, -h, z.re, 0);
            pu__fourier_fold(f, second, h, h, z.re, 1);
            from = z;
        }
        pu__fourier_forward(f, from, z, work + 2 * D);
        pu__fourier_give(D, z.im, pu__col(Y, j), add);
        if (pair)
            pu__fourier_give(D, z.re, pu__col(Y, j + 1), add);
    }
    return PU_OK;
}

/* ---- Phi' W Phi, and what becomes of z = Phi' W Phi p. Everything that a step of the solver needs of
        z is done in one sweep over the vectors around it, while z is in the cache. ---- */

/* What is wanted of a column: y = c (z + a o p) or y += that, s = q'z and t = q'(a o p). */
typedef struct {
    const pu_real *p;     /* NULL: no such column */
    const pu_real *a, *q; /* a NULL: z alone, that is no sums and c = 1 */
    pu_real *y, c;        /* y may be NULL, where a is not */
    int add;
    double s, t;
} pu__gram_column;

/* Entries from .. from+n-1; z begins with the first of them. Products of whole vectors are added to *s and
   *t, single ones to the sums of the column, in double. */
PU__INLINE void pu__gram_piece(pu__gram_column *o, pu_int from, pu_int n, const pu_real *z, pu__short *s, pu__short *t)
{
    pu_int W = PU__SHORT;
    pu_real c = o->c;
    const pu_real *a = o->a + from, *p = o->p + from, *q = o->q + from;
    int add = o->add;
    pu_real *y = o->y ? o->y + from : NULL;
    pu_int i;
    for (i = 0; i + W <= n; i += W) {
        pu__short ap = *pu__cs(a + i) * *pu__cs(p + i), sum = *pu__cs(z + i) + ap;
        *s += *pu__cs(q + i) * *pu__cs(z + i);
        *t += *pu__cs(q + i) * ap;
        if (y)
            *pu__s(y + i) = add ? *pu__cs(y + i) + c * sum : c * sum;
    }
    for (; i < n; i++) {
        pu_real ap = a[i] * p[i], sum = c * (z[i] + ap);
        o->s += (double)(q[i] * z[i]);
        o->t += (double)(q[i] * ap);
        if (y)
            y[i] = add ? y[i] + sum : sum;
    }
}

/* Rows from .. to-1 of rows of n, row 0 being entry `at` of the vectors on. z lies in strips of so many columns, each
   strip with its rows next to each other; that of column j on begins at j * down. (strip = n and down = 0: rows as
   usual.) Sums over these rows are in pu_real, and only then added in double: they should be few. */
PU__FN void pu__gram_rows(pu__gram_column *o, pu_int at, pu_int from, pu_int to, pu_int n, const pu_real *z,
                          pu_int strip, pu_int down)
{
    pu_real part[2 * PU__SHORT] = {0};
    pu__short s = *pu__cs(part), t = s;
    for (pu_int r = from; r < to; r++)
        for (pu_int j = 0; j < n; j += strip) {
            pu_int first = at + r * n + j, width = pu__min(strip, n - j);
            const pu_real *here = z + j * down + r * width;
            if (o->a)
                pu__gram_piece(o, first, width, here, &s, &t);
            else
                pu__fourier_give(width, here, o->y + first, o->add);
        }
    *pu__s(part) = s;
    *pu__s(part + PU__SHORT) = t;
    for (pu_int i = 0; i < PU__SHORT; i++) {
        o->s += (double)part[i];
        o->t += (double)part[PU__SHORT + i];
    }
}

/* All m rows, in groups of about PU__CHUNK entries, as the sums of other vectors are. strip = 0: z is in the order of
   the image, of which some rows at once are taken as one, or a part of one. Nothing where there is no such column. */
PU__FN void pu__gram_image(pu__gram_column *o, pu_int m, pu_int n, const pu_real *z, pu_int strip, pu_int down)
{
    pu_int some = n < PU__CHUNK ? PU__CHUNK / n : 1, wide = strip ? n : PU__CHUNK;
    if (!o->p)
        return;
    for (pu_int r = 0; r < m; r += some)
        for (pu_int c = 0; c < n; c += wide) {
            pu_int end = pu__min(r + some, m), at = r * n + c, length = (end - r) * pu__min(wide, n - c);
            if (strip)
                pu__gram_rows(o, 0, r, end, n, z, strip, down);
            else
                pu__gram_rows(o, at, 0, 1, length, z + at, length, 0);
        }
}

/* x (m rows of n) into strips of PU__FFT_LANES columns, a strip's rows next to each other. A gap of one row
   after each strip keeps the distance of strips from being a power of two, where they would compete for the
   same places in a cache. */
PU__FN void pu__fourier_strips(pu_int m, pu_int n, const pu_real *PU__RESTRICT x, pu_real *PU__RESTRICT z)
{
    for (pu_int r = 0; r < m; r++)
        for (pu_int j = 0; j < n; j += PU__FFT_LANES) {
            pu_int lanes = pu__min(PU__FFT_LANES, n - j);
            const pu_real *from = x + r * n + j;
            pu_real *to = z + j * (m + 1) + r * lanes;
            /* A known size is copied by one or two moves instead of a call. */
            if (lanes == PU__FFT_LANES)
                pu__copy(to, from, PU__FFT_LANES);
            else
                pu__copy(to, from, lanes);
        }
}

/* The strip of columns j on, from row i on. Its step is the number of its columns. */
PU__FN pu__re_im pu__fourier_strip(const pu_fourier *f, pu__re_im z, pu_int j, pu_int i)
{
    pu_int lanes = pu__min(PU__FFT_LANES, f->along.n - j), at = j * (f->down.n + 1) + i * lanes;
    return pu__parts(z.re + at, z.im + at, lanes);
}

/* F^H (s o F z) along rows i .. i+h-1 of z, which is in strips. They are transposed for that, and back.
   s: n h numbers. work: n h complex numbers, then the scratch of the transform. */
PU__FN void pu__fourier_sandwich_rows(const pu_fourier *f, const pu_real *s, pu_int i, pu_int h, pu__re_im z,
                                      pu_real *work)
{
    pu_int n = f->along.n;
    pu__re_im t = pu__parts(work, work + n * h, h), back = pu__exchanged(t);
    for (pu_int j = 0; j < n; j += PU__FFT_LANES) {
        pu__re_im strip = pu__fourier_strip(f, z, j, i);
        pu__fourier_turn(h, strip.step, 1, strip, pu__fourier_from(t, j * h));
    }
    work += 2 * n * h;
    pu__fft_lanes(&f->along, h, t, t, work);
    for (pu_int q = 0; q < n * h; q++) {
        t.re[q] *= s[q];
        t.im[q] *= s[q];
    }
    pu__fft_lanes(&f->along, h, back, back, work);
    for (pu_int j = 0; j < n; j += PU__FFT_LANES) {
        pu__re_im strip = pu__fourier_strip(f, z, j, i);
        pu__fourier_turn(strip.step, h, 1, pu__fourier_from(t, j * h), strip);
    }
}

/* z = F^H (s o F x) without scaling, in three steps:
     F down the columns;
     F, s and F^H along the rows, while a few of them are in the cache;
     F^H down the columns.
   Rows are transposed twice that way, not four times. z is in strips, of (m + 1) n numbers. s: strips of
   rows, transposed. work: f->work. */
PU__FN void pu__fourier_sandwich(const pu_fourier *f, const pu_real *s, pu__re_im x, pu__re_im z, pu_real *work)
{
    pu_int n = f->along.n, m = f->down.n;
    /* An image in the second-level cache is read where it is by the first pass, a line at a time. Larger
       ones are copied row by row first, in the order that the hardware prefetches. */
    int near = m <= 256 * 1024 / (2 * (pu_int)sizeof(pu_real)) / n;
    if (!near) {
        pu__fourier_strips(m, n, x.re, z.re);
        pu__fourier_strips(m, n, x.im, z.im);
    }
    for (pu_int j = 0; j < n; j += PU__FFT_LANES) {
        pu__re_im strip = pu__fourier_strip(f, z, j, 0);
        pu__re_im from = near ? pu__parts(x.re + j, x.im + j, n) : strip;
        pu__fft_lanes(&f->down, strip.step, from, strip, work);
    }
    for (pu_int i = 0; i < m; i += PU__FFT_LANES) {
        pu_int h = pu__min(PU__FFT_LANES, m - i);
        pu__fourier_sandwich_rows(f, s + i * n, i, h, z, work);
    }
    for (pu_int j = 0; j < n; j += PU__FFT_LANES) {
        pu__re_im strip = pu__exchanged(pu__fourier_strip(f, z, j, 0));
        pu__fft_lanes(&f->down, strip.step, strip, strip, work);
    }
}

/* The weights w = (u, v) of Re F and Im F as pu__fourier_gram_pairs wants them. Phi' diag(u, v) Phi of two
   real columns is done on one complex z = x + i y, without taking it apart. With the means a, b of u, v
   over the frequencies k and -k, the product is
     F^H of s_k Z_k + t_k Z_-k,  s = (a + b)/2,  t = (a - b)/2.
   t = 0 where real and imaginary part of each frequency weigh the same, as they do in compressed sensing.
   Then s gets the scale of the two transforms, and lies as pu__fourier_sandwich reads it: in strips of
   rows, transposed.
   made, of pu__fourier_gram_size reals: s, t (D each), and whether there is any t. */
PU__FN void pu__fourier_gram_make(const pu_op *op, const pu_real *w, pu_real *made)
{
    const pu_fourier *f = (const pu_fourier *)op->data;
    pu_int D = op->cols, n = f->along.n, m = f->down.n;
    int unequal = memcmp(w, w + D, (size_t)D * sizeof(pu_real)) != 0, strips = !unequal && !f->fftw;
    pu_real quarter = PU_R(0.25) * (unequal ? 1 : f->scale * f->scale), *s = made, *t = made + D;
    pu_real *sum = strips ? t : s;
    made[2 * D] = unequal ? 1 : 0;
    pu__fourier_fold(f, w, quarter, quarter, sum, 0);
    pu__fourier_fold(f, w + D, quarter, quarter, sum, 1);
    if (!strips) {
        pu__fourier_fold(f, w, quarter, quarter, t, 0);
        pu__fourier_fold(f, w + D, -quarter, -quarter, t, 1);
        return;
    }
    /* t served as scratch: no t is read where the weights are equal. */
    for (pu_int r = 0; r < m; r += PU__FFT_LANES)
        pu__fourier_transpose(pu__min(PU__FFT_LANES, m - r), n, 1, t + r * n, s + r * n);
}

/* Reals of `made` for pu__fourier_gram_make: s, t and the flag, of which one is used. The rest keeps what
   follows aligned. */
PU__FN pu_int pu__fourier_gram_size(const pu_op *op) { return 2 * op->cols + (pu_int)(PU__ALIGN / sizeof(pu_real)); }

/* Z_k = s_k Z_k + t_k Z_-k, in place: k and -k together. made: s, then t. */
PU__FN void pu__fourier_weigh(const pu_fourier *f, const pu_real *made, pu__re_im z)
{
    pu_int n = f->along.n, m = f->down.n;
    const pu_real *s = made, *t = made + m * n;
    for (pu_int k = 0; k < m * n; k++) {
        pu_int column = k % n, minus = (k < n ? 0 : m - k / n) * n + (column > 0 ? n - column : 0);
        if (k <= minus) { /* otherwise done with its partner */
            for (int imaginary = 0; imaginary < 2; imaginary++) {
                pu_real *x = imaginary ? z.im : z.re, a = x[k], b = x[minus];
                x[k] = s[k] * a + t[k] * b;
                x[minus] = s[minus] * b + t[minus] * a;
            }
        }
    }
}

/* z = Phi' W Phi (x.re + i x.im), then what the two columns want of it. z: D + n entries. work: f->work. */
PU__FN void pu__fourier_gram_two(const pu_fourier *f, const pu_real *made, pu__re_im x, pu__gram_column *column,
                                 pu__re_im z, pu_real *work)
{
    pu_int n = f->along.n, m = f->down.n, strip = n, down = 0;
    pu__re_im back = pu__exchanged(z);
    if (made[2 * m * n] != 0) { /* unequal weights */
        pu__fourier_forward(f, x, z, work);
        pu__fourier_weigh(f, made, z);
        pu__fourier_forward(f, back, back, work);
    } else if (f->fftw) {
        pu__fftw_run(f->fftw, m, n, 1, made, x, z, work);
        strip = 0;
    } else {
        pu__fourier_sandwich(f, made, x, z, work);
        strip = PU__FFT_LANES;
        down = m + 1;
    }
    pu__gram_image(column, m, n, z.re, strip, down);
    pu__gram_image(column + 1, m, n, z.im, strip, down);
}

/* For all pairs
     Y_j = c_j (Phi' W Phi + diag(a)) p_j, or Y_j += that,
     s_j = q_j' Phi' W Phi p_j,  t_j = q_j' diag(a) p_j.
   May be NULL: Y.at (no product wanted), c (ones), s and t together (no sums), and a (no diagonal and no
   sums; c_j 0 or 1). Where c_j = 0 nothing is read, s_j and t_j are 0, and Y_j stays as it is. The weight of
   the pairs is not used. Two columns share a transform.
   made: of pu__fourier_gram_make. work: 2 (D + n) + f->work. */
PU__FN pu_status pu__fourier_gram_pairs(const pu_op *op, const pu_real *made, const pu_real *a, const pu__pairs *pairs,
                                        int add, double *s, double *t, pu_real *work)
{
    const pu_fourier *f = (const pu_fourier *)op->data;
    pu_int room = op->cols + f->along.n; /* the strips of pu__fourier_sandwich have gaps */
    pu__re_im z = pu__parts(work, work + room, 1);
    work += 2 * room;
    for (pu_int j = 0; j < pairs->k; j += 2) {
        pu_int end = pu__min(j + 2, pairs->k);
        pu__gram_column column[2] = PU__ZERO, *first = column, *second = column + 1;
        pu__re_im x;
        for (pu_int i = j; i < end; i++) {
            pu__gram_column *o = column + (i - j);
            o->c = pairs->c ? pairs->c[i] : 1;
            if (o->c == 0)
                continue;
            o->add = add;
            o->a = a;
            o->p = pu__col(pairs->P, i);
            o->q = a ? pu__col(pairs->Q, i) : NULL;
            o->y = pairs->Y.at ? pu__col(pairs->Y, i) : NULL;
        }
        /* The place of a column that is not there is taken by the other one. */
        x = pu__parts(first->p ? first->p : second->p, second->p ? second->p : first->p, 1);
        if (x.re)
            pu__fourier_gram_two(f, made, x, column, z, work);
        for (pu_int i = j; s && i < end; i++) {
            s[i] = column[i - j].s;
            t[i] = column[i - j].t;
        }
    }
    return PU_OK;
}

/* Y = Phi' diag(w) Phi X, or Y += that. work: op->work. */
PU__FN pu_status pu__fourier_gram(const pu_op *op, const pu_real *w, pu_int k, pu_block X, pu_block Y, int add,
                                  pu_real *work)
{
    pu__pairs pairs = PU__ZERO;
    pairs.k = k;
    pairs.P = X;
    pairs.Y = Y;
    pu__fourier_gram_make(op, w, work);
    return pu__fourier_gram_pairs(op, work, NULL, &pairs, add, NULL, NULL, work + pu__fourier_gram_size(op));
}

/* No parameters: nothing to add. */
PU__FN pu_status pu__fourier_grad(PU__GRAD_ARGS) { return PU_OK; }

/* y += the diagonal of Phi' diag(u, v) Phi. cos^2 a, sin^2 a = (1 +- cos 2a) / 2 give
     y_d += 1/D sum_k (u_k + v_k)/2  +  1/D sum_k (u_k - v_k)/2 cos 2 a_kd,
   and the second sum is sqrt(D) Re F((u - v)/2) at the frequency 2 d. It is zero, and no transform is made,
   where real and imaginary part of every frequency weigh the same. Rounding errors are those of the first
   term, also where the sum is 0. */
PU__FN pu_status pu__fourier_gram_diag(PU__GRAM_DIAG_ARGS)
{
    const pu_fourier *f = (const pu_fourier *)op->data;
    pu_int D = op->cols, n = f->along.n, m = f->down.n;
    const pu_real *v = w + D;
    pu__re_im z = pu__parts(work, work + D, 1);
    pu_real mean;
    double sum = 0;
    pu_int unequal = 0;
    for (pu_int i = 0; i < 2 * D; i++)
        sum += (double)w[i];
    mean = (pu_real)(sum / 2 / (double)D);
    for (pu_int i = 0; i < D; i++) {
        z.re[i] = (w[i] - v[i]) * PU_R(0.5);
        unequal += w[i] != v[i];
    }
    if (unequal) /* otherwise z is zero, and so is its transform */
        pu__fourier_forward(f, pu__parts(z.re, NULL, 1), z, work + 2 * D);
    for (pu_int r = 0; r < m; r++)
        for (pu_int c = 0; c < n; c++)
            y[r * n + c] += mean + f->scale * z.re[2 * r % m * n + 2 * c % n];
    return PU_OK;
}

/* Refuses a plan that was not made, or made anew for another size since. */
PU__FN pu_status pu__fourier_check(const pu_op *op, pu_int *index)
{
    const pu_fourier *f = (const pu_fourier *)op->data;
    *index = -1;
    if (!f || !f->along.table)
        return PU_E_NULL;
    return f->rows * f->cols == op->cols ? PU_OK : PU_E_SIZE;
}

/* f NULL: an operator of size zero, which is refused everywhere. */
PU_DEF pu_op pu_op_fourier(const pu_fourier *f)
{
    pu_int D = f ? f->rows * f->cols : 0;
    pu_op op = pu__op_zero(2 * D, D, 0, f);
    if (!f)
        return op;
    op.form = PU_FORM_FOURIER;
    op.apply = pu__fourier_apply;
    op.apply_t = pu__fourier_apply_t;
    op.grad = pu__fourier_grad;
    op.gram_diag = pu__fourier_gram_diag;
    op.check = pu__fourier_check;
    op.work = pu__fourier_gram_size(&op) + 2 * (D + f->along.n) + f->work;
    op.flops = 4 * (double)D * log2((double)D + 1); /* counted by its time, in units of other loops' operations */
    op.trusted = 1;
    return op;
}

/* ------------------------------------------------------------------------------------------------
   >>toeplitz   symmetric Toeplitz and circulant operators
   ------------------------------------------------------------------------------------------------ */

/* ---- matrices that are given by their lags ----
   Entry (i, j) is t[l], l = |i - j|. A lag beyond the last parameter goes round the circle: t[n - l].
   Without a factor the products are direct sums. A factor takes the matrix for the upper left corner
   of a symmetric circulant matrix C of size N. C = F^H diag(lambda) F with the unitary transform F, so
   that a product is two transforms. N = n for a circulant matrix. For a Toeplitz matrix N >= 2 n, and
   the lags of C from n on repeat t[n-1]: a convex decreasing t >= 0 remains one, and that is enough
   for lambda >= 0. */

/* Below this n a direct sum is faster than two transforms, and its rounding is relative to each
   entry. */
#define PU__LAGS_SHORT 64

/* The factor, or NULL. */
PU__FN const pu_lags *pu__lags_of(const pu_op *op) { return (const pu_lags *)op->aux; }

/* The complex vector with real part work[0 .. N-1] and imaginary part work[N .. 2 N - 1] is
   replaced by its transform. The scratch follows: fft.work reals. */
PU__FN void pu__lags_transform(const pu_lags *f, int inverse, pu_real *work)
{
    pu_fft_run(&f->fft, inverse, work, work + f->size, work + 2 * f->size);
}

/* to = x / s with s = max |x_i|, which is returned. Two vectors share a transform: of the same
   size, neither loses digits to the other. Where s is 0 or not finite to = 0, so that a NaN does
   not get into the other vector. */
PU__FN pu_real pu__lags_load(pu_int n, const pu_real *x, pu_real *to)
{
    pu_real s = 0;
    for (pu_int i = 0; i < n; i++) {
        pu_real size = x[i] < 0 ? -x[i] : x[i];
        if (size > s || size != size)
            s = size; /* a NaN stays */
    }
    for (pu_int i = 0; i < n; i++)
        to[i] = s > 0 && pu__finite(s) ? x[i] / s : 0;
    return s;
}

/* Y = the first n rows of F^H diag(spectrum) F X, or +=. X has `length` rows, to which zeros are
   added. Two columns share a transform, as its real and its imaginary part. Scratch: 2 N +
   fft.work. */
PU__FN void pu__lags_multiply(const pu_lags *f, const pu_real *spectrum, pu_int length, pu_int k, pu_block X,
                              pu_block Y, int add, pu_real *work)
{
    pu_int N = f->size;
    pu_block T = pu__rows(work, N); /* two columns: the real and the imaginary part */
    pu_real scale[2];
    pu__clear(f->n, k, Y, add);
    for (pu_int j = 0; j < k; j += 2) {
        pu_int count = pu__min(2, k - j);
        pu__zeros(work, 2 * N);
        for (pu_int c = 0; c < count; c++)
            scale[c] = pu__lags_load(length, pu__col(X, j + c), pu__col(T, c));
        pu__lags_transform(f, 0, work);
        for (pu_int i = 0; i < N; i++) {
            work[i] *= spectrum[i];
            work[N + i] *= spectrum[i];
        }
        pu__lags_transform(f, 1, work);
        for (pu_int c = 0; c < count; c++)
            pu__axpy(f->n, scale[c], pu__col(T, c), pu__col(Y, j + c));
    }
}

/* Does the operator work by transforms? */
PU__FN int pu__lags_fast(const pu_op *op) { return op->aux && op->rows >= PU__LAGS_SHORT; }

/* Y = Op X, or +=, with the entries of Op squared when `square`. In the direct sum row i is a
   window of n entries into the sequence of all lags: entry (i, j) = work[n - i + j]. Scratch: 2 n. */
PU__FN pu_status pu__lags_product(const pu_op *op, int square, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    const pu_lags *f = pu__lags_of(op);
    pu_int i, j, n = op->rows;
    if (pu__lags_fast(op)) {
        pu__lags_multiply(f, square ? f->squares : f->lambda, n, k, X, Y, add, work);
        return PU_OK;
    }
    for (i = 0; i < n; i++) {
        pu_real entry = pu__entries(op)[i < op->params ? i : n - i];
        work[n + i] = work[n - i] = square ? entry * entry : entry;
    }
    for (i = 0; i < n; i++)
        for (j = 0; j < k; j++) {
            pu_real *y = pu__col(Y, j) + i;
            *y = (pu_real)pu__dot(n, NULL, work + n - i, pu__col(X, j)) + (add ? *y : 0);
        }
    return PU_OK;
}

/* Y = Op X, or += */
PU__FN pu_status pu__lags_apply(PU__APPLY_ARGS) { return pu__lags_product(op, 0, k, X, Y, add, work); }

/* y_i += sum_m w_m Op_mi^2: a product with the entries squared. */
PU__FN pu_status pu__lags_gram_diag(PU__GRAM_DIAG_ARGS)
{
    return pu__lags_product(op, 1, 1, pu__rows(w, op->rows), pu__rows(y, op->rows), 1, work);
}

/* y_i += t_0 */
PU__FN pu_status pu__lags_diag(PU__DIAG_ARGS)
{
    for (pu_int i = 0; i < op->rows; i++)
        y[i] += *pu__entries(op);
    return PU_OK;
}

/* The gradient of p'Op q: t_l receives the sums sum_i p_i q_{i+l} + p_{i+l} q_i, directly. */
PU__FN pu_status pu__lags_grad_direct(PU__GRAD_ARGS)
{
    pu_int j, l, n = op->rows;
    for (j = 0; j < k; j++) {
        const pu_real *p = pu__col(P, j), *q = pu__col(Q, j);
        if (weight[j] == 0)
            continue;
        for (l = 0; l < n; l++) {
            double sum = pu__dot(n - l, NULL, p, q + l);
            if (l > 0)
                sum += pu__dot(n - l, NULL, p + l, q);
            grad[l < op->params ? l : n - l] += weight[j] * (pu_real)sum;
        }
    }
    return PU_OK;
}

/* The same by transforms. With z = p + i q and Z = F z the sums have the spectrum
     conj(P_m) Q_m + P_m conj(Q_m) = Re Z_m Im Z_{N-m} + Im Z_m Re Z_{N-m},
   which is added up over the columns before the one way back. Scratch: 3 N + fft.work. */
PU__FN pu_status pu__lags_grad(PU__GRAD_ARGS)
{
    const pu_lags *f = pu__lags_of(op);
    pu_int i, j, m, N = f->size;
    pu_real *sums = work, *re = sums + N, *im = re + N, scale;
    pu__zeros(sums, N);
    for (j = 0; j < k; j++) {
        if (weight[j] == 0)
            continue;
        pu__zeros(re, 2 * N);
        scale = weight[j] * pu__lags_load(f->n, pu__col(P, j), re);
        scale *= pu__lags_load(f->n, pu__col(Q, j), im);
        pu__lags_transform(f, 0, re);
        for (i = 0; i < N; i++) {
            m = i ? N - i : 0;
            sums[i] += scale * (re[i] * im[m] + im[i] * re[m]);
        }
    }
    /* back: the spectrum of the sums is real and even, and so are the sums */
    pu__copy(re, sums, N);
    pu__zeros(im, N);
    pu__lags_transform(f, 1, re);
    scale = pu__sqrt((pu_real)N);
    for (i = 0; i < op->params; i++)
        grad[i] += (i == 0 || 2 * i == N ? scale / 2 : scale) * re[i]; /* a lag occurs once or twice in a row of C */
    return PU_OK;
}

/* Durbin and Levinson: from the best predictor of y_{m-1} from all entries before it to that of
   y_m,
     phi_j := phi_j - kappa phi_{m-j},  j < m,   phi_m = kappa,
   with phi_j in z[n - j]: the m coefficients then lie in the order of y_0 .. y_{m-1}. */
PU__FN void pu__levinson_step(pu_int n, pu_int m, pu_real kappa, pu_real *z)
{
    pu_real *first = z + n - m, x, y; /* phi_{m-j} = first[j] */
    for (pu_int j = 1; 2 * j <= m; j++) {
        x = z[n - j];
        y = first[j];
        z[n - j] = x - kappa * y;
        first[j] = y - kappa * x; /* the same place and number when 2 j = m */
    }
    first[0] = kappa;
}

/* Draws. Through C where lambda >= 0: F = the first n rows of C^1/2. Otherwise
     y_m = sum_j phi_j y_{m-j} + v_m^1/2 e_m,   v_m = v_{m-1} (1 - kappa_m^2),   v_0 = t_0,
   the Cholesky factor of Op a row at a time, which uses the first n of the N normals. Scratch: n. */
PU__FN pu_status pu__lags_sample(PU__SOLVE_ARGS)
{
    const pu_lags *f = pu__lags_of(op);
    pu_real root = pu__sqrt(f->t[0]);
    pu_int n = op->rows;
    if (f->embedded) {
        pu__lags_multiply(f, f->roots, f->size, k, X, Y, 0, work);
        return PU_OK;
    }
    for (pu_int m = 0; m < n; m++) {
        pu_real kappa = f->kappa[m];
        if (m > 0) {
            pu__levinson_step(n, m, kappa, work);
            root *= pu__sqrt((1 - kappa) * (1 + kappa));
        }
        for (pu_int j = 0; j < k; j++) {
            pu_real *y = pu__col(Y, j);
            y[m] = (pu_real)(pu__dot(m, NULL, work + n - m, y) + (double)root * (double)pu__col(X, j)[m]);
        }
    }
    return PU_OK;
}

/* log det Op, which the factor knows. */
PU__FN pu_status pu__lags_logdet(PU__LOGDET_ARGS)
{
    *value = pu__lags_of(op)->logdet;
    return PU_OK;
}

/* Its gradient is that of p'Op q, with p and q from the factor. */
PU__FN pu_status pu__lags_logdet_grad(PU__LOGDET_GRAD_ARGS)
{
    const pu_lags *f = pu__lags_of(op);
    return op->grad(op, 1, pu__rows(f->p, f->n), pu__rows(f->q, f->n), &weight, grad, work);
}

/* The lags are finite and, where there is a factor, those that it was made of. One that was refused
   since has n = 0. */
PU__FN pu_status pu__lags_check(const pu_op *op, pu_int *index)
{
    const pu_lags *f = pu__lags_of(op);
    pu_status status = pu__dense_check(op, index);
    if (status || !f)
        return status;
    for (pu_int i = 0; i < op->params; i++) {
        *index = i;
        if (f->n != op->rows || f->t[i] != pu__entries(op)[i])
            return PU_E_ARGUMENT;
    }
    *index = -1;
    return PU_OK;
}

/* Toeplitz: the pivots are variances of prediction errors, t_0 prod (1 - kappa_i^2), of which the last is the smallest: what
   pu__pivot_ratio would find. Circulant: of its eigenvalues, largest over smallest. */
PU__FN double pu__lags_condition(const pu_op *op)
{
    const pu_lags *f = pu__lags_of(op);
    double ratio = 1, low = HUGE_VAL, high = 0;
    int circulant = f->size == f->n; /* a Toeplitz matrix is embedded in one of twice its size */
    for (pu_int i = 1; !circulant && i < f->n; i++)
        ratio /= (1 - (double)f->kappa[i]) * (1 + (double)f->kappa[i]);
    for (pu_int i = 0; circulant && i < f->size; i++) {
        double lambda = (double)f->lambda[i];
        low = low < lambda ? low : lambda;
        high = pu__max(high, lambda);
    }
    return circulant ? high / low : ratio;
}

/* The n x n operator with these lags. f may be NULL; a factor that was refused, or is of another
   matrix, makes none. */
PU__FN pu_op pu__op_lags(pu_int n, pu_int params, const pu_real *t, const pu_lags *f)
{
    pu_op op = pu__op_zero(n, n, params, t);
    if (f && (f->n != n || f->params != params))
        return pu__op_zero(0, 0, 0, NULL);
    op.aux = f;
    op.apply = op.apply_t = pu__lags_apply;
    op.grad = pu__lags_fast(&op) ? pu__lags_grad : pu__lags_grad_direct;
    op.diag = pu__lags_diag;
    op.gram_diag = pu__lags_gram_diag;
    op.check = pu__lags_check;
    op.work = 2 * pu__min(pu__most(n, 0), PTRDIFF_MAX / 2);
    op.flops = (double)n * (double)n;
    if (!f)
        return op;
    op.work = 3 * f->size + f->fft.work;
    op.flops = 4 * (double)f->size * log2((double)f->size);
    if (!f->prior)
        return op;
    op.noise = f->size;
    op.sample = pu__lags_sample;
    op.logdet = pu__lags_logdet;
    op.logdet_grad = pu__lags_logdet_grad;
    op.condition = pu__lags_condition;
    return op;
}

/* The parts of a factor of f->n and f->size: measured or, with arena->base set, placed. The scratch for making it
   follows `squares`. */
PU__FN void pu__lags_layout(void *factor, pu__arena *arena)
{
    pu_lags *f = (pu_lags *)factor;
    pu_int n = f->n, N = f->size;
    f->fft.n = N;
    pu__fft_make(&f->fft, arena);
    if (arena->overflow)
        return;
    f->params = N > n ? n : n / 2 + 1;
    f->t = pu__reals(arena, 4 * n + 3 * N + f->fft.work, 1);
    if (!f->t)
        return;
    f->kappa = f->t + n;
    f->p = f->kappa + n;
    f->q = f->p + n;
    f->roots = f->q + n;
    f->lambda = f->roots + N;
    f->squares = f->lambda + N;
}

/* The spectra. C is even, and so is C with its entries squared: their transforms are real, and come
   from one run. */
PU__FN void pu__lags_spectra(pu_lags *f)
{
    pu_int i, N = f->size;
    pu_real *lambda = f->lambda, s, root = pu__sqrt((pu_real)N);
    for (i = 0; i < N; i++)
        lambda[i] = f->t[pu__min(pu__min(i, N - i), f->params - 1)];
    s = pu__lags_load(N, lambda, lambda);
    for (i = 0; i < N; i++)
        f->squares[i] = lambda[i] * lambda[i];
    pu__lags_transform(f, 0, lambda);
    f->embedded = 1;
    for (i = 0; i < N; i++) {
        lambda[i] *= root * s;
        f->squares[i] *= root * s * s;
        if (!(lambda[i] >= 0))
            f->embedded = 0;
        f->roots[i] = pu__sqrt(lambda[i]);
    }
}

/* A circulant prior: log det C = sum log lambda, and d log det C = tr(C^-1 dC), so that p = (1, 0,
   .., 0) and q = n times the first column of C^-1, which is the inverse transform of 1 / lambda. */
PU__FN pu_status pu__lags_circulant(pu_lags *f, pu_int *index)
{
    pu_int n = f->n;
    for (pu_int i = 0; i < n; i++) {
        pu_real lambda = f->lambda[i];
        *index = pu__min(i, n - i);
        if (!(lambda > 0 && pu__finite(lambda)))
            return PU_E_NOT_DEFINITE;
        f->logdet += log((double)lambda);
        f->q[i] = pu__sqrt((pu_real)n) / lambda;
    }
    *index = -1;
    pu__zeros(f->p, n);
    pu_fft_run(&f->fft, 1, f->q, f->p, f->squares + n);
    pu__zeros(f->p, n);
    f->p[0] = 1;
    return PU_OK;
}

/* A Toeplitz prior: the recursion of Durbin and Levinson, with the predictor in p,
     kappa_m = (t_m - sum_{j<m} phi_j t_{m-j}) / v_{m-1},   v_m = v_{m-1} (1 - kappa_m^2),   log det = sum_m log v_m.
   By Gohberg and Semencul v T^-1 = L L' - H H' with lower Toeplitz matrices L, H of first columns a
   = (1, -phi_1, ..) and (0, a_{n-1}, .., a_1), v = v_{n-1}. Summed along a diagonal,
     d log det / d t_l = (2 / v) sum_j (n - l - 2 j) a_j a_{j+l}   (half of it for l = 0),
   which is the gradient of p'T q for p = a, q_j = (n - 2 j) a_j / v. */
PU__FN pu_status pu__lags_toeplitz(pu_lags *f, pu_int *index)
{
    pu_int m, n = f->n;
    pu_real *p = f->p, *q = f->q;
    double v = (double)f->t[0];
    for (m = 0; m < n; m++) {
        if (m > 0) {
            pu_real kappa = (pu_real)(((double)f->t[m] - pu__dot(m - 1, NULL, p + n - m + 1, f->t + 1)) / v);
            f->kappa[m] = kappa;
            v *= (1 - (double)kappa) * (1 + (double)kappa);
            pu__levinson_step(n, m, kappa, p);
        }
        *index = m;
        if (!(v > 0))
            return PU_E_NOT_DEFINITE;
        f->logdet += log(v);
    }
    *index = -1;
    q[0] = 1;
    for (m = 1; m < n; m++)
        q[m] = -p[n - m];
    pu__copy(p, q, n);
    for (m = 0; m < n; m++)
        q[m] = (pu_real)((double)(n - 2 * m) * (double)p[m] / v);
    return PU_OK;
}

/* Bytes for the arrays of a factor, with room to align them. */
PU__FN pu_status pu__lags_bytes(pu_int n, pu_int size, size_t *bytes)
{
    pu_lags f = PU__ZERO;
    if (!bytes)
        return PU_E_NULL;
    if (n < 1)
        return PU_E_ARGUMENT;
    f.n = n;
    f.size = size;
    return pu__fft_build(pu__lags_layout, &f, NULL, 0, bytes);
}

/* The factor of the matrix with lags t as a corner of a circulant matrix of this size; f->n = 0
   where it is refused. */
PU__FN pu_status pu__lags_factor(pu_lags *f, pu_int n, pu_int size, const pu_real *t, int prior, void *memory,
                                 size_t bytes, pu_int *index)
{
    pu_status status;
    pu_int ignored;
    if (!index)
        index = &ignored;
    *index = -1;
    if (!f || !t || !memory)
        return PU_E_NULL;
    if (n < 1)
        return PU_E_ARGUMENT;
    memset(f, 0, sizeof *f);
    f->n = n;
    f->size = size;
    status = pu__fft_build(pu__lags_layout, f, memory, bytes, NULL);
    if (!status)
        status = pu__check_finite(f->params, t, index);
    if (!status) {
        f->prior = prior;
        pu__copy(f->t, t, f->params);
        pu__lags_spectra(f);
        if (prior)
            status = size > n ? pu__lags_toeplitz(f, index) : pu__lags_circulant(f, index);
    }
    if (status)
        f->n = 0;
    return status;
}

/* N of a Toeplitz matrix: the smallest power of two from 2 n on, or 3/4 of it. Huge n are left to
   be refused. */
PU__FN pu_int pu__lags_size(pu_int n)
{
    pu_int size = 4;
    if (n > PTRDIFF_MAX / 256)
        return n;
    while (size < 2 * n)
        size *= 2;
    return size / 4 * 3 >= 2 * n ? size / 4 * 3 : size;
}

/* The public functions: a Toeplitz matrix has n lags and N >= 2 n, a circulant one n/2 + 1 lags and
   N = n. */
PU_DEF pu_op pu_op_toeplitz(pu_int n, const pu_real *t, const pu_lags *factor) { return pu__op_lags(n, n, t, factor); }

PU_DEF pu_status pu_toeplitz_bytes(pu_int n, size_t *bytes) { return pu__lags_bytes(n, pu__lags_size(n), bytes); }

PU_DEF pu_status pu_toeplitz_factor(pu_lags *factor, pu_int n, const pu_real *t, int prior, void *memory, size_t bytes,
                                    pu_int *index)
{
    return pu__lags_factor(factor, n, pu__lags_size(n), t, prior, memory, bytes, index);
}

PU_DEF pu_op pu_op_circulant(pu_int n, const pu_real *c, const pu_lags *factor)
{
    return pu__op_lags(n, n / 2 + 1, c, factor);
}

PU_DEF pu_status pu_circulant_bytes(pu_int n, size_t *bytes) { return pu__lags_bytes(n, n, bytes); }

PU_DEF pu_status pu_circulant_factor(pu_lags *factor, pu_int n, const pu_real *c, int prior, void *memory, size_t bytes,
                                     pu_int *index)
{
    return pu__lags_factor(factor, n, n, c, prior, memory, bytes, index);
}

/* ------------------------------------------------------------------------------------------------
   >>check   observations, and the checks of what a caller hands in

   Refusals come in this order: pointers and sizes, before anything is read; numbers; then what only a product can
   show (stated forms, symmetry, apply_t), which needs scratch. Each names the first thing that is wrong.
   ------------------------------------------------------------------------------------------------ */

/* N data of m entries, all there. */
PU_DEF pu_data pu_data_full(pu_int n, pu_int m, const pu_real *y)
{
    pu_data data = PU__ZERO;
    data.n = n;
    data.m = m;
    data.y = y;
    return data;
}

/* Gaps where y is NaN. */
PU_DEF pu_data pu_data_nan(pu_int n, pu_int m, const pu_real *y)
{
    pu_data data = pu_data_full(n, m, y);
    data.kind = PU_DATA_NAN;
    return data;
}

/* Gaps where mask is 0. */
PU_DEF pu_data pu_data_masked(pu_int n, pu_int m, const pu_real *y, const unsigned char *mask)
{
    pu_data data = pu_data_full(n, m, y);
    data.kind = PU_DATA_MASKED;
    data.mask = mask;
    return data;
}

/* Lists of the entries that are there. */
PU_DEF pu_data pu_data_lists(pu_int n, pu_int m, const pu_int *start, const pu_int *index, const pu_real *y)
{
    pu_data data = pu_data_full(n, m, y);
    data.kind = PU_DATA_LISTS;
    data.start = start;
    data.index = index;
    return data;
}

/* Where datum n of the batch is in the arrays. */
PU__FN pu_int pu__datum(const pu_data *data, pu_int n) { return data->pick ? data->pick[n] : n; }

/* The number that keys the random stream of datum n of the batch. */
PU__FN uint32_t pu__datum_id(const pu_data *data, pu_int n)
{
    pu_int at = pu__datum(data, n);
    return (uint32_t)(data->id ? data->id[at] : at);
}

/* Distance between rows of y and mask. */
PU__FN pu_int pu__data_stride(const pu_data *data) { return data->ldy ? data->ldy : data->m; }

/* Next observed entry of datum n at or after position p (a row, or a place in the list); -1 at the end. */
PU__FN pu_int pu__observed(const pu_data *data, pu_int n, pu_int p, pu_int *row, pu_real *y)
{
    pu_int at = pu__datum(data, n), from = at * pu__data_stride(data);
    if (data->kind == PU_DATA_LISTS) {
        pu_int place = data->start[at] + p;
        if (place >= data->start[at + 1])
            return -1;
        *row = data->index[place];
        *y = data->y[place];
        return p;
    }
    for (; p < data->m; p++) {
        if (data->kind == PU_DATA_MASKED && !data->mask[from + p])
            continue;
        *y = data->y[from + p];
        if (data->kind == PU_DATA_NAN && *y != *y)
            continue;
        *row = p;
        return p;
    }
    return -1;
}

/* Observations of datum n: finite. Returns their number, or -1 with the report filled in. Without a report they are
   only counted. */
PU__FN pu_int pu__check_datum(const pu_data *data, pu_int n, pu_report *report)
{
    pu_int row = 0, count = 0;
    pu_real y = 0;
    for (pu_int p = 0; (p = pu__observed(data, n, p, &row, &y)) >= 0; p++) {
        if (report && !pu__finite(y)) {
            (void)pu__fail(report, PU_E_NONFINITE, "data.y", n, row);
            return -1;
        }
        count++;
    }
    return count;
}

/* How many entries of datum n are observed. Lists and complete data are not read for it. */
PU__FN pu_int pu__count_observed(const pu_data *data, pu_int n)
{
    pu_int at = pu__datum(data, n);
    if (data->kind == PU_DATA_LISTS)
        return data->start[at + 1] - data->start[at];
    return data->kind == PU_DATA_FULL ? data->m : pu__check_datum(data, n, NULL);
}

/* A fault that an argument may have, what to say then, and of whom. A list of them ends with PU_OK. */
typedef struct {
    int found;
    pu_status status;
    const char *what;
} pu__fault;

/* Is x from 0 on and below the end? A NaN is not. */
PU__FN int pu__is_within(double x, double end) { return x >= 0 && x < end; }

/* Refuses for the first fault found. */
PU__FN pu_status pu__refuse_first(const pu__fault *fault, pu_report *report)
{
    for (; fault->status; fault++)
        if (fault->found)
            return pu__refuse(report, fault->status, fault->what);
    return PU_OK;
}

/* Entries of x: finite, and positive where they must be. x NULL: none. */
PU__FN pu_status pu__check_array(pu_int n, const pu_real *x, int positive, const char *name, pu_int datum,
                                 pu_report *report)
{
    for (pu_int i = 0; x && i < n; i++) {
        if (!pu__finite(x[i]))
            return pu__fail(report, PU_E_NONFINITE, name, datum, i);
        if (positive && !(x[i] > 0))
            return pu__fail(report, PU_E_NOT_POSITIVE, name, datum, i);
    }
    return PU_OK;
}

/* Numbers of data that go into random streams, which know 32 bits. Of n data those at `pick`, or (NULL) the first.
   key NULL: none. */
PU__FN pu_status pu__check_keys(pu_int n, const pu_int *key, const pu_int *pick, const char *what, pu_report *report)
{
    if (key)
        for (pu_int i = 0; i < n; i++) {
            pu_int one = key[pick ? pick[i] : i];
            if ((uint64_t)one > UINT32_MAX)
                return pu__fail(report, PU_E_ARGUMENT, what, i, i);
        }
    return PU_OK;
}

/* Lists: starts ascend, rows strictly increase and exist. All of start is looked at before any of index, since a wrong
   start must not lead beyond its end. */
PU__FN pu_status pu__check_lists(const pu_data *data, pu_report *report)
{
    const pu_int *start = data->start, *index = data->index;
    if (!start || !index)
        return pu__refuse(report, PU_E_NULL, start ? "data.index" : "data.start");
    for (pu_int n = 0; n < data->n; n++) {
        pu_int at = pu__datum(data, n);
        pu_int next = start[at] < 0 ? 0 : 1; /* which of the two is wrong */
        if (!next || start[at + 1] < start[at])
            return pu__fail(report, PU_E_ARGUMENT, "data.start (from 0 on, not decreasing)", n, at + next);
    }
    for (pu_int n = 0; n < data->n; n++) {
        pu_int at = pu__datum(data, n), least = 0;
        for (pu_int p = start[at]; p < start[at + 1]; p++) {
            if (index[p] < least || index[p] >= data->m)
                return pu__fail(report, PU_E_ARGUMENT, "data.index (rows of Phi, below data.m, strictly increasing in a datum)", n, p);
            least = index[p] + 1;
        }
    }
    return PU_OK;
}

/* Sizes, pointers and lists of the data, without reading an observation. pick comes before all that it leads to: the
   lists and the ids of the data that it names. */
PU__FN pu_status pu__check_data_shape(const pu_data *data, pu_int M, pu_report *report)
{
    const pu_data empty = PU__ZERO, *d = data ? data : &empty;
    const pu__fault faults[] = {
        {!data, PU_E_NULL, "data"},
        {d->n <= 0, PU_E_ARGUMENT, "data.n (at least 1)"},
        {d->m != M, PU_E_SIZE, "data.m (must be Phi.rows)"},
        {(uint64_t)d->n > UINT32_MAX, PU_E_OVERFLOW, "data.n"},
        {(int)d->kind < PU_DATA_FULL || (int)d->kind > PU_DATA_LISTS, PU_E_ARGUMENT, "data.kind (pu_data_full, _masked, _nan, _lists set it)"},
        {d->ldy && d->ldy < d->m, PU_E_SIZE, "data.ldy (0 = data.m, or at least that)"},
        {!d->y, PU_E_NULL, "data.y"},
        {d->kind == PU_DATA_MASKED && !d->mask, PU_E_NULL, "data.mask"},
        {0, PU_OK, ""}};
    int overflow = 0;
    pu_status status = pu__refuse_first(faults, report);
    if (!status)
        status = pu__check_keys(d->n, d->pick, NULL, "data.pick (0 or more, below the number of data there)", report);
    if (!status && d->kind == PU_DATA_LISTS)
        status = pu__check_lists(data, report);
    else if (!status) {
        size_t entries = pu__mul((size_t)d->n, (size_t)pu__data_stride(d), &overflow);
        (void)pu__mul(entries, sizeof(pu_real), &overflow);
        if (overflow)
            status = pu__refuse(report, PU_E_OVERFLOW, d->ldy ? "data.ldy" : "data.n");
    }
    return status ? status : pu__check_keys(d->n, d->id, d->pick, "data.id (0 or more, below 2^32)", report);
}

/* Everything about the data: for calls that make no job. */
PU__FN pu_status pu__check_data(const pu_data *data, pu_int M, pu_report *report)
{
    pu_status status = pu__check_data_shape(data, M, report);
    if (status)
        return status;
    for (pu_int n = 0; n < data->n; n++)
        if (pu__check_datum(data, n, report) < 0)
            return report->status;
    return PU_OK;
}

/* Sizes and functions of the two operators, before any of them is called. */
PU__FN pu_status pu__check_model(const pu_lgm *model, pu_report *report)
{
    const pu_lgm none = PU__ZERO, *m = model ? model : &none;
    const pu_op empty = PU__ZERO, *G = m->Gamma ? m->Gamma : &empty, *P = m->Phi ? m->Phi : &empty;
    const pu__fault faults[] = {
        {!model, PU_E_NULL, "model"},
        {!m->Gamma, PU_E_NULL, "model.Gamma"},
        {!m->Phi, PU_E_NULL, "model.Phi"},
        {!m->psi, PU_E_NULL, "model.psi"},
        {G->rows <= 0, PU_E_ARGUMENT, "Gamma.rows (at least 1; a constructor that was refused gives 0)"},
        {P->rows <= 0, PU_E_ARGUMENT, "Phi.rows (at least 1; a constructor that was refused gives 0)"},
        {G->noise < 0, PU_E_ARGUMENT, "Gamma.noise (0 = its rows, or at least 1)"},
        /* random streams count entries in 32 bits */
        {G->params < 0 || (uint64_t)G->rows > UINT32_MAX || (uint64_t)G->noise > UINT32_MAX, PU_E_OVERFLOW, "Gamma"},
        {P->params < 0 || (uint64_t)P->rows > UINT32_MAX, PU_E_OVERFLOW, "Phi"},
        {G->cols != G->rows, PU_E_SIZE, "Gamma.cols (must be Gamma.rows)"},
        {P->cols != G->rows, PU_E_SIZE, "Phi.cols (must be Gamma.rows)"},
        {G->work < 0, PU_E_ARGUMENT, "Gamma.work (0 or more)"},
        {P->work < 0, PU_E_ARGUMENT, "Phi.work (0 or more)"},
        {!G->apply, PU_E_NULL, "Gamma.apply"},
        {!P->apply, PU_E_NULL, "Phi.apply"},
        {!P->apply_t, PU_E_NULL, "Phi.apply_t"},
        {0, PU_OK, ""}};
    return pu__refuse_first(faults, report);
}

/* A function of an operator reported failure. */
PU__FN pu_status pu__operator_failed(pu_report *report, const char *what, pu_int datum)
{
    return pu__fail(report, PU_E_OPERATOR, what, datum, -1);
}

/* What the messages about an operator call it. A function's failure is told by the function's name; a factor that does
   not belong to the numbers (PU_E_ARGUMENT of check) and a form that is not true have words of their own. */
typedef struct {
    const char *name, *apply, *check, *stale, *form, *device;
    int slot; /* of the backend's sides: 0 a prior precision or A, 1 Phi */
} pu__op_names;

#define PU__OP_NAMES(x, slot)                                                                                          \
    {                                                                                                                  \
        x, x ".apply", x ".check", x " (stale factor)", x ".form (not true of this operator)", x " (no device side)",  \
            slot                                                                                                       \
    }
static const pu__op_names pu__names_A = PU__OP_NAMES("A", 0);
static const pu__op_names pu__names_Gamma = PU__OP_NAMES("Gamma", 0);
static const pu__op_names pu__names_Phi = PU__OP_NAMES("Phi", 1);

/* Numbers of an operator, checked by itself where it can. Only refusals (negative statuses) make sense as an answer. */
PU__FN pu_status pu__check_op(const pu_op *op, const pu__op_names *names, pu_report *report)
{
    pu_int index = -1;
    pu_status status = op->check ? op->check(op, &index) : PU_OK;
    if (!status)
        return PU_OK;
    if (status > 0)
        return pu__fail(report, PU_E_OPERATOR, names->check, -1, index);
    return pu__fail(report, status, status == PU_E_ARGUMENT ? names->stale : names->name, -1, index);
}

/* Numbers of the model: finite, positive where they must be. */
PU__FN pu_status pu__check_numbers(const pu_lgm *model, pu_report *report)
{
    pu_int D = model->Gamma->rows, M = model->Phi->rows;
    pu_status status = pu__check_array(M, model->psi, 1, "model.psi", -1, report);
    if (!status)
        status = pu__check_array(D, model->nu, 0, "model.nu", -1, report);
    if (!status)
        status = pu__check_array(M, model->eta, 0, "model.eta", -1, report);
    if (!status)
        status = pu__check_op(model->Gamma, &pu__names_Gamma, report);
    if (!status)
        status = pu__check_op(model->Phi, &pu__names_Phi, report);
    return status;
}

/* |x| |y|, which bounds |x'y| and so the rounding of that sum. */
PU__FN double pu__norms(pu_int n, const pu_real *x, const pu_real *y)
{
    return sqrt(pu__dot(n, NULL, x, x) * pu__dot(n, NULL, y, y));
}

/* Rounding of an inner product of vectors of length n whose norms multiply to size, with room to spare. */
PU__FN double pu__dot_rounding(pu_int n, double size) { return 100 * sqrt((double)n) * (double)PU__EPS * size; }

/* Random test of an operator that nobody vouches for. Phi: p'(Op q) = q'(Op'p). A prior precision or A (slot 0): the
   same with Op' = Op, and p'Op p > 0. test: 2 (rows + cols) reals. */
PU__FN pu_status pu__check_adjoint(const pu_op *op, const pu__op_names *names, pu_real *test, pu_real *work,
                                   pu_report *report)
{
    int map = names->slot;
    pu_int rows = op->rows, cols = op->cols;
    pu_real *p = test, *aq = p + rows, *q = aq + rows, *ap = q + cols;
    double difference, size;
    pu_normals(0, map ? 3 : 1, 0, 0, PU__STREAM_TEST, 0, rows, p);
    pu_normals(0, map ? 4 : 2, 0, 0, PU__STREAM_TEST, 0, cols, q);
    if (op->apply(op, 1, pu__rows(q, cols), pu__rows(aq, rows), 0, work))
        return pu__operator_failed(report, names->apply, -1);
    if ((map ? op->apply_t : op->apply)(op, 1, pu__rows(p, rows), pu__rows(ap, cols), 0, work))
        return pu__operator_failed(report, map ? "Phi.apply_t" : names->apply, -1);
    difference = fabs(pu__dot(rows, NULL, p, aq) - pu__dot(cols, NULL, q, ap));
    size = pu__norms(rows, p, aq) + pu__norms(cols, q, ap);
    if (!pu__finite_double(size))
        return pu__refuse(report, PU_NONFINITE, names->name);
    if (difference > pu__dot_rounding(pu__most(rows, cols), size))
        return map ? pu__refuse(report, PU_E_NOT_ADJOINT, "Phi.apply_t")
                   : pu__refuse(report, PU_E_NOT_SYMMETRIC, names->name);
    if (!map && !(pu__dot(rows, NULL, p, ap) > 0 && pu__dot(rows, NULL, q, aq) > 0))
        return pu__refuse(report, PU_E_NOT_DEFINITE, names->name);
    return PU_OK;
}

/* The built-in operator of the form that op states; op itself where it states none. A factor is taken from a built-in
   matrix alone: in an operator of the caller's aux is his own. */
PU__FN pu_op pu__op_of_form(const pu_op *op)
{
    const pu_real *entries = (const pu_real *)op->data;
    pu_op spd;
    switch (op->form) {
    case PU_FORM_MATRIX: return pu_op_dense(op->rows, op->cols, entries);
    case PU_FORM_SYMMETRIC:
        spd = pu_op_spd(op->rows, entries, NULL);
        return op->apply == spd.apply ? pu_op_spd(op->rows, entries, (const pu_real *)op->aux) : spd;
    case PU_FORM_DIAGONAL: return pu__op_diagonal(op->rows, op->params, entries);
    case PU_FORM_SPARSE: return pu_op_csr((const pu_csr *)op->data);
    case PU_FORM_AR: return pu_op_ar((const pu_ar *)op->data);
    case PU_FORM_STATES: return pu_op_ssm((const pu_ssm *)op->data);
    case PU_FORM_FOURIER: return pu_op_fourier((const pu_fourier *)op->data);
    case PU_FORM_CHAIN: return pu__op_chain((const pu__chain *)op->data);
    case PU_FORM_GENERAL: break;
    }
    return *op;
}

/* The functions of an operator but for check. */
/* clang-format off */
#define PU__OP_FUNCTIONS(X)                                                                                            \
    X(apply) X(apply_t) X(grad) X(diag) X(gram_diag) X(sample) X(solve) X(logdet) X(logdet_grad) X(condition)           \
    X(apply_rows) X(apply_rows_t) X(grad_rows) X(band_add) X(band_grad) X(row) X(row_grad)
/* clang-format on */

/* The operator that the library works with. One that states a form and has no function of ours gets the functions of
   the built-in one, and keeps its own where that has none: so it is as fast as ours, and pu__check_form tests that
   they agree. A built-in operator in which some functions were replaced is taken as it is, and no longer has a form. */
PU__FN pu_op pu__resolve(const pu_op *op)
{
    pu_op builtin = pu__op_of_form(op), resolved = *op;
    int shared = 0, changed = 0;
    if (op->form == PU_FORM_GENERAL)
        return resolved;
#define PU__X(f)                                                                                                       \
    shared += op->f != NULL && op->f == builtin.f;                                                                     \
    changed += op->f != builtin.f;
    PU__OP_FUNCTIONS(PU__X)
#undef PU__X
    if (shared) {
        if (changed)
            resolved.form = PU_FORM_GENERAL;
        return resolved;
    }
#define PU__X(f)                                                                                                       \
    if (builtin.f)                                                                                                     \
        resolved.f = builtin.f;
    PU__OP_FUNCTIONS(PU__X)
#undef PU__X
    if (!op->check)
        resolved.check = builtin.check;
    if (builtin.sample)
        resolved.noise = builtin.noise;
    if (builtin.band_add || builtin.row)
        resolved.band = builtin.band;
    resolved.work = pu__most(builtin.work, op->work);
    resolved.flops = builtin.flops;
    resolved.trusted = (int)pu__most(builtin.trusted, op->trusted);
    return resolved;
}

/* Sizes of the form that op states are those of op. Before anything is computed with the form. */
PU__FN pu_status pu__check_form_sizes(const pu_op *op, const pu__op_names *names, pu_report *report)
{
    pu_op builtin = pu__op_of_form(op);
    int same = builtin.rows == op->rows && builtin.cols == op->cols && builtin.params == op->params;
    if (pu__resolve(op).form == PU_FORM_GENERAL)
        return PU_OK;
    if (op->form == PU_FORM_DIAGONAL)
        same = op->rows == op->cols && (op->params <= 1 || op->params == op->rows);
    if ((int)op->form < PU_FORM_GENERAL || (int)op->form > PU_FORM_CHAIN)
        same = 0;
    if (same && op->params > 0 && !op->data)
        return pu__refuse(report, PU_E_NULL, names->name);
    return same ? PU_OK : pu__refuse(report, PU_E_ARGUMENT, names->form);
}

/* An operator with functions of its own that states a form: its product with a random vector q must be that of the
   form. test: 2 rows + cols reals. */
PU__FN pu_status pu__check_form(const pu_op *op, const pu_op *resolved, const pu__op_names *names, pu_real *test,
                                pu_real *work, pu_report *report)
{
    pu_int rows = op->rows, cols = op->cols;
    pu_block q = pu__rows(test, cols);
    pu_real *aq = test + cols, *want = aq + rows;
    double size;
    if (op->form == PU_FORM_GENERAL || op->apply == resolved->apply)
        return PU_OK;
    pu_normals(0, 6, 0, 0, PU__STREAM_TEST, 0, cols, test);
    if (op->apply(op, 1, q, pu__rows(aq, rows), 0, work))
        return pu__operator_failed(report, names->apply, -1);
    if (resolved->apply(resolved, 1, q, pu__rows(want, rows), 0, work))
        return pu__operator_failed(report, names->form, -1);
    size = sqrt(pu__dot(rows, NULL, want, want)) + sqrt(pu__dot(rows, NULL, aq, aq));
    for (pu_int i = 0; i < rows; i++)
        if (!(fabs((double)aq[i] - (double)want[i]) <= pu__dot_rounding(cols, size)))
            return pu__fail(report, PU_E_ARGUMENT, names->form, -1, i);
    return PU_OK;
}

/* A model with its operators as their forms say. Holds pointers into itself: not to be copied. */
typedef struct {
    const pu_lgm *given; /* as the caller wrote it */
    pu_op Gamma, Phi;
    pu_lgm model; /* of these */
} pu__resolved;

/* Checks a model's sizes and functions, and resolves its operators. */
PU__FN pu_status pu__resolve_model(pu__resolved *r, const pu_lgm *model, pu_report *report)
{
    pu_status status = pu__check_model(model, report);
    if (status)
        return status;
    r->given = model;
    r->Gamma = pu__resolve(model->Gamma);
    r->Phi = pu__resolve(model->Phi);
    r->model = *model;
    r->model.Gamma = &r->Gamma;
    r->model.Phi = &r->Phi;
    status = pu__check_form_sizes(model->Gamma, &pu__names_Gamma, report);
    return status ? status : pu__check_form_sizes(model->Phi, &pu__names_Phi, report);
}

/* Reals of scratch that pu__test_operators wants. */
PU__FN pu_int pu__test_reals(const pu__resolved *r)
{
    return 2 * (r->Gamma.rows + pu__most(r->Phi.rows, r->Gamma.rows));
}

/* The tests of the operators that need scratch: stated forms, a positive diagonal, symmetry, apply_t. work: scratch of
   the operators for one column. */
PU__FN pu_status pu__test_operators(const pu__resolved *r, pu_real *test, pu_real *work, pu_report *report)
{
    const pu_op *Gamma = &r->Gamma;
    pu_status status = pu__check_form(r->given->Gamma, Gamma, &pu__names_Gamma, test, work, report);
    if (!status)
        status = pu__check_form(r->given->Phi, &r->Phi, &pu__names_Phi, test, work, report);
    if (status)
        return status;
    if (Gamma->diag) {
        pu__zeros(test, Gamma->rows);
        if (Gamma->diag(Gamma, test, work))
            return pu__operator_failed(report, "Gamma.diag", -1);
        for (pu_int i = 0; i < Gamma->rows; i++)
            if (!(test[i] > 0))
                return pu__fail(report, PU_E_NOT_POSITIVE, "Gamma", -1, i);
    }
    if (Gamma->trusted < 2)
        status = pu__check_adjoint(Gamma, &pu__names_Gamma, test, work, report);
    if (!status && r->Phi.trusted < 1)
        status = pu__check_adjoint(&r->Phi, &pu__names_Phi, test, work, report);
    return status;
}

/* Has the backend all functions it must have? */
PU__FN pu_status pu__check_backend(const pu_backend *B, pu_report *report)
{
    int all = B->dot && B->combine && B->advance && B->stage && B->row_dot && B->normals && B->read && B->write &&
              B->retreat && B->sum_dot && B->row_terms;
    int own = B->batch && B->use_slot && B->side && B->status && !B->host;
    return all && (own || !B->memory) ? PU_OK : pu__refuse(report, PU_E_NULL, "backend");
}

/* The operator as the backend wants it, or (memory NULL) its sizes and the bytes it needs there. On the host it is the
   operator itself, with the fused products of the forms that have them. */
PU__FN pu_status pu__side(const pu_backend *B, const pu_op *op, const pu__op_names *names, void *memory, size_t *bytes,
                          pu_side *side, pu_report *report)
{
    const char *what = names->device;
    pu_op *o = &side->op;
    pu_status status = PU_OK, said = PU_OK;
    *bytes = 0;
    memset(side, 0, sizeof *side);
    *o = *op;
    if (!pu__is_far(B)) {
        if (op->form == PU_FORM_AR)
            side->apply_plus = pu__ar_apply_plus;
        if (op->form == PU_FORM_FOURIER)
            side->gram = pu__fourier_gram;
        return PU_OK;
    }
    if (op->device)
        *side = *op->device;
    else
        status = B->side(B->user, names->slot, op, memory, bytes, side);
    o->form = PU_FORM_GENERAL; /* forms are facts about host memory */
    if (status && memory)
        said = B->status(B->user, &what); /* an error of the device has words of its own */
    else if (!status && (!o->apply || (names->slot == 1 && !o->apply_t)))
        status = PU_E_NULL;
    else if (!status && (o->rows != op->rows || o->cols != op->cols || o->params < 0 || o->work < 0 ||
                         (!side->grad_from_sums && o->params != op->params)))
        status = PU_E_SIZE;
    return status ? pu__refuse(report, said ? said : status, what) : PU_OK;
}

/* What a backend with memory of its own has to say of the work so far. */
PU__FN pu_status pu__far_status(const pu_backend *B, pu_report *report)
{
    const char *what = "device";
    pu_status status = pu__is_far(B) ? B->status(B->user, &what) : PU_OK;
    return status ? pu__refuse(report, status, what) : PU_OK;
}

/* grad += the gradient that a side's sums (host memory) stand for. */
PU__FN pu_status pu__side_grad(const pu_side *side, const pu_real *sums, pu_real *grad)
{
    if (side->grad_from_sums)
        return side->grad_from_sums(side, sums, grad);
    pu__axpy(side->op.params, 1, sums, grad);
    return PU_OK;
}

/* ------------------------------------------------------------------------------------------------
   >>solver   GD, SD, CG and PCG are one loop, and have one reverse pass:

       r = u - A x;  d = m o r;  rho = r'(m o r)                  m = 1 except in PCG
       q = A d;  pi = d'q
       a = rho / pi           (GD: a = step)
       x += a d;  r -= a q;  rho' = r'(m o r)
       be = rho' / rho        (GD, SD: be = 0, so that d = r)
       d = m o r + be d

   Passes over vectors per step and column: product with d'q 1 read and 1 write, and what the operator itself reads (2 more
   reads where it cannot do both in one sweep); advance 4 reads 2 writes (with a full tape 2 reads 1 write, and x takes 4
   reads and 1 write every three steps at the end); d 2 reads 1 write. Reverse pass, alpha and beta constant: retreat 3 reads
   2 writes, product 2 reads 1 write, gradient terms 1 read (3, and 2 more reads and 1 write for qbar, where the operator
   cannot do both in one sweep); FULL: 17 reads and 4 writes more.

   The tape is d_0 .. d_{I-1} alone: m o r_i = d_i - be_i d_{i-1} gives the residuals back, and q_i = (r_{i-1} - r_i) / a_i.
   Neither difference cancels, because successive residuals are orthogonal (in the m product).
   ------------------------------------------------------------------------------------------------ */

/* Y = A X, or Y += A X with add. dots: k sums x_j'A x_j, or NULL. */
#define PU__PRODUCT_ARGS void *self, pu_int k, pu_block X, pu_block Y, int add, PU_UNUSED pu_real *dots

/* A as the solver sees it: a posterior precision (>>posterior), or an operator of the caller's (pu_solve). */
typedef struct {
    void *self;
    pu_int n;
    int dots;   /* product can deliver x_j'A x_j on the way */
    int scales; /* pairs can take coefficients c; otherwise the solver multiplies them in first */
    pu_status (*product)(PU__PRODUCT_ARGS);
    /* Y += A (c o P) where Y.at is not NULL; grad += weight_j d/dtheta (c_j p_j)'A q_j where grad is not NULL. */
    pu_status (*pairs)(void *self, const pu__pairs *pairs, pu_real *grad);
} pu__system;

/* pu_solve_options with the defaults filled in. */
typedef struct {
    pu_solver solver;
    pu_adjoint adjoint;
    pu_int I;           /* steps at most */
    pu_int every;       /* tape interval, 0 = full tape */
    int no_repeat;      /* of unstable reverse passes */
    pu_int check_every; /* steps between looks at a device's scalars */
    int tolerance_mode; /* columns stop at a residual */
    int converge;       /* that is rounding level, which is what the caller asked for */
    double tolerance, absolute2;
} pu__plan;

/* One solve of up to kmax columns, and its reverse pass. Vectors and per-column scalars (s, dots, back) are in the
   backend's memory, what is called host_ and all doubles on the host; on the CPU both are the same memory. */
typedef struct {
    const pu__system *A;
    const pu_backend *B;
    pu__plan plan;
    pu_int n, k, kmax;
    pu_int rows;       /* of the histories: the steps that there is room for, and one */
    pu_int each;       /* columns of a datum, where several data are side by side; else k */
    pu_int done;       /* steps the loop executed: plan.I, or fewer when all columns had stopped */
    int reorthogonal;  /* this run re-orthogonalises */
    pu_real *m, *minv; /* n for each datum: diagonal of M^-1, and of M; NULL except in PCG */
    pu_real *host_m;   /* m and minv of one datum after the other; without a device just m */
    pu_real *mbar;     /* n: gradient in m, or NULL */
    pu_block u, x, r, q, d;
    pu_block xbar, rbar, dbar, qbar, rprev; /* cotangents; the residual of the step before */
    pu_real *tape; /* directions; a run that re-orthogonalises keeps the residuals instead, see pu__directions_again */
    pu_real *saved;                         /* states (r, d), every `every` steps */
    pu_state s;
    pu_real *dots, *host_dots; /* 5 x kmax: u'u, r'r, |u - Ax|^2, u'x, x'(u - Ax) */
    pu_real *back, *host_back; /* I x kmax, PU_ADJOINT_AUTO: r'd_i */
    int32_t *host_steps, *host_stop;
    pu_real *host_a, *host_b, *host_rho; /* rows x kmax */
    double *lanczos;                     /* 3 x rows x PU__ABREAST: matrices to diagonalise */
    double *ritz;                        /* kmax x 2 rows: spectra */
    pu_int *known;                       /* kmax: is the spectrum in ritz known? */
    double *uu, *rr, *tt, *ux, *xt;      /* kmax: the five dots */
    double *orth, *growth;               /* kmax: the two measures of PU_ADJOINT_AUTO */
    double products;                     /* products A x column so far */
} pu__run;

/* CG and PCG, whose directions remember the ones before. */
PU__FN int pu__has_momentum(pu_solver solver) { return solver == PU_CG || solver == PU_PCG; }

/* Checks the options and fills in their defaults for systems of size n. converge: a solve without a tolerance runs to
   rounding level. network: a reverse pass will follow. */
PU__FN pu_status pu__plan_make(const pu_solve_options *o, pu_int n, int converge, int network, pu__plan *plan,
                               pu_report *report)
{
    int momentum = pu__has_momentum(o->solver);
    const char *what = NULL;
    pu_int blocks;
    memset(plan, 0, sizeof *plan);
    /* ranges; solvers and adjoints count from 0 */
    if ((unsigned)o->solver > PU_GD)
        what = "options.solve.solver (PU_CG, PU_PCG, PU_SD or PU_GD)";
    else if ((unsigned)o->adjoint > PU_ADJOINT_AUTO)
        what = "options.solve.adjoint (one of pu_adjoint)";
    else if (!pu__is_within(o->tolerance, 1))
        what = "options.solve.tolerance (0 = none, or positive and below 1)";
    else if (!pu__is_within(o->absolute2, HUGE_VAL))
        what = "options.solve.absolute2 (0 = none, or positive and finite)";
    else if (o->iterations < 0 && o->iterations != PU_ZERO)
        what = "options.solve.iterations (at least 1; 0 = 30; PU_ZERO = none; PU_CHOOSE for a gradient)";
    else if (o->iterations > INT32_MAX / 4)
        return pu__refuse(report, PU_E_OVERFLOW, "options.solve.iterations (below 2^29)");
    else if (o->check_every < 0)
        what = "options.solve.check_every (at least 1, or 0 = 5)";
    else if (o->tape_every < 0 && o->tape_every != PU_CHOOSE)
        what = "options.solve.tape_every (at least 1; 0 = all; PU_CHOOSE)";
    else if (o->precond && o->solver != PU_PCG)
        what = "options.solve.precond (needs solver = PU_PCG)";
    else if (o->step && o->solver != PU_GD)
        what = "options.solve.step (needs solver = PU_GD)";
    if (what)
        return pu__refuse(report, PU_E_ARGUMENT, what);
    /* defaults */
    plan->solver = o->solver;
    plan->adjoint = o->adjoint;
    plan->no_repeat = o->no_repeat;
    /* The other two adjoints are CG's. */
    if (!momentum && o->adjoint != PU_ADJOINT_SHORTCUT)
        plan->adjoint = PU_ADJOINT_FULL;
    plan->tolerance = o->tolerance;
    plan->absolute2 = o->absolute2;
    plan->converge = converge && !(o->tolerance > 0) && !(o->absolute2 > 0);
    if (plan->converge)
        plan->tolerance = sqrt((double)PU__FLOOR2);
    plan->tolerance_mode = plan->tolerance > 0 || plan->absolute2 > 0;
    plan->check_every = o->check_every ? o->check_every : 5;
    plan->I = o->iterations == PU_ZERO ? 0 : o->iterations;
    if (o->iterations == 0)
        plan->I = plan->tolerance_mode ? pu__min(10 * n + 100, 1000) : 30;
    if (!network || !o->tape_every)
        return PU_OK;
    if (plan->adjoint == PU_ADJOINT_REORTHOGONAL || plan->adjoint == PU_ADJOINT_AUTO)
        return pu__refuse(report, PU_E_ARGUMENT, "options.solve.tape_every (needs adjoint FULL or SHORTCUT)");
    /* I / s states of two blocks (one without momentum) and s directions: least memory at s = sqrt(blocks), rounded up */
    blocks = momentum ? 2 * plan->I : plan->I;
    plan->every = o->tape_every;
    if (o->tape_every == PU_CHOOSE)
        plan->every = (pu_int)sqrt((double)blocks);
    while (o->tape_every == PU_CHOOSE && plan->every * plan->every < blocks)
        plan->every++;
    if (plan->every >= plan->I)
        plan->every = 0;
    return PU_OK;
}

/* Directions that the tape has room for: all of them, or those between two saved states; but ten cost no more than the
   other vectors of a run, and where all steps fit, a repeated solve can re-orthogonalise. */
PU__FN pu_int pu__tape_slots(const pu__plan *plan)
{
    return plan->every ? pu__most(plan->every, pu__min(plan->I, 10)) : plan->I;
}

/* Lays out (or measures) everything that a solve of up to kmax columns needs, `data` data side by side. */
PU__FN void pu__run_layout(pu__run *g, pu__arena *arena, const pu__system *A, const pu_backend *B, const pu__plan *plan,
                           pu_int kmax, pu_int data, int network)
{
    pu_int n = A->n, I = plan->I, every = plan->every, rows;
    int automatic = network && plan->adjoint == PU_ADJOINT_AUTO;
    pu_state *s = &g->s;
    /* the first six always; the others, and what is a tape, for a reverse pass */
    pu_block *vectors[] = {&g->u, &g->x, &g->r, &g->q, &g->xbar, &g->d, &g->rbar, &g->dbar, &g->qbar, &g->rprev};
    pu_real **scalars[] = {&s->s0,     &s->s1,   &s->step, &s->target, &s->floor_, &s->scale,
                           &s->rhobar, &s->rhop, &s->pib,  &s->c0,     &s->c1,     &s->c2};
    /* the first four, the first two where the backend works; the rest on the host */
    pu_real **histories[] = {&s->a, &s->be, &s->pi, &s->rho, &g->host_a, &g->host_b, &g->host_rho};
    int32_t **counts[] = {&s->steps, &s->stop, &g->host_steps, &g->host_stop};
    double **doubles[] = {&g->uu, &g->rr, &g->tt, &g->ux, &g->xt, &g->orth, &g->growth};
    memset(g, 0, sizeof *g);
    g->A = A;
    g->B = B;
    g->plan = *plan;
    g->n = n;
    g->kmax = kmax;
    rows = 1 + (plan->solver == PU_GD ? pu__most(I, PU__LANCZOS) : I); /* GD estimates its step by Lanczos */
    g->rows = rows;
    for (size_t i = 0; i < (network ? 10u : 6u); i++)
        *vectors[i] = pu__far_cols(arena, n, kmax);
    if (network)
        g->tape = pu__far_blocks(arena, pu__tape_slots(plan), n, kmax);
    if (every)
        g->saved = pu__far_blocks(arena, (I - 1) / every * (pu__has_momentum(plan->solver) ? 2 : 1), n, kmax);
    if (automatic) {
        g->back = pu__far_reals(arena, I, kmax);
        g->host_back = pu__reals(arena, I, kmax);
    }
    if (plan->solver == PU_PCG) {
        g->m = pu__far_reals(arena, n, data);
        g->minv = pu__far_reals(arena, n, data);
        g->host_m = pu__is_far(B) ? pu__reals(arena, n, 2 * data) : g->m;
    }
    for (size_t i = 0; i < 7; i++)
        *histories[i] = i < 4 ? pu__far_reals(arena, rows, kmax) : pu__reals(arena, rows, kmax);
    g->dots = pu__far_reals(arena, PU__DOTS, kmax);
    g->host_dots = pu__reals(arena, PU__DOTS, kmax);
    for (size_t i = 0; i < 12; i++)
        *scalars[i] = pu__far_reals(arena, kmax, 1);
    for (size_t i = 0; i < 7; i++)
        *doubles[i] = pu__doubles(arena, kmax, 1);
    for (size_t i = 0; i < 4; i++)
        *counts[i] = (int32_t *)pu__take_from(arena, i < 2, kmax, 1, sizeof(int32_t));
    g->lanczos = pu__doubles(arena, 3 * rows, PU__ABREAST);
    g->ritz = pu__doubles(arena, 2 * rows, kmax);
    g->known = pu__indices(arena, kmax);
}

/* The next solve has k columns; the flags of its solver go into the scalar state. */
PU__FN void pu__run_set(pu__run *g, pu_solver solver, pu_int k)
{
    g->k = k;
    g->s.k = k;
    g->each = k;
    g->s.fixed_step = solver == PU_GD;
    g->s.use_beta = pu__has_momentum(solver);
    g->s.tolerance2 = g->plan.tolerance * g->plan.tolerance;
    g->s.absolute2 = g->plan.absolute2;
}

/* No block at all, for functions that can do without one. */
static const pu_block pu__none = {NULL, 0};

/* n reals from the backend's memory to the host, */
PU__FN void pu__receive(const pu_backend *B, pu_real *to, const pu_real *from, pu_int n)
{
    B->read(B->user, to, from, (size_t)n * sizeof(pu_real));
}

/* and from the host there. */
PU__FN void pu__send(const pu_backend *B, pu_real *to, const pu_real *from, pu_int n)
{
    B->write(B->user, to, from, (size_t)n * sizeof(pu_real));
}

/* Block number i of a tape that begins at base. */
PU__FN pu_block pu__slot(const pu__run *g, pu_real *base, pu_int i)
{
    return pu__rows(base + i * g->n * g->kmax, g->n);
}

/* y = the sum of the terms, all columns of a run; none: y = 0. */
PU__FN void pu__combine(const pu__run *g, pu_block y, int count, const pu_term *terms)
{
    g->B->combine(g->B->user, g->n, g->k, y, count, terms);
}

/* y = t0 */
PU__FN void pu__combine1(const pu__run *g, pu_block y, pu_term t0) { pu__combine(g, y, 1, &t0); }

/* y = t0 + t1 */
PU__FN void pu__combine2(const pu__run *g, pu_block y, pu_term t0, pu_term t1)
{
    pu_term terms[] = {t0, t1};
    pu__combine(g, y, 2, terms);
}

/* y = t0 + t1 + t2 */
PU__FN void pu__combine3(const pu__run *g, pu_block y, pu_term t0, pu_term t1, pu_term t2)
{
    pu_term terms[] = {t0, t1, t2};
    pu__combine(g, y, 3, terms);
}

/* s_j = x_j'(m o y_j); m may be NULL. */
PU__FN void pu__dots(const pu__run *g, const pu_real *m, pu_block x, pu_block y, pu_real *s)
{
    g->B->dot(g->B->user, g->n, g->k, m, x, y, s);
}

/* Scalar arithmetic of one stage of step i. */
PU__FN void pu__run_stage(const pu__run *g, pu_stage stage, pu_int i) { g->B->stage(g->B->user, &g->s, stage, i); }

/* q = A X, counted, and, where s is not NULL, s_j = x_j'A x_j, in one sweep where the system can. */
PU__FN pu_status pu__product(pu__run *g, pu_block X, pu_real *s)
{
    const pu__system *A = g->A;
    pu_status status = A->product(A->self, g->k, X, g->q, 0, A->dots ? s : NULL);
    g->products += (double)g->k;
    if (s && !A->dots)
        pu__dots(g, NULL, X, g->q, s);
    return status;
}

/* Y += A (c o P);  grad += scale_j d/dtheta (c_j p_j)'A q_j (c NULL: ones; grad may be NULL). P is qbar, or qbar is free. */
PU__FN pu_status pu__product_back(pu__run *g, const pu_real *c, pu_block P, pu_block Q, pu_block Y, pu_real *grad)
{
    pu__pairs pairs = {g->k, c, P, Q, Y, g->s.scale};
    if (c && !(g->A->scales && grad)) {
        pu__combine1(g, g->qbar, pu__term_c(P, c));
        pairs.P = g->qbar;
        pairs.c = NULL;
    }
    if (Y.at)
        g->products += (double)g->k;
    return g->A->pairs(g->A->self, &pairs, grad);
}

/* V -= sum_{l <= last} (ma o r_l) (r_l'(mc o V)) / rho_l: Gram-Schmidt against the stored residuals. */
PU__FN void pu__project(pu__run *g, pu_block V, pu_int last, const pu_real *mc, const pu_real *ma)
{
    for (pu_int l = 0; l <= last; l++) {
        pu_block R = pu__slot(g, g->tape, l);
        pu__dots(g, mc, R, V, g->s.s0);
        pu__run_stage(g, PU_STAGE_PROJECT, l);
        pu__combine2(g, V, pu__term(V), pu__term_full(R, 1, g->s.c0, ma));
    }
}

/* Are all columns stopped? The only look at the scalars inside a loop. On a device it is taken in tolerance mode only,
   every few steps; stopped columns do not change, so how often one looks does not show in the results. */
PU__FN int pu__all_stopped(pu__run *g, pu_int i)
{
    if (!g->B->host && (!g->plan.tolerance_mode || (i + 1) % g->plan.check_every))
        return 0;
    g->B->read(g->B->user, g->host_stop, g->s.stop, (size_t)g->k * sizeof(int32_t));
    for (pu_int j = 0; j < g->k; j++)
        if (!g->host_stop[j])
            return 0;
    return 1;
}

/* Checkpoint number c holds r (which = 0) and, for CG and PCG, d (which = 1; GD and SD: d = r). */
PU__FN pu_block pu__saved_state(const pu__run *g, pu_int c, int which)
{
    return pu__slot(g, g->saved, g->s.use_beta ? 2 * c + which : c);
}

/* r = u - A x, through q; x NULL: r = u. */
PU__FN pu_status pu__subtract(pu__run *g, const pu_block *x, pu_block r)
{
    pu_term terms[] = {pu__term(g->u), pu__term_scaled(g->q, -1)};
    pu_status status = x ? pu__product(g, *x, NULL) : PU_OK;
    pu__combine(g, r, x ? 2 : 1, terms);
    return status;
}

/* The solver. In: u, x0 (NULL = 0), m, step. Out: x, r, histories, tape. */
PU__FN pu_status pu__forward(pu__run *g, const pu_block *x0, pu_int I)
{
    const pu_backend *B = g->B;
    const pu_state *s = &g->s;
    const pu_real *m = g->m, *a = s->a, *be = s->be;
    pu_real *pi = s->pi, *rho = s->rho;
    pu_block u = g->u, r = g->r, d = g->d;
    pu_int k = g->k, every = g->reorthogonal ? 0 : g->plan.every;
    pu_int strip = B->host ? 2048 : g->n; /* rows: on a host as many as stay in the nearest cache */
    int later = g->tape && !every && !g->reorthogonal; /* all directions stay there: x = x0 + sum a_i d_i afterwards */
    int stopped = 0;
    /* x = x0;  r = u - A x0;  rho = r'(m o r);  targets */
    pu_status status = pu__subtract(g, x0, r);
    pu_term start = pu__term(x0 ? *x0 : u);
    pu__combine(g, g->x, x0 ? 1 : 0, &start);
    pu__dots(g, m, u, u, s->s0);
    pu__dots(g, NULL, u, u, s->s1);
    pu__dots(g, NULL, r, r, s->c0);
    pu__dots(g, m, r, r, rho);
    pu__run_stage(g, PU_STAGE_START, 0);
    for (pu_int j = 0; g->known && j < k; j++) /* pu_cuda_solve has nothing on the host */
        g->known[j] = 0;
    for (g->done = 0; g->done < I && !stopped && !status; g->done++) {
        pu_int i = g->done;
        /* d = m o r + be d, without be at first */
        pu_term terms[] = {pu__term_m(r, m), pu__term_c(d, be)};
        d = later ? pu__slot(g, g->tape, i) : g->d;
        pu__combine(g, d, i > 0 ? 2 : 1, terms);
        if (g->reorthogonal)
            pu__combine1(g, pu__slot(g, g->tape, i), pu__term(r));
        if (every && i > 0 && i % every == 0) {
            pu__combine1(g, pu__saved_state(g, i / every - 1, s->use_beta), pu__term(d));
            pu__combine1(g, pu__saved_state(g, i / every - 1, 0), pu__term(r));
        }
        /* q = A d;  pi = d'q;  a = rho / pi */
        status = pu__product(g, d, pi);
        pu__run_stage(g, PU_STAGE_ALPHA, i);
        /* x += a d;  r -= a q;  rho' = r'(m o r) */
        rho += k;
        B->advance(B->user, g->n, k, a, m, d, g->q, later ? pu__none : g->x, r, rho);
        if (g->reorthogonal) {
            pu__project(g, r, i, m, NULL);
            pu__dots(g, m, r, r, rho);
        }
        /* be = rho' / rho */
        if (g->plan.tolerance_mode)
            pu__dots(g, NULL, r, r, s->s1);
        pu__run_stage(g, PU_STAGE_BETA, i);
        stopped = pu__all_stopped(g, i);
        pi += k;
        a += k;
        be = s->be + i * k;
    }
    /* x += sum_i a_i d_i, three steps at a time: a strip of rows takes all of them while it is in the nearest cache */
    for (pu_int from = 0; later && from < g->n; from += strip)
        for (pu_int i = 0; i < g->done; i += 3) {
            pu_int end = pu__min(i + 3, g->done);
            pu_term terms[4] = {pu__term(pu__below(g->x, from))};
            for (pu_int l = i; l < end; l++)
                terms[l - i + 1] = pu__term_c(pu__below(pu__slot(g, g->tape, l), from), s->a + l * k);
            B->combine(B->user, pu__min(strip, g->n - from), k, terms[0].x, (int)(end - i) + 1, terms);
        }
    return status;
}

/* xbar = u - A x, recomputed, and the inner products that reports and objectives need. */
PU__FN pu_status pu__residual(pu__run *g)
{
    pu_int k = g->k;
    pu_status status = pu__subtract(g, &g->x, g->xbar);
    pu__dots(g, NULL, g->u, g->u, g->dots);
    pu__dots(g, NULL, g->r, g->r, g->dots + k);
    pu__dots(g, NULL, g->xbar, g->xbar, g->dots + 2 * k);
    pu__dots(g, NULL, g->u, g->x, g->dots + 3 * k);
    pu__dots(g, NULL, g->x, g->xbar, g->dots + 4 * k);
    return status;
}

/* Step sizes, residuals and ends of all columns to the host. */
PU__FN void pu__read_history(pu__run *g)
{
    const pu_backend *B = g->B;
    const pu_state *s = &g->s;
    pu_int all = g->done * g->k;
    pu__receive(B, g->host_a, s->a, all);
    pu__receive(B, g->host_b, s->be, all);
    pu__receive(B, g->host_rho, s->rho, all + g->k);
    B->read(B->user, g->host_steps, s->steps, (size_t)g->k * sizeof(int32_t));
    B->read(B->user, g->host_stop, s->stop, (size_t)g->k * sizeof(int32_t));
}

/* The inner products of pu__residual to the host, as doubles. */
PU__FN void pu__read_dots(pu__run *g)
{
    double *to[PU__DOTS] = {g->uu, g->rr, g->tt, g->ux, g->xt};
    pu__receive(g->B, g->host_dots, g->dots, PU__DOTS * g->k);
    for (pu_int i = 0; i < PU__DOTS; i++)
        for (pu_int j = 0; j < g->k; j++)
            to[i][j] = (double)g->host_dots[i * g->k + j];
}

/* orth_j = max_i |r'd_i| / (|u| |d_i|) with r = u - A x: zero in exact arithmetic. Relative to |u|, not |r|: what
   counts is the error of the gradient, which has the size of x, while r may be rounding noise without any harm.
   Without a preconditioner |d_i|^2 = rho_i + be_{i-1}^2 |d_{i-1}|^2, because r_i is orthogonal to d_{i-1}, which holds
   locally in any arithmetic. */
PU__FN void pu__orthogonality(pu__run *g)
{
    const pu_backend *B = g->B;
    pu_int k = g->k, all = g->done * k, rows = B->host ? 2048 : g->n;
    double *dd = g->growth; /* |d_i|^2; free until the growth is known */
    double *rd = g->ritz;   /* r'd_i; free until spectra are known */
    for (pu_int i = 0; i < all; i++)
        rd[i] = 0;
    for (pu_int from = 0; from < g->n; from += rows) { /* a strip of rows at a time */
        for (pu_int i = 0; i < g->done; i++)
            B->dot(B->user, pu__min(rows, g->n - from), k, NULL, pu__below(g->xbar, from),
                   pu__below(pu__slot(g, g->tape, i), from), g->back + i * k);
        pu__receive(B, g->host_back, g->back, all);
        for (pu_int i = 0; i < all; i++)
            rd[i] += (double)g->host_back[i];
    }
    if (g->m) {
        for (pu_int i = 0; i < g->done; i++) {
            pu_block d = pu__slot(g, g->tape, i);
            pu__dots(g, NULL, d, d, g->back + i * k);
        }
        pu__receive(B, g->host_back, g->back, all);
    }
    for (pu_int j = 0; j < k; j++)
        g->orth[j] = 0;
    for (pu_int i = 0; i < g->done; i++)
        for (pu_int j = 0; j < k; j++) {
            double be = i > 0 && !g->m ? (double)g->host_b[(i - 1) * k + j] : 0, size;
            dd[j] = (double)(g->m ? g->host_back : g->host_rho)[i * k + j] + (be > 0 ? be * be * dd[j] : 0);
            size = sqrt(g->uu[j]) * sqrt(dd[j]);
            if (i < (pu_int)g->host_steps[j] && size > 0)
                g->orth[j] = pu__max(g->orth[j], fabs(rd[i * k + j]) / size);
        }
}

/* mbar += r o (dbar + rhobar r), what z = m o r and rho = r'z owe to m; c0 = 2 rhobar. Uses up qbar. */
PU__FN void pu__through_m(pu__run *g)
{
    pu__combine2(g, g->qbar, pu__term(g->dbar), pu__term_full(g->r, PU_R(0.5), g->s.c0, NULL));
    g->B->row_dot(g->B->user, g->n, g->k, NULL, g->s.scale, g->qbar, g->r, 0, NULL, g->mbar);
}

/* One step of the reverse pass: its number, the directions it needs, what it has decided to do. */
typedef struct {
    pu_int i;              /* undoes step i + 1 (steps count from 0) */
    pu_block d, dprev;     /* d_i, d_{i-1} */
    pu_block ri;           /* r_i where a saved state has it, else at = NULL */
    const pu_real *a, *be; /* alpha_{i+1}, beta_{i+1} of every column */
    int full;              /* alpha and beta depend on theta */
    int residuals;         /* r_i is needed: for that, or for m's gradient */
} pu__reverse_step_data;

/* Any reverse step, one update at a time. Leaves qbar, and dbar but for A qbar. */
PU__FN void pu__reverse_long(pu__run *g, const pu__reverse_step_data *step)
{
    const pu_state *s = &g->s;
    const pu_real *m = g->m;
    pu_int i = step->i;
    /* beb = dbar'd;  rhobar += beb/rho;  rhop = -beb be/rho */
    if (step->full && s->use_beta)
        pu__dots(g, NULL, g->dbar, step->d, s->s0);
    pu__run_stage(g, PU_STAGE_REV1, i);
    if (step->full)
        pu__dots(g, NULL, g->xbar, step->d, s->s0);
    /* rbar += m o (dbar + 2 rhobar r) */
    pu__combine3(g, g->rbar, pu__term(g->rbar), pu__term_m(g->dbar, m), pu__term_full(g->r, 1, s->c0, m));
    if (g->mbar)
        pu__through_m(g);
    if (g->reorthogonal && i + 1 < g->done)
        pu__project(g, g->rbar, i + 1, NULL, m);
    if (step->residuals) {
        /* r_i = 1/m o (d_i - be_i d_{i-1}), or from the saved state */
        pu__run_stage(g, PU_STAGE_RPREV, i);
        if (step->ri.at)
            pu__combine1(g, g->rprev, pu__term(step->ri));
        else
            pu__combine3(g, g->rprev, pu__term_full(step->d, 1, s->c0, g->minv), pu__term_full(step->dprev, 1, s->c1, g->minv),
                         pu__term_c(g->r, s->c2));
    }
    if (step->full) {
        /* q = (r_i - r_{i+1}) / a */
        pu__run_stage(g, PU_STAGE_Q, i);
        pu__combine2(g, g->q, pu__term_c(g->rprev, s->c1), pu__term_full(g->r, -1, s->c1, NULL));
        pu__dots(g, NULL, g->rbar, g->q, s->s1);
    }
    /* ab = xbar'd - rbar'q;  rhop += ab/pi;  pib = -ab a/pi;  qbar = -a rbar + pib d */
    pu__run_stage(g, PU_STAGE_REV2, i);
    pu__combine2(g, g->qbar, pu__term_full(g->rbar, -1, step->a, NULL), pu__term_c(step->d, s->pib));
    /* dbar = be dbar + a xbar + pib q */
    pu__combine3(g, g->dbar, pu__term_c(g->dbar, step->be), pu__term_c(g->xbar, step->a), pu__term_c(g->q, s->pib));
}

/* d_i once more, into g->d, from the residuals r_0 .. r_i on the tape, to the bit as the forward pass had it. With
   re-orthogonalisation I^2/2 updates hardly count, and one tape does for both. Backwards it would be unstable. */
PU__FN pu_block pu__directions_again(const pu__run *g, pu_int i)
{
    for (pu_int l = 0; l <= i; l++) {
        pu_term terms[] = {pu__term_m(pu__slot(g, g->tape, l), g->m), pu__term_c(g->d, g->s.be + pu__most(l - 1, 0) * g->k)};
        pu__combine(g, g->d, l > 0 ? 2 : 1, terms);
    }
    return g->d;
}

/* Step i of the reverse pass: cotangents of r_{i+1}, d_{i+1} become those of r_i, d_i. The tape begins with step
   `first`. grad += scale_j d/dtheta of the terms p'A q found on the way. */
PU__FN pu_status pu__reverse_step(pu__run *g, pu_int i, pu_int first, pu_real *grad)
{
    const pu_state *s = &g->s;
    const pu_backend *B = g->B;
    pu_int at = i - first;
    int full = !s->detach && !s->fixed_step, residuals = full || g->mbar;
    int constant = !residuals && !g->reorthogonal;
    int fused = full && !g->reorthogonal && B->unwind_sums && B->unwind;
    pu__reverse_step_data step = {i, pu__slot(g, g->tape, at), pu__slot(g, g->tape, at > 0 ? at - 1 : 0),
                                  /* d_{i-1} belongs to the segment before, but the saved state has r_i */
                                  at == 0 && first > 0 ? pu__saved_state(g, first / g->plan.every - 1, 0) : pu__none,
                                  s->a + i * g->k, s->be + i * g->k, full, residuals};
    pu_status status = PU_OK;
    if (g->reorthogonal) {
        step.d = pu__directions_again(g, i);
        step.ri = pu__slot(g, g->tape, i);
    }
    if (constant) {
        /* rbar += m o dbar;  dbar = be dbar + a xbar, and qbar = -a rbar is left as c0 o rbar */
        pu__run_stage(g, PU_STAGE_REV2, i);
        B->retreat(B->user, g->n, g->k, step.a, step.be, g->m, g->xbar, g->rbar, g->dbar);
    } else if (fused) {
        /* what pu__reverse_long does, in two sweeps of the backend, with rbar'q as a sum over the terms of rbar */
        pu_unwinding u = {
            step.d,  step.dprev, step.ri, /* d, before, kept */
            g->xbar, g->r,       g->rbar,  g->dbar,
            g->qbar, step.a,     step.be,  i > 0 ? step.be - g->k : NULL, /* a, be, be_before */
            s->c0,   s->pib,                                              /* twice_rhobar, pib */
            g->m,    g->minv,    s->scale, g->mbar                        /* m, minv, weight, mbar */
        };
        B->unwind_sums(B->user, g->n, g->k, &u, s->s0, s->s1, s->c1);
        pu__run_stage(g, PU_STAGE_UNWIND, i);
        B->unwind(B->user, g->n, g->k, &u);
    } else {
        pu__reverse_long(g, &step);
    }
    /* dbar += A qbar. At the last step, with constant alpha, rbar and hence qbar are still zero: no product. */
    if (full || i + 1 < g->done)
        status = pu__product_back(g, constant ? s->c0 : NULL, constant ? g->rbar : g->qbar, step.d, g->dbar, grad);
    if (g->reorthogonal)
        pu__project(g, g->dbar, i, g->m, NULL);
    if (residuals && !fused) {
        pu_block swap = g->r;
        g->r = g->rprev;
        g->rprev = swap;
    }
    return status;
}

/* Steps first .. last of the tape again, from the saved state before them; alpha and beta are known. */
PU__FN pu_status pu__replay(pu__run *g, const pu_block *x0, pu_int first, pu_int last)
{
    const pu_state *s = &g->s;
    const pu_real *m = g->m;
    pu_block r = g->qbar; /* free here, and so is q */
    pu_status status = PU_OK;
    if (first == 0) {
        status = pu__subtract(g, x0, r);
        pu__combine1(g, pu__slot(g, g->tape, 0), pu__term_m(r, m));
    } else {
        pu_int c = first / g->plan.every - 1;
        pu__combine1(g, r, pu__term(pu__saved_state(g, c, 0)));
        pu__combine1(g, pu__slot(g, g->tape, 0), pu__term(pu__saved_state(g, c, s->use_beta)));
    }
    for (pu_int i = first; i < last && !status; i++) {
        pu_block d = pu__slot(g, g->tape, i - first);
        /* r -= a A d;  d = m o r + be d */
        status = pu__product(g, d, NULL);
        pu__combine2(g, r, pu__term(r), pu__term_full(g->q, -1, s->a + i * g->k, NULL));
        pu__combine2(g, pu__slot(g, g->tape, i + 1 - first), pu__term_m(r, m), pu__term_c(d, s->be + i * g->k));
    }
    return status;
}

/* Reverse pass. In: xbar = u - A x (from pu__residual), s.scale = weights w_j. Out: rbar, the cotangent of u through
   the solver, to be multiplied by s.scale; grad += scale times the terms. The direct part (w/2 x x', -w x) is the
   caller's. Cotangents are linear in xbar = -w (u - A x), which can be tiny: its norm is taken out and kept in
   s.scale. */
PU__FN pu_status pu__reverse(pu__run *g, const pu_block *x0, pu_real *grad)
{
    const pu_state *s = &g->s;
    const pu_real *m = g->m;
    pu_int every = g->reorthogonal ? 0 : g->plan.every, last = g->done - 1;
    pu__dots(g, NULL, g->xbar, g->xbar, s->s0);
    pu__run_stage(g, PU_STAGE_XBAR, 0);
    pu__combine1(g, g->xbar, pu__term_c(g->xbar, s->c0));
    pu__combine(g, g->rbar, 0, NULL);
    pu__combine(g, g->dbar, 0, NULL);
    if (g->reorthogonal)
        pu__project(g, g->xbar, last, m, NULL);
    for (pu_int i = last; i >= 0; i--) {
        pu_int first = every ? i / every * every : 0; /* step whose direction the tape begins with */
        /* with saved states each segment of the tape is made again when it is due */
        if (every && (i == last || (i + 1) % every == 0) && pu__replay(g, x0, first, i))
            return PU_E_OPERATOR;
        if (pu__reverse_step(g, i, first, grad))
            return PU_E_OPERATOR;
    }
    /* rbar += m o (dbar + 2 rhobar r_0) */
    pu__run_stage(g, PU_STAGE_END, 0);
    if (g->mbar)
        pu__through_m(g);
    pu__combine3(g, g->rbar, pu__term(g->rbar), pu__term_m(g->dbar, m), pu__term_full(g->r, 1, s->c0, m));
    if (!x0 || !grad)
        return PU_OK;
    /* r_0 = u - A x0 */
    pu__combine1(g, g->qbar, pu__term_scaled(g->rbar, -1));
    return pu__product_back(g, NULL, g->qbar, *x0, pu__none, grad);
}

/* ------------------------------------------------------------------------------------------------
   >>lanczos   what the CG coefficients know about the spectrum of A (of M^-1 A for PCG)
   ------------------------------------------------------------------------------------------------ */

/* Ritz values of column j; the squares of the first components of their vectors are `rows` further on. */
PU__FN double *pu__ritz(const pu__run *g, pu_int j) { return g->ritz + 2 * g->rows * j; }

/* Diagonalises the Lanczos matrix of column j, which took steps, into pu__ritz(g, j), once for all who ask, and with it
   those of the columns after it, which will be asked for next. Needs host_a, host_b, host_steps. Returns 1 without
   convergence, else 0. */
PU__FN int pu__diagonalise(pu__run *g, pu_int j)
{
    pu_int lanes = g->k - j > 4 ? (pu_int)PU__ABREAST : 4;
    pu_int some = pu__min(lanes, g->k - j); /* lanes with a column */
    pu_int rows = g->rows, most = 0;
    double *d = g->lanczos, *e = d + rows * PU__ABREAST, *z = e + rows * PU__ABREAST;
    const int32_t *steps = g->host_steps + j;
    double failed[PU__ABREAST];
    if (g->known[j])
        return 0;
    for (pu_int l = 0; l < some; l++)
        most = pu__most(most, (pu_int)steps[l]);
    /* T_ii = 1/a_i + be_{i-1}/a_{i-1}, T_{i,i+1} = sqrt(be_i)/a_i; rows from `end` on are those of the identity */
    for (pu_int l = 0; l < lanes; l++) {
        pu_int end = l < some ? (pu_int)steps[l] : 0;
        double before = 0;
        for (pu_int i = 0; i < most; i++) {
            pu_int at = i * g->k + j + l;
            double a = i < end ? (double)g->host_a[at] : 1;
            double be = i + 1 < end ? (double)g->host_b[at] : 0;
            d[i * lanes + l] = 1 / a + before;
            e[i * lanes + l] = sqrt(be) / a;
            before = be / a;
        }
    }
    pu__tridiagonal(most, lanes, d, e, z, failed);
    for (pu_int l = 0; l < some; l++) {
        double *ritz = pu__ritz(g, j + l);
        for (pu_int i = 0; i < (pu_int)steps[l]; i++) {
            ritz[i] = d[i * lanes + l];
            ritz[rows + i] = z[i * lanes + l] * z[i * lanes + l];
        }
        g->known[j + l] = failed[l] == 0;
    }
    return failed[0] != 0;
}

/* Ritz values that the growth is followed on; errors that are followed at once; both together. */
enum { PU__LARGEST = 16, PU__ENTRIES = 4, PU__FOLLOWED = PU__LARGEST * PU__ENTRIES };

/* Follows errors of size one that enter dbar at steps from, from - 1, .. (PU__ENTRIES of them) through the recursion
   of pu__growth for column j; top: the largest |dbar| of each. Several at once, because the recursion of one is a
   chain. */
PU__FN void pu__follow_errors(const pu__run *g, pu_int j, pu_int from, const pu_real *lambda, pu_real *top)
{
    pu_real rbar[PU__FOLLOWED] = {0}, dbar[PU__FOLLOWED] = {0};
    for (pu_int i = from; i >= 0; i--) {
        pu_real a = g->host_a[i * g->k + j], be = g->host_b[i * g->k + j];
        pu_int entry = (from - i) * PU__LARGEST;
        for (pu_int l = entry; l < entry + PU__LARGEST && l < PU__FOLLOWED; l++) {
            rbar[l] = 0;
            dbar[l] = 1;
        }
        for (pu_int l = 0; l < PU__FOLLOWED; l++) {
            pu_real r = rbar[l] + dbar[l], next = be * dbar[l] - a * lambda[l] * r;
            pu_real size = next > 0 ? next : -next;
            rbar[l] = r;
            dbar[l] = next;
            top[l] = size > top[l] ? size : top[l]; /* in this order: a NaN comes after an infinity, which stays */
        }
    }
}

/* How much the shortcut's reverse recursion can enlarge an error, seen on eigenvalue lambda of M^-1 A, where it is
     rbar += dbar;  dbar = be dbar - a lambda rbar
   with an error of size one entering dbar before any step: the largest dbar afterwards, over the 16 largest Ritz values. It
   comes from the coefficients alone, so luck with roundings cannot hide an instability from it. Of column j. */
PU__FN double pu__growth(pu__run *g, pu_int j)
{
    pu_real largest[PU__LARGEST] = {0}, lambda[PU__FOLLOWED], top[PU__FOLLOWED];
    pu_int steps = (pu_int)g->host_steps[j];
    double growth = 1;
    if (steps == 0)
        return 0;
    if (pu__diagonalise(g, j))
        return DBL_MAX; /* no spectrum, no trust */
    /* the largest Ritz values in descending order */
    for (pu_int i = 0; i < steps; i++) {
        pu_real value = (pu_real)pu__ritz(g, j)[i];
        for (pu_int l = 0; l < PU__LARGEST; l++) { /* into its place; what was there moves on */
            pu_real smaller = value < largest[l] ? value : largest[l];
            largest[l] = value > largest[l] ? value : largest[l];
            value = smaller;
        }
    }
    /* once for each of the errors; the largest again where there are fewer */
    for (pu_int l = 0; l < PU__FOLLOWED; l++) {
        lambda[l] = largest[l % PU__LARGEST < steps ? l % PU__LARGEST : 0];
        top[l] = 1;
    }
    for (pu_int from = steps - 1; from >= 0; from -= PU__ENTRIES)
        pu__follow_errors(g, j, from, lambda, top);
    for (pu_int l = 0; l < PU__FOLLOWED; l++)
        growth = pu__max(growth, (double)top[l]);
    return pu__finite_double(growth) ? growth : DBL_MAX;
}

/* log det (M^-1 A) as seen by a probe, and the extreme Ritz values. */
typedef struct {
    double value; /* NaN where the Lanczos matrix is not positive definite */
    double smallest, largest;
} pu__quadrature_result;

/* log det (M^-1 A) seen by probe j: n log s + rho_0 sum_i w_i log(lambda_i / s) / lambda_i, any s > 0. */
PU__FN pu__quadrature_result pu__quadrature(pu__run *g, pu_int j, double s)
{
    const double *lambda = pu__ritz(g, j), *weight = lambda + g->rows;
    pu__quadrature_result result = {(double)NAN, DBL_MAX, 0};
    pu_int steps = (pu_int)g->host_steps[j];
    double sum = 0;
    if (steps > 0 && pu__diagonalise(g, j))
        return result;
    for (pu_int i = 0; i < steps; i++) {
        if (!(lambda[i] > 0))
            return result;
        if (lambda[i] < result.smallest)
            result.smallest = lambda[i];
        result.largest = pu__max(result.largest, lambda[i]);
        sum += weight[i] * log(lambda[i] / s) / lambda[i];
    }
    result.value = (double)g->n * log(s) + (double)g->host_rho[j] * sum;
    return result;
}

/* What the last of these steps has changed in that. log(lambda/s)/lambda is the integral over t > 0 of 1/(t (t + lambda)) -
   s/(t (t + s) lambda), and step i adds to e_1'(T + t)^-1 e_1 a positive term, which at t = 0 is a_i rho_{i-1} / rho_0 and from
   there falls by
     F(t) = (q_i/p_i) prod_{l < i} (q_l/p_l)^2,   q = 1/a,   p_1 = q_1 + t,   p_{l+1} = q_{l+1} + t + be_l q_l (p_l - q_l)/p_l.
   So it is a_i rho_{i-1} times the integral of F(s exp(u)) - 1/(1 + exp(u)) over all u, by the trapezoidal rule: 32 points
   two apart have a relative error below 0.004, which is plenty, and no eigenproblem is solved. */
PU__FN double pu__last_change(const pu__run *g, pu_int j, double s)
{
    pu_int steps = (pu_int)g->host_steps[j], last = (steps - 1) * g->k + j;
    enum { POINTS = 32 };
    double t[POINTS], F[POINTS];
    double beyond[POINTS];                   /* p - q */
    double t_l = s * 1.2664165549094176e-14; /* exp(-32) */
    double sum = 0;
    if (steps == 0)
        return 0;
    for (pu_int l = 0; l < POINTS; l++) {
        t[l] = t_l;
        beyond[l] = t_l;
        F[l] = 1;
        t_l *= 7.38905609893065; /* exp(2) */
    }
    for (pu_int i = 0; i < steps; i++) {
        double q = 1 / (double)g->host_a[i * g->k + j], e = (double)g->host_b[i * g->k + j] * q;
        for (pu_int l = 0; l < POINTS; l++) {
            double inverse = 1 / (q + beyond[l]), ratio = q * inverse;
            F[l] *= i + 1 == steps ? ratio : ratio * ratio;
            beyond[l] = t[l] + e * (beyond[l] * inverse);
        }
    }
    for (pu_int l = 0; l < POINTS; l++)
        sum += F[l] - s / (s + t[l]);
    return (double)g->host_rho[last] * (double)g->host_a[last] * 2 * sum;
}

/* Largest eigenvalue of A, from below by a few percent: Lanczos started at a random vector. Uses column 0 of g. */
PU__FN pu_status pu__lambda_max(pu__run *g, double *lambda)
{
    const pu_backend *B = g->B;
    pu__run probe = *g; /* plain CG in the same memory; g itself stays as it is */
    pu_status status;
    pu_int taken;
    memset(&probe.plan, 0, sizeof probe.plan); /* no tolerance, a full tape */
    pu__run_set(&probe, PU_CG, 1);
    probe.m = NULL;
    probe.reorthogonal = 0;
    probe.tape = NULL;
    g->host_steps[0] = 0; /* the number of the datum whose normals these are */
    B->write(B->user, g->s.steps, g->host_steps, sizeof(uint32_t));
    B->normals(B->user, g->n, NULL, 1, g->u, 0, (const uint32_t *)g->s.steps, 0, 0, PU__STREAM_TEST);
    status = pu__forward(&probe, NULL, pu__min(g->n, PU__LANCZOS));
    g->products = probe.products;
    *lambda = 0;
    if (status)
        return status;
    pu__read_history(&probe);
    taken = (pu_int)g->host_steps[0];
    if (taken > 0 && !pu__diagonalise(&probe, 0))
        for (pu_int i = 0; i < taken; i++)
            *lambda = pu__max(*lambda, pu__ritz(g, 0)[i]);
    return PU_OK;
}

/* ------------------------------------------------------------------------------------------------
   >>solve   a block of columns with its outcome; pu_solve

   A block is solved forward (pu__run_block), its reverse pass may follow (pu__reverse), and its outcome is known at the
   end (pu__run_outcome): on a device nobody waits for it before everything is enqueued. Statuses below zero, breakdowns and
   numbers that are not finite are fatal: then there is no result. All other statuses come with one.

   pu_solve stages its results. It writes to the caller's arrays once, at the end, and not at all after a fatal status.
   ------------------------------------------------------------------------------------------------ */

/* Failures that leave no usable result. */
PU__FN int pu__fatal(pu_status status) { return status < 0 || status == PU_BREAKDOWN || status == PU_NONFINITE; }

/* Rank of a status: fine, a solver that ended early, digits lost, no result. */
PU__FN int pu__rank(pu_status status) { return (status != PU_OK) + (status == PU_INEXACT) + 2 * pu__fatal(status); }

/* Is status worse than what there was? Of equal rank the first one counts. */
PU__FN int pu__is_worse(pu_status status, pu_status before) { return pu__rank(status) > pu__rank(before); }

/* How column j of the block just solved ended. */
PU__FN pu_status pu__column_status(const pu__run *g, pu_int j)
{
    int32_t stop = g->host_stop[j];
    int all_steps = stop == PU_STOP_STEPS;
    const pu_real *rho = g->host_rho + j;
    if (stop == PU_STOP_BREAKDOWN)
        return PU_BREAKDOWN;
    /* one of these dots is not finite where x, r or the residual is not */
    if (stop == PU_STOP_NONFINITE || !pu__finite_double(g->uu[j] + g->rr[j] + g->tt[j] + g->ux[j] + g->xt[j]))
        return PU_NONFINITE;
    /* a step above 2 / lambda_max makes the residual grow */
    if (g->plan.solver == PU_GD && all_steps && rho[(pu_int)g->host_steps[j] * g->k] > *rho)
        return PU_DIVERGED;
    if (g->plan.tolerance_mode && all_steps)
        return PU_CAP;
    /* rounding level is what `converge` asks for; any other tolerance was out of reach */
    if (g->plan.tolerance_mode && !g->plan.converge && stop == PU_STOP_ROUNDING)
        return PU_STAGNATED;
    return PU_OK;
}

/* Outcome of the columns just solved: the worst of them, recorded. first: number of column 0 in the caller's count. */
PU__FN pu_status pu__run_status(pu__run *g, pu_int datum, pu_int first, pu_report *report)
{
    pu__read_history(g);
    pu__read_dots(g);
    for (pu_int j = 0; j < g->k; j++) {
        pu_status status = pu__column_status(g, j);
        if (!pu__is_worse(status, report->status))
            continue;
        /* columns of several data may be side by side, `each` of every datum */
        (void)pu__fail(report, status, "solver", datum < 0 ? datum : datum + j / g->each, (pu_int)g->host_steps[j]);
        report->where.column = first + j % g->each;
    }
    return report->status;
}

/* A reverse pass is trusted where the measures say so. The shortcut: stable runs stay within 20 eps and a growth of 60,
   and their errors within 80 eps; beyond a growth of 300 errors follow it. The full pass corrects itself until
   orthogonality is lost: of 58,000 random runs none below this growth was off, and beyond 1/eps errors have no bound
   (docs/design.md has the measurements). */
#define PU__SAFE_ORTHOGONALITY (16 * (double)PU__EPS)
#define PU__SAFE_GROWTH        100.0
#define PU__FULL_GROWTH        (1 / sqrt((double)PU__EPS))

/* May the reverse pass of the block just solved be what the plan says? */
PU__FN int pu__reverse_is_safe(pu__run *g)
{
    double limit = g->s.detach ? PU__SAFE_GROWTH : PU__FULL_GROWTH;
    int safe = 1;
    if (g->plan.adjoint == PU_ADJOINT_AUTO)
        pu__orthogonality(g);
    for (pu_int j = 0; j < g->k; j++) {
        g->growth[j] = pu__growth(g, j);
        safe = safe && g->orth[j] <= PU__SAFE_ORTHOGONALITY && g->growth[j] <= limit;
    }
    return safe;
}

/* Is the reverse pass one that can be unstable? */
PU__FN int pu__is_watched(const pu__run *g, int network)
{
    return network && g->plan.adjoint != PU_ADJOINT_REORTHOGONAL && pu__has_momentum(g->plan.solver);
}

/* Is the outcome of a block looked at only after everything is enqueued? So it is where the host would have to wait
   for a look at the scalars, and no choice depends on them. */
PU__FN int pu__is_late(const pu__run *g, int network) { return !g->B->host && !pu__is_watched(g, network); }

/* A X = U and xbar = u - A x for a block of columns; the system's last product is that with x. network: a reverse pass
   will follow. Where that is not safe the solve is repeated with re-orthogonalisation, or, where the tape has no room for
   it, the status says so. */
PU__FN pu_status pu__run_block(pu__run *g, const pu_block *x0, int network, pu_int datum, pu_int first,
                               pu_report *report)
{
    pu_adjoint adjoint = network ? g->plan.adjoint : PU_ADJOINT_FULL;
    pu_status outcome = PU_OK;
    g->reorthogonal = adjoint == PU_ADJOINT_REORTHOGONAL;
    g->s.detach = adjoint != PU_ADJOINT_FULL;
    for (pu_int j = 0; j < g->k; j++) {
        g->orth[j] = -1;
        g->growth[j] = -1;
    }
    for (;;) {
        (void)pu__refuse(report, PU_OK, ""); /* a repeated solve starts with a clean report */
        if (pu__forward(g, x0, g->plan.I) || pu__residual(g))
            return pu__operator_failed(report, "A.apply", datum);
        if (!pu__is_late(g, network))
            outcome = pu__run_status(g, datum, first, report);
        if (pu__fatal(outcome) || !pu__is_watched(g, network) || g->reorthogonal || pu__reverse_is_safe(g))
            return outcome;
        if (g->plan.no_repeat)
            return pu__fail(report, PU_INEXACT, "options.solve.adjoint is unstable here (no_repeat)", datum, -1);
        if (pu__tape_slots(&g->plan) < g->plan.I)
            return pu__fail(report, PU_INEXACT, "options.solve.adjoint is unstable here (set tape_every = 0)", datum, -1);
        g->reorthogonal = 1;
        g->s.detach = 1;
    }
}

/* to_j = factor weight_j, a scalar of every column where the backend works; weight NULL: ones. */
PU__FN void pu__set_scalars(pu__run *g, pu_real *to, const pu_real *weight, pu_real factor)
{
    for (pu_int j = 0; j < g->k; j++)
        g->host_dots[j] = weight ? factor * weight[j] : factor;
    pu__send(g->B, to, g->host_dots, g->k);
}

/* The outcome of a block, where it was not known yet. */
PU__FN pu_status pu__run_outcome(pu__run *g, pu_status outcome, int network, pu_int datum, pu_int first,
                                 pu_report *report)
{
    return pu__is_late(g, network) && !pu__fatal(outcome) ? pu__run_status(g, datum, first, report) : outcome;
}

/* What the report tells of column j of the block just solved. */
PU__FN void pu__column_record(pu__run *g, pu_int j, pu_column *c)
{
    c->steps = (pu_int)g->host_steps[j];
    c->stop = (pu_stop)g->host_stop[j];
    c->adjoint = g->s.detach ? PU_ADJOINT_SHORTCUT : PU_ADJOINT_FULL;
    if (g->reorthogonal)
        c->adjoint = PU_ADJOINT_REORTHOGONAL;
    c->rhs = sqrt(g->uu[j]);
    c->residual = sqrt(g->rr[j]);
    c->true_residual = sqrt(g->tt[j]);
    c->orthogonality = g->orth[j];
    c->growth = g->growth[j];
}

/* Adds one column to the report's counts. repeated: a re-orthogonalised column is one that was solved twice. */
PU__FN void pu__report_column(pu_report *report, const pu_column *c, pu_int datum, pu_int column, int repeated)
{
    double relative = c->rhs > 0 ? c->true_residual / c->rhs : c->true_residual;
    if (!pu__finite_double(relative + c->rhs + c->residual))
        relative = (double)INFINITY; /* for pu__check_report to find */
    report->stops[c->stop]++;
    if (repeated && c->adjoint == PU_ADJOINT_REORTHOGONAL)
        report->reorthogonalised++;
    report->worst_orthogonality = pu__max(report->worst_orthogonality, c->orthogonality);
    report->worst_growth = pu__max(report->worst_growth, c->growth);
    if (relative > report->worst_residual || report->worst_column < 0) {
        report->worst_residual = relative;
        report->worst_datum = datum;
        report->worst_column = column;
    }
}

/* Refuses results whose n numbers at x are not all finite. */
PU__FN pu_status pu__check_result(const pu_real *x, pu_int n, const char *name, pu_int datum, pu_report *report)
{
    pu_int bad = pu__find_nonfinite(n, x);
    return bad >= 0 ? pu__fail(report, PU_NONFINITE, name, datum, bad) : PU_OK;
}

/* Refuses a report with a value that is not finite. */
PU__FN pu_status pu__check_report(pu_report *report)
{
    double values[] = {report->c,       report->q,        report->network,        report->nll,
                       report->nll_se,  report->nll_95,   report->nll_gap,        report->solver_error,
                       report->ritz_max, report->ritz_min, report->worst_residual, report->statistical_error};
    static const char *const names[] = {"report.c",        "report.q",        "report.network",        "report.nll",
                                        "report.nll_se",   "report.nll_95",   "report.nll_gap",        "report.solver_error",
                                        "report.ritz_max", "report.ritz_min", "report.worst_residual", "report.statistical_error"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (!pu__finite_double(values[i]))
            return pu__refuse(report, PU_NONFINITE, names[i]);
    return PU_OK;
}

/* M^-1 into g->m (and M into g->minv), that of datum number `which` of those side by side, from the caller's diagonal
   m, or from diag(A) in `diagonal` where m is NULL. */
PU__FN pu_status pu__set_m(pu__run *g, pu_int which, const pu_real *m, const pu_real *diagonal, pu_int datum,
                           pu_report *report)
{
    pu_int n = g->n;
    int far = pu__is_far(g->B);
    pu_real *to = g->host_m + 2 * which * n, *inverse = far ? to + n : g->minv;
    if (pu__check_array(n, m ? m : diagonal, 1, m ? "options.solve.precond" : "diag(A)", datum, report))
        return report->status;
    for (pu_int i = 0; i < n; i++) {
        to[i] = m ? m[i] : 1 / diagonal[i];
        inverse[i] = 1 / to[i];
    }
    if (far) {
        pu__send(g->B, g->m + which * n, to, n);
        pu__send(g->B, g->minv + which * n, inverse, n);
    }
    return PU_OK;
}

/* GD step of every column: the caller's, or 1 / lambda_max from below, kept 10 % on the safe side. */
PU__FN pu_status pu__set_step(pu__run *g, const pu_real *step, pu_int datum, pu_report *report)
{
    double lambda = 0;
    if (step && pu__check_array(1, step, 1, "options.solve.step", datum, report))
        return report->status;
    if (!step && pu__lambda_max(g, &lambda))
        return pu__operator_failed(report, "A.apply", datum);
    if (!step && !(lambda > 0 && pu__finite_double(lambda)))
        return pu__fail(report, PU_BREAKDOWN, "solver", datum, 0);
    pu__set_scalars(g, g->s.step, NULL, step ? *step : (pu_real)(1 / (1.1 * lambda)));
    return PU_OK;
}

/* ---- an operator of the caller's as the system of a solve ---- */

/* A as it was given, where the backend works. */
typedef struct {
    pu_side side; /* the operator where the backend works */
    pu_real *work;
} pu__operator;

/* Y = A X or Y += A X */
PU__FN pu_status pu__operator_product(PU__PRODUCT_ARGS)
{
    const pu__operator *A = (const pu__operator *)self;
    const pu_op *op = &A->side.op;
    return dots ? A->side.apply_plus(op, NULL, k, X, Y, add, dots) : op->apply(op, k, X, Y, add, A->work);
}

/* Y += A P and the gradient of p'A q; an autoregression does both in one sweep. */
PU__FN pu_status pu__operator_pairs(void *self, const pu__pairs *pairs, pu_real *grad)
{
    const pu__operator *A = (const pu__operator *)self;
    const pu_op *op = &A->side.op;
    if (op->form == PU_FORM_AR && grad)
        return pu__ar_grad_pairs(op, NULL, pairs, grad, NULL);
    if (pairs->Y.at && op->apply(op, pairs->k, pairs->P, pairs->Y, 1, A->work))
        return PU_E_OPERATOR;
    return grad ? op->grad(op, pairs->k, pairs->P, pairs->Q, pairs->weight, grad, A->work) : PU_OK;
}

/* The system that the solver sees. */
PU__FN pu__system pu__operator_system(pu__operator *A)
{
    const pu_side *side = &A->side;
    /* only an autoregression has a product that sums up on the way, and pairs that take coefficients */
    pu__system system = {A,
                         side->op.rows,
                         side->apply_plus != NULL,
                         side->op.form == PU_FORM_AR,
                         pu__operator_product,
                         pu__operator_pairs};
    return system;
}

/* ---- the public solve ---- */

/* The operator and the number of columns of a solve. (Constructors make params negative where it would overflow.) */
PU__FN pu_status pu__solve_check(const pu_op *A, pu_int k, pu_report *report)
{
    if (!A)
        return pu__refuse(report, PU_E_NULL, "A");
    if (A->rows <= 0)
        return pu__refuse(report, PU_E_ARGUMENT, "A.rows (at least 1; a constructor that was refused gives 0)");
    if (A->rows != A->cols)
        return pu__refuse(report, PU_E_SIZE, "A.cols (must be A.rows)");
    if (!A->apply)
        return pu__refuse(report, PU_E_NULL, "A.apply");
    if (A->params < 0)
        return pu__refuse(report, PU_E_OVERFLOW, "A.params");
    if (A->work < 0 || k <= 0)
        return pu__refuse(report, PU_E_ARGUMENT, A->work < 0 ? "A.work (0 or more)" : "k (at least 1)");
    return PU_OK;
}

/* The caller's options, or all defaults. */
PU__FN const pu_solve_options *pu__solve_defaults(const pu_solve_options *options)
{
    static const pu_solve_options zero = PU__ZERO;
    return options ? options : &zero;
}

/* A solve from options to results. Results are staged: nothing reaches the caller's arrays before the end. */
typedef struct {
    const pu_op *given; /* A as the caller wrote it, */
    pu_op resolved;     /* as its form says, */
    pu__operator A;     /* and where the backend works */
    pu__system system;
    const pu_backend *B;
    const pu_solve_options *o;
    pu_solve_arrays io;
    int gradients;
    pu__plan plan;
    pu__run run;
    void *side_memory;
    size_t side_bytes;
    pu_block x0;                /* on the device */
    pu_real *sums, *far_sums;   /* what the side's grad adds up: on the host, on the device */
    pu_block near_x, near_rbar; /* results on the host */
    pu_real *near_scale, *grad, *test, *work;
} pu__solve_job;

/* Memory of a solve; w->A.side and side_bytes are set. Without a device the results are staged where the solver leaves
   them. */
PU__FN void pu__solve_layout(void *self, pu__arena *arena)
{
    pu__solve_job *w = (pu__solve_job *)self;
    const pu_op *op = &w->A.side.op;
    int far = pu__is_far(w->B);
    pu_int n = w->given->rows, k = w->io.k;
    arena->B = w->B;
    w->system = pu__operator_system(&w->A);
    pu__run_layout(&w->run, arena, &w->system, w->B, &w->plan, k, 1, w->gradients);
    w->A.work = pu__far_reals(arena, op->work, k);
    w->side_memory = pu__take_from(arena, 1, (pu_int)w->side_bytes, 1, 1);
    w->test = pu__reals(arena, n, 4);
    w->work = far ? pu__reals(arena, w->resolved.work, 1) : w->A.work;
    w->near_x = far ? pu__cols(arena, n, k) : w->run.x;
    if (far && w->io.x0)
        w->x0 = pu__far_cols(arena, n, k);
    if (!w->gradients)
        return;
    w->grad = pu__reals(arena, w->given->params, 1);
    w->far_sums = far ? pu__far_reals(arena, op->params, 1) : w->grad;
    w->sums = far ? pu__reals(arena, op->params, 1) : NULL;
    w->near_rbar = far ? pu__cols(arena, n, k) : w->run.rbar;
    w->near_scale = far ? pu__reals(arena, k, 1) : w->run.s.scale;
}

/* Arrays of a solve: pointers, distances, numbers. */
PU__FN pu_status pu__solve_check_arrays(pu__solve_job *w, pu_report *report)
{
    const pu_solve_arrays *io = &w->io;
    pu_int n = w->given->rows;
    pu_int most = PTRDIFF_MAX / (pu_int)sizeof(pu_real) / io->k; /* beyond it addresses overflow */
    pu_int ldu = io->ldu, ldx = io->ldx;
    if (!io->U || !io->X)
        return pu__refuse(report, PU_E_NULL, io->U ? "X" : "U");
    if (ldu < n || ldx < n)
        return pu__refuse(report, PU_E_SIZE, ldu < n ? "ldu (0 = n, or at least n)" : "ldx (0 = n, or at least n)");
    if (ldu > most || ldx > most)
        return pu__refuse(report, PU_E_OVERFLOW, ldu > most ? "ldu" : "ldx");
    if (io->grad_A && !w->resolved.grad)
        return pu__refuse(report, PU_E_UNSUPPORTED, "A.grad (or leave arrays.grad_A NULL)");
    for (pu_int j = 0; j < io->k; j++)
        if (pu__check_array(n, io->U + j * ldu, 0, "U", -1, report) ||
            (io->x0 && pu__check_array(n, io->x0 + j * n, 0, "x0", -1, report))) {
            report->where.column = j;
            return report->status;
        }
    return io->weight ? pu__check_array(io->k, io->weight, 0, "weight", -1, report) : PU_OK;
}

/* What can be known without memory: the plan, the operator's form and its device side, sizes. */
PU__FN pu_status pu__solve_make(pu__solve_job *w, const pu_op *A, const pu_solve_options *options,
                                const pu_backend *backend, pu_report *report)
{
    if (pu__solve_check(A, w->io.k, report))
        return report->status;
    w->given = A;
    w->resolved = pu__resolve(A);
    w->o = pu__solve_defaults(options);
    w->B = backend ? backend : pu_backend_cpu();
    if (pu__check_form_sizes(A, &pu__names_A, report) ||
        pu__plan_make(w->o, A->rows, 0, w->gradients, &w->plan, report) || pu__check_backend(w->B, report))
        return report->status;
    return pu__side(w->B, &w->resolved, &pu__names_A, NULL, &w->side_bytes, &w->A.side, report);
}

/* Measures without a backend, that is on the CPU. */
PU_DEF pu_status pu_solve_bytes(const pu_op *A, pu_int k, const pu_solve_options *options, int gradients, size_t *bytes,
                                pu_report *report)
{
    pu__call call;
    pu__solve_job w = PU__ZERO;
    report = pu__begin(&call, NULL, report);
    w.io.k = k;
    w.gradients = gradients;
    if (!bytes)
        return pu__refuse(report, PU_E_NULL, "bytes");
    if (pu__solve_make(&w, A, options, NULL, report))
        return report->status;
    return pu__measure(&call, pu__solve_layout, &w, bytes);
}

/* The tests that need scratch, step size or preconditioner, the solve, and the gradient terms of w/2 x'A x and of what
   comes back through the solver. */
PU__FN pu_status pu__solve_columns(pu__solve_job *w, pu_report *report)
{
    pu__run *g = &w->run;
    const pu_op *A = &w->resolved, *op = &w->A.side.op;
    const pu_solve_arrays *io = &w->io;
    const pu_backend *B = g->B;
    pu_int n = g->n;
    const pu_block *x0 = io->x0 ? &w->x0 : NULL;
    pu_real *grad = io->grad_A ? w->far_sums : NULL;
    int own = g->m && !w->o->precond; /* PCG without the caller's m takes 1 / diag(A), which is put into test */
    pu_status status;
    if (pu__check_form(w->given, A, &pu__names_A, w->test, w->work, report) ||
        (A->trusted < 2 && pu__check_adjoint(A, &pu__names_A, w->test, w->work, report)) ||
        (g->plan.solver == PU_GD && pu__set_step(g, w->o->step, -1, report)))
        return report->status;
    if (own && !A->diag)
        return pu__refuse(report, PU_E_UNSUPPORTED, "A.diag (or give options.solve.precond)");
    pu__zeros(w->test, n);
    if (own && A->diag(A, w->test, w->work))
        return pu__operator_failed(report, "A.diag", -1);
    if (g->m && pu__set_m(g, 0, w->o->precond, w->test, -1, report))
        return report->status;
    for (pu_int j = 0; j < g->k; j++)
        pu__send(B, pu__col(g->u, j), io->U + j * io->ldu, n);
    if (!pu__is_far(B))
        w->x0 = pu__rows(io->x0, n);
    else if (x0)
        pu__send(B, w->x0.at, io->x0, n * g->k);
    if (w->grad)
        B->combine(B->user, op->params, 1, pu__rows(w->far_sums, op->params), 0, NULL);
    status = pu__run_block(g, x0, w->gradients, -1, 0, report);
    if (pu__fatal(status))
        return status;
    if (grad) { /* w/2 x'A x */
        pu__set_scalars(g, g->s.scale, io->weight, PU_R(0.5));
        if (op->grad(op, g->k, g->x, g->x, g->s.scale, grad, w->A.work))
            return pu__operator_failed(report, "A.grad", -1);
    }
    if (w->gradients) {
        pu__set_scalars(g, g->s.scale, io->weight, 1);
        if (pu__reverse(g, x0, grad))
            return pu__operator_failed(report, "A.apply or A.grad", -1);
    }
    return pu__run_outcome(g, status, w->gradients, -1, 0, report);
}

/* Results of a device to the host; records of the columns into the report; dF/du = -w x + scale rbar into near_rbar. Is
   all of it finite? */
PU__FN pu_status pu__solve_results(pu__solve_job *w, pu_report *report)
{
    pu__run *g = &w->run;
    const pu_backend *B = g->B;
    const pu_solve_arrays *io = &w->io;
    int far = pu__is_far(B);
    if (far)
        pu__receive(B, w->near_x.at, g->x.at, g->n * g->k);
    if (far && w->gradients) {
        pu__receive(B, w->near_rbar.at, g->rbar.at, g->n * g->k);
        pu__receive(B, w->near_scale, g->s.scale, g->k);
        pu__receive(B, w->sums, w->far_sums, w->A.side.op.params);
        pu__zeros(w->grad, w->given->params);
        if (io->grad_A && pu__side_grad(&w->A.side, w->sums, w->grad))
            return pu__operator_failed(report, "A.grad_from_sums", -1);
    }
    if (w->grad && pu__check_result(w->grad, w->given->params, "grad_A", -1, report))
        return report->status;
    for (pu_int j = 0; j < g->k; j++) {
        pu_real weight = io->weight ? io->weight[j] : 1, *rbar = w->gradients ? pu__col(w->near_rbar, j) : NULL;
        pu_column c;
        for (pu_int i = 0; io->grad_U && i < g->n; i++)
            rbar[i] = w->near_scale[j] * rbar[i] - weight * pu__col(w->near_x, j)[i];
        if (io->grad_U && pu__check_result(rbar, g->n, "grad_U", -1, report))
            return report->status;
        pu__column_record(g, j, &c);
        pu__report_column(report, &c, -1, j, w->plan.adjoint != PU_ADJOINT_REORTHOGONAL);
    }
    return pu__check_report(report);
}

/* pu_solve after its checks and with its memory. */
PU__FN pu_status pu__solve_run(pu__solve_job *w, pu_report *report)
{
    const pu_backend *B = w->B;
    const pu__plan *plan = &w->plan;
    const pu_solve_arrays *io = &w->io;
    pu_int n = w->given->rows, k = io->k;
    pu_status status = PU_OK;
    if (pu__is_far(B)) {
        status = pu__side(B, &w->resolved, &pu__names_A, w->side_memory, &w->side_bytes, &w->A.side, report);
        B->batch(B->user, 1); /* one datum, as it were */
    }
    pu__run_set(&w->run, plan->solver, k);
    if (!status)
        status = pu__solve_columns(w, report);
    if (!pu__fatal(status) && pu__solve_results(w, report))
        status = report->status;
    if (pu__far_status(B, report))
        status = report->status; /* outranks what came of it */
    report->solver = plan->solver;
    report->iterations = plan->I;
    report->tape_every = plan->every;
    report->columns = k;
    report->products = w->run.products;
    report->threads = 1;
    report->lanes = 1;
    if (pu__fatal(status))
        return status;
    /* The only place where pu_solve writes to the caller's arrays. */
    for (pu_int j = 0; j < k; j++) {
        pu__copy(io->X + j * io->ldx, pu__col(w->near_x, j), n);
        if (io->grad_U)
            pu__copy(io->grad_U + j * n, pu__col(w->near_rbar, j), n);
        if (io->columns)
            pu__column_record(&w->run, j, io->columns + j);
    }
    if (io->grad_A)
        pu__copy(io->grad_A, w->grad, w->given->params);
    return status;
}

/* Checks from the cheap to the dear; everything before pu__allocate may simply return. */
PU_DEF pu_status pu_solve(const pu_op *A, const pu_solve_arrays *arrays, const pu_solve_options *options,
                          const pu_backend *backend, pu_workspace *ws, pu_report *report)
{
    pu__call call;
    pu__solve_job w = PU__ZERO;
    pu_solve_arrays *io = &w.io;
    report = pu__begin(&call, ws, report);
    if (!arrays)
        return pu__refuse(report, PU_E_NULL, "arrays");
    *io = *arrays;
    w.gradients = io->grad_A || io->grad_U;
    if (pu__solve_make(&w, A, options, backend, report))
        return report->status;
    io->ldu = io->ldu ? io->ldu : A->rows;
    io->ldx = io->ldx ? io->ldx : A->rows;
    /* measured first: a size that overflows is refused before arrays of that size are read */
    if (pu__measure(&call, pu__solve_layout, &w, NULL) || pu__check_op(&w.resolved, &pu__names_A, report) ||
        pu__solve_check_arrays(&w, report))
        return report->status;
    if (io->grad_A && !w.A.side.op.grad)
        return pu__refuse(report, PU_E_UNSUPPORTED, "A.grad (device side)");
    if (pu__allocate(&call, pu__solve_layout, &w))
        return pu__finish(&call, report->status);
    return pu__finish(&call, pu__solve_run(&w, report));
}

/* ------------------------------------------------------------------------------------------------
   >>posterior   A = Gamma + Phi'W Phi, b and c of a datum

   A is a system of the solver (pu__system). How a product with A is done depends on what the operators are, and is chosen
   once when a datum is loaded: A gets a kind.

     kind      Gamma, Phi                          product                           gradient of p'A q
     general   any                                 Gamma X, then Phi'(W (Phi X))     terms of Gamma, Phi, psi
     matrix    any, a plain matrix                 the same, a strip of rows at      the same
                                                   a time while it is near
     formed    any, a plain matrix                 A itself was made a matrix        the same, after Phi X
     band      autoregression, a diagonal          Gamma + diag(shift), one sweep    one sweep with the product
     spectrum  a diagonal, Fourier                 through the transform, one sweep  with the product
     gram      any, a map with a gram product      Gamma X, then Phi'W Phi X         of psi from the gram product

   What a product leaves behind for the gradient of the same columns (Phi X, Phi'W Phi X or sums) belongs to the posterior and
   is valid until the next product: `left` says what it is.
   ------------------------------------------------------------------------------------------------ */

/* Where the gradient of each canonical parameter is in a vector [Gamma | Phi | psi | eta | sum of bbar | m | groups x
   [Gamma | Phi | psi]], and what of it is wanted. Parts that are not wanted have no room, but for psi, eta and b. */
typedef struct {
    int want_Gamma, want_Phi, want_psi;
    int tied;                          /* of psi's gradient only the sum over the rows is meant */
    pu_int Phi, psi, eta, b, m, group; /* offsets; Gamma's is 0 */
    pu_int params;                     /* length */
    pu_int groups, probes;             /* probes in groups, each of which has a copy, eta long; groups = 0: none has */
} pu__slots;

/* Fills in the offsets for these operators; groups, probes and wants are set. m: the gradient of the preconditioner is
   wanted. */
PU__FN void pu__slots_make(pu__slots *s, const pu_op *Gamma, const pu_op *Phi, int m)
{
    s->Phi = s->want_Gamma ? Gamma->params : 0;
    s->psi = s->Phi + (s->want_Phi ? Phi->params : 0);
    s->eta = s->psi + Phi->rows;
    s->b = s->eta + Phi->rows;
    s->m = s->b + Gamma->rows;
    s->group = s->m + (m ? Gamma->rows : 0);
    s->params = s->group + s->groups * s->eta;
}

/* What the observations of a datum make of the model. On a device there is a piece for every datum side by side. */
typedef struct {
    pu_real *w, *w_root, *mask, *e; /* rows at work: mask psi, its square root, 0 or 1, mask (y - eta) */
    pu_real *shift;                 /* D: diag(Phi'W Phi), where Phi is a diagonal */
    uint32_t *id;                   /* numbers that key the random streams */
    pu_int *rows;                   /* device: lists of rows, see pu_backend */
} pu__rows_data;

typedef struct pu__posterior pu__posterior;

/* Gradient of pairs (p_j, q_j). known: p_j are the columns of the last product. */
#define PU__TERMS_ARGS pu__posterior *p, const pu__pairs *pairs, PU_UNUSED int known, pu_real *grad

/* How a product with A is done, and its gradient where that goes together with the product. */
typedef struct {
    pu_status (*product)(PU__PRODUCT_ARGS);
    pu_status (*fused)(PU__TERMS_ARGS); /* product and gradient; NULL: one after the other */
} pu__product_kind;

enum { PU__LEFT_NOTHING, PU__LEFT_ROWS, PU__LEFT_GRAM }; /* what a product leaves: Phi X in t0; Phi'W Phi X in gram */

struct pu__posterior {
    pu__system system;                    /* A as the solver sees it */
    const pu__product_kind *kind, *usual; /* of the datum at hand; of a datum whose A is not formed */
    int left;                             /* what the last product has left */
    const pu_lgm *model;                  /* on the host */
    const pu_op *map;                     /* what variances of the fit are of: Phi, or another map of the caller's */
    const pu_side *Gamma, *Phi;           /* the operators where the backend works; */
    const pu_real *psi;                   /* M, likewise */
    const pu_backend *B;
    pu_int D, M, kmax;
    pu__slots slots;
    /* The rows of Phi at work: all M, or the observed ones alone when Phi can restrict itself. */
    pu_int n_rows, observed;
    pu_int *list;       /* M: the observed rows */
    const pu_int *rows; /* the same for Phi's functions, NULL: all rows */
    int restricted;
    double log_psi;       /* sum of log psi over the observed rows */
    pu__rows_data now;    /* of the data at hand, where the backend works */
    pu__rows_data staged; /* on the host */
    pu_real *w_all;       /* M: mask psi of every row */
    /* scratch */
    pu_real *row_sum;          /* M for each datum */
    pu_block t0, t1;           /* rows x kmax */
    pu_block gram;             /* D x kmax, Phi'W Phi X, where psi is tied and Phi has a gram product */
    pu_real *made;             /* kind spectrum: the weights as the transform reads them */
    pu_real *scaled;           /* kmax, likewise */
    double *sums;              /* kinds band and spectrum: sums over rows of each column */
    pu_real *A;                /* D x D, room for a formed A */
    pu_real *panel;            /* for products of matrices, where A is formed or an engine is dense or dual */
    pu_real *work, *work_host; /* of the operators; on the host, one column */
    pu_real *ones;             /* wide ones */
    /* what the next gradient is of */
    pu_int column;      /* of the datum, that column 0 of the block is; -1: none of them, all common */
    int joint;          /* the square terms of column 0 take b's terms along: bbar = -x */
    const pu_real *joint_at; /* where that column is */
    const pu_real *centred;  /* x - nu of that column, which Gamma's terms are to be squares of; NULL: of x */
    const char *failed; /* the operator function that reported failure last */
    /* a device: data side by side, columns of each, most of them; the arrays of two uploads, used in turns */
    pu_int count, cols, wide;
    pu__rows_data upload[2];
    int slot;
    pu_real *m, *minv; /* PCG: D for each datum of both uploads */
};

/* ---- groups of probes ---- */

/* Offset of the accumulator for column j of a block: the common one, or the copy of the probe's group. */
PU__FN pu_int pu__group_at(const pu__posterior *p, pu_int j)
{
    const pu__slots *s = &p->slots;
    pu_int probe = p->column + j - 1;
    if (s->groups == 0 || p->column < 0 || probe < 0)
        return 0;
    return s->group + probe * s->groups / s->probes * s->eta;
}

/* End of the run of columns that share the accumulator of column j. */
PU__FN pu_int pu__group_end(const pu__posterior *p, pu_int j, pu_int k)
{
    pu_int at = pu__group_at(p, j);
    do
        j++;
    while (j < k && pu__group_at(p, j) == at);
    return j;
}

/* ---- operators on the rows at work ---- */

/* Remembers whose function failed, for the report. */
PU__FN pu_status pu__note_failure(pu__posterior *p, pu_status status, const char *what)
{
    if (status)
        p->failed = what;
    return status;
}

/* Y = Gamma X or Y += Gamma X */
PU__FN pu_status pu__gamma_apply(pu__posterior *p, pu_int k, pu_block X, pu_block Y, int add)
{
    const pu_op *Gamma = &p->Gamma->op;
    return pu__note_failure(p, Gamma->apply(Gamma, k, X, Y, add, p->work), "Gamma.apply");
}

/* Y = Phi X. t0 no longer holds what the last product left there. */
PU__FN pu_status pu__phi_apply(pu__posterior *p, pu_int k, pu_block X, pu_block Y)
{
    const pu_op *Phi = &p->Phi->op;
    pu_status status =
        p->rows ? Phi->apply_rows(Phi, p->n_rows, p->rows, k, X, Y, 0, p->work) : Phi->apply(Phi, k, X, Y, 0, p->work);
    if (Y.at == p->t0.at)
        p->left = PU__LEFT_NOTHING;
    return pu__note_failure(p, status, "Phi.apply");
}

/* Y = Phi'X or Y += Phi'X */
PU__FN pu_status pu__phi_apply_t(pu__posterior *p, pu_int k, pu_block X, pu_block Y, int add)
{
    const pu_op *Phi = &p->Phi->op;
    pu_status status = p->rows ? Phi->apply_rows_t(Phi, p->n_rows, p->rows, k, X, Y, add, p->work)
                               : Phi->apply_t(Phi, k, X, Y, add, p->work);
    return pu__note_failure(p, status, "Phi.apply_t");
}

/* grad += sum_j weight_j d/dtheta p_j'Phi q_j */
PU__FN pu_status pu__phi_grad(pu__posterior *p, pu_int k, pu_block P, pu_block Q, const pu_real *weight, pu_real *grad)
{
    const pu_op *Phi = &p->Phi->op;
    pu_status status = p->rows ? Phi->grad_rows(Phi, p->n_rows, p->rows, k, P, Q, weight, grad, p->work)
                               : Phi->grad(Phi, k, P, Q, weight, grad, p->work);
    return pu__note_failure(p, status, "Phi.grad");
}

/* Y = Phi'W Phi X or Y += Phi'W Phi X, where Phi has a gram product */
PU__FN pu_status pu__phi_gram(pu__posterior *p, pu_int k, pu_block X, pu_block Y, int add)
{
    return pu__note_failure(p, p->Phi->gram(&p->Phi->op, p->now.w, k, X, Y, add, p->work), "Phi.gram");
}

/* to = scale w o t over the rows at work */
PU__FN void pu__weigh(const pu__posterior *p, pu_int k, pu_block t, pu_block to, pu_real scale, const pu_real *w)
{
    pu_term term = pu__term_full(t, scale, NULL, w);
    p->B->combine(p->B->user, p->n_rows, k, to, 1, &term);
}

/* Column 0 of each datum of a block: the means. */
PU__FN pu_block pu__means(const pu__posterior *p, pu_block b)
{
    b.ld *= p->count > 1 ? p->cols : 1;
    return b;
}

/* Each datum's W e, into row_sum. */
PU__FN pu_block pu__weighted_e(const pu__posterior *p)
{
    pu_block sum = pu__rows(p->row_sum, p->M);
    pu__weigh(p, p->count, pu__rows(p->now.e, p->n_rows), sum, 1, p->now.w);
    return sum;
}

/* ---- products with A, kind by kind ---- */

/* general: Gamma X, then Phi'(W (Phi X)) */
PU__FN pu_status pu__general_product(PU__PRODUCT_ARGS)
{
    pu__posterior *p = (pu__posterior *)self;
    if (pu__gamma_apply(p, k, X, Y, add) || pu__phi_apply(p, k, X, p->t0))
        return PU_E_OPERATOR;
    pu__weigh(p, k, p->t0, p->t1, 1, p->now.w);
    p->left = PU__LEFT_ROWS;
    return pu__phi_apply_t(p, k, p->t1, Y, 1);
}

/* matrix: Phi'W Phi X a strip of rows at a time */
PU__FN pu_status pu__matrix_product(PU__PRODUCT_ARGS)
{
    pu__posterior *p = (pu__posterior *)self;
    pu_status status = pu__gamma_apply(p, k, X, Y, add);
    pu__dense_gram_rows(&p->Phi->op, p->n_rows, p->rows, p->now.w, k, X, p->t0, Y);
    p->left = PU__LEFT_ROWS;
    return status;
}

/* formed: A is a matrix */
PU__FN pu_status pu__formed_product(PU__PRODUCT_ARGS)
{
    pu__posterior *p = (pu__posterior *)self;
    pu_op A = pu_op_dense(p->D, p->D, p->A);
    p->left = PU__LEFT_NOTHING;
    return A.apply(&A, k, X, Y, add, NULL);
}

/* band: (Gamma + diag(shift)) X with the inner products on the way */
PU__FN pu_status pu__band_product(PU__PRODUCT_ARGS)
{
    pu__posterior *p = (pu__posterior *)self;
    const pu_side *Gamma = p->Gamma;
    p->left = PU__LEFT_NOTHING;
    return pu__note_failure(p, Gamma->apply_plus(&Gamma->op, p->now.shift, k, X, Y, add, dots), "Gamma.apply");
}

/* gram: Gamma X + (Phi'W Phi) X; the latter is kept where psi's gradient is made of it. */
PU__FN pu_status pu__gram_product(PU__PRODUCT_ARGS)
{
    pu__posterior *p = (pu__posterior *)self;
    pu_block gram = p->gram;
    pu_term terms[] = {pu__term(Y), pu__term(gram)};
    if (pu__gamma_apply(p, k, X, Y, add) || pu__phi_gram(p, k, X, gram.at ? gram : Y, !gram.at))
        return PU_E_OPERATOR;
    p->left = gram.at ? PU__LEFT_GRAM : PU__LEFT_NOTHING;
    if (gram.at)
        p->B->combine(p->B->user, p->D, k, Y, 2, terms);
    return PU_OK;
}

/* spectrum: pairs through the transform; sums receives the two parts of q_j'A p_j without c_j. */
PU__FN pu_status pu__spectrum_pairs(pu__posterior *p, const pu__pairs *pairs, int add)
{
    const pu_real *diagonal = (const pu_real *)p->Gamma->op.data;
    pu_status status =
        pu__fourier_gram_pairs(&p->Phi->op, p->made, diagonal, pairs, add, p->sums, p->sums + pairs->k, p->work);
    return pu__note_failure(p, status, "Phi.gram");
}

/* spectrum: the product, and its inner products from the same sums. */
PU__FN pu_status pu__spectrum_product(PU__PRODUCT_ARGS)
{
    pu__posterior *p = (pu__posterior *)self;
    pu__pairs pairs = {k, NULL, X, X, Y, NULL};
    pu_status status = pu__spectrum_pairs(p, &pairs, add);
    if (dots)
        for (pu_int j = 0; j < k; j++)
            dots[j] = (pu_real)(p->sums[j] + p->sums[k + j]);
    return status;
}

/* ---- gradients of p'A q ---- */

/* What pu__by_group calls with the pairs of one group, and with the place of the group's accumulator. */
#define PU__GROUP_ARGS pu__posterior *p, const pu__pairs *part, pu_real *grad

/* Does psi's gradient leave out the first column of these pairs? Where the square terms are `joint` with those of b, the
   mean's are squares of e - Phi x, and belong to pu__linear_terms. A device takes them apart. */
PU__FN int pu__psi_skips(const pu__posterior *p) { return p->joint && !pu__is_far(p->B); }

/* Does Gamma's gradient leave out the first column of these pairs? See pu__centred_term. */
PU__FN int pu__gamma_skips(const pu__posterior *p, const pu__pairs *part)
{
    return p->centred && part->P.at == p->joint_at;
}

/* These pairs from column j on. */
PU__FN pu__pairs pu__pairs_from(const pu__pairs *pairs, pu_int j)
{
    pu__pairs part = *pairs;
    part.k -= j;
    part.P = pu__from(part.P, j);
    part.Q = pu__from(part.Q, j);
    part.weight += j;
    if (part.c)
        part.c += j;
    if (part.Y.at)
        part.Y = pu__from(part.Y, j);
    return part;
}

/* Hands pairs from column `first` on over in runs of columns that share an accumulator. */
PU__FN pu_status pu__by_group(pu__posterior *p, pu_int first, const pu__pairs *pairs, pu_real *grad,
                              pu_status (*terms)(PU__GROUP_ARGS))
{
    pu_status status = PU_OK;
    pu__pairs part;
    for (pu_int j = first; j < pairs->k && !status; j += part.k) {
        part = pu__pairs_from(pairs, j);
        part.k = pu__group_end(p, j, pairs->k) - j;
        status = terms(p, &part, grad + pu__group_at(p, j));
    }
    return status;
}

/* Product, gradient and the sum of psi's gradient in one sweep, for pu__band_fused. */
PU__FN pu_status pu__band_group(PU__GROUP_ARGS)
{
    pu__pairs rest = pu__pairs_from(part, pu__gamma_skips(p, part));
    pu_status status = rest.k ? pu__ar_grad_pairs(&p->Gamma->op, p->now.shift, &rest, grad, p->sums) : PU_OK;
    /* column 0 of the datum is the first of the first group, and there alone grad is the common accumulator */
    for (pu_int i = pu__psi_skips(p) && rest.P.at == p->joint_at; i < rest.k; i++) {
        double c = rest.c ? (double)rest.c[i] : 1;
        grad[p->slots.psi] += (pu_real)((double)rest.weight[i] * c * p->sums[i] / (double)p->psi[0]);
    }
    return pu__note_failure(p, status, "Gamma.grad");
}

/* band, where besides Gamma's only the sum of psi's gradient is wanted, which is p'(Phi'W Phi) q / psi. */
PU__FN pu_status pu__band_fused(PU__TERMS_ARGS) { return pu__by_group(p, 0, pairs, grad, pu__band_group); }

/* Gamma's terms: grad += weight_j d/dtheta p_j'Gamma q_j */
PU__FN pu_status pu__gamma_group(PU__GROUP_ARGS)
{
    const pu_op *Gamma = &p->Gamma->op;
    pu__pairs rest = pu__pairs_from(part, pu__gamma_skips(p, part));
    if (!p->slots.want_Gamma || rest.k == 0)
        return PU_OK;
    return pu__note_failure(p, Gamma->grad(Gamma, rest.k, rest.P, rest.Q, rest.weight, grad, p->work), "Gamma.grad");
}

/* grad += weight d/dtheta (x - nu)'Gamma (x - nu), of the mean. Multiplied out, with b's and nu's terms apart, it would
   cancel where mu is near nu. */
PU__FN pu_status pu__centred_term(pu__posterior *p, const pu_real *weight, pu_real *grad)
{
    const pu_op *Gamma = &p->Gamma->op;
    pu_block d = pu__rows((pu_real *)p->centred, p->D);
    if (!p->slots.want_Gamma)
        return PU_OK;
    return pu__note_failure(p, Gamma->grad(Gamma, 1, d, d, weight, grad, p->work), "Gamma.grad");
}

/* spectrum, where of psi's gradient only the sum is wanted. All columns take the product together, because they share
   transforms; the gradients go to their groups. */
PU__FN pu_status pu__spectrum_fused(PU__TERMS_ARGS)
{
    pu__pairs scaled = *pairs;
    scaled.weight = p->scaled;
    for (pu_int j = 0; j < pairs->k; j++)
        p->scaled[j] = pairs->c ? pairs->weight[j] * pairs->c[j] : pairs->weight[j];
    if ((!known && pu__spectrum_pairs(p, pairs, 1)) || pu__by_group(p, 0, &scaled, grad, pu__gamma_group))
        return PU_E_OPERATOR;
    for (pu_int j = pu__psi_skips(p); p->slots.want_psi && p->observed && j < pairs->k; j++)
        grad[pu__group_at(p, j) + p->slots.psi] += (pu_real)((double)p->scaled[j] * p->sums[j] / (double)p->psi[0]);
    return PU_OK;
}

/* The sum of psi's gradient: q'(Phi'W Phi p) / psi, where p stands for Phi'W Phi p unless that is a shift. */
PU__FN pu_status pu__tied_group(PU__GROUP_ARGS)
{
    p->B->sum_dot(p->B->user, p->D, part->k, p->now.shift, part->Q, part->P, part->weight, 1 / (double)p->model->psi[0],
                  grad + p->slots.psi);
    return PU_OK;
}

/* psi's terms: mask (Phi p)(Phi q); the pairs are of Phi P and Phi Q. */
PU__FN pu_status pu__psi_group(PU__GROUP_ARGS)
{
    p->B->row_dot(p->B->user, p->n_rows, part->k, p->rows ? NULL : p->now.mask, part->weight, part->P, part->Q, p->M,
                  p->rows, grad + p->slots.psi);
    return PU_OK;
}

/* grad += weight_j d/dtheta p_j'Phi q_j */
PU__FN pu_status pu__phi_group(PU__GROUP_ARGS)
{
    return pu__phi_grad(p, part->k, part->P, part->Q, part->weight, grad + p->slots.Phi);
}

/* Phi's terms: (W Phi p) q' + (W Phi q) p'. t0 = Phi P; t1 = Phi Q, or free where P = Q. With `joint` the columns of
   means take b's term along: (W Phi x) x' + (W e) bbar', bbar = -x. */
PU__FN pu_status pu__phi_terms(pu__posterior *p, const pu__pairs *pairs, int same, pu_real *grad)
{
    pu_int k = pairs->k;
    const pu_real *w = p->now.w;
    pu_block wp = same ? p->t1 : p->t0; /* W Phi p; t0 is left alone where P = Q */
    pu__pairs first = {k, NULL, wp, pairs->Q, pu__none, pairs->weight};
    pu__pairs second = {k, NULL, p->t1, pairs->P, pu__none, pairs->weight};
    pu_status status;
    if (!same)
        pu__weigh(p, k, p->t1, p->t1, 1, w);
    pu__weigh(p, k, p->t0, wp, same ? 2 : 1, w);
    if (p->joint) {
        pu_block means = pu__means(p, wp);
        pu_term terms[] = {pu__term_full(pu__rows(p->now.e, p->n_rows), -2, NULL, w), pu__term(means)};
        p->B->combine(p->B->user, p->n_rows, p->count, means, 2, terms);
    }
    status = pu__by_group(p, 0, &first, grad, pu__phi_group);
    return status || same ? status : pu__by_group(p, 0, &second, grad, pu__phi_group);
}

/* grad += weight_j d/dtheta p_j'A q_j, one operator after the other. p_j are the columns of the last product where
   `known`. Phi is multiplied with a vector only where the product has not left that. */
PU__FN pu_status pu__posterior_terms(PU__TERMS_ARGS)
{
    const pu__slots *s = &p->slots;
    int same = pairs->P.at == pairs->Q.at;
    pu__pairs seen = {pairs->k, NULL, p->t0, same ? p->t0 : p->t1, pu__none, pairs->weight};
    pu_status status = pu__by_group(p, 0, pairs, grad, pu__gamma_group);
    if (status || (!s->want_Phi && !s->want_psi))
        return status;
    if (!known)
        p->left = PU__LEFT_NOTHING; /* of use here */
    if (!s->want_Phi && ((p->gram.at && !p->rows) || (p->now.shift && s->tied))) {
        seen = *pairs;
        if (!p->now.shift)
            seen.P = p->gram; /* which the last product may have left */
        if (!p->now.shift && p->left != PU__LEFT_GRAM && pu__phi_gram(p, pairs->k, pairs->P, p->gram, 0))
            return PU_E_OPERATOR;
        return p->observed ? pu__by_group(p, pu__psi_skips(p), &seen, grad, pu__tied_group) : PU_OK;
    }
    if ((p->left != PU__LEFT_ROWS && pu__phi_apply(p, pairs->k, pairs->P, p->t0)) ||
        (!same && pu__phi_apply(p, pairs->k, pairs->Q, p->t1)))
        return PU_E_OPERATOR;
    if (s->want_psi)
        status = pu__by_group(p, pu__psi_skips(p), &seen, grad, pu__psi_group);
    if (s->want_Phi)
        status = pu__phi_terms(p, pairs, same, grad);
    if (!same)
        p->left = PU__LEFT_NOTHING; /* t0 was weighted in place */
    return status;
}

/* The system's pairs: product and gradient of (c_j p_j, q_j). */
PU__FN pu_status pu__posterior_pairs(void *self, const pu__pairs *pairs, pu_real *grad)
{
    pu__posterior *p = (pu__posterior *)self;
    int product = pairs->Y.at != NULL;
    if (p->system.scales && grad)
        return p->kind->fused(p, pairs, 0, grad);
    if (product && p->kind->product(p, pairs->k, pairs->P, pairs->Y, 1, NULL))
        return PU_E_OPERATOR;
    return grad ? pu__posterior_terms(p, pairs, product, grad) : PU_OK;
}

/* grad += weight_j d/dtheta x_j'A x_j. last: the last product was with X, and what it has left is used. */
PU__FN pu_status pu__posterior_square(pu__posterior *p, pu_int k, pu_block X, const pu_real *weight, int last,
                                      pu_real *grad)
{
    pu__pairs pairs = {k, NULL, X, X, pu__none, weight};
    if (p->centred && pu__centred_term(p, weight, grad))
        return PU_E_OPERATOR;
    return (p->system.scales ? p->kind->fused : pu__posterior_terms)(p, &pairs, last, grad);
}

static const pu__product_kind pu__kind_general = {pu__general_product, NULL};
static const pu__product_kind pu__kind_matrix = {pu__matrix_product, NULL};
static const pu__product_kind pu__kind_formed = {pu__formed_product, NULL};
static const pu__product_kind pu__kind_band = {pu__band_product, pu__band_fused};
static const pu__product_kind pu__kind_spectrum = {pu__spectrum_product, pu__spectrum_fused};
static const pu__product_kind pu__kind_gram = {pu__gram_product, NULL};

/* Can Phi work on a part of its rows? */
PU__FN int pu__can_restrict(const pu_op *Phi) { return Phi->apply_rows && Phi->apply_rows_t && Phi->grad_rows; }

/* The kind of A for these operators, where the backend works. host: their own memory is the host's. */
PU__FN const pu__product_kind *pu__kind_of(const pu_lgm *model, const pu_side *Gamma, const pu_side *Phi, int host)
{
    int diagonal = model->Gamma->form == PU_FORM_DIAGONAL && pu__diagonal_full(model->Gamma);
    if (model->Phi->form == PU_FORM_DIAGONAL && Gamma->apply_plus)
        return &pu__kind_band;
    if (host && diagonal && model->Phi->form == PU_FORM_FOURIER)
        return &pu__kind_spectrum;
    if (Phi->gram && !pu__can_restrict(&Phi->op))
        return &pu__kind_gram;
    if (host && pu__plain(model->Phi))
        return &pu__kind_matrix;
    return &pu__kind_general;
}

/* ---- memory ---- */

/* The arrays over rows of `wide` data, on the device (there) or on the host. */
PU__FN void pu__rows_layout(pu__rows_data *r, pu__arena *arena, const pu__posterior *p, int there)
{
    pu_real **arrays[] = {&r->w, &r->w_root, &r->mask, &r->e};
    for (size_t i = 0; i < 4; i++)
        *arrays[i] = (pu_real *)pu__take_from(arena, there, p->M, p->wide, sizeof(pu_real));
    if (p->usual == &pu__kind_band)
        r->shift = (pu_real *)pu__take_from(arena, there, p->D, p->wide, sizeof(pu_real));
    r->id = (uint32_t *)pu__take_from(arena, there, p->wide, 1, sizeof(uint32_t));
    if (pu__is_far(p->B))
        r->rows = (pu_int *)pu__take_from(arena, there, 2 * p->M * p->wide + p->M + 1, 1, sizeof(pu_int));
}

/* Lays out (or measures) a posterior, all zero but for: model (its forms resolved), Gamma, Phi, psi, B, slots, kmax
   (columns at a time), wide (data side by side). form: with room for a formed A. */
PU__FN void pu__posterior_layout(pu__posterior *p, pu__arena *arena, int form)
{
    const pu_op *Gamma = p->model->Gamma, *Phi = p->model->Phi;
    pu_int kmax = p->kmax;
    int far = pu__is_far(p->B);
    p->D = Gamma->rows;
    p->M = Phi->rows;
    p->count = 1;
    p->cols = kmax;
    p->column = -1;
    p->usual = pu__kind_of(p->model, p->Gamma, p->Phi, !far);
    p->w_all = pu__reals(arena, p->M, 1);
    p->list = pu__indices(arena, p->M);
    p->ones = pu__far_reals(arena, p->wide, 1);
    pu__rows_layout(&p->staged, arena, p, 0);
    p->now = p->staged;
    for (int i = 0; far && i < 2; i++)
        pu__rows_layout(&p->upload[i], arena, p, 1);
    p->row_sum = pu__far_reals(arena, p->M, p->wide);
    p->t0 = pu__far_cols(arena, p->M, kmax);
    p->t1 = pu__far_cols(arena, p->M, kmax);
    if (p->usual == &pu__kind_gram && p->slots.tied)
        p->gram = pu__far_cols(arena, p->D, kmax);
    if (p->usual == &pu__kind_spectrum)
        p->made = pu__reals(arena, pu__fourier_gram_size(&p->Phi->op), 1);
    if (p->usual->fused) {
        p->scaled = pu__reals(arena, kmax, 1);
        p->sums = pu__doubles(arena, kmax, 2);
    }
    p->work = pu__far_reals(arena, pu__most(p->Gamma->op.work, p->Phi->op.work), kmax);
    p->work_host = far ? pu__reals(arena, pu__most(Gamma->work, Phi->work), 1) : p->work;
    if (form)
        p->A = pu__reals(arena, p->D, p->D);
}

/* A of the datum at hand has this kind from here on. */
PU__FN void pu__posterior_set_kind(pu__posterior *p, const pu__product_kind *kind)
{
    const pu__slots *s = &p->slots;
    int sums = kind->fused != NULL; /* those that sum up on the way */
    int scales = sums && !pu__is_far(p->B) && s->tied && !s->want_Phi;
    pu__system system = {p, p->D, sums, scales, kind->product, pu__posterior_pairs};
    if (kind == &pu__kind_band)
        system.scales = scales && s->want_Gamma && s->want_psi;
    p->system = system;
    p->kind = kind;
    p->left = PU__LEFT_NOTHING;
}

/* ---- a datum ---- */

/* Observations of datum n into rows, w, mask, e. It is number `which` of those side by side, each of which has n_rows
   rows. Returns M_n, and in *c the datum's own part of c: 1/2 e'We - 1/2 sum log psi. */
PU__FN pu_int pu__posterior_read(pu__posterior *p, const pu_data *data, pu_int n, pu_int which, pu_int n_rows,
                                 double *c)
{
    const pu_real *eta = p->model->eta;
    const pu__rows_data *to = &p->staged;
    pu_int from = which * n_rows, at, row = 0, observed = 0;
    pu_real y = 0;
    double sum = 0;
    pu__logs logs = {0, 1};
    pu__zeros(to->w + from, n_rows);
    pu__zeros(to->w_root + from, n_rows);
    pu__zeros(to->mask + from, n_rows);
    pu__zeros(to->e + from, n_rows);
    pu__zeros(p->w_all, p->M);
    for (at = 0; (at = pu__observed(data, n, at, &row, &y)) >= 0; at++) {
        pu_real psi = p->model->psi[row], e = y - (eta ? eta[row] : 0);
        pu_int i = from + (p->restricted ? observed : row);
        p->w_all[row] = psi;
        to->w[i] = psi;
        to->w_root[i] = pu__sqrt(psi);
        to->mask[i] = 1;
        to->e[i] = e;
        p->list[observed++] = row;
        sum += (double)psi * (double)e * (double)e;
        pu__logs_add(&logs, (double)psi);
    }
    if (to->shift) {
        pu_real *shift = to->shift + which * p->D;
        pu__zeros(shift, p->D);
        (void)pu__diagonal_gram_diag(p->model->Phi, p->w_all, shift, NULL);
    }
    p->log_psi = logs.sum + log(logs.product);
    *c = (sum - p->log_psi) / 2;
    return observed;
}

/* Loads datum n on the host. Returns the number of observed entries; *c as pu__posterior_read. */
PU__FN pu_int pu__posterior_load(pu__posterior *p, const pu_data *data, pu_int n, double *c)
{
    const pu_op *Phi = &p->Phi->op;
    p->restricted = pu__can_restrict(Phi);
    p->observed = pu__posterior_read(p, data, n, 0, p->M, c);
    p->n_rows = p->restricted ? p->observed : p->M;
    p->rows = p->restricted && p->observed < p->M ? p->list : NULL; /* all observed: no list needed */
    p->joint = 0;
    pu__posterior_set_kind(p, p->usual);
    if (p->made)
        pu__fourier_gram_make(Phi, p->w_all, p->made);
    return p->observed;
}

/* Where each row of Phi is in a list of n, behind the list itself: see pu_backend. */
PU__FN void pu__list_places(pu_int M, pu_int n, pu_int *list)
{
    pu_int *start = list + n, *place = start + M + 1;
    for (pu_int i = 0; i <= M; i++)
        start[i] = 0;
    for (pu_int i = 0; i < n; i++)
        if (list[i] >= 0)
            start[list[i]]++;
    /* ends of the rows' places, which become beginnings while the places are filled from the end */
    for (pu_int i = 0; i < M; i++)
        start[i + 1] += start[i];
    for (pu_int i = n - 1; i >= 0; i--)
        if (list[i] >= 0)
            place[--start[list[i]]] = i;
}

/* Sends what pu__posterior_read has made of `count` data to where the backend works, into the other of the two
   uploads. */
PU__FN void pu__posterior_send(pu__posterior *p)
{
    pu_int rows = p->n_rows * p->count;
    const pu_backend *B = p->B;
    const pu__rows_data *from = &p->staged;
    const pu__rows_data *to = &p->upload[p->slot];
    p->now = *to;
    if (rows > 0) {
        pu__send(B, to->w, from->w, rows);
        pu__send(B, to->w_root, from->w_root, rows);
        pu__send(B, to->mask, from->mask, rows);
        pu__send(B, to->e, from->e, rows);
    }
    if (from->shift)
        pu__send(B, to->shift, from->shift, p->D * p->count);
    B->write(B->user, to->id, from->id, (size_t)p->count * sizeof *to->id);
    if (p->rows) {
        pu__list_places(p->M, rows, from->rows);
        B->write(B->user, to->rows, from->rows, (size_t)(2 * rows + p->M + 1) * sizeof *to->rows);
        p->rows = to->rows;
    }
}

/* y += diag(A), on the host, of the datum loaded last; where both operators can tell (pu__has_diag). */
PU__FN pu_status pu__posterior_diag(pu__posterior *p, pu_real *y)
{
    const pu_op *Gamma = p->model->Gamma, *Phi = p->model->Phi;
    if (Gamma->diag(Gamma, y, p->work_host))
        return pu__note_failure(p, PU_E_OPERATOR, "Gamma.diag");
    return pu__note_failure(p, Phi->gram_diag(Phi, p->w_all, y, p->work_host), "Phi.gram_diag");
}

/* Is diag(A) known? */
PU__FN int pu__has_diag(const pu_lgm *model) { return model->Gamma->diag && model->Phi->gram_diag; }

/* b = Gamma nu + Phi' W e of every datum; gamma_nu may be NULL. */
PU__FN pu_status pu__posterior_rhs(pu__posterior *p, const pu_real *gamma_nu, pu_block b)
{
    pu_status status = pu__phi_apply_t(p, p->count, pu__weighted_e(p), b, 0);
    pu_term terms[] = {pu__term(b), pu__term(pu__rows(gamma_nu, 0))};
    if (gamma_nu)
        p->B->combine(p->B->user, p->D, p->count, b, 2, terms);
    return status;
}

/* The quadratic part of the likelihood at a mean x, and the sizes of what it and the gradients are differences of. */
typedef struct {
    double value;    /* c + 1/2 x'A x - b'x + 1/2 log det Gamma */
    double rounding; /* of it */
    double prior;    /* (x - nu)'Gamma (x - nu), */
    double moves;    /* and with the sizes of what it is a sum or difference of */
    /* largest over the observed rows */
    double data;  /* w e^2 */
    double eta;   /* w |e - Phi x| */
    double terms; /* w (|e| + |Phi x|) */
    /* and over those of them where Phi x is not zero */
    double weight; /* w */
    double seen;   /* w |e - Phi x| */
    double spread; /* w^1/2 (|e| + |Phi x|) */
    double pull;   /* w |e - Phi x| |Phi x| */
} pu__value;

/* d'Gamma d, and in *size the sum of its terms' sizes: as a sum of squares where Gamma knows one. q: scratch. */
PU__FN pu_status pu__prior_square(pu__posterior *p, const pu_real *d, pu_real *q, double *square, double *size)
{
    const pu_op *Gamma = p->model->Gamma;
    *size = 0;
    if (Gamma->form == PU_FORM_STATES || Gamma->form == PU_FORM_AR) {
        *square = (Gamma->form == PU_FORM_AR ? pu__ar_square : pu__ssm_square)(Gamma, d, size);
        return PU_OK;
    }
    if (pu__gamma_apply(p, 1, pu__rows(d, p->D), pu__rows(q, p->D), 0))
        return PU_E_OPERATOR;
    for (pu_int i = 0; i < p->D; i++)
        *size += fabs((double)d[i] * (double)q[i]);
    *square = pu__dot(p->D, NULL, d, q);
    return PU_OK;
}

/* At the x of the last product 1/2 (e - Phi x)'W (e - Phi x) + 1/2 (x - nu)'Gamma (x - nu) - 1/2 sum log psi: the same as
   c + 1/2 x'A x - b'x + 1/2 log det Gamma for every x, but a sum of squares, where c and b'x are far larger than their
   difference when the noise is small. At x = mu a rounding of x counts to second order only. d, q: D reals of scratch. */
PU__FN pu_status pu__posterior_value(pu__posterior *p, pu_block x, pu_real *d, pu_real *q, pu__value *v)
{
    const pu_real *nu = p->model->nu;
    const pu__rows_data *now = &p->now;
    pu_real *t = p->row_sum;
    pu__value most = PU__ZERO; /* on the stack, where sums stay in registers */
    for (pu_int i = 0; nu && i < p->D; i++)
        d[i] = x.at[i] - nu[i];
    if (p->left != PU__LEFT_ROWS && pu__phi_apply(p, 1, x, p->t0))
        return PU_E_OPERATOR;
    for (pu_int i = 0; i < p->n_rows; i++) {
        double w = (double)now->w[i], e = (double)now->e[i], there = (double)p->t0.at[i];
        double terms = fabs(e) + fabs(there), off, left;
        t[i] = 0;
        if (now->mask[i] == 0)
            continue;
        t[i] = now->e[i] - p->t0.at[i];
        off = fabs((double)t[i]);
        left = w * off;
        most.data = pu__max(most.data, w * e * e);
        most.eta = pu__max(most.eta, left);
        most.terms = pu__max(most.terms, w * terms);
        if (there != 0) {
            most.weight = pu__max(most.weight, w);
            most.seen = pu__max(most.seen, left);
            most.spread = pu__max(most.spread, (double)now->w_root[i] * terms);
            most.pull = pu__max(most.pull, left * fabs(there));
        }
        most.rounding += w * terms * (off + (double)PU__EPS * terms);
    }
    *v = most;
    v->value = (pu__dot(p->n_rows, now->w, t, t) - p->log_psi) / 2;
    if (pu__prior_square(p, nu ? d : x.at, q, &v->prior, &v->moves))
        return PU_E_OPERATOR;
    v->value += v->prior / 2;
    v->rounding = (double)PU__EPS * (v->rounding + v->moves + fabs(p->log_psi));
    return PU_OK;
}

/* ---- A as a matrix ---- */

/* Where the i-th observed row is in blocks over rows. */
PU__FN pu_int pu__place(const pu__posterior *p, pu_int i) { return p->restricted ? i : p->list[i]; }

/* Phi where it is a plain matrix, whose rows need not be asked for by products with unit vectors; otherwise NULL. */
PU__FN const pu_real *pu__phi_matrix(const pu__posterior *p)
{
    return pu__plain(p->model->Phi) ? (const pu_real *)p->model->Phi->data : NULL;
}

/* t1_j = W^1/2 times the unit vector of the j-th of k observed rows from `first` on: what asks for rows of Phi. */
PU__FN void pu__unit_rows(pu__posterior *p, pu_int first, pu_int k)
{
    pu__clear(p->n_rows, k, p->t1, 0);
    for (pu_int j = 0; j < k; j++) {
        pu_int at = pu__place(p, first + j);
        pu__col(p->t1, j)[at] = p->now.w_root[at];
    }
}

/* A into a (D x D): by columns through X and Y (D x kmax), but where Phi is a matrix only Gamma, unless that is one
   too, and Phi'W Phi as a product of matrices. */
PU__FN pu_status pu__posterior_dense(pu__posterior *p, pu_block X, pu_block Y, pu_real *a)
{
    const pu_op *Gamma = p->model->Gamma;
    const pu_real *Phi = pu__phi_matrix(p);
    pu_int D = p->D, k;
    int whole = Phi && (Gamma->form == PU_FORM_MATRIX || Gamma->form == PU_FORM_SYMMETRIC);
    pu__matrix rows;
    if (whole)
        pu__copy(a, (const pu_real *)Gamma->data, D * D);
    for (pu_int first = 0; first < D && !whole; first += k) {
        k = pu__min(p->kmax, D - first);
        pu__clear(D, k, X, 0);
        for (pu_int j = 0; j < k; j++)
            pu__col(X, j)[first + j] = 1;
        if (Phi ? pu__gamma_apply(p, k, X, Y, 0) : p->kind->product(p, k, X, Y, 0, NULL))
            return PU_E_OPERATOR;
        for (pu_int j = 0; j < k; j++)
            pu__copy(a + (first + j) * D, pu__col(Y, j), D);
    }
    p->left = PU__LEFT_NOTHING;
    if (!Phi)
        return PU_OK;
    rows = pu__mat(Phi, D, 1);
    rows.list = p->list;
    rows.weight = p->w_all;
    pu__multiply(D, D, p->observed, pu__mat(Phi, 1, D), rows, pu__rows(a, D), PU__LOWER, p->panel);
    pu__mirror(D, a, 0);
    return PU_OK;
}

/* ------------------------------------------------------------------------------------------------
   >>engine   direct engines: a factor of A, solves with it, the gradient of 1/2 tr(A Sigma)

     dense    A = L L';  Sigma = sum_j s_j s_j' with s_j the columns of L'^-1, so that the exact gradient is the output gradient
              with those D columns, each of weight one
     dual     in the observed space: with R = W^1/2 Phi (m rows), G = Gamma^-1 R' and B = I + R G = L L',
                log det A = log det Gamma + log det B,   A^-1 u = Gamma^-1 u - G B^-1 G'u,   mu = nu + G B^-1 (W^1/2 e - R nu),
                Sigma = Gamma^-1 - G B^-1 G',   W Phi Sigma = W^1/2 B^-1 G',   R Sigma R' = I - B^-1
     banded   A = L diag(d) L' within the band, Sigma within the band by Takahashi's recursion. A block tridiagonal A with
              blocks of S is a band of 2 S - 1
     Kalman   filter and smoother (Rauch, Tung, Striebel) with square roots of covariances; then as banded

   An engine has four functions (pu__engine_functions), called in this order for a datum: prepare factors A, solve serves
   right-hand sides, spread and sigma use the factor up (the dual engine overwrites V and L with what they need).
   ------------------------------------------------------------------------------------------------ */

/* A state space for the Kalman engine: s_t = F s_{t-1} + N(0, Q), s_0 ~ N(0, P0). */
typedef struct {
    pu_int S, T, block; /* states, steps, entries of z per step */
    double F[PU__SSM_SQUARE];
    double Q[PU__SSM_SQUARE], P0[PU__SSM_SQUARE]; /* their lower Cholesky factors */
    double amplified; /* by how much rounding of F reaches variances, where F was made here; else 0 */
} pu__markov;

/* What the engine has for a chain: arrays in its workspace. */
typedef struct {
    const pu__chain *chain;
    pu_int wide;      /* r + S + 1: of a row of W */
    double *W;        /* (r + S) x wide: see above; the last S columns but one of its last S rows hold U */
    double *row;      /* wide */
    double *steps;    /* T x (r + r S + r r): V^-1 g, V^-1 G, V^-1 of each step */
    double *start;    /* (r0 + S) x (r0 + d + 1), likewise */
    double *inverse;  /* (r0 + d)^2: of its triangle */
    double *first;    /* r0 + d: the means of w_0 and of the diffuse states */
    double *L;        /* S x S, a lower triangle: L'L is the covariance of the step at hand, or of that before it */
    double *N;        /* (q + S) x S: N'N is that of the step at hand, see pu__chain_transition */
    pu_int q;         /* r; at the start r0 + d */
    double *square;   /* scratch: (S + 2) (S + r0 + d) */
    double *sums;     /* params of the operator */
    double value;     /* 1/2 |..|^2 at the mean */
    double trace;     /* tr(A Sigma), as it comes out */
    double largest;   /* of the shocks' means */
    double reference; /* what the level counts from */
    pu__value v;      /* sizes of the terms */
} pu__chain_work;

/* What a direct engine works with. The blocks x, u, q are the solver's, D x kmax. */
typedef struct {
    pu__posterior *post;
    pu_block x, u, q;    /* solutions, right-hand sides, scratch */
    pu_real *weight;     /* kmax: of the columns of x */
    pu_int width;        /* of the band of A */
    double gamma_logdet; /* log det Gamma */
    double logdet;       /* out: log det A */
    double norm;         /* out, banded: largest row sum of |A|, from above */
    pu_real least;       /* out, dense: smallest entry of diag(A) */
    double kappa;        /* out: by how much the factor enlarges rounding, see pu__pivot_ratio */
    double eps;          /* out: rounding of the arithmetic that made it */
    double given;        /* out: relative error that it began with */
    double prior;        /* out, dual: by how much prior variances exceed posterior ones, at most */
    const pu_real *gamma_diag; /* D, zero where it is not known */
    double lost;         /* out: by how much results are smaller than what they are the difference of */
    pu_real *diag;       /* D: diag(A), but not from the dual engine */
    int smoothed;        /* the Kalman smoother has made Z and the mean, in column */
    pu_real *L;          /* dense: D x D; dual: m x m */
    pu_real *s;          /* dual: m */
    pu_real *Y;          /* dual: scratch, m x m, and at least PU__SPAN wide */
    pu_block V;          /* dual: D x m */
    pu_real *row;        /* banded, Kalman: a row of Phi */
    double *band;        /* D x (width + 1): the factor; 1/d; Sigma within the band; a column */
    double *inverse, *Z, *column;
    pu__markov *markov;
    double *kalman;  /* Kalman, per step: see pu__kalman_prepare */
    double *squares; /* Kalman: six S x S matrices */
    pu__chain_work chain;
} pu__direct;

/* What an engine's functions are given: prepare: the number of the datum that post has loaded; solve: k columns u, the
   first of which is number `first` of the datum; sigma: where gradients are added up; spread: two diagonals, either
   may be NULL. */
#define PU__PREPARE_ARGS pu__direct *e, pu_int n, pu_report *report
#define PU__COLUMNS_ARGS pu__direct *e, PU_UNUSED pu_int first, PU_UNUSED pu_int k
#define PU__SIGMA_ARGS   pu__direct *e, pu_real *lane
#define PU__SPREAD_ARGS  pu__direct *e, pu_real *variance, pu_real *fit

/* L := the Cholesky factor of the m x m matrix in it. what: its name in messages. */
PU__FN pu_status pu__factor(pu__direct *e, pu_int m, const char *what, pu_int n, pu_report *report)
{
    pu_int bad = pu__find_nonfinite(m * m, e->L);
    if (bad >= 0)
        return pu__fail(report, PU_NONFINITE, what, n, bad);
    bad = pu__cholesky(m, e->L, m, e->post->panel);
    return bad < 0 ? PU_OK : pu__fail(report, PU_E_NOT_DEFINITE, what, n, bad * m + bad);
}

/* A result is off by that many eps even where nothing enlarges them: it has gone through a few sums (product, factor,
   solve, gradient), whose errors grow like the root of their length and are largely covered by kappa's own excess. */
#define PU__ROUNDINGS 8

/* The first k columns of x count with this weight. */
PU__FN void pu__set_weights(pu__direct *e, pu_int k, pu_real weight)
{
    for (pu_int j = 0; j < k; j++)
        e->weight[j] = weight;
}

/* ---- dense ---- */

/* L L' = A, and log det A. */
PU__FN pu_status pu__dense_prepare(PU__PREPARE_ARGS)
{
    pu__posterior *p = e->post;
    if (pu__posterior_dense(p, e->x, e->q, e->L))
        return pu__operator_failed(report, p->failed, n);
    e->least = e->L[0];
    for (pu_int i = 0; i < p->D; i++) {
        e->diag[i] = e->L[i * (p->D + 1)];
        if (e->diag[i] < e->least)
            e->least = e->diag[i];
    }
    if (pu__factor(e, p->D, "A", n, report))
        return report->status;
    e->kappa = pu__pivot_ratio(p->D, e->diag, 1, e->L);
    e->eps = (double)PU__EPS;
    e->lost = 1;
    e->logdet = 2 * pu__log_diagonal(p->D, e->L, p->D + 1);
    return PU_OK;
}

/* x = A^-1 u */
PU__FN pu_status pu__dense_solve(PU__COLUMNS_ARGS)
{
    pu_int D = e->post->D;
    for (pu_int j = 0; j < k; j++) {
        pu_real *x = pu__col(e->x, j);
        pu__copy(x, pu__col(e->u, j), D);
        pu__lower_solve(D, e->L, 0, x);
        pu__upper_solve(D, e->L, D - 1, x);
    }
    return PU_OK;
}

/* k columns of L'^-1, from `first` on, into x, with this weight. Column j of it is zero below row j. */
PU__FN void pu__dense_columns(pu__direct *e, pu_int first, pu_int k, pu_real weight)
{
    pu_int D = e->post->D;
    pu__clear(D, k, e->x, 0);
    for (pu_int j = 0; j < k; j++)
        pu__col(e->x, j)[first + j] = 1;
    pu__triangle(first + k, e->L, D, 1, k, e->x, 0, e->post->panel);
    pu__set_weights(e, k, weight);
}

/* lane += gradient of 1/2 tr(A Sigma), Sigma = sum of those columns */
PU__FN pu_status pu__dense_sigma(PU__SIGMA_ARGS)
{
    pu__posterior *p = e->post;
    pu_int k;
    for (pu_int first = 0; first < p->D; first += k) {
        k = pu__min(p->kmax, p->D - first);
        pu__dense_columns(e, first, k, PU_R(0.5));
        if (pu__posterior_square(p, k, e->x, e->weight, 0, lane))
            return PU_E_OPERATOR;
    }
    return PU_OK;
}

/* ---- dual ---- */

/* L L' = B = I + R G, with the rows of G' as columns of V, and log det A. Sigma will be a difference: B_jj is by how much
   what is known of observation j exceeds what is left of it. */
PU__FN pu_status pu__dual_prepare(PU__PREPARE_ARGS)
{
    pu__posterior *p = e->post;
    const pu_op *Gamma = p->model->Gamma;
    const pu_real *matrix = pu__phi_matrix(p);
    pu_int m = p->observed, k;
    pu_block V = e->V, R = e->x;
    pu_real *B = e->L;
    double least = HUGE_VAL;
    e->lost = 1;
    e->prior = 1;
    e->eps = (double)PU__EPS;
    if (m > 0)
        pu__zeros(B, m * m);
    /* k rows of R and of G', then those columns of B down to the diagonal */
    for (pu_int first = 0; first < m; first += k) {
        k = pu__min(p->kmax, m - first);
        if (!matrix)
            pu__unit_rows(p, first, k);
        if (!matrix && pu__phi_apply_t(p, k, p->t1, R, 0))
            return pu__operator_failed(report, p->failed, n);
        for (pu_int j = 0; matrix && j < k; j++) { /* W^1/2 times rows of Phi */
            pu_real root = p->now.w_root[pu__place(p, first + j)];
            const pu_real *row = matrix + p->list[first + j] * p->D;
            for (pu_int i = 0; i < p->D; i++)
                pu__col(R, j)[i] = root * row[i];
        }
        if (Gamma->solve(Gamma, k, R, pu__from(V, first), p->work))
            return pu__operator_failed(report, "Gamma.solve", n);
        pu__multiply(first + k, k, p->D, pu__mat(V.at, V.ld, 1), pu__mat(R.at, 1, R.ld), pu__rows(B + first, m),
                     PU__UPPER, p->panel);
    }
    pu__mirror(m, B, 1);
    for (pu_int i = 0; i < m; i++) {
        B[i * m + i] += 1;
        e->s[i] = B[i * m + i];
        e->prior = pu__max(e->prior, (double)e->s[i]);
        if ((double)e->s[i] < least)
            least = (double)e->s[i];
    }
    if (pu__factor(e, m, "I + R Gamma^-1 R'", n, report))
        return report->status;
    /* rows of different size disturb each other, too, because gradients are not scaled as B is */
    e->kappa = m > 0 ? pu__max(pu__pivot_ratio(m, e->s, 1, B), e->prior / least) : 1;
    e->logdet = e->gamma_logdet + 2 * pu__log_diagonal(m, B, m + 1);
    return PU_OK;
}

/* x = A^-1 u; column 0 of a datum is its mean. */
PU__FN pu_status pu__dual_solve(PU__COLUMNS_ARGS)
{
    pu__posterior *p = e->post;
    const pu_op *Gamma = p->model->Gamma;
    const pu_real *nu = p->model->nu;
    pu_block V = e->V;
    pu_real *s = e->s;
    pu_int D = p->D, m = p->observed, i;
    for (pu_int j = 0; j < k; j++) {
        pu_block x = pu__from(e->x, j), u = pu__from(e->u, j);
        if (first + j == 0) {
            /* x = nu and s = W^1/2 e - R nu: the mean this way has no cancellation to suffer */
            pu__zeros(x.at, D);
            if (nu)
                pu__copy(x.at, nu, D);
            if (nu && pu__phi_apply(p, 1, x, p->t0))
                return PU_E_OPERATOR;
            for (i = 0; i < m; i++) {
                pu_int at = pu__place(p, i);
                s[i] = p->now.w_root[at] * (p->now.e[at] - (nu ? p->t0.at[at] : 0));
            }
        } else {
            /* x = Gamma^-1 u and s = -G'u */
            if (Gamma->solve(Gamma, 1, u, x, p->work))
                return pu__note_failure(p, PU_E_OPERATOR, "Gamma.solve");
            for (i = 0; i < m; i++)
                s[i] = -(pu_real)pu__dot(D, NULL, pu__col(V, i), u.at);
        }
        /* x += G B^-1 s */
        pu__lower_solve(m, e->L, 0, s);
        pu__upper_solve(m, e->L, m - 1, s);
        for (i = 0; i + 4 <= m; i += 4)
            pu__axpy4(D, s + i, pu__col(V, i), pu__col(V, i + 1), pu__col(V, i + 2), pu__col(V, i + 3), x.at);
        for (; i < m; i++)
            pu__axpy(D, s[i], pu__col(V, i), x.at);
    }
    return PU_OK;
}

/* V := L^-1 V or L'^-1 V (transposed) by rows, that is V = G L'^-1 or G B^-1; as many columns of L^-1 V at a time as
   stay in cache. */
PU__FN void pu__dual_sweep(pu__direct *e, int transposed)
{
    const pu__posterior *p = e->post;
    pu_int m = p->observed, wide = 256;
    for (pu_int at = 0; at < p->D; at += wide)
        pu__triangle(m, e->L, m, transposed, pu__min(wide, p->D - at), pu__below(e->V, at), 1, p->panel);
}

/* L := B^-1 = L'^-1 L^-1, both triangles, with Y = L^-1. Y_ij and its part in (B^-1)_jk are zero where i < j. */
PU__FN void pu__dual_invert(pu__direct *e)
{
    pu_int m = e->post->observed, some = 64;
    pu_real *Y = e->Y, *L = e->L, *panel = e->post->panel;
    pu__zeros(Y, m * m);
    for (pu_int i = 0; i < m; i++)
        Y[i * m + i] = 1;
    for (pu_int first = 0; first < m; first += some) {
        pu_int corner = first * (m + 1);
        pu__triangle(m - first, L + corner, m, 0, pu__min(some, m - first), pu__rows(Y + corner, m), 1, panel);
    }
    pu__zeros(L, m * m);
    for (pu_int first = 0; first < m; first += some) {
        pu_int end = pu__min(first + some, m);
        const pu_real *rows = Y + first * m;
        pu__multiply(end, end, end - first, pu__mat(rows, 1, m), pu__mat(rows, m, 1), pu__rows(L, m), PU__LOWER, panel);
    }
    pu__mirror(m, L, 0);
}

/* V := B^-1 V by rows, that is V = G B^-1, with B^-1 in L. */
PU__FN void pu__dual_product(pu__direct *e)
{
    const pu__posterior *p = e->post;
    pu_int m = p->observed;
    pu_block V = e->V;
    pu_real *Y = e->Y;
    pu_int wide;
    for (pu_int at = 0; at < p->D; at += wide) {
        wide = pu__min(PU__SPAN, p->D - at);
        pu__zeros(Y, m * wide);
        pu__multiply(m, wide, m, pu__mat(e->L, m, 1), pu__mat(V.at + at, V.ld, 1), pu__rows(Y, wide), PU__ADD,
                     p->panel);
        for (pu_int i = 0; i < m; i++)
            pu__copy(pu__col(V, i) + at, Y + i * wide, wide);
    }
}

/* Gamma's gradient takes differences of V, which is larger than they are by up to Gamma_ii (V V')_ii. */
PU__FN void pu__dual_lost(pu__direct *e)
{
    for (pu_int i = 0; i < e->post->D; i++) {
        double sum = 0;
        for (pu_int j = 0; j < e->post->observed; j++) {
            double v = (double)pu__col(e->V, j)[i];
            sum += v * v;
        }
        e->lost = pu__max(e->lost, (double)e->gamma_diag[i] * sum);
    }
}

/* lane += gradient of 1/2 tr(A Sigma). Gamma's part is that of -1/2 tr(Gamma V V'), V = G L'^-1, which Sigma lacks of
   Gamma^-1; the part of Gamma^-1 itself is left to pu__finish_Gamma, where it meets -1/2 log det Gamma. */
PU__FN pu_status pu__dual_sigma(PU__SIGMA_ARGS)
{
    pu__posterior *p = e->post;
    const pu__slots *s = &p->slots;
    const pu_op *Gamma = p->model->Gamma;
    pu_int m = p->observed, k;
    if (m == 0)
        return PU_OK; /* and neither Y nor L is there */
    if (s->want_Gamma) {
        pu__dual_sweep(e, 0); /* V = G L'^-1 */
        pu__dual_lost(e);
        pu__set_weights(e, p->kmax, PU_R(-0.5));
        for (pu_int first = 0; first < m; first += k) {
            pu_block V = pu__from(e->V, first);
            k = pu__min(p->kmax, m - first);
            if (Gamma->grad(Gamma, k, V, V, e->weight, lane, p->work))
                return pu__note_failure(p, PU_E_OPERATOR, "Gamma.grad");
        }
        if (s->want_Phi)
            pu__dual_sweep(e, 1); /* V = G B^-1 = Sigma R' */
    }
    if (s->want_psi || s->want_Phi)
        pu__dual_invert(e);
    for (pu_int j = 0; s->want_psi && j < m; j++) { /* (R Sigma R')_jj = 1 - (B^-1)_jj */
        double b = (double)e->L[j * (m + 1)];
        lane[s->psi + p->list[j]] += (pu_real)((1 - b) / (2 * (double)p->now.w[pu__place(p, j)]));
    }
    if (!s->want_Phi)
        return PU_OK;
    if (!s->want_Gamma)
        pu__dual_product(e); /* the same V: one product of matrices costs less than two sweeps */
    /* Phi's part is W^1/2 V', one row for each column of V */
    lane += s->Phi;
    if (pu__phi_matrix(p)) {
        for (pu_int j = 0; j < m; j++)
            pu__axpy(p->D, p->now.w_root[pu__place(p, j)], pu__col(e->V, j), lane + p->list[j] * p->D);
        return PU_OK;
    }
    pu__set_weights(e, p->kmax, 1);
    for (pu_int first = 0; first < m; first += k) {
        k = pu__min(p->kmax, m - first);
        pu__unit_rows(p, first, k);
        if (pu__phi_grad(p, k, p->t1, pu__from(e->V, first), e->weight, lane))
            return PU_E_OPERATOR;
    }
    return PU_OK;
}

/* ---- banded ---- */

/* Row m of a map into e->row: its first column into *first. Returns its length, or -1 where the row leaves the matrix. */
PU__INLINE pu_int pu__map_row(pu__direct *e, const pu_op *map, pu_int m, pu_int *first)
{
    pu_int count = map->row(map, m, first, e->row);
    return count < 0 || count > map->band + 1 || *first < 0 || *first + count > e->post->D ? -1 : count;
}

/* Row m of Phi, likewise. */
PU__INLINE pu_int pu__phi_row(pu__direct *e, pu_int m, pu_int *first)
{
    return pu__map_row(e, e->post->model->Phi, m, first);
}

/* A into the band, its factor, log det A. */
PU__FN pu_status pu__banded_prepare(PU__PREPARE_ARGS)
{
    const pu__posterior *p = e->post;
    const pu_op *Gamma = p->model->Gamma;
    double *band = e->band, most = 0, kappa = 1;
    pu_int D = p->D, wide = e->width + 1;
    pu__logs logs = {0, 1};
    pu_int bad;
    memset(band, 0, (size_t)(D * wide) * sizeof *band);
    if (Gamma->band_add(Gamma, e->width, band))
        return pu__operator_failed(report, "Gamma.band_add", n);
    for (pu_int i = 0; i < p->observed; i++) { /* A += psi_m phi_m phi_m' */
        pu_int at = 0, row = p->list[i], count = pu__phi_row(e, row, &at);
        if (count < 0)
            return pu__operator_failed(report, "Phi.row", n);
        for (pu_int j = 0; j < count; j++) {
            double scaled = (double)p->model->psi[row] * (double)e->row[j];
            for (pu_int l = 0; l <= j; l++)
                band[(at + j) * wide + j - l] += scaled * (double)e->row[l];
        }
    }
    for (pu_int i = 0; i < D; i++) {
        e->diag[i] = (pu_real)band[i * wide];
        most = pu__max(most, band[i * wide]);
    }
    e->norm = 2 * (double)wide * most; /* no entry of a positive definite matrix is larger than its diagonal's largest */
    bad = pu__band_factor(D, e->width, band, e->inverse);
    if (bad >= 0)
        return pu__fail(report, PU_E_NOT_DEFINITE, "A", n, bad * D + bad);
    for (pu_int i = 0; i < D; i++) {
        pu__logs_add(&logs, band[i * wide]);
        kappa = pu__max(kappa, (double)e->diag[i] * e->inverse[i]);
    }
    e->kappa = kappa;
    e->eps = Gamma->form == PU_FORM_AR ? (double)PU__EPS : DBL_EPSILON; /* of the entries, or of the factor */
    e->lost = 1;
    e->smoothed = 0;
    e->logdet = logs.sum + log(logs.product);
    return PU_OK;
}

/* x = A^-1 u, in double. The Kalman smoother serves b alone, and has left the mean in e->column. */
PU__FN pu_status pu__banded_solve(PU__COLUMNS_ARGS)
{
    pu_int D = e->post->D;
    PU_ASSERT(!e->smoothed || (first == 0 && k == 1));
    for (pu_int j = 0; j < k; j++) {
        if (!e->smoothed) {
            pu__ssm_widen(D, pu__col(e->u, j), e->column);
            pu__band_solve(D, e->width, e->band, e->inverse, e->column);
        }
        for (pu_int i = 0; i < D; i++)
            pu__col(e->x, j)[i] = (pu_real)e->column[i];
    }
    return PU_OK;
}

/* Z = Sigma inside the band; the Kalman smoother has made it. Gradients are made of its differences: it is larger than
   they are by up to A_ii Z_ii. Variances are not: the smoother's are right even where A_ii Z_ii is 1/eps. */
PU__FN void pu__band_sigma(pu__direct *e, int gradients)
{
    pu_int D = e->post->D;
    double worst = 1;
    if (!e->smoothed)
        pu__band_inverse(D, e->width, e->band, e->inverse, e->Z);
    for (pu_int i = 0; i < D; i++)
        worst = pu__max(worst, (double)e->diag[i] * e->Z[i * (e->width + 1)]);
    if (!e->smoothed)
        e->kappa = pu__max(e->kappa, worst);
    if (gradients || !e->smoothed)
        e->lost = worst;
}

/* lane += gradient of 1/2 tr(A Z), Z inside the band: <Z, Gamma>, psi_m phi_m'Z phi_m. */
PU__FN pu_status pu__band_terms(PU__SIGMA_ARGS)
{
    pu__posterior *p = e->post;
    const pu__slots *s = &p->slots;
    const pu_op *Gamma = p->model->Gamma, *Phi = p->model->Phi;
    pu_int wide = e->width + 1;
    if (s->want_Gamma && Gamma->band_grad(Gamma, e->width, e->Z, 0.5, lane))
        return pu__note_failure(p, PU_E_OPERATOR, "Gamma.band_grad");
    if (!s->want_Phi && !s->want_psi)
        return PU_OK;
    for (pu_int i = 0; i < p->observed; i++) {
        pu_int at = 0, row = p->list[i], count = pu__phi_row(e, row, &at);
        double psi = (double)p->model->psi[row], square = 0;
        for (pu_int j = 0; j < count; j++) {
            double z = 0; /* (Z phi_m)_j */
            for (pu_int l = 0; l < count; l++)
                z += e->Z[(at + pu__most(j, l)) * wide + (j > l ? j - l : l - j)] * (double)e->row[l];
            square += z * (double)e->row[j];
            e->column[j] = z * psi;
        }
        lane[s->psi + row] += (pu_real)(square / 2);
        if (s->want_Phi && Phi->row_grad(Phi, row, e->column, lane + s->Phi))
            return pu__note_failure(p, PU_E_OPERATOR, "Phi.row_grad");
    }
    return PU_OK;
}

/* ---- Kalman ----
   Filter and smoother work on factors of their covariances, P = C C', which orthogonal transformations from the right
   make triangular. A variance is then a sum of squares and cannot become negative, and half as many digits are lost
   as with the covariances themselves (Park and Kailath 1995). */

/* How many states the state space behind Gamma has, 0 when there is none. */
PU__FN pu_int pu__markov_states(const pu_op *Gamma)
{
    pu_int order;
    if (Gamma->form == PU_FORM_STATES)
        return ((const pu_ssm *)Gamma->data)->states;
    if (Gamma->form != PU_FORM_AR)
        return 0;
    order = pu__ar_of(Gamma)->order;
    return order > PU_SSM_MAX ? 0 : pu__most(order, 1);
}

/* An AR(P) in companion form, s_t = (z_t .. z_{t-P+1}). The factor of P0 is the inverse of the first rows of X, see pu_ar:
   z_t + sum_j a^(t)_j z_{t-j} is what z_t has of its own. No equation for P0 need be solved, which near a unit root has
   hardly a solution; and a stationary series is the same backwards. */
PU__FN void pu__markov_of_ar(const pu_ar *ar, pu_int S, pu__markov *k)
{
    double a[PU_AR_MAX + 1], s[PU_AR_MAX + 1];
    k->T = ar->n;
    k->block = 1;
    memset(k->F, 0, sizeof k->F);
    memset(k->Q, 0, sizeof k->Q);
    memset(k->P0, 0, sizeof k->P0);
    k->Q[0] = sqrt((double)ar->kappa);
    pu__ar_spread(ar, s);
    for (pu_int t = 0; t < S; t++) {
        double *row = k->P0 + t * S;
        pu__ar_grow(ar, t, a);
        for (pu_int j = 1; j <= t; j++)
            for (pu_int i = 0; i <= t - j; i++)
                row[i] -= a[j] * row[i - j * S];
        row[t] = sqrt((double)ar->kappa / s[t]);
    }
    /* F: the coefficients in the first row, ones below the diagonal */
    pu__ar_predictor(ar, ar->order, a);
    for (pu_int j = 0; j < ar->order; j++)
        k->F[j] = -a[j + 1];
    for (pu_int i = 1; i < S; i++)
        k->F[i * S + i - 1] = 1;
    k->amplified = 1 / s[0];
}

/* The state space behind Gamma, 0 when there is none: a pu_ssm as it is, or an AR(P). */
PU__FN int pu__markov_of(const pu_op *Gamma, pu__markov *k)
{
    double ignored = 0;
    int states = Gamma->form == PU_FORM_STATES;
    pu_int S = pu__markov_states(Gamma);
    if (S == 0)
        return 0;
    if (states) {
        const pu_ssm *m = (const pu_ssm *)Gamma->data;
        k->block = S;
        k->T = m->steps;
        memcpy(k->F, m->A_set, sizeof k->F);
        pu__ssm_symmetric(S, m->Q, k->Q);
        memcpy(k->P0, m->P0, sizeof k->P0);
        k->amplified = 0;
    } else {
        pu__markov_of_ar(pu__ar_of(Gamma), S, k);
    }
    k->S = S;
    if (states && (pu__cholesky_double(S, k->Q, &ignored) >= 0 || pu__cholesky_double(S, k->P0, &ignored) >= 0))
        return 0;
    for (pu_int i = 0; i < S * S; i++)
        if (i % S > i / S)
            k->Q[i] = k->P0[i] = 0;
    return 1;
}

/* y += a x over S states. */
PU__FN void pu__kalman_add(pu_int S, const double *a, const double *x, double *y)
{
    for (pu_int i = 0; i < S; i++)
        for (pu_int j = 0; j < S; j++)
            y[i] += a[i * S + j] * x[j];
}

/* a (rows x cols, rows <= cols) := a U, U orthogonal, such that a becomes lower triangular: a a' stays as it is.
   Reflections of Householder, one for each row. */
PU__FN void pu__triangularise(pu_int rows, pu_int cols, double *a)
{
    for (pu_int i = 0; i < rows; i++) {
        double *v = a + i * cols, size = 0, square = 0, twice;
        /* scaled by the largest entry, so that squares neither overflow nor vanish */
        for (pu_int j = i; j < cols; j++)
            size = pu__max(size, fabs(v[j]));
        if (!(size > 0))
            continue;
        for (pu_int j = i; j < cols; j++)
            square += v[j] / size * (v[j] / size);
        size *= v[i] > 0 ? -sqrt(square) : sqrt(square); /* the sign without cancellation */
        /* row -= twice (row'v / v'v) v, with v scaled to begin with 1 */
        v[i] -= size;
        twice = -v[i] / size;
        for (pu_int j = i + 1; j < cols; j++)
            v[j] /= v[i];
        for (pu_int l = i + 1; l < rows; l++) {
            double *row = a + l * cols, sum = row[i];
            for (pu_int j = i + 1; j < cols; j++)
                sum += row[j] * v[j];
            sum *= twice;
            row[i] -= sum;
            for (pu_int j = i + 1; j < cols; j++)
                row[j] -= sum * v[j];
        }
        v[i] = size;
        for (pu_int j = i + 1; j < cols; j++)
            v[j] = 0;
    }
}

/* Takes the observed rows of step t, from the seen-th on, into the mean m and the lower triangular factor C, one by one.
   With f = C'h and a_j = 1/psi + sum_{l >= j} f_l^2 (Carlson 1973):
     C_ij := (a_{j+1} C_ij - f_j k_i) / (a_{j+1} a_j)^1/2,   k_i = sum_{l > j} C_il f_l,
   which multiplies the diagonal and subtracts nothing from it. seen counts on; logs: the sum of log(variance psi). */
PU__FN pu_status pu__kalman_absorb(pu__direct *e, pu_int t, pu_int *seen, double *m, pu__logs *logs, pu_int n,
                                   pu_report *report)
{
    const pu__markov *markov = e->markov;
    const pu__posterior *p = e->post;
    const pu_real *nu = p->model->nu;
    pu_int S = markov->S, block = markov->block;
    double *C = e->squares;
    for (; *seen < p->observed; ++*seen) {
        pu_int at = 0, row = p->list[*seen], count = pu__phi_row(e, row, &at), within = at % block;
        double psi = (double)p->model->psi[row], residual = (double)p->now.e[pu__place(p, *seen)];
        double h[PU_SSM_MAX] = {0}, k[PU_SSM_MAX] = {0}, a = 1 / psi;
        if (count < 1 || at < t * block || within + count > block) /* out of order, or two steps at once */
            return pu__fail(report, PU_E_UNSUPPORTED, "Phi.row (Kalman: one time step per row, in order)", n, row);
        if (at >= (t + 1) * block)
            break;
        for (pu_int j = 0; j < count; j++) {
            double entry = (double)e->row[j];
            h[within + j] = entry;
            e->diag[at + j] += (pu_real)(psi * entry * entry);
            if (nu)
                residual -= entry * (double)nu[at + j];
        }
        for (pu_int j = S - 1; j >= 0; j--) {
            double f = 0, next = a, root;
            for (pu_int i = j; i < S; i++)
                f += C[i * S + j] * h[i];
            residual -= h[j] * m[j];
            a += f * f;
            root = sqrt(next) * sqrt(a);
            for (pu_int i = j; i < S; i++) {
                double old = C[i * S + j];
                C[i * S + j] = (next * old - f * k[i]) / root;
                k[i] += old * f;
            }
        }
        if (!(a > 0 && pu__finite_double(a)))
            return pu__fail(report, PU_E_NOT_DEFINITE, "A", n, row);
        pu__logs_add(logs, a * psi);
        for (pu_int i = 0; i < S; i++)
            m[i] += k[i] / a * residual;
    }
    return PU_OK;
}

/* From the factor C of P_t to that of P_{t+1} before its observations, which takes the place of C, and what the smoother
   needs of the step: J = P F'P_ahead^-1, and a factor of what s_t keeps when s_{t+1} is known.
     [F C  Q^1/2]  U  =  [C_ahead    0  ]       J = X C_ahead^-1
     [ C     0  ]        [   X     C_kept]
   filtered: the diagonal of P_t. Reflections round each row relative to its length, the standard deviation of that state;
   what matters of it is C_ii, the deviation that the states before leave open: kappa is the largest ratio of the two. */
PU__FN void pu__kalman_ahead(pu__direct *e, double *J, double *kept, double *filtered)
{
    const pu__markov *k = e->markov;
    pu_int S = k->S, SS = S * S, wide = 2 * S;
    double *C = e->squares, *a = C + SS;
    pu__ssm_mul(S, k->F, 0, C, 0, kept);
    for (pu_int i = 0; i < SS; i++) {
        pu_int at = i / S * wide + i % S;
        a[at] = kept[i];
        a[at + S] = k->Q[i];
        a[at + S * wide] = C[i];
        a[at + S * wide + S] = 0;
    }
    pu__triangularise(wide, wide, a);
    for (pu_int i = 0; i < S; i++) {
        const double *row = a + i * wide, *below = row + S * wide;
        double size = 0;
        filtered[i] = pu__ssm_dot(S, C + i * S, C + i * S);
        memcpy(C + i * S, row, (size_t)S * sizeof *C);
        memcpy(J + i * S, below, (size_t)S * sizeof *J);
        memcpy(kept + i * S, below + S, (size_t)S * sizeof *J);
        for (pu_int j = 0; j <= i; j++)
            size += row[j] * row[j];
        e->kappa = pu__max(e->kappa, sqrt(size) / fabs(row[i]));
    }
    /* J C_ahead = X, column by column from the last; a state that is known needs no gain */
    for (pu_int i = 0; i < S; i++)
        for (pu_int j = S - 1; j >= 0; j--) {
            for (pu_int l = j + 1; l < S; l++)
                J[i * S + j] -= J[i * S + l] * C[l * S + j];
            J[i * S + j] = C[j * S + j] == 0 ? 0 : J[i * S + j] / C[j * S + j];
        }
}

/* One smoother step: from the mean and the factor of Sigma_{t+1} (e->squares) to those of step t, with m the filtered
   mean, ahead the predicted one. squares: [G_t | Sigma_t | cov(s_{t+1}, s_t) | scratch], Sigma_t = G_t G_t'. */
PU__FN void pu__kalman_smooth(pu__direct *e, const double *m, const double *ahead, const double *J, double *mean)
{
    pu_int S = e->markov->S, SS = S * S, wide = 2 * S;
    const double *kept = J + SS, *filtered = kept + SS;
    double *G = e->squares, *Sigma = G + SS, *cross = Sigma + SS, *JG = cross + SS, *a = JG + SS;
    double difference[PU_SSM_MAX];
    /* mean_t = m + J (mean_{t+1} - ahead) */
    for (pu_int i = 0; i < S; i++) {
        difference[i] = mean[i] - ahead[i];
        mean[i] = m[i];
    }
    pu__kalman_add(S, J, difference, mean);
    /* Sigma_t = kept kept' + J Sigma_{t+1} J',   cov(s_{t+1}, s_t) = Sigma_{t+1} J' */
    pu__ssm_mul(S, J, 0, G, 0, JG);
    pu__ssm_mul(S, G, 0, JG, 1, cross);
    for (pu_int i = 0; i < SS; i++) {
        a[i / S * wide + i % S] = kept[i];
        a[i / S * wide + S + i % S] = JG[i];
    }
    pu__triangularise(S, wide, a);
    for (pu_int i = 0; i < S; i++)
        memcpy(G + i * S, a + i * wide, (size_t)S * sizeof *G);
    pu__ssm_mul(S, G, 0, G, 1, Sigma);
    /* rows of what is kept were rounded relative to the filtered deviation, and stand beside the smoothed one */
    for (pu_int i = 0; i < S; i++)
        e->kappa = pu__max(e->kappa, sqrt(filtered[i] / Sigma[i * S + i]));
}

/* Filter forward, smoother backward. Every observed row of Phi sees one time step; rows come in order of time. z
   counts from nu. Per step e->kalman has the filtered mean, the predicted one, J, the factor of what is kept, and the
   filtered variances. */
PU__FN pu_status pu__kalman_prepare(PU__PREPARE_ARGS)
{
    pu__markov *k = e->markov;
    const pu_op *Gamma = e->post->model->Gamma;
    const pu_real *nu = e->post->model->nu;
    pu_int S = pu__markov_states(Gamma), SS = S * S, reals = 3 * S + 2 * SS, wide = e->width + 1, seen = 0, block;
    double *C = e->squares, *Sigma = C + SS, *cross = Sigma + SS;
    double mean[PU_SSM_MAX];
    pu__logs logs = {0, 1};
    if (k->S == 0)
        (void)pu__markov_of(Gamma, k); /* where there is none the engine was refused */
    block = k->block;
    e->kappa = 1;
    pu__zeros(e->diag, e->post->D);
    if (Gamma->diag(Gamma, e->diag, e->post->work))
        return pu__operator_failed(report, "Gamma.diag", n);
    memcpy(C, k->P0, (size_t)SS * sizeof *C);
    for (pu_int t = 0; t < k->T; t++) {
        double *m = e->kalman + t * reals, *ahead = m + S;
        memset(ahead, 0, (size_t)S * sizeof *m);
        if (t > 0) {
            double *J = ahead - reals + S;
            pu__kalman_ahead(e, J, J + SS, J + 2 * SS);
            pu__kalman_add(S, k->F, m - reals, ahead);
        }
        memcpy(m, ahead, (size_t)S * sizeof *m);
        if (pu__kalman_absorb(e, t, &seen, m, &logs, n, report))
            return report->status;
    }
    e->logdet = e->gamma_logdet + logs.sum + log(logs.product); /* det(y's covariance) det Gamma det Psi = det A */
    for (pu_int t = k->T - 1; t >= 0; t--) {
        const double *m = e->kalman + t * reals;
        double *Z = e->Z + t * block * wide, *next = Z + block * wide;
        int inner = t + 1 < k->T;
        if (inner)
            pu__kalman_smooth(e, m, m + reals + S, m + 2 * S, mean);
        else {
            memcpy(mean, m, (size_t)S * sizeof *mean);
            pu__ssm_mul(S, C, 0, C, 1, Sigma);
        }
        /* into the mean and the band of Sigma */
        for (pu_int i = 0; i < block; i++)
            e->column[t * block + i] = mean[i] + (nu ? (double)nu[t * block + i] : 0);
        /* an autoregression's states are z_t, z_{t-1}, ..: the first row of Sigma_t is one of the band */
        for (pu_int j = 0; block == 1 && j < S && j <= t && j < wide; j++)
            Z[j] = Sigma[j];
        if (block == 1 && inner && t + 1 >= S && S < wide)
            next[S] = cross[S - 1];
        for (pu_int i = 0; block > 1 && i < S; i++) {
            for (pu_int j = 0; j <= i; j++)
                Z[i * wide + i - j] = Sigma[i * S + j];
            for (pu_int j = 0; inner && j < S; j++)
                next[i * wide + S + i - j] = cross[i * S + j];
        }
    }
    e->eps = DBL_EPSILON;
    e->given = e->eps * k->amplified;
    e->smoothed = 1;
    e->lost = 1;
    return PU_OK;
}

/* ---- chains ----
   Backward in time the engine keeps what the observations from t on say of s_t, as a least squares problem in triangular form:
     -log p(y_t, y_{t+1}, .. | s_t) = 1/2 |U s_t - u|^2 + value + logs
   A row of observations is rotated into U. A step back writes s_t = F s_{t-1} + B w_t, adds 1/2 |w_t|^2 and triangularises
     [ I    0  |  0 ]        [ V  G  | g ]
     [ U B  U F |  u ]   =>   [ 0  U' | u']     so that w_t | s_{t-1}, y ~ N(V^-1 (g - G s_{t-1}), V^-1 V'^-1).
   What is integrated out leaves log det V. At the start the same is done with [B0 w_0 + delta] in the place of s_0: a diffuse state
   has no row of its own in this, and no large number stands for what is not known. Rotations leave zeros alone, so that
   the cost follows the zeros of F and B. Forward in time the means and covariances follow, sums without a difference:
     s_t = M s_{t-1} + B V^-1 g + B V^-1 N(0, I),   M = F - B V^-1 G
   The gradient is that of the shocks' density, E of the posterior (Fisher's identity): d/dK = I - E w w', d/dDelta = -E w s'. */

/* Rotates the rows x and y, entries first .. last - 1, so that y[at] becomes zero. */
PU__INLINE void pu__givens(pu_int first, pu_int last, pu_int at, double *PU__RESTRICT x, double *PU__RESTRICT y)
{
    double a = x[at], b = y[at], square = a * a + b * b, root, c, s;
    root = square > 1e-280 && square < 1e280 ? sqrt(square) : hypot(a, b);
    c = a / root;
    s = b / root;
    for (pu_int i = first; i < last; i++) {
        double old = x[i];
        x[i] = c * old + s * y[i];
        y[i] = c * y[i] - s * old;
    }
    x[at] = root;
    y[at] = 0;
}

/* Makes the first `cols` columns of W (rows x wide) triangular. Rows below are taken from the last one on, so that a triangle
   that is there already stays one. */
PU__FN void pu__triangular(pu_int rows, pu_int cols, pu_int wide, double *W)
{
    for (pu_int j = 0; j < cols; j++)
        for (pu_int i = rows - 1; i > j; i--)
            if (W[i * wide + j] != 0)
                pu__givens(j, wide, j, W + j * wide, W + i * wide);
}

/* X = V^-1 for the upper triangle V in the first n columns of W. */
PU__FN void pu__invert_upper(pu_int n, pu_int wide, const double *W, double *X)
{
    memset(X, 0, (size_t)(n * n) * sizeof *X);
    for (pu_int i = n - 1; i >= 0; i--) {
        const double *row = W + i * wide;
        double *x = X + i * n;
        for (pu_int k = i + 1; k < n; k++)
            for (pu_int j = k; j < n; j++)
                x[j] -= row[k] * X[k * n + j];
        x[i] = 1;
        for (pu_int j = i; j < n; j++)
            x[j] /= row[i];
    }
}

/* The observed row number `place` if it is of step t: its entries into h, *count of them, from state *first on. Returns the row
   of Phi; -1 when it is of another step, or there is none; -2 when it is not of one step. */
PU__FN pu_int pu__chain_row(pu__direct *e, pu_int t, pu_int place, double *h, pu_int *first, pu_int *count)
{
    const pu__posterior *p = e->post;
    pu_int S = e->chain.chain->S, row, at = 0;
    if (place < 0 || place >= p->observed)
        return -1;
    row = p->list[place];
    *count = pu__phi_row(e, row, &at);
    if (*count < 1 || at / S != (at + *count - 1) / S)
        return -2;
    if (at / S != t)
        return -1;
    *first = at % S;
    for (pu_int j = 0; j < *count; j++)
        h[j] = (double)e->row[j];
    return row;
}

/* Log of the product of the first n pivots of W, which are positive or were never touched: added to logs. The largest ratio
   of a column to its pivot goes to kappa. */
PU__FN void pu__chain_pivots(pu__direct *e, pu_int n, pu_int wide, const double *W, pu__logs *logs)
{
    for (pu_int j = 0; j < n; j++) {
        double square = 0, pivot = fabs(W[j * (wide + 1)]);
        for (pu_int i = 0; i <= j; i++)
            square += W[i * wide + j] * W[i * wide + j];
        e->kappa = pu__max(e->kappa, sqrt(square) / pivot);
        pu__logs_add(logs, pivot);
    }
}

/* Step t's shocks out of W: see above. What the way forward needs of them is kept. */
PU__FN void pu__chain_back(pu__direct *e, pu_int t, pu__logs *logs)
{
    pu__chain_work *c = &e->chain;
    const pu__chain *k = c->chain;
    pu_int S = k->S, r = k->r, wide = c->wide;
    double *g = c->steps + t * (r + r * S + r * r), *G = g + r, *Vi = G + r * S;
    /* [U B | U F | u], row by row */
    for (pu_int i = 0; i < S; i++) {
        double *to = c->W + (r + i) * wide;
        memset(c->row, 0, (size_t)(r + S) * sizeof *to);
        for (pu_int j = i; j < S; j++) {
            double u = to[r + j];
            if (u == 0)
                continue;
            for (pu_int at = k->B.start[j]; at < k->B.start[j + 1]; at++)
                c->row[k->B.col[at]] += u * k->B.value[at];
            for (pu_int at = k->F.start[j]; at < k->F.start[j + 1]; at++)
                c->row[r + k->F.col[at]] += u * k->F.value[at];
        }
        memcpy(to, c->row, (size_t)(r + S) * sizeof *to);
    }
    memset(c->W, 0, (size_t)(r * wide) * sizeof *c->W);
    for (pu_int j = 0; j < r; j++)
        c->W[j * (wide + 1)] = 1;
    pu__triangular(r + S, r + S, wide, c->W);
    pu__chain_pivots(e, r, wide, c->W, logs);
    pu__invert_upper(r, wide, c->W, Vi);
    for (pu_int i = 0; i < r; i++) {
        g[i] = 0;
        memset(G + i * S, 0, (size_t)S * sizeof *G);
        for (pu_int l = i; l < r; l++) {
            const double *row = c->W + l * wide + r;
            double v = Vi[i * r + l];
            for (pu_int j = 0; j < S; j++)
                G[i * S + j] += v * row[j];
            g[i] += v * row[S];
        }
    }
}

/* e of the observed row number `place`, from the reference on. */
PU__FN double pu__chain_e(const pu__direct *e, pu_int place, const pu_real *h, pu_int first, pu_int count)
{
    const pu__chain_work *c = &e->chain;
    pu_int level = c->chain->level - first;
    double y = (double)e->post->now.e[pu__place(e->post, place)];
    return level >= 0 && level < count ? y - c->reference * (double)h[level] : y;
}

/* The observed rows of step t into U, from the seen-th on backward. */
PU__FN pu_status pu__chain_absorb(pu__direct *e, pu_int t, pu_int *seen, pu_int n, pu_report *report)
{
    pu__chain_work *c = &e->chain;
    const pu__posterior *p = e->post;
    pu_int S = c->chain->S, r = c->chain->r, wide = c->wide, first = 0, count = 0;
    for (;; --*seen) {
        double *y = c->row, root;
        pu_int row;
        memset(y, 0, (size_t)(S + 1) * sizeof *y);
        row = pu__chain_row(e, t, *seen - 1, c->square, &first, &count);
        if (row == -2)
            return pu__fail(report, PU_E_UNSUPPORTED, "Phi.row (Kalman: one time step per row, in order)", n, -1);
        if (row < 0)
            return PU_OK;
        root = sqrt((double)p->model->psi[row]);
        for (pu_int j = 0; j < count; j++)
            y[first + j] = root * c->square[j];
        y[S] = root * pu__chain_e(e, *seen - 1, e->row, first, count);
        for (pu_int j = 0; j < S; j++)
            if (y[j] != 0)
                pu__givens(j, S + 1, j, c->W + (r + j) * wide + r, y);
        c->value += y[S] * y[S] / 2;
    }
}

/* The start: shocks w_0 and diffuse states out of U. A state that the data do not identify is named. */
PU__FN pu_status pu__chain_begin(pu__direct *e, pu__logs *logs, pu_int n, pu_report *report)
{
    pu__chain_work *c = &e->chain;
    const pu__chain *k = c->chain;
    pu_int S = k->S, r0 = k->r0, cols = r0 + k->d, wide = cols + 1;
    memset(c->start, 0, (size_t)((r0 + S) * wide) * sizeof *c->start);
    for (pu_int i = 0; i < r0; i++)
        c->start[i * (wide + 1)] = 1;
    for (pu_int i = 0; i < S; i++) {
        const double *U = c->W + (k->r + i) * c->wide + k->r;
        double *to = c->start + (r0 + i) * wide;
        for (pu_int l = i; l < S; l++)
            for (pu_int j = 0; j < r0; j++)
                to[j] += U[l] * k->B0[l * r0 + j];
        for (pu_int j = 0; j < k->d; j++)
            to[r0 + j] = k->diffuse[j] >= i ? U[k->diffuse[j]] : 0;
        to[cols] = U[S];
    }
    pu__triangular(r0 + S, cols, wide, c->start);
    for (pu_int j = 0; j < cols; j++) {
        double square = 0, pivot = fabs(c->start[j * (wide + 1)]);
        for (pu_int i = 0; i <= j; i++)
            square += c->start[i * wide + j] * c->start[i * wide + j];
        if (!(pivot > 100 * DBL_EPSILON * (double)(cols + 1) * sqrt(square)))
            return pu__fail(report, square >= 0 ? PU_E_NOT_DEFINITE : PU_NONFINITE,
                            "A (diffuse start: the data do not identify this state)", n, j < r0 ? -1 : k->diffuse[j - r0]);
    }
    pu__chain_pivots(e, cols, wide, c->start, logs);
    for (pu_int i = cols; i < r0 + S; i++)
        c->value += c->start[i * wide + cols] * c->start[i * wide + cols] / 2;
    pu__invert_upper(cols, wide, c->start, c->inverse);
    return PU_OK;
}

/* s += B0 w_0 + delta, x = [w_0 | delta]. */
PU__FN void pu__chain_start(const pu__chain *k, const double *x, double *s)
{
    for (pu_int i = 0; i < k->S; i++)
        s[i] += pu__ssm_dot(k->r0, k->B0 + i * k->r0, x);
    for (pu_int j = 0; j < k->d; j++)
        s[k->diffuse[j]] += x[k->r0 + j];
}

/* Mean of s_0, N, and the terms of its shocks. */
PU__FN void pu__chain_first(pu__direct *e)
{
    pu__chain_work *c = &e->chain;
    const pu__chain *k = c->chain;
    pu_int S = k->S, r0 = k->r0, cols = r0 + k->d, wide = cols + 1;
    double *mean = e->column, *K0 = c->sums + k->r * (S + k->r), *x = c->first;
    const double *V = c->inverse;
    for (pu_int i = 0; i < cols; i++) {
        x[i] = 0;
        for (pu_int j = i; j < cols; j++)
            x[i] += V[i * cols + j] * c->start[j * wide + cols];
        if (i < r0)
            c->largest = pu__max(c->largest, fabs(x[i]));
    }
    /* N = [([B0 X] V^-1)'; 0] */
    c->q = cols;
    memset(c->N, 0, (size_t)((cols + S) * S) * sizeof *c->N);
    memset(mean, 0, (size_t)S * sizeof *mean);
    pu__chain_start(k, x, mean);
    for (pu_int i = 0; i < S; i++)
        for (pu_int j = 0; j < r0; j++) {
            double b = k->B0[i * r0 + j];
            for (pu_int l = j; b != 0 && l < cols; l++)
                c->N[l * S + i] += b * V[j * cols + l];
        }
    for (pu_int j = 0; j < k->d; j++) {
        pu_int i = k->diffuse[j];
        for (pu_int l = r0 + j; l < cols; l++)
            c->N[l * S + i] += V[(r0 + j) * cols + l];
    }
    for (pu_int i = 0; i < r0; i++)
        for (pu_int j = 0; j < r0; j++) {
            double covariance = pu__ssm_dot(cols, V + i * cols, V + j * cols);
            K0[i * r0 + j] += (i == j) - x[i] * x[j] - covariance;
            if (i == j)
                c->trace += covariance;
        }
}

/* The mean of s_t from that of s_{t-1}; w: that of its shocks. */
PU__FN void pu__chain_mean(pu__direct *e, pu_int t, double *w)
{
    pu__chain_work *c = &e->chain;
    const pu__chain *k = c->chain;
    pu_int S = k->S, r = k->r;
    const double *g = c->steps + t * (r + r * S + r * r), *G = g + r;
    const double *before = e->column + (t - 1) * S;
    double *mean = e->column + t * S;
    for (pu_int i = 0; i < r; i++) {
        w[i] = g[i] - pu__ssm_dot(S, G + i * S, before);
        c->largest = pu__max(c->largest, fabs(w[i]));
    }
    memset(mean, 0, (size_t)S * sizeof *mean);
    pu__sparse_add(&k->F, S, before, mean);
    pu__sparse_add(&k->B, S, w, mean);
}

/* N = [(B V^-1)'; L M'] of a step, M = F - B V^-1 G and L the factor for s_{t-1}: N'N is the covariance of s_t. States without
   shocks have the few entries of F in their column of M'. */
PU__FN void pu__chain_transition(pu__chain_work *c, const double *G, const double *Vi)
{
    const pu__chain *k = c->chain;
    pu_int S = k->S, r = k->r;
    double *m = c->row, *N = c->N + r * S; /* a row of M; L M' */
    c->q = r;
    memset(c->N, 0, (size_t)((r + S) * S) * sizeof *c->N);
    for (pu_int i = 0; i < S; i++) {
        int shocked = k->B.start[i + 1] > k->B.start[i];
        memset(m, 0, (size_t)S * sizeof *m);
        for (pu_int at = k->F.start[i]; at < k->F.start[i + 1]; at++) {
            pu_int col = k->F.col[at];
            m[col] += k->F.value[at];
            for (pu_int l = col; !shocked && l < S; l++)
                N[l * S + i] += k->F.value[at] * c->L[l * S + col];
        }
        for (pu_int at = k->B.start[i]; at < k->B.start[i + 1]; at++) {
            pu_int l = k->B.col[at];
            double b = k->B.value[at];
            for (pu_int j = 0; j < S; j++)
                m[j] -= b * G[l * S + j];
            for (pu_int j = l; j < r; j++)
                c->N[j * S + i] += b * Vi[l * r + j];
        }
        for (pu_int l = 0; shocked && l < S; l++)
            N[l * S + i] = pu__ssm_dot(l + 1, c->L + l * S, m);
    }
}

/* The terms of step t's shocks, whose mean is w, while Sigma = L'L is the covariance of s_{t-1}:
     E w s' = w s' - G Sigma,   E w w' = w w' + G Sigma G' + V^-1 V'^-1 */
PU__FN void pu__chain_shocks(pu__direct *e, pu_int t, const double *w)
{
    pu__chain_work *c = &e->chain;
    pu_int S = c->chain->S, r = c->chain->r;
    const double *G = c->steps + t * (r + r * S + r * r) + r, *Vi = G + r * S;
    const double *before = e->column + (t - 1) * S;
    double *Delta = c->sums, *K = Delta + r * S, *GL = c->square; /* G L' */
    for (pu_int i = 0; i < r; i++) {
        double *to = GL + i * S, *delta = Delta + i * S;
        for (pu_int j = 0; j < S; j++) {
            const double *row = c->L + j * S;
            to[j] = pu__ssm_dot(j + 1, G + i * S, row);
            for (pu_int l = 0; l <= j; l++)
                delta[l] += to[j] * row[l];
        }
        for (pu_int j = 0; j < S; j++)
            delta[j] -= w[i] * before[j];
        for (pu_int j = 0; j <= i; j++) {
            double covariance = pu__ssm_dot(S, to, GL + j * S) + pu__ssm_dot(r - i, Vi + i * r + i, Vi + j * r + i);
            K[i * r + j] += (i == j) - w[i] * w[j] - covariance;
            if (i == j)
                c->trace += covariance;
            else
                K[j * r + i] = K[i * r + j];
        }
    }
}

/* L, from the factor for s_{t-1} to that for s_t: the triangle that N becomes by rotations, the last column first. A column
   that is another one of the triangle before, shifted, takes one. */
PU__FN void pu__chain_spread(pu__chain_work *c)
{
    pu_int S = c->chain->S, rows = c->q + S;
    for (pu_int j = S - 1; j >= 0; j--) {
        double *pivot = c->N + (c->q + j) * S;
        for (pu_int i = 0; i < rows - S + j; i++) {
            double *row = c->N + i * S;
            if (row[j] != 0)
                pu__givens(0, j + 1, j, pivot, row);
        }
    }
    memcpy(c->L, c->N + c->q * S, (size_t)(S * S) * sizeof *c->L);
}

/* h'Sigma_t h for a row h of Phi, n entries from state `first` on, and its part Sigma_t h into z unless that is NULL. As the square of
   N h: Sigma_t itself may have entries far larger than it, and would have lost their difference. */
PU__FN double pu__chain_seen(pu__chain_work *c, const pu_real *h, pu_int first, pu_int n, double *z)
{
    pu_int S = c->chain->S;
    double square = 0;
    for (pu_int i = 0; z && i < n; i++)
        z[i] = 0;
    for (pu_int l = 0; l < c->q + S; l++) {
        const double *row = c->N + l * S + first;
        double sum = 0;
        for (pu_int i = 0; i < n; i++)
            sum += row[i] * (double)h[i];
        square += sum * sum;
        for (pu_int i = 0; z && i < n; i++)
            z[i] += row[i] * sum;
    }
    return square;
}

/* A row of Phi, psi and left = e - phi's of it: what of the likelihood and its gradients they are the differences of. */
PU__FN void pu__chain_sizes(pu__value *v, double psi, double e, double there)
{
    double off = fabs(e - there), terms = fabs(e) + fabs(there), root = sqrt(psi);
    v->data = pu__max(v->data, psi * e * e);
    v->eta = pu__max(v->eta, psi * off);
    v->terms = pu__max(v->terms, psi * terms);
    v->weight = pu__max(v->weight, psi);
    v->seen = pu__max(v->seen, psi * off);
    v->spread = pu__max(v->spread, root * terms);
    v->pull = pu__max(v->pull, psi * off * fabs(there));
    v->rounding += psi * terms * (off + DBL_EPSILON * terms);
}

/* The terms of an observed row m of Phi: with left = e - phi's and the square phi'Sigma phi,
     psi: (left^2 + square - 1/psi)/2   eta: -psi left   phi: psi (Sigma phi - left s) */
PU__FN pu_status pu__chain_row_terms(pu__direct *e, pu_int row, pu_int at, pu_int count, double left, double square,
                                     double *z, pu_real *lane)
{
    pu__posterior *p = e->post;
    const pu__slots *s = &p->slots;
    const pu_op *Phi = p->model->Phi;
    double psi = (double)p->model->psi[row];
    lane[s->psi + row] += (pu_real)((left * left + square - 1 / psi) / 2);
    lane[s->eta + row] -= (pu_real)(psi * left);
    if (!z)
        return PU_OK;
    for (pu_int i = 0; i < count; i++) {
        double x = e->column[at + i] + ((at + i) % e->chain.chain->S == e->chain.chain->level ? e->chain.reference : 0);
        z[i] = psi * (z[i] - left * x);
    }
    return pu__note_failure(p, Phi->row_grad(Phi, row, z, lane + s->Phi), "Phi.row_grad");
}

/* What the rows of Phi see of step t: their terms of the gradient (lane may be NULL), and fit = phi_m'Sigma phi_m of every row,
   observed or not (may be NULL). *row, *seen: the next row, the next observed one. */
PU__FN pu_status pu__chain_rows(pu__direct *e, pu_int t, pu_int *row, pu_int *seen, pu_real *lane, pu_real *fit)
{
    const pu__posterior *p = e->post;
    pu__chain_work *c = &e->chain;
    pu_int S = c->chain->S;
    for (; *row < p->M; ++*row) {
        pu_int at = 0, count = pu__phi_row(e, *row, &at);
        int observed = *seen < p->observed && p->list[*seen] == *row;
        double psi = (double)p->model->psi[*row], square = 0, there = 0, y;
        double *z = lane && p->slots.want_Phi ? c->row : NULL;
        if (count < 1 || at % S + count > S)
            return PU_E_UNSUPPORTED;
        if (at / S != t)
            return PU_OK;
        if (fit) {
            pu_int there_at = 0, entries = pu__map_row(e, p->map, *row, &there_at);
            if (entries < 1 || there_at / S != t || there_at % S + entries > S)
                return PU_E_UNSUPPORTED;
            fit[*row] = (pu_real)pu__chain_seen(c, e->row, there_at % S, entries, NULL);
            (void)pu__phi_row(e, *row, &at);
        }
        if (observed && lane)
            square = pu__chain_seen(c, e->row, at % S, count, z);
        if (!observed)
            continue;
        for (pu_int i = 0; i < count; i++)
            there += (double)e->row[i] * e->column[at + i];
        y = pu__chain_e(e, *seen, e->row, at % S, count);
        ++*seen;
        c->trace += psi * square;
        pu__chain_sizes(&c->v, psi, y, there);
        if (lane && pu__chain_row_terms(e, *row, at, count, y - there, square, z, lane))
            return PU_E_OPERATOR;
    }
    return PU_OK;
}

/* Backward: all observations into U, value, log det, then the mean forward; see above. */
PU__FN pu_status pu__chain_filter(pu__direct *e, pu_int n, pu_report *report)
{
    pu__chain_work *c = &e->chain;
    const pu__chain *k = c->chain;
    pu__logs logs = {0, 1};
    pu_int seen = e->post->observed;
    double sum = 0;
    memset(c->W, 0, (size_t)((k->r + k->S) * c->wide) * sizeof *c->W);
    c->value = 0;
    e->kappa = 1;
    /* the level counts from the mean of y on: no digits for what it has in common */
    for (pu_int i = 0; i < seen; i++)
        sum += (double)e->post->now.e[pu__place(e->post, i)];
    c->reference = k->level >= 0 && seen > 0 ? sum / (double)seen : 0;
    for (pu_int t = k->T - 1; t >= 0; t--) {
        if (pu__chain_absorb(e, t, &seen, n, report))
            return report->status;
        if (t > 0)
            pu__chain_back(e, t, &logs);
    }
    if (seen > 0)
        return pu__fail(report, PU_E_UNSUPPORTED, "Phi.row (Kalman: one time step per row, in order)", n, -1);
    if (pu__chain_begin(e, &logs, n, report))
        return report->status;
    e->logdet = 2 * (logs.sum + log(logs.product));
    if (!pu__finite_double(e->logdet) || !pu__finite_double(c->value))
        return pu__fail(report, PU_NONFINITE, "A", n, -1);
    return PU_OK;
}

/* The variance of state i, from the factor. */
PU__FN double pu__chain_variance(const pu__chain_work *c, pu_int i)
{
    pu_int S = c->chain->S;
    double sum = 0;
    for (pu_int l = i; l < S; l++)
        sum += c->L[l * S + i] * c->L[l * S + i];
    return sum;
}

/* Forward: mean, and where `spread` covariances with what is made of them. variance (D), fit (M), lane may be NULL. */
PU__FN pu_status pu__chain_forward(pu__direct *e, int spread, pu_real *variance, pu_real *fit, pu_real *lane)
{
    pu__chain_work *c = &e->chain;
    const pu__chain *k = c->chain;
    pu_int S = k->S, row = 0, seen = 0;
    pu_status status;
    memset(c->sums, 0, (size_t)e->post->model->Gamma->params * sizeof *c->sums);
    c->trace = 0;
    c->largest = 0;
    memset(&c->v, 0, sizeof c->v);
    for (pu_int t = 0; t < k->T; t++) {
        if (t == 0)
            pu__chain_first(e);
        else
            pu__chain_mean(e, t, c->row);
        if (t > 0 && spread) {
            const double *G = c->steps + t * (k->r + k->r * S + k->r * k->r) + k->r;
            pu__chain_shocks(e, t, c->row);
            pu__chain_transition(c, G, G + k->r * S);
        }
        status = pu__chain_rows(e, t, &row, &seen, lane, fit);
        if (status)
            return status;
        if (spread)
            pu__chain_spread(c);
        for (pu_int i = 0; variance && i < S; i++)
            variance[t * S + i] = (pu_real)pu__chain_variance(c, i);
    }
    if (lane && e->post->slots.want_Gamma)
        pu__ssm_add(e->post->model->Gamma->params, c->sums, lane);
    return PU_OK;
}

/* A draw of z - mu given the data, D entries, from normals: s_t = F s_{t-1} + B (V^-1 N(0, I) - V^-1 G s_{t-1}). */
PU__FN void pu__chain_draw(pu__direct *e, const pu_real *normals, pu_real *z)
{
    pu__chain_work *c = &e->chain;
    const pu__chain *k = c->chain;
    pu_int S = k->S, r = k->r, cols = k->r0 + k->d;
    double *s = c->square, *before = s + S, *w = c->row;
    for (pu_int t = 0; t < k->T; t++) {
        pu_int n = t > 0 ? r : cols;
        const double *G = c->steps + t * (r + r * S + r * r) + r, *V = t > 0 ? G + r * S : c->inverse;
        memcpy(before, s, (size_t)S * sizeof *s);
        memset(s, 0, (size_t)S * sizeof *s);
        for (pu_int i = 0; i < n; i++) {
            w[i] = t > 0 ? -pu__ssm_dot(S, G + i * S, before) : 0;
            for (pu_int j = i; j < n; j++)
                w[i] += V[i * n + j] * (double)normals[j];
        }
        if (t > 0) {
            pu__sparse_add(&k->F, S, before, s);
            pu__sparse_add(&k->B, S, w, s);
        } else
            pu__chain_start(k, w, s);
        for (pu_int i = 0; i < S; i++)
            z[t * S + i] = (pu_real)s[i];
        normals += n;
    }
}

/* Memory for that. */
PU__FN void pu__chain_layout(pu__direct *e, pu__arena *arena)
{
    pu__chain_work *c = &e->chain;
    const pu__chain *k = pu__chain_of(e->post->model->Gamma);
    pu_int S = k->S, r = k->r, cols = k->r0 + k->d;
    c->chain = k;
    c->wide = r + S + 1;
    c->W = pu__doubles(arena, r + S, c->wide);
    c->row = pu__doubles(arena, c->wide + cols, 1);
    c->steps = pu__doubles(arena, k->T, r + r * S + r * r);
    c->start = pu__doubles(arena, k->r0 + S, cols + 1);
    c->inverse = pu__doubles(arena, cols, cols);
    c->first = pu__doubles(arena, cols, 1);
    c->L = pu__doubles(arena, S, S);
    c->N = pu__doubles(arena, S + pu__most(r, cols), S);
    c->square = pu__doubles(arena, S + 2, S + cols);
    c->sums = pu__doubles(arena, e->post->model->Gamma->params, 1);
    e->row = pu__reals(arena, S, 1);
    e->column = pu__doubles(arena, k->T, S);
}

/* ---- diagonals of Sigma and of Phi Sigma Phi', for >>predict ---- */

/* variance (D) and fit (M), where not NULL, += the diagonals of S and Phi S Phi', S = sum_j weight_j x_j x_j' for the
   k columns of X. */
PU__FN pu_status pu__spread(pu__direct *e, pu_int k, pu_block X, pu_real *variance, pu_real *fit)
{
    pu__posterior *p = e->post;
    const pu_op *Phi = p->map;
    const pu_backend *B = p->B;
    if (variance)
        B->row_dot(B->user, p->D, k, NULL, e->weight, X, X, 0, NULL, variance);
    if (!fit)
        return PU_OK;
    p->left = PU__LEFT_NOTHING;
    if (Phi->apply(Phi, k, X, p->t0, 0, p->work)) /* all rows */
        return pu__note_failure(p, PU_E_OPERATOR, "Phi.apply");
    B->row_dot(B->user, p->M, k, NULL, e->weight, p->t0, p->t0, 0, NULL, fit);
    return PU_OK;
}

/* dense: Sigma is the sum of the columns of L'^-1 */
PU__FN pu_status pu__dense_spread(PU__SPREAD_ARGS)
{
    const pu__posterior *p = e->post;
    pu_int k;
    for (pu_int first = 0; first < p->D; first += k) {
        k = pu__min(p->kmax, p->D - first);
        pu__dense_columns(e, first, k, 1);
        if (pu__spread(e, k, e->x, variance, fit))
            return PU_E_OPERATOR;
    }
    return PU_OK;
}

/* dual: minus the columns of V = G L'^-1, what Gamma^-1 is too much; Gamma^-1 itself is added by pu__moments_prior. */
PU__FN pu_status pu__dual_spread(PU__SPREAD_ARGS)
{
    const pu__posterior *p = e->post;
    pu_int k;
    pu__dual_sweep(e, 0);
    pu__set_weights(e, p->kmax, -1);
    for (pu_int first = 0; first < p->observed; first += k) {
        k = pu__min(p->kmax, p->observed - first);
        if (pu__spread(e, k, pu__from(e->V, first), variance, fit))
            return PU_E_OPERATOR;
    }
    return PU_OK;
}

/* banded, Kalman: Z_ii and phi_m'Z phi_m. The Kalman smoother's Z is not the whole band, so a row must see one step. */
PU__FN pu_status pu__band_spread(PU__SPREAD_ARGS)
{
    pu__posterior *p = e->post;
    const pu__markov *k = e->smoothed ? e->markov : NULL;
    pu_int wide = e->width + 1;
    for (pu_int i = 0; variance && i < p->D; i++)
        variance[i] = (pu_real)e->Z[i * wide];
    for (pu_int m = 0; fit && m < p->M; m++) {
        pu_int at = 0, count = pu__map_row(e, p->map, m, &at);
        double sum = 0, size = 0;
        if (k && at % k->block + count > k->block)
            return PU_E_UNSUPPORTED;
        if (count < 0)
            return pu__note_failure(p, PU_E_OPERATOR, "Phi.row");
        for (pu_int i = 0; i < count; i++)
            for (pu_int j = 0; j <= i; j++) {
                double term = (double)e->row[i] * (double)e->row[j] * e->Z[(at + i) * wide + i - j];
                sum += i == j ? term : 2 * term;
                size += fabs(term);
            }
        e->lost = pu__max(e->lost, sum > 0 ? size / sum : 1);
        fit[m] = (pu_real)sum;
    }
    return PU_OK;
}

/* ---- the engines ---- */

typedef struct {
    pu_status (*prepare)(PU__PREPARE_ARGS);
    pu_status (*solve)(PU__COLUMNS_ARGS); /* x = A^-1 u */
    pu_status (*sigma)(PU__SIGMA_ARGS);   /* lane += gradient of 1/2 tr(A Sigma) */
    pu_status (*spread)(PU__SPREAD_ARGS);
} pu__engine_functions;

/* In the order of pu_engine; default, iterative and auto have none. */
static const pu__engine_functions pu__engines[PU_ENGINES] = {
    PU__ZERO,
    PU__ZERO,
    {pu__dense_prepare, pu__dense_solve, pu__dense_sigma, pu__dense_spread},
    {pu__dual_prepare, pu__dual_solve, pu__dual_sigma, pu__dual_spread},
    {pu__banded_prepare, pu__banded_solve, pu__band_terms, pu__band_spread},
    {pu__kalman_prepare, pu__banded_solve, pu__band_terms, pu__band_spread}};

static const char pu__no_precision[] = "Gamma (a structural model has no precision: take PU_KALMAN, or leave the engine open)";

/* What a direct engine lacks to serve this model and these gradients, or NULL. */
PU__FN const char *pu__engine_lacks(pu_engine engine, const pu_lgm *model, const pu_gradient_result *out)
{
    const pu_op *G = model->Gamma, *P = model->Phi;
    pu__markov k;
    if (G->form == PU_FORM_CHAIN)
        return engine < PU_ENGINE_AUTO && engine != PU_KALMAN ? pu__no_precision : NULL;
    if (engine == PU_DUAL && !G->solve)
        return "Gamma.solve (or take another engine)";
    if (engine != PU_BANDED && engine != PU_KALMAN)
        return NULL;
    if (!G->band_add || G->band < 0)
        return "Gamma.band_add (or take another engine)";
    if (!P->row || P->band < 0)
        return "Phi.row (or take another engine)";
    if (out->Gamma && G->params > 0 && !G->band_grad)
        return "Gamma.band_grad (or take another engine)";
    if (out->Phi && P->params > 0 && !P->row_grad)
        return "Phi.row_grad (or take another engine)";
    if (engine == PU_KALMAN && !pu__markov_of(G, &k))
        return "Kalman: Gamma must be a pu_op_ssm, or a pu_op_ar of order at most 16";
    return NULL;
}

/* Lays out (or measures) what the engines need. e->post is laid out, e->width is set. served: how many data each of
   them serves; most: the most observed rows of a datum that the dual one does. */
PU__FN PU__NOINLINE void pu__direct_layout(pu__direct *e, pu__arena *arena, const pu_int *served, pu_int most)
{
    pu_int D = e->post->D, S = 0, band = e->width + 1;
    pu_int square = pu__most(served[PU_DENSE] ? D : 0, served[PU_DUAL] ? most : 0);
    if (square > 0)
        e->L = pu__reals(arena, square, square);
    if (served[PU_DUAL]) {
        e->V = pu__cols(arena, D, most);
        e->s = pu__reals(arena, most, 1);
        e->Y = pu__reals(arena, most, pu__most(most, PU__SPAN));
    }
    e->diag = pu__reals(arena, D, 1);
    if (e->post->model->Gamma->form == PU_FORM_CHAIN) {
        pu__chain_layout(e, arena);
        return;
    }
    if (served[PU_BANDED] || served[PU_KALMAN]) {
        e->row = pu__reals(arena, band, 1);
        e->band = pu__doubles(arena, D, band);
        e->Z = pu__doubles(arena, D, band);
        e->inverse = pu__doubles(arena, D, 1);
        e->column = pu__doubles(arena, D, 1);
    }
    /* a Gamma that is no state space was refused before */
    if (served[PU_KALMAN])
        S = pu__markov_states(e->post->model->Gamma);
    if (S == 0)
        return;
    e->markov = (pu__markov *)pu__take(arena, 1, 1, sizeof *e->markov);
    e->kalman = pu__doubles(arena, e->post->model->Gamma->form == PU_FORM_STATES ? D / S : D, 3 * S + 2 * S * S);
    e->squares = pu__doubles(arena, 6, S * S);
    if (e->markov)
        e->markov->S = 0; /* made when it is needed */
}

/* ------------------------------------------------------------------------------------------------
   >>plan   the job of a call: checked and decided once; its memory. A choice depends on sizes alone, never on a clock: same
            inputs, same bits

   A job goes through pu__job_make (what is asked is checked, data are read once and given to engines, blocks, lanes and
   threads are decided), pu__job_layout (its memory, in one piece) and pu__job_run (>>sums).

     item    a block of columns of a datum, solved together; a direct engine takes all columns of its datum as one
     lane    a fixed part of the items, with a gradient vector of its own; lanes are added up in order, so that the bits do
             not depend on the number of threads
     worker  the scratch of a thread, which serves one lane after the other
   ------------------------------------------------------------------------------------------------ */

/* Per thread. */
typedef struct {
    pu__posterior post;
    pu__run run;
    pu__direct direct;
    pu_block eps;     /* standard normals */
    pu_engine engine; /* of the datum at hand */
    pu_real *bbar;    /* D for each datum */
    pu_real *diag;    /* D: diag(A) */
    pu_real *weight;  /* kmax: of the columns of a block */
    pu_int loaded;    /* datum whose observations are in post; -1 none */
    /* log det quadrature, for the data of two batches (pu__ring_at): s, the centre of the spectrum; log det M of PCG */
    double *centre, *logdet_M;
} pu__worker;

/* What an error of the mean does to a datum's gradients. */
typedef struct {
    double relative; /* of Gamma, Phi, psi: to the terms that they are sums of */
    double eta, nu;  /* of eta and nu, absolute: these add up over the data, as do the gradients' sizes */
} pu__losses;

/* Per column, staged. */
typedef struct {
    pu_column record;
    double ux, xax, logdet, gap;
    /* the mean: see pu__posterior_value; what rounding and what the solver leave, rounding in the likelihood, too */
    double value, nll_rounding;
    pu__losses rounding, solver;
    double eta_size, nu_size; /* of the gradients in eta and nu */
    /* |x - A^-1 u|_A^2 as estimated, extreme Ritz values; high = 0: unknown */
    double energy, low, high;
} pu__staged_column;

enum { PU__COUNTS = 128 };

/* A call: what is asked, what was decided before work starts, its memory. Holds pointers into itself: not to be
   copied. To the lanes it is const: they write to arrays that it points at, each to its own part. */
typedef struct {
    pu__resolved r; /* the model, as given and resolved: */
    const pu_lgm *model;
    const pu_op *Gamma, *Phi; /* of the latter */
    const pu_data *data;
    const pu_options *o;
    const pu_gradient_result *out;
    const pu_backend *B;
    pu__plan plan;
    pu_kind kind;
    pu_int N, D, M, K; /* K = 0 for PU_EXACT, unless draws are wanted */
    pu_int cols;       /* of a datum: K + 1 */
    pu_int m_stride;   /* reals from one datum's preconditioner to the next */
    int want_nll, any_grad;
    int network; /* a reverse pass through the solver: PU_NETWORK, with a gradient */
    /* nothing is written: the caller reads the results in the memory of the job */
    int dry;

    /* Engines. */
    pu_engine engine;            /* as asked */
    int can;                     /* bit e: engine e applies here */
    int exact;                   /* what a direct engine serves gets Sigma itself; otherwise K direct solves */
    int restricted;              /* Phi works on the observed rows alone */
    pu_int width;                /* of the band of A */
    pu_int asked_steps;          /* I as asked, for the iterative engine's price and the length of results.alpha and beta;
                                    plan.I is 0 where that engine serves nobody */
    pu_int served[PU_ENGINES];   /* data per engine, */
    double rows_sum[PU_ENGINES]; /* their observed rows, summed up, */
    pu_int most[PU_ENGINES];     /* and the most of a datum */
    pu_int reserved[PU_ENGINES]; /* served, or nonzero: PU_ENGINE_AUTO may have to fall back on it, and has memory for it */
    double ns;                   /* predicted time */
    int form;                    /* for some data of the iterative engine A is made a matrix */
    pu_int counts[PU__COUNTS];   /* observed rows of the first data: before there is memory, without a second look at them */

    /* Parts. */
    int ragged; /* data differ in their cost: lanes take them by cost, not in order */
    int lanes, threads;
    pu_int kmax;          /* columns that there is room for */
    pu_int block, blocks; /* iterative engine: columns at a time; blocks of columns per datum */
    pu__slots slots;      /* the gradient vector of a lane */
    int by_rows;          /* Phi's gradient is added up row by row: most batches touch few of them in any one lane */

    /* A device, that is a backend with memory of its own. On the host batch = 1, and both slots are the same. */
    int device;
    pu_side side[2]; /* the operators where the backend works, also on the host */
    size_t side_bytes[2];
    pu_int batch, batch_most; /* data side by side; if memory were no matter */
    pu__slots device_slots;   /* with what the sides' grad adds up in the place of the gradients of Gamma and Phi */

    /* Wanted by the caller: diagonals for >>predict, draws; room for reals x times, and so many doubles, of his own. */
    int want_variance, want_fit, want_draws;
    const pu_op *map; /* NULL: Phi */
    pu_int reals, times, doubles;

    /* Memory, from here on: see pu__job_layout. */
    pu__worker *workers;
    pu_real *grads;    /* lanes x params */
    pu_real *phi_grad; /* where Phi's gradient is in the end: in lane 0, or with by_rows where the caller wants it */
    /* lanes x M, by_rows: rows of Phi that have a gradient in the lane; others are not even cleared */
    unsigned char *touched;
    int centred;                   /* Gamma's terms of the means are squares of mu - nu */
    pu_real *gamma_nu;             /* D: Gamma nu */
    pu_real *test;                 /* scratch of the checks */
    pu_real *work;                 /* scratch of the operators, one column */
    pu_real *se;                   /* standard errors of [Gamma | Phi | psi] */
    pu__staged_column *columns;           /* N x (K+1) */
    double *c, *logdet;            /* N */
    double gamma_logdet, shared_c; /* log det Gamma; 1/2 nu'Gamma nu - 1/2 log det Gamma */
    pu_real *gamma_diag;           /* D: its diagonal, zero where it is not known */
    double gamma_nu_top;           /* largest |Gamma nu| */
    double nu_moves;               /* pu__value.moves of nu'Gamma nu, where that is a term of its own */
    double gamma_kappa;            /* by how much Gamma.solve enlarges errors, see pu__probe_factor */
    double gamma_rounding;         /* relative rounding error of Gamma^-1, as far as it is known */
    double states_rounding;        /* and of Gamma itself, where its parameters are covariances, which were inverted */
    pu_int *observed;              /* N */
    int *lane_of;                  /* N, ragged data: the lane that each goes to */
    unsigned char *served_by;      /* N: engines */
    pu_report *lane_report;
    pu_gradient_result stage; /* staged copies of the arrays that were asked for */
    pu_real *variance, *fit;  /* N x D, N x M: diagonals of Sigma, Phi Sigma Phi'; NULL = not wanted */
    pu_real *own_reals;
    double *own_doubles;
    /* on a device: its copy of the operators, the gradient vector there and read back, psi, Gamma nu, x0 */
    void *side_memory[2];
    pu_real *device_grad, *sums, *device_psi, *device_nu;
    pu_block x0;
    pu_real *columns_x, *columns_u; /* D x kmax, Rao-Blackwell */
} pu__job;

/* ---- prices ---- */

/* per multiplication of a product with few columns, in ns, and per row of it and column besides; of a product of
   matrices */
#ifdef PU_FLOAT
#define PU__NS        0.037
#define PU__NS_ROW    10
#define PU__NS_MATRIX 0.055
#else
#define PU__NS        0.08
#define PU__NS_ROW    8
#define PU__NS_MATRIX 0.1
#endif

/* Predicted nanoseconds of the solver's products with A for a datum with that many rows at work, and of making A a
   matrix first, where that is cheaper: then *form = 1. */
PU__FN double pu__products_cost(const pu__job *job, pu_int rows, int *form)
{
    double D = (double)job->D;
    double m = (double)rows;
    double phi = pu__flops(job->Phi) * m / (double)job->M;
    double columns = (double)job->cols;
    /* a product per step and column, two with a reverse pass, and one for the residual: each Gamma x, Phi x and Phi't */
    double count = ((job->network ? 2 : 1) * (double)job->asked_steps + 1) * columns;
    double each = count * (PU__NS * (pu__flops(job->Gamma) + 2 * phi) + PU__NS_ROW * m);
    /* the last term: the product with Phi that the gradient then lacks */
    double formed = 0.35 * PU__NS_MATRIX * m * D * D + 4 * D * D + count * (PU__NS * D * D + PU__NS_ROW * D) +
                    columns * PU__NS * phi;
    *form = pu__plain(job->Phi) && job->B->host && !job->network && formed < each;
    return *form ? formed : each;
}

/* Predicted nanoseconds for a chain: rotations backward, and forward the factor of the covariance. */
PU__FN double pu__chain_cost(const pu__chain *c, int grad)
{
    double S = (double)c->S, r = (double)c->r, T = (double)c->T;
    double back = 60 + 25 * (S + r) + 1.2 * (S + r) * (S + r) + r * S;
    double ahead = 60 + S * S * (S + r) + r * S * (S + r);
    return T * (back + (grad ? ahead : 0));
}

/* Predicted nanoseconds for a datum with that many observed rows, on one core: multiplications at the rate of long
   loops, and what each vector, row and column costs besides. The constants are a fit to measurements on one machine
   (docs/design.md, "the planner"), good to 30 %; what matters is which engine is cheaper, and near the crossover both
   are about as good. */
PU__FN double pu__cost(const pu__job *job, pu_engine engine, pu_int observed)
{
    pu_int rows = job->restricted ? observed : job->M;
    int single = sizeof(pu_real) == sizeof(float);
    int plain = pu__plain(job->Phi);
    double D = (double)job->D;
    double m = (double)rows;
    double cols = (double)job->cols;
    double band = (double)job->width + 1;
    double I = (double)job->asked_steps;
    double grad = job->any_grad; /* 0 or 1 */
    double flops = pu__flops(job->Phi);
    double phi = flops * m / (double)job->M;
    double gamma = pu__flops(job->Gamma);
    double seen = (double)(observed > 0 ? observed : rows); /* an empty datum goes where full ones go */
    double pair = PU__NS * (gamma + 4 * phi);               /* a gradient term */
    /* with a reverse pass each step has a second sweep over the vectors, and a gradient term */
    double sweeps = job->network ? 2 * I + 1 : I + 1;
    double pairs = job->network ? I + 1 : grad;
    double ns;
    int form;
    switch (engine) {
    case PU_ITERATIVE:
        /* products, sweeps over the vectors, gradient terms, and what a column costs however short it is */
        ns = pu__products_cost(job, rows, &form) + 2800 * cols;
        return ns + cols * (sweeps * (single ? 0.5 : 1.2) * D + pairs * pair);
    case PU_DENSE:
        /* A by D products with unit vectors, or by one product of matrices; then factor and inverse */
        ns = D * (PU__NS * (gamma + 2 * phi) + grad * pair);
        if (plain)
            ns = PU__NS_MATRIX * (0.35 + 1.75 * grad) * m * D * D + (single ? 170 : 260) * m;
        return ns + (1 + grad) * (0.115 * PU__NS_MATRIX * D * D * D + 2 * D * D);
    case PU_DUAL:
        /* of the observed rows alone: R Gamma^-1 R' and its gradient, factor and inverse, then rows of Phi and solves */
        return PU__NS_MATRIX * seen * seen * ((0.27 + 0.54 * grad) * D + (0.1 + 0.1 * grad) * seen) +
               (1 + grad) * (2 * seen * seen + (single ? 1.3 : 3) * seen * D) +
               seen * PU__NS * (gamma + (plain ? 0 : 2 * flops));
    case PU_BANDED: return D * (20 + 2 * band * band * (1 + grad));
    case PU_KALMAN:
        if (job->Gamma->form == PU_FORM_CHAIN)
            return pu__chain_cost(pu__chain_of(job->Gamma), grad > 0);
        return 1e300;
    /* Kalman is never cheaper than banded, which can do whatever it can: auto takes it where rounding is too large */
    default: return 1e300;
    }
}

/* The engine for a datum with that many observed rows: as asked, or the cheapest of those that apply. Asked again
   wherever it is needed, since it depends on sizes alone. */
PU__FN pu_engine pu__engine_for(const pu__job *job, pu_int observed)
{
    pu_engine best = job->kind == PU_EXACT ? PU_DENSE : PU_ITERATIVE;
    if (job->engine != PU_ENGINE_AUTO)
        return job->engine;
    if (job->Gamma->form == PU_FORM_CHAIN)
        return PU_KALMAN;
    for (int e = PU_ITERATIVE; e < PU_ENGINE_AUTO; e++) {
        /* with D observations or more the dual matrix has an eigenvalue 1 for each beyond D, however large the others */
        if (e == PU_DUAL && observed >= job->D)
            continue;
        if ((job->can >> e & 1) && pu__cost(job, (pu_engine)e, observed) < pu__cost(job, best, observed))
            best = (pu_engine)e;
    }
    return best;
}

/* What an engine lacks to serve this job, or NULL. */
PU__FN const char *pu__missing(const pu__job *job, pu_engine engine)
{
    if (engine == PU_ITERATIVE && job->K && !job->o->delta && !job->Gamma->sample)
        return "Gamma.sample (or give options.delta)";
    return pu__engine_lacks(engine, job->model, job->out);
}

#define PU__STAND_IN 512 /* the most latent variables for which memory of the dense engine is kept in reserve */

/* The engines that data may be handed to where rounding spoils the cheapest one: all that apply and do not need much more
   memory. */
PU__FN void pu__reserve(pu__job *job)
{
    int direct = job->served[PU_ITERATIVE] < job->N;
    memcpy(job->reserved, job->served, sizeof job->reserved);
    if (job->engine != PU_ENGINE_AUTO || !direct)
        return;
    for (int e = PU_DENSE; e < PU_ENGINE_AUTO; e++) {
        int small = job->D <= PU__STAND_IN;
        if (e == PU_BANDED || e == PU_KALMAN)
            small = job->width < PU__STAND_IN / 8;
        if (small && (job->can >> e & 1))
            job->reserved[e]++;
    }
}

/* Reads the data once: checks every observation, and finds who serves whom. */
PU__FN pu_status pu__assign(pu__job *job, pu_report *report)
{
    job->width = pu__most(job->Gamma->band, job->Phi->band);
    job->restricted = pu__can_restrict(job->Phi);
    for (int e = job->kind == PU_EXACT ? PU_DENSE : PU_ITERATIVE; e < PU_ENGINE_AUTO; e++)
        if (!pu__missing(job, (pu_engine)e))
            job->can |= 1 << e;
    for (pu_int n = 0; n < job->N; n++) {
        pu_int count = pu__check_datum(job->data, n, report);
        pu_engine engine;
        if (count < 0)
            return report->status;
        if (n < PU__COUNTS)
            job->counts[n] = count;
        engine = pu__engine_for(job, count);
        job->served[engine]++;
        job->rows_sum[engine] += (double)count;
        job->most[engine] = pu__most(job->most[engine], count);
        /* the dual engine stands in where it is better than dense */
        if (job->engine == PU_ENGINE_AUTO && count < job->D && job->D <= PU__STAND_IN)
            job->most[PU_DUAL] = pu__most(job->most[PU_DUAL], count);
        /* Kalman has no price of its own; the order of magnitude is the band's */
        job->ns += pu__cost(job, engine == PU_KALMAN && job->Gamma->form != PU_FORM_CHAIN ? PU_BANDED : engine, count);
        job->ragged |= count != job->counts[0];
    }
    pu__reserve(job);
    return PU_OK;
}

/* Text that goes on after what is there. */
PU__FN pu__text pu__text_after(char *text, size_t capacity)
{
    pu__text t = {text, strlen(text), capacity};
    return t;
}

/* The plan in words: who serves how many data, and what the others would have cost. */
PU__FN void pu__plan_words(const pu__job *job, pu_report *report)
{
    int chosen = job->engine == PU_ENGINE_AUTO;
    pu__text t = pu__text_after(report->plan, sizeof report->plan);
    const char *separator = "";
    for (int e = PU_ITERATIVE; e < PU_ENGINE_AUTO; e++) {
        pu_int served = job->served[e];
        report->served[e] = served;
        if (!served)
            continue;
        pu__put_number(&t, separator, served);
        separator = "; ";
        pu__put_number(&t, " of ", job->N);
        pu__put(&t, " data by ");
        pu__put(&t, pu_engine_text((pu_engine)e));
        if (pu__is_far(job->o->backend))
            pu__put(&t, job->device ? ", on the device" : ", on the host");
        if (!chosen) {
            pu__put(&t, job->o->engine == PU_ENGINE_AUTO ? " (auto is for engines of the host)" : ", as asked");
            continue;
        }
        if (job->Gamma->form == PU_FORM_CHAIN) {
            pu__put(&t, ", which alone serves structural models");
            continue;
        }
        pu__put(&t, ", the cheapest (predicted us per datum of the mean size:");
        for (int other = PU_ITERATIVE; other < PU_KALMAN; other++) {
            pu_int rows = (pu_int)(job->rows_sum[e] / (double)served);
            double cost = pu__cost(job, (pu_engine)other, rows);
            if (!(job->can >> other & 1))
                continue;
            pu__put(&t, " ");
            pu__put(&t, pu_engine_text((pu_engine)other));
            pu__put_number(&t, " ", (pu_int)(cost / 1000));
            if (other == PU_DUAL && job->most[e] >= job->D && cost < pu__cost(job, (pu_engine)e, rows))
                pu__put(&t, ", not from D observed entries on: rounding");
        }
        pu__put(&t, ")");
    }
}

/* ---- memory of a job ---- */

/* Where things of datum n are in arrays of two batches: that at hand and the one before, whose outcome may be read
   late. */
PU__FN pu_int pu__ring_at(const pu__job *job, pu_int n) { return n % (2 * job->batch); }

/* What a thread needs. */
PU__FN void pu__worker_layout(pu__worker *w, pu__arena *arena, const pu__job *job)
{
    const pu_int *served = job->served;
    pu_int D = job->D;
    pu_int kmax = job->kmax;
    pu_int batch = job->batch;
    pu__posterior *p = &w->post;
    pu__direct *e = &w->direct;
    memset(w, 0, sizeof *w);
    p->model = job->model;
    p->map = job->map ? job->map : job->model->Phi;
    p->Gamma = job->side;
    p->Phi = job->side + 1;
    p->psi = job->device ? job->device_psi : job->model->psi;
    p->B = job->B;
    p->slots = job->device_slots;
    p->kmax = kmax;
    p->wide = batch;
    pu__posterior_layout(p, arena, job->form);
    p->system.n = D;
    /* a device reads the outcome of a batch when the next one is loaded: it has two preconditioners for each datum */
    pu__run_layout(&w->run, arena, &p->system, job->B, &job->plan, kmax, (job->device ? 2 : 1) * batch,
                   job->network && served[PU_ITERATIVE]);
    p->m = w->run.m;
    p->minv = w->run.minv;
    w->eps = pu__far_cols(arena, pu__most(pu__noise(job->Gamma), job->M), kmax);
    w->bbar = pu__far_reals(arena, D, batch);
    w->diag = pu__reals(arena, D, 1);
    w->weight = pu__reals(arena, kmax, 1);
    w->centre = pu__doubles(arena, 2 * batch, 1);
    w->logdet_M = pu__doubles(arena, 2 * batch, 1);
    e->post = p;
    e->width = job->width;
    pu__direct_layout(e, arena, job->reserved, job->most[PU_DUAL]);
    /* for products of matrices */
    if (job->form || job->reserved[PU_DENSE] || job->reserved[PU_DUAL])
        p->panel = pu__panel(arena, pu__most(D, job->most[PU_DUAL]));
    if (job->o->rao_blackwell && !e->Z)
        e->Z = pu__doubles(arena, D, job->Gamma->band + 1);
    /* direct engines work in the solver's blocks */
    e->x = w->run.x;
    e->u = w->run.u;
    e->q = w->run.q;
    e->weight = w->weight;
    w->loaded = -1;
}

/* Lays out (or measures) all memory of a job. What is wanted may not change between the two. */
PU__FN void pu__job_layout(void *self, pu__arena *arena)
{
    pu__job *job = (pu__job *)self;
    const pu_gradient_result *out = job->out;
    pu_int N = job->N;
    pu_int D = job->D;
    pu_int all = N * job->cols;
    arena->B = job->B;
    if (job->device) {
        for (int i = 0; i < 2; i++)
            job->side_memory[i] = pu__take_from(arena, 1, (pu_int)job->side_bytes[i], 1, 1);
        job->device_grad = pu__far_reals(arena, job->device_slots.params, 1);
        job->sums = pu__reals(arena, job->device_slots.params, 1);
        job->device_psi = pu__far_reals(arena, job->M, 1);
        job->device_nu = pu__far_reals(arena, D, 1);
        job->x0 = pu__far_cols(arena, D, job->o->x0 ? job->kmax : 0);
        job->columns_x = pu__reals(arena, D, job->o->rao_blackwell ? job->kmax : 0);
        job->columns_u = pu__reals(arena, D, job->o->rao_blackwell ? job->kmax : 0);
    }
    job->workers = (pu__worker *)pu__take(arena, job->threads, 1, sizeof(pu__worker));
    job->lane_report = (pu_report *)pu__take(arena, job->lanes, 1, sizeof(pu_report));
    job->grads = pu__reals(arena, job->lanes, job->slots.params);
    job->phi_grad = job->grads ? job->grads + job->slots.Phi : NULL;
    if (job->by_rows)
        job->touched = (unsigned char *)pu__take(arena, job->lanes, job->M, 1);
    job->gamma_nu = pu__reals(arena, D, 1);
    job->gamma_diag = pu__reals(arena, D, 1);
    if (job->slots.groups)
        job->se = pu__reals(arena, job->slots.eta, 1);
    job->test = pu__reals(arena, pu__test_reals(&job->r), 1);
    job->columns = (pu__staged_column *)pu__take(arena, all, 1, sizeof(pu__staged_column));
    job->c = pu__doubles(arena, N, 1);
    job->logdet = pu__doubles(arena, N, 1);
    job->observed = pu__indices(arena, N);
    if (job->ragged)
        job->lane_of = (int *)pu__take(arena, N, 1, sizeof(int));
    job->served_by = (unsigned char *)pu__take(arena, N, 1, 1);
    if (out->x)
        job->stage.x = pu__reals(arena, all, D);
    if (out->residual)
        job->stage.residual = pu__reals(arena, all, D);
    if (out->alpha)
        job->stage.alpha = pu__reals(arena, all, job->asked_steps);
    if (out->beta)
        job->stage.beta = pu__reals(arena, all, job->asked_steps);
    if (job->want_variance)
        job->variance = pu__reals(arena, N, D);
    if (job->want_fit)
        job->fit = pu__reals(arena, N, job->M);
    job->own_reals = pu__reals(arena, job->reals, job->times);
    job->own_doubles = pu__doubles(arena, job->doubles, 1);
    for (int t = 0; t < job->threads; t++) {
        pu__worker measured; /* while there is no memory yet */
        pu__worker_layout(job->workers ? job->workers + t : &measured, arena, job);
    }
    /* the checks come before any thread works: they borrow */
    job->work = job->workers ? job->workers->post.work_host : NULL;
}

/* ---- checks ---- */

/* The engine that the options ask for. By default it is chosen, but who sets an option of the iterative engine, or wants
   what only its columns have, means that one. out may be NULL. */
PU__FN pu_engine pu__engine_asked(const pu_options *o, const pu_gradient_result *out)
{
    const pu_solve_options *s = &o->solve;
    int solve = s->iterations || s->solver || s->tolerance != 0 || s->absolute2 != 0 || s->adjoint || s->no_repeat || s->tape_every ||
                s->precond || s->step || s->check_every;
    int probes = o->samples || o->delta || o->x0 || o->groups || o->rao_blackwell;
    int columns = out && (out->x || out->residual || out->alpha || out->beta || out->logdet || out->columns ||
                          out->precond);
    if (o->engine != PU_ENGINE_DEFAULT)
        return o->engine;
    if (o->kind == PU_EXACT)
        return PU_ENGINE_AUTO;
    return o->kind || solve || probes || columns || pu__is_far(o->backend) ? PU_ITERATIVE : PU_ENGINE_AUTO;
}

/* The most lanes, and the largest I that is looked for, one by one. */
#define PU__LIMIT 1000000

/* Ranges of the options. The first that is wrong is named. */
PU__FN pu_status pu__check_options(const pu_options *o, pu_report *report)
{
    int direct = o->engine > PU_ITERATIVE && o->engine < PU_ENGINE_AUTO;
    const char *bad = NULL;
    if ((int)o->kind < PU_NETWORK || (int)o->kind > PU_EXACT)
        bad = "options.kind (PU_NETWORK, PU_OUTPUT, PU_MONTE_CARLO or PU_EXACT)";
    else if ((int)o->engine < PU_ENGINE_DEFAULT || (int)o->engine > PU_ENGINE_AUTO)
        bad = "options.engine (one of pu_engine, or 0 = chosen)";
    else if (o->samples < 0 && (o->samples != PU_ZERO || o->kind != PU_EXACT))
        bad = "options.samples (at least 1, or 0 = 10; PU_ZERO only with PU_EXACT, PU_CHOOSE with the other kinds)";
    else if (o->samples >= INT32_MAX)
        return pu__refuse(report, PU_E_OVERFLOW, "options.samples (below 2^31 - 1)");
    else if (direct && o->kind != PU_EXACT && (o->kind != PU_MONTE_CARLO || o->engine == PU_KALMAN))
        /* the other kinds are about a solver's steps, Kalman has no probes */
        bad = "options.engine (exact ones serve PU_EXACT and PU_MONTE_CARLO, PU_KALMAN serves PU_EXACT alone)";
    else if (o->threads < 0)
        bad = "options.threads (at least 1, or 0 = chosen)";
    else if (o->lanes < 0 || o->lanes > PU__LIMIT)
        bad = "options.lanes (1 to 1,000,000, or 0 = 4)";
    else if (o->columns < 0)
        bad = "options.columns (at least 1, or 0 = chosen)";
    else if (o->error != 0) /* with PU_CHOOSE it has been used, and is 0 now, unless it is out of range */
        bad = "options.error (0 = 0.1, or positive and below 1; needs samples or solve.iterations = PU_CHOOSE)";
    return bad ? pu__refuse(report, PU_E_ARGUMENT, bad) : PU_OK;
}

/* Which functions the operators must have for this job: those of the gradients that are wanted, of the probes, of the
   engine that was asked for, of Rao-Blackwell and of the preconditioner, in this order. */
PU__FN pu_status pu__check_functions(const pu__job *job, pu_report *report)
{
    const pu_options *o = job->o;
    const pu_op *G = job->Gamma;
    int iterative = job->served[PU_ITERATIVE] > 0;
    int pcg = job->plan.solver == PU_PCG;
    /* Rao-Blackwell needs diag(A), and a way to add a diagonal to Gamma's gradient */
    int blackwell = o->rao_blackwell && iterative && job->out->Gamma;
    int shared_m = pcg && o->solve.precond && o->solve.precond_stride == PU_ZERO;
    const char *sample = iterative ? pu__missing(job, PU_ITERATIVE) : NULL;
    const char *lacks = pu__missing(job, job->engine);
    if (job->slots.want_Gamma && !G->grad)
        lacks = "Gamma.grad (or leave results.Gamma NULL)";
    else if (job->slots.want_Gamma && !G->logdet_grad)
        lacks = "Gamma.logdet_grad (or leave results.Gamma NULL)";
    else if (job->slots.want_Phi && !job->Phi->grad)
        lacks = "Phi.grad (or leave results.Phi NULL)";
    else if (sample)
        lacks = sample;
    else if (lacks)
        return pu__refuse(report, PU_E_UNSUPPORTED, lacks);
    else if (o->rao_blackwell && job->kind == PU_MONTE_CARLO && !job->exact && job->engine != PU_ITERATIVE)
        lacks = "options.rao_blackwell (of the iterative engine)";
    else if (blackwell && !G->band_grad)
        lacks = "Gamma.band_grad (options.rao_blackwell)";
    else if (blackwell && !G->diag)
        lacks = "Gamma.diag (options.rao_blackwell)";
    else if (blackwell && !job->Phi->gram_diag)
        lacks = "Phi.gram_diag (options.rao_blackwell)";
    else if (pcg && iterative && !o->solve.precond && !pu__has_diag(job->model))
        lacks =
            G->diag ? "Phi.gram_diag (or give options.solve.precond)" : "Gamma.diag (or give options.solve.precond)";
    else if (job->out->precond && !(job->network && shared_m))
        lacks = "results.precond (PU_NETWORK, PU_PCG, options.solve.precond for all data)";
    return lacks ? pu__refuse(report, PU_E_UNSUPPORTED, lacks) : PU_OK;
}

/* Arrays handed in through the options: finite, positive where they must be. A preconditioner that all data share is
   read once. */
PU__FN pu_status pu__check_option_arrays(const pu__job *job, pu_report *report)
{
    const pu_options *o = job->o;
    const pu_real *psi = job->model->psi;
    const pu_real *m = o->solve.precond;
    const pu_real *step = o->solve.step;
    pu_int D = job->D;
    pu_int probes = job->K * D;
    pu_int all = job->cols * D;
    if (m && job->m_stride && job->m_stride < D)
        return pu__refuse(report, PU_E_ARGUMENT,
                          "options.solve.precond_stride (0 = D, PU_ZERO = all data share one, or at least D)");
    for (pu_int i = 0; o->tied_psi && i < job->M; i++)
        if (psi[i] != psi[0])
            return pu__fail(report, PU_E_ARGUMENT, "model.psi (options.tied_psi says that all are equal)", -1, i);
    for (pu_int n = 0; n < job->N; n++) {
        int delta = o->delta && pu__check_array(probes, o->delta + n * probes, 0, "options.delta", n, report);
        if (delta || (o->x0 && pu__check_array(all, o->x0 + n * all, 0, "options.x0", n, report))) {
            report->where.column = delta + report->where.index / D; /* delta has no column for the mean */
            return report->status;
        }
        if (m && (n == 0 || job->m_stride) &&
            pu__check_array(D, m + n * job->m_stride, 1, "options.solve.precond", n, report))
            return report->status;
        if (step && pu__check_array(1, step + n, 1, "options.solve.step", n, report))
            return report->status;
    }
    return PU_OK;
}

/* ---- columns, lanes, threads ---- */

#define PU__NEAR_CACHE (512 * 1024)  /* bytes: where the solver's vectors should stay, the second-level cache */
#define PU__WIDE_CACHE (8192 * 1024) /* for products of matrices, which copy what they need into cache themselves */

/* a / b, rounded up */
PU__FN pu_int pu__ceil_div(pu_int a, pu_int b) { return (a + b - 1) / b; }

/* Columns at a time whose vectors, five of them, stay in a cache of so many bytes, at least `least` and at most 64.
   Pairs (least = 2) come in even numbers. Depends on sizes and lanes only, so that it does not change the bits between
   machines. */
PU__FN pu_int pu__columns_fit(pu_int cache, pu_int D, pu_int columns, pu_int least)
{
    pu_int fit = cache / (5 * (pu_int)sizeof(pu_real)) / D;
    pu_int k = pu__min(pu__most(fit, least), 64);
    if (least == 2)
        k -= k % 2;
    return pu__min(k, columns);
}

/* A filter has nothing to share between columns, transforms take them in pairs, matrices are read once for all of
   them. */
PU__FN pu_int pu__columns_least(const pu__job *job)
{
    if (pu__kind_of(job->model, job->side, job->side + 1, 1) == &pu__kind_band)
        return 1;
    return job->Phi->form == PU_FORM_FOURIER ? 2 : 4;
}

/* The columns that are taken at a time where nothing else matters: as asked; what fits the cache; on a device all. */
PU__FN pu_int pu__columns_block(const pu__job *job)
{
    pu_int asked = job->o->columns;
    if (asked || job->device)
        return pu__min(asked ? asked : job->cols, job->cols);
    return pu__columns_fit(PU__NEAR_CACHE, job->D, job->cols, pu__columns_least(job));
}

/* The number of the thread at work. */
#ifdef PU__OPENMP
#define PU__THREAD omp_get_thread_num()
#else
#define PU__THREAD 0
#endif

/* Threads: as asked; otherwise one, and one more for every 10 ms that the job is predicted to take, up to OpenMP's
   choice. A thread without work spins before it sleeps (GNU OpenMP: some milliseconds after every job, and while the
   others finish), so that short jobs would burn more time of processors than they save. The report says how many; the
   bits are the same. */
PU__FN int pu__threads(int asked, double ns)
{
#ifdef PU__OPENMP
    int most = omp_get_max_threads();
    if (asked > 0)
        return asked;
    return 1 + ns / 1e7 < most ? (int)(1 + ns / 1e7) : most;
#else
    (void)asked;
    (void)ns;
    return 1;
#endif
}

/* Lanes, as asked or 4, but at most so many; threads, for a job that takes so long: no more than lanes. */
PU__FN void pu__job_lanes(pu__job *job, pu_int most, double ns)
{
    int asked = job->o->lanes;
    job->lanes = (int)pu__min(asked ? asked : 4, most);
    job->threads = (int)pu__min(pu__threads(job->o->threads, ns), job->lanes);
}

/* How many columns of a datum are solved at a time, and how data and columns are shared out among lanes and threads.
   Threads come last, because nothing that changes the bits may depend on them. */
PU__FN void pu__job_parts(pu__job *job)
{
    const pu_options *o = job->o;
    const pu_int *served = job->served;
    pu_int N = job->N;
    pu_int cols = job->cols;
    /* Fewer data than lanes: share out the columns; where narrow blocks cost little, so that no lane has a datum too
       many. */
    pu_int parts = (pu__columns_least(job) == 1 ? 4 : 1) * (o->lanes ? o->lanes : 4);
    job->block = pu__columns_block(job);
    if (!o->columns && served[PU_ITERATIVE] && N < parts)
        job->block = pu__min(job->block, pu__ceil_div(cols, pu__ceil_div(parts, N)));
    job->kmax = job->block;
    job->batch = 1;
    if (served[PU_ITERATIVE] < N) { /* direct engines like wider blocks, the band has just the columns */
        pu_int wide = pu__columns_fit(PU__NEAR_CACHE, job->D, cols, 4);
        if (served[PU_DENSE] + served[PU_DUAL])
            wide = pu__columns_fit(PU__WIDE_CACHE, job->D, 64, 4);
        if (o->columns)
            wide = o->columns;
        job->kmax = pu__most(job->kmax, pu__min(wide, job->D + cols));
    }
    job->blocks = served[PU_ITERATIVE] ? pu__ceil_div(cols, job->block) : 1;
    pu__job_lanes(job, N * job->blocks, job->ns);
    if (N < job->lanes)
        job->ragged = 0; /* shared out by columns */
}

/* ---- a device ---- */

/* Makes the batch that large. Does it fit into the device's memory? */
PU__FN int pu__device_fits(pu__job *job, pu_int batch, pu_report *report)
{
    pu__arena arena = PU__ZERO;
    job->batch = batch;
    job->kmax = job->block * batch;
    job->blocks = pu__ceil_div(job->cols, job->block);
    pu__job_layout(job, &arena);
    report->device_bytes = arena.far_used + PU__ALIGN;
    return !arena.overflow && report->device_bytes <= job->B->budget;
}

/* The most data that fit into the device's memory; if need be only some columns of one datum. By bisection, so that a
   part of the data never gets a larger batch than all of them, nor needs more of the host. */
PU__FN void pu__device_batch(pu__job *job, pu_report *report)
{
    pu_int most = job->batch; /* too many, */
    pu_int enough = 0;        /* and none is enough */
    if (pu__device_fits(job, most, report))
        return;
    while (most - enough > 1) {
        pu_int middle = enough + (most - enough) / 2;
        if (pu__device_fits(job, middle, report))
            enough = middle;
        else
            most = middle;
    }
    enough = pu__most(enough, 1);
    while (!pu__device_fits(job, enough, report) && !job->o->columns && job->block > 1)
        job->block = (job->block + 1) / 2;
}

/* How a device is used: one lane, all columns of as many data side by side as its memory has room for. Where even one
   of them does not fit, the call is refused when it asks for memory, with the bytes lacking told. */
PU__FN pu_status pu__device_make(pu__job *job, pu_report *report)
{
    const pu_options *o = job->o;
    const pu__slots *s = &job->slots;
    const pu_op *G = &job->side[0].op;
    const pu_op *P = &job->side[1].op;
    pu_int places = INT32_MAX / pu__most(job->M, job->cols); /* in 32 bits */
    const char *lacks = NULL;
    if (job->K && !o->delta && !G->sample)
        lacks = "Gamma.sample (device side)";
    else if (s->want_Gamma && !G->grad)
        lacks = "Gamma.grad (device side)";
    else if (s->want_Phi && !P->grad)
        lacks = "Phi.grad (device side)";
    if (lacks)
        return pu__refuse(report, PU_E_UNSUPPORTED, lacks);
    job->lanes = 1;
    job->threads = 1;
    job->ragged = 0;
    job->form = 0;
    job->by_rows = 0;
    job->block = pu__columns_block(job);
    job->batch = pu__most(pu__min(job->N, places), 1);
    /* standard errors, Rao-Blackwell and GD's step sizes are worked out datum by datum */
    if (job->block < job->cols || s->groups || o->rao_blackwell || job->plan.solver == PU_GD)
        job->batch = 1;
    job->batch_most = job->batch;
    pu__device_batch(job, report);
    return PU_OK;
}

/* ---- the job ---- */

/* Both operators where the backend works; before there is memory, their sizes alone. */
PU__FN pu_status pu__job_sides(pu__job *job, pu_report *report)
{
    void **at = job->side_memory;
    size_t *bytes = job->side_bytes;
    if (pu__side(job->B, job->Gamma, &pu__names_Gamma, at[0], bytes, job->side, report))
        return report->status;
    return pu__side(job->B, job->Phi, &pu__names_Phi, at[1], bytes + 1, job->side + 1, report);
}

/* What is asked for, before the data are read: model, backend, options. */
PU__FN pu_status pu__job_ask(pu__job *job, const pu_lgm *model, const pu_data *data, pu_report *report)
{
    const pu_options *o = job->o;
    const pu_gradient_result *out = job->out;
    pu_int stride = o->solve.precond_stride;
    int exact = o->kind == PU_EXACT;
    if (pu__resolve_model(&job->r, model, report))
        return report->status;
    job->B = o->backend ? o->backend : pu_backend_cpu();
    job->model = &job->r.model;
    job->Gamma = job->model->Gamma;
    job->Phi = job->model->Phi;
    job->D = job->Gamma->rows;
    job->M = job->Phi->rows;
    job->data = data;
    if (pu__check_backend(job->B, report) || pu__check_data_shape(data, job->M, report) || pu__check_options(o, report))
        return report->status;
    job->N = data->n;
    job->kind = o->kind;
    job->engine = pu__engine_asked(o, out);
    if (job->Gamma->form == PU_FORM_CHAIN && o->engine == PU_ENGINE_DEFAULT)
        job->engine = PU_ENGINE_AUTO;
    /* PU_EXACT has no iterative engine */
    if (exact && job->engine == PU_ITERATIVE)
        job->engine = PU_DENSE;
    job->device = pu__is_far(job->B);
    /* A device has the iterative engine only; exact engines work on the host. The plan tells. */
    if (job->device && !exact && o->engine == PU_ENGINE_AUTO)
        job->engine = PU_ITERATIVE;
    if (job->device && job->engine != PU_ITERATIVE) {
        job->device = 0;
        job->B = pu_backend_cpu();
    }
    job->exact = exact || job->engine == PU_ENGINE_AUTO;
    job->any_grad = out->nu || out->Gamma || out->Phi || out->eta || out->psi || out->precond;
    job->K = o->samples ? o->samples : 10;
    if ((exact || job->Gamma->form == PU_FORM_CHAIN) && !job->want_draws)
        job->K = 0;
    job->cols = job->K + 1;
    job->m_stride = stride ? stride : job->D;
    if (stride == PU_ZERO)
        job->m_stride = 0;
    if (pu__plan_make(&o->solve, job->D, o->kind == PU_MONTE_CARLO, o->kind == PU_NETWORK, &job->plan, report) ||
        pu__job_sides(job, report))
        return report->status;
    job->network = o->kind == PU_NETWORK && job->any_grad; /* no tape when no gradient is wanted */
    job->asked_steps = job->plan.I;
    job->slots.want_Gamma = out->Gamma && job->Gamma->params;
    job->slots.want_Phi = out->Phi && job->Phi->params;
    job->slots.want_psi = out->psi != NULL;
    job->slots.tied = o->tied_psi;
    job->slots.probes = job->K;
    return PU_OK;
}

/* The gradient vector of a lane, and the groups of probes for standard errors: G groups estimate the variance of a
   probe with G - 1 degrees of freedom, so that there must be two. */
PU__FN pu_status pu__job_slots(pu__job *job, pu_report *report)
{
    const pu_gradient_result *out = job->out;
    pu__slots *s = &job->slots;
    pu_int Gamma = job->Gamma->params;
    pu_int Phi = job->Phi->params;
    pu_int asked = job->o->groups;
    job->by_rows = out->Phi && pu__plain(job->Phi);
    if (Gamma > PTRDIFF_MAX / 8 || Phi > PTRDIFF_MAX / 8)
        return pu__refuse(report, PU_E_OVERFLOW, "params");
    if (out->se_Gamma || out->se_Phi || out->se_psi || out->replicates) {
        if (asked < 0 || asked > job->K || asked == 1)
            return pu__beyond(report, "options.groups (at least 2, at most K, or 0 = K up to 16)", job->K);
        if (job->K == 1)
            return pu__refuse(report, PU_E_ARGUMENT, "options.samples (at least 2 for a standard error)");
        s->groups = asked ? asked : pu__min(job->K, 16);
        job->by_rows = 0; /* the groups have copies of their own */
        if (Gamma + Phi + 4 * job->M + 2 * job->D > PTRDIFF_MAX / 8 / (s->groups + 2))
            return pu__refuse(report, PU_E_OVERFLOW, "params");
    }
    job->device_slots = *s;
    pu__slots_make(s, job->Gamma, job->Phi, out->precond != NULL);
    pu__slots_make(&job->device_slots, &job->side[0].op, &job->side[1].op, out->precond != NULL);
    return PU_OK;
}

/* What the report tells of a job. */
PU__FN void pu__job_report(const pu__job *job, pu_report *report)
{
    report->groups = job->slots.groups;
    report->batch = job->device ? job->batch : 0;
    report->kind = job->kind;
    report->engine = job->engine;
    report->solver = job->plan.solver;
    report->samples = job->K;
    report->iterations = job->plan.I;
    report->tape_every = job->plan.every;
    report->threads = job->threads;
    report->lanes = job->lanes;
    report->columns = job->served[PU_ITERATIVE] ? job->block : job->kmax;
    report->seconds = 1e-9 * job->ns;
    pu__plan_words(job, report);
}

/* Checks everything that can be checked without memory, and decides everything that can be decided. The job is zero
   but for what its caller wants besides. options and out may be NULL. want_nll: the likelihood is wanted where it can
   be had. */
PU__FN pu_status pu__job_make(pu__job *job, const pu_lgm *model, const pu_data *data, const pu_options *options,
                              const pu_gradient_result *out, int want_nll, pu_report *report)
{
    static const pu_options zero_options = PU__ZERO;
    static const pu_gradient_result zero_results = PU__ZERO;
    int overflow = 0;
    int lanczos;
    job->o = options ? options : &zero_options;
    job->out = out ? out : &zero_results;
    if (pu__job_ask(job, model, data, report) || pu__assign(job, report))
        return report->status;
    /* whether there must be room for a formed A: decided for the datum with most rows, for each one when it is loaded */
    if (job->served[PU_ITERATIVE]) {
        (void)pu__products_cost(job, job->restricted ? job->most[PU_ITERATIVE] : job->M, &job->form);
    } else {
        job->plan.I = 0;
        job->plan.every = 0;
    }
    job->centred = model->nu && !job->device && !(job->network && job->served[PU_ITERATIVE]);
    /* log det comes from the Lanczos process of the probes: CG or PCG, started at zero */
    lanczos = job->served[PU_ITERATIVE] && job->K && !job->o->x0 && pu__has_momentum(job->plan.solver);
    if (job->out->logdet && !lanczos)
        return pu__refuse(report, PU_E_UNSUPPORTED, "results.logdet (needs probes solved by CG or PCG from zero)");
    job->want_nll = lanczos && (want_nll || job->out->logdet);
    if (pu__check_functions(job, report))
        return report->status;
    (void)pu__mul(pu__mul((size_t)job->N, (size_t)job->cols, &overflow),
                  pu__mul((size_t)job->D, sizeof(pu_real), &overflow), &overflow);
    if (overflow)
        return pu__refuse(report, PU_E_OVERFLOW, "N (K+1) D");
    pu__job_parts(job);
    if (pu__job_slots(job, report) || (job->device && pu__device_make(job, report)))
        return report->status;
    pu__job_report(job, report);
    return PU_OK;
}

/* ------------------------------------------------------------------------------------------------
   >>batch   from data to the sums of a lane: loading, right-hand sides, one block of columns, lanes

   The columns of a datum are [b | delta_1 .. delta_K]: the mean mu = A^-1 b, and probes sigma_k = A^-1 delta_k ~ N(0, Sigma).
   Functions of this storey may return PU_E_OPERATOR without a word in the report: pu__blame writes it, since the posterior
   remembers whose function failed.
   ------------------------------------------------------------------------------------------------ */

/* Names the operator that failed at datum n. What has been recorded already keeps its place, but the user's operator
   is named, not "A". Returns status. */
PU__FN pu_status pu__blame(const pu__worker *w, pu_status status, pu_int n, pu_report *report)
{
    const char *failed = w->post.failed;
    if (status != PU_E_OPERATOR)
        return status;
    if (!report->status)
        return pu__operator_failed(report, failed, n);
    if (failed)
        report->where.what = failed;
    return status;
}

/* ---- loading a datum ---- */

/* Adds the logarithms of n numbers. */
PU__FN void pu__logs_array(pu__logs *logs, pu_int n, const pu_real *x)
{
    for (pu_int i = 0; i < n; i++)
        pu__logs_add(logs, (double)x[i]);
}

/* What a datum of the iterative engine has besides its observations, which were read last: diag(A), the
   preconditioner, and the s of the log det's control variate. It is number `which` of those side by side. */
PU__FN pu_status pu__load_diagonal(const pu__job *job, pu__worker *w, pu_int n, pu_int which, pu_report *report)
{
    pu_int D = job->D;
    pu_int at = pu__ring_at(job, n);
    int pcg = job->plan.solver == PU_PCG;
    int known = pu__has_diag(job->model);
    pu__logs logs = {0, 1};
    double sum;
    if (known && (pcg || job->want_nll || job->o->rao_blackwell || job->want_variance)) {
        pu__zeros(w->diag, D);
        if (pu__posterior_diag(&w->post, w->diag))
            return pu__operator_failed(report, w->post.failed, n);
        pu__logs_array(&logs, D, w->diag);
    }
    w->logdet_M[at] = 0;
    if (pcg) {
        const pu_real *m = job->o->solve.precond;
        const pu_real *now = w->run.host_m + 2 * which * D;
        pu__logs base = {0, 1};
        if (pu__set_m(&w->run, which, m ? m + n * job->m_stride : NULL, w->diag, n, report))
            return report->status;
        if (known)
            pu__logs_array(&logs, D, now);
        if (job->want_nll)
            pu__logs_array(&base, D, now);
        w->logdet_M[at] = -(base.sum + log(base.product)); /* m holds M^-1 */
    }
    /* s is the geometric mean of diag(M^-1 A), near the middle of the spectrum's logarithm */
    sum = logs.sum + log(logs.product);
    w->centre[at] = job->o->no_control_variate || !pu__finite_double(sum) ? 1 : exp(sum / (double)D);
    return PU_OK;
}

/* Observations of datum n, and what depends on them alone. A datum may be loaded by several lanes, each of which takes
   some of its columns; the one that has column 0 (first = 0) records what there is to record. */
PU__FN pu_status pu__load(const pu__job *job, pu__worker *w, pu_int n, pu_int first, pu_report *report)
{
    pu__posterior *p = &w->post;
    int form = 0;
    double c;
    if (w->loaded == n)
        return PU_OK;
    w->loaded = -1;
    p->failed = NULL;
    *p->now.id = pu__datum_id(job->data, n);
    w->engine = pu__engine_for(job, pu__posterior_load(p, job->data, n, &c));
    if (first == 0) {
        job->observed[n] = p->observed;
        job->c[n] = c;
        job->served_by[n] = (unsigned char)w->engine;
    }
    if (w->engine == PU_ITERATIVE) {
        if (job->form)
            (void)pu__products_cost(job, p->observed, &form);
        if (form) {
            if (pu__posterior_dense(p, w->run.x, w->run.q, p->A))
                return PU_E_OPERATOR;
            pu__posterior_set_kind(p, &pu__kind_formed);
        }
        if (pu__load_diagonal(job, w, n, 0, report))
            return report->status;
    }
    w->loaded = n;
    return PU_OK;
}

/* The same for the batch that begins at datum n, side by side where the backend works, into the upload that was not
   used last. Each datum has room for as many rows as the one that has most. */
PU__FN pu_status pu__device_load(const pu__job *job, pu__worker *w, pu_int n, pu_report *report)
{
    pu__posterior *p = &w->post;
    pu_int count = pu__min(job->batch, job->N - n);
    p->failed = NULL;
    p->slot = !p->slot;
    p->count = count;
    p->cols = job->block;
    p->restricted = pu__can_restrict(&p->Phi->op);
    p->observed = 0;
    for (pu_int g = 0; g < count; g++)
        p->observed = pu__most(p->observed, pu__count_observed(job->data, n + g));
    p->n_rows = p->restricted ? p->observed : p->M;
    p->rows = NULL; /* all rows, unless a datum lacks some */
    p->joint = 0;
    pu__posterior_set_kind(p, p->usual);
    job->B->use_slot(job->B->user, p->slot);
    /* the batch before may still be solving: it keeps its preconditioners */
    if (p->m) {
        pu_int at = p->slot * p->wide * p->D;
        w->run.m = p->m + at;
        w->run.minv = p->minv + at;
    }
    for (pu_int g = 0; g < count; g++) {
        pu_int *list = p->staged.rows + g * p->n_rows;
        pu_int at = n + g;
        pu_int observed = pu__posterior_read(p, job->data, at, g, p->n_rows, job->c + at);
        p->staged.id[g] = pu__datum_id(job->data, at);
        job->observed[at] = observed;
        job->served_by[at] = PU_ITERATIVE;
        /* shorter lists end in -1 */
        if (p->restricted) {
            for (pu_int i = 0; i < p->n_rows; i++)
                list[i] = i < observed ? p->list[i] : -1;
            if (observed < p->M)
                p->rows = p->staged.rows;
        }
        if (pu__load_diagonal(job, w, at, g, report))
            return report->status;
    }
    pu__posterior_send(p);
    job->B->batch(job->B->user, count);
    return PU_OK;
}

/* ---- right-hand sides ---- */

/* The caller's probes into run.u, for columns first .. of every datum from n on. Column 0, the mean, has none. */
PU__FN void pu__given_probes(const pu__job *job, pu__worker *w, pu_int n, pu_int first, pu_int k)
{
    pu_int D = job->D;
    pu_int each = k / w->post.count;
    for (pu_int j = 0; j < k; j++) {
        pu_int probe = first + j % each - 1;
        const pu_real *delta = job->o->delta + ((n + j / each) * job->K + probe) * D;
        if (probe >= 0)
            pu__send(job->B, pu__col(w->run.u, j), delta, D);
    }
}

/* delta = Gamma^1/2 eps1 + Phi'W^1/2 eps2 for k columns, the first of which is probe number `sample`. Each normal
   belongs to its row, whichever other rows are observed. */
PU__FN pu_status pu__draw_probes(const pu__job *job, pu__worker *w, pu_block delta, pu_int k, uint32_t sample)
{
    pu__posterior *p = &w->post;
    const pu_op *Gamma = &p->Gamma->op;
    const pu_options *o = job->o;
    const pu_backend *B = job->B;
    B->normals(B->user, pu__noise(job->Gamma), NULL, k, w->eps, o->seed, p->now.id, sample, o->step, PU__STREAM_PRIOR);
    if (Gamma->sample(Gamma, k, w->eps, delta, p->work))
        return pu__note_failure(p, PU_E_OPERATOR, "Gamma.sample");
    B->normals(B->user, p->n_rows, p->rows, k, w->eps, o->seed, p->now.id, sample, o->step, PU__STREAM_NOISE);
    pu__weigh(p, k, w->eps, w->eps, 1, p->now.w_root);
    return pu__phi_apply_t(p, k, w->eps, delta, 1);
}

/* Columns first .. first+k-1 of [b | delta_1 .. delta_K] into run.u. On a device: of every datum, and b's columns get
   a probe, too, before b itself, so that columns of one kind lie side by side. */
PU__FN pu_status pu__rhs(const pu__job *job, pu__worker *w, pu_int n, pu_int first, pu_int k)
{
    pu_block u = w->run.u;
    /* column 0 of the first block is b */
    pu_int skip = first == 0 && !job->device;
    const pu_real *gamma_nu = job->device ? job->device_nu : job->gamma_nu;
    pu_status status = PU_OK;
    if (job->o->delta)
        pu__given_probes(job, w, n, first, k);
    else if (k > skip)
        status = pu__draw_probes(job, w, pu__from(u, skip), k - skip, (uint32_t)(first + skip - 1));
    if (status || first > 0)
        return status;
    return pu__posterior_rhs(&w->post, job->model->nu ? gamma_nu : NULL, pu__means(&w->post, u));
}

/* ---- terms ---- */

/* b depends on theta too: with bbar = dF/db,
     Phi += (W e) bbar',  eta -= W (Phi bbar + e),  psi += mask (Phi bbar e + e^2/2 - 1/(2 psi)),
   and bbar itself is summed up for Gamma and nu, whose terms are formed once per batch. Where the square terms are `joint` with these
   bbar = -x, Phi's term has been added, and the last product was with x. */
PU__FN pu_status pu__linear_terms(const pu__job *job, pu__worker *w, pu_real *lane)
{
    pu__posterior *p = &w->post;
    const pu__slots *s = &p->slots;
    const pu_backend *B = job->B;
    pu_int count = p->count;
    pu_block b = pu__rows(w->bbar, job->D);
    pu_block sum = pu__rows(p->row_sum, p->M);
    B->row_dot(B->user, job->D, count, NULL, NULL, b, pu__rows(NULL, 0), job->D, NULL, lane + s->b);
    /* Phi bbar = -Phi x may be there already */
    if (job->out->psi || job->out->eta) {
        pu_term minus = pu__term_scaled(pu__means(p, p->t0), -1);
        const pu_real *e = p->now.e;
        if (p->joint && p->left == PU__LEFT_ROWS)
            B->combine(B->user, p->n_rows, count, sum, 1, &minus);
        else if (pu__phi_apply(p, count, b, sum))
            return PU_E_OPERATOR;
        /* with the mean's square term, psi: mask ((e - Phi x)^2 - 1/psi)/2, which is what e - Phi x makes in the place of e
           when there is no Phi bbar. Multiplied out it would cancel where the noise is small */
        if (pu__psi_skips(p)) {
            pu_term both[] = {pu__term(sum), pu__term_full(pu__rows(e, p->n_rows), 1, NULL, p->now.mask)};
            pu_block rest = pu__rows(p->t1.at, p->M);
            B->combine(B->user, p->n_rows, 1, rest, 2, both);
            B->combine(B->user, p->n_rows, 1, sum, 0, NULL);
            e = rest.at;
        }
        B->row_terms(B->user, p->n_rows, count, sum, p->now.w, p->now.mask, e, p->psi, p->M, p->rows, lane + s->eta,
                     lane + s->psi);
    }
    if (!s->want_Phi || p->joint)
        return PU_OK;
    return pu__phi_grad(p, count, pu__weighted_e(p), b, p->ones, lane + s->Phi);
}

/* log det A as each probe column of the block sees it, and how far that may be from what more steps would give: the
   larger of the last step's change and of the part of delta'A^-1 log(A/s) delta that the residual leaves open, about
   r'A^-1 r (1 + |log(theta/s)|) with theta the smallest Ritz value. The block has g->each columns of datum n, then of
   n + 1 .., from number `first` on. */
PU__FN void pu__logdets(const pu__job *job, pu__worker *w, pu_int n, pu_int first)
{
    pu__run *g = &w->run;
    pu__staged_column *column = job->columns + n * job->cols + first;
    for (pu_int j = 0; j < g->k; j++, column++) {
        pu_int at = pu__ring_at(job, n + j / g->each);
        pu_int steps = g->host_steps[j];
        pu_int stop = g->host_stop[j];
        const pu_real *rho = g->host_rho + j; /* rho_l = r'M^-1 r after l steps: one for every k */
        double begin = (double)rho[0];
        double s = w->centre[at];
        pu__quadrature_result seen = pu__quadrature(g, j, s);
        double change = fabs(pu__last_change(g, j, s));
        double theta = seen.smallest;
        double energy = (double)rho[steps * g->k] / theta; /* about r'A^-1 r */
        double open = steps ? energy * (1 + fabs(log(theta / s))) : begin;
        column->low = theta;
        column->high = seen.largest;
        column->energy = steps ? energy : -1;
        if (first + j % g->each == 0)
            continue; /* the mean has no part in the log det */
        column->logdet = seen.value + w->logdet_M[at];
        /* a column that ended at rounding level has nothing left to change, however much its last step did */
        column->gap = stop == PU_STOP_ROUNDING || stop == PU_STOP_ZERO ? open : pu__max(change, open);
    }
}

/* Control variates of the probe columns just solved: with a = 1/A_jj,
     1/2 [a + (sigma_j - a delta_j)^2] = 1/2 sigma_j^2 + 1/2 a (1 - 2 sigma_j delta_j + a delta_j^2),
   whose last term has mean zero because cov(sigma, delta) = I and cov(delta) = A. */
PU__FN pu_status pu__rao_blackwell(const pu__job *job, pu__worker *w, pu_real *lane)
{
    const pu__slots *s = &job->slots;
    const pu__slots *there = &job->device_slots;
    const pu_op *Gamma = job->Gamma;
    pu_int D = job->D;
    pu_int k = w->run.k;
    pu_block x = w->run.x;
    pu_block u = w->run.u;
    pu_int wide = Gamma->band + 1;
    double *Z = w->direct.Z;
    pu_int end;
    if (job->device) {
        pu__receive(job->B, job->columns_x, x.at, D * k);
        pu__receive(job->B, job->columns_u, u.at, D * k);
        x = pu__rows(job->columns_x, D);
        u = pu__rows(job->columns_u, D);
        lane = job->grads;
    }
    /* Z, a diagonal matrix as a band, for each group of probes; not for the mean */
    for (pu_int j = w->post.column == 0; j < k; j = end) {
        pu_int at = pu__group_at(&w->post, j);
        end = pu__group_end(&w->post, j, k);
        memset(Z, 0, (size_t)(D * wide) * sizeof *Z);
        for (; j < end; j++) {
            double half = (double)w->weight[j] / 2;
            for (pu_int i = 0; i < D; i++) {
                double a = 1 / (double)w->diag[i];
                double d = (double)pu__col(u, j)[i];
                Z[i * wide] += half * a * (1 - 2 * (double)pu__col(x, j)[i] * d + a * d * d);
            }
        }
        if (at) /* the group's place in the host's vector */
            at = s->group + (at - there->group) / there->eta * s->eta;
        if (Gamma->band_grad(Gamma, Gamma->band, Z, 1, lane + at))
            return pu__note_failure(&w->post, PU_E_OPERATOR, "Gamma.band_grad");
    }
    return PU_OK;
}

/* ---- what rounding leaves ---- */

/* Errors and sizes of a mean, entry by entry in units of standard deviations. */
typedef struct {
    double error;  /* largest */
    double nu;     /* largest of Gamma times the error, as it is */
    double x;      /* largest of the error, as it is */
    double size;   /* largest |x - nu| */
    double centre; /* largest nu^2 */
    double top;    /* largest |x|, as it is */
} pu__mean_error;

/* What an error of the mean leaves in gradients, given its value and the rounding unit eps of whatever is computed after
   it. Errors count relative to the terms that a gradient is the sum of: those in mu, those in Sigma, and log det. With m the
   error of the mean, s the size of mu - nu and a that of e - Phi mu, all in units of their standard deviations:
     Gamma: m s / (1 + s^2)    psi: m / (1 + a)    Phi: m max(a, s) / (1 + a s)    eta: m / a
   with a s of one and the same row.
   lost->relative may have a value already, and is raised to that of the worst of the gradients that are wanted. */
PU__FN void pu__gradient_losses(const pu__job *job, const pu__worker *w, const pu__value *v, const pu__mean_error *mean,
                                double eps, pu__losses *lost)
{
    const pu_gradient_result *out = job->out;
    double root = sqrt(v->weight), a = root > 0 ? v->seen / root : 0;
    double m = mean->error, s = mean->size, error = lost->relative, spread = eps * v->spread;
    /* the dual and the iterative engine know s in units of the prior; the data may know more */
    double s_data = s * (w->engine == PU_DUAL ? sqrt(w->direct.prior) : 1);
    int near = w->engine != PU_DUAL && w->engine != PU_ITERATIVE; /* s is that of the posterior, not larger */
    if (w->engine == PU_ITERATIVE)
        s_data = sqrt(s * s + v->spread * v->spread);
    if (out->Gamma)
        error = pu__max(error, (m * (s + m) + eps * mean->centre) / (1 + s * s));
    if (out->Gamma)
        error = pu__max(error, eps * (v->moves + job->nu_moves) / (1 + fabs(v->prior)));
    /* with a reverse pass (e - Phi mu)^2 is multiplied out */
    if (out->psi && job->network && w->engine == PU_ITERATIVE)
        error = pu__max(error, (m + spread) * (1 + v->spread) / (1 + a * a));
    else if (out->psi)
        error = pu__max(error, (m + spread) / (1 + a));
    if (out->Phi)
        error = pu__max(error, (m * pu__max(a, s_data) + spread * s_data) / (1 + (near ? v->pull : a * s_data)));
    lost->relative = error;
    lost->eta = root * m + eps * v->terms;
    lost->nu = mean->nu + eps * job->gamma_nu_top;
}

/* The sizes of the gradients in eta and nu. Gamma (mu - nu) = Phi'W (e - Phi mu): what rounding has left of the former is
   told by the latter. */
PU__FN pu_status pu__gradient_sizes(const pu__job *job, pu__worker *w, const pu__value *v, pu__staged_column *c)
{
    pu__posterior *p = &w->post;
    c->eta_size = v->eta;
    if (!job->out->nu)
        return PU_OK;
    pu__weigh(p, 1, pu__rows(p->row_sum, p->M), p->t1, 1, p->now.w);
    p->left = PU__LEFT_NOTHING;
    if (pu__phi_apply_t(p, 1, p->t1, pu__rows(w->bbar, job->D), 0))
        return PU_E_OPERATOR;
    for (pu_int i = 0; i < job->D; i++)
        c->nu_size = pu__max(c->nu_size, fabs((double)w->bbar[i]));
    if (!(c->nu_size > 0)) {
        c->rounding.nu = 0;
        c->solver.nu = 0;
    }
    return PU_OK;
}

/* Is the value of data of the iterative engine known as a sum of squares? On a device it is not. */
PU__FN int pu__has_value(const pu__job *job) { return !job->device && (job->any_grad || job->want_nll); }

/* The residual r = b - A x of the mean, once its columns have been recorded. With z = M^-1 r, z'A z / z'r is a Rayleigh
   quotient as the Ritz values are, and r'A^-1 r at least z'r divided by it. Where A has parts of very different size the
   solver may stop before it has seen the smallest; these are what r consists of then. It is at most r'Gamma^-1 r, for which
   stands sum_i r_i^2 / Gamma_ii: that may leave but one digit of x'A x although the solver took r for small enough. Is it
   *blind to parts of A in this way? */
PU__FN pu_status pu__second_look(const pu__job *job, pu__worker *w, pu__staged_column *c, int *blind)
{
    pu__run *g = &w->run;
    pu__posterior *p = &w->post;
    pu_block r = g->xbar, z = pu__rows(w->bbar, p->D);
    double zr = 0, most = 0, rr, bb, zaz;
    if (!(c->low > 0) || c->record.steps == 0)
        return PU_OK;
    if (p->kind->product(p, 1, g->x, g->q, 0, NULL))
        return PU_E_OPERATOR;
    for (pu_int i = 0; i < p->D; i++) {
        double prior = (double)job->gamma_diag[i], one;
        r.at[i] = g->u.at[i] - g->q.at[i];
        z.at[i] = r.at[i] * (g->m ? g->m[i] : 1);
        one = (double)r.at[i];
        zr += one * (double)z.at[i];
        most += prior > 0 ? one * one / prior : 0;
    }
    if (p->kind->product(p, 1, z, g->q, 0, NULL))
        return PU_E_OPERATOR;
    rr = pu__dot(p->D, NULL, r.at, r.at);
    bb = pu__dot(p->D, NULL, g->u.at, g->u.at);
    zaz = pu__dot(p->D, NULL, z.at, g->q.at);
    *blind = c->record.stop != PU_STOP_STEPS && rr <= 100 * (double)PU__EPS * bb && 1000 * most >= c->xax;
    if (!(zr > 0 && zaz > 0))
        return PU_OK;
    if (zaz < c->low * zr)
        c->low = zaz / zr;
    c->energy = pu__max(c->energy, zr * zr / zaz);
    return PU_OK;
}

/* The same for a datum of the iterative engine, whose first columns were solved and recorded. Rounding: what cancels, and
   what b's does to the mean where the spectrum is known. The solver: what it leaves of |x - A^-1 b|_A, taken as spread
   evenly over the entries; a network gradient has it to second order. */
PU__FN pu_status pu__iterative_losses(const pu__job *job, pu__worker *w, pu_int n)
{
    pu__staged_column *c = job->columns + n * job->cols;
    pu__value v;
    pu__mean_error mean = PU__ZERO;
    double condition, D = (double)job->D, steepest = 0;
    int blind = 0;
    w->post.left = PU__LEFT_NOTHING;
    if (job->want_nll && pu__second_look(job, w, c, &blind))
        return PU_E_OPERATOR;
    condition = c->high > 0 && c->low > 0 ? c->high / c->low : 1;
    w->post.left = PU__LEFT_NOTHING;
    if (pu__posterior_value(&w->post, w->run.x, w->bbar, w->run.q.at, &v))
        return PU_E_OPERATOR;
    mean.error = (double)PU__EPS * sqrt(condition * v.data);
    /* on average over the entries: (x - nu)'Gamma (x - nu) and nu'Gamma nu */
    mean.size = sqrt(fabs(v.prior) / D);
    mean.centre = job->centred ? 0 : fabs(2 * job->shared_c + job->gamma_logdet) / D;
    c->value = v.value;
    c->nll_rounding = v.rounding + (double)PU__EPS * fabs(job->gamma_logdet);
    c->rounding.relative = pu__max(PU__ROUNDINGS * (double)PU__EPS, job->out->Gamma ? job->gamma_rounding : 0);
    if (blind)
        c->rounding.relative = 1;
    /* the largest Gamma_ii; where they are not known, (Gamma d)_i^2 / d'Gamma d, which is at most that */
    for (pu_int i = 0; i < job->D; i++) {
        double pushed = (double)w->run.q.at[i], one = (double)job->gamma_diag[i];
        steepest = pu__max(steepest, job->Gamma->diag || !(v.prior > 0) ? one : pushed * pushed / v.prior);
    }
    mean.nu = sqrt(steepest) * mean.error;
    pu__gradient_losses(job, w, &v, &mean, (double)PU__EPS, &c->rounding);
    if (c->energy > 0) {
        mean.error = sqrt(c->energy / D);
        if (job->network)
            mean.error *= (double)job->plan.I * sqrt(c->energy / c->xax);
        mean.nu = sqrt(steepest) * mean.error;
        pu__gradient_losses(job, w, &v, &mean, 0, &c->solver);
    }
    return pu__gradient_sizes(job, w, &v, c);
}

/* ---- a block of columns by the iterative engine ---- */

/* Gradient of the block just solved, whose first column has that number: 1/2 x'A x, what comes back through the
   solver, what is linear in b. */
PU__FN pu_status pu__block_gradient(const pu__job *job, pu__worker *w, pu_int first, const pu_block *x0, pu_real *lane)
{
    pu__run *g = &w->run;
    pu__posterior *p = &w->post;
    const pu_backend *B = job->B;
    int iterative = w->engine == PU_ITERATIVE;
    int network = job->network && iterative;
    pu_status status;
    p->column = first;
    p->joint = first == 0 && !network;
    p->joint_at = g->x.at;
    p->centred = NULL;
    if (p->joint && job->centred) {
        pu_term terms[] = {pu__term(g->x), pu__term_scaled(pu__rows(job->model->nu, job->D), -1)};
        B->combine(B->user, job->D, 1, pu__rows(w->bbar, job->D), 2, terms);
        p->centred = w->bbar;
    }
    pu__set_scalars(g, g->s.scale, w->weight, PU_R(0.5));
    status = pu__posterior_square(p, g->k, g->x, g->s.scale, 1, lane);
    if (!status && network) {
        pu__set_scalars(g, g->s.scale, w->weight, 1);
        status = pu__reverse(g, x0, lane);
    }
    /* bbar = -x + scale rbar, of the mean of each datum: F has -b'x, and u = b where it comes back through the solver */
    if (!status && first == 0) {
        int several = network && p->count > 1;
        pu_term terms[2];
        terms[0] = pu__term_scaled(pu__means(p, g->x), -1);
        terms[1] = pu__term_c(g->rbar, g->s.scale);
        if (several) { /* scale has an entry for every column */
            pu__combine2(g, g->qbar, pu__term_scaled(g->x, -1), terms[1]);
            terms[0] = pu__term(pu__means(p, g->qbar));
        }
        B->combine(B->user, job->D, p->count, pu__rows(w->bbar, job->D), network && !several ? 2 : 1, terms);
        status = pu__linear_terms(job, w, lane);
    }
    p->joint = 0;
    p->centred = NULL;
    if (!status && iterative && job->o->rao_blackwell && p->slots.want_Gamma)
        status = pu__rao_blackwell(job, w, lane);
    p->column = -1;
    return status;
}

/* Results and records of the columns just solved, staged. */
PU__FN void pu__block_records(const pu__job *job, pu__worker *w, pu_int n, pu_int first)
{
    pu__run *g = &w->run;
    const pu_gradient_result *stage = &job->stage;
    pu_int D = job->D;
    pu_int I = job->plan.I;
    pu_int at = n * job->cols + first;
    if (stage->x)
        pu__receive(job->B, stage->x + at * D, g->x.at, g->k * D);
    for (pu_int j = 0; j < g->k; j++) {
        pu__staged_column *column = job->columns + at + j;
        memset(column, 0, sizeof *column);
        pu__column_record(g, j, &column->record);
        column->ux = g->ux[j];
        column->xax = g->ux[j] - g->xt[j]; /* u'x - (u - A x)'x */
        for (pu_int i = 0; i < I; i++) {   /* the histories have a row of k for each step */
            pu_int from = i * g->k + j;
            pu_int to = (at + j) * I + i;
            if (stage->alpha)
                stage->alpha[to] = i < g->done ? g->host_a[from] : 0;
            if (stage->beta)
                stage->beta[to] = i < g->done ? g->host_b[from] : 0;
        }
    }
    if (job->want_nll)
        pu__logdets(job, w, n, first);
}

/* A block of columns, from number `first` on, of datum n (on a device of the batch at n), from right-hand sides to
   sums. A device gets the next batch while it works on the last block of this one; only then its outcome is read. */
PU__FN pu_status pu__iterative_block(const pu__job *job, pu__worker *w, pu_int n, pu_int first, pu_real *lane,
                                     pu_report *report)
{
    pu__run *g = &w->run;
    const pu_options *o = job->o;
    const pu_real *step = o->solve.step;
    pu_real *residual = job->stage.residual;
    pu_int D = job->D;
    pu_int at = n * job->cols + first;
    pu_int each = pu__min(job->block, job->cols - first);
    pu_int k = each * w->post.count;
    pu_int next = n + w->post.count;
    pu_block start = pu__rows(o->x0 ? o->x0 + at * D : NULL, D);
    const pu_block *x0 = o->x0 ? &start : NULL;
    pu_status outcome;
    /* right-hand sides */
    pu__run_set(g, job->plan.solver, k);
    if (job->plan.solver == PU_GD && pu__set_step(g, step ? step + n : NULL, n, report))
        return report->status;
    g->each = each;
    if (pu__rhs(job, w, n, first, k))
        return PU_E_OPERATOR;
    if (job->device && x0) {
        pu__send(job->B, job->x0.at, start.at, k * D);
        start = job->x0;
    }
    /* the mean counts once; (1/K) sum_k sigma_k sigma_k' estimates Sigma */
    for (pu_int j = 0; j < k; j++)
        w->weight[j] = first + j % each == 0 ? 1 : 1 / (pu_real)job->K;
    g->mbar = job->out->precond ? lane + w->post.slots.m : NULL;
    /* solve, residual, gradient */
    outcome = pu__run_block(g, x0, job->network, n, first, report);
    if (pu__fatal(outcome))
        return outcome;
    for (pu_int j = 0; residual && j < k; j++)
        pu__receive(job->B, residual + (at + j) * D, pu__col(g->xbar, j), D);
    if (job->any_grad && pu__block_gradient(job, w, first, x0, lane))
        return pu__operator_failed(report, w->post.failed ? w->post.failed : "A.apply or A.grad", n);
    if (job->device && first + each > job->K && next < job->N && pu__device_load(job, w, next, report))
        return report->status;
    outcome = pu__run_outcome(g, outcome, job->network, n, first, report);
    if (pu__fatal(outcome))
        return outcome;
    pu__block_records(job, w, n, first);
    if (first == 0 && pu__has_value(job) && pu__iterative_losses(job, w, n))
        return PU_E_OPERATOR;
    return outcome;
}

/* ---- a datum by a direct engine ---- */

/* The record of column `at` of all, of datum n: a factorisation took no steps, and there is nothing to tell of them. */
PU__FN pu__staged_column *pu__direct_record(const pu__job *job, pu_int n, pu_int at)
{
    pu__staged_column *c = job->columns + at;
    memset(c, 0, sizeof *c);
    c->record.stop = PU_STOP_DIRECT;
    c->record.orthogonality = -1;
    c->record.growth = -1;
    c->logdet = job->logdet[n];
    return c;
}

/* Columns first .. first+k-1 of datum n: solved, their residuals measured, recorded and staged. */
PU__FN pu_status pu__direct_columns(const pu__job *job, pu__worker *w, pu_int n, pu_int first, pu_int k)
{
    pu__run *g = &w->run;
    const pu_gradient_result *stage = &job->stage;
    pu_int D = job->D;
    pu__run_set(g, job->plan.solver, k);
    if (pu__rhs(job, w, n, first, k) || pu__engines[w->engine].solve(&w->direct, first, k))
        return PU_E_OPERATOR;
    /* there is no recurrence: what counts is the true residual, u - A x */
    pu__combine(g, g->r, 0, NULL);
    if (pu__residual(g))
        return PU_E_OPERATOR;
    pu__read_dots(g);
    for (pu_int j = 0; j < k; j++) {
        pu_int at = n * job->cols + first + j;
        const pu_real *x = pu__col(g->x, j);
        pu__staged_column *c = pu__direct_record(job, n, at);
        double rhs = sqrt(g->uu[j]);
        double residual = sqrt(g->tt[j]);
        w->weight[j] = first + j == 0 ? 1 : 1 / (pu_real)job->K;
        c->record.rhs = rhs;
        c->record.residual = residual;
        c->record.true_residual = residual;
        c->ux = g->ux[j];
        c->xax = g->ux[j] - g->xt[j];
        if (stage->x)
            pu__copy(stage->x + at * D, x, D);
        if (stage->residual)
            pu__copy(stage->residual + at * D, pu__col(g->xbar, j), D);
        /* x is rounded to pu_real; beyond what that leaves, the factor is of another matrix */
        if (w->engine == PU_BANDED &&
            !(residual <= 0.01 * rhs + 100 * (double)PU__EPS * w->direct.norm * sqrt(pu__dot(D, NULL, x, x))))
            return pu__note_failure(&w->post, PU_E_OPERATOR,
                                    "Gamma.band_add or Phi.row (not the operator that apply is)");
    }
    return PU_OK;
}

/* More than half of the digits gone: what PU_INEXACT means. By half they still serve an optimiser and a standard error. */
#define PU__HALF_DIGITS sqrt((double)PU__EPS)

/* By how much what is told of rounding exceeds the estimate: these are rough. */
#define PU__MARGIN 10

/* w->bbar = A^-1 r with the engine's factor. */
PU__FN pu_status pu__solve_aside(pu__worker *w, pu_block r)
{
    pu__direct *e = &w->direct;
    pu_block u = e->u, x = e->x;
    pu_status status;
    e->u = r;
    e->x = pu__rows(w->bbar, w->post.D);
    status = pu__engines[w->engine].solve(e, 1, 1);
    e->u = u;
    e->x = x;
    return status;
}

/* By how much the factor of the dense or banded engine enlarges errors, better than its pivots tell: of errors of random
   sign, one for each entry of b and as large as A_ii^1/2, seen in units of A_ii^-1/2. The band's Sigma, where it is made
   anyway, can tell that there is no need to look. */
PU__FN pu_status pu__probe_factor(const pu__job *job, pu__worker *w)
{
    pu__direct *e = &w->direct;
    pu_real *v = w->run.q.at;
    int band = w->engine == PU_BANDED || w->engine == PU_KALMAN;
    int sigma = job->any_grad || job->want_variance || job->want_fit;
    if (band && sigma)
        pu__band_sigma(e, job->any_grad);
    /* a transform mixes the weights of its rows: it rounds relative to the largest */
    for (pu_int i = 0; job->Phi->form == PU_FORM_FOURIER && w->engine == PU_DENSE && i < job->M; i++)
        e->kappa = pu__max(e->kappa, (double)w->post.w_all[i] / (double)e->least);
    if (w->engine == PU_DUAL || w->engine == PU_KALMAN || (band && sigma && e->kappa < 100))
        return PU_OK;
    pu__signed_roots(job->D, e->diag, v);
    if (pu__solve_aside(w, pu__rows(v, job->D)))
        return PU_E_OPERATOR;
    for (pu_int i = 0; i < job->D; i++)
        e->kappa = pu__max(e->kappa, fabs((double)w->bbar[i] * (double)v[i]));
    return PU_OK;
}

/* u - A x seen from A^-1, per entry: a random residual, which the factor enlarges by kappa; where that looks too large,
   A^-1 (u - A x) itself. The dual engine does not know diag(A), but r'A^-1 r <= r'Gamma^-1 r. */
PU__FN pu_status pu__residual_square(const pu__job *job, pu__worker *w, double kappa, double *square)
{
    const pu__direct *e = &w->direct;
    int dual = w->engine == PU_DUAL;
    pu_int D = job->D;
    const pu_real *r = w->run.xbar.at;
    pu_real *z = w->bbar;
    double closer = 0, sum = 0;
    if (dual && job->Gamma->solve(job->Gamma, 1, w->run.xbar, pu__rows(z, D), w->post.work))
        return pu__note_failure(&w->post, PU_E_OPERATOR, "Gamma.solve");
    for (pu_int i = 0; i < D; i++) {
        double one = (double)r[i];
        sum += dual ? fabs(one * (double)z[i]) : one * one / (double)e->diag[i];
    }
    *square = (dual ? sum : kappa * sum) / (double)D;
    if (w->engine == PU_KALMAN || sqrt(*square) <= PU__HALF_DIGITS / 16)
        return PU_OK;
    if (pu__solve_aside(w, w->run.xbar))
        return PU_E_OPERATOR;
    for (pu_int i = 0; i < D; i++) {
        double one = (double)z[i];
        closer = dual ? closer + one * (double)r[i] / (double)D : pu__max(closer, one * one * (double)e->diag[i]);
    }
    if (fabs(closer) < *square)
        *square = fabs(closer);
    return PU_OK;
}

/* The mean's error: of its residual; of b, in which rounding may be as large as in the largest term of Phi'W e; of x
   itself when it was rounded to pu_real. Kalman's is not made from b, and its errors have been counted. */
PU__FN pu_status pu__mean_rounding(const pu__job *job, pu__worker *w, const pu__value *v, pu__mean_error *m)
{
    const pu__direct *e = &w->direct;
    const pu_real *nu = job->model->nu, *mean = w->run.x.at, *known = job->gamma_diag;
    int dual = w->engine == PU_DUAL, kalman = w->engine == PU_KALMAN;
    const pu_real *diag = dual ? known : e->diag;
    int all = job->out->nu || job->out->x; /* wanted: not the error alone */
    double eps2 = (double)PU__EPS * (double)PU__EPS, kappa = kalman ? 1 : e->kappa, b, square;
    double worst = 0, largest = 0; /* squares, whose roots are taken at the end */
    memset(m, 0, sizeof *m);
    if (pu__residual_square(job, w, kappa, &square))
        return PU_E_OPERATOR;
    b = (kalman ? e->eps * e->eps * e->kappa * e->kappa : eps2 * kappa) * v->data;
    for (pu_int i = 0; i < job->D; i++) {
        double x = (double)mean[i], prior = (double)known[i], from = 0, push = 0, part, error, size;
        double precision = (double)diag[i], inverse = 1 / precision, variance, unseen;
        if (nu) {
            from = (double)nu[i];
            push = (double)job->gamma_nu[i];
            push *= push * inverse;
            m->centre = pu__max(m->centre, precision * from * from);
        }
        size = precision * (x - from) * (x - from);
        /* the part of diag(A) that comes from the data, and so has a part in b */
        part = b * pu__max(1 - prior * inverse, 0);
        error = part + eps2 * kappa * (size + push);
        if (dual) /* whose mean is nu and a correction, in units of the prior */
            error = eps2 * e->prior * (kappa * kappa * size + prior * from * from);
        error += square + eps2 * precision * x * x;
        worst = pu__max(worst, error);
        largest = pu__max(largest, size);
        if (!all)
            continue;
        variance = kalman ? e->Z[i * (e->width + 1)] : kappa * inverse; /* at most */
        /* Kalman knows the variance: what nobody observes is as uncertain as its start, whatever Gamma_ii says */
        unseen = kalman ? part * variance : 0;
        if (!(prior > 0))
            prior = precision; /* not known */
        if (!(variance * prior < 1))
            variance = 1 / prior;
        m->nu = pu__max(m->nu, error * prior * prior * variance);
        m->x = pu__max(m->x, pu__max(unseen, error * variance));
        m->top = pu__max(m->top, fabs(x));
    }
    m->error = sqrt(worst);
    m->size = sqrt(largest);
    m->nu = sqrt(m->nu);
    m->x = sqrt(m->x);
    return PU_OK;
}

/* What rounding leaves in the likelihood: of its squares (v->rounding); of log det A, whose pivots are off by eps
   each, so D eps in all, the smallest by eps kappa; of rounding both log dets; of a mean that is off by m standard
   deviations in all D entries, D m^2 / 2, since it is a minimum there; of log det Gamma, and of what an engine was given. */
PU__FN double pu__nll_rounding(const pu__job *job, const pu__direct *e, const pu__value *v, double m)
{
    double D = (double)job->D, logdet = fabs(e->logdet) + fabs(job->gamma_logdet);
    double own = v->rounding + job->gamma_rounding + job->states_rounding * fabs(v->prior);
    return own + e->eps * (e->kappa + D) + (double)PU__EPS * logdet + D * m * m / 2 + e->given;
}

/* The same in the results of a direct engine for the datum at hand, whose mean was solved and has the value v. */
PU__FN pu_status pu__direct_rounding(const pu__job *job, pu__worker *w, const pu__value *v, pu__staged_column *c)
{
    const pu__direct *e = &w->direct;
    double kappa = e->kappa, size = fabs(v->value) + (fabs(e->logdet) + fabs(job->gamma_logdet)) / 2, scale = 1, lost;
    pu__mean_error mean;
    if (pu__mean_rounding(job, w, v, &mean))
        return PU_E_OPERATOR;
    /* the dual engine's variances and probes are differences */
    if (w->engine == PU_DUAL && (job->want_variance || job->want_fit || !job->exact))
        kappa = pu__max(kappa, e->prior);
    /* the dual engine has the mean's error in units of the prior; where there are more rows than entries, they have no
       common factor */
    if (w->engine == PU_DUAL && w->post.observed > job->D)
        scale = sqrt(e->prior);
    c->nll_rounding = pu__nll_rounding(job, e, v, mean.error * scale);
    lost = pu__max(job->states_rounding, c->nll_rounding / (size + (double)w->post.observed + 1));
    if (e->kappa * e->eps > 0.01)
        lost = 1; /* a factor without a digit has none to tell */
    /* the likelihood alone does not see these, the mean being a minimum */
    if (job->any_grad || job->out->x)
        lost = pu__max(lost, pu__max(PU__ROUNDINGS * kappa * e->eps, 4 * e->given));
    if (job->out->x && mean.top > 0)
        lost = pu__max(lost, mean.x / mean.top);
    /* Phi x, whose error is mean.error in units of the noise */
    if (job->want_fit && v->spread > 0)
        lost = pu__max(lost, mean.error / v->spread);
    if (job->out->Gamma)
        lost = pu__max(lost, job->gamma_rounding);
    c->rounding.relative = lost;
    if (job->centred)
        mean.centre = 0;
    pu__gradient_losses(job, w, v, &mean, (double)PU__EPS, &c->rounding);
    return pu__gradient_sizes(job, w, v, c);
}

/* Factor, mean and value of datum n by w->engine, and what rounding leaves of them. *k: columns solved. */
PU__FN pu_status pu__direct_begin(const pu__job *job, pu__worker *w, pu_int n, pu_int k, pu_report *report)
{
    pu__direct *e = &w->direct;
    pu__staged_column *mean = job->columns + n * job->cols;
    pu__value value;
    e->gamma_logdet = job->gamma_logdet;
    e->gamma_diag = job->gamma_diag;
    e->given = w->engine == PU_DUAL ? (double)PU__EPS * job->gamma_kappa : 0;
    if (pu__engines[w->engine].prepare(e, n, report))
        return report->status;
    job->logdet[n] = e->logdet;
    job->served_by[n] = (unsigned char)w->engine;
    if (pu__probe_factor(job, w) || pu__direct_columns(job, w, n, 0, k) ||
        pu__posterior_value(&w->post, w->run.x, w->bbar, w->run.q.at, &value) ||
        pu__direct_rounding(job, w, &value, mean))
        return PU_E_OPERATOR;
    mean->value = value.value;
    return PU_OK;
}

/* The same by whichever engine does it best, where the caller leaves the choice and the cheapest one fails or loses too
   many digits. Of engines that all lose them the one that loses least. */
PU__FN pu_status pu__direct_best(const pu__job *job, pu__worker *w, pu_int n, pu_int k, int probes, pu_report *report)
{
    pu_engine first = w->engine, best = first;
    pu_status status = pu__direct_begin(job, w, n, k, report);
    const double *rounding = &job->columns[n * job->cols].rounding.relative;
    double least = status ? HUGE_VAL : *rounding;
    if (job->engine != PU_ENGINE_AUTO || status == PU_E_OPERATOR || least <= PU__HALF_DIGITS)
        return status;
    for (int other = PU_KALMAN; other >= PU_DENSE && least > PU__HALF_DIGITS; other--) { /* the cheaper ones first */
        pu_report ignored;
        int tall = other == PU_DUAL && w->post.observed >= job->D;
        if (other == (int)first || !job->reserved[other] || tall || (other == PU_KALMAN && probes))
            continue;
        w->engine = (pu_engine)other;
        pu__report_clear(&ignored);
        if (pu__direct_begin(job, w, n, k, &ignored) || !(*rounding < least))
            continue;
        least = *rounding;
        best = w->engine;
    }
    if (w->engine == best)
        return status && least == HUGE_VAL ? status : PU_OK;
    w->engine = best;
    (void)pu__refuse(report, PU_OK, "");
    return pu__direct_begin(job, w, n, k, report);
}

/* Rounding in sigma'Gamma sigma, each of whose D parts has mean one, for the largest Gamma_ii sigma_i^2 that there is: where
   sigma is large and what Gamma makes of it small. The dual engine's factor does not know. */
PU__FN double pu__probe_rounding(const pu__job *job, pu_block x, pu_int k)
{
    double most = 0;
    for (pu_int j = 0; j < k; j++)
        for (pu_int i = 0; i < job->D; i++) {
            double one = (double)pu__col(x, j)[i];
            most = pu__max(most, (double)job->gamma_diag[i] * one * one);
        }
    return (double)PU__EPS * sqrt(most);
}

/* Datum n by a direct engine: columns solved, the value of the likelihood at the mean and, where Sigma itself is
   known, the gradient of its term. The probes' terms count only where Sigma is not used. */
PU__FN pu_status pu__direct_datum(const pu__job *job, pu__worker *w, pu_int n, pu_real *lane, pu_report *report)
{
    const pu__engine_functions *engine;
    const pu_gradient_result *stage = &job->stage;
    pu__direct *e = &w->direct;
    pu__run *g = &w->run;
    int exact = job->exact;
    pu_int at = n * job->cols;
    pu__staged_column *mean = job->columns + at;
    pu_int steps = job->cols * job->asked_steps;
    /* with Sigma the probes are solved only for who asks for them */
    pu_int solved = exact && !stage->x && !stage->residual ? 1 : job->cols;
    pu_int k = pu__min(job->kmax, solved);
    pu_status status = pu__direct_best(job, w, n, k, solved > 1, report);
    if (status)
        return status;
    engine = &pu__engines[w->engine];
    for (pu_int first = 0; first < solved; first += k) {
        k = pu__min(job->kmax, solved - first);
        if (first > 0 && pu__direct_columns(job, w, n, first, k))
            return PU_E_OPERATOR;
        if (!exact && w->engine == PU_DUAL)
            mean->rounding.relative = pu__max(mean->rounding.relative, pu__probe_rounding(job, g->x, g->k));
        /* with Sigma the mean's gradient alone */
        if (exact)
            g->k = 1;
        if (job->any_grad && (first == 0 || !exact) && pu__block_gradient(job, w, first, NULL, lane))
            return PU_E_OPERATOR;
    }
    for (pu_int j = solved; j < job->cols; j++)
        (void)pu__direct_record(job, n, at + j);
    if (stage->alpha)
        pu__zeros(stage->alpha + n * steps, steps); /* there were none */
    if (stage->beta)
        pu__zeros(stage->beta + n * steps, steps);
    if (job->variance || job->fit)
        status = engine->spread(e, job->variance ? job->variance + n * job->D : NULL,
                                job->fit ? job->fit + n * job->M : NULL);
    if (status == PU_E_UNSUPPORTED)
        return pu__fail(report, status, "Phi.row (Kalman: one time step per row)", n, -1);
    if (status)
        return status;
    if (exact && job->any_grad && engine->sigma(e, lane))
        return PU_E_OPERATOR;
    mean->rounding.relative = pu__max(mean->rounding.relative, PU__ROUNDINGS * e->eps * e->lost);
    return PU_OK;
}

/* The same for a chain, all of it by its engine. */
PU__FN pu_status pu__chain_datum(const pu__job *job, pu__worker *w, pu_int n, pu_real *lane, pu_report *report)
{
    pu__direct *e = &w->direct;
    pu__chain_work *c = &e->chain;
    pu__staged_column *column = job->columns + n * job->cols;
    pu_int D = job->D, S = c->chain->S;
    int spread = job->any_grad || job->variance || job->fit;
    pu__mean_error mean = PU__ZERO;
    double dof = (double)job->Gamma->noise, size, relative;
    pu_status status;
    if (pu__chain_filter(e, n, report))
        return report->status;
    status = pu__chain_forward(e, spread, job->variance ? job->variance + n * D : NULL,
                               job->fit ? job->fit + n * job->M : NULL, job->any_grad ? lane : NULL);
    if (status == PU_E_UNSUPPORTED)
        return pu__fail(report, status, "Phi.row (Kalman: one time step per row)", n, -1);
    if (status)
        return status;
    job->logdet[n] = e->logdet;
    job->served_by[n] = PU_KALMAN;
    for (pu_int j = 0; j < job->cols; j++)
        (void)pu__direct_record(job, n, n * job->cols + j);
    column->value = c->value - w->post.log_psi / 2;
    /* Rounding: rotations are stable, so that in units of standard deviations the mean is off by eps times the largest row, e
       in units of the noise, and times the shocks enlarged by the ratio of a column to its pivot. */
    mean.error = DBL_EPSILON * (c->v.spread + e->kappa * (1 + c->largest));
    mean.size = c->largest;
    size = fabs(column->value) + fabs(e->logdet) / 2 + (double)w->post.observed + 1;
    column->nll_rounding = DBL_EPSILON * (c->v.rounding + fabs(w->post.log_psi) + e->kappa + dof + fabs(e->logdet)) +
                           dof * mean.error * mean.error / 2;
    relative = pu__max(PU__ROUNDINGS * (double)PU__EPS, DBL_EPSILON * e->kappa);
    if (job->any_grad)
        relative = pu__max(relative, fabs(c->trace - dof) / sqrt(pu__max(dof, 1)));
    column->rounding.relative = pu__max(relative, column->nll_rounding / size);
    pu__gradient_losses(job, w, &c->v, &mean, DBL_EPSILON, &column->rounding);
    column->eta_size = c->v.eta;
    for (pu_int t = 0; c->chain->level >= 0 && t < c->chain->T; t++)
        e->column[t * S + c->chain->level] += c->reference;
    for (pu_int i = 0; job->stage.x && i < D; i++)
        job->stage.x[n * job->cols * D + i] = (pu_real)e->column[i];
    for (pu_int j = 1; job->want_draws && j < job->cols; j++) {
        const pu_options *o = job->o;
        pu_normals(o->seed, *w->post.now.id, (uint32_t)(j - 1), o->step, PU__STREAM_PRIOR, 0, job->Gamma->noise, w->eps.at);
        pu__chain_draw(e, w->eps.at, job->stage.x + (n * job->cols + j) * D);
    }
    return PU_OK;
}

/* ---- lanes ---- */

/* Ragged data to lanes, so that these cost about the same: the largest first, each to the lane that has least. Largest
   up to a factor of sqrt(2), which makes a sort of 24 passes; the last one takes whatever is left. Depends on sizes
   alone. */
PU__FN void pu__share_out(const pu__job *job)
{
    enum { PASSES = 24 };
    /* both are free until a lane begins; lanes <= N */
    double *cost = job->c;
    double *load = job->logdet;
    double limit = 0;
    for (pu_int n = 0; n < job->N; n++) {
        pu_int count = n < PU__COUNTS ? job->counts[n] : pu__count_observed(job->data, n);
        cost[n] = pu__cost(job, pu__engine_for(job, count), count);
        limit = pu__max(limit, cost[n]);
        job->lane_of[n] = -1;
        load[n] = 0;
    }
    for (int pass = 1; pass <= PASSES; pass++) {
        limit *= 0.70710678118654752440;
        for (pu_int n = 0; n < job->N; n++) {
            int least = 0;
            if (job->lane_of[n] >= 0 || (cost[n] < limit && pass < PASSES))
                continue;
            for (int l = 1; l < job->lanes; l++)
                if (load[l] < load[least])
                    least = l;
            load[least] += cost[n];
            job->lane_of[n] = least;
        }
    }
}

/* The block of datum n that begins with column `first`: loaded, solved, its gradient added up. Data are on a device
   already. */
PU__FN pu_status pu__item_run(const pu__job *job, pu__worker *w, pu_int n, pu_int first, int lane, pu_report *report)
{
    const pu__posterior *p = &w->post;
    pu_real *grad = job->grads + lane * job->slots.params;
    pu_int D = job->D;
    pu_status status;
    if (job->device)
        return pu__iterative_block(job, w, n, first, job->device_grad, report);
    status = pu__load(job, w, n, first, report);
    if (status)
        return status;
    /* rows of Phi that a lane meets for the first time: zero */
    for (pu_int i = 0; job->by_rows && i < p->observed; i++) {
        unsigned char *touched = job->touched + lane * job->M + p->list[i];
        if (!*touched)
            pu__zeros(grad + job->slots.Phi + p->list[i] * D, D);
        *touched = 1;
    }
    if (w->engine == PU_ITERATIVE)
        return pu__iterative_block(job, w, n, first, grad, report);
    if (first > 0)
        return PU_OK;
    return (job->Gamma->form == PU_FORM_CHAIN ? pu__chain_datum : pu__direct_datum)(job, w, n, grad, report);
}

/* All items of one lane, in order; on a device there is one lane, and an item has the columns of a batch of data. The
   lane's report keeps the worst outcome: the first one, but a fatal one outranks it, and is the last. */
PU__FN void pu__lane(const pu__job *job, pu__worker *w, int lane)
{
    /* equal shares, the first lanes one more; ragged data look for theirs among all */
    pu_int items = pu__ceil_div(job->N, job->batch) * job->blocks;
    pu_int share = items / job->lanes;
    pu_int from = job->ragged ? 0 : share * lane + pu__min(lane, items % job->lanes);
    pu_int to = job->ragged ? items : from + share + (lane < items % job->lanes);
    const pu__slots *s = &job->slots;
    pu_real *grad = job->grads + lane * s->params;
    pu_int rest = job->by_rows ? s->psi : s->Phi;
    pu_report *report = job->lane_report + lane;
    pu__report_clear(report);
    /* zeros; with by_rows Phi's part is cleared row by row when it is met, since most lanes touch few of the rows */
    pu__zeros(grad, s->Phi);
    pu__zeros(grad + rest, s->params - rest);
    if (job->by_rows)
        memset(job->touched + lane * job->M, 0, (size_t)job->M);
    if (!job->device)
        *w->post.ones = 1;
    w->run.products = 0;
    w->loaded = -1;
    for (pu_int i = from; i < to && !pu__fatal(report->status); i++) {
        pu_int n = i / job->blocks * job->batch;
        pu_int first = i % job->blocks * job->block;
        pu_report one;
        pu_status status;
        if (job->ragged && job->lane_of[n] != lane)
            continue;
        pu__report_clear(&one);
        status = pu__blame(w, pu__item_run(job, w, n, first, lane, &one), n, &one);
        if (!pu__is_worse(status, report->status))
            continue;
        report->status = status;
        report->where = one.where;
    }
    report->products = w->run.products;
}

/* ---- a device: one lane, some data side by side ---- */

/* The operators and arrays of the model go there, and the first batch; zeros for the gradient. */
PU__FN pu_status pu__device_open(pu__job *job, pu_report *report)
{
    const pu_backend *B = job->B;
    pu__worker *w = job->workers;
    pu__posterior *p = &w->post;
    B->use_slot(B->user, 0);
    if (pu__job_sides(job, report))
        return report->status;
    pu__send(B, job->device_psi, job->model->psi, job->M);
    if (job->model->nu)
        pu__send(B, job->device_nu, job->gamma_nu, job->D);
    /* `batch` ones, through a staging array that may be shorter */
    for (pu_int i = 0; i < job->batch; i++)
        p->staged.w[i % job->M] = 1;
    for (pu_int i = 0; i < job->batch; i += job->M)
        pu__send(B, p->ones + i, p->staged.w, pu__min(job->M, job->batch - i));
    w->engine = PU_ITERATIVE;
    B->combine(B->user, job->device_slots.params, 1, pu__rows(job->device_grad, job->device_slots.params), 0, NULL);
    return pu__device_load(job, w, 0, report);
}

/* What was added up there becomes lane 0. */
PU__FN pu_status pu__device_close(const pu__job *job, pu_report *report)
{
    const pu__slots *s = &job->slots;
    const pu__slots *there = &job->device_slots;
    const pu_real *from = job->sums;
    pu_real *to = job->grads;
    pu__receive(job->B, job->sums, job->device_grad, there->params);
    if (pu__far_status(job->B, report))
        return report->status;
    /* the common accumulator, then those of the groups; a side may have summed something else than its gradient */
    for (pu_int g = 0; g <= s->groups; g++) {
        if (s->Phi && pu__side_grad(job->side, from, to))
            return pu__operator_failed(report, "Gamma.grad_from_sums", -1);
        if (s->psi > s->Phi && pu__side_grad(job->side + 1, from + there->Phi, to + s->Phi))
            return pu__operator_failed(report, "Phi.grad_from_sums", -1);
        pu__axpy(job->M, 1, from + there->psi, to + s->psi);
        from = job->sums + there->group + g * there->eta;
        to = job->grads + s->group + g * s->eta;
    }
    /* eta, b, m */
    pu__axpy(there->group - there->eta, 1, job->sums + there->eta, job->grads + s->eta);
    return PU_OK;
}

/* ------------------------------------------------------------------------------------------------
   >>sums   from the sums of the lanes to the gradient, the values and their errors; a job from end to end

     c        = 1/2 nu'Gamma nu + 1/2 e'W e - 1/2 log det Gamma - 1/2 sum log psi
     q        = c + 1/2 mu'A mu - b'mu + 1/2 tr(A Sigma)
     network  = c + 1/2 x'A x - b'x + mean over the probes of (1/2 sigma'A sigma - delta'sigma)
     nll      = c + 1/2 mu'A mu - b'mu + 1/2 log det A + M_n/2 log 2 pi
   ------------------------------------------------------------------------------------------------ */

/* The diagonal of Gamma and, as far as it is known, what rounding leaves of Gamma^-1 and so of the gradient of
   log det Gamma: PU__ROUNDINGS for the factor and as many for the inverse made of it, enlarged by Gamma's condition. For the
   dual engine, by how much Gamma.solve enlarges errors: measured as pu__probe_factor does for A. */
PU__FN pu_status pu__gamma_sizes(pu__job *job, pu_report *report)
{
    const pu_op *Gamma = job->Gamma;
    pu_real *v = job->test, *z = v + job->D;
    job->gamma_rounding = 16 * (double)PU__EPS * (Gamma->condition ? Gamma->condition(Gamma) : 1);
    /* a sum may have a state space in it; its condition tells, and log det it has none */
    if (Gamma->form == PU_FORM_STATES || !Gamma->logdet)
        job->states_rounding = job->gamma_rounding;
    job->gamma_kappa = 1;
    pu__zeros(job->gamma_diag, job->D);
    if (!Gamma->diag)
        return PU_OK;
    if (Gamma->diag(Gamma, job->gamma_diag, job->work))
        return pu__operator_failed(report, "Gamma.diag", -1);
    if (!job->reserved[PU_DUAL])
        return PU_OK;
    pu__signed_roots(job->D, job->gamma_diag, v);
    if (Gamma->solve(Gamma, 1, pu__rows(v, job->D), pu__rows(z, job->D), job->work))
        return pu__operator_failed(report, "Gamma.solve", -1);
    for (pu_int i = 0; i < job->D; i++)
        job->gamma_kappa = pu__max(job->gamma_kappa, fabs((double)z[i] * (double)v[i]));
    return PU_OK;
}

/* Parts of c and b that all data share: shared_c, gamma_nu, gamma_logdet. */
PU__FN pu_status pu__shared_terms(pu__job *job, pu_report *report)
{
    const pu_op *Gamma = job->Gamma;
    const pu_real *nu = job->model->nu;
    pu_int D = job->D;
    if (pu__test_operators(&job->r, job->test, job->work, report))
        return report->status;
    report->has_objective = Gamma->logdet != NULL;
    if (Gamma->logdet && Gamma->logdet(Gamma, &job->gamma_logdet, job->work))
        return pu__operator_failed(report, "Gamma.logdet", -1);
    if (!pu__finite_double(job->gamma_logdet))
        return pu__refuse(report, PU_NONFINITE, "Gamma.logdet");
    job->shared_c = -job->gamma_logdet / 2;
    if (nu) {
        if (Gamma->apply(Gamma, 1, pu__rows(nu, D), pu__rows(job->gamma_nu, D), 0, job->work))
            return pu__operator_failed(report, "Gamma.apply", -1);
        job->shared_c += pu__dot(D, NULL, nu, job->gamma_nu) / 2;
        for (pu_int i = 0; i < D; i++)
        {
            job->gamma_nu_top = pu__max(job->gamma_nu_top, fabs((double)job->gamma_nu[i]));
            if (!job->centred)
                job->nu_moves += fabs((double)job->gamma_nu[i] * (double)job->model->nu[i]);
        }
    }
    return pu__gamma_sizes(job, report);
}

/* Entries `at` to `at + n` of the lanes that have any (all of them when touched is NULL), added up in order into g and
   divided by N: one pass over each lane, since they are larger than any cache. Returns whether an entry is not finite. */
PU__FN int pu__add_lanes(const pu__job *job, pu_int at, pu_int n, const unsigned char *touched, pu_real *g)
{
    pu_real mean = 1 / (pu_real)job->N;
    const pu_real *lane = job->grads + at;
    pu_int len;
    int bad = 0;
    for (; n > 0; n -= len) {
        len = pu__min(PU__CHUNK, n);
        /* lane 0 begins the sum; g may be lane 0 itself */
        if (touched && !touched[0])
            pu__zeros(g, len);
        else if (g != lane)
            pu__copy(g, lane, len);
        for (int l = 1; l < job->lanes; l++)
            if (!touched || touched[l * job->M])
                pu__axpy(len, 1, lane + l * job->slots.params, g);
        /* two loops: each of them vectorises */
        for (pu_int i = 0; i < len; i++)
            g[i] *= mean;
        for (pu_int i = 0; i < len; i++)
            bad |= !pu__finite(g[i]);
        g += len;
        lane += len;
    }
    return bad;
}

/* All lanes into lane 0, and Phi's gradient into job->phi_grad. Returns whether an entry of the latter is not finite. */
PU__FN int pu__sum_lanes(const pu__job *job)
{
    const pu__slots *s = &job->slots;
    pu_int D = job->D;
    pu_real *g = job->grads;
    pu_int rest = job->by_rows ? s->psi : s->Phi; /* Phi's part may be summed row by row */
    int lost = 0;
    (void)pu__add_lanes(job, 0, s->Phi, NULL, g);
    (void)pu__add_lanes(job, rest, s->params - rest, NULL, g + rest);
    if (job->by_rows) {
#ifdef PU__OPENMP
#pragma omp parallel for schedule(static) reduction(| : lost) num_threads(job->threads) if (job->threads > 1)
#endif
        for (pu_int i = 0; i < job->M; i++)
            lost |= pu__add_lanes(job, s->Phi + i * D, D, job->touched + i, job->phi_grad + i * D);
    }
    /* a probe's terms went to its group alone */
    for (pu_int i = 0; i < s->groups; i++)
        pu__axpy(s->eta, 1, g + s->group + i * s->eta, g);
    return lost;
}

/* Gamma += (bbar nu' + nu bbar')/2 + nu nu'/2 - Gamma^-1/2; the first two not where they are in pu__centred_term. The last one, from -1/2 log det Gamma, has in the dual
   engine met its opposite in 1/2 tr(A Gamma^-1). */
PU__FN pu_status pu__finish_Gamma(const pu__job *job, pu_report *report)
{
    const pu_op *Gamma = job->Gamma;
    pu_real one = 1;
    pu_real half = PU_R(0.5);
    pu_int others = job->N - (job->exact ? job->served[PU_DUAL] : 0);
    pu_real *g = job->grads;
    pu_block nu = pu__rows(job->model->nu, job->D);
    pu_block bbar = pu__rows(g + job->slots.b, job->D);
    if (nu.at && !job->centred &&
        (Gamma->grad(Gamma, 1, bbar, nu, &one, g, job->work) || Gamma->grad(Gamma, 1, nu, nu, &half, g, job->work)))
        return pu__operator_failed(report, "Gamma.grad", -1);
    /* the mean over the data, of which some have no such term */
    if (others && Gamma->logdet_grad(Gamma, -half * (pu_real)others * (1 / (pu_real)job->N), g, job->work))
        return pu__operator_failed(report, "Gamma.logdet_grad", -1);
    return PU_OK;
}

/* nu = Gamma (bbar + nu), into job->gamma_nu, which is free by now. */
PU__FN pu_status pu__finish_nu(const pu__job *job, pu_report *report)
{
    pu_int D = job->D;
    pu_block bbar = pu__rows(job->grads + job->slots.b, D);
    if (job->model->nu)
        pu__axpy(D, 1, job->model->nu, bbar.at);
    if (job->Gamma->apply(job->Gamma, 1, bbar, pu__rows(job->gamma_nu, D), 0, job->work))
        return pu__operator_failed(report, "Gamma.apply", -1);
    return pu__check_result(job->gamma_nu, D, "gradient of nu", -1, report);
}

/* Lane 0 becomes the mean gradient; Gamma and nu get the terms that are linear in bbar or free of the data. Phi's
   gradient was looked at while it was summed up row by row: it is searched only where that found something. */
PU__FN pu_status pu__finish_gradient(const pu__job *job, pu_report *report)
{
    const pu__slots *s = &job->slots;
    const pu_real *g = job->grads;
    int search = pu__sum_lanes(job) || !job->by_rows;
    if ((s->want_Gamma && pu__finish_Gamma(job, report)) || (job->out->nu && pu__finish_nu(job, report)) ||
        (job->out->precond && pu__check_result(g + s->m, job->D, "gradient of m", -1, report)) ||
        pu__check_result(g, s->Phi, "gradient of Gamma", -1, report) ||
        (search && pu__check_result(job->phi_grad, s->psi - s->Phi, "gradient of Phi", -1, report)) ||
        pu__check_result(g + s->psi, job->M, "gradient of psi", -1, report) ||
        pu__check_result(g + s->eta, job->M, "gradient of eta", -1, report))
        return report->status;
    return PU_OK;
}

/* Student's t: 97.5 % quantile, from its expansion in 1/n; 0.8 % off at n = 2, 1e-3 from n = 3 on. */
PU__FN double pu__student(pu_int n)
{
    double v = 1 / (double)n;
    return n < 2 ? 12.706 : 1.959964 + v * (2.372271 + v * (2.822499 + v * (2.555850 + v * 1.589534)));
}

/* Sums over the data of what the report tells of the solver and of the likelihood's error. */
typedef struct {
    double variance, gap, traces;
    double energy, size; /* sum |x - A^-1 u|_A^2, sum |x|_A^2 */
    int known;           /* every column's Ritz values are */
    double rounding;     /* of the likelihood */
    pu__losses rounding_of, solver_of;
    double eta_size, nu_size; /* see pu__staged_column */
    pu_int worst;        /* the datum that rounding spoils most */
} pu__value_sums;

#define PU__LOG_2PI 1.8378770664093454836

/* Datum n's part of c, q, the network objective and the likelihood. The probes' means over k: tr(A Sigma) as sigma'A
   sigma and as delta'sigma, and log det A, whose spread gives the likelihood's standard error. */
PU__FN void pu__datum_values(const pu__job *job, pu_int n, pu__value_sums *sums, pu_report *report)
{
    double N = (double)job->N;
    double K = (double)job->K;
    const pu__staged_column *col = job->columns + n * job->cols;
    int direct = job->served_by[n] != PU_ITERATIVE;
    double c = job->c[n] + job->shared_c;
    int valued = direct || pu__has_value(job);
    /* base + fit = c + 1/2 mu'A mu - b'mu */
    double base = valued ? -job->gamma_logdet / 2 : c;
    double fit = valued ? col->value : col->xax / 2 - col->ux;
    double trace = 0;
    double linear = 0;
    double logdet = 0;
    double square = 0;
    for (pu_int k = 1; k <= job->K; k++) {
        trace += col[k].xax / K;
        linear += col[k].ux / K;
        logdet += col[k].logdet / K;
        sums->gap += col[k].gap / (2 * K * N);
    }
    for (pu_int k = 1; k <= job->K; k++) {
        double off = col[k].logdet - logdet;
        square += off * off;
    }
    if (direct) {
        logdet = job->logdet[n];
        if (job->exact) { /* tr(A Sigma) */
            trace = (double)job->D;
            linear = 0;
        }
    } else {
        sums->traces += linear / (double)job->served[PU_ITERATIVE];
        if (job->K > 1)
            sums->variance += square / (K - 1) / K / 4 / (N * N);
        for (pu_int k = 0; k <= job->K; k++) {
            double weight = k ? 1 / K : 1;
            if (col[k].energy < 0 && col[k].record.rhs > 0)
                sums->known = 0; /* no step was taken */
            if (!(col[k].high > 0))
                continue; /* u = 0 */
            /* what the mean's second look has found holds for the probes, too */
            sums->energy += weight * col[k].energy * (col->low > 0 ? pu__max(1, col[k].low / col->low) : 1);
            sums->size += weight * col[k].xax;
            report->ritz_max = pu__max(report->ritz_max, col[k].high);
            if (!(report->ritz_min > 0 && report->ritz_min < col[k].low))
                report->ritz_min = col[k].low;
        }
    }
    sums->rounding += col->nll_rounding / N;
    sums->rounding_of.eta += col->rounding.eta;
    sums->rounding_of.nu += col->rounding.nu;
    sums->solver_of.eta += col->solver.eta;
    sums->solver_of.nu += col->solver.nu;
    sums->solver_of.relative = pu__max(sums->solver_of.relative, col->solver.relative);
    sums->eta_size += col->eta_size;
    sums->nu_size += col->nu_size;
    if ((direct || job->any_grad) && !job->device && !(col->rounding.relative <= report->rounding_error)) { /* a NaN, too */
        report->rounding_error = col->rounding.relative;
        sums->worst = n;
    }
    report->c += c / N;
    report->q += (base + fit + trace / 2) / N;
    report->network += (base + fit + trace / 2 - linear) / N;
    report->nll += (base + logdet / 2 + fit + (double)job->observed[n] * PU__LOG_2PI / 2) / N;
}

/* Growth of a reverse pass from which on it is more than a few steps of a well-conditioned solver. */
#define PU__WATCHED 100

/* The largest relative error of the gradients that are wanted. */
PU__FN double pu__worst_loss(const pu__job *job, const pu__value_sums *sums, const pu__losses *lost)
{
    double worst = lost->relative;
    if (job->out->eta && lost->eta > worst * sums->eta_size)
        worst = sums->eta_size > 0 ? lost->eta / sums->eta_size : 1;
    if (job->out->nu && lost->nu > worst * sums->nu_size)
        worst = sums->nu_size > 0 ? lost->nu / sums->nu_size : 1;
    return worst;
}

/* Means over the data, in order: c, q, the network objective, the likelihood and its error. */
PU__FN pu_status pu__finish_values(const pu__job *job, pu_report *report)
{
    pu_int sampled = job->served[PU_ITERATIVE]; /* data whose log det is an estimate */
    double D = (double)job->D;
    int inexact;
    pu__value_sums sums = PU__ZERO;
    sums.known = job->want_nll;
    sums.worst = -1;
    report->has_nll = report->has_objective && (!sampled || job->want_nll);
    for (pu_int n = 0; n < job->N; n++)
        pu__datum_values(job, n, &sums, report);
    /* one probe has no spread: no standard error */
    report->nll_se = sampled && job->K < 2 ? -1 : sqrt(sums.variance);
    report->nll_95 = report->nll_se;
    if (report->nll_se > 0)
        report->nll_95 *= pu__student(sampled * (job->K - 1));
    if (report->rounding_error >= 0) {
        sums.rounding_of.relative = report->rounding_error;
        report->rounding_error = pu__worst_loss(job, &sums, &sums.rounding_of);
    }
    inexact = !(report->rounding_error <= PU__HALF_DIGITS);
    report->rounding_error *= report->rounding_error > 0 ? PU__MARGIN : 1;
    if (!(report->rounding_error < 1))
        report->rounding_error = 1;
    if (inexact) {
        if (pu__is_worse(PU_INEXACT, report->status))
            (void)pu__fail(report, PU_INEXACT, "A (ill-conditioned for this engine: see report.rounding_error)", sums.worst, -1);
        report->nll_se = report->nll_se < 0 ? -1 : report->nll_se + sums.rounding;
        report->nll_95 = report->nll_95 < 0 ? -1 : report->nll_95 + 2 * sums.rounding;
    }
    report->nll_gap = sums.gap;
    /* the relative error of the solutions in the norm of A */
    if (!sampled)
        report->solver_error = 0;
    else if (sums.known && sums.size > 0) {
        report->solver_error = sqrt(sums.energy / sums.size);
        if (job->kind == PU_NETWORK) /* second order in that, times I: see pu__choose */
            report->solver_error = (double)job->plan.I * sums.energy / sums.size;
        report->solver_error = pu__max(report->solver_error, pu__worst_loss(job, &sums, &sums.solver_of));
        /* of solves that have ended by themselves the reverse pass enlarges what is left of the residual */
        if (job->network && report->stops[PU_STOP_STEPS] == 0 && report->worst_growth > PU__WATCHED)
            report->solver_error = pu__max(report->solver_error, report->worst_growth * report->worst_residual);
    }
    /* the gap is below chance or rounding. The probes also know tr(A Sigma) = D: solves cut short fall below it by
       more than chance, which is sqrt(2 D) for one of them */
    report->nll_converged =
        !sampled || (sums.gap <= pu__max(0.1 * report->nll_se, 100 * (double)PU__EPS * fabs(report->nll)) &&
                     D - sums.traces <= 3 * sqrt(2 * D / ((double)sampled * (double)job->K)));
    /* what cannot be had is not told */
    if (!report->has_nll) {
        report->nll = 0;
        report->nll_gap = 0;
        report->nll_se = -1;
        report->nll_95 = -1;
        report->nll_converged = 0;
    }
    if (!report->has_objective) {
        report->c = 0;
        report->q = 0;
        report->network = 0;
    }
    return pu__finite_double(report->nll) ? PU_OK : pu__refuse(report, PU_NONFINITE, "log det quadrature");
}

/* Probes in group g of G. */
PU__FN pu_int pu__group_size(pu_int K, pu_int G, pu_int g)
{
    return pu__ceil_div((g + 1) * K, G) - pu__ceil_div(g * K, G);
}

/* Standard errors over the groups of probes. With m_g the mean of group g of K_g probes and m that of all,
   sum_g K_g (m_g - m)^2 / (G - 1) is the variance of one probe, and 1/K of it that of m. A group's accumulator holds
   K_g m_g / K; it becomes the replicate g - m + m_g. */
PU__FN void pu__standard_errors(const pu__job *job, pu_report *report)
{
    const pu__slots *s = &job->slots;
    pu_int G = s->groups;
    pu_int n = s->eta;
    pu_int wanted = job->out->psi ? n : s->psi;
    double squares = (double)job->K * (double)pu__most(job->exact ? job->served[PU_ITERATIVE] : job->N, 1);
    double errors = 0;
    double size = 0;
    for (pu_int i = 0; i < wanted; i++) {
        double grad = (double)job->grads[i];
        pu_real *group = job->grads + s->group + i;
        double all = 0;
        double variance = 0;
        for (pu_int g = 0; g < G; g++)
            all += (double)group[g * n];
        for (pu_int g = 0; g < G; g++) {
            double share = (double)pu__group_size(job->K, G, g) / (double)job->K;
            double off = (double)group[g * n] / share - all;
            variance += share * off * off / (double)(G - 1);
            group[g * n] = (pu_real)(grad + off);
        }
        job->se[i] = (pu_real)sqrt(variance);
        errors += variance;
        size += grad * grad;
    }
    /* Student's t covers too little where a component is skewed; most so are squares of normals, one for each probe and
       datum: 8 / squares is their squared skewness. 15.3 = 8 times the term of the expansion of a symmetric interval's
       coverage in it (for sums of squares), 45 from simulations. */
    report->se_95 = pu__student(G - 1) + (15.3 + 45 / squares) / squares;
    report->statistical_error = size > 0 ? sqrt(errors / size) : 0;
}

/* to = from, n numbers, where both are there; from NULL: zeros. */
PU__FN void pu__write(pu_real *to, const pu_real *from, pu_int n)
{
    if (!to || n <= 0)
        return;
    if (from)
        pu__copy(to, from, n);
    else
        pu__zeros(to, n);
}

/* A vector [Gamma | Phi | psi] of the job to the caller's three arrays: zero where the gradient was not asked for, or
   there is no such vector. */
PU__FN void pu__write_three(const pu__job *job, const pu_real *from, pu_real *Gamma, pu_real *Phi, pu_real *psi)
{
    const pu_gradient_result *out = job->out;
    const pu__slots *s = &job->slots;
    pu__write(Gamma, out->Gamma ? from : NULL, job->Gamma->params);
    pu__write(Phi, from && out->Phi ? from + s->Phi : NULL, job->Phi->params);
    pu__write(psi, from && out->psi ? from + s->psi : NULL, job->M);
}

/* Refuses arrays that are not finite; the gradients themselves have been looked at. */
PU__FN pu_status pu__check_staged(const pu__job *job, pu_report *report)
{
    const pu__slots *s = &job->slots;
    const pu_gradient_result *stage = &job->stage;
    pu_int all = job->N * job->cols, groups = job->any_grad ? s->groups : 0;
    if ((stage->x && pu__check_result(stage->x, all * job->D, "x", -1, report)) ||
        (stage->residual && pu__check_result(stage->residual, all * job->D, "residual", -1, report)) ||
        (stage->alpha && pu__check_result(stage->alpha, all * job->plan.I, "alpha", -1, report)) ||
        (stage->beta && pu__check_result(stage->beta, all * job->plan.I, "beta", -1, report)) ||
        (groups && pu__check_result(job->grads + s->group, groups * s->eta, "replicates", -1, report)))
        return report->status;
    return groups ? pu__check_result(job->se, s->eta, "standard errors", -1, report) : PU_OK;
}

/* The only place where pu_gradient writes to the caller's arrays. */
PU__FN void pu__write_results(const pu__job *job)
{
    const pu_gradient_result *out = job->out;
    const pu_gradient_result *stage = &job->stage;
    const pu__slots *s = &job->slots;
    pu_int cols = job->cols;
    pu_int all = job->N * cols;
    pu_int Gamma = job->Gamma->params;
    const pu_real *g = job->grads;
    pu__write_three(job, s->groups ? job->se : NULL, out->se_Gamma, out->se_Phi, out->se_psi);
    for (pu_int i = 0; out->replicates && i < s->groups; i++) {
        pu_real *to = out->replicates + i * (Gamma + job->Phi->params + job->M);
        pu__write_three(job, g + s->group + i * s->eta, to, to + Gamma, to + Gamma + job->Phi->params);
    }
    pu__write(out->nu, job->gamma_nu, job->D);
    pu__write(out->Gamma, g, s->Phi);
    pu__write(out->Phi, job->phi_grad, s->psi - s->Phi);
    pu__write(out->psi, g + s->psi, job->M);
    pu__write(out->eta, g + s->eta, job->M);
    pu__write(out->precond, g + s->m, job->D);
    pu__write(out->x, stage->x, all * job->D);
    pu__write(out->residual, stage->residual, all * job->D);
    pu__write(out->alpha, stage->alpha, all * job->asked_steps);
    pu__write(out->beta, stage->beta, all * job->asked_steps);
    /* a probe's log det is one number per column but the mean's */
    for (pu_int j = 0; j < all; j++) {
        const pu__staged_column *column = job->columns + j;
        if (out->columns)
            out->columns[j] = column->record;
        if (out->logdet && job->want_nll && j % cols > 0)
            out->logdet[j - j / cols - 1] = (pu_real)column->logdet;
    }
}

/* Runs all lanes, on as many threads as there are workers. Returns the worst outcome, recorded. An error of a device
   outranks whatever came of it. */
PU__FN pu_status pu__run_lanes(pu__job *job, pu_report *report)
{
    if (job->ragged)
        pu__share_out(job);
    if (job->device && pu__device_open(job, report)) {
        (void)pu__far_status(job->B, report);
        return report->status;
    }
#ifdef PU__OPENMP
#pragma omp parallel for schedule(dynamic, 1) num_threads(job->threads) if (job->threads > 1)
#endif
    for (int l = 0; l < job->lanes; l++)
        pu__lane(job, job->workers + PU__THREAD, l);
    for (int l = 0; l < job->lanes; l++) {
        const pu_report *part = job->lane_report + l;
        report->products += part->products;
        if (!pu__is_worse(part->status, report->status))
            continue;
        report->status = part->status;
        report->where = part->where;
    }
    if (job->device && (pu__fatal(report->status) || !pu__device_close(job, report)))
        (void)pu__far_status(job->B, report);
    return report->status;
}

/* Who served whom in the end, where rounding made data change their engine; the plan tells. */
PU__FN void pu__recount(pu__job *job, pu_report *report)
{
    pu_int served[PU_ENGINES] = {0};
    pu__text t = pu__text_after(report->plan, sizeof report->plan);
    for (pu_int n = 0; n < job->N; n++)
        served[job->served_by[n]]++;
    if (!memcmp(served, job->served, sizeof served))
        return;
    pu__put(&t, "; because of rounding in the end");
    for (int e = PU_ITERATIVE; e < PU_ENGINE_AUTO; e++) {
        job->served[e] = report->served[e] = served[e];
        if (!served[e])
            continue;
        pu__put_number(&t, " ", served[e]);
        pu__put(&t, " by ");
        pu__put(&t, pu_engine_text((pu_engine)e));
    }
}

/* A job from shared terms to results. Returns the worst outcome of its columns, or what made it fail. */
PU__FN pu_status pu__job_run(pu__job *job, pu_report *report)
{
    pu_int cols = job->cols;
    if (pu__shared_terms(job, report) || pu__fatal(pu__run_lanes(job, report)))
        return report->status;
    pu__recount(job, report);
    for (pu_int i = 0; i < job->N * cols; i++)
        pu__report_column(report, &job->columns[i].record, i / cols, i % cols,
                          job->plan.adjoint != PU_ADJOINT_REORTHOGONAL);
    if (pu__finish_values(job, report) || (job->any_grad && pu__finish_gradient(job, report)))
        return report->status;
    if (job->slots.groups && job->any_grad)
        pu__standard_errors(job, report);
    if (pu__check_report(report) || pu__check_staged(job, report))
        return report->status;
    if (!job->dry)
        pu__write_results(job);
    return report->status;
}

/* The gradients that are wanted, where they are in the workspace. */
PU__FN void pu__lend(const pu__job *job, pu_gradient_result *g)
{
    const pu__slots *s = &job->slots;
    if (g->nu)
        g->nu = job->gamma_nu;
    if (g->Gamma)
        g->Gamma = job->grads;
    if (g->Phi)
        g->Phi = job->phi_grad;
    if (g->psi)
        g->psi = job->grads + s->psi;
    if (g->eta)
        g->eta = job->grads + s->eta;
    if (g->precond)
        g->precond = job->grads + s->m;
}

/* The last checks of a made job, and its memory. */
PU__FN pu_status pu__job_memory(pu__call *call, pu__job *job)
{
    pu_report *report = call->report;
    if (pu__check_numbers(job->model, report) || pu__check_option_arrays(job, report) ||
        pu__allocate(call, pu__job_layout, job))
        return report->status;
    return PU_OK;
}

/* A made job, whose caller has nothing to do before it runs. */
PU__FN pu_status pu__job_call(pu__call *call, pu__job *job)
{
    pu_status status = pu__job_memory(call, job);
    return status ? status : pu__job_run(job, call->report);
}

/* ------------------------------------------------------------------------------------------------
   >>gradient   choosing K and I; pu_gradient, pu_nll, pu_exact

   PU_CHOOSE: a pilot on a few data, with a few probes and steps, measures the statistical error of one probe and the solver's
   error after each step. K and I follow from these; then the gradient is a call like any other.
   ------------------------------------------------------------------------------------------------ */

/* The pilot of PU_CHOOSE, and the limits of K and I without a word from the caller. */
#define PU__PILOT_PROBES 8
#define PU__PILOT_STEPS  20
#define PU__PILOT_DATA   4
#define PU__MOST         100

/* Is I to be found? Monte Carlo means converged: there I has no limit, and nothing is to be found. */
PU__FN int pu__to_pick_I(const pu_options *o) { return o->solve.iterations == PU_CHOOSE && o->kind != PU_MONTE_CARLO; }

/* Is K or I left to us? */
PU__FN int pu__is_open(const pu_options *o) { return o->samples == PU_CHOOSE || o->solve.iterations == PU_CHOOSE; }

/* Does a call with these options begin with pu_tune? */
PU__FN int pu__to_tune(const pu_options *o) { return o && o->kind != PU_EXACT && pu__is_open(o); }

/* The options with K and I at their limits. Nothing is left for `error` to decide. */
PU__FN pu_options pu__at_limits(const pu_options *options)
{
    pu_options o = *options;
    if (options->samples == PU_CHOOSE)
        o.samples = o.most_samples > 0 ? o.most_samples : PU__MOST;
    if (o.solve.iterations == PU_CHOOSE)
        o.solve.iterations = 0;
    if (pu__to_pick_I(options))
        o.solve.iterations = o.most_iterations > 0 ? o.most_iterations : PU__MOST;
    if (pu__is_open(options) && pu__is_within(o.error, 1))
        o.error = 0;
    return o;
}

/* What tuning needs of the options, and of the results: a gradient whose error can be measured. */
PU__FN pu_status pu__check_tuning(const pu_options *o, const pu_gradient_result *out, pu_report *report)
{
    const char *bad = NULL;
    const char *lacks = NULL;
    if (o->most_samples < 0 || o->most_samples == 1)
        bad = "options.most_samples (at least 2, or 0 = 100)";
    else if (o->most_iterations < 0 || o->most_iterations > PU__LIMIT)
        bad = "options.most_iterations (1 to 1,000,000, or 0 = 100)";
    else if (!out || (!out->Gamma && !out->Phi && !out->psi))
        bad = "results (PU_CHOOSE needs a gradient to tune for)";
    else if (!pu__has_momentum(o->solve.solver))
        lacks = "options.solve.solver (PU_CHOOSE needs CG or PCG)";
    else if (o->x0)
        lacks = "options.x0 (not with PU_CHOOSE: pu_tune first)";
    else if (o->delta && o->samples == PU_CHOOSE)
        lacks = "options.delta (its K is known: not with samples = PU_CHOOSE)";
    if (bad)
        return pu__refuse(report, PU_E_ARGUMENT, bad);
    return lacks ? pu__refuse(report, PU_E_UNSUPPORTED, lacks) : PU_OK;
}

/* A job of our own, the pilot or that of pu_exact, and what it borrows. */
typedef struct {
    pu__job job;
    pu_options o;
    pu_data data;
    pu_gradient_result wanted;
    pu_int place; /* pu_exact: of its datum in the arrays */
    pu_real any;  /* its address stands for arrays that are never written */
} pu__own_job;

/* The job of the pilot: few data, probes and steps, standard errors, nothing written. It needs no reverse
   pass (PU_OUTPUT), and without a tolerance takes all its steps. */
PU__FN pu_status pu__pilot_make(pu__own_job *p, const pu_lgm *model, const pu_data *data, const pu_options *options,
                                const pu_gradient_result *out, pu_report *report)
{
    pu_options *o = &p->o;
    memset(p, 0, sizeof *p);
    p->data = *data;
    p->data.n = pu__min(data->n, PU__PILOT_DATA);
    *o = pu__at_limits(options);
    o->kind = PU_OUTPUT;
    o->engine = PU_ITERATIVE;
    o->solve.tolerance = 0;
    o->solve.absolute2 = 0;
    o->groups = 0;
    o->delta = NULL;
    o->samples = PU__PILOT_PROBES;
    /* whatever the limit: fewer would not show what a converged gradient is like */
    o->solve.iterations = PU__PILOT_STEPS;
    /* se_psi asks for standard errors of all, alpha and beta for the coefficients of the solver */
    p->wanted.Gamma = out->Gamma;
    p->wanted.Phi = out->Phi;
    p->wanted.psi = out->psi;
    p->wanted.se_psi = &p->any;
    p->wanted.alpha = &p->any;
    p->wanted.beta = &p->any;
    p->job.dry = 1;
    return pu__job_make(&p->job, model, &p->data, o, &p->wanted, 1, report);
}

/* Bytes of a gradient whose K and I are not known yet: the pilot, and all that may come after it. With PU_ENGINE_AUTO
   that is exact engines for the data that want them at the limits, and the solver for the rest. */
PU__FN pu_status pu__tuned_bytes(pu__call *call, const pu_lgm *model, const pu_data *data, const pu_options *options,
                                 const pu_gradient_result *out, size_t *bytes)
{
    pu_options most = pu__at_limits(options);
    pu_report *report = call->report;
    pu__own_job pilot;
    pu__job *job = &pilot.job;
    if (pu__check_tuning(options, out, report) || pu__check_model(model, report) ||
        pu__check_data_shape(data, model->Phi->rows, report) ||
        pu__pilot_make(&pilot, model, data, options, out, report) || pu__measure(call, pu__job_layout, job, bytes))
        return report->status;
    /* with fewer columns there may be more lanes, threads and blocks, on a device more data side by side */
    /* as asked and, for PU_ENGINE_AUTO, the solver for all data */
    for (;;) {
        size_t now = 0;
        pu_int block;
        memset(job, 0, sizeof *job);
        report->plan[0] = 0;
        if (pu__job_make(job, model, data, &most, out, 1, report))
            return report->status;
        block = pu__columns_block(job);
        if (job->device) {
            job->batch = job->batch_most;
            job->kmax = block * job->batch;
        } else {
            pu__job_lanes(job, INT32_MAX, 1e30);
            job->kmax = pu__most(job->kmax, block);
        }
        if (pu__measure(call, pu__job_layout, job, &now))
            return report->status;
        if (now > *bytes)
            *bytes = now;
        if (pu__engine_asked(&most, out) != PU_ENGINE_AUTO)
            break;
        most.engine = PU_ITERATIVE;
    }
    report->bytes = *bytes;
    return PU_OK;
}

/* A job that is made and measured. */
PU_DEF pu_status pu_gradient_bytes(const pu_lgm *model, const pu_data *data, const pu_options *options,
                                   const pu_gradient_result *out, size_t *bytes, pu_report *report)
{
    pu__call call;
    pu__job job;
    report = pu__begin(&call, NULL, report);
    if (!bytes)
        return pu__refuse(report, PU_E_NULL, "bytes");
    if (pu__to_tune(options))
        return pu__tuned_bytes(&call, model, data, options, out, bytes);
    memset(&job, 0, sizeof job);
    if (pu__job_make(&job, model, data, options, out, 1, report))
        return report->status;
    return pu__measure(&call, pu__job_layout, &job, bytes);
}

/* Appends a label and x in the largest unit that makes it at least 2; units[i] is of size[i], the first the smallest. */
PU__FN void pu__put_unit(pu__text *t, const char *label, double x, int count, const double *size,
                         const char *const *units)
{
    int i = 0;
    while (i + 1 < count && x >= 2 * size[i + 1])
        i++;
    x /= size[i];
    pu__put_number(t, label, x < 1e15 ? (pu_int)(x + 0.5) : (pu_int)1e15);
    pu__put(t, units[i]);
}

/* A job that is made and measured, then its price in words; `more` bytes are needed besides. */
PU__FN pu_status pu__plan_tell(const pu_lgm *model, const pu_data *data, const pu_options *options,
                               const pu_gradient_result *out, size_t more, pu_report *report)
{
    static const double time[] = {1e-6, 1e-3, 1, 60, 3600}, size[] = {1, 1e3, 1e6, 1e9};
    static const char *const times[] = {" us", " ms", " s", " min", " h"};
    static const char *const sizes[] = {" bytes", " kB", " MB", " GB"};
    size_t bytes, now;
    pu_status status;
    pu__text t;
    if (!report)
        return PU_E_NULL;
    status = pu_gradient_bytes(model, data, options, out, &bytes, report);
    if (!status && pu__to_tune(options)) { /* the memory is that of all that may come, the rest that of the limits */
        pu_options most = pu__at_limits(options);
        status = pu_gradient_bytes(model, data, &most, out, &now, report);
    }
    if (status)
        return status;
    report->bytes = bytes + more;
    t = pu__text_after(report->plan, sizeof report->plan);
    pu__put_unit(&t, "; about ", report->seconds, 5, time, times);
    pu__put_unit(&t, " on one core, ", (double)report->bytes, 4, size, sizes);
    return PU_OK;
}

/* Of a gradient of a model in its canonical form. */
PU_DEF pu_status pu_plan(const pu_lgm *model, const pu_data *data, const pu_options *options,
                         const pu_gradient_result *out, pu_report *report)
{
    return pu__plan_tell(model, data, options, out, 0, report);
}

/* ---- choosing K and I ---- */

/* eps(i), the solver's error after i steps, from the coefficients of the pilot's columns. CG from zero takes alpha_l
   rho_l off |x - A^-1 u|_A^2 in step l, in all x'A x; rho_{l+1} = beta_l rho_l. rho_0 follows from x'A x = sum_l
   alpha_l rho_l. */
PU__FN void pu__pilot_errors(const pu__job *job, double *eps)
{
    pu_int I = PU__PILOT_STEPS;
    double size = 0;
    for (pu_int n = 0; n < job->N * job->cols; n++) {
        const pu_real *alpha = job->stage.alpha + n * I;
        const pu_real *beta = job->stage.beta + n * I;
        double xax = job->columns[n].xax;
        double weight = n % job->cols ? 1 / (double)job->K : 1;
        double energy = pu__max(job->columns[n].energy, 0);
        double rho = 1;
        double sum = 0;
        double taken = 0; /* off by the steps so far */
        /* sum_l alpha_l rho_l / rho_0 */
        for (pu_int i = 0; i < I; i++) {
            sum += (double)alpha[i] * rho;
            rho *= (double)beta[i];
        }
        rho = sum > 0 ? xax / sum : 0;
        for (pu_int i = 0; i <= I; i++) {
            eps[i] += weight * (pu__max(xax - taken, 0) + energy);
            if (i == I)
                break;
            taken += (double)alpha[i] * rho;
            rho *= (double)beta[i];
        }
        size += weight * xax;
    }
    for (pu_int i = 0; i <= I; i++)
        eps[i] = pu__max(size > 0 ? sqrt(eps[i] / size) : 0, (double)PU__EPS);
}

/* " (words: x %, wanted y %)", and whether that is at its limit. */
PU__FN void pu__put_choice(pu__text *t, const char *name, pu_int value, const char *words, double got, double wanted,
                           int limit)
{
    pu__put_number(t, name, value);
    pu__put_percent(t, words, got);
    pu__put_percent(t, ", wanted ", wanted);
    pu__put(t, limit ? "; at its limit); " : "); ");
}

/* K and I, which are at their limits, from what a pilot has found: eps(i), and the statistical error of one probe per
   datum. Statistical error falls as 1/sqrt(N K); the solver's may be half of what K leaves, but nothing is gained by
   one far better than what was asked for. */
PU__FN void pu__choose(const double *eps, const pu_options *options, double one, pu_options *tuned, pu_report *report)
{
    double wanted = options->error > 0 ? options->error : 0.1;
    /* CG's rate, with c the root of the ratio of the extreme Ritz values */
    double c = sqrt(report->ritz_max / report->ritz_min);
    double rho = (c - 1) / (c + 1);
    double left;
    pu__text t = {report->plan, 0, sizeof report->plan}; /* kept in front of the plan of the run itself */
    if (options->samples == PU_CHOOSE) {
        /* one / sqrt(K) = wanted */
        double k = ceil(one * one / (wanted * wanted));
        pu_int most = tuned->samples;
        tuned->samples = (pu_int)pu__max(2, k < (double)most ? k : (double)most);
        pu__put_choice(&t, "K = ", tuned->samples, " (one probe per datum errs by ", one, wanted,
                       tuned->samples == most);
    }
    /* K = 0 means the default, 10 */
    left = pu__max(one / sqrt((double)(tuned->samples ? tuned->samples : 10)) / 2, wanted / 20);
    if (pu__to_pick_I(options)) {
        pu_int last = PU__PILOT_STEPS;
        pu_int I = 0;
        double error;
        /* after the pilot's last step the error is taken to fall by rho per step. The network gradient errs by I
           eps^2; at few steps that estimate is up to 3 times low */
        do {
            I++;
            error = I <= last ? eps[I] : eps[last] * pow(rho, (double)(I - last));
            if (options->kind == PU_NETWORK)
                error = 3 * (double)I * error * error;
        } while (!(error <= left) && I < tuned->solve.iterations);
        tuned->solve.iterations = I;
        pu__put_choice(&t, "I = ", I, " (leaves a solver error of ", error, left, !(error <= left));
    }
}

/* pu_tune after its checks: where direct engines serve everyone there is nothing to tune; otherwise a pilot runs. */
PU__FN pu_status pu__tune(pu__call *call, const pu_lgm *model, const pu_data *data, const pu_options *options,
                          const pu_gradient_result *out, pu_options *tuned)
{
    pu_report *report = call->report;
    int pick_K = options->samples == PU_CHOOSE;
    int pick_I = pu__to_pick_I(options);
    pu__own_job pilot;
    double eps[PU__PILOT_STEPS + 1] = {0};
    double one;
    pu_status status;
    if (pu__check_tuning(options, out, report))
        return report->status;
    *tuned = pu__at_limits(options);
    if (!pick_K && !pick_I)
        return PU_OK;
    if (pu__engine_asked(options, out) == PU_ENGINE_AUTO) {
        /* Would the iterative engine serve anyone, if it had to do next to nothing? */
        pu_options least = *tuned;
        if (pick_K)
            least.samples = 2;
        if (pick_I)
            least.solve.iterations = 4;
        memset(&pilot.job, 0, sizeof pilot.job);
        status = pu__job_make(&pilot.job, model, data, &least, out, 0, report);
        report->plan[0] = 0;
        if (!pilot.job.served[PU_ITERATIVE])
            *tuned = least;
        if (status || !pilot.job.served[PU_ITERATIVE])
            return status;
    }
    status = pu__pilot_make(&pilot, model, data, options, out, report);
    if (!status)
        status = pu__job_call(call, &pilot.job);
    if (pu__fatal(status))
        return status;
    pu__pilot_errors(&pilot.job, eps);
    /* the pilot averaged over its data and probes: the error of one probe per datum, for all data */
    one = report->statistical_error * sqrt((double)PU__PILOT_PROBES * (double)pilot.data.n / (double)data->n);
    pu__choose(eps, options, one, tuned, report);
    return PU_OK;
}

/* Checks everything, since a pilot looks at few of the data; what the caller gets is written last. */
PU_DEF pu_status pu_tune(const pu_lgm *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                         const pu_gradient_result *out, pu_options *tuned, pu_report *report)
{
    pu__call call;
    pu_options result;
    pu_status status;
    report = pu__begin(&call, ws, report);
    if (!options || !tuned)
        return pu__refuse(report, PU_E_NULL, options ? "tuned" : "options");
    if (pu__check_model(model, report) || pu__check_data(data, model->Phi->rows, report) ||
        pu__check_numbers(model, report))
        return report->status;
    if (!pu__to_tune(options)) {
        status = pu__check_options(options, report);
        if (!status)
            *tuned = *options;
        return status;
    }
    status = pu__tune(&call, model, data, options, out, &result);
    if (!status) {
        *tuned = result;
        report->samples = result.samples;
        report->iterations = result.solve.iterations;
    }
    return pu__finish(&call, status);
}

/* ---- the calls ---- */

/* Finds K and I where they are asked for: *tuned, and *options points at it then. How they were found stays in the
   report's plan, all else of which is cleared. */
PU__FN pu_status pu__tune_first(pu__call *call, const pu_lgm *model, const pu_data *data, const pu_options **options,
                                const pu_gradient_result *out, pu_options *tuned)
{
    pu_report *report = call->report;
    char words[sizeof report->plan];
    if (!pu__to_tune(*options))
        return PU_OK;
    if (pu_tune(model, data, *options, call->ws, out, tuned, report))
        return report->status;
    memcpy(words, report->plan, sizeof words);
    pu__report_clear(report);
    memcpy(report->plan, words, sizeof words);
    *options = tuned;
    return PU_OK;
}

/* Tunes where that is asked for; then the job is made, checked and laid out once, and runs. */
PU_DEF pu_status pu_gradient(const pu_lgm *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                             const pu_gradient_result *out, pu_report *report)
{
    int want_nll = report != NULL; /* otherwise there is nobody to tell it to */
    pu__call call;
    pu__job job;
    pu_options tuned;
    report = pu__begin(&call, ws, report);
    if (pu__to_tune(options) && out &&
        (out->x || out->residual || out->logdet || out->columns || out->alpha || out->beta || out->replicates))
        return pu__refuse(report, PU_E_ARGUMENT,
                          "results (PU_CHOOSE: arrays whose size depends on K or I; pu_tune first)");
    memset(&job, 0, sizeof job);
    if (!pu__tune_first(&call, model, data, &options, out, &tuned) &&
        !pu__job_make(&job, model, data, options, out, want_nll, report))
        (void)pu__job_call(&call, &job);
    return pu__finish(&call, report->status);
}

/* A gradient without gradients. A direct engine makes it exact, whatever kind was asked for. */
PU_DEF pu_status pu_nll(const pu_lgm *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                        double *nll, double *se, pu_report *report)
{
    pu__call call;
    pu_options o = PU__ZERO;
    pu_status status;
    report = pu__begin(&call, ws, report);
    if (options)
        o = *options;
    if (o.engine > PU_ITERATIVE && o.engine < PU_ENGINE_AUTO)
        o.kind = PU_EXACT;
    o = pu__at_limits(&o);
    if (!nll)
        return pu__refuse(report, PU_E_NULL, "nll");
    if (model && model->Gamma && !pu__resolve(model->Gamma).logdet)
        return pu__refuse(report, PU_E_UNSUPPORTED, "Gamma.logdet");
    if (o.kind != PU_EXACT) {
        if (o.solve.solver == PU_SD || o.solve.solver == PU_GD) /* no Lanczos coefficients */
            return pu__refuse(report, PU_E_UNSUPPORTED, "options.solve.solver (CG or PCG gives the log det)");
        if (o.x0)
            return pu__refuse(report, PU_E_ARGUMENT, "options.x0 (a warm start gives no log det)");
    }
    status = pu_gradient(model, data, &o, ws, NULL, report);
    if (pu__fatal(status))
        return status;
    *nll = report->nll;
    if (se)
        *se = report->nll_se;
    return status;
}

/* ---- one datum, densely ---- */

/* The job of pu_exact: one datum by the dense engine, its mean kept. data NULL: to ask for its size, with a datum that
   has nothing observed. */
PU__FN pu_status pu__exact_make(pu__own_job *w, const pu_lgm *model, const pu_data *data, pu_int datum,
                                pu_report *report)
{
    static const pu_int none[2] = {0, 0};
    memset(w, 0, sizeof *w);
    w->o.kind = PU_EXACT;
    w->o.engine = PU_DENSE;
    w->o.lanes = 1;
    w->wanted.x = &w->any;
    w->data = data ? *data : pu_data_lists(1, model->Phi->rows, none, none, &w->any);
    w->data.n = 1;
    if (data) {
        w->place = pu__datum(data, datum);
        w->data.pick = &w->place;
    }
    w->job.reals = model->Gamma->rows;
    w->job.times = model->Gamma->rows;
    w->job.dry = 1;
    return pu__job_make(&w->job, model, &w->data, &w->o, &w->wanted, 1, report);
}

/* Its bytes depend on the model alone. */
PU_DEF pu_status pu_exact_bytes(const pu_lgm *model, size_t *bytes, pu_report *report)
{
    pu__call call;
    pu__own_job w;
    report = pu__begin(&call, NULL, report);
    if (!bytes)
        return pu__refuse(report, PU_E_NULL, "bytes");
    if (pu__check_model(model, report) || pu__exact_make(&w, model, NULL, 0, report))
        return report->status;
    return pu__measure(&call, pu__job_layout, &w.job, bytes);
}

/* Sigma = L'^-1 L^-1 from the factor of the dense engine. Rows before j of these columns of L^-1 are zero. */
PU__FN void pu__exact_sigma(pu_int D, const pu_real *L, pu_real *Sigma, pu_real *panel)
{
    pu__zeros(Sigma, D * D);
    for (pu_int j = 0; j < D; j++)
        Sigma[j * D + j] = 1;
    /* L^-1 some columns at a time, then L'^-1 of all */
    for (pu_int j = 0; j < D; j += PU__SIDES)
        pu__triangle(D - j, L + j * (D + 1), D, 0, pu__min(PU__SIDES, D - j), pu__rows(Sigma + j * (D + 1), D), 0,
                     panel);
    pu__triangle(D, L, D, 1, D, pu__rows(Sigma, D), 0, panel);
}

/* What pu_exact tells, from a job that has run: nll = 1/2 (log det A - log det Gamma) + value + M_n/2 log 2 pi. */
PU__FN pu_status pu__exact_results(pu__job *job, pu_exact_result *result, pu_int datum, pu_report *report)
{
    pu__worker *w = job->workers;
    pu_int D = job->D;
    result->observed = job->observed[0];
    result->c = report->c;
    result->logdet = job->logdet[0];
    result->nll =
        (result->logdet - job->gamma_logdet) / 2 + job->columns[0].value + (double)result->observed * PU__LOG_2PI / 2;
    if (!pu__finite_double(result->nll))
        return pu__fail(report, PU_NONFINITE, "nll", datum, -1);
    if (result->Sigma)
        pu__exact_sigma(D, w->direct.L, job->own_reals, w->post.panel);
    if (result->Sigma && pu__check_result(job->own_reals, D * D, "Sigma", datum, report))
        return report->status;
    pu__write(result->Sigma, job->own_reals, D * D);
    pu__write(result->b, w->run.u.at, D);
    if (result->A && pu__posterior_dense(&w->post, w->run.x, w->run.q, job->own_reals))
        return pu__operator_failed(report, w->post.failed, datum);
    pu__write(result->A, job->own_reals, D * D);
    pu__write(result->mu, job->stage.x, D);
    return PU_OK;
}

/* One datum through the dense engine; the caller's struct is written when nothing can fail any more. */
PU_DEF pu_status pu_exact(const pu_lgm *model, const pu_data *data, pu_int datum, pu_workspace *ws,
                          pu_exact_result *result, pu_report *report)
{
    pu__call call;
    pu__own_job w;
    pu_exact_result copy;
    report = pu__begin(&call, ws, report);
    if (!result)
        return pu__refuse(report, PU_E_NULL, "result");
    if (pu__check_model(model, report) || pu__check_data(data, model->Phi->rows, report))
        return report->status;
    if (datum < 0 || datum >= data->n)
        return pu__beyond(report, "datum (from 0 on)", data->n - 1);
    if (!pu__resolve(model->Gamma).logdet)
        return pu__refuse(report, PU_E_UNSUPPORTED, "Gamma.logdet");
    if (!pu__exact_make(&w, model, data, datum, report))
        (void)pu__job_call(&call, &w.job);
    if (report->status && report->where.datum >= 0)
        report->where.datum = datum; /* the job has but one */
    copy = *result;
    if (!pu__fatal(report->status) && !pu__exact_results(&w.job, &copy, datum, report))
        *result = copy;
    return pu__finish(&call, report->status);
}

/* ------------------------------------------------------------------------------------------------
   >>predict   draws from the model; moments of z and y given the data

     z | y_n ~ N(mu, Sigma),   y of an unobserved row ~ N(phi_m'mu + eta_m, phi_m'Sigma phi_m + 1/psi_m)

   The variances are diagonals of Sigma or Phi Sigma Phi'. Direct engines deliver them on the way; the iterative one estimates
   them from its probes, sigma_k ~ N(0, Sigma).
   ------------------------------------------------------------------------------------------------ */

/* Sample number of draws, in the stream of the tests, which use 0; step 0: z, step 1: y. */
#define PU__SIMULATE UINT32_C(0xffffffff)

/* What pu_simulate works with. */
typedef struct {
    pu__resolved r;
    /* draws, draws at a time */
    pu_int n, kmax;
    uint64_t seed;
    /* max(noise, M) x kmax, D x kmax; then the draws, staged: D x n, M x n */
    pu_block eps, delta, z, y;
    /* scratch of the operators, and of their checks */
    pu_real *work, *test;
    /* of pu_solve, where Gamma has no solve */
    pu_solve_options o;
    pu_workspace nested;
    size_t nested_bytes;
} pu__simulation;

/* Memory of a simulation; that of the nested pu_solve is part of it. */
PU__FN void pu__simulate_layout(void *self, pu__arena *arena)
{
    pu__simulation *w = (pu__simulation *)self;
    const pu_op *G = &w->r.Gamma;
    const pu_op *P = &w->r.Phi;
    w->eps = pu__cols(arena, pu__most(pu__noise(G), P->rows), w->kmax);
    w->delta = pu__cols(arena, G->rows, w->kmax);
    w->z = pu__cols(arena, G->rows, w->n);
    w->y = pu__cols(arena, P->rows, w->n);
    w->work = pu__reals(arena, pu__most(G->work, P->work), w->kmax);
    w->test = pu__reals(arena, pu__test_reals(&w->r), 1);
    if (w->nested_bytes)
        pu_workspace_block(&w->nested, pu__take(arena, 1, 1, w->nested_bytes), w->nested_bytes);
}

/* z = Gamma^-1 delta for k draws from `first` on: by Gamma's own solve, or by CG to just above rounding level. */
PU__FN pu_status pu__simulate_solve(pu__simulation *w, pu_int first, pu_int k, pu_block z, pu_report *report)
{
    const pu_op *Gamma = &w->r.Gamma;
    pu_solve_arrays arrays = PU__ZERO;
    pu_report part;
    pu_status status;
    if (Gamma->solve)
        return Gamma->solve(Gamma, k, w->delta, z, w->work) ? pu__operator_failed(report, "Gamma.solve", first) : PU_OK;
    arrays.k = k;
    arrays.U = w->delta.at;
    arrays.X = z.at;
    /* CG's worst column is told as the draw that it is */
    status = pu_solve(Gamma, &arrays, &w->o, NULL, &w->nested, &part);
    if (status == PU_E_OPERATOR)
        return pu__operator_failed(report, "Gamma.apply", first);
    if (status)
        (void)pu__fail(report, status, "Gamma^-1 (by CG: there is no Gamma.solve)",
                       part.where.column < 0 ? -1 : first + part.where.column, part.where.index);
    return status;
}

/* Draws first .. first+k-1 into w->z and w->y: z = nu + Gamma^-1 N(0, Gamma), y = Phi z + eta + N(0, 1/psi). */
PU__FN pu_status pu__simulate_block(pu__simulation *w, pu_int first, pu_int k, pu_report *report)
{
    const pu_op *Gamma = &w->r.Gamma;
    const pu_op *Phi = &w->r.Phi;
    const pu_lgm *model = &w->r.model;
    pu_int D = Gamma->rows;
    pu_int M = Phi->rows;
    pu_block z = pu__from(w->z, first);
    pu_block y = pu__from(w->y, first);
    pu_real *eps = w->eps.at;
    pu_status status;
    /* z = nu + Gamma^-1 delta, delta ~ N(0, Gamma) */
    for (pu_int j = 0; j < k; j++)
        pu_normals(w->seed, (uint32_t)(first + j), PU__SIMULATE, 0, PU__STREAM_TEST, 0, pu__noise(Gamma),
                   pu__col(w->eps, j));
    if (Gamma->sample(Gamma, k, w->eps, w->delta, w->work))
        return pu__operator_failed(report, "Gamma.sample", first);
    status = pu__simulate_solve(w, first, k, z, report);
    if (pu__fatal(status))
        return status;
    for (pu_int j = 0; model->nu && j < k; j++)
        pu__axpy(D, 1, model->nu, pu__col(z, j));
    /* y = Phi z + eta + eps / sqrt(psi) */
    if (Phi->apply(Phi, k, z, y, 0, w->work))
        return pu__operator_failed(report, "Phi.apply", first);
    for (pu_int j = 0; j < k; j++) {
        pu_real *to = pu__col(y, j);
        pu_normals(w->seed, (uint32_t)(first + j), PU__SIMULATE, 1, PU__STREAM_TEST, 0, M, eps);
        for (pu_int i = 0; i < M; i++)
            to[i] += eps[i] / pu__sqrt(model->psi[i]);
        if (model->eta)
            pu__axpy(M, 1, model->eta, to);
        if (pu__check_result(pu__col(z, j), D, "z", first + j, report) ||
            pu__check_result(to, M, "y", first + j, report))
            return report->status;
    }
    return status;
}

/* Draws are staged, so that a call that fails writes nothing. Draw j depends on the seed and on j alone. */
PU_DEF pu_status pu_simulate(const pu_lgm *model, pu_int n, uint64_t seed, pu_workspace *ws, pu_real *z, pu_real *y,
                             pu_report *report)
{
    pu__call call;
    pu__simulation w;
    const pu_op *Gamma = &w.r.Gamma;
    report = pu__begin(&call, ws, report);
    memset(&w, 0, sizeof w);
    if (pu__resolve_model(&w.r, model, report))
        return report->status;
    if (n < 1 || (uint64_t)n > UINT32_MAX)
        return pu__refuse(report, n < 1 ? PU_E_ARGUMENT : PU_E_OVERFLOW, "n (at least 1, below 2^32)");
    if (!z && !y)
        return pu__refuse(report, PU_E_NULL, "z and y (at least one is needed)");
    if (!Gamma->sample)
        return pu__refuse(report, PU_E_UNSUPPORTED, "Gamma.sample");
    if (pu__check_numbers(&w.r.model, report))
        return report->status;
    w.n = n;
    w.seed = seed;
    w.kmax = pu__columns_fit(PU__NEAR_CACHE, Gamma->rows, n, 4);
    w.o.solver = Gamma->diag ? PU_PCG : PU_CG;
    w.o.tolerance = 4 * sqrt((double)PU__FLOOR2); /* a little above rounding */
    if ((!Gamma->solve && pu_solve_bytes(Gamma, w.kmax, &w.o, 0, &w.nested_bytes, report)) ||
        pu__allocate(&call, pu__simulate_layout, &w))
        return pu__finish(&call, report->status);
    (void)pu__test_operators(&w.r, w.test, w.work, report);
    for (pu_int first = 0; first < n && !pu__fatal(report->status); first += w.kmax)
        (void)pu__simulate_block(&w, first, pu__min(w.kmax, n - first), report);
    if (!pu__fatal(report->status)) {
        pu__write(z, w.z.at, n * w.z.ld);
        pu__write(y, w.y.at, n * w.y.ld);
    }
    return pu__finish(&call, report->status);
}

/* What pu_posterior and pu_predict share: a job without gradients whose x stays in the workspace, and the variances. */
typedef struct {
    pu__job job;
    pu_options o;
    pu_gradient_result wanted;
    int latent;      /* moments of z, else of y */
    int variance;    /* wanted */
    pu_int each;     /* of them per datum: D, or M */
    pu_real *spread; /* N x each: the variances */
    pu_real any;     /* its address stands for an array that is never written */
    pu_op map;       /* another map than Phi, where there is one */
} pu__moments;

/* Datum n's variances from its probes; for z with the conditional variance 1/A_jj taken out of what chance decides:
     Sigma_jj = 1/A_jj + var(sigma_j - delta_j / A_jj), because cov(sigma, delta) = I and cov(delta) = A. */
PU__FN pu_status pu__moments_sampled(const pu__job *job, pu_int n, pu_report *report)
{
    pu__worker *w = job->workers;
    pu__run *g = &w->run;
    pu_int D = job->D;
    pu_int K = job->K;
    /* the probes' solutions, and where their squares are summed up */
    const pu_real *sigma = job->stage.x + n * (K + 1) * D;
    int known = job->variance && pu__has_diag(job->model);
    pu_real *variance = job->variance ? job->variance + n * D : NULL;
    pu_real *fit = job->fit ? job->fit + n * job->M : NULL;
    pu_int k;
    pu_status status = known ? pu__load(job, w, n, 1, report) : PU_OK;
    if (status)
        return status;
    for (pu_int first = 1; first <= K; first += k) {
        k = pu__min(job->kmax, K + 1 - first);
        pu__run_set(g, job->plan.solver, k);
        if (known && pu__rhs(job, w, n, first, k)) /* the probes once more */
            return PU_E_OPERATOR;
        /* x = sigma, or sigma - delta / diag(A) */
        for (pu_int j = 0; j < k; j++) {
            pu_real *x = pu__col(g->x, j);
            pu__copy(x, sigma + (first + j) * D, D);
            for (pu_int i = 0; known && i < D; i++)
                x[i] -= pu__col(g->u, j)[i] / w->diag[i];
            w->weight[j] = 1 / (pu_real)K;
        }
        if (pu__spread(&w->direct, k, w->direct.x, variance, fit))
            return PU_E_OPERATOR;
    }
    for (pu_int i = 0; known && i < D; i++)
        variance[i] += 1 / w->diag[i];
    return PU_OK;
}

/* The dual engine has Sigma - Gamma^-1: adds diag(Gamma^-1), or diag(Phi Gamma^-1 Phi'), to its data. A difference:
   rounding must not make it negative. */
PU__FN pu_status pu__moments_prior(const pu__moments *moments, pu_report *report)
{
    const pu__job *job = &moments->job;
    pu__worker *w = job->workers;
    pu_block x = w->run.x;
    pu_block q = w->run.q;
    pu_block unit = moments->latent ? x : w->post.t0;
    pu_int size = moments->each;
    pu_int k;
    for (pu_int first = 0; first < size; first += k) {
        k = pu__min(job->kmax, size - first);
        /* q = Gamma^-1 x, x the unit vectors or rows of Phi: the prior variance is x'q */
        pu__clear(size, k, unit, 0);
        for (pu_int j = 0; j < k; j++)
            pu__col(unit, j)[first + j] = 1;
        if (!moments->latent && w->post.map->apply_t(w->post.map, k, unit, x, 0, w->post.work))
            return pu__operator_failed(report, "Phi.apply_t", -1);
        if (job->Gamma->solve(job->Gamma, k, x, q, w->post.work))
            return pu__operator_failed(report, "Gamma.solve", -1);
        for (pu_int j = 0; j < k; j++) {
            double prior = pu__dot(job->D, NULL, pu__col(x, j), pu__col(q, j));
            for (pu_int n = 0; n < job->N; n++) {
                pu_real *variance = moments->spread + n * size + first + j;
                if (job->served_by[n] == PU_DUAL)
                    *variance = (pu_real)pu__max(prior + (double)*variance, 0);
            }
        }
    }
    return PU_OK;
}

/* Mean of y of datum n: Phi mu + eta, on all rows. */
PU__FN pu_status pu__moments_mean(const pu__moments *w, pu_int n, pu_report *report)
{
    const pu__job *job = &w->job;
    pu_int M = job->M;
    pu_block x = pu__rows(job->stage.x + n * job->cols * job->D, job->D);
    pu_block y = pu__rows(job->own_reals + n * M, M);
    const pu_op *map = job->workers->post.map;
    if (map->apply(map, 1, x, y, 0, job->workers->post.work))
        return pu__operator_failed(report, "Phi.apply", n);
    if (job->model->eta && !job->map)
        pu__axpy(M, 1, job->model->eta, y.at);
    return pu__check_result(y.at, M, "mean", n, report);
}

/* Is it a structural model's? */
PU__FN int pu__is_chain(const pu_lgm *model) { return model && model->Gamma && model->Gamma->form == PU_FORM_CHAIN; }

/* Makes the job of the moments and runs it; what a caller still does is copy. */
PU__FN pu_status pu__moments_run(pu__moments *w, pu__call *call, const pu_lgm *model, const pu_data *data,
                                 const pu_options *options, int samples)
{
    pu__job *job = &w->job;
    pu_report *report = call->report;
    pu_options *o = &w->o;
    if (options)
        *o = *options;
    if (samples && o->samples < 0)
        return pu__refuse(report, PU_E_ARGUMENT,
                          "out.samples (give options.samples, a number: the size of the array depends on it)");
    if (samples && o->engine == PU_KALMAN && !pu__is_chain(model))
        return pu__refuse(report, PU_E_ARGUMENT, "out.samples (PU_KALMAN draws none, PU_BANDED does)");
    if (pu__is_far(o->backend))
        o->backend = NULL; /* moments are the host's */
    o->engine = pu__engine_asked(o, NULL); /* before x is asked for */
    *o = pu__at_limits(o);
    job->want_draws = samples;
    /* the mean alone needs no probes; one is the least there is */
    if (!w->variance && !samples && !o->delta && !o->x0 && o->samples > PU_ZERO)
        o->samples = 1;
    /* the solutions, and the variances of one kind */
    w->wanted.x = &w->any;
    job->want_variance = w->latent && w->variance;
    job->want_fit = !w->latent && w->variance;
    job->dry = 1; /* x is staged, and read from there */
    if (pu__job_make(job, model, data, o, &w->wanted, 0, report))
        return report->status;
    /* room for the mean of y */
    job->reals = job->N;
    job->times = job->M;
    w->each = w->latent ? job->D : job->M;
    if (pu__job_memory(call, job))
        return report->status;
    w->spread = w->latent ? job->variance : job->fit;
    if (w->variance)
        pu__zeros(w->spread, job->N * w->each);
    if (pu__fatal(pu__job_run(job, report)) || (w->variance && job->served[PU_DUAL] && pu__moments_prior(w, report)))
        return report->status;
    /* what the engines have not delivered on the way */
    for (pu_int n = 0; n < job->N; n++) {
        pu_status status = PU_OK;
        if (w->variance && job->served_by[n] == PU_ITERATIVE)
            status = pu__moments_sampled(job, n, report);
        if (status == PU_E_OPERATOR)
            return pu__operator_failed(report, job->workers->post.failed, n);
        if (status || (!w->latent && pu__moments_mean(w, n, report)))
            return report->status;
    }
    for (pu_int n = 0; w->variance && n < job->N; n++)
        if (pu__check_result(w->spread + n * w->each, w->each, "variance", n, report))
            break;
    return report->status;
}

/* Moments of z. A sample is mu + sigma_k. */
PU_DEF pu_status pu_posterior(const pu_lgm *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                              pu_posterior_result *out, pu_report *report)
{
    pu__call call;
    pu__moments w;
    const pu__job *job = &w.job;
    pu_status status;
    report = pu__begin(&call, ws, report);
    memset(&w, 0, sizeof w);
    if (!out)
        return pu__refuse(report, PU_E_NULL, "out");
    w.latent = 1;
    w.variance = out->variance != NULL;
    status = pu__moments_run(&w, &call, model, data, options, out->samples != NULL);
    if (pu__fatal(status))
        return pu__finish(&call, status);
    /* samples: sigma_k becomes mu + sigma_k */
    for (pu_int n = 0; out->samples && n < job->N; n++) {
        pu_real *mu = job->stage.x + n * job->cols * job->D;
        for (pu_int i = 0; i < job->K * job->D; i++)
            mu[job->D + i] += mu[i % job->D];
        if (pu__check_result(mu, job->cols * job->D, "samples", n, report))
            return pu__finish(&call, report->status);
    }
    pu__write(out->variance, w.spread, job->N * w.each);
    for (pu_int n = 0; n < job->N; n++) {
        pu_int D = job->D;
        pu_int K = job->K;
        const pu_real *mu = job->stage.x + n * (K + 1) * D;
        if (out->mean)
            pu__copy(out->mean + n * D, mu, D);
        if (out->samples)
            pu__copy(out->samples + n * K * D, mu + D, K * D);
    }
    out->exact = !job->served[PU_ITERATIVE];
    out->probes = job->K;
    return pu__finish(&call, status);
}

/* Another map than Phi whose moments are wanted: checked, and into the job. */
PU__FN pu_status pu__predict_map(pu__moments *w, const pu_lgm *model, const pu_predict_result *out, pu_report *report)
{
    if (pu__check_model(model, report))
        return report->status;
    w->map = pu__resolve(out->map);
    if (w->map.rows != model->Phi->rows || w->map.cols != model->Phi->cols)
        return pu__refuse(report, PU_E_SIZE, "out.map (M x D, like Phi)");
    if (!w->map.apply || !w->map.apply_t)
        return pu__refuse(report, PU_E_UNSUPPORTED, w->map.apply ? "out.map.apply_t" : "out.map.apply");
    if (!w->map.row && model->Phi->row)
        return pu__refuse(report, PU_E_UNSUPPORTED, "out.map.row (Phi has one, and engines that need it)");
    if (w->map.work > model->Phi->work || w->map.band > model->Phi->band)
        return pu__refuse(report, PU_E_SIZE, "out.map (with no more scratch, nor a wider band, than Phi)");
    if (out->imputed)
        return pu__refuse(report, PU_E_ARGUMENT, "out.imputed (of y alone: not with a map)");
    w->job.map = &w->map;
    return PU_OK;
}

/* Moments of y: fit is the variance of Phi z, variance that of an observation. */
PU_DEF pu_status pu_predict(const pu_lgm *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                            pu_predict_result *out, pu_report *report)
{
    pu__call call;
    pu__moments w;
    const pu__job *job = &w.job;
    pu_status status;
    pu_int all, i, row = 0;
    pu_real y = 0, noise = 1;
    pu_real *mean;
    report = pu__begin(&call, ws, report);
    memset(&w, 0, sizeof w);
    if (!out)
        return pu__refuse(report, PU_E_NULL, "out");
    w.variance = out->fit || out->variance;
    if (out->map) {
        if (pu__predict_map(&w, model, out, report))
            return pu__finish(&call, report->status);
        noise = 0;
    }
    status = pu__moments_run(&w, &call, model, data, options, 0);
    if (pu__fatal(status))
        return pu__finish(&call, status);
    all = job->N * job->M;
    mean = job->own_reals;
    for (i = 0; out->variance && i < all; i++)
        if (!pu__finite(w.spread[i] + noise / model->psi[i % job->M]))
            return pu__finish(&call, pu__fail(report, PU_NONFINITE, "variance", i / job->M, i % job->M));
    pu__write(out->mean, mean, all);
    pu__write(out->fit, w.spread, all);
    for (i = 0; out->variance && i < all; i++)
        out->variance[i] = w.spread[i] + noise / model->psi[i % job->M];
    /* what was observed stays as it is. All is read before anything is written: imputed may be data.y */
    for (pu_int n = 0; n < job->N; n++)
        for (i = 0; (i = pu__observed(data, n, i, &row, &y)) >= 0; i++)
            mean[n * job->M + row] = y;
    pu__write(out->imputed, mean, all);
    out->exact = !job->served[PU_ITERATIVE];
    out->probes = job->K;
    return pu__finish(&call, status);
}

/* ------------------------------------------------------------------------------------------------
   >>model   theta -> canonical form -> gradient -> theta
   ------------------------------------------------------------------------------------------------ */

/* Points lgm at the operators kept in the struct itself. Their address is final only once the model is in
   its place. */
PU__FN void pu__model_link(pu_model *model)
{
    if (model->Gamma.rows > 0)
        model->lgm.Gamma = &model->Gamma;
    if (model->Phi.rows > 0)
        model->lgm.Phi = &model->Phi;
}

/* Checks theta and sets the model to it. model->sets counts the calls of `set`, also those that fail. */
PU_DEF pu_status pu_model_set(pu_model *model, const pu_real *theta, pu_report *report)
{
    pu__call call;
    report = pu__begin(&call, NULL, report);
    if (!model || !model->set)
        return pu__refuse(report, PU_E_NULL, model ? "model.set" : "model");
    if (!theta)
        return pu__refuse(report, PU_E_NULL, "theta");
    if (model->params < 1)
        return pu__refuse(report, PU_E_ARGUMENT, "model.params (at least 1)");
    pu_int index = pu__find_nonfinite(model->params, theta);
    if (index >= 0)
        return pu__fail(report, PU_E_NONFINITE, "theta", -1, index);
    model->sets++;
    pu_status status = model->set(model, theta, &index);
    /* A status that is no refusal is not one that `set` may return. */
    if (status)
        return pu__fail(report, status < 0 ? status : PU_E_OPERATOR, "theta", -1, index);
    pu__model_link(model);
    return PU_OK;
}

/* The caller's options (NULL: defaults) with the model's own preconditioner and whether its psi is tied. */
PU__FN pu_options pu__model_options(const pu_model *model, const pu_options *options)
{
    pu_options used = PU__ZERO;
    if (options)
        used = *options;
    if (used.solve.solver == PU_PCG && !used.solve.precond && model->precond) {
        used.solve.precond = model->precond;
        used.solve.precond_stride = PU_ZERO;
    }
    /* One psi for all rows: its gradient may be summed on the way. */
    if (model->tied_psi)
        used.tied_psi = 1;
    return used;
}

/* The canonical gradients that the model uses, marked by the address `any`. Enough to ask for sizes and to
   tune. used: from pu__model_options. */
PU__FN pu_gradient_result pu__model_wants(const pu_model *model, const pu_options *used, pu_real *any)
{
    const pu_solve_options *solve = &used->solve;
    unsigned uses = model->uses;
    pu_gradient_result want = PU__ZERO;
    if (uses & PU_USES_NU)
        want.nu = any;
    if (uses & PU_USES_GAMMA)
        want.Gamma = any;
    if (uses & PU_USES_PHI)
        want.Phi = any;
    if (uses & PU_USES_ETA)
        want.eta = any;
    if (uses & PU_USES_PSI)
        want.psi = any;
    /* Only the network gradient goes through M, and only through the model's own. */
    if (uses & PU_USES_PRECOND && model->precond && solve->precond == model->precond && solve->solver == PU_PCG &&
        used->kind == PU_NETWORK && !used->constant_precond)
        want.precond = any;
    return want;
}

/* Replaces PU_CHOOSE in options->samples and options->solve.iterations by K and I that suit these data. */
PU__FN pu_status pu__model_tune(const pu_model *model, const pu_data *data, pu_options *options, pu_workspace *ws,
                                pu_report *report)
{
    pu_real any;
    pu_options used = pu__model_options(model, options);
    pu_gradient_result want = pu__model_wants(model, &used, &any);
    pu_status status = pu_tune(&model->lgm, data, &used, ws, &want, &used, report);
    options->samples = used.samples;
    options->solve.iterations = used.solve.iterations;
    options->error = used.error;
    return status;
}

/* One gradient in theta: what to do, then how. */
typedef struct {
    /* Set to theta. */
    pu_model *model;
    const pu_data *data;
    /* Of the model. */
    pu_options options;
    /* May be NULL. */
    pu_workspace *ws;
    /* params each; se, the standard errors, may be NULL. */
    pu_real *grad, *se;
    /* N x (K+1) x D: where the solutions go, or NULL. */
    pu_real *x;
    /* grad may be written to even when the call fails: Phi's gradient is made in place. */
    int grad_is_scratch;
    /* Set: the model enlarges rounding so much that no digit of the gradient may be right. */
    int lost;

    /* Has room for arrays of ours. The caller's are written only when nothing can fail any more. */
    pu__job job;
    /* Canonical gradients: which are wanted, where they lie in the memory of the task. */
    pu_gradient_result want, found;
    /* Its address stands for arrays that are never written. */
    pu_real any;
} pu__model_task;

/* The gradient of a model for data and options (NULL: defaults); se: where standard errors go, or NULL. Own
   arrays: the staged gradient and, for standard errors, that of a group of probes, and the variance. */
PU__FN void pu__model_task_make(pu__model_task *self, pu_model *model, const pu_data *data, const pu_options *options,
                                pu_real *se)
{
    memset(self, 0, sizeof *self);
    self->model = model;
    self->data = data;
    self->options = pu__model_options(model, options);
    self->want = pu__model_wants(model, &self->options, &self->any);
    self->se = se;
    /* Taken with the memory of the job. */
    self->job.reals = model->params;
    self->job.times = (se ? 2 : 1) + (model->uses & PU_USES_NU ? 1 : 0);
    self->job.doubles = se ? model->params : 0;
}

/* What pu_gradient needs, and our own arrays. theta is not needed: sizes do not depend on it. */
PU_DEF pu_status pu_model_gradient_bytes(pu_model *model, const pu_data *data, const pu_options *options, int se,
                                         size_t *bytes, pu_report *report)
{
    pu__call call;
    pu__arena *arena = &call.arena;
    pu__model_task self;
    size_t all;
    report = pu__begin(&call, NULL, report);
    if (!model || !bytes)
        return pu__refuse(report, PU_E_NULL, model ? "bytes" : "model");
    if (model->params < 1)
        return pu__refuse(report, PU_E_ARGUMENT, "model.params (at least 1)");
    /* The model need not have been set. */
    pu__model_link(model);
    pu__model_task_make(&self, model, data, options, se ? &self.any : NULL);
    self.want.se_psi = self.se;
    pu_status status = pu_gradient_bytes(&model->lgm, data, &self.options, &self.want, &all, report);
    if (status)
        return status;
    pu__reals(arena, self.job.reals, self.job.times);
    pu__doubles(arena, self.job.doubles, 1);
    all = pu__add(all, arena->used, &arena->overflow);
    if (arena->overflow)
        return pu__refuse(report, PU_E_OVERFLOW, "workspace");
    report->bytes = *bytes = all;
    return PU_OK;
}

/* Standard errors over G groups of probes. Each group has canonical gradients of its own in the task's
   memory, which are pulled back like those of all. With share_g the part of the probes in group g:
     se^2 = sum_g share_g (grad_g - grad)^2 / (G - 1)
   nu and eta do not depend on probes, so their gradients are the same for every group. */
PU__FN pu_status pu__model_se(pu__model_task *self, const pu_real *grad)
{
    const pu_model *model = self->model;
    const pu__job *job = &self->job;
    const pu__slots *slots = &job->slots;
    pu_real *from = self->job.grads + slots->group;
    pu_real *group_grad = self->job.own_reals + model->params;
    double *variance = self->job.own_doubles;
    pu_gradient_result group = self->found;
    /* The layout of a group is that of the gradient up to eta. */
    memset(variance, 0, (size_t)model->params * sizeof *variance);
    for (pu_int g = 0; g < slots->groups; g++) {
        double share = (double)pu__group_size(job->K, slots->groups, g) / (double)job->K;
        if (group.Gamma)
            group.Gamma = from;
        if (group.Phi)
            group.Phi = from + slots->Phi;
        if (group.psi)
            group.psi = from + slots->psi;
        from += slots->eta;
        if (model->grad(model, &group, group_grad))
            return PU_E_OPERATOR;
        for (pu_int i = 0; i < model->params; i++) {
            double off = (double)group_grad[i] - (double)grad[i];
            variance[i] += share * off * off / (double)(slots->groups - 1);
        }
    }
    for (pu_int i = 0; i < model->params; i++)
        self->se[i] = (pu_real)sqrt(variance[i]);
    return PU_OK;
}

/* A model may enlarge the rounding of nu's gradient: where A of a state space has an eigenvalue beyond 1, nu and the way
   back through it grow with every step. So nu's gradient is changed by as much as rounding may have done (signs as the
   bits of i fall), and what that does to `grad` is told, relative to its largest entry or to the entries of a datum,
   the size of what cancels at an optimum. Leaves nu's gradient changed. */
PU__FN pu_status pu__model_rounding(pu__model_task *self, const pu_real *grad, pu_report *report)
{
    const pu_model *model = self->model;
    const pu__job *job = &self->job;
    pu_real *nu = self->found.nu, *moved = self->job.own_reals + (self->job.times - 1) * model->params;
    double size = 0, off = 0, scale = 1, lost = report->rounding_error / PU__MARGIN;
    for (pu_int i = 0; i < job->D; i++)
        size = pu__max(size, fabs((double)nu[i]));
    for (pu_int i = 0; i < job->D; i++)
        nu[i] += (pu_real)(((uint32_t)i * 2654435769u >> 31 ? size : -size) * lost);
    if (model->grad(model, &self->found, moved))
        return pu__refuse(report, PU_E_OPERATOR, "model.grad");
    for (pu_int n = 0; n < job->N; n++)
        scale = pu__max(scale, (double)job->observed[n]);
    for (pu_int i = 0; i < model->params; i++) {
        scale = pu__max(scale, fabs((double)grad[i]));
        off = pu__max(off, fabs((double)moved[i] - (double)grad[i]));
    }
    if (off <= lost * scale)
        return report->status;
    self->lost = !(off < scale) && report->rounding_error < 1;
    report->rounding_error = PU__MARGIN * off < scale ? PU__MARGIN * off / scale : 1; /* a NaN, too */
    if (report->rounding_error > PU__MARGIN * PU__HALF_DIGITS && pu__is_worse(PU_INEXACT, report->status))
        return pu__fail(report, PU_INEXACT, "gradient of theta (an unstable A: see report.rounding_error)", -1, -1);
    return report->status;
}

/* Runs the job in its memory and pulls its gradients back: to an array of ours, unless the model is sure to
   give finite ones. */
PU__FN pu_status pu__model_grad(pu__model_task *self, pu_report *report)
{
    const pu_model *model = self->model;
    pu__job *job = &self->job;
    pu_real *grad = self->job.own_reals;
    int in_place = job->by_rows && self->grad_is_scratch && model->begins_with_Phi;
    pu_status status;
    /* The job then sums Phi's gradient where it is wanted. */
    if (in_place)
        job->phi_grad = self->grad;
    status = pu__job_run(job, report);
    if (pu__fatal(status))
        return status;
    if (self->x)
        pu__copy(self->x, job->stage.x, job->N * (job->K + 1) * job->D);
    self->found = self->want;
    pu__lend(job, &self->found);
    /* Finite gradients need no copy of ours. */
    if (!self->se && model->grad_is_finite && model->grad_is_finite(model, &self->found)) {
        model->grad(model, &self->found, self->grad);
        return status;
    }
    if (model->grad(model, &self->found, grad))
        return pu__refuse(report, PU_E_OPERATOR, "model.grad");
    pu_int bad = pu__find_nonfinite(model->params, grad);
    if (bad >= 0)
        return pu__fail(report, PU_NONFINITE, "gradient of theta", -1, bad);
    if (self->se && pu__model_se(self, grad))
        return pu__refuse(report, PU_E_OPERATOR, "model.grad");
    if (self->found.nu && report->rounding_error > 0)
        status = pu__model_rounding(self, grad, report);
    if (!pu__fatal(status))
        pu__copy(self->grad, grad, model->params);
    return status;
}

/* The gradient of the task. Without a report the likelihood is left out, as in pu_gradient. */
PU__FN pu_status pu__model_run(pu__model_task *self, pu_report *report)
{
    const pu_lgm *lgm = &self->model->lgm;
    int want_nll = report != NULL;
    const pu_options *options = &self->options;
    pu__call call;
    report = pu__begin(&call, self->ws, report);
    if (!self->model->grad || !self->grad)
        return pu__refuse(report, PU_E_NULL, self->model->grad ? "grad" : "model.grad");
    /* Before standard errors are asked for: the pilot of PU_CHOOSE has few probes, and groups of its own. */
    pu_status status = pu__tune_first(&call, lgm, self->data, &options, &self->want, &self->options);
    self->want.x = self->x;
    if (self->se)
        self->want.se_psi = &self->any;
    if (!status)
        status = pu__job_make(&self->job, lgm, self->data, options, &self->want, want_nll, report);
    /* Nothing is written by the job: its gradients are read where they lie. */
    self->job.dry = 1;
    if (!status)
        status = pu__job_memory(&call, &self->job);
    if (!status)
        status = pu__model_grad(self, report);
    return pu__finish(&call, status);
}

/* pu_model_set, then the gradient there. */
PU_DEF pu_status pu_model_gradient(pu_model *model, const pu_real *theta, const pu_data *data,
                                   const pu_options *options, pu_workspace *ws, pu_real *grad, pu_real *se,
                                   pu_report *report)
{
    pu__model_task self;
    pu_status status = pu_model_set(model, theta, report);
    if (status)
        return status;
    pu__model_task_make(&self, model, data, options, se);
    self.ws = ws;
    self.grad = grad;
    return pu__model_run(&self, report);
}

/* pu_model_set, then pu_nll with the options of the model. */
PU_DEF pu_status pu_model_nll(pu_model *model, const pu_real *theta, const pu_data *data, const pu_options *options,
                              pu_workspace *ws, double *nll, double *se, pu_report *report)
{
    pu_status status = pu_model_set(model, theta, report);
    if (status)
        return status;
    pu_options used = pu__model_options(model, options);
    return pu_nll(&model->lgm, data, &used, ws, nll, se, report);
}

/* pu_model_set, then pu_posterior with the options of the model. */
PU_DEF pu_status pu_model_posterior(pu_model *model, const pu_real *theta, const pu_data *data, const pu_options *options,
                                    pu_workspace *ws, pu_posterior_result *out, pu_report *report)
{
    pu_status status = pu_model_set(model, theta, report);
    if (status)
        return status;
    pu_options used = pu__model_options(model, options);
    return pu_posterior(&model->lgm, data, &used, ws, out, report);
}

/* The same for what is observed. */
PU_DEF pu_status pu_model_predict(pu_model *model, const pu_real *theta, const pu_data *data, const pu_options *options,
                                  pu_workspace *ws, pu_predict_result *out, pu_report *report)
{
    pu_status status = pu_model_set(model, theta, report);
    if (status)
        return status;
    pu_options used = pu__model_options(model, options);
    return pu_predict(&model->lgm, data, &used, ws, out, report);
}

/* pu_model_set, then draws. */
PU_DEF pu_status pu_model_simulate(pu_model *model, const pu_real *theta, pu_int n, uint64_t seed, pu_workspace *ws,
                                   pu_real *z, pu_real *y, pu_report *report)
{
    pu_status status = pu_model_set(model, theta, report);
    return status ? status : pu_simulate(&model->lgm, n, seed, ws, z, y, report);
}

/* The canonical gradients that the model uses, and the gradient in theta besides: see pu_model_gradient_bytes. */
PU_DEF pu_status pu_model_plan(pu_model *model, const pu_data *data, const pu_options *options, pu_report *report)
{
    pu__call call;
    pu_real any;
    if (!model || !report)
        return pu__refuse(pu__begin(&call, NULL, report), PU_E_NULL, model ? "report" : "model");
    pu__begin(&call, NULL, NULL);
    pu__model_link(model);
    pu__reals(&call.arena, pu__most(model->params, 0), 1);
    pu_options used = pu__model_options(model, options);
    pu_gradient_result want = pu__model_wants(model, &used, &any);
    return pu__plan_tell(&model->lgm, data, &used, &want, call.arena.used, report);
}

/* Checks the data, so that the model's own function need not. A model that was never set has Phi in itself,
   if anywhere. */
PU_DEF pu_status pu_model_start(const pu_model *model, const pu_data *data, uint64_t seed, pu_real *theta,
                                pu_report *report)
{
    pu__call call;
    report = pu__begin(&call, NULL, report);
    if (!model || !theta)
        return pu__refuse(report, PU_E_NULL, model ? "theta" : "model");
    if (!model->start)
        return pu__refuse(report, PU_E_UNSUPPORTED, "model.start (this model has none: begin with a theta of yours)");
    const pu_op *Phi = model->Phi.rows > 0 ? &model->Phi : model->lgm.Phi;
    pu_status status = pu__check_data(data, Phi ? Phi->rows : 0, report);
    if (status)
        return status;
    status = model->start(model, data, seed, theta);
    if (status)
        return pu__refuse(report, status < 0 ? status : PU_E_OPERATOR, "model.start");
    pu_int index = pu__find_nonfinite(model->params, theta);
    if (index >= 0)
        return pu__fail(report, PU_E_NONFINITE, "model.start", -1, index);
    pu__text plan = {report->plan, 0, sizeof report->plan};
    pu__put(&plan, model->told ? model->told : "");
    return PU_OK;
}

/* The natural value x = theta, exp theta or tanh theta. */
PU_DEF double pu_param_natural(const pu_param *param, double theta)
{
    if (!param)
        return (double)NAN;
    if (param->scale == PU_SCALE_LOG)
        return exp(theta);
    if (param->scale == PU_SCALE_LOGIT)
        return param->lower + (param->upper - param->lower) / (1 + exp(-theta));
    return param->scale == PU_SCALE_ATANH ? tanh(theta) : theta;
}

/* The way back: theta = x, log x or atanh x. */
PU_DEF double pu_param_theta(const pu_param *param, double x)
{
    if (!param)
        return (double)NAN;
    if (param->scale == PU_SCALE_LOG)
        return log(x);
    if (param->scale == PU_SCALE_LOGIT)
        return log((x - param->lower) / (param->upper - x));
    return param->scale == PU_SCALE_ATANH ? log((1 + x) / (1 - x)) / 2 : x;
}

/* Fills in *param: called "name", "name[i]" or "name[i,j]" (an index of -1 is left out), with the bounds of
   its scale. For the describe functions of models. */
PU__FN void pu__describe(pu_param *param, const char *name, pu_int i, pu_int j, pu_scale scale)
{
    pu__text text = {param->name, 0, sizeof param->name};
    pu__put(&text, name);
    pu__put_number(&text, "[", i);
    pu__put_number(&text, ",", j);
    if (i >= 0)
        pu__put(&text, "]");
    param->scale = scale;
    param->lower = pu_param_natural(param, -HUGE_VAL);
    param->upper = pu_param_natural(param, HUGE_VAL);
}

/* The defaults of a free parameter, then what the model knows better. */
PU_DEF pu_status pu_model_param(const pu_model *model, pu_int i, pu_param *param)
{
    if (!model || !param)
        return PU_E_NULL;
    if (i < 0 || i >= model->params)
        return PU_E_ARGUMENT;
    pu__describe(param, "theta", i, -1, PU_SCALE_FREE);
    if (model->describe)
        model->describe(model, i, param);
    return PU_OK;
}

/* Operators that were borrowed are not the model's to free. */
PU_DEF void pu_model_free(pu_model *model)
{
    if (!model)
        return;
    pu_workspace_free(&model->memory);
    memset(model, 0, sizeof *model);
}

/* ------------------------------------------------------------------------------------------------
   >>models   the built-in models
   ------------------------------------------------------------------------------------------------ */

/* ---- what the built-in models share ----
   Each pu_model_*() fills a pu__draft and moves it to the caller's struct at the very end. A call that is refused
   changes nothing there. What a model needs beyond pu_model is in its data, in the model's own memory. */

/* The arguments of model.set, model.grad and model.start. */
#define PU__SET_ARGS        pu_model *model, const pu_real *theta, pu_int *index
#define PU__MODEL_GRAD_ARGS const pu_model *model, const pu_gradient_result *g, pu_real *grad
#define PU__START_ARGS      const pu_model *model, const pu_data *data, PU_UNUSED uint64_t seed, pu_real *theta

/* A part of theta, from entry `at` on: a matrix, a vector (cols = 0), a number (rows = 0 too), or the lower triangle
   of a matrix, row by row, with the logarithms of its diagonal (cols < 0). */
typedef struct {
    const char *name;
    pu_int rows, cols, at;
    pu_scale scale;
} pu__part;

/* A process of S states as of some theta. Q = L L' and, for a given start, P0 = L0 L0', both factors in L; S x S each,
   zero above the diagonal. */
typedef struct {
    pu_ssm ssm;
    double L[2][PU__SSM_SQUARE];
} pu__process;

/* Data of a model. There are five kinds, and the parts of theta come in this order:
     factors (eta > 0)          Phi | eta | log psi
     regressions (dictionary)   log alpha | log psi
     networks (hidden > 0)      W1 | b1 | W2 | b2 | log alpha | log psi, the features being Phi; W2 = 0: without W2, b2
     autoregressions            atanh gamma | log kappa | log lambda
     state spaces (states > 0)  A | c | L | log sigma2, and m0 | L0 for a given start
   Offsets are those of a part in theta. Arrays that a kind does not use have no entries, but for `ar`. */
typedef struct {
    pu__part part[6];
    int parts;
    pu_int M, D;
    /* Offsets; eta and W2 are 0 where there is no such part. */
    pu_int eta, W2, psi;
    /* theta holds logarithms from this entry on: alpha where there is one, else psi. */
    pu_int logs;
    /* Of c, log sigma2, m0, and of the triangles L and L0. */
    pu_int c, sigma2, m0, L[2];
    /* psi is one number, beta; else M of them. */
    int tied_psi;
    /* alpha has D entries; else it is one number. */
    int sparse;
    /* A state space whose start is given, so that nu depends on theta. */
    int given;
    /* The user's: Phi, and M x inputs. */
    const pu_op *dictionary;
    const pu_real *X;
    pu_int inputs, hidden, states;
    /* |Phi|_F^2 / M, about: the variance of y for a prior of variance one. */
    double gain;
    /* params: theta as of the last set, with exp of its logarithms; M: psi written out; D: nu. */
    pu_real *x, *y, *nu;
    /* D: |Phi_j|^2; D: M^-1 of sparse models; scratch of the dictionary. */
    pu_real *norm, *m, *work;
    /* M x hidden: tanh, and scratch; M x D: Phi; M ones. */
    pu_real *H, *Hbar, *features, *ones;
    /* The process of an autoregression. */
    pu_ar *ar;
    /* 2: as of the last set, and being set, since a pu_ssm is too large for the stack. */
    pu__process *process;
    /* states: c. */
    pu_real *readout;
    /* The last start of an autoregression in words: how many were tried, what NLL fits from them reached. */
    char told[120];
} pu__parted;

/* A model while it is being made. */
typedef struct {
    /* Becomes *model when all went well. */
    pu_model made;
    /* Becomes its data. */
    pu__parted parted;
    /* The workspace is made.memory. */
    pu__call call;
} pu__draft;

/* The data of a built-in model. */
PU__FN pu__parted *pu__parted_of(const pu_model *model) { return (pu__parted *)model->data; }

/* First step of every pu_model_*(): d is zero but for made.memory, which is the caller's. Returns the caller's report,
   cleared, or one that nobody reads. */
PU__FN pu_report *pu__draft_begin(pu__draft *d, const pu_model *model, pu_report *report)
{
    memset(d, 0, sizeof *d);
    if (model)
        d->made.memory = model->memory;
    return pu__begin(&d->call, &d->made.memory, report);
}

/* Appends a part (see pu__part), and returns its offset in theta. A number of parameters that overflows becomes the
   largest there is, for which there is no memory. */
PU__FN pu_int pu__part_add(pu__draft *d, const char *name, pu_int rows, pu_int cols, pu_scale scale)
{
    pu__part part = {name, rows, cols, d->made.params, scale};
    int overflow = 0;
    size_t count = pu__mul((size_t)pu__most(rows, 1), (size_t)pu__most(cols, 1), &overflow);
    if (cols < 0)
        count = (size_t)(rows * (rows + 1) / 2);
    count = pu__add(count, (size_t)part.at, &overflow);
    d->parted.part[d->parted.parts++] = part;
    d->made.params = overflow ? PTRDIFF_MAX : (pu_int)count;
    return part.at;
}

/* model.describe: the part that entry i of theta belongs to, and its place in that part. */
PU__FN void pu__parted_describe(const pu_model *model, pu_int i, pu_param *param)
{
    const pu__parted *s = pu__parted_of(model);
    const pu__part *p = s->part + s->parts - 1;
    pu_int row, col = -1;
    while (i < p->at)
        p--;
    i -= p->at;
    row = p->rows ? i : -1;
    if (p->cols > 0) {
        row = i / p->cols;
        col = i % p->cols;
    }
    /* Row r of a triangle holds r + 1 entries. */
    if (p->cols < 0) {
        for (row = 0; i > row; i -= row)
            row++;
        col = i;
    }
    pu__describe(param, p->name, row, col, p->cols < 0 && col < row ? PU_SCALE_FREE : p->scale);
}

/* The arrays of a draft. */
PU__FN void pu__draft_layout(void *self, pu__arena *arena)
{
    pu__draft *d = (pu__draft *)self;
    pu__parted *s = &d->parted;
    d->made.data = pu__take(arena, 1, 1, sizeof *s);
    s->x = pu__reals(arena, d->made.params, 1);
    s->y = pu__reals(arena, s->M, s->tied_psi);
    s->nu = pu__reals(arena, s->D, s->given);
    s->m = pu__reals(arena, s->D, s->sparse);
    s->norm = pu__reals(arena, s->D, s->dictionary != NULL);
    s->work = pu__reals(arena, s->dictionary ? pu__resolve(s->dictionary).work : 0, 1);
    /* network: without a second layer the hidden units are the features */
    s->H = pu__reals(arena, s->M, s->hidden);
    s->Hbar = pu__reals(arena, s->M, s->hidden);
    s->features = s->W2 > 0 ? pu__reals(arena, s->M, s->D) : s->H;
    s->ones = pu__reals(arena, s->M, s->hidden > 0);
    s->ar = (pu_ar *)pu__take(arena, 1, 1, sizeof *s->ar);
    s->readout = pu__reals(arena, s->states, 1);
    s->process = (pu__process *)pu__take(arena, s->states > 0, 2, sizeof(pu__process));
}

/* x = exp theta. Returns 0 unless x and 1/x are both finite, and thereby positive. */
PU__FN int pu__exp(pu_real theta, pu_real *x)
{
#ifdef PU_FLOAT
    *x = expf(theta);
#else
    *x = exp(theta);
#endif
    return pu__finite(*x) && pu__finite(1 / *x);
}

/* to_i = value, n entries. */
PU__FN void pu__fill(pu_real *to, pu_real value, pu_int n)
{
    for (pu_int i = 0; i < n; i++)
        to[i] = value;
}

/* For set functions: entry i of theta is out of range. Returns the status for that. */
PU__FN pu_status pu__refuse_entry(pu_int *index, pu_int i)
{
    *index = i;
    return PU_E_ARGUMENT;
}

/* x, or the nearer end of [low, high] if x is outside; low for NaN. */
PU__FN double pu__clamp(double x, double low, double high)
{
    if (x > high)
        return high;
    return x > low ? x : low;
}

/* A number whose inverse, multiples and exponentials of logarithms are far from the ends of pu_real. */
#ifdef PU_FLOAT
#define PU__SMALL 1e-30
#else
#define PU__SMALL 1e-290
#endif

/* x where it is positive and finite, moved to between PU__SMALL and its inverse; else the other. */
PU__FN double pu__positive_or(double x, double other)
{
    return x > 0 && pu__finite_double(x) ? pu__clamp(x, PU__SMALL, 1 / PU__SMALL) : other;
}

/* norm = the squared norms |Phi_j|^2 of the dictionary's columns, or ones where it cannot tell; then
   gain = |Phi|_F^2 / M. Uses y as scratch. */
PU__FN pu_status pu__parted_norms(pu__parted *s, pu_report *report)
{
    pu_op Phi = pu__resolve(s->dictionary);
    double sum = 0;
    pu__fill(s->norm, Phi.gram_diag ? 0 : 1, s->D);
    pu__fill(s->y, 1, s->M);
    if (Phi.gram_diag && Phi.gram_diag(&Phi, s->y, s->norm, s->work))
        return pu__operator_failed(report, "Phi.gram_diag", -1);
    pu__zeros(s->y, s->M);
    for (pu_int i = 0; i < s->D; i++)
        sum += (double)s->norm[i];
    s->gain = pu__positive_or(sum, (double)s->D) / (double)s->M;
    return PU_OK;
}

/* Memory of a draft whose sizes and parts are known; then *model and its data move to their places, and only operators
   and functions are missing. *model has the memory in any case, to be freed. Without memory the rest of *model is
   zeroed: a block that its pointers referred to may be gone. The model is not set yet: psi = 0, which pu_gradient
   refuses. */
PU__FN pu_status pu__draft_open(pu__draft *d, pu_model *model)
{
    pu__parted *s = &d->parted;
    pu_model *made = &d->made;
    pu_report *report = d->call.report;
    if (!model)
        return pu__refuse(report, PU_E_NULL, "model");
    pu_status status = pu__allocate(&d->call, pu__draft_layout, d);
    if (status)
        memset(model, 0, sizeof *model);
    /* Arbitrary bytes are not handed back. */
    if (status == PU_E_ARGUMENT)
        pu_workspace_free(&made->memory);
    model->memory = made->memory;
    if (status)
        return status;
    /* All arrays: the data are the first. */
    memset(made->data, 0, d->call.arena.used);
    if (s->dictionary)
        status = pu__parted_norms(s, report);
    if (status)
        return status;
    /* psi as a vector is a part of theta, and read there. */
    if (!s->tied_psi)
        s->y = s->x + s->psi;
    made->lgm.psi = s->y;
    made->tied_psi = s->tied_psi;
    made->uses = PU_USES_PSI | PU_USES_GAMMA;
    made->describe = pu__parted_describe;
    *model = *made;
    *pu__parted_of(model) = *s;
    return PU_OK;
}

/* ---- what the starts share ---- */

/* c_k = mean of y_t y_{t+k} over the pairs that are observed, k = 0 .. lags <= PU_AR_MAX; 0 where there is no pair.
   c_0 = 1 where it would not be positive and finite. */
PU__FN void pu__autocovariances(const pu_data *data, pu_int lags, double *c)
{
    double count[PU_AR_MAX + 1] = {0};
    pu_int n, at, to, k, t = 0, u = 0;
    pu_real y = 0, later = 0;
    memset(c, 0, (size_t)(lags + 1) * sizeof *c);
    /* All pairs (t, u) of observed steps with 0 <= u - t <= lags; the observed steps of a datum ascend. */
    for (n = 0; n < data->n; n++)
        for (at = 0; (at = pu__observed(data, n, at, &t, &y)) >= 0; at++)
            for (to = at; (to = pu__observed(data, n, to, &u, &later)) >= 0; to++) {
                k = u - t;
                if (k > lags)
                    break;
                c[k] += (double)y * (double)later;
                count[k] += 1;
            }
    for (k = 0; k <= lags; k++)
        c[k] = count[k] > 0 ? c[k] / count[k] : 0;
    c[0] = pu__positive_or(c[0], 1);
}

/* out = scale times standard normals, rows of n, each with a number of its own, from `first` on.
   The stream is that of the tests of operators, with a sample number that these never use. */
PU__FN void pu__start_normals(uint64_t seed, pu_int first, pu_int rows, pu_int n, double scale, pu_real *out)
{
    for (pu_int row = 0; row < rows; row++)
        pu_normals(seed, (uint32_t)(first + row), UINT32_MAX - 1, 0, PU__STREAM_TEST, 0, n, out + row * n);
    for (pu_int i = 0; i < rows * n; i++)
        out[i] = (pu_real)(scale * (double)out[i]);
}

/* ---- models without a process: factor analysis, probabilistic PCA, sparse Bayesian learning, Bayesian linear regression
        and the neural linear model ---- */

/* The weights of layer one (W1) or two (W2) of the network as of the last set, as an operator: rows = outputs,
   cols = inputs, params = rows cols. The biases follow in memory. */
PU__FN pu_op pu__layer(const pu__parted *s, int second)
{
    return second ? pu_op_dense(s->D, s->hidden, s->x + s->W2) : pu_op_dense(s->hidden, s->inputs, s->x);
}

/* Y = X W' + 1 b' of a layer. X: M x inputs, Y: M x outputs, row-major; a row is a data point. */
PU__FN void pu__layer_apply(const pu__parted *s, int second, const pu_real *X, pu_real *Y)
{
    pu_op layer = pu__layer(s, second);
    /* b first, to which the product is added */
    for (pu_int p = 0; p < s->M; p++)
        pu__copy(Y + p * layer.rows, (const pu_real *)layer.data + layer.params, layer.rows);
    layer.apply(&layer, s->M, pu__rows(X, layer.cols), pu__rows(Y, layer.rows), 1, NULL);
}

/* The reverse of pu__layer_apply, from Ybar = d/dY (M x outputs): grad = [Ybar'X | Ybar'1] for W and b, which is
   overwritten, and Xbar = Ybar W (M x inputs) unless Xbar is NULL. */
PU__FN void pu__layer_back(const pu__parted *s, int second, const pu_real *X, const pu_real *Ybar, pu_real *grad,
                           pu_real *Xbar)
{
    pu_op layer = pu__layer(s, second);
    pu_block from = pu__rows(Ybar, layer.rows);
    /* W, then b, then the inputs */
    pu__zeros(grad, layer.params + layer.rows);
    layer.grad(&layer, s->M, from, pu__rows(X, layer.cols), s->ones, grad, NULL);
    for (pu_int p = 0; p < s->M; p++)
        pu__axpy(layer.rows, 1, pu__col(from, p), grad + layer.params);
    if (Xbar)
        layer.apply_t(&layer, s->M, from, pu__rows(Xbar, layer.cols), 0, NULL);
}

/* model.set: theta -> x, psi, M^-1 and the features. All logarithms are tried before anything is written, so a refused
   theta leaves the model as it was. */
PU__FN pu_status pu__parted_set(PU__SET_ARGS)
{
    pu__parted *s = pu__parted_of(model);
    pu_int logs = s->logs, hidden = s->hidden;
    pu_real beta;
    for (pu_int i = logs; i < model->params; i++)
        if (!pu__exp(theta[i], &beta))
            return pu__refuse_entry(index, i);
    pu__copy(s->x, theta, logs);
    for (pu_int i = logs; i < model->params; i++)
        pu__exp(theta[i], s->x + i);
    beta = s->x[s->psi];
    if (s->tied_psi)
        pu__fill(s->y, beta, s->M);
    /* M = diag(A) when nothing is missing; alpha comes first in theta. */
    if (s->sparse)
        for (pu_int i = 0; i < s->D; i++)
            s->m[i] = 1 / (s->x[i] + beta * s->norm[i]);
    /* Phi = tanh(X W1' + b1), or that times W2' + b2 */
    if (hidden)
        pu__layer_apply(s, 0, s->X, s->H);
    for (pu_int i = 0; i < s->M * hidden; i++)
        s->H[i] = pu__tanh(s->H[i]);
    if (s->W2 > 0)
        pu__layer_apply(s, 1, s->H, s->features);
    return PU_OK;
}

/* model.grad: gradients of Phi, eta, Gamma, psi and m -> gradient of theta. Factors: g->Phi may be grad itself, as
   begins_with_Phi promises. Networks: g->Phi is the gradient for the features. */
PU__FN pu_status pu__parted_grad(PU__MODEL_GRAD_ARGS)
{
    const pu__parted *s = pu__parted_of(model);
    pu_int M = s->M;
    double sum = 0;
    /* What theta holds as it is, or as a logarithm: the gradient for the natural value first. */
    if (s->eta > 0) {
        if (g->Phi != grad)
            pu__copy(grad, g->Phi, s->eta);
        pu__copy(grad + s->eta, g->eta, M);
    } else
        pu__copy(grad + s->logs, g->Gamma, model->Gamma.params);
    if (s->tied_psi)
        for (pu_int i = 0; i < M; i++)
            sum += (double)g->psi[i];
    else
        pu__copy(grad + s->psi, g->psi, M);
    /* m = 1 / (alpha + beta norm), so dm = -m^2 (dalpha + norm dbeta). alpha comes first in theta. */
    if (g->precond && model->uses & PU_USES_PRECOND)
        for (pu_int i = 0; i < s->D; i++) {
            pu_real square = s->m[i] * s->m[i];
            sum -= (double)(square * s->norm[i] * g->precond[i]);
            grad[i] -= square * g->precond[i];
        }
    if (s->tied_psi)
        grad[s->psi] = (pu_real)sum;
    /* Phi -> H -> argument of tanh -> W1; tanh' = 1 - tanh^2. */
    if (s->hidden) {
        if (s->W2 > 0)
            pu__layer_back(s, 1, s->H, g->Phi, grad + s->W2, s->Hbar);
        else
            pu__copy(s->Hbar, g->Phi, M * s->D);
        for (pu_int i = 0; i < M * s->hidden; i++)
            s->Hbar[i] *= 1 - s->H[i] * s->H[i];
        pu__layer_back(s, 0, s->X, s->Hbar, grad, NULL);
    }
    /* d/d log x = x d/dx */
    for (pu_int i = s->logs; i < model->params; i++)
        grad[i] *= s->x[i];
    return PU_OK;
}

/* model.grad_is_finite of factors: is pu__parted_grad sure to give finite numbers for this finite g?
   It only copies the gradients of Phi and eta. What it multiplies, the entries or the sum of psi's, is tried here. */
PU__FN int pu__factors_grad_is_finite(const pu_model *model, const pu_gradient_result *g)
{
    const pu__parted *s = pu__parted_of(model);
    double sum = 0;
    for (pu_int i = 0; i < s->M; i++) {
        sum += (double)g->psi[i];
        if (!pu__finite(g->psi[i] * s->y[i]) || !pu__finite((pu_real)sum * s->y[i]))
            return 0;
    }
    return 1;
}

/* model.start of factors. eta = the mean of each row of Phi's observations, or of all values where a row has none.
   A quarter of a row's variance goes to its loadings, at random, and the rest to the noise. */
PU__FN pu_status pu__start_factors(PU__START_ARGS)
{
    const pu__parted *s = pu__parted_of(model);
    int tied = s->tied_psi;
    pu_real *Phi = theta, *mean = theta + s->eta, *psi = theta + s->psi, y = 0;
    /* squares about the means, number and sum of all values; their variance */
    double squares = 0, count = 0, total = 0, overall;
    pu_int at, m = 0;
    /* Running means, and squares about them. The first M places of Phi serve for the counts of the rows. */
    pu__zeros(theta, model->params);
    for (pu_int n = 0; n < data->n; n++)
        for (at = 0; (at = pu__observed(data, n, at, &m, &y)) >= 0; at++) {
            pu_real off = y - mean[m]; /* from the mean so far */
            Phi[m] += 1;
            count += 1;
            total += (double)y;
            mean[m] += off / Phi[m];
            if (!tied)
                psi[m] += off * (y - mean[m]);
            squares += (double)off * (double)(y - mean[m]);
        }
    overall = pu__positive_or(squares / count, 1);
    for (m = 0; m < s->M; m++) {
        if (Phi[m] == 0)
            mean[m] = (pu_real)(total / pu__max(count, 1));
        /* A row with one value or none is taken to be like the others. */
        if (!tied)
            psi[m] = (pu_real)-log(0.75 * pu__positive_or((double)psi[m] / (double)Phi[m], overall));
    }
    if (tied)
        *psi = (pu_real)-log(0.75 * overall);
    /* D loadings of variance v/3D each, where v is the variance of the noise: three quarters of the whole */
    for (m = 0; m < s->M; m++) {
        double noise = exp(-(double)psi[tied ? 0 : m]);
        pu__start_normals(seed, m, 1, s->D, sqrt(noise / (3 * (double)s->D)), Phi + m * s->D);
    }
    return PU_OK;
}

/* The part of pu__start_regression for the weights of a network. Every tanh gets a sum of about unit variance, whatever
   the scale of the inputs, and bends at a random place. W2 is scaled alike, b2 = 0. */
PU__FN void pu__start_network(const pu__parted *s, uint64_t seed, pu_real *theta)
{
    pu_int inputs = s->inputs, hidden = s->hidden;
    pu_real *W2 = theta + s->W2;
    pu__start_normals(seed, 0, hidden, inputs, 1 / sqrt((double)inputs), theta);
    /* Weights of input j are divided by its root mean square. */
    for (pu_int j = 0; j < inputs; j++) {
        double square = 0;
        for (pu_int i = j; i < s->M * inputs; i += inputs)
            square += (double)s->X[i] * (double)s->X[i];
        square = square > 0 ? pu__clamp(sqrt((double)s->M / square), 0, 1 / PU__SMALL) : 1;
        for (pu_int i = j; i < hidden * inputs; i += inputs)
            theta[i] = (pu_real)(square * (double)theta[i]);
    }
    /* b1 and the second layer */
    pu__start_normals(seed, hidden, 1, hidden, 1, theta + hidden * inputs);
    if (s->W2 == 0)
        return;
    pu__start_normals(seed, hidden + 1, s->D, hidden, 1 / sqrt((double)hidden), W2);
    pu__zeros(W2 + s->D * hidden, s->D);
}

/* model.start of regressions and networks: nine tenths of the second moment of y go to Phi z, the rest to the noise. */
PU__FN pu_status pu__start_regression(PU__START_ARGS)
{
    const pu__parted *s = pu__parted_of(model);
    double square;
    pu__autocovariances(data, 0, &square);
    /* alpha, one or D of them, and beta */
    pu__fill(theta + s->logs, (pu_real)log(s->gain / (0.9 * square)), s->psi - s->logs);
    theta[s->psi] = (pu_real)-log(0.1 * square);
    if (s->hidden)
        pu__start_network(s, seed, theta);
    return PU_OK;
}

/* The last parts of theta but for factors, alpha and beta; then memory, operators and functions of the model. */
PU__FN pu_status pu__parted_make(pu__draft *d, pu_model *model)
{
    pu__parted *s = &d->parted;
    pu_int M = s->M, D = s->D;
    if (s->eta == 0) {
        s->logs = pu__part_add(d, "alpha", s->sparse ? D : 0, 0, PU_SCALE_LOG);
        s->psi = pu__part_add(d, "beta", 0, 0, PU_SCALE_LOG);
        s->tied_psi = 1;
    }
    pu_status status = pu__draft_open(d, model);
    if (status)
        return status;
    s = pu__parted_of(model);
    model->set = pu__parted_set;
    model->grad = pu__parted_grad;
    model->start = pu__start_regression;
    /* Phi is the dictionary, the features, or the first part of theta. */
    model->lgm.Phi = s->dictionary;
    if (s->hidden) {
        pu__fill(s->ones, 1, M);
        model->uses |= PU_USES_PHI;
        model->Phi = pu_op_dense(M, D, s->features);
    }
    /* Gamma is the identity, diag(alpha), or alpha times the identity. */
    model->Gamma = (s->sparse ? pu_op_diagonal : pu_op_scaled_identity)(D, s->x + s->logs);
    if (s->eta > 0) {
        model->uses = PU_USES_PHI | PU_USES_ETA | PU_USES_PSI;
        model->begins_with_Phi = 1;
        model->grad_is_finite = pu__factors_grad_is_finite;
        model->start = pu__start_factors;
        model->Gamma = pu_op_identity(D);
        model->Phi = pu_op_dense(M, D, s->x);
        model->Phi.check = NULL; /* a part of theta, which pu_model_set has checked */
        model->lgm.eta = s->x + s->eta;
    }
    if (s->sparse) {
        model->uses |= PU_USES_PRECOND;
        model->precond = s->m;
    }
    pu__model_link(model);
    return PU_OK;
}

/* Factor analysis, or with tied_psi probabilistic PCA. M, D: rows and columns of Phi. */
PU__FN pu_status pu__model_factors(pu_model *model, pu_int M, pu_int D, int tied_psi, pu_report *report)
{
    pu__draft d;
    pu__parted *s = &d.parted;
    report = pu__draft_begin(&d, model, report);
    if (M < 1 || D < 1)
        return pu__refuse(report, PU_E_ARGUMENT, M < 1 ? "M (at least 1)" : "D (at least 1)");
    d.made.name = tied_psi ? "probabilistic PCA" : "factor analysis";
    s->M = M;
    s->D = D;
    s->tied_psi = tied_psi;
    /* theta */
    pu__part_add(&d, "Phi", M, D, PU_SCALE_FREE);
    s->eta = pu__part_add(&d, "eta", M, 0, PU_SCALE_FREE);
    s->psi = s->logs = pu__part_add(&d, tied_psi ? "beta" : "psi", tied_psi ? 0 : M, 0, PU_SCALE_LOG);
    return pu__parted_make(&d, model);
}

/* Factor analysis: theta = [Phi | eta | log psi]. */
PU_DEF pu_status pu_model_factors(pu_model *model, pu_int M, pu_int D, pu_report *report)
{
    return pu__model_factors(model, M, D, 0, report);
}

/* Probabilistic PCA: theta = [Phi | eta | log beta]. */
PU_DEF pu_status pu_model_ppca(pu_model *model, pu_int M, pu_int D, pu_report *report)
{
    return pu__model_factors(model, M, D, 1, report);
}

/* Bayesian linear regression, or sparse Bayesian learning, which has an alpha for every latent. Phi is borrowed. */
PU__FN pu_status pu__model_regression(pu_model *model, const pu_op *Phi, int sparse, pu_report *report)
{
    pu__draft d;
    pu__parted *s = &d.parted;
    report = pu__draft_begin(&d, model, report);
    if (!Phi)
        return pu__refuse(report, PU_E_NULL, "Phi");
    if (Phi->rows < 1)
        return pu__refuse(report, PU_E_ARGUMENT, "Phi.rows (at least 1)");
    if (Phi->cols < 1)
        return pu__refuse(report, PU_E_ARGUMENT, "Phi.cols (at least 1)");
    if (Phi->work < 0)
        return pu__refuse(report, PU_E_ARGUMENT, "Phi.work (0 or more)");
    pu_status status = pu__check_form_sizes(Phi, &pu__names_Phi, report);
    if (!status)
        status = pu__check_op(Phi, &pu__names_Phi, report);
    if (status)
        return status;
    d.made.name = sparse ? "sparse Bayesian learning" : "Bayesian linear regression";
    s->M = Phi->rows;
    s->D = Phi->cols;
    s->dictionary = Phi;
    s->sparse = sparse;
    return pu__parted_make(&d, model);
}

/* Sparse Bayesian learning: theta = [log alpha, D of them | log beta]. */
PU_DEF pu_status pu_model_sparse(pu_model *model, const pu_op *Phi, pu_report *report)
{
    return pu__model_regression(model, Phi, 1, report);
}

/* Bayesian linear regression: theta = [log alpha | log beta]. */
PU_DEF pu_status pu_model_regression(pu_model *model, const pu_op *Phi, pu_report *report)
{
    return pu__model_regression(model, Phi, 0, report);
}

/* The neural linear model: theta = [W1 | b1 | W2 | b2 | log alpha | log beta], without W2 and b2 where features = 0. */
PU_DEF pu_status pu_model_neural(pu_model *model, pu_int points, pu_int inputs, const pu_real *X, pu_int hidden,
                                 pu_int features, pu_report *report)
{
    pu__draft d;
    pu__parted *s = &d.parted;
    report = pu__draft_begin(&d, model, report);
    if (points < 1)
        return pu__refuse(report, PU_E_ARGUMENT, "points (at least 1)");
    if (inputs < 1)
        return pu__refuse(report, PU_E_ARGUMENT, "inputs (at least 1)");
    if (hidden < 1)
        return pu__refuse(report, PU_E_ARGUMENT, "hidden (at least 1)");
    if (features < 0)
        return pu__refuse(report, PU_E_ARGUMENT, "features (at least 1, or 0 = the hidden ones)");
    if (!X)
        return pu__refuse(report, PU_E_NULL, "X");
    if (inputs > PTRDIFF_MAX / (pu_int)sizeof *X / points)
        return pu__refuse(report, PU_E_OVERFLOW, "X");
    pu_status status = pu__check_array(points * inputs, X, 0, "X", -1, report);
    if (status)
        return status;
    d.made.name = "neural linear model";
    s->M = points;
    s->D = features ? features : hidden;
    s->gain = 0.45 * (double)s->D; /* E tanh(u)^2 for u ~ N(0, 2), which is what the start makes of it */
    s->X = X;
    s->inputs = inputs;
    s->hidden = hidden;
    /* theta */
    pu__part_add(&d, "W1", hidden, inputs, PU_SCALE_FREE);
    pu__part_add(&d, "b1", hidden, 0, PU_SCALE_FREE);
    if (features) {
        s->W2 = pu__part_add(&d, "W2", features, hidden, PU_SCALE_FREE);
        pu__part_add(&d, "b2", features, 0, PU_SCALE_FREE);
    }
    return pu__parted_make(&d, model);
}

/* ---- models of series ---- */

/* The signal's share in the variance c_0. White noise is in c_0 alone, and the variance of an AR(1) is c_1^2 / c_2.
   As a guess that is good enough for any process, if it is kept away from 0 and 1. */
PU__FN double pu__signal_share(const double *c)
{
    return c[2] > 0 ? pu__clamp(c[1] * c[1] / (c[2] * c[0]), 0.5, 0.95) : 0.75;
}

/* ---- noisy autoregression: z an AR, y = z + N(0, lambda) ---- */

/* model.set: theta = [atanh gamma | log kappa | log lambda] -> the process and psi = 1 / lambda. */
PU__FN pu_status pu__noisy_ar_set(PU__SET_ARGS)
{
    pu__parted *s = pu__parted_of(model);
    pu_ar *ar = s->ar;
    pu_real *x = s->x; /* scratch here: gamma, kappa, lambda */
    pu_int P = ar->order;
    for (pu_int i = 0; i < P; i++)
        x[i] = (pu_real)tanh((double)theta[i]);
    for (pu_int i = P; i < P + 2; i++)
        if (!pu__exp(theta[i], x + i))
            return pu__refuse_entry(index, i);
    pu_status status = pu__ar_set(ar, ar->n, P, x, theta, x[P], index); /* its parameters are numbered like theta */
    if (!status)
        pu__fill(s->y, 1 / x[P + 1], ar->n);
    return status;
}

/* model.grad: gradients of gamma, kappa and psi -> gradient of theta. tanh' = 1 - tanh^2, and for psi = 1 / lambda
   d/d log lambda = -psi d/dpsi. */
PU__FN pu_status pu__noisy_ar_grad(PU__MODEL_GRAD_ARGS)
{
    const pu__parted *s = pu__parted_of(model);
    const pu_ar *ar = s->ar;
    pu_int P = ar->order;
    for (pu_int i = 0; i < P; i++)
        grad[i] = (pu_real)((double)g->Gamma[i] * ar->gap[i]);
    grad[P] = g->Gamma[P] * ar->kappa;
    grad[P + 1] = (pu_real)-pu__dot(ar->n, NULL, s->y, g->psi);
    return PU_OK;
}

/* Durbin-Levinson: theta_m = atanh gamma_m, m = 0 .. P-1, of the AR of order P with autocovariances c_1 .. c_P and this
   variance in the place of c_0. Returns the variance of its prediction error.
   *calm = 0 if some |gamma| came out near one or beyond; such a gamma is cut. */
PU__FN double pu__durbin_levinson(pu_int P, const double *c, double variance, pu_real *theta, int *calm)
{
    double phi[PU_AR_MAX + 1] = {0};
    *calm = 1;
    for (pu_int m = 1; m <= P; m++) {
        /* gamma = (c_m - sum_j phi_j c_{m-j}) / error of order m - 1 */
        double gamma = c[m];
        for (pu_int j = 1; j < m; j++)
            gamma -= phi[j] * c[m - j];
        gamma /= variance;
        if (!(fabs(gamma) < 0.9))
            *calm = 0;
        gamma = pu__clamp(gamma, -0.95, 0.95);
        /* phi_j -= gamma phi_{m-j} */
        pu__ar_reflect(m, -gamma, 1, phi);
        phi[m] = gamma;
        variance *= 1 - gamma * gamma;
        *theta++ = (pu_real)(log((1 + gamma) / (1 - gamma)) / 2);
    }
    return variance;
}

/* A start from the autocovariances c: gamma and kappa of the process whose variance is share c_0, and the rest is noise.
   Returns 0 if some |gamma| came out near one or beyond. */
PU__FN int pu__noisy_ar_moments(pu_int P, const double *c, double share, pu_real *theta)
{
    int calm;
    theta[P] = (pu_real)log(pu__durbin_levinson(P, c, share * c[0], theta, &calm));
    theta[P + 1] = (pu_real)log((1 - share) * c[0]);
    return calm;
}

/* pu_fit_options.progress: a fit that needs so many gradients searches in rounding errors. */
PU__FN int pu__noisy_ar_enough(const pu_fit_report *now, void *user)
{
    (void)user;
    return now->gradients > 200;
}

/* model.start. The autocovariances tell little about the share of the noise in the variance. Too much, and the rest is
   hardly a covariance: some |gamma| comes out near one or beyond. So the first start is a guess, of whose noise half is
   given back to the signal, a few times. But the likelihood may have a maximum with much noise and another with little:
   fits are run from that guess and from other shares, on at most a hundred thousand entries, and the share whose fit
   ends best is it. Not that end, which may be extreme where data are few. Without memory for that, or with a block of
   the caller's, the guess has to do. */
PU__FN pu_status pu__noisy_ar_start(PU__START_ARGS)
{
    enum { ENTRIES = 100000, STARTS = 5 };
    pu__parted *s = pu__parted_of(model);
    pu_int P = model->params - 2, length = data->kind == PU_DATA_LISTS ? data->m : pu__min(data->m, ENTRIES);
    double c[PU_AR_MAX + 1], share[STARTS] = {0, 0.97, 0.8, 0.45, 0.1};
    pu_real tried[PU_AR_MAX + 2];
    pu_model trial = PU__ZERO;
    pu_data few = *data;
    pu_fit_options options = PU__ZERO;
    pu_fit_report fit;
    pu__text told = {s->told, 0, sizeof s->told};
    pu_int starts = 0, gradients = 0;
    double lowest = HUGE_VAL, highest = -HUGE_VAL;
    pu__autocovariances(data, pu__most(P, 2), c);
    share[0] = pu__signal_share(c);
    for (int tries = 0; tries < 6 && !pu__noisy_ar_moments(P, c, share[0], theta); tries++)
        share[0] = (1 + share[0]) / 2;
    s->told[0] = 0;
    options.progress = pu__noisy_ar_enough;
    /* one engine: a search for the last digits by others would cost more than a start is worth */
    options.optimizer = PU_LBFGS;
    options.gradient.kind = PU_EXACT;
    options.gradient.engine = PU_BANDED;
    trial.memory.allocator = model->memory.allocator;
    few.ldy = data->ldy ? data->ldy : data->m;
    few.m = length;
    few.n = pu__most(1, pu__min(few.n, ENTRIES / length));
    if (model->memory.fixed || pu_model_noisy_ar(&trial, length, P, NULL))
        return PU_OK;
    for (int i = 0; i < STARTS; i++) {
        /* The guess, and what is not near it. */
        if (i > 0 && fabs(log((1 - share[i]) / (1 - share[0]))) < 0.7)
            continue;
        pu__noisy_ar_moments(P, c, share[i], tried);
        if (pu__fatal(pu_fit(&trial, &few, &options, NULL, tried, &fit)) || fit.best_step < 0)
            continue;
        starts++;
        gradients += fit.gradients;
        highest = pu__max(highest, fit.best);
        if (fit.best < lowest) {
            lowest = fit.best;
            pu__noisy_ar_moments(P, c, share[i], theta);
        }
    }
    pu_model_free(&trial);
    if (!starts)
        return PU_OK;
    pu__put_number(&told, "the best of ", starts);
    pu__put_real(&told, " starts, whose fits reach an NLL of ", lowest);
    pu__put_real(&told, " to ", highest);
    pu__put_number(&told, ", gradients: ", gradients);
    return PU_OK;
}

/* The process of a model whose Gamma is an AR, else NULL. */
PU_DEF const pu_ar *pu_model_get_ar(const pu_model *model)
{
    return model && model->Gamma.form == PU_FORM_AR ? (const pu_ar *)model->Gamma.data : NULL;
}

/* Noisy autoregression: theta = [atanh gamma | log kappa | log lambda]. White noise of variance one until it is set. */
PU_DEF pu_status pu_model_noisy_ar(pu_model *model, pu_int n, pu_int order, pu_report *report)
{
    pu__draft d;
    pu__parted *s = &d.parted;
    report = pu__draft_begin(&d, model, report);
    if (n < 1)
        return pu__refuse(report, PU_E_ARGUMENT, "n (at least 1)");
    if (order < 0 || order > pu__min(n, PU_AR_MAX))
        return pu__beyond(report, "order (0 or more, at most n and PU_AR_MAX)", pu__min(n, PU_AR_MAX));
    d.made.name = "noisy autoregression";
    s->M = n;
    s->tied_psi = 1;
    /* theta */
    if (order)
        pu__part_add(&d, "gamma", order, 0, PU_SCALE_ATANH);
    pu__part_add(&d, "kappa", 0, 0, PU_SCALE_LOG);
    pu__part_add(&d, "lambda", 0, 0, PU_SCALE_LOG);
    pu_status status = pu__draft_open(&d, model);
    if (status)
        return status;
    s = pu__parted_of(model);
    pu_ar_set(s->ar, n, order, s->x, 1, NULL); /* x is zero */
    model->Gamma = pu_op_ar(s->ar);
    model->Phi = pu_op_identity(n);
    model->set = pu__noisy_ar_set;
    model->grad = pu__noisy_ar_grad;
    model->start = pu__noisy_ar_start;
    model->told = s->told;
    pu__model_link(model);
    return PU_OK;
}

/* ---- state space: z_t = A z_{t-1} + N(0, Q), y_t = c'z_t + N(0, sigma2) ---- */

/* theta: a lower triangle, row by row, its diagonal as log -> L and C = L L', S x S both.
   Returns the entry of theta whose exp is 0 or infinite, or -1. */
PU__FN pu_int pu__triangle_set(pu_int S, const pu_real *theta, double *L, pu_real *C)
{
    pu_int at = 0;
    pu_real unused;
    memset(L, 0, (size_t)(S * S) * sizeof *L);
    for (pu_int i = 0; i < S; i++)
        for (pu_int j = 0; j <= i; j++) {
            double sum = 0, entry = (double)theta[at];
            if (i == j && !pu__exp(theta[at], &unused))
                return at;
            L[i * S + j] = i == j ? exp(entry) : entry;
            /* Rows up to i are complete as far as C_ij needs them. */
            for (pu_int l = 0; l <= j; l++)
                sum += L[i * S + l] * L[j * S + l];
            C[i * S + j] = C[j * S + i] = (pu_real)sum;
            at++;
        }
    return -1;
}

/* The reverse of pu__triangle_set: from G = d/dC, symmetric, to grad, the lower triangle row by row.
   dC = dL L' + L dL', so d/dL = 2 G L. Times L_ii on the diagonal, for its log. */
PU__FN void pu__triangle_grad(pu_int S, const double *L, const pu_real *G, pu_real *grad)
{
    for (pu_int i = 0; i < S; i++)
        for (pu_int j = 0; j <= i; j++) {
            /* L_lj = 0 for l < j */
            double sum = 0;
            for (pu_int l = j; l < S; l++)
                sum += 2 * (double)G[i * S + l] * L[l * S + j];
            if (i == j)
                sum *= L[i * S + i];
            *grad++ = (pu_real)sum;
        }
}

/* model.set: theta = [A | c | L | log sigma2], for a given start followed by [m0 | L0] -> the process, c, psi and nu.
   A refused theta leaves the model as it was. */
PU__FN pu_status pu__state_space_set(PU__SET_ARGS)
{
    pu__parted *s = pu__parted_of(model);
    pu__process *next = s->process + 1;
    const pu_ssm *now = &s->process->ssm;
    pu_int S = s->states, SS = S * S;
    int given = s->given;
    /* Q and P0 */
    pu_real C[2][PU__SSM_SQUARE], sigma2;
    pu_int i;
    /* All that can be refused comes first, */
    if (!pu__exp(theta[s->sigma2], &sigma2))
        return pu__refuse_entry(index, s->sigma2);
    for (int t = 0; t <= given; t++) {
        i = pu__triangle_set(S, theta + s->L[t], next->L[t], C[t]);
        if (i >= 0)
            return pu__refuse_entry(index, s->L[t] + i);
    }
    pu_status status = pu_ssm_set(&next->ssm, now->steps, S, theta, C[0], now->start, given ? C[1] : NULL, &i);
    if (status) {
        /* Entry (r, c) of Q or P0 comes from row r of its triangle: name the last entry of that row. */
        pu_int row = i % SS / S;
        *index = i < SS ? i : s->L[i / SS - 1] + row * (row + 3) / 2;
        return status;
    }
    /* then the model changes. */
    *s->process = *next;
    pu__copy(s->readout, theta + s->c, S);
    pu__fill(s->y, 1 / sigma2, now->steps);
    return given ? pu_ssm_mean(now, theta + s->m0, s->nu) : PU_OK;
}

/* model.grad: gradients of A, Q, P0, c, psi and nu -> gradient of theta. That of nu adds to the one of A. */
PU__FN pu_status pu__state_space_grad(PU__MODEL_GRAD_ARGS)
{
    const pu__parted *s = pu__parted_of(model);
    const pu_ssm *ssm = &s->process->ssm;
    pu_int S = s->states, SS = S * S;
    /* Gamma's parameters are A, Q, P0. */
    pu__copy(grad, g->Gamma, SS);
    pu__copy(grad + s->c, g->Phi, S);
    grad[s->sigma2] = (pu_real)-pu__dot(ssm->steps, NULL, s->y, g->psi);
    for (int t = 0; t <= s->given; t++)
        pu__triangle_grad(S, s->process->L[t], g->Gamma + (t + 1) * SS, grad + s->L[t]);
    if (!s->given)
        return PU_OK;
    pu__zeros(grad + s->m0, S);
    return pu_ssm_mean_grad(ssm, s->nu, g->nu, grad, grad + s->m0);
}

/* model.start: S independent states of variance one with equal shares in the signal. Their rates are r^e, where r is
   the signal's autocorrelation at lag one, and e is spread evenly over (0, 2).
   The rates differ, since equal states would stay equal in training. */
PU__FN pu_status pu__state_space_start(PU__START_ARGS)
{
    const pu__parted *s = pu__parted_of(model);
    pu_int S = s->states;
    double c[3], share, signal, r;
    pu__autocovariances(data, 2, c);
    share = pu__signal_share(c);
    signal = share * c[0];
    r = pu__clamp(fabs(c[1]) / signal, 0.1, 0.9);
    pu__zeros(theta, model->params); /* m0 = 0, P0 = I */
    for (pu_int i = 0; i < S; i++) {
        /* A_ii = +-rate, Q_ii = 1 - rate^2: variance one */
        double rate = pow(r, 2 * (double)(i + 1) / (double)(S + 1));
        theta[i * S + i] = (pu_real)(c[1] < 0 ? -rate : rate);
        theta[s->c + i] = (pu_real)sqrt(signal / (double)S);
        theta[s->L[0] + i * (i + 3) / 2] = (pu_real)(log((1 - rate) * (1 + rate)) / 2);
    }
    theta[s->sigma2] = (pu_real)log((1 - share) * c[0]);
    return PU_OK;
}

/* The process of a model whose Gamma is a state space, else NULL. */
PU_DEF const pu_ssm *pu_model_get_ssm(const pu_model *model)
{
    return model && model->Gamma.form == PU_FORM_STATES ? (const pu_ssm *)model->Gamma.data : NULL;
}

/* State space: theta = [A | c | L | log sigma2], for a given start followed by [m0 | L0].
   Until it is set the process has sizes only. */
PU_DEF pu_status pu_model_state_space(pu_model *model, pu_int steps, pu_int states, pu_ssm_start start,
                                      pu_report *report)
{
    pu_int S = states;
    int given = start == PU_SSM_GIVEN;
    pu__draft d;
    pu__parted *s = &d.parted;
    report = pu__draft_begin(&d, model, report);
    if (steps < 1)
        return pu__refuse(report, PU_E_ARGUMENT, "steps (at least 1)");
    if (S < 1 || S > PU_SSM_MAX)
        return pu__beyond(report, "states (at least 1, at most PU_SSM_MAX)", PU_SSM_MAX);
    pu_status status = pu__ssm_sizes(steps, S, start);
    if (status)
        return pu__refuse(report, status, status == PU_E_OVERFLOW ? "steps" : "start (PU_SSM_ZERO, _STATIONARY or _GIVEN)");
    d.made.name = "state space";
    s->M = steps;
    s->D = steps * S;
    s->states = S;
    s->tied_psi = 1;
    s->given = given;
    /* theta */
    pu__part_add(&d, "A", S, S, PU_SCALE_FREE);
    s->c = pu__part_add(&d, "c", S, 0, PU_SCALE_FREE);
    s->L[0] = pu__part_add(&d, "L", S, -1, PU_SCALE_LOG);
    s->sigma2 = pu__part_add(&d, "sigma2", 0, 0, PU_SCALE_LOG);
    if (given) {
        s->m0 = pu__part_add(&d, "m0", S, 0, PU_SCALE_FREE);
        s->L[1] = pu__part_add(&d, "L0", S, -1, PU_SCALE_LOG);
    }
    status = pu__draft_open(&d, model);
    if (status)
        return status;
    s = pu__parted_of(model);
    pu_ssm *ssm = &s->process->ssm;
    ssm->steps = steps;
    ssm->states = S;
    ssm->start = start;
    model->tied_psi = 0; /* its gradient is not summed on the way, as it could be */
    model->uses |= PU_USES_PHI;
    if (given) {
        model->uses |= PU_USES_NU;
        model->lgm.nu = s->nu;
    }
    model->Gamma = pu_op_ssm(ssm);
    model->Phi = pu_op_readout(steps, S, s->readout);
    model->set = pu__state_space_set;
    model->grad = pu__state_space_grad;
    model->start = pu__state_space_start;
    pu__model_link(model);
    return PU_OK;
}

/* ------------------------------------------------------------------------------------------------
   >>structural   series by components: y_t = sum of parts + N(0, var.irregular), each part a few states of a chain
   ------------------------------------------------------------------------------------------------ */

/* A part in its place. */
typedef struct {
    pu_part part;
    pu_int number;                        /* of parts of its name before it */
    pu_int state, states;                 /* first and number of states, */
    pu_int shock, shocks, start, starts;  /* shocks, shocks of the start (none: diffuse), */
    pu_int at, params;                    /* and entries of theta */
    double F[9], B[9], B0[9];             /* of a Matern part: states x states, for variance one */
    double A[9], v[3];                    /* its generator; e^(A x) applied to the noise's column; see pu__matern_set */
    pu_ar *ar;                            /* of an autoregression */
} pu__component;

/* Data of a structural model. */
typedef struct {
    pu_int T, S, count;
    pu__component *parts;
    pu__chain chain;
    pu_ar *ars;     /* of those parts that are autoregressions */
    double *sums;   /* the chain's gradient, in double */
    pu_real *each;  /* count x S: what y sees of every part */
    pu_real *c;     /* S: their sum */
    pu_real *psi;   /* T */
    pu_real *theta; /* of the last set */
    pu_real *moved; /* params: scratch of the start */
} pu__structure;

PU__FN pu__structure *pu__structure_of(const pu_model *model) { return (pu__structure *)model->data; }

/* States of a part, 0 when there is no such part. */
PU__FN pu_int pu__part_states(const pu_part *p)
{
    switch (p->kind) {
    case PU_PART_LEVEL:
    case PU_PART_SLOPE:
    case PU_PART_MATERN12: return 1;
    case PU_PART_CYCLE:
    case PU_PART_MATERN32: return 2;
    case PU_PART_MATERN52: return 3;
    case PU_PART_SEASON:
    case PU_PART_SEASON_TRIG: return p->size - 1;
    case PU_PART_AR: return p->size;
    }
    return 0;
}

/* Its name in parameters. */
PU__FN const char *pu__part_name(pu_part_kind kind)
{
    switch (kind) {
    case PU_PART_LEVEL: return "level";
    case PU_PART_SLOPE: return "slope";
    case PU_PART_SEASON:
    case PU_PART_SEASON_TRIG: return "season";
    case PU_PART_CYCLE: return "cycle";
    case PU_PART_AR: return "ar";
    default: return "matern";
    }
}

/* Is it one of the Matern parts? Then this many states, else 0. */
PU__FN pu_int pu__part_smooth(pu_part_kind kind)
{
    return kind >= PU_PART_MATERN12 ? (pu_int)kind - (pu_int)PU_PART_MATERN12 + 1 : 0;
}

/* Fills in how many shocks and parameters a part has. */
PU__FN void pu__component_size(pu__component *c)
{
    const pu_part *p = &c->part;
    int moves = !p->constant;
    c->states = pu__part_states(p);
    switch (p->kind) {
    case PU_PART_LEVEL:
    case PU_PART_SLOPE:
    case PU_PART_SEASON:
        c->shocks = moves;
        c->params = moves;
        return;
    case PU_PART_SEASON_TRIG:
        c->shocks = moves ? c->states : 0;
        c->params = moves;
        return;
    case PU_PART_AR:
        c->shocks = 1;
        c->params = c->states + 1;
        break;
    case PU_PART_CYCLE:
        c->shocks = 2;
        c->params = 3;
        break;
    default:
        c->shocks = c->states;
        c->params = 2;
    }
    c->starts = c->states;
}

/* ---- the parts' matrices ---- */

/* Appends an entry to the row at hand of a matrix that is being written row by row. */
PU__FN void pu__sparse_put(pu__sparse_rows *M, pu_int row, pu_int col, double value)
{
    pu_int at = M->start[row + 1]++;
    M->col[at] = col;
    M->value[at] = value;
}

/* The integral of u^k e^(-2u) from 0 to x, to full relative precision: a series of positive terms where x is small. */
PU__FN double pu__gamma_integral(int k, double x)
{
    double y = 2 * x, sum = 1, term = 1, left = exp(-y), factor = 1;
    if (y < 8) {
        for (int m = 1; m < 200 && term > DBL_EPSILON / 8 * sum; m++) {
            term *= y / (double)(k + 1 + m);
            sum += term;
        }
        return left * pow(x, k + 1) * sum / (double)(k + 1);
    }
    /* k! / 2^(k+1) (1 - e^-y sum_{j <= k} y^j / j!) */
    for (int j = 1; j <= k; j++) {
        term *= y / (double)j;
        sum += term;
        factor *= (double)j / 2;
    }
    return factor / 2 * (1 - left * sum);
}

/* A Matern process of p - 1/2 in the states f, f'/l, f''/l^2, l = (2 p - 1)^1/2 / length, over a step of x = l times the grid's:
   with the generator A, whose only eigenvalue is -1,
     F = e^(A x),   Q = q int_0^x v(u) v(u)' du,   v(u) = e^(A u) e_p,
   P0 its limit for x -> infinity, all for variance one. v is a polynomial times e^-u, so Q is made of pu__gamma_integral: as
   P0 - F P0 F' it would be a small difference where x is small. B, B0: lower Cholesky factors. Returns whether these exist. */
PU__FN int pu__matern_set(pu__component *c, double x)
{
    static const double generator[3][9] = {{-1}, {0, 1, -1, -2}, {0, 1, 0, 0, 0, 1, -1, -3, -3}};
    static const double polynomial[3][9] = {{1}, {0, 1, 1, -1}, {0, 0, 0.5, 0, 1, -0.5, 1, -2, 0.5}};
    static const double limit[3][9] = {
        {1}, {1, 0, 0, 1}, {1, 0, -1.0 / 3, 0, 1.0 / 3, 0, -1.0 / 3, 0, 1}};
    static const double density[3] = {2, 4, 16.0 / 3};
    pu_int p = c->states, SS = p * p;
    const double *v = polynomial[p - 1];
    double power[9], N[9], scale = exp(-x), logdet = 0;
    memcpy(c->A, generator[p - 1], sizeof c->A);
    memcpy(c->B0, limit[p - 1], sizeof c->B0);
    /* e^(A x) = e^-x sum_k (A + I)^k x^k / k!, which ends: A + I is nilpotent */
    for (pu_int i = 0; i < SS; i++) {
        N[i] = c->A[i] + (i % (p + 1) == 0);
        power[i] = i % (p + 1) == 0 ? scale : 0;
        c->F[i] = power[i];
    }
    for (pu_int k = 1; k < p; k++) {
        pu__ssm_mul(p, power, 0, N, 0, power);
        for (pu_int i = 0; i < SS; i++) {
            power[i] *= x / (double)k;
            c->F[i] += power[i];
        }
    }
    for (pu_int i = 0; i < p; i++) {
        c->v[i] = sqrt(density[p - 1]) * c->F[i * p + p - 1];
        for (pu_int j = 0; j < p; j++) {
            double sum = 0;
            for (pu_int k = 0; k < p; k++)
                for (pu_int l = 0; l < p; l++)
                    sum += v[i * p + k] * v[j * p + l] * pu__gamma_integral((int)(k + l), x);
            c->B[i * p + j] = j <= i ? density[p - 1] * sum : 0;
            c->B0[i * p + j] *= j <= i;
        }
    }
    return pu__cholesky_double(p, c->B, &logdet) < 0 && pu__cholesky_double(p, c->B0, &logdet) < 0;
}

/* The harmonic that state i of a trigonometric season belongs to, as an angle. */
PU__FN double pu__season_angle(const pu__component *c, pu_int i)
{
    return 2 * PU__PI * (double)(i / 2 + 1) / (double)c->part.size;
}

/* Rows of F of a part: those of state i. x: its parameters in their natural values. */
PU__FN void pu__component_F(const pu__component *c, pu_int i, const double *x, pu__sparse_rows *F)
{
    pu_int at = c->state, row = at + i;
    double angle, rho = 1;
    switch (c->part.kind) {
    case PU_PART_LEVEL:
    case PU_PART_SLOPE: pu__sparse_put(F, row, row, 1); return;
    case PU_PART_SEASON:
        for (pu_int j = 0; i == 0 && j < c->states; j++)
            pu__sparse_put(F, row, at + j, -1);
        if (i > 0)
            pu__sparse_put(F, row, row - 1, 1);
        return;
    case PU_PART_AR:
        for (pu_int j = 0; i == 0 && j < c->states; j++)
            pu__sparse_put(F, row, at + j, (double)c->ar->phi[j]);
        if (i > 0)
            pu__sparse_put(F, row, row - 1, 1);
        return;
    case PU_PART_SEASON_TRIG:
    case PU_PART_CYCLE:
        angle = pu__season_angle(c, i);
        if (c->part.kind == PU_PART_CYCLE) {
            rho = x[1];
            angle = x[2];
        }
        if (i % 2 == 1)
            pu__sparse_put(F, row, row - 1, -rho * sin(angle));
        if (i + 1 == c->states && i % 2 == 0)
            pu__sparse_put(F, row, row, -1); /* the last harmonic of an even period: cos pi */
        else
            pu__sparse_put(F, row, row, rho * cos(angle));
        if (i % 2 == 0 && i + 1 < c->states)
            pu__sparse_put(F, row, row + 1, rho * sin(angle));
        return;
    default:
        for (pu_int j = 0; j < c->states; j++)
            pu__sparse_put(F, row, at + j, c->F[i * c->states + j]);
    }
}

/* And rows of B, and of B0, which has r0 columns. */
PU__FN void pu__component_B(const pu__component *c, pu_int i, const double *x, pu__chain *chain)
{
    pu_int p = c->states, row = c->state + i;
    int smooth = pu__part_smooth(c->part.kind) > 0, ar = c->part.kind == PU_PART_AR;
    double scale = c->shocks ? sqrt(x[ar ? p : 0]) : 0, *start = chain->B0 + row * chain->r0 + c->start;
    for (pu_int j = 0; smooth && j <= i; j++) {
        pu__sparse_put(&chain->B, row, c->shock + j, scale * c->B[i * p + j]);
        start[j] = scale * c->B0[i * p + j];
    }
    if (!smooth && i < c->shocks)
        pu__sparse_put(&chain->B, row, c->shock + i, scale);
    if (c->part.kind == PU_PART_CYCLE)
        start[i] = scale / sqrt((1 - x[1]) * (1 + x[1]));
}

/* P0's factor of an autoregression: see pu__markov_of_ar. */
PU__FN void pu__component_ar_start(const pu__component *c, pu__chain *chain)
{
    double a[PU_AR_MAX + 1], s[PU_AR_MAX + 1];
    pu__ar_spread(c->ar, s);
    for (pu_int t = 0; t < c->states; t++) {
        double *row = chain->B0 + (c->state + t) * chain->r0 + c->start;
        memset(row, 0, (size_t)c->states * sizeof *row);
        pu__ar_grow(c->ar, t, a);
        for (pu_int j = 1; j <= t; j++)
            for (pu_int i = 0; i <= t - j; i++)
                row[i] -= a[j] * row[i - j * chain->r0];
        row[t] = sqrt((double)c->ar->kappa / s[t]);
    }
}

/* What entry i of a part's theta is. */
PU__FN void pu__component_describe(const pu__component *c, pu_int i, pu_param *param)
{
    pu__text text = {param->name, 0, sizeof param->name};
    int ar = c->part.kind == PU_PART_AR, smooth = pu__part_smooth(c->part.kind) > 0;
    const char *what = "var";
    param->scale = PU_SCALE_LOG;
    if (ar && i < c->states) {
        what = "gamma";
        param->scale = PU_SCALE_ATANH;
    } else if (smooth && i == 1)
        what = "length";
    else if (i > 0 && !ar) {
        what = i == 1 ? "rho" : "frequency";
        param->scale = PU_SCALE_LOGIT;
    }
    pu__put(&text, what);
    pu__put(&text, ".");
    pu__put(&text, pu__part_name(c->part.kind));
    if (c->number > 0)
        pu__put_number(&text, "", c->number + 1);
    if (ar && i < c->states) {
        pu__put_number(&text, "[", i);
        pu__put(&text, "]");
    }
    param->lower = 0;
    param->upper = param->scale == PU_SCALE_LOG ? HUGE_VAL : 1;
    if (param->scale == PU_SCALE_ATANH)
        param->lower = -1;
    if (what[0] == 'f')
        param->upper = PU__PI;
}

/* model.describe. */
PU__FN void pu__structure_describe(const pu_model *model, pu_int i, pu_param *param)
{
    const pu__structure *s = pu__structure_of(model);
    const pu__component *c = s->parts;
    if (i == model->params - 1) {
        pu__describe(param, "var.irregular", -1, -1, PU_SCALE_LOG);
        return;
    }
    while (i >= c->at + c->params)
        c++;
    pu__component_describe(c, i - c->at, param);
}

/* The natural values x of a part's theta. Returns the entry at which there is none, or -1. */
PU__FN pu_int pu__component_natural(const pu__component *c, const pu_real *theta, double *x)
{
    for (pu_int i = 0; i < c->params; i++) {
        pu_param param = PU__ZERO;
        pu_real unused;
        pu__component_describe(c, i, &param);
        x[i] = pu_param_natural(&param, (double)theta[c->at + i]);
        if (param.scale == PU_SCALE_LOG ? !pu__exp(theta[c->at + i], &unused) : !(x[i] > param.lower && x[i] < param.upper))
            return i;
    }
    return -1;
}

/* model.set: theta -> F, B, B0 and psi. All that can be refused comes first. */
PU__FN pu_status pu__structure_set(PU__SET_ARGS)
{
    pu__structure *s = pu__structure_of(model);
    pu__chain *chain = &s->chain;
    double x[PU_AR_MAX + 2];
    pu_real sigma2;
    if (!pu__exp(theta[model->params - 1], &sigma2))
        return pu__refuse_entry(index, model->params - 1);
    for (int write = 0; write < 2; write++)
        for (pu_int n = 0; n < s->count; n++) {
            pu__component *c = s->parts + n;
            pu_int smooth = pu__part_smooth(c->part.kind), bad = pu__component_natural(c, theta, x);
            if (bad >= 0)
                return pu__refuse_entry(index, c->at + bad);
            if (!write && c->ar) {
                pu_real gamma[PU_AR_MAX];
                pu_status status;
                for (pu_int i = 0; i < c->states; i++)
                    gamma[i] = (pu_real)x[i];
                status = pu__ar_set(c->ar, pu__most(s->T, c->states), c->states, gamma, theta + c->at, (pu_real)x[c->states], index);
                if (status) {
                    *index += c->at;
                    return status;
                }
            }
            if (!write && smooth && !pu__matern_set(c, sqrt((double)(2 * smooth - 1)) * c->part.step / x[1]))
                return pu__refuse_entry(index, c->at + 1);
            for (pu_int i = 0; write && i < c->states; i++) {
                pu_int row = c->state + i;
                chain->F.start[row + 1] = chain->F.start[row];
                chain->B.start[row + 1] = chain->B.start[row];
                pu__component_F(c, i, x, &chain->F);
                if (c->part.kind == PU_PART_LEVEL && n + 1 < s->count && c[1].part.kind == PU_PART_SLOPE)
                    pu__sparse_put(&chain->F, row, row + 1, 1);
                pu__component_B(c, i, x, chain);
            }
            if (write && c->ar)
                pu__component_ar_start(c, chain);
        }
    pu__copy(s->theta, theta, model->params);
    pu__fill(s->psi, 1 / sigma2, s->T);
    return PU_OK;
}

/* ---- gradients ---- */

/* Back through an autoregression: from those of phi and of B0 = X^-1, X the first rows of the filter, to gamma's. With
   K0 = -dX B0 the latter is -G B0' for X, in whose row t is (s_t / kappa)^1/2 a^(t). */
PU__FN void pu__component_ar_grad(const pu__component *c, const pu__chain *chain, const double *Delta, const double *K0,
                                  pu_real *grad)
{
    double abar[PU__AR_TRIANGLE], value[PU_AR_MAX + 1] = {0}, a[PU_AR_MAX + 1], s[PU_AR_MAX + 1];
    pu_int P = c->states, r0 = chain->r0;
    double kappa = (double)c->ar->kappa;
    pu_real out[PU_AR_MAX + 1] = {0};
    memset(abar, 0, sizeof abar);
    pu__ar_spread(c->ar, s);
    for (pu_int t = 0; t < P; t++) {
        double root = sqrt(s[t] / kappa);
        const double *G = K0 + (c->start + t) * r0 + c->start;
        pu__ar_grow(c->ar, t, a);
        for (pu_int j = 0; j <= t; j++) {
            const double *B0 = chain->B0 + (c->state + t - j) * r0 + c->start;
            double bar = -pu__ssm_dot(P, G, B0);
            abar[pu__ar_row(t) + j] = kappa * root * bar;
            value[t] += kappa * root * a[j] * bar / 2;
        }
    }
    for (pu_int j = 0; j < P; j++)
        abar[pu__ar_row(P) + j + 1] = -kappa * Delta[c->shock * chain->S + c->state + j] / sqrt(kappa);
    pu__ar_pull(c->ar, abar, value, out);
    for (pu_int i = 0; i < P; i++)
        grad[i] = (pu_real)((double)out[i] * c->ar->gap[i]);
}

/* Back through a Matern part to the logarithm of its length, x d/dx of which is -1:
     dF = A F dx, so Delta = B^-1 A F;   dQ = v v'dx, so K is the lower half of B^-1 v (B^-1 v)' */
PU__FN double pu__component_matern_grad(const pu__component *c, const pu__chain *chain, double scale, double x,
                                        const double *Delta, const double *K)
{
    pu_int p = c->states;
    double AF[9], u[3], sum = 0;
    pu__ssm_mul(p, c->A, 0, c->F, 0, AF);
    memcpy(u, c->v, sizeof u);
    for (pu_int i = 0; i < p; i++) {
        const double *B = c->B + i * p;
        for (pu_int l = 0; l < i; l++) {
            u[i] -= B[l] * u[l];
            for (pu_int j = 0; j < p; j++)
                AF[i * p + j] -= B[l] * AF[l * p + j];
        }
        u[i] /= B[i];
        for (pu_int j = 0; j < p; j++)
            AF[i * p + j] /= B[i];
    }
    for (pu_int i = 0; i < p; i++)
        for (pu_int j = 0; j < p; j++) {
            sum += Delta[(c->shock + i) * chain->S + c->state + j] * AF[i * p + j] / scale;
            if (j <= i)
                sum += K[(c->shock + i) * chain->r + c->shock + j] * u[i] * u[j] * (i == j ? 0.5 : 1);
        }
    return -x * sum;
}

/* The gradient of a part's theta from those of the chain's parameters. x: natural values. */
PU__FN void pu__component_grad(const pu__component *c, const pu__chain *chain, const double *x, const double *sums, pu_real *grad)
{
    const double *Delta = sums, *K = Delta + chain->r * chain->S, *K0 = K + chain->r * chain->r;
    pu_int smooth = pu__part_smooth(c->part.kind), p = c->states;
    int ar = c->part.kind == PU_PART_AR;
    double variance = 0, start = 0;
    if (c->params == 0)
        return;
    for (pu_int i = 0; i < c->shocks; i++)
        variance += K[(c->shock + i) * (chain->r + 1)] / 2;
    for (pu_int i = 0; i < c->starts; i++)
        start += K0[(c->start + i) * (chain->r0 + 1)] / 2;
    grad[ar ? p : 0] = (pu_real)(variance + start);
    if (ar)
        pu__component_ar_grad(c, chain, Delta, K0, grad);
    else if (smooth)
        grad[1] = (pu_real)pu__component_matern_grad(c, chain, sqrt(x[0]), sqrt((double)(2 * smooth - 1)) * c->part.step / x[1],
                                                     Delta, K);
    else if (c->part.kind == PU_PART_CYCLE) {
        const double *D0 = Delta + c->shock * chain->S + c->state, *D1 = D0 + chain->S;
        double scale = sqrt(x[0]), cosine = cos(x[2]), sine = sin(x[2]);
        double rho = (D0[0] * cosine + D0[1] * sine - D1[0] * sine + D1[1] * cosine) / scale;
        double angle = x[1] * (-D0[0] * sine + D0[1] * cosine - D1[0] * cosine - D1[1] * sine) / scale;
        rho += 2 * start * x[1] / ((1 - x[1]) * (1 + x[1]));
        grad[1] = (pu_real)(rho * x[1] * (1 - x[1]));
        grad[2] = (pu_real)(angle * x[2] * (1 - x[2] / PU__PI));
    }
}

/* model.grad. */
PU__FN pu_status pu__structure_grad(PU__MODEL_GRAD_ARGS)
{
    const pu__structure *s = pu__structure_of(model);
    double x[PU_AR_MAX + 2], *sums = s->sums;
    pu__ssm_widen(model->Gamma.params, g->Gamma, sums);
    for (pu_int n = 0; n < s->count; n++) {
        const pu__component *c = s->parts + n;
        (void)pu__component_natural(c, s->theta, x);
        pu__component_grad(c, &s->chain, x, sums, grad + c->at);
    }
    grad[model->params - 1] = (pu_real)-pu__dot(s->T, NULL, s->psi, g->psi);
    return PU_OK;
}

/* ---- start, layout, constructor ---- */

/* The mean square of y_t - y_{t-lag} over the pairs that are observed, about; 0 where there is none. */
PU__FN double pu__lag_square(const pu_data *data, pu_int lag)
{
    double sum = 0, count = 0;
    for (pu_int n = 0; n < data->n; n++) {
        pu_int at, to = 0, t = 0, u = 0;
        pu_real y = 0, later = 0;
        for (at = 0; (at = pu__observed(data, n, at, &t, &y)) >= 0; at++) {
            to = pu__most(to, at);
            while ((to = pu__observed(data, n, to, &u, &later)) >= 0 && u < t + lag)
                to++;
            if (to < 0)
                break;
            if (u == t + lag) {
                double off = (double)later - (double)y;
                sum += off * off;
                count += 1;
            }
        }
    }
    return count > 0 ? sum / count : 0;
}

/* model.start: half of what a step (or a season) changes is noise; the level has a part of the rest, slope and season, which
   move slowly, much less. Another seed than 0 moves all logarithms. */
PU__FN pu_status pu__structure_start(PU__START_ARGS)
{
    const pu__structure *s = pu__structure_of(model);
    pu_int lag = 1;
    double change, c0[1];
    pu__autocovariances(data, 0, c0);
    for (pu_int n = 0; n < s->count; n++)
        if (s->parts[n].part.kind == PU_PART_SEASON || s->parts[n].part.kind == PU_PART_SEASON_TRIG)
            lag = s->parts[n].part.size;
    change = pu__positive_or(pu__lag_square(data, lag), c0[0]);
    for (pu_int n = 0; n < s->count; n++) {
        const pu__component *c = s->parts + n;
        double share = 0.2;
        if (c->part.kind == PU_PART_SLOPE || c->part.kind == PU_PART_SEASON)
            share = 0.01;
        if (c->part.kind == PU_PART_SEASON_TRIG)
            share = 0.01 / (double)c->states;
        for (pu_int i = 0; i < c->params; i++)
            theta[c->at + i] = 0; /* gamma = 0, rho = 1/2 */
        if (c->part.kind == PU_PART_AR)
            theta[c->at] = (pu_real)0.5;
        if (c->part.kind == PU_PART_CYCLE) {
            theta[c->at + 1] = (pu_real)2;
            theta[c->at + 2] = (pu_real)-2;
        }
        if (pu__part_smooth(c->part.kind)) {
            share = 1;
            theta[c->at + 1] = (pu_real)log(c->part.step * pu__clamp((double)s->T / 10, 2, 100));
        }
        if (c->params)
            theta[c->at + (c->part.kind == PU_PART_AR ? c->states : 0)] = (pu_real)log(share * change);
    }
    theta[model->params - 1] = (pu_real)log(0.3 * change);
    if (seed) {
        pu_real *moved = s->moved;
        pu__start_normals(seed, 0, 1, model->params, 1, moved);
        for (pu_int i = 0; i < model->params; i++)
            theta[i] += moved[i];
    }
    return PU_OK;
}

/* A structural model while it is being made. */
typedef struct {
    pu_model made;
    pu__structure s;
    const pu_part *given;
    pu_int entries_F, entries_B, ars;
    pu__call call;
} pu__structural_draft;

/* Its arrays. */
PU__FN void pu__structural_layout(void *self, pu__arena *arena)
{
    pu__structural_draft *d = (pu__structural_draft *)self;
    pu__structure *s = &d->s;
    pu__chain *c = &s->chain;
    d->made.data = pu__take(arena, 1, 1, sizeof *s);
    s->parts = (pu__component *)pu__take(arena, s->count, 1, sizeof *s->parts);
    s->ars = (pu_ar *)pu__take(arena, d->ars, 1, sizeof *s->ars);
    c->F.start = pu__indices(arena, c->S + 1);
    c->F.col = pu__indices(arena, d->entries_F);
    c->F.value = pu__doubles(arena, d->entries_F, 1);
    c->B.start = pu__indices(arena, c->S + 1);
    c->B.col = pu__indices(arena, d->entries_B);
    c->B.value = pu__doubles(arena, d->entries_B, 1);
    c->B0 = pu__doubles(arena, c->S, c->r0);
    c->diffuse = pu__indices(arena, c->d);
    s->sums = pu__doubles(arena, c->r * (c->S + c->r) + c->r0 * c->r0, 1);
    s->each = pu__reals(arena, s->count, c->S);
    s->c = pu__reals(arena, c->S, 1);
    s->psi = pu__reals(arena, c->T, 1);
    s->theta = pu__reals(arena, d->made.params, 1);
    s->moved = pu__reals(arena, d->made.params, 1);
}

/* What is wrong with part n of these, or NULL. */
PU__FN const char *pu__part_fault(const pu_part *parts, pu_int n)
{
    const pu_part *p = parts + n;
    int season = p->kind == PU_PART_SEASON || p->kind == PU_PART_SEASON_TRIG;
    int smooth = p->kind >= PU_PART_MATERN12;
    if ((int)p->kind < PU_PART_LEVEL || (int)p->kind > PU_PART_MATERN52)
        return "parts[index].kind (one of pu_part_kind)";
    if (p->kind == PU_PART_SLOPE && (n == 0 || p[-1].kind != PU_PART_LEVEL))
        return "parts[index] (a slope must follow a level)";
    if (season && p->size < 2)
        return "parts[index].size (the period of a season, at least 2)";
    if (p->kind == PU_PART_AR && (p->size < 1 || p->size > PU_AR_MAX))
        return "parts[index].size (the order of an autoregression, 1 to PU_AR_MAX)";
    if (!season && p->kind != PU_PART_AR && p->size)
        return "parts[index].size (of seasons and autoregressions alone)";
    if (p->constant && (p->kind == PU_PART_CYCLE || p->kind == PU_PART_AR || smooth))
        return "parts[index].constant (of levels, slopes and seasons alone)";
    if (!(p->step >= 0) || !pu__finite_double(p->step) || (p->step > 0 && !smooth))
        return "parts[index].step (of Matern parts alone; positive, or 0 = 1)";
    return NULL;
}

/* Part n in its place behind those before it; *chain and *params count on. */
PU__FN void pu__component_place(pu__component *c, const pu_part *given, pu__chain *chain, pu_int *params)
{
    memset(c, 0, sizeof *c);
    c->part = *given;
    if (!(c->part.step > 0))
        c->part.step = 1;
    pu__component_size(c);
    c->state = chain->S;
    c->shock = chain->r;
    c->start = chain->r0;
    c->at = *params;
    chain->S += c->states;
    chain->r += c->shocks;
    chain->r0 += c->starts;
    chain->d += c->starts ? 0 : c->states;
    *params += c->params;
}

/* The parts once there is memory: places, names, what y sees of them, diffuse states. */
PU__FN void pu__structural_fill(pu__structure *s, const pu_part *given)
{
    pu__chain *chain = &s->chain;
    pu_int params = 0, ars = 0, level = -1;
    chain->S = 0;
    chain->r = 0;
    chain->r0 = 0;
    chain->d = 0;
    for (pu_int n = 0; n < s->count; n++) {
        pu__component *c = s->parts + n;
        pu_int diffuse = chain->d;
        int trig = given[n].kind == PU_PART_SEASON_TRIG;
        pu__component_place(c, given + n, chain, &params);
        if (given[n].kind == PU_PART_AR)
            c->ar = s->ars + ars++;
        if (given[n].kind == PU_PART_LEVEL && level < 0)
            level = c->state;
        for (pu_int i = 0; i < n; i++)
            c->number += pu__part_name(given[i].kind)[0] == pu__part_name(given[n].kind)[0] &&
                         pu__part_name(given[i].kind)[1] == pu__part_name(given[n].kind)[1];
        for (pu_int i = 0; !c->starts && i < c->states; i++)
            chain->diffuse[diffuse + i] = c->state + i;
        for (pu_int i = 0; i < c->states && given[n].kind != PU_PART_SLOPE; i += trig ? 2 : c->states)
            s->each[n * s->S + c->state + i] = 1;
        pu__axpy(s->S, 1, s->each + n * s->S, s->c);
    }
    chain->level = level;
}

/* The sum of parts and noise. */
PU_DEF pu_status pu_model_structural(pu_model *model, pu_int steps, const pu_part *parts, pu_int count, pu_report *report)
{
    pu__structural_draft d;
    pu__structure *s = &d.s;
    pu_status status;
    memset(&d, 0, sizeof d);
    if (model)
        d.made.memory = model->memory;
    report = pu__begin(&d.call, &d.made.memory, report);
    if (!model || !parts)
        return pu__refuse(report, PU_E_NULL, model ? "parts" : "model");
    if (steps < 1 || count < 1)
        return pu__refuse(report, PU_E_ARGUMENT, steps < 1 ? "steps (at least 1)" : "count (at least one part)");
    for (pu_int n = 0; n < count; n++) {
        pu__component c;
        const char *fault = pu__part_fault(parts, n);
        if (fault)
            return pu__fail(report, PU_E_ARGUMENT, fault, -1, n);
        if (parts[n].size > steps + 1 + PU_AR_MAX)
            return pu__fail(report, PU_E_ARGUMENT, "parts[index].size (longer than the series)", -1, n);
        pu__component_place(&c, parts + n, &s->chain, &d.made.params);
        d.ars += parts[n].kind == PU_PART_AR;
        /* a row of F has three entries or less, or as many as its part has states; each shock enters one state, or all */
        d.entries_F += 3 * c.states + (pu__part_smooth(parts[n].kind) ? 9 : c.states);
        d.entries_B += c.shocks + (pu__part_smooth(parts[n].kind) ? 9 : 0);
    }
    d.made.params++;
    d.given = parts;
    s->count = count;
    s->T = steps;
    s->S = s->chain.S;
    s->chain.T = steps;
    if (s->S > PTRDIFF_MAX / (pu_int)sizeof(double) / 8 / steps / (s->S + 1))
        return pu__refuse(report, PU_E_OVERFLOW, "steps");
    status = pu__allocate(&d.call, pu__structural_layout, &d);
    if (status)
        memset(model, 0, sizeof *model);
    if (status == PU_E_ARGUMENT)
        pu_workspace_free(&d.made.memory);
    model->memory = d.made.memory;
    if (status)
        return status;
    memset(d.made.data, 0, d.call.arena.used);
    pu__structural_fill(s, parts);
    *model = d.made;
    *pu__structure_of(model) = *s;
    s = pu__structure_of(model);
    model->name = "structural model";
    model->uses = PU_USES_GAMMA | PU_USES_PSI;
    model->Gamma = pu__op_chain(&s->chain);
    model->Phi = pu_op_readout(steps, s->S, s->c);
    model->lgm.psi = s->psi;
    model->set = pu__structure_set;
    model->grad = pu__structure_grad;
    model->start = pu__structure_start;
    model->describe = pu__structure_describe;
    pu__model_link(model);
    return PU_OK;
}

/* What part i adds to y. */
PU_DEF pu_op pu_model_part(const pu_model *model, pu_int i)
{
    const pu__structure *s;
    if (!model || model->Gamma.form != PU_FORM_CHAIN)
        return pu_op_readout(0, 0, NULL);
    s = pu__structure_of(model);
    return i < 0 || i >= s->count ? pu_op_readout(0, 0, NULL) : pu_op_readout(s->T, s->S, s->each + i * s->S);
}

/* ------------------------------------------------------------------------------------------------
   >>optimise   one step of a fit: its gradient, then Adam, SGD or L-BFGS
   ------------------------------------------------------------------------------------------------ */

/* A number that a checkpoint must have in common with the fit that takes it up, and what to say where it has not. */
typedef struct {
    const char *wrong;
    double value;
} pu__agreed;
enum { PU__AGREED_COUNT = 50 };

/* A fit: n parameters, N data, K probes, D latent variables. The numbers before `model` are written to
   checkpoints as they are, in this order; doubles, since every count is below 2^53. Arrays that the options
   do not need are NULL. */
typedef struct {
    /* Steps done. */
    double step;
    /* Of the next datum: passes through the data before its own, and its place in `order`. */
    double epoch, place;
    /* As in pu_fit_report. */
    double gradients, rejected, doubtful;
    /* Steps running whose gradient was within its error. */
    double within;
    /* As in pu_fit_report. */
    double best, best_step;
    /* PU_INEXACT or PU_DIVERGED, where that is what became of the gradient of `objective`; of the best point's; else 0. */
    double doubt, best_doubt;
    /* Validations since the best one. */
    double stale;
    /* As in pu_fit_report. */
    double validation, objective, objective_se, gradient, gradient_se, rate;
    /* L-BFGS: pairs held, place of the newest. */
    double held, newest;
    /* L-BFGS: steps since the objective fell, more than by rounding, and what it was then; what it was where the fit last
       came to rest, see pu__fit_settle. */
    double idle, mark, rested;
    /* L-BFGS: 1 = g is the gradient at theta. */
    double known;
    /* K and I where the fit chose them. */
    double samples, iterations;

    pu_model *model;
    const pu_data *data;
    /* A copy of the caller's, in which pu__fit_defaults fills in the zeros. */
    pu_fit_options *o;
    pu_fit_report *report;
    /* Memory of the gradients. */
    pu_workspace *ws;
    /* By options.clock. */
    double start;
    /* What a checkpoint must agree in. */
    pu__agreed agreed[PU__AGREED_COUNT];
    pu_int n, N, K, D, pairs;
    /* Standard errors of gradients are wanted. */
    int want_se;
    /* Objectives of different steps may be compared. */
    int comparable;
    /* The last gradient was without noise. */
    int exact;
    /* Of the last gradient: no digit of it may be right, see pu__model_task. */
    int lost;
    /* For passes over n. */
    int threads;
    /* Number of the pu_model_set call that set the model to the point of the next gradient. */
    uint32_t sets;
    /* n: the point. It goes to the caller's array at the end. */
    pu_real *theta;
    /* n: the point tried. Adam and SGD: after the step, the point that was left. */
    pu_real *next;
    /* n: the best point. */
    pu_real *best_theta;
    /* n: the gradient at theta. */
    pu_real *g;
    /* n: first and second moments. L-BFGS: the direction d, and the gradient at the point tried. */
    pu_real *m, *v;
    /* n: the gradient of one of several batches, and the standard errors of a batch. */
    pu_real *part, *part_se;
    /* n: squared standard errors of the batches times their data squared, summed. */
    double *variance;
    /* pairs x n: steps s, and changes y of the gradient. */
    pu_real *S, *Y;
    /* 2 pairs: 1 / s'y, then the coefficients of the recursion. */
    double *rho;
    /* N: the data in the order of this epoch. */
    pu_int *order;
    /* Warm starts, (K+1) x D per datum: of all data, of one batch. */
    pu_real *x, *x_batch;
} pu__fit;

/* ---- the gradient of a step ---- */

/* Order of the data in this epoch: Fisher and Yates, with numbers that depend on seed, epoch and place
   alone. */
PU__FN void pu__fit_shuffle(pu__fit *fit)
{
    uint64_t seed = fit->o->gradient.seed;
    /* Apart from the streams of normals. */
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32) ^ 0x6f726465u};
    uint32_t counter[4] = {0, (uint32_t)fit->epoch, 0, 0}, word[4];
    pu_int *order = fit->order;
    for (pu_int i = 0; i < fit->N; i++)
        order[i] = i;
    for (pu_int i = fit->N - 1; i > 0; i--) {
        pu_int j, moved = order[i];
        counter[0] = (uint32_t)i;
        pu_philox(key, counter, word);
        j = (pu_int)(((uint64_t)word[0] << 32 | word[1]) % (uint64_t)(i + 1));
        order[i] = order[j];
        order[j] = moved;
    }
}

/* Gradient at theta of the next batch of the epoch, or of all data, into grad; standard errors where they
   are wanted. *n: how many data. With warm starts the solves begin at the last solutions of these data, and
   leave theirs. */
PU__FN pu_status pu__fit_batch_gradient(pu__fit *fit, const pu_real *theta, pu_real *grad, pu_int *n)
{
    pu_int each = (fit->K + 1) * fit->D;
    pu_report *report = &fit->report->last;
    pu_data batch = *fit->data;
    pu__model_task task;
    pu_status status = PU_OK;
    pu__model_task_make(&task, fit->model, &batch, &fit->o->gradient, fit->part_se);
    task.ws = fit->ws;
    task.grad = grad;
    task.grad_is_scratch = 1;
    task.x = fit->x;
    /* The last batch of an epoch may be smaller; no batch goes on into the next. */
    if (fit->order) {
        if (fit->place >= (double)fit->N) {
            fit->epoch++;
            fit->place = 0;
            pu__fit_shuffle(fit);
        }
        batch.pick = fit->order + (pu_int)fit->place;
        batch.n = pu__min(fit->o->batch, fit->N - (pu_int)fit->place);
        fit->place += (double)batch.n;
        task.x = fit->x_batch;
    }
    *n = batch.n;
    task.options.x0 = task.x;
    if (!fit->o->fixed_probes)
        task.options.step += (uint32_t)fit->step;
    if (fit->x_batch)
        for (pu_int i = 0; i < *n; i++)
            pu__copy(task.x + i * each, fit->x + batch.pick[i] * each, each);
    fit->gradients++;
    /* pu__fit_move has set the model to the point that it proposed. Validation may have moved it since. */
    if (fit->sets != fit->model->sets)
        status = pu_model_set(fit->model, theta, report);
    if (!status)
        status = pu__model_run(&task, report);
    fit->lost |= task.lost;
    if (fit->x_batch && !pu__fatal(status))
        for (pu_int i = 0; i < *n; i++)
            pu__copy(fit->x + batch.pick[i] * each, task.x + i * each, each);
    return status;
}

#define PU__PARTS 64 /* passes over n are cut into so many parts, whatever the number of threads */

/* First entry of a part; part PU__PARTS begins at n. */
PU__FN pu_int pu__part_start(const pu__fit *fit, int part)
{
    return fit->n / PU__PARTS * part + pu__min(part, fit->n % PU__PARTS);
}

/* |g|, g of length n. The sum is made part by part, so that its rounding does not depend on the threads. */
PU__FN double pu__gradient_norm(const pu__fit *fit, const pu_real *g)
{
    double sum[PU__PARTS], all = 0;
#ifdef PU__OPENMP
#pragma omp parallel for num_threads(fit->threads)
#endif
    for (int p = 0; p < PU__PARTS; p++) {
        pu_int at = pu__part_start(fit, p);
        sum[p] = pu__dot(pu__part_start(fit, p + 1) - at, NULL, g + at, g + at);
    }
    for (int p = 0; p < PU__PARTS; p++)
        all += sum[p];
    return sqrt(all);
}

/* Gradient of a step at theta into g (n): the mean over the data of its batches. Objective, norm, their
   standard errors, doubts about them and whether all was exact are left in the fit. With n_b data in batch b:
     g = sum_b n_b g_b / sum_b n_b,     se^2 = sum_b n_b^2 se_b^2 / (sum_b n_b)^2
   A single batch is not scaled, which would only round. */
PU__FN pu_status pu__fit_gradient(pu__fit *fit, const pu_real *theta, pu_real *g)
{
    const pu_report *last = &fit->report->last;
    pu_real *part = fit->part, *se = fit->part_se;
    double *sum = fit->variance;
    double total = 0, objective = 0, variance = 0, error = 0;
    int known = 1;
    pu_int n = fit->n, data;
    fit->exact = 1;
    fit->doubt = PU_OK;
    fit->lost = 0;
    if (sum)
        memset(sum, 0, (size_t)n * sizeof *sum);
    if (part)
        pu__zeros(g, n);
    for (pu_int batch = 0; batch < fit->o->accumulate; batch++) {
        pu_status status = pu__fit_batch_gradient(fit, theta, part ? part : g, &data);
        double weight = (double)data, square = weight * weight;
        if (pu__fatal(status))
            return status;
        if (status == PU_INEXACT || status == PU_DIVERGED) {
            fit->doubt = status;
            fit->doubtful++;
        }
        fit->exact &= !last->served[PU_ITERATIVE];
        known &= last->has_nll && !(last->nll_se < 0);
        total += weight;
        objective += weight * (last->has_nll ? last->nll : last->q);
        variance += square * last->nll_se * last->nll_se;
        if (part)
            pu__axpy(n, (pu_real)data, part, g);
        if (sum)
            for (pu_int i = 0; i < n; i++)
                sum[i] += square * (double)se[i] * (double)se[i];
    }
    if (part)
        for (pu_int i = 0; i < n; i++)
            g[i] /= (pu_real)total;
    if (sum)
        for (pu_int i = 0; i < n; i++)
            error += sum[i] / (total * total);
    /* -1: unknown, or not measured. */
    fit->objective = objective / total;
    fit->objective_se = known ? sqrt(variance) / total : -1;
    fit->gradient = pu__gradient_norm(fit, g);
    fit->gradient_se = sum ? sqrt(error) : -1;
    if (!pu__finite_double(fit->objective + fit->objective_se + fit->gradient + fit->gradient_se))
        return pu__refuse(&fit->report->last, PU_NONFINITE, "|gradient|");
    return PU_OK;
}

/* Did the numbers give out at this theta, so that a shorter step may help? Any other failure is the
   caller's mistake. PU_E_NONFINITE: canonical arrays made from theta; the data were found finite at the
   first step. */
PU__FN int pu__fit_too_far(pu_status status)
{
    return status == PU_NONFINITE || status == PU_BREAKDOWN || status == PU_E_NOT_DEFINITE ||
           status == PU_E_NOT_POSITIVE || status == PU_E_NONFINITE;
}

/* theta is the best point so far, by this value, after so many steps. */
PU__FN void pu__fit_keep_best(pu__fit *fit, double value, double step)
{
    fit->best = value;
    fit->best_step = step;
    fit->best_doubt = fit->doubt;
    pu__copy(fit->best_theta, fit->theta, fit->n);
}

/* ---- Adam and SGD ---- */

/* Rate of the next step, t of T, by the schedule. */
PU__FN double pu__fit_rate(const pu__fit *fit)
{
    const pu_fit_options *o = fit->o;
    double t = fit->step, T = (double)o->steps, rate = o->rate;
    switch (o->schedule) {
    case PU_RATE_COSINE: return rate * (1 + cos(3.14159265358979323846 * t / T)) / 2;
    case PU_RATE_HYPERBOLIC: return rate / (1 + t / o->decay);
    case PU_RATE_TAIL: return t < 0.8 * T ? rate : rate * (T - t) / (0.2 * T);
    case PU_RATE_CONSTANT: break;
    }
    return rate;
}

/* One step of Adam:
     m = beta1 m + gain1 g,   v = beta2 v + gain2 g^2,   theta -= rate m / (root sqrt(v) + epsilon)
   gain = 1 - beta. rate and root take the bias off m and v: they hold 1 / (1 - beta1^t) and 1 / sqrt(1 -
   beta2^t). SGD: m = beta1 m + g,  theta -= rate m. */
typedef struct {
    int sgd;
    pu_real beta1, gain1, beta2, gain2, rate, root, epsilon;
} pu__adam;

/* The next step of Adam or SGD at fit->rate. SGD's beta1 is the momentum. */
PU__FN pu__adam pu__adam_make(const pu__fit *fit)
{
    const pu_fit_options *o = fit->o;
    double t = fit->step + 1, beta1 = o->beta1, beta2 = o->beta2;
    int sgd = o->optimizer == PU_SGD;
    pu__adam a = {sgd,
                  (pu_real)beta1,
                  (pu_real)(sgd ? 1 : 1 - beta1),
                  (pu_real)beta2,
                  (pu_real)(1 - beta2),
                  (pu_real)(fit->rate / (sgd ? 1 : 1 - pow(beta1, t))),
                  (pu_real)(1 / sqrt(1 - pow(beta2, t))),
                  (pu_real)o->epsilon};
    return a;
}

/* One part of next = theta + t d. a NULL: d is fit->m, L-BFGS's direction. Else it is the step of a, whose
   moments m and v take in the gradient when is_new. */
PU__FN void pu__fit_move_part(pu__fit *fit, const pu__adam *a, double t, int is_new, int part)
{
    pu_int i, n, end = pu__part_start(fit, part + 1);
    /* Chunks stay in cache from one pass to the next. */
    for (pu_int at = pu__part_start(fit, part); at < end; at += n) {
        const pu_real *g = fit->g + at, *theta = fit->theta + at;
        pu_real *PU__RESTRICT m = fit->m + at, *PU__RESTRICT to = fit->next + at;
        n = pu__min(PU__CHUNK, end - at);
        if (!a) {
            for (i = 0; i < n; i++)
                to[i] = (pu_real)((double)theta[i] + t * (double)m[i]);
            continue;
        }
        pu_real step = (pu_real)t * a->rate;
        if (is_new)
            for (i = 0; i < n; i++)
                m[i] = a->beta1 * m[i] + a->gain1 * g[i];
        if (a->sgd) {
            for (i = 0; i < n; i++)
                to[i] = theta[i] - step * m[i];
            continue;
        }
        pu_real *PU__RESTRICT v = fit->v + at;
        if (is_new)
            for (i = 0; i < n; i++)
                v[i] = a->beta2 * v[i] + a->gain2 * (g[i] * g[i]);
        for (i = 0; i < n; i++)
            to[i] = theta[i] - step * m[i] / (a->root * pu__sqrt(v[i]) + a->epsilon);
    }
}

/* next = theta + t d, t halved until the model takes that point; 0 when it never does. a: as for
   pu__fit_move_part. The model is set without a report, so that report->last stays that of the gradient. */
PU__FN int pu__fit_move(pu__fit *fit, const pu__adam *a, double *t)
{
    for (int halvings = 0; halvings < 40; halvings++) {
#ifdef PU__OPENMP
#pragma omp parallel for num_threads(fit->threads)
#endif
        for (int p = 0; p < PU__PARTS; p++)
            pu__fit_move_part(fit, a, *t, halvings == 0, p);
        if (!pu_model_set(fit->model, fit->next, NULL)) {
            fit->sets = fit->model->sets;
            return 1;
        }
        fit->rejected++;
        *t /= 2;
    }
    return 0;
}

/* A step of Adam or SGD. PU_FIT_STUCK: the model takes no point in that direction. */
PU__FN pu_status pu__fit_first_order(pu__fit *fit)
{
    pu_real *theta = fit->theta, *next = fit->next;
    pu_status status = pu__fit_gradient(fit, theta, fit->g);
    double t = 1;
    /* Where there is no gradient: half way back to the point before, until there is one. */
    for (int back = 0; back < 40 && fit->step > 0 && pu__fit_too_far(status); back++) {
        for (pu_int i = 0; i < fit->n; i++)
            theta[i] = (theta[i] + next[i]) / 2;
        fit->sets--; /* another point */
        fit->rejected++;
        status = pu__fit_gradient(fit, theta, fit->g);
    }
    if (status)
        return status;
    /* The objective is that of the point before the step. */
    if (fit->comparable && fit->exact && fit->objective_se >= 0 && fit->objective < fit->best)
        pu__fit_keep_best(fit, fit->objective, fit->step);
    fit->rate = pu__fit_rate(fit);
    pu__adam a = pu__adam_make(fit);
    /* The point left becomes the one to step back to. */
    if (pu__fit_move(fit, &a, &t)) {
        fit->next = theta;
        fit->theta = next;
    } else {
        pu__copy(next, theta, fit->n);
        fit->report->stop = PU_FIT_STUCK;
    }
    return PU_OK;
}

/* ---- L-BFGS ---- */

#define PU__STRIDE    3.0   /* the longest step of a parameter on a log or atanh scale */
#define PU__REST      1e-5  /* squared standard errors from the minimum: converged */
#define PU__NOISE     pu__max(16 * (double)PU__EPS, 1e-10) /* objectives so near to each other, relatively, are equal */
#define PU__IDLE      5     /* steps that together gain no more than rounding: none will */
#define PU__INFLUENCE 1e-3  /* N times a second derivative on these scales: below, a standard error is above 30 */

/* Is parameter i on a log or atanh scale, where it can run to a boundary? */
PU__FN int pu__is_scaled(const pu_model *model, pu_int i)
{
    pu_param param = PU__ZERO;
    pu_model_param(model, i, &param);
    return param.scale != PU_SCALE_FREE;
}

/* t along d = fit->m, or less where a parameter on a log or atanh scale would move too far. */
PU__FN double pu__lbfgs_limit(const pu__fit *fit, double t)
{
    for (pu_int i = 0; i < fit->n; i++) {
        double speed = fabs((double)fit->m[i]);
        if (speed * t > PU__STRIDE && pu__is_scaled(fit->model, i))
            t = PU__STRIDE / speed;
    }
    return t;
}

/* d = -H g (in fit->m) by the two-loop recursion over the pairs (s, y), newest first and back:
     a_j = s_j'd / s_j'y_j,   d -= a_j y_j;     d *= s'y / y'y of the newest;     d += (a_j - y_j'd / s_j'y_j) s_j
   Returns the slope g'd. When d does not descend the pairs are forgotten, and d = -g. */
PU__FN double pu__lbfgs_direction(pu__fit *fit)
{
    pu_int n = fit->n, pairs = fit->pairs, newest = (pu_int)fit->newest;
    const pu_real *g = fit->g, *S = fit->S, *Y = fit->Y;
    double *rho = fit->rho, *a = rho + pairs, slope;
    pu_real *d = fit->m;
    pu_int j, age;
    for (pu_int i = 0; i < n; i++)
        d[i] = -g[i];
    for (age = 0; age < (pu_int)fit->held; age++) {
        j = (newest - age + pairs) % pairs;
        a[j] = rho[j] * pu__dot(n, NULL, S + j * n, d);
        pu__axpy(n, (pu_real)-a[j], Y + j * n, d);
    }
    if (age > 0) {
        double scale = rho[newest] * pu__dot(n, NULL, Y + newest * n, Y + newest * n);
        for (pu_int i = 0; i < n; i++)
            d[i] = (pu_real)((double)d[i] / scale);
    }
    while (--age >= 0) {
        j = (newest - age + pairs) % pairs;
        pu__axpy(n, (pu_real)(a[j] - rho[j] * pu__dot(n, NULL, Y + j * n, d)), S + j * n, d);
    }
    slope = pu__dot(n, NULL, g, d);
    if (slope < 0 || fit->held == 0)
        return slope;
    fit->held = 0;
    return pu__lbfgs_direction(fit);
}

/* Takes the point tried, t along d. Its pair s, y is held unless the curvature s'y is not safely positive. */
PU__FN void pu__lbfgs_accept(pu__fit *fit, double t)
{
    pu_int n = fit->n, place = ((pu_int)fit->newest + 1) % fit->pairs;
    pu_real *s = fit->S + place * n, *y = fit->Y + place * n;
    for (pu_int i = 0; i < n; i++) {
        s[i] = fit->next[i] - fit->theta[i];
        y[i] = fit->v[i] - fit->g[i];
    }
    double sy = pu__dot(n, NULL, s, y);
    if (sy > 1e-10 * sqrt(pu__dot(n, NULL, s, s) * pu__dot(n, NULL, y, y))) {
        fit->rho[place] = 1 / sy;
        fit->newest = (double)place;
        if ((pu_int)fit->held < fit->pairs)
            fit->held++;
    }
    pu__copy(fit->theta, fit->next, n);
    pu__copy(fit->g, fit->v, n);
    fit->rate = t;
    /* Lower by the rule of the search, up to rounding. */
    if (fit->comparable && fit->exact)
        pu__fit_keep_best(fit, fit->objective, fit->step + 1);
}

/* N g'H^-1 g, of which the direction d = -H^-1 g tells -N g'd: squared standard errors to the minimum. It leaves out
   parameters on a log or atanh scale that go far for nothing, on their way to a boundary. */
PU__FN double pu__lbfgs_rest(const pu__fit *fit, double slope)
{
    double N = (double)fit->N, rest = -slope * N;
    for (pu_int i = 0; i < fit->n; i++) {
        double step = fabs((double)fit->m[i]), g = N * fabs((double)fit->g[i]);
        if (step > 0.1 && g < 0.1 * PU__INFLUENCE && pu__is_scaled(fit->model, i))
            rest += N * (double)fit->g[i] * (double)fit->m[i];
    }
    return rest;
}

/* Gradient into fit->v at fit->next, to which the model was not set yet. PU_NONFINITE also where it refuses that. */
PU__FN pu_status pu__fit_probe(pu__fit *fit)
{
    if (pu_model_set(fit->model, fit->next, NULL))
        return PU_NONFINITE;
    fit->sets = fit->model->sets;
    return pu__fit_gradient(fit, fit->next, fit->v);
}

/* Newton steps of single parameters on a log or atanh scale, all at once, into fit->m: next = theta + m, downhill. They
   begin small and are corrected by the gradients that they meet, up to four times longer each time. What moves a lot
   becomes right first, and then does not disturb what moves little. v is the gradient at the last of these points. The
   best of them with an objective below the limit and its gradient go to S and Y, whose pairs are lost, its objective to
   *best and its doubt to *doubt. */
PU__FN pu_status pu__fit_polish(pu__fit *fit, double limit, double *best, double *doubt)
{
    pu_real *m = fit->m;
    pu_status status = PU_OK;
    for (pu_int i = 0; i < fit->n; i++) {
        m[i] = fit->g[i] > 0 ? PU_R(-0.01) : PU_R(0.01);
        if (!pu__is_scaled(fit->model, i))
            m[i] = 0;
    }
    for (int round = 0; round < 7 && !status; round++) {
        double gain = 0;
        for (pu_int i = 0; i < fit->n; i++) {
            double g = (double)fit->g[i], bend = g - (double)fit->v[i];
            /* where the slope does not fall, there is no end in sight */
            double longer = fabs(g) < 4 * fabs(bend) && g * bend > 0 ? g / bend : 4;
            if (round > 0)
                m[i] = (pu_real)pu__clamp(longer * (double)m[i], -PU__STRIDE, PU__STRIDE);
            fit->next[i] = fit->theta[i] + m[i];
            gain += longer == 4 && fabs((double)m[i]) < PU__STRIDE && m[i] != 0 ? HUGE_VAL : fabs(g * (double)m[i]);
        }
        /* nothing to be had */
        if (round > 1 && gain * (double)fit->N <= PU__REST)
            break;
        status = pu__fit_probe(fit);
        if (!status && fit->objective < limit) {
            limit = fit->objective;
            *best = limit;
            *doubt = fit->doubt;
            pu__copy(fit->S, fit->next, fit->n);
            pu__copy(fit->Y, fit->v, fit->n);
        }
    }
    /* A point that the numbers do not allow is too far, and tells nothing. */
    return pu__fit_too_far(status) ? PU_OK : status;
}

/* The parameters that have no influence at theta, after pu__fit_polish: far off, their gradient is still next to nothing.
   The report gets their number, and the first of them. */
PU__FN void pu__fit_find_boundary(pu__fit *fit)
{
    pu_fit_report *r = fit->report;
    double limit = PU__INFLUENCE / (double)fit->N;
    pu_param param;
    for (pu_int i = fit->n - 1; i >= 0; i--) {
        double far = fabs((double)fit->m[i]), g = fabs((double)fit->g[i]);
        if (far < 1 || g > limit || fabs((double)fit->v[i] - (double)fit->g[i]) > limit * far)
            continue;
        r->boundaries++;
        r->boundary = i;
        pu_model_param(fit->model, i, &param);
        memcpy(r->boundary_name, param.name, sizeof param.name);
    }
}

/* L-BFGS has come to rest, for this reason. It is blind to parameters of little influence beside others: one on a log or
   atanh scale may be on its way to a boundary, or have been thrown out there by a long step. Where the objective is
   lower when all of them go as far as their own gradients ask for, the fit goes on from there. Else it stops.
   The pairs are no witness either where they know nothing of a direction, or nothing but rounding: then the distance to
   the minimum looks small. So they are forgotten, and L-BFGS has to come to rest again, at no lower an objective. */
PU__FN pu_status pu__fit_settle(pu__fit *fit, pu_fit_stop reason)
{
    pu_fit_report *r = fit->report;
    pu_report last = r->last;
    double value = fit->objective, least = pu__max(PU__REST / (double)fit->N, PU__NOISE * fabs(value));
    double best = HUGE_VAL; /* no value - least, which a wider type would not round the same way in each place */
    double doubt = fit->doubt, best_doubt = doubt;
    pu_status status = pu__fit_polish(fit, value - least, &best, &best_doubt);
    fit->held = fit->idle = fit->within = 0;
    if (fit->exact && best < HUGE_VAL) {
        fit->objective = best;
        fit->doubt = best_doubt;
        pu__copy(fit->next, fit->S, fit->n);
        pu__copy(fit->v, fit->Y, fit->n);
        pu__lbfgs_accept(fit, 0);
        return PU_OK;
    }
    if (status)
        return status;
    r->last = last;
    fit->objective = value;
    fit->doubt = doubt;
    fit->gradient = pu__gradient_norm(fit, fit->g);
    if (fit->rested - value > least && fit->o->tolerance == 0) {
        fit->rested = value;
        return PU_OK;
    }
    pu__fit_find_boundary(fit);
    /* a gradient that lost digits is no proof */
    r->stop = doubt > 0 ? PU_FIT_STUCK : reason;
    if (r->boundaries)
        r->stop = PU_FIT_BOUNDARY;
    return PU_OK;
}

/* A step of L-BFGS: t along d by bisection between lo and hi (< 0: not known yet), such that
     f(t) <= f + 1e-4 t g'd   (only where f is exact: with fixed probes the gradient is not quite that of f) and
     |g(t)'d| <= 0.9 |g'd|.
   Near the minimum the changes of f drown in its rounding long before the gradient does. So values within
   1e-10 of each other count as equal, and the second condition decides alone (as in Hager and Zhang 2005). */
PU__FN pu_status pu__fit_lbfgs(pu__fit *fit)
{
    double lo = 0, hi = -1;
    pu_status status = fit->known > 0 ? PU_OK : pu__fit_gradient(fit, fit->theta, fit->g);
    if (status)
        return status;
    /* The start is the best point so far. */
    if (fit->known == 0 && fit->comparable && fit->exact)
        pu__fit_keep_best(fit, fit->objective, fit->step);
    fit->known = 1;
    double value = fit->objective, doubt = fit->doubt, slope = pu__lbfgs_direction(fit);
    pu_fit_stop reason = -slope <= PU__NOISE * fabs(value) ? PU_FIT_CONVERGED : PU_FIT_STUCK;
    if (fit->idle >= PU__IDLE && fit->o->tolerance == 0)
        return pu__fit_settle(fit, reason);
    /* As many pairs as there are directions, or as are kept: before that, H^-1 is no more than a guess in some. */
    if (fit->o->tolerance == 0 && (fit->held >= (double)pu__min(fit->n, fit->pairs) || slope == 0)) {
        double rounding = (double)PU__EPS * fabs(value) * (double)fit->N;
        int is_near = pu__lbfgs_rest(fit, slope) <= pu__max(PU__REST, rounding);
        fit->within = is_near ? fit->within + 1 : 0;
        if (fit->within >= 2)
            return pu__fit_settle(fit, PU_FIT_CONVERGED);
    }
    double t = pu__lbfgs_limit(fit, (fit->held > 0 ? 1 : 1 / pu__max(1, sqrt(-slope))) * pu__fit_rate(fit));
    fit->rate = t;
    for (int tries = 0; tries < 20; tries++) {
        double middle = 0.5, asked = t, longer = pu__lbfgs_limit(fit, 2 * t);
        if (!pu__fit_move(fit, NULL, &t))
            break;
        /* The model refused a longer step. */
        if (t < asked)
            hi = asked;
        status = pu__fit_gradient(fit, fit->next, fit->v);
        if (status && !pu__fit_too_far(status))
            return status;
        /* where no digit may be right, nothing can be learnt */
        if (status || fit->lost) {
            fit->rejected++;
            hi = t;
        } else {
            double there = pu__dot(fit->n, NULL, fit->v, fit->m);
            double limit = fit->exact ? value + 1e-4 * t * slope + PU__NOISE * fabs(value) : HUGE_VAL;
            /* Too long when f is too large or the slope has turned; too short while it is as steep as here. */
            if (!(fit->objective <= limit) || there > -0.9 * slope) {
                hi = t;
                /* The first step knows no scale, and may be too long by orders of magnitude: where a line through the
                   slopes at both ends is zero. A slope that rounding has spoilt does not tell that. */
                if (fit->held == 0 && there > 0 && fit->report->last.status != PU_INEXACT)
                    middle = slope / (slope - there);
            }
            else if (there < 0.9 * slope && hi < 0 && tries < 10 && longer > t)
                lo = t;
            else {
                fit->idle++;
                if (fit->mark - fit->objective > 4 * (double)PU__EPS * fabs(value) || !fit->exact) {
                    fit->mark = fit->objective;
                    fit->idle = 0;
                }
                pu__lbfgs_accept(fit, t);
                return PU_OK;
            }
        }
        t = hi < 0 ? longer : lo + middle * (hi - lo);
    }
    /* At rounding level, or the gradient is not that of the objective. */
    fit->objective = value;
    fit->doubt = doubt;
    return pu__fit_settle(fit, reason);
}

/* ------------------------------------------------------------------------------------------------
   >>checkpoint   a fit in a file: a mark, what must agree, the numbers, the arrays, checksums
   ------------------------------------------------------------------------------------------------ */

/* The file, in the byte order of the machine:
     8 bytes     PU__MAGIC
     8 each      the numbers of pu__fit_list_agreed
     8           FNV-1a hash of these
     208         the numbers of pu__fit before `model`
     ..          theta, best_theta, m, next, v, g, S, Y, rho, x: those of them that the fit has
     8           FNV-1a hash of the numbers and arrays */
#ifndef PU_NO_STDIO

#define PU__MAGIC "pu fit 2"
#define PU__PATH  1024 /* of a file's name, with what is appended */

/* One entry of pu__fit_list_agreed; a field of the fit's options, of its gradient's, of its solver's. */
#define PU__AGREED(name, value)   {"checkpoint: made with another " name, (double)(value)}
#define PU__AGREED_FIT(field)      PU__AGREED("fit." #field, o->field)
#define PU__AGREED_GRADIENT(field) PU__AGREED("fit.gradient." #field, g->field)
#define PU__AGREED_SOLVE(field)    PU__AGREED("fit.gradient.solve." #field, solve->field)

/* What a checkpoint must share with the fit that takes it up, options with their defaults filled in: model, sizes,
   precision, and all that a step depends on. The list begins with the version: others may have other lists. */
PU__FN void pu__fit_list_agreed(pu__fit *fit)
{
    const pu_fit_options *o = fit->o;
    const pu_options *g = &o->gradient;
    const pu_solve_options *solve = &g->solve;
    const char *name = fit->model->name ? fit->model->name : "";
    int to_the_end = o->schedule == PU_RATE_COSINE || o->schedule == PU_RATE_TAIL;
    const pu__agreed list[PU__AGREED_COUNT] = {
        PU__AGREED("version of pu.h", (uint32_t)pu__fnv(PU__FNV, PU_VERSION, sizeof PU_VERSION)),
        PU__AGREED("precision (PU_FLOAT)", sizeof(pu_real)),
        PU__AGREED("model (its name)", (uint32_t)pu__fnv(PU__FNV, name, strlen(name))),
        PU__AGREED("model (its number of parameters)", fit->n), PU__AGREED("model (its latent variables)", fit->D),
        PU__AGREED("number of data", fit->N), PU__AGREED("data.m", fit->data->m),
        /* The optimiser. A schedule that looks at the last step makes `steps` one of them. */
        PU__AGREED_FIT(optimizer), PU__AGREED_FIT(rate), PU__AGREED_FIT(schedule),
        PU__AGREED("fit.steps (the schedule depends on it)", to_the_end ? o->steps : 0),
        PU__AGREED("fit.decay (the default depends on steps)", o->schedule == PU_RATE_HYPERBOLIC ? o->decay : 0),
        PU__AGREED_FIT(momentum), PU__AGREED_FIT(beta1), PU__AGREED_FIT(beta2), PU__AGREED_FIT(epsilon),
        PU__AGREED("fit.history", fit->pairs),
        /* Batches, noise, reasons to stop. */
        PU__AGREED_FIT(batch), PU__AGREED_FIT(accumulate), PU__AGREED("fit.fixed_probes", !!o->fixed_probes),
        PU__AGREED("fit.warm_start", !!o->warm_start), PU__AGREED_FIT(tolerance),
        PU__AGREED("fit.validate", !!o->validate), PU__AGREED_FIT(validate_every), PU__AGREED_FIT(patience),
        /* The gradient. */
        PU__AGREED_GRADIENT(kind), PU__AGREED_GRADIENT(engine), PU__AGREED_GRADIENT(samples),
        PU__AGREED("fit.gradient.seed", g->seed >> 32), PU__AGREED("fit.gradient.seed", g->seed & 0xffffffffu),
        PU__AGREED_GRADIENT(step), PU__AGREED("fit.gradient.lanes", g->lanes ? g->lanes : 4),
        PU__AGREED_GRADIENT(columns), PU__AGREED_GRADIENT(groups),
        PU__AGREED("fit.gradient.rao_blackwell", !!g->rao_blackwell), PU__AGREED_GRADIENT(error),
        PU__AGREED_GRADIENT(most_samples), PU__AGREED_GRADIENT(most_iterations),
        PU__AGREED("fit.gradient.no_control_variate", !!g->no_control_variate),
        PU__AGREED("fit.gradient.tied_psi", !!g->tied_psi),
        PU__AGREED("fit.gradient.constant_precond", !!g->constant_precond),
        PU__AGREED("fit.gradient.backend", pu__is_far(g->backend)),
        /* Its solver. */
        PU__AGREED_SOLVE(iterations), PU__AGREED_SOLVE(solver), PU__AGREED_SOLVE(tolerance), PU__AGREED_SOLVE(absolute2),
        PU__AGREED_SOLVE(check_every), PU__AGREED_SOLVE(adjoint), PU__AGREED_SOLVE(tape_every),
        PU__AGREED("fit.gradient.solve.no_repeat", !!solve->no_repeat)};
    memcpy(fit->agreed, list, sizeof list);
}

#define PU__DAMAGED "checkpoint: damaged (checksum, length, a number out of range), or in the other byte order"

/* The list to or from the file. Returns what is wrong with the file: the first entry that differs. */
PU__FN const char *pu__fit_agree(const pu__fit *fit, FILE *file, int is_write)
{
    double number[PU__AGREED_COUNT];
    uint64_t h, told;
    for (int i = 0; i < PU__AGREED_COUNT; i++)
        number[i] = fit->agreed[i].value;
    h = pu__fnv(PU__FNV, number, sizeof number);
    if (is_write)
        return fwrite(number, sizeof number, 1, file) && fwrite(&h, sizeof h, 1, file) ? NULL : PU__DAMAGED;
    if (!fread(number, sizeof number, 1, file) || !fread(&told, sizeof told, 1, file) ||
        told != pu__fnv(PU__FNV, number, sizeof number))
        return PU__DAMAGED;
    for (int i = 0; i < PU__AGREED_COUNT; i++)
        if (number[i] != fit->agreed[i].value)
            return fit->agreed[i].wrong;
    return NULL;
}

/* Is every count that was read from a file in its range, and an integer? A checksum is no proof: anybody can make one. */
PU__FN int pu__fit_is_sound(const pu__fit *fit)
{
    double any = 9007199254740992.0, pairs = (double)fit->pairs;
    const double count[][3] = {{fit->step, 0, (double)fit->report->steps},
                               {fit->epoch, 0, UINT32_MAX},
                               {fit->place, 0, (double)fit->N},
                               {fit->gradients, 0, any},
                               {fit->rejected, 0, any},
                               {fit->doubtful, 0, any},
                               {fit->doubt, 0, PU_INEXACT},
                               {fit->best_doubt, 0, PU_INEXACT},
                               {fit->within, 0, any},
                               {fit->stale, 0, any},
                               {fit->idle, 0, any},
                               {fit->best_step, -1, fit->best_theta ? fit->step : -1},
                               {fit->held, 0, pairs},
                               {fit->newest, 0, pairs - 1},
                               {fit->known, 0, 1},
                               {fit->samples, 0, INT32_MAX},
                               {fit->iterations, -1, INT32_MAX}};
    int ok = fit->best == fit->best && fit->rested == fit->rested && fit->mark == fit->mark;
    for (size_t i = 0; i < sizeof count / sizeof *count; i++)
        ok &= count[i][0] >= count[i][1] && count[i][0] <= count[i][2] && count[i][0] == floor(count[i][0]);
    return ok;
}

/* What the next step depends on, to or from the file: the numbers of the fit, then its arrays. The order of
   the data is not there, it follows from the epoch. *h: the hash of all that. Returns 0 when reading or
   writing fails. */
PU__FN int pu__fit_transfer(pu__fit *fit, FILE *file, int is_write, uint64_t *h)
{
    size_t n = (size_t)fit->n * sizeof(pu_real), pairs = (size_t)fit->pairs;
    size_t x = (size_t)(fit->N * (fit->K + 1) * fit->D) * sizeof(pu_real);
    /* Arrays that this fit does not have are NULL. */
    void *const part[] = {fit,    fit->theta, fit->best_theta, fit->m,   fit->next, fit->v,
                          fit->g, fit->S,     fit->Y,          fit->rho, fit->x};
    const size_t bytes[] = {offsetof(pu__fit, model), n, n, n, n, n, n, pairs * n, pairs * n,
                            pairs * sizeof(double),   x};
    size_t done;
    *h = PU__FNV;
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        if (!part[i])
            continue;
        done = is_write ? fwrite(part[i], 1, bytes[i], file) : fread(part[i], 1, bytes[i], file);
        if (done != bytes[i])
            return 0;
        *h = pu__fnv(*h, part[i], done);
    }
    return 1;
}

/* path (PU__PATH) = the file that a name leads to. Links are followed here, because renaming would replace the link.
   Returns what is wrong: the name, or a file that is there and must not be replaced, being no checkpoint. */
PU__FN const char *pu__checkpoint_path(const char *name, char *path)
{
    pu__text text = {path, 0, PU__PATH};
    char start[7];
    pu__put(&text, name);
#ifdef PU__POSIX
    int links = 0;
    char link[PU__PATH];
    struct stat about;
    for (; links < 40; links++) {
        ssize_t length = readlink(path, link, sizeof link - 1);
        if (length < 0)
            break;
        link[length] = 0;
        /* A relative one begins where the link is. */
        const char *slash = link[0] == '/' ? NULL : strrchr(path, '/');
        text.used = slash ? (size_t)(slash + 1 - path) : 0;
        pu__put(&text, link);
    }
    if (links == 40 || (!stat(path, &about) && !S_ISREG(about.st_mode)))
        return "checkpoint: not a regular file";
#endif
    if (!text.used || text.used + 64 > PU__PATH)
        return "checkpoint: the name is empty or too long";
    FILE *file = fopen(path, "rb");
    if (!file) {
#ifdef PU__POSIX
        if (!stat(path, &about))
            return "checkpoint: the file is there, but cannot be read";
#endif
        return NULL;
    }
    size_t count = fread(start, 1, sizeof start, file);
    int is_other = ferror(file) || (count && (count < sizeof start || memcmp(start, PU__MAGIC, sizeof start)));
    fclose(file);
    return is_other ? "checkpoint: the file is there, but is no checkpoint; it is not replaced" : NULL;
}

/* A new file beside path, whose name becomes that of the file. Exclusive ("x"), so that no other writer has it. */
PU__FN FILE *pu__checkpoint_open(char *path)
{
    size_t end = strlen(path);
    FILE *file = NULL;
    for (int attempt = 0; !file && attempt < 100; attempt++) {
        pu__text text = {path, end, PU__PATH};
        pu__put_number(&text, ".new", attempt);
#ifdef PU__POSIX
        pu__put_number(&text, "-", (pu_int)getpid());
#endif
        file = fopen(path, "wbx");
    }
    return file;
}

/* Sees to it that what was written survives a crash of the machine, where POSIX says how. */
PU__FN int pu__checkpoint_flush(FILE *file)
{
    int ok = !fflush(file);
#ifdef PU__POSIX
    ok = ok && !fsync(fileno(file));
#endif
    return ok;
}

/* The same for the directory, in which a file was renamed. Not all file systems can; path is destroyed. */
PU__FN void pu__checkpoint_flush_directory(PU_UNUSED char *path)
{
#ifdef PU__POSIX
    char *slash = strrchr(path, '/');
    if (slash)
        slash[1] = 0;
    int directory = open(slash ? path : ".", O_RDONLY);
    if (directory < 0)
        return;
    (void)fsync(directory);
    close(directory);
#endif
}

/* Writes the checkpoint, or says what is wrong. It is made beside the file and renamed: the file holds the
   old state or the new one at any moment, never half of either. is_trial: all that but the renaming. */
PU__FN const char *pu__fit_save(pu__fit *fit, int is_trial)
{
    char path[PU__PATH], fresh[PU__PATH];
    const char *wrong = pu__checkpoint_path(fit->o->checkpoint, path);
    uint64_t h;
    if (wrong)
        return wrong;
#ifdef PU__POSIX
    /* Renaming asks for rights to the directory alone. */
    if (!access(path, F_OK) && access(path, W_OK))
        return "checkpoint: the file is there, but cannot be written";
#endif
    memcpy(fresh, path, sizeof path);
    FILE *file = pu__checkpoint_open(fresh);
#ifdef ENAMETOOLONG
    if (!file && errno == ENAMETOOLONG)
        return "checkpoint: the name is too long, with what is appended to it for the new file";
#endif
    if (!file)
        return "checkpoint: cannot be opened for writing";
    int ok = fwrite(PU__MAGIC, 8, 1, file) && !pu__fit_agree(fit, file, 1) && pu__fit_transfer(fit, file, 1, &h) &&
             fwrite(&h, sizeof h, 1, file) && pu__checkpoint_flush(file);
    /* A full disk may show only here. */
    if (fclose(file) || !ok)
        wrong = "checkpoint: cannot be written (disk full?)";
#ifdef _WIN32
    /* There a name that is taken is not renamed to. */
    if (!wrong && !is_trial)
        remove(path);
#endif
    if (!wrong && !is_trial && rename(fresh, path))
        wrong = "checkpoint: cannot be renamed into place";
    if (wrong || is_trial)
        remove(fresh);
    else
        pu__checkpoint_flush_directory(path);
    return wrong;
}

/* Begins from the checkpoint if that is wanted and there is one. Returns what is wrong with it; the numbers
   of the fit are then as they were. */
PU__FN const char *pu__fit_resume(pu__fit *fit)
{
    pu__fit_list_agreed(fit);
    pu__fit fresh = *fit;
    char magic[8], path[PU__PATH];
    uint64_t h, told;
    if (!fit->o->resume)
        return NULL;
    const char *wrong = pu__checkpoint_path(fit->o->checkpoint, path);
    FILE *file = wrong ? NULL : fopen(path, "rb");
    if (!file)
        return wrong;
    if (!fread(magic, 8, 1, file) || memcmp(magic, PU__MAGIC, 8))
        wrong = "checkpoint: not a checkpoint of this version of the library";
    else
        wrong = pu__fit_agree(fit, file, 0);
    if (!wrong) {
        if (!pu__fit_transfer(fit, file, 0, &h) || !fread(&told, sizeof told, 1, file) || told != h ||
            fgetc(file) != EOF)
            wrong = PU__DAMAGED;
        else if (fit->step > (double)fit->report->steps)
            wrong = "checkpoint: has done more steps than fit.steps";
        else if (!pu__fit_is_sound(fit))
            wrong = PU__DAMAGED;
    }
    fclose(file);
    if (wrong)
        *fit = fresh;
    fit->report->resumed = (int)pu__min((pu_int)fit->step, INT32_MAX);
    return wrong;
}

#endif

/* ------------------------------------------------------------------------------------------------
   >>fit   from gradients to parameters: reports, options, the loop, standard errors
   ------------------------------------------------------------------------------------------------ */

/* ---- reports ---- */

/* Text and enumerator come from the same list. */
PU_DEF const char *pu_fit_stop_text(pu_fit_stop stop)
{
    switch (stop) {
        PU_FIT_STOP_LIST(PU__CASE_TEXT)
    case PU_FIT_STOPS: break;
    }
    return "unknown reason";
}

/* Status and culprit are put by pu_explain, which gets them as if they were the last gradient's. What
   follows is separated by semicolons and left out where it does not apply. */
PU_DEF const char *pu_fit_explain(const pu_fit_report *report, char *text, size_t size)
{
    if (!report || !text || !size)
        return pu_explain(NULL, text, size);
    pu_report outcome = report->last;
    outcome.status = report->status;
    outcome.where = report->where;
    pu_explain(&outcome, text, size);
    pu__text all = pu__text_after(text, size);
    if (!pu__fatal(report->status)) {
        /* A progress function is called before the fit is over. */
        int is_over = report->stop || report->step >= report->steps;
        pu__put(&all, "; ");
        pu__put(&all, is_over ? pu_fit_stop_text(report->stop) : "not at its end");
        if (report->stop == PU_FIT_BOUNDARY) {
            pu__put(&all, ": ");
            pu__put(&all, report->boundary_name);
            pu__put_number(&all, " and others, in all ", report->boundaries > 1 ? report->boundaries : -1);
        }
    }
    pu__put_number(&all, "; step ", report->step);
    pu__put_number(&all, " of ", report->steps);
    /* A standard error of -1 is unknown, and not told. */
    if (report->gradients) {
        double se = report->objective_se;
        pu__put_real(&all, "; objective ", report->objective);
        if (se > 0)
            pu__put_real(&all, " +- ", se);
        if (se == 0)
            pu__put(&all, " (exact)");
    }
    if (report->best_step >= 0) {
        pu__put_real(&all, "; best ", report->best);
        pu__put_number(&all, " at step ", report->best_step);
    }
    if (report->plan[0]) {
        pu__put(&all, "; ");
        pu__put(&all, report->plan);
    }
    if (report->last.plan[0]) {
        pu__put(&all, "; last gradient: ");
        pu__put(&all, report->last.plan);
    }
    return text;
}

/* The fit fails because of `what`, or as report->last says where that is NULL. */
PU__FN pu_status pu__fit_fail(pu_fit_report *report, pu_status status, const char *what)
{
    if (what)
        pu__refuse(&report->last, status, what);
    report->status = status;
    report->where = report->last.where;
    return status;
}

/* Brings the report up to date with the fit and the clock. The time left is that of the steps left at the
   speed so far, or of options.seconds where that is less. */
PU__FN void pu__fit_update_report(const pu__fit *fit)
{
    const pu_fit_options *o = fit->o;
    pu_fit_report *r = fit->report;
    r->step = (pu_int)fit->step;
    r->epoch = (pu_int)fit->epoch;
    r->gradients = (pu_int)fit->gradients;
    r->rejected = (pu_int)fit->rejected;
    r->doubtful = (pu_int)fit->doubtful;
    r->objective = fit->objective;
    r->objective_se = fit->objective_se;
    r->gradient = fit->gradient;
    r->gradient_se = fit->gradient_se;
    r->rate = fit->rate;
    r->validation = fit->validation;
    r->best = fit->best;
    r->best_step = (pu_int)fit->best_step;
    r->theta = fit->theta;
    /* Without a clock the times stay -1. */
    if (!o->clock)
        return;
    r->seconds = o->clock(o->user) - fit->start;
    r->steps_per_second = r->seconds > 0 ? (double)(r->step - r->resumed) / r->seconds : 0;
    r->seconds_left = r->steps_per_second > 0 ? (double)(r->steps - r->step) / r->steps_per_second : -1;
    if (o->seconds > 0 && r->seconds_left > o->seconds - r->seconds)
        r->seconds_left = pu__max(0, o->seconds - r->seconds);
}

/* ---- options ---- */

/* The first argument or option that makes no sense, and the status to refuse it with. NULL: there is none.
   Comparisons are written such that a NaN fails them. */
PU__FN const char *pu__fit_wrong_argument(const pu__fit *fit, const pu_real *theta, pu_status *status)
{
    const pu_fit_options *o = fit->o;
    const pu_options *g = &o->gradient;
    const pu_solve_options *solve = &g->solve;
    int is_lbfgs = o->optimizer == PU_LBFGS;
    int is_adam = o->optimizer <= PU_ADAM; /* or left to be chosen */
    *status = PU_E_NULL;
    if (!fit->model)
        return "model";
    if (!fit->data)
        return "data";
    if (!theta)
        return "theta";
    *status = PU_E_ARGUMENT;
    /* Each by itself. */
    if (fit->data->pick)
        return "data.pick (the fit picks)";
    if (o->steps < 0)
        return "fit.steps (at least 1, or 0 = the default)";
    if ((unsigned)o->optimizer > PU_LBFGS)
        return "fit.optimizer (one of pu_optimizer)";
    if ((unsigned)o->schedule > PU_RATE_TAIL)
        return "fit.schedule (one of pu_schedule)";
    if (!pu__is_within(o->rate, HUGE_VAL))
        return "fit.rate (0 = the default, or positive and finite)";
    /* What another optimiser or schedule reads would do nothing. */
    if (!pu__is_within(o->beta1, 1) || (!is_adam && o->beta1 != 0))
        return "fit.beta1 (needs PU_ADAM; 0 = 0.9, or positive and below 1)";
    if (!pu__is_within(o->beta2, 1) || (!is_adam && o->beta2 != 0))
        return "fit.beta2 (needs PU_ADAM; 0 = 0.999, or positive and below 1)";
    if (!pu__is_within(o->epsilon, HUGE_VAL) || (!is_adam && o->epsilon != 0))
        return "fit.epsilon (needs PU_ADAM; 0 = 1e-8, or positive)";
    if (!(o->momentum < 1 && o->momentum > -HUGE_VAL) || (o->optimizer != PU_SGD && o->momentum != 0))
        return "fit.momentum (needs PU_SGD; below 1, 0 = 0.9, negative = none)";
    if (!pu__is_within(o->decay, HUGE_VAL) || (o->schedule != PU_RATE_HYPERBOLIC && o->decay != 0))
        return "fit.decay (needs PU_RATE_HYPERBOLIC; 0 = a tenth of the steps, or positive)";
    if (!pu__is_within(o->tolerance, HUGE_VAL))
        return "fit.tolerance (0 or more)";
    /* Mini-batches renumber the data, so arrays of each datum do not go with them. */
    if (o->batch < 0 || o->batch > fit->data->n)
        return "fit.batch (data per gradient, or 0 = all)";
    if (o->accumulate < 0 || o->accumulate > INT32_MAX || (o->accumulate > 1 && !o->batch))
        return "fit.accumulate (at least 1, or 0 = 1; more than 1 only with fit.batch)";
    if (o->history < 0 || o->history > 10000 || (o->history && o->optimizer && !is_lbfgs))
        return "fit.history (needs PU_LBFGS; 1 to 10000, or 0 = 10)";
    if (o->batch && ((solve->precond && solve->precond_stride != PU_ZERO) || solve->step))
        return "fit.gradient.solve.precond or step (of each datum: not with mini-batches)";
    if (o->validate_every < 0 || (o->validate_every && !o->validate))
        return "fit.validate_every (needs validate; at least 1, or 0 = 10)";
    if (o->patience < 0 || (o->patience && !o->validate))
        return "fit.patience (at least 1, with validate; or 0 = never)";
    if (o->checkpoint_every < 0)
        return "fit.checkpoint_every (at least 1, or 0 = 10)";
    if (!pu__is_within(o->seconds, HUGE_VAL))
        return "fit.seconds (0 = no limit, or positive)";
    /* A warm start needs the same right-hand sides again, and as many of them. */
    if (o->warm_start && !o->fixed_probes)
        return "fit.warm_start (only with fixed_probes)";
    if (o->warm_start && pu__is_open(g))
        return "fit.warm_start (not with PU_CHOOSE; pu_tune first)";
    if (g->x0 || g->delta)
        return "fit.gradient.x0 or delta (the fit makes its own: fixed_probes, warm_start)";
    /* L-BFGS compares gradients of different steps, so they must not differ by noise. */
    if (is_lbfgs && o->batch)
        return "fit.batch (L-BFGS takes all data)";
    if (is_lbfgs && !o->fixed_probes && g->kind != PU_EXACT && pu__engine_asked(g, NULL) != PU_ENGINE_AUTO)
        return "fit.fixed_probes (L-BFGS needs them, or an exact gradient)";
    *status = PU_E_NULL;
    if (o->seconds > 0 && !o->clock)
        return "fit.clock (fit.seconds needs one)";
    if (o->resume && !o->checkpoint)
        return "fit.checkpoint (fit.resume needs its name)";
#ifdef PU_NO_STDIO
    *status = PU_E_UNSUPPORTED;
    if (o->checkpoint)
        return "fit.checkpoint (PU_NO_STDIO)";
#endif
    return NULL;
}

/* Puts the defaults where the caller left zeros, in options that have been checked. history is not among
   them: pu__fit has the number of pairs. */
PU__FN void pu__fit_defaults(pu_fit_options *o)
{
    /* Adam where nothing else was chosen, Adam, SGD, L-BFGS */
    static const double rate[] = {0.1, 0.1, 0.01, 1};
    if (!o->steps)
        o->steps = 200;
    if (o->rate == 0)
        o->rate = rate[o->optimizer];
    if (!(o->decay > 0))
        o->decay = (double)o->steps / 10;
    if (o->beta1 == 0)
        o->beta1 = 0.9;
    /* SGD's beta1 is its momentum. */
    if (o->optimizer == PU_SGD)
        o->beta1 = o->momentum == 0 ? 0.9 : pu__max(0, o->momentum);
    if (o->beta2 == 0)
        o->beta2 = 0.999;
    if (o->epsilon == 0)
        o->epsilon = 1e-8;
    if (!o->accumulate)
        o->accumulate = 1;
    if (!o->validate_every)
        o->validate_every = 10;
    if (!o->checkpoint_every)
        o->checkpoint_every = 10;
}

/* What zeroed options leave to the fit: the optimiser, with batches, schedule and steps where that is Adam. all: of
   pu_model_gradient_bytes for all data. */
PU__FN void pu__fit_choose(pu__fit *fit, const pu_report *all)
{
    static const char *const names[] = {"", "Adam", "SGD", "L-BFGS"};
    enum { BATCH = 100 };
    pu_fit_options *o = fit->o;
    pu_int N = fit->data->n;
    int is_adams = o->rate != 0 || o->schedule || o->decay != 0 || o->beta1 != 0 || o->beta2 != 0 || o->epsilon != 0 ||
                   o->batch || o->accumulate || o->warm_start;
    int is_exact = !all->served[PU_ITERATIVE], is_many = N >= 2 * BATCH;
    const char *why = "";
    if (o->optimizer == PU_OPTIMIZER_DEFAULT) {
        o->optimizer = PU_ADAM;
        why = " (chosen: its options are set)";
        if (!is_adams && is_exact && (!is_many || all->seconds <= 1)) {
            o->optimizer = PU_LBFGS;
            why = " (chosen: the gradient is exact and cheap)";
        } else if (!is_adams) {
            o->schedule = PU_RATE_COSINE;
            why = is_exact ? " (chosen: a gradient of all data takes long)" : " (chosen: the gradient is random)";
            if (is_many) {
                o->batch = BATCH;
                fit->comparable = 0;
                o->steps = o->steps ? o->steps : pu__most(200, 10 * N / BATCH);
            }
        }
    }
    if (fit->report) {
        pu__text text = {fit->report->plan, 0, sizeof fit->report->plan};
        pu__put(&text, names[o->optimizer]);
        pu__put_number(&text, ", mini-batches of ", o->batch ? o->batch : -1);
        pu__put(&text, o->schedule == PU_RATE_COSINE ? ", cosine of rates" : "");
        pu__put(&text, why);
    }
}

/* ---- memory ---- */

/* The fit of a model to data; the rest, but for what the options imply, is zero. *o becomes a copy of the
   options. */
PU__FN pu__fit pu__fit_make(pu_model *model, const pu_data *data, const pu_fit_options *options, pu_fit_options *o)
{
    pu_fit_options defaults = PU__ZERO;
    pu__fit fit = PU__ZERO;
    *o = options ? *options : defaults;
    fit.model = model;
    fit.data = data;
    fit.o = o;
    /* Validation takes the place of the objective. */
    fit.comparable = !o->batch && !o->validate;
    fit.pairs = o->history ? o->history : 10;
    /* Standard errors of gradients serve a tolerance in units of fresh noise, and nothing else. */
    fit.want_se = o->tolerance > 0 && !o->fixed_probes && o->gradient.kind != PU_EXACT;
    return fit;
}

/* The sizes of a pu__fit that knows K, and its arrays. Those that the options do not need stay NULL, which
   is how the rest of the code asks whether they are needed. */
PU__FN void pu__fit_layout(void *self, pu__arena *arena)
{
    pu__fit *fit = (pu__fit *)self;
    const pu_fit_options *o = fit->o;
    pu_int n = fit->model->params;
    fit->n = n;
    fit->N = fit->data->n;
    fit->D = fit->model->lgm.Gamma->rows;
    fit->theta = pu__reals(arena, n, 1);
    fit->next = pu__reals(arena, n, 1);
    fit->g = pu__reals(arena, n, 1);
    fit->m = pu__reals(arena, n, 1);
    /* SGD has no second moments. Points are compared by validation, or by an objective of all data. */
    if (o->optimizer != PU_SGD)
        fit->v = pu__reals(arena, n, 1);
    if (o->validate || !o->batch)
        fit->best_theta = pu__reals(arena, n, 1);
    if (o->accumulate > 1)
        fit->part = pu__reals(arena, n, 1);
    if (fit->want_se) {
        fit->part_se = pu__reals(arena, n, 1);
        fit->variance = pu__doubles(arena, n, 1);
    }
    if (o->batch)
        fit->order = pu__indices(arena, fit->N);
    /* The pairs, then 1 / s'y with the coefficients of the recursion. */
    if (o->optimizer == PU_LBFGS) {
        fit->S = pu__reals(arena, fit->pairs, n);
        fit->Y = pu__reals(arena, fit->pairs, n);
        fit->rho = pu__doubles(arena, 2 * fit->pairs, 1);
    }
    /* Solutions of all data, and those of a batch side by side. */
    if (o->warm_start) {
        fit->x = pu__reals(arena, fit->N * (fit->K + 1), fit->D);
        if (o->batch)
            fit->x_batch = pu__reals(arena, o->batch * (fit->K + 1), fit->D);
    }
}

/* The options are not checked: pu_fit does that. The size is for one block that holds the arrays of the fit
   and then the memory of the gradients, as pu__split_allocate divides it. */
PU_DEF pu_status pu_fit_bytes(pu_model *model, const pu_data *data, const pu_fit_options *options, size_t *bytes,
                              pu_report *report)
{
    pu_fit_options o;
    pu__fit fit = pu__fit_make(model, data, options, &o);
    pu__call call;
    pu__arena *arena = &call.arena;
    size_t all;
    report = pu__begin(&call, NULL, report);
    if (!bytes)
        return pu__refuse(report, PU_E_NULL, "bytes");
    /* All data as one batch: no mini-batch needs more. */
    pu_status status = pu_model_gradient_bytes(model, data, &o.gradient, fit.want_se, &all, report);
    if (status)
        return status;
    fit.K = report->samples;
    pu__fit_choose(&fit, report);
    pu__fit_layout(&fit, arena);
    /* The gradient stages the solutions of warm starts. */
    if (o.warm_start)
        pu__reals(arena, fit.N * (fit.K + 1), fit.D);
    report->bytes = *bytes = pu__add(pu__arena_bytes(arena), all, &arena->overflow);
    return arena->overflow ? pu__refuse(report, PU_E_OVERFLOW, "workspace") : PU_OK;
}

/* Memory of a call that makes many gradients: arrays of its own, and a workspace for the gradients. The arrays get a
   block of their own, or the front of the caller's fixed block, whose rest is for the gradients. memory: two
   workspaces, for the arrays and for that rest. Here the arrays of the layout are made, zeroed, and call->ws becomes
   the workspace for the gradients. To be given back by pu_workspace_free of the first. */
PU__FN pu_status pu__split_allocate(pu_workspace *memory, pu__call *call, pu__layout layout, void *self)
{
    pu_workspace *ws = call->ws, *rest = memory + 1;
    pu_status status = pu__check_workspace(ws, call->report);
    *memory = *ws;
    /* The block of a workspace that may grow is left to the gradients. */
    if (!ws->fixed)
        pu__workspace_set(memory, NULL, 0, 0);
    call->ws = memory;
    if (!status)
        status = pu__allocate(call, layout, self);
    if (status)
        return status;
    size_t need = pu__arena_bytes(&call->arena);
    memset(memory->block, 0, need);
    call->ws = ws;
    if (ws->fixed) {
        *rest = *ws;
        pu__workspace_set(rest, (unsigned char *)ws->block + need, ws->bytes - need, 1);
        call->ws = rest;
    }
    return PU_OK;
}

/* ---- the loop ---- */

/* K and I for PU_CHOOSE: from the checkpoint, or found once with as many data as a step has. They stay the
   same for the whole fit, because gradients of different steps must be comparable, and because a pilot
   costs as much as some of them. */
PU__FN pu_status pu__fit_tune(pu__fit *fit)
{
    const pu_fit_options *o = fit->o;
    pu_options *g = &fit->o->gradient;
    pu_data few = *fit->data;
    if (!pu__to_tune(g))
        return PU_OK;
    if (fit->samples > 0) {
        g->samples = (pu_int)fit->samples;
        g->solve.iterations = (pu_int)fit->iterations;
        g->error = 0;
        return PU_OK;
    }
    /* The batches of a step, but hardly more than all data. */
    if (o->batch)
        few.n = pu__min(pu__min(o->batch, few.n / o->accumulate + 1) * o->accumulate, few.n);
    pu_status status = pu__model_tune(fit->model, &few, g, fit->ws, &fit->report->last);
    fit->samples = (double)g->samples;
    fit->iterations = (double)g->solve.iterations;
    return status ? pu__fit_fail(fit->report, status, NULL) : PU_OK;
}

/* After a step: validation, the best point, the progress function. report->stop tells whether and why to
   end here; of several reasons the first counts, but the progress function is called in any case. */
PU__FN void pu__fit_judge(pu__fit *fit)
{
    const pu_fit_options *o = fit->o;
    pu_int step = (pu_int)fit->step;
    pu_fit_report *r = fit->report;
    if (o->validate && (step % o->validate_every == 0 || step == r->steps)) {
        /* Smaller is better. A NaN never is, and ends the fit. */
        double value = o->validate(fit->model, fit->theta, o->user);
        int is_best = value < fit->best;
        fit->validation = value;
        fit->stale = is_best ? 0 : fit->stale + 1;
        if (is_best)
            pu__fit_keep_best(fit, value, fit->step);
        if (value != value || (o->patience && (pu_int)fit->stale >= o->patience))
            r->stop = PU_FIT_VALIDATION;
    }
    /* Fresh noise: |g| against its standard error, three times running. Without it the tolerance is
       absolute, and once is enough. */
    if (o->tolerance > 0) {
        int is_quiet = fit->exact || o->fixed_probes;
        double limit = is_quiet ? o->tolerance : o->tolerance * fit->gradient_se;
        fit->within = fit->gradient <= limit ? fit->within + 1 : 0;
        if (!r->stop && fit->within >= (is_quiet ? 1 : 3))
            r->stop = PU_FIT_GRADIENT;
    }
    pu__fit_update_report(fit);
    if (!r->stop && o->seconds > 0 && r->seconds >= o->seconds)
        r->stop = PU_FIT_TIME;
    if (o->progress && o->progress(r, o->user) && !r->stop)
        r->stop = PU_FIT_CALLBACK;
}

/* Steps until there is a reason to end. PU_FIT_STEPS, which is 0, means that there is none yet. A failed
   step leaves no checkpoint: the last one is whole, and one step back. */
PU__FN pu_status pu__fit_loop(pu__fit *fit)
{
    const pu_fit_options *o = fit->o;
    pu_fit_report *r = fit->report;
    while (!r->stop && r->step < r->steps) {
        pu_status status = (o->optimizer == PU_LBFGS ? pu__fit_lbfgs : pu__fit_first_order)(fit);
        /* Stuck: no step was made, and none will be. */
        if (status || r->stop)
            pu__fit_update_report(fit);
        else {
            fit->step++;
            pu__fit_judge(fit);
        }
        if (status)
            return pu__fit_fail(r, status, NULL);
#ifndef PU_NO_STDIO
        /* Now and then, and always at the end. */
        if (o->checkpoint && (r->stop || r->step % o->checkpoint_every == 0 || r->step == r->steps)) {
            const char *wrong = pu__fit_save(fit, 0);
            if (wrong)
                return pu__fit_fail(r, PU_E_FILE, wrong);
        }
#endif
    }
    return PU_OK;
}

/* The fit from its start, or from its checkpoint, to the end. theta (n) is the result: the best point, or
   the last where points cannot be compared. */
PU__FN pu_status pu__fit_run(pu__fit *fit, pu_real *theta)
{
    pu_fit_options *o = fit->o;
    pu_fit_report *r = fit->report;
    /* All else was zeroed with the memory. */
    pu__copy(fit->theta, theta, fit->n);
    pu__copy(fit->next, theta, fit->n);
    if (fit->best_theta)
        pu__copy(fit->best_theta, theta, fit->n);
    fit->best = fit->mark = fit->rested = HUGE_VAL;
    fit->best_step = -1;
    fit->validation = (double)NAN;
    pu__fit_defaults(o);
    const char *wrong = NULL;
#ifndef PU_NO_STDIO
    /* Before K and I are chosen: a checkpoint goes with PU_CHOOSE. A file that cannot be written shows before the first
       step, not after hours. */
    wrong = pu__fit_resume(fit);
    if (!wrong && o->checkpoint && (pu_int)fit->step < r->steps)
        wrong = pu__fit_save(fit, 1);
#endif
    pu_status status = wrong ? pu__fit_fail(r, PU_E_FILE, wrong) : pu__fit_tune(fit);
    if (o->clock)
        fit->start = o->clock(o->user);
    pu__fit_update_report(fit);
    if (status)
        return status;
    /* An interrupted epoch goes on in the same order. */
    if (fit->order)
        pu__fit_shuffle(fit);
    status = pu__fit_loop(fit);
    /* Whatever happened, the best point so far; but nothing did when the first checkpoint fails. */
    if (status != PU_E_FILE || r->step > r->resumed)
        pu__copy(theta, fit->best_step >= 0 ? fit->best_theta : fit->theta, fit->n);
    if (status)
        return status;
    pu_model_set(fit->model, theta, NULL);
    r->status = (pu_status)(int)(fit->best_step >= 0 ? fit->best_doubt : fit->doubt);
    if (r->status)
        r->where = r->last.where;
    return r->status;
}

/* Do these data, whose shape was checked, have no entry at all? A fit would follow the rounding errors of zeros. */
PU__FN int pu__is_unobserved(const pu_data *data)
{
    pu_int row, n = 0;
    pu_real y;
    while (n < data->n && pu__observed(data, n, 0, &row, &y) < 0)
        n++;
    return n == data->n;
}

/* Checks, memory, and the run. theta is checked by setting the model to it, the data and options of the
   gradient by asking for its size, which also tells K. */
PU_DEF pu_status pu_fit(pu_model *model, const pu_data *data, const pu_fit_options *options, pu_workspace *ws,
                        pu_real *theta, pu_fit_report *report)
{
    pu_fit_report local;
    pu_fit_options o;
    pu__fit fit = pu__fit_make(model, data, options, &o);
    pu__call call;
    pu_workspace memory[2];
    size_t bytes;
    pu_status status;
    if (!report)
        report = &local;
    memset(report, 0, sizeof *report);
    pu_report *last = pu__begin(&call, ws, &report->last);
    fit.report = report;
    /* What a refused fit tells: -1 where nothing was measured. */
    report->where = last->where;
    report->seconds = report->steps_per_second = report->seconds_left = -1;
    report->steps = o.steps ? o.steps : 200;
    report->best_step = report->boundary = -1;
    const char *wrong = pu__fit_wrong_argument(&fit, theta, &status);
    if (wrong) {
        (void)pu__fit_fail(report, status, wrong);
        if (data && o.batch > data->n && strncmp(wrong, "fit.batch", 9) == 0)
            report->where.most = data->n;
        return status;
    }
    status = pu_model_set(model, theta, last);
    if (!status)
        status = pu_model_gradient_bytes(model, data, &o.gradient, 0, &bytes, last);
    fit.K = last->samples;
    if (!status && pu__is_unobserved(data))
        status = pu__refuse(last, PU_E_ARGUMENT, "data (nothing is observed)");
    if (!status) {
        pu__fit_choose(&fit, last);
        report->steps = o.steps ? o.steps : 200;
        status = pu__split_allocate(memory, &call, pu__fit_layout, &fit);
    }
    if (status)
        return pu__fit_fail(report, status, NULL);
    fit.ws = call.ws;
    /* passes over theta are short: never more threads than they are worth */
    fit.threads = pu__threads(0, 3.0 * (double)fit.n);
    if (o.gradient.threads && o.gradient.threads < fit.threads)
        fit.threads = o.gradient.threads;
    status = pu__fit_run(&fit, theta);
    report->theta = theta;
    pu_workspace_free(memory);
    return pu__finish(&call, status);
}

/* ---- standard errors ---- */

/* H, the second derivative of the mean NLL in theta (n), and room to measure it. */
typedef struct {
    pu_model *model;
    const pu_data *data;
    const pu_options *options;
    pu_workspace *ws;
    pu_report *report;
    const pu_real *theta;
    pu_int n;
    /* 3 n: a point beside theta, gradients above and below theta */
    pu_real *points;
    /* n x n each: H, and its eigenvectors as columns */
    double *H, *V;
    /* n: the gradient; n: square roots of H's diagonal, 0 where a parameter has no influence */
    double *g, *root;
    /* Gradients that lost digits, of which H is made. */
    int inexact;
} pu__hessian;

/* The arrays of a pu__hessian that knows n. */
PU__FN void pu__hessian_layout(void *self, pu__arena *arena)
{
    pu__hessian *h = (pu__hessian *)self;
    h->points = pu__reals(arena, 3, h->n);
    h->H = pu__doubles(arena, h->n, h->n);
    h->V = pu__doubles(arena, h->n, h->n);
    h->g = pu__doubles(arena, h->n, 1);
    h->root = pu__doubles(arena, h->n, 1);
}

/* Gradients at theta + s e_i and theta - s e_i, into `points`; *width: their distance as it was rounded. */
PU__FN pu_status pu__hessian_sides(pu__hessian *h, pu_int i, double s, double *width)
{
    pu_real *at = h->points;
    double centre = (double)h->theta[i];
    pu__copy(at, h->theta, h->n);
    *width = 0;
    /* above, then below, as far off as the other came to be */
    for (int side = 0; side < 2; side++) {
        at[i] = (pu_real)(side ? 2 * centre - *width : centre + s);
        pu_status status = pu_model_gradient(h->model, at, h->data, h->options, h->ws, at + (side + 1) * h->n, NULL, h->report);
        if (pu__fatal(status))
            return status;
        h->inexact += status == PU_INEXACT;
        *width = (double)at[i] - *width;
    }
    *width = -*width;
    return PU_OK;
}

/* Row i of H = (g(theta + s e_i) - g(theta - s e_i)) / width. The step s balances the error of the differences, s^2,
   against rounding, eps / s. A parameter on a log or atanh scale that seems to have little influence may have none: a
   wider difference, which rounding disturbs less, decides that. */
PU__FN pu_status pu__hessian_measure(pu__hessian *h)
{
    double step = pow((double)PU__EPS, 1.0 / 3), N = (double)h->data->n, width;
    pu_int n = h->n;
    pu_real *above = h->points + n, *below = above + n;
    for (pu_int i = 0; i < n; i++) {
        double *row = h->H + i * n;
        pu_status status = pu__hessian_sides(h, i, step * pu__max(1, fabs((double)h->theta[i])), &width);
        if (status)
            return status;
        for (pu_int j = 0; j < n; j++)
            row[j] = ((double)above[j] - (double)below[j]) / width;
        h->g[i] = ((double)above[i] + (double)below[i]) / 2;
        h->root[i] = sqrt(fabs(row[i]));
        if (N * fabs(row[i]) > 1 || !pu__is_scaled(h->model, i))
            continue;
        status = pu__hessian_sides(h, i, 0.25, &width);
        if (status && !pu__fit_too_far(status))
            return status;
        if (!status && N * fabs((double)above[i] - (double)below[i]) < PU__INFLUENCE * width)
            h->root[i] = 0;
    }
    return PU_OK;
}

/* Jacobi's method: the symmetric n x n matrix A becomes the diagonal of its eigenvalues, V's columns the eigenvectors.
   Each rotation makes A_pq zero; the rest shrinks quadratically after a few sweeps. */
PU__FN void pu__jacobi(pu_int n, double *A, double *V)
{
    memset(V, 0, (size_t)(n * n) * sizeof *V);
    for (pu_int i = 0; i < n; i++)
        V[i * n + i] = 1;
    for (int sweep = 0, turned = 1; sweep < 40 && turned; sweep++) {
        turned = 0;
        for (pu_int p = 0; p < n; p++)
            for (pu_int q = p + 1; q < n; q++) {
                double off = A[p * n + q], gap = A[q * n + q] - A[p * n + p];
                if (fabs(off) <= 1e-17 * (fabs(A[p * n + p]) + fabs(A[q * n + q])))
                    continue;
                turned = 1;
                double t = 2 * off / (fabs(gap) + sqrt(gap * gap + 4 * off * off));
                t = gap < 0 ? -t : t;
                double c = 1 / sqrt(1 + t * t), s = t * c;
                for (pu_int i = 0; i < n; i++) {
                    double x = A[i * n + p], y = A[i * n + q], v = V[i * n + p], w = V[i * n + q];
                    A[i * n + p] = c * x - s * y;
                    A[i * n + q] = s * x + c * y;
                    V[i * n + p] = c * v - s * w;
                    V[i * n + q] = s * v + c * w;
                }
                for (pu_int i = 0; i < n; i++) {
                    double x = A[p * n + i], y = A[q * n + i];
                    A[p * n + i] = c * x - s * y;
                    A[q * n + i] = s * x + c * y;
                }
            }
    }
}

/* H scaled to a unit diagonal and made symmetric; parameters without influence get a row of zeros. Returns the size of
   eigenvalues that are none. There are two reasons for those: rounding and noise, which the asymmetry shows, and that
   theta is not quite the minimum: along a curve of equal likelihood, say a rotation of factors, the second derivative is
   that of the curve times the gradient, about |gradient| / |theta|, all in standard errors. */
PU__FN double pu__hessian_scale(pu__hessian *h)
{
    pu_int n = h->n;
    double odd = 0, gradient = 0, length = 0, rounding = pow((double)PU__EPS, 2.0 / 3);
    for (pu_int i = 0; i < n; i++) {
        double root = h->root[i], size = (double)h->theta[i] * root;
        length += size * size;
        if (root > 0)
            gradient += h->g[i] / root * (h->g[i] / root);
        for (pu_int j = 0; j <= i; j++) {
            double *upper = h->H + j * n + i, *lower = h->H + i * n + j, scale = root * h->root[j];
            double sum = scale > 0 ? (*upper + *lower) / (2 * scale) : 0;
            double off = scale > 0 ? (*upper - *lower) / scale : 0;
            *upper = *lower = sum;
            odd += off * off;
        }
    }
    return 4 * sqrt(odd / (double)n) + 16 * (double)n * rounding + (length > 0 ? 2 * sqrt(gradient / length) : 0);
}

/* out = (N H)^-1, or the roots of its diagonal unless is_full, from the eigenvectors of the scaled H. A parameter that
   takes part in a direction without curvature is not identified, and its entries are NaN. Returns the first such
   parameter, or -1. *bad: a parameter in whose direction H is negative; nothing is written. Else -1. */
PU__FN pu_int pu__hessian_invert(pu__hessian *h, int is_full, pu_real *out, pu_int *bad)
{
    pu_int n = h->n, first = -1;
    double N = (double)h->data->n, least = pu__hessian_scale(h);
    pu__jacobi(n, h->H, h->V);
    *bad = -1;
    for (pu_int k = 0; k < n; k++)
        if (h->H[k * n + k] < -least)
            for (pu_int i = 0; i < n; i++)
                if (*bad < 0 || fabs(h->V[i * n + k]) > fabs(h->V[*bad * n + k]))
                    *bad = i;
    if (*bad >= 0)
        return -1;
    for (pu_int i = n - 1; i >= 0; i--) {
        double flat = 0;
        for (pu_int k = 0; k < n; k++)
            if (h->H[k * n + k] <= least)
                flat += h->V[i * n + k] * h->V[i * n + k];
        /* a hundredth of the parameter */
        if (flat > 1e-4)
            h->root[i] = 0;
        if (h->root[i] == 0)
            first = i;
    }
    for (pu_int i = 0; i < n; i++)
        for (pu_int j = is_full ? 0 : i; j <= i; j++) {
            double sum = 0, scale = N * h->root[i] * h->root[j];
            for (pu_int k = 0; k < n; k++)
                if (h->H[k * n + k] > least)
                    sum += h->V[i * n + k] * h->V[j * n + k] / h->H[k * n + k];
            sum = scale > 0 ? sum / scale : (double)NAN;
            if (is_full)
                out[i * n + j] = out[j * n + i] = (pu_real)sum;
            else
                out[i] = (pu_real)sqrt(sum);
        }
    return first;
}

/* pu_fit_covariance (is_full) and pu_fit_errors. The model is left set to theta. */
PU__FN pu_status pu__fit_covariance(pu_model *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                                    const pu_real *theta, int is_full, pu_real *out, pu_report *report)
{
    pu__call call;
    pu_workspace memory[2];
    pu_options o = PU__ZERO;
    pu__hessian h = PU__ZERO;
    report = pu__begin(&call, ws, report);
    pu_status status = pu_model_set(model, theta, report);
    if (status)
        return status;
    if (!out)
        return pu__refuse(report, PU_E_NULL, is_full ? "covariance" : "se");
    if (!data)
        return pu__refuse(report, PU_E_NULL, "data");
    h.model = model;
    h.data = data;
    h.options = &o;
    h.report = report;
    h.theta = theta;
    h.n = model->params;
    status = pu__split_allocate(memory, &call, pu__hessian_layout, &h);
    if (status)
        return status;
    h.ws = call.ws;
    if (options)
        o = *options;
    /* All gradients must have the same probes and steps. */
    if (pu__to_tune(&o))
        status = pu__model_tune(model, data, &o, call.ws, report);
    if (!status)
        status = pu__hessian_measure(&h);
    if (!status && pu__is_unobserved(data))
        status = pu__refuse(report, PU_E_ARGUMENT, "data (nothing is observed)");
    if (!status) {
        const char *what = h.inexact ? "second derivative in theta (of inexact gradients)" : "second derivative in theta";
        pu_int bad, first = pu__hessian_invert(&h, is_full, out, &bad);
        if (bad >= 0)
            status = pu__fail(report, PU_E_NOT_DEFINITE, what, -1, bad);
        else if (first >= 0)
            status = pu__fail(report, PU_UNIDENTIFIED, "theta", -1, first);
        else if (h.inexact)
            status = pu__refuse(report, PU_INEXACT, what);
    }
    pu_model_set(model, theta, NULL);
    pu_workspace_free(memory);
    return pu__finish(&call, status);
}

/* se: params */
PU_DEF pu_status pu_fit_errors(pu_model *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                               const pu_real *theta, pu_real *se, pu_report *report)
{
    return pu__fit_covariance(model, data, options, ws, theta, 0, se, report);
}

/* covariance: params x params */
PU_DEF pu_status pu_fit_covariance(pu_model *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                                   const pu_real *theta, pu_real *covariance, pu_report *report)
{
    return pu__fit_covariance(model, data, options, ws, theta, 1, covariance, report);
}

/* ------------------------------------------------------------------------------------------------
   >>trial   operators and models that a user wrote, tried out

   Every function runs in boxes: arrays with guards on both sides, inputs among NaN, outputs and scratch among bytes
   of a pattern, scratch itself NaN. So a read or a write outside shows in the result or in the guards, and does no
   harm. What a function gives is first compared with itself (one column at a time, several, added), then with what
   `apply` and `grad` give for the same: these two are the definition of an operator, and `grad` is compared with
   differences.
   The table pu__shapes has a row for each function; what is special about one is in pu__trial_call (how to call it) and
   in pu__trial_values (what it must give).
   ------------------------------------------------------------------------------------------------ */

enum { PU__TRIAL_COLUMNS = 3, PU__TRIAL_GAP = 5, PU__TRIAL_PATTERN = 0xa5, PU__CANONICAL = 6 };

/* What is tried: the functions of an operator, then those of a model. */
#define PU__TRIAL_LIST(X)                                                                                              \
    PU__OP_FUNCTIONS(X) X(check) X(set) X(start) X(describe) X(uses) X(model_grad)
enum {
#define PU__X(f) PU__TRY_##f,
    PU__TRIAL_LIST(PU__X)
#undef PU__X
    PU__TRIES,
    PU__OP_TRIES = PU__TRY_check + 1
};

/* Lengths of vectors: of p (a model: of all canonical gradients), q, e, some; of outputs. */
enum { PU__OF_ROWS, PU__OF_COLS, PU__OF_NOISE, PU__OF_HALF, PU__OF_PARAMS, PU__OF_ONE, PU__OF_NONE, PU__LENGTHS };

/* How a function takes and gives, and what it takes to know its values: */
enum {
    /* Y = .. or Y += ..; always Y += .. */
    PU__TRIAL_MAY_ADD = 1,
    PU__TRIAL_ADDS = 2,
    /* several columns at once; of which it gives the sum */
    PU__TRIAL_MANY = 4,
    PU__TRIAL_SUM = 8,
    /* that it is linear is tested */
    PU__TRIAL_LINEAR = 16,
    /* known by products with all unit vectors: pu__trial_units; by the Cholesky factor of Op */
    PU__TRIAL_UNITS = 32,
    PU__TRIAL_FACTOR = 64,
    PU__TRIAL_PRODUCT = PU__TRIAL_MANY | PU__TRIAL_MAY_ADD,
    PU__TRIAL_GRAD = PU__TRIAL_MANY | PU__TRIAL_ADDS | PU__TRIAL_SUM
};

/* One function: what goes in, what comes out, how, the function that it is compared with, and that in words. */
typedef struct {
    unsigned char in, out, how, by;
    const char *what;
} pu__shape;

/* In the order of PU__TRIAL_LIST; {0, 0, 0, 0, ""}: has a function of its own. A band is tried as its product with
   q, the rows as theirs. */
static const pu__shape pu__shapes[PU__TRIES] = {
    {PU__OF_COLS, PU__OF_ROWS, PU__TRIAL_PRODUCT | PU__TRIAL_LINEAR, PU__TRY_apply, ""},
    {PU__OF_ROWS, PU__OF_COLS, PU__TRIAL_PRODUCT | PU__TRIAL_UNITS, PU__TRY_apply, "against the transpose of apply"},
    {PU__OF_ROWS, PU__OF_PARAMS, PU__TRIAL_GRAD, PU__TRY_apply, "against differences"},
    {PU__OF_NONE, PU__OF_ROWS, PU__TRIAL_ADDS | PU__TRIAL_UNITS, PU__TRY_apply, "against Op_ii of apply"},
    {PU__OF_ROWS, PU__OF_COLS, PU__TRIAL_ADDS | PU__TRIAL_UNITS, PU__TRY_apply, "against sum_m w_m Op_mi^2 of apply"},
    {PU__OF_NOISE, PU__OF_ROWS, PU__TRIAL_MANY | PU__TRIAL_UNITS, PU__TRY_apply, "F F'q against Op q"},
    {PU__OF_COLS, PU__OF_ROWS, PU__TRIAL_MANY, PU__TRY_apply, "Op Op^-1 q against q"},
    {PU__OF_NONE, PU__OF_ONE, PU__TRIAL_FACTOR, PU__TRY_apply, "against the log det of apply"},
    {PU__OF_NONE, PU__OF_PARAMS, PU__TRIAL_ADDS | PU__TRIAL_FACTOR, PU__TRY_grad, "against grad"},
    {PU__OF_NONE, PU__OF_ONE, 0, PU__TRY_apply, ""},
    {PU__OF_COLS, PU__OF_HALF, PU__TRIAL_PRODUCT, PU__TRY_apply, "against apply"},
    {PU__OF_HALF, PU__OF_COLS, PU__TRIAL_PRODUCT, PU__TRY_apply_t, "against apply_t"},
    {PU__OF_HALF, PU__OF_PARAMS, PU__TRIAL_GRAD, PU__TRY_grad, "against grad"},
    {PU__OF_COLS, PU__OF_ROWS, PU__TRIAL_ADDS, PU__TRY_apply, "against apply"},
    {PU__OF_COLS, PU__OF_PARAMS, PU__TRIAL_ADDS, PU__TRY_grad, "against grad"},
    {PU__OF_COLS, PU__OF_ROWS, PU__TRIAL_ADDS, PU__TRY_apply, "against apply"},
    {PU__OF_ROWS, PU__OF_PARAMS, PU__TRIAL_ADDS, PU__TRY_grad, "against grad"},
    {0, 0, 0, 0, ""}, /* check */
    {0, 0, 0, 0, ""}, /* set */
    {PU__OF_NONE, PU__OF_PARAMS, 0, 0, ""},
    {0, 0, 0, 0, ""}, /* describe */
    {0, 0, 0, 0, ""}, /* uses */
    {PU__OF_ROWS, PU__OF_PARAMS, PU__TRIAL_LINEAR, 0, ""}};

/* A block with guards before and behind it. */
typedef struct {
    pu_real *from;    /* the guard before it */
    pu_block block;
    pu_int n, k;
    size_t bytes;     /* of all */
    uint64_t hash;    /* of all, as it was made */
} pu__box;
enum { PU__BOX_X, PU__BOX_Z, PU__BOX_Y, PU__BOX_WORK, PU__BOX_WIDE, PU__BOXES };

/* What is on trial: an operator, or a model. */
typedef struct {
    const pu_op *op;
    /* NULL: an operator that is none of a model's */
    pu_model *model;
    const pu_data *data;
    /* for likelihoods of the model */
    pu_options exact;
    pu_workspace ws;
    pu_check_options options;
    /* of the functions, in the order of the list; what is refused */
    pu_check_entry *entry;
    pu_report own;
    /* Op is to be symmetric positive definite, as Gamma must be; PU__TRIAL_UNITS: all columns of it are looked at,
       PU__TRIAL_FACTOR: the numbers of its Cholesky factor can be relied on */
    int prior, known;
    /* relative rounding of a sum over the rows, columns or normals; that of what is differentiated */
    double tolerance, rounding;
    /* |Op| (Frobenius), estimated; |Op| |q|, which the rounding of Op q is relative to */
    double size, reach;
    /* of Op; at least |Op| |Op^-1|; the inverse of the Cholesky factor, by rows */
    double logdet, condition, *factor;
    /* of vectors; of the canonical gradients in the order of PU_USES_*, all of which are p */
    pu_int length[PU__LENGTHS], canonical[PU__CANONICAL];
    /* reals of scratch per column; width and reals of the band that is tried; reals of a guard */
    pu_int scratch, width, band, guard;
    /* of a call: the first column of p, q, weight; reals between columns; what the output holds before, and 0 is
       nothing that is added to */
    pu_int column, gap;
    pu_real base;
    pu__box box[PU__BOXES];
    /* Vectors of `most` reals, which are one array. Random, three columns each, p positive: */
    pu_int most;
    pu_real *p, *q, *e, *some;
    /* `some` at every second row (`list`), zeros elsewhere; whatever */
    pu_real *masked, *spare;
    /* where parameters are read; what they were */
    pu_real *theta, *kept;
    /* results */
    pu_real *want, *got, *other;
    /* the other vectors of functions of two: q, but for once */
    const pu_real *with;
    pu_int *list;
} pu__trial;

static const pu_real pu__trial_weight[PU__TRIAL_COLUMNS] = {PU_R(0.75), PU_R(-1.25), PU_R(2.0)};

/* ---- findings ---- */

/* A fault of a function. The first one stays. */
PU__FN void pu__wrong(pu_check_entry *entry, const char *what, pu_int index)
{
    if (entry->wrong)
        return;
    entry->wrong = 1;
    entry->what = what;
    entry->index = index;
    entry->error = entry->allowed = 0;
}

/* n numbers against what they should be; against themselves, allowed = 0: whether they are finite. The entry keeps the
   number that came closest to what is allowed, or the first that failed. */
PU__FN void pu__compare(pu_check_entry *entry, const char *what, pu_int n, const pu_real *got, const pu_real *want,
                        double allowed)
{
    for (pu_int i = 0; i < n && !entry->wrong; i++) {
        double error = fabs((double)got[i] - (double)want[i]);
        if (!(error <= allowed))
            pu__wrong(entry, what, i);
        if (allowed > 0 && error * entry->allowed >= entry->error * allowed) {
            entry->what = what;
            entry->error = error;
            entry->allowed = allowed;
        }
    }
}

/* |x| */
PU__FN double pu__norm(pu_int n, const pu_real *x) { return sqrt(pu__dot(n, NULL, x, x)); }

/* ---- boxes ---- */

/* A hash of a box, with its guards. */
PU__FN uint64_t pu__box_hash(const pu__box *box) { return pu__fnv(PU__FNV, box->from, box->bytes); }

/* Overwrites what is inside of a box. */
PU__FN void pu__box_fill(const pu__box *box, int byte)
{
    for (pu_int j = 0; j < box->k; j++)
        memset(pu__col(box->block, j), byte, (size_t)box->n * sizeof(pu_real));
}

/* Makes a box of k columns of n reals, with gaps: an input x among NaN, or (NULL) nothing but the pattern. */
PU__FN void pu__box_open(pu__trial *t, int which, pu_int n, pu_int k, const pu_real *x)
{
    pu__box *box = &t->box[which];
    box->n = n;
    box->k = k;
    box->block.at = box->from + t->guard;
    box->block.ld = n + t->gap;
    box->bytes = (size_t)(2 * t->guard + k * box->block.ld) * sizeof(pu_real);
    memset(box->from, x ? 0xff : PU__TRIAL_PATTERN, box->bytes);
    for (pu_int j = 0; j < k && x; j++)
        pu__copy(pu__col(box->block, j), x + j * n, n);
    box->hash = pu__box_hash(box);
}

/* ---- one call of one function ---- */

/* y += Op q by `row`, or the gradient of p'Op q by `row_grad` (p not NULL), row after row. What `row` writes for the
   gradient is not looked at: that was tested. */
PU__FN pu_status pu__trial_rows(pu__trial *t, const pu_real *p, const pu_real *q, pu_real *y)
{
    const pu_op *op = t->op;
    pu_real *wide = t->box[PU__BOX_WIDE].block.at;
    double *g = (double *)(void *)wide;
    pu_int first = 0;
    for (pu_int m = 0; m < op->rows; m++) {
        pu_int count = op->row(op, m, &first, p ? t->spare : wide);
        if (count < 0 || count > op->band + 1 || first < 0 || first > op->cols - count)
            return PU_E_SIZE;
        if (!p) {
            y[m] += (pu_real)pu__dot(count, NULL, wide, q + first);
            continue;
        }
        for (pu_int j = 0; j < count; j++)
            g[j] = (double)(pu__trial_weight[0] * p[m] * q[first + j]);
        if (op->row_grad(op, m, g, y))
            return PU_E_OPERATOR;
    }
    return PU_OK;
}

/* y += Op q by band_add to a band of numbers of its size, or the gradient of q'Op q by band_grad of the band of q q'. Places that
   are not used are NaN. The diagonal counts twice in the sum below. */
PU__FN pu_status pu__trial_band(pu__trial *t, const pu_real *q, int grads, pu_real *y)
{
    pu_int n = t->op->rows, width = t->width;
    double *B = (double *)(void *)t->box[PU__BOX_WIDE].block.at, before = t->size > 0 ? t->size : 1;
    for (pu_int i = 0; i < n; i++)
        for (pu_int j = pu__most(0, i - width); j <= i; j++)
            B[i * (width + 1) + i - j] = grads ? (double)(q[i] * q[j]) : before;
    if (grads)
        return t->op->band_grad(t->op, width, B, (double)pu__trial_weight[0], y);
    if (t->op->band_add(t->op, width, B))
        return PU_E_OPERATOR;
    for (pu_int i = 0; i < n; i++)
        for (pu_int j = pu__most(0, i - width); j <= i; j++) {
            pu_real b = (pu_real)(B[i * (width + 1) + i - j] - before) / (i == j ? 2 : 1);
            y[i] += b * q[j];
            y[j] += b * q[i];
        }
    return PU_OK;
}

/* The model's grad is given all arrays, which are one, but not precond where `uses` names it, since nothing went
   through it. */
PU__FN pu_status pu__trial_pull(const pu__trial *t, pu_real *at, pu_real *grad)
{
    pu_gradient_result g = PU__ZERO;
    const pu_int *length = t->canonical;
    g.nu = at;
    g.Gamma = g.nu + length[0];
    g.Phi = g.Gamma + length[1];
    g.eta = g.Phi + length[2];
    g.psi = g.eta + length[3];
    if (!(t->model->uses & PU_USES_PRECOND))
        g.precond = g.psi + length[4];
    return t->model->grad(t->model, &g, grad);
}

/* Calls function f on k columns X, and Z, which are in their boxes. */
PU__FN pu_status pu__trial_call(pu__trial *t, int f, pu_int k, int add)
{
    const pu_op *op = t->op;
    const pu_real *weight = pu__trial_weight + t->column;
    const pu_int n = t->length[PU__OF_HALF], *list = t->list;
    pu_block X = t->box[PU__BOX_X].block, Z = t->box[PU__BOX_Z].block, Y = t->box[PU__BOX_Y].block;
    pu_real *x = X.at, *y = Y.at, *work = t->box[PU__BOX_WORK].block.at;
    double value = HUGE_VAL;
    pu_status status;
    switch (f) {
#define PU__CALL(f, ...)                                                                                               \
    case PU__TRY_##f: return op->f(op, __VA_ARGS__)
        PU__CALL(apply, k, X, Y, add, work);
        PU__CALL(apply_t, k, X, Y, add, work);
        PU__CALL(grad, k, X, Z, weight, y, work);
        PU__CALL(diag, y, work);
        PU__CALL(gram_diag, x, y, work);
        PU__CALL(sample, k, X, Y, work);
        PU__CALL(solve, k, X, Y, work);
        PU__CALL(logdet_grad, weight[0], y, work);
        PU__CALL(apply_rows, n, list, k, X, Y, add, work);
        PU__CALL(apply_rows_t, n, list, k, X, Y, add, work);
        PU__CALL(grad_rows, n, list, k, X, Z, weight, y, work);
#undef PU__CALL
    case PU__TRY_band_add: return pu__trial_band(t, x, 0, y);
    case PU__TRY_band_grad: return pu__trial_band(t, x, 1, y);
    case PU__TRY_row: return pu__trial_rows(t, NULL, x, y);
    case PU__TRY_row_grad: return pu__trial_rows(t, x, Z.at, y);
    /* not pu_model_start, which would refuse what is to be found here: a start that is not finite */
    case PU__TRY_start: return t->model->start(t->model, t->data, 0, y);
    case PU__TRY_model_grad: return pu__trial_pull(t, x, y);
    case PU__TRY_condition: y[0] = (pu_real)op->condition(op); return PU_OK;
    }
    status = op->logdet(op, &value, work);
    y[0] = (pu_real)value;
    return status;
}

/* What function f gives for k columns x, to `out`. Its output holds t->base before, which is taken off again; where
   nothing is to be added to it, it is infinite. It runs twice, the second time with the scratch that the first one
   left. */
PU__FN void pu__trial_of(pu__trial *t, int f, const pu_real *x, pu_int k, pu_real *out)
{
    static const char *const harm[PU__BOXES] = {
        "changes its input", "changes its input", "writes outside of its output, or between its columns (ld > rows)",
        "writes beyond k * op.work reals of scratch (to none, if op.work is 0)", "writes outside of its output"};
    const pu__shape *shape = &pu__shapes[f];
    pu_check_entry *entry = &t->entry[f];
    pu__box *box = t->box;
    const pu_block *Y = &box[PU__BOX_Y].block;
    pu_int cols = t->length[PU__OF_COLS], ny = t->length[shape->out], columns = shape->how & PU__TRIAL_SUM ? 1 : k;
    int add = t->base != 0 || shape->how & PU__TRIAL_ADDS;
    uint64_t output = 0, first = 0;
    pu__box_open(t, PU__BOX_X, t->length[shape->in], k, x);
    pu__box_open(t, PU__BOX_Z, cols, k, t->with + t->column * cols);
    pu__box_open(t, PU__BOX_Y, ny, columns, NULL);
    pu__box_open(t, PU__BOX_WORK, k * t->scratch, 1, NULL);
    pu__box_open(t, PU__BOX_WIDE, f == PU__TRY_row ? t->width : t->band, 1, NULL);
    pu__box_fill(&box[PU__BOX_WORK], 0xff);
    pu__box_fill(&box[PU__BOX_WIDE], 0xff);
    entry->tested = 1;
    /* what is not written stays infinite; a state or old scratch makes the second call differ */
    for (int again = 0; again < 2; again++) {
        for (pu_int i = 0; i < columns * ny; i++)
            pu__col(*Y, i / ny)[i % ny] = add ? t->base : (pu_real)HUGE_VAL;
        if (pu__trial_call(t, f, k, add))
            pu__wrong(entry, "did not return PU_OK (row: outside of the matrix, or more than band + 1)", -1);
        first = output;
        output = pu__box_hash(&box[PU__BOX_Y]);
    }
    for (pu_int i = 0; i < columns * ny; i++)
        out[i] = pu__col(*Y, i / ny)[i % ny] - t->base;
    /* with the pattern back where a function may write, every box is as it was made, unless there was harm */
    for (int b = 0; b < PU__BOXES; b++) {
        if (b >= PU__BOX_Y)
            pu__box_fill(&box[b], PU__TRIAL_PATTERN);
        if (box[b].hash != pu__box_hash(&box[b]))
            pu__wrong(entry, harm[b], -1);
    }
    if (output != first)
        pu__wrong(entry, "two calls with the same input differ", -1);
}

/* Function f against itself: one column at a time, three at once and apart, added to something, of -2 x. What it
   gives one at a time goes to t->want. Returns whether nothing is wrong. */
PU__FN int pu__trial_function(pu__trial *t, int f)
{
    const pu__shape *shape = &pu__shapes[f];
    const pu_real *x = t->p + shape->in * t->most;
    pu_check_entry *entry = &t->entry[f];
    int how = shape->how;
    pu_int nx = t->length[shape->in], ny = t->length[shape->out], k = how & PU__TRIAL_MANY ? PU__TRIAL_COLUMNS : 1;
    pu_int step = how & PU__TRIAL_SUM ? 0 : ny, all = ny + (k - 1) * step;
    double size, base;
    pu__zeros(t->want, all);
    for (t->column = 0; t->column < k; t->column++) {
        pu__trial_of(t, f, x + t->column * nx, 1, t->got);
        pu__axpy(ny, 1, t->got, t->want + t->column * step);
    }
    t->column = 0;
    pu__compare(entry, "not finite, or an entry that is not written", all, t->want, t->want, 0);
    size = pu__norm(all, t->want);
    base = size > 0 ? size / sqrt((double)all) : 1;
    /* columns apart, where an ld that is ignored hits a gap */
    t->gap = PU__TRIAL_GAP;
    if (how & PU__TRIAL_MANY) {
        pu__trial_of(t, f, x, k, t->got);
        pu__compare(entry, "k = 3 with ld > rows against k = 1", all, t->got, t->want, t->tolerance * size);
    }
    if (how & (PU__TRIAL_ADDS | PU__TRIAL_MAY_ADD)) {
        t->base = (pu_real)base;
        pu__trial_of(t, f, x, k, t->got);
        pu__compare(entry, "added to what was there", all, t->got, t->want, t->tolerance * (2 * size + base));
        t->base = 0;
    }
    t->gap = 0;
    /* f(-2 x) + 3 f(x) = f(x): no other sign, no power, no offset */
    if (how & PU__TRIAL_LINEAR) {
        pu__zeros(t->spare, nx);
        pu__axpy(nx, -2, x, t->spare);
        pu__trial_of(t, f, t->spare, 1, t->got);
        pu__axpy(ny, 3, t->want, t->got);
        pu__compare(entry, "linear: of -2 x against of x", ny, t->got, t->want, t->tolerance * size);
    }
    return !entry->wrong;
}

/* ---- gradients against differences ---- */

/* p'Op(theta) q; a prior, whose gradient may be symmetrised: q'Op q. The exact mean NLL of a model. Not finite:
   there is none at theta, or rounding took its digits. */
PU__FN double pu__trial_value(pu__trial *t)
{
    double nll;
    if (t->model)
        return pu_model_nll(t->model, t->theta, t->data, &t->exact, &t->ws, &nll, NULL, NULL) ? HUGE_VAL : nll;
    if (t->options.set && t->options.set(t->options.user, t->theta))
        return HUGE_VAL;
    pu__trial_of(t, PU__TRY_apply, t->q, 1, t->got);
    return (double)pu__trial_weight[0] * pu__dot(t->op->rows, NULL, t->prior ? t->q : t->p, t->got);
}

/* A gradient, t->want, against derivatives along groups of parameters, each moved by its size (a model's, many of
   which are logarithms, by at least 1) times h: central differences with steps h and 2 h, extrapolated. What they
   differ by measures the curvature, their fourth difference the noise; that and the rounding is what the derivative
   may be off by. */
PU__FN void pu__trial_slopes(pu__trial *t, pu_check_entry *entry)
{
    pu_int params = t->length[PU__OF_PARAMS], groups = pu__min(params, t->options.most);
    double f[5], h = pow((double)PU__EPS, 0.2), least = t->model ? 1 : 0;
    pu__copy(t->kept, t->theta, params);
    for (pu_int g = 0; g < groups && !entry->wrong; g++) {
        pu_real sum = 0, slope;
        double near, far, noise;
        for (int s = 0; s < 5; s++) {
            for (pu_int i = g; i < params; i += groups) {
                double x = (double)t->kept[i], step = pu__max(least, x == 0 ? 1 : fabs(x));
                t->theta[i] = (pu_real)(x + (s - 2) * h * step);
                sum += s ? 0 : (pu_real)step * t->want[i];
            }
            f[s] = pu__trial_value(t);
        }
        pu__copy(t->theta, t->kept, params);
        /* errors of h^2 and 4 h^2, so that 4 : -1 has none; the fourth difference of what is smooth is noise */
        near = (f[3] - f[1]) / (2 * h);
        far = (f[4] - f[0]) / (4 * h);
        noise = fabs(f[0] - 4 * f[1] + 6 * f[2] - 4 * f[3] + f[4]) + t->rounding + 4 * (double)PU__EPS * fabs(near);
        slope = (pu_real)((4 * near - far) / 3);
        if (pu__finite_double(noise))
            pu__compare(entry, "against differences", 1, &sum, &slope, fabs(near - far) / 2 + noise / h);
        else
            entry->left_out = "differences in some of theta: moved, the likelihood is refused or inexact";
        if (entry->wrong)
            entry->index = g;
    }
}

/* ---- an operator ---- */

/* grad against differences, where the parameters can be moved. They are put back. */
PU__FN void pu__trial_grad(pu__trial *t)
{
    if (!t->theta) {
        t->entry[PU__TRY_grad].left_out = "differences: options.theta is NULL";
        return;
    }
    t->rounding = t->tolerance * t->reach;
    pu__trial_of(t, PU__TRY_grad, t->prior ? t->q : t->p, 1, t->want);
    pu__trial_slopes(t, &t->entry[PU__TRY_grad]);
    (void)pu__trial_value(t);
}

/* What the products with all unit vectors say that function f gives, into t->other: F F'q of sample; else entry i by
   column i of Op, for apply that of Op'p, and the lower triangle of Op goes to t->factor. */
PU__FN void pu__trial_units(pu__trial *t, int f)
{
    int sample = f == PU__TRY_sample;
    pu_int rows = t->op->rows, units = t->length[sample ? PU__OF_NOISE : PU__OF_COLS];
    pu__zeros(t->other, rows);
    for (pu_int i = 0; i < units; i++) {
        pu_real sum;
        pu__zeros(t->spare, units);
        t->spare[i] = 1;
        /* a column of F, or of Op */
        pu__trial_of(t, sample ? f : PU__TRY_apply, t->spare, 1, t->got);
        sum = (pu_real)pu__dot(rows, f == PU__TRY_gram_diag ? t->got : NULL, sample ? t->q : t->p, t->got);
        if (sample)
            pu__axpy(rows, sum, t->got, t->other);
        else
            t->other[i] = f == PU__TRY_diag ? t->got[i] : sum;
        for (pu_int j = 0; j < rows && f == PU__TRY_apply; j++)
            t->factor[i * rows + j] = j > i ? 0 : (double)t->got[j];
    }
}

/* apply, which everything else is compared with, and its size. As a prior it must be symmetric and positive
   definite; with W the inverse of the Cholesky factor tr Op^-1 = |W|^2 >= |Op^-1|. */
PU__FN void pu__trial_apply(pu__trial *t)
{
    pu_check_entry *entry = &t->entry[PU__TRY_apply];
    pu_int n = t->op->rows, bad;
    /* for a standard normal q the mean of |Op q|^2 is |Op|^2 */
    t->size = pu__norm(PU__TRIAL_COLUMNS * n, t->want) / sqrt((double)PU__TRIAL_COLUMNS);
    t->reach = t->size * pu__norm(t->op->cols, t->q);
    if (!t->prior || !t->known)
        return;
    pu__trial_units(t, PU__TRY_apply);
    pu__trial_of(t, PU__TRY_apply, t->p, 1, t->want);
    pu__compare(entry, "as a prior Op must be symmetric", n, t->want, t->other, t->tolerance * t->reach);
    t->logdet = 0;
    bad = pu__cholesky_double(n, t->factor, &t->logdet);
    if (bad >= 0)
        pu__wrong(entry, "as a prior Op must be positive definite", bad);
    pu__invert_lower(n, t->factor);
    t->condition = 0;
    for (pu_int i = 0; i < n * n; i++)
        t->condition += t->size * t->factor[i] * t->factor[i];
    if (t->tolerance * t->condition < 0.25)
        t->known |= PU__TRIAL_FACTOR;
}

/* t->other = weight tr(Op^-1 dOp), the derivative of weight log det Op. As Op^-1 = W'W it is the sum over the rows w
   of W of w'dOp w, which is what grad gives. Returns the sum of their sizes. */
PU__FN double pu__trial_trace(pu__trial *t)
{
    pu_int n = t->op->rows;
    double size = 0;
    pu__zeros(t->other, t->op->params);
    t->with = t->spare;
    for (pu_int i = 0; i < n * n; i++) {
        t->spare[i % n] = (pu_real)t->factor[i];
        if (i % n < n - 1)
            continue;
        pu__trial_of(t, PU__TRY_grad, t->spare, 1, t->got);
        pu__axpy(t->op->params, 1, t->got, t->other);
        size += pu__norm(t->op->params, t->got);
    }
    t->with = t->q;
    return size;
}

/* Function f, which gave t->want, against t->other, what it must give by apply and grad. `scale`: what the rounding is
   relative to, besides the result. */
PU__FN void pu__trial_values(pu__trial *t, int f)
{
    const pu__shape *shape = &pu__shapes[f];
    pu_check_entry *entry = &t->entry[f], *by = &t->entry[shape->by];
    pu_int rows = t->op->rows, half = t->length[PU__OF_HALF], n = t->length[shape->out];
    pu_int k = shape->how & PU__TRIAL_MANY ? PU__TRIAL_COLUMNS : 1;
    double scale = shape->by == PU__TRY_grad || f == PU__TRY_gram_diag ? 0 : t->reach;
    if (shape->how & (PU__TRIAL_UNITS | PU__TRIAL_FACTOR) & ~t->known)
        entry->left_out = "its values: more columns than options.most; of logdet: not a prior, or too near to singular";
    if (!by->tested || by->wrong)
        entry->left_out = "its values: grad or apply_t, which they follow from, is wrong or not there";
    if (entry->left_out[0])
        return;
    /* those of their own kind */
    switch (f) {
    case PU__TRY_apply: pu__trial_apply(t); return;
    case PU__TRY_grad: pu__trial_grad(t); return;
    /* "about": compared with nothing but its least value */
    case PU__TRY_condition:
        if (t->want[0] < PU_R(0.9))
            pu__wrong(entry, "below 1", 0);
        return;
    /* F F'q below, here Op q */
    case PU__TRY_sample: pu__trial_of(t, PU__TRY_apply, t->q, 1, t->want); break;
    case PU__TRY_solve:
        scale += t->size * pu__norm(rows, t->want);
        pu__trial_of(t, PU__TRY_apply, t->want, 1, t->other);
        pu__copy(t->want, t->q, rows);
        break;
    case PU__TRY_logdet:
        t->other[0] = (pu_real)t->logdet;
        scale = t->condition;
        break;
    case PU__TRY_logdet_grad:
        scale = t->condition * pu__trial_trace(t);
    }
    if (shape->how & PU__TRIAL_UNITS)
        pu__trial_units(t, f);
    /* rows and bands: the same by the function for all of Op, which takes `masked` for `some` */
    if (f >= PU__TRY_apply_rows) {
        pu__trial_of(t, shape->by, t->p + (shape->in + (shape->in == PU__OF_HALF)) * t->most, k, t->other);
        n *= shape->how & PU__TRIAL_SUM ? 1 : k;
    }
    for (pu_int i = 0; i < n && f == PU__TRY_apply_rows; i++)
        t->other[i] = t->other[i / half * rows + t->list[i % half]];
    pu__compare(entry, shape->what, n, t->want, t->other, t->tolerance * (scale + pu__norm(n, t->other)));
}

/* Memory of a trial. Boxes: guards that are looked at, and as much room behind them as scratch of three vectors
   takes. */
PU__FN void pu__trial_layout(void *self, pu__arena *arena)
{
    pu__trial *t = (pu__trial *)self;
    const pu_int *length = t->length;
    pu_int n = pu__most(pu__most(length[PU__OF_ROWS], length[PU__OF_COLS]), length[PU__OF_NOISE]);
    pu_int k = PU__TRIAL_COLUMNS;
    t->most = pu__most(k * n, length[PU__OF_PARAMS]);
    /* a guard is looked at byte by byte, and need not be longer for large vectors */
    t->guard = pu__min(8 * n + 128, 2000);
    t->tolerance = 20 * sqrt((double)n) * (double)PU__EPS;
    for (int i = 0; i < PU__BOXES; i++)
        t->box[i].from = pu__reals(arena, t->most + k * (t->scratch + PU__TRIAL_GAP) + t->band + 8 * n + 4128, 1);
    t->p = pu__reals(arena, t->most, 10);
    t->list = pu__indices(arena, n);
    t->factor = pu__doubles(arena, t->known && t->prior ? n : 0, n);
}

/* Memory, random vectors, and the entries of functions from .. to - 1. */
PU__FN pu_status pu__trial_open(pu__trial *t, pu__call *call, const char *of, int from, int to)
{
    static const char *const names[] = {
#define PU__X(f) #f,
        PU__TRIAL_LIST(PU__X)
#undef PU__X
    };
    pu_real **vectors[] = {&t->p,     &t->q,    &t->e,    &t->some, &t->masked,
                           &t->spare, &t->kept, &t->want, &t->got,  &t->other};
    pu_int half = t->length[PU__OF_HALF];
    pu__begin(call, NULL, &t->own);
    call->ws->allocator = t->options.allocator;
    if (pu__allocate(call, pu__trial_layout, t))
        return t->own.status;
    for (int f = from; f < to; f++) {
        pu_check_entry entry = {of, f == PU__TRY_model_grad ? "grad" : names[f], 0, 0, "", "", 0, 0, -1};
        t->entry[f] = entry;
    }
    for (int i = 0; i < 10; i++)
        *vectors[i] = t->p + i * t->most;
    /* p, q, e and some in one draw */
    pu_normals(t->options.seed, 7, 0, 0, PU__STREAM_TEST, 0, 4 * t->most, t->p);
    pu__zeros(t->masked, t->most);
    for (pu_int i = 0; i < t->most; i++)
        t->p[i] = (pu_real)fabs((double)t->p[i]);
    for (pu_int i = 0; i < PU__TRIAL_COLUMNS * half; i++) {
        pu_int m = 2 * (i % half);
        t->list[i % half] = m;
        t->masked[i / half * t->length[PU__OF_ROWS] + m] = t->some[i];
    }
    t->with = t->q;
    return PU_OK;
}

/* All functions of an operator, which is called `of`. NULL is refused. */
PU__FN void pu__trial_operator(pu__trial *t, const pu_op *given, const char *of, pu_op_role role)
{
    const pu_op none = PU__ZERO, *op = given ? given : &none;
    const int there[] = {
#define PU__X(f) op->f != NULL,
        PU__OP_FUNCTIONS(PU__X)
#undef PU__X
    };
    pu_int index = -1, rows = op->rows, cols = op->cols, noise = op->noise ? op->noise : rows, most = t->options.most;
    const pu_int length[PU__LENGTHS] = {rows, cols, noise, (rows + 1) / 2, op->params, 1, 0};
    pu_int largest = pu__most(pu__most(rows, cols), pu__most(noise, pu__most(op->params, op->work)));
    const pu__fault faults[] = {{!given, PU_E_NULL, of},
                                {!op->apply, PU_E_NULL, "op.apply"},
                                {rows < 1 || cols < 1 || noise < 0 || op->params < 0 || op->work < 0 || op->band < 0 ||
                                     op->band > cols || !(op->flops >= 0),
                                 PU_E_ARGUMENT, "op (its sizes, band, flops)"},
                                {largest > 100000000, PU_E_OVERFLOW, "op (too large to be checked)"},
                                {0, PU_OK, ""}};
    pu__call call;
    pu_check_entry *entry = t->entry;
    pu_status status;
    if (pu__refuse_first(faults, &t->own))
        return;
    /* a prior where the caller says so, or where it has what only a prior has */
    t->op = op;
    t->prior = role == PU_ROLE_PRIOR || (role == PU_ROLE_ANY && (op->sample || op->logdet || !op->apply_t));
    t->known = cols <= most && pu__most(rows, noise) <= 16 * most ? PU__TRIAL_UNITS : 0;
    memcpy(t->length, length, sizeof length);
    t->scratch = op->work;
    /* one diagonal more than the operator has */
    t->width = op->band + 1;
    t->band = rows * (t->width + 1) * (pu_int)(sizeof(double) / sizeof(pu_real));
    t->theta = t->options.theta;
    if (pu__trial_open(t, &call, of, 0, PU__OP_TRIES))
        return;
    if (t->prior && rows != cols)
        pu__wrong(&entry[PU__TRY_apply], "a prior is square", -1);
    if (!t->prior && !op->apply_t)
        pu__wrong(&entry[PU__TRY_apply_t], "a map needs it", -1);
    /* numbers that `check` refuses are not for the others */
    entry[PU__TRY_check].tested = op->check != NULL;
    status = op->check ? op->check(op, &index) : PU_OK;
    if (status)
        pu__wrong(&entry[PU__TRY_check], pu_status_text(status), index);
    for (int f = 0; f < PU__TRY_check; f++) {
        if (!there[f] || (f == PU__TRY_row_grad && !op->row))
            entry[f].left_out = "not there";
        else if (entry[PU__TRY_apply].wrong || status)
            entry[f].left_out = "apply or check is wrong";
        else if (pu__trial_function(t, f))
            pu__trial_values(t, f);
    }
    pu_workspace_free(&call.own_ws);
}

/* ---- a model ---- */

/* Names, scales and bounds of theta, which must be within. Names are compared with the first ones. Behind what is
   written to are two guards, of which one stays as it is. */
PU__FN void pu__trial_params(const pu__trial *t, pu_check_entry *entry)
{
    pu_param box[3], *param = &box[0], *other = &box[1];
    entry->tested = 1;
    for (pu_int i = 0; i < t->model->params && !entry->wrong; i++) {
        memset(box, PU__TRIAL_PATTERN, sizeof box);
        (void)pu_model_param(t->model, i, param);
        if (memcmp(other, &box[2], sizeof *other) != 0)
            pu__wrong(entry, "writes outside of *param", i);
        if (!memchr(param->name, 0, sizeof param->name) || !param->name[0])
            pu__wrong(entry, "a name without its terminating zero, or an empty one", i);
        if ((int)param->scale < PU_SCALE_FREE || (int)param->scale > PU_SCALE_LOGIT)
            pu__wrong(entry, "a scale that is not one of pu_scale", i);
        /* the bounds of the scale */
        pu__describe(other, "", -1, -1, param->scale);
        if (!(param->lower >= other->lower && param->upper <= other->upper && param->lower < param->upper))
            pu__wrong(entry, "bounds that do not fit the scale, or each other", i);
        double x = pu_param_natural(param, (double)t->theta[i]);
        if (!(x > param->lower && x < param->upper))
            pu__wrong(entry, "theta is out of bounds", i);
        for (pu_int j = 0; j < pu__min(i, t->options.most) && !entry->wrong; j++) {
            (void)pu_model_param(t->model, j, other);
            if (strcmp(param->name, other->name) == 0)
                pu__wrong(entry, "two parameters of the same name", i);
        }
    }
}

/* The start: finite, within bounds, accepted by set, and the same from the same seed. */
PU__FN void pu__trial_start(pu__trial *t)
{
    pu_check_entry *entry = &t->entry[PU__TRY_start];
    pu_report report;
    if (!t->model->start)
        entry->left_out = "not there";
    else if (pu__trial_function(t, PU__TRY_start)) {
        pu__copy(t->theta, t->want, t->model->params);
        if (!t->entry[PU__TRY_describe].wrong)
            pu__trial_params(t, entry);
        if (pu_model_set(t->model, t->theta, &report))
            pu__wrong(entry, "refused by set", report.where.index);
    }
}

/* grad: in itself; where an array that `uses` does not name is NaN, all others 0: it must not become NaN; then, the
   model being fit for it, against differences of the exact likelihood. */
PU__FN void pu__trial_model_grad(pu__trial *t)
{
    static const char *const what[PU__CANONICAL] = {
        "grad reads nu, but PU_USES_NU is not set",   "grad reads Gamma, but PU_USES_GAMMA is not set",
        "grad reads Phi, but PU_USES_PHI is not set", "grad reads eta, but PU_USES_ETA is not set",
        "grad reads psi, but PU_USES_PSI is not set", "grad reads precond, but PU_USES_PRECOND is not set"};
    pu_check_entry *entry = &t->entry[PU__TRY_model_grad], *uses = &t->entry[PU__TRY_uses];
    pu_real *nan = t->spare;
    pu_report report;
    uses->tested = pu__trial_function(t, PU__TRY_model_grad);
    pu__zeros(t->spare, t->length[PU__OF_ROWS]);
    for (int b = 0; b < PU__CANONICAL && !entry->wrong; b++) {
        /* this one NaN */
        memset(nan, 0xff, (size_t)t->canonical[b] * sizeof(pu_real));
        pu__trial_of(t, PU__TRY_model_grad, t->spare, 1, t->other);
        if (!(t->model->uses >> b & 1))
            pu__compare(uses, what[b], t->model->params, t->other, t->other, 0);
        pu__zeros(nan, t->canonical[b]);
        nan += t->canonical[b];
    }
    /* what `uses` does not name is NULL from here on */
    if (entry->wrong || uses->wrong)
        return;
    pu_status status = pu_model_gradient(t->model, t->theta, t->data, &t->exact, &t->ws, t->want, NULL, &report);
    if (status)
        entry->left_out = report.where.what;
    /* What lost its digits proves nothing, for or against grad. */
    if (status == PU_INEXACT) {
        entry->left_out = "differences: rounding takes the digits of the likelihood (PU_INEXACT); try another theta";
        (void)pu__refuse(&t->own, status, "model.grad is not compared with differences: try another theta");
    }
    if (!status) {
        t->rounding = (double)PU__EPS * fabs(report.nll);
        pu__trial_slopes(t, entry);
    }
}

/* The model at theta, whose operators are fit to be used. Its theta is moved in an array that only operators need.
   The last likelihood sets theta again, after all others, and must be the first. */
PU__FN void pu__trial_model(pu__trial *t, const pu_real *theta)
{
    const pu_lgm *lgm = &t->model->lgm;
    pu_int D = lgm->Gamma->rows, M = lgm->Phi->rows, params = t->model->params;
    const pu_int canonical[PU__CANONICAL] = {D, lgm->Gamma->params, lgm->Phi->params, M, M, D};
    pu_check_entry *set = &t->entry[PU__TRY_set];
    double first;
    pu__call call;
    memset(t->length, 0, sizeof t->length);
    memcpy(t->canonical, canonical, sizeof canonical);
    for (int b = 0; b < PU__CANONICAL; b++)
        t->length[PU__OF_ROWS] += canonical[b];
    t->length[PU__OF_PARAMS] = params;
    t->scratch = t->band = t->known = 0;
    if (pu__trial_open(t, &call, "model", PU__OP_TRIES, PU__TRIES))
        return;
    t->theta = t->e;
    pu__copy(t->theta, theta, params);
    set->tested = 1;
    first = pu__trial_value(t);
    pu__trial_params(t, &t->entry[PU__TRY_describe]);
    pu__trial_model_grad(t);
    pu__trial_start(t);
    pu__copy(t->theta, theta, params);
    if (!pu__finite_double(first))
        set->left_out = "likelihoods: there is no exact one, or rounding takes its digits";
    if (pu__trial_value(t) != first)
        pu__wrong(set, "the same theta, set twice, gives two likelihoods", -1);
    pu_workspace_free(&call.own_ws);
}

/* ---- the calls ---- */

/* Options with defaults filled in, and an empty report. */
PU__FN void pu__trial_begin(pu__trial *t, const pu_check_options *options, pu_check_report *report)
{
    memset(t, 0, sizeof *t);
    memset(report, 0, sizeof *report);
    pu__report_clear(&t->own);
    if (options)
        t->options = *options;
    if (t->options.most < 1)
        t->options.most = 200;
    t->entry = report->entry;
}

/* The status of a report: PU_E_CONTRACT for the first fault, or that of a refusal or of what could not be compared. */
PU__FN pu_status pu__trial_end(const pu__trial *t, pu_check_report *report, int count)
{
    report->status = t->own.status;
    report->where = t->own.where;
    report->count = t->own.status < 0 ? 0 : count;
    for (int i = report->count - 1; i >= 0; i--)
        if (report->entry[i].wrong) {
            report->wrong++;
            report->status = PU_E_CONTRACT;
            report->where.what = report->entry[i].function;
            report->where.index = report->entry[i].index;
        }
    return report->status;
}

/* All functions of one operator. */
PU_DEF pu_status pu_op_check(const pu_op *op, const pu_check_options *options, pu_check_report *report)
{
    pu__trial t;
    if (!report)
        return PU_E_NULL;
    pu__trial_begin(&t, options, report);
    pu__trial_operator(&t, op, "op", t.options.role);
    return pu__trial_end(&t, report, PU__OP_TRIES);
}

/* Both operators as of theta, whose parameters are the model's, and the model. */
PU_DEF pu_status pu_model_check(pu_model *model, const pu_real *theta, const pu_data *data,
                                const pu_check_options *options, pu_check_report *report)
{
    pu__trial t;
    if (!report)
        return PU_E_NULL;
    pu__trial_begin(&t, options, report);
    t.model = model;
    t.data = data;
    t.exact.kind = PU_EXACT;
    t.exact.engine = PU_ENGINE_AUTO;
    /* the operators have no theta of their own */
    t.options.theta = NULL;
    t.ws.allocator = t.options.allocator;
    if (!pu_model_set(model, theta, &t.own) && !model->grad)
        (void)pu__refuse(&t.own, PU_E_NULL, "model.grad");
    if (!t.own.status && !pu__check_model(&model->lgm, &t.own))
        (void)pu__check_data(data, model->lgm.Phi->rows, &t.own);
    if (!t.own.status)
        pu__trial_operator(&t, model->lgm.Gamma, "Gamma", PU_ROLE_PRIOR);
    t.entry += PU__OP_TRIES;
    if (!t.own.status)
        pu__trial_operator(&t, model->lgm.Phi, "Phi", PU_ROLE_MAP);
    /* the likelihood is not to be had with wrong operators: it would do the harm that the boxes prevent */
    if (pu__trial_end(&t, report, 2 * PU__OP_TRIES))
        return report->status;
    pu__trial_model(&t, theta);
    pu_workspace_free(&t.ws);
    return pu__trial_end(&t, report, PU__OP_TRIES + PU__TRIES);
}

/* The label, then x >= 0 as 3e-12: one digit, cut off. */
PU__FN void pu__put_power(pu__text *text, const char *label, double x)
{
    double size = x < 1e99 ? x : 1e99;
    int power = size > 0 ? (int)floor(log10(size)) : 0;
    pu__put_number(text, label, (pu_int)(size / pow(10, power)));
    pu__put_number(text, power < 0 ? "e-" : "e+", power < 0 ? -power : power);
}

/* One entry: who, what, by how much, where; what was left out. */
PU__FN void pu__put_entry(pu__text *text, const pu_check_entry *entry)
{
    const char *verdict = entry->tested ? ": ok, " : ": not tested";
    const char *words[] = {entry->of, ".", entry->function, entry->wrong ? ": wrong, " : verdict, entry->what};
    for (int i = 0; i < 5; i++)
        pu__put(text, words[i]);
    if (entry->allowed > 0) {
        pu__put_power(text, ", off by ", entry->error);
        pu__put_power(text, ", allowed ", entry->allowed);
    }
    pu__put_number(text, ", index ", entry->index);
    pu__put(text, entry->left_out[0] ? "; left out: " : "");
    pu__put(text, entry->left_out);
}

/* The first fault and how many there are, or that there is none; in full a line for each entry. */
PU_DEF const char *pu_check_explain(const pu_check_report *report, int full, char *text, size_t size)
{
    pu__text out = {text, 0, size};
    pu_report refused;
    int tested = 0;
    if (!text || !size)
        return "";
    text[0] = 0;
    if (!report)
        return text;
    /* refused, or not all could be compared: as any other call */
    if (report->status && !report->wrong && (!full || !report->count)) {
        pu__report_clear(&refused);
        refused.status = report->status;
        refused.where = report->where;
        return pu_explain(&refused, text, size);
    }
    for (int i = 0; i < report->count; i++) {
        const pu_check_entry *entry = &report->entry[i];
        tested += entry->tested;
        if (full || (entry->wrong && !out.used))
            pu__put_entry(&out, entry);
        pu__put(&out, full ? "\n" : "");
    }
    if (!full && report->wrong)
        pu__put_number(&out, "; wrong in all: ", report->wrong);
    else if (!full)
        pu__put_number(&out, "no mistake found, functions tested: ", tested);
    return text;
}

#pragma pop_macro("I")
#ifdef __cplusplus
}
#endif
#endif /* PU_IMPLEMENTATION_ONCE */
#endif /* PU_IMPLEMENTATION */

#ifdef PU_CUDA
#include "pu_cuda.cuh"
#endif

/*
MIT License

Copyright (c) 2026 the pu authors

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.
*/
