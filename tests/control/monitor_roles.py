#!/usr/bin/env python3
"""tests/control/monitor_roles.py BIN PROGRAM [all]: who may see what of flyt-monitor, over TLS and by token.

PROGRAM is control_client_program: it takes memory, and goes on when it is given a line.

shows: monitor: over TLS certificates and tokens say who sees what: a role matrix of all paths; a VM sees its rows only
shows: monitor: revoked and foreign certificates, and tokens that were taken back, count no more after a reload
shows: monitor: a VM takes a quarter of the streams of events at most, and leaves others theirs
shows: monitor: Prometheus reads it over TLS with a token; Alertmanager hears of a node that was killed
"""
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import Local, Skip, case, end, free_ports, need, only_cases, read, spawn, until, write  # noqa: E402

BIN, PROGRAM = (os.path.abspath(path) for path in sys.argv[1:3])
if_all = case if sys.argv[3:] == ["all"] else lambda test: test      # cases that take long
ROOM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../control-managers/monitor")
FOLDER = tempfile.mkdtemp(prefix="flyt-roles-")
WEB = f"{FOLDER}/web"
cluster = Local(BIN, os.path.join(FOLDER, "cluster"), "--nodes", "2", "--tls")
CA = f"{cluster.dir}/etc/ca"
FILES = ("/", "/page.css", "/page.js", "/icon.svg")
OF_CLUSTER = tuple(f"/api/v1/{name}" for name in ("status", "nodes", "gpus", "history"))
OF_VMS = tuple(f"/api/v1/{name}" for name in ("vms", "servers", "programs", "moves"))
SAMPLES = ("/metrics", "/metrics/servers", "/metrics/programs")


def issue(role, name, *options, out=None):
    out = out or f"{FOLDER}/{role}-{name}"
    cluster.ctl("ca", "issue", CA, role, name, "--out", out, *options)
    return f"{out}/{name}.crt", f"{out}/{name}.key"


def new_token(role):
    """The token, and its line of the file."""
    done = subprocess.run([f"{BIN}/flyt-monitor", "--new-token", role], capture_output=True, text=True, check=True)
    return re.findall(r": (.*)", done.stdout)


def make_tokens():
    write(f"{FOLDER}/tokens", "# made by a test\n" + "".join(f"{line} remark\n" for _, line in tokens.values()))


issue("server", "web", "--host", "127.0.0.1", "--host", "localhost", out=WEB)
tokens = {role: new_token(role) for role in ("viewer", "metrics", "client:local", "client:other")}
make_tokens()
cluster.ctl("vm", "add", "other", "--sms", "1", "--memory", "1M")
MONITOR = (f"{BIN}/flyt-monitor", "--manager", f"unix://{cluster.dir}/run/cluster.sock", "--interval", "1", "--port",
           "0", "--listen", "127.0.0.1")
monitor = spawn(f"{FOLDER}/monitor.log", *MONITOR, "--web-tls", WEB, "--tokens", f"{FOLDER}/tokens", "--host",
                "monitor.example", "--program-metrics", environment=os.environ | {"FLYT_LOG": "info"})
until(lambda: "https://" in read(f"{FOLDER}/monitor.log"), lambda: read(f"{FOLDER}/monitor.log"))
PORT = int(re.search(r"https://127.0.0.1:(\d+)/", read(f"{FOLDER}/monitor.log"))[1])


def connect(certificate=None):
    context = ssl.create_default_context(cafile=f"{WEB}/ca.crt")
    if certificate:
        context.load_cert_chain(*certificate)
    return http.client.HTTPSConnection("127.0.0.1", PORT, context=context, timeout=20)


def request(path, certificate=None, token=None, head="Bearer {}"):
    """The status and the text."""
    connection = connect(certificate)
    connection.request("GET", path, headers={"Authorization": head.format(token)} if token else {})
    reply = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    return reply.status, text


def next_event(reply, kind=None):
    """Lines that say that nothing has happened are passed over, and events of other kinds."""
    while True:
        line = reply.readline()
        need(line, "the stream has ended")
        event = json.loads(line[6:]) if line.startswith(b"data: ") else None
        if event and kind in (None, event["kind"]):
            return event


def until_read(**credentials):
    until(lambda: request("/api/v1/status", **credentials)[0] == 200, "the monitor has read the cluster")


