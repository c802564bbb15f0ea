"""Fits: `fit`, `at` and `load` make a `Fit`, which answers everything that can be asked at its theta."""

from __future__ import annotations

import base64
import difflib
import json
import math
import os
import statistics
import time
import zlib
from typing import Any, Callable, Dict, Literal, Mapping, NamedTuple, Optional, Tuple, Union, overload

import numpy as np

from ._data import Data, numbers
from ._errors import ArgumentError, ArgumentTypeError, FileError
from ._flat import Handle, Progress
from ._models import Model

# Keys of options of the flat layer, which tells what they are; there are no others.
OPTIONS = (
    "steps optimizer rate schedule decay momentum beta1 beta2 epsilon history batch accumulate fixed_probes dense warm_start tolerance "
    "checkpoint checkpoint_every resume starts samples kind engine seed probe_step threads lanes groups error most_samples "
    "most_iterations rao_blackwell iterations solver solver_tolerance adjoint preconditioner"
).split()
_MARK = "\n--- pu for Python, 1: "  # in the notes of a saved model: the model in JSON follows


class Posterior(NamedTuple):
    """What the data say about the latent variables: mean and standard deviation, in the shape of the model's z.

    `exact`: False where the standard deviations are estimates from probes, with a relative error of up to (1 / 2 samples)^1/2: ask for more
    by `samples`, or for an exact engine by `kind="exact"`."""

    mean: Any
    sd: Any
    exact: bool


class Prediction(NamedTuple):
    """What the model says about every entry of y, observed or not, in the form of y.

    `sd` is the standard deviation of a new observation there, `fit_sd` that of the value without noise; `exact` as in Posterior."""

    mean: Any
    sd: Any
    fit_sd: Any
    exact: bool

    def interval(self, level: float = 0.95) -> Tuple[Any, Any]:
        """Lower and upper ends between which a new observation lies with this probability."""
        width = _quantile(level) * self.sd
        return self.mean - width, self.mean + width


class Gradient(NamedTuple):
    """The gradient of the negative log-likelihood per datum in theta, and its standard errors over probes (0: exact)."""

    gradient: np.ndarray
    errors: np.ndarray


class Draws(NamedTuple):
    """Draws from the model: data, and the latent variables behind them."""

    y: np.ndarray
    z: np.ndarray


def _quantile(level: float) -> float:
    """Half the width, in standard deviations, of an interval of this probability."""
    if not 0 < level < 1:
        raise ArgumentError(f"level is {level!r}; wanted is a probability, such as 0.95")
    return statistics.NormalDist().inv_cdf(0.5 + level / 2)


def _set_options(handle: Handle, options: Mapping[str, Any]) -> None:
    for key, value in options.items():
        if key not in OPTIONS:
            near = difflib.get_close_matches(key, OPTIONS, 1, 0.75)
            hint = f"; did you mean {near[0]!r}?" if near else f"; there are: {' '.join(OPTIONS)}"
            raise ArgumentTypeError(f"there is no option {key!r}{hint}")
        if value is None:
            continue
        if key in ("samples", "iterations") and value == "choose":
            value = -2
        if not isinstance(value, (bool, int, float, str, os.PathLike, np.number, np.bool_)):
            raise ArgumentTypeError(f"option {key} is {value!r}; wanted is a number or a text")
        handle.set(key, value)


