"""Models and fits: every model, against formulas of its own; the forms of y; what is refused; files and copies."""

import copy
import pickle
import unittest
import warnings

import numpy as np
import pu
from common import raises, table, warned

NAN = float("nan")


def series(n=60, seed=1):
    rng = np.random.default_rng(seed)
    return 10 + 0.3 * np.arange(n) + np.sin(np.arange(n) * np.pi / 6) + 0.2 * rng.normal(size=n)


def gaussian_nll(y, mean, covariance):
    """Mean over the rows of y, of their observed entries, by the formula."""
    total = 0
    for row in y:
        seen = ~np.isnan(row)
        e = row[seen] - mean[seen]
        C = covariance[np.ix_(seen, seen)]
        total += 0.5 * (e @ np.linalg.solve(C, e) + np.linalg.slogdet(C)[1] + seen.sum() * np.log(2 * np.pi))
    return total / len(y)


def near(a, b, tolerance=1e-6):
    return np.allclose(np.asarray(a, dtype=float), np.asarray(b, dtype=float), rtol=tolerance, atol=tolerance)


# ---- models against formulas


def test_ppca_and_factors_have_the_likelihood_of_a_gaussian():
    y = table(80, 4)
    for model in (pu.ppca(1), pu.factors(1)):
        fit = pu.fit(model, y)
        p = list(fit.params.values())
        Phi, eta, psi = np.array(p[:4])[:, np.newaxis], np.array(p[4:8]), np.array(p[8:])
        covariance = Phi @ Phi.T + np.diag(np.broadcast_to(1 / psi, 4))
        assert near(fit.nll, gaussian_nll(y, eta, covariance), 1e-9)
        assert fit.nll_se == 0 and fit.converged and near(fit.log_likelihood, -80 * fit.nll)
        row = y[7]  # with a gap at 1
        seen = ~np.isnan(row)
        gain = (Phi @ Phi.T)[:, seen] @ np.linalg.inv(covariance[np.ix_(seen, seen)])  # of the values without noise
        mean = eta + gain @ (row[seen] - eta[seen])
        made = fit.predict()
        assert near(made.mean[7], mean) and near(fit.impute()[7], np.where(seen, row, mean))
        conditional = np.diag(Phi @ Phi.T - gain @ (Phi @ Phi.T)[seen])
        assert near(made.fit_sd[7], np.sqrt(conditional)) and near(made.sd[7], np.sqrt(conditional + 1 / psi))
        low, high = made.interval(0.95)
        assert near((high - low)[7, 1], 2 * 1.959964 * made.sd[7, 1])
        z = fit.posterior()
        assert z.mean.shape == (80, 1) and near(z.mean[7], Phi.T[:, seen] @ np.linalg.inv(covariance[np.ix_(seen, seen)]) @ (row[seen] - eta[seen]))


def test_regression_has_the_posterior_of_ridge():
    rng = np.random.default_rng(3)
    Phi = rng.normal(size=(50, 4))
    y = Phi @ [1.0, -2.0, 0.5, 0.0] + 0.3 * rng.normal(size=50)
    fit = pu.fit(pu.regression(Phi), y)
    alpha, beta = fit.params["alpha"], fit.params["beta"]
    A = alpha * np.eye(4) + beta * Phi.T @ Phi
    z = fit.posterior()
    assert near(z.mean, np.linalg.solve(A, beta * Phi.T @ y)) and near(z.sd, np.sqrt(np.diag(np.linalg.inv(A))))
    assert near(fit.nll, gaussian_nll(y[np.newaxis], np.zeros(50), Phi @ Phi.T / alpha + np.eye(50) / beta))
    both = pu.fit(pu.regression(Phi), np.stack([y, -2 * y]))
    assert both.posterior().mean.shape == (2, 4) and near(-2 * both.posterior().mean[0], both.posterior().mean[1])


def test_sparse_finds_the_support():
    rng = np.random.default_rng(4)
    Phi = rng.normal(size=(60, 12))
    y = 3 * Phi[:, 2] - 2 * Phi[:, 7] + 0.1 * rng.normal(size=60)
    z = pu.fit(pu.sparse(Phi), y).posterior().mean
    assert near(z[[2, 7]], [3, -2], 0.1) and np.abs(np.delete(z, [2, 7])).max() < 0.1


