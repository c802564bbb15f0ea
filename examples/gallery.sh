# gallery.sh - the command gallery: pictures of all programs, and docs/gallery.md, which shows them. build.sh reads this file.
#
# A new program gets a line in gallery_list. The same pictures come out, to the byte, of the same machine and compiler, but for
# times (scaling) and for screenshots. Pictures are smaller than 60 KB; programs/pages of the tests looks at all of them.
# shellcheck shell=bash

GALLERY=docs/gallery

# gallery_list: calls `show` for each picture: NAME.svg or NAME.png, PROGRAM, what is to be seen in a sentence, how the program is told
# where the picture goes, and its other arguments.
gallery_list()
{
    section "Series"
    show noisy_ar.svg noisy_ar "A noisy autoregression with gaps: what was seen, the series behind it with its 95 % band, and the forecast." \
        --svg --series 1 --length 300 --missing 0.2 --forecast 30
    show structural.svg structural "A series taken apart: data and forecast on top, then the level and the season that it is made of." \
        --svg --level --season 12 --forecast 24
    show state_space.svg state_space "A linear state space model whose matrices were found from the data: its series with the 95 % band of observations." \
        --svg --series 1 --length 300
    section "Images and fields"
    show compressed_sensing.png compressed_sensing "Truth, zero-filled inverse transform, reconstruction and its standard deviation, of images \
of which 15 % of the frequencies were measured." --picture --size 48
    show sensing.svg compressed_sensing "The error of such images while the model finds out which pixels are paper." --svg --size 48
    show field.svg field "A field with noise and gaps, the same field filled in, and how sure that is." --svg --size 64
    section "Tables"
    show mixed.svg mixed "Mixed effects: the largest effects of each group with their 95 % intervals." --svg
    show ratings.svg ratings "Ratings: the learning curve, and errors of predictions against the standard deviations that they came with." \
        --svg --data made_up.tsv --factors 8
    show factors.svg factors "Factor analysis of a table with gaps: which columns load on which factor." --svg
    section "Curves"
    show regress.svg regress "Bayesian regression on bumps: the band is wide where there are no points." --svg
    show regress_sparse.svg regress "Sparse regression of the same points: bumps that are of no use are switched off." --svg --method sparse
    show regress_neural.svg regress "A neural linear model of several such curves, its features learnt." --svg --method neural
    section "The method"
    show gradient_error.svg gradient_error "Error of the gradient against steps of the solver: the network gradient (solid) falls nearly twice as \
fast as the output gradient (dashed)." --svg
    show scaling.svg scaling "Time of one gradient against the size of the problem, iterative and exact; points are medians, bars reach from the \
fastest to the slowest run." --svg --threads 1
}

# Ratings that are made up: 600 users, 120 items, three tastes, whole stars.
gallery_ratings()
{
    awk 'function normal() { return sqrt(-2 * log(1 - rand())) * cos(6.283185307 * rand()) }
         BEGIN { srand(7)
             for (i = 1; i <= 120; i++) { middle[i] = 3.3 + 0.5 * normal(); for (k = 0; k < 3; k++) taste[i, k] = 0.45 * normal() }
             for (u = 1; u <= 600; u++) {
                 for (k = 0; k < 3; k++) z[k] = normal()
                 for (i = 1; i <= 120; i++) {
                     y = middle[i] + z[0] * taste[i, 0] + z[1] * taste[i, 1] + z[2] * taste[i, 2] + 0.7 * normal()
                     y = int(y + 0.5)
                     if (rand() < 0.4) print u "\t" i "\t" (y < 1 ? 1 : y > 5 ? 5 : y)
                 }
             } }'
}

# Makes one picture and writes its part of the page. A program that fails leaves the picture that was there.
gallery_show()  # FILE PROGRAM SENTENCE HOW ARGS...
{
    local file=$1 program=$2 sentence=$3 how=$4 new
    shift 4
    new=build/gallery/$file
    say "drawing    $GALLERY/$file" >&2
    (cd build/gallery && ../examples/"$program" "$how" "$file" --quiet "$@") >&2 || die "$program could not draw $file"
    [[ $(wc -c <"$new") -lt 60000 ]] || die "$file is larger than 60 KB"
    cp "$new" "$GALLERY/$file"
    printf '\n<img src="gallery/%s" width="560" alt="%s">\n\n%s\n\n    %s %s %s%s\n' "$file" "$sentence" "$sentence" "$program" "$how" \
        "$file" "${*:+ $*}"
}

gallery_page()
{
    section() { printf '\n## %s\n' "$1"; }
    show() { gallery_show "$@"; }
    echo "# Gallery"
    echo
    echo "Pictures that the programs in examples/ draw of data they make up, each with the command that made it (programs are in"
    echo "build/examples/ after \`./build.sh examples\`). \`./build.sh gallery\` makes them and this page again. They are light or dark as the"
    echo "reader's device is. \`--report FILE.html\` of the same programs writes a page with the pictures, tables and what follows from them."
    echo "The file made_up.tsv is made by gallery_ratings in examples/gallery.sh."
    gallery_list
}

# gallery_shot FILE SCHEME WIDTH HEIGHT HEADING: the demo's page in two columns of a width, the second one from a heading on
gallery_shot()
{
    local preferred=1 code=0
    if [[ $2 == dark ]]; then preferred=0; fi
    cat >build/gallery/shot.html <<END
<!DOCTYPE html><meta charset="utf-8"><body style="margin:0;background:#888;display:flex;gap:12px">
<iframe src="../demo/report.html" width="$3" height="$4" style="border:0"></iframe>
<iframe src="../demo/report.html" width="$3" height="$4" style="border:0"></iframe>
<script>
onload = () => {
    const page = frames[1].document;
    for (const heading of page.querySelectorAll("h2"))
        if (heading.textContent.startsWith("$5")) frames[1].scrollTo(0, heading.offsetTop - 16);
};
</script>
END
    chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --allow-file-access-from-files \
        --user-data-dir="$PWD/build/gallery/profile" --blink-settings=preferredColorScheme=$preferred \
        --window-size=$((2 * $3 + 12)),"$4" --screenshot="$PWD/build/gallery/$1" "file://$PWD/build/gallery/shot.html" \
        >build/gallery/shot.log 2>&1 || code=$?
    [[ $code == 0 && -s build/gallery/$1 ]] || die "chromium made no picture, see build/gallery/shot.log"
    cp "build/gallery/$1" "docs/$1"
    say "drawing    docs/$1"
}

# What the README shows of the demo. Times are on it, so that it is not made again with the pictures.
gallery_screenshots()
{
    have chromium || die "screenshots need Chromium; on Debian as root: apt-get install chromium"
    cmd_demo --quiet
    mkdir -p build/gallery
    gallery_shot report.png light 640 960 "2."
    gallery_shot report_dark_phone.png dark 375 1040 "2."
}

cmd_gallery()
{
    if [[ $* == screenshots ]]; then
        gallery_screenshots
        return
    fi
    [[ $# == 0 ]] || die "gallery takes no argument but screenshots"
    find_tools
    sources_of examples
    compile_programs build/examples "${SOURCES[@]}" || die "an example does not compile"
    rm -rf build/gallery
    mkdir -p build/gallery "$GALLERY"
    gallery_ratings >build/gallery/made_up.tsv
    gallery_page >build/gallery/gallery.md
    cp build/gallery/gallery.md docs/gallery.md
}
