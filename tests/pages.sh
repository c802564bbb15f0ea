#!/usr/bin/env bash
# pages.sh PROGRAMS [part] - pages and pictures that the programs in directory PROGRAMS write, seen by Chromium without a window:
# 1280 and 375 pixels wide, light and dark. tests/pages.js says what is looked at. `part` makes those of four programs only.
#
# First the test is tested: pages with a planted fault each, of which every one must be found. Without Chromium all is skipped.
set -uo pipefail
programs=$(realpath "$1") part=${2:-}
script=$(realpath "$(dirname "$0")/pages.js")
gallery=$(realpath "$(dirname "$0")/../docs/gallery")
browser=
for name in chromium chromium-browser google-chrome; do
    if [[ ! $browser ]] && command -v $name >/dev/null; then browser=$name; fi
done
if [[ ! $browser ]]; then
    echo "skipped: no Chromium; on Debian as root: apt-get install chromium"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory" || exit 1
export OMP_WAIT_POLICY=passive

passed=0 failed=0
verdict()   # NAME CODE
{
    if [[ $2 == 0 ]]; then
        passed=$((passed + 1))
        echo "ok    $1"
    else
        failed=$((failed + 1))
        echo "FAIL  $1"
    fi
}

# ---- looking

# look SCHEME FILE...: what tests/pages.js says of the files in light or dark, at both widths, and what the console says,
# into the file seen
look()
{
    local scheme=$1 file wide preferred=1
    shift
    if [[ $scheme == dark ]]; then preferred=0; fi
    {
        echo '<!DOCTYPE html><meta charset="utf-8"><title>pages</title><body>'
        for file in "$@"; do
            for wide in 1280 375; do
                # as tall as no page is, so that no scroll bar takes a part of the width
                echo "<iframe name=\"$file $wide\" src=\"$file\" width=\"$wide\" height=\"40000\" style=\"border:0\"></iframe>"
            done
        done
        echo '<script>'
        cat "$script"
        echo '</script>'
    } >frames.html
    timeout -k 5 120 $browser --headless --no-sandbox --disable-gpu --allow-file-access-from-files \
        --user-data-dir="$directory/profile" \
        --blink-settings=preferredColorScheme=$preferred --enable-logging=stderr --dump-dom "file://$directory/frames.html" \
        >dom 2>console || true
    sed -nE 's/^(.*<pre>)?SEEN //p' dom | sed 's/<\/pre>.*//; s/&lt;/</g; s/&gt;/>/g; s/&amp;/\&/g' >seen
    sed -nE 's/.*CONSOLE:[0-9]+\] /wrong: console: /p' console >>seen
}

# The faults that were seen in a page, all of them if no page is named.
faults() { grep "^${1:-}.*wrong: " seen; }

# ---- the test itself: a page without a fault, and one with each

plain() { echo "<!DOCTYPE html><title>t</title><style>:root{color-scheme:light dark}$1</style><body>$2"; }
plot() { echo "<svg viewBox=\"0 0 480 100\" width=\"100%\" fill=\"#888888\" style=\"background:#000\">$1</svg>"; }
plain '' '<p>Fine.</p><div style="overflow-x:auto"><div style="width:2000px">a wide table</div></div>' >good.html
plain '' '<div style="width:600px">600 wide</div>' >wide.html
plain 'body{overflow-x:hidden}' '<div style="width:600px">cut</div>' >hidden.html
plain 'p{color:#999;background:#fff}' '<p>pale</p>' >pale.html
plain '' "$(plot '<text x="440" y="20">beyond the edge</text>')" >edge.html
plain '' "$(plot '<text x="50" y="20">one text</text><text x="60" y="24">another</text>')" >upon.html
plain '' "$(plot '<text x="50" y="20">t</text><path class="line" stroke="#222" d="M0 0h9"/>')" >line.html
plain '' '<script>throw new Error("planted")</script><p>x' >console.html
plain '' '' >empty.html
look light good.html wide.html hidden.html pale.html edge.html upon.html line.html console.html empty.html
! faults good.html >/dev/null && [[ $(grep -c '^good.html .*background rgb(255, 255, 255)' seen) == 2 ]]
verdict "a good page" $?
faults 'wide.html 375' | grep -q 'wide, the page is 375: <div> "600 wide"' && ! faults 'wide.html 1280' >/dev/null
verdict "planted: a page wider than the phone" $?
faults 'hidden.html 375' | grep -q 'cut off'
verdict "planted: content that is hidden at the edge" $?
faults pale.html | grep -q 'contrast 2.8 of "pale"'
verdict "planted: pale text" $?
faults edge.html | grep -q 'cut off at the edge of a picture: "beyond the edge"'
verdict "planted: text beyond its picture" $?
faults upon.html | grep -q 'one upon the other: "another", "one text"'
verdict "planted: text upon text" $?
faults line.html | grep -q 'of a line'
verdict "planted: a line that is hardly seen" $?
faults | grep -q 'console: .*planted'
verdict "planted: an error on the console" $?
faults empty.html | grep -q 'there is no text'
verdict "planted: nothing there" $?

