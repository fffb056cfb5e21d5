#!/usr/bin/env python3
"""tests/comm/lossy.py BIN COLLECTIVES RANKS [CASE]: random collectives where one packet of TCP in fifty is lost.

COLLECTIVES is build/…/tests/comm_collectives, RANKS build/…/tests/nccl_ranks.

shows: collectives: 10,000 random ones over a network that loses packets, against a model: none is wrong, none hangs
shows: nccl: 1,000 random ones between GPUs of two servers over a network that loses packets, where the software GPUs
  delay and reorder what CUDA lets them (FLYT_SOFTGPU_CHAOS)

FLYT_COMM_SEED repeats a run. Needs root, and nft of Debian's nftables.
"""
import os
import random
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import Skip, case, need, plan, run_cases  # noqa: E402

BIN, COLLECTIVES, RANKS = (os.path.abspath(path) for path in sys.argv[1:4])
SEED = os.environ.get("FLYT_COMM_SEED") or str(random.randrange(1 << 31))
SPACE = f"flyt-lossy-{os.getpid()}"
RULES = """table inet loss {
  chain out {
    type filter hook output priority 0
    meta l4proto tcp numgen random mod 50 < 1 counter drop
  }
}"""


# What is lost is sent again by timers of the kernel, which come seconds late on a machine with too much to do. When a
# silent peer counts as dead is not looked at here.
PATIENT = {**os.environ, "FLYT_SILENCE": "60"}


def inside(*words):
    return ["ip", "netns", "exec", SPACE, *words]


def network(run):
    if os.geteuid() != 0:
        raise Skip("network namespaces need root")
    if not shutil.which("nft"):
        raise Skip("there is no nft (Debian's nftables)")
    subprocess.run(["ip", "netns", "add", SPACE], check=True)
    try:
        subprocess.run(["ip", "-n", SPACE, "link", "set", "lo", "up"], check=True)
        subprocess.run(inside("nft", "-f", "-"), input=RULES, text=True, check=True)
        run()
        lost = subprocess.run(inside("nft", "list", "ruleset"), capture_output=True, text=True, check=True).stdout
        packets = int(lost.split("packets ")[1].split()[0])
        print(f"# seed {SEED}, {packets} packets lost")
        need(packets > 0, lost)
    finally:
        subprocess.run(["ip", "netns", "del", SPACE], check=False)


@case
def ten_thousand_between_processors():
    def run():
        # Eight worlds of so many calls.
        environment = {**PATIENT, "FLYT_COMM_RANDOM": "1250", "FLYT_COMM_SEED": SEED, "FLYT_COMM_TCP": "1",
                       "FLYT_TEST_ONLY": "random_calls_of_all_kinds"}
        done = subprocess.run(inside(COLLECTIVES), env=environment, capture_output=True, text=True, timeout=570,
                              check=False)
        need(done.returncode == 0 and "ok 1 - random" in done.stdout, f"seed {SEED}: {done.stdout}{done.stderr}")
    network(run)


def logs(folder):
    said = ""
    for number in range(2):
        with open(f"{folder}/server.{number}") as log:
            said += f"server {number}: {log.read()}\n"
    return said


@case
def a_thousand_between_GPUs():
    def run():
        with tempfile.TemporaryDirectory(prefix="flyt-lossy.") as folder:
            servers, programs = [], []
            try:
                for number in range(2):
                    with open(f"{folder}/server.{number}", "w") as log:
                        servers.append(subprocess.Popen(
                            inside(f"{BIN}/cricket-rpc-server", "--gpu", "software", "--listen", "tcp://127.0.0.1:0",
                                   "--links", "tcp://127.0.0.1:*"),
                            stdout=subprocess.PIPE, stderr=log, text=True,
                            env={**PATIENT, "FLYT_SOFTGPU_DEVICES": "2", "FLYT_LOG": "info",
                                 "FLYT_SOFTGPU_CHAOS": str(int(SEED) + 1)}))
                    uri = servers[-1].stdout.readline().split()[-1]
                    programs.append(subprocess.Popen(
                        inside(f"{BIN}/flyt-run", "--server", uri, RANKS, "random", "4", str(2 * number), "2",
                               f"{folder}/id"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                        env={**PATIENT, "FLYT_COMM_INTERFACES": "lo", "FLYT_COMM_RANDOM": "1000",
                             "FLYT_COMM_SEED": SEED}))
                for program in programs:
                    said = program.communicate(timeout=570)[0]
                    need(program.returncode == 0 and said.splitlines()[-1] == "ok",
                         f"seed {SEED}: {said}{logs(folder)}")
            finally:
                for process in programs + servers:
                    process.kill()
                    process.wait()
    network(run)


run_cases([test for test in (ten_thousand_between_processors, a_thousand_between_GPUs)
           if not sys.argv[4:] or test.__name__ in sys.argv[4:]])
sys.exit(plan())
