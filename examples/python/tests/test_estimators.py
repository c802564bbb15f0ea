"""The estimators: against scikit-learn on complete data, against dense Gaussian likelihoods in numpy with gaps, and their manners."""

import doctest
import pickle
import re
import subprocess
import sys
import unittest
import warnings
from pathlib import Path

import numpy as np
import pu
from common import raises

try:
    import scipy.optimize
    import sklearn
    import sklearn.decomposition
    import sklearn.linear_model
    import threadpoolctl
    from pu.estimators import (
        PPCA,
        BayesianRegression,
        FactorAnalysis,
        MixedEffects,
        NoisyAR,
        SparseBayes,
        StructuralSeries,
    )
    from sklearn.base import clone
    from sklearn.datasets import load_diabetes, load_iris
    from sklearn.exceptions import ConvergenceWarning, NotFittedError
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
except ImportError as _error:
    raise unittest.SkipTest(f"the estimators need scikit-learn 1.6 or later: {_error}") from None

try:
    import pandas
except ImportError:
    pandas = None

threadpoolctl.threadpool_limits(1)  # threads of numpy that wait for each other take longer than these small products
HERE = Path(__file__).resolve().parent


# ---- what the tests share ----


def need_pandas():
    if pandas is None:
        raise unittest.SkipTest("pandas is not installed")


def warned(kind, words, function):
    """function() must give warnings of this kind alone, one with these words."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        result = function()
    assert told and all(issubclass(w.category, kind) for w in told), [str(w.message) for w in told]
    assert any(words in str(w.message) for w in told), [str(w.message) for w in told]
    return result


def log_density(y, mean, covariance):
    """log N(y; mean, covariance) of the entries of y that are there."""
    seen = ~np.isnan(y)
    error = (y - mean)[seen]
    covariance = covariance[np.ix_(seen, seen)]
    return -0.5 * (error @ np.linalg.solve(covariance, error) + np.linalg.slogdet(covariance)[1] + seen.sum() * np.log(2 * np.pi))


def conditional(y, mean, covariance):
    """Mean and covariance of all entries given those that are there."""
    seen = ~np.isnan(y)
    gain = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[seen]).T
    return mean + gain @ (y - mean)[seen], covariance - gain @ covariance[seen]


def table(n=120, p=6, k=2, gaps=0.2, seed=3):
    """Data with k factors, different noises, gaps; one row without any entry."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, k)) @ rng.normal(size=(k, p)) + rng.normal(size=(n, p)) * (0.3 + 0.1 * np.arange(p)) + 3
    X[rng.random(X.shape) < gaps] = np.nan
    if gaps:
        X[5] = np.nan
    return X


def is_maximum(function, theta, steps, tolerance):
    """function has (nearly) no slope at theta: the decrease that a Newton step would bring is below the tolerance in every direction."""
    middle = function(theta)
    for i, h in enumerate(steps):
        e = np.zeros(len(theta))
        e[i] = h
        up, down = function(theta + e), function(theta - e)
        slope = (up - down) / (2 * h)
        curvature = -(up - 2 * middle + down) / h**2
        assert curvature > 0, f"parameter {i}: no maximum"
        assert slope**2 / (2 * curvature) < tolerance, f"parameter {i}: {slope**2 / (2 * curvature):g} to gain"


# ---- scikit-learn's own checks ----


