#!/usr/bin/env bash
# build.sh - the one entry point of pu: builds, tests, measures, installs. `./build.sh help` lists the commands.
#
# Everything it makes goes into build/. The sections below, top to bottom:
#   settings, messages, packages, toolchain, greatest.h, job runner, test jobs, CUDA test jobs, commands.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# ---------------------------------------------------------------------------------------------- settings

JOBS=${JOBS:-$(nproc 2>/dev/null || echo 2)}
TEST_FULL=${TEST_FULL:-}
TEST_TIMEOUT=${TEST_TIMEOUT:-$([[ $TEST_FULL ]] && echo 900 || echo 300)}
PREFIX=${PREFIX:-/usr/local}
CUDA_ARCH=${CUDA_ARCH:-sm_75}
CUDA_ARCHS=(sm_75 sm_80 sm_86 sm_89 sm_90 sm_100 sm_120)
read -ra EXTRA_FLAGS <<<"${CFLAGS:-}"

# The project's own code is clean under these, in every language and configuration it supports.
STRICT=(-Wall -Wextra -Wconversion -Wdouble-promotion -Wshadow -pedantic -Werror)
SANITIZE=("-fsanitize=address,undefined" -fno-sanitize-recover=all -fno-omit-frame-pointer)

GREATEST_SHA256=1292593d95c35eeccc89ffa1c91d6fe53b49f81cbf2c2b7758842b7f3186fcc2
GREATEST_URL=https://raw.githubusercontent.com/silentbicycle/greatest/v1.5.0/greatest.h
GREATEST_DEB=dunst=1.12.2-1     # a Debian source package that ships this very file as test/greatest.h
GREATEST_SUITE=trixie
if [[ -n ${HOME:-} ]]; then default_cache=${XDG_CACHE_HOME:-$HOME/.cache}/pu; else default_cache=build/cache; fi
CACHE=${PU_CACHE:-$default_cache}

# ---------------------------------------------------------------------------------------------- messages

say()  { printf '%s\n' "$*"; }
warn() { printf 'build.sh: %s\n' "$*" >&2; }
die()  { warn "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

help()
{
    cat <<'HELP'
usage: ./build.sh [command] [arguments]

commands
  demo [args]         build the demo and run it on built-in data: build/demo/report.html; the default command
  examples [name ...] build examples/*.c, or those named, into build/examples/
  test [name ...]     build and run the tests; with names, only those containing one of them
                      (a unit test's topic, a variant such as float_asan, or unit, golden, compile, link, programs, cuda)
  bench [options]     the paper's workloads against their rivals: one table, all figures in build/bench.json
                      (--quick: small sizes; --only WORD; --rounds N; --threads T)
  bench roofline      the share of this machine's bandwidth and arithmetic that each kernel reaches
  bench instructions  instructions per gradient against docs/instructions.txt (--update, --check RATIO); needs valgrind
  bench NAME [args]   build and run tests/bench/NAME.c: workloads, gradient or planner
  cuda                compile pu_cuda.cuh with nvcc for all architectures and build the examples with it, into build/cuda/;
                      registers, shared memory and spills of every kernel in build/cuda/ptxas.txt (--quick: CUDA_ARCH alone,
                      no examples, no table)
  install             copy the header(s) and pu.pc below PREFIX (default /usr/local); DESTDIR is honoured
  clean               remove build/
  help                this text

environment
  CC                  C compiler (default gcc, then cc, then clang)
  CFLAGS              extra flags, appended to every C and C++ compilation
  NVCC                CUDA compiler (default: nvcc on the PATH, then /usr/local/cuda/bin/nvcc)
  CUDA_ARCH           GPU architecture of cuda's examples, of cuda --quick and of the tests (default sm_75)
  JOBS                how many things to do at once (default: the number of cores)
  TEST_TIMEOUT        seconds one test program may take (default 300; 900 with TEST_FULL)
  TEST_FULL=1         test: CUDA kernels and devices at all sizes also in float and under the sanitizers; some minutes more
  PU_GREATEST         path of greatest.h v1.5.0, the test harness; found or fetched when not set
  PU_CACHE            where a fetched greatest.h is kept (default $XDG_CACHE_HOME/pu or ~/.cache/pu)
  NO_APT=1            never call apt-get, neither to install compilers and libraries nor to fetch greatest.h
  PU_PEER             bench: directory of bench_torch.py, the PyTorch rival (default ../shared/peer)
  PU_RATINGS          bench: file of MovieLens-1M ratings; made up when not set
  PREFIX, DESTDIR     for install

exit codes
  0 success   1 something failed, or a needed tool is missing   2 wrong usage
HELP
}

# ---------------------------------------------------------------------------------------------- packages

apt_allowed() { [[ -z ${NO_APT:-} || ${NO_APT:-} == 0 ]] && have apt-get; }

# apt_install PACKAGE...: true when they are installed afterwards; needs root. Silent, log in build/apt.log.
APT_UPDATED=
apt_install()
{
    apt_allowed && [[ $(id -u) == 0 ]] || return 1
    say "installing: $*"
    mkdir -p build
    {
        if [[ ! $APT_UPDATED ]]; then apt-get -o Acquire::Retries=1 -o Acquire::http::Timeout=20 update; fi &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
    } >build/apt.log 2>&1 </dev/null || { APT_UPDATED=1; warn "apt-get could not install: $*"; return 1; }
    APT_UPDATED=1
    hash -r
}

# ---------------------------------------------------------------------------------------------- toolchain

# Sets CC_CMD (the C compiler as an array), installing gcc when there is none.
find_cc()
{
    local c
    if [[ -z ${CC:-} ]]; then
        for c in gcc cc clang ''; do if [[ -z $c ]] || have "$c"; then break; fi; done
        if [[ -z $c ]]; then
            apt_install gcc g++ libc6-dev || die "no C compiler; install one, e.g. as root: apt-get install gcc g++ libc6-dev"
            c=gcc
        fi
        CC=$c
    fi
    read -ra CC_CMD <<<"$CC"
    have "${CC_CMD[0]}" || die "CC=$CC: no such compiler"
}

# probe COMPILER... FLAG...: does this small program compile and link with these flags?
probe()
{
    local program=$'#ifdef _OPENMP\n#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n'
    program+=$'#else\nint main(void) { return 0; }\n#endif\n'
    local output=build/probe.$BASHPID rc=0
    mkdir -p build
    "$@" -x c - -o "$output" <<<"$program" >/dev/null 2>&1 || rc=1
    rm -f "$output"
    return $rc
}

# probe_library HEADER CALL FLAGS...: is there a library with this header, and does a call of it link?
probe_library()
{
    local header=$1 call=$2 output=build/probe.$BASHPID rc=0
    shift 2
    mkdir -p build
    printf '#include <%s>\nint main(void) { %s; return 0; }\n' "$header" "$call" |
        "${CC_CMD[@]}" -x c - -o "$output" "$@" >/dev/null 2>&1 || rc=1
    rm -f "$output"
    return $rc
}

# The libraries behind PU_USE_FFTW and PU_USE_CBLAS. OpenBLAS's header would bring <complex.h> and its macro I along.
find_libraries()
{
    local link
    HAVE_FFTW='' HAVE_CBLAS='' LIBRARY_FLAGS=(-DFORCE_OPENBLAS_COMPLEX_STRUCT) LIBRARY_LINK=()
    if probe_library fftw3.h 'fftw_cleanup(); fftwf_cleanup()' -lfftw3 -lfftw3f -lm; then
        HAVE_FFTW=1 LIBRARY_FLAGS+=(-DPU_USE_FFTW) LIBRARY_LINK+=(-lfftw3 -lfftw3f)
    fi
    for link in -lopenblas -lcblas -lblas; do
        if probe_library cblas.h 'cblas_dscal(0, 1, 0, 1)' $link -lm; then
            HAVE_CBLAS=$link LIBRARY_FLAGS+=(-DPU_USE_CBLAS) LIBRARY_LINK+=("$link")
            break
        fi
    done
}

find_nvcc()
{
    local c
    NVCC_CMD=
    for c in "${NVCC:-nvcc}" "${NVCC:-/usr/local/cuda/bin/nvcc}"; do
        if have "$c"; then NVCC_CMD=$c; return 0; fi
    done
}

# What the tests in tests/cuda need to run kernels on the CPU. CUDA_FLAGS and CUDA_LINK lead to CUDA's headers and libraries;
# CUDA_LACKS says what is not there, and is empty when all is.
find_cuda()
{
    local root roots=() flags link output=build/probe.$BASHPID
    local program=$'#include <cuda_runtime.h>\n#include <cublas_v2.h>\n#include <cufft.h>\n#include <curand.h>\n'
    program+=$'int main() { int v; return curandGetVersion(&v) != CURAND_STATUS_SUCCESS; }\n'
    CUDA_FLAGS=() CUDA_LINK=() CUDA_LACKS=''
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
        flags=() link=(-lcurand)
        if [[ $root && $root != /usr ]]; then
            flags=(-isystem "$root/include") link=("-L$root/lib64" "-L$root/lib" "-Wl,-rpath,$root/lib64:$root/lib" -lcurand)
        fi
        if g++ -std=c++17 "${flags[@]}" -x c++ - -x none -o "$output" "${link[@]}" <<<"$program" >/dev/null 2>&1; then
            CUDA_FLAGS=("${flags[@]}") CUDA_LINK=("${link[@]}") CUDA_LACKS=''
            break
        fi
    done
    rm -f "$output"
    if [[ ! $HAVE_FFTW ]]; then CUDA_LACKS+="${CUDA_LACKS:+, }FFTW"; fi
    if [[ ! $HAVE_CBLAS ]]; then CUDA_LACKS+="${CUDA_LACKS:+, }a CBLAS"; fi
}

yes_no() { if "$@"; then echo yes; else echo no; fi; }

# Finds everything there is to find and prints it. Optional tools leave an empty variable.
find_tools()
{
    local clang_omp=''
    find_cc
    find_nvcc
    OMP=() NATIVE=() HAVE_ASAN=
    if probe "${CC_CMD[@]}" -fopenmp; then OMP=(-fopenmp); fi
    if probe "${CC_CMD[@]}" -march=native; then NATIVE=(-march=native); fi
    if probe "${CC_CMD[@]}" "${SANITIZE[@]}"; then HAVE_ASAN=1; fi
    if have clang && probe clang -fopenmp; then clang_omp=' with OpenMP'; fi
    say "compiler   $("${CC_CMD[@]}" --version | head -n 1)"
    say "OpenMP     $(yes_no test "${#OMP[@]}" -gt 0)"
    say "sanitizers $(yes_no test -n "$HAVE_ASAN")"
    say "clang      $(if have clang; then clang --version | head -n 1; else echo no; fi)$clang_omp"
    say "nvcc       $(if [[ $NVCC_CMD ]]; then "$NVCC_CMD" --version | grep release; else echo no; fi)"
}

# ---------------------------------------------------------------------------------------------- greatest.h

is_greatest() { [[ -f $1 ]] && echo "$GREATEST_SHA256  $1" | sha256sum --check --status 2>/dev/null; }

# Each way below leaves the file at $1 and returns true, or returns false. is_greatest judges it afterwards.

greatest_from_system()
{
    local path
    path=$(echo '#include <greatest.h>' | "${CC_CMD[@]}" -E -x c - 2>/dev/null |
           sed -n 's/^# [0-9]* "\(.*\/greatest\.h\)".*/\1/p' | head -n 1)
    [[ $path ]] && cp "$path" "$1"
}

greatest_from_cache() { [[ -f $CACHE/greatest.h ]] && cp "$CACHE/greatest.h" "$1"; }

greatest_from_upstream()
{
    if have curl; then
        curl -fsSL --connect-timeout 5 --max-time 20 -o "$1" "$GREATEST_URL" 2>/dev/null
    elif have wget; then
        wget -q --tries=1 --timeout=5 -O "$1" "$GREATEST_URL" 2>/dev/null
    else
        return 1
    fi
}

# Prints "URI keyring" for each archive this machine's apt uses (both formats of the configuration), security
# archives left out; the keyring is - where none is named by path.
apt_archives()
{
    local list='' parts=''
    eval "$(apt-config shell list Dir::Etc::sourcelist/f parts Dir::Etc::sourceparts/d)"
    {
        find "$parts" -name '*.sources' -exec sh -c 'for f; do cat "$f"; echo; done' sh {} + | awk '
            function stanza(    n, i, uri, key) {
                key = v["signed-by"]; gsub(/[ \t]/, "", key); if (key !~ /^\/[^:]*$/) key = "-"
                if (v["types"] ~ /deb/ && v["enabled"] !~ /no/ && v["suites"] !~ /security/ && v["components"] ~ /main/) {
                    n = split(v["uris"], uri, " ")
                    for (i = 1; i <= n; i++) print uri[i], key
                }
                split("", v)
            }
            /^#/          { next }
            /^[ \t]*\r?$/ { stanza(); next }
            /^[ \t]/      { v[field] = v[field] " " $0; next }
                          { field = tolower($0); sub(/:.*/, "", field); sub(/^[^:]*:/, ""); v[field] = $0 }
            END           { stanza() }'
        find "$list" "$parts" -name '*.list' -exec cat {} + | awk '
            /^[ \t]*deb(-src)?[ \t]/ && !/security/ && / main( |$)/ {
                key = "-"
                if (match($0, /signed-by=[^] \t]*/)) key = substr($0, RSTART + 10, RLENGTH - 10)
                sub(/\[[^]]*\]/, ""); print $2, key
            }'
    } 2>/dev/null | awk '$1 ~ /^(https?|file|mirror\+[a-z]+):/ && !seen[$1]++'
}

