#!/usr/bin/env python3
# shows: virtual machine: a guest under QEMU runs programs, as they were built, on the host's GPU over its network
# shows: virtual machine: flyt-smi in a guest shows the memory that the VM is entitled to
# shows: virtual machine: the benchmark script of the guide (run_benchE.sh) runs in a guest
# shows: virtual machine: a guest that is rebooted in the middle of a program is served again; all is given back
"""tests/vm/rpc.py: programs in a guest, over its network; TAP on stdout.

    rpc.py [--bin DIR]
"""
import glob
import os
import re

import guest
from host import Host, Tap
from testlib import bin_folder, until

PROGRAMS = ("vector_add", "printing", "reuse", "numbers", "sticky", "errors")


def workers(host):
    """Processes of the host's GPU servers: others run the same program at the same time."""
    found = []
    for path in glob.glob("/proc/[0-9]*"):
        try:
            if os.readlink(path + "/exe") != os.path.join(host.bin, "cricket-rpc-server"):
                continue
            with open(path + "/environ", "rb") as environ, open(path + "/cmdline", "rb") as words:
                if os.fsencode(host.folder) in environ.read() + words.read():
                    found.append(path)
        except OSError:
            pass
    return found


def run(host, machine, program, more=""):
    flyt_run = f"{more} FLYT_STATS=1 FLYT_MANAGER=/run/flyt.sock {host.bin}/flyt-run"
    return machine.must(f"{flyt_run} build/cuda/{program}")


def program_runs(host, machine, program):
    said = run(host, machine, program)
    assert "over tcp" in said, f"not over the network:\n{said}"


def rebooted(host, machine, configuration):
    machine.must(f"FLYT_MANAGER=/run/flyt.sock {host.bin}/flyt-run build/cuda/forever >/tmp/forever 2>&1 &")
    machine.repeat("grep -q running /tmp/forever || { cat /tmp/forever; false; }")
    assert workers(host), "a program runs, and no worker process is found"
    ways = [(program["transport"], program["transport_why"]) for program in host.ctl("vm", "show", "guest")["running"]]
    assert ways == [("tcp", "no memory is shared with the GPU server's machine")], f"flytctl vm show: {ways}"
    machine.reset()
    print(f"# booted again in {machine.seconds:.1f} s", flush=True)
    host.join(machine, configuration)
    said = run(host, machine, "vector_add")
    assert "100000 elements added, 0 wrong" in said, said
    until(lambda: not host.ctl("server", "list"), "the cluster has everything back")
    assert not workers(host), "worker processes are left"


def shows_its_slice(host, machine):
    said = machine.must(f"FLYT_MANAGER=/run/flyt.sock {host.bin}/flyt-smi --query-gpu=name,memory.total "
                        "--format=csv,noheader")
    assert said == "Flyt software GPU, 256 MiB\n", said


def benchmark(host, machine):
    """As the guide has it: the script, in the VM."""
    said = machine.must("RUN=flyt FLYT_MANAGER=/run/flyt.sock synthetic_benchmark/run_benchE.sh 512 32 5 2")
    assert re.fullmatch(r"kilobytes,r1,r2\n256(,[\d.]+){2}\n512(,[\d.]+){2}\n", said), said


def main():
    bindir = bin_folder(__doc__)
    guest.skip_if(guest.made())
    tap, machine = Tap(), None
    host = Host(bindir)
    try:
        configuration = host.entitle("guest", "--sms", "2", "--host", "another-machine")
        machine = guest.Guest("guest")
        print(f"# booted in {machine.seconds:.1f} s")
        tap.case("the guest's client manager reaches the cluster manager", host.join, machine, configuration)
        what = "a guest that is rebooted while a program runs is served again"
        tap.case(what, rebooted, host, machine, configuration)
        for program in PROGRAMS:
            tap.case(f"{program} runs in the guest, over its network", program_runs, host, machine, program)
        tap.case("flyt-smi shows the guest its entitlement", shows_its_slice, host, machine)
        tap.case("run_benchE.sh runs in the guest, over its network", benchmark, host, machine)
        if tap.failed:
            print("\n".join("# " + line for line in host.logs().splitlines()), flush=True)
    finally:
        if machine:
            machine.kill()
        tap.case("the daemons end, and nothing is left", host.stop)
    tap.end()


if __name__ == "__main__":
    main()
