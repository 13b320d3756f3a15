"""Real signals to real processes: every command and every solver, stopped at any moment.

    python tests/signals.py interrupts 200      SIGINT and SIGTERM, from Python and the command line
    python tests/signals.py kills 50            SIGKILL, then the same call with the same checkpoint

print a line for each, with what is wrong, and counts at the end: of processes that died of SIGKILL,
and of those whose file held by then what the next one could go on from. A second number is the seed
and a third that of the first case: `kills` take every solver once, then all other calls in turn.
The slow test `mmcopt/test_signals.py` does a few of each.
"""

import contextlib
import json
import os
import pathlib
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
TIMEOUT = 300.0  # seconds after which a process hangs
# CPU seconds after which one has not heard the signal: the rest of an import, or of the compiling
# of a loop, which it waits for, takes up to 10.
SOON = 15.0
GRACE = {signal.SIGINT: 130, signal.SIGTERM: 143}
DATA = {
    "labels": "LeastSquares(X, 3)", "few": "LeastSquares(X[:30], 3)",
    "two": "LeastSquares(X, 2, lam=0.3)", "small": "LeastSquares(X[:36], 2, lam=0.3)",
    "slim": "CPM3C(X[:40], 2, beta=0.1)",
    "margins": "CPM3C(X, 2, beta=0.05)", "classes": "CPM3C(X, 3, beta=0.05)",
    "kernels": "MKC(X[:60], 2, C=10.0)", "domain": "OneClassHinge(X, C=30.0)",
    "sphere": "Hypersphere(X, C=10.0)", "sdp": "LeastSquares(X, 2).relax('sdp+cuts')",
    "plain": "LeastSquares(X, 2).relax('sdp')",
    "slack": "LeastSquares(X[:36], 2).relax('sdp+cuts')",
    "partition": "LeastSquares(X[:40], 3).relax('partition+cuts')",
    "lifted": "CPM3C(X, 2, beta=0.05).relax('lifted')",
    "joint": "CPM3C(X[:40], 2, beta=0.1).relax('joint')",
    "hull": "CPM3C(X[:40], 2, beta=0.1).relax('lg')",
    "weights": "MKC(X[:60], 2, C=10.0).relax('mkc')",
    "centres": "KernelKMeans(X, 3)", "ratios": "DiscriminativeKMeans(X, 3)",
    "knots": "KernelKMeans(X[:40, :2], 5)",
    "centred": "KernelKMeans(X[:60], 4).relax('peng-wei+cuts')",
}
SOLVERS = [
    ("labels", s) for s in ("Memetic", "Tabu", "Annealing", "Shaking", "Continuation",
                            "Evolutionary", "KernighanLin", "SteepestDescent",
                            "StochasticDescent")
] + [("few", "BranchAndBound"), ("two", "Memetic"), ("two", "BranchAndBound"),
     ("two", "Alternating"),
     ("margins", "MarginTree"), ("margins", "MarginSearch"), ("margins", "CuttingPlane"),
     ("margins", "SGD"), ("classes", "ClassTree"), ("classes", "MarginSearch"),
     ("classes", "CuttingPlane"), ("kernels", "KernelTree"), ("kernels", "CuttingPlane"),
     ("domain", "DualCoordinate"), ("domain", "SGD"), ("domain", "CuttingPlane"),
     ("sphere", "Libsvm"),
     ("sdp", "RegularizedDual"), ("plain", "InteriorPoint"), ("plain", "LowRank"),
     ("slack", "Conic"), ("partition", "RegularizedDual"), ("lifted", "MarginBarrier"),
     ("centres", "Memetic"), ("centres", "Hartigan"), ("centres", "Lloyd"), ("ratios", "Memetic"),
     ("knots", "BranchAndBound"), ("centred", "Splitting"), ("joint", "JointDual"),
     ("hull", "LabelGeneration"), ("weights", "KernelBarrier")]
