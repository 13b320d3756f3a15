"""The best-known test: our default search and the published ones against the lowest Q known.

``python tests/benchmarks/best_known.py [best_known.csv]`` (default: the file beside the folder
MMCOPT_DATA). Every cell (set, width, lam) is centred, not rescaled, without size bounds. R is built
first; then each search has its seconds, filled with restarts. A run is appended to ``--state`` as
soon as it ends, and runs that are there are not repeated, so the script can be stopped and started
again. A hit is Q <= best known + 1.5e-5 relative + 5e-4. Lower values go into
tests/references/best_known.json.
"""

import argparse
import csv
import json
import os
import pathlib
import time

import numpy as np

from mmcopt import datasets, metrics
from mmcopt.capabilities import LabelQuadratic
from mmcopt.formulations import LeastSquares
from mmcopt.kernels import Gaussian
from mmcopt.registry import solver as named
from mmcopt.solving import Budget, run
from mmcopt.tables import markdown_table

PUBLISHED = ("Shaking", "Evolutionary", "SteepestDescent", "StochasticDescent")
REFERENCES = pathlib.Path(__file__).parents[1] / "references" / "best_known.json"


def read_cells(path):
    with open(path, encoding="utf-8", newline="") as file:
        return [{"set": r["set"], "width": float(r["width"]), "lam": float(r["lam"]),
                 "known": float(r["best_known_Q"])} for r in csv.DictReader(file)]


def key(cell):
    return f"{cell['set']} {cell['width']:g} {cell['lam']:g}"


def load(name):
    """``digits_1279`` of the list is ``digits:1,2,7,9``; COIL is standardised pixel by pixel."""
    base, _, digits = name.partition("_")
    X, y = datasets.load(f"{base}:{','.join(digits)}" if base == "digits" and digits else name)
    if base == "coil":
        spread = X.std(axis=0)
        X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return X, y


def tolerance(known):
    return 1.5e-5 * abs(known) + 5e-4


def built(cell):
    """The problem with R, its constant and the working copy made."""
    X, y = load(cell["set"])
    problem = LeastSquares(X, int(y.max()) + 1, kernel=Gaussian(width=cell["width"]),
                           lam=cell["lam"])
    lq = problem.offer(LabelQuadratic)
    lq.matrix.dense(lq.dtype)
    lq.constant  # noqa: B018
    return problem, y


def search(solver, problem, seed, seconds):
    """What mm.solve(problem, solver, seed=seed, time_limit=seconds) does, without its bound."""
    started = time.perf_counter()
    root = np.random.SeedSequence(seed)
    best, at, restarts = None, 0.0, 0
    while best is None or time.perf_counter() - started < seconds:
        rng = np.random.default_rng(root.spawn(1)[0])
        out = run(solver, problem, None, rng, Budget(deadline=started + seconds))
        restarts += 1
        if best is None or out.value < best.value:
            best, at = out, time.perf_counter() - started
    return problem.objective(best.point), best.point, at, restarts, time.perf_counter() - started