# ---- pages of the programs

awk 'BEGIN { srand(1); for (u = 1; u <= 150; u++) for (i = 1; i <= 60; i++) if (rand() < 0.4)
         print u "\t" i "\t" 1 + int(5 * (0.5 * rand() + 0.25 + 0.25 * sin(u * 0.7 + i * 1.3))) }' >ratings.tsv
pages=()

# page NAME PROGRAM ARGS...: the program with --report NAME.html, and again: the page must be there, with all in it, and the same
# whatever the time; and --svg NAME.svg where `picture` is set
page()
{
    local name=$1 program=$2 picture=${picture:-}
    shift 2
    "$programs/$program" "$@" --report "$name.html" ${picture:+--svg "$name.svg"} --quiet && grep -q '</html>' "$name.html" &&
        ! grep -qE '(src|href)="?(https?:)?//|url\((https?:)?//|<link' "$name.html"
    verdict "$name: made, and needs no other file" $?
    pages+=("$name.html" ${picture:+"$name.svg"})
}

# same NAME PROGRAM ARGS...: a second run writes the same page
same()
{
    local name=$1 program=$2
    shift 2
    cp "$name.html" once.html
    "$programs/$program" "$@" --report "$name.html" ${picture:+--svg "$name.svg"} --quiet && cmp once.html "$name.html"
    verdict "$name: the same page again" $?
}

picture=1 page gradient_error gradient_error --dim 60
picture=1 page scaling scaling --length 3162 --side 64 --dims 108 --users 215
sensing=(--size 24 --count 4 --share 0.4 --steps 30)
picture=1 page compressed_sensing compressed_sensing "${sensing[@]}"
picture=1 same compressed_sensing compressed_sensing "${sensing[@]}"
rated=(--data ratings.tsv --factors 6 --recommend '1,2')
picture=1 page ratings ratings "${rated[@]}" --save films.model
picture=1 same ratings ratings "${rated[@]}" --save films.model
page ratings_loaded ratings --data ratings.tsv --load films.model --recommend all
head -n 8 ratings.tsv >few.tsv
page ratings_few ratings --data few.tsv --load films.model
page '<i>&amp;' gradient_error --dim 1
grep -q '&lt;i&gt;&amp;amp;.html' '<i>&amp;.html' && ! grep -q '<i>' '<i>&amp;.html'
verdict "names in a page are text" $?
mv '<i>&amp;.html' named.html
pages[-1]=named.html

# Names of columns are long, and are text; years are the times.
awk 'BEGIN { srand(3); print "year,<b>& a name that is longer than a phone is wide by far,x2,kind"
         for (t = 1; t <= 90; t++) {
             z = 0.8 * z + rand() - 0.5; x = rand()
             print 1900 + t "," (t % 11 ? 10 + z + 2 * x + 0.2 * rand() : "") "," x "," \
                   (t % 3 ? t % 3 == 1 ? "one" : "two & a half" : "three")
         } }' >table.csv
long='<b>& a name that is longer than a phone is wide by far'
if [[ ! $part ]]; then
    picture=1 page noisy_ar noisy_ar --data table.csv --time year --columns "$long" --order 2 --forecast 12
    picture=1 page state_space state_space --length 120 --series 2 --steps 20
    picture=1 page structural structural --data table.csv --columns "$long" --level --season 4 --forecast 8
    picture=1 page mixed mixed --simulate-rows 400 --simulate-levels 30,10
    picture=1 page field field --size 24 --missing 0.3
    picture=1 page factors factors --data table.csv --columns "$long,x2" --factors 1
    picture=1 page factors_made factors
    picture=1 page regress regress --data table.csv --response "$long" --categories kind
    picture=1 page regress_sparse regress --method sparse
    "$programs/demo" --quick --out . --quiet && grep -q '</html>' report.html
    verdict "demo: made" $?
    pages+=(report.html)
fi

# ---- pictures of the gallery, which stand alone

while IFS= read -r file; do
    cp "$file" "gallery_${file##*/}"
    pages+=("gallery_${file##*/}")
done < <(find "$gallery" -name '*.svg' 2>/dev/null | sort)

# ---- they are looked at

for scheme in light dark; do
    look $scheme "${pages[@]}"
    cp seen seen.$scheme
    for name in "${pages[@]}"; do
        ! faults "$name" && [[ $(grep -c "^$name .*background" seen) == 2 ]]
        verdict "$name, $scheme" $?
    done
    ! grep 'wrong: console' seen
    verdict "the console, $scheme" $?
done
diff <(grep background seen.light) <(grep background seen.dark) | grep -c '^[<>]' >differ || true
[[ $(<differ) == $((4 * ${#pages[@]})) ]] && ! grep -v 'background rgb(255, 255, 255)' seen.light && grep -q . seen.light
verdict "every page is light, and dark where that is wanted" $?

echo "$passed passed, $failed failed"
((failed == 0 && passed > 0))
