#!/usr/bin/env python3
"""A stranger who speaks the control protocol by hand, with certificates of the cluster or of another one, and asks the
issuer for what is not theirs.

    stranger.py BIN

shows: attacks: a VM asks for the certificate of another VM, of a node, of the cluster manager, of an administrator:
shows: attacks: a renewal before HELLO, under another name, by an administrator, by a removed VM: none
shows: attacks: a certificate that has ended, was revoked, or is of another cluster: none, also on an old connection
"""
import os
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import hand  # noqa: E402
from hand import BIN, certificates, ctl, issue, log, path, revoke, run, start_manager, until  # noqa: E402
from testlib import ok  # noqa: E402

PROGRAM, HELLO, RENEW = 0x20F17002, 1, 4
NODE, CLIENT, ADMIN = 1, 2, 3
OK, CERTIFICATE = 0, b"-----BEGIN CERTIFICATE-----"
DAYS, DUE = 90, 61


def text(words):
    data = words.encode()
    return struct.pack(">I", len(data)) + data + b"\0" * (-len(data) % 4)


class Stranger:
    """A connection with that certificate; `gone` once the other side has refused it or ended it."""

    def __init__(self, port, certificate, folder="tls"):
        self.gone, self.xid = False, 0
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if certificate:
            context.load_cert_chain(path(f"{folder}/{certificate}.crt"), path(f"{folder}/{certificate}.key"))
        self.socket = socket.create_connection(("127.0.0.1", port), 20)
        try:
            self.socket = context.wrap_socket(self.socket)
        except OSError:
            self.gone = True

    def take(self, size):
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def call(self, procedure, arguments):
        """The results; None: the call was refused, or the connection has ended."""
        if self.gone:
            return None
        self.xid += 1
        record = struct.pack(">10I", self.xid, 0, 2, PROGRAM, 1, procedure, 0, 0, 0, 0) + arguments
        try:
            self.socket.sendall(struct.pack(">I", 0x80000000 | len(record)) + record)
            size = struct.unpack(">I", self.take(4))[0] & 0x7FFFFFFF
            reply = self.take(size)
        except (OSError, EOFError):
            self.gone = True
            return None
        denied, _, length = struct.unpack(">3I", reply[8:20])
        return None if denied or reply[20 + length:24 + length] != bytes(4) else reply[24 + length:]

    def hello(self, role, name):
        """Whether it was accepted."""
        result = self.call(HELLO, struct.pack(">3I", 1, hand.protocol_minor(), role) + text(name) + text("a stranger") +
                           struct.pack(">Q", 7) + os.urandom(32))
        return result is not None and struct.unpack(">I", result[:4])[0] == OK

    def renew(self, request):
        """(Whether there is a certificate in the answer, the answer's words.)"""
        result = self.call(RENEW, struct.pack(">I", len(request)) + request + b"\0" * (-len(request) % 4))
        if result is None:
            return False, ""
        return CERTIFICATE in result, re.sub(rb"[^ -~]+", b" ", result).decode()


def request(name, kind=("ec", "-pkeyopt", "ec_paramgen_curve:P-256"), more=()):
    """A request for a certificate in that name, with a new key, in DER."""
    made = subprocess.run(["openssl", "req", "-new", "-newkey", *kind, "-nodes", "-keyout", path("new.key"), "-subj",
                           f"/CN={name}", "-outform", "DER", *more], capture_output=True, timeout=60)
    assert made.returncode == 0, made.stderr
    return made.stdout


def connected(port, certificate, role, name):
    stranger = Stranger(port, certificate)
    ok(stranger.hello(role, name), f"{certificate} connects as {name}")
    return stranger


def pause():
    """Nothing but the limit of how often one connection may ask shall refuse the next request."""
    time.sleep(1)


def other_names(ports):
    """By the certificate of vm1, which is due."""
    vm = connected(ports[1], "vm1", CLIENT, "vm1")
    for name in ("client:vm2", "node:n1", "cluster:main", "admin:ann", "issuer:main", "ca:flyt", "client:vm1 ",
                 "client:vm2/CN=client:vm1"):
        made, said = vm.renew(request(name))
        ok(not made and "refused" in said, f"vm1 asks for {name!r}: {said[:90]}")
        pause()
    made, said = vm.renew(request("client:vm1", ("rsa:1024",)))
    ok(not made and "P-256" in said, f"vm1 asks with a weak key: {said[:90]}")
    pause()
    theirs = bytearray(request("client:vm1"))
    theirs[-1] ^= 1
    made, said = vm.renew(bytes(theirs))
    ok(not made and "does not have the key" in said, f"vm1 asks for a key that it does not have: {said[:90]}")
    pause()
    wishes = [word for wish in ("basicConstraints=critical,CA:TRUE", "keyUsage=keyCertSign,digitalSignature",
                                "extendedKeyUsage=serverAuth,clientAuth", "subjectAltName=DNS:*,IP:127.0.0.1")
              for word in ("-addext", wish)]
    next_request = request("client:vm1")    # made before, because the limit on how often lasts for a moment only
    made, said = vm.renew(request("client:vm1/CN=client:vm2/serialNumber=00", more=wishes))
    again, said_again = vm.renew(next_request)
    shown = run("openssl", "x509", "-noout", "-text", input=f"-----BEGIN {said.partition('-----BEGIN ')[2]}"
                .replace(" ", "\n").replace("BEGIN\nCERT", "BEGIN CERT").replace("END\nCERT", "END CERT")).stdout
    ok(made and "Subject: CN = client:vm1, serialNumber" in shown, f"vm1 gets its own: {said[:60]}")
    ok("CA:FALSE" in shown and "TLS Web Client Authentication\n" in shown and "Digital Signature\n" in shown and
       "Server" not in shown and "DNS:" not in shown, "and not what else its request names: no issuer, no server")
    ok(not again and "too often" in said_again, "and not another one at once")


