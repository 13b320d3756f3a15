"""What scaling.csv says: seconds, memory and bytes against rows, and the cost of a network.

``python docs/scaling_figures.py FOLDER`` draws scaling.png there and prints both tables of the page
"Scaling". ``tests/benchmarks/scaling.py --where families --out docs/scaling.csv`` measures again.
"""

import csv
import pathlib
import sys

import numpy as np

from mmcopt.plot.style import MARKERS, PALETTE, plain_ticks, pyplot, tidy

MEASURED = pathlib.Path(__file__).with_name("scaling.csv")
LINE = 1e9 / 8.0  # bytes a second of a network of 1 Gbit/s
PANELS = (("seconds", "CPU seconds of a solve"), ("megabytes", "megabytes at most"),
          ("bytes", "bytes to and from blocks"))


def measured():
    """The figures of each family: arrays by column."""
    with MEASURED.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    families = dict.fromkeys(row["family"] for row in rows)
    return {name: {column: np.array([float(row[column]) for row in rows if row["family"] == name])
                   for column in rows[0] if column != "family"} for name in families}


def slope(n, values):
    """The power of n that a column grows by, between the last two sizes."""
    return round(float(np.log(values[-1] / values[-2]) / np.log(n[-1] / n[-2])), 1) + 0.0


def draw(path):
    """Three panels, one line a family, with the slope of its end."""
    plt = pyplot()
    figure, panels = plt.subplots(1, 3, figsize=(13.5, 4.4), layout="constrained")
    for ax, (column, title) in zip(panels, PANELS, strict=True):
        for i, (name, found) in enumerate(measured().items()):
            power = slope(found["n"], found[column])
            ax.loglog(found["n"], found[column], marker=MARKERS[i], color=PALETTE[i],
                      label=f"{name}: {power:.1f}")
        if column == "megabytes":
            ax.set_ylim(100.0, 1000.0)
            plain_ticks(ax.yaxis, (1.0, 2.0, 5.0))
        ax.set_title(title, fontsize=11)
        ax.set_xlabel("rows")
        ax.legend(title="slope at the end", fontsize=8, title_fontsize=8, frameon=False)
        tidy(ax)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def cost_table():
    """Seconds by rows, the slope at the end, the peak, and how many numbers a row are read."""
    sizes = sorted({n for found in measured().values() for n in found["n"]})
    lines = ["| problem | " + " | ".join(f"n = {n:.0e}".replace("e+0", "e") for n in sizes)
             + " | slope | peak memory | numbers a row |", "|" + "---|" * (len(sizes) + 4)]
    for name, found in measured().items():
        seconds = dict(zip(found["n"], found["seconds"], strict=True))
        cells = [f"{seconds[n]:.2g}" if n in seconds else "" for n in sizes]
        lines.append(f"| `{name}` | {' | '.join(cells)} | {slope(found['n'], found['seconds']):.1f}"
                     f" | {found['megabytes'].min():.0f} to {found['megabytes'].max():.0f} MB"
                     f" | {found['numbers'].min():,.0f} to {found['numbers'].max():,.0f} |")
    return "\n".join(lines)


def network_table():
    """What a network adds to each family at its most rows: by rounds, and by bytes."""
    lines = ["| problem | rows | rounds | megabytes | 1 ms a round | 10 ms a round | 1 Gbit/s |",
             "|---|---|---|---|---|---|---|"]
    for name, found in measured().items():
        n, rounds, moved = (float(found[column][-1]) for column in ("n", "rounds", "bytes"))
        lines.append(f"| `{name}` | {n:,.0f} | {rounds:.0f} | {moved / 1e6:.3g} | "
                     f"{1e-3 * rounds:.2g} s | {1e-2 * rounds:.2g} s | {moved / LINE:.2g} s |")
    return "\n".join(lines)


if __name__ == "__main__":
    draw(pathlib.Path(sys.argv[1], "scaling.png"))
    print(f"{cost_table()}\n\n{network_table()}")
