"""``python -m mmcopt.cli`` is the command `mmcopt`."""

from mmcopt.cli.parser import command

raise SystemExit(command())
