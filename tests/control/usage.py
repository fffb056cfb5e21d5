#!/usr/bin/env python3
"""tests/control/usage.py BIN HOLDER STICKY: who used what, over restarts of the cluster manager. Speaks TAP.

HOLDER is control_client_program: it takes memory, and goes on when it is given a line. STICKY is a program whose
children end with errors 700, 716 and 719.

shows: usage: a program that leaves its client manager and keeps its session is charged, also over a restart
shows: usage: who is served without a client manager is listed, counts at its server, and can be killed
shows: usage: a program that ends while a node manager or client manager is away is charged until its worker's end
shows: usage: an outage of the cluster manager is charged to those who were there; who left meanwhile, until then
shows: usage: why a program's use ended, by a word and a sentence: exit, killed, stopped, an error of CUDA
shows: usage: programs, SM-seconds and why they ended, by VM, user, day, GPU; nothing counts twice after kill -9
shows: usage: a VM that runs programs as thousands of users loses rows of its own alone; sums stay right, also read
  while rows are summed
shows: usage: rows become sums by day after detail-days, and go after keep-days; no SM-second is lost by that
shows: usage: what waits and why; events of a program's wait, start and end
shows: cluster manager: entitlements that others change in the resource DB count from the next reading on
"""
import contextlib
import csv
import datetime
import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from schemas import mistakes, schema_of  # noqa: E402
from testlib import Local, case, need, only_cases, until  # noqa: E402

BIN, HOLDER, STICKY = (os.path.abspath(path) for path in sys.argv[1:4])
FOLDER = tempfile.mkdtemp(prefix="flyt-usage-")
cluster = Local(BIN, os.path.join(FOLDER, "cluster"), "--nodes", "1", FLYT_SOFTGPU_SMS="4")
events = lambda kind: [json.loads(row) for row in cluster.ctl("events", "-j", "--kind", kind).splitlines()]


def used():
    return cluster.json("usage", "--by", "program", "--sort-by", "program")


def written():
    """Rows that go on, in the resource DB."""
    with contextlib.closing(sqlite3.connect(f"file:{cluster.dir}/state/flyt.db?mode=ro", uri=True)) as db:
        return db.execute("SELECT COUNT(*) FROM usage WHERE kind = 1 AND ended = 0").fetchone()[0]


def shown_in(zone, *options):
    """Programs, for people."""
    return subprocess.run([f"{BIN}/flytctl", "usage", "--by", "program", *options], capture_output=True, text=True,
                          timeout=30, env=cluster.env | {"TZ": zone}).stdout


def five_hours_before(when):
    """Of a time as JSON has it, to the second."""
    moment = datetime.datetime.fromisoformat(when[:19]) - datetime.timedelta(hours=5)
    return f" {moment.isoformat()} "


class Holder:
    def __init__(self, *words):
        command = [f"{BIN}/flyt-run", HOLDER, *words]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env=cluster.env)

    def attached(self, word="attached"):
        need(self.process.stdout.readline() == word + "\n", lambda: self.process.stderr.read())
        return self

    def end(self):
        out, problem = self.process.communicate("\n", timeout=60)
        need(self.process.returncode == 0, out + problem)


