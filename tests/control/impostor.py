#!/usr/bin/env python3
"""Impostors in the control plane: who says that he is the cluster manager, or another node, and what the others do.

    impostor.py BIN

shows: attacks: a tenant's certificate in place of the cluster manager's: nobody speaks with it
shows: attacks: a cluster manager that asks for no proof, or proves the wrong one: nothing is registered with it
shows: attacks: another node's certificate: it cannot say that it is node-1, and node-1 stays connected
shows: attacks: another node's secret opens no other name; the secret that nodes share opens no name that is in use
"""
import os
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import threading

import hand  # noqa: E402
from hand import BIN, certificates, ctl, log, path, run, start, tls_keys, until, work, write  # noqa: E402
from testlib import client_config, cluster_config, free_ports, node_config, ok  # noqa: E402

HELLO, AUTH, PROVE, NODE_REGISTER = 1, 2, 3, 10


def make_certificates():
    certificates(("cluster", "main"), ("node", "n1"), ("node", "n2"), ("client", "vm1"), ("admin", "ann"))
    # As earlier versions made them: for both ends of a connection.
    write("old.ext", "extendedKeyUsage=serverAuth,clientAuth\n")
    for name, common in (("old-vm1", "client:vm1"), ("old-n2", "node:n2")):
        request = (f"openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}.key -out {name}.csr"
                   f" -subj /CN={common}")
        sign = (f"openssl x509 -req -in {name}.csr -CA ../ca/ca.crt -CAkey ../ca/ca.key -CAcreateserial -days 1"
                f" -extfile ../old.ext -out {name}.crt")
        subprocess.run(f"{request} && {sign} && chmod 600 {name}.key", shell=True, check=True, cwd=path("tls"),
                       capture_output=True)


class Impostor:
    """Listens as a cluster manager would, and notes the calls that reach it. A certificate, or none: plain."""

    def __init__(self, certificate=None, answers=()):
        self.calls, self.answers, self.connections = [], dict(answers), 0
        self.context = None
        if certificate:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(path(f"tls/{certificate}.crt"), path(f"tls/{certificate}.key"))
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            connection, _ = self.socket.accept()
            self.connections += 1
            threading.Thread(target=self.talk, args=(connection,), daemon=True).start()

    def talk(self, connection):
        try:
            if self.context:
                connection = self.context.wrap_socket(connection, server_side=True)
            while True:
                size = struct.unpack(">I", self.take(connection, 4))[0] & 0x7FFFFFFF
                xid, _, _, _, _, procedure = struct.unpack(">6I", self.take(connection, size)[:24])
                self.calls.append(procedure)
                reply = struct.pack(">6I", xid, 1, 0, 0, 0, 0) + self.answers[procedure]
                connection.sendall(struct.pack(">I", 0x80000000 | len(reply)) + reply)
        except (OSError, KeyError, EOFError):
            connection.close()

    @staticmethod
    def take(connection, size):
        data = b""
        while len(data) < size:
            more = connection.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data


def text(words):
    data = words.encode()
    return struct.pack(">I", len(data)) + data + b"\0" * (-len(data) % 4)


def hello(proof, minor=hand.protocol_minor()):
    status = struct.pack(">I", 0) + text("")
    return status + struct.pack(">II", 1, minor) + text("a fake") + struct.pack(">QI", 7, proof) + bytes(32)


def end(process):
    process.terminate()
    process.wait(20)


def logged(name, words, seconds=15):
    return until(lambda: words in log(name), seconds)


def node(label, name, port, tls=None, secret=""):
    write(f"{label}.conf", node_config(BIN, port, name, path(label), secret.removeprefix("file:"),
                                       more=tls_keys(tls) if tls else ""))
    return start(label, f"{BIN}/flyt-node-manager", "--config", path(f"{label}.conf"))


def client(label, port, tls=None, secret=""):
    write(f"{label}.conf", client_config(port, "vm1", path(label), path(f"{label}.sock"), secret.removeprefix("file:"),
                                         tls_keys(tls) if tls else ""))
    return start(label, f"{BIN}/flyt-client-manager", "--config", path(f"{label}.conf"))


def ask(port, *options):
    return run(f"{BIN}/flytctl", "--manager", f"tcp://127.0.0.1:{port}", *options, "status")


def no_cluster_manager():
    """Certificates of tenants and nodes, made now or by an earlier version."""
    for certificate, victim_name in (("vm1", "new"), ("old-vm1", "old")):
        false = Impostor(certificate, {HELLO: hello(0)})
        victim = node(f"node-{victim_name}", "n1", false.port, "n1")
        refused = logged(f"node-{victim_name}", "event=not-connected")
        ok(refused and false.connections and not false.calls,
           f"a node manager says nothing to a VM's certificate ({victim_name} form)")
        end(victim)
    ok(logged("node-old", "expected was 'cluster:*'", 1), "the node manager's log says what is wrong")
    false = Impostor("old-n2", {HELLO: hello(0)})
    victim = client("client-old", false.port, "vm1")
    refused = logged("client-old", "event=not-connected")
    ok(refused and false.connections and not false.calls, "a client manager says nothing to a node's certificate")
    end(victim)
    asked = ask(false.port, "--tls", path("tls"), "--as", "ann")
    ok(asked.returncode == 4 and not false.calls and "cluster:*" in asked.stderr, "nor does flytctl, which says so")


