"""The handle: what goes in, what is refused, how a fit is ended, threads, memory, the library."""

import gc
import os
import re
import signal
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

import numpy as np
import pu
from common import handle, raises, table, warned


def test_refusals_are_exceptions_of_the_expected_kinds():
    h = handle()
    theta = h.start()
    error = raises(ValueError, ["nothing", "there are: rows latent"], lambda: h.set("nothing", 1))
    assert isinstance(error, pu.Error) and error.status == -2 and error.status_name == "PU_E_ARGUMENT"
    raises(ValueError, "kalman", lambda: h.set("engine", "fast"))
    raises(ValueError, "rows", lambda: h.set("rows", 2.5))
    raises(ValueError, "seed", lambda: h.set("seed", -1))
    raises(ValueError, "2^53", lambda: h.set("seed", 2**53 + 1))
    raises(TypeError, "numbers", lambda: h.set("regressors", ["a", "b"]))
    raises(ValueError, "zero byte", lambda: h.set("engine", "dense\0x"))
    raises(ValueError, "one datum per row", lambda: h.data([1.0, 2.0]))
    raises(ValueError, "data", lambda: h.data(np.zeros((0, 3))))
    raises(ValueError, "bool", lambda: h.data(table(), mask=np.ones((60, 3))))
    raises(ValueError, "7 parameters", lambda: h.gradient(theta[:-1]))
    raises(ValueError, "7 parameters", lambda: h.fit(np.zeros((7, 1))))
    raises(ValueError, ["theta", "Phi[2,0]"], lambda: h.nll(np.where(np.arange(7) == 2, np.nan, theta)))
    raises(ValueError, "n is 0", lambda: h.simulate(theta, 0))
    raises(ValueError, "seed is -1", lambda: h.simulate(theta, 1, -1))
    raises(ValueError, "there are: factors ppca", lambda: pu.Handle("pca").start())
    raises(ValueError, "double", lambda: pu.Handle("ppca", "half"))
    raises(OSError, "there is none", lambda: h.load("nowhere.model"))
    raises(OSError, "", lambda: h.save(theta, "no/such/directory.model"))
    raises(ValueError, "", lambda: pu.Handle("ppca").set("rows", 3).set("latent", 1).start())  # no data
    raises(MemoryError, "", lambda: pu.Handle("ppca").set("rows", 2**40).set("latent", 2**15).start())


def test_kinds_of_numbers_and_strides():
    y = np.round(table(gaps=False) * 8) / 8  # exact in every type
    h = handle(y)
    theta = h.start()
    expected = h.nll(theta)
    wide = np.zeros((120, 6))
    wide[::-2, ::2] = y
    others = [y.astype("f4"), y.astype(">f8"), np.asfortranarray(y), wide[::-2, ::2], y.tolist(), y.astype("longdouble")]
    others += [np.ma.masked_array(y)]
    for other in others:
        h.data(other)
        assert h.nll(theta) == expected
    whole = np.round(y)
    h.data(whole)
    expected = h.nll(theta)
    for name in ("i1", "i2", "i4", "i8", ">i4"):
        h.data(whole.astype(name))
        assert h.nll(theta) == expected, name
    h.data(np.abs(whole))
    expected = h.nll(theta)
    for name in ("u1", "u2", "u4", "u8"):
        h.data(np.abs(whole).astype(name))
        assert h.nll(theta) == expected, name
    h.data(y > 2)
    assert np.isfinite(h.nll(theta)[0])
    raises(TypeError, "complex", lambda: h.data(y + 0j))
    raises(ValueError, "2^63", lambda: h.data(np.full((2, 3), 2**63 + 5, dtype="u8")))


def test_masks_mean_gaps():
    y = table(gaps=False)
    gaps = y.copy()
    seen = np.ones(y.shape, dtype=bool)
    seen[::3, 2] = False
    gaps[~seen] = np.nan
    h = handle(gaps)
    theta = h.start()
    expected = h.nll(theta)
    for mask in (seen, np.asfortranarray(seen), seen[::-1, ::-1].copy()[::-1, ::-1]):
        h.data(y, mask)
        assert h.nll(theta) == expected


def test_reservations_are_warnings():
    h = pu.Handle("structural").set("length", 30).set("parts", "level slope")
    h.data(np.arange(30.0)[np.newaxis] + np.sin(np.arange(30.0)))
    theta = h.fit(h.start())
    warned(["not identified", "var."], lambda: h.errors(theta))


