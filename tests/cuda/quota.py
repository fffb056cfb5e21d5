#!/usr/bin/env python3
"""Several programs of one tenant at the edge of its memory; TAP on stdout.

    quota.py [--bin DIR] [--transport unix|shm|tcp] PROGRAM

shows: quota: programs of one tenant together never get more than its memory, every success can be written to, and
   what one holds unused another gets
shows: quota: modules, stacks and credit are in one ledger; what a killed program held is free again
"""
import argparse
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import GpuServer, ok, read, sanitizer_environment, story, until  # noqa: E402

MIB = 1 << 20
PIECE = 2 * MIB


class Ledger:
    """The tenant's books, looked at from outside (cpu/common/tenant_ledger.h)."""

    def __init__(self, path):
        self.path = path

    def slots(self):
        with open(self.path, "rb") as file:
            data = file.read()
        high = struct.unpack_from("<I", data, 4)[0]
        return {pid: held for pid, held in (struct.unpack_from("<qQ", data, 64 + 64 * i) for i in range(high)) if pid}

    def sum(self):
        return sum(self.slots().values())


class Tenant:
    def __init__(self, bindir, transport, memory, sms=2):
        self.bin, self.memory, self.sms = bindir, memory, sms
        self.folder = tempfile.mkdtemp(prefix="flyt-quota.")
        uri = "tcp://127.0.0.1:0" if transport == "tcp" else f"{transport}://{self.folder}/s"
        self.ledger = Ledger(f"{self.folder}/memory")
        self.server = GpuServer(bindir, uri, log=f"{self.folder}/log", FLYT_TENANT_MEMORY=str(memory),
                                FLYT_TENANT_LEDGER=self.ledger.path, FLYT_SOFTGPU_MEMORY=str(memory),
                                FLYT_SOFTGPU_SMS=str(sms), FLYT_SOFTGPU_DEVICES="1")
        self.process = self.server.process
        self.place = {"FLYT_SERVER": self.server.uri}

    def stop(self):
        assert self.server.end() == 0
        text = read(self.server.log)
        assert "Sanitizer" not in text and "runtime error" not in text, text
        shutil.rmtree(self.folder)


