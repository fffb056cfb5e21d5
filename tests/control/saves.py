#!/usr/bin/env python3
"""Encrypted checkpoints, and files of suspended programs that have a name; TAP on stdout.

    saves.py BIN PROGRAM

shows: checkpoints: with a key in the client manager's configuration they are encrypted; flytctl says with the key and
   without what is in them, and refuses another key, a changed file and a bad key by name
shows: checkpoints: with the changes alone; several become one again, encrypted or not; another base is refused by name
shows: checkpoints: a library of an earlier release is refused by name where it cannot do what is asked
shows: checkpoints: the commands of docs/elastic.md that encrypt them do what it says
shows: suspending: with a file that has a name; it goes when the program is resumed, and nobody's file is replaced. The
   program keeps no connection meanwhile, whoever is killed; where it could not be frozen it is refused by name
"""
import json
import os
import signal
import struct
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import moves  # noqa: E402
import wire  # noqa: E402
from moves import Cluster, Program  # noqa: E402
from testlib import ok, read, sanitized, story, until, write  # noqa: E402


def state(cluster, program):
    return next((row["state"] for row in cluster.rows("program", "list") if row["id"] == program.id), "gone")


def show(cluster, path, *more, expect=0):
    said = cluster.run("--json", "checkpoint", "show", path, *more, expect=expect)
    return json.loads(said) if expect == 0 else said


def configure(cluster, key):
    """The client manager reads its configuration again. What it has logged since."""
    path = f"{cluster.dir}/etc/client-manager.conf"
    lines = [line for line in read(path).splitlines() if not line.startswith("security")]
    write(path, "\n".join([*lines, f'security = {{ checkpoint-key = "file:{key}"; }};']) + "\n")
    before = len(cluster.log("client-manager"))
    os.kill(cluster.pid("client-manager"), signal.SIGHUP)
    until(lambda: "event=reloaded" in cluster.log("client-manager")[before:], "it has read its configuration")
    return cluster.log("client-manager")[before:]


def encrypted(cluster, a):
    key, other, bad, path = (os.path.join(cluster.dir, name) for name in ("key", "other", "bad", "saved"))
    made = json.loads(cluster.run("--json", "checkpoint", "key", key))
    assert made["file"] == key and len(made["key"]) == 16 and os.stat(key).st_mode & 0o137 == 0, made
    assert "is there already" in cluster.run("checkpoint", "key", key, expect=7)
    cluster.run("checkpoint", "key", other)
    cluster.run("program", "checkpoint", str(a.id), path)
    assert not show(cluster, path)["encrypted"]
    assert "key-not-renewed" not in configure(cluster, key)
    cluster.run("program", "checkpoint", str(a.id), path)
    a.goes_on(1)
    without, opened = show(cluster, path), show(cluster, path, "--key", key)
    assert without["encrypted"] and not without["opened"] and opened["opened"], (without, opened)
    assert without["key"] == opened["key"] == made["key"] and without["kinds"] == opened["kinds"]
    assert opened["bytes"] > 0 and opened["facts"]["pid"] == str(a.process.pid)
    assert "which need the key" in cluster.run("checkpoint", "show", path)
    assert "and all tags" in cluster.run("checkpoint", "show", path, "--key", key)
    assert "encrypted with another key" in show(cluster, path, "--key", other, expect=1)
    with open(path, "rb") as file:
        good = file.read()
    at = len(good) * 2 // 3
    with open(bad, "wb") as file:
        file.write(good[:at] + bytes([good[at] ^ 4]) + good[at + 1:])
    for words in ((), ("--key", key)):
        assert "checksum of a frame is wrong" in show(cluster, bad, *words, expect=1)
    write(bad, "no key at all", 0o600)
    assert "64 hexadecimal digits" in show(cluster, path, "--key", bad, expect=1)
    said = configure(cluster, bad)
    assert "key-not-renewed" in said and "64 hexadecimal digits" in said, said
    cluster.run("program", "checkpoint", str(a.id), path)
    assert show(cluster, path, "--key", key)["opened"], "the key of before is used"
    daemon = [f"{moves.BIN}/flyt-client-manager", "--config", f"{cluster.dir}/etc/client-manager.conf"]
    done = subprocess.run(daemon, capture_output=True, text=True, timeout=20)
    assert done.returncode and "64 hexadecimal digits" in done.stdout + done.stderr, done
    configure(cluster, key)
    ok("encrypted: shown with and without the key, another key, changed files and bad keys are refused by name")


def save(cluster, a, path, *more, expect=0):
    said = cluster.run("program", "checkpoint", str(a.id), path, *more, expect=expect)
    a.goes_on(1)
    return said