# Fetches the Debian source package with an apt configuration of its own, in a temporary directory, so that the
# machine's package lists stay as they are. Signatures are checked as usual. Works without root as well.
greatest_from_debian() (
    apt_allowed && have apt-config || exit 1
    tmp=$(mktemp -d)
    trap 'rm -rf "$tmp"' EXIT
    mkdir -p "$tmp"/{parts,lists/partial,cache/archives/partial,src}
    chmod 755 "$tmp"
    if [[ $(id -u) == 0 ]] && id -u _apt >/dev/null 2>&1; then      # apt downloads as this user
        chown _apt "$tmp"/lists/partial "$tmp"/cache/archives/partial "$tmp"/src
    fi
    cat >"$tmp/apt.conf" <<CONF
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$tmp/parts/";
Dir::State::lists "$tmp/lists/";
Dir::Cache "$tmp/cache/";
Acquire::Languages "none";
Acquire::Retries "1";
Acquire::http::Timeout "20";
Acquire::https::Timeout "20";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
CONF
    while read -r uri key; do
        rm -f "$tmp"/src/*
        if [[ ! -r $key ]]; then key=/usr/share/keyrings/debian-archive-keyring.gpg; fi
        {
            printf 'Types: deb-src\nURIs: %s\nSuites: %s\nComponents: main\n' "$uri" "$GREATEST_SUITE"
            if [[ -r $key ]]; then printf 'Signed-By: %s\n' "$key"; fi
        } >"$tmp/parts/pu.sources"
        (cd "$tmp/src" && apt-get -c "$tmp/apt.conf" update &&
         apt-get -c "$tmp/apt.conf" source --download-only --tar-only "$GREATEST_DEB") >"$tmp/log" 2>&1 </dev/null || continue
        tar -xOf "$tmp"/src/*.orig.tar.* --wildcards '*/test/greatest.h' >"$1" 2>/dev/null && exit 0
    done < <(apt_archives)
    exit 1
)

