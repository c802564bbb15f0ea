# tools.sh - what tests and benchmarks look for beyond a C compiler; read by the jobs.sh files.
# shellcheck shell=bash

# probe_library HEADER CALL FLAGS...: is there a library with this header, and does a call of it link?
probe_library()
{
    local program="#include <$1>"$'\n'"int main(void) { $2; return 0; }"
    shift 2
    probe_program "$program" "${CC_CMD[@]}" -x c - "$@"
}

# The libraries behind PU_USE_FFTW, PU_USE_CBLAS and PU_USE_CHOLMOD. OpenBLAS's header would bring <complex.h> and its
# macro I along.
find_libraries()
{
    local link
    HAVE_FFTW=
    HAVE_CBLAS=
    HAVE_CHOLMOD=
    LIBRARY_FLAGS=(-DFORCE_OPENBLAS_COMPLEX_STRUCT)
    LIBRARY_LINK=()
    if probe_library fftw3.h 'fftw_cleanup(); fftwf_cleanup()' -lfftw3 -lfftw3f -lm; then
        HAVE_FFTW=1
        LIBRARY_FLAGS+=(-DPU_USE_FFTW)
        LIBRARY_LINK+=(-lfftw3 -lfftw3f)
    fi
    if probe_library suitesparse/cholmod.h 'cholmod_common c; cholmod_l_start(&c); cholmod_l_finish(&c)' -lcholmod -lm; then
        HAVE_CHOLMOD=1
        LIBRARY_FLAGS+=(-DPU_USE_CHOLMOD)
        LIBRARY_LINK+=(-lcholmod)
    fi
    for link in -lopenblas -lcblas -lblas; do
        if probe_library cblas.h 'cblas_dscal(0, 1, 0, 1)' $link -lm; then
            HAVE_CBLAS=$link
            LIBRARY_FLAGS+=(-DPU_USE_CBLAS)
            LIBRARY_LINK+=("$link")
            break
        fi
    done
}

# What the tests in tests/cuda need to run kernels on the CPU. CUDA_FLAGS and CUDA_LINK lead to CUDA's headers and libraries;
# CUDA_LACKS says what is not there, and is empty when all is. After find_nvcc and find_libraries.
find_cuda()
{
    local root roots=() flags link
    local program=$'#include <cuda_runtime.h>\n#include <cublas_v2.h>\n#include <cufft.h>\n#include <curand.h>\n'
    program+=$'int main() { int v; return curandGetVersion(&v) != CURAND_STATUS_SUCCESS; }\n'
    CUDA_FLAGS=()
    CUDA_LINK=()
    CUDA_LACKS=
    if ! have g++; then CUDA_LACKS='g++'; return 0; fi
    if [[ $NVCC_CMD ]]; then
        root=$(command -v "$NVCC_CMD")
        roots+=("${root%/bin/*}")
        root=$(readlink -f "$root")
        roots+=("${root%/bin/*}")
    fi
    roots+=(/usr/local/cuda '')
    CUDA_LACKS="CUDA's headers (cuda_runtime.h, cublas_v2.h, cufft.h, curand.h) and libcurand"
    for root in "${roots[@]}"; do
        flags=()
        link=(-lcurand)
        if [[ $root && $root != /usr ]]; then
            flags=(-isystem "$root/include")
            link=("-L$root/lib64" "-L$root/lib" "-Wl,-rpath,$root/lib64:$root/lib" -lcurand)
        fi
        if probe_program "$program" g++ -std=c++17 "${flags[@]}" -x c++ - -x none "${link[@]}"; then
            CUDA_FLAGS=("${flags[@]}")
            CUDA_LINK=("${link[@]}")
            CUDA_LACKS=
            break
        fi
    done
    if [[ ! $HAVE_FFTW ]]; then CUDA_LACKS+="${CUDA_LACKS:+, }FFTW"; fi
    if [[ ! $HAVE_CBLAS ]]; then CUDA_LACKS+="${CUDA_LACKS:+, }a CBLAS"; fi
}

# Installs what widens the tests and is missing, where that is allowed: a second compiler with its OpenMP and, for the test
# of races, its sanitizers' runtime; a C++ compiler, FFTW, a CBLAS, CHOLMOD and MPI. Sets what find_libraries sets.
install_test_tools()    # yes or no: is the test of races wanted?
{
    local package packages=()
    if ! have g++; then packages+=(g++); fi
    if ! have clang; then packages+=(clang libomp-dev); fi
    find_libraries
    if [[ ! $HAVE_FFTW ]]; then packages+=(libfftw3-dev); fi
    if [[ ! $HAVE_CBLAS ]]; then packages+=(libopenblas-dev); fi
    if [[ ! $HAVE_CHOLMOD ]]; then packages+=(libsuitesparse-dev); fi
    if ! have mpicc || ! have mpirun; then packages+=(openmpi-bin libopenmpi-dev); fi
    if [[ ${#packages[@]} -gt 0 ]] && ! apt_install "${packages[@]}" && apt_allowed; then
        for package in "${packages[@]}"; do apt_install "$package" || true; done
    fi
    # Debian keeps the sanitizers' runtime in a package named after the version of clang.
    if [[ $1 == yes ]] && have clang && ! probe clang -fsanitize=thread; then
        apt_install "libclang-rt-$(clang -dumpversion | cut -d . -f 1)-dev" || true
    fi
    find_libraries
}
