# jobs.sh - the command test: what is tested, as jobs of build.sh, which reads this file.
#
# From top to bottom: which jobs run; what jobs share; unit tests and golden cases; compiling; linking; programs; the command.
# Those that run CUDA kernels are in tests/cuda/jobs.sh.
# shellcheck shell=bash

. tests/tools.sh
. tests/greatest.sh
. tests/cuda/jobs.sh
. tests/lib.sh
. tests/python.sh

# ---------------------------------------------------------------------------------------------- which jobs

# What plain test leaves out, so that it can be run often: patterns of job names, and why. What is left shows every topic in
# double and in float. `test rest` runs exactly these, `test all` runs them with the others.
LEFT_OUT=(
    'unit/*.float_asan              float under AddressSanitizer and UBSan; double has the same loops'
    'golden/float_asan              float under AddressSanitizer and UBSan; double has the same loops'
    'unit/@(backend|random|gradient|fit|threads|op_ar|op_fourier).double_asan  slow topics under sanitizers'
    'unit/@(standard_errors|tuning|series|wide_starts|checkpoint|differential).double_asan  slow topics under sanitizers'
    'unit/@(differential_series|calibration|sizes|engines|checks).double_asan  slow topics under sanitizers'
    'unit/@(op_ssm|op_lattice|sharing).double_asan  slow topics under sanitizers'
    'unit/differential.@(double|float)  100,000 random models; 20,000 of them are there'
    'unit/differential_series.@(double|float)  20,000 random structural models; 2,000 of them are there'
    'unit/calibration.@(double|float)  200 series of each model; 40 of them are there in double'
    'unit/series.float              starts of AR(5) in float, thousands of gradients each; one is there'
    '@(unit|golden)/*_native        the widest vectors and fused multiply-adds, with all optimisations, which take long'
    '@(unit|golden)/*float_libs     FFTW, CBLAS and CHOLMOD in float; double has them'
    'unit/threads.races             ThreadSanitizer on OpenMP'
    'unit/*.nulls                   null pointers under the UBSan of clang'
    'machines/*                     programs of i386 and s390x, with compilers for these'
    'compile/@(gcc|clang).c1?       C11 and C17; C99 is there'
    'compile/@(gcc.c99|g++.c++11)   all of double, float, plain, OpenMP and static together; half of it is there'
    'compile/@(g++.c++17|clang++.c++11)  the other C++ standard; each compiler has one'
    'compile/left_out.*             each switch that leaves storeys out alone, in C and C++; all of them together are there'
    'compile/switches.*             each switch of pu.h alone, in C and C++; all of them together are there'
    'programs/user_ops              instructions of operators that users write, counted by valgrind'
    'programs/pages                  pages of all programs in Chromium; those of four are there'
    'programs/team_mpi               processes of a team killed 20 times, all of them with two threads; 2 kills are there'
    'programs/r.alone               the functions for R, built as their README says; programs/r has an object of the library'
    'compile/examples.alone         each example with an implementation of its own'
    'cuda/*_?san                    CUDA kernels under sanitizers'
    'cuda/@(device|kernels).*([!_]) CUDA kernels at all sizes; small ones are there'
    'cuda/golden.@(double|float)    golden cases on the CUDA engine; cuda/device.double_part has models'
    'link/cmake.alone               programs by CMake that compile the implementation; link/cmake has an object of it'
    'link/users.float               a float library and its users; link/precisions has both together'
    'python_pip                     the Python package by pip, which fetches numpy; its tests are there'
    'cuda/examples.@(ratings|compressed_sensing)  examples on the CUDA engine; one is there'
)

# A job whose name ends with _part runs a part of another one, in its place in the plain test: all and rest have the whole.

MODE=quick      # quick, rest or all
FILTERS=()      # words, of which a job's name must contain one; they choose among all jobs
declare -A OMITTED=()   # reason -> number of jobs

# left_out NAME: does plain test leave it out? Sets REASON.
left_out()
{
    local line pattern
    for line in "${LEFT_OUT[@]}"; do
        read -r pattern REASON <<<"$line"
        # shellcheck disable=SC2053  # a pattern
        if [[ $1 == $pattern ]]; then return 0; fi
    done
    return 1
}

# wanted NAME: is this job to run?
wanted()
{
    local word
    for word in "${FILTERS[@]}"; do
        if [[ $1 == *"$word"* ]] && { [[ $1 != *_part ]] || [[ $word == *_part ]]; }; then return 0; fi
    done
    if [[ ${#FILTERS[@]} -gt 0 ]]; then return 1; fi
    case $MODE in
        all) [[ $1 != *_part ]] ;;
        rest) left_out "$1" ;;
        quick) ! left_out "$1" ;;
    esac
}

# add NAME FUNCTION ARGS...: queues the job when its name is wanted, and sets ADDED then; counts what is left out
add()
{
    ADDED=
    if wanted "$1"; then
        queue "$@"
        ADDED=1
    elif [[ $MODE == quick && ${#FILTERS[@]} == 0 ]]; then
        OMITTED[$REASON]=$((${OMITTED[$REASON]:-0} + 1))
    fi
}

# add_with VARIANTS NAME FUNCTION ARGS...: the same for a job that needs the objects of the library in these variants
add_with()
{
    local variant variants
    read -ra variants <<<"$1"
    shift
    add "$@"
    [[ $ADDED ]] || return 0
    for variant in "${variants[@]}"; do NEED_OBJECT[$variant]=1; done
}

# ---------------------------------------------------------------------------------------------- what jobs share

job_missing() { echo "missing: $1"; echo "0 passed, 1 failed"; }
job_skip()    { echo "skipped: $2"; echo "0 passed, 0 failed, $1 skipped"; }

# A job of several checks counts them by these and ends with the last.
PASSED=0
FAILED=0
SKIPPED=0
pass()  { PASSED=$((PASSED + 1)); echo "ok    $*"; }
fail()  { FAILED=$((FAILED + 1)); echo "FAIL  $*"; }
skip()  { SKIPPED=$((SKIPPED + 1)); echo "skip  $*"; }
check() { local what=$1; shift; if "$@"; then pass "$what"; else fail "$what"; fi; }
end_of_checks() { counts $PASSED $FAILED $SKIPPED; ((FAILED == 0)); }

# limited COMMAND...: runs it with a limit of processor time for each process. The clock is a last resort against hangs.
limited()
(
    ulimit -St "$TEST_TIMEOUT"
    exec timeout -k 10 $((10 * TEST_TIMEOUT)) "$@"
)

# ---------------------------------------------------------------------------------------------- unit tests, golden cases

# variant_flags VARIANT [O]: sets FLAGS and LINK for one of double, float, and these with _asan, _libs (FFTW, CBLAS, CHOLMOD),
# _pic (for a shared library) or _native (the widest vectors of this machine, fused multiply-adds). O: level of optimisation, for
# all but _native and _pic; it is 0 for programs that compile pu.h themselves, most of whose time would be the compiler's
variant_flags()
{
    FLAGS=(-std=c99 -I. -Itests -isystem build/include "${STRICT[@]}")
    LINK=(-lm)
    case $1 in
        *_asan)
            FLAGS+=("${SANITIZE[@]}" -g "-O${2:-1}")
            ;;
        *_libs)
            FLAGS+=("${LIBRARY_FLAGS[@]}" "${OMP[@]}" -O0)
            LINK=("${LIBRARY_LINK[@]}" -lm)
            ;;
        *_pic) FLAGS+=("${OMP[@]}" -fPIC -O0) ;;
        *_native)
            FLAGS+=("${OMP[@]}" -O3 "${NATIVE[@]}" -ffp-contract=fast -fno-math-errno)
            ;;
        *)
            FLAGS+=("${OMP[@]}" "-O${2:-2}")
            ;;
    esac
    case $1 in float*) FLAGS+=(-DPU_FLOAT) ;; esac
    FLAGS+=("${EXTRA_FLAGS[@]}")
}

# A test source that defines PU_IMPLEMENTATION itself (to reach private functions) is compiled alone; the others
# share one object of the implementation per variant, which saves most of the compile time.
brings_own_pu() { grep -qE '^[[:space:]]*#[[:space:]]*define[[:space:]]+PU_IMPLEMENTATION' "$1"; }

job_object()    # VARIANT
{
    variant_flags "$1"
    if [[ $("${CC_CMD[@]}" -v 2>&1) == *"gcc version"* ]]; then FLAGS+=(-fstack-usage); fi      # for lint
    "${CC_CMD[@]}" "${FLAGS[@]}" -c tests/compile/impl.c -o "build/obj/pu.$1.o" || return
    echo "1 passed, 0 failed"
}

