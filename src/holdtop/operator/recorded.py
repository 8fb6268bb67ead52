"""Who acts on a recording: nobody. It stands in the operator's place, so that no key and no screen has to know."""

from __future__ import annotations

from typing import NoReturn

from holdtop.errors import RefusedError


def plan_kill(*_given: object, **_named: object) -> NoReturn:
    """Raises ``RefusedError``, as all of these do."""
    raise RefusedError("this is a recording: what it shows is over, and nothing in it can be ended, evicted or freed")


plan_evict = plan_recover = execute = plan_kill
