"""Registering at the forge by the vendor's ``config.sh``, as the account, with a token that nobody else gets to see."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from holdtop.errors import HoldtopError, RefusedError
from holdtop.host.accounts import Account, account
from holdtop.host.runner import quoting, secret
from holdtop.host.runner.settings import Settings
from holdtop.host.values import Step

#: The vendor's mark of a runner that is registered.
MARK = ".runner"
#: From here config.sh takes what its option of that name would say; a command line is everybody's to read.
TOKEN_VARIABLE = "ACTIONS_RUNNER_INPUT_TOKEN"
#: For the whole conversation with the forge, in seconds.
TIMEOUT = 300


@dataclass(frozen=True, slots=True)
class Registration:
    url: str
    token_file: str
    labels: str = ""

    def __post_init__(self) -> None:
        for text, what in ((self.url, "--url"), (self.labels, "--labels")):
            if quoting.check_text(text, what).startswith("-"):
                raise RefusedError(f"{what}: {text!r} looks like an option")


def steps(settings: Settings, wanted: Registration | None) -> Iterator[Step]:
    """Of a runner that is registered already only what is left of the token. Raises ``RefusedError``."""
    if wanted is None:
        return
    registered = os.path.lexists(os.path.join(settings.directory, MARK))
    if os.path.lexists(wanted.token_file):
        secret.read(wanted.token_file)
        text = f"register at {wanted.url} by {wanted.token_file}, and delete that"
        if registered:
            text = f"delete {wanted.token_file}: the runner is registered already"
        yield Step(text, partial(_use, settings, wanted, registered))
    elif not registered:
        raise RefusedError(f"{wanted.token_file} is not there, and the runner is not registered: a new token is needed")


def _use(settings: Settings, wanted: Registration, registered: bool) -> None:
    """Deleted whatever comes of it: it was in other hands."""
    word = secret.read(wanted.token_file)
    try:
        if not registered:
            _configure(settings, wanted, word)
    finally:
        os.unlink(wanted.token_file)


def _configure(settings: Settings, wanted: Registration, word: str) -> None:
    owner = account(settings.user)
    command = ["./config.sh", "--unattended", "--url", wanted.url, "--name", settings.name, "--replace"]
    environment = {"PATH": settings.path, "HOME": settings.home, "USER": settings.user, TOKEN_VARIABLE: word}
    try:
        done = subprocess.run(
            command + (["--labels", wanted.labels] if wanted.labels else []),
            cwd=settings.directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT,
            check=False,
            **_as(owner),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        said = f"{TIMEOUT} s were not enough" if isinstance(error, subprocess.TimeoutExpired) else error.strerror
        raise HoldtopError(f"config.sh did not register the runner: {said}; the token is deleted") from None
    if done.returncode:
        said = done.stdout.decode("utf-8", "replace").replace(word, "(the token)").split("\n")
        last = next((line.strip() for line in reversed(said) if line.strip()), "it said nothing")
        raise HoldtopError(f"config.sh ended with {done.returncode}: {last}; the token is deleted")


def _as(owner: Account) -> dict[str, Any]:
    if os.geteuid() == owner.uid:
        return {}
    return {"user": owner.uid, "group": owner.gid, "extra_groups": os.getgrouplist(owner.name, owner.gid)}
