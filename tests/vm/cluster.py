#!/usr/bin/env python3
# shows: virtual machine: two guests at once in a cluster, each with its own entitlement and its own memory
# shows: virtual machine: the node manager makes the memory before a guest boots, with its permissions, and removes it
# shows: virtual machine: `flytctl vm show` tells of each program which mode it uses, and why
# shows: virtual machine: a paused guest is suspended, and later reclaimed; its program finds its session gone
# shows: virtual machine: a guest that vanishes in mid-copy, or fills its memory with garbage, disturbs no other one
"""tests/vm/cluster.py: two guests in a cluster, through memory that each shares with the host; TAP on stdout.

    cluster.py [--bin DIR]
"""
import os
import shutil
import stat
import tempfile

import guest
from host import Host, Tap
from testlib import bin_folder, until
from memory import COPIES, fill_with_garbage

MIB = 1 << 20
SIZE = 128 * MIB
VMS = {"one": "1", "two": "3"}                  # SMs
SERVERS = 'shared-memory = ("one=128M:2", "two=131072K:2"); shared-memory-folder = "{0}";'


class Bed:
    def __init__(self, bindir):
        self.folder = tempfile.mkdtemp(prefix="flyt-vm.", dir="/dev/shm")
        self.host = Host(bindir, SERVERS.format(self.folder),
                         "silence = { client-lost = 3.0; suspended = 4.0; reclaimed = 8.0; };")
        self.guests, self.configurations = {}, {}

    def memory(self, vm):
        return f"{self.folder}/flyt-vm-{vm}"

    def boot(self, vm):
        self.guests[vm] = guest.Guest(vm, memory=160, shared=(self.memory(vm), SIZE))
        self.host.join(self.guests[vm], self.configurations[vm])

    def command(self, program):
        return f"FLYT_BAR_SPEED=0 FLYT_STATS=1 FLYT_MANAGER=/run/flyt.sock {self.host.bin}/flyt-run {program}"

    def runs(self, vm, program="build/cuda/vector_add"):
        said = self.guests[vm].must(self.command(program))
        assert "received over shm" in said, f"{vm}: not through the memory:\n{said[:1500]}"
        return said

    def loops(self, vm):
        machine = self.guests[vm]
        machine.must(f"{self.command(COPIES + ' loop')} >/tmp/loop 2>&1 &")
        machine.repeat("grep -q copying /tmp/loop || { cat /tmp/loop; false; }")

    def servers(self, vm):
        return [server for server in self.host.ctl("server", "list") if server["vm"] == vm]

    def events(self, kind):
        return [event for event in self.host.ctl("events") if event["kind"] == kind]

    def end(self):
        for machine in self.guests.values():
            machine.kill()
        self.host.stop()
        left = os.listdir(self.folder)
        shutil.rmtree(self.folder)
        assert not left, f"left in {self.folder}: {left}"


def made(bed):
    for vm in VMS:
        found = os.stat(bed.memory(vm))
        # Root's node manager lets its GPU servers in by a group that nobody else has.
        mode, group = (0o660, 70000) if os.geteuid() == 0 else (0o600, os.getegid())
        assert found.st_size == SIZE and stat.S_IMODE(found.st_mode) == mode and found.st_gid == group, found
        bed.configurations[vm] = bed.host.entitle(vm, "--sms", VMS[vm], "--host", "127.0.0.1")


def both(bed):
    for vm in VMS:
        bed.boot(vm)
    for vm in VMS:
        said = bed.runs(vm)
        assert f" {VMS[vm]} SMs" in said, f"{vm} was to have {VMS[vm]} SMs:\n{said}"
        bed.runs(vm, "build/cuda/reuse")
        bed.runs(vm, COPIES + " look")


def apart(bed):
    """Garbage in all of the memory of one, which then vanishes."""
    bed.loops("two")
    bed.loops("one")
    for vm in VMS:
        ways = [program["transport"] for program in bed.host.ctl("vm", "show", vm)["running"]]
        assert ways == ["ivshmem"], f"flytctl vm show {vm}: {ways}"
    fill_with_garbage(bed.memory("one"))
    bed.guests["one"].kill()
    del bed.guests["one"]
    until(lambda: not bed.servers("one"), "the GPU server of the guest that has gone has ended", 40)
    bed.guests["two"].must("pidof vm_copies")
    bed.runs("two")
    bed.boot("one")
    bed.runs("one", COPIES + " look")


def paused(bed):
    """two copies for ever; one has nothing to do with it."""
    machine = bed.guests["two"]
    machine.pause()
    try:
        until(lambda: bed.events("vm-suspended"), "it is suspended")
        assert bed.servers("two"), "its GPU server was stopped before its time"
        until(lambda: not bed.servers("two"), "it is reclaimed", 40)
        bed.runs("one")
    finally:
        machine.go_on()
    machine.repeat("! pidof vm_copies && grep -q 'is lost' /tmp/loop || { cat /tmp/loop; false; }")
    machine.repeat(bed.command("build/cuda/vector_add") + " >/tmp/again 2>&1 && grep 'over shm' /tmp/again", 30)


def main():
    bindir = bin_folder(__doc__)
    guest.skip_if(guest.made())
    tap, bed = Tap(), Bed(bindir)
    try:
        tap.case("the node manager makes the memory of each guest", made, bed)
        tap.case("two guests, each through its own memory and with its own SMs", both, bed)
        tap.case("garbage in the memory of one, which then vanishes, does no harm to the other", apart, bed)
        tap.case("a paused guest is suspended, then reclaimed, and comes back", paused, bed)
        if tap.failed:
            print("\n".join("# " + line for line in bed.host.logs().splitlines()), flush=True)
    finally:
        tap.case("the daemons end, and no memory is left", bed.end)
    tap.end()


if __name__ == "__main__":
    main()