job_program()   # VARIANT SOURCE OUTPUT ARGS...: builds a test program and runs it
{
    local variant=$1 source=$2 output=$3 inputs
    shift 3
    inputs=("$source")
    if [[ $source == */test_op_ar.c ]]; then
        variant_flags "$variant" 1      # runs longer than it compiles
    elif brings_own_pu "$source"; then
        variant_flags "$variant" 0
    else
        variant_flags "$variant"
        inputs+=("build/obj/pu.$variant.o")
    fi
    "${CC_CMD[@]}" "${FLAGS[@]}" "${inputs[@]}" -o "$output" "${LINK[@]}" || return
    export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1} OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
    export OPENBLAS_NUM_THREADS=1
    limited "$output" "$@"
}

# The same with PU_TEST_SMALL in the environment, for programs that know it: fewer cases.
job_part()
{
    export PU_TEST_SMALL=1
    job_program "$@"
}

# add_program NAME SOURCE OUTPUT VARIANT ARGS...
add_program()
{
    local name=$1 source=$2 output=$3 variant=$4
    shift 4
    if [[ $variant == *_asan && -z $HAVE_ASAN ]]; then
        add "$name" job_skip 1 "the compiler has no sanitizers"
        return 0
    fi
    if brings_own_pu "$source"; then
        add "$name" job_program "$variant" "$source" "$output" "$@"
    else
        add_with "$variant" "$name" job_program "$variant" "$source" "$output" "$@"
    fi
}