@case
def roles():
    until_read(token=tokens["viewer"][0])
    everything = dict.fromkeys(FILES + SAMPLES + OF_CLUSTER + OF_VMS, 200)
    nobody = {path: 200 if path in FILES else 401 for path in everything}
    vm = {path: 403 if path in OF_CLUSTER else 200 for path in everything}
    metrics = {path: 200 if path in FILES + SAMPLES else 403 for path in everything}
    callers = [("nobody", {}, nobody)]
    for role, wanted in (("admin", everything), ("operator", everything), ("viewer", everything), ("node", nobody),
                         ("client", vm)):
        callers.append((role, {"certificate": issue(role, "local")}, wanted))
    for role, wanted in (("viewer", everything), ("metrics", metrics), ("client:local", vm)):
        callers.append((f"token {role}", {"token": tokens[role][0]}, wanted))
    callers += [("a wrong token", {"token": "0" * 64}, nobody), ("no token", {"token": " "}, nobody),
                ("the hash", {"token": tokens["viewer"][1].split()[1]}, nobody),
                ("Basic", {"token": tokens["viewer"][0], "head": "Basic {}"}, nobody)]
    for name, credentials, wanted in callers:
        found = {path: request(path, **credentials)[0] for path in wanted}
        need(found == wanted, f"{name}: " + str({path: (found[path], wanted[path]) for path in wanted
                                                 if found[path] != wanted[path]}))
    who = {name: request("/api/v1/me", **credentials) for name, credentials, _ in callers}
    need(json.loads(who["client"][1]) == {"role": "client:local", "vm": "local"}, who)
    need(json.loads(who["operator"][1]) == {"role": "operator", "vm": ""} and who["nobody"][0] == 401, who)