def test_neural_regression_bends():
    x = np.linspace(-3, 3, 60)
    y = np.sin(x) + 0.1 * np.random.default_rng(9).normal(size=60)
    fit = pu.fit(pu.neural(x, hidden=6), y)
    assert np.abs(fit.predict().mean - np.sin(x)).max() < 0.2
    assert pu.fit(pu.neural(x, 4, features=2), y, steps=3).posterior().mean.shape == (2,)


def test_noisy_ar_and_state_space_are_the_same_process():
    rng = np.random.default_rng(5)
    z = np.zeros(200)
    for t in range(1, 200):
        z[t] = 0.8 * z[t - 1] + rng.normal()
    y = z + 0.5 * rng.normal(size=200)
    y[50:60] = NAN
    ar = pu.fit(pu.noisy_ar(1), y)
    ss = pu.fit(pu.state_space(1, "stationary"), y)
    assert abs(ar.nll - ss.nll) < 1e-3 and near(abs(ar.params["gamma[0]"]), ss.params["A[0,0]"], 1e-2)
    assert ar.posterior().mean.shape == (200,) and ss.posterior().mean.shape == (200, 1)
    assert ar.predict().sd[55] > 1.2 * ar.predict().sd[20]
    several = pu.fit(pu.noisy_ar(1), np.stack([y, y[::-1]]), steps=3)
    assert several.predict().mean.shape == (2, 200) and several.posterior().mean.shape == (2, 200)


def test_structural_forecasts_and_regressors():
    y = series()
    fit = pu.fit(pu.structural("level slope season:12"), y)
    ahead = fit.predict(np.append(y, [NAN] * 6))
    t = np.arange(60, 66)
    assert np.abs(ahead.mean[60:] - (10 + 0.3 * t + np.sin(t * np.pi / 6))).max() < 1
    assert ahead.sd[60] > ahead.sd[59] and near(ahead.mean[:60], fit.predict().mean, 1e-9)
    assert fit.posterior().mean.shape == (60, 13)
    listed = pu.fit(pu.structural(["level", "slope", "season:12"]), y)
    assert (listed.theta == fit.theta).all()
    with_x = pu.fit(pu.structural("level!", regressors=np.arange(60.0)), y)
    assert near(with_x.params["b[0]"], 0.3, 0.05)
    more = with_x.predict(np.append(y, [NAN] * 3), regressors=np.arange(63.0))
    assert near(np.diff(more.mean[60:]), with_x.params["b[0]"])
    raises(ValueError, "regressors have shape (60,)", lambda: with_x.predict(np.append(y, [NAN] * 3)))
    irregular = pu.fit(pu.structural("matern32", times=np.cumsum(1 + np.arange(60) % 3)), y - y.mean())
    assert irregular.converged


def test_dynamic_factors_and_fields_keep_the_shape_of_y():
    rng = np.random.default_rng(6)
    y = rng.normal(size=(40, 1)).cumsum(0) * [1.0, -1.0, 2.0] + 0.3 * rng.normal(size=(40, 3))
    y[3, 1] = NAN
    fit = pu.fit(pu.dynamic_factors(1, "stationary"), y, steps=10)
    assert fit.predict().mean.shape == (40, 3) and fit.posterior().mean.shape == (40, 1)
    assert fit.simulate(4).y.shape == (4, 40, 3)
    assert pu.fit(pu.dynamic_factors(1), np.stack([y, y]), steps=2).predict().mean.shape == (2, 40, 3)
    grid = rng.normal(size=(7, 8)) + 3
    grid[2, 3] = NAN
    fit = pu.fit(pu.field(), grid)
    assert fit.predict().mean.shape == (7, 8) == fit.posterior().mean.shape and near(fit.params["mean"], 3, 0.1)
    same = pu.fit(pu.field((7, 8)), np.stack([grid, grid]))
    assert same.predict().mean.shape == (2, 7, 8) and near(same.objective, fit.objective, 1e-5)
    assert pu.fit(pu.field(edge="periodic", intrinsic=True), series(30)).predict().mean.shape == (30,)


