#!/usr/bin/env python3
# shows: virtual machine: programs in a guest find the ivshmem device by themselves, and go on through the host's memory
# shows: virtual machine: no program sees in that memory what an earlier one has left there
# shows: virtual machine: without permission, or with a slow mapping, a program says what to do, and uses the network
# shows: virtual machine: programs find a dax device, a part of the guest's own memory, which is mapped write-back
# shows: virtual machine: a program killed in mid-copy, garbage in all of the memory, a reset, a snapshot: served again
"""tests/vm/memory.py: programs in a guest, through memory that it shares with the host; TAP on stdout.

    memory.py [--bin DIR]
"""
import mmap
import os
import re
import shutil
import subprocess
import sys
import tempfile

import guest
from host import Tap
from testlib import bin_folder, until

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cuda"))
import e2e  # noqa: E402

MIB = 1 << 20
SIZE, SESSIONS = 128 * MIB, 2
COPIES = "build/cuda/vm_copies"
RESOURCE = "/sys/bus/pci/devices/*/resource2"


# What a client needs: the guest's memory has no room for all of bin.
COPY = ("mkdir -p /tmp/bin && cp -r bin/flyt-run bin/libflyt-client.so bin/libflyt-tls.so bin/cudart /tmp/bin && "
        "cp build/cuda/vector_add /tmp && chmod 755 /tmp/bin")


def fill_with_garbage(path):
    """All of a memory, from the host: the guest's processor is emulated, and would need seconds for the same bytes."""
    garbage = os.urandom(MIB)
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        for at in range(0, len(memory), MIB):
            memory[at:at + MIB] = garbage


class Bed:
    """A guest, and a server on the host that has the memory between them."""

    def __init__(self, bindir):
        self.bin, self.folder = bindir, tempfile.mkdtemp(prefix="flyt-vm-memory.")
        handle, self.memory = tempfile.mkstemp(prefix="flyt-vm.", dir="/dev/shm")
        os.truncate(handle, SIZE)
        os.close(handle)
        environment = {"FLYT_LOG": "info", "FLYT_SOFTGPU_THREADS": "1", "FLYT_SOFTGPU_MEMORY": "512M"}
        self.server = e2e.Server(bindir, "tcp", "software", self.folder, environment,
                                 more=("--bar", f"{self.memory},{SESSIONS}"))
        self.uri = self.server.uri.replace("127.0.0.1", guest.HOST)
        self.guest = guest.Guest("memory", shared=(self.memory, SIZE))

    def command(self, program, before=""):
        # Whatever the speed: other tests run at the same time, and this guest's processor is emulated.
        return f"FLYT_BAR_SPEED=0 {before} FLYT_STATS=1 FLYT_SERVER={self.uri} {self.bin}/flyt-run {program}"

    def runs_over(self, transport, program="build/cuda/vector_add", before="", says=""):
        status, said = self.guest.run(self.command(program, before))
        over = re.search(r"received over (\S+)", said)
        good = status == 0 and over and over.group(1) == transport and re.search(says, said, re.M)
        wanted = f"status 0, over {transport}, \"{says}\""
        assert good, f"{program}: status {status}, wanted {wanted}:\n{said[:1000]}\n{said[-500:]}"

    def loops(self, name):
        """Starts a program that copies for ever."""
        self.guest.must(f"{self.command(COPIES + ' loop')} >/tmp/{name} 2>&1 & echo $! >/tmp/{name}.pid")
        self.guest.repeat(f"grep -q copying /tmp/{name} || {{ cat /tmp/{name}; false; }}")

    def sessions(self):
        """Workers that have the memory open, beside the server itself."""
        done = subprocess.run(["fuser", self.memory], capture_output=True, text=True)
        found = 0
        for pid in done.stdout.split():
            try:
                with open(f"/proc/{pid}/comm") as file:
                    found += "cricket-worker" in file.read()
            except OSError:
                pass                            # it has just ended
        return found

    def end(self):
        self.guest.kill()
        status, log = self.server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        os.unlink(self.memory)
        assert status == 0, f"the server: {status}\n{log[-2000:]}"


def found(bed):
    bed.runs_over("shm")
    bed.runs_over("shm", "build/cuda/reuse")


def leftovers(bed):
    for _ in range(SESSIONS):                   # each part of the memory
        bed.runs_over("shm", COPIES + " fill")
    for _ in range(2 * SESSIONS):
        bed.runs_over("shm", COPIES + " look", says="^0 bytes of another program")


