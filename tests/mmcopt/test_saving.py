"""Results on disk: whole, without pickle, and refused when they are not what they say."""

import dataclasses
import io
import json
import pathlib
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp

import mmcopt as mm
from mmcopt import saving
from mmcopt.constraints import CannotLink, Known, MustLink, Sizes
from mmcopt.errors import DataError, MMCError, ParameterError
from mmcopt.formulations import LeastSquares
from mmcopt.kernels import Gaussian, Linear, Polynomial

X = np.random.default_rng(0).standard_normal((12, 2))
RICH = LeastSquares(X, 3, kernel=(Gaussian(width=0.5) + 0.3 * Polynomial(2)).normalized(), lam=0.2,
                    scaling="mean", center=False, sizes=Sizes(low=[1, 2, 3], high=9),
                    known={np.int64(0): np.int64(1)}, must_link=[(3, np.int64(8))],
                    cannot_link=np.array([[1, 2]]))


def save(result, tmp_path, **options):
    path = tmp_path / "run.npz"
    result.save(path, **options)
    return path


def rewrite(path, change=None, **arrays):
    """Change the description or the arrays of a saved file, leaving a well-formed one."""
    with np.load(path, allow_pickle=False) as archive:
        content = {name: archive[name] for name in archive.files}
    document = json.loads(str(content["document"]))
    if change is not None:
        change(document)
    content |= {"document": np.array(json.dumps(document)), **arrays}
    with open(path, "wb") as file:
        np.savez_compressed(file, **content)


@pytest.fixture(scope="module")
def result():
    return mm.solve(RICH, "SteepestDescent", seed=0, max_iter=50)


def test_numpy_scalars_and_arrays_in_constraints_survive(result, tmp_path):
    back = mm.load(save(result, tmp_path))
    assert back.formulation.fingerprint == RICH.fingerprint
    assert back.formulation.sizes == Sizes(low=[1, 2, 3], high=9)
    assert back.formulation.must_link == MustLink([(3, 8)])
    assert back.formulation.cannot_link == CannotLink([(1, 2)])
    assert back.formulation.known.labels == {0: 1}
    assert back.formulation.kernel == RICH.kernel
    assert back.verify()


@pytest.mark.parametrize("known", [Known([0] + [-1] * 11), Known(np.r_[1, [-1] * 11]),
                                   Known((2,) + (-1,) * 11), {4: 2, 1: 0}])
def test_every_way_to_give_known_labels_survives(known, tmp_path):
    f = LeastSquares(X, 3, known=known)
    back = mm.load(save(mm.evaluate(f, np.arange(12) % 3), tmp_path))
    assert back.formulation.fingerprint == f.fingerprint


@pytest.mark.parametrize("data", [sp.csr_matrix(np.abs(X)), sp.csr_array(np.abs(X)),
                                  X.astype(np.float32), (X * 10).astype(np.int32)])
def test_every_kind_of_data_survives(data, tmp_path):
    f = LeastSquares(data, 2, kernel=Gaussian(gamma=1.0))
    back = mm.load(save(mm.solve(f, "Tabu", seed=0), tmp_path))
    assert back.formulation.fingerprint == f.fingerprint and back.verify()


@pytest.mark.parametrize("labels", [
    np.array(list("abc" * 4)), np.array(["one", 2, "three"] * 4, dtype=object),
    list("abcabcabcabc"), np.arange(12) % 3, np.array([0.5, 1.5, 2.5] * 4)])
def test_labels_of_any_values_are_saved_without_pickle(labels, tmp_path):
    if isinstance(labels, np.ndarray) and labels.dtype == object:
        labels = labels.astype(str).astype(object)
    evaluated = mm.evaluate(LeastSquares(X, 3), labels)
    back = mm.load(save(evaluated, tmp_path))
    assert back.labels.tolist() == evaluated.labels.tolist()
    assert back.classes == evaluated.classes and back.verify()


def test_there_is_no_pickle_in_the_file(result, tmp_path):
    for data in (True, False):
        path = save(result, tmp_path, data=data)
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                array = np.load(io.BytesIO(archive.read(name)), allow_pickle=False)
                assert not array.dtype.hasobject


def test_without_data_the_problem_has_to_be_handed_in(result, tmp_path):
    path = save(result, tmp_path, data=False)
    with np.load(path) as archive:
        assert all(archive[name].shape != X.shape for name in archive.files)
    with pytest.raises(DataError) as e:
        mm.load(path)
    assert str(e.value) == (f"{path} was saved without data; "
                            "pass the problem: mm.load(path, problem=...).")
    back = mm.load(path, problem=RICH)
    assert back.formulation is RICH and back.verify()


def test_another_problem_is_refused(result, tmp_path):
    for data in (True, False):
        path, other = save(result, tmp_path, data=data), RICH.replace(lam=0.21)
        with pytest.raises(DataError) as e:
            mm.load(path, problem=other)
        assert str(e.value) == (
            f"{path} belongs to another problem: fingerprint {RICH.fingerprint[:12]}, the problem "
            f"at hand has {other.fingerprint[:12]}.")