def test_progress():
    h = handle()
    theta = h.start()
    seen = []
    h.fit(theta, lambda now: seen.append((now.step, now.objective, now.gradient, now.gradients, now.start, now.objective_se)))
    assert [s[0] for s in seen] == list(range(1, len(seen) + 1)) and len(seen) > 3
    assert seen[-1][1] < seen[0][1] and seen[-1][3] >= len(seen)
    h.fit(theta, lambda now: now.step == 2)
    assert h.number("steps") == 2 and h.number("converged") == 0 and "caller" in h.text("stop") and not h.interrupted
    reprs = []
    h.fit(theta, lambda now: bool(reprs.append(repr(now))))
    assert reprs[0].startswith("step 1: objective")


def test_what_a_progress_function_raises_is_raised():
    h = handle()
    theta = h.start()
    calls = []

    def fail(now):
        calls.append(now.step)
        raise KeyError("mine")

    raises(KeyError, "mine", lambda: h.fit(theta, fail))
    assert calls == [1]
    raises(pu.Error, "progress", lambda: h.fit(theta, lambda now: h.nll(theta)))
    raises(pu.Error, "progress", lambda: h.fit(theta, lambda now: h.fit(theta)))
    raises(SystemExit, "3", lambda: h.fit(theta, lambda now: sys.exit("3")))
    assert h.fit(theta).shape == theta.shape  # and is as good as new


def test_control_c_ends_a_fit_with_the_best_so_far():
    h = handle(table(2000, 8)).set("optimizer", "adam").set("steps", 10**7).set("rate", 1e-3)
    theta = h.start()
    began = time.monotonic()
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    best = warned(["Ctrl-C", "steps"], lambda: h.fit(theta))
    assert h.interrupted and time.monotonic() - began < 20
    assert h.nll(best)[0] < h.nll(theta)[0]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def twice(now):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    raises(KeyboardInterrupt, "", lambda: h.fit(theta, twice))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    raises(KeyboardInterrupt, "", lambda: h.fit(theta, raise_interrupt))  # of the user's own


def raise_interrupt(now):
    raise KeyboardInterrupt


def test_a_handler_of_the_users_is_left_alone():
    called = []
    before = signal.signal(signal.SIGINT, lambda number, frame: called.append(number))
    try:
        h = handle()
        h.fit(h.start(), lambda now: os.kill(os.getpid(), signal.SIGINT) if now.step == 1 else None)
    finally:
        signal.signal(signal.SIGINT, before)
    assert called and not h.interrupted and h.number("converged") == 1


def test_failed_fit_has_the_best_theta():
    h = handle()
    start = h.start()
    start[-1] = 1e4  # a precision of e^10000
    error = raises(ValueError, ["theta", "(beta)"], lambda: h.fit(start))
    assert (error.theta == start).all()


def test_threads_fit_at_once():
    def fit(seed):
        h = handle(table(400, 12, seed=seed)).set("optimizer", "adam").set("steps", 40)
        return h.fit(h.start())

    expected = [fit(seed) for seed in range(4)]
    results = [None] * 4

    def work(i):
        results[i] = fit(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((a == b).all() for a, b in zip(expected, results))


def test_one_handle_serves_threads_one_after_the_other():
    h = handle(table(300, 6))
    theta = h.start()
    expected = h.gradient(theta)
    wrong = []

    def work():
        for _ in range(20):
            if not (h.gradient(theta) == expected).all():
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_gil_is_released():
    h = handle(table(3000, 30)).set("optimizer", "adam").set("steps", 10**7).set("batch", 3000)
    theta = h.start()
    longest = [0.0]
    steps = [0]
    ended = threading.Event()

    def step(now):
        steps[0] = now.step
        return ended.is_set()

    worker = threading.Thread(target=lambda: h.fit(theta, step))
    worker.start()
    ticks = 0
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        before = time.monotonic()
        time.sleep(0.001)
        longest[0] = max(longest[0], time.monotonic() - before)
        ticks += 1
    ended.set()
    worker.join()
    assert ticks > 20 and steps[0] > 0, (ticks, steps)


def test_a_forked_process_fits_too():
    if not hasattr(os, "fork"):
        raise unittest.SkipTest("no fork")
    y = table(200, 12)
    options = {"threads": 2, "optimizer": "adam", "steps": 3}
    before = pu.fit(pu.ppca(1), y, **options)
    child = os.fork()
    if child == 0:
        old = before.gradient(errors=False)
        new = pu.fit(pu.ppca(1), y, **options)
        os._exit(0 if (new.theta == before.theta).all() and np.isfinite(old).all() else 1)
    end = time.monotonic() + 60
    ended, status = 0, 0
    while not ended and time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.01)
    if not ended:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert ended and status == 0, (ended, status)