def nobody_proves():
    """Without TLS: the one that knows no secret."""
    write("node.secret", "a secret of this node\n")
    source = f"file:{work}/node.secret"
    wrong = struct.pack(">I", 0) + text("") + bytes(32)
    proofs = {PROVE: wrong, AUTH: wrong[:8], NODE_REGISTER: b""}
    forms = (("none", hello(0), "does not ask for the secret"), ("wrong", hello(1), "does not know the secret"),
             ("before", hello(1, minor=2), "cannot prove"))
    for label, answer, words in forms:
        false = Impostor(None, {HELLO: answer, **proofs})
        victim = node(f"plain-{label}", "n1", false.port, secret=source)
        ok(logged(f"plain-{label}", words) and NODE_REGISTER not in false.calls,
           f"a node registers with nobody that {words}")
        end(victim)
    false = Impostor(None, {HELLO: hello(0)})
    victim = client("client-plain", false.port, secret=source)
    ok(logged("client-plain", "does not ask for the secret") and set(false.calls) == {HELLO},
       "nor does a client manager")
    end(victim)
    write("admin.secret", "a secret of an administrator\n")
    asked = ask(false.port, "--secret", f"file:{work}/admin.secret")
    ok(asked.returncode == 4 and "does not ask for the secret" in asked.stderr, "nor does flytctl")


def cluster(tls, more=""):
    ports = free_ports()
    shutil.copy(path("tls/cluster.crt"), path("tls/main.crt"))
    write("cluster.conf", cluster_config(work, ports, security=f'tls = "{tls}"; {more}'))
    process = start("cluster", f"{BIN}/flyt-cluster-manager", "--config", path("cluster.conf"))
    assert until(lambda: ctl("status").returncode == 0), log("cluster")
    return process, ports


def another_node():
    """n2, with its own certificate and the secret that all nodes share, says that it is n1."""
    write("shared.secret", "one secret for all nodes\n")
    manager, ports = cluster("on", f'node-secret = "file:{work}/shared.secret";')
    real = node("n1", "n1", ports[0], "n1")
    ok(logged("n1", "event=registered"), "a node registers with its own certificate")
    for certificate in ("n2", "old-n2"):
        thief = node(f"thief-{certificate}", "n1", ports[0], certificate, secret=f"file:{work}/shared.secret")
        ok(logged(f"thief-{certificate}", "its certificate names node:n2"),
           f"{certificate} is not taken for n1, and hears why")
        end(thief)
    ok("event=disconnected" not in log("n1"), "the real n1 was not disconnected")
    end(real)
    end(manager)


def nodes_with_secrets():
    """Without certificates: secrets of their own, and the one that all nodes share."""
    source = f"file:{work}/shared.secret"
    manager, ports = cluster("off", f'node-secret = "{source}";')
    real = node("old1", "old1", ports[0], secret=source)
    ok(logged("old1", "event=registered"), "a node without a secret of its own joins with the shared one")
    thief = node("thief-shared", "old1", ports[0], secret=source)
    ok(logged("thief-shared", "is connected (from"),
       "another one that knows it cannot take the name over, and hears why")
    end(thief)
    for name in ("own1", "own2"):
        added = ctl("node", "add", name, "--secret-file", path(f"{name}.secret"))
        mode = os.stat(path(f"{name}.secret")).st_mode & 0o777
        ok(added.returncode == 0 and mode == 0o600, f"{name} gets a secret: {added.stderr}")
    ok(ctl("node", "add", "own1").returncode == 6, "and not another one by mistake")
    first = node("own1", "own1", ports[0], secret=f"file:{work}/own1.secret")
    ok(logged("own1", "event=registered"), "it joins with that")
    for label, secret in (("shared", source), ("own2", f"file:{work}/own2.secret")):
        thief = node(f"thief-{label}-2", "own1", ports[0], secret=secret)
        ok(logged(f"thief-{label}-2", "with this secret"), f"the secret {label} does not open own1")
        end(thief)
    end(first)
    thief = node("thief-away", "own1", ports[0], secret=source)
    ok(logged("thief-away", "with this secret"), "nor while own1 is away")
    end(thief)
    ok("event=disconnected" not in log("old1"), "nobody was disconnected")
    moved = ctl("node", "add", "old1", "--secret-file", path("old1.secret"))
    ok(moved.returncode == 0 and logged("old1", "event=disconnected"), f"old1 gets a secret of its own: {moved.stderr}")
    ok(logged("old1", "with this secret"), "and the shared one does not open it any more")
    end(real)
    real = node("moved", "old1", ports[0], secret=f"file:{work}/old1.secret")
    ok(logged("moved", "event=registered"), "its own does")
    end(manager)
    manager, ports = cluster("off", f'node-secret = "{source}";')
    thief = node("thief-later", "old1", ports[0], secret=source)
    ok(logged("thief-later", "with this secret"), "also after the cluster manager has started anew")
    end(thief)
    end(real)
    end(manager)


def main():
    make_certificates()
    no_cluster_manager()
    nobody_proves()
    another_node()
    nodes_with_secrets()


sys.exit(hand.whole(main))
