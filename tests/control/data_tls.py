#!/usr/bin/env python3
"""A cluster with certificates, on this machine: programs that are started through the managers reach their GPU servers
by TLS.

    data_tls.py BIN CUDA_PROGRAM HOLDER_PROGRAM

shows: TLS between programs and GPU servers: in a cluster with certificates it is on by itself; a GPU server that
   comes back has a new key; new certificates are read on SIGHUP; nobody without
shows: attacks: a GPU server without TLS, offered to a VM that has certificates: no program uses it
"""
import glob
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cuda"))
from e2e import sanitizer_environment  # noqa: E402

sys.argv[1:] = [os.path.abspath(path) for path in sys.argv[1:]]
BIN, PROGRAM, HOLDER = sys.argv[1:4]
FOLDER = tempfile.mkdtemp(prefix="flyt-tls-")
done = 0


def ok(what):
    global done
    done += 1
    print(f"ok {done} - {what}", flush=True)


def need(condition, what):
    if not condition:
        raise AssertionError(what)


def until(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not (found := condition()):
        need(time.monotonic() < end, f"not within {seconds} s: {what}")
        time.sleep(0.05)
    return found


def up(*options):
    text = subprocess.run([f"{BIN}/flyt-local", "up", "--gpu", "software", *options, FOLDER], capture_output=True,
                          text=True, timeout=120)
    need(text.returncode == 0, text.stderr)
    out = subprocess.run(["bash", "-c", 'eval "$1"; env -0', "-", text.stdout], stdout=subprocess.PIPE,
                         timeout=10).stdout
    return dict(item.split("=", 1) for item in out.decode().split("\0") if "=" in item)


def run(program, env, **more):
    result = subprocess.run([f"{BIN}/flyt-run", program], capture_output=True, text=True, timeout=100,
                            env={**env, **sanitizer_environment(BIN), "FLYT_STATS": "1", **more})
    return result.returncode, result.stdout + result.stderr


def addresses():
    """What the GPU server that was started last says on its output."""
    outputs = sorted(glob.glob(f"{FOLDER}/state/node-1/servers/*/output"), key=os.path.getmtime)
    if not outputs:
        return []
    with open(outputs[-1]) as file:
        return re.findall(r"listening on (\S+)\n", file.read())


def server_pid():
    for path in glob.glob(f"{FOLDER}/state/node-1/servers/*/state"):
        with open(path) as file:
            if match := re.search(r"^pid (\d+)", file.read(), re.M):
                return int(match.group(1))
    return 0


def with_certificates(env):
    status, text = run(PROGRAM, env)
    need(status == 0 and "received over tls" in text, f"status {status}: {text}")
    for name in ("node-1", "client-manager"):
        with open(f"{FOLDER}/log/{name}.log") as log:
            need("tls=1" in log.read(), f"{name} is not connected by TLS")
    servers = json.loads(subprocess.run([f"{BIN}/flytctl", "--json", "server", "list"], env=env, capture_output=True,
                                        text=True, timeout=30).stdout)
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

    status, text = run(PROGRAM, env, FLYT_SERVER=f"tcp://127.0.0.1:{port}")
    need(status != 0 and "write tls:// in place of tcp://" in text, f"status {status}: {text}")
    status, text = run(PROGRAM, env, FLYT_SERVER=uris[0])
    need(status != 0 and "wants a ticket" in text, f"status {status}: {text}")
    status, text = run(PROGRAM, env, FLYT_SERVER=uris[0][:-1] + ("1" if uris[0][-1] == "0" else "0"))
    need(status != 0 and "not the one whose fingerprint" in text, f"status {status}: {text}")
    ok("nobody gets in without TLS, without a ticket, or with another fingerprint")

    holder = subprocess.Popen([f"{BIN}/flyt-run", HOLDER], env={**env, **sanitizer_environment(BIN)},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    need(holder.stdout.readline() == "running\n", "no kernel runs")
    pid = until(server_pid, "the GPU server's process id")
    before = addresses()
    os.kill(pid, signal.SIGKILL)
    try:
        _, errors = holder.communicate(timeout=60)
    finally:
        holder.kill()
    need("is lost" in errors, errors)
    after = until(lambda: (a := addresses()) and a != before and a, "the GPU server is back")
    need(after[0].split("=")[1] != before[0].split("=")[1], "it has the old key")
    until(lambda: run(PROGRAM, env)[0] == 0, "programs run again")
    status, text = run(PROGRAM, env)
    need(status == 0 and "received over tls" in text, text)
    ok("a GPU server that was killed comes back with another key, and programs are told it")


def daemon(name):
    with open(f"{FOLDER}/run/{name}.pid") as file:
        return int(file.read().split()[0])


def ended(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


def restart(name):
    """Kills a daemon and starts it again as it was started, so that the others connect anew."""
    pid = daemon(name)
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        command = file.read().decode().split("\0")[:-1]
    with open(f"/proc/{pid}/environ", "rb") as file: # with the size of its GPU
        environment = dict(item.split("=", 1) for item in file.read().decode().split("\0") if "=" in item)
    os.kill(pid, signal.SIGKILL)
    until(lambda: ended(pid), f"{name} has ended, and has let its lock go")
    with open(f"{FOLDER}/log/{name}.log", "a") as log:
        again = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                 env={**environment, "FLYT_LOG": "info"})
    with open(f"/proc/{again.pid}/stat") as file:
        started = file.read().rsplit(")", 1)[1].split()[19]
    with open(f"{FOLDER}/run/{name}.pid", "w") as file:
        file.write(f"{again.pid} {started}\n")


def times_connected(name):
    with open(f"{FOLDER}/log/{name}.log") as log:
        return log.read().count("event=connected")


def new_certificates(env):
    """Of another authority, so that nobody can be let in with the old ones."""
    peers = ("node-1", "client-manager")
    ca = f"{FOLDER}/etc/another-ca"
    for words in (["create", ca], ["issue", ca, "cluster", "main"], ["issue", ca, "node", "node-1"],
                  ["issue", ca, "client", "local"]):
        more = [] if words[0] == "create" else ["--force", "--out", f"{FOLDER}/etc/tls"]
        done = subprocess.run([f"{BIN}/flytctl", "ca"] + words + more, capture_output=True, text=True, timeout=30)
        need(done.returncode == 0, done.stderr)
    shutil.copy(f"{ca}/ca.crt", f"{FOLDER}/etc/tls/ca.crt")
    before = {name: times_connected(name) for name in peers}
    for name in peers:
        os.kill(daemon(name), signal.SIGHUP)
    restart("cluster-manager")
    for name in peers:
        until(lambda name=name: times_connected(name) > before[name], f"{name} is connected by its new certificate")
    until(lambda: run(PROGRAM, env)[0] == 0, "programs run again")
    ok("certificates of another authority are taken over on SIGHUP")


def edit(name, before, after):
    path = f"{FOLDER}/etc/{name}.conf"
    with open(path) as file:
        text = file.read()
    need(before in text, f"{path}: {text}")
    with open(path, "w") as file:
        file.write(text.replace(before, after))


def server_without_tls(env):
    """A node that offers no TLS, to a VM that has certificates: by mistake, or because somebody wants to listen."""
    connected = times_connected("node-1")
    edit("node-1", "virt-server = {", 'virt-server = { tls = "off";')
    restart("node-1")
    until(lambda: times_connected("node-1") > connected, "node-1 is back")
    ctl = [f"{BIN}/flytctl", "--json", "server"]
    listed = subprocess.run([*ctl, "list"], env=env, capture_output=True, text=True, timeout=30).stdout
    for server in json.loads(listed):
        subprocess.run([*ctl, "stop", "--force", str(server["id"])], env=env, capture_output=True, timeout=30)
    until(lambda: not addresses(), "the old server has ended")
    status, text = run(PROGRAM, env)
    need(status != 0 and "takes no TLS" in text, f"status {status}: {text}")
    edit("client-manager", "tls = {", "tls = { plain-servers = true;")
    os.kill(daemon("client-manager"), signal.SIGHUP)
    until(lambda: run(PROGRAM, env)[0] == 0, "programs run again")
    ok("a VM with certificates uses no GPU server without TLS, unless that is configured")


def half_migrated(env):
    """The node that would be taken does not take TLS yet, and the other one does."""
    ctl = [f"{BIN}/flytctl", "--json"]

    def node_of_server():
        run(PROGRAM, env)
        listed = subprocess.run([*ctl, "server", "list"], env=env, capture_output=True, timeout=30).stdout
        return ",".join(server["node"] for server in json.loads(listed))

    usual = node_of_server()
    other = {"node-1": "node-2", "node-2": "node-1"}[usual]
    connected = times_connected(usual)
    edit(usual, "virt-server = {", 'virt-server = { tls = "off";')
    restart(usual)
    until(lambda: times_connected(usual) > connected, f"{usual} is back")
    subprocess.run([*ctl, "node", "drain", usual, "--wait", "30"], env=env, capture_output=True, timeout=60)
    subprocess.run([*ctl, "node", "undrain", usual], env=env, capture_output=True, timeout=30)
    status, text = run(PROGRAM, env)
    need(status == 0 and "received over tls" in text, f"status {status}: {text}")
    need(node_of_server() == other, node_of_server())
    # It has to wait for the one that it can use.
    subprocess.run([*ctl, "node", "drain", other, "--wait", "30"], env=env, capture_output=True, timeout=60)
    status, text = run(PROGRAM, {**env, "FLYT_WAIT": "fail"})
    need(status != 0 and "takes no TLS" in text, f"status {status}: {text}")
    ok("in a cluster that is half way to TLS, a VM with certificates gets a GPU server of a node that takes it")


def without_certificates(env):
    status, text = run(PROGRAM, env)
    need(status == 0 and "received over tls" not in text, f"status {status}: {text}")
    need(all(not uri.startswith("tls://") for uri in addresses()), f"{addresses()}")
    ok("without certificates there is no TLS")


def main():
    try:
        env = up("--tls")
        with_certificates(env)
        new_certificates(env)
        server_without_tls(env)
        subprocess.run([f"{BIN}/flyt-local", "down", FOLDER], check=True, capture_output=True, timeout=60)
        half_migrated(up("--tls", "--nodes", "2"))
        subprocess.run([f"{BIN}/flyt-local", "down", FOLDER], check=True, capture_output=True, timeout=60)
        without_certificates(up())
    except Exception as error:
        print(f"not ok {done + 1} - {error}", flush=True)
        for path in glob.glob(f"{FOLDER}/log/*.log") + glob.glob(f"{FOLDER}/state/node-1/servers/*/log"):
            with open(path) as log:
                print("\n".join(f"# {os.path.basename(path)}: {line}" for line in log.read().splitlines()[-12:]))
        return 1
    finally:
        subprocess.run([f"{BIN}/flyt-local", "down", FOLDER], capture_output=True, timeout=60)
        shutil.rmtree(FOLDER, ignore_errors=True)
        print(f"1..{done}" if done == 8 else "", flush=True)
    return 0


sys.exit(main())
