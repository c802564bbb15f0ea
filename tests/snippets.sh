#!/usr/bin/env bash
# snippets.sh DIRECTORY COMPILER... - every piece of C in README.md, docs/manual.md and the head of pu.h is compiled, by this
# compiler with these flags, and run; pieces for a GPU are only compiled, by g++. DIRECTORY gets what is made on the way.
# To be run at the top of the tree.
#
# A piece is an indented block that looks like C. It goes to a file with the name of the heading above it. Those of the manual
# are included by tests/compile/snippets.c, each where it belongs, which calls what they define: a piece that it does not
# include fails here. What stands in a line `between quotes;` and ends with a semicolon are statements about `o`
# (pu_fit_options) and `options` (pu_options).
set -uo pipefail
directory=$1
shift
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
"$directory/head" | grep -q "^d NLL / d Phi\[0\] = "
verdict "head runs" $?

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

for document in README.md docs/manual.md docs/cuda.md docs/design.md docs/contributing.md tests/README.md; do
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
