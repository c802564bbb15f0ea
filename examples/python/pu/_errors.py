"""What goes wrong: exceptions for what the library refuses, warnings for what it did with a reservation."""

from __future__ import annotations

import sys
import warnings
from typing import Any, Optional

import numpy as np


class Error(Exception):
    """Anything that the library refuses or could not do. Its text says what, where and, as far as it is known, why.

    ``status`` is the number of the status in pu.h (0: refused here, before the library was called) and ``status_name`` its name,
    ``"PU_E_NULL"``. ``theta`` is, where a fit broke off, the best point that it had reached; otherwise None.
    """

    def __init__(self, text: str, status: int = 0, status_name: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.status_name = status_name
        self.theta: Optional[np.ndarray] = None


class ArgumentError(Error, ValueError):
    """A value, a size or an option makes no sense."""


class ArgumentTypeError(Error, TypeError):
    """Something of a type that cannot be used here."""


class NumberError(Error, ArithmeticError):
    """The numbers gave out: not finite, or a matrix that is not positive definite."""


class UnsupportedError(Error, NotImplementedError):
    """This model, or this engine, cannot do that."""


class OutOfMemoryError(Error, MemoryError):
    """There is not enough memory."""


class FileError(Error, OSError):
    """A file cannot be read or written, or is not what it should be."""


class LibraryError(Error, ImportError):
    """The compiled library is not there, or is one of another version."""


class PuWarning(UserWarning):
    """It ran, but: the result holds with a reservation that the text names."""


_CLASSES = {
    "PU_E_NULL": ArgumentError,
    "PU_E_ARGUMENT": ArgumentError,
    "PU_E_SIZE": ArgumentError,
    "PU_E_OVERFLOW": ArgumentError,
    "PU_E_NONFINITE": ArgumentError,
    "PU_E_NOT_POSITIVE": ArgumentError,
    "PU_E_MEMORY": OutOfMemoryError,
    "PU_E_BLOCK": OutOfMemoryError,
    "PU_E_FILE": FileError,
    "PU_E_UNSUPPORTED": UnsupportedError,
    "PU_E_NOT_DEFINITE": NumberError,
    "PU_BREAKDOWN": NumberError,
    "PU_NONFINITE": NumberError,
}

# Results were written; with any other status but PU_OK they were not.
WRITTEN = ("PU_CAP", "PU_DIVERGED", "PU_STAGNATED", "PU_INEXACT", "PU_UNIDENTIFIED")


def error_of(status: int, name: str, text: str) -> Error:
    """The exception for a status."""
    return _CLASSES.get(name, Error)(text or name, status, name)


def warn(text: str) -> None:
    """A warning that points to the line of the caller's that led here, not into this package."""
    frame: Any = sys._getframe(1)
    level = 2
    while frame is not None and str(frame.f_globals.get("__package__")).split(".")[0] == __package__:
        frame = frame.f_back
        level += 1
    warnings.warn(text, PuWarning, stacklevel=level)