add_unit()
{
    local source topic variant found=
    for source in tests/test_*.c; do
        [[ -f $source ]] || continue
        found=1
        topic=${source#tests/test_}
        topic=${topic%.c}
        for variant in double float double_asan float_asan; do
            add_program "unit/$topic.$variant" "$source" "build/tests/$topic.$variant" $variant
        done
    done
    for topic in differential.double differential.float differential_series.double differential_series.float calibration.double \
        series.float; do
        variant=${topic#*.}
        add_with "$variant" "unit/${topic}_part" job_part "$variant" "tests/test_${topic%.*}.c" "build/tests/$topic"
    done
    [[ $found ]] || add unit job_missing "tests/test_*.c"
}

add_golden()
{
    local variant output files=(tests/golden/*.txt)
    if [[ ! -f tests/golden.c || ! -f ${files[0]} ]]; then
        add golden job_missing "tests/golden.c or tests/golden/*.txt"
        return 0
    fi
    for variant in double float double_asan float_asan; do
        output=golden_$variant
        output=${output/_double/}
        add_program "golden/$variant" tests/golden.c "build/$output" $variant "${files[@]}"
    done
}

# What wide vectors and fused multiply-adds change: the kernels, and through them all that is compared with stored numbers.
add_native()
{
    local variant topic
    for variant in double_native float_native; do
        for topic in backend operators op_ar op_fourier random gradient threads; do
            add_program "unit/$topic.$variant" "tests/test_$topic.c" "build/tests/$topic.$variant" $variant
        done
        add_program "golden/$variant" tests/golden.c "build/golden_$variant" $variant tests/golden/*.txt
    done
}

# What an optional library changes, once more with it. Unoptimised: the glue is tested, and compiling is most of the time.
add_libraries()
{
    local variant topic lib
    for variant in double_libs float_libs; do
        for topic in op_fourier operators engines effects fields precond; do
            lib=$HAVE_FFTW
            if [[ $topic == operators ]]; then lib=$HAVE_CBLAS; fi
            case $topic in engines | effects | fields | precond) lib=$HAVE_CHOLMOD ;; esac
            if [[ $lib ]]; then
                add_program "unit/$topic.$variant" "tests/test_$topic.c" "build/tests/$topic.$variant" $variant
            else
                add "unit/$topic.$variant" job_skip 1 "no FFTW (op_fourier), CBLAS (operators) or CHOLMOD (the others)"
            fi
        done
        if [[ $HAVE_FFTW$HAVE_CBLAS ]]; then
            add_program "golden/$variant" tests/golden.c "build/golden_$variant" $variant tests/golden/*.txt
        else
            add "golden/$variant" job_skip 1 "neither FFTW nor CBLAS"
        fi
    done
}

# Data races. ThreadSanitizer understands OpenMP through clang's runtime and its tool, Archer; gcc's has neither.
job_races()     # TOPIC
{
    local archer
    have clang || { job_skip 1 "no clang"; return; }
    archer=$(dirname "$(readlink -f "$(command -v clang)")")/../lib/libarcher.so
    [[ -f $archer ]] || { job_skip 1 "no clang with OpenMP's Archer"; return; }
    probe clang -fopenmp -fsanitize=thread || { job_skip 1 "clang lacks its ThreadSanitizer's runtime (libclang-rt)"; return; }
    clang -std=c99 -I. -Itests -isystem build/include -fopenmp -fsanitize=thread -g -O1 -DPU_IMPLEMENTATION \
        "tests/test_$1.c" -o "build/tests/$1.races" -lm || return
    export OMP_TOOL_LIBRARIES=$archer TSAN_OPTIONS="ignore_noninstrumented_modules=1"
    limited "build/tests/$1.races"
}

# Arithmetic on null pointers, also with zero: clang sees it, gcc does not. Engines meet data without an entry.
job_nulls()     # TOPIC
{
    have clang || { job_skip 1 "no clang"; return; }
    probe clang -fsanitize=undefined || { job_skip 1 "clang lacks its sanitizer's runtime (libclang-rt)"; return; }
    clang -std=c99 -I. -Itests -isystem build/include -fsanitize=undefined -fno-sanitize-recover=undefined -g -O1 \
        -DPU_IMPLEMENTATION "tests/test_$1.c" -o "build/tests/$1.nulls" -lm || return
    limited "build/tests/$1.nulls"
}

# Machines unlike this one: numbers computed in a wider type than their own (FLT_EVAL_METHOD: x87 in C99, floats of s390x),
# sizes of 32 bits, the other order of bytes. Their compilers are used where they are; nothing is installed for this.
# machine_compiler MACHINE: sets MACHINE_CC and MACHINE_RUN, which runs a program; MACHINE_LACKS says what is not there.
machine_compiler()
{
    local program=$'#include <errno.h>\nint main(void) { return errno; }\n'      # a gcc with -m32 may lack headers
    MACHINE_LACKS=
    MACHINE_RUN=()
    case $1 in
        i386)
            MACHINE_CC=(i686-linux-gnu-gcc -static)
            if ! have "${MACHINE_CC[0]}"; then MACHINE_CC=(gcc -m32); fi
            MACHINE_CC+=(-mfpmath=387)
            if ! have "${MACHINE_CC[0]}" || ! probe_program "$program" "${MACHINE_CC[@]}" -x c -; then
                MACHINE_LACKS="neither i686-linux-gnu-gcc nor a gcc with -m32 (gcc-multilib)"
            fi
            ;;
        s390x)
            MACHINE_CC=(s390x-linux-gnu-gcc -static)
            MACHINE_RUN=(qemu-s390x-static)
            if ! have "${MACHINE_RUN[0]}"; then MACHINE_RUN=(qemu-s390x); fi
            if ! have "${MACHINE_CC[0]}" || ! probe_program "$program" "${MACHINE_CC[@]}" -x c -; then
                MACHINE_LACKS=s390x-linux-gnu-gcc
            fi
            if ! have "${MACHINE_RUN[0]}"; then MACHINE_LACKS+="${MACHINE_LACKS:+, }qemu-s390x (qemu-user-static)"; fi
            ;;
    esac
}

# machine_program SOURCE OUTPUT FLAGS... -- ARGS...: builds a test program with MACHINE_CC and runs it
machine_program()
{
    local source=$1 output=$2 flags=()
    shift 2
    while [[ $1 != -- ]]; do flags+=("$1"); shift; done
    shift
    "${MACHINE_CC[@]}" "${flags[@]}" -I. -Itests -isystem build/include "$source" -o "$output" -lm &&
        limited "${MACHINE_RUN[@]}" "$output" "$@"
}

# What another machine changes. A program counts as one check.
job_machine()   # MACHINE PRECISION.TOPIC...
{
    local machine=$1 base=build/tests/$1 name precision source flags args
    machine_compiler "$machine"
    shift
    [[ ! $MACHINE_LACKS ]] || { job_skip $# "not there: $MACHINE_LACKS"; return; }
    for name in "$@"; do
        precision=${name%%.*}
        source=tests/test_${name#*.}.c
        args=()
        if [[ $name == *.golden ]]; then
            source=tests/golden.c
            args=(tests/golden/*.txt)
        fi
        flags=(-std=c99 -O1)
        if [[ $precision == float ]]; then flags+=(-DPU_FLOAT); fi
        if ! brings_own_pu "$source"; then
            if [[ ! -f $base.$precision.o ]]; then
                "${MACHINE_CC[@]}" "${flags[@]}" -I. -c tests/compile/impl.c -o "$base.$precision.o" || return
            fi
            flags+=("$base.$precision.o")
        fi
        check "$name" machine_program "$source" "$base.$name" "${flags[@]}" -- "${args[@]}"
    done
    end_of_checks
}

# ---------------------------------------------------------------------------------------------- compiling

# One job per compiler and standard: {double, float} x {plain, OpenMP} x {implementation, static, declarations}.
# No output is kept; syntax and types are checked. Where functions are static gcc compiles, because it does not find unused
# ones otherwise. As a part, the two implementations take turns: each has double and float, plain and OpenMP, once.
job_matrix()    # COMPILER LANGUAGE STANDARD [part]
{
    local compiler=$1 language=$2 standard=$3 part=${4:-} unit precision openmp has_openmp='' flags common
    have "$compiler" || { job_skip 12 "no $compiler"; return; }
    if probe "$compiler" -fopenmp; then has_openmp=1; fi
    common=(-x "$language" "-std=$standard" -I. "${STRICT[@]}" "${EXTRA_FLAGS[@]}")
    for precision in double float; do for openmp in plain openmp; do for unit in impl static decl; do
        case $part.$unit.$precision.$openmp in
            part.impl.double.openmp | part.impl.float.plain | part.static.double.plain | part.static.float.openmp) continue ;;
        esac
        flags=("${common[@]}" -fsyntax-only)
        if [[ $compiler != clang* && $unit == static ]]; then flags=("${common[@]}" -O0 -S -o /dev/null); fi
        if [[ $precision == float ]]; then flags+=(-DPU_FLOAT); fi
        if [[ $openmp == openmp ]]; then flags+=(-fopenmp); fi
        if [[ $openmp == openmp && ! $has_openmp ]]; then
            skip "$unit $precision $openmp"
        else
            check "$unit $precision $openmp" "$compiler" "${flags[@]}" "tests/compile/$unit.c"
        fi
    done; done; done
    end_of_checks
}

job_nvcc()      # PRECISION FLAGS...
{
    local precision=$1
    shift
    nvcc_compile tests/compile/impl.cu "build/obj/impl.cu.$precision.o" "$@" || return
    echo "1 passed, 0 failed"
}

# refuses_to_compile WORDS COMMAND...: the compiler stops, and says these words
refuses_to_compile()
{
    local words=$1 said
    shift
    if said=$("$@" 2>&1); then echo "compiled: $*"; return 1; fi
    [[ $said == *"$words"* ]] || { echo "$said" | head -n 5; return 1; }
}

# What pu.h must refuse, with the flags or includes that would make it silently wrong; and what it must take for all that:
# users with fast math, POSIX in strict C, machines that compute in a wider type (x87).
job_unfit()
{
    local compiler flag precision words
    for compiler in "gcc -std=c99" "clang -std=c99" "g++ -std=c++11 -x c++" "clang++ -std=c++11 -x c++"; do
        read -ra words <<<"$compiler"
        if ! have "${words[0]}"; then skip "$compiler"; continue; fi
        words+=(-I. -fsyntax-only)
        for flag in -ffast-math -ffinite-math-only -Ofast; do
            check "$compiler $flag: refused" \
                refuses_to_compile "without -ffast-math" "${words[@]}" $flag tests/compile/impl.c
            check "$compiler $flag: declarations" "${words[@]}" $flag tests/compile/decl.c
        done
        for precision in -UPU_FLOAT -DPU_FLOAT; do
            check "$compiler $precision: two precisions" \
                refuses_to_compile "one precision per file" "${words[@]}" $precision tests/compile/two_precisions.c
            check "$compiler $precision: POSIX" \
                "${words[@]}" "${STRICT[@]}" $precision -D_POSIX_C_SOURCE=200809L tests/compile/impl.c
            if probe "${words[0]}" -mfpmath=387; then
                check "$compiler $precision: x87" "${words[@]}" "${STRICT[@]}" -mfpmath=387 $precision tests/compile/impl.c
            else
                skip "$compiler $precision: x87"
            fi
        done
    done
    end_of_checks
}

# The optional libraries' headers in both languages and compilers, with <complex.h> and its macro I before them.
job_libraries()
{
    local compiler words precision flags=(-include complex.h "${LIBRARY_FLAGS[@]:1}")
    echo "with ${flags[*]}"
    flags+=(-fsyntax-only -I. "${STRICT[@]}" "${EXTRA_FLAGS[@]}")
    for compiler in "gcc -std=c99" "clang -std=c99" "g++ -std=c++11 -x c++" "clang++ -std=c++11 -x c++"; do
        read -ra words <<<"$compiler"
        for precision in -UPU_FLOAT -DPU_FLOAT; do
            if have "${words[0]}"; then
                check "$compiler $precision" "${words[@]}" "${flags[@]}" $precision tests/compile/impl.c
            else
                skip "$compiler $precision"
            fi
        done
    done
    end_of_checks
}

# Names of the switches that the head of pu.h lists.
switches_of_pu()
{
    awk '/^SWITCHES/ { on = 1; next } /^[A-Z]/ { on = 0 } on && /^    PU_/ { sub(/\(.*/, "", $1); print $1 }' pu.h
}

# Names that an object must not ask of the C library, as a pattern, when it is built with a switch.
forbidden_by()  # SWITCHES
{
    local names=()
    if [[ $1 == *PU_NO_MALLOC* ]]; then names+=(malloc calloc realloc free); fi
    if [[ $1 == *PU_NO_STDIO* ]]; then
        names+=('.*printf.*' '.*scanf' 'f?puts' 'f?putc' 'fopen.*' fclose fread fwrite fgets 'f?getc' rename remove
                fsync readlink open stat)
    fi
    if [[ $1 == *PU_NO_OPENMP* ]]; then names+=('GOMP_.*' 'omp_.*' '__kmpc.*'); fi
    (IFS='|'; echo "^(${names[*]:-none})(@.*)?$")
}

# switch_program NAME SWITCHES FLAGS...: an implementation built with these switches, a user of it, linked and run
switch_program()
{
    local base=build/link/switches.$1 switches=$2 compiler asked
    shift 2
    compiler=("${STRICT_C[@]}")
    if [[ $base == *.c++.* ]]; then compiler=("${STRICT_CXX[@]}" -x c++); fi
    compiler+=(-O0 "${OMP[@]}" "$@")
    if [[ $switches == *PU_STATIC* ]]; then
        "${compiler[@]}" tests/compile/static_main.c tests/compile/static.c -x none -o "$base" "${LIBRARY_LINK[@]}" -lm || return
        "$base"
        return
    fi
    "${compiler[@]}" -c tests/compile/impl.c -o "$base.o" || return
    asked=$(nm -u "$base.o" | awk '{ print $NF }' | grep -E "$(forbidden_by "$switches")" || true)
    if [[ $asked ]]; then echo "built with $switches it calls: ${asked//$'\n'/ }"; return 1; fi
    "${compiler[@]}" tests/compile/decl.c -x none "$base.o" -o "$base" "${LIBRARY_LINK[@]}" -lm && "$base"
}

# Every switch that pu.h lists: alone, and all of them together in both precisions. As a part, only together.
job_switches()  # LANGUAGE: c or c++; [part]
{
    local language=$1 part=${2:-} switch flags all=()
    if [[ $language == c++ ]] && ! have g++; then job_skip 1 "no g++"; return; fi
    for switch in $(switches_of_pu); do
        flags=("-D$switch=")    # empty, as a #define in the source has it
        case $switch in
            PU_IMPLEMENTATION | PU_CUDA) continue ;;    # always there; compiled by nvcc, in compile/nvcc and cuda/nvcc
            PU_NO_SERIES | PU_NO_FOURIER | PU_NO_EXACT | PU_NO_MODELS | PU_NO_FIT | PU_NO_FLAT) continue ;; # compile/left_out
            PU_FLOAT) ;;
            PU_STATIC | PU_NO_MALLOC | PU_NO_STDIO | PU_NO_OPENMP) all+=("${flags[@]}") ;;
            PU_ASSERT)
                flags=('-DPU_ASSERT(x)=((void)(x))')
                all+=("${flags[@]}")
                ;;
            PU_USE_FFTW)
                if [[ ! $HAVE_FFTW ]]; then skip "$switch: no FFTW"; continue; fi
                all+=("${flags[@]}")
                ;;
            PU_USE_CHOLMOD | PU_CHOLMOD_HEADER)
                if [[ ! $HAVE_CHOLMOD ]]; then skip "$switch: no CHOLMOD"; continue; fi
                if [[ $switch == PU_CHOLMOD_HEADER ]]; then flags=('-DPU_CHOLMOD_HEADER="suitesparse/cholmod.h"'); fi
                all+=("${flags[@]}")
                flags+=(-DPU_USE_CHOLMOD=)
                ;;
            PU_USE_CBLAS | PU_CBLAS_HEADER)
                if [[ ! $HAVE_CBLAS ]]; then skip "$switch: no CBLAS"; continue; fi
                if [[ $switch == PU_CBLAS_HEADER ]]; then flags=('-DPU_CBLAS_HEADER="cblas.h"'); fi
                all+=("${flags[@]}")
                flags+=(-DPU_USE_CBLAS= -DFORCE_OPENBLAS_COMPLEX_STRUCT)
                ;;
            *)
                fail "$switch is listed in pu.h, and tests/jobs.sh does not know how to build it"
                continue
                ;;
        esac
        if [[ ! $part ]]; then check "$switch" switch_program "$language.$switch" "$switch" "${flags[@]}"; fi
    done
    all+=(-DFORCE_OPENBLAS_COMPLEX_STRUCT)
    check "all, double" switch_program "$language.all.double$part" "${all[*]}" "${all[@]}"
    # Together without PU_STATIC, so that what the object asks for can be looked at.
    all=("${all[@]/-DPU_STATIC=/-UPU_STATIC}" -DPU_FLOAT)
    check "all but PU_STATIC, float" switch_program "$language.all.float$part" \
        "PU_NO_MALLOC PU_NO_STDIO PU_NO_OPENMP" "${all[@]}"
    end_of_checks
}

