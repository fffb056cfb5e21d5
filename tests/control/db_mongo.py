#!/usr/bin/env python3
"""tests/control/db_mongo.py SUITE SPECIAL BIN: the resource DB over MongoDB. Starts servers of its own on loopback
($FLYT_TEST_MONGOD, else mongod, else what mongo-install brings), runs the suite plainly, with SCRAM, with TLS, and
while the server is killed, stopped and started again. Speaks TAP; everything is skipped, saying so, when there is no
server.

shows: resource DB: MongoDB: of two cluster managers one serves, the other says whom it waits for, and takes over in
   seconds
shows: resource DB: MongoDB with SCRAM and with TLS, and nothing is lost while its server is killed, frozen and
   started again
"""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import cluster_config, comment, free_ports, ok, plan, result, skip, soon, spawn, write  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
suite, special, programs = sys.argv[1:4]
work = tempfile.mkdtemp(prefix="flyt-mongo-")
class Server:
    """One server program; `kind` tells whose options it understands."""

    def __init__(self, program):
        self.program, self.port, self.process = program, free_ports(1)[0], None
        base = os.path.basename(program)
        self.kind = "secantus" if base.startswith("secantus") else "mongod"
        self.folder = os.path.join(work, "data")
        os.makedirs(self.folder, exist_ok=True)

    def start(self, auth=False, tls=None, sync=False):
        command = [self.program]
        if self.kind == "mongod":
            command += ["--dbpath", self.folder, "--port", str(self.port), "--bind_ip", "127.0.0.1"]
            command += ["--auth"] if auth else []
            command += ["--tlsMode", "requireTLS", "--tlsCertificateKeyFile", tls + ".pem", "--tlsCAFile", tls + ".crt",
                        "--tlsAllowConnectionsWithoutCertificates"] if tls else []
        else:
            command += ["--storage-path", self.folder, "--host", "127.0.0.1", "--port", str(self.port), "--cache-size",
                        "64M"]
            command += ["--auth"] if auth else []
            command += ["--tls-cert-file", tls + ".crt", "--tls-key-file", tls + ".key"] if tls else []
            # Without it a kill loses the last commits, as a crash of mongod without a journal does.
            command += ["--sync-on-commit"] if sync else []
        log = open(os.path.join(work, "server.log"), "ab")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=work)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 0.5).close()
                return True
            except OSError:
                time.sleep(0.05)
        return False

    def end(self, how=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def run(command, limit=60):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit)
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        return 124, (late.stdout or b"").decode() + f"\nran past {limit} s"


def check(name, command, limit=60):
    status, text = run(command, limit)
    result(name, status and f"exit status {status}: {text.strip()}")


def check_suite(name, command):
    """Each test of a cmocka program is one of ours."""
    status, text = run(command)
    results = re.findall(r"^(not ok|ok) \d+ - (.*)$", text, re.M)
    for word, test in results:
        ok(word == "ok", f"{name}: {test}")
    if status or not results:
        comment(text.strip())
        ok(False, f"{name}: exit status {status}")


def find_program():
    named = os.environ.get("FLYT_TEST_MONGOD") or shutil.which("mongod")
    if named:
        return named
    status, text = run([os.path.join(HERE, "mongo-install")], 240)
    return text.strip().splitlines()[-1] if status == 0 and text.strip() else None


def endure(server, uri):
    """Killed twice and frozen once while somebody writes."""
    writer = subprocess.Popen([special, "endure", uri, "6"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True)
    time.sleep(1)
    for _ in range(2):
        server.end(signal.SIGKILL)
        time.sleep(0.3)
        server.start(sync=True)
        time.sleep(0.7)
    server.process.send_signal(signal.SIGSTOP)
    time.sleep(1)
    server.process.send_signal(signal.SIGCONT)
    try:
        text, _ = writer.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        writer.kill()
        text, _ = writer.communicate()
    print("# " + text.strip().replace("\n", "\n# "))
    ok(writer.returncode == 0, "nothing is lost while the server is killed, frozen and started again")


def tls_files():
    base = os.path.join(work, "server")
    status, text = run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-days", "2", "-subj", "/CN=127.0.0.1",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", base + ".key", "-out", base + ".crt"])
    if status:
        print("# " + text.replace("\n", "\n# "))
        return None
    with open(base + ".pem", "w") as both:
        for part in (".key", ".crt"):
            both.write(open(base + part).read())
    return base