class Fit:
    """A model with its parameters, and the data they came from. Made by `pu.fit`, `pu.at` and `pu.load`.

    theta      parameters, coded so that every number is allowed (variances as logarithms); `params` has them by name, natural
    status     name of the library's status: "PU_OK", or with what reservation it ran
    converged  whether the fit came to its end by itself;  `stop`: why it ended, in words;  `steps`: how many it made
    objective  what was minimised, at the end: the negative log-likelihood per datum;  `objective_se`: its error (0 exact, -1 not known)
    plan       what the last gradient was computed by;  `text`: all of this in a line
    """

    def __init__(
        self, model: Model, data: Optional[Data], precision: str, options: Mapping[str, Any], keys: Mapping[str, Any] = {}
    ) -> None:
        self.model = model
        self.precision = precision
        self.options = dict(options)
        self._data = data
        self._saved_keys = dict(keys)
        self._handle = self._new_handle()
        self.theta = np.zeros(0)
        self.status = "PU_OK"
        self.converged = False
        self.stop = "not fitted"
        self.steps = 0
        self.gradients = 0
        self.starts = 0
        self.objective = math.nan
        self.objective_se = math.nan
        self.plan = ""
        self.text = "not fitted"
        self._nll: Optional[Tuple[float, float]] = None

    def _new_handle(self) -> Handle:
        if self._data is not None:
            handle = self.model.handle(self._data, self.precision)
        else:
            handle = Handle(self.model.kind, self.precision)
            for key, value in {**self.model.given, **self._saved_keys}.items():
                handle.set(key, value)
            if self.model.regressors is not None:
                handle.set("regressors", self.model.regressors)
        _set_options(handle, self.options)
        return handle

    def _run(self, theta: np.ndarray, progress: Optional[Callable[[Progress], Any]], seconds: Optional[float]) -> None:
        handle = self._handle
        end = math.inf if seconds is None else time.monotonic() + seconds
        is_late = False

        def step(now: Progress) -> bool:
            nonlocal is_late
            if progress is not None and progress(now):
                return True
            is_late = time.monotonic() > end
            return is_late

        self.theta = handle.fit(theta, progress if seconds is None else step)
        self.theta.flags.writeable = False
        self.status = handle.text("status")
        self.converged = handle.number("converged") == 1
        self.stop = "time is up" if is_late and not handle.interrupted else handle.text("stop")
        self.steps = int(handle.number("steps"))
        self.gradients = int(handle.number("gradients"))
        self.starts = int(handle.number("starts"))
        self.objective = handle.number("objective")
        self.objective_se = handle.number("objective_se")
        self.plan = handle.text("plan")
        self.text = handle.text("fit")

    # -- numbers of the fit --

    @property
    def params(self) -> Dict[str, float]:
        """Every parameter by its name, on the natural scale: variances, not their logarithms.

        >>> fit = pu.fit(pu.noisy_ar(1), [0.3, 1.1, 0.7, 0.2, -0.5, -0.4, 0.1, 0.6, 1.0, 0.4])
        >>> list(fit.params)
        ['gamma[0]', 'kappa', 'lambda']
        """
        names = [name for name, _ in self._handle.params]
        return dict(zip(names, self._handle.natural(self.theta).tolist()))

    def standard_errors(self, scale: str = "natural") -> Dict[str, float]:
        """The standard error of every parameter by its name; NaN, with a warning, where the data do not identify it.

        scale: "theta", on which they are computed (second derivatives of the likelihood), or "natural": those times the slope of the
        natural value, which is the same to first order. For intervals see `intervals`, which needs no such approximation.
        """
        if scale not in ("natural", "theta"):
            raise ArgumentError(f"scale is {scale!r}; there are: natural, theta")
        self._needs_data()
        errors = self._handle.errors(self.theta).astype(np.float64)
        if scale == "natural":
            errors = errors * self._slopes()
        return dict(zip((name for name, _ in self._handle.params), errors.tolist()))

    def intervals(self, level: float = 0.95) -> Dict[str, Tuple[float, float]]:
        """Between which values each parameter lies with this confidence, on the natural scale: theta and its standard error, brought there."""
        self._needs_data()
        width = _quantile(level) * self._handle.errors(self.theta)
        low = self._handle.natural(self.theta - width)
        high = self._handle.natural(self.theta + width)
        names = [name for name, _ in self._handle.params]
        return dict(zip(names, zip(low.tolist(), high.tolist())))

    def _slopes(self) -> np.ndarray:
        """By how much the natural values change with theta."""
        x = self._handle.natural(self.theta)
        scales = np.array([scale for _, scale in self._handle.params])
        slope = np.ones(x.size)
        slope[scales == "log"] = x[scales == "log"]
        slope[scales == "atanh"] = 1 - x[scales == "atanh"] ** 2
        is_logit = scales == "logit"
        if is_logit.any():  # x = lower + (upper - lower) / (1 + exp(-theta))
            low = self._handle.natural(np.full(x.size, -80.0))[is_logit]
            high = self._handle.natural(np.full(x.size, 80.0))[is_logit]
            slope[is_logit] = (x[is_logit] - low) * (high - x[is_logit]) / (high - low)
        return slope

    def _likelihood(self) -> Tuple[float, float]:
        if self._nll is None:
            self._needs_data()
            self._nll = self._handle.nll(self.theta)
        return self._nll

    @property
    def nll(self) -> float:
        """The negative log-likelihood per datum at theta, of all data."""
        return self._likelihood()[0]

    @property
    def nll_se(self) -> float:
        """Its standard error over probes; 0: exact, -1: not known."""
        return self._likelihood()[1]

    @property
    def log_likelihood(self) -> float:
        """The logarithm of the likelihood of all data."""
        return -self.nll * self._handle.size("data")

    @overload
    def gradient(self, theta: Any = None, errors: Literal[True] = True) -> Gradient: ...
    @overload
    def gradient(self, theta: Any = None, *, errors: Literal[False]) -> np.ndarray: ...
    def gradient(self, theta: Any = None, errors: bool = True) -> Union[Gradient, np.ndarray]:
        """The gradient of the negative log-likelihood per datum, at theta or where it is said; with its standard errors over probes.

        >>> fit = pu.at(pu.ppca(1), [[1.0, 2.0], [0.0, 0.5], [2.0, 3.0]])
        >>> bool(abs(fit.gradient().gradient).max() < 1e-6)     # complete data: the start is the maximum
        True
        """
        self._needs_data()
        at = self.theta if theta is None else theta
        if not errors:
            return np.asarray(self._handle.gradient(at))
        return Gradient(*self._handle.gradient(at, errors=True))

    # -- what follows from it --

    def _needs_data(self) -> None:
        if self._data is None:
            raise ArgumentError("this model was loaded without its data: give y, or pu.load(path, y=y)")

    def _for(self, y: Any, mask: Any, regressors: Any, options: Mapping[str, Any]) -> Tuple[Data, Handle]:
        """The handle for these data and options, which may be others than those of the fit."""
        model = self.model
        if y is None:
            self._needs_data()
            if mask is not None or regressors is not None:
                raise ArgumentError("mask and regressors belong to a y, which is not given")
            assert self._data is not None
            data = self._data
            if not options:
                return data, self._handle
        else:
            model = model if regressors is None else model.with_regressors(regressors)
            data = model.read(y, mask)
            self._same_axes(data)
        handle = model.handle(data, self.precision)
        _set_options(handle, {**self.options, **options})
        if handle.size("params") != self.theta.size:
            raise ArgumentError(
                f"y has {data.m} entries per datum; the model then has {handle.size('params')} parameters, but was fitted with {self.theta.size}"
            )
        return data, handle

    def _same_axes(self, data: Data) -> None:
        """A field whose axes y tells: several fields at once would be read as one that has an axis more."""
        if self.model.kind != "field" or self.model.axes:
            return
        axes = len(self._data.entries) if self._data is not None else len(self._saved_keys["size"])
        if len(data.entries) != axes:
            raise ArgumentError(
                f"y has {len(data.entries)} axes (shape {data.entries}), but the field was fitted with {axes}; for several fields give the "
                "model their size, pu.field(size)"
            )

    def posterior(self, y: Any = None, *, mask: Any = None, regressors: Any = None, sd: bool = True, **options: Any) -> Posterior:
        """Mean and standard deviation of the latent variables, given the data of the fit or other data. options: beside those of the fit.

        >>> fit = pu.fit(pu.ppca(1), [[1.0, 2.0], [0.0, 0.5], [2.0, 3.7], [0.5, 0.9], [1.5, float("nan")]])
        >>> fit.posterior().mean.shape
        (5, 1)
        """
        data, handle = self._for(y, mask, regressors, options)
        mean, variance = handle.posterior(self.theta, variance=sd)
        shape = self.model.latent_shape(handle.size("latent"), data.entries)
        spread = None if variance is None else np.sqrt(variance)
        series = self.model.is_series
        return Posterior(data.latent(mean, shape, series), data.latent(spread, shape, series), handle.number("exact") == 1)

    def predict(self, y: Any = None, *, mask: Any = None, regressors: Any = None, sd: bool = True, **options: Any) -> Prediction:
        """What the model says about every entry of y given those that are there. Forecasts are entries that are missing at the end.

        >>> y = [3 * t + (t * t) % 7 for t in range(30)]
        >>> fit = pu.fit(pu.structural("level! slope!"), y)
        >>> ahead = fit.predict(y + [float("nan")] * 2)
        >>> [round(float(x)) for x in ahead.mean[-2:]]
        [92, 95]
        """
        data, handle = self._for(y, mask, regressors, options)
        mean, fit, variance = handle.predict(self.theta, variance=sd)
        new = None if variance is None else data.back(np.sqrt(variance))
        noiseless = None if fit is None else data.back(np.sqrt(fit))
        return Prediction(data.back(mean), new, noiseless, handle.number("exact") == 1)

    def impute(self, y: Any = None, *, mask: Any = None, regressors: Any = None) -> Any:
        """y with the model's mean where it is missing.

        >>> y = [[1.0, 2.0], [2.0, 4.1], [3.0, 5.9], [4.0, float("nan")]]
        >>> round(float(pu.fit(pu.ppca(1), y).impute()[3, 1]))
        8
        """
        data, handle = self._for(y, mask, regressors, {})
        return data.back(data.filled(handle.predict(self.theta, variance=False)[0]))

    def effects(self) -> Dict[str, Dict[Any, Tuple[float, float]]]:
        """Of a model of mixed effects: for each group the mean and standard deviation of every level's effect, by its label."""
        if self.model.kind != "effects":
            raise ArgumentError(f"effects are those of pu.effects; this model is {self.model.kind}")
        mean, sd, _ = self.posterior()
        mean, sd = np.reshape(mean, (-1, np.size(mean) // self._n)), np.reshape(sd, (-1, np.size(sd) // self._n))
        if len(mean) > 1:
            raise ArgumentError("effects are told of one datum; posterior() has those of several")
        result = {}
        at = 0
        for name, levels in self.model.levels.items():
            there = range(at, at + len(levels))
            result[name] = {level: (float(mean[0, i]), float(sd[0, i])) for level, i in zip(levels, there)}
            at += len(levels)
        return result

    @property
    def _n(self) -> int:
        return self._data.n if self._data is not None else 1

    def simulate(self, n: int = 1, seed: int = 0) -> Draws:
        """n draws of y, and of the latent variables z, from the model; the same for the same seed.

        >>> fit = pu.fit(pu.ppca(1), [[1.0, 2.0], [0.0, 0.5], [2.0, 3.5], [1.0, 1.9]])
        >>> fit.simulate(5, seed=1).y.shape
        (5, 2)
        """
        z, y = self._handle.simulate(self.theta, n, seed)
        entries = self._data.entries if self._data is not None else (y.shape[1],)
        return Draws(y.reshape(n, *entries), z.reshape(n, *self.model.latent_shape(z.shape[1], entries)))

    # -- files --

    def save(self, path: Any, notes: str = "") -> None:
        """Writes the model and its parameters, without the data, to a file that `pu.load` reads, as do pu_model_load in C and, for theta
        alone, numpy.load. A file that is there is replaced if it is a saved model or empty."""
        if _MARK in notes:
            raise ArgumentError("notes: they hold the line by which pu finds the model in them")
        keys = self._saved_keys
        if self._data is not None:
            keys = {k: v for k, v in self.model.keys(self._data).items() if k not in self.model.given and k != "regressors"}
        about = {
            "kind": self.model.kind,
            "precision": self.precision,
            "axes": self.model.axes,
            "entries": self.model.entries,
            "of": self.model.of,
            "given": _pack(self.model.given),
            "keys": _pack(keys),
            "regressors": _pack({"X": self.model.regressors}) if self.model.regressors is not None else None,
            "levels": self.model.levels,
            "options": {k: os.fspath(v) if isinstance(v, os.PathLike) else _plain(v) for k, v in self.options.items()},
            "fit": {k: getattr(self, k) for k in _SAVED},
        }
        try:
            text = json.dumps(about)
        except TypeError as error:
            raise ArgumentTypeError(f"labels of groups that are neither numbers nor texts cannot be saved: {error}") from error
        self._handle.save(self.theta, path, notes + _MARK + text)

    # -- copies --

    def __getstate__(self) -> Dict[str, Any]:
        state = dict(self.__dict__)
        del state["_handle"]
        return state

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._handle = self._new_handle()

    def __repr__(self) -> str:
        lines = [f"<pu.Fit {self.model.kind}: {self._of_what()}", f"  {self._how()}"]
        shown = 8
        names = self._handle.params[:shown]
        count = self._handle.size("params")
        if count:
            values = self._handle.natural(self.theta)
            width = max(len(name) for name, _ in names)
            lines += [f"  {name:<{width}}  {values[i]: .6g}" for i, (name, _) in enumerate(names)]
        if count > shown:
            lines.append(f"  .. {count} parameters in all: .params")
        return "\n".join(lines) + ">"

    def _how(self) -> str:
        """How the fit ended, in words."""
        if self.stop == "not fitted":
            return self.stop
        error = "exact" if self.objective_se == 0 else f"+- {self.objective_se:.2g}" if self.objective_se > 0 else "error not known"
        how = f"{self.stop} after {self.steps} steps; negative log-likelihood per datum {self.objective:.6f} ({error})"
        return how if self.status == "PU_OK" else f"{how}\n  with a reservation, {self.status}: see .text"

    def _of_what(self) -> str:
        if self._data is None:
            return "loaded, without data"
        data = self._data
        missing = data.n * data.m - data.observed
        entries = " x ".join(map(str, data.entries))
        gaps = f", {missing} missing" if missing else ""
        return f"{data.n} {'datum' if data.n == 1 else 'data'} of {entries} {'entry' if entries == '1' else 'entries'}{gaps}"


_SAVED = ("status", "converged", "stop", "steps", "gradients", "starts", "objective", "objective_se", "plan", "text")


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, (np.number, np.bool_)) else value


def _pack(keys: Mapping[str, Any]) -> Dict[str, Any]:
    """Keys with arrays as text."""
    packed: Dict[str, Any] = {}
    for key, value in keys.items():
        if isinstance(value, np.ndarray):
            value = value.astype(value.dtype.newbyteorder("<"))
            raw = base64.b64encode(zlib.compress(value.tobytes())).decode()
            packed[key] = {"type": value.dtype.str, "shape": value.shape, "zlib": raw}
        else:
            packed[key] = value
    return packed


def _unpack(keys: Mapping[str, Any]) -> Dict[str, Any]:
    result = {}
    for key, value in keys.items():
        if isinstance(value, dict):
            raw = zlib.decompress(base64.b64decode(value["zlib"]))
            array = np.frombuffer(raw, dtype=np.dtype(value["type"])).reshape(value["shape"])
            result[key] = array.astype(array.dtype.newbyteorder("="))
        else:
            result[key] = value
    return result


def _start(handle: Handle, start: Any) -> np.ndarray:
    if start is None:
        return handle.start()
    if isinstance(start, Fit):
        start = start.theta
    if isinstance(start, str) or np.ndim(start) != 1:
        raise ArgumentError("start: wanted are the numbers of theta, or a Fit to begin from")
    return numbers("start", start)


def _prepared(model: Any, y: Any, mask: Any, precision: str, options: Mapping[str, Any]) -> Fit:
    if not isinstance(model, Model):
        raise ArgumentTypeError(f"model is {type(model).__name__}; wanted is one of pu's, such as pu.factors(2); the data come second")
    return Fit(model, model.read(y, mask), precision, options)


def fit(
    model: Model,
    y: Any,
    *,
    mask: Any = None,
    start: Any = None,
    progress: Optional[Callable[[Progress], Any]] = None,
    precision: str = "double",
    seconds: Optional[float] = None,
    **options: Any,
) -> Fit:
    """Fits a model to data by maximum likelihood.

    y          Numbers, one datum per row; models of one series or vector also take a single one. Missing entries: NaN, the masked ones of
               a masked array, pandas' NA. Of a SPARSE MATRIX of scipy only what is STORED is observed, zeros that are stored included;
               all other entries are missing, not zero.
    mask       True where y was observed (numpy's masked arrays say it the other way round), of the shape of y
    start      theta to begin from, or a Fit; left out, the model's own
    progress   called with a `pu.Progress` after every step; what it returns, if true, ends the fit. What it raises is raised from here.
               Ctrl-C ends a fit after its step, with a warning and the best so far; twice, KeyboardInterrupt is raised.
    precision  "double" or "float"
    seconds    ends the fit after the step in which they are over
    options    those of the flat layer: steps, optimizer, rate, batch, tolerance, starts, samples, engine, seed, threads, checkpoint, ..
               Left out, the library chooses, and `fit.plan` tells what.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=(100, 1)) * [1.0, 2.0, 3.0] + 0.1 * rng.normal(size=(100, 3))
    >>> y[::7, 1] = np.nan
    >>> fit = pu.fit(pu.ppca(1), y)
    >>> fit.converged
    True
    """
    result = _prepared(model, y, mask, precision, options)
    if progress is not None and not callable(progress):
        raise ArgumentTypeError(f"progress is {type(progress).__name__}; wanted is a function")
    if seconds is not None and not seconds > 0:
        raise ArgumentError(f"seconds is {seconds!r}; wanted is a positive number")
    result._run(_start(result._handle, start), progress, seconds)
    return result


def at(model: Model, y: Any, theta: Any = None, *, mask: Any = None, precision: str = "double", **options: Any) -> Fit:
    """The model at a theta, without a fit: for gradients, likelihoods and predictions there. theta left out: the model's start.

    >>> model = pu.at(pu.noisy_ar(1), [0.3, 1.1, 0.7, 0.2, -0.5], theta=[0.5, 0.0, -1.0])
    >>> model.gradient().gradient.shape
    (3,)
    """
    result = _prepared(model, y, mask, precision, options)
    result.theta = _start(result._handle, theta).astype(result._handle.dtype)
    if result.theta.size != result._handle.size("params"):
        raise ArgumentError(f"theta has {result.theta.size} numbers, this model has {result._handle.size('params')} parameters")
    result.theta.flags.writeable = False
    return result


def load(path: Any, *, model: Optional[Model] = None, y: Any = None, mask: Any = None) -> Fit:
    """A fit from the file that `Fit.save` wrote. y: the data, which are not in the file; without them `predict(y)` and `posterior(y)` work.

    model: for a file that a program in C wrote, which does not tell all of it; y is wanted then, too.
    """
    path = os.fspath(path)  # a number would be an open file's
    notes = _notes(path)
    where = notes.rfind(_MARK)
    if where < 0 and (model is None or y is None):
        raise FileError(f"{os.fspath(path)} was not saved from Python: say which model it is of, pu.load(path, model=.., y=..)")
    about: Dict[str, Any] = {}
    if where >= 0:
        about = _about(path, notes[where + len(_MARK) :])
    if model is None:
        X = about["regressors"]
        regressors = None if X is None else _unpack(X)["X"]
        model = Model(about["kind"], _unpack(about["given"]), regressors, axes=about["axes"], entries=about["entries"], of=about["of"])
        model.levels = about["levels"]
    data = None if y is None else model.read(y, mask)
    keys = _unpack(about["keys"]) if about else {}
    result = Fit(model, data, about.get("precision", "double"), about.get("options", {}), keys)
    result.theta = result._handle.load(path)
    result.theta.flags.writeable = False
    for name, value in about.get("fit", {}).items():
        setattr(result, name, value)
    return result


def _about(path: Any, text: str) -> Dict[str, Any]:
    try:
        about = json.loads(text)
    except ValueError as error:
        raise FileError(f"{os.fspath(path)}: its notes are damaged: {error}") from error
    return dict(about)


def _notes(path: Any) -> str:
    """The notes of a saved model: two arrays of numpy, the second a text, whose checksum is tested when theta is loaded."""
    try:
        with open(path, "rb") as file:
            np.lib.format.read_array(file, allow_pickle=False)
            text = np.lib.format.read_array(file, allow_pickle=False).item()
    except OSError as error:
        raise FileError(f"{os.fspath(path)} cannot be read: {error.strerror or error}") from error
    except (ValueError, EOFError) as error:
        raise FileError(f"{os.fspath(path)} is no saved model: {error}") from error
    head, found, rest = text.partition(b"\nbytes of notes below: ")
    if not found:
        raise FileError(f"{os.fspath(path)} is no saved model")
    size, _, rest = rest.partition(b"\n")
    return bytes(rest[: int(size)]).decode("utf-8", "replace")
