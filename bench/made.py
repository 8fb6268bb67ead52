"""Of which machine, commit and moment a result is: the head of each, and where it is kept."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
#: What measurements themselves change in a checkout.
MADE = ("bench/results", "docs/pictures")


def head(command: str, load: float) -> dict[str, Any]:
    """``load``: the box's own, of the last minute before anything was measured."""
    return {
        "command": command,
        "date": datetime.now().astimezone().isoformat(timespec="minutes"),
        "commit": _commit(),
        "machine": platform.machine(),
        "kernel": platform.release().split("-")[0],
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "load": [load, os.getloadavg()[0]],
    }


def _commit() -> str:
    """Short, and whether anything but results was changed since; ``no commit`` outside a checkout."""
    try:
        changed = _git("status", "--porcelain", "--", ".", *(f":(exclude){made}" for made in MADE))
        return _git("rev-parse", "--short", "HEAD") + ("-dirty" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "no commit"


def _git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout.strip()


def line(result: Mapping[str, Any]) -> str:
    """What ``head`` gave, as a page begins with it: a sentence without its end."""
    before, after = result["load"]
    return (
        f"Made by `{result['command']}` on {result['date']} at {result['commit']}: {result['machine']}, "
        f"Linux {result['kernel']},\nPython {result['python']}, {result['processors']} processors; "
        f"load {before:.1f} before and {after:.1f} after"
    )


def keep(name: str, result: Mapping[str, Any], page: str, where: Path = RESULTS) -> None:
    """As JSON and as a page, which is printed as well."""
    where.mkdir(exist_ok=True)
    (where / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    (where / f"{name}.md").write_text(page)
    print(page)