def test_effects_are_those_of_the_formula():
    rng = np.random.default_rng(7)
    labels = np.array(list("cab"))[rng.integers(0, 3, 40)]
    x = rng.normal(size=40)
    y = 5 + 2 * x + np.array([1.0, -1.0, 3.0])[np.searchsorted(list("abc"), labels)] + 0.5 * rng.normal(size=40)
    X = np.column_stack([np.ones(40), x])
    fit = pu.fit(pu.effects({"where": labels}, X=X), y)
    p = fit.params
    Z = (labels[:, np.newaxis] == np.array(list("abc"))).astype(float)
    V = p["var.where"] * Z @ Z.T + p["var.residual"] * np.eye(40)
    b = np.linalg.solve(X.T @ np.linalg.solve(V, X), X.T @ np.linalg.solve(V, y))
    assert near([p["b[0]"], p["b[1]"]], b, 1e-4) and near(fit.nll, gaussian_nll(y[np.newaxis], X @ b, V), 1e-6)
    u = p["var.where"] * Z.T @ np.linalg.solve(V, y - X @ [p["b[0]"], p["b[1]"]])
    told = fit.effects()["where"]
    assert list(told) == ["a", "b", "c"] and near([told[k][0] for k in "abc"], u, 1e-9)
    assert near(list(fit.standard_errors().values())[:2], np.sqrt(np.diag(np.linalg.inv(X.T @ np.linalg.solve(V, X)))), 1e-2)
    mean_only = pu.fit(pu.effects({"where": labels}), y)
    assert [k for k in mean_only.params] == ["b[0]", "var.where", "var.residual"]
    none = pu.fit(pu.effects({"where": labels}, X=np.zeros((40, 0))), y)
    assert list(none.params) == ["var.where", "var.residual"]
    slopes = pu.fit(pu.effects({"w": labels, "w.x": labels}, slopes={"w.x": x}, X=X, method="reml"), y)
    assert list(slopes.effects()) == ["w", "w.x"] and list(slopes.params) == ["var.w", "var.w.x", "var.residual"]
    numbered = pu.fit(pu.effects({"where": np.searchsorted(list("abc"), labels) * 10 + 7}, X=X), y)
    assert (numbered.theta == fit.theta).all() and list(numbered.effects()["where"]) == [7, 17, 27]


# ---- numbers of a fit


def test_errors_and_intervals():
    fit = pu.fit(pu.noisy_ar(2), series(120) - series(120).mean())
    step = 1e-6
    slopes = (fit._handle.natural(fit.theta + step) - fit._handle.natural(fit.theta - step)) / (2 * step)
    theta = fit.standard_errors("theta")
    natural = fit.standard_errors()
    assert list(natural) == list(fit.params) and near(list(natural.values()), np.array(list(theta.values())) * slopes, 1e-5)
    for (low, high), x in zip(fit.intervals(0.9).values(), fit.params.values()):
        assert low < x < high
    cycle = pu.fit(pu.structural("cycle"), np.sin(np.arange(80) / 2.0) + 0.1 * np.cos(np.arange(80) ** 2))
    slopes = (cycle._handle.natural(cycle.theta + step) - cycle._handle.natural(cycle.theta - step)) / (2 * step)
    assert np.allclose(cycle._slopes(), slopes, rtol=1e-4, atol=1e-7) and "logit" in [s for _, s in cycle._handle.params]
    raises(ValueError, "natural", lambda: fit.standard_errors("log"))
    raises(ValueError, "level", lambda: fit.intervals(95))


def test_gradients_are_slopes_of_the_likelihood():
    y = table()
    model = pu.at(pu.ppca(1), y)
    theta = model.theta + 0.1
    g = model.gradient(theta)
    for i in range(theta.size):
        up, down = theta.copy(), theta.copy()
        up[i] += 1e-5
        down[i] -= 1e-5
        assert abs((pu.at(pu.ppca(1), y, up).nll - pu.at(pu.ppca(1), y, down).nll) / 2e-5 - g.gradient[i]) < 1e-6
    assert (g.errors == 0).all() and (model.gradient(theta, errors=False) == g.gradient).all()
    rough = pu.at(pu.ppca(1), y, theta, engine="iterative", samples=8)
    assert (rough.gradient().errors[:3] > 0).all() and rough.nll_se > 0
    assert model.stop == "not fitted" and not model.converged and "not fitted" in repr(model)


