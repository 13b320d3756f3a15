"""Names, pairing, and the words of a refusal."""

import dataclasses

import numpy as np
import pytest

import mmcopt as mm
from mmcopt import registry
from mmcopt.errors import IncompatibleError, ParameterError
from mmcopt.formulations import LeastSquares, LeastSquaresFit
from mmcopt.solvers import Direct, Shaking

F = LeastSquares.examples()[0]


def test_every_exported_class_is_registered_and_the_other_way_round():
    assert set(registry.formulations()) >= set(mm.formulations.__all__)
    assert set(registry.solvers()) >= set(mm.solvers.__all__)
    for name in mm.solvers.__all__:
        assert registry.solvers()[name] is getattr(mm.solvers, name)


def test_names_are_found_in_any_case():
    assert registry.solver("sHAKING") is Shaking
    assert registry.formulation("leastsquares") is LeastSquares


@pytest.mark.parametrize("name, hint", [("Memtic", " Did you mean Memetic?"), ("tabbu", " Did you "
                         "mean Tabu?"), ("zzz", ""), ("", "")])
def test_unknown_names_get_a_suggestion_and_the_list(name, hint):
    with pytest.raises(ParameterError) as e:
        registry.solver(name)
    assert str(e.value) == (f"no solver is called {name!r}.{hint} There are: "
                            f"{', '.join(registry.solvers())}.")


def test_fits_says_who_can_and_why_the_others_cannot():
    fits = mm.fits(F)
    assert set(fits) == set(registry.solvers())
    assert {"Memetic", "Shaking", "BruteForce"} <= set(fits.names)
    assert fits["Direct"] == ("it needs LinearSystem, which this LeastSquares does not offer.")
    text = str(fits)
    assert "Shaking" in text and "fits" in text
    assert f"{'Direct':<17}  no: it needs LinearSystem" in text
    backwards = mm.fits(Direct())
    assert backwards["LeastSquaresFit"] is None and "LinearSystem" in backwards["LeastSquares"]
    assert mm.fits(Shaking) == mm.fits(Shaking())


def test_limits_of_a_solver_are_named():
    big = LeastSquares(np.random.default_rng(0).standard_normal((200, 2)), 2)
    with pytest.raises(IncompatibleError) as e:
        mm.solve(big, "BruteForce")
    first, second = str(e.value).split("\n")
    assert first == ("BruteForce cannot solve LeastSquares: there are 8.0e+59 labelings, and its "
                     "limit is 2e+07.")
    assert second.startswith("  Solvers that fit this LeastSquares: Alternating, Annealing, ")
    assert "BruteForce" not in second
    huge = LeastSquares(np.random.default_rng(0).standard_normal((2000, 1)), 2)
    assert "more than 1e300 labelings" in mm.fits(huge)["BruteForce"]


def test_a_solver_with_a_required_parameter_still_pairs(monkeypatch):
    monkeypatch.setattr(registry, "_solvers", dict(registry._solvers))

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Needy(mm.Solver):
        needs = (mm.LabelQuadratic,)
        backend: str = dataclasses.field(kw_only=False)

        def begin(self, f, init, rng):
            raise NotImplementedError

        step = begin

    assert mm.fits(F)["Needy"] is None
    assert mm.fits(LeastSquaresFit.examples()[0])["Needy"] == (
        "it needs LabelQuadratic, which this LeastSquaresFit does not offer.")
    assert "Needy" in mm.pairing_table()


def test_the_table_has_a_row_for_each_formulation():
    lines = mm.pairing_table().splitlines()
    assert lines[:2] == ["| formulation | solvers |", "|---|---|"]
    assert len(lines) == 2 + len(registry.formulations())
    row = next(line for line in lines if line.startswith("| `LeastSquares` |"))
    assert row.split(" | ")[1].startswith("`Memetic`, `Alternating`, ") and "`Shaking`" in row
    assert "`CuttingPlane`" not in row
    assert any(line.startswith("| `MaxCutRelaxation`, `relax(\"sdp\")` | ") for line in lines)
    kinds = ["relax(" in line for line in lines[2:]]
    assert kinds == sorted(kinds)  # relaxations are last


def test_a_later_class_of_the_same_name_takes_its_place(monkeypatch):
    monkeypatch.setattr(registry, "_solvers", dict(registry._solvers))
    old = registry.solver("Shaking")

    class Shaking(old):  # as when a notebook cell is run again
        pass

    assert registry.solver("Shaking") is Shaking is not old
