#!/usr/bin/env python3
"""tests/control/records.py BIN: what the daemons write down, and what monitoring reads. Speaks TAP.

shows: Operators: nobody can write events into a log by its name, and deceptive characters reach no terminal
shows: Operators: the audit trail has what was refused and who asked, also under sudo; operators drain nodes
shows: Operators: each line of the audit trail is as docs/json/audit.schema.json says; exports and reloads are in it,
  and what VMs, nodes and the keys of a reload were before, and are now
shows: Operators: systemd's journal gets priorities; `flytctl status --check` speaks as monitoring expects it
shows: Operators: flytctl whoami shows name, role and how the caller is known: socket, certificates of each role
shows: limits: the cluster manager gives memory back when many connections have ended
"""
import json
import os
import pwd
import re
import resource
import ssl
import subprocess
import sys

from ctl_runner import BIN, ctl, environment, path, run, start, start_manager, work, write
from testlib import client_config, cluster_config, free_ports, listens, need, node_config, sanitized, until
from wire import CLIENT, NODE, OF_PROGRAM, SERVER, Peer

EVIL = 'x" event=fake-event node="n9'
BIDI = "\u202e\u2066\u200f"
VALUE = re.compile(r'(?:^|\s)([a-z_-]+)=(?:"([^"]*)"|(\S*))')
CONNECTIONS = 500
me = pwd.getpwuid(os.geteuid()).pw_name


def said(name):
    with open(path(name), encoding="utf-8") as log:
        return log.read()


def bring_up():
    node, client = free_ports(2)
    write("node.secret", "node secret")
    ca = path("ca")
    ctl("ca", "create", ca)
    for role, name, *more in (("cluster", "main", "--host", "127.0.0.1"), ("admin", "ann"), ("operator", "oscar"),
                              ("viewer", "vera"),
                              ("client", "alpha"), ("node", "n1")):
        ctl("ca", "issue", ca, role, name, *more, "--out", path("tls"))
    write("cluster.conf", cluster_config(work, (node, client), more=f'log = {{ audit = "{work}/audit.log"; }};',
                                         security=f'node-secret = "file:{work}/node.secret"; tls = "allow";'))
    write("client.conf", client_config(client, "alpha", path("client"), path("p.sock"), path("alpha.secret")))
    write("node.conf", node_config(BIN, node, "n1", path("node"), path("node.secret")))
    bring_up.node, bring_up.client = node, client
    bring_up.manager = start_manager(FLYT_LOG="debug")


def memory_is_given_back():
    """TLS sessions that begin and say no more."""
    if sanitized(BIN):
        return "a sanitizer keeps memory that was freed"
    def used():
        with open(f"/proc/{bring_up.manager.pid}/status") as lines:
            return int(re.search(r"VmRSS:\s*(\d+)", lines.read()).group(1))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, CONNECTIONS + 200)), hard))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    sent, received = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(received, sent).do_handshake()
    except ssl.SSLWantReadError:
        pass
    greeting, before = sent.read(), used()
    peers = [Peer(("127.0.0.1", bring_up.client)) for _ in range(CONNECTIONS)]
    for peer in peers:
        peer.socket.sendall(greeting)
    for peer in peers:
        peer.socket.recv(1)                                 # its side of the session is there
    most = used()
    need(most - before > CONNECTIONS * 16, f"{CONNECTIONS} sessions took {most - before} KiB only")
    for peer in peers:
        peer.close()
    until(lambda: used() - before < (most - before) / 4,
               lambda: f"{before} KiB before, {most} with the connections, {used()} after they have ended")


def monitoring():
    """Nobody has joined, a node is up, it is away; the cluster manager itself."""
    def check(status, words):
        need(words in ctl("status", "--check", expect=None) and ctl.last.returncode == status, lambda: ctl.last)
        row = ctl("status", "--check", "--json", expect=None)
        done = ctl.last
        need(row["exit"] == status == done.returncode and row["ok"] == (status == 0) and len(done.stdout) > 0, row)
    check(1, "WARNING - no node has joined this cluster | nodes=0 ")
    monitoring.node = start("flyt-node-manager", "--config", path("node.conf"))
    until(lambda: ctl("node", "list", "--json")[0]["state"] == "up", "the node does not come up")
    check(0, "OK - all is well | nodes=1 nodes_up=1 ")
    ctl("node", "drain", "n1")
    check(2, "CRITICAL - no GPU is ready | ")
    ctl("node", "undrain", "n1")
    done = ctl("--manager", f"unix://{work}/nobody.sock", "status", "--check", expect=2)
    need(done.startswith("CRITICAL - the cluster manager does not serve"), done)
    done = ctl("--manager", "nonsense", "status", "--check", expect=3)
    need(done.startswith("UNKNOWN - "), done)