class Program:
    def __init__(self, tenant, path, errors=None, **variables):
        """errors: a file for its stderr."""
        environment = {**os.environ, **sanitizer_environment(tenant.bin), **tenant.place, **variables}
        self.process = subprocess.Popen([f"{tenant.bin}/flyt-run", path], env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=errors, text=True)
        self.ready = self.hear("ready")

    def hear(self, word):
        line = self.process.stdout.readline().split()
        assert line and line[0] == word, f"{word}: {line}"
        return [int(part) if part.lstrip("-").isdigit() else part for part in line[1:]]

    def tell(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def ask(self, *words):
        self.tell(*words)
        return self.hear(words[0])

    def end(self, sign=None):
        if sign:
            self.process.send_signal(sign)
        self.process.stdin.close()
        self.process.stdout.read()
        assert self.process.wait(30) == (-sign if sign else 0)


def slices(tenant, path):
    a, b = Program(tenant, path), Program(tenant, path)
    assert a.ready == b.ready == [0]
    for program in (a, b):
        sms, total, error = program.ask("props")
        assert (sms, total, error) == (tenant.sms, tenant.memory, 0)
        assert program.ask("info")[1] == tenant.memory
    seen = set(a.ask("smid")) | set(b.ask("smid"))
    assert seen and seen <= set(range(tenant.sms)), seen
    ok("properties and cudaMemGetInfo show the slice; two programs see no more SMs than it has")
    a.end()
    b.end()
    until(lambda: tenant.ledger.sum() == 0, "all is given back")


def idle_credit(tenant, path):
    """What one program holds ahead of need, or has freed, is free for the other."""
    a, b = Program(tenant, path), Program(tenant, path)
    base = tenant.memory - b.ask("info")[0]                       # contexts, stacks, one small allocation each
    assert a.ask("take", 3 * MIB, 8) == [8, 0]
    free_b = b.ask("info")[0]
    assert abs(tenant.memory - free_b - base - 24 * MIB) < PIECE, (free_b, base)
    assert a.ask("thin", 8) == [1, 0]
    assert b.ask("info")[0] >= free_b + 20 * MIB
    count, error, after = b.ask("fill", MIB)
    assert error == 2 and after == 0
    # a holds 3 MiB in at most three pieces, besides a piece for the small one; b's last pieces may be partly used.
    used = base + 3 * MIB + count * MIB
    assert tenant.memory - used < 5 * PIECE, (tenant.memory - used, count)
    assert tenant.ledger.sum() <= tenant.memory
    assert a.ask("take", 8 * MIB, 1) == [0, 2]
    assert b.ask("free") == [0, "wrong", 0]
    assert a.ask("take", 8 * MIB, 1) == [1, 0]
    ok("memory that one program holds unused, another gets; the edge fails in cudaMalloc")
    a.end()
    b.end(signal.SIGKILL)
    until(lambda: tenant.ledger.sum() == 0, "all is given back")
    ok("after an exit and a kill -9 nothing is held")


def all_kinds(tenant, path):
    """Modules and stacks count; what does not fit fails where it would natively, and nothing is half done."""
    a, b = Program(tenant, path), Program(tenant, path)
    before = tenant.ledger.sum()
    assert a.ask("big") == [0]
    assert tenant.ledger.sum() >= before + 8 * MIB
    assert b.ask("fill", 2 * MIB)[1] == 2
    assert b.ask("big") == [2]
    assert tenant.ledger.sum() <= tenant.memory
    stack = b.ask("stack", 1024)[1]
    assert b.ask("stack", 32 << 10) == [2, stack]
    assert a.ask("stack", 32 << 10) == [2, stack]
    assert tenant.ledger.sum() <= tenant.memory
    assert b.ask("free") == [0, "wrong", 0]
    answer = b.ask("big")
    assert answer == [0], answer                                     # now there is room
    before = tenant.ledger.sum()
    assert a.ask("stack", 6 << 10) == [0, 6 << 10]
    assert tenant.ledger.sum() + 16 * MIB >= before + 14 * MIB       # two SMs of 1,536 threads, 5 KiB more each
    held = tenant.ledger.slots()
    assert a.ask("reset") == [0, 0]
    assert sum(held.values()) - tenant.ledger.sum() >= 16 * MIB, (held, tenant.ledger.slots())
    assert a.ask("take", MIB, 4) == [4, 0] and a.ask("free") == [0, "wrong", 0]
    ok("modules and stacks are charged, refused at the edge, and given back by a reset")
    a.end()
    b.end()
    until(lambda: tenant.ledger.sum() == 0, "all is given back")


def torture(tenant, path, count, milliseconds, kill):
    """Programs that allocate, write and free at the edge; one of them dies."""
    programs = [Program(tenant, path) for _ in range(count)]
    watching, most, looks = True, 0, 0

    def watch():
        nonlocal most, looks
        while watching:
            most, looks = max(most, tenant.ledger.sum()), looks + 1
            time.sleep(0.0005)
    observer = threading.Thread(target=watch)
    observer.start()
    try:
        for seed, program in enumerate(programs):
            program.tell("torture", milliseconds, seed + random.randrange(1 << 20))
        if kill:
            time.sleep(milliseconds / 3000)
            victim = programs.pop()
            victim.end(signal.SIGKILL)
            until(lambda: len([held for held in tenant.ledger.slots().values() if held]) <= len(programs),
                  "what it held is free", 5)
        taken = refused = 0
        for program in programs:
            answer = program.hear("torture")
            assert answer[0] == "ok", answer
            taken, refused = taken + answer[2], refused + answer[4]
        assert all(program.ask("info")[0] for program in programs)
    finally:
        watching = False
        observer.join()
    assert most <= tenant.memory, (most, tenant.memory)
    assert taken > 100 and refused > 10 and most > tenant.memory * 3 // 4, (taken, refused, most, looks)
    ok(f"{count} programs{', one killed' if kill else ''}: {taken} allocations, {refused} refused, "
       f"at most {most >> 20} of "
       f"{tenant.memory >> 20} MiB in {looks} looks")
    for program in programs:
        program.end()
    until(lambda: tenant.ledger.sum() == 0, "all is given back")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", default="bin")
    parser.add_argument("--transport", default="unix")
    parser.add_argument("--milliseconds", type=int, default=2000)
    parser.add_argument("program")
    arguments = parser.parse_args()
    path = os.path.abspath(arguments.program)
    tenant = Tenant(os.path.abspath(arguments.bin), arguments.transport, 96 * MIB)

    def all_of_it():
        slices(tenant, path)
        idle_credit(tenant, path)
        all_kinds(tenant, path)
        torture(tenant, path, 2, arguments.milliseconds, False)
        torture(tenant, path, 4, arguments.milliseconds, True)
        tenant.stop()
        ok("the server stops cleanly")
    try:
        return story(all_of_it, logs=[f"{tenant.folder}/log"])
    finally:
        tenant.process.kill()


if __name__ == "__main__":
    sys.exit(main())
