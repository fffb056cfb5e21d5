#!/usr/bin/env python3
# shows: many-gpus: a random program over four GPUs (kernels, variables, copies of all kinds between them, sets, events
#   and waits across) gives the same on one server, on two and on four
# shows: many-gpus: CUDA_VISIBLE_DEVICES chooses among the GPUs of all servers
# shows: many-gpus: GPUs of two servers do not reach each other's memory, GPUs of one do; what several servers cannot do
#   is refused
# shows: many-gpus: arrays and textures of several servers, and copies from array to array
# shows: many-gpus: a program with several servers that is asked to move stays, says why, and goes on
# shows: many-gpus: memory, arrays and devices that queued copies between servers use can be freed
# shows: many-gpus: 700 copies between servers stand in one stream behind a kernel
# shows: many-gpus: copies and waits between servers go on while a host function waits for the program
# shows: many-gpus: a copy between servers that fails leaves an error that stays, also for what waits for the stream:
#   host functions there do not run, and callbacks are told the error
# shows: many-gpus: a server that is killed with -9 takes its GPUs with it (46), those of the others go on; a program
#   that asked for recovery is told at its start that there is none
# shows: many-gpus: copies between linked servers, of all shapes, cost the program's connections less than 1 KiB each,
#   whatever their size; without links their bytes pass through the program
# shows: many-gpus: a synchronous copy between two devices comes behind all work of both; peer copies between variables
#   whose addresses are equal at two servers are between those of the devices that they name
# shows: many-gpus: kernels of GPUs of several servers use the same pinned memory, and wait for what the program and
#   each other write there, where all servers are reached over a network; a kernel behind an event of another server
#   sees what the kernels before the event wrote, and what copies in between did
# shows: many-gpus: graphs with captured copies between several servers, also of variables whose addresses are equal
# shows: many-gpus: UUIDs and PCI ids of GPUs of several servers differ
# shows: many-gpus: a link that is cut, or that the administrator has not allowed, costs no copy: bytes then pass
#   through the program
# shows: many-gpus: an address that is none, and a server that is not there, are named
"""tests/cuda/several.py: one program, GPUs of several servers; TAP on stdout.

    several.py [--bin DIR] [--seeds N] [--steps N] [--chaos SEED]
"""
import argparse
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from e2e import Server  # noqa: E402
from testlib import comment, ok, plan, sanitizer_environment  # noqa: E402

PROGRAM, ACROSS = "build/cuda/several", "build/cuda/across"


class Servers:
    """Software GPU servers with so many GPUs each; every second one over TCP, with `links` all."""

    def __init__(self, bindir, folder, counts, chaos, links=None):
        self.all = []
        more = ("--workers", "1", *(("--links", links) if links else ()))
        for number, count in enumerate(counts):
            own = tempfile.mkdtemp(dir=folder)
            env = {"FLYT_SOFTGPU_DEVICES": str(count), "FLYT_SOFTGPU_CHAOS": str(chaos)}
            self.all.append(Server(bindir, "tcp" if number % 2 or links else "unix", "software", own, env, more=more))
        self.uri = ",".join(server.uri for server in self.all)

    def kill(self, number):
        """With the workers: nobody says goodbye."""
        server = self.all.pop(number)
        with open(f"/proc/{server.process.pid}/task/{server.process.pid}/children") as file:
            workers = [int(pid) for pid in file.read().split()]
        server.process.kill()
        for pid in workers:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        server.process.wait()

    def stop(self):
        return [server.stop()[0] for server in self.all]


class Proxy:
    """Hands on what comes to its port. cut() ends all connections but the first one, and takes no more."""

    def __init__(self, uri):
        host, port = uri.removeprefix("tcp://").split(":")
        self.target, self.pairs = (host, int(port)), []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.uri = f"tcp://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near = self.listener.accept()[0]
            except OSError:
                return
            self.arrived()
            far = socket.create_connection(self.target)
            self.pairs.append((near, far))
            for one, other in ((near, far), (far, near)):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self.pass_on, args=(one, other), daemon=True).start()

    def arrived(self):
        """A connection has come."""

    @staticmethod
    def pass_on(one, other):
        try:
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def cut(self):
        self.listener.close()
        for pair in self.pairs[1:]:
            for side in pair:
                try:
                    side.shutdown(socket.SHUT_RDWR)
                except OSError:         # it has ended already
                    pass
        return len(self.pairs) - 1


