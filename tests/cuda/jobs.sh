# jobs.sh - CUDA: the command cuda, which compiles with nvcc, and the tests that execute kernels on the CPU. Read by build.sh
# for the first and by tests/jobs.sh for the second.
# shellcheck shell=bash

CUDA_ARCHS=(sm_75 sm_80 sm_86 sm_89 sm_90 sm_100 sm_120)

# No -pedantic here: the line directives that nvcc itself writes for the host compiler are not ISO.
nvcc_compile()  # SOURCE OUTPUT FLAGS...
{
    local source=$1 output=$2
    shift 2
    "$NVCC_CMD" "-arch=$CUDA_ARCH" -I. -Werror all-warnings \
        -Xcompiler -Wall,-Wextra,-Wconversion,-Wdouble-promotion,-Wshadow "$@" -c "$source" -o "$output"
}

# ---------------------------------------------------------------------------------------------- tests
#
# Kernels are executed on the CPU by the engine in tests/cuda/. A program for it is C++; sim.h comes before everything else.

ENGINE=(sim sim_runtime sim_libs)

# cuda_flags VARIANT: FLAGS for one of double, float, and these with _asan or _tsan; KIND, the last part of it, or empty
cuda_flags()
{
    KIND=''
    FLAGS=(-std=c++17 -g -Wall -Wextra -Wno-missing-field-initializers -Werror -I. -Itests -isystem build/include
           "${CUDA_FLAGS[@]}" -DFORCE_OPENBLAS_COMPLEX_STRUCT -DPU_HAVE_CURAND)
    case $1 in
        *_asan)
            KIND=.asan
            FLAGS+=("${SANITIZE[@]}")
            ;;
        *_tsan)
            KIND=.tsan
            FLAGS+=(-fsanitize=thread -DPU_TSAN)
            ;;
    esac
    case $1 in float*) FLAGS+=(-DPU_FLOAT) ;; esac
    FLAGS+=("${EXTRA_FLAGS[@]}")
}

# The scheduler is not instrumented for ThreadSanitizer: it tells it about the threads that it runs.
job_engine()    # VARIANT, of any precision
{
    local part flags
    cuda_flags "$1"
    for part in "${ENGINE[@]}"; do
        flags=("${FLAGS[@]}")
        if [[ $KIND == .tsan && $part == sim ]]; then flags=("${flags[@]/-fsanitize=thread/-g}"); fi
        g++ "${flags[@]}" -O2 -c "tests/cuda/$part.cpp" -o "build/obj/$part$KIND.o" || return
    done
    echo "1 passed, 0 failed"
}

# cuda_program VARIANT SOURCE OUTPUT: a program with the engine
cuda_program()
{
    local objects optimize=-O1
    cuda_flags "$1"
    if [[ $KIND == .asan || ${CUDA_SMALL:-} ]]; then optimize=-O0; fi   # most of the time would be the compiler's
    # Small blocks where time counts: the other programs have those of a device.
    if [[ $KIND || $2 == tests/golden.c ]]; then FLAGS+=(-DPU_CUDA_THREADS=64); fi
    objects=("${ENGINE[@]/#/build/obj/}")
    objects=("${objects[@]/%/$KIND.o}")
    brings_own_pu "$2" || FLAGS+=(-DPU_IMPLEMENTATION=)
    g++ $optimize "${FLAGS[@]}" -DPU_CUDA -include tests/cuda/sim.h -x c++ "$2" -x none "${objects[@]}" -o "$3" \
        -lfftw3 -lfftw3f "$HAVE_CBLAS" "${CUDA_LINK[@]}" -lm
}

# CUDA_SMALL=1: small sizes alone, in those programs that know it
job_cuda()      # VARIANT SOURCE OUTPUT ARGS...
{
    local output=$3
    cuda_program "$1" "$2" "$3" || return
    shift 3
    echo "${CUDA_SMALL:+small sizes; }arguments: $*"
    export UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}" OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
    if [[ ${CUDA_SMALL:-} ]]; then export PU_TEST_SMALL=1; fi
    limited "$output" "$@"
}