# Storeys that switches leave out. One of the functions that go with each is beside it.
LEFT_OUT_BY=(
    "PU_NO_SERIES pu_op_ar"
    "PU_NO_FOURIER pu_fft_run"
    "PU_NO_EXACT pu_exact"
    "PU_NO_MODELS pu_model_set"
    "PU_NO_FIT pu_fit"
    "PU_NO_FLAT pu_flat_new"
)
LEFT_OUT_TOGETHER=(-DPU_NO_SERIES -DPU_NO_FOURIER -DPU_NO_EXACT -DPU_NO_MODELS)    # which imply the other two

# left_out_sources: what is made of pu.h for them. sizes.h: SIZE(pu_op) for each type that is written out; functions.txt: the
# public functions; functions.c: uses all of them but those that a line KEEP_OUT(name) in kept_out.h names
left_out_sources()
{
    awk '/end of the header part/ { exit }
         match($0, /^(} pu_[a-z_]+;|struct pu_[a-z_]+ \{)/) { gsub(/^(} |struct )|;.*| \{.*/, ""); print "SIZE(" $0 ")" }' \
        pu.h >build/link/sizes.h
    awk '/end of the header part/ { exit }
         /^PU_DEF/ && match($0, /pu_[a-z_]+\(/) { print substr($0, RSTART, RLENGTH - 1) }' pu.h >build/link/functions.txt
    { [[ $(wc -l <build/link/sizes.h) -gt 50 && $(wc -l <build/link/functions.txt) -gt 140 ]]; } ||
        { echo "pu.h has fewer types or functions than it should have"; return 1; }
}

# functions_but FILE: a program that uses all public functions of pu.h but those named in FILE
functions_but()
{
    echo '#include "pu.h"'
    echo 'typedef void (*any_function)(void);'
    echo 'extern any_function used[];'
    echo 'any_function used[] = {'
    grep -vxFf "$1" build/link/functions.txt | sed 's/.*/    (any_function)&,/'
    echo '    0};'
    echo 'int main(void) { return used[0] == 0; }'
}

# What a call of something left out says, where it is compiled. The names go to build/link/left_out.NAME.gone.
left_out_gone()     # NAME SWITCHES EXPECTED COMPILER...
{
    local base=build/link/left_out.$1 switches=$2 expected=$3 said
    shift 3
    functions_but /dev/null >"$base.all.c"
    said=$("$@" -fsyntax-only -Wno-error -fmax-errors=0 "$base.all.c" 2>&1 || true)
    grep -oE "error: .*pu_[a-z_]+.* is unavailable: left out by .*" <<<"$said" >"$base.words" || true
    grep -oE "pu_[a-z_]+" <<<"$(sed "s/ is unavailable.*//" "$base.words")" | sort -u |
        grep -xFf build/link/functions.txt >"$base.gone" || true
    grep -qx "$expected" "$base.gone" || { echo "$switches: a call of $expected compiles"; head -n 5 <<<"$said"; return 1; }
    if [[ $switches != *" "* ]] && grep -v "$switches" "$base.words" | grep -vE "PU_NO_FLAT|PU_NO_FIT"; then
        echo "$switches: a message that does not name it"
        return 1
    fi
}

# An implementation without some storeys: what is left has bodies and gives the numbers of the whole library, what is not is
# refused in words by the compiler, and by the program where it is asked for when that runs.
left_out_program()  # NAME EXPECTED FLAGS...
{
    local base=build/link/left_out.$1 name=$1 expected=$2 compiler=("${STRICT_C[@]}" -O0 -Ibuild/link) switches
    shift 2
    switches=${*//-D/}
    if [[ $name == c++* ]]; then compiler=("${STRICT_CXX[@]}" -x c++ -O0 -Ibuild/link); fi
    "${compiler[@]}" "$@" -c tests/compile/impl.c -o "$base.o" &&
        "${compiler[@]}" "$@" tests/compile/left_out.c -x none "$base.o" -o "$base" -lm || return
    if ! "$base" >"$base.txt"; then cat "$base.txt"; return 1; fi
    if [[ ! $expected ]]; then return 0; fi
    # lines that the whole library does not print
    if grep -vxFf "${base%."$name"}.${name%%.*}.whole.txt" "$base.txt"; then return 1; fi
    left_out_gone "$name" "$switches" "$expected" "${compiler[@]}" "$@" || return
    # exactly what is not gone is defined
    nm -g --defined-only "$base.o" | awk '$2 == "T" { print $3 }' | sort >"$base.there"
    if ! diff <(sort build/link/functions.txt | grep -vxFf "$base.gone") "$base.there"; then return 1; fi
    functions_but "$base.gone" >"$base.use.c"
    "${compiler[@]}" "$@" "$base.use.c" -x none "$base.o" -o "$base.use" -lm && "$base.use"
}

# Private functions of what is left out, in a unit that has all of it static and is optimised: none.
left_out_code()
{
    local base=build/link/left_out.code there
    "${STRICT_C[@]}" -O1 -Ibuild/link -DLEFT_OUT_ALONE "${LEFT_OUT_TOGETHER[@]}" tests/compile/left_out.c -o "$base" -lm &&
        "$base" >"$base.txt" || return
    there=$(nm "$base" |
        grep -oE ' pu__(ar|ssm|chain|fft|fourier|lattice|kalman|dense_prepare|dual|cells|fit|newton)_[a-z_]+' || true)
    if [[ $there ]]; then echo "still there:$there"; return 1; fi
}

# left_out_syntax COMPILER FLAGS...: compiles without a warning; C in double and float, C++ in one of them
left_out_syntax()
{
    local flags=("${STRICT[@]}" "${EXTRA_FLAGS[@]}" -fsyntax-only -I.) with=$1
    shift
    case $with in
        g++) g++ -x c++ -std=c++11 "${flags[@]}" "$@" tests/compile/impl.c ;;
        clang++) clang++ -x c++ -std=c++11 "${flags[@]}" "$@" -DPU_FLOAT tests/compile/impl.c ;;
        *)
            "$with" -std=c99 "${flags[@]}" "$@" tests/compile/impl.c &&
                "$with" -std=c99 "${flags[@]}" "$@" -DPU_FLOAT tests/compile/impl.c
            ;;
    esac
}

