"""Edits of the descriptions in saved files, thousands of them: one sentence each, or no claim."""

import dataclasses
from pathlib import Path

import edits
import numpy as np
import pytest

import mmcopt as mm
from mmcopt.formulations import LeastSquares

SAVED = sorted((Path(__file__).parents[1] / "references" / "saved").glob("*.npz"))
X = np.random.default_rng(3).standard_normal((10, 2)) + np.arange(10)[:, None] // 4


@pytest.fixture(scope="module")
def beside(tmp_path_factory):
    """A result with better labels beside it, as this version saves it."""
    result = mm.certify(LeastSquares(X, 3), [0, 1, 2, 0, 1, 2, 0, 1, 2, 0])
    assert result.incumbent is not None
    path = tmp_path_factory.mktemp("beside") / "run.npz"
    result.save(path)
    return path


@pytest.mark.as_given
@pytest.mark.parametrize("path", SAVED, ids=lambda path: path.stem)
def test_results_of_earlier_versions_load_and_verify(path):
    report = mm.load(path).verify()
    assert report, str(report)


def test_better_labels_are_saved_with_the_result(beside):
    back = mm.load(beside)
    assert back.verify() and back.incumbent.verify()
    assert back.incumbent.objective < back.objective
    assert dataclasses.replace(back, incumbent=back).verify().checks[-3].ok is False


@pytest.mark.as_given
@pytest.mark.parametrize("path", SAVED, ids=lambda path: path.stem)
def test_edited_descriptions_are_refused_in_a_sentence(path, tmp_path):
    outcomes, wrong = edits.tried(path, tmp_path / "edited.npz", every=61)
    assert not wrong and outcomes["refused"] > 30


def test_an_edited_file_with_better_labels_claims_no_more(beside, tmp_path):
    outcomes, wrong = edits.tried(beside, tmp_path / "edited.npz", every=17)
    assert not wrong and outcomes["refused"] > 30


@pytest.mark.slow
@pytest.mark.as_given
@pytest.mark.parametrize("path", SAVED, ids=lambda path: path.stem)
def test_every_edit_of_a_description(path, tmp_path):
    outcomes, wrong = edits.tried(path, tmp_path / "edited.npz")
    assert not wrong and outcomes.total() > 3000


@pytest.mark.slow
def test_every_edit_of_a_description_with_better_labels(beside, tmp_path):
    assert not edits.tried(beside, tmp_path / "edited.npz")[1]
