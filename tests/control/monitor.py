#!/usr/bin/env python3
"""tests/control/monitor.py BIN PROGRAM [all]: flyt-monitor beside a cluster of flyt-local. PROGRAM uses a GPU and ends.

shows: monitor: metrics as Prometheus reads them, JSON as flytctl prints it, events in less than a second
shows: monitor: what a single program has done and holds, where that is wanted
shows: monitor: every answer in JSON is as docs/json describes it
shows: monitor: it changes nothing, other names and methods, and requests that can be understood in two ways, are
  refused; nonsense and slow readers do no harm
shows: monitor: no counter falls while every daemon and a GPU server is killed and started again; totals of VMs, nodes
  and GPUs are the same, and no less than what flytctl usage sums up
shows: monitor: each alert fires where its threshold is passed, and not below it
shows: monitor: connections whose requests never end shut nobody out, and end
shows: monitor: counters do not fall when the cluster manager is killed
shows: monitor: answers and the page say that the cluster manager is away, also when it only stands still
shows: monitor: what was before it began: the last events; what programs hold and how busy they are, for plots
shows: monitor: the page in a real browser, at 360 and 1,280 pixels, by keyboard, an event in less than a second, texts
  that would be HTML; axe finds nothing in light and dark, nor in a VM's own view
"""
import base64
import glob
import http.client
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import Local, Skip, case, end, free_ports, need, only_cases, read, spawn, until, write  # noqa: E402
from schemas import mistakes, schema_of  # noqa: E402

BIN, PROGRAM = (os.path.abspath(path) for path in sys.argv[1:3])
if_all = case if sys.argv[3:] == ["all"] else lambda test: test      # cases that take long
ROOM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../control-managers/monitor")
FOLDER = tempfile.mkdtemp(prefix="flyt-monitor-")
cluster = Local(BIN, os.path.join(FOLDER, "cluster"), "--nodes", "2", "--monitor")
address = re.search(r"http://(\S+?)/", cluster.log("monitor")).group(1)


def request(path, method="GET", host=None, body=None):
    """The status, the headers and the text."""
    connection = http.client.HTTPConnection(address, timeout=20)
    connection.putrequest(method, path, skip_host=host is not None)
    if host:
        connection.putheader("Host", host)
    if body:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    reply = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    return reply.status, dict(reply.getheaders()), text


def samples(path="/metrics"):
    return {name: float(value) for name, value in re.findall(r"^([^#\s]\S*(?:\{.*\})?) (\S+)$", request(path)[2], re.M)}


def run_program():
    done = subprocess.run([f"{BIN}/flyt-run", PROGRAM], input="\n", capture_output=True, text=True, timeout=60,
                          env=cluster.env)
    need(done.returncode == 0, done.stdout + done.stderr)


@case
def metrics_say_what_is_there():
    run_program()
    calls = 'flyt_vm_calls_total{vm="local"}'
    until(lambda: samples().get(calls, 0) > 0, lambda: f"calls are counted: {request('/metrics')[2]}")
    found = samples()
    for name, value in (('flyt_up{component="cluster-manager"}', 1), ('flyt_node_up{node="node-2"}', 1),
                        ('flyt_gpu_sms{node="node-1",gpu="soft-node-1-0"}', 4), ('flyt_vm_connected{vm="local"}', 1),
                        ('flyt_db_up{kind="sqlite"}', 1), ("flyt_queue_length", 0)):
        need(found.get(name) == value, f"{name}: {found.get(name)}")
    need(found['flyt_vm_sm_seconds_total{vm="local"}'] >= cluster.json("usage")[0]["sm_seconds"] > 0, "SM-seconds")
    until(lambda: samples().get('flyt_queue_wait_seconds_count{outcome="started"}', 0) > 0, "who waited is counted")
    found = samples()
    need(sum(value for name, value in found.items() if name.startswith("flyt_placements_total")) > 0, "placements")
    need(found["flyt_server_start_duration_seconds_count"] > 0, "starts of servers")
    allocated, used = found['flyt_vm_sms_allocated{vm="local"}'], found['flyt_vm_memory_used_bytes{vm="local"}']
    need(allocated == sum(row["sms"] for row in cluster.json("server", "list")) and used >= 0, (allocated, used))
    status, _, text = request("/metrics/programs")
    need(status == 404 and "metrics.programs" in text, text)
    servers = samples("/metrics/servers")
    counts = [value for name, value in servers.items() if name.startswith("flyt_server_call_duration_seconds_bucket")]
    need(counts == sorted(counts) and counts[-1] > 0, servers)


