#!/usr/bin/env python3
"""tests/control/entitlements.py BIN: entitlements that somebody else writes into the resource DB.

shows: resource DB: thousands of entitlements that others add, change and remove are taken, and so are those that an
  administrator changes meanwhile
"""
import os
import shutil
import signal
import sqlite3
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import Local, case, need, only_cases, read, until  # noqa: E402

BIN = os.path.abspath(sys.argv[1])
FOLDER = tempfile.mkdtemp(prefix="flyt-entitlements-")
MANY = 4000                                     # more than the cluster manager takes at once
cluster = Local(BIN, os.path.join(FOLDER, "cluster"))
db = sqlite3.connect(f"{cluster.dir}/state/flyt.db", isolation_level=None, timeout=20)


def look_again():
    os.kill(int(read(f"{cluster.dir}/run/cluster-manager.pid").split()[0]), signal.SIGHUP)


def vms():
    return {row["name"]: row["sms"] for row in cluster.json("vm", "list")}


@case
def others_add_change_and_remove():
    cluster.ctl("vm", "add", "model", "--sms", "2", "--memory", "1M")
    names = [row[1] for row in db.execute("PRAGMA table_info(vms)")]
    model = dict(zip(names, db.execute("SELECT * FROM vms WHERE name = 'model'").fetchone()))
    db.execute("BEGIN")
    for i in range(MANY):
        model["name"] = f"other-{i}"
        db.execute(f"INSERT INTO vms ({','.join(names)}) VALUES ({','.join('?' * len(names))})", list(model.values()))
    db.execute("UPDATE vms SET sms = 3 WHERE name = 'other-7'")
    db.execute("COMMIT")
    look_again()
    until(lambda: len(vms()) == MANY + 2, lambda: f"{len(vms())} VMs", 40)
    need(vms()["other-7"] == 3 and vms()["other-8"] == 2, "their values")
    db.execute("DELETE FROM vms WHERE name LIKE 'other-%' AND name != 'other-7'")
    look_again()
    until(lambda: set(vms()) == {"local", "model", "other-7"}, vms, 40)


@case
def an_administrator_changes_one_meanwhile():
    for sms in (1, 2, 3, 4):
        db.execute("UPDATE vms SET sms = ? WHERE name = 'other-7'", (sms,))
        look_again()
        cluster.ctl("vm", "set", "model", "--sms", str(sms))
        need(vms()["model"] == sms, vms())
    until(lambda: vms() == {**vms(), "other-7": 4, "model": 4}, vms, 40)
    cluster.ctl("vm", "remove", "model")
    look_again()
    until(lambda: "model" not in vms(), vms, 40)


try:
    code = only_cases()
finally:
    db.close()
    cluster.down()
    shutil.rmtree(FOLDER, ignore_errors=True)
sys.exit(code)
