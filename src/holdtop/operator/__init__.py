"""The only door for acts: freeze the target, check again, audit the intent, act through the hold, audit the outcome.

Planning changes nothing. Executing takes a plan, not a pid: what was shown is what is done.
"""

from holdtop.operator.execute import execute
from holdtop.operator.plans import plan_evict, plan_kill, plan_recover

__all__ = ["execute", "plan_evict", "plan_kill", "plan_recover"]
