"""What the console's page of acts shows: the same records, and the same judgement, as ``holdtop audit`` gives."""

from __future__ import annotations

from collections.abc import Sequence

from holdtop.cli import audit
from holdtop.console.feeds import Acts
from holdtop.errors import HoldtopError
from holdtop.hold.places import known_resources, resolve
from holdtop.hold.stop import user_name
from holdtop.render import whole


def seen(resources: Sequence[str] | None, state_dir: str | None) -> Acts:
    """All audits as they are now; places are resolved again each time. Raises nothing."""
    try:
        places = [resolve(name, state_dir) for name in resources or known_resources(state_dir)]
        records = tuple(audit.records(places))
        bad = tuple(f"{one.file}:{one.line}: {one.why}" for one in audit.broken(places))
    except (HoldtopError, OSError) as error:
        return Acts(trouble=str(error))
    uids = {whole(record.get("uid")) for record in records}
    return Acts(records, bad, {uid: user_name(uid) for uid in uids if uid is not None})
