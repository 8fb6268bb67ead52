"""The unit. Each of its lines has its reason in docs/runner.md."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile

from holdtop.host.runner import quoting
from holdtop.host.runner.settings import Settings

#: By it a unit file is known as ours.
FIRST_LINE = "# Written by holdtop runner. Changes belong in a drop-in: systemctl edit."
#: For its verdict, in seconds: it reads every unit that ours names.
PATIENCE = 60.0
NO_ANALYZE = "there is no systemd-analyze here"
_STAND_IN = "ExecStart=/bin/true"
#: A word about another unit, which ours only orders itself after.
_ABOUT = re.compile(r"^(?:\S*/)?([\w@:.\\-]+\.(?:service|target|socket|mount|slice|timer|path|device))\b")


def render(settings: Settings) -> str:
    """The unit's text; it says the same for the same settings."""
    named = [f"Environment={quoting.word(f'{key}={text}')}" for key, text in settings.variables.items()]
    lines = [
        FIRST_LINE,
        "[Unit]",
        f"Description=CI runner {settings.name}",
        *(["Wants=network-online.target", "After=network-online.target"] if settings.system else []),
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        *([f"User={settings.user}"] if settings.system else []),
        f"WorkingDirectory={quoting.value(settings.directory)}",
        f"ExecStart=:{quoting.word(settings.program)}",
        *named,
        "Restart=always",
        "RestartSec=30",
        "KillMode=mixed",
        "TimeoutStopSec=5min",
        "OOMPolicy=continue",
        *([f"MemoryHigh={settings.memory_high.text}"] if settings.memory_high else []),
        f"MemoryMax={settings.memory_max.text}",
        "TasksMax=8192",
        "Delegate=yes",
        "",
        "[Install]",
        f"WantedBy={'multi-user' if settings.system else 'default'}.target",
    ]
    return "\n".join(lines) + "\n"


def complaints(text: str, name: str) -> list[str] | None:
    """What ``systemd-analyze verify`` says of a unit; it is to say nothing. ``None`` where it is not installed.

    Its status counts for little: of a misspelt or misplaced key it only warns. A program that is not there yet has
    a stand-in.
    """
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return None
    program = re.search(r'^ExecStart=:"(.*)"$', text, re.MULTILINE)
    if program and not os.access(program[1].replace("%%", "%"), os.X_OK):
        text = text.replace(program[0], _STAND_IN)
    with tempfile.TemporaryDirectory(prefix="holdtop-unit-") as directory:
        path = os.path.join(directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        try:
            done = subprocess.run(
                [analyze, "verify", "--man=no", "--recursive-errors=no", path],
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                stdin=subprocess.DEVNULL,
                timeout=PATIENCE,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            why = error.strerror if isinstance(error, OSError) else f"it did not end within {PATIENCE:g} s"
            return [f"systemd-analyze verify could not judge the unit: {why}"]
    said = [line.replace(f"{directory}/", "") for line in done.stderr.splitlines() + done.stdout.splitlines() if line]
    own = [line for line in said if (about := _ABOUT.match(line)) is None or about[1] == name]
    return own or ([f"systemd-analyze verify ended with {done.returncode}"] if done.returncode else [])