@case
def metrics_of_single_programs():
    """What one program has done and holds, while it runs, and nothing of it afterwards."""
    own = spawn(f"{FOLDER}/programs.log", f"{BIN}/flyt-monitor", "--manager", f"unix://{cluster.dir}/run/cluster.sock",
                "--port", "0", "--interval", "1", "--program-metrics")
    holder = subprocess.Popen([f"{BIN}/flyt-run", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              env=cluster.env)
    try:
        until(lambda: "http://" in read(f"{FOLDER}/programs.log"), "it starts")
        url = re.search(r"http://[^/\s]+", read(f"{FOLDER}/programs.log"))[0] + "/metrics/programs"

        def found():
            with urllib.request.urlopen(url, timeout=10) as reply:
                return {name: float(value) for name, value in
                        re.findall(r"^([^#\s]\S*(?:\{.*\})?) (\S+)$", reply.read().decode(), re.M)}
        of = lambda name: [value for each, value in found().items() if each.startswith(f"flyt_program_{name}{{")]
        until(lambda: sum(of("calls_total")) > 0 and sum(of("memory_bytes")) > 0, found, 40)
        program = json.loads(request("/api/v1/programs")[2])[0]
        api = url.replace("/metrics/programs", "/api/v1/")
        asked = urllib.request.Request(f"{api}events", headers={"Last-Event-ID": "0"})
        with urllib.request.urlopen(asked, timeout=10) as stream:   # of the time before this monitor, too
            until(lambda: b"node-joined" in stream.readline(), "older events")
        point = json.loads(urllib.request.urlopen(f"{api}history", timeout=10).read())[-1]
        need(point["memory_held"] >= found()["flyt_program_memory_bytes" + '{vm="local",server="%s",program="%s"}' % (
            program["server"], program["id"])] > 0, point)
        name = f'flyt_program_memory_bytes{{vm="local",server="{program["server"]}",program="{program["id"]}"}}'
        need(0 < found()[name] <= cluster.json("server", "list")[0]["memory"], found())
        holder.communicate(b"\n", timeout=60)
        until(lambda: name not in found(), "it is gone", 40)
    finally:
        if holder.poll() is None:
            holder.communicate(b"\n", timeout=60)
        end(own)


@if_all
def promtool_finds_nothing_wrong():
    if not shutil.which("promtool"):
        raise Skip("prometheus is not installed")
    for path in ("/metrics", "/metrics/servers"):
        done = subprocess.run(["promtool", "check", "metrics"], input=request(path)[2], capture_output=True, text=True)
        need(done.returncode == 0 and not done.stdout + done.stderr, done.stdout + done.stderr)
    done = subprocess.run(["promtool", "check", "rules", f"{ROOM}/flyt.rules.yml"], capture_output=True, text=True)
    need(done.returncode == 0, done.stdout + done.stderr)


# Of each alert: the series that make it fire, with values for that and for not quite that; the labels; after minutes.
G, S = 'node="n",gpu="g"', 'node="n",gpu="g",vm="v",server="7"'
ALERTS = {
    "FlytMonitorDown": ([('flyt_up{component="monitor"}', "_x20", "1x20")],
                        {"component": "monitor", "severity": "warning"}, 5),
    "FlytManagerDown": ([('flyt_up{component="cluster-manager"}', "0x20", "1x20")],
                        {"component": "cluster-manager", "severity": "critical"}, 5),
    "FlytNodeLost": ([('flyt_node_up{node="n"}', "0x20", "1x20")], {"node": "n", "severity": "critical"}, 5),
    "FlytGpuFaulty": ([(f"flyt_gpu_ready{{{G}}}", "0x20", "1x20"), ('flyt_node_up{node="n"}', "1x20", "1x20")],
                      {"node": "n", "gpu": "g", "severity": "warning"}, 5),
    "FlytDbAway": ([('flyt_db_up{kind="sqlite"}', "0x20", "1x20")], {"kind": "sqlite", "severity": "critical"}, 5),
    "FlytQueueStuck": ([("flyt_queue_oldest_seconds", "601x20", "600x20")], {"severity": "warning"}, 5),
    "FlytPeersRefused": ([('flyt_peers_refused_total{role="node"}', "0+2x20", "0+1x20")],
                         {"role": "node", "severity": "warning"}, 16),
    "FlytCertificateEnds": ([('flyt_certificate_expiry_timestamp_seconds{role="cluster"}', "1209000x20", "1210000x20")],
                            {"role": "cluster", "severity": "warning"}, 5),
    "FlytServersRestarting": ([(f"flyt_server_restarts{{{S}}}", "0 1 2 3 4x20", "0 1 2 3 3x20")],
                              {"node": "n", "gpu": "g", "vm": "v", "server": "7", "severity": "warning"}, 8),
    "FlytIdleHeld": ([(f"flyt_gpu_sms_allocated{{{G}}}", "4x200", "4x200"),
                      (f"flyt_gpu_busy_seconds_total{{{G}}}", "9x200", "9+1x200")],
                     {"node": "n", "gpu": "g", "severity": "info"}, 130),
}


@if_all
def alerts_fire_at_their_thresholds():
    if not shutil.which("promtool"):
        raise Skip("prometheus is not installed")
    rules = read(f"{ROOM}/flyt.rules.yml")
    need(sorted(re.findall(r"alert: (\w+)", rules)) == sorted(ALERTS), "an alert has no test")
    for alert, (series, labels, minutes) in ALERTS.items():
        summary = re.search(rf"alert: {alert}\n(?:.*\n)*?.*summary: \"(.*?)\"", rules).group(1)
        summary = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda label: labels[label.group(1)], summary)
        fires = [{"exp_labels": labels, "exp_annotations": {"summary": summary}}]
        test = lambda column, wanted: {
            "interval": "1m", "input_series": [{"series": row[0], "values": row[column]} for row in series],
            "alert_rule_test": [{"eval_time": f"{minutes}m", "alertname": alert, "exp_alerts": wanted}]}
        for tests in ([test(1, fires)], [test(2, [])]):
            write(f"{FOLDER}/test.yml", json.dumps({"rule_files": [f"{os.path.abspath(ROOM)}/flyt.rules.yml"],
                                                    "tests": tests}))
            done = subprocess.run(["promtool", "test", "rules", f"{FOLDER}/test.yml"], capture_output=True, text=True)
            need(done.returncode == 0, f"{alert}: {tests} {done.stdout}{done.stderr}")


