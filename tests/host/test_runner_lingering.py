"""What a logout does to a runner of a user's own manager: known, known not, and not to be known."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdtop.host.runner import lingering


def test_who_lingers_who_does_not_and_where_nobody_can_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lingering, "ACCOUNTS", str(tmp_path))
    monkeypatch.setattr(lingering, "LOGIN_MANAGER", str(tmp_path))
    (tmp_path / "ann").touch()
    assert lingering.finding("ann") is None
    bob = lingering.finding("bob")
    assert bob
    assert (bob.kind, bob.remedy) == ("no-linger", "loginctl enable-linger bob")
    monkeypatch.setattr(lingering, "LOGIN_MANAGER", str(tmp_path / "gone"))
    ann = lingering.finding("ann")
    assert ann, "a file says nothing where nobody reads it"
    assert (ann.kind, "cannot be known" in ann.what) == ("no-logind", True)
