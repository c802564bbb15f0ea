"""Estimators in scikit-learn's manner. They need scikit-learn 1.6 or later; the rest of `pu` does without it.

    table with gaps     FactorAnalysis, PPCA           fit, transform, impute, score, sample
    regression          BayesianRegression, SparseBayes, MixedEffects    fit, predict(return_std), score
    series              NoisyAR, StructuralSeries      fit, predict(return_std), forecast(steps, return_std), score

NaN marks a gap (so does the mask of a numpy.ma array) in tables, in series and in the y of a regression. Every parameter that all of
them have:

    max_iter      most steps of the optimiser
    options       options of pu.h by key, for example {"engine": "iterative", "kind": "network", "samples": 20}. Without them all
                  calls but MixedEffects' are exact, so that a score has no noise
    n_jobs        threads; None: as many as pay, -1: all
    random_state  seed of starts and draws. An integer makes results repeat to the bit
    progress      None, or a function that is called after every step (see pu.Handle.fit); true ends the fit

After a fit: `n_iter_`, `converged_`, `n_boundaries_` (parameters that ran to their boundary, a variance to 0, say: the data do as
well without), `fit_report_` (the fit in one line) and `log_likelihood_` of the data that were fitted.
"""

from __future__ import annotations

import os
import warnings
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, RegressorMixin, TransformerMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils import check_array, check_consistent_length, check_random_state, column_or_1d
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as _error:
    raise ImportError(f"the estimators of pu need scikit-learn 1.6 or later (pip install scikit-learn): {_error}") from _error

from ._errors import PuWarning
from ._flat import Handle, Progress

__all__ = ["FactorAnalysis", "PPCA", "BayesianRegression", "SparseBayes", "MixedEffects", "NoisyAR", "StructuralSeries"]

# A noise variance is kept above this part of the variance of its variable: below, rounding takes the digits.
SMALLEST_NOISE = 1e-8
# The noise variance of a column that does not vary at all, as scikit-learn's FactorAnalysis has it.
CONSTANT_NOISE = 1e-12


# ---- what all of them share ----


def _whole(name: str, value: Any, least: int) -> int:
    """A parameter that is a whole number from `least` on."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name}={value!r}: a whole number from {least} on is wanted")
    return int(value)


def _unmask(X: Any) -> Any:
    """NaN in the masked places of a masked array, whose mask scikit-learn would drop without a word."""
    if isinstance(X, np.ma.MaskedArray):
        return np.ma.filled(X.astype(np.float64), np.nan)
    return X


def _like(X: Any, values: np.ndarray) -> Any:
    """values in a DataFrame like X, where X is one."""
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        import pandas

        return pandas.DataFrame(values, index=X.index, columns=X.columns)
    return values


class _Estimator(BaseEstimator):
    """Options, seeds, the fit and its end. A handle of the library lives as long as one call, so that an estimator is arrays and
    parameters alone: it can be copied, pickled and sent to other processes."""

    _exact = True

    def _set_common(self, max_iter: int, options: Any, n_jobs: Any, random_state: Any, progress: Any) -> None:
        self.max_iter = max_iter
        self.options = options
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    def _handle(self, kind: str, **keys: Any) -> Handle:
        """A handle with this model and all options."""
        handle = Handle(kind)
        for key, value in keys.items():
            handle.set(key, value)
        if self._exact:
            handle.set("kind", "exact")
        if self.n_jobs is not None:
            jobs = self.n_jobs
            if isinstance(jobs, bool) or not isinstance(jobs, (int, np.integer)) or jobs == 0:
                raise ValueError(f"n_jobs={jobs!r}: None, a whole number from 1 on, or a negative one (-1: all processors) is wanted")
            handle.set("threads", jobs if jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + jobs))
        handle.set("seed", self._seed(self.random_state))
        if self.options is not None:
            if not isinstance(self.options, Mapping):
                raise ValueError(f"options={self.options!r}: a dict of options of pu.h is wanted")
            for key, value in self.options.items():
                handle.set(key, value)
        return handle

    @staticmethod
    def _seed(random_state: Any) -> int:
        if isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool) and random_state >= 0:
            return int(random_state)
        return int(check_random_state(random_state).randint(2**31 - 1))

    def _run(self, handle: Handle) -> np.ndarray:
        """Fits, and keeps what came of it."""
        handle.set("steps", _whole("max_iter", self.max_iter, 1))
        return self._run_from(handle, handle.start())

    def _run_from(self, handle: Handle, theta: np.ndarray) -> np.ndarray:
        objectives: List[float] = []
        tolerance = getattr(self, "tol", 0)
        at_rest = False

        def step(now: Progress) -> bool:
            nonlocal at_rest
            if self.progress is not None and self.progress(now):
                return True
            if tolerance > 0 and now.objective_se == 0:
                objectives.append(now.objective)
                at_rest = len(objectives) > 10 and objectives[-11] - objectives[-1] < tolerance
            return at_rest

        theta = handle.fit(theta, step)
        stopped = handle.text("stop") == "stopped by the caller"
        self._interrupted = handle.interrupted or (stopped and not at_rest)
        self.n_iter_ = max(1, int(handle.number("steps")))
        self.converged_ = handle.number("converged") == 1 or (at_rest and stopped and not handle.interrupted)
        self.n_boundaries_ = int(handle.number("boundaries"))
        self.fit_report_ = handle.text("fit")
        return theta

    def _run_within(self, handle: Handle, pull_back: Optional[Callable[[np.ndarray], Any]]) -> np.ndarray:
        """Fits where a noise may run to 0, which costs digits on the way. Whoever calls this takes such a noise back, so that what is kept
        has its digits, and nothing is said about those. Where rounding left no step to take, pull_back(theta) takes theta back from the
        boundary, and the fit goes on; None: it does not."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PuWarning)
            theta = self._run(handle)
            for _ in range(3):
                if pull_back is None or self.converged_ or self._interrupted or self.n_iter_ >= self.max_iter:
                    break
                pull_back(theta)
                before = self.n_iter_
                theta = self._run_from(handle, theta)
                self.n_iter_ += before
        return theta

    def _warn_unless_converged(self, why: str = "") -> None:
        if not self.converged_:
            text = f"{type(self).__name__} did not converge (max_iter={self.max_iter}){why}: {self.fit_report_}"
            warnings.warn(text, ConvergenceWarning, stacklevel=3)


# ---- tables with gaps: factors ----


