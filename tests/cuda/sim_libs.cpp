/* sim_libs.cpp - cuBLAS and cuFFT behind NVIDIA's prototypes, served by a CBLAS and FFTW

   Calls are checked and enqueued on the stream of their handle like kernels. What they read and write must lie in device
   memory (or pinned); work areas they were given are overwritten with NaNs, as the real libraries may use them at will.

   CONTENTS: >>cublas  >>cufft
*/
#include "sim_internal.h"

#include <cblas.h>
#include <cublas_v2.h>
#include <cufft.h>
#include <fftw3.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

namespace {

/* Memory a library call is going to use. On a device the call would crash, or do worse. */
void need_device(const char *function, const char *what, const void *p, size_t bytes)
{
    if (bytes == 0 || sim_is_device(p, bytes) || sim_is_pinned(p, bytes)) return;
    sim::fault("library call outside device memory", "%s: %s, %zu bytes at %p, is not within one allocation", function, what,
               bytes, p);
}

/* ------------------------------------------------------------------------------------------------
   >>cublas
   ------------------------------------------------------------------------------------------------ */

struct blas_handle {
    cudaStream_t stream;
    cublasPointerMode_t pointer_mode;
    cublasMath_t math_mode;
    cublasAtomicsMode_t atomics_mode;
    void *workspace;
    size_t workspace_bytes;
};
std::set<blas_handle *> handles;

blas_handle *find_handle(cublasHandle_t handle)
{
    auto found = handles.find((blas_handle *)handle);
    return found == handles.end() ? NULL : *found;
}

cublasStatus_t blas_status(cudaError_t error)
{
    return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

bool valid(cublasOperation_t op)
{
    return op == CUBLAS_OP_N || op == CUBLAS_OP_T || op == CUBLAS_OP_C;
}

CBLAS_TRANSPOSE transpose(cublasOperation_t op)
{
    return op == CUBLAS_OP_N ? CblasNoTrans : CblasTrans;
}

/* alpha or beta: its value now, or in device mode when the call runs */
template <class T> struct scalar {
    const T *device;
    T value;
    scalar(const blas_handle *h, const char *function, const char *what, const T *p)
    {
        device = h->pointer_mode == CUBLAS_POINTER_MODE_DEVICE ? p : NULL;
        value = device ? T(0) : *p;
        if (device) need_device(function, what, p, sizeof *p);
    }
    T get() const
    {
        return device ? *device : value;
    }
    bool surely_zero() const
    {
        return !device && value == T(0);
    }
};

/* Bytes from the first to the last entry of a column-major matrix, or of a batch of them */
template <class T> size_t span(int rows, int columns, int ld, long long stride, int batch)
{
    if (rows <= 0 || columns <= 0 || batch <= 0) return 0;
    return ((size_t)(columns - 1) * (size_t)ld + (size_t)rows + (size_t)(batch - 1) * (size_t)stride) * sizeof(T);
}

void gemm_one(CBLAS_TRANSPOSE a, CBLAS_TRANSPOSE b, int m, int n, int k, double alpha, const double *A, int lda,
              const double *B, int ldb, double beta, double *C, int ldc)
{
    cblas_dgemm(CblasColMajor, a, b, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
}

void gemm_one(CBLAS_TRANSPOSE a, CBLAS_TRANSPOSE b, int m, int n, int k, float alpha, const float *A, int lda, const float *B,
              int ldb, float beta, float *C, int ldc)
{
    cblas_sgemm(CblasColMajor, a, b, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
}

template <class T>
cublasStatus_t gemm(const char *function, cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, int m, int n,
                    int k, const T *alpha_at, const T *A, int lda, long long stride_a, const T *B, int ldb, long long stride_b,
                    const T *beta_at, T *C, int ldc, long long stride_c, int batch)
{
    blas_handle *h = find_handle(handle);
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!valid(opa) || !valid(opb) || m < 0 || n < 0 || k < 0 || batch < 0) return CUBLAS_STATUS_INVALID_VALUE;
    int rows_a = opa == CUBLAS_OP_N ? m : k, columns_a = opa == CUBLAS_OP_N ? k : m;
    int rows_b = opb == CUBLAS_OP_N ? k : n, columns_b = opb == CUBLAS_OP_N ? n : k;
    if (lda < std::max(1, rows_a) || ldb < std::max(1, rows_b) || ldc < std::max(1, m)) return CUBLAS_STATUS_INVALID_VALUE;
    if (!alpha_at || !beta_at || stride_a < 0 || stride_b < 0 || stride_c < 0) return CUBLAS_STATUS_INVALID_VALUE;
    if (m == 0 || n == 0 || batch == 0) return CUBLAS_STATUS_SUCCESS;
    scalar<T> alpha(h, function, "alpha", alpha_at), beta(h, function, "beta", beta_at);
    if (!alpha.surely_zero()) {
        need_device(function, "A", A, span<T>(rows_a, columns_a, lda, stride_a, batch));
        need_device(function, "B", B, span<T>(rows_b, columns_b, ldb, stride_b, batch));
    }
    need_device(function, "C", C, span<T>(m, n, ldc, stride_c, batch));
    if (batch > 1 && (size_t)stride_c * sizeof(T) < span<T>(m, n, ldc, 0, 1))
        sim::fault("library call writes one place twice", "%s: the matrices C of the batch overlap", function);
    void *workspace = h->workspace;
    size_t workspace_bytes = h->workspace_bytes;
    return blas_status(sim::enqueue_library_call(h->stream, function, [=]() {
        if (workspace) sim::fill(workspace, workspace_bytes, sim::UNINITIALISED);
        for (int i = 0; i < batch; i++)
            gemm_one(transpose(opa), transpose(opb), m, n, k, alpha.get(), A + i * stride_a, lda, B + i * stride_b, ldb,
                     beta.get(), C + i * stride_c, ldc);
    }));
}

} // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
    if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
    *handle = NULL;
    if (sim::device_status() != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (sim::allocation_fails()) return CUBLAS_STATUS_ALLOC_FAILED;
    blas_handle *h = new blas_handle();
    handles.insert(h);
    sim::count_object(sim::CUBLAS_HANDLE, 1);
    *handle = (cublasHandle_t)h;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
    blas_handle *h = find_handle(handle);
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    handles.erase(h);
    delete h;
    sim::count_object(sim::CUBLAS_HANDLE, -1);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
    blas_handle *h = find_handle(handle);
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!sim::valid_stream(stream)) return CUBLAS_STATUS_INVALID_VALUE;
    h->stream = stream;
    h->workspace = NULL; /* the real library forgets it here, too */
    h->workspace_bytes = 0;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t *stream)
{
    blas_handle *h = find_handle(handle);
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    *stream = h->stream;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes)
{
    blas_handle *h = find_handle(handle);
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    if ((uintptr_t)workspace % 256) return CUBLAS_STATUS_INVALID_VALUE;
    need_device("cublasSetWorkspace", "the workspace", workspace, bytes);
    h->workspace = bytes ? workspace : NULL;
    h->workspace_bytes = workspace ? bytes : 0;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode)
{
    blas_handle *h = find_handle(handle);
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    h->pointer_mode = mode;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t *mode)
{
    blas_handle *h = find_handle(handle);
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    *mode = h->pointer_mode;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
{
    blas_handle *h = find_handle(handle);
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    h->math_mode = mode;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t *mode)
{
    blas_handle *h = find_handle(handle);
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    *mode = h->math_mode;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode)
{
    blas_handle *h = find_handle(handle);
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    h->atomics_mode = mode;
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasGetStatusString(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "not a cuBLAS handle, or no device";
    case CUBLAS_STATUS_ALLOC_FAILED: return "out of memory";
    case CUBLAS_STATUS_INVALID_VALUE: return "a parameter is out of range";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "the device could not run the call";
    default: return "unknown cuBLAS status";
    }
}

cublasStatus_t cublasDgemm_v2(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k,
                              const double *alpha, const double *A, int lda, const double *B, int ldb, const double *beta,
                              double *C, int ldc)
{
    return gemm("cublasDgemm", handle, opa, opb, m, n, k, alpha, A, lda, 0, B, ldb, 0, beta, C, ldc, 0, 1);
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k,
                              const float *alpha, const float *A, int lda, const float *B, int ldb, const float *beta, float *C,
                              int ldc)
{
    return gemm("cublasSgemm", handle, opa, opb, m, n, k, alpha, A, lda, 0, B, ldb, 0, beta, C, ldc, 0, 1);
}

cublasStatus_t cublasDgemmStridedBatched(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, int m, int n,
                                         int k, const double *alpha, const double *A, int lda, long long stride_a,
                                         const double *B, int ldb, long long stride_b, const double *beta, double *C, int ldc,
                                         long long stride_c, int batch)
{
    return gemm("cublasDgemmStridedBatched", handle, opa, opb, m, n, k, alpha, A, lda, stride_a, B, ldb, stride_b, beta, C, ldc,
                stride_c, batch);
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, int m, int n,
                                         int k, const float *alpha, const float *A, int lda, long long stride_a, const float *B,
                                         int ldb, long long stride_b, const float *beta, float *C, int ldc, long long stride_c,
                                         int batch)
{
    return gemm("cublasSgemmStridedBatched", handle, opa, opb, m, n, k, alpha, A, lda, stride_a, B, ldb, stride_b, beta, C, ldc,
                stride_c, batch);
}

} // extern "C"

/* ------------------------------------------------------------------------------------------------
   >>cufft
   ------------------------------------------------------------------------------------------------ */

namespace {

/* Names of FFTW's two precisions in one place */
struct in_double {
    typedef fftw_complex complex;
    typedef fftw_plan plan;
    static plan make(int rank, const int *n, int batch, complex *in, const int *inembed, int istride, int idist, complex *out,
                     const int *onembed, int ostride, int odist, int sign)
    {
        return fftw_plan_many_dft(rank, n, batch, in, inembed, istride, idist, out, onembed, ostride, odist, sign,
                                  FFTW_ESTIMATE | FFTW_UNALIGNED);
    }
    static void run(plan p, complex *in, complex *out)
    {
        fftw_execute_dft(p, in, out);
    }
    static void destroy(plan p)
    {
        fftw_destroy_plan(p);
    }
};

struct in_float {
    typedef fftwf_complex complex;
    typedef fftwf_plan plan;
    static plan make(int rank, const int *n, int batch, complex *in, const int *inembed, int istride, int idist, complex *out,
                     const int *onembed, int ostride, int odist, int sign)
    {
        return fftwf_plan_many_dft(rank, n, batch, in, inembed, istride, idist, out, onembed, ostride, odist, sign,
                                   FFTW_ESTIMATE | FFTW_UNALIGNED);
    }
    static void run(plan p, complex *in, complex *out)
    {
        fftwf_execute_dft(p, in, out);
    }
    static void destroy(plan p)
    {
        fftwf_destroy_plan(p);
    }
};

/* How a batch of arrays lies in memory; FFTW and cuFFT agree on the meaning. */
struct layout {
    int embed[3], stride, distance;
    size_t elements(int rank, const int *n, int batch) const /* from the first to the last */
    {
        size_t last = 0;
        for (int i = 0; i < rank; i++) last = last * (size_t)(i ? embed[i] : 1) + (size_t)(n[i] - 1);
        return last * (size_t)stride + (size_t)(batch - 1) * (size_t)distance + 1;
    }
    bool same(const layout &b, int rank) const
    {
        return stride == b.stride && distance == b.distance && std::equal(embed + 1, embed + rank, b.embed + 1);
    }
};

struct fft_plan {
    cudaStream_t stream = NULL;
    bool made = false, allocates = true;
    int rank = 0, n[3] = {1, 1, 1}, batch = 0;
    cufftType type = CUFFT_Z2Z;
    layout in = {}, out = {};
    size_t work_bytes = 0;
    void *work = NULL; /* ours or the caller's */
    bool work_is_ours = false;
    in_double::plan doubles[2][2] = {}; /* made when first run: [backward][in place] */
    in_float::plan floats[2][2] = {};