def memory():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_memory_stays():
    if not Path("/proc/self/statm").is_file():
        raise unittest.SkipTest("no /proc/self/statm")
    y = table(100, 5)

    def rounds(n):
        for _ in range(n):
            fit = pu.fit(pu.ppca(2), y, steps=3, optimizer="lbfgs", progress=lambda now: None)
            fit.predict()
            fit.posterior()

    rounds(30)
    gc.collect()
    before = memory()
    rounds(200)
    gc.collect()
    grown = memory() - before
    assert grown < 3e6, f"{grown} bytes more after 200 fits of {y.nbytes} bytes of data"


def test_handles_are_freed_at_once():
    h = handle()
    h.fit(h.start(), lambda now: None)
    free = h._free
    gc.disable()
    try:
        del h
        assert not free.alive
    finally:
        gc.enable()


def test_save_and_load():
    h = handle()
    theta = h.fit(h.start())
    h.save(theta, Path("a.model"), "Müller")
    assert (h.load("a.model") == theta).all()
    assert (np.load("a.model") == theta).all()
    other = pu.Handle("ppca").set("rows", 4).set("latent", 1)
    raises(OSError, "Phi[3,0]", lambda: other.load("a.model"))
    Path("text").write_text("not a model")
    raises(OSError, "not replaced", lambda: h.save(theta, "text"))
    small = handle(precision="float")
    rounded = warned("rounded to float", lambda: small.load("a.model"))
    assert (rounded == theta.astype(np.float32)).all()


def test_options_are_those_of_the_library():
    text = str(raises(pu.Error, "there are:", lambda: pu.Handle("ppca").set("nothing", 1)))
    listed = re.search(r"there are: ([a-z0-9_. ]+)", text).group(1).split()
    keys = [key for key in listed if key not in ("rows", "latent") and not key.startswith("regressors")]
    assert keys == list(pu.OPTIONS)


def python(code, **environment):
    env = {**os.environ, **environment}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)


def test_a_library_that_is_not_there():
    result = python("import pu", PU_LIBRARY="/nowhere/libpu.so")
    assert result.returncode == 1 and "PU_LIBRARY names /nowhere/libpu.so" in result.stderr and "LibraryError" in result.stderr
    Path("libpu.so").write_text("no library")
    result = python("import pu", PU_LIBRARY=str(Path("libpu.so").resolve()))
    assert result.returncode == 1 and "cannot be loaded" in result.stderr


def test_a_package_without_a_library_says_what_to_do():
    source = Path(pu.__file__).parent
    copy = Path("copy/examples/python/pu")
    copy.mkdir(parents=True)
    for file in source.glob("*.py"):
        (copy / file.name).write_text(file.read_text())
    environment = {"PYTHONPATH": str(copy.parent.resolve()), "PU_LIBRARY": ""}
    result = python("import pu", **environment)
    assert result.returncode == 1 and "pip install PATH_OF_PU/examples/python" in result.stderr, result.stderr
    Path("copy/pu.h").write_text("")
    Path("copy/build.sh").write_text("")
    result = python("import pu", **environment)
    assert result.returncode == 1 and "build.sh lib" in result.stderr


def test_a_library_of_another_abi():
    compiler = os.environ.get("CC", "cc").split()
    Path("other.c").write_text("int pu_abi(void) { return 99; }\n")
    try:
        subprocess.run([*compiler, "-shared", "-fPIC", "other.c", "-o", "other.so"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise unittest.SkipTest("no C compiler") from error
    result = python("import pu", PU_LIBRARY=str(Path("other.so").resolve()))
    assert result.returncode == 1 and "PU_ABI is 99" in result.stderr and "build the library" in result.stderr, result.stderr
