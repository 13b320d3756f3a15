"""Hyper-parameters of every solver: declared, described, refused in the words of their rules."""

import dataclasses
import math
import re

import pytest
from oracle import SOLVERS

from mmcopt.errors import ParameterError

FIELDS = [(name, f.name) for name, cls in SOLVERS.items() for f in dataclasses.fields(cls)]


def rule_of(solver, name):
    field = next(f for f in dataclasses.fields(SOLVERS[solver]) if f.name == name)
    return field.metadata["rule"]


def refused(allowed):
    """Values that the words of a rule exclude, whatever its code says."""
    bounds = [(word, float(x)) for word, x in re.findall(r"(at least|above|at most) (-?[\d.e+-]+)",
                                                         allowed)]
    step = {"at least": -1.0, "above": 0.0, "at most": 1.0}
    whole = "integer" in allowed
    outside = [x + step[word] for word, x in bounds]
    wrong = [int(x) if whole else x for x in outside]
    wrong += [0.5, 1.5] if whole else []
    wrong += [] if "None" in allowed else [None]
    wrong += [math.nan, math.inf, True] if "number" in allowed or whole else []
    wrong += [0, "yes"] if allowed == "True or False" else []
    return [*wrong, "nonsense", object()]


def accepted(allowed):
    """Values that the words include: the bounds themselves, and what they name."""
    bounds = re.findall(r"(at least|at most) (-?[\d.e+-]+)", allowed)
    given = [int(float(x)) if "integer" in allowed else float(x) for _, x in bounds]
    given += [None] if "None" in allowed else []
    return given + re.findall(r"'([^']*)'", allowed) if allowed.startswith("one of ") else given


@pytest.mark.parametrize("solver, name", FIELDS)
def test_what_the_words_exclude_is_refused_in_those_words(solver, name):
    cls, rule = SOLVERS[solver], rule_of(solver, name)
    for value in refused(rule.allowed):
        with pytest.raises(ParameterError) as e:
            cls(**{name: value})
        assert str(e.value) == f"{solver}: {name} must be {rule.allowed}; got {value!r}."
    for value in accepted(rule.allowed):
        rule.check(solver, name, value)


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_field_is_declared_with_a_rule_that_its_default_keeps_and_a_description(solver):
    for field in dataclasses.fields(SOLVERS[solver]):
        assert field.metadata["doc"] and field.metadata["rule"].accepts(field.default), field.name
