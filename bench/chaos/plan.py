"""What happens in an episode, drawn from one number: the same seed always gives the same plan."""

from __future__ import annotations

import random
import signal
from dataclasses import dataclass
from typing import Literal

#: What a payload may start besides itself, and how often each is drawn.
KINDS = {
    "plain": 3,
    "ignoring": 2,
    "setsid": 2,
    "daemon": 3,
    "bare": 3,
    "chain": 1,
    "chainsid": 1,
    "stopper": 2,
    "deaf": 2,
    "suspended": 1,
    "nested": 0.3,
}
#: What is done to an episode, and how often each is drawn. Those of ``TAMPERING`` break a premise when a hold lives.
ACTS = {
    "signal": 10,
    "evict": 2,
    "stop": 2,
    "recover": 0.7,
    "full": 1.5,
    "clock": 1,
    "remove": 1,
    "empty": 0.7,
    "replace": 0.7,
}
TAMPERING = frozenset({"remove", "replace"})
SIGNALS = {"TERM": 3, "INT": 2, "HUP": 1, "QUIT": 1, "KILL": 6, "STOP": 2}
#: Which of a hold's processes a signal goes to; ``member`` is any of its payload.
ROLES = {"supervisor": 4, "keeper": 4, "both": 3, "root": 2, "member": 2}
#: A stopped process is continued after so long, in seconds.
STOPPED_FOR = 0.25


@dataclass(frozen=True, slots=True)
class LanePlan:
    """One lane: how it is started, and what it runs. Times in seconds after the episode's start."""

    #: ``forked``: the command's own entry in a fork of a process that has it loaded; ``command``: the command;
    #: ``peer``: a shell that knows noclobber and ``rm`` only.
    by: Literal["forked", "command", "peer"]
    at: float
    options: tuple[str, ...]
    kinds: tuple[str, ...]
    #: Milliseconds; -1: until it is ended.
    lasts: int
    status: int
    own_session: bool


@dataclass(frozen=True, slots=True)
class Act:
    at: float
    verb: str
    #: Which lane.
    lane: int = 0
    role: str = ""
    #: A signal, the seconds that a clock is moved by, the bytes after which a disk is full, or which member.
    number: int = 0
    member: int = 0


@dataclass(frozen=True, slots=True)
class Episode:
    seed: int
    lanes: tuple[LanePlan, ...]
    acts: tuple[Act, ...]


#: What ends every episode: whoever comes next has to be served, and finds nobody.
LAST = LanePlan("forked", 0, ("--grace", "0.1", "--survive-wait", "5", "--max-hold", "5"), (), 0, 0, False)


def episode(seed: int) -> Episode:
    rng = random.Random(seed)
    acts = sorted((_act(rng) for _ in range(rng.choice((0, 1, 2, 3, 3, 4, 5, 7)))), key=lambda act: act.at)
    # A shell whose token was taken away removes the next holder's: nothing can be promised beside both.
    peers = not any(act.verb in TAMPERING for act in acts)
    lanes = [_lane(rng, peers) for _ in range(rng.choice((1, 2, 2, 3, 3, 4, 5)))]
    lanes.sort(key=lambda lane: lane.at)
    return Episode(seed, tuple(lanes), tuple(acts))


def _drawn(rng: random.Random, weights: dict[str, float] | dict[str, int]) -> str:
    return rng.choices(list(weights), list(weights.values()))[0]


def _lane(rng: random.Random, peers: bool) -> LanePlan:
    by: Literal["forked", "command", "peer"] = "forked"
    draw = rng.random()
    if draw < 0.04:
        by = "command"
    elif draw < 0.12 and peers:
        by = "peer"
    kinds = tuple(_drawn(rng, KINDS) for _ in range(rng.choice((0, 0, 1, 1, 2, 3))))
    options = ["--grace", rng.choice(("0.05", "0.1", "0.2")), "--survive-wait", "5"]
    options += ["--max-hold", rng.choice(("0.2", "0.4", "0.7"))]
    if rng.random() < 0.1:
        options += ["-w", rng.choice(("0", "0.3", "1"))]
    if rng.random() < 0.2:
        options += ["--contain", "subreaper"]
    return LanePlan(
        by,
        at=round(rng.choice((0, 0, rng.uniform(0, 0.4))), 3),
        options=tuple(options),
        kinds=("tied",) if by == "peer" else kinds,
        lasts=rng.randrange(300) if by == "peer" else rng.choice((0, rng.randrange(100), rng.randrange(500), -1)),
        status=rng.choice((0, 0, 1, 3)),
        own_session=rng.random() < 0.7,
    )


def _act(rng: random.Random) -> Act:
    verb = _drawn(rng, ACTS)
    at = round(rng.uniform(0.01, 0.9), 3)
    lane, role, number = rng.randrange(5), "", 0
    if verb == "signal":
        role, number = _drawn(rng, ROLES), int(signal.Signals[f"SIG{_drawn(rng, SIGNALS)}"])
    elif verb == "clock":
        number = rng.choice((-1, 1)) * rng.choice((1, 100, 86_400, 40_000_000))
    elif verb == "full":
        number = rng.choice((0, 100, 600, 2000, 5000))
    return Act(at, verb, lane, role, number, rng.randrange(100))
