"""Lane labels: who asks. A given one is checked, a derived one is cleaned."""

from __future__ import annotations

import os
import pwd
import re
import unicodedata
from collections.abc import Mapping

from holdtop.errors import UsageError

LIMIT = 64
#: Categories of Unicode that a label may not contain: controls, formats (bidi marks), surrogates, blanks.
_BAD = {"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"}


def choose(given: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """The label of this hold. Raises ``UsageError`` for a given one that breaks the form."""
    named = given if given is not None else environ.get("HOLDTOP_LANE")
    if named is None:
        return clean(derive(environ))
    if not 1 <= len(named) <= LIMIT or any(unicodedata.category(c) in _BAD for c in named):
        shown = ascii(named[:80])
        raise UsageError(f"lane {shown} is refused: 1 to {LIMIT} characters without blanks, controls or bidi marks")
    return named


def derive(environ: Mapping[str, str]) -> str:
    """From the CI job, else the tmux pane, else user and terminal."""
    if environ.get("GITHUB_ACTIONS"):
        return "ci-" + "-".join(environ.get(f"GITHUB_{part}", "") for part in ("REPOSITORY", "JOB", "RUN_ID"))
    if job := environ.get("CI_JOB_ID") or environ.get("BUILD_TAG"):
        return f"ci-{job}"
    user = _user()
    if environ.get("TMUX") and environ.get("TMUX_PANE"):
        return f"{user}-tmux{environ['TMUX_PANE']}"
    for fd in (0, 1, 2):
        try:
            return f"{user}-{os.ttyname(fd).removeprefix('/dev/')}"
        except OSError:
            continue
    return f"{user}-{os.getppid()}"


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def clean(text: str) -> str:
    """Any text as a valid label."""
    kept = "".join(c if unicodedata.category(c) not in _BAD else "_" for c in text)
    return re.sub(r"-{2,}", "-", kept)[:LIMIT].strip("-") or "lane"
