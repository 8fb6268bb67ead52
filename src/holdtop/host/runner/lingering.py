"""Whether a user's manager, and a runner of it, outlives the last logout (loginctl(1), enable-linger)."""

from __future__ import annotations

import os

from holdtop.host.said import Finding

#: One file for each account that lingers.
ACCOUNTS = "/var/lib/systemd/linger"
#: There while the login manager runs, which is what acts on those files.
LOGIN_MANAGER = "/run/systemd/seats"


def lingers(user: str) -> bool:
    return os.path.exists(os.path.join(ACCOUNTS, user))


def finding(user: str) -> Finding | None:
    """What is to be known where it does not, or where that cannot be known; ``None`` where it does."""
    remedy = f"loginctl enable-linger {user}"
    if not os.path.isdir(LOGIN_MANAGER):
        what = "no login manager runs here (systemd-logind): what a logout ends cannot be known"
        return Finding("no-logind", what, "whoever started your manager decides when it ends", remedy, user)
    if lingers(user):
        return None
    return Finding("no-linger", f"{user} does not linger", "the last logout ends the runner", remedy, user)
