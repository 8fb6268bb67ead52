"""What a runner is to be, checked as a whole before anything is written."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass, field

from holdtop.errors import UsageError
from holdtop.hold.places import DEFAULT_STATE_DIR
from holdtop.host.runner import quoting, sizes
from holdtop.host.runner.sizes import Size

#: Units of ours begin so: by it the box's runners are found again.
PREFIX = "holdtop-runner-"
#: What systemd gives a service that names no PATH (systemd.exec(5)).
SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
#: Variables that the unit sets by itself.
_OWN = {"PATH", "HOME", "USER", "ONEBIT_HOLD_DIR", "LD_PRELOAD"}
#: Below ``/``: of the kernel, whose names mean another place to each process, or nothing by the next boot.
_KERNELS = ("proc", "sys", "dev")
#: Where no home lies, and what is none, though homes lie there.
_SYSTEMS = (*_KERNELS, "bin", "boot", "etc", "lib", "lib64", "sbin", "usr")
_SHARED = ("/", "/home", "/opt", "/root", "/run", "/srv", "/tmp", "/var", "/var/lib")
#: How those end that would send a job to a queue of its own (``GPU_QUEUE_DIR``, ``GPU_TOKEN_FILE``).
_ELSEWHERE = ("_QUEUE_DIR", "_TOKEN_FILE")


@dataclass(frozen=True, slots=True)
class Settings:
    """One runner. Raises ``UsageError`` when it could not be written down as it is meant."""

    name: str = "main"
    user: str = "ghrunner"
    home: str = "/var/lib/ghrunner"
    memory_max: Size = field(default_factory=lambda: sizes.parse(sizes.DEFAULT_MAX))
    #: ``None``: left out (of ``infinity`` and of a percentage no 90 % can be written down).
    memory_high: Size | None = None
    #: Directories of shared tools, before systemd's own.
    path_dirs: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    #: Where the hold's state lives; ``None``: this runner's jobs hold nothing that others hold.
    state_dir: str | None = DEFAULT_STATE_DIR
    #: In the home, name -> what it leads to: read by jobs, and not to be written by them.
    home_links: tuple[tuple[str, str], ...] = ()
    #: A unit of the system's manager; else of a user's, who is the account then.
    system: bool = True
    #: Where the unit's file lies; ``None``: where its manager looks first.
    unit_dir: str | None = None

    def __post_init__(self) -> None:
        quoting.check_unit_name(self.name)
        quoting.check_account(self.user, "--user")
        quoting.check_path(self.home, "--home")
        _check_own(self.user, self.home, "--user" if self.system else "--user-manager as")
        sizes.check_order(self.memory_high, self.memory_max)
        for path in self.path_dirs:
            if ":" in quoting.check_path(path, "--path-dir"):
                raise UsageError(f"--path-dir: {path!r}: a colon ends a part of PATH")
            if path.split("/")[1] in _KERNELS:
                raise UsageError(f"--path-dir: {path!r} is the kernel's: jobs would run what lies elsewhere")
        keys = [key for key, _ in self.environment]
        if twice := next((key for key in keys if keys.count(key) > 1), None):
            raise UsageError(f"--env {twice}: it is named twice, and one of them would be lost")
        for key, text in self.environment:
            quoting.assignment(f"{key}={text}", "--env")
            if key in _OWN:
                raise UsageError(f"--env {key}: the unit sets it itself (--path-dir, --home, --user, --state-dir)")
            if key.endswith(_ELSEWHERE):
                raise UsageError(
                    f"--env {key}: it would send jobs to a queue of their own (--state-dir names the shared one)"
                )
        if self.unit_dir is not None:
            quoting.check_path(self.unit_dir, "--unit-dir")
        for name, target in self.home_links:
            _check_link(name, target)
        if self.state_dir is not None:
            quoting.check_path(self.state_dir, "--state-dir")

    @property
    def unit(self) -> str:
        return f"{PREFIX}{self.name}.service"

    @property
    def unit_path(self) -> str:
        own = os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.join(self.home, ".config"), "systemd/user")
        return os.path.join(self.unit_dir or ("/etc/systemd/system" if self.system else own), self.unit)

    @property
    def directory(self) -> str:
        """Where the vendor's files lie; one of its own for each runner of the account."""
        return os.path.join(self.home, f"runner-{self.name}")

    @property
    def program(self) -> str:
        return os.path.join(self.directory, "bin", "runsvc.sh")

    @property
    def path(self) -> str:
        return ":".join((*self.path_dirs, *SYSTEM_PATH))

    @property
    def options(self) -> list[str]:
        """The words of a command line that say the same; what is so by default is left out."""
        usual = Settings()
        named: list[tuple[str, str | None, str | None]] = [
            ("--memory-max", self.memory_max.text, usual.memory_max.text),
            ("--memory-high", _text(self.memory_high), _text(sizes.high_for(self.memory_max))),
            *(("--path-dir", one, None) for one in self.path_dirs),
            *(("--env", f"{key}={text}", None) for key, text in self.environment),
            *(("--home-link", f"{name}={target}", None) for name, target in self.home_links),
            ("--state-dir", self.state_dir, DEFAULT_STATE_DIR),
            ("--unit-dir", self.unit_dir, None),
        ]
        if self.system:
            named = [("--user", self.user, usual.user), ("--home", self.home, usual.home), *named]
        words = [word for name, text, usually in named if text not in (None, usually) for word in (name, str(text))]
        manager = [] if self.system else ["--user-manager"]
        return ["--name", self.name, *manager, *words, *([] if self.state_dir else ["--no-hold-state"])]

    @property
    def variables(self) -> dict[str, str]:
        """The environment that the unit gives, in its order; what a user names comes last and wins."""
        state = {}
        if self.state_dir is not None:
            state = {"ONEBIT_HOLD_DIR": self.state_dir, "HW_GATE_LOCK": os.path.join(self.state_dir, "npu.lock")}
        return {"PATH": self.path, **state, **dict(self.environment)}


def _text(size: Size | None) -> str | None:
    return size.text if size else None


def own_account() -> tuple[str, str]:
    """Name and home of whoever runs this: a unit of a user's manager runs as nobody else."""
    entry = pwd.getpwuid(os.geteuid())
    return entry.pw_name, entry.pw_dir


def _check_link(name: str, target: str) -> None:
    quoting.check_text(name, "--home-link")
    if name.startswith("/") or os.path.normpath(name) != name or name.split("/")[0] in (".", ".."):
        raise UsageError(f"--home-link: {name!r} is no path below the home, such as lb or .local/bin")
    quoting.check_path(target, "--home-link")


def _check_own(user: str, home: str, said: str) -> None:
    if user in ("root", "nobody"):
        raise UsageError(f"{said} {user}: unreviewed jobs need an account of their own")
    if home in _SHARED or home.split("/")[1] in _SYSTEMS:
        raise UsageError(f"--home {home}: a runner needs a directory of its own")
