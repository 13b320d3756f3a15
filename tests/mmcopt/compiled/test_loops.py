"""The cache of compiled loops, filled by several processes at once, and kept between versions."""

import importlib
import os

import pytest
from numba.core.dispatcher import Dispatcher
from tree import FILES

from mmcopt.compiled.loops import FilePerSignature, stamp

STAMP = (1.0, 7)  # of the source
WRITES = ("_save_data", "_save_index")


class Paused(FilePerSignature):
    """Lets another process do all of its work before one write of this one."""

    def __init__(self, folder, before, other):
        super().__init__(str(folder), "module.loop-1.py311", STAMP)
        self.before, self.other = before, other

    def _between(self, name):
        if name == self.before:
            self.before = None
            self.other()

    def _save_data(self, *args):
        self._between("_save_data")
        super()._save_data(*args)

    def _save_index(self, *args):
        self._between("_save_index")
        super()._save_index(*args)


def files(folder):
    return FilePerSignature(str(folder), "module.loop-1.py311", STAMP)


@pytest.mark.parametrize("before", WRITES)
@pytest.mark.parametrize("filled", [False, True])
@pytest.mark.parametrize("late", [False, True])
def test_code_for_one_type_is_never_found_under_another(tmp_path, before, filled, late):
    if filled:
        files(tmp_path).save("int64", "code for int64")
    index = files(tmp_path)._load_index()

    def another_process():
        first = files(tmp_path)
        if late:  # it has looked into the index before this process wrote anything
            first._load_index = lambda: dict(index)
        else:
            first.save("float32", "code for float32, from another process")
        first.save("float64", "code for float64")

    Paused(tmp_path, before, another_process).save("float32", "code for float32")
    for key in ("int64", "float32", "float64"):
        found = files(tmp_path).load(key)
        assert found is None or found.startswith(f"code for {key}")
    files(tmp_path).save("float64", "code for float64, again")
    assert files(tmp_path).load("float64") == "code for float64, again"


def test_code_of_another_source_is_not_found(tmp_path):
    files(tmp_path).save("float32", "code")
    newer = FilePerSignature(str(tmp_path), "module.loop-1.py311", (2.0, 7))
    assert newer.load("float32") is None
    newer.save("float32", "newer")
    assert newer.load("float32") == "newer"


def test_a_source_is_new_when_it_or_what_it_imports_says_something_else(tmp_path, monkeypatch):
    loop, constants = tmp_path / "loop.py", tmp_path / "mmcopt_constants.py"
    monkeypatch.syspath_prepend(str(tmp_path))

    def stamped(code, constant):
        loop.write_text(code)
        constants.write_text(constant)
        os.utime(loop, (1, len(constant)))  # a clone or an installation changes no word
        return stamp.__wrapped__(str(loop))

    code = "from mmcopt_constants import A\n"
    first = stamped(code, "A = 1")
    assert stamped(code, "A = 1") == first
    assert len({first, stamped(code, "A = 2"), stamped(code + "B = 3\n", "A = 1")}) == 3


@pytest.mark.parametrize("name", sorted(n for n in FILES if n.startswith("mmcopt.compiled.")))
def test_every_loop_is_kept_so(name):
    module = importlib.import_module(name)
    loops = [v for v in vars(module).values() if isinstance(v, Dispatcher)]
    assert loops or name.rpartition(".")[2] in ("loops", "compiling")
    for loop in loops:
        assert type(loop._cache._cache_file) is FilePerSignature, loop
        home = loop.py_func.__code__.co_filename
        assert loop._cache._cache_file._source_stamp == stamp(home)
        if home != module.__file__:  # stamps look as far as files that are imported, and no further
            others = vars(importlib.import_module(loop.__module__)).values()
            assert all(o.py_func.__code__.co_filename == home for o in others
                       if isinstance(o, Dispatcher))