@case
def programs_are_counted():
    cluster.ctl("move", "list", "-o", "custom=N:nonsense", expect=2)        # of an empty list, too
    cluster.ctl("move", "list", "-o", "custom=N:id")
    for _ in range(2):
        Holder().attached().end()
    rows = until(lambda: [row for row in used() if row["ended"]][1:] and used(), "two rows that have ended")
    need(len(rows) == 2 and all(row["vm"] == "local" and row["user"] == os.getuid() and row["sms"] == 4
                                and row["gpu"].startswith("soft-") and row["begun"] < row["ended"] and row["why"]
                                and row["executable"].endswith("control_client_program") for row in rows), rows)
    for row in rows:
        seconds = row["sm_seconds"] / row["sms"]
        need(0 < seconds < 60, row)
    schema = {"type": "array", "items": schema_of("usage")}
    need(not mistakes(rows, schema, "usage") and mistakes([rows[0] | {"user": "0"}], schema, "x"), rows)
    for by in ("vm", "user", "day", "gpu", "node"):
        need(not mistakes(cluster.json("usage", "--by", by), schema, by), lambda: cluster.json("usage", "--by", by))
        sums = cluster.json("usage", "--by", by)
        need(len(sums) == 1 and sums[0]["programs"] == 2, sums)
        need(abs(sums[0]["sm_seconds"] - sum(row["sm_seconds"] for row in rows)) < 1e-6, sums)
    cluster.ctl("usage", "--since", "999999999d", expect=2)
    need(cluster.json("usage", "--since", "0s") == [] and cluster.json("usage", "--until", "1d") == [], "bounds")
    begun, ended = rows[0]["begun"], rows[0]["ended"]
    need(all(five_hours_before(when) in shown_in("EST+5") for when in (begun, ended)), shown_in("EST+5"))
    need(f" {begun[:19]} " in shown_in("EST+5", "--utc"), shown_in("EST+5", "--utc"))
    listed = list(csv.DictReader(io.StringIO(cluster.ctl("usage", "--by", "program", "-o", "csv"))))
    need([set(row) for row in listed] == [set(row) for row in rows] and all(row["day"] for row in listed), listed)
    need("REASON" not in cluster.ctl("usage", "--by", "program"), "the table has why")
    cluster.ctl("usage", "--vm", "nobody", expect=5)
    cluster.ctl("usage", "--vm", "local", "--until", "1d")
    need("local" in cluster.ctl("usage") and cluster.ctl("usage", "-o", "csv").startswith("vm,sm_seconds"), "forms")
    started, ended = events("program-started"), events("program-ended")
    need([row["program"] for row in started] == [row["program"] for row in ended] == [row["program"] for row in rows],
         started)


@case
def two_share_what_their_server_has():
    before = len(used())
    one, other = Holder().attached(), Holder().attached()
    begun = time.monotonic()
    until(lambda: sum(row["sm_seconds"] for row in used()[before:]) > 4, "4 SM-seconds")
    one.end()
    other.end()
    spent = time.monotonic() - begun
    rows = until(lambda: len([row for row in used()[before:] if row["ended"]]) == 2 and used()[before:], "both ended")
    total = sum(row["sm_seconds"] for row in rows)
    # Together they have what one alone would have had: 4 SMs, since the second came, and before and behind that.
    need(total < 4 * (spent + 5) and total > 4, f"{total} SM-seconds in {spent} s")


@case
def who_leaves_the_client_manager_is_charged():
    """A program shuts its socket to its client manager, and goes on with its session. Another one keeps the server."""
    before = len(used())
    keeper = Holder().attached()
    hidden = Holder("1", "hide")
    hidden.attached("hidden")
    until(lambda: len(events("program-ended")) > before, "it counts as ended")
    row = lambda: used()[before + 1]
    shown = row()
    until(lambda: row()["sm_seconds"] > shown["sm_seconds"] + 4, "it is charged")
    need(row()["ended"] is None, row())
    both = used()[before:]
    need(abs((both[0]["sm_seconds"] - both[1]["sm_seconds"]) - 4 * 0.5) < 2, f"not in equal parts: {both}")
    again = cluster.kill("cluster-manager")
    time.sleep(1)
    again()
    until(lambda: row()["sm_seconds"] > shown["sm_seconds"] + 8, "it is charged over a restart")
    number = row()["program"]
    listed = until(lambda: [one for one in cluster.json("program", "list") if one["id"] == number], "it is listed")[0]
    need(listed["state"] == "running" and "has left its client manager" in listed["why"], listed)
    own = json.loads(subprocess.run([f"{BIN}/flyt-run", "--status", "--json"], capture_output=True, text=True,
                                    timeout=30, env=cluster.env).stdout)
    need(number in [one["id"] for one in own["programs"]], own)
    keeper.end()
    server = until(lambda: [one for one in cluster.json("server", "list") if one["programs"] == 1], "it counts")[0]
    refused = cluster.ctl.run("server", "stop", str(server["id"]))
    need(refused.returncode == 7 and "1 programs use server" in refused.stderr, refused)
    cluster.ctl("program", "kill", str(number))
    until(lambda: row()["ended"], "it ends with its session")
    need(row()["reason"] == "killed", row())
    hidden.process.kill()
    hidden.process.wait()
    until(lambda: used()[before]["ended"], "all have ended")