def test_checks_of_scikit_learn_are_those_of_the_page():
    done = subprocess.run([sys.executable, str(HERE / "estimator_checks.py")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    page = (HERE.parent / "ESTIMATORS.md").read_text()
    version = re.search(r"scikit-learn ([\d.]+\d)", page)
    if version and version.group(1) == sklearn.__version__ and pandas is not None:
        assert page.endswith("\n" + done.stdout), "ESTIMATORS.md does not end with what estimator_checks.py prints: run it with --write"


def test_what_the_page_shows_is_so():
    failed, tried = doctest.testfile(str(HERE.parent / "ESTIMATORS.md"), module_relative=False)
    assert tried > 10 and failed == 0


def test_without_scikit_learn_the_package_imports_and_says_what_is_missing():
    program = """
import sys
class NotThere:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "sklearn":
            raise ImportError("No module named 'sklearn'")
sys.meta_path.insert(0, NotThere())
import pu
from pu import *
assert "PPCA" in dir(pu)
try:
    pu.PPCA
except ImportError as error:
    assert "pip install scikit-learn" in str(error), error
else:
    raise AssertionError("nothing was raised")
try:
    pu.nothing
except AttributeError:
    print("fine")
"""
    path = str(Path(pu.__file__).resolve().parents[1])
    done = subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, {path!r})\n" + program], capture_output=True, text=True)
    assert done.stdout == "fine\n", done.stderr


# ---- factors ----


def test_factor_analysis_is_the_maximum_of_the_dense_likelihood_with_gaps():
    X = table()
    model = FactorAnalysis(2, tol=0).fit(X)
    assert model.converged_ and model.n_boundaries_ == 0
    k, p = model.components_.shape

    def total(theta):
        loadings = theta[: k * p].reshape(k, p)
        covariance = loadings.T @ loadings + np.diag(np.exp(theta[-p:]))
        return sum(log_density(x, theta[k * p : -p], covariance) for x in X if not np.isnan(x).all())

    theta = np.concatenate([model.components_.ravel(), model.mean_, np.log(model.noise_variance_)])
    # pu_fit ends where what is left is a small part of a standard error: 1e-4 nats at most here
    is_maximum(total, theta, np.full(theta.size, 1e-4), 1e-4)
    assert abs(model.log_likelihood_ - total(theta)) < 1e-9 * abs(total(theta))
    assert abs(model.score(X) - total(theta) / len(X)) < 1e-10 * abs(total(theta))
    assert np.allclose(model.score_samples(X).mean(), model.score(X), rtol=1e-12)
    assert model.score_samples(X)[5] == 0


def test_transform_and_impute_are_conditional_means():
    X = table()
    for model in (FactorAnalysis(2).fit(X), PPCA(2).fit(X)):
        covariance = model.get_covariance()
        assert np.allclose(model.get_precision() @ covariance, np.eye(6), atol=1e-10)
        filled, std = model.impute(X, return_std=True)
        Z = model.transform(X)
        assert Z.shape == (120, 2) and (Z[5] == 0).all()
        for i in (0, 1, 5, 17):
            mean, spread = conditional(X[i], model.mean_, covariance)
            gap = np.isnan(X[i])
            assert np.allclose(filled[i], np.where(gap, mean, X[i]), rtol=1e-9)
            assert np.allclose(std[i], np.where(gap, np.sqrt(np.maximum(np.diag(spread), 0)), 0), rtol=1e-9)
            seen = ~gap
            here = model.components_[:, seen]
            expected = here @ np.linalg.solve(covariance[np.ix_(seen, seen)], (X[i] - model.mean_)[seen])
            assert np.allclose(Z[i], expected, atol=1e-9)
        assert np.allclose(model.inverse_transform(Z), Z @ model.components_ + model.mean_)


def test_factor_analysis_is_as_likely_as_scikit_learns_or_more():
    X = load_iris().data
    for k in (1, 2, 3):
        theirs = sklearn.decomposition.FactorAnalysis(k, tol=1e-8, max_iter=3000, svd_method="lapack")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs.fit(X)
        ours = FactorAnalysis(k, tol=0).fit(X)
        assert ours.converged_
        assert ours.score(X) > theirs.score(X) - 1e-9
        assert ours.score(X) < theirs.score(X) + 0.01
        # The same parameters have the same score.
        theirs.components_, theirs.noise_variance_, theirs.mean_ = ours.components_, ours.noise_variance_, ours.mean_
        assert np.allclose(theirs.score_samples(X), ours.score_samples(X), rtol=1e-7)
        if not ours.n_boundaries_:
            assert np.allclose(theirs.transform(X), ours.transform(X), atol=1e-8)


def test_parameters_of_factor_analysis_agree_where_they_are_identified():
    X = table(n=2000, gaps=0)
    ours = FactorAnalysis(2, tol=0).fit(X)
    theirs = sklearn.decomposition.FactorAnalysis(2, tol=1e-12, max_iter=20000, svd_method="lapack").fit(X)
    # Both end where the likelihood is flat. D nats are left to gain at sqrt(2 D) standard errors from the maximum: 2e-6 of all rows
    # are 2e-3 of a standard error, and the smallest noise is known to a factor of about 1.5.
    assert abs(ours.score(X) - theirs.score(X)) < 1e-9
    assert np.allclose(ours.noise_variance_, theirs.noise_variance_, rtol=3e-3)
    assert np.allclose(np.abs(ours.components_), np.abs(theirs.components_), atol=3e-3)
    assert np.allclose(ours.mean_, X.mean(axis=0), atol=1e-6)


def test_ppca_is_the_closed_form_and_scikit_learns_pca_but_for_n_minus_1():
    X = load_iris().data
    n = len(X)
    values = np.linalg.eigvalsh(np.cov(X.T, bias=True))[::-1]
    for k in (1, 2, 3):
        ours = PPCA(k).fit(X)
        theirs = sklearn.decomposition.PCA(k).fit(X)
        assert np.isclose(ours.noise_variance_, values[k:].mean(), rtol=1e-10)
        assert np.isclose(ours.noise_variance_ * n / (n - 1), theirs.noise_variance_, rtol=1e-10)
        assert np.allclose((ours.components_**2).sum(axis=1), values[:k] - values[k:].mean(), rtol=1e-9)
        unit = ours.components_ / np.linalg.norm(ours.components_, axis=1)[:, None]
        assert np.allclose(np.abs((unit * theirs.components_).sum(axis=1)), 1, rtol=1e-10)
        assert theirs.score(X) <= ours.score(X) < theirs.score(X) + 0.01


def test_factors_do_not_depend_on_units_and_origins():
    X = table()
    scale = np.array([1e-6, 1, 1e5, 3, 1e-3, 10])
    one = FactorAnalysis(2).fit(X)
    other = FactorAnalysis(2).fit(X * scale + 100 * scale)
    assert np.allclose(other.noise_variance_, one.noise_variance_ * scale**2, rtol=1e-4)
    units = (~np.isnan(X) * np.log(scale)).sum(axis=1).mean()
    assert np.isclose(other.score(X * scale + 100 * scale) + units, one.score(X), atol=1e-6)
    one = PPCA(2).fit(X)
    other = PPCA(2).fit(1e7 * X - 1e9)
    assert np.isclose(other.noise_variance_, one.noise_variance_ * 1e14, rtol=1e-5)


def test_constant_columns_heywood_cases_and_other_corners_of_factors():
    X = table(gaps=0)
    flat = np.column_stack([X, np.full(len(X), 0.1), np.zeros(len(X))])
    flat[3, 7] = np.nan
    model = FactorAnalysis(2).fit(flat)
    assert (model.components_[:, 6:] == 0).all() and (model.noise_variance_[6:] == 1e-12).all()
    assert np.allclose(model.noise_variance_[:6], FactorAnalysis(2).fit(X).noise_variance_)
    assert model.impute(flat)[3, 7] == 0
    assert np.isfinite(PPCA(2).fit(flat).score(flat))
    twice = np.column_stack([X, X[:, 0]])
    model = warned(ConvergenceWarning, "are some of them equal?", lambda: FactorAnalysis(2, max_iter=60).fit(twice))
    assert np.isfinite(model.score(twice)) and (model.noise_variance_ >= 0.9e-8 * twice.var(axis=0)).all()
    assert np.isclose(model.score(twice), model.score_samples(twice).mean(), rtol=1e-6)
    one = np.random.default_rng(0).normal(size=(50, 1)) * 3
    for kind in (FactorAnalysis, PPCA):
        assert np.isclose(kind(1).fit(one).get_covariance()[0, 0], one.var(), rtol=1e-4)
        assert kind().fit(one).components_.shape == (1, 1)
        raises(ValueError, "n_components=7 is more than the 6 features", lambda kind=kind: kind(7).fit(X))
        raises(ValueError, "n_samples - 1 = 2", lambda kind=kind: kind(2).fit(X[:3]))
        raises(ValueError, "1 sample", lambda kind=kind: kind(1).fit(X[:1]))
        raises(ValueError, "constant", lambda kind=kind: kind(1).fit(np.ones((5, 3))))
        raises(ValueError, "0 sample", lambda kind=kind: kind(1).fit(np.ones((0, 3))))
        raises(ValueError, "n_components=1.5", lambda kind=kind: kind(1.5).fit(X))
        raises(ValueError, "n_components=True", lambda kind=kind: kind(True).fit(X))
        raises(ValueError, "max_iter=0", lambda kind=kind: kind(1, max_iter=0).fit(X))
        raises(ValueError, "n_jobs=0", lambda kind=kind: kind(1, n_jobs=0).fit(X))
        raises(ValueError, "infinity", lambda kind=kind: kind(1).fit(np.where(X > 6, np.inf, X)))
        raises(NotFittedError, "fit", lambda kind=kind: kind(1).transform(X))
        raises(ValueError, "options=3", lambda kind=kind: kind(1, options=3).fit(X))
        raises(pu.Error, "no such key", lambda kind=kind: kind(1, options={"engin": "dense"}).fit(X))
        raises(ValueError, "2 factors", lambda kind=kind: kind(2).fit(X).inverse_transform(np.ones((3, 3))))
    gone = X.copy()
    gone[:, 2] = np.nan
    raises(ValueError, "without any observed value: 2", lambda: PPCA(1).fit(gone))
    exact = X[:, :2] @ np.random.default_rng(1).normal(size=(2, 5))
    model = warned(ConvergenceWarning, "without noise", lambda: PPCA(3, max_iter=60).fit(exact))
    assert np.allclose(model.inverse_transform(model.transform(exact)), exact, atol=1e-3)


def test_masked_arrays_are_gaps_and_sparse_matrices_are_refused():
    X = table()
    masked = np.ma.masked_array(np.where(np.isnan(X), 99, X), mask=np.isnan(X))
    assert (PPCA(1).fit(masked).components_ == PPCA(1).fit(X).components_).all()
    assert (FactorAnalysis(1).fit(X).transform(masked) == FactorAnalysis(1).fit(X).transform(X)).all()
    raises(TypeError, "parse", lambda: PPCA(1).fit(scipy.sparse.csr_matrix(np.eye(5))))


def test_frames_in_frames_out():
    need_pandas()
    X = pandas.DataFrame(table(), columns=list("abcdef"), index=pandas.RangeIndex(100, 220))
    model = FactorAnalysis(2).set_output(transform="pandas").fit(X)
    assert list(model.feature_names_in_) == list("abcdef")
    Z = model.transform(X)
    assert list(Z.columns) == ["factoranalysis0", "factoranalysis1"] == list(model.get_feature_names_out()) and Z.index.equals(X.index)
    filled, std = model.impute(X, return_std=True)
    assert filled.columns.equals(X.columns) and std.index.equals(X.index) and not filled.isna().any().any()
    raises(ValueError, "without any observed value: 'c'", lambda: PPCA(1).fit(X.assign(c=np.nan)))
    assert PPCA(2).fit_transform(X.astype("float32").to_numpy()).dtype == np.float32


def test_samples_have_the_covariance_of_the_model():
    model = FactorAnalysis(2).fit(table())
    draws = model.sample(20000, random_state=3)
    error = np.abs(np.cov(draws.T) - model.get_covariance()).max()
    # The standard error of a variance is its sqrt(2 / 20000); 5 of them
    assert error < 5 * np.sqrt(2 / 20000) * model.get_covariance().max()
    assert (model.sample(3) == model.sample(3)).all() and (model.sample(3) != model.sample(3, random_state=1)).all()
    raises(ValueError, "n_samples=0", lambda: model.sample(0))


def test_number_of_factors_by_cross_validation_and_by_bic():
    X = table(n=400, gaps=0.1)
    search = GridSearchCV(FactorAnalysis(), {"n_components": [1, 2, 3]}, cv=3).fit(X)
    assert search.best_params_["n_components"] == 2
    assert np.argmin([PPCA(k).fit(table(n=400, gaps=0)).bic(table(n=400, gaps=0)) for k in (1, 2)]) == 1
    assert np.argmin([FactorAnalysis(k).fit(X).bic(X) for k in (1, 2, 3)]) == 1


# ---- regression ----


def test_bayesian_regression_agrees_with_bayesian_ridge():
    X, y = load_diabetes(return_X_y=True)
    theirs = sklearn.linear_model.BayesianRidge(
        fit_intercept=False, tol=1e-12, max_iter=100000, alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, compute_score=True
    ).fit(X, y)
    ours = BayesianRegression(fit_intercept=False).fit(X, y)
    # The end of the fit leaves less than 1e-9 nats, which is the square of an error in log variances.
    assert abs(ours.log_likelihood_ - theirs.scores_[-1]) < 1e-8
    assert np.isclose(ours.noise_variance_ * theirs.alpha_, 1, rtol=1e-4)
    assert np.isclose(ours.prior_precision_ / theirs.lambda_, 1, rtol=1e-4)
    assert np.allclose(ours.coef_, theirs.coef_, rtol=1e-4, atol=1e-2)
    std = ours.predict(X, return_std=True)[1]
    assert np.allclose(std, theirs.predict(X, return_std=True)[1], rtol=1e-5)
    assert abs(ours.score(X, y) - theirs.score(X, y)) < 1e-6


def evidence(X, y, alpha, noise):
    """Log evidence of y with a flat prior on the intercept, by contrasts."""
    n = len(y)
    basis = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, : n - 1]]))[0][:, 1:]
    rows = basis.T @ X
    return log_density(basis.T @ y, np.zeros(n - 1), (rows / alpha) @ rows.T + noise * np.eye(n - 1))


