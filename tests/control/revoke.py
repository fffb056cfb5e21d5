#!/usr/bin/env python3
"""Certificates that are taken back, and administrators who may do less.

    revoke.py BIN PROGRAM

shows: attacks: a revoked administrator, VM or node is cut off at the reload, what it runs ends, it does not come back
shows: attacks: operators and viewers, by certificate or at the unix socket, cannot change who is in the cluster
"""
import grp
import os
import shutil
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import hand  # noqa: E402
from hand import (BIN, certificates, ctl, ctl_as, issue, log, path, program_environment, revoke,  # noqa: E402
                  run, start, start_manager, start_node_and_vm, until, work, write)
from testlib import ok  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[2])


def roles(remote):
    """What each role may do, by its certificate."""
    add = ("vm", "add", "other", "--sms", "1", "--memory", "64M", "--address", "10.9.9.9")
    for name in ("ann", "oli", "vic"):
        seen = ctl_as(name, remote, "vm", "list")
        ok(seen.returncode == 0, f"{name} may look: {seen.stderr}")
    for name, role in (("oli", "operator"), ("vic", "viewer")):
        refused = ctl_as(name, remote, *add)
        ok(refused.returncode == 4, f"as {role}: no VM is added: {refused.returncode} {refused.stderr}")
        ok(role in log("cluster"), f"the log names the role {role}")
    stopped = ctl_as("oli", remote, "server", "stop", "4711")
    ok(stopped.returncode == 5, f"an operator may stop a GPU server: {stopped.returncode} {stopped.stderr}")
    stopped = ctl_as("vic", remote, "server", "stop", "4711")
    ok(stopped.returncode == 4, f"a viewer may not: {stopped.returncode} {stopped.stderr}")
    ok(ctl_as("ann", remote, *add).returncode == 0, "an admin may add a VM")
    liar = run(f"{BIN}/flytctl", "--manager", remote, "--tls", path("liar"), "--as", "ann", "vm", "list")
    ok(liar.returncode == 4, "a viewer does not become admin by another's name")


def at_the_socket(manager):
    """A member of ipc.frontend-group, who is neither root nor the daemon's user."""
    if os.geteuid() != 0:
        return
    os.chmod(work, 0o755)
    member = {"user": 65534, "group": 65534, "extra_groups": []}
    socket_uri = f"unix://{work}/cluster.sock"

    def asks(*words):
        return run(f"{BIN}/flytctl", "--manager", socket_uri, *words, cwd="/", **member)

    ok(asks("vm", "list").returncode == 0, "a member of the group may look, as a viewer")
    ok(asks("vm", "remove", "other").returncode == 4, "and remove no VM")
    write("cluster.conf", open(path("cluster.conf")).read().replace('"viewer"', '"admin"'))
    manager.send_signal(signal.SIGHUP)
    ok(until(lambda: asks("vm", "remove", "other").returncode == 0), "and may, once configured as admin")


def taken_back(remote, manager):
    """An administrator, a VM and a node, while they are connected."""
    watch = start("watch", f"{BIN}/flytctl", "--manager", remote, "--tls", path("tls"), "--as", "ann", "events",
                  "--follow")
    program = start("program", f"{BIN}/flyt-run", PROGRAM, env=program_environment())
    ok(until(lambda: '"running"' in ctl("server", "list", "--json").stdout.lower() or
             "running" in ctl("server", "list").stdout, 60), "a program of the VM runs")
    made = revoke("admin", "ann")
    ok(made.returncode == 0 and "1 of 1" in made.stderr + made.stdout, made.stderr + made.stdout)
    ok(watch.poll() is None, "nothing happens before the reload")
    manager.send_signal(signal.SIGHUP)
    ok(until(lambda: watch.poll() is not None), "the administrator's connection ends")
    again = ctl_as("ann", remote, "status")
    ok(again.returncode == 4, f"and there is no other: {again.returncode} {again.stderr}")
    ok(ctl_as("vic", remote, "status").returncode == 0, "others are not touched")
    ok(program.poll() is None, "nor is the program")

    revoke("client", "vm1")
    manager.send_signal(signal.SIGHUP)
    ok(until(lambda: program.poll() is not None), "the revoked VM's program ends")
    ok(until(lambda: "running" not in ctl("server", "list").stdout), "and its GPU server")
    ok(until(lambda: "event=not-connected" in log("vm1")), "its client manager does not come back")

    revoke("node", "n1")
    manager.send_signal(signal.SIGHUP)
    ok(until(lambda: "lost" in ctl("node", "list").stdout), "the revoked node is lost")
    ok(until(lambda: "event=not-connected" in log("n1")), "its node manager does not come back")
    ok("peer-cut-off" in ctl("events").stdout, "there is an event about it")
    events = ctl("events").stdout
    ok(all(f"{who}:" in events for who in ("admin", "client", "node")), "which names them")


def mistakes():
    ok(ctl("status").returncode == 0, "the cluster manager runs")
    run(f"{BIN}/flytctl", "ca", "create", path("other"))
    run(f"{BIN}/flytctl", "ca", "issue", path("other"), "admin", "x")
    run(f"{BIN}/flytctl", "ca", "revoke", path("other"), "admin", "x")
    shutil.copy(path("other/ca.crl"), path("tls/ca.crl"))
    refused = ctl("reload")
    ok(refused.returncode != 0 and "not of that authority" in refused.stderr + log("cluster"),
       f"another authority's list is refused, and the old one holds: {refused.stderr}")
    nobody = revoke("client", "nobody")
    ok(nobody.returncode == 5 and "--certificate" in nobody.stderr, f"a name that has none: {nobody.stderr}")
    wrong = run(f"{BIN}/flytctl", "ca", "revoke", path("ca"), "client", "vm2", "--certificate", path("tls/n1.crt"))
    ok(wrong.returncode != 0 and "node:n1" in wrong.stderr, f"a certificate of somebody else: {wrong.stderr}")
    twice = revoke("node", "n1")
    ok(twice.returncode == 0 and "0 of 1" in twice.stderr + twice.stdout, "twice is once")


def main():
    certificates(("cluster", "main"), ("node", "n1"), ("client", "vm1"), ("admin", "ann"), ("operator", "oli"),
                 ("viewer", "vic"))
    os.mkdir(path("liar"))
    for name, of in (("ca.crt", "ca.crt"), ("ann.crt", "vic.crt"), ("ann.key", "vic.key")):
        shutil.copy(path(f"tls/{of}"), path(f"liar/{name}"))
    group = f'frontend-group = "{grp.getgrgid(65534).gr_name}"; frontend-role = "viewer";' if os.geteuid() == 0 else ""
    manager, ports = start_manager(ipc=group)
    remote = f"tcp://127.0.0.1:{ports[1]}"
    roles(remote)
    at_the_socket(manager)
    assert ctl("vm", "add", "vm1", "--sms", "2", "--memory", "128M", "--address", "127.0.0.1").returncode == 0
    issue("client", "vm1", "--days", "20", "--force")
    start_node_and_vm(ports)
    ok("event=certificate-ends" in log("vm1") and "event=certificate-ends" not in log("n1"),
       "a daemon whose certificate ends soon says so")
    taken_back(remote, manager)
    mistakes()


sys.exit(hand.whole(main))
