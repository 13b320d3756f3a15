"""What several tests of the package share."""

import pytest

from mmcopt.cli import main


@pytest.fixture
def run(capsys):
    """The command line: exit code, output, errors."""
    def call(*argv):
        code = main(argv)
        seen = capsys.readouterr()
        return code, seen.out, seen.err

    return call
