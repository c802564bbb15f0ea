#!/usr/bin/env bash
# snippets.sh DIRECTORY PROGRAMS COMPILER... - every piece of C in README.md, docs/manual.md and the head of pu.h is compiled, by
# this compiler with these flags, and run; pieces for a GPU are only compiled, by g++. What docs/tutorial.md says to type is
# typed, with the programs in the directory PROGRAMS. DIRECTORY gets what is made on the way. To be run at the top of the tree.
#
# A piece is an indented block that looks like C. It goes to a file with the name of the heading above it. Those of the manual
# are included by tests/compile/snippets.c, each where it belongs, which calls what they define: a piece that it does not
# include fails here. What stands in a line `between quotes;` and ends with a semicolon are statements about `o`
# (pu_fit_options) and `options` (pu_options).
set -uo pipefail
directory=$1
programs=$(cd "$2" && pwd) || exit 2
shift 2
compile=("$@")
passed=0 failed=0 skipped=0
rm -rf "$directory"
mkdir -p "$directory"

# verdict NAME CODE: 0 has passed
verdict()
{
    if [[ $2 == 0 ]]; then passed=$((passed + 1)) && echo "ok    $1"; else failed=$((failed + 1)) && echo "FAIL  $1"; fi
}

# pieces FILE PREFIX: writes DIRECTORY/PREFIX_HEADING.h, or PREFIX_HEADING_2.h and so on, for every block, and
# DIRECTORY/PREFIX_inline.h
pieces()
{
    awk -v prefix="$directory/$2" '
        function close_block(    name) {
            if (is_c) {
                name = prefix "_" slug
                if (++count[slug] > 1) name = name "_" count[slug]
                printf "%s", block > (name ".h")
                close(name ".h")
            }
            block = ""; is_c = 0
        }
        /^#+ / {
            close_block()
            slug = tolower($0)
            gsub(/^#+ +|[^a-z0-9 ]/, "", slug)
            gsub(/ +/, "_", slug)
            next
        }
        /^    / || (/^$/ && block != "") {
            if ($0 ~ /^    (#define|#include|static |int |if \(|pu_[a-z_]+ )/) is_c = 1
            block = block $0 "\n"
            next
        }
        {
            close_block()
            line = $0
            while (match(line, /`[^`]*;`/)) {
                print "{ " substr(line, RSTART + 1, RLENGTH - 2) " }" > (prefix "_inline.h")
                line = substr(line, RSTART + RLENGTH)
            }
        }
        END { close_block() }' "$1"
}

pieces README.md README
pieces docs/manual.md manual
pieces docs/cuda.md cuda

# program NAME SOURCE: compiled as it stands
program()
{
    "${compile[@]}" "-I$directory" -x c "$2" -o "$directory/$1" -lm
    verdict "$1 compiles" $?
}

# ---- README: its program prints what it says, numbers to four digits

program readme "$directory/README_a_first_program.h"
"$directory/readme" >"$directory/readme.out"
verdict "readme runs" $?
awk '/^prints$/ { on = 1; next } on && /^    / { print substr($0, 5) } on && /^[^ ]/ { exit }' README.md \
    >"$directory/readme.said"
awk 'NR == FNR { said[FNR] = $0; lines = FNR; next }
     { n = split($0, a, /[ ,]+/); if (split(said[FNR], b, /[ ,]+/) != n) bad = 1
       for (i = 1; i <= n; i++) if (a[i] != b[i] && !(a[i] + 0 != 0 && (a[i] / b[i] - 1) ^ 2 < 1e-8)) bad = 1 }
     END { exit bad || FNR != lines }' "$directory/readme.said" "$directory/readme.out"
verdict "readme prints what it says" $?

# ---- the head of pu.h

awk '/^EXAMPLE/ { on = 1; next } on && /^[A-Z]/ { exit } on { sub(/^        /, ""); print }' pu.h >"$directory/head.h"
program head "$directory/head.h"
"$directory/head" >"$directory/head.out"
verdict "head runs" $?
grep -c '^person [0-9], column [0-9]: [0-9.]* +- [0-9.]*$' "$directory/head.out" | grep -qx 3
verdict "head fills three gaps" $?
# examples/first.c is the same program: comments and space apart
plain() { "${compile[0]}" -fpreprocessed -dD -E -P -x c "$1" | tr -d ' \t\n'; }
plain "$directory/head.h" >"$directory/head.plain"
plain examples/first.c >"$directory/first.plain"
[[ -s $directory/head.plain ]] && cmp -s "$directory/head.plain" "$directory/first.plain"
verdict "the head of pu.h and examples/first.c are the same program" $?

# ---- the manual

for piece in "$directory"/manual_*.h; do
    name=${piece##*/}
    [[ $name == manual_a_gpu.h ]] && continue # below
    grep -qF "\"$name\"" tests/compile/snippets.c
    verdict "$name is among those that run" $?
done
program manual tests/compile/snippets.c
"$directory/manual"
verdict "what the manual has runs" $?

# ---- the tutorial: its blocks between ```sh and ``` are typed, one after the other, in a directory that looks like a
# fresh clone. What a block prints is compared with the block between ```text and ``` that follows it;
# without one it must print nothing.

# as_said SAID PRINTED: true where they are the same, numbers up to one unit of their last digit that is said. `...` in SAID
# stands for any lines, or for the rest of its line.
as_said()
{
    awk '
        # The unit of the last digit of a number in words such as 1.23e-05
        function unit(word,    mantissa, exponent) {
            mantissa = word
            exponent = 0
            if (match(word, /[eE]/)) {
                mantissa = substr(word, 1, RSTART - 1)
                exponent = substr(word, RSTART + 1) + 0
            }
            if (match(mantissa, /[.]/)) exponent -= length(mantissa) - RSTART
            return 10 ^ exponent
        }
        function is_number(word) { return word ~ /^[-+]?[0-9]+([.][0-9]+)?([eE][-+]?[0-9]+)?$/ }
        # Integers are counts: they are to be equal
        function same_word(a, b) {
            sub(/[,:;)]+$/, "", a)
            sub(/[,:;)]+$/, "", b)
            if (a == b) return 1
            if (!is_number(a) || !is_number(b) || a !~ /[.eE]/) return 0
            return a - b <= 1.01 * unit(a) && b - a <= 1.01 * unit(a)
        }
        function same_line(a, b,    i, n, said_word, word) {
            n = split(a, said_word)
            if (split(b, word) != n && said_word[n] != "...") return 0
            for (i = 1; i <= n; i++) {
                if (said_word[i] == "...") return 1
                if (!same_word(said_word[i], word[i])) return 0
            }
            return 1
        }
        NR == FNR { said[++lines] = $0; next }
        { printed[++count] = $0 }
        END {
            at = 1
            for (i = 1; i <= lines; i++) {
                if (said[i] == "...") { any = 1; continue }
                while (any && at <= count && !same_line(said[i], printed[at])) at++
                if (at > count || !same_line(said[i], printed[at])) {
                    print "said:    " said[i] "\nprinted: " printed[at]
                    exit 1
                }
                at++
                any = 0
            }
            exit !any && at <= count
        }' "$1" "$2"
}

clone=$directory/clone
mkdir -p "$clone/build" "$clone/bin"
cp pu.h "$clone/"
ln -s "$programs" "$clone/build/examples"
# The programs are there already; cc is the compiler that is tested, with its strict flags, and without the time of -O2.
cat >"$clone/build.sh" <<'BUILD'
#!/usr/bin/env bash
[[ $1 == examples ]] || exit 2
for name in "${@:2}"; do
    [[ -x build/examples/$name ]] || exit 1
    echo "built      build/examples/$name"
done
BUILD
{
    printf '#!/usr/bin/env bash\nexec'
    printf ' %q' "${compile[@]}"
    printf ' "$@" -O0\n'
} >"$clone/bin/cc"
chmod +x "$clone/build.sh" "$clone/bin/cc"
awk -v prefix="$directory/tutorial" '
    /^```sh$/ { file = sprintf("%s_%02d.sh", prefix, ++count); next }
    /^```text$/ { file = sprintf("%s_%02d.said", prefix, count); next }
    /^```$/ { file = ""; next }
    file != "" { print > file }' docs/tutorial.md
for piece in "$directory"/tutorial_*.sh; do
    name=${piece##*/}
    name=${name%.sh}
    touch "$directory/$name.said"
    (cd "$clone" && PATH=$PWD/bin:$PATH bash -e "$OLDPWD/$piece") >"$directory/$name.out"
    verdict "$name runs" $?
    as_said "$directory/$name.said" "$directory/$name.out"
    verdict "$name prints what it says" $?
done
# The comparison itself: another digit, a line more and a line less are found.
printf 'NLL 1.234 of 5\n...\nend\n' >"$directory/planted.said"
for planted in 'NLL 1.2344 of 5\nx\nend:0' 'NLL 1.237 of 5\nend:1' 'NLL 1.234 of 6\nend:1' 'NLL 1.234 of 5\nend\nmore:1' \
               'NLL 1.234 of 5:1'; do
    printf '%b\n' "${planted%:*}" >"$directory/planted.out"
    as_said "$directory/planted.said" "$directory/planted.out" >/dev/null
    [[ $? == "${planted##*:}" ]]
    verdict "comparison of ${planted%:*}" $?
done

# ---- a GPU: the manual's function, and the lines of docs/cuda.md, whose dots stand for the work

if command -v g++ >/dev/null; then
    {
        printf '#define PU_CUDA\n'
        grep -v PU_IMPLEMENTATION "$directory/manual_manual_task_by_task.h"
        cat "$directory/manual_a_gpu.h"
        printf 'int used(pu_model *m, const pu_data *d, pu_fit_options o, pu_real *t)\n'
        printf '{\n    return fit_on_device(m, d, o, t);\n}\n'
        printf 'int lines(pu_options options)\n{\n    pu_report report;\n    char text[400];\n'
        grep -vE '^ *(#|\.\.\.|nvcc)' "$directory/cuda_cuda.h"
        printf '    return options.backend != NULL;\n}\n'
    } >"$directory/gpu.cpp"
    g++ -std=c++11 -Wall -Wextra -I. -fsyntax-only "$directory/gpu.cpp"
    verdict "what is for a GPU compiles" $?
else
    skipped=1
    echo "skip  what is for a GPU: no g++"
fi

# ---- names: what the documents call by name is there

for document in README.md docs/manual.md docs/tutorial.md docs/cuda.md docs/design.md docs/contributing.md tests/README.md; do
    missing=$(grep -ohE '\b(pu_?_[a-z][a-zA-Z0-9_]+|PU_[A-Z][A-Z0-9_]*)\b' "$document" | sort -u |
        while read -r name; do
            [[ $name == *_ ]] && continue # the beginning of several names
            grep -rqwF -- "$name" pu.h pu_cuda.cuh build.sh CMakeLists.txt tests examples || echo "$name"
        done)
    [[ -z $missing ]]
    verdict "names in $document ${missing//$'\n'/, }" $?
done

if ((skipped)); then echo "$passed passed, $failed failed, $skipped skipped"; else echo "$passed passed, $failed failed"; fi
((failed == 0 && passed > 0))