def test_standard_deviations_say_whether_they_are_exact():
    grid = np.random.default_rng(12).normal(size=(9, 10))
    grid[2:5, 3:6] = NAN
    exact = pu.fit(pu.field(), grid, steps=5, kind="exact")
    rough = pu.at(pu.field(), grid, exact.theta, engine="iterative", samples=6)
    assert exact.predict().exact and exact.posterior().exact and not rough.predict().exact and not rough.posterior().exact
    assert not near(rough.predict().fit_sd, exact.predict().fit_sd, 1e-3)
    assert near(rough.predict(kind="exact", engine="banded").fit_sd, exact.predict().fit_sd) and rough.predict(kind="exact", engine="banded").exact
    assert near(rough.predict().mean, exact.predict().mean, 1e-5)  # solved to convergence, though gradients are not
    few = rough.predict(iterations=2)
    assert not near(few.mean, exact.predict().mean, 1e-3)
    assert rough.gradient().gradient.tolist() == pu.at(pu.field(), grid, exact.theta, engine="iterative", samples=6).gradient().gradient.tolist()
    many = rough.predict(samples=2000)
    assert np.abs(many.fit_sd / exact.predict().fit_sd - 1).max() < 0.1
    raises(TypeError, "no option", lambda: rough.predict(sample=3))


def test_options_start_progress_and_time():
    y = table()
    fit = pu.fit(pu.ppca(1), y, steps=2, optimizer="lbfgs", seed=5)
    assert fit.steps == 2 and not fit.converged and fit.stop == "all steps done" and "2 steps" in repr(fit)
    on = pu.fit(pu.ppca(1), y, start=fit)
    assert on.converged and on.objective < fit.objective and (pu.fit(pu.ppca(1), y, start=fit.theta).theta == on.theta).all()
    several = pu.fit(pu.ppca(1), y, starts=3, steps=5)
    assert several.starts == 3
    assert pu.fit(pu.ppca(1), y, steps=None).steps == pu.fit(pu.ppca(1), y).steps
    late = pu.fit(pu.ppca(1), y, optimizer="adam", steps=10**8, seconds=0.2)
    assert late.stop == "time is up" and late.steps > 1
    chosen = pu.fit(pu.ppca(1), y, engine="iterative", samples="choose", iterations="choose", error=0.2, steps=3)
    assert chosen.steps == 3
    raises(TypeError, "did you mean 'steps'", lambda: pu.fit(pu.ppca(1), y, step=3))
    raises(TypeError, "there are: steps", lambda: pu.fit(pu.ppca(1), y, rows=3))
    raises(TypeError, "function", lambda: pu.fit(pu.ppca(1), y, progress=3))
    raises(TypeError, "steps is [3]", lambda: pu.fit(pu.ppca(1), y, steps=[3]))
    raises(ValueError, "seconds", lambda: pu.fit(pu.ppca(1), y, seconds=0))
    raises(ValueError, "whole number", lambda: pu.fit(pu.ppca(1), y, steps=1.5))
    raises(ValueError, "7 parameters", lambda: pu.fit(pu.ppca(1), y, start=[1.0]))
    raises(ValueError, "start", lambda: pu.fit(pu.ppca(1), y, start="random"))
    raises(ValueError, "7 parameters", lambda: pu.at(pu.ppca(1), y, [1.0]))


def test_a_checkpoint_is_taken_up():
    y = table()
    whole = pu.fit(pu.ppca(1), y, optimizer="adam", steps=20, schedule="constant")
    pu.fit(pu.ppca(1), y, optimizer="adam", steps=10, schedule="constant", checkpoint="state")
    rest = pu.fit(pu.ppca(1), y, optimizer="adam", steps=20, schedule="constant", checkpoint="state", resume=True)
    assert (whole.theta == rest.theta).all()


def test_float():
    y = table()
    small = pu.fit(pu.ppca(1), y, precision="float")
    assert small.theta.dtype == np.float32 and small.predict().mean.dtype == np.float32
    assert near(small.objective, pu.fit(pu.ppca(1), y).objective, 1e-4)
    big = y.copy()
    big[0, 0] = 1e200
    raises(ValueError, "", lambda: pu.fit(pu.ppca(1), big, precision="float"))


def test_simulations():
    fit = pu.fit(pu.ppca(1), table(400))
    draws = fit.simulate(20000, seed=3)
    assert draws.z.shape == (20000, 1) and near(draws.y.mean(0), [fit.params[f"eta[{i}]"] for i in range(3)], 0.1)
    assert (fit.simulate(3, seed=3).y == draws.y[:3]).all() and not (fit.simulate(3, seed=4).y == draws.y[:3]).any()
    raises(ValueError, "n is 2.0", lambda: fit.simulate(2.0))


# ---- the forms of y


