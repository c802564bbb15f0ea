# jobs.sh - the command bench: the paper's workloads against their rivals, kernels against the machine, instructions. Read by
# build.sh.
# shellcheck shell=bash

. tests/tools.sh

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
        if [[ $HAVE_FFTW ]]; then
            flags+=(-DBENCH_FFTW)
            link=(-lfftw3f -lfftw3 -lm)
        fi
        "${FAST[@]}" "${flags[@]}" tests/bench/roofline.c -o "build/bench/roofline_$precision" "${link[@]}" ||
            die "a benchmark does not compile"
        "build/bench/roofline_$precision" "$@"
    done
}

# The workloads that bench_instructions counts: a name, and arguments of workloads.c.
INSTRUCTIONS=(
    "ar_auto ar --length 1000 --series 2"
    "ar_full ar --length 1000 --series 2 --adjoint full"
    "ar_exact ar-fit --length 1000 --series 2"
    "sensing sensing --size 32 --images 2 --samples 7 --adjoint full"
    "ratings_iterative ratings --factors 100 --batch 20 --engine iterative"
    "ratings_auto ratings --factors 100 --batch 20"
)

# count_instructions ARGS...: those of one gradient of a workload
count_instructions()
{
    valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect=puf_model_gradient \
        build/bench/workloads_count "$@" --threads 1 --once 2>&1 | sed -n 's/^==[0-9]*== Collected : \([0-9]*\).*/\1/p'
}

# One gradient of each workload, small, one thread, fixed flags: instructions, against those in docs/instructions.txt.
bench_instructions()    # [--update] [--check RATIO]
{
    local update='' check='' kept=docs/instructions.txt new=build/instructions.txt name words count old ratio worst=0 entry
    local compiler flags=(-std=c99 -O2 -march=x86-64-v2 -I.)
    while [[ $# -gt 0 ]]; do
        case $1 in
            --update)
                update=1
                ;;
            --check)
                [[ ${2:-} =~ ^[0-9.]+$ ]] || die "--check needs a ratio, e.g. 1.05"
                check=$2
                shift
                ;;
            *)
                die "bench instructions knows --update and --check RATIO, not $1"
                ;;
        esac
        shift
    done
    have valgrind || die "valgrind is missing"
    mkdir -p build/bench
    compiler=$("${CC_CMD[@]}" --version | head -n 1)
    # The library on its own, so that no call of it is inlined into the program.
    "${CC_CMD[@]}" "${flags[@]}" -DPU_FLOAT -c tests/compile/impl.c -o build/bench/count.o ||
        die "the library does not compile"
    "${CC_CMD[@]}" "${flags[@]}" -DPU_IMPLEMENTATION_ONCE tests/bench/workloads.c build/bench/count.o \
        -o build/bench/workloads_count -lm || die "a benchmark does not compile"
    printf '# instructions of one gradient, float, one thread: ./build.sh bench instructions --update\n# %s; %s\n' \
        "$compiler" "${flags[*]:0:3}" >"$new"
    if [[ -f $kept ]] && ! grep -qF "$compiler" "$kept"; then
        warn "$kept was made with another compiler: $(sed -n '2s/^# //p' "$kept")"
    fi
    printf '%-22s %14s %14s %8s\n' workload instructions before ratio
    for entry in "${INSTRUCTIONS[@]}"; do
        read -ra words <<<"$entry"
        name=${words[0]}
        count=$(count_instructions "${words[@]:1}")
        [[ ${count:-0} != 0 ]] || die "valgrind counted nothing for: $entry"
        printf '%s %s\n' "$name" "$count" >>"$new"
        old=$(if [[ -f $kept ]]; then awk -v n="$name" '$1 == n { print $2 }' "$kept"; fi)
        if [[ $old ]]; then
            ratio=$(awk -v a="$count" -v b="$old" 'BEGIN { printf "%.4f", a / b }')
            worst=$(awk -v r="$ratio" -v w="$worst" 'BEGIN { print (r > w ? r : w) }')
            printf '%-22s %14d %14d %8s\n' "$name" "$count" "$old" "$ratio"
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
        size) tests/bench/size.sh "${CC_CMD[@]}" ;;
        *)
            sources_of tests/bench "$name"
            compile_programs build/bench "${SOURCES[@]}" || die "a benchmark does not compile"
            "build/bench/$name" "$@"
            ;;
    esac
}
