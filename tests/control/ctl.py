#!/usr/bin/env python3
"""tests/control/ctl.py BIN: flytctl against a real cluster manager and a node with a software GPU. Speaks TAP.

shows: flytctl: every command, its exit status and JSON, certificates, completion
"""
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time

from ctl_runner import BIN, CTL, ctl, daemons, environment, path, run, start, start_manager, work, write
from testlib import cluster_config, end, free_ports, need, node_config, until


def a_small_authority():
    ca = path("ca")
    ctl("ca", "create", ca)
    need(stat.S_IMODE(os.stat(path("ca/ca.key")).st_mode) == 0o600, "ca.key is open")
    ctl("ca", "create", ca, expect=6)
    ctl("ca", "issue", ca, "cluster", "main", "--host", "127.0.0.1", "--host", "cluster.example", "--out", path("tls"))
    ctl("ca", "issue", ca, "admin", "ann", "--out", path("tls"))
    ctl("ca", "issue", ca, "node", "gpu-1", "--out", path("tls"))
    ctl("ca", "issue", ca, "admin", "ann", "--out", path("tls"), expect=6)
    ctl("ca", "issue", ca, "admin", "ann", "--out", path("tls"), "--force")
    for wrong in (["boss", "ann"], ["admin", "a" * 70], ["admin", "ca"], ["admin", "../x"],
                  ["server", "n", "--host", "a b"],
                  ["server", "n", "--host", "x,IP:1.1.1.1"], ["node", "n", "--host", "gpu-1"],
                  ["node", "n", "--days", "0"]):
        ctl("ca", "issue", ca, *wrong, expect=2)
    rows = ctl("ca", "show", path("tls/cluster.crt"), path("tls/ann.crt"), "--json")
    need([row["name"] for row in rows] == ["cluster:main", "admin:ann"]
         and all(row["valid"] and row["issuer"] == "ca:flyt" for row in rows), rows)
    need(stat.S_IMODE(os.stat(path("tls/ann.key")).st_mode) == 0o600, "ann.key is open")
    done = subprocess.run(["openssl", "verify", "-x509_strict", "-CAfile", path("ca/ca.crt"), "-purpose", "sslserver",
                           "-verify_hostname", "cluster.example",
                           path("tls/cluster.crt")], capture_output=True, text=True)
    need(done.returncode == 0, done.stdout + done.stderr)


def bring_up():
    node, client = free_ports(2)
    write("node.secret", "node secret")
    write("admin.secret", "the administrators' secret")
    write("cluster.conf", cluster_config(work, (node, client), tls="none", security=f'''
node-secret = "file:{work}/node.secret"; admin-secret = "file:{work}/admin.secret";'''))
    write("node.conf", node_config(BIN, node, "n1", path("node"), path("node.secret")))
    start_manager()
    start("flyt-node-manager", "--stop-servers", "--config", path("node.conf"),
          extra={"FLYT_SOFTGPU_SMS": "6", "FLYT_SOFTGPU_MEMORY": "512M"})
    until(lambda: ctl("node", "list", "--json")[0]["state"] == "up", "the node does not come up")
    bring_up.client, bring_up.node = client, node
    version = ctl("--version").split()[1].strip(",")
    need(ctl("node", "show", "n1", "--json")["software"] == f"flyt-node-manager {version}", "the node's version")
    told = {event["kind"]: event["text"] for event in map(json.loads, ctl("events", "-j").splitlines())}
    need(f"flyt-cluster-manager {version} " in told["manager-started"], told)
    need(f"flyt-node-manager {version})" in told["node-joined"], told)