# Puts greatest.h into build/include, alone there: that directory is given to the compiler with -isystem, which
# keeps our strict warnings off a file that is not ours.
need_greatest()
{
    local target=build/include/greatest.h try=build/include/greatest.h.try way
    mkdir -p build/include
    rm -f "$target"
    if [[ -n ${PU_GREATEST:-} ]]; then
        [[ -r $PU_GREATEST ]] || { warn "PU_GREATEST=$PU_GREATEST: no such file"; return 1; }
        is_greatest "$PU_GREATEST" || warn "PU_GREATEST is not the v1.5.0 this project is tested with; using it all the same"
        cp "$PU_GREATEST" "$target"
        say "greatest.h $PU_GREATEST"
        return 0
    fi
    for way in system cache upstream debian; do
        rm -f "$try"
        if "greatest_from_$way" "$try" && is_greatest "$try"; then
            say "greatest.h from $way"
            if [[ $way == upstream || $way == debian ]]; then
                { mkdir -p "$CACHE" && cp "$try" "$CACHE/.greatest.$$" &&
                  mv "$CACHE/.greatest.$$" "$CACHE/greatest.h"; } 2>/dev/null || warn "cannot keep greatest.h in $CACHE"
            fi
            mv "$try" "$target"
            return 0
        fi
    done
    rm -f "$try"
    warn "greatest.h v1.5.0 (github.com/silentbicycle/greatest) is neither installed nor cached, and could not be fetched."
    warn "Get that file and say where it is: PU_GREATEST=/path/greatest.h ./build.sh test"
    warn "or put it into $CACHE/."
    return 1
}

# ---------------------------------------------------------------------------------------------- job runner
#
# A job is a shell function that prints, as its last line, "N passed, N failed" or "N passed, N failed, N skipped",
# and returns zero when nothing failed. Jobs are queued, then run JOBS at a time. Each leaves build/log/NAME.log and
# build/log/NAME.res, prints one line when done, and the log is shown if it failed.

FILTERS=()
QUEUE=()

