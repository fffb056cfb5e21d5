#!/usr/bin/env python3
"""tests/cuda/messages.py [--bin DIR]: what a user sees when something is wrong; TAP on stdout.

shows: messages: a bad address, page-locked memory that does not suffice, pinned memory that kernels cannot
   reach, a server that is not there, a fat binary cut in half, a kernel with no PTX, no memory left
shows: statistics: a table and JSON whose rows add up; switches of FLYT_PERF as documented
shows: the image cache: the second start of a program sends no code
shows: life and death: client or server killed, server stopped, a long kernel, a neighbour that faults

Each case runs a real program and checks its error code and that the message names what was tried, on what, and why.
Also: two programs of one server at once, one of which faults.
"""
import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
from e2e import Server, sanitizer_environment  # noqa: E402
from testlib import case, need, plan, run_cases  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--bin", default="bin")
options = parser.parse_args()
BIN = os.path.abspath(options.bin)
PROGRAMS = os.path.join(ROOT, "build/cuda")
ENVIRONMENT = {**os.environ, **sanitizer_environment(BIN)}


def flyt(uri, program, **env):
    return subprocess.run([os.path.join(BIN, "flyt-run"), "--server", uri, program], capture_output=True, text=True,
                          errors="replace", timeout=60, env={**os.environ, **sanitizer_environment(BIN), **env})


def says(done, *patterns):
    """The program failed, and its stderr has each pattern."""
    text = done.stdout + done.stderr
    if done.returncode == 0:
        return "it succeeded:\n" + text
    for pattern in patterns:
        if not re.search(pattern, text):
            return f"no /{pattern}/ in:\n{text}"
    return None


@case
def host_memory_that_does_not_suffice(_):
    """Everything still works; that some of it became ordinary memory is said once."""
    folder = tempfile.mkdtemp(prefix="flyt-host.")
    small = Server(BIN, "shm", "software", folder, {}, more=["--host-memory", "26M"])
    try:
        done = subprocess.run([os.path.join(BIN, "flyt-run"), "--server", small.uri, f"{PROGRAMS}/pinned", "small"],
                              capture_output=True,
                              text=True, errors="replace", timeout=110, env=ENVIRONMENT)
        status, log = small.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if done.returncode or status:
        return f"exit status {done.returncode}, server {status}:\n{done.stdout}{done.stderr}{log}"
    told = done.stderr.count("of page-locked memory do not fit in the 26 MiB")
    return None if told == 1 and "--host-memory" in done.stderr else f"said {told} times:\n{done.stderr}"


@case
def pinned_memory_that_no_kernel_can_reach(_):
    """Where this side has no room for the window of host memory, over a network and not: an error, and the reason."""
    problem = None
    for transport in "tcp", "unix":
        folder = tempfile.mkdtemp(prefix="flyt-pinned.")
        server = Server(BIN, transport, "software", folder, {})
        try:
            done = subprocess.run([os.path.join(BIN, "flyt-run"), "--server", server.uri, f"{PROGRAMS}/pinned_kernels",
                                   "large"], capture_output=True, text=True, timeout=20,
                                  env={**ENVIRONMENT, "FLYT_PERF": "no_payload"})
            problem = problem or says(done, "canMapHostMemory", "no_payload", r"\(700\)")
        except subprocess.TimeoutExpired:
            problem = f"over {transport} the program hangs"
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return problem


