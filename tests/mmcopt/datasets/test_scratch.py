"""Rows made on the way: cut alike in memory and in a file, which goes with them."""

import gc
import os
import pathlib
import tempfile

import numpy as np
import pytest

from mmcopt.datasets import scratch as made
from mmcopt.datasets.scratch import Held, Scratch
from mmcopt.errors import ResourceError

ROWS = np.arange(60.0).reshape(20, 3)


def same(rows):
    return rows


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_come_back_and_their_file_goes_with_them(dtype, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rows = Scratch([ROWS[:7], ROWS[7:]], ROWS.shape, "test", dtype)
    assert (np.asarray(rows) == ROWS).all() and np.asarray(rows).dtype == dtype
    mapped = rows.mapped()
    assert type(mapped) is np.ndarray and mapped.flags.writeable and (mapped == ROWS).all()
    path = pathlib.Path(rows.path)
    assert path.parent == tmp_path and path.exists()
    del rows
    gc.collect()
    assert not path.exists() and (mapped == ROWS).all()


def test_rows_in_memory_are_cut_as_a_file_is():
    rng = np.random.default_rng(0)
    for n, d in ((20, 3), (9000, 500), (1, 1)):
        X = rng.standard_normal((n, d))
        held, stored = Held(X), Scratch([X], X.shape, "test")
        assert held.starts == stored.starts and held.shape == stored.shape
        assert all(map(np.array_equal, held.each(same), stored.each(same)))
    assert Held(ROWS).fingerprint != Held(ROWS + 1).fingerprint
    assert [len(own) for own in held.each(lambda rows, own: own, along=np.arange(1))] == [1]


def test_a_file_that_another_process_inherits_stays(monkeypatch):
    rows = Scratch([ROWS], ROWS.shape, "test")
    made._remove(rows.path, os.getpid() + 1)
    assert pathlib.Path(rows.path).exists()


def test_a_folder_without_room_is_named(monkeypatch):
    class Full:
        free = 100

    monkeypatch.setattr(made.shutil, "disk_usage", lambda folder: Full)
    with pytest.raises(ResourceError, match="owner: 20 rows of 3 features need 480 B in .*, and "
                                            "100 B are free; name another folder in TMPDIR"):
        Scratch([ROWS], ROWS.shape, "owner")
