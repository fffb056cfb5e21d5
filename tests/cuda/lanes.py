#!/usr/bin/env python3
# shows: lanes: the number of connections is what was asked for; FLYT_PERF=no_lanes and FLYT_LANES=0 leave one
# shows: lanes: over a slow link whose connections take different times, so that bytes and calls pass each other, all
#   results are right
# shows: lanes: where nothing is said about them, a slow connection gets some in the middle of a copy, and what is
#   copied is right
# shows: lanes: killed in the middle of copies with -9, a client leaves no worker, and the end of a worker ends its
#   client with an error
# shows: lanes: records that make no sense, on either side, end their session with a sentence that says so
# shows: lanes: a lane that breaks ends its session, with a sentence that says so, and nobody else's
"""tests/cuda/lanes.py: large copies over TCP on connections of their own, plain or with TLS; TAP on stdout.

    lanes.py [--bin DIR] [--link PROGRAM] [--transport tcp|tls]
"""
import argparse
import contextlib
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import e2e  # noqa: E402
from testlib import comment, ok, plan, read, skip, soon  # noqa: E402

PROGRAM, FOREVER = "build/cuda/lanes", "build/cuda/forever"
SPARES = 2                              # workers that a server keeps ready


def say(good, name, details=""):
    ok(good, name)
    if not good:
        comment("\n".join(details.splitlines()[-20:]))


def start(bindir, uri, lanes, *words, perf="", program=PROGRAM):
    env = {**os.environ, **e2e.sanitizer_environment(bindir), "FLYT_LOG": "debug"}
    env.pop("FLYT_LANES", None)
    if lanes:
        env["FLYT_LANES"] = lanes
    if perf:
        env["FLYT_PERF"] = perf
    return subprocess.Popen([os.path.join(bindir, "flyt-run"), "--server", uri, program, *words], env=env,
                            stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL)


def said_by(program, seconds):
    try:
        return program.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        program.kill()
        return f"ran past {seconds} s\n" + program.communicate()[0]


def workers(server):
    with open(f"/proc/{server.process.pid}/task/{server.process.pid}/children") as file:
        return file.read().split()


def connections(port):
    """Established connections to a port of this machine, as the clients see them."""
    with open("/proc/net/tcp") as table:
        words = [line.split() for line in table]
    return sum(1 for w in words if len(w) > 3 and w[3] == "01" and int(w[2].split(":")[1], 16) == port)


def through(uri, port):
    """The same server, by way of another port: its certificate's fingerprint stays."""
    return re.sub(r":\d+(?=$|\?)", f":{port}", uri)


