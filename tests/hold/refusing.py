"""A kernel that refuses some renames, as file systems do that cannot exchange (NFS): by seccomp(2)."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Callable

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER = 38, 22, 2
_LOAD, _JUMP_EQUAL, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06  # linux/bpf_common.h
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
#: Of renameat2(2), by machine.
_RENAMEAT2 = {"x86_64": 316, "aarch64": 276}
#: Of struct seccomp_data: the call's number, and the lower half of its fifth argument.
_NUMBER, _FLAGS = 0, 16 + 4 * 8


def renames(flags: int) -> Callable[[], None]:
    """For ``preexec_fn``: renameat2 with one of these flags fails with EINVAL in this process and all below it."""
    program = [
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_EQUAL, 0, 3, _RENAMEAT2[os.uname().machine]),
        (_LOAD, 0, 0, _FLAGS),
        (_JUMP_ANY_BIT, 0, 1, flags),
        (_RETURN, 0, 0, _ERRNO | errno.EINVAL),
        (_RETURN, 0, 0, _ALLOW),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    filter_ = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)

    def refuse(_keep: object = code) -> None:
        if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(_PR_SET_SECCOMP, _FILTER, filter_):
            raise OSError(ctypes.get_errno(), "seccomp")

    return refuse
