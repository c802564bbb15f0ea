#!/usr/bin/env bash
# reports.sh DIRECTORY - the pages that noisy_ar, state_space, structural, mixed, field, factors and regress in this directory
# write with --report: well-formed, the same at every run, the answer of the numbers in JSON, what makes it doubtful on top,
# names of the user's escaped, no number that is none, small for long series; full disks; and that --help of all programs lines
# up.
set -uo pipefail
programs=$(realpath "$1")
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory" || exit 1
export OMP_NUM_THREADS=1
passed=0 failed=0 skipped=0

# verdict NAME CODE: 0 has passed
verdict()
{
    if [[ $2 == 0 ]]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAIL  $1"; fi
}

# Elements that are opened are closed, in order; in HTML cells and rows may be left open. No attribute twice.
cat >check.py <<'PY'
import html.parser, sys
open_ones = []
optional = {"td", "tr", "th", "p"}
void = {"meta", "img", "br"}
class Check(html.parser.HTMLParser):
    def handle_starttag(self, tag, attrs):
        assert len({a for a, _ in attrs}) == len(attrs), f"{tag}: an attribute twice"
        if tag in void: return
        while open_ones and tag in {"tr", "td", "th"} and open_ones[-1] in optional - ({"tr"} if tag != "tr" else set()):
            open_ones.pop()
        open_ones.append(tag)
    def handle_startendtag(self, tag, attrs): pass
    def handle_endtag(self, tag):
        while open_ones[-1] != tag:
            assert open_ones[-1] in optional, f"</{tag}> where <{open_ones[-1]}> is open"
            open_ones.pop()
        open_ones.pop()
text = open(sys.argv[1], encoding="utf-8").read()
check = Check()
check.feed(text)
check.close()
assert not open_ones, f"left open: {open_ones}"
assert text.count("<h1>") == 1 and text.count('class="answer"') == 1 and text.rstrip().endswith("</html>")
PY
python=
if python3 -c 'import html.parser' 2>/dev/null; then
    python=1
else
    skipped=1
    echo "skip  no python3: pages are not parsed"
fi

# page NAME FILE: everything that is true of every page
page()
{
    local code=0
    [[ -s $2 ]] || code=1
    if [[ $python ]]; then python3 check.py "$2" 2>err || code=$?; fi
    [[ $code == 0 ]]
    verdict "$1: well-formed: $(tail -n 1 err 2>/dev/null)" $?
    sed 's/base64,[A-Za-z0-9+\/=]*//g' "$2" | grep -qiwE -- '-?nan|-?inf'
    verdict "$1: no number that is none" $((1 - $?))
    (($(wc -c <"$2") < 1000000))
    verdict "$1: small" $?
    # answer, then picture, then table, then settings
    awk '/class="answer"/ { if (!a) a = NR } /<svg|<img/ { if (!p) p = NR }
         /<table/ { if (!t) t = NR } /<h2>Settings/ { s = NR }
         END { exit !(a && a < p && p < t && t < s) }' "$2"
    verdict "$1: in order" $?
}

# twice NAME COMMAND...: a page r.html, the same bytes at a second run
twice()
{
    local name=$1
    shift
    rm -f r.html first.html
    "$@" --report r.html --quiet --json r.json >out 2>err
    verdict "$name: ends with 0: $(head -c 200 err)" $?
    cp r.html first.html && "$@" --report r.html --quiet --json r.json >out 2>err && cmp first.html r.html
    verdict "$name: the same bytes" $?
    page "$name" r.html
    cp r.html "$name.html"
}

# holds NAME TEXT FILE; lacks NAME TEXT FILE
holds() { grep -qF -- "$2" "$3"; verdict "$1: $2" $?; }
lacks() { grep -qF -- "$2" "$3"; verdict "$1: not $2" $((1 - $?)); }

awk 'function u() { s = s * 16807 % 2147483647; return s / 2147483647 }
     function n() { return (u() + u() + u() + u() - 2) * sqrt(3) }
     BEGIN { s = 7; print "year,\"<b>&\"\"x\",a"
         for (t = 1; t <= 150; t++) {
             z = 0.8 * z + n(); f = 0.7 * f + n()
             printf "%d,%s,%.4f\n", 1850 + t, t % 11 ? sprintf("%.4f", 10 + z + 0.4 * n()) : "", f + 2 * sin(t / 2) + 0.5 * n()
         } }' >made.csv

# ---- noisy_ar

