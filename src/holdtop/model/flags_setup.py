"""What is wrong with the box around the holds: runners, and the state as its own check sees it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from holdtop.model.scene import Scene, flag
from holdtop.model.values import Finding, Flag, Runner, Severity

#: Kinds of findings by which a runner takes no job; all others say that it may not live for long.
DOWN = frozenset({"no-unit", "not-active", "failed", "crash-loop"})
#: By which lanes do not meet in one queue.
SPLIT = frozenset({"two-queues", "old-tool", "half-named", "elsewhere"})
#: The kinds of flags that tell what the state's own check found.
OF_STATE = frozenset({"split-state", "state-permissions"})
#: By which others than the state's own group may write what lanes trust or run, or its members may not.
PERMISSIONS = frozenset({"writable-way", "open-state", "not-roots", "writable-program", "closed-state", "wrong-group"})


def runner_down(scene: Scene) -> Iterator[Flag]:
    """A runner that is not active, or in a crash loop: jobs queue at the forge, and nothing else would say so."""
    for runner in scene.facts.raw.runners.units:
        if found := [one for one in runner.findings if one.kind in DOWN]:
            yield _of_runner("runner-down", "critical", runner, found)


def runner_unguarded(scene: Scene) -> Iterator[Flag]:
    """A runner that lives, until a job is killed for its memory or its listener ends."""
    for runner in scene.facts.raw.runners.units:
        if found := [one for one in runner.findings if one.kind not in DOWN]:
            yield _of_runner("runner-unguarded", "warning", runner, found)


def split_state(scene: Scene) -> Iterator[Flag]:
    """Accounts whose lanes go elsewhere, as far as no look at the queues has said it already."""
    told = {other.queue_path for seen in scene.seen for other in seen.look.elsewhere}
    yield from _of_state("split-state", SPLIT, told, scene)


def state_permissions(scene: Scene) -> Iterator[Flag]:
    """Likewise: what may be written by whom, and by whom not."""
    told = {path for seen in scene.seen if seen.view for path in seen.view.exposed}
    yield from _of_state("state-permissions", PERMISSIONS, told, scene)


KINDS: tuple[Callable[[Scene], Iterator[Flag]], ...] = (
    runner_down,
    runner_unguarded,
    split_state,
    state_permissions,
)


def _of_runner(kind: str, severity: Severity, runner: Runner, found: list[Finding]) -> Flag:
    """One for each unit, however much of it is wrong; what is lost, and the command, are the first finding's."""
    text = f"{runner.unit}: {', '.join(one.what for one in found)}: {found[0].why}"
    return flag(kind, severity, text, found[0].remedy, about=runner.unit)


def _of_state(kind: str, kinds: Collection[str], told: Collection[str], scene: Scene) -> Iterator[Flag]:
    for one in scene.facts.raw.state.findings:
        if one.kind in kinds and one.about not in told:
            yield flag(kind, "critical", f"{one.what}: {one.why}", one.remedy, about=one.about)