wanted()
{
    local f
    [[ ${#FILTERS[@]} == 0 ]] && return 0
    for f in "${FILTERS[@]}"; do [[ $1 == *"$f"* ]] && return 0; done
    return 1
}

# queue NAME FUNCTION ARGS...: adds the job when its name is wanted
queue() { if wanted "$1"; then QUEUE+=("$(printf '%q ' "$@")"); fi; }

# sum_line FILE: the last "N passed, N failed" line of a file as three numbers, or nothing
sum_line()
{
    sed -nE 's/^([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?$/\1 \2 0\4/p' "$1" | tail -n 1
}

# counts P F S: the same, as words
counts() { if (($3 > 0)); then echo "$1 passed, $2 failed, $3 skipped"; else echo "$1 passed, $2 failed"; fi; }

run_job()
{
    local name=$1 base=build/log/${1//\//.} start rc p f s state note=''
    shift
    start=$(date +%s%N)
    set +e
    (set -e; "$@") >"$base.log" 2>&1 </dev/null
    rc=$?
    read -r p f s < <(sum_line "$base.log")
    set -e
    if [[ -z ${p:-} ]]; then p=0 f=0 s=0 note=" (no summary line, exit code $rc)"; fi
    s=$((10#$s))
    if ((rc != 0 && f == 0)); then f=1; note=${note:-" (exit code $rc)"}; fi
    if ((p + f + s == 0)); then f=1; note=${note:-" (no test ran)"}; fi
    if ((f > 0)); then state=FAIL; elif ((p == 0)); then state=skip; else state=ok; fi
    echo "$p $f $s" >"$base.res"
    printf '%-5s %-34s %s%s  %s s\n' "$state" "$name" "$(counts "$p" "$f" "$s")" "$note" \
        "$(awk -v ns=$(($(date +%s%N) - start)) 'BEGIN { printf "%.1f", ns / 1e9 }')"
}

# Runs what is queued and empties the queue; shows the logs of failed jobs.
run_queue()
{
    local job base running=0
    for job in "${QUEUE[@]}"; do
        if ((running >= JOBS)); then wait -n || true; running=$((running - 1)); fi
        eval "run_job $job" &
        running=$((running + 1))
    done
    wait
    for job in "${QUEUE[@]}"; do
        job=${job%% *} base=build/log/${job//\//.}
        if [[ ! -f $base.res ]]; then echo "0 1 0" >"$base.res"; fi
        if [[ $(cut -d ' ' -f 2 "$base.res") != 0 ]]; then
            say "--- log of $job" && cat "$base.log" && say "--- end of $job"
        fi
    done
    QUEUE=()
}

# ---------------------------------------------------------------------------------------------- test jobs

job_missing() { echo "missing: $1"; echo "0 passed, 1 failed"; }
job_skip()    { echo "skipped: $2"; echo "0 passed, 0 failed, $1 skipped"; }

# variant_flags VARIANT [O]: sets FLAGS for one of double, float, and these with _asan (optimised at level O, usually 1), _libs (FFTW,
# CBLAS) or _native (the widest vectors of this machine, fused multiply-adds); LINK
variant_flags()
{
    FLAGS=(-std=c99 -I. -Itests -isystem build/include "${STRICT[@]}")
    LINK=(-lm)
    case $1 in
        *_asan)   FLAGS+=("${SANITIZE[@]}" -g -O${2:-1}) ;;
        *_libs)   FLAGS+=("${LIBRARY_FLAGS[@]}" "${OMP[@]}" -O0) LINK=("${LIBRARY_LINK[@]}" -lm) ;;
        *_native) FLAGS+=("${OMP[@]}" -O3 "${NATIVE[@]}" -ffp-contract=fast -fno-math-errno) ;;
        *)        FLAGS+=("${OMP[@]}" -O2) ;;
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
    "${CC_CMD[@]}" "${FLAGS[@]}" -c tests/compile/impl.c -o "build/obj/pu.$1.o" || return
    echo "1 passed, 0 failed"
}

job_program()   # VARIANT SOURCE OUTPUT ARGS...: builds a test program and runs it
{
    local variant=$1 source=$2 output=$3 inputs
    shift 3
    inputs=("$source")
    if brings_own_pu "$source"; then
        variant_flags "$variant" 0 # most of the time would be the compiler's
    else
        variant_flags "$variant"
        inputs+=("build/obj/pu.$variant.o")
    fi
    "${CC_CMD[@]}" "${FLAGS[@]}" "${inputs[@]}" -o "$output" "${LINK[@]}" || return
    UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1} OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive} OPENBLAS_NUM_THREADS=1 \
        timeout "$TEST_TIMEOUT" "$output" "$@"
}

# queue_program NAME SOURCE OUTPUT VARIANT ARGS...
queue_program()
{
    local name=$1 source=$2 output=$3 variant=$4
    shift 4
    wanted "$name" || return 0
    if [[ $variant == *_asan && -z $HAVE_ASAN ]]; then
        queue "$name" job_skip 1 "the compiler has no sanitizers"
        return 0
    fi
    brings_own_pu "$source" || NEED_OBJECT[$variant]=1
    queue "$name" job_program "$variant" "$source" "$output" "$@"
}

queue_unit()
{
    local source topic variant found=
    for source in tests/test_*.c; do
        [[ -f $source ]] || continue
        found=1 topic=${source#tests/test_} topic=${topic%.c}
        for variant in double float double_asan float_asan; do
            queue_program "unit/$topic.$variant" "$source" "build/tests/$topic.$variant" $variant
        done
    done
    [[ $found ]] || queue unit job_missing "tests/test_*.c"
}

queue_golden()
{
    local variant output files=(tests/golden/*.txt)
    if [[ ! -f tests/golden.c || ! -f ${files[0]} ]]; then
        queue golden job_missing "tests/golden.c or tests/golden/*.txt"
        return 0
    fi
    for variant in double float double_asan float_asan; do
        output=golden_$variant output=${output/_double/}
        queue_program "golden/$variant" tests/golden.c "build/$output" $variant "${files[@]}"
    done
}

# What wide vectors and fused multiply-adds change: the kernels, and through them everything that is compared with stored numbers.
queue_native()
{
    local variant topic
    for variant in double_native float_native; do
        for topic in backend operators op_ar op_fourier gradient threads; do
            queue_program "unit/$topic.$variant" "tests/test_$topic.c" "build/tests/$topic.$variant" $variant
        done
        queue_program "golden/$variant" tests/golden.c "build/golden_$variant" $variant tests/golden/*.txt
    done
}

# Data races. ThreadSanitizer understands OpenMP through clang's runtime and its tool, Archer; gcc's has neither.
job_races()     # TOPIC
{
    local archer
    have clang || { job_skip 1 "no clang"; return; }
    archer=$(dirname "$(readlink -f "$(command -v clang)")")/../lib/libarcher.so
    if [[ ! -f $archer ]]; then job_skip 1 "no clang with OpenMP's Archer"; return; fi
    probe clang -fopenmp -fsanitize=thread || { job_skip 1 "clang lacks the runtime of its ThreadSanitizer (libclang-rt)"; return; }
    clang -std=c99 -I. -Itests -isystem build/include -fopenmp -fsanitize=thread -g -O1 -DPU_IMPLEMENTATION "tests/test_$1.c" \
        -o "build/tests/$1.races" -lm || return
    OMP_TOOL_LIBRARIES=$archer TSAN_OPTIONS="ignore_noninstrumented_modules=1" timeout "$TEST_TIMEOUT" "build/tests/$1.races"
}

# What an optional library changes, once more with it. Unoptimised: the glue is tested, and compiling is most of the time.
queue_libraries()
{
    local variant topic lib
    for variant in double_libs float_libs; do
        for topic in op_fourier operators; do
            lib=$HAVE_FFTW
            if [[ $topic == operators ]]; then lib=$HAVE_CBLAS; fi
            if [[ $lib ]]; then
                queue_program "unit/$topic.$variant" "tests/test_$topic.c" "build/tests/$topic.$variant" $variant
            else
                queue "unit/$topic.$variant" job_skip 1 "no library for it (FFTW: op_fourier, CBLAS: operators)"
            fi
        done
        if [[ $HAVE_FFTW$HAVE_CBLAS ]]; then
            queue_program "golden/$variant" tests/golden.c "build/golden_$variant" $variant tests/golden/*.txt
        else
            queue "golden/$variant" job_skip 1 "neither FFTW nor CBLAS"
        fi
    done
}

# One job per compiler and standard: {double, float} x {plain, OpenMP} x {implementation, static, declarations}.
# No output is kept. clang only checks; gcc compiles, because it does not find unused functions otherwise.
job_matrix()    # COMPILER LANGUAGE STANDARD
{
    local compiler=$1 language=$2 standard=$3 unit precision openmp what has_openmp='' p=0 f=0 s=0 flags
    have "$compiler" || { job_skip 12 "no $compiler"; return; }
    if probe "$compiler" -fopenmp; then has_openmp=1; fi
    for precision in double float; do for openmp in plain openmp; do for unit in impl static decl; do
        what="$unit $precision $openmp"
        if [[ $openmp == openmp && ! $has_openmp ]]; then
            echo "skip  $what"; s=$((s + 1)); continue
        fi
        flags=(-x "$language" "-std=$standard" -I. "${STRICT[@]}" "${EXTRA_FLAGS[@]}")
        if [[ $compiler == clang* ]]; then flags+=(-fsyntax-only); else flags+=(-O0 -S -o /dev/null); fi
        if [[ $precision == float ]]; then flags+=(-DPU_FLOAT); fi
        if [[ $openmp == openmp ]]; then flags+=(-fopenmp); fi
        if "$compiler" "${flags[@]}" "tests/compile/$unit.c"; then
            echo "ok    $what"; p=$((p + 1))
        else
            echo "FAIL  $what"; f=$((f + 1))
        fi
    done; done; done
    counts $p $f $s
    ((f == 0))
}

# No -pedantic here: the line directives that nvcc itself writes for the host compiler are not ISO.
nvcc_compile()  # SOURCE OUTPUT FLAGS...
{
    local source=$1 output=$2
    shift 2
    "$NVCC_CMD" "-arch=$CUDA_ARCH" -I. -Werror all-warnings \
        -Xcompiler -Wall,-Wextra,-Wconversion,-Wdouble-promotion,-Wshadow "$@" -c "$source" -o "$output"
}

job_nvcc()      # PRECISION FLAGS...
{
    local precision=$1
    shift
    nvcc_compile tests/compile/impl.cu "build/obj/impl.cu.$precision.o" "$@" || return
    echo "1 passed, 0 failed"
}

# The optional libraries' headers in both languages and compilers, with <complex.h> and its macro I before them.
job_libraries()
{
    local compiler precision p=0 f=0 s=0 flags=(-include complex.h "${LIBRARY_FLAGS[@]:1}")
    echo "with ${flags[*]}"
    for compiler in "gcc -std=c99" "clang -std=c99" "g++ -std=c++11 -x c++" "clang++ -std=c++11 -x c++"; do
        if ! have "${compiler%% *}"; then s=$((s + 2)); continue; fi
        for precision in -UPU_FLOAT -DPU_FLOAT; do
            # shellcheck disable=SC2086  # words
            if $compiler "${flags[@]}" $precision -fsyntax-only -I. "${STRICT[@]}" "${EXTRA_FLAGS[@]}" \
                tests/compile/impl.c; then
                p=$((p + 1))
            else
                f=$((f + 1)); echo "FAIL  $compiler $precision"
            fi
        done
    done
    counts $p $f $s
    ((f == 0))
}

# Every switch of pu.h alone, and all of them together, both precisions.
job_switches()
{
    local set precision p=0 f=0 flags
    for precision in double float; do for set in PU_NO_MALLOC PU_NO_OPENMP 'PU_ASSERT(x)=((void)(x))' \
            'PU_NO_MALLOC PU_NO_OPENMP PU_STATIC PU_ASSERT(x)=((void)(x))'; do
        # shellcheck disable=SC2086  # one word per switch
        mapfile -t flags < <(printf -- '-D%s\n' $set)
        if [[ $precision == float ]]; then flags+=(-DPU_FLOAT); fi
        if "${CC_CMD[@]}" -std=c99 -O0 -I. "${STRICT[@]}" "${OMP[@]}" "${EXTRA_FLAGS[@]}" "${flags[@]}" \
            -S tests/compile/impl.c -o /dev/null; then
            p=$((p + 1))
        else
            f=$((f + 1)); echo "FAIL  $precision ${flags[*]}"
        fi
    done; done
    counts $p $f 0
    ((f == 0))
}

# Examples and benchmarks under the strict flags, not run: alone, and as compile_programs has them.
job_sources()
{
    local source p=0 f=0 flags=(-std=c99 -O0 -I. "${STRICT[@]}" "${OMP[@]}" "${EXTRA_FLAGS[@]}")
    for source in "$@"; do
        if "${CC_CMD[@]}" "${flags[@]}" -S "$source" -o /dev/null &&
           "${CC_CMD[@]}" "${flags[@]}" -DPU_IMPLEMENTATION_ONCE -fsyntax-only "$source"; then
            p=$((p + 1))
        else
            f=$((f + 1)); echo "FAIL  $source"
        fi
    done
    counts $p $f 0
    ((f == 0))
}

queue_compile()
{
    local compiler standard sources
    if [[ $NVCC_CMD ]]; then
        queue compile/nvcc.double job_nvcc double
        queue compile/nvcc.float job_nvcc float -DPU_FLOAT
    else
        queue compile/nvcc job_skip 2 "no nvcc"
    fi
    for compiler in gcc clang; do for standard in c99 c11 c17; do
        queue "compile/$compiler.$standard" job_matrix $compiler c $standard
    done; done
    for compiler in g++ clang++; do for standard in c++11 c++17; do
        queue "compile/$compiler.$standard" job_matrix $compiler c++ $standard
    done; done
    queue compile/switches job_switches
    queue compile/libraries job_libraries
    mapfile -t sources < <(find examples tests/bench -maxdepth 1 -name '*.c' 2>/dev/null | sort)
    if [[ ${#sources[@]} -gt 0 ]]; then queue compile/examples job_sources "${sources[@]}"; fi
}

# link_object OUTPUT SOURCE FLAGS...: one object of a link test; .cpp goes to the C++ compiler
link_object()
{
    local output=build/link/$1 source=tests/compile/$2
    shift 2
    if [[ $source == *.cpp ]]; then
        g++ -std=c++11 -O0 -I. "${STRICT[@]}" "${EXTRA_FLAGS[@]}" "$@" -c "$source" -o "$output"
    else
        "${CC_CMD[@]}" -std=c99 -O0 -I. "${STRICT[@]}" "${EXTRA_FLAGS[@]}" "$@" -c "$source" -o "$output"
    fi
}

# A C user, a C++ user and the implementation, three translation units in one program.
job_link_users()        # PRECISION FLAGS...
{
    local name=users.$1
    shift
    have g++ || { job_skip 1 "no g++"; return; }
    link_object "$name.main.o" users_main.c "$@" && link_object "$name.cpp.o" users_cpp.cpp "$@" &&
    link_object "$name.impl.o" impl.c "$@" || return
    g++ build/link/"$name".{main,cpp,impl}.o -o "build/link/$name" -lm && "build/link/$name" || return
    echo "1 passed, 0 failed"
}

# The float and the double build of the library in one program, each with its own user.
job_link_precisions()
{
    link_object both.main.o both_main.c && link_object both.double.o both_user.c &&
    link_object both.float.o both_user.c -DPU_FLOAT || return
    "${CC_CMD[@]}" build/link/both.{main,double,float}.o -o build/link/both -lm && build/link/both || return
    echo "1 passed, 0 failed"
}

# A float user with a double implementation must fail to link, not at run time.
job_link_mismatch()
{
    link_object mismatch.main.o decl.c -DPU_FLOAT && link_object mismatch.impl.o impl.c || return
    if "${CC_CMD[@]}" build/link/mismatch.{main,impl}.o -o build/link/mismatch -lm 2>build/link/mismatch.txt; then
        echo "a float user linked with a double implementation"
        return 1
    fi
    grep -q 'puf_' build/link/mismatch.txt || { cat build/link/mismatch.txt; return 1; }
    echo "1 passed, 0 failed"
}

# Two translation units with a private copy each.
job_link_static()
{
    link_object static.main.o static_main.c && link_object static.other.o static.c || return
    "${CC_CMD[@]}" build/link/static.{main,other}.o -o build/link/static -lm && build/link/static || return
    echo "1 passed, 0 failed"
}

# Exported names: pu_ in a double build, puf_ in a float build; with PU_STATIC none but the test's own pu_test_static.
# Weak symbols of a C++ build are inline functions of the C++ library and not ours.
job_link_symbols()      # NAME SOURCE EXPECTED FLAGS...
{
    local object=symbols.$1.o source=$2 expected=$3 bad all
    shift 3
    if [[ $source == *.cpp ]]; then have g++ || { job_skip 1 "no g++"; return; }; fi
    link_object "$object" "$source" "$@" || return
    all=$(nm -g --defined-only "build/link/$object" | awk '$2 !~ /^[WVu]$/ { print $3 }')
    bad=$(grep -vE "$expected" <<<"$all" || true)
    if [[ -z $all ]]; then echo "no symbol is exported at all"; return 1; fi
    if [[ $bad ]]; then printf 'these names should not be exported:\n%s\n' "$bad"; return 1; fi
    echo "1 passed, 0 failed"
}

queue_link()
{
    queue link/users.double job_link_users double
    queue link/users.float job_link_users float -DPU_FLOAT
    queue link/precisions job_link_precisions
    queue link/mismatch job_link_mismatch
    queue link/static job_link_static
    queue link/symbols.double job_link_symbols double impl.c '^pu_'
    queue link/symbols.float job_link_symbols float impl.c '^puf_' -DPU_FLOAT
    queue link/symbols.static job_link_symbols static static.c '^pu_test_static$'
    queue link/symbols.c++ job_link_symbols c++ impl.cpp '^pu_'
}

# A program killed at random moments and resumed ends with the results of one that ran through.
job_kill_resume()
{
    "${CC_CMD[@]}" -std=c99 -O1 -I. "${STRICT[@]}" "${OMP[@]}" "${EXTRA_FLAGS[@]}" examples/ratings.c -o build/tests/ratings -lm &&
    timeout "$TEST_TIMEOUT" tests/kill_resume.sh build/tests/ratings
}

# Command lines that a program must refuse, with code 2 and the option's name.
job_refusals()
{
    local p=0 f=0 words
    "${CC_CMD[@]}" -std=c99 -O0 -I. "${STRICT[@]}" "${OMP[@]}" "${EXTRA_FLAGS[@]}" examples/noisy_ar.c -o build/tests/noisy_ar -lm ||
        return
    printf 'y\n1\n2\n3\n' >build/tests/refusals.csv
    for words in "--length 10" "--series=2" "--missing 0.5" "--device tpu"; do
        # shellcheck disable=SC2086  # words
        if build/tests/noisy_ar --data build/tests/refusals.csv $words >build/tests/refusals.txt 2>&1; then
            f=$((f + 1)); echo "FAIL  not refused beside --data: $words"
        elif [[ $? == 2 ]] && grep -q -- "${words%%[ =]*}" build/tests/refusals.txt; then
            p=$((p + 1))
        else
            f=$((f + 1)); echo "FAIL  $words: $(<build/tests/refusals.txt)"
        fi
    done
    refused_device build/tests/noisy_ar --length 10 && p=$((p + 1)) || f=$((f + 1))
    counts $p $f 0
    ((f == 0))
}

# refused_device PROGRAM ARGS...: with --device cuda it says in one line that there is no device, and ends with code 1
refused_device()
{
    local said code=0
    said=$("$@" --device cuda 2>&1) || code=$?
    if [[ $code == 1 && $said != *$'\n'* && $said == *"there is no device that could be used"* ]]; then return 0; fi
    echo "FAIL  $* --device cuda ends with code $code and says: $said"
    return 1
}

# ---------------------------------------------------------------------------------------------- CUDA test jobs
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
        *_asan) KIND=.asan FLAGS+=("${SANITIZE[@]}") ;;
        *_tsan) KIND=.tsan FLAGS+=(-fsanitize=thread -DPU_TSAN) ;;
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
    if [[ $KIND == .asan || ${CUDA_SMALL:-} ]]; then optimize=-O0; fi # most of the time would be the compiler's
    # small blocks where time counts: the other programs have those of a device
    if [[ $KIND || $2 == tests/golden.c ]]; then FLAGS+=(-DPU_CUDA_THREADS=64); fi
    objects=("${ENGINE[@]/#/build/obj/}") objects=("${objects[@]/%/$KIND.o}")
    brings_own_pu "$2" || FLAGS+=(-DPU_IMPLEMENTATION=)
    g++ $optimize "${FLAGS[@]}" -DPU_CUDA -include tests/cuda/sim.h -x c++ "$2" -x none "${objects[@]}" -o "$3" \
        -lfftw3 -lfftw3f "$HAVE_CBLAS" "${CUDA_LINK[@]}" -lm
}

# CUDA_SMALL=1: small sizes alone, in those programs that know it
job_cuda()      # VARIANT SOURCE OUTPUT ARGS...
{
    local output=$3 start=$SECONDS
    cuda_program "$1" "$2" "$3" || return
    shift 3
    echo "compiled in $((SECONDS - start)) s; ${CUDA_SMALL:+small sizes; }arguments: $*"
    env ${CUDA_SMALL:+PU_TEST_SMALL=1} UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}" OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 \
        timeout "$TEST_TIMEOUT" "$output" "$@"
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
        key ~ /"(seconds|seconds_per_step|peak_mb|device|plan)":/ { next }
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
        OPENBLAS_NUM_THREADS=1 timeout "$TEST_TIMEOUT" "$program" "$@" --device $device --threads 1 --json "$program.$device.json" \
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

env_small() { CUDA_SMALL=1 "$@"; }

# queue_cuda NAME VARIANT COMMAND...: a job that needs the engine in this variant
queue_cuda()
{
    local name=cuda/$1 variant=$2
    shift 2
    wanted "$name" || return 0
    if [[ $CUDA_LACKS ]]; then queue "$name" job_skip 1 "missing: $CUDA_LACKS"; return 0; fi
    if [[ $variant == *_?san && -z $HAVE_ASAN ]]; then queue "$name" job_skip 1 "the compiler has no sanitizers"; return 0; fi
    case $variant in
        *_?san) NEED_ENGINE[${variant#*_}]=double_${variant#*_} ;;
        *) NEED_ENGINE[plain]=double ;;
    esac
    queue "$name" "$@"
}

# What takes longest comes first.
queue_cuda_tests()
{
    local topic variant source output small part
    for variant in double float; do
        queue_cuda golden.$variant $variant job_cuda $variant tests/golden.c build/golden_cuda_$variant \
            --device cuda tests/golden/*.txt
    done
    for topic in device kernels; do
        source=tests/cuda/test_$topic.cpp
        if [[ ! -f $source ]]; then queue "cuda/$topic" job_skip 1 "there is no $source"; continue; fi
        for variant in double float double_asan float_asan double_tsan; do
            output=build/tests/cuda_$topic.$variant small=() part=()
            if [[ ! $TEST_FULL ]]; then
                case $topic.$variant in # sanitizers slow down 3 to 20 times, and most of what a precision changes shows in little
                    device.*_tsan | *.float_asan)
                        queue "cuda/$topic.$variant" job_skip 1 "only with TEST_FULL=1"
                        continue
                        ;;
                    device.float)   part=(-t models_agree) ;;
                    device.*_asan)  part=(-t models_agree_factors) ;;
                    kernels.float | kernels.*_?san) small=(env_small) ;;
                esac
            elif [[ $variant == *_tsan ]]; then
                small=(env_small)
                if [[ $topic == device ]]; then part=(-t models_agree_factors); fi
            fi
            queue_cuda "$topic.$variant" $variant "${small[@]}" job_cuda $variant "$source" "$output" "${part[@]}"
        done
    done
    if [[ -f tests/cuda/test_sim.cpp ]]; then
        queue_cuda sim double job_cuda double tests/cuda/test_sim.cpp build/tests/cuda_sim
    else
        queue cuda/sim job_skip 1 "there is no tests/cuda/test_sim.cpp"
    fi
    make_ratings >build/tests/ratings.csv
    queue_cuda examples.custom_operator double job_cuda_example double custom_operator 1e-10
    queue_cuda examples.compressed_sensing double job_cuda_example double compressed_sensing 1e-7 \
        --size 8 --count 2 --steps 2 --iterations 5 --samples 3
    queue_cuda examples.ratings float job_cuda_example float ratings 1e-4 \
        --data build/tests/ratings.csv --factors 3 --steps 2 --engine iterative --iterations 3 --samples 3 --recommend 3 --top 2
    if [[ $NVCC_CMD ]]; then
        queue cuda/nvcc.double job_cuda_nvcc double
        queue cuda/nvcc.float job_cuda_nvcc float -DPU_FLOAT
        queue cuda/nodriver job_nodriver
    else
        queue cuda/nvcc job_skip 2 "no nvcc"
        queue cuda/nodriver job_skip 1 "no nvcc"
    fi
}

# ---------------------------------------------------------------------------------------------- commands

# build_once OUTPUT SOURCES COMMAND...: runs the command, unless the same one has made OUTPUT since the files in SOURCES changed
build_once()
{
    local output=$1 source sources made=''
    read -ra sources <<<"$2"
    shift 2
    if [[ -f $output && -f $output.how ]]; then made=$(<"$output.how"); fi
    for source in "${sources[@]}"; do if [[ $source -nt $output ]]; then made=''; fi; done
    [[ $made != "$*" ]] || return 0
    say "building   $output"
    "$@" && printf '%s\n' "$*" >"$output.how"
}

# at_once FUNCTION WORDS: calls it with each of the words, JOBS of them at a time; false when one call was
at_once()
{
    local function=$1 word pids=() pid ok=0
    shift
    for word in "$@"; do
        while (($(jobs -rp | wc -l) >= JOBS)); do sleep 0.05; done
        "$function" "$word" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || ok=1; done
    return $ok
}

# Programs built for speed on this machine share one object of the implementation in each precision, for that is most of the
# work. PU_IMPLEMENTATION_ONCE says that it is there already; without it every program compiles alone, as its first lines tell.
fast_object()   # SOURCE NAME FLAGS...: build/fast/NAME.o
{
    local source=$1 object=build/fast/$2.o from="pu.h $1"
    shift 2
    if [[ $source == examples/* || $source == */workloads.c ]]; then from+=" $(echo examples/common/*.h)"; fi
    build_once "$object" "$from" "${FAST[@]}" "$@" -c "$source" -o "$object"
}

fast_part()     # double, float, or the source of a program
{
    case $1 in
        double) fast_object tests/compile/impl.c pu.double ;;
        float)  fast_object tests/compile/impl.c pu.float -DPU_FLOAT ;;
        *)      fast_object "$1" "$(basename "$1" .c)" -DPU_IMPLEMENTATION_ONCE ;;
    esac
}

