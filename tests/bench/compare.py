#!/usr/bin/env python3
"""Runs build/bench/workloads and its rivals in turns, prints one table, keeps every figure in build/bench.json.

    ./build.sh bench [--quick] [--only WORD] [--runs N] [--rounds N] [--threads T] [--sensing-steps N]

Rivals, each left out with a word when it is not there:
    PU_PEER=DIR      has bench_torch.py, the same method in PyTorch (default ../shared/peer); run by the system's python3 with
                     OpenBLAS's OpenMP variant where that is installed
    statsmodels      SARIMAX, by the same script or, without it, by statsmodels_ar.py beside this file
PU_RATINGS=FILE      ratings of MovieLens-1M for ours; without it they are made up. The PyTorch script makes up its own, equally
                     many per user.
Both sides use the same number of threads and single precision (statsmodels: double, one thread, its own choice). A row's
programs take turns for --rounds rounds and the best of each counts; ratio = rival / ours. The whole table is measured --runs
times, one after the other: seconds are the best of all, the ratios of the runs stand side by side, with their geometric mean.
Ours is also timed as plain -O2 without -march, in the first round of a run. When it is interrupted, what has been measured is
told. Standard library only.
"""
import argparse
import atexit
import datetime
import glob
import json
import math
import os
import re
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
parser = argparse.ArgumentParser()
parser.add_argument("--quick", action="store_true", help="small sizes, one round: to see that all of it runs")
parser.add_argument("--only", help="rows whose name contains this")
parser.add_argument("--runs", type=int, default=1, help="of the whole table")
parser.add_argument("--rounds", type=int, default=3, help="of a row in each run")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--sensing-steps", type=int, default=60, help="of the rival, on its way to its least error")
parser.add_argument("--programs", default="build/bench")
parser.add_argument("--json", default="build/bench.json")
args = parser.parse_args()
if args.quick:
    args.rounds, args.sensing_steps = 1, 12

PYTHON = "/usr/bin/python3"
PEER = os.environ.get("PU_PEER") or os.path.join(HERE, "..", "..", "..", "shared", "peer")
SCRIPT = os.path.join(PEER, "bench_torch.py")
RATINGS = os.environ.get("PU_RATINGS")
OURS, FFTW, PLAIN = (os.path.join(args.programs, name) for name in ("workloads", "workloads_fftw", "workloads_O2"))
notes, log = [], []


def note(text):
    if text not in notes:
        notes.append(text)


# ---- programs

def blas_directory():
    """Where OpenBLAS's OpenMP variant is, or None."""
    try:
        listed = subprocess.run(["dpkg", "-L", "libopenblas0-openmp"], capture_output=True, text=True).stdout.split()
    except OSError:
        listed = []
    for path in listed + glob.glob("/usr/lib/*/openblas-openmp/libopenblas.so.0"):
        if os.path.basename(path) == "libopenblas.so.0":
            return os.path.dirname(path)
    return None


def works(code):
    return os.path.exists(PYTHON) and subprocess.run([PYTHON, "-c", code], capture_output=True).returncode == 0


environment = dict(os.environ, OMP_NUM_THREADS=str(args.threads))
blas = blas_directory()
if blas:
    environment["LD_LIBRARY_PATH"] = blas
has_peer = os.path.exists(SCRIPT) and works("import torch, scipy")
has_statsmodels = works("import statsmodels.tsa.statespace.sarimax")
if not has_peer:
    note("no PyTorch rival: PU_PEER has no bench_torch.py, or the system's python3 has no torch and scipy")
elif not blas:
    note("libopenblas0-openmp was not found: the rival's matrix rows may be 2 to 3 times slower than they could be")
if not has_statsmodels:
    note("no statsmodels (Debian: python3-statsmodels)")
if not os.path.exists(FFTW):
    note("no FFTW: the row with it is left out")
if not RATINGS:
    note("PU_RATINGS names no file: ratings are made up, as many per user as in MovieLens-1M")


def run(command, env=None):
    """Its output; None, with a note, when it failed."""
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        note("failed: %s: %s" % (" ".join(command), (done.stderr.strip().splitlines() or ["no message"])[-1]))
        return None
    return done.stdout


def ours(*words, program=OURS):
    def go():
        out = run([program, *map(str, words), "--threads", str(args.threads), "--json"]) if os.path.exists(program) else None
        return json.loads(out.splitlines()[-1]) if out else None
    return go