def test_masks_masked_arrays_and_nan_are_the_same():
    full = table(gaps=False)
    seen = np.ones(full.shape, dtype=bool)
    seen[::5, 0] = False
    gaps = np.where(seen, full, NAN)
    expected = pu.fit(pu.ppca(1), gaps)
    masked = np.ma.masked_array(np.where(seen, full, 1e9), mask=~seen)
    for fit in (pu.fit(pu.ppca(1), full, mask=seen), pu.fit(pu.ppca(1), masked)):
        assert (fit.theta == expected.theta).all() and (fit.predict().mean == expected.predict().mean).all()
        assert "12 missing" in repr(fit) and near(fit.impute()[0, 0], expected.predict().mean[0, 0], 1e-12)
    whole = np.ma.masked_array(np.arange(12).reshape(6, 2) ** 2 % 7, mask=np.eye(6, 2, dtype=bool))
    assert pu.at(pu.ppca(1), whole)._data.observed == 10
    raises(ValueError, "True where y was observed", lambda: pu.fit(pu.ppca(1), full, mask=seen[:-1]))
    raises(ValueError, "bool", lambda: pu.fit(pu.ppca(1), full, mask=seen.astype(int)))


def test_sparse_matrices_have_what_is_stored():
    try:
        import scipy.sparse as sp
    except ImportError as error:
        raise unittest.SkipTest("no scipy") from error
    y = table(50, 6)
    y[::3, 4] = NAN
    y[1, 1] = 0.0  # a zero that is stored
    rows, columns = np.nonzero(~np.isnan(y))
    coo = sp.coo_matrix((y[rows, columns], (rows, columns)), shape=y.shape)
    assert coo.nnz == len(rows)
    expected = pu.fit(pu.factors(1), y)
    for form in (coo, coo.tocsr(), coo.tocsc(), sp.csr_array(coo)):
        fit = pu.fit(pu.factors(1), form)
        assert near(fit.nll, expected.nll, 1e-6) and fit._data.observed == len(rows)
        assert near(fit.impute(), expected.impute(), 1e-2) and fit.impute()[1, 1] == 0
    shuffled = coo.tocsr()
    shuffled.indices = shuffled.indices[::-1].copy()
    shuffled.data = shuffled.data[::-1].copy()
    shuffled.indptr = (shuffled.indptr[-1] - shuffled.indptr[::-1]).astype(shuffled.indptr.dtype)
    shuffled.has_sorted_indices = False
    shuffled.has_canonical_format = False
    assert near(pu.fit(pu.factors(1), shuffled).nll, pu.fit(pu.factors(1), y[::-1]).nll, 1e-6)
    raises(ValueError, "takes no mask", lambda: pu.fit(pu.factors(1), coo, mask=np.ones(y.shape, dtype=bool)))
    bad = coo.tocsr()
    bad.data[3] = NAN
    raises(ValueError, "stored entry is nan", lambda: pu.fit(pu.factors(1), bad))
    raises(TypeError, "several axes", lambda: pu.fit(pu.dynamic_factors(1), coo))
    raises(TypeError, "Phi is a sparse matrix", lambda: pu.regression(coo))
    own = coo.tocsr()
    fit = pu.fit(pu.factors(1), own, steps=3)
    before = fit.predict(threads=1).mean
    own.data[:] = 7
    assert (fit.predict(threads=1).mean == before).all()
    raises(ValueError, "shape (0, 3)", lambda: pu.fit(pu.factors(1), sp.csr_matrix((0, 3))))


def test_frames_come_back_as_frames():
    try:
        import pandas as pd
    except ImportError as error:
        raise unittest.SkipTest("no pandas") from error
    y = table()
    frame = pd.DataFrame(y, columns=list("abc"), index=[f"r{i}" for i in range(60)])
    plain = pu.fit(pu.ppca(1), y)
    fit = pu.fit(pu.ppca(1), frame)
    assert (fit.theta == plain.theta).all()
    for made in (fit.predict().mean, fit.predict().sd, fit.impute(), fit.predict().interval()[0]):
        assert list(made.columns) == list("abc") and (made.index == frame.index).all()
    assert (fit.predict().mean.to_numpy() == plain.predict().mean).all() and not fit.impute().isna().any().any()
    assert list(fit.posterior().mean.columns) == ["z0"] and (fit.posterior().sd.index == frame.index).all()
    days = pd.date_range("2024-01-01", periods=60)
    sales = pd.Series(series(), index=days, name="sales")
    fit = pu.fit(pu.structural("level slope"), sales)
    assert fit.predict().mean.name == "sales" and (fit.predict().mean.index == days).all()
    assert (fit.posterior().mean.index == days).all() and fit.posterior().mean.shape == (60, 2)
    raises(ValueError, "give y.T", lambda: pu.fit(pu.structural("level"), sales.to_frame()))
    assert pu.fit(pu.structural("level"), sales.to_frame().T, steps=2).predict().mean.shape == (1, 60)
    both = pd.DataFrame({"u": series(), "v": series(seed=2)}, index=days)
    assert (pu.fit(pu.dynamic_factors(1), both, steps=2).posterior().mean.index == days).all()
    whole = pd.DataFrame({"a": pd.array([1, None, 3, 5], dtype="Int64"), "b": pd.array([1.5, 2.5, None, 9.5], dtype="Float64")})
    assert pu.at(pu.ppca(1), whole)._data.observed == 6
    raises(TypeError, "hold no numbers: when, name", lambda: pu.fit(pu.ppca(1), pd.DataFrame({"x": [1.0], "when": ["a"], "name": ["b"]})))
    subjects = pd.Series(pd.Categorical(["u", "v"] * 30), index=days)
    effects = pu.fit(pu.effects({"s": subjects}, X=pd.DataFrame({"one": np.ones(60), "t": np.arange(60.0)})), sales)
    assert list(effects.effects()["s"]) == ["u", "v"] and (effects.predict().mean.index == days).all()
    assert isinstance(effects.posterior().mean, np.ndarray)


