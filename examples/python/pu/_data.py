"""What users hand in as y, and how results are handed back in the same form.

Arrays with NaN, masked arrays, sparse matrices of scipy, frames and series of pandas. Neither scipy nor pandas is imported here: whoever
hands in a frame has pandas already.
"""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import numpy as np

from ._errors import ArgumentError, ArgumentTypeError


def is_sparse(y: Any) -> bool:
    """A sparse matrix or array of scipy."""
    return type(y).__module__.split(".")[0] == "scipy" and hasattr(y, "tocsr")


def pandas_kind(y: Any) -> str:
    """"DataFrame", "Series" or ""."""
    name = type(y).__name__
    is_pandas = any(c.__module__.split(".")[0] == "pandas" for c in type(y).__mro__)
    return name if is_pandas and name in ("DataFrame", "Series") else ""


def _from_pandas(what: str, y: Any) -> np.ndarray:
    columns = [y[c] for c in y.columns] if pandas_kind(y) == "DataFrame" else [y]
    if pandas_kind(y) == "DataFrame" and not y.columns.is_unique:
        raise ArgumentError(f"{what}: the names of its columns occur more than once")
    bad = [c.name for c in columns if not (getattr(c.dtype, "kind", "O") in "fiub" or str(c.dtype) == "boolean")]
    if bad:
        raise ArgumentTypeError(f"{what}: columns that hold no numbers: {', '.join(map(str, bad[:5]))}; leave them out or convert them")
    return np.asarray(y.to_numpy(dtype=np.float64, na_value=np.nan))


def numbers(what: str, values: Any) -> np.ndarray:
    """An array of real numbers of any type; masked entries and pandas' missing values become NaN."""
    if pandas_kind(values):
        return _from_pandas(what, values)
    if is_sparse(values):
        raise ArgumentTypeError(f"{what} is a sparse matrix, which is taken as y alone; .toarray() makes it an array")
    try:
        array = np.asanyarray(values)
    except ValueError as error:
        raise ArgumentError(f"{what} is no array: {error}") from error
    if array.dtype.kind == "O":
        raise ArgumentTypeError(f"{what} is an array of Python objects{_first_object(array)}; numbers are wanted, NaN for what is missing")
    if array.dtype.kind not in "fiub":
        raise ArgumentTypeError(f"{what} is an array of {array.dtype}; real numbers are wanted")
    if isinstance(array, np.ma.MaskedArray):
        if not np.ma.is_masked(array):
            return np.asarray(array.data)
        if array.dtype.kind != "f":
            array = array.astype(np.float64)
        return np.asarray(array.filled(np.nan))
    return np.asarray(array)


def _first_object(array: np.ndarray) -> str:
    """Which entry is no number, in words."""
    for at in np.ndindex(array.shape):
        if isinstance(array[at], (bool, int, float, np.number)):
            continue
        place = ", ".join(map(str, at))
        return f" ([{place}] is {array[at]!r})" if place else ""
    return ""


def finite(what: str, values: Any) -> np.ndarray:
    """The same where nothing may be missing, as a copy: what becomes of the caller's array later does not matter."""
    array = np.array(numbers(what, values))
    bad = ~np.isfinite(array) if array.dtype.kind == "f" else None
    if bad is not None and bad.any():
        at = np.unravel_index(int(np.argmax(bad)), array.shape)
        raise ArgumentError(f"{what}[{', '.join(map(str, at))}] is {array[at]}; it must be finite")
    return array


