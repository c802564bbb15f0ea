#!/usr/bin/env bash
# manners.sh DIRECTORY - how the examples in this directory (first, noisy_ar, structural, linear_regression, ratings, demo,
# scaling, gradient_error) behave:
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

"$programs/noisy_ar" --length 60 --order 1 --paper --steps 30 --quiet --json paper.json
"$programs/noisy_ar" --length 60 --order 1 --optimizer adam --start zero --engine iterative --steps 30 --quiet --json same.json
diff <(grep -vE '"(seconds|seconds_per_step|peak_mb)"' paper.json) <(grep -vE '"(seconds|seconds_per_step|peak_mb)"' same.json)
verdict "the paper's recipe by one flag" $?

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

# ---- structural: what scripts rely on

# number KEY FILE: the number behind "KEY": wherever that is
number() { grep -oE "\"$1\": (-?[0-9.e+-]+|null)" "$2" | head -n 1 | sed 's/.*: //'; }
# agree NAME A B RELATIVE
agree()
{
    awk -v a="$2" -v b="$3" -v e="$4" 'BEGIN { exit !(a != "" && b != "" && (a - b) ^ 2 <= (e * b) ^ 2) }'
    verdict "$1: $2, not $3" $?
}
structural="$programs/structural"
says "structural: a simulated series" 0 "level + season of 12 + noise" \
    "$structural" --forecast 3 --json s.json --svg s.svg --components s.csv
grep -q '"converged": true' s.json && grep -q '"stop": "converged' s.json && grep -q '"engine": "kalman"' s.json &&
    [[ $(number var.season s.json) && $(number var.irregular s.json) ]] &&
    grep -qE '"standard_errors": \{"var.level": [0-9]' s.json
verdict "structural: keys" $?
[[ $(grep -c '<svg' s.svg) == 4 && $(grep -c '</svg>' s.svg) == 4 && $(wc -l <s.csv) == 244 ]] &&
    head -n 1 s.csv | grep -qx 'row,y,fit,sd.fit,level,sd.level,season,sd.season'
verdict "structural: a panel for data and each part" $?
# the level and its season add up to the mean of the series
awk -F, 'NR > 1 { d = $3 - $5 - $7; if (d * d > 1e-12) bad = 1 } END { exit bad }' s.csv
verdict "structural: parts add up" $?
awk 'BEGIN { srand(2); print "x,lx,both,t"
         for (t = 1; t <= 60; t++) {
             w += rand() - 0.5; x = exp(0.1 * w + 0.3 * (rand() - 0.5))
             if (t % 9) printf "%.17g,%.17g,%.17g,%d\n", x, log(x), log(x), t
             else printf ",NA,,%d\n", t
         } }' >walk.csv
"$structural" --data walk.csv --columns x --transform log --level --quiet --json x.json &&
    "$structural" --data walk.csv --columns lx --level --quiet --json lx.json &&
    "$structural" --data walk.csv --columns lx,both --level --quiet --json both.json
agree "structural: --transform log" "$(number nll x.json)" "$(number nll lx.json)" 1e-8
twice=$(awk -v x="$(number nll lx.json)" 'BEGIN { printf "%.12g", 2 * x }')
agree "structural: two series have twice the NLL" "$(number nll both.json)" "$twice" 1e-7
agree "structural: and the same parameters" "$(number var.level both.json)" "$(number var.level lx.json)" 1e-4
(head -n 61 walk.csv; printf ',,,61\n,,,62\n') >future.csv
"$structural" --data future.csv --columns lx --level --quiet --json future.json &&
    "$structural" --data walk.csv --columns lx --level --quiet --forecast 2 --json more.json
grep -q forecast future.json && [[ $(grep forecast future.json) == "$(grep forecast more.json)" ]]
verdict "structural: empty rows at the end are forecast" $?
"$structural" --regress t >out 2>err
if ! grep -q 'has no regressors' err; then
    "$structural" --data future.csv --columns lx --ar 1 --regress t --quiet --json b.json
    [[ $(number b.t b.json) && $(number b.intercept b.json) ]] && grep -q '"forecast"' b.json
    verdict "structural: regressors" $?
    says "structural: regressors of the future" 1 "needs the regressors of the future" \
        "$structural" --data walk.csv --columns lx --level --regress t --forecast 1
    says "structural: a regressor with a gap" 1 "row 9 of column both is empty" \
        "$structural" --data walk.csv --columns lx --level --regress both
    says "structural: a series as a regressor" 2 "not both" "$structural" --data walk.csv --columns lx --level --regress t,lx
    says "structural: regressors of what?" 2 "needs --data and --columns" "$structural" --level --regress t
fi
says "structural: of what?" 2 "what is the series made of" "$structural" --data walk.csv --columns x
says "structural: which columns?" 2 "--columns: which of them" "$structural" --data walk.csv --level
says "structural: constant what?" 2 "season: is to be constant, but is not asked for" \
    "$structural" --level --constant level,season
says "structural: constant nonsense" 2 "takes level, slope, season" "$structural" --level --constant levels
says "structural: a season of 1" 2 "at least 2" "$structural" --season 1
says "structural: another engine" 1 "take PU_KALMAN" "$structural" --level --engine dense
says "structural: too short" 1 "the data do not identify this state" "$structural" --length 5
awk 'BEGIN { print "y"; for (t = 1; t <= 50; t++) print t % 2 + t % 7 / 10 }' >saw.csv
says "structural: at a boundary" 0 "var.level is at its boundary" "$structural" --data saw.csv --level --json s.json
grep -q '"converged": true' s.json && [[ $(grep standard_errors s.json) == *'"var.level": null'* ]]
verdict "structural: a boundary has no standard error" $?
says "structural: no end" 0 "the fit has not converged" "$structural" --level --steps 2 --json s.json
grep -q '"converged": false' s.json && grep -qE '"standard_errors": \{"var.level": null' s.json
verdict "structural: no errors without an end" $?

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
rmse() { awk -F'[:,]' '/"test_rmse"/ { print $2 }' "$1"; }
"$programs/ratings" --data ratings.tsv --quiet --json alone.json
"$programs/ratings" --data ratings.tsv --quiet --json paper.json --paper
awk -v alone="$(rmse alone.json)" -v paper="$(rmse paper.json)" 'BEGIN { exit !(alone > 0 && alone < paper) }'
verdict "priors from the data do better than none: $(rmse alone.json), $(rmse paper.json)" $?
"$programs/ratings" --data ratings.tsv --quiet --json given.json --prior-loadings 0 --prior-means 0 --prior-noise 0 \
    --engine iterative --accumulate 4 --epochs 20 --rate 0.001 --epsilon 1e-8 --schedule constant --validate 4
diff <(results given.json) <(results paper.json)
verdict "ratings --paper flag by flag" $?
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
