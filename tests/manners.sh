#!/usr/bin/env bash
# manners.sh DIRECTORY - how the examples in this directory (first, noisy_ar, linear_regression, ratings, demo, scaling,
# gradient_error) behave:
# output that cannot be written is an error; Ctrl-C ends the step, keeps the checkpoint and prints what there is; off a terminal
# there are lines of progress; what is left out is told; messages about a file say what to try.
set -uo pipefail
set -m # so that a program in the background can be interrupted
programs=$(realpath "$1")
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory" || exit 1
export OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive
passed=0 failed=0

# verdict NAME CODE: 0 has passed
verdict()
{
    if [[ $2 == 0 ]]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAIL  $1"; fi
}

# says NAME CODE TEXT COMMAND...: it ends with this code, and standard output or error holds the text
says()
{
    local name=$1 code=$2 text=$3 found=0
    shift 3
    "$@" >out 2>err || found=$?
    if [[ $found == "$code" ]] && grep -qF -- "$text" out err; then
        verdict "$name" 0
    else
        verdict "$name: code $found, $(head -c 300 err)" 1
    fi
}

# ---- output that cannot be written

full() { "$@" >/dev/full; }
if [[ -c /dev/full ]]; then
    says "first on a full disk" 1 "first: writing failed" full "$programs/first"
    says "noisy_ar on a full disk" 1 "standard output: writing failed" full "$programs/noisy_ar" --length 60 --order 1
    says "help on a full disk" 1 "standard output: writing failed" full "$programs/noisy_ar" --help
    says "JSON on a full disk" 1 "writing failed" "$programs/noisy_ar" --length 60 --order 1 --json /dev/full
fi

# ---- what is printed

says "a long forecast" 0 "38 more steps are left out here, and the other series: --json FILE has all of them" \
    "$programs/noisy_ar" --length 60 --order 1 --forecast 50
says "a short forecast of one series" 0 "+ 3 " "$programs/noisy_ar" --length 60 --order 1 --forecast 3 --series 1
grep -q "left out" out
verdict "nothing was left out" $((1 - $?))
says "lines of progress" 0 "step 2" "$programs/noisy_ar" --length 60 --order 1 --optimizer adam --steps 30 --progress 1e-9
grep -qE 'at most [0-9]+:[0-9]{2}:[0-9]{2} left$' err
verdict "time left as h:mm:ss" $?
grep -q $'\r' err
verdict "no carriage returns off a terminal" $((1 - $?))
"$programs/noisy_ar" --length 60 --order 1 --optimizer adam --steps 30 --progress 1e-9 --quiet >out 2>err
[[ $? == 0 && ! -s err && ! -s out ]]
verdict "no lines when quiet" $?

estimate=("$programs/linear_regression" --engine iterative --gradient network --rate 0.1)
says "an NLL from probes has an error" 0 " (95 %, probes)" "${estimate[@]}"
grep -q "not converged" out
verdict "30 steps are enough" $((1 - $?))
says "an NLL from too few steps" 0 "the solver has not converged" "${estimate[@]}" --iterations 3
says "an exact NLL" 0 "NLL per curve 13.403" "$programs/linear_regression"
grep -q "NLL.*95 %" out
verdict "an exact NLL has no error" $((1 - $?))

# ---- files

printf 'date,x\n2001-01-01,1\n2001-01-02,2\n' >dates.csv
says "a column of dates" 1 "not a number: 2001-01-01; name the columns that are numbers: --columns" \
    "$programs/noisy_ar" --data dates.csv
printf 'a;b\n1;2\n3;4\n' >semicolons.csv
says "semicolons" 1 "--separator semicolon" "$programs/noisy_ar" --data semicolons.csv
says "a column among semicolons" 1 "--separator semicolon" "$programs/noisy_ar" --data semicolons.csv --columns a
says "no such column" 1 "there is no column y; there is date, x" "$programs/noisy_ar" --data dates.csv --columns y
printf '1,2,3\n' >row.csv
says "one row" 1 "--no-header" "$programs/noisy_ar" --data row.csv
says "one row of data" 1 "has one row of numbers; a series is a column" "$programs/noisy_ar" --data row.csv --no-header

# ---- threads that wait must not burn processors: with as many as there are, first takes about the time of one

