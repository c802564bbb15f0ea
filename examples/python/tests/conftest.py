"""For pytest: every test in an empty directory of its own, as run.py has it, and warnings as errors."""

import warnings

import pytest


@pytest.fixture(autouse=True)
def own_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
