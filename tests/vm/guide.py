#!/usr/bin/env python3
# shows: virtual machine: docs/guide.md in a guest: the package, the client manager, run_benchE.sh (check-long)
# shows: virtual machine: install-client-lib in a guest serves all programs, and restore takes it back (check-long)
"""tests/vm/guide.py: the steps of docs/guide.md, on the host and in a guest; TAP on stdout.

    guide.py [--bin DIR]

The managers' machine and the GPU machine are this one: their programs are installed into a folder (DESTDIR). The guest
sees this machine's files, and what it writes stays in its memory; so the package is installed there as in any VM.
"""
import glob
import os
import re
import shutil
import subprocess
import tempfile

import guest
from host import Host, Tap
from testlib import bin_folder, until

SIZE = 128 << 20
SMALL = "512 32 5 2"
TABLE = r"kilobytes,r1,r2\n256(,[\d.]+){2}\n512(,[\d.]+){2}\n"


def make(*words):
    done = subprocess.run(["make", "-s", *words], cwd=guest.REPO, capture_output=True, text=True)
    assert done.returncode == 0, f"make {' '.join(words)}: {done.stdout[-1000:]}{done.stderr[-1000:]}"


def installed(folder):
    """make install-cmgrs, make install, make deb-client. Where the programs are now, and the package."""
    make("install-cmgrs", f"DESTDIR={folder}/cluster")
    make("install", f"DESTDIR={folder}/node")
    make("deb-client")
    for machine, program in (("cluster", "flyt-cluster-manager"), ("node", "flyt-node-manager")):
        found = subprocess.run(["find", f"{folder}/{machine}", "-name", program], capture_output=True, text=True)
        assert found.stdout.strip(), f"make install did not install {program}"


class Bed:
    def __init__(self, bindir):
        self.folder = tempfile.mkdtemp(prefix="flyt-vm.", dir="/dev/shm")
        self.host = Host(bindir, f'shared-memory = ("guest=128M:2"); shared-memory-folder = "{self.folder}";')
        self.guest = None

    def boot(self):
        self.guest = guest.Guest("guide", memory=384, shared=(f"{self.folder}/flyt-vm-guest", SIZE), writable=True)

    def end(self):
        if self.guest:
            self.guest.kill()
        self.host.stop()
        shutil.rmtree(self.folder)


def package(bed):
    """The client node: the package, its configuration where the package expects it, the client manager. (Triggers of
    other packages, that for manual pages above all, take minutes where the processor is emulated.)"""
    name = max(glob.glob(f"{guest.REPO}/build/flyt-client_*.deb"), key=os.path.getmtime)
    machine = bed.guest
    machine.must(f"dpkg --force-depends --no-triggers -i {name} 2>&1", 240)
    machine.must(f"mkdir -p /etc/flyt /run/flyt && cp {bed.host.folder}/guest.conf /etc/flyt/client-manager.conf"
                 f" && cp {bed.host.folder}/guest.secret /etc/flyt/vm.secret && chmod 600 /etc/flyt/vm.secret")
    machine.must("sed -i 's|file:[^\"]*guest.secret|file:/etc/flyt/vm.secret|;"
                 " s|/run/flyt.sock|/run/flyt/client-manager.sock|' /etc/flyt/client-manager.conf")
    machine.must("FLYT_LOG=info flyt-client-manager >/tmp/client-manager.log 2>&1 &")
    machine.repeat("grep -q event=registered /tmp/client-manager.log || { cat /tmp/client-manager.log; false; }")


def benchmark(bed, before):
    # Whatever the speed: this guest's processor is emulated, and other tests run at the same time.
    said = bed.guest.must(f"FLYT_BAR_SPEED=0 {before} synthetic_benchmark/run_benchE.sh {SMALL}", 240)
    assert re.fullmatch(TABLE, said), said


def whole_machine(bed):
    """make install-client-lib, then programs that nothing was done for, then make restore-client-lib."""
    machine = bed.guest
    said = machine.must("cpu/client/install/install-client-lib bin 2>&1", 240)
    assert "warning" not in said, said
    benchmark(bed, "")
    said = machine.must("FLYT_BAR_SPEED=0 FLYT_STATS=1 build/cuda/vector_add")
    assert "received over shm" in said, f"not over the device:\n{said}"
    machine.must("cpu/client/install/restore-client-lib 2>&1", 240)
    status, said = machine.run("FLYT_STATS=1 build/cuda/vector_add")
    assert "received over" not in said, f"status {status}, after restore-client-lib:\n{said}"


def shown(bed):
    machine = bed.guest
    machine.must("FLYT_BAR_SPEED=0 flyt-run build/cuda/forever >/tmp/forever 2>&1 & echo $! >/tmp/forever.pid")
    machine.repeat("grep -q running /tmp/forever || { cat /tmp/forever; false; }")
    ways = [program["transport"] for program in bed.host.ctl("vm", "show", "guest")["running"]]
    machine.must("pkill -9 forever")
    assert ways == ["ivshmem"], f"flytctl vm show: {ways}"
    until(lambda: not bed.host.ctl("server", "list"), "the cluster has everything back")


def main():
    bindir = bin_folder(__doc__)
    guest.skip_if(guest.made() or (os.geteuid() != 0 and "it takes root, as the package does"))
    tap, bed = Tap(), Bed(bindir)
    folder = os.path.join(bed.host.folder, "installed")
    try:
        os.mkdir(folder)
        bed.host.entitle("guest", "--sms", "2", "--host", "127.0.0.1")
        tap.case("the managers are installed, and the client's package is built", installed, folder)
        tap.case("the guest boots with its shared memory", bed.boot)
        tap.case("the guest installs the package and starts its client manager", package, bed)
        tap.case("run_benchE.sh runs in the guest through flyt-run", benchmark, bed, "RUN=flyt")
        tap.case("flytctl vm show tells that a program uses the shared memory", shown, bed)
        tap.case("install-client-lib serves all programs, restore-client-lib takes it back", whole_machine, bed)
        if tap.failed:
            print("\n".join("# " + line for line in bed.host.logs().splitlines()), flush=True)
    finally:
        tap.case("the daemons end, and nothing is left", bed.end)
    tap.end()


if __name__ == "__main__":
    main()
