"""pu: maximum likelihood in latent Gaussian models without matrix inversion.

    import numpy as np, pu
    y = np.loadtxt("table.csv", delimiter=",")          # one datum per row, NaN where an entry is missing
    fit = pu.fit(pu.factors(latent=2), y)
    print(fit)                                          # did it converge, the likelihood, the parameters
    filled = fit.impute()                               # gaps filled with the model's means

Models: `factors`, `ppca`, `sparse`, `regression`, `neural`, `noisy_ar`, `state_space`, `dynamic_factors`, `structural`, `field`, `effects`.
`fit` fits one, `at` looks at one at a given theta, `load` reads one from a file; all give a `Fit`. `Handle` is the layer below.
Whatever is refused is a `pu.Error` (and a ValueError, TypeError, MemoryError, OSError where it is one); what holds with a reservation
comes with a `pu.PuWarning`.
"""

from ._errors import (
    ArgumentError,
    ArgumentTypeError,
    Error,
    FileError,
    LibraryError,
    NumberError,
    OutOfMemoryError,
    PuWarning,
    UnsupportedError,
)
from ._fit import OPTIONS, Draws, Fit, Gradient, Posterior, Prediction, at, fit, load
from ._flat import Handle, Progress, library_path, version
from ._models import (
    Model,
    dynamic_factors,
    effects,
    factors,
    field,
    neural,
    noisy_ar,
    ppca,
    regression,
    sparse,
    state_space,
    structural,
)

__version__ = version()
__all__ = [name for name in dir() if not name.startswith("_")]

# Not in __all__: `from pu import *` works without scikit-learn.
_ESTIMATORS = ("FactorAnalysis", "PPCA", "BayesianRegression", "SparseBayes", "MixedEffects", "NoisyAR", "StructuralSeries")


def __getattr__(name: str) -> object:
    """The estimators, which need scikit-learn, are imported when they are asked for."""
    if name in _ESTIMATORS:
        from . import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> "list[str]":
    return sorted(set(globals()) | set(_ESTIMATORS))