def permission(bed):
    as_nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups env"
    bed.guest.must(COPY)
    bed.runs_over("tcp", before=as_nobody, says=r"resource2 cannot be opened.*chgrp flyt-users.*70-flyt-ivshmem\.rules")
    bed.guest.must(f"chgrp 65534 {RESOURCE} && chmod 660 {RESOURCE}")
    bed.runs_over("shm", before=as_nobody)


def slow(bed):
    bed.runs_over("tcp", before="FLYT_BAR_SPEED=1000000", says=r"MB/s, less than 1000000: it is uncached")


def killed(bed):
    bed.loops("killed")
    bed.guest.must("pkill -9 vm_copies")
    until(lambda: bed.sessions() == 0, "the worker has ended")
    for _ in range(SESSIONS):
        bed.runs_over("shm", COPIES + " look", says="^0 bytes of another program")


def garbage(bed):
    bed.loops("garbage")
    fill_with_garbage(bed.memory)
    bed.guest.repeat("! pidof vm_copies && grep -q 'is lost' /tmp/garbage || { cat /tmp/garbage; false; }")
    until(lambda: bed.sessions() == 0, "the worker has ended")
    bed.runs_over("shm")


def reset(bed):
    """A guest that has run little yet. QEMU boots others slowly, because it keeps what it has translated of them."""
    bed.guest.kill()
    bed.root = guest.small_root([COPIES, "build/cuda/vector_add"], bed.bin, bed.folder)
    bed.guest = guest.Guest("memory", shared=(bed.memory, SIZE), root=bed.root)
    bed.loops("reset")
    bed.guest.reset()
    print(f"# booted again in {bed.guest.seconds:.1f} s", flush=True)
    until(lambda: bed.sessions() == 0, "the worker of the guest that was reset has ended")
    bed.runs_over("shm")


def snapshot(bed):
    state = os.path.join(bed.folder, "state")
    bed.loops("snapshot")
    bed.guest.save(state)
    bed.guest.kill()
    until(lambda: bed.sessions() == 0, "the worker of the guest that has gone has ended")
    bed.guest = guest.Guest("memory", shared=(bed.memory, SIZE), root=bed.root, state=state)
    bed.runs_over("shm")
    bed.guest.repeat("! pidof vm_copies && grep -q 'server .* is lost' /tmp/snapshot || { cat /tmp/snapshot; false; }")
    bed.runs_over("shm")


def dax(bed):
    """docs/vm.md, the form with write-back memory. The commands are those of its rule for udev."""
    bed.guest.kill()
    bed.guest = guest.Guest("memory", ours=(bed.memory, SIZE))
    bed.runs_over("tcp", says="units of 2097152 bytes only: set its align to 4096")
    bed.guest.must("cd /sys/bus/dax/drivers/device_dax && echo dax0.0 >unbind"
                   " && echo 4096 >/sys/bus/dax/devices/dax0.0/align && echo dax0.0 >bind")
    bed.runs_over("shm")
    bed.runs_over("shm", "build/cuda/reuse")
    bed.runs_over("shm", COPIES + " fill")
    bed.runs_over("shm", COPIES + " look", says="^0 bytes of another program")
    bed.guest.must(COPY)
    as_nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups env"
    bed.runs_over("tcp", before=as_nobody, says=r"/dev/dax0\.0 cannot be opened: this user may not")
    bed.guest.must("chgrp 65534 /dev/dax0.0 && chmod 660 /dev/dax0.0")
    bed.runs_over("shm", before=as_nobody)


CASES = {"a program finds the device, and goes on through its memory": found,
         "no program sees what an earlier one has left": leftovers,
         "a user who may not open the device is told what to do, and uses the network": permission,
         "a slow mapping is not used, and the program says so": slow,
         "a program killed in mid-copy gives its part back, cleared for the next one": killed,
         "garbage in all of the memory ends that program only": garbage,
         "a guest that is reset in mid-copy is served again": reset,
         "a program of a restored snapshot finds its session gone, and the next one is served": snapshot,
         "a dax device, memory of the guest's own, is found and used": dax}


def main():
    bindir = bin_folder(__doc__)
    guest.skip_if(guest.made())
    tap, bed = Tap(), Bed(bindir)
    try:
        for what, case in CASES.items():
            tap.case(what, case, bed)
    finally:
        tap.case("the server ends with status 0", bed.end)
    tap.end()


if __name__ == "__main__":
    main()