@if_all
def prometheus_scrapes_it():
    if not shutil.which("prometheus"):
        raise Skip("prometheus is not installed")
    port = free_ports(1)[0]
    write(f"{FOLDER}/prometheus.yml", f"""global: {{ scrape_interval: 1s }}
scrape_configs:
  - {{ job_name: flyt, static_configs: [{{ targets: ["{address}"] }}] }}
  - {{ job_name: servers, metrics_path: /metrics/servers, static_configs: [{{ targets: ["{address}"] }}] }}
""")
    prometheus = spawn(f"{FOLDER}/prometheus.log", "prometheus", f"--config.file={FOLDER}/prometheus.yml",
                       f"--storage.tsdb.path={FOLDER}/tsdb", f"--web.listen-address=127.0.0.1:{port}")

    def query(text):
        url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": text})
        with urllib.request.urlopen(url, timeout=10) as reply:
            answer = json.load(reply)
        need(answer["status"] == "success", answer)
        return answer["data"]["result"]
    holder = subprocess.Popen([f"{BIN}/flyt-run", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              env=cluster.env)
    try:
        until(lambda: query("sum(flyt_gpu_sms)")[0]["value"][1] == "8", lambda: read(f"{FOLDER}/prometheus.log"))
        until(lambda: query("up == 1")[1:], "both paths are scraped")
        with open(f"{ROOM}/dashboard.json") as file:
            queries = [target["expr"] for panel in json.load(file)["panels"] for target in panel["targets"]]
        need(len(queries) > 10, queries)
        for text in queries:
            until(lambda: query(text.replace("5m", "1m")), f"{text} finds nothing", 40)
    finally:
        end(prometheus)
        holder.communicate(b"\n", timeout=60)


@case
def json_is_what_flytctl_prints():
    for name, arguments in (("nodes", ["node", "list"]), ("gpus", ["gpu", "list"]), ("vms", ["vm", "list"]),
                            ("servers", ["server", "list"]), ("programs", ["program", "list"]),
                            ("moves", ["move", "list"]), ("status", ["status"])):
        status, headers, _ = request(f"/api/v1/{name}")
        need(status == 200 and headers["Content-Type"] == "application/json", headers)

        def same():
            found, wanted = json.loads(request(f"/api/v1/{name}")[2]), cluster.json(*arguments)
            found, wanted = ([each] if isinstance(each, dict) else each for each in (found, wanted))
            return len(found) == len(wanted) and all(a.keys() == b.keys() for a, b in zip(found, wanted))
        until(same, f"{name} is the same")
    need(json.loads(request("/api/v1/history")[2])[-1]["sms"] == 8, "history")


@case
def schemas_describe_every_answer():
    holder = subprocess.Popen([f"{BIN}/flyt-run", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              env=cluster.env)
    try:
        until(lambda: json.loads(request("/api/v1/programs")[2]), "a program")
        program = json.loads(request("/api/v1/programs")[2])[0]["id"]
        cluster.ctl("program", "migrate", str(program), "--to", "node-2")
        until(lambda: json.loads(request("/api/v1/moves")[2]), "a move")
        for name in ("nodes", "gpus", "vms", "servers", "programs", "moves", "history"):
            rows, schema = json.loads(request(f"/api/v1/{name}")[2]), schema_of(name.removesuffix("s"))
            need(rows, f"no {name}")
            found = mistakes(rows, {"type": "array", "items": schema}, name)
            need(not found, found)
        for name in ("status", "me"):
            found = mistakes(json.loads(request(f"/api/v1/{name}")[2]), schema_of(name), name)
            need(not found, found)
        events = [json.loads(line) for line in cluster.ctl("events", "-j").splitlines()]
        found = mistakes(events, {"type": "array", "items": schema_of("event")}, "events")
        need(events and not found, found)
        need(mistakes([{"id": "1"}], {"type": "array", "items": schema_of("program")}, "x"), "it can find mistakes")
    finally:
        holder.communicate(b"\n", timeout=60)


@case
def an_event_comes_within_a_second():
    connection = http.client.HTTPConnection(address, timeout=20)
    connection.request("GET", "/api/v1/events")
    reply = connection.getresponse()
    need(reply.getheader("Content-Type") == "text/event-stream", reply.getheaders())
    cluster.ctl("vm", "add", "gamma", "--sms", "1", "--memory", "1M")
    begun = time.monotonic()
    lines = ["", ""]
    while not lines[1].startswith("data: ") or "vm-added" not in lines[1]:
        lines = [lines[1], reply.readline().decode().strip()]
    need(time.monotonic() - begun < 1, f"{time.monotonic() - begun} s")
    event = json.loads(lines[1].removeprefix("data: "))
    need(event["kind"] == "vm-added" and event["vm"] == "gamma" and lines[0] == f"id: {event['number']}", lines)
    connection.close()
    cluster.ctl("vm", "remove", "gamma")


@case
def nothing_can_be_changed():
    before = cluster.json("status")["last_event"]
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        for path in ("/", "/metrics", "/api/v1/vms"):
            status, headers, _ = request(path, method, body=b"{}")
            need(status == 405 and headers["Allow"] == "GET, HEAD", f"{method} {path}: {status}")
    need(cluster.json("status")["last_event"] == before, "something happened")
    need(request("/", "HEAD")[0] == 200 and request("/", "HEAD")[2] == "", "HEAD")
    for path in ("/nothing", "/../etc/passwd", "/api/v1/", "/page.html", "//", "/api/v1/vms/secret", "/page.js%00x",
                 "/api/v1/vms%00x", "/api/v1/vms%00"):
        need(request(path)[0] == 404, path)
    for path in ("/", "/page.js", "/metrics", "/nothing"):
        headers = request(path)[1]
        need("default-src 'self'" in headers["Content-Security-Policy"]
             and headers["X-Content-Type-Options"] == "nosniff"
             and "Access-Control-Allow-Origin" not in headers, headers)


@case
def other_names_are_refused():
    port = address.split(":")[1]
    for host, wanted in ((f"localhost:{port}", 200), ("127.0.0.1", 200), ("[::1]:80", 200), ("LOCALHOST", 200),
                         ("evil.example", 421), (f"127.0.0.1.evil.example:{port}", 421), ("localhost.", 421),
                         ("[::1].evil", 421), ("127.0.0.1@evil", 421),
                         (f"127.0.0.1:{port}@evil", 421), (f"[::1]:{port}@evil", 421), ("127.0.0.1:80x", 421)):
        need(request("/metrics", host=host)[0] == wanted, host)
    raw = socket.create_connection(address.split(":"))
    raw.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
    need(b" 421 " in raw.recv(4096), "without a host")
    raw.close()


@case
def what_can_be_understood_in_two_ways_is_refused():
    for lines in ("Host: localhost\r\nHost: evil.example", "Host: localhost\r\nContent-Length: 0\r\nContent-Length: 1",
                  "Host: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked"):
        raw = socket.create_connection(address.split(":"))
        raw.sendall(f"GET /metrics HTTP/1.1\r\n{lines}\r\n\r\n".encode())
        answer = raw.recv(4096)
        need(b" 400 " in answer and b"flyt_" not in answer, f"{lines}: {answer}")
        raw.close()


@case
def it_listens_on_loopback_only():
    for arguments in (["--listen", "0.0.0.0"], ["--listen", "::"], ["--listen", "10.0.0.1"], ["--listen", "here"]):
        done = subprocess.run([f"{BIN}/flyt-monitor", "--port", "0", *arguments], capture_output=True,
                              text=True, timeout=20)
        need(done.returncode == 1 and "no loopback address" in done.stderr, done)
    for arguments in (["--port", "65536"], ["--interval", "0"], ["stray"], ["--streams", "x"], ["--frobnicate"]):
        done = subprocess.run([f"{BIN}/flyt-monitor", *arguments], capture_output=True, text=True, timeout=20)
        need(done.returncode == 2 and done.stderr, done)


@case
def no_secret_leaves_it():
    secrets = [read(os.path.join(folder, name)).strip() for folder, _, names in os.walk(f"{cluster.dir}/etc")
               for name in names if name.endswith((".secret", ".key"))]
    need(len(secrets) >= 3 and all(len(each) > 20 for each in secrets), "secrets of the cluster")
    for path in ("/metrics", "/metrics/servers", *(f"/api/v1/{name}" for name in ("status", "nodes", "gpus", "vms",
                 "servers", "programs", "moves", "history"))):
        text = request(path)[2]
        need(not any(secret in text for secret in secrets), f"a secret in {path}")


@case
def nonsense_and_slow_readers_do_no_harm():
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    pieces = [b"GET ", b"/metrics", b" HTTP/1.1\r\n", b"Host: localhost\r\n", b"\r\n", b"Content-Length: 99999999\r\n",
              b"Transfer-Encoding: chunked\r\n", b"\0", b"\xff" * 40, b"A" * 20000, b"Last-Event-ID: -1\r\n", b"POST "]
    for _ in range(300):
        peer = socket.create_connection(address.split(":"))
        try:
            peer.sendall(b"".join(chance.choices(pieces, k=chance.randrange(1, 12))))
        except OSError:
            pass
        peer.close()
    slow = []
    for _ in range(100):                        # they ask for events, and read nothing
        peer = socket.create_connection(address.split(":"))
        peer.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        slow.append(peer)
    begun = time.monotonic()
    need(request("/metrics")[0] == 200 and time.monotonic() - begun < 5, f"seed {seed}")
    answers = [peer.recv(64) for peer in slow]
    followed, refused = (sum(word in each for each in answers) for word in (b" 200 ", b" 503 "))
    need(60 <= followed <= 64 and followed + refused == 100, f"{followed} of 100, {refused} refused")
    for peer in slow:
        peer.close()
    need(cluster.json("status")["nodes_up"] == 2, "the cluster manager is well")


@case
def unfinished_requests_shut_nobody_out():
    """More connections than the monitor serves, each with the beginning of a request and then a byte per second."""
    held, resource_limit = [], resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, resource_limit[1]), resource_limit[1]))

    def move():
        """Those that still stand."""
        still = []
        for peer in held:
            try:
                peer.send(b"x")
                still.append(peer)
            except OSError:
                peer.close()
        return still
    try:
        for _ in range(2300):
            peer = socket.create_connection(address.split(":"))
            peer.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
            held.append(peer)
        begun = time.monotonic()
        need(request("/metrics")[0] == 200 and time.monotonic() - begun < 5, f"{time.monotonic() - begun} s")
        while held and time.monotonic() - begun < 30:
            time.sleep(1)
            held = move()
        need(not held, f"{len(held)} connections still stand after {time.monotonic() - begun} s")
    finally:
        for peer in held:
            peer.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, resource_limit)


