#!/usr/bin/env bash
# build.sh - the one entry point of pu: builds, tests, measures, installs. `./build.sh help` lists the commands.
#
# Everything it makes goes into build/. The sections below, top to bottom: settings, messages, tools, jobs, programs, commands.
# Commands with many parts have files of their own, read when they are called: tests/{,cuda/,bench/}jobs.sh,
# tests/{lib,python}.sh, examples/gallery.sh and examples/cmake/install.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# ---------------------------------------------------------------------------------------------- settings

JOBS=${JOBS:-$(nproc 2>/dev/null || echo 2)}
PREFIX=${PREFIX:-/usr/local}
CUDA_ARCH=${CUDA_ARCH:-sm_75}
read -ra EXTRA_FLAGS <<<"${CFLAGS:-}"

# The project's own code is clean under these, in every language and configuration it supports.
STRICT=(-Wall -Wextra -Wconversion -Wdouble-promotion -Wshadow -pedantic -Werror)
SANITIZE=("-fsanitize=address,undefined" -fno-sanitize-recover=all -fno-omit-frame-pointer)

# ---------------------------------------------------------------------------------------------- messages

say()  { printf '%s\n' "$*"; }
warn() { printf 'build.sh: %s\n' "$*" >&2; }
die()  { warn "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
yes_no() { if "$@"; then echo yes; else echo no; fi; }

help()
{
    cat <<'HELP'
usage: ./build.sh [command] [arguments]

commands
  demo [args]         build the demo and run it on built-in data: build/demo/report.html; the default command
  examples [name ...] build examples/*.c, or those named, into build/examples/; where mpicc is, also
                      noisy_ar_mpi, mixed_mpi and ratings_mpi, for several processes
  gallery             draw the pictures of docs/gallery.md again, and that page (gallery screenshots: those of the README)
  test                build and run the tests, but for those that take long and repeat what others show
  test all            all of them
  test rest           those that plain test leaves out
  test name ...       only those containing one of the names
                      (a unit test's topic, a variant such as float_asan, or unit, golden, compile, link, programs, cuda, lint)
  bench [options]     the paper's workloads against their rivals: one table, all figures in build/bench.json
                      (--quick: small sizes; --only WORD; --rounds N; --threads T)
  bench roofline      the share of this machine's bandwidth and arithmetic that each kernel reaches
  bench instructions  instructions per gradient against docs/instructions.txt (--update, --check RATIO); needs valgrind
  bench size          kilobytes of code and seconds of the compiler, whole and with storeys left out: the tables of docs/size.md
  bench NAME [args]   build and run tests/bench/NAME.c: workloads, gradient or planner
  cuda                compile pu_cuda.cuh with nvcc for all architectures and build the examples with it, into build/cuda/;
                      registers, shared memory and spills of every kernel in build/cuda/ptxas.txt (--quick: CUDA_ARCH alone,
                      no examples, no table)
  lib                 build/lib/libpu.so and libpu.a, double and float in one
  install             copy the headers, pu.pc, the files of find_package(pu) and what lib has built below PREFIX (default
                      /usr/local); DESTDIR is honoured
  uninstall           remove these
  clean               remove build/
  help                this text

environment
  CC                  C compiler (default gcc, then cc, then clang)
  CFLAGS              extra flags, appended to every C and C++ compilation
  NVCC                CUDA compiler (default: nvcc on the PATH, then /usr/local/cuda/bin/nvcc)
  CUDA_ARCH           GPU architecture of cuda's examples, of cuda --quick and of the tests (default sm_75)
  JOBS                how many things to do at once (default: the number of cores)
  TEST_TIMEOUT        seconds of processor time one test program may take (default 300; 900 beyond plain test); by the clock
                      it may take ten times as long
  TEST_FULL=1         test means test all
  PU_GREATEST         path of greatest.h v1.5.0, the test harness; found or fetched when not set
  PU_CACHE            where a fetched greatest.h is kept (default $XDG_CACHE_HOME/pu or ~/.cache/pu)
  NO_APT=1            never call apt-get, neither to install compilers and libraries nor to fetch greatest.h
  PU_PEER             bench: directory of bench_torch.py, the PyTorch rival (default ../shared/peer)
  PU_RATINGS          bench: file of MovieLens-1M ratings; made up when not set
  PREFIX, DESTDIR     for install, uninstall

exit codes
  0 success   1 something failed, or a needed tool is missing   2 wrong usage
HELP
}

# ---------------------------------------------------------------------------------------------- tools

apt_allowed() { [[ -z ${NO_APT:-} || ${NO_APT:-} == 0 ]] && have apt-get; }

# apt_install PACKAGE...: true when they are installed afterwards; needs root. Silent, log in build/apt.log.
APT_UPDATED=
apt_install()
{
    local rc=0
    apt_allowed && [[ $(id -u) == 0 ]] || return 1
    say "installing: $*"
    mkdir -p build
    {
        if [[ ! $APT_UPDATED ]]; then
            apt-get -o Acquire::Retries=1 -o Acquire::http::Timeout=20 update
        fi &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
    } >build/apt.log 2>&1 </dev/null || rc=1
    APT_UPDATED=1
    hash -r
    if ((rc)); then warn "apt-get could not install: $*"; fi
    return $rc
}

# Sets CC_CMD (the C compiler as an array), installing gcc when there is none.
find_cc()
{
    local c
    if [[ -z ${CC:-} ]]; then
        for c in gcc cc clang; do
            if have "$c"; then CC=$c; break; fi
        done
    fi
    if [[ -z ${CC:-} ]]; then
        apt_install gcc g++ libc6-dev || die "no C compiler; install one, e.g. as root: apt-get install gcc g++ libc6-dev"
        CC=gcc
    fi
    read -ra CC_CMD <<<"$CC"
    have "${CC_CMD[0]}" || die "CC=$CC: no such compiler"
}

# probe_program PROGRAM COMPILER... FLAG...: does this text compile and link with these flags?
probe_program()
{
    local program=$1 output=build/probe.$BASHPID rc=0
    shift
    mkdir -p build
    "$@" -o "$output" <<<"$program" >/dev/null 2>&1 || rc=1
    rm -f "$output"
    return $rc
}

# probe COMPILER... FLAG...: does a small program, with a call of OpenMP when that is on, compile and link with these flags?
probe()
{
    local program=$'#ifdef _OPENMP\n#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n'
    program+=$'#else\nint main(void) { return 0; }\n#endif\n'
    probe_program "$program" "$@" -x c -
}

# Sets NVCC_CMD, empty when there is no nvcc.
find_nvcc()
{
    local c
    NVCC_CMD=
    for c in "${NVCC:-nvcc}" "${NVCC:-/usr/local/cuda/bin/nvcc}"; do
        if have "$c"; then NVCC_CMD=$c; return 0; fi
    done
}

# Finds everything there is to find and prints it. Optional tools leave an empty variable.
find_tools()
{
    local clang=no nvcc=no
    find_cc
    find_nvcc
    OMP=() NATIVE=() HAVE_ASAN=
    if probe "${CC_CMD[@]}" -fopenmp; then OMP=(-fopenmp); fi
    if probe "${CC_CMD[@]}" -march=native; then NATIVE=(-march=native); fi
    if probe "${CC_CMD[@]}" "${SANITIZE[@]}"; then HAVE_ASAN=1; fi
    if have clang; then clang=$(clang --version | head -n 1); fi
    if have clang && probe clang -fopenmp; then clang+=' with OpenMP'; fi
    if [[ $NVCC_CMD ]]; then nvcc=$("$NVCC_CMD" --version | grep release); fi
    say "compiler   $("${CC_CMD[@]}" --version | head -n 1)"
    say "OpenMP     $(yes_no test "${#OMP[@]}" -gt 0)"
    say "sanitizers $(yes_no test -n "$HAVE_ASAN")"
    say "clang      $clang"
    say "nvcc       $nvcc"
}

# ---------------------------------------------------------------------------------------------- jobs

# at_once FUNCTION WORDS...: calls it with each of the words, JOBS of them at a time; false when one call was.
at_once()
{
    local function=$1 word pid pids=() running=0 rc=0
    shift
    for word in "$@"; do
        if ((running >= JOBS)); then
            wait -n || true
            running=$((running - 1))
        fi
        "$function" "$word" &
        pids+=($!)
        running=$((running + 1))
    done
    for pid in "${pids[@]}"; do wait "$pid" || rc=1; done
    return $rc
}

# A job is a shell function that prints, as its last line, "N passed, N failed" or "N passed, N failed, N skipped",
# and returns zero when nothing failed. Jobs are queued, then run JOBS at a time. Each leaves in build/log NAME.log (what
# it said) and NAME.res (three counts and its processor time), prints one line when done, and the log is shown if it failed.

QUEUE=()

# queue NAME FUNCTION ARGS...
queue() { QUEUE+=("$(printf '%q ' "$@")"); }

# sum_line FILE: the last "N passed, N failed" line of a file as three numbers, or nothing
sum_line()
{
    sed -nE 's/^([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?$/\1 \2 0\4/p' "$1" | tail -n 1
}

# counts P F S: the same, as words
counts() { if (($3 > 0)); then echo "$1 passed, $2 failed, $3 skipped"; else echo "$1 passed, $2 failed"; fi; }

# processor_time: seconds that the processes started by this shell took; reads what `times` printed
processor_time() { awk 'NR == 2 { split($1 "m" $2, t, /[ms]+/); printf "%.1f", 60 * (t[1] + t[3]) + t[2] + t[4] }'; }

run_job()       # NAME FUNCTION ARGS...
{
    local name=$1 base=build/log/${1//\//.} rc p f s seconds state note=''
    shift
    set +e
    (set -e; "$@") >"$base.log" 2>&1 </dev/null
    rc=$?
    times >"$base.res"
    seconds=$(processor_time <"$base.res")
    read -r p f s < <(sum_line "$base.log")
    set -e
    if [[ -z ${p:-} ]]; then p=0 f=0 s=0 note=" (no summary line, exit code $rc)"; fi
    case $rc in
        124 | 137) note=" (exit code $rc: stopped, perhaps by the clock)" ;;
        152) note=" (exit code $rc: took more than its processor time, see TEST_TIMEOUT)" ;;
    esac
    s=$((10#$s))
    if ((rc != 0 && f == 0)); then f=1; note=${note:-" (exit code $rc)"}; fi
    if ((p + f + s == 0)); then f=1; note=${note:-" (no test ran)"}; fi
    if ((f > 0)); then state=FAIL; elif ((p == 0)); then state=skip; else state=ok; fi
    echo "$p $f $s $seconds $name" >"$base.res"
    printf '%-5s %-38s %s%s  %s s\n' "$state" "$name" "$(counts "$p" "$f" "$s")" "$note" "$seconds"
}

run_queued() { eval "run_job ${QUEUE[$1]}"; }

# Runs what is queued and empties the queue; shows the logs of failed jobs.
run_queue()
{
    local job base
    at_once run_queued "${!QUEUE[@]}" || true
    for job in "${QUEUE[@]}"; do
        job=${job%% *}
        base=build/log/${job//\//.}
        if [[ ! -f $base.res ]]; then echo "0 1 0 0 $job" >"$base.res"; fi
        if [[ $(cut -d ' ' -f 2 "$base.res") != 0 ]]; then
            say "--- log of $job" && cat "$base.log" && say "--- end of $job"
        fi
    done
    QUEUE=()
}

# ---------------------------------------------------------------------------------------------- programs

# build_once OUTPUT SOURCES COMMAND...: runs the command, unless the same one has made OUTPUT since the files in SOURCES changed
build_once()
{
    local output=$1 source sources made=''
    read -ra sources <<<"$2"
    shift 2
    if [[ -f $output && -f $output.how ]]; then made=$(<"$output.how"); fi
    for source in "${sources[@]}"; do
        if [[ $source -nt $output ]]; then made=''; fi
    done
    [[ $made != "$*" ]] || return 0
    say "building   $output"
    "$@" && printf '%s\n' "$*" >"$output.how"
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
    # A library, so that a program gets the precision that it calls.
    objects=("${precisions[@]/#/build/fast/pu.}")
    rm -f build/fast/libpu.a
    ar rcs build/fast/libpu.a "${objects[@]/%/.o}" || return
    for source in "$@"; do
        name=$(basename "$source" .c)
        "${FAST[@]}" "build/fast/$name.o" -o "$directory/$name" build/fast/libpu.a -lm || return
        if have mpicc && grep -q team_mpi "$source"; then
            with_mpi "${FAST[@]}" -DPU_MPI -DPU_IMPLEMENTATION_ONCE "$source" -o "$directory/${name}_mpi" \
                build/fast/libpu.a -lm || return
        fi
    done
}

# with_mpi COMPILER FLAGS...: the same compiler, by way of Open MPI's or MPICH's mpicc
with_mpi() { OMPI_CC=$1 MPICH_CC=$1 mpicc "${@:2}"; }

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

# ---------------------------------------------------------------------------------------------- commands

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

cmd_clean() { rm -rf build && say "removed    build/"; }

main()
{
    local command=${1:-demo}
    if [[ $# -gt 0 ]]; then shift; fi
    case $command in
        test)  . tests/jobs.sh ;;
        bench) . tests/bench/jobs.sh ;;
        cuda)  . tests/cuda/jobs.sh ;;
        install | uninstall) . examples/cmake/install.sh ;;
        lib)   . tests/lib.sh ;;
        gallery) . examples/gallery.sh ;;
    esac
    case $command in
        demo | examples | gallery | test | bench | cuda | lib | install | uninstall | clean) "cmd_$command" "$@" ;;
        help | -h | --help) help ;;
        *)
            warn "unknown command: $command"
            help >&2
            exit 2
            ;;
    esac
}

main "$@"
