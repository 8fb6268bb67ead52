"""Holds above this process: whose payload we are, and what may therefore be taken, or not.

Proof is descent: the token's live holder, as (pid, start) in our own pid namespace and boot, is our ancestor. The
variables in the environment are a hint only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence

from holdtop.errors import HoldError
from holdtop.hold import ticket as tickets
from holdtop.hold import token
from holdtop.hold.places import Places, neighbours, prefix
from holdtop.hold.view import TicketFile
from holdtop.payload.process import Identity, ancestry, own_stat

#: With the resource's name behind it: the ticket of the hold that this environment was made for.
TICKET_MARK = "HOLDTOP_TICKET_"


def holds_above(wanted: Sequence[Places], environ: Mapping[str, str]) -> set[str]:
    """The resources that a hold above us has, of all that lie beside the wanted ones.

    Raises ``HoldError`` when a wanted one is held by the hold that this environment names, but not provably above us:
    waiting for it could be waiting for ourselves. One that nobody can place from here (we are in a pid namespace of
    our own) counts as above us for the order of taking.
    """
    ancestors = {above.identity for above in ancestry(own_stat())}
    beside = {place.token_path: place for one in wanted for place in (one, *neighbours(one))}
    above: set[str] = set()
    for place in beside.values():
        holder = _live_holder(place)
        if holder is None:
            continue
        here, named = holder.identity_alive, environ.get(TICKET_MARK + prefix(place.resource)) == holder.id
        if here and Identity(holder.pid, holder.start_ticks) in ancestors:
            above.add(place.resource)
        elif named and place in wanted:
            raise HoldError(
                f"this environment belongs to hold {holder.id} of {place.resource}, which is still running, but this "
                "process is not provably below it: waiting for it could be a deadlock; start from another environment"
            )
        elif named and here is None:
            above.add(place.resource)
    return above


def refuse_disorder(wanted: Collection[str], above: Collection[str]) -> None:
    """Always in one order, so that two lanes can never wait for each other. Raises ``HoldError``."""
    for resource in wanted:
        for held in above:
            if resource < held:
                raise HoldError(
                    f"{resource} may not be taken while {held} is held: take both at once with -r {resource},{held}"
                )


def _live_holder(place: Places) -> TicketFile | None:
    """Whose token lies there, if its hold lives; its number may mean somebody else here."""
    with contextlib.suppress(HoldError, OSError), place.open_token_dir() as directory:
        found = token.look(directory, place.token_name)
        if found and found.ticket and found.locked:
            elsewhere = found.ticket.identity_alive is None
            return found.ticket if elsewhere or tickets.proven_live(found.ticket) else None
    return None