# -std=c99 makes gcc round every product before it is added; a fused multiply-add rounds once and is faster. Square roots that
# need not set errno are vectorised.
fast_flags()
{
    FAST=("${CC_CMD[@]}" -std=c99 -O3 "${NATIVE[@]}" -ffp-contract=fast -fno-math-errno "${OMP[@]}" -Wall -Wextra -I.
          "${EXTRA_FLAGS[@]}")
}

# compile_programs OUTPUT_DIRECTORY SOURCES...: false when one does not compile
compile_programs()
{
    local directory=$1 source name precisions=(double) objects
    shift
    mkdir -p "$directory" build/fast
    fast_flags
    if grep -qE '^[[:space:]]*#[[:space:]]*define[[:space:]]+PU_FLOAT' "$@"; then precisions+=(float); fi
    at_once fast_part "${precisions[@]}" "$@" || return
    objects=("${precisions[@]/#/build/fast/pu.}")
    rm -f build/fast/libpu.a                    # a library, so that a program gets the precision that it calls
    ar rcs build/fast/libpu.a "${objects[@]/%/.o}" || return
    for source in "$@"; do
        name=$(basename "$source" .c)
        "${FAST[@]}" "build/fast/$name.o" -o "$directory/$name" build/fast/libpu.a -lm || return
    done
}

