"""Run every example quickly, each in a folder of its own: `run_examples.py FOLDER`.

What it prints goes to out.txt there. One that ran since it was last changed is not run again.
"""

import contextlib
import os
import pathlib
import runpy
import sys
import warnings

os.environ |= {"MMCOPT_QUICK": "1", "MPLBACKEND": "Agg", "COLUMNS": "100"}
EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"


def main(folder):
    """Run those that are due."""
    for path in sorted(EXAMPLES.glob("*.py")):
        own = pathlib.Path(folder).resolve() / path.stem
        out = own / "out.txt"
        if out.exists() and out.stat().st_mtime > path.stat().st_mtime:
            continue
        own.mkdir(parents=True, exist_ok=True)
        os.chdir(own)
        with open("running.txt", "w", encoding="utf-8") as file, \
                contextlib.redirect_stdout(file), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runpy.run_path(str(path), run_name="__main__")
        os.replace("running.txt", out)


if __name__ == "__main__":
    main(sys.argv[1])