def entitlements_live():
    secret = path("alpha.secret")
    ctl("vm", "add", "alpha", "--sms", "4", "--memory", "256M", "--address", "10.0.0.2", "--host=10.0.0.1", "--sharing",
        "exclusive,mps", "--wait", "fail",
        "--secret-file", secret)
    need(stat.S_IMODE(os.stat(secret).st_mode) == 0o600 and len(open(secret).read().strip()) >= 32, "the secret's file")
    ctl("vm", "add", "alpha", "--sms", "1", "--memory", "1G", expect=6)
    row = ctl("vm", "show", "alpha", "--json")
    need(row["sms"] == 4 and row["memory"] == 256 << 20 and row["sharing"] == ["exclusive", "mps"]
         and row["wait"] == "fail" and row["has_secret"] and
         row["address"] == "10.0.0.2" and row["host"] == "10.0.0.1" and row["grouping"] is True, row)
    ctl("vm", "set", "alpha", "-m2G", "-g", "off")
    row = ctl("--json", "vm", "show", "alpha")
    need(row["memory"] == 2 << 30 and row["sms"] == 4 and row["grouping"] is False and row["wait"] == "fail", row)
    answer = ctl("vm", "set", "alpha", "--new-secret", "--json")
    need(len(answer["secret"]) >= 32 and answer["ok"], answer)
    answer = ctl("vm", "add", "beta", "--sms", "1", "--memory", "1G", "--json")
    need(len(answer["secret"]) >= 32, answer)
    need([row["name"] for row in ctl("vm", "list", "--json")] == ["alpha", "beta"], "list")
    need("alpha" in ctl("vm", "list") and "alpha" in ctl("list-vms"), "table")
    ctl("vm-grouping", "-i", "alpha", "--enable", "on")
    need(ctl("vm", "show", "alpha", "--json")["grouping"] is True, "grouping")
    for grouping, is_on in (("off", False), ("ON", True)):
        ctl("vm-grouping", "-i", "alpha", "-e", grouping)
        need(ctl("vm", "show", "alpha", "--json")["grouping"] is is_on, "grouping")
    # A plain number is MiB for every command, and what no GPU can hold is said.
    need("warning" not in ctl("vm", "set", "alpha", "--memory", "300"), "a warning without a reason")
    need(ctl("vm", "show", "alpha", "--json")["memory"] == 300 << 20, "MiB")
    for size in (["--sms", "400"], ["--memory", "100G"], ["--sharing", "mig"]):
        need("warning: no program of it can run now" in ctl("vm", "set", "alpha", *size), size)
    answer = ctl("vm", "set", "alpha", "--sms", "400", "--memory", "300", "--sharing", "exclusive,mps")
    need("6 SMs" in answer, "the warning says what there is")
    ctl("vm", "set", "alpha", "--sms", "4")
    ctl("vm", "set", "alpha", "--address", "", "--host", "")
    ctl("vm", "set", "alpha", "--address", "fd00::2", "--host", "n1")
    row = ctl("vm", "show", "alpha", "--json")
    need(row["address"] == "fd00::2" and row["host"] == "n1", row)
    ctl("vm", "set", "alpha", "--address", "10.0.0.2", "--host", "10.0.0.1")
    ctl("vm", "add", "gone", "--sms", "1", "--memory", "1M", "--secret-file", path("no-such-folder/secret"), expect=1)
    need("Nothing was changed" in ctl.last.stderr, ctl.last.stderr)
    ctl("vm", "show", "gone", expect=5)
    ctl("vm", "show", "nobody", expect=5)
    ctl("vm", "set", "nobody", "--sms", "1", expect=5)
    for what in (["server", "list"], ["program", "list"]):
        ctl(*what, "--vm", "nobody", expect=5)
        ctl(*what, "--node", "nobody", expect=5)
        ctl(*what, "--vm", "alpha", "--node", "n1")
    ctl("vm", "remove", "nobody", "beta", expect=5)
    need([row["name"] for row in ctl("vm", "list", "--json")] == ["alpha"],
         "the others of a list are removed all the same")


