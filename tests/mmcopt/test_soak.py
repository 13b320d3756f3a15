"""Random solves one after another: some of what `tests/soak.py` does by hundreds."""

import pytest
import soak


@pytest.mark.slow
def test_random_solves_go_well_and_leave_nothing_behind():
    assert soak.main(40) == 0