@case
def pinned_memory_that_a_kernel_cannot_reach_over_a_network(_):
    """The message names kernel, address and reason. Where it can be had, the kernel just runs."""
    folder = tempfile.mkdtemp(prefix="flyt-pinned.")
    small = Server(BIN, "tcp", "software", folder, {}, more=["--host-memory", "8M"])
    kernel, problem = r"kernel \S*store\S* writes to address 0x[0-9a-f]+, which is ", None
    try:
        for what, perf, *patterns in (
                ("registered", "", kernel + "registered host memory of this program", "cudaHostGetDevicePointer",
                 "end 700"),
                ("freed", "", kernel + "no memory, but lies among the pinned host memory", "freed", "end 700"),
                ("large", "", kernel + "pinned host memory of this program", "--host-memory", "end 700"),
                ("large", "no_pull", "262144 KiB of pinned host memory at 0x", "--host-memory", "launch 2"),
                ("by way of device memory", "", None),
                ("by way of device memory", "no_pull", "pinned host memory", "parameter of the launch", "end 700")):
            done = subprocess.run([os.path.join(BIN, "flyt-run"), "--server", small.uri, f"{PROGRAMS}/pinned_kernels",
                                   what], capture_output=True, text=True, timeout=60,
                                  env={**ENVIRONMENT, "FLYT_PERF": perf})
            text = done.stdout + done.stderr
            address = re.search(r"address (0x[0-9a-f]+): launch", text)
            if patterns[0] is None:
                wrong = None if done.returncode == 0 and not done.stderr else f"it failed:\n{text}"
            else:
                wrong = says(done, *patterns)
            if not wrong and what in ("registered", "freed", "large") and text.count(address[1]) < 2:
                wrong = f"the message does not name the address:\n{text}"
            if wrong:
                problem = f"{problem or ''}{what}, {perf}: {wrong}\n"
        small.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return problem


@case
def a_server_address_that_is_none(server):
    return says(flyt("carrier-pigeon://loft", f"{PROGRAMS}/vector_add"), r"carrier-pigeon://loft", r"tcp://|unix://",
                r"\(802\)|\(1\)")


@case
def a_server_that_is_not_there(server):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return says(flyt(f"tcp://127.0.0.1:{port}", f"{PROGRAMS}/vector_add"), rf"127\.0\.0\.1:{port}", r"refused",
                r"\(802\)")


@case
def a_host_name_that_is_unknown(server):
    return says(flyt("tcp://no-such-host.invalid:1", f"{PROGRAMS}/vector_add"), r"no-such-host\.invalid", r"\(802\)")


@case
def a_socket_that_is_not_there(server):
    return says(flyt("unix:///nonexistent/flyt.sock", f"{PROGRAMS}/vector_add"), r"/nonexistent/flyt\.sock",
                r"No such file", r"\(802\)")


@case
def a_peer_that_speaks_something_else(server):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def answer():
            peer, _ = listener.accept()
            peer.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n" * 3)
            time.sleep(1)
            peer.close()
        threading.Thread(target=answer, daemon=True).start()
        return says(flyt(f"tcp://127.0.0.1:{listener.getsockname()[1]}", f"{PROGRAMS}/vector_add"), r"127\.0\.0\.1",
                    r"\(802\)|\(46\)")


@case
def a_fat_binary_cut_in_half(server):
    with open(f"{PROGRAMS}/vector_add", "rb") as file:
        image = bytearray(file.read())
    cut = 0
    position = 0
    while (position := image.find(b"\x28\xb5\x2f\xfd", position)) >= 0:   # zstd frames: the PTX
        image[position + 40:position + 400] = bytes(360)
        position += 4
        cut += 1
    path = os.path.join(server.folder, "half")
    with open(path, "wb") as file:
        file.write(image)
    os.chmod(path, 0o755)
    if not cut:
        return "no compressed image found to cut"
    return says(flyt(server.uri, path), r"zstd|compress|malformed|image", r"\(200\)|\(209\)|\(218\)")


@case
def a_kernel_with_no_ptx(server):
    return says(flyt(server.uri, f"{PROGRAMS}/vector_add-noptx"), r"no PTX|PTX", r"\(209\)")


@case
def no_memory_left(server):
    done = flyt(server.uri, f"{PROGRAMS}/exhaustion")
    return None if done.returncode == 0 else done.stdout + done.stderr      # the program itself checks code and message


@case
def two_programs_and_one_faults(server):
    good = subprocess.Popen([os.path.join(BIN, "flyt-run"), "--server", server.uri, f"{PROGRAMS}/threads"],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT)
    bad = flyt(server.uri, f"{PROGRAMS}/sticky")
    output, _ = good.communicate(timeout=60)
    if bad.returncode:
        return "the faulting one did not see its own errors as it should:\n" + bad.stdout + bad.stderr
    return None if good.returncode == 0 else "the other one was disturbed:\n" + output


