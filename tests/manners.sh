#!/usr/bin/env bash
# manners.sh DIRECTORY - how the examples in this directory (first, noisy_ar, state_space, structural, mixed, field,
# factors, regress, ratings, demo, scaling, gradient_error) behave:
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
    full "$programs/first"
    [[ $? == 1 ]]
    verdict "first on a full disk" $?
    says "noisy_ar on a full disk" 1 "standard output: writing failed" full "$programs/noisy_ar" --length 60 --order 1
    says "help on a full disk" 1 "standard output: writing failed" full "$programs/noisy_ar" --help
    says "a page on a full disk" 1 "/dev/full: writing failed" "$programs/gradient_error" --dim 5 --report /dev/full
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

estimate=("$programs/regress" --engine iterative --gradient network --rate 0.1)
says "an NLL from probes has an error" 0 " (95 %, probes)" "${estimate[@]}"
grep -q "not converged" out
verdict "30 steps are enough" $((1 - $?))
says "an NLL from too few steps" 0 "the solver has not converged" "${estimate[@]}" --iterations 3
says "an exact NLL" 0 "NLL per curve 13.403" "$programs/regress"
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

# ---- field: what scripts rely on

field="$programs/field"
says "field: a simulated one" 0 "noise variance" "$field" --size 24 --range 8 --json f.json \
    --filled f.csv --deviations d.pgm --picture f.html
grep -q '"standard_errors"' f.json && grep -q '"hidden_coverage"' f.json && [[ $(wc -l <f.csv) == 24 ]] &&
    head -c 2 d.pgm | grep -q P5 &&
    grep -q 'data:image/png' f.html
verdict "field: keys, maps, picture" $?
printf '1,2,3,NA\n2,3,4,5\n3,,5,6\n4,5,6,8\n' >grid.csv
says "field: a grid with gaps" 0 "4 x 4, 14 observed" "$field" --data grid.csv --intrinsic --filled g.csv
code=1
grep -q NA g.csv || code=0
verdict "field: gaps are filled" $code
says "field: by probes" 0 "by iterative" "$field" --size 40 --range 8 --engine iterative --samples 4 --steps 3
printf 'a,b\n1,2\n' >header.csv
says "field: a header" 1 "a header line must go" "$field" --data header.csv
printf 'P6 1 1 255 abc' >colour.ppm
says "field: a colour picture" 1 "convert it" "$field" --data colour.ppm
says "field: a mask of what?" 2 "needs --data" "$field" --mask grid.csv
says "field: a mask of another size" 1 "must have the rows and columns" "$field" --data grid.csv --mask row.csv
says "field: a name without an end" 2 "ends in .csv or .pgm" "$field" --filled f
awk 'BEGIN { for (i = 0; i < 8; i++) print "5,5,5,,5,5" }' >flat.csv
says "field: the same everywhere" 1 "the same number in all points" "$field" --data flat.csv
awk 'BEGIN { for (i = 0; i < 8; i++) print i "e150,1e150,3e149,5e150" }' >flat.csv
says "field: squares that overflow" 1 "take a larger unit" "$field" --data flat.csv
awk 'BEGIN { for (i = 0; i < 8; i++) print i "e-150,1e-150,3e-149,5e-150" }' >flat.csv
says "field: squares that vanish" 1 "take a smaller unit" "$field" --data flat.csv
awk 'BEGIN { srand(3); for (i = 0; i < 40; i++) { line = ""
     for (j = 0; j < 40; j++) line = line (j ? "," : "") \
         (i > 8 && i < 32 && j > 8 && j < 32 ? "" : sin(i / 3) + cos(j / 4) + 0.4 * (rand() + rand() - 1))
     print line } }' >hole.csv
"$field" --data hole.csv --engine iterative --quiet --json hole.json &&
    ! grep -q '"standard_errors".*null' hole.json && grep -q '"stop": ' hole.json
verdict "field: errors beside a large hole" $?
says "field: nothing left" 1 "fewer than 10" "$field" --size 5 --missing 0.9

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
# numbers in JSON are those that were computed, to the last digit
[[ $(number nll s.json) =~ [0-9.]{16} ]]
verdict "structural: digits" $?
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
# an ARMA with a mean and no other noise: coefficients by name, one panel for it and one for the mean
says "structural: an ARMA" 0 "arma of 1 and 1 + regressors, and no noise" \
    "$structural" --data walk.csv --columns lx --ar 1 --ma 1 --no-irregular --forecast 2 \
    --json arma.json --svg arma.svg --components arma.csv
[[ $(number 'theta.ma\[0\]' arma.json) && $(number 'phi.ar\[0\]' arma.json) && ! $(number var.irregular arma.json) ]] &&
    head -n 1 arma.csv | grep -qx 'row,y,fit,sd.fit,arma,sd.arma,regressors,sd.regressors' &&
    [[ $(grep -c '<svg' arma.svg) == 4 ]] &&
    awk -F, 'NR > 1 && $2 != "" { d = $2 - $3; if (d * d > 1e-12 || $4 != 0) bad = 1 } END { exit bad }' arma.csv
verdict "structural: what is observed without noise is known" $?
# of which a picture has an axis with no more than rounding between its ends
awk 'BEGIN { print "y"; for (t = 0; t < 30; t++) print 7e15 + t % 2 }' >large.csv
timeout 60 "$structural" --data large.csv --level --quiet --svg large.svg && ! grep -qE 'nan|inf' large.svg
verdict "structural: a series whose changes are its last digits" $?
says "structural: nothing moves" 1 "must move y at once" \
    "$structural" --data walk.csv --columns lx --level --constant level --no-irregular
