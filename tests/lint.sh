#!/usr/bin/env bash
# lint.sh [STACK_USAGE_FILES...] - how pu.h is written, measured: one line per violation, `file:line: rule: what`, and
# "N passed, N failed" (rules) at the end. A mirror for those who change the file: where a rule would make the code worse, a
# comment with `lint: ` and the reason, on the line itself or right above it (a function's head comment, a storey's
# banner), grants an exception. Arguments: files of gcc -fstack-usage; without any, pu.h is compiled here for them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C

RULES=(tables order storey function parameters density comments head version stack build pu_op comparisons tokens)

program=$(cat <<'AWK'
function report(rule, file, line, what) { printf "%s %s:%d: %s: %s\n", rule, file, line, rule, what }

# The >>tags in a text, each after a space.
function tags(text,    list) {
    while (match(text, />>[a-z]+/)) {
        list = list " " substr(text, RSTART + 2, RLENGTH - 2)
        text = substr(text, RSTART + RLENGTH)
    }
    return list
}

# A line without its comments; in_comment lives from line to line.
function strip(line,    out, at) {
    for (; line != ""; line = substr(line, at + 2)) {
        at = index(line, in_comment ? "*/" : "/*")
        if (!in_comment) out = out (at ? substr(line, 1, at - 1) : line)
        if (!at) break
        in_comment = !in_comment
    }
    sub(/\/\/.*/, "", out)
    return out
}

# Tokens of a line: names, numbers, strings, characters, operators.
function tokens(line) {
    gsub(/"([^"\\]|\\.)*"|'([^'\\]|\\.)*'/, " s ", line)
    return gsub(/[A-Za-z_][A-Za-z0-9_]*|[0-9][A-Za-z0-9_.]*|[-+*\/%&|^<>=!]=|->|<<|>>|&&|[|][|]|[+][+]|--|[^ \tA-Za-z0-9_]/,
                "x", line)
}