@case
def an_outage_is_charged():
    """Of two programs that share a server one ends while the cluster manager is away."""
    before = len(used())
    one, other = Holder().attached(), Holder().attached()
    until(lambda: written() == 2, "both are in the resource DB")
    again = cluster.kill("cluster-manager")
    time.sleep(1.5)
    one.end()
    gone = datetime.datetime.now(datetime.timezone.utc)
    time.sleep(4)
    back = time.monotonic()
    again()
    until(lambda: used()[before]["ended"], "its end is known")
    row = used()[before]
    ended = datetime.datetime.fromisoformat(row["ended"].replace("Z", "+00:00"))
    need(abs((ended - gone).total_seconds()) < 2.5, f"{row}, it ended at {gone}")
    until(lambda: used()[before + 1]["sm_seconds"] > row["sm_seconds"] + 4 * 3, lambda: f"lost: {used()[before:]}")
    need(time.monotonic() - back < 15, "the outage itself was not charged")
    other.end()
    until(lambda: used()[before + 1]["ended"], "both have ended")


def ended_while_away(daemon):
    """A program ends while this daemon is away: how many seconds after its end its row ends, and its SM-seconds."""
    before, holder = len(used()), Holder().attached()
    until(lambda: len(used()) == before + 1 and written(), "a row")
    again = cluster.kill(daemon)
    holder.end()
    gone = datetime.datetime.now(datetime.timezone.utc)
    time.sleep(5)
    again()
    until(lambda: used()[before]["ended"], "its end is known", seconds=60)
    row = used()[before]
    ended, begun = (datetime.datetime.fromisoformat(row[key].replace("Z", "+00:00")) for key in ("ended", "begun"))
    need(abs((ended - gone).total_seconds()) < 2 and row["sm_seconds"] < 4 * ((gone - begun).total_seconds() + 2.5),
         f"{row}, it ended at {gone}")


@case
def what_ends_while_a_manager_is_away():
    ended_while_away("node-1")
    ended_while_away("client-manager")


@case
def one_program_is_one():
    count = lambda: cluster.json("usage")[0]["programs"]
    before, rows, holder = count(), len(used()), Holder().attached()
    number = str(until(lambda: cluster.json("program", "list"), "a program")[0]["id"])
    state = lambda: cluster.json("program", "list")[0]["state"]
    until(lambda: state() == "running", "it runs")
    cluster.ctl("program", "suspend", number)
    until(lambda: state() == "suspended", "it is suspended")
    cluster.ctl("program", "resume", number)
    until(lambda: state() == "running", "it runs again")
    holder.end()
    until(lambda: all(row["ended"] for row in used()), "it has ended")
    need(count() == before + 1 and len(used()) == rows + 2 and used()[rows]["reason"] == "suspended", used()[rows:])


@case
def a_killed_manager_counts_nothing_twice():
    before = len(used())
    holder = Holder().attached()
    until(lambda: used()[before:] and used()[before]["sm_seconds"] > 1 and written(), "it uses something")
    begun = used()[before]["begun"]
    unended = cluster.json("usage", "--by", "program", "--filter", "ended=null")
    need([row["begun"] for row in unended] == [begun], unended)
    again = cluster.kill("cluster-manager")
    again()
    until(lambda: cluster.json("program", "list")[0]["state"] == "running", "the program is known again")
    holder.end()
    rows = until(lambda: [row for row in used()[before:] if row["ended"]], "it has ended")
    time_held = cluster.json("usage", "--by", "program", "--filter", f"program={rows[0]['program']}")
    need(len(time_held) == len(rows) == 1, rows)
    row = rows[0]
    need(row["begun"] == begun and 0 < row["sm_seconds"] < 4 * 60, row)


