#!/usr/bin/env python3
"""mixed.py - examples/mixed beside GPBoost (PyPI gpboost) and lme4 (R) on one table: time, memory, likelihood, estimates.

    ./build.sh examples mixed
    python3 tests/bench/mixed.py --data ratings.csv --response rating --groups user,item
    python3 tests/bench/mixed.py --simulate 10000000 1000000,100000 --limit 900

Every fit is a process of its own, one after the other, best of --rounds in turns; a rival that is not installed is left out, one
that takes more than --limit seconds of processors or more memory than --memory is said to have been ended. Times are of the fit to the estimates, without
reading the table and without standard errors, by the clock and of processors; "all" has the whole program, with reading and, for ours,
standard errors. Memory is the peak of the process. The table must have a header.
"""
import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

GPBOOST = r"""
import json, sys, time
import numpy as np, pandas as pd, gpboost as gpb
path, response, groups, method, threads = sys.argv[1:6]
names = groups.split(",")
table = pd.read_csv(path, usecols=[response] + names)
y = table[response].to_numpy(dtype=float)
levels = np.column_stack([pd.factorize(table[g])[0] for g in names])
model = gpb.GPModel(group_data=levels, likelihood="gaussian", matrix_inversion_method=method, num_parallel_threads=int(threads))
wall, cpu = time.time(), time.process_time()
model.fit(y=y, X=np.ones((len(y), 1)))
wall, cpu = time.time() - wall, time.process_time() - cpu
v = np.asarray(model.get_cov_pars(std_err=False)).ravel()
print("RESULT " + json.dumps({"seconds": wall, "processor_seconds": cpu, "nll": float(model.get_current_neg_log_likelihood()),
      "residual": float(v[0]), "variances": [float(x) for x in v[1:]], "intercept": float(np.asarray(model.get_coef(std_err=False)).ravel()[0])}))
"""

LME4 = r"""
suppressMessages(library(lme4))
a <- commandArgs(TRUE); names <- strsplit(a[3], ",")[[1]]
d <- read.csv(a[1], check.names = FALSE)
for (g in names) d[[g]] <- factor(d[[g]])
f <- as.formula(paste(a[2], "~ 1 +", paste0("(1 | ", names, ")", collapse = " + ")))
t <- system.time(m <- lmer(f, d, REML = FALSE, control = lmerControl(calc.derivs = FALSE)))
v <- as.data.frame(VarCorr(m))
cat(sprintf('RESULT {"seconds": %.6g, "processor_seconds": %.6g, "nll": %.10g, "residual": %.10g, "variances": [%s], "intercept": %.10g}\n',
            t[["elapsed"]], t[["user.self"]] + t[["sys.self"]], -as.numeric(logLik(m)), v[v$grp == "Residual", "vcov"],
            paste(sprintf("%.10g", sapply(names, function(g) v[v$grp == g, "vcov"])), collapse = ", "), fixef(m)[[1]]))
"""


def run(command, limit, memory, threads):
    """Its lines, seconds by the clock, of processors, peak in MB; lines None where it was ended or failed."""
    env = dict(os.environ, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads), OMP_WAIT_POLICY="passive")

    def child():
        resource.setrlimit(resource.RLIMIT_AS, (memory << 20, memory << 20))
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 1, int(limit) + 1))

    with tempfile.TemporaryFile("w+") as out:
        began = time.time()
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=env, preexec_fn=child)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.time() - began
        out.seek(0)
        text = out.read()
    if used.ru_utime + used.ru_stime > limit:
        return None, "ended", used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    if process.returncode:
        return None, "failed: " + " ".join(text.split())[-160:], used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    return text, wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def ours(a, engine, path):
    with tempfile.TemporaryDirectory() as directory:
        target = os.path.join(directory, "fit.json")
        command = [a.program, "--data", path, "--response", a.response, "--groups", a.groups, "--engine", engine,
                   "--threads", str(a.threads), "--samples", str(a.samples), "--json", target]
        text, wall, cpu, mb = run(command, a.limit, a.memory, a.threads)
        if text is None:
            return {"ended": wall, "all_processor": cpu, "mb": mb}
        with open(target) as file:
            fit = json.load(file)
    return {"seconds": fit["seconds"], "processor": fit["processor_seconds"], "all_seconds": wall, "all_processor": cpu, "mb": mb,
            "nll": fit["nll"], "nll_95": fit["nll_95"], "residual": fit["variances"]["residual"],
            "variances": [fit["variances"][g] for g in a.groups.split(",")], "intercept": fit["fixed"]["intercept"],
            "engine": fit["engine"], "gradients": fit["gradients"]}


