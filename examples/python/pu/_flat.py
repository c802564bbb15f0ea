"""The flat layer of pu.h by ctypes: finds the library, declares its functions and wraps a handle.

`Handle` is as thin as it can be: one call of it is one call of the library (see >>flat in pu.h, which lists the models, their keys and
the options). What users want first is in pu itself: `pu.fit` and the models.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
import threading
import weakref
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_double, c_int, c_size_t, c_ssize_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from ._errors import WRITTEN, ArgumentError, ArgumentTypeError, Error, LibraryError, OutOfMemoryError, error_of, warn

ABI = 1  # PU_ABI of the pu.h that the declarations below are of
SCALES = ("free", "log", "atanh", "logit")
_HERE = Path(__file__).resolve().parent
_STEP = CFUNCTYPE(c_int, c_void_p, c_void_p)
_CODES = {"float64": "d", "float32": "f", "int32": "i", "int64": "l", "uint8": "b", "bool": "b"}


# ---- the library ----


def _places() -> List[Path]:
    """Where the library may be, in the order in which it is looked for."""
    own = os.environ.get("PU_LIBRARY")
    if own:
        return [Path(own)]
    names = ["libpu.so"]
    if sys.platform == "darwin":
        names = ["libpu.dylib", "libpu.so"]
    if sys.platform == "win32":
        names = ["pu.dll"]
    places = [_HERE / name for name in names]
    tree = _tree()
    if tree:
        places += [tree / "build" / "lib" / name for name in names]
    return places


def _tree() -> Optional[Path]:
    """The source tree of pu where this package lies in one, as examples/python/pu."""
    if len(_HERE.parents) < 3:
        return None
    top = _HERE.parents[2]
    return top if (top / "pu.h").is_file() and (top / "build.sh").is_file() else None


def _open() -> Tuple[ctypes.CDLL, Path]:
    places = _places()
    for place in places:
        if place.is_file():
            try:
                return ctypes.CDLL(str(place)), place
            except OSError as error:
                raise LibraryError(f"{place} cannot be loaded: {error}") from error
    if os.environ.get("PU_LIBRARY"):
        raise LibraryError(f"PU_LIBRARY names {places[0]}, and there is no such file")
    tree = _tree()
    if tree:
        fix = f"build it by  {tree}/build.sh lib  or install the package by  pip install {tree}/examples/python"
    else:
        fix = "install the package again by  pip install PATH_OF_PU/examples/python, or name the library by PU_LIBRARY"
    raise LibraryError(f"pu's compiled library is not there ({', '.join(map(str, places))}); {fix}")


class _Api:
    """The functions of one precision: api.fit is pu_flat_fit or puf_flat_fit."""

    # name: result, arguments; h a handle, s a text, n a pu_int, a an array, d a double, i an int, u uint64_t, z size_t, c a callback
    DECLARED = {
        "new": "h s",
        "free": "- h",
        "set_number": "i h s d",
        "set_text": "i h s s",
        "set_array": "i h s a i n",
        "data": "i h n n a i n n",
        "mask": "i h a n n",
        "lists": "i h n n a a i a i",
        "progress": "i h c a",
        "start": "i h a",
        "fit": "i h a",
        "gradient": "i h a a a",
        "nll": "i h a",
        "posterior": "i h a a a",
        "predict": "i h a a a a",
        "simulate": "i h a n u a a",
        "errors": "i h a a",
        "save": "i h a s s",
        "load": "i h s a",
        "number": "d h s",
        "text": "s h s",
        "param_name": "s h n",
        "param_scale": "i h n",
        "param_natural": "d h n d",
    }
    TYPES = {"h": c_void_p, "s": c_char_p, "n": c_ssize_t, "a": c_void_p, "d": c_double, "i": c_int, "u": c_uint64, "c": _STEP, "z": c_size_t, "-": None}

    def __init__(self, library: ctypes.CDLL, path: Path, prefix: str, real: Any) -> None:
        self.prefix = prefix
        self.dtype = np.dtype(real)
        abi = self._function(library, path, "abi", "i")()  # before all else: of another library nothing else is known
        if abi != ABI:
            raise LibraryError(f"{path} is a library of another pu: its PU_ABI is {abi}, this package is for {ABI}; {_again()}")
        sizeof = self._function(library, path, "sizeof", "z s")
        for name, bytes_here in (("pu_real", self.dtype.itemsize), ("pu_int", ctypes.sizeof(c_ssize_t))):
            there = sizeof(name.encode())
            if there != bytes_here:
                raise LibraryError(f"{path}: {name} has {there} bytes there, {bytes_here} here; {_again()}")
        self.version = self._function(library, path, "version", "s")
        for name, form in self.DECLARED.items():
            setattr(self, name, self._function(library, path, "flat_" + name, form))

    def _function(self, library: ctypes.CDLL, path: Path, name: str, form: str) -> Any:
        """A function of the library with its types."""
        try:
            function = getattr(library, f"{self.prefix}_{name}")
        except AttributeError as error:
            raise LibraryError(f"{path} is no library of pu in {self.dtype.name}: {error}") from error
        result, *arguments = form.split()
        function.restype = self.TYPES[result]
        function.argtypes = [self.TYPES[a] for a in arguments]
        return function

    def __getattr__(self, name: str) -> Any:  # for type checkers: the functions are attributes
        raise AttributeError(name)


def _again() -> str:
    return "build the library and the package from one tree (./build.sh lib, or pip install again)"


_library, library_path = _open()
_apis: Dict[str, _Api] = {"double": _Api(_library, library_path, "pu", np.float64)}


def api(precision: str = "double") -> _Api:
    """The functions of a precision, "double" or "float"."""
    if precision not in ("double", "float"):
        raise ArgumentError(f"precision is {precision!r}; there are: 'double' 'float'")
    if precision not in _apis:
        _apis[precision] = _Api(_library, library_path, "puf", np.float32)
    return _apis[precision]


_is_child = False  # of a fork


def _after_fork() -> None:
    """A process that was forked has lost the threads of gcc's OpenMP and would wait for them for ever: it works with one. Results do not
    depend on the number of threads."""
    global _is_child
    _is_child = True
    try:
        _library.omp_set_num_threads(1)
    except AttributeError:
        pass  # a library without OpenMP


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def version() -> str:
    """The version of the compiled library."""
    return str(api().version().decode())


# ---- arrays and texts on their way to the library ----


def _text(what: str, value: Any) -> bytes:
    """A text as C wants it."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    raw = value if isinstance(value, bytes) else os.fsencode(value) if isinstance(value, str) else None
    if raw is None:
        raise ArgumentTypeError(f"{what}: a text is wanted, not {type(value).__name__}")
    if b"\0" in raw:
        raise ArgumentError(f"{what}: there is a zero byte in the text")
    return raw