def program(arguments, uri, *words, what=PROGRAM, **more):
    env = {**os.environ, **sanitizer_environment(arguments.bin), **more}
    return subprocess.Popen([os.path.join(arguments.bin, "flyt-run"), "--server", uri, what, *words], env=env,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(arguments, uri, *words, **more):
    process = program(arguments, uri, *words, **more)
    try:
        out, err = process.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        err += "ran past 300 s\n"
    return process.returncode, out, err


def say(good, name, *details):
    ok(good, name)
    for text in () if good else details:
        comment("\n".join(str(text).splitlines()[-20:]))


def same_everywhere(arguments, one, two, four):
    for seed in range(1, arguments.seeds + 1):
        words = ("random", str(seed), str(arguments.steps))
        results = [run(arguments, servers.uri, *words) for servers in (one, two, four)]
        good = all(status == 0 for status, _, _ in results) and len({out for _, out, _ in results}) == 1
        say(good and "4 devices" in results[0][1], f"seed {seed}: the same on 1, 2 and 4 servers", *results)


def chosen(arguments, two):
    status, out, err = run(arguments, two.uri, "look", CUDA_VISIBLE_DEVICES="3,0,2")
    reach = re.findall(r"(\d) reaches (\d): (\d), enabling gives (\d+)", out)
    of_one = {(a, b) for a, b, can, code in reach if can == "1" and code == "0"}
    apart = {(a, b) for a, b, can, code in reach if can == "0" and code == "217"}
    say(status == 0 and out.startswith("3 devices"), "three of four devices of two servers are chosen", out, err)
    say(of_one == {("0", "2"), ("2", "0")} and len(apart) == 4,
        "devices of one server reach each other's memory, those of two do not", out)
    say("managed memory gives 801" in out and "other programs gives 801" in out,
        "managed memory and memory of several programs are refused", out)


def arrays(arguments, two):
    status, out, err = run(arguments, two.uri, "arrays")
    say(status == 0 and out == "0 pairs wrong\n", "arrays and textures of all devices", out, err)


def freed(arguments, two):
    status, out, err = run(arguments, two.uri, "freed")
    expected = "source freed: 31\nsource freed in the stream: 32\narray freed: 0\ndevice reset: 0\ndevice 0: 34\n"
    say(status == 0 and out == expected, "a free waits for queued copies across", out, err)


def crowd(arguments, two):
    status, out, err = run(arguments, two.uri, "crowd")
    say(status == 0 and out == "many copies: 0\nthe last one: 61\n", "many copies across in one stream", out, err)


def held(arguments, two):
    status, out, err = run(arguments, two.uri, "held")
    say(status == 0 and out == "while a host function waits: 41\n",
        "a copy and a wait across pass a host function that waits for the program", out, err)


def behind(arguments, servers):
    process = program(arguments, servers.uri, "behind")
    ready = process.stdout.readline()
    servers.kill(len(servers.all) - 1)
    out, err = process.communicate("go\n", timeout=120)
    expected = "the next stream: 46\nthe stream: 46\nagain: 46\nmemory: 46\ndevice 2: 0\n" \
               "functions: 0 ran, a callback was told 46\n"
    say(ready == "ready\n" and process.returncode == 0 and out == expected,
        "what is behind a failed copy across fails, and nothing else does", out, err)
    say("a copy between GPU servers failed with error 46" in err, "the failed copy is named", err)


def traffic(arguments, servers, linked):
    status, out, err = run(arguments, servers.uri, "traffic")
    match = re.fullmatch(r"0 wrong, at most (\d+) bytes\n", out)
    most = int(match.group(1)) if match else -1
    comment(f"{'with' if linked else 'without'} links: {most} bytes for a copy of 24 MiB")
    say(status == 0 and (0 < most <= 1024 if linked else most > 24 << 20),
        "copies go straight between linked servers" if linked else "without links bytes pass through the program",
        out, err)


def peer(arguments, servers, what):
    status, out, err = run(arguments, servers.uri, "peer")
    expected = "behind the other device's work: 71\nvariables: 100 100\nvariables: 100 100\n" \
               "from variable to variable: 100\n"
    say(status == 0 and out == expected, f"peer copies wait for both devices, and name variables ({what})", out, err)


def graph(arguments, servers):
    """A capture takes no cudaMemcpyPeerAsync, with one server or several."""
    status, out, err = run(arguments, servers.uri, "graph", what=ACROSS)
    expected = "launch: 5 5 5\nlaunch: 10 10 10\nlaunch: 15 15 15\nvariable: 700\ncaptured peer copy: 900\n" \
               "the capture: 901\n"
    say(status == 0 and out == expected, f"a graph copies between {len(servers.all)} servers", out, err)


def mapped(arguments, servers, can):
    status, out, err = run(arguments, servers.uri, "mapped", what=ACROSS)
    expected = "can map: 1 1\none after the other: 0 wrong\na kernel waits for the program: 42\n" \
               "a kernel waits for one of another device: 61\nwith copies between: 0 wrong\n" \
               "behind events: 0 wrong\n"
    refused = "can map: 0 0\na kernel that uses it: 700\n"
    say(status == 0 and out == (expected if can else refused) and (can or "several GPU servers, of which all" in err),
        f"pinned memory that kernels of {len(servers.all)} servers use" if can else
        "no pinned memory for kernels where one of the servers shares memory with the program", out, err)


def names(arguments, servers):
    status, out, err = run(arguments, servers.uri, "names")
    say(status == 0 and out == "4 devices, 0 same UUIDs, 0 wrong places\n",
        "UUIDs and PCI ids of several servers differ", out, err)


def cut(arguments, servers):
    proxies = [Proxy(server.uri) for server in servers.all]
    process = program(arguments, ",".join(proxy.uri for proxy in proxies), "cut")
    ready = process.stdout.readline()
    ended = sum(proxy.cut() for proxy in proxies)
    out, err = process.communicate("go\n", timeout=120)
    say(ready == "ready\n" and ended > 1 and process.returncode == 0 and
        out == "a copy: 0\nit has: 9090909\none that waits: 0\nit has: b0b0b0b\n",
        "a link that is cut costs no copy", ended, out, err)
    say("has failed" in err and "pass through this program" in err, "it is said once that the link has failed", err)


def refused(arguments, servers):
    status, out, err = run(arguments, servers.uri, "freed")
    say(status == 0 and "source freed: 31" in out and "--links of this GPU server does not name it" in err,
        "a link that is not allowed costs no copy, and why is said", out, err)


def stays(arguments, two):
    status, out, err = run(arguments, two.uri, "stay", two.all[0].uri)
    say(status == 0 and "move: 801, the program has several GPU servers" in out and "device 0: 0" in out,
        "a program with several servers does not move, says why, and goes on", out, err)


def lost(arguments, servers, number):
    devices = len(servers.all)
    process = program(arguments, servers.uri, "lost", FLYT_RECOVERY="journal")
    ready = process.stdout.readline()
    servers.kill(number)
    out, err = process.communicate("go\n", timeout=120)
    good = all(f"device {d}: {46 if d == number else 0}" in out for d in range(devices)) and out.count(": 46") >= 2
    good = good and ready == "ready\n" and process.returncode == 0
    say(good, "the GPU of a killed server gives 46, the others go on", out, err)
    say("device 0 at the end: 0" in out and "free: 0" in out and f"from {number} to 0: 46" in out,
        "a copy from it fails with 46, and nothing else does", out)
    say("that concerns its GPUs" in err, "it is said which server was lost", err)
    say("it has several GPU servers, and recovery is for programs with one" in err,
        "where recovery was asked for, it is said that there is none", err)


def named(arguments, one):
    for uri, words in ((one.uri + ",local:", "local:"), (one.uri + ",unix:///nowhere/at/all", "/nowhere/at/all")):
        status, out, err = run(arguments, uri, "look")
        say(status != 0 and words in err, f"{words} in the list is named", out, err)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", default="bin")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--chaos", type=int, default=0)
    arguments = parser.parse_args()
    arguments.bin = os.path.abspath(arguments.bin)
    folder = tempfile.mkdtemp(prefix="flyt-several-")
    started = []
    try:
        for counts, links in (((4,), None), ((2, 2), None), ((1, 1, 1, 1), "tcp://127.0.0.1:*")):
            started.append(Servers(arguments.bin, folder, counts, arguments.chaos, links))
        one, two, four = started
        same_everywhere(arguments, one, two, four)
        chosen(arguments, two)
        arrays(arguments, two)
        freed(arguments, two)
        crowd(arguments, two)
        held(arguments, two)
        arrays(arguments, four)
        freed(arguments, four)
        crowd(arguments, four)
        held(arguments, four)
        traffic(arguments, four, True)
        traffic(arguments, two, False)
        peer(arguments, one, "one server")
        peer(arguments, two, "two servers")
        peer(arguments, four, "four servers that are linked")
        for servers in started:
            graph(arguments, servers)
        mapped(arguments, four, True)
        mapped(arguments, two, False)
        names(arguments, one)
        names(arguments, four)
        stays(arguments, two)
        named(arguments, one)
        lost(arguments, four, 2)
        fresh = Servers(arguments.bin, folder, (1, 1, 1, 1), arguments.chaos, "tcp://127.0.0.1:*")
        started.append(fresh)
        behind(arguments, fresh)
        linked = Servers(arguments.bin, folder, (1, 1), arguments.chaos, "tcp://127.0.0.1:*")
        started.append(linked)
        cut(arguments, linked)
        strangers = Servers(arguments.bin, folder, (1, 1), arguments.chaos, "tcp://127.0.0.1:1")
        started.append(strangers)
        refused(arguments, strangers)
    finally:
        statuses = [status for servers in started for status in servers.stop()]
        shutil.rmtree(folder, ignore_errors=True)
    say(statuses == [0] * 13, "the servers end in good order", statuses)
    return plan()


if __name__ == "__main__":
    sys.exit(main())
