"""holdtop installed where every account of a private box may read it: below ``/opt``, of root's."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import holdtop
from tests.host.private_box import PrivateBox

PYTHON = "/opt/venv/bin/python"
#: What it needs besides the standard library.
NEEDED = ("jeepney", "platformdirs", "psutil", "pyudev", "wcwidth")


def install(host: PrivateBox) -> None:
    """An environment of its own there, on this very interpreter."""
    host.do("sh", "-c", "mkdir -p /opt && mount -t tmpfs -o mode=755 none /opt && mkdir /opt/python")
    host.do("mount", "--bind", sys.base_prefix, "/opt/python")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    host.do(f"/opt/python/bin/{version}", "-m", "venv", "--without-pip", "/opt/venv")
    packages = host.at(f"/opt/venv/lib/{version}/site-packages")
    shutil.copytree(Path(holdtop.__file__).parent, packages / "holdtop", ignore=shutil.ignore_patterns("__pycache__"))
    for name in NEEDED:
        shutil.copytree(Path(sysconfig.get_path("purelib")) / name, packages / name)


def state_verb(host: PrivateBox, *words: str, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    """``holdtop state …`` of that installation, as root."""
    kwargs.setdefault("stdin", subprocess.DEVNULL)
    return host.do(PYTHON, "-I", "-m", "holdtop", "state", *words, check=False, **kwargs)


def as_account(host: PrivateBox, name: str, *words: str, **kwargs: Any) -> subprocess.Popen[str]:
    """Any command as that account with all of its groups, in a plain login's environment."""
    ids = ["setpriv", "--reuid", name, "--regid", name, "--init-groups"]
    env = {"HOME": f"/home/{name}", "PATH": f"/home/{name}/.local/bin:/usr/bin:/bin", **kwargs.pop("env", {})}
    return subprocess.Popen(
        host.inside(*ids, *words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
        **kwargs,
    )