# same_numbers TOLERANCE FILE FILE: two results of a program, all but times, memory and where it ran
same_numbers()
{
    awk -v tolerance="$1" '
        function differ(a, b,    x, y) {
            if (a == b) return 0
            if (a !~ /^[-+0-9.e]+$/ || b !~ /^[-+0-9.e]+$/) return 1
            x = a - b; y = (a < 0 ? -a : a + 0) + (b < 0 ? -b : b + 0)
            return !((x < 0 ? -x : x) <= tolerance * (1 + y))
        }
        { sub(/,$/, ""); key = $1 }
        key ~ /"(seconds|seconds_per_step|processor_seconds_per_step|peak_mb|device|plan|theta_hash)":/ { next }
        { which = FILENAME == ARGV[2] ? 2 : 1; text[which, ++line[which]] = $0 }
        END {
            if (line[1] != line[2] || line[1] < 5) { print "not the same keys"; exit 1 }
            for (n = 1; n <= line[1]; n++) {
                k = split(text[1, n], a, /[][ ,]+/); l = split(text[2, n], b, /[][ ,]+/); bad = k != l
                for (i = 1; i <= k && !bad; i++) bad = differ(a[i], b[i])
                if (bad) { print "cpu " text[1, n] "\ncuda" text[2, n]; wrong = 1 }
            }
            exit wrong
        }' "$2" "$3"
}

# An example on the engine, tiny: the same results as without a device.
job_cuda_example()      # VARIANT NAME TOLERANCE ARGS...
{
    local variant=$1 name=$2 tolerance=$3 program=build/tests/cuda.$2 device
    shift 3
    cuda_program "$variant" "examples/$name.c" "$program" || return
    for device in cpu cuda; do
        OPENBLAS_NUM_THREADS=1 limited "$program" "$@" --device $device --threads 1 --json "$program.$device.json" \
            >"$program.$device.txt" || { cat "$program.$device.txt"; return 1; }
    done
    grep -q 'on the device' "$program.cuda.txt" || { echo "nothing ran on the device"; cat "$program.cuda.txt"; return 1; }
    same_numbers "$tolerance" "$program".{cpu,cuda}.json || return
    echo "1 passed, 0 failed"
}

# With the real libraries, on a machine without a driver.
job_nodriver()
{
    if have nvidia-smi && nvidia-smi >/dev/null 2>&1; then job_skip 1 "there is a device"; return; fi
    nvcc_compile examples/custom_operator.c build/tests/nodriver.o -x cu -DPU_CUDA -Xcompiler -Wno-missing-field-initializers &&
    "$NVCC_CMD" "-arch=$CUDA_ARCH" build/tests/nodriver.o -o build/tests/nodriver -lcublas -lcufft -lcurand || return
    refused_device build/tests/nodriver || return
    echo "1 passed, 0 failed"
}

job_cuda_nvcc() # PRECISION FLAGS...
{
    local precision=$1
    shift
    nvcc_compile tests/compile/cuda.cu "build/obj/cuda.cu.$precision.o" "$@" || return
    echo "1 passed, 0 failed"
}

# A table of ratings, some missing.
make_ratings()
{
    awk 'BEGIN { print "userId,movieId,rating,timestamp"
                 for (u = 1; u <= 20; u++) for (m = 1; m <= 15; m++)
                     if ((u * u + u * m + m * m) % 5 < 3) print u "," m "," 1 + (u * m * 31 + u * 17 + m * 13) % 9 / 2 ",0" }'
}

small() { CUDA_SMALL=1 "$@"; }

