#!/usr/bin/env python3
"""tests/cuda/tls.py [--bin DIR]: programs and GPU servers over TLS, with certificates of a throw-away authority; TAP on
stdout.

shows: TLS between programs and GPU servers: no way around it, what both sides are told, renewed certificates, no key
   in a worker that runs programs
"""
import argparse
import base64
import hashlib
import os
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from testlib import GpuServer, Skip, case, flytctl, need, only_cases, read, sanitizer_environment, until  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--bin", default="bin")
BIN = os.path.abspath(parser.parse_args().bin)
SANITIZED = bool(sanitizer_environment(BIN))
VECTOR_ADD, FOREVER, MEMORY = (os.path.join(ROOT, "build/cuda", name) for name in ("vector_add", "forever", "memory"))
FOLDER = tempfile.mkdtemp(prefix="flyt-tls.")


def path(name):
    return os.path.join(FOLDER, name)


class Server(GpuServer):
    """With the options given, at tls://127.0.0.1 on a free port; .uri as it prints it, .address without what is behind
    the port."""

    def __init__(self, *options, listen="tls://127.0.0.1:0"):
        super().__init__(BIN, listen, more=("--workers", "1", *options), log=tempfile.mktemp(dir=FOLDER),
                         FLYT_LOG="info")
        self.address = self.uri.split("?")[0]
        self.port = int(self.address.rsplit(":", 1)[1])

    def said(self):
        return read(self.log)

    def says(self, pattern, seconds=60):
        until(lambda: re.search(pattern, self.said()), lambda: f"the server's log has /{pattern}/:\n{self.said()}",
              seconds)

    def workers(self):
        return [int(pid) for pid in subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True,
                                                   text=True).stdout.split()]

    def connections(self):
        """Established connections to the server."""
        with open("/proc/net/tcp") as table:
            return sum(words[3] == "01" and int(words[2].split(":")[1], 16) == self.port
                       for words in map(str.split, table) if words[0] != "sl")

    def fingerprint(self):
        """Of the certificate that a new connection is shown."""
        with socket.create_connection(("127.0.0.1", self.port), 20) as plain, unchecked().wrap_socket(plain) as tls:
            return hashlib.sha256(tls.getpeercert(True)).hexdigest(), tls.version()

    def __exit__(self, *_):
        status = self.end()
        need(status == 0, f"the server ended with {status}: {self.said()}")


def flyt(uri, program=VECTOR_ADD, **env):
    return subprocess.run([f"{BIN}/flyt-run", "--server", uri, program], capture_output=True, text=True,
                          errors="replace", timeout=100,
                          env={**os.environ, **sanitizer_environment(BIN), "FLYT_STATS": "1", **env})


def passes(done):
    text = done.stdout + done.stderr
    need(done.returncode == 0 and "received over tls" in text, f"status {done.returncode}:\n{text}")


def fails(done, *patterns):
    text = done.stdout + done.stderr
    need(done.returncode not in (0, -11, -6), f"status {done.returncode}:\n{text}")
    for pattern in patterns:
        need(re.search(pattern, text), f"no /{pattern}/ in:\n{text}")


def issue(name, *options, ca="ca", role="server", out="server"):
    flytctl(BIN, "ca", "issue", path(ca), role, name, "--out", path(out), *options)
    return path(f"{out}/{name}.crt"), path(f"{out}/{name}.key")


def shows(pair):
    return "--tls-certificate", pair[0], "--tls-key", pair[1]


# ---- who gets on ----

@case
def the_address_that_a_server_prints():
    with Server() as server:
        need(re.fullmatch(r"tls://127\.0\.0\.1:\d+\?sha256=[0-9a-f]{64}", server.uri), server.uri)
        passes(flyt(server.uri))
        passes(flyt(server.uri.replace("127.0.0.1", "localhost")))        # the key counts, not the name
        need(server.fingerprint() == (server.uri.split("=")[1], "TLSv1.3"), "another certificate is shown")
        server.says("transport=tls")
        fails(flyt(server.address), "nothing says how to know the server", "FLYT_TLS_CA", r"\(802\)")
        fails(flyt(server.address + "?sha256=" + "0" * 64), "not the one whose fingerprint the address gives",
              r"\(802\)")
        server.says("does not trust this server's certificate")
        with Server() as other:
            need(other.uri.split("=")[1] != server.uri.split("=")[1], "two servers have one key")


