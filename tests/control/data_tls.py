#!/usr/bin/env python3
"""A cluster with certificates, on this machine: programs that are started through the managers reach their GPU servers
by TLS.

    data_tls.py BIN CUDA_PROGRAM HOLDER_PROGRAM

shows: TLS between programs and GPU servers: in a cluster with certificates it is on by itself; a GPU server that
   comes back has a new key; new certificates are read on SIGHUP; nobody without
shows: attacks: a GPU server without TLS, offered to a VM that has certificates: no program uses it
"""
import glob
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import Local, flytctl, need, ok, read, story, until, write  # noqa: E402

sys.argv[1:] = [os.path.abspath(path) for path in sys.argv[1:]]
BIN, PROGRAM, HOLDER = sys.argv[1:4]
FOLDER = tempfile.mkdtemp(prefix="flyt-tls-")


def run(program, cluster, **more):
    result = subprocess.run([f"{BIN}/flyt-run", program], capture_output=True, text=True, timeout=100,
                            env={**cluster.env, "FLYT_STATS": "1", **more})
    return result.returncode, result.stdout + result.stderr


def addresses():
    """What the GPU server that was started last says on its output."""
    outputs = sorted(glob.glob(f"{FOLDER}/state/node-1/servers/*/output"), key=os.path.getmtime)
    if not outputs:
        return []
    return re.findall(r"listening on (\S+)\n", read(outputs[-1]))