def test_regression_with_an_intercept_is_the_maximum_of_the_evidence():
    rng = np.random.default_rng(0)
    for n, p in ((40, 5), (25, 40)):
        X = rng.normal(size=(n, p)) + 5
        y = X @ rng.normal(size=p) + 100 + np.sqrt(p) * rng.normal(size=n)
        model = BayesianRegression().fit(X, y)
        assert model.converged_
        theta = np.log([model.prior_precision_, model.noise_variance_])

        def total(theta, X=X, y=y, p=p):
            return evidence(X, y, np.full(p, np.exp(theta[0])), np.exp(theta[1]))

        assert abs(model.log_likelihood_ - total(theta)) < 1e-8 * abs(total(theta))
        is_maximum(total, theta, [1e-3, 1e-3], 1e-4)
        # Prediction: y, the coefficients and the intercept are jointly Gaussian, the intercept of a huge variance.
        new = rng.normal(size=(7, p)) + 5
        everything = np.vstack([X, new]) - X.mean(axis=0)
        covariance = everything @ everything.T / model.prior_precision_ + 1e8 + model.noise_variance_ * np.eye(n + 7)
        mean, spread = conditional(np.append(y, np.full(7, np.nan)) - y.mean(), np.zeros(n + 7), covariance)
        got, std = model.predict(new, return_std=True)
        assert np.allclose(got, mean[n:] + y.mean(), atol=1e-4)
        assert np.allclose(std, np.sqrt(np.diag(spread)[n:]), rtol=1e-4)