@case
def a_vm_sees_itself_only():
    holder = subprocess.Popen([f"{BIN}/flyt-run", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env=cluster.env)
    need(holder.stdout.readline() == "attached\n", "no GPU")
    try:
        rows = lambda name, role: json.loads(request(f"/api/v1/{name}", token=tokens[role][0])[1])
        until(lambda: rows("programs", "client:local"), "its program")
        for name in ("vms", "servers", "programs"):
            all_rows, own = rows(name, "viewer"), rows(name, "client:local")
            need(own == [row for row in all_rows if row.get("vm", row.get("name")) == "local"] and own, own)
        need(rows("servers", "client:other") == [] and rows("programs", "client:other") == [], "of another VM")
        need([row["name"] for row in rows("vms", "client:other")] == ["other"], rows("vms", "client:other"))
        until(lambda: "flyt_server_calls_total{" in request("/metrics/servers", token=tokens["viewer"][0])[1], "counts")
        for path in SAMPLES:
            text = request(path, token=tokens["client:local"][0])[1]
            samples = [line for line in text.splitlines() if not line.startswith("#")]
            need(samples and all('vm="local"' in line for line in samples), text)
            families = set(re.findall(r"^# TYPE (\S+)", text, re.M))
            need(all(re.sub(r"_(bucket|sum|count)?(\{.*)? \S+$|\{.*", "", line) in families for line in samples), text)
            need("other" in request(path, token=tokens["client:other"][0])[1] or path != "/metrics", "the other VM")
    finally:
        holder.communicate("\n", timeout=60)


@case
def events_of_its_own():
    def follow(token):
        connection = connect()
        connection.request("GET", "/api/v1/events", headers={"Authorization": f"Bearer {token}"})
        return connection, connection.getresponse()
    (mine, reply), (others, other) = follow(tokens["client:other"][0]), follow(tokens["viewer"][0])
    cluster.ctl("vm", "set", "local", "--sms", "3")
    cluster.ctl("vm", "set", "other", "--sms", "2")
    events = [next_event(each, "vm-changed")["vm"] for each in (reply, other, other)]
    need(events == ["other", "local", "other"], events)
    mine.close()
    others.close()
    need(follow(tokens["metrics"][0])[1].status == 403, "metrics may not follow")


@case
def what_was_taken_back_counts_no_more():
    revoked, kept = issue("viewer", "ann"), issue("viewer", "bob")
    foreign = f"{FOLDER}/foreign-ca"
    cluster.ctl("ca", "create", foreign)
    cluster.ctl("ca", "issue", foreign, "viewer", "eve", "--out", foreign)
    need(request("/metrics", revoked)[0] == 200, "not revoked yet")
    need(request("/metrics", (f"{foreign}/eve.crt", f"{foreign}/eve.key"))[0] == 401, "another authority's")
    need(request("/metrics", (f"{WEB}/web.crt", f"{WEB}/web.key"))[0] == 401, "a server's certificate is no caller's")
    connection = connect(revoked)
    connection.request("GET", "/api/v1/events")
    reply = connection.getresponse()
    cluster.ctl("ca", "revoke", CA, "viewer", "ann")
    shutil.copy(f"{CA}/ca.crl", WEB)
    old = tokens.pop("metrics")[0]
    make_tokens()
    need(request("/metrics", token=old)[0] == 200, "not read again yet")
    monitor.send_signal(signal.SIGHUP)
    until(lambda: "event=reloaded" in read(f"{FOLDER}/monitor.log"), lambda: read(f"{FOLDER}/monitor.log"))
    with contextlib.suppress(http.client.IncompleteRead):
        until(lambda: not reply.read1(4096), "the stream of a revoked certificate ends")
    connection.close()
    need(request("/metrics", token=old)[0] == 401, "a token that was taken back")
    need(request("/metrics", revoked)[0] == 401 and request("/metrics", kept)[0] == 200, "certificates")
    write(f"{FOLDER}/tokens", "viewer nonsense\n")      # what is no good changes nothing
    monitor.send_signal(signal.SIGHUP)
    until(lambda: "event=reload-refused" in read(f"{FOLDER}/monitor.log"), "it says so")
    need(request("/metrics", token=tokens["viewer"][0])[0] == 200, "the old ones hold")
    make_tokens()


@case
def what_it_refuses_at_its_start():
    def says(*options):
        done = subprocess.run([*MONITOR, *options], capture_output=True, text=True, timeout=20)
        need(done.returncode in (1, 2), done)
        return done.stderr
    write(f"{FOLDER}/bad", f"owner {'0' * 64}\n")
    need("bad:1:" in says("--tokens", f"{FOLDER}/bad"), "a role that is none")
    os.chmod(f"{FOLDER}/bad", 0o666)
    need("written by others" in says("--tokens", f"{FOLDER}/bad"), "anybody could add tokens")
    need("cannot be read" in says("--tokens", f"{FOLDER}/none"), "no file")
    need(f"{FOLDER}/none/ca.crt does not exist" in says("--web-tls", f"{FOLDER}/none"), "no certificates")
    need("no role" in says("--new-token", "admin"), "tokens are no administrators")
    # With tokens a loopback address asks for them, too.
    plain = spawn(f"{FOLDER}/plain.log", *MONITOR, "--tokens", f"{FOLDER}/tokens")
    try:
        until(lambda: "http://" in read(f"{FOLDER}/plain.log"), "it starts")
        url = re.search(r"http://\S+", read(f"{FOLDER}/plain.log"))[0]
        for token, wanted in (("", 401), (tokens["viewer"][0], 404)):
            asked = urllib.request.Request(url + "nothing", headers={"Authorization": f"Bearer {token}"})
            try:
                found = urllib.request.urlopen(asked, timeout=10).status
            except urllib.error.HTTPError as refusal:
                found = refusal.code
            need(found == wanted, f"{found}, not {wanted}")
    finally:
        end(plain)


@case
def a_vm_takes_a_part_of_the_streams():
    own, held = spawn(f"{FOLDER}/eight.log", *MONITOR, "--streams", "8", "--tokens", f"{FOLDER}/tokens"), []
    try:
        until(lambda: "http://" in read(f"{FOLDER}/eight.log"), "it starts")
        port = int(re.search(r"http://\S+:(\d+)/", read(f"{FOLDER}/eight.log"))[1])

        def followed(role):
            """How many streams it gets until it is refused one."""
            for count in range(10):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
                held.append(connection)
                connection.request("GET", "/api/v1/events", headers={"Authorization": f"Bearer {tokens[role][0]}"})
                if connection.getresponse().status == 503:
                    return count
            return 10
        found = [followed(role) for role in ("client:local", "client:other", "viewer")]
        need(found == [2, 2, 4], found)
    finally:
        for connection in held:
            connection.close()
        end(own)


@if_all
def a_thousand_streams():
    context = ssl.create_default_context(cafile=f"{WEB}/ca.crt")
    context.load_cert_chain(*issue("viewer", "many"))
    begun, streams = time.monotonic(), []
    plain = spawn(f"{FOLDER}/streams.log", *MONITOR, "--streams", "1000")
    try:
        until(lambda: "http://" in read(f"{FOLDER}/streams.log"), "it starts")
        port = int(re.search(r"http://\S+:(\d+)/", read(f"{FOLDER}/streams.log"))[1])
        until(lambda: urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).status == 200, "it reads")
        for _ in range(1000):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/api/v1/events")
            streams.append((connection, connection.getresponse()))
        need(all(reply.status == 200 for _, reply in streams), "1,000 streams")
        cluster.ctl("vm", "set", "other", "--sms", "1")
        begun = time.monotonic()
        need(all(next_event(reply)["kind"] == "vm-changed" for _, reply in streams), "all hear of it")
        need(time.monotonic() - begun < 10, f"{time.monotonic() - begun} s")
        need(urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).status == 200, "others are served")
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/api/v1/events")
        need(connection.getresponse().status == 503, "one too many")
    finally:
        for connection, _ in streams:
            connection.close()
        end(plain)


