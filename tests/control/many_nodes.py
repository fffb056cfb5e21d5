#!/usr/bin/env python3
"""tests/control/many_nodes.py BIN: secrets of many nodes, and another resource DB. Speaks TAP.

shows: flytctl: secrets for many nodes at once; nodes as a file; with it they join after a change of the resource DB
"""
import json
import os
import stat
import sys

from ctl_runner import BIN, ctl, path, run, start, start_manager, work, write
from testlib import cluster_config, end, free_ports, need, node_config, until

NAMES = [f"gpu-{number}" for number in range(1, 6)]


def start_with(database):
    """The cluster manager, with this resource DB."""
    write("cluster.conf", cluster_config(work, start_with.ports, f"sqlite://{work}/{database}"))
    start_with.process = start_manager()


def is_up(name):
    return ctl("node", "show", name, "--json")["state"] == "up"


def secrets_for_many():
    start_with.ports = free_ports(2)
    start_with("a.db")
    ctl("node", "add", *NAMES, "--secret-folder", path("secrets"))
    need(stat.S_IMODE(os.stat(path("secrets")).st_mode) == 0o700, "the folder is open")
    files = {name: open(path(f"secrets/{name}.secret")).read().strip() for name in NAMES}
    need(all(len(secret) >= 32 for secret in files.values()) and len(set(files.values())) == len(NAMES), files)
    need(not any(os.stat(path(f"secrets/{name}.secret")).st_mode & 0o007 for name in NAMES), "a secret is open")
    answer = ctl("node", "add", "gpu-6", "gpu-1", "gpu-7", expect=6)
    need(answer.count("shown only now") == 2 and "gpu-1 has a secret" in ctl.last.stderr, answer)
    ctl("node", "add", "gpu-8", "not a name", expect=2)
    ctl("node", "add", "gpu-8", "gpu-9", "--secret-file", path("one"), expect=2)
    need("gpu-8" not in ctl("node", "list"), "something was added")
    need(open(path("secrets/gpu-1.secret")).read().strip() == files["gpu-1"], "a secret was overwritten")


def a_node_with_its_secret():
    write("node.conf", node_config(BIN, start_with.ports[0], "gpu-1", path("node"), path("secrets/gpu-1.secret")))
    start("flyt-node-manager", "--config", path("node.conf"))
    until(lambda: is_up("gpu-1"), "the node does not come up with its secret")
    ctl("node", "drain", "gpu-2")


def another_resource_db():
    ctl("node", "export", path("nodes.json"))
    need(stat.S_IMODE(os.stat(path("nodes.json")).st_mode) == 0o600, "the file is open")
    rows = json.load(open(path("nodes.json")))["nodes"]
    need([row["name"] for row in rows] == NAMES + ["gpu-6", "gpu-7"], rows)
    need(rows == ctl("node", "export", "--json")["nodes"], "standard output has other rows than the file")
    need([row["drained"] for row in rows][:3] == [False, True, False], rows)
    end(start_with.process, 20)
    start_with("b.db")
    until(lambda: "gpu-1" in ctl("events", "--kind", "peer-refused"), "the other DB lets a node in that it lacks")
    ctl("node", "import", path("nodes.json"))
    until(lambda: is_up("gpu-1"), "the node does not come back with the secret that it had")
    need(ctl("node", "export", "--json")["nodes"] == rows, "the nodes are others now")
    ctl("node", "import", path("nodes.json"))


def what_is_not_imported():
    rows = json.load(open(path("nodes.json")))
    rows["nodes"][0]["verifier"] = "0" * 64
    write("other.json", json.dumps(rows))
    ctl("node", "import", path("other.json"), expect=6)
    need("gpu-1 has another secret already (--update" in ctl.last.stderr and is_up("gpu-1"), ctl.last.stderr)
    ctl("node", "import", "--update", path("other.json"))
    until(lambda: not is_up("gpu-1") or "peer-refused" in ctl("events", "-n", "1"), "the old secret still counts")
    ctl("node", "import", "--update", path("nodes.json"))
    for wrong in ({"name": "x"}, {"name": "-x", "verifier": None}, {"name": "x", "verifier": "00"},
                  {"name": "vm1", "sms": 4, "memory": 1 << 20, "verifier": None}):
        write("wrong.json", json.dumps({"nodes": [{"name": "fine", "verifier": None}, wrong]}))
        ctl("node", "import", path("wrong.json"), expect=2)
    need("fine" not in ctl("node", "list"), "a part of a wrong file was taken")


sys.exit(run([secrets_for_many, a_node_with_its_secret, another_resource_db, what_is_not_imported]))
