# install.sh - the command install: headers, pu.pc and what find_package reads, below PREFIX. Read by build.sh; needs no CMake.
# shellcheck shell=bash

# filled TEMPLATE OUTPUT: a template of this directory, with its @NAMES@ for the directories below
filled()
{
    sed -e "s|@PU_VERSION@|$VERSION|" -e 's|@PU_INCLUDE_FROM_CONFIG@|../../../include|' -e 's|@PU_PREFIX_FROM_PC@|../..|' \
        -e 's|@PU_INCLUDE_FROM_PC@|../../include|' "examples/cmake/$1" >"$2/${1%.in}" && chmod 644 "$2/${1%.in}"
}

cmd_install()
{
    local root=${DESTDIR:-}$PREFIX header
    [[ $PREFIX == /* ]] || die "PREFIX=$PREFIX: give an absolute path"
    [[ -f pu.h ]] || die "pu.h is missing"
    VERSION=$(sed -nE 's/^#[[:space:]]*define[[:space:]]+PU_VERSION[[:space:]]+"([^"]+)".*/\1/p' pu.h)
    [[ $VERSION ]] || die "pu.h has no PU_VERSION"
    install -d "$root/include" "$root/lib/pkgconfig" "$root/lib/cmake/pu" || die "cannot write below $root"
    for header in pu.h pu_cuda.cuh; do
        install -m 644 "$header" "$root/include/" && say "installed  $root/include/$header"
    done
    filled pu.pc.in "$root/lib/pkgconfig"
    filled puConfig.cmake.in "$root/lib/cmake/pu"
    filled puConfigVersion.cmake.in "$root/lib/cmake/pu"
    install -m 644 examples/cmake/puTargets.cmake "$root/lib/cmake/pu/"
    say "installed  $root/lib/pkgconfig/pu.pc and $root/lib/cmake/pu (version $VERSION)"
    if [[ -f build/lib/libpu.so ]]; then
        cp -P build/lib/libpu.* "$root/lib/" && say "installed  $root/lib/libpu.so and libpu.a"
    fi
}