def post_receiver(port):
    """What Alertmanager sends to its receiver goes to a file."""
    write(f"{FOLDER}/receiver.py", f"""
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        open({FOLDER + "/alerts"!r}, "ab").write(body + b"\\n")
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", {port}), Handler).serve_forever()
""")
    return spawn(f"{FOLDER}/receiver.log", sys.executable, f"{FOLDER}/receiver.py")


@if_all
def alertmanager_hears_of_a_lost_node():
    if not shutil.which("prometheus") or not shutil.which("prometheus-alertmanager"):
        raise Skip("prometheus or prometheus-alertmanager is not installed")
    prometheus_port, manager_port, receiver_port, cluster_port = free_ports(4)
    write(f"{FOLDER}/token", tokens["viewer"][0])
    rules = read(f"{ROOM}/flyt.rules.yml").replace("for: 30s", "for: 1s")
    write(f"{FOLDER}/rules.yml", rules)
    write(f"{FOLDER}/prometheus.yml", f"""global: {{ scrape_interval: 1s, evaluation_interval: 1s }}
rule_files: ["{FOLDER}/rules.yml"]
alerting: {{ alertmanagers: [{{ static_configs: [{{ targets: ["127.0.0.1:{manager_port}"] }}] }}] }}
scrape_configs:
  - job_name: flyt
    scheme: https
    tls_config: {{ ca_file: "{WEB}/ca.crt" }}
    authorization: {{ credentials_file: "{FOLDER}/token" }}
    static_configs: [{{ targets: ["127.0.0.1:{PORT}"] }}]
""")
    write(f"{FOLDER}/alertmanager.yml", f"""
route: {{ receiver: test, group_wait: 1s }}
receivers: [{{ name: test, webhook_configs: [{{ url: "http://127.0.0.1:{receiver_port}/" }}] }}]
""")
    write(f"{FOLDER}/alerts", "")
    started = [post_receiver(receiver_port),
               spawn(f"{FOLDER}/alertmanager.log", "prometheus-alertmanager",
                     f"--config.file={FOLDER}/alertmanager.yml", f"--storage.path={FOLDER}/alertmanager",
                     f"--web.listen-address=127.0.0.1:{manager_port}",
                     f"--cluster.listen-address=127.0.0.1:{cluster_port}"),
               spawn(f"{FOLDER}/prometheus.log", "prometheus", f"--config.file={FOLDER}/prometheus.yml",
                     f"--storage.tsdb.path={FOLDER}/tsdb", f"--web.listen-address=127.0.0.1:{prometheus_port}")]

    def scraped():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{prometheus_port}/api/v1/query?query=sum(flyt_node_up)",
                                        timeout=5) as reply:
                return json.load(reply)["data"]["result"][0]["value"][1] == "2"
        except (OSError, IndexError):
            return False
    try:
        until(scraped, lambda: read(f"{FOLDER}/prometheus.log"), 40)
        again = cluster.kill("node-2")
        until(lambda: "FlytNodeLost" in read(f"{FOLDER}/alerts"),
              lambda: read(f"{FOLDER}/alertmanager.log") + read(f"{FOLDER}/prometheus.log"), 90)
        need("Node node-2 is not up" in read(f"{FOLDER}/alerts"), read(f"{FOLDER}/alerts"))
        again()
    finally:
        for process in started:
            end(process)


@case
def no_secret_leaves_it():
    paths = [os.path.join(folder, name) for top in (cluster.dir, WEB) for folder, _, names in os.walk(top)
             for name in names if name.endswith((".secret", ".key")) and name != "ticket.key"]
    secrets = [read(path).strip() for path in paths if os.path.getsize(path)]
    secrets += [token for token, _ in tokens.values()] + [line.split()[1] for _, line in tokens.values()]
    need(len(secrets) > 8, len(secrets))
    for path in FILES + SAMPLES + OF_CLUSTER + OF_VMS + ("/api/v1/me", "/nothing"):
        text = request(path, token=tokens["viewer"][0])[1]
        need(not any(secret in text for secret in secrets), f"a secret in {path}")
    need(not any(secret in read(f"{FOLDER}/monitor.log") for secret in secrets), "a secret in its log")


try:
    code = only_cases()
finally:
    end(monitor)
    cluster.down()
    shutil.rmtree(FOLDER, ignore_errors=True)
sys.exit(code)
