"""The demo's directory: state, working directory, sensors, and the device facts laid over live processes."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

#: The descriptor under which a process of the demo "has" the render node open.
DEVICE_FD = 99
#: The recorded trees, later over earlier: the fullest one of an APU, with the sizes of a 128 GB Strix Halo in it.
RECORDINGS = ("150e-strix-point", "1586-strix-halo-gtt-96g")
#: The program's copies; a lane's command is ``python3 NAME.py``.
PROGRAMS = ("finetune", "loader", "writer", "serve", "evaluate", "embed", "bench", "notebook", "transcribe")


class World:
    """Everything that the demo puts on disk, below one directory of mode 0700."""

    def __init__(self, root: str) -> None:
        self.root = Path(root)
        self.state = self.root / "state"
        self.work = self.root / "work"
        self.logs = self.root / "logs"
        self.sys = self.root / "sys"
        self.overlay = self.root / "overlay"
        self.bin = self.root / "bin"

    @property
    def environ(self) -> dict[str, str]:
        """What makes ``status`` and the console look at this world's sensors."""
        return {"HOLDTOP_SYS": str(self.sys), "HOLDTOP_PROC_OVERLAY": str(self.overlay)}

    def build(self, python: str) -> None:
        """Make the directories, the programs and a private copy of the recorded sensors."""
        for path in (self.state, self.work, self.logs, self.overlay, self.bin):
            path.mkdir()
        (self.bin / "python3").symlink_to(python)
        package = resources.files("holdtop.demo")
        with resources.as_file(package / "program.py") as program:
            for name in PROGRAMS:
                shutil.copy(program, self.work / f"{name}.py")
        for name in RECORDINGS:
            with resources.as_file(package / "captures" / name / "sys") as recorded:
                shutil.copytree(recorded, self.sys, symlinks=True, dirs_exist_ok=True)
        for path in (self.sys, *self.sys.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o700 if path.is_dir() else 0o600)

    def put(self, path: Path, text: str) -> None:
        """Replace a file in one step: a reader never sees half of it."""
        aside = self.root / ".aside"
        aside.write_text(text)
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.replace(path)

    def lay_over(self, pid: int, fdinfo: str, node: str = "/dev/dri/renderD128") -> None:
        """Let the live process ``pid`` have the render node open, with this fdinfo."""
        process = self.overlay / str(pid)
        self.put(process / "fdinfo" / str(DEVICE_FD), fdinfo)
        (process / "fd").mkdir(exist_ok=True)
        link = process / "fd" / str(DEVICE_FD)
        if not link.is_symlink():
            link.symlink_to(node)

    def forget_all_but(self, pids: Iterable[int]) -> None:
        """Remove what is laid over processes that are gone: their pids may be given to strangers."""
        keep = {str(pid) for pid in pids}
        for entry in self.overlay.iterdir():
            if entry.name.isdigit() and entry.name not in keep:
                shutil.rmtree(entry)
