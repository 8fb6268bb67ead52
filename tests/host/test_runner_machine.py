"""What only a box with a memory controller can show: a job that runs out of memory, in a virtual machine."""

from __future__ import annotations

import json
import shlex

import pytest

from tests.hold.lanes import HOLDTOP
from tests.host.virtual_machine import output_of

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

COMMAND = shlex.join(HOLDTOP)
#: Two runners whose listener starts a job that takes all memory it can: ours, and one with systemd's default policy.
RUNNERS = f"""
useradd --system --create-home --home-dir /var/lib/ghrunner ghrunner
for name in ours control; do
    unit=holdtop-runner-$name.service
    {COMMAND} runner render --name $name --memory-max 64M --memory-high 63M > /etc/systemd/system/$unit 2>/dev/null
    mkdir -p /var/lib/ghrunner/runner-$name/bin
    printf '#!/bin/bash\\ntail /dev/zero & wait; exec sleep 1000000\\n' > /var/lib/ghrunner/runner-$name/bin/runsvc.sh
    chmod -R a+rX /var/lib/ghrunner
    chmod a+x /var/lib/ghrunner/runner-$name/bin/runsvc.sh
done
sed -i 's/^OOMPolicy=continue$/OOMPolicy=stop/' /etc/systemd/system/holdtop-runner-control.service
systemctl daemon-reload
for name in ours control; do
    unit=holdtop-runner-$name.service
    systemctl start $unit
    first=$(systemctl show -p MainPID --value $unit)
    events=/sys/fs/cgroup/system.slice/$unit/memory.events
    for i in $(seq 100); do
        grep -q '^oom_kill [1-9]' $events || [ "$(systemctl show -p Result --value $unit)" = oom-kill ] && break
        sleep 0.3
    done 2>/dev/null
    sleep 3
    now=$(systemctl show -p MainPID --value $unit)
    [ "$first" = "$now" ] && same=true || same=false
    kills=$(sed -n 's/^oom_kill //p' $events 2>/dev/null)
    printf '{{"same": %s, "kills": %s, "state": "%s", "result": "%s"}}\\n' $same ${{kills:-null}} \\
        $(systemctl show -p ActiveState --value $unit) $(systemctl show -p Result --value $unit)
done
"""


def test_the_drill_is_shown() -> None:
    said = json.loads(output_of(f"{COMMAND} runner drill --yes --json 2>/dev/null"))
    assert (said["shown"], said["why"]) == (True, None)
    assert (said["ours"]["oom_kills"], said["ours"]["active_state"], said["ours"]["result"]) == (1, "active", "success")
    assert (said["control"]["active_state"], said["control"]["result"]) == ("failed", "oom-kill")


def test_a_rendered_runner_outlives_a_job_that_the_kernel_kills() -> None:
    ours, control = map(json.loads, output_of(RUNNERS).splitlines())
    assert ours == {"same": True, "kills": 1, "state": "active", "result": "success"}
    assert (control["same"], control["result"]) == (False, "oom-kill")
