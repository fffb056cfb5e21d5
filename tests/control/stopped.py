#!/usr/bin/env python3
"""Daemons that are stopped for longer than their deadlines, and clocks that are set, while a program runs.

    stopped.py BIN HOLDER PROGRAM

shows: troubles: each daemon stopped (SIGSTOP) for longer than its peers wait: the running program goes on
shows: troubles: the cluster manager's clock is set by an hour: running programs go on, a refusal names the clocks
"""
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import hand  # noqa: E402
from hand import (certificates, ctl, log, program_environment, run, start,  # noqa: E402
                  start_manager, start_node_and_vm, until, write)
from testlib import ok  # noqa: E402

BIN = hand.BIN
HOLDER, PROGRAM = (os.path.abspath(argument) for argument in sys.argv[2:4])
STOPPED = 14            # seconds: a peer is taken for dead after 10
SILENCE = 'silence = { suspect = 2.0; lost = 60.0; client-lost = 60.0; suspended = 60.0; };'


def runs():
    return run(f"{BIN}/flyt-run", PROGRAM, env=program_environment())


def holder(name):
    process = start(name, f"{BIN}/flyt-run", HOLDER, env=program_environment())
    assert until(lambda: "running" in log(name), 60), log(name)
    return process


def stop_each(program, manager, node, vm):
    for name, process in (("cluster manager", manager), ("node manager", node), ("client manager", vm)):
        process.send_signal(signal.SIGSTOP)
        time.sleep(STOPPED)
        ok(program.poll() is None, f"the {name} is stopped for {STOPPED} s: the program goes on")
        process.send_signal(signal.SIGCONT)
        ok(until(lambda: ctl("status").returncode == 0 and runs().returncode == 0, 60), "another one runs after it")
        ok(program.poll() is None, "and the first one still goes on")
    ok(until(lambda: " 1 " in ctl("node", "list").stdout or "ready" in ctl("node", "list").stdout), "the node is there")


def set_clock(words):
    write("clock", words + "\n")
    time.sleep(1)


def set_clocks(program):
    for words, meaning in (("+3600", "forward"), ("-3600", "back")):
        set_clock(words)
        refused = runs()
        text = refused.stdout + refused.stderr
        named = "clock" in text or "expired" in text
        ok(refused.returncode != 0 and named, f"an hour {meaning}: a refusal names it: {text[-300:]}")
        ok(program.poll() is None and ctl("status").returncode == 0, "the running program goes on")
        set_clock("+0")
        ok(until(lambda: runs().returncode == 0, 60), "and with the right clock others run")
    ok("node-lost" not in ctl("events").stdout, "no node was lost")


def main():
    certificates(("cluster", "main"), ("node", "n1"), ("client", "vm1"))
    faked = os.path.exists(hand.FAKETIME)
    if faked:
        write("clock", "+0\n")
    manager, ports = start_manager(more=SILENCE, env=hand.moved_clock() if faked else None)
    added = ctl("vm", "add", "vm1", "--sms", "2", "--memory", "512M", "--address", "127.0.0.1")
    assert added.returncode == 0, added.stderr
    node, vm = start_node_and_vm(ports)
    program = holder("holder")
    ok(runs().returncode == 0, "a program runs beside one that stays")
    if faked:
        set_clocks(program)
    else:
        print("# no libfaketime: clocks are not set")
    stop_each(program, manager, node, vm)


sys.exit(hand.whole(main))