def other_speakers(ports):
    for role, name, port in ((CLIENT, "vm2", ports[1]), (NODE, "n1", ports[0]), (NODE, "vm1", ports[0]),
                             (ADMIN, "ann", ports[1]), (ADMIN, "vm1", ports[1]), (CLIENT, "vm1", ports[0])):
        thief = Stranger(port, "vm1")
        ok(not thief.hello(role, name), f"vm1's certificate does not pass for role {role} {name}")
        made, said = thief.renew(request("client:vm1"))
        ok(not made, f"nor gets a certificate: {said[:60]}")
    silent = Stranger(ports[1], "vm1")
    ok(not silent.renew(request("client:vm1"))[0], "there is none before HELLO")
    ok(not Stranger(ports[1], None).renew(request("client:vm1"))[0], "nor for somebody without a certificate")
    ok(not connected(ports[1], "ann", ADMIN, "ann").renew(request("admin:ann"))[0], "an administrator gets none")
    node = connected(ports[0], "n1", NODE, "n1")
    made, said = node.renew(request("client:vm1"))
    ok(not made and "somebody else" in said, f"nor a node that of a VM: {said[:90]}")


def another_cluster(ports):
    """The same names, by another root."""
    run(f"{BIN}/flytctl", "ca", "create", path("ca2"))
    for role, name in (("client", "vm1"), ("node", "n1"), ("admin", "ann")):
        made = run(f"{BIN}/flytctl", "ca", "issue", path("ca2"), role, name, "--out", path("tls2"))
        assert made.returncode == 0, made.stderr
    for certificate, role, port in (("vm1", CLIENT, ports[1]), ("n1", NODE, ports[0]), ("ann", ADMIN, ports[1])):
        thief = Stranger(port, certificate, "tls2")
        ok(not thief.hello(role, certificate) and not thief.renew(request("client:vm1"))[0],
           f"{certificate} of another cluster is nobody here")


def removed(ports):
    """A VM that the administrator has removed, and whose certificate was forgotten."""
    vm = connected(ports[1], "vm3", CLIENT, "vm3")
    gone = ctl("vm", "remove", "vm3")
    assert gone.returncode == 0, gone.stderr
    ok(not vm.renew(request("client:vm3"))[0], "a removed VM gets no certificate on its connection")
    again = Stranger(ports[1], "vm3")
    ok(not again.hello(CLIENT, "vm3") and not again.renew(request("client:vm3"))[0], "nor on another one")


def taken_back(ports, manager):
    vm = connected(ports[1], "vm2", CLIENT, "vm2")
    assert revoke("client", "vm2").returncode == 0
    reloads = ctl("events").stdout.count("reloaded")
    manager.send_signal(signal.SIGHUP)
    assert until(lambda: ctl("events").stdout.count("reloaded") > reloads)
    ok(not vm.renew(request("client:vm2"))[0], "a revoked VM gets no certificate on its connection")
    again = Stranger(ports[1], "vm2")
    ok(not again.hello(CLIENT, "vm2") and not again.renew(request("client:vm2"))[0], "nor on another one")


def ended(ports):
    vm = connected(ports[1], "vm1", CLIENT, "vm1")
    hand.days_pass(DAYS - DUE + 1)
    made, said = vm.renew(request("client:vm1"))
    ok(not made and "expired" in said, f"a certificate that ends while it is connected is not renewed: {said[:90]}")
    again = Stranger(ports[1], "vm1")
    ok(not again.hello(CLIENT, "vm1") and not again.renew(request("client:vm1"))[0], "nor does it connect again")


def main():
    certificates(("cluster", "main"), ("issuer", "main"))
    issue("admin", "ann")
    for role, name in (("node", "n1"), ("client", "vm1"), ("client", "vm2"), ("client", "vm3")):
        hand.issue_earlier(role, name, DUE)
    hand.days_pass(0)
    manager, ports = start_manager(env=hand.moved_clock())
    for number in (1, 2, 3):
        added = ctl("vm", "add", f"vm{number}", "--sms", "1", "--memory", "64M", "--address", f"127.0.0.{number}")
        assert added.returncode == 0, added.stderr
    other_names(ports)
    other_speakers(ports)
    another_cluster(ports)
    removed(ports)
    taken_back(ports, manager)
    ended(ports)
    made = log("cluster").count("event=certificate-renewed") + ctl("events").stdout.count("certificate-renewed")
    ok(made, "what was made is in the events")
    ok(manager.poll() is None and ctl("status").returncode == 0, "the cluster manager goes on")


if not os.path.exists(hand.FAKETIME) or not shutil.which("openssl"):
    hand.cannot("no libfaketime, or no openssl")
sys.exit(hand.whole(main))
