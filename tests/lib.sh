# lib.sh - the command lib: libpu.so and libpu.a with double and float in one library. build.sh reads this file.
# shellcheck shell=bash

# Makes build/lib/. Symbols other than pu_ and puf_ stay inside; the soname has PU_ABI, so that a program never meets a library
# of another layout. For any machine of this kind; CFLAGS may add -march=native.
cmd_lib()
{
    local abi flags precision
    find_tools
    abi=$(sed -nE 's/^#define PU_ABI ([0-9]+).*/\1/p' pu.h)
    [[ $abi ]] || die "pu.h has no PU_ABI"
    mkdir -p build/lib
    flags=(-std=c99 -D_POSIX_C_SOURCE=200809L -O3 -fPIC -fno-math-errno "${OMP[@]}" -Wall -Wextra -I. "${EXTRA_FLAGS[@]}")
    printf '{ global: pu_*; puf_*; local: *; };\n' >build/lib/pu.map
    lib_object() { build_once "build/lib/$1.o" pu.h "${CC_CMD[@]}" "${@:2}" -c tests/compile/impl.c -o "build/lib/$1.o"; }
    for precision in double float; do
        if [[ $precision == float ]]; then flags+=(-DPU_FLOAT); fi
        lib_object "$precision" "${flags[@]}" || die "the library does not compile"
    done
    rm -f build/lib/libpu.a
    ar rcs build/lib/libpu.a build/lib/double.o build/lib/float.o || die "no libpu.a"
    "${CC_CMD[@]}" -shared "${OMP[@]}" -Wl,-soname,"libpu.so.$abi" -Wl,--version-script=build/lib/pu.map build/lib/double.o \
        build/lib/float.o -o "build/lib/libpu.so.$abi" -lm "${EXTRA_FLAGS[@]}" || die "no libpu.so"
    ln -sf "libpu.so.$abi" build/lib/libpu.so
    say "built      build/lib/libpu.so.$abi, build/lib/libpu.a"
}