    ~fft_plan()
    {
        for (auto &row : doubles)
            for (auto p : row)
                if (p) in_double::destroy(p);
        for (auto &row : floats)
            for (auto p : row)
                if (p) in_float::destroy(p);
    }
};

size_t work_told = 1, work_needed = 1; /* the work area in units of the data, see sim_fft_work */
std::map<cufftHandle, std::shared_ptr<fft_plan>> plans;
cufftHandle next_plan = 1;

fft_plan *find_plan(cufftHandle handle)
{
    auto found = plans.find(handle);
    return found == plans.end() ? NULL : found->second.get();
}

cufftResult make_plan(cufftHandle handle, int rank, const int *n, const int *inembed, int istride, int idist,
                      const int *onembed, int ostride, int odist, cufftType type, int batch, size_t *work_bytes)
{
    fft_plan *p = find_plan(handle);
    if (!p || p->made) return CUFFT_INVALID_PLAN;
    if (!n || !work_bytes) return CUFFT_INVALID_VALUE;
    if (type != CUFFT_C2C && type != CUFFT_Z2Z) return CUFFT_NOT_IMPLEMENTED;
    if (rank < 1 || rank > 3 || batch < 1) return CUFFT_INVALID_SIZE;
    if (!inembed != !onembed) return CUFFT_INVALID_VALUE;
    size_t points = 1;
    for (int i = 0; i < rank; i++) {
        if (n[i] < 1) return CUFFT_INVALID_SIZE;
        if (inembed && (inembed[i] < n[i] || onembed[i] < n[i]) && i > 0) return CUFFT_INVALID_SIZE;
        p->n[i] = n[i];
        p->in.embed[i] = inembed ? inembed[i] : n[i];
        p->out.embed[i] = onembed ? onembed[i] : n[i];
        points *= (size_t)n[i];
    }
    if (inembed && (istride < 1 || ostride < 1 || idist < 0 || odist < 0)) return CUFFT_INVALID_VALUE;
    p->in.stride = inembed ? istride : 1; /* without embedding, arrays are packed and the strides are not looked at */
    p->out.stride = inembed ? ostride : 1;
    p->in.distance = inembed ? idist : (int)points;
    p->out.distance = inembed ? odist : (int)points;
    p->rank = rank;
    p->batch = batch;
    p->type = type;
    p->work_bytes = work_needed * points * (size_t)batch * (type == CUFFT_Z2Z ? 16 : 8);
    *work_bytes = p->work_bytes;
    if (p->allocates) {
        if (cudaMalloc(&p->work, p->work_bytes) != cudaSuccess) return CUFFT_ALLOC_FAILED;
        p->work_is_ours = true;
    }
    p->made = true;
    return CUFFT_SUCCESS;
}

template <class F>
void transform(fft_plan *p, typename F::plan (&made)[2][2], typename F::complex *in, typename F::complex *out, int direction)
{
    typename F::plan &f = made[direction == CUFFT_INVERSE][in == out];
    if (!f)
        f = F::make(p->rank, p->n, p->batch, in, p->in.embed, p->in.stride, p->in.distance, out, p->out.embed, p->out.stride,
                    p->out.distance, direction == CUFFT_FORWARD ? FFTW_FORWARD : FFTW_BACKWARD);
    if (!f) sim::fault("library call", "FFTW cannot make the plan");
    F::run(f, in, out);
}

cufftResult execute(const char *function, cufftHandle handle, cufftType type, void *in, void *out, int direction)
{
    auto found = plans.find(handle);
    if (found == plans.end() || !found->second->made) return CUFFT_INVALID_PLAN;
    std::shared_ptr<fft_plan> p = found->second;
    if (p->type != type) return CUFFT_INVALID_TYPE;
    if (direction != CUFFT_FORWARD && direction != CUFFT_INVERSE) return CUFFT_INVALID_VALUE;
    if (!p->work) return CUFFT_NO_WORKSPACE;
    size_t size = type == CUFFT_Z2Z ? 16 : 8;
    if ((uintptr_t)in % size || (uintptr_t)out % size) return CUFFT_UNALIGNED_DATA;
    if (in == out && !p->in.same(p->out, p->rank)) return CUFFT_NOT_SUPPORTED;
    need_device(function, "the input", in, p->in.elements(p->rank, p->n, p->batch) * size);
    need_device(function, "the output", out, p->out.elements(p->rank, p->n, p->batch) * size);
    need_device(function, "the work area", p->work, p->work_bytes);
    void *work = p->work;
    cudaError_t error = sim::enqueue_library_call(p->stream, function, [=]() {
        sim::fill(work, p->work_bytes, sim::UNINITIALISED);
        if (type == CUFFT_Z2Z)
            transform<in_double>(p.get(), p->doubles, (fftw_complex *)in, (fftw_complex *)out, direction);
        else
            transform<in_float>(p.get(), p->floats, (fftwf_complex *)in, (fftwf_complex *)out, direction);
    });
    return error == cudaSuccess ? CUFFT_SUCCESS : CUFFT_EXEC_FAILED;
}

/* cufftPlanMany and friends: a plan that cannot be made leaves nothing behind. */
cufftResult give_up(cufftHandle *handle, cufftResult result)
{
    if (result != CUFFT_SUCCESS) {
        cufftDestroy(*handle);
        *handle = CUFFT_PLAN_NULL;
    }
    return result;
}

} // namespace

extern "C" {

cufftResult cufftCreate(cufftHandle *handle)
{
    if (!handle) return CUFFT_INVALID_VALUE;
    *handle = CUFFT_PLAN_NULL;
    if (sim::device_status() != cudaSuccess) return CUFFT_INTERNAL_ERROR;
    if (sim::allocation_fails()) return CUFFT_ALLOC_FAILED;
    *handle = next_plan++;
    plans[*handle] = std::make_shared<fft_plan>();
    sim::count_object(sim::CUFFT_PLAN, 1);
    return CUFFT_SUCCESS;
}

cufftResult cufftDestroy(cufftHandle handle)
{
    if (handle == CUFFT_PLAN_NULL) return CUFFT_SUCCESS;
    fft_plan *p = find_plan(handle);
    if (!p) return CUFFT_INVALID_PLAN;
    if (p->work_is_ours) cudaFree(p->work);
    plans.erase(handle);
    sim::count_object(sim::CUFFT_PLAN, -1);
    return CUFFT_SUCCESS;
}

cufftResult cufftMakePlanMany(cufftHandle handle, int rank, int *n, int *inembed, int istride, int idist, int *onembed,
                              int ostride, int odist, cufftType type, int batch, size_t *work_bytes)
{
    return make_plan(handle, rank, n, inembed, istride, idist, onembed, ostride, odist, type, batch, work_bytes);
}

cufftResult cufftMakePlanMany64(cufftHandle handle, int rank, long long *n, long long *inembed, long long, long long,
                                long long *onembed, long long, long long, cufftType type, long long batch, size_t *work_bytes)
{
    int sizes[3];
    if (!n || rank < 1 || rank > 3 || inembed || onembed) return CUFFT_INVALID_VALUE;
    std::copy(n, n + rank, sizes);
    return make_plan(handle, rank, sizes, NULL, 1, 0, NULL, 1, 0, type, (int)batch, work_bytes);
}

cufftResult cufftGetSizeMany64(cufftHandle handle, int rank, long long *n, long long *, long long, long long, long long *,
                               long long, long long, cufftType type, long long batch, size_t *work_bytes)
{
    if (!find_plan(handle)) return CUFFT_INVALID_PLAN;
    if (!n || !work_bytes || batch < 1) return CUFFT_INVALID_VALUE;
    *work_bytes = work_told * (size_t)batch * (type == CUFFT_Z2Z ? 16 : 8);
    for (int i = 0; i < rank; i++) *work_bytes *= (size_t)n[i];
    return CUFFT_SUCCESS;
}

cufftResult cufftMakePlan1d(cufftHandle handle, int nx, cufftType type, int batch, size_t *work_bytes)
{
    return make_plan(handle, 1, &nx, NULL, 1, 0, NULL, 1, 0, type, batch, work_bytes);
}

cufftResult cufftMakePlan2d(cufftHandle handle, int nx, int ny, cufftType type, size_t *work_bytes)
{
    int n[2] = {nx, ny};
    return make_plan(handle, 2, n, NULL, 1, 0, NULL, 1, 0, type, 1, work_bytes);
}

cufftResult cufftPlanMany(cufftHandle *handle, int rank, int *n, int *inembed, int istride, int idist, int *onembed,
                          int ostride, int odist, cufftType type, int batch)
{
    size_t work_bytes;
    cufftResult result = cufftCreate(handle);
    if (result != CUFFT_SUCCESS) return result;
    return give_up(handle,
                   make_plan(*handle, rank, n, inembed, istride, idist, onembed, ostride, odist, type, batch, &work_bytes));
}

cufftResult cufftPlan1d(cufftHandle *handle, int nx, cufftType type, int batch)
{
    return cufftPlanMany(handle, 1, &nx, NULL, 1, 0, NULL, 1, 0, type, batch);
}

cufftResult cufftPlan2d(cufftHandle *handle, int nx, int ny, cufftType type)
{
    int n[2] = {nx, ny};
    return cufftPlanMany(handle, 2, n, NULL, 1, 0, NULL, 1, 0, type, 1);
}

cufftResult cufftSetStream(cufftHandle handle, cudaStream_t stream)
{
    fft_plan *p = find_plan(handle);
    if (!p) return CUFFT_INVALID_PLAN;
    if (!sim::valid_stream(stream)) return CUFFT_INVALID_VALUE;
    p->stream = stream;
    return CUFFT_SUCCESS;
}

cufftResult cufftSetAutoAllocation(cufftHandle handle, int allocates)
{
    fft_plan *p = find_plan(handle);
    if (!p || p->made) return CUFFT_INVALID_PLAN;
    p->allocates = allocates != 0;
    return CUFFT_SUCCESS;
}

cufftResult cufftGetSize(cufftHandle handle, size_t *work_bytes)
{
    fft_plan *p = find_plan(handle);
    if (!p || !p->made) return CUFFT_INVALID_PLAN;
    *work_bytes = p->work_bytes;
    return CUFFT_SUCCESS;
}

cufftResult cufftSetWorkArea(cufftHandle handle, void *work)
{
    fft_plan *p = find_plan(handle);
    if (!p || !p->made) return CUFFT_INVALID_PLAN;
    if (p->work_is_ours) cudaFree(p->work);
    p->work = work;
    p->work_is_ours = false;
    return CUFFT_SUCCESS;
}

cufftResult cufftExecZ2Z(cufftHandle handle, cufftDoubleComplex *in, cufftDoubleComplex *out, int direction)
{
    return execute("cufftExecZ2Z", handle, CUFFT_Z2Z, in, out, direction);
}

cufftResult cufftExecC2C(cufftHandle handle, cufftComplex *in, cufftComplex *out, int direction)
{
    return execute("cufftExecC2C", handle, CUFFT_C2C, in, out, direction);
}

} // extern "C"

void sim_fft_work(int told, int needed)
{
    work_told = (size_t)told;
    work_needed = (size_t)needed;
}