def export_and_import():
    ctl("vm", "export", path("vms.json"))
    need(stat.S_IMODE(os.stat(path("vms.json")).st_mode) == 0o600, "the file is open")
    before = json.load(open(path("vms.json")))
    need(len(before["vms"]) == 1 and len(before["vms"][0]["verifier"]) == 64, before)
    ctl("vm", "import", path("vms.json"), expect=6)
    ctl("vm", "import", "--update", path("vms.json"))
    ctl("vm", "remove", "alpha")
    need(ctl("vm", "import", path("vms.json"), "--json")["added"] == 1, "import")
    need(json.loads(ctl("vm", "export")) == before, "what was exported came back")
    need(json.loads(ctl("vm", "export", "-")) == before and not os.path.exists("-"), "- is standard output")
    ctl("vm", "import", write("half.json", "{"), expect=2)
    ctl("vm", "import", "-", stdin='[{"name": "x", "sms": 1, "memory": 1048576, "address": "999.1.1.1"}]', expect=2)
    # mongoexport, as an array and as lines
    answer = ctl("vm", "import", "-", "--json",
                 stdin='[{"_id":{"$oid":"1"},"vm_ip":"10.9.9.9","host_ip":"10.9.9.1",'
                       '"compute_units":{"$numberDouble":"6.0"},"memory":512}]')
    need(answer["added"] == 1 and len(answer["secrets"]["10.9.9.9"]) >= 32, answer)
    ctl("vm", "import", "-",
        stdin='{"vm_ip":"10.9.9.8","compute_units":1,"memory":1}\n{"vm_ip":"10.9.9.7","compute_units":1,"memory":1}\n')
    row = ctl("vm", "show", "10.9.9.9", "--json")
    need(row["sms"] == 6 and row["memory"] == 512 << 20 and row["host"] == "10.9.9.1", row)
    # One bad entry, and nothing is done.
    ctl("vm", "import", "-", expect=2,
        stdin='[{"name":"good","sms":1,"memory":1048576},{"name":"bad","sms":0,"memory":1048576}]')
    for text in ("", "{", "[1]", '{"name":"x"}', '{"name":"x","sms":1,"memory":1}',
                 '{"name":"x","sms":1,"memory":1048576,"verifier":"zz"}',
                 '{"name":"x","sms":1,"memory":1048576,"sharing":["all of it"]}',
                 '{"name":"../x","sms":1,"memory":1048576}'):
        done = subprocess.run([CTL, "vm", "import", "-"], input=text, capture_output=True, text=True, env=environment)
        need(done.returncode in (1, 2) and done.stderr, f"{text}: {done}")
    ctl("vm", "show", "good", expect=5)
    ctl("vm", "import", path("vms.json"), "--dry-run")
    ctl("vm", "remove", "10.9.9.9", "10.9.9.8", "10.9.9.7")


def many_pages():
    vms = [{"name": f"vm-{i:04}", "sms": 1, "memory": 1 << 20, "verifier": "ab" * 32} for i in range(300)]
    answer = ctl("vm", "import", "-", "--json", stdin=json.dumps(vms), limit=60)
    need(answer["added"] == 300 and not answer["secrets"], answer)
    names = [row["name"] for row in ctl("vm", "list", "--json")]
    need(names == sorted(names) and len(names) == len(set(names)) == 301, len(names))
    need(len(json.loads(ctl("vm", "export"))["vms"]) == 301, "export")
    ctl("vm", "remove", *names[1:151])
    ctl("vm", "remove", *names[151:])


def nodes():
    row = ctl("node", "show", "n1", "--json")
    need(row["state"] == "up" and row["sms"] == 6 and row["memory"] <= 512 << 20 and len(row["gpus"]) == 1
         and row["gpus"][0]["state"] == "ready", row)
    need("GPU" in ctl("node", "show", "n1") and "n1" in ctl("list-servernodes"), "tables")
    ctl("node", "drain", "n1")
    need(ctl("node", "list", "--json")[0]["drained"] is True, "drained")
    need("no program runs there" in ctl("node", "drain", "n1", "--reason", "a new fan", "--wait", "30"), "waited")
    need("a new fan" in ctl("node", "show", "n1") and "a new fan" in ctl("events", "--kind", "node-drained"), "reason")
    ctl("node", "undrain", "n1")
    need(ctl("node", "list", "--json")[0]["drained"] is False, "undrained")
    ctl("node", "drain", "n1", "--wait", "soon", expect=2)
    ctl("node", "drain", "n1", "--reason", "x" * 300, expect=2)
    ctl("node", "drain", "nowhere", expect=5)
    ctl("node", "show", "nowhere", expect=5)
    ctl("node", "remove", "n1", expect=7)
    need(ctl("server", "list", "--json") == [] and ctl("program", "list", "--json") == [], "nothing runs")
    ctl("server", "stop", "4711", expect=5)
    ctl("program", "kill", "4711", expect=5)
    ctl("list-virt-servers")