class Breaker:
    """Passes connections on; the second one, the first lane, ends with a reset after so many bytes, or has one byte
    changed: (0: to the server, 1: to the client; which). half: the server hears nothing of the reset."""

    def __init__(self, port, after=1 << 60, change=(2, 0), half=False):
        self.target, self.after, self.change, self.count, self.half = port, after, change, 0, half
        self.left_open = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.listener.accept()
            far = socket.create_connection(("127.0.0.1", self.target))
            self.count += 1
            left = [self.after if self.count == 2 else 1 << 60]
            for way, (source, sink) in enumerate(((near, far), (far, near))):
                change = self.change[1] if self.count == 2 and way == self.change[0] else -1
                threading.Thread(target=self.relay, args=(source, sink, left, change, near),
                                 daemon=True).start()

    def relay(self, source, sink, left, change, near):
        try:
            while left[0] > 0 and (data := source.recv(65536)):
                if 0 <= change < len(data):
                    data = data[:change] + bytes([data[change] ^ 0x40]) + data[change + 1:]
                change -= len(data)
                sink.sendall(data)
                left[0] -= len(data)
            if left[0] <= 0:
                if self.half:
                    time.sleep(1)           # what is left fits into the buffers: the client has written it meanwhile
                for end in (source, sink):
                    if self.half and end is not near:
                        self.left_open.append(end)
                        continue
                    # The thread of the other way may wait in recv, and would keep this connection open.
                    with contextlib.suppress(OSError):
                        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        end.shutdown(socket.SHUT_RD)
                    end.close()
            else:
                sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="bin")
    parser.add_argument("--link", default="build/plain/tests/bench_link")
    parser.add_argument("--transport", choices=["tcp", "tls"], default="tcp")
    arguments = parser.parse_args()
    bindir, folder = os.path.abspath(arguments.bin), tempfile.mkdtemp(prefix="flyt-lanes.")
    link = None
    try:
        server = e2e.Server(bindir, arguments.transport, "software", folder, {"FLYT_LOG": "info"})
        port = int(re.search(r":(\d+)(\?|$)", server.uri).group(1))
        for lanes, perf, expected in (("3:4096", "", 4), ("0", "", 1), ("3", "no_lanes", 1)):
            program = start(bindir, server.uri, lanes, "100000", perf=perf)
            seen = soon(lambda: connections(port) >= expected, 20)
            time.sleep(0.3)
            # the kernel's table is read in pieces: a line may be missed or come twice while others' sockets come and go
            say(seen and soon(lambda: connections(port) == expected, 2),
                f"FLYT_LANES={lanes}, FLYT_PERF={perf}: {expected} connections", f"{connections(port)} seen")
            program.kill()
            program.communicate()
            soon(lambda: connections(port) == 0, 10)

        link = subprocess.Popen([arguments.link, str(port), "200000000", "700"], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True)
        slow = through(server.uri, link.stdout.readline().split()[1])
        for lanes in ("3:4096", "1"):
            program = start(bindir, slow, lanes, "2", "12")
            output = said_by(program, 150)
            say(program.returncode == 0, f"a slow link, FLYT_LANES={lanes}", output)

        program = start(bindir, slow, "1", "event", "8")
        output = said_by(program, 100)
        say(program.returncode == 0, "a slow link, and an event that is asked for", output)

        program = start(bindir, slow, None, "plain", "32")
        output = said_by(program, 100)
        say(program.returncode == 0 and output.count("large copies get connections of their own") == 1,
            "a slow link, nothing said about lanes", output)

        program = start(bindir, server.uri, "3:4096", "100000")
        say(soon(lambda: connections(port) == 4, 20), "a client copies")
        program.send_signal(signal.SIGKILL)
        program.communicate()
        say(soon(lambda: len(workers(server)) <= SPARES, 10), "it is killed, and leaves no worker",
            str(workers(server)))

        spare = set(workers(server))
        program = start(bindir, server.uri, "3:4096", "100000")
        soon(lambda: connections(port) == 4, 20)
        time.sleep(0.2)
        owner = [line for line in read(server.log).splitlines()
                 if f" transport={arguments.transport}" in line][-1].split("[")[1].split("]")[0]
        os.kill(int(owner), signal.SIGKILL)
        try:
            output, _ = program.communicate(timeout=15)
        except subprocess.TimeoutExpired:
            program.kill()
            output = "still there after 15 s\n" + program.communicate()[0]
        say(program.returncode == 1 and "is lost" in output,
            f"the worker is killed, of {len(spare)} that there were: the client prints why and ends", output)

        beside = start(bindir, server.uri, "2:4096", "20")
        for half, after, *words in ((False, 40_000_000, PROGRAM, "100000"),
                                    # the one copy has been written, and the answer is waited for
                                    (True, 2_050_000, FOREVER, "2")):
            breaker = Breaker(port, after, half=half)
            program = start(bindir, through(server.uri, breaker.port), "1:4096", *words[1:], program=words[0])
            output = said_by(program, 30)
            say(program.returncode == 1 and "lane 1" in output and "broke" in output,
                f"a lane breaks{' at the client alone' if half else ''}: the client prints why and ends", output)
        try:
            output, _ = beside.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            beside.kill()
            output = beside.communicate()[0]
        say(beside.returncode == 0, "a program beside it does not notice", output)
        # What each side says first, then the high byte of a record's length and of its transfer.
        for change, sentence in (((0, 24 + 32 + 16), "what it sends on a lane is no record"),
                                 ((1, 8), "what was not asked for")):
            if arguments.transport == "tls":
                skip(f"a byte of a lane is changed: \"{sentence}\"", "TLS finds it")
                continue
            breaker = Breaker(port, change=change)
            program = start(bindir, f"tcp://127.0.0.1:{breaker.port}", "1:4096", "100000")
            try:
                output, _ = program.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                program.kill()
                output = "still there after 30 s\n" + program.communicate()[0]
            say(program.returncode == 1 and sentence in output, f"a byte of a lane is changed: \"{sentence}\"", output)
        status, log = server.stop()
        say(status == 0 and "signal=11 " not in log and "signal=6 " not in log, "the server stops cleanly",
            f"{status}\n{log}")
    finally:
        if link:
            link.stdin.close()
            link.wait(10)
        shutil.rmtree(folder, ignore_errors=True)
    return plan()


if __name__ == "__main__":
    sys.exit(main())
