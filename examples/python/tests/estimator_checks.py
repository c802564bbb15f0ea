"""Scikit-learn's own checks of the estimators (sklearn.utils.estimator_checks.check_estimator), as the last section of ESTIMATORS.md.

    python examples/python/tests/estimator_checks.py              prints it
    python examples/python/tests/estimator_checks.py --write      writes it into the page

The exit code is 1 where a check failed that is not in EXCLUDED, or one in EXCLUDED passed.
"""

import os
import sys
import unittest
import warnings
from pathlib import Path

os.environ["SCIPY_ARRAY_API"] = "1"  # else scikit-learn skips a check; read when scipy is imported
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import sklearn  # noqa: E402
import threadpoolctl  # noqa: E402
from pu.estimators import (  # noqa: E402
    PPCA,
    BayesianRegression,
    FactorAnalysis,
    MixedEffects,
    NoisyAR,
    SparseBayes,
    StructuralSeries,
)
from sklearn.base import clone  # noqa: E402
from sklearn.utils import estimator_checks  # noqa: E402

SERIES = {
    "check_methods_sample_order_invariance": "the rows of a series are its times: in another order it is another series",
    "check_methods_subset_invariance": "a time is predicted from all others: what is known of it changes when the others are left out",
    "check_fit1d": "wants a refusal of 1-D data, but a single series is 1-D data",
}
LABELS = {
    "check_estimators_nan_inf": "puts inf into a column of labels, and wants a refusal; any value but NaN and None is a label",
}
ESTIMATORS = [
    (FactorAnalysis(), {}),
    (PPCA(), {}),
    (BayesianRegression(), {}),
    (SparseBayes(), {}),
    (MixedEffects(), {}),
    (MixedEffects(groups=[0]), LABELS),
    (NoisyAR(), SERIES),
    (StructuralSeries(), SERIES),
]

# Checks of scikit-learn that check_estimator leaves to scikit-learn's own estimators.
FRAMES = ["check_dataframe_column_names_consistency"]
OUTPUT = [
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_global_output_transform_pandas",
]

PAGE = Path(__file__).resolve().parents[1] / "ESTIMATORS.md"
TITLE = "## Scikit-learn's own checks\n"
HEAD = TITLE + """
Made by `python examples/python/tests/estimator_checks.py --write` with scikit-learn {version}, whose
`check_estimator` puts every estimator through its own tests: refusals of bad input, clones, pickles, invariances, read-only memory,
pipelines; and its further ones for frames, names of features and `set_output`. The job of the tests fails when a check fails that is not
excluded here, or passes although it is.

Where scikit-learn would ask for a refusal of NaN, `FactorAnalysis`, `PPCA`, `NoisyAR` and `StructuralSeries` have its tag `allow_nan`, so
that this is not asked.
"""


def run(estimator, excluded):
    """Name of a check: its worst status (some are run several times)."""
    worst = {}
    rank = ["passed", "skipped", "xfail", "failed"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = estimator_checks.check_estimator(estimator, expected_failed_checks=excluded, on_fail=None, on_skip=None)
        for name in FRAMES + (OUTPUT if hasattr(estimator, "transform") else []):
            try:
                getattr(estimator_checks, name)(type(estimator).__name__, clone(estimator))
                results.append({"check_name": name, "status": "passed", "exception": None})
            except unittest.SkipTest as reason:
                results.append({"check_name": name, "status": "skipped", "exception": reason})
            except Exception as error:
                results.append({"check_name": name, "status": "failed", "exception": error})
    for result in results:
        name = result["check_name"]
        status = result["status"]
        if name not in worst or rank.index(status) > rank.index(worst[name][0]):
            worst[name] = (status, result["exception"])
    return worst


def section():
    """The section, and what went wrong."""
    lines = []
    wrong = []
    everywhere = None
    table = []
    for estimator, excluded in ESTIMATORS:
        worst = run(estimator, excluded)
        passed = {name for name, (status, _) in worst.items() if status == "passed"}
        everywhere = passed if everywhere is None else everywhere & passed
        table.append((estimator, excluded, worst, passed))
        for name, (status, error) in worst.items():
            if status == "failed":
                wrong.append(f"{estimator}: {name}: {error!r}")
        for name in excluded:
            status = worst.get(name, ("not there", None))[0]
            if status != "xfail":
                wrong.append(f"{estimator}: {name} is excluded, but its status is: {status}")
    lines.append(HEAD.format(version=sklearn.__version__))
    lines.append("| estimator | passed | failed | skipped | excluded |\n| --- | --- | --- | --- | --- |")
    for estimator, _, worst, passed in table:
        states = [status for status, _ in worst.values()]
        lines.append(f"| `{estimator}` | {len(passed)} | {states.count('failed')} | {states.count('skipped')} | {states.count('xfail')} |")
    lines.append("\n### Excluded, and why\n")
    told = {}
    for estimator, excluded, _, _ in table:
        for name, reason in excluded.items():
            told.setdefault((name, reason), []).append(f"`{estimator}`")
    for (name, reason), whose in told.items():
        lines.append(f"* `{name}` ({', '.join(whose)}): {reason}.")
    lines.append(f"\n### Passed by all ({len(everywhere)})\n")
    lines.append(", ".join(f"`{name}`" for name in sorted(everywhere)) + ".")
    lines.append("\n### Passed beside those\n")
    for estimator, _, _, passed in table:
        if passed > everywhere:
            lines.append(f"* `{estimator}`: " + ", ".join(f"`{name}`" for name in sorted(passed - everywhere)) + ".")
    return "\n".join(lines) + "\n", wrong


def main():
    threadpoolctl.threadpool_limits(1)  # threads that wait for each other take longer than these small products
    text, wrong = section()
    if sys.argv[1:] == ["--write"]:
        page = PAGE.read_text()
        PAGE.write_text(page[: page.index(TITLE)] + text)
    else:
        print(text, end="")
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
