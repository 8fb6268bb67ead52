"""``holdtop runner``: a self-hosted CI runner as a unit that survives its jobs."""

from __future__ import annotations

import argparse
import importlib

#: Sub-verb -> what it does. Each has ``run`` in ``runner_NAME``, which is imported when named.
PARTS = {
    "render": "print the unit",
    "install": "make one, and see that it lives (root)",
    "verify": "whether a runner is what it has to be",
    "drill": "a job that runs out of memory, and a unit that survives it",
    "remove": "undo what install made",
}
EPILOG = "exit status: 0, 1 findings, 6 refused (why), 7 nothing is installed, 8 could not be seen or shown here"


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from holdtop.cli.runner_options import add_arguments

    parser = verbs.add_parser("runner", help="a CI runner that survives its jobs", epilog=EPILOG, allow_abbrev=False)
    parts = parser.add_subparsers(dest="part", required=True, metavar="|".join(PARTS))
    for name, text in PARTS.items():
        add_arguments(name, parts.add_parser(name, help=text, epilog=EPILOG, allow_abbrev=False))


def run(args: argparse.Namespace) -> int:
    return int(importlib.import_module(f"holdtop.cli.runner_{args.part}").run(args))