@case
def counters_do_not_fall():
    run_program()
    # Those of moves say so: they begin anew with the cluster manager.
    watched = [name for name in samples() if "_total" in name and not name.startswith("flyt_moves_")]
    before = samples()
    again = cluster.kill("cluster-manager")
    until(lambda: samples().get('flyt_up{component="cluster-manager"}') == 0, "it is away")
    until(lambda: request("/api/v1/vms")[1]["Flyt-Manager"] == "away", "rows say it, too")
    again()
    until(lambda: samples().get('flyt_up{component="cluster-manager"}') == 1, "it is back")
    until(lambda: samples().get('flyt_vm_calls_total{vm="local"}') is not None, "its counters are back", 60)
    after = samples()
    # What is written each two seconds may lack in the DB; figures come back with the node's report.
    fallen = {name: (before[name], after[name]) for name in watched
              if name in after and after[name] < before[name] and "sm_seconds" not in name}
    need(not fallen, fallen)


def sums(kind):
    """SM-seconds of all VMs, nodes or GPUs."""
    return sum(value for name, value in samples().items() if name.startswith(f"flyt_{kind}_sm_seconds_total"))


@if_all
def counters_do_not_fall_whoever_restarts():
    counts = lambda: {name: value for name, value in (samples() | samples("/metrics/servers")).items()
                      if "_total" in name and not name.startswith(("flyt_moves_", "flyt_server_"))}
    up, calls = 'flyt_up{component="cluster-manager"}', 'flyt_vm_calls_total{vm="local"}'
    is_back = lambda: samples().get(up) == 1 and cluster.json("status")["nodes_up"] == 2 and calls in samples()
    run_program()
    until(is_back, "all is well")
    highest = counts()

    def look(what):
        until(is_back, lambda: f"after {what}: {request('/metrics')[2]}", 60)
        until(lambda: set(counts()) >= set(highest), f"after {what}: counters are missing", 60)
        fallen = {name: (value, counts()[name]) for name, value in highest.items()
                  # What is charged is written every two seconds; a crash of this manager may take that.
                  if counts()[name] < value - (8.5 if "sm_seconds" in name else 0)}
        need(not fallen, f"after {what}: {fallen}")
        highest.update({name: max(value, highest.get(name, 0)) for name, value in counts().items()})
    for daemon in ("node-1", "node-2", "client-manager", "cluster-manager"):
        for number in (signal.SIGKILL, signal.SIGTERM):
            again = cluster.kill(daemon, number)
            again()
            look(f"{daemon}, signal {number}")
        run_program()
    for pid in cluster.server_pids():
        os.kill(pid, signal.SIGKILL)
    run_program()
    look("the end of GPU servers")
    before, words = highest[calls], read(f"/proc/{cluster.pid('monitor')}/cmdline").split("\0")[:-1]
    second = spawn(f"{FOLDER}/second.log", *["0" if word == address.split(":")[1] else word for word in words])
    try:                                        # a monitor that begins anew reads the same
        until(lambda: "http://" in read(f"{FOLDER}/second.log"), "it starts")
        url = re.search(r"http://\S+", read(f"{FOLDER}/second.log"))[0]
        text = until(lambda: re.search(re.escape(calls) + r" (\S+)",
                                       urllib.request.urlopen(url + "metrics", timeout=10).read().decode()), "it reads")
        need(float(text.group(1)) >= before, f"{text.group(1)} calls, not {before}")
    finally:
        end(second)
    used = sum(row["sm_seconds"] for row in cluster.json("usage"))

    def equal():
        found = [sums(kind) for kind in ("vm", "node", "gpu")]
        return max(found) - min(found) < 0.01 and found
    found = until(equal, lambda: f"{[sums(kind) for kind in ('vm', 'node', 'gpu')]}", 60)
    need(found[0] >= used > 0, f"{found}, {used}")