# Switches that leave storeys out, each alone, all together and some of them; in C++ the programs are those of all together. As
# a part: all together in C.
job_left_out()  # LANGUAGE: c or c++; [part]
{
    local language=$1 part=${2:-} entry words compiler several more=() some=()
    if [[ $language == c++ ]] && ! have g++; then job_skip 1 "no g++"; return; fi
    if [[ $(echo '__has_attribute(unavailable)' | "${CC_CMD[@]}" -E -P -xc - 2>&1 | tail -n 1) != 1 ]]; then
        job_skip 1 "the compiler has no attribute that refuses a call (gcc from 12 on, clang)"
        return
    fi
    left_out_sources || return
    if ! left_out_program "$language.whole" ""; then echo "the whole library"; return 1; fi
    check "all together" left_out_program "$language.all$part" pu_fit "${LEFT_OUT_TOGETHER[@]}"
    if [[ $language == c ]]; then check "their code is gone" left_out_code; fi
    for entry in "${LEFT_OUT_BY[@]}"; do
        read -ra words <<<"$entry"
        if [[ ! $part && $language == c ]]; then
            check "${words[0]}" left_out_program "$language.${words[0]}" "${words[1]}" "-D${words[0]}"
        fi
        more+=("-D${words[0]}")
    done
    some=("${more[*]}" "${more[@]}")
    if [[ $part ]]; then some=("${more[*]}"); fi
    for compiler in gcc clang; do
        if [[ $language == c++ ]]; then compiler=${compiler/gcc/g}++; fi
        if ! have "$compiler"; then skip "$compiler"; continue; fi
        for several in "${some[@]}"; do
            read -ra words <<<"$several"
            check "$compiler ${several//-D/}" left_out_syntax "$compiler" "${words[@]}"
        done
    done
    if [[ ! $part && $language == c ]] && have gcc; then
        for several in "-DPU_NO_SERIES -DPU_NO_EXACT" "-DPU_NO_SERIES -DPU_NO_FIT" "-DPU_NO_FOURIER -DPU_NO_MODELS" \
            "-DPU_NO_FOURIER -DPU_NO_EXACT -DPU_NO_FIT" "-DPU_NO_EXACT -DPU_NO_FIT -DPU_NO_STDIO -DPU_NO_MALLOC"; do
            read -ra words <<<"$several"
            check "gcc ${several//-D/}" left_out_syntax gcc "${words[@]}"
        done
        check "gcc, all, static" gcc -std=c99 -O0 -S -o /dev/null -I. "${STRICT[@]}" "${EXTRA_FLAGS[@]}" \
            "${more[@]}" -DPU_NO_STDIO -DPU_NO_MALLOC tests/compile/static.c
    fi
    check "PU_CUDA needs series" refuses_to_compile "PU_CUDA has kernels for series" "${STRICT_C[@]}" -fsyntax-only \
        -DPU_CUDA -DPU_NO_SERIES tests/compile/decl.c
    end_of_checks
}

# Examples and benchmarks under the strict flags, not run. By themselves they are quick to compile; `alone` means together
# with the implementation, as their first lines tell.
job_sources()   # FLAG SOURCES...
{
    local flag=$1 source
    shift
    for source in "$@"; do
        check "$source" "${STRICT_C[@]}" -O0 "${OMP[@]}" "$flag" -S "$source" -o /dev/null
    done
    end_of_checks
}