@case
def certificates_of_an_authority():
    with Server(*shows(issue("gpu1", "--host", "127.0.0.1"))) as server:
        need("?" not in server.uri, server.uri)
        passes(flyt(server.uri, FLYT_TLS_CA=path("ca/ca.crt")))
        passes(flyt(f"tls://localhost:{server.port}?name=server:gpu1", FLYT_TLS_CA=path("ca/ca.crt")))
        fails(flyt(f"tls://localhost:{server.port}", FLYT_TLS_CA=path("ca/ca.crt")),
              "is for server:gpu1, not for localhost", "--host")
        fails(flyt(server.uri, FLYT_TLS_CA=path("other/ca.crt")), "not made by the authority in FLYT_TLS_CA")
        fails(flyt(server.uri, FLYT_TLS_CA=path("none.crt")), "none.crt")
        server.says("does not trust this server's certificate")
    with Server(*shows(issue("gpu1", ca="other", out="stranger"))) as server:
        fails(flyt(server.uri + "?name=server:gpu1", FLYT_TLS_CA=path("ca/ca.crt")),
              "not made by the authority in FLYT_TLS_CA")


@case
def certificates_of_programs():
    certificate, key = issue("vm1", role="client", out="vm")
    with Server("--tls-ca", path("ca/ca.crt")) as server:
        passes(flyt(server.uri, FLYT_TLS_CERTIFICATE=certificate, FLYT_TLS_KEY=key))
        fails(flyt(server.uri), "refuses|Key was rejected|does not answer", r"\(802\)")
        server.says("it shows no certificate, and --tls-ca wants one")
        wrong = issue("vm1", ca="other", role="client", out="other-vm")
        fails(flyt(server.uri, FLYT_TLS_CERTIFICATE=wrong[0], FLYT_TLS_KEY=wrong[1]), r"\(802\)")
        server.says("its certificate is not accepted")
        fails(flyt(server.uri, FLYT_TLS_CERTIFICATE=certificate), "belong together")


