"""``python -m mmcopt.cli`` is the command `mmcopt`."""

from mmcopt.cli.parser import main

raise SystemExit(main())
