#!/usr/bin/env python3
"""Certificates that are renewed before they end, by an issuer that the cluster manager has. The daemons have a clock
that this test moves (libfaketime), so certificates last 90 days, and nothing here hurries.

    renewal.py BIN PROGRAM

shows: certificates: daemons renew theirs before they end, with a key of their own, while a program runs
shows: certificates: a daemon that could not connect when it started renews as soon as it is connected
shows: certificates: a daemon that is killed at any moment of a renewal comes back; files that do not fit are not taken
shows: attacks: revoking a VM takes back what it renewed since; the issuer is revoked; what has expired is not renewed
"""
import glob
import os
import shutil
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import hand  # noqa: E402
from hand import (BIN, certificates, ctl, log, path, program_environment, revoke,  # noqa: E402
                  run, start, start_manager, start_node_and_vm, until)
from testlib import ok  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[2])
DUE, DAYS = 61, 90                      # when a certificate is due, and how long it holds


def start_node():
    return start("n1", f"{BIN}/flyt-node-manager", "--config", path("n1.conf"), env=hand.moved_clock())


def shown(file):
    """Name and last second of the first certificate in a file."""
    done = run("openssl", "x509", "-noout", "-subject", "-enddate", "-dateopt", "iso_8601", "-in", file)
    return done.stdout.splitlines()


def public_key(*command):
    return run("openssl", *command).stdout


def has_ended(file):
    return run("openssl", "x509", "-checkend", "0", "-in", file,
               env=hand.on_day(hand.today, ours=False)).returncode != 0


def renewed(name):
    return path(f"{name}/renewed.pem")


def count(name, event):
    return log(name).count(f"event={event} ")


def the_first_time(program):
    for name, role in (("n1", "node"), ("vm1", "client")):
        ok(until(lambda: count(name, "certificate-renewed") == 1), f"{name} renews what has 10 days left")
        ok(until(lambda: count(name, "connected") == 2), "and connects again with it")
        lines = shown(renewed(name))
        ok(f"{role}:{name}" in lines[0] and "serialNumber" in lines[0], f"it is for the same name: {lines}")
        ok(os.stat(renewed(name)).st_mode & 0o777 == 0o600, "nobody else may read the file")
        old, new = (public_key("pkey", "-pubout", "-in", file) for file in (path(f"tls/{name}.key"), renewed(name)))
        ok(old and new and old != new, "the key is a new one")
        ok(new == public_key("x509", "-noout", "-pubkey", "-in", renewed(name)), "and the certificate's")
        ok("CERTIFICATE-RENEWED" in ctl("events").stdout.upper(), "there is an event about it")
    ok(program.poll() is None, "the program goes on")


def without_a_restart(node, vm, program):
    for time_number in range(2, 5):
        hand.days_pass(DUE, node, vm)
        for name in ("n1", "vm1"):
            ok(until(lambda: count(name, "certificate-renewed") == time_number), f"{DUE} days later {name} renews")
            ok(until(lambda: count(name, "connected") == time_number + 1), "and connects again")
    ok(program.poll() is None and count("n1", "started") == 1, "without a restart, and the program goes on")


def connected_late(node, manager):
    """The cluster manager does not answer when a daemon looks at its certificate for the first time."""
    node.kill()
    node.wait()
    if os.path.exists(renewed("n1")):
        os.remove(renewed("n1"))
    hand.issue_earlier("node", "n1", 80)
    manager.send_signal(signal.SIGSTOP)
    node = start_node()
    time.sleep(2.5)
    ok(count("n1", "started") == 1 and not count("n1", "connected"),
       "a node starts while the cluster manager is stopped")
    manager.send_signal(signal.SIGCONT)
    ok(until(lambda: count("n1", "certificate-renewed") == 1), "and renews as soon as it is connected")
    return node


def killed(node):
    """Each start renews a second later. SIGKILL at different moments around that."""
    for moment in (0.9, 1.0, 1.01, 1.02, 1.03, 1.05, 1.1):
        node.kill()
        node.wait()
        if os.path.exists(renewed("n1")):
            os.remove(renewed("n1"))
        hand.issue_earlier("node", "n1", 85)
        node = start_node()
        time.sleep(moment)
    node.kill()
    node.wait()
    for junk in ("", "-----BEGIN CERTIFICATE-----\nMII", "nothing"):
        with open(renewed("n1"), "w") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(junk)
        node = start_node()
        ok(until(lambda: count("n1", "registered") >= 1), f"a file with {junk[:12]!r} in it: the configured one counts")
        ok("event=certificate-not-taken" in log("n1"), "and the log says so")
        node.kill()
        node.wait()
    shutil.copy(renewed("vm1"), renewed("n1"))
    # What a kill leaves between writing and renaming.
    shutil.copy(renewed("vm1"), renewed("n1") + ".aB3dE9")
    node = start_node()
    ok(until(lambda: count("n1", "registered") >= 1) and "it is of client:vm1" in log("n1"),
       "the file of another daemon is not taken")
    ok(not os.path.exists(renewed("n1") + ".aB3dE9"), "what a daemon left that was killed as it wrote is removed")
    return node