@case
def statistics_as_a_table(server):
    done = flyt(server.uri, f"{PROGRAMS}/memory", FLYT_STATS="1")
    head = re.search(r"^flyt: (\d+) calls travelled, (\d+) of them waited for; (\d+) answered by the client alone; "
                     r"(\d+) bytes sent, "
                     r"(\d+) received over shm$", done.stderr, re.M)      # by itself, behind a unix socket
    rows = re.findall(r"^flyt: +(\d+) +(\d+) +(\d+) +(\d+) +([\d.]+) +([\d.]+) +([\d.]+)  FLYT_\w+$", done.stderr, re.M)
    copies = re.findall(r"^flyt: +(\d+) +(\d+) +(\d+) +[\d.]+ +[\d.]+ +[\d.]+  copies, (?:pageable|pinned) to device$",
                        done.stderr, re.M)
    if done.returncode or not head or not rows or not copies:
        return "no statistics, or no copies in them:\n" + done.stderr
    if sum(int(r[0]) for r in rows) != int(head[1]) or sum(int(r[1]) for r in rows) != int(head[2]):
        return "the rows do not add up to the first line:\n" + done.stderr
    if not re.search(r"^flyt: left at the end: contexts 1, ", done.stderr, re.M):
        return "no objects are counted:\n" + done.stderr
    return None if all(float(r[5]) <= float(r[6]) for r in rows) else "a p50 is above its p99:\n" + done.stderr


@case
def statistics_for_machines(server):
    done = flyt(server.uri, f"{PROGRAMS}/vector_add", FLYT_STATS="json")
    found = [line for line in done.stderr.splitlines() if line.startswith("{")]
    if done.returncode or len(found) != 1:
        return "not one line of JSON:\n" + done.stderr
    all_of_it = json.loads(found[0])["flyt"]
    rows = all_of_it["procedures"]
    launch, hello = rows["FLYT_LAUNCH"], rows["FLYT_HELLO"]
    if sum(r["calls"] for r in rows.values()) != all_of_it["calls"] or launch["calls"] < 1 or launch["waited"]:
        return found[0]
    if hello["bytes_received"] < 500 or not 0 < hello["p50_us"] <= 1.1 * 1000 * hello["total_ms"]:
        return found[0]
    if all_of_it["objects"]["contexts"] != 1 or all_of_it["objects"]["allocations"]:
        return found[0]
    silent = flyt(server.uri, f"{PROGRAMS}/vector_add", FLYT_STATS="0")
    return "FLYT_STATS=0 says something:\n" + silent.stderr if "flyt" in silent.stderr else None


@case
def the_second_start_sends_no_code(_):
    def start(server):
        done = flyt(server.uri, f"{PROGRAMS}/vector_add", FLYT_STATS="json")
        rows = json.loads(next(line for line in done.stderr.splitlines() if line.startswith("{")))["flyt"]["procedures"]
        sent = rows.get("FLYT_IMAGE_DATA", {"calls": 0, "bytes_sent": 0})
        return done.returncode, rows["FLYT_IMAGE"]["calls"], sent["calls"], sent["bytes_sent"]

    folder = tempfile.mkdtemp(prefix="flyt-images.")
    fresh = Server(BIN, "tcp", "software", folder, {})
    try:
        first, second = start(fresh), start(fresh)
    finally:
        fresh.stop()
        shutil.rmtree(folder, ignore_errors=True)
    if first[0] or second[0] or not first[1] or first[1] != second[1]:
        return f"{first} {second}"
    if not first[2] or first[3] < 500:
        return f"the first start sends no code, so this shows nothing: {first}"
    return f"the second start sends code: {second}" if second[2] or second[3] else None


