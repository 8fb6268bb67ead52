"""The few Linux calls that Python's standard library does not have, in one place.

Each function names the manual page it follows. All raise ``OSError`` with the kernel's errno.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import struct
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
RENAME_NOREPLACE = 1
RENAME_EXCHANGE = 2
PIDFD_SIGNAL_PROCESS_GROUP = 4  # pidfd_send_signal(2), Linux 6.9
WALL = 0x40000000  # __WALL of waitpid(2): clone children too

CLONE_INTO_CGROUP = 0x200000000  # clone3(2), Linux 5.7
CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REC = 16384
MS_SLAVE = 1 << 19

IN_ATTRIB = 0x004
IN_MOVED_TO = 0x080
IN_CREATE = 0x100
IN_DELETE_SELF = 0x400
IN_MOVE_SELF = 0x800

_PIDFD_GET_INFO = 0xC040FF0B  # _IOWR(0xFF, 11, 64 bytes), include/uapi/linux/pidfd.h
_PIDFD_INFO_EXIT = 1 << 3

_libc = ctypes.CDLL(None, use_errno=True)
_CLONE3 = 435  # on every architecture that has it


def _check(result: int) -> int:
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def become_subreaper(*, be: bool = True) -> None:
    """Inherit every orphan below this process, or no longer (PR_SET_CHILD_SUBREAPER(2const))."""
    _check(_libc.prctl(PR_SET_CHILD_SUBREAPER, int(be), 0, 0, 0))


def end_with_parent() -> None:
    """KILL for this process as soon as the thread that started it ends (PR_SET_PDEATHSIG(2const))."""
    _check(_libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0))


def fork_into_cgroup(directory_fd: int) -> int:
    """fork(2), but the child starts in that cgroup (clone3(2) with CLONE_INTO_CGROUP).

    To move a process there, the kernel waits until no other process forks or exits, for 10 ms on an idle box. For a
    process of one thread only, whose child is soon to exec: no handlers of ``os.register_at_fork`` are run.
    """
    args = struct.pack("11Q", CLONE_INTO_CGROUP, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, directory_fd)
    # PyDLL: the interpreter's lock is held throughout, so the child has it too.
    pid = ctypes.PyDLL(None, use_errno=True).syscall(_CLONE3, args, ctypes.c_size_t(len(args)))
    return _check(pid)


def unshare(flags: int) -> None:
    """New namespaces (CLONE_NEW*) for this process; a pid namespace is for its later children (unshare(2))."""
    _check(_libc.unshare(flags))


def mount(source: str, target: str, kind: str | None, flags: int) -> None:
    """mount(2), in a mount namespace of our own only."""
    words = (None if word is None else os.fsencode(word) for word in (source, target, kind))
    _check(_libc.mount(*words, ctypes.c_ulong(flags), None))


def rename_special(old_dir: int, old: str, new_dir: int, new: str, flags: int) -> None:
    """renameat2(2) with RENAME_NOREPLACE or RENAME_EXCHANGE; EINVAL or ENOSYS where it is impossible."""
    _check(_libc.renameat2(old_dir, os.fsencode(old), new_dir, os.fsencode(new), flags))


def exchange_possible(error: OSError) -> bool:
    """False when the failure means that this kernel or file system has no such rename."""
    return error.errno not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


def inotify_open() -> int:
    """A non-blocking inotify descriptor; EMFILE at the user's limit (128 instances by default)."""
    return _check(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))


def inotify_watch(fd: int, path: str, mask: int) -> int:
    """Add a watch on ``path``, never following a link (inotify(7), IN_DONT_FOLLOW)."""
    return _check(_libc.inotify_add_watch(fd, os.fsencode(path), mask | 0x02000000))


def exit_wait_status(pidfd: int) -> int | None:
    """The wait status (``os.WIFSIGNALED`` …) of a pidfd's process, by PIDFD_GET_INFO (ioctl_pidfd(2const)).

    ``None`` before it has been reaped, and on a kernel that does not tell (before 6.15).
    """
    buffer = bytearray(64)
    struct.pack_into("Q", buffer, 0, _PIDFD_INFO_EXIT)
    try:
        fcntl.ioctl(pidfd, _PIDFD_GET_INFO, buffer)
    except OSError:
        return None
    (mask,) = struct.unpack_from("Q", buffer, 0)
    return int(struct.unpack_from("i", buffer, 60)[0]) if mask & _PIDFD_INFO_EXIT else None


#: A uid that no account has.
NOBODYS_UID = (1 << 32) - 16
#: setgroups, setresgid and setresuid by machine (arch/*/entry/syscalls, include/uapi/asm-generic/unistd.h).
_CREDENTIAL_CALLS = {"x86_64": (116, 119, 117), "aarch64": (159, 149, 147)}


def become_thread_account(uid: int, gid: int, groups: Sequence[int]) -> None:
    """Give the *calling thread* another account's ids for good (setgroups(2), setresgid(2), setresuid(2)).

    Raw, since the C library's would change every thread. Leaving root this way drops the thread's capabilities.
    Only the effective uid is the account's: by it the kernel judges what we do (kill(2), credentials(7)), while by
    real and saved uid it judges what is done to us. That account could else signal this thread, and so its process.
    """
    calls = _CREDENTIAL_CALLS.get(os.uname().machine)
    if calls is None:
        raise OSError(errno.ENOSYS, f"setresuid is not known for {os.uname().machine}")
    setgroups, setresgid, setresuid = calls
    _check(_libc.syscall(setgroups, ctypes.c_long(len(groups)), (ctypes.c_uint32 * len(groups))(*groups)))
    _check(_libc.syscall(setresgid, *[ctypes.c_long(gid)] * 3))
    try:
        _check(_libc.syscall(setresuid, *map(ctypes.c_long, (NOBODYS_UID, uid, NOBODYS_UID))))
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        _check(_libc.syscall(setresuid, *[ctypes.c_long(uid)] * 3))  # a user namespace without that uid