class Manager:
    def __init__(self, name, database):
        self.socket = os.path.join(work, name + ".sock")
        config = os.path.join(work, name + ".conf")
        write(config, cluster_config(work, uri=database, name=name, security='tls = "off";'))
        self.log = os.path.join(work, name + ".log")
        self.process = spawn(self.log, os.path.join(programs, "flyt-cluster-manager"), "-c", config)

    def status(self):
        """flytctl's exit status, and what it says."""
        return run([os.path.join(programs, "flytctl"), "-M", "unix://" + self.socket, "status"], 15)

    def serves_within(self, seconds):
        if soon(lambda: self.status()[0] == 0, seconds):
            return True
        comment(open(self.log).read()[-1500:])
        return False


def two_managers(database):
    first = Manager("first", database)
    others = []
    try:
        ok(first.serves_within(15), "a cluster manager serves")
        others.append(second := Manager("second", database))
        time.sleep(1)
        code, text = second.status()
        ok(code == 11 and f"(pid {first.process.pid})" in text, "a second one waits and says for whom")
        if code != 11:
            print(f"# {code}: {text}")
        first.process.kill()
        first.process.wait()
        ok(second.serves_within(8), "it takes over within seconds when the first is killed")
        others.append(third := Manager("third", database))
        time.sleep(1)
        second.process.send_signal(signal.SIGSTOP)
        ok(third.serves_within(20), "one that is frozen is replaced")
        second.process.send_signal(signal.SIGCONT)
        try:
            ok(second.process.wait(10) == 1 and "event=replaced" in open(second.log).read(),
               "and ends when it finds that out")
        except subprocess.TimeoutExpired:
            ok(False, "and ends when it finds that out")
        ok(third.status()[0] == 0, "its successor goes on")
        third.process.terminate()
        ok(third.process.wait(10) == 0, "and ends cleanly")
    finally:
        for each in [first, *others]:
            if each.process.poll() is None:
                each.process.kill()
                each.process.wait()


def main():
    # Without any server: this needs none.
    nobody = f"mongodb://ann:secret-word@127.0.0.1:{free_ports(1)[0]}/flyt"
    check("an absent server is told soon, without the password", [special, "refused", nobody, "EAGAIN", "6"])
    program = find_program()
    if not program:
        skip("the resource DB over MongoDB",
             "no server could be started: neither $FLYT_TEST_MONGOD nor mongod, nor one from PyPI")
        return
    server = Server(program)
    address = f"127.0.0.1:{server.port}"
    try:
        if not server.start():
            skip("the resource DB over MongoDB",
                 f"{program} does not start: {open(os.path.join(work, 'server.log')).read()[-300:]!r}")
            return
        plain = f"mongodb://{address}/flyt"
        started = time.monotonic()
        check_suite("plain", [suite, plain])
        check_suite("plain", [special, "documents", plain])
        two_managers(f"mongodb://{address}/managers")
        if server.kind == "secantus":
            check_suite("replica set", [suite, plain + "?replicaSet=secantus"])
        server.end()
        server.start(sync=True)
        endure(server, f"mongodb://{address}/endured")
        check("a user is made", [special, "create-user", plain, "ann", "p@ss:word/secret-word"])
        server.end()
        tls = tls_files()
        if not server.start(auth=True):
            ok(False, "the server starts with --auth")
            return
        secret = "p%40ss%3Aword%2Fsecret-word"
        check_suite("SCRAM", [suite,
                              f"mongodb://ann:{secret}@{address}/flyt?authSource=admin&authMechanism=SCRAM-SHA-256"])
        check("a wrong password is refused",
              [special, "refused", f"mongodb://ann:not-secret-word@{address}/flyt?authSource=admin", "EACCES", "8"])
        server.end()
        if not server.start(auth=True, tls=tls):
            ok(False, "the server starts with TLS")
            return
        check_suite("TLS and SCRAM",
                    [suite, f"mongodb://ann:{secret}@{address}/flyt?authSource=admin&tls=true&tlsCAFile={tls}.crt"])
        check("a certificate of nobody we know is refused",
              [special, "refused", f"mongodb://ann:{secret}@{address}/flyt?authSource=admin&tls=true", "EAGAIN", "8"])
        check("without TLS there is no way in",
              [special, "refused", f"mongodb://ann:{secret}@{address}/flyt?authSource=admin", "EAGAIN", "12"])
        print(f"# {os.path.basename(program)}: {time.monotonic() - started:.0f} s")
    finally:
        server.end(signal.SIGKILL)


try:
    main()
finally:
    plan()
    shutil.rmtree(work, ignore_errors=True)