@case
def a_switch_that_is_none_is_named_with_those_that_there_are(server):
    done = flyt(server.uri, f"{PROGRAMS}/vector_add", FLYT_PERF="no_shm,no_brakes")
    match = re.search(r"FLYT_PERF: no_brakes is not a switch of this version; it has ([\w, ]+)", done.stderr)
    if done.returncode or not match:
        return done.stdout + done.stderr
    switches = set(match[1].split(", "))
    with open(os.path.join(ROOT, "docs/settings.md")) as file:
        words = re.findall(r"(?m)^\| `(no_\w+)` \|", file.read())
    if set(words) != switches:
        return f"docs/settings.md has others than {sorted(switches)}"
    text = subprocess.run([os.path.join(BIN, "flyt-run"), "--help"], capture_output=True, text=True).stdout
    if set(re.findall(r"\bno_\w+", text)) != switches:
        return f"flyt-run --help has others than {sorted(switches)}"
    done = flyt(server.uri, f"{PROGRAMS}/vector_add", FLYT_PERF=",".join(switches))
    return None if done.returncode == 0 else "with all of them it fails:\n" + done.stdout + done.stderr


@case
def a_way_to_register_that_is_none_or_of_no_use_is_said_once(server):
    for value, switches, words in (("1", "", "remap is the only value"),
                                   ("remap", "no_payload", "share no host memory")):
        done = flyt(server.uri, f"{PROGRAMS}/joined", FLYT_REGISTER=value, FLYT_PERF=switches)
        if done.returncode or done.stderr.count("FLYT_REGISTER") != 1 or words not in done.stderr:
            return done.stdout + done.stderr
    return None


@case
def the_server_is_killed(server):
    other = Server(BIN, "unix", "software", tempfile.mkdtemp(dir=server.folder), {})
    program = subprocess.Popen([os.path.join(BIN, "flyt-run"), "--server", other.uri, f"{PROGRAMS}/forever"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT)
    program.stdout.readline()                                    # it says when its kernel runs
    other.process.send_signal(signal.SIGKILL)
    started = time.monotonic()
    try:
        output, _ = program.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        program.kill()
        return "the program hangs"
    if time.monotonic() - started > 12:
        return f"it noticed only after {time.monotonic() - started:.0f} s"
    return None if program.returncode == 3 and "(46)" in output else f"exit {program.returncode}:\n{output}"


@case
def a_long_kernel_is_waited_for_and_a_stopped_server_is_noticed(server):
    other = Server(BIN, "tcp", "software", tempfile.mkdtemp(dir=server.folder), {})
    program = subprocess.Popen([os.path.join(BIN, "flyt-run"), "--server", other.uri, f"{PROGRAMS}/forever"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT)
    program.stdout.readline()
    workers = subprocess.run(["pgrep", "-P", str(other.process.pid)], capture_output=True, text=True).stdout.split()
    try:
        program.wait(13)                     # longer than a silent server is waited for
        return "a kernel that runs for 13 s was given up:\n" + program.stdout.read()
    except subprocess.TimeoutExpired:
        pass
    for pid in workers:
        os.kill(int(pid), signal.SIGSTOP)
    started = time.monotonic()
    try:
        output, _ = program.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        program.kill()
        return "a stopped server is not noticed within 20 s"
    finally:
        for pid in workers:
            os.kill(int(pid), signal.SIGKILL)
        other.stop()
    waited = time.monotonic() - started
    if program.returncode != 3 or "(46)" not in output:
        return f"exit {program.returncode}:\n{output}"
    return None if waited < 12 else f"noticed after {waited:.0f} s"


@case
def a_client_is_killed_and_its_worker_goes(server):
    def workers():
        return len(subprocess.run(["pgrep", "-P", str(server.process.pid)], capture_output=True,
                                  text=True).stdout.split())
    before = workers()
    program = subprocess.Popen([os.path.join(BIN, "flyt-run"), "--server", server.uri, f"{PROGRAMS}/forever"],
                               stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
    program.stdout.readline()
    program.send_signal(signal.SIGKILL)
    program.wait()
    for _ in range(100):
        if workers() <= before:
            return None
        time.sleep(0.1)
    return f"{workers()} workers, {before} before: the kernel of the dead client still runs"


def call(function, server):
    """A case returns what is wrong, or nothing."""
    problem = function(server)
    need(not problem, problem)


def main():
    with tempfile.TemporaryDirectory(prefix="flyt-messages.") as folder:
        server = Server(BIN, "unix", "software", folder, {})
        server.folder = folder
        run_cases(call=lambda function: call(function, server))
        server.stop()
    return plan()


sys.exit(main())