class _Factors(ClassNamePrefixFeaturesOutMixin, TransformerMixin, _Estimator):
    """What FactorAnalysis and PPCA share: y = components_' z + mean_ + noise, z ~ N(0, I)."""

    _kind = ""
    components_: np.ndarray
    mean_: np.ndarray
    noise_variance_: Any

    def __init__(
        self,
        n_components: Optional[int] = None,
        *,
        tol: float = 1e-6,
        max_iter: int = 1000,
        options: Optional[Mapping[str, Any]] = None,
        n_jobs: Optional[int] = None,
        random_state: Any = 0,
        progress: Any = None,
    ) -> None:
        self.n_components = n_components
        self.tol = tol
        self._set_common(max_iter, options, n_jobs, random_state, progress)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _check(self, X: Any, reset: bool) -> np.ndarray:
        return validate_data(
            self,
            _unmask(X),
            reset=reset,
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan",
            ensure_min_samples=2 if reset else 1,
        )

    def _default_components(self, features: int) -> int:
        raise NotImplementedError

    def _choose_components(self, samples: int, features: int) -> int:
        """n_components, where the likelihood has a maximum."""
        if self.n_components is None:
            return max(1, min(self._default_components(features), samples - 2))
        k = _whole("n_components", self.n_components, 1)
        if k > features:
            raise ValueError(f"n_components={k} is more than the {features} features of X; choose at most {features}")
        if samples - 1 <= k < features:
            raise ValueError(
                f"n_components={k} explains n_samples={samples} rows of {features} features without noise, and the likelihood has no "
                f"maximum; choose n_components below n_samples - 1 = {samples - 1}"
            )
        return k

    def fit(self, X: Any, y: Any = None) -> Any:
        """Maximum likelihood. X: rows are samples, NaN marks a gap; y is not used."""
        X = np.asarray(self._check(X, reset=True), dtype=np.float64)
        samples, features = X.shape
        if not self.tol >= 0:
            raise ValueError(f"tol={self.tol!r}: a number from 0 on is wanted")
        k = self._choose_components(samples, features)
        seen = ~np.isnan(X)
        if not seen.any(axis=0).all():
            names = getattr(self, "feature_names_in_", None)
            empty = [str(j) if names is None else repr(names[j]) for j in np.flatnonzero(~seen.any(axis=0))[:5]]
            raise ValueError(f"columns without any observed value: {', '.join(empty)}; leave them out")
        center = np.nanmean(X, axis=0)
        spread = np.nanstd(X, axis=0)
        varies = spread > 8 * np.finfo(float).eps * np.abs(center)
        varies &= np.nanmax(X, axis=0) > np.nanmin(X, axis=0)
        if not varies.any():
            raise ValueError("every feature is constant: there is nothing to fit")
        self._fit_scaled(X, k, center, np.where(varies, spread, 0.0))
        self._turn()
        handle = self._fitted_handle(X)
        self.log_likelihood_ = -handle.nll(self._theta())[0] * samples
        self._tell(spread)
        return self

    def _tell(self, spread: np.ndarray) -> None:
        """Warns where the fit has no good end."""
        self._warn_unless_converged()

    def _fit_scaled(self, X: np.ndarray, k: int, center: np.ndarray, spread: np.ndarray) -> None:
        raise NotImplementedError

    def _turn(self) -> None:
        """Factors are known up to a rotation. This one makes them independent given the data, the best known first, each with its
        largest loading positive."""
        noise = np.broadcast_to(self.noise_variance_, self.mean_.shape)
        _, _, across = np.linalg.svd((self.components_ / np.sqrt(noise)).T, full_matrices=False)
        turned = across @ self.components_
        largest = turned[np.arange(len(turned)), np.argmax(np.abs(turned), axis=1)]
        self.components_ = turned * np.where(largest < 0, -1.0, 1.0)[:, None]

    def _noises(self) -> np.ndarray:
        return np.atleast_1d(self.noise_variance_)

    def _theta(self) -> np.ndarray:
        """The model in the library's parameters: loadings, means, log precision of the noise."""
        return np.concatenate([self.components_.T.ravel(), self.mean_, -np.log(self._noises())])

    def _fitted_handle(self, X: np.ndarray) -> Handle:
        handle = self._handle(self._kind, rows=self.mean_.size, latent=len(self.components_))
        handle.data(np.asarray(X, dtype=np.float64))
        return handle

    def transform(self, X: Any) -> np.ndarray:
        """Posterior means of the factors given the observed entries of each row."""
        check_is_fitted(self)
        X = self._check(X, reset=False)
        mean, _ = self._fitted_handle(X).posterior(self._theta(), variance=False)
        return mean.astype(X.dtype, copy=False)

    def inverse_transform(self, Z: Any) -> np.ndarray:
        """The noiseless table that belongs to factors Z."""
        check_is_fitted(self)
        Z = check_array(Z, dtype=[np.float64, np.float32])
        if Z.shape[1] != len(self.components_):
            raise ValueError(f"Z has {Z.shape[1]} columns, but there are {len(self.components_)} factors")
        return (Z @ self.components_ + self.mean_).astype(Z.dtype, copy=False)

    def impute(self, X: Any, return_std: bool = False) -> Any:
        """X with its gaps filled by their expectation given the observed entries of the row. return_std: also the standard deviation
        of what was filled in, 0 where X was observed. A DataFrame gives DataFrames."""
        check_is_fitted(self)
        given = X
        X = self._check(X, reset=False)
        gap = np.isnan(X)
        mean, _, variance = self._fitted_handle(X).predict(self._theta(), variance=return_std)
        filled = _like(given, np.where(gap, mean.astype(X.dtype), X))
        if variance is None:
            return filled
        return filled, _like(given, np.where(gap, np.sqrt(variance), 0.0).astype(X.dtype))

    def score_samples(self, X: Any) -> np.ndarray:
        """Log-likelihood of the observed entries of each row."""
        check_is_fitted(self)
        X = np.asarray(self._check(X, reset=False), dtype=np.float64)
        seen = ~np.isnan(X)
        noise = np.broadcast_to(self.noise_variance_, self.mean_.shape)
        result = np.empty(len(X))
        # Rows with the same gaps share a factorisation of the size of n_components.
        _, pattern = np.unique(np.packbits(seen, axis=1), axis=0, return_inverse=True)
        order = np.argsort(pattern.ravel(), kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(pattern.ravel()[order])) + 1):
            here = seen[rows[0]]
            loadings = self.components_[:, here]
            weighted = loadings / noise[here]
            root = np.linalg.cholesky(np.eye(len(loadings)) + weighted @ loadings.T)
            error = X[np.ix_(rows, here)] - self.mean_[here]
            square = (error**2 / noise[here]).sum(axis=1) - (np.linalg.solve(root, weighted @ error.T) ** 2).sum(axis=0)
            logdet = 2 * np.log(np.diag(root)).sum() + np.log(noise[here]).sum()
            result[rows] = -0.5 * (square + logdet + here.sum() * np.log(2 * np.pi))
        return result

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of the rows of X; of a row with gaps, that of its observed entries."""
        check_is_fitted(self)
        X = self._check(X, reset=False)
        return -self._fitted_handle(X).nll(self._theta())[0]

    def bic(self, X: Any) -> float:
        """Bayesian information criterion on X: the lower the better. It chooses n_components without a validation set."""
        k, features = self.components_.shape
        free = features * k - k * (k - 1) // 2 + features + self._noises().size
        samples = np.shape(X)[0]
        return -2 * samples * self.score(X) + free * float(np.log(samples))

    def get_covariance(self) -> np.ndarray:
        """Covariance of a row by the model."""
        check_is_fitted(self)
        noise = np.broadcast_to(self.noise_variance_, self.mean_.shape)
        return self.components_.T @ self.components_ + np.diag(noise)

    def get_precision(self) -> np.ndarray:
        """Its inverse."""
        check_is_fitted(self)
        noise = np.broadcast_to(self.noise_variance_, self.mean_.shape)
        weighted = self.components_ / noise
        inner = np.eye(len(weighted)) + weighted @ self.components_.T
        return np.diag(1 / noise) - weighted.T @ np.linalg.solve(inner, weighted)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Rows drawn from the model; random_state: in place of the estimator's."""
        check_is_fitted(self)
        handle = self._handle(self._kind, rows=self.mean_.size, latent=len(self.components_))
        seed = self._seed(self.random_state if random_state is None else random_state)
        return handle.simulate(self._theta(), _whole("n_samples", n_samples, 1), seed)[1]

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


