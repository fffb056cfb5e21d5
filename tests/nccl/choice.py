#!/usr/bin/env python3
"""tests/nccl/choice.py BIN PROGRAM WITH_PATH OWN: whose NCCL a program uses. PROGRAM and WITH_PATH are chooses.c, the
latter with a DT_RPATH to the folder of OWN, which is own.c as libnccl.so.2.

shows: nccl: without FLYT_NCCL a program uses Flyt's libnccl.so.2, also where a DT_RPATH names its own; with
  FLYT_NCCL=program its own
shows: nccl: where the GPU server carries out no collectives, or cannot keep them in graphs, the program's own NCCL gets
  all calls with all their arguments; if there is none, that is said once, and calls fail
shows: nccl: with a GPU server of the release before windows are NULL, and signals refused
shows: nccl: a program that needs NCCL's device API reads once that FLYT_NCCL=program is the way to its own
"""
import os
import re
import socket
import subprocess
import sys
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import GpuServer, case, need, plan, run_cases  # noqa: E402

BIN, PROGRAM, WITH_PATH, OWN = (os.path.abspath(path) for path in sys.argv[1:5])
KEPT_COLLECTIVES, PENDING, ONE_SIDED = 1 << 30, 1 << 36, 1 << 37
FLYTS = ["id 0 FlytNCCL, version 22809, no error", "communicator 0", "device API 5 5", "properties 5 5",
         "window 0 1, signal 0", "destroyed 0"]
OWNS = ["id 0 ZZZZZZZZ, version 21901, own", "own: group start", f"own: rank 0 of 1, sum {128 * 0x5a}",
        "own: group end", "communicator 0", "own: reduce 0x1 0x2 3 4 5 6 1 8", "device API 0 0", "properties 5 5",
        "destroyed 0"]


def serve():
    return GpuServer(BIN, "tcp://127.0.0.1:0", more=("--workers", "1"))


class Earlier:
    """Between a program and a server: takes a capability out of the answer to HELLO, as of an earlier release."""

    def __init__(self, uri, capability):
        self.server, self.capability = uri, capability
        self.changed = 0
        self.listening = socket.socket()
        self.listening.bind(("127.0.0.1", 0))
        self.listening.listen(8)
        self.uri = f"tcp://127.0.0.1:{self.listening.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        host, port = self.server[len("tcp://"):].rsplit(":", 1)
        while True:
            program, _ = self.listening.accept()
            server = socket.create_connection((host, int(port)))
            threading.Thread(target=self.carry, args=(program, server, False), daemon=True).start()
            threading.Thread(target=self.carry, args=(server, program, True), daemon=True).start()

    def carry(self, source, to, answers):
        """The answer to HELLO has the capabilities (8 bytes) before the server's name, a string."""
        try:
            while bytes_ := source.recv(1 << 16):
                at = bytes_.find(b"Flyt ") if answers else -1
                if at >= 12 and not self.changed:
                    value = int.from_bytes(bytes_[at - 12:at - 4], "big")
                    need(value & self.capability, "the server lacks the capability already")
                    bytes_ = bytes_[:at - 12] + (value & ~self.capability).to_bytes(8, "big") + bytes_[at - 4:]
                    self.changed += 1
                to.sendall(bytes_)
        except OSError:
            pass
        for end in source, to:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def run(program, server, everything=True, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FLYT_NCCL")}
    environment.update({"FLYT_COMM_INTERFACES": "lo", **variables})
    said = subprocess.run([os.path.join(BIN, "flyt-run"), "--server", server, program] + ["all"] * everything,
                          env=environment, text=True, capture_output=True, timeout=60, check=False)
    need(said.returncode == 0, said)
    return said.stdout.splitlines(), said.stderr


def need_warning(stderr, pattern, times=1):
    need(len(re.findall(pattern, stderr)) == times, (pattern, stderr))


@case
def flyts_without_a_word():
    with serve() as server:
        out, err = run(PROGRAM, server.uri)
        need(out == FLYTS, (out, err))
        need_warning(err, r"ncclDevCommCreate: .* has no device API; with FLYT_NCCL=program")
        need_warning(err, "ncclCommQueryProperties is not supported")
        for whose in "flyt", "":
            out, err = run(WITH_PATH, server.uri, FLYT_NCCL=whose)
            need(out == FLYTS, (out, err))


@case
def the_programs_own_by_the_switch():
    with serve() as server:
        out, err = run(WITH_PATH, server.uri, everything=False, FLYT_NCCL="program")
        need(out == [line for line in OWNS if not line.startswith("properties")], (out, err))


@case
def the_programs_own_where_the_server_has_none():
    for program, variables in ((PROGRAM, {"FLYT_NCCL_PROGRAM": OWN}), (WITH_PATH, {}),
                               (PROGRAM, {"LD_LIBRARY_PATH": os.path.dirname(OWN)})):
        out, err = run(program, "local:software", FLYT_LOG="info", **variables)
        need(out == OWNS, (program, variables, out, err))
        need_warning(err, r"local:software carries out no collectives \(it is a part of .*uses its own NCCL, .*"
                     + re.escape(OWN))
        need_warning(err, "function of NCCL that its own .* lacks")
        need("FLYT_NCCL=program" not in err, err)


@case
def the_programs_own_where_graphs_cannot_keep_collectives():
    with serve() as server:
        earlier = Earlier(server.uri, KEPT_COLLECTIVES)
        out, err = run(WITH_PATH, earlier.uri, FLYT_LOG="info")
        need(out == OWNS and earlier.changed == 1, (out, err))
        need_warning(err, r"carries out no collectives \(it is of an earlier release\): the program uses its own NCCL")


@case
def flyts_where_the_server_does_not_say_what_is_under_way():
    with serve() as server:
        earlier = Earlier(server.uri, PENDING)
        out, err = run(PROGRAM, earlier.uri)
        need(out == FLYTS and earlier.changed == 1, (out, err))


@case
def no_windows_where_the_server_has_none():
    with serve() as server:
        earlier = Earlier(server.uri, ONE_SIDED)
        out, err = run(PROGRAM, earlier.uri)
        need(out == FLYTS[:4] + ["window 0 0, signal 4", "destroyed 0"] and earlier.changed == 1, (out, err))


@case
def none_is_said_once():
    for named in "/nowhere/libnccl.so.2", os.path.join(BIN, "nccl/libnccl.so.2"), "/proc/self/exe":
        out, err = run(PROGRAM, "local:software", FLYT_NCCL_PROGRAM=named)
        need(out[0] == FLYTS[0] and out[1:] == ["communicator 5", "device API 5 5", "properties 5 5", "destroyed -1"],
             (out, err))
        need_warning(err, "local:software carries out no collectives.*no libnccl.so.2 of the program's own was found")


@case
def the_switch_has_two_values():
    said = subprocess.run([os.path.join(BIN, "flyt-run"), "true"], env={**os.environ, "FLYT_NCCL": "both"},
                          text=True, capture_output=True, timeout=60, check=False)
    need(said.returncode == 125 and "FLYT_NCCL is flyt or program, not both" in said.stderr, said)


run_cases()
sys.exit(plan())
