"""The state directory, opened by descriptors: no link is followed, nothing blocks, nothing foreign is trusted.

Several accounts write here and one of them may run unreviewed code, so every name below the root is opened with
O_NOFOLLOW from its directory's descriptor (openat(2)), regular files with one link only, capped in size.
This is the one place where the state's ``OSError`` become holdtop's errors.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from collections.abc import Iterator
from typing import Any, NoReturn

from holdtop.errors import HoldError, PlaceError, StateDenied, StateWriteError

DIRECTORY_MODE = 0o2770
STICKY_MODE = 0o3770
FILE_MODE = 0o640
#: Logs that every account of the group appends to.
SHARED_FILE_MODE = 0o660
#: At home nobody else is meant to queue, and a primary group may be shared with strangers.
HOME_DIRECTORY_MODE = 0o700
#: No file of the state is read beyond this, in bytes.
SIZE_LIMIT = 64 * 1024
#: Prefix of what is written aside before it is linked or renamed in.
ASIDE = ".new-"

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
#: What keeps the state from being written, and what to do about it.
_REMEDIES = {
    errno.ENOSPC: "free some space or inodes there",
    errno.EDQUOT: "free some of the quota there",
    errno.EFBIG: "raise the limit on file sizes (ulimit -f)",
    errno.EROFS: "make it writable, or name another place with --state-dir",
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.ENFILE: "the whole box has too many files open; see fs.file-max",
    errno.ENOMEM: "the kernel has no memory left",
    errno.EIO: "see the kernel's log: the disk fails",
}
#: Where locks do not work; over NFS, flock(2) wants a file that is open for writing and says EBADF.
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF}


class Naming:
    """An ``OSError`` of the block names the whole path: the call itself knew a descriptor, or a name in a directory."""

    __slots__ = ("_directory", "_name")

    def __init__(self, directory: Dir, name: str = "") -> None:
        self._directory, self._name = directory, name

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, OSError):
            error.filename = self._directory.of(self._name) if self._name else self._directory.path


class Untrusted(Exception):
    """The entry is not what we would have written: a link, no regular file, several names, or too large."""


class Dir:
    """An open directory of the state. Names are single components; they are bytes-safe through surrogateescape."""

    def __init__(self, fd: int, path: str) -> None:
        self.fd = fd
        #: For messages only; nothing is opened by it.
        self.path = path

    @classmethod
    def root(cls, path: str) -> Dir:
        """Open the state's root (links in it are the owner's business). Raises ``PlaceError``."""
        try:
            return cls(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), path)
        except OSError as error:
            refuse(error, path, "open the directory")

    def sub(self, name: str, *, make: int | None = None) -> Dir:
        """Open a directory below, making it with mode ``make`` when it is missing. Raises ``PlaceError``."""
        path = os.path.join(self.path, name)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            try:
                return Dir(os.open(name, flags, dir_fd=self.fd), path)
            except FileNotFoundError:
                if make is None:
                    raise
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=self.fd)
                _unmask(self.fd, name)
            fd = os.open(name, flags, dir_fd=self.fd)
            if os.fstat(fd).st_uid == os.geteuid():
                _share(self.fd, fd, make)
            return Dir(fd, path)
        except OSError as error:
            refuse(error, path, "open or make the directory")

    def names(self) -> list[str]:
        with Naming(self):
            return os.listdir(self.fd)

    def open(self, name: str, flags: int = _READ, *, links: int = 1) -> int:
        """Open an existing regular file. Raises ``FileNotFoundError``, ``Untrusted`` or ``OSError``."""
        _single(name)
        try:
            with Naming(self, name):
                fd = os.open(name, flags | _READ & ~os.O_ACCMODE, dir_fd=self.fd)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.EISDIR):
                raise Untrusted(f"{self.of(name)} is a link or no regular file") from error
            raise
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            os.close(fd)
            raise Untrusted(f"{self.of(name)} is no regular file")
        if status.st_nlink > links:
            os.close(fd)
            raise Untrusted(f"{self.of(name)} has {status.st_nlink} names (hard links)")
        return fd

    def read(self, name: str, *, shared: bool = False) -> tuple[bytes, os.stat_result]:
        """A whole file and its status. Raises as ``open`` does; ``Untrusted`` too when it is too large.

        ``shared``: everybody writes there, so nobody is its author.
        """
        fd = self.open(name)
        try:
            if not shared:
                author(os.fstat(fd), self.of(name))
            with Naming(self, name):
                data = os.read(fd, SIZE_LIMIT + 1)
            if len(data) > SIZE_LIMIT:
                raise Untrusted(f"{self.of(name)} is larger than {SIZE_LIMIT} bytes")
            return data, os.fstat(fd)
        finally:
            os.close(fd)

    def create(self, name: str, data: bytes = b"", *, mode: int = FILE_MODE) -> int:
        """Make a new file with exactly this content and mode, whatever the umask; the descriptor stays open.

        Raises ``OSError``; then nothing of that name is left, unless the disk does not even let go of it.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        with Naming(self, name):
            fd = os.open(name, flags, 0o600, dir_fd=self.fd)
            with undone(self, name, fd):
                _share(self.fd, fd, mode)
                write_all(fd, data)
        return fd

    def open_or_create(self, name: str, flags: int = os.O_RDONLY, *, mode: int = FILE_MODE) -> int:
        """Open, making the file when it is missing. O_CREAT comes second: in a sticky directory
        ``fs.protected_regular=2`` refuses it on another account's file (proc_sys_fs(5))."""
        flags |= os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            return self.open(name, flags)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                os.close(self.create(name, mode=mode))
            return self.open(name, flags)

    def replace(self, name: str, data: bytes) -> None:
        """Put ``data`` there in one step, whatever was there."""
        _single(name)
        aside = ASIDE + name  # one name: whoever writes this file writes it alone, so what has it is debris
        self.remove(aside)
        fd = self.create(aside, data)
        with undone(self, aside, fd):
            rename(self, aside, name)
        os.close(fd)

    def remove(self, name: str) -> bool:
        """Unlink; False when it was not there."""
        _single(name)
        try:
            with Naming(self, name):
                os.unlink(name, dir_fd=self.fd)
        except FileNotFoundError:
            return False
        return True

    def status(self, name: str) -> os.stat_result | None:
        """lstat, or ``None`` when it is not there."""
        try:
            with Naming(self, name):
                return os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def of(self, name: str) -> str:
        """The path of an entry, for messages."""
        return os.path.join(self.path, name)

    def close(self) -> None:
        os.close(self.fd)

    def __enter__(self) -> Dir:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def author(status: os.stat_result, path: str) -> int:
    """Whose word a file is: its owner's, if nobody else may write it. Raises ``Untrusted``.

    Members may rename what lies in the state, and some of it is for all to write: a log that root made would
    else become a request, a record or a token of root's, saying whatever somebody wrote into it.
    """
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Untrusted(f"{path} may be written by others than its owner (mode {stat.S_IMODE(status.st_mode):04o})")
    return status.st_uid