# How many parameters a signature has: commas between its outer brackets, and one.
function parameters(text,    i, c, nested, n) {
    match(text, /pu_[a-z0-9_]*[ ]*\(/)
    for (i = RSTART + RLENGTH; i <= length(text); i++) {
        c = substr(text, i, 1)
        if (c == "(") nested++
        if (c == ")" && nested-- == 0) break
        if (c == "," && nested == 0) n++
    }
    return n + 1
}

function end_storey(line) {
    if (storey != "" && line - storey_line > 1300 && !storey_exempt)
        report("storey", "pu.h", storey_line, ">>" storey " has " line - storey_line " lines, at most 1300")
    storey = ""
}

# A signature is complete: a prototype, or a definition that begins here.
function end_signature(text, is_definition) {
    name = text
    sub(/[ ]*\(.*/, "", name)
    sub(/.*[ *]/, "", name)
    if (!is_definition && text ~ /^PU__FN/) { declared[name] = storey; declared_line[name] = sig_line }
    if (!is_definition) return
    if (name in declared && declared[name] != storey && !sig_exempt)
        report("order", "pu.h", declared_line[name], name " is declared in >>" declared[name] " and defined in >>" storey)
    if (parameters(text) > 8 && !sig_exempt)
        report("parameters", "pu.h", sig_line, name " has " parameters(text) " parameters, at most 8")
    if (text ~ /^PU__FN/ && !sig_commented && !sig_exempt)
        report("head", "pu.h", sig_line, name " has no head comment right above it")
    body = name
    body_line = FNR
    nested = 0
}

FILENAME == "pu.h" {
    raw = $0
    line = strip(raw)
    is_comment = raw !~ /^[ \t]*$/ && line ~ /^[ \t]*$/
    says_lint = raw ~ /lint: /
    if (is_comment) above_lint = (above == "comment" && above_lint) || says_lint
    if (FNR == 1 && match(raw, /v[0-9]+[.][0-9.]*[0-9]/)) version_head = substr(raw, RSTART + 1, RLENGTH - 1)
    if (raw ~ /^#define PU_VERSION /) { split(raw, part, "\""); version = part[2]; version_line = FNR }
    if (raw ~ /^CONTENTS/) { in_contents = 1; contents_line = FNR }
    if (raw ~ /^$/) in_contents = 0
    if (in_contents) contents = contents tags(raw)

    if (before ~ /^\/\* ---/ && raw ~ /^ *>>[a-z]+/) {
        end_storey(FNR - 1)
        storey = substr(tags(raw), 2)
        sub(/ .*/, "", storey)
        storey_line = FNR - 1
        storey_exempt = says_lint
        banners = banners " " storey
    }
    if (raw ~ /^#endif \/\* PU_IMPLEMENTATION_ONCE/) end_storey(FNR)
    before = raw

    if (raw ~ /^struct pu_op \{/) { in_op = 1; op_line = FNR }
    if (raw ~ /^\};/) in_op = 0
    if (in_op) pointers += gsub(/\(\*[A-Za-z_0-9]+\)/, "&", raw)

    if (raw ~ /^#ifdef PU_IMPLEMENTATION/) in_body = 1
    if (in_body) {
        all_lines++
        comment_lines += is_comment
        n = tokens(line)
        all_tokens += n
        is_directive = continued || line ~ /^[ \t]*#/
        continued = is_directive && line ~ /\\$/
        if (line ~ /->[ ]*[A-Za-z_0-9]+[ ]*[!=]=[ ]*pu__/ && !says_lint && !above_lint)
            report("comparisons", "pu.h", FNR, "a comparison of function pointers")
        if (!is_directive && !in_signature && line ~ /^(PU__FN|PU_DEF|static) .*\(/) {
            in_signature = 1
            text = ""
            sig_line = FNR
            sig_commented = above == "comment"
            sig_exempt = says_lint || (sig_commented && above_lint)
        }
        if (in_signature) {
            text = text (text == "" ? "" : " ") line
            exempt_line[FNR] = sig_exempt
            if (line ~ /[{;]/) {
                if (text !~ /^[^({]*=/) end_signature(text, text ~ /^[^;{]*\)[ ]*\{/)
                in_signature = 0
            }
        }
        braces = gsub(/\{/, "{", line) - gsub(/\}/, "}", line)
        nested += braces
        if (body != "" && nested == 0) {
            if (FNR - body_line >= 80 && !sig_exempt)
                report("function", "pu.h", sig_line, body " has " FNR - body_line + 1 " lines, at most 80")
            body = ""
        }
        if (line !~ /^[ \t]*#/) {
            if (depth > 0 && storey != "kernel" && line !~ /^[ \t]*[{}]?[ \t]*$/) { body_lines++; body_tokens += n }
            depth += braces
        }
    }
    if (is_comment) above = "comment"
    else if (line !~ /^[ \t]*#/) { above = "code"; above_lint = 0 }
}

FILENAME == "docs/design.md" && /^\| `>>/ {
    split($0, cell, "|")
    design = design tags(cell[2])
    if (!design_line) design_line = FNR
}

FILENAME == "CHANGELOG.md" && !version_log && /^#/ && match($0, /[0-9]+[.][0-9]+[.][0-9]+/) {
    version_log = substr($0, RSTART, RLENGTH)
    if (version_log != version) report("version", FILENAME, FNR, version_log ", where PU_VERSION is " version)
}

FILENAME == "CMakeLists.txt" && /VERSION +[0-9]+[.][0-9]+[.][0-9]+/ && !/cmake_minimum_required/ {
    report("version", FILENAME, FNR, "a number of its own; it should be read from pu.h")
}

FILENAME == "build.sh" && FNR == 401 { report("build", FILENAME, FNR, "more than 400 lines") }
FILENAME ~ /[.]sh$/ && length($0) >= 130 && !/lint: / { report("build", FILENAME, FNR, "a line of 130 characters or more") }

# path:line:column:function <tab> bytes <tab> kind
FILENAME ~ /[.]su$/ {
    n = split($1, part, ":")
    if ($2 + 0 > 8192 && !exempt_line[part[n - 2]])
        report("stack", "pu.h", part[n - 2], part[n] " has a frame of " $2 " bytes, at most 8192 (" FILENAME ")")
}

END {
    if (banners != contents) report("tables", "pu.h", contents_line, "contents:" contents "; banners:" banners)
    if (banners != design) report("tables", "docs/design.md", design_line, "table:" design "; banners of pu.h:" banners)
    if (version_head != version) report("version", "pu.h", 1, version_head ", where PU_VERSION is " version)
    if (pointers > 18) report("pu_op", "pu.h", op_line, "struct pu_op has " pointers " function pointers, at most 18")
    mean = body_tokens / (body_lines + !body_lines)
    share = 100 * comment_lines / (all_lines + !all_lines)
    if (mean > 13.05) report("density", "pu.h", 1, sprintf("%.2f tokens per line outside >>kernel, at most 13", mean))
    if (share < 10) report("comments", "pu.h", 1, sprintf("%.2f %% of the lines are comments, at least 10", share))
    if (all_tokens > 305000) report("tokens", "pu.h", 1, all_tokens " tokens in the implementation, at most 305000")
    printf "# %.1f tokens per line outside >>kernel, %d tokens, %.1f %% comment lines, pu_op %d functions\n", \
        mean, all_tokens, share, pointers
}
AWK
)

# Frames, in double and float, where the compiler tells them.
stack=("$@")
if [[ ${#stack[@]} == 0 ]]; then
    rm -rf build/lint
    mkdir -p build/lint
    for precision in DOUBLE FLOAT; do
        # shellcheck disable=SC2086  # words
        ${CC:-gcc} -std=c99 -O2 -fstack-usage -DPU_$precision -I. -c tests/compile/impl.c -o build/lint/$precision.o || true
        if [[ -f build/lint/$precision.su ]]; then stack+=("build/lint/$precision.su"); fi
    done
fi

files=(pu.h docs/design.md build.sh .ci/run)
for file in CHANGELOG.md CMakeLists.txt tests/*.sh tests/*/*.sh; do
    if [[ -f $file ]]; then files+=("$file"); fi
done
found=$(awk "$program" "${files[@]}" "${stack[@]}")
sed -n 's/^# //p' <<<"$found"

passed=0 failed=0 skipped=''
for rule in "${RULES[@]}"; do
    lines=$(sed -n "s/^$rule //p" <<<"$found")
    count=$(grep -c . <<<"$lines" || true)
    if [[ $rule == stack && ${#stack[@]} == 0 ]]; then
        echo "skipped: stack: the compiler does not tell the size of frames"
        skipped=", 1 skipped"
    elif ((count == 0)); then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$lines"
    fi
done
echo "$passed passed, $failed failed$skipped"
((failed == 0))