def no_event_is_forged():
    """Names, versions and paths of programs with quotes: in the logs of all three daemons, and in the audit trail."""
    ctl("vm", "add", "alpha", "--sms", "1", "--memory", "64M", "--secret-file", path("alpha.secret"))
    start("flyt-client-manager", "--config", path("client.conf"))
    until(lambda: listens(path("p.sock")), "the client manager does not come up")
    until(lambda: ctl("vm", "show", "alpha", "--json")["connected"], "the client manager does not connect")
    for address, role in ((("127.0.0.1", bring_up.node), NODE), (("127.0.0.1", bring_up.client), CLIENT),
                          (path("p.sock"), SERVER)):
        peer = Peer(address)
        peer.hello(role, EVIL, EVIL + BIDI)
        peer.close()
    ctl("node", "drain", "n1")
    peer = Peer(path("p.sock"))
    need(peer.hello(OF_PROGRAM, "pid-1"), "the client manager refuses a program")
    peer.attach(f"/tmp/{EVIL}{BIDI}")
    peer.close()
    until(lambda: "program-refused" in ctl("events"), "the program was not refused")
    ctl("node", "undrain", "n1")
    trail = said("audit.log").splitlines()
    need(any("fake-event" in row for row in trail), "the audit trail has nothing of it")
    need(all(json.loads(row)["event"] != "fake-event" and not any(letter in row for letter in BIDI) for row in trail),
         trail)
    names = ["flyt-cluster-manager.log", "flyt-client-manager.log", "flyt-node-manager.log"]
    lines = [line for name in names for line in said(name).splitlines()]
    need(sum("fake-event" in line for line in lines) >= 2, "no log has what was to look like an event")
    for line in lines:
        kinds = [bare or quoted for key, quoted, bare in VALUE.findall(line) if key == "event"]
        need("fake-event" not in kinds and len(kinds) <= 1, line)
        need(not any(letter in line for letter in BIDI), line)
    shown = ctl("events") + ctl("events", "-j")
    need("fake-event" in shown and not any(letter in shown for letter in BIDI), shown)


def a_certificate_with_a_deceptive_name():
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-utf8", "-keyout", path("bidi.key"), "-out", path("bidi.crt"), "-subj", f"/CN=admin:ann{BIDI}"],
                   check=True, capture_output=True)
    for shown in (ctl("ca", "show", path("bidi.crt")), ctl("ca", "show", "-j", path("bidi.crt"))):
        need("admin:ann?" in shown and not any(letter in shown for letter in BIDI), shown)


def audited_row(kind):
    """The newest line of that kind; each line is an object."""
    rows = [each for each in map(json.loads, said("audit.log").splitlines()) if each["event"] == kind]
    return rows[-1] if rows else {"text": ""}


def audited(kind):
    return audited_row(kind)["text"]


def what_was_refused():
    ctl("node", "remove", "n1", expect=7)
    line = audited("command-refused")
    need(f'{me}, ADMIN_NODE: node n1 is connected' in line, line)
    ctl("vm", "add", "alpha", "--sms", "1", "--memory", "1M", expect=6)
    need("ADMIN_VM_ADD: there is a VM 'alpha' already" in audited("command-refused"), audited("command-refused"))
    ctl("server", "stop", "4711", expect=5)
    need("there is no server 4711" in audited("command-refused"), audited("command-refused"))
    need("command-refused" in ctl("events", "--kind", "command-refused"), "no event")