# sources_of DIRECTORY NAMES...: sets SOURCES to these programs, or to all of the directory
sources_of()
{
    local directory=$1 name
    shift
    SOURCES=()
    for name in "$@"; do
        [[ -f $directory/$name.c ]] || die "there is no $directory/$name.c"
        SOURCES+=("$directory/$name.c")
    done
    if [[ $# == 0 ]]; then SOURCES=("$directory"/*.c); fi
    [[ -f ${SOURCES[0]} ]] || die "there is no $directory/*.c"
}

cmd_demo()
{
    sources_of examples demo
    find_tools
    compile_programs build/examples "${SOURCES[@]}" || die "the demo does not compile"
    build/examples/demo "$@"
}

cmd_examples()
{
    local source
    sources_of examples "$@"
    find_tools
    compile_programs build/examples "${SOURCES[@]}" || die "an example does not compile"
    for source in "${SOURCES[@]}"; do say "built      build/examples/$(basename "$source" .c)"; done
}

# The workloads against their rivals, in one table; without python3 only ours.
bench_compare()
{
    compile_programs build/bench tests/bench/workloads.c || die "a benchmark does not compile"
    rm -f build/bench/workloads_fftw
    if [[ $HAVE_FFTW ]]; then
        "${FAST[@]}" -DPU_USE_FFTW tests/bench/workloads.c -o build/bench/workloads_fftw -lfftw3f -lm ||
            die "a benchmark does not compile with FFTW"
    fi
    "${CC_CMD[@]}" -std=c99 -O2 "${OMP[@]}" -Wall -Wextra -I. tests/bench/workloads.c -o build/bench/workloads_O2 -lm ||
        die "a benchmark does not compile with -O2"
    if have python3; then
        python3 -B tests/bench/compare.py "$@"
    else
        warn "no python3, so no rivals: ours alone"
        build/bench/workloads ${PU_RATINGS:+--ratings "$PU_RATINGS"} | tee build/bench.txt
    fi
}

# Both precisions, each against the limits of this machine.
bench_roofline()
{
    local precision flags link=(-lm)
    mkdir -p build/bench
    fast_flags
    for precision in float double; do
        flags=()
        if [[ $precision == float ]]; then flags+=(-DPU_FLOAT); fi
        if [[ $HAVE_FFTW ]]; then flags+=(-DBENCH_FFTW); link=(-lfftw3f -lfftw3 -lm); fi
        "${FAST[@]}" "${flags[@]}" tests/bench/roofline.c -o "build/bench/roofline_$precision" "${link[@]}" ||
            die "a benchmark does not compile"
        "build/bench/roofline_$precision" "$@"
    done
}

# One gradient of each workload, small, one thread, fixed flags: instructions, against those in docs/instructions.txt.
bench_instructions()    # [--update] [--check RATIO]
{
    local update='' check='' kept=docs/instructions.txt new=build/instructions.txt name words count old compiler worst=0 entry
    local flags=(-std=c99 -O2 -march=x86-64-v2)
    while [[ $# -gt 0 ]]; do
        case $1 in
            --update) update=1 ;;
            --check) [[ ${2:-} =~ ^[0-9.]+$ ]] || die "--check needs a ratio, e.g. 1.05"; check=$2; shift ;;
            *) die "bench instructions knows --update and --check RATIO, not $1" ;;
        esac
        shift
    done
    have valgrind || die "valgrind is missing"
    mkdir -p build/bench
    compiler=$("${CC_CMD[@]}" --version | head -n 1)
    # the library on its own, so that no call of it is inlined into the program
    "${CC_CMD[@]}" "${flags[@]}" -DPU_FLOAT -I. -c tests/compile/impl.c -o build/bench/count.o &&
        "${CC_CMD[@]}" "${flags[@]}" -DPU_IMPLEMENTATION_ONCE -I. tests/bench/workloads.c build/bench/count.o \
            -o build/bench/workloads_count -lm || die "a benchmark does not compile"
    printf '# instructions of one gradient, float, one thread: ./build.sh bench instructions --update\n# %s; %s\n' \
        "$compiler" "${flags[*]}" >"$new"
    if [[ -f $kept ]] && ! grep -qF "$compiler" "$kept"; then
        warn "$kept was made with another compiler: $(sed -n '2s/^# //p' "$kept")"
    fi
    printf '%-22s %14s %14s %8s\n' workload instructions before ratio
    for entry in "ar_auto ar --length 1000 --series 2" "ar_full ar --length 1000 --series 2 --adjoint full" \
                 "ar_exact ar-fit --length 1000 --series 2" "sensing sensing --size 32 --images 2 --samples 7 --adjoint full" \
                 "ratings_iterative ratings --factors 100 --batch 20 --engine iterative" \
                 "ratings_auto ratings --factors 100 --batch 20"; do
        read -r name words <<<"$entry"
        # shellcheck disable=SC2086  # words
        count=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect=puf_model_gradient \
            build/bench/workloads_count $words --threads 1 --once 2>&1 | sed -n 's/^==[0-9]*== Collected : \([0-9]*\).*/\1/p')
        [[ ${count:-0} != 0 ]] || die "valgrind counted nothing for: $words"
        printf '%s %s\n' "$name" "$count" >>"$new"
        old=$(if [[ -f $kept ]]; then awk -v n="$name" '$1 == n { print $2 }' "$kept"; fi)
        if [[ $old ]]; then
            worst=$(awk -v a="$count" -v b="$old" -v w="$worst" 'BEGIN { r = a / b; print (r > w ? r : w) }')
            printf '%-22s %14d %14d %8.4f\n' "$name" "$count" "$old" "$(awk -v a="$count" -v b="$old" 'BEGIN { print a / b }')"
        else
            printf '%-22s %14d %14s %8s\n' "$name" "$count" - -
        fi
    done
    if [[ $update ]]; then cp "$new" "$kept" && say "written    $kept"; fi
    if [[ $check ]] && awk -v w="$worst" -v c="$check" 'BEGIN { exit !(w > c) }'; then
        die "a workload takes $worst times its instructions, more than $check"
    fi
}

