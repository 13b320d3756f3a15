"""Several kernels at once: which view of the data tells the clusters apart?

What it teaches: each sample has two views, one in which rings separate and one that is noise. MKC
finds clusters and kernel weights together, from kernels that each look at one view
(``kernel.on(columns)``); beside it every kernel alone. Kernels are centred and equally scaled, or
the one of the largest values would win, whatever it is worth.
"""

import importlib.util
import os
import pathlib

import numpy as np

import mmcopt as mm
from mmcopt.formulations import CPM3C, MKC
from mmcopt.kernels import Gaussian

QUICK = bool(os.environ.get("MMCOPT_QUICK"))
VIEWS = {"rings": (0, 1), "noise": (2, 3, 4)}


def two_views(n):
    """Rings in the first two columns, noise in the others."""
    rng = np.random.default_rng(0)
    ring, angle = np.arange(n) % 2, rng.uniform(0, 2 * np.pi, n)
    r = 1.0 + 2.0 * ring + 0.15 * rng.standard_normal(n)
    return np.c_[r * np.cos(angle), r * np.sin(angle), rng.standard_normal((n, 3))], ring


def picture(names, weights):
    if not importlib.util.find_spec("matplotlib"):
        print("\n(pip install matplotlib for a picture of the weights)")
        return
    from matplotlib import pyplot as plt

    fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
    for view, colour in zip(VIEWS, ("#0072B2", "#D55E00"), strict=True):
        own = [i for i, name in enumerate(names) if name.startswith(view)]
        bars = ax.barh([names[i] for i in own], weights[own], color=colour,
                       label=f"{view}: columns {', '.join(map(str, VIEWS[view]))}")
        ax.bar_label(bars, fmt="%.2f", padding=3)
    ax.invert_yaxis()  # the first kernel on top
    ax.margins(x=0.1)
    ax.set_title("MKC: which of two views tells the clusters apart?", fontsize=11)
    ax.set_xlabel("weight of the kernel (their squares sum to 1)")
    ax.legend(title="view", loc="lower right", frameon=False)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    path = pathlib.Path("runs", "mkc_weights.png")
    path.parent.mkdir(exist_ok=True)
    fig.savefig(path, dpi=120)
    print(f"\nwrote {path}")


def main():
    X, y = two_views(60 if QUICK else 200)
    kernels = {f"{view}, width {width:g}": Gaussian(width=width).on(columns)
               for view, columns in VIEWS.items() for width in (0.2, 0.5, 1.0)}
    restarts = 2 if QUICK else 10
    problem = MKC(X, 2, kernels=list(kernels.values()), C=50.0)
    print(f"{problem}\n")
    together = mm.solve(problem, seed=0, restarts=restarts)
    weights = problem.kernel_weights(together.point)
    print(f"{'kernel':17}{'weight':>8}   {'alone: objective':>16}{'bound':>7}{'gap':>7}"
          f"{'accuracy':>10}")
    for (name, kernel), weight in zip(kernels.items(), weights, strict=True):
        alone = mm.solve(CPM3C(X, 2, kernel=kernel, beta=0.02), seed=0, restarts=restarts)
        print(f"{name:17}{weight:8.3f}   {alone.objective:16.4f}{alone.lower_bound:7.2f}"
              f"{100 * alone.gap:6.0f}%{100 * mm.metrics.accuracy(y, alone.labels):9.1f}%")
    print(f"{'all together':17}{'':8}   {together.objective:16.4f}{together.lower_bound:7.2f}"
          f"{100 * together.gap:6.0f}%{100 * mm.metrics.accuracy(y, together.labels):9.1f}%")
    print("\nObjectives of CPM3C and MKC have different units. The bound 0 holds for nothing.")
    picture(list(kernels), weights)


if __name__ == "__main__":
    main()