def typed(what: str, values: Any) -> Tuple[np.ndarray, int]:
    """An array of a type that the library reads, copied only where it is of another one, and the letter of that type."""
    array = np.asanyarray(values)
    if isinstance(array, np.ma.MaskedArray):
        if np.ma.is_masked(array):
            raise ArgumentError(f"{what}: entries are masked, which makes sense for y alone")
        array = array.data
    kind = array.dtype.kind
    if kind not in "fiub":
        raise ArgumentTypeError(f"{what}: an array of numbers is wanted, not one of {array.dtype}")
    if array.dtype.name not in _CODES or not array.dtype.isnative:
        if kind == "f":
            array = array.astype(np.float64)
        else:
            whole = array.astype(np.int64)
            if kind == "u" and array.size and array.max() > np.uint64(2**63 - 1):
                raise ArgumentError(f"{what}: an entry is larger than 2^63")
            array = whole
    return array, ord(_CODES[array.dtype.name])


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)) or (
        isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "fiub"
    )


class Progress:
    """Where a fit stands, for the function that is called after every step: `now.step`, `now.objective`, .. and any number of the
    flat layer by `now.number(name)`. It lives as long as that call."""

    def __init__(self, handle: "Handle") -> None:
        self._handle = handle

    def number(self, name: str) -> float:
        """A number of the fit by its name in pu.h."""
        return self._handle.number(name)

    @property
    def step(self) -> int:
        """Steps done."""
        return int(self.number("steps"))

    @property
    def objective(self) -> float:
        """Negative log-likelihood per datum, and the penalty, of the last step."""
        return self.number("objective")

    @property
    def objective_se(self) -> float:
        """Its standard error over probes; 0: exact, -1: not known."""
        return self.number("objective_se")

    @property
    def gradient(self) -> float:
        """The length of the gradient."""
        return self.number("gradient")

    @property
    def gradients(self) -> int:
        """Gradients computed."""
        return int(self.number("gradients"))

    @property
    def start(self) -> int:
        """Which of the starts this is, from 0."""
        return int(self.number("start"))

    def __repr__(self) -> str:
        return f"step {self.step}: objective {self.objective:.6g}, |gradient| {self.gradient:.3g}"