def the_state_of_it_all():
    row = ctl("status", "--json")
    need(row["nodes_up"] == 1 and row["gpus_ready"] == 1 and row["sms"] == 6 and row["db"] == "sqlite"
         and row["db_up"] is True, row)
    need("Nodes up" in ctl("status"), "table")
    lines = ctl("top", "-n", "2", "-d", "1", "-j").splitlines()
    need(len(lines) == 2 and all(json.loads(line)["summary"]["nodes"] == 1 for line in lines), lines)
    need("Nodes 1/1" in ctl("top", "-n1"), "top")


def reloading():
    """A configuration with mistakes is refused as a whole, and the old one holds, by flytctl and by SIGHUP alike."""
    ctl("reload")
    good = open(path("cluster.conf")).read()
    write("cluster.conf", good + "placement = { overtaking = 3; polic = 1; };\nlog = { level = 1; };\n")
    answer = ctl("reload", "--json", expect=10)
    need(answer["error"] == "bad-config" and "the old configuration stays in use" in answer["message"], answer)
    need("placement.polic" in answer["message"] and "; " in answer["message"] and "log.level" in answer["message"],
         answer)
    os.kill(daemons[0].pid, signal.SIGHUP)
    log = path("flyt-cluster-manager.log")
    until(lambda: open(log).read().count("event=reload-refused") == 2, "SIGHUP says nothing of the mistakes")
    write("cluster.conf", good + "silence = { lost = 77.0; };\n")
    ctl("reload")
    write("cluster.conf", good.replace(f"node = {bring_up.node}", f"node = {free_ports(1)[0]}"))
    need("take a restart: ports.node" in ctl("reload"), "keys that need a restart are named")
    write("cluster.conf", good)
    ctl("reload")


def a_silent_manager():
    """It is stopped: nothing is asked of it, so nothing happens later."""
    os.kill(daemons[0].pid, signal.SIGSTOP)
    try:
        for what in (["status"], ["vm", "list"], ["vm", "add", "later", "--sms", "1", "--memory", "1M"],
                     ["vm", "remove", "alpha"],
                     ["node", "drain", "n1"], ["events"], ["top", "-n", "1"]):
            ctl("-t", "0.5", *what, expect=3)
            need("says nothing" in ctl.last.stderr and "Nothing was asked" in ctl.last.stderr, ctl.last.stderr)
            need("within 0.5 s" in ctl.last.stderr and "waiting" not in ctl.last.stderr, ctl.last.stderr)
        ctl("-t", "2.5", "status", expect=3)
        need("waiting for the cluster manager at unix://" in ctl.last.stderr
             and "has not answered within 2.5 s" in ctl.last.stderr, ctl.last.stderr)
        need("CTL_" not in ctl.last.stderr, ctl.last.stderr)
    finally:
        os.kill(daemons[0].pid, signal.SIGCONT)
    until(lambda: ctl("status"), "the manager does not go on")
    need([row["name"] for row in ctl("vm", "list", "--json")] == ["alpha"], "what was given up happened")
    until(lambda: ctl("node", "list", "--json")[0]["state"] == "up", "the node is not up again")
    need(ctl("node", "list", "--json")[0]["drained"] is False, "drained")


def the_key_that_signs_is_changed():
    before = open(path("cluster.key")).read()
    need(ctl("key", "rotate", "--json")["ok"] is True, "no JSON")
    need(open(path("cluster.key")).read() != before and stat.S_IMODE(os.stat(path("cluster.key")).st_mode) == 0o600,
         "the key is the old one, or open")
    need("key-changed" in ctl("events"), "no event")
    need("PRIVATE" not in open(path("cluster.key.old")).read(), "the old private key lies about")


def events_as_they_come():
    follower = subprocess.Popen([CTL, "events", "-f", "-n", "0", "-j", "--vm", "gamma"], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=environment)
    time.sleep(0.5)
    ctl("vm", "add", "delta", "--sms", "1", "--memory", "1M")
    ctl("vm", "add", "gamma", "--sms", "1", "--memory", "1M")
    timer = threading.Timer(10, follower.kill)
    timer.start()
    line = follower.stdout.readline()
    timer.cancel()
    follower.send_signal(signal.SIGINT)
    follower.communicate(timeout=10)
    event = json.loads(line or "{}")
    need(event.get("kind") == "vm-added" and event["vm"] == "gamma", line)
    ctl("vm", "remove", "gamma", "delta")
    rows = [json.loads(row) for row in ctl("events", "-j", "-n", "4").splitlines()]
    need([row["kind"] for row in rows] == ["vm-added", "vm-added", "vm-removed", "vm-removed"], rows)
    after = [json.loads(row) for row in ctl("events", "-j", "--since", str(rows[1]["number"])).splitlines()]
    need([row["number"] for row in after] == [row["number"] for row in rows[2:]], after)
    need([json.loads(row)["vm"] for row in ctl("events", "-j", "--kind", "vm-removed", "--vm",
                                               "gamma").splitlines()] == ["gamma"], "filter")
    need("vm-removed" in ctl("events"), "table")