# add_cuda_job NAME VARIANT COMMAND...: a job that needs the engine in this variant
add_cuda_job()
{
    local name=cuda/$1 variant=$2 kind=plain engine=double
    shift 2
    if [[ $CUDA_LACKS ]]; then
        add "$name" job_skip 1 "missing: $CUDA_LACKS"
        return 0
    fi
    if [[ $variant == *_?san ]]; then
        kind=${variant#*_}
        engine=double_$kind
    fi
    if [[ $kind != plain && -z $HAVE_ASAN ]]; then
        add "$name" job_skip 1 "the compiler has no sanitizers"
        return 0
    fi
    add "$name" "$@"
    if [[ $ADDED ]]; then NEED_ENGINE[$kind]=$engine; fi
}

# add_cuda_program NAME VARIANT TOPIC ARGS...: tests/cuda/test_TOPIC.cpp; with CUDA_SMALL set it has small sizes alone
add_cuda_program()
{
    local name=$1 variant=$2 source=tests/cuda/test_$3.cpp output=build/tests/cuda_$1 job=(job_cuda)
    shift 3
    if [[ ${CUDA_SMALL:-} ]]; then job=(small job_cuda); fi
    add_cuda_job "$name" "$variant" "${job[@]}" "$variant" "$source" "$output" "$@"
}

# What takes longest comes first. ThreadSanitizer, 20 times slower, never has more than small sizes.
add_cuda()
{
    local variant
    CUDA_SMALL=1 add_cuda_program device.double_tsan double_tsan device -t models_agree_factors
    for variant in double float; do
        add_cuda_job golden.$variant $variant job_cuda $variant tests/golden.c build/golden_cuda_$variant \
            --device cuda tests/golden/*.txt
    done
    for variant in double float double_asan float_asan; do
        add_cuda_program device.$variant $variant device
        add_cuda_program kernels.$variant $variant kernels
    done
    add_cuda_program device.double_part double device -t models_agree
    CUDA_SMALL=1 add_cuda_program kernels.double_part double kernels
    CUDA_SMALL=1 add_cuda_program kernels.float_part float kernels
    CUDA_SMALL=1 add_cuda_program kernels.double_tsan double_tsan kernels
    add_cuda_program sim double sim
    make_ratings >build/tests/ratings.csv
    add_cuda_job examples.custom_operator double job_cuda_example double custom_operator 1e-10
    add_cuda_job examples.compressed_sensing double job_cuda_example double compressed_sensing 1e-7 \
        --size 8 --count 2 --steps 2 --iterations 5 --samples 3
    add_cuda_job examples.ratings float job_cuda_example float ratings 1e-4 \
        --data build/tests/ratings.csv --factors 3 --steps 2 --engine iterative --iterations 3 --samples 3 \
        --recommend 3 --top 2 --train-nll
    if [[ $NVCC_CMD ]]; then
        add cuda/nvcc.double job_cuda_nvcc double
        add cuda/nvcc.float job_cuda_nvcc float -DPU_FLOAT
        add cuda/nodriver job_nodriver
    else
        add cuda/nvcc job_skip 2 "no nvcc"
        add cuda/nodriver job_skip 1 "no nvcc"
    fi
}

# ---------------------------------------------------------------------------------------------- the command

# One unit of pu_cuda.cuh; ptxas tells of its kernels in a file beside it.
cuda_unit()     # ARCHITECTURE/PRECISION
{
    local arch=${1%/*} precision=${1#*/} base=build/cuda/pu.${1/\//.} start=$SECONDS flags=()
    if [[ $precision == float ]]; then flags=(-DPU_FLOAT); fi
    if ! CUDA_ARCH=$arch nvcc_compile tests/compile/cuda.cu "$base.o" -Xptxas -v "${flags[@]}" >"$base.ptxas" 2>&1; then
        grep -v '^ptxas info' "$base.ptxas" | head -n 40
        warn "pu_cuda.cuh does not compile for $arch, $precision"
        return 1
    fi
    say "compiled   pu_cuda.cuh for $arch, $precision  $((SECONDS - start)) s"
}

# Examples share one object of the library in each precision, but for those with device code of their own.
cuda_example()  # SOURCE, or double or float: the object
{
    local start=$SECONDS name=$1 source=$1 object flags
    # shellcheck disable=SC2054  # commas for nvcc
    flags=(-O3 -x cu -DPU_CUDA -I. "-arch=$CUDA_ARCH" -Werror all-warnings
           -Xcompiler -Wall,-Wextra,-Wno-missing-field-initializers)
    case $1 in
        double | float)
            name="the library for the examples, $1"
            source=tests/compile/impl.c
            object=pu.$1
            if [[ $1 == float ]]; then flags+=(-DPU_FLOAT); fi
            ;;
        *)
            object=$(basename "$1" .c)
            if ! grep -q DEVICE_CODE "$1"; then flags+=(-DPU_IMPLEMENTATION_ONCE -DPU_CUDA_IMPLEMENTATION_ONCE); fi
            ;;
    esac
    if ! "$NVCC_CMD" "${flags[@]}" -c "$source" -o "build/cuda/examples/$object.o"; then
        warn "nvcc does not compile this example: $1"
        return 1
    fi
    say "compiled   $name  $((SECONDS - start)) s"
}

# ptxas_table FILES...: a line for every kernel, and what is wrong with it
ptxas_table()
{
    local filter=cat name numbers
    if have cu++filt; then filter=cu++filt; elif have c++filt; then filter=c++filt; fi
    awk '/Compiling entry function/ { split($0, part, "\047"); name = part[2] }
         /bytes stack frame/ { stack = $1; spill = $5 + $9 }
         /Used [0-9]+ registers/ {
             smem = 0
             for (i = 1; i < NF; i++) { if ($(i + 1) == "registers,") regs = $i; if ($(i + 2) ~ /^smem/) smem = $i }
             print name, regs, smem, stack, spill
         }' "$@" | while read -r name numbers; do printf '%s\t%s\n' "$("$filter" <<<"$name")" "$numbers"; done |
        awk -F '\t' '{ name = $1; sub(/^void /, "", name); sub(/\(.*/, "", name); split($2, n, " ")
                       printf "%-44s %9d %8d %7d %7d\n", name, n[1], n[2], n[3], n[4] }' | sort
}

