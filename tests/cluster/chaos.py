#!/usr/bin/env python3
"""chaos.py BIN WORKER [options]: a cluster in network namespaces that is struck again and again while programs run and
start.

One cluster manager (and, over MongoDB, a machine for the database), three nodes with a software GPU each, two VMs,
joined by a switch. Programs run and start on both VMs all the time and check their results. Then blows fall, each kind
once a round, in random order; after each the cluster must be healthy again within --bound seconds: all daemons joined,
the database there, the books balanced (what is booked is what GPU servers hold, and they are there), and a program that
was started after the blow has passed on each VM.

What programs may see of a blow:

    blow                                            running programs             starting programs
    cluster manager, node manager killed, stopped   nothing                      wait, then run
    client manager stopped                          nothing                      wait, then run
    client manager killed                           nothing                      refused on that VM until it is back
    database killed, stopped, cut off, locked, full nothing                      wait, then run
    GPU server stopped, link cut for 2 s            a delay                      a delay
    GPU server killed                               its programs: error 46       refused by that server until it is back
    worker killed                                   its program: error 46        nothing
    node's machine crashed                          its programs: error 46       refused if they had been sent there
    VM crashed                                      they end with it             refused on that VM until it is back
    node cut off for longer than silence.lost       its programs: error 46       refused if they had been sent there
    VM cut off for longer than the dead time        the VM's: error 46           refused on that VM

Error 46 is cudaErrorDevicesUnavailable, with the reason on stderr (unless the program has outlived its client manager).
At the end everything is ended in order, and nothing may be left: no process, file in /dev/shm, socket, folder of a
server, row of a server in the database, descriptor in a daemon.

Speaks TAP; exit status 77 where neither root nor user namespaces give us network namespaces.

shows: survival: each daemon, GPU server, link and the database (SQLite; MongoDB in check-long) killed, stopped and
   cut off in random order while programs run and start
"""
import argparse
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter

import machines
from blows import KINDS
from cluster import GRACE, NODES, VMS, Cluster
from machines import slowness
from testlib import Tap, comment, ok, plan, until  # noqa: E402
from programs import Programs

def sanitizer(folder):
    """A program that was built without one needs the runtime of a library that was built with it."""
    if "build/address" not in folder:
        return {}
    path = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
    return {"LD_PRELOAD": path, "ASAN_OPTIONS": "detect_leaks=0"}


def healthy(cluster, programs, since):
    """True, or an AssertionError that says what is not yet well."""
    cluster.joined()
    missing = set(VMS) - programs.passed_since(since)
    assert not missing, f"no program that was started since has passed on {', '.join(sorted(missing))}"
    cluster.balance()
    cluster.known(programs.snapshot(), programs.snapshot)
    return True


def starved():
    """Seconds in which something waited for a processor, since the machine started; None where nobody counts."""
    try:
        with open("/proc/pressure/cpu") as file:
            return int(file.readline().rpartition("total=")[2]) / 1e6
    except OSError:
        return None


def one_blow(kind, cluster, programs, chance, bound):
    blow = kind(cluster, programs, chance)
    programs.blows.append(blow)
    blow.began = healed = time.monotonic()
    before = starved()
    try:
        blow.strike()
        blow.over = healed = time.monotonic()
        until(lambda: healthy(cluster, programs, healed), "the cluster is healthy again", bound * slowness())
        blow.over = time.monotonic()
        return ok(True, f"{blow.name} ({blow.target}): healthy {blow.over - healed:.1f} s later")
    except (AssertionError, OSError, sqlite3.Error, subprocess.SubprocessError) as error:
        blow.over = time.monotonic()
        comment(f"{type(error).__name__}: {error}")
        comment(f"load {os.getloadavg()[0]:.1f}")
        if before is not None:
            comment(f"in {blow.over - blow.began:.1f} s something waited for a processor for "
                    f"{starved() - before:.1f} s")
        comment("\n".join(programs.since(healed)[-10:]))
        for name, daemon in cluster.daemons.items():
            if not daemon.running():            # for the sake of the blows that follow
                comment(f"{name} had ended by itself ({daemon.process.returncode}) and is started again")
                daemon.start()
        return ok(False, f"{blow.name} ({blow.target})")


def quiet(cluster):
    """No program, no server, nothing booked."""
    status = cluster.joined()
    for key in ("programs", "waiting", "servers", "sms_used", "memory_used"):
        assert status[key] == 0, f"{key} is {status[key]}, not 0"
    assert not cluster.server_processes(), f"GPU servers {cluster.server_processes()} run"
    return True


def descriptors(cluster):
    return {name: daemon.descriptors() for name, daemon in cluster.daemons.items() if name != "db"}


def strike_all(cluster, programs, options, chance):
    """Rounds of all kinds; True if all went well."""
    well, end = True, time.monotonic() + options.seconds if options.seconds else None
    for round_number in range(options.rounds) if not end else iter(int, 1):
        kinds = [k for k in KINDS if cluster.database in k.databases and (options.all or not k.slow)]
        if options.only:
            kinds = [k for k in KINDS if cluster.database in k.databases
                     and any(word in k.name for word in options.only)]
        chance.shuffle(kinds)
        for kind in kinds:
            if end and time.monotonic() > end:
                return well
            well = one_blow(kind, cluster, programs, chance, options.bound) and well
            if not well and options.first:
                return well
    return well


