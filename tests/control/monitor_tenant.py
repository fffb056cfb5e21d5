#!/usr/bin/env python3
"""tests/control/monitor_tenant.py BIN PROGRAM: two VMs of a flyt-local cluster with TLS, of which each looks for the
other, and both do what they may not.

PROGRAM is control_client_program: it takes memory, and goes on when it is given a line.

shows: monitor: of two VMs neither finds a byte about the other: names, programs, GPU servers, events, metrics, moves,
  and what flyt-run --status says
shows: attacks: a VM's token leads to no file, no other path and no other VM, by whatever path, query, header or Host
shows: attacks: nonsense at the ports of flyt-monitor, with TLS and without, and of the cluster manager ends nothing,
  and holds nobody up
"""
import atexit
import contextlib
import http.client
import json
import os
import random
import re
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import (Local, alive, case, client_config, end, listens, need, only_cases, read, spawn,  # noqa: E402
                     until, write)

BIN, PROGRAM = (os.path.abspath(path) for path in sys.argv[1:3])
FOLDER = tempfile.mkdtemp(prefix="flyt-tenant-")
WEB = f"{FOLDER}/web"
cluster = Local(BIN, os.path.join(FOLDER, "cluster"), "--nodes", "2", "--tls", "--monitor")
CA, TLS = f"{cluster.dir}/etc/ca", f"{cluster.dir}/etc/tls"
PORTS = [int(port) for port in re.findall(r"(?:node|client) = (\d+)", read(f"{cluster.dir}/etc/cluster-manager.conf"))]
PATHS = ("/metrics", "/metrics/servers", "/metrics/programs") + tuple(
    f"/api/v1/{name}" for name in ("me", "status", "nodes", "gpus", "vms", "servers", "programs", "moves", "history"))


started = []


def start(*words):
    started.append(spawn(*words))
    return started[-1]


def stop():
    for process in started:
        end(process)
    cluster.down()
    shutil.rmtree(FOLDER, ignore_errors=True)


atexit.register(stop)


class Tenant:
    """A VM with a name that nothing else has, a client manager, a token, and a program under a name of its own."""

    def __init__(self, mark):
        self.name, self.folder = f"vm-{mark}", f"{FOLDER}/{mark}"
        os.mkdir(self.folder, 0o700)
        secret = cluster.json("vm", "add", self.name, "--sms", "2", "--memory", "64M", "--sharing", "time-slice",
                              "--host", "another-machine")["secret"]
        cluster.ctl("ca", "issue", CA, "client", self.name, "--out", TLS)
        tls = "".join(f'{key} = "{TLS}/{name}"; ' for key, name in (
            ("ca", "ca.crt"), ("certificate", f"{self.name}.crt"), ("key", f"{self.name}.key")))
        config = write(f"{self.folder}/conf", client_config(
            PORTS[1], self.name, self.folder, f"{self.folder}/sock", write(f"{self.folder}/secret", secret),
            more=f"tls = {{ {tls}}};\n"))
        self.manager = start(f"{self.folder}/log", f"{BIN}/flyt-client-manager", "--config", config)
        until(lambda: listens(f"{self.folder}/sock"), lambda: read(f"{self.folder}/log"))
        self.program = shutil.copy(PROGRAM, f"{self.folder}/program-{mark}")
        self.environment = cluster.env | {"FLYT_MANAGER": f"{self.folder}/sock",
                                          "LD_LIBRARY_PATH": f"{BIN}:{os.environ.get('LD_LIBRARY_PATH', '')}"}
        made = subprocess.run([f"{BIN}/flyt-monitor", "--new-token", f"client:{self.name}"], capture_output=True,
                              text=True, check=True)
        self.token, self.line = re.findall(r": (.*)", made.stdout)
        self.marks = [self.name, mark]
        self.events = b""

    def begin(self):
        self.process = subprocess.Popen([f"{BIN}/flyt-run", self.program], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=self.environment)
        need(self.process.stdout.readline() == "attached\n", lambda: read(f"{self.folder}/log"))
        self.marks.append(f'"pid":{self.process.pid}')

    def finish(self):
        self.process.communicate("\n", timeout=60)

    def follow(self):
        """Keeps what comes as events, in a thread."""
        connection = connect()
        connection.request("GET", "/api/v1/events", headers=self.bearer())
        self.stream = connection.getresponse()

        def take():
            with contextlib.suppress(http.client.HTTPException, OSError):
                while part := self.stream.read1(65536):
                    self.events += part
        threading.Thread(target=take, daemon=True).start()

    def bearer(self):
        return {"Authorization": f"Bearer {self.token}"}

    def finds(self, other, text, where):
        found = [mark for mark in other.marks if mark in text]
        need(not found, f"{self.name} finds {found} in {where}: {text}")


