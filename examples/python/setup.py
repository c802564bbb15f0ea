"""Builds the package pu: compiles pu.h, in double and in float, into one library beside its Python files.

The C compiler is that of CC, else cc, gcc or clang; CFLAGS are added to its flags (-march=native, say, for this machine alone).
OpenMP is used where it works. pu.h is that of the source tree, or the copy that an sdist has.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist
from setuptools.dist import Distribution

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

HERE = Path(__file__).resolve().parent
FLAGS = ["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-O3", "-fPIC", "-fno-math-errno"]
LIBRARY = {"darwin": "libpu.dylib", "win32": "pu.dll"}.get(sys.platform, "libpu.so")


def stop(text):
    """Ends with a message that pip shows."""
    sys.exit("\npu: " + text + "\n")


def header():
    """pu.h."""
    places = [HERE.parent.parent / "pu.h", HERE / "pu.h"]
    for place in places:
        if place.is_file():
            return place
    stop(f"pu.h is neither {places[0]} nor {places[1]}. Install from the source tree of pu (pip install PATH/examples/python; pip from "
         "21.3 on, older ones copy the directory elsewhere), or from an sdist made there.")


def compiler():
    """The C compiler as a list of words."""
    asked = os.environ.get("CC")
    for name in [asked] if asked else ["cc", "gcc", "clang"]:
        words = shlex.split(name)
        if words and shutil.which(words[0]):
            return words
    if asked:
        stop(f"there is no C compiler CC={asked}")
    stop("there is no C compiler (cc, gcc, clang). Install one, for example  apt-get install gcc libc6-dev,  xcode-select --install,  "
         "or name it by CC.")


def works(command, directory):
    """Does a small program with a call of OpenMP become a library with these flags?"""
    source = directory / "probe.c"
    source.write_text("#include <math.h>\n#include <omp.h>\nint probe(double x) { return omp_get_max_threads() + (int)sin(x); }\n")
    return subprocess.run([*command, "-shared", "-fPIC", str(source), "-o", str(directory / "probe"), "-lm"], capture_output=True).returncode == 0


def compile_library(target):
    """pu.h -> the library, as ./build.sh lib makes it."""
    pu_h, cc = header(), compiler()
    extra = shlex.split(os.environ.get("CFLAGS", ""))
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        openmp = ["-fopenmp"] if works([*cc, "-fopenmp"], directory) else []
        print(f"pu: {' '.join(cc + FLAGS + openmp + extra)}  {pu_h}  (half a minute)", flush=True)
        running, objects = [], []
        for precision in ("double", "float"):
            source = directory / f"{precision}.c"
            define = "#define PU_FLOAT\n" if precision == "float" else ""
            source.write_text(define + "#define PU_IMPLEMENTATION\n#include \"pu.h\"\n")
            objects.append(str(directory / f"{precision}.o"))
            command = [*cc, *FLAGS, *openmp, f"-I{pu_h.parent}", *extra, "-c", str(source), "-o", objects[-1]]
            running.append(subprocess.Popen(command))
        if any([process.wait() for process in running]):
            stop(f"{pu_h} does not compile by  {' '.join(cc)}; what the compiler says is above")
        made = directory / LIBRARY
        if subprocess.run([*cc, "-shared", *openmp, *objects, "-o", str(made), "-lm", *extra]).returncode:
            stop(f"{LIBRARY} cannot be linked by  {' '.join(cc)}; what it says is above")
        shutil.copyfile(made, target / (LIBRARY + ".new"))
        os.replace(target / (LIBRARY + ".new"), target / LIBRARY)  # whole at any moment; who has it loaded keeps the old one
    print(f"pu: built {LIBRARY}, {'with' if openmp else 'without'} OpenMP", flush=True)


class Build(build_py):
    """The Python files and the library; an editable install has it in the source directory."""

    def run(self):
        super().run()
        in_place = getattr(self, "editable_mode", False)
        compile_library(HERE / "pu" if in_place else Path(self.build_lib) / "pu")

    def get_outputs(self, include_bytecode=True):
        library = [] if getattr(self, "editable_mode", False) else [str(Path(self.build_lib) / "pu" / LIBRARY)]
        return super().get_outputs(include_bytecode) + library


class Wheel(bdist_wheel):
    """For this platform and any Python 3: the library is not bound to a version of Python."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


class Source(sdist):
    """With a copy of pu.h, so that it can be built anywhere."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        shutil.copyfile(header(), Path(base_dir) / "pu.h")


class Binary(Distribution):
    """Goes where libraries for this platform go."""

    def has_ext_modules(self):
        return True


def version():
    return re.search(r'^#define PU_VERSION "([^"]+)"', header().read_text(encoding="utf-8"), re.M).group(1)


def options():
    """In the source tree all that is made on the way goes into its build directory."""
    tree = HERE.parent.parent
    if not (tree / "build.sh").is_file():
        return {}
    made = tree / "build" / "python"
    made.mkdir(parents=True, exist_ok=True)
    return {"build": {"build_base": str(made)}, "egg_info": {"egg_base": str(made)}}


os.chdir(HERE)  # where pyproject.toml is
setup(
    version=version(),
    options=options(),
    distclass=Binary,
    cmdclass={"build_py": Build, "bdist_wheel": Wheel, "sdist": Source},
)