def is_in_place(fd: int, directory: Dir, name: str) -> bool | None:
    """Whether this open file has that name; ``None`` when nothing has it."""
    status = directory.status(name)
    with Naming(directory, name):
        return status and os.path.samestat(status, os.fstat(fd))


@contextlib.contextmanager
def undone(directory: Dir, name: str, fd: int) -> Iterator[None]:
    """Unless the block succeeds, close the file that was made for it, and remove it."""
    try:
        yield
    except BaseException:
        os.close(fd)
        with contextlib.suppress(OSError):  # the first failure is the cause that has to be told
            directory.remove(name)
        raise


def _single(name: str) -> None:
    """A path would leave the directory, and an absolute one ignore it."""
    if "/" in name or name in ("", ".", ".."):
        raise PlaceError(f"{name!r} is no name of an entry in a directory")


def rename(directory: Dir, old: str, new: str) -> None:
    """Within one directory; what had the new name is gone."""
    with Naming(directory, new):
        os.rename(old, new, src_dir_fd=directory.fd, dst_dir_fd=directory.fd)


def _unmask(directory_fd: int, name: str) -> None:
    """Make a directory that was just made accessible to ourselves, whatever the umask took away."""
    fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory_fd)
    try:
        if os.fstat(fd).st_uid == os.geteuid():
            os.chmod(f"/proc/self/fd/{fd}", 0o700)
    finally:
        os.close(fd)


