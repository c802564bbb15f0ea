"""pu: maximum likelihood in latent Gaussian models without matrix inversion."""

from ._errors import Error, PuWarning
from ._flat import Handle

_ESTIMATORS = ("FactorAnalysis", "PPCA", "BayesianRegression", "SparseBayes", "MixedEffects", "NoisyAR", "StructuralSeries")


def __getattr__(name: str) -> object:
    """The estimators, which need scikit-learn, are imported when they are asked for."""
    if name in _ESTIMATORS:
        from . import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list:
    return sorted(set(globals()) | set(_ESTIMATORS))