class Data:
    """y as the library takes it, n data with entries of some shape, and the way back."""

    def __init__(self, y: Any, axes: int, mask: Any = None) -> None:
        """axes: of one datum; y has as many, or one more in front: the data. 0: y is one datum, of 1 to 3 axes."""
        self.values: Any
        self.is_sparse = is_sparse(y)
        self.pandas = pandas_kind(y)
        self.original = y if self.pandas else None  # for its index
        self.seen: Optional[np.ndarray] = None
        if self.is_sparse:
            self._from_sparse(y, axes, mask)
            return
        array = numbers("y", y)
        of = str(axes)
        if axes == 0:
            axes, of = min(max(array.ndim, 1), 3), "1 to 3"
        self.single = array.ndim == axes
        if array.ndim not in (axes, axes + 1):
            raise ArgumentError(f"y has {array.ndim} axes (shape {array.shape}); a datum of this model has {of}, several data have one more")
        if array.size == 0:
            raise ArgumentError(f"y is empty: its shape is {array.shape}")
        _no_infinity(array)
        # Days in rows would be read as series of one day each by a model of series.
        self.rows_are_times = self.pandas == "DataFrame" and type(y.index).__name__ in ("DatetimeIndex", "PeriodIndex", "TimedeltaIndex")
        self.n = 1 if self.single else array.shape[0]
        self.entries: Tuple[int, ...] = array.shape if self.single else array.shape[1:]
        self.values = array.reshape(self.n, -1)
        if not isinstance(y, (list, tuple)):
            self.values = self.values.copy()  # what becomes of the caller's array later does not matter
        if mask is not None:
            seen = np.asarray(mask)
            if seen.dtype != np.bool_ or seen.shape != array.shape:
                raise ArgumentError(
                    f"mask is {seen.dtype} of shape {seen.shape}; wanted is bool of the shape of y, {array.shape}, True where y was observed"
                )
            self.seen = seen.reshape(self.values.shape).copy()

    def _from_sparse(self, y: Any, axes: int, mask: Any) -> None:
        if axes != 1:
            raise ArgumentTypeError("y is a sparse matrix, but a datum of this model has several axes; give an array with NaN")
        if mask is not None:
            raise ArgumentError("mask: a sparse y is observed where an entry is stored; it takes no mask")
        if len(y.shape) != 2 or 0 in y.shape:
            raise ArgumentError(f"y is a sparse array of shape {y.shape}; wanted is a matrix with a datum per row")
        csr = y.tocsr(copy=True)
        if csr.dtype.kind not in "fiub":
            raise ArgumentTypeError(f"y is a sparse matrix of {csr.dtype}; real numbers are wanted")
        bad = ~np.isfinite(csr.data)
        if bad.any():
            raise ArgumentError(f"y: a stored entry is {csr.data[int(np.argmax(bad))]}; leave out what is missing")
        self.values = csr
        self.single = False
        self.n = int(y.shape[0])
        self.entries = (int(y.shape[1]),)

    @property
    def m(self) -> int:
        """Entries of one datum."""
        return int(np.prod(self.entries))

    @property
    def observed(self) -> int:
        """Entries that are there."""
        if self.is_sparse:
            return int(self.values.nnz)
        return int(self._there().sum())

    def _there(self) -> np.ndarray:
        """Which entries of an array are observed."""
        there = ~np.isnan(self.values) if self.values.dtype.kind == "f" else np.ones(self.values.shape, dtype=bool)
        return there if self.seen is None else there & self.seen

    def filled(self, mean: np.ndarray) -> np.ndarray:
        """y where it was observed, mean elsewhere: n x m."""
        if self.is_sparse:
            result: np.ndarray = mean.copy()
            coo = self.values.tocoo()
            result[coo.row, coo.col] = coo.data
            return result
        return np.where(self._there(), self.values, mean).astype(mean.dtype, copy=False)

    def back(self, result: Optional[np.ndarray]) -> Any:
        """n x m numbers in the form of y."""
        if result is None:
            return None
        shape = self.entries if self.single else (self.n, *self.entries)
        result = result.reshape(shape)
        if self.pandas == "DataFrame":
            return type(self.original)(result, index=self.original.index, columns=self.original.columns)
        if self.pandas == "Series":
            return type(self.original)(result, index=self.original.index, name=self.original.name)
        return result

    def latent(self, result: Optional[np.ndarray], shape: Tuple[int, ...], is_series: bool) -> Any:
        """n x latent numbers: of this shape per datum; in pandas' form where its rows are data, or the steps of a series."""
        if result is None:
            return None
        result = result.reshape(shape if self.single else (self.n, *shape))
        if not self.pandas or result.ndim > 2 or (self.single and not is_series):
            return result
        width = np.shape(result)[-1]
        if result.ndim == 1:
            return type(self.original)(result, index=self.original.index, name="z")
        import pandas

        return pandas.DataFrame(result, index=self.original.index, columns=[f"z{i}" for i in range(width)])


def _no_infinity(array: np.ndarray) -> None:
    if array.dtype.kind != "f":
        return
    bad = np.isinf(array)
    if bad.any():
        at = np.unravel_index(int(np.argmax(bad)), array.shape)
        raise ArgumentError(f"y[{', '.join(map(str, at))}] is {array[at]}; what is missing is NaN, everything else finite")


def _is_absent(label: Any) -> bool:
    """None, NaN, NaT, or pandas' NA, which compares to neither true nor false."""
    try:
        return label is None or bool(label != label)
    except TypeError:
        return True


def labels(what: str, values: Any, rows: int) -> Tuple[np.ndarray, List[Any]]:
    """Codes 0, 1, .. of the labels of a group, and the labels in that order."""
    array = np.asarray(values)
    if array.shape != (rows,):
        raise ArgumentError(f"{what} has shape {array.shape}; wanted is a label for each of {rows} rows")
    absent = np.isnan(array) if array.dtype.kind == "f" else np.array([_is_absent(x) for x in array.tolist()], dtype=bool)
    if absent.any():
        raise ArgumentError(f"{what}[{int(np.argmax(absent))}] is missing; every row belongs to a level")
    try:
        levels, codes = np.unique(array, return_inverse=True)
    except TypeError as error:
        raise ArgumentTypeError(f"{what}: its labels are of several types: {error}") from error
    return codes.reshape(-1).astype(np.int64), levels.tolist()