class FactorAnalysis(_Factors):
    """Factor analysis of a table with gaps: x = components_' z + mean_ + noise, each feature with a noise variance of its own.

    Parameters: `n_components`, the number of factors (None: as many as can be identified, which is seldom what is wanted); `tol`: a fit
    ends when ten steps have gained less than that in the log-likelihood of a row (0: when pu.h says so); and those in the head of this
    module.

    Attributes: `components_` (n_components x n_features, the loadings), `mean_`, `noise_variance_` (n_features), `log_likelihood_`.
    A feature that does not vary has no loadings and the noise variance 1e-12. A noise variance that runs to 0 (a Heywood case) is kept
    at 1e-8 of its feature's variance.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 1)) @ [[1.0, 2.0, -1.0, 0.5]] + 0.3 * rng.normal(size=(200, 4))
    >>> X[::3, 1] = np.nan
    >>> model = FactorAnalysis(n_components=1).fit(X)
    >>> model.transform(X).shape
    (200, 1)
    >>> bool(abs(model.impute(X)[0, 1] - 2 * X[0, 0]) < 1.5)
    True
    """

    _kind = "factors"

    def _default_components(self, features: int) -> int:
        # Ledermann's bound: with more factors there are more parameters than covariances.
        return int((2 * features + 1 - np.sqrt(8 * features + 1)) / 2 + 1e-9)

    def _tell(self, spread: np.ndarray) -> None:
        gone = np.flatnonzero((self.noise_variance_ <= 1.01 * SMALLEST_NOISE * spread**2) & (spread > 0))
        self._warn_unless_converged(f", the noise of columns {gone[:5].tolist()} runs to 0; are some of them equal?" if gone.size else "")

    def _fit_scaled(self, X: np.ndarray, k: int, center: np.ndarray, spread: np.ndarray) -> None:
        """The fit of features of variance 1. Those that do not vary stay out: their likelihood has no maximum."""
        active = spread > 0
        scale = spread[active]
        inner = min(k, scale.size)
        handle = self._handle(self._kind, rows=scale.size, latent=inner)
        handle.data((X[:, active] - center[active]) / scale)
        theta = self._run_within(handle, lambda theta: np.minimum(theta[-scale.size :], np.log(1e4), out=theta[-scale.size :]))
        loadings = theta[: scale.size * inner].reshape(scale.size, inner)
        means = theta[scale.size * inner :][: scale.size]
        noise = np.maximum(np.exp(-theta[-scale.size :]), SMALLEST_NOISE)
        self.components_ = np.zeros((k, spread.size))
        self.components_[:inner, active] = (loadings * scale[:, None]).T
        self.mean_ = center.copy()
        self.mean_[active] += means * scale
        self.noise_variance_ = np.full(spread.size, CONSTANT_NOISE)
        self.noise_variance_[active] = noise * scale**2


class PPCA(_Factors):
    """Probabilistic principal component analysis of a table with gaps: x = components_' z + mean_ + noise, one noise variance for all.

    Without gaps this is the closed form of Tipping and Bishop. `components_` are loadings: their rows are orthogonal, of length
    sqrt(eigenvalue - noise), not 1 as in scikit-learn's PCA. Variances are those of maximum likelihood, over n instead of n - 1.

    Parameters: `n_components` (None: n_features - 1, where there are rows for that), `tol` as in FactorAnalysis, and those in the head of
    this module.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 5)) + 0.1 * rng.normal(size=(300, 5))
    >>> X[rng.random(X.shape) < 0.2] = np.nan
    >>> model = PPCA(n_components=2).fit(X)
    >>> round(float(np.sqrt(model.noise_variance_)), 1)
    0.1
    >>> bool(np.isnan(model.impute(X)).any())
    False
    """

    _kind = "ppca"

    def _default_components(self, features: int) -> int:
        return features - 1

    def _fit_scaled(self, X: np.ndarray, k: int, center: np.ndarray, spread: np.ndarray) -> None:
        features = spread.size
        scale = float(np.sqrt(np.mean(spread**2)))
        handle = self._handle(self._kind, rows=features, latent=k)
        handle.data((X - center) / scale)
        theta = self._run_within(handle, None)
        noise = max(float(np.exp(-theta[-1])), SMALLEST_NOISE)
        self.components_ = theta[: features * k].reshape(features, k).T * scale
        self.mean_ = center + theta[features * k : -1] * scale
        self.noise_variance_ = noise * scale**2

    def _tell(self, spread: np.ndarray) -> None:
        if self.noise_variance_ > 1.01 * SMALLEST_NOISE * np.mean(spread**2):
            self._warn_unless_converged()
            return
        self.converged_ = False
        warnings.warn(
            f"{len(self.components_)} components explain X without noise: the likelihood has no maximum, and noise_variance_ is set to "
            f"{SMALLEST_NOISE:g} of the mean variance; fewer components would do",
            ConvergenceWarning,
            stacklevel=3,
        )


# ---- regression ----


def _target(estimator: Any, X: np.ndarray, y: Any) -> np.ndarray:
    """y as finite numbers with NaN for a response that is missing."""
    if y is None:
        raise ValueError(f"This {type(estimator).__name__} estimator requires y to be passed, but the target y is None.")
    y = column_or_1d(_unmask(y), warn=True)
    if y.dtype.kind not in "fiub":
        y = y.astype(np.float64)
    y = y.astype(np.float64)
    check_consistent_length(X, y)
    if np.isinf(y).any():
        raise ValueError("Input y contains infinity or a value too large for dtype('float64').")
    if np.isnan(y).all():
        raise ValueError("Input y contains NaN alone: no response was observed.")
    return y


class _Regressor(RegressorMixin, _Estimator):
    """y = X w + b + noise, w Gaussian with precisions that maximise the likelihood (the evidence); b has a flat prior."""

    _kind = ""
    _factor: Optional[Tuple[str, np.ndarray, Any]]
    prior_precision_: Any

    def __init__(
        self,
        *,
        fit_intercept: bool = True,
        noise_floor: float = 1e-3,
        max_iter: int = 1000,
        options: Optional[Mapping[str, Any]] = None,
        n_jobs: Optional[int] = None,
        random_state: Any = 0,
        progress: Any = None,
    ) -> None:
        self.fit_intercept = fit_intercept
        self.noise_floor = noise_floor
        self._set_common(max_iter, options, n_jobs, random_state, progress)

    def fit(self, X: Any, y: Any) -> Any:
        """X: rows are samples, complete; y: the responses, NaN where one is missing (such a row says nothing)."""
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2 if self.fit_intercept else 1)
        y = _target(self, X, y)
        floor = float(self.noise_floor)
        if not 0 < floor < 1:
            raise ValueError(f"noise_floor={self.noise_floor!r}: a part of the standard deviation of y, between 0 and 1, is wanted")
        there = ~np.isnan(y)
        X = X[there]
        y = y[there]
        if self.fit_intercept and len(y) < 2:
            raise ValueError(f"y has n_samples = {len(y)} observed response(s); an intercept and its noise need two")
        self._x_offset = X.mean(axis=0) if self.fit_intercept else np.zeros(X.shape[1])
        self._y_offset = float(y.mean()) if self.fit_intercept else 0.0
        self._intercept_weight = 1.0 / len(y) if self.fit_intercept else 0.0
        rows = X - self._x_offset
        right = y - self._y_offset
        if self.fit_intercept:
            rows = self._contrasts(rows)
            right = self._contrasts(right)
        scale = float(np.sqrt(np.mean(right**2)))
        if scale <= 8 * np.finfo(float).eps * abs(self._y_offset):
            self._fit_nothing(X.shape[1])
            return self
        self._fit_rows(rows, right / scale, scale, floor)
        self._warn_unless_converged()
        return self

    @staticmethod
    def _contrasts(rows: np.ndarray) -> np.ndarray:
        """All directions but that of the ones, by a reflection that takes the ones to the first axis. With a flat prior on the intercept
        this is the whole likelihood of the rest, and no degree of freedom is counted that the mean has used."""
        n = len(rows)
        axis = np.full(n, 1 / np.sqrt(n))
        axis[0] += 1
        turned = rows - np.multiply.outer(axis, axis @ rows) / (1 + 1 / np.sqrt(n))
        return turned[1:]

    def _fit_nothing(self, features: int) -> None:
        """y does not vary: the answer needs no fit."""
        self.coef_ = np.zeros(features)
        self.coef_std_ = np.zeros(features)
        self.intercept_ = self._y_offset
        self.noise_variance_ = 0.0
        self.prior_precision_ = self._precisions(np.full(features + 1, np.inf))
        self._factor = None
        self.n_iter_ = 1
        self.n_boundaries_ = 0
        self.converged_ = True
        self.fit_report_ = "y does not vary: no fit was needed"
        self.log_likelihood_ = np.inf

    def _precisions(self, precision: np.ndarray) -> Any:
        raise NotImplementedError

    def _fit_rows(self, rows: np.ndarray, right: np.ndarray, scale: float, floor: float) -> None:
        features = rows.shape[1]
        with warnings.catch_warnings():
            # Without noise there are no digits, and what is said about it is about a fit that is thrown away.
            warnings.simplefilter("ignore", PuWarning)
            handle, theta = self._evidence(rows, right)
        if np.exp(-theta[-1]) < floor**2:
            # One response more, of size `floor`, that no column explains: a prior on the noise alone.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PuWarning)
                handle, theta = self._evidence(np.vstack([rows, np.zeros(features)]), np.append(right, floor))
            warnings.warn(
                f"X explains y without noise ({rows.shape[0]} rows, {features} columns), and standard deviations mean little: "
                f"noise_variance_ rests on noise_floor={floor:g}, a part of y's standard deviation; set it to what is known of the noise",
                ConvergenceWarning,
                stacklevel=4,
            )
        with warnings.catch_warnings():
            if np.exp(-theta[-1]) < 1e-5:
                warnings.simplefilter("ignore", PuWarning)  # that has been said
            mean, variance = handle.posterior(theta)
            nll = handle.nll(theta)[0]
        precision = np.exp(theta)
        self.coef_ = mean[0] * scale
        self.coef_std_ = np.sqrt(np.asarray(variance)[0]) * scale
        self.intercept_ = self._y_offset - float(self._x_offset @ self.coef_)
        self.noise_variance_ = float(scale**2 / precision[-1])
        self.prior_precision_ = self._precisions(precision / scale**2)
        self.log_likelihood_ = -nll - handle.size("rows") * np.log(scale)
        self._keep_covariance(rows)

    def _evidence(self, rows: np.ndarray, right: np.ndarray) -> Tuple[Handle, np.ndarray]:
        handle = self._handle(self._kind, rows=rows.shape[0], latent=rows.shape[1], Phi=rows)
        handle.data(right[None])
        return handle, self._run(handle)

    def _keep_covariance(self, rows: np.ndarray) -> None:
        """A factor of the posterior covariance of coef_, of the size of the shorter side of X."""
        prior = np.broadcast_to(self.prior_precision_, self.coef_.shape)
        if rows.shape[0] >= rows.shape[1]:
            self._factor = ("wide", np.linalg.cholesky(np.diag(prior) + rows.T @ rows / self.noise_variance_), None)
        else:
            inner = (rows / prior) @ rows.T + self.noise_variance_ * np.eye(len(rows))
            self._factor = ("dual", np.linalg.cholesky(inner), rows)

    def _spread(self, X: np.ndarray) -> np.ndarray:
        """Variance of X coef_ for centred rows X."""
        if self._factor is None:
            return np.zeros(len(X))
        form, root, rows = self._factor
        if form == "wide":
            return (np.linalg.solve(root, X.T) ** 2).sum(axis=0)
        prior = np.broadcast_to(self.prior_precision_, self.coef_.shape)
        known = (np.linalg.solve(root, rows @ (X / prior).T) ** 2).sum(axis=0)
        return np.maximum((X**2 / prior).sum(axis=1) - known, 0.0)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Mean of the response; return_std: also the standard deviation of a new observation (coefficients, intercept and noise)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        mean = X @ self.coef_ + self.intercept_
        if not return_std:
            return mean
        variance = self._spread(X - self._x_offset) + self.noise_variance_ * (1 + self._intercept_weight)
        return mean, np.sqrt(variance)


