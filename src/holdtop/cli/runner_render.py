"""``holdtop runner render``: print the unit, and what systemd says of it."""

from __future__ import annotations

import argparse
import json
import sys

from holdtop.cli.runner_options import settings_of
from holdtop.host.runner import unit
from holdtop.render import clean


def run(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    text = unit.render(settings)
    said = unit.complaints(text, settings.unit)
    if args.json:
        print(json.dumps({"schema": 1, "unit": settings.unit, "text": text, "complaints": said}))
    else:
        print(text, end="")
    for line in [f"holdtop: not verified: {unit.NO_ANALYZE}"] if said is None else said:
        print(clean(line), file=sys.stderr)
    return 1 if said else 0