def test_sparse_bayes_is_as_likely_as_ard_regression():
    X, y = load_diabetes(return_X_y=True)
    y = y - y.mean()
    theirs = sklearn.linear_model.ARDRegression(
        fit_intercept=False, tol=1e-10, max_iter=10000, alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0
    ).fit(X, y)
    ours = SparseBayes(fit_intercept=False).fit(X, y)
    assert ours.converged_ and ours.n_boundaries_ == 3
    assert np.allclose(ours.coef_, theirs.coef_, atol=1e-3) and np.isclose(ours.noise_variance_ * theirs.alpha_, 1, rtol=1e-6)
    # Its ends with finite precisions, at which the evidence is a little lower
    zero = np.zeros(len(y))
    at_theirs = log_density(y, zero, (X / theirs.lambda_) @ X.T + np.eye(len(y)) / theirs.alpha_)
    at_ours = log_density(y, zero, (X / ours.prior_precision_) @ X.T + np.eye(len(y)) * ours.noise_variance_)
    assert abs(ours.log_likelihood_ - at_ours) < 1e-6 and at_ours >= at_theirs - 1e-9
    assert (ours.relevance_[[0, 5, 7]] < 1e-3).all() and (ours.relevance_[[1, 2, 3]] > 0.5).all()


def test_both_forms_of_a_standard_deviation_are_the_librarys():
    rng = np.random.default_rng(0)
    for kind, shape in ((BayesianRegression, (30, 8)), (BayesianRegression, (12, 30)), (SparseBayes, (40, 6))):
        X = rng.normal(size=shape)
        y = X[:, 0] * 2 + X[:, 1] + 2 * rng.normal(size=shape[0])
        model = kind(fit_intercept=False).fit(X, y)
        new = rng.normal(size=(5, shape[1]))
        h = pu.Handle("sparse").set("rows", shape[0] + 5).set("latent", shape[1]).set("Phi", np.vstack([X, new])).set("kind", "exact")
        h.data(np.append(y, np.full(5, np.nan))[None])
        precision = np.broadcast_to(model.prior_precision_, shape[1])
        mean, _, variance = h.predict(np.append(np.log(precision), -np.log(model.noise_variance_)))
        got, std = model.predict(new, return_std=True)
        assert np.allclose(got, mean[0, -5:], rtol=1e-6) and np.allclose(std, np.sqrt(variance[0, -5:]), rtol=1e-7)


def test_corners_of_regressions():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.5 * rng.normal(size=30) + 4
    for kind in (BayesianRegression, SparseBayes):
        gaps = y.copy()
        gaps[:5] = np.nan
        assert (kind().fit(X, gaps).coef_ == kind().fit(X[5:], y[5:]).coef_).all()
        assert (kind().fit(X, np.ma.masked_invalid(gaps)).coef_ == kind().fit(X[5:], y[5:]).coef_).all()
        flat = kind().fit(X, np.full(30, 7.0))
        assert (flat.predict(X) == 7).all() and (flat.predict(X, return_std=True)[1] == 0).all()
        exact = warned(ConvergenceWarning, "noise_floor", lambda kind=kind: kind().fit(X, X @ [1.0, 2.0, 0.0] - 1))
        assert np.allclose(exact.coef_, [1, 2, 0], atol=1e-3) and abs(exact.intercept_ + 1) < 1e-3
        shifted = kind().fit(X + 1e6, 1e-5 * y)
        assert np.allclose(shifted.coef_, 1e-5 * kind().fit(X, y).coef_, rtol=1e-4)
        raises(ValueError, "between 0 and 1", lambda kind=kind: kind(noise_floor=0).fit(X, y))
        raises(ValueError, "NaN", lambda kind=kind: kind().fit(np.where(X > 2, np.nan, X), y))
        raises(ValueError, "no response", lambda kind=kind: kind().fit(X, np.full(30, np.nan)))
        raises(ValueError, "need two", lambda kind=kind: kind().fit(X, np.append(y[:1], np.full(29, np.nan))))
        raises(ValueError, "y is None", lambda kind=kind: kind().fit(X, None))
        raises(ValueError, "nconsistent", lambda kind=kind: kind().fit(X, y[:7]))
        one = kind().fit(X[:, :1], y)
        assert one.coef_.shape == (1,) and np.isfinite(one.predict(X[:1, :1], return_std=True)[1]).all()
        nothing = kind().fit(np.zeros((30, 2)), y)
        assert np.allclose(nothing.predict(np.ones((2, 2))), y.mean()) and np.isclose(nothing.noise_variance_, y.var(ddof=1), rtol=1e-4)