class BayesianRegression(_Regressor):
    """Linear regression with one Gaussian prior on all coefficients. Its precision and the noise maximise the evidence.

    Scikit-learn's BayesianRidge is the same model; with fit_intercept=False and its hyperpriors at 0 it gives the same numbers. With an
    intercept they differ by what one observation more or less does, since a flat prior on it is integrated here.

    Parameters: `fit_intercept`; `noise_floor` (where X explains y without noise the likelihood has no maximum: then one observation of
    this part of y's standard deviation is added, and a warning says so); and those in the head of this module.

    Attributes: `coef_`, `coef_std_`, `intercept_`, `noise_variance_`, `prior_precision_`, `log_likelihood_` (the log evidence).

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 3))
    >>> y = X @ [1.0, 2.0, 0.0] + 5 + 0.1 * rng.normal(size=100)
    >>> model = BayesianRegression().fit(X, y)
    >>> [round(float(c), 1) + 0.0 for c in model.coef_], round(model.intercept_, 1)
    ([1.0, 2.0, 0.0], 5.0)
    >>> mean, std = model.predict(X[:2], return_std=True)
    >>> [round(float(s), 1) for s in std]
    [0.1, 0.1]
    """

    _kind = "regression"

    def _precisions(self, precision: np.ndarray) -> Any:
        return float(precision[0])


class SparseBayes(_Regressor):
    """Sparse Bayesian learning (automatic relevance determination): every coefficient has a prior precision of its own, and those of the
    columns that y does not need run to infinity.

    Parameters and attributes: as BayesianRegression's; `prior_precision_` has an entry for each coefficient; `relevance_`, between 0
    and 1, says how much of a coefficient is from the data and how much (the rest) from its prior.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 10))
    >>> y = 3 * X[:, 2] - 2 * X[:, 7] + 0.1 * rng.normal(size=60)
    >>> model = SparseBayes().fit(X, y)
    >>> [int(j) for j in np.flatnonzero(np.abs(model.coef_) > 0.5)]
    [2, 7]
    """

    _kind = "sparse"

    def _precisions(self, precision: np.ndarray) -> Any:
        return precision[:-1].copy()

    def fit(self, X: Any, y: Any) -> Any:
        super().fit(X, y)
        known = np.where(np.isinf(self.prior_precision_), 0.0, self.prior_precision_) * self.coef_std_**2
        self.relevance_ = np.where(np.isinf(self.prior_precision_), 0.0, np.clip(1 - known, 0.0, 1.0))
        return self


Column = Union[int, str]


