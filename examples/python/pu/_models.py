"""The models: what each is made of, told once. Sizes that y tells are not asked for."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from ._data import Data, finite, labels
from ._errors import ArgumentError, ArgumentTypeError
from ._flat import Handle


class Model:
    """A model without its data: made by `pu.factors`, `pu.structural` and the others, given to `pu.fit`."""

    def __init__(self, kind: str, given: Mapping[str, Any], regressors: Any = None, *, axes: int = 1, entries: int = 0, of: str = "") -> None:
        """given: keys of the flat layer. entries: those of a datum where the model knows them, by its `of`; 0: y tells."""
        self.kind = kind
        self.given: Dict[str, Any] = dict(given)
        self.axes = axes
        self.entries = entries
        self.of = of
        self.levels: Dict[str, List[Any]] = {}
        self.regressors = None if regressors is None else finite("regressors", regressors)

    def __repr__(self) -> str:
        small = {k: v for k, v in self.given.items() if not isinstance(v, np.ndarray)}
        inside = [f"{k}={v!r}" for k, v in small.items()]
        inside += [f"{k}: {'x'.join(map(str, v.shape))}" for k, v in self.given.items() if isinstance(v, np.ndarray)]
        if self.regressors is not None:
            inside.append(f"regressors: {'x'.join(map(str, self.regressors.shape))}")
        return f"<pu.{self.kind} {', '.join(inside)}>"

    @property
    def is_series(self) -> bool:
        """A datum is a series."""
        return self.kind in ("noisy_ar", "state_space", "structural", "dynamic_factors")

    def read(self, y: Any, mask: Any = None) -> Data:
        """y, if it fits this model."""
        data = Data(y, self.axes, mask)
        if self.kind in ("factors", "ppca") and data.single:
            raise ArgumentError(f"y has shape {data.entries}; {self.kind} wants a table with a datum per row")
        if self.is_series and not data.is_sparse and data.rows_are_times and not data.single:
            raise ArgumentError("y: the rows of this frame are times, but each row should be a series; give y.T, or one column of it")
        if self.is_series and not data.single and data.n > 1 and data.entries[0] == 1:
            raise ArgumentError(f"y has shape {_shape(data)}: series of one step each; one series is y[:, 0], and y.T one per row")
        if self.entries and data.m != self.entries:
            raise ArgumentError(f"y has {data.m} entries per datum (shape {_shape(data)}), but {self.of} has {self.entries}")
        return data

    def keys(self, data: Data) -> Dict[str, Any]:
        """All keys of the flat layer for these data."""
        keys = dict(self.given)
        if self.kind in ("factors", "ppca"):
            keys["rows"] = data.m
        if self.kind in ("noisy_ar", "state_space", "structural"):
            keys["length"] = data.m
        if self.kind == "dynamic_factors":
            keys["length"], keys["outputs"] = data.entries
        if self.kind == "field" and "size" not in keys:
            keys["size"] = np.array(data.entries, dtype=np.int64)
        keys.update(self._regressor_keys(data))
        return keys

    def with_regressors(self, regressors: Any) -> "Model":
        """The same model with other regressors."""
        other = Model(self.kind, self.given, regressors, axes=self.axes, entries=self.entries, of=self.of)
        other.levels = self.levels
        return other

    def _regressor_keys(self, data: Data) -> Dict[str, Any]:
        """Keys for regressors of the shape (entries, p), or (data, entries, p)."""
        X = self.regressors
        if X is None:
            return {}
        if X.shape == data.entries:
            X = X[..., np.newaxis]
        shared = X.ndim == len(data.entries) + 1 and X.shape[:-1] == data.entries
        each = X.ndim == len(data.entries) + 2 and X.shape[:-1] == (data.n, *data.entries)
        if not shared and not each:
            raise ArgumentError(
                f"regressors have shape {X.shape}; wanted is {(*data.entries, 'p')}, or {(data.n, *data.entries, 'p')} for each datum its own"
            )
        keys = {"regressors.columns": X.shape[-1], "regressors": X}
        if each:
            keys["regressors.data"] = data.n
        return keys

    def handle(self, data: Data, precision: str) -> Handle:
        """A handle with this model and these data."""
        handle = Handle(self.kind, precision)
        for key, value in self.keys(data).items():
            handle.set(key, value)
        if data.is_sparse:
            handle.lists(data.values)
        else:
            handle.data(data.values, data.seen)
        return handle

    def latent_shape(self, latent: int, entries: Tuple[int, ...]) -> Tuple[int, ...]:
        """z of one datum: steps x states of a series, the grid of a field, else a vector."""
        if self.kind in ("state_space", "structural", "dynamic_factors") and latent % entries[0] == 0:
            return (entries[0], latent // entries[0])
        if self.kind == "field" and latent == int(np.prod(entries)):
            return entries
        return (latent,)


def _shape(data: Data) -> Tuple[int, ...]:
    return data.entries if data.single else (data.n, *data.entries)


def _whole(what: str, value: Any, least: int = 1) -> int:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or value < least:
        raise ArgumentError(f"{what} is {value!r}; wanted is a whole number from {least} on")
    return int(value)


def _matrix(what: str, values: Any) -> np.ndarray:
    array = finite(what, values)
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2:
        raise ArgumentError(f"{what} has shape {array.shape}; wanted is a matrix")
    return array


_STARTS = ("zero", "stationary", "given", "diffuse")


def _word(what: str, value: Any, words: Sequence[str]) -> str:
    if value not in words:
        raise ArgumentError(f"{what} is {value!r}; there are: {', '.join(words)}")
    return str(value)


def factors(latent: int, *, regressors: Any = None) -> Model:
    """Factor analysis: y = Phi z + eta + noise, z ~ N(0, I) of `latent` entries, a noise of its own for each entry of y.

    Parameters Phi, eta and psi (precisions of the noise). y: a table, one datum per row.

    >>> pu.factors(2)
    <pu.factors latent=2>
    """
    return Model("factors", {"latent": _whole("latent", latent)}, regressors)


def ppca(latent: int, *, regressors: Any = None) -> Model:
    """Probabilistic principal components: factor analysis with the same noise in all entries. Parameters Phi, eta, beta."""
    return Model("ppca", {"latent": _whole("latent", latent)}, regressors)


def _dictionary(kind: str, Phi: Any, regressors: Any) -> Model:
    array = _matrix("Phi", Phi)
    given = {"rows": array.shape[0], "latent": array.shape[1], "Phi": array}
    return Model(kind, given, regressors, entries=array.shape[0], of="Phi")


def sparse(Phi: Any, *, regressors: Any = None) -> Model:
    """Sparse Bayesian learning: y = Phi z + noise, a precision alpha for each z, most of which run to infinity.

    y: as many entries as Phi has rows; several data share the alphas."""
    return _dictionary("sparse", Phi, regressors)


def regression(Phi: Any, *, regressors: Any = None) -> Model:
    """Bayesian linear regression: y = Phi z + noise, one precision alpha for all of z, beta for the noise."""
    return _dictionary("regression", Phi, regressors)


def neural(X: Any, hidden: int, features: int = 0, *, regressors: Any = None) -> Model:
    """Regression on features that a network of one hidden layer makes of X (points x inputs); features: 0, or those of a second layer.

    y: an entry for each point."""
    array = _matrix("X", X)
    given: Dict[str, Any] = {"points": array.shape[0], "inputs": array.shape[1], "X": array}
    given["hidden"] = _whole("hidden", hidden)
    given["features"] = _whole("features", features, 0)
    return Model("neural", given, regressors, entries=array.shape[0], of="X")


def noisy_ar(order: int = 1, *, regressors: Any = None) -> Model:
    """An autoregression of this order, seen with noise. y: a series, or one per row."""
    return Model("noisy_ar", {"order": _whole("order", order)}, regressors)


def state_space(states: int, start: str = "zero", *, regressors: Any = None) -> Model:
    """z_t = A z_{t-1} + noise, y_t = c'z_t + noise. start: of z, "zero", "stationary", "given" (estimated) or "diffuse"."""
    given = {"states": _whole("states", states), "start": _word("start", start, _STARTS)}
    return Model("state_space", given, regressors)


