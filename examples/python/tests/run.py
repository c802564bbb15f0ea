"""Runs the tests of this directory, and the doctests of the package, without anything but numpy; pytest runs the tests as well.

run.py [WORD ...]: those whose name contains one of the words. The last line is "N passed, N failed", with the skipped where there are any.
Tests get an empty directory as their working directory, and warnings are errors.
"""

import doctest
import importlib
import inspect
import os
import re
import sys
import tempfile
import time
import traceback
import unittest
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


def doctests():
    """A test for every docstring with examples."""
    import pu

    finder = doctest.DocTestFinder(exclude_empty=True)
    modules = [importlib.import_module(f"pu.{path.stem}") for path in sorted(Path(pu.__file__).parent.glob("_*.py")) if path.stem != "__init__"]
    modules += [pu]
    for name in ("estimators",):
        try:
            modules.append(importlib.import_module(f"pu.{name}"))
        except ImportError:
            pass  # not here, or what it needs is not
    for module in modules:
        for example in finder.find(module, globs={**vars(module), "pu": pu}):
            if example.examples:
                yield f"doctest {example.name}", lambda example=example: run_example(example)


FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def run_example(example):
    told = []
    doctest.DocTestRunner(optionflags=FLAGS).run(example, out=told.append)
    if told:
        raise AssertionError("".join(told))


def run_page(page):
    """Everything that a page shows as typed."""
    text = page.read_text(encoding="utf-8").replace("```", "")
    example = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    if not example.examples:
        raise AssertionError(f"{page} has no examples")
    needed = re.findall(r">>> (?:from|import) (\w+)", text)
    if "sklearn" in needed:
        needed.append("pu.estimators")  # which says which version it needs
    for name in needed:
        try:
            importlib.import_module(name)
        except ImportError as reason:
            raise unittest.SkipTest(str(reason)) from None
    run_example(example)


def tests():
    for path in sorted(HERE.glob("test_*.py")):
        try:
            module = importlib.import_module(path.stem)
        except unittest.SkipTest as reason:
            yield path.stem, lambda reason=reason: skip(reason)
            continue
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if name.startswith("test_") and function.__module__ == module.__name__:
                yield f"{path.stem[5:]}.{name[5:]}", function
    for page in sorted(HERE.parent.glob("*.md")):
        if ">>> " in page.read_text(encoding="utf-8"):
            yield f"doctest {page.name}", lambda page=page: run_page(page)
    yield from doctests()


def skip(reason):
    raise reason


def run(function):
    """Runs a test in a directory of its own."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as directory, warnings.catch_warnings():
        warnings.simplefilter("error")
        os.chdir(directory)
        try:
            function()
        finally:
            os.chdir(before)


def main():
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for name, function in tests():
        if sys.argv[1:] and not any(word in name for word in sys.argv[1:]):
            continue
        began = time.perf_counter()
        try:
            run(function)
            result = "passed"
        except unittest.SkipTest as reason:
            result = "skipped"
            print(f"skip  {name}: {reason}")
        except BaseException as error:
            result = "failed"
            print(f"FAIL  {name}")
            traceback.print_exc(file=sys.stdout)
            if isinstance(error, SystemExit):
                raise
        counts[result] += 1
        if time.perf_counter() - began > 2:
            print(f"      {name}: {time.perf_counter() - began:.1f} s")
    print(", ".join(f"{n} {word}" for word, n in counts.items() if n or word != "skipped"))
    sys.exit(counts["failed"] > 0 or counts["passed"] == 0)


if __name__ == "__main__":
    main()
