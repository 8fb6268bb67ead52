"""A single look as one file, in the form of a recording: what opens the one opens the other."""

from __future__ import annotations

import contextlib
import os

from holdtop import __version__
from holdtop.errors import RecordingError
from holdtop.hold.files import write_all
from holdtop.model.standing import Standing
from holdtop.model.values import Snapshot
from holdtop.recorder import codec, frames
from holdtop.recorder.frames import Frame, Packer
from holdtop.recorder.marks import marks
from holdtop.recorder.news import Reader
from holdtop.recorder.recorder import Waiting, milliseconds, unusable
from holdtop.recorder.ring import FILE_MODE


def write(path: str, snapshot: Snapshot) -> int:
    """Its bytes' number. Whole or not at all; raises ``RecordingError``, also for what exists already."""
    data = _file(snapshot)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
        try:
            write_all(fd, data)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(path)
            raise
        finally:
            os.close(fd)
    except FileExistsError:
        raise RecordingError(f"{path} exists, and is left alone: name another file") from None
    except OSError as error:
        raise unusable(path, error) from error
    return len(data)


def _file(snapshot: Snapshot) -> bytes:
    beside = Waiting()
    beside.add(marks(None, snapshot, Standing().compare(snapshot), ()), Reader().read(snapshot))
    kind, body = Packer().pack(codec.encode(snapshot))
    one = Frame(kind, 1, milliseconds(snapshot.taken_at), beside.side(), body)
    head = {"host": snapshot.host, "holdtop": __version__, "ring": "snapshot"}
    return frames.head(head) + frames.frame(one)