def too_late(node, vm, manager):
    """The issuer is away until the certificate has ended."""
    ok(until(lambda: count("n1", "certificate-renewed") >= 1), "the node has a new certificate")
    before = count("vm1", "certificate-renewed")
    hand.days_pass(DUE, vm)
    ok(until(lambda: count("vm1", "certificate-renewed") > before), f"{DUE} days later the VM renews")
    for end in ("crt", "key"):
        os.rename(path(f"tls/issuer.{end}"), path(f"issuer.{end}"))
    reloads = ctl("events").stdout.count("reloaded")
    manager.send_signal(signal.SIGHUP)
    ok(until(lambda: ctl("events").stdout.count("reloaded") > reloads), "the issuer is taken away")
    node.send_signal(signal.SIGHUP)
    ok(until(lambda: "it is not renewed: the cluster manager has no issuer" in log("n1")),
       "without an issuer the node says that its certificate ends")
    ok(not has_ended(renewed("n1")), "it has not ended")
    hand.days_pass(DAYS - DUE)
    ok(has_ended(renewed("n1")), f"{DAYS - DUE} days later it has")
    for end in ("crt", "key"):
        os.rename(path(f"issuer.{end}"), path(f"tls/issuer.{end}"))
    manager.send_signal(signal.SIGHUP)
    node.kill()
    node.wait()
    os.rename(renewed("n1"), path("tls/n1.crt"))
    shutil.copy(path("tls/n1.crt"), path("tls/n1.key"))
    node = start_node()
    ok(node.wait(20) == 3 and "has expired" in log("n1"), "a daemon does not start with what has ended")
    hand.issue_earlier("node", "n1", 0)
    node = start_node()
    ok(until(lambda: count("n1", "registered") == 1), "a new one by hand brings it back")
    return node


def taken_back(manager, vm, program):
    ok(until(lambda: os.path.exists(renewed("vm1"))), "the VM has a renewed certificate")
    made = revoke("client", "vm1")
    ok(made.returncode == 0, made.stderr)
    manager.send_signal(signal.SIGHUP)
    ok(until(lambda: program.poll() is not None), "the program of a VM ends whose renewed certificate is revoked")
    ok(until(lambda: "event=not-connected" in log("vm1")), "its client manager does not come back")
    vm.send_signal(signal.SIGHUP)
    time.sleep(1)
    ok("certificate-renewed" not in log("vm1").split("event=not-connected")[1], "nor is it given a new one")


def stolen(node, manager):
    """Whatever an issuer has made ends with it."""
    node.kill()
    node.wait()
    hand.issue_earlier("node", "n1", 85)
    node = start_node()
    ok(until(lambda: count("n1", "certificate-renewed") >= 1 and count("n1", "registered") >= 2), "a node is renewed")
    made = revoke("issuer", "main")
    ok(made.returncode == 0, made.stderr)
    manager.send_signal(signal.SIGHUP)
    ok(until(lambda: "event=not-connected" in log("n1")), "the issuer is revoked: what it made counts no more")
    return node


def main():
    certificates(("cluster", "main"), ("issuer", "main"), ("node", "n1"), ("client", "vm1"))
    long = run(f"{BIN}/flytctl", "ca", "show", path("tls/n1.crt"), "--json").stdout
    ok('"node:n1"' in long, long)
    left = run("openssl", "x509", "-checkend", str(91 * 86400), "-in", path("tls/n1.crt"))
    ok(left.returncode == 1, "a node's certificate holds for 90 days")
    hand.issue_earlier("node", "n1", 80)
    hand.issue_earlier("client", "vm1", 80)
    hand.days_pass(0)
    manager, ports = start_manager(env=hand.moved_clock())
    assert ctl("vm", "add", "vm1", "--sms", "2", "--memory", "128M", "--address", "127.0.0.1").returncode == 0
    node, vm = start_node_and_vm(ports, env=hand.moved_clock())
    program = start("program", f"{BIN}/flyt-run", PROGRAM, env=program_environment())
    ok(until(lambda: "running" in ctl("server", "list").stdout, 60), "a program of the VM runs")
    the_first_time(program)
    without_a_restart(node, vm, program)
    node = connected_late(node, manager)
    node = killed(node)
    node = too_late(node, vm, manager)
    taken_back(manager, vm, program)
    stolen(node, manager)
    ok(not glob.glob(path("*/renewed.pem.*")), "nothing is left behind")


if not os.path.exists(hand.FAKETIME):
    hand.cannot("no libfaketime")
sys.exit(hand.whole(main))