def numbers(*arguments):
    return [json.loads(row)["number"] for row in ctl("events", "-j", *arguments).splitlines()]


def events_of_long_ago():
    """More events have come since than are shown, and than one answer of the cluster manager holds."""
    names = [f"epsilon-{i}" for i in range(140)]
    vms = [{"name": name, "sms": 1, "memory": 1 << 20} for name in names]
    ctl("vm", "import", "-", stdin=json.dumps(vms), limit=60)
    ctl("vm", "remove", *names)
    need("n1 on" in ctl("events", "--kind", "node-joined"), "the node's coming is not shown any more")
    every = numbers("--since", "1h")
    need(every == numbers("--since", "0") == numbers("--since", "2020-01-01") and len(every) > 130, len(every))
    need(numbers("--since", "1h", "-n", "3") == every[-3:] == numbers("-n", "3"), "the last three")
    need(numbers("--since", "2100-01-01T00:00") == [], "events of the future")
    need("No matching events" in ctl("events", "--since", "0s"), "none")
    for wrong in ("yesterday", "5x", "2026-13-01", "25:00", "-1h", "999999999d"):
        ctl("events", "--since", wrong, expect=2)


def top_is_quiet():
    """It waits for the next picture, not for the cluster manager."""
    done = subprocess.run([CTL, "top", "-n", "2", "-d", "2"], capture_output=True, text=True, timeout=30,
                          env=environment)
    need(done.returncode == 0 and done.stdout.count("Nodes ") == 2 and not done.stderr, done)


def what_runs_is_named():
    for arguments in (["change-config", "-i", "alpha", "-s", "2"],
                      ["inc-resources", "--ip", "alpha", "--memory", "512"],
                      ["dec-resources", "-i", "alpha", "-s", "1", "--within", "1"]):
        ctl(*arguments, expect=5)                       # nothing of it runs
        need("no running GPU server" in ctl.last.stderr, ctl.last.stderr)
    for arguments in (["migrate", "-i", "alpha", "--dstsnodeip", "n1", "--dstgpuid", "0"],
                      ["migrate-auto", "-i", "alpha"]):
        ctl(*arguments, expect=5)
        need("runs no program" in ctl.last.stderr, ctl.last.stderr)
    ctl("migrate", "-i", "alpha", expect=2)
    ctl("program", "migrate", "12", "--to", "n1", expect=5)
    ctl("move", "cancel", "12", expect=5)
    need(ctl("move", "list", "--json") == [], "no program moves")


def words_for_the_shell():
    need(ctl("complete", "v").split() == ["vm", "vm-grouping"], ctl("complete", "v"))
    need(ctl("complete", "vm", "s").split() == ["set", "show"], "vm s")
    need("alpha" in ctl("complete", "vm", "show", "").split(), "names of VMs")
    need(ctl("complete", "node", "drain", "").split() == ["n1"], "names of nodes")
    need("--sharing" in ctl("complete", "vm", "add", "x", "--s").split(), "options")
    need(ctl("complete", "vm", "import", "").split() == [":file"] and ctl("complete", "--tls", "").split() == [":dir"],
         "files")
    need(ctl("complete", "server", "list", "--node", "").split() == ["n1"], "values")
    need(ctl("complete", "config", "keys", "c").split() == ["cluster-manager", "client-manager"], "daemons")


def on_a_terminal(columns, *arguments):
    """What flytctl prints on a terminal of so many columns."""
    import fcntl
    import pty
    import struct
    import termios
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([CTL, *arguments], stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE,
                               env=environment)
    os.close(theirs)
    text = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        text += part
    os.close(ours)
    need(process.wait() == 0, process.stderr.read())
    process.stderr.close()
    return text.decode().replace("\r", "")


