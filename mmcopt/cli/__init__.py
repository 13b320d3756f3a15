"""The command line, a front door: what a user types becomes problems, solves, tables and sentences.

It may import every other room; nothing imports it. Public are `main`, which returns the
exit code, and `command`, which is the process `mmcopt`.
"""

from mmcopt.cli.parser import command, main

__all__ = ["command", "main"]
