#!/usr/bin/env bash
# size.sh COMPILER... - what the library costs in bytes of code and seconds of the compiler, whole and with storeys left out: the
# tables of docs/size.md, as Markdown on stdout. `./build.sh bench size` calls it with the C compiler; Cortex-M4 where
# arm-none-eabi-gcc is. Code is the column `text` of size(1) of one object: instructions and constants, before it is linked.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export LC_ALL=C
TIMEFORMAT=%U
compiler=("$@" -std=c99)
arm=(arm-none-eabi-gcc -std=c99 -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16)
object=build/bench/size.o
mkdir -p build/bench
if [[ ! $(command -v "${arm[0]}") ]]; then arm=(); fi

# switches WORDS: -DPU_NO_WORD for each
switches()
{
    local word
    for word in $1; do printf -- '-DPU_NO_%s ' "$word"; done
}

# text COMMAND...: kilobytes of code of what it compiles, to one decimal; - where there is no such compiler
text()
{
    if [[ ${1:-} == -* || $# == 0 ]]; then echo -; return; fi
    "$@" -I. -o $object -c
    size $object | awk 'NR == 2 { printf "%.1f\n", $1 / 1000 }'
}

# in_words SWITCHES
in_words() { if [[ $1 ]]; then sed 's/[A-Z]*/`PU_NO_&`/g; s/` `/`, `/g' <<<"$1"; else echo nothing; fi; }

# program NUMBER NAME SWITCHES...: a row for each set of switches
program()
{
    local number=$1 name=$2 set flags column row
    shift 2
    for set in "$@"; do
        read -ra flags <<<"$(switches "$set") -DPROGRAM=$number -DPU_STATIC -DPU_NO_STDIO -DPU_NO_OPENMP"
        row="| $name | $(in_words "$set") |"
        for column in -Os -O2; do row+=" $(text "${compiler[@]}" $column "${flags[@]}" tests/bench/size.c) |"; done
        for column in -UPU_FLOAT -DPU_FLOAT; do row+=" $(text "${arm[@]}" -Os $column "${flags[@]}" tests/bench/size.c) |"; done
        echo "$row"
        name=
    done
}

# library SWITCHES: a row about all that is public
library()
{
    local flags seconds
    read -ra flags <<<"$(switches "$1")"
    seconds=$({ time "${compiler[@]}" -O2 "${flags[@]}" -I. -c tests/compile/impl.c -o $object; } 2>&1)
    echo "| $(in_words "$1") | $(size $object | awk 'NR == 2 { printf "%.0f", $1 / 1000 }') | ${seconds%.*} |"
}

echo "$("${compiler[@]}" --version | head -n 1)${arm[0]:+; $("${arm[@]}" --version | head -n 1)}. Kilobytes of 1,000 bytes."
echo
echo "| program (\`PU_STATIC\`) | left out | x86-64 -Os | x86-64 -O2 | Cortex-M4 -Os | and \`PU_FLOAT\` |"
echo "|---|---|--:|--:|--:|--:|"
program 1 "linear system: \`pu_op_spd\`, \`pu_solve\`" "" "FOURIER" "SERIES FOURIER"
program 2 "gradient of factors" "" "FOURIER" "SERIES" "EXACT" "SERIES FOURIER EXACT"
program 3 "gradient of an autoregression" "" "FOURIER EXACT"
program 4 "fit of a noisy autoregression" "" "FOURIER" "FOURIER EXACT"
echo
echo "| left out of the whole library, an object of its own | x86-64 -O2 | seconds of the compiler |"
echo "|---|--:|--:|"
for set in "" SERIES FOURIER EXACT MODELS FIT FLAT "SERIES FOURIER EXACT" "SERIES FOURIER EXACT MODELS"; do library "$set"; done
