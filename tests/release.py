"""What must hold before a release: `make release-check`, a line for each check.

It builds the wheel and the sdist, and looks at them, at CITATION.cff and at the licences of what
is installed. Nothing is uploaded.
"""

import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from importlib import metadata

import yaml

import mmcopt
from mmcopt.cli.doctor import PARTS

ROOT = pathlib.Path(__file__).resolve().parents[1]
NEEDED = {"cff-version", "message", "title", "authors", "type", "version", "license"}
DOI = re.compile(r"10\.\d{4,9}/\S+")
WORDS = {"BSD": "BSD", "MIT": "MIT", "Apache": "Apache", "GPL": "GPL|GNU General Public",
         "PSF": "PSF|Python Software Foundation"}
# Versioned files that no archive holds: what runs on a server, and links to the two folders.
LEFT_OUT = (".ci/", "mmcopt/formulations", "mmcopt/solvers")


def run(*command, folder=ROOT):
    """What a command printed; its end as an error where it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}: {(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def built(folder):
    """The wheel and the sdist of a fresh copy, without what older builds left, and twine's word."""
    run("git", "checkout-index", "-a", f"--prefix={folder / 'tree'}/")
    run(sys.executable, "-m", "build", "--outdir", str(folder / "dist"), folder=folder / "tree")
    archives = sorted((folder / "dist").iterdir())
    run(sys.executable, "-m", "twine", "check", "--strict", *map(str, archives))
    return {path.suffix: path for path in archives}


def versions():
    """One version, in four places."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changes = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"]
    found = {mmcopt.__version__, project["version"], str(cited), changes[1]}
    assert len(found) == 1, f"versions differ: {sorted(found)}"
    return mmcopt.__version__


def manifest(sdist):
    """The sdist holds every versioned file, and no other but what the build adds."""
    wanted = {name for name in run("git", "ls-files").splitlines()
              if not name.startswith(LEFT_OUT)}
    with tarfile.open(sdist) as archive:
        held = {m.name.partition("/")[2] for m in archive.getmembers() if m.isfile()}
    made = {name for name in held if ".egg-info/" in name} | {"PKG-INFO", "setup.cfg"}
    assert not wanted - held, f"the sdist lacks {sorted(wanted - held)[:5]}; see MANIFEST.in"
    assert not held - wanted - made, f"the sdist holds {sorted(held - wanted - made)[:5]}"
    return f"{len(wanted)} files"


def wheel(path):
    """The wheel holds the package, typed and with its licence, and nothing else."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    strange = [n for n in names if not n.startswith(("mmcopt/", "mmcopt-"))]
    assert not strange, f"the wheel holds {strange[:5]}"
    assert "mmcopt/py.typed" in names and any(n.endswith("/LICENSE") for n in names)
    return f"{len(names)} files"


def citation():
    """CITATION.cff has what the format asks for, of the software and of each reference."""
    told = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert told.keys() >= NEEDED, f"CITATION.cff lacks {sorted(NEEDED - told.keys())}"
    for one in told["references"]:
        assert one.keys() >= {"type", "title", "authors", "year"}, one.get("title")
        assert all("name" in a or a.keys() >= {"family-names", "given-names"}
                   for a in one["authors"]), one["title"]
        assert "doi" not in one or DOI.fullmatch(one["doi"]), one["title"]
    return f"{len(told['references'])} references"


def licences():
    """Licences in our table are those that the installed packages state."""
    seen = 0
    for name, part in PARTS.items():
        try:
            told = metadata.metadata(name)
        except metadata.PackageNotFoundError:
            continue
        words = " ".join([told.get("License-Expression") or "", told.get("License") or "",
                          *(told.get_all("Classifier") or [])])
        family = next(key for key in WORDS if key in part.licence)
        assert re.search(WORDS[family], words), f"{name} is no longer under {part.licence}"
        seen += 1
    return f"{seen} of {len(PARTS)} packages are here"


def main():
    """Check everything; the first failure ends it."""
    with tempfile.TemporaryDirectory() as folder:
        archives = built(pathlib.Path(folder))
        for name, check in {"version": versions, "sdist": lambda: manifest(archives[".gz"]),
                            "wheel": lambda: wheel(archives[".whl"]), "citation": citation,
                            "licences": licences}.items():
            print(f"ok   {name}: {check()}")
    print("ok   twine check --strict")


if __name__ == "__main__":
    main()