class Browser:
    """Chromium without a window, led over a pair of pipes (its DevTools protocol, messages ended by zeros)."""

    def __init__(self, program):
        (their_in, self.to), (self.back, their_out) = os.pipe(), os.pipe()
        # The descriptors are 3 and 4 in the browser.
        self.process = subprocess.Popen(["bash", "-c", f'exec "$@" 3<&{their_in} 4>&{their_out}', "-", program,
                                         "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
                                         f"--user-data-dir={FOLDER}/chromium"], pass_fds=(their_in, their_out),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(their_in)
        os.close(their_out)
        self.number, self.session, self.complaints, self.rest = 0, None, [], b""

    def ask(self, method, **arguments):
        self.number += 1
        call = {"id": self.number, "method": method, "params": arguments}
        os.write(self.to, json.dumps(call | ({"sessionId": self.session} if self.session else {})).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                part = os.read(self.back, 65536)
                need(part, "the browser has ended")
                self.rest += part
            message, self.rest = self.rest.split(b"\0", 1)
            message = json.loads(message)
            if message.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.complaints.append(message["params"])
            if message.get("id") == self.number:
                need("error" not in message, message)
                return message["result"]

    def open(self, url, width):
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page"):
            self.ask(f"{domain}.enable")
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500)
        self.ask("Page.navigate", url=url)

    def value(self, expression):
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")


def axe():
    """axe-core, as a package of PyPI has it; kept in build/axe."""
    folder = os.path.join(os.path.dirname(BIN), "build/axe")
    wheels = lambda: glob.glob(f"{folder}/axe_core_python-*.whl")
    if not wheels():
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder,
                        "axe-core-python==0.1.0"], capture_output=True, timeout=120)
    if not wheels():
        raise Skip("axe-core-python is not to be had from PyPI")
    with zipfile.ZipFile(wheels()[0]) as wheel:
        return wheel.read(next(name for name in wheel.namelist() if name.endswith("axe.min.js"))).decode()


