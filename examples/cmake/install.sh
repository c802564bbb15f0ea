# install.sh - the commands install (headers, pu.pc, what find_package reads and the library, if made, below PREFIX) and uninstall.
# Read by build.sh; needs no CMake.
# shellcheck shell=bash

# filled TEMPLATE OUTPUT: a template of this directory, with its @NAMES@ for the directories below
filled()
{
    sed -e "s|@PU_VERSION@|$VERSION|" -e 's|@PU_INCLUDE_FROM_CONFIG@|../../../include|' -e 's|@PU_PREFIX_FROM_PC@|../..|' \
        -e 's|@PU_INCLUDE_FROM_PC@|../../include|' -e "s|@PU_PRIVATE@|${OMP[*]}|" "examples/cmake/$1" >"$2/${1%.in}" && chmod 644 "$2/${1%.in}"
}

# Sets ROOT, what goes below it.
install_root()
{
    [[ $PREFIX == /* ]] || die "PREFIX=$PREFIX: give an absolute path"
    ROOT=${DESTDIR:-}$PREFIX
}

cmd_install()   # [DIRECTORY of the library, build/lib]
{
    local library=${1:-build/lib}/libpu root header
    install_root
    root=$ROOT
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
    if [[ -f $library.so ]]; then
        find_tools >/dev/null
        cp -P "$library".* "$root/lib/" && filled libpu.pc.in "$root/lib/pkgconfig" || die "cannot write below $root"
        say "installed  $root/lib/libpu.so, libpu.a and pkgconfig/libpu.pc; where the loader keeps a list: ldconfig"
    fi
    say "to remove all of it: PREFIX=$PREFIX ./build.sh uninstall"
}

# Removes what install and cmake --install have put below PREFIX, and nothing else.
cmd_uninstall()
{
    local file found=
    install_root
    for file in "$ROOT"/include/pu{.h,_cuda.cuh} "$ROOT"/lib/pkgconfig/{pu,libpu}.pc "$ROOT"/lib/libpu.{a,so,so.*} \
        "$ROOT"/lib/cmake/pu/pu{Config,ConfigVersion,Targets}.cmake; do
        if [[ -f $file || -L $file ]]; then
            rm "$file" || die "cannot remove $file"
            found=1
            say "removed    $file"
        fi
    done
    [[ $found ]] || die "there is nothing of pu below $ROOT"
    rmdir "$ROOT/lib/cmake/pu" 2>/dev/null || true
}