class MixedEffects(RegressorMixin, _Estimator):
    """Mixed effects: y = X b + effects of the levels of groups + noise, groups crossed or nested, with random slopes.

    Parameters: `groups`, columns of X (names of a DataFrame, or positions) whose values are labels of levels; a tuple of columns is
    their combination, ("school", "class"). `slopes`, a dict from a group to the columns that have a random slope in its levels. All columns
    that are no groups are fixed effects, those of slopes, too. `method`: "ml" or "reml". `fit_intercept`. And those in the head of this
    module; for many levels the library may choose an iterative engine, whose probes `options` set. Without groups this is least squares.

    Attributes: `coef_` (of the columns `fixed_`), `intercept_`, `variances_` (by name of the group, and "residual"), `effects_` and
    `effects_std_` (for each group a dict from label to effect), `log_likelihood_` (method "reml": of the restricted likelihood).

    y may have NaN: such rows are predicted, not fitted. A label that was not there in `fit` has effect 0 and the group's variance.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> school = rng.integers(0, 20, size=400)
    >>> X = np.column_stack([school, rng.normal(size=400)])
    >>> y = 2 * X[:, 1] + rng.normal(size=20)[school] + 0.5 * rng.normal(size=400)
    >>> model = MixedEffects(groups=[0], method="reml").fit(X, y)
    >>> sorted(model.variances_), round(float(model.coef_[0]), 1)
    (['0', 'residual'], 2.0)
    >>> mean, std = model.predict([[99, 0.0]], return_std=True)      # a new school
    >>> bool(std[0] > 0.8)
    True
    """

    _exact = False

    def __init__(
        self,
        groups: Sequence[Union[Column, Tuple[Column, ...]]] = (),
        *,
        slopes: Optional[Mapping[Any, Sequence[Column]]] = None,
        method: str = "reml",
        fit_intercept: bool = True,
        max_iter: int = 200,
        options: Optional[Mapping[str, Any]] = None,
        n_jobs: Optional[int] = None,
        random_state: Any = 0,
        progress: Any = None,
    ) -> None:
        self.groups = groups
        self.slopes = slopes
        self.method = method
        self.fit_intercept = fit_intercept
        self._set_common(max_iter, options, n_jobs, random_state, progress)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = len(self.groups) > 0
        tags.input_tags.string = len(self.groups) > 0
        return tags

    # A random part: its name, the columns of its label, the column of its slope or None.
    def _parts(self) -> List[Tuple[str, Tuple[int, ...], Optional[int]]]:
        if isinstance(self.groups, (str, bytes)) or not isinstance(self.groups, Sequence):
            raise ValueError(f"groups={self.groups!r}: a list of columns is wanted, [{self.groups!r}] for one")
        parts: List[Tuple[str, Tuple[int, ...], Optional[int]]] = []
        slopes = dict(self.slopes or {})
        for group in self.groups:
            columns = group if isinstance(group, tuple) else (group,)
            places = tuple(self._place("groups", column) for column in columns)
            name = ":".join(str(column) for column in columns)
            parts.append((name, places, None))
            for column in slopes.pop(group, ()):
                parts.append((f"{column}|{name}", places, self._place("slopes", column)))
        if slopes:
            raise ValueError(f"slopes has the group {next(iter(slopes))!r}, which is not one of groups={self.groups!r}")
        names = [name for name, _, _ in parts]
        if len(set(names)) < len(names):
            raise ValueError(f"groups={self.groups!r}, slopes={self.slopes!r}: one of them is there twice")
        return parts

    def _place(self, what: str, column: Any) -> int:
        """The position of a column that is named by name or position."""
        names = getattr(self, "feature_names_in_", None)
        if isinstance(column, str):
            where: Any = [] if names is None else np.flatnonzero(names == column)
            if len(where) == 0:
                known = "X has no column names" if names is None else f"there are: {', '.join(map(str, names))}"
                raise ValueError(f"{what}: no column {column!r}; {known}")
            return int(where[0])
        if isinstance(column, (int, np.integer)) and not isinstance(column, bool) and 0 <= column < self.n_features_in_:
            return int(column)
        raise ValueError(f"{what}: no column {column!r} in X with {self.n_features_in_} features")

    def _columns(self, X: Any, reset: bool) -> Tuple[Any, np.ndarray]:
        """A function from position to column, and the fixed effects as numbers."""
        if len(self.groups) == 0:
            X = validate_data(self, X, dtype=np.float64, reset=reset)
            self._fixed = list(range(X.shape[1]))
            return (lambda j: X[:, j]), X
        if not hasattr(X, "iloc"):
            X = check_array(X, dtype=None, ensure_all_finite=False, ensure_min_features=1)
        X = validate_data(self, X, reset=reset, skip_check_array=True)
        if hasattr(X, "iloc"):
            column = lambda j: X.iloc[:, j].to_numpy()  # noqa: E731
        else:
            column = lambda j: X[:, j]  # noqa: E731
        if reset:
            labels = {place for _, places, _ in self._parts() for place in places}
            self._fixed = [j for j in range(self.n_features_in_) if j not in labels]
        fixed = np.empty((len(X), len(self._fixed)))
        for i, j in enumerate(self._fixed):
            try:
                fixed[:, i] = check_array(column(j), dtype=np.float64, ensure_2d=False, input_name=f"X (column {self._name(j)})")
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"column {self._name(j)} is a fixed effect and must be finite numbers ({error}); encode it, or name it in groups"
                ) from error
        if len(X) == 0:
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
        return column, fixed

    def _name(self, place: int) -> str:
        names = getattr(self, "feature_names_in_", None)
        return str(place) if names is None else repr(str(names[place]))

    def _labels(self, column: Any, places: Tuple[int, ...]) -> List[Any]:
        """The label of every row: a value, or a tuple of several columns' values."""
        lists = [column(place).tolist() for place in places]
        for place, values in zip(places, lists):
            for i, value in enumerate(values):
                if value is None or value != value:
                    raise ValueError(f"column {self._name(place)} is a group and has no label (None or NaN) in row {i}")
        return lists[0] if len(lists) == 1 else list(zip(*lists))

    def fit(self, X: Any, y: Any) -> Any:
        """X: a DataFrame or an array, with the columns of groups; y: the responses, NaN where one is missing."""
        if self.method not in ("ml", "reml"):
            raise ValueError(f"method={self.method!r}: 'ml' or 'reml' is wanted")
        column, fixed = self._columns(X, reset=True)
        y = _target(self, fixed if fixed.shape[1] else column(0), y)
        parts = self._parts()
        if self.slopes and any(slope is not None and slope not in self._fixed for _, _, slope in parts):
            raise ValueError("slopes: a column with a slope is one with numbers, not one of groups")
        self.fixed_ = [self._name(j).strip("'") for j in self._fixed]
        y = self._standardize(fixed, y)
        design = self._design(fixed)
        self._kept = self._independent(design[~np.isnan(y)])
        design = design[:, self._kept]
        if not parts:
            self._fit_least_squares(design, y)
            return self
        codes = []
        self._level_codes: Dict[str, Dict[Any, int]] = {}
        for name, places, _ in parts:
            known: Dict[Any, int] = {}
            codes.append(np.array([known.setdefault(label, len(known)) for label in self._labels(column, places)], dtype=np.int64))
            self._level_codes[name] = known
        slopes = [None if slope is None else np.asarray(fixed[:, self._fixed.index(slope)]) for _, _, slope in parts]
        self._train = (design, y, codes, slopes)
        handle = self._effects_handle(design, y, codes, slopes)
        theta = self._run(handle)
        self._theta = theta
        self._read(handle, theta, design.shape[1], [name for name, _, _ in parts])
        self._warn_unless_converged()
        return self

    def _standardize(self, fixed: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Keeps the units and origins of the columns and of y, and returns y without its own: no digits are lost to them."""
        there = ~np.isnan(y)
        rows = fixed[there]
        self._x_shift = rows.mean(axis=0) if self.fit_intercept else np.zeros(fixed.shape[1])
        spread = np.sqrt(((rows - self._x_shift) ** 2).mean(axis=0))
        constant = spread <= 8 * np.finfo(float).eps * np.abs(self._x_shift)
        self._x_scale = np.where(constant, 1.0, spread)
        if self.fit_intercept:
            self._x_shift = np.where(constant, rows[0], self._x_shift)  # so that what is left is 0 exactly
        self._y_shift = float(y[there].mean()) if self.fit_intercept else 0.0
        self._y_scale = float(np.sqrt(np.mean((y[there] - self._y_shift) ** 2)))
        if self._y_scale <= 8 * np.finfo(float).eps * abs(self._y_shift):
            raise ValueError(f"y does not vary (n_samples = {there.sum()} observed): there is nothing to fit")
        return (y - self._y_shift) / self._y_scale

    def _in_units(self, log_likelihood: float, observed: int) -> float:
        """The log-likelihood in the units of y and X. The restricted one has as many observations less as there are coefficients."""
        if self.method == "ml":
            return float(log_likelihood - observed * np.log(self._y_scale))
        scales = np.append(1.0, self._x_scale) if self.fit_intercept else self._x_scale
        return float(log_likelihood - (observed - len(self._kept)) * np.log(self._y_scale) - np.log(scales[self._kept]).sum())

    def _design(self, fixed: np.ndarray) -> np.ndarray:
        fixed = (fixed - self._x_shift) / self._x_scale
        return np.column_stack([np.ones(len(fixed)), fixed]) if self.fit_intercept else fixed

    def _independent(self, design: np.ndarray) -> np.ndarray:
        """The columns that do not depend on those before them; the coefficients of the others are 0."""
        rows, columns = design.shape
        length = np.sqrt((design**2).sum(axis=0))
        _, triangle = np.linalg.qr(design / np.where(length > 0, length, 1.0))
        distance = np.zeros(columns)
        distance[: min(rows, columns)] = np.abs(np.diag(triangle))
        kept = np.flatnonzero(distance > 1e-9)
        if rows <= len(kept):
            raise ValueError(
                f"y has n_samples = {rows} observed response(s) for {columns} coefficients and a noise variance: there must be more"
            )
        if len(kept) < columns:
            names = (["the intercept"] if self.fit_intercept else []) + self.fixed_
            lost = [names[j] for j in range(columns) if j not in kept]
            text = f"constant, or combinations of the columns before them: {', '.join(lost)}; their coefficients are 0"
            warnings.warn(text, stacklevel=3)
        return kept

    def _effects_handle(self, design: np.ndarray, y: np.ndarray, codes: List[np.ndarray], slopes: List[Optional[np.ndarray]]) -> Handle:
        handle = self._handle("effects", rows=len(y), method=self.method)
        if design.shape[1]:
            handle.set("X", design).set("columns", design.shape[1])
        for i, (code, slope) in enumerate(zip(codes, slopes)):
            handle.set(f"level.{i}", code)
            if slope is not None:
                handle.set(f"slope.{i}", slope)
        handle.data(y[None])
        return handle

    def _read(self, handle: Handle, theta: np.ndarray, p: int, names: List[str]) -> None:
        """What the fit says, by names."""
        mean, variance = handle.posterior(theta)
        sizes = [len(self._level_codes[name]) for name in names]
        if self.method == "reml":
            b = mean[0][sum(sizes) :]
            variances = np.exp(theta)
        else:
            b = theta[:p]
            variances = np.exp(theta[p:])
        self._split_coefficients(b)
        mean = mean * self._y_scale
        variance = np.asarray(variance) * self._y_scale**2
        self.variances_ = dict(zip(names + ["residual"], map(float, variances * self._y_scale**2)))
        self.effects_ = {}
        self.effects_std_ = {}
        first = 0
        for name, size in zip(names, sizes):
            labels = list(self._level_codes[name])
            self.effects_[name] = dict(zip(labels, map(float, mean[0][first : first + size])))
            self.effects_std_[name] = dict(zip(labels, map(float, np.sqrt(np.asarray(variance)[0][first : first + size]))))
            first += size
        # The restricted likelihood of lme4 and others has 2 pi for as many observations as are left when b is known.
        free = 0.5 * p * np.log(2 * np.pi) if self.method == "reml" else 0.0
        self.log_likelihood_ = self._in_units(-handle.nll(theta)[0] + free, int((~np.isnan(self._train[1])).sum()))

    def _split_coefficients(self, kept: np.ndarray) -> None:
        self._b = kept
        b = np.zeros(len(self._fixed) + bool(self.fit_intercept))
        b[self._kept] = kept
        self.coef_ = (b[1:] if self.fit_intercept else b) / self._x_scale * self._y_scale
        self.intercept_ = float(self._y_shift + b[0] * self._y_scale - self._x_shift @ self.coef_) if self.fit_intercept else 0.0

    def _fit_least_squares(self, design: np.ndarray, y: np.ndarray) -> None:
        there = ~np.isnan(y)
        b, _, rank, _ = np.linalg.lstsq(design[there], y[there], rcond=None)
        free = there.sum() - (rank if self.method == "reml" else 0)
        residual = float(((y[there] - design[there] @ b) ** 2).sum())
        variance = residual / free if free > 0 else np.nan
        self._split_coefficients(b)
        self.variances_ = {"residual": variance * self._y_scale**2}
        self.effects_ = {}
        self.effects_std_ = {}
        self._spread_root = np.linalg.pinv(design[there])
        with np.errstate(divide="ignore", invalid="ignore"):
            loglik = -0.5 * free * (np.log(2 * np.pi * variance) + 1) if free > 0 else np.nan
            if self.method == "reml" and free > 0:
                loglik -= 0.5 * np.linalg.slogdet(design[there].T @ design[there])[1]
        self.log_likelihood_ = self._in_units(loglik, int(there.sum()))
        self.n_iter_ = 1
        self.n_boundaries_ = 0
        self.converged_ = True
        self.fit_report_ = "no groups: least squares"

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Mean of the response; return_std: also the standard deviation of a new observation (effects, coefficients of method "reml",
        and noise)."""
        check_is_fitted(self)
        column, fixed = self._columns(X, reset=False)
        design = self._design(fixed)[:, self._kept]
        parts = self._parts()
        labels = {places: self._labels(column, places) for _, places, _ in parts}
        slopes = [None if slope is None else np.asarray(fixed[:, self._fixed.index(slope)]) for _, _, slope in parts]
        if return_std:
            return self._predict_rows(design, parts, labels, slopes)
        mean = design @ self._b * self._y_scale + self._y_shift
        for (name, places, _), slope in zip(parts, slopes):
            effect = np.array([self.effects_[name].get(label, 0.0) for label in labels[places]])
            mean = mean + (effect if slope is None else slope * effect)
        return mean

    def _predict_rows(self, design: np.ndarray, parts: Any, labels: Any, slopes: Any) -> Tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations: rows of which the response is missing, behind those of the fit."""
        if not parts:
            spread = ((design @ self._spread_root) ** 2).sum(axis=1) if self.method == "reml" else 0.0
            mean = design @ self._b * self._y_scale + self._y_shift
            return mean, np.sqrt(self.variances_["residual"] * (1 + spread) * np.ones(len(design)))
        old_design, y, old_codes, old_slopes = self._train
        codes = []
        all_slopes: List[Optional[np.ndarray]] = []
        for i, (name, places, _) in enumerate(parts):
            known = dict(self._level_codes[name])
            new = np.array([known.setdefault(label, len(known)) for label in labels[places]], dtype=np.int64)
            codes.append(np.concatenate([old_codes[i], new]))
            all_slopes.append(None if slopes[i] is None else np.concatenate([old_slopes[i], slopes[i]]))
        gaps = np.full(len(design), np.nan)
        handle = self._effects_handle(np.vstack([old_design, design]), np.append(y, gaps), codes, all_slopes)
        mean, _, variance = handle.predict(self._theta)
        std = np.sqrt(np.asarray(variance)[0, len(y) :]) * self._y_scale
        return mean[0, len(y) :] * self._y_scale + self._y_shift, std


# ---- series ----


def _regular(index: Any) -> None:
    """Refuses dates or numbers that are not equally spaced: every row is one step of time."""
    import pandas

    fix = "put NaN where a time is missing (asfreq, reindex), or reset_index(drop=True) if rows are to be equal steps"
    if isinstance(index, pandas.DatetimeIndex):
        if index.freq is None and len(index) > 2 and len(set(np.diff(index.asi8))) > 1 and pandas.infer_freq(index) is None:
            raise ValueError(f"the dates of the index are not equally spaced; {fix}")
    elif isinstance(index, pandas.PeriodIndex):
        if len(index) > 1 and set(np.diff(index.asi8)) != {1}:
            raise ValueError(f"periods are left out of the index; {fix}")
    elif index.dtype.kind in "iuf" and len(index) > 2:
        gaps = np.diff(np.asarray(index, dtype=np.float64))
        if not np.allclose(gaps, gaps[0], rtol=1e-6, atol=0):
            raise ValueError(f"the numbers of the index are not equally spaced; {fix}")


def _next_index(index: Any, steps: int) -> Any:
    """The index of the `steps` rows behind it."""
    import pandas

    def inferred() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that later versions of pandas will return something else, which serves as well
            return pandas.infer_freq(index) if len(index) > 2 else None

    if isinstance(index, pandas.PeriodIndex):
        return pandas.period_range(index[-1] + 1, periods=steps, freq=index.freq, name=index.name)
    if isinstance(index, pandas.DatetimeIndex):
        step = index.freq or inferred() or (index[-1] - index[-2])
        return pandas.date_range(index[-1], periods=steps + 1, freq=step, name=index.name)[1:]
    if index.dtype.kind in "iuf" and len(index) > 1:
        step = index[1] - index[0]
        return pandas.Index([index[-1] + step * (i + 1) for i in range(steps)], name=index.name)
    return pandas.RangeIndex(len(index), len(index) + steps, name=index.name)


class _Series(_Estimator):
    """A model of a series, or of several that share its parameters: the columns of a table whose rows are equal steps of time."""

    _kind = ""
    _n_exog: int

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.required = False
        return tags

    def _check(self, X: Any, reset: bool) -> np.ndarray:
        """The table as time x series."""
        if hasattr(X, "iloc"):
            _regular(X.index)
        if np.ndim(X) == 1:
            if not reset and self.n_features_in_ > 1:
                raise ValueError(
                    f"Expected 2D array, got 1D array instead: the model is of {self.n_features_in_} series. Reshape your data to "
                    "time x series"
                )
            X = X.to_frame() if hasattr(X, "to_frame") else np.reshape(np.ma.asanyarray(X), (-1, 1))
            if hasattr(X, "columns"):
                X = X.to_numpy()
        return validate_data(
            self, _unmask(X), reset=reset, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=2 if reset else 1
        )

    def _keys(self, length: int) -> Dict[str, Any]:
        raise NotImplementedError

    def _has_means(self) -> bool:
        return False

    def _series_handle(self, Y: np.ndarray, exog: Optional[np.ndarray]) -> Handle:
        """Y: time x series; exog: time x regressors."""
        length, count = Y.shape
        handle = self._handle(self._kind, **self._keys(length))
        handle.data(np.ascontiguousarray(Y.T))
        columns = [] if exog is None else [np.broadcast_to(exog, (count, *exog.shape))]
        if self._has_means():
            # A column of ones for each series, which is 0 in the others.
            columns.insert(0, np.broadcast_to(np.eye(count)[:, None, :], (count, length, count)))
        if columns:
            regressors = np.ascontiguousarray(np.concatenate(columns, axis=2))
            handle.set("regressors.columns", regressors.shape[2]).set("regressors.data", 0 if count == 1 else count)
            handle.set("regressors", regressors)
        return handle

    def _check_exog(self, exog: Any, length: int, reset: bool) -> Optional[np.ndarray]:
        wanted = 0 if reset else self._n_exog
        if exog is None:
            if wanted:
                raise ValueError(f"exog is missing: the model was fitted with {wanted} regressors")
            self._n_exog = 0
            return None
        exog = check_array(exog, dtype=np.float64, ensure_2d=False, input_name="exog")
        exog = exog.reshape(-1, 1) if exog.ndim == 1 else exog
        if len(exog) != length:
            raise ValueError(f"exog has {len(exog)} rows, wanted are {length}: one for each step of time")
        if not reset and exog.shape[1] != wanted:
            raise ValueError(f"exog has {exog.shape[1]} columns, the model was fitted with {wanted}")
        self._n_exog = exog.shape[1]
        return exog

    def fit(self, X: Any, y: Any = None, *, exog: Any = None) -> Any:
        """X: one series (1-D, a pandas.Series) or a table time x series (2-D, a DataFrame), NaN marks a gap; y is not used.
        exog: regressors, time x columns, complete, which the series share."""
        Y = self._check(X, reset=True)
        self._one = np.ndim(X) == 1
        self._name = getattr(X, "name", None)
        self._index = X.index if hasattr(X, "iloc") else None
        exog = self._check_exog(exog, len(Y), reset=True)
        seen = ~np.isnan(Y)
        if not seen.any(axis=0).all():
            raise ValueError(f"series without any observed value: {np.flatnonzero(~seen.any(axis=0))[:5].tolist()}; leave them out")
        if not (np.nanmax(Y, axis=0) > np.nanmin(Y, axis=0)).any():
            raise ValueError("every series is constant: there is nothing to fit")
        self._y = Y
        self._exog = exog
        scale = float(np.sqrt(np.mean(np.nanvar(Y, axis=0))))
        handle = self._series_handle(Y / scale, exog)
        theta = self._fit_theta(handle)
        for i, (name, _) in enumerate(handle.params):
            # Back to the units of the series: variances are logarithms, coefficients of regressors are themselves.
            if name.startswith(("var.", "kappa", "lambda")):
                theta[i] += 2 * np.log(scale)
            elif name.startswith("b["):
                theta[i] *= scale
        self.theta_ = theta
        handle = self._series_handle(Y, exog)
        self.params_ = dict(zip((name for name, _ in handle.params), map(float, handle.natural(self.theta_))))
        self.log_likelihood_ = -handle.nll(self.theta_)[0] * Y.shape[1]
        self._read()
        self._warn_unless_converged()
        return self

    def _fit_theta(self, handle: Handle) -> np.ndarray:
        """The fit of series of variance 1."""
        return self._run(handle)

    def _read(self) -> None:
        """Attributes of one model's own."""

    def _as_given(self, values: np.ndarray, index: Any, one: bool, X: Any = None) -> Any:
        """A table of results in the form in which series were given: 1-D or 2-D, of numpy or pandas."""
        if index is None:
            return values[:, 0] if one else values
        import pandas

        if one:
            return pandas.Series(values[:, 0], index=index, name=self._name if X is None else X.name)
        columns = getattr(self, "feature_names_in_", None) if X is None else X.columns
        return pandas.DataFrame(values, index=index, columns=columns)

    def _given(self, X: Any, exog: Any) -> Tuple[np.ndarray, Optional[np.ndarray], Any, bool]:
        """The series that a method is about: those of the fit, or others."""
        check_is_fitted(self)
        if X is None:
            return self._y, self._exog, self._index, self._one
        Y = self._check(X, reset=False)
        return Y, self._check_exog(exog, len(Y), reset=False), X.index if hasattr(X, "iloc") else None, np.ndim(X) == 1

    def predict(self, X: Any = None, return_std: bool = False, *, exog: Any = None) -> Any:
        """The noiseless series at every time given all observations, gaps among them; return_std: also its standard deviation.
        X: other series in place of those of the fit, for the same parameters."""
        Y, exog, index, one = self._given(X, exog)
        mean, fit, _ = self._series_handle(Y, exog).predict(self.theta_, variance=return_std)
        mean = self._as_given(mean.T, index, one, X)
        return (mean, self._as_given(np.sqrt(np.asarray(fit).T), index, one, X)) if return_std else mean

    def impute(self, X: Any = None, return_std: bool = False, *, exog: Any = None) -> Any:
        """The series with gaps filled by their expectation; return_std: also the standard deviation of what was filled in, else 0."""
        Y, exog, index, one = self._given(X, exog)
        gap = np.isnan(Y)
        mean, _, variance = self._series_handle(Y, exog).predict(self.theta_, variance=return_std)
        filled = self._as_given(np.where(gap, mean.T, Y), index, one, X)
        return (filled, self._as_given(np.where(gap, np.sqrt(np.asarray(variance).T), 0.0), index, one, X)) if return_std else filled

    def forecast(self, steps: int, return_std: bool = False, *, X: Any = None, exog: Any = None) -> Any:
        """The next `steps` of the series of the fit, or of X; return_std: also the standard deviation of an observation there. A pandas
        index goes on. exog: regressors of the steps, and of X before them where X is given."""
        steps = _whole("steps", steps, 1)
        if X is None:
            check_is_fitted(self)
            future = self._check_exog(exog, steps, reset=False)
            Y, past, index, one = self._y, self._exog, self._index, self._one
            exog = None if future is None else np.vstack([past, future])
        else:
            Y, _, index, one = self._given(X, None if exog is None else np.asarray(exog)[: np.shape(X)[0]])
            exog = self._check_exog(exog, len(Y) + steps, reset=False)
        longer = np.vstack([Y, np.full((steps, Y.shape[1]), np.nan)])
        mean, _, variance = self._series_handle(longer, exog).predict(self.theta_, variance=return_std)
        after = None if index is None else _next_index(index, steps)
        mean = self._as_given(mean.T[-steps:], after, one, X)
        return (mean, self._as_given(np.sqrt(np.asarray(variance).T[-steps:]), after, one, X)) if return_std else mean

    def score(self, X: Any = None, y: Any = None, *, exog: Any = None) -> float:
        """Log-likelihood of the series per step of time: of those of the fit, or of X as series that begin anew."""
        Y, exog, _, _ = self._given(X, exog)
        return -self._series_handle(Y, exog).nll(self.theta_)[0] * Y.shape[1] / Y.shape[0]

    def parameter_errors(self) -> Dict[str, float]:
        """Standard errors of `params_`, by the curvature of the likelihood; NaN where a parameter is at its boundary."""
        check_is_fitted(self)
        handle = self._series_handle(self._y, self._exog)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NaN says it
            se = handle.errors(self.theta_)
        slope = (handle.natural(self.theta_ + 1e-5) - handle.natural(self.theta_ - 1e-5)) / 2e-5
        return dict(zip(self.params_, map(float, np.abs(slope) * se)))


class NoisyAR(_Series):
    """An autoregression seen through noise: y_t = intercept + x_t + N(0, noise), x_t = sum_p coef_p x_{t-p} + N(0, innovation).

    Parameters: `order`; `fit_intercept` (each series has its own); and those in the head of this module.

    Attributes: `coef_` (order), `innovation_variance_`, `noise_variance_`, `intercept_` (one for each series), `exog_coef_`, `params_`.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = np.zeros(500)
    >>> for t in range(1, 500):
    ...     x[t] = 0.9 * x[t - 1] + rng.normal()
    >>> y = 10 + x + 0.5 * rng.normal(size=500)
    >>> y[100:120] = np.nan
    >>> model = NoisyAR(order=1).fit(y)
    >>> bool(abs(model.coef_[0] - 0.9) < 0.1)
    True
    >>> mean, std = model.forecast(3, return_std=True)
    >>> mean.shape, bool(std[2] > std[0])
    ((3,), True)
    """

    _kind = "noisy_ar"

    def __init__(
        self,
        order: int = 1,
        *,
        fit_intercept: bool = True,
        max_iter: int = 500,
        options: Optional[Mapping[str, Any]] = None,
        n_jobs: Optional[int] = None,
        random_state: Any = 0,
        progress: Any = None,
    ) -> None:
        self.order = order
        self.fit_intercept = fit_intercept
        self._set_common(max_iter, options, n_jobs, random_state, progress)

    def _keys(self, length: int) -> Dict[str, Any]:
        order = _whole("order", self.order, 1)
        if order > length:
            raise ValueError(f"order={order} is more than the n_samples={length} steps of time")
        return {"length": length, "order": order}

    def _has_means(self) -> bool:
        return bool(self.fit_intercept)

    def _fit_theta(self, handle: Handle) -> np.ndarray:
        place = self.order + 1
        theta = self._run_within(handle, lambda theta: theta.__setitem__(place, max(theta[place], np.log(1e-4))))
        theta[place] = max(theta[place], np.log(SMALLEST_NOISE))
        return theta

    def _read(self) -> None:
        values = np.array(list(self.params_.values()))
        order = self.order
        coef = np.zeros(0)
        for partial in values[:order]:
            # The recursion of Durbin and Levinson, from partial autocorrelations.
            coef = np.append(coef - partial * coef[::-1], partial)
        self.coef_ = coef
        self.innovation_variance_ = float(values[order])
        self.noise_variance_ = float(values[order + 1])
        count = self._y.shape[1] if self.fit_intercept else 0
        self.intercept_ = values[order + 2 : order + 2 + count] if count else np.zeros(self._y.shape[1])
        self.exog_coef_ = values[order + 2 + count :]


class StructuralSeries(_Series):
    """A series as a sum of components: a level that wanders, its slope, a season, a cycle, an ARMA, a Gaussian process, and noise.

    Parameters: `components`, a text or list of "level", "slope", "season:PERIOD", "season_trig:PERIOD", "cycle", "ar:ORDER", "ma:ORDER",
    "matern12", "matern32", "matern52", "no_irregular"; a ! behind a level, slope or season keeps it constant. And those in the head of
    this module. Levels, slopes and seasons begin diffuse: nothing is known of their first states.

    Attributes: `params_` (variances and what else the components have, by name), `theta_`, `log_likelihood_` (the diffuse one),
    `exog_coef_`.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> t = np.arange(120)
    >>> y = 0.1 * t + np.sin(2 * np.pi * t / 12) + 0.1 * rng.normal(size=120)
    >>> model = StructuralSeries("level slope season:12").fit(y)
    >>> future = np.arange(120, 132)
    >>> bool(np.abs(model.forecast(12) - 0.1 * future - np.sin(2 * np.pi * future / 12)).max() < 0.3)
    True
    >>> parts = model.decompose()
    >>> list(parts), bool(np.allclose(parts["level"] + parts["season:12"], model.predict()))
    (['level', 'season:12'], True)
    """

    _kind = "structural"

    def __init__(
        self,
        components: Union[str, Sequence[str]] = "level",
        *,
        max_iter: int = 500,
        options: Optional[Mapping[str, Any]] = None,
        n_jobs: Optional[int] = None,
        random_state: Any = 0,
        progress: Any = None,
    ) -> None:
        self.components = components
        self._set_common(max_iter, options, n_jobs, random_state, progress)

    def _keys(self, length: int) -> Dict[str, Any]:
        parts = self.components if isinstance(self.components, str) else " ".join(self.components)
        return {"length": length, "parts": parts}

    def _read(self) -> None:
        values = np.array(list(self.params_.values()))
        self.exog_coef_ = values[len(values) - self._n_exog :]

    def _places(self) -> List[Tuple[str, List[int]]]:
        """Of each component that y sees: its name, and the states of one step whose sum it adds to y. An ARMA adds a combination of its
        states, which are not listed, so its list is empty."""
        parts = str(self._keys(0)["parts"]).split()
        places: List[Tuple[str, List[int]]] = []
        at = 0
        for i, part in enumerate(parts):
            word, _, size = part.rstrip("!").partition(":")
            n = int(size or 0)
            following = parts[i + 1] if i + 1 < len(parts) else ""
            joined = int(following.partition(":")[2].rstrip("!") or 0) + 1 if word == "ar" and following.startswith("ma:") else 0
            behind_ar = word == "ma" and i > 0 and parts[i - 1].startswith("ar:")
            counts = {"level": 1, "slope": 1, "season": n - 1, "season_trig": n - 1, "cycle": 2, "ar": max(n, joined), "ma": n + 1}
            counts.update({"matern12": 1, "matern32": 2, "matern52": 3})
            count = 0 if behind_ar else counts.get(word, 0)
            seen = list(range(at, at + count, 2)) if word == "season_trig" else [at]
            if word == "ma" or joined:
                seen = []
            if count and word != "slope":
                label = part if not joined else f"{part} {following}"
                again = sum(name == label for name, _ in places)
                places.append((f"{label} ({again + 1})" if again else label, seen))
            at += count
        return places + [("", [at])]

    def decompose(self, X: Any = None, return_std: bool = False, *, exog: Any = None) -> Any:
        """What each component adds to the series at every time, given all observations: a dict from component to series, whose sum is
        `predict` ("exog": what regressors add). return_std: also a dict of standard deviations, NaN for "season_trig" and "ma", whose
        states are several."""
        Y, exog, index, one = self._given(X, exog)
        handle = self._series_handle(Y, exog)
        mean, _, _ = handle.predict(self.theta_, variance=False)
        z, variance = handle.posterior(self.theta_, variance=return_std)
        *places, (_, [states]) = self._places()
        if z.shape[1] != states * len(Y):
            raise RuntimeError(f"the states of {self.components!r} are {z.shape[1] // len(Y)}, not {states} as expected here")
        means = {name: z.reshape(-1, len(Y), states)[:, :, seen].sum(axis=2) for name, seen in places if seen}
        if exog is not None:
            means["exog"] = np.broadcast_to(exog @ self.exog_coef_, mean.shape)
        rest = mean - sum(means.values(), np.zeros_like(mean))
        arma = [name for name, seen in places if not seen]
        if len(arma) > 1:
            raise ValueError(f"components {arma} cannot be told apart here: one moving average can")
        if arma:
            means[arma[0]] = rest
        elif not np.allclose(rest, 0, atol=1e-6 * (np.abs(mean).max() + 1e-300)):
            raise RuntimeError(f"the components of {self.components!r} do not add up to the series")
        shaped = {name: self._as_given(values.T, index, one, X) for name, values in means.items()}
        if not return_std:
            return shaped
        stds = {name: np.full(mean.shape, np.nan) for name in means}
        for name, seen in places:
            if len(seen) == 1:
                stds[name] = np.sqrt(np.asarray(variance).reshape(-1, len(Y), states)[:, :, seen[0]])
        return shaped, {name: self._as_given(values.T, index, one, X) for name, values in stds.items()}
