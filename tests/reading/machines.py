"""Machines for the tests: recorded trees of the package, and small synthetic ones made in a directory."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import holdtop.demo
from holdtop.sources.roots import Roots

#: Recorded machines: those of the package, and those that only the tests need.
CAPTURES = Path(holdtop.demo.__file__).parent / "captures"
KEPT = Path(__file__).parent / "captures"


def recorded(name: str) -> Roots:
    tree = next(root / name for root in (CAPTURES, KEPT) if (root / name).is_dir())
    return Roots(str(tree / "sys"), str(tree / "proc"))


def tree(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files below ``root``: a synthetic machine, labelled so by being made here."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def stat_line(
    pid: int, ppid: int = 1, name: str = "python3", *, state: str = "S", start: int = 100, session: int = 1
) -> str:
    """A line of ``/proc/PID/stat`` with the fields in proc_pid_stat(5)'s order."""
    head = f"{pid} ({name}) {state} {ppid} {pid} {session} 0 -1 4194304 0 0 0 0 250 50 0 0 20 0 1 0 {start}"
    return f"{head} 1000000 512 18446744073709551615 " + "0 " * 26 + "0\n"


def fdinfo(client: int | None, pdev: str = "0000:c5:00.0", **regions: str) -> str:
    """fdinfo of one amdgpu descriptor; ``resident_gtt="4 KiB"`` becomes ``drm-resident-gtt``."""
    lines = ["pos:\t0", "flags:\t02100002", "drm-driver:\tamdgpu", f"drm-pdev:\t{pdev}"]
    if client is not None:
        lines.append(f"drm-client-id:\t{client}")
    lines += [f"drm-{name.replace('_', '-')}:\t{value}" for name, value in regions.items()]
    return "\n".join(lines) + "\n"


#: A card under a name that a container might give it: its number is what counts.
NODE = "/dev/shm/gpu0"
#: In a mount namespace of its own, with what ``shown`` made laid over the real processes of those pids.
_LAID = f"""
mount -t tmpfs none /dev/shm
mknod {NODE} c 226 128
for shown in $(find "$1" -name fd); do
    laid=${{shown#"$1"}}
    mount --bind "$shown" "/proc$laid"
    mount --bind "${{shown}}info" "/proc${{laid}}info"
done
shift
[ $# = 0 ] || exec "$@"
"""


def laid(directory: Path, *command: str) -> list[str]:
    """The command, where the processes' descriptors are those of ``directory``. Needs root and unshare(1)."""
    return ["unshare", "--mount", "--propagation", "private", "sh", "-ec", _LAID, "sh", str(directory), *command]


def lay(directory: Path, pid: int) -> None:
    """The same for a process that has a mount namespace of its own already."""
    subprocess.run(["nsenter", f"--mount=/proc/{pid}/ns/mnt", "sh", "-ec", _LAID, "sh", str(directory)], check=True)


def shown(directory: Path, process: str, descriptors: Mapping[int, str]) -> None:
    """What ``PID`` or ``PID/task/TID`` has open: the card with that fdinfo, and where there is none something else."""
    base = directory / process
    for folder in ("fd", "fdinfo"):
        (base / folder).mkdir(parents=True)
    for number, info in descriptors.items():
        (base / "fd" / str(number)).symlink_to(NODE if info else "/dev/null")
        (base / "fdinfo" / str(number)).write_text(info or "pos:\t0\n")
