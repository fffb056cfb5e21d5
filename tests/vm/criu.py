#!/usr/bin/env python3
# shows: CRIU: a suspended program is frozen by Debian's criu in a guest, by the commands of docs/elastic.md, and ends
# shows: CRIU: it is restored on the same machine, and in another guest when the first has gone, and computes on there
# shows: CRIU: one that was left running is resumed; where its file was changed it stays suspended, and says so
"""tests/vm/criu.py: programs in guests are suspended, frozen by criu, restored and resumed; TAP on stdout.

    criu.py [--bin DIR]

criu needs a kernel that it knows: the guests' is Debian's own.
"""
import os
import shutil
import socket
import subprocess
import tempfile
import threading

import guest
from host import Host, Tap
from testlib import bin_folder, until

MODULES = "nf_tables unix_diag inet_diag tcp_diag udp_diag raw_diag netlink_diag af_packet_diag tun veth"
FROZEN, IMAGES = "/tmp/flyt-frozen", "/tmp/images"


def documented():
    """The commands of docs/elastic.md: what freezes, and what brings back."""
    with open(os.path.join(guest.REPO, "docs/elastic.md"), encoding="utf-8") as file:
        section = file.read().split("## Freezing a program")[1].split("\n## ")[0]
    lines = [line.split(" #")[0].strip() for line in section.split("```sh\n")[1].split("```")[0].splitlines()]
    assert [line.split()[0] for line in lines] == ["flytctl", "mkdir", "criu", "criu", "flytctl", "flytctl"], lines
    return lines


class Bed:
    def __init__(self, bindir):
        self.host = Host(bindir)
        self.configuration = self.host.entitle("one", "--sms", "2", "--host", "127.0.0.1")
        self.machine = None
        self.lines = documented()

    def boot(self):
        if self.machine:
            self.machine.kill()
        self.machine = guest.Guest("one", memory=640, writable=True)
        self.machine.must(f"modprobe -d {guest.TREE} -a {MODULES}")
        self.host.join(self.machine, self.configuration)

    def start(self):
        """A program that computes; its process id, which no other machine uses."""
        self.machine.must("echo 7000 >/proc/sys/kernel/ns_last_pid; rm -f /tmp/in /tmp/out; mkfifo /tmp/in")
        self.machine.must(f"FLYT_MANAGER=/run/flyt.sock setsid {self.host.bin}/flyt-run build/cuda/moved 0<>/tmp/in "
                          ">/tmp/out 2>/tmp/err &")
        self.machine.repeat("grep -q ready /tmp/out || { cat /tmp/err; false; }")
        return self.pid()

    def pid(self):
        return int(self.machine.must("pidof moved"))

    def ask(self, word):
        """Its numbers, or what it said."""
        count = int(self.machine.must("wc -l </tmp/out"))
        self.machine.must(f"echo {word} >/tmp/in")
        said = self.machine.repeat(f"[ $(wc -l </tmp/out) -gt {count} ] && tail -n 1 /tmp/out || "
                                  "{ cat /tmp/err; false; }")
        assert said.split()[0] == word, said
        return [int(number) for number in said.split()[1:]]

    def computes(self):
        error, wrong, rounds = self.ask("state")
        assert (error, wrong) == (0, 0), (error, wrong)
        until(lambda: self.ask("state")[2] >= rounds + 3, "it computes", 60)

    def programs(self):
        return [(row["id"], row["state"]) for row in self.host.ctl("program", "list")]

    def order(self, line, number):
        """A command of flytctl. What it said, and its status."""
        words = [os.path.join(self.host.bin, "flytctl"), "--manager", f"unix://{self.host.run}/cluster.sock",
                 *line.replace("ID", str(number)).replace("/var/tmp/program", FROZEN).split()[1:]]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout + done.stderr

    def order_well(self, line, number):
        status, said = self.order(line, number)
        assert status == 0, (line, said, self.machine.run("cat /tmp/err /tmp/client-manager.log | tail -n 20")[1])

    def criu(self, line, pid):
        """criu, which says in its log why it cannot."""
        line = line.replace("PID", str(pid)).replace("/var/tmp/images", IMAGES)
        status, text = self.machine.run(f"{line} -v4 -o /tmp/criu.log", 200)
        said = self.machine.run("grep -a Error /tmp/criu.log")[1]
        return status, text + said

    def freeze(self, pid, *more):
        """It may have been just looking whether it is to be resumed."""
        suspend, make, dump = self.lines[:3]
        (number, state), = self.programs()
        assert state == "running", state
        self.order_well(suspend, number)
        assert self.programs() == [(number, "suspended")]
        self.machine.must(f"rm -rf {IMAGES}")
        self.machine.must(make.replace("/var/tmp/images", IMAGES))
        for _ in range(3):
            status, said = self.criu(" ".join((dump, *more)), pid)
            if status == 0 or "half of stream unix" not in said:
                break
        assert status == 0, said
        return number

    def thaw(self):
        restore, _, resume = self.lines[3:]
        status, said = self.criu(restore, 0)
        assert status == 0, said
        until(lambda: [state for _, state in self.programs()] == ["suspended"], "it has made itself known", 60)
        (number, _), = self.programs()
        self.order_well(resume, number)
        assert self.programs() == [(number, "running")]
        self.computes()
        self.machine.must(f"! [ -e {FROZEN} ]")

    def ends(self):
        error, wrong, rounds, counted = self.ask("end")
        assert (error, wrong, counted) == (0, 0, 1) and rounds > 0, (error, wrong, rounds, counted)
        until(lambda: not self.programs(), "it has ended", 60)
        self.machine.must("! [ -s /tmp/err ] || { cat /tmp/err; false; }")

    def end(self):
        if self.machine:
            self.machine.kill()
        self.host.stop()