ar="$programs/noisy_ar"
twice noisy_ar "$ar" --data made.csv --time year --order 2 --forecast 15
holds noisy_ar '&lt;b&gt;&amp;&quot;x is expected at ' r.html
lacks noisy_ar '<b>' r.html
holds noisy_ar 'at year 2001' r.html
holds noisy_ar '>now</text>' r.html
holds noisy_ar 'Does the model leave anything?' r.html
holds noisy_ar ' autocorrelations ' r.html # the filter's likelihood is that of the library
lacks noisy_ar 'class="warning"' r.html
# the answer has the numbers of JSON
middle=$(sed -nE 's/.*"forecast": \[\[\[[^,]*, ([^,]*), .*/\1/p' r.json)
answer=$(sed -nE 's/.*class="answer">.* is expected at ([0-9.-]+) at .*/\1/p' r.html)
awk -v a="$answer" -v b="$middle" 'BEGIN { exit !(a != "" && b != "" && (a - b) ^ 2 <= (6e-4 * b) ^ 2) }'
verdict "noisy_ar: the answer is $middle, not $answer" $?
"$ar" --data made.csv --columns a --order 2 --steps 1 --optimizer adam --quiet --report short.html
page "noisy_ar, one step" short.html
holds "noisy_ar, one step" 'class="warning">The fit has not converged' short.html
holds "noisy_ar, one step" 'There are no intervals' short.html
awk '/class="answer"/ { a = NR } /class="warning"/ { w = NR } /<svg/ { if (!p) p = NR }
     END { exit !(a < w && w < p) }' short.html
verdict "warnings stand between answer and picture" $?
printf 'y\n1\n2\n' >two.csv
"$ar" --data two.csv --order 1 --no-noise --quiet --report two.html 2>err
verdict "noisy_ar: two values: $(head -c 200 err)" $?
page "noisy_ar, two values" two.html
awk 'BEGIN { srand(5); print "y"
     for (t = 0; t < 60000; t++) { z = 0.9 * z + rand() - 0.5
         print t == 31000 ? "77" : t % 50 ? z + rand() / 4 : "NA" } }' >long.csv
"$ar" --data long.csv --order 1 --noise 0.01 --quiet --report long.html
page "noisy_ar, 60000 values" long.html
holds "noisy_ar, 60000 values" 'Each stroke spans the least and the largest of 200 values' long.html
holds "noisy_ar, 60000 values" 'at row 31001 of y' long.html # the spike is the largest innovation
"$ar" --data made.csv --time a --columns year --quiet >out 2>err
[[ $? == 1 ]] && grep -q 'times increase from row to row' err
verdict "times that fall" $?
"$ar" --time year --quiet >out 2>err
[[ $? == 2 ]] && grep -q -- '--time: needs --data' err
verdict "times of nothing" $?
if [[ -c /dev/full ]]; then
    for program in noisy_ar state_space structural mixed field; do
        small=()
        if [[ $program == field ]]; then small=(--size 20); fi
        "$programs/$program" "${small[@]}" --quiet --report /dev/full >out 2>err
        [[ $? == 1 ]] && grep -q '/dev/full: writing failed' err
        verdict "$program: a page on a full disk" $?
    done
    "$programs/field" --size 20 --quiet --svg /dev/full >out 2>err
    [[ $? == 1 ]]
    verdict "field: a picture on a full disk" $?
fi
"$ar" --report missing/r.html --quiet >out 2>err
[[ $? == 1 ]] && grep -q 'cannot write missing/r.html' err
verdict "no such directory, before the work" $?

# ---- state_space, structural

twice state_space "$programs/state_space" --data made.csv --time year --states 1 --unit --forecast 5 --intercept
holds state_space 'The hidden state' r.html
holds state_space 'loading' r.html
holds state_space ' autocorrelations ' r.html
holds state_space '&lt;b&gt;&amp;&quot;x</text>' r.html
"$programs/state_space" --data made.csv --columns a --states 2 --quiet --report free.html
page "state_space, free" free.html
holds "state_space, free" 'period of about 1' free.html # 2 pi / 0.5 = 12.6 steps
lacks "state_space, free" 'The hidden state' free.html  # in free coordinates there is nothing to draw
twice structural "$programs/structural" --data made.csv --columns a --time year --level --season 6 --forecast 12 --hide 0.1
holds structural 'What it is made of' r.html
holds structural 'In the last period of 6 steps the season is lowest at year' r.html
holds structural 'values that were hidden from the fit' r.html
holds structural 'What surprises most' r.html
awk 'BEGIN { print "y"; for (t = 1; t <= 50; t++) print t % 2 + t % 7 / 10 }' >saw.csv
"$programs/structural" --data saw.csv --level --quiet --report saw.html
page "structural, boundary" saw.html
holds "structural, boundary" 'class="warning">var.level came to rest at the boundary' saw.html

