"""The commands' entry: find the verb, import it alone, run it, and turn every failure into one line and a status."""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from holdtop import __version__
from holdtop.errors import NOT_RUN, HoldtopError

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

#: Verb -> what it does. Each is a module of this package with ``add_parser`` and ``run``, imported when named.
VERBS = {
    "run": "hold the accelerator, run a command, release",
    "guard": "limits and containment without the queue",
    "status": "one look at queue, token, device and flags",
    "kill": "end a payload, or a flagged process",
    "evict": "remove a ticket from the queue",
    "recover": "free a ghost's token",
    "watch": "tell what is wrong, once each, and when it is over",
    "record": "keep a recording of this box, as watch does by itself",
    "snapshot": "one look as one file to share",
    "replay": "look at a recording: step, seek, compare",
    "incident": "what happened, as a report",
    "history": "how long each lane's holds took and waited, and what they needed",
    "audit": "operators' acts, and whether the record is whole",
    "doctor": "what is wrong with this box, and the remedy",
    "state": "one queue for several accounts: shims, init, migrate, check",
    "runner": "a CI runner that survives its jobs: render, install, verify, drill, remove",
    "demo": "a sandboxed box with real processes, and the console on it",
}
#: The verbs that run a payload.
_HOLDS = (["run"], ["guard"])
#: What a write to a full disk fails with (write(2)).
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
EPILOG = "\n".join(f"  {verb:<10}{text}" for verb, text in VERBS.items())