cmd_bench()
{
    local name=${1:-}
    if [[ -n $name && $name != -* ]]; then shift; else name=compare; fi
    find_tools
    find_libraries
    case $name in
        compare | roofline | instructions) "bench_$name" "$@" ;;
        *)
            sources_of tests/bench "$name"
            compile_programs build/bench "${SOURCES[@]}" || die "a benchmark does not compile"
            "build/bench/$name" "$@"
            ;;
    esac
}

# One unit of pu_cuda.cuh; ptxas tells of its kernels in a file beside it.
cuda_unit()     # ARCHITECTURE/PRECISION
{
    local arch=${1%/*} precision=${1#*/} base=build/cuda/pu.${1/\//.} start=$SECONDS flags=()
    if [[ $precision == float ]]; then flags=(-DPU_FLOAT); fi
    CUDA_ARCH=$arch nvcc_compile tests/compile/cuda.cu "$base.o" -Xptxas -v "${flags[@]}" >"$base.ptxas" 2>&1 ||
        { grep -v '^ptxas info' "$base.ptxas" | head -n 40; warn "pu_cuda.cuh does not compile for $arch, $precision"; return 1; }
    say "compiled   pu_cuda.cuh for $arch, $precision  $((SECONDS - start)) s"
}

# Examples share one object of the library in each precision, but for those with device code of their own.
cuda_example()  # SOURCE, or double or float: the object
{
    local start=$SECONDS name flags=(-O3 -x cu -DPU_CUDA -I. "-arch=$CUDA_ARCH" -Werror all-warnings
                                     -Xcompiler -Wall,-Wextra,-Wno-missing-field-initializers)
    case $1 in
        double) "$NVCC_CMD" "${flags[@]}" -c tests/compile/impl.c -o build/cuda/examples/pu.double.o ;;
        float)  "$NVCC_CMD" "${flags[@]}" -DPU_FLOAT -c tests/compile/impl.c -o build/cuda/examples/pu.float.o ;;
        *)
            if ! grep -q DEVICE_CODE "$1"; then
                flags+=(-DPU_IMPLEMENTATION_ONCE -DPU_CUDA_IMPLEMENTATION_ONCE)
            fi
            "$NVCC_CMD" "${flags[@]}" -c "$1" -o "build/cuda/examples/$(basename "$1" .c).o"
            ;;
    esac || { warn "nvcc does not compile this example: $1"; return 1; }
    name=$1
    if [[ $1 == double || $1 == float ]]; then name="the library for the examples, $1"; fi
    say "compiled   $name  $((SECONDS - start)) s"
}