def solve_cell(cell, args, done, state):
    """Run what is missing of a cell."""
    names = [None, *(() if args.no_published else PUBLISHED)]
    todo = [(name, seed) for name in names for seed in range(args.seeds)
            if (key(cell), name or "default", seed) not in done]
    if not todo:
        return
    problem, y = built(cell)
    seconds = args.seconds or (2.0 if problem.n < 1000 else 10.0)
    for name, seed in todo:
        solver = named(name or problem.default_solver)()
        solver.prepare(problem)
        Q, labels, at, restarts, used = search(solver, problem, seed, seconds)
        row = {"cell": key(cell), "solver": name or "default", "seed": seed, "Q": Q,
               "ari": metrics.adjusted_rand_index(y, labels), "best_at": round(at, 3),
               "restarts": restarts, "seconds": round(used, 2), "limit": seconds,
               "name": type(solver).__name__}
        done[row["cell"], row["solver"], seed] = row
        with open(state, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    ours = [done[key(cell), "default", s]["Q"] for s in range(args.seeds)]
    print(f"{key(cell):<28} known {cell['known']:.3f}  ours {min(ours):.3f}, mean "
          f"{np.mean(ours):.3f}, {sum(q <= cell['known'] + tolerance(cell['known']) for q in ours)}"
          f" of {len(ours)}", flush=True)


def table(cells, done, seeds):
    """One row a cell; searches that have not run stay empty."""
    rows = []
    for cell in cells:
        runs = [done[k] for s in range(seeds) if (k := (key(cell), "default", s)) in done]
        if not runs:
            continue
        Q, known = [r["Q"] for r in runs], cell["known"]
        best = min(runs, key=lambda r: r["Q"])
        row = {"cell": key(cell), "best known": f"{known:.3f}", "ours, best": f"{min(Q):.3f}",
               "ours, mean": f"{np.mean(Q):.3f}",
               "hits": f"{sum(q <= known + tolerance(known) for q in Q)}/{len(Q)}",
               "ARI at best": f"{best['ari']:.3f}"}
        floor = min(known, min(Q))
        for name in PUBLISHED:
            theirs = [done[k]["Q"] for s in range(seeds) if (k := (key(cell), name, s)) in done]
            row[name] = f"+{100 * (np.mean(theirs) / floor - 1):.3f} %" if theirs else ""
        rows.append(row)
    return rows


def verdict(cells, done, seeds):
    """The two figures of the work order."""
    hits = runs = reached = met = 0
    for cell in cells:
        Q = [done[k]["Q"] for s in range(seeds) if (k := (key(cell), "default", s)) in done]
        if Q:
            limit = cell["known"] + tolerance(cell["known"])
            met, runs, hits = met + 1, runs + len(Q), hits + sum(q <= limit for q in Q)
            reached += min(Q) <= limit
    return (f"{hits} of {runs} runs ({100 * hits / max(runs, 1):.1f} %, wanted 90) and, best of "
            f"{seeds} seeds, {reached} of {met} cells (wanted 51 of 53) reach the best known.")


def keep_lower(cells, done):
    """Record values below the list, and below what was recorded before."""
    records = json.loads(REFERENCES.read_text(encoding="utf-8")) if REFERENCES.is_file() else []
    by_cell = {f"{r['set']} {r['width']:g} {r['lam']:g}": r for r in records}
    for cell in cells:
        rows = [r for k, r in done.items() if k[0] == key(cell)]
        best = min(rows, key=lambda r: r["Q"], default=None)
        old = by_cell.get(key(cell), {"Q": cell["known"] - 5e-4})["Q"]
        if best is not None and best["Q"] < old - 1e-6 * abs(old):
            by_cell[key(cell)] = {
                "set": cell["set"], "width": cell["width"], "lam": cell["lam"],
                "Q": round(best["Q"], 6), "listed": cell["known"], "ari": round(best["ari"], 4),
                "found": f"{best['name']} seed {best['seed']}, {best['limit']:g} s"}
    if by_cell:
        REFERENCES.parent.mkdir(exist_ok=True)
        text = json.dumps(list(by_cell.values()), indent=1)
        REFERENCES.write_text(text + "\n", encoding="utf-8")
    return by_cell


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    folder = os.environ.get("MMCOPT_DATA")
    default = pathlib.Path(folder).parent / "best_known.csv" if folder else None
    parser.add_argument("list", nargs="?", type=pathlib.Path, default=default)
    parser.add_argument("--cells", default="", help="only cells whose name holds this text, or "
                        "one of these texts with commas between: 'iono,digits 0.3'")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, help="of a run, in place of 2 and 10")
    parser.add_argument("--no-published", action="store_true", help="only our default solver")
    parser.add_argument("--state", type=pathlib.Path, default=pathlib.Path("best_known.jsonl"))
    parser.add_argument("--out", type=pathlib.Path, help="folder for best_known.md and .json")
    parser.add_argument("--keep", action="store_true", help="record lower values in references")
    args = parser.parse_args()
    if args.list is None or not args.list.is_file():
        parser.error("no list of best-known values; pass its path or set MMCOPT_DATA")
    return args


def main():
    args = arguments()
    wanted = [w.strip() for w in args.cells.split(",")]
    cells = [c for c in read_cells(args.list) if any(w in key(c) for w in wanted)]
    done = {}
    if args.state.is_file():
        for line in args.state.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if args.seconds in (None, row["limit"]):
                done[row["cell"], row["solver"], row["seed"]] = row
    try:
        for cell in cells:
            solve_cell(cell, args, done, args.state)
    except KeyboardInterrupt:
        print("stopped; start again to go on")
    rows = table(cells, done, args.seeds)
    if not rows:
        return
    text = markdown_table(rows, list(rows[0])) + "\n\n" + verdict(cells, done, args.seeds)
    print(text + "\n(the published searches: mean excess over the lowest value, at equal time)")
    if args.keep:
        print(f"{len(keep_lower(cells, done))} lower values in {REFERENCES}")
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "best_known.md").write_text(text + "\n", encoding="utf-8")
        (args.out / "best_known.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
