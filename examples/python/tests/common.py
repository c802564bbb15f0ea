"""What the tests share."""

import warnings

import numpy as np
import pu


def raises(kind, words, function):
    """function() must raise this, with these words in its text. Returns the exception."""
    try:
        result = function()
    except kind as error:
        for word in [words] if isinstance(words, str) else words:
            assert word in str(error), f"{word!r} is not in: {error}"
        return error
    raise AssertionError(f"nothing was raised; {result!r} was returned")


def warned(words, function):
    """function() must give one warning of pu, with these words. Returns what it returned."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        result = function()
    texts = [str(w.message) for w in told if issubclass(w.category, pu.PuWarning)]
    assert len(texts) == 1 == len(told), [str(w.message) for w in told]
    for word in [words] if isinstance(words, str) else words:
        assert word in texts[0], f"{word!r} is not in: {texts[0]}"
    return result


def table(n=60, m=3, gaps=True, seed=0):
    """Data with one factor."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(n, 1)) * (1 + np.arange(m)) + 0.3 * rng.normal(size=(n, m)) + 2
    if gaps:
        y[::7, 1] = np.nan
    return y


def handle(y=None, kind="ppca", precision="double"):
    y = table() if y is None else y
    h = pu.Handle(kind, precision).set("rows", np.shape(y)[1]).set("latent", 1)
    h.data(y)
    return h