def peer(*words):
    """A run of bench_torch.py: its RESULT, with the trace of errors where it prints one."""
    def go():
        command = [PYTHON, SCRIPT, *map(str, words), "--threads", str(args.threads)]
        out = run(command, environment) if has_peer else None
        if not out:
            return None
        result = json.loads(re.search(r"^RESULT (.*)$", out, re.M).group(1))
        result["seconds"] = result.get("total_s") if words[0] == "ar-sarimax" else result["sec_per_step"]
        result["peak_mb"] = result["peak_rss_mb"]
        trace = re.findall(r"^(\d+) NRMSE ([\d.]+)%.*?([\d.]+) s/step", out, re.M)
        if trace:
            result["trace"] = [[int(a), float(b), float(c)] for a, b, c in trace]
        return result
    return go


def statsmodels(csv):
    def go():
        out = run([PYTHON, os.path.join(HERE, "statsmodels_ar.py"), csv, "--order", "5"], environment)
        return json.loads(out) if out and out.startswith("{") else None
    return go


def export(what, path):
    """Writes a problem of bench_torch.py for ours to read; the path, or None."""
    code = """
import sys
sys.path.insert(0, %r)
sys.dont_write_bytecode = True
import numpy as np, bench_torch as b
if %r == "ar":
    d = b.ar_data(%d, 5, 5, seed=0)
    arrays, size, n = [np.where(d["mask"] > 0, d["y"], np.nan)], d["y"].shape[1], 5
else:
    z, mask, y, M = b.bcs_data(10, %d)
    arrays, size, n = [z, y.real, y.imag, mask], z.shape[1], 10
with open(%r, "wb") as f:
    np.array([n, size], np.int64).tofile(f)
    for a in arrays: np.ascontiguousarray(a, np.float64).tofile(f)
""" % (PEER, what, LENGTH, SIDE, path)
    return path if has_peer and run([PYTHON, "-c", code], environment) is not None else None


# ---- rows

rows = []


def progress(text):
    if sys.stderr.isatty():
        sys.stderr.write("\r%s\033[K" % text)
        sys.stderr.flush()


single = []
quick = args.quick
temporary = os.path.join(os.path.dirname(args.json) or ".", "bench_problem_")


# ---- the table

def geometric_mean(x):
    return math.exp(sum(map(math.log, x)) / len(x)) if x else None


def number(x, form):
    return form % x if x else "-"


def ratio(theirs, mine):
    return theirs["seconds"] / mine["seconds"] if theirs.get("seconds") and mine.get("seconds") else None


def line(name, mine, rival_name, theirs, ratios, target):
    print("| %s | %s | %s | %s | %s | %s | %s | %s | %s |" % (
        name, number(mine.get("seconds"), "%.4g"), number(mine.get("peak_mb"), "%.0f"), rival_name,
        number(theirs.get("seconds"), "%.4g"), number(theirs.get("peak_mb"), "%.0f"),
        " / ".join("%.1f" % x for x in ratios) or "-", number(geometric_mean(ratios), "**%.1f**"), target))


@atexit.register
def report():
    progress("")
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?") \
        if os.path.exists("/proc/cpuinfo") else "?"
    date = datetime.datetime.now().isoformat(timespec="seconds")
    loads = [entry["load"] for entry in log if "load" in entry]
    print("%s, %d threads, float, load %.1f to %.1f (%d of it ours), %d runs, best of %d in each%s" % (
        cpu, args.threads, min(loads, default=0), max(loads, default=0), args.threads, args.runs, args.rounds,
        "; QUICK: small sizes, ratios mean nothing" if quick else ""))
    print("\n| workload | ours s | MB | rival | rival s | MB | ratio, each run | mean | target |\n" + "|---" * 9 + "|")
    for row in rows:
        best = row["best"]
        line(row["name"], best.get("ours", {}), row["rival_name"], best.get("rival", {}), row["ratios"].get("ours", []),
             "%g" % row["target"])
        for who in best:
            if who not in ("ours", "rival"):
                line("- " + who, best[who], "", {}, row["ratios"].get(who, []), "")
    for turn in range(args.runs):
        ratios = [row["ratios"]["ours"][turn] for row in rows if len(row["ratios"].get("ours", [])) > turn]
        targets = [row["target"] for row in rows if len(row["ratios"].get("ours", [])) > turn]
        if ratios:
            line("geometric mean of %d rows, run %d" % (len(ratios), turn + 1), {}, "", {}, [geometric_mean(ratios)],
                 "%.1f" % geometric_mean(targets))
    print()
    for name, words, target in single:
        print("- %s: %s (target: %s)" % (name, words, target))
    for row in rows:
        if row["settings"]:
            print("- %s: %s" % (row["name"], row["settings"]))
    for text in notes:
        print("- note: " + text)
    os.makedirs(os.path.dirname(args.json) or ".", exist_ok=True)
    with open(args.json, "w") as file:
        json.dump(dict(date=date, cpu=cpu, cores=os.cpu_count(), threads=args.threads, runs=args.runs, rounds=args.rounds,
                       quick=quick, notes=notes, table=rows, alone=single, log=log), file, indent=1)
    for path in glob.glob(temporary + "*"):
        os.remove(path)
    print("every figure with its settings: " + args.json)