def test_what_becomes_of_the_callers_arrays_does_not_matter():
    rng = np.random.default_rng(21)
    y = table()
    Phi = rng.normal(size=(30, 3))
    line = Phi.sum(1) + rng.normal(size=30)
    for model, data in [(pu.ppca(1), y.copy()), (pu.regression(Phi), line.copy())]:
        fit = pu.fit(model, data, steps=3)
        before = fit.predict(threads=1).mean
        data[:] = 7
        assert (fit.predict(threads=1).mean == before).all() and pickle.loads(pickle.dumps(fit)).nll == fit.nll
    mask = ~np.isnan(y)
    fit = pu.fit(pu.ppca(1), np.nan_to_num(y), mask=mask, steps=3)
    before = fit.predict(threads=1).mean
    mask[:] = True
    assert (fit.predict(threads=1).mean == before).all()
    own = Phi.copy()
    model = pu.regression(own)
    own[:] = 7
    assert pu.at(model, line).nll == pu.at(pu.regression(Phi), line).nll


def test_shapes_that_would_be_read_as_something_else_are_refused():
    y = series()
    for model in (pu.noisy_ar(1), pu.structural("level"), pu.state_space(1)):
        raises(ValueError, "series of one step each", lambda: pu.fit(model, y[:, np.newaxis]))
    grid = np.random.default_rng(22).normal(size=(5, 6))
    fit = pu.fit(pu.field(), grid, steps=2)
    assert fit.predict(grid[:4]).mean.shape == (4, 6)
    raises(ValueError, "fitted with 2", lambda: fit.predict(np.stack([grid, grid])))
    raises(ValueError, "have shape ()", lambda: pu.effects({"g": 3}))
    raises(ValueError, "have shape (0,)", lambda: pu.effects({"g": []}))

    class Unknown:
        def __ne__(self, other):
            raise TypeError("ambiguous, as pandas.NA is")

    raises(ValueError, "groups['g'][1] is missing", lambda: pu.effects({"g": ["a", Unknown()]}))
    raises(TypeError, "complex", lambda: pu.at(pu.ppca(1), table(), np.ones(9) * 1j))
    raises(TypeError, "real numbers are wanted", lambda: pu.at(pu.ppca(1), table(), ["a"]))
    raises(TypeError, "numbers is wanted", lambda: pu.fit(pu.ppca(1), table(), steps=1).gradient(["a"]))