"$structural" --regress t >out 2>err
if ! grep -q 'has no regressors' err; then
    "$structural" --data future.csv --columns lx --ar 1 --regress t --quiet --json b.json
    [[ $(number b.t b.json) && $(number b.intercept b.json) ]] && grep -q '"forecast"' b.json
    verdict "structural: regressors" $?
    # a fit that has not converged has no standard errors, and a picture of its regressors all the same
    "$structural" --data future.csv --columns lx --ar 1 --regress t --quiet --steps 1 --json short.json --svg short.svg
    grep -q '"converged": false' short.json && ! grep -qE 'nan|inf' short.svg &&
        [[ $(grep -c 'class="line" d="M' short.svg) == "$(grep -c 'class="line" d="M' s.svg)" ]]
    verdict "structural: a picture without standard errors" $?
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

# ---- noisy_ar, state_space: intercepts, regressors, vectors

# error_of KEY FILE: its standard error
error_of() { grep -E '"(standard|parameter)_errors": \{' "$2" >errors && number "$1" errors; }
awk 'function u() { s = s * 16807 % 2147483647; return s / 2147483647 }
     function n() { return (u() + u() + u() + u() - 2) * sqrt(3) }
     BEGIN { s = 7; print "year,y,a,b,c"
         for (t = 1; t <= 120; t++) {
             z = 0.9 * z1 - 0.3 * z2 + n(); z2 = z1; z1 = z
             f = 0.8 * f + n()
             a = f + n(); b = 2 - 0.7 * f + n(); c = 0.02 * t + 0.5 * f + 0.5 * n()
             printf "%d,%s,%.6f,%s,%.6f\n", 1900 + t, t % 13 ? sprintf("%.6f", 50 + 0.03 * t + z) : "", a,
                 t % 7 ? sprintf("%.6f", b) : "NA", c
         } }' >made.csv
(cat made.csv; printf '2021,,,,\n2022,,,,\n') >made_on.csv
ar="$programs/noisy_ar" space="$programs/state_space"
# R: arima(y, order = c(2, 0, 0), xreg = year - 1960, optim.control = list(reltol = 1e-16)). What lambda = 1e-7 of the
# variance and R's optimiser (its gradient is by differences) leave is below 1e-6 of an estimate; R's errors are differences
# of those, 1e-3.
says "noisy_ar: no noise" 0 "lambda is fixed at 1e-07" \
    "$ar" --data made_on.csv --columns y --order 2 --intercept --regress year --no-noise --json ar.json
agree "noisy_ar: NLL of R's arima" "$(number nll ar.json)" 155.7547315 1e-8
agree "noisy_ar: phi 1" "$(number 'phi\[0\]' ar.json)" 0.84654586 3e-6
agree "noisy_ar: phi 2" "$(number 'phi\[1\]' ar.json)" -0.20211116 3e-6
agree "noisy_ar: intercept" "$(number b.intercept ar.json)" -12.5750969 3e-6
agree "noisy_ar: coefficient" "$(number b.year ar.json)" 0.03295674 3e-6
agree "noisy_ar: error of phi" "$(error_of 'phi\[0\]' ar.json)" 0.0927517 1e-3
agree "noisy_ar: error of the intercept" "$(error_of b.intercept ar.json)" 13.611894 1e-3
agree "noisy_ar: error of the coefficient" "$(error_of b.year ar.json)" 0.006942265 1e-3
grep -q '"converged": true' ar.json && [[ $(error_of lambda ar.json) == null && $(number lambda ar.json) ]] &&
    grep -q '"forecast"' ar.json && grep -qE '"standard_errors": \[[^]]*, null\]' ar.json
verdict "noisy_ar: keys" $?
"$ar" --data made.csv --columns y --order 1 --noise 0.25 --quiet --json ar.json
[[ $(number lambda ar.json) == 0.25 && $(error_of lambda ar.json) == null && $(error_of kappa ar.json) != null ]]
verdict "noisy_ar: a given noise" $?
"$ar" --data made.csv --columns a,c --order 1 --intercept --quiet --svg two.svg && [[ $(grep -c '<svg' two.svg) == 3 ]]
verdict "noisy_ar: a panel for each series" $?
says "noisy_ar: simulated with an intercept" 0 "b.intercept" "$ar" --length 100 --order 1 --intercept --no-noise --forecast 2
says "noisy_ar: noise and none" 2 "say different things" "$ar" --noise 1 --no-noise
says "noisy_ar: a trend beside" 2 "taken out before the fit" "$ar" --data made.csv --columns y --intercept --trend 1
says "noisy_ar: nothing left" 2 "leaves no column" "$ar" --data made.csv --regress year,y,a,b,c
says "noisy_ar: regressors of the future" 1 "needs the regressors of the future" \
    "$ar" --data made.csv --columns y --order 1 --regress year --forecast 1

# statsmodels: DynamicFactor(y, k_factors = 1, factor_order = 1, exog = [1, year - 1960]), errors by cov_type = "approx";
# its optimiser leaves 1e-7 of an estimate
says "state_space: a vector" 0 "as one of vectors" "$space" --data made_on.csv --columns a,b,c --states 1 --unit --intercept \
    --regress year --json space.json --svg space.svg
agree "state_space: NLL of statsmodels" "$(number nll space.json)" 509.0534035634 1e-9
agree "state_space: A" "$(number 'A\[0,0\]' space.json)" 0.623322133 1e-6
sign=$(awk -v x="$(number 'C.a\[0\]' space.json)" 'BEGIN { print x < 0 ? 1 : -1 }') # that of a factor is free
agree "state_space: loading" "$(number 'C.a\[0\]' space.json)" "$(awk "BEGIN { print $sign * -1.2559807 }")" 1e-6
agree "state_space: loading of b" "$(number 'C.b\[0\]' space.json)" "$(awk "BEGIN { print $sign * 0.81419466 }")" 1e-6
agree "state_space: noise" "$(number sigma2.b space.json)" 1.148601374 1e-6
agree "state_space: coefficient" "$(number b.year.c space.json)" 0.01326157794 1e-6
agree "state_space: error of A" "$(error_of 'A\[0,0\]' space.json)" 0.0822706 1e-5
agree "state_space: error of a loading" "$(error_of 'C.a\[0\]' space.json)" 0.1365658 1e-5
agree "state_space: error of a noise" "$(error_of sigma2.b space.json)" 0.1911184 1e-5
agree "state_space: error of a coefficient" "$(error_of b.year.c space.json)" 0.003987113 1e-5
grep -q '"converged": true' space.json && grep -q '"engine": "banded"' space.json && grep -q '"forecast"' space.json &&
    [[ $(number d.a space.json) && $(grep -c '<svg' space.svg) == 4 ]]
verdict "state_space: keys and a panel for each column" $?
"$space" --data made.csv --columns a,c --states 1 --each --quiet --json each.json && grep -q '"c": \[' each.json &&
    [[ $(number sigma2 each.json) && $(error_of 'c\[0\]' each.json) == null && $(error_of sigma2 each.json) != null ]]
verdict "state_space: what is not identified has no error" $?
"$space" --data made.csv --columns a --states 1 --unit --quiet --json unit.json &&
    "$space" --data made.csv --columns a --states 1 --anchor --quiet --json anchor.json &&
    "$space" --data made.csv --columns a --states 1 --quiet --starts 3 --json free.json
agree "state_space: the same likelihood in all coordinates" "$(number nll unit.json)" "$(number nll free.json)" 1e-8
agree "state_space: and for --anchor" "$(number nll anchor.json)" "$(number nll free.json)" 1e-8
agree "state_space: sigma2 in all coordinates" "$(number sigma2 anchor.json)" "$(number sigma2 unit.json)" 1e-4
[[ $(number starts free.json) == 3 && $(error_of 'L\[0,0\]' anchor.json) != null && $(error_of 'c\[0\]' unit.json) != null ]]
verdict "state_space: fixed coordinates have errors" $?
says "state_space: diffuse" 0 "start diffuse" "$space" --data made.csv --columns a,c --each --states 1 --start diffuse --anchor
says "state_space: diffuse in free coordinates" 2 "needs --anchor" "$space" --start diffuse
says "state_space: from zero" 0 "start at zero" "$space" --length 100 --states 1 --start zero
says "state_space: diffuse, simulated vectors" 0 "as one of vectors" "$space" --length 100 --outputs 3 --anchor --start diffuse
says "state_space: anchors without columns" 2 "as many columns as states" "$space" --anchor --states 2
says "state_space: two ways" 2 "one of them is enough" "$space" --anchor --unit
says "state_space: series of vectors" 2 "a series of vectors is one" "$space" --outputs 2 --series 2
says "state_space: each of what?" 2 "is for columns of --data" "$space" --each

# ---- mixed: what scripts rely on, and lme4

mixed="$programs/mixed"
says "mixed: simulated" 0 "by schur" "$mixed" --json m.json --svg m.svg --effects m.csv
grep -q '"converged": true' m.json && grep -q '"stop": "converged' m.json && grep -q '"engine": "schur"' m.json &&
    [[ $(number nll_se m.json) == 0 && $(number seconds m.json) && $(number peak_mb m.json) && $(number iterations m.json) ]] &&
    grep -qE '"variances": \{"a": [0-9.e-]+, "b": [0-9.e-]+, "residual": [0-9.e-]+\}' m.json &&
    grep -qE '"fixed": \{"intercept": [0-9.e-]+, "x1": [0-9.e-]+\}' m.json &&
    grep -qE '"standard_errors": \{"variances": \{"a": [0-9.e-]+, .*\}, "fixed": \{"intercept": [0-9.e-]+' m.json
verdict "mixed: keys" $?
[[ $(grep -c '<circle' m.svg) == 48 && $(grep -c '</svg>' m.svg) == 3 && $(wc -l <m.csv) == 1101 ]] &&
    head -n 1 m.csv | grep -qx 'group,level,rows,mean,sd'
verdict "mixed: the largest effects, and all of them" $?
"$mixed" --engine iterative --quiet --json probes.json
awk -v a="$(number nll probes.json)" -v b="$(number nll m.json)" -v w="$(number nll_95 probes.json)" \
    'BEGIN { exit !(w > 0 && (a - b) ^ 2 <= 4 * w ^ 2) }' # twice the 95 % interval: 1 in 10,000
verdict "mixed: the probes' likelihood agrees within its error" $?
awk 'function u() { s = s * 16807 % 2147483647; return s / 2147483647 }
     function n() { return (u() + u() + u() + u() - 2) * sqrt(3) }
     BEGIN { s = 11; print "score,school,class,age,sex"
         for (i = 0; i < 9; i++) { a[i] = n(); v[i] = 0.4 * n() }
         for (i = 0; i < 27; i++) b[i] = 0.7 * n()
         for (m = 0; m < 240; m++) {
             i = int(9 * u()); j = 3 * i + int(3 * u()); x = 10 + 2 * n(); f = int(3 * u())
             y = 2 + 0.3 * x + 0.5 * f + a[i] + b[j] + v[i] * (x - 10) + 0.8 * n()
             printf "%s,\"school %d\",%d,%.6f,%s\n", m % 29 == 7 ? "NA" : sprintf("%.6f", y),
                 i, j % 3, x, substr("fmx", f + 1, 1)
         } }' >pupils.csv
pupils=("$mixed" --data pupils.csv --response score --groups "school,school:class" --slopes school:age --fixed 'age,factor(sex)')
# lme4: lmer(score ~ age + factor(sex) + (1 | school) + (1 | school:class) + (0 + age | school)), bobyqa with rhoend = 1e-11.
# A fit ends within a few thousandths of a standard error; of what it depends on quadratically less is left.
says "mixed: REML" 0 "left out: 9 rows without a response" "${pupils[@]}" --method reml --json pupils.json --effects effects.csv
agree "mixed: REML criterion" "$(number reml_criterion pupils.json)" 615.869739464 1e-8
agree "mixed: nll" "$(number nll pupils.json)" 307.934869732 1e-8
variance_of() { grep '"variances": {' "$2" | head -n 1 >values && number "$1" values; }
fixed_of() { grep '^  "fixed": {' "$2" >values && number "$1" values; }
agree "mixed: variance of schools" "$(variance_of school pupils.json)" 3.26880352915 1e-4
agree "mixed: variance of classes" "$(variance_of school:class pupils.json)" 0.12139421011 1e-4
agree "mixed: variance of slopes" "$(variance_of school:age pupils.json)" 0.02223146508 1e-4
agree "mixed: residual" "$(variance_of residual pupils.json)" 0.59477940283 1e-5
agree "mixed: intercept" "$(fixed_of intercept pupils.json)" 1.025607978 1e-4
agree "mixed: coefficient" "$(fixed_of age pupils.json)" 0.388144494 1e-5
agree "mixed: level of a factor" "$(fixed_of sex=x pupils.json)" 0.821479561 1e-5
agree "mixed: error of the intercept" "$(error_of intercept pupils.json)" 0.6734455569 1e-4
agree "mixed: error of a coefficient" "$(error_of age pupils.json)" 0.0568571795 1e-4
slope_of() { awk -F, -v c="$1" '$1 == "\"school:age\"" && $2 == "\"school 3\"" { print $c }' effects.csv; }
agree "mixed: an effect" "$(slope_of 4)" -0.202862031 1e-4
"${pupils[@]}" --method ml --quiet --json pupils.json --effects effects.csv
agree "mixed: NLL" "$(number nll pupils.json)" 304.034654688 1e-8
agree "mixed: variance by ML" "$(variance_of school:age pupils.json)" 0.01798755882 1e-4
agree "mixed: intercept by ML" "$(fixed_of intercept pupils.json)" 1.025144244 1e-4
agree "mixed: error by ML" "$(error_of age pupils.json)" 0.0524613138 1e-4
agree "mixed: sd of an effect" "$(slope_of 5)" 0.0678477314 1e-4
printf 'school;class;age;sex\nschool 3;1;9.5;m\nschool 3;9;9.5;m\nschool 99;1;9.5;m\n' >new.csv
"${pupils[@]}" --quiet --predict new.csv --out new_out.csv && [[ $(wc -l <new_out.csv) == 4 ]] &&
    awk -F, 'NR > 1 { if (!($4 > last)) bad = 1; last = $4 } END { exit bad }' new_out.csv
verdict "mixed: what is less known is predicted less sharply" $?
head -n 1 new_out.csv | grep -qx 'row,mean,sd.mean,sd,low,high,y'
verdict "mixed: columns of predictions" $?
tr ',' '\t' <pupils.csv | tail -n +2 >numbered.tsv
"$mixed" --data numbered.tsv --response 1 --groups 2,2:3 --slopes 2:4 --fixed '4,factor(5)' --quiet --json numbered.json
agree "mixed: columns by number" "$(number nll numbered.json)" "$(number nll pupils.json)" 1e-12
awk -F, 'BEGIN { OFS = "," } NR > 1 { if ($1 != "NA") $1 = sprintf("%.6fe-8", $1); $4 = sprintf("%.6fe8", $4) }
     { print }' pupils.csv >units.csv
"$mixed" --data units.csv --response score --groups "school,school:class" \
    --slopes school:age --fixed 'age,factor(sex)' --quiet --json units.json
agree "mixed: variances in other units" "$(variance_of residual units.json)" \
    "$(awk -v v="$(variance_of residual pupils.json)" 'BEGIN { print v * 1e-16 }')" 1e-5
agree "mixed: coefficients in other units" "$(fixed_of age units.json)" \
    "$(awk -v v="$(fixed_of age pupils.json)" 'BEGIN { print v * 1e-16 }')" 1e-4
agree "mixed: errors in other units" "$(error_of intercept units.json)" \
    "$(awk -v v="$(error_of intercept pupils.json)" 'BEGIN { print v * 1e-8 }')" 1e-4
# numbers far from 0: the same model, but for the intercept
"$mixed" --data pupils.csv --response score --groups school --fixed age --quiet --json near.json
awk -F, 'BEGIN { OFS = "," } NR > 1 { $4 = sprintf("%.6f", $4 + 1e5) } { print }' pupils.csv >far.csv
"$mixed" --data far.csv --response score --groups school --fixed age --quiet --json far.json
agree "mixed: the likelihood beside far numbers" "$(number nll far.json)" "$(number nll near.json)" 1e-7
agree "mixed: a variance beside far numbers" "$(variance_of school far.json)" "$(variance_of school near.json)" 1e-3
agree "mixed: an error beside far numbers" "$(error_of age far.json)" "$(error_of age near.json)" 1e-3
awk 'BEGIN { print "y,a,residual"; for (i = 0; i < 60; i++) print i * 7919 % 101 "," i % 7 "," i % 5 }' >zero.csv
says "mixed: a variance of 0" 0 "is at its boundary" "$mixed" --data zero.csv --response y --groups a
says "mixed: a group called residual" 2 "a group needs another name" "$mixed" --data zero.csv --response y --groups residual
says "mixed: two groups of one name" 2 "is the name of two groups" \
    "$mixed" --data zero.csv --response y --groups a:y --slopes a:y
printf 'y,x,a\n1,2,u\n3,5,v\n' >two.csv
says "mixed: as many coefficients as rows" 1 "nothing is left for variances" \
    "$mixed" --data two.csv --response y --groups a --fixed x
awk 'BEGIN { print "y,x,a"; for (i = 0; i < 20; i++) print 2 * (i * 7 % 11) "," i * 7 % 11 "," i % 3 }' >same.csv
says "mixed: explained already" 1 "is a combination of the fixed effects" \
    "$mixed" --data same.csv --response y --groups a --fixed x
says "mixed: of what?" 2 "--response: which column" "$mixed" --data pupils.csv
says "mixed: groups?" 2 "--groups: which columns" "$mixed" --data pupils.csv --response score
says "mixed: no such column" 1 "pupils.csv: there is no column x; there is score, school, class, age, sex" \
    "$mixed" --data pupils.csv --response score --groups x
school=("$mixed" --data pupils.csv --response score --groups school)
says "mixed: names as numbers" 1 "line 2, column 5: not a number: m" "${school[@]}" --fixed sex
says "mixed: columns that depend" 1 "is a combination of the fixed effects before it" \
    "${school[@]}" --fixed 'factor(sex),factor(class),factor(school),factor(school:class)'
says "mixed: twice" 2 "school: is twice in --groups" "$mixed" --data pupils.csv --response score --groups school,school
says "mixed: explains itself" 2 "cannot explain itself" "${school[@]}" --fixed score
awk 'BEGIN { print "y,row"; for (i = 0; i < 60; i++) print i * 7919 % 101 "," i }' >rows.csv
says "mixed: a level for every row" 0 "row has no standard error: the data do not identify it" \
    "$mixed" --data rows.csv --response y --groups row
says "mixed: predictions where?" 2 "go together" "${pupils[@]}" --predict new.csv
says "mixed: columns of nothing" 2 "--data: is needed" "$mixed" --groups a
says "mixed: sizes beside a file" 2 "says how to simulate" "${pupils[@]}" --simulate-rows 7
says "mixed: an engine that is not there" 2 "--engine" "$mixed" --engine kalman
printf 'y,a\n3,p\n3,q\n3,p\n' >same.csv
says "mixed: nothing to explain" 1 "is the same in all rows" "$mixed" --data same.csv --response y --groups a
says "mixed: its own levels" 2 "cannot explain itself" "$mixed" --data pupils.csv --response score --groups score,school
printf 'y,a\n3e150,p\n4e150,q\n3e150,p\n' >same.csv
says "mixed: squares that overflow" 1 "take a larger unit" "$mixed" --data same.csv --response y --groups a
printf 'y,a\n3e-150,p\n4e-150,q\n3e-150,p\n' >same.csv
says "mixed: squares that vanish" 1 "take a smaller unit" "$mixed" --data same.csv --response y --groups a
if [[ -c /dev/full ]]; then
    says "mixed: effects on a full disk" 1 "/dev/full: writing failed" "$mixed" --effects /dev/full
    says "mixed: a picture on a full disk" 1 "/dev/full: writing failed" "$mixed" --svg /dev/full
fi

# ---- factors: numbers, files, and what people have in tables

factors="$programs/factors" regress="$programs/regress"
awk 'function u() { s = s * 16807 % 2147483647; return s / 2147483647 }
     function n() { return (u() + u() + u() + u() - 2) * sqrt(3) }
     BEGIN { s = 11; print "id,name,a,b,c,day"
         for (t = 1; t <= 90; t++) {
             z = n(); printf "%d,\"p, %d\",%.4f,%.4f,%.4f,2001-01-%02d\n", t, t, 50 + 3 * z + 2 * n(), 7 - z + 0.8 * n(), 0.5 * z + 0.6 * n(), t % 28 + 1
         } }' >people.csv
says "factors: ids and texts are left out" 0 "left out, texts: name, day" "$factors" --data people.csv --factors 1 --json f.json --loadings l.csv
grep -q "left out, numbers of rows (--columns takes them): id" err
verdict "factors: so are numbers of rows" $?
# three columns and one factor: loadings and noises in closed form, from the covariances
awk -F'[,]' 'NR > 1 { x[1] = $4; x[2] = $5; x[3] = $6; k++
         for (i = 1; i <= 3; i++) { m[i] += x[i]; for (j = 1; j <= 3; j++) c[i, j] += x[i] * x[j] } }
     END { for (i = 1; i <= 3; i++) for (j = 1; j <= 3; j++) c[i, j] = c[i, j] / k - m[i] / k * m[j] / k
         a = sqrt(c[1,2] * c[1,3] / c[2,3]); d = 0
         printf "%.9g %.9g %.9g %.9g\n", a, c[1,2] / a, c[1,3] / a, sqrt(c[1,1] - a * a) }' people.csv >closed
read -r load_a load_b load_c noise_a <closed
# shellcheck disable=SC1003  # a backslash and a number
loading() { sed -n 's/.*"loadings": {"a": \[\([^]]*\)\], "b": \[\([^]]*\)\], "c": \[\([^]]*\)\]}.*/\'"$1"'/p' f.json | head -n 1; }
agree "factors: the loading of a in closed form" "$(loading 1)" "$load_a" 1e-5
agree "factors: of b" "$(loading 2)" "$load_b" 1e-5
agree "factors: of c" "$(loading 3)" "$load_c" 1e-5
grep '"noise"' f.json | head -n 1 >noise.json
agree "factors: the noise of a" "$(number a noise.json)" "$noise_a" 1e-5
[[ $(head -n 1 l.csv) == "column,mean,se.mean,noise,se.noise,communality,factor1,se.factor1" && $(wc -l <l.csv) == 4 ]]
verdict "factors: loadings in a file" $?
# the standard error of a mean is known, too: the column's standard deviation by the root of the rows
awk -F, 'NR == 2 { want = sqrt(($4 ^ 2 + $7 ^ 2) / 90); exit !(($3 - want) ^ 2 < (1e-4 * want) ^ 2) }' l.csv
verdict "factors: the standard error of a mean" $?
# two columns, one principal axis: eigenvalues of a 2 x 2 matrix
"$factors" --data people.csv --columns a,b --method ppca --factors 1 --errors no --quiet --json f.json
awk -F, 'NR > 1 { k++; x = $4; y = $5; a += x; b += y; p += x * x; q += y * y; r += x * y }
     END { p = p / k - (a / k) ^ 2; q = q / k - (b / k) ^ 2; r = r / k - a / k * b / k
         root = sqrt((p - q) ^ 2 / 4 + r * r); printf "%.9g %.9g\n", sqrt((p + q) / 2 - root), k / 2 * (2 * log(6.283185307179586) + log((p * q - r * r)) + 2) }' people.csv >closed
read -r noise_a total <closed
grep '"noise"' f.json >noise.json
agree "factors: noise of a principal axis" "$(number a noise.json)" "$noise_a" 1e-6
agree "factors: and its likelihood" "$(number nll_total f.json)" "$total" 1e-8
# gaps: filled in, all else byte for byte, also comments, quotes and ends of lines
(printf '# people\r\n'; awk -F, -v OFS=, 'NR > 1 && NR % 9 == 0 { $4 = NR % 2 ? "NA" : "" } NR > 1 && NR % 11 == 0 { $6 = " \"\"" } { printf "%s\r\n", $0 }' people.csv) >holes.csv
says "factors: gaps" 0 "18 gaps" "$factors" --data holes.csv --factors 1 --impute full.csv --gaps gaps.csv --scores scores.csv --report f.html --svg f.svg
[[ $(wc -l <gaps.csv) == 19 && $(wc -l <scores.csv) == 91 && $(wc -l <full.csv) == "$(wc -l <holes.csv)" ]]
verdict "factors: a line for each gap, row" $?
diff <(awk -F, 'NR > 2 && $4 !~ /^(NA)?$/ && $6 !~ /""/' holes.csv) <(awk -F, 'NR == FNR { gap[NR] = NR < 3 || $4 ~ /^(NA)?$/ || $6 ~ /""/; next } !gap[FNR]' holes.csv full.csv)
verdict "factors: what is observed stays as it is" $?
! grep -qE ',NA,|,,|""|nan' full.csv && grep -q $'^# people\r$' full.csv && ! grep -qi nan f.svg f.html && grep -q '</html>' f.html
verdict "factors: no gap is left" $?
first_gap=$(awk -F, 'NR == 2 { print $3 }' gaps.csv)
[[ $first_gap && $(awk -F, 'NR == 10 { print $4 }' full.csv) == "$first_gap" ]]
verdict "factors: the same numbers in both files" $?
says "factors: over the data" 2 "would be written over the data" "$factors" --data holes.csv --factors 1 --impute holes.csv
says "factors: how many" 0 "<- chosen" "$factors" --hold-out 0.1 --simulate-columns 9 --simulate-rows 300 --choose hold-out --errors no
"$factors" --simulate-rows 300 --errors no --json f.json >out 2>err
[[ $(number factors f.json) == 3 ]] && grep -q '<- chosen' out && awk -v x="$(number coverage f.json)" 'BEGIN { exit !(x > 0.9 && x < 0.99) }'
verdict "factors: three are found" $?
"$factors" --simulate-rows 300 --errors no --factors 3 --rotate varimax --quiet --json g.json
agree "factors: a rotation leaves the likelihood" "$(number nll g.json)" "$(number nll f.json)" 1e-6
says "factors: too many" 2 "99: there are 3 columns and 90 rows: at most 2" "$factors" --data people.csv --factors 99
says "factors: no such column" 2 "there is no column z; there is id, name, a, b, c, day" "$factors" --data people.csv --columns a,z
says "factors: a text that was asked for" 1 "line 2, column name: not a number: p, 1" "$factors" --data people.csv --columns name,a
printf 'a,b,b\n1,2,1\n2,x,3\n3,4,4\n4,1,1\n' >words.csv
says "factors: a word among numbers" 1 "line 3, column b: not a number: x; --missing WORD" "$factors" --data words.csv
says "factors: which is a gap" 0 "1 gaps" "$factors" --data words.csv --missing x,? --factors 1 --errors no
says "factors: two of a name" 2 "two columns are called b: say which by number, 2 or 3" "$factors" --data words.csv --columns b
printf 'a,b\n1,2\n' >short.csv
says "factors: one row" 1 "no column is left" "$factors" --data short.csv
printf 'a,b\n' >short.csv
says "factors: no row" 1 "there are no rows below the names" "$factors" --data short.csv
printf 'a,b\n1,2\n3\n' >short.csv
says "factors: half a row" 1 "line 3: fewer cells" "$factors" --data short.csv
printf '\x93NUMPY' >short.npy
says "factors: half a file of numpy" 1 "short.npy: not a file of numpy.save" "$factors" --data short.npy
says "factors: fill what?" 2 "needs --data" "$factors" --impute x.csv
if [[ -c /dev/full ]]; then
    for option in --loadings --scores --svg --report --gaps --impute; do
        says "factors: $option on a full disk" 1 "/dev/full: writing failed" "$factors" --data holes.csv --factors 1 --quiet $option /dev/full
    done
fi

# ---- regress: BayesianRidge and ARDRegression of scikit-learn 1.9.1 (tolerance 1e-14, flat hyperpriors), same table

awk 'function u() { s = s * 16807 % 2147483647; return s / 2147483647 }
     BEGIN { s = 5; print "x1;x2;x3;kind;y"
         for (t = 1; t <= 40; t++) {
             a = u(); b = 10 * u(); c = u(); k = int(3 * u())
             printf "%.5f;%.5f;%.5f;%s;%s\n", a, b, c, substr("lowmidtop", 3 * k + 1, 3), t % 13 ? sprintf("%.5f", 3 + 4 * a - 0.5 * b + k + u()) : ""
         } }' >rows.csv
says "regress: rows without a response" 0 "left out: 3 rows without a response" "$regress" --data rows.csv --response y --raw --json r.json --report r.html --svg r.svg
agree "regress: likelihood of BayesianRidge" "$(number nll r.json)" 53.159420446206 1e-9
agree "regress: its precision of coefficients" "$(number alpha r.json)" 0.23673043602574642 1e-5
agree "regress: its precision of the noise" "$(number beta r.json)" 1.3808701304451216 1e-6
agree "regress: a coefficient" "$(number x1 r.json)" 3.46344395 1e-6
agree "regress: the intercept" "$(number intercept r.json)" 4.576917143459906 1e-6
agree "regress: a standard deviation" "$(grep standard_deviations r.json >errors && number x2 errors)" 0.05444388 1e-6
"$regress" --data rows.csv --response y --quiet --json r.json
agree "regress: of standardised columns" "$(number nll r.json)" 52.27975580527986 1e-9
agree "regress: their coefficient, as it was" "$(number x2 r.json)" -0.46220105 1e-6
"$regress" --data rows.csv --response y --method sparse --quiet --json r.json
agree "regress: a coefficient of ARDRegression" "$(number x1 r.json)" 3.58204128 1e-6
[[ $(number kept r.json) == 2 ]]
verdict "regress: and one of no use" $?
says "regress: categories" 0 "kind=mid" "$regress" --data rows.csv --response y --categories kind --hold-out 0.25 --coefficients c.csv --report r.html
grep -q '^"kind=top",' c.csv && grep -q '</html>' r.html && ! grep -qi nan r.html r.svg
verdict "regress: a coefficient for each name but the first" $?
printf 'kind;x3;x2;x1\nlow;0.5;5;0.5\ntop;;1;1\n' >new.csv
says "regress: predictions" 0 "1 rows lack a number" "$regress" --data rows.csv --response y --categories kind --predict new.csv --out p.csv
awk -F, 'NR == 2 { bad = !($2 > 2 && $2 < 4 && $5 < $2 && $6 > $2 && $4 > $3) } NR == 3 { bad = bad || $2 != "" } END { exit bad || NR != 3 }' p.csv
verdict "regress: and their intervals" $?
printf 'kind;x3;x2;x1\nhuge;0.5;5;0.5\n' >new.csv
says "regress: a name that the data have not" 1 "line 2, column kind: the data have no such name: huge" \
    "$regress" --data rows.csv --response y --categories kind --predict new.csv --out p.csv
says "regress: neural" 0 "hidden units" "$regress" --data rows.csv --response y --method neural --hidden 3 --prior 3 --hold-out 0.25 --json r.json
says "regress: of what?" 2 "--response: which column" "$regress" --data rows.csv
says "regress: text as a response" 1 "the response must be numbers" "$regress" --data rows.csv --response kind
says "regress: itself" 2 "the response cannot explain itself" "$regress" --data rows.csv --response y --columns x1,y
says "regress: predictions to where?" 2 "go together" "$regress" --data rows.csv --response y --predict new.csv
awk 'BEGIN { print "a,b,y"; for (t = 0; t < 20; t++) print t "," t * t "," 3 * t - t * t }' >exact.csv
says "regress: no noise" 1 "y: is a combination of the other columns" "$regress" --data exact.csv --response y
awk 'BEGIN { print "a,b,y"; for (t = 0; t < 20; t++) print t % 7 "," 2 * (t % 7) + 1 "," t % 7 + t % 3 }' >twice.csv
says "regress: a column twice" 0 "R^2" "$regress" --data twice.csv --response y
says "regress: a sparse curve" 0 "bumps" "$regress" --method sparse --report r.html --json r.json
if [[ -c /dev/full ]]; then
    for option in --coefficients --svg --report --json; do
        says "regress: $option on a full disk" 1 "/dev/full: writing failed" "$regress" --data rows.csv --response y --quiet $option /dev/full
    done
fi

# ---- threads that wait must not burn processors: with as many as there are, a program of many short calls takes about the time of one

# milliseconds THREADS: of processors, user and system, the less of three runs
milliseconds()
{
    local run least=1000000000 TIMEFORMAT='%3U %3S'
    for run in 1 2 3; do
        run=$({ time env -u OMP_WAIT_POLICY OMP_NUM_THREADS="$1" "$programs/factors" --factors 3 --errors no --quiet; } 2>&1 |
            awk '{ printf "%d", 1000 * ($1 + $2) }')
        if ((run < least)); then least=$run; fi
    done
    echo "$least"
}
one=$(milliseconds 1) all=$(milliseconds "$(nproc)")
((all > 0 && 10 * all <= 12 * one))
verdict "factors: $all ms of processors by default, $one with one thread" $?

# ---- Ctrl-C

awk 'BEGIN { srand(1); for (u = 1; u <= 150; u++) for (i = 1; i <= 60; i++) if (rand() < 0.4)
         print u "\t" i "\t" 1 + int(5 * (0.5 * rand() + 0.25 + 0.25 * sin(u * 0.7 + i * 1.3))) }' >ratings.tsv
fit=("$programs/ratings" --data ratings.tsv --factors 20 --epochs 60 --batch 10 --accumulate 2 --rate 0.01 --validate 50)
results() { grep -vE '"([a-z_]*seconds[a-z_]*|peak_mb)"' "$1"; }
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

# ---- a model that is kept

ratings="$programs/ratings"
awk -F'\t' 'BEGIN { print "userId,movieId" } $1 <= 40 && NR % 3 == 0 { print $1 "," $2 + 1 }
     END { print "900,3\n1,999" }' ratings.tsv >pairs.csv
asked=(--quiet --predict pairs.csv --recommend "7,9")
"${fit[@]}" --steps 30 "${asked[@]}" --save m.model --predictions here.csv --json here.json 2>err
verdict "a model is saved" $?
grep -q "of .* pairs have an item that the model does not know: NA" err && tail -n 1 here.csv | grep -qx '1,999,NA,NA,NA'
verdict "an item that is not known" $?
"$ratings" --load m.model --data ratings.tsv "${asked[@]}" --predictions there.csv --json there.json 2>err
cmp here.csv there.csv && [[ $(wc -l <here.csv) == $(wc -l <pairs.csv) ]] &&
    diff <(grep -A 5 recommended_to here.json) <(grep -A 5 recommended_to there.json) &&
    diff <(rmse here.json) <(rmse there.json)
verdict "predictions in another process: the same bits" $?
"$ratings" --load m.model --data ratings.tsv --quiet --predict pairs.csv --threads 2 2>err | diff - there.csv
verdict "predictions to standard output" $?
if python3 -c 'import numpy' 2>err; then
    python3 -c 'import numpy
with open("m.model", "rb") as f:
    theta, text = numpy.load(f), numpy.load(f).item().decode()
assert (theta == numpy.load("m.model")).all() and theta.dtype == "<f4" and theta.shape == (60 * 22,)
assert "model: factor analysis" in text and text.split("items: ")[1].split("\n")[0].split() == [str(i) for i in range(1, 61)]'
    verdict "numpy reads a model" $?
fi
# a new user with the ratings of an old one, some items left out of the file: the same predictions
awk -F'\t' 'BEGIN { print "user,item,rating" } $1 == 7 { print 5000 "," $2 "," $3 }
     END { print "5000,12345,3" }' ratings.tsv >new.csv
awk -F, '$1 == 7 { print 5000 "," $2 }' pairs.csv >ask.csv
says "new users" 0 "1 of " \
    "$ratings" --load m.model --data new.csv --predict ask.csv --predictions new_answers.csv --recommend all
grep -q "their 1 ratings are left out" err && grep -q "for user 5000" out &&
    diff <(grep '^7,' here.csv | cut -d, -f2-) <(tail -n +2 new_answers.csv | cut -d, -f2-)
verdict "a new user is folded in as an old one" $?
# pairs with ratings: the error of the predictions
says "predictions of a file of ratings" 0 "that have a rating" \
    "$ratings" --load m.model --data ratings.tsv --predict ratings.tsv --predictions all.csv
[[ $(wc -l <all.csv) == $(($(wc -l <ratings.tsv) + 1)) ]]
verdict "one line each" $?
says "not a model" 1 "ratings.tsv: a file cannot be read or written as asked: model file: not a saved model" \
    "$ratings" --load ratings.tsv --data ratings.tsv
says "no such model" 1 "there is none" "$ratings" --load nothing --data ratings.tsv
head -c 3000 m.model >cut.model
says "half a model" 1 "damaged" "$ratings" --load cut.model --data ratings.tsv
says "not in the place of data" 1 "is no saved model: it would not be replaced" "${fit[@]}" --save ratings.tsv
says "no fit" 2 "does not fit" "$ratings" --load m.model --data ratings.tsv --epochs 3
says "no picture of no fit" 2 "draws a fit" "$ratings" --load m.model --data ratings.tsv --svg x.svg
says "no page of made-up ratings" 2 "nothing to find" "$ratings" --data ratings.tsv --simulate 100,50,2000 --report x.html
says "nobody" 1 "there is no such user" "$ratings" --load m.model --data ratings.tsv --recommend 7,5000
says "no number of a user" 2 "takes the number of a user" "$ratings" --load m.model --data ratings.tsv --recommend x
printf '1,2\n3\n' >one.csv
says "a user without an item" 1 "line 2: there is a user without an item" \
    "$ratings" --load m.model --data ratings.tsv --predict one.csv --predictions x.csv
says "predictions of nothing" 2 "needs --predict" "$ratings" --load m.model --data ratings.tsv --predictions x.csv
# a finished fit goes on for more steps where that is well defined, and says so where it is not
paper=("$ratings" --data ratings.tsv --factors 5 --paper --quiet --validate 7)
"${paper[@]}" --epochs 5 --json whole.json && "${paper[@]}" --epochs 3 --checkpoint more --keep-every 2 &&
    "${paper[@]}" --epochs 5 --resume more --json more.json
diff <(results whole.json) <(results more.json)
verdict "more epochs, as if asked for at once" $?
head -n 30 more | grep -aqx "fit.optimizer: Adam"
verdict "a checkpoint describes itself" $?
says "another rate" 1 "fit.rate is 0.002 here, 0.001 in the checkpoint" "${paper[@]}" --epochs 5 --rate 0.002 --resume more
"${fit[@]}" --steps 20 --quiet --checkpoint pilot
says "more steps after a pilot" 1 "is of a fit of 20 steps" "${fit[@]}" --steps 30 --resume pilot

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

# Interrupted by a later moment at every attempt until that is within the fit, which takes seconds.
for delay in 0.5 1 2 4 8; do
    "$mixed" --engine dense --simulate-levels 800,300 --simulate-fixed 0 --json part.json >out 2>err &
    pid=$!
    sleep $delay
    kill -INT $pid 2>/dev/null
    code=0
    wait $pid || code=$?
    grep -q 'interrupted after step' err && break
done
[[ $code == 130 ]] && grep -q 'interrupted after step' err && grep -q '"stop": "stopped by the caller"' part.json
verdict "Ctrl-C: mixed: code $code" $?

# What they measure takes minutes, so that none of them is at its end when it is interrupted.
interrupted part.json "$programs/scaling" --length 30000000 --json part.json --svg part.svg --report part.html &&
    grep -q '"stopped": "stopped by the caller"' part.json && grep -q '^K = ' out && grep -q '</svg>' part.svg &&
    grep -q 'Interrupted: the last sizes' part.html && grep -q '</html>' part.html && ! grep -qE "nan|inf[^o]" part.svg part.html
verdict "Ctrl-C: scaling" $?
interrupted part.json "$programs/gradient_error" --dim 1000 --json part.json --svg part.svg --report part.html &&
    grep -q 'Interrupted after' part.html && grep -q '</html>' part.html && ! grep -q 'nan' part.svg part.html &&
    grep -q '"PCG_network_rate": null' part.json && grep -q '"stopped": "stopped by the caller"' part.json &&
    grep -qE '^ +41 .* - ' out && grep -q '</svg>' part.svg
verdict "Ctrl-C: gradient_error" $?
interrupted part/report.html "$programs/demo" --out part --json part.json &&
    grep -q '"stopped": "stopped by the caller"' part.json && grep -q 'Interrupted: the rest is missing' part/report.html
verdict "Ctrl-C: demo" $?

echo "$passed passed, $failed failed"
((failed == 0 && passed > 0))