def tables_fit_the_terminal():
    name, host = "a-virtual-machine-with-a-long-name", "fd00:1111:2222:3333:4444:5555:6666:7777"
    ctl("vm", "add", name, "--sms", "1000", "--memory", "1000G", "--address", host, "--host", host, "--sharing", "any")
    for what in (["vm", "list"], ["node", "list"], ["server", "list"], ["program", "list"], ["node", "show", "n1"],
                 ["vm", "show", name], ["status"], ["events"], ["top", "-n", "1"]):
        for columns in (80, 60, 200):
            text = re.sub("\033[^a-zA-Z]*[a-zA-Z]", "", on_a_terminal(columns, *what))
            need(max(map(len, text.splitlines())) <= columns, f"{what} on {columns} columns:\n{text}")
    fitted = on_a_terminal(80, "vm", "list", "--color", "never")
    need(name in fitted and "WAITING" in fitted, "what matters is shown")
    whole = on_a_terminal(80, "vm", "list", "--wide", "--color=never")
    need(whole == ctl("vm", "list") and "GROUPING" in whole and whole.count(host) == 2, whole)
    ctl("vm", "remove", name)


def from_another_machine():
    tcp = f"tcp://127.0.0.1:{bring_up.client}"
    ctl("-M", tcp, "status", expect=4)
    me = ctl("-M", tcp, "-S", f"file:{work}/admin.secret", "-A", "ann", "whoami", "--json")
    need((me["name"], me["role"], me["known_by"]) == ("ann (from 127.0.0.1)", "admin", "secret"), me)
    ctl("status", environment=environment | {"FLYT_CLUSTER": tcp, "FLYT_CLUSTER_SECRET": "env:WORD",
                                             "WORD": "the administrators' secret"})
    ctl("-M", tcp, "-S", f"file:{write('wrong.secret', 'a guess')}", "status", expect=4)
    ctl("-M", tcp, "-S", f"file:{work}/none.secret", "status", expect=2)
    ctl("-M", tcp, "-S", "the administrators' secret", "status", expect=2)


def with_certificates():
    """The same cluster manager, started again with certificates."""
    end(daemons[0])
    text = open(path("cluster.conf")).read().replace(f"{work}/none", f"{work}/tls")
    text = text.replace(f' admin-secret = "file:{work}/admin.secret";', "")
    write("cluster.conf", text)
    daemons[0] = start_manager()
    tcp = f"tcp://127.0.0.1:{bring_up.client}"
    need(ctl("-M", tcp, "-T", path("tls"), "-A", "ann", "status", "--json")["tls"] is True, "TLS")
    need([row["name"] for row in ctl("vm", "list", "--json")] == ["alpha"], "what was there is there after a restart")
    done = subprocess.run([CTL, "-t", "3", "-M", tcp, "status"], capture_output=True, text=True, env=environment)
    need(done.returncode in (1, 3, 4), f"plain: {done}")
    ctl("-M", tcp, "-T", path("tls"), "-A", "nobody", "status", expect=2)
    # A node's certificate is no administrator's.
    ctl("-M", tcp, "-T", path("tls"), "-A", "gpu-1", "status", expect=4)
    # Somebody with a certificate of the same CA that is no cluster manager's.
    shutil.copytree(path("tls"), path("false"))
    for kind in ("crt", "key"):
        shutil.copy(path(f"false/gpu-1.{kind}"), path(f"false/cluster.{kind}"))
    node, client = free_ports(2)
    write("false.conf", cluster_config(work, (node, client), name="false", tls="false"))
    start("flyt-cluster-manager", "--config", path("false.conf"))
    until(lambda: ctl("-M", f"unix://{work}/false.sock", "status"), "the false one does not start")
    ctl("-M", f"tcp://127.0.0.1:{client}", "-T", path("tls"), "-A", "ann", "status", expect=4)


TESTS = [
    a_small_authority, bring_up, entitlements_live, export_and_import, many_pages, nodes, the_state_of_it_all,
    reloading, a_silent_manager, the_key_that_signs_is_changed, events_as_they_come, events_of_long_ago, top_is_quiet,
    what_runs_is_named,
    words_for_the_shell, tables_fit_the_terminal, from_another_machine, with_certificates,
]

sys.exit(run(TESTS))