@case
def revoked_certificates_of_programs():
    """The list beside --tls-ca is read at the start and at SIGHUP; sessions that have begun are cut off."""
    os.mkdir(path("list"))
    shutil.copy(path("ca/ca.crt"), path("list/ca.crt"))
    good, bad, late = (dict(zip(("FLYT_TLS_CERTIFICATE", "FLYT_TLS_KEY"), issue(name, role="client", out=name)))
                       for name in ("vm-good", "vm-bad", "vm-late"))

    def revoke(name):
        flytctl(BIN, "ca", "revoke", path("ca"), "client", name)
        shutil.copy(path("ca/ca.crl"), path("list/ca.crl"))

    revoke("vm-bad")
    with Server("--tls-ca", path("list/ca.crt")) as server:
        passes(flyt(server.uri, **good))
        fails(flyt(server.uri, **bad), r"\(802\)")
        server.says("its certificate was revoked")
        passes(flyt(server.uri, **late))
        stays, ends = (subprocess.Popen([f"{BIN}/flyt-run", "--server", server.uri, FOREVER],
                                        env={**os.environ, **sanitizer_environment(BIN), **who},
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for who in (good, late))
        server.says("(?s)" + "transport=tls.*" * 4)
        revoke("vm-late")
        server.process.send_signal(signal.SIGHUP)
        server.says("event=client-cut-off")
        ends.communicate(timeout=30)
        need(ends.returncode != 0, "the revoked program ended well")
        need(stays.poll() is None, "a program that was not revoked has ended")
        stays.kill()
        stays.communicate()
        fails(flyt(server.uri, **late), r"\(802\)")
        passes(flyt(server.uri, **good))        # at the same address: the server's key stays
        os.remove(path("list/ca.crl"))          # as while somebody puts another one there
        server.process.send_signal(signal.SIGHUP)
        server.says("event=revoked-list-missing")
        fails(flyt(server.uri, **late), r"\(802\)")
        os.mkfifo(path("list/ca.crl"))
        server.process.send_signal(signal.SIGHUP)
        server.says("is no file of at most")
        fails(flyt(server.uri, **late), r"\(802\)")
        os.remove(path("list/ca.crl"))
        shutil.copy(path("other/ca.crt"), path("list/ca.crl"))
        server.process.send_signal(signal.SIGHUP)
        server.says("is no list of revoked certificates")
        fails(flyt(server.uri, **late), r"\(802\)")
        passes(flyt(server.uri, **good))


# ---- no way around ----

@case
def plain_calls_at_a_tls_address():
    with Server() as server:
        fails(flyt(server.address.replace("tls", "tcp")), "refuses this program", "write tls:// in place of tcp://")
        server.says("it does not speak TLS, but this address is tls://")


@case
def tls_at_a_plain_address():
    with Server(listen="tcp://127.0.0.1:0") as server:
        fails(flyt(server.address.replace("tcp", "tls"), FLYT_TLS_CA=path("ca/ca.crt")), "listen on tls://",
              "log says why")
        server.says("it speaks TLS to a plain address")


@case
def plain_beside_tls_has_to_be_meant():
    both = [f"{BIN}/cricket-rpc-server", "--gpu", "software", "--listen", "tls://127.0.0.1:0", "--listen",
            "tcp://127.0.0.1:0"]
    done = subprocess.run(both, capture_output=True, text=True, timeout=30)
    need(done.returncode == 2 and "--plain-tcp" in done.stderr, done.stderr)
    for options, words in ((["--tls-key", "x"], "belong together"),
                           (["--tls-ca", "x", "--plain-tcp"], "x: No such file")):
        done = subprocess.run([*both[:5], *options], capture_output=True, text=True, timeout=30)
        need(done.returncode in (1, 2) and words in done.stderr, done.stderr)
    done = subprocess.run([*both[:3], "--listen", "tcp://127.0.0.1:0", "--tls-ca", "x"], capture_output=True, text=True,
                          timeout=30)
    need(done.returncode == 2 and "no --listen has such an address" in done.stderr, done.stderr)
    with Server("--plain-tcp", "--listen", "tcp://127.0.0.1:0") as server:
        passes(flyt(server.uri))


@case
def strangers_who_stop_halfway_or_talk_nonsense():
    with Server() as server:
        half, noise, http = (socket.create_connection(("127.0.0.1", server.port)) for _ in range(3))
        half.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        noise.sendall(bytes(range(1, 200)) * 40)
        http.sendall(b"GET / HTTP/1.1\r\n\r\n")
        passes(flyt(server.uri))                                          # nobody waits for them
        server.says("did not finish the TLS handshake in time")
        server.says("event=client-refused why=\"it does not speak TLS")
        for stranger in (half, noise, http):
            stranger.settimeout(20)
            try:
                while stranger.recv(4096):
                    pass
            except ConnectionError:
                pass
            stranger.close()
        passes(flyt(server.uri))


# ---- keys ----

@case
def certificates_are_renewed():
    pair = issue("gpu3", "--host", "127.0.0.1")
    with Server(*shows(pair)) as server:
        before = server.fingerprint()
        program, _ = running(server, FLYT_TLS_CA=path("ca/ca.crt"))
        with open(pair[0]) as file:
            good = file.read()
        with open(pair[0], "w") as file:
            file.write("nothing\n")
        server.process.send_signal(signal.SIGHUP)
        server.says("there is no certificate in it .*: the one read before stays")
        need(server.fingerprint() == before, "the certificate has gone")
        with open(pair[0], "w") as file:
            file.write(good)
        issue("gpu3", "--host", "127.0.0.1", "--force")
        server.process.send_signal(signal.SIGHUP)
        server.says("event=certificate-read")
        need(server.fingerprint()[0] != before[0], "the old certificate is shown still")
        passes(flyt(server.uri, FLYT_TLS_CA=path("ca/ca.crt")))
        need(program.poll() is None, "the running program was disturbed")
        program.kill()
        program.wait()


@case
def keys_that_others_may_read_are_not_taken():
    pair = issue("gpu4")
    os.chmod(pair[1], 0o644)
    done = subprocess.run([f"{BIN}/cricket-rpc-server", "--gpu", "software", "--listen", "tls://127.0.0.1:0",
                           *shows(pair)],
                          capture_output=True, text=True, timeout=30)
    need(done.returncode == 1 and "chmod 600" in done.stderr, done.stderr)


def memory_holds(pid, needles):
    """Those of needles that are somewhere in the memory of the process."""
    found = {}
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            low, high = (int(part, 16) for part in line.split()[0].split("-"))
            if not line.split()[1].startswith("rw") or high - low > 1 << 28:
                continue
            try:
                memory.seek(low)
                content = memory.read(high - low)
            except (OSError, OverflowError, ValueError):
                continue
            for name, needle in needles.items():
                if needle in content:
                    found[name] = f"{low + content.index(needle):x} of {line.strip()}"
    return found


def running(server, **env):
    """A program that stays and has lanes, and the number of its session."""
    program = subprocess.Popen([f"{BIN}/flyt-run", "--server", server.uri, FOREVER, "64"], stdout=subprocess.PIPE,
                               text=True,
                               env={**os.environ, **sanitizer_environment(BIN), "FLYT_LANES": "2", **env})
    need(program.stdout.readline() == "running\n", "no kernel runs")
    server.says(r"event=session-began session=\d+ program=\S*forever")
    return program, int(re.findall(r"session=(\d+) program=\S*forever", server.said())[-1])


def lane(server, session, number=1):
    """A connection that says it is a lane of the session."""
    connection = socket.create_connection(("127.0.0.1", server.port), 20)
    connection.sendall(b"FlytLane" + struct.pack(">QII", session, number, 0))
    return connection


def closed(connection):
    try:
        while connection.recv(4096):
            pass
    except (ConnectionError, ssl.SSLError):
        pass
    connection.close()


def unchecked():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@case
def lanes_are_encrypted_too():
    with Server() as server:
        program, session = running(server)
        need(server.connections() > 1, "there are no lanes")
        for number, there in ((1, session), (9, session), (1, session + (1 << 32))):       # the last is nobody's
            for wrap in (lambda plain: plain, unchecked().wrap_socket):
                try:
                    with lane(server, there, number) as stranger, wrap(stranger) as way:
                        way.sendall(bytes(32))                            # no key that was given
                        closed(way)
                except (ConnectionError, ssl.SSLError):
                    pass
        server.says("none is expected now")
        server.says("there is no such session")
        need(program.poll() is None, f"strangers ended the session: {server.said()}")
        program.kill()
        program.wait()
        passes(flyt(server.uri, MEMORY))


@case
def no_key_is_left_in_a_worker_that_runs_a_program():
    if SANITIZED:
        raise Skip("a sanitizer keeps freed memory aside")
    pair = issue("gpu5", "--host", "127.0.0.1")
    with open(pair[1]) as file:
        text = file.read()
    body = "".join(text.splitlines()[1:-1])
    der = base64.b64decode(body)
    at = der.index(b"\x02\x01\x01\x04\x20") + 5     # ECPrivateKey, RFC 5915: version 1, then 32 bytes
    secret = der[at:at + 32]
    needles = {"PEM": text.splitlines()[1].encode(), "number": secret, "number, turned round": secret[::-1]}
    with Server(*shows(pair)) as server:
        program, session = running(server, FLYT_TLS_CA=path("ca/ca.crt"))
        need(server.connections() > 1, "there are no lanes, for each of which the worker gets the key once more")
        need("PEM" in memory_holds(server.process.pid, needles),
             "the listener, which has the key, does not show it: this test sees nothing")
        for worker in server.workers():
            found = memory_holds(worker, needles)
            need(not found, f"worker {worker} holds the key ({found})")
        program.kill()
        program.wait()


flytctl(BIN, "ca", "create", path("ca"))
flytctl(BIN, "ca", "create", path("other"))
sys.exit(only_cases(FOLDER))
