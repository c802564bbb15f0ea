/* device.h - --device cpu|cuda: where the iterative engine works. Exact engines, posteriors and predictions are always the host's;
   report.plan says who did what.

       list[count++] = opt_device();
       options_read(..);
       device_open();                          ends the program, with code 1, when there is no such device
       options.backend = device_backend();     NULL for cpu; fit_flags_gradient does that
       .. pu_gradient, pu_fit, pu_model_predict ..
       device_close();

   A program has CUDA when it is compiled by nvcc with -DPU_CUDA, see its first lines. Include after pu.h and program.h. */
#ifndef EXAMPLES_DEVICE_H
#define EXAMPLES_DEVICE_H

#if defined(PU_CUDA) && (defined(__CUDACC__) || defined(PU_SIM)) /* PU_SIM: kernels run on the CPU, see tests/cuda */
#define DEVICE_CODE 1                                            /* this file may have device code */
#endif

static int device_choice; /* place in the list of opt_device */
static char device_name[300] = "cpu";

static inline option opt_device(void) { return opt_choice("device", "of the iterative engine", &device_choice, "cpu,cuda"); }

#ifdef PU_CUDA
static pu_cuda device_cuda;
#endif

/* Before any work: better to fail now. */
static inline void device_open(void)
{
    pu_report report;
    char text[300];
    pu_status status = PU_E_NO_DEVICE;
    memset(&report, 0, sizeof report);
    if (device_choice == 0) return;
#ifdef PU_CUDA
    status = pu_cuda_open(&device_cuda, NULL, &report);
    snprintf(device_name, sizeof device_name, "cuda");
#ifdef DEVICE_CODE
    if (status == PU_OK) {
        struct cudaDeviceProp is;
        if (cudaGetDeviceProperties(&is, 0) == cudaSuccess) snprintf(device_name, sizeof device_name, "cuda, %s", is.name);
    }
#endif
#else
    report.status = status, report.where.what = "this program was built without CUDA", report.where.datum = report.where.index = -1;
#endif
    if (status != PU_OK) fail(1, "--device cuda", pu_explain(&report, text, sizeof text));
}

static inline const pu_backend *device_backend(void)
{
#ifdef PU_CUDA
    if (device_choice) return &device_cuda.backend;
#endif
    return NULL;
}

static inline void device_close(void)
{
#ifdef PU_CUDA
    pu_cuda_close(&device_cuda);
#endif
}

#endif /* EXAMPLES_DEVICE_H */