@case
def why_it_ended():
    before = len(used())
    killed, stopped = Holder().attached(), None
    cluster.ctl("program", "kill", str(cluster.json("program", "list")[0]["id"]))
    killed.process.wait(30)
    until(lambda: used()[before]["ended"], "it was killed")
    stopped = Holder().attached()
    until(lambda: cluster.json("program", "list")[0]["state"] == "running", "it runs")
    cluster.ctl("server", "stop", str(cluster.json("server", "list")[0]["id"]), "--force")
    until(lambda: used()[before + 1]["ended"], "its server was stopped")
    stopped.process.kill()
    stopped.process.wait()
    until(lambda: cluster.json("program", "list") == [], "none is left")
    subprocess.run([f"{BIN}/flyt-run", STICKY], check=True, capture_output=True, timeout=60, env=cluster.env)
    until(lambda: all(row["ended"] for row in used()), "all have ended")
    rows = [row for row in used() if "exit" == row["reason"]]
    need(rows and rows[0]["why"] == "exit: its client manager reported the end", rows)
    first, second = used()[before:before + 2]
    need(first["reason"] == "killed" and first["why"].startswith("killed: ended by "), first)
    need(second["reason"] == "stopped" and "stopped by " in second["why"], second)
    faults = {row["why"].split(";")[0] for row in used() if row["reason"] == "fault"}
    found = mistakes(used(), {"type": "array", "items": schema_of("usage")}, "usage")
    need(not found, found)
    need(faults == {f"fault: CUDA error {code}" for code in (700, 716, 719)}, faults)


@case
def a_stopped_manager_keeps_rows():
    before = used()
    again = cluster.kill("cluster-manager", 15)
    again()
    until(lambda: cluster.json("status")["nodes_up"] == 1, "the node is back")
    after = used()
    need([(row["program"], row["sm_seconds"], row["ended"]) for row in after] ==
         [(row["program"], row["sm_seconds"], row["ended"]) for row in before], f"{before}\n{after}")


@case
def what_waits_says_why():
    cluster.ctl("vm", "set", "local", "--grouping", "off", "--sharing", "exclusive")
    for server in cluster.json("server", "list"):
        cluster.ctl("server", "stop", str(server["id"]))
    until(lambda: cluster.json("server", "list") == [], "the server that they would share ends")
    first = Holder().attached()
    second = Holder()
    row = until(lambda: [row for row in cluster.json("program", "list") if row["state"] == "waiting"],
                lambda: "one waits: " + cluster.ctl("program", "list"))[0]
    need("free on none of 1 GPUs" in row["why"] and row["position"] == 1, row)
    text = cluster.ctl("program", "why", str(row["id"]))
    need("place 1 in line" in text and "free on none" in text, text)
    need([each["program"] for each in events("program-waiting")] == [row["id"]], "no event")
    first.end()
    second.attached().end()
    until(lambda: cluster.json("program", "list") == [], "both have ended")


@case
def others_change_entitlements():
    """In the resource DB itself: read again at a reload, also after an administrator's change in between."""
    def elsewhere(sms):
        with contextlib.closing(sqlite3.connect(f"{cluster.dir}/state/flyt.db", timeout=20)) as db, db:
            db.execute("UPDATE vms SET sms = ? WHERE name = 'local'", (sms,))
        cluster.ctl("reload")
        until(lambda: cluster.json("vm", "show", "local")["sms"] == sms, f"{sms} SMs")
    before = cluster.json("vm", "show", "local")["sms"]
    elsewhere(3)
    cluster.ctl("reload")
    cluster.ctl("vm", "set", "local", "--sms", "2")
    elsewhere(3)
    cluster.ctl("vm", "add", "other", "--sms", "1", "--memory", "1M")
    cluster.ctl("reload")
    with contextlib.closing(sqlite3.connect(f"{cluster.dir}/state/flyt.db", timeout=20)) as db, db:
        db.execute("DELETE FROM vms WHERE name = 'other'")
    cluster.ctl("reload")
    until(lambda: len(cluster.json("vm", "list")) == 1, "one is gone")
    elsewhere(before)


DAY = 86400 * 10**6


