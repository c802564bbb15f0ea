"""The same bits as a program in C that uses the structs of pu.h: tests/numbers.c, compiled beside the library by the job python."""

import os
import subprocess
import unittest
import warnings
from pathlib import Path

import numpy as np
import pu


def value(count, gaps):
    i = np.arange(count)
    x = ((i * i * 7 + 3 * i) % 41 - 20) / 8
    x[(i % 7 == 3) & gaps] = np.nan
    return x


def told(model, y, precision, **options):
    """What tell of numbers.c prints, by Python."""
    start = pu.at(model, y, precision=precision, **options)
    fit = pu.fit(model, y, precision=precision, **options)
    gradient, errors = fit.gradient()
    z, zvar = fit._handle.posterior(fit.theta)
    mean, fitted, variance = fit._handle.predict(fit.theta)
    draws = fit.simulate(2, seed=17)
    parts = [start.theta, fit.theta, gradient, errors, fit.objective, fit.nll, fit.nll_se, z, zvar, mean, fitted, variance, draws.z, draws.y]
    return np.concatenate([np.ravel(part).astype(np.float64) for part in parts])


def same_bits(precision):
    directory = os.environ.get("PU_TEST_PROGRAMS")
    program = Path(directory or ".") / f"numbers_{precision}"
    if not directory or not program.is_file():
        raise unittest.SkipTest("no programs in C to compare with: ./build.sh test python makes them")
    lines = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout.split()
    expected = np.array([float.fromhex(line) for line in lines])
    table = value(30 * 6, True).reshape(30, 6)
    rows = np.arange(40)
    effects = pu.effects({"g": rows % 5}, X=np.column_stack([np.ones(40), rows % 8]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pu.PuWarning)  # in float some of these lose digits; so they do in C
        ours = [
            told(pu.factors(2), table, precision, steps=8),
            told(
                pu.ppca(2), table, precision, steps=8, optimizer="adam", rate=0.05, engine="iterative", samples=4, seed=3, solver="pcg"
            ),
            told(pu.structural("level season:4"), value(48, True), precision),
            told(effects, value(40, False), precision),
        ]
    ours = np.concatenate(ours)
    assert len(ours) == len(expected) > 2000
    differ = np.flatnonzero(ours.view(np.int64) != expected.view(np.int64))
    assert differ.size == 0, f"{differ.size} of {len(ours)} numbers differ, the first at {differ[0]}: {ours[differ[0]]} and {expected[differ[0]]}"


def test_double():
    same_bits("double")


def test_float():
    same_bits("float")