def dynamic_factors(states: int, start: str = "zero", *, regressors: Any = None) -> Model:
    """Several series that move with a few common states. y: steps x series, or data x steps x series."""
    given = {"states": _whole("states", states), "start": _word("start", start, _STARTS)}
    return Model("dynamic_factors", given, regressors, axes=2)


def structural(parts: Union[str, Sequence[str]] = "level", times: Any = None, *, regressors: Any = None) -> Model:
    """A series as a sum of parts: "level slope season:12", ..

    Parts: level, slope (of the level before it), season:PERIOD, season_trig:PERIOD, cycle, ar:ORDER, ma:ORDER (of the ar before it),
    matern12, matern32, matern52 (Gaussian processes), no_irregular; ! behind a level, slope or season makes it constant ("level!").
    times: of the entries of y, increasing, where they are not equally spaced; for levels and matern parts.
    """
    text = parts if isinstance(parts, str) else " ".join(parts)
    given: Dict[str, Any] = {"parts": text}
    entries = 0
    if times is not None:
        given["times"] = np.asarray(finite("times", times), dtype=np.float64)
        if given["times"].ndim != 1:
            raise ArgumentError(f"times have shape {given['times'].shape}; wanted is one for each entry of y")
        entries = given["times"].size
    return Model("structural", given, regressors, entries=entries, of="times")