def insert(db, number, kind, age, uid, **more):
    """A row of usage that ended so many days ago."""
    now = int(time.time() * 10**6)
    row = {"id": 10**6 + number, "kind": kind, "vm": "old", "gpu": "g", "node": "n", "uid": uid, "sms": 1,
           "sm_us": 3600 * 10**6, "begun": now - age * DAY - 1, "ended": now - age * DAY, "programs": 1, **more}
    names = [column[1] for column in db.execute("PRAGMA table_info(usage)")]
    values = [row.get(name, "" if name in ("executable", "why", "figures") else 0) for name in names]
    db.execute(f"INSERT INTO usage VALUES ({','.join('?' * len(names))})", values)


@case
def rows_grow_old():
    """More sums of days stand before the rows of programs than are looked at in one turn."""
    now = int(time.time() * 10**6)
    again = cluster.kill("cluster-manager", 15)
    path = f"{cluster.dir}/state/flyt.db"
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        for number in range(300):
            insert(db, number, 2, 40, number + 1)
        insert(db, 300, 1, 35, 5, executable="/bin/one", program=77)
        insert(db, 301, 1, 35, 5, executable="/bin/two", program=78)
        insert(db, 302, 1, 20, 5, executable="/bin/three", program=79)
        insert(db, 303, 2, 401, 5)
    again()
    def rows():
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            return db.execute("SELECT kind, uid, programs, sm_us, ended FROM usage WHERE vm = 'old'").fetchall()
    until(lambda: sum(kind == 1 for kind, *_ in rows()) == 1, lambda: f"rows of programs stay: {rows()[-5:]}")
    until(lambda: min(ended for *_, ended in rows()) > now - 400 * DAY, "what is too old stays")
    summed = [row for row in rows() if row[2] == 2]
    need([row[:4] for row in summed] == [(2, 5, 2, 7200 * 10**6)] and len(rows()) == 302, rows()[-5:])
    hours = cluster.json("usage", "--by", "vm", "--filter", "vm=old")[0]
    need(hours["programs"] == 303 and hours["sm_seconds"] == 303 * 3600, hours)


@case
def a_vm_with_many_users_loses_its_own_rows():
    """One VM has started 2,400 programs, each as another user; another VM has 40. What is read meanwhile is right."""
    again = cluster.kill("cluster-manager", 15)
    path = f"{cluster.dir}/state/flyt.db"
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("DELETE FROM usage WHERE vm = 'old'")
        for number in range(2400):
            insert(db, number, 1, 2, 1000 + number, vm="loud", program=10**5 + number, executable="/bin/loop")
            if number < 40:
                insert(db, 5000 + number, 1, 2, 7, gpu="g,h", vm="quiet", program=2 * 10**5 + number)
    again()
    def rows(vm):
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            return db.execute("SELECT kind, uid, programs FROM usage WHERE vm = ?", (vm,)).fetchall()
    def shown():
        sums = {row["vm"]: row for row in cluster.json("usage", "--by", "vm")}
        for vm, count in (("loud", 2400), ("quiet", 40)):
            need(sums[vm]["programs"] == count and sums[vm]["sm_seconds"] == count * 3600, sums[vm])
    def few():
        shown()
        return len(rows("loud")) <= 2000
    until(few, lambda: f"{len(rows('loud'))} rows", seconds=60)
    need(sum(programs for *_, programs in rows("loud")) == 2400, "rows were lost")
    several = [row for row in rows("loud") if row[1] == 2**32 - 1]
    need(several and several[0][0] == 2, "no sum of several users")
    gpus = {row["gpu"]: row["sm_seconds"] for row in cluster.json("usage", "--by", "gpu", "--vm", "quiet")}
    need(gpus == {"g": 40 * 1800, "h": 40 * 1800}, gpus)
    need(rows("quiet") == [(1, 7, 1)] * 40, rows("quiet"))
    parts = {(row["vm"], row["user"]) for row in cluster.json("usage", "--by", "user")}
    need(("quiet", 7) in parts and {"quiet", "loud", "local"} == {vm for vm, _ in parts}, "users of VMs are not apart")
    users = cluster.json("usage", "--by", "user", "--vm", "loud")
    need(sum(row["programs"] for row in users) == 2400 and [row for row in users if row["user"] is None], users[:3])


try:
    code = only_cases()
finally:
    cluster.down()
    shutil.rmtree(FOLDER, ignore_errors=True)
sys.exit(code)