# ---- mixed effects ----


def pupils(seed=0):
    rng = np.random.default_rng(seed)
    school = rng.integers(0, 12, size=200)
    room = rng.integers(0, 3, size=200)
    age = rng.normal(size=200)
    y = 3 + 2 * age + rng.normal(size=12)[school] * (1 + 0.5 * age) + rng.normal(size=(12, 3))[school, room] + 0.5 * rng.normal(size=200)
    return school, room, age, y


def restricted(y, X, covariance):
    """Log of the restricted likelihood, as lme4 has it."""
    inverse = np.linalg.inv(covariance)
    information = X.T @ inverse @ X
    b = np.linalg.solve(information, X.T @ inverse @ y)
    free = X.shape[1] / 2 * np.log(2 * np.pi)
    return log_density(y, X @ b, covariance) + free - 0.5 * np.linalg.slogdet(information)[1], b, information


def test_mixed_effects_are_the_maximum_of_the_dense_likelihood():
    school, room, age, y = pupils()
    X = np.column_stack([school, room, age])
    Z = [np.eye(12)[school], np.eye(12)[school] * age[:, None], np.eye(36)[3 * school + room]]
    design = np.column_stack([np.ones(200), age])
    for method in ("ml", "reml"):
        model = MixedEffects(groups=[0, (0, 1)], slopes={0: [2]}, method=method).fit(X, y)
        assert list(model.variances_) == ["0", "2|0", "0:1", "residual"] and model.converged_ and model.fixed_ == ["2"]

        def covariance(theta):
            return sum(np.exp(t) * z @ z.T for t, z in zip(theta, Z)) + np.exp(theta[3]) * np.eye(200)

        def total(theta):
            value, b, _ = restricted(y, design, covariance(theta))
            return value if method == "reml" else log_density(y, design @ b, covariance(theta))

        theta = np.log(list(model.variances_.values()))
        is_maximum(total, theta, np.full(4, 1e-3), 1e-4)
        value, b, information = restricted(y, design, covariance(theta))
        assert np.allclose([model.intercept_, model.coef_[0]], b, atol=1e-3)
        here = total(theta) if method == "reml" else log_density(y, design @ [model.intercept_, model.coef_[0]], covariance(theta))
        assert np.isclose(model.log_likelihood_, here, rtol=1e-9)
        # Rows that were there, a new room of a known school, a new school
        new = np.array([X[0], [school[1], 7, 0.3], [99, 0, -1.0]])
        mean, std = model.predict(new, return_std=True)
        assert np.allclose(mean, model.predict(new), rtol=1e-8, atol=1e-8)
        rows = np.column_stack([np.ones(3), new[:, 2]])
        weights = np.linalg.solve(covariance(theta), y - design @ b)
        links = np.zeros((3, 200))
        prior = np.zeros(3)
        v = np.exp(theta)
        for i, (s, r, a) in enumerate(new):
            links[i] = (school == s) * (v[0] + v[1] * a * age) + ((school == s) & (room == r)) * v[2]
            prior[i] = v[0] + v[1] * a**2 + v[2] + v[3]
        assert np.allclose(mean, rows @ b + links @ weights, atol=1e-3)
        variance = prior - np.einsum("ij,ji->i", links, np.linalg.solve(covariance(theta), links.T))
        if method == "reml":
            rest = rows - links @ np.linalg.solve(covariance(theta), design)
            variance = variance + np.einsum("ij,ji->i", rest, np.linalg.solve(information, rest.T))
        assert np.allclose(std**2, variance, rtol=1e-3)


def test_mixed_effects_do_not_depend_on_units_and_origins():
    school, _, age, y = pupils()
    for method in ("ml", "reml"):
        one = MixedEffects(groups=[0], method=method).fit(np.column_stack([school, age]), y)
        X = np.column_stack([school, 1e-6 * age + 5])
        other = MixedEffects(groups=[0], method=method).fit(X, 1e7 * y + 1e10)
        assert np.allclose(list(other.variances_.values()), 1e14 * np.array(list(one.variances_.values())), rtol=1e-4)
        assert np.allclose(other.coef_, 1e13 * one.coef_, rtol=1e-6)
        assert np.allclose((other.predict(X) - 1e10) / 1e7, one.predict(np.column_stack([school, age])), atol=1e-4)
        units = -(200 - 2 * (method == "reml")) * np.log(1e7) - (method == "reml") * np.log(1e-6)
        assert np.isclose(other.log_likelihood_, one.log_likelihood_ + units, rtol=1e-7)
    raises(ValueError, "y does not vary", lambda: MixedEffects(groups=[0]).fit(X, np.ones(200)))


def test_mixed_effects_of_a_frame_with_names():
    need_pandas()
    school, room, age, y = pupils()
    names = np.array([f"school {s}" for s in school])
    frame = pandas.DataFrame({"school": names, "class": room, "age": age})
    model = MixedEffects(groups=["school", ("school", "class")], slopes={"school": ["age"]}).fit(frame, y)
    other = MixedEffects(groups=[0, (0, 1)], slopes={0: [2]}).fit(np.column_stack([school, room, age]), y)
    assert list(model.variances_) == ["school", "age|school", "school:class", "residual"]
    assert list(model.variances_.values()) == list(other.variances_.values()) and model.fixed_ == ["age"]
    assert model.effects_["school"]["school 3"] == other.effects_["0"][3.0] and model.effects_std_["school"]["school 3"] > 0
    gaps = y.copy()
    gaps[:20] = np.nan
    assert np.isfinite(model.fit(frame, gaps).predict(frame)).all()
    raises(ValueError, "no column 'scool'; there are: school, class, age", lambda: MixedEffects(groups=["scool"]).fit(frame, y))
    raises(ValueError, "'school' is a fixed effect", lambda: MixedEffects(groups=["class"]).fit(frame, y))
    raises(ValueError, "no label", lambda: MixedEffects(groups=["school"]).fit(frame.assign(school=[None] + list(names[1:])), y))
    raises(ValueError, "feature names", lambda: model.predict(frame[["class", "school", "age"]]))
    raises(ValueError, "not one of groups", lambda: MixedEffects(groups=["school"], slopes={"class": ["age"]}).fit(frame, y))
    raises(ValueError, "['school'] for one", lambda: MixedEffects(groups="school").fit(frame[["school", "age"]], y))


