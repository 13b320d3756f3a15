"""`mmcopt data`: which public sets there are, and fetching them."""

from __future__ import annotations

import dataclasses
from argparse import Namespace

from mmcopt import datasets
from mmcopt.cli.console import note, say, show_json, show_table
from mmcopt.cli.exit_codes import DONE
from mmcopt.errors import ParameterError

COLUMNS = ("set", "samples", "features", "classes", "here", "fetch", "licence", "OpenML", "from")


def data(args: Namespace) -> int:
    """List the public sets, or fetch some."""
    return _fetch(args) if args.action == "fetch" else _list(args)


def _list(args: Namespace) -> int:
    rows = datasets.published()
    if args.json:
        show_json({"sets": rows})
        return DONE
    show_table(rows, COLUMNS, "public data sets of the papers")
    say("mmcopt data fetch NAME downloads one into the folder that MMCOPT_DATA names, compares it",
        "with a hash where one is known (fetch: by hash), and writes it as NAME.npz. Names of",
        "OpenML need no fetching: mmcopt solve openml:glass. Others: mmcopt describe.")
    return DONE


def _fetch(args: Namespace) -> int:
    if args.source is not None and len(args.names) > 1:
        raise ParameterError(f"--from takes one set; got {', '.join(args.names)}.")
    found = []
    for name in args.names:
        found.append(datasets.fetch(name, args.to, again=args.again, source=args.source,
                                    time_limit=args.time_limit, watch=note))
        if not args.json:
            say(found[-1].words)
    if args.json:
        show_json({"sets": [{**dataclasses.asdict(one), "path": str(one.path)} for one in found]})
    return DONE
