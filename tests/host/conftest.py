"""A private box for every test of the host."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.host.private_box import PrivateBox


@pytest.fixture
def host() -> Iterator[PrivateBox]:
    if os.geteuid() != 0:
        pytest.skip("needs root: makes accounts in a mount namespace of its own")
    if not shutil.which("useradd"):
        pytest.skip("needs root: and useradd, to make accounts with")
    box = PrivateBox()
    yield box
    box.close()