def start_monitor(name, *options):
    log = f"{FOLDER}/{name}.log"
    process = start(log, f"{BIN}/flyt-monitor", "--manager", f"unix://{cluster.dir}/run/cluster.sock",
                    "--interval", "1", "--port", "0", *options)
    until(lambda: "http" in read(log), lambda: read(log))
    return process, int(re.search(r"https?://127.0.0.1:(\d+)/", read(log))[1])


one, two = Tenant("anemone"), Tenant("buzzard")
write(f"{FOLDER}/tokens", one.line + "\n" + two.line + "\n")
cluster.ctl("ca", "issue", CA, "server", "web", "--host", "127.0.0.1", "--out", WEB)
monitor, PORT = start_monitor("monitor", "--web-tls", WEB, "--tokens", f"{FOLDER}/tokens", "--program-metrics")
plain, PLAIN = start_monitor("plain", "--tokens", f"{FOLDER}/tokens")


def connect():
    return http.client.HTTPSConnection("127.0.0.1", PORT, timeout=20,
                                       context=ssl.create_default_context(cafile=f"{WEB}/ca.crt"))


def request(path, tenant, **headers):
    connection = connect()
    connection.request("GET", path, headers=tenant.bearer() | headers)
    reply = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    return reply.status, text


def raw(lines, tenant=one, port=None):
    """What comes back of these lines, with the token, on the monitor without TLS."""
    with socket.create_connection(("127.0.0.1", port or PLAIN), timeout=20) as peer:
        lines = (*lines, f"Authorization: Bearer {tenant.token}", "Connection: close", "", "")
        peer.sendall("\r\n".join(lines).encode())
        data = b""
        while part := peer.recv(65536):
            data += part
        return data.decode(errors="replace")


@case
def neither_finds_the_other():
    for tenant in (one, two):
        until(lambda: request("/api/v1/vms", tenant)[0] == 200, "the monitor has read the cluster")
        tenant.follow()
    for tenant in (one, two):
        tenant.begin()
    # The one moves, and is changed, while the other looks.
    moves = {row["vm"]: row["id"] for row in cluster.json("program", "list")}
    servers = {row["vm"]: row for row in cluster.json("server", "list")}
    target = next(node for node in ("node-1", "node-2") if node != servers[one.name]["node"])
    cluster.ctl("program", "migrate", str(moves[one.name]), "--to", target)
    cluster.ctl("vm", "set", two.name, "--memory", "128M")
    for tenant, other in ((one, two), (two, one)):
        until(lambda: tenant.name in request("/api/v1/programs", tenant)[1], "its own program is there")
        until(lambda: tenant.name in request("/metrics/servers", tenant)[1], "and its figures")
        for path in PATHS:
            status, text = request(path, tenant)
            tenant.finds(other, text, path)
            need(status == (403 if path.endswith(("status", "nodes", "gpus", "history")) else 200), f"{path}: {status}")
        done = subprocess.run([f"{BIN}/flyt-run", "--status", "--json"], capture_output=True, text=True,
                              env=tenant.environment, timeout=30)
        need(len(json.loads(done.stdout)["programs"]) == 1 and not json.loads(done.stdout)["hidden"], done)
        tenant.finds(other, done.stdout + done.stderr, "flyt-run --status")
    until(lambda: json.loads(request("/api/v1/moves", one)[1]), "the one has moved")
    need(json.loads(request("/api/v1/moves", two)[1]) == [], "the other has not")
    for tenant in (one, two):
        tenant.finish()
        until(lambda: "program-ended" in tenant.events.decode(), lambda: tenant.events)
    for tenant, other in ((one, two), (two, one)):
        tenant.finds(other, tenant.events.decode(), "its events")
    need("vm-changed" in two.events.decode() and "move-done" in one.events.decode(), (one.events, two.events))