def chromium():
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        raise Skip("chromium is not installed")
    return Browser(found)


def text_of(browser):
    return browser.value("document.body.innerText") or ""


def findings(browser, script):
    browser.value(script + "; 0")
    found = browser.ask("Runtime.evaluate", awaitPromise=True, returnByValue=True, expression="""axe.run().then(
        found => found.violations.map(each => each.id + ": " + each.nodes.map(node => node.html).join(" | ")))""")
    return found["result"]["value"]


def press(browser, key, **more):
    for kind in ("keyDown", "keyUp"):
        browser.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key, **more)


def look(browser, url, width, scheme, until_there):
    browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.ask("Page.navigate", url=url)
    until(until_there, lambda: text_of(browser))
    if pictures := os.environ.get("FLYT_TEST_PICTURES"):      # a folder, for somebody who wants to look
        data = browser.ask("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        with open(f"{pictures}/{'vm' if 'vm' in text_of(browser)[:40].lower() else 'all'}-{width}-{scheme}.png",
                  "wb") as file:
            file.write(base64.b64decode(data))


@if_all
def the_page_in_a_browser():
    browser = chromium()
    hostile = "<img src=x onerror=document.title='taken'> & \"quoted\""
    try:
        run_program()
        for width in (360, 1280):
            browser.open(f"http://{address}/", width)
            until(lambda: "soft-node-1-0" in text_of(browser) and "GPUs ready" in text_of(browser),
                  lambda: text_of(browser))
            need(browser.value("document.documentElement.scrollWidth") <= width, f"wider than {width}")
            need(browser.value("document.querySelectorAll('#plots path').length") == 8, "plots")
            until(lambda: "node-joined" in browser.value("document.getElementById('list').innerText"), "older events")
            time.sleep(1)                        # the stream of events stands
            cluster.ctl("vm", "add", f"wide-{width}", "--sms", "1", "--memory", "1M")
            begun = time.monotonic()
            until(lambda: f"wide-{width}" in browser.value("document.getElementById('list').innerText"), "the event")
            need(time.monotonic() - begun < 1, f"an event took {time.monotonic() - begun} s")
            cluster.ctl("node", "drain", "node-2", "--reason", hostile)
            until(lambda: hostile in text_of(browser), lambda: text_of(browser))
            need(browser.value("document.images.length") == 0 and browser.value("document.title") == "Flyt", "HTML")
            cluster.ctl("node", "undrain", "node-2")
            # By keyboard: the first thing that can be reached leads to the content, and then come all parts.
            press(browser, "Tab", windowsVirtualKeyCode=9)
            need(browser.value("document.activeElement.className") == "skip", "the first TAB")
            press(browser, "Enter", windowsVirtualKeyCode=13, text="\r")
            until(lambda: browser.value("document.activeElement.id") == "overview", "the content")
            browser.value("document.querySelector('.skip').focus()")
            reached = []
            for _ in range(4):
                press(browser, "Tab", windowsVirtualKeyCode=9)
                reached.append(browser.value("document.activeElement.hash"))
            need(reached == ["#overview", "#gpus", "#vms", "#programs"], reached)
            need(not browser.complaints, browser.complaints)
            browser.session = None
    finally:
        browser.process.kill()
        browser.process.wait()