HEAD = """
import json, sys, warnings
import numpy as np
import mmcopt as mm
from mmcopt.formulations import *
warnings.simplefilter("ignore")
from mmcopt.solving import checkpoints
checkpoints.INTERVAL = 0.05  # seconds between two writings: short runs are to go on, too
rng = np.random.default_rng(0)
X = rng.standard_normal((120, 6)) + 2.0 * rng.standard_normal((3, 6))[np.arange(120) % 3]
def said(*values):
    print(json.dumps([v.tolist() if hasattr(v, "tolist") else v for v in values]), flush=True)
def outcome(r):
    said(r.status.name, r.objective, r.lower_bound, bool(r.verify()), r.labels)
"""
GRIDS = {
    "path": "cells = path(LeastSquares(X, 3), seed=0)",
    "grid": "cells = grid(X, 3, seed=0).results",
}
TABLE = "table = mm.compare([{problem}], {solvers}, seeds=3, max_iter={steps}{more})\n" \
        "said([[r['solver'], r['objective'], r['lower_bound']] for r in table.rows])\n"


def solve_script(data, solver, more=""):
    return (f"{HEAD}problem = {DATA[data]}\nprint('begun', flush=True)\n"
            f"outcome(mm.solve(problem, {solver!r}, seed=1{more}))\n")


def certify_script(data, more="", labels="Memetic"):
    return (f"{HEAD}problem = {DATA[data]}\nlabels = mm.solve(problem, seed=1, max_iter=3)\n"
            f"print('begun', flush=True)\noutcome(labels.certify({more}))\n")


def compare_script(more=""):
    return (f"{HEAD}print('begun', flush=True)\n" + TABLE.format(
        problem=DATA["labels"], solvers="['Tabu', 'Memetic', 'Shaking']", steps=300, more=more))


def grid_script(which):
    return (f"{HEAD}from mmcopt.selection import path, grid\nprint('begun', flush=True)\n"
            f"{GRIDS[which]}\nfor r in cells[:1]: outcome(r)\n")


def python(script):
    return [sys.executable, "-c", script]


def command(*arguments):
    return [sys.executable, "-m", "mmcopt.cli", *arguments]


def interruptible(rng, folder):
    """One process to be interrupted: what it is, its command, and whether it is the CLI's."""
    kind = rng.choice(["solve", "solve", "certify", "compare", "path", "grid", "cli", "cli"])
    if kind in GRIDS:
        return kind, python(grid_script(kind)), False
    if kind == "solve":
        data, solver = rng.choice(SOLVERS)
        return f"solve {data} {solver}", python(solve_script(data, solver, ", restarts=500")), False
    if kind == "certify":
        data = rng.choice(["two", "labels", "margins", "kernels", "classes", "centres"])
        return f"certify {data}", python(certify_script(data)), False
    if kind == "compare":
        return "compare", python(compare_script(f", n_jobs={rng.choice([1, 2])}")), False
    which = rng.choice([
        ["solve", "digits:3,8", "--restarts", "400", "--out", f"{folder}/labels.csv"],
        ["solve", "digits:3,8", "--kernel", "gaussian:width=.5", "--certify", "60", "--json"],
        ["solve", "iris", "--formulation", "CPM3C", "--restarts", "400"],
        ["solve", "moons", "--formulation", "OneClassHinge", "--certify", "30"],
        ["solve", "digits:1,7", "--formulation", "MKC", "--certify", "60"],
        ["compare", "digits:3,8", "--seeds", "20", "--time-limit", "1"],
        ["compare", "iris", "--seeds", "5", "--certify", "60"],
        *(["reproduce", paper, "--quick"]
          for paper in ("umc-rls", "sgd-lmsvc", "cpm3c", "mkc", "evommc", "margins")),
        ["certify", f"{folder}/run.npz", "--seconds", "60"]])
    return " ".join(which[:4]), command(*which), True


def started(run, begun=True):
    """A process whose imports are done, as far as it says so."""
    process = subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT,
                               text=True)
    if begun:
        assert process.stdout.readline() == "begun\n", process.stderr.read()
    return process


