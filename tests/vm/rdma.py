#!/usr/bin/env python3
# shows: RDMA: two guests with soft-RoCE, Debian's, are linked by UCX over RDMA verbs; all sizes arrive
# shows: RDMA: without UCX_NET_DEVICES the link finds the RDMA device of its network card; a guest that dies is noticed
"""tests/vm/rdma.py: links by UCX over RDMA verbs, between two guests whose network cards do RoCE in software; TAP.

    rdma.py [--bin DIR]

The cards are a cable between the guests, with Debian's rdma_rxe on it. The guests are emulated, so nothing is said
about speed. UCX 1.13 does not take rdma_rxe's datagrams between IPv4 addresses, by which it begins a connection:
UCX_IB_GID_INDEX=0 is the card's IPv6 address.
"""
import glob
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time

import guest
from host import Tap
from testlib import bin_folder

NAMES = ("one", "two")
SILENCE = 20
SETTINGS = f"FLYT_LINK_TRANSPORT=ucx UCX_TLS=rc_v UCX_IB_GID_INDEX=0 FLYT_COMM_INTERFACES=eth1 FLYT_SILENCE={SILENCE}"


def needs():
    for tool in ("rdma", "modprobe"):
        if not shutil.which(tool, path="/usr/sbin:/usr/bin:/sbin:/bin"):
            return f"there is no {tool} here"
    for library in ("libucp.so.0", "ucx/libuct_ib.so.0", "libibverbs/librxe-rdmav*.so"):
        if not glob.glob(f"/usr/lib/x86_64-linux-gnu/{library}"):
            return f"there is no {library} here (Debian: libucx0, ibverbs-providers)"
    why = guest.made() or guest.modules()
    if why:
        return why
    kinds = subprocess.run(["qemu-system-x86_64", "-netdev", "help"], capture_output=True, text=True).stdout
    return None if "stream" in kinds.split() else "QEMU is older than 7.2: its guests have no cable between them"


class Bed:
    def __init__(self, bindir):
        self.tool = os.path.join(bindir, "flyt-comm-perf")
        self.folder = tempfile.mkdtemp(prefix="flyt-cable.")
        self.guests = []

    def boot(self):
        for number, name in enumerate(NAMES):
            machine = guest.Guest(name, memory=512, cable=(f"{self.folder}/cable", "off" if number else "on"))
            self.guests.append(machine)
            machine.must(f"modprobe -d {guest.TREE} -a crc32_generic rdma_rxe ib_uverbs")
            machine.must(f"ip address add 10.9.0.{number + 1}/24 dev eth1 && ip link set eth1 up")
            machine.must("rdma link add rxe0 type rxe netdev eth1")
        said = self.guests[0].must("rdma link show")
        assert "state ACTIVE" in said and "eth1" in said, said

    def serve(self):
        self.guests[0].must(f"{{ {SETTINGS} {self.tool} --serve -c 2 >/tmp/served 2>&1; echo $? >/tmp/status; }} &")

    def measures(self):
        self.serve()
        said = self.guests[1].must(f"{SETTINGS} {self.tool} --to 10.9.0.1 -c 2 -s 1K,64K,3M -n 2 --no-raw --json",
                                   seconds=300)
        print("\n".join("# " + line for line in said.splitlines()), flush=True)
        lines = [json.loads(line) for line in said.splitlines()]
        assert [line.get("bytes") for line in lines] == [None, 1024, 65536, 3 << 20], said
        assert all(line["transport"] == "ucx" for line in lines), said
        assert self.guests[0].repeat("cat /tmp/status").strip() == "0", self.guests[0].must("cat /tmp/served")
        # The bytes went by RDMA, in packets of at most 1 KiB: the device has counted them.
        assert self.packets() > 6 << 10, self.packets()

    def dies(self):
        self.serve()
        result = []
        other = threading.Thread(target=lambda: result.append(self.guests[1].run(
            f"{SETTINGS} {self.tool} --to 10.9.0.1 -c 2 -s 64M -n 100 --no-raw", seconds=300)))
        before = self.packets()
        other.start()
        while self.packets() < before + 2000:
            time.sleep(0.5)
        self.guests[0].kill()
        begun = time.monotonic()
        other.join()
        status, said = result[0]
        took = time.monotonic() - begun
        assert status == 1 and "flyt-comm-perf: measuring" in said, (status, said)
        assert took < SILENCE + 2 + 10, f"noticed after {took:.1f} s: {said}"       # emulated guests are slow
        print(f"# noticed after {took:.1f} s", flush=True)

    def packets(self):
        """That the device of the end that serves has taken: what it fetches comes as answers to its questions."""
        return int(self.guests[0].must("cat /sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_pkts"))

    def end(self):
        for machine in self.guests:
            machine.kill()
        shutil.rmtree(self.folder)


def main():
    bindir = bin_folder(__doc__)
    guest.skip_if(needs())
    tap, bed = Tap(), Bed(bindir)
    try:
        if tap.case("two guests boot, with soft-RoCE on the cable between them", bed.boot):
            tap.case("flyt-comm-perf measures over RDMA verbs", bed.measures)
            tap.case("the end of one guest fails the link at the other one", bed.dies)
    finally:
        bed.end()
    tap.end()


if __name__ == "__main__":
    main()
