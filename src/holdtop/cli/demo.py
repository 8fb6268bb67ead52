"""``holdtop demo``: a sandboxed box with real processes, and the console on it."""

from __future__ import annotations

import argparse
import glob
import json
import os
import sys

from holdtop.cli.console import NO_TERMINAL
from holdtop.console.terminal import why_not
from holdtop.demo.sandbox import Sandbox, sandbox
from holdtop.errors import HoldtopError
from holdtop.hold import places
from holdtop.payload import signals


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("demo", help="a sandboxed box, and the console on it", allow_abbrev=False)
    parser.add_argument(
        "--script",
        action="store_true",
        help="no console: print what was set up as one JSON line, and clean up at the end of stdin",
    )
    parser.add_argument(
        "--if-empty",
        action="store_true",
        help="only where there is no AMD hardware or no hold state; elsewhere the console on this box",
    )


def run(args: argparse.Namespace) -> int:
    if args.if_empty and nothing_to_watch() is None:
        return _console([])
    if args.script:
        return _script()
    if (why := why_not()) is not None:
        print(f"holdtop: {why}; 'holdtop demo --script' needs no terminal", file=sys.stderr)
        return NO_TERMINAL
    if reason := nothing_to_watch() if args.if_empty else None:
        print(f"holdtop: {reason}: opening the demo", file=sys.stderr)
    print("holdtop: setting up the demo: real processes, recorded sensors …", file=sys.stderr)
    with sandbox() as box:
        os.environ.update(box.told["environ"])
        return _console(["--state-dir", box.told["state_dir"]])


def nothing_to_watch(sys_root: str = "/sys") -> str | None:
    """Why the console would be empty on this box, or ``None``. Opens no device."""
    vendors = [
        *glob.glob(f"{sys_root}/class/drm/card*/device/vendor"),
        *glob.glob(f"{sys_root}/class/accel/accel*/device/vendor"),
    ]
    if not any(_read(path).strip() in ("0x1002", "0x1022") for path in vendors):
        return "there is no AMD GPU or NPU here"
    try:
        found = places.resolve("gpu")
    except HoldtopError as error:
        return str(error)
    if not os.path.isdir(found.queue_path) and not os.path.lexists(found.token_path):
        return "nothing was ever held here"
    return None


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read(64)
    except OSError:
        return ""


def _console(words: list[str]) -> int:
    from holdtop.cli.main import main

    return main(words)


def _script() -> int:
    inbox = signals.capture()
    with sandbox() as box:
        print(json.dumps(box.told), flush=True)
        return _wait_for_the_end(box, inbox)


def _wait_for_the_end(box: Sandbox, inbox: signals.SignalInbox) -> int:
    """Until stdin ends, a signal comes, or the guardian is gone. The status is 128+n for a signal."""
    while True:
        woken = signals.ready((0, inbox.fd, box.guardian_fd), 3600.0)
        for signum in inbox.drain():
            if signum in signals.ENDING:
                return 128 + signum
        if box.guardian_fd in woken:
            return 1
        if 0 in woken and not os.read(0, 4096):
            return 0
