"""What the acting verbs share: one look, the plan shown, the question, the act, its outcome."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict

from holdtop.errors import GoneError, HoldError, RefusedError
from holdtop.hold.places import check_resource, known_resources
from holdtop.model.values import Snapshot
from holdtop.operator import execute
from holdtop.operator.interruption import interruptible
from holdtop.operator.record import INTERRUPTED
from holdtop.operator.values import Outcome, Plan, Step, Target
from holdtop.render import bytes_text, clean

#: A command line is shown up to this many characters.
LONGEST_COMMAND = 200


def look(args: argparse.Namespace, *, devices: bool = False) -> Snapshot:
    """One look at the queues and the processes. ``devices``: who uses them and with how much memory, too."""
    from holdtop.sampler import look_once

    wanted = args.resource
    names = known_resources(args.state_dir) if wanted in (None, "all") else [check_resource(wanted)]
    return look_once(sensors=devices, resources=names, state_dir=args.state_dir)


def act(args: argparse.Namespace, make_plan: Callable[[Snapshot], Plan]) -> int:
    """The whole of an acting verb; returns its exit status. Raises ``RefusedError`` or ``GoneError``."""
    snapshot = look(args, devices=args.verb != "recover")  # a stray is known by its use of the device alone
    if args.verb == "recover" and any(r.holder and r.holder.kind == "shell" for r in snapshot.resources):
        snapshot = look(args, devices=True)  # a shell's payload is known by its use of the device alone
    try:
        plan = make_plan(snapshot)
    except HoldError as error:  # 125 is a payload's own number: what cannot be reached is a refusal here
        raise RefusedError(str(error)) from error
    if args.dry_run:
        print(_json(plan, None) if args.json else "\n".join(described(plan)))
        return 0
    if args.reason.strip() and not args.yes and not _confirmed(plan):
        raise RefusedError("not confirmed: nothing was done")
    outcome = _execute(args, plan)
    if not args.json and outcome.status in (6, 7):
        raise (RefusedError if outcome.status == 6 else GoneError)(outcome.text)
    with contextlib.suppress(BrokenPipeError):  # whoever read had enough: the status is still the act's
        print(_json(plan, outcome) if args.json else "\n".join(_told(outcome)), flush=True)
        return outcome.status
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return outcome.status


def _execute(args: argparse.Namespace, plan: Plan) -> Outcome:
    """The act; a signal that ends this command in its midst is told, and on record."""
    try:
        with interruptible():
            return execute(
                plan,
                reason=args.reason,
                grace=getattr(args, "grace", None),
                progress=None if args.json else _say,
                unaudited=args.unaudited,
            )
    except SystemExit:
        with contextlib.suppress(OSError):
            print(f"holdtop: {INTERRUPTED}; holdtop status shows it", file=sys.stderr, flush=True)
        raise


def described(plan: Plan) -> Iterator[str]:
    """The plan in lines of clean text: what, to whom, and what is not touched."""
    yield f"{plan.verb} {_about(plan)}: {clean(plan.how)}"
    for title, targets in (("ends:", plan.targets), ("ends too, known by its mark only:", plan.weak)):
        if targets and plan.means != "remove":
            yield title
            yield from map(_line, targets)
    yield "stays:"
    yield from (f"  {clean(line)}" for line in plan.spared)
    if plan.means != "remove":
        yield f"memory expected back: {bytes_text(plan.expected_bytes, 'not known')}"


def _about(plan: Plan) -> str:
    lane = f" of lane {clean(plan.lane)}" if plan.lane else ""
    if plan.ticket:
        return f"{clean(plan.ticket)}{lane} ({plan.resource})"
    return plan.resource if plan.verb == "recover" else f"pid {plan.typed} ({plan.resource})"


def _line(target: Target) -> str:
    who = clean(target.user or str(target.uid))
    command = clean(" ".join(target.command) or target.name, LONGEST_COMMAND)
    return f"  {target.pid:>8}  {who:<12} {bytes_text(target.device_bytes):>10}  {target.found_by:<8} {command}"


def _confirmed(plan: Plan) -> bool:
    """Ask on the terminal; anything but a plain yes (or the id, where it must be typed) is no."""
    if not sys.stdin or not sys.stdin.isatty():
        raise RefusedError("without a terminal nobody can be asked: give --yes, or --dry-run to look only")
    print("\n".join(described(plan)), file=sys.stderr)
    question = f"type {clean(plan.typed)} to go on: " if plan.needs_typing else f"{plan.verb}? [y/N] "
    print(question, end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline().strip()
    return answer == plan.typed if plan.needs_typing else answer.lower() in ("y", "yes")


def _say(step: Step) -> None:
    about = "" if step.pid is None else f"pid {step.pid}: "
    with contextlib.suppress(OSError):  # an act goes on, whoever stops listening
        print(f"  {about}{step.fate}: {clean(step.text)}", file=sys.stderr, flush=True)


def _told(outcome: Outcome) -> Iterator[str]:
    yield clean(outcome.text)
    if outcome.returned_bytes:
        yield f"memory that went with them: {bytes_text(outcome.returned_bytes)}"
    for record in outcome.records:
        yield f"audit: {record.get('kind')} {record.get('act')}"


def _json(plan: Plan, outcome: Outcome | None) -> str:
    return json.dumps({"schema": 1, "plan": asdict(plan), "outcome": outcome and asdict(outcome)})