def with_certificates(cluster):
    status, text = run(PROGRAM, cluster)
    need(status == 0 and "received over tls" in text, f"status {status}: {text}")
    for name in ("node-1", "client-manager"):
        need("tls=1" in cluster.log(name), f"{name} is not connected by TLS")
    servers = cluster.json("server", "list")
    need([server["transports"] for server in servers] == [["tls"]], f"flytctl shows {servers}")
    ok("a program that is started through the managers goes over TLS, and flytctl shows it")

    uris = addresses()
    need(len(uris) == 1 and re.fullmatch(r"tls://127\.0\.0\.1:\d+\?sha256=[0-9a-f]{64}", uris[0]), f"{uris}")
    port = int(re.search(r":(\d+)\?", uris[0]).group(1))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), 20) as plain, context.wrap_socket(plain) as tls:
        shown = tls.getpeercert(True)
    with open(f"{FOLDER}/etc/tls/node-1.crt") as file:
        need(shown != ssl.PEM_cert_to_DER_cert(file.read()), "the node's certificate is in a GPU server")
    need(not [path for path in glob.glob(f"{FOLDER}/state/**", recursive=True) if path.endswith((".key", ".pem"))
              and "ticket" not in path], "a key lies in a file")
    ok("its GPU server has a key of its own, in no file, and no other address")

    status, text = run(PROGRAM, cluster, FLYT_SERVER=f"tcp://127.0.0.1:{port}")
    need(status != 0 and "write tls:// in place of tcp://" in text, f"status {status}: {text}")
    status, text = run(PROGRAM, cluster, FLYT_SERVER=uris[0])
    need(status != 0 and "wants a ticket" in text, f"status {status}: {text}")
    status, text = run(PROGRAM, cluster, FLYT_SERVER=uris[0][:-1] + ("1" if uris[0][-1] == "0" else "0"))
    need(status != 0 and "not the one whose fingerprint" in text, f"status {status}: {text}")
    ok("nobody gets in without TLS, without a ticket, or with another fingerprint")

    holder = subprocess.Popen([f"{BIN}/flyt-run", HOLDER], env=cluster.env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
    need(holder.stdout.readline() == "running\n", "no kernel runs")
    pid = until(cluster.server_pids, "the GPU server's process id")[0]
    before = addresses()
    os.kill(pid, signal.SIGKILL)
    try:
        _, errors = holder.communicate(timeout=60)
    finally:
        holder.kill()
    need("is lost" in errors, errors)
    after = until(lambda: (a := addresses()) and a != before and a, "the GPU server is back")
    need(after[0].split("=")[1] != before[0].split("=")[1], "it has the old key")
    until(lambda: run(PROGRAM, cluster)[0] == 0, "programs run again")
    status, text = run(PROGRAM, cluster)
    need(status == 0 and "received over tls" in text, text)
    ok("a GPU server that was killed comes back with another key, and programs are told it")


def times_connected(name):
    return read(f"{FOLDER}/log/{name}.log").count("event=connected")


def new_certificates(cluster):
    """Of another authority, so that nobody can be let in with the old ones."""
    peers = ("node-1", "client-manager")
    ca = f"{FOLDER}/etc/another-ca"
    for words in (["create", ca], ["issue", ca, "cluster", "main"], ["issue", ca, "node", "node-1"],
                  ["issue", ca, "client", "local"]):
        more = [] if words[0] == "create" else ["--force", "--out", f"{FOLDER}/etc/tls"]
        flytctl(BIN, "ca", *words, *more)
    shutil.copy(f"{ca}/ca.crt", f"{FOLDER}/etc/tls/ca.crt")
    before = {name: times_connected(name) for name in peers}
    for name in peers:
        os.kill(cluster.pid(name), signal.SIGHUP)
    cluster.kill("cluster-manager")()
    for name in peers:
        until(lambda name=name: times_connected(name) > before[name], f"{name} is connected by its new certificate")
    until(lambda: run(PROGRAM, cluster)[0] == 0, "programs run again")
    ok("certificates of another authority are taken over on SIGHUP")


def edit(name, before, after):
    path = f"{FOLDER}/etc/{name}.conf"
    text = read(path)
    need(before in text, f"{path}: {text}")
    write(path, text.replace(before, after))


def server_without_tls(cluster):
    """A node that offers no TLS, to a VM that has certificates: by mistake, or because somebody wants to listen."""
    connected = times_connected("node-1")
    edit("node-1", "virt-server = {", 'virt-server = { tls = "off";')
    cluster.kill("node-1")()
    until(lambda: times_connected("node-1") > connected, "node-1 is back")
    for server in cluster.json("server", "list"):
        cluster.ctl("server", "stop", "--force", str(server["id"]), expect=None)
    until(lambda: not addresses(), "the old server has ended")
    status, text = run(PROGRAM, cluster)
    need(status != 0 and "takes no TLS" in text, f"status {status}: {text}")
    edit("client-manager", "tls = {", "tls = { plain-servers = true;")
    os.kill(cluster.pid("client-manager"), signal.SIGHUP)
    until(lambda: run(PROGRAM, cluster)[0] == 0, "programs run again")
    ok("a VM with certificates uses no GPU server without TLS, unless that is configured")


def half_migrated(cluster):
    """The node that would be taken does not take TLS yet, and the other one does."""
    def node_of_server():
        run(PROGRAM, cluster)
        return ",".join(server["node"] for server in cluster.json("server", "list"))

    usual = node_of_server()
    other = {"node-1": "node-2", "node-2": "node-1"}[usual]
    connected = times_connected(usual)
    edit(usual, "virt-server = {", 'virt-server = { tls = "off";')
    cluster.kill(usual)()
    until(lambda: times_connected(usual) > connected, f"{usual} is back")
    cluster.ctl("node", "drain", usual, "--wait", "30", limit=60)
    cluster.ctl("node", "undrain", usual, limit=60)
    status, text = run(PROGRAM, cluster)
    need(status == 0 and "received over tls" in text, f"status {status}: {text}")
    need(node_of_server() == other, node_of_server())
    # It has to wait for the one that it can use.
    cluster.ctl("node", "drain", other, "--wait", "30", limit=60)
    status, text = run(PROGRAM, cluster, FLYT_WAIT="fail")
    need(status != 0 and "takes no TLS" in text, f"status {status}: {text}")
    ok("in a cluster that is half way to TLS, a VM with certificates gets a GPU server of a node that takes it")


def without_certificates(cluster):
    status, text = run(PROGRAM, cluster)
    need(status == 0 and "received over tls" not in text, f"status {status}: {text}")
    need(all(not uri.startswith("tls://") for uri in addresses()), f"{addresses()}")
    ok("without certificates there is no TLS")


def all_of_it(cluster):
    with_certificates(cluster)
    new_certificates(cluster)
    server_without_tls(cluster)
    for options, function in (("--tls", "--nodes", "2"), half_migrated), ((), without_certificates):
        need(cluster.down() == 0, "flyt-local down")
        cluster.up(*options)
        function(cluster)


def main():
    with Local(BIN, FOLDER, "--tls", FLYT_LOG="info") as cluster:
        all_of_it(cluster)


sys.exit(story(main))