def listening(process):
    """Wait until a process catches SIGTERM: before, it is Python that ends."""
    status = pathlib.Path(f"/proc/{process.pid}/status")
    while status.exists() and process.poll() is None:
        caught = re.search(r"SigCgt:\s*(\w+)", status.read_text())
        if caught is None or int(caught[1], 16) >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.01)


def cpu_seconds(process=None):
    """CPU time of a process that runs, or of all that have ended."""
    if process is None:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime
    with contextlib.suppress(OSError):
        times = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def interrupted(rng, folder):
    """What is wrong with how one process ends when it is interrupted; None where nothing is."""
    what, run, cli = interruptible(rng, folder)
    sent = rng.choice([signal.SIGINT, signal.SIGINT, signal.SIGTERM]) if cli else signal.SIGINT
    ended_before = cpu_seconds()
    process = started(run, not cli)
    if cli:
        listening(process)
    time.sleep(rng.uniform(0.0, 12.0) if cli else rng.choice([0.02, 1.0, 6.0]) * rng.random())
    before = cpu_seconds(process)
    process.send_signal(sent)
    try:
        out, err = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return what, f"{sent.name}: it hangs"
    code, took = process.returncode, cpu_seconds() - ended_before - before
    ENDS.append((round(took, 1), what))
    if took > SOON:
        return what, f"{sent.name}: it goes on for {took:.1f} CPU-s, and exits with {code}"
    if cli and code not in (0, GRACE[sent]):
        return what, f"{sent.name}: exit {code}: {err[-800:]}"
    # In Python, nothing has been found before the first point: what is left is KeyboardInterrupt.
    if "Traceback" in err and (cli or not err.rstrip().endswith("KeyboardInterrupt")
                               or "Exception ignored" in err):
        return what, f"{sent.name}: {err[-800:]}"
    EXITS[code] = EXITS.get(code, 0) + 1
    if cli and code and sent is signal.SIGINT and not out and "interrupted" not in err:
        return what, f"{sent.name}: nothing is said: {err[-300:]}"
    if cli and "--json" in run and out:
        json.loads(out)
    if not cli and code == 0:
        found = json.loads(out.splitlines()[-1])
        if len(found) == 5 and not found[3]:
            return what, f"it does not verify: {found[:4]}"
        if len(found) == 5 and found[2] is not None and found[2] > found[1] * (1 + 1e-9) + 1e-9 \
                and "relax" not in DATA.get(what.split()[1], ""):
            return what, f"bound above objective: {found[:4]}"
    return what, None


EXITS, ENDS = {}, []
KILLED = [(f"solve {d} {s}", lambda path, d=d, s=s: python(solve_script(
    d, s, f", restarts=2, max_iter=30, checkpoint={path!r}"))) for d, s in SOLVERS]
KILLED += [(f"certify {d}", lambda path, d=d, m=m: python(certify_script(
    d, f"checkpoint={path!r}"))) for d, m in (("small", 0), ("slim", 0), ("few", 0))]
KILLED += [(f"compare, {j} at once", lambda path, j=j: python(compare_script(
    f", n_jobs={j}, checkpoint={path!r}"))) for j in (1, 2)]
KILLED += [("cli solve", lambda path: command(
    "solve", "digits:3,8", "--restarts", "40", "--checkpoint", path, "--json"))]
KILLED += [("cli certify", lambda path: command(
    "certify", str(pathlib.Path(path).with_name("run.npz")), "--seconds", "3000", "--checkpoint",
    path, "--json"))]
KILLED += [(f"reproduce {paper}", lambda path, a=arguments: command(
    "reproduce", *a, "--quick", "--checkpoint", path, "--json"))
    for paper, *arguments in (("umc-rls", "umc-rls"), ("mkc", "mkc"))]