def who_it_was():
    """sudo's user beside the one that the kernel knows; the certificate's name alone."""
    if os.geteuid() == 0:
        ctl("node", "drain", "n1", environment=environment | {"SUDO_USER": "ann"})
        need('by ann (root); ' in audited("node-drained"), audited("node-drained"))
        ctl("node", "undrain", "n1", environment=environment | {"SUDO_USER": "not a name"})
        need('by root; ' in audited("node-undrained"), audited("node-undrained"))
    ctl("--as", "bob", "node", "drain", "n1")
    need(f'by bob ({me}); ' in audited("node-drained"), audited("node-drained"))
    there = ["--manager", f"tcp://127.0.0.1:{bring_up.client}", "--tls", path("tls"), "--as"]
    ctl(*there, "ann", "node", "undrain", "n1")
    need('by ann; ' in audited("node-undrained"), audited("node-undrained"))
    seen = [ctl(*where, name, "whoami", "--json") for where, name in
            ((["--as"], "bob"), (there, "ann"), (there, "oscar"), (there, "vera"))]
    need([(row["name"], row["role"], row["may"], row["known_by"], row["encrypted"]) for row in seen] ==
         [(f"bob ({me})", "admin", "view, operate and administer the cluster", "unix socket", False),
          ("ann", "admin", "view, operate and administer the cluster", "certificate", True),
          ("oscar", "operator", "view and operate the cluster", "certificate", True),
          ("vera", "viewer", "view the cluster", "certificate", True)], seen)
    # An operator runs the cluster: node and GPU servers, not who is in it.
    ctl(*there, "oscar", "node", "drain", "n1")
    need('by oscar; ' in audited("node-drained"), audited("node-drained"))
    ctl(*there, "oscar", "node", "undrain", "n1")
    ctl(*there, "oscar", "node", "remove", "n1", "--force", expect=4)
    need("oscar, ADMIN_NODE: an operator drains" in audited("command-refused"), audited("command-refused"))
    ctl(*there, "oscar", "node", "add", "n2", expect=4)
    until(lambda: "oscar, ADMIN_NODE_ADD: the peer called ADMIN_NODE_ADD, which is not for operator" in
               audited("command-refused"),
               "what the role may not do leaves nothing")
    ctl(*there, "oscar", "key", "rotate", expect=4)


def a_server_is_stopped():
    """It cannot start, but it is there to be stopped."""
    peer = Peer(path("p.sock"))
    peer.hello(OF_PROGRAM, "pid-2")
    monitoring.node.send_signal(19)                         # SIGSTOP: it starts no server, and reports no failure
    try:
        peer.socket.sendall(b"")
        peer.socket.settimeout(0.2)
        try:
            peer.attach("/bin/waits")
        except TimeoutError:
            pass
        until(lambda: ctl("server", "list", "--json"), "no server was placed")
        number = str(ctl("server", "list", "--json")[0]["id"])
        ctl("server", "stop", number, "--force")
        row = audited_row("server-stopped")
        need(row["vm"] == "alpha" and row["node"] == "n1" and row["server"] == int(number)
             and row["text"].startswith(f"by {me}; ") and re.match(r"20.*Z$", row["time"]), row)
    finally:
        monitoring.node.send_signal(18)
        peer.close()


def before_and_after():
    """Nodes, and the keys that a reload changes; of VMs the caller has looked."""
    own = "no secret of its own"
    ctl("node", "drain", "n1", "--reason", "a new fan")
    row = audited_row("node-drained")
    need((row["before"], row["after"]) == (f"in use, {own}", f"drained: a new fan, {own}"), row)
    ctl("node", "undrain", "n1")
    row = audited_row("node-undrained")
    need((row["before"], row["after"]) == (f"drained: a new fan, {own}", f"in use, {own}"), row)
    ctl("node", "add", "n7", "--secret-file", path("n7.secret"))
    row = audited_row("node-added")
    need("before" not in row and row["after"] == "in use, a secret of its own", row)
    ctl("node", "remove", "n7")
    row = audited_row("node-removed")
    need(row["before"] == "in use, a secret of its own" and "after" not in row, row)
    ctl("reload")
    need("before" not in audited_row("reloaded"), audited_row("reloaded"))
    write("cluster.conf", said("cluster.conf") + 'placement = { policy = "spread"; overtaking = 3; };\n')
    ctl("reload")
    row = audited_row("reloaded")
    need((row["before"], row["after"]) == ("placement.policy = best-fit, placement.overtaking = 16",
                                           "placement.policy = spread, placement.overtaking = 3"), row)