def changes(cluster, a, count, *key):
    """A whole one, some with changes, and what becomes of them. The last, and the one that they became."""
    paths = [os.path.join(cluster.dir, f"step{i}") for i in range(count)]
    made = os.path.join(cluster.dir, "compacted")
    for i, path in enumerate(paths):
        save(cluster, a, path, *(("--base", paths[i - 1]) if i else ()))
    whole, last = show(cluster, paths[0], *key), show(cluster, paths[-1], *key)
    assert last["facts"]["base"] == show(cluster, paths[-2])["facts"]["id"] and not whole["kept"], last
    assert last["bytes"] + last["kept"] == whole["bytes"], (whole, last)
    assert 0 < last["bytes"] <= whole["bytes"] // 10, (whole["bytes"], last["bytes"])
    cluster.run("checkpoint", "compact", *key, made, *paths)
    new = show(cluster, made, *key)
    assert (new["bytes"], new["kept"], new["facts"]["id"]) == (whole["bytes"], 0, last["facts"]["id"]), new
    assert new["encrypted"] == bool(key) and "base" not in new["facts"], new
    ok(f"changes: {last['bytes'] >> 10} of {whole['bytes'] >> 10} KiB; compacted{', encrypted' if key else ''}")
    return paths, made


def other_bases(cluster, a, paths, made):
    other = os.path.join(cluster.dir, "other")
    assert "the changes since" in cluster.run("checkpoint", "compact", other, paths[0], paths[2], expect=1)
    assert "only the changes" in cluster.run("checkpoint", "compact", other, paths[1], paths[2], expect=1)
    said = save(cluster, a, other, "--base", paths[1], expect=9)
    assert "is not the checkpoint that the program has written last" in said, said
    assert "would replace" in save(cluster, a, made, "--base", made, expect=9)
    assert "No such file" in save(cluster, a, other, "--base", "/nowhere", expect=9)
    save(cluster, a, other, "--base", made)               # it has the id of the last one
    cluster.run("checkpoint", "compact", made, made, other)
    assert show(cluster, made)["kept"] == 0
    for path in (*paths, made, other):
        os.unlink(path)
    ok("changes since another checkpoint: refused by name")


def as_documented(cluster, a):
    """The commands of docs/elastic.md, with other paths."""
    with open("docs/elastic.md", encoding="utf-8") as file:
        page = file.read()
    key = os.path.join(cluster.dir, "checkpoint.key")
    said = ""
    lines = [line for part in ("### Changes alone", "### Encrypted checkpoints")
             for line in page.split(part)[1].split("```sh\n")[1].split("```")[0].splitlines()]
    for line in lines:
        line = line.replace("ID", str(a.id)).replace("/etc/flyt", cluster.dir).replace("/var/tmp", cluster.dir)
        if line.startswith("#"):
            assert f'security = {{ checkpoint-key = "file:{key}"; }};' in line, line
            configure(cluster, key)
        else:
            assert line.startswith("flytctl "), line
            encrypted_before = ["--key", os.path.join(cluster.dir, "key")] if " compact " in line else []
            said = cluster.run(*line.split()[1:], *encrypted_before)
    assert "encrypted" in said and "and all tags" in said, said
    ok("docs/elastic.md: the commands do what it says")


def strangers(cluster):
    """A library that speaks minor 8."""
    peer = wire.Peer(f"{cluster.dir}/run/client.sock")
    peer.call(wire.HELLO, struct.pack(">3I", 1, 8, wire.OF_PROGRAM) + wire.text("pid-1") + wire.text("a test") +
              struct.pack(">Q", 7) + os.urandom(32))
    peer.attach("/bin/stranger")
    until(lambda: [row["state"] for row in cluster.rows("program", "list")] == ["running"], "it has a server")
    number = str(cluster.rows("program", "list")[0]["id"])
    for words in (("checkpoint", number, "/x"), ("suspend", number, "/x"),
                  ("checkpoint", number, "/x", "--base", "/y")):
        said = cluster.run("program", *words, expect=9)
        assert "library of an earlier release" in said, said
    peer.close()
    until(lambda: not cluster.rows("program", "list"), "it is gone")
    ok("a library of an earlier release: refused by name")


def descriptors(program):
    folder = f"/proc/{program.process.pid}/fd"
    found = []
    for name in os.listdir(folder):
        try:
            found.append(os.readlink(os.path.join(folder, name)))
        except FileNotFoundError:
            pass
    return found