# What tells of the way, and not of the end: a climb that goes on does not repeat a rung.
CLOCKS = {"seconds", "timing", "history", "ladder", "prepare", "time_to_best", "fit, s", "detail"}


def without_times(value):
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if k not in CLOCKS}
    return [without_times(v) for v in value] if isinstance(value, list) else value


def difference(a, b, where="it"):
    """The first place where two answers differ, in words; None where they are the same."""
    if type(a) is type(b) and isinstance(a, dict) and a.keys() == b.keys():
        pairs = [(a[k], b[k], f"{where}[{k!r}]") for k in a]
    elif type(a) is type(b) and isinstance(a, list) and len(a) == len(b):
        pairs = [(x, y, f"{where}[{i}]") for i, (x, y) in enumerate(zip(a, b, strict=True))]
    else:
        return None if a == b else f"{where} is {str(a)[:150]} and not {str(b)[:150]}"
    return next((found for found in (difference(*pair) for pair in pairs) if found), None)


def ended(run, path=None, after=None):
    """The last line that a process prints, or None when it was killed first."""
    process = subprocess.Popen(run(path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT,
                               text=True)
    try:
        out, err = process.communicate(timeout=TIMEOUT if after is None else after)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        if process.returncode == -signal.SIGKILL:  # and not ended in between
            return None
    assert process.returncode == 0, err[-2000:]
    return without_times(json.loads(out if out.lstrip().startswith("{") else out.splitlines()[-1]))


def holds(path):
    """Whether a checkpoint holds anything to go on from."""
    if not os.path.exists(path):
        return False
    with np.load(path) as arrays:
        document = json.loads(arrays["document"].tobytes())
    return any(parts for _, _, parts in document["solves"].values())


def killed(rng, folder, wholes, name, run):
    """What is wrong with a run that is killed, up to three times, and ends at last."""
    path = str(pathlib.Path(folder) / "run.ckpt")
    if name not in wholes:
        began = time.perf_counter()
        wholes[name] = ended(run, path), time.perf_counter() - began
    whole, seconds = wholes[name]
    pathlib.Path(path).unlink(missing_ok=True)
    if whole is None:
        return np.zeros(2, dtype=int), "it does not end"
    kills = np.zeros(2, dtype=int)
    for _ in range(rng.choice([1, 1, 2, 3])):
        if ended(run, path, after=rng.uniform(0.2, 1.0) * seconds) is None:
            kills += 1, holds(path)
    found = ended(run, path)
    pathlib.Path(path).unlink(missing_ok=True)
    return kills, difference(found, whole)


def saved_run(folder):
    script = (f"{HEAD}r = mm.solve({DATA['small']}, seed=0, max_iter=2)\n"
              f"r.save({str(pathlib.Path(folder) / 'run.npz')!r})\n")
    subprocess.run(python(script), check=True, cwd=ROOT)


def main(what, count, seed=0, first=0):
    # A run begun with `&` by a script ignores Ctrl-C, and so would all that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    rng, wrong, kills, wholes = random.Random(f"{seed} {first}"), 0, np.zeros(2, dtype=int), {}
    others = KILLED[len(SOLVERS):]
    with tempfile.TemporaryDirectory() as folder:
        saved_run(folder)
        for i in range(int(first), int(first) + int(count)):
            if what == "interrupts":
                name, error = interrupted(rng, folder)
            else:
                name, run = KILLED[i] if i < len(SOLVERS) else others[i % len(others)]
                n, error = killed(rng, folder, wholes, name, run)
                kills += n
            wrong += error is not None
            print(f"{i + 1}: {name}: {error or 'well'}" + f", {kills} so far" * (what == "kills"),
                  flush=True)
    print(f"{count} {what}: {wrong} wrong; " + (
        f"exits {EXITS}, the last after {max(ENDS)}" if what == "interrupts" else
        f"{kills[0]} died of SIGKILL, {kills[1]} of them with something to go on from"))
    return wrong


if __name__ == "__main__":
    sys.exit(bool(main(*sys.argv[1:])))
