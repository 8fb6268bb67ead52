"""A virtual machine with a memory controller, for as long as one job: Debian's kernel over this box's own files.

The guest's root is this box's, which it can only read, below an overlay in its memory: nothing that the job does
reaches the box. systemd is its process 1, with no unit but the bus and the journal. The processor is emulated: each
start of an interpreter takes seconds.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hold.lanes import until

QEMU, VIRTIOFSD, BUSYBOX = "qemu-system-x86_64", "/usr/lib/qemu/virtiofsd", "/bin/busybox"
KERNELS = "/boot/vmlinuz-*-cloud-amd64"
MODULES = ("virtio_pci", "virtiofs", "overlay")
MEMORY = "1024M"
#: Seconds for one job, the boot included: about half a minute on a quiet box.
PATIENCE = 400

#: The first process of the guest, of the archive that the kernel unpacks: makes the root, and goes on in it.
INIT = """#!/bin/busybox sh
set -e
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
for module in /modules/*; do insmod "$module"; done
mount -t virtiofs -o ro box /box
mount -t tmpfs -o mode=755 none /over
mkdir /over/upper /over/work
mount -t overlay -o lowerdir=/box,upperdir=/over/upper,workdir=/over/work none /new
rm -rf /new/etc/systemd/system /new/etc/fstab
mkdir -p /new/etc/systemd/system /new/etc/systemd/journald.conf.d
printf '[Journal]\\nStorage=volatile\\n' > /new/etc/systemd/journald.conf.d/job.conf
for wants in sysinit sockets local-fs timers multi-user; do
    rm -rf "/new/usr/lib/systemd/system/$wants.target.wants"
done
cp /job.sh /new/run.sh
cp /job.service /new/etc/systemd/system/
mount -t tmpfs -o mode=755 none /new/run
for place in proc sys dev; do mount --move "/$place" "/new/$place"; done
exec switch_root /new /lib/systemd/systemd --unit=job.service --show-status=no
"""
UNIT = """[Unit]
Requires=dbus.socket systemd-journald.service basic.target
After=dbus.socket systemd-journald.service basic.target
SuccessAction=poweroff-force
FailureAction=poweroff-force
[Service]
Type=oneshot
ExecStart=/bin/bash /run.sh
StandardOutput=file:/dev/ttyS1
StandardError=inherit
"""


def output_of(job: str) -> str:
    """What the shell script wrote in the guest, as root. Skips where no machine can be made."""
    kernels = sorted(glob.glob(KERNELS))
    if not (kernels and all(map(shutil.which, (QEMU, VIRTIOFSD, BUSYBOX, "cpio")))):
        pytest.skip("needs a virtual machine: scripts/system-packages long")
    if os.geteuid() != 0:
        pytest.skip("needs root: shares this box's files with a guest")
    with tempfile.TemporaryDirectory(prefix="guest-") as made:
        place = Path(made)
        archive = _archive(place, os.path.basename(kernels[-1]).removeprefix("vmlinuz-"), job)
        with _shared(place):
            memory = f"memory-backend-memfd,id=memory,size={MEMORY},share=on"
            command = [QEMU, "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", MEMORY, "-nodefaults"]
            command += ["-no-user-config", "-no-reboot", "-display", "none"]
            command += ["-object", memory, "-numa", "node,memdev=memory"]
            command += ["-chardev", f"socket,id=files,path={place}/files"]
            command += ["-device", "vhost-user-fs-pci,chardev=files,tag=box"]
            command += ["-serial", f"file:{place}/console", "-serial", f"file:{place}/output"]
            command += ["-kernel", kernels[-1], "-initrd", str(archive)]
            command += ["-append", "console=ttyS0 quiet mitigations=off psi=1 panic=-1"]
            with contextlib.suppress(subprocess.TimeoutExpired):  # what it wrote so far says where it stood
                subprocess.run(command, stdin=subprocess.DEVNULL, timeout=PATIENCE, check=True)
        said = (place / "output").read_text(errors="replace").replace("\r\n", "\n")
        assert said, (place / "console").read_text(errors="replace")[-3000:]
        return said


@contextlib.contextmanager
def _shared(place: Path) -> Iterator[None]:
    """This box's files, served to the guest."""
    server = subprocess.Popen(
        [VIRTIOFSD, f"--socket-path={place}/files", "-o", "source=/", "-o", "cache=always", "-o", "sandbox=chroot"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        until((place / "files").exists)
        yield
    finally:
        server.kill()
        server.wait()


def _archive(place: Path, release: str, job: str) -> Path:
    """The archive that the kernel starts from: a shell, the modules that reach the files, the job."""
    root = place / "root"
    for name in ("bin", "modules", "proc", "sys", "dev", "box", "over", "new"):
        (root / name).mkdir(parents=True)
    shutil.copy(BUSYBOX, root / "bin/busybox")
    for number, module in enumerate(_modules(release)):
        shutil.copy(module, root / f"modules/{number:02}.ko")
    (root / "init").write_text(INIT)
    (root / "init").chmod(0o755)
    (root / "job.service").write_text(UNIT)
    (root / "job.sh").write_text(job)
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    archive = place / "archive"
    with open(archive, "wb") as out:
        subprocess.run(
            ["cpio", "--create", "--format=newc", "--quiet"], input=names.encode(), stdout=out, cwd=root, check=True
        )
    return archive


def _modules(release: str) -> list[str]:
    """Files, each after those that it needs."""
    wanted: dict[str, None] = {}
    for module in MODULES:
        shown = ["modprobe", "--set-version", release, "--show-depends", module]
        lines = subprocess.run(shown, capture_output=True, text=True, check=True).stdout.splitlines()
        wanted |= dict.fromkeys(line.split()[1] for line in lines if line.startswith("insmod "))
    return list(wanted)