def test_wrong_data_are_refused():
    y = table()
    ppca = pu.ppca(1)
    raises(ValueError, "a datum per row", lambda: pu.fit(ppca, [1.0, 2.0]))
    raises(ValueError, "0 axes", lambda: pu.fit(ppca, 3.0))
    raises(ValueError, "3 axes", lambda: pu.fit(ppca, np.zeros((2, 2, 2))))
    raises(TypeError, "[0, 1] is None", lambda: pu.fit(ppca, [[1, None], [2, 3]]))
    raises(TypeError, "<U1", lambda: pu.fit(ppca, [["a"]]))
    raises(TypeError, "complex", lambda: pu.fit(ppca, y + 0j))
    raises(TypeError, "datetime", lambda: pu.fit(ppca, np.zeros((2, 2), dtype="M8[s]")))
    for empty in ([], [[]], np.zeros((0, 3)), np.zeros((3, 0))):
        raises(ValueError, "empty" if np.ndim(empty) == 2 else "", lambda empty=empty: pu.fit(ppca, empty))
    raises(ValueError, "y[1, 2] is -inf", lambda: pu.fit(ppca, np.where(np.arange(6).reshape(2, 3) == 5, -np.inf, 1.0)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy before 1.24 makes an array of objects of it, with a warning
        raises(pu.Error, "y is ", lambda: pu.fit(ppca, [[1, 2], [3]]))
    raises(ValueError, "nothing is observed", lambda: pu.fit(ppca, np.full((3, 2), NAN)))
    raises(TypeError, "the data come second", lambda: pu.fit(y, ppca))
    raises(TypeError, "model is str", lambda: pu.fit("ppca", y))
    raises(ValueError, "Phi has 5", lambda: pu.fit(pu.regression(np.ones((5, 2))), np.ones((5, 1))))
    raises(ValueError, "Phi[1, 0] is nan", lambda: pu.regression([[1.0], [NAN]]))
    raises(ValueError, "latent is 0", lambda: pu.ppca(0))
    raises(ValueError, "latent is 2.0", lambda: pu.factors(2.0))
    raises(ValueError, "latent is True", lambda: pu.factors(True))
    raises(ValueError, "zero, stationary", lambda: pu.state_space(1, "cold"))
    raises(ValueError, "level slope season", lambda: pu.fit(pu.structural("trend"), series()))
    raises(ValueError, "times", lambda: pu.fit(pu.structural("level", times=[3.0, 2.0, 1.0]), [1.0, 2.0, 3.0]))
    raises(ValueError, "times has 3", lambda: pu.fit(pu.structural("level", times=[1.0, 2.0, 3.0]), [1.0, 2.0]))
    raises(ValueError, "1 to 3 axes", lambda: pu.field((2, 2, 2, 2)))
    raises(ValueError, "order", lambda: pu.fit(pu.noisy_ar(5), [1.0, 2.0]))
    raises(TypeError, "dictionary", lambda: pu.effects(["a", "b"]))
    raises(ValueError, "groups['g'][1] is missing", lambda: pu.effects({"g": ["a", None]}))
    raises(ValueError, "groups['g'][1] is missing", lambda: pu.effects({"g": [1.0, NAN]}))
    raises(ValueError, "no group 'h'", lambda: pu.effects({"g": ["a", "b"]}, slopes={"h": [1.0, 2.0]}))
    raises(ValueError, "X has 3 rows", lambda: pu.effects({"g": ["a", "b"]}, X=np.ones((3, 1))))
    raises(ValueError, "groups has 2", lambda: pu.fit(pu.effects({"g": ["a", "b"]}), [1.0, 2.0, 3.0]))
    raises(ValueError, "column that depends", lambda: pu.fit(pu.effects({"g": [0, 1] * 4}, X=np.ones((8, 2))), np.arange(8.0)))
    fit = pu.fit(ppca, y)
    raises(ValueError, "was fitted with 7", lambda: fit.predict(np.ones((2, 4))))
    raises(ValueError, "belong to a y", lambda: fit.predict(mask=np.ones((2, 3), dtype=bool)))
    raises(ValueError, "effects are those", lambda: fit.effects())
    raises(ValueError, "read-only", lambda: fit.theta.__setitem__(0, 1.0))


def test_small_data():
    assert pu.fit(pu.ppca(1), [[1.0, 2.0]]).predict().mean.shape == (1, 2)
    for model in (pu.structural("level"), pu.noisy_ar(1), pu.state_space(1)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pu.PuWarning)
            assert np.isfinite(pu.fit(model, [1.0, 2.0, 0.5]).predict().mean).all()
    constant = np.ones((6, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pu.PuWarning)
        assert near(pu.fit(pu.ppca(1), constant).predict().mean, constant)


# ---- files and copies


def test_files():
    y = table()
    fit = pu.fit(pu.ppca(1), y, seed=4)
    fit.save("a.model", notes="weights\nin kg")
    back = pu.load("a.model")
    assert (back.theta == fit.theta).all() and back.converged and back.text == fit.text and back.options == {"seed": 4}
    assert (back.predict(y).mean == fit.predict().mean).all() and back.params == fit.params and "without data" in repr(back)
    raises(ValueError, "without its data", lambda: back.predict())
    raises(ValueError, "without its data", lambda: back.nll)
    assert (back.simulate(2).y == fit.simulate(2).y).all()
    whole = pu.load("a.model", y=y)
    assert whole.nll == fit.nll and (whole.gradient().gradient == fit.gradient().gradient).all()
    back.save("b.model")
    assert pu.load("b.model", y=y).nll == fit.nll
    rng = np.random.default_rng(8)
    labels = np.array(["x", "y"])[rng.integers(0, 2, 30)]
    models = [
        (pu.regression(rng.normal(size=(30, 2)).astype(np.float32)), rng.normal(size=30)),
        (pu.regression(rng.normal(size=(30, 2)).astype(">f8")), rng.normal(size=30)),
        (pu.structural("level", times=np.arange(30.0) ** 1.5, regressors=rng.normal(size=(30, 1))), rng.normal(size=30)),
        (pu.effects({"g": labels}), rng.normal(size=30)),
        (pu.field((5, 6)), rng.normal(size=(5, 6))),
        (pu.dynamic_factors(1, "stationary"), rng.normal(size=(10, 3))),
    ]
    for model, data in models:
        fit = pu.fit(model, data, steps=2, precision="float" if model.kind == "field" else "double")
        fit.save("c.model")
        back = pu.load("c.model")
        assert (back.predict(data).mean == fit.predict().mean).all() and repr(back.model) == repr(model)
    assert pu.load("c.model").theta.dtype == np.float64
    fit = pu.fit(*models[3], steps=2)
    fit.save("d.model")
    assert pu.load("d.model", y=models[3][1]).effects() == fit.effects()


def test_files_that_are_none():
    with open("open", "wb") as file:
        raises(TypeError, "not int", lambda: pu.load(file.fileno()))
        file.write(b"x")
    y = table()
    fit = pu.fit(pu.ppca(1), y)
    raises(OSError, "No such file", lambda: pu.load("nowhere"))
    with open("text", "w") as file:
        file.write("a text\n")
    raises(OSError, "no saved model", lambda: pu.load("text"))
    raises(OSError, "not replaced", lambda: fit.save("text"))
    np.save("theta.npy", fit.theta)
    raises(OSError, "no saved model", lambda: pu.load("theta.npy"))
    fit.save("a.model")
    with open("a.model", "rb") as file:
        content = file.read()
    for cut in (10, 128, len(content) - 3):
        with open("cut", "wb") as file:
            file.write(content[:cut])
        raises(OSError, "", lambda: pu.load("cut"))
    for at in (140, content.index(b'"kind"'), len(content) - 40):
        changed = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        with open("changed", "wb") as file:
            file.write(changed)
        raises(OSError, "", lambda: pu.load("changed"))
    open("empty", "w").close()
    raises(OSError, "", lambda: pu.load("empty"))
    fit._handle.save(fit.theta, "c.model", "by another program")
    raises(OSError, "which model", lambda: pu.load("c.model"))
    assert (pu.load("c.model", model=pu.ppca(1), y=y).theta == fit.theta).all()
    raises(OSError, "model", lambda: pu.load("c.model", model=pu.factors(1), y=y))
    raises(ValueError, "notes", lambda: fit.save("e.model", fit._handle.kind + "\n--- pu for Python, 1: "))
    try:
        full = open("/dev/full", "w")
    except OSError as error:
        raise unittest.SkipTest("no /dev/full") from error
    full.close()
    raises(OSError, "", lambda: fit.save("/dev/full"))


def test_copies():
    fit = pu.fit(pu.ppca(1), table(), seed=2)
    for other in (pickle.loads(pickle.dumps(fit)), copy.deepcopy(fit), copy.copy(fit)):
        assert (other.theta == fit.theta).all() and other.nll == fit.nll and repr(other) == repr(fit)
        assert (other.predict().mean == fit.predict().mean).all()


def test_models_say_what_they_are():
    assert repr(pu.structural("level ar:2")) == "<pu.structural parts='level ar:2'>"
    assert repr(pu.regression(np.ones((3, 2)))) == "<pu.regression rows=3, latent=2, Phi: 3x2>"
    assert "regressors: 5x1" in repr(pu.noisy_ar(1, regressors=np.ones((5, 1))))
    assert pu.__version__ == pu.version() and pu.library_path.is_file()


def test_a_warning_names_the_line_of_the_caller():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        pu.fit(pu.structural("level slope"), np.arange(20.0))
    assert told and told[0].category is pu.PuWarning and told[0].filename == __file__
