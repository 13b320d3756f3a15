"""The tests as other machines would run them: a table of what passed where.

    python tests/robust.py                              everything, about two hours on two cores
    python tests/robust.py --only SkylakeX jitter-3     some of it, by the beginnings of names
    python tests/robust.py --only busy -- -k Conic      what follows -- goes to pytest

CONTRIBUTING.md says what the configurations are for.
"""

import argparse
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parents[1]
KERNELS = ("SkylakeX", "Zen", "Haswell", "Sandybridge", "Nehalem")  # of OpenBLAS, for x86
BUSY = 8  # loops that do nothing beside the tests
PROBE = """
import numpy as np, scipy.linalg, threadpoolctl
A = np.ones((70, 70)) + np.eye(70)
np.linalg.eigh(A @ A), scipy.linalg.cho_factor(A)
print(*sorted({pool.get("architecture", "") for pool in threadpoolctl.threadpool_info()}))
"""


def configurations() -> dict[str, dict[str, str]]:
    """Names and environment variables."""
    found = {f"{kernel}-{threads}": {"OPENBLAS_CORETYPE": kernel, "OPENBLAS_NUM_THREADS": threads,
                                     "OMP_NUM_THREADS": threads}
             for kernel in KERNELS for threads in "12"}
    found["generic"] = {"NUMBA_CPU_NAME": "generic"}
    found |= {f"jitter-{seed}": {"MMCOPT_TEST_JITTER": str(seed)} for seed in range(10)}
    return found | {"hurry": {"MMCOPT_TEST_HURRY": "4"}, "busy": {}}


def kernels_instead(settings: dict[str, str]) -> str:
    """The kernels that this machine takes where it has not those that are asked for, or nothing."""
    kernel = settings.get("OPENBLAS_CORETYPE")
    if kernel is None:
        return ""
    probe = subprocess.run([sys.executable, "-c", PROBE], env={**os.environ, **settings},
                           capture_output=True, text=True, check=False)
    taken = probe.stdout.strip() if probe.returncode == 0 else "none, they end the process"
    return "" if taken == kernel else taken


@contextlib.contextmanager
def busy_loops(count: int) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """So many processes that only take time."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield loops
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def tests(name: str, settings: dict[str, str], cache: str,
          options: list[str]) -> tuple[str, list[str]]:
    """Run the tests once: the last line that pytest prints, and the lines of what failed."""
    with busy_loops(BUSY if name == "busy" else 0):
        env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
               "NUMBA_CACHE_DIR": cache, **settings}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2",
             "--dist", "loadfile", *options],
            cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines() or done.stderr.splitlines() or [""]
    failed = [line for line in lines if re.match("FAILED|ERROR", line)]
    if done.returncode and not failed:
        failed = lines[-5:]
    return lines[-1], failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", default=[""], metavar="NAME",
                        help="configurations whose names begin so")
    parser.add_argument("options", nargs="*", help="of pytest, after --")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:  # numba tells CPUs apart by itself
        return run(given, cache)


def run(given: argparse.Namespace, cache: str) -> int:
    """Print the table; 1 when a test failed."""
    bad = 0
    print(f"{'configuration':14} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>8}")
    for name, settings in configurations().items():
        if not name.startswith(tuple(given.only)):
            continue
        if instead := kernels_instead(settings):
            print(f"{name:14} not here; taken instead: {instead}", flush=True)
            continue
        started = time.perf_counter()
        last, failed = tests(name, settings, cache, given.options)
        passed, skipped = (int(m[1]) if (m := re.search(rf"(\d+) {word}", last)) else 0
                           for word in ("passed", "skipped"))
        bad += len(failed)
        print(f"{name:14} {passed:7} {len(failed):7} {skipped:8} "
              f"{time.perf_counter() - started:8.0f}", *failed, sep="\n  ", flush=True)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
