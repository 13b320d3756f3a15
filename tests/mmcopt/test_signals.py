"""Real signals to real processes: a few of what `tests/signals.py` does by hundreds."""

import pytest
import signals


@pytest.mark.slow
@pytest.mark.parametrize(("what", "count"), [("interrupts", 20), ("kills", 5)])
def test_processes_end_well_whenever_they_are_stopped(what, count):
    assert signals.main(what, count) == 0
