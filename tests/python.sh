# python.sh - the jobs of examples/python: its tests against a library made here, and its installation by pip. Read by jobs.sh.
# shellcheck shell=bash

# find_python MODULE: sets PYTHON3 to a Python that has it, or to nothing. PYTHON names one.
find_python()
{
    local python
    for python in "${PYTHON:-python3}" python3 /usr/bin/python3; do
        PYTHON3=$python
        if "$python" -c "import $1, sys; sys.exit(sys.version_info < (3, 9))" >/dev/null 2>&1; then return 0; fi
    done
    PYTHON3=
    return 1
}

# The library in double and in float, and the programs whose bits Python must have, of the same objects. Unoptimised: compiling
# would be most of the time.
python_programs()   # DIRECTORY
{
    local precision objects=()
    for precision in double float; do
        variant_flags $precision 0
        objects+=("$1/$precision.o")
        "${CC_CMD[@]}" "${FLAGS[@]}" -fPIC -c tests/compile/impl.c -o "$1/$precision.o" &&
            "${CC_CMD[@]}" "${FLAGS[@]}" examples/python/tests/numbers.c "$1/$precision.o" -o "$1/numbers_$precision" -lm ||
                return
    done
    "${CC_CMD[@]}" -shared "${OMP[@]}" "${objects[@]}" -o "$1/libpu.so" -lm
}

job_python()
{
    local directory=$PWD/build/tests/python
    find_python numpy || { job_skip 1 "no python3 (3.9 or later) with numpy"; return; }
    mkdir -p "$directory"
    python_programs "$directory" || return
    export PU_LIBRARY=$directory/libpu.so PU_TEST_PROGRAMS=$directory PYTHONPATH=$PWD/examples/python PYTHONDONTWRITEBYTECODE=1
    limited "$PYTHON3" examples/python/tests/run.py
}

# What pip says, and what it must have said: refused_build WORDS COMMAND...
refused_build()
{
    local words=$1 said
    shift
    if said=$("$@" 2>&1); then echo "it was built"; return 1; fi
    [[ $said == *"$words"* ]] || { echo "$said"; return 1; }
}

# The five lines of a user, in a directory without the source; the library must be that of the package.
python_five_lines()     # PYTHON
{
    (cd "$base/elsewhere" && env -u PU_LIBRARY -u PYTHONPATH "$1" - <<'PYTHON')
import numpy as np, pu
y = np.random.default_rng(0).normal(size=(50, 1)) + 0.1 * np.random.default_rng(1).normal(size=(50, 4))
y[3, 2] = np.nan
fit = pu.fit(pu.factors(latent=1), y)
assert fit.converged and np.isfinite(fit.impute()).all()
assert pu.library_path.parent.name == "pu" and "site-packages" in str(pu.library_path)
PYTHON
}

# A copy of the package's directory alone, without pu.h.
python_without_header()
{
    rm -rf "$base/alone"
    cp -r examples/python "$base/alone"
    refused_build "pu.h is neither" "$base/venv/bin/python" "$base/alone/setup.py" -q build --build-base "$base/made"
}

# An sdist has pu.h, and is installed without the tree.
python_sdist()
{
    (cd examples/python && "$base/venv/bin/python" setup.py -q sdist --dist-dir "$base/dist") &&
        "$base/venv/bin/pip" -q install --no-deps --no-build-isolation --force-reinstall "$base"/dist/pu-*.tar.gz
}

job_python_pip()
{
    local base=$PWD/build/tests/python_pip
    find_python venv || { job_skip 7 "no python3 with venv"; return; }
    rm -rf "$base"
    mkdir -p "$base/elsewhere"
    "$PYTHON3" -m venv "$base/venv" >"$base/log" 2>&1 || { job_skip 7 "no venv: python3-venv is missing"; return; }
    "$base/venv/bin/pip" -q install numpy 'setuptools>=64' wheel >"$base/log" 2>&1 ||
        { job_skip 7 "no network: pip finds no numpy"; return; }
    export CFLAGS="-O0" PIP_DISABLE_PIP_VERSION_CHECK=1
    check "pip install ./examples/python" "$base/venv/bin/pip" -q install ./examples/python
    check "five lines" python_five_lines "$base/venv/bin/python"
    check "for this platform" \
        grep -rq 'Tag: py3-none-[a-z]*[0-9_]*_' "$base"/venv/lib*/python*/site-packages/pu-*.dist-info/WHEEL
    check "no compiler" refused_build "there is no C compiler CC=no-such" env CC=no-such \
        "$base/venv/bin/python" examples/python/setup.py -q build --build-base "$base/made"
    check "no pu.h" python_without_header
    check "an sdist" python_sdist
    check "five lines with the sdist" python_five_lines "$base/venv/bin/python"
    rm -rf "$base"
    end_of_checks
}

add_python()
{
    add python job_python
    add python_pip job_python_pip
}