class _Interrupts:
    """While a fit runs Ctrl-C is counted instead of raised, for an exception would vanish in C. Only where Python's own handler is
    in place and on the thread that gets signals."""

    def __init__(self) -> None:
        self.count = 0
        self._before: Any = None

    def _count(self, number: int, frame: Any) -> None:
        self.count += 1

    def __enter__(self) -> "_Interrupts":
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._count)
        return self

    def __exit__(self, *_: Any) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)


class Handle:
    """A model, its data and options: one handle of the library, freed when nothing refers to it any more.

    >>> h = Handle("ppca").set("rows", 3).set("latent", 1)
    >>> h.data([[1.0, 2.0, 0.5], [0.0, float("nan"), 1.0], [2.0, 4.5, 0.1]])
    >>> theta = h.fit(h.start())
    >>> [name for name, scale in h.params]
    ['Phi[0,0]', 'Phi[1,0]', 'Phi[2,0]', 'eta[0]', 'eta[1]', 'eta[2]', 'beta']

    A handle does one thing at a time: a second thread waits. Different handles run at once, the GIL is released.
    """

    def __init__(self, kind: str, precision: str = "double") -> None:
        self._api = api(precision)
        self._f = self._api.new(_text("kind", kind))
        if not self._f:
            raise OutOfMemoryError("no memory for a handle")
        self._free = weakref.finalize(self, self._api.free, self._f)
        self._lock = threading.RLock()
        self._fitting = False
        self.kind = kind
        self.precision = precision
        self.dtype = self._api.dtype
        self.interrupted = False  # the last fit was ended by Ctrl-C
        self._is_single = False  # told to work with one thread, after a fork

    def _begin(self) -> None:
        """Before a call that computes."""
        if self._fitting:
            raise Error("a progress function may ask for numbers; it must not call the handle whose fit is running")
        if _is_child and not self._is_single:
            self._api.set_number(self._f, b"threads", 1.0)
            self._is_single = True

    # -- calls --

    def _call(self, function: Callable[..., int], *arguments: Any) -> None:
        """Calls the library. Raises what was refused; a status that is a reservation becomes a warning."""
        # The lock is not for the library's sake alone: the status and its text must be those of this call.
        with self._lock:
            self._begin()
            status = function(self._f, *arguments)
            if status == 0:
                return
            name = self.text("status")
            text = self._named(self.text("explain"))
        if name not in WRITTEN:
            raise error_of(status, name, text)
        warn(text)

    def _named(self, text: str) -> str:
        """An entry of theta by its name, too."""
        found = re.search(r"\btheta, index (\d+)", text)
        name = self._api.param_name(self._f, int(found.group(1))).decode("utf-8", "replace") if found else ""
        return f"{text} ({name})" if name else text

    def _theta(self, theta: Any) -> np.ndarray:
        """theta as the library wants it; only of the right length may it be read."""
        array = np.ascontiguousarray(typed("theta", theta)[0], dtype=self.dtype)
        if array.ndim != 1 or array.size != self.size("params"):
            raise ArgumentError(f"theta has shape {array.shape}, this model has {self.size('params')} parameters")
        return array

    def _room(self, *shape: int) -> np.ndarray:
        return np.empty(shape, dtype=self.dtype)

    @staticmethod
    def _at(array: Optional[np.ndarray]) -> Optional[int]:
        return None if array is None else array.ctypes.data

    # -- what goes in --

    def set(self, key: str, value: Any) -> "Handle":
        """A key's value: a number, a text or an array, by the type of value. Returns the handle."""
        name = _text("key", key)
        if isinstance(value, (str, bytes, os.PathLike)):
            self._call(self._api.set_text, name, _text(key, value))
        elif _is_number(value):
            number = float(value)
            if not isinstance(value, (float, np.floating)) and int(number) != int(value):
                raise ArgumentError(f"{key} is {value}; whole numbers up to 2^53 can be given")
            self._call(self._api.set_number, name, number)
            if key == "threads":
                self._is_single = False
        else:
            array, code = typed(key, value)
            array = np.ascontiguousarray(array)
            self._call(self._api.set_array, name, array.ctypes.data, code, array.size)
        return self

    def data(self, y: Any, mask: Any = None) -> None:
        """y with one datum per row, NaN where it is missing; mask: True where it was observed."""
        array, code = typed("y", y)
        if array.ndim != 2:
            raise ArgumentError(f"y has {array.ndim} axes; wanted are 2: one datum per row")
        seen = None
        if mask is not None:
            seen = np.asarray(mask)
            if seen.dtype != np.bool_ or seen.shape != array.shape:
                raise ArgumentError(f"mask is {seen.dtype} of shape {seen.shape}; wanted: bool of shape {array.shape}, as y")
        with self._lock:
            self._call(self._api.data, *array.shape, array.ctypes.data, code, *array.strides)
            if seen is not None:
                self._call(self._api.mask, seen.ctypes.data, *seen.strides)

    def lists(self, csr: Any) -> None:
        """y as a sparse matrix in rows (scipy.sparse.csr_matrix, csr_array): stored entries are observed, all others missing."""
        if not csr.has_canonical_format:
            csr = csr.copy()
            csr.sum_duplicates()
        start, code = typed("indptr", csr.indptr)
        index, other = typed("indices", csr.indices)
        if code != other:
            start = start.astype(np.int64)
            index = index.astype(np.int64)
            code = ord("l")
        values, form = typed("y", csr.data)
        start, index, values = (np.ascontiguousarray(a) for a in (start, index, values))
        self._call(self._api.lists, *csr.shape, start.ctypes.data, index.ctypes.data, code, values.ctypes.data, form)

    # -- what comes out --

    def start(self) -> np.ndarray:
        """A start for these data."""
        theta = self._room(self.size("params"))
        self._call(self._api.start, theta.ctypes.data)
        return theta

    def fit(self, theta: Any, progress: Optional[Callable[[Progress], Any]] = None) -> np.ndarray:
        """The maximum likelihood estimate, from theta on. progress(now) is called after every step; true ends the fit.

        Ctrl-C ends the fit after its current step: the best theta so far is returned, with a warning, and `interrupted` is set; twice,
        KeyboardInterrupt is raised. What the progress function raises ends the fit and is raised from here.
        """
        result: np.ndarray = self._theta(theta).copy()
        raised: List[BaseException] = []
        with self._lock, _Interrupts() as interrupts:
            self._begin()

            def step(_f: int, _user: int) -> int:
                # Nothing may leave this function but a number: an exception would be printed and forgotten.
                try:
                    if interrupts.count:
                        return 1
                    return 1 if progress is not None and progress(Progress(self)) else 0
                except BaseException as error:  # noqa: B902, it is raised again below
                    raised.append(error)
                    return 1

            called = _STEP(step)
            self._api.progress(self._f, called, None)
            self._fitting = True
            try:
                status = self._api.fit(self._f, result.ctypes.data)
            finally:
                self._fitting = False
                self._api.progress(self._f, _STEP(), None)
            name = self.text("status")
            text = self._named(self.text("explain"))
        self.interrupted = interrupts.count > 0
        if raised:
            raise raised[0]
        if interrupts.count > 1:
            raise KeyboardInterrupt
        if status != 0 and name not in WRITTEN:
            failure = error_of(status, name, text)
            failure.theta = result
            raise failure
        if self.interrupted:
            warn(f"stopped by Ctrl-C after {int(self.number('steps'))} steps; the result is the best so far. {text}")
        elif status != 0:
            warn(text)
        return result

    def gradient(self, theta: Any, errors: bool = False) -> Any:
        """The gradient of the mean negative log-likelihood; errors: (gradient, its standard errors over the probes, 0 where exact)."""
        at = self._theta(theta)
        grad = self._room(at.size)
        se = self._room(at.size) if errors else None
        self._call(self._api.gradient, at.ctypes.data, grad.ctypes.data, self._at(se))
        return (grad, se) if errors else grad

    def nll(self, theta: Any) -> Tuple[float, float]:
        """The negative log-likelihood per datum and its standard error (0: exact, -1: not known)."""
        at = self._theta(theta)
        with self._lock:
            self._call(self._api.nll, at.ctypes.data)
            return self.number("nll"), self.number("nll_se")

    def posterior(self, theta: Any, variance: bool = True) -> Tuple[np.ndarray, Optional[np.ndarray]]:
        """Mean and variance of the latent variables given the data: (data x latent) each, None: not wanted. See `predict`."""
        at = self._theta(theta)
        with self._lock:
            shape = (self.size("data"), self.size("latent"))
            mean = self._room(*shape)
            var = self._room(*shape) if variance else None
            self._call(self._api.posterior, at.ctypes.data, mean.ctypes.data, self._at(var))
        return mean, var

    def predict(self, theta: Any, variance: bool = True) -> Tuple[np.ndarray, Optional[np.ndarray], Optional[np.ndarray]]:
        """Of every entry of y, observed or not: mean, variance of the noiseless value (fit), variance of a new observation.

        number("exact") then tells whether the variances are exact or estimates from probes."""
        at = self._theta(theta)
        with self._lock:
            shape = (self.size("data"), self.size("rows"))
            mean = self._room(*shape)
            fit = self._room(*shape) if variance else None
            var = self._room(*shape) if variance else None
            self._call(self._api.predict, at.ctypes.data, mean.ctypes.data, self._at(fit), self._at(var))
        return mean, fit, var

    def simulate(self, theta: Any, n: int, seed: int = 0) -> Tuple[np.ndarray, np.ndarray]:
        """n draws of (z, y): n x latent and n x rows."""
        at = self._theta(theta)
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
            raise ArgumentError(f"n is {n!r}; wanted is a whole number from 1 on")
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**64:
            raise ArgumentError(f"seed is {seed!r}; wanted is a whole number from 0 to 2^64 - 1")
        z = self._room(int(n), self.size("latent"))
        y = self._room(int(n), self.size("rows"))
        self._call(self._api.simulate, at.ctypes.data, int(n), int(seed), z.ctypes.data, y.ctypes.data)
        return z, y

    def errors(self, theta: Any) -> np.ndarray:
        """Standard errors of theta, on its own scale; NaN, with a warning, where the data do not identify a parameter."""
        at = self._theta(theta)
        se = self._room(at.size)
        self._call(self._api.errors, at.ctypes.data, se.ctypes.data)
        return se

    def save(self, theta: Any, path: Any, notes: str = "") -> None:
        """Writes theta and what it is of to a file, which is replaced whole."""
        at = self._theta(theta)
        self._call(self._api.save, at.ctypes.data, _text("notes", notes.encode()), _text("path", path))

    def load(self, path: Any) -> np.ndarray:
        """theta from a file of such a model."""
        theta = self._room(self.size("params"))
        self._call(self._api.load, _text("path", path), theta.ctypes.data)
        return theta

    def number(self, name: str) -> float:
        """A number by its name (see pu_flat_number); NaN: not known."""
        with self._lock:
            return float(self._api.number(self._f, _text("name", name)))

    def size(self, name: str) -> int:
        """A number that must be known: params, latent, rows or data. Makes the model, and raises what is wrong with it."""
        with self._lock:
            value = self.number(name)
            if value == value:
                return int(value)
            raise error_of(int(self.number("status")), self.text("status"), self.text("explain"))

    def text(self, name: str) -> str:
        """A text by its name (see pu_flat_text); "": not known."""
        with self._lock:
            return str(self._api.text(self._f, _text("name", name)).decode("utf-8", "replace"))

    @property
    def params(self) -> List[Tuple[str, str]]:
        """Name and scale (free, log, atanh, logit) of every entry of theta."""
        with self._lock:
            count = self.size("params")
            names = [self._api.param_name(self._f, i).decode("utf-8", "replace") for i in range(count)]
            return [(name, SCALES[self._api.param_scale(self._f, i)]) for i, name in enumerate(names)]

    def natural(self, theta: Any) -> np.ndarray:
        """theta on the natural scale: variances instead of their logarithms."""
        at = self._theta(theta)
        with self._lock:
            return np.array([self._api.param_natural(self._f, i, float(x)) for i, x in enumerate(at)], dtype=np.float64)
