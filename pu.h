/* pu.h - v0.1.0 - maximum likelihood in latent Gaussian models without matrix inversion
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
            pu_real y[2*3] = {1, 2, 1, 0, NAN, 1};                   // two data, NAN marks a missing entry
            pu_op prior = pu_op_identity(2), map = pu_op_dense(3, 2, Phi);
            pu_lgm model = {&prior, &map, NULL, NULL, psi};          // z ~ N(0, I)
            pu_data data = pu_data_nan(2, 3, y);
            pu_real grad_Phi[3*2], grad_psi[3];
            pu_results out = {0};  out.Phi = grad_Phi;  out.psi = grad_psi;
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
    - store or invert A, except where you ask for an exact engine (dense, dual, banded), or for auto, which tells;
    - pivot, scale or repair: a precision that is not positive is refused, curvature that is not positive
      stops the column and is reported;
    - differentiate through the probes delta_k or a GD step size: they are constants. So is a preconditioner of
      yours, unless results.m asks for its gradient; that of a model (model.m) is not, unless options.constant_m says so;
    - print, exit, abort, read the environment, keep global state, or allocate inside an iteration;
    - handle non-Gaussian likelihoods, or noise that is correlated between the entries of one y.

CONTENTS (grep for the tag)
    >>config >>types >>api           declarations
    >>status >>memory >>random >>kernel >>vector >>matrix >>operator >>structured >>series >>states >>fft >>fourier >>toeplitz
    >>check >>solver >>lanczos >>solve >>posterior >>engine >>plan >>batch >>sums >>gradient >>predict >>model >>models >>fit
                                     implementation

SWITCHES (define before the include; every unit of a program must agree, except on PU_IMPLEMENTATION)
    PU_IMPLEMENTATION    emit the function bodies here
    PU_FLOAT             pu_real is float; every name becomes puf_..., so a float and a double build can
                         live in one program and a mix-up fails at link time.  Default: double
    PU_STATIC            all functions static (needs PU_IMPLEMENTATION in the same unit)
    PU_NO_MALLOC         no malloc/free: memory comes from the caller's block or allocator hook only
    PU_NO_STDIO          no files: pu_fit without checkpoints
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
    pu_gradient takes one block of memory per call and makes at most one allocation (PU_AUTO: two); a pu_workspace keeps
    the block, so that a second call of the same size allocates nothing. pu_gradient_bytes() tells the size
    beforehand, pu_workspace_block() lets you supply it. With n = D, k columns at a time and I steps the
    network gradient holds about (10 + I) n k + max(n, M) k + 2 M k reals per thread (I more n k blocks with
    PU_ADJOINT_REORTHOGONAL or AUTO; one copy
    of the gradient per lane; a copy of each of results.x, residual, alpha, beta that is wanted); with
    options.solve.checkpoint = PU_AUTO the tape's I becomes about 2 sqrt(2 I) (CG, PCG) or 2 sqrt(I) (GD, SD)
    at the price of one more product with A per step.

STATUS
    0 is success, negative: refused (misuse, sizes, memory, input), positive: ran, but. pu_report.where names
    the array, datum, column and index. Output arrays are written only when the status is PU_OK, PU_CAP,
    PU_DIVERGED or PU_STAGNATED; any other status leaves all of them as they were.

DETERMINISM AND THREADS
    Same inputs, seed and build: same bits, at any thread count. Random numbers are a function of (seed,
    datum, sample, step, index). Work is cut into options.lanes parts (default 4) whose sums are added in a
    fixed order; the number of lanes, not of threads, decides the rounding. Operators are called from
    several threads at once. -ffast-math voids the NaN checks: do not use it. Across compilers or flags
    the last bits may differ (contraction of a*b+c).
    In a float build sums of squares below about 1e-37 read as zero: scale data of norm below 1e-18.

MATHS (letters used throughout; W = diag(mask * psi), e = mask * (y - eta))
    A = Gamma + Phi' W Phi        b = Gamma nu + Phi' W e          mu = A^-1 b        Sigma = A^-1
    delta = Gamma^1/2 eps1 + Phi' W^1/2 eps2 ~ N(0, A)             sigma = A^-1 delta ~ N(0, Sigma)
    c = 1/2 e'We + 1/2 nu'Gamma nu - 1/2 sum log psi - 1/2 log det Gamma           (sums over observed entries)
    NLL = c + 1/2 log det A - 1/2 b'mu + M_n/2 log 2 pi
    q   = c + 1/2 mu'A mu - b'mu + 1/2 tr(A Sigma)
    Everything reported is the MEAN over the data of the batch.
*/
#ifndef PU_H
#define PU_H

#include <stddef.h>
#include <stdint.h>

#define PU_VERSION "0.2.0"

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
#define pu_results puf_results
#define pu_report puf_report
#define pu_exact_result puf_exact_result
#define pu_model puf_model
#define pu_model_set puf_model_set
#define pu_model_gradient puf_model_gradient
#define pu_model_gradient_bytes puf_model_gradient_bytes
#define pu_model_nll puf_model_nll
#define pu_model_start puf_model_start
#define pu_model_param puf_model_param
#define pu_model_natural puf_model_natural
#define pu_model_theta puf_model_theta
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
#define pu_op_spd_factor puf_op_spd_factor
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
#define pu_tune puf_tune
#define pu_exact_bytes puf_exact_bytes
#define pu_exact puf_exact
#define pu_posterior_result puf_posterior_result
#define pu_prediction puf_prediction
#define pu_simulate puf_simulate
#define pu_posterior puf_posterior
#define pu_predict puf_predict
#define pu_ar puf_ar
#define pu_ar_set puf_ar_set
#define pu_ar_set_phi puf_ar_set_phi
#define pu_ar_pull_phi puf_ar_pull_phi
#define pu_op_ar puf_op_ar
#define pu_ssm puf_ssm
#define pu_ssm_set puf_ssm_set
#define pu_ssm_mean puf_ssm_mean
#define pu_ssm_mean_grad puf_ssm_mean_grad
#define pu_op_ssm puf_op_ssm
#define pu_op_readout puf_op_readout
#define pu_model_noisy_ar puf_model_noisy_ar
#define pu_model_ar puf_model_ar
#define pu_model_state_space puf_model_state_space
#define pu_model_ssm puf_model_ssm
#define pu_csr puf_csr
#define pu_low_rank puf_low_rank
#define pu_op_csr puf_op_csr
#define pu_op_low_rank puf_op_low_rank
#define pu_low_rank_factor puf_low_rank_factor
#define pu_op_kronecker puf_op_kronecker
#define pu_op_toeplitz puf_op_toeplitz
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

#define PU_NONE ((pu_int)-1) /* "exactly zero" where a zero field means the default */
#define PU_AUTO ((pu_int)-2) /* "choose for me, and report it" */

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
    X(PU_CAP, 1, "the iteration cap was reached before the tolerance")                            \
    X(PU_BREAKDOWN, 2, "curvature d'Ad was not positive: A is not positive definite")             \
    X(PU_NONFINITE, 3, "a NaN or an infinity arose during the run")                               \
    X(PU_DIVERGED, 4, "gradient descent ended with a larger residual than it began with")         \
    X(PU_STAGNATED, 5, "the residual reached rounding level before the tolerance")

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
    const char *what; /* array, argument or operator function, e.g. "data.y"; never NULL */
    pu_int datum;     /* which datum of the batch */
    pu_int column;    /* which right-hand side: 0 the mean, 1.. the probes */
    pu_int index;     /* entry of the array (of datum's part of it; data.y: the row of Phi), or the step */
} pu_where;

/* Memory. A pu_workspace must start zeroed. It grows by malloc; set `allocator` to use your own functions, or give it
   a fixed block with pu_workspace_block(). Not to be shared by calls that run at the same time. */
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
} pu_workspace;

/* A block of k columns: column j starts at at + j * ld and is contiguous. */
typedef struct {
    pu_real *at;
    pu_int ld;
} pu_block;

/* ---- operators ----------------------------------------------------------------------------------
   A linear map Op(theta): R^cols -> R^rows with `params` parameters theta. Everything built in is written
   against this struct, and so is yours: zero it, fill rows, cols, data and the functions you have.
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
    PU_FORM_DIAGONAL,  /* the diagonal, which are the parameters: rows of them, 1 (all equal) or 0 (ones; data is not read) */
    PU_FORM_SPARSE,    /* a pu_csr */
    PU_FORM_AR,        /* a pu_ar: its precision */
    PU_FORM_STATES,    /* a pu_ssm: its precision */
    PU_FORM_FOURIER    /* a pu_fourier: Fourier sensing */
} pu_form;

typedef struct pu_op pu_op;
struct pu_op {
    pu_form form; /* default PU_FORM_GENERAL. State what is true of yours: it is then as fast as the built-in one */
    pu_int rows, cols, params;
    pu_int work;  /* reals of scratch per column that any function below may use */
    pu_int noise; /* normals per draw that sample consumes; 0 means rows */
    int trusted;  /* 0: apply_t (of Phi) and symmetry (of Gamma, A) are tested on random vectors at every call;
                     1: apply_t needs no test; 2: nor does symmetry. Built-in operators set it */
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
    /* PU_OK, or what is wrong with the numbers in `data` (and at which index) */
    pu_status (*check)(const pu_op *op, pu_int *index);
    /* The first three restricted to rows[0] < .. < rows[n-1] (Phi with missing entries; NULL: they work on all rows, and
       unobserved ones are multiplied by zero). Y of apply, X of apply_t and P of grad then have n rows. All or none. */
    pu_status (*apply_rows)(const pu_op *op, pu_int n, const pu_int *rows, pu_int k, pu_block X, pu_block Y, int add,
                            pu_real *work);
    pu_status (*apply_rows_t)(const pu_op *op, pu_int n, const pu_int *rows, pu_int k, pu_block X, pu_block Y, int add,
                              pu_real *work);
    pu_status (*grad_rows)(const pu_op *op, pu_int n, const pu_int *rows, pu_int k, pu_block P, pu_block Q,
                           const pu_real *weight, pu_real *grad, pu_real *work);
    /* For the banded engine. A symmetric matrix with entries (i, i - j), j = 0 .. width, is stored at B[i (width + 1) + j];
       places with i - j < 0 are not used. Gamma: Op_ij = 0 for |i - j| > band, and */
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
    double flops; /* multiplications of a product with one column, for the planner; 0: params + rows + cols is assumed */
    const struct pu_side *device; /* the same operator for a backend with memory of its own, see pu_side; NULL: the backend makes
                                     one of a built-in operator, or refuses */
};

/* An operator for a backend with memory of its own (see pu_backend.memory): apply, apply_t, grad and, where there are any, sample
   and the three of rows work on that memory; they enqueue work and do not wait for it. The rest of op is not used. */
typedef struct pu_side pu_side;
struct pu_side {
    pu_op op;
    /* Optional. Y = (Op + diag(w)) X or Y += that, s_j = x_j'(Op + diag(w)) x_j in one sweep (w, s may be NULL; no s with add). */
    pu_status (*apply_plus)(const pu_op *op, const pu_real *w, pu_int k, pu_block X, pu_block Y, int add, pu_real *s);
    /* Optional. Y = Op' diag(w) Op X, or Y += .., where that is cheaper than the two products (w may hold zeros). */
    pu_status (*gram)(const pu_op *op, const pu_real *w, pu_int k, pu_block X, pu_block Y, int add, pu_real *work);
    /* Optional. op.grad may add up other sums than the gradient, op.params of them; pull, which works on host memory, then makes
       a gradient of them: grad (of the host's operator) += . */
    pu_status (*pull)(const pu_side *side, const pu_real *sums, pu_real *grad);
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
    int use_beta;                 /* CG, PCG: d = z + beta d;  GD, SD: d = r */
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
    pu_block d, before;                  /* d_i and d_{i-1} */
    pu_block kept;                       /* r_i; at NULL: it is 1/m o (d - be_before before) */
    pu_block xbar;
    pu_block r, rbar, dbar;              /* r_{i+1}, which becomes r_i; cotangents of r_{i+1}, d_{i+1}, which become those of r_i, d_i
                                            but for the product with A */
    pu_block qbar;                       /* out */
    const pu_real *a, *be;               /* alpha_{i+1}, beta_{i+1} */
    const pu_real *be_before;            /* beta_i; NULL: there is no d_{i-1} */
    const pu_real *twice_rhobar, *pib;
    const pu_real *m, *minv;             /* n, or NULL */
    const pu_real *weight;               /* of the columns in mbar */
    pu_real *mbar;                       /* n, the cotangent of m, or NULL */
} pu_unwinding;

typedef struct {
    void *user;
    int host; /* scalars are in host memory: reading them is free, so a loop ends as soon as all columns have stopped */
    /* s_j = sum_i m_i x_ij y_ij (m may be NULL). Order of summation fixed by n alone. */
    void (*dot)(void *user, pu_int n, pu_int k, const pu_real *m, pu_block x, pu_block y, pu_real *s);
    /* y = sum of `count` terms (at most 4); y may be one of them. */
    void (*combine)(void *user, pu_int n, pu_int k, pu_block y, int count, const pu_term *terms);
    /* x += a d;  r -= a q;  rho_j = r_j'(m o r_j). A column with a_j = 0 is not touched; rho_j still is. x.at NULL: no x */
    void (*advance)(void *user, pu_int n, pu_int k, const pu_real *a, const pu_real *m, pu_block d, pu_block q,
                    pu_block x, pu_block r, pu_real *rho);
    /* scalar arithmetic of one stage of step i, for all columns */
    void (*stage)(void *user, const pu_state *s, pu_stage stage, pu_int i);
    /* out_r += m_i sum_j w_j p_ij q_ij, where r = rows[i], one of M (rows NULL: r = i; m, w may be NULL; q.at NULL: ones) */
    void (*row_dot)(void *user, pu_int n, pu_int k, const pu_real *m, const pu_real *w, pu_block p, pu_block q, pu_int M,
                    const pu_int *rows, pu_real *out);
    /* standard normals for the columns sample, sample+1, .. of each datum: value = f(seed, datum, sample, step, stream, row),
       rows as above; datum: their numbers, in the backend's memory */
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
    void (*unwind_sums)(void *user, pu_int n, pu_int k, const pu_unwinding *v, pu_real *s0, pu_real *s1, pu_real *s2);
    void (*unwind)(void *user, pu_int n, pu_int k, const pu_unwinding *v);
    /* out += scale sum_j w_j sum_i m_i x_ij y_ij (m may be NULL) */
    void (*sum_dot)(void *user, pu_int n, pu_int k, const pu_real *m, pu_block x, pu_block y, const pu_real *w, double scale,
                    pu_real *out);
    /* What a gradient has that is linear in b: one column of t = Phi bbar and e for each of k data, w = mask psi; r = rows[i] as
       above.  eta_r -= w (t + e);  psibar_r += mask ((t + e/2) e - 1 / (2 psi_r)) */
    void (*row_terms)(void *user, pu_int n, pu_int k, pu_block t, const pu_real *w, const pu_real *mask, const pu_real *e,
                      const pu_real *psi, pu_int M, const pu_int *rows, pu_real *eta, pu_real *psibar);

    /* The rest belongs to backends with memory of their own; in others all of it is NULL. Those functions above that return
       nothing keep the first error for `status`. */
    void *(*memory)(void *user, size_t bytes); /* its block of memory, which later calls may move when they ask for more; NULL: no */
    size_t budget;                             /* the most that may be asked for */
    void (*batch)(void *user, pu_int count);   /* so many data are side by side from here on */
    void (*turn)(void *user, int slot);        /* what is written from here on goes to slot 0 or 1 of two, used in turns, and may
                                                  overtake work on the other */
    /* The device side of a host operator: bytes that it needs with memory NULL, and the operator itself otherwise, at least
       until the next call with the same slot (0: Gamma or A, 1: Phi). PU_E_UNSUPPORTED: it has none */
    pu_status (*side)(void *user, int slot, const pu_op *op, void *memory, size_t *bytes, pu_side *side);
    pu_status (*status)(void *user, const char **what); /* waits for all work; the first error since the last call, in words */
} pu_backend;

/* ---- model and data ------------------------------------------------------------------------------ */

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
    const pu_int *pick;        /* N numbers: datum n of the batch is number pick[n] of the arrays above (and of id, and in its
                                  random stream), below the number of data there; NULL = n. For mini-batches; all else counts
                                  data as the batch does */
} pu_data;

/* ---- options: zero means the default written beside the field (C: = {0}, C++: = {}) ---------------- */

typedef enum { PU_CG, PU_PCG, PU_SD, PU_GD } pu_solver;
typedef enum { PU_NETWORK, PU_OUTPUT, PU_MONTE_CARLO, PU_EXACT } pu_kind;

/* How a datum's systems are solved. All but the first are exact; what they need is beside them. */
#define PU_ENGINE_LIST(X)                                                                                   \
    X(PU_ITERATIVE, 0, "iterative")      /* a few steps of options.solve.solver, K probes */               \
    X(PU_DENSE, 1, "dense")              /* Cholesky of A: D^3 */                                          \
    X(PU_DUAL, 2, "dual")                /* Woodbury, m observed entries: 2 m^2 D + m^3/3; Gamma.solve */  \
    X(PU_BANDED, 3, "banded")            /* band (block tridiagonal) Cholesky, selected inverse: D band^2; \
                                            Gamma.band_add, band_grad, Phi.row, row_grad */                \
    X(PU_KALMAN, 4, "kalman")            /* smoother, the textbook baseline: T S^3; Gamma a pu_op_ssm or pu_op_ar (order <= \
                                            PU_SSM_MAX), each row of Phi within one time step; PU_EXACT only */ \
    X(PU_ENGINE_AUTO, 5, "auto")         /* per datum the cheapest of those that apply; see report.plan */
typedef enum {
#define PU_X(name, value, text) name = value,
    PU_ENGINE_LIST(PU_X)
#undef PU_X
    PU_ENGINES
} pu_engine;

/* How the network gradient goes back through CG and PCG (docs/design.md, "the reverse pass"):
   FULL differentiates alpha and beta too; SHORTCUT treats them as constants, which is the same gradient in exact
   arithmetic but unstable when A has a few far outlying eigenvalues; REORTHOGONAL is the shortcut with both
   passes re-orthogonalised (O(I^2 D) per column, a second tape), stable on every spectrum; AUTO runs the shortcut
   where a check made in the same solve calls it safe (orthogonality and growth, see pu_column), and repeats the block of
   columns (options.columns) with REORTHOGONAL where one of them fails it. The report counts who got what. SD and GD know FULL
   and SHORTCUT only (AUTO and REORTHOGONAL run FULL, and the columns say so); for GD the two agree, for SD the SHORTCUT is a
   different gradient. */
typedef enum { PU_ADJOINT_FULL, PU_ADJOINT_SHORTCUT, PU_ADJOINT_REORTHOGONAL, PU_ADJOINT_AUTO } pu_adjoint;

typedef struct {
    pu_int iterations;  /* I; 0 = 30 (with a tolerance: 10 n + 100, at most 1000); PU_NONE = no step at all; PU_AUTO
                           (pu_gradient, CG and PCG): see pu_options.error */
    pu_solver solver;   /* default PU_CG */
    double tolerance;   /* > 0: stop a column at |r| <= tolerance |u|; then I is a cap. 0 = run exactly I steps. Rounding
                           level (1e-14 in double, 3e-7 in float) stops a column in any case */
    double absolute2;   /* > 0: stop at |r|^2 <= absolute2 as well (the paper's rule) */
    pu_int check_every; /* with a tolerance, scalars on a device: steps between looks at the stop flags; 0 = 5 */
    pu_adjoint adjoint; /* default PU_ADJOINT_FULL */
    pu_int checkpoint;  /* tape: 0 = keep all I directions; s > 0 = keep every s-th state; PU_AUTO = about sqrt */
    const pu_real *m;   /* PCG: diagonal of M^-1, positive. pu_solve: n; pu_gradient: N x D. NULL: 1/diag(A) */
    const pu_real *step;/* GD step size. pu_solve: 1; pu_gradient: N. NULL: estimated from a few Lanczos steps */
    pu_int m_stride;    /* pu_gradient: reals from one datum's m to the next; 0 = D, PU_NONE = all data share one m */
} pu_solve_options;

typedef struct {
    pu_int samples;         /* K; 0 = 10; PU_NONE = none (PU_EXACT only); PU_AUTO: see `error` */
    pu_kind kind;           /* default PU_NETWORK */
    pu_engine engine;       /* default PU_ITERATIVE. Exact engines serve PU_EXACT (which takes PU_DENSE for the default) and,
                               but for Kalman, PU_MONTE_CARLO; PU_ENGINE_AUTO serves all kinds: a datum that an exact engine
                               takes gets the exact gradient, the others what `kind` says */
    pu_solve_options solve; /* PU_MONTE_CARLO without a tolerance: to rounding level */
    uint64_t seed;          /* default 0 */
    uint32_t step;          /* changes the probes: keep it fixed for common random numbers, count it up for fresh ones */
    const pu_real *delta;   /* N x K x D: use these probes instead of drawing */
    const pu_real *x0;      /* N x (K+1) x D: warm start, a constant; NULL = 0 */
    int threads;            /* 0 = OpenMP's choice, or 1 when the job is tiny (built-in operators' sizes decide) */
    int lanes;              /* parts whose sums are kept apart; 0 = 4. Memory: one gradient each */
    pu_int columns;         /* columns solved at a time; 0 = as many as fit the cache */
    pu_int groups;          /* of probes, for standard errors (2 .. K); 0 = K, at most 16. Memory: a gradient per group and lane
                               */
    int rao_blackwell;      /* replace sigma_j^2 in Gamma's gradient by 1/A_jj + (sigma_j - delta_j/A_jj)^2: the same mean, less
                               variance where A_jj dominates its row. Needs diag(A) and Gamma.band_grad. The difference is a
                               control variate; PU_NETWORK does not differentiate it through the solver */
    double error;           /* with samples or solve.iterations = PU_AUTO: the relative error wanted of the gradient; 0 = 0.1. A
                               pilot (pu_tune) on the first data finds K for the statistical error and then I for a solver error
                               below half of what K leaves. The report says what was chosen and from what */
    pu_int most_samples;    /* limit of that K; 0 = 100 */
    pu_int most_iterations; /* limit of that I; 0 = 100 */
    int tied_psi;           /* psi is one number, written M times (else refused): of its gradient, replicates and standard
                               errors only the sum over the rows is meant, which saves products where Phi has gram. Models set
                               it */
    int constant_m;         /* pu_model_gradient, PU_NETWORK with PU_PCG and the model's own m, which depends on theta: leave
                               that out of the derivative. Only good for comparisons: with few steps the two parts are large and
                               cancel (docs/design.md). Standard errors leave it out in any case */
    int no_control_variate; /* log det: leave out the free control variate tr(A Sigma) = D (used where diag(A) is known) */
    const pu_backend *backend; /* default pu_backend_cpu() */
} pu_options;

/* ---- results: arrays you own; NULL = not wanted ----------------------------------------------------- */

typedef struct {
    pu_int steps;      /* steps this column took */
    pu_stop stop;      /* why it stopped */
    pu_adjoint adjoint;/* how its reverse pass was done (network gradient) */
    double rhs;        /* |u| */
    double residual;   /* |r| as the recurrence has it */
    double true_residual; /* |u - A x| recomputed */
    double orthogonality; /* max_j |r_I'd_j| / (|u| |d_j|); -1 where not measured (only PU_ADJOINT_AUTO does) */
    double growth;        /* factor by which the shortcut's recursion can enlarge an error; likewise */
} pu_column;

typedef struct {
    pu_real *nu;       /* D               gradients of the mean objective */
    pu_real *Gamma;    /* Gamma->params */
    pu_real *Phi;      /* Phi->params */
    pu_real *eta;      /* M */
    pu_real *psi;      /* M */
    pu_real *m;        /* D               in options.solve.m, through the solver. Refused unless PU_NETWORK, PU_PCG and one m
                                          for all data (m_stride = PU_NONE) */
    pu_real *x;        /* N x (K+1) x D   [mu | sigma_1 .. sigma_K] */
    pu_real *residual; /* N x (K+1) x D   u - A x, recomputed */
    pu_real *alpha;    /* N x (K+1) x I   step sizes (iterative engine; zero where a column had stopped) */
    pu_real *beta;     /* N x (K+1) x I */
    pu_real *logdet;   /* N x K           log det A estimate of each probe (CG, PCG, no warm start; else refused) */
    pu_column *columns;/* N x (K+1) */
    /* Standard errors over the probes, component by component (0 where nothing is random; at least 2 probes). The probes form
       G = report.groups groups; a replicate is the whole gradient as the probes of one group alone would have it. */
    pu_real *se_Gamma; /* Gamma->params */
    pu_real *se_Phi;   /* Phi->params */
    pu_real *se_psi;   /* M */
    pu_real *replicates; /* G x (Gamma->params + Phi->params + M): [Gamma | Phi | psi]; parts whose gradient is not asked for: 0
                            */
} pu_results;

/* What happened. Written on every return (also on refusal: status and where). */
typedef struct {
    pu_status status;
    pu_where where;
    pu_kind kind; /* what was run, defaults resolved */
    pu_engine engine;
    pu_solver solver;
    pu_int samples, iterations;
    pu_int checkpoint; /* tape interval used, 0 = full tape */
    int threads, lanes;
    pu_int columns; /* columns at a time */
    size_t bytes;   /* workspace used */
    size_t device_bytes; /* memory of the backend used, or lacking */
    pu_int batch;        /* data side by side on the device */
    pu_int served[PU_ENGINES]; /* data by the engine that served them */
    char plan[600];            /* the same in words, with the reason; before that, how K and I were chosen */

    pu_int groups;             /* of probes behind the standard errors; 0: none were asked for */
    double se_95;              /* a 95 % interval of a component is +- se_95 times its standard error (Student's t, G - 1) */
    double statistical_error;  /* |standard errors| / |gradient| over [Gamma | Phi | psi]; -1: not asked for */
    double solver_error;       /* estimate of the relative error that ending the solver early leaves in the gradient:
                                  eps (PU_NETWORK: I eps^2), eps^2 = sum |x - A^-1 u|_A^2 / sum |x|_A^2; -1: unknown (GD, SD,
                                  warm start, or nobody asked for the likelihood) */
    double ritz_min, ritz_max; /* extreme Ritz values of A (PCG: of M^-1 A) over all columns; 0 where unknown */

    int has_objective; /* 0 when Gamma has no logdet: then c, q, network, nll are 0 */
    double c, q;       /* means over data */
    double network;    /* q - mean_k delta_k'sigma_k: the function whose derivative the network gradient is */
    int has_nll;       /* exact engines, or CG / PCG with probes */
    double nll;        /* mean negative log-likelihood, with 2 pi */
    double nll_se;     /* its standard error over probes; 0 = exact, -1 = unknown (K = 1) */
    double nll_95;     /* half the width of a 95 % interval: Student's t with N (K - 1) degrees of freedom times nll_se */
    double nll_gap;    /* estimate of what more iterations would still change through the log det, mean */
    int nll_converged; /* 0: the gap exceeds a tenth of the standard error, or mean_k delta'sigma is too far below its
                          expectation D: take more iterations */

    pu_int stops[PU_STOP_COUNT]; /* columns by stop reason */
    pu_int reorthogonalised;     /* columns repeated with re-orthogonalisation (PU_ADJOINT_AUTO) */
    double worst_orthogonality;  /* largest over columns, PU_ADJOINT_AUTO; else -1 */
    double worst_growth;         /* likewise */
    double worst_residual;       /* largest |u - Ax| / |u| over columns (0 / 0 counts as 0) */
    pu_int worst_datum, worst_column;
    double products; /* products A x column */
} pu_report;

/* ---- models in their own parameters theta ------------------------------------------------------------ */

typedef enum { PU_SCALE_FREE, PU_SCALE_LOG, PU_SCALE_ATANH } pu_scale; /* theta = x, log x, atanh x */

typedef struct {
    char name[32];       /* of the natural value x, e.g. "Phi[3,7]", "kappa"; indices from 0 */
    pu_scale scale;      /* how theta codes it */
    double lower, upper; /* x lies strictly between (infinite where free) */
} pu_param;

enum { PU_USES_NU = 1, PU_USES_GAMMA = 2, PU_USES_PHI = 4, PU_USES_ETA = 8, PU_USES_PSI = 16, PU_USES_M = 32 };

/* `set` turns theta into the canonical form, `pull` brings a gradient back. Start zeroed; made by pu_model_*(), or filled
   in by you (examples/custom_model.c). Holds pointers into itself: not to be copied once made, nor to be shared by calls
   that run at the same time. */
typedef struct pu_model pu_model;
struct pu_model {
    const char *name;    /* "factor analysis" */
    pu_int params;       /* length of theta */
    unsigned uses;       /* PU_USES_*: the canonical gradients that pull reads */
    int tied_psi;       /* pull reads only the sum of psi's, and psi is M times the same (pu_options.tied_psi) */
    pu_lgm lgm;          /* canonical form as of the last set: what pu_gradient wants */
    pu_op Gamma, Phi;    /* lgm's operators, when the model keeps them here (rows > 0); then lgm is pointed at them */
    const pu_real *m;    /* D: the model's own diagonal of M^-1 for PCG, NULL = 1/diag(A) */
    void *data;          /* the model's own state */
    uint32_t sets;       /* calls of pu_model_set so far: pu_fit sees whether its own was the last */
    pu_workspace memory; /* of the built-in models: malloc, your allocator, or your block (set it before pu_model_*()) */
    /* theta (params, finite) -> canonical. PU_OK, or what is wrong, *index = the entry of theta at fault (as given: -1) */
    pu_status (*set)(pu_model *model, const pu_real *theta, pu_int *index);
    /* grad (params, overwritten) = (d canonical / d theta)' g, at the theta of the last set; g holds the arrays in `uses`
       (m: NULL where nothing went through it).
       Linear in g. Anything but PU_OK stops the call (PU_E_OPERATOR) */
    pu_status (*pull)(const pu_model *model, const pu_results *g, pu_real *grad);
    /* a sensible start for these data, which have been checked; random parts are a function of seed. May be NULL */
    pu_status (*start)(const pu_model *model, const pu_data *data, uint64_t seed, pu_real *theta);
    /* what entry i of theta is; *param comes as free, unbounded and called "theta[i]". May be NULL */
    void (*describe)(const pu_model *model, pu_int i, pu_param *param);
};

/* ------------------------------------------------------------------------------------------------
   >>api
   ------------------------------------------------------------------------------------------------ */

/* ---- tier 0: models in their own parameters ----------------------------------------------------------- */

/* theta (params) -> model->lgm. PU_E_NONFINITE or the model's own status with where = "theta" and the index; the built-in
   models then keep the canonical form they had. */
PU_DEF pu_status pu_model_set(pu_model *model, const pu_real *theta, pu_report *report);

/* Gradient of the mean objective in theta: set, pu_gradient, pull.
     grad   params, overwritten
     se     params or NULL: standard error of grad over the probes, from options.groups of them (0 where no probe enters)
   options, ws, report as for pu_gradient; with PU_PCG and no options.solve.m the model's own m is used, and the network
   gradient goes through it, too (options.constant_m). One block of ws for everything. Cost: that of pu_gradient, and of one
   pull, with se one more per group. Status rules as pu_gradient's; grad
   and se are untouched wherever pu_gradient's outputs would be. */
PU_DEF pu_status pu_model_gradient(pu_model *model, const pu_real *theta, const pu_data *data, const pu_options *options,
                                   pu_workspace *ws, pu_real *grad, pu_real *se, pu_report *report);
/* Bytes of workspace that it needs (se: whether that is wanted). No theta: the model need not have been set, unless it is
   one of yours that fills in lgm no sooner. */
PU_DEF pu_status pu_model_gradient_bytes(pu_model *model, const pu_data *data, const pu_options *options, int se,
                                         size_t *bytes, pu_report *report);
/* set, then pu_nll. */
PU_DEF pu_status pu_model_nll(pu_model *model, const pu_real *theta, const pu_data *data, const pu_options *options,
                              pu_workspace *ws, double *nll, double *se, pu_report *report);
/* A start for these data; same seed, same theta (params). PU_E_UNSUPPORTED: the model has none. */
PU_DEF pu_status pu_model_start(const pu_model *model, const pu_data *data, uint64_t seed, pu_real *theta,
                                pu_report *report);

/* What entry i of theta is. PU_E_NULL, PU_E_ARGUMENT (no such entry). */
PU_DEF pu_status pu_model_param(const pu_model *model, pu_int i, pu_param *param);
/* Its natural value x for an entry theta, and the way back (NaN or infinite when x is out of bounds). */
PU_DEF double pu_model_natural(const pu_param *param, double theta);
PU_DEF double pu_model_theta(const pu_param *param, double x);

/* Give back model->memory and zero the rest. NULL is fine. */
PU_DEF void pu_model_free(pu_model *model);

/* The built-in models. *model starts zeroed, except that model->memory may name an allocator or a block of yours. One block
   of memory each, taken here; report->bytes is its size, also when a block was too small (PU_E_BLOCK; a block of 0 bytes
   asks for the size). theta = the parts in brackets, one after the other, matrices row-major; a theta whose exp is 0 or
   infinite is refused by pu_model_set (PU_E_ARGUMENT, index). Starts are made from the moments of the observed entries.
   Statuses: PU_E_NULL, PU_E_ARGUMENT (a size below 1), PU_E_OVERFLOW, PU_E_MEMORY, PU_E_BLOCK; *model is as it was, but
   zeroed when memory failed. */

/* Factor analysis: z ~ N(0, I), y = Phi z + eta + N(0, diag(psi)^-1), Phi M x D.   [Phi | eta | log psi], M D + 2 M */
PU_DEF pu_status pu_model_factors(pu_model *model, pu_int M, pu_int D, pu_report *report);
/* Probabilistic PCA: the same with psi = beta everywhere.   [Phi | eta | log beta], M D + M + 1 */
PU_DEF pu_status pu_model_ppca(pu_model *model, pu_int M, pu_int D, pu_report *report);
/* Sparse Bayesian learning: z_j ~ N(0, 1/alpha_j), y = Phi z + N(0, 1/beta), any operator as dictionary, borrowed.
   [log alpha | log beta], D + 1. model->m = 1 / (alpha_j + beta |Phi_j|^2), where Phi has no gram_diag with |Phi_j| = 1: A's
   diagonal when nothing is missing. PU_E_OPERATOR, or the status of Phi's check: as for pu_gradient. */
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

/* ---- training ------------------------------------------------------------------------------------------ */

typedef enum { PU_ADAM, PU_SGD, PU_LBFGS } pu_optimizer;

/* The rate of step t of T: rate; rate (1 + cos(pi t / T)) / 2; rate / (1 + t / decay); rate, and zero linearly over the last
   fifth */
typedef enum { PU_RATE_CONSTANT, PU_RATE_COSINE, PU_RATE_HYPERBOLIC, PU_RATE_TAIL } pu_schedule;

#define PU_FIT_STOP_LIST(X)                                                                       \
    X(PU_FIT_STEPS, 0, "all steps done")                                                          \
    X(PU_FIT_GRADIENT, 1, "gradient within its own error, or below the tolerance")                \
    X(PU_FIT_VALIDATION, 2, "validation no longer improves")                                      \
    X(PU_FIT_TIME, 3, "time is up")                                                               \
    X(PU_FIT_CALLBACK, 4, "stopped by the caller")                                                \
    X(PU_FIT_STUCK, 5, "no acceptable step in this direction")

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
    pu_fit_stop stop;        /* why it ended */
    pu_int step, steps;      /* steps done; of so many */
    pu_int epoch;            /* passes through the data begun (mini-batches) */
    pu_int gradients;        /* pu_model_gradient calls */
    pu_int rejected;         /* steps that led to a theta the model refuses, halved until it did not */
    double objective;        /* of the last step, at the theta before it: NLL per datum of its batch (q where there is no NLL)
                                */
    double objective_se;     /* its standard error over probes; 0 exact, -1 unknown */
    double gradient;         /* |g| */
    double gradient_se;      /* |standard errors of g|; -1: not measured */
    double rate;
    double validation;       /* last value; NaN: never measured */
    double best;             /* the smallest of what theta is kept by: validation, or an exact objective of all data */
    pu_int best_step;        /* of that; -1: the last theta is kept, because nothing comparable was measured */
    double seconds, steps_per_second, seconds_left; /* by options.clock; -1 without */
    int resumed;             /* steps that were in the checkpoint it began from; 0: began at the start */
    const pu_real *theta;    /* params: the current point (valid within the call) */
    pu_report last;          /* of the last gradient: engine, plan, errors */
} pu_fit_report;

typedef struct {
    pu_int steps;            /* 0 = 200 */
    pu_optimizer optimizer;  /* default PU_ADAM. PU_LBFGS is for a deterministic gradient: all data, and exact engines or fixed
                                probes */
    double rate;             /* 0 = 0.1 (Adam), 0.01 (SGD), 1 (L-BFGS) */
    pu_schedule schedule;
    double decay;            /* PU_RATE_HYPERBOLIC: 0 = a tenth of the steps */
    double momentum;         /* SGD; 0 = 0.9, negative = none */
    double beta1, beta2, epsilon; /* Adam; 0 = 0.9, 0.999, 1e-8 */
    pu_int history;          /* L-BFGS pairs; 0 = 10 */
    pu_options gradient;     /* kind, samples, engine, solver, seed, threads ..; seed also orders the mini-batches */
    pu_int batch;            /* data per gradient, drawn without replacement; 0 = all */
    pu_int accumulate;       /* gradients per step, averaged; 0 = 1 */
    int fixed_probes;        /* the probes of a datum never change (common random numbers); otherwise fresh at every step */
    int warm_start;          /* with fixed probes: solves begin at the last solution. N (K+1) D reals; no NLL from probes, so q
                                is told */
    double tolerance;        /* > 0: stop when |g| <= tolerance times |its standard errors| in 3 steps running (or, with exact
                                or fixed noise, when |g| <= tolerance) */
    double seconds;          /* > 0: stop after that time; needs clock */
    double (*clock)(void *user);                                                     /* seconds since whenever */
    double (*validate)(pu_model *model, const pu_real *theta, void *user);           /* smaller is better; NaN stops the fit */
    pu_int validate_every;   /* steps; 0 = 10 */
    pu_int patience;         /* validations without improvement before stopping; 0 = never */
    int (*progress)(const pu_fit_report *now, void *user);                           /* nonzero: stop */
    void *user;
    const char *checkpoint;  /* file to keep the state in: written beside it and renamed, so that it is whole at any moment */
    pu_int checkpoint_every; /* steps; 0 = 10; always at the end */
    int resume;              /* begin from `checkpoint` if it is there; the end is the same to the bit as without the break.
                                A file that is damaged, or of another model, data size, precision or options, is refused */
} pu_fit_options;

/* Minimise the mean objective over theta (params; the start on entry, see pu_model_start; the result on return: the best
   point where points can be compared, else the last). A step to a theta that the model refuses, or where numbers give out
   (not finite, not definite), is halved, up to 40 times, and counted.
   Same start, options and data: same bits, at any thread count, with or without interruptions.
   Memory: about 4 params (L-BFGS 2 (history + 3) params) and what pu_model_gradient needs, from ws or its allocator, taken
   at the start. Statuses: PU_OK; those of pu_model_gradient (theta is then the best or last good point); PU_E_ARGUMENT,
   PU_E_NULL (options); PU_E_FILE: the checkpoint cannot be written, or cannot be taken up (where.what says why). */
PU_DEF pu_status pu_fit(pu_model *model, const pu_data *data, const pu_fit_options *options, pu_workspace *ws, pu_real *theta,
                        pu_fit_report *report);

/* Bytes of workspace that pu_fit needs at most, whatever the mini-batches: for a block of your own. */
PU_DEF pu_status pu_fit_bytes(pu_model *model, const pu_data *data, const pu_fit_options *options, size_t *bytes,
                              pu_report *report);

/* Standard errors of fitted parameters, on the scale of theta: square roots of the diagonal of (N H)^-1, H the second
   derivative of the mean NLL by central differences of the gradient of `options` (exact engines, or the probes held fixed).
   se: params. Cost: 2 params gradients, params^3; meant for tens of parameters. PU_E_NOT_DEFINITE: H is not positive, theta is
   no minimum (index: the parameter). A gradient from K probes brings noise into H. */
PU_DEF pu_status pu_fit_errors(pu_model *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                               const pu_real *theta, pu_real *se, pu_report *report);
/* The whole of (N H)^-1 (params x params), for errors of what is computed from several parameters: J C J' of its derivatives
   J. Likewise in all else. */
PU_DEF pu_status pu_fit_covariance(pu_model *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                                   const pu_real *theta, pu_real *covariance, pu_report *report);

/* ---- tier 1: gradients and likelihood of a latent Gaussian model ------------------------------------ */

/* Gradient of the mean objective over a batch, by the method of options->kind:
     PU_EXACT        grad of q in its first argument with Sigma exact = gradient of the NLL (Fisher's identity)
     PU_MONTE_CARLO  tr(A Sigma) replaced by mean_k sigma_k'A sigma_k, solves run to convergence
     PU_OUTPUT       the same with x after I solver steps
     PU_NETWORK      total derivative of q^<I> - mean_k delta_k'sigma_k^<I>, through the solver
   options, ws, out, report may be NULL: defaults; a block allocated and freed within the call; nothing written.
   Cost: N (K+1) (I+1) products with A; PU_NETWORK about 2 I + 1 of them and I + 1 gradient terms each (with a dense Phi about
   3.5 times PU_OUTPUT); dense engine N D^3.
   Status: PU_OK; PU_CAP, PU_STAGNATED (tolerance mode), PU_DIVERGED: outputs written; any other: no output array touched. */
PU_DEF pu_status pu_gradient(const pu_lgm *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                             const pu_results *out, pu_report *report);

/* K and I for a wanted error (options->error), as pu_gradient itself does for PU_AUTO: *tuned = *options with both replaced by
   numbers. A fit tunes once in a while, not at every step. A pilot of 8 probes and 20 steps on the first 4 data measures
   the error of one probe and the decay of the solver's; K falls with the number of data. `out` tells which gradients count (at
   least one of Gamma, Phi, psi) and is not written. options->engine = PU_ENGINE_AUTO: no pilot where exact engines are
   cheaper than 2 probes of 4 steps. Status: as pu_gradient; PU_E_UNSUPPORTED: GD, SD, x0, or delta with samples = PU_AUTO. */
PU_DEF pu_status pu_tune(const pu_lgm *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                         const pu_results *out, pu_options *tuned, pu_report *report);

/* Bytes of workspace that pu_gradient with the same arguments needs (PU_AUTO: at the limits of K and I). */
PU_DEF pu_status pu_gradient_bytes(const pu_lgm *model, const pu_data *data, const pu_options *options,
                                   const pu_results *out, size_t *bytes, pu_report *report);

/* Mean negative log-likelihood without gradients: exact with an exact engine (also where PU_ENGINE_AUTO chooses one), otherwise
   estimated from the CG coefficients of the probes with its standard error. *se may be NULL; 0 where exact. Cost as
   pu_gradient's, without gradients. Statuses: those of pu_gradient; PU_E_UNSUPPORTED: GD, SD, a Gamma without logdet;
   PU_E_ARGUMENT: x0, PU_AUTO. */
PU_DEF pu_status pu_nll(const pu_lgm *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                        double *nll, double *se, pu_report *report);

/* Everything about one datum, densely: for tests, teaching and small problems. Any pointer may be NULL. */
typedef struct {
    pu_real *A, *Sigma; /* D x D row-major */
    pu_real *b, *mu;    /* D */
    double c, logdet, nll;
    pu_int observed; /* M_n */
} pu_exact_result;
PU_DEF pu_status pu_exact(const pu_lgm *model, const pu_data *data, pu_int datum, pu_workspace *ws,
                          pu_exact_result *result, pu_report *report);
PU_DEF pu_status pu_exact_bytes(const pu_lgm *model, size_t *bytes, pu_report *report);

/* n draws from the model: z = nu + Gamma^-1 delta, delta ~ N(0, Gamma), so that z ~ N(nu, Gamma^-1), and y = Phi z + eta +
   noise. z: n x D, y: n x M; either may be NULL. Draw i is a function of (seed, i), up to rounding. Needs Gamma.sample.
   Gamma^-1 is Gamma.solve; without it CG (PCG where Gamma.diag is there) to rounding level, PU_CAP or PU_STAGNATED when it does
   not get there. One block of workspace, about n (D + M) reals; like the two calls below, a fixed block that is too small is
   refused with PU_E_BLOCK, the size in report.bytes. Outputs are written under the same statuses as pu_gradient's. */
PU_DEF pu_status pu_simulate(const pu_lgm *model, pu_int n, uint64_t seed, pu_workspace *ws, pu_real *z, pu_real *y,
                             pu_report *report);

/* The posterior z | y of every datum, by the engine of `options` (gradients are not formed; kind = PU_MONTE_CARLO runs the
   solves to convergence, PU_NETWORK and PU_OUTPUT take what I steps give). Arrays are yours, NULL = not wanted.
   The variance is exact with a direct engine (`exact` = 1), otherwise estimated from the K = `probes` probes, relative
   standard error at most (2 / K)^1/2: where diag(A) is known 1/A_jj + mean_k (sigma_kj - delta_kj / A_jj)^2, whose error
   vanishes where A_jj dominates; else mean_k sigma_kj^2. samples: draws of N(mu, Sigma); PU_EXACT has none (refused), use
   PU_MONTE_CARLO with PU_DENSE. With the mean alone wanted a single probe is solved. Cost, statuses as pu_gradient;
   PU_E_ARGUMENT: PU_AUTO for K or I, there being no gradient to tune them for. */
typedef struct {
    pu_real *mean;     /* N x D       mu */
    pu_real *variance; /* N x D       diagonal of Sigma */
    pu_real *samples;  /* N x K x D   mu + sigma_k */
    int exact;         /* set: the variance of every datum is exact (report.served: who did what) */
    pu_int probes;     /* set: K */
} pu_posterior_result;
PU_DEF pu_status pu_posterior(const pu_lgm *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                              pu_posterior_result *out, pu_report *report);

/* What the model says about every entry of y, observed or not. Variances exact or mean_k (Phi sigma_k)_m^2, as above. */
typedef struct {
    pu_real *mean;     /* N x M   Phi mu + eta */
    pu_real *fit;      /* N x M   variance of the noiseless Phi z + eta: (Phi Sigma Phi')_mm */
    pu_real *variance; /* N x M   variance of a new observation: fit + 1/psi_m */
    pu_real *imputed;  /* N x M, rows next to each other   y where observed, else mean; may be data.y (not of lists) */
    int exact;         /* set: all variances are exact */
    pu_int probes;     /* set: K */
} pu_prediction;
PU_DEF pu_status pu_predict(const pu_lgm *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                            pu_prediction *out, pu_report *report);

/* ---- tier 2: linear systems with any symmetric positive definite operator --------------------------- */

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

/* Solves A X = U for k columns and, when asked, differentiates F = sum_j w_j (1/2 x_j'A x_j - u_j'x_j) through the solver.
   options, backend, ws, report may be NULL. Cost: (I + 1) products per column, about 2 I + 1 with gradients. Status rules are
   those of pu_gradient. */
PU_DEF pu_status pu_solve(const pu_op *A, const pu_solve_arrays *arrays, const pu_solve_options *options,
                          const pu_backend *backend, pu_workspace *ws, pu_report *report);
/* Bytes of workspace that it needs on the CPU (gradients: whether grad_A or grad_U is wanted). */
PU_DEF pu_status pu_solve_bytes(const pu_op *A, pu_int k, const pu_solve_options *options, int gradients,
                                size_t *bytes, pu_report *report);

/* ---- operators --------------------------------------------------------------------------------------- */

/* Row-major rows x cols matrix, borrowed; params = its entries. */
PU_DEF pu_op pu_op_dense(pu_int rows, pu_int cols, const pu_real *a);
/* Symmetric positive definite n x n matrix (both triangles), borrowed; gradient symmetrised. `factor` (n x n, may be
   NULL) receives the lower Cholesky factor from pu_op_spd_factor, which must be called again whenever `a` changes;
   without it there is no sample, logdet or logdet_grad. When the matrix is not positive definite (index: the entry where
   it shows) the contents of `factor` are undefined. */
PU_DEF pu_op pu_op_spd(pu_int n, const pu_real *a, const pu_real *factor);
PU_DEF pu_status pu_op_spd_factor(pu_int n, const pu_real *a, pu_real *factor, pu_int *index);
/* diag(a), a > 0 for sampling and log det; params = n. */
PU_DEF pu_op pu_op_diagonal(pu_int n, const pu_real *a);
/* I, no parameter. */
PU_DEF pu_op pu_op_identity(pu_int n);
/* a[0] I; one parameter. */
PU_DEF pu_op pu_op_scaled_identity(pu_int n, const pu_real *a);
/* left * right; params = those of left, then those of right. Both are borrowed. */
PU_DEF pu_op pu_op_product(const pu_op *left, const pu_op *right);
/* left + right, likewise; diag where both have it, sampling where both have it; no log det. */
PU_DEF pu_op pu_op_sum(const pu_op *left, const pu_op *right);

/* Stationary autoregression of order P and length n >= P, z_t = phi_1 z_{t-1} + .. + phi_P z_{t-P} + N(0, kappa), begun
   in its stationary distribution. Parameters: the partial autocorrelations gamma_1 .. gamma_P, each in (-1, 1) (all of
   these and no others are stationary: optimise atanh gamma), then the innovation variance kappa > 0. P = 0 is white
   noise. The struct is yours, about 700 reals; fill it with pu_ar_set or pu_ar_set_phi, then only read it. */
#define PU_AR_MAX 32 /* largest order */
typedef struct pu_ar {
    pu_int n, order;
    pu_real gamma[PU_AR_MAX], phi[PU_AR_MAX], kappa;
    pu_real band[2 * PU_AR_MAX + 1]; /* row of Gamma away from the ends: lags -P .. P */
    /* rows 0 .. P of X, X'X = Gamma, lower triangular; later rows repeat row P. Entry (t, t-j) at t (t+1) / 2 + j */
    pu_real rows[(PU_AR_MAX + 1) * (PU_AR_MAX + 2) / 2];
} pu_ar;
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
PU_DEF void pu_ar_pull_phi(const pu_ar *ar, const pu_real *grad_gamma, pu_real *grad_phi);
/* Its n x n precision Gamma = X'X, banded, P each side; params = P + 1: gamma, kappa. *ar is borrowed and may be set
   anew with the same n and P. Products, solves, draws and gradients are O(n P) per column, no scratch. Bands are rounded
   like any sum of squares: in a float build a process with a root within about 1e-3 of the unit circle has a Gamma
   that is positive definite only together with Phi'W Phi. */
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
typedef enum { PU_SSM_ZERO, PU_SSM_STATIONARY, PU_SSM_GIVEN } pu_ssm_start;
typedef struct {
    pu_int steps, states;
    pu_ssm_start start;
    pu_real A[PU_SSM_MAX * PU_SSM_MAX], Q[PU_SSM_MAX * PU_SSM_MAX]; /* S x S, packed, as all below; read only */
    double P0[PU_SSM_MAX * PU_SSM_MAX];                             /* the covariance of z_1, whatever the start */
    /* private */
    pu_real W[PU_SSM_MAX * PU_SSM_MAX], W0[PU_SSM_MAX * PU_SSM_MAX]; /* Q^-1, P0^-1 */
    pu_real F[PU_SSM_MAX * PU_SSM_MAX], F0[PU_SSM_MAX * PU_SSM_MAX]; /* F F' = Q^-1, F0 F0' = P0^-1 */
    double Qi[PU_SSM_MAX * PU_SSM_MAX], Pi[PU_SSM_MAX * PU_SSM_MAX]; /* the inverses once more, for the gradients */
    double logdet;
    int doublings;  /* squarings of A after which the series for P0 has converged */
    uint64_t print; /* of what was set, to see that A, Q or P0 was changed since */
} pu_ssm;
PU_DEF pu_status pu_ssm_set(pu_ssm *m, pu_int steps, pu_int states, const pu_real *A, const pu_real *Q,
                            pu_ssm_start start, const pu_real *P0, pu_int *index);
/* Gamma, borrowing *m. About 3 S^2 T multiplications per column, no scratch; grad 5 S^2 T; solve 3 S^2 T. */
PU_DEF pu_op pu_op_ssm(const pu_ssm *m);
/* The prior mean that belongs to a start at m0 (S): nu_t = A^(t-1) m0, D entries; m0 = 0 needs none. Its reverse takes
   d/dnu (results.nu) back: grad_A (S x S, may be results.Gamma) += d/dA, grad_m0 (S) += d/dm0; NULL = not wanted. */
PU_DEF pu_status pu_ssm_mean(const pu_ssm *m, const pu_real *m0, pu_real *nu);
PU_DEF pu_status pu_ssm_mean_grad(const pu_ssm *m, const pu_real *nu, const pu_real *grad_nu, pu_real *grad_A,
                                  pu_real *grad_m0);
/* Phi = I (x) c', steps x (states steps): one observation c'z_t per step. c borrowed, of any length; params = c. */
PU_DEF pu_op pu_op_readout(pu_int steps, pu_int states, const pu_real *c);

/* Models of series (see pu_model for memory and statuses; PU_E_ARGUMENT also for an order or a number of states that the
   operators above do not take). One datum is one series, M of its length.
   Noisy autoregression: z an AR of this order and length n, y = z + N(0, lambda).
     [atanh gamma | log kappa | log lambda], order + 2. Start: gamma from the autocovariances of the observed pairs.
   State space: z as above, y_t = c'z_t + N(0, sigma2); L L' = Q, L0 L0' = P0, lower triangles row by row, diagonals as log.
     [A | c | L | log sigma2], PU_SSM_GIVEN: [A | c | L | log sigma2 | m0 | L0]
     pu_model_set: PU_E_NOT_DEFINITE with index 0 when A has no stationary covariance but needs one.
     Start: independent states that forget at different rates, from the variance and the autocovariances at lags 1, 2. */
PU_DEF pu_status pu_model_noisy_ar(pu_model *model, pu_int n, pu_int order, pu_report *report);
PU_DEF pu_status pu_model_state_space(pu_model *model, pu_int steps, pu_int states, pu_ssm_start start, pu_report *report);
/* The process as of the last set, e.g. phi of the AR; only of these models. */
PU_DEF const pu_ar *pu_model_ar(const pu_model *model);
PU_DEF const pu_ssm *pu_model_ssm(const pu_model *model);

/* Sparse rows x cols matrix, compressed rows: row i holds value[s] in column index[s] for start[i] <= s < start[i+1].
   start[0] = 0, columns strictly increase within a row (check refuses anything else with PU_E_SIZE; index: the entry of
   `start` or `index` at fault). params = the start[rows] stored values; the pattern is fixed, and the gradient has no
   entry outside it. diag when square. The struct and its arrays are borrowed. A product costs 2 start[rows] flops
   per column. */
typedef struct {
    pu_int rows, cols;
    const pu_int *start; /* rows + 1 */
    const pu_int *index;
    const pu_real *value;
} pu_csr;
PU_DEF pu_op pu_op_csr(const pu_csr *a);

/* diag(d) + U U', d > 0, U n x r row-major; params = n + n r, ordered [d | U]. The struct and its arrays are borrowed.
   `factor` (r x r, may be NULL) receives the lower Cholesky factor of C = I + U' diag(d)^-1 U from pu_low_rank_factor,
   which must be called again whenever d or U changes (check compares the diagonal of C); without it there is no logdet
   or logdet_grad. A draw takes n + r normals: sqrt(d) e1 + U e2. Product 4 n r flops, log det O(n + r), its gradient
   and the factor O(n r^2). */
typedef struct {
    pu_int n, r;
    const pu_real *d; /* n */
    const pu_real *u; /* n x r */
    pu_real *factor;
} pu_low_rank;
PU_DEF pu_op pu_op_low_rank(const pu_low_rank *a);
/* Refuses NULL arrays, sizes below 1, numbers that are not finite, d <= 0 (index: the parameter), and C when it
   overflows (PU_E_NOT_DEFINITE, index: the entry of C, contents of `factor` undefined). */
PU_DEF pu_status pu_low_rank_factor(const pu_low_rank *a, pu_int *index);

/* Kronecker product left (x) right of any two operators, borrowed; params = those of left, then those of right. A
   vector of left->cols * right->cols entries is a row-major matrix X with one row per column of left, and the product
   is left X right'. Every function is there whose counterparts both operands have (diag, log det: square operands). A
   product costs left->cols products with right and right->rows products with left. */
PU_DEF pu_op pu_op_kronecker(const pu_op *left, const pu_op *right);

/* Symmetric Toeplitz n x n, entry (i, j) = t[|i - j|]; params = n. `factor` (2 n reals, may be NULL) receives the
   reflection coefficients and a copy of t from pu_toeplitz_factor, to be called again whenever t changes; without it
   there is no sample, logdet or logdet_grad. Product, factor, draw and gradient of log det: O(n^2); log det: O(n). */
PU_DEF pu_op pu_op_toeplitz(pu_int n, const pu_real *t, const pu_real *factor);
/* PU_E_NOT_DEFINITE when the matrix is not positive definite (index: the entry of t where it shows). */
PU_DEF pu_status pu_toeplitz_factor(pu_int n, const pu_real *t, pu_real *factor, pu_int *index);

/* Symmetric circulant n x n, entry (i, j) = c[min(l, n - l)], l = |i - j|; params = n/2 + 1, the free lags. `factor`
   (4 (n/2 + 1) reals, may be NULL) receives from pu_circulant_factor, lag by lag: the eigenvalues, the first columns of
   the square root and of the inverse, and a copy of c; to be called again whenever c changes; without it there is no
   sample, logdet or logdet_grad. Product, factor and a draw: O(n^2); log det and its gradient O(n). */
PU_DEF pu_op pu_op_circulant(pu_int n, const pu_real *c, const pu_real *factor);
/* PU_E_NOT_DEFINITE when an eigenvalue is not positive (index: its frequency). */
PU_DEF pu_status pu_circulant_factor(pu_int n, const pu_real *c, pu_real *factor, pu_int *index);

/* Discrete Fourier transform of any length n >= 1, unitary both ways:
     X_k = n^-1/2 sum_j x_j e^(-2 pi i j k / n),   inverse: the same with e^(+2 pi i j k / n).
   Mixed radix (4, 2, 3, 5 and any odd prime up to 64); a length with a larger prime factor goes through a convolution
   of the next power of two (Bluestein), so that no length costs more than O(n log n). The plan keeps its tables in
   `memory` (pu_fft_bytes tells how many bytes; any alignment), which must outlive it; once made it is constant and
   may be used by several threads, each with scratch `work` of plan->work reals of its own.
   Statuses: PU_E_NULL; PU_E_ARGUMENT (n < 1); PU_E_OVERFLOW; PU_E_BLOCK (memory too small). */
typedef struct {
    pu_int n, work; /* length; reals of scratch for pu_fft_run */
    /* private from here on */
    pu_int length;           /* of the mixed radix transform: n, or the power of two of the convolution */
    int convolve, passes;
    int radix[64];           /* length = product */
    const pu_real *table;    /* per pass: (radix - 1) x m factors, re then im; radix > 5: the roots, re then im */
    const pu_real *chirp;    /* e^(-pi i k^2 / n), re then im: n each */
    const pu_real *filter;   /* transform of the wrapped conjugate chirp / length: length each */
    void *fftw;              /* FFTW's plan with PU_USE_FFTW, else NULL */
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

/* ---- data --------------------------------------------------------------------------------------------- */

/* N data of m entries each, arrays borrowed: complete; gaps where mask is 0; gaps where y is NaN; lists of what is there. What
   is wrong with them is found by the call that uses them. */
PU_DEF pu_data pu_data_full(pu_int n, pu_int m, const pu_real *y);
PU_DEF pu_data pu_data_masked(pu_int n, pu_int m, const pu_real *y, const unsigned char *mask);
PU_DEF pu_data pu_data_nan(pu_int n, pu_int m, const pu_real *y);
PU_DEF pu_data pu_data_lists(pu_int n, pu_int m, const pu_int *start, const pu_int *index, const pu_real *y);

/* ---- tier 3: random numbers, memory, texts -------------------------------------------------------------- */

/* Philox4x32-10: out = f(key, counter). */
PU_DEF void pu_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);
/* n standard normals, entries first .. first+n-1 < 2^32 of the stream (seed, datum, sample, step, stream < 4). Pure function.
   The library draws from streams 0, 1 (probes) and 2 (tests of operators, pu_simulate); stream 3 is yours. */
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

#include <float.h>
#include <math.h>
#include <string.h>
#ifndef PU_NO_MALLOC
#include <stdlib.h>
#endif
#ifndef PU_NO_STDIO
#include <stdio.h>
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
/* Square root and hyperbolic tangent in pu_real. */
PU__FN PU_HD pu_real pu__sqrt(pu_real x) { return sqrtf(x); }
PU__FN pu_real pu__tanh(pu_real x) { return tanhf(x); }
#else
#define PU__EPS DBL_EPSILON
#define PU__FLOOR2 PU_R(1e-28) /* (45 eps)^2 */
/* Square root and hyperbolic tangent in pu_real. */
PU__FN PU_HD pu_real pu__sqrt(pu_real x) { return sqrt(x); }
PU__FN pu_real pu__tanh(pu_real x) { return tanh(x); }
#endif

/* x - x is 0 for every finite x and NaN for the rest: usable on host and device, in C and C++. */
PU__FN PU_HD int pu__finite(pu_real x) { return x - x == 0; }
PU__FN int pu__finite_double(double x) { return x - x == 0.0; }
/* The larger and the smaller of two numbers. */
PU__FN double pu__max(double x, double y) { return x > y ? x : y; }
PU__FN PU_HD pu_int pu__min(pu_int x, pu_int y) { return x < y ? x : y; }
PU__FN pu_int pu__most(pu_int x, pu_int y) { return x > y ? x : y; }
/* n reals set to zero; n reals copied. The arrays must not overlap. */
PU__FN void pu__zeros(pu_real *to, pu_int n) { memset(to, 0, (size_t)n * sizeof(pu_real)); }
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

/* Appends a label and x >= 0 in percent, with three decimals. */
PU__FN void pu__put_percent(pu__text *text, const char *label, double x)
{
    const pu_int thousandths = x < 1e9 ? (pu_int)(1e5 * x + 0.5) : (pu_int)1e14;
    const pu_int decimals = thousandths % 1000;
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
    pu__text text;
    int steps;
    if (!buffer || capacity == 0) return "";
    text.at = buffer;
    text.used = 0;
    text.capacity = capacity;
    buffer[0] = 0;
    if (!report) return buffer;
    pu__put(&text, pu_status_text(report->status));
    if (report->where.what && report->where.what[0]) {
        pu__put(&text, ": ");
        pu__put(&text, report->where.what);
    }
    pu__put_number(&text, ", datum ", report->where.datum);
    pu__put_number(&text, ", column ", report->where.column);
    /* a warning about a column tells the step of the solver */
    steps = report->status > 0 && report->where.column >= 0;
    pu__put_number(&text, steps ? ", step " : ", index ", report->where.index);
    if (report->status == PU_E_BLOCK || report->status == PU_E_MEMORY) {
        const int device = strncmp(report->where.what, "device", 6) == 0;
        pu__put_number(&text, ", bytes needed ", (pu_int)(device ? report->device_bytes : report->bytes));
    }
    return buffer;
}

/* Records what is at fault and returns the status. Every failure of the library passes through here.
   datum, index: -1 where they do not apply. */
PU__FN pu_status pu__fail(pu_report *report, pu_status status, const char *what, pu_int datum, pu_int index)
{
    report->status = status;
    report->where.what = what;
    report->where.datum = datum;
    report->where.column = -1;
    report->where.index = index;
    return status;
}

/* The same where neither a datum nor an index is at fault. */
PU__FN pu_status pu__refuse(pu_report *report, pu_status status, const char *what)
{
    return pu__fail(report, status, what, -1, -1);
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

#define PU__ARENA {NULL, 0, 0, NULL, NULL, 0}

/* a * b; sets *overflow where the product exceeds PTRDIFF_MAX. */
PU__FN size_t pu__mul(size_t a, size_t b, int *overflow)
{
    if (b == 0 || a <= (size_t)PTRDIFF_MAX / b) return a * b;
    *overflow = 1;
    return 0;
}

/* a + b, likewise. */
PU__FN size_t pu__add(size_t a, size_t b, int *overflow)
{
    if (a <= (size_t)PTRDIFF_MAX - b) return a + b;
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
    const int there = far && pu__is_far(arena->B);
    unsigned char *base = there ? arena->far : arena->base;
    size_t *used = there ? &arena->far_used : &arena->used;
    const size_t at = *used;
    size_t bytes;
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

/* `count` blocks of n x k reals where the backend works. */
PU__FN pu_real *pu__far_blocks(pu__arena *arena, pu_int count, pu_int n, pu_int k)
{
    return (pu_real *)pu__take_from(arena, 1, count, n, pu__mul((size_t)k, sizeof(pu_real), &arena->overflow));
}

/* A block of k columns of n reals from our own memory, */
PU__FN pu_block pu__cols(pu__arena *arena, pu_int n, pu_int k)
{
    pu_block b;
    b.at = pu__reals(arena, n, k);
    b.ld = n;
    return b;
}

/* and where the backend works. */
PU__FN pu_block pu__far_cols(pu__arena *arena, pu_int n, pu_int k)
{
    pu_block b;
    b.at = pu__far_reals(arena, n, k);
    b.ld = n;
    return b;
}

/* Bytes the caller must provide for an arena of `used`: room to align any address. */
PU__FN size_t pu__arena_bytes(const pu__arena *arena) { return arena->used + PU__ALIGN; }

/* Memory from the caller's allocator, or from malloc where there is none. */
PU__FN void *pu__alloc(const pu_allocator *a, size_t bytes)
{
    if (a->alloc) return a->alloc(bytes, a->user);
#ifdef PU_NO_MALLOC
    return NULL;
#else
    return malloc(bytes);
#endif
}

/* Gives it back. block may be NULL. */
PU__FN void pu__release(const pu_allocator *a, void *block, size_t bytes)
{
    if (!block) return;
    if (a->free) {
        a->free(block, bytes, a->user);
        return;
    }
#ifndef PU_NO_MALLOC
    free(block);
#endif
}

/* Makes the caller's block the workspace; it never grows. */
PU_DEF void pu_workspace_block(pu_workspace *ws, void *block, size_t bytes)
{
    pu_workspace_free(ws);
    ws->block = block;
    ws->bytes = bytes;
    ws->fixed = 1;
}

/* Releases what the workspace allocated; a block of the caller's stays his. ws may be NULL. */
PU_DEF void pu_workspace_free(pu_workspace *ws)
{
    if (!ws) return;
    if (!ws->fixed)
        pu__release(&ws->allocator, ws->block, ws->bytes);
    ws->block = NULL;
    ws->bytes = 0;
    ws->fixed = 0;
}

/* The first address from `at` on that is a multiple of PU__ALIGN. */
PU__FN unsigned char *pu__aligned(void *at)
{
    return (unsigned char *)at + (PU__ALIGN - (uintptr_t)at % PU__ALIGN) % PU__ALIGN;
}

/* The backend's part of pu__arena_open. Its memory may be NULL for want of it, or because of an earlier error. */
PU__FN pu_status pu__arena_open_far(pu__arena *arena, pu_report *report)
{
    const pu_backend *B = arena->B;
    const char *what = "device memory";
    pu_status status;
    void *block;
    report->device_bytes = arena->far_used + PU__ALIGN;
    if (report->device_bytes > B->budget) return pu__refuse(report, PU_E_MEMORY, "device memory (over its budget)");
    block = B->memory(B->user, report->device_bytes);
    if (!block) {
        status = B->status(B->user, &what);
        return pu__refuse(report, status ? status : PU_E_MEMORY, what);
    }
    arena->far = pu__aligned(block);
    arena->far_used = 0;
    return PU_OK;
}

/* Turns a measured arena into a real one. The workspace grows unless it is fixed; a block that is large enough is
   used as it is, so that a second call of the same size allocates nothing. */
PU__FN pu_status pu__arena_open(pu__arena *arena, pu_workspace *ws, pu_report *report)
{
    const size_t need = pu__arena_bytes(arena);
    if (arena->overflow) return pu__refuse(report, PU_E_OVERFLOW, "workspace");
    report->bytes = need;
    if (!ws->allocator.alloc != !ws->allocator.free) return pu__refuse(report, PU_E_NULL, "workspace.allocator");
    if (ws->bytes < need || !ws->block) {
        if (ws->fixed) return pu__refuse(report, PU_E_BLOCK, "workspace");
        pu_workspace_free(ws);
        ws->block = pu__alloc(&ws->allocator, need);
        ws->allocations++;
        if (!ws->block) return pu__refuse(report, PU_E_MEMORY, "workspace");
        ws->bytes = need;
    }
    arena->base = pu__aligned(ws->block);
    arena->used = 0;
    return pu__is_far(arena->B) ? pu__arena_open_far(arena, report) : PU_OK;
}

/* ---- a hash of bytes: stamps of operators, checkpoints ---- */

#define PU__FNV UINT64_C(0xcbf29ce484222325) /* where a hash begins */

/* FNV-1a: the hash h, continued by more bytes. Files hold its values, so it must not change. */
PU__FN uint64_t pu__fnv(uint64_t h, const void *data, size_t bytes)
{
    const unsigned char *at = (const unsigned char *)data;
    size_t i;
    for (i = 0; i < bytes; i++)
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
    memset(&call->own_ws, 0, sizeof call->own_ws);
    memset(&call->arena, 0, sizeof call->arena);
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
    if (call->arena.overflow) return pu__refuse(call->report, PU_E_OVERFLOW, "workspace");
    if (bytes) {
        *bytes = pu__arena_bytes(&call->arena);
        call->report->bytes = *bytes;
    }
    return PU_OK;
}

/* Memory for what pu__measure has measured: from the workspace, in one piece.
   The layout runs once more and now gives addresses. */
PU__FN pu_status pu__allocate(pu__call *call, pu__layout layout, void *self)
{
    const pu_status status = pu__arena_open(&call->arena, call->ws, call->report);
    if (!status) layout(self, &call->arena);
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
    const uint64_t p0 = (uint64_t)0xD2511F53u * *c0;
    const uint64_t p1 = (uint64_t)0xCD9E8D57u * *c2;
    *c0 = (uint32_t)(p1 >> 32) ^ *c1 ^ k0;
    *c1 = (uint32_t)p1;
    *c2 = (uint32_t)(p0 >> 32) ^ *c3 ^ k1;
    *c3 = (uint32_t)p0;
}

#define PU__PHILOX_ROUNDS 10
#define PU__PHILOX_KEY0 0x9E3779B9u /* added to the key after a round */
#define PU__PHILOX_KEY1 0xBB67AE85u

/* Four random words out of a key of two words and a counter of four. */
PU__FN PU_HD void pu__philox(const uint32_t *key, const uint32_t *counter, uint32_t *out)
{
    uint32_t k0 = key[0], k1 = key[1];
    int i;
    for (i = 0; i < 4; i++)
        out[i] = counter[i];
    for (i = 0; i < PU__PHILOX_ROUNDS; i++) {
        pu__philox_round(k0, k1, out, out + 1, out + 2, out + 3);
        k0 += PU__PHILOX_KEY0;
        k1 += PU__PHILOX_KEY1;
    }
}

/* The same for callers of the library. */
PU_DEF void pu_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
    pu__philox(key, counter, out);
}

/* sum_i c[i] x^i, i < count, by Horner's rule. */
PU__FN PU_HD pu_real pu__horner(pu_real x, const pu_real *c, int count)
{
    pu_real s = c[count - 1];
    int i;
    for (i = count - 2; i >= 0; i--)
        s = s * x + c[i];
    return s;
}

#ifdef PU_FLOAT
enum { PU__ATANH_TERMS = 6, PU__SIN_TERMS = 6, PU__COS_TERMS = 6 };
#else
enum { PU__ATANH_TERMS = 11, PU__SIN_TERMS = 9, PU__COS_TERMS = 10 };
#endif

/* If the upper `bits` bits of v are zero, shifts v up by as many and returns their number; otherwise returns 0. */
PU__FN PU_HD uint32_t pu__shift_up(uint32_t *v, uint32_t bits)
{
    const uint32_t top = *v >> (32 - bits);
    *v = top ? *v : *v << bits;
    return top ? 0 : bits;
}

/* log u for u = (2 floor(word/2) + 1) / 2^32 in (0, 1), as -e log 2 + 2 atanh(s). Here s = (t-1)/(t+1), |s| <
   0.172, with t = 2^e u in [0.7, 1.42). t-1 is formed in integers, so that u near 1 loses no digits. */
PU__FN PU_HD pu_real pu__log_uniform(uint32_t word)
{
    static const pu_real series[11] = {1, PU_R(1.0 / 3), PU_R(1.0 / 5), PU_R(1.0 / 7), PU_R(1.0 / 9),
                                       PU_R(1.0 / 11), PU_R(1.0 / 13), PU_R(1.0 / 15), PU_R(1.0 / 17),
                                       PU_R(1.0 / 19), PU_R(1.0 / 21)};
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
    static const pu_real sin_series[9] = {1, PU_R(-1.0 / 6), PU_R(1.0 / 120), PU_R(-1.0 / 5040), PU_R(1.0 / 362880),
                                          PU_R(-1.0 / 39916800), PU_R(1.0 / 6227020800.0),
                                          PU_R(-1.0 / 1307674368000.0), PU_R(1.0 / 355687428096000.0)};
    static const pu_real cos_series[10] = {1, PU_R(-1.0 / 2), PU_R(1.0 / 24), PU_R(-1.0 / 720), PU_R(1.0 / 40320),
                                           PU_R(-1.0 / 3628800), PU_R(1.0 / 479001600), PU_R(-1.0 / 87178291200.0),
                                           PU_R(1.0 / 20922789888000.0), PU_R(-1.0 / 6402373705728000.0)};
    /* odd, |angle| < 2^30 */
    const int32_t angle = (int32_t)((w1 & 0x3FFFFFFFu) << 1) + 1 - ((int32_t)1 << 30);
    const pu_real a = (pu_real)angle * PU_R(3.14159265358979323846 / 4294967296.0);
    const pu_real sine = a * pu__horner(a * a, sin_series, PU__SIN_TERMS);
    const pu_real cosine = pu__horner(a * a, cos_series, PU__COS_TERMS);
    /* bit 30 of w1 adds pi/2, bit 31 adds pi */
    const pu_real x = w1 >> 30 & 1 ? -sine : cosine;
    const pu_real y = w1 >> 30 & 1 ? cosine : sine;
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

/* The same over arrays: n <= PU__DRAW pairs of words w0, w1 give z0, z1. */
PU__FN void pu__normal_pairs(int n, const uint32_t *w0, const uint32_t *w1, pu_real *z0, pu_real *z1)
{
    pu_real radius[PU__DRAW], cs[PU__DRAW], sn[PU__DRAW];
    int l;
    for (l = 0; l < n; l++)
        pu__normal_parts(w0[l], w1[l], radius + l, cs + l, sn + l);
    for (l = 0; l < n; l++)
        radius[l] = pu__sqrt(radius[l]);
    for (l = 0; l < n; l++) {
        z0[l] = radius[l] * cs[l];
        z1[l] = radius[l] * sn[l];
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
    pu_real part[4][PU__DRAW];
    uint32_t k0 = (uint32_t)key->seed;
    uint32_t k1 = (uint32_t)(key->seed >> 32);
    int l, round;
    for (l = 0; l < count; l++) {
        c1[l] = key->sample;
        c2[l] = key->datum;
        c3[l] = key->step;
    }
    /* pu__philox of all counter values side by side */
    for (round = 0; round < PU__PHILOX_ROUNDS; round++) {
        for (l = 0; l < count; l++)
            pu__philox_round(k0, k1, c0 + l, c1 + l, c2 + l, c3 + l);
        k0 += PU__PHILOX_KEY0;
        k1 += PU__PHILOX_KEY1;
    }
    pu__normal_pairs(count, c0, c1, part[0], part[1]);
    pu__normal_pairs(count, c2, c3, part[2], part[3]);
    /* the four words of a counter value give four neighbours */
    for (l = 0; l < count; l++) {
        z[4 * l] = part[0][l];
        z[4 * l + 1] = part[1][l];
        z[4 * l + 2] = part[2][l];
        z[4 * l + 3] = part[3][l];
    }
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
    const pu__draw_key key = {seed, datum, sample, step};
    uint32_t c0[PU__DRAW];
    pu_real z[4 * PU__DRAW];
    while (n > 0) {
        /* the first number may lie inside a counter value, behind `skip` others */
        const pu_int skip = (pu_int)(first % 4);
        const pu_int some = pu__min(n, 4 * PU__DRAW - skip);
        const int count = (int)(skip + some + 3) / 4;
        int l;
        for (l = 0; l < count; l++)
            c0[l] = pu__counter(first / 4 + (uint64_t)l, stream);
        if (some == 4 * count) {
            pu__draw(&key, count, c0, out);
        } else {
            /* at an end not all four numbers of a counter value are wanted */
            pu__draw(&key, count, c0, z);
            pu__copy(out, z + skip, some);
        }
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
    pu_int i, from, end, block;
    for (from = 0; from < n; from = end) {
        int count = 0;
        block = -1;
        /* as many indices as PU__DRAW counter values serve */
        for (end = from; end < n; end++) {
            if (list[end] / 4 == block) continue;
            if (count == PU__DRAW) break;
            block = list[end] / 4;
            c0[count++] = pu__counter((uint64_t)block, stream);
        }
        pu__draw(key, count, c0, z);
        /* the same walk once more: count is the place of the counter value */
        block = -1;
        count = -1;
        for (i = from; i < end; i++) {
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

#define PU__LANES 16  /* independent partial sums: compilers vectorise this without -ffast-math */
#define PU__CHUNK 512 /* entries per pass: the partial sums of a chunk are closed and added in double */

PU__FN PU_HD pu_real *pu__col(pu_block b, pu_int j) { return b.at + j * b.ld; }

PU__FN pu_block pu__from(pu_block b, pu_int column)
{
    b.at = pu__col(b, column);
    return b;
}

/* a block to be read; row-major rows are the columns of one */
PU__FN pu_block pu__rows(const pu_real *at, pu_int ld)
{
    pu_block b;
    b.at = (pu_real *)(uintptr_t)at, b.ld = ld;
    return b;
}

/* sum m x y over at most PU__CHUNK entries; m may be NULL */
PU__FN pu_real pu__dot_chunk(pu_int n, const pu_real *m, const pu_real *x, const pu_real *y)
{
    pu_real lane[PU__LANES] = {0};
    pu_int i = 0, l, half;
    if (n < PU__LANES) { /* short vectors: the tree below would cost more than the sum, and double is free */
        double s = 0;
        for (; i < n; i++) s += m ? (double)m[i] * (double)x[i] * (double)y[i] : (double)x[i] * (double)y[i];
        return (pu_real)s;
    }
    if (m) {
        for (; i + PU__LANES <= n; i += PU__LANES)
            for (l = 0; l < PU__LANES; l++) lane[l] += m[i + l] * x[i + l] * y[i + l];
        for (l = 0; i < n; i++, l++) lane[l] += m[i] * x[i] * y[i];
    } else {
        for (; i + PU__LANES <= n; i += PU__LANES)
            for (l = 0; l < PU__LANES; l++) lane[l] += x[i + l] * y[i + l];
        for (l = 0; i < n; i++, l++) lane[l] += x[i] * y[i];
    }
    for (half = PU__LANES / 2; half > 0; half /= 2)
        for (l = 0; l < half; l++) lane[l] += lane[l + half];
    return lane[0];
}

PU__FN double pu__dot(pu_int n, const pu_real *m, const pu_real *x, const pu_real *y)
{
    double s = 0;
    pu_int i;
    for (i = 0; i < n; i += PU__CHUNK)
        s += (double)pu__dot_chunk(pu__min(PU__CHUNK, n - i), m ? m + i : NULL, x + i, y + i);
    return s;
}

/* y += c a o x */
PU__FN void pu__add_product(pu_int n, pu_real c, const pu_real *a, const pu_real *x, pu_real *PU__RESTRICT y)
{
    pu_int i;
    for (i = 0; i < n; i++) y[i] += c * (a[i] * x[i]);
}

/* y += a x */
PU__FN void pu__axpy(pu_int n, pu_real a, const pu_real *x, pu_real *y)
{
    pu_int i;
    for (i = 0; i < n; i++) y[i] += a * x[i];
}

/* Sums that are to stay in registers. With arrays compilers do that at some flags and sizes only, so they get vectors where they
   know them; elsewhere a vector is one number. The short ones are for what comes in eights. */
#if (defined(__GNUC__) || defined(__clang__)) && !defined(__CUDACC__)
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
typedef pu_real pu__vector __attribute__((vector_size(PU__WIDTH * sizeof(pu_real)), aligned(sizeof(pu_real)), may_alias));
typedef pu_real pu__short __attribute__((vector_size(PU__SHORT * sizeof(pu_real)), aligned(sizeof(pu_real)), may_alias));
#else
#define PU__VECTORS 0
#define PU__WIDTH 1
#define PU__SHORT 1
typedef pu_real pu__vector, pu__short;
#endif
#if PU__VECTORS && (defined(__clang__) || __GNUC__ >= 12)
#define PU__SHUFFLE __builtin_shufflevector
#endif

PU__FN pu__vector *pu__v(pu_real *x) { return (pu__vector *)x; }
PU__FN const pu__vector *pu__cv(const pu_real *x) { return (const pu__vector *)x; }
PU__FN pu__short *pu__s(pu_real *x) { return (pu__short *)x; }
PU__FN const pu__short *pu__cs(const pu_real *x) { return (const pu__short *)x; }

/* y = c0 x0 + c1 x1 + c2 x2 + c3 x3, the last ones absent when NULL; any of them may be y */
PU__FN void pu__mix(pu_int n, const pu_real *c, const pu_real *const *x, pu_real *y)
{
    const pu_int W = PU__WIDTH;
    const pu_real *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3];
    const pu_real c0 = c[0], c1 = x1 ? c[1] : 0, c2 = x2 ? c[2] : 0, c3 = x3 ? c[3] : 0;
    pu_int i = 0;
    if (x3)
        for (; i + W <= n; i += W)
            *pu__v(y + i) = c0 * *pu__cv(x0 + i) + c1 * *pu__cv(x1 + i) + c2 * *pu__cv(x2 + i) + c3 * *pu__cv(x3 + i);
    else if (x2)
        for (; i + W <= n; i += W) *pu__v(y + i) = c0 * *pu__cv(x0 + i) + c1 * *pu__cv(x1 + i) + c2 * *pu__cv(x2 + i);
    else if (x1) for (; i + W <= n; i += W) *pu__v(y + i) = c0 * *pu__cv(x0 + i) + c1 * *pu__cv(x1 + i);
    else for (; i + W <= n; i += W) *pu__v(y + i) = c0 * *pu__cv(x0 + i);
    for (; i < n; i++) {
        pu_real sum = c0 * x0[i];
        if (x1) sum += c1 * x1[i];
        if (x2) sum += c2 * x2[i];
        if (x3) sum += c3 * x3[i];
        y[i] = sum;
    }
}

/* y = c0 (m o x0) + c1 x1, the last one absent when NULL; any of them may be y */
PU__FN void pu__mix_m(pu_int n, const pu_real *m, const pu_real *c, const pu_real *const *x, pu_real *y)
{
    const pu_int W = PU__WIDTH;
    const pu_real *x0 = x[0], *x1 = x[1], c0 = c[0], c1 = x1 ? c[1] : 0;
    pu_int i = 0;
    if (x1)
        for (; i + W <= n; i += W) *pu__v(y + i) = c0 * (*pu__cv(m + i) * *pu__cv(x0 + i)) + c1 * *pu__cv(x1 + i);
    else for (; i + W <= n; i += W) *pu__v(y + i) = c0 * (*pu__cv(m + i) * *pu__cv(x0 + i));
    for (; i < n; i++) y[i] = x1 ? c0 * (m[i] * x0[i]) + c1 * x1[i] : c0 * (m[i] * x0[i]);
}

/* r -= a q;  sum m r r over at most PU__CHUNK entries; m may be NULL */
PU__FN pu_real pu__descend(pu_int n, pu_real a, const pu_real *m, const pu_real *PU__RESTRICT q, pu_real *PU__RESTRICT r)
{
    pu_real lane[PU__LANES] = {0};
    pu_int i, l, half;
    if (m || n < PU__LANES) {
        for (i = 0; i < n; i++) r[i] -= a * q[i];
        return pu__dot_chunk(n, m, r, r);
    }
    for (i = 0; i + PU__LANES <= n; i += PU__LANES)
        for (l = 0; l < PU__LANES; l++) {
            const pu_real v = r[i + l] - a * q[i + l];
            r[i + l] = v;
            lane[l] += v * v;
        }
    for (l = 0; i < n; i++, l++) r[i] -= a * q[i], lane[l] += r[i] * r[i];
    for (half = PU__LANES / 2; half > 0; half /= 2)
        for (l = 0; l < half; l++) lane[l] += lane[l + half];
    return lane[0];
}

/* Entries `at` on of one column of a reverse step: r_i, at most PU__CHUNK entries. */
PU__FN const pu_real *pu__residual_before(const pu_unwinding *v, pu_int j, pu_int at, pu_int n, pu_real *PU__RESTRICT buffer)
{
    const pu_real *PU__RESTRICT d = pu__col(v->d, j) + at, *PU__RESTRICT b, *m = v->minv ? v->minv + at : NULL;
    const pu_real be = v->be_before ? v->be_before[j] : 0;
    pu_int i;
    if (v->kept.at) return pu__col(v->kept, j) + at;
    if (be == 0 && !m) return d;
    b = be == 0 ? d : pu__col(v->before, j) + at;
    for (i = 0; i < n; i++) buffer[i] = d[i] - be * b[i];
    for (i = 0; i < n && m; i++) buffer[i] *= m[i];
    return buffer;
}

/* unwind, some entries of one column; c: a, be, pib, 2 rhobar, weight. Restricted parameters: pointers inside a function would
   not do */
PU__FN void pu__unwind(pu_int n, const pu_real *c, const pu_real *m, const pu_real *PU__RESTRICT d, const pu_real *PU__RESTRICT ri,
                       const pu_real *PU__RESTRICT xbar, pu_real *PU__RESTRICT r, pu_real *PU__RESTRICT rbar,
                       pu_real *PU__RESTRICT dbar, pu_real *PU__RESTRICT qbar, pu_real *PU__RESTRICT mbar)
{
    const pu_real a = c[0], be = c[1], pib = c[2], two = c[3], by = pib / a, rhobar = PU_R(0.5) * two, weight = c[4];
    pu_int i;
    if (mbar) for (i = 0; i < n; i++) mbar[i] += weight * (r[i] * (dbar[i] + rhobar * r[i]));
    if (m) for (i = 0; i < n; i++) rbar[i] += m[i] * (dbar[i] + two * r[i]);
    for (i = 0; i < n; i++) {
        const pu_real now = m ? rbar[i] : rbar[i] + (dbar[i] + two * r[i]);
        rbar[i] = now;
        qbar[i] = pib * d[i] - a * now;
        dbar[i] = be * dbar[i] + a * xbar[i] + by * (ri[i] - r[i]);
        r[i] = ri[i];
    }
}

/* y += c0 x0 + c1 x1 + c2 x2 + c3 x3, added in this order */
PU__FN void pu__axpy4(pu_int n, const pu_real *c, const pu_real *x0, const pu_real *x1, const pu_real *x2, const pu_real *x3,
                      pu_real *y)
{
    const pu_real c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3];
    pu_int i;
    for (i = 0; i < n; i++) {
        pu_real v = y[i];
        v += c0 * x0[i];
        v += c1 * x1[i];
        v += c2 * x2[i];
        v += c3 * x3[i];
        y[i] = v;
    }
}

#define PU__SUM 64 /* of a sum in pu_real */

/* to_r[shift + c] = from_r[d + c] + sum_i b[4 i + r] v_i[d + c], r < 4, c < 2 W, in the order of i */
PU__FN void pu__tile(pu_int n, const pu_real *b, const pu_real *const *v, pu_int d, pu_real *const *from, pu_real *const *to,
                     pu_int shift)
{
    const pu_int W = PU__WIDTH;
    const pu_real *x0 = from[0] + d, *x1 = from[1] + d, *x2 = from[2] + d, *x3 = from[3] + d;
    pu_real *y0 = to[0] + shift, *y1 = to[1] + shift, *y2 = to[2] + shift, *y3 = to[3] + shift;
    pu__vector s0 = *pu__cv(x0), s1 = *pu__cv(x1), s2 = *pu__cv(x2), s3 = *pu__cv(x3);
    pu__vector t0 = *pu__cv(x0 + W), t1 = *pu__cv(x1 + W), t2 = *pu__cv(x2 + W), t3 = *pu__cv(x3 + W);
    pu_int i;
    for (i = 0; i < n; i++) {
        const pu_real *c = b + 4 * i;
        const pu__vector p = *pu__cv(v[i] + d), q = *pu__cv(v[i] + d + W);
        s0 += c[0] * p, t0 += c[0] * q, s1 += c[1] * p, t1 += c[1] * q;
        s2 += c[2] * p, t2 += c[2] * q, s3 += c[3] * p, t3 += c[3] * q;
    }
    *pu__v(y0) = s0, *pu__v(y1) = s1, *pu__v(y2) = s2, *pu__v(y3) = s3;
    *pu__v(y0 + W) = t0, *pu__v(y1 + W) = t1, *pu__v(y2 + W) = t2, *pu__v(y3 + W) = t3;
}

/* out_r[d] += sum_i b[4 i + r] v_i[d], r < 4, d < wide; out_r may repeat if b does. The rest of a tile at the end is made
   first, in a copy, by a tile that overlaps its neighbour. */
PU__FN void pu__tiles(pu_int n, const pu_real *b, const pu_real *const *v, pu_int wide, pu_real *const *out)
{
    const pu_int T = 2 * PU__WIDTH, rest = wide % T;
    pu_real copy[4 * 2 * PU__WIDTH], *last[4];
    pu_int d, i, r;
    for (r = 0; r < 4; r++) last[r] = copy + r * T;
    if (wide >= T && rest) pu__tile(n, b, v, wide - T, out, last, 0);
    for (r = 0; r < 4 && wide < T; r++) {
        pu__copy(last[r] + T - rest, out[r], rest);
        for (i = 0; i < n; i++) pu__axpy(rest, b[4 * i + r], v[i], last[r] + T - rest);
    }
    for (d = 0; d + T <= wide; d += T) pu__tile(n, b, v, d, out, out, d);
    for (r = 0; r < 4 && rest; r++) pu__copy(out[r] + d, last[r] + T - rest, rest);
}

/* Rows run along their own vectors, few at a time (at most PU__ROWS), so that a block of them is read from far away once. Of
   each row and column one vector of sums runs over PU__REACH entries; then it is closed and added in double. Which rows and
   columns share a tile does not show in the sums. */
#define PU__ROWS 24
#define PU__REACH (PU__SUM * PU__WIDTH)

/* the sum of a vector, by halves */
PU__FN pu_real pu__sum(pu__vector v)
{
    pu_real s[PU__WIDTH];
    pu_int i, half;
    *pu__v(s) = v;
#if PU__VECTORS
    if (PU__WIDTH > PU__SHORT) *pu__s(s) = *pu__cs(s) + *pu__cs(s + PU__WIDTH / 2);
    if (PU__SHORT >= 8) for (i = 0; i < 4; i++) s[i] += s[i + 4];
    if (PU__SHORT >= 4) return (s[0] + s[2]) + (s[1] + s[3]);
#endif
    for (half = PU__SHORT / 2; half > 0; half /= 2)
        for (i = 0; i < half; i++) s[i] += s[i + half];
    return s[0];
}

/* Twelve sums at once, in the order of pu__sum: two vectors, folded, share one, then four, eight and sixteen. Of each what stays
   in its place is added to what the other half sends there. One by one the sums of short rows take longer than their products. */
#if defined(PU__SHUFFLE) && defined(PU_FLOAT) && defined(__AVX512F__)
#define PU__FOLD2(a, b)                                                                                                            \
    (PU__SHUFFLE(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 24, 25, 26, 27, 28, 29, 30, 31) +                                                   \
     PU__SHUFFLE(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23))
#define PU__FOLD4(a, b)                                                                                                            \
    (PU__SHUFFLE(a, b, 0, 1, 2, 3, 20, 21, 22, 23, 8, 9, 10, 11, 28, 29, 30, 31) +                                                 \
     PU__SHUFFLE(a, b, 4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27))
#define PU__FOLD8(a, b)                                                                                                            \
    (PU__SHUFFLE(a, b, 0, 1, 18, 19, 4, 5, 22, 23, 8, 9, 26, 27, 12, 13, 30, 31) +                                                 \
     PU__SHUFFLE(a, b, 2, 3, 16, 17, 6, 7, 20, 21, 10, 11, 24, 25, 14, 15, 28, 29))
#define PU__FOLD16(a, b)                                                                                                           \
    (PU__SHUFFLE(a, b, 0, 17, 2, 19, 4, 21, 6, 23, 8, 25, 10, 27, 12, 29, 14, 31) +                                                \
     PU__SHUFFLE(a, b, 1, 16, 3, 18, 5, 20, 7, 22, 9, 24, 11, 26, 13, 28, 15, 30))
static const pu_int pu__sum_at[12] = {0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13}; /* of sum v in out[16] */
#elif defined(PU__SHUFFLE) && ((defined(PU_FLOAT) && defined(__AVX__)) || (!defined(PU_FLOAT) && defined(__AVX512F__)))
#define PU__FOLD2(a, b) (PU__SHUFFLE(a, b, 0, 1, 2, 3, 12, 13, 14, 15) + PU__SHUFFLE(a, b, 4, 5, 6, 7, 8, 9, 10, 11))
#define PU__FOLD4(a, b) (PU__SHUFFLE(a, b, 0, 1, 10, 11, 4, 5, 14, 15) + PU__SHUFFLE(a, b, 2, 3, 8, 9, 6, 7, 12, 13))
#define PU__FOLD8(a, b) (PU__SHUFFLE(a, b, 0, 9, 2, 11, 4, 13, 6, 15) + PU__SHUFFLE(a, b, 1, 8, 3, 10, 5, 12, 7, 14))
static const pu_int pu__sum_at[12] = {0, 4, 2, 6, 1, 5, 3, 7, 8, 12, 10, 14};
#elif defined(PU__SHUFFLE) && (defined(PU_FLOAT) || defined(__AVX__))
#define PU__FOLD2(a, b) (PU__SHUFFLE(a, b, 0, 1, 6, 7) + PU__SHUFFLE(a, b, 2, 3, 4, 5))
#define PU__FOLD4(a, b) (PU__SHUFFLE(a, b, 0, 5, 2, 7) + PU__SHUFFLE(a, b, 1, 4, 3, 6))
static const pu_int pu__sum_at[12] = {0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11};
#else
static const pu_int pu__sum_at[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
#endif

/* out[pu__sum_at[v]] += sum of s[v] */
PU__FN void pu__sums(const pu__vector *s, double *out)
{
    pu_int i;
#ifdef PU__FOLD4
    const pu__vector p0 = PU__FOLD2(s[0], s[1]), p1 = PU__FOLD2(s[2], s[3]), p2 = PU__FOLD2(s[4], s[5]);
    const pu__vector p3 = PU__FOLD2(s[6], s[7]), p4 = PU__FOLD2(s[8], s[9]), p5 = PU__FOLD2(s[10], s[11]);
    const pu__vector q0 = PU__FOLD4(p0, p1), q1 = PU__FOLD4(p2, p3), q2 = PU__FOLD4(p4, p5);
    pu_real sums[16];
#ifdef PU__FOLD8
    const pu__vector r0 = PU__FOLD8(q0, q1), r1 = PU__FOLD8(q2, q2);
#endif
#if defined(PU__FOLD16)
    *pu__v(sums) = PU__FOLD16(r0, r1);
#elif defined(PU__FOLD8)
    *pu__v(sums) = r0, *pu__v(sums + 8) = r1;
#else
    *pu__v(sums) = q0, *pu__v(sums + 4) = q1, *pu__v(sums + 8) = q2, *pu__v(sums + 12) = q2;
#endif
    for (i = 0; i < 16; i++) out[i] += (double)sums[i];
#else
    for (i = 0; i < 12; i++) out[i] += (double)pu__sum(s[i]);
#endif
}

/* Zeros, then ones for the last n entries of a vector, n < W: what a row has after its whole vectors is read together with
   entries before it, which then count for nothing. */
PU__FN pu__vector pu__last(pu_int n)
{
    static const pu_real step[32] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    return *pu__cv(step + 16 - PU__WIDTH + n);
}

/* A vector in a register. gcc reads it from memory again for each product that it is in, which takes longer than the products. */
PU__FN pu__vector pu__kept(const pu_real *x)
{
    pu__vector v = *pu__cv(x);
#if PU__VECTORS && defined(__AVX__)
    __asm__("" : "+v"(v));
#endif
    return v;
}

/* out[pu__sum_at[4 r + c]] += a_r'x_c over n entries from `at` on, r < 3, c < 4 */
PU__FN void pu__dots12(pu_int n, const pu_real *const *a, const pu_real *const *x, pu_int at, double *out)
{
    const pu_int W = PU__WIDTH;
    const pu_real *a0 = a[0] + at, *a1 = a[1] + at, *a2 = a[2] + at;
    const pu_real *x0 = x[0] + at, *x1 = x[1] + at, *x2 = x[2] + at, *x3 = x[3] + at;
    pu__vector s0, s1, s2, t0, t1, t2, u0, u1, u2, v0, v1, v2, p, q, r, y;
    pu_int i = 0;
    memset(&s0, 0, sizeof s0);
    s1 = s2 = t0 = t1 = t2 = u0 = u1 = u2 = v0 = v1 = v2 = s0;
    if (n % W) { /* the end of the row first */
        const pu__vector last = pu__last(n % W);
        i = n - W, p = *pu__cv(a0 + i) * last, q = *pu__cv(a1 + i) * last, r = *pu__cv(a2 + i) * last;
        y = *pu__cv(x0 + i), s0 = p * y, s1 = q * y, s2 = r * y, y = *pu__cv(x1 + i), t0 = p * y, t1 = q * y, t2 = r * y;
        y = *pu__cv(x2 + i), u0 = p * y, u1 = q * y, u2 = r * y, y = *pu__cv(x3 + i), v0 = p * y, v1 = q * y, v2 = r * y;
    }
    for (i = 0; i + W <= n; i += W) {
        p = *pu__cv(a0 + i), q = *pu__cv(a1 + i), r = *pu__cv(a2 + i), y = pu__kept(x0 + i);
        s0 += p * y, s1 += q * y, s2 += r * y, y = pu__kept(x1 + i);
        t0 += p * y, t1 += q * y, t2 += r * y, y = pu__kept(x2 + i);
        u0 += p * y, u1 += q * y, u2 += r * y, y = pu__kept(x3 + i);
        v0 += p * y, v1 += q * y, v2 += r * y;
    }
    {
        const pu__vector sums[12] = {s0, t0, u0, v0, s1, t1, u1, v1, s2, t2, u2, v2};
        pu__sums(sums, out);
    }
}

/* the same sums of 6 rows, out[16] for 3 of them, for column c alone */
PU__FN void pu__dots6(pu_int n, const pu_real *const *a, const pu_real *x, pu_int c, pu_int at, double *out)
{
    const pu_int W = PU__WIDTH;
    const pu_real *a0 = a[0] + at, *a1 = a[1] + at, *a2 = a[2] + at, *a3 = a[3] + at, *a4 = a[4] + at, *a5 = a[5] + at;
    pu__vector s0, s1, s2, s3, s4, s5, y;
    pu_int i;
    memset(&s0, 0, sizeof s0);
    s1 = s2 = s3 = s4 = s5 = s0;
    if (n % W) {
        const pu__vector last = pu__last(n % W);
        i = n - W, y = *pu__cv(x + at + i);
        s0 = *pu__cv(a0 + i) * last * y, s1 = *pu__cv(a1 + i) * last * y, s2 = *pu__cv(a2 + i) * last * y;
        s3 = *pu__cv(a3 + i) * last * y, s4 = *pu__cv(a4 + i) * last * y, s5 = *pu__cv(a5 + i) * last * y;
    }
    for (i = 0; i + W <= n; i += W) {
        y = *pu__cv(x + at + i);
        s0 += *pu__cv(a0 + i) * y, s1 += *pu__cv(a1 + i) * y, s2 += *pu__cv(a2 + i) * y;
        s3 += *pu__cv(a3 + i) * y, s4 += *pu__cv(a4 + i) * y, s5 += *pu__cv(a5 + i) * y;
    }
    out[pu__sum_at[c]] += (double)pu__sum(s0), out[pu__sum_at[c + 4]] += (double)pu__sum(s1);
    out[pu__sum_at[c + 8]] += (double)pu__sum(s2), out += 16;
    out[pu__sum_at[c]] += (double)pu__sum(s3), out[pu__sum_at[c + 4]] += (double)pu__sum(s4);
    out[pu__sum_at[c + 8]] += (double)pu__sum(s5);
}

/* Y = A X for n <= PU__ROWS rows v of A, D long. A stretch of 12 columns of X stays in the first-level cache. */
PU__FN void pu__rows_apply(pu_int n, const pu_real *const *v, pu_int D, pu_int k, pu_block X, pu_block Y, int add)
{
    enum { WIDE = 12, TILES = PU__ROWS / 3 };
    double s[WIDE / 4 * TILES * 16]; /* 3 rows and 4 columns in 16 */
    pu_int first, d, m, j, r, c;
    if (D < PU__WIDTH) { /* rows shorter than a vector */
        for (j = 0; j < k; j++)
            for (m = 0; m < n; m++) {
                const pu_real *x = pu__col(X, j);
                pu_real *y = pu__col(Y, j) + m, sum = 0;
                for (d = 0; d < D; d++) sum += v[m][d] * x[d];
                *y = sum + (add ? *y : 0);
            }
        return;
    }
    for (first = 0; first < k; first += WIDE) {
        const pu_int count = pu__min(WIDE, k - first);
        memset(s, 0, (size_t)((count + 3) / 4 * TILES * 16) * sizeof *s);
        for (d = 0; d < D; d += PU__REACH)
            for (m = 0; m < n; m += 6) {
                const pu_int len = pu__min(PU__REACH, D - d);
                const pu_real *a[6], *x[4];
                for (r = 0; r < 6; r++) a[r] = v[pu__min(m + r, n - 1)]; /* a missing row or column repeats the last one */
                for (j = 0; j < count; j += 4) {
                    double *out = s + (j / 4 * TILES + m / 3) * 16;
                    for (c = 0; c < 4; c++) x[c] = pu__col(X, first + pu__min(j + c, count - 1));
                    if (count - j > 2) {
                        pu__dots12(len, a, x, d, out);
                        if (m + 3 < n) pu__dots12(len, a + 3, x, d, out + 16);
                    } else
                        for (c = 0; c < count - j; c++) pu__dots6(len, a, x[c], c, d, out);
                }
            }
        for (j = 0; j < count; j++) {
            const double *out = s + j / 4 * TILES * 16;
            const pu_int at[3] = {pu__sum_at[j % 4], pu__sum_at[4 + j % 4], pu__sum_at[8 + j % 4]};
            pu_real *y = pu__col(Y, first + j);
            if (add)
                for (m = 0; m < n; m++) y[m] += (pu_real)out[m / 3 * 16 + at[m % 3]];
            else {
                for (m = 0; m + 3 <= n; m += 3, out += 16)
                    y[m] = (pu_real)out[at[0]], y[m + 1] = (pu_real)out[at[1]], y[m + 2] = (pu_real)out[at[2]];
                for (r = 0; m + r < n; r++) y[m + r] = (pu_real)out[at[r]];
            }
        }
    }
}

/* Y += A'(w o X) for n <= PU__ROWS rows v of A; w may be NULL. A stretch of each row stays in cache for all columns, or for 12
   of them. One or two columns alone gain nothing. */
PU__FN void pu__rows_apply_t(pu_int n, const pu_real *const *v, pu_int D, const pu_real *w, pu_int k, pu_block X, pu_block Y)
{
    enum { STRETCH = 256, WIDE = 12 };
    const pu_real *a[PU__ROWS];
    pu_real coefficients[WIDE * PU__ROWS], x[PU__ROWS], *y[4];
    pu_int first, d, wide, j, i, r;
    int zero[WIDE / 4];
    for (first = 0; first < k; first += WIDE) {
        const pu_int count = pu__min(WIDE, k - first);
        for (j = 0; j < count; j += 4) {
            pu_real *b = coefficients + j * PU__ROWS;
            zero[j / 4] = 1;
            for (r = 0; r < 4; r++) { /* a missing column repeats the last one */
                const pu_real *column = pu__col(X, first + pu__min(j + r, count - 1));
                for (i = 0; i < n; i++) b[4 * i + r] = w ? w[i] * column[i] : column[i], zero[j / 4] &= column[i] == 0;
            }
        }
        for (d = 0; d < D; d += wide) {
            wide = D - d < STRETCH + 2 * PU__WIDTH ? D - d : (pu_int)STRETCH; /* no short end */
            for (i = 0; i < n; i++) a[i] = v[i] + d;
            for (j = 0; j < count; j += 4) {
                const pu_real *b = coefficients + j * PU__ROWS;
                if (zero[j / 4]) continue; /* unit vectors */
                for (r = 0; r < 4; r++) y[r] = pu__col(Y, first + pu__min(j + r, count - 1)) + d;
                if (count - j > 2) pu__tiles(n, b, a, wide, y);
                for (r = 0; r < count - j && count - j <= 2; r++) {
                    for (i = 0; i < n; i++) x[i] = b[4 * i + r];
                    for (i = 0; i + 4 <= n; i += 4) pu__axpy4(wide, x + i, a[i], a[i + 1], a[i + 2], a[i + 3], y[r]);
                    for (; i < n; i++) pu__axpy(wide, x[i], a[i], y[r]);
                }
            }
        }
    }
}

#define PU__TALL 6                /* rows and columns of a tile: its 12 vectors of sums, two of B and one of A fill the */
#define PU__BROAD (2 * PU__WIDTH) /* registers */
#define PU__DEEP 128              /* terms that are summed in registers before they are added to C */
#define PU__SPAN 128              /* columns of B that are packed at a time, where there is memory for them */
#define PU__PIECE (4096 / (PU__BROAD * (int)sizeof(pu_real))) /* terms of a strip that is packed on the stack, in each piece */
#define PU__FEW 4                 /* sides below this are better solved one by one */
#define PU__LEAF 8                /* triangles up to this size are done entry by entry */

/* A matrix to be read; entry (i, j) is at[i row + j col]. */
typedef struct {
    const pu_real *at;
    pu_int row, col;
    /* As the second factor of a product: row p is that of number list[p] times weight[list[p]], and so is column p of the first
       factor, without the weight. NULL: all rows; ones. */
    const pu_int *list;
    const pu_real *weight;
} pu__matrix;

/* That without a list. */
PU__FN pu__matrix pu__mat(const pu_real *at, pu_int row, pu_int col)
{
    pu__matrix m;
    memset(&m, 0, sizeof m);
    m.at = at;
    m.row = row;
    m.col = col;
    return m;
}

/* A product of matrices, C += scale A B, and what is packed of B at the moment. A strip of B is as broad as a tile. It lies in one
   piece or in several of the same length. */
typedef struct {
    pu_int rows, cols;       /* of C */
    pu__matrix A, B;
    pu_block C;              /* by rows: row i is column i of the block */
    pu_real scale;
    pu_int from, to;         /* only entries (i, j) with i + from <= j <= i + to */
    pu_int first, deep;      /* the terms at work */
    pu_int piece;            /* terms in a piece of a strip */
    pu_int offset[PU__DEEP]; /* of the columns of A */
    const pu_real *at[PU__SPAN / PU__BROAD]; /* the strips, or the pieces of the only one */
} pu__matmul;

/* C (6 x 2 W) += scale sum_p a[r A.row + offset[p]] b[2 W p + c], b the strip; a row of a from `rows` on repeats the last one */
PU__FN void pu__core(const pu__matmul *g, const pu_real *const *strip, pu_int rows, const pu_real *a, pu_real *C, pu_int ld)
{
    const pu_int W = PU__WIDTH, last = rows - 1, step = g->A.row;
    const pu_real s = g->scale;
    const pu_real *a1 = a + pu__min(1, last) * step, *a2 = a + pu__min(2, last) * step, *a3 = a + pu__min(3, last) * step,
                  *a4 = a + pu__min(4, last) * step, *a5 = a + pu__min(5, last) * step;
    pu__vector s0, s1, s2, s3, s4, s5, t0, t1, t2, t3, t4, t5;
    pu_int p, first;
    memset(&s0, 0, sizeof s0);
    s1 = s2 = s3 = s4 = s5 = t0 = t1 = t2 = t3 = t4 = t5 = s0;
    for (first = 0; first < g->deep; first += g->piece) {
        const pu_int end = pu__min(first + g->piece, g->deep);
        const pu_real *b = *strip++;
        for (p = first; p < end; p++, b += 2 * W) {
            const pu_int i = g->offset[p];
            const pu__vector u = *pu__cv(b), v = *pu__cv(b + W);
            s0 += a[i] * u, t0 += a[i] * v, s1 += a1[i] * u, t1 += a1[i] * v;
            s2 += a2[i] * u, t2 += a2[i] * v, s3 += a3[i] * u, t3 += a3[i] * v;
            s4 += a4[i] * u, t4 += a4[i] * v, s5 += a5[i] * u, t5 += a5[i] * v;
        }
    }
    *pu__v(C) += s * s0, *pu__v(C + W) += s * t0, C += ld;
    *pu__v(C) += s * s1, *pu__v(C + W) += s * t1, C += ld;
    *pu__v(C) += s * s2, *pu__v(C + W) += s * t2, C += ld;
    *pu__v(C) += s * s3, *pu__v(C + W) += s * t3, C += ld;
    *pu__v(C) += s * s4, *pu__v(C + W) += s * t4, C += ld;
    *pu__v(C) += s * s5, *pu__v(C + W) += s * t5;
}

/* Terms g->first + done on, deep of them, and columns `column` on, cols of them, of B, packed into strips. The last strip is filled
   up with zeros. */
PU__FN void pu__pack(const pu__matmul *g, pu_int done, pu_int deep, pu_int column, pu_int cols, pu_real *PU__RESTRICT to)
{
    const pu_int T = PU__BROAD, first = g->first + done;
    const pu_int *list = g->B.list ? g->B.list + first : NULL;
    const pu_real *w = g->B.weight;
    pu__matrix b = g->B;
    pu_int j, p, c;
    b.at += column * b.col;
    if (!list) b.at += first * b.row;
    for (j = 0; j < cols; j += T, b.at += T * b.col, to += T * deep) {
        const pu_int wide = pu__min(T, cols - j);
        if (wide < T) memset(to, 0, (size_t)(T * deep) * sizeof *to);
        if (b.col == 1 && wide == T)
            for (p = 0; p < deep; p++)
                memcpy(to + p * T, b.at + (list ? list[p] : p) * b.row, PU__BROAD * sizeof *to);
        else if (b.row == 1 && !list)
            for (c = 0; c < wide; c++)
                for (p = 0; p < deep; p++) to[p * T + c] = b.at[p + c * b.col];
        else
            for (p = 0; p < deep; p++) {
                const pu_real *row = b.at + (list ? list[p] : p) * b.row;
                for (c = 0; c < wide; c++) to[p * T + c] = row[c * b.col];
            }
        for (p = 0; p < deep && w; p++)
            for (c = 0; c < T; c++) to[p * T + c] *= w[list[p]];
    }
}

#define PU__AR_TRIANGLE ((PU_AR_MAX + 1) * (PU_AR_MAX + 2) / 2)

PU__FN pu_int pu__ar_row(pu_int m) { return m * (m + 1) / 2; }
PU__FN double pu__ar_gap(pu_real gamma) { return (1 - (double)gamma) * (1 + (double)gamma); } /* 1 - gamma^2 */

#define PU__BLOCK 32 /* outputs that are computed before the first of them is stored: in registers, whatever aliases what */

/* y_i = sum_t c_t x_{i+t} + w_i v_i (added to y_i if add; w may be NULL), i < n: a block of outputs stays in registers while
   the taps run */
PU__FN void pu__ar_filter(pu_int n, pu_int taps, const pu_real *c, const pu_real *x, const pu_real *w, const pu_real *v,
                          pu_real *y, int add)
{
    pu_real s[PU__BLOCK];
    pu_int i = 0, t, l;
    for (; i + PU__BLOCK <= n; i += PU__BLOCK) {
        const pu_real *at = x + i;
        if (w) for (l = 0; l < PU__BLOCK; l++) s[l] = w[i + l] * v[i + l] + c[0] * at[l];
        else for (l = 0; l < PU__BLOCK; l++) s[l] = c[0] * at[l];
        for (t = 1; t < taps; t++)
            for (l = 0; l < PU__BLOCK; l++) s[l] += c[t] * at[t + l];
        if (add) for (l = 0; l < PU__BLOCK; l++) y[i + l] += s[l];
        else for (l = 0; l < PU__BLOCK; l++) y[i + l] = s[l];
    }
    for (; i < n; i++) {
        pu_real sum = w ? w[i] * v[i] + c[0] * x[i] : c[0] * x[i];
        for (t = 1; t < taps; t++) sum += c[t] * x[i + t];
        y[i] = add ? y[i] + sum : sum;
    }
}

/* Order 5, the commonest one, has kernels of its own: a vector of outputs at a time, p_{u-l} from memory and p_{u+l} out of two
   registers where the compiler can. Either way alone is slower: two loads in five lie on two cache lines, and ten shuffles are
   more than the additions that wait for them. */
#if defined(PU__SHUFFLE) && defined(PU_FLOAT) && defined(__AVX512F__)
#define PU__UP(at, b, c, l) \
    PU__SHUFFLE(b, c, l, l + 1, l + 2, l + 3, l + 4, l + 5, l + 6, l + 7, l + 8, l + 9, l + 10, l + 11, l + 12, l + 13, l + 14, l + 15)
#elif defined(PU__SHUFFLE) && defined(PU_FLOAT) && defined(__AVX__)
#define PU__UP(at, b, c, l) PU__SHUFFLE(b, c, l, l + 1, l + 2, l + 3, l + 4, l + 5, l + 6, l + 7)
#else
#define PU__UP(at, b, c, l) (*pu__cv((at) + (l)))
#endif
#define PU__AR_SUM(at, b, c, l) (PU__UP(at, b, c, l) + *pu__cv((at) - (l))) /* p_{u+l} + p_{u-l} */

/* y_u = c_0 p_u + sum_{l = 1 .. 5} c_l (p_{u+l} + p_{u-l}) + w_u p_u, u < n, a multiple of the vectors' width; returns the sum of
   p_u y_u */
PU__FN double pu__ar_filter5(pu_int n, const pu_real *c, const pu_real *p, const pu_real *w, pu_real *PU__RESTRICT y)
{
    const pu_real c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3], c4 = c[4], c5 = c[5];
    pu__vector b = *pu__cv(p), next, sum;
    pu_int i;
    memset(&sum, 0, sizeof sum);
    for (i = 0; i < n; i += PU__WIDTH, b = next) {
        const pu_real *at = p + i;
        pu__vector s = *pu__cv(w + i) * b + c0 * b;
        next = *pu__cv(at + PU__WIDTH);
        s += c1 * PU__AR_SUM(at, b, next, 1), s += c2 * PU__AR_SUM(at, b, next, 2), s += c3 * PU__AR_SUM(at, b, next, 3);
        s += c4 * PU__AR_SUM(at, b, next, 4), s += c5 * PU__AR_SUM(at, b, next, 5);
        *pu__v(y + i) = s;
        sum += b * s;
    }
    return (double)pu__sum(sum);
}

/* Rows at each end that are done in copies with zeros around them, so that the kernels need not know where a column ends: this
   many at the upper end, up to twice as many at the lower one. What lies between is whole vectors. */
enum { PU__AR_EDGE = 16, PU__AR_LONG = 4 * PU__AR_EDGE };

PU__FN pu_int pu__ar_lower(pu_int n) { return n / PU__AR_EDGE * PU__AR_EDGE - PU__AR_EDGE; }

/* rows at - 16 .. at + 47 of a column of n */
PU__FN void pu__ar_around(pu_int n, const pu_real *x, pu_int at, pu_real *to)
{
    const pu_int from = at > 0 ? at - PU__AR_EDGE : 0, end = pu__min(n, at + 3 * PU__AR_EDGE);
    memset(to, 0, PU__AR_LONG * sizeof *to);
    memcpy(to + PU__AR_EDGE + from - at, x + from, (size_t)(end - from) * sizeof *to);
}

/* What pu__ar_end does, and the diagonal: y_i = the end's row + w_i x_i, i < 5; entry i is at x[i dir]. Eight of each in the
   order of memory; those that are not of the end are not used. */
PU__FN void pu__ar_end5(const pu_real *a, pu_int dir, const pu_real *x, const pu_real *w, pu_real *y)
{
    const pu_real *c = dir > 0 ? x : x - 7;
    pu_real zeros[24] = {0}, s[8], *z = zeros + 8;
    pu_int i;
    for (i = 0; i < 8; i++) /* z = U'x */
        z[i] = a[0] * c[i] + a[1] * c[i + dir] + a[2] * c[i + 2 * dir] + a[3] * c[i + 3 * dir] + a[4] * c[i + 4 * dir] +
               a[5] * c[i + 5 * dir];
    for (i = 0; i < 8; i++) /* y = U z */
        s[i] = a[0] * z[i] + a[1] * z[i - dir] + a[2] * z[i - 2 * dir] + a[3] * z[i - 3 * dir] + a[4] * z[i - 4 * dir] +
               a[5] * z[i - 5 * dir];
    for (i = 0; i < 5; i++) y[i * dir] = s[dir > 0 ? i : 7 - i] + w[i * dir] * x[i * dir];
}

/* The rows from `at` on, 0 or pu__ar_lower: y = Gamma x + w o x, and the sum of their x_u y_u. */
PU__FN double pu__ar_edge5(const pu_ar *ar, pu_int at, const pu_real *x, const pu_real *w, pu_real *y)
{
    enum { E = PU__AR_EDGE };
    const pu_int rows = at ? ar->n - at : (pu_int)E, last = at ? rows - 1 : 0;
    pu_real xs[PU__AR_LONG], ws[PU__AR_LONG], ys[2 * PU__AR_EDGE];
    pu__ar_around(ar->n, x, at, xs), pu__ar_around(ar->n, w, at, ws);
    (void)pu__ar_filter5(rows > E ? 2 * E : E, ar->band + 5, xs + E, ws + E, ys);
    pu__ar_end5(ar->rows + pu__ar_row(5), at ? -1 : 1, x + at + last, w + at + last, ys + last);
    memcpy(y + at, ys, (size_t)rows * sizeof *y);
    return (double)pu__dot_chunk(rows, NULL, xs + E, ys);
}

/* s_l = sum_u x_u (y_{u+d+l} + y_{u-d-l}), l = 0 .. 2, over at most PU__CHUNK entries: one load of x serves three lags. One
   inner loop over named arrays is the form that compilers keep in vector registers; an array of arrays is far slower. */
PU__FN void pu__ar_lag3(pu_int n, const pu_real *x, const pu_real *y, pu_int d, double *s)
{
    const pu_real *up = y + d, *down = y - d;
    pu_real s0[PU__LANES] = {0}, s1[PU__LANES] = {0}, s2[PU__LANES] = {0};
    pu_int i = 0, l, half;
    for (; i + PU__LANES <= n; i += PU__LANES)
        for (l = 0; l < PU__LANES; l++) {
            const pu_real v = x[i + l];
            s0[l] += v * (up[i + l] + down[i + l]);
            s1[l] += v * (up[i + l + 1] + down[i + l - 1]);
            s2[l] += v * (up[i + l + 2] + down[i + l - 2]);
        }
    for (l = 0; i < n; i++, l++) {
        s0[l] += x[i] * (up[i] + down[i]);
        s1[l] += x[i] * (up[i + 1] + down[i - 1]);
        s2[l] += x[i] * (up[i + 2] + down[i - 2]);
    }
    for (half = PU__LANES / 2; half > 0; half /= 2)
        for (l = 0; l < half; l++) s0[l] += s0[l + half], s1[l] += s1[l + half], s2[l] += s2[l + half];
    s[0] = (double)s0[0], s[1] = (double)s1[0], s[2] = (double)s2[0];
}

/* the same, and y_u += sum_l c_l (p_{u+d+l} + p_{u-d-l}) with x_u the factor of the sums: their loads are the same */
PU__FN void pu__ar_both3(pu_int n, const pu_real *x, const pu_real *p, pu_int d, const pu_real *c, pu_real *PU__RESTRICT y,
                         double *s)
{
    const pu_real *up = p + d, *down = p - d, c0 = c[0], c1 = c[1], c2 = c[2];
    pu_real s0[PU__LANES] = {0}, s1[PU__LANES] = {0}, s2[PU__LANES] = {0};
    pu_int i = 0, l, half;
    for (; i + PU__LANES <= n; i += PU__LANES)
        for (l = 0; l < PU__LANES; l++) {
            const pu_real v = x[i + l], v0 = up[i + l] + down[i + l], v1 = up[i + l + 1] + down[i + l - 1],
                          v2 = up[i + l + 2] + down[i + l - 2];
            y[i + l] += c0 * v0 + c1 * v1 + c2 * v2;
            s0[l] += v * v0, s1[l] += v * v1, s2[l] += v * v2;
        }
    for (l = 0; i < n; i++, l++) {
        const pu_real v0 = up[i] + down[i], v1 = up[i + 1] + down[i - 1], v2 = up[i + 2] + down[i - 2];
        y[i] += c0 * v0 + c1 * v1 + c2 * v2;
        s0[l] += x[i] * v0, s1[l] += x[i] * v1, s2[l] += x[i] * v2;
    }
    for (half = PU__LANES / 2; half > 0; half /= 2)
        for (l = 0; l < half; l++) s0[l] += s0[l + half], s1[l] += s1[l + half], s2[l] += s2[l + half];
    s[0] = (double)s0[0], s[1] = (double)s1[0], s[2] = (double)s2[0];
}

#define PU__AR_CHUNK (PU__WIDTH > 8 ? 512 : 256) /* entries per pass of the lag sums: a vector's worth of partial sums each */

/* Order 5, at most PU__AR_CHUNK entries and whole vectors of them: y_u += by (filter of p + w_u p_u) where there is a y; s_l +=
   sum_u x_u (p_{u+l} + p_{u-l}), l = 0 .. 5, and the result sum_u x_u w_u p_u, all with one load of everything. */
PU__FN double pu__ar_both5(pu_int n, const pu_real *x, const pu_real *p, const pu_real *c, pu_real by, const pu_real *w,
                           pu_real *PU__RESTRICT y, double *s)
{
    const pu_real c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3], c4 = c[4], c5 = c[5];
    pu__vector s0, s1, s2, s3, s4, s5, s6, b = *pu__cv(p), next;
    pu_int i;
    memset(&s0, 0, sizeof s0);
    s1 = s2 = s3 = s4 = s5 = s6 = s0;
    for (i = 0; i < n; i += PU__WIDTH, b = next) {
        const pu_real *at = p + i;
        const pu__vector v = *pu__cv(x + i), shifted = *pu__cv(w + i) * b;
        pu__vector t, sum = shifted + c0 * b;
        next = *pu__cv(at + PU__WIDTH);
        s6 += v * shifted, s0 += v * b;
        t = PU__AR_SUM(at, b, next, 1), sum += c1 * t, s1 += v * t;
        t = PU__AR_SUM(at, b, next, 2), sum += c2 * t, s2 += v * t;
        t = PU__AR_SUM(at, b, next, 3), sum += c3 * t, s3 += v * t;
        t = PU__AR_SUM(at, b, next, 4), sum += c4 * t, s4 += v * t;
        t = PU__AR_SUM(at, b, next, 5), sum += c5 * t, s5 += v * t;
        if (y) *pu__v(y + i) += by * sum;
    }
    s[0] += 2 * (double)pu__sum(s0), s[1] += (double)pu__sum(s1), s[2] += (double)pu__sum(s2);
    s[3] += (double)pu__sum(s3), s[4] += (double)pu__sum(s4), s[5] += (double)pu__sum(s5);
    return (double)pu__sum(s6);
}

/* the same for the rows from `at` on, 0 or pu__ar_lower, with the rows of the end in place of the filter */
PU__FN double pu__ar_edge_both5(const pu_ar *ar, pu_int at, const pu_real *x, const pu_real *p, pu_real by, const pu_real *w,
                                pu_real *y, double *s)
{
    enum { E = PU__AR_EDGE };
    const pu_int rows = at ? ar->n - at : (pu_int)E, last = at ? rows - 1 : 0, dir = at ? -1 : 1;
    pu_real xs[PU__AR_LONG], ps[PU__AR_LONG], ws[PU__AR_LONG], ys[2 * PU__AR_EDGE] = {0};
    double with_w;
    pu_int i;
    pu__ar_around(ar->n, x, at, xs), pu__ar_around(ar->n, p, at, ps), pu__ar_around(ar->n, w, at, ws);
    with_w = pu__ar_both5(rows > E ? 2 * E : E, xs + E, ps + E, ar->band + 5, by, ws + E, y ? ys : NULL, s);
    if (!y) return with_w;
    pu__ar_end5(ar->rows + pu__ar_row(5), dir, p + at + last, w + at + last, ys + last);
    for (i = 0; i < 5; i++) ys[last + i * dir] *= by;
    for (i = 0; i < rows; i++) y[at + i] += ys[i];
    return with_w;
}

/* ------------------------------------------------------------------------------------------------
   >>vector   the CPU backend: plain loops over columns

   These are the functions of pu_backend; x_j is column j of a block. A column whose coefficient is zero is not
   read: a frozen column may hold anything. `user` is not used.

   Long columns are worked on in chunks of PU__CHUNK entries, which stay in the first-level cache while several
   loops run over them. Sums run in PU__LANES lanes within a chunk and in double from chunk to chunk. Their order
   depends on n alone, not on the number of columns or threads.
   ------------------------------------------------------------------------------------------------ */

/* s_j = x_j' diag(m) y_j, j < k. m (n) may be NULL: ones. */
PU__FN void pu__cpu_dot(void *user, pu_int n, pu_int k, const pu_real *m, pu_block x, pu_block y, pu_real *s)
{
    pu_int j;
    (void)user;
    for (j = 0; j < k; j++)
        s[j] = (pu_real)pu__dot(n, m, pu__col(x, j), pu__col(y, j));
}

/* y (n) = sum_t c[t] (m[t] o x[t]), t < count, chunk by chunk in a buffer that stays in the first-level cache.
   m[t] may be NULL: ones. Any x[t] may be y. */
PU__FN void pu__add_terms(pu_int n, int count, const pu_real *c, const pu_real *const *m, const pu_real *const *x,
                          pu_real *y)
{
    pu_real buffer[PU__CHUNK];
    pu_int at;
    int t;
    for (at = 0; at < n; at += PU__CHUNK) {
        const pu_int len = pu__min(PU__CHUNK, n - at);
        pu__zeros(buffer, len);
        for (t = 0; t < count; t++)
            if (m[t])
                pu__add_product(len, c[t], m[t] + at, x[t] + at, buffer);
            else
                pu__axpy(len, c[t], x[t] + at, buffer);
        pu__copy(y + at, buffer, len);
    }
}

/* y_j = sum over the terms of scale c_j (m o x_j). The usual forms have loops of their own. Any term may be y. */
PU__FN void pu__cpu_combine(void *user, pu_int n, pu_int k, pu_block y, int count, const pu_term *terms)
{
    pu_int j;
    int t;
    (void)user;
    for (j = 0; j < k; j++) {
        /* the terms that do not vanish in this column */
        const pu_real *x[4] = {NULL}, *m[4] = {NULL};
        pu_real c[4];
        int used = 0, plain = 1;
        for (t = 0; t < count; t++) {
            c[used] = terms[t].c ? terms[t].scale * terms[t].c[j] : terms[t].scale;
            if (c[used] == 0) continue;
            x[used] = pu__col(terms[t].x, j);
            m[used] = terms[t].m;
            plain &= !m[used];
            used++;
        }
        if (used > 0 && plain)
            pu__mix(n, c, x, pu__col(y, j));
        else if ((used == 1 || used == 2) && !m[1])
            /* m o r + be d, the direction of PCG */
            pu__mix_m(n, m[0], c, x, pu__col(y, j));
        else
            pu__add_terms(n, used, c, m, x, pu__col(y, j));
    }
}

/* x_j += a_j d_j, r_j -= a_j q_j and rho_j = r_j' diag(m) r_j. x.at NULL: no x; m NULL: ones. */
PU__FN void pu__cpu_advance(void *user, pu_int n, pu_int k, const pu_real *a, const pu_real *m, pu_block d, pu_block q,
                            pu_block x, pu_block r, pu_real *rho)
{
    pu_int j, at;
    (void)user;
    for (j = 0; j < k; j++) {
        const pu_real aj = a[j];
        double s = 0;
        for (at = 0; at < n; at += PU__CHUNK) {
            const pu_int len = pu__min(PU__CHUNK, n - at);
            const pu_real *mj = m ? m + at : NULL;
            pu_real *rj = pu__col(r, j) + at;
            if (x.at && aj != 0)
                pu__axpy(len, aj, pu__col(d, j) + at, pu__col(x, j) + at);
            if (aj != 0)
                s += (double)pu__descend(len, aj, mj, pu__col(q, j) + at, rj);
            else
                s += (double)pu__dot_chunk(len, mj, rj, rj);
        }
        rho[j] = (pu_real)s;
    }
}

/* rbar_j += m o dbar_j, dbar_j := be_j dbar_j + a_j xbar_j. m NULL: ones. */
PU__FN void pu__cpu_retreat(void *user, pu_int n, pu_int k, const pu_real *a, const pu_real *be, const pu_real *m,
                            pu_block xbar, pu_block rbar, pu_block dbar)
{
    pu_int j, i, at, end;
    (void)user;
    for (j = 0; j < k; j++) {
        const pu_real *PU__RESTRICT xj = pu__col(xbar, j);
        pu_real *PU__RESTRICT rj = pu__col(rbar, j);
        pu_real *PU__RESTRICT dj = pu__col(dbar, j);
        const pu_real aj = a[j];
        const pu_real bj = be[j];
        for (at = 0; at < n; at = end) {
            /* the chunk is in the first-level cache after its first loop */
            end = pu__min(at + PU__CHUNK, n);
            if (m)
                for (i = at; i < end; i++)
                    rj[i] += m[i] * dj[i];
            else
                for (i = at; i < end; i++)
                    rj[i] += dj[i];
            if (aj != 0 && bj != 0)
                for (i = at; i < end; i++)
                    dj[i] = bj * dj[i] + aj * xj[i];
            else if (aj != 0)
                for (i = at; i < end; i++)
                    dj[i] = aj * xj[i];
            else
                for (i = at; i < end; i++)
                    dj[i] = bj == 0 ? 0 : bj * dj[i];
        }
    }
}

enum { PU__PART = PU__CHUNK / 2 }; /* of a chunk: buffers of this length keep the frame small */

/* Entries `at` on of column j, at most PU__CHUNK of them, with q = r_i - r_{i+1} = a A d:
     sum[0] += dbar'd,  sum[1] += xbar'd,  sum[2] += (rbar + m o dbar)'q,  sum[3] += (m o r)'q */
PU__FN void pu__unwind_chunk(const pu_unwinding *v, pu_int j, pu_int at, pu_int n, double *sum)
{
    pu_real buffer[PU__PART], scaled_r[PU__PART], scaled_dbar[PU__PART];
    /* the lanes of the four sums; named arrays, since compilers keep those in registers */
    pu_real t0[PU__LANES] = {0}, t1[PU__LANES] = {0}, t2[PU__LANES] = {0}, t3[PU__LANES] = {0};
    pu_int i, l, end;
    for (end = at + n; at < end; at += PU__PART) {
        const pu_int len = pu__min(PU__PART, end - at);
        const pu_real *PU__RESTRICT d = pu__col(v->d, j) + at;
        const pu_real *PU__RESTRICT xbar = pu__col(v->xbar, j) + at;
        const pu_real *PU__RESTRICT rbar = pu__col(v->rbar, j) + at;
        const pu_real *PU__RESTRICT dbar = pu__col(v->dbar, j) + at;
        const pu_real *PU__RESTRICT r = pu__col(v->r, j) + at;
        const pu_real *PU__RESTRICT before = pu__residual_before(v, j, at, len, buffer);
        const pu_real *PU__RESTRICT mr = r;
        const pu_real *PU__RESTRICT mdbar = dbar;
        /* products with m are rounded before they are used, whatever the compiler may contract */
        if (v->m) {
            for (i = 0; i < len; i++) {
                scaled_r[i] = v->m[at + i] * r[i];
                scaled_dbar[i] = v->m[at + i] * dbar[i];
            }
            mr = scaled_r;
            mdbar = scaled_dbar;
        }
        for (i = 0; i + PU__LANES <= len; i += PU__LANES)
            for (l = 0; l < PU__LANES; l++) {
                const pu_real q = before[i + l] - r[i + l];
                t0[l] += dbar[i + l] * d[i + l];
                t1[l] += xbar[i + l] * d[i + l];
                t2[l] += (rbar[i + l] + mdbar[i + l]) * q;
                t3[l] += mr[i + l] * q;
            }
        /* what is left of the last part, less than PU__LANES entries */
        for (l = 0; i < len; i++, l++) {
            const pu_real q = before[i] - r[i];
            t0[l] += dbar[i] * d[i];
            t1[l] += xbar[i] * d[i];
            t2[l] += (rbar[i] + mdbar[i]) * q;
            t3[l] += mr[i] * q;
        }
    }
    for (l = 0; l < PU__LANES; l++) {
        sum[0] += (double)t0[l];
        sum[1] += (double)t1[l];
        sum[2] += (double)t2[l];
        sum[3] += (double)t3[l];
    }
}

/* The inner products of a reverse step, of each column that took it (a_j != 0; otherwise zeros):
     s0_j = dbar'd,  s1_j = xbar'd - (rbar + m o dbar)'A d,  s2_j = (m o r)'A d */
PU__FN void pu__cpu_unwind_sums(void *user, pu_int n, pu_int k, const pu_unwinding *v, pu_real *s0, pu_real *s1,
                                pu_real *s2)
{
    pu_int j, at;
    (void)user;
    for (j = 0; j < k; j++) {
        const double a = (double)v->a[j];
        double sum[4] = {0};
        if (a != 0)
            for (at = 0; at < n; at += PU__CHUNK)
                pu__unwind_chunk(v, j, at, pu__min(PU__CHUNK, n - at), sum);
        s0[j] = (pu_real)sum[0];
        s1[j] = (pu_real)(a != 0 ? sum[1] - sum[2] / a : 0);
        s2[j] = (pu_real)(a != 0 ? sum[3] / a : 0);
    }
}

/* The vectors of a reverse step, from the last to the first:
     mbar += sum_j weight_j r o (dbar + rhobar r),   rbar += m o (dbar + 2 rhobar r),   qbar = pib d - a rbar,
     dbar = be dbar + a xbar + pib q,   r = r_i.   qbar of a column that did not take the step is zero. */
PU__FN void pu__cpu_unwind(void *user, pu_int n, pu_int k, const pu_unwinding *v)
{
    pu_real buffer[PU__CHUNK], c[5];
    pu_int j, at;
    (void)user;
    for (j = 0; j < k; j++) {
        if (v->a[j] == 0) {
            pu__zeros(pu__col(v->qbar, j), n);
            continue;
        }
        c[0] = v->a[j];
        c[1] = v->be[j];
        c[2] = v->pib[j];
        c[3] = v->twice_rhobar[j];
        c[4] = v->mbar ? v->weight[j] : 0;
        for (at = 0; at < n; at += PU__CHUNK) {
            const pu_int len = pu__min(PU__CHUNK, n - at);
            pu__unwind(len, c, v->m ? v->m + at : NULL,
                       pu__col(v->d, j) + at,
                       pu__residual_before(v, j, at, len, buffer),
                       pu__col(v->xbar, j) + at,
                       pu__col(v->r, j) + at,
                       pu__col(v->rbar, j) + at,
                       pu__col(v->dbar, j) + at,
                       pu__col(v->qbar, j) + at,
                       v->mbar ? v->mbar + at : NULL);
        }
    }
}

/* ---- the scalar arithmetic of the solver ----
   Written once for CPU and GPU, for one column j. The histories (rho, pi, a, be) have a row for each step i.
   h = i k + j is the place of the column in that row.
   What the vectors contribute is in s0, s1, c0, c1; see pu_stage. */

/* Why the column stops with rho = r'M r and residual2 = |r|^2, or 0. */
PU__FN PU_HD int32_t pu__stage_stop(const pu_state *s, pu_int j, pu_real rho, pu_real residual2)
{
    if (!pu__finite(rho)) return PU_STOP_NONFINITE;
    if (!(rho > 0)) return PU_STOP_ZERO;
    if (s->target[j] > 0 && residual2 <= s->target[j]) return PU_STOP_TOLERANCE;
    return rho <= s->floor_[j] ? PU_STOP_ROUNDING : 0;
}

/* Before the first step: where the column is to stop, and whether it need not start. s0: u'M u, s1: u'u, c0: r'r.
   target: tolerance^2 u'u or the absolute one, whichever is larger. floor: below it rho is rounding noise. */
PU__FN PU_HD void pu__stage_start(const pu_state *s, pu_int j)
{
    const pu_real rho = s->rho[j];
    s->steps[j] = 0;
    /* u may be zero when x0 is not */
    s->floor_[j] = PU__FLOOR2 * (s->s0[j] > rho ? s->s0[j] : rho);
    s->target[j] = 0;
    if (s->tolerance2 > 0)
        s->target[j] = (pu_real)s->tolerance2 * s->s1[j];
    if (s->absolute2 > (double)s->target[j])
        s->target[j] = (pu_real)s->absolute2;
    s->stop[j] = pu__stage_stop(s, j, rho, s->c0[j]);
}

/* alpha_i = rho_{i-1} / pi_i, pi = d'A d, or the fixed step of gradient descent; 0 for a column that has stopped.
   pi <= 0 is a breakdown: the column stops where it is. */
PU__FN PU_HD void pu__stage_alpha(const pu_state *s, pu_int h, pu_int j)
{
    const pu_real pi = s->pi[h];
    s->a[h] = 0;
    if (s->stop[j]) return;
    if (!pu__finite(pi)) s->stop[j] = PU_STOP_NONFINITE;
    else if (!(pi > 0)) s->stop[j] = PU_STOP_BREAKDOWN; /* d != 0 here, so A is not positive definite */
    else s->a[h] = s->fixed_step ? s->step[j] : s->rho[h] / pi;
    if (!pu__finite(s->a[h])) {
        s->a[h] = 0;
        s->stop[j] = PU_STOP_NONFINITE;
    }
}

/* beta_i = rho_i / rho_{i-1}, and whether the column stops after this step, its (i+1)-th. s1: r'r. */
PU__FN PU_HD void pu__stage_beta(const pu_state *s, pu_int i, pu_int j)
{
    const pu_int h = i * s->k + j;
    const pu_real rho = s->rho[h + s->k];
    s->be[h] = 0;
    if (s->stop[j]) return;
    s->steps[j] = (int32_t)(i + 1);
    s->stop[j] = pu__stage_stop(s, j, rho, s->s1[j]);
    if (s->use_beta) s->be[h] = rho / s->rho[h];
}

/* The gradient begins with xbar of norm 1; its norm goes into scale. s0: xbar'xbar. */
PU__FN PU_HD void pu__stage_xbar(const pu_state *s, pu_int j)
{
    const pu_real norm = pu__sqrt(s->s0[j]);
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
    if (!taken) s->rhobar[j] = 0;
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
    const pu_int h = i * s->k + j;
    const int active = i < (pu_int)s->steps[j]; /* reverse pass: did this column take step i+1? */
    const int taken = active && !s->detach && !s->fixed_step;
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
        /* z_{i-1} = d_{i-1} - be_{i-1} d_{i-2}; a step not taken leaves r */
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
PU__FN void pu__cpu_stage(void *user, const pu_state *s, pu_stage stage, pu_int i)
{
    pu_int j;
    (void)user;
    for (j = 0; j < s->k; j++)
        pu__stage_column(s, stage, i, j);
}

/* out[rows[i]] += w_j m_i p_ij q_ij, summed over the k columns. m, w, rows, q.at may be NULL: ones, all rows. */
PU__FN void pu__cpu_row_dot(void *user, pu_int n, pu_int k, const pu_real *m, const pu_real *w, pu_block p, pu_block
                            q, pu_int M, const pu_int *rows, pu_real *out)
{
    pu_int i, j;
    (void)user;
    (void)M;
    for (j = 0; j < k; j++) {
        const pu_real *pj = pu__col(p, j);
        const pu_real *qj = q.at ? pu__col(q, j) : NULL;
        const pu_real wj = w ? w[j] : 1;
        /* the usual forms one by one, so that the loops have no branches */
        if (!qj)
            for (i = 0; i < n; i++)
                out[rows ? rows[i] : i] += wj * (m ? m[i] * pj[i] : pj[i]);
        else if (rows)
            for (i = 0; i < n; i++)
                out[rows[i]] += wj * ((m ? m[i] : 1) * pj[i] * qj[i]);
        else if (m)
            for (i = 0; i < n; i++)
                out[i] += wj * (m[i] * pj[i] * qj[i]);
        else if (wj != 0)
            for (i = 0; i < n; i++)
                out[i] += wj * (pj[i] * qj[i]);
    }
}

/* Standard normals into the k columns of x, samples `sample` on of one datum; with rows, those of these indices
   alone. */
PU__FN void pu__cpu_normals(void *user, pu_int n, const pu_int *rows, pu_int k, pu_block x, uint64_t seed, const
                            uint32_t *datum, uint32_t sample, uint32_t step, uint32_t stream)
{
    pu__draw_key key = {seed, *datum, sample, step};
    pu_int j;
    (void)user;
    for (j = 0; j < k; j++) {
        if (rows)
            pu__normals_at(&key, stream, n, rows, pu__col(x, j));
        else
            pu_normals(seed, *datum, key.sample, step, stream, 0, n, pu__col(x, j));
        key.sample++;
    }
}

/* *out += scale sum_j w_j x_j' diag(m) y_j. m may be NULL: ones. */
PU__FN void pu__cpu_sum_dot(void *user, pu_int n, pu_int k, const pu_real *m, pu_block x, pu_block y, const pu_real
                            *w, double scale, pu_real *out)
{
    double sum = 0;
    pu_int j;
    (void)user;
    for (j = 0; j < k; j++)
        sum += (double)w[j] * pu__dot(n, m, pu__col(x, j), pu__col(y, j));
    *out += (pu_real)(scale * sum);
}

/* The terms of one datum (k = 1) that are linear in b, from t = Phi bbar and e = y - eta:
     eta -= w o (t + e),   psibar += (t + e/2) o e - 1/(2 psi) where observed.   rows NULL: all rows. */
PU__FN void pu__cpu_row_terms(void *user, pu_int n, pu_int k, pu_block t, const pu_real *w, const pu_real *mask, const
                              pu_real *e, const pu_real *psi, pu_int M, const pu_int *rows, pu_real *eta, pu_real
                              *psibar)
{
    pu_int i;
    (void)user;
    (void)M;
    (void)k;
    for (i = 0; i < n; i++) {
        const pu_int row = rows ? rows[i] : i;
        eta[row] -= w[i] * (t.at[i] + e[i]);
        if (mask[i] != 0)
            psibar[row] += (t.at[i] + e[i] / 2) * e[i] - 1 / (2 * psi[row]);
    }
}

/* Copies bytes. Both read and write: the backend's memory is ours. */
PU__FN void pu__cpu_copy(void *user, void *to, const void *from, size_t bytes)
{
    (void)user;
    if (bytes) memcpy(to, from, bytes);
}

/* The backend itself. It has no memory of its own. */
PU_DEF const pu_backend *pu_backend_cpu(void)
{
    static const pu_backend cpu = {NULL, 1, pu__cpu_dot, pu__cpu_combine, pu__cpu_advance, pu__cpu_stage,
                                   pu__cpu_row_dot, pu__cpu_normals, pu__cpu_copy, pu__cpu_copy, pu__cpu_retreat,
                                   pu__cpu_unwind_sums, pu__cpu_unwind, pu__cpu_sum_dot, pu__cpu_row_terms,
                                   NULL, 0, NULL, NULL, NULL, NULL};
    return &cpu;
}

/* One term scale c_j (m o x_j) of a linear combination. c (k) and m (n) may be NULL: ones. */
PU__FN pu_term pu__t(pu_block x, pu_real scale, const pu_real *c, const pu_real *m)
{
    pu_term term;
    term.x = x;
    term.c = c;
    term.scale = scale;
    term.m = m;
    return term;
}

/* The terms x_j, scale x_j, c_j x_j and m o x_j. */
PU__FN pu_term pu__term(pu_block x) { return pu__t(x, 1, NULL, NULL); }
PU__FN pu_term pu__term_scaled(pu_block x, pu_real scale) { return pu__t(x, scale, NULL, NULL); }
PU__FN pu_term pu__term_c(pu_block x, const pu_real *c) { return pu__t(x, 1, c, NULL); }
PU__FN pu_term pu__term_m(pu_block x, const pu_real *m) { return pu__t(x, 1, NULL, m); }

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
    pu_int j;
    if (add) return;
    for (j = 0; j < k; j++)
        pu__zeros(pu__col(Y, j), n);
}

/* The index of the first entry that is not finite, or -1. */
PU__FN pu_int pu__find_nonfinite(pu_int n, const pu_real *x)
{
    pu_int i, at, end;
    /* chunk by chunk: a loop without an exit vectorises */
    for (at = 0; at < n; at = end) {
        int bad = 0;
        end = pu__min(at + PU__CHUNK, n);
        for (i = at; i < end; i++)
            bad |= !pu__finite(x[i]);
        if (!bad) continue;
        i = at;
        while (pu__finite(x[i])) i++;
        return i;
    }
    return -1;
}

/* PU_E_NULL, or PU_E_NONFINITE and the index of the first entry that is not finite. */
PU__FN pu_status pu__check_finite(pu_int n, const pu_real *x, pu_int *index)
{
    if (!x) return PU_E_NULL;
    *index = pu__find_nonfinite(n, x);
    return *index < 0 ? PU_OK : PU_E_NONFINITE;
}

/* ---- products ---- The sums of a tile of C (6 rows, two vectors broad) stay in registers for up to PU__DEEP
   terms, a stretch; then they are added to C. Before that the rows of B of the stretch are packed into strips as
   broad as a tile. */

/* How to multiply: C += A B or C -= A B; only the lower triangle, or what is not below the diagonal through the
   last corner. */
enum { PU__ADD = 0, PU__SUBTRACT = 1, PU__LOWER = 2, PU__UPPER = 4 };

/* Room for the strips of products with at most `cols` columns. */
PU__FN pu_real *pu__panel(pu__arena *arena, pu_int cols)
{
    const pu_int strips = (pu__min(cols, PU__SPAN) + PU__BROAD - 1) / PU__BROAD;
    return pu__reals(arena, PU__DEEP, strips * PU__BROAD);
}

/* The terms at work of columns `column` on of C, `wide` of them. Strip k is packed at g->at[k]. */
PU__FN void pu__multiply_strips(const pu__matmul *g, pu_int column, pu_int wide)
{
    const pu_int T = PU__BROAD;
    pu_real tile[PU__TALL * PU__BROAD];
    pu_int i, k, r, c;
    for (i = 0; i < g->rows; i += PU__TALL) {
        const pu_int tall = pu__min(PU__TALL, g->rows - i);
        const pu_real *a = g->A.at + i * g->A.row;
        for (k = 0; k < wide; k += T) {
            const pu_int broad = pu__min(T, wide - k);
            const pu_int row = i - column - k; /* columns count from the tile's first one on */
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
            for (r = 0; r < tall; r++) {
                const pu_int end = pu__min(broad, row + r + g->to + 1);
                for (c = pu__most(0, row + r + g->from); c < end; c++)
                    C[r * g->C.ld + c] += tile[r * T + c];
            }
        }
    }
}

/* The same for one strip, which is packed on the stack. Each call packs one piece of it into its own frame and
   leaves the rest to the next call, the last of which multiplies: a strip in one frame may exceed 8 KiB. done:
   terms packed so far. */
PU__FN PU__NOINLINE void pu__multiply_pieces(pu__matmul *g, pu_int column, pu_int done)
{
    pu_real piece[PU__PIECE * PU__BROAD];
    const pu_int deep = pu__min(PU__PIECE, g->deep - done);
    const pu_int wide = pu__min(PU__BROAD, g->cols - column);
    pu__pack(g, done, deep, column, wide, piece);
    g->at[done / PU__PIECE] = piece;
    if (done + deep < g->deep) pu__multiply_pieces(g, column, done + deep);
    else pu__multiply_strips(g, column, wide);
}

/* C (rows x cols, by rows) += or -= A B, A: rows x depth. how: as above. The rounding of an entry
   depends on its own row and column alone.
   panel: from pu__panel, for the strips; NULL: one strip at a time on the stack, which is up to a tenth slower. */
PU__FN void pu__multiply(pu_int rows, pu_int cols, pu_int depth, pu__matrix A, pu__matrix B, pu_block C, int how,
                         pu_real *panel)
{
    const pu_int distant = PTRDIFF_MAX / 4;
    const pu_int stretches = pu__most((depth + PU__DEEP - 1) / PU__DEEP, 1);
    const pu_int most = (depth + stretches - 1) / stretches; /* alike: a shallow stretch costs more than its share */
    const pu_int span = panel ? PU__SPAN : PU__BROAD;
    pu_int column, i;
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
        for (i = 0; i < g.deep; i++)
            g.offset[i] = (B.list ? B.list[g.first + i] : g.first + i) * A.col;
        for (column = 0; column < cols; column += span) {
            const pu_int wide = pu__min(span, cols - column);
            if (!panel) {
                pu__multiply_pieces(&g, column, 0);
                continue;
            }
            pu__pack(&g, 0, g.deep, column, wide, panel);
            for (i = 0; i < wide; i += PU__BROAD)
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
PU__FN PU__NOINLINE void pu__leaf(pu_int n, const pu_real *L, pu_int ld, int transposed, pu_int k, pu_block X, int
                                  by_rows)
{
    pu_real copy[PU__LEAF][PU__SIDES];
    pu_int q, i, p, c;
    if (k < PU__SIDES) memset(copy, 0, sizeof copy);
    if (by_rows)
        for (i = 0; i < n; i++)
            pu__copy(copy[i], pu__col(X, i), k);
    else for (c = 0; c < k; c++)
        for (i = 0; i < n; i++)
            copy[i][c] = pu__col(X, c)[i];
    /* x_row = (x_row - sum_p l_p x_p) / L_row,row over the entries that are known: those before it, or after it */
    for (q = 0; q < n; q++) {
        const pu_int row = transposed ? n - 1 - q : q;
        const pu_int end = transposed ? n : row;
        const pu_real scale = 1 / L[row * (ld + 1)];
        for (p = transposed ? row + 1 : 0; p < end; p++) {
            const pu_real l = transposed ? L[p * ld + row] : L[row * ld + p];
            for (c = 0; c < PU__SIDES; c++)
                copy[row][c] -= l * copy[p][c];
        }
        for (c = 0; c < PU__SIDES; c++)
            copy[row][c] *= scale;
    }
    if (by_rows)
        for (i = 0; i < n; i++)
            pu__copy(pu__col(X, i), copy[i], k);
    else for (c = 0; c < k; c++)
        for (i = 0; i < n; i++)
            pu__col(X, c)[i] = copy[i][c];
}

/* The size of the first part of n rows: half of them, in whole leaves. */
PU__FN pu_int pu__half(pu_int n) { return (n / 2 + PU__LEAF - 1) / PU__LEAF * PU__LEAF; }

/* The same for any n and k. L (n x n) is lower triangular, by rows at distance ld. Recursive: solve the half that
   needs no other, subtract its part from the rest, solve that. panel: from pu__panel for max(n, k) columns, or
   NULL. */
PU__FN void pu__triangle(pu_int n, const pu_real *L, pu_int ld, int transposed, pu_int k, pu_block X, int by_rows,
                         pu_real *panel)
{
    const pu_int step = by_rows ? X.ld : 1;
    const pu_int half = pu__half(n);
    const pu_int known = transposed ? n - half : half;
    const pu_int rest = n - known;
    const pu_real *corner = L + half * ld;
    const pu__matrix C = transposed == by_rows ? pu__mat(corner, 1, ld) : pu__mat(corner, ld, 1);
    pu_block solved = X, other = X;
    pu_int c;
    if (n <= PU__LEAF) {
        for (c = 0; c < k; c += PU__SIDES) {
            solved.at = X.at + c * (by_rows ? 1 : X.ld);
            pu__leaf(n, L, ld, transposed, pu__min(PU__SIDES, k - c), solved, by_rows);
        }
        return;
    }
    if (transposed) solved.at += half * step;
    else other.at += half * step;
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
    pu_int i, j, p;
    for (i = 0; i < n; i++)
        for (j = 0; j <= i; j++) {
            pu_real s = a[i * ld + j];
            for (p = 0; p < j; p++)
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
    const pu_int half = pu__half(n);
    const pu_int rest = n - half;
    pu_real *below = a + half * ld;
    pu_int bad;
    if (n <= PU__LEAF) return pu__cholesky_leaf(n, a, ld);
    bad = pu__cholesky(half, a, ld, panel);
    if (bad >= 0) return bad;
    pu__triangle(half, a, ld, 0, rest, pu__rows(below, ld), 0, panel);
    pu__multiply(rest, rest, half, pu__mat(below, ld, 1), pu__mat(below, 1, ld), pu__rows(below + half, ld),
                 PU__SUBTRACT | PU__LOWER, panel);
    bad = pu__cholesky(rest, below + half, ld, panel);
    return bad < 0 ? -1 : half + bad;
}

/* x := L^-1 x for one side whose entries before `first` are zero. L: n x n by rows. */
PU__FN void pu__lower_solve(pu_int n, const pu_real *L, pu_int first, pu_real *x)
{
    pu_int i;
    for (i = first; i < n; i++) {
        const double known = pu__dot(i - first, NULL, L + i * n + first, x + first);
        x[i] = (pu_real)(((double)x[i] - known) / (double)L[i * n + i]);
    }
}

/* x := L'^-1 x for one side whose entries after `last` are zero. */
PU__FN void pu__upper_solve(pu_int n, const pu_real *L, pu_int last, pu_real *x)
{
    pu_int i;
    for (i = last; i >= 0; i--) {
        x[i] /= L[i * n + i];
        pu__axpy(i, -x[i], L + i * n, x);
    }
}

/* sum_i log a[i stride], i < n */
PU__FN double pu__log_diagonal(pu_int n, const pu_real *a, pu_int stride)
{
    double s = 0;
    pu_int i;
    for (i = 0; i < n; i++)
        s += log((double)a[i * stride]);
    return s;
}

/* ---- transposes ---- */

enum { PU__PATCH = 16 }; /* rows and columns at a time, so that the lines of either side stay in cache */

/* b (cols x rows) = a' or += a', a: rows x cols, both by rows. */
PU__FN void pu__transpose(pu_int rows, pu_int cols, const pu_real *a, pu_real *b, int add)
{
    pu_int i, j, p, q;
    for (i = 0; i < rows; i += PU__PATCH)
        for (j = 0; j < cols; j += PU__PATCH) {
            const pu_int p_end = pu__min(rows, i + PU__PATCH);
            const pu_int q_end = pu__min(cols, j + PU__PATCH);
            for (q = j; q < q_end; q++) {
                if (add)
                    for (p = i; p < p_end; p++)
                        b[q * rows + p] += a[p * cols + q];
                else
                    for (p = i; p < p_end; p++)
                        b[q * rows + p] = a[p * cols + q];
            }
        }
}

/* The strict lower triangle of a (n x n) becomes the mirror image of the upper one (to_lower), or the other way
   round. */
PU__FN void pu__mirror(pu_int n, pu_real *a, int to_lower)
{
    pu_int i, j, i0, j0;
    for (i0 = 0; i0 < n; i0 += PU__PATCH)
        for (j0 = 0; j0 <= i0; j0 += PU__PATCH)
            for (i = i0; i < pu__min(n, i0 + PU__PATCH); i++)
                for (j = j0; j < pu__min(i, j0 + PU__PATCH); j++)
                    if (to_lower) a[i * n + j] = a[j * n + i];
                    else a[j * n + i] = a[i * n + j];
}

/* ---- eigenvalues of symmetric tridiagonal matrices, several side by side ---- */

enum { PU__DOTS = 5 };     /* u'u, r'r, |u - Ax|^2, u'x, x'(u - Ax) of every column */
enum { PU__ABREAST = 8 };  /* eigenproblems at once, at most; a multiple of 4 */
enum { PU__LANCZOS = 12 }; /* steps for the largest eigenvalue: within a few percent, and 1/lambda needs no more */

/* The state of a sweep of each matrix. */
typedef struct {
    double busy[PU__ABREAST];  /* 1: the matrix takes part in this sweep */
    double shift[PU__ABREAST];
    double c[PU__ABREAST], s[PU__ABREAST]; /* cosine and sine of the last rotation */
    double p[PU__ABREAST];     /* what it has moved along the diagonal */
    double bulge[PU__ABREAST]; /* the entry that is chased upwards */
    double begun[PU__ABREAST]; /* 1: a rotation has been made since the last cut */
} pu__sweep;

/* One rotation of rows i (0) and i + 1 (1) of the matrices that are busy. Selections instead of branches, and
   operands that cannot trap, let compilers make vectors of it. gcc does not do so once it is inlined. */
PU__FN PU__NOINLINE void pu__rotate(pu_int lanes, pu__sweep *PU__RESTRICT w,
                                    double *PU__RESTRICT d0, double *PU__RESTRICT d1,
                                    const double *PU__RESTRICT e0, double *PU__RESTRICT e1,
                                    double *PU__RESTRICT z0, double *PU__RESTRICT z1)
{
    pu_int l;
    for (l = 0; l < lanes; l++) {
        const double off = e0[l], busy = w->busy[l];
        const double f = w->s[l] * off;
        const double b = w->c[l] * off;
        const double g = w->bulge[l];
        const double sum = f * f + g * g;
        /* root and inverse do not wait for each other */
        const double r2 = sum + DBL_MIN;
        const double root = sqrt(r2);
        const double inverse = 1 / r2;
        const double sine = sum > DBL_MIN ? f * root * inverse : 0;
        const double cosine = sum > DBL_MIN ? g * root * inverse : 1;
        const double t = d1[l] - w->p[l];
        const double r = (d0[l] - t) * sine + 2 * cosine * b;
        const double moved = sine * r;
        const double u = z0[l], v = z1[l];
        const double along = w->begun[l] * (sum > DBL_MIN ? root : 0);
        const double anew = d0[l] - w->shift[l];
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
    pu_int i, l;
    for (l = 0; l < lanes; l++) {
        const double *diagonal = d + first * lanes + l;
        double off = e[first * lanes + l];
        double half = 0;
        if (give_up && off != 0) {
            for (i = 0; i < n; i++)
                e[i * lanes + l] = 0;
            failed[l] = 1;
            off = 0;
        }
        /* the eigenvalue of the leading 2 x 2 block that is nearer to its first entry */
        w->busy[l] = off != 0;
        if (off != 0) {
            open = 1;
            half = (diagonal[lanes] - diagonal[0]) / (2 * off);
        }
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
    const double small = pu__max(DBL_EPSILON, 1e-3 * (double)PU__EPS);
    pu__sweep w;
    pu_int first, i, l;
    int sweep;
    for (i = 0; i < n * lanes; i++)
        z[i] = i < lanes;
    for (l = 0; l < lanes; l++) {
        e[(n - 1) * lanes + l] = 0;
        failed[l] = 0;
    }
    for (first = 0; first < n; first++)
        for (sweep = 0;; sweep++) {
            /* a negligible off-diagonal entry cuts the matrix */
            for (i = first * lanes; i < (n - 1) * lanes; i++)
                e[i] = fabs(e[i]) <= small * (fabs(d[i]) + fabs(d[i + lanes])) ? 0 : e[i];
            if (!pu__sweep_begin(&w, n, lanes, first, sweep == 60, d, e, failed))
                break;
            /* chase the bulge upwards */
            for (i = n - 2; i >= first; i--) {
                const pu_int at = i * lanes;
                pu__rotate(lanes, &w, d + at, d + at + lanes, e + at, e + at + lanes, z + at, z + at + lanes);
            }
            /* the last rotation leaves these two entries of the first row */
            for (l = 0; l < lanes; l++) {
                if (w.busy[l] == 0) continue;
                d[first * lanes + l] -= w.p[l];
                e[first * lanes + l] = w.begun[l] * w.bulge[l];
            }
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
    if (pu__logs_safe(s->product)) return;
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
    const pu_int width = p + 1;
    pu_int i, j, l;
    for (i = 0; i < n; i++) {
        const pu_int q = pu__min(i, p);
        double *row = a + i * width;
        double d = row[0];
        /* L_{i,i-j} d_{i-j} */
        for (j = q; j > 0; j--) {
            const double *up = a + (i - j) * width - j;
            double s = row[j];
            for (l = j + 1; l <= q; l++)
                s -= row[l] * up[l];
            row[j] = s;
        }
        /* L_{i,i-j}, and d_i = A_ii - sum_j L_{i,i-j}^2 d_{i-j} */
        for (j = q; j > 0; j--) {
            const double scaled = row[j] * inverse[i - j];
            d -= row[j] * scaled;
            row[j] = scaled;
        }
        if (!(d > 0 && pu__finite_double(d))) return i;
        row[0] = d;
        inverse[i] = 1 / d;
    }
    return -1;
}

/* x := A^-1 x, with that factor: forwards with L, 1/d, backwards with L'. */
PU__FN void pu__band_solve(pu_int n, pu_int p, const double *a, const double *inverse, double *x)
{
    const pu_int width = p + 1;
    pu_int i, j;
    for (i = 0; i < n; i++) {
        double s = x[i];
        for (j = pu__min(i, p); j > 0; j--)
            s -= a[i * width + j] * x[i - j];
        x[i] = s;
    }
    for (i = 0; i < n; i++)
        x[i] *= inverse[i];
    for (i = n - 1; i >= 0; i--)
        for (j = pu__min(i, p); j > 0; j--)
            x[i - j] -= a[i * width + j] * x[i];
}

/* The entries of Z = A^-1 inside the band, last row first (Takahashi):
     Z_ji = -sum_{k > i} L_ki Z_kj (j > i),   Z_ii = 1/d_i - sum_{k > i} L_ki Z_ki */
PU__FN void pu__band_inverse(pu_int n, pu_int p, const double *a, const double *inverse, double *Z)
{
    const pu_int width = p + 1;
    pu_int i, j, k;
    for (i = n - 1; i >= 0; i--) {
        const pu_int q = pu__min(p, n - 1 - i);
        const double *L = a + i * width;
        double *z = Z + i * width;
        double sum = inverse[i];
        /* entry (k, i) of L is L[k width + k]; entry (i + j, i) of Z is z[j width + j] */
        for (j = 1; j <= q; j++) {
            double s = 0;
            for (k = 1; k < j; k++)
                s -= L[k * width + k] * z[j * width + j - k];
            for (k = j; k <= q; k++)
                s -= L[k * width + k] * z[k * width + k - j];
            z[j * width + j] = s;
        }
        for (k = 1; k <= q; k++)
            sum -= L[k * width + k] * z[k * width + k];
        z[0] = sum;
    }
}

/* ------------------------------------------------------------------------------------------------
   >>operator   dense, symmetric positive definite, diagonal, products and sums
   ------------------------------------------------------------------------------------------------ */

PU__FN pu_op pu__op_zero(pu_int rows, pu_int cols, pu_int params, const void *data)
{
    pu_op op;
    memset(&op, 0, sizeof op);
    op.rows = rows, op.cols = cols, op.params = params, op.data = data, op.trusted = 2;
    return op;
}

/* ---- dense: rows are contiguous. A row serves several columns (or a column several rows) per sweep; every column's own
        sums run in the same order as alone. ---- */

PU__FN const pu_real *pu__dense_row(const pu_op *op, const pu_int *rows, pu_int m)
{
    return (const pu_real *)op->data + (rows ? rows[m] : m) * op->cols;
}

/* the rows from m on, at most PU__ROWS of them */
PU__FN pu_int pu__dense_some(const pu_op *op, pu_int n, const pu_int *rows, pu_int m, const pu_real **v)
{
    const pu_int some = pu__min(PU__ROWS, n - m);
    pu_int i;
    for (i = 0; i < some; i++) v[i] = pu__dense_row(op, rows, m + i);
    return some;
}

PU__FN pu_block pu__below(pu_block b, pu_int row)
{
    b.at += row;
    return b;
}

PU__FN pu_status pu__dense_apply_rows(const pu_op *op, pu_int n, const pu_int *rows, pu_int k, pu_block X, pu_block Y, int add,
                                      pu_real *work)
{
    const pu_real *v[PU__ROWS];
    pu_int m, some;
    (void)work;
    for (m = 0; m < n; m += some) {
        some = pu__dense_some(op, n, rows, m, v);
        pu__rows_apply(some, v, op->cols, k, X, pu__below(Y, m), add);
    }
    return PU_OK;
}

PU__FN pu_status pu__dense_apply_rows_t(const pu_op *op, pu_int n, const pu_int *rows, pu_int k, pu_block X, pu_block Y,
                                        int add, pu_real *work)
{
    const pu_real *v[PU__ROWS];
    pu_int m, some;
    (void)work;
    pu__clear(op->cols, k, Y, add);
    for (m = 0; m < n; m += some) {
        some = pu__dense_some(op, n, rows, m, v);
        pu__rows_apply_t(some, v, op->cols, NULL, k, pu__below(X, m), Y);
    }
    return PU_OK;
}

/* T = A X, Y += A'(w o T): what the two above would do, but a row is read for both while it is near. */
PU__FN void pu__dense_gram_rows(const pu_op *op, pu_int n, const pu_int *rows, const pu_real *w, pu_int k, pu_block X,
                                pu_block T, pu_block Y)
{
    const pu_real *v[PU__ROWS];
    pu_int m, some;
    for (m = 0; m < n; m += some) {
        some = pu__dense_some(op, n, rows, m, v);
        pu__rows_apply(some, v, op->cols, k, X, pu__below(T, m), 0);
        pu__rows_apply_t(some, v, op->cols, w + m, k, pu__below(T, m), Y);
    }
}

PU__FN pu_status pu__dense_grad_rows(const pu_op *op, pu_int n, const pu_int *rows, pu_int k, pu_block P, pu_block Q,
                                     const pu_real *weight, pu_real *grad, pu_real *work)
{
    const pu_real *v[PU__SUM];
    pu_real b[4 * PU__SUM], *g[4];
    pu_int m, j, i, r;
    (void)work;
    for (j = 0; j < k; j += PU__SUM) {
        const pu_int terms = pu__min(PU__SUM, k - j);
        for (i = 0; i < terms; i++) v[i] = pu__col(Q, j + i);
        for (m = 0; m < n; m += 4) {
            for (r = 0; r < 4; r++) { /* a missing row repeats the last one */
                const pu_int row = pu__min(m + r, n - 1);
                g[r] = grad + (rows ? rows[row] : row) * op->cols;
                for (i = 0; i < terms; i++) b[4 * i + r] = weight[j + i] * pu__col(P, j + i)[row];
            }
            pu__tiles(terms, b, v, op->cols, g);
        }
    }
    return PU_OK;
}

/* All rows by gemm, when that is asked for. Row lists stay with the code above: gathering the rows first costs more than
   gemm gains. So do few columns, where reading the matrix is most of the work. In row-major eyes blocks of columns are
   transposed: Y' = X'A' etc.  C (m x n, row-major) = (add ? C : 0) + A B with inner dimension k, or 0: not for gemm. */
#define PU__GEMM_COLUMNS 8
#ifdef PU_USE_CBLAS
PU__FN int pu__gemm(int turn_a, int turn_b, pu_int m, pu_int n, pu_int k, const pu_real *a, pu_int lda, const void *b,
                    pu_int ldb, int add, pu_real *c, pu_int ldc)
{
    if (m > INT_MAX || n > INT_MAX || k > INT_MAX || lda > INT_MAX || ldb > INT_MAX || ldc > INT_MAX) return 0;
    if (m < 1 || n < 1 || k < 1 || lda < (turn_a ? m : k) || ldb < (turn_b ? k : n) || ldc < n) return 0;
#ifdef PU_FLOAT
    cblas_sgemm
#else
    cblas_dgemm
#endif
        (CblasRowMajor, turn_a ? CblasTrans : CblasNoTrans, turn_b ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k,
         1, a, (int)lda, (const pu_real *)b, (int)ldb, add ? 1 : 0, c, (int)ldc);
    return 1;
}
#else
#define pu__gemm(turn_a, turn_b, m, n, k, a, lda, b, ldb, add, c, ldc) 0
#endif

PU__FN pu_status pu__dense_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    if (k >= PU__GEMM_COLUMNS && pu__gemm(0, 1, k, op->rows, op->cols, X.at, X.ld, op->data, op->cols, add, Y.at, Y.ld))
        return PU_OK;
    return pu__dense_apply_rows(op, op->rows, NULL, k, X, Y, add, work);
}

PU__FN pu_status pu__dense_apply_t(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    if (k >= PU__GEMM_COLUMNS && pu__gemm(0, 0, k, op->cols, op->rows, X.at, X.ld, op->data, op->cols, add, Y.at, Y.ld))
        return PU_OK;
    return pu__dense_apply_rows_t(op, op->rows, NULL, k, X, Y, add, work);
}

PU__FN pu_status pu__dense_grad(const pu_op *op, pu_int k, pu_block P, pu_block Q, const pu_real *weight, pu_real *grad,
                                pu_real *work)
{
    const int gemm = op->work && work && k >= PU__GEMM_COLUMNS;
    pu_int j, d;
    for (j = 0; j < k && gemm; j++) /* gemm knows no weights: work = Q diag(weight) */
        for (d = 0; d < op->cols; d++) work[j * op->cols + d] = weight[j] * pu__col(Q, j)[d];
    if (gemm && pu__gemm(1, 0, op->rows, op->cols, k, P.at, P.ld, work, op->cols, 1, grad, op->cols)) return PU_OK;
    return pu__dense_grad_rows(op, op->rows, NULL, k, P, Q, weight, grad, work);
}

PU__FN pu_status pu__dense_diag(const pu_op *op, pu_real *y, pu_real *work)
{
    const pu_real *a = (const pu_real *)op->data;
    pu_int i;
    (void)work;
    for (i = 0; i < op->rows; i++) y[i] += a[i * op->cols + i];
    return PU_OK;
}

PU__FN pu_status pu__dense_gram_diag(const pu_op *op, const pu_real *w, pu_real *y, pu_real *work)
{
    const pu_real *a = (const pu_real *)op->data;
    pu_int m, d;
    (void)work;
    for (m = 0; m < op->rows; m++) {
        const pu_real *row = a + m * op->cols;
        if (w[m] == 0) continue;
        for (d = 0; d < op->cols; d++) y[d] += w[m] * (row[d] * row[d]);
    }
    return PU_OK;
}

PU__FN pu_status pu__dense_check(const pu_op *op, pu_int *index)
{
    return pu__check_finite(op->params, (const pu_real *)op->data, index);
}

PU_DEF pu_op pu_op_dense(pu_int rows, pu_int cols, const pu_real *a)
{
    int overflow = 0;
    size_t entries = rows > 0 && cols > 0 ? pu__mul((size_t)rows, (size_t)cols, &overflow) : 0;
    pu_op op = pu__op_zero(rows, cols, overflow ? PU_NONE : (pu_int)entries, a); /* PU_NONE: refused as overflow */
    op.form = PU_FORM_MATRIX;
    op.apply = pu__dense_apply, op.apply_t = pu__dense_apply_t, op.grad = pu__dense_grad;
    op.gram_diag = pu__dense_gram_diag, op.check = pu__dense_check;
    op.apply_rows = pu__dense_apply_rows, op.apply_rows_t = pu__dense_apply_rows_t, op.grad_rows = pu__dense_grad_rows;
    op.trusted = 1; /* as a prior precision it must show its symmetry; pu_op_spd checks it entry by entry */
#ifdef PU_USE_CBLAS
    op.work = cols; /* grad only */
#endif
    return op;
}

/* is the operator its matrix, and nothing but that? */
PU__FN int pu__plain(const pu_op *op)
{
    return op->apply == pu__dense_apply && op->apply_t == pu__dense_apply_t && op->grad == pu__dense_grad &&
           op->apply_rows == pu__dense_apply_rows && op->apply_rows_t == pu__dense_apply_rows_t &&
           op->grad_rows == pu__dense_grad_rows;
}

/* ---- symmetric positive definite ---- */

PU__FN pu_status pu__spd_grad(const pu_op *op, pu_int k, pu_block P, pu_block Q, const pu_real *weight, pu_real *grad,
                              pu_real *work)
{
    const pu_int n = op->rows;
    pu_int i, j;
    (void)work;
    for (i = 0; i < n; i++)
        for (j = 0; j < k; j++) { /* w (p q' + q p') / 2 */
            pu_real h = weight[j] / 2;
            pu__axpy(n, h * pu__col(P, j)[i], pu__col(Q, j), grad + i * n);
            pu__axpy(n, h * pu__col(Q, j)[i], pu__col(P, j), grad + i * n);
        }
    return PU_OK;
}

PU__FN pu_status pu__spd_sample(const pu_op *op, pu_int k, pu_block E, pu_block Y, pu_real *work)
{
    const pu_real *L = (const pu_real *)op->aux;
    pu_int i, j;
    (void)work;
    for (i = 0; i < op->rows; i++)
        for (j = 0; j < k; j++) pu__col(Y, j)[i] = (pu_real)pu__dot(i + 1, NULL, L + i * op->rows, pu__col(E, j));
    return PU_OK;
}

PU__FN pu_status pu__spd_solve(const pu_op *op, pu_int k, pu_block X, pu_block Y, pu_real *work)
{
    const pu_real *L = (const pu_real *)op->aux;
    const pu_int n = op->rows;
    pu_int j;
    (void)work;
    for (j = 0; j < k; j++) pu__copy(pu__col(Y, j), pu__col(X, j), n);
    if (k >= PU__FEW) pu__triangle(n, L, n, 0, k, Y, 0, NULL), pu__triangle(n, L, n, 1, k, Y, 0, NULL);
    for (j = 0; j < k && k < PU__FEW; j++) pu__lower_solve(n, L, 0, pu__col(Y, j)), pu__upper_solve(n, L, n - 1, pu__col(Y, j));
    return PU_OK;
}

PU__FN pu_status pu__spd_logdet(const pu_op *op, double *value, pu_real *work)
{
    (void)work;
    *value = 2 * pu__log_diagonal(op->rows, (const pu_real *)op->aux, op->rows + 1);
    return PU_OK;
}

/* d log det / dA = A^-1, column by column */
PU__FN pu_status pu__spd_logdet_grad(const pu_op *op, pu_real weight, pu_real *grad, pu_real *work)
{
    const pu_int n = op->rows;
    const pu_real *L = (const pu_real *)op->aux;
    pu_int j;
    for (j = 0; j < n; j++) {
        memset(work, 0, (size_t)n * sizeof *work);
        work[j] = 1;
        pu__lower_solve(n, L, j, work);
        pu__upper_solve(n, L, n - 1, work);
        pu__axpy(n, weight, work, grad + j * n);
    }
    return PU_OK;
}

/* finite, symmetric to rounding, and (with a factor) factor of this very matrix, seen on the diagonal */
PU__FN pu_status pu__spd_check(const pu_op *op, pu_int *index)
{
    const pu_int n = op->rows;
    const pu_real *a = (const pu_real *)op->data, *L = (const pu_real *)op->aux;
    const double tol = 100 * (double)PU__EPS;
    pu_status status = pu__check_finite(op->params, a, index);
    pu_int i, j;
    if (status) return status;
    for (i = 0; i < n; i++) {
        *index = i * n + i;
        if (!(a[i * n + i] > 0)) return PU_E_NOT_DEFINITE;
        for (j = 0; j < i; j++) {
            double x = (double)a[i * n + j], y = (double)a[j * n + i];
            *index = i * n + j;
            if (fabs(x - y) > tol * sqrt((double)a[i * n + i] * (double)a[j * n + j])) return PU_E_NOT_SYMMETRIC;
        }
        *index = i * n + i;
        if (L) {
            double s = pu__dot(i + 1, NULL, L + i * n, L + i * n), want = (double)a[i * n + i];
            if (!(fabs(s - want) <= tol * (double)n * want)) return PU_E_ARGUMENT; /* stale factor */
        }
    }
    *index = -1;
    return PU_OK;
}

PU_DEF pu_op pu_op_spd(pu_int n, const pu_real *a, const pu_real *factor)
{
    pu_op op = pu_op_dense(n, n, a);
    op.aux = factor, op.work = n, op.trusted = 2;
    op.apply_t = pu__dense_apply; /* symmetric */
    op.form = PU_FORM_SYMMETRIC;
    op.grad = pu__spd_grad, op.diag = pu__dense_diag, op.check = pu__spd_check;
    if (factor) op.sample = pu__spd_sample, op.logdet = pu__spd_logdet, op.logdet_grad = pu__spd_logdet_grad;
    if (factor) op.solve = pu__spd_solve;
    return op;
}

PU_DEF pu_status pu_op_spd_factor(pu_int n, const pu_real *a, pu_real *factor, pu_int *index)
{
    pu_int at = -1, i;
    pu_status status;
    pu_op op = pu_op_spd(n, a, NULL);
    if (index) *index = -1;
    if (!a || !factor) return PU_E_NULL;
    if (n <= 0) return PU_E_ARGUMENT;
    if (op.params < 0) return PU_E_OVERFLOW;
    status = pu__spd_check(&op, &at);
    if (!status) {
        for (i = 0; i < op.params; i++) factor[i] = i % n <= i / n ? a[i] : 0;
        at = pu__cholesky(n, factor, n, NULL);
        if (at >= 0) status = PU_E_NOT_DEFINITE, at = at * n + at;
    }
    if (index) *index = at;
    return status;
}

/* ---- diagonal, identity, scaled identity: one apply, s_i x_i with s from the data ---- */

PU__FN pu_status pu__diagonal_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    const pu_real *a = (const pu_real *)op->data, scale = op->params == 1 ? a[0] : 1;
    const pu_int n = op->rows;
    const int full = op->aux != NULL; /* aux == data marks a diagonal with an entry each */
    pu_int i, j;
    (void)work;
    for (j = 0; j < k; j++) {
        const pu_real *x = pu__col(X, j);
        pu_real *y = pu__col(Y, j);
        if (full && add) for (i = 0; i < n; i++) y[i] += a[i] * x[i];
        else if (full) for (i = 0; i < n; i++) y[i] = a[i] * x[i];
        else if (add) for (i = 0; i < n; i++) y[i] += scale * x[i];
        else for (i = 0; i < n; i++) y[i] = scale * x[i];
    }
    return PU_OK;
}

PU__FN pu_status pu__diagonal_grad(const pu_op *op, pu_int k, pu_block P, pu_block Q, const pu_real *weight,
                                   pu_real *grad, pu_real *work)
{
    pu_int j;
    (void)work;
    if (op->aux) pu__cpu_row_dot(NULL, op->rows, k, NULL, weight, P, Q, 0, NULL, grad);
    else if (op->params == 1)
        for (j = 0; j < k; j++) grad[0] += weight[j] * (pu_real)pu__dot(op->rows, NULL, pu__col(P, j), pu__col(Q, j));
    return PU_OK;
}

/* entry i of the diagonal */
PU__FN pu_real pu__diagonal_at(const pu_op *op, pu_int i)
{
    const pu_real *a = (const pu_real *)op->data;
    return op->aux ? a[i] : op->params == 1 ? a[0] : 1;
}

PU__FN pu_status pu__diagonal_diag(const pu_op *op, pu_real *y, pu_real *work)
{
    pu_int i;
    (void)work;
    for (i = 0; i < op->rows; i++) y[i] += pu__diagonal_at(op, i);
    return PU_OK;
}

PU__FN pu_status pu__diagonal_gram_diag(const pu_op *op, const pu_real *w, pu_real *y, pu_real *work)
{
    pu_int i;
    (void)work;
    for (i = 0; i < op->rows; i++) y[i] += w[i] * (pu__diagonal_at(op, i) * pu__diagonal_at(op, i));
    return PU_OK;
}

PU__FN pu_status pu__diagonal_sample(const pu_op *op, pu_int k, pu_block E, pu_block Y, pu_real *work)
{
    pu_int i, j;
    (void)work;
    for (i = 0; i < op->rows; i++) {
        pu_real root = pu__sqrt(pu__diagonal_at(op, i));
        for (j = 0; j < k; j++) pu__col(Y, j)[i] = root * pu__col(E, j)[i];
    }
    return PU_OK;
}

PU__FN pu_status pu__diagonal_solve(const pu_op *op, pu_int k, pu_block X, pu_block Y, pu_real *work)
{
    pu_int i, j;
    (void)work;
    for (j = 0; j < k; j++)
        for (i = 0; i < op->rows; i++) pu__col(Y, j)[i] = pu__col(X, j)[i] / pu__diagonal_at(op, i);
    return PU_OK;
}

PU__FN pu_status pu__diagonal_logdet(const pu_op *op, double *value, pu_real *work)
{
    (void)work;
    *value = 0;
    if (op->aux) *value = pu__log_diagonal(op->rows, (const pu_real *)op->data, 1);
    else if (op->params == 1) *value = (double)op->rows * log((double)pu__diagonal_at(op, 0));
    return PU_OK;
}

PU__FN pu_status pu__diagonal_logdet_grad(const pu_op *op, pu_real weight, pu_real *grad, pu_real *work)
{
    pu_int i;
    (void)work;
    if (op->params == 1 && !op->aux) grad[0] += weight * (pu_real)op->rows / pu__diagonal_at(op, 0);
    else
        for (i = 0; i < op->params; i++) grad[i] += weight / pu__diagonal_at(op, i);
    return PU_OK;
}

PU__FN pu_status pu__diagonal_band_add(const pu_op *op, pu_int width, double *B)
{
    pu_int i;
    for (i = 0; i < op->rows; i++) B[i * (width + 1)] += (double)pu__diagonal_at(op, i);
    return PU_OK;
}

PU__FN pu_status pu__diagonal_band_grad(const pu_op *op, pu_int width, const double *S, double weight, pu_real *grad)
{
    double sum = 0;
    pu_int i;
    for (i = 0; i < op->rows && op->aux; i++) grad[i] += (pu_real)(weight * S[i * (width + 1)]);
    for (i = 0; i < op->rows && !op->aux && op->params; i++) sum += S[i * (width + 1)];
    if (!op->aux && op->params) grad[0] += (pu_real)(weight * sum);
    return PU_OK;
}

PU__FN pu_int pu__diagonal_row(const pu_op *op, pu_int m, pu_int *first, pu_real *value)
{
    *first = m, *value = pu__diagonal_at(op, m);
    return 1;
}

PU__FN pu_status pu__diagonal_row_grad(const pu_op *op, pu_int m, const double *g, pu_real *grad)
{
    if (op->params) grad[op->aux ? m : 0] += (pu_real)*g;
    return PU_OK;
}

PU__FN pu_status pu__diagonal_check(const pu_op *op, pu_int *index)
{
    *index = -1;
    return op->params ? pu__check_finite(op->params, (const pu_real *)op->data, index) : PU_OK;
}

PU__FN pu_op pu__op_diagonal(pu_int n, pu_int params, const pu_real *a, const pu_real *full)
{
    pu_op op = pu__op_zero(n, n, params, a);
    op.aux = full;
    op.form = PU_FORM_DIAGONAL;
    op.apply = op.apply_t = pu__diagonal_apply, op.grad = pu__diagonal_grad;
    op.diag = pu__diagonal_diag, op.gram_diag = pu__diagonal_gram_diag, op.sample = pu__diagonal_sample;
    op.solve = pu__diagonal_solve;
    op.logdet = pu__diagonal_logdet, op.logdet_grad = pu__diagonal_logdet_grad, op.check = pu__diagonal_check;
    op.band_add = pu__diagonal_band_add, op.band_grad = pu__diagonal_band_grad;
    op.row = pu__diagonal_row, op.row_grad = pu__diagonal_row_grad, op.flops = (double)n;
    return op;
}

PU_DEF pu_op pu_op_diagonal(pu_int n, const pu_real *a) { return pu__op_diagonal(n, n, a, a); }
PU_DEF pu_op pu_op_identity(pu_int n) { return pu__op_diagonal(n, 0, NULL, NULL); }
PU_DEF pu_op pu_op_scaled_identity(pu_int n, const pu_real *a) { return pu__op_diagonal(n, 1, a, NULL); }

/* ---- composition: data = left, aux = right ---- */

PU__FN const pu_op *pu__left(const pu_op *op) { return (const pu_op *)op->data; }
PU__FN const pu_op *pu__right(const pu_op *op) { return (const pu_op *)op->aux; }
PU__FN pu_int pu__noise(const pu_op *op) { return op->noise > 0 ? op->noise : op->rows; }

/* a packed n x k block at the start of the scratch, which moves on */
PU__FN pu_block pu__scratch(pu_real **work, pu_int n, pu_int k)
{
    pu_block b;
    b.at = *work, b.ld = n;
    *work += n * k;
    return b;
}

PU__FN pu_status pu__product_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    pu_block T = pu__scratch(&work, pu__right(op)->rows, k);
    pu_status status = pu__right(op)->apply(pu__right(op), k, X, T, 0, work);
    return status ? status : pu__left(op)->apply(pu__left(op), k, T, Y, add, work);
}

PU__FN pu_status pu__product_apply_t(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    pu_block T = pu__scratch(&work, pu__left(op)->cols, k);
    pu_status status = pu__left(op)->apply_t(pu__left(op), k, X, T, 0, work);
    return status ? status : pu__right(op)->apply_t(pu__right(op), k, T, Y, add, work);
}

/* p' L R q: p'L(Rq) for the left parameters, (L'p)'R q for the right ones */
PU__FN pu_status pu__product_grad(const pu_op *op, pu_int k, pu_block P, pu_block Q, const pu_real *weight, pu_real *grad,
                                  pu_real *work)
{
    const pu_op *L = pu__left(op), *R = pu__right(op);
    pu_block T = pu__scratch(&work, R->rows, k);
    pu_status status = PU_OK;
    if (L->params) {
        status = R->apply(R, k, Q, T, 0, work);
        if (!status) status = L->grad(L, k, P, T, weight, grad, work);
    }
    if (!status && R->params) {
        status = L->apply_t(L, k, P, T, 0, work);
        if (!status) status = R->grad(R, k, T, Q, weight, grad + L->params, work);
    }
    return status;
}

PU__FN pu_status pu__pair_check(const pu_op *op, pu_int *index)
{
    const pu_op *L = pu__left(op), *R = pu__right(op);
    pu_status status = PU_OK;
    *index = -1;
    if (L->check) status = L->check(L, index);
    if (!status && R->check) {
        status = R->check(R, index);
        if (status && *index >= 0) *index += L->params;
    }
    return status;
}

PU__FN pu_status pu__sum_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    pu_status status = pu__left(op)->apply(pu__left(op), k, X, Y, add, work);
    return status ? status : pu__right(op)->apply(pu__right(op), k, X, Y, 1, work);
}

PU__FN pu_status pu__sum_apply_t(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    pu_status status = pu__left(op)->apply_t(pu__left(op), k, X, Y, add, work);
    return status ? status : pu__right(op)->apply_t(pu__right(op), k, X, Y, 1, work);
}

PU__FN pu_status pu__sum_grad(const pu_op *op, pu_int k, pu_block P, pu_block Q, const pu_real *weight, pu_real *grad,
                              pu_real *work)
{
    const pu_op *L = pu__left(op), *R = pu__right(op);
    pu_status status = L->params ? L->grad(L, k, P, Q, weight, grad, work) : PU_OK;
    return status || !R->params ? status : R->grad(R, k, P, Q, weight, grad + L->params, work);
}

PU__FN pu_status pu__sum_diag(const pu_op *op, pu_real *y, pu_real *work)
{
    pu_status status = pu__left(op)->diag(pu__left(op), y, work);
    return status ? status : pu__right(op)->diag(pu__right(op), y, work);
}

/* independent draws of the two parts add up */
PU__FN pu_status pu__sum_sample(const pu_op *op, pu_int k, pu_block E, pu_block Y, pu_real *work)
{
    const pu_op *L = pu__left(op), *R = pu__right(op);
    pu_block T = pu__scratch(&work, op->rows, k), rest = E;
    pu_int j;
    pu_status status = L->sample(L, k, E, Y, work);
    rest.at = E.at + pu__noise(L);
    if (!status) status = R->sample(R, k, rest, T, work);
    for (j = 0; j < k && !status; j++) pu__axpy(op->rows, 1, pu__col(T, j), pu__col(Y, j));
    return status;
}

/* multiplications of a product with one column */
PU__FN double pu__flops(const pu_op *op)
{
    return op->flops > 0 ? op->flops : (double)op->params + (double)op->rows + (double)op->cols;
}

PU__FN pu_op pu__op_pair(const pu_op *left, const pu_op *right, pu_int extra)
{
    pu_op op = pu__op_zero(0, 0, 0, left); /* zero sizes: refused by whoever uses it */
    if (!left || !right) return op;
    op.aux = right;
    op.rows = left->rows, op.cols = right->cols;
    op.params = left->params < 0 || right->params < 0 || left->params > PTRDIFF_MAX - right->params
                    ? PU_NONE /* refused as overflow */ : left->params + right->params;
    op.work = left->work > right->work ? left->work : right->work;
    op.work = op.work > PTRDIFF_MAX - extra ? PTRDIFF_MAX : op.work + extra; /* the size query overflows, and says so */
    op.trusted = left->trusted < right->trusted ? left->trusted : right->trusted;
    op.check = pu__pair_check;
    op.flops = pu__flops(left) + pu__flops(right);
    return op;
}

PU_DEF pu_op pu_op_product(const pu_op *left, const pu_op *right)
{
    pu_op op = pu__op_pair(left, right, right ? right->rows : 0);
    if (!op.aux || left->cols != right->rows) return pu__op_zero(0, 0, 0, NULL);
    if (left->apply && right->apply) op.apply = pu__product_apply;
    if (left->apply_t && right->apply_t) op.apply_t = pu__product_apply_t;
    if ((!left->params || left->grad) && (!right->params || right->grad)) op.grad = pu__product_grad;
    if (op.trusted > 1) op.trusted = 1; /* a product of symmetric operators need not be symmetric */
    return op;
}

PU_DEF pu_op pu_op_sum(const pu_op *left, const pu_op *right)
{
    pu_op op = pu__op_pair(left, right, left ? left->rows : 0);
    if (!op.aux || left->rows != right->rows || left->cols != right->cols) return pu__op_zero(0, 0, 0, NULL);
    if (left->apply && right->apply) op.apply = pu__sum_apply;
    if (left->apply_t && right->apply_t) op.apply_t = pu__sum_apply_t;
    if ((!left->params || left->grad) && (!right->params || right->grad)) op.grad = pu__sum_grad;
    if (left->diag && right->diag) op.diag = pu__sum_diag;
    if (left->sample && right->sample) op.sample = pu__sum_sample, op.noise = pu__noise(left) + pu__noise(right);
    return op;
}

/* ------------------------------------------------------------------------------------------------
   >>structured   sparse rows, diagonal plus low rank, Kronecker products
   ------------------------------------------------------------------------------------------------ */

/* ---- sparse, compressed rows. Four columns at a time are interleaved in the scratch: an entry then touches one cache
   line instead of four and feeds one vector instruction. Two or three that remain are filled up with zeros where the
   scratch (cols reals per column) has room, and taken singly otherwise. ---- */

#define PU__CSR_WIDE 4

/* how many of the k columns go together from column j on */
PU__FN int pu__csr_group(pu_int k, pu_int j)
{
    return k < PU__CSR_WIDE ? 1 : (int)pu__min(PU__CSR_WIDE, k - j);
}

/* interleave `wide` columns of X, and back (Y = or += T) */
PU__FN void pu__csr_pack(pu_int n, int wide, pu_block X, pu_real *T)
{
    const pu_real *x0 = X.at, *x1 = x0 + X.ld, *x2 = wide > 2 ? x1 + X.ld : x1, *x3 = wide > 3 ? x2 + X.ld : x2;
    pu_int i;
    for (i = 0; i < n; i++, T += PU__CSR_WIDE) {
        T[0] = x0[i], T[1] = x1[i];
        T[2] = wide > 2 ? x2[i] : 0, T[3] = wide > 3 ? x3[i] : 0;
    }
}

PU__FN void pu__csr_unpack(pu_int n, int wide, const pu_real *T, pu_block Y, int add)
{
    pu_int i;
    int c;
    for (c = 0; c < wide; c++) {
        pu_real *y = pu__col(Y, c);
        if (add) for (i = 0; i < n; i++) y[i] += T[i * PU__CSR_WIDE + c];
        else for (i = 0; i < n; i++) y[i] = T[i * PU__CSR_WIDE + c];
    }
}

/* s[c] = sum value[i] T[index[i]][c] over one row; chunks are added in double, as in pu__dot */
PU__FN void pu__csr_dots(pu_int count, const pu_real *value, const pu_int *index, const pu_real *T, double *s)
{
    pu_int i, at;
    int c;
    for (c = 0; c < PU__CSR_WIDE; c++) s[c] = 0;
    for (at = 0; at < count; at += PU__CHUNK) {
        const pu_int end = pu__min(count, at + PU__CHUNK);
        pu_real part[PU__CSR_WIDE] = {0};
        for (i = at; i < end; i++) {
            const pu_real v = value[i], *x = T + index[i] * PU__CSR_WIDE;
            for (c = 0; c < PU__CSR_WIDE; c++) part[c] += v * x[c];
        }
        for (c = 0; c < PU__CSR_WIDE; c++) s[c] += (double)part[c];
    }
}

PU__FN double pu__csr_dot(pu_int count, const pu_real *value, const pu_int *index, const pu_real *x)
{
    double s = 0;
    pu_int i, at;
    for (at = 0; at < count; at += PU__CHUNK) {
        const pu_int end = pu__min(count, at + PU__CHUNK);
        pu_real part = 0;
        for (i = at; i < end; i++) part += value[i] * x[index[i]];
        s += (double)part;
    }
    return s;
}

PU__FN pu_status pu__csr_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    const pu_csr *a = (const pu_csr *)op->data;
    double s[PU__CSR_WIDE];
    pu_int m, j;
    int wide, c;
    for (j = 0; j < k; j += wide) {
        wide = pu__csr_group(k, j);
        if (wide > 1) pu__csr_pack(a->cols, wide, pu__from(X, j), work);
        for (m = 0; m < a->rows; m++) {
            const pu_int at = a->start[m], count = a->start[m + 1] - at;
            if (wide > 1) pu__csr_dots(count, a->value + at, a->index + at, work, s);
            else s[0] = pu__csr_dot(count, a->value + at, a->index + at, pu__col(X, j));
            for (c = 0; c < wide; c++) {
                pu_real *y = pu__col(Y, j + c) + m;
                *y = add ? *y + (pu_real)s[c] : (pu_real)s[c];
            }
        }
    }
    return PU_OK;
}

/* x[c] = (weight[c] times) entry m of column c, zeros for columns that are not there; 0 when all are zero */
PU__FN int pu__csr_row(int wide, pu_block X, pu_int m, const pu_real *weight, pu_real *x)
{
    int c, some = 0;
    for (c = 0; c < PU__CSR_WIDE; c++) {
        x[c] = c < wide ? pu__col(X, c)[m] : 0;
        if (weight && c < wide) x[c] *= weight[c];
        some |= x[c] != 0;
    }
    return some;
}

/* rows in their order, no atomics: every sum has one order. Rows of zeros (unobserved entries) cost nothing. */
PU__FN pu_status pu__csr_apply_t(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    const pu_csr *a = (const pu_csr *)op->data;
    pu_real x[PU__CSR_WIDE], *y;
    pu_int m, i, j;
    int wide, c;
    for (j = 0; j < k; j += wide) {
        wide = pu__csr_group(k, j);
        if (wide == 1) pu__clear(a->cols, 1, pu__from(Y, j), add);
        else memset(work, 0, (size_t)(a->cols * PU__CSR_WIDE) * sizeof *work);
        for (m = 0; m < a->rows; m++) {
            if (!pu__csr_row(wide, pu__from(X, j), m, NULL, x)) continue;
            if (wide == 1)
                for (i = a->start[m], y = pu__col(Y, j); i < a->start[m + 1]; i++) y[a->index[i]] += a->value[i] * x[0];
            else
                for (i = a->start[m]; i < a->start[m + 1]; i++) {
                    const pu_real v = a->value[i];
                    y = work + a->index[i] * PU__CSR_WIDE;
                    for (c = 0; c < PU__CSR_WIDE; c++) y[c] += v * x[c];
                }
        }
        if (wide > 1) pu__csr_unpack(a->cols, wide, work, pu__from(Y, j), add);
    }
    return PU_OK;
}

/* stored entries only: d p'Aq / d value_s = p_row q_index */
PU__FN pu_status pu__csr_grad(const pu_op *op, pu_int k, pu_block P, pu_block Q, const pu_real *weight, pu_real *grad,
                              pu_real *work)
{
    const pu_csr *a = (const pu_csr *)op->data;
    const pu_real *q;
    pu_real p[PU__CSR_WIDE];
    pu_int m, i, j;
    int wide;
    for (j = 0; j < k; j += wide) {
        wide = pu__csr_group(k, j);
        if (wide > 1) pu__csr_pack(a->cols, wide, pu__from(Q, j), work);
        for (m = 0; m < a->rows; m++) {
            if (!pu__csr_row(wide, pu__from(P, j), m, weight + j, p)) continue;
            if (wide == 1)
                for (i = a->start[m], q = pu__col(Q, j); i < a->start[m + 1]; i++) grad[i] += p[0] * q[a->index[i]];
            else
                for (i = a->start[m]; i < a->start[m + 1]; i++) {
                    q = work + a->index[i] * PU__CSR_WIDE;
                    grad[i] += (p[0] * q[0] + p[1] * q[1]) + (p[2] * q[2] + p[3] * q[3]);
                }
        }
    }
    return PU_OK;
}

PU__FN pu_status pu__csr_diag(const pu_op *op, pu_real *y, pu_real *work)
{
    const pu_csr *a = (const pu_csr *)op->data;
    pu_int m, i;
    (void)work;
    for (m = 0; m < a->rows; m++) {
        for (i = a->start[m]; i < a->start[m + 1] && a->index[i] < m; i++) {}
        if (i < a->start[m + 1] && a->index[i] == m) y[m] += a->value[i];
    }
    return PU_OK;
}

PU__FN pu_status pu__csr_gram_diag(const pu_op *op, const pu_real *w, pu_real *y, pu_real *work)
{
    const pu_csr *a = (const pu_csr *)op->data;
    pu_int m, i;
    (void)work;
    for (m = 0; m < a->rows; m++)
        for (i = a->start[m]; i < a->start[m + 1]; i++) y[a->index[i]] += w[m] * (a->value[i] * a->value[i]);
    return PU_OK;
}

/* `start` in full before any of it is used as an index; then columns, then values */
PU__FN pu_status pu__csr_check(const pu_op *op, pu_int *index)
{
    const pu_csr *a = (const pu_csr *)op->data;
    pu_int m, i, last;
    *index = -1;
    if (!a || !a->start || !a->index || !a->value) return PU_E_NULL;
    if (a->rows != op->rows || a->cols != op->cols) return PU_E_SIZE; /* changed since the operator was made */
    *index = 0;
    if (a->start[0] != 0) return PU_E_SIZE;
    for (m = 0; m < a->rows; m++) {
        *index = m + 1;
        if (a->start[m + 1] < a->start[m]) return PU_E_SIZE;
    }
    if (a->start[a->rows] != op->params) return PU_E_SIZE;
    for (m = 0; m < a->rows; m++)
        for (i = a->start[m], last = -1; i < a->start[m + 1]; i++) {
            *index = i;
            if (a->index[i] <= last || a->index[i] >= a->cols) return PU_E_SIZE;
            last = a->index[i];
        }
    *index = -1;
    return pu__check_finite(op->params, a->value, index);
}

PU_DEF pu_op pu_op_csr(const pu_csr *a)
{
    pu_op op = pu__op_zero(0, 0, 0, a); /* zero sizes: refused by whoever uses it */
    if (!a || a->rows <= 0 || a->cols <= 0) return op;
    op.rows = a->rows, op.cols = op.work = a->cols;
    op.params = a->start && a->start[a->rows] > 0 ? a->start[a->rows] : 0; /* check compares */
    op.form = PU_FORM_SPARSE;
    op.apply = pu__csr_apply, op.apply_t = pu__csr_apply_t, op.grad = pu__csr_grad;
    op.gram_diag = pu__csr_gram_diag, op.check = pu__csr_check;
    if (a->rows == a->cols) op.diag = pu__csr_diag;
    op.trusted = 1;
    return op;
}

/* ---- diagonal plus low rank: Op = D + U U', C = I + U'D^-1 U = L L' ---- */

/* T = U'X (r x k packed). The sums over n rows are closed every PU__CHUNK rows, in `part` (r x k). */
PU__FN void pu__low_rank_project(const pu_low_rank *a, pu_int k, pu_block X, pu_real *T, pu_real *part)
{
    const pu_int r = a->r;
    pu_int i, j, at;
    memset(T, 0, (size_t)(r * k) * sizeof *T);
    for (at = 0; at < a->n; at += PU__CHUNK) {
        const pu_int end = pu__min(a->n, at + PU__CHUNK);
        memset(part, 0, (size_t)(r * k) * sizeof *part);
        for (i = at; i < end; i++)
            for (j = 0; j < k; j++) pu__axpy(r, pu__col(X, j)[i], a->u + i * r, part + j * r);
        pu__axpy(r * k, 1, part, T);
    }
}

PU__FN pu_status pu__low_rank_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    const pu_low_rank *a = (const pu_low_rank *)op->data;
    const pu_int r = a->r;
    pu_int i, j;
    pu__low_rank_project(a, k, X, work, work + r * k);
    for (i = 0; i < a->n; i++)
        for (j = 0; j < k; j++) {
            pu_real s = a->d[i] * pu__col(X, j)[i] + (pu_real)pu__dot(r, NULL, a->u + i * r, work + j * r);
            pu__col(Y, j)[i] = add ? pu__col(Y, j)[i] + s : s;
        }
    return PU_OK;
}

/* p'Dq + (U'p)'(U'q): d = p q entry by entry, row i of U gets p_i (U'q)' + q_i (U'p)' */
PU__FN pu_status pu__low_rank_grad(const pu_op *op, pu_int k, pu_block P, pu_block Q, const pu_real *weight,
                                   pu_real *grad, pu_real *work)
{
    const pu_low_rank *a = (const pu_low_rank *)op->data;
    const pu_int n = a->n, r = a->r;
    pu_real *Up = work, *Uq = work + r * k, *part = work + 2 * r * k;
    pu_int i, j;
    pu__cpu_row_dot(NULL, n, k, NULL, weight, P, Q, 0, NULL, grad);
    pu__low_rank_project(a, k, P, Up, part);
    pu__low_rank_project(a, k, Q, Uq, part);
    for (i = 0; i < n; i++)
        for (j = 0; j < k; j++) {
            pu__axpy(r, weight[j] * pu__col(P, j)[i], Uq + j * r, grad + n + i * r);
            pu__axpy(r, weight[j] * pu__col(Q, j)[i], Up + j * r, grad + n + i * r);
        }
    return PU_OK;
}

PU__FN pu_status pu__low_rank_diag(const pu_op *op, pu_real *y, pu_real *work)
{
    const pu_low_rank *a = (const pu_low_rank *)op->data;
    pu_int i;
    (void)work;
    for (i = 0; i < a->n; i++) y[i] += a->d[i] + (pu_real)pu__dot(a->r, NULL, a->u + i * a->r, a->u + i * a->r);
    return PU_OK;
}

/* F = [D^1/2 | U] */
PU__FN pu_status pu__low_rank_sample(const pu_op *op, pu_int k, pu_block E, pu_block Y, pu_real *work)
{
    const pu_low_rank *a = (const pu_low_rank *)op->data;
    const pu_int n = a->n, r = a->r;
    pu_int i, j;
    (void)work;
    for (i = 0; i < n; i++) {
        const pu_real root = pu__sqrt(a->d[i]);
        for (j = 0; j < k; j++) {
            const pu_real *e = pu__col(E, j);
            pu__col(Y, j)[i] = root * e[i] + (pu_real)pu__dot(r, NULL, a->u + i * r, e + n);
        }
    }
    return PU_OK;
}

/* log det Op = log det D + log det C (matrix determinant lemma) */
PU__FN pu_status pu__low_rank_logdet(const pu_op *op, double *value, pu_real *work)
{
    const pu_low_rank *a = (const pu_low_rank *)op->data;
    (void)work;
    *value = pu__log_diagonal(a->n, a->d, 1) + 2 * pu__log_diagonal(a->r, a->factor, a->r + 1);
    return PU_OK;
}

/* Op^-1 = D^-1 - D^-1 U C^-1 U' D^-1 (Woodbury), so with u the row i of U
     d log det / d d_i = (Op^-1)_ii  = (1 - |L^-1 u|^2 / d_i) / d_i
     d log det / d U   = 2 Op^-1 U   = 2 D^-1 U C^-1            (I - C^-1 (C - I) = C^-1: nothing cancels) */
PU__FN pu_status pu__low_rank_logdet_grad(const pu_op *op, pu_real weight, pu_real *grad, pu_real *work)
{
    const pu_low_rank *a = (const pu_low_rank *)op->data;
    const pu_int n = a->n, r = a->r;
    pu_int i;
    for (i = 0; i < n; i++) {
        const pu_real d = a->d[i];
        memcpy(work, a->u + i * r, (size_t)r * sizeof *work);
        pu__lower_solve(r, a->factor, 0, work);
        grad[i] += weight * ((1 - (pu_real)pu__dot(r, NULL, work, work) / d) / d);
        pu__upper_solve(r, a->factor, r - 1, work);
        pu__axpy(r, 2 * weight / d, work, grad + n + i * r);
    }
    return PU_OK;
}

/* entries (row, first .. first + 7) of C - I, those up to the diagonal; sums over all n in double */
#define PU__CAPACITANCE 8
PU__FN void pu__low_rank_capacitance(const pu_low_rank *a, pu_int row, pu_int first, double *c)
{
    const pu_int r = a->r, count = pu__min(PU__CAPACITANCE, row + 1 - first);
    pu_int i, l;
    for (l = 0; l < PU__CAPACITANCE; l++) c[l] = 0;
    for (i = 0; i < a->n; i++) {
        const pu_real *u = a->u + i * r + first;
        const double s = (double)a->u[i * r + row] / (double)a->d[i];
        for (l = 0; l < count; l++) c[l] += s * (double)u[l];
    }
}

PU__FN pu_status pu__low_rank_numbers(const pu_low_rank *a, pu_int *index)
{
    pu_status status = pu__check_finite(a->n, a->d, index);
    pu_int i;
    if (status) return status;
    for (i = 0; i < a->n; i++)
        if (!(a->d[i] > 0)) { *index = i; return PU_E_NOT_POSITIVE; }
    status = pu__check_finite(a->n * a->r, a->u, index);
    if (status == PU_E_NONFINITE) *index += a->n;
    return status;
}

/* finite, d > 0, and (with a factor) factor of this very C, seen on its diagonal */
PU__FN pu_status pu__low_rank_check(const pu_op *op, pu_int *index)
{
    const pu_low_rank *a = (const pu_low_rank *)op->data;
    const pu_int r = a->r;
    double c[PU__CAPACITANCE];
    pu_int i;
    pu_status status;
    *index = -1;
    if (a->n != op->rows || a->n * (r + 1) != op->params) return PU_E_SIZE; /* changed since the operator was made */
    status = pu__low_rank_numbers(a, index);
    for (i = 0; i < r && a->factor && !status; i++) {
        double s = pu__dot(i + 1, NULL, a->factor + i * r, a->factor + i * r), want;
        pu__low_rank_capacitance(a, i, i, c);
        want = 1 + c[0];
        *index = i * r + i;
        if (!(fabs(s - want) <= 100 * (double)PU__EPS * (double)r * want)) return PU_E_ARGUMENT; /* stale factor */
    }
    if (!status) *index = -1;
    return status;
}

PU_DEF pu_op pu_op_low_rank(const pu_low_rank *a)
{
    pu_op op = pu__op_zero(0, 0, 0, a); /* zero sizes: refused by whoever uses it */
    int overflow = 0;
    size_t params;
    if (!a || a->n <= 0 || a->r <= 0) return op;
    params = pu__mul((size_t)a->n, (size_t)a->r + 1, &overflow);
    (void)pu__mul((size_t)a->r, pu__mul((size_t)a->r, 3, &overflow), &overflow); /* factor, scratch */
    op.rows = op.cols = a->n;
    op.params = overflow ? PU_NONE : (pu_int)params; /* PU_NONE: refused as overflow */
    op.noise = a->n > PTRDIFF_MAX - a->r ? PTRDIFF_MAX : a->n + a->r;
    op.work = overflow ? PTRDIFF_MAX : 3 * a->r;
    op.apply = op.apply_t = pu__low_rank_apply, op.grad = pu__low_rank_grad, op.diag = pu__low_rank_diag;
    op.sample = pu__low_rank_sample, op.check = pu__low_rank_check;
    if (a->factor) op.logdet = pu__low_rank_logdet, op.logdet_grad = pu__low_rank_logdet_grad;
    return op;
}

PU_DEF pu_status pu_low_rank_factor(const pu_low_rank *a, pu_int *index)
{
    double c[PU__CAPACITANCE];
    pu_int at = -1, i, j, l, r;
    pu_status status;
    if (index) *index = -1;
    if (!a || !a->d || !a->u || !a->factor) return PU_E_NULL;
    if (a->n <= 0 || a->r <= 0) return PU_E_ARGUMENT;
    if (pu_op_low_rank(a).params < 0) return PU_E_OVERFLOW;
    r = a->r;
    status = pu__low_rank_numbers(a, &at);
    if (!status) {
        for (i = 0; i < r; i++)
            for (j = 0; j < r; j += PU__CAPACITANCE) {
                if (j <= i) pu__low_rank_capacitance(a, i, j, c);
                for (l = j; l < pu__min(r, j + PU__CAPACITANCE); l++)
                    a->factor[i * r + l] = l > i ? 0 : (pu_real)(c[l - j] + (l == i ? 1.0 : 0.0));
            }
        at = pu__cholesky(r, a->factor, r, NULL);
        if (at >= 0) status = PU_E_NOT_DEFINITE, at = at * r + at;
    }
    if (index) *index = at;
    return status;
}

/* ---- Kronecker product: data = left = A, aux = right = B, and (A (x) B) vec X = vec A X B' with X row-major.
   B runs along the rows of X, which are contiguous; A needs its columns, so it runs on the transpose. ---- */

typedef enum { PU__KRON_APPLY, PU__KRON_APPLY_T, PU__KRON_SAMPLE } pu__kron_part;

/* entries that `part` of an operator takes in, and gives out */
PU__FN pu_int pu__kron_in(const pu_op *op, pu__kron_part part)
{
    return part == PU__KRON_APPLY ? op->cols : part == PU__KRON_APPLY_T ? op->rows : pu__noise(op);
}
PU__FN pu_int pu__kron_out(const pu_op *op, pu__kron_part part)
{
    return part == PU__KRON_APPLY_T ? op->cols : op->rows;
}

PU__FN pu_status pu__kron_call(const pu_op *op, pu__kron_part part, pu_int k, pu_block X, pu_block Y, pu_real *work)
{
    if (part == PU__KRON_APPLY) return op->apply(op, k, X, Y, 0, work);
    if (part == PU__KRON_APPLY_T) return op->apply_t(op, k, X, Y, 0, work);
    return op->sample(op, k, X, Y, work);
}

PU__FN pu_block pu__packed(pu_real *at, pu_int ld)
{
    pu_block b;
    b.at = at, b.ld = ld;
    return b;
}

/* T (packed) = B on each of the `count` segments of each column of X; one call when the columns are packed too */
PU__FN pu_status pu__kron_right(const pu_op *B, pu__kron_part part, pu_int count, pu_int k, pu_block X, pu_real *T,
                                pu_real *work)
{
    const pu_int in = pu__kron_in(B, part), out = pu__kron_out(B, part);
    pu_status status = PU_OK;
    pu_int j;
    if (k == 1 || X.ld == count * in)
        return pu__kron_call(B, part, k * count, pu__packed(X.at, in), pu__packed(T, out), work);
    for (j = 0; j < k && !status; j++, T += count * out)
        status = pu__kron_call(B, part, count, pu__packed(pu__col(X, j), in), pu__packed(T, out), work);
    return status;
}

/* the longest of an operator's three kinds of vectors; area of the matrices between them */
PU__FN pu_int pu__kron_side(const pu_op *op)
{
    const pu_int noise = op->sample ? pu__noise(op) : 0, side = op->rows > op->cols ? op->rows : op->cols;
    return side > noise ? side : noise;
}
PU__FN pu_int pu__kron_area(const pu_op *op) { return pu__kron_side(pu__left(op)) * pu__kron_side(pu__right(op)); }

/* T = X B', T', Z' = A T', Y = Z: for apply, for its transpose (A', B') and for sampling (the operands' F) alike */
PU__FN pu_status pu__kron_run(const pu_op *op, pu__kron_part part, pu_int k, pu_block X, pu_block Y, int add,
                              pu_real *work)
{
    const pu_op *A = pu__left(op), *B = pu__right(op);
    const pu_int ca = pu__kron_in(A, part), ra = pu__kron_out(A, part), rb = pu__kron_out(B, part);
    const pu_int area = pu__kron_area(op);
    pu_real *S = work, *T = work + k * area, *rest = work + 2 * k * area;
    pu_status status = pu__kron_right(B, part, ca, k, X, S, rest);
    pu_int j;
    if (status) return status;
    for (j = 0; j < k; j++) pu__transpose(ca, rb, S + j * ca * rb, T + j * ca * rb, 0);
    status = pu__kron_call(A, part, k * rb, pu__packed(T, ca), pu__packed(S, ra), rest);
    for (j = 0; j < k && !status; j++) pu__transpose(rb, ra, S + j * ra * rb, pu__col(Y, j), add);
    return status;
}

PU__FN pu_status pu__kron_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    return pu__kron_run(op, PU__KRON_APPLY, k, X, Y, add, work);
}

PU__FN pu_status pu__kron_apply_t(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    return pu__kron_run(op, PU__KRON_APPLY_T, k, X, Y, add, work);
}

/* (F_A (x) F_B)(F_A (x) F_B)' = A (x) B */
PU__FN pu_status pu__kron_sample(const pu_op *op, pu_int k, pu_block E, pu_block Y, pu_real *work)
{
    return pu__kron_run(op, PU__KRON_SAMPLE, k, E, Y, 0, work);
}

/* count copies of each of the k weights */
PU__FN void pu__kron_weights(pu_int k, pu_int count, const pu_real *weight, pu_real *out)
{
    pu_int i, j;
    for (j = 0; j < k; j++)
        for (i = 0; i < count; i++) out[j * count + i] = weight[j];
}

/* p'(A (x) B) q = tr(P' A Q B'), P: ra x rb, Q: ca x cb.
     A: with R = Q B', the sum over the rb columns of p_s' A r_s;
     B: with S = A'P, the sum over the ca rows of s_i' B q_i. */
PU__FN pu_status pu__kron_grad(const pu_op *op, pu_int k, pu_block P, pu_block Q, const pu_real *weight, pu_real *grad,
                               pu_real *work)
{
    const pu_op *A = pu__left(op), *B = pu__right(op);
    const pu_int ra = A->rows, ca = A->cols, rb = B->rows, cb = B->cols, area = pu__kron_area(op);
    pu_real *Pt = work, *R = work + k * area, *Rt = work + 2 * k * area, *w = work + 3 * k * area;
    pu_real *rest = w + k * (ca > rb ? ca : rb);
    pu_status status = PU_OK;
    pu_int j;
    for (j = 0; j < k; j++) pu__transpose(ra, rb, pu__col(P, j), Pt + j * ra * rb, 0);
    if (A->params) {
        status = pu__kron_right(B, PU__KRON_APPLY, ca, k, Q, R, rest);
        for (j = 0; j < k && !status; j++) pu__transpose(ca, rb, R + j * ca * rb, Rt + j * ca * rb, 0);
        pu__kron_weights(k, rb, weight, w);
        if (!status) status = A->grad(A, k * rb, pu__packed(Pt, ra), pu__packed(Rt, ca), w, grad, rest);
    }
    if (!status && B->params) {
        pu_real *St = R, *S = Rt;
        status = A->apply_t(A, k * rb, pu__packed(Pt, ra), pu__packed(St, ca), 0, rest);
        for (j = 0; j < k && !status; j++) pu__transpose(rb, ca, St + j * ca * rb, S + j * ca * rb, 0);
        pu__kron_weights(k, ca, weight, w);
        for (j = 0; j < k && !status; j++)
            status = B->grad(B, ca, pu__packed(S + j * ca * rb, rb), pu__packed(pu__col(Q, j), cb), w + j * ca,
                             grad + A->params, rest);
    }
    return status;
}

PU__FN pu_status pu__kron_diag(const pu_op *op, pu_real *y, pu_real *work)
{
    const pu_op *A = pu__left(op), *B = pu__right(op);
    const pu_int ra = A->rows, rb = B->rows;
    pu_real *a = work, *b = work + ra, *rest = work + 2 * pu__kron_area(op); /* ra + rb <= 2 ra rb */
    pu_status status;
    pu_int i;
    memset(work, 0, (size_t)(ra + rb) * sizeof *work);
    status = A->diag(A, a, rest);
    if (!status) status = B->diag(B, b, rest);
    for (i = 0; i < ra && !status; i++) pu__axpy(rb, a[i], b, y + i * rb);
    return status;
}

/* sum_mn w_mn A_mi^2 B_ns^2: B's own function on each row of w, then A's on each column of what comes out */
PU__FN pu_status pu__kron_gram_diag(const pu_op *op, const pu_real *w, pu_real *y, pu_real *work)
{
    const pu_op *A = pu__left(op), *B = pu__right(op);
    const pu_int ra = A->rows, ca = A->cols, rb = B->rows, cb = B->cols, area = pu__kron_area(op);
    pu_real *G = work, *Gt = work + area, *rest = work + 2 * area;
    pu_status status = PU_OK;
    pu_int i;
    memset(G, 0, (size_t)(ra * cb) * sizeof *G);
    for (i = 0; i < ra && !status; i++) status = B->gram_diag(B, w + i * rb, G + i * cb, rest);
    pu__transpose(ra, cb, G, Gt, 0);
    memset(G, 0, (size_t)(ca * cb) * sizeof *G);
    for (i = 0; i < cb && !status; i++) status = A->gram_diag(A, Gt + i * ra, G + i * ca, rest);
    if (!status) pu__transpose(cb, ca, G, y, 1);
    return status;
}

/* det (A (x) B) = det(A)^rb det(B)^ra */
PU__FN pu_status pu__kron_logdet(const pu_op *op, double *value, pu_real *work)
{
    const pu_op *A = pu__left(op), *B = pu__right(op);
    double a = 0, b = 0;
    pu_status status = A->logdet(A, &a, work);
    if (!status) status = B->logdet(B, &b, work);
    *value = (double)B->rows * a + (double)A->rows * b;
    return status;
}

PU__FN pu_status pu__kron_logdet_grad(const pu_op *op, pu_real weight, pu_real *grad, pu_real *work)
{
    const pu_op *A = pu__left(op), *B = pu__right(op);
    pu_status status = A->params ? A->logdet_grad(A, weight * (pu_real)B->rows, grad, work) : PU_OK;
    return status || !B->params ? status : B->logdet_grad(B, weight * (pu_real)A->rows, grad + A->params, work);
}

PU_DEF pu_op pu_op_kronecker(const pu_op *left, const pu_op *right)
{
    pu_op op = pu__op_pair(left, right, 0);
    int overflow = 0, square;
    size_t a, b, need, inner;
    if (!op.aux || left->rows <= 0 || left->cols <= 0 || right->rows <= 0 || right->cols <= 0 || left->work < 0 ||
        right->work < 0 || left->noise < 0 || right->noise < 0)
        return pu__op_zero(0, 0, 0, NULL);
    a = (size_t)pu__kron_side(left), b = (size_t)pu__kron_side(right);
    /* three matrices, the weights of grad, and what the operands need for a or b columns */
    need = pu__add(pu__mul(3, pu__mul(a, b, &overflow), &overflow), a > b ? a : b, &overflow);
    inner = pu__mul(b, (size_t)left->work, &overflow);
    if (inner < pu__mul(a, (size_t)right->work, &overflow)) inner = pu__mul(a, (size_t)right->work, &overflow);
    need = pu__add(need, inner, &overflow);
    op.flops = (double)left->cols * pu__flops(right) + (double)right->rows * pu__flops(left);
    op.rows = op.cols = 1; /* a size that overflows is refused as such, through params */
    if (overflow) { op.params = PU_NONE, op.work = PTRDIFF_MAX; return op; }
    op.rows = left->rows * right->rows, op.cols = left->cols * right->cols, op.work = (pu_int)need;
    square = left->rows == left->cols && right->rows == right->cols;
    if (left->apply && right->apply) op.apply = pu__kron_apply;
    if (left->apply_t && right->apply_t) op.apply_t = pu__kron_apply_t;
    if ((!left->params || (left->grad && right->apply)) && (!right->params || (right->grad && left->apply_t)))
        op.grad = pu__kron_grad;
    if (left->gram_diag && right->gram_diag) op.gram_diag = pu__kron_gram_diag;
    if (square && left->diag && right->diag) op.diag = pu__kron_diag;
    if (square && left->sample && right->sample)
        op.sample = pu__kron_sample, op.noise = pu__noise(left) * pu__noise(right);
    if (square && left->logdet && right->logdet) op.logdet = pu__kron_logdet;
    if (square && (!left->params || left->logdet_grad) && (!right->params || right->logdet_grad))
        op.logdet_grad = pu__kron_logdet_grad;
    return op;
}

/* ------------------------------------------------------------------------------------------------
   >>series   autoregression
   ------------------------------------------------------------------------------------------------ */

/* ---- autoregression ----
   a = (1, -phi_1, .., -phi_P). Prediction errors of growing order are independent, so Gamma = X'X, X lower triangular:
     row t of X:  (s_m / kappa)^1/2 a^(m)_j at column t - j,  j = 0 .. m,    m = min(t, P),
   where a^(m) predicts from the last m values only (Durbin-Levinson) and s_m = prod_{i > m} (1 - gamma_i^2):
     a^(0) = (1),   a^(m) = (a^(m-1), 0) - gamma_m (0, a^(m-1) reversed).
   This is the R'R = Dm of the stationary start without forming Dm or factorising it. Where n >= 2 P, multiplied out:
     a row at least P away from both ends:  sum_j a_j a_{j+k} / kappa at lag k, the same for all: a filter;
     rows i < P:  (U U')_ij with U_il = a_{i-l} / kappa^1/2, i >= l >= 0 (Gamma is persymmetric: its upper end is the
     lower end turned around, and there X is Toeplitz). No difference of large numbers; lower end likewise. */

/* a^(m) at a + pu__ar_row(m), and s_m, m = 0 .. P */
PU__FN void pu__ar_levinson(pu_int P, const pu_real *gamma, double *a, double *s)
{
    pu_int m, j;
    a[0] = 1;
    for (m = 1; m <= P; m++) {
        const double g = (double)gamma[m - 1], *old = a + pu__ar_row(m - 1);
        double *now = a + pu__ar_row(m);
        now[0] = 1, now[m] = -g;
        for (j = 1; j < m; j++) now[j] = old[j] - g * old[m - j];
    }
    s[P] = 1;
    for (m = P; m > 0; m--) s[m - 1] = s[m] * pu__ar_gap(gamma[m - 1]);
}

/* everything that follows from n, order, gamma, kappa */
PU__FN void pu__ar_derive(pu_ar *ar)
{
    double a[PU__AR_TRIANGLE], s[PU_AR_MAX + 1];
    const double kappa = (double)ar->kappa, *last;
    const pu_int P = ar->order;
    pu_int m, j, k;
    pu__ar_levinson(P, ar->gamma, a, s);
    last = a + pu__ar_row(P);
    for (j = 0; j < P; j++) ar->phi[j] = (pu_real)-last[j + 1];
    for (m = 0; m <= P; m++)
        for (j = 0; j <= m; j++) ar->rows[pu__ar_row(m) + j] = (pu_real)(sqrt(s[m] / kappa) * a[pu__ar_row(m) + j]);
    for (k = 0; k <= P; k++) {
        double sum = 0;
        for (j = 0; j + k <= P; j++) sum += last[j] * last[j + k];
        ar->band[P + k] = ar->band[P - k] = (pu_real)(sum / kappa);
    }
}

/* row t of X: entry j is at column t - j, j = 0 .. min(t, P) */
PU__FN const pu_real *pu__ar_x(const pu_ar *ar, pu_int t) { return ar->rows + pu__ar_row(pu__min(t, ar->order)); }

/* entry i of X'x */
PU__FN pu_real pu__ar_xt(const pu_ar *ar, const pu_real *x, pu_int i)
{
    const pu_int end = pu__min(ar->n, i + ar->order + 1);
    pu_real s = 0;
    pu_int t;
    for (t = i; t < end; t++) s += pu__ar_x(ar, t)[t - i] * x[t];
    return s;
}

/* the P rows at one end, times `by`, for n >= 2 P; dir = 1: x, y are the first entries, dir = -1: the last ones, going back */
PU__FN void pu__ar_end(const pu_ar *ar, pu_int dir, pu_real by, const pu_real *x, pu_real *y, int add)
{
    const pu_int P = ar->order;
    const pu_real *a = ar->rows + pu__ar_row(P);
    pu_real z[PU_AR_MAX];
    pu_int i, l;
    for (l = 0; l < P; l++) z[l] = a[0] * x[l * dir]; /* z = U'x */
    for (i = 1; i <= P; i++)
        for (l = 0; l < P; l++) z[l] += a[i] * x[(l + i) * dir];
    for (i = 0; i < P; i++) { /* y = U z */
        pu_real s = 0;
        for (l = 0; l <= i; l++) s += a[i - l] * z[l];
        y[i * dir] = add ? y[i * dir] + by * s : by * s;
    }
}

/* rows from .. to-1 of the filter, y = or y +=, and the sum of their x_u y_u */
PU__FN double pu__ar_rows(const pu_ar *ar, pu_int from, pu_int to, const pu_real *x, const pu_real *w, pu_real *y, int add)
{
    const pu_int P = ar->order;
    pu__ar_filter(to - from, 2 * P + 1, ar->band, x + from - P, w ? w + from : NULL, x + from, y + from, add);
    return (double)pu__dot_chunk(to - from, NULL, x + from, y + from);
}

/* y = Gamma x + w o x for order 5 and columns of PU__AR_LONG or more; the result is x'y */
PU__FN double pu__ar_apply5(const pu_ar *ar, const pu_real *x, const pu_real *w, pu_real *y)
{
    const pu_int lower = pu__ar_lower(ar->n);
    pu_int at, end;
    double sum = pu__ar_edge5(ar, 0, x, w, y);
    for (at = PU__AR_EDGE; at < lower; at = end) {
        end = pu__min(at / PU__CHUNK * PU__CHUNK + PU__CHUNK, lower);
        sum += pu__ar_filter5(end - at, ar->band + 5, x + at, w + at, y + at);
    }
    return sum + pu__ar_edge5(ar, lower, x, w, y);
}

/* Chunk by chunk, so that a product is still in the first-level cache for its sum. The last chunk takes all rows of the lower
   end. */
PU__FN pu_status pu__ar_apply_plus(const pu_op *op, const pu_real *w, pu_int k, pu_block X, pu_block Y, int add, pu_real *s)
{
    const pu_ar *ar = (const pu_ar *)op->data;
    const pu_int n = ar->n, P = ar->order, from = n >= 2 * P ? P : n, to = n >= 2 * P ? n - P : n; /* rows of the filter */
    pu_int i, j, c, at, end;
    for (c = 0; c < k; c++) {
        const pu_real *x = pu__col(X, c);
        pu_real *y = pu__col(Y, c);
        double sum = 0;
        if (P == 5 && n >= PU__AR_LONG && w && !add) {
            sum = pu__ar_apply5(ar, x, w, y);
            if (s) s[c] = (pu_real)sum;
            continue;
        }
        for (at = 0; at < n; at = end) {
            end = n - at <= PU__CHUNK + P ? n : at + PU__CHUNK;
            if (n < 2 * P) { /* the two ends overlap: X'(X x); one chunk */
                pu_real u[2 * PU_AR_MAX];
                for (i = 0; i < n; i++) {
                    const pu_int m = pu__min(i, P);
                    for (j = 0, u[i] = 0; j <= m; j++) u[i] += pu__ar_x(ar, i)[j] * x[i - j];
                }
                for (i = 0; i < n; i++) {
                    pu_real entry = pu__ar_xt(ar, u, i);
                    y[i] = add ? y[i] + entry : entry;
                }
            } else {
                const pu_int row = at < from ? from : at, last = pu__min(end, to);
                if (at == 0) pu__ar_end(ar, 1, 1, x, y, add);
                if (end == n) pu__ar_end(ar, -1, 1, x + n - 1, y + n - 1, add);
                if (last > row) sum += pu__ar_rows(ar, row, last, x, w, y, add);
            }
        }
        for (i = from > 0 ? 0 : to; i < n; i = i + 1 == from ? to : i + 1) { /* what lies between is the filter's */
            if (w) y[i] += w[i] * x[i];
            sum += (double)x[i] * (double)y[i];
        }
        if (s) s[c] = (pu_real)sum;
    }
    return PU_OK;
}

PU__FN pu_status pu__ar_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    (void)work;
    return pu__ar_apply_plus(op, NULL, k, X, Y, add, NULL);
}

/* X'e */
PU__FN pu_status pu__ar_sample(const pu_op *op, pu_int k, pu_block E, pu_block Y, pu_real *work)
{
    const pu_ar *ar = (const pu_ar *)op->data;
    const pu_int n = ar->n, P = ar->order, last = n - P > P ? n - P : P; /* rows P .. last-1 are a filter */
    pu_int i, c;
    (void)work;
    for (c = 0; c < k; c++) {
        const pu_real *e = pu__col(E, c);
        pu_real *y = pu__col(Y, c);
        for (i = 0; i < P; i++) y[i] = pu__ar_xt(ar, e, i);
        pu__ar_filter(last - P, P + 1, ar->rows + pu__ar_row(P), e + P, NULL, NULL, y + P, 0);
        for (i = last; i < n; i++) y[i] = pu__ar_xt(ar, e, i);
    }
    return PU_OK;
}

/* X'u = x from the last entry back, then X y = u from the first one on */
PU__FN pu_status pu__ar_solve(const pu_op *op, pu_int k, pu_block X, pu_block Y, pu_real *work)
{
    const pu_ar *ar = (const pu_ar *)op->data;
    pu_int t, j, c;
    (void)work;
    for (c = 0; c < k; c++) {
        pu_real *y = pu__col(Y, c);
        pu__copy(y, pu__col(X, c), ar->n);
        for (t = ar->n - 1; t >= 0; t--) {
            const pu_real *row = pu__ar_x(ar, t);
            y[t] /= row[0];
            for (j = pu__min(t, ar->order); j > 0; j--) y[t - j] -= row[j] * y[t];
        }
        for (t = 0; t < ar->n; t++) {
            const pu_real *row = pu__ar_x(ar, t);
            for (j = pu__min(t, ar->order); j > 0; j--) y[t] -= row[j] * y[t - j];
            y[t] /= row[0];
        }
    }
    return PU_OK;
}

/* sum_t X_ti^2, the same for all but the P rows at each end */
PU__FN pu_status pu__ar_diag(const pu_op *op, pu_real *y, pu_real *work)
{
    const pu_ar *ar = (const pu_ar *)op->data;
    const pu_int n = ar->n, P = ar->order;
    pu_int i, t;
    (void)work;
    for (i = 0; i < n; i++) {
        const pu_int end = pu__min(n, i + P + 1);
        pu_real s = 0;
        if (i >= P && i < n - P) s = ar->band[P];
        else
            for (t = i; t < end; t++) s += pu__ar_x(ar, t)[t - i] * pu__ar_x(ar, t)[t - i];
        y[i] += s;
    }
    return PU_OK;
}

/* What pu__ar_lags does, for order 5, columns of PU__AR_LONG or more, and m = shift; all rows of y. */
PU__FN double pu__ar_lags5(const pu_ar *ar, double w, const pu_real *p, const pu_real *q, double *C, pu_real by,
                           const pu_real *shift, pu_real *y)
{
    const pu_int lower = pu__ar_lower(ar->n);
    double sum[6] = {0}, with_m;
    pu_int at, end, d;
    with_m = pu__ar_edge_both5(ar, 0, p, q, by, shift, y, sum);
    for (at = PU__AR_EDGE; at < lower; at = end) {
        end = pu__min(at / PU__AR_CHUNK * PU__AR_CHUNK + PU__AR_CHUNK, lower);
        with_m += pu__ar_both5(end - at, p + at, q + at, ar->band + 5, by, shift + at, y ? y + at : NULL, sum);
    }
    with_m += pu__ar_edge_both5(ar, lower, p, q, by, shift, y, sum);
    for (d = 0; d <= 5; d++) C[d] += w * sum[d];
    return with_m;
}

/* What pu__ar_lags does, for the rows from .. to-1 of the filter, at most PU__CHUNK of them: sum_d += their part of C_d / w */
PU__FN double pu__ar_lags_of(const pu_ar *ar, pu_int from, pu_int to, const pu_real *m, const pu_real *p, const pu_real *q,
                             double *sum, pu_real by, const pu_real *shift, pu_real *y)
{
    const pu_real *band = ar->band;
    const pu_int n = to - from, P = ar->order;
    pu_real c[3];
    double three[3];
    pu_int d, l;
    if (n <= 0) return 0;
    p += from, q += from, y = y ? y + from : NULL;
    if (n < PU__LANES) { /* too few for the partial sums to pay */
        double with_m = 0;
        pu_int u;
        for (u = 0; u < n; u++) {
            pu_real s = shift ? (band[P] + shift[from + u]) * q[u] : band[P] * q[u];
            sum[0] += 2 * (double)(p[u] * q[u]);
            for (d = 1; d <= P; d++) {
                const pu_real v = q[u + d] + q[u - d];
                s += band[P + d] * v, sum[d] += (double)(p[u] * v);
            }
            if (y) y[u] += by * s;
            if (m) with_m += (double)(m[from + u] * p[u] * q[u]);
        }
        return with_m;
    }
    for (d = 0; d <= P && P < 2; d++)
        sum[d] += (double)pu__dot_chunk(n, NULL, p, q + d) + (double)pu__dot_chunk(n, NULL, p, q - d);
    for (l = 0; l < 2 * P + 1 && P < 2; l++) c[l] = by * band[l];
    if (y && P < 2) pu__ar_filter(n, 2 * P + 1, c, q - P, NULL, NULL, y, 1);
    for (; d <= P; d += 3) { /* the last three may overlap those before; what is known is not added again */
        const pu_int lag = pu__min(d, P - 2);
        for (l = 0; l < 3; l++) c[l] = lag + l < d ? 0 : lag + l ? by * band[P + lag + l] : by * band[P] / 2;
        if (y) pu__ar_both3(n, p, q, lag, c, y, three);
        else pu__ar_lag3(n, p, q, lag, three);
        for (l = d - lag; l < 3; l++) sum[lag + l] += three[l];
    }
    if (y && shift) pu__add_product(n, by, shift + from, q, y);
    return m ? (double)pu__dot_chunk(n, m + from, p, q) : 0;
}

/* C_d += w sum_u p_u (q_{u+d} + q_{u-d}), d = 0 .. P, entries outside 0 .. n-1 being zero; n >= 2 P. Gamma is symmetric, so
   that no lag is wanted without its opposite. Chunk by chunk, so that all lags find their entries in the first-level cache,
   and so does the sum m_u p_u q_u, which is the result (m NULL: 0). y not NULL: filter and shift (may be NULL) of `by` q are
   added to the rows P .. n-P-1 of y. */
PU__FN double pu__ar_lags(const pu_ar *ar, double w, const pu_real *m, const pu_real *p, const pu_real *q, double *C,
                          pu_real by, const pu_real *shift, pu_real *y)
{
    const pu_int n = ar->n, P = ar->order;
    double sum[PU_AR_MAX + 1] = {0}, with_m = 0;
    pu_int u, d, l, at, end;
    for (at = P; at < n - P; at = end) {
        end = pu__min(at / PU__AR_CHUNK * PU__AR_CHUNK + PU__AR_CHUNK, n - P);
        with_m += pu__ar_lags_of(ar, at, end, m, p, q, sum, by, shift, y);
    }
    for (l = 0; l < 2 * P; l++) { /* the P entries at each end */
        u = l < P ? l : n - 2 * P + l;
        for (d = 0; d <= P; d++) {
            if (u + d < n) sum[d] += (double)p[u] * (double)q[u + d];
            if (u >= d) sum[d] += (double)p[u] * (double)q[u - d];
        }
        if (m) with_m += (double)m[u] * (double)p[u] * (double)q[u];
    }
    for (d = 0; d <= P; d++) C[d] += w * sum[d];
    return with_m;
}

/* value of w (a*p)_t (a*q)_t, taps lo .. hi; abar += its derivative */
PU__FN double pu__ar_pair(pu_int t, pu_int lo, pu_int hi, const double *a, double w, const pu_real *p, const pu_real *q,
                          double *abar)
{
    double u = 0, v = 0;
    pu_int j;
    for (j = lo; j <= hi; j++) u += a[j] * (double)p[t - j], v += a[j] * (double)q[t - j];
    for (j = lo; j <= hi; j++) abar[j] += w * (u * (double)q[t - j] + v * (double)p[t - j]);
    return w * u * v;
}

/* The P entries of p and q at one end, sum over columns: S_ij += w (p_i q_j + q_i p_j). Entry i is at p[i dir]; a row of S is
   `wide` numbers, P filled up to whole vectors with zeros. */
PU__FN void pu__ar_corner(pu_int P, pu_int wide, pu_int dir, double w, const pu_real *p, const pu_real *q, double *S)
{
    double u[PU_AR_MAX], v[PU_AR_MAX];
    pu_int i, j, l;
    for (i = 0; i < wide; i++) u[i] = i < P ? (double)p[i * dir] : 0, v[i] = i < P ? (double)q[i * dir] : 0;
    for (i = 0; i < P; i++)
        for (j = 0; j < wide; j += 8)
            for (l = j; l < j + 8; l++) S[i * wide + l] += w * u[i] * v[l] + w * v[i] * u[l];
}

/* What pu__ar_pair does, for such a sum: tap j meets entry at + j dir of the end. */
PU__FN double pu__ar_corner_pair(pu_int at, pu_int dir, pu_int lo, pu_int hi, const double *a, double w, const double *S,
                                 pu_int wide, double *abar)
{
    double value = 0, s;
    pu_int i, j;
    for (j = lo; j <= hi; j++) {
        const double *row = S + (at + j * dir) * wide + at;
        for (i = lo, s = 0; i <= hi; i++) s += a[i] * row[i * dir];
        value += a[j] * s, abar[j] += w * s;
    }
    return w * value / 2;
}

/* From the terms value[t] (t < P: with the factor s_t) and the cotangents of a^(0) .. a^(P) back through the Durbin-Levinson
   recursion: grad += the gradient of sum value / kappa */
PU__FN void pu__ar_pull(const pu_ar *ar, const double *a, double *abar, const double *value, pu_real *grad)
{
    const double kappa = (double)ar->kappa;
    double sum = 0;
    pu_int t, j;
    for (t = ar->order; t > 0; t--) { /* a^(t) = (a^(t-1), 0) - gamma_t (0, a^(t-1) reversed) */
        const double g = (double)ar->gamma[t - 1], *old = a + pu__ar_row(t - 1), *now = abar + pu__ar_row(t);
        double *before = abar + pu__ar_row(t - 1), gbar = 0;
        for (j = 1; j <= t; j++) gbar -= now[j] * old[t - j];
        for (j = 1; j < t; j++) before[j] += now[j] - g * now[t - j];
        for (j = 0, sum = 0; j < t; j++) sum += value[j]; /* s_0 .. s_{t-1} hold the factor 1 - gamma_t^2 */
        grad[t - 1] += (pu_real)((gbar - 2 * g / pu__ar_gap(ar->gamma[t - 1]) * sum) / kappa);
    }
    for (j = 0, sum = 0; j <= ar->order; j++) sum += value[j];
    grad[ar->order] -= (pu_real)(sum / kappa / kappa);
}

/* kappa p'Gamma q = sum_{t < P} s_t (a^(t)*p)_t (a^(t)*q)_t + sum_{t >= P} (a*p)_t (a*q)_t. Taken over all t that the
   taps reach, the second sum is 1/2 sum_ij a_i a_j C_{|i-j|} with the lag sums C of p and q; what that has too much at the
   two ends comes off term by term. Sums over columns and the O(P^2) work at the ends are in double.
   With p' = c_j p_j: grad += weight_j d/dtheta p_j''Gamma q_j; sum_j = sum over i of shift_i p_ij q_ij, without c_j (0 where c_j is 0);
   Y += (Gamma + diag(shift)) P'. shift, and with it sum, may be NULL. */
PU__FN pu_status pu__ar_grad_pairs(const pu_op *op, const pu_real *shift, const pu__pairs *pairs, pu_real *grad, double *sum)
{
    const pu_ar *ar = (const pu_ar *)op->data;
    const pu_int n = ar->n, P = ar->order;
    double a[PU__AR_TRIANGLE], abar[PU__AR_TRIANGLE], s[PU_AR_MAX + 1], value[PU_AR_MAX + 1] = {0};
    double C[PU_AR_MAX + 1] = {0}, upper[PU_AR_MAX * PU_AR_MAX], lower[PU_AR_MAX * PU_AR_MAX], with_m; /* corners */
    const pu_int wide = (P + 7) / 8 * 8;
    const int quick = P == 5 && n >= PU__AR_LONG && shift && sum;
    const double *last;
    double *lastbar;
    pu_int c, t, i, j;
    memset(abar, 0, (size_t)pu__ar_row(P + 1) * sizeof *abar);
    memset(upper, 0, (size_t)(P * wide) * sizeof *upper), memset(lower, 0, (size_t)(P * wide) * sizeof *lower);
    pu__ar_levinson(P, ar->gamma, a, s);
    last = a + pu__ar_row(P), lastbar = abar + pu__ar_row(P);
    for (c = 0; c < pairs->k; c++) {
        const pu_real *p = pu__col(pairs->P, c), *q = pu__col(pairs->Q, c);
        const pu_real by = pairs->c ? pairs->c[c] : 1;
        const double w = (double)pairs->weight[c] * (double)by;
        pu_real *y = pairs->Y.at ? pu__col(pairs->Y, c) : NULL;
        if (sum) sum[c] = 0;
        if (by == 0 || (pairs->weight[c] == 0 && !y)) continue;
        if (n >= 2 * P) {
            with_m = quick ? pu__ar_lags5(ar, w, q, p, C, by, shift, y)
                           : pu__ar_lags(ar, w, sum ? shift : NULL, q, p, C, by, shift, y);
            pu__ar_corner(P, wide, -1, w, p + n - 1, q + n - 1, lower);
        } else {
            for (t = P; t < n; t++) value[P] += pu__ar_pair(t, 0, P, last, w, p, q, lastbar);
            with_m = sum && shift ? pu__dot(n, shift, p, q) : 0;
        }
        pu__ar_corner(P, wide, 1, w, p, q, upper);
        if (y && n < 2 * P) {
            pu_real scaled[2 * PU_AR_MAX];
            pu_block x;
            x.at = scaled, x.ld = n;
            for (i = 0; i < n; i++) scaled[i] = by * p[i];
            (void)pu__ar_apply_plus(op, shift, 1, x, pu__from(pairs->Y, c), 1, NULL);
        } else if (y && !quick) {
            pu__ar_end(ar, 1, by, p, y, 1);
            pu__ar_end(ar, -1, by, p + n - 1, y + n - 1, 1);
            for (i = 0; i < 2 * P && shift; i++) t = i < P ? i : n - 2 * P + i, y[t] += by * (shift[t] * p[t]);
        }
        if (sum) sum[c] = with_m;
    }
    for (t = 0; t < P; t++) {
        value[t] += pu__ar_corner_pair(t, -1, 0, t, a + pu__ar_row(t), s[t], upper, wide, abar + pu__ar_row(t));
        if (n < 2 * P) continue;
        value[P] += pu__ar_corner_pair(t, -1, 0, t, last, -1, upper, wide, lastbar);
        value[P] += pu__ar_corner_pair(-t - 1, 1, t + 1, P, last, -1, lower, wide, lastbar);
    }
    for (i = 0; i <= P; i++)
        for (j = 0; j <= P; j++) {
            value[P] += last[i] * last[j] * C[i > j ? i - j : j - i] / 2;
            lastbar[i] += last[j] * C[i > j ? i - j : j - i];
        }
    pu__ar_pull(ar, a, abar, value, grad);
    return PU_OK;
}

PU__FN pu_status pu__ar_grad_plus(const pu_op *op, const pu_real *shift, pu_int k, const pu_real *scale, pu_block P,
                                  pu_block Q, pu_block Y, const pu_real *weight, pu_real *grad, double *sum)
{
    pu__pairs pairs;
    pairs.k = k;
    pairs.c = scale;
    pairs.P = P;
    pairs.Q = Q;
    pairs.Y = Y;
    pairs.weight = weight;
    return pu__ar_grad_pairs(op, shift, &pairs, grad, sum);
}

PU__FN pu_status pu__ar_grad(const pu_op *op, pu_int k, pu_block P, pu_block Q, const pu_real *weight, pu_real *grad,
                             pu_real *work)
{
    const pu_block none = {NULL, 0};
    (void)work;
    return pu__ar_grad_plus(op, NULL, k, NULL, P, Q, none, weight, grad, NULL);
}

/* entry (i, i - j) = sum_t X_ti X_{t, i-j}, the same for all but the P rows at each end */
PU__FN pu_status pu__ar_band_add(const pu_op *op, pu_int width, double *B)
{
    const pu_ar *ar = (const pu_ar *)op->data;
    const pu_int n = ar->n, P = ar->order;
    pu_int i, j, t;
    for (i = 0; i < n; i++)
        for (j = 0; j <= pu__min(i, P); j++) {
            const pu_int end = pu__min(n, i - j + P + 1);
            double s = 0;
            if (i - j >= P && i < n - P) s = (double)ar->band[P + j];
            else
                for (t = i; t < end; t++) s += (double)pu__ar_x(ar, t)[t - i] * (double)pu__ar_x(ar, t)[t - i + j];
            B[i * (width + 1) + j] += s;
        }
    return PU_OK;
}

/* kappa tr(Gamma S) = sum_{t < P} s_t a^(t)'S_t a^(t) + a'C a, with S_t the entries (t-i, t-j) of S and
   C_ij = sum_{t >= P} S_{t-i, t-j}: the sum along a diagonal of S without its ends */
PU__FN pu_status pu__ar_band_grad(const pu_op *op, pu_int width, const double *S, double weight, pu_real *grad)
{
    const pu_ar *ar = (const pu_ar *)op->data;
    const pu_int n = ar->n, P = ar->order, w = width + 1;
    double a[PU__AR_TRIANGLE], abar[PU__AR_TRIANGLE], s[PU_AR_MAX + 1], value[PU_AR_MAX + 1] = {0}, lag[PU_AR_MAX + 1] = {0};
    pu_int t, i, j, u;
    memset(abar, 0, (size_t)pu__ar_row(P + 1) * sizeof *abar);
    pu__ar_levinson(P, ar->gamma, a, s);
    for (u = 0; u < n; u++)
        for (j = 0; j <= pu__min(u, P); j++) lag[j] += S[u * w + j];
    for (t = 0; t <= P; t++) {
        const double *at = a + pu__ar_row(t), factor = weight * (t < P ? s[t] : 1);
        for (i = 0; i <= t; i++)
            for (j = i; j <= t; j++) {
                double C = lag[j - i];
                if (t < P) C = S[(t - i) * w + j - i];
                else {
                    for (u = j - i; u < P - i; u++) C -= S[u * w + j - i];
                    for (u = n - i; u < n; u++) C -= S[u * w + j - i];
                }
                C *= i == j ? factor : 2 * factor;
                value[t] += at[i] * at[j] * C;
                abar[pu__ar_row(t) + i] += at[j] * C, abar[pu__ar_row(t) + j] += at[i] * C;
            }
    }
    pu__ar_pull(ar, a, abar, value, grad);
    return PU_OK;
}

PU__FN pu_status pu__ar_logdet(const pu_op *op, double *value, pu_real *work)
{
    const pu_ar *ar = (const pu_ar *)op->data;
    double sum = -(double)ar->n * log((double)ar->kappa);
    pu_int i;
    (void)work;
    for (i = 0; i < ar->order; i++) sum += (double)(i + 1) * log(pu__ar_gap(ar->gamma[i]));
    *value = sum;
    return PU_OK;
}

PU__FN pu_status pu__ar_logdet_grad(const pu_op *op, pu_real weight, pu_real *grad, pu_real *work)
{
    const pu_ar *ar = (const pu_ar *)op->data;
    pu_int i;
    (void)work;
    for (i = 0; i < ar->order; i++)
        grad[i] -= (pu_real)((double)weight * 2 * (double)(i + 1) * (double)ar->gamma[i] / pu__ar_gap(ar->gamma[i]));
    grad[ar->order] -= (pu_real)((double)weight * (double)ar->n / (double)ar->kappa);
    return PU_OK;
}

/* n and order; then gamma (or phi: any finite number) and kappa, numbered as the parameters are */
PU__FN pu_status pu__ar_refuse(pu_int n, pu_int order, const pu_real *theta, int stationary, pu_real kappa,
                               pu_int *index)
{
    *index = -1;
    if (n < 1 || order < 0 || order > n || order > PU_AR_MAX) return PU_E_ARGUMENT;
    if (order > 0 && !theta) return PU_E_NULL;
    for (*index = 0; *index < order; ++*index) {
        const pu_real x = theta[*index];
        if (!pu__finite(x)) return PU_E_NONFINITE;
        if (stationary && !(x > -1 && x < 1)) return PU_E_ARGUMENT;
    }
    if (!pu__finite(kappa)) return PU_E_NONFINITE;
    if (!(kappa > 0)) return PU_E_NOT_POSITIVE;
    *index = -1;
    return PU_OK;
}

/* the parameters are what pu_ar_set accepts, and the rest of the struct belongs to them */
PU__FN pu_status pu__ar_check(const pu_op *op, pu_int *index)
{
    const pu_ar *ar = (const pu_ar *)op->data;
    const double tol = 100 * (double)PU__EPS;
    pu_status status = pu__ar_refuse(ar->n, ar->order, ar->gamma, 1, ar->kappa, index);
    pu_ar now;
    pu_int i;
    if (status) return status;
    if (ar->n != op->rows || ar->order + 1 != op->params) return PU_E_SIZE; /* another n or P since pu_op_ar */
    now = *ar;
    pu__ar_derive(&now);
    for (i = 0; i <= ar->order; i++) {
        const double x = (double)ar->band[ar->order + i], y = (double)now.band[ar->order + i];
        *index = i; /* the lag; a band depends on all parameters */
        if (!(fabs(x - y) <= tol * (double)now.band[ar->order])) return PU_E_ARGUMENT; /* stale */
    }
    *index = -1;
    return PU_OK;
}

PU_DEF pu_status pu_ar_set(pu_ar *ar, pu_int n, pu_int order, const pu_real *gamma, pu_real kappa, pu_int *index)
{
    pu_int at = -1;
    pu_status status = ar ? pu__ar_refuse(n, order, gamma, 1, kappa, &at) : PU_E_NULL;
    if (!status) {
        pu_ar now;
        memset(&now, 0, sizeof now);
        now.n = n, now.order = order, now.kappa = kappa;
        if (order > 0) memcpy(now.gamma, gamma, (size_t)order * sizeof *gamma);
        pu__ar_derive(&now);
        if (pu__finite(now.band[order])) *ar = now; /* the largest entry of Gamma */
        else status = PU_E_ARGUMENT, at = order;
    }
    if (index) *index = at;
    return status;
}

PU_DEF pu_status pu_ar_set_phi(pu_ar *ar, pu_int n, pu_int order, const pu_real *phi, pu_real kappa, pu_int *index)
{
    double now[PU_AR_MAX], old[PU_AR_MAX];
    pu_real gamma[PU_AR_MAX];
    pu_int at = -1, m, j;
    pu_status status = ar ? pu__ar_refuse(n, order, phi, 0, kappa, &at) : PU_E_NULL;
    for (j = 0; j < order && !status; j++) now[j] = (double)phi[j];
    /* gamma_m = phi^(m)_m,   phi^(m-1)_j = (phi^(m)_j + gamma_m phi^(m)_{m-j}) / (1 - gamma_m^2) */
    for (m = order; m > 0 && !status; m--) {
        const double g = now[m - 1], gap = (1 - g) * (1 + g);
        gamma[m - 1] = (pu_real)g;
        if (!(pu__ar_gap(gamma[m - 1]) > 0)) status = PU_E_ARGUMENT, at = m - 1;
        for (j = 1; j < m; j++) old[j - 1] = (now[j - 1] + g * now[m - j - 1]) / gap;
        for (j = 1; j < m; j++) now[j - 1] = old[j - 1];
    }
    if (!status) return pu_ar_set(ar, n, order, gamma, kappa, index);
    if (index) *index = at;
    return status;
}

/* The reverse pass from phi^(P) to gamma is linear: solved for its input. With b = the cotangent of phi^(m),
     gammabar_m = b_m - sum_{j < m} b_j phi^(m-1)_{m-j},   b^(m-1)_j = b_j - gamma_m b_{m-j}. */
PU_DEF void pu_ar_pull_phi(const pu_ar *ar, const pu_real *grad_gamma, pu_real *grad_phi)
{
    double a[PU__AR_TRIANGLE], s[PU_AR_MAX + 1], b[PU_AR_MAX], old[PU_AR_MAX];
    const pu_int P = ar->order;
    pu_int m, j;
    pu__ar_levinson(P, ar->gamma, a, s);
    for (m = 1; m <= P; m++) {
        const double g = (double)ar->gamma[m - 1], gap = pu__ar_gap(ar->gamma[m - 1]), *before = a + pu__ar_row(m - 1);
        double sum = (double)grad_gamma[m - 1];
        for (j = 1; j < m; j++) old[j - 1] = b[j - 1];
        for (j = 1; j < m; j++) b[j - 1] = (old[j - 1] + g * old[m - j - 1]) / gap;
        for (j = 1; j < m; j++) sum -= b[j - 1] * before[m - j]; /* phi = -a */
        b[m - 1] = sum;
    }
    for (j = 0; j < P; j++) grad_phi[j] = (pu_real)b[j];
}

PU_DEF pu_op pu_op_ar(const pu_ar *ar)
{
    pu_op op = pu__op_zero(0, 0, 0, ar); /* zero sizes: refused by whoever uses it */
    if (!ar || ar->n < 1 || ar->order < 0 || ar->order > PU_AR_MAX || ar->order > ar->n) return op;
    op.rows = op.cols = ar->n, op.params = ar->order + 1;
    op.form = PU_FORM_AR;
    op.apply = op.apply_t = pu__ar_apply, op.grad = pu__ar_grad, op.diag = pu__ar_diag, op.sample = pu__ar_sample;
    op.solve = pu__ar_solve, op.logdet = pu__ar_logdet, op.logdet_grad = pu__ar_logdet_grad, op.check = pu__ar_check;
    op.band = ar->order, op.band_add = pu__ar_band_add, op.band_grad = pu__ar_band_grad;
    op.flops = (double)ar->n * (double)(2 * ar->order + 1);
    return op;
}

/* ------------------------------------------------------------------------------------------------
   >>states   linear state space and its readout
   ------------------------------------------------------------------------------------------------ */

/* ---- state space: Gamma = B' blockdiag(P0^-1, Q^-1, .., Q^-1) B, (B x)_t = x_t - A x_{t-1} ----
   Kept as this product, not as blocks of Gamma: rounding then leaves it positive definite, and the gradient sees the
   small x_t - A x_{t-1} itself instead of differences of large moments. Blocks of S are too short for vector
   registers, so the loops run over time: PU__SSM_W steps at a time are turned into one row per state. Below, t counts
   from 0, and W_0 = P0^-1, W_t = Q^-1. */

#define PU__SSM_W 64                /* steps at a time, a multiple of PU__LANES */
#define PU__SSM_ROW (PU__SSM_W + 8) /* a row: those steps, the one before or after, and unused ones */
#define PU__SSM_TILE (PU_SSM_MAX * PU__SSM_ROW)
#define PU__SSM_SQUARE (PU_SSM_MAX * PU_SSM_MAX)

PU__FN const pu_ssm *pu__ssm(const pu_op *op) { return (const pu_ssm *)op->data; }

/* tile column l = x_{first + l}, l < n; zero where there is no such step */
PU__FN void pu__ssm_load(const pu_ssm *m, const pu_real *x, pu_int first, pu_int n, pu_real *tile)
{
    const pu_int S = m->states;
    const pu_int from = first < 0 ? -first : 0, to = pu__min(n, m->steps - first); /* columns that exist */
    pu_int i, l;
    for (i = 0; i < S; i++) {
        pu_real *row = tile + i * PU__SSM_ROW;
        for (l = 0; l < from; l++) row[l] = 0;
        for (l = from; l < to; l++) row[l] = x[(first + l) * S + i];
        for (l = to; l < n; l++) row[l] = 0;
    }
}

/* out = C in, or base - C in; C_ij = c[i row + j col], so that C' is as good as C. Four terms per pass over a row. */
PU__FN void pu__ssm_mix(pu_int S, const pu_real *c, pu_int row, pu_int col, const pu_real *in, const pu_real *base,
                        pu_real *out)
{
    pu_int i, j, l;
    for (i = 0; i < S; i++) {
        pu_real sum[PU__SSM_W] = {0};
        const pu_real *a = c + i * row, *x = in;
        for (j = 0; j + 4 <= S; j += 4, a += 4 * col, x += 4 * PU__SSM_ROW) {
            const pu_real a0 = a[0], a1 = a[col], a2 = a[2 * col], a3 = a[3 * col];
            for (l = 0; l < PU__SSM_W; l++)
                sum[l] += (a0 * x[l] + a1 * x[PU__SSM_ROW + l]) +
                          (a2 * x[2 * PU__SSM_ROW + l] + a3 * x[3 * PU__SSM_ROW + l]);
        }
        for (; j < S; j++, a += col, x += PU__SSM_ROW)
            for (l = 0; l < PU__SSM_W; l++) sum[l] += a[0] * x[l];
        for (l = 0; l < PU__SSM_W; l++) out[i * PU__SSM_ROW + l] = base ? base[i * PU__SSM_ROW + l] - sum[l] : sum[l];
    }
}

/* y = B' s (or y += B' s) with s_t = W_t (B x)_t, or, to sample, s_t = F_t x_t */
PU__FN void pu__ssm_pass(const pu_ssm *m, const pu_real *x, pu_real *y, int add, int sample)
{
    const pu_int S = m->states, T = m->steps;
    const pu_real *C = sample ? m->F : m->W, *C0 = sample ? m->F0 : m->W0;
    pu_real in[PU__SSM_TILE], mid[PU__SSM_TILE], s[PU__SSM_TILE];
    pu_int first, i, j, l;
    for (first = 0; first < T; first += PU__SSM_W - 1) { /* y_t needs s_{t+1}: one column less comes out than goes in */
        const pu_int n = pu__min(PU__SSM_W - 1, T - first);
        pu__ssm_load(m, x, first - 1, PU__SSM_W + 1, in); /* column 0: the step before */
        if (sample) pu__ssm_mix(S, C, S, 1, in + 1, NULL, s);
        else {
            pu__ssm_mix(S, m->A, S, 1, in, in + 1, mid); /* x_t - A x_{t-1} */
            pu__ssm_mix(S, C, S, 1, mid, NULL, s);
        }
        for (i = 0; i < S && first == 0; i++) {
            pu_real sum = 0;
            for (j = 0; j < S; j++) sum += C0[i * S + j] * x[j]; /* there is no step before */
            s[i * PU__SSM_ROW] = sum;
        }
        for (i = 0; i < S; i++) /* nor one after the last */
            for (l = n; l <= PU__SSM_W; l++)
                if (l == PU__SSM_W || first + l >= T) s[i * PU__SSM_ROW + l] = 0;
        pu__ssm_mix(S, m->A, 1, S, s + 1, s, mid); /* s_t - A's_{t+1} */
        for (i = 0; i < S; i++) {
            const pu_real *row = mid + i * PU__SSM_ROW;
            pu_real *out = y + first * S + i;
            if (add) for (l = 0; l < n; l++) out[l * S] += row[l];
            else for (l = 0; l < n; l++) out[l * S] = row[l];
        }
    }
}

PU__FN pu_status pu__ssm_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    pu_int j;
    (void)work;
    for (j = 0; j < k; j++) pu__ssm_pass(pu__ssm(op), pu__col(X, j), pu__col(Y, j), add, 0);
    return PU_OK;
}

PU__FN pu_status pu__ssm_sample(const pu_op *op, pu_int k, pu_block E, pu_block Y, pu_real *work)
{
    pu_int j;
    (void)work;
    for (j = 0; j < k; j++) pu__ssm_pass(pu__ssm(op), pu__col(E, j), pu__col(Y, j), 0, 1);
    return PU_OK;
}

/* Gamma^-1 x: u_t = x_t + A'u_{t+1} back in time, then y_t = A y_{t-1} + (P0 or Q) u_t */
PU__FN pu_status pu__ssm_solve(const pu_op *op, pu_int k, pu_block X, pu_block Y, pu_real *work)
{
    const pu_ssm *m = pu__ssm(op);
    const pu_int S = m->states, T = m->steps;
    pu_int t, i, j, c;
    (void)work;
    for (c = 0; c < k; c++) {
        pu_real *y = pu__col(Y, c), u[PU_SSM_MAX];
        pu__copy(y, pu__col(X, c), S * T);
        for (t = T - 2; t >= 0; t--)
            for (j = 0; j < S; j++) pu__axpy(S, y[(t + 1) * S + j], m->A + j * S, y + t * S);
        for (t = 0; t < T; t++) {
            pu__copy(u, y + t * S, S);
            for (i = 0; i < S; i++) {
                double sum = 0;
                for (j = 0; j < S; j++)
                    sum += t ? (double)m->Q[i * S + j] * (double)u[j] + (double)m->A[i * S + j] * (double)y[(t - 1) * S + j]
                             : m->P0[i * S + j] * (double)u[j];
                y[t * S + i] = (pu_real)sum;
            }
        }
    }
    return PU_OK;
}

/* W_t + A'Q^-1 A, without the second term at the last step */
PU__FN pu_status pu__ssm_diag(const pu_op *op, pu_real *y, pu_real *work)
{
    const pu_ssm *m = pu__ssm(op);
    const pu_int S = m->states, T = m->steps;
    pu_int i, j, l, t;
    (void)work;
    for (i = 0; i < S; i++) {
        double next = 0;
        for (j = 0; j < S; j++)
            for (l = 0; l < S; l++) next += (double)m->A[j * S + i] * m->Qi[j * S + l] * (double)m->A[l * S + i];
        for (t = 0; t < T; t++) {
            double own = t ? m->Qi[i * S + i] : m->Pi[i * S + i];
            y[t * S + i] += (pu_real)(t + 1 < T ? own + next : own);
        }
    }
    return PU_OK;
}

/* c = a b of S x S matrices; ta, tb: transposed */
PU__FN void pu__ssm_mul(pu_int S, const double *a, int ta, const double *b, int tb, double *c)
{
    pu_int i, j, l;
    for (i = 0; i < S; i++)
        for (j = 0; j < S; j++) {
            double s = 0;
            for (l = 0; l < S; l++) s += (ta ? a[l * S + i] : a[i * S + l]) * (tb ? b[j * S + l] : b[l * S + j]);
            c[i * S + j] = s;
        }
}

PU__FN void pu__ssm_widen(pu_int n, const pu_real *x, double *out)
{
    pu_int i;
    for (i = 0; i < n; i++) out[i] = (double)x[i];
}

/* X := sum_i A^i X A'^i, i.e. the solution of X = A X A' + X_0, by doubling: X += M X M', M := M M, M = A at first.
   doublings > 0: so many, for an X of any sign. 0: X is positive definite, until its diagonal (which bounds the rest)
   has not moved twice running. Returns how many, or -1 when A is not stable. */
PU__FN int pu__ssm_lyapunov(pu_int S, const pu_real *A, int transposed, int doublings, double *X)
{
    double M[PU__SSM_SQUARE], N[PU__SSM_SQUARE], MX[PU__SSM_SQUARE];
    int step, quiet = 0;
    pu_int i, j;
    for (i = 0; i < S; i++)
        for (j = 0; j < S; j++) M[i * S + j] = (double)(transposed ? A[j * S + i] : A[i * S + j]);
    for (step = 1; step <= (doublings ? doublings : 64); step++) { /* a radius of 1 - 1e-16 needs about 59 */
        int moved = 0;
        pu__ssm_mul(S, M, 0, X, 0, MX);
        pu__ssm_mul(S, MX, 0, M, 1, N);
        for (i = 0; i < S * S; i++) X[i] += N[i];
        for (i = 0; i < S; i++) {
            if (!doublings && !pu__finite_double(X[i * S + i])) return -1;
            if (!(N[i * S + i] <= 1e-16 * X[i * S + i])) moved = 1;
        }
        quiet = moved ? 0 : quiet + 1;
        if (!doublings && quiet == 2) return step;
        pu__ssm_mul(S, M, 0, M, 0, N);
        memcpy(M, N, (size_t)(S * S) * sizeof *M);
    }
    return doublings ? doublings : -1;
}

/* From d/dA, d/dQ, d/dP0 with the three held apart (symmetric; dQ is spoilt) to grad +=. For the stationary start
   dP = A dP A' + (dA P A' + A P dA' + dQ), so with Lambda = A'Lambda A + d/dP0:
   d/dA += 2 Lambda A P0, d/dQ += Lambda. */
PU__FN void pu__ssm_push(const pu_ssm *m, const double *dA, double *dQ, const double *dP, pu_real *grad)
{
    const pu_int S = m->states, SS = S * S;
    double Lambda[PU__SSM_SQUARE], A[PU__SSM_SQUARE] = {0}, AP[PU__SSM_SQUARE], way[PU__SSM_SQUARE];
    pu_int i;
    if (m->start == PU_SSM_STATIONARY) {
        memcpy(Lambda, dP, (size_t)SS * sizeof *Lambda);
        pu__ssm_lyapunov(S, m->A, 1, m->doublings, Lambda);
        pu__ssm_widen(SS, m->A, A);
        pu__ssm_mul(S, A, 0, m->P0, 0, AP);
        pu__ssm_mul(S, Lambda, 0, AP, 0, way);
        for (i = 0; i < SS; i++) grad[i] += (pu_real)(dA[i] + 2 * way[i]), dQ[i] += Lambda[i];
    } else {
        for (i = 0; i < SS; i++) grad[i] += (pu_real)dA[i];
        if (m->start == PU_SSM_ZERO) for (i = 0; i < SS; i++) dQ[i] += dP[i];
        else for (i = 0; i < SS; i++) grad[2 * SS + i] += (pu_real)dP[i];
    }
    for (i = 0; i < SS; i++) grad[SS + i] += (pu_real)dQ[i];
}

/* out = -V (G + G')/2 V: from the gradient for a precision to that for its covariance, V the precision */
PU__FN void pu__ssm_to_covariance(pu_int S, const double *V, const double *G, double *out)
{
    double VG[PU__SSM_SQUARE], sum[PU__SSM_SQUARE];
    pu_int i, j;
    pu__ssm_mul(S, V, 0, G, 0, VG);
    pu__ssm_mul(S, VG, 0, V, 0, sum);
    for (i = 0; i < S; i++)
        for (j = 0; j < S; j++) out[i * S + j] = -(sum[i * S + j] + sum[j * S + i]) / 2;
}

/* p'Gamma q = p_0'W_0 q_0 + sum_{t>0} u_t'W v_t, u = B p, v = B q, so
   d/dW_0 = p_0 q_0', d/dW = sum u_t v_t', d/dA = -W sum (v_t p_{t-1}' + u_t q_{t-1}') */
PU__FN pu_status pu__ssm_grad(const pu_op *op, pu_int k, pu_block P, pu_block Q, const pu_real *weight, pu_real *grad,
                              pu_real *work)
{
    const pu_ssm *m = pu__ssm(op);
    const pu_int S = m->states, T = m->steps;
    double uv[PU__SSM_SQUARE] = {0}, lag[PU__SSM_SQUARE] = {0}, pq[PU__SSM_SQUARE] = {0};
    double dA[PU__SSM_SQUARE], dQ[PU__SSM_SQUARE], dP[PU__SSM_SQUARE];
    pu_real p[PU__SSM_TILE], q[PU__SSM_TILE], u[PU__SSM_TILE], v[PU__SSM_TILE];
    pu_int first, a, b, j;
    (void)work;
    for (j = 0; j < k; j++) {
        const double w = (double)weight[j];
        if (weight[j] == 0) continue;
        for (a = 0; a < S; a++)
            for (b = 0; b < S; b++) pq[a * S + b] += w * (double)pu__col(P, j)[a] * (double)pu__col(Q, j)[b];
        for (first = 1; first < T; first += PU__SSM_W) {
            const pu_int n = pu__min(PU__SSM_W, T - first);
            pu__ssm_load(m, pu__col(P, j), first - 1, PU__SSM_W + 1, p); /* column 0: the step before */
            pu__ssm_load(m, pu__col(Q, j), first - 1, PU__SSM_W + 1, q);
            pu__ssm_mix(S, m->A, S, 1, p, p + 1, u);
            pu__ssm_mix(S, m->A, S, 1, q, q + 1, v);
            for (a = 0; a < S; a++)
                for (b = 0; b < S; b++) {
                    const pu_real *ua = u + a * PU__SSM_ROW, *va = v + a * PU__SSM_ROW, *vb = v + b * PU__SSM_ROW;
                    uv[a * S + b] += w * (double)pu__dot_chunk(n, NULL, ua, vb);
                    lag[a * S + b] += w * ((double)pu__dot_chunk(n, NULL, va, p + b * PU__SSM_ROW) +
                                           (double)pu__dot_chunk(n, NULL, ua, q + b * PU__SSM_ROW));
                }
        }
    }
    pu__ssm_mul(S, m->Qi, 0, lag, 0, dA);
    for (a = 0; a < S * S; a++) dA[a] = -dA[a];
    pu__ssm_to_covariance(S, m->Qi, uv, dQ);
    pu__ssm_to_covariance(S, m->Pi, pq, dP);
    pu__ssm_push(m, dA, dQ, dP, grad);
    return PU_OK;
}

/* blocks (t, t): W_t + A'W A (the last: W alone), (t, t-1): -W A */
PU__FN pu_status pu__ssm_band_add(const pu_op *op, pu_int width, double *B)
{
    const pu_ssm *m = pu__ssm(op);
    const pu_int S = m->states, T = m->steps, w = width + 1;
    double A[PU__SSM_SQUARE], WA[PU__SSM_SQUARE], AWA[PU__SSM_SQUARE];
    pu_int t, i, j;
    pu__ssm_widen(S * S, m->A, A);
    pu__ssm_mul(S, m->Qi, 0, A, 0, WA);
    pu__ssm_mul(S, A, 1, WA, 0, AWA);
    for (t = 0; t < T; t++)
        for (i = 0; i < S; i++) {
            double *row = B + (t * S + i) * w;
            for (j = 0; j <= i; j++)
                row[i - j] += (t > 0 ? m->Qi[i * S + j] : m->Pi[i * S + j]) + (t + 1 < T ? AWA[i * S + j] : 0);
            for (j = 0; j < S && t > 0; j++) row[S + i - j] -= WA[i * S + j];
        }
    return PU_OK;
}

/* tr(Gamma S) = tr(W_0 S_00) + sum_{t>0} tr(W [S_tt - A S_{t-1,t} - S_{t,t-1} A' + A S_{t-1,t-1} A']) */
PU__FN pu_status pu__ssm_band_grad(const pu_op *op, pu_int width, const double *S_, double weight, pu_real *grad)
{
    const pu_ssm *m = pu__ssm(op);
    const pu_int S = m->states, T = m->steps, w = width + 1;
    double now[PU__SSM_SQUARE] = {0}, lag[PU__SSM_SQUARE] = {0}, before[PU__SSM_SQUARE] = {0}, start[PU__SSM_SQUARE];
    double A[PU__SSM_SQUARE], AS[PU__SSM_SQUARE], ASA[PU__SSM_SQUARE], AL[PU__SSM_SQUARE], dA[PU__SSM_SQUARE];
    double dQ[PU__SSM_SQUARE], dP[PU__SSM_SQUARE];
    pu_int t, i, j;
    for (t = 0; t < T; t++) /* sums of S_tt (t > 0), S_{t,t-1}, S_{t-1,t-1} */
        for (i = 0; i < S; i++)
            for (j = 0; j < S; j++) {
                const double tt = S_[(t * S + (i > j ? i : j)) * w + (i > j ? i - j : j - i)];
                if (t == 0) start[i * S + j] = weight * tt;
                else now[i * S + j] += weight * tt, lag[i * S + j] += weight * S_[(t * S + i) * w + S + i - j];
                if (t + 1 < T) before[i * S + j] += weight * tt;
            }
    pu__ssm_widen(S * S, m->A, A);
    pu__ssm_mul(S, A, 0, before, 0, AS);
    pu__ssm_mul(S, AS, 0, A, 1, ASA);
    pu__ssm_mul(S, A, 0, lag, 1, AL);
    for (i = 0; i < S; i++)
        for (j = 0; j < S; j++) now[i * S + j] += ASA[i * S + j] - AL[i * S + j] - AL[j * S + i];
    for (i = 0; i < S * S; i++) AS[i] = 2 * (AS[i] - lag[i]);
    pu__ssm_mul(S, m->Qi, 0, AS, 0, dA);
    pu__ssm_to_covariance(S, m->Qi, now, dQ);
    pu__ssm_to_covariance(S, m->Pi, start, dP);
    pu__ssm_push(m, dA, dQ, dP, grad);
    return PU_OK;
}

/* -log det P0 - (T-1) log det Q; det B = 1 */
PU__FN pu_status pu__ssm_logdet(const pu_op *op, double *value, pu_real *work)
{
    (void)work;
    *value = pu__ssm(op)->logdet;
    return PU_OK;
}

PU__FN pu_status pu__ssm_logdet_grad(const pu_op *op, pu_real weight, pu_real *grad, pu_real *work)
{
    const pu_ssm *m = pu__ssm(op);
    double dA[PU__SSM_SQUARE] = {0}, dQ[PU__SSM_SQUARE], dP[PU__SSM_SQUARE];
    pu_int i;
    (void)work;
    for (i = 0; i < m->states * m->states; i++) {
        dQ[i] = -(double)weight * (double)(m->steps - 1) * m->Qi[i];
        dP[i] = -(double)weight * m->Pi[i];
    }
    pu__ssm_push(m, dA, dQ, dP, grad);
    return PU_OK;
}

/* A hash of what was set. */
PU__FN uint64_t pu__ssm_print(const pu_ssm *m)
{
    const pu_int sizes[3] = {m->steps, m->states, (pu_int)m->start};
    const size_t n = (size_t)(m->states * m->states);
    uint64_t h = pu__fnv(PU__FNV, sizes, sizeof sizes);
    h = pu__fnv(h, m->A, n * sizeof m->A[0]);
    h = pu__fnv(h, m->Q, n * sizeof m->Q[0]);
    return pu__fnv(h, m->P0, n * sizeof m->P0[0]);
}

/* finite, and what pu_ssm_set saw (definiteness and stability were its business) */
PU__FN pu_status pu__ssm_check(const pu_op *op, pu_int *index)
{
    const pu_ssm *m = pu__ssm(op);
    const pu_int S = m->states, SS = S * S;
    pu_int i;
    *index = -1;
    if (S < 1 || S > PU_SSM_MAX || op->rows != S * m->steps) return PU_E_ARGUMENT; /* set for another size since */
    for (i = 0; i < SS && *index < 0; i++)
        if (!pu__finite(m->A[i])) *index = i;
    for (i = 0; i < SS && *index < 0; i++)
        if (!pu__finite(m->Q[i])) *index = SS + i;
    for (i = 0; i < SS && *index < 0; i++)
        if (!pu__finite_double(m->P0[i])) *index = op->params > 2 * SS ? 2 * SS + i : 0; /* else A's and Q's doing */
    if (*index >= 0) return PU_E_NONFINITE;
    return m->print == pu__ssm_print(m) ? PU_OK : PU_E_ARGUMENT; /* changed without pu_ssm_set */
}

/* V = C^-1 and F F' = V with F = L'^-1, L L' = C (lower triangle); adds log det C. Returns the failing row, or -1 */
PU__FN pu_int pu__ssm_invert(pu_int S, const double *C, double *V, pu_real *narrow, pu_real *F, double *logdet)
{
    double L[PU__SSM_SQUARE] = {0}, R[PU__SSM_SQUARE] = {0}; /* R = L^-1 */
    pu_int i, j, l;
    for (i = 0; i < S; i++)
        for (j = 0; j <= i; j++) {
            double s = C[i * S + j];
            for (l = 0; l < j; l++) s -= L[i * S + l] * L[j * S + l];
            if (j < i) L[i * S + j] = s / L[j * S + j];
            else if (s > 0 && pu__finite_double(s)) L[i * S + i] = sqrt(s), *logdet += log(s);
            else return i;
        }
    for (j = 0; j < S; j++)
        for (i = j; i < S; i++) {
            double s = i == j;
            for (l = j; l < i; l++) s -= L[i * S + l] * R[l * S + j];
            R[i * S + j] = s / L[i * S + i];
        }
    pu__ssm_mul(S, R, 1, R, 0, V);
    for (i = 0; i < S; i++)
        for (j = 0; j < S; j++) {
            narrow[i * S + j] = (pu_real)V[i * S + j], F[i * S + j] = (pu_real)R[j * S + i];
            if (!pu__finite(narrow[i * S + j])) return i; /* singular as far as this precision can tell */
        }
    return -1;
}

/* (C + C')/2 of a matrix that is symmetric to rounding */
PU__FN void pu__ssm_symmetric(pu_int S, const pu_real *C, double *out)
{
    pu_int i, j;
    for (i = 0; i < S; i++)
        for (j = 0; j < S; j++) out[i * S + j] = ((double)C[i * S + j] + (double)C[j * S + i]) / 2;
}

/* pu_ssm_set after the tests of its arguments */
PU__FN pu_status pu__ssm_fill(pu_ssm *m, const pu_real *A, const pu_real *Q, const pu_real *P0, pu_int *at)
{
    const pu_int S = m->states, SS = S * S;
    const size_t bytes = (size_t)SS * sizeof(pu_real);
    double wide[PU__SSM_SQUARE], logdet_Q = 0, logdet_P = 0;
    pu_op op = pu_op_spd(S, Q, NULL);
    pu_int i;
    pu_status status = pu__check_finite(SS, A, at);
    if (status) return status;
    status = pu__spd_check(&op, at);
    if (status) return *at += SS, status;
    memcpy(m->A, A, bytes), memcpy(m->Q, Q, bytes);
    pu__ssm_symmetric(S, Q, wide);
    *at = pu__ssm_invert(S, wide, m->Qi, m->W, m->F, &logdet_Q);
    if (*at >= 0) return *at = SS + *at * (S + 1), PU_E_NOT_DEFINITE;
    if (m->start == PU_SSM_GIVEN) {
        op = pu_op_spd(S, P0, NULL);
        status = pu__spd_check(&op, at);
        if (status) return *at += 2 * SS, status;
        pu__ssm_symmetric(S, P0, wide);
    } else if (m->start == PU_SSM_STATIONARY) {
        m->doublings = pu__ssm_lyapunov(S, A, 0, 0, wide);
        if (m->doublings < 0) return *at = 0, PU_E_NOT_DEFINITE;
    }
    for (i = 0; i < SS; i++) m->P0[i] = (wide[i] + wide[i % S * S + i / S]) / 2;
    *at = pu__ssm_invert(S, m->P0, m->Pi, m->W0, m->F0, &logdet_P);
    if (*at >= 0) return *at = m->start == PU_SSM_GIVEN ? 2 * SS + *at * (S + 1) : 0, PU_E_NOT_DEFINITE;
    m->logdet = -logdet_P - (double)(m->steps - 1) * logdet_Q;
    m->print = pu__ssm_print(m);
    return PU_OK;
}

PU_DEF pu_status pu_ssm_set(pu_ssm *m, pu_int steps, pu_int states, const pu_real *A, const pu_real *Q,
                            pu_ssm_start start, const pu_real *P0, pu_int *index)
{
    pu_int at = -1;
    pu_status status = PU_OK;
    if (index) *index = -1;
    if (!m) return PU_E_NULL;
    memset(m, 0, sizeof *m); /* no size until all is well */
    if (!A || !Q || (start == PU_SSM_GIVEN && !P0)) return PU_E_NULL;
    if (steps < 1 || states < 1 || states > PU_SSM_MAX) return PU_E_ARGUMENT;
    if (start != PU_SSM_ZERO && start != PU_SSM_STATIONARY && start != PU_SSM_GIVEN) return PU_E_ARGUMENT;
    if (start != PU_SSM_GIVEN && P0) return PU_E_ARGUMENT;
    if (steps > PTRDIFF_MAX / (pu_int)sizeof(pu_real) / states) return PU_E_OVERFLOW;
    m->steps = steps, m->states = states, m->start = start;
    status = pu__ssm_fill(m, A, Q, P0, &at);
    if (status) memset(m, 0, sizeof *m);
    if (index) *index = at;
    return status;
}

PU_DEF pu_op pu_op_ssm(const pu_ssm *m)
{
    pu_op op;
    if (!m || m->steps < 1) return pu__op_zero(0, 0, 0, NULL); /* refused by whoever uses it */
    op = pu__op_zero(m->steps * m->states, m->steps * m->states, 0, m);
    op.params = (m->start == PU_SSM_GIVEN ? 3 : 2) * m->states * m->states;
    op.form = PU_FORM_STATES;
    op.apply = op.apply_t = pu__ssm_apply, op.grad = pu__ssm_grad, op.diag = pu__ssm_diag, op.sample = pu__ssm_sample;
    op.solve = pu__ssm_solve, op.logdet = pu__ssm_logdet, op.logdet_grad = pu__ssm_logdet_grad, op.check = pu__ssm_check;
    op.band = m->steps > 1 ? 2 * m->states - 1 : m->states - 1;
    op.band_add = pu__ssm_band_add, op.band_grad = pu__ssm_band_grad;
    op.flops = 3 * (double)(m->states * m->states) * (double)m->steps;
    return op;
}

/* nu_0 = m0, nu_t = A nu_{t-1} */
PU_DEF pu_status pu_ssm_mean(const pu_ssm *m, const pu_real *m0, pu_real *nu)
{
    pu_int t, i;
    if (!m || !m0 || !nu) return PU_E_NULL;
    if (m->steps < 1) return PU_E_ARGUMENT;
    for (i = 0; i < m->states; i++) nu[i] = m0[i];
    for (t = 1; t < m->steps; t++)
        for (i = 0; i < m->states; i++)
            nu[t * m->states + i] =
                (pu_real)pu__dot(m->states, NULL, m->A + i * m->states, nu + (t - 1) * m->states);
    return PU_OK;
}

/* lambda_{T-1} = g_{T-1}, lambda_t = g_t + A'lambda_{t+1}; d/dA = sum_{t>0} lambda_t nu_{t-1}', d/dm0 = lambda_0 */
PU_DEF pu_status pu_ssm_mean_grad(const pu_ssm *m, const pu_real *nu, const pu_real *grad_nu, pu_real *grad_A,
                                  pu_real *grad_m0)
{
    double lambda[PU_SSM_MAX] = {0}, next[PU_SSM_MAX], dA[PU__SSM_SQUARE] = {0};
    pu_int t, i, j, S;
    if (!m || !nu || !grad_nu) return PU_E_NULL;
    if (m->steps < 1) return PU_E_ARGUMENT;
    S = m->states;
    for (t = m->steps - 1; t >= 0; t--) {
        for (i = 0; i < S; i++) {
            next[i] = (double)grad_nu[t * S + i];
            for (j = 0; j < S; j++) next[i] += (double)m->A[j * S + i] * lambda[j];
        }
        for (i = 0; i < S; i++) {
            lambda[i] = next[i];
            for (j = 0; j < S && t > 0; j++) dA[i * S + j] += lambda[i] * (double)nu[(t - 1) * S + j];
        }
    }
    for (i = 0; i < S * S && grad_A; i++) grad_A[i] += (pu_real)dA[i];
    for (i = 0; i < S && grad_m0; i++) grad_m0[i] += (pu_real)lambda[i];
    return PU_OK;
}

/* ---- readout: Phi = I (x) c', data = c, S = params ---- */

PU__FN pu_status pu__readout_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    const pu_real *c = (const pu_real *)op->data;
    const pu_int S = op->params;
    pu_int t, i, j;
    (void)work;
    for (j = 0; j < k; j++) {
        const pu_real *x = pu__col(X, j);
        pu_real *y = pu__col(Y, j);
        for (t = 0; t < op->rows; t++) {
            pu_real s = 0;
            if (S < PU__LANES) for (i = 0; i < S; i++) s += c[i] * x[t * S + i]; /* not worth a call */
            else s = (pu_real)pu__dot(S, NULL, c, x + t * S);
            y[t] = add ? y[t] + s : s;
        }
    }
    return PU_OK;
}

PU__FN pu_status pu__readout_apply_t(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    const pu_real *c = (const pu_real *)op->data;
    const pu_int S = op->params;
    pu_int t, i, j;
    (void)work;
    for (j = 0; j < k; j++) {
        const pu_real *x = pu__col(X, j);
        pu_real *y = pu__col(Y, j);
        for (t = 0; t < op->rows; t++) {
            const pu_real a = x[t];
            if (add) for (i = 0; i < S; i++) y[t * S + i] += a * c[i];
            else for (i = 0; i < S; i++) y[t * S + i] = a * c[i];
        }
    }
    return PU_OK;
}

/* d/dc_i = sum_t p_t q_{t,i}: 16 states at a time, PU__SSM_W steps of one state gathered for a dot */
PU__FN pu_status pu__readout_grad(const pu_op *op, pu_int k, pu_block P, pu_block Q, const pu_real *weight,
                                  pu_real *grad, pu_real *work)
{
    const pu_int S = op->params;
    pu_int from, first, i, j, l;
    (void)work;
    for (j = 0; j < k; j++)
        for (from = 0; from < S; from += PU__LANES) {
            const pu_int width = pu__min(PU__LANES, S - from);
            double sum[PU__LANES] = {0};
            for (first = 0; first < op->rows; first += PU__SSM_W) {
                const pu_int n = pu__min(PU__SSM_W, op->rows - first);
                for (i = 0; i < width; i++) {
                    const pu_real *q = pu__col(Q, j) + first * S + from + i;
                    pu_real row[PU__SSM_W];
                    for (l = 0; l < n; l++) row[l] = q[l * S];
                    sum[i] += (double)pu__dot_chunk(n, NULL, pu__col(P, j) + first, row);
                }
            }
            for (i = 0; i < width; i++) grad[from + i] += (pu_real)((double)weight[j] * sum[i]);
        }
    return PU_OK;
}

PU__FN pu_status pu__readout_gram_diag(const pu_op *op, const pu_real *w, pu_real *y, pu_real *work)
{
    const pu_real *c = (const pu_real *)op->data;
    const pu_int S = op->params;
    pu_int t, i;
    (void)work;
    for (t = 0; t < op->rows; t++)
        for (i = 0; i < S; i++) y[t * S + i] += w[t] * (c[i] * c[i]);
    return PU_OK;
}

PU__FN pu_int pu__readout_row(const pu_op *op, pu_int m, pu_int *first, pu_real *value)
{
    *first = m * op->params;
    memcpy(value, op->data, (size_t)op->params * sizeof *value);
    return op->params;
}

PU__FN pu_status pu__readout_row_grad(const pu_op *op, pu_int m, const double *g, pu_real *grad)
{
    pu_int i;
    (void)m;
    for (i = 0; i < op->params; i++) grad[i] += (pu_real)g[i];
    return PU_OK;
}

PU_DEF pu_op pu_op_readout(pu_int steps, pu_int states, const pu_real *c)
{
    int overflow = 0;
    size_t cols = steps > 0 && states > 0 ? pu__mul((size_t)steps, (size_t)states, &overflow) : 0;
    pu_op op = pu__op_zero(steps, (pu_int)cols, overflow ? PU_NONE : states, c); /* PU_NONE: refused as overflow */
    op.apply = pu__readout_apply, op.apply_t = pu__readout_apply_t, op.grad = pu__readout_grad;
    op.gram_diag = pu__readout_gram_diag, op.check = pu__dense_check; /* its params are the numbers in data */
    op.band = states - 1, op.row = pu__readout_row, op.row_grad = pu__readout_row_grad, op.flops = (double)cols;
    op.trusted = 1;
    return op;
}

/* ------------------------------------------------------------------------------------------------
   >>fft   transforms of any length
   ------------------------------------------------------------------------------------------------ */

/* ---- Fourier: our own transform, then Phi = [Re F; Im F] for real images ----------------------------------
   Stockham's form: x, of length r m s, is read as x[c + s (p + m l)] and becomes, for j = 0 .. r-1,
       y[c + s (r p + j)] = e^(-2 pi i p j / (r m)) sum_l e^(-2 pi i j l / r) x[c + s (p + m l)],
   after which s is r times as large; no bit reversal. Every index stands for `lanes` neighbouring numbers (columns of
   an image, or rows after a transposition), so that the innermost loop runs over at least `lanes` contiguous reals with
   the same factors. Real and imaginary parts are kept apart: the loops then hold no shuffles, and the inverse is the
   forward transform with re and im exchanged. */

#define PU__FFT_LANES (64 / (int)sizeof(pu_real)) /* transforms side by side: a cache line */
#define PU__FFT_PRIME 64 /* larger prime factors: O(r^2) would lose against Bluestein's convolution */
#define PU__FFT_CHUNK 8  /* lanes per pass of the general odd radix */

/* e^(-2 pi i k / n), 0 <= k < n: the angle is brought into [0, pi/4] in integers, where sin and cos are accurate */
PU__FN void pu__fft_root(pu_int k, pu_int n, pu_real *re, pu_real *im)
{
    pu_int t = 8 * k; /* in units of 2 pi / (8 n) */
    int below = 1, left = 0, swap = 0;
    double angle, c, s;
    if (t > 4 * n) t = 8 * n - t, below = 0;
    if (t > 2 * n) t = 4 * n - t, left = 1;
    if (t > n) t = 2 * n - t, swap = 1;
    angle = 0.78539816339744830962 * (double)t / (double)n;
    c = swap ? sin(angle) : cos(angle), s = swap ? cos(angle) : sin(angle);
    *re = (pu_real)(left ? -c : c), *im = (pu_real)(below ? -s : s);
}

/* The sums of one pass for `count` neighbours. Inputs lie dx apart, outputs dy; w: r - 1 factors as (re, im) pairs. */

PU__FN void pu__fft_2(pu_int count, const pu_real *PU__RESTRICT x0r, const pu_real *PU__RESTRICT x0i, pu_int dx,
                      pu_real *PU__RESTRICT y0r, pu_real *PU__RESTRICT y0i, pu_real *PU__RESTRICT y1r,
                      pu_real *PU__RESTRICT y1i, const pu_real *w)
{
    const pu_real *x1r = x0r + dx, *x1i = x0i + dx, wr = w[0], wi = w[1];
    pu_int q;
    for (q = 0; q < count; q++) {
        pu_real ar = x0r[q], ai = x0i[q], br = x1r[q], bi = x1i[q], dr = ar - br, di = ai - bi;
        y0r[q] = ar + br, y0i[q] = ai + bi;
        y1r[q] = dr * wr - di * wi, y1i[q] = dr * wi + di * wr;
    }
}

PU__FN void pu__fft_3(pu_int count, const pu_real *PU__RESTRICT x0r, const pu_real *PU__RESTRICT x0i, pu_int dx,
                      pu_real *PU__RESTRICT y0r, pu_real *PU__RESTRICT y0i, pu_real *PU__RESTRICT y1r,
                      pu_real *PU__RESTRICT y1i, pu_real *PU__RESTRICT y2r, pu_real *PU__RESTRICT y2i, const pu_real *w)
{
    const pu_real *x1r = x0r + dx, *x1i = x0i + dx, *x2r = x1r + dx, *x2i = x1i + dx;
    const pu_real w1r = w[0], w1i = w[1], w2r = w[2], w2i = w[3], h = PU_R(0.5), k = PU_R(0.86602540378443864676);
    pu_int q;
    for (q = 0; q < count; q++) {
        pu_real tr = x1r[q] + x2r[q], ti = x1i[q] + x2i[q];
        pu_real dr = k * (x1i[q] - x2i[q]), di = k * (x2r[q] - x1r[q]); /* -i k (x1 - x2) */
        pu_real mr = x0r[q] - h * tr, mi = x0i[q] - h * ti;
        pu_real ar = mr + dr, ai = mi + di, br = mr - dr, bi = mi - di;
        y0r[q] = x0r[q] + tr, y0i[q] = x0i[q] + ti;
        y1r[q] = ar * w1r - ai * w1i, y1i[q] = ar * w1i + ai * w1r;
        y2r[q] = br * w2r - bi * w2i, y2i[q] = br * w2i + bi * w2r;
    }
}

PU__FN void pu__fft_4(pu_int count, const pu_real *PU__RESTRICT x0r, const pu_real *PU__RESTRICT x0i, pu_int dx,
                      pu_real *PU__RESTRICT y0r, pu_real *PU__RESTRICT y0i, pu_real *PU__RESTRICT y1r,
                      pu_real *PU__RESTRICT y1i, pu_real *PU__RESTRICT y2r, pu_real *PU__RESTRICT y2i,
                      pu_real *PU__RESTRICT y3r, pu_real *PU__RESTRICT y3i, const pu_real *w)
{
    const pu_real *x1r = x0r + dx, *x1i = x0i + dx, *x2r = x1r + dx, *x2i = x1i + dx, *x3r = x2r + dx, *x3i = x2i + dx;
    const pu_real w1r = w[0], w1i = w[1], w2r = w[2], w2i = w[3], w3r = w[4], w3i = w[5];
    pu_int q;
    for (q = 0; q < count; q++) {
        pu_real ar = x0r[q] + x2r[q], ai = x0i[q] + x2i[q], br = x0r[q] - x2r[q], bi = x0i[q] - x2i[q];
        pu_real cr = x1r[q] + x3r[q], ci = x1i[q] + x3i[q], dr = x1i[q] - x3i[q], di = x3r[q] - x1r[q];
        pu_real er = br + dr, ei = bi + di, fr = ar - cr, fi = ai - ci, gr = br - dr, gi = bi - di;
        y0r[q] = ar + cr, y0i[q] = ai + ci;
        y1r[q] = er * w1r - ei * w1i, y1i[q] = er * w1i + ei * w1r;
        y2r[q] = fr * w2r - fi * w2i, y2i[q] = fr * w2i + fi * w2r;
        y3r[q] = gr * w3r - gi * w3i, y3i[q] = gr * w3i + gi * w3r;
    }
}

/* With c_k, s_k = cos, sin of 2 pi k / 5:  y_1, y_4 = (x0 + c1 t + c2 u) -+ i (s1 d + s2 e),
   y_2, y_3 = (x0 + c2 t + c1 u) -+ i (s2 d - s1 e),  t, d = x1 +- x4,  u, e = x2 +- x3. */
PU__FN void pu__fft_5(pu_int count, const pu_real *PU__RESTRICT x0r, const pu_real *PU__RESTRICT x0i, pu_int dx,
                      pu_real *PU__RESTRICT y0r, pu_real *PU__RESTRICT y0i, pu_real *PU__RESTRICT y1r,
                      pu_real *PU__RESTRICT y1i, pu_real *PU__RESTRICT y2r, pu_real *PU__RESTRICT y2i,
                      pu_real *PU__RESTRICT y3r, pu_real *PU__RESTRICT y3i, pu_real *PU__RESTRICT y4r,
                      pu_real *PU__RESTRICT y4i, const pu_real *w)
{
    const pu_real *x1r = x0r + dx, *x1i = x0i + dx, *x2r = x1r + dx, *x2i = x1i + dx, *x3r = x2r + dx, *x3i = x2i + dx;
    const pu_real *x4r = x3r + dx, *x4i = x3i + dx;
    const pu_real c1 = PU_R(0.30901699437494742410), c2 = PU_R(-0.80901699437494742410);
    const pu_real s1 = PU_R(0.95105651629515357212), s2 = PU_R(0.58778525229247312917);
    pu_int q;
    for (q = 0; q < count; q++) {
        pu_real tr = x1r[q] + x4r[q], ti = x1i[q] + x4i[q], dr = x1r[q] - x4r[q], di = x1i[q] - x4i[q];
        pu_real ur = x2r[q] + x3r[q], ui = x2i[q] + x3i[q], er = x2r[q] - x3r[q], ei = x2i[q] - x3i[q];
        pu_real ar = x0r[q] + (c1 * tr + c2 * ur), ai = x0i[q] + (c1 * ti + c2 * ui);
        pu_real br = x0r[q] + (c2 * tr + c1 * ur), bi = x0i[q] + (c2 * ti + c1 * ui);
        pu_real fr = s1 * di + s2 * ei, fi = s1 * dr + s2 * er, gr = s2 * di - s1 * ei, gi = s2 * dr - s1 * er;
        pu_real hr = ar + fr, hi = ai - fi, kr = br + gr, ki = bi - gi;
        pu_real lr = br - gr, li = bi + gi, mr = ar - fr, mi = ai + fi;
        y0r[q] = x0r[q] + (tr + ur), y0i[q] = x0i[q] + (ti + ui);
        y1r[q] = hr * w[0] - hi * w[1], y1i[q] = hr * w[1] + hi * w[0];
        y2r[q] = kr * w[2] - ki * w[3], y2i[q] = kr * w[3] + ki * w[2];
        y3r[q] = lr * w[4] - li * w[5], y3i[q] = lr * w[5] + li * w[4];
        y4r[q] = mr * w[6] - mi * w[7], y4i[q] = mr * w[7] + mi * w[6];
    }
}

/* Odd r: y_j, y_{r-j} = (x0 + sum_l c_jl t_l) -+ i sum_l s_jl d_l with t_l, d_l = x_l +- x_{r-l}, l = 1 .. (r-1)/2.
   root: the r roots of unity, re then im (= -sin). */
PU__FN void pu__fft_odd(pu_int r, pu_int count, const pu_real *xr, const pu_real *xi, pu_int dx, pu_real *yr,
                        pu_real *yi, pu_int dy, const pu_real *w, const pu_real *root)
{
    pu_int q, j, l, v;
    for (q = 0; q < count; q += PU__FFT_CHUNK) {
        const pu_int width = pu__min(PU__FFT_CHUNK, count - q);
        pu_real ar[PU__FFT_CHUNK], ai[PU__FFT_CHUNK], br[PU__FFT_CHUNK], bi[PU__FFT_CHUNK];
        for (v = 0; v < width; v++) ar[v] = xr[q + v], ai[v] = xi[q + v];
        for (l = 1; l < r; l++)
            for (v = 0; v < width; v++) ar[v] += xr[l * dx + q + v], ai[v] += xi[l * dx + q + v];
        for (v = 0; v < width; v++) yr[q + v] = ar[v], yi[q + v] = ai[v];
        for (j = 1; j <= r / 2; j++) {
            const pu_real *w1 = w + 2 * (j - 1), *w2 = w + 2 * (r - j - 1);
            pu_int at = 0; /* j l mod r */
            for (v = 0; v < width; v++) ar[v] = xr[q + v], ai[v] = xi[q + v], br[v] = bi[v] = 0;
            for (l = 1; l <= r / 2; l++) {
                const pu_real *fr = xr + l * dx + q, *fi = xi + l * dx + q;
                const pu_real *gr = xr + (r - l) * dx + q, *gi = xi + (r - l) * dx + q;
                pu_real c, s;
                at = at + j < r ? at + j : at + j - r;
                c = root[at], s = root[r + at];
                for (v = 0; v < width; v++) {
                    ar[v] += c * (fr[v] + gr[v]), ai[v] += c * (fi[v] + gi[v]);
                    br[v] += s * (gi[v] - fi[v]), bi[v] += s * (fr[v] - gr[v]); /* i s (f - g) */
                }
            }
            for (v = 0; v < width; v++) {
                pu_real hr = ar[v] + br[v], hi = ai[v] + bi[v], kr = ar[v] - br[v], ki = ai[v] - bi[v];
                yr[j * dy + q + v] = hr * w1[0] - hi * w1[1], yi[j * dy + q + v] = hr * w1[1] + hi * w1[0];
                yr[(r - j) * dy + q + v] = kr * w2[0] - ki * w2[1], yi[(r - j) * dy + q + v] = kr * w2[1] + ki * w2[0];
            }
        }
    }
}

/* Whole passes of radix 4 and 8 with lanes that fill vectors, where a call for every factor would cost more than the sums.
   `outer` groups of `count` neighbours, `across` apart in x and `beside` in y, p steps apart by `next` and r d. The last pass
   has no factors but 1 (m = 1). */

#if PU__VECTORS && defined(__AVX512F__) /* a strip of lanes in one register; same sums, same bits as with shorter vectors */
#define PU__LINE PU__FFT_LANES
typedef pu_real pu__line __attribute__((vector_size(64), aligned(sizeof(pu_real)), may_alias));
#else
#define PU__LINE PU__WIDTH
typedef pu__vector pu__line;
#endif

PU__FN pu__line *pu__l(pu_real *x) { return (pu__line *)x; }
PU__FN const pu__line *pu__cl(const pu_real *x) { return (const pu__line *)x; }

PU__FN void pu__fft_turned(pu_real *yr, pu_real *yi, pu__line re, pu__line im, pu_real wr, pu_real wi)
{
    *pu__l(yr) = re * wr - im * wi, *pu__l(yi) = re * wi + im * wr;
}

PU__FN void pu__fft_wide_4(pu_int m, pu_int outer, pu_int count, const pu_real *xr, const pu_real *xi, pu_int across,
                           pu_int next, pu_int dx, pu_real *yr, pu_real *yi, pu_int beside, pu_int d, const pu_real *tr,
                           const pu_real *ti)
{
    pu_int p, c, q;
    for (p = 0; p < m; p++)
        for (c = 0; c < outer; c++)
            for (q = 0; q < count; q += PU__LINE) {
                const pu_real *ur = xr + p * next + c * across + q, *ui = xi + p * next + c * across + q;
                pu_real *vr = yr + p * 4 * d + c * beside + q, *vi = yi + p * 4 * d + c * beside + q;
                const pu__line x0r = *pu__cl(ur), x1r = *pu__cl(ur + dx);
                const pu__line x2r = *pu__cl(ur + 2 * dx), x3r = *pu__cl(ur + 3 * dx);
                const pu__line x0i = *pu__cl(ui), x1i = *pu__cl(ui + dx);
                const pu__line x2i = *pu__cl(ui + 2 * dx), x3i = *pu__cl(ui + 3 * dx);
                const pu__line ar = x0r + x2r, ai = x0i + x2i, br = x0r - x2r, bi = x0i - x2i;
                const pu__line cr = x1r + x3r, ci = x1i + x3i, er = x1i - x3i, ei = x3r - x1r;
                *pu__l(vr) = ar + cr, *pu__l(vi) = ai + ci;
                if (m == 1) {
                    *pu__l(vr + d) = br + er, *pu__l(vi + d) = bi + ei;
                    *pu__l(vr + 2 * d) = ar - cr, *pu__l(vi + 2 * d) = ai - ci;
                    *pu__l(vr + 3 * d) = br - er, *pu__l(vi + 3 * d) = bi - ei;
                    continue;
                }
                pu__fft_turned(vr + d, vi + d, br + er, bi + ei, tr[p], ti[p]);
                pu__fft_turned(vr + 2 * d, vi + 2 * d, ar - cr, ai - ci, tr[m + p], ti[m + p]);
                pu__fft_turned(vr + 3 * d, vi + 3 * d, br - er, bi - ei, tr[2 * m + p], ti[2 * m + p]);
            }
}

/* e, o: the transforms of length 4 of the even and the odd ones, o_j turned by e^(-2 pi i j / 8);  y_j, y_{j+4} = e_j +- o_j */
PU__FN void pu__fft_wide_8(pu_int m, pu_int outer, pu_int count, const pu_real *xr, const pu_real *xi, pu_int across,
                           pu_int next, pu_int dx, pu_real *yr, pu_real *yi, pu_int beside, pu_int d, const pu_real *tr,
                           const pu_real *ti)
{
    const pu_real h = PU_R(0.70710678118654752440);
    pu_int p, c, q;
    for (p = 0; p < m; p++)
        for (c = 0; c < outer; c++)
            for (q = 0; q < count; q += PU__LINE) {
                const pu_real *ur = xr + p * next + c * across + q, *ui = xi + p * next + c * across + q;
                pu_real *vr = yr + p * 8 * d + c * beside + q, *vi = yi + p * 8 * d + c * beside + q;
                const pu__line x1r = *pu__cl(ur + dx), x3r = *pu__cl(ur + 3 * dx), x5r = *pu__cl(ur + 5 * dx);
                const pu__line x1i = *pu__cl(ui + dx), x3i = *pu__cl(ui + 3 * dx), x5i = *pu__cl(ui + 5 * dx);
                const pu__line x7r = *pu__cl(ur + 7 * dx), x7i = *pu__cl(ui + 7 * dx);
                const pu__line fr = x1r + x5r, fi = x1i + x5i, gr = x1r - x5r, gi = x1i - x5i;
                const pu__line kr = x3r + x7r, ki = x3i + x7i, lr = x3i - x7i, li = x7r - x3r; /* -i (x3 - x7) */
                const pu__line ar = gr + lr, ai = gi + li, br = gr - lr, bi = gi - li;
                const pu__line o0r = fr + kr, o0i = fi + ki, o2r = fi - ki, o2i = kr - fr;
                const pu__line o1r = h * (ar + ai), o1i = h * (ai - ar), o3r = h * (bi - br), o3i = -h * (br + bi);
                const pu__line x0r = *pu__cl(ur), x2r = *pu__cl(ur + 2 * dx), x4r = *pu__cl(ur + 4 * dx);
                const pu__line x0i = *pu__cl(ui), x2i = *pu__cl(ui + 2 * dx), x4i = *pu__cl(ui + 4 * dx);
                const pu__line x6r = *pu__cl(ur + 6 * dx), x6i = *pu__cl(ui + 6 * dx);
                const pu__line sr = x0r + x4r, si = x0i + x4i, ur_ = x0r - x4r, ui_ = x0i - x4i;
                const pu__line wr = x2r + x6r, wi = x2i + x6i, zr = x2i - x6i, zi = x6r - x2r;
                const pu__line e0r = sr + wr, e0i = si + wi, e2r = sr - wr, e2i = si - wi;
                const pu__line e1r = ur_ + zr, e1i = ui_ + zi, e3r = ur_ - zr, e3i = ui_ - zi;
                *pu__l(vr) = e0r + o0r, *pu__l(vi) = e0i + o0i;
                if (m == 1) {
                    *pu__l(vr + d) = e1r + o1r, *pu__l(vi + d) = e1i + o1i;
                    *pu__l(vr + 2 * d) = e2r + o2r, *pu__l(vi + 2 * d) = e2i + o2i;
                    *pu__l(vr + 3 * d) = e3r + o3r, *pu__l(vi + 3 * d) = e3i + o3i;
                    *pu__l(vr + 4 * d) = e0r - o0r, *pu__l(vi + 4 * d) = e0i - o0i;
                    *pu__l(vr + 5 * d) = e1r - o1r, *pu__l(vi + 5 * d) = e1i - o1i;
                    *pu__l(vr + 6 * d) = e2r - o2r, *pu__l(vi + 6 * d) = e2i - o2i;
                    *pu__l(vr + 7 * d) = e3r - o3r, *pu__l(vi + 7 * d) = e3i - o3i;
                    continue;
                }
                pu__fft_turned(vr + d, vi + d, e1r + o1r, e1i + o1i, tr[p], ti[p]);
                pu__fft_turned(vr + 2 * d, vi + 2 * d, e2r + o2r, e2i + o2i, tr[m + p], ti[m + p]);
                pu__fft_turned(vr + 3 * d, vi + 3 * d, e3r + o3r, e3i + o3i, tr[2 * m + p], ti[2 * m + p]);
                pu__fft_turned(vr + 4 * d, vi + 4 * d, e0r - o0r, e0i - o0i, tr[3 * m + p], ti[3 * m + p]);
                pu__fft_turned(vr + 5 * d, vi + 5 * d, e1r - o1r, e1i - o1i, tr[4 * m + p], ti[4 * m + p]);
                pu__fft_turned(vr + 6 * d, vi + 6 * d, e2r - o2r, e2i - o2i, tr[5 * m + p], ti[5 * m + p]);
                pu__fft_turned(vr + 7 * d, vi + 7 * d, e3r - o3r, e3i - o3i, tr[6 * m + p], ti[6 * m + p]);
            }
}

/* All passes: unscaled forward transform of `lanes` neighbours, from x (index step sx) to y (step sy); x may be y.
   work: 4 * length * lanes. Where source and target are packed (step = lanes), c and the lanes form one loop. */
PU__FN void pu__fft_passes(const pu_fft *f, pu_int lanes, const pu_real *xr, const pu_real *xi, pu_int sx, pu_real *yr,
                           pu_real *yi, pu_int sy, pu_real *work)
{
    const pu_int n = f->length, size = n * lanes;
    const pu_real *table = f->table;
    const pu_int end = f->passes ? f->radix[f->passes - 1] : 1;
    const int aside = end == 8 && sy != lanes && lanes % PU__LINE; /* 8 takes vectors only */
    /* A packed target takes turns with one part of the scratch, so that both stay in the nearest cache; with an odd number of
       passes the last one, which reads and writes the same places (m = 1), runs in the target. */
    const int near = sy == lanes && f->passes > 1 &&
                     (f->passes % 2 == 0 || end == 8 || (end == 4 && n / 4 * lanes % PU__LINE == 0));
    pu_int s = 1, left = n, i, p, c, j;
    int pass;
    if (f->passes < 2) { /* nothing to alternate with: go through the scratch */
        for (i = 0; i < n; i++) {
            pu__copy(work + i * lanes, xr + i * sx, lanes);
            pu__copy(work + size + i * lanes, xi + i * sx, lanes);
        }
        xr = work, xi = work + size, sx = lanes;
        if (n == 1) {
            pu__copy(yr, xr, lanes);
            pu__copy(yi, xi, lanes);
        }
    }
    for (pass = 0; pass < f->passes; pass++) {
        const pu_int r = f->radix[pass], m = left / r, last = pass + 1 == f->passes && !aside;
        const pu_real *tr = table, *ti = table + (r - 1) * m, *root = ti + (r - 1) * m;
        pu_real *to = work + (pass % 2 ? 0 : 2 * size);
        const int target = last || (near && pass % 2);
        pu_real *zr = target ? yr : to, *zi = target ? yi : to + size;
        const pu_int sz = target ? sy : lanes, packed = sx == lanes && sz == lanes;
        const pu_int outer = packed ? 1 : s, count = packed ? s * lanes : lanes, dx = s * m * sx, d = s * sz;
        if ((r == 4 && count % PU__LINE == 0) || r == 8) {
            if (r == 4) pu__fft_wide_4(m, outer, count, xr, xi, sx, s * sx, dx, zr, zi, sz, d, tr, ti);
            else pu__fft_wide_8(m, outer, count, xr, xi, sx, s * sx, dx, zr, zi, sz, d, tr, ti);
        } else for (p = 0; p < m; p++) {
            pu_real w[2 * PU__FFT_PRIME];
            for (j = 0; j < r - 1; j++) w[2 * j] = tr[j * m + p], w[2 * j + 1] = ti[j * m + p];
            for (c = 0; c < outer; c++) {
                const pu_real *ar = xr + (c + s * p) * sx, *ai = xi + (c + s * p) * sx;
                pu_real *br = zr + (c + s * r * p) * sz, *bi = zi + (c + s * r * p) * sz;
                if (r == 4)
                    pu__fft_4(count, ar, ai, dx, br, bi, br + d, bi + d, br + 2 * d, bi + 2 * d, br + 3 * d,
                              bi + 3 * d, w);
                else if (r == 2) pu__fft_2(count, ar, ai, dx, br, bi, br + d, bi + d, w);
                else if (r == 3) pu__fft_3(count, ar, ai, dx, br, bi, br + d, bi + d, br + 2 * d, bi + 2 * d, w);
                else if (r == 5)
                    pu__fft_5(count, ar, ai, dx, br, bi, br + d, bi + d, br + 2 * d, bi + 2 * d, br + 3 * d, bi + 3 * d,
                              br + 4 * d, bi + 4 * d, w);
                else pu__fft_odd(r, count, ar, ai, dx, br, bi, d, w, root);
            }
        }
        table = root + (r > 5 && r != 8 ? 2 * r : 0);
        xr = zr, xi = zi, sx = lanes;
        s *= r, left = m;
    }
    for (i = 0; i < n && aside; i++) {
        pu__copy(yr + i * sy, xr + i * lanes, lanes);
        pu__copy(yi + i * sy, xi + i * lanes, lanes);
    }
}

/* z = a o x, complex, one factor a_i for `lanes` neighbours; z may be x */
PU__FN void pu__fft_scale(pu_int n, pu_int lanes, const pu_real *ar, const pu_real *ai, const pu_real *xr,
                          const pu_real *xi, pu_int sx, pu_real *zr, pu_real *zi, pu_int sz)
{
    pu_int i, q;
    for (i = 0; i < n; i++) {
        const pu_real cr = ar[i], ci = ai[i], *ur = xr + i * sx, *ui = xi + i * sx;
        pu_real *vr = zr + i * sz, *vi = zi + i * sz;
        for (q = 0; q < lanes; q++) {
            pu_real re = ur[q] * cr - ui[q] * ci, im = ur[q] * ci + ui[q] * cr;
            vr[q] = re, vi[q] = im;
        }
    }
}

/* Any length, unscaled, contract of pu__fft_passes (work: f->work * lanes). Bluestein, with g_k = e^(-pi i k^2 / n) and
   j k = (j^2 + k^2 - (k - j)^2) / 2:  X_k = g_k sum_j (g_j x_j) conj(g_{k-j}), a convolution of period `length`. */
PU__FN void pu__fft_lanes(const pu_fft *f, pu_int lanes, const pu_real *xr, const pu_real *xi, pu_int sx, pu_real *yr,
                          pu_real *yi, pu_int sy, pu_real *work)
{
    const pu_int n = f->n, N = f->length, size = N * lanes, pad = (N - n) * lanes;
    pu_real *zr = work, *zi = work + size, *rest = work + 2 * size;
    if (!f->convolve) {
        pu__fft_passes(f, lanes, xr, xi, sx, yr, yi, sy, work);
        return;
    }
    pu__fft_scale(n, lanes, f->chirp, f->chirp + n, xr, xi, sx, zr, zi, lanes);
    pu__zeros(zr + n * lanes, pad);
    pu__zeros(zi + n * lanes, pad);
    pu__fft_passes(f, lanes, zr, zi, lanes, zr, zi, lanes, rest);
    pu__fft_scale(N, lanes, f->filter, f->filter + N, zr, zi, lanes, zr, zi, lanes);
    pu__fft_passes(f, lanes, zi, zr, lanes, zi, zr, lanes, rest); /* exchanged: the inverse */
    pu__fft_scale(n, lanes, f->chirp, f->chirp + n, zr, zi, lanes, yr, yi, sy);
}

/* Factors of n into f->radix, 4 first; the largest prime factor is returned (2 for a power of two, 1 for n = 1). An 8 at the
   end takes the place of 4 and 2; then s is a multiple of 16 there, and vectors are filled with any number of lanes. */
PU__FN pu_int pu__fft_factor(pu_fft *f, pu_int n)
{
    pu_int r = 4, largest = 1, last;
    f->passes = 0;
    for (last = n; last > 0 && last % 4 == 0;) last /= 4;
    last = n % 128 == 0 && last % 2 == 0 ? 8 : 1;
    n /= last;
    while (n > 1) {
        if (r > PU__FFT_PRIME) return n;
        if (n % r == 0) {
            f->radix[f->passes++] = (int)r, n /= r;
            largest = r == 4 ? 2 : r > largest ? r : largest;
        } else r = r == 4 ? 2 : r == 2 ? 3 : r + 2;
    }
    if (last == 8) f->radix[f->passes++] = 8;
    return largest;
}

/* Sizes of everything and, with arena->base set, the addresses. Returned: scratch to make the filter in, or NULL. */
PU__FN pu_real *pu__fft_layout(pu_fft *f, pu_int n, pu__arena *arena)
{
    pu_int entries = 0, left, pass;
    memset(f, 0, sizeof *f);
    f->n = f->length = n;
    if (n > PTRDIFF_MAX / 256) { /* angles are counted in units of 2 pi / (16 n); work < 24 n reals */
        arena->overflow = 1;
        return NULL;
    }
    f->convolve = pu__fft_factor(f, n) > PU__FFT_PRIME;
    if (f->convolve) {
        for (f->length = 1; f->length < 2 * n - 1;) f->length *= 2;
        pu__fft_factor(f, f->length);
    }
    f->work = (f->convolve ? 6 : 4) * f->length;
    for (left = f->length, pass = 0; pass < f->passes; pass++) {
        pu_int r = f->radix[pass];
        left /= r;
        entries += 2 * (r - 1) * left + (r > 5 && r != 8 ? 2 * r : 0);
    }
    f->table = pu__reals(arena, entries, 1);
    if (!f->convolve) return NULL;
    f->chirp = pu__reals(arena, n, 2), f->filter = pu__reals(arena, f->length, 2);
    return pu__reals(arena, f->length, 4);
}

PU__FN void pu__fft_fill(pu_fft *f, pu_real *table, pu_real *chirp, pu_real *filter, pu_real *work)
{
    const pu_int n = f->n, N = f->length;
    pu_int left = N, square = 0, i, j;
    int pass;
    for (pass = 0; pass < f->passes; pass++) {
        const pu_int r = f->radix[pass], m = left / r;
        for (j = 1; j < r; j++)
            for (i = 0; i < m; i++)
                pu__fft_root(i * j, left, table + (j - 1) * m + i, table + (r - 1 + j - 1) * m + i);
        table += 2 * (r - 1) * m;
        for (i = 0; i < r && r > 5 && r != 8; i++) pu__fft_root(i, r, table + i, table + r + i);
        table += r > 5 && r != 8 ? 2 * r : 0;
        left = m;
    }
    if (!f->convolve) return;
    memset(filter, 0, (size_t)N * 2 * sizeof(pu_real));
    for (i = 0; i < n; i++) {
        const pu_real scale = (pu_real)(1 / (double)N); /* a power of two: exact */
        pu__fft_root(square, 2 * n, chirp + i, chirp + n + i);
        j = i > 0 ? N - i : 0;
        filter[i] = filter[j] = scale * chirp[i], filter[N + i] = filter[N + j] = -scale * chirp[n + i];
        square = (square + 2 * i + 1) % (2 * n); /* (i + 1)^2 mod 2 n */
    }
    pu__fft_passes(f, 1, filter, filter + N, 1, filter, filter + N, 1, work);
}

/* the first aligned address of the block, or a status */
PU__FN pu_status pu__fft_open(pu__arena *arena, void *memory, size_t bytes)
{
    if (arena->overflow) return PU_E_OVERFLOW;
    if (bytes < pu__arena_bytes(arena)) return PU_E_BLOCK;
    arena->base = (unsigned char *)memory + (PU__ALIGN - (uintptr_t)memory % PU__ALIGN) % PU__ALIGN;
    arena->used = 0;
    return PU_OK;
}

PU__FN void pu__fft_make(pu_fft *f, pu_int n, pu__arena *arena)
{
    pu_real *work = pu__fft_layout(f, n, arena);
    pu__fft_fill(f, (pu_real *)f->table, (pu_real *)f->chirp, (pu_real *)f->filter, work);
}

/* ---- what becomes of z = Phi' W Phi p, a piece at a time, in the only sweep over the vectors around it ---- */

typedef struct {
    const pu_real *a, *p, *q; /* the diagonal and the two vectors; NULL: z alone */
    pu_real *y, c;            /* y may be NULL */
    int add, used;
    double s, t;
} pu__gram_column;

/* Rows from .. to-1, n entries each, the first row at `at`: y = c (z + a o p) or += that, s += q'z, t += q'(a o p). z lies in
   strips of columns, each with all its rows next to each other, strip j beginning at j * down. Sums are in pu_real here. */
PU__FN void pu__gram_rows(pu__gram_column *o, pu_int at, pu_int from, pu_int to, pu_int n, const pu_real *z, pu_int strip,
                          pu_int down)
{
    const pu_int W = PU__SHORT;
    const pu_real c = o->c;
    const int add = o->add;
    pu_real zero[PU__SHORT] = {0}, part[2 * PU__SHORT];
    pu__short s = *pu__cs(zero), t = s;
    pu_int r, j, i, width;
    for (r = from; r < to && o->a; r++)
        for (j = 0; j < n; j += width) {
            const pu_int first = at + r * n + j;
            const pu_real *a = o->a + first, *p = o->p + first, *q = o->q + first, *u;
            pu_real *y = o->y ? o->y + first : NULL;
            width = pu__min(strip, n - j), u = z + j * down + r * width;
            for (i = 0; i + W <= width; i += W) {
                const pu__short v = *pu__cs(a + i) * *pu__cs(p + i), sum = *pu__cs(u + i) + v;
                s += *pu__cs(q + i) * *pu__cs(u + i), t += *pu__cs(q + i) * v;
                if (y) *pu__s(y + i) = add ? *pu__cs(y + i) + c * sum : c * sum;
            }
            for (; i < width; i++) {
                const pu_real v = a[i] * p[i], sum = c * (u[i] + v);
                o->s += (double)(q[i] * u[i]), o->t += (double)(q[i] * v);
                if (y) y[i] = add ? y[i] + sum : sum;
            }
        }
    for (r = from; r < to && !o->a; r++)
        for (j = 0; j < n; j += width) {
            pu_real *PU__RESTRICT y = o->y + at + r * n + j;
            const pu_real *u = z + j * down;
            width = pu__min(strip, n - j), u += r * width;
            if (add) for (i = 0; i < width; i++) y[i] += u[i];
            else for (i = 0; i < width; i++) y[i] = u[i];
        }
    *pu__s(part) = s, *pu__s(part + W) = t;
    for (i = 0; i < W; i++) o->s += (double)part[i], o->t += (double)part[W + i];
}

/* all rows, in groups of about PU__CHUNK entries */
PU__FN void pu__gram_close(pu__gram_column *o, pu_int m, pu_int n, const pu_real *z, pu_int strip, pu_int down)
{
    const pu_int some = n < PU__CHUNK ? PU__CHUNK / n : 1;
    pu_int r;
    for (r = 0; r < m && o->used; r += some) pu__gram_rows(o, 0, r, pu__min(r + some, m), n, z, strip, down);
}

/* ---- FFTW, when it is asked for: the whole transform in place in an interleaved, aligned copy. Of everything FFTW
        offers this was the fastest with plans that are the same at every run; split arrays would also tie a plan to the
        distance between re and im. A size FFTW has no plan for leaves NULL, and the code above serves. ---- */

#ifdef PU_USE_FFTW
#ifdef PU_FLOAT
#define PU__FFTW(name) fftwf_##name
#else
#define PU__FFTW(name) fftw_##name
#endif

/* Rows of the copy have a gap of a cache line after them: a tenth faster where a row is a power of two. */
#define PU__FFTW_GAP ((pu_int)(PU__ALIGN / 2 / sizeof(pu_real)))

/* reals of scratch that pu__fftw_run takes for m rows of n; up to 63 bytes go into the alignment */
PU__FN pu_int pu__fftw_work(pu_int m, pu_int n, pu_int work)
{
    const pu_int mine = 2 * m * (n + PU__FFTW_GAP) + (pu_int)(PU__ALIGN / sizeof(pu_real));
    return mine > work ? mine : work;
}

PU__FN void *pu__fftw_plan(pu_int m, pu_int n, const pu_real *aligned)
{
    PU__FFTW(complex) *c = (PU__FFTW(complex) *)(uintptr_t)aligned; /* FFTW_ESTIMATE looks at the address alone */
    int size[2], room[2];
    if (m > INT_MAX || n > INT_MAX - PU__FFTW_GAP) return NULL;
    size[0] = room[0] = (int)m, size[1] = (int)n, room[1] = (int)(n + PU__FFTW_GAP);
    return PU__FFTW(plan_many_dft)(2, size, 1, c, room, 1, 0, c, room, 1, 0, FFTW_FORWARD, FFTW_ESTIMATE);
}

PU__FN pu_real *pu__fftw_align(pu_real *work) { return (pu_real *)(((uintptr_t)work + PU__ALIGN - 1) / PU__ALIGN * PU__ALIGN); }

PU__FN void pu__fftw_run(void *plan, pu_int m, pu_int n, pu_real scale, const pu_real *xr, const pu_real *xi, pu_real *yr,
                         pu_real *yi, pu_real *work)
{
    const pu_int step = 2 * (n + PU__FFTW_GAP);
    pu_real *c = pu__fftw_align(work);
    pu_int r, i;
    for (r = 0; r < m; r++) {
        const pu_real *PU__RESTRICT ur = xr + r * n, *PU__RESTRICT ui = xi ? xi + r * n : NULL;
        pu_real *PU__RESTRICT to = c + r * step;
        if (ui) for (i = 0; i < n; i++) to[2 * i] = scale * ur[i], to[2 * i + 1] = scale * ui[i];
        else for (i = 0; i < n; i++) to[2 * i] = scale * ur[i], to[2 * i + 1] = 0;
    }
    PU__FFTW(execute_dft)((PU__FFTW(plan))plan, (PU__FFTW(complex) *)c, (PU__FFTW(complex) *)c);
    for (r = 0; r < m; r++) {
        const pu_real *PU__RESTRICT from = c + r * step;
        pu_real *PU__RESTRICT vr = yr + r * n, *PU__RESTRICT vi = yi + r * n;
        for (i = 0; i < n; i++) vr[i] = from[2 * i], vi[i] = from[2 * i + 1];
    }
}

/* pu__fourier_sandwich, s in the order of the image */
PU__FN void pu__fftw_sandwich(void *plan, pu_int m, pu_int n, const pu_real *s, const pu_real *xr, const pu_real *xi,
                              pu__gram_column *first, pu__gram_column *second, pu_real *work)
{
    const pu_int step = 2 * (n + PU__FFTW_GAP), some = n < PU__CHUNK ? PU__CHUNK / n : 1;
    pu_real *c = pu__fftw_align(work), re[PU__CHUNK], im[PU__CHUNK];
    pu_int r, i, at, b;
    for (r = 0; r < m; r++) {
        const pu_real *PU__RESTRICT ur = xr + r * n, *PU__RESTRICT ui = xi + r * n;
        pu_real *PU__RESTRICT to = c + r * step;
        for (i = 0; i < n; i++) to[2 * i] = ur[i], to[2 * i + 1] = ui[i];
    }
    PU__FFTW(execute_dft)((PU__FFTW(plan))plan, (PU__FFTW(complex) *)c, (PU__FFTW(complex) *)c);
    for (r = 0; r < m; r++) { /* exchanged: the inverse */
        const pu_real *PU__RESTRICT sr = s + r * n;
        pu_real *PU__RESTRICT to = c + r * step;
        for (i = 0; i < n; i++) {
            const pu_real keep = sr[i] * to[2 * i];
            to[2 * i] = sr[i] * to[2 * i + 1], to[2 * i + 1] = keep;
        }
    }
    PU__FFTW(execute_dft)((PU__FFTW(plan))plan, (PU__FFTW(complex) *)c, (PU__FFTW(complex) *)c);
    for (r = 0; r < m; r += some)
        for (at = 0; at < n; at += PU__CHUNK) { /* some rows, or a part of one */
            const pu_int rows = pu__min(some, m - r), len = pu__min(PU__CHUNK, n - at);
            for (b = 0; b < rows; b++) {
                const pu_real *PU__RESTRICT from = c + (r + b) * step + 2 * at;
                for (i = 0; i < len; i++) re[b * len + i] = from[2 * i + 1], im[b * len + i] = from[2 * i];
            }
            if (first->used) pu__gram_rows(first, r * n + at, 0, 1, rows * len, re, rows * len, 0);
            if (second->used) pu__gram_rows(second, r * n + at, 0, 1, rows * len, im, rows * len, 0);
        }
}

PU__FN void pu__fftw_free(void *plan)
{
    if (plan) PU__FFTW(destroy_plan)((PU__FFTW(plan))plan);
}
#else
#define pu__fftw_work(m, n, work) (work)
#define pu__fftw_plan(m, n, aligned) NULL
#define pu__fftw_run(plan, m, n, scale, xr, xi, yr, yi, work) ((void)0)
#define pu__fftw_sandwich(plan, m, n, s, xr, xi, first, second, work) ((void)0)
#define pu__fftw_free(plan) ((void)0)
#endif

PU_DEF pu_status pu_fft_bytes(pu_int n, size_t *bytes)
{
    pu__arena arena = PU__ARENA;
    pu_fft f;
    if (!bytes) return PU_E_NULL;
    if (n < 1) return PU_E_ARGUMENT;
    pu__fft_layout(&f, n, &arena);
    if (arena.overflow) return PU_E_OVERFLOW;
    *bytes = pu__arena_bytes(&arena);
    return PU_OK;
}

PU_DEF pu_status pu_fft_init(pu_fft *plan, pu_int n, void *memory, size_t bytes)
{
    pu__arena arena = PU__ARENA;
    pu_status status;
    if (!plan || !memory) return PU_E_NULL;
    if (n < 1) return PU_E_ARGUMENT;
    pu__fft_layout(plan, n, &arena);
    status = pu__fft_open(&arena, memory, bytes);
    if (status) memset(plan, 0, sizeof *plan); /* a plan of length 0 is refused everywhere */
    else {
        pu__fft_make(plan, n, &arena);
        plan->work = pu__fftw_work(1, n, plan->work);
        plan->fftw = pu__fftw_plan(1, n, plan->table);
    }
    return status;
}

PU_DEF pu_status pu_fft_run(const pu_fft *plan, int inverse, pu_real *re, pu_real *im, pu_real *work)
{
    pu_real *a = inverse ? im : re, *b = inverse ? re : im, scale;
    pu_int i;
    if (!plan || !re || !im || !work) return PU_E_NULL;
    if (plan->n < 1) return PU_E_ARGUMENT;
    scale = (pu_real)(1 / sqrt((double)plan->n));
    if (plan->fftw) {
        pu__fftw_run(plan->fftw, 1, plan->n, scale, a, b, a, b, work);
        return PU_OK;
    }
    pu__fft_lanes(plan, 1, a, b, 1, a, b, 1, work);
    for (i = 0; i < plan->n; i++) re[i] *= scale, im[i] *= scale;
    return PU_OK;
}

PU_DEF void pu_fft_free(pu_fft *plan)
{
    if (!plan) return;
    pu__fftw_free(plan->fftw);
    memset(plan, 0, sizeof *plan);
}

/* ------------------------------------------------------------------------------------------------
   >>fourier   the two-dimensional Fourier operator
   ------------------------------------------------------------------------------------------------ */

/* ---- two dimensions ---- */

PU__FN void pu__fourier_layout(pu_fourier *f, pu_int rows, pu_int cols, pu__arena *arena, int make)
{
    const pu_int flat = cols == 1, n = flat ? rows : cols, m = flat ? 1 : rows;
    pu_int a, b;
    memset(f, 0, sizeof *f);
    f->rows = rows, f->cols = cols;
    f->scale = (pu_real)(1 / sqrt((double)rows * (double)cols));
    if (rows > PTRDIFF_MAX / 256 / cols / (pu_int)sizeof(pu_real)) { /* 2 D + work <= 28 D reals */
        arena->overflow = 1;
        return;
    }
    if (make) pu__fft_make(&f->along, n, arena);
    else pu__fft_layout(&f->along, n, arena);
    if (m == n) f->down = f->along;
    else if (make) pu__fft_make(&f->down, m, arena);
    else pu__fft_layout(&f->down, m, arena);
    a = f->along.work * pu__min(PU__FFT_LANES, m), b = f->down.work * pu__min(PU__FFT_LANES, n);
    a += 2 * n * pu__min(PU__FFT_LANES, m); /* the transposed rows */
    f->work = pu__fftw_work(m, n, a > b ? a : b);
}

PU_DEF pu_status pu_fourier_bytes(pu_int rows, pu_int cols, size_t *bytes)
{
    pu__arena arena = PU__ARENA;
    pu_fourier f;
    if (!bytes) return PU_E_NULL;
    if (rows < 1 || cols < 1) return PU_E_ARGUMENT;
    pu__fourier_layout(&f, rows, cols, &arena, 0);
    if (arena.overflow) return PU_E_OVERFLOW;
    *bytes = pu__arena_bytes(&arena);
    return PU_OK;
}

PU_DEF pu_status pu_fourier_init(pu_fourier *f, pu_int rows, pu_int cols, void *memory, size_t bytes)
{
    pu__arena arena = PU__ARENA;
    pu_status status;
    if (!f || !memory) return PU_E_NULL;
    if (rows < 1 || cols < 1) return PU_E_ARGUMENT;
    pu__fourier_layout(f, rows, cols, &arena, 0);
    status = pu__fft_open(&arena, memory, bytes);
    if (status) memset(f, 0, sizeof *f);
    else {
        pu__fourier_layout(f, rows, cols, &arena, 1);
        f->fftw = pu__fftw_plan(f->down.n, f->along.n, f->along.table);
    }
    return status;
}

/* t (B x B, rows dt apart) = scale * transpose of x (rows dx apart) */
#if defined(PU_FLOAT) && defined(__AVX__) && defined(PU__SHUFFLE)
/* Left to itself a compiler moves the numbers one by one. The halves of rows four apart change places, then two rows are zipped
   within each half, twice. */
#define PU__TURN 8
#define PU__HALF_0(a, b) PU__SHUFFLE(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define PU__HALF_1(a, b) PU__SHUFFLE(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
#define PU__ZIP_0(a, b) PU__SHUFFLE(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define PU__ZIP_1(a, b) PU__SHUFFLE(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
PU__FN void pu__fourier_turn_block(pu_real scale, const pu_real *x, pu_int dx, pu_real *t, pu_int dt)
{
    const pu__short x0 = *pu__cs(x) * scale, x1 = *pu__cs(x + dx) * scale, x2 = *pu__cs(x + 2 * dx) * scale;
    const pu__short x3 = *pu__cs(x + 3 * dx) * scale, x4 = *pu__cs(x + 4 * dx) * scale, x5 = *pu__cs(x + 5 * dx) * scale;
    const pu__short x6 = *pu__cs(x + 6 * dx) * scale, x7 = *pu__cs(x + 7 * dx) * scale;
    const pu__short a0 = PU__HALF_0(x0, x4), a1 = PU__HALF_0(x1, x5), a2 = PU__HALF_0(x2, x6), a3 = PU__HALF_0(x3, x7);
    const pu__short b0 = PU__HALF_1(x0, x4), b1 = PU__HALF_1(x1, x5), b2 = PU__HALF_1(x2, x6), b3 = PU__HALF_1(x3, x7);
    const pu__short c0 = PU__ZIP_0(a0, a2), c1 = PU__ZIP_1(a0, a2), c2 = PU__ZIP_0(a1, a3), c3 = PU__ZIP_1(a1, a3);
    const pu__short d0 = PU__ZIP_0(b0, b2), d1 = PU__ZIP_1(b0, b2), d2 = PU__ZIP_0(b1, b3), d3 = PU__ZIP_1(b1, b3);
    *pu__s(t) = PU__ZIP_0(c0, c2), *pu__s(t + dt) = PU__ZIP_1(c0, c2);
    *pu__s(t + 2 * dt) = PU__ZIP_0(c1, c3), *pu__s(t + 3 * dt) = PU__ZIP_1(c1, c3);
    *pu__s(t + 4 * dt) = PU__ZIP_0(d0, d2), *pu__s(t + 5 * dt) = PU__ZIP_1(d0, d2);
    *pu__s(t + 6 * dt) = PU__ZIP_0(d1, d3), *pu__s(t + 7 * dt) = PU__ZIP_1(d1, d3);
}
#undef PU__HALF_0
#undef PU__HALF_1
#undef PU__ZIP_0
#undef PU__ZIP_1
#else
#define PU__TURN 4
PU__FN void pu__fourier_turn_block(pu_real scale, const pu_real *x, pu_int dx, pu_real *t, pu_int dt)
{
    pu_real block[4][4];
    pu_int a, b;
    for (a = 0; a < 4; a++)
        for (b = 0; b < 4; b++) block[a][b] = scale * x[a * dx + b];
    for (b = 0; b < 4; b++)
        for (a = 0; a < 4; a++) t[b * dt + a] = block[a][b];
}
#endif

/* t (cols x rows) = scale * transpose of x (rows x cols), in blocks that fit the registers */
PU__FN void pu__fourier_turn(pu_int rows, pu_int cols, pu_real scale, const pu_real *PU__RESTRICT x,
                             pu_real *PU__RESTRICT t)
{
    const pu_int B = PU__TURN, whole = rows / B * B, blocks = cols / B * B;
    pu_int i, j, a;
    for (i = 0; i < whole; i += B) {
        for (j = 0; j < blocks; j += B) pu__fourier_turn_block(scale, x + i * cols + j, cols, t + j * rows + i, rows);
        for (; j < cols; j++)
            for (a = 0; a < B; a++) t[j * rows + i + a] = scale * x[(i + a) * cols + j];
    }
    for (; i < rows; i++)
        for (j = 0; j < cols; j++) t[j * rows + i] = scale * x[i * cols + j];
}

/* y = F x, scaled; x may be y, xi may be NULL (zero). Strips of rows go through a transposed copy, strips of columns
   are read and written in place by the first and the last pass. */
PU__FN void pu__fourier_forward(const pu_fourier *f, const pu_real *xr, const pu_real *xi, pu_real *yr, pu_real *yi,
                                pu_real *work)
{
    const pu_int n = f->along.n, m = f->down.n;
    pu_int i, lanes;
    if (f->fftw) {
        pu__fftw_run(f->fftw, m, n, f->scale, xr, xi, yr, yi, work);
        return;
    }
    for (i = 0; i < m; i += lanes) {
        pu_real *tr = work, *ti;
        lanes = pu__min(PU__FFT_LANES, m - i);
        ti = work + n * lanes;
        pu__fourier_turn(lanes, n, f->scale, xr + i * n, tr);
        if (xi) pu__fourier_turn(lanes, n, f->scale, xi + i * n, ti);
        else pu__zeros(ti, n * lanes);
        pu__fft_lanes(&f->along, lanes, tr, ti, lanes, tr, ti, lanes, work + 2 * n * lanes);
        pu__fourier_turn(n, lanes, 1, tr, yr + i * n);
        pu__fourier_turn(n, lanes, 1, ti, yi + i * n);
    }
    for (i = 0; i < n && m > 1; i += lanes) {
        lanes = pu__min(PU__FFT_LANES, n - i);
        pu__fft_lanes(&f->down, lanes, yr + i, yi + i, n, yr + i, yi + i, n, work);
    }
}

PU_DEF pu_status pu_fourier_run(const pu_fourier *f, int inverse, pu_real *re, pu_real *im, pu_real *work)
{
    pu_real *a = inverse ? im : re, *b = inverse ? re : im;
    if (!f || !re || !im || !work) return PU_E_NULL;
    if (f->rows < 1) return PU_E_ARGUMENT;
    pu__fourier_forward(f, a, b, a, b, work);
    return PU_OK;
}

PU_DEF void pu_fourier_free(pu_fourier *f)
{
    if (!f) return;
    pu__fftw_free(f->fftw);
    memset(f, 0, sizeof *f);
}

/* ---- the operator. Real x, y as z = x + i y:  F x = (Z_m + conj Z_-m) / 2,  F y = (Z_m - conj Z_-m) / 2i ---- */

/* y_c = a u_c + b v_-c (or +=) along one row of frequencies; v is the row of the negative one */
PU__FN void pu__fourier_fold(pu_int n, const pu_real *u, const pu_real *v, pu_real a, pu_real b,
                             pu_real *PU__RESTRICT y, int add)
{
    pu_int c;
    if (add) {
        y[0] += a * u[0] + b * v[0];
        for (c = 1; c < n; c++) y[c] += a * u[c] + b * v[n - c];
    } else {
        y[0] = a * u[0] + b * v[0];
        for (c = 1; c < n; c++) y[c] = a * u[c] + b * v[n - c];
    }
}

PU__FN pu_status pu__fourier_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    const pu_fourier *f = (const pu_fourier *)op->data;
    const pu_int D = op->cols, n = f->along.n, m = f->down.n;
    const pu_real h = PU_R(0.5);
    pu_real *zr = work, *zi = work + D;
    pu_int j, r;
    for (j = 0; j < k; j += 2) {
        const int pair = j + 1 < k;
        pu_real *y = pu__col(Y, j), *yy = pair ? pu__col(Y, j + 1) : NULL;
        if (!pair && !add) { /* alone: straight into place */
            pu__fourier_forward(f, pu__col(X, j), NULL, y, y + D, work + 2 * D);
            break;
        }
        pu__fourier_forward(f, pu__col(X, j), pair ? pu__col(X, j + 1) : NULL, zr, zi, work + 2 * D);
        if (!pair) {
            pu__axpy(D, 1, zr, y), pu__axpy(D, 1, zi, y + D);
            break;
        }
        for (r = 0; r < m; r++) {
            const pu_int u = r * n, v = r > 0 ? (m - r) * n : 0;
            pu__fourier_fold(n, zr + u, zr + v, h, h, y + u, add);
            pu__fourier_fold(n, zi + u, zi + v, h, -h, y + D + u, add);
            pu__fourier_fold(n, zi + u, zi + v, h, h, yy + u, add);
            pu__fourier_fold(n, zr + u, zr + v, -h, h, yy + D + u, add);
        }
    }
    return PU_OK;
}

/* Re F^H g = F^H of the Hermitian part (g_m + conj g_-m) / 2, which makes the results real: two fit in one transform */
PU__FN pu_status pu__fourier_apply_t(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    const pu_fourier *f = (const pu_fourier *)op->data;
    const pu_int D = op->cols, n = f->along.n, m = f->down.n;
    const pu_real h = PU_R(0.5);
    pu_real *zr = work, *zi = work + D;
    pu_int j, r;
    for (j = 0; j < k; j += 2) {
        const int pair = j + 1 < k;
        const pu_real *g = pu__col(X, j), *gg = pair ? pu__col(X, j + 1) : NULL;
        if (!pair) { /* alone: no folding, the real part is taken at the end */
            pu__fourier_forward(f, g + D, g, zi, zr, work + 2 * D);
        } else {
            for (r = 0; r < m; r++) { /* z = fold(g) + i fold(gg) */
                const pu_int u = r * n, v = r > 0 ? (m - r) * n : 0;
                pu__fourier_fold(n, g + u, g + v, h, h, zr + u, 0);
                pu__fourier_fold(n, gg + D + u, gg + D + v, -h, h, zr + u, 1);
                pu__fourier_fold(n, g + D + u, g + D + v, h, -h, zi + u, 0);
                pu__fourier_fold(n, gg + u, gg + v, h, h, zi + u, 1);
            }
            pu__fourier_forward(f, zi, zr, zi, zr, work + 2 * D);
        }
        if (add) pu__axpy(D, 1, zr, pu__col(Y, j));
        else pu__copy(pu__col(Y, j), zr, D);
        if (pair && add) pu__axpy(D, 1, zi, pu__col(Y, j + 1));
        else if (pair) pu__copy(pu__col(Y, j + 1), zi, D);
    }
    return PU_OK;
}

/* x into strips of PU__FFT_LANES columns, a strip's rows next to each other and a gap of one row after them, so that no step from
   strip to strip is a power of two. Large images are read and written row by row, which the caches foresee. */
PU__FN void pu__fourier_strips(pu_int m, pu_int n, const pu_real *PU__RESTRICT x, pu_real *PU__RESTRICT z)
{
    pu_int r, j, i;
    for (r = 0; r < m; r++)
        for (j = 0; j < n; j += PU__FFT_LANES) {
            const pu_int l = pu__min(PU__FFT_LANES, n - j);
            const pu_real *from = x + r * n + j;
            pu_real *to = z + j * (m + 1) + r * l;
            if (l == PU__FFT_LANES) for (i = 0; i < l; i += PU__LINE) *pu__l(to + i) = *pu__cl(from + i);
            else for (i = 0; i < l; i++) to[i] = from[i];
        }
}

/* z = F^H (s o F x) without scaling, for pu__fourier_gram: down the columns, along the rows and back while a strip of rows is
   in the cache, up the columns, all in the strips of above, of (m + 1) n numbers. Rows are transposed twice instead of four
   times. s: strips of rows, transposed. rest: f->work. */
PU__FN void pu__fourier_sandwich(const pu_fourier *f, const pu_real *s, const pu_real *xr, const pu_real *xi,
                                 pu__gram_column *first, pu__gram_column *second, pu_real *zr, pu_real *zi, pu_real *rest)
{
    const pu_int n = f->along.n, m = f->down.n, L = PU__FFT_LANES;
    /* images in the second-level cache: the first pass reads them where they are, a line at a time */
    const int near = m <= 256 * 1024 / (2 * (pu_int)sizeof(pu_real)) / n;
    pu_int i, j, q, l, at;
    if (!near) pu__fourier_strips(m, n, xr, zr), pu__fourier_strips(m, n, xi, zi);
    for (j = 0; j < n; j += L) {
        l = pu__min(L, n - j), at = j * (m + 1);
        if (near) pu__fft_lanes(&f->down, l, xr + j, xi + j, n, zr + at, zi + at, l, rest);
        else pu__fft_lanes(&f->down, l, zr + at, zi + at, l, zr + at, zi + at, l, rest);
    }
    for (i = 0; i < m; i += L) {
        const pu_int h = pu__min(L, m - i);
        pu_real *tr = rest, *ti = rest + n * h, *work = rest + 2 * n * h;
        for (j = 0; j < n; j += L) {
            l = pu__min(L, n - j), at = j * (m + 1) + i * l;
            pu__fourier_turn(h, l, 1, zr + at, tr + j * h), pu__fourier_turn(h, l, 1, zi + at, ti + j * h);
        }
        pu__fft_lanes(&f->along, h, tr, ti, h, tr, ti, h, work);
        for (q = 0; q < n * h; q++) tr[q] *= s[i * n + q];
        for (q = 0; q < n * h; q++) ti[q] *= s[i * n + q];
        pu__fft_lanes(&f->along, h, ti, tr, h, ti, tr, h, work); /* exchanged: the inverse */
        for (j = 0; j < n; j += L) {
            l = pu__min(L, n - j), at = j * (m + 1) + i * l;
            pu__fourier_turn(l, h, 1, tr + j * h, zr + at), pu__fourier_turn(l, h, 1, ti + j * h, zi + at);
        }
    }
    for (j = 0; j < n; j += L) {
        l = pu__min(L, n - j), at = j * (m + 1);
        pu__fft_lanes(&f->down, l, zi + at, zr + at, l, zi + at, zr + at, l, rest);
    }
    pu__gram_close(first, m, n, zr, L, m + 1), pu__gram_close(second, m, n, zi, L, m + 1);
}

/* Phi' diag(u, v) Phi of two real columns as one complex z without taking them apart: with the means a, b of u, v over a
   frequency and its negative, s = (a + b)/2 and t = (a - b)/2, it is F^H (s_m Z_m + t_m Z_-m). t = 0 where real and imaginary
   part of each frequency weigh the same. made: s, t, and whether there is any t; s with the scale of two transforms and in
   strips of rows, transposed, where nothing else touches the frequencies. */
PU__FN void pu__fourier_gram_make(const pu_op *op, const pu_real *w, pu_real *made)
{
    const pu_fourier *f = (const pu_fourier *)op->data;
    const pu_int D = op->cols, n = f->along.n, m = f->down.n;
    const int unequal = memcmp(w, w + D, (size_t)D * sizeof(pu_real)) != 0, strips = !unequal && !f->fftw;
    const pu_real quarter = PU_R(0.25) * (unequal ? 1 : f->scale * f->scale);
    pu_real *s = made, *t = made + D, *to = strips ? t : s;
    pu_int r;
    made[2 * D] = unequal ? 1 : 0;
    for (r = 0; r < m; r++) {
        const pu_int a = r * n, b = r > 0 ? (m - r) * n : 0;
        pu__fourier_fold(n, w + a, w + b, quarter, quarter, to + a, 0);
        pu__fourier_fold(n, w + D + a, w + D + b, quarter, quarter, to + a, 1);
        if (strips) continue;
        pu__fourier_fold(n, w + a, w + b, quarter, quarter, t + a, 0);
        pu__fourier_fold(n, w + D + a, w + D + b, -quarter, -quarter, t + a, 1);
    }
    for (r = 0; r < m && strips; r += PU__FFT_LANES)
        pu__fourier_turn(pu__min(PU__FFT_LANES, m - r), n, 1, t + r * n, s + r * n);
}

/* Reals of `made` for pu__fourier_gram_make: s, t and the flag, of which one is used. The rest keeps what follows aligned. */
PU__FN pu_int pu__fourier_gram_size(const pu_op *op) { return 2 * op->cols + (pu_int)(PU__ALIGN / sizeof(pu_real)); }

/* Y_j = c_j (Phi' W Phi + diag(a)) p_j, or Y_j += that, for all pairs; Y.at NULL: not wanted, c NULL: ones, weight is not used.
   s_j = q_j' Phi' W Phi p_j and t_j = q_j' diag(a) p_j, without c_j; both NULL: not wanted. a NULL: no diagonal, no sums and no
   c_j but 0 and 1. Where c_j = 0 nothing is read, s_j = t_j = 0, and Y_j stays as it is.
   made: of pu__fourier_gram_make. work: 2 (D + n) + f->work. */
PU__FN pu_status pu__fourier_gram_pairs(const pu_op *op, const pu_real *made, const pu_real *a, const pu__pairs *pairs, int add,
                                        double *s, double *t, pu_real *work)
{
    const pu_fourier *f = (const pu_fourier *)op->data;
    const pu_int D = op->cols, n = f->along.n, m = f->down.n, k = pairs->k;
    pu_real *zr = work, *zi = work + D + n, *rest = zi + D + n;
    const pu_real *equal = made, *other = made + D;
    pu_int i, j, l, b;
    for (j = 0; j < k; j += 2) {
        pu__gram_column o[2];
        const pu_real *xr, *xi;
        for (l = 0; l < 2; l++) {
            const pu_real cj = j + l == k ? 0 : pairs->c ? pairs->c[j + l] : 1;
            memset(o + l, 0, sizeof *o);
            if (cj == 0) continue;
            o[l].used = 1, o[l].add = add, o[l].c = cj, o[l].a = a, o[l].p = pu__col(pairs->P, j + l);
            if (a) o[l].q = pu__col(pairs->Q, j + l);
            if (pairs->Y.at) o[l].y = pu__col(pairs->Y, j + l);
        }
        xr = o[0].used ? o[0].p : o[1].p, xi = o[1].used ? o[1].p : o[0].p; /* the place of a column that is not there */
        if (xr && made[2 * D] == 0) {
            if (f->fftw) pu__fftw_sandwich(f->fftw, m, n, equal, xr, xi, o, o + 1, rest);
            else pu__fourier_sandwich(f, equal, xr, xi, o, o + 1, zr, zi, rest);
        } else if (xr) {
            pu__fourier_forward(f, xr, xi, zr, zi, rest);
            for (i = 0; i < D; i++) {
                const pu_real re = zr[i], im = zi[i];
                b = (i / n > 0 ? m - i / n : 0) * n + (i % n > 0 ? n - i % n : 0);
                if (i > b) continue; /* done with its partner */
                zr[i] = equal[i] * re + other[i] * zr[b], zi[i] = equal[i] * im + other[i] * zi[b];
                if (i < b) zr[b] = equal[b] * zr[b] + other[b] * re, zi[b] = equal[b] * zi[b] + other[b] * im;
            }
            pu__fourier_forward(f, zi, zr, zi, zr, rest); /* exchanged: the inverse */
            pu__gram_close(o, m, n, zr, n, 0), pu__gram_close(o + 1, m, n, zi, n, 0);
        }
        for (l = 0; l < 2 && j + l < k && s; l++) s[j + l] = o[l].s, t[j + l] = o[l].t;
    }
    return PU_OK;
}

/* The product as a field of pu_op, until that field goes. */
PU__FN pu_status pu__fourier_gram_plus(const pu_op *op, const pu_real *made, const pu_real *a, pu_int k, const pu_real *c,
                                       pu_block P, pu_block Q, pu_block Y, int add, double *s, double *t, pu_real *work)
{
    pu__pairs pairs;
    memset(&pairs, 0, sizeof pairs);
    pairs.k = k;
    pairs.c = c;
    pairs.P = P;
    pairs.Q = Q;
    pairs.Y = Y;
    return pu__fourier_gram_pairs(op, made, a, &pairs, add, s, t, work);
}

/* Y = Phi' diag(w) Phi X, or Y += that. work: op->work. */
PU__FN pu_status pu__fourier_gram(const pu_op *op, const pu_real *w, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    pu__pairs pairs;
    memset(&pairs, 0, sizeof pairs);
    pairs.k = k;
    pairs.P = X;
    pairs.Y = Y;
    pu__fourier_gram_make(op, w, work);
    return pu__fourier_gram_pairs(op, work, NULL, &pairs, add, NULL, NULL, work + pu__fourier_gram_size(op));
}

/* no parameters: nothing to add */
PU__FN pu_status pu__fourier_grad(const pu_op *op, pu_int k, pu_block P, pu_block Q, const pu_real *weight,
                                  pu_real *grad, pu_real *work)
{
    (void)op, (void)k, (void)P, (void)Q, (void)weight, (void)grad, (void)work;
    return PU_OK;
}

/* With weights u of the real and v of the imaginary rows, cos^2 a, sin^2 a = (1 +- cos 2a) / 2 give
     y_d += 1/D sum_m (u_m + v_m)/2  +  1/D sum_m (u_m - v_m)/2 cos 2 a_md,
   and the second sum is sqrt(D) Re F((u - v)/2) at the frequency 2 d. It is zero, and no transform is made, when real
   and imaginary part of every frequency weigh the same. Rounding is that of the first term, also where the sum is 0. */
PU__FN pu_status pu__fourier_gram_diag(const pu_op *op, const pu_real *w, pu_real *y, pu_real *work)
{
    const pu_fourier *f = (const pu_fourier *)op->data;
    const pu_int D = op->cols, n = f->along.n, m = f->down.n;
    pu_real *zr = work, *zi = work + D, mean;
    double sum = 0;
    pu_int i, r, c, unequal = 0;
    for (i = 0; i < 2 * D; i++) sum += (double)w[i];
    mean = (pu_real)(sum / 2 / (double)D);
    for (i = 0; i < D; i++) zr[i] = (w[i] - w[D + i]) * PU_R(0.5), unequal += w[i] != w[D + i];
    if (!unequal) {
        for (i = 0; i < D; i++) y[i] += mean;
        return PU_OK;
    }
    pu__fourier_forward(f, zr, NULL, zr, zi, work + 2 * D);
    for (r = 0; r < m; r++)
        for (c = 0; c < n; c++) y[r * n + c] += mean + f->scale * zr[2 * r % m * n + 2 * c % n];
    return PU_OK;
}

PU__FN pu_status pu__fourier_check(const pu_op *op, pu_int *index)
{
    const pu_fourier *f = (const pu_fourier *)op->data;
    *index = -1;
    if (!f || !f->along.table) return PU_E_NULL;
    return f->rows * f->cols == op->cols ? PU_OK : PU_E_SIZE; /* made anew for another size since */
}

PU_DEF pu_op pu_op_fourier(const pu_fourier *f)
{
    pu_op op = pu__op_zero(f ? 2 * f->rows * f->cols : 0, f ? f->rows * f->cols : 0, 0, f); /* zero sizes are refused */
    if (!f) return op;
    op.form = PU_FORM_FOURIER;
    op.apply = pu__fourier_apply, op.apply_t = pu__fourier_apply_t, op.grad = pu__fourier_grad;
    op.gram_diag = pu__fourier_gram_diag, op.check = pu__fourier_check;
    /* gram_size */
    op.work = pu__fourier_gram_size(&op) + 2 * (op.cols + f->along.n) + f->work;
    op.flops = 4 * (double)op.cols * log2((double)op.cols + 1); /* as long as that many in other loops take */
    op.trusted = 1;
    return op;
}

/* ------------------------------------------------------------------------------------------------
   >>toeplitz   symmetric Toeplitz and circulant operators
   ------------------------------------------------------------------------------------------------ */

/* ---- symmetric Toeplitz and circulant: row i is a window of n entries into a sequence s, entry (i, j) = s[n - i + j].
   The products are direct, O(n^2), one contiguous dot per row. An FFT (length 2n, or n for the circulant) belongs into
   pu__window_apply: the kernel s is the only thing it needs. ---- */

PU__FN void pu__toeplitz_window(pu_int n, const pu_real *t, pu_real *s) /* s: 2n */
{
    pu_int i;
    s[0] = 0; /* no row reaches it */
    for (i = 0; i < n; i++) s[n + i] = t[i];
    for (i = 1; i < n; i++) s[n - i] = t[i];
}

PU__FN void pu__circulant_window(pu_int n, const pu_real *c, pu_real *s)
{
    pu_int i;
    for (i = 0; i < n; i++) s[i] = c[i < n - i ? i : n - i];
    memcpy(s + n, s, (size_t)n * sizeof *s);
}

PU__FN void pu__window_apply(pu_int n, const pu_real *s, pu_int k, pu_block X, pu_block Y, int add)
{
    pu_int i, j;
    for (i = 0; i < n; i++)
        for (j = 0; j < k; j++) {
            pu_real v = (pu_real)pu__dot(n, NULL, s + n - i, pu__col(X, j));
            pu__col(Y, j)[i] = add ? pu__col(Y, j)[i] + v : v;
        }
}

/* y_i += sum_m w_m s_im^2: the same product with the squares */
PU__FN void pu__window_gram(pu_int n, pu_real *s, const pu_real *w, pu_real *y)
{
    pu_int i;
    for (i = 0; i < 2 * n; i++) s[i] *= s[i];
    for (i = 0; i < n; i++) y[i] += (pu_real)pu__dot(n, NULL, s + n - i, w);
}

PU__FN pu_status pu__window_diag(const pu_op *op, pu_real *y, pu_real *work)
{
    pu_int i;
    (void)work;
    for (i = 0; i < op->rows; i++) y[i] += ((const pu_real *)op->data)[0];
    return PU_OK;
}

/* finite, and the copy kept with the factor is of these very numbers */
PU__FN pu_status pu__window_check(const pu_op *op, const pu_real *copy, pu_int *index)
{
    const pu_real *t = (const pu_real *)op->data;
    pu_status status = pu__check_finite(op->params, t, index);
    pu_int i;
    for (i = 0; i < op->params && copy && !status; i++)
        if (!(copy[i] == t[i])) { *index = i; return PU_E_ARGUMENT; } /* stale factor */
    return status;
}

PU__FN pu_status pu__toeplitz_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    pu__toeplitz_window(op->rows, (const pu_real *)op->data, work);
    pu__window_apply(op->rows, work, k, X, Y, add);
    return PU_OK;
}

/* lag sums: sum_i p_i q_{i+l} + p_{i+l} q_i */
PU__FN pu_status pu__toeplitz_grad(const pu_op *op, pu_int k, pu_block P, pu_block Q, const pu_real *weight,
                                   pu_real *grad, pu_real *work)
{
    const pu_int n = op->rows;
    pu_int j, l;
    (void)work;
    for (j = 0; j < k; j++) {
        const pu_real *p = pu__col(P, j), *q = pu__col(Q, j);
        if (weight[j] == 0) continue;
        grad[0] += weight[j] * (pu_real)pu__dot(n, NULL, p, q);
        for (l = 1; l < n; l++)
            grad[l] += weight[j] * (pu_real)(pu__dot(n - l, NULL, p, q + l) + pu__dot(n - l, NULL, p + l, q));
    }
    return PU_OK;
}

PU__FN pu_status pu__toeplitz_gram_diag(const pu_op *op, const pu_real *w, pu_real *y, pu_real *work)
{
    pu__toeplitz_window(op->rows, (const pu_real *)op->data, work);
    pu__window_gram(op->rows, work, w, y);
    return PU_OK;
}

/* Durbin and Levinson: from the best predictor of y_{m-1} from all entries before it to that of y_m,
     phi_j := phi_j - kappa phi_{m-j},  j < m,   phi_m = kappa,
   with phi_j in z[n - j]: the m coefficients then lie in the order of y_0 .. y_{m-1}. */
PU__FN void pu__levinson_step(pu_int n, pu_int m, pu_real kappa, pu_real *z)
{
    pu_real *f = z + n - m, *b = z + n; /* b[-j], f[j] */
    pu_int j;
    for (j = 1; 2 * j < m; j++) {
        const pu_real x = b[-j], y = f[j];
        b[-j] = x - kappa * y, f[j] = y - kappa * x;
    }
    if (2 * j == m) f[j] -= kappa * f[j];
    f[0] = kappa;
}

/* y_m = sum_j phi_j y_{m-j} + sqrt(v_m) e_m, v_m = v_{m-1} (1 - kappa_m^2): T's own Cholesky factor, a row at a time */
PU__FN pu_status pu__toeplitz_sample(const pu_op *op, pu_int k, pu_block E, pu_block Y, pu_real *work)
{
    const pu_int n = op->rows;
    const pu_real *kappa = (const pu_real *)op->aux;
    pu_real root = pu__sqrt(kappa[0]);
    pu_int j, m;
    for (m = 0; m < n; m++) {
        if (m > 0) {
            pu__levinson_step(n, m, kappa[m], work);
            root *= pu__sqrt((1 - kappa[m]) * (1 + kappa[m]));
        }
        for (j = 0; j < k; j++) {
            pu_real *y = pu__col(Y, j);
            y[m] = (pu_real)(pu__dot(m, NULL, work + n - m, y) + (double)root * (double)pu__col(E, j)[m]);
        }
    }
    return PU_OK;
}

/* log v_0 + .. + log v_{n-1} = n log t_0 + sum_m (n - m) log(1 - kappa_m^2); *last: log v_{n-1} */
PU__FN double pu__toeplitz_logs(pu_int n, const pu_real *kappa, double *last)
{
    double sum = (double)n * log((double)kappa[0]);
    pu_int m;
    *last = log((double)kappa[0]);
    for (m = 1; m < n; m++) {
        const double step = log((1 - (double)kappa[m]) * (1 + (double)kappa[m]));
        sum += (double)(n - m) * step;
        *last += step;
    }
    return sum;
}

PU__FN pu_status pu__toeplitz_logdet(const pu_op *op, double *value, pu_real *work)
{
    double last;
    (void)work;
    *value = pu__toeplitz_logs(op->rows, (const pu_real *)op->aux, &last);
    return PU_OK;
}

/* d log det / d t_l = sum of T^-1 over |i - j| = l. By Gohberg and Semencul v T^-1 = L L' - H H' with lower
   Toeplitz matrices L, H of first columns a = (1, -phi_1, ..) and (0, a_{n-1}, .., a_1), v = v_{n-1};
   summed along a diagonal,
     sum_i (T^-1)_{i,i+l} = (1/v) sum_j (n - l - 2j) a_j a_{j+l}. */
PU__FN pu_status pu__toeplitz_logdet_grad(const pu_op *op, pu_real weight, pu_real *grad, pu_real *work)
{
    const pu_int n = op->rows;
    const pu_real *kappa = (const pu_real *)op->aux;
    pu_real *a = work, *ja = work + n;
    double last, scale;
    pu_int j, l, m;
    (void)pu__toeplitz_logs(n, kappa, &last);
    scale = (double)weight * exp(-last);
    for (m = 1; m < n; m++) pu__levinson_step(n, m, kappa[m], ja); /* phi_j in ja[n - j] */
    a[0] = 1;
    for (j = 1; j < n; j++) a[j] = -ja[n - j];
    for (j = 0; j < n; j++) ja[j] = (pu_real)j * a[j];
    for (l = 0; l < n; l++) {
        double s = (double)(n - l) * pu__dot(n - l, NULL, a, a + l) - 2 * pu__dot(n - l, NULL, ja, a + l);
        grad[l] += (pu_real)((l ? 2 : 1) * scale * s);
    }
    return PU_OK;
}

PU__FN pu_status pu__toeplitz_check(const pu_op *op, pu_int *index)
{
    return pu__window_check(op, op->aux ? (const pu_real *)op->aux + op->rows : NULL, index);
}

PU_DEF pu_op pu_op_toeplitz(pu_int n, const pu_real *t, const pu_real *factor)
{
    pu_op op = pu__op_zero(n, n, n, t);
    op.aux = factor, op.work = n > PTRDIFF_MAX / 2 ? PTRDIFF_MAX : n > 0 ? 2 * n : 0;
    op.apply = op.apply_t = pu__toeplitz_apply, op.grad = pu__toeplitz_grad;
    op.diag = pu__window_diag, op.gram_diag = pu__toeplitz_gram_diag, op.check = pu__toeplitz_check;
    op.flops = (double)n * (double)n;
    if (factor)
        op.sample = pu__toeplitz_sample, op.logdet = pu__toeplitz_logdet, op.logdet_grad = pu__toeplitz_logdet_grad;
    return op;
}

/* factor = [t_0, kappa_1 .. kappa_{n-1} | copy of t]; the second half holds the predictor until the end */
PU_DEF pu_status pu_toeplitz_factor(pu_int n, const pu_real *t, pu_real *factor, pu_int *index)
{
    pu_real *z;
    double v;
    pu_int m, at = -1;
    pu_status status;
    if (index) *index = -1;
    if (!t || !factor) return PU_E_NULL;
    if (n <= 0) return PU_E_ARGUMENT;
    if (n > PTRDIFF_MAX / 2) return PU_E_OVERFLOW;
    status = pu__check_finite(n, t, &at);
    if (!status) {
        z = factor + n, v = (double)t[0], factor[0] = t[0];
        if (!(v > 0)) status = PU_E_NOT_DEFINITE, at = 0;
        for (m = 1; m < n && !status; m++) { /* kappa_m = (t_m - sum_{j<m} phi_j t_{m-j}) / v_{m-1} */
            factor[m] = (pu_real)(((double)t[m] - pu__dot(m - 1, NULL, z + n - m + 1, t + 1)) / v);
            v *= (1 - (double)factor[m]) * (1 + (double)factor[m]);
            if (!(v > 0 && pu__finite_double(v))) status = PU_E_NOT_DEFINITE, at = m;
            else pu__levinson_step(n, m, factor[m], z);
        }
        if (!status) memcpy(factor + n, t, (size_t)n * sizeof *t);
    }
    if (index) *index = at;
    return status;
}

PU__FN pu_status pu__circulant_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    pu__circulant_window(op->rows, (const pu_real *)op->data, work);
    pu__window_apply(op->rows, work, k, X, Y, add);
    return PU_OK;
}

/* 1 for the lags that occur once per row (0, and n/2 for even n), else 2 */
PU__FN pu_int pu__circulant_times(pu_int n, pu_int lag) { return lag == 0 || 2 * lag == n ? 1 : 2; }

/* lag sums around the circle: sum_i p_i q_{i+l} and, where the lag occurs twice, p_{i+l} q_i */
PU__FN pu_status pu__circulant_grad(const pu_op *op, pu_int k, pu_block P, pu_block Q, const pu_real *weight,
                                    pu_real *grad, pu_real *work)
{
    const pu_int n = op->rows;
    pu_int j, l;
    (void)work;
    for (j = 0; j < k; j++) {
        const pu_real *p = pu__col(P, j), *q = pu__col(Q, j);
        if (weight[j] == 0) continue;
        for (l = 0; l < op->params; l++) {
            double s = pu__dot(n - l, NULL, p, q + l) + pu__dot(l, NULL, p + n - l, q);
            if (pu__circulant_times(n, l) == 2) s += pu__dot(n - l, NULL, p + l, q) + pu__dot(l, NULL, p, q + n - l);
            grad[l] += weight[j] * (pu_real)s;
        }
    }
    return PU_OK;
}

PU__FN pu_status pu__circulant_gram_diag(const pu_op *op, const pu_real *w, pu_real *y, pu_real *work)
{
    pu__circulant_window(op->rows, (const pu_real *)op->data, work);
    pu__window_gram(op->rows, work, w, y);
    return PU_OK;
}

/* F = Op^1/2, a circulant itself */
PU__FN pu_status pu__circulant_sample(const pu_op *op, pu_int k, pu_block E, pu_block Y, pu_real *work)
{
    pu__circulant_window(op->rows, (const pu_real *)op->aux + op->params, work);
    pu__window_apply(op->rows, work, k, E, Y, 0);
    return PU_OK;
}

PU__FN pu_status pu__circulant_logdet(const pu_op *op, double *value, pu_real *work)
{
    const pu_real *eigen = (const pu_real *)op->aux;
    pu_int l;
    (void)work;
    *value = 0;
    for (l = 0; l < op->params; l++) *value += (double)pu__circulant_times(op->rows, l) * log((double)eigen[l]);
    return PU_OK;
}

/* the entry of Op^-1 at lag l, as often as it occurs */
PU__FN pu_status pu__circulant_logdet_grad(const pu_op *op, pu_real weight, pu_real *grad, pu_real *work)
{
    const pu_real *inverse = (const pu_real *)op->aux + 2 * op->params;
    pu_int l;
    (void)work;
    for (l = 0; l < op->params; l++)
        grad[l] += weight * (pu_real)(op->rows * pu__circulant_times(op->rows, l)) * inverse[l];
    return PU_OK;
}

PU__FN pu_status pu__circulant_check(const pu_op *op, pu_int *index)
{
    return pu__window_check(op, op->aux ? (const pu_real *)op->aux + 3 * op->params : NULL, index);
}

PU_DEF pu_op pu_op_circulant(pu_int n, const pu_real *c, const pu_real *factor)
{
    pu_op op = pu__op_zero(n, n, n > 0 ? n / 2 + 1 : 0, c);
    op.aux = factor, op.work = n > PTRDIFF_MAX / 2 ? PTRDIFF_MAX : n > 0 ? 2 * n : 0;
    op.apply = op.apply_t = pu__circulant_apply, op.grad = pu__circulant_grad;
    op.diag = pu__window_diag, op.gram_diag = pu__circulant_gram_diag, op.check = pu__circulant_check;
    op.flops = (double)n * (double)n;
    if (factor)
        op.sample = pu__circulant_sample, op.logdet = pu__circulant_logdet, op.logdet_grad = pu__circulant_logdet_grad;
    return op;
}

/* out_f = scale sum_l times_l x_l cos(2 pi f l / n): the DFT of an even sequence given by its lags, or with scale = 1/n
   the inverse. cosine: n/2 + 1 values of cos(2 pi j / n). */
PU__FN void pu__circulant_dft(pu_int n, const pu_real *cosine, const pu_real *x, double scale, pu_real *out)
{
    const pu_int half = n / 2 + 1;
    pu_int f, l, at;
    for (f = 0; f < half; f++) {
        double s = 0;
        for (l = 0, at = 0; l < half; l++) {
            s += (double)pu__circulant_times(n, l) * ((double)x[l] * (double)cosine[at < n - at ? at : n - at]);
            at = at < n - f ? at + f : at - (n - f); /* f l mod n */
        }
        out[f] = (pu_real)(scale * s);
    }
}

/* factor = [eigenvalues | lags of the root | lags of the inverse | copy of c]; the last part holds the cosines, and the
   two before it what is to be transformed */
PU_DEF pu_status pu_circulant_factor(pu_int n, const pu_real *c, pu_real *factor, pu_int *index)
{
    pu_real *eigen, *root, *inverse, *copy;
    pu_int l, half, at = -1;
    pu_status status;
    if (index) *index = -1;
    if (!c || !factor) return PU_E_NULL;
    if (n <= 0) return PU_E_ARGUMENT;
    if (n > PTRDIFF_MAX / 4) return PU_E_OVERFLOW;
    half = n / 2 + 1;
    eigen = factor, root = factor + half, inverse = factor + 2 * half, copy = factor + 3 * half;
    status = pu__check_finite(half, c, &at);
    if (!status) {
        for (l = 0; l < half; l++) copy[l] = (pu_real)cos(6.283185307179586477 * (double)l / (double)n);
        pu__circulant_dft(n, copy, c, 1, eigen);
        for (l = 0; l < half && !status; l++)
            if (!(eigen[l] > 0 && pu__finite(eigen[l]))) status = PU_E_NOT_DEFINITE, at = l;
        for (l = 0; l < half && !status; l++) inverse[l] = pu__sqrt(eigen[l]);
        if (!status) pu__circulant_dft(n, copy, inverse, 1 / (double)n, root);
        /* 1/lambda takes the place of lambda for one transform: there is no other room */
        for (l = 0; l < half && !status; l++) eigen[l] = 1 / eigen[l];
        if (!status) pu__circulant_dft(n, copy, eigen, 1 / (double)n, inverse);
        if (!status) pu__circulant_dft(n, copy, c, 1, eigen);
        if (!status) memcpy(copy, c, (size_t)half * sizeof *c);
    }
    if (index) *index = at;
    return status;
}

/* ------------------------------------------------------------------------------------------------
   >>check   observations, and the checks of what a caller hands in
   ------------------------------------------------------------------------------------------------ */

/* N data of m entries, all there. */
PU_DEF pu_data pu_data_full(pu_int n, pu_int m, const pu_real *y)
{
    pu_data data;
    memset(&data, 0, sizeof data);
    data.n = n;
    data.m = m;
    data.y = y;
    data.kind = PU_DATA_FULL;
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
    const pu_int at = pu__datum(data, n);
    return (uint32_t)(data->id ? data->id[at] : at);
}

/* Distance between rows of y and mask. */
PU__FN pu_int pu__data_stride(const pu_data *data) { return data->ldy ? data->ldy : data->m; }

/* Next observed entry of datum n at or after position p (a row, or a place in the list); -1 at the end. */
PU__FN pu_int pu__observed(const pu_data *data, pu_int n, pu_int p, pu_int *row, pu_real *y)
{
    const pu_int at = pu__datum(data, n);
    const pu_int from = at * pu__data_stride(data);
    if (data->kind == PU_DATA_LISTS) {
        const pu_int place = data->start[at] + p;
        if (place >= data->start[at + 1]) return -1;
        *row = data->index[place];
        *y = data->y[place];
        return p;
    }
    for (; p < data->m; p++) {
        if (data->kind == PU_DATA_MASKED && !data->mask[from + p]) continue;
        *y = data->y[from + p];
        if (data->kind == PU_DATA_NAN && *y != *y) continue;
        *row = p;
        return p;
    }
    return -1;
}

/* How many entries of datum n are observed. Lists and complete data are not read for it. */
PU__FN pu_int pu__count_observed(const pu_data *data, pu_int n)
{
    const pu_int at = pu__datum(data, n);
    const pu_int from = at * pu__data_stride(data);
    pu_int p, count = 0;
    if (data->kind == PU_DATA_LISTS) return data->start[at + 1] - data->start[at];
    if (data->kind == PU_DATA_FULL) return data->m;
    if (data->kind == PU_DATA_MASKED) {
        for (p = 0; p < data->m; p++) count += data->mask[from + p] != 0;
        return count;
    }
    for (p = 0; p < data->m; p++) count += data->y[from + p] == data->y[from + p];
    return count;
}

/* Entries of x: finite, and positive where they must be. */
PU__FN pu_status pu__check_array(pu_int n, const pu_real *x, int positive, const char *name, pu_int datum, pu_report *report)
{
    pu_int i;
    for (i = 0; i < n; i++) {
        if (!pu__finite(x[i])) return pu__fail(report, PU_E_NONFINITE, name, datum, i);
        if (positive && !(x[i] > 0)) return pu__fail(report, PU_E_NOT_POSITIVE, name, datum, i);
    }
    return PU_OK;
}

/* Lists: starts ascend, rows strictly increase and exist. All of start is looked at before any of index, since a wrong start
   must not lead beyond its end. */
PU__FN pu_status pu__check_lists(const pu_data *data, pu_report *report)
{
    pu_int n, p;
    if (!data->start) return pu__refuse(report, PU_E_NULL, "data.start");
    if (!data->index) return pu__refuse(report, PU_E_NULL, "data.index");
    for (n = 0; n < data->n; n++) {
        const pu_int at = pu__datum(data, n);
        if (data->start[at] < 0) return pu__fail(report, PU_E_ARGUMENT, "data.start", n, at);
        if (data->start[at + 1] < data->start[at]) return pu__fail(report, PU_E_ARGUMENT, "data.start", n, at + 1);
    }
    for (n = 0; n < data->n; n++) {
        const pu_int at = pu__datum(data, n);
        pu_int least = 0;
        for (p = data->start[at]; p < data->start[at + 1]; p++) {
            if (data->index[p] < least || data->index[p] >= data->m) return pu__fail(report, PU_E_ARGUMENT, "data.index", n, p);
            least = data->index[p] + 1;
        }
    }
    return PU_OK;
}

/* Sizes, pointers and lists of the data, without reading an observation. */
PU__FN pu_status pu__check_data_shape(const pu_data *data, pu_int M, pu_report *report)
{
    pu_int n;
    int overflow = 0;
    if (!data) return pu__refuse(report, PU_E_NULL, "data");
    if (data->n <= 0) return pu__refuse(report, PU_E_ARGUMENT, "data.n");
    if (data->m != M) return pu__refuse(report, PU_E_SIZE, "data.m");
    if (data->n > UINT32_MAX) return pu__refuse(report, PU_E_OVERFLOW, "data.n");
    if ((int)data->kind < PU_DATA_FULL || (int)data->kind > PU_DATA_LISTS)
        return pu__refuse(report, PU_E_ARGUMENT, "data.kind");
    if (data->ldy && data->ldy < data->m) return pu__refuse(report, PU_E_SIZE, "data.ldy");
    if (!data->y) return pu__refuse(report, PU_E_NULL, "data.y");
    if (data->kind == PU_DATA_MASKED && !data->mask) return pu__refuse(report, PU_E_NULL, "data.mask");
    if (data->pick)
        for (n = 0; n < data->n; n++)
            if (data->pick[n] < 0 || data->pick[n] > UINT32_MAX) return pu__fail(report, PU_E_ARGUMENT, "data.pick", n, n);
    if (data->kind == PU_DATA_LISTS) {
        const pu_status status = pu__check_lists(data, report);
        if (status) return status;
    } else {
        const size_t entries = pu__mul((size_t)data->n, (size_t)pu__data_stride(data), &overflow);
        (void)pu__mul(entries, sizeof(pu_real), &overflow);
        if (overflow) return pu__refuse(report, PU_E_OVERFLOW, data->ldy ? "data.ldy" : "data.n");
    }
    if (data->id)
        for (n = 0; n < data->n; n++) {
            const pu_int id = data->id[pu__datum(data, n)];
            if (id < 0 || id > UINT32_MAX) return pu__fail(report, PU_E_ARGUMENT, "data.id", n, n);
        }
    return PU_OK;
}

/* Observations of datum n: finite. Returns their number, or -1 with the report filled in. */
PU__FN pu_int pu__check_datum(const pu_data *data, pu_int n, pu_report *report)
{
    pu_int p, row = 0, count = 0;
    pu_real y = 0;
    for (p = 0; (p = pu__observed(data, n, p, &row, &y)) >= 0; p++) {
        if (!pu__finite(y)) {
            (void)pu__fail(report, PU_E_NONFINITE, "data.y", n, row);
            return -1;
        }
        count++;
    }
    return count;
}

/* Everything about the data: for calls that make no job. */
PU__FN pu_status pu__check_data(const pu_data *data, pu_int M, pu_report *report)
{
    const pu_status status = pu__check_data_shape(data, M, report);
    pu_int n;
    if (status) return status;
    for (n = 0; n < data->n; n++)
        if (pu__check_datum(data, n, report) < 0) return report->status;
    return PU_OK;
}

/* Sizes and functions of the two operators, before any of them is called. */
PU__FN pu_status pu__check_model(const pu_lgm *model, pu_report *report)
{
    const pu_op *G, *P;
    if (!model) return pu__refuse(report, PU_E_NULL, "model");
    G = model->Gamma;
    P = model->Phi;
    if (!G) return pu__refuse(report, PU_E_NULL, "model.Gamma");
    if (!P) return pu__refuse(report, PU_E_NULL, "model.Phi");
    if (!model->psi) return pu__refuse(report, PU_E_NULL, "model.psi");
    if (G->rows <= 0) return pu__refuse(report, PU_E_ARGUMENT, "Gamma.rows");
    if (P->rows <= 0) return pu__refuse(report, PU_E_ARGUMENT, "Phi.rows");
    if (G->noise < 0) return pu__refuse(report, PU_E_ARGUMENT, "Gamma.noise");
    if (G->params < 0 || G->rows > UINT32_MAX || G->noise > UINT32_MAX) return pu__refuse(report, PU_E_OVERFLOW, "Gamma");
    if (P->params < 0 || P->rows > UINT32_MAX) return pu__refuse(report, PU_E_OVERFLOW, "Phi");
    if (G->cols != G->rows) return pu__refuse(report, PU_E_SIZE, "Gamma.cols");
    if (P->cols != G->rows) return pu__refuse(report, PU_E_SIZE, "Phi.cols");
    if (G->work < 0) return pu__refuse(report, PU_E_ARGUMENT, "Gamma.work");
    if (P->work < 0) return pu__refuse(report, PU_E_ARGUMENT, "Phi.work");
    if (!G->apply) return pu__refuse(report, PU_E_NULL, "Gamma.apply");
    if (!P->apply) return pu__refuse(report, PU_E_NULL, "Phi.apply");
    if (!P->apply_t) return pu__refuse(report, PU_E_NULL, "Phi.apply_t");
    return PU_OK;
}

/* A function of an operator reported failure. */
PU__FN pu_status pu__operator_failed(pu_report *report, const char *what, pu_int datum)
{
    return pu__fail(report, PU_E_OPERATOR, what, datum, -1);
}

/* What the messages about an operator call it. */
typedef struct {
    const char *name, *apply, *check, *stale, *form, *device;
    int slot; /* of the backend's sides: 0 a prior precision or A, 1 Phi */
} pu__op_names;

#define PU__OP_NAMES(x, slot) \
    {x, x ".apply", x ".check", x " (stale factor)", x ".form (apply does something else)", x " (no device side)", slot}
static const pu__op_names pu__names_A = PU__OP_NAMES("A", 0);
static const pu__op_names pu__names_Gamma = PU__OP_NAMES("Gamma", 0);
static const pu__op_names pu__names_Phi = PU__OP_NAMES("Phi", 1);

/* Numbers of an operator, checked by itself where it can. Only refusals (negative statuses) make sense as an answer. */
PU__FN pu_status pu__check_op(const pu_op *op, const pu__op_names *names, pu_report *report)
{
    pu_int index = -1;
    const pu_status status = op->check ? op->check(op, &index) : PU_OK;
    if (!status) return PU_OK;
    if (status > 0) return pu__fail(report, PU_E_OPERATOR, names->check, -1, index);
    return pu__fail(report, status, status == PU_E_ARGUMENT ? names->stale : names->name, -1, index);
}

/* Numbers of the model: finite, positive where they must be. */
PU__FN pu_status pu__check_numbers(const pu_lgm *model, pu_report *report)
{
    const pu_int D = model->Gamma->rows;
    const pu_int M = model->Phi->rows;
    pu_status status = pu__check_array(M, model->psi, 1, "model.psi", -1, report);
    if (!status && model->nu) status = pu__check_array(D, model->nu, 0, "model.nu", -1, report);
    if (!status && model->eta) status = pu__check_array(M, model->eta, 0, "model.eta", -1, report);
    if (!status) status = pu__check_op(model->Gamma, &pu__names_Gamma, report);
    if (!status) status = pu__check_op(model->Phi, &pu__names_Phi, report);
    return status;
}

/* |x| |y| */
PU__FN double pu__norms(pu_int n, const pu_real *x, const pu_real *y)
{
    return sqrt(pu__dot(n, NULL, x, x) * pu__dot(n, NULL, y, y));
}

/* Rounding of an inner product of vectors of length n whose norms multiply to size, with room to spare. */
PU__FN double pu__dot_rounding(pu_int n, double size) { return 100 * sqrt((double)n) * (double)PU__EPS * size; }

/* Random test of an operator that nobody vouches for: p'Aq = q'Ap and p'Ap > 0. test: 4 n reals. */
PU__FN pu_status pu__check_spd(const pu_op *op, const pu__op_names *names, pu_real *test, pu_real *work, pu_report *report)
{
    const pu_int n = op->rows;
    pu_real *p = test;
    pu_real *q = p + n;
    pu_real *ap = q + n;
    pu_real *aq = ap + n;
    double asymmetry, size;
    pu_normals(0, 1, 0, 0, PU__STREAM_TEST, 0, n, p);
    pu_normals(0, 2, 0, 0, PU__STREAM_TEST, 0, n, q);
    if (op->apply(op, 1, pu__rows(p, n), pu__rows(ap, n), 0, work)) return pu__operator_failed(report, names->apply, -1);
    if (op->apply(op, 1, pu__rows(q, n), pu__rows(aq, n), 0, work)) return pu__operator_failed(report, names->apply, -1);
    asymmetry = fabs(pu__dot(n, NULL, p, aq) - pu__dot(n, NULL, q, ap));
    size = pu__norms(n, p, aq) + pu__norms(n, q, ap);
    if (!pu__finite_double(size)) return pu__refuse(report, PU_NONFINITE, names->name);
    if (asymmetry > pu__dot_rounding(n, size)) return pu__refuse(report, PU_E_NOT_SYMMETRIC, names->name);
    if (!(pu__dot(n, NULL, p, ap) > 0) || !(pu__dot(n, NULL, q, aq) > 0))
        return pu__refuse(report, PU_E_NOT_DEFINITE, names->name);
    return PU_OK;
}

/* The same for a map: p'(Phi q) = q'(Phi'p). test: 2 (rows + cols) reals. */
PU__FN pu_status pu__check_adjoint(const pu_op *op, pu_real *test, pu_real *work, pu_report *report)
{
    const pu_int rows = op->rows;
    const pu_int cols = op->cols;
    pu_real *p = test;
    pu_real *aq = p + rows;
    pu_real *q = aq + rows;
    pu_real *ap = q + cols;
    double difference, size;
    pu_normals(0, 3, 0, 0, PU__STREAM_TEST, 0, rows, p);
    pu_normals(0, 4, 0, 0, PU__STREAM_TEST, 0, cols, q);
    if (op->apply(op, 1, pu__rows(q, cols), pu__rows(aq, rows), 0, work)) return pu__operator_failed(report, "Phi.apply", -1);
    if (op->apply_t(op, 1, pu__rows(p, rows), pu__rows(ap, cols), 0, work))
        return pu__operator_failed(report, "Phi.apply_t", -1);
    difference = fabs(pu__dot(rows, NULL, p, aq) - pu__dot(cols, NULL, q, ap));
    size = pu__norms(rows, p, aq) + pu__norms(cols, q, ap);
    if (!pu__finite_double(size)) return pu__refuse(report, PU_NONFINITE, "Phi");
    if (difference > pu__dot_rounding(pu__most(rows, cols), size)) return pu__refuse(report, PU_E_NOT_ADJOINT, "Phi.apply_t");
    return PU_OK;
}

/* The built-in operator of the form that op states; op itself where it states none. */
PU__FN pu_op pu__op_of_form(const pu_op *op)
{
    switch (op->form) {
    case PU_FORM_MATRIX: return pu_op_dense(op->rows, op->cols, (const pu_real *)op->data);
    case PU_FORM_SYMMETRIC: return pu_op_spd(op->rows, (const pu_real *)op->data, (const pu_real *)op->aux);
    case PU_FORM_DIAGONAL: return pu__op_diagonal(op->rows, op->params, (const pu_real *)op->data, op->params == op->rows ? (const pu_real *)op->data : NULL);
    case PU_FORM_SPARSE: return pu_op_csr((const pu_csr *)op->data);
    case PU_FORM_AR: return pu_op_ar((const pu_ar *)op->data);
    case PU_FORM_STATES: return pu_op_ssm((const pu_ssm *)op->data);
    case PU_FORM_FOURIER: return pu_op_fourier((const pu_fourier *)op->data);
    case PU_FORM_GENERAL: break;
    }
    return *op;
}

/* The operator that the library works with. One that states a form and is all the caller's own work is replaced by the built-in
   one, so that it is as fast as ours (pu__check_form tests that they agree). A built-in operator into which the caller has put
   functions of his own is taken as it is, and no longer has a form. */
PU__FN pu_op pu__resolve(const pu_op *op)
{
    pu_op builtin = pu__op_of_form(op);
    const int rows = op->apply_rows != builtin.apply_rows || op->apply_rows_t != builtin.apply_rows_t ||
                     op->grad_rows != builtin.grad_rows;
    const int others = (op->apply_t != builtin.apply_t) + (op->grad != builtin.grad);
    if (op->form == PU_FORM_GENERAL) return *op;
    if (op->apply == builtin.apply || others < 2) {
        const int changed = op->apply != builtin.apply || others > 0 || rows;
        builtin = *op;
        if (changed) builtin.form = PU_FORM_GENERAL;
        return builtin;
    }
    builtin.work = pu__most(builtin.work, op->work);
    builtin.device = op->device;
    return builtin;
}

/* Sizes of the form that op states are those of op. Before anything is computed with the form. */
PU__FN pu_status pu__check_form_sizes(const pu_op *op, const pu_op *resolved, const pu__op_names *names, pu_report *report)
{
    const int same = resolved->rows == op->rows && resolved->cols == op->cols && resolved->params == op->params;
    const int known = (int)op->form >= PU_FORM_GENERAL && (int)op->form <= PU_FORM_FOURIER;
    if (!known || !same) return pu__refuse(report, PU_E_ARGUMENT, names->form);
    if (op->form == PU_FORM_GENERAL) return PU_OK;
    if (op->params > 0 && !op->data) return pu__refuse(report, PU_E_ARGUMENT, names->form);
    if (op->form == PU_FORM_DIAGONAL && op->params > 1 && op->params != op->rows)
        return pu__refuse(report, PU_E_ARGUMENT, names->form);
    return PU_OK;
}

/* An operator that nobody vouches for states a form: its product with a random vector q must be that of the form.
   test: 2 rows + cols reals. */
PU__FN pu_status pu__check_form(const pu_op *op, const pu_op *resolved, const pu__op_names *names, pu_real *test, pu_real *work,
                                pu_report *report)
{
    const pu_int rows = op->rows;
    const pu_int cols = op->cols;
    const pu_block q = pu__rows(test, cols);
    pu_real *aq = test + cols;
    pu_real *want = aq + rows;
    double size;
    pu_int i;
    if (op->form == PU_FORM_GENERAL || op->apply == resolved->apply) return PU_OK;
    pu_normals(0, 6, 0, 0, PU__STREAM_TEST, 0, cols, test);
    if (op->apply(op, 1, q, pu__rows(aq, rows), 0, work)) return pu__operator_failed(report, names->apply, -1);
    if (resolved->apply(resolved, 1, q, pu__rows(want, rows), 0, work)) return pu__operator_failed(report, names->form, -1);
    size = sqrt(pu__dot(rows, NULL, want, want)) + sqrt(pu__dot(rows, NULL, aq, aq));
    for (i = 0; i < rows; i++)
        if (!(fabs((double)aq[i] - (double)want[i]) <= pu__dot_rounding(cols, size)))
            return pu__fail(report, PU_E_ARGUMENT, names->form, -1, i);
    return PU_OK;
}

/* A model with its operators as their forms say. Holds pointers into itself: not to be copied. */
typedef struct {
    const pu_lgm *given; /* as the caller wrote it */
    pu_op Gamma, Phi;
    pu_lgm model;        /* of these */
} pu__resolved;

/* Checks a model's sizes and functions, and resolves its operators. */
PU__FN pu_status pu__resolve_model(pu__resolved *r, const pu_lgm *model, pu_report *report)
{
    pu_status status = pu__check_model(model, report);
    if (status) return status;
    r->given = model;
    r->Gamma = pu__resolve(model->Gamma);
    r->Phi = pu__resolve(model->Phi);
    r->model = *model;
    r->model.Gamma = &r->Gamma;
    r->model.Phi = &r->Phi;
    status = pu__check_form_sizes(model->Gamma, &r->Gamma, &pu__names_Gamma, report);
    return status ? status : pu__check_form_sizes(model->Phi, &r->Phi, &pu__names_Phi, report);
}

/* Reals of scratch that pu__test_operators wants. */
PU__FN pu_int pu__test_reals(const pu__resolved *r) { return 2 * (r->Gamma.rows + pu__most(r->Phi.rows, r->Gamma.rows)); }

/* The tests of the operators that need scratch: stated forms, a positive diagonal, symmetry, apply_t. work: scratch of the
   operators for one column. */
PU__FN pu_status pu__test_operators(const pu__resolved *r, pu_real *test, pu_real *work, pu_report *report)
{
    const pu_op *Gamma = &r->Gamma;
    pu_status status = pu__check_form(r->given->Gamma, Gamma, &pu__names_Gamma, test, work, report);
    pu_int i;
    if (!status) status = pu__check_form(r->given->Phi, &r->Phi, &pu__names_Phi, test, work, report);
    if (status) return status;
    if (Gamma->diag) {
        pu__zeros(test, Gamma->rows);
        if (Gamma->diag(Gamma, test, work)) return pu__operator_failed(report, "Gamma.diag", -1);
        for (i = 0; i < Gamma->rows; i++)
            if (!(test[i] > 0)) return pu__fail(report, PU_E_NOT_POSITIVE, "Gamma", -1, i);
    }
    if (Gamma->trusted < 2) status = pu__check_spd(Gamma, &pu__names_Gamma, test, work, report);
    if (!status && r->Phi.trusted < 1) status = pu__check_adjoint(&r->Phi, test, work, report);
    return status;
}

/* Has the backend all functions it must have? */
PU__FN pu_status pu__check_backend(const pu_backend *B, pu_report *report)
{
    const int all = B->dot && B->combine && B->advance && B->stage && B->row_dot && B->normals && B->read && B->write &&
                    B->retreat && B->sum_dot && B->row_terms;
    const int own = B->batch && B->turn && B->side && B->status && !B->host;
    return all && (own || !B->memory) ? PU_OK : pu__refuse(report, PU_E_NULL, "backend");
}

/* The operator as the backend wants it, or (memory NULL) its sizes and the bytes it needs there. On the host it is the
   operator itself, with the fused products of the forms that have them. */
PU__FN pu_status pu__side(const pu_backend *B, const pu_op *op, const pu__op_names *names, void *memory, size_t *bytes,
                          pu_side *side, pu_report *report)
{
    const char *what = names->device;
    pu_status status = PU_OK;
    pu_status said = PU_OK;
    *bytes = 0;
    memset(side, 0, sizeof *side);
    side->op = *op;
    if (!pu__is_far(B)) {
        if (op->form == PU_FORM_AR) side->apply_plus = pu__ar_apply_plus;
        if (op->form == PU_FORM_FOURIER) side->gram = pu__fourier_gram;
        return PU_OK;
    }
    if (op->device) *side = *op->device;
    else status = B->side(B->user, names->slot, op, memory, bytes, side);
    if (status && memory) said = B->status(B->user, &what); /* an error of the device has words of its own */
    if (!status && (!side->op.apply || (names->slot == 1 && !side->op.apply_t))) status = PU_E_NULL;
    if (!status && (side->op.rows != op->rows || side->op.cols != op->cols || side->op.params < 0 || side->op.work < 0))
        status = PU_E_SIZE;
    if (!status && !side->pull && side->op.params != op->params) status = PU_E_SIZE;
    return status ? pu__refuse(report, said ? said : status, what) : PU_OK;
}

/* What a backend with memory of its own has to say of the work so far. */
PU__FN pu_status pu__far_status(const pu_backend *B, pu_report *report)
{
    const char *what = "device";
    const pu_status status = pu__is_far(B) ? B->status(B->user, &what) : PU_OK;
    return status ? pu__refuse(report, status, what) : PU_OK;
}

/* grad += the gradient that a side's sums (host memory) stand for. */
PU__FN pu_status pu__pull_side(const pu_side *side, const pu_real *sums, pu_real *grad)
{
    if (side->pull) return side->pull(side, sums, grad);
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

/* A as the solver sees it: a posterior precision (>>posterior), or an operator of the caller's (pu_solve). */
typedef struct {
    void *self;
    pu_int n;
    int dots;   /* product can deliver x_j'A x_j on the way */
    int scales; /* pairs can take coefficients c; otherwise the solver multiplies them in first */
    /* Y = A X, or Y += A X with add. dots: k sums x_j'A x_j, or NULL. */
    pu_status (*product)(void *self, pu_int k, pu_block X, pu_block Y, int add, pu_real *dots);
    /* Y += A (c o P) where Y.at is not NULL; grad += weight_j d/dtheta (c_j p_j)'A q_j where grad is not NULL. */
    pu_status (*pairs)(void *self, const pu__pairs *pairs, pu_real *grad);
} pu__system;

/* pu_solve_options with the defaults filled in. */
typedef struct {
    pu_solver solver;
    pu_adjoint adjoint;
    pu_int I;           /* steps at most */
    pu_int every;       /* checkpoint interval, 0 = full tape */
    pu_int check_every; /* steps between looks at a device's scalars */
    int tolerance_mode; /* columns stop at a residual */
    int converge;       /* that is rounding level, which is what the caller asked for */
    double tolerance, absolute2;
} pu__plan;

/* One solve of up to kmax columns, and its reverse pass. Vectors and per-column scalars (s, dots, back) are in the backend's
   memory, what is called host_ and all doubles on the host; on the CPU both are the same memory. */
typedef struct {
    const pu__system *A;
    const pu_backend *B;
    pu__plan plan;
    pu_int n, k, kmax;
    pu_int history;   /* steps that there is room for */
    pu_int each;      /* columns of a datum, where several data are side by side; else k */
    pu_int done;      /* steps the loop executed: plan.I, or fewer when all columns had stopped */
    int reorthogonal; /* this run re-orthogonalises */
    int use_m;        /* PCG */
    pu_real *m, *minv; /* n for each datum: diagonal of M^-1, and of M */
    pu_real *host_m;   /* m and minv of one datum after the other; without a device just m */
    pu_real *mbar;     /* n: gradient in m, or NULL */
    pu_block u, x, r, q, d;
    pu_block xbar, rbar, dbar, qbar, rprev; /* cotangents; the residual of the step before */
    pu_real *tape;     /* directions */
    pu_real *tape_r;   /* residuals, to orthogonalise against */
    pu_real *saved;    /* checkpoints (r, d) */
    pu_state s;
    pu_real *dots, *host_dots;  /* 5 x kmax: u'u, r'r, |u - Ax|^2, u'x, x'(u - Ax) */
    pu_real *back, *host_back;  /* history x kmax, PU_ADJOINT_AUTO: r'd_i */
    int32_t *host_steps, *host_stop;
    pu_real *host_a, *host_b, *host_rho; /* history x kmax; rho one longer */
    double *lanczos;   /* 3 x (history + 1) x PU__ABREAST: matrices to diagonalise */
    double *ritz;      /* kmax x 2 (history + 1): spectra */
    pu_int *known;     /* kmax: steps that the spectrum in ritz belongs to, -1: none */
    double *uu, *rr, *tt, *ux, *xt; /* kmax: the five dots */
    double *orth, *growth;          /* kmax: the two measures of PU_ADJOINT_AUTO */
    double products;   /* products A x column so far */
} pu__run;

/* CG and PCG, whose directions remember the ones before. */
PU__FN int pu__has_momentum(pu_solver solver) { return solver == PU_CG || solver == PU_PCG; }

/* The smallest s with s^2 >= v. */
PU__FN pu_int pu__ceil_sqrt(pu_int v)
{
    pu_int s = (pu_int)sqrt((double)v);
    while (s * s < v) s++;
    return s;
}

/* Ranges of the options of a solve. */
PU__FN pu_status pu__check_solve_options(const pu_solve_options *o, pu_report *report)
{
    if ((int)o->solver < PU_CG || (int)o->solver > PU_GD) return pu__refuse(report, PU_E_ARGUMENT, "options.solve.solver");
    if ((int)o->adjoint < PU_ADJOINT_FULL || (int)o->adjoint > PU_ADJOINT_AUTO)
        return pu__refuse(report, PU_E_ARGUMENT, "options.solve.adjoint");
    if (!(o->tolerance >= 0) || !(o->tolerance < 1)) return pu__refuse(report, PU_E_ARGUMENT, "options.solve.tolerance");
    if (!(o->absolute2 >= 0) || !pu__finite_double(o->absolute2))
        return pu__refuse(report, PU_E_ARGUMENT, "options.solve.absolute2");
    if (o->iterations < 0 && o->iterations != PU_NONE) return pu__refuse(report, PU_E_ARGUMENT, "options.solve.iterations");
    if (o->iterations > INT32_MAX / 4) return pu__refuse(report, PU_E_OVERFLOW, "options.solve.iterations");
    if (o->check_every < 0) return pu__refuse(report, PU_E_ARGUMENT, "options.solve.check_every");
    if (o->checkpoint < 0 && o->checkpoint != PU_AUTO) return pu__refuse(report, PU_E_ARGUMENT, "options.solve.checkpoint");
    return PU_OK;
}

/* Checks the options and fills in their defaults for systems of size n. converge: a solve without a tolerance runs to
   rounding level. network: a reverse pass will follow. */
PU__FN pu_status pu__plan_make(const pu_solve_options *o, pu_int n, int converge, int network, pu__plan *plan,
                               pu_report *report)
{
    const int momentum = pu__has_momentum(o->solver);
    const pu_status status = pu__check_solve_options(o, report);
    memset(plan, 0, sizeof *plan);
    if (status) return status;
    plan->solver = o->solver;
    plan->adjoint = o->adjoint;
    /* The other two adjoints are CG's. */
    if (!momentum && o->adjoint != PU_ADJOINT_SHORTCUT) plan->adjoint = PU_ADJOINT_FULL;
    plan->tolerance = o->tolerance;
    plan->absolute2 = o->absolute2;
    plan->converge = converge && !(o->tolerance > 0) && !(o->absolute2 > 0);
    if (plan->converge) plan->tolerance = sqrt((double)PU__FLOOR2);
    plan->tolerance_mode = plan->tolerance > 0 || plan->absolute2 > 0;
    plan->check_every = o->check_every ? o->check_every : 5;
    plan->I = o->iterations;
    if (o->iterations == PU_NONE) plan->I = 0;
    if (o->iterations == 0) {
        plan->I = 30;
        if (plan->tolerance_mode) plan->I = n < 90 ? 10 * n + 100 : 1000;
    }
    if (!network || !o->checkpoint) return PU_OK;
    if (plan->adjoint == PU_ADJOINT_REORTHOGONAL || plan->adjoint == PU_ADJOINT_AUTO)
        return pu__refuse(report, PU_E_ARGUMENT, "options.solve.checkpoint (needs adjoint FULL or SHORTCUT)");
    /* I / s states of two blocks (one without momentum) and s directions: least memory at this s. */
    plan->every = o->checkpoint == PU_AUTO ? pu__ceil_sqrt(momentum ? 2 * plan->I : plan->I) : o->checkpoint;
    if (plan->every >= plan->I) plan->every = 0;
    return PU_OK;
}

/* The part of a run's memory that only a reverse pass needs: cotangents, tape, checkpoints. */
PU__FN void pu__tape_layout(pu__run *g, pu__arena *arena)
{
    const pu_int n = g->n;
    const pu_int I = g->plan.I;
    const pu_int kmax = g->kmax;
    const pu_int saved = g->plan.every ? (I - 1) / g->plan.every : 0;
    g->rbar = pu__far_cols(arena, n, kmax);
    g->dbar = pu__far_cols(arena, n, kmax);
    g->qbar = pu__far_cols(arena, n, kmax);
    g->rprev = pu__far_cols(arena, n, kmax);
    if (I == 0) return;
    g->tape = pu__far_blocks(arena, g->plan.every ? g->plan.every : I, n, kmax);
    if (g->plan.adjoint == PU_ADJOINT_REORTHOGONAL || g->plan.adjoint == PU_ADJOINT_AUTO)
        g->tape_r = pu__far_blocks(arena, I, n, kmax);
    if (saved) g->saved = pu__far_blocks(arena, saved * (pu__has_momentum(g->plan.solver) ? 2 : 1), n, kmax);
    if (g->plan.adjoint == PU_ADJOINT_AUTO) {
        g->back = pu__far_reals(arena, I, kmax);
        g->host_back = pu__reals(arena, I, kmax);
    }
}

/* Lays out (or measures) everything that a solve of up to kmax columns needs, `data` data side by side. */
PU__FN void pu__run_layout(pu__run *g, pu__arena *arena, const pu__system *A, const pu_backend *B, const pu__plan *plan,
                           pu_int kmax, pu_int data, int network)
{
    const pu_int n = A->n;
    const pu_int I = plan->I;
    pu_state *s = &g->s;
    pu_block *vectors[] = {&g->u, &g->x, &g->r, &g->q, &g->xbar, &g->d};
    pu_real **scalars[] = {&s->s0, &s->s1, &s->step, &s->target, &s->floor_, &s->scale, &s->rhobar,
                           &s->rhop, &s->pib, &s->c0, &s->c1, &s->c2};
    pu_real **histories[] = {&s->a, &s->be, &s->pi, &s->rho};
    pu_real **host_histories[] = {&g->host_a, &g->host_b, &g->host_rho};
    double **doubles[] = {&g->uu, &g->rr, &g->tt, &g->ux, &g->xt, &g->orth, &g->growth};
    int32_t **counts[] = {&g->host_steps, &g->host_stop};
    size_t i;
    memset(g, 0, sizeof *g);
    g->A = A;
    g->B = B;
    g->plan = *plan;
    g->n = n;
    g->kmax = kmax;
    g->history = plan->solver == PU_GD ? pu__most(I, PU__LANCZOS) : I; /* GD estimates its step by Lanczos */
    g->use_m = plan->solver == PU_PCG;
    for (i = 0; i < sizeof vectors / sizeof *vectors; i++) *vectors[i] = pu__far_cols(arena, n, kmax);
    if (network) pu__tape_layout(g, arena);
    if (g->use_m) {
        g->m = pu__far_reals(arena, n, data);
        g->minv = pu__far_reals(arena, n, data);
        g->host_m = pu__is_far(B) ? pu__reals(arena, n, 2 * data) : g->m;
    }
    for (i = 0; i < 4; i++) *histories[i] = pu__far_reals(arena, g->history + 1, kmax);
    for (i = 0; i < 3; i++) *host_histories[i] = pu__reals(arena, g->history + 1, kmax);
    g->dots = pu__far_reals(arena, PU__DOTS, kmax);
    g->host_dots = pu__reals(arena, PU__DOTS, kmax);
    for (i = 0; i < sizeof scalars / sizeof *scalars; i++) *scalars[i] = pu__far_reals(arena, kmax, 1);
    for (i = 0; i < sizeof doubles / sizeof *doubles; i++)
        *doubles[i] = (double *)pu__take(arena, kmax, 1, sizeof(double));
    s->steps = (int32_t *)pu__take_from(arena, 1, kmax, 1, sizeof(int32_t));
    s->stop = (int32_t *)pu__take_from(arena, 1, kmax, 1, sizeof(int32_t));
    for (i = 0; i < 2; i++) *counts[i] = (int32_t *)pu__take(arena, kmax, 1, sizeof(int32_t));
    g->lanczos = (double *)pu__take(arena, 3 * (g->history + 1), PU__ABREAST, sizeof(double));
    g->ritz = (double *)pu__take(arena, 2 * (g->history + 1), kmax, sizeof(double));
    g->known = (pu_int *)pu__take(arena, kmax, 1, sizeof(pu_int));
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

/* Block number i of a tape that begins at base. */
PU__FN pu_block pu__slot(const pu__run *g, pu_real *base, pu_int i) { return pu__rows(base + i * g->n * g->kmax, g->n); }

/* The diagonal preconditioner, NULL where there is none. */
PU__FN const pu_real *pu__m(const pu__run *g) { return g->use_m ? g->m : NULL; }

/* y = t0, all columns of a run. */
PU__FN void pu__combine1(const pu__run *g, pu_block y, pu_term t0) { g->B->combine(g->B->user, g->n, g->k, y, 1, &t0); }

/* y = t0 + t1 */
PU__FN void pu__combine2(const pu__run *g, pu_block y, pu_term t0, pu_term t1)
{
    pu_term terms[2];
    terms[0] = t0;
    terms[1] = t1;
    g->B->combine(g->B->user, g->n, g->k, y, 2, terms);
}

/* y = t0 + t1 + t2 */
PU__FN void pu__combine3(const pu__run *g, pu_block y, pu_term t0, pu_term t1, pu_term t2)
{
    pu_term terms[3];
    terms[0] = t0;
    terms[1] = t1;
    terms[2] = t2;
    g->B->combine(g->B->user, g->n, g->k, y, 3, terms);
}

/* y = 0 */
PU__FN void pu__zero(const pu__run *g, pu_block y) { g->B->combine(g->B->user, g->n, g->k, y, 0, NULL); }

/* s_j = x_j'(m o y_j); m may be NULL. */
PU__FN void pu__dots(const pu__run *g, const pu_real *m, pu_block x, pu_block y, pu_real *s)
{
    g->B->dot(g->B->user, g->n, g->k, m, x, y, s);
}

/* Scalar arithmetic of one stage of step i. */
PU__FN void pu__stage(const pu__run *g, pu_stage stage, pu_int i) { g->B->stage(g->B->user, &g->s, stage, i); }

/* Y = A X or Y += A X, counted. */
PU__FN pu_status pu__product(pu__run *g, pu_block X, pu_block Y, int add)
{
    g->products += (double)g->k;
    return g->A->product(g->A->self, g->k, X, Y, add, NULL);
}

/* Y = A X and s_j = x_j'A x_j, in one sweep where the system can. */
PU__FN pu_status pu__product_dot(pu__run *g, pu_block X, pu_block Y, pu_real *s)
{
    pu_status status;
    g->products += (double)g->k;
    status = g->A->product(g->A->self, g->k, X, Y, 0, g->A->dots ? s : NULL);
    if (!status && !g->A->dots) pu__dots(g, NULL, X, Y, s);
    return status;
}

/* Y += A (c o P);  grad += scale_j d/dtheta (c_j p_j)'A q_j (c NULL: ones; grad may be NULL). P is qbar, or qbar is free. */
PU__FN pu_status pu__product_back(pu__run *g, const pu_real *c, pu_block P, pu_block Q, pu_block Y, pu_real *grad)
{
    pu__pairs pairs;
    pairs.k = g->k;
    pairs.c = c;
    pairs.P = P;
    pairs.Q = Q;
    pairs.Y = Y;
    pairs.weight = g->s.scale;
    if (c && !(g->A->scales && grad)) {
        pu__combine1(g, g->qbar, pu__term_c(P, c));
        pairs.P = g->qbar;
        pairs.c = NULL;
    }
    if (Y.at) g->products += (double)g->k;
    return g->A->pairs(g->A->self, &pairs, grad);
}

/* V -= sum_{l <= last} (ma o r_l) (r_l'(mc o V)) / rho_l: Gram-Schmidt against the stored residuals. */
PU__FN void pu__project(pu__run *g, pu_block V, pu_int last, const pu_real *mc, const pu_real *ma)
{
    pu_int l;
    for (l = 0; l <= last; l++) {
        const pu_block R = pu__slot(g, g->tape_r, l);
        pu__dots(g, mc, R, V, g->s.s0);
        pu__stage(g, PU_STAGE_PROJECT, l);
        pu__combine2(g, V, pu__term(V), pu__t(R, 1, g->s.c0, ma));
    }
}

/* Are all columns stopped? The only look at the scalars inside a loop. On a device it is taken in tolerance mode only, every
   few steps; stopped columns do not change, so how often one looks does not show in the results. */
PU__FN int pu__all_stopped(pu__run *g, pu_int i)
{
    pu_int j;
    if (!g->B->host && (!g->plan.tolerance_mode || (i + 1) % g->plan.check_every)) return 0;
    g->B->read(g->B->user, g->host_stop, g->s.stop, (size_t)g->k * sizeof(int32_t));
    for (j = 0; j < g->k; j++)
        if (!g->host_stop[j]) return 0;
    return 1;
}

/* Does the tape keep every direction? */
PU__FN int pu__full_tape(const pu__run *g) { return g->tape && !g->plan.every; }

/* Where d_i lives during the forward pass: on the tape, or in place. */
PU__FN pu_block pu__direction(const pu__run *g, pu_int i) { return pu__full_tape(g) ? pu__slot(g, g->tape, i) : g->d; }

/* Checkpoint number c holds r (which = 0) and, for CG and PCG, d (which = 1; GD and SD: d = r). */
PU__FN pu_block pu__checkpoint(const pu__run *g, pu_int c, int which)
{
    return pu__slot(g, g->saved, g->s.use_beta ? 2 * c + which : c);
}

/* r = u - A x0; x0 NULL: r = u. */
PU__FN pu_status pu__start(pu__run *g, const pu_block *x0)
{
    pu_status status;
    if (!x0) {
        pu__combine1(g, g->r, pu__term(g->u));
        return PU_OK;
    }
    status = pu__product(g, *x0, g->q, 0);
    pu__combine2(g, g->r, pu__term(g->u), pu__term_scaled(g->q, -1));
    return status;
}

/* All columns of b from row `from` on. */
PU__FN pu_block pu__below_row(pu_block b, pu_int from)
{
    b.at += from;
    return b;
}

/* Rows for the sweeps that look at the whole tape: on a host as many as stay in the nearest cache, on a device all. */
PU__FN pu_int pu__rows_at_once(const pu__run *g) { return g->B->host ? 2048 : g->n; }

/* x += sum_i a_i d_i with all directions on the tape, three at a time: a strip of rows takes all steps while it is in the
   nearest cache. */
PU__FN void pu__add_steps(const pu__run *g)
{
    const pu_int rows = pu__rows_at_once(g);
    pu_int from, i, l;
    for (from = 0; from < g->n; from += rows)
        for (i = 0; i < g->done; i += 3) {
            const pu_int end = pu__min(i + 3, g->done);
            pu_term terms[4];
            terms[0] = pu__term(pu__below_row(g->x, from));
            for (l = i; l < end; l++)
                terms[l - i + 1] = pu__term_c(pu__below_row(pu__slot(g, g->tape, l), from), g->s.a + l * g->k);
            g->B->combine(g->B->user, pu__min(rows, g->n - from), g->k, terms[0].x, (int)(end - i) + 1, terms);
        }
}

/* Before the first step: x = x0, r = u - A x0, d_0 = m o r, rho_0, targets. */
PU__FN pu_status pu__forward_begin(pu__run *g, const pu_block *x0, pu_int I)
{
    const pu_state *s = &g->s;
    const pu_real *m = pu__m(g);
    const pu_status status = pu__start(g, x0);
    pu_int j;
    if (status) return status;
    if (x0) pu__combine1(g, g->x, pu__term(*x0));
    else pu__zero(g, g->x);
    pu__dots(g, m, g->u, g->u, s->s0);
    pu__dots(g, NULL, g->u, g->u, s->s1);
    pu__dots(g, NULL, g->r, g->r, s->c0);
    pu__dots(g, m, g->r, g->r, s->rho);
    pu__stage(g, PU_STAGE_START, 0);
    if (I > 0) pu__combine1(g, pu__direction(g, 0), pu__term_m(g->r, m));
    if (I > 0 && g->reorthogonal) pu__combine1(g, pu__slot(g, g->tape_r, 0), pu__term(g->r));
    g->done = I;
    if (g->known)
        for (j = 0; j < g->k; j++) g->known[j] = -1;
    return PU_OK;
}

/* Keeps r_i and d_i where a checkpoint is due before step i. */
PU__FN void pu__save_state(const pu__run *g, pu_int i, pu_block d)
{
    const pu_int every = g->plan.every;
    if (!g->saved || i == 0 || i % every) return;
    pu__combine1(g, pu__checkpoint(g, i / every - 1, 0), pu__term(g->r));
    if (g->s.use_beta) pu__combine1(g, pu__checkpoint(g, i / every - 1, 1), pu__term(d));
}

/* The solver. In: u, x0 (NULL = 0), m, step. Out: x, r, histories, tape. */
PU__FN pu_status pu__forward(pu__run *g, const pu_block *x0, pu_int I)
{
    const pu_backend *B = g->B;
    const pu_state *s = &g->s;
    const pu_real *m = pu__m(g);
    const pu_int k = g->k;
    const int later = pu__full_tape(g); /* all directions stay: x = x0 + sum a_i d_i afterwards */
    const pu_block none = {NULL, 0};
    pu_status status = pu__forward_begin(g, x0, I);
    pu_int i;
    if (status) return status;
    for (i = 0; i < I; i++) {
        const pu_block d = pu__direction(g, i);
        pu__save_state(g, i, d);
        /* q = A d;  pi = d'q;  a = rho / pi */
        status = pu__product_dot(g, d, g->q, s->pi + i * k);
        if (status) return status;
        pu__stage(g, PU_STAGE_ALPHA, i);
        /* x += a d;  r -= a q;  rho' = r'(m o r) */
        B->advance(B->user, g->n, k, s->a + i * k, m, d, g->q, later ? none : g->x, g->r, s->rho + (i + 1) * k);
        if (g->reorthogonal) {
            pu__project(g, g->r, i, m, NULL);
            pu__dots(g, m, g->r, g->r, s->rho + (i + 1) * k);
        }
        /* be = rho' / rho */
        if (g->plan.tolerance_mode) pu__dots(g, NULL, g->r, g->r, s->s1);
        pu__stage(g, PU_STAGE_BETA, i);
        /* d = m o r + be d */
        if (i + 1 < I) {
            if (g->reorthogonal) pu__combine1(g, pu__slot(g, g->tape_r, i + 1), pu__term(g->r));
            pu__combine2(g, pu__direction(g, i + 1), pu__term_m(g->r, m), pu__term_c(d, s->be + i * k));
        }
        if (pu__all_stopped(g, i)) {
            g->done = i + 1;
            break;
        }
    }
    if (later) pu__add_steps(g);
    return PU_OK;
}

/* xbar = u - A x, recomputed, and the inner products that reports and objectives need. */
PU__FN pu_status pu__residual(pu__run *g)
{
    const pu_status status = pu__product(g, g->x, g->q, 0);
    if (status) return status;
    pu__combine2(g, g->xbar, pu__term(g->u), pu__term_scaled(g->q, -1));
    pu__dots(g, NULL, g->u, g->u, g->dots);
    pu__dots(g, NULL, g->r, g->r, g->dots + g->k);
    pu__dots(g, NULL, g->xbar, g->xbar, g->dots + 2 * g->k);
    pu__dots(g, NULL, g->u, g->x, g->dots + 3 * g->k);
    pu__dots(g, NULL, g->x, g->xbar, g->dots + 4 * g->k);
    return PU_OK;
}

/* Step sizes, residuals and ends of all columns to the host. */
PU__FN void pu__read_history(pu__run *g)
{
    const size_t one = (size_t)g->k * sizeof(pu_real);
    const size_t all = (size_t)g->done * one;
    g->B->read(g->B->user, g->host_a, g->s.a, all);
    g->B->read(g->B->user, g->host_b, g->s.be, all);
    g->B->read(g->B->user, g->host_rho, g->s.rho, all + one);
    g->B->read(g->B->user, g->host_steps, g->s.steps, (size_t)g->k * sizeof(int32_t));
    g->B->read(g->B->user, g->host_stop, g->s.stop, (size_t)g->k * sizeof(int32_t));
}

/* The inner products of pu__residual to the host, as doubles. */
PU__FN void pu__read_dots(pu__run *g)
{
    double *to[PU__DOTS];
    pu_int i, j;
    to[0] = g->uu;
    to[1] = g->rr;
    to[2] = g->tt;
    to[3] = g->ux;
    to[4] = g->xt;
    g->B->read(g->B->user, g->host_dots, g->dots, (size_t)(PU__DOTS * g->k) * sizeof(pu_real));
    for (i = 0; i < PU__DOTS; i++)
        for (j = 0; j < g->k; j++) to[i][j] = (double)g->host_dots[i * g->k + j];
}

/* rd[i k + j] = r'd_i of column j for all steps, r = u - A x, a strip of rows at a time. */
PU__FN void pu__residual_dots(pu__run *g, double *rd)
{
    const pu_int rows = pu__rows_at_once(g);
    const pu_int all = g->done * g->k;
    pu_int i, from;
    for (i = 0; i < all; i++) rd[i] = 0;
    for (from = 0; from < g->n; from += rows) {
        for (i = 0; i < g->done; i++)
            g->B->dot(g->B->user, pu__min(rows, g->n - from), g->k, NULL, pu__below_row(g->xbar, from),
                      pu__below_row(pu__slot(g, g->tape, i), from), g->back + i * g->k);
        g->B->read(g->B->user, g->host_back, g->back, (size_t)all * sizeof(pu_real));
        for (i = 0; i < all; i++) rd[i] += (double)g->host_back[i];
    }
}

/* orth_j = max_i |r'd_i| / (|u| |d_i|) with r = u - A x: zero in exact arithmetic. Relative to |u|, not |r|: what counts is
   the error of the gradient, which has the size of x, while r may be rounding noise without any harm. Without a
   preconditioner |d_i|^2 = rho_i + be_{i-1}^2 |d_{i-1}|^2, because r_i is orthogonal to d_{i-1}, which holds locally in any
   arithmetic. */
PU__FN void pu__orthogonality(pu__run *g)
{
    const pu_int k = g->k;
    double *dd = g->growth; /* |d_i|^2; free until the growth is known */
    double *rd = g->ritz;   /* r'd_i; free until spectra are known */
    pu_int i, j;
    pu__residual_dots(g, rd);
    if (g->use_m) {
        for (i = 0; i < g->done; i++)
            pu__dots(g, NULL, pu__slot(g, g->tape, i), pu__slot(g, g->tape, i), g->back + i * k);
        g->B->read(g->B->user, g->host_back, g->back, (size_t)(g->done * k) * sizeof(pu_real));
    }
    for (j = 0; j < k; j++) g->orth[j] = 0;
    for (i = 0; i < g->done; i++)
        for (j = 0; j < k; j++) {
            const double be = i > 0 && !g->use_m ? (double)g->host_b[(i - 1) * k + j] : 0;
            double size;
            dd[j] = (double)(g->use_m ? g->host_back : g->host_rho)[i * k + j] + (be > 0 ? be * be * dd[j] : 0);
            size = sqrt(g->uu[j]) * sqrt(dd[j]);
            if (i < (pu_int)g->host_steps[j] && size > 0)
                g->orth[j] = pu__max(g->orth[j], fabs(rd[i * k + j]) / size);
        }
}

/* mbar += r o (dbar + rhobar r), what z = m o r and rho = r'z owe to m; c0 = 2 rhobar. Uses up qbar. */
PU__FN void pu__through_m(pu__run *g)
{
    pu__combine2(g, g->qbar, pu__term(g->dbar), pu__t(g->r, PU_R(0.5), g->s.c0, NULL));
    g->B->row_dot(g->B->user, g->n, g->k, NULL, g->s.scale, g->qbar, g->r, 0, NULL, g->mbar);
}

/* One step of the reverse pass: its number, the directions it needs, what it has decided to do. */
typedef struct {
    pu_int i;             /* undoes step i + 1 (steps count from 0) */
    pu_block d, dprev;    /* d_i, d_{i-1} */
    const pu_block *ri;   /* r_i where a checkpoint has it, else NULL */
    const pu_real *a, *be;
    int full;             /* alpha and beta depend on theta */
    int residuals;        /* r_i is needed: for that, or for m's gradient */
} pu__reverse_step_data;

/* Alpha and beta are constants: rbar += m o dbar;  dbar = be dbar + a xbar, and qbar = -a rbar is left as c0 o rbar. */
PU__FN void pu__reverse_constant(const pu__run *g, const pu__reverse_step_data *step)
{
    pu__stage(g, PU_STAGE_REV2, step->i);
    g->B->retreat(g->B->user, g->n, g->k, step->a, step->be, pu__m(g), g->xbar, g->rbar, g->dbar);
}

/* What pu__reverse_long does, in two sweeps of the backend, with rbar'q as a sum over the terms of rbar. */
PU__FN void pu__reverse_fused(const pu__run *g, const pu__reverse_step_data *step)
{
    const pu_state *s = &g->s;
    const pu_block none = {NULL, 0};
    pu_unwinding u;
    u.d = step->d;
    u.before = step->dprev;
    u.kept = step->ri ? *step->ri : none;
    u.xbar = g->xbar;
    u.r = g->r;
    u.rbar = g->rbar;
    u.dbar = g->dbar;
    u.qbar = g->qbar;
    u.a = step->a;
    u.be = step->be;
    u.be_before = step->i > 0 ? step->be - g->k : NULL;
    u.twice_rhobar = s->c0;
    u.pib = s->pib;
    u.m = pu__m(g);
    u.minv = g->use_m ? g->minv : NULL;
    u.mbar = g->mbar;
    u.weight = s->scale;
    g->B->unwind_sums(g->B->user, g->n, g->k, &u, s->s0, s->s1, s->c1);
    pu__stage(g, PU_STAGE_UNWIND, step->i);
    g->B->unwind(g->B->user, g->n, g->k, &u);
}

/* Any reverse step, one update at a time. Leaves qbar, and dbar but for A qbar. */
PU__FN void pu__reverse_long(pu__run *g, const pu__reverse_step_data *step)
{
    const pu_state *s = &g->s;
    const pu_real *m = pu__m(g);
    const pu_real *minv = g->use_m ? g->minv : NULL;
    const pu_int i = step->i;
    /* beb = dbar'd;  rhobar += beb/rho;  rhop = -beb be/rho */
    if (step->full && s->use_beta) pu__dots(g, NULL, g->dbar, step->d, s->s0);
    pu__stage(g, PU_STAGE_REV1, i);
    if (step->full) pu__dots(g, NULL, g->xbar, step->d, s->s0);
    /* rbar += m o (dbar + 2 rhobar r) */
    pu__combine3(g, g->rbar, pu__term(g->rbar), pu__term_m(g->dbar, m), pu__t(g->r, 1, s->c0, m));
    if (g->mbar) pu__through_m(g);
    if (g->reorthogonal && i + 1 < g->done) pu__project(g, g->rbar, i + 1, NULL, m);
    if (step->residuals) {
        /* r_i = 1/m o (d_i - be_{i-1} d_{i-1}), or from the checkpoint */
        pu__stage(g, PU_STAGE_RPREV, i);
        if (step->ri) pu__combine1(g, g->rprev, pu__term(*step->ri));
        else
            pu__combine3(g, g->rprev, pu__t(step->d, 1, s->c0, minv), pu__t(step->dprev, 1, s->c1, minv),
                         pu__term_c(g->r, s->c2));
    }
    if (step->full) {
        /* q = (r_i - r_{i+1}) / a */
        pu__stage(g, PU_STAGE_Q, i);
        pu__combine2(g, g->q, pu__term_c(g->rprev, s->c1), pu__t(g->r, -1, s->c1, NULL));
        pu__dots(g, NULL, g->rbar, g->q, s->s1);
    }
    /* ab = xbar'd - rbar'q;  rhop += ab/pi;  pib = -ab a/pi;  qbar = -a rbar + pib d */
    pu__stage(g, PU_STAGE_REV2, i);
    pu__combine2(g, g->qbar, pu__t(g->rbar, -1, step->a, NULL), pu__term_c(step->d, s->pib));
    /* dbar = be dbar + a xbar + pib q */
    pu__combine3(g, g->dbar, pu__term_c(g->dbar, step->be), pu__term_c(g->xbar, step->a), pu__term_c(g->q, s->pib));
}

/* Step i of the reverse pass: cotangents of r_{i+1}, d_{i+1} become those of r_i, d_i.
   grad += scale_j d/dtheta of the terms p'A q found on the way. */
PU__FN pu_status pu__reverse_step(pu__run *g, pu__reverse_step_data *step, pu_real *grad)
{
    const pu_state *s = &g->s;
    pu_status status = PU_OK;
    int constant, fused;
    step->a = s->a + step->i * g->k;
    step->be = s->be + step->i * g->k;
    step->full = !s->detach && !s->fixed_step;
    step->residuals = step->full || g->mbar;
    constant = !step->residuals && !g->reorthogonal;
    fused = step->full && !g->reorthogonal && g->B->unwind_sums && g->B->unwind;
    if (constant) pu__reverse_constant(g, step);
    else if (fused) pu__reverse_fused(g, step);
    else pu__reverse_long(g, step);
    /* dbar += A qbar. At the last step, with constant alpha, rbar and hence qbar are still zero: no product. */
    if (step->full || step->i + 1 < g->done)
        status = pu__product_back(g, constant ? s->c0 : NULL, constant ? g->rbar : g->qbar, step->d, g->dbar, grad);
    if (g->reorthogonal) pu__project(g, g->dbar, step->i, pu__m(g), NULL);
    if (step->residuals && !fused) {
        const pu_block swap = g->r;
        g->r = g->rprev;
        g->rprev = swap;
    }
    return status;
}

/* Steps first .. last of the tape again, from the checkpoint before them; alpha and beta are known. */
PU__FN pu_status pu__replay(pu__run *g, const pu_block *x0, pu_int first, pu_int last)
{
    const pu_state *s = &g->s;
    const pu_real *m = pu__m(g);
    const pu_block r = g->qbar; /* free here, and so is q */
    pu_status status = PU_OK;
    pu_int i;
    if (first == 0) {
        const pu_block r_now = g->r;
        g->r = r;
        status = pu__start(g, x0);
        g->r = r_now;
        pu__combine1(g, pu__slot(g, g->tape, 0), pu__term_m(r, m));
    } else {
        const pu_int c = first / g->plan.every - 1;
        pu__combine1(g, r, pu__term(pu__checkpoint(g, c, 0)));
        pu__combine1(g, pu__slot(g, g->tape, 0), pu__term(pu__checkpoint(g, c, s->use_beta)));
    }
    for (i = first; i < last && !status; i++) {
        const pu_block d = pu__slot(g, g->tape, i - first);
        /* r -= a A d;  d = m o r + be d */
        status = pu__product(g, d, g->q, 0);
        pu__combine2(g, r, pu__term(r), pu__t(g->q, -1, s->a + i * g->k, NULL));
        pu__combine2(g, pu__slot(g, g->tape, i + 1 - first), pu__term_m(r, m), pu__term_c(d, s->be + i * g->k));
    }
    return status;
}

/* All steps of the reverse pass, last one first. With checkpoints each segment of the tape is made again when it is due. */
PU__FN pu_status pu__reverse_steps(pu__run *g, const pu_block *x0, pu_real *grad)
{
    const pu_int every = g->plan.every;
    pu_status status = PU_OK;
    pu_int i;
    for (i = g->done - 1; i >= 0; i--) {
        const pu_int first = every ? i / every * every : 0; /* step whose direction the tape begins with */
        pu__reverse_step_data step;
        pu_block ri;
        if (every && (i == g->done - 1 || (i + 1) % every == 0)) status = pu__replay(g, x0, first, i);
        if (status) return status;
        step.i = i;
        step.d = pu__slot(g, g->tape, i - first);
        step.dprev = pu__slot(g, g->tape, i > first ? i - first - 1 : 0);
        step.ri = NULL;
        if (i == first && first > 0) { /* d_{i-1} belongs to the segment before, but the checkpoint has r_i */
            ri = pu__checkpoint(g, first / every - 1, 0);
            step.ri = &ri;
        }
        status = pu__reverse_step(g, &step, grad);
        if (status) return status;
    }
    return PU_OK;
}

/* Reverse pass. In: xbar = u - A x (from pu__residual), s.scale = weights w_j. Out: rbar, the cotangent of u through the
   solver, to be multiplied by s.scale; grad += scale times the terms. The direct part (w/2 x x', -w x) is the caller's.
   Cotangents are linear in xbar = -w (u - A x), which can be tiny: its norm is taken out and kept in s.scale. */
PU__FN pu_status pu__reverse(pu__run *g, const pu_block *x0, pu_real *grad)
{
    const pu_state *s = &g->s;
    const pu_real *m = pu__m(g);
    const pu_block none = {NULL, 0};
    pu_status status;
    pu__dots(g, NULL, g->xbar, g->xbar, s->s0);
    pu__stage(g, PU_STAGE_XBAR, 0);
    pu__combine1(g, g->xbar, pu__term_c(g->xbar, s->c0));
    pu__zero(g, g->rbar);
    pu__zero(g, g->dbar);
    if (g->reorthogonal && g->done > 0) pu__project(g, g->xbar, g->done - 1, m, NULL);
    status = pu__reverse_steps(g, x0, grad);
    if (status) return status;
    /* rbar += m o (dbar + 2 rhobar r_0) */
    pu__stage(g, PU_STAGE_END, 0);
    if (g->mbar) pu__through_m(g);
    pu__combine3(g, g->rbar, pu__term(g->rbar), pu__term_m(g->dbar, m), pu__t(g->r, 1, s->c0, m));
    if (!x0 || !grad) return PU_OK;
    /* r_0 = u - A x0 */
    pu__combine1(g, g->qbar, pu__term_scaled(g->rbar, -1));
    return pu__product_back(g, NULL, g->qbar, *x0, none, grad);
}

/* ------------------------------------------------------------------------------------------------
   >>lanczos   what the CG coefficients know about the spectrum of A (of M^-1 A for PCG)
   ------------------------------------------------------------------------------------------------ */

/* Ritz values of column j; the squares of the first components of their vectors are history + 1 further on. */
PU__FN double *pu__ritz(const pu__run *g, pu_int j) { return g->ritz + 2 * (g->history + 1) * j; }

/* Lanczos matrix of column j after `steps` steps into lane l of d and e, `size` rows: T_ii = 1/a_i + be_{i-1}/a_{i-1},
   T_{i,i+1} = sqrt(be_i)/a_i. Rows from `steps` on are those of the identity. */
PU__FN void pu__lanczos_matrix(const pu__run *g, pu_int j, pu_int steps, pu_int size, pu_int lanes, double *d, double *e)
{
    double before = 0;
    pu_int i;
    for (i = 0; i < size; i++) {
        const int inside = i < steps;
        const int coupled = i + 1 < steps;
        const double a = inside ? (double)g->host_a[i * g->k + j] : 1;
        const double be = inside ? (double)g->host_b[i * g->k + j] : 0;
        d[i * lanes] = 1 / a + before;
        e[i * lanes] = coupled ? sqrt(be) / a : 0;
        before = coupled ? be / a : 0;
    }
}

/* Diagonalises the Lanczos matrix of column j after `steps` steps into pu__ritz(g, j), once for all who ask, and with it
   those of the columns after it, which will be asked for next. Needs host_a, host_b, host_steps. Returns 1 without
   convergence, else 0. */
PU__FN int pu__spectrum(pu__run *g, pu_int j, pu_int steps)
{
    const pu_int lanes = g->k - j > 4 ? (pu_int)PU__ABREAST : 4;
    const pu_int size = (g->history + 1) * PU__ABREAST;
    double *d = g->lanczos;
    double *e = d + size;
    double *z = e + size;
    double failed[PU__ABREAST];
    pu_int taken[PU__ABREAST];
    pu_int most = steps;
    pu_int i, l;
    if (g->known[j] == steps) return 0;
    for (l = 0; l < lanes; l++) {
        taken[l] = j + l < g->k ? (pu_int)g->host_steps[j + l] : 0;
        if (l == 0) taken[l] = steps;
        most = pu__most(most, taken[l]);
    }
    for (l = 0; l < lanes; l++) pu__lanczos_matrix(g, j + l, taken[l], most, lanes, d + l, e + l);
    pu__tridiagonal(most, lanes, d, e, z, failed);
    for (l = 0; l < lanes && j + l < g->k; l++) {
        double *ritz = pu__ritz(g, j + l);
        double *weight = ritz + g->history + 1;
        if (failed[l] != 0 || (l > 0 && taken[l] == 0)) continue;
        for (i = 0; i < taken[l]; i++) {
            ritz[i] = d[i * lanes + l];
            weight[i] = z[i * lanes + l] * z[i * lanes + l];
        }
        g->known[j + l] = taken[l];
    }
    return failed[0] != 0;
}

/* Ritz values that the growth is followed on; errors that are followed at once; both together. */
enum { PU__LARGEST = 16, PU__ENTRIES = 4, PU__FOLLOWED = PU__LARGEST * PU__ENTRIES };

/* The PU__LARGEST largest of n numbers, in descending order; the largest again where there are fewer. */
PU__FN void pu__largest(pu_int n, const double *values, pu_real *largest)
{
    pu_int i, l;
    for (l = 0; l < PU__LARGEST; l++) largest[l] = 0;
    for (i = 0; i < n; i++) {
        pu_real value = (pu_real)values[i];
        for (l = 0; l < PU__LARGEST; l++) { /* into its place; what was there moves on */
            const pu_real smaller = value < largest[l] ? value : largest[l];
            largest[l] = value > largest[l] ? value : largest[l];
            value = smaller;
        }
    }
    for (l = n; l < PU__LARGEST; l++) largest[l] = largest[0];
}

/* Follows errors of size one that enter dbar at steps from, from - 1, .. (PU__ENTRIES of them) through the recursion of
   pu__growth for column j; top: the largest |dbar| of each. Several at once, because the recursion of one is a chain. */
PU__FN void pu__follow_errors(const pu__run *g, pu_int j, pu_int from, const pu_real *lambda, pu_real *top)
{
    pu_real rbar[PU__FOLLOWED], dbar[PU__FOLLOWED];
    pu_int i, l;
    for (l = 0; l < PU__FOLLOWED; l++) {
        rbar[l] = 0;
        dbar[l] = 0;
    }
    for (i = from; i >= 0; i--) {
        const pu_real a = g->host_a[i * g->k + j];
        const pu_real be = g->host_b[i * g->k + j];
        const pu_int entry = (from - i) * PU__LARGEST;
        for (l = entry; l < entry + PU__LARGEST && l < PU__FOLLOWED; l++) {
            rbar[l] = 0;
            dbar[l] = 1;
        }
        for (l = 0; l < PU__FOLLOWED; l++) {
            const pu_real r = rbar[l] + dbar[l];
            const pu_real next = be * dbar[l] - a * lambda[l] * r;
            const pu_real size = next > 0 ? next : -next;
            rbar[l] = r;
            dbar[l] = next;
            top[l] = size > top[l] ? size : top[l]; /* in this order: a NaN comes after an infinity, which stays */
        }
    }
}

/* How much the shortcut's reverse recursion can enlarge an error, seen on eigenvalue lambda of M^-1 A, where it is
     rbar += dbar;  dbar = be dbar - a lambda rbar
   with an error of size one entering dbar before any step: the largest dbar afterwards, over the 16 largest Ritz values. It
   comes from the coefficients alone, so luck with roundings cannot hide an instability from it. */
PU__FN void pu__growth(pu__run *g)
{
    pu_real largest[PU__LARGEST], lambda[PU__FOLLOWED], top[PU__FOLLOWED];
    pu_int j, l, from;
    for (j = 0; j < g->k; j++) {
        const pu_int steps = (pu_int)g->host_steps[j];
        g->growth[j] = steps > 0 ? 1 : 0;
        if (steps == 0) continue;
        if (pu__spectrum(g, j, steps)) { /* no spectrum, no trust */
            g->growth[j] = DBL_MAX;
            continue;
        }
        pu__largest(steps, pu__ritz(g, j), largest);
        for (l = 0; l < PU__FOLLOWED; l++) {
            lambda[l] = largest[l % PU__LARGEST];
            top[l] = 1;
        }
        for (from = steps - 1; from >= 0; from -= PU__ENTRIES) pu__follow_errors(g, j, from, lambda, top);
        for (l = 0; l < PU__FOLLOWED; l++) g->growth[j] = pu__max(g->growth[j], (double)top[l]);
        if (!pu__finite_double(g->growth[j])) g->growth[j] = DBL_MAX;
    }
}

/* log det (M^-1 A) as seen by a probe, and the extreme Ritz values. */
typedef struct {
    double value; /* NaN where the Lanczos matrix is not positive definite */
    double smallest, largest;
} pu__quadrature_result;

/* log det (M^-1 A) seen by probe j: n log s + rho_0 sum_i w_i log(lambda_i / s) / lambda_i, any s > 0. */
PU__FN pu__quadrature_result pu__quadrature(pu__run *g, pu_int j, pu_int steps, double rho0, double s)
{
    const double *lambda = pu__ritz(g, j);
    const double *weight = lambda + g->history + 1;
    pu__quadrature_result result;
    double sum = 0;
    pu_int i;
    result.value = (double)NAN;
    result.smallest = DBL_MAX;
    result.largest = 0;
    if (steps > 0 && pu__spectrum(g, j, steps)) return result;
    for (i = 0; i < steps; i++) {
        if (!(lambda[i] > 0)) return result;
        if (lambda[i] < result.smallest) result.smallest = lambda[i];
        result.largest = pu__max(result.largest, lambda[i]);
        sum += weight[i] * log(lambda[i] / s) / lambda[i];
    }
    result.value = (double)g->n * log(s) + rho0 * sum;
    return result;
}

/* What the last of these steps has changed in that. log(lambda/s)/lambda is the integral over t > 0 of 1/(t (t + lambda)) -
   s/(t (t + s) lambda), and step i adds to e_1'(T + t)^-1 e_1 a positive term, which at t = 0 is a_i rho_{i-1} / rho_0 and from
   there falls by
     F(t) = (q_i/p_i) prod_{l < i} (q_l/p_l)^2,   q = 1/a,   p_1 = q_1 + t,   p_{l+1} = q_{l+1} + t + be_l q_l (p_l - q_l)/p_l.
   So it is a_i rho_{i-1} times the integral of F(s exp(u)) - 1/(1 + exp(u)) over all u, by the trapezoidal rule: 32 points
   two apart have a relative error below 0.004, which is plenty, and no eigenproblem is solved. */
PU__FN double pu__last_change(const pu__run *g, pu_int j, pu_int steps, double rho, double s)
{
    enum { POINTS = 32 };
    double t[POINTS], F[POINTS];
    double beyond[POINTS]; /* p - q */
    double t_l = s * 1.2664165549094176e-14; /* exp(-32) */
    double sum = 0;
    pu_int i, l;
    if (steps == 0) return 0;
    for (l = 0; l < POINTS; l++) {
        t[l] = t_l;
        beyond[l] = t_l;
        F[l] = 1;
        t_l *= 7.38905609893065; /* exp(2) */
    }
    for (i = 0; i < steps; i++) {
        const double q = 1 / (double)g->host_a[i * g->k + j];
        const double e = (double)g->host_b[i * g->k + j] * q;
        const int last = i + 1 == steps;
        for (l = 0; l < POINTS; l++) {
            const double inverse = 1 / (q + beyond[l]);
            const double ratio = q * inverse;
            F[l] *= last ? ratio : ratio * ratio;
            beyond[l] = t[l] + e * (beyond[l] * inverse);
        }
    }
    for (l = 0; l < POINTS; l++) sum += F[l] - s / (s + t[l]);
    return rho * (double)g->host_a[(steps - 1) * g->k + j] * 2 * sum;
}

/* Largest eigenvalue of A, from below by a few percent: Lanczos started at a random vector. Uses column 0 of g. */
PU__FN pu_status pu__lambda_max(pu__run *g, double *lambda)
{
    const pu__run before = *g;
    pu_status status;
    pu_int i, taken;
    pu__run_set(g, PU_CG, 1);
    g->use_m = 0;
    g->plan.tolerance_mode = 0;
    g->reorthogonal = 0;
    g->s.tolerance2 = 0;
    g->s.absolute2 = 0;
    g->tape = NULL;
    g->saved = NULL;
    g->host_steps[0] = 0; /* the number of the datum whose normals these are */
    g->B->write(g->B->user, g->s.steps, g->host_steps, sizeof(uint32_t));
    g->B->normals(g->B->user, g->n, NULL, 1, g->u, 0, (const uint32_t *)g->s.steps, 0, 0, PU__STREAM_TEST);
    status = pu__forward(g, NULL, pu__min(g->n, PU__LANCZOS));
    *lambda = 0;
    if (!status) {
        pu__read_history(g);
        taken = (pu_int)g->host_steps[0];
        if (taken > 0 && !pu__spectrum(g, 0, taken))
            for (i = 0; i < taken; i++) *lambda = pu__max(*lambda, pu__ritz(g, 0)[i]);
    }
    g->use_m = before.use_m;
    g->plan.tolerance_mode = before.plan.tolerance_mode;
    g->reorthogonal = before.reorthogonal;
    g->tape = before.tape;
    g->saved = before.saved;
    pu__run_set(g, g->plan.solver, before.k);
    return status;
}

/* ------------------------------------------------------------------------------------------------
   >>solve   a block of columns with its outcome; pu_solve
   ------------------------------------------------------------------------------------------------ */

/* Failures that leave no usable result. */
PU__FN int pu__fatal(pu_status status) { return status < 0 || status == PU_BREAKDOWN || status == PU_NONFINITE; }

/* Is status worse than what there was? The first one counts, but a fatal one outranks statuses that leave a result. */
PU__FN int pu__is_worse(pu_status status, pu_status before)
{
    return status && (!before || (pu__fatal(status) && !pu__fatal(before)));
}

/* How column j of the block just solved ended. */
PU__FN pu_status pu__column_status(const pu__run *g, pu_int j)
{
    static const pu_status of_stop[PU_STOP_COUNT] = {PU_OK, PU_OK, PU_OK, PU_OK, PU_BREAKDOWN, PU_NONFINITE, PU_OK};
    const int32_t stop = g->host_stop[j];
    const pu_int steps = (pu_int)g->host_steps[j];
    const int all_steps = stop == PU_STOP_STEPS;
    if (of_stop[stop]) return of_stop[stop];
    if (!pu__finite_double(g->tt[j] + g->ux[j] + g->xt[j])) return PU_NONFINITE;
    if (g->plan.tolerance_mode && all_steps) return PU_CAP;
    if (g->plan.tolerance_mode && !g->plan.converge && stop == PU_STOP_ROUNDING) return PU_STAGNATED;
    if (g->plan.solver == PU_GD && all_steps && steps > 0 && g->host_rho[steps * g->k + j] > g->host_rho[j])
        return PU_DIVERGED;
    return PU_OK;
}

/* Outcome of the columns just solved: the worst of them, recorded. first: number of column 0 in the caller's count. */
PU__FN pu_status pu__run_status(pu__run *g, pu_int datum, pu_int first, pu_report *report)
{
    pu_status worst = PU_OK;
    pu_int j, at = -1;
    pu__read_history(g);
    pu__read_dots(g);
    for (j = 0; j < g->k; j++) {
        const pu_status status = pu__column_status(g, j);
        if (!pu__is_worse(status, worst)) continue;
        worst = status;
        at = j;
    }
    if (worst) {
        (void)pu__fail(report, worst, "solver", datum < 0 ? datum : datum + at / g->each, (pu_int)g->host_steps[at]);
        report->where.column = first + at % g->each;
    }
    return worst;
}

/* The shortcut is trusted where both measures say so. Stable runs stay within 20 eps and a growth of 60, and their errors
   within 80 eps; beyond a growth of 300 errors follow it (docs/design.md has the measurements). */
#define PU__SAFE_ORTHOGONALITY (16 * (double)PU__EPS)
#define PU__SAFE_GROWTH 100.0

/* May the reverse pass of the block just solved be the shortcut? */
PU__FN int pu__shortcut_is_safe(pu__run *g)
{
    pu_int j;
    pu__orthogonality(g);
    pu__growth(g);
    for (j = 0; j < g->k; j++)
        if (!(g->orth[j] <= PU__SAFE_ORTHOGONALITY && g->growth[j] <= PU__SAFE_GROWTH)) return 0;
    return 1;
}

/* Is the outcome of a block looked at only after everything is enqueued? So it is where the host would have to wait for a
   look at the scalars, and no choice depends on them. */
PU__FN int pu__is_late(const pu__run *g, int network)
{
    return !g->B->host && !(network && g->plan.adjoint == PU_ADJOINT_AUTO);
}

/* A X = U and xbar = u - A x for a block of columns; the system's last product is that with x. network: a reverse pass will
   follow; PU_ADJOINT_AUTO then repeats the solve with re-orthogonalisation where the shortcut is not safe. */
PU__FN pu_status pu__run_block(pu__run *g, const pu_block *x0, int network, pu_int datum, pu_int first, pu_report *report)
{
    const int late = pu__is_late(g, network);
    const int choose = network && g->plan.adjoint == PU_ADJOINT_AUTO;
    pu_status outcome = PU_OK;
    pu_int j;
    g->reorthogonal = network && g->plan.adjoint == PU_ADJOINT_REORTHOGONAL;
    g->s.detach = network && g->plan.adjoint != PU_ADJOINT_FULL;
    for (j = 0; j < g->k; j++) {
        g->orth[j] = -1;
        g->growth[j] = -1;
    }
    for (;;) {
        (void)pu__refuse(report, PU_OK, ""); /* a repeated solve starts with a clean report */
        if (pu__forward(g, x0, g->plan.I) || pu__residual(g)) return pu__operator_failed(report, "A.apply", datum);
        if (!late) outcome = pu__run_status(g, datum, first, report);
        if (pu__fatal(outcome) || !choose || g->reorthogonal || pu__shortcut_is_safe(g)) return outcome;
        g->reorthogonal = 1;
    }
}

/* s.scale = factor weight */
PU__FN void pu__set_scale(pu__run *g, const pu_real *weight, pu_real factor)
{
    pu_int j;
    for (j = 0; j < g->k; j++) g->host_dots[j] = factor * weight[j];
    g->B->write(g->B->user, g->s.scale, g->host_dots, (size_t)g->k * sizeof(pu_real));
}

/* The outcome of a block, where it was not known yet. */
PU__FN pu_status pu__run_outcome(pu__run *g, pu_status outcome, int network, pu_int datum, pu_int first, pu_report *report)
{
    return pu__is_late(g, network) && !pu__fatal(outcome) ? pu__run_status(g, datum, first, report) : outcome;
}

/* What the report tells of column j of the block just solved. */
PU__FN void pu__column_record(pu__run *g, pu_int j, int network, pu_column *c)
{
    c->steps = (pu_int)g->host_steps[j];
    c->stop = (pu_stop)g->host_stop[j];
    c->adjoint = PU_ADJOINT_FULL;
    if (network && g->s.detach) c->adjoint = PU_ADJOINT_SHORTCUT;
    if (network && g->reorthogonal) c->adjoint = PU_ADJOINT_REORTHOGONAL;
    c->rhs = sqrt(g->uu[j]);
    c->residual = sqrt(g->rr[j]);
    c->true_residual = sqrt(g->tt[j]);
    c->orthogonality = g->orth[j];
    c->growth = g->growth[j];
}

/* Adds one column to the report's counts. repeated: a re-orthogonalised column is one that was solved twice. */
PU__FN void pu__report_column(pu_report *report, const pu_column *c, pu_int datum, pu_int column, int repeated)
{
    const double relative = c->rhs > 0 ? c->true_residual / c->rhs : c->true_residual;
    report->stops[c->stop]++;
    if (repeated && c->adjoint == PU_ADJOINT_REORTHOGONAL) report->reorthogonalised++;
    report->worst_orthogonality = pu__max(report->worst_orthogonality, c->orthogonality);
    report->worst_growth = pu__max(report->worst_growth, c->growth);
    if (relative > report->worst_residual || report->worst_column < 0) {
        report->worst_residual = relative;
        report->worst_datum = datum;
        report->worst_column = column;
    }
}

/* M^-1 into g->m (and M into g->minv), that of datum number `which` of those side by side, from the caller's diagonal m, or
   from diag(A) in `diagonal` where m is NULL. */
PU__FN pu_status pu__set_m(pu__run *g, pu_int which, const pu_real *m, const pu_real *diagonal, pu_int datum, pu_report *report)
{
    const size_t bytes = (size_t)g->n * sizeof(pu_real);
    const int far = pu__is_far(g->B);
    pu_real *to = g->host_m + 2 * which * g->n;
    pu_real *inverse = far ? to + g->n : g->minv;
    pu_int i;
    const pu_status status = pu__check_array(g->n, m ? m : diagonal, 1, m ? "options.solve.m" : "diag(A)", datum, report);
    if (status) return status;
    for (i = 0; i < g->n; i++) {
        to[i] = m ? m[i] : 1 / diagonal[i];
        inverse[i] = 1 / to[i];
    }
    if (far) {
        g->B->write(g->B->user, g->m + which * g->n, to, bytes);
        g->B->write(g->B->user, g->minv + which * g->n, inverse, bytes);
    }
    return PU_OK;
}

/* GD step of every column: the caller's, or 1 / lambda_max from below, kept 10 % on the safe side. */
PU__FN pu_status pu__set_step(pu__run *g, const pu_real *step, pu_int datum, pu_report *report)
{
    pu_real one = 1;
    double lambda = 0;
    pu_int j;
    if (step) {
        const pu_status status = pu__check_array(1, step, 1, "options.solve.step", datum, report);
        if (status) return status;
        one = *step;
    } else {
        if (pu__lambda_max(g, &lambda)) return pu__operator_failed(report, "A.apply", datum);
        if (!(lambda > 0 && pu__finite_double(lambda))) return pu__fail(report, PU_BREAKDOWN, "solver", datum, 0);
        one = (pu_real)(1 / (1.1 * lambda));
    }
    for (j = 0; j < g->k; j++) g->host_dots[j] = one;
    g->B->write(g->B->user, g->s.step, g->host_dots, (size_t)g->k * sizeof(pu_real));
    return PU_OK;
}

/* ---- an operator of the caller's as the system of a solve ---- */

typedef struct {
    pu_side side; /* the operator where the backend works */
    pu_real *work;
} pu__operator;

/* Y = A X or Y += A X */
PU__FN pu_status pu__operator_product(void *self, pu_int k, pu_block X, pu_block Y, int add, pu_real *dots)
{
    const pu__operator *A = (const pu__operator *)self;
    const pu_op *op = &A->side.op;
    if (dots) return A->side.apply_plus(op, NULL, k, X, Y, add, dots);
    return op->apply(op, k, X, Y, add, A->work);
}

/* Y += A P and the gradient of p'A q; an autoregression does both in one sweep. */
PU__FN pu_status pu__operator_pairs(void *self, const pu__pairs *pairs, pu_real *grad)
{
    const pu__operator *A = (const pu__operator *)self;
    const pu_op *op = &A->side.op;
    pu_status status = PU_OK;
    if (op->form == PU_FORM_AR && grad) return pu__ar_grad_pairs(op, NULL, pairs, grad, NULL);
    if (pairs->Y.at) status = op->apply(op, pairs->k, pairs->P, pairs->Y, 1, A->work);
    if (!status && grad) status = op->grad(op, pairs->k, pairs->P, pairs->Q, pairs->weight, grad, A->work);
    return status;
}

/* The system that the solver sees. */
PU__FN pu__system pu__operator_system(pu__operator *A)
{
    pu__system system;
    system.self = A;
    system.n = A->side.op.rows;
    system.dots = A->side.apply_plus != NULL;
    system.scales = A->side.op.form == PU_FORM_AR;
    system.product = pu__operator_product;
    system.pairs = pu__operator_pairs;
    return system;
}

/* ---- the public solve ---- */

/* The operator and the number of columns of a solve. */
PU__FN pu_status pu__solve_check(const pu_op *A, pu_int k, pu_report *report)
{
    if (!A) return pu__refuse(report, PU_E_NULL, "A");
    if (A->rows <= 0) return pu__refuse(report, PU_E_ARGUMENT, "A.rows");
    if (A->rows != A->cols) return pu__refuse(report, PU_E_SIZE, "A.cols");
    if (!A->apply) return pu__refuse(report, PU_E_NULL, "A.apply");
    if (A->params < 0) return pu__refuse(report, PU_E_OVERFLOW, "A.params");
    if (A->work < 0) return pu__refuse(report, PU_E_ARGUMENT, "A.work");
    if (k <= 0) return pu__refuse(report, PU_E_ARGUMENT, "k");
    return PU_OK;
}

/* The caller's options, or all defaults. */
PU__FN const pu_solve_options *pu__solve_defaults(const pu_solve_options *options)
{
    static const pu_solve_options zero = {0, PU_CG, 0, 0, 0, PU_ADJOINT_FULL, 0, NULL, NULL, 0};
    return options ? options : &zero;
}

/* A solve from options to results. Results are staged: nothing reaches the caller's arrays before the end. */
typedef struct {
    const pu_op *given;   /* A as the caller wrote it, */
    pu_op resolved;       /* as its form says, */
    pu__operator A;       /* and where the backend works */
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
    pu_real *near_scale;
    pu_real *grad, *weight, *test, *work;
} pu__solve;

/* Memory of a solve; w->A.side and side_bytes are set. */
PU__FN void pu__solve_layout(void *self, pu__arena *arena)
{
    pu__solve *w = (pu__solve *)self;
    const int far = pu__is_far(w->B);
    const pu_int n = w->given->rows;
    const pu_int k = w->io.k;
    arena->B = w->B;
    w->system = pu__operator_system(&w->A);
    pu__run_layout(&w->run, arena, &w->system, w->B, &w->plan, k, 1, w->gradients);
    w->A.work = pu__far_reals(arena, w->A.side.op.work, k);
    w->side_memory = pu__take_from(arena, 1, (pu_int)w->side_bytes, 1, 1);
    w->weight = pu__reals(arena, k, 1);
    w->test = pu__reals(arena, n, 4);
    w->work = far ? pu__reals(arena, w->resolved.work, 1) : w->A.work;
    w->near_x = far ? pu__cols(arena, n, k) : w->run.x;
    if (far && w->io.x0) w->x0 = pu__far_cols(arena, n, k);
    if (!w->gradients) return;
    w->grad = pu__reals(arena, w->given->params, 1);
    w->far_sums = far ? pu__far_reals(arena, w->A.side.op.params, 1) : w->grad;
    w->sums = far ? pu__reals(arena, w->A.side.op.params, 1) : NULL;
    w->near_rbar = far ? pu__cols(arena, n, k) : w->run.rbar;
    w->near_scale = far ? pu__reals(arena, k, 1) : w->run.s.scale;
}

/* Arrays of a solve: pointers, distances, numbers. */
PU__FN pu_status pu__solve_check_arrays(pu__solve *w, pu_report *report)
{
    const pu_solve_arrays *io = &w->io;
    const pu_int n = w->given->rows;
    const pu_int most = PTRDIFF_MAX / (pu_int)sizeof(pu_real) / io->k;
    pu_status status = PU_OK;
    pu_int j;
    if (!io->U || !io->X) return pu__refuse(report, PU_E_NULL, io->U ? "X" : "U");
    if (io->ldu < n || io->ldx < n) return pu__refuse(report, PU_E_SIZE, io->ldu < n ? "ldu" : "ldx");
    if (io->ldu > most || io->ldx > most) return pu__refuse(report, PU_E_OVERFLOW, io->ldu > most ? "ldu" : "ldx");
    if (io->grad_A && !w->resolved.grad) return pu__refuse(report, PU_E_UNSUPPORTED, "A.grad");
    for (j = 0; j < io->k && !status; j++) {
        status = pu__check_array(n, io->U + j * io->ldu, 0, "U", -1, report);
        if (!status && io->x0) status = pu__check_array(n, io->x0 + j * n, 0, "x0", -1, report);
        if (status) report->where.column = j;
    }
    if (!status && io->weight) status = pu__check_array(io->k, io->weight, 0, "weight", -1, report);
    return status;
}

/* What can be known without memory: the plan, the operator's form and its device side, sizes. */
PU__FN pu_status pu__solve_make(pu__solve *w, const pu_op *A, const pu_solve_options *options, const pu_backend *backend,
                                pu_report *report)
{
    pu_status status = pu__solve_check(A, w->io.k, report);
    if (status) return status;
    w->given = A;
    w->resolved = pu__resolve(A);
    w->o = pu__solve_defaults(options);
    w->B = backend ? backend : pu_backend_cpu();
    status = pu__check_form_sizes(A, &w->resolved, &pu__names_A, report);
    if (!status) status = pu__plan_make(w->o, A->rows, 0, w->gradients, &w->plan, report);
    if (!status) status = pu__check_backend(w->B, report);
    if (!status) status = pu__side(w->B, &w->resolved, &pu__names_A, NULL, &w->side_bytes, &w->A.side, report);
    return status;
}

PU_DEF pu_status pu_solve_bytes(const pu_op *A, pu_int k, const pu_solve_options *options, int gradients, size_t *bytes,
                                pu_report *report)
{
    pu__call call;
    pu__solve w;
    pu_status status;
    report = pu__begin(&call, NULL, report);
    memset(&w, 0, sizeof w);
    w.io.k = k;
    w.gradients = gradients;
    if (!bytes) return pu__refuse(report, PU_E_NULL, "bytes");
    status = pu__solve_make(&w, A, options, NULL, report);
    return status ? status : pu__measure(&call, pu__solve_layout, &w, bytes);
}

/* Preconditioner or step size, and the tests that need scratch. */
PU__FN pu_status pu__solve_prepare(pu__solve *w, pu_report *report)
{
    pu__run *g = &w->run;
    const pu_op *A = &w->resolved;
    pu_real *diagonal;
    pu_status status = pu__check_form(w->given, A, &pu__names_A, w->test, w->work, report);
    if (!status && A->trusted < 2) status = pu__check_spd(A, &pu__names_A, w->test, w->work, report);
    if (status) return status;
    if (g->plan.solver == PU_GD) return pu__set_step(g, w->o->step, -1, report);
    if (!g->use_m) return PU_OK;
    diagonal = w->test;
    if (!w->o->m) {
        if (!A->diag) return pu__refuse(report, PU_E_UNSUPPORTED, "A.diag (or give options.solve.m)");
        pu__zeros(diagonal, g->n);
        if (A->diag(A, diagonal, w->work)) return pu__operator_failed(report, "A.diag", -1);
    }
    return pu__set_m(g, 0, w->o->m, diagonal, -1, report);
}

/* The solve, and the gradient terms of w/2 x'A x and of what comes back through the solver. */
PU__FN pu_status pu__solve_columns(pu__solve *w, pu_report *report)
{
    pu__run *g = &w->run;
    const pu_op *op = &w->A.side.op;
    const pu_backend *B = g->B;
    const size_t column = (size_t)g->n * sizeof(pu_real);
    const pu_block *x0 = w->io.x0 ? &w->x0 : NULL;
    pu_real *grad = w->io.grad_A ? w->far_sums : NULL;
    pu_status status;
    pu_int j;
    for (j = 0; j < g->k; j++) B->write(B->user, pu__col(g->u, j), w->io.U + j * w->io.ldu, column);
    if (x0 && !pu__is_far(B)) w->x0 = pu__rows(w->io.x0, g->n);
    else if (x0) B->write(B->user, w->x0.at, w->io.x0, column * (size_t)g->k);
    if (w->grad) B->combine(B->user, op->params, 1, pu__rows(w->far_sums, op->params), 0, NULL);
    status = pu__run_block(g, x0, w->gradients, -1, 0, report);
    if (pu__fatal(status)) return status;
    if (grad) {
        pu__set_scale(g, w->weight, PU_R(0.5));
        if (op->grad(op, g->k, g->x, g->x, g->s.scale, grad, w->A.work)) return pu__operator_failed(report, "A.grad", -1);
    }
    if (w->gradients) {
        pu__set_scale(g, w->weight, 1);
        if (pu__reverse(g, x0, grad)) return pu__operator_failed(report, "A.apply or A.grad", -1);
    }
    return pu__run_outcome(g, status, w->gradients, -1, 0, report);
}

/* Results of a device to the host. */
PU__FN pu_status pu__solve_fetch(pu__solve *w, pu_report *report)
{
    pu__run *g = &w->run;
    const pu_backend *B = g->B;
    const size_t all = (size_t)(g->n * g->k) * sizeof(pu_real);
    B->read(B->user, w->near_x.at, g->x.at, all);
    if (!w->gradients) return PU_OK;
    B->read(B->user, w->near_rbar.at, g->rbar.at, all);
    B->read(B->user, w->near_scale, g->s.scale, (size_t)g->k * sizeof(pu_real));
    B->read(B->user, w->sums, w->far_sums, (size_t)w->A.side.op.params * sizeof(pu_real));
    pu__zeros(w->grad, w->given->params);
    if (w->io.grad_A && pu__pull_side(&w->A.side, w->sums, w->grad)) return pu__operator_failed(report, "A.pull", -1);
    return PU_OK;
}

/* Are the staged gradients finite? |rbar|^2 is, when every entry is. */
PU__FN pu_status pu__solve_check_results(const pu__solve *w, pu_report *report)
{
    const pu_int n = w->given->rows;
    const pu_int bad = w->grad ? pu__find_nonfinite(w->given->params, w->grad) : -1;
    pu_int j;
    if (bad >= 0) return pu__fail(report, PU_NONFINITE, "grad_A", -1, bad);
    if (!w->io.grad_U) return PU_OK;
    for (j = 0; j < w->io.k; j++) {
        const pu_real *rbar = pu__col(w->near_rbar, j);
        if (!pu__finite_double(pu__dot(n, NULL, rbar, rbar))) return pu__refuse(report, PU_NONFINITE, "grad_U");
    }
    return PU_OK;
}

/* The only place where pu_solve writes to the caller's arrays. dF/du = -w x + scale rbar */
PU__FN void pu__solve_write(pu__solve *w, pu_report *report)
{
    const pu_solve_arrays *io = &w->io;
    const pu_int n = w->given->rows;
    pu_int j, i;
    for (j = 0; j < io->k; j++) {
        pu_real *x = io->X + j * io->ldx;
        pu_column c;
        pu__copy(x, pu__col(w->near_x, j), n);
        if (io->grad_U)
            for (i = 0; i < n; i++)
                io->grad_U[j * n + i] = w->near_scale[j] * pu__col(w->near_rbar, j)[i] - w->weight[j] * x[i];
        pu__column_record(&w->run, j, w->gradients, &c);
        pu__report_column(report, &c, -1, j, w->plan.adjoint == PU_ADJOINT_AUTO);
        if (io->columns) io->columns[j] = c;
    }
    if (io->grad_A) pu__copy(io->grad_A, w->grad, w->given->params);
}

/* pu_solve after its checks and with its memory. */
PU__FN pu_status pu__solve_run(pu__solve *w, pu_report *report)
{
    const int far = pu__is_far(w->B);
    pu_status status = PU_OK;
    pu_int j;
    if (far) status = pu__side(w->B, &w->resolved, &pu__names_A, w->side_memory, &w->side_bytes, &w->A.side, report);
    if (far && !status) w->B->batch(w->B->user, 1);
    for (j = 0; j < w->io.k; j++) w->weight[j] = w->io.weight ? w->io.weight[j] : 1;
    pu__run_set(&w->run, w->plan.solver, w->io.k);
    if (!status) status = pu__solve_prepare(w, report);
    if (!status) status = pu__solve_columns(w, report);
    if (far && !pu__fatal(status)) {
        const pu_status fetched = pu__solve_fetch(w, report);
        if (fetched) status = fetched;
    }
    if (pu__far_status(w->B, report)) status = report->status; /* outranks what came of it */
    report->solver = w->plan.solver;
    report->iterations = w->plan.I;
    report->checkpoint = w->plan.every;
    report->columns = w->io.k;
    report->products = w->run.products;
    report->threads = 1;
    report->lanes = 1;
    if (!pu__fatal(status)) {
        const pu_status checked = pu__solve_check_results(w, report);
        if (checked) status = checked;
    }
    if (!pu__fatal(status)) pu__solve_write(w, report);
    return status;
}

PU_DEF pu_status pu_solve(const pu_op *A, const pu_solve_arrays *arrays, const pu_solve_options *options,
                          const pu_backend *backend, pu_workspace *ws, pu_report *report)
{
    pu__call call;
    pu__solve w;
    pu_status status;
    report = pu__begin(&call, ws, report);
    memset(&w, 0, sizeof w);
    if (!arrays) return pu__refuse(report, PU_E_NULL, "arrays");
    w.io = *arrays;
    w.gradients = w.io.grad_A || w.io.grad_U;
    status = pu__solve_make(&w, A, options, backend, report);
    if (status) return status;
    if (!w.io.ldu) w.io.ldu = A->rows;
    if (!w.io.ldx) w.io.ldx = A->rows;
    status = pu__measure(&call, pu__solve_layout, &w, NULL); /* a size that overflows, before arrays of that size are read */
    if (!status) status = pu__check_op(&w.resolved, &pu__names_A, report);
    if (!status) status = pu__solve_check_arrays(&w, report);
    if (!status && w.io.grad_A && !w.A.side.op.grad) status = pu__refuse(report, PU_E_UNSUPPORTED, "A.grad (device side)");
    if (!status) status = pu__allocate(&call, pu__solve_layout, &w);
    if (!status) status = pu__solve_run(&w, report);
    return pu__finish(&call, status);
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

/* Where the gradient of each canonical parameter is in a vector [Gamma | Phi | psi | eta | sum of bbar | m | groups x [Gamma |
   Phi | psi]], and what of it is wanted. Parts that are not wanted have no room, but for psi, eta and b. */
typedef struct {
    int want_Gamma, want_Phi, want_psi;
    int tied;  /* of psi's gradient only the sum over the rows is meant */
    pu_int Phi, psi, eta, b, m, group; /* offsets; Gamma's is 0 */
    pu_int params; /* length */
    pu_int groups, probes; /* probes in groups, each of which has a copy, eta long; groups = 0: none has */
} pu__slots;

/* Fills in the offsets for operators with these numbers of parameters; groups, probes and wants are set. */
PU__FN void pu__slots_make(pu__slots *s, pu_int Gamma, pu_int Phi, pu_int M, pu_int D, int m)
{
    s->Phi = Gamma;
    s->psi = s->Phi + Phi;
    s->eta = s->psi + M;
    s->b = s->eta + M;
    s->m = s->b + D;
    s->group = s->m + (m ? D : 0);
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

/* How a product with A is done, and its gradient where that goes together with the product. */
typedef struct {
    pu_status (*product)(void *self, pu_int k, pu_block X, pu_block Y, int add, pu_real *dots);
    /* Product and gradient of pairs; known: the pairs are (x_j, x_j) of the last product. NULL: one after the other. */
    pu_status (*fused)(pu__posterior *p, const pu__pairs *pairs, int known, pu_real *grad);
} pu__kind;

enum { PU__LEFT_NOTHING, PU__LEFT_ROWS, PU__LEFT_GRAM }; /* what a product leaves: Phi X in t0; Phi'W Phi X in gram */

struct pu__posterior {
    pu__system system;          /* A as the solver sees it */
    const pu__kind *kind, *usual; /* of the datum at hand; of a datum whose A is not formed */
    int left;                   /* what the last product has left */
    const pu_lgm *model;        /* on the host */
    const pu_side *Gamma, *Phi; /* the operators where the backend works; */
    const pu_real *psi;         /* M, likewise */
    const pu_backend *B;
    pu_int D, M, kmax;
    pu__slots slots;
    /* The rows of Phi at work: all M, or the observed ones alone when Phi can restrict itself. */
    pu_int n_rows, observed;
    pu_int *list;               /* M: the observed rows */
    const pu_int *rows;         /* the same for Phi's functions, NULL: all rows */
    int restricted;
    double log_psi;             /* sum of log psi over the observed rows */
    pu__rows_data now;          /* of the data at hand, where the backend works */
    pu__rows_data staged;       /* on the host */
    pu_real *w_all;             /* M: mask psi of every row */
    /* scratch */
    pu_real *row_sum;           /* M for each datum */
    pu_block t0, t1;            /* rows x kmax */
    pu_block gram;              /* D x kmax, Phi'W Phi X, where psi is tied and Phi has a gram product */
    pu_real *made;              /* kind spectrum: the weights as the transform reads them */
    pu_real *scaled;            /* kmax, likewise */
    double *sums;               /* kinds band and spectrum: sums over rows of each column */
    pu_real *A;                 /* D x D, room for a formed A */
    pu_real *panel;             /* for products of matrices, where A is formed or an engine is dense or dual */
    pu_real *work, *work_host;  /* of the operators; on the host, one column */
    pu_real *ones;              /* wide ones */
    /* what the next gradient is of */
    pu_int column;              /* of the datum, that column 0 of the block is; -1: none of them, all common */
    int joint;                  /* the square terms of column 0 take b's term of Phi along: bbar = -x */
    const char *failed;         /* the operator function that reported failure last */
    /* a device: data side by side, columns of each, most of them; the arrays of two uploads, used in turns */
    pu_int count, cols, wide;
    pu__rows_data upload[2];
    int slot;
    pu_real *m, *minv;          /* PCG: D for each datum of both uploads */
};

/* ---- groups of probes ---- */

/* Offset of the accumulator for column j of a block: the common one, or the copy of the probe's group. */
PU__FN pu_int pu__group_at(const pu__posterior *p, pu_int j)
{
    const pu__slots *s = &p->slots;
    const pu_int probe = p->column + j - 1;
    if (s->groups == 0 || p->column < 0 || probe < 0) return 0;
    return s->group + probe * s->groups / s->probes * s->eta;
}

/* End of the run of columns that share the accumulator of column j. */
PU__FN pu_int pu__group_end(const pu__posterior *p, pu_int j, pu_int k)
{
    const pu_int at = pu__group_at(p, j);
    do j++;
    while (j < k && pu__group_at(p, j) == at);
    return j;
}

/* ---- operators on the rows at work ---- */

/* Remembers whose function failed, for the report. */
PU__FN pu_status pu__note_failure(pu__posterior *p, pu_status status, const char *what)
{
    if (status) p->failed = what;
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
    pu_status status;
    if (Y.at == p->t0.at) p->left = PU__LEFT_NOTHING;
    if (p->rows) status = Phi->apply_rows(Phi, p->n_rows, p->rows, k, X, Y, 0, p->work);
    else status = Phi->apply(Phi, k, X, Y, 0, p->work);
    return pu__note_failure(p, status, "Phi.apply");
}

/* Y = Phi'X or Y += Phi'X */
PU__FN pu_status pu__phi_apply_t(pu__posterior *p, pu_int k, pu_block X, pu_block Y, int add)
{
    const pu_op *Phi = &p->Phi->op;
    pu_status status;
    if (p->rows) status = Phi->apply_rows_t(Phi, p->n_rows, p->rows, k, X, Y, add, p->work);
    else status = Phi->apply_t(Phi, k, X, Y, add, p->work);
    return pu__note_failure(p, status, "Phi.apply_t");
}

/* grad += sum_j weight_j d/dtheta p_j'Phi q_j */
PU__FN pu_status pu__phi_grad(pu__posterior *p, pu_int k, pu_block P, pu_block Q, const pu_real *weight, pu_real *grad)
{
    const pu_op *Phi = &p->Phi->op;
    pu_status status;
    if (p->rows) status = Phi->grad_rows(Phi, p->n_rows, p->rows, k, P, Q, weight, grad, p->work);
    else status = Phi->grad(Phi, k, P, Q, weight, grad, p->work);
    return pu__note_failure(p, status, "Phi.grad");
}

/* to = scale w o t over the rows at work */
PU__FN void pu__weigh(const pu__posterior *p, pu_int k, pu_block t, pu_block to, pu_real scale, const pu_real *w)
{
    const pu_term term = pu__t(t, scale, NULL, w);
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
    const pu_block sum = pu__rows(p->row_sum, p->M);
    pu__weigh(p, p->count, pu__rows(p->now.e, p->n_rows), sum, 1, p->now.w);
    return sum;
}

/* ---- products with A, kind by kind ---- */

/* general: Gamma X, then Phi'(W (Phi X)) */
PU__FN pu_status pu__general_product(void *self, pu_int k, pu_block X, pu_block Y, int add, pu_real *dots)
{
    pu__posterior *p = (pu__posterior *)self;
    pu_status status = pu__gamma_apply(p, k, X, Y, add);
    (void)dots;
    if (!status) status = pu__phi_apply(p, k, X, p->t0);
    if (status) return status;
    pu__weigh(p, k, p->t0, p->t1, 1, p->now.w);
    p->left = PU__LEFT_ROWS;
    return pu__phi_apply_t(p, k, p->t1, Y, 1);
}

/* matrix: Phi'W Phi X a strip of rows at a time */
PU__FN pu_status pu__matrix_product(void *self, pu_int k, pu_block X, pu_block Y, int add, pu_real *dots)
{
    pu__posterior *p = (pu__posterior *)self;
    const pu_status status = pu__gamma_apply(p, k, X, Y, add);
    (void)dots;
    if (status) return status;
    pu__dense_gram_rows(&p->Phi->op, p->n_rows, p->rows, p->now.w, k, X, p->t0, Y);
    p->left = PU__LEFT_ROWS;
    return PU_OK;
}

/* formed: A is a matrix */
PU__FN pu_status pu__formed_product(void *self, pu_int k, pu_block X, pu_block Y, int add, pu_real *dots)
{
    pu__posterior *p = (pu__posterior *)self;
    const pu_op A = pu_op_dense(p->D, p->D, p->A);
    (void)dots;
    p->left = PU__LEFT_NOTHING;
    return A.apply(&A, k, X, Y, add, NULL);
}

/* band: (Gamma + diag(shift)) X with the inner products on the way */
PU__FN pu_status pu__band_product(void *self, pu_int k, pu_block X, pu_block Y, int add, pu_real *dots)
{
    pu__posterior *p = (pu__posterior *)self;
    const pu_side *Gamma = p->Gamma;
    p->left = PU__LEFT_NOTHING;
    return pu__note_failure(p, Gamma->apply_plus(&Gamma->op, p->now.shift, k, X, Y, add, dots), "Gamma.apply");
}

/* gram: Gamma X + (Phi'W Phi) X; the latter is kept where psi's gradient is made of it. */
PU__FN pu_status pu__gram_product(void *self, pu_int k, pu_block X, pu_block Y, int add, pu_real *dots)
{
    pu__posterior *p = (pu__posterior *)self;
    const int keep = p->gram.at != NULL;
    pu_status status = pu__gamma_apply(p, k, X, Y, add);
    pu_term terms[2];
    (void)dots;
    if (status) return status;
    status = p->Phi->gram(&p->Phi->op, p->now.w, k, X, keep ? p->gram : Y, !keep, p->work);
    p->left = keep ? PU__LEFT_GRAM : PU__LEFT_NOTHING;
    terms[0] = pu__term(Y);
    terms[1] = pu__term(p->gram);
    if (keep) p->B->combine(p->B->user, p->D, k, Y, 2, terms);
    return pu__note_failure(p, status, "Phi.gram");
}

/* spectrum: pairs through the transform; sums receives the two parts of q_j'A p_j without c_j. */
PU__FN pu_status pu__spectrum_pairs(pu__posterior *p, const pu__pairs *pairs, int add)
{
    const pu_real *diagonal = (const pu_real *)p->Gamma->op.data;
    const pu_status status = pu__fourier_gram_pairs(&p->Phi->op, p->made, diagonal, pairs, add, p->sums, p->sums + pairs->k,
                                                    p->work);
    return pu__note_failure(p, status, "Phi.gram");
}

/* spectrum: the product, and its inner products from the same sums. */
PU__FN pu_status pu__spectrum_product(void *self, pu_int k, pu_block X, pu_block Y, int add, pu_real *dots)
{
    pu__posterior *p = (pu__posterior *)self;
    pu__pairs pairs;
    pu_status status;
    pu_int j;
    memset(&pairs, 0, sizeof pairs);
    pairs.k = k;
    pairs.P = X;
    pairs.Q = X;
    pairs.Y = Y;
    status = pu__spectrum_pairs(p, &pairs, add);
    if (dots)
        for (j = 0; j < k; j++) dots[j] = (pu_real)(p->sums[j] + p->sums[k + j]);
    return status;
}

/* ---- gradients of p'A q ---- */

/* The columns of pairs from `from` to `to`. */
PU__FN pu__pairs pu__pairs_part(const pu__pairs *pairs, pu_int from, pu_int to)
{
    pu__pairs part = *pairs;
    part.k = to - from;
    part.P = pu__from(pairs->P, from);
    part.Q = pu__from(pairs->Q, from);
    part.weight = pairs->weight + from;
    if (pairs->c) part.c = pairs->c + from;
    if (pairs->Y.at) part.Y = pu__from(pairs->Y, from);
    return part;
}

/* band, where besides Gamma's only the sum of psi's gradient is wanted, which is p'(Phi'W Phi) q / psi: product, gradient and
   that sum in one sweep. */
PU__FN pu_status pu__band_fused(pu__posterior *p, const pu__pairs *pairs, int known, pu_real *grad)
{
    pu_status status = PU_OK;
    pu_int j, i, end;
    (void)known;
    for (j = 0; j < pairs->k && !status; j = end) {
        pu_real *at = grad + pu__group_at(p, j);
        pu__pairs part;
        end = pu__group_end(p, j, pairs->k);
        part = pu__pairs_part(pairs, j, end);
        status = pu__note_failure(p, pu__ar_grad_pairs(&p->Gamma->op, p->now.shift, &part, at, p->sums), "Gamma.grad");
        for (i = 0; i < part.k; i++) {
            const double c = part.c ? (double)part.c[i] : 1;
            at[p->slots.psi] += (pu_real)((double)part.weight[i] * c * p->sums[i] / (double)p->psi[0]);
        }
    }
    return status;
}

/* Gamma's terms: grad += weight_j d/dtheta p_j'Gamma q_j, group by group. */
PU__FN pu_status pu__gamma_terms(pu__posterior *p, const pu__pairs *pairs, const pu_real *weight, pu_real *grad)
{
    const pu_op *Gamma = &p->Gamma->op;
    pu_status status = PU_OK;
    pu_int j, end;
    if (!p->slots.want_Gamma) return PU_OK;
    for (j = 0; j < pairs->k && !status; j = end) {
        end = pu__group_end(p, j, pairs->k);
        status = Gamma->grad(Gamma, end - j, pu__from(pairs->P, j), pu__from(pairs->Q, j), weight + j,
                             grad + pu__group_at(p, j), p->work);
    }
    return pu__note_failure(p, status, "Gamma.grad");
}

/* spectrum, where of psi's gradient only the sum is wanted. All columns take the product together, because they share
   transforms; the gradients go to their groups. */
PU__FN pu_status pu__spectrum_fused(pu__posterior *p, const pu__pairs *pairs, int known, pu_real *grad)
{
    pu_status status = known ? PU_OK : pu__spectrum_pairs(p, pairs, 1);
    pu_int j;
    for (j = 0; j < pairs->k; j++) p->scaled[j] = pairs->c ? pairs->weight[j] * pairs->c[j] : pairs->weight[j];
    if (!status) status = pu__gamma_terms(p, pairs, p->scaled, grad);
    if (status || !p->slots.want_psi || !p->observed) return status;
    for (j = 0; j < pairs->k; j++)
        grad[pu__group_at(p, j) + p->slots.psi] += (pu_real)((double)p->scaled[j] * p->sums[j] / (double)p->psi[0]);
    return PU_OK;
}

/* The sum of psi's gradient: q'(Phi'W Phi p) / psi, from the gram product of p or from the shift that Phi'W Phi is. */
PU__FN pu_status pu__tied_terms(pu__posterior *p, const pu__pairs *pairs, int known, pu_real *grad)
{
    const pu_real *shift = p->now.shift;
    pu_status status = PU_OK;
    pu_int j, end;
    if (!shift && !known)
        status = pu__note_failure(p, p->Phi->gram(&p->Phi->op, p->now.w, pairs->k, pairs->P, p->gram, 0, p->work), "Phi.gram");
    if (status || !p->observed) return status;
    for (j = 0; j < pairs->k; j = end) {
        end = pu__group_end(p, j, pairs->k);
        p->B->sum_dot(p->B->user, p->D, end - j, shift, pu__from(pairs->Q, j), pu__from(shift ? pairs->P : p->gram, j),
                      pairs->weight + j, 1 / (double)p->model->psi[0], grad + pu__group_at(p, j) + p->slots.psi);
    }
    return PU_OK;
}

/* psi's terms: mask (Phi p)(Phi q), with tp = Phi P and tq = Phi Q. */
PU__FN void pu__psi_terms(pu__posterior *p, const pu__pairs *pairs, pu_block tp, pu_block tq, pu_real *grad)
{
    const pu_backend *B = p->B;
    pu_int j, end;
    for (j = 0; j < pairs->k; j = end) {
        end = pu__group_end(p, j, pairs->k);
        B->row_dot(B->user, p->n_rows, end - j, p->rows ? NULL : p->now.mask, pairs->weight + j, pu__from(tp, j), pu__from(tq, j),
                   p->M, p->rows, grad + pu__group_at(p, j) + p->slots.psi);
    }
}

/* Phi's terms: (W Phi p) q' + (W Phi q) p'. t0 = Phi P; t1 = Phi Q, or free where P = Q. With `joint` the columns of means
   take b's term along: (W Phi x) x' + (W e) bbar', bbar = -x. */
PU__FN pu_status pu__phi_terms(pu__posterior *p, const pu__pairs *pairs, int same, pu_real *grad)
{
    const pu_int k = pairs->k;
    const pu_block wp = same ? p->t1 : p->t0; /* W Phi p; t0 is left alone where P = Q */
    pu_status status = PU_OK;
    pu_int j, end;
    if (!same) pu__weigh(p, k, p->t1, p->t1, 1, p->now.w);
    pu__weigh(p, k, p->t0, wp, same ? 2 : 1, p->now.w);
    if (p->joint) {
        pu_term terms[2];
        terms[0] = pu__t(pu__rows(p->now.e, p->n_rows), -2, NULL, p->now.w);
        terms[1] = pu__term(pu__means(p, wp));
        p->B->combine(p->B->user, p->n_rows, p->count, pu__means(p, wp), 2, terms);
    }
    for (j = 0; j < k && !status; j = end) {
        pu_real *at = grad + pu__group_at(p, j) + p->slots.Phi;
        end = pu__group_end(p, j, k);
        status = pu__phi_grad(p, end - j, pu__from(wp, j), pu__from(pairs->Q, j), pairs->weight + j, at);
        if (!status && !same)
            status = pu__phi_grad(p, end - j, pu__from(p->t1, j), pu__from(pairs->P, j), pairs->weight + j, at);
    }
    return status;
}

/* grad += weight_j d/dtheta p_j'A q_j, one operator after the other. p_j are the columns of the last product where `known`.
   Phi is multiplied with a vector only where the product has not left that. */
PU__FN pu_status pu__posterior_terms(pu__posterior *p, const pu__pairs *pairs, int known, pu_real *grad)
{
    const pu__slots *s = &p->slots;
    const int same = pairs->P.at == pairs->Q.at;
    pu_status status = pu__gamma_terms(p, pairs, pairs->weight, grad);
    if (status || (!s->want_Phi && !s->want_psi)) return status;
    if (!s->want_Phi && ((p->gram.at && !p->rows) || (p->now.shift && s->tied)))
        return pu__tied_terms(p, pairs, known && p->left == PU__LEFT_GRAM, grad);
    if (!known || p->left != PU__LEFT_ROWS) status = pu__phi_apply(p, pairs->k, pairs->P, p->t0);
    if (!status && !same) status = pu__phi_apply(p, pairs->k, pairs->Q, p->t1);
    if (status) return status;
    if (s->want_psi) pu__psi_terms(p, pairs, p->t0, same ? p->t0 : p->t1, grad);
    if (s->want_Phi) status = pu__phi_terms(p, pairs, same, grad);
    if (!same) p->left = PU__LEFT_NOTHING; /* t0 was weighted in place */
    return status;
}

/* The system's pairs: product and gradient of (c_j p_j, q_j). */
PU__FN pu_status pu__posterior_pairs(void *self, const pu__pairs *pairs, pu_real *grad)
{
    pu__posterior *p = (pu__posterior *)self;
    const int product = pairs->Y.at != NULL;
    pu_status status = PU_OK;
    if (p->system.scales && grad) return p->kind->fused(p, pairs, 0, grad);
    if (product) status = p->kind->product(p, pairs->k, pairs->P, pairs->Y, 1, NULL);
    if (!status && grad) status = pu__posterior_terms(p, pairs, product, grad);
    return status;
}

/* grad += weight_j d/dtheta x_j'A x_j. last: the last product was with X, and what it has left is used. */
PU__FN pu_status pu__posterior_square(pu__posterior *p, pu_int k, pu_block X, const pu_real *weight, int last, pu_real *grad)
{
    pu__pairs pairs;
    memset(&pairs, 0, sizeof pairs);
    pairs.k = k;
    pairs.P = X;
    pairs.Q = X;
    pairs.weight = weight;
    if (p->system.scales) return p->kind->fused(p, &pairs, last, grad);
    return pu__posterior_terms(p, &pairs, last, grad);
}

static const pu__kind pu__kind_general = {pu__general_product, NULL};
static const pu__kind pu__kind_matrix = {pu__matrix_product, NULL};
static const pu__kind pu__kind_formed = {pu__formed_product, NULL};
static const pu__kind pu__kind_band = {pu__band_product, pu__band_fused};
static const pu__kind pu__kind_spectrum = {pu__spectrum_product, pu__spectrum_fused};
static const pu__kind pu__kind_gram = {pu__gram_product, NULL};

/* Can Phi work on a part of its rows? */
PU__FN int pu__can_restrict(const pu_op *Phi) { return Phi->apply_rows && Phi->apply_rows_t && Phi->grad_rows; }

/* The kind of A for these operators, where the backend works. host: their own memory is the host's. */
PU__FN const pu__kind *pu__kind_of(const pu_lgm *model, const pu_side *Gamma, const pu_side *Phi, int host)
{
    const int diagonal = model->Gamma->form == PU_FORM_DIAGONAL && model->Gamma->params == model->Gamma->rows;
    if (model->Phi->form == PU_FORM_DIAGONAL && Gamma->apply_plus) return &pu__kind_band;
    if (host && diagonal && model->Phi->form == PU_FORM_FOURIER) return &pu__kind_spectrum;
    if (Phi->gram && !pu__can_restrict(&Phi->op)) return &pu__kind_gram;
    if (host && pu__plain(model->Phi)) return &pu__kind_matrix;
    return &pu__kind_general;
}

/* ---- memory ---- */

/* The arrays over rows of `wide` data, on the device or on the host. */
PU__FN void pu__rows_layout(pu__rows_data *r, pu__arena *arena, const pu__posterior *p, int there, int far)
{
    pu_real **arrays[] = {&r->w, &r->w_root, &r->mask, &r->e};
    const pu_int lists = 2 * p->M * p->wide + p->M + 1;
    size_t i;
    for (i = 0; i < 4; i++) *arrays[i] = (pu_real *)pu__take_from(arena, there, p->M, p->wide, sizeof(pu_real));
    r->shift = NULL;
    if (p->usual == &pu__kind_band) r->shift = (pu_real *)pu__take_from(arena, there, p->D, p->wide, sizeof(pu_real));
    r->id = (uint32_t *)pu__take_from(arena, there, p->wide, 1, sizeof(uint32_t));
    r->rows = far ? (pu_int *)pu__take_from(arena, there, lists, 1, sizeof(pu_int)) : NULL;
}

/* What a posterior is made of. */
typedef struct {
    const pu_lgm *model;        /* on the host, forms resolved */
    const pu_side *Gamma, *Phi; /* where the backend works */
    const pu_real *psi;         /* likewise; NULL: the model's */
    const pu_backend *B;
    const pu__slots *slots;     /* NULL: no gradient */
    pu_int kmax, wide;          /* columns at a time; data side by side */
    int form;                   /* room for a formed A */
} pu__posterior_parts;

/* Lays out (or measures) a posterior. */
PU__FN void pu__posterior_layout(pu__posterior *p, pu__arena *arena, const pu__posterior_parts *of)
{
    const pu_lgm *model = of->model;
    const pu_int D = model->Gamma->rows;
    const pu_int M = model->Phi->rows;
    const pu_int host_work = pu__most(model->Gamma->work, model->Phi->work);
    const int far = pu__is_far(of->B);
    memset(p, 0, sizeof *p);
    p->model = model;
    p->Gamma = of->Gamma;
    p->Phi = of->Phi;
    p->psi = of->psi ? of->psi : model->psi;
    p->B = of->B;
    p->D = D;
    p->M = M;
    p->kmax = of->kmax;
    p->count = 1;
    p->cols = of->kmax;
    p->wide = of->wide;
    p->column = -1;
    if (of->slots) p->slots = *of->slots;
    p->usual = pu__kind_of(model, of->Gamma, of->Phi, !far);
    p->w_all = pu__reals(arena, M, 1);
    p->list = (pu_int *)pu__take(arena, M, 1, sizeof(pu_int));
    p->ones = pu__far_reals(arena, of->wide, 1);
    pu__rows_layout(&p->staged, arena, p, 0, far);
    p->now = p->staged;
    if (far) pu__rows_layout(&p->upload[0], arena, p, 1, 1);
    if (far) pu__rows_layout(&p->upload[1], arena, p, 1, 1);
    p->row_sum = pu__far_reals(arena, M, of->wide);
    p->t0 = pu__far_cols(arena, M, of->kmax);
    p->t1 = pu__far_cols(arena, M, of->kmax);
    if (p->usual == &pu__kind_gram && p->slots.tied) p->gram = pu__far_cols(arena, D, of->kmax);
    if (p->usual == &pu__kind_spectrum) p->made = pu__reals(arena, pu__fourier_gram_size(&of->Phi->op), 1);
    if (p->usual->fused) {
        p->scaled = pu__reals(arena, of->kmax, 1);
        p->sums = (double *)pu__take(arena, of->kmax, 2, sizeof(double));
    }
    p->work = pu__far_reals(arena, pu__most(of->Gamma->op.work, of->Phi->op.work), of->kmax);
    p->work_host = far ? pu__reals(arena, host_work, 1) : p->work;
    if (of->form) p->A = pu__reals(arena, D, D);
}

/* A of the datum at hand has this kind from here on. */
PU__FN void pu__posterior_set_kind(pu__posterior *p, const pu__kind *kind)
{
    const pu__slots *s = &p->slots;
    const int far = pu__is_far(p->B);
    p->kind = kind;
    p->left = PU__LEFT_NOTHING;
    p->system.self = p;
    p->system.n = p->D;
    p->system.product = kind->product;
    p->system.pairs = pu__posterior_pairs;
    p->system.dots = kind->fused != NULL; /* those that sum up on the way */
    p->system.scales = kind->fused && !far && s->tied && !s->want_Phi;
    if (kind == &pu__kind_band) p->system.scales = p->system.scales && s->want_Gamma && s->want_psi;
}

/* ---- a datum ---- */

/* Observations of datum n into rows, w, mask, e. It is number `which` of those side by side, each of which has n_rows rows.
   Returns M_n, and in *c the datum's own part of c: 1/2 e'We - 1/2 sum log psi. */
PU__FN pu_int pu__posterior_read(pu__posterior *p, const pu_data *data, pu_int n, pu_int which, pu_int n_rows, double *c)
{
    const pu_real *eta = p->model->eta;
    const pu__rows_data *to = &p->staged;
    const pu_int from = which * n_rows;
    pu_int at, row = 0, observed = 0;
    pu_real y = 0;
    double sum = 0;
    pu__logs logs = {0, 1};
    pu__zeros(to->w + from, n_rows);
    pu__zeros(to->w_root + from, n_rows);
    pu__zeros(to->mask + from, n_rows);
    pu__zeros(to->e + from, n_rows);
    pu__zeros(p->w_all, p->M);
    for (at = 0; (at = pu__observed(data, n, at, &row, &y)) >= 0; at++) {
        const pu_real psi = p->model->psi[row];
        const pu_real e = y - (eta ? eta[row] : 0);
        const pu_int i = from + (p->restricted ? observed : row);
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
    if (p->made) pu__fourier_gram_make(Phi, p->w_all, p->made);
    return p->observed;
}

/* Where each row of Phi is in a list of n, behind the list itself: see pu_backend. */
PU__FN void pu__list_places(pu_int M, pu_int n, pu_int *list)
{
    pu_int *start = list + n;
    pu_int *place = start + M + 1;
    pu_int i;
    for (i = 0; i <= M; i++) start[i] = 0;
    for (i = 0; i < n; i++)
        if (list[i] >= 0) start[list[i] + 1]++;
    for (i = 0; i < M; i++) start[i + 1] += start[i];
    for (i = 0; i < n; i++)
        if (list[i] >= 0) place[start[list[i]]++] = i;
    for (i = M; i > 0; i--) start[i] = start[i - 1];
    start[0] = 0;
}

/* Sends what pu__posterior_read has made of `count` data to where the backend works, into the other of the two uploads. */
PU__FN void pu__posterior_send(pu__posterior *p)
{
    const pu_int rows = p->n_rows * p->count;
    const size_t bytes = (size_t)rows * sizeof(pu_real);
    const pu_backend *B = p->B;
    const pu__rows_data *from = &p->staged;
    p->now = p->upload[p->slot];
    if (rows > 0) {
        B->write(B->user, p->now.w, from->w, bytes);
        B->write(B->user, p->now.w_root, from->w_root, bytes);
        B->write(B->user, p->now.mask, from->mask, bytes);
        B->write(B->user, p->now.e, from->e, bytes);
    }
    if (from->shift) B->write(B->user, p->now.shift, from->shift, (size_t)(p->D * p->count) * sizeof(pu_real));
    B->write(B->user, p->now.id, from->id, (size_t)p->count * sizeof *from->id);
    if (p->rows) {
        pu__list_places(p->M, rows, from->rows);
        B->write(B->user, p->now.rows, from->rows, (size_t)(2 * rows + p->M + 1) * sizeof *from->rows);
        p->rows = p->now.rows;
    }
}

/* y += diag(A), on the host, of the datum loaded last; where both operators can tell (pu__has_diag). */
PU__FN pu_status pu__posterior_diag(pu__posterior *p, pu_real *y)
{
    const pu_op *Gamma = p->model->Gamma;
    const pu_op *Phi = p->model->Phi;
    const pu_status status = pu__note_failure(p, Gamma->diag(Gamma, y, p->work_host), "Gamma.diag");
    if (status) return status;
    return pu__note_failure(p, Phi->gram_diag(Phi, p->w_all, y, p->work_host), "Phi.gram_diag");
}

/* Is diag(A) known? */
PU__FN int pu__has_diag(const pu_lgm *model) { return model->Gamma->diag && model->Phi->gram_diag; }

/* b = Gamma nu + Phi' W e of every datum; gamma_nu may be NULL. */
PU__FN pu_status pu__posterior_rhs(pu__posterior *p, const pu_real *gamma_nu, pu_block b)
{
    const pu_status status = pu__phi_apply_t(p, p->count, pu__weighted_e(p), b, 0);
    pu_term terms[2];
    terms[0] = pu__term(b);
    terms[1] = pu__term(pu__rows(gamma_nu, 0));
    if (gamma_nu) p->B->combine(p->B->user, p->D, p->count, b, 2, terms);
    return status;
}

/* c + 1/2 x'A x - b'x + 1/2 log det Gamma for the x of the last product, as 1/2 (e - Phi x)'W (e - Phi x) + 1/2 (x - nu)'Gamma
   (x - nu) - 1/2 sum log psi: the same for every x, but a sum of squares, where c and b'x are far larger than their
   difference when the noise is small. At x = mu a rounding of x counts to second order only. d, q: D reals of scratch. */
PU__FN pu_status pu__posterior_value(pu__posterior *p, pu_block x, pu_real *d, pu_real *q, double *value)
{
    const pu_real *nu = p->model->nu;
    pu_real *t = p->row_sum;
    pu_status status = p->left == PU__LEFT_ROWS ? PU_OK : pu__phi_apply(p, 1, x, p->t0);
    pu_int i;
    if (status) return status;
    for (i = 0; i < p->n_rows; i++) t[i] = p->now.mask[i] != 0 ? p->now.e[i] - p->t0.at[i] : 0;
    for (i = 0; i < p->D; i++) d[i] = x.at[i] - (nu ? nu[i] : 0);
    *value = (pu__dot(p->n_rows, p->now.w, t, t) - p->log_psi) / 2;
    status = pu__gamma_apply(p, 1, pu__rows(d, p->D), pu__rows(q, p->D), 0);
    *value += pu__dot(p->D, NULL, d, q) / 2;
    return status;
}

/* ---- A as a matrix ---- */

/* Where the i-th observed row is in blocks over rows. */
PU__FN pu_int pu__place(const pu__posterior *p, pu_int i) { return p->restricted ? i : p->list[i]; }

/* Phi where it is a plain matrix, whose rows need not be asked for by products with unit vectors; otherwise NULL. */
PU__FN const pu_real *pu__phi_matrix(const pu__posterior *p)
{
    return pu__plain(p->model->Phi) ? (const pu_real *)p->model->Phi->data : NULL;
}

/* Y_j = W^1/2 row j of Phi, for k observed rows from `first` on. */
PU__FN pu_status pu__phi_rows(pu__posterior *p, pu_int first, pu_int k, pu_block Y)
{
    const pu_real *matrix = pu__phi_matrix(p);
    pu_int j, i;
    if (!matrix) pu__clear(p->n_rows, k, p->t1, 0);
    for (j = 0; j < k; j++) {
        const pu_int place = pu__place(p, first + j);
        const pu_real root = p->now.w_root[place];
        if (matrix) {
            const pu_real *row = matrix + p->list[first + j] * p->D;
            for (i = 0; i < p->D; i++) pu__col(Y, j)[i] = root * row[i];
        } else {
            pu__col(p->t1, j)[place] = root;
        }
    }
    return matrix ? PU_OK : pu__phi_apply_t(p, k, p->t1, Y, 0);
}

/* Gamma into a (D x D), or all of A where Phi is not a matrix: columns at a time through X and Y (D x kmax). */
PU__FN pu_status pu__posterior_columns(pu__posterior *p, int only_Gamma, pu_block X, pu_block Y, pu_real *a)
{
    const pu_int D = p->D;
    pu_status status = PU_OK;
    pu_int first, j, k;
    for (first = 0; first < D && !status; first += k) {
        k = pu__min(p->kmax, D - first);
        pu__clear(D, k, X, 0);
        for (j = 0; j < k; j++) pu__col(X, j)[first + j] = 1;
        if (only_Gamma) status = pu__gamma_apply(p, k, X, Y, 0);
        else status = p->kind->product(p, k, X, Y, 0, NULL);
        for (j = 0; j < k; j++) pu__copy(a + (first + j) * D, pu__col(Y, j), D);
    }
    return status;
}

/* A into a (D x D). Where Phi is a matrix Gamma comes by columns, and Phi'W Phi as a product of matrices. */
PU__FN pu_status pu__posterior_dense(pu__posterior *p, pu_block X, pu_block Y, pu_real *a)
{
    const pu_op *Gamma = p->model->Gamma;
    const pu_real *Phi = pu__phi_matrix(p);
    const pu_int D = p->D;
    const int whole = Gamma->form == PU_FORM_MATRIX || Gamma->form == PU_FORM_SYMMETRIC;
    pu__matrix rows;
    pu_status status = PU_OK;
    if (Phi && whole) pu__copy(a, (const pu_real *)Gamma->data, D * D);
    else status = pu__posterior_columns(p, Phi != NULL, X, Y, a);
    p->left = PU__LEFT_NOTHING;
    if (!Phi || status) return status;
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
     Kalman   filter and smoother (Rauch, Tung, Striebel), the textbook way to the same numbers; then as banded
   ------------------------------------------------------------------------------------------------ */

/* A state space for the Kalman engine: s_t = F s_{t-1} + N(0, Q), s_0 ~ N(0, P0). */
typedef struct {
    pu_int S, T, block; /* states, steps, entries of z per step */
    double F[PU__SSM_SQUARE], Q[PU__SSM_SQUARE], P0[PU__SSM_SQUARE];
} pu__markov;

/* What a direct engine works with. The blocks x, u, q are the solver's, D x kmax. */
typedef struct {
    pu__posterior *post;
    const pu_lgm *model;
    pu_block x, u, q;     /* solutions, right-hand sides, scratch */
    pu_real *weight;      /* kmax */
    pu_int kmax, width;   /* columns at a time; of the band of A */
    double gamma_logdet;  /* log det Gamma */
    double logdet;        /* out: log det A */
    double norm;          /* out, banded: largest row sum of |A|, from above */
    pu_real *L;           /* dense: D x D; dual: m x m */
    pu_real *s;           /* dual: m */
    pu_real *Y;           /* dual: scratch, m x m, and at least PU__SPAN wide */
    pu_block V;           /* dual: D x m */
    pu_real *row;         /* banded, Kalman: a row of Phi */
    double *band;         /* D x (width + 1): the factor; 1/d; Sigma within the band; a column */
    double *inverse, *Z, *column;
    pu__markov *markov;
    double *kalman;       /* Kalman, per step: filtered and predicted mean and covariance */
    double *squares;      /* Kalman: six S x S matrices */
    pu_real *narrow;      /* Kalman: two more */
} pu__direct;

/* ---- dense ---- */

/* L L' = A, and log det A. */
PU__FN pu_status pu__dense_prepare(pu__direct *e, pu_int n, pu_report *report)
{
    const pu_int D = e->post->D;
    pu_int bad;
    if (pu__posterior_dense(e->post, e->x, e->q, e->L)) return pu__operator_failed(report, e->post->failed, n);
    bad = pu__find_nonfinite(D * D, e->L);
    if (bad >= 0) return pu__fail(report, PU_NONFINITE, "A", n, bad);
    bad = pu__cholesky(D, e->L, D, e->post->panel);
    if (bad >= 0) return pu__fail(report, PU_E_NOT_DEFINITE, "A", n, bad * D + bad);
    e->logdet = 2 * pu__log_diagonal(D, e->L, D + 1);
    return PU_OK;
}

/* x = A^-1 u */
PU__FN pu_status pu__dense_solve(pu__direct *e, pu_int first, pu_int k)
{
    const pu_int D = e->post->D;
    pu_int j;
    (void)first;
    for (j = 0; j < k; j++) {
        pu_real *x = pu__col(e->x, j);
        pu__copy(x, pu__col(e->u, j), D);
        pu__lower_solve(D, e->L, 0, x);
        pu__upper_solve(D, e->L, D - 1, x);
    }
    return PU_OK;
}

/* Columns `first` on of L'^-1 into x, each with weight one. */
PU__FN void pu__dense_columns(pu__direct *e, pu_int first, pu_int k)
{
    const pu_int D = e->post->D;
    pu_int j;
    pu__clear(D, k, e->x, 0);
    for (j = 0; j < k; j++) {
        pu__col(e->x, j)[first + j] = 1;
        e->weight[j] = 1;
    }
    pu__triangle(first + k, e->L, D, 1, k, e->x, 0, e->post->panel);
}

/* lane += gradient of 1/2 tr(A Sigma), Sigma = sum of those columns */
PU__FN pu_status pu__dense_sigma(pu__direct *e, pu_real *lane)
{
    const pu_int D = e->post->D;
    pu_int first, j, k;
    for (first = 0; first < D; first += k) {
        k = pu__min(e->kmax, D - first);
        pu__dense_columns(e, first, k);
        for (j = 0; j < k; j++) e->weight[j] = PU_R(0.5);
        if (pu__posterior_square(e->post, k, e->x, e->weight, 0, lane)) return PU_E_OPERATOR;
    }
    return PU_OK;
}

/* ---- dual ---- */

/* B = I + R G, lower and upper triangle, with the rows of G' as columns of V. */
PU__FN pu_status pu__dual_matrix(pu__direct *e, pu_int n, pu_report *report)
{
    pu__posterior *p = e->post;
    const pu_op *Gamma = e->model->Gamma;
    const pu_int m = p->observed;
    const pu_block V = e->V;
    const int unit = Gamma->form == PU_FORM_DIAGONAL && Gamma->params == 0; /* then G' = R */
    pu_real *B = e->L;
    pu_int first, i, k;
    if (m > 0) pu__zeros(B, m * m);
    /* k rows of R and of G', then those columns of B down to the diagonal */
    for (first = 0; first < m; first += k) {
        const pu_block to = pu__from(V, first);
        const pu_block R = unit ? to : e->x;
        k = pu__min(e->kmax, m - first);
        if (pu__phi_rows(p, first, k, R)) return pu__operator_failed(report, p->failed, n);
        if (!unit && Gamma->solve(Gamma, k, R, to, p->work)) return pu__operator_failed(report, "Gamma.solve", n);
        pu__multiply(first + k, k, p->D, pu__mat(V.at, V.ld, 1), pu__mat(R.at, 1, R.ld), pu__rows(B + first, m), PU__UPPER,
                     p->panel);
    }
    pu__mirror(m, B, 1);
    for (i = 0; i < m; i++) B[i * m + i] += 1;
    return PU_OK;
}

/* L L' = B, and log det A. Refuses where no digit is left; the other engines may have some. */
PU__FN pu_status pu__dual_prepare(pu__direct *e, pu_int n, pu_report *report)
{
    const pu_int m = e->post->observed;
    const pu_real *L = e->L;
    double low = HUGE_VAL;
    double high = 0;
    pu_int i, bad;
    const pu_status status = pu__dual_matrix(e, n, report);
    if (status) return status;
    bad = pu__find_nonfinite(m * m, e->L);
    if (bad >= 0) return pu__fail(report, PU_NONFINITE, "I + R Gamma^-1 R'", n, bad);
    bad = pu__cholesky(m, e->L, m, e->post->panel);
    if (bad >= 0) return pu__fail(report, PU_E_NOT_DEFINITE, "I + R Gamma^-1 R'", n, bad * m + bad);
    for (i = 0; i < m; i++) {
        const double pivot = (double)L[i * m + i];
        low = low < pivot ? low : pivot;
        high = pu__max(high, pivot);
    }
    if (high * high * (double)PU__EPS > 0.01 * low * low)
        return pu__fail(report, PU_E_NOT_DEFINITE, "I + R Gamma^-1 R' (too ill-conditioned for the dual engine)", n, -1);
    e->logdet = e->gamma_logdet + 2 * pu__log_diagonal(m, L, m + 1);
    return PU_OK;
}

/* s = W^1/2 e - R nu and x = nu: the mean this way has no cancellation to suffer. */
PU__FN pu_status pu__dual_mean_side(pu__direct *e, pu_block x)
{
    pu__posterior *p = e->post;
    const pu_real *nu = e->model->nu;
    pu_int i;
    if (nu) pu__copy(x.at, nu, p->D);
    else pu__zeros(x.at, p->D);
    if (nu && pu__phi_apply(p, 1, x, p->t0)) return PU_E_OPERATOR;
    for (i = 0; i < p->observed; i++) {
        const pu_int at = pu__place(p, i);
        e->s[i] = p->now.w_root[at] * (p->now.e[at] - (nu ? p->t0.at[at] : 0));
    }
    return PU_OK;
}

/* x = A^-1 u; column 0 of a datum is its mean. */
PU__FN pu_status pu__dual_solve(pu__direct *e, pu_int first, pu_int k)
{
    pu__posterior *p = e->post;
    const pu_op *Gamma = e->model->Gamma;
    const pu_block V = e->V;
    const pu_int D = p->D;
    const pu_int m = p->observed;
    pu_int i, j;
    for (j = 0; j < k; j++) {
        const pu_block x = pu__from(e->x, j);
        const pu_block u = pu__from(e->u, j);
        if (first + j == 0) {
            if (pu__dual_mean_side(e, x)) return PU_E_OPERATOR;
        } else {
            if (Gamma->solve(Gamma, 1, u, x, p->work)) return pu__note_failure(p, PU_E_OPERATOR, "Gamma.solve");
            for (i = 0; i < m; i++) e->s[i] = -(pu_real)pu__dot(D, NULL, pu__col(V, i), u.at);
        }
        pu__lower_solve(m, e->L, 0, e->s);
        pu__upper_solve(m, e->L, m - 1, e->s);
        for (i = 0; i + 4 <= m; i += 4)
            pu__axpy4(D, e->s + i, pu__col(V, i), pu__col(V, i + 1), pu__col(V, i + 2), pu__col(V, i + 3), x.at);
        for (; i < m; i++) pu__axpy(D, e->s[i], pu__col(V, i), x.at);
    }
    return PU_OK;
}

/* V := L^-1 V or L'^-1 V (transposed) by rows, that is V = G L'^-1 or G B^-1; as many columns of L^-1 V at a time as stay in
   cache. */
PU__FN void pu__dual_sweep(pu__direct *e, int transposed)
{
    const pu_int D = e->post->D;
    const pu_int m = e->post->observed;
    const pu_int wide = 256;
    pu_int at;
    for (at = 0; at < D; at += wide)
        pu__triangle(m, e->L, m, transposed, pu__min(wide, D - at), pu__rows(e->V.at + at, e->V.ld), 1, e->post->panel);
}

/* L := B^-1 = L'^-1 L^-1, both triangles. (L^-1)_ij and its part in (B^-1)_jk are zero where i < j. */
PU__FN void pu__dual_invert(pu__direct *e)
{
    const pu_int m = e->post->observed;
    const pu_int some = 64;
    pu_real *Y = e->Y;
    pu_int first, end, j;
    if (m == 0) return; /* and neither Y nor L is there */
    pu__zeros(Y, m * m);
    for (first = 0; first < m; first += some) {
        end = pu__min(first + some, m);
        for (j = first; j < end; j++) Y[j * m + j] = 1;
        pu__triangle(m - first, e->L + first * (m + 1), m, 0, end - first, pu__rows(Y + first * (m + 1), m), 1, e->post->panel);
    }
    pu__zeros(e->L, m * m);
    for (first = 0; first < m; first += some) {
        end = pu__min(first + some, m);
        pu__multiply(end, end, end - first, pu__mat(Y + first * m, 1, m), pu__mat(Y + first * m, m, 1), pu__rows(e->L, m),
                     PU__LOWER, e->post->panel);
    }
    pu__mirror(m, e->L, 0);
}

/* V := B^-1 V by rows, that is V = G B^-1, with B^-1 in L. */
PU__FN void pu__dual_product(pu__direct *e)
{
    const pu_int D = e->post->D;
    const pu_int m = e->post->observed;
    const pu_block V = e->V;
    pu_int at, wide, i;
    if (m == 0) return;
    for (at = 0; at < D; at += wide) {
        wide = pu__min(PU__SPAN, D - at);
        pu__zeros(e->Y, m * wide);
        pu__multiply(m, wide, m, pu__mat(e->L, m, 1), pu__mat(V.at + at, V.ld, 1), pu__rows(e->Y, wide), PU__ADD, e->post->panel);
        for (i = 0; i < m; i++) pu__copy(pu__col(V, i) + at, e->Y + i * wide, wide);
    }
}

/* grad += W^1/2 V' for the columns of V, one per observed row of Phi. */
PU__FN pu_status pu__dual_phi_grad(pu__direct *e, pu_real *grad)
{
    pu__posterior *p = e->post;
    const pu_int m = p->observed;
    pu_int first, j, k;
    if (pu__phi_matrix(p)) {
        for (j = 0; j < m; j++) pu__axpy(p->D, p->now.w_root[pu__place(p, j)], pu__col(e->V, j), grad + p->list[j] * p->D);
        return PU_OK;
    }
    for (first = 0; first < m; first += k) {
        k = pu__min(e->kmax, m - first);
        pu__clear(p->n_rows, k, p->t1, 0);
        for (j = 0; j < k; j++) {
            const pu_int at = pu__place(p, first + j);
            pu__col(p->t1, j)[at] = p->now.w_root[at];
            e->weight[j] = 1;
        }
        if (pu__phi_grad(p, k, p->t1, pu__from(e->V, first), e->weight, grad)) return PU_E_OPERATOR;
    }
    return PU_OK;
}

/* lane -= gradient of 1/2 tr(Gamma V V'), V = G L'^-1: what Sigma lacks of Gamma^-1. The part of Gamma^-1 itself is left to
   pu__finish_gradient, where it meets -1/2 log det Gamma. */
PU__FN pu_status pu__dual_gamma_grad(pu__direct *e, pu_real *lane)
{
    pu__posterior *p = e->post;
    const pu_op *Gamma = e->model->Gamma;
    pu_int first, j, k;
    for (first = 0; first < p->observed; first += k) {
        const pu_block V = pu__from(e->V, first);
        k = pu__min(e->kmax, p->observed - first);
        for (j = 0; j < k; j++) e->weight[j] = PU_R(-0.5);
        if (Gamma->grad(Gamma, k, V, V, e->weight, lane, p->work)) return pu__note_failure(p, PU_E_OPERATOR, "Gamma.grad");
    }
    return PU_OK;
}

/* lane += gradient of 1/2 tr(A Sigma), but for the part named above */
PU__FN pu_status pu__dual_sigma(pu__direct *e, pu_real *lane)
{
    pu__posterior *p = e->post;
    const pu__slots *s = &p->slots;
    const pu_int m = p->observed;
    pu_int j;
    if (s->want_Gamma) {
        pu__dual_sweep(e, 0); /* V = G L'^-1 */
        if (pu__dual_gamma_grad(e, lane)) return PU_E_OPERATOR;
        if (s->want_Phi) pu__dual_sweep(e, 1); /* V = G B^-1 = Sigma R' */
    }
    if (s->want_psi || s->want_Phi) pu__dual_invert(e);
    if (s->want_psi)
        for (j = 0; j < m; j++) {
            const double b = (double)e->L[j * (m + 1)];
            lane[s->psi + p->list[j]] += (pu_real)((1 - b) / (2 * (double)p->now.w[pu__place(p, j)]));
        }
    if (!s->want_Phi) return PU_OK;
    if (!s->want_Gamma) pu__dual_product(e); /* the same V: one product of matrices costs less than two sweeps */
    return pu__dual_phi_grad(e, lane + s->Phi);
}

/* ---- banded ---- */

/* Row m of Phi into e->row: its first column into *first. Returns its length, or -1 where the row leaves the matrix. */
PU__FN pu_int pu__phi_row(pu__direct *e, pu_int m, pu_int *first)
{
    const pu_op *Phi = e->model->Phi;
    const pu_int count = Phi->row(Phi, m, first, e->row);
    return count < 0 || count > Phi->band + 1 || *first < 0 || *first + count > e->post->D ? -1 : count;
}

/* A into the band, its factor, log det A. */
PU__FN pu_status pu__banded_prepare(pu__direct *e, pu_int n, pu_report *report)
{
    const pu_op *Gamma = e->model->Gamma;
    const pu__posterior *p = e->post;
    const pu_int D = p->D;
    const pu_int wide = e->width + 1;
    pu__logs logs = {0, 1};
    pu_int i, j, l, bad;
    memset(e->band, 0, (size_t)(D * wide) * sizeof *e->band);
    if (Gamma->band_add(Gamma, e->width, e->band)) return pu__operator_failed(report, "Gamma.band_add", n);
    for (i = 0; i < p->observed; i++) { /* A += psi_m phi_m phi_m' */
        pu_int at = 0;
        const pu_int row = p->list[i];
        const pu_int count = pu__phi_row(e, row, &at);
        if (count < 0) return pu__operator_failed(report, "Phi.row", n);
        for (j = 0; j < count; j++) {
            const double scaled = (double)e->model->psi[row] * (double)e->row[j];
            for (l = 0; l <= j; l++) e->band[(at + j) * wide + j - l] += scaled * (double)e->row[l];
        }
    }
    e->norm = 0;
    for (i = 0; i < D; i++) { /* a bound: twice the largest sum of a lower row */
        double sum = 0;
        for (j = 0; j < wide; j++) sum += fabs(e->band[i * wide + j]);
        e->norm = pu__max(e->norm, 2 * sum);
    }
    bad = pu__band_factor(D, e->width, e->band, e->inverse);
    if (bad >= 0) return pu__fail(report, PU_E_NOT_DEFINITE, "A", n, bad * D + bad);
    for (i = 0; i < D; i++) pu__logs_add(&logs, e->band[i * wide]);
    e->logdet = logs.sum + log(logs.product);
    return PU_OK;
}

/* x = A^-1 u, in double */
PU__FN pu_status pu__banded_solve(pu__direct *e, pu_int first, pu_int k)
{
    const pu_int D = e->post->D;
    pu_int i, j;
    (void)first;
    for (j = 0; j < k; j++) {
        for (i = 0; i < D; i++) e->column[i] = (double)pu__col(e->u, j)[i];
        pu__band_solve(D, e->width, e->band, e->inverse, e->column);
        for (i = 0; i < D; i++) pu__col(e->x, j)[i] = (pu_real)e->column[i];
    }
    return PU_OK;
}

/* lane += gradient of 1/2 tr(A Z), Z inside the band: <Z, Gamma>, psi_m phi_m'Z phi_m. */
PU__FN pu_status pu__band_terms(pu__direct *e, pu_real *lane)
{
    pu__posterior *p = e->post;
    const pu__slots *s = &p->slots;
    const pu_op *Gamma = e->model->Gamma;
    const pu_op *Phi = e->model->Phi;
    const pu_int wide = e->width + 1;
    pu_int i, j, l;
    if (s->want_Gamma && Gamma->band_grad(Gamma, e->width, e->Z, 0.5, lane))
        return pu__note_failure(p, PU_E_OPERATOR, "Gamma.band_grad");
    if (!s->want_Phi && !s->want_psi) return PU_OK;
    for (i = 0; i < p->observed; i++) {
        pu_int at = 0;
        const pu_int row = p->list[i];
        const pu_int count = pu__phi_row(e, row, &at);
        const double psi = (double)e->model->psi[row];
        double square = 0;
        for (j = 0; j < count; j++) {
            double z = 0; /* (Z phi_m)_j */
            for (l = 0; l < count; l++) z += e->Z[(at + pu__most(j, l)) * wide + (j > l ? j - l : l - j)] * (double)e->row[l];
            square += z * (double)e->row[j];
            e->column[j] = z * psi;
        }
        lane[s->psi + row] += (pu_real)(square / 2);
        if (s->want_Phi && Phi->row_grad(Phi, row, e->column, lane + s->Phi))
            return pu__note_failure(p, PU_E_OPERATOR, "Phi.row_grad");
    }
    return PU_OK;
}

/* Sigma inside the band, then its terms. */
PU__FN pu_status pu__banded_sigma(pu__direct *e, pu_real *lane)
{
    pu__band_inverse(e->post->D, e->width, e->band, e->inverse, e->Z);
    return pu__band_terms(e, lane);
}

/* ---- Kalman ---- */

/* The state space behind Gamma: a pu_ssm as it is, an AR(P) in companion form, s_t = (z_t .. z_{t-P+1}). 0 when it is neither. */
PU__FN int pu__markov_of(const pu_op *Gamma, pu__markov *k)
{
    pu_int i, j;
    if (Gamma->form == PU_FORM_STATES) {
        const pu_ssm *m = (const pu_ssm *)Gamma->data;
        k->S = m->states;
        k->block = m->states;
        k->T = m->steps;
        pu__ssm_widen(k->S * k->S, m->A, k->F);
        pu__ssm_symmetric(k->S, m->Q, k->Q);
        memcpy(k->P0, m->P0, sizeof k->P0);
        return 1;
    }
    if (Gamma->form == PU_FORM_AR && ((const pu_ar *)Gamma->data)->order <= PU_SSM_MAX) {
        const pu_ar *ar = (const pu_ar *)Gamma->data;
        const pu_int S = pu__most(ar->order, 1);
        pu_real F[PU__SSM_SQUARE] = {0};
        k->S = S;
        k->T = ar->n;
        k->block = 1;
        memset(k->Q, 0, sizeof k->Q);
        k->Q[0] = (double)ar->kappa;
        for (j = 0; j < ar->order; j++) F[j] = ar->phi[j];
        for (i = 1; i < S; i++) F[i * S + i - 1] = 1;
        pu__ssm_widen(S * S, F, k->F);
        memcpy(k->P0, k->Q, sizeof k->P0);
        return pu__ssm_lyapunov(S, F, 0, 0, k->P0) >= 0;
    }
    return 0;
}

/* Reals per step: filtered and predicted mean (S each) and covariance (S x S each). */
PU__FN pu_int pu__kalman_reals(const pu__markov *k) { return 2 * (k->S + k->S * k->S); }

/* h'C h over S states; C h into Ch. */
PU__FN double pu__kalman_gain(pu_int S, const double *C, const double *h, double *Ch)
{
    double sum = 0;
    pu_int i, j;
    for (i = 0; i < S; i++) {
        Ch[i] = 0;
        for (j = 0; j < S; j++) Ch[i] += C[i * S + j] * h[j];
        sum += h[i] * Ch[i];
    }
    return sum;
}

/* Predicted mean and covariance of step t from the filtered ones of the step before. FP: S x S of scratch. */
PU__FN void pu__kalman_predict(const pu__markov *k, pu_int t, const double *before, double *mean, double *P, double *FP)
{
    const pu_int S = k->S;
    const pu_int SS = S * S;
    pu_int i, j;
    if (t == 0) {
        memset(mean, 0, (size_t)S * sizeof *mean);
        memcpy(P, k->P0, (size_t)SS * sizeof *P);
        return;
    }
    for (i = 0; i < S; i++) {
        mean[i] = 0;
        for (j = 0; j < S; j++) mean[i] += k->F[i * S + j] * before[j];
    }
    pu__ssm_mul(S, k->F, 0, before + S, 0, FP);
    pu__ssm_mul(S, FP, 0, k->F, 1, P);
    for (i = 0; i < SS; i++) P[i] += k->Q[i];
}

/* Takes the observed rows of step t, from the seen-th on, into mean m and covariance P, one by one. Returns how many rows have
   been seen then, or -1 with the report filled in. */
PU__FN pu_int pu__kalman_absorb(pu__direct *e, pu_int t, pu_int seen, double *m, double *P, pu__logs *logs, pu_int n,
                                pu_report *report)
{
    const pu__markov *k = e->markov;
    const pu__posterior *p = e->post;
    const pu_real *nu = e->model->nu;
    const pu_int S = k->S;
    double h[PU_SSM_MAX], gain[PU_SSM_MAX];
    pu_int i, j;
    for (; seen < p->observed; seen++) {
        pu_int at = 0;
        const pu_int row = p->list[seen];
        const pu_int count = pu__phi_row(e, row, &at);
        const double psi = (double)e->model->psi[row];
        double residual = (double)p->now.e[p->restricted ? seen : row];
        double variance;
        if (count < 1 || at < t * k->block || at % k->block + count > k->block) { /* out of order, or two steps at once */
            (void)pu__fail(report, PU_E_UNSUPPORTED, "Phi.row (Kalman: one time step per row, in order)", n, row);
            return -1;
        }
        if (at >= (t + 1) * k->block) break;
        memset(h, 0, sizeof h);
        for (j = 0; j < count; j++) {
            h[at % k->block + j] = (double)e->row[j];
            if (nu) residual -= (double)e->row[j] * (double)nu[at + j];
        }
        variance = pu__kalman_gain(S, P, h, gain) + 1 / psi;
        for (i = 0; i < S; i++) residual -= h[i] * m[i];
        if (!(variance > 0 && pu__finite_double(variance))) {
            (void)pu__fail(report, PU_E_NOT_DEFINITE, "A", n, row);
            return -1;
        }
        pu__logs_add(logs, variance * psi);
        for (i = 0; i < S; i++) {
            m[i] += gain[i] * residual / variance;
            for (j = 0; j < S; j++) P[i * S + j] -= gain[i] * gain[j] / variance;
        }
    }
    return seen;
}

/* One smoother step, from the filtered moments m, P of step t and the predicted ones of step t + 1 (ahead: mean, then
   covariance). squares: [Sigma_t | Sigma_{t+1} | cov(s_{t+1}, s_t) | scratch], Sigma_t = P on entry. mean: of step t + 1 on entry
   and of step t on return. Returns 1 when the predicted covariance is not definite. */
PU__FN int pu__kalman_smooth(pu__direct *e, const double *m, const double *ahead, double *mean)
{
    const pu_int S = e->markov->S;
    const pu_int SS = S * S;
    const double *P_ahead = ahead + S;
    double *smooth = e->squares;
    double *later = smooth + SS;
    double *cross = later + SS;
    double *FP = cross + SS;
    double *J = FP + SS;
    double *change = J + SS;
    double difference[PU_SSM_MAX];
    double ignored = 0;
    pu_int i, j;
    /* J = P F' P_ahead^-1 */
    if (pu__ssm_invert(S, P_ahead, change, e->narrow, e->narrow + SS, &ignored) >= 0) return 1;
    pu__ssm_mul(S, smooth, 0, e->markov->F, 1, FP);
    pu__ssm_mul(S, FP, 0, change, 0, J);
    for (i = 0; i < S; i++) difference[i] = mean[i] - ahead[i];
    for (i = 0; i < S; i++) {
        mean[i] = m[i];
        for (j = 0; j < S; j++) mean[i] += J[i * S + j] * difference[j];
    }
    /* Sigma_t = P + J (Sigma_{t+1} - P_ahead) J' */
    for (i = 0; i < SS; i++) change[i] = later[i] - P_ahead[i];
    pu__ssm_mul(S, J, 0, change, 0, FP);
    pu__ssm_mul(S, FP, 0, J, 1, change);
    for (i = 0; i < SS; i++) smooth[i] += change[i];
    pu__ssm_mul(S, later, 0, J, 1, cross);
    return 0;
}

/* Smoothed moments of step t into the mean (e->column) and the band of Sigma (e->Z). */
PU__FN void pu__kalman_store(pu__direct *e, pu_int t, const double *mean)
{
    const pu__markov *k = e->markov;
    const double *smooth = e->squares;
    const double *cross = smooth + 2 * k->S * k->S;
    const pu_real *nu = e->model->nu;
    const pu_int S = k->S;
    const pu_int wide = e->width + 1;
    const pu_int lags = pu__min(t, pu__min(e->width, S - 1));
    const int last = t + 1 == k->T;
    pu_int i, j;
    for (i = 0; i < k->block; i++) {
        const pu_int at = t * k->block + i;
        e->column[at] = mean[i] + (nu ? (double)nu[at] : 0);
        if (k->block > 1)
            for (j = 0; j <= i; j++) e->Z[at * wide + i - j] = smooth[i * S + j];
        else
            for (j = 0; j <= lags; j++) e->Z[at * wide + j] = smooth[j];
    }
    if (last) return;
    if (k->block > 1) {
        for (i = 0; i < S; i++)
            for (j = 0; j < S; j++) e->Z[((t + 1) * S + i) * wide + S + i - j] = cross[i * S + j];
    } else if (t + 1 >= S && e->width >= S) {
        e->Z[(t + 1) * wide + S] = cross[S - 1];
    }
}

/* Filter forward, smoother backward. Every observed row of Phi sees one time step; rows come in order of time. z counts from
   nu. */
PU__FN pu_status pu__kalman_prepare(pu__direct *e, pu_int n, pu_report *report)
{
    const pu__markov *k = e->markov;
    const pu_int S = k->S;
    const pu_int SS = S * S;
    const pu_int step = pu__kalman_reals(k);
    double *smooth = e->squares;
    double mean[PU_SSM_MAX];
    pu__logs logs = {0, 1};
    pu_int t, seen = 0;
    for (t = 0; t < k->T; t++) {
        double *m = e->kalman + t * step;
        double *ahead = m + S + SS;
        pu__kalman_predict(k, t, m - step, ahead, ahead + S, smooth);
        memcpy(m, ahead, (size_t)(S + SS) * sizeof *m);
        seen = pu__kalman_absorb(e, t, seen, m, m + S, &logs, n, report);
        if (seen < 0) return report->status;
    }
    e->logdet = e->gamma_logdet + logs.sum + log(logs.product); /* det(y's covariance) det Gamma det Psi = det A */
    for (t = k->T - 1; t >= 0; t--) {
        const double *m = e->kalman + t * step;
        memcpy(smooth, m + S, (size_t)SS * sizeof *smooth);
        if (t + 1 == k->T) memcpy(mean, m, (size_t)S * sizeof *mean);
        else if (pu__kalman_smooth(e, m, m + step + S + SS, mean))
            return pu__fail(report, PU_E_NOT_DEFINITE, "Kalman: predicted covariance", n, t + 1);
        pu__kalman_store(e, t, mean);
        memcpy(smooth + SS, smooth, (size_t)SS * sizeof *smooth);
    }
    return PU_OK;
}

/* x = the smoothed mean; the only right-hand side is b. */
PU__FN pu_status pu__kalman_solve(pu__direct *e, pu_int first, pu_int k)
{
    pu_int i;
    PU_ASSERT(first == 0 && k == 1);
    (void)first;
    (void)k;
    for (i = 0; i < e->post->D; i++) e->x.at[i] = (pu_real)e->column[i];
    return PU_OK;
}

/* ---- diagonals of Sigma and of Phi Sigma Phi', for >>predict ---- */

/* variance (D) and fit (M), where not NULL, += the diagonals of S and Phi S Phi', S = sum_j weight_j x_j x_j' for the k columns
   in x. */
PU__FN pu_status pu__spread(pu__direct *e, pu_int k, pu_real *variance, pu_real *fit)
{
    pu__posterior *p = e->post;
    const pu_op *Phi = e->model->Phi;
    const pu_backend *B = p->B;
    if (variance) B->row_dot(B->user, p->D, k, NULL, e->weight, e->x, e->x, 0, NULL, variance);
    if (!fit) return PU_OK;
    p->left = PU__LEFT_NOTHING;
    if (pu__note_failure(p, Phi->apply(Phi, k, e->x, p->t0, 0, p->work), "Phi.apply")) return PU_E_OPERATOR; /* all rows */
    B->row_dot(B->user, p->M, k, NULL, e->weight, p->t0, p->t0, 0, NULL, fit);
    return PU_OK;
}

/* dense: Sigma is the sum of the columns of L'^-1 */
PU__FN pu_status pu__dense_spread(pu__direct *e, pu_real *variance, pu_real *fit)
{
    pu_int first, k;
    for (first = 0; first < e->post->D; first += k) {
        k = pu__min(e->kmax, e->post->D - first);
        pu__dense_columns(e, first, k);
        if (pu__spread(e, k, variance, fit)) return PU_E_OPERATOR;
    }
    return PU_OK;
}

/* dual: minus the columns of V = G L'^-1, what Gamma^-1 is too much; Gamma^-1 itself is added by pu__moments_prior. */
PU__FN pu_status pu__dual_spread(pu__direct *e, pu_real *variance, pu_real *fit)
{
    const pu_int D = e->post->D;
    pu_int first, j, k;
    pu__dual_sweep(e, 0);
    for (first = 0; first < e->post->observed; first += k) {
        k = pu__min(e->kmax, e->post->observed - first);
        for (j = 0; j < k; j++) {
            pu__copy(pu__col(e->x, j), pu__col(e->V, first + j), D);
            e->weight[j] = -1;
        }
        if (pu__spread(e, k, variance, fit)) return PU_E_OPERATOR;
    }
    return PU_OK;
}

/* banded, Kalman: Z_ii and phi_m'Z phi_m. The Kalman smoother's Z is not the whole band, so a row must see one step. */
PU__FN pu_status pu__band_spread(pu__direct *e, pu_real *variance, pu_real *fit)
{
    const pu_int wide = e->width + 1;
    pu_int m, i, j;
    if (!e->markov) pu__band_inverse(e->post->D, e->width, e->band, e->inverse, e->Z);
    if (variance)
        for (i = 0; i < e->post->D; i++) variance[i] = (pu_real)e->Z[i * wide];
    if (!fit) return PU_OK;
    for (m = 0; m < e->post->M; m++) {
        pu_int at = 0;
        const pu_int count = pu__phi_row(e, m, &at);
        double sum = 0;
        if (count < 0 || (e->markov && at % e->markov->block + count > e->markov->block))
            return pu__note_failure(e->post, PU_E_OPERATOR, "Phi.row");
        for (i = 0; i < count; i++)
            for (j = 0; j <= i; j++)
                sum += (i == j ? 1 : 2) * (double)e->row[i] * (double)e->row[j] * e->Z[(at + i) * wide + i - j];
        fit[m] = (pu_real)sum;
    }
    return PU_OK;
}

/* ---- the engines ---- */

typedef struct {
    pu_status (*prepare)(pu__direct *e, pu_int n, pu_report *report);
    pu_status (*solve)(pu__direct *e, pu_int first, pu_int k); /* x = A^-1 u */
    pu_status (*sigma)(pu__direct *e, pu_real *lane);          /* lane += gradient of 1/2 tr(A Sigma) */
    pu_status (*spread)(pu__direct *e, pu_real *variance, pu_real *fit);
} pu__engine;

/* In the order of pu_engine; iterative and auto have none. */
static const pu__engine pu__engines[PU_ENGINES] = {
    {NULL, NULL, NULL, NULL},
    {pu__dense_prepare, pu__dense_solve, pu__dense_sigma, pu__dense_spread},
    {pu__dual_prepare, pu__dual_solve, pu__dual_sigma, pu__dual_spread},
    {pu__banded_prepare, pu__banded_solve, pu__banded_sigma, pu__band_spread},
    {pu__kalman_prepare, pu__kalman_solve, pu__band_terms, pu__band_spread},
    {NULL, NULL, NULL, NULL}};

/* What a direct engine lacks to serve this model and these gradients, or NULL. */
PU__FN const char *pu__engine_lacks(pu_engine engine, const pu_lgm *model, const pu_results *out)
{
    const pu_op *G = model->Gamma;
    const pu_op *P = model->Phi;
    pu__markov k;
    if (engine == PU_DUAL && !G->solve) return "Gamma.solve";
    if (engine != PU_BANDED && engine != PU_KALMAN) return NULL;
    if (!G->band_add || G->band < 0) return "Gamma.band_add";
    if (!P->row || P->band < 0) return "Phi.row";
    if (out->Gamma && G->params > 0 && !G->band_grad) return "Gamma.band_grad";
    if (out->Phi && P->params > 0 && !P->row_grad) return "Phi.row_grad";
    if (engine == PU_KALMAN && !pu__markov_of(G, &k))
        return "Kalman: Gamma must be a pu_op_ssm, or a pu_op_ar of order at most 16";
    return NULL;
}

/* What the engines that serve data need: which serve, the most observed rows of the dual one, the width of the band. */
typedef struct {
    int dense, dual, banded, kalman;
    pu_int most, width;
} pu__engine_needs;

/* Lays out (or measures) what the engines need. */
PU__FN void pu__direct_layout(pu__direct *e, pu__arena *arena, const pu_lgm *model, const pu__engine_needs *needs)
{
    const pu_int D = model->Gamma->rows;
    const pu_int square = pu__most(needs->dense ? D : 0, needs->dual ? needs->most : 0);
    const pu_int band = needs->width + 1;
    e->model = model;
    e->width = needs->width;
    if (square > 0) e->L = pu__reals(arena, square, square);
    if (needs->dual) {
        e->V = pu__cols(arena, D, needs->most);
        e->s = pu__reals(arena, needs->most, 1);
        e->Y = pu__reals(arena, needs->most, pu__most(needs->most, PU__SPAN));
    }
    if (needs->banded || needs->kalman) {
        e->row = pu__reals(arena, band, 1);
        e->band = (double *)pu__take(arena, D, band, sizeof(double));
        e->Z = (double *)pu__take(arena, D, band, sizeof(double));
        e->inverse = (double *)pu__take(arena, D, 1, sizeof(double));
        e->column = (double *)pu__take(arena, D, 1, sizeof(double));
    }
    if (needs->kalman) {
        pu__markov k;
        e->markov = (pu__markov *)pu__take(arena, 1, 1, sizeof k);
        if (!pu__markov_of(model->Gamma, &k)) return; /* refused before */
        e->kalman = (double *)pu__take(arena, k.T, pu__kalman_reals(&k), sizeof(double));
        e->squares = (double *)pu__take(arena, 6, k.S * k.S, sizeof(double));
        e->narrow = pu__reals(arena, 2, k.S * k.S);
        if (e->markov) *e->markov = k;
    }
}

/* ------------------------------------------------------------------------------------------------
   >>plan   the job of a call: checked and decided once; its memory. A choice depends on sizes alone, never on a clock: same
            inputs, same bits
   ------------------------------------------------------------------------------------------------ */

/* Everything decided before work starts. Holds pointers into itself: not to be copied. */
typedef struct {
    pu__resolved r;         /* the model */
    const pu_data *data;
    const pu_options *o;
    const pu_results *out;
    const pu_backend *B;
    pu__plan plan;
    pu_kind kind;
    pu_int N, D, M, K;      /* K = 0 for PU_EXACT */
    int network, want_nll, any_grad;
    int dry;                /* a pilot: nothing is written */
    int lend;               /* gradients stay in the workspace, where pu__lend finds them */
    /* engines */
    pu_engine engine;       /* as asked */
    unsigned can;           /* bit e: engine e applies here */
    int exact;              /* what a direct engine serves gets Sigma itself; otherwise K direct solves */
    int restricted;         /* Phi works on the observed rows alone */
    pu_int width;           /* of the band of A */
    pu_int asked_steps;     /* what the iterative engine would do, for its price */
    int asked_network;
    pu_int served[PU_ENGINES];   /* data per engine */
    double rows_sum[PU_ENGINES]; /* and their observed rows, summed up */
    pu_int most_dual, most_iterative; /* most observed rows of a datum of these engines */
    double ns;              /* predicted time */
    int form;               /* for some data of the iterative engine A is made a matrix */
    /* parts */
    int ragged;             /* data differ in their cost: lanes take them by cost, not in order */
    int lanes, threads;
    pu_int kmax;            /* columns that there is room for */
    pu_int block, blocks;   /* iterative engine: columns at a time; blocks of columns per datum */
    pu__slots slots;        /* the gradient vector of a lane */
    int by_rows;            /* Phi's gradient is added up row by row: most batches touch few of them in any one lane */
    /* a backend with memory of its own */
    int far;
    pu_side side[2];        /* the operators where the backend works, also on the host */
    size_t side_bytes[2];
    pu_int batch, batch_most; /* data side by side; if memory were no matter */
    pu__slots far_slots;    /* with what the sides' grad adds up in the place of the gradients of Gamma and Phi */
} pu__job;

/* ---- prices ---- */

/* per multiplication of a product with few columns, in ns, and per row of it and column besides; of a product of matrices */
#ifdef PU_FLOAT
#define PU__NS 0.037
#define PU__NS_ROW 10
#define PU__NS_MATRIX 0.055
#else
#define PU__NS 0.08
#define PU__NS_ROW 8
#define PU__NS_MATRIX 0.1
#endif

/* Predicted nanoseconds of the solver's products with A for a datum with that many rows at work, and of making A a matrix
   first, where that is cheaper: then *form = 1. */
PU__FN double pu__products_cost(const pu__job *job, pu_int rows, int *form)
{
    const double D = (double)job->D;
    const double m = (double)rows;
    const double gamma = pu__flops(&job->r.Gamma);
    const double phi = pu__flops(&job->r.Phi) * m / (double)job->M;
    const double columns = (double)job->K + 1;
    const double count = ((job->asked_network ? 2 : 1) * (double)job->asked_steps + 1) * columns;
    const double each = count * (PU__NS * (gamma + 2 * phi) + PU__NS_ROW * m);
    /* the last term: the product with Phi that the gradient then lacks */
    const double formed = 0.35 * PU__NS_MATRIX * m * D * D + 4 * D * D + count * (PU__NS * D * D + PU__NS_ROW * D) +
                          columns * PU__NS * phi;
    *form = pu__plain(&job->r.Phi) && job->B->host && !job->asked_network && formed < each;
    return *form ? formed : each;
}

/* Predicted nanoseconds for a datum with that many observed rows, on one core: multiplications at the rate of long loops, and
   what each vector, row and column costs besides. The constants are a fit to measurements on one machine (docs/design.md, "the
   planner"), good to 30 %; what matters is which engine is cheaper, and near the crossover both are about as good. */
PU__FN double pu__cost(const pu__job *job, pu_engine engine, pu_int observed)
{
    const pu_int rows = job->restricted ? observed : job->M;
    const int single = sizeof(pu_real) == sizeof(float);
    const int plain = pu__plain(&job->r.Phi);
    const double D = (double)job->D;
    const double m = (double)rows;
    const double cols = (double)job->K + 1;
    const double band = (double)job->width + 1;
    const double I = (double)job->asked_steps;
    const double grad = job->any_grad ? 1 : 0;
    const double flops = pu__flops(&job->r.Phi);
    const double phi = flops * m / (double)job->M;
    const double gamma = pu__flops(&job->r.Gamma);
    const double seen = (double)(observed > 0 ? observed : rows); /* an empty datum goes where full ones go */
    const double vector = single ? 0.5 : 1.2;                     /* per entry and step */
    const double product = PU__NS * (gamma + 2 * phi);            /* with A */
    const double pair = PU__NS * (gamma + 4 * phi);               /* a gradient term */
    double ns;
    int form;
    switch (engine) {
    case PU_ITERATIVE:
        ns = pu__products_cost(job, rows, &form) + 2800 * cols;
        if (job->asked_network) return ns + cols * ((2 * I + 1) * vector * D + (I + 1) * pair);
        return ns + cols * ((I + 1) * vector * D + grad * pair);
    case PU_DENSE:
        ns = D * (product + grad * pair);
        if (plain) ns = PU__NS_MATRIX * (0.35 + 1.75 * grad) * m * D * D + (single ? 170 : 260) * m;
        return ns + (1 + grad) * (0.115 * PU__NS_MATRIX * D * D * D + 2 * D * D);
    case PU_DUAL: /* of the observed rows alone */
        return PU__NS_MATRIX * seen * seen * ((0.27 + 0.54 * grad) * D + (0.1 + 0.1 * grad) * seen) +
               (1 + grad) * (2 * seen * seen + (single ? 1.3 : 3) * seen * D) +
               seen * PU__NS * (gamma + (plain ? 0 : 2 * flops));
    case PU_BANDED: return D * (20 + 2 * band * band * (1 + grad));
    case PU_KALMAN: /* the baseline is never cheaper than banded, which can do whatever it can */
    case PU_ENGINE_AUTO:
    case PU_ENGINES: break;
    }
    return 1e300;
}

/* The engine for a datum with that many observed rows. */
PU__FN pu_engine pu__engine_for(const pu__job *job, pu_int observed)
{
    pu_engine best = job->kind == PU_EXACT ? PU_DENSE : PU_ITERATIVE;
    int e;
    if (job->engine != PU_ENGINE_AUTO) return job->engine;
    for (e = PU_ITERATIVE; e < PU_ENGINE_AUTO; e++)
        if ((job->can >> e & 1u) && pu__cost(job, (pu_engine)e, observed) < pu__cost(job, best, observed)) best = (pu_engine)e;
    return best;
}

/* What an engine lacks to serve this job, or NULL. */
PU__FN const char *pu__missing(const pu__job *job, pu_engine engine)
{
    if (engine == PU_ITERATIVE && job->K > 0 && !job->o->delta && !job->r.Gamma.sample)
        return "Gamma.sample (or give options.delta)";
    return pu__engine_lacks(engine, &job->r.model, job->out);
}

/* Reads the data once: checks every observation, and finds who serves whom. */
PU__FN pu_status pu__assign(pu__job *job, pu_report *report)
{
    pu_int n, first = 0;
    int e;
    job->width = pu__most(job->r.Gamma.band, job->r.Phi.band);
    job->restricted = pu__can_restrict(&job->r.Phi);
    for (e = job->kind == PU_EXACT ? PU_DENSE : PU_ITERATIVE; e < PU_ENGINE_AUTO; e++)
        if (!pu__missing(job, (pu_engine)e)) job->can |= 1u << e;
    for (n = 0; n < job->N; n++) {
        const pu_int count = pu__check_datum(job->data, n, report);
        pu_engine engine;
        if (count < 0) return report->status;
        engine = pu__engine_for(job, count);
        job->served[engine]++;
        job->rows_sum[engine] += (double)count;
        if (engine == PU_DUAL) job->most_dual = pu__most(job->most_dual, count);
        if (engine == PU_ITERATIVE) job->most_iterative = pu__most(job->most_iterative, count);
        job->ns += pu__cost(job, engine == PU_KALMAN ? PU_BANDED : engine, count);
        if (n == 0) first = count;
        job->ragged |= count != first;
    }
    return PU_OK;
}

/* Text that goes on after what is there. */
PU__FN pu__text pu__text_after(char *text, size_t capacity)
{
    pu__text t;
    t.at = text;
    t.used = strlen(text);
    t.capacity = capacity;
    return t;
}

/* The plan in words. */
PU__FN void pu__plan_words(const pu__job *job, pu_report *report)
{
    const int chosen = job->engine == PU_ENGINE_AUTO;
    pu__text t = pu__text_after(report->plan, sizeof report->plan);
    const char *separator = "";
    int e, other;
    for (e = PU_ITERATIVE; e < PU_ENGINE_AUTO; e++) {
        report->served[e] = job->served[e];
        if (!job->served[e]) continue;
        pu__put(&t, separator);
        separator = "; ";
        pu__put_number(&t, "", job->served[e]);
        pu__put_number(&t, " of ", job->N);
        pu__put(&t, " data by ");
        pu__put(&t, pu_engine_text((pu_engine)e));
        if (pu__is_far(job->o->backend)) pu__put(&t, job->far ? ", on the device" : ", on the host");
        if (job->far && job->o->engine == PU_ENGINE_AUTO) pu__put(&t, " (auto is for engines of the host)");
        else if (!chosen) pu__put(&t, ", as asked");
        if (!chosen) continue;
        pu__put(&t, ", the cheapest (predicted us per datum of the mean size:");
        for (other = PU_ITERATIVE; other < PU_KALMAN; other++) {
            const pu_int rows = (pu_int)(job->rows_sum[e] / (double)job->served[e]);
            if (!(job->can >> other & 1u)) continue;
            pu__put(&t, " ");
            pu__put(&t, pu_engine_text((pu_engine)other));
            pu__put_number(&t, " ", (pu_int)(pu__cost(job, (pu_engine)other, rows) / 1000));
        }
        pu__put(&t, ")");
    }
}

/* ---- memory of a job ---- */

/* Per thread. */
typedef struct {
    pu__posterior post;
    pu__run run;
    pu__direct direct;
    pu_block eps;      /* standard normals */
    pu_engine engine;  /* of the datum at hand */
    pu_real *bbar;     /* D for each datum */
    pu_real *diagonal; /* D: diag(A) */
    pu_real *weight;   /* kmax: of the columns of a block */
    pu_int loaded;     /* datum whose observations are in post; -1 none */
    double *shift, *base; /* 2 batch, datum n at pu__turn_of: s of the log det quadrature; log det M of PCG */
} pu__worker;

/* Per column, staged. */
typedef struct {
    pu_column record;
    double ux, xax, logdet, gap;
    double value;             /* direct engines, the mean: see pu__posterior_value */
    double energy, low, high; /* |x - A^-1 u|_A^2 as estimated, extreme Ritz values; high = 0: unknown */
} pu__column;

typedef struct {
    pu__worker *workers;
    pu_real *lanes;         /* lanes x params */
    pu_real *phi_grad;      /* where Phi's gradient is in the end: in lane 0, or with by_rows where the caller wants it */
    unsigned char *touched; /* lanes x M: rows of a plain Phi that have a gradient in the lane; others are not even cleared */
    pu_real *gamma_nu;      /* D: Gamma nu */
    pu_real *test;          /* scratch of the checks */
    pu_real *work;          /* scratch of the operators, one column */
    pu_real *se;            /* standard errors of [Gamma | Phi | psi] */
    pu__column *columns;    /* N x (K+1) */
    double *c, *logdet;     /* N */
    double gamma_logdet;
    pu_int *observed;       /* N */
    int *lane_of;           /* N, ragged data: the lane that each goes to */
    unsigned char *engine;  /* N */
    pu_report *lane_report;
    pu_results stage;       /* staged copies of the arrays that were asked for */
    pu_real *variance, *fit; /* N x D, N x M: diagonals of Sigma, Phi Sigma Phi' for >>predict; NULL = not wanted */
    /* a device: the operators and arrays there, the gradient vector there and read back */
    pu_side side[2];
    void *side_memory[2];
    pu_real *far_lane, *sums, *far_psi, *far_nu;
    pu_block x0;
    pu_real *columns_x, *columns_u; /* D x kmax, Rao-Blackwell */
} pu__memory;

/* A job with its memory; what its caller wants besides. */
typedef struct {
    pu__job job;
    pu__memory mem;
    int variance, fit;      /* mem.variance, mem.fit are wanted */
    pu_int reals, doubles;  /* room for so many numbers of the caller's */
    pu_real *own_reals;
    double *own_doubles;
} pu__task;

/* Where things of datum n are in arrays of two batches: that at hand and the one before, whose outcome may be read late. */
PU__FN pu_int pu__turn_of(const pu__job *job, pu_int n) { return n % (2 * job->batch); }

/* What a device needs besides the workers. */
PU__FN void pu__far_layout(pu__memory *mem, pu__arena *arena, const pu__job *job)
{
    int i;
    for (i = 0; i < 2; i++) mem->side_memory[i] = pu__take_from(arena, 1, (pu_int)job->side_bytes[i], 1, 1);
    mem->far_lane = pu__far_reals(arena, job->far_slots.params, 1);
    mem->sums = pu__reals(arena, job->far_slots.params, 1);
    mem->far_psi = pu__far_reals(arena, job->M, 1);
    mem->far_nu = pu__far_reals(arena, job->D, 1);
    if (job->o->x0) mem->x0 = pu__far_cols(arena, job->D, job->kmax);
    if (job->o->rao_blackwell) {
        mem->columns_x = pu__reals(arena, job->D, job->kmax);
        mem->columns_u = pu__reals(arena, job->D, job->kmax);
    }
}

/* What a thread needs. */
PU__FN void pu__worker_layout(pu__worker *w, pu__arena *arena, const pu__job *job, pu__memory *mem)
{
    const pu_int noise = pu__noise(&job->r.Gamma);
    pu__posterior_parts parts;
    pu__engine_needs needs;
    memset(w, 0, sizeof *w);
    memset(&parts, 0, sizeof parts);
    parts.model = &job->r.model;
    parts.Gamma = mem->side;
    parts.Phi = mem->side + 1;
    parts.psi = job->far ? mem->far_psi : NULL;
    parts.B = job->B;
    parts.slots = job->far ? &job->far_slots : &job->slots;
    parts.kmax = job->kmax;
    parts.wide = job->batch;
    parts.form = job->form;
    pu__posterior_layout(&w->post, arena, &parts);
    w->post.system.n = job->D;
    pu__run_layout(&w->run, arena, &w->post.system, job->B, &job->plan, job->kmax, (job->far ? 2 : 1) * job->batch, job->network);
    w->post.m = w->run.m;
    w->post.minv = w->run.minv;
    w->eps = pu__far_cols(arena, pu__most(noise, job->M), job->kmax);
    w->bbar = pu__far_reals(arena, job->D, job->batch);
    w->diagonal = pu__reals(arena, job->D, 1);
    w->weight = pu__reals(arena, job->kmax, 1);
    w->shift = (double *)pu__take(arena, 2 * job->batch, 1, sizeof(double));
    w->base = (double *)pu__take(arena, 2 * job->batch, 1, sizeof(double));
    needs.dense = job->served[PU_DENSE] > 0;
    needs.dual = job->served[PU_DUAL] > 0;
    needs.banded = job->served[PU_BANDED] > 0;
    needs.kalman = job->served[PU_KALMAN] > 0;
    needs.most = job->most_dual;
    needs.width = job->width;
    pu__direct_layout(&w->direct, arena, &job->r.model, &needs);
    if (parts.form || needs.dense || needs.dual) w->post.panel = pu__panel(arena, pu__most(job->D, needs.most));
    if (job->o->rao_blackwell && !w->direct.Z)
        w->direct.Z = (double *)pu__take(arena, job->D, job->r.Gamma.band + 1, sizeof(double));
    w->direct.post = &w->post;
    w->direct.x = w->run.x;
    w->direct.u = w->run.u;
    w->direct.q = w->run.q;
    w->direct.weight = w->weight;
    w->direct.kmax = job->kmax;
    w->loaded = -1;
}

/* Lays out (or measures) all memory of a job. */
PU__FN void pu__task_layout(void *self, pu__arena *arena)
{
    pu__task *task = (pu__task *)self;
    const pu__job *job = &task->job;
    pu__memory *mem = &task->mem;
    const pu_int all = job->N * (job->K + 1);
    int t;
    memset(mem, 0, sizeof *mem);
    arena->B = job->B;
    mem->side[0] = job->side[0];
    mem->side[1] = job->side[1];
    if (job->far) pu__far_layout(mem, arena, job);
    mem->workers = (pu__worker *)pu__take(arena, job->threads, 1, sizeof(pu__worker));
    mem->lane_report = (pu_report *)pu__take(arena, job->lanes, 1, sizeof(pu_report));
    mem->lanes = pu__reals(arena, job->lanes, job->slots.params);
    mem->phi_grad = mem->lanes ? mem->lanes + job->slots.Phi : NULL;
    if (job->by_rows) mem->touched = (unsigned char *)pu__take(arena, job->lanes, job->M, 1);
    mem->gamma_nu = pu__reals(arena, job->D, 1);
    if (job->slots.groups) mem->se = pu__reals(arena, job->slots.eta, 1);
    mem->test = pu__reals(arena, pu__test_reals(&job->r), 1);
    mem->columns = (pu__column *)pu__take(arena, all, 1, sizeof(pu__column));
    mem->c = (double *)pu__take(arena, job->N, 1, sizeof(double));
    mem->logdet = (double *)pu__take(arena, job->N, 1, sizeof(double));
    mem->observed = (pu_int *)pu__take(arena, job->N, 1, sizeof(pu_int));
    if (job->ragged) mem->lane_of = (int *)pu__take(arena, job->N, 1, sizeof(int));
    mem->engine = (unsigned char *)pu__take(arena, job->N, 1, 1);
    if (job->out->x) mem->stage.x = pu__reals(arena, all, job->D);
    if (job->out->residual) mem->stage.residual = pu__reals(arena, all, job->D);
    if (job->out->alpha) mem->stage.alpha = pu__reals(arena, all, job->plan.I);
    if (job->out->beta) mem->stage.beta = pu__reals(arena, all, job->plan.I);
    if (task->variance) mem->variance = pu__reals(arena, job->N, job->D);
    if (task->fit) mem->fit = pu__reals(arena, job->N, job->M);
    task->own_reals = pu__reals(arena, task->reals, 1);
    task->own_doubles = (double *)pu__take(arena, task->doubles, 1, sizeof(double));
    for (t = 0; t < job->threads; t++) {
        pu__worker measured;
        pu__worker_layout(mem->workers ? mem->workers + t : &measured, arena, job, mem);
    }
    mem->work = mem->workers ? mem->workers[0].post.work_host : NULL;
}

/* ---- checks ---- */

/* Reals from one datum's m to the next. */
PU__FN pu_int pu__m_stride(const pu__job *job)
{
    const pu_int stride = job->o->solve.m_stride;
    if (stride == PU_NONE) return 0;
    return stride ? stride : job->D;
}

/* Ranges of the options. */
PU__FN pu_status pu__check_options(const pu_options *o, pu_report *report)
{
    const int direct = o->engine != PU_ITERATIVE && o->engine != PU_ENGINE_AUTO;
    const int steps = o->kind == PU_NETWORK || o->kind == PU_OUTPUT; /* these kinds are about a solver's steps */
    if ((int)o->kind < PU_NETWORK || (int)o->kind > PU_EXACT) return pu__refuse(report, PU_E_ARGUMENT, "options.kind");
    if ((int)o->engine < PU_ITERATIVE || (int)o->engine > PU_ENGINE_AUTO)
        return pu__refuse(report, PU_E_ARGUMENT, "options.engine");
    if (o->samples < 0 && (o->samples != PU_NONE || o->kind != PU_EXACT))
        return pu__refuse(report, PU_E_ARGUMENT, "options.samples");
    if (o->samples > INT32_MAX) return pu__refuse(report, PU_E_OVERFLOW, "options.samples");
    if (direct && (steps || (o->kind == PU_MONTE_CARLO && o->engine == PU_KALMAN)))
        return pu__refuse(report, PU_E_ARGUMENT, "options.engine");
    if (o->threads < 0) return pu__refuse(report, PU_E_ARGUMENT, "options.threads");
    if (o->lanes < 0) return pu__refuse(report, PU_E_ARGUMENT, "options.lanes");
    if (o->columns < 0) return pu__refuse(report, PU_E_ARGUMENT, "options.columns");
    return PU_OK;
}

/* Which functions the operators must have for this job. */
PU__FN pu_status pu__check_functions(const pu__job *job, pu_report *report)
{
    const pu_options *o = job->o;
    const pu_op *G = &job->r.Gamma;
    const int prior = job->out->Gamma && G->params > 0;
    const char *lacks = job->engine != PU_ENGINE_AUTO ? pu__missing(job, job->engine) : NULL;
    if (prior && !G->grad) lacks = "Gamma.grad";
    else if (prior && !G->logdet_grad) lacks = "Gamma.logdet_grad";
    else if (job->out->Phi && job->r.Phi.params > 0 && !job->r.Phi.grad) lacks = "Phi.grad";
    else if (job->K > 0 && pu__missing(job, PU_ITERATIVE)) lacks = pu__missing(job, PU_ITERATIVE);
    if (lacks) return pu__refuse(report, PU_E_UNSUPPORTED, lacks);
    if (o->rao_blackwell && job->kind == PU_MONTE_CARLO && !job->exact && job->engine != PU_ITERATIVE)
        return pu__refuse(report, PU_E_UNSUPPORTED, "options.rao_blackwell (of the iterative engine)");
    if (o->rao_blackwell && job->served[PU_ITERATIVE] && job->out->Gamma) {
        if (!G->band_grad) lacks = "Gamma.band_grad (options.rao_blackwell)";
        else if (!G->diag) lacks = "Gamma.diag (options.rao_blackwell)";
        else if (!job->r.Phi.gram_diag) lacks = "Phi.gram_diag (options.rao_blackwell)";
        if (lacks) return pu__refuse(report, PU_E_UNSUPPORTED, lacks);
    }
    if (job->plan.solver == PU_PCG && job->served[PU_ITERATIVE] && !o->solve.m && !pu__has_diag(&job->r.model))
        return pu__refuse(report, PU_E_UNSUPPORTED,
                          G->diag ? "Phi.gram_diag (or give options.solve.m)" : "Gamma.diag (or give options.solve.m)");
    if (job->out->m && !(job->asked_network && job->plan.solver == PU_PCG && o->solve.m && o->solve.m_stride == PU_NONE))
        return pu__refuse(report, PU_E_UNSUPPORTED, "results.m (PU_NETWORK, PU_PCG, options.solve.m for all data)");
    return PU_OK;
}

/* Arrays handed in through the options. */
PU__FN pu_status pu__check_option_arrays(const pu__job *job, pu_report *report)
{
    const pu_options *o = job->o;
    const pu_int stride = pu__m_stride(job);
    const pu_int D = job->D;
    pu_status status = PU_OK;
    pu_int n;
    if (o->solve.m && stride && stride < D) return pu__refuse(report, PU_E_ARGUMENT, "options.solve.m_stride");
    if (o->tied_psi)
        for (n = 0; n < job->M; n++)
            if (job->r.model.psi[n] != job->r.model.psi[0])
                return pu__fail(report, PU_E_ARGUMENT, "model.psi (options.tied_psi)", -1, n);
    for (n = 0; n < job->N && !status; n++) {
        if (o->delta && job->K > 0) {
            status = pu__check_array(job->K * D, o->delta + n * job->K * D, 0, "options.delta", n, report);
            if (status) report->where.column = 1 + report->where.index / D;
        }
        if (!status && o->x0) {
            status = pu__check_array((job->K + 1) * D, o->x0 + n * (job->K + 1) * D, 0, "options.x0", n, report);
            if (status) report->where.column = report->where.index / D;
        }
        if (!status && o->solve.m && job->plan.solver == PU_PCG && (n == 0 || stride))
            status = pu__check_array(D, o->solve.m + n * stride, 1, "options.solve.m", n, report);
        if (!status && o->solve.step && job->plan.solver == PU_GD)
            status = pu__check_array(1, o->solve.step + n, 1, "options.solve.step", n, report);
    }
    return status;
}

/* ---- columns, lanes, threads ---- */

/* Columns at a time whose vectors, five of them, stay in a cache of so many bytes, at least `least` and at most 64. Pairs
   (least = 2) come in even numbers. Depends on sizes and lanes only, so that it does not change the bits between machines. */
PU__FN pu_int pu__columns_fit(pu_int cache, pu_int D, pu_int columns, pu_int least)
{
    const pu_int fit = cache / (5 * (pu_int)sizeof(pu_real)) / D;
    pu_int k = pu__min(pu__most(fit, least), 64);
    if (least == 2) k -= k % 2;
    return pu__min(k, columns);
}

/* The solver's columns: its vectors should stay in the second-level cache, but a dense operator wants a few per sweep. */
PU__FN pu_int pu__columns_default(pu_int D, pu_int columns, pu_int least)
{
    return pu__columns_fit(512 * 1024, D, columns, least);
}

/* A filter has nothing to share between columns, transforms take them in pairs, matrices are read once for all of them. */
PU__FN pu_int pu__columns_least(const pu__job *job)
{
    if (pu__kind_of(&job->r.model, job->side, job->side + 1, 1) == &pu__kind_band) return 1;
    return job->r.Phi.form == PU_FORM_FOURIER ? 2 : 4;
}

/* Products of matrices copy what they need into cache themselves, and take many columns. */
PU__FN pu_int pu__columns_wide(pu_int D, pu_int columns) { return pu__columns_fit(8192 * 1024, D, columns, 4); }

/* Threads: as asked; otherwise OpenMP's choice, or 1 when the whole job is predicted to take less than half a millisecond,
   where waking a team costs more than it saves. The report says which; the bits are the same. */
PU__FN int pu__threads(int asked, double ns)
{
#ifdef PU__OPENMP
    if (asked > 0) return asked;
    return ns < 5e5 ? 1 : omp_get_max_threads();
#else
    (void)asked;
    (void)ns;
    return 1;
#endif
}

/* How many columns of a datum are solved at a time, and how data and columns are shared out among lanes and threads. */
PU__FN void pu__job_parts(pu__job *job)
{
    const pu_options *o = job->o;
    const pu_int cols = job->K + 1;
    const int iterative = job->served[PU_ITERATIVE] > 0;
    const pu_int least = pu__columns_least(job);
    const int narrow = least == 1; /* narrow blocks cost little */
    job->lanes = o->lanes ? o->lanes : 4;
    job->block = pu__min(o->columns ? o->columns : pu__columns_default(job->D, cols, least), cols);
    /* Fewer data than lanes: share out the columns; where narrow blocks cost little, so that no lane has a datum too many. */
    if (!o->columns && iterative && job->N < (narrow ? 4 : 1) * job->lanes) {
        const pu_int parts = ((narrow ? 4 : 1) * job->lanes + job->N - 1) / job->N;
        job->block = pu__min(job->block, (cols + parts - 1) / parts);
    }
    job->kmax = job->block;
    job->batch = 1;
    if (job->served[PU_ITERATIVE] < job->N) { /* direct engines like wider blocks, the band has just the columns */
        pu_int wide = pu__columns_default(job->D, cols, 4);
        if (job->served[PU_DENSE] + job->served[PU_DUAL]) wide = pu__columns_wide(job->D, 64);
        if (o->columns) wide = o->columns;
        if (wide > job->kmax) job->kmax = pu__min(wide, job->D + cols);
    }
    job->blocks = iterative ? (cols + job->block - 1) / job->block : 1;
    if ((pu_int)job->lanes > job->N * job->blocks) job->lanes = (int)(job->N * job->blocks);
    if (job->N < job->lanes) job->ragged = 0; /* shared out by columns */
    job->threads = pu__threads(o->threads, job->ns);
    if (job->threads > job->lanes) job->threads = job->lanes;
}

/* ---- a device ---- */

/* Does a batch of so many data fit into the device's memory? */
PU__FN int pu__far_fits(pu__task *task, pu_int batch, pu_report *report)
{
    pu__job *job = &task->job;
    const pu_int cols = job->K + 1;
    const pu_int before = job->batch;
    pu__arena arena = PU__ARENA;
    job->batch = batch;
    job->kmax = job->block * batch;
    job->blocks = (cols + job->block - 1) / job->block;
    pu__task_layout(task, &arena);
    job->batch = before;
    report->device_bytes = arena.far_used + PU__ALIGN;
    return !arena.overflow && report->device_bytes <= job->B->budget;
}

/* The most data that fit into the device's memory; if need be only some columns of one datum. By bisection, so that a part of
   the data never gets a larger batch than all of them, nor needs more of the host. */
PU__FN void pu__far_batch(pu__task *task, pu_report *report)
{
    pu__job *job = &task->job;
    pu_int most = job->batch; /* too many; none is enough */
    if (pu__far_fits(task, job->batch, report)) return;
    job->batch = 0;
    while (most - job->batch > 1) {
        const pu_int middle = job->batch + (most - job->batch) / 2;
        if (pu__far_fits(task, middle, report)) job->batch = middle;
        else most = middle;
    }
    if (!job->batch) job->batch = 1;
    while (!pu__far_fits(task, job->batch, report) && !job->o->columns && job->block > 1) job->block = (job->block + 1) / 2;
}

/* How a device is used: one lane, all columns of as many data side by side as its memory has room for. Where even one of them
   does not fit, the call is refused when it asks for memory, with the bytes lacking told. */
PU__FN pu_status pu__far_make(pu__task *task, pu_report *report)
{
    pu__job *job = &task->job;
    const pu_results *out = job->out;
    const pu_op *G = &job->side[0].op;
    const pu_op *P = &job->side[1].op;
    const pu_int cols = job->K + 1;
    const pu_int places = INT32_MAX / pu__most(job->M, cols); /* in 32 bits */
    if (job->K > 0 && !job->o->delta && !G->sample) return pu__refuse(report, PU_E_UNSUPPORTED, "Gamma.sample (device side)");
    if (out->Gamma && job->r.Gamma.params > 0 && !G->grad) return pu__refuse(report, PU_E_UNSUPPORTED, "Gamma.grad (device side)");
    if (out->Phi && job->r.Phi.params > 0 && !P->grad) return pu__refuse(report, PU_E_UNSUPPORTED, "Phi.grad (device side)");
    job->lanes = 1;
    job->threads = 1;
    job->ragged = 0;
    job->form = 0;
    job->by_rows = 0;
    job->far_slots = job->slots;
    pu__slots_make(&job->far_slots, out->Gamma ? G->params : 0, out->Phi ? P->params : 0, job->M, job->D, out->m != NULL);
    job->block = job->o->columns ? pu__min(job->o->columns, cols) : cols;
    job->batch = pu__most(pu__min(job->N, places), 1);
    /* standard errors, Rao-Blackwell and GD's step sizes are worked out datum by datum */
    if (job->block < cols || job->slots.groups || job->o->rao_blackwell || job->plan.solver == PU_GD) job->batch = 1;
    job->batch_most = job->batch;
    pu__far_batch(task, report);
    return PU_OK;
}

/* ---- the job ---- */

/* What is asked for, before the data are read: model, backend, options. */
PU__FN pu_status pu__job_ask(pu__job *job, const pu_lgm *model, const pu_data *data, pu_report *report)
{
    const pu_options *o = job->o;
    pu_status status = pu__resolve_model(&job->r, model, report);
    if (status) return status;
    job->B = o->backend ? o->backend : pu_backend_cpu();
    job->D = job->r.Gamma.rows;
    job->M = job->r.Phi.rows;
    job->data = data;
    status = pu__check_backend(job->B, report);
    if (!status) status = pu__check_data_shape(data, job->M, report);
    if (!status) status = pu__check_options(o, report);
    if (status) return status;
    job->N = data->n;
    job->kind = o->kind;
    job->engine = o->kind == PU_EXACT && o->engine == PU_ITERATIVE ? PU_DENSE : o->engine;
    job->far = pu__is_far(job->B);
    /* A device has the iterative engine only; exact engines work on the host. The plan tells. */
    if (job->far && o->kind != PU_EXACT && o->engine == PU_ENGINE_AUTO) job->engine = PU_ITERATIVE;
    if (job->far && job->engine != PU_ITERATIVE) {
        job->far = 0;
        job->B = pu_backend_cpu();
    }
    job->exact = o->kind == PU_EXACT || job->engine == PU_ENGINE_AUTO;
    job->network = o->kind == PU_NETWORK;
    job->K = o->samples ? o->samples : 10;
    if (o->kind == PU_EXACT) job->K = 0;
    status = pu__plan_make(&o->solve, job->D, o->kind == PU_MONTE_CARLO, job->network, &job->plan, report);
    if (!status) status = pu__side(job->B, &job->r.Gamma, &pu__names_Gamma, NULL, job->side_bytes, job->side, report);
    if (!status) status = pu__side(job->B, &job->r.Phi, &pu__names_Phi, NULL, job->side_bytes + 1, job->side + 1, report);
    return status;
}

/* The gradient vector of a lane, and the groups of probes for standard errors. */
PU__FN pu_status pu__job_slots(pu__job *job, pu_report *report)
{
    const pu_results *out = job->out;
    const pu_options *o = job->o;
    pu__slots *s = &job->slots;
    s->want_Gamma = out->Gamma && job->r.Gamma.params > 0;
    s->want_Phi = out->Phi && job->r.Phi.params > 0;
    s->want_psi = out->psi != NULL;
    s->tied = o->tied_psi;
    s->probes = job->K;
    job->by_rows = out->Phi && pu__plain(&job->r.Phi);
    if (job->r.Gamma.params > PTRDIFF_MAX / 8 || job->r.Phi.params > PTRDIFF_MAX / 8)
        return pu__refuse(report, PU_E_OVERFLOW, "params");
    if (out->se_Gamma || out->se_Phi || out->se_psi || out->replicates) {
        if (o->groups < 0 || o->groups > job->K || o->groups == 1) return pu__refuse(report, PU_E_ARGUMENT, "options.groups");
        if (job->K == 1) return pu__refuse(report, PU_E_ARGUMENT, "options.samples (a standard error takes two)");
        s->groups = o->groups ? o->groups : pu__min(job->K, 16);
        job->by_rows = 0; /* the groups have copies of their own */
        if (job->r.Gamma.params + job->r.Phi.params + 4 * job->M + 2 * job->D > PTRDIFF_MAX / 8 / (s->groups + 2))
            return pu__refuse(report, PU_E_OVERFLOW, "params");
    }
    pu__slots_make(s, out->Gamma ? job->r.Gamma.params : 0, out->Phi ? job->r.Phi.params : 0, job->M, job->D, out->m != NULL);
    return PU_OK;
}

/* What the report tells of a job. */
PU__FN void pu__job_report(const pu__job *job, pu_report *report)
{
    report->groups = job->slots.groups;
    report->batch = job->far ? job->batch : 0;
    report->kind = job->kind;
    report->engine = job->engine;
    report->solver = job->plan.solver;
    report->samples = job->K;
    report->iterations = job->plan.I;
    report->checkpoint = job->plan.every;
    report->threads = job->threads;
    report->lanes = job->lanes;
    report->columns = job->served[PU_ITERATIVE] > 0 ? job->block : job->kmax;
    pu__plan_words(job, report);
}

/* Checks everything that can be checked without memory, and decides everything that can be decided. options and out may be
   NULL. want_nll: the likelihood is wanted where it can be had. */
PU__FN pu_status pu__job_make(pu__task *task, const pu_lgm *model, const pu_data *data, const pu_options *options,
                              const pu_results *out, int want_nll, pu_report *report)
{
    static const pu_options zero_options = {0, PU_NETWORK, PU_ITERATIVE, {0, PU_CG, 0, 0, 0, PU_ADJOINT_FULL, 0, NULL, NULL, 0},
                                            0, 0, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL};
    static const pu_results zero_results = {NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                            NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL};
    pu__job *job = &task->job;
    pu_status status;
    int overflow = 0;
    int lanczos, iterative;
    size_t entries;
    memset(job, 0, sizeof *job);
    job->o = options ? options : &zero_options;
    job->out = out ? out : &zero_results;
    out = job->out;
    status = pu__job_ask(job, model, data, report);
    if (status) return status;
    job->any_grad = out->nu || out->Gamma || out->Phi || out->eta || out->psi || out->m;
    job->network = job->network && job->any_grad; /* no tape when no gradient is wanted */
    job->asked_steps = job->plan.I;
    job->asked_network = job->network;
    status = pu__assign(job, report);
    if (status) return status;
    iterative = job->served[PU_ITERATIVE] > 0;
    if (iterative) (void)pu__products_cost(job, job->restricted ? job->most_iterative : job->M, &job->form);
    if (!iterative) {
        job->plan.I = 0;
        job->plan.every = 0;
        job->network = 0;
    }
    /* log det comes from the Lanczos process of the probes: CG or PCG, started at zero */
    lanczos = iterative && job->K > 0 && !job->o->x0 && pu__has_momentum(job->plan.solver);
    if (out->logdet && !lanczos) return pu__refuse(report, PU_E_UNSUPPORTED, "results.logdet");
    job->want_nll = lanczos && (want_nll || out->logdet);
    status = pu__check_functions(job, report);
    if (status) return status;
    entries = pu__mul((size_t)job->N, (size_t)job->K + 1, &overflow);
    (void)pu__mul(entries, pu__mul((size_t)job->D, sizeof(pu_real), &overflow), &overflow);
    if (overflow) return pu__refuse(report, PU_E_OVERFLOW, "N (K+1) D");
    pu__job_parts(job);
    status = pu__job_slots(job, report);
    if (!status && job->far) status = pu__far_make(task, report);
    if (!status) pu__job_report(job, report);
    return status;
}

/* Numbers of the model and of the arrays in the options: what a call that computes checks besides. */
PU__FN pu_status pu__job_check(const pu__job *job, pu_report *report)
{
    const pu_status status = pu__check_numbers(&job->r.model, report);
    return status ? status : pu__check_option_arrays(job, report);
}

/* ------------------------------------------------------------------------------------------------
   >>batch   from data to the sums of a lane: loading, right-hand sides, one block of columns, lanes
   ------------------------------------------------------------------------------------------------ */

/* ---- loading a datum ---- */

/* What a datum of the iterative engine has besides its observations, which were read last: diag(A), the preconditioner, and
   the s of the log det's control variate. It is number `which` of those side by side. */
PU__FN pu_status pu__load_diagonal(const pu__job *job, pu__worker *w, pu_int n, pu_int which, pu_report *report)
{
    const pu_int turn = pu__turn_of(job, n);
    const int pcg = job->plan.solver == PU_PCG;
    const int known = pu__has_diag(&job->r.model);
    pu__logs logs = {0, 1};
    double sum;
    pu_int i;
    if (known && (pcg || job->want_nll || job->o->rao_blackwell)) {
        pu__zeros(w->diagonal, job->D);
        if (pu__posterior_diag(&w->post, w->diagonal)) return pu__operator_failed(report, w->post.failed, n);
        for (i = 0; i < job->D; i++) pu__logs_add(&logs, (double)w->diagonal[i]);
    }
    w->base[turn] = 0;
    if (pcg) {
        const pu_real *m = job->o->solve.m;
        const pu_real *now = w->run.host_m + 2 * which * job->D;
        pu__logs base = {0, 1};
        const pu_status status = pu__set_m(&w->run, which, m ? m + n * pu__m_stride(job) : NULL, w->diagonal, n, report);
        if (status) return status;
        if (known)
            for (i = 0; i < job->D; i++) pu__logs_add(&logs, (double)now[i]);
        if (job->want_nll)
            for (i = 0; i < job->D; i++) pu__logs_add(&base, (double)now[i]);
        w->base[turn] = -(base.sum + log(base.product)); /* log det M */
    }
    /* s is the geometric mean of diag(M^-1 A), near the middle of the spectrum's logarithm */
    sum = logs.sum + log(logs.product);
    w->shift[turn] = job->o->no_control_variate || !pu__finite_double(sum) ? 1 : exp(sum / (double)job->D);
    return PU_OK;
}

/* Observations of datum n, and what depends on them alone. A datum may be loaded by several lanes, each of which takes some of
   its columns; the one that has column 0 (first = 0) records what there is to record. */
PU__FN pu_status pu__load(const pu__job *job, pu__memory *mem, pu__worker *w, pu_int n, pu_int first, pu_report *report)
{
    pu__posterior *p = &w->post;
    pu_status status;
    double c;
    if (w->loaded == n) return PU_OK;
    w->loaded = -1;
    p->failed = NULL;
    *p->now.id = pu__datum_id(job->data, n);
    (void)pu__posterior_load(p, job->data, n, &c);
    w->engine = pu__engine_for(job, p->observed);
    if (first == 0) {
        mem->observed[n] = p->observed;
        mem->c[n] = c;
        mem->engine[n] = (unsigned char)w->engine;
    }
    if (w->engine == PU_ITERATIVE) {
        int form = 0;
        if (job->form) (void)pu__products_cost(job, p->observed, &form);
        if (form) {
            if (pu__posterior_dense(p, w->run.x, w->run.q, p->A)) return pu__operator_failed(report, p->failed, n);
            pu__posterior_set_kind(p, &pu__kind_formed);
        }
        status = pu__load_diagonal(job, w, n, 0, report);
        if (status) return status;
    }
    w->loaded = n;
    return PU_OK;
}

/* The same for `count` data from n on, side by side where the backend works, into the upload that was not used last. */
PU__FN pu_status pu__far_load(const pu__job *job, pu__memory *mem, pu__worker *w, pu_int n, pu_int count, pu_report *report)
{
    pu__posterior *p = &w->post;
    pu_int g, i;
    p->failed = NULL;
    p->slot = !p->slot;
    p->count = count;
    p->cols = job->block;
    p->restricted = pu__can_restrict(&p->Phi->op);
    p->observed = 0;
    for (g = 0; g < count; g++) p->observed = pu__most(p->observed, pu__count_observed(job->data, n + g));
    p->n_rows = p->restricted ? p->observed : p->M;
    p->rows = NULL;
    p->joint = 0;
    pu__posterior_set_kind(p, p->usual);
    job->B->turn(job->B->user, p->slot);
    if (p->m) {
        w->run.m = p->m + p->slot * p->wide * p->D;
        w->run.minv = p->minv + p->slot * p->wide * p->D;
    }
    for (g = 0; g < count; g++) {
        pu_int *list = p->staged.rows + g * p->n_rows;
        pu_int observed;
        pu_status status;
        p->staged.id[g] = pu__datum_id(job->data, n + g);
        observed = pu__posterior_read(p, job->data, n + g, g, p->n_rows, mem->c + n + g);
        mem->observed[n + g] = observed;
        mem->engine[n + g] = (unsigned char)PU_ITERATIVE;
        if (p->restricted) {
            for (i = 0; i < p->n_rows; i++) list[i] = i < observed ? p->list[i] : -1;
            if (observed < p->M) p->rows = p->staged.rows;
        }
        status = pu__load_diagonal(job, w, n + g, g, report);
        if (status) return status;
    }
    pu__posterior_send(p);
    job->B->batch(job->B->user, count);
    return PU_OK;
}

/* ---- right-hand sides ---- */

/* The caller's probes into run.u, for columns first .. of every datum from n on. */
PU__FN void pu__given_probes(const pu__job *job, pu__worker *w, pu_int n, pu_int first, pu_int k)
{
    const pu_backend *B = job->B;
    const pu_int each = k / w->post.count;
    pu_int j;
    for (j = 0; j < k; j++) {
        const pu_int probe = first + j % each - 1;
        const pu_real *delta = job->o->delta + ((n + j / each) * job->K + probe) * job->D;
        if (probe >= 0) B->write(B->user, pu__col(w->run.u, j), delta, (size_t)job->D * sizeof(pu_real));
    }
}

/* delta = Gamma^1/2 eps1 + Phi'W^1/2 eps2 for k columns, the first of which is probe number `sample`. Each normal belongs to its
   row, whichever other rows are observed. */
PU__FN pu_status pu__draw_probes(const pu__job *job, pu__worker *w, pu_block delta, pu_int k, uint32_t sample)
{
    pu__posterior *p = &w->post;
    const pu_op *Gamma = &p->Gamma->op;
    const pu_options *o = job->o;
    const pu_backend *B = job->B;
    B->normals(B->user, pu__noise(&job->r.Gamma), NULL, k, w->eps, o->seed, p->now.id, sample, o->step, PU__STREAM_PRIOR);
    if (Gamma->sample(Gamma, k, w->eps, delta, p->work)) return pu__note_failure(p, PU_E_OPERATOR, "Gamma.sample");
    B->normals(B->user, p->n_rows, p->rows, k, w->eps, o->seed, p->now.id, sample, o->step, PU__STREAM_NOISE);
    pu__weigh(p, k, w->eps, w->eps, 1, p->now.w_root);
    return pu__phi_apply_t(p, k, w->eps, delta, 1);
}

/* Columns first .. first+k-1 of [b | delta_1 .. delta_K] into run.u. On a device: of every datum, and b's columns get a probe, too,
   before b itself, so that columns of one kind lie side by side. */
PU__FN pu_status pu__rhs(const pu__job *job, pu__memory *mem, pu__worker *w, pu_int n, pu_int first, pu_int k,
                         pu_report *report)
{
    pu__posterior *p = &w->post;
    const pu_block u = w->run.u;
    const pu_int skip = first == 0 && !job->far; /* column 0 of the first block is b */
    const pu_real *gamma_nu = job->far ? mem->far_nu : mem->gamma_nu;
    pu_status status = PU_OK;
    if (job->o->delta) pu__given_probes(job, w, n, first, k);
    else if (k > skip) status = pu__draw_probes(job, w, pu__from(u, skip), k - skip, (uint32_t)(first + skip - 1));
    if (!status && first == 0) status = pu__posterior_rhs(p, job->r.model.nu ? gamma_nu : NULL, pu__means(p, u));
    return status ? pu__operator_failed(report, p->failed, n) : PU_OK;
}

/* ---- terms ---- */

/* b depends on theta too: with bbar = dF/db,
     Phi += (W e) bbar',  eta -= W (Phi bbar + e),  psi += mask (Phi bbar e + e^2/2 - 1/(2 psi)),
   and bbar itself is summed up for Gamma and nu, whose terms are formed once per batch. bbar = -x where `direct`; the last
   product was then with x. */
PU__FN pu_status pu__linear_terms(const pu__job *job, pu__worker *w, int direct, pu_real *lane)
{
    pu__posterior *p = &w->post;
    const pu__slots *s = &p->slots;
    const pu_backend *B = job->B;
    const pu_int count = p->count;
    const pu_block none = {NULL, 0};
    const pu_block b = pu__rows(w->bbar, job->D);
    const pu_block sum = pu__rows(p->row_sum, p->M);
    B->row_dot(B->user, job->D, count, NULL, NULL, b, none, job->D, NULL, lane + s->b);
    if (job->out->psi || job->out->eta) {
        const pu_term minus = pu__term_scaled(pu__means(p, p->t0), -1);
        if (direct && p->left == PU__LEFT_ROWS) B->combine(B->user, p->n_rows, count, sum, 1, &minus);
        else if (pu__phi_apply(p, count, b, sum)) return PU_E_OPERATOR;
        B->row_terms(B->user, p->n_rows, count, sum, p->now.w, p->now.mask, p->now.e, p->psi, p->M, p->rows, lane + s->eta,
                     lane + s->psi);
    }
    if (!s->want_Phi || p->joint) return PU_OK;
    return pu__phi_grad(p, count, pu__weighted_e(p), b, p->ones, lane + s->Phi);
}

/* log det A as each probe column of the block sees it, and how far that may be from what more steps would give: the larger
   of the last step's change and of the part of delta'A^-1 log(A/s) delta that the residual leaves open, about
   r'A^-1 r (1 + |log(theta/s)|) with theta the smallest Ritz value. The block has `each` columns of datum n, then n + 1 .. */
PU__FN void pu__logdets(const pu__job *job, pu__worker *w, pu_int n, pu_int first, pu_int each, pu__column *columns)
{
    pu__run *g = &w->run;
    pu_int j;
    for (j = 0; j < g->k; j++) {
        pu__column *column = columns + j;
        const pu_int turn = pu__turn_of(job, n + j / each);
        const pu_int steps = (pu_int)g->host_steps[j];
        const pu_int stop = (pu_int)g->host_stop[j];
        const pu_real *rho = g->host_rho + j;
        const double begin = (double)rho[0];
        const double end = (double)rho[steps * g->k];
        const double s = w->shift[turn];
        const pu__quadrature_result seen = pu__quadrature(g, j, steps, begin, s);
        const double change = fabs(pu__last_change(g, j, steps, (double)rho[(steps > 0 ? steps - 1 : 0) * g->k], s));
        const double theta = seen.smallest;
        const double open = steps > 0 ? end / theta * (1 + fabs(log(theta / s))) : begin;
        column->low = theta;
        column->high = seen.largest;
        column->energy = steps > 0 ? end / theta : -1;
        if (first + j % each == 0) continue; /* the mean has no part in the log det */
        column->logdet = seen.value + w->base[turn];
        /* a column that ended at rounding level has nothing left to change, however much its last step did */
        column->gap = stop == PU_STOP_ROUNDING || stop == PU_STOP_ZERO ? open : pu__max(change, open);
    }
}

/* Control variates of the probe columns just solved: with a = 1/A_jj,
     1/2 [a + (sigma_j - a delta_j)^2] = 1/2 sigma_j^2 + 1/2 a (1 - 2 sigma_j delta_j + a delta_j^2),
   whose last term has mean zero because cov(sigma, delta) = I and cov(delta) = A. */
PU__FN pu_status pu__rao_blackwell(const pu__job *job, pu__memory *mem, pu__worker *w, pu_int k, pu_real *lane)
{
    const size_t bytes = (size_t)(job->D * k) * sizeof(pu_real);
    const pu_block x = job->far ? pu__rows(mem->columns_x, job->D) : w->run.x;
    const pu_block u = job->far ? pu__rows(mem->columns_u, job->D) : w->run.u;
    const pu_op *Gamma = &job->r.Gamma;
    const pu_int wide = Gamma->band + 1;
    double *Z = w->direct.Z;
    pu_int j, i, end;
    if (job->far) {
        job->B->read(job->B->user, x.at, w->run.x.at, bytes);
        job->B->read(job->B->user, u.at, w->run.u.at, bytes);
    }
    for (j = w->post.column == 0; j < k; j = end) { /* not the mean */
        pu_int at = pu__group_at(&w->post, j);
        end = pu__group_end(&w->post, j, k);
        memset(Z, 0, (size_t)(job->D * wide) * sizeof *Z);
        for (; j < end; j++) {
            const double half = (double)w->weight[j] / 2;
            for (i = 0; i < job->D; i++) {
                const double a = 1 / (double)w->diagonal[i];
                const double d = (double)pu__col(u, j)[i];
                Z[i * wide] += half * a * (1 - 2 * (double)pu__col(x, j)[i] * d + a * d * d);
            }
        }
        /* a group's place in the host's vector */
        if (job->far && at) at = job->slots.group + (at - job->far_slots.group) / job->far_slots.eta * job->slots.eta;
        if (Gamma->band_grad(Gamma, Gamma->band, Z, 1, lane + at)) return pu__note_failure(&w->post, PU_E_OPERATOR, "Gamma.band_grad");
    }
    return PU_OK;
}

/* ---- a block of columns by the iterative engine ---- */

/* A block of columns: `each` columns from `first` on of datum n, on a device of several data from n on. */
typedef struct {
    pu_int n, first, each;
    pu_int next; /* device: data to be loaded while it works; 0 = none */
} pu__item;

/* Gradient of the block just solved: 1/2 x'A x, what comes back through the solver, what is linear in b. */
PU__FN pu_status pu__block_gradient(const pu__job *job, pu__memory *mem, pu__worker *w, const pu__item *item,
                                    const pu_block *x0, pu_real *lane)
{
    pu__run *g = &w->run;
    pu__posterior *p = &w->post;
    const pu_backend *B = job->B;
    pu_status status;
    p->column = item->first;
    p->joint = item->first == 0 && !job->network;
    pu__set_scale(g, w->weight, PU_R(0.5));
    status = pu__posterior_square(p, g->k, g->x, g->s.scale, 1, lane);
    if (!status && job->network) {
        pu__set_scale(g, w->weight, 1);
        status = pu__reverse(g, x0, lane);
    }
    if (!status && item->first == 0) { /* bbar = -x + scale rbar, of the mean of each datum */
        const int several = job->network && p->count > 1;
        pu_term terms[2];
        terms[0] = pu__term_scaled(pu__means(p, g->x), -1);
        terms[1] = pu__term_c(g->rbar, g->s.scale);
        if (several) { /* scale has an entry for every column */
            pu__combine2(g, g->qbar, pu__term_scaled(g->x, -1), terms[1]);
            terms[0] = pu__term(pu__means(p, g->qbar));
        }
        B->combine(B->user, job->D, p->count, pu__rows(w->bbar, job->D), job->network && !several ? 2 : 1, terms);
        status = pu__linear_terms(job, w, !job->network, lane);
    }
    p->joint = 0;
    if (!status && job->o->rao_blackwell && p->slots.want_Gamma)
        status = pu__rao_blackwell(job, mem, w, g->k, job->far ? mem->lanes : lane);
    p->column = -1;
    return status;
}

/* Results and records of the columns just solved, staged. */
PU__FN void pu__block_records(const pu__job *job, pu__memory *mem, pu__worker *w, const pu__item *item)
{
    pu__run *g = &w->run;
    const pu_int I = job->plan.I;
    const pu_int at = item->n * (job->K + 1) + item->first;
    pu__column *columns = mem->columns + at;
    pu_real *const stage[2] = {mem->stage.alpha, mem->stage.beta};
    const pu_real *const history[2] = {g->host_a, g->host_b};
    pu_int i, j, l;
    if (mem->stage.x)
        job->B->read(job->B->user, mem->stage.x + at * job->D, g->x.at, (size_t)(g->k * job->D) * sizeof(pu_real));
    for (j = 0; j < g->k; j++) {
        memset(columns + j, 0, sizeof *columns);
        pu__column_record(g, j, job->network && job->any_grad, &columns[j].record);
        columns[j].ux = g->ux[j];
        columns[j].xax = g->ux[j] - g->xt[j];
        for (l = 0; l < 2; l++)
            if (stage[l])
                for (i = 0; i < I; i++) stage[l][(at + j) * I + i] = i < g->done ? history[l][i * g->k + j] : 0;
    }
    if (job->want_nll) pu__logdets(job, w, item->n, item->first, item->each, columns);
}

/* A block of columns from right-hand sides to sums. */
PU__FN pu_status pu__iterative_block(const pu__job *job, pu__memory *mem, pu__worker *w, const pu__item *item, pu_real *lane,
                                     pu_report *report)
{
    pu__run *g = &w->run;
    const pu_backend *B = job->B;
    const pu_int D = job->D;
    const pu_int n = item->n;
    const pu_int at = n * (job->K + 1) + item->first;
    const pu_int k = item->each * w->post.count;
    const int back = job->network && job->any_grad;
    pu_block start = pu__rows(job->o->x0 ? job->o->x0 + at * D : NULL, D);
    const pu_block *x0 = job->o->x0 ? &start : NULL;
    pu_status status = PU_OK;
    pu_status outcome;
    pu_int j;
    pu__run_set(g, job->plan.solver, k);
    if (job->plan.solver == PU_GD) status = pu__set_step(g, job->o->solve.step ? job->o->solve.step + n : NULL, n, report);
    g->each = item->each;
    if (!status) status = pu__rhs(job, mem, w, n, item->first, k, report);
    if (status) return status;
    if (job->far && x0) {
        B->write(B->user, mem->x0.at, start.at, (size_t)(k * D) * sizeof(pu_real));
        start = mem->x0;
    }
    for (j = 0; j < k; j++) w->weight[j] = item->first + j % item->each == 0 ? 1 : 1 / (pu_real)job->K;
    g->mbar = job->out->m ? lane + w->post.slots.m : NULL;
    outcome = pu__run_block(g, x0, back, n, item->first, report);
    if (pu__fatal(outcome)) return outcome;
    if (mem->stage.residual)
        for (j = 0; j < k; j++)
            B->read(B->user, mem->stage.residual + (at + j) * D, pu__col(g->xbar, j), (size_t)D * sizeof(pu_real));
    if (job->any_grad && pu__block_gradient(job, mem, w, item, x0, lane))
        return pu__operator_failed(report, w->post.failed ? w->post.failed : "A.apply or A.grad", n);
    if (item->next > 0) {
        status = pu__far_load(job, mem, w, n + w->post.count, item->next, report);
        if (status) return status;
    }
    outcome = pu__run_outcome(g, outcome, back, n, item->first, report);
    if (!pu__fatal(outcome)) pu__block_records(job, mem, w, item);
    return outcome;
}

/* ---- a datum by a direct engine ---- */

/* The record of a column that a factorisation has solved. */
PU__FN void pu__direct_record(pu__column *c, double logdet)
{
    memset(c, 0, sizeof *c);
    c->record.stop = PU_STOP_DIRECT;
    c->record.orthogonality = -1;
    c->record.growth = -1;
    c->logdet = logdet;
}

/* Columns first .. first+k-1 of datum n: solved, their residuals measured, recorded and staged. */
PU__FN pu_status pu__direct_columns(const pu__job *job, pu__memory *mem, pu__worker *w, pu_int n, pu_int first, pu_int k,
                                    pu_report *report)
{
    pu__run *g = &w->run;
    const pu_int D = job->D;
    pu_int j;
    pu_status status;
    pu__run_set(g, job->plan.solver, k);
    status = pu__rhs(job, mem, w, n, first, k, report);
    if (status) return status;
    if (pu__engines[w->engine].solve(&w->direct, first, k)) return pu__operator_failed(report, w->post.failed, n);
    pu__zero(g, g->r); /* there is no recurrence */
    if (pu__residual(g)) return pu__operator_failed(report, w->post.failed, n);
    pu__read_dots(g);
    for (j = 0; j < k; j++) {
        const pu_int at = n * (job->K + 1) + first + j;
        const pu_real *x = pu__col(g->x, j);
        pu__column *c = mem->columns + at;
        pu__direct_record(c, mem->logdet[n]);
        c->record.rhs = sqrt(g->uu[j]);
        c->record.residual = sqrt(g->tt[j]);
        c->record.true_residual = c->record.residual;
        c->ux = g->ux[j];
        c->xax = g->ux[j] - g->xt[j];
        if (mem->stage.x) pu__copy(mem->stage.x + at * D, x, D);
        if (mem->stage.residual) pu__copy(mem->stage.residual + at * D, pu__col(g->xbar, j), D);
        w->weight[j] = first + j == 0 ? 1 : 1 / (pu_real)job->K;
        /* x is rounded to pu_real; beyond what that leaves, the factor is of another matrix */
        if (w->engine == PU_BANDED && !(c->record.residual <= 0.01 * c->record.rhs + 100 * (double)PU__EPS * w->direct.norm *
                                                                                       sqrt(pu__dot(D, NULL, x, x))))
            return pu__operator_failed(report, "Gamma.band_add or Phi.row (not the operator that apply is)", n);
    }
    return PU_OK;
}

/* The gradient of the columns just solved, and for the mean the likelihood's value and what is linear in b. The probes' terms
   count only where Sigma itself is not used. */
PU__FN pu_status pu__direct_gradient(const pu__job *job, pu__memory *mem, pu__worker *w, pu_int n, pu_int first, pu_int k,
                                     pu_real *lane)
{
    pu__run *g = &w->run;
    pu__posterior *p = &w->post;
    const pu_int cols = job->K + 1;
    pu_status status = PU_OK;
    pu_int j, i;
    if (job->any_grad && (first == 0 || !job->exact)) {
        p->column = job->exact ? -1 : first;
        p->joint = first == 0;
        for (j = 0; j < k; j++) g->s.scale[j] = w->weight[j] / 2;
        status = pu__posterior_square(p, job->exact ? 1 : k, g->x, g->s.scale, 1, lane);
        p->column = -1;
    }
    if (!status && first == 0) status = pu__posterior_value(p, g->x, w->bbar, g->q.at, &mem->columns[n * cols].value);
    if (!status && first == 0 && job->any_grad) {
        for (i = 0; i < job->D; i++) w->bbar[i] = -g->x.at[i];
        status = pu__linear_terms(job, w, 1, lane);
    }
    p->joint = 0;
    return status;
}

/* Datum n by a direct engine: columns solved and, where Sigma itself is known, the gradient of its term. */
PU__FN pu_status pu__direct_datum(const pu__job *job, pu__memory *mem, pu__worker *w, pu_int n, pu_real *lane,
                                  pu_report *report)
{
    const pu__engine *engine = &pu__engines[w->engine];
    pu__direct *e = &w->direct;
    const pu_int cols = job->K + 1;
    const pu_int I = job->plan.I;
    const pu_int solved = job->exact && !mem->stage.x && !mem->stage.residual ? 1 : cols;
    pu_int first, j, k;
    pu_status status;
    e->gamma_logdet = mem->gamma_logdet;
    status = engine->prepare(e, n, report);
    if (status) return status;
    mem->logdet[n] = e->logdet;
    for (first = 0; first < solved; first += k) {
        k = pu__min(job->kmax, solved - first);
        status = pu__direct_columns(job, mem, w, n, first, k, report);
        if (status) return status;
        if (pu__direct_gradient(job, mem, w, n, first, k, lane)) return pu__operator_failed(report, w->post.failed, n);
    }
    for (j = solved; j < cols; j++) pu__direct_record(mem->columns + n * cols + j, mem->logdet[n]);
    if (mem->stage.alpha) pu__zeros(mem->stage.alpha + n * cols * I, cols * I); /* there were no steps */
    if (mem->stage.beta) pu__zeros(mem->stage.beta + n * cols * I, cols * I);
    if (mem->variance || mem->fit)
        status = engine->spread(e, mem->variance ? mem->variance + n * job->D : NULL, mem->fit ? mem->fit + n * job->M : NULL);
    if (!status && job->exact && job->any_grad) status = engine->sigma(e, lane);
    return status ? pu__operator_failed(report, w->post.failed, n) : PU_OK;
}

/* ---- lanes ---- */

/* Rows of Phi that a lane meets for the first time: zero. Most batches touch few of the rows in any one lane. */
PU__FN void pu__touch(const pu__job *job, const pu__posterior *p, unsigned char *touched, pu_real *lane)
{
    pu_int i;
    for (i = 0; i < p->observed; i++) {
        const pu_int row = p->list[i];
        if (!touched[row]) pu__zeros(lane + job->slots.Phi + row * job->D, job->D);
        touched[row] = 1;
    }
}

/* Ragged data to lanes, so that these cost about the same: the largest first, each to the lane that has least. Largest up to a
   factor of sqrt(2), which makes a sort of 24 passes; the last one takes whatever is left. Depends on sizes alone. */
PU__FN void pu__share_out(const pu__job *job, pu__memory *mem)
{
    enum { PASSES = 24 };
    double *cost = mem->c;      /* both are free until a lane begins; lanes <= N */
    double *load = mem->logdet;
    double limit = 0;
    pu_int n;
    int pass, l;
    for (n = 0; n < job->N; n++) {
        const pu_int count = pu__count_observed(job->data, n);
        cost[n] = pu__cost(job, pu__engine_for(job, count), count);
        limit = pu__max(limit, cost[n]);
        mem->lane_of[n] = -1;
    }
    for (l = 0; l < job->lanes; l++) load[l] = 0;
    for (pass = 1; pass <= PASSES; pass++) {
        limit *= 0.70710678118654752440;
        for (n = 0; n < job->N; n++) {
            int least = 0;
            if (mem->lane_of[n] >= 0 || (cost[n] < limit && pass < PASSES)) continue;
            for (l = 1; l < job->lanes; l++)
                if (load[l] < load[least]) least = l;
            load[least] += cost[n];
            mem->lane_of[n] = least;
        }
    }
}

/* Keeps the worst outcome of the items of a lane: the first one, but a fatal one outranks it. The user's operator is named, not
   "A". */
PU__FN void pu__note_outcome(const pu__worker *w, pu_status status, pu_report *item, pu_report *lane)
{
    if (status == PU_E_OPERATOR && w->post.failed) item->where.what = w->post.failed;
    if (!status || (lane->status && !pu__fatal(status))) return;
    lane->status = status;
    lane->where = item->where;
}

/* Zeros for the sums of a lane; with by_rows Phi's part is cleared row by row when it is met. */
PU__FN void pu__lane_clear(const pu__job *job, pu__memory *mem, int lane, pu_real *grad)
{
    const pu__slots *s = &job->slots;
    if (!job->by_rows) {
        pu__zeros(grad, s->params);
        return;
    }
    pu__zeros(grad, s->Phi);
    pu__zeros(grad + s->psi, s->params - s->psi);
    memset(mem->touched + lane * job->M, 0, (size_t)job->M);
}

/* All items of one lane, in order. An item is a block of columns of a datum. */
PU__FN void pu__lane(const pu__job *job, pu__memory *mem, pu__worker *w, int lane)
{
    const pu_int items = job->N * job->blocks;
    const pu_int share = items / job->lanes;
    const pu_int from = job->ragged ? 0 : share * lane + pu__min(lane, items % job->lanes);
    const pu_int to = job->ragged ? items : from + share + (lane < items % job->lanes);
    pu_report *report = mem->lane_report + lane;
    pu_real *grad = mem->lanes + lane * job->slots.params;
    pu_int i;
    pu__report_clear(report);
    pu__lane_clear(job, mem, lane, grad);
    w->run.products = 0;
    w->loaded = -1;
    for (i = from; i < to; i++) {
        pu__item item;
        pu_report one;
        pu_status status;
        item.n = i / job->blocks;
        item.first = i % job->blocks * job->block;
        item.each = pu__min(job->block, job->K + 1 - item.first);
        item.next = 0;
        if (job->ragged && mem->lane_of[item.n] != lane) continue;
        pu__report_clear(&one);
        status = pu__load(job, mem, w, item.n, item.first, &one);
        if (!status && job->by_rows) pu__touch(job, &w->post, mem->touched + lane * job->M, grad);
        if (!status && w->engine == PU_ITERATIVE) status = pu__iterative_block(job, mem, w, &item, grad, &one);
        else if (!status && item.first == 0) status = pu__direct_datum(job, mem, w, item.n, grad, &one);
        pu__note_outcome(w, status, &one, report);
        if (pu__fatal(status)) break;
    }
    report->products = w->run.products;
}

/* ---- a device: one lane, some data side by side ---- */

/* The operators and arrays of the model go there. */
PU__FN pu_status pu__far_open(const pu__job *job, pu__memory *mem, pu_report *report)
{
    const pu_backend *B = job->B;
    pu__posterior *p = &mem->workers->post;
    pu_status status;
    size_t bytes;
    pu_int i;
    B->turn(B->user, 0);
    status = pu__side(B, &job->r.Gamma, &pu__names_Gamma, mem->side_memory[0], &bytes, mem->side, report);
    if (!status) status = pu__side(B, &job->r.Phi, &pu__names_Phi, mem->side_memory[1], &bytes, mem->side + 1, report);
    if (status) return status;
    B->write(B->user, mem->far_psi, job->r.model.psi, (size_t)job->M * sizeof(pu_real));
    if (job->r.model.nu) B->write(B->user, mem->far_nu, mem->gamma_nu, (size_t)job->D * sizeof(pu_real));
    for (i = 0; i < job->batch; i++) p->staged.w[i % job->M] = 1;
    for (i = 0; i < job->batch; i += job->M)
        B->write(B->user, p->ones + i, p->staged.w, (size_t)pu__min(job->M, job->batch - i) * sizeof(pu_real));
    return PU_OK;
}

/* What was added up there becomes lane 0. */
PU__FN pu_status pu__far_close(const pu__job *job, pu__memory *mem, pu_report *report)
{
    const pu__slots *near_ = &job->slots;
    const pu__slots *far = &job->far_slots;
    pu_int g;
    pu_status status;
    job->B->read(job->B->user, mem->sums, mem->far_lane, (size_t)far->params * sizeof(pu_real));
    status = pu__far_status(job->B, report);
    if (status) return status;
    for (g = -1; g < near_->groups; g++) { /* the common accumulator, then those of the groups */
        const pu_real *from = mem->sums + (g < 0 ? 0 : far->group + g * far->eta);
        pu_real *to = mem->lanes + (g < 0 ? 0 : near_->group + g * near_->eta);
        if (near_->Phi > 0 && pu__pull_side(mem->side, from, to)) return pu__operator_failed(report, "Gamma.pull", -1);
        if (near_->psi > near_->Phi && pu__pull_side(mem->side + 1, from + far->Phi, to + near_->Phi))
            return pu__operator_failed(report, "Phi.pull", -1);
        pu__axpy(job->M, 1, from + far->psi, to + near_->psi);
    }
    pu__axpy(far->group - far->eta, 1, mem->sums + far->eta, mem->lanes + near_->eta); /* eta, b, m */
    return PU_OK;
}

/* All data through the device, batch by batch. */
PU__FN pu_status pu__far_batches(const pu__job *job, pu__memory *mem, pu_report *report)
{
    pu__worker *w = mem->workers;
    pu_int n, b, next;
    pu_int count = pu__min(job->batch, job->N);
    pu_status status = pu__far_open(job, mem, report);
    if (!status) status = pu__far_load(job, mem, w, 0, count, report);
    if (status) return status;
    job->B->combine(job->B->user, job->far_slots.params, 1, pu__rows(mem->far_lane, job->far_slots.params), 0, NULL);
    for (n = 0; n < job->N; n += count, count = next) {
        next = pu__min(job->batch, job->N - n - count);
        for (b = 0; b < job->blocks; b++) {
            pu__item item;
            pu_report one;
            item.n = n;
            item.first = b * job->block;
            item.each = pu__min(job->block, job->K + 1 - item.first);
            item.next = b + 1 == job->blocks ? next : 0;
            pu__report_clear(&one);
            status = pu__iterative_block(job, mem, w, &item, mem->far_lane, &one);
            pu__note_outcome(w, status, &one, report);
            if (pu__fatal(status)) return status;
        }
    }
    return report->status;
}

/* The one lane of a device. An error of the device outranks whatever came of it. */
PU__FN void pu__far_lane(const pu__job *job, pu__memory *mem)
{
    pu_report *report = mem->lane_report;
    pu_status status;
    pu__report_clear(report);
    mem->workers->run.products = 0;
    mem->workers->engine = PU_ITERATIVE;
    pu__zeros(mem->lanes, job->slots.params);
    status = pu__far_batches(job, mem, report);
    if (!pu__fatal(status) && pu__far_close(job, mem, report)) return;
    if (pu__far_status(job->B, report)) return;
    report->status = status;
    report->products = mem->workers->run.products;
}

/* ------------------------------------------------------------------------------------------------
   >>sums   from the sums of the lanes to the gradient, the values and their errors; a job from end to end
   ------------------------------------------------------------------------------------------------ */

/* Parts of c and b that all data share: *c = 1/2 nu'Gamma nu - 1/2 log det Gamma, mem->gamma_nu, mem->gamma_logdet. */
PU__FN pu_status pu__shared_terms(const pu__job *job, pu__memory *mem, double *c, pu_report *report)
{
    const pu_op *Gamma = &job->r.Gamma;
    const pu_real *nu = job->r.model.nu;
    const pu_int D = job->D;
    double logdet = 0;
    const pu_status status = pu__test_operators(&job->r, mem->test, mem->work, report);
    *c = 0;
    if (status) return status;
    report->has_objective = Gamma->logdet != NULL;
    if (Gamma->logdet) {
        if (Gamma->logdet(Gamma, &logdet, mem->work)) return pu__operator_failed(report, "Gamma.logdet", -1);
        if (!pu__finite_double(logdet)) return pu__refuse(report, PU_NONFINITE, "Gamma.logdet");
        *c -= logdet / 2;
        mem->gamma_logdet = logdet;
    }
    if (nu) {
        if (Gamma->apply(Gamma, 1, pu__rows(nu, D), pu__rows(mem->gamma_nu, D), 0, mem->work))
            return pu__operator_failed(report, "Gamma.apply", -1);
        *c += pu__dot(D, NULL, nu, mem->gamma_nu) / 2;
    }
    return PU_OK;
}

/* Entries `at` to `at + n` of the lanes that have any (all of them when touched is NULL), added up in order into g and
   divided by N: one pass over each lane, since they are larger than any cache. Returns whether an entry is not finite. */
PU__FN int pu__add_lanes(const pu__job *job, pu__memory *mem, pu_int at, pu_int n, const unsigned char *touched, pu_real *g)
{
    const pu_real mean = 1 / (pu_real)job->N;
    const pu_real *lane = mem->lanes + at;
    pu_int i, len;
    int l;
    int bad = 0;
    for (; n > 0; n -= len) {
        len = pu__min(PU__CHUNK, n);
        if (touched && !touched[0]) pu__zeros(g, len);
        else if (g != lane) pu__copy(g, lane, len);
        for (l = 1; l < job->lanes; l++)
            if (!touched || touched[l * job->M]) pu__axpy(len, 1, lane + l * job->slots.params, g);
        for (i = 0; i < len; i++) g[i] *= mean;
        for (i = 0; i < len; i++) bad |= !pu__finite(g[i]);
        g += len;
        lane += len;
    }
    return bad;
}

/* All lanes into lane 0, and Phi's gradient into mem->phi_grad. Returns whether an entry of the latter is not finite. */
PU__FN int pu__sum_lanes(const pu__job *job, pu__memory *mem)
{
    const pu__slots *s = &job->slots;
    pu_real *g = mem->lanes;
    pu_int i;
    int lost = 0;
    if (!job->by_rows) {
        (void)pu__add_lanes(job, mem, 0, s->params, NULL, g);
    } else {
        (void)pu__add_lanes(job, mem, 0, s->Phi, NULL, g);
        (void)pu__add_lanes(job, mem, s->psi, s->params - s->psi, NULL, g + s->psi);
#ifdef PU__OPENMP
#pragma omp parallel for schedule(static) reduction(| : lost) num_threads(job->threads) if (job->threads > 1)
#endif
        for (i = 0; i < job->M; i++)
            lost |= pu__add_lanes(job, mem, s->Phi + i * job->D, job->D, mem->touched + i, mem->phi_grad + i * job->D);
    }
    for (i = 0; i < s->groups; i++) pu__axpy(s->eta, 1, g + s->group + i * s->eta, g);
    return lost;
}

/* Gamma += (bbar nu' + nu bbar')/2 + nu nu'/2 - Gamma^-1/2. The last one, from -1/2 log det Gamma, has in the dual engine met
   its opposite in 1/2 tr(A Gamma^-1). */
PU__FN pu_status pu__finish_Gamma(const pu__job *job, pu__memory *mem, pu_report *report)
{
    const pu_op *Gamma = &job->r.Gamma;
    const pu_real one = 1;
    const pu_real half = PU_R(0.5);
    const pu_int others = job->N - (job->exact ? job->served[PU_DUAL] : 0);
    pu_real *g = mem->lanes;
    if (job->r.model.nu) {
        const pu_block nu = pu__rows(job->r.model.nu, job->D);
        const pu_block bbar = pu__rows(g + job->slots.b, job->D);
        if (Gamma->grad(Gamma, 1, bbar, nu, &one, g, mem->work)) return pu__operator_failed(report, "Gamma.grad", -1);
        if (Gamma->grad(Gamma, 1, nu, nu, &half, g, mem->work)) return pu__operator_failed(report, "Gamma.grad", -1);
    }
    if (others > 0 && Gamma->logdet_grad(Gamma, -half * (pu_real)others * (1 / (pu_real)job->N), g, mem->work))
        return pu__operator_failed(report, "Gamma.logdet_grad", -1);
    return PU_OK;
}

/* nu = Gamma (bbar + nu), into mem->gamma_nu, which is free by now. */
PU__FN pu_status pu__finish_nu(const pu__job *job, pu__memory *mem, pu_report *report)
{
    const pu_op *Gamma = &job->r.Gamma;
    const pu_block bbar = pu__rows(mem->lanes + job->slots.b, job->D);
    pu_int bad;
    if (job->r.model.nu) pu__axpy(job->D, 1, job->r.model.nu, bbar.at);
    if (Gamma->apply(Gamma, 1, bbar, pu__rows(mem->gamma_nu, job->D), 0, mem->work))
        return pu__operator_failed(report, "Gamma.apply", -1);
    bad = pu__find_nonfinite(job->D, mem->gamma_nu);
    return bad >= 0 ? pu__fail(report, PU_NONFINITE, "gradient of nu", -1, bad) : PU_OK;
}

/* Refuses a gradient whose n numbers at g are not all finite. */
PU__FN pu_status pu__check_gradient(const pu_real *g, pu_int n, const char *name, pu_report *report)
{
    const pu_int bad = pu__find_nonfinite(n, g);
    return bad >= 0 ? pu__fail(report, PU_NONFINITE, name, -1, bad) : PU_OK;
}

/* Lane 0 becomes the mean gradient; Gamma and nu get the terms that are linear in bbar or free of the data. */
PU__FN pu_status pu__finish_gradient(const pu__job *job, pu__memory *mem, pu_report *report)
{
    const pu__slots *s = &job->slots;
    const pu_real *g = mem->lanes;
    const int lost = pu__sum_lanes(job, mem);
    pu_status status = PU_OK;
    if (s->want_Gamma) status = pu__finish_Gamma(job, mem, report);
    if (!status && job->out->nu) status = pu__finish_nu(job, mem, report);
    if (!status && job->out->m) status = pu__check_gradient(g + s->m, job->D, "gradient of m", report);
    if (!status) status = pu__check_gradient(g, s->Phi, "gradient of Gamma", report);
    if (!status && (lost || !job->by_rows)) status = pu__check_gradient(mem->phi_grad, s->psi - s->Phi, "gradient of Phi", report);
    if (!status) status = pu__check_gradient(g + s->psi, job->M, "gradient of psi", report);
    if (!status) status = pu__check_gradient(g + s->eta, job->M, "gradient of eta", report);
    return status;
}

/* Student's t: 97.5 % quantile, from its expansion in 1/n; 0.8 % off at n = 2, 1e-3 from n = 3 on. */
PU__FN double pu__student(pu_int n)
{
    const double v = 1 / (double)n;
    return n < 2 ? 12.706 : 1.959964 + v * (2.372271 + v * (2.822499 + v * (2.555850 + v * 1.589534)));
}

/* Sums over the data of what the report tells of the solver and of the likelihood's error. */
typedef struct {
    double variance, gap, traces;
    double energy, size; /* sum |x - A^-1 u|_A^2, sum |x|_A^2 */
    int known;           /* every column's Ritz values are */
} pu__value_sums;

/* Datum n's part of c, q, the network objective and the likelihood. */
PU__FN void pu__datum_values(const pu__job *job, const pu__memory *mem, double shared_c, pu_int n, pu__value_sums *sums,
                             pu_report *report)
{
    const double log_2pi = 1.8378770664093454836;
    const double N = (double)job->N;
    const double K = (double)job->K;
    const double sampled = (double)job->served[PU_ITERATIVE];
    const pu__column *col = mem->columns + n * (job->K + 1);
    const int direct = mem->engine[n] != PU_ITERATIVE;
    const double c = mem->c[n] + shared_c;
    const double fit = direct ? col->value : col->xax / 2 - col->ux;
    const double base = direct ? -mem->gamma_logdet / 2 : c; /* base + fit = c + 1/2 mu'A mu - b'mu */
    double trace = 0;
    double linear = 0;
    double logdet = 0;
    double square = 0;
    pu_int k;
    for (k = 1; k <= job->K; k++) {
        trace += col[k].xax / K;
        linear += col[k].ux / K;
        logdet += col[k].logdet / K;
        sums->gap += col[k].gap / (2 * K * N);
    }
    for (k = 1; k <= job->K; k++) square += (col[k].logdet - logdet) * (col[k].logdet - logdet);
    if (!direct) {
        sums->traces += linear / sampled;
        if (job->K > 1) sums->variance += square / (K - 1) / K / 4 / (N * N);
        for (k = 0; k <= job->K; k++) {
            const double weight = k ? 1 / K : 1;
            if (col[k].energy < 0 && col[k].record.rhs > 0) sums->known = 0; /* no step was taken */
            if (!(col[k].high > 0)) continue;                                /* u = 0 */
            sums->energy += weight * col[k].energy;
            sums->size += weight * col[k].xax;
            report->ritz_max = pu__max(report->ritz_max, col[k].high);
            if (!(report->ritz_min > 0 && report->ritz_min < col[k].low)) report->ritz_min = col[k].low;
        }
    }
    if (direct && job->exact) { /* tr(A Sigma) */
        trace = (double)job->D;
        linear = 0;
    }
    if (direct) logdet = mem->logdet[n];
    report->c += c / N;
    report->q += (base + fit + trace / 2) / N;
    report->network += (base + fit + trace / 2 - linear) / N;
    report->nll += (base + logdet / 2 + fit + (double)mem->observed[n] * log_2pi / 2) / N;
}

/* Means over the data, in order: c, q, the network objective, the likelihood and its error. */
PU__FN pu_status pu__finish_values(const pu__job *job, const pu__memory *mem, double shared_c, pu_report *report)
{
    const double sampled = (double)job->served[PU_ITERATIVE]; /* data whose log det is an estimate */
    const double D = (double)job->D;
    pu__value_sums sums;
    pu_int n;
    int settled, traced;
    memset(&sums, 0, sizeof sums);
    sums.known = job->want_nll;
    report->has_nll = report->has_objective && (!job->served[PU_ITERATIVE] || job->want_nll);
    for (n = 0; n < job->N; n++) pu__datum_values(job, mem, shared_c, n, &sums, report);
    report->nll_se = sampled > 0 && job->K < 2 ? -1 : sqrt(sums.variance);
    report->nll_95 = report->nll_se;
    if (report->nll_se > 0) report->nll_95 *= pu__student((pu_int)sampled * (job->K - 1));
    report->nll_gap = sums.gap;
    if (!(sampled > 0)) report->solver_error = 0;
    else if (sums.known && sums.size > 0) {
        report->solver_error = sqrt(sums.energy / sums.size);
        if (job->kind == PU_NETWORK) report->solver_error = (double)job->plan.I * sums.energy / sums.size;
    }
    /* the probes also know tr(A Sigma) = D: solves cut short fall below it by more than chance */
    settled = sums.gap <= pu__max(0.1 * report->nll_se, 100 * (double)PU__EPS * fabs(report->nll));
    traced = D - sums.traces <= 3 * sqrt(2 * D / (sampled * (double)job->K));
    report->nll_converged = !(sampled > 0) || (settled && traced);
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
PU__FN pu_int pu__group_size(pu_int K, pu_int G, pu_int g) { return ((g + 1) * K + G - 1) / G - (g * K + G - 1) / G; }

/* Standard errors over the groups of probes. With m_g the mean of group g of K_g probes and m that of all,
   sum_g K_g (m_g - m)^2 / (G - 1) is the variance of one probe, and 1/K of it that of m. A group's accumulator holds
   K_g m_g / K; it becomes the replicate g - m + m_g. */
PU__FN void pu__standard_errors(const pu__job *job, pu__memory *mem, pu_report *report)
{
    const pu__slots *s = &job->slots;
    const pu_int G = s->groups;
    const pu_int n = s->eta;
    const pu_int wanted = job->out->psi ? n : s->psi;
    const pu_real *grad = mem->lanes;
    pu_real *group = mem->lanes + s->group;
    double errors = 0;
    double size = 0;
    pu_int i, g;
    for (i = 0; i < wanted; i++) {
        double all = 0;
        double variance = 0;
        for (g = 0; g < G; g++) all += (double)group[g * n + i];
        for (g = 0; g < G; g++) {
            const double share = (double)pu__group_size(job->K, G, g) / (double)job->K;
            const double off = (double)group[g * n + i] / share - all;
            variance += share * off * off / (double)(G - 1);
            group[g * n + i] = (pu_real)((double)grad[i] + off);
        }
        mem->se[i] = (pu_real)sqrt(variance);
        errors += variance;
        size += (double)grad[i] * (double)grad[i];
    }
    report->se_95 = pu__student(G - 1);
    report->statistical_error = size > 0 ? sqrt(errors / size) : 0;
}

/* to = from, n numbers, where both are there; from NULL: zeros. */
PU__FN void pu__write(pu_real *to, const pu_real *from, pu_int n)
{
    if (!to || n <= 0) return;
    if (from) pu__copy(to, from, n);
    else pu__zeros(to, n);
}

/* Standard errors and replicates to the caller's arrays: zero where the gradient was not asked for. */
PU__FN void pu__write_errors(const pu__job *job, const pu__memory *mem)
{
    const pu_results *out = job->out;
    const pu__slots *s = &job->slots;
    const pu_int Gamma = job->r.Gamma.params;
    const pu_int Phi = job->r.Phi.params;
    const pu_int M = job->M;
    const pu_real *se = s->groups ? mem->se : NULL;
    pu_int g;
    pu__write(out->se_Gamma, out->Gamma ? se : NULL, Gamma);
    pu__write(out->se_Phi, se && out->Phi ? se + s->Phi : NULL, Phi);
    pu__write(out->se_psi, se && out->psi ? se + s->psi : NULL, M);
    if (!out->replicates) return;
    for (g = 0; g < s->groups; g++) {
        const pu_real *from = mem->lanes + s->group + g * s->eta;
        pu_real *to = out->replicates + g * (Gamma + Phi + M);
        pu__write(to, out->Gamma ? from : NULL, Gamma);
        pu__write(to + Gamma, out->Phi ? from + s->Phi : NULL, Phi);
        pu__write(to + Gamma + Phi, out->psi ? from + s->psi : NULL, M);
    }
}

/* The only place where pu_gradient writes to the caller's arrays. */
PU__FN void pu__write_results(const pu__job *job, const pu__memory *mem)
{
    const pu_results *out = job->out;
    const pu__slots *s = &job->slots;
    const pu_int all = job->N * (job->K + 1);
    const pu_real *g = mem->lanes;
    pu_int n, k, j;
    pu__write_errors(job, mem);
    if (!job->lend) {
        pu__write(out->nu, mem->gamma_nu, job->D);
        pu__write(out->Gamma, g, s->Phi);
        pu__write(out->Phi, mem->phi_grad, s->psi - s->Phi);
        pu__write(out->psi, g + s->psi, job->M);
        pu__write(out->eta, g + s->eta, job->M);
        pu__write(out->m, g + s->m, job->D);
    }
    pu__write(out->x, mem->stage.x, all * job->D);
    pu__write(out->residual, mem->stage.residual, all * job->D);
    pu__write(out->alpha, mem->stage.alpha, all * job->plan.I);
    pu__write(out->beta, mem->stage.beta, all * job->plan.I);
    if (out->logdet && job->want_nll)
        for (n = 0; n < job->N; n++)
            for (k = 0; k < job->K; k++) out->logdet[n * job->K + k] = (pu_real)mem->columns[n * (job->K + 1) + k + 1].logdet;
    if (out->columns)
        for (j = 0; j < all; j++) out->columns[j] = mem->columns[j].record;
}

/* Runs all lanes, on as many threads as there are workers. Returns the worst outcome, recorded. */
PU__FN pu_status pu__run_lanes(const pu__job *job, pu__memory *mem, pu_report *report)
{
    pu_status outcome = PU_OK;
    int l;
    if (job->ragged) pu__share_out(job, mem);
    if (job->far) {
        pu__far_lane(job, mem);
    } else {
        for (l = 0; l < job->threads; l++) *mem->workers[l].post.ones = 1;
#ifdef PU__OPENMP
#pragma omp parallel for schedule(dynamic, 1) num_threads(job->threads) if (job->threads > 1)
        for (l = 0; l < job->lanes; l++) pu__lane(job, mem, mem->workers + omp_get_thread_num(), l);
#else
        for (l = 0; l < job->lanes; l++) pu__lane(job, mem, mem->workers, l);
#endif
    }
    for (l = 0; l < job->lanes; l++) {
        const pu_report *part = mem->lane_report + l;
        report->products += part->products;
        if (!pu__is_worse(part->status, outcome)) continue;
        outcome = part->status;
        report->status = outcome;
        report->where = part->where;
    }
    return outcome;
}

/* A job from shared terms to results. */
PU__FN pu_status pu__job_run(const pu__job *job, pu__memory *mem, pu_report *report)
{
    const pu_int cols = job->K + 1;
    double shared_c;
    pu_status outcome;
    pu_status status = pu__shared_terms(job, mem, &shared_c, report);
    pu_int i;
    if (status) return status;
    outcome = pu__run_lanes(job, mem, report);
    if (pu__fatal(outcome)) return outcome;
    for (i = 0; i < job->N * cols; i++)
        pu__report_column(report, &mem->columns[i].record, i / cols, i % cols, job->plan.adjoint == PU_ADJOINT_AUTO);
    status = pu__finish_values(job, mem, shared_c, report);
    if (!status && job->any_grad) status = pu__finish_gradient(job, mem, report);
    if (status) return status;
    if (job->slots.groups && job->any_grad) pu__standard_errors(job, mem, report);
    if (!job->dry) pu__write_results(job, mem);
    return outcome;
}

/* The gradients that are wanted, where they are in the workspace. */
PU__FN void pu__lend(const pu__job *job, const pu__memory *mem, pu_results *g)
{
    const pu__slots *s = &job->slots;
    if (g->nu) g->nu = mem->gamma_nu;
    if (g->Gamma) g->Gamma = mem->lanes;
    if (job->out->Phi) g->Phi = mem->phi_grad;
    if (g->psi) g->psi = mem->lanes + s->psi;
    if (g->eta) g->eta = mem->lanes + s->eta;
    if (g->m) g->m = mem->lanes + s->m;
}

/* A made job: memory, and the run. */
PU__FN pu_status pu__task_run(pu__call *call, pu__task *task)
{
    pu_status status = pu__measure(call, pu__task_layout, task, NULL);
    if (!status) status = pu__allocate(call, pu__task_layout, task);
    return status ? status : pu__job_run(&task->job, &task->mem, call->report);
}

/* ------------------------------------------------------------------------------------------------
   >>gradient   choosing K and I; pu_gradient, pu_nll, pu_exact
   ------------------------------------------------------------------------------------------------ */

/* The pilot of PU_AUTO, and the limits of K and I without a word from the caller. */
#define PU__PILOT_PROBES 8
#define PU__PILOT_STEPS 20
#define PU__PILOT_DATA 4
#define PU__MOST 100

/* Is K or I to be found? */
PU__FN int pu__to_tune(const pu_options *o)
{
    return o && o->kind != PU_EXACT && (o->samples == PU_AUTO || o->solve.iterations == PU_AUTO);
}

/* The options with K and I at their limits. Monte Carlo means converged: there I has none. */
PU__FN pu_options pu__at_limits(const pu_options *options)
{
    pu_options o = *options;
    const pu_int most = o.most_iterations > 0 ? o.most_iterations : PU__MOST;
    if (o.samples == PU_AUTO) o.samples = o.most_samples > 0 ? o.most_samples : PU__MOST;
    if (o.solve.iterations == PU_AUTO) o.solve.iterations = o.kind == PU_MONTE_CARLO ? 0 : most;
    return o;
}

/* What tuning needs of the options. */
PU__FN pu_status pu__check_tuning(const pu_options *o, const pu_results *out, pu_report *report)
{
    if (!(o->error >= 0 && o->error < 1)) return pu__refuse(report, PU_E_ARGUMENT, "options.error");
    if (o->most_samples < 0 || o->most_samples == 1) return pu__refuse(report, PU_E_ARGUMENT, "options.most_samples");
    if (o->most_iterations < 0) return pu__refuse(report, PU_E_ARGUMENT, "options.most_iterations");
    if (!out || (!out->Gamma && !out->Phi && !out->psi))
        return pu__refuse(report, PU_E_ARGUMENT, "results (PU_AUTO needs a gradient to tune for)");
    if (!pu__has_momentum(o->solve.solver))
        return pu__refuse(report, PU_E_UNSUPPORTED, "options.solve.solver (PU_AUTO needs CG or PCG)");
    if (o->x0) return pu__refuse(report, PU_E_UNSUPPORTED, "options.x0 (PU_AUTO)");
    if (o->delta && o->samples == PU_AUTO)
        return pu__refuse(report, PU_E_UNSUPPORTED, "options.delta (samples = PU_AUTO)");
    return PU_OK;
}

/* A pilot: its job, and what that borrows. */
typedef struct {
    pu__task task;
    pu_options o;
    pu_data few;
    pu_results wanted;
    double eps[PU__PILOT_STEPS + 1]; /* the solver's error after so many steps */
} pu__pilot;

/* The job of the pilot: few data, probes and steps, standard errors, nothing written. */
PU__FN pu_status pu__pilot_make(pu__pilot *p, const pu_lgm *model, const pu_data *data, const pu_options *options,
                                const pu_results *out, pu_report *report)
{
    pu_real *some = out->Gamma;
    pu_status status;
    memset(p, 0, sizeof *p);
    p->few = *data;
    p->few.n = pu__min(data->n, PU__PILOT_DATA);
    p->o = pu__at_limits(options);
    p->o.kind = PU_OUTPUT;
    p->o.engine = PU_ITERATIVE;
    p->o.solve.tolerance = 0;
    p->o.solve.absolute2 = 0;
    p->o.groups = 0;
    p->o.delta = NULL;
    p->o.samples = PU__PILOT_PROBES;
    p->o.solve.iterations = PU__PILOT_STEPS; /* whatever the limit: fewer would not show what a converged gradient is like */
    p->wanted.Gamma = out->Gamma;
    p->wanted.Phi = out->Phi;
    p->wanted.psi = out->psi;
    /* any address asks for standard errors and the coefficients of the solver */
    if (!some) some = out->Phi;
    if (!some) some = out->psi;
    p->wanted.se_psi = some;
    p->wanted.alpha = some;
    p->wanted.beta = some;
    status = pu__job_make(&p->task, model, &p->few, &p->o, &p->wanted, 1, report);
    p->task.job.dry = 1;
    return status;
}

/* The most memory that a job like this can take: with fewer columns there may be more lanes, threads and blocks, on a device
   more data side by side. */
PU__FN void pu__widest(pu__job *job)
{
    const pu_int cols = job->K + 1;
    const pu_int asked = job->o->columns;
    const pu_int block = pu__min(asked ? asked : pu__columns_default(job->D, cols, pu__columns_least(job)), cols);
    if (job->far) {
        job->batch = job->batch_most;
        job->kmax = (asked ? pu__min(asked, cols) : cols) * job->batch;
        return;
    }
    job->lanes = job->o->lanes ? job->o->lanes : 4;
    job->threads = pu__threads(job->o->threads, 1e30);
    if (job->threads > job->lanes) job->threads = job->lanes;
    job->kmax = pu__most(job->kmax, block);
}

/* *most = the larger of it and of the bytes that a job with these options takes at its widest. */
PU__FN pu_status pu__bytes_of(pu__call *call, pu__task *task, const pu_lgm *model, const pu_data *data, const pu_options *o,
                              const pu_results *out, size_t *most)
{
    size_t bytes = 0;
    pu_status status;
    call->report->plan[0] = 0;
    status = pu__job_make(task, model, data, o, out, 1, call->report);
    if (status) return status;
    pu__widest(&task->job);
    status = pu__measure(call, pu__task_layout, task, &bytes);
    if (bytes > *most) *most = bytes;
    return status;
}

/* Bytes of a gradient whose K and I are not known yet: the pilot, and all that may come after it. With PU_ENGINE_AUTO that is
   exact engines for the data that want them at the limits, and the solver for the rest. */
PU__FN pu_status pu__tuned_bytes(pu__call *call, const pu_lgm *model, const pu_data *data, const pu_options *options,
                                 const pu_results *out, size_t *bytes)
{
    pu_options most = pu__at_limits(options);
    pu__pilot pilot;
    pu_status status = pu__check_tuning(options, out, call->report);
    if (!status) status = pu__check_model(model, call->report);
    if (!status) status = pu__check_data_shape(data, model->Phi->rows, call->report);
    if (!status) status = pu__pilot_make(&pilot, model, data, options, out, call->report);
    if (!status) status = pu__measure(call, pu__task_layout, &pilot.task, bytes);
    if (!status && most.engine == PU_ENGINE_AUTO)
        status = pu__bytes_of(call, &pilot.task, model, data, &most, out, bytes);
    most.engine = most.engine == PU_ENGINE_AUTO ? PU_ITERATIVE : most.engine;
    if (!status) status = pu__bytes_of(call, &pilot.task, model, data, &most, out, bytes);
    if (!status) call->report->bytes = *bytes;
    return status;
}

PU_DEF pu_status pu_gradient_bytes(const pu_lgm *model, const pu_data *data, const pu_options *options, const pu_results *out,
                                   size_t *bytes, pu_report *report)
{
    pu__call call;
    pu__task task;
    pu_status status;
    report = pu__begin(&call, NULL, report);
    if (!bytes) return pu__refuse(report, PU_E_NULL, "bytes");
    if (pu__to_tune(options)) return pu__tuned_bytes(&call, model, data, options, out, bytes);
    memset(&task, 0, sizeof task);
    status = pu__job_make(&task, model, data, options, out, 1, report);
    return status ? status : pu__measure(&call, pu__task_layout, &task, bytes);
}

/* ---- choosing K and I ---- */

/* eps(i), the solver's error after i steps, from the coefficients of the pilot's columns. CG from zero takes alpha_l rho_l off
   |x - A^-1 u|_A^2 in step l, in all x'A x; rho_{l+1} = beta_l rho_l. */
PU__FN void pu__pilot_errors(pu__pilot *p)
{
    const pu__job *job = &p->task.job;
    const pu__memory *mem = &p->task.mem;
    const pu_int I = PU__PILOT_STEPS;
    double size = 0;
    pu_int i, n;
    for (n = 0; n < job->N * (job->K + 1); n++) {
        const pu_real *alpha = mem->stage.alpha + n * I;
        const pu_real *beta = mem->stage.beta + n * I;
        const double xax = mem->columns[n].xax;
        const double weight = n % (job->K + 1) ? 1 / (double)job->K : 1;
        const double energy = pu__max(mem->columns[n].energy, 0);
        double rho = 1;
        double sum = 0;
        double taken = 0; /* off by the steps so far */
        for (i = 0; i < I; i++) {
            sum += (double)alpha[i] * rho;
            rho *= (double)beta[i];
        }
        rho = sum > 0 ? xax / sum : 0;
        for (i = 0; i <= I; i++) {
            p->eps[i] += weight * (pu__max(xax - taken, 0) + energy);
            if (i == I) break;
            taken += (double)alpha[i] * rho;
            rho *= (double)beta[i];
        }
        size += weight * xax;
    }
    for (i = 0; i <= I; i++) {
        const double eps = size > 0 ? sqrt(p->eps[i] / size) : 0;
        p->eps[i] = pu__max(eps, (double)PU__EPS);
    }
}

/* The solver's error after I steps: measured by the pilot; after its last step it is taken to fall by rho = (sqrt c - 1) /
   (sqrt c + 1) per step, c the ratio of the extreme Ritz values. The network gradient errs by I eps^2; at few steps that
   estimate is up to 3 times low. */
PU__FN double pu__solver_error(const pu__pilot *p, pu_kind kind, pu_int I, double rho)
{
    const pu_int last = PU__PILOT_STEPS;
    const double eps = I <= last ? p->eps[I] : p->eps[last] * pow(rho, (double)(I - last));
    return kind == PU_NETWORK ? 3 * (double)I * eps * eps : eps;
}

/* " (words: x %, wanted y %)", and whether that is at its limit. */
PU__FN void pu__put_choice(pu__text *t, const char *name, pu_int value, const char *words, double got, double wanted, int limit)
{
    pu__put_number(t, name, value);
    pu__put_percent(t, words, got);
    pu__put_percent(t, ", wanted ", wanted);
    pu__put(t, limit ? "; at its limit); " : "); ");
}

/* K and I from a pilot that has run. Statistical error falls as 1/sqrt(N K); the solver's may be half of what K leaves, but
   nothing is gained by one far better than what was asked for. */
PU__FN void pu__choose(const pu__pilot *p, const pu_options *options, pu_int N, pu_options *tuned, pu_report *report)
{
    const pu_options top = *tuned;
    const double wanted = options->error > 0 ? options->error : 0.1;
    const double seen = (double)p->few.n;
    /* the error of one probe per datum */
    const double one = report->statistical_error * sqrt((double)PU__PILOT_PROBES * seen / (double)N);
    const double c = sqrt(report->ritz_max / report->ritz_min);
    const double rho = (c - 1) / (c + 1);
    double left, error;
    pu__text t;
    report->plan[0] = 0; /* kept in front of the plan of the run itself */
    t = pu__text_after(report->plan, sizeof report->plan);
    if (options->samples == PU_AUTO) {
        const double k = ceil(one * one / (wanted * wanted));
        tuned->samples = (pu_int)pu__max(2, k < (double)top.samples ? k : (double)top.samples);
        pu__put_choice(&t, "K = ", tuned->samples, " (one probe per datum errs by ", one, wanted, tuned->samples == top.samples);
    }
    left = one / sqrt((double)(tuned->samples ? tuned->samples : 10)) / 2; /* 0 means the default, 10 */
    left = pu__max(left, wanted / 20);
    if (options->solve.iterations == PU_AUTO && options->kind != PU_MONTE_CARLO) {
        pu_int I = 1;
        error = pu__solver_error(p, options->kind, I, rho);
        while (!(error <= left) && I < top.solve.iterations) {
            I++;
            error = pu__solver_error(p, options->kind, I, rho);
        }
        tuned->solve.iterations = I;
        pu__put_choice(&t, "I = ", I, " (leaves a solver error of ", error, left, !(error <= left));
    }
}

/* Would the iterative engine serve anyone, if it had to do next to nothing? Then *least is what it would do. */
PU__FN pu_status pu__anyone_iterative(pu__task *task, const pu_lgm *model, const pu_data *data, const pu_results *out,
                                      pu_options *least, int *anyone, pu_report *report)
{
    const pu_status status = pu__job_make(task, model, data, least, out, 0, report);
    report->plan[0] = 0;
    *anyone = task->job.served[PU_ITERATIVE] > 0;
    return status;
}

/* pu_tune after its checks. */
PU__FN pu_status pu__tune(pu__call *call, const pu_lgm *model, const pu_data *data, const pu_options *options,
                          const pu_results *out, pu_options *tuned)
{
    pu_report *report = call->report;
    const int pick_K = options->samples == PU_AUTO;
    const int pick_I = options->solve.iterations == PU_AUTO && options->kind != PU_MONTE_CARLO;
    pu__pilot pilot;
    int anyone = 1;
    pu_status status = pu__check_tuning(options, out, report);
    if (status) return status;
    *tuned = pu__at_limits(options);
    if (!pick_K && !pick_I) return PU_OK;
    if (options->engine == PU_ENGINE_AUTO) {
        pu_options least = *tuned;
        if (pick_K) least.samples = 2;
        if (pick_I) least.solve.iterations = 4;
        memset(&pilot.task, 0, sizeof pilot.task);
        status = pu__anyone_iterative(&pilot.task, model, data, out, &least, &anyone, report);
        if (!anyone) *tuned = least;
        if (status || !anyone) return status;
    }
    status = pu__pilot_make(&pilot, model, data, options, out, report);
    if (!status) status = pu__job_check(&pilot.task.job, report);
    if (!status) status = pu__task_run(call, &pilot.task);
    if (pu__fatal(status)) return status;
    pu__pilot_errors(&pilot);
    pu__choose(&pilot, options, data->n, tuned, report);
    return PU_OK;
}

PU_DEF pu_status pu_tune(const pu_lgm *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                         const pu_results *out, pu_options *tuned, pu_report *report)
{
    pu__call call;
    pu_options result;
    pu_status status;
    report = pu__begin(&call, ws, report);
    if (!options || !tuned) return pu__refuse(report, PU_E_NULL, options ? "tuned" : "options");
    status = pu__check_model(model, report);
    if (!status) status = pu__check_data(data, model->Phi->rows, report);
    if (!status) status = pu__check_numbers(model, report);
    if (status) return status;
    if (!pu__to_tune(options)) {
        *tuned = *options;
        return PU_OK;
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

/* Finds K and I where they are asked for: *tuned, and *options points at it then. How they were found stays in the report's
   plan, all else of which is cleared. */
PU__FN pu_status pu__tune_first(pu__call *call, const pu_lgm *model, const pu_data *data, const pu_options **options,
                                const pu_results *out, pu_options *tuned)
{
    pu_report *report = call->report;
    char words[sizeof report->plan];
    pu_status status;
    if (!pu__to_tune(*options)) return PU_OK;
    status = pu_tune(model, data, *options, call->ws, out, tuned, report);
    if (status) return status;
    memcpy(words, report->plan, sizeof words);
    pu__report_clear(report);
    memcpy(report->plan, words, sizeof words);
    *options = tuned;
    return PU_OK;
}

/* pu_gradient for a given K and I. With lent (a copy of *out) gradients are not written but left in ws, which must not be
   NULL then; lent says where. */
PU__FN pu_status pu__gradient(const pu_lgm *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                              const pu_results *out, pu_results *lent, int want_nll, pu_report *report)
{
    pu__call call;
    pu__task task;
    pu_status status;
    memset(&task, 0, sizeof task);
    report = pu__begin(&call, ws, report);
    status = pu__job_make(&task, model, data, options, out, want_nll, report);
    if (!status) status = pu__job_check(&task.job, report);
    task.job.lend = lent != NULL;
    if (!status) status = pu__measure(&call, pu__task_layout, &task, NULL);
    if (!status) status = pu__allocate(&call, pu__task_layout, &task);
    if (status) return status;
    if (task.job.by_rows && lent && lent->Phi) task.mem.phi_grad = lent->Phi;
    status = pu__job_run(&task.job, &task.mem, report);
    if (lent && !pu__fatal(status)) pu__lend(&task.job, &task.mem, lent);
    return status;
}

PU_DEF pu_status pu_gradient(const pu_lgm *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                             const pu_results *out, pu_report *report)
{
    const int want_nll = report != NULL; /* otherwise there is nobody to tell it to */
    pu__call call;
    pu__task task;
    pu_options tuned;
    pu_status status;
    report = pu__begin(&call, ws, report);
    if (pu__to_tune(options) && out &&
        (out->x || out->residual || out->logdet || out->columns || out->alpha || out->beta || out->replicates))
        return pu__refuse(report, PU_E_ARGUMENT, "results (PU_AUTO: arrays whose size depends on K or I; pu_tune first)");
    memset(&task, 0, sizeof task);
    status = pu__tune_first(&call, model, data, &options, out, &tuned);
    if (!status) status = pu__job_make(&task, model, data, options, out, want_nll, report);
    if (!status) status = pu__job_check(&task.job, report);
    if (!status) status = pu__task_run(&call, &task);
    return pu__finish(&call, status);
}

PU_DEF pu_status pu_nll(const pu_lgm *model, const pu_data *data, const pu_options *options, pu_workspace *ws, double *nll,
                        double *se, pu_report *report)
{
    pu__call call;
    pu_options o;
    pu_status status;
    report = pu__begin(&call, ws, report);
    memset(&o, 0, sizeof o);
    if (options) o = *options;
    if (o.engine != PU_ITERATIVE && o.engine != PU_ENGINE_AUTO) o.kind = PU_EXACT;
    if (!nll) return pu__refuse(report, PU_E_NULL, "nll");
    if (model && model->Gamma && !model->Gamma->logdet) return pu__refuse(report, PU_E_UNSUPPORTED, "Gamma.logdet");
    if (o.kind != PU_EXACT && (o.solve.solver == PU_SD || o.solve.solver == PU_GD)) /* no Lanczos coefficients */
        return pu__refuse(report, PU_E_UNSUPPORTED, "options.solve.solver (CG or PCG gives the log det)");
    if (o.kind != PU_EXACT && o.x0)
        return pu__refuse(report, PU_E_ARGUMENT, "options.x0 (a warm start gives no log det)");
    status = pu_gradient(model, data, &o, ws, NULL, report);
    if (pu__fatal(status)) return status;
    *nll = report->nll;
    if (se) *se = report->nll_se;
    return status;
}

/* ---- one datum, densely ---- */

/* The job of pu_exact: one datum by the dense engine, its mean kept. */
typedef struct {
    pu__task task;
    pu_options o;
    pu_data one;
    pu_results wanted;
    pu_int place; /* of the datum in the arrays */
    pu_real some;
} pu__exact;

/* Makes that job. data NULL: to ask for its size, with a datum that has nothing observed. */
PU__FN pu_status pu__exact_make(pu__exact *w, const pu_lgm *model, const pu_data *data, pu_int datum, pu_report *report)
{
    static const pu_int none[2] = {0, 0};
    pu_status status;
    memset(w, 0, sizeof *w);
    w->o.kind = PU_EXACT;
    w->o.engine = PU_DENSE;
    w->o.lanes = 1;
    w->wanted.x = &w->some;
    if (data) {
        w->one = *data;
        w->place = pu__datum(data, datum);
        w->one.pick = &w->place;
    } else {
        w->one = pu_data_lists(1, model->Phi->rows, none, none, &w->some);
    }
    w->one.n = 1;
    w->task.reals = model->Gamma->rows * model->Gamma->rows;
    status = pu__job_make(&w->task, model, &w->one, &w->o, &w->wanted, 1, report);
    w->task.job.dry = 1;
    return status;
}

PU_DEF pu_status pu_exact_bytes(const pu_lgm *model, size_t *bytes, pu_report *report)
{
    pu__call call;
    pu__exact w;
    pu_status status;
    report = pu__begin(&call, NULL, report);
    if (!bytes) return pu__refuse(report, PU_E_NULL, "bytes");
    status = pu__check_model(model, report);
    if (!status) status = pu__exact_make(&w, model, NULL, 0, report);
    return status ? status : pu__measure(&call, pu__task_layout, &w.task, bytes);
}

/* Sigma = L'^-1 L^-1 from the factor of the dense engine. Rows before j of these columns of L^-1 are zero. */
PU__FN void pu__exact_sigma(pu_int D, const pu_real *L, pu_real *Sigma, pu_real *panel)
{
    pu_int j;
    pu__zeros(Sigma, D * D);
    for (j = 0; j < D; j++) Sigma[j * D + j] = 1;
    for (j = 0; j < D; j += PU__SIDES)
        pu__triangle(D - j, L + j * (D + 1), D, 0, pu__min(PU__SIDES, D - j), pu__rows(Sigma + j * (D + 1), D), 0, panel);
    pu__triangle(D, L, D, 1, D, pu__rows(Sigma, D), 0, panel);
}

/* What pu_exact tells, from a job that has run. */
PU__FN pu_status pu__exact_results(pu__exact *w, pu_exact_result *result, pu_int datum, pu_report *report)
{
    pu__memory *mem = &w->task.mem;
    pu__worker *worker = mem->workers;
    const pu_int D = w->task.job.D;
    const double log_2pi = 1.8378770664093454836;
    result->observed = mem->observed[0];
    result->c = report->c;
    result->logdet = mem->logdet[0];
    result->nll = (result->logdet - mem->gamma_logdet) / 2 + mem->columns[0].value + (double)result->observed * log_2pi / 2;
    if (!pu__finite_double(result->nll)) return pu__fail(report, PU_NONFINITE, "nll", datum, -1);
    if (result->b) pu__copy(result->b, worker->run.u.at, D);
    if (result->A) {
        pu_real *A = w->task.own_reals;
        if (pu__posterior_dense(&worker->post, worker->run.x, worker->run.q, A))
            return pu__operator_failed(report, worker->post.failed, datum);
        pu__copy(result->A, A, D * D);
    }
    if (result->mu) pu__copy(result->mu, mem->stage.x, D);
    if (result->Sigma) pu__exact_sigma(D, worker->direct.L, result->Sigma, worker->post.panel);
    return PU_OK;
}

PU_DEF pu_status pu_exact(const pu_lgm *model, const pu_data *data, pu_int datum, pu_workspace *ws, pu_exact_result *result,
                          pu_report *report)
{
    pu__call call;
    pu__exact w;
    pu_exact_result copy;
    pu_status status;
    report = pu__begin(&call, ws, report);
    if (!result) return pu__refuse(report, PU_E_NULL, "result");
    status = pu__check_model(model, report);
    if (!status) status = pu__check_data(data, model->Phi->rows, report);
    if (status) return status;
    if (datum < 0 || datum >= data->n) return pu__refuse(report, PU_E_ARGUMENT, "datum");
    if (!model->Gamma->logdet) return pu__refuse(report, PU_E_UNSUPPORTED, "Gamma.logdet");
    status = pu__exact_make(&w, model, data, datum, report);
    if (!status) status = pu__job_check(&w.task.job, report);
    if (!status) status = pu__task_run(&call, &w.task);
    if (status && report->where.datum >= 0) report->where.datum = datum;
    copy = *result;
    if (!status) status = pu__exact_results(&w, &copy, datum, report);
    if (!status) *result = copy;
    return pu__finish(&call, status);
}

/* ------------------------------------------------------------------------------------------------
   >>predict   draws from the model; moments of z and y given the data
   ------------------------------------------------------------------------------------------------ */

#define PU__SIMULATE UINT32_C(0xffffffff) /* sample number, in the stream of the tests, which use 0; step 0: z, step 1: y */

typedef struct {
    pu__resolved r;
    pu_int n, kmax;        /* draws, draws at a time */
    uint64_t seed;
    pu_solve_options o;    /* of Gamma^-1 where it has no solve */
    pu_block eps, delta;   /* max(noise, M) x kmax, D x kmax */
    pu_block z, y;         /* D x n, M x n: staged */
    pu_real *work, *test;
    pu_workspace nested;   /* of pu_solve */
    size_t nested_bytes;
} pu__simulation;

/* Memory of a simulation. */
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
    if (!w->nested_bytes) return;
    w->nested.block = pu__take(arena, 1, 1, w->nested_bytes);
    w->nested.bytes = w->nested_bytes;
    w->nested.fixed = 1;
}

/* z = Gamma^-1 delta for k draws from `first` on: by Gamma's own solve, or by CG to just above rounding level. */
PU__FN pu_status pu__simulate_solve(pu__simulation *w, pu_int first, pu_int k, pu_block z, pu_report *report)
{
    const pu_op *Gamma = &w->r.Gamma;
    pu_solve_arrays arrays;
    pu_report part;
    pu_status status;
    if (Gamma->solve) {
        if (Gamma->solve(Gamma, k, w->delta, z, w->work)) return pu__operator_failed(report, "Gamma.solve", first);
        return PU_OK;
    }
    memset(&arrays, 0, sizeof arrays);
    arrays.k = k;
    arrays.U = w->delta.at;
    arrays.X = z.at;
    status = pu_solve(Gamma, &arrays, &w->o, NULL, &w->nested, &part);
    if (status == PU_E_OPERATOR) return pu__operator_failed(report, "Gamma.apply", first);
    if (status)
        (void)pu__fail(report, status, "Gamma^-1 (by CG: there is no Gamma.solve)",
                       part.where.column < 0 ? -1 : first + part.where.column, part.where.index);
    return status;
}

/* Draws first .. first+k-1 into w->z and w->y: z = nu + Gamma^-1 N(0, Gamma), y = Phi z + eta + noise. */
PU__FN pu_status pu__simulate_block(pu__simulation *w, pu_int first, pu_int k, pu_report *report)
{
    const pu_op *Gamma = &w->r.Gamma;
    const pu_op *Phi = &w->r.Phi;
    const pu_lgm *model = &w->r.model;
    const pu_block z = pu__from(w->z, first);
    const pu_block y = pu__from(w->y, first);
    pu_status status;
    pu_int j, i, bad;
    for (j = 0; j < k; j++)
        pu_normals(w->seed, (uint32_t)(first + j), PU__SIMULATE, 0, PU__STREAM_TEST, 0, pu__noise(Gamma), pu__col(w->eps, j));
    if (Gamma->sample(Gamma, k, w->eps, w->delta, w->work)) return pu__operator_failed(report, "Gamma.sample", first);
    status = pu__simulate_solve(w, first, k, z, report);
    if (pu__fatal(status)) return status;
    if (model->nu)
        for (j = 0; j < k; j++) pu__axpy(Gamma->rows, 1, model->nu, pu__col(z, j));
    if (Phi->apply(Phi, k, z, y, 0, w->work)) return pu__operator_failed(report, "Phi.apply", first);
    for (j = 0; j < k; j++) {
        pu_normals(w->seed, (uint32_t)(first + j), PU__SIMULATE, 1, PU__STREAM_TEST, 0, Phi->rows, w->eps.at);
        for (i = 0; i < Phi->rows; i++) pu__col(y, j)[i] += w->eps.at[i] / pu__sqrt(model->psi[i]);
        if (model->eta) pu__axpy(Phi->rows, 1, model->eta, pu__col(y, j));
        bad = pu__find_nonfinite(Gamma->rows, pu__col(z, j));
        if (bad >= 0) return pu__fail(report, PU_NONFINITE, "z", first + j, bad);
        bad = pu__find_nonfinite(Phi->rows, pu__col(y, j));
        if (bad >= 0) return pu__fail(report, PU_NONFINITE, "y", first + j, bad);
    }
    return status;
}

/* All draws, a block at a time. */
PU__FN pu_status pu__simulate_run(pu__simulation *w, pu_report *report)
{
    pu_status outcome = pu__test_operators(&w->r, w->test, w->work, report);
    pu_int first, k;
    for (first = 0; first < w->n && !pu__fatal(outcome); first += k) {
        pu_status status;
        k = pu__min(w->kmax, w->n - first);
        status = pu__simulate_block(w, first, k, report);
        if (status) outcome = status;
    }
    return outcome;
}

PU_DEF pu_status pu_simulate(const pu_lgm *model, pu_int n, uint64_t seed, pu_workspace *ws, pu_real *z, pu_real *y,
                             pu_report *report)
{
    pu__call call;
    pu__simulation w;
    pu_status status;
    report = pu__begin(&call, ws, report);
    memset(&w, 0, sizeof w);
    status = pu__resolve_model(&w.r, model, report);
    if (status) return status;
    if (n < 1) return pu__refuse(report, PU_E_ARGUMENT, "n");
    if (n > UINT32_MAX) return pu__refuse(report, PU_E_OVERFLOW, "n");
    if (!z && !y) return pu__refuse(report, PU_E_NULL, "z and y");
    if (!w.r.Gamma.sample) return pu__refuse(report, PU_E_UNSUPPORTED, "Gamma.sample");
    status = pu__check_numbers(&w.r.model, report);
    if (status) return status;
    w.n = n;
    w.seed = seed;
    w.kmax = pu__columns_default(w.r.Gamma.rows, n, 4);
    w.o.solver = w.r.Gamma.diag ? PU_PCG : PU_CG;
    w.o.tolerance = 4 * sqrt((double)PU__FLOOR2); /* a little above rounding */
    if (!w.r.Gamma.solve) status = pu_solve_bytes(&w.r.Gamma, w.kmax, &w.o, 0, &w.nested_bytes, report);
    if (!status) status = pu__measure(&call, pu__simulate_layout, &w, NULL);
    if (!status) status = pu__allocate(&call, pu__simulate_layout, &w);
    if (!status) status = pu__simulate_run(&w, report);
    if (!pu__fatal(status)) {
        if (z) pu__copy(z, w.z.at, n * w.z.ld);
        if (y) pu__copy(y, w.y.at, n * w.y.ld);
    }
    return pu__finish(&call, status);
}

/* What pu_posterior and pu_predict share: a job without gradients whose x stays in the workspace, and the diagonals of Sigma
   or Phi Sigma Phi', which the direct engines deliver on the way and the iterative one through its probes. */
typedef struct {
    pu__task task;
    pu_options o;
    pu_results wanted;
    int latent;    /* moments of z, else of y */
    int variance;  /* wanted */
    pu_real *mean; /* N x M: of y */
    pu_real some;
} pu__moments;

/* Datum n's variances from its probes; for z with the conditional variance 1/A_jj taken out of what chance decides. */
PU__FN pu_status pu__moments_sampled(const pu__job *job, pu__memory *mem, pu_int n, pu_report *report)
{
    pu__worker *w = mem->workers;
    pu__run *g = &w->run;
    const pu_int D = job->D;
    const pu_int K = job->K;
    const pu_real *sigma = mem->stage.x + n * (K + 1) * D;
    const int known = mem->variance && pu__has_diag(&job->r.model);
    pu_real *variance = mem->variance ? mem->variance + n * D : NULL;
    pu_real *fit = mem->fit ? mem->fit + n * job->M : NULL;
    pu_real *diagonal = w->bbar; /* free by now */
    pu_int first, k, j, i;
    pu_status status = known ? pu__load(job, mem, w, n, 1, report) : PU_OK;
    if (status) return status;
    pu__zeros(diagonal, D);
    if (known && pu__posterior_diag(&w->post, diagonal)) return pu__operator_failed(report, w->post.failed, n);
    for (first = 1; first <= K; first += k) {
        k = pu__min(job->kmax, K + 1 - first);
        pu__run_set(g, job->plan.solver, k);
        if (known) status = pu__rhs(job, mem, w, n, first, k, report); /* the probes once more */
        if (status) return status;
        for (j = 0; j < k; j++) {
            pu_real *x = pu__col(g->x, j);
            pu__copy(x, sigma + (first + j) * D, D);
            if (known)
                for (i = 0; i < D; i++) x[i] -= pu__col(g->u, j)[i] / diagonal[i];
            w->weight[j] = 1 / (pu_real)K;
        }
        if (pu__spread(&w->direct, k, variance, fit)) return pu__operator_failed(report, w->post.failed, n);
    }
    if (known)
        for (i = 0; i < D; i++) variance[i] += 1 / diagonal[i];
    return PU_OK;
}

/* The dual engine has Sigma - Gamma^-1: adds diag(Gamma^-1), or diag(Phi Gamma^-1 Phi'), to its data. A difference: rounding must
   not make it negative. */
PU__FN pu_status pu__moments_prior(const pu__job *job, pu__memory *mem, pu_report *report)
{
    pu__worker *w = mem->workers;
    const pu_op *Gamma = &job->r.Gamma;
    const pu_op *Phi = &job->r.Phi;
    const pu_block x = w->run.x;
    const pu_block q = w->run.q;
    const pu_block unit = mem->variance ? x : w->post.t0;
    const pu_int size = mem->variance ? job->D : job->M;
    pu_real *out = mem->variance ? mem->variance : mem->fit;
    pu_int first, k, j, n;
    for (first = 0; first < size; first += k) {
        k = pu__min(job->kmax, size - first);
        pu__clear(size, k, unit, 0);
        for (j = 0; j < k; j++) pu__col(unit, j)[first + j] = 1;
        if (!mem->variance && Phi->apply_t(Phi, k, unit, x, 0, w->post.work))
            return pu__operator_failed(report, "Phi.apply_t", -1);
        if (Gamma->solve(Gamma, k, x, q, w->post.work)) return pu__operator_failed(report, "Gamma.solve", -1);
        for (j = 0; j < k; j++) {
            const double prior = pu__dot(job->D, NULL, pu__col(x, j), pu__col(q, j));
            for (n = 0; n < job->N; n++) {
                pu_real *variance = out + n * size + first + j;
                if (mem->engine[n] == PU_DUAL) *variance = (pu_real)pu__max(prior + (double)*variance, 0);
            }
        }
    }
    return PU_OK;
}

/* Mean of y of datum n: Phi mu + eta. */
PU__FN pu_status pu__moments_mean(pu__moments *w, pu_int n, pu_report *report)
{
    const pu__job *job = &w->task.job;
    const pu__memory *mem = &w->task.mem;
    const pu_op *Phi = &job->r.Phi;
    const pu_block x = pu__rows(mem->stage.x + n * (job->K + 1) * job->D, job->D);
    const pu_block y = pu__rows(w->mean + n * job->M, job->M);
    pu_int bad;
    if (Phi->apply(Phi, 1, x, y, 0, mem->workers[0].post.work)) return pu__operator_failed(report, "Phi.apply", n);
    if (job->r.model.eta) pu__axpy(job->M, 1, job->r.model.eta, y.at);
    bad = pu__find_nonfinite(job->M, y.at);
    return bad >= 0 ? pu__fail(report, PU_NONFINITE, "mean", n, bad) : PU_OK;
}

/* The job of the moments, and what they need besides. */
PU__FN pu_status pu__moments_make(pu__moments *w, const pu_lgm *model, const pu_data *data, const pu_options *options,
                                  int samples, pu_report *report)
{
    pu_status status;
    if (options) w->o = *options;
    if (pu__is_far(w->o.backend)) return pu__refuse(report, PU_E_UNSUPPORTED, "options.backend (moments are the host's)");
    if (samples && w->o.kind == PU_EXACT)
        return pu__refuse(report, PU_E_ARGUMENT, "out.samples (PU_EXACT has none, PU_MONTE_CARLO with PU_DENSE has)");
    if (!w->variance && !samples && !w->o.delta && !w->o.x0 && w->o.samples > PU_NONE) w->o.samples = 1;
    w->wanted.x = &w->some;
    w->task.variance = w->latent && w->variance;
    w->task.fit = !w->latent && w->variance;
    status = pu__job_make(&w->task, model, data, &w->o, &w->wanted, 0, report);
    w->task.job.dry = 1; /* x is staged, and read from there */
    w->task.reals = w->task.job.N * w->task.job.M;
    return status ? status : pu__job_check(&w->task.job, report);
}

/* Checks, memory, and the run; what a caller still does is copy. */
PU__FN pu_status pu__moments_run(pu__moments *w, pu__call *call, const pu_lgm *model, const pu_data *data,
                                 const pu_options *options, int samples)
{
    const pu__job *job = &w->task.job;
    pu__memory *mem = &w->task.mem;
    pu_report *report = call->report;
    pu_real *spread;
    pu_status outcome;
    pu_status status = pu__moments_make(w, model, data, options, samples, report);
    pu_int n, each, bad;
    if (!status) status = pu__measure(call, pu__task_layout, &w->task, NULL);
    if (!status) status = pu__allocate(call, pu__task_layout, &w->task);
    if (status) return status;
    w->mean = w->task.own_reals;
    spread = w->latent ? mem->variance : mem->fit;
    each = w->latent ? job->D : job->M;
    if (w->variance) pu__zeros(spread, job->N * each);
    outcome = pu__job_run(job, mem, report);
    if (pu__fatal(outcome)) return outcome;
    if (w->variance && job->served[PU_DUAL]) status = pu__moments_prior(job, mem, report);
    for (n = 0; n < job->N && !status; n++) {
        if (w->variance && mem->engine[n] == PU_ITERATIVE) status = pu__moments_sampled(job, mem, n, report);
        if (!status && !w->latent) status = pu__moments_mean(w, n, report);
    }
    if (status) return status;
    bad = w->variance ? pu__find_nonfinite(job->N * each, spread) : -1;
    return bad >= 0 ? pu__fail(report, PU_NONFINITE, "variance", bad / each, bad % each) : outcome;
}

PU_DEF pu_status pu_posterior(const pu_lgm *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                              pu_posterior_result *out, pu_report *report)
{
    pu__call call;
    pu__moments w;
    const pu__job *job = &w.task.job;
    pu_status status;
    pu_int n, k, i;
    report = pu__begin(&call, ws, report);
    memset(&w, 0, sizeof w);
    if (!out) return pu__refuse(report, PU_E_NULL, "out");
    w.latent = 1;
    w.variance = out->variance != NULL;
    status = pu__moments_run(&w, &call, model, data, options, out->samples != NULL);
    if (pu__fatal(status)) return pu__finish(&call, status);
    for (n = 0; n < job->N; n++) {
        const pu_int D = job->D;
        const pu_int K = job->K;
        const pu_real *mu = w.task.mem.stage.x + n * (K + 1) * D;
        if (out->mean) pu__copy(out->mean + n * D, mu, D);
        if (out->variance) pu__copy(out->variance + n * D, w.task.mem.variance + n * D, D);
        if (out->samples)
            for (k = 0; k < K; k++)
                for (i = 0; i < D; i++) out->samples[(n * K + k) * D + i] = mu[i] + mu[(k + 1) * D + i];
    }
    out->exact = !job->served[PU_ITERATIVE];
    out->probes = job->K;
    return pu__finish(&call, status);
}

PU_DEF pu_status pu_predict(const pu_lgm *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                            pu_prediction *out, pu_report *report)
{
    pu__call call;
    pu__moments w;
    const pu__job *job = &w.task.job;
    pu_status status;
    pu_int n, i, row = 0;
    pu_real y = 0;
    report = pu__begin(&call, ws, report);
    memset(&w, 0, sizeof w);
    if (!out) return pu__refuse(report, PU_E_NULL, "out");
    w.variance = out->fit || out->variance;
    status = pu__moments_run(&w, &call, model, data, options, 0);
    if (pu__fatal(status)) return pu__finish(&call, status);
    for (n = 0; n < job->N; n++) {
        const pu_int M = job->M;
        const pu_real *fit = w.task.mem.fit ? w.task.mem.fit + n * M : NULL;
        pu_real *mean = w.mean + n * M;
        if (out->mean) pu__copy(out->mean + n * M, mean, M);
        if (out->fit) pu__copy(out->fit + n * M, fit, M);
        if (out->variance)
            for (i = 0; i < M; i++) out->variance[n * M + i] = fit[i] + 1 / model->psi[i];
        for (i = 0; (i = pu__observed(data, n, i, &row, &y)) >= 0; i++) mean[row] = y;
    }
    if (out->imputed) pu__copy(out->imputed, w.mean, job->N * job->M); /* the data are not read any more: it may be data.y */
    out->exact = !job->served[PU_ITERATIVE];
    out->probes = job->K;
    return pu__finish(&call, status);
}

/* ------------------------------------------------------------------------------------------------
   >>model   theta -> canonical form -> gradient -> theta
   ------------------------------------------------------------------------------------------------ */

/* lgm's operators live in the struct itself, whose address is final only after it was made */
PU__FN void pu__model_link(pu_model *model)
{
    if (model->Gamma.rows > 0) model->lgm.Gamma = &model->Gamma;
    if (model->Phi.rows > 0) model->lgm.Phi = &model->Phi;
}

/* What a function of the model reported: any status of its own that is a refusal, PU_E_OPERATOR for other nonsense. */
PU__FN pu_status pu__model_failed(pu_report *report, pu_status status, const char *what, pu_int index)
{
    return pu__fail(report, status < 0 ? status : PU_E_OPERATOR, what, -1, index);
}

PU_DEF pu_status pu_model_set(pu_model *model, const pu_real *theta, pu_report *report)
{
    pu_report local;
    pu_int index = -1;
    pu_status status;
    if (!report) report = &local;
    pu__report_clear(report);
    if (!model) return pu__refuse(report, PU_E_NULL, "model");
    if (!model->set) return pu__refuse(report, PU_E_NULL, "model.set");
    if (!theta) return pu__refuse(report, PU_E_NULL, "theta");
    if (model->params < 1) return pu__refuse(report, PU_E_ARGUMENT, "model.params");
    index = pu__find_nonfinite(model->params, theta);
    if (index >= 0) return pu__fail(report, PU_E_NONFINITE, "theta", -1, index);
    model->sets++;
    status = model->set(model, theta, &index);
    if (status) return pu__model_failed(report, status, "theta", index);
    pu__model_link(model);
    return PU_OK;
}

/* options with the model's own preconditioner */
PU__FN pu_options pu__model_options(const pu_model *model, const pu_options *options)
{
    pu_options o;
    memset(&o, 0, sizeof o);
    if (options) o = *options;
    if (o.solve.solver == PU_PCG && !o.solve.m && model->m) o.solve.m = model->m, o.solve.m_stride = PU_NONE;
    if (model->tied_psi) o.tied_psi = 1;
    return o;
}

typedef struct {
    pu_results want, g; /* canonical gradients, those the model uses: which, and where they are in the end */
    pu_real *grad; /* staged: nothing reaches the caller's arrays before the end */
    pu_real *t;    /* gradient of one group of probes */
    double *square;/* of its distance from grad, summed over groups */
    pu_real some;  /* an address */
    void *rest;    /* for pu_gradient */
    size_t bytes;
} pu__model_memory;

/* the canonical gradients that the model uses, all at the same address: to ask for sizes */
PU__FN pu_results pu__model_wants(const pu_model *model, const pu_options *o, pu_real *some)
{
    pu_results want;
    memset(&want, 0, sizeof want);
    if (model->uses & PU_USES_NU) want.nu = some;
    if (model->uses & PU_USES_GAMMA) want.Gamma = some;
    if (model->uses & PU_USES_PHI) want.Phi = some;
    if (model->uses & PU_USES_ETA) want.eta = some;
    if (model->uses & PU_USES_PSI) want.psi = some;
    if ((model->uses & PU_USES_M) && model->m && o->solve.m == model->m && o->kind == PU_NETWORK &&
        o->solve.solver == PU_PCG && !o->constant_m)
        want.m = some;
    return want;
}

/* Staged arrays and pu_gradient's block, where the canonical gradients stay. */
PU__FN pu_status pu__model_layout(pu__model_memory *w, pu__arena *arena, const pu_model *model, const pu_data *data,
                                  const pu_options *o, int se, pu_real *x, pu_report *report)
{
    const pu_lgm *lgm = &model->lgm;
    pu_status status = pu__check_model(lgm, report);
    if (status) return status;
    memset(w, 0, sizeof *w);
    w->want = pu__model_wants(model, o, &w->some); /* never NULL where wanted, also while measuring */
    w->grad = pu__reals(arena, model->params, 1);
    w->want.x = x;
    if (se) w->want.replicates = &w->some;
    status = pu_gradient_bytes(lgm, data, o, &w->want, &w->bytes, report);
    if (status) return status;
    w->rest = pu__take(arena, 1, 1, w->bytes);
    if (se) {
        w->want.replicates = pu__reals(arena, report->groups, lgm->Gamma->params + lgm->Phi->params + lgm->Phi->rows);
        w->t = pu__reals(arena, model->params, 1);
        w->square = (double *)pu__take(arena, model->params, 1, sizeof(double));
    }
    return PU_OK;
}

/* Squares of the standard errors: every group of probes has a gradient of its own, which is pulled back like the whole
   one. Gradients of nu and eta do not depend on probes. */
PU__FN pu_status pu__model_se(pu__model_memory *w, const pu_model *model, pu_int K, pu_int G)
{
    const pu_int Gamma = model->lgm.Gamma->params, Phi = model->lgm.Phi->params, each = Gamma + Phi + model->lgm.Phi->rows;
    pu_results one = w->g;
    pu_int g, i;
    memset(w->square, 0, (size_t)model->params * sizeof(double));
    for (g = 0; g < G; g++) {
        const double share = (double)pu__group_size(K, G, g) / (double)K;
        pu_real *at = w->g.replicates + g * each;
        if (one.Gamma) one.Gamma = at;
        if (one.Phi) one.Phi = at + Gamma;
        if (one.psi) one.psi = at + Gamma + Phi;
        if (model->pull(model, &one, w->t)) return PU_E_OPERATOR;
        for (i = 0; i < model->params; i++) {
            const double off = (double)w->t[i] - (double)w->grad[i];
            w->square[i] += share * off * off / (double)(G - 1);
        }
    }
    return PU_OK;
}

PU_DEF pu_status pu_model_gradient_bytes(pu_model *model, const pu_data *data, const pu_options *options, int se, size_t *bytes,
                                         pu_report *report)
{
    pu_report local;
    pu__model_memory w;
    pu__arena arena = PU__ARENA;
    pu_options o;
    pu_status status;
    if (!report) report = &local;
    pu__report_clear(report);
    if (!model) return pu__refuse(report, PU_E_NULL, "model");
    if (!bytes) return pu__refuse(report, PU_E_NULL, "bytes");
    if (model->params < 1) return pu__refuse(report, PU_E_ARGUMENT, "model.params");
    pu__model_link(model);
    o = pu__model_options(model, options);
    status = pu__model_layout(&w, &arena, model, data, &o, se, NULL, report);
    if (status) return status;
    if (arena.overflow) return pu__refuse(report, PU_E_OVERFLOW, "workspace");
    report->bytes = *bytes = pu__arena_bytes(&arena);
    return PU_OK;
}

PU__FN int pu__basic_sure(const pu_model *model, const pu_results *g); /* below, with pu__basic_pull */
PU__FN pu_real *pu__basic_home(const pu_model *model, pu_real *grad);

/* pu_model_gradient, and the solutions (N x (K+1) x D) into x where that is not NULL. theta NULL: the model is set already.
   own: grad is ours, and may be written before it is sure that all went well. */
PU__FN pu_status pu__model_run(pu_model *model, const pu_real *theta, const pu_data *data, const pu_options *options,
                               pu_workspace *ws, pu_real *grad, int own, pu_real *se, pu_real *x, pu_report *report)
{
    char words[sizeof report->plan] = "";
    pu_report local, *told = report; /* without a report pu_gradient leaves out the likelihood */
    pu_workspace mine, rest;
    pu__model_memory w;
    pu__arena arena = PU__ARENA;
    pu_options o;
    pu_status status = PU_OK;
    size_t bytes;
    pu_int bad, i;
    if (!report) report = &local;
    if (theta) status = pu_model_set(model, theta, report);
    else pu__report_clear(report);
    if (status) return status;
    if (!model->pull) return pu__refuse(report, PU_E_NULL, "model.pull");
    if (!grad) return pu__refuse(report, PU_E_NULL, "grad");
    memset(&mine, 0, sizeof mine), memset(&rest, 0, sizeof rest);
    if (!ws) ws = &mine;
    o = pu__model_options(model, options);
    if (pu__to_tune(&o)) { /* here already: the sizes below depend on K and I */
        pu_options tuned;
        pu_results want = pu__model_wants(model, &o, grad);
        status = pu_tune(&model->lgm, data, &o, ws, &want, &tuned, report);
        if (!status) o = tuned, memcpy(words, report->plan, sizeof words);
    }
    if (!status) status = pu__model_layout(&w, &arena, model, data, &o, se != NULL, x, report);
    if (!status) status = pu__arena_open(&arena, ws, report);
    if (status) {
        pu_workspace_free(&mine);
        return status;
    }
    bytes = report->bytes;
    (void)pu__model_layout(&w, &arena, model, data, &o, se != NULL, x, report); /* report: K and the groups */
    pu_workspace_block(&rest, w.rest, w.bytes);
    pu__report_clear(report);
    w.g = w.want;
    w.g.Phi = own && !se ? pu__basic_home(model, grad) : NULL;
    status = pu__gradient(&model->lgm, data, &o, &rest, &w.want, &w.g, told != NULL, report);
    if (!pu__fatal(status) && !se && pu__basic_sure(model, &w.g)) (void)model->pull(model, &w.g, grad);
    else if (!pu__fatal(status)) {
        bad = -1;
        if (model->pull(model, &w.g, w.grad) || (se && pu__model_se(&w, model, report->samples, report->groups)))
            status = pu__refuse(report, PU_E_OPERATOR, "model.pull");
        else bad = pu__find_nonfinite(model->params, w.grad);
        if (bad >= 0) status = pu__fail(report, PU_NONFINITE, "gradient of theta", -1, bad);
        if (!pu__fatal(status)) pu__copy(grad, w.grad, model->params);
        for (i = 0; i < model->params && se && !pu__fatal(status); i++) se[i] = (pu_real)sqrt(w.square[i]);
    }
    report->bytes = bytes;
    if (words[0]) { /* how K and I were found goes before the plan of the run */
        const size_t used = strlen(words);
        pu__text t;
        t.at = words, t.used = used, t.capacity = sizeof words;
        pu__put(&t, report->plan);
        memcpy(report->plan, words, sizeof words);
    }
    pu_workspace_free(&mine);
    return status;
}

PU_DEF pu_status pu_model_gradient(pu_model *model, const pu_real *theta, const pu_data *data, const pu_options *options,
                                   pu_workspace *ws, pu_real *grad, pu_real *se, pu_report *report)
{
    if (!theta) (void)pu_model_set(model, theta, report); /* says so */
    if (!theta) return PU_E_NULL;
    return pu__model_run(model, theta, data, options, ws, grad, 0, se, NULL, report);
}

PU_DEF pu_status pu_model_nll(pu_model *model, const pu_real *theta, const pu_data *data, const pu_options *options,
                              pu_workspace *ws, double *nll, double *se, pu_report *report)
{
    pu_options o;
    pu_status status = pu_model_set(model, theta, report);
    if (status) return status;
    o = pu__model_options(model, options);
    return pu_nll(&model->lgm, data, &o, ws, nll, se, report);
}

PU_DEF pu_status pu_model_start(const pu_model *model, const pu_data *data, uint64_t seed, pu_real *theta, pu_report *report)
{
    pu_report local;
    pu_status status;
    if (!report) report = &local;
    pu__report_clear(report);
    if (!model) return pu__refuse(report, PU_E_NULL, "model");
    if (!theta) return pu__refuse(report, PU_E_NULL, "theta");
    if (!model->start) return pu__refuse(report, PU_E_UNSUPPORTED, "model.start");
    status = pu__check_data(data, model->Phi.rows > 0 ? model->Phi.rows : model->lgm.Phi ? model->lgm.Phi->rows : 0, report);
    if (status) return status;
    status = model->start(model, data, seed, theta);
    return status ? pu__model_failed(report, status, "model.start", -1) : PU_OK;
}

PU_DEF double pu_model_natural(const pu_param *param, double theta)
{
    return param->scale == PU_SCALE_LOG ? exp(theta) : param->scale == PU_SCALE_ATANH ? tanh(theta) : theta;
}

PU_DEF double pu_model_theta(const pu_param *param, double x)
{
    return param->scale == PU_SCALE_LOG ? log(x) : param->scale == PU_SCALE_ATANH ? log((1 + x) / (1 - x)) / 2 : x;
}

/* "name[i]" or "name[i,j]" (j < 0: no second index), its scale and bounds: for describe functions */
PU__FN void pu__describe(pu_param *param, const char *name, pu_int i, pu_int j, pu_scale scale)
{
    pu__text t;
    t.at = param->name, t.used = 0, t.capacity = sizeof param->name;
    pu__put(&t, name);
    pu__put_number(&t, "[", i);
    pu__put_number(&t, ",", j);
    if (i >= 0) pu__put(&t, "]");
    param->scale = scale;
    param->lower = scale == PU_SCALE_LOG ? 0 : scale == PU_SCALE_ATANH ? -1 : -HUGE_VAL;
    param->upper = scale == PU_SCALE_ATANH ? 1 : HUGE_VAL;
}

PU_DEF pu_status pu_model_param(const pu_model *model, pu_int i, pu_param *param)
{
    if (!model || !param) return PU_E_NULL;
    if (i < 0 || i >= model->params) return PU_E_ARGUMENT;
    pu__describe(param, "theta", i, -1, PU_SCALE_FREE);
    if (model->describe) model->describe(model, i, param);
    return PU_OK;
}

PU_DEF void pu_model_free(pu_model *model)
{
    if (!model) return;
    pu_workspace_free(&model->memory);
    memset(model, 0, sizeof *model);
}

/* ------------------------------------------------------------------------------------------------
   >>models   the built-in models
   ------------------------------------------------------------------------------------------------ */

/* ---- what the built-in models share ---- */

/* First lines of every pu_model_*(): *made is the new model, zero but for its memory. A refused call leaves *model alone. */
PU__FN pu_status pu__model_begin(pu_model *model, pu_model *made, pu_report *report)
{
    pu__report_clear(report);
    if (!model) return pu__refuse(report, PU_E_NULL, "model");
    memset(made, 0, sizeof *made);
    made->memory = model->memory;
    return PU_OK;
}

/* Memory for a measured arena. When there is none, *model is zeroed: a block it had may be gone. */
PU__FN pu_status pu__model_open(pu_model *model, pu_model *made, pu__arena *arena, pu_report *report)
{
    const pu_status status = pu__arena_open(arena, &made->memory, report);
    if (!status) return PU_OK;
    memset(model, 0, sizeof *model);
    model->memory = made->memory;
    return status;
}

/* Last line: the model moves to its place. */
PU__FN pu_status pu__model_done(pu_model *model, const pu_model *made)
{
    *model = *made;
    pu__model_link(model);
    return PU_OK;
}

/* x = exp theta; 0 unless x and 1/x are both finite, and thereby positive */
PU__FN int pu__exp(pu_real theta, pu_real *x)
{
#ifdef PU_FLOAT
    *x = expf(theta);
#else
    *x = exp(theta);
#endif
    return pu__finite(*x) && pu__finite(1 / *x);
}

/* ---- models whose theta is a row of named parts, each free or on a log scale: factor analysis, probabilistic PCA, sparse
        Bayesian learning, Bayesian linear and neural linear regression ---- */

typedef struct {
    const char *name;
    pu_int rows, cols, at; /* cols 0: a vector, rows 0: a number; at: offset in theta */
    pu_scale scale;
} pu__part;

typedef struct {
    pu__part part[6];
    int parts;
    pu_int M, D, params;
    int Phi, eta, psi, alpha, W1, W2;    /* numbers of parts, or -1. W1: b1 follows, W2: b2 follows; psi: of length M or 1 */
    const pu_op *dictionary;             /* of the user */
    const pu_real *X;                    /* neural: M x inputs, of the user */
    pu_int inputs, hidden;
    double gain;                         /* |Phi|_F^2 / M, about: what a unit prior does to the variance of y */
    pu_real *x;                          /* params: natural values as of the last set; vector psi and Phi are read here */
    pu_real *y, *norm, *m, *work;        /* M: psi written out; D: |Phi_j|^2, M^-1; scratch of the dictionary */
    pu_real *H, *Hbar, *features, *ones; /* M x hidden: tanh, scratch; M x D; M */
} pu__basic;

PU__FN pu__basic pu__basic_zero(pu_int M, pu_int D)
{
    pu__basic s;
    memset(&s, 0, sizeof s);
    s.M = M, s.D = D, s.gain = (double)D / (double)M;
    s.Phi = s.eta = s.psi = s.alpha = s.W1 = s.W2 = -1;
    return s;
}

PU__FN int pu__basic_part(pu__basic *s, pu__arena *arena, const char *name, pu_int rows, pu_int cols, pu_scale scale)
{
    pu__part *p = &s->part[s->parts];
    const size_t count = pu__mul((size_t)(rows ? rows : 1), (size_t)(cols ? cols : 1), &arena->overflow);
    p->name = name, p->rows = rows, p->cols = cols, p->at = s->params, p->scale = scale;
    s->params = (pu_int)pu__add((size_t)s->params, count, &arena->overflow);
    return s->parts++;
}

PU__FN pu_real *pu__at(const pu__basic *s, pu_real *x, int part) { return x + s->part[part].at; }
PU__FN pu_int pu__end(const pu__basic *s, int part) { return part + 1 < s->parts ? s->part[part + 1].at : s->params; }

PU__FN pu__basic *pu__basic_layout(pu__basic *s, pu__arena *arena)
{
    pu__basic *self = (pu__basic *)pu__take(arena, 1, 1, sizeof *s);
    const int vector = s->part[s->psi].rows > 0;
    s->x = pu__reals(arena, s->params, 1);
    s->y = vector ? s->x : pu__reals(arena, s->M, 1);
    if (vector && s->x) s->y = pu__at(s, s->x, s->psi);
    if (s->dictionary) s->norm = pu__reals(arena, s->D, 1), s->work = pu__reals(arena, s->dictionary->work, 1);
    if (s->dictionary && s->part[s->alpha].rows > 0) s->m = pu__reals(arena, s->D, 1);
    if (s->W1 >= 0) {
        s->H = pu__reals(arena, s->M, s->hidden), s->Hbar = pu__reals(arena, s->M, s->hidden);
        s->features = s->W2 >= 0 ? pu__reals(arena, s->M, s->D) : s->H;
        s->ones = pu__reals(arena, s->M, 1);
    }
    return self;
}

/* Y = X W' + 1 b', rows of X and Y being data points */
PU__FN void pu__affine(pu_int points, pu_int from, pu_int to, const pu_real *W, const pu_real *b, const pu_real *X, pu_real *Y)
{
    const pu_op op = pu_op_dense(to, from, W);
    pu_int p;
    for (p = 0; p < points; p++) pu__copy(Y + p * to, b, to);
    (void)op.apply(&op, points, pu__rows(X, from), pu__rows(Y, to), 1, NULL);
}

/* and back: grad = [Ybar'X | Ybar'1], Xbar = Ybar W unless NULL */
PU__FN void pu__affine_back(pu_int points, pu_int from, pu_int to, const pu_real *W, const pu_real *X, const pu_real *Ybar,
                            const pu_real *ones, pu_real *grad, pu_real *Xbar)
{
    const pu_op op = pu_op_dense(to, from, W);
    pu_int p;
    pu__zeros(grad, to * from + to);
    (void)op.grad(&op, points, pu__rows(Ybar, to), pu__rows(X, from), ones, grad, NULL);
    for (p = 0; p < points; p++) pu__axpy(to, 1, Ybar + p * to, grad + to * from);
    if (Xbar) (void)op.apply_t(&op, points, pu__rows(Ybar, to), pu__rows(Xbar, from), 0, NULL);
}

PU__FN pu_status pu__basic_set(pu_model *model, const pu_real *theta, pu_int *index)
{
    pu__basic *s = (pu__basic *)model->data;
    pu_real value;
    pu_int i;
    int p, write;
    for (write = 0; write < 2; write++) /* look first: a refused theta leaves the model as it was */
        for (p = 0; p < s->parts; p++) {
            const pu_int at = s->part[p].at, end = pu__end(s, p);
            if (write && s->part[p].scale != PU_SCALE_LOG) pu__copy(s->x + at, theta + at, end - at);
            for (i = at; i < end && s->part[p].scale == PU_SCALE_LOG; i++) {
                if (!pu__exp(theta[i], &value)) {
                    *index = i;
                    return PU_E_ARGUMENT;
                }
                if (write) s->x[i] = value;
            }
        }
    value = *pu__at(s, s->x, s->psi);
    for (i = 0; i < s->M && s->part[s->psi].rows == 0; i++) s->y[i] = value;
    for (i = 0; i < s->D && s->m; i++) s->m[i] = 1 / (pu__at(s, s->x, s->alpha)[i] + value * s->norm[i]);
    if (s->W1 >= 0) {
        pu__affine(s->M, s->inputs, s->hidden, s->x, pu__at(s, s->x, s->W1 + 1), s->X, s->H);
        for (i = 0; i < s->M * s->hidden; i++) s->H[i] = pu__tanh(s->H[i]);
    }
    if (s->W2 >= 0) pu__affine(s->M, s->hidden, s->D, pu__at(s, s->x, s->W2), pu__at(s, s->x, s->W2 + 1), s->H, s->features);
    return PU_OK;
}

PU__FN pu_status pu__basic_pull(const pu_model *model, const pu_results *g, pu_real *grad)
{
    const pu__basic *s = (const pu__basic *)model->data;
    const size_t real = sizeof(pu_real);
    double sum = 0;
    pu_int i;
    int p;
    if (s->Phi >= 0 && g->Phi != pu__at(s, grad, s->Phi)) /* or it is there already */
        memcpy(pu__at(s, grad, s->Phi), g->Phi, (size_t)(s->M * s->D) * real);
    if (s->eta >= 0) memcpy(pu__at(s, grad, s->eta), g->eta, (size_t)s->M * real);
    if (s->alpha >= 0) memcpy(pu__at(s, grad, s->alpha), g->Gamma, (size_t)model->Gamma.params * real);
    if (s->part[s->psi].rows > 0) memcpy(pu__at(s, grad, s->psi), g->psi, (size_t)s->M * real);
    else { /* psi_m = beta for all m */
        for (i = 0; i < s->M; i++) sum += (double)g->psi[i];
        for (i = 0; i < s->D && g->m; i++) sum -= (double)(s->m[i] * s->m[i] * s->norm[i] * g->m[i]);
        *pu__at(s, grad, s->psi) = (pu_real)sum;
    }
    for (i = 0; i < s->D && g->m; i++) /* m = 1 / (alpha + beta norm), here and in beta above */
        pu__at(s, grad, s->alpha)[i] -= s->m[i] * s->m[i] * g->m[i];
    if (s->W1 >= 0) { /* Phi -> H -> tanh' -> W1 */
        if (s->W2 >= 0) pu__affine_back(s->M, s->hidden, s->D, pu__at(s, s->x, s->W2), s->H, g->Phi, s->ones,
                                        pu__at(s, grad, s->W2), s->Hbar);
        else memcpy(s->Hbar, g->Phi, (size_t)(s->M * s->D) * real);
        for (i = 0; i < s->M * s->hidden; i++) s->Hbar[i] *= 1 - s->H[i] * s->H[i];
        pu__affine_back(s->M, s->inputs, s->hidden, s->x, s->X, s->Hbar, s->ones, pu__at(s, grad, s->W1), NULL);
    }
    for (p = 0; p < s->parts; p++) /* d/d log x = x d/dx */
        for (i = s->part[p].at; i < pu__end(s, p) && s->part[p].scale == PU_SCALE_LOG; i++) grad[i] *= s->x[i];
    return PU_OK;
}

/* Will pu__basic_pull give finite numbers, so that it may write to the caller's array? Its input is finite; most of it is
   only copied, and what is multiplied is tried here. */
PU__FN int pu__basic_sure(const pu_model *model, const pu_results *g)
{
    const pu__basic *s = (const pu__basic *)model->data;
    double sum = 0;
    pu_int i;
    int sure = model->pull == pu__basic_pull && s->alpha < 0 && s->W1 < 0 && !g->m;
    for (i = 0; sure && i < s->M; i++) {
        const pu_real x = *(pu__at(s, s->x, s->psi) + (s->part[s->psi].rows > 0 ? i : 0));
        sum += (double)g->psi[i], sure = pu__finite(g->psi[i] * x) && pu__finite((pu_real)sum * x);
    }
    return sure;
}

/* The place in grad that pu__basic_pull would only copy Phi's gradient to, or NULL. */
PU__FN pu_real *pu__basic_home(const pu_model *model, pu_real *grad)
{
    const pu__basic *s = (const pu__basic *)model->data;
    return model->pull == pu__basic_pull && s->Phi >= 0 ? pu__at(s, grad, s->Phi) : NULL;
}

/* Row number `row` of a start's normals: stream 2, with a sample number that no test of an operator has. */
PU__FN void pu__start_normals(uint64_t seed, pu_int row, pu_int n, double scale, pu_real *out)
{
    pu_int i;
    pu_normals(seed, (uint32_t)row, UINT32_MAX - 1, 0, PU__STREAM_TEST, 0, n, out);
    for (i = 0; i < n; i++) out[i] = (pu_real)(scale * (double)out[i]);
}

/* Factors: eta = the mean of each column (one without values: of all values); a quarter of its variance goes to the loadings,
   at random, the rest to the noise. */
PU__FN void pu__start_factors(const pu__basic *s, const pu_data *data, uint64_t seed, pu_real *theta)
{
    pu_real *Phi = pu__at(s, theta, s->Phi), *mean = pu__at(s, theta, s->eta), *psi = pu__at(s, theta, s->psi), y = 0;
    const int vector = s->part[s->psi].rows > 0;
    double squares = 0, all = 0, total = 0, v;
    pu_int n, at, m = 0;
    pu__zeros(theta, s->params);
    for (n = 0; n < data->n; n++) /* running means and squares about them; Phi's place serves for the counts */
        for (at = 0; (at = pu__observed(data, n, at, &m, &y)) >= 0; at++) {
            const pu_real off = y - mean[m];
            Phi[m] += 1, all += 1, total += (double)y;
            mean[m] += off / Phi[m];
            if (vector) psi[m] += off * (y - mean[m]);
            squares += (double)off * (double)(y - mean[m]);
        }
    for (m = 0; m < s->M && all > 0; m++)
        if (!(Phi[m] > 0)) mean[m] = (pu_real)(total / all);
    for (m = 0; m < (vector ? s->M : 1); m++) {
        v = vector ? (double)psi[m] / (double)Phi[m] : squares / all;
        if (!(v > 0 && pu__finite_double(v))) v = squares > 0 ? squares / all : 1; /* no or one value: like the others */
        psi[m] = (pu_real)-log(0.75 * v);
    }
    for (m = 0; m < s->M; m++)
        pu__start_normals(seed, m, s->D, sqrt(exp(-(double)psi[vector ? m : 0]) / (3 * (double)s->D)), Phi + m * s->D);
}

/* Regressions: nine tenths of the second moment of y go to Phi z, the rest to the noise. Weights of the network: sums of
   about unit variance into every tanh, whatever the scale of the inputs, and random places to bend; then alike for W2. */
PU__FN void pu__start_regression(const pu__basic *s, const pu_data *data, uint64_t seed, pu_real *theta)
{
    double square = 0, count = 0;
    pu_real y = 0;
    pu_int n, at, m = 0, i, j;
    for (n = 0; n < data->n; n++)
        for (at = 0; (at = pu__observed(data, n, at, &m, &y)) >= 0; at++) square += (double)y * (double)y, count += 1;
    square = square > 0 ? square / count : 1;
    *pu__at(s, theta, s->psi) = (pu_real)-log(0.1 * square);
    for (i = s->part[s->alpha].at; i < pu__end(s, s->alpha); i++) theta[i] = (pu_real)log(s->gain / (0.9 * square));
    if (s->W1 < 0) return;
    for (i = 0; i < s->hidden; i++) pu__start_normals(seed, i, s->inputs, 1 / sqrt((double)s->inputs), theta + i * s->inputs);
    for (j = 0; j < s->inputs; j++) {
        for (square = 0, m = 0; m < s->M; m++) square += (double)s->X[m * s->inputs + j] * (double)s->X[m * s->inputs + j];
        square = square > 0 ? sqrt((double)s->M / square) : 1;
        for (i = 0; i < s->hidden; i++) theta[i * s->inputs + j] = (pu_real)(square * (double)theta[i * s->inputs + j]);
    }
    pu__start_normals(seed, s->hidden, s->hidden, 1, pu__at(s, theta, s->W1 + 1));
    if (s->W2 < 0) return;
    for (i = 0; i < s->D; i++)
        pu__start_normals(seed, s->hidden + 1 + i, s->hidden, 1 / sqrt((double)s->hidden),
                          pu__at(s, theta, s->W2) + i * s->hidden);
    pu__zeros(pu__at(s, theta, s->W2 + 1), s->D);
}

PU__FN pu_status pu__basic_start(const pu_model *model, const pu_data *data, uint64_t seed, pu_real *theta)
{
    const pu__basic *s = (const pu__basic *)model->data;
    (s->eta >= 0 ? pu__start_factors : pu__start_regression)(s, data, seed, theta);
    return PU_OK;
}

PU__FN void pu__basic_describe(const pu_model *model, pu_int i, pu_param *param)
{
    const pu__basic *s = (const pu__basic *)model->data;
    const pu__part *p = s->part;
    int n = 0;
    while (i >= pu__end(s, n)) n++;
    p += n, i -= p->at;
    if (p->cols) pu__describe(param, p->name, i / p->cols, i % p->cols, p->scale);
    else pu__describe(param, p->name, p->rows ? i : -1, -1, p->scale);
}

/* Memory, operators and functions of a model whose parts are known. */
PU__FN pu_status pu__basic_make(pu_model *model, pu_model *made, pu__basic *s, pu__arena *arena, pu_report *report)
{
    const pu_op *Phi = s->dictionary;
    pu__basic *self;
    double sum = 0;
    pu_int i;
    pu_status status;
    (void)pu__basic_layout(s, arena);
    status = pu__model_open(model, made, arena, report);
    if (status) return status;
    self = pu__basic_layout(s, arena);
    model->memory = made->memory;
    if (Phi) {
        for (i = 0; i < s->D; i++) s->norm[i] = Phi->gram_diag ? 0 : 1;
        for (i = 0; i < s->M; i++) s->y[i] = 1;
        if (Phi->gram_diag && Phi->gram_diag(Phi, s->y, s->norm, s->work))
            return pu__operator_failed(report, "Phi.gram_diag", -1);
        for (i = 0; i < s->D; i++) sum += (double)s->norm[i];
        if (sum > 0 && pu__finite_double(sum)) s->gain = sum / (double)s->M;
    }
    pu__zeros(s->x, s->params); /* not set yet: pu_gradient refuses a psi of 0 */
    pu__zeros(s->y, s->M);
    for (i = 0; i < s->M && s->ones; i++) s->ones[i] = 1;
    made->tied_psi = s->part[s->psi].rows == 0;
    made->params = s->params, made->lgm.psi = s->y, made->m = s->m, made->data = self;
    made->set = pu__basic_set, made->pull = pu__basic_pull, made->start = pu__basic_start, made->describe = pu__basic_describe;
    made->uses = PU_USES_PSI;
    if (s->alpha >= 0) made->uses |= PU_USES_GAMMA;
    if (s->eta >= 0) made->uses |= PU_USES_ETA;
    if (!s->dictionary) made->uses |= PU_USES_PHI;
    if (s->m) made->uses |= PU_USES_M;
    if (s->alpha < 0) made->Gamma = pu_op_identity(s->D);
    else if (s->part[s->alpha].rows) made->Gamma = pu_op_diagonal(s->D, pu__at(s, s->x, s->alpha));
    else made->Gamma = pu_op_scaled_identity(s->D, pu__at(s, s->x, s->alpha));
    if (Phi) made->lgm.Phi = Phi;
    else made->Phi = pu_op_dense(s->M, s->D, s->W1 >= 0 ? s->features : s->x);
    if (!Phi && s->W1 < 0) made->Phi.check = NULL; /* it is a part of theta, which pu_model_set has checked */
    if (s->eta >= 0) made->lgm.eta = pu__at(s, s->x, s->eta);
    *self = *s;
    return pu__model_done(model, made);
}

PU__FN pu_status pu__model_factors(pu_model *model, pu_int M, pu_int D, int isotropic, pu_report *report)
{
    pu_report local;
    pu_model made;
    pu__basic s;
    pu__arena arena = PU__ARENA;
    pu_status status;
    if (!report) report = &local;
    status = pu__model_begin(model, &made, report);
    if (status) return status;
    if (M < 1) return pu__refuse(report, PU_E_ARGUMENT, "M");
    if (D < 1) return pu__refuse(report, PU_E_ARGUMENT, "D");
    s = pu__basic_zero(M, D);
    made.name = isotropic ? "probabilistic PCA" : "factor analysis";
    s.Phi = pu__basic_part(&s, &arena, "Phi", M, D, PU_SCALE_FREE);
    s.eta = pu__basic_part(&s, &arena, "eta", M, 0, PU_SCALE_FREE);
    s.psi = isotropic ? pu__basic_part(&s, &arena, "beta", 0, 0, PU_SCALE_LOG)
                      : pu__basic_part(&s, &arena, "psi", M, 0, PU_SCALE_LOG);
    return pu__basic_make(model, &made, &s, &arena, report);
}

PU_DEF pu_status pu_model_factors(pu_model *model, pu_int M, pu_int D, pu_report *report)
{
    return pu__model_factors(model, M, D, 0, report);
}

PU_DEF pu_status pu_model_ppca(pu_model *model, pu_int M, pu_int D, pu_report *report)
{
    return pu__model_factors(model, M, D, 1, report);
}

PU__FN pu_status pu__model_regression(pu_model *model, const pu_op *Phi, int sparse, pu_report *report)
{
    pu_report local;
    pu_model made;
    pu__basic s;
    pu__arena arena = PU__ARENA;
    pu_status status;
    if (!report) report = &local;
    status = pu__model_begin(model, &made, report);
    if (status) return status;
    if (!Phi) return pu__refuse(report, PU_E_NULL, "Phi");
    if (Phi->rows < 1) return pu__refuse(report, PU_E_ARGUMENT, "Phi.rows");
    if (Phi->cols < 1) return pu__refuse(report, PU_E_ARGUMENT, "Phi.cols");
    if (Phi->work < 0) return pu__refuse(report, PU_E_ARGUMENT, "Phi.work");
    status = pu__check_op(Phi, &pu__names_Phi, report);
    if (status) return status;
    s = pu__basic_zero(Phi->rows, Phi->cols);
    s.dictionary = Phi;
    made.name = sparse ? "sparse Bayesian learning" : "Bayesian linear regression";
    s.alpha = pu__basic_part(&s, &arena, "alpha", sparse ? Phi->cols : 0, 0, PU_SCALE_LOG);
    s.psi = pu__basic_part(&s, &arena, "beta", 0, 0, PU_SCALE_LOG);
    return pu__basic_make(model, &made, &s, &arena, report);
}

PU_DEF pu_status pu_model_sparse(pu_model *model, const pu_op *Phi, pu_report *report)
{
    return pu__model_regression(model, Phi, 1, report);
}

PU_DEF pu_status pu_model_regression(pu_model *model, const pu_op *Phi, pu_report *report)
{
    return pu__model_regression(model, Phi, 0, report);
}

PU_DEF pu_status pu_model_neural(pu_model *model, pu_int points, pu_int inputs, const pu_real *X, pu_int hidden,
                                 pu_int features, pu_report *report)
{
    pu_report local;
    pu_model made;
    pu__basic s;
    pu__arena arena = PU__ARENA;
    pu_status status;
    if (!report) report = &local;
    status = pu__model_begin(model, &made, report);
    if (status) return status;
    if (points < 1) return pu__refuse(report, PU_E_ARGUMENT, "points");
    if (inputs < 1) return pu__refuse(report, PU_E_ARGUMENT, "inputs");
    if (hidden < 1) return pu__refuse(report, PU_E_ARGUMENT, "hidden");
    if (features < 0) return pu__refuse(report, PU_E_ARGUMENT, "features");
    if (!X) return pu__refuse(report, PU_E_NULL, "X");
    s = pu__basic_zero(points, features ? features : hidden);
    s.X = X, s.inputs = inputs, s.hidden = hidden;
    (void)pu__mul(pu__mul((size_t)points, (size_t)inputs, &arena.overflow), sizeof(pu_real), &arena.overflow);
    if (arena.overflow) return pu__refuse(report, PU_E_OVERFLOW, "X");
    status = pu__check_array(points * inputs, X, 0, "X", -1, report);
    if (status) return status;
    made.name = "neural linear model";
    s.gain = 0.45 * (double)s.D; /* E tanh(u)^2, u ~ N(0, 2), as the start has it */
    s.W1 = pu__basic_part(&s, &arena, "W1", hidden, inputs, PU_SCALE_FREE);
    (void)pu__basic_part(&s, &arena, "b1", hidden, 0, PU_SCALE_FREE);
    if (features) {
        s.W2 = pu__basic_part(&s, &arena, "W2", features, hidden, PU_SCALE_FREE);
        (void)pu__basic_part(&s, &arena, "b2", features, 0, PU_SCALE_FREE);
    }
    s.alpha = pu__basic_part(&s, &arena, "alpha", 0, 0, PU_SCALE_LOG);
    s.psi = pu__basic_part(&s, &arena, "beta", 0, 0, PU_SCALE_LOG);
    return pu__basic_make(model, &made, &s, &arena, report);
}

/* ---- models of series: noisy autoregression ---- */

typedef struct {
    pu_ar ar;
    pu_real *psi; /* n */
} pu__noisy_ar;

PU__FN pu_status pu__noisy_ar_set(pu_model *model, const pu_real *theta, pu_int *index)
{
    pu__noisy_ar *s = (pu__noisy_ar *)model->data;
    const pu_int n = s->ar.n, P = s->ar.order;
    pu_real gamma[PU_AR_MAX], kappa, lambda;
    pu_int i;
    pu_status status;
    for (i = 0; i < P; i++) gamma[i] = (pu_real)tanh((double)theta[i]);
    if (!pu__exp(theta[P], &kappa)) return *index = P, PU_E_ARGUMENT;
    if (!pu__exp(theta[P + 1], &lambda)) return *index = P + 1, PU_E_ARGUMENT;
    status = pu_ar_set(&s->ar, n, P, gamma, kappa, index); /* its parameters are numbered like theta */
    for (i = 0; i < n && !status; i++) s->psi[i] = 1 / lambda;
    return status;
}

/* the end of both pulls: d/d log v of psi = 1/v everywhere */
PU__FN pu_real pu__noise_pull(pu_int n, const pu_real *psi, const pu_real *g) { return (pu_real)-pu__dot(n, NULL, psi, g); }

PU__FN pu_status pu__noisy_ar_pull(const pu_model *model, const pu_results *g, pu_real *grad)
{
    const pu__noisy_ar *s = (const pu__noisy_ar *)model->data;
    const pu_int P = s->ar.order;
    pu_int i;
    for (i = 0; i < P; i++) grad[i] = (pu_real)((double)g->Gamma[i] * pu__ar_gap(s->ar.gamma[i])); /* tanh' = 1 - tanh^2 */
    grad[P] = g->Gamma[P] * s->ar.kappa;
    grad[P + 1] = pu__noise_pull(s->ar.n, s->psi, g->psi);
    return PU_OK;
}

/* c_k = mean y_t y_{t+k} over the observed pairs, k <= lags; c_0 > 0 */
PU__FN void pu__autocovariances(const pu_data *data, pu_int lags, double *c)
{
    double count[PU_AR_MAX + 1] = {0};
    pu_int n, at, to, t = 0, u = 0, k;
    pu_real y = 0, v = 0;
    for (k = 0; k <= lags; k++) c[k] = 0;
    for (n = 0; n < data->n; n++)
        for (at = 0; (at = pu__observed(data, n, at, &t, &y)) >= 0; at++)
            for (to = at; (to = pu__observed(data, n, to, &u, &v)) >= 0 && u - t <= lags; to++)
                c[u - t] += (double)y * (double)v, count[u - t] += 1;
    for (k = 0; k <= lags; k++) c[k] = count[k] > 0 ? c[k] / count[k] : 0;
    if (!(c[0] > 0 && pu__finite_double(c[0]))) c[0] = 1;
}

/* White noise is in c_0 alone. Of an AR(1) c_1^2 / c_2 would be the rest, the signal's variance: a guess good enough for any
   process, as a share of c_0 kept between 1/2 and 0.95. */
PU__FN double pu__signal_share(const double *c)
{
    const double share = c[2] > 0 ? c[1] * c[1] / (c[2] * c[0]) : 0.75;
    return share < 0.5 ? 0.5 : share > 0.95 ? 0.95 : share;
}

/* Durbin-Levinson on what is left of the autocovariances without the noise. With too much taken for noise the rest is hardly
   a covariance, and some |gamma| comes out next to one or beyond: then half of that noise is given back, a few times. */
PU__FN pu_status pu__noisy_ar_start(const pu_model *model, const pu_data *data, uint64_t seed, pu_real *theta)
{
    const pu_int P = ((const pu__noisy_ar *)model->data)->ar.order;
    double c[PU_AR_MAX + 1], phi[PU_AR_MAX], old[PU_AR_MAX], share, v = 1;
    pu_int m, j;
    int tries, calm = 0;
    (void)seed;
    pu__autocovariances(data, P < 2 ? 2 : P, c);
    share = pu__signal_share(c);
    for (tries = 0; tries < 6 && !calm; tries++, share = calm ? share : (1 + share) / 2)
        for (m = 1, calm = 1, v = share * c[0]; m <= P; m++) { /* v: of the prediction error */
            double g = c[m];
            for (j = 1; j < m; j++) g -= phi[j - 1] * c[m - j], old[j - 1] = phi[j - 1];
            g /= v;
            calm = calm && fabs(g) < 0.9;
            g = g > 0.95 ? 0.95 : g > -0.95 ? g : -0.95;
            for (j = 1; j < m; j++) phi[j - 1] -= g * old[m - j - 1];
            phi[m - 1] = g, v *= 1 - g * g;
            theta[m - 1] = (pu_real)(log((1 + g) / (1 - g)) / 2);
        }
    theta[P] = (pu_real)log(v), theta[P + 1] = (pu_real)log((1 - share) * c[0]);
    return PU_OK;
}

PU__FN void pu__noisy_ar_describe(const pu_model *model, pu_int i, pu_param *param)
{
    const pu_int P = ((const pu__noisy_ar *)model->data)->ar.order;
    if (i < P) pu__describe(param, "gamma", i, -1, PU_SCALE_ATANH);
    else pu__describe(param, i == P ? "kappa" : "lambda", -1, -1, PU_SCALE_LOG);
}

PU_DEF const pu_ar *pu_model_ar(const pu_model *model)
{
    return model && model->set == pu__noisy_ar_set ? &((const pu__noisy_ar *)model->data)->ar : NULL;
}

PU_DEF pu_status pu_model_noisy_ar(pu_model *model, pu_int n, pu_int order, pu_report *report)
{
    static const pu_real gamma[PU_AR_MAX] = {0};
    pu_report local;
    pu_model made;
    pu_ar ar;
    pu__noisy_ar *s = NULL;
    pu__arena arena = PU__ARENA;
    pu_status status;
    int pass;
    if (!report) report = &local;
    status = pu__model_begin(model, &made, report);
    if (status) return status;
    if (pu_ar_set(&ar, n, order, gamma, 1, NULL)) return pu__refuse(report, PU_E_ARGUMENT, n < 1 ? "n" : "order");
    for (pass = 0; pass < 2; pass++) { /* measure, carve */
        pu_real *psi;
        s = (pu__noisy_ar *)pu__take(&arena, 1, 1, sizeof *s), psi = pu__reals(&arena, n, 1);
        if (pass) s->ar = ar, s->psi = psi;
        else if ((status = pu__model_open(model, &made, &arena, report)) != PU_OK) return status;
    }
    pu__zeros(s->psi, n); /* not set yet: refused */
    made.name = "noisy autoregression", made.params = order + 2, made.uses = PU_USES_GAMMA | PU_USES_PSI, made.data = s;
    made.Gamma = pu_op_ar(&s->ar), made.Phi = pu_op_identity(n), made.lgm.psi = s->psi;
    made.tied_psi = 1, made.set = pu__noisy_ar_set, made.pull = pu__noisy_ar_pull;
    made.start = pu__noisy_ar_start, made.describe = pu__noisy_ar_describe;
    return pu__model_done(model, &made);
}

/* ---- state space ---- */

typedef struct {
    pu_ssm ssm;
    pu_real c[PU_SSM_MAX], m0[PU_SSM_MAX];
    double L[PU__SSM_SQUARE], L0[PU__SSM_SQUARE];  /* S x S, zero above the diagonal */
    pu_real *psi, *nu;                             /* T; D (PU_SSM_GIVEN) */
    pu_int at_c, at_L, at_sigma2, at_m0, at_L0; /* offsets in theta */
} pu__state_space;

/* lower triangle, diagonal as log -> L and C = L L'; returns the entry of theta whose exp is 0 or infinite, or -1 */
PU__FN pu_int pu__triangle_set(pu_int S, const pu_real *theta, double *L, pu_real *C)
{
    pu_int i, j, l, at = 0;
    pu_real x;
    memset(L, 0, (size_t)(S * S) * sizeof *L);
    for (i = 0; i < S; i++)
        for (j = 0; j <= i; j++, at++) {
            if (i == j && !pu__exp(theta[at], &x)) return at;
            L[i * S + j] = i == j ? exp((double)theta[at]) : (double)theta[at];
        }
    for (i = 0; i < S; i++)
        for (j = 0; j <= i; j++) {
            double sum = 0;
            for (l = 0; l <= j; l++) sum += L[i * S + l] * L[j * S + l];
            C[i * S + j] = C[j * S + i] = (pu_real)sum;
        }
    return -1;
}

/* dC = dL L' + L dL', and the gradient G for C is symmetric: 2 G L for L, times L_ii on the diagonal for its log */
PU__FN void pu__triangle_pull(pu_int S, const double *L, const pu_real *G, pu_real *grad)
{
    pu_int i, j, l;
    for (i = 0; i < S; i++)
        for (j = 0; j <= i; j++) {
            double sum = 0;
            for (l = j; l < S; l++) sum += 2 * (double)G[i * S + l] * L[l * S + j];
            *grad++ = (pu_real)(i == j ? sum * L[i * S + i] : sum);
        }
}

PU__FN pu_status pu__state_space_set(pu_model *model, const pu_real *theta, pu_int *index)
{
    pu__state_space *s = (pu__state_space *)model->data;
    const pu_int T = s->ssm.steps, S = s->ssm.states, SS = S * S;
    const int given = s->ssm.start == PU_SSM_GIVEN;
    pu_ssm now;
    double L[PU__SSM_SQUARE], L0[PU__SSM_SQUARE];
    pu_real Q[PU__SSM_SQUARE], P0[PU__SSM_SQUARE], sigma2;
    pu_int i;
    pu_status status;
    if (!pu__exp(theta[s->at_sigma2], &sigma2)) return *index = s->at_sigma2, PU_E_ARGUMENT;
    i = pu__triangle_set(S, theta + s->at_L, L, Q);
    if (i >= 0) return *index = s->at_L + i, PU_E_ARGUMENT;
    i = given ? pu__triangle_set(S, theta + s->at_L0, L0, P0) : -1;
    if (i >= 0) return *index = s->at_L0 + i, PU_E_ARGUMENT;
    status = pu_ssm_set(&now, T, S, theta, Q, s->ssm.start, given ? P0 : NULL, &i);
    if (status) { /* an entry (r, c) of Q or P0 is the doing of row r of its triangle: tell the last of that row */
        const pu_int row = i % SS / S, last = row * (row + 1) / 2 + row;
        *index = i < SS ? i : i < 2 * SS ? s->at_L + last : s->at_L0 + last;
        return status;
    }
    s->ssm = now;
    pu__copy(s->c, theta + s->at_c, S);
    memcpy(s->L, L, sizeof L);
    for (i = 0; i < T; i++) s->psi[i] = 1 / sigma2;
    if (!given) return PU_OK;
    memcpy(s->L0, L0, sizeof L0);
    pu__copy(s->m0, theta + s->at_m0, S);
    return pu_ssm_mean(&s->ssm, s->m0, s->nu);
}

PU__FN pu_status pu__state_space_pull(const pu_model *model, const pu_results *g, pu_real *grad)
{
    const pu__state_space *s = (const pu__state_space *)model->data;
    const pu_int S = s->ssm.states, SS = S * S;
    const size_t real = sizeof(pu_real);
    memcpy(grad, g->Gamma, (size_t)SS * real);
    memcpy(grad + s->at_c, g->Phi, (size_t)S * real);
    pu__triangle_pull(S, s->L, g->Gamma + SS, grad + s->at_L);
    grad[s->at_sigma2] = pu__noise_pull(s->ssm.steps, s->psi, g->psi);
    if (s->ssm.start != PU_SSM_GIVEN) return PU_OK;
    memset(grad + s->at_m0, 0, (size_t)S * real);
    pu__triangle_pull(S, s->L0, g->Gamma + 2 * SS, grad + s->at_L0);
    return pu_ssm_mean_grad(&s->ssm, s->nu, g->nu, grad, grad + s->at_m0);
}

/* S independent states of variance one and equal shares in the signal, with rates r^e, e spread evenly over (0, 2), where r
   is the signal's autocorrelation at lag one: different rates, since equal states would stay equal in training. */
PU__FN pu_status pu__state_space_start(const pu_model *model, const pu_data *data, uint64_t seed, pu_real *theta)
{
    const pu__state_space *s = (const pu__state_space *)model->data;
    const pu_int S = s->ssm.states;
    double c[3], share, r;
    pu_int i;
    (void)seed;
    pu__autocovariances(data, 2, c);
    share = pu__signal_share(c), r = fabs(c[1]) / (share * c[0]);
    r = r < 0.1 ? 0.1 : r > 0.9 ? 0.9 : r;
    pu__zeros(theta, model->params); /* m0 = 0, P0 = I */
    for (i = 0; i < S; i++) {
        const double rate = pow(r, 2 * (double)(i + 1) / (double)(S + 1));
        theta[i * S + i] = (pu_real)(c[1] < 0 ? -rate : rate);
        theta[s->at_c + i] = (pu_real)sqrt(share * c[0] / (double)S);
        theta[s->at_L + i * (i + 1) / 2 + i] = (pu_real)(log((1 - rate) * (1 + rate)) / 2);
    }
    theta[s->at_sigma2] = (pu_real)log((1 - share) * c[0]);
    return PU_OK;
}

PU__FN void pu__state_space_describe(const pu_model *model, pu_int i, pu_param *param)
{
    const pu__state_space *s = (const pu__state_space *)model->data;
    const pu_int S = s->ssm.states, in_m0 = i - s->at_m0;
    const int start = i >= s->at_L0;
    pu_int row = 0;
    if (i < s->at_c) pu__describe(param, "A", i / S, i % S, PU_SCALE_FREE);
    else if (i < s->at_L) pu__describe(param, "c", i - s->at_c, -1, PU_SCALE_FREE);
    else if (i == s->at_sigma2) pu__describe(param, "sigma2", -1, -1, PU_SCALE_LOG);
    else if (in_m0 >= 0 && in_m0 < S) pu__describe(param, "m0", in_m0, -1, PU_SCALE_FREE);
    else {
        for (i -= start ? s->at_L0 : s->at_L; i > row; i -= row) row++; /* row r holds r + 1 entries */
        pu__describe(param, start ? "L0" : "L", row, i, i == row ? PU_SCALE_LOG : PU_SCALE_FREE);
    }
}

PU_DEF const pu_ssm *pu_model_ssm(const pu_model *model)
{
    return model && model->set == pu__state_space_set ? &((const pu__state_space *)model->data)->ssm : NULL;
}

PU_DEF pu_status pu_model_state_space(pu_model *model, pu_int steps, pu_int states, pu_ssm_start start, pu_report *report)
{
    const pu_int S = states, triangle = S * (S + 1) / 2;
    pu_report local;
    pu_model made;
    pu__state_space *s = NULL;
    pu__arena arena = PU__ARENA;
    pu_real A[PU__SSM_SQUARE] = {0}, unit[PU__SSM_SQUARE] = {0};
    pu_ssm ssm;
    pu_int i;
    pu_status status;
    int pass;
    if (!report) report = &local;
    status = pu__model_begin(model, &made, report);
    if (status) return status;
    if (steps < 1) return pu__refuse(report, PU_E_ARGUMENT, "steps");
    if (S < 1 || S > PU_SSM_MAX) return pu__refuse(report, PU_E_ARGUMENT, "states");
    for (i = 0; i < S; i++) unit[i * S + i] = 1;
    status = pu_ssm_set(&ssm, steps, S, A, unit, start, start == PU_SSM_GIVEN ? unit : NULL, NULL);
    if (status) return pu__refuse(report, status, status == PU_E_OVERFLOW ? "steps" : "start");
    for (pass = 0; pass < 2; pass++) { /* measure, carve */
        pu_real *psi, *nu;
        s = (pu__state_space *)pu__take(&arena, 1, 1, sizeof *s), psi = pu__reals(&arena, steps, 1);
        nu = start == PU_SSM_GIVEN ? pu__reals(&arena, steps, S) : NULL;
        if (pass) memset(s, 0, sizeof *s), s->ssm = ssm, s->psi = psi, s->nu = nu;
        else if ((status = pu__model_open(model, &made, &arena, report)) != PU_OK) return status;
    }
    s->at_c = S * S, s->at_L = s->at_c + S, s->at_sigma2 = s->at_L + triangle;
    s->at_m0 = s->at_sigma2 + 1, s->at_L0 = s->at_m0 + S;
    pu__zeros(s->psi, steps); /* not set yet: refused */
    if (s->nu) pu__zeros(s->nu, steps * S);
    made.name = "state space", made.params = start == PU_SSM_GIVEN ? s->at_L0 + triangle : s->at_m0, made.data = s;
    made.uses = PU_USES_GAMMA | PU_USES_PHI | PU_USES_PSI | (start == PU_SSM_GIVEN ? (unsigned)PU_USES_NU : 0u);
    made.Gamma = pu_op_ssm(&s->ssm), made.Phi = pu_op_readout(steps, S, s->c), made.lgm.psi = s->psi, made.lgm.nu = s->nu;
    made.set = pu__state_space_set, made.pull = pu__state_space_pull;
    made.start = pu__state_space_start, made.describe = pu__state_space_describe;
    return pu__model_done(model, &made);
}

/* ------------------------------------------------------------------------------------------------
   >>fit   from gradients to parameters: Adam, SGD, L-BFGS; mini-batches; checkpoints
   ------------------------------------------------------------------------------------------------ */

PU_DEF const char *pu_fit_stop_text(pu_fit_stop stop)
{
    switch (stop) {
#define PU_X(name, value, text) case name: return text;
        PU_FIT_STOP_LIST(PU_X)
#undef PU_X
    case PU_FIT_STOPS: break;
    }
    return "unknown reason";
}

/* What a checkpoint keeps besides arrays. Doubles throughout: every count here is below 2^53. */
typedef struct {
    double step, epoch, at;            /* steps done; epoch and place in it of the next datum */
    double gradients, rejected, within;/* steps running whose gradient was within its error */
    double best, best_step, stale;     /* smallest criterion, its step, validations since then */
    double validation, objective, objective_se, gradient, gradient_se, rate;
    double pairs, newest;              /* L-BFGS: pairs kept, place of the newest */
    double known;                      /* L-BFGS: g is the gradient at theta */
    double samples, iterations;        /* K and I where the fit chose them */
} pu__counts;

typedef struct {
    pu_model *model;
    const pu_data *data;
    const pu_fit_options *o;
    pu_fit_report *report;
    pu_workspace *ws;   /* of the gradients */
    pu__counts c;
    uint64_t print;     /* of sizes and options as given */
    pu_int n, N, K, D, pairs;
    int exact;          /* gradient without noise; or with the same noise always: fixed */
    int fixed, se, compare; /* compare: objectives of different steps can be compared */
    int threads;        /* for passes over n */
    uint32_t sets;      /* of the model, after it was last set to the point here: */
    const pu_real *set;
    pu_real *theta;     /* staged: the caller's array is written at the end */
    pu_real *before;    /* the last point with a gradient, and where the next point is made; L-BFGS: the point tried */
    pu_real *best;      /* NULL where points are never compared */
    pu_real *g, *part, *part_se, *m, *v; /* n each */
    pu_real *S, *Y;     /* L-BFGS: pairs x n */
    double *square, *rho; /* n: squared standard errors, of a step; pairs */
    pu_int *order;      /* N: this epoch's */
    pu_real *x;         /* warm starts: N x (K+1) x D */
    pu_real *x_part;    /* of the batch */
} pu__fit;

PU__FN void pu__fit_layout(pu__fit *f, pu__arena *arena)
{
    const int lbfgs = f->o->optimizer == PU_LBFGS;
    const pu_int batch = f->o->batch ? f->o->batch : f->N;
    f->theta = pu__reals(arena, f->n, 1), f->before = pu__reals(arena, f->n, 1);
    f->best = f->compare || f->o->validate ? pu__reals(arena, f->n, 1) : NULL;
    f->g = pu__reals(arena, f->n, 1), f->m = pu__reals(arena, f->n, 1);
    f->part = f->o->accumulate > 1 ? pu__reals(arena, f->n, 1) : NULL;
    f->v = f->o->optimizer != PU_SGD ? pu__reals(arena, f->n, 1) : NULL; /* L-BFGS: the gradient at the trial point */
    if (f->se) f->part_se = pu__reals(arena, f->n, 1), f->square = (double *)pu__take(arena, f->n, 1, sizeof(double));
    if (f->o->batch) f->order = (pu_int *)pu__take(arena, f->N, 1, sizeof(pu_int));
    if (lbfgs) {
        f->S = pu__reals(arena, f->pairs, f->n), f->Y = pu__reals(arena, f->pairs, f->n);
        f->rho = (double *)pu__take(arena, 2 * f->pairs, 1, sizeof(double)); /* and the coefficients of the recursion */
    }
    if (f->o->warm_start) {
        f->x = pu__reals(arena, f->N * (f->K + 1), f->D);
        f->x_part = f->o->batch ? pu__reals(arena, batch * (f->K + 1), f->D) : NULL;
    }
}

/* ---- checkpoints: a header, the counts, the arrays, a checksum of all that ---- */

#ifndef PU_NO_STDIO

/* Numbers that the checkpoint must share with the fit: sizes, precision, and every option that the next step depends on. */
PU__FN uint64_t pu__fit_print(const pu__fit *f)
{
    const pu_fit_options *o = f->o;
    const pu_options *g = &o->gradient;
    const double number[] = {(double)sizeof(pu_real),
                             (double)f->n,
                             (double)f->N,
                             (double)f->data->m,
                             (double)f->D,
                             (double)o->steps,
                             (double)o->optimizer,
                             o->rate,
                             (double)o->schedule,
                             o->decay,
                             o->momentum,
                             o->beta1,
                             o->beta2,
                             o->epsilon,
                             (double)f->pairs,
                             (double)o->batch,
                             (double)o->accumulate,
                             (double)(o->fixed_probes != 0),
                             (double)(o->warm_start != 0),
                             o->tolerance,
                             (double)o->validate_every,
                             (double)o->patience,
                             (double)(o->validate != NULL),
                             (double)g->samples,
                             (double)g->kind,
                             (double)g->engine,
                             (double)(g->seed >> 32),
                             (double)(g->seed & 0xffffffffu),
                             (double)g->step,
                             (double)g->lanes,
                             (double)g->columns,
                             (double)g->groups,
                             (double)(g->rao_blackwell != 0),
                             g->error,
                             (double)g->most_samples,
                             (double)g->most_iterations,
                             (double)(g->no_control_variate != 0),
                             (double)(g->tied_psi != 0),
                             (double)(g->constant_m != 0),
                             (double)g->solve.iterations,
                             (double)g->solve.solver,
                             g->solve.tolerance,
                             g->solve.absolute2,
                             (double)g->solve.check_every,
                             (double)g->solve.adjoint,
                             (double)g->solve.checkpoint};
    uint64_t h = pu__fnv(PU__FNV, PU_VERSION, sizeof PU_VERSION);
    if (f->model->name) h = pu__fnv(h, f->model->name, strlen(f->model->name));
    return pu__fnv(h, number, sizeof number);
}

/* One array to or from the file; h runs along. 0 when that fails. */
PU__FN int pu__fit_array(FILE *file, int write, void *data, size_t bytes, uint64_t *h)
{
    if (bytes == 0 || !data) return 1;
    if ((write ? fwrite(data, 1, bytes, file) : fread(data, 1, bytes, file)) != bytes) return 0;
    *h = pu__fnv(*h, data, bytes);
    return 1;
}

PU__FN int pu__fit_arrays(pu__fit *f, FILE *file, int write, uint64_t *h)
{
    const size_t n = (size_t)f->n * sizeof(pu_real), x = f->x ? (size_t)(f->N * (f->K + 1) * f->D) * sizeof(pu_real) : 0;
    return pu__fit_array(file, write, &f->c, sizeof f->c, h) && pu__fit_array(file, write, f->theta, n, h) &&
           pu__fit_array(file, write, f->best, n, h) && pu__fit_array(file, write, f->m, n, h) &&
           pu__fit_array(file, write, f->before, n, h) &&
           pu__fit_array(file, write, f->v, f->v ? n : 0, h) && pu__fit_array(file, write, f->g, n, h) &&
           pu__fit_array(file, write, f->S, f->S ? (size_t)f->pairs * n : 0, h) &&
           pu__fit_array(file, write, f->Y, f->Y ? (size_t)f->pairs * n : 0, h) &&
           pu__fit_array(file, write, f->rho, f->rho ? (size_t)f->pairs * sizeof(double) : 0, h) &&
           pu__fit_array(file, write, f->x, x, h);
}

#define PU__MAGIC "pu fit 1"

/* Beside the file and renamed: whoever looks finds the old state or the new one, never half of either. */
PU__FN const char *pu__fit_save(pu__fit *f, char *path, size_t room)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325), print = f->print;
    pu__text t;
    FILE *file;
    int ok;
    t.at = path, t.used = 0, t.capacity = room;
    pu__put(&t, f->o->checkpoint);
    pu__put(&t, ".new");
    if (t.used + 1 >= room) return "checkpoint: the name is too long";
    file = fopen(path, "wb");
    if (!file) return "checkpoint: cannot be opened for writing";
    ok = fwrite(PU__MAGIC, 1, 8, file) == 8 && fwrite(&print, 1, sizeof print, file) == sizeof print &&
         pu__fit_arrays(f, file, 1, &h) && fwrite(&h, 1, sizeof h, file) == sizeof h;
    if (fclose(file)) ok = 0;
    if (!ok) {
        remove(path);
        return "checkpoint: cannot be written (disk full?)";
    }
    if (rename(path, f->o->checkpoint)) { /* where rename does not replace */
        remove(f->o->checkpoint);
        if (rename(path, f->o->checkpoint)) return "checkpoint: cannot be renamed into place";
    }
    return NULL;
}

/* NULL: taken up, or there is none (*found = 0); else what is wrong with it. */
PU__FN const char *pu__fit_load(pu__fit *f, int *found)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325), print = 0, sum = 0;
    char magic[8];
    const char *wrong = NULL;
    FILE *file = fopen(f->o->checkpoint, "rb");
    *found = file != NULL;
    if (!file) return NULL;
    if (fread(magic, 1, 8, file) != 8 || memcmp(magic, PU__MAGIC, 8) != 0)
        wrong = "checkpoint: not a checkpoint of this library";
    else if (fread(&print, 1, sizeof print, file) != sizeof print || print != f->print)
        wrong = "checkpoint: of another model, data, precision, version or options";
    else if (!pu__fit_arrays(f, file, 0, &h) || fread(&sum, 1, sizeof sum, file) != sizeof sum || sum != h ||
             fgetc(file) != EOF)
        wrong = "checkpoint: damaged (checksum or length)";
    fclose(file);
    return wrong;
}

#endif

/* ---- one gradient of all the data of a step ---- */

/* The order of epoch e: Fisher and Yates with numbers of the counter-based generator. */
PU__FN void pu__fit_shuffle(pu__fit *f)
{
    const uint64_t seed = f->o->gradient.seed;
    uint32_t key[2], counter[4] = {0, 0, 0, 0}, word[4];
    pu_int i;
    key[0] = (uint32_t)seed, key[1] = (uint32_t)(seed >> 32) ^ 0x6f726465u; /* away from the streams of normals */
    counter[1] = (uint32_t)f->c.epoch;
    for (i = 0; i < f->N; i++) f->order[i] = i;
    for (i = f->N - 1; i > 0; i--) {
        pu_int j, keep;
        counter[0] = (uint32_t)i;
        pu_philox(key, counter, word);
        j = (pu_int)(((uint64_t)word[0] << 32 | word[1]) % (uint64_t)(i + 1));
        keep = f->order[i], f->order[i] = f->order[j], f->order[j] = keep;
    }
}

/* Gradient of n data (pick, or all) at theta into grad and, if wanted, se; solutions from and to x. */
PU__FN pu_status pu__fit_part(pu__fit *f, const pu_real *theta, const pu_int *pick, pu_int n, pu_real *grad, pu_real *se)
{
    const pu_int each = (f->K + 1) * f->D;
    pu_real *x = pick ? f->x_part : f->x;
    pu_options o = f->o->gradient;
    pu_data batch = *f->data;
    pu_status status;
    pu_int i;
    batch.n = n, batch.pick = pick;
    if (!f->fixed) o.step += (uint32_t)f->c.step;
    for (i = 0; i < n && x && pick; i++) pu__copy(x + i * each, f->x + pick[i] * each, each);
    if (x) o.x0 = x;
    f->c.gradients++;
    status = pu__model_run(f->model, f->set == theta && f->sets == f->model->sets ? NULL : theta, &batch, &o, f->ws, grad, 1, se,
                           x, &f->report->last);
    for (i = 0; i < n && x && pick && !pu__fatal(status); i++)
        pu__copy(f->x + pick[i] * each, x + i * each, each);
    return status;
}

#define PU__PARTS 64 /* that passes over n are shared out in, whatever the number of threads */

PU__FN pu_int pu__fit_share(const pu__fit *f, int part) { return f->n / PU__PARTS * part + pu__min(part, f->n % PU__PARTS); }

/* |x| */
PU__FN double pu__fit_norm(const pu__fit *f, const pu_real *x)
{
    double sum[PU__PARTS], all = 0;
    int p;
#ifdef PU__OPENMP
#pragma omp parallel for schedule(static) num_threads(f->threads) if (f->threads > 1)
#endif
    for (p = 0; p < PU__PARTS; p++) {
        const pu_int at = pu__fit_share(f, p);
        sum[p] = pu__dot(pu__fit_share(f, p + 1) - at, NULL, x + at, x + at);
    }
    for (p = 0; p < PU__PARTS; p++) all += sum[p];
    return sqrt(all);
}

/* Gradient of a step into g, with its objective and their errors. */
PU__FN pu_status pu__fit_gradient(pu__fit *f, const pu_real *theta, pu_real *g)
{
    const pu_report *last = &f->report->last;
    const pu_int parts = f->o->batch ? (f->o->accumulate ? f->o->accumulate : 1) : 1;
    double total = 0, objective = 0, variance = 0, errors = 0;
    int part, known = 1;
    pu_int i;
    pu_status status;
    f->exact = 1;
    if (f->square) memset(f->square, 0, (size_t)f->n * sizeof(double));
    for (part = 0; part < (int)parts; part++) {
        pu_real *to = part ? f->part : g;
        pu_int n = f->N;
        const pu_int *pick = NULL;
        if (f->order) {
            if ((pu_int)f->c.at >= f->N) f->c.epoch++, f->c.at = 0, pu__fit_shuffle(f);
            n = pu__min(f->o->batch, f->N - (pu_int)f->c.at), pick = f->order + (pu_int)f->c.at;
            f->c.at += (double)n;
        }
        status = pu__fit_part(f, theta, pick, n, to, f->se ? f->part_se : NULL);
        if (pu__fatal(status)) return status;
        f->exact = f->exact && last->served[PU_ITERATIVE] == 0;
        total += (double)n;
        objective += (double)n * (last->has_nll ? last->nll : last->q);
        variance += (double)n * (double)n * last->nll_se * last->nll_se;
        if (!last->has_nll || last->nll_se < 0) known = 0;
        for (i = 0; i < f->n && f->square; i++)
            f->square[i] += (double)n * (double)n * (double)f->part_se[i] * (double)f->part_se[i];
        for (i = 0; i < f->n && parts > 1; i++) g[i] = (part ? g[i] : 0) + (pu_real)n * to[i];
    }
    for (i = 0; i < f->n && parts > 1; i++) g[i] /= (pu_real)total;
    for (i = 0; i < f->n && f->square; i++) errors += f->square[i] / (total * total);
    f->c.objective = objective / total;
    f->c.objective_se = known ? sqrt(variance) / total : -1;
    f->c.gradient = pu__fit_norm(f, g);
    f->c.gradient_se = f->square ? sqrt(errors) : -1;
    return PU_OK;
}

/* A point where the numbers give out, as opposed to a mistake of the caller's: to be stepped back from. */
PU__FN int pu__fit_beyond(pu_status status)
{
    return status == PU_NONFINITE || status == PU_BREAKDOWN || status == PU_E_NOT_DEFINITE || status == PU_E_NOT_POSITIVE ||
           status == PU_E_NONFINITE; /* of canonical arrays that theta made; the data's would have shown at the first step */
}

/* ---- steps ---- */

PU__FN double pu__fit_rate(const pu_fit_options *o, double t)
{
    const double T = (double)(o->steps ? o->steps : 200), decay = o->decay > 0 ? o->decay : T / 10;
    const double rate = o->rate > 0 ? o->rate : o->optimizer == PU_ADAM ? 0.1 : o->optimizer == PU_SGD ? 0.01 : 1;
    switch (o->schedule) {
    case PU_RATE_COSINE: return rate * (1 + cos(3.14159265358979323846 * t / T)) / 2;
    case PU_RATE_HYPERBOLIC: return rate / (1 + t / decay);
    case PU_RATE_TAIL: return t < 0.8 * T ? rate : rate * (T - t) / (0.2 * T);
    case PU_RATE_CONSTANT: break;
    }
    return rate;
}

typedef struct { /* one step of Adam or SGD */
    int sgd;
    pu_real b1, a1, b2, a2, eps; /* a = 1 - b; SGD: b1 is the momentum, a1 = 1 */
    pu_real c1, rate;            /* sqrt(v) / c1 is the root of v without its bias; rate with that of m */
} pu__adam;

/* m and v with the gradient g taken in */
PU__FN void pu__adam_moments(const pu__adam *a, pu_int n, const pu_real *g, pu_real *PU__RESTRICT m, pu_real *PU__RESTRICT v)
{
    pu_int i;
    for (i = 0; i < n; i++) m[i] = a->b1 * m[i] + a->a1 * g[i];
    for (i = 0; i < n && !a->sgd; i++) v[i] = a->b2 * v[i] + a->a2 * (g[i] * g[i]);
}

/* to = theta - t rate m / (sqrt(v) + eps), m and v without bias; SGD: theta - t rate m */
PU__FN void pu__adam_move(const pu__adam *a, pu_real t, pu_int n, const pu_real *theta, const pu_real *m, const pu_real *v,
                          pu_real *PU__RESTRICT to)
{
    const pu_real step = t * a->rate;
    pu_int i;
    for (i = 0; i < n && a->sgd; i++) to[i] = theta[i] - step * m[i];
    for (i = 0; i < n && !a->sgd; i++) to[i] = theta[i] - step * m[i] / (a->c1 * pu__sqrt(v[i]) + a->eps);
}

/* before = theta + t d, halved until the model takes it; 0 when it never does. The direction d is that of Adam or SGD, whose
   moments are brought up to date on the way, or given. */
PU__FN int pu__fit_move(pu__fit *f, const pu__adam *a, const pu_real *d, double *t)
{
    int halvings, p;
    for (halvings = 0; halvings < 40; halvings++, *t /= 2) {
#ifdef PU__OPENMP
#pragma omp parallel for schedule(static) num_threads(f->threads) if (f->threads > 1)
#endif
        for (p = 0; p < PU__PARTS; p++) {
            const pu_int end = pu__fit_share(f, p + 1);
            pu_int i, at, n;
            for (at = pu__fit_share(f, p); at < end; at += n) { /* a chunk stays in cache for both */
                n = pu__min(PU__CHUNK, end - at);
                if (a && halvings == 0) pu__adam_moments(a, n, f->g + at, f->m + at, a->sgd ? NULL : f->v + at);
                if (a) pu__adam_move(a, (pu_real)*t, n, f->theta + at, f->m + at, a->sgd ? NULL : f->v + at, f->before + at);
                for (i = at; i < at + n && d; i++) f->before[i] = (pu_real)((double)f->theta[i] + *t * (double)d[i]);
            }
        }
        if (pu_model_set(f->model, f->before, NULL) == PU_OK) { /* report->last stays that of the gradient */
            f->set = f->before, f->sets = f->model->sets;
            return 1;
        }
        f->c.rejected++;
    }
    f->set = NULL;
    return 0;
}

/* Adam and SGD */
PU__FN pu_status pu__fit_first_order(pu__fit *f, int *stuck)
{
    const pu_fit_options *o = f->o;
    const int sgd = o->optimizer == PU_SGD;
    const double momentum = o->momentum < 0 ? 0 : o->momentum > 0 ? o->momentum : 0.9;
    const double b1 = sgd ? momentum : o->beta1 > 0 ? o->beta1 : 0.9, b2 = o->beta2 > 0 ? o->beta2 : 0.999;
    double t = 1;
    pu__adam a;
    pu_real *keep;
    pu_int i;
    int back;
    pu_status status = pu__fit_gradient(f, f->theta, f->g);
    for (back = 0; back < 40 && f->c.step > 0 && pu__fit_beyond(status); back++) { /* half way back, until there is a gradient
                                                                                      */
        for (i = 0; i < f->n; i++) f->theta[i] = (f->theta[i] + f->before[i]) / 2;
        f->set = NULL;
        f->c.rejected++;
        status = pu__fit_gradient(f, f->theta, f->g);
    }
    if (status) return status;
    if (f->compare && f->c.objective_se == 0 && f->c.objective < f->c.best) { /* of the point before this step */
        f->c.best = f->c.objective, f->c.best_step = f->c.step;
        pu__copy(f->best, f->theta, f->n);
    }
    f->c.rate = pu__fit_rate(o, f->c.step);
    a.sgd = sgd, a.b1 = (pu_real)b1, a.a1 = sgd ? 1 : (pu_real)(1 - b1), a.b2 = (pu_real)b2, a.a2 = (pu_real)(1 - b2);
    a.eps = (pu_real)(o->epsilon > 0 ? o->epsilon : 1e-8);
    a.c1 = (pu_real)(1 / sqrt(1 - pow(b2, f->c.step + 1)));
    a.rate = (pu_real)(f->c.rate / (sgd ? 1 : 1 - pow(b1, f->c.step + 1)));
    *stuck = !pu__fit_move(f, &a, NULL, &t);
    if (*stuck) pu__copy(f->before, f->theta, f->n);
    else keep = f->theta, f->theta = f->before, f->before = keep;
    return PU_OK;
}

/* L-BFGS. d = -H g by the two-loop recursion, then a step t with
     f(t) <= f + 1e-4 t g'd (only where f is exact; with fixed probes the gradient is not quite that of f) and
     |g(t)'d| <= 0.9 |g'd|.
   Near the minimum the changes of f drown in its rounding long before the gradient does: within 1e-10 of each other two values
   count as equal, and the second condition decides alone (as in Hager and Zhang 2005). */
PU__FN pu_status pu__fit_lbfgs(pu__fit *f, int *stuck)
{
    const pu_int n = f->n, h = f->pairs;
    pu_real *d = f->m, *gn = f->v;
    double *a = f->rho + h, slope, t, lo = 0, hi = -1, value, yy;
    const double noise = pu__max(16 * (double)PU__EPS, 1e-10);
    pu_int i, j, q;
    int tries;
    pu_status status;
    if (!(f->c.known > 0)) {
        status = pu__fit_gradient(f, f->theta, f->g);
        if (status) return status;
        f->c.known = 1;
    }
    value = f->c.objective;
    for (i = 0; i < n; i++) d[i] = -f->g[i];
    for (q = 0; q < (pu_int)f->c.pairs; q++) { /* newest first */
        j = ((pu_int)f->c.newest - q + h) % h;
        a[j] = f->rho[j] * pu__dot(n, NULL, f->S + j * n, d);
        pu__axpy(n, (pu_real)-a[j], f->Y + j * n, d);
    }
    if (f->c.pairs > 0) { /* the newest pair's s'y / y'y */
        j = (pu_int)f->c.newest, yy = pu__dot(n, NULL, f->Y + j * n, f->Y + j * n);
        for (i = 0; i < n; i++) d[i] = (pu_real)((double)d[i] / (f->rho[j] * yy));
    }
    for (q = (pu_int)f->c.pairs - 1; q >= 0; q--) {
        j = ((pu_int)f->c.newest - q + h) % h;
        pu__axpy(n, (pu_real)(a[j] - f->rho[j] * pu__dot(n, NULL, f->Y + j * n, d)), f->S + j * n, d);
    }
    slope = pu__dot(n, NULL, f->g, d);
    if (!(slope < 0)) { /* no descent: forget the past */
        f->c.pairs = 0;
        for (i = 0; i < n; i++) d[i] = -f->g[i];
        slope = -pu__dot(n, NULL, f->g, f->g);
    }
    f->c.rate = t = (f->c.pairs > 0 ? 1 : 1 / pu__max(1, sqrt(-slope))) * pu__fit_rate(f->o, f->c.step);
    for (tries = 0; tries < 20; tries++) {
        const double asked = t;
        double now, curve;
        if (!pu__fit_move(f, NULL, d, &t)) break;
        if (t < asked) hi = asked;
        status = pu__fit_gradient(f, f->before, gn);
        if (pu__fit_beyond(status)) {
            f->c.rejected++;
            hi = t, t = (lo + hi) / 2;
            continue;
        }
        if (status) return status;
        now = pu__dot(n, NULL, gn, d);
        curve = f->exact ? value + 1e-4 * t * slope + noise * fabs(value) : HUGE_VAL;
        if (!(f->c.objective <= curve) || now > -0.9 * slope) hi = t;
        else if (now < 0.9 * slope && hi < 0 && tries < 10) lo = t;
        else { /* taken */
            const pu_int next = ((pu_int)f->c.newest + 1) % h;
            double sy = 0, ss = 0;
            pu_real *s = f->S + next * n, *y = f->Y + next * n;
            for (i = 0; i < n; i++) s[i] = f->before[i] - f->theta[i], y[i] = gn[i] - f->g[i];
            sy = pu__dot(n, NULL, s, y), ss = pu__dot(n, NULL, s, s), yy = pu__dot(n, NULL, y, y);
            if (sy > 1e-10 * sqrt(ss * yy)) {
                f->rho[next] = 1 / sy, f->c.newest = (double)next;
                if ((pu_int)f->c.pairs < h) f->c.pairs++;
            }
            pu__copy(f->theta, f->before, n);
            pu__copy(f->g, gn, n);
            f->c.rate = t;
            if (f->compare && f->exact) { /* lower by the rule of the search, up to rounding */
                f->c.best = f->c.objective, f->c.best_step = f->c.step + 1;
                pu__copy(f->best, f->theta, n);
            }
            return PU_OK;
        }
        t = hi < 0 ? 2 * t : (lo + hi) / 2;
    }
    *stuck = 1; /* at rounding level, or a gradient that is not one */
    f->c.objective = value, f->c.gradient = pu__fit_norm(f, f->g);
    return PU_OK;
}

/* K and I of PU_AUTO, once for a whole fit: the gradients of its steps must be comparable, and a pilot costs as much as some of
   them. */
PU__FN pu_status pu__tune_once(pu_model *model, const pu_data *data, pu_int n, pu_options *o, pu_workspace *ws,
                               pu_report *report)
{
    pu_options used = pu__model_options(model, o), tuned = used;
    pu_data few = *data;
    pu_real some;
    const pu_results want = pu__model_wants(model, &used, &some);
    pu_status status;
    few.n = pu__min(n, data->n);
    status = pu_tune(&model->lgm, &few, &used, ws, &want, &tuned, report);
    if (!status) o->samples = tuned.samples, o->solve.iterations = tuned.solve.iterations;
    return status;
}

/* ---- the loop ---- */

PU__FN pu_status pu__fit_fail(pu_fit_report *report, pu_status status, const char *what)
{
    (void)pu__fail(&report->last, status, what, -1, -1);
    report->status = status, report->where = report->last.where;
    return status;
}

PU__FN pu_status pu__fit_check(const pu_model *model, const pu_data *data, const pu_fit_options *o, const pu_real *theta,
                               pu_fit_report *report)
{
    if (!model) return pu__fit_fail(report, PU_E_NULL, "model");
    if (!data) return pu__fit_fail(report, PU_E_NULL, "data");
    if (!theta) return pu__fit_fail(report, PU_E_NULL, "theta");
    if (data->pick) return pu__fit_fail(report, PU_E_ARGUMENT, "data.pick (the fit picks)");
    if (o->steps < 0) return pu__fit_fail(report, PU_E_ARGUMENT, "fit.steps");
    if ((int)o->optimizer < PU_ADAM || (int)o->optimizer > PU_LBFGS)
        return pu__fit_fail(report, PU_E_ARGUMENT, "fit.optimizer");
    if ((int)o->schedule < PU_RATE_CONSTANT || (int)o->schedule > PU_RATE_TAIL)
        return pu__fit_fail(report, PU_E_ARGUMENT, "fit.schedule");
    if (!(o->rate >= 0) || !pu__finite_double(o->rate)) return pu__fit_fail(report, PU_E_ARGUMENT, "fit.rate");
    if (!(o->beta1 >= 0 && o->beta1 < 1)) return pu__fit_fail(report, PU_E_ARGUMENT, "fit.beta1");
    if (!(o->beta2 >= 0 && o->beta2 < 1)) return pu__fit_fail(report, PU_E_ARGUMENT, "fit.beta2");
    if (!(o->epsilon >= 0)) return pu__fit_fail(report, PU_E_ARGUMENT, "fit.epsilon");
    if (!(o->momentum < 1)) return pu__fit_fail(report, PU_E_ARGUMENT, "fit.momentum");
    if (!(o->tolerance >= 0)) return pu__fit_fail(report, PU_E_ARGUMENT, "fit.tolerance");
    if (o->batch < 0 || o->batch > data->n) return pu__fit_fail(report, PU_E_ARGUMENT, "fit.batch");
    if (o->accumulate < 0 || o->accumulate > INT32_MAX || (o->accumulate > 1 && !o->batch))
        return pu__fit_fail(report, PU_E_ARGUMENT, "fit.accumulate (of mini-batches)");
    if (o->history < 0 || o->history > 10000) return pu__fit_fail(report, PU_E_ARGUMENT, "fit.history");
    if (o->batch && ((o->gradient.solve.m && o->gradient.solve.m_stride != PU_NONE) || o->gradient.solve.step))
        return pu__fit_fail(report, PU_E_ARGUMENT, "fit.gradient.solve.m or step (of each datum: not with mini-batches)");
    if (o->validate_every < 0) return pu__fit_fail(report, PU_E_ARGUMENT, "fit.validate_every");
    if (o->patience < 0) return pu__fit_fail(report, PU_E_ARGUMENT, "fit.patience");
    if (o->checkpoint_every < 0) return pu__fit_fail(report, PU_E_ARGUMENT, "fit.checkpoint_every");
    if (!(o->seconds >= 0)) return pu__fit_fail(report, PU_E_ARGUMENT, "fit.seconds");
    if (o->seconds > 0 && !o->clock) return pu__fit_fail(report, PU_E_NULL, "fit.clock");
    if (o->warm_start && !o->fixed_probes)
        return pu__fit_fail(report, PU_E_ARGUMENT, "fit.warm_start (only with fixed_probes)");
    if (o->warm_start && (o->gradient.samples == PU_AUTO || o->gradient.solve.iterations == PU_AUTO))
        return pu__fit_fail(report, PU_E_ARGUMENT, "fit.warm_start (not with PU_AUTO; pu_tune first)");
    if (o->gradient.x0 || o->gradient.delta)
        return pu__fit_fail(report, PU_E_ARGUMENT, "fit.gradient.x0 or delta (of the fit itself)");
    if (o->optimizer == PU_LBFGS && o->batch) return pu__fit_fail(report, PU_E_ARGUMENT, "fit.batch (L-BFGS takes all data)");
    if (o->optimizer == PU_LBFGS && !o->fixed_probes && o->gradient.kind != PU_EXACT && o->gradient.engine != PU_ENGINE_AUTO)
        return pu__fit_fail(report, PU_E_ARGUMENT, "fit.fixed_probes (L-BFGS: or an exact gradient)");
    if (o->resume && !o->checkpoint) return pu__fit_fail(report, PU_E_NULL, "fit.checkpoint");
#ifdef PU_NO_STDIO
    if (o->checkpoint) return pu__fit_fail(report, PU_E_UNSUPPORTED, "fit.checkpoint (PU_NO_STDIO)");
#endif
    return PU_OK;
}

/* memory: from the front of a fixed block, whose rest is for the gradients; else a block of its own */
PU__FN pu_status pu__front(pu__arena *arena, pu_workspace *ws, pu_workspace *own, pu_workspace *rest, pu_report *report)
{
    const size_t need = pu__arena_bytes(arena);
    memset(own, 0, sizeof *own), memset(rest, 0, sizeof *rest);
    own->allocator = rest->allocator = ws->allocator;
    if (!ws->fixed) return pu__arena_open(arena, own, report);
    own->fixed = rest->fixed = 1, own->block = ws->block, own->bytes = ws->bytes;
    if (!arena->overflow && need <= ws->bytes) rest->block = (unsigned char *)ws->block + need, rest->bytes = ws->bytes - need;
    return pu__arena_open(arena, own, report);
}

PU__FN void pu__fit_tell(pu__fit *f, double start)
{
    pu_fit_report *r = f->report;
    r->step = (pu_int)f->c.step, r->epoch = (pu_int)f->c.epoch, r->gradients = (pu_int)f->c.gradients,
    r->rejected = (pu_int)f->c.rejected;
    r->objective = f->c.objective, r->objective_se = f->c.objective_se, r->gradient = f->c.gradient,
    r->gradient_se = f->c.gradient_se;
    r->rate = f->c.rate, r->validation = f->c.validation, r->best = f->c.best, r->best_step = (pu_int)f->c.best_step;
    r->theta = f->theta;
    if (f->o->clock) {
        const double done = (double)(r->step - r->resumed);
        r->seconds = f->o->clock(f->o->user) - start;
        r->steps_per_second = r->seconds > 0 ? done / r->seconds : 0;
        r->seconds_left = r->steps_per_second > 0 ? (double)(r->steps - r->step) / r->steps_per_second : -1;
        if (f->o->seconds > 0 && r->seconds_left > f->o->seconds - r->seconds)
            r->seconds_left = pu__max(0, f->o->seconds - r->seconds);
    }
}

/* After a step: validation, best point, reasons to end. 1: stop (report->stop says why) */
PU__FN int pu__fit_after(pu__fit *f, double start)
{
    const pu_fit_options *o = f->o;
    pu_fit_report *r = f->report;
    const pu_int every = o->validate_every ? o->validate_every : 10;
    const int quiet = f->exact || f->fixed; /* no fresh noise in the gradient: the tolerance is absolute */
    int end = 0;
    if (o->validate && ((pu_int)f->c.step % every == 0 || (pu_int)f->c.step == r->steps)) {
        f->c.validation = o->validate(f->model, f->theta, o->user);
        if (f->c.validation < f->c.best) {
            f->c.best = f->c.validation, f->c.best_step = f->c.step, f->c.stale = 0;
            pu__copy(f->best, f->theta, f->n);
        } else f->c.stale++;
        if (f->c.validation != f->c.validation || (o->patience > 0 && (pu_int)f->c.stale >= o->patience))
            end = 1, r->stop = PU_FIT_VALIDATION;
    }
    if (o->tolerance > 0) {
        const double limit = quiet ? o->tolerance : o->tolerance * f->c.gradient_se;
        f->c.within = f->c.gradient <= limit ? f->c.within + 1 : 0;
        if (!end && (int)f->c.within >= (quiet ? 1 : 3)) end = 1, r->stop = PU_FIT_GRADIENT;
    }
    pu__fit_tell(f, start);
    if (!end && o->seconds > 0 && r->seconds >= o->seconds) end = 1, r->stop = PU_FIT_TIME;
    if (o->progress && o->progress(r, o->user) && !end) end = 1, r->stop = PU_FIT_CALLBACK;
    return end;
}

PU__FN pu_status pu__fit_loop(pu__fit *f, double start)
{
    const pu_fit_options *o = f->o;
    pu_fit_report *r = f->report;
    const pu_int every = o->checkpoint_every ? o->checkpoint_every : 10;
    int end = 0, stuck = 0;
    char path[1024];
    (void)path, (void)every;
    while (!end && (pu_int)f->c.step < r->steps) {
        pu_status status = o->optimizer == PU_LBFGS ? pu__fit_lbfgs(f, &stuck) : pu__fit_first_order(f, &stuck);
        if (status) {
            r->status = status, r->where = r->last.where;
            pu__fit_tell(f, start);
            return status;
        }
        if (stuck) {
            end = 1, r->stop = PU_FIT_STUCK;
            pu__fit_tell(f, start);
        } else {
            f->c.step++;
            end = pu__fit_after(f, start);
        }
#ifndef PU_NO_STDIO
        if (o->checkpoint && (end || (pu_int)f->c.step % every == 0 || (pu_int)f->c.step == r->steps)) {
            const char *wrong = pu__fit_save(f, path, sizeof path);
            if (wrong) return pu__fit_fail(r, PU_E_FILE, wrong);
        }
#endif
    }
    return PU_OK;
}

PU__FN void pu__fit_sizes(pu__fit *f, pu_int K)
{
    const pu_fit_options *o = f->o;
    f->n = f->model->params, f->N = f->data->n, f->D = f->model->lgm.Gamma->rows, f->K = K;
    f->pairs = o->history ? o->history : 10;
    f->fixed = o->fixed_probes != 0;
    f->se = o->tolerance > 0 && !f->fixed && o->gradient.kind != PU_EXACT;
    f->compare = !o->batch && !o->validate;
    f->threads = pu__threads(o->gradient.threads, 3.0 * (double)f->n);
}

PU_DEF pu_status pu_fit_bytes(pu_model *model, const pu_data *data, const pu_fit_options *options, size_t *bytes,
                              pu_report *report)
{
    pu_report local;
    pu_fit_options o;
    pu__arena arena = PU__ARENA;
    pu__fit f;
    size_t gradients = 0;
    pu_status status;
    if (!report) report = &local;
    memset(&o, 0, sizeof o), memset(&f, 0, sizeof f);
    if (options) o = *options;
    f.model = model, f.data = data, f.o = &o;
    if (!bytes) {
        pu__report_clear(report);
        return pu__refuse(report, PU_E_NULL, "bytes");
    }
    f.se = o.tolerance > 0 && !o.fixed_probes && o.gradient.kind != PU_EXACT;
    status = pu_model_gradient_bytes(model, data, &o.gradient, f.se, &gradients, report); /* all data as one batch: no batch
                                                                                             needs more */
    if (status) return status;
    pu__fit_sizes(&f, report->samples);
    pu__fit_layout(&f, &arena);
    if (o.warm_start) (void)pu__far_blocks(&arena, 1, f.N * (f.K + 1), f.D); /* pu_gradient stages the solutions */
    report->bytes = *bytes = pu__add(pu__arena_bytes(&arena), gradients, &arena.overflow);
    return arena.overflow ? pu__refuse(report, PU_E_OVERFLOW, "workspace") : PU_OK;
}

PU_DEF pu_status pu_fit(pu_model *model, const pu_data *data, const pu_fit_options *options, pu_workspace *ws, pu_real *theta,
                        pu_fit_report *report)
{
    pu_fit_report local;
    pu_fit_options o;
    pu_workspace mine, own, rest;
    pu__arena arena = PU__ARENA;
    pu__fit f;
    double start = 0;
    size_t bytes = 0;
    pu_status status;
    if (!report) report = &local;
    memset(report, 0, sizeof *report), memset(&o, 0, sizeof o), memset(&f, 0, sizeof f), memset(&mine, 0, sizeof mine);
    if (options) o = *options;
    if (!ws) ws = &mine;
    pu__report_clear(&report->last);
    report->where = report->last.where;
    report->seconds = report->steps_per_second = report->seconds_left = -1;
    report->steps = o.steps ? o.steps : 200, report->best_step = -1;
    status = pu__fit_check(model, data, &o, theta, report);
    if (status) return status;
    status = pu_model_set(model, theta, &report->last);
    if (!status) status = pu_model_gradient_bytes(model, data, &o.gradient, 0, &bytes, &report->last); /* everything else, too
                                                                                                          */
    if (status) {
        report->status = status, report->where = report->last.where;
        return status;
    }
    f.model = model, f.data = data, f.o = &o, f.report = report;
    pu__fit_sizes(&f, report->last.samples);
    pu__fit_layout(&f, &arena);
    status = pu__front(&arena, ws, &own, &rest, &report->last);
    if (status) return pu__fit_fail(report, status, "workspace");
    f.ws = ws->fixed ? &rest : ws;
    pu__fit_layout(&f, &arena);
    pu__copy(f.theta, theta, f.n);
    if (f.best) pu__copy(f.best, theta, f.n);
    pu__copy(f.before, theta, f.n);
    pu__zeros(f.m, f.n), pu__zeros(f.g, f.n);
    if (f.v) pu__zeros(f.v, f.n);
    if (f.S)
        pu__zeros(f.S, f.pairs * f.n), pu__zeros(f.Y, f.pairs * f.n);
    if (f.rho) memset(f.rho, 0, (size_t)(2 * f.pairs) * sizeof(double));
    if (f.x) pu__zeros(f.x, f.N * (f.K + 1) * f.D);
    f.c.best = HUGE_VAL, f.c.best_step = -1, f.c.validation = (double)NAN;
#ifndef PU_NO_STDIO
    f.print = pu__fit_print(&f);
    if (o.resume) {
        int found = 0;
        const pu__counts fresh = f.c;
        const char *wrong = pu__fit_load(&f, &found);
        if (wrong) status = pu__fit_fail(report, PU_E_FILE, wrong), f.c = fresh; /* what was read means nothing */
        report->resumed = found && !wrong ? (int)f.c.step : 0;
    }
#endif
    if (!status && pu__to_tune(&o.gradient)) {
        if (!(f.c.samples > 0)) {
            const pu_int parts = o.accumulate ? o.accumulate : 1;
            status = pu__tune_once(model, data, o.batch ? pu__min(o.batch, f.N / parts + 1) * parts : f.N, &o.gradient, f.ws,
                                   &report->last);
            if (status) report->status = status, report->where = report->last.where;
            f.c.samples = (double)o.gradient.samples, f.c.iterations = (double)o.gradient.solve.iterations;
        }
        o.gradient.samples = (pu_int)f.c.samples, o.gradient.solve.iterations = (pu_int)f.c.iterations;
    }
    if (!status && f.order) pu__fit_shuffle(&f);
    if (o.clock) start = o.clock(o.user);
    pu__fit_tell(&f, start);
    if (!status) {
        status = pu__fit_loop(&f, start);
        if (status != PU_E_FILE || f.c.step > (double)report->resumed) /* whatever happened, the best point so far */
            pu__copy(theta, f.c.best_step >= 0 ? f.best : f.theta, f.n);
        if (!pu__fatal(status)) (void)pu_model_set(model, theta, NULL);
    }
    report->theta = theta;
    pu_workspace_free(&own), pu_workspace_free(&mine);
    return status;
}

/* (N H)^-1 in full (`full`), or the roots of its diagonal */
PU__FN pu_status pu__fit_covariance(pu_model *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                                    const pu_real *theta, int full, pu_real *out, pu_report *report)
{
    pu_report local;
    pu_workspace mine, own, rest;
    pu__arena arena = PU__ARENA;
    pu_real *at = NULL, *g = NULL, *column = NULL;
    double *H = NULL;
    const double step = pow((double)PU__EPS, 1.0 / 3);
    pu_options fixed;
    pu_status status;
    pu_int n, i, j, l, pass;
    if (!report) report = &local;
    memset(&mine, 0, sizeof mine);
    if (!ws) ws = &mine;
    status = pu_model_set(model, theta, report);
    if (status) return status;
    if (!out) return pu__refuse(report, PU_E_NULL, full ? "covariance" : "se");
    n = model->params;
    for (pass = 0; pass < 2; pass++) {
        at = pu__reals(&arena, n, 1), g = pu__reals(&arena, n, 1), column = pu__reals(&arena, n, 1);
        H = (double *)pu__take(&arena, n, n, sizeof(double));
        if (pass == 0) status = pu__front(&arena, ws, &own, &rest, report);
        if (status) return status;
    }
    memset(&fixed, 0, sizeof fixed);
    if (options) fixed = *options;
    if (pu__to_tune(&fixed)) status = pu__tune_once(model, data, data->n, &fixed, ws->fixed ? &rest : ws, report);
    pu__copy(at, theta, n);
    for (i = 0; i < n && !status; i++) {
        double h = step * pu__max(1, fabs((double)theta[i]));
        at[i] = (pu_real)((double)theta[i] + h);
        h = (double)at[i];
        status = pu_model_gradient(model, at, data, &fixed, ws->fixed ? &rest : ws, column, NULL, report);
        if (pu__fatal(status)) break;
        at[i] = (pu_real)(2 * (double)theta[i] - h), h -= (double)at[i]; /* what was really added, twice */
        status = pu_model_gradient(model, at, data, &fixed, ws->fixed ? &rest : ws, g, NULL, report);
        if (pu__fatal(status)) break;
        status = PU_OK;
        at[i] = theta[i];
        for (j = 0; j < n; j++) H[i * n + j] = ((double)column[j] - (double)g[j]) / h;
    }
    if (!status) { /* L L' = (H + H')/2, then L^-1 row by row: the diagonal of H^-1 is the squared columns of L^-1 */
        for (i = 0; i < n; i++)
            for (j = 0; j <= i; j++) H[i * n + j] = (H[i * n + j] + H[j * n + i]) / 2;
        for (i = 0; i < n && !status; i++)
            for (j = 0; j <= i && !status; j++) {
                double s = H[i * n + j];
                for (l = 0; l < j; l++) s -= H[i * n + l] * H[j * n + l];
                if (j < i) H[i * n + j] = s / H[j * n + j];
                else if (s > 0 && pu__finite_double(s)) H[i * n + i] = sqrt(s);
                else status = pu__fail(report, PU_E_NOT_DEFINITE, "second derivative in theta", -1, i);
            }
    }
    for (j = 0; j < n && !status; j++)
        for (i = j; i < n; i++) { /* column j of L^-1, kept above the diagonal, in row j */
            double s = i == j;
            for (l = j; l < i; l++) s -= H[i * n + l] * H[j * n + l];
            H[j * n + i] = s / H[i * n + i];
        }
    for (i = 0; i < n && !status; i++) /* H^-1 = L^-T L^-1 */
        for (j = full ? 0 : i; j <= i; j++) {
            double sum = 0;
            for (l = i; l < n; l++) sum += H[i * n + l] * H[j * n + l];
            sum /= (double)data->n;
            if (full) out[i * n + j] = out[j * n + i] = (pu_real)sum;
            else out[i] = (pu_real)sqrt(sum);
        }
    (void)pu_model_set(model, theta, NULL);
    pu_workspace_free(&own), pu_workspace_free(&mine);
    return status;
}

PU_DEF pu_status pu_fit_errors(pu_model *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                               const pu_real *theta, pu_real *se, pu_report *report)
{
    return pu__fit_covariance(model, data, options, ws, theta, 0, se, report);
}

PU_DEF pu_status pu_fit_covariance(pu_model *model, const pu_data *data, const pu_options *options, pu_workspace *ws,
                                   const pu_real *theta, pu_real *covariance, pu_report *report)
{
    return pu__fit_covariance(model, data, options, ws, theta, 1, covariance, report);
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
