"""Looking at the box: once (``look_once``) or again and again (``Sampler``), never waiting for a read that hangs."""

from holdtop.sampler.box import Setup
from holdtop.sampler.sampler import Sampler, look_once

__all__ = ["Sampler", "Setup", "look_once"]