def the_trail_is_as_its_schema_says():
    """Its events are all that the source audits; the keys of each line are those of the schema."""
    top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    with open(f"{top}/docs/json/audit.schema.json", encoding="utf-8") as file:
        schema = json.load(file)
    with open(f"{top}/control-managers/cluster-manager/events.c", encoding="utf-8") as file:
        listed = file.read().split("kinds[] = {")[1].split("};")[0]
    kinds = schema["properties"]["event"]["enum"]
    need(sorted(re.findall(r'"([a-z-]+)"', listed)) == sorted(kinds), "the schema has other events")
    ctl("vm", "export", path("vms.json"))
    ctl("node", "export", path("nodes.json"))
    ctl("reload")
    ctl("key", "rotate")
    types = {"string": str, "integer": int}
    rows = [json.loads(line) for line in said("audit.log").splitlines()]
    for row in rows:
        need(set(schema["required"]) <= set(row) <= set(schema["properties"]), row)
        for key, value in row.items():
            rule = schema["properties"][key]
            need(value in rule["enum"] if "enum" in rule else isinstance(value, types[rule["type"]]), row)
            need(re.match(rule.get("pattern", ""), str(value)), row)
    newest = [(row["event"], row["result"], row.get("who")) for row in rows][-4:]
    wanted = ["secrets-exported", "secrets-exported", "reloaded", "key-changed"]
    need(newest == [(kind, "done", me) for kind in wanted], newest)
    refused = [row for row in rows if row["event"] == "command-refused"]
    need(all(row["result"] == "refused" and row["who"] for row in refused), refused)
    need(any(row.get("command") == "ADMIN_NODE_ADD" and row.get("node") == "n2" and row["who"].startswith("oscar")
             for row in refused), refused)
    need(all(row.get("command") for row in refused), refused)
    need(any(row.get("command") == "ADMIN_NODE" and row.get("action") in ("drain", "remove") for row in refused),
         refused)
    before = len(rows)
    for words in (["--grouping", "off"], ["--grouping", "off"], ["--sms", "2"]):
        ctl("vm", "set", "alpha", *words)
    ctl("vm", "remove", "nobody", expect=5)
    rows = [json.loads(line) for line in said("audit.log").splitlines()][before:]
    changed = [row for row in rows if row["event"] == "vm-changed"]
    need("grouping on" in changed[0]["before"] and "grouping off" in changed[0]["after"]
         and "nothing is other than before" in changed[1]["text"] and changed[1]["before"] == changed[1]["after"]
         and changed[2]["after"].startswith("2 SMs, ") and "it was: " in changed[2]["text"], changed)
    need(rows[-1]["command"] == "ADMIN_VM_REMOVE" and rows[-1]["vm"] == "nobody", rows[-1])
    before_and_after()
    need({"ADMIN_NODE", "ADMIN_VM_ADD", "ADMIN_SERVER_STOP"} <= {row.get("command") for row in refused}, refused)
    need(all("who" in row for row in rows if row["event"].startswith(("vm-", "node-", "program-killed"))), rows)


def priorities_for_the_journal():
    """A daemon that cannot begin, with a file in the journal's place."""
    write("second.conf", said("client.conf").replace("p.sock", "second.sock"))
    with open(path("journal.log"), "w", encoding="utf-8") as log:
        status = os.fstat(log.fileno())
        subprocess.run([f"{BIN}/flyt-client-manager", "--config", path("second.conf")], stderr=log, timeout=20,
                       env={**os.environ, "JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}, check=False)
    need(re.match(r"<3>flyt-client-manager\[\d+\] error: ", said("journal.log")), said("journal.log"))


def quiet_ends():
    """A command of flytctl is no news."""
    lines = [line for line in said("flyt-cluster-manager.log").splitlines() if "event=connection-ended" in line]
    need(lines and not any("role=admin" in line and " debug: " not in line for line in lines), lines[:5])


sys.exit(run([bring_up, memory_is_given_back, monitoring, no_event_is_forged, a_certificate_with_a_deceptive_name,
              what_was_refused, who_it_was, a_server_is_stopped, the_trail_is_as_its_schema_says,
              priorities_for_the_journal, quiet_ends]))
