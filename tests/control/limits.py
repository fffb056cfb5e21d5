#!/usr/bin/env python3
"""A VM's limits, from `flytctl vm set` to the program: SMs and memory of all its programs together.

    limits.py BIN QUOTA_PROGRAM

shows: quota: a VM with N SMs and M MiB in a cluster: its programs see N SMs, never hold more than M together, and
   nothing after kill -9
shows: quota: flyt-smi shows as a GPU's memory what the VM may have, and what its programs hold of it
"""
import glob
import os
import shutil
import signal
import subprocess
import sys
import tempfile

for room in ("cuda", "lib"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room))
import quota          # noqa: E402
from testlib import Local, ok, story, until  # noqa: E402

BIN, PROGRAM = (os.path.abspath(p) for p in sys.argv[1:3])
MIB = 1 << 20


class Vm(Local):
    """The VM `local` of a cluster of its own, as quota.py wants a tenant."""

    def __init__(self, sms, memory):
        super().__init__(BIN, tempfile.mkdtemp(prefix="flyt-limits-"), "--sms", str(2 * sms), "--memory",
                         f"{2 * memory >> 20}M")
        self.sms, self.memory, self.place = sms, memory, self.env
        self.ctl("vm", "set", "local", "--sms", str(sms), "--memory", f"{memory >> 20}M")

    def server(self):
        rows = self.json("server", "list")
        rows = rows["servers"] if isinstance(rows, dict) else rows
        assert len(rows) == 1, rows
        return rows[0]

    @property
    def ledger(self):
        return quota.Ledger(glob.glob(f"{self.dir}/state/node-*/servers/*/own/memory")[0])


def scenario(vm):
    quota.slices(vm, PROGRAM)
    row = vm.server()
    assert row["sms"] == vm.sms and row["memory"] == vm.memory, row
    a, b = quota.Program(vm, PROGRAM), quota.Program(vm, PROGRAM)
    assert a.ask("big") == [0] and a.ask("stack", 2048) == [0, 2048]
    a.tell("fill", 3 * MIB)
    b.tell("fill", 5 * MIB)
    smi = [f"{BIN}/flyt-smi", "--query-gpu=memory.total,memory.used", "--format=csv,noheader,nounits"]
    fields = subprocess.run(smi, env=vm.place, capture_output=True, text=True, timeout=30)
    total, used = map(int, fields.stdout.split(","))
    assert total == vm.memory // MIB and 0 < used <= total, fields
    taken = 3 * MIB * a.hear("fill")[0] + 5 * MIB * b.hear("fill")[0]
    held = vm.ledger.sum()
    assert taken < held <= vm.memory and held > vm.memory - 8 * MIB, (taken, held)
    assert a.ask("take", 8 * MIB, 1) == b.ask("take", 8 * MIB, 1) == [0, 2]
    until(lambda: vm.memory - 8 * MIB < vm.server()["memory_used"] <= vm.memory, "flytctl shows what is used", 15)
    ok("two programs take all kinds of memory until it is full: together never more than the VM has, and flytctl "
             "shows it")
    a.end(signal.SIGKILL)
    b.end(signal.SIGKILL)
    until(lambda: vm.ledger.sum() == 0, "what they held is free")
    until(lambda: vm.server()["memory_used"] == 0, "flytctl shows that nothing is used", 15)
    ok("after kill -9 nothing is held, and flytctl shows it")
    quota.idle_credit(vm, PROGRAM)
    quota.torture(vm, PROGRAM, 3, 1500, True)


def main():
    vm = Vm(3, 96 * MIB)
    try:
        return story(scenario, vm, logs=vm.logs())
    finally:
        vm.down()
        shutil.rmtree(vm.dir, ignore_errors=True)


sys.exit(main())
