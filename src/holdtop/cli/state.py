"""``holdtop state``: one queue for several accounts."""

from __future__ import annotations

import argparse
import importlib

#: Sub-verb -> what it does. Each has ``add_arguments`` and ``run`` in ``state_NAME``, which is imported when named.
PARTS = {
    "shims": "replace an account's older gpu-hold and npu-hold by holdtop's own (root, or that account)",
    "init": "make the shared state directory (root)",
    "migrate": "move a home's queue into the shared one (root)",
    "check": "whether all accounts meet in one queue, and what a member gains besides",
}
EPILOG = "exit status: 0, 1 findings, 6 refused (why), 8 could not be shown here"


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from holdtop.cli.state_options import add_arguments

    parser = verbs.add_parser("state", help="the shared state directory", epilog=EPILOG, allow_abbrev=False)
    parts = parser.add_subparsers(dest="part", required=True, metavar="|".join(PARTS))
    for name, text in PARTS.items():
        add_arguments(name, parts.add_parser(name, help=text, epilog=EPILOG, allow_abbrev=False))


def run(args: argparse.Namespace) -> int:
    return int(importlib.import_module(f"holdtop.cli.state_{args.part}").run(args))