def finish(cluster, programs, before):
    programs.stop()
    counts = programs.judge()
    for problem in programs.problems:
        comment(problem)
    ok(not programs.problems and counts.get("passed", 0) > 0, "no program saw what it should not have: " +
       ", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    transports = Counter(p.transport() for p in programs.done).most_common()
    comment("transports of programs: " + ", ".join(f"{count} {name}" for name, count in transports))
    longest = max((p.longest() for p in programs.done), default=0)
    comment(f"the longest that a program waited for one round: {longest} ms")
    try:
        until(lambda: quiet(cluster), "nothing is booked any more", GRACE + 15)
        ok(True, "no server, no program, nothing booked")
    except AssertionError as error:
        comment(error)
        ok(False, "no server, no program, nothing booked")
    end = time.monotonic() + 10                # a daemon closes the last ones behind its report
    while True:
        after = descriptors(cluster)
        grown = {name: sorted((Counter(after[name]) - Counter(before[name])).elements())
                 for name in after if len(after[name]) > len(before[name]) + 1}
        if not grown or time.monotonic() > end:
            break
        time.sleep(0.2)
    for name in grown:
        comment(f"{name} had {before[name]}, has {after[name]}")
    ok(not grown, f"no daemon has more descriptors than before {grown or ''}")
    bad = cluster.stop()
    ok(not bad, f"all daemons end when they are asked to {bad or ''}")
    rows = cluster.rows()
    if rows is not None:
        ok(rows == {"servers": 0, "nodes": len(NODES), "vms": len(VMS)}, f"rows of the database: {rows}")
    cluster.stop_database()
    left = cluster.leftovers()
    comment("\n".join(left))
    ok(not left, "nothing is left behind")
    complaints = cluster.complaints()
    comment("\n".join(complaints))
    ok(not complaints, "no log has a line that should never be there")


def inside(options):
    chance = random.Random(options.seed)
    folder = options.keep or tempfile.mkdtemp(prefix="flyt-chaos-", dir="/tmp")
    os.makedirs(folder, exist_ok=True)
    comment(f"seed {options.seed}, {options.database}, {'TLS' if options.tls else 'no TLS'}, logs in {folder}")
    cluster = Cluster(os.path.realpath(folder), os.path.realpath(options.bin), options.database, options.tls)
    cluster.worker, cluster.vms = os.path.realpath(options.worker), VMS
    cluster.program_environment = sanitizer(cluster.bin)
    began = time.monotonic()
    try:
        cluster.start()
        ok(True, f"a cluster of {len(NODES)} nodes and {len(VMS)} VMs is up")
        before = descriptors(cluster)
        programs = Programs(cluster, options.seed, [])
        programs.start()
        until(lambda: healthy(cluster, programs, began), "programs run on both VMs", 60)
        ok(True, "programs run on both VMs")
        strike_all(cluster, programs, options, chance)
        finish(cluster, programs, before)
    except (AssertionError, OSError, subprocess.SubprocessError, KeyError) as error:
        comment(f"{type(error).__name__}: {error}")
        ok(False, "the test came to its end")
    comment(f"{time.monotonic() - began:.0f} s; again with --seed {options.seed}")
    plan()
    if not Tap.failed and not options.keep:
        subprocess.run(["umount", f"{folder}/db"])
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", help="folder with Flyt's programs")
    parser.add_argument("worker", help="build/cuda/cluster_worker")
    parser.add_argument("--database", choices=("sqlite", "mongo"), default="sqlite")
    parser.add_argument("--tls", action="store_true", help="certificates for all daemons")
    parser.add_argument("--seed", type=int, help="of the order and of everything else (random)")
    parser.add_argument("--rounds", type=int, default=1, help="how often each kind of blow falls (1)")
    parser.add_argument("--seconds", type=float, help="go on for so long instead")
    parser.add_argument("--all", action="store_true", help="also the kinds that take longer")
    parser.add_argument("--only", action="append", metavar="WORD",
                        help="only kinds with this in their names, in this order of chance")
    parser.add_argument("--first", action="store_true", help="end at the first blow that does harm")
    parser.add_argument("--bound", type=float, default=15,
                        help="seconds until the cluster must be healthy after a blow (15); on a machine with more "
                             "to do than processors up to six times as long")
    parser.add_argument("--keep", metavar="DIR",
                        help="where everything lies, to be looked at afterwards (a temporary folder, removed)")
    parser.add_argument("--user", action="store_true", help="use a user namespace although we are root")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 31)
    if not options.inside:
        machines.enter([*sys.argv, "--seed", str(options.seed), "--inside"], options.user)
    # Asked to end, we let our namespaces end everything.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    inside(options)
    sys.exit(1 if Tap.failed else 0)


if __name__ == "__main__":
    main()