class Carried:
    """Files of a guest, kept on the host while it is gone."""

    def __init__(self, bed):
        self.file, self.listener = tempfile.TemporaryFile(), socket.create_server(("127.0.0.1", 0))
        self.way = f"/dev/tcp/{guest.HOST}/{self.listener.getsockname()[1]}"
        files = f"{IMAGES} {FROZEN} /tmp/in /tmp/out /tmp/err"
        self.carry(bed, f"tar -C / -cf - {files} 2>/dev/null >{self.way}", self.take)

    def take(self):
        line = self.listener.accept()[0]
        while data := line.recv(1 << 20):
            self.file.write(data)

    def give(self):
        line = self.listener.accept()[0]
        self.file.seek(0)
        while data := self.file.read(1 << 20):
            line.sendall(data)
        line.close()

    @staticmethod
    def carry(bed, command, does):
        thread = threading.Thread(target=does, daemon=True)
        thread.start()
        bed.machine.must(f"bash -c '{command}'", 200)
        thread.join(60)
        assert not thread.is_alive(), "not all bytes came"

    def unpack(self, bed):
        self.carry(bed, f"tar -C / -xf - <{self.way}", self.give)


def same_machine(bed):
    pid = bed.start()
    bed.computes()
    bed.freeze(pid)
    bed.machine.repeat("! pidof moved")
    until(lambda: not bed.programs() and bed.host.ctl("status")["sms_used"] == 0, "the cluster has forgotten it", 60)
    bed.thaw()


def another_machine(bed):
    pid = bed.pid()
    bed.freeze(pid)
    carried = Carried(bed)
    bed.boot()
    until(lambda: not bed.programs() and not bed.host.ctl("server", "list"), "nothing is left of it", 60)
    carried.unpack(bed)
    bed.thaw()
    bed.ends()


def left_running(bed):
    pid = bed.start()
    number = bed.freeze(pid, "--leave-running")
    assert bed.programs() == [(number, "suspended")]
    bed.machine.must(f"cp {FROZEN} {FROZEN}.kept && printf x | dd of={FROZEN} bs=1 seek=3000 conv=notrunc 2>/dev/null")
    status, said = bed.order(bed.lines[5], number)
    assert status != 0 and "stays suspended" in said and "damaged" in said, said
    bed.machine.must(f"cat {FROZEN}.kept >{FROZEN}")
    bed.order_well(bed.lines[5], number)
    bed.computes()
    bed.ends()


def main():
    bindir = bin_folder(__doc__)
    guest.skip_if(guest.made() or guest.modules() or not shutil.which("criu", path="/usr/sbin:/usr/bin") and
                  "there is no criu here (tools/setup --for check installs it)")
    tap, bed = Tap(), Bed(bindir)
    try:
        bed.boot()
        tap.case("a program is frozen and restored on its machine, and computes on", same_machine, bed)
        tap.case("it is frozen again, and restored on another machine", another_machine, bed)
        tap.case("one that was left running is resumed, and its file is not to be changed", left_running, bed)
        if tap.failed:
            print("\n".join("# " + line for line in bed.host.logs().splitlines()), flush=True)
    finally:
        tap.case("the daemons end", bed.end)
    tap.end()


if __name__ == "__main__":
    main()