class Formatter(argparse.HelpFormatter):
    """Asks the terminal for its width itself: the base class, made for each option, imports archivers for that."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    with contextlib.suppress(ValueError, OSError):
        return int(os.environ.get("COLUMNS", 0)) or os.get_terminal_size().columns
    return 80


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line; the whole usage is there for the asking."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": Formatter, **options})

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """Unlike the base class: a full disk is a failure, and a closed stdout is nobody who asked."""
        asked = file is sys.stdout
        if file is not None and asked:
            file.write(message)
            sys.stdout.flush()
        elif file is not None:
            super()._print_message(message, file)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {_one_line(message)} ({self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """``holdtop``: with a verb that verb, without one the console. Without ``argv``: for a process of its own."""
    if argv is None:
        return _whole("holdtop", sys.argv[1:])
    return _guarded("holdtop", list(argv))


def gpu_hold() -> int:
    """``gpu-hold [-w SECONDS] CMD…``: a thin face of ``holdtop run -r gpu``."""
    return _whole("gpu-hold", ["run", *sys.argv[1:]])


def npu_hold() -> int:
    """``npu-hold [-w SECONDS] CMD…``: a thin face of ``holdtop run -r npu``."""
    return _whole("npu-hold", ["run", *sys.argv[1:]])


def _whole(program: str, words: list[str]) -> int:
    """The whole life of a process. A hold's starter does not wait until the interpreter has cleared everything up.

    Nor does who asks for the status wait for a read of it that hangs, whose thread the interpreter would join.
    """
    status = _guarded(program, words)
    if words[:1] in (*_HOLDS, ["status"]):
        os._exit(status)  # stdout is flushed, and stderr after each line
    return status


def _guarded(program: str, words: list[str]) -> int:
    _fill_closed_descriptors()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # the C locale prints everything, if not prettily
    try:
        status = _dispatch(program, words)
        if sys.stdout is not None:
            sys.stdout.flush()
    except HoldtopError as error:
        return _fail(program, str(error), error.status)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _silence_stdout()
        return 0  # the reader of a pipe had enough: that is not a failure of ours
    except OSError as error:
        _silence_stdout()
        full = error.filename is None and error.errno in _FULL
        said = f"{error}; {NOT_RUN}" if _runs(words) else str(error)
        text = f"cannot write to stdout: {error.strerror}" if full else said
        return _fail(program, text, _failure(words))
    except Exception as error:  # the last edge: a user sees one line, a developer may ask for all
        if os.environ.get("HOLDTOP_TRACEBACK"):
            raise
        text = f"internal error: {type(error).__name__}: {error} (HOLDTOP_TRACEBACK=1 shows where); please report it"
        return _fail(program, text, _failure(words))
    return status


def _fill_closed_descriptors() -> None:
    """A closed stdin, stdout or stderr must not become the number of a file of the state: something may write there.

    The filler is closed again by any exec, so a payload sees what its starter gave.
    """
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)


def _dispatch(program: str, words: list[str]) -> int:
    verb = words[0] if words else None
    if verb not in VERBS:
        return _console(words)
    gc.disable()  # what is imported stays: to look for garbage in it costs 2 ms
    module = importlib.import_module(f"holdtop.cli.{verb}")
    parser = Parser(prog=program, allow_abbrev=False)
    verbs = parser.add_subparsers(dest="verb", required=True, prog=program)  # else a usage is laid out to have it
    module.add_parser(verbs)
    own = verbs.choices[verb]
    if program != "holdtop":
        _turn_into_face(own, program)
    args, unknown = parser.parse_known_args(words)
    if unknown:
        own.error(f"unrecognized arguments: {' '.join(unknown)}")
    if program != "holdtop" and args.command in ([], ["--"]):
        own.error(f"needs a command: {program} [options] -- CMD …")
    gc.freeze()  # nor is it looked through later, which in a fork would copy all of it
    gc.enable()
    return int(module.run(args))


def _turn_into_face(parser: argparse.ArgumentParser, program: str) -> None:
    """``holdtop run`` under a name of its own, with the resource that the name says as default."""
    resource = program.partition("-")[0]
    parser.prog = program
    parser.usage = f"{program} [-w DURATION] [options] -- CMD ..."
    parser.set_defaults(resource=resource)
    for action in parser._actions:
        if action.dest == "resource":
            action.help = f"{resource} (default), any name; gpu,npu for both"


def _console(words: list[str]) -> int:
    parser = Parser(
        prog="holdtop",
        allow_abbrev=False,
        description="Without a verb: the console. With one of these, that:\n" + EPILOG,
        epilog="'holdtop VERB --help' says more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"holdtop {__version__}")
    parser.add_argument("--read-only", action="store_true", help="refuse every act until armed in the console")
    parser.add_argument("--refresh", metavar="DURATION", help="between two looks at the queue (default 1s)")
    parser.add_argument("--theme", metavar="NAME", help="a theme by name, or one of your own")
    parser.add_argument("--state-dir", metavar="DIR", help="the state directory")
    parser.add_argument("-r", "--resource", metavar="NAME", help="what to show (default all that have state)")
    parser.add_argument("verb", nargs="?", metavar="VERB", help=argparse.SUPPRESS)
    args = parser.parse_args(words)
    if args.verb in VERBS:
        first = next(word for word in words if word != args.verb)
        parser.error(f"{first!r} belongs to the console; write: holdtop {args.verb}")
    if args.verb is not None:
        parser.error(f"there is no verb {args.verb!r}{_nearest(args.verb)}")
    module = importlib.import_module("holdtop.cli.console")
    return int(module.run(args))


def _nearest(word: str) -> str:
    import difflib

    close = difflib.get_close_matches(word, VERBS, 1)
    return f", did you mean {close[0]!r}?" if close else ""


def _fail(program: str, text: str, status: int) -> int:
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"{program}: {_one_line(text)}\n")  # at once, whoever writes there too
    return status


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


def _runs(words: list[str]) -> bool:
    return words[:1] in (["run"], ["guard"])


def _failure(words: list[str]) -> int:
    """1 is a payload's own number: what runs one has its own failure's status."""
    return 125 if words[:1] in _HOLDS else 1


def _silence_stdout() -> None:
    """So that the interpreter's own flush at exit cannot fail a second time."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError:
        return