def test_mixed_effects_without_groups_and_with_columns_that_depend():
    _, _, age, y = pupils()
    model = MixedEffects(method="ml").fit(age[:, None], y)
    least = np.linalg.lstsq(np.column_stack([np.ones(200), age]), y, rcond=None)
    assert np.allclose([model.intercept_, model.coef_[0]], least[0])
    assert np.isclose(model.log_likelihood_, -100 * (np.log(2 * np.pi * least[1][0] / 200) + 1))
    X = np.column_stack([np.arange(200) % 7, age, 2 * age + 1, np.ones(200)])
    model = warned(UserWarning, "2, 3", lambda: MixedEffects(groups=[0]).fit(X, y))
    assert (model.coef_[1:] == 0).all() and np.isfinite(model.predict(X, return_std=True)[1]).all()
    raises(ValueError, "method='REML'", lambda: MixedEffects(method="REML").fit(X, y))
    raises(ValueError, "no column 9", lambda: MixedEffects(groups=[9]).fit(X, y))
    raises(ValueError, "there must be more", lambda: MixedEffects(groups=[0]).fit(X[:2, :2], y[:2]))
    raises(ValueError, "there twice", lambda: MixedEffects(groups=[0, 0]).fit(X[:, :2], y))


# ---- series ----


def wave(n=150, seed=0, phi=0.8):
    rng = np.random.default_rng(seed)
    x = np.zeros(n)
    for t in range(1, n):
        x[t] = phi * x[t - 1] + rng.normal()
    y = 50 + x + 0.5 * rng.normal(size=n)
    y[20:30] = np.nan
    return y


def ar_covariance(coef, innovation, n):
    """Covariance of n entries of a stationary autoregression of order 1 or 2."""
    gamma = np.zeros(n)
    if len(coef) == 1:
        gamma = innovation / (1 - coef[0] ** 2) * coef[0] ** np.arange(n)
    else:
        a, b = coef
        gamma[0] = innovation * (1 - b) / ((1 + b) * ((1 - b) ** 2 - a**2))
        gamma[1] = gamma[0] * a / (1 - b)
        for t in range(2, n):
            gamma[t] = a * gamma[t - 1] + b * gamma[t - 2]
    return gamma[np.abs(np.subtract.outer(np.arange(n), np.arange(n)))]


def test_noisy_ar_is_the_maximum_of_the_dense_likelihood():
    y = wave()
    model = NoisyAR(1).fit(y)
    assert model.converged_ and list(model.params_) == ["gamma[0]", "kappa", "lambda", "b[0]"], model.params_
    n = len(y)

    def total(theta):
        covariance = ar_covariance([np.tanh(theta[0])], np.exp(theta[1]), n) + np.exp(theta[2]) * np.eye(n)
        return log_density(y, np.full(n, theta[3]), covariance)

    theta = [np.arctanh(model.coef_[0]), np.log(model.innovation_variance_), np.log(model.noise_variance_), model.intercept_[0]]
    is_maximum(total, np.array(theta), np.full(4, 1e-3), 1e-4)
    assert np.isclose(model.log_likelihood_, total(np.array(theta)), rtol=1e-9)
    assert np.isclose(model.score() * n, model.log_likelihood_) and np.isclose(model.score(y), model.score())
    longer = np.append(y, np.full(8, np.nan))
    signal = ar_covariance(model.coef_, model.innovation_variance_, n + 8)
    mean, spread = conditional(longer, np.full(n + 8, model.intercept_[0]), signal + model.noise_variance_ * np.eye(n + 8))
    got, std = model.forecast(8, return_std=True)
    assert np.allclose(got, mean[n:], rtol=1e-9) and np.allclose(std, np.sqrt(np.diag(spread)[n:]), rtol=1e-8)
    filled, error = model.impute(return_std=True)
    assert np.allclose(filled, mean[:n], rtol=1e-9) and np.allclose(error[20:30], np.sqrt(np.diag(spread)[20:30]), rtol=1e-8)
    assert (error[:20] == 0).all() and (filled[:20] == y[:20]).all()
    seen = ~np.isnan(y)
    signal = signal[:n, :n]
    gain = np.linalg.solve((signal + model.noise_variance_ * np.eye(n))[np.ix_(seen, seen)], signal[seen]).T
    smooth, std = model.predict(return_std=True)
    assert np.allclose(smooth, model.intercept_[0] + gain @ (y - model.intercept_[0])[seen], rtol=1e-9)
    assert np.allclose(std**2, np.diag(signal) - np.einsum("ij,ji->i", gain, signal[seen]), rtol=1e-7)
    assert np.allclose(model.predict(y), smooth)
    errors = model.parameter_errors()
    assert list(errors) == list(model.params_) and all(0 < e < 5 for e in errors.values()), errors


def test_an_autoregression_without_noise():
    y = np.cumsum(np.random.default_rng(0).normal(size=60))
    model = NoisyAR(1).fit(y)
    assert model.converged_ and model.n_boundaries_ == 1 and np.isclose(model.noise_variance_, 1e-8 * y.var())
    covariance = ar_covariance(model.coef_, model.innovation_variance_, 60) + model.noise_variance_ * np.eye(60)
    assert np.isclose(model.log_likelihood_, log_density(y, np.full(60, model.intercept_[0]), covariance), rtol=1e-6)
    assert np.allclose(model.predict(), y, atol=1e-3)