signal.signal(signal.SIGTERM, lambda *ignored: sys.exit(1))


def wanted(name):
    return not args.only or args.only in name


def row_of(name, target, rival_name, settings):
    for row in rows:
        if row["name"] == name:
            return row
    rows.append(dict(name=name, target=target, rival_name=rival_name, settings=settings, best={}, ratios={}))
    return rows[-1]


def keep(row, best, who, result, turn):
    """One measurement of this row: into the log, and into the best of this run and of all runs."""
    log.append(dict(row=row["name"], who=who, run=run_number, round=turn, load=os.getloadavg()[0], result=result))
    for those in (best, row["best"]):
        if who not in those or result["seconds"] < those[who]["seconds"]:
            those[who] = result


def race(name, target, mine, rival, rival_name, settings="", extra=None, plain=None):
    """One row: mine against the rival, in turns; extra: other settings of ours, by name, in the same turns; plain: ours
    without optimisation for this machine, in the first round only."""
    if not wanted(name):
        return None
    row, best = row_of(name, target, rival_name, settings), {}
    everyone = {"ours": mine, "rival": rival, **(extra or {}), "ours, plain -O2": plain}
    for turn in range(args.rounds):
        for who, go in everyone.items():
            if not go or (go is plain and turn):
                continue
            progress("run %d of %d: %s: %s, round %d of %d" % (run_number, args.runs, name, who, turn + 1, args.rounds))
            result = go()
            if result:
                keep(row, best, who, result, turn + 1)
    for who in best:
        if who != "rival" and "rival" in best:
            row["ratios"].setdefault(who, []).append(ratio(best["rival"], best[who]))
    return row


LENGTH, SIDE = (1000, 32) if quick else (30000, 128)
ratings_flag = ["--ratings", RATINGS] if RATINGS else []
sensing = ["--size", SIDE]
rival_sensing = ["bcs-pu", "--backward", "adjoint", "--fft", "scipy", "--img", SIDE]


def steps_of_noisy_ar():
    for length, target, steps in ((LENGTH, 8, 13), (1000, 16, 61))[int(quick):]:
        words = ["ar", "--length", length]
        race("noisy AR step, N=5 K=10 I=30, D=%d" % length, target, ours(*words),
             peer("ar-pu", "--D", length, "--backward", "adjoint", "--steps", steps), "PyTorch",
             "network gradient; adjoint auto: the shortcut where its check allows; rival: full, written by hand",
             {"ours, full adjoint": ours(*words, "--adjoint", "full")}, ours(*words, program=PLAIN))


def fit_of_noisy_ar():
    name, csv = "noisy AR fit, N=5, D=%d" % LENGTH, temporary + "ar.csv"
    if not wanted(name):
        return
    path = export("ar", temporary + "ar.bin")
    words = ["ar-fit", "--length", LENGTH, *(["--data", path] if path else ["--save", csv])]
    row = race(name, 25, ours(*words),
               (peer("ar-sarimax", "--D", LENGTH) if path else statsmodels(csv)) if has_statsmodels else None, "SARIMAX",
               "to the optimum, same series; ours: L-BFGS, exact gradients by the engine that auto picks",
               plain=ours(*words, program=PLAIN))
    if row["ratios"]:
        row["nll"] = [row["best"]["ours"]["nll_per_entry" if path else "nll"], row["best"]["rival"].get("nll")]
        row["settings"] = row["settings"].split("; NLL")[0] + "; NLL %.8g, rival's %.8g" % tuple(row["nll"])