add_compile()
{
    local compiler standard sources
    if [[ $NVCC_CMD ]]; then
        add compile/nvcc.double job_nvcc double
        add compile/nvcc.float job_nvcc float -DPU_FLOAT
    else
        add compile/nvcc job_skip 2 "no nvcc"
    fi
    for compiler in gcc clang; do for standard in c99 c11 c17; do
        add "compile/$compiler.$standard" job_matrix $compiler c $standard
    done; done
    for compiler in g++ clang++; do for standard in c++11 c++17; do
        add "compile/$compiler.$standard" job_matrix $compiler c++ $standard
    done; done
    add compile/gcc.c99_part job_matrix gcc c c99 part
    add compile/g++.c++11_part job_matrix g++ c++ c++11 part
    add compile/switches_part job_switches c part
    add compile/switches.c job_switches c
    add compile/switches.c++ job_switches c++
    add compile/left_out_part job_left_out c part
    add compile/left_out.c job_left_out c
    add compile/left_out.c++ job_left_out c++
    add compile/libraries job_libraries
    add compile/unfit job_unfit
    mapfile -t sources < <(find examples tests/bench -maxdepth 1 -name '*.c' 2>/dev/null | sort)
    if [[ ${#sources[@]} -gt 0 ]]; then
        add compile/examples job_sources -DPU_IMPLEMENTATION_ONCE "${sources[@]}"
        add compile/examples.alone job_sources -UPU_IMPLEMENTATION_ONCE "${sources[@]}"
    fi
}

# ---------------------------------------------------------------------------------------------- linking

# link_object OUTPUT SOURCE FLAGS...: one object of a link test; .cpp goes to the C++ compiler
link_object()
{
    local output=build/link/$1 source=tests/compile/$2
    shift 2
    if [[ $source == *.cpp ]]; then
        "${STRICT_CXX[@]}" -O0 "$@" -c "$source" -o "$output"
    else
        "${STRICT_C[@]}" -O0 "$@" -c "$source" -o "$output"
    fi
}

# A C user, a C++ user and the implementation, three translation units in one program.
job_link_users()        # PRECISION FLAGS...
{
    local name=users.$1
    shift
    have g++ || { job_skip 1 "no g++"; return; }
    link_object "$name.main.o" users_main.c "$@" &&
    link_object "$name.cpp.o" users_cpp.cpp "$@" &&
    link_object "$name.impl.o" impl.c "$@" &&
    g++ build/link/"$name".{main,cpp,impl}.o -o "build/link/$name" -lm &&
    "build/link/$name" || return
    echo "1 passed, 0 failed"
}

# The float and the double build of the library in one program, each with its own user.
job_link_precisions()
{
    link_object both.main.o both_main.c &&
    link_object both.double.o both_user.c &&
    link_object both.float.o both_user.c -DPU_FLOAT &&
    "${CC_CMD[@]}" build/link/both.{main,double,float}.o -o build/link/both -lm &&
    build/link/both || return
    echo "1 passed, 0 failed"
}

# A float user with a double implementation must fail to link, not at run time.
job_link_mismatch()
{
    link_object mismatch.o decl.c -DPU_FLOAT || return
    if "${CC_CMD[@]}" "${OMP[@]}" build/link/mismatch.o build/obj/pu.double.o -o build/link/mismatch -lm \
        2>build/link/mismatch.txt; then
        echo "a float user linked with a double implementation"
        return 1
    fi
    grep -q 'puf_' build/link/mismatch.txt || { cat build/link/mismatch.txt; return 1; }
    echo "1 passed, 0 failed"
}

# Two translation units with a private copy each.
job_link_static()
{
    link_object static.main.o static_main.c &&
    link_object static.other.o static.c &&
    "${CC_CMD[@]}" build/link/static.{main,other}.o -o build/link/static -lm &&
    build/link/static || return
    echo "1 passed, 0 failed"
}

# Exported names: pu_ in a double build, puf_ in a float build; with PU_STATIC none but the test's own pu_test_static.
# Weak symbols of a C++ build are inline functions of the C++ library and not ours.
job_link_symbols()      # SOURCE, or an object that is there; EXPECTED
{
    local object=$1 expected=$2 bad all
    if [[ $1 == *.cpp ]] && ! have g++; then job_skip 1 "no g++"; return; fi
    if [[ $1 != *.o ]]; then
        object=build/link/symbols.$1.o
        link_object "symbols.$1.o" "$1" || return
    fi
    all=$(nm -g --defined-only "$object" | awk '$2 !~ /^[WVu]$/ { print $3 }')
    bad=$(grep -vE "$expected" <<<"$all" || true)
    if [[ -z $all ]]; then echo "no symbol is exported at all"; return 1; fi
    if [[ $bad ]]; then printf 'these names should not be exported:\n%s\n' "$bad"; return 1; fi
    echo "1 passed, 0 failed"
}

# A shared library has what the object has to give, and nothing else; both precisions are the same calls.
lib_exports()   # LIBRARY
{
    local inside exported
    inside=$(nm -g --defined-only build/obj/pu.double_pic.o | awk '{ print $3 }' | sort)
    exported=$(nm -D --defined-only "$1" | awk '{ print $3 }' | sort)
    diff <(printf '%s\n' "$inside" "${inside//pu_/puf_}" | sort) <(echo "$exported") && [[ $exported == *puf_flat_fit* ]]
}

# lib_program OUTPUT FLAGS...: the numbers of the flat layer by a library
lib_program()
{
    local output=$1
    shift
    "${STRICT_C[@]}" -O0 "${OMP[@]}" tests/compile/flat_numbers.c "$@" -o "$output" -lm && "$output" >"$output.txt" &&
        [[ $(wc -l <"$output.txt") == 350 ]]
}

# The piece of docs/bindings.md that is Python, at a place like the top of the tree, prints what stands below it.
lib_python()
{
    mkdir -p $base/python/build/lib
    ln -sf ../../../libpu.so $base/python/build/lib/libpu.so
    awk '/^```python$/ { on = 1; next } /^```$/ { on = 0 } on' docs/bindings.md >$base/python/snippet.py
    awk '/^```python$/ { seen = 1 } /^```$/ { on = 0 } on; seen && /^```text$/ { on = 1 }' docs/bindings.md \
        >$base/python/said.txt
    (cd $base/python && python3 snippet.py) >$base/python/printed.txt || return
    [[ -s $base/python/said.txt ]] && diff $base/python/said.txt $base/python/printed.txt
}

# Installed and found by pkg-config, by a program without the implementation; then removed.
lib_installed()
{
    local flags stage=$PWD/$base/stage
    . examples/cmake/install.sh
    (export DESTDIR=$stage PREFIX=/opt/pu && cmd_install "$base") || return
    if have pkg-config; then
        read -ra flags <<<"$(PKG_CONFIG_PATH=$stage/opt/pu/lib/pkgconfig pkg-config --cflags --libs libpu)"
        # its header, not the one here
        "${CC_CMD[@]}" -std=c99 tests/compile/flat_numbers.c "${flags[@]}" -o $base/installed
        check "installed, found by pkg-config" cmp $base/shared.txt <(LD_LIBRARY_PATH=$stage/opt/pu/lib $base/installed)
    else
        skip "installed: no pkg-config"
    fi
    (export DESTDIR=$stage PREFIX=/opt/pu && cmd_uninstall) || return
    check "uninstalled" test -z "$(find "$stage" ! -type d)"
}

# The library of ./build.sh lib, from objects that are quicker to make: its names, and programs that use it.
job_lib()
{
    local base=build/link/lib
    mkdir -p $base
    lib_link $base build/obj/pu.double_pic.o build/obj/pu.float_pic.o || return
    check "exported names" lib_exports $base/libpu.so
    check "soname" grep -q 'SONAME.*libpu[.]so[.][0-9]' <(readelf -d $base/libpu.so)
    check "shared, double" lib_program $base/shared -L$base -Wl,-rpath,"$PWD/$base" -lpu
    check "shared, float" lib_program $base/shared_float -DPU_FLOAT -L$base -Wl,-rpath,"$PWD/$base" -lpu
    check "static, double" lib_program $base/static $base/libpu.a
    check "the same bits" cmp $base/shared.txt $base/static.txt
    "${STRICT_C[@]}" -O0 tests/compile/dlopen.c -o $base/dlopen -ldl -lm || return
    check "opened by name" $base/dlopen $base/libpu.so
    lib_installed || return
    if have python3; then check "docs/bindings.md, Python" lib_python; else skip "docs/bindings.md: no python3"; fi
    end_of_checks
}

# Packages, as those use them who have only what was installed: programs in directories of their own (compile/consumer.c and
# consumer.cpp), each built without optimisation and run. The implementation takes most of the time; those whose way to the
# header alone differs have one that was compiled once.

# consumer_object PRECISION HEADERS NAME: build/link/NAME.PRECISION.o, which several of them link
consumer_object()
{
    local flags=()
    if [[ $1 == float ]]; then flags=(-DPU_FLOAT); fi
    "${CC_CMD[@]}" -std=c99 -O0 "${flags[@]}" "-I$2" -c tests/compile/impl.c -o "build/link/$3.$1.o"
}

# consumer NAME OBJECT COMPILER FLAGS...: consumer.c, or consumer.cpp by g++, in a directory that has nothing else
consumer()
{
    local directory=build/link/consumer.$1 object=$PWD/$2 source=consumer.c
    shift 2
    if [[ $1 == *++ ]]; then source=consumer.cpp; fi
    rm -rf "$directory"
    mkdir -p "$directory"
    cp tests/compile/$source "$directory/"
    (cd "$directory" && "$1" $source "$object" -o program "${@:2}" && ./program)
}

# Installed by build.sh below a DESTDIR, moved, and found by pkg-config; the header by itself; C and C++17.
job_pkgconfig()
{
    local base=$PWD/build/link/pkgconfig flags
    have pkg-config || { job_skip 5 "no pkg-config"; return; }
    rm -rf "$base"
    mkdir -p "$base"
    DESTDIR=$base/stage PREFIX=/opt/pu ./build.sh install || return
    check "nothing beside DESTDIR" test ! -e /opt/pu/include/pu.h
    mv "$base/stage/opt/pu" "$base/moved" || return
    export PKG_CONFIG_PATH=$base/moved/lib/pkgconfig
    check "version" grep -F "\"$(pkg-config --modversion pu)\"" pu.h
    read -ra flags <<<"$(pkg-config --cflags --libs pu)"
    consumer_object double "$base/moved/include" pkgconfig || return
    check "pkg-config, C99" consumer pc.c build/link/pkgconfig.double.o "${CC_CMD[0]}" -std=c99 -Wall -Wextra "${flags[@]}"
    check "plain include, C99" consumer plain.c build/link/pkgconfig.double.o \
            "${CC_CMD[0]}" -std=c99 "-I$base/moved/include" -lm
    if have g++; then
        check "pkg-config, C++17" consumer pc.cpp build/link/pkgconfig.double.o g++ -std=c++17 -Wall -Wextra "${flags[@]}"
    else
        skip "pkg-config, C++17: no g++"
    fi
    end_of_checks
}

# The next two work in $base, the directory of the job: two of these jobs may run at once.
# cmake_consumer NAME FLAGS...: a project that uses pu by CMake, configured, built and run
cmake_consumer()
{
    local name=$1
    shift
    cmake -S "$base/consumer" -B "$base/$name" "$@" && cmake --build "$base/$name" && "$base/$name/consumer_c" &&
        if [[ -f $base/$name/consumer_cpp ]]; then "$base/$name/consumer_cpp"; fi
}

# cmake_refuses WORDS FLAGS...: configuring stops, and says these words
cmake_refuses()
{
    local words=$1 said
    shift
    rm -rf "$base/refused"
    if said=$(cmake -S "$base/consumer" -B "$base/refused" "$@" 2>&1); then
        echo "configured: $*"
        return 1
    fi
    said=$(tr -s ' \n' ' ' <<<"$said")    # CMake folds lines
    [[ $said == *"$words"* ]] || { echo "$said"; return 1; }
}

# Installed by CMake, or by build.sh, and found by find_package; taken in by add_subdirectory or FetchContent; components.
# Each of these projects compiles the implementation itself only where ALL is set, as the last of them does.
job_cmake()     # [all]
{
    local here=$PWD base=build/link/cmake${1:+.$1} double float
    have cmake || { job_skip 9 "no cmake"; return; }
    have make || have ninja || { job_skip 9 "no make"; return; }
    export CC="${CC_CMD[*]}"
    rm -rf $base
    mkdir -p $base/consumer
    cp tests/compile/consumer.{c,cpp} tests/compile/impl.c $base/consumer/
    cat >$base/consumer/CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.14)
project(consumer C)
if(TAKEN STREQUAL "subdirectory")
  add_subdirectory(${SOURCE} pu)
elseif(TAKEN STREQUAL "fetched")
  include(FetchContent)
  FetchContent_Declare(pu URL ${SOURCE})
  FetchContent_MakeAvailable(pu)
else()
  find_package(pu ${VERSION} REQUIRED COMPONENTS ${COMPONENTS})
endif()
include(CheckLanguage)
check_language(CXX)
set(sources consumer.c)
if(CMAKE_CXX_COMPILER)
  enable_language(CXX)
  set(CMAKE_CXX_STANDARD 17)
  list(APPEND sources consumer.cpp)
endif()
set(CMAKE_C_STANDARD 99)
foreach(source IN LISTS sources)
  string(REPLACE "." "_" name ${source})
  add_executable(${name} ${source} ${OBJECT})
  if(NOT OBJECT)
    target_sources(${name} PRIVATE impl.c)
  endif()
  target_link_libraries(${name} PRIVATE pu::pu)
  foreach(component IN LISTS COMPONENTS)
    target_link_libraries(${name} PRIVATE pu::${component})
  endforeach()
endforeach()
CMAKE
    cmake -S . -B $base/pu "-DCMAKE_INSTALL_PREFIX=$here/$base/prefix" -DCMAKE_INSTALL_LIBDIR=lib/machine || return
    DESTDIR='' cmake -P $base/pu/cmake_install.cmake || return
    mv $base/prefix $base/by_cmake || return
    DESTDIR=$here/$base/stage PREFIX=/usr ./build.sh install || return
    mv $base/stage/usr $base/by_build || return
    mkdir -p $base/tree/examples
    cp -r CMakeLists.txt pu.h pu_cuda.cuh $base/tree/
    cp -r examples/cmake $base/tree/examples/
    tar -C $base/tree -cf $base/tree.tar .
    if [[ ${1:-} ]]; then
        check "an example" cmake_example
        check "find_package, implementation by itself" cmake_consumer alone "-Dpu_DIR=$here/$base/by_cmake/lib/machine/cmake/pu"
        check "OpenMP, implementation by itself" cmake_consumer alone.openmp "-DCMAKE_PREFIX_PATH=$here/$base/by_build" \
            "-DCOMPONENTS=float;openmp"
        end_of_checks
        return
    fi
    consumer_object double $base/by_cmake/include cmake && consumer_object float $base/by_build/include cmake || return
    double=-DOBJECT=$here/build/link/cmake.double.o
    float=-DOBJECT=$here/build/link/cmake.float.o
    check "installed by CMake" cmake_consumer by_cmake.double "$double" "-Dpu_DIR=$here/$base/by_cmake/lib/machine/cmake/pu"
    check "installed by build.sh" cmake_consumer by_build.double "$double" "-DCMAKE_PREFIX_PATH=$here/$base/by_build"
    if [[ ${#OMP[@]} -gt 0 ]]; then
        check "float, OpenMP" cmake_consumer by_build.float "$float" "-DCMAKE_PREFIX_PATH=$here/$base/by_build" \
            "-DCOMPONENTS=float;openmp"
    else
        check "float" cmake_consumer by_build.float "$float" "-DCMAKE_PREFIX_PATH=$here/$base/by_build" -DCOMPONENTS=float
    fi
    check "add_subdirectory, float" cmake_consumer sub "$float" -DTAKEN=subdirectory "-DSOURCE=$here" -DCOMPONENTS=float
    check "FetchContent" cmake_consumer fetched "$double" -DTAKEN=fetched "-DSOURCE=file://$here/$base/tree.tar"
    check "no such component" cmake_refuses "pu, component quad: there is no such component" \
        "-DCMAKE_PREFIX_PATH=$here/$base/by_build" -DCOMPONENTS=quad
    check "another version" cmake_refuses "version" "-DCMAKE_PREFIX_PATH=$here/$base/by_build" -DVERSION=99.1
    rm $base/by_build/include/pu.h
    check "the header is gone" cmake_refuses "pu.h is not in" "-DCMAKE_PREFIX_PATH=$here/$base/by_build"
    end_of_checks
}

cmake_example() { cmake "$base/pu" -DPU_EXAMPLES=ON && cmake --build "$base/pu" --target pu_example_first; }

add_link()
{
    add link/users.double job_link_users double
    add link/users.float job_link_users float -DPU_FLOAT
    add link/precisions job_link_precisions
    add_with "double" link/mismatch job_link_mismatch
    add link/static job_link_static
    add_with "double" link/symbols.double job_link_symbols build/obj/pu.double.o '^pu_'
    add_with "float" link/symbols.float job_link_symbols build/obj/pu.float.o '^puf_'
    add link/symbols.static job_link_symbols static.c '^pu_test_static$'
    add link/symbols.c++ job_link_symbols impl.cpp '^pu_'
    add_with "double_pic float_pic" link/lib job_lib
    add link/pkgconfig job_pkgconfig
    add link/cmake job_cmake
    add link/cmake.alone job_cmake all
}

# ---------------------------------------------------------------------------------------------- programs

# A user's operator that states its form costs at most 1.05 times the built-in one: instructions of one gradient, float, one
# thread. tests/bench/user_ops.c has the cases.
job_user_ops()
{
    local program=build/tests/user_ops object=build/obj/pu.count.o flags=(-std=c99 -O2) name what count p=0 f=0
    local -A counts_of
    have valgrind || { job_skip 7 "no valgrind"; return; }
    if probe "${CC_CMD[@]}" -march=x86-64-v2; then flags+=(-march=x86-64-v2); fi # the same on every machine of this kind
    # the library on its own, so that pu_gradient is not inlined into the program
    "${CC_CMD[@]}" "${flags[@]}" -DPU_FLOAT -I. -c tests/compile/impl.c -o "$object" &&
        "${CC_CMD[@]}" "${flags[@]}" -DPU_IMPLEMENTATION_ONCE -I. tests/bench/user_ops.c "$object" -o "$program" -lm || return
    for name in $("$program" cases); do
        for what in builtin user; do
            count=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect=puf_gradient \
                "$program" "$name" $what 2>&1 | sed -n 's/^==[0-9]*== Collected : \([0-9]*\).*/\1/p')
            if [[ ! ${count:-} || $count == 0 ]]; then echo "valgrind counted nothing for $name $what"; return 1; fi
            counts_of[$what]=$count
        done
        if awk -v u="${counts_of[user]}" -v b="${counts_of[builtin]}" -v n="$name" \
            'BEGIN { printf "%-18s builtin %12.0f  user %12.0f  ratio %.4f\n", n, b, u, u / b; exit u > 1.05 * b }'; then
            p=$((p + 1))
        else
            f=$((f + 1))
            echo "FAIL  $name: more than 1.05 times the built-in operator"
        fi
    done
    counts $p $f 0
    ((f == 0))
}

# example_program NAME OUTPUT: an example, with the object of the library that the unit tests have
example_program()
{
    local source=examples/$1.c precision=double
    if grep -qE '^[[:space:]]*#[[:space:]]*define[[:space:]]+PU_FLOAT' "$source"; then precision=float; fi
    "${STRICT_C[@]}" -O1 "${OMP[@]}" -DPU_IMPLEMENTATION_ONCE "$source" "build/obj/pu.$precision.o" -o "$2" -lm
}

# Fits by several processes: the programs with MPI, and what tests/team_mpi.sh does with them.
job_team_mpi()  # KILLS
{
    local program precision flags
    if ! have mpicc || ! have mpirun || ! have pgrep; then job_skip 1 "no MPI (mpicc, mpirun), or no pgrep"; return; fi
    mkdir -p build/tests/mpi
    for program in noisy_ar mixed ratings ratings_double; do
        precision=double flags=(-DPU_IMPLEMENTATION_ONCE)
        case $program in
            ratings) precision=float ;;
            ratings_double) flags+=(-DRATINGS_DOUBLE) ;;
        esac
        with_mpi "${STRICT_C[@]}" -O1 "${OMP[@]}" -DPU_MPI "${flags[@]}" "examples/${program%_double}.c" \
            "build/obj/pu.$precision.o" -o "build/tests/mpi/${program}_mpi" -lm || return
        if [[ $program != *_double ]]; then example_program $program build/tests/mpi/$program || return; fi
    done
    limited tests/team_mpi.sh build/tests/mpi "$1"
}

# A program killed at random moments and resumed ends with the results of one that ran through.
job_kill_resume()
{
    example_program ratings build/tests/ratings || return
    limited tests/kill_resume.sh build/tests/ratings
}

# How programs behave: full disks, Ctrl-C, lines of progress, messages about files.
job_manners()
{
    local program
    mkdir -p build/tests/manners
    for program in first noisy_ar state_space structural mixed field factors regress ratings demo scaling gradient_error; do
        example_program $program "build/tests/manners/$program" || return
    done
    limited tests/manners.sh build/tests/manners
}

# Pages and pictures of programs, looked at in Chromium.
job_pages()     # [part]
{
    local program programs=(ratings scaling gradient_error compressed_sensing)
    if [[ ! ${1:-} ]]; then programs+=(noisy_ar state_space structural mixed field factors regress demo); fi
    if ! have chromium && ! have chromium-browser && ! have google-chrome; then
        job_skip 1 "no Chromium to look at pages with; on Debian as root: apt-get install chromium"
        return
    fi
    mkdir -p build/tests/pages
    for program in "${programs[@]}"; do
        example_program "$program" "build/tests/pages/$program" || return
    done
    limited tests/pages.sh build/tests/pages "${1:-}"
}

# The pages of results that programs write; their --help.
job_reports()
{
    local program
    mkdir -p build/tests/reports
    for program in noisy_ar state_space structural mixed field factors regress; do
        example_program $program "build/tests/reports/$program" || return
    done
    limited tests/reports.sh build/tests/reports
}

# What the documents show as C compiles, runs and prints what they say; what they name is there.
# The pieces of the documents; the tutorial types the names of two programs.
job_snippets()
{
    local program
    mkdir -p build/tests/tutorial
    for program in structural ratings; do
        example_program "$program" "build/tests/tutorial/$program" || return
    done
    limited tests/snippets.sh build/tests/snippets build/tests/tutorial "${STRICT_C[@]}" -O0
}

# r_readme DIRECTORY: what examples/r/README.md shows prints what it says
r_readme()
{
    awk '/^```r$/ { on = 1; next } /^```$/ { on = 0 } on' examples/r/README.md >"$1/readme.R"
    awk '/^```r$/ { seen = 1 } /^```$/ { on = 0 } on; seen && /^```text$/ { on = 1 }' examples/r/README.md >"$1/said.txt"
    (cd "$1" && Rscript readme.R) >"$1/printed.txt" || return
    [[ -s $1/said.txt ]] && diff "$1/said.txt" "$1/printed.txt"
}

# The functions for R, in a tree of their own. With the word alone pu.c is built as its README says, else with an object of the
# library that is there already.
job_r()         # [alone]
{
    local base=build/tests/r${1:-} object=$PWD/build/obj/pu.double_pic.o
    have R && have Rscript || { job_skip 1 "no R (on Debian: r-base-core)"; return; }
    have make || { job_skip 1 "no make, which R needs"; return; }
    mkdir -p "$base/examples"
    cp -r examples/r "$base/examples/"
    rm -f "$base"/examples/r/*.{o,so}
    cp pu.h "$base/"
    if [[ ${1:-} ]]; then
        (cd "$base/examples/r" && R CMD SHLIB pu.c) || return
        check "README" r_readme "$base"
        end_of_checks
        return
    fi
    (cd "$base/examples/r" && PU_CPPFLAGS=-DPU_IMPLEMENTATION_ONCE PU_LIBS=$object R CMD SHLIB pu.c) || return
    "${STRICT_C[@]}" -O0 "${OMP[@]}" tests/compile/flat_numbers.c "$object" -o "$base/numbers" -lm &&
        "$base/numbers" >"$base/numbers.txt" || return
    check "README" r_readme "$base"
    check "tests/bindings.R" limited Rscript tests/bindings.R "$base/examples/r" "$base/numbers.txt"
    end_of_checks
}

# refused_option WORDS...: refused beside --data, with code 2 and a message that names the option
refused_option()
{
    local code=0 said
    said=$(build/tests/noisy_ar --data build/tests/refusals.csv "$@" 2>&1) || code=$?
    [[ $code == 2 && $said == *"${1%%=*}"* ]] || { echo "code $code, $said"; return 1; }
}

# refused_device PROGRAM ARGS...: with --device cuda it says in one line that there is no device, and ends with code 1
refused_device()
{
    local said code=0
    said=$("$@" --device cuda 2>&1) || code=$?
    if [[ $code == 1 && $said != *$'\n'* && $said == *"there is no device that could be used"* ]]; then return 0; fi
    echo "$* --device cuda ends with code $code and says: $said"
    return 1
}

# Command lines that a program must refuse.
job_refusals()
{
    local option words
    example_program noisy_ar build/tests/noisy_ar || return
    printf 'y\n1\n2\n3\n' >build/tests/refusals.csv
    for option in "--length 10" "--series=2" "--missing 0.5" "--device tpu"; do
        read -ra words <<<"$option"
        check "refused beside --data: $option" refused_option "${words[@]}"
    done
    check "refused without a device" refused_device build/tests/noisy_ar --length 10
    end_of_checks
}

add_programs()
{
    add_with "double float" programs/manners job_manners
    add_with double programs/reports job_reports
    add_with "double float" programs/kill_resume job_kill_resume
    add_with "double float" programs/team_mpi_part job_team_mpi 2
    add_with "double float" programs/team_mpi job_team_mpi 20
    add_with "double float" programs/refusals job_refusals
    add programs/user_ops job_user_ops
    add_with "double_pic" programs/r job_r
    add programs/r.alone job_r alone
    add_with "double float" programs/snippets job_snippets
    add_with "double float" programs/pages_part job_pages part
    add_with "double float" programs/pages job_pages
}

# ---------------------------------------------------------------------------------------------- how it is written

# The frames of functions are known already when the programs' objects have been made.
job_lint()
{
    local stack=(build/obj/pu.double.su build/obj/pu.float.su)
    if [[ ! -f ${stack[0]} || ! -f ${stack[1]} ]]; then stack=(); fi
    CC="${CC_CMD[*]}" tests/lint.sh "${stack[@]}"
}

# The scripts themselves; build.sh leads to those it reads.
job_shell()
{
    local script
    have shellcheck || { job_skip 1 "no shellcheck"; return; }
    for script in build.sh .ci/run tests/lint.sh tests/newcomer.sh tests/kill_resume.sh tests/team_mpi.sh tests/manners.sh \
        tests/reports.sh tests/pages.sh; do
        check "$script" shellcheck -x "$script"
    done
    end_of_checks
}

# ---------------------------------------------------------------------------------------------- the command

# Prints the jobs that took longest, what was left out, and the sum over all jobs as the last line; true when something
# passed and nothing failed.
test_summary()
{
    local result reason p f s total=(0 0 0)
    for result in build/log/*.res; do
        [[ -f $result ]] || continue
        read -r p f s _ <"$result"
        total=($((total[0] + p)) $((total[1] + f)) $((total[2] + s)))
    done
    if ((total[0] + total[1] == 0)); then warn "no test ran"; fi
    cat build/log/*.res 2>/dev/null | awk '{ printf "%8.1f %s\n", $4, $5 }' | sort -rn >build/test-times.txt
    say "processor time of the longest, in seconds (all of them: build/test-times.txt)"
    head -n 8 build/test-times.txt
    if [[ ${#OMITTED[@]} -gt 0 ]]; then
        say "left out, run them by ./build.sh test rest, or all by ./build.sh test all:"
        for reason in "${!OMITTED[@]}"; do printf '%8d jobs: %s\n' "${OMITTED[$reason]}" "$reason"; done | sort -rn
    fi
    say "total time $SECONDS s, processor time $(awk '{ t += $1 } END { printf "%.0f", t }' build/test-times.txt) s"
    counts "${total[@]}"
    ((total[1] == 0 && total[0] > 0))
}

cmd_test()
{
    local variant programs others topic
    if [[ ${TEST_FULL:-} ]]; then MODE=all; fi
    case ${1:-} in
        all | rest)
            MODE=$1
            shift
            ;;
    esac
    FILTERS=("$@")
    if [[ ${#FILTERS[@]} -gt 0 || $MODE != quick ]]; then TEST_TIMEOUT=${TEST_TIMEOUT:-900}; fi
    TEST_TIMEOUT=${TEST_TIMEOUT:-300}
    find_cc
    install_test_tools "$(yes_no wanted unit/threads.races)"
    find_tools
    find_cuda
    say "FFTW       $(yes_no test -n "$HAVE_FFTW")"
    say "CBLAS      ${HAVE_CBLAS:-no}"
    say "CHOLMOD    $(yes_no test -n "$HAVE_CHOLMOD")"
    if [[ $CUDA_LACKS ]]; then
        say "CUDA tests no kernels are run, missing: $CUDA_LACKS"
    else
        say "CUDA tests kernels run on the CPU"
    fi
    STRICT_C=("${CC_CMD[@]}" -std=c99 -I. "${STRICT[@]}" "${EXTRA_FLAGS[@]}")
    STRICT_CXX=(g++ -std=c++11 -I. "${STRICT[@]}" "${EXTRA_FLAGS[@]}")
    rm -rf build/log build/tests build/obj build/link
    mkdir -p build/log build/tests build/obj build/link

    # Test programs need greatest.h and, most of them, the shared object; got only when a program is wanted.
    declare -gA NEED_OBJECT=() NEED_ENGINE=() OMITTED=()
    add_programs
    others=("${QUEUE[@]}")
    QUEUE=()
    add_cuda
    add unit/threads.races job_races threads
    for topic in engines badinput; do add "unit/$topic.nulls" job_nulls $topic; done
    add machines/i386 job_machine i386 {double,float}.{badinput,operators,fit,golden} float.{memory,predict}
    add machines/s390x job_machine s390x float.{badinput,checkpoint,save,op_sparse,user_ops,golden}
    add_unit
    add_golden
    add_native
    add_libraries
    programs=("${QUEUE[@]}")
    QUEUE=()
    if [[ ${#programs[@]} -gt 0 ]] && ! need_greatest; then
        say "0 passed, 1 failed"
        exit 1
    fi
    add_link
    programs=("${others[@]}" "${programs[@]}")
    others=("${QUEUE[@]}")
    QUEUE=()
    # What takes longest comes first, here as in the other queues: then no core waits for another at the end.
    for variant in {float,double}_{asan,native} float double {float,double}_{libs,pic}; do
        if [[ ${NEED_OBJECT[$variant]:-} ]]; then queue "object/$variant" job_object "$variant"; fi
    done
    for variant in "${!NEED_ENGINE[@]}"; do queue "cuda/engine.$variant" job_engine "${NEED_ENGINE[$variant]}"; done
    run_queue
    for variant in "${!NEED_OBJECT[@]}"; do
        if [[ ! -f build/obj/pu.$variant.o ]]; then
            warn "pu.h does not compile; nothing else is run"
            test_summary || exit 1
        fi
    done

    QUEUE=("${programs[@]}")
    add_compile
    QUEUE+=("${others[@]}")
    add_python
    add lint job_lint
    add lint.shell job_shell
    run_queue
    test_summary || exit 1
}
