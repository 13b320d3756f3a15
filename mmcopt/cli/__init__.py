"""The command line, a front door: what a user types becomes problems, solves, tables and sentences.

It may import every other room; nothing imports it. Public is `main`, the command `mmcopt`.
"""

from mmcopt.cli.parser import main

__all__ = ["main"]