def field(size: Any = None, *, edge: str = "neumann", alpha: int = 2, intrinsic: bool = False, regressors: Any = None) -> Model:
    """A Gaussian Markov field on a grid of 1 to 3 axes, seen with noise and gaps. y: the grid, or one per datum.

    size: of the grid; left out, that of y, which then is one field. intrinsic: without a mean level and range."""
    given: Dict[str, Any] = {
        "edge": _word("edge", edge, ("neumann", "periodic")),
        "alpha": _whole("alpha", alpha),
        "intrinsic": int(bool(intrinsic)),
    }
    if size is None:
        return Model("field", given, regressors, axes=0)
    sizes = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
    if not 1 <= len(sizes) <= 3:
        raise ArgumentError(f"size is {size!r}; a grid has 1 to 3 axes")
    given["size"] = np.array([_whole("size", n) for n in sizes], dtype=np.int64)
    return Model("field", given, regressors, axes=len(sizes), entries=int(np.prod(given["size"])), of="the grid")


def effects(
    groups: Mapping[str, Any], *, slopes: Optional[Mapping[str, Any]] = None, X: Any = None, method: str = "ml", regressors: Any = None
) -> Model:
    """Mixed effects: y = X b + a random effect of every group's level + noise.

    groups: a name and a label for each row: {"subject": subjects}; numbers or texts. slopes: covariates by which the effect of a group
    is multiplied; a random intercept and slope of the same labels are two groups: groups={"subject": s, "subject.days": s},
    slopes={"subject.days": days}. X: rows x columns; left out, a column of ones, and np.zeros((rows, 0)) for none.
    method: "ml" or "reml". y: an entry for each row, NaN where it is to be predicted.
    """
    if not isinstance(groups, Mapping) or not groups:
        raise ArgumentTypeError("groups: wanted is a dictionary of names and labels, with one group at least")
    shape = np.shape(next(iter(groups.values())))
    if len(shape) != 1 or shape[0] == 0:
        raise ArgumentError(f"groups: labels of {next(iter(groups))!r} have shape {shape}; wanted is one for each row")
    rows = shape[0]
    given: Dict[str, Any] = {"rows": rows, "method": _word("method", method, ("ml", "reml"))}
    levels: Dict[str, List[Any]] = {}
    for name, values in groups.items():
        if not isinstance(name, str) or not name or len(name.encode()) > 24:
            raise ArgumentError(f"groups: the name {name!r}; wanted is a text of 1 to 24 bytes")
        codes, levels[name] = labels(f"groups[{name!r}]", values, rows)
        given["level." + name] = codes
        given["levels." + name] = len(levels[name])
    for name, values in (slopes or {}).items():
        if name not in levels:
            raise ArgumentError(f"slopes: there is no group {name!r}; there are: {', '.join(levels)}")
        slope = finite(f"slopes[{name!r}]", values)
        if slope.shape != (rows,):
            raise ArgumentError(f"slopes[{name!r}] has shape {slope.shape}; wanted is a number for each of {rows} rows")
        given["slope." + name] = slope
    design = np.ones((rows, 1)) if X is None else _matrix("X", X)
    if design.shape[0] != rows:
        raise ArgumentError(f"X has {design.shape[0]} rows, the groups have {rows}")
    given["columns"] = design.shape[1]
    if design.shape[1]:
        given["X"] = design
    model = Model("effects", given, regressors, entries=rows, of="groups")
    model.levels = levels
    return model