@case
def a_token_leads_nowhere_else():
    secret = read(f"{one.folder}/secret").strip()
    page = request("/page.css", one)[1]
    for path in ("/../../etc/passwd", "/..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/....//etc/passwd",
                 "//etc/passwd", "/api/v1/../v1/nodes", "/api/v1/vms/../nodes", "/api/v1/%6eodes", "/api/v1/nodes/",
                 "/api/v1//nodes", "/API/V1/NODES", "/api/v1/nodes;x", "/api/v1/vms%20", "/api/v1/vms\\..\\nodes",
                 f"/api/v1/vms/{two.name}", "/./api/v1/nodes", "/metrics/../api/v1/nodes", "/page.css/../api/v1/nodes",
                 "/proc/self/environ", "/tokens", "/web.key", "/api/v1/events/../nodes",
                 "http://127.0.0.1/api/v1/nodes"):
        text = raw((f"GET {path} HTTP/1.1", "Host: 127.0.0.1"))
        need(re.match(r"HTTP/1.1 (400|403|404) ", text), f"{path}: {text}")
        need("root:" not in text and secret not in text and "soft-node" not in text, f"{path}: {text}")
    # Of a question nothing is understood: the VM is the token's.
    for query in (f"vm={two.name}", "vm=", "vm=*", f"role=viewer&vm={two.name}", "token=x", "%00", "a" * 4000):
        text = raw((f"GET /api/v1/vms?{query} HTTP/1.1", "Host: 127.0.0.1"))
        need(" 200 " in text.splitlines()[0], text)
        one.finds(two, text, query)
    for header in (f"X-Forwarded-User: {two.name}", "X-Forwarded-For: 127.0.0.1", "X-Original-URL: /api/v1/nodes",
                   "X-HTTP-Method-Override: DELETE", f"Cookie: vm={two.name}", "Last-Event-ID: -1", "Range: bytes=0-1",
                   "Expect: 100-continue", "Upgrade: websocket", "Accept-Encoding: gzip"):
        text = raw(("GET /api/v1/vms HTTP/1.1", "Host: 127.0.0.1", header))
        need(re.search(r"HTTP/1.1 200 ", text) and one.name in text, f"{header}: {text}")
        one.finds(two, text, header)
    # Two tokens, and what is nearly one.
    text = raw(("GET /api/v1/vms HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {two.token}"))
    need(not (one.name in text and two.name in text), text)
    for value in ("Bearer", "Bearer  ", f"Bearer {one.token}x", f"Bearer {one.token[:-1]}",
                  f"Bearer {one.token.upper()}", f"Token {one.token}", one.token, f"Bearer {one.line.split()[1]}"):
        connection = connect()
        connection.request("GET", "/api/v1/vms", headers={"Authorization": value})
        need(connection.getresponse().status == 401, value)
        connection.close()
    for host in ("evil.example", "127.0.0.1.evil.example", "127.0.0.1:80@evil", "[::1]evil", "", " ", "127.0.0.1\tevil",
                 "localhost:99999x", "LOCALHOST.", "%31%32%37.0.0.1", "a" * 5000, "127.0.0.1, evil"):
        text = raw(("GET /api/v1/vms HTTP/1.1", f"Host: {host}"))
        need(re.match(r"HTTP/1.1 4\d\d ", text) and one.name not in text, f"{host!r}: {text}")
        text = raw(("GET / HTTP/1.1", f"Host: {host}"))
        need(re.match(r"HTTP/1.1 4\d\d ", text), f"{host!r}: {text}")
    need(request("/page.css", one)[1] == page, "the page")


def resident(process):
    return int(re.search(r"VmRSS:\s+(\d+)", read(f"/proc/{process}/status"))[1]) // 1024


def nonsense(chance):
    """Records of the control protocol, of TLS and of HTTP that are none, or no end of one."""
    size = chance.choice((0, 1, 4, 40, 400, 20000))
    kind = chance.randrange(8)
    record = struct.pack(">10I", 1, 0, 2, 0x20F17002, 1, chance.randrange(200), 0, 0, 0, 0)
    return (chance.randbytes(size), struct.pack(">I", 0xFFFFFFFF) + chance.randbytes(size),
            struct.pack(">I", 0x80000000 | len(record) + size) + record + chance.randbytes(size),
            b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03" + chance.randbytes(size),
            b"\x15\x03\x03\x00\x02\x02\x28" * 50,
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"A: " + b"b" * size + b"\r\n\r\n",
            b"GET /" + b"\xff" * size + b" HTTP/9.9\r\n\r\n", b"\0" * (4 * size))[kind]


@case
def nonsense_ends_nothing():
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    ours = {"monitor": monitor.pid, "plain": plain.pid, "cluster-manager": cluster.pid("cluster-manager"),
            "monitor of flyt-local": cluster.pid("monitor")}
    before = {name: resident(pid) for name, pid in ours.items()}
    local = int(re.search(r"http://127.0.0.1:(\d+)/", cluster.log("monitor"))[1])
    held, slowest = [], 0
    for turn in range(600):
        peer = socket.create_connection(("127.0.0.1", (PORT, PLAIN, local, *PORTS)[turn % 5]), timeout=20)
        try:
            peer.sendall(nonsense(chance))
        except OSError:
            pass
        if chance.random() < 0.3:
            held.append(peer)               # and says nothing more
        else:
            peer.close()
        if turn % 100 == 99:
            begun = time.monotonic()
            need(request("/api/v1/vms", one)[0] == 200 and raw(("GET /metrics HTTP/1.1", "Host: localhost")), seed)
            cluster.ctl("status")
            slowest = max(slowest, time.monotonic() - begun)
    need(slowest < 10, f"seed {seed}: {slowest} s")
    for peer in held:
        peer.close()
    need(all(alive(pid) for pid in ours.values()), f"seed {seed}")
    grown = {name: resident(pid) - before[name] for name, pid in ours.items()}
    need(all(more < 64 for more in grown.values()), f"seed {seed}: MiB {grown}")
    one.begin()                             # and programs begin as before
    one.finish()
    status = cluster.json("status")
    need(status["nodes_up"] == 2 and status["vms_connected"] == 3, status)


sys.exit(only_cases())