def is_apart(program):
    """No connection, no reserved addresses: CRIU could write it down. A sanitizer reserves addresses of its own."""
    largest = max(int(line.split("-")[1].split()[0], 16) - int(line.split("-")[0], 16)
                  for line in read(f"/proc/{program.process.pid}/maps").splitlines())
    return (largest < 1 << 30 or sanitized(moves.BIN)) and \
        not any(name.startswith(("socket:", "anon_inode:")) for name in descriptors(program))


def with_a_name(cluster, a):
    path, taken = (os.path.join(cluster.dir, name) for name in ("frozen", "taken"))
    write(taken, "mine")
    said = cluster.run("program", "suspend", str(a.id), taken, expect=8)
    assert "File exists" in said and read(taken) == "mine", said
    a.goes_on(1)
    cluster.run("program", "suspend", str(a.id), "relative/path", expect=2)
    for party in (None, "client-manager", "cluster-manager"):
        cluster.run("program", "suspend", str(a.id), path)
        assert state(cluster, a) == "suspended" and os.stat(path).st_mode & 0o777 == 0o600
        until(lambda: is_apart(a), lambda: f"it keeps {descriptors(a)}")
        shown = show(cluster, path)
        assert shown["encrypted"] and shown["key"] is None and shown["bytes"] > 0, shown
        assert "only the process that wrote it" in cluster.run("checkpoint", "show", path)
        if party:
            cluster.kill(party)()
            until(lambda: cluster.command("program", "list").returncode == 0 and state(cluster, a) == "suspended" and
                  all(row["state"] == "up" for row in cluster.rows("node", "list")), "the cluster is there again", 40)
        until(lambda: cluster.command("program", "resume", str(a.id)).returncode == 0, "it is resumed", 40)
        a.goes_on()
        assert not os.path.exists(path)
    ok("suspended into a file with a name it keeps no connection, whoever is killed meanwhile, and is resumed")


def ends_apart(cluster):
    a, path = Program(cluster), os.path.join(cluster.dir, "left")
    cluster.run("program", "suspend", str(a.id), path)
    until(lambda: is_apart(a), "it is apart")
    assert state(cluster, a) == "suspended"
    a.process.kill()
    a.process.wait()
    until(lambda: state(cluster, a) == "gone", "the cluster has forgotten it")
    assert os.path.exists(path)
    ok("one that is killed while it has no connection is forgotten")


MANAGED = """
import ctypes, sys
cuda, memory = ctypes.CDLL("libcudart.so.13"), ctypes.c_void_p()
assert cuda.cudaMallocManaged(ctypes.byref(memory), ctypes.c_size_t(1 << 20), 1) == 0
ctypes.memset(memory, 1, 1 << 20)
assert cuda.cudaMemPrefetchAsync and cuda.cudaDeviceSynchronize() == 0
print("ready", flush=True)
sys.stdin.readline()
"""


def userfault(cluster):
    """Where the system lets pages of managed memory be watched by userfaultfd."""
    process = subprocess.Popen([f"{moves.BIN}/flyt-run", sys.executable, "-c", MANAGED], env=cluster.env,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    links = [os.readlink(f"/proc/{process.pid}/fd/{name}") for name in os.listdir(f"/proc/{process.pid}/fd")]
    number = str(cluster.rows("program", "list")[0]["id"])
    if "anon_inode:[userfaultfd]" in links:
        said = cluster.run("program", "suspend", number, f"{cluster.dir}/managed", expect=9)
        assert "userfaultfd" in said and "FLYT_PERF=no_userfault" in said, said
    else:
        cluster.run("program", "suspend", number, f"{cluster.dir}/managed")
        cluster.run("program", "resume", number)
    process.communicate("\n", timeout=60)
    until(lambda: not cluster.rows("program", "list"), "it is gone")
    ok(f"userfaultfd: {'refused by name' if 'anon_inode:[userfaultfd]' in links else 'not here'}")


def main():
    with Cluster(nodes=1) as cluster:
        a = Program(cluster)
        said = cluster.run("program", "checkpoint", str(a.id), f"{cluster.dir}/x", "--base", "/x", expect=9)
        assert "has written no checkpoint yet" in said, said
        assert a.ask("take", 16) == [0]
        other_bases(cluster, a, *changes(cluster, a, 3))
        encrypted(cluster, a)
        changed, made = changes(cluster, a, 2, "--key", f"{cluster.dir}/key")
        assert "key is needed" in cluster.run("checkpoint", "compact", made, *changed, expect=1)
        as_documented(cluster, a)
        with_a_name(cluster, a)
        a.end()
        until(lambda: state(cluster, a) == "gone", "it is gone")
        ends_apart(cluster)
        userfault(cluster)
        strangers(cluster)


if __name__ == "__main__":
    sys.exit(story(main))