# cuda_units ARCHITECTURES...: compiles pu_cuda.cuh for them in both precisions; sets SPILLS, a line for each unit that spills
cuda_units()
{
    local arch unit units=() names
    for arch in "$@"; do units+=("$arch/double" "$arch/float"); done
    at_once cuda_unit "${units[@]}" || die "pu_cuda.cuh does not compile"
    SPILLS=
    for unit in "${units[@]}"; do
        names=$(ptxas_table "build/cuda/pu.${unit/\//.}.ptxas" | awk '$NF > 0 { print $1 }')
        if [[ $names ]]; then SPILLS+="${unit/\//, }: $names"$'\n'; fi
    done
    if [[ $SPILLS ]]; then printf 'spills     %s' "$SPILLS"; else say "spills     none"; fi
}

# Registers, shared memory and spills on the oldest architecture and on CUDA_ARCH, or sm_90, of those in the arguments.
cuda_table()    # ARCHITECTURES...
{
    local other=sm_90 unit
    if [[ $CUDA_ARCH != sm_75 && " $* " == *" $CUDA_ARCH "* ]]; then other=$CUDA_ARCH; fi
    for unit in sm_75/double sm_75/float "$other/double" "$other/float"; do
        if [[ ! -f build/cuda/pu.${unit/\//.}.ptxas || " $* " != *" ${unit%/*} "* ]]; then continue; fi
        printf '%-44s %9s %8s %7s %7s\n' "${unit/\//, }" registers shared stack spills
        ptxas_table "build/cuda/pu.${unit/\//.}.ptxas"
        echo
    done
}

# All examples, compiled and linked by nvcc.
cuda_examples()
{
    local source name objects
    sources_of examples
    at_once cuda_example double float "${SOURCES[@]}" || die "an example does not compile"
    rm -f build/cuda/examples/libpu.a
    ar rcs build/cuda/examples/libpu.a build/cuda/examples/pu.{double,float}.o
    for source in "${SOURCES[@]}"; do
        name=$(basename "$source" .c)
        objects=("build/cuda/examples/$name.o")
        grep -q DEVICE_CODE "$source" || objects+=(build/cuda/examples/libpu.a)
        "$NVCC_CMD" "-arch=$CUDA_ARCH" "${objects[@]}" -o "build/cuda/examples/$name" -lcublas -lcufft -lcurand ||
            die "$source does not link"
        say "built      build/cuda/examples/$name"
    done
}

cmd_cuda()
{
    local arch known archs=() start=$SECONDS
    case ${1:-} in
        '' | --quick) ;;
        *)
            warn "cuda knows --quick, not $1"
            exit 2
            ;;
    esac
    find_nvcc
    if [[ ! $NVCC_CMD ]]; then
        warn "nvcc, the compiler of the CUDA toolkit, was not found on the PATH or in /usr/local/cuda/bin."
        warn "Get the toolkit from developer.nvidia.com/cuda-downloads (or: apt-get install nvidia-cuda-toolkit),"
        die "or say where it is: NVCC=/path/nvcc ./build.sh cuda"
    fi
    say "nvcc       $("$NVCC_CMD" --version | grep release)"
    mkdir -p build/cuda/examples
    if [[ ${1:-} == --quick ]]; then
        cuda_units "$CUDA_ARCH"
        [[ ! $SPILLS ]] || die "these kernels spill registers"
        return 0
    fi
    known=$("$NVCC_CMD" --list-gpu-code)
    for arch in "${CUDA_ARCHS[@]}"; do
        if grep -qx "$arch" <<<"$known"; then archs+=("$arch"); else warn "skipped: this nvcc does not know $arch"; fi
    done
    cuda_units "${archs[@]}"
    cuda_table "${archs[@]}" >build/cuda/ptxas.txt
    say "written    build/cuda/ptxas.txt"
    cuda_examples
    say "total time $((SECONDS - start)) s"
    [[ ! $SPILLS ]] || die "there are kernels that spill registers, see above"
}