@if_all
def the_page_for_everybody():
    """axe finds nothing at both widths, light and dark; neither in a VM's own view, which takes a token."""
    script, browser = axe(), chromium()
    made = subprocess.run([f"{BIN}/flyt-monitor", "--new-token", "client:local"], capture_output=True, text=True)
    token, line = re.findall(r": (.*)", made.stdout)
    write(f"{FOLDER}/tokens", line + "\n")
    own = spawn(f"{FOLDER}/own.log", f"{BIN}/flyt-monitor", "--manager", f"unix://{cluster.dir}/run/cluster.sock",
                "--port", "0", "--interval", "1", "--tokens", f"{FOLDER}/tokens")
    holder = subprocess.Popen([f"{BIN}/flyt-run", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              env=cluster.env)
    try:
        until(lambda: "http://" in read(f"{FOLDER}/own.log"), "it starts")
        url = re.search(r"http://\S+", read(f"{FOLDER}/own.log"))[0]
        for width in (360, 1280):
            browser.open("about:blank", width)
            for scheme in ("light", "dark"):
                look(browser, f"http://{address}/", width, scheme, lambda: "GPUs ready" in text_of(browser))
                need(not (found := findings(browser, script)), f"{width}, {scheme}: {found}")
                browser.ask("Page.navigate", url=url)
                until(lambda: browser.value("!document.getElementById('ask').hidden"), "it asks for a token")
                need(not (found := findings(browser, script)), f"the question, {width}, {scheme}: {found}")
                browser.value("document.getElementById('token').focus()")
                browser.ask("Input.insertText", text=token)
                press(browser, "Enter", windowsVirtualKeyCode=13, text="\r")
                until(lambda: "VM local" in text_of(browser) and "running" in text_of(browser),
                      lambda: text_of(browser), 60)
                need("Nodes" not in text_of(browser) and "VMs" not in text_of(browser)
                     and "24 hours" not in text_of(browser), text_of(browser))
                look(browser, url, width, scheme, lambda: "VM local" in text_of(browser))
                need(not (found := findings(browser, script)), f"a VM, {width}, {scheme}: {found}")
                need(browser.value("document.documentElement.scrollWidth") <= width, f"wider than {width}")
                browser.value("sessionStorage.clear()")
            browser.session = None
        # Chromium itself writes down that a request was refused.
        others = [each for each in browser.complaints if "401" not in each.get("entry", {}).get("text", "")]
        need(not others, others)
    finally:
        holder.communicate(b"\n", timeout=60)
        end(own)
        browser.process.kill()
        browser.process.wait()


@case
def it_says_that_the_manager_is_away():
    """The cluster manager stands still, so that its connections stay."""
    process = int(read(f"{cluster.dir}/run/cluster-manager.pid").split()[0])
    up, names = 'flyt_up{component="cluster-manager"}', ("status", "vms", "nodes", "moves")
    until(lambda: samples().get(up) == 1, "it is there")
    headers = request("/api/v1/vms")[1]
    need(headers["Flyt-Manager"] == "up" and int(headers["Flyt-Age"]) < 15, headers)
    rows = {name: request(f"/api/v1/{name}")[2] for name in names}
    os.kill(process, signal.SIGSTOP)
    try:
        until(lambda: samples() == {up: 0, 'flyt_up{component="monitor"}': 1}, lambda: request("/metrics")[2], 18)
        need(samples("/metrics/servers") == {}, "samples of servers")
        for name in names:
            _, headers, text = request(f"/api/v1/{name}")
            need(headers["Flyt-Manager"] == "away" and int(headers["Flyt-Age"]) >= 4 and text == rows[name], headers)
        try:
            browser = chromium()
        except Skip:
            return
        try:
            browser.open(f"http://{address}/", 1280)
            until(lambda: "The cluster manager does not answer" in text_of(browser), lambda: text_of(browser))
        finally:
            browser.process.kill()
            browser.process.wait()
    finally:
        os.kill(process, signal.SIGCONT)
        until(lambda: request("/api/v1/vms")[1]["Flyt-Manager"] == "up" and samples().get(up) == 1, "it is back", 40)


@case
def it_ends_with_the_cluster():
    process = int(read(f"{cluster.dir}/run/monitor.pid").split()[0])
    need(cluster.down() == 0, "down")
    until(lambda: not os.path.exists(f"/proc/{process}"), "the monitor has ended")


try:
    code = only_cases()
finally:
    cluster.down()
    shutil.rmtree(FOLDER, ignore_errors=True)
sys.exit(code)