def steps_of_sensing():
    words = ["sensing", *sensing, "--adjoint", "full"]
    race("sensing step %dx%d, N=10 K=30 I=25" % (SIDE, SIDE), 4, ours(*words), peer(*rival_sensing, "--steps", 5), "PyTorch",
         "network gradient, PCG, full adjoint, not repeated (PU_INEXACT); memory below 300 MB", {"ours, adjoint auto": ours("sensing", *sensing)},
         ours(*words, program=PLAIN))
    if os.path.exists(FFTW):
        race("the same with FFTW", 7, ours(*words, program=FFTW), peer(*rival_sensing, "--steps", 5), "PyTorch", "PU_USE_FFTW")


def sensing_to_the_same_error():
    """The rival's least error within its steps, and the time at which it had it; once in all runs."""
    if not has_peer or not wanted("sensing to NRMSE") or run_number > 1:
        return
    progress("sensing to the same error: rival")
    theirs = peer(*rival_sensing, "--steps", args.sensing_steps, "--eval-every", 1)()
    if not theirs or "trace" not in theirs:
        return
    least = min(t[1] for t in theirs["trace"])
    when = next(t[0] for t in theirs["trace"] if t[1] <= least)
    theirs["seconds"], theirs["steps_to_least"] = sum(t[2] for t in theirs["trace"][:when]), when
    path = export("sensing", temporary + "sensing.bin")
    row, best = row_of("sensing to NRMSE %.2f %%" % least, 12, "PyTorch",
                       "same images; the least error of the rival, at its step %d of %d; in the first run only" % (
                           when, args.sensing_steps)), {}
    keep(row, best, "rival", theirs, 1)
    for turn in range(args.rounds):
        progress("sensing to the same error: ours, round %d" % (turn + 1))
        mine = ours("sensing-fit", "--data", path, "--target", least)()
        if mine and mine["seconds"]:
            keep(row, best, "ours", mine, turn + 1)
        elif mine:
            note("sensing to NRMSE %.2f %%: ours ended at %s %%" % (least, mine["nrmse"]))
    if "ours" in best:
        mine = best["ours"]
        row["ratios"]["ours"] = [ratio(theirs, mine)]
        row["settings"] += ("; rate and start as the rival's; ours: K=%g I=%g (chosen on these images), output "
                            "gradient, fixed probes, warm starts, Rao-Blackwell diagonal, step %s, error %.4g %%" % (
                                mine["K"], mine["I"], mine["steps_to_target"], mine["nrmse"]))


def steps_of_factor_analysis():
    for factors, first, second in ((20, 6, 5),) if quick else ((1000, 5, 4), (100, 6, 5)):
        for engine, target, rival, name in (
                ("iterative", first, ["fa-pu", "--mode", "loop"], "PyTorch iterative"),
                ("auto", second, ["fa-em", "--mode", "woodbury"], "PyTorch Woodbury")):
            words = ["ratings", "--factors", factors, *ratings_flag, "--engine", engine]
            race("factor analysis step, %s, D=%d" % (engine, factors), target, ours(*words),
                 peer(*rival, "--D", factors, "--steps", 7), name, "100 users, K=I=10, output gradient, Adam included"
                 + ("; auto may solve exactly" if engine == "auto" else ""), plain=ours(*words, program=PLAIN))


def alone(name, target, go, words):
    """A row without a rival, once; words(result) tells it."""
    if not wanted(name) or run_number > 1:
        return
    progress(name)
    result = go()
    progress("")
    if result:
        log.append(dict(row=name, who="ours", run=run_number, load=os.getloadavg()[0], result=result))
        single.append((name, words(result), target))


def rows_without_a_rival():
    alone("2,000 steps of 100 users, D=1000", "350 s on two cores, 200 MB",
          ours("ratings", "--factors", 50 if quick else 1000, "--steps", 5 if quick else 2000, *ratings_flag),
          lambda r: "%.0f s%s, %.0f MB" % (2000 * r["seconds_mean"],
                                           "" if r["steps"] == 2000 else " (extrapolated from %.0f steps)" % r["steps"],
                                           r["peak_mb"]))
    for which, small in (("ar", 10000), ("fourier", 64), ("factors", 1), ("users", 1)):
        alone("growth-" + which, "0.1 off, %d threads 1.8" % args.threads,
              ours("growth-" + which, *(["--most", small, "--runs", 1] if quick else [])),
              lambda r: "slope %.2f, theory %.2f; gain of threads %.2f" % (r["slope"], r["slope_expected"], r["threads_gain"]))


for run_number in range(1, args.runs + 1):
    steps_of_noisy_ar()
    fit_of_noisy_ar()
    steps_of_sensing()
    sensing_to_the_same_error()
    steps_of_factor_analysis()
    rows_without_a_rival()