# ptxas_table FILES...: a line for every kernel, and what is wrong with it
ptxas_table()
{
    local filter=cat
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

cmd_cuda()
{
    local quick='' spills='' arch precision known unit units=() archs=() name source objects table=build/cuda/ptxas.txt start=$SECONDS
    case ${1:-} in
        '') ;;
        --quick) quick=1 ;;
        *) warn "cuda knows --quick, not $1"; exit 2 ;;
    esac
    find_nvcc
    if [[ ! $NVCC_CMD ]]; then
        warn "nvcc, the compiler of the CUDA toolkit, was not found on the PATH or in /usr/local/cuda/bin."
        warn "Get the toolkit from developer.nvidia.com/cuda-downloads (or: apt-get install nvidia-cuda-toolkit),"
        die "or say where it is: NVCC=/path/nvcc ./build.sh cuda"
    fi
    say "nvcc       $("$NVCC_CMD" --version | grep release)"
    mkdir -p build/cuda/examples
    known=$("$NVCC_CMD" --list-gpu-code)
    if [[ $quick ]]; then archs=("$CUDA_ARCH"); fi
    for arch in $(if [[ ! $quick ]]; then echo "${CUDA_ARCHS[@]}"; fi); do
        if grep -qx "$arch" <<<"$known"; then archs+=("$arch"); else warn "skipped: this nvcc does not know $arch"; fi
    done
    for arch in "${archs[@]}"; do for precision in double float; do units+=("$arch/$precision"); done; done
    at_once cuda_unit "${units[@]}" || die "pu_cuda.cuh does not compile"
    for unit in "${units[@]}"; do
        name=$(ptxas_table "build/cuda/pu.${unit/\//.}.ptxas" | awk '$NF > 0 { print $1 }')
        if [[ $name ]]; then spills+="${unit/\//, }: $name"$'\n'; fi
    done
    if [[ $spills ]]; then printf 'spills     %s' "$spills"; else say "spills     none"; fi
    if [[ $quick ]]; then [[ ! $spills ]] || die "these kernels spill registers"; return 0; fi

    units=(sm_75/double sm_75/float sm_90/double sm_90/float)
    if [[ $CUDA_ARCH != sm_75 && " ${archs[*]} " == *" $CUDA_ARCH "* ]]; then units=("${units[@]/sm_90/$CUDA_ARCH}"); fi
    for unit in "${units[@]}"; do
        if [[ ! -f build/cuda/pu.${unit/\//.}.ptxas || " ${archs[*]} " != *" ${unit%/*} "* ]]; then continue; fi
        printf '%-44s %9s %8s %7s %7s\n' "${unit/\//, }" registers shared stack spills
        ptxas_table "build/cuda/pu.${unit/\//.}.ptxas"
        echo
    done >"$table"
    say "written    $table"

    sources_of examples
    at_once cuda_example double float "${SOURCES[@]}" || die "an example does not compile"
    rm -f build/cuda/examples/libpu.a
    ar rcs build/cuda/examples/libpu.a build/cuda/examples/pu.{double,float}.o
    for source in "${SOURCES[@]}"; do
        name=$(basename "$source" .c) objects=("build/cuda/examples/$name.o")
        grep -q DEVICE_CODE "$source" || objects+=(build/cuda/examples/libpu.a)
        "$NVCC_CMD" "-arch=$CUDA_ARCH" "${objects[@]}" -o "build/cuda/examples/$name" -lcublas -lcufft -lcurand ||
            die "$source does not link"
        say "built      build/cuda/examples/$name"
    done
    say "total time $((SECONDS - start)) s"
    [[ ! $spills ]] || die "there are kernels that spill registers, see above"
}

cmd_install()
{
    local version include=${DESTDIR:-}$PREFIX/include pkgconfig=${DESTDIR:-}$PREFIX/lib/pkgconfig header
    [[ $PREFIX == /* ]] || die "PREFIX=$PREFIX: give an absolute path"
    [[ -f pu.h ]] || die "pu.h is missing"
    version=$(sed -nE 's/^#[[:space:]]*define[[:space:]]+PU_VERSION[[:space:]]+"([^"]+)".*/\1/p' pu.h)
    [[ $version ]] || die "pu.h has no PU_VERSION"
    install -d "$include" "$pkgconfig"
    for header in pu.h pu_cuda.cuh; do
        if [[ -f $header ]]; then install -m 644 "$header" "$include/" && say "installed  $include/$header"; fi
    done
    cat >"$pkgconfig/pu.pc" <<PC
prefix=$PREFIX
includedir=\${prefix}/include

Name: pu
Description: latent Gaussian models in one C header
Version: $version
Cflags: -I\${includedir}
Libs: -lm
PC
    chmod 644 "$pkgconfig/pu.pc"
    say "installed  $pkgconfig/pu.pc (version $version)"
}

cmd_clean() { rm -rf build && say "removed    build/"; }

# Prints the sum over all jobs as the last line; true when something passed and nothing failed.
test_summary()
{
    local result p f s total=(0 0 0)
    for result in build/log/*.res; do
        [[ -f $result ]] || continue
        read -r p f s <"$result"
        total=($((total[0] + p)) $((total[1] + f)) $((total[2] + s)))
    done
    if ((total[0] + total[1] == 0)); then warn "no test ran"; fi
    say "total time $SECONDS s"
    counts "${total[@]}"
    ((total[1] == 0 && total[0] > 0))
}

cmd_test()
{
    local variant programs
    FILTERS=("$@")
    find_cc
    if ! have clang; then apt_install clang libomp-dev || apt_install clang || true; fi
    if have clang && ! probe clang -fsanitize=thread; then apt_install "libclang-rt-$(clang -dumpversion | cut -d . -f 1)-dev" || true; fi
    if ! have g++; then apt_install g++ || true; fi
    find_libraries
    if [[ ! $HAVE_FFTW ]]; then apt_install libfftw3-dev || true; fi
    if [[ ! $HAVE_CBLAS ]]; then apt_install libopenblas-dev || true; fi
    find_libraries
    find_tools
    say "FFTW       $(yes_no test -n "$HAVE_FFTW")"
    say "CBLAS      ${HAVE_CBLAS:-no}"
    find_cuda
    say "CUDA tests $(if [[ $CUDA_LACKS ]]; then echo "no kernels are run, missing: $CUDA_LACKS"; else echo "kernels run on the CPU"; fi)"
    rm -rf build/log build/tests build/obj build/link
    mkdir -p build/log build/tests build/obj build/link

    # Programs need greatest.h and, most of them, the shared object; got only when a program is wanted.
    declare -gA NEED_OBJECT=() NEED_ENGINE=()
    queue_unit
    queue_golden
    queue_native
    if wanted unit/threads.races; then queue unit/threads.races job_races threads; fi
    queue_libraries
    queue_cuda_tests
    programs=("${QUEUE[@]}")
    QUEUE=()
    if [[ ${#programs[@]} -gt 0 ]] && ! need_greatest; then
        say "0 passed, 1 failed"
        exit 1
    fi
    for variant in "${!NEED_OBJECT[@]}"; do QUEUE+=("object/$variant job_object $variant"); done
    for variant in "${!NEED_ENGINE[@]}"; do QUEUE+=("cuda/engine.$variant job_engine ${NEED_ENGINE[$variant]}"); done
    run_queue
    for variant in "${!NEED_OBJECT[@]}"; do
        if [[ ! -f build/obj/pu.$variant.o ]]; then
            warn "pu.h does not compile; nothing else is run"
            test_summary || exit 1
        fi
    done

    QUEUE=("${programs[@]}")
    queue_compile
    queue_link
    queue programs/kill_resume job_kill_resume
    queue programs/refusals job_refusals
    run_queue
    test_summary || exit 1
}

main()
{
    local command=${1:-demo}
    if [[ $# -gt 0 ]]; then shift; fi
    case $command in
        demo | examples | test | bench | cuda | install | clean) "cmd_$command" "$@" ;;
        help | -h | --help) help ;;
        *)
            warn "unknown command: $command"
            help >&2
            exit 2
            ;;
    esac
}

main "$@"