# milliseconds THREADS: of processors, user and system, the less of three runs
milliseconds()
{
    local run least=1000000000 TIMEFORMAT='%3U %3S'
    for run in 1 2 3; do
        run=$({ time env -u OMP_WAIT_POLICY OMP_NUM_THREADS="$1" "$programs/first" >/dev/null; } 2>&1 |
            awk '{ printf "%d", 1000 * ($1 + $2) }')
        if ((run < least)); then least=$run; fi
    done
    echo "$least"
}
one=$(milliseconds 1) all=$(milliseconds "$(nproc)")
((all > 0 && 10 * all <= 12 * one))
verdict "first: $all ms of processors by default, $one with one thread" $?

# ---- Ctrl-C

awk 'BEGIN { srand(1); for (u = 1; u <= 150; u++) for (i = 1; i <= 60; i++) if (rand() < 0.4)
         print u "\t" i "\t" 1 + int(5 * (0.5 * rand() + 0.25 + 0.25 * sin(u * 0.7 + i * 1.3))) }' >ratings.tsv
fit=("$programs/ratings" --data ratings.tsv --factors 20 --epochs 60 --batch 10 --accumulate 2 --rate 0.01 --validate 50)
results() { grep -vE '"(seconds|seconds_per_step|peak_mb)"' "$1"; }
"${fit[@]}" --steps 2 --quiet --json two.json && grep -q '"nll": null' two.json
verdict "training NLL only on demand" $?
says "training NLL on demand" 0 "training NLL per user" "${fit[@]}" --steps 2 --train-nll
"${fit[@]}" --quiet --json whole.json
code=0
for ((attempt = 0; attempt < 20 && code != 130; attempt++)); do
    rm -f state
    "${fit[@]}" --checkpoint state --keep-every 1 --json part.json >out 2>err &
    pid=$!
    for ((wait = 0; wait < 500; wait++)); do # a checkpoint is there: the fit is on its way
        [[ -f state ]] && break
        sleep 0.01
    done
    kill -INT $pid 2>/dev/null
    code=0
    wait $pid || code=$?
done
[[ $code == 130 && -f state ]] && grep -qE 'interrupted after step [0-9]+ of .*--resume state' err && grep -q 'test RMSE' out
verdict "Ctrl-C" $?
grep -q '"stopped": "stopped by the caller"' part.json
verdict "results of what there is" $?
says "taken up" 0 "test RMSE" "${fit[@]}" --resume state --keep-every 1 --json resumed.json
diff <(results whole.json) <(results resumed.json)
verdict "an interrupted fit ends as the whole one" $?

# interrupted FILE COMMAND...: the program, which listens from when FILE is there, is interrupted after that, by a later moment
# at every attempt. It must end with 130 and say so; out, err
interrupted()
{
    local file=$1 pid wait delay
    shift
    for delay in 0.1 0.5; do
        rm -f "$file"
        "$@" >out 2>err &
        pid=$!
        for ((wait = 0; wait < 500; wait++)); do
            [[ -f $file ]] && break
            sleep 0.01
        done
        sleep $delay
        kill -INT $pid 2>/dev/null
        code=0
        wait $pid || code=$?
        [[ $code == 130 ]] && grep -q "interrupted" err || return 1
    done
}

# What they measure takes minutes, so that none of them is at its end when it is interrupted.
interrupted part.json "$programs/scaling" --length 30000000 --json part.json &&
    grep -q '"stopped": "stopped by the caller"' part.json && grep -q '^K = ' out
verdict "Ctrl-C: scaling" $?
interrupted part.json "$programs/gradient_error" --dim 1000 --json part.json --svg part.svg &&
    grep -q '"PCG_network_rate": null' part.json && grep -q '"stopped": "stopped by the caller"' part.json &&
    grep -qE '^ +41 .* - ' out && grep -q '</svg>' part.svg
verdict "Ctrl-C: gradient_error" $?
interrupted part/report.html "$programs/demo" --out part --json part.json &&
    grep -q '"stopped": "stopped by the caller"' part.json && grep -q 'Interrupted: the rest is missing' part/report.html
verdict "Ctrl-C: demo" $?

echo "$passed passed, $failed failed"
((failed == 0 && passed > 0))
