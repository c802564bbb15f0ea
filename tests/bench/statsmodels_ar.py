#!/usr/bin/env python3
"""The rival of examples/noisy_ar: statsmodels' SARIMAX with measurement error, same model, same series.

    noisy_ar --length 1000 --seed 3 --save y.csv --json ours.json
    python3 statsmodels_ar.py y.csv --order 5 --against ours.json [--json theirs.json]

Reads a CSV file with one series per column (empty = missing), maximises the exact likelihood, summed over the series, as
statsmodels does for one: L-BFGS-B on differences of the log-likelihood, parameters constrained to be stationary, start_params
(their mean over the series). Prints one JSON object: parameters, mean NLL per series, seconds, and with --against the relative
difference of the likelihoods and the errors of both when the truth is known. --at-ours evaluates statsmodels' likelihood at
the parameters of --against and fits nothing; --from-ours begins there, to see whether another optimum is near.
"""
import argparse
import json
import sys
import time
import warnings

try:
    import numpy as np
    from scipy.optimize import minimize
    from statsmodels.tsa.statespace.sarimax import SARIMAX
except ImportError as missing:
    print("skipped: %s (Debian: python3-statsmodels)" % missing)
    sys.exit(0)

parser = argparse.ArgumentParser()
parser.add_argument("csv")
parser.add_argument("--order", type=int, default=5)
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--against", help="JSON of noisy_ar on the same series")
parser.add_argument("--at-ours", action="store_true")
parser.add_argument("--from-ours", action="store_true")
parser.add_argument("--json")
args = parser.parse_args()
warnings.simplefilter("ignore")

P = args.order
y = np.genfromtxt(args.csv, delimiter=",", skip_header=1, ndmin=2)
models = [SARIMAX(column, order=(P, 0, 0), measurement_error=True, trend="n") for column in y.T]
names = models[0].param_names
at = [names.index("ar.L%d" % (i + 1)) for i in range(P)] + [names.index("sigma2"), names.index("var.measurement_error")]
evaluations = 0


def nll(params):
    global evaluations
    evaluations += 1
    return -sum(m.loglike(params, transformed=True) for m in models) / len(models)


def errors(x, truth):
    parts = [slice(0, P), slice(P, P + 1), slice(P + 1, P + 2)]
    return [100 * float(np.linalg.norm(x[p] - truth[p]) / np.linalg.norm(truth[p])) for p in parts]


ours = json.load(open(args.against)) if args.against else None
out = {"order": P, "series": y.shape[1], "length": y.shape[0]}
if ours:
    params = np.zeros(len(names))
    params[at] = ours["phi"] + [ours["kappa"], ours["lambda"]]
    begin = time.perf_counter()
    out["nll_at_ours"] = nll(params)
    out["seconds_per_nll"] = time.perf_counter() - begin
    out["nll_ours"] = ours["nll_exact"]
    out["nll_difference"] = abs(out["nll_at_ours"] / ours["nll_exact"] - 1)
if not args.at_ours:
    begin, cpu, evaluations = time.perf_counter(), time.process_time(), 0
    start = params if args.from_ours else np.mean([m.start_params for m in models], axis=0)
    free = models[0].untransform_params(start)
    scale = np.count_nonzero(~np.isnan(y)) / y.shape[1]  # statsmodels divides by the number of observations, too
    found = minimize(lambda v: nll(models[0].transform_params(v)) / scale, free, method="L-BFGS-B",
                     options=dict(maxiter=args.steps, maxfun=100000))
    x = models[0].transform_params(found.x)[at]
    out.update(phi=list(x[:P]), kappa=x[P], **{"lambda": x[P + 1]}, nll=found.fun * scale, steps=int(found.nit),
               evaluations=evaluations, seconds=time.perf_counter() - begin, cpu_seconds=time.process_time() - cpu,
               message=str(found.message))
    if ours:
        out["time_ratio"] = out["seconds"] / ours["seconds"]
        if "truth" in ours:
            truth = np.array(ours["truth"])
            out["nrmse"] = errors(x, truth)
            out["nrmse_ours"] = errors(np.array(ours["phi"] + [ours["kappa"], ours["lambda"]]), truth)
text = json.dumps(out, indent=1)
print(text)
if args.json:
    open(args.json, "w").write(text + "\n")