def rival(a, command):
    text, wall, cpu, mb = run(command, a.limit, a.memory, a.threads)
    if text is None:
        return {"ended": wall, "all_processor": cpu, "mb": mb}
    line = [x for x in text.splitlines() if x.startswith("RESULT ")][-1]
    fit = json.loads(line[7:])
    return {"seconds": fit["seconds"], "processor": fit["processor_seconds"], "all_seconds": wall, "all_processor": cpu, "mb": mb,
            "nll": fit["nll"], "nll_95": 0, "residual": fit["residual"], "variances": fit["variances"], "intercept": fit["intercept"]}


def better(old, new):
    """The quicker of two runs, by processor time, which a busy machine changes least."""
    if old is None or "ended" in old:
        return new
    return old if "ended" in new or old["processor"] <= new["processor"] else new


def show(name, r):
    if "ended" in r:
        return "| %s | %s | | %.0f s | %.0f | | | | |" % (name, r["ended"], r["all_processor"], r["mb"])
    nll = "%.4f" % r["nll"] + (" +- %.2g" % r["nll_95"] if r.get("nll_95") else "")
    return "| %s | %.2f | %.2f | %.2f | %.0f | %s | %.5f | %s | %.4f |" % (
        name, r["seconds"], r["processor"], r["all_processor"], r["mb"], nll, r["residual"], ", ".join("%.5f" % v for v in r["variances"]),
        r["intercept"])


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--data")
    p.add_argument("--response", default="y")
    p.add_argument("--groups", default="a,b")
    p.add_argument("--simulate", nargs=2, metavar=("ROWS", "LEVELS"), help="instead of --data: rows, levels of each group")
    p.add_argument("--program", default="build/examples/mixed")
    p.add_argument("--engines", default="iterative,schur")
    p.add_argument("--rivals", default="gpboost iterative,gpboost cholesky,lme4")
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--samples", type=int, default=16)
    p.add_argument("--limit", type=float, default=1800, help="seconds of processors for one fit")
    p.add_argument("--memory", type=int, default=16000, help="MB of address space for one fit")
    p.add_argument("--json", default="build/mixed.json")
    a = p.parse_args()
    if not a.data and not a.simulate:
        p.error("--data or --simulate")
    with tempfile.TemporaryDirectory() as directory:
        path = a.data
        if a.simulate:
            path = os.path.join(directory, "made.csv")
            subprocess.run([a.program, "--simulate-rows", a.simulate[0], "--simulate-levels", a.simulate[1], "--simulate-fixed", "0",
                            "--simulate-write", path, "--write-only"], check=True)
        with open(os.path.join(directory, "lme4.R"), "w") as file:
            file.write(LME4)
        jobs = {"ours, " + e: (lambda e=e: ours(a, e, path)) for e in a.engines.split(",") if e}
        for name in [x for x in a.rivals.split(",") if x]:
            if name == "lme4":
                command = ["Rscript", file.name, path, a.response, a.groups]
                there = shutil.which("Rscript") and not subprocess.run(["Rscript", "-e", "library(lme4)"], capture_output=True).returncode
            else:
                command = [sys.executable, "-c", GPBOOST, path, a.response, a.groups, name.split()[1], str(a.threads)]
                there = not subprocess.run([sys.executable, "-c", "import gpboost"], capture_output=True).returncode
            if there:
                jobs[name] = lambda command=command: rival(a, command)
            else:
                print("%s: not installed" % name)
        results = {}
        for turn in range(a.rounds):
            for name, job in jobs.items():
                if turn and "ended" in results[name]:
                    continue
                results[name] = better(results.get(name), job())
                print("%s: %s (load %.1f)" % (name, results[name], os.getloadavg()[0]), file=sys.stderr, flush=True)
    print("| | fit, s | processors, s | all, processors, s | MB | NLL | residual | %s | intercept |" % a.groups)
    print("|---|---|---|---|---|---|---|---|---|")
    for name, r in results.items():
        print(show(name, r))
    os.makedirs(os.path.dirname(a.json) or ".", exist_ok=True)
    with open(a.json, "w") as file:
        json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