def test_coefficients_of_an_autoregression_of_order_two_and_several_series():
    table = np.column_stack([wave(seed=1), wave(seed=2) + 100])
    model = NoisyAR(2).fit(table)
    assert abs(model.intercept_[1] - model.intercept_[0] - 100) < 3
    covariance = ar_covariance(model.coef_, model.innovation_variance_, 150) + model.noise_variance_ * np.eye(150)
    total = sum(log_density(table[:, j], np.full(150, model.intercept_[j]), covariance) for j in (0, 1))
    assert np.isclose(model.log_likelihood_, total, rtol=1e-9) and np.isclose(model.score(), total / 150)
    assert model.forecast(3).shape == (3, 2) and model.predict().shape == (150, 2)
    raises(ValueError, "Reshape your data", lambda: model.predict(table[:, 0]))


def test_a_level_is_the_maximum_of_the_dense_diffuse_likelihood():
    rng = np.random.default_rng(0)
    n = 80
    y = np.cumsum(rng.normal(size=n)) + rng.normal(size=n)
    y[10:15] = np.nan
    model = StructuralSeries("level").fit(y)
    assert list(model.params_) == ["var.level", "var.irregular"]
    wide = 1e7

    def covariance(theta, n):
        time = np.arange(n)
        return wide + np.exp(theta[0]) * np.minimum.outer(time, time) + np.exp(theta[1]) * np.eye(n)

    def total(theta):
        # The diffuse likelihood: that of a first state of variance V, and 1/2 log V more
        return log_density(y, np.zeros(n), covariance(theta, n)) + 0.5 * np.log(wide)

    theta = np.log(list(model.params_.values()))
    is_maximum(total, theta, [1e-2, 1e-2], 1e-4)
    assert abs(model.log_likelihood_ - total(theta)) < 1e-4
    longer = np.append(y, np.full(5, np.nan))
    mean, spread = conditional(longer, np.zeros(n + 5), covariance(theta, n + 5))
    got, std = model.forecast(5, return_std=True)
    assert np.allclose(got, mean[n:], atol=1e-4) and np.allclose(std, np.sqrt(np.diag(spread)[n:]), rtol=1e-4)


def test_components_regressors_and_progress():
    rng = np.random.default_rng(0)
    t = np.arange(96)
    promotion = (rng.random(108) < 0.2).astype(float)
    y = 0.2 * t + 3 * np.sin(2 * np.pi * t / 12) + 5 * promotion[:96] + 0.3 * rng.normal(size=96)
    seen = []
    model = StructuralSeries(["level", "slope", "season:12"], progress=lambda now: seen.append(now.step)).fit(y, exog=promotion[:96])
    assert abs(model.exog_coef_[0] - 5) < 0.3 and len(seen) >= model.n_iter_ - 1 > 0
    future = np.arange(96, 108)
    truth = 0.2 * future + 3 * np.sin(2 * np.pi * future / 12) + 5 * promotion[96:]
    mean, std = model.forecast(12, return_std=True, exog=promotion[96:])
    assert np.abs(mean - truth).max() < 1.5 and (std > 0.2).all()
    raises(ValueError, "exog is missing", lambda: model.forecast(3))
    raises(ValueError, "exog has 2 rows, wanted are 3", lambda: model.forecast(3, exog=[1.0, 2.0]))
    assert np.allclose(model.forecast(12, X=y, exog=promotion), mean)
    raises(pu.Error, "at most 64 of: level", lambda: StructuralSeries("levl").fit(y))
    stopped = StructuralSeries("level", progress=lambda now: True)
    warned(ConvergenceWarning, "stopped by the caller", lambda: stopped.fit(y))
    assert stopped.n_iter_ == 1 and not stopped.converged_


def test_components_add_up_and_are_conditional_means():
    y = wave(n=60)
    several = ["level slope season:4", "level! season_trig:5", "level ar:2", "cycle level", "matern32 level!", "ar:1 ma:1 level", "ma:2"]
    for components in several:
        centered = y - np.nanmean(y) if components == "ma:2" else y
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that some of these models are too rich for this series
            model = StructuralSeries(components).fit(centered)
            means, stds = model.decompose(return_std=True)
        assert np.allclose(sum(means.values()), model.predict()), components
        assert set(means) == set(stds) and len(means) >= 1
    # A level and an autoregression: the level's mean and deviation by the dense covariance, its first state of a huge variance
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = StructuralSeries("level ar:1").fit(y)
    time = np.arange(60)
    values = list(model.params_.values())
    assert list(model.params_) == ["var.level", "gamma.ar[0]", "var.ar", "var.irregular"], list(model.params_)
    level = 1e6 + values[0] * np.minimum.outer(time, time)
    both = level + ar_covariance([values[1]], values[2], 60) + values[3] * np.eye(60)
    seen = ~np.isnan(y)
    gain = np.linalg.solve(both[np.ix_(seen, seen)], level[seen]).T
    means, stds = model.decompose(return_std=True)
    assert np.allclose(means["level"], gain @ y[seen], atol=1e-3)
    assert np.allclose(stds["level"], np.sqrt(np.diag(level) - np.einsum("ij,ji->i", gain, level[seen])), rtol=1e-2)


def test_an_index_goes_on():
    need_pandas()
    y = wave()
    for index, expected in (
        (pandas.date_range("2020-01-31", periods=150, freq="ME"), "2032-07-31"),
        (pandas.DatetimeIndex(list(pandas.date_range("2020-01-01", periods=150, freq="D"))), "2020-05-30"),
        (pandas.period_range("2020Q1", periods=150, freq="Q"), "2057Q3"),
        (pandas.RangeIndex(10, 310, 2), "310"),
        (pandas.Index(np.arange(150) / 4), "37.5"),
        (pandas.Index([f"row {i}" for i in range(150)]), "150"),
    ):
        series = pandas.Series(y, index=index, name="sales")
        model = NoisyAR(1).fit(series)
        mean, std = model.forecast(4, return_std=True)
        assert str(mean.index[0]).split(" ")[0] == expected, (mean.index, expected)
        assert len(mean) == 4 and mean.name == "sales" and std.index.equals(mean.index)
        assert np.allclose(mean, NoisyAR(1).fit(y).forecast(4))
        assert model.impute().index.equals(index) and model.predict().name == "sales"
    frame = pandas.DataFrame({"a": y, "b": wave(seed=4)}, index=pandas.date_range("2020-01-01", periods=150, freq="W"))
    model = StructuralSeries("level").fit(frame)
    assert list(model.forecast(2).columns) == ["a", "b"] and model.forecast(2).index[0] == pandas.Timestamp("2022-11-20")
    holes = frame.drop(frame.index[[7, 40, 41]])
    raises(ValueError, "not equally spaced", lambda: StructuralSeries("level").fit(holes))
    raises(ValueError, "not equally spaced", lambda: NoisyAR().fit(pandas.Series(y).drop([3])))
    months = pandas.Series(y, index=pandas.period_range("2020", periods=150, freq="M"))
    raises(ValueError, "left out", lambda: NoisyAR().fit(months.drop(months.index[2])))