def test_changed_data_and_parameters_are_refused(result, tmp_path):
    path = save(result, tmp_path)
    with np.load(path) as archive:
        name = next(n for n in archive.files if archive[n].shape == X.shape)
    rewrite(path, **{name: X + 1e-9})
    with pytest.raises(DataError, match="belongs to another problem"):
        mm.load(path)

    def lower_lam(document):
        for item in document["params"]["items"]:
            if item[0] == "lam":
                item[1] = 0.1

    path = save(result, tmp_path)
    rewrite(path, lower_lam)
    with pytest.raises(DataError, match="belongs to another problem"):
        mm.load(path)


def test_a_forged_objective_or_bound_loads_but_does_not_verify(result, tmp_path):
    for field in ("objective", "lower_bound"):
        path = save(result, tmp_path)
        rewrite(path, lambda d, field=field: d.update({field: d[field] + 0.5}))
        assert not mm.load(path).verify()


@pytest.mark.parametrize("field", [*saving.HEAD, *saving.FIELDS])
def test_a_file_that_lacks_a_field_is_refused(result, tmp_path, field):
    path = save(result, tmp_path)
    rewrite(path, lambda d: d.pop(field))
    with pytest.raises(DataError, match=f"is not a saved result: it has no '{field}'"):
        mm.load(path)


def test_names_are_looked_up_and_never_imported(result, tmp_path):
    path = save(result, tmp_path)
    rewrite(path, lambda d: d.update(formulation="os.system"))
    with pytest.raises(ParameterError, match="no formulation is called 'os.system'"):
        mm.load(path)
    path = save(result, tmp_path)
    rewrite(path, lambda d: d["params"]["items"].__setitem__(2, [
        "kernel", {"kernel": {"kernel": "subprocess.Popen"}}]))
    with pytest.raises(MMCError, match="from_dict: kernel must be one of"):
        mm.load(path)


@pytest.mark.parametrize("version", [None, 0, 2, "1"])
def test_other_formats_are_refused(result, tmp_path, version):
    path = save(result, tmp_path)
    rewrite(path, lambda d: d.update(mmcopt=version))
    with pytest.raises(DataError) as e:
        mm.load(path)
    assert str(e.value) == (f"{path} was saved in format {version!r}; "
                            "this version reads format 1.")


def test_files_that_are_something_else_are_refused(result, tmp_path):
    whole = save(result, tmp_path).read_bytes()
    middle = len(whole) // 2
    damaged = bytearray(whole)
    damaged[middle:middle + 40] = bytes(40)
    contents = {"empty": b"", "text": b"hello", "half": whole[:middle], "damaged": bytes(damaged),
                "json": b"{}"}
    for name, content in contents.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(DataError, match="is not a saved result"):
            mm.load(path)
    np.save(tmp_path / "array.npy", X)
    np.savez(tmp_path / "other.npz", X=X)
    np.savez(tmp_path / "list.npz", document=np.array("[1, 2]"))
    np.savez(tmp_path / "pickled.npz", document=np.array([{}], dtype=object))
    for name in ("array.npy", "other.npz", "list.npz", "pickled.npz"):
        with pytest.raises(DataError, match="is not a saved result"):
            mm.load(tmp_path / name)
    with pytest.raises(DataError, match="there is no file"):
        mm.load(tmp_path / "missing.npz")


def test_what_cannot_be_saved_is_said(result, tmp_path):
    odd = dataclasses.replace(result, classes=[object()])
    with pytest.raises(DataError, match=r"a value of type object cannot be saved; save\(path, "):
        odd.save(tmp_path / "odd.npz")


def test_values_of_every_kind_come_back():
    values = [None, True, 3, 2.5, float("inf"), "text", [1, [2, None]], {"a": 1, 2: [3]},
              np.arange(3), Sizes(exact=[1, 2]), Linear(), np.array(["a", 1], dtype=object)]
    arrays = {}
    packed = json.loads(json.dumps([saving._pack(v, arrays) for v in values]))
    for value, again in zip(values, [saving._unpack(p, arrays) for p in packed], strict=True):
        if isinstance(value, np.ndarray):
            assert value.dtype == again.dtype and value.tolist() == again.tolist()
        else:
            assert value == again


@pytest.mark.as_given  # the fingerprint is that of the bytes
def test_a_class_that_was_renamed_is_read_under_its_former_name():
    """Saved when the relaxation was called MaxCut, as a problem is now."""
    path = pathlib.Path(__file__).parents[1] / "references" / "saved" / "relaxed.npz"
    result = mm.load(path)
    assert type(result.formulation).__name__ == "MaxCutRelaxation" and result.verify()
    problem = mm.formulations.MaxCut(np.ones((3, 3)))
    assert problem.fingerprint != result.formulation.fingerprint
