# lib.sh - the command lib: libpu.so and libpu.a with double and float in one library. build.sh and tests/jobs.sh read this file.
# shellcheck shell=bash

# lib_link DIRECTORY DOUBLE FLOAT: both libraries of two objects, in DIRECTORY. Symbols other than pu_ and puf_ stay inside; the
# soname has PU_ABI, so that a program never meets a library of another layout.
lib_link()
{
    local abi name=$1/libpu
    abi=$(sed -nE 's/^#define PU_ABI ([0-9]+).*/\1/p' pu.h)
    [[ $abi ]] || die "pu.h has no PU_ABI"
    printf '{ global: pu_*; puf_*; local: *; };\n' >"$1/pu.map"
    rm -f "$name".*
    ar rcs "$name.a" "$2" "$3" &&
        "${CC_CMD[@]}" -shared "${OMP[@]}" "-Wl,-soname,libpu.so.$abi,--version-script=$1/pu.map,--no-undefined" "$2" "$3" \
            -o "$name.so.$abi" -lm "${EXTRA_FLAGS[@]}" &&
        ln -s "libpu.so.$abi" "$name.so"
}

# Makes build/lib/, for any machine of this kind; CFLAGS may add -march=native.
cmd_lib()
{
    local flags precision
    find_tools
    mkdir -p build/lib
    flags=(-std=c99 -D_POSIX_C_SOURCE=200809L -O3 -fPIC -fno-math-errno "${OMP[@]}" -Wall -Wextra -I. "${EXTRA_FLAGS[@]}")
    lib_object() { build_once "build/lib/$1.o" pu.h "${CC_CMD[@]}" "${@:2}" -c tests/compile/impl.c -o "build/lib/$1.o"; }
    for precision in double float; do
        if [[ $precision == float ]]; then flags+=(-DPU_FLOAT); fi
        lib_object "$precision" "${flags[@]}" || die "the library does not compile"
    done
    lib_link build/lib build/lib/double.o build/lib/float.o || die "no libpu.so or libpu.a"
    say "built      build/lib/$(readlink build/lib/libpu.so), build/lib/libpu.a"
}