def test_corners_of_series():
    y = wave()
    for model in (NoisyAR(1), StructuralSeries("level")):
        raises(ValueError, "constant", lambda model=model: clone(model).fit(np.ones(9)))
        raises(ValueError, "0 sample", lambda model=model: clone(model).fit(np.ones((0, 1))))
        raises(ValueError, "1 sample", lambda model=model: clone(model).fit([1.0]))
        raises(ValueError, "without any observed value: [1]", lambda model=model: clone(model).fit(np.column_stack([y, y * np.nan])))
        raises(NotFittedError, "fit", lambda model=model: clone(model).forecast(1))
        raises(ValueError, "steps=0", lambda model=model: clone(model).fit(y).forecast(0))
        masked = np.ma.masked_array(np.nan_to_num(y, nan=-99.0), mask=np.isnan(y))
        assert (clone(model).fit(masked).theta_ == clone(model).fit(y).theta_).all()
        assert (clone(model).fit(y.tolist()).theta_ == clone(model).fit(y).theta_).all()
    raises(ValueError, "order=200 is more than", lambda: NoisyAR(200).fit(y))
    raises(ValueError, "order=0", lambda: NoisyAR(0).fit(y))


# ---- what all estimators have ----


def fitted():
    X = table(gaps=0)
    school, room, age, y = pupils()
    return [
        (FactorAnalysis(2).fit(table()), X),
        (PPCA(2).fit(table()), X),
        (BayesianRegression().fit(X[:, 1:], X[:, 0]), X[:, 1:]),
        (SparseBayes().fit(X[:, 1:], X[:, 0]), X[:, 1:]),
        (MixedEffects(groups=[0]).fit(np.column_stack([school, age]), y), np.column_stack([school, age])),
        (NoisyAR(2).fit(wave()), wave()),
        (StructuralSeries("level ar:1").fit(wave()), wave()),
    ]


def test_copies_pickles_and_parameters():
    for model, X in fitted():
        method = "transform" if hasattr(model, "transform") else "predict"
        expected = getattr(model, method)(X)
        copy = pickle.loads(pickle.dumps(model))
        assert (getattr(copy, method)(X) == expected).all()
        assert "Handle" not in repr(vars(copy))
        fresh = clone(model)
        assert fresh.get_params() == model.get_params() and not hasattr(fresh, "n_features_in_")
        fresh.set_params(max_iter=7, n_jobs=2)
        assert fresh.max_iter == 7 and str(fresh).startswith(type(model).__name__)
        assert model.n_iter_ >= 1 and model.converged_ and isinstance(model.log_likelihood_, float) and model.fit_report_


def test_same_seed_same_bits_at_any_number_of_threads():
    X = table(n=200)
    for kind in (FactorAnalysis, PPCA):
        one = kind(2, n_jobs=1, random_state=3).fit(X)
        many = kind(2, n_jobs=4, random_state=3).fit(X)
        other = kind(2, n_jobs=-1, random_state=np.random.RandomState(3)).fit(X)
        assert (one.components_ == many.components_).all() and (one.transform(X) == many.transform(X)).all()
        assert np.allclose(one.get_covariance(), other.get_covariance(), rtol=1e-2, atol=1e-2)


def test_pipelines_and_cross_validation():
    X, y = load_diabetes(return_X_y=True)
    scores = cross_val_score(make_pipeline(StandardScaler(), PPCA(5), BayesianRegression()), X, y, cv=3)
    assert (scores > 0.4).all()
    scores = cross_val_score(BayesianRegression(), X, y, cv=3)
    theirs = cross_val_score(sklearn.linear_model.BayesianRidge(), X, y, cv=3)
    assert np.allclose(scores, theirs, atol=0.01)
    school, _, age, response = pupils()
    assert (cross_val_score(MixedEffects(groups=[0]), np.column_stack([school, age]), response, cv=3) > 0.5).all()
    search = GridSearchCV(SparseBayes(), {"fit_intercept": [True, False]}, cv=3, n_jobs=1).fit(X, y)
    assert search.best_params_ == {"fit_intercept": True}


def test_options_reach_the_library():
    X = table(gaps=0)
    noisy = FactorAnalysis(2, options={"kind": "network", "engine": "iterative", "samples": 50, "optimizer": "lbfgs", "fixed_probes": 1})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        noisy.fit(X)
    exact = FactorAnalysis(2).fit(X)
    assert noisy.score(X) != exact.score(X) and abs(noisy.score(X) - exact.score(X)) < 0.1
    rough = FactorAnalysis(2, tol=0.05).fit(table())
    fine = FactorAnalysis(2, tol=0).fit(table())
    assert rough.converged_ and fine.converged_ and 10 < rough.n_iter_ < fine.n_iter_
    assert -0.1 < rough.score(table()) - fine.score(table()) < 0
    raises(ValueError, "tol=-1", lambda: FactorAnalysis(2, tol=-1).fit(X))
    few = FactorAnalysis(2, max_iter=2)
    warned(ConvergenceWarning, "max_iter=2", lambda: few.fit(table()))
    assert few.n_iter_ == 2


if __name__ == "__main__":
    import run

    sys.argv[1:] = ["estimators"]
    run.main()