# ---- mixed

awk 'BEGIN { srand(4); print "score;<school>;class;age"
     for (i = 0; i < 600; i++) { s = int(12 * rand()); c = int(3 * rand()); a = 6 + int(6 * rand())
         y = 50 + (s * 37 % 12) + (s * 31 + c * 17) % 7 / 4 + 0.5 * a + 6 * (rand() + rand() - 1)
         printf "%.3f;<s&%d>;%d;%d\n", y, s, c, a } }' >pupils.csv
twice mixed "$programs/mixed" --data pupils.csv --response score --groups '<school>,<school>:class' --fixed age
holds mixed 'Of the variance of score that the fixed effects leave &lt;school&gt; makes ' r.html
holds mixed '&lt;s&amp;' r.html
lacks mixed '<s&' r.html
holds mixed 'Clearest is age' r.html
share=$(sed -nE 's/.*class="answer">.*&lt;school&gt; makes ([0-9.]+)&#160;%, &lt;school&gt;:.*/\1/p' r.html)
awk -v share="$share" '/^  "variances"/ { gsub(/[{},:"]/, " ")
         for (i = 1; i <= NF; i++) if ($i + 0 > 0) { v[n++] = $i; sum += $i } }
     END { exit !(n == 3 && (share - 100 * v[0] / sum) ^ 2 < 0.01) }' r.json
verdict "mixed: a share of $share %" $?

# ---- field

twice field "$programs/field" --size 48 --range 10
holds field 'is left' r.html
holds field 'data:image/png;base64,' r.html
[[ $(grep -c 'data:image/png' r.html) == 4 ]]
verdict "field: data, filled in, truth, deviations" $?
holds field 'off the fitted curve' r.html
awk 'BEGIN { for (i = 0; i < 9; i++) { l = ""
     for (j = 0; j < 30; j++) l = l (j ? "," : "") (i * j % 5 == 3 ? "" : sin(i) + cos(j / 2)); print l } }' >grid.csv
"$programs/field" --data grid.csv --intrinsic --quiet --report grid.html --svg grid.svg
page "field, a grid" grid.html
[[ $(grep -c '<image' grid.svg) == 3 ]] && ! grep -qiwE 'nan|inf' grid.svg
verdict "field: a picture in a file" $?
if command -v xmllint >/dev/null; then
    xmllint --noout grid.svg && "$ar" --data made.csv --order 1 --quiet --svg two.svg && xmllint --noout two.svg &&
        "$programs/mixed" --data pupils.csv --response score --groups '<school>' --quiet --svg m.svg && xmllint --noout m.svg
    verdict "pictures are XML" $?
fi

# ---- factors, regress

twice factors "$programs/factors" --data made.csv --factors 1
holds factors '&lt;b&gt;&amp;&quot;x' r.html
lacks factors '<b>' r.html
"$programs/factors" --data made.csv --factors 1 --steps 1 --quiet --report short.html
page "factors, one step" short.html
holds "factors, one step" 'class="warning">Take care: the fit has not converged' short.html
twice regress "$programs/regress" --data made.csv --response a --hold-out 0.2
holds regress '&lt;b&gt;&amp;&quot;x' r.html
"$programs/regress" --data made.csv --response a --steps 1 --quiet --report short.html
holds "regress, one step" 'class="warning">Take care: the fit has not converged' short.html
"$programs/regress" --quiet --report curve.html
awk '/the band is [0-9.]+ times as wide there as elsewhere/ { sub(/.*the band is /, ""); wide = $1 }
     END { exit !(wide > 2) }' curve.html
verdict "regress: a curve is not known where nothing was seen" $?

# ---- --help lines up: explanations in one column, no line of them beyond 100 characters, every option explained

for program in "$programs"/*; do
    "$program" --help >help && awk '/^options/ { on = 1 } /^ends with/ { on = 0; end = 1 }
        on && /^  --/ { n++; if (length($0) > 29 && (substr($0, 29, 1) != " " || substr($0, 30, 1) == " ")) bad = 1 }
        on && /^          / && substr($0, 1, 29) ~ /[^ ]/ { bad = 1 }
        on && /^  / && length($0) > 100 { bad = 1 }
        END { exit !(n > 3 && !bad && end) }' help
    verdict "$(basename "$program") --help lines up" $?
done

echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0 && passed > 0))