def _share(directory_fd: int, fd: int, mode: int) -> None:
    """Mode whatever the umask, and the directory's group also where nobody set its setgid bit."""
    group = os.fstat(directory_fd).st_gid
    if os.fstat(fd).st_gid != group:
        with contextlib.suppress(PermissionError):  # we are not in that group: then it is not for sharing
            os.fchown(fd, -1, group)
    os.fchmod(fd, mode)


def json_object(data: bytes) -> dict[str, Any] | None:
    """One JSON object; ``None`` for anything else, however deeply somebody has nested it."""
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def write_all(fd: int, data: bytes) -> None:
    """Write everything or raise; a short write is a full disk that has not said so yet."""
    while data:
        data = data[os.write(fd, data) :]


@contextlib.contextmanager
def writing(path: str, doing: str) -> Iterator[None]:
    """Turn any ``OSError`` of the block into the error that says what it means for the hold."""
    try:
        yield
    except Untrusted as error:
        raise PlaceError(f"cannot {doing}: {error}; remove it or find out who put it there") from error
    except OSError as error:
        refuse(error, path, doing)


def refuse(error: OSError, path: str, doing: str) -> NoReturn:
    """Raise what an ``OSError`` on the state means. Gone, denied, full and odd are four different things.

    ``path``: what it was about, where the error itself does not name more of it.
    """
    if isinstance(error.filename, str) and error.filename.startswith(os.sep):
        path = error.filename
    what = f"cannot {doing}: {path}: {error.strerror}"
    match error.errno:
        case errno.EACCES | errno.EPERM:
            raise StateDenied(f"{what} ({_whose(path)})") from error
        case errno.ENOENT:
            raise PlaceError(f"{what}; make it, or name another place with --state-dir") from error
        case errno.ELOOP | errno.ENOTDIR | errno.EEXIST | errno.EISDIR | errno.ENOTEMPTY:
            raise PlaceError(
                f"{what}; the state follows no links and takes no other kind of file: remove it, or find out who put "
                "it there"
            ) from error
        case number if number in _REMEDIES:
            raise StateWriteError(f"{what}; {_REMEDIES[number]}") from error
        case number if number in _NO_LOCKS and path.startswith(os.sep):
            raise PlaceError(f"{what}; {no_locks(path)}") from error
    raise HoldError(what) from error


def no_locks(path: str) -> str:
    """What to do where file locks do not work."""
    return f"holds need working file locks, which this {file_system(path)} lacks; name another place with --state-dir"


def file_system(path: str) -> str:
    """The type of the file system that ``path`` lies on: ``ext4``, ``nfs4``, ``fuse.sshfs`` (proc_pid_mountinfo(5))."""
    with contextlib.suppress(OSError), open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        device = os.stat(next(filter(os.path.lexists, upwards(path)), path)).st_dev
        name = f"{os.major(device)}:{os.minor(device)}"
        for line in file:
            fields, _, rest = line.partition(" - ")
            if fields.split()[2] == name:
                return rest.split()[0]
    return "unknown file system"


def upwards(path: str) -> Iterator[str]:
    """The path, and every directory above it."""
    yield path
    while path != (path := os.path.dirname(path)):
        yield path


def _whose(path: str) -> str:
    """Who may do what there, for the message of a denial: the nearest component that can be looked at, and the
    directory it is in, which decides who may remove it (a sticky one: its owner, the file's, and root)."""
    me = f"you are uid {os.geteuid()}, groups {','.join(map(str, sorted({os.getegid(), *os.getgroups()})))}"
    told: list[str] = []
    for one in upwards(path):
        if len(told) == 2:
            break
        with contextlib.suppress(OSError):
            status = os.stat(one)
            mode = stat.S_IMODE(status.st_mode)
            told.append(f"{one} has mode {mode:04o}, owner uid {status.st_uid}, group {status.st_gid}")
    return "; ".join((*told, me))
