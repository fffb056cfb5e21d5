#!/usr/bin/env python3
"""Programs with several GPUs of one node, in a whole cluster; TAP on stdout.

    gangs.py BIN PROGRAM

shows: several GPUs: a program that is entitled to four sees four distinct ones with its SMs and memory of each, copies
   between all pairs, and reads the memory of one from another; CUDA_VISIBLE_DEVICES chooses among them
shows: several GPUs: each GPU's memory is an account of its own, over all programs of the VM; live limits hold on each
shows: several GPUs: tenants with one, two and four GPUs on one node; a program for which not enough are free waits
shows: several GPUs: more than the cluster has are refused by name
shows: several GPUs: each daemon is killed and comes back: the program keeps its GPUs
shows: several GPUs: the commands of docs/many-gpus.md do what it says
shows: several GPUs: all GPUs of a program move together to another node; a suspend, a checkpoint and what cannot be are
   refused by name, and the program goes on
"""
import json
import os
import re
import select
import subprocess
import sys
import tempfile

for room in ("cuda", "lib"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room))
from quota import Program  # noqa: E402
from testlib import Local, client_config, listens, ok, read, spawn, story, until, write  # noqa: E402

BIN, PROGRAM = (os.path.abspath(p) for p in sys.argv[1:3])
GPUS, SMS, MEMORY = 4, 4, 256            # of the node; MiB
SHARE_SMS, SHARE = 2, 96                 # of the VM, of each GPU


class Cluster(Local):
    """Two nodes with four GPUs each. The VM `local` has a part of four."""

    def __init__(self):
        super().__init__(BIN, tempfile.mkdtemp(prefix="flyt-gangs-"), "--nodes", "2", "--gpus-per-node", str(GPUS),
                         "--sms", str(SMS), "--memory", f"{MEMORY}M", FLYT_LOG="info")
        self.place = self.env
        self.run("vm", "set", "local", "--gpus", str(GPUS), "--sms", str(SHARE_SMS), "--memory", f"{SHARE}M")

    def used(self):
        """SMs and MiB that are booked, of all GPUs."""
        row = self.json("status")
        return row["sms_used"], row["memory_used"] >> 20

    def booked(self):
        """SMs that are booked on each GPU, by node."""
        return [[gpu["sms_used"] for gpu in node["gpus"]] for node in self.rows("node", "list")]


def take_all(program, size, devices=range(GPUS)):
    """The errors of cudaMalloc on each device."""
    return [program.ask("take", device, size)[0] for device in devices]


def sees(cluster):
    a = Program(cluster, PROGRAM)
    assert a.ready == [0]
    assert a.ask("look") == [GPUS, 1] + [SHARE_SMS, SHARE] * GPUS
    assert a.ask("ring") == [GPUS * (GPUS - 1), 0]
    servers = cluster.rows("server", "list")
    assert len(servers) == 1 and servers[0]["gpu_count"] == GPUS and len(set(servers[0]["gpus"])) == GPUS, servers
    assert servers[0]["gpu"] == servers[0]["gpus"][0] and servers[0]["memory_total"] == GPUS * SHARE << 20, servers
    assert [row["gpus"] for row in cluster.rows("program", "list")] == [GPUS]
    assert sorted(cluster.booked()) == [[0] * GPUS, [SHARE_SMS] * GPUS], cluster.booked()
    gpu = servers[0]["gpus"][2]
    assert "running" in cluster.run("describe", "gpu", gpu)
    smi = subprocess.run([f"{BIN}/flyt-smi", "--query-gpu=index,pci.bus_id,uuid,memory.total",
                          "--format=csv,noheader,nounits"], env=cluster.place, capture_output=True, text=True,
                         timeout=30)
    lines = [line.split(", ") for line in smi.stdout.splitlines()]
    assert [line[0] for line in lines] == [str(i) for i in range(GPUS)], smi
    assert all(len({line[i] for line in lines}) == GPUS for i in (1, 2)), smi
    assert {line[3] for line in lines} == {str(SHARE)}, smi
    ok("a program has all four GPUs of one node: distinct, with the VM's share of each, and copies between all pairs")
    a.end()
    for visible, expected in (("2,0", 2), ("3", 1), ("", 0)):
        cluster.place = cluster.env | {"CUDA_VISIBLE_DEVICES": visible}
        b = Program(cluster, PROGRAM)
        if expected:
            assert b.ask("look") == [expected, 1] + [SHARE_SMS, SHARE] * expected
            assert b.ask("ring") == [expected * (expected - 1), 0]
        else:
            assert b.ready == [100], b.ready
        b.end()
    cluster.place = cluster.env
    ok("CUDA_VISIBLE_DEVICES chooses among the GPUs that the VM has")


def accounts(cluster):
    a, b = Program(cluster, PROGRAM), Program(cluster, PROGRAM)
    before = [a.ask("left", device) for device in range(GPUS)]
    assert all(total == SHARE for _, total in before)
    assert take_all(a, 64) == [0] * GPUS, "each GPU has so much"
    assert take_all(a, 64) == [2] * GPUS, "and no more"
    after = [a.ask("left", device)[0] for device in range(GPUS)]
    assert all(b[0] - 70 <= left <= b[0] - 64 for b, left in zip(before, after)), (before, after)
    assert a.ask("free", 1) == [0]
    # What a gave back of one GPU is free for b, there and nowhere else.
    assert take_all(b, 64) == [2, 0, 2, 2]
    assert a.ask("take", 1, 64) == [2] and a.ask("free", 0) == [0] and a.ask("take", 0, 64) == [0]
    ok("the memory of each GPU is an account of its own: of one program, and of two of the VM")
    until(lambda: cluster.rows("server", "list")[0]["memory_used"] >> 20 >= GPUS * 64,
          lambda: f"{cluster.rows('server', 'list')}", 25)
    ok("flytctl shows what is used of all its GPUs together")
    b.end()
    until(lambda: a.ask("take", 1, 64) == [0], "what b had of GPU 1 is free when its worker has ended")
    # 64 MiB and more are used on each: less than that cannot be had; more, and fewer SMs, can.
    said = cluster.run("change-config", "-i", "local", "--memory", "48M", expect=8)
    assert "more than 48 MiB" in said, said
    cluster.run("vm", "set", "local", "--now", "--memory", "160M", "--sms", "3")
    assert cluster.used() == (GPUS * 3, GPUS * 160), cluster.used()
    assert take_all(a, 64) == [0] * GPUS, "there is room on each GPU now"
    assert take_all(a, 64) == [2] * GPUS
    for device in range(GPUS):
        assert a.ask("free", device) == [0]
    cluster.run("vm", "set", "local", "--now", "--memory", f"{SHARE}M", "--sms", str(SHARE_SMS), "--within", "10")
    assert cluster.used() == (GPUS * SHARE_SMS, GPUS * SHARE), cluster.used()
    assert take_all(a, 64) == [0] * GPUS and take_all(a, 64) == [2] * GPUS
    ok("live limits hold on each GPU: more memory at once, less when it is free")
    a.end()


def moves(cluster):
    """All GPUs of a program move together, to a node that has as many."""
    a, b = Program(cluster, PROGRAM), Program(cluster, PROGRAM)
    assert a.ask("keep") == [0] and a.ask("check") == [0, 0] and b.ask("keep") == [0]
    assert take_all(a, 8) == [0] * GPUS
    program = next(str(row["id"]) for row in cluster.rows("program", "list") if row["pid"] == a.process.pid)
    for words in (("migrate", program, "--fresh"), ("suspend", program), ("checkpoint", program, f"{cluster.dir}/file"),
                  ("migrate", program, "--to", f"{cluster.rows('node', 'list')[1]['name']}:0")):
        done = cluster.command("program", *words)
        assert done.returncode == 9 and f"has {GPUS} GPUs" in done.stderr, done
    assert a.ask("check") == [0, 0] and not cluster.rows("move", "list")
    ok("a suspend, a checkpoint and a move to a GPU that is named are refused by name, before anything is done")
    b.end()
    for _ in range(2):
        other = next(row["name"] for row in cluster.rows("node", "list") if not row["servers"])
        cluster.run("program", "migrate", program, "--to", other)
        until(lambda: len(cluster.rows("server", "list")) == 1, lambda: f"{cluster.rows('server', 'list')}")
        row = cluster.rows("server", "list")[0]
        assert row["node"] == other and row["gpu_count"] == GPUS, row
        assert a.ask("check") == [0, 0] and a.ask("ring") == [GPUS * (GPUS - 1), 0]
        assert a.ask("look") == [GPUS, 1] + [SHARE_SMS, SHARE] * GPUS
        assert cluster.used() == (GPUS * SHARE_SMS, GPUS * SHARE), cluster.used()
    assert take_all(a, 64) == [0] * GPUS and take_all(a, 64) == [2] * GPUS
    ok("a program with four GPUs moves to another node and back: what it has on each is there, and so are the accounts")
    a.end()


def refused(cluster):
    said = cluster.run("vm", "set", "local", "--gpus", "9")
    assert "9 GPUs" in said and f"at most {GPUS} such GPUs, and all nodes have 8" in said, said
    program = subprocess.run([f"{BIN}/flyt-run", PROGRAM], env=cluster.place, stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, timeout=60)
    assert "9 GPUs" in program.stderr, program
    cluster.run("vm", "set", "local", "--gpus", str(GPUS))
    a = Program(cluster, PROGRAM)
    assert a.ask("look")[0] == GPUS
    a.end()
    ok("more GPUs than the cluster has are refused by name; the entitlement says so at once")


class Tenant:
    """A VM of its own on this machine, with a client manager beside the one of flyt-local."""

    def __init__(self, cluster, name, *entitlement):
        self.bin = BIN
        secret = json.loads(cluster.run("--json", "vm", "add", name, "--address", "", "--sharing", "time-slice",
                                        *entitlement))["secret"]
        folder, config = f"{cluster.dir}/{name}", f"{cluster.dir}/{name}.conf"
        port = re.search(r"port = ([0-9]+)", read(f"{cluster.dir}/etc/client-manager.conf"))[1]
        os.mkdir(folder, 0o700)
        write(f"{folder}/secret", secret)
        write(config, client_config(port, name, folder, f"{folder}/sock", f"{folder}/secret"))
        manager = next(path for path in (f"{BIN}/flyt-client-manager", f"{BIN}/../sbin/flyt-client-manager")
                       if os.path.exists(path))
        cluster.started.append(spawn(f"{cluster.dir}/log/{name}.log", manager, "--config", config))
        until(lambda: listens(f"{folder}/sock"), f"the client manager of {name} listens")
        self.place = cluster.env | {"FLYT_MANAGER": f"{folder}/sock", "FLYT_WAIT": "in-line"}


def waits(cluster):
    """Tenants with one GPU and with several share a node. What does not fit waits, and nothing of it is booked."""
    cluster.run("vm", "set", "local", "--gpus", "1", "--sms", "1", "--memory", "32M")
    nodes = [row["name"] for row in cluster.rows("node", "list")]
    cluster.run("node", "drain", nodes[1])
    small = Program(cluster, PROGRAM)
    pair, whole = Tenant(cluster, "pair", "--gpus", "2", "--sms", "3", "--memory", "64M"), \
        Tenant(cluster, "whole", "--gpus", str(GPUS), "--sms", "2", "--memory", "64M")
    a = Program(pair, PROGRAM)
    assert a.ask("look") == [2, 1, 3, 64, 3, 64] and a.ask("ring") == [2, 0]
    assert small.ask("look")[0] == 1
    first, before = cluster.booked()[0], cluster.used()
    assert sorted(first) in ([0, 1, 3, 3], [0, 0, 3, 4]), first
    process = subprocess.Popen([f"{BIN}/flyt-run", PROGRAM], env=whole.place, stdin=subprocess.PIPE, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until(lambda: [row["state"] for row in cluster.rows("program", "list") if row["vm"] == "whole"] == ["waiting"],
          lambda: f"{cluster.rows('program', 'list')}")
    assert cluster.used() == before, "nothing is booked for it"
    assert select.select([process.stderr], [], [], 30)[0], "it says what it waits for"
    said = process.stderr.readline()
    assert f"{GPUS} GPUs of one node" in said, said
    late = Program(cluster, PROGRAM)                    # of the VM with one GPU: its server takes it in
    assert late.ask("look")[0] == 1
    a.end()                                             # its idle server gives way
    out, errors = process.communicate("look\nring\nend\n", timeout=60)
    assert f"look {GPUS} 1" in out and f"ring {GPUS * (GPUS - 1)} 0" in out, (out, errors)
    small.end()
    late.end()
    ok("tenants with one, two and four GPUs on one node: what does not fit waits as a whole, and says for what")
    cluster.run("node", "undrain", nodes[1])
    for name in ("pair", "whole"):
        cluster.run("vm", "remove", name, "--force")
    cluster.run("vm", "set", "local", "--gpus", str(GPUS), "--sms", str(SHARE_SMS), "--memory", f"{SHARE}M")


def killed(cluster):
    a = Program(cluster, PROGRAM)
    assert take_all(a, 16) == [0] * GPUS
    row = cluster.rows("server", "list")[0]
    node = row["node"]
    for daemon in ("cluster-manager", node, "client-manager"):
        again = cluster.kill(daemon)
        assert a.ask("ring") == [GPUS * (GPUS - 1), 0]
        again()
        until(lambda: cluster.command("node", "list").returncode == 0 and
              all(each["state"] == "up" for each in cluster.rows("node", "list")), "the nodes are back", 40)
        until(lambda: len(cluster.rows("program", "list")) == 1, "the program is known", 40)
        now = cluster.rows("server", "list")
        assert [each["gpus"] for each in now] == [row["gpus"]] and now[0]["id"] == row["id"], now
        until(lambda: cluster.used() == (GPUS * SHARE_SMS, GPUS * SHARE), lambda: f"{cluster.used()}", 20)
        assert a.ask("ring") == [GPUS * (GPUS - 1), 0] and a.ask("take", GPUS - 1, 16) == [0]
    # The server crashes: its node starts it again, with the same GPUs.
    server = row["pid"]
    os.kill(server, 9)
    until(lambda: [each["restarts"] for each in cluster.rows("server", "list")] == [1] and
          cluster.rows("server", "list")[0]["state"] == "running", "it is started again", 40)
    b = Program(cluster, PROGRAM)
    assert b.ask("look") == [GPUS, 1] + [SHARE_SMS, SHARE] * GPUS and b.ask("ring") == [GPUS * (GPUS - 1), 0]
    assert cluster.rows("server", "list")[0]["gpus"] == row["gpus"]
    ok("each daemon is killed and comes back, and the server, too: the same GPUs")
    a.process.kill()
    a.process.wait()
    b.end()
    until(lambda: not cluster.rows("program", "list"), "they are gone", 20)


def exported(cluster):
    cluster.run("vm", "export", f"{cluster.dir}/vms.json")
    with open(f"{cluster.dir}/vms.json", encoding="utf-8") as file:
        vms = json.load(file)["vms"]
    assert [vm["gpus"] for vm in vms] == [GPUS], vms
    cluster.run("vm", "set", "local", "--gpus", "1")
    cluster.run("vm", "import", "--update", f"{cluster.dir}/vms.json")
    assert cluster.rows("vm", "list")[0]["gpus"] == GPUS
    ok("vm export and vm import keep the number of GPUs")


def as_documented():
    """The commands of docs/many-gpus.md, one after the other: each says what stands behind its #."""
    with open("docs/many-gpus.md", encoding="utf-8") as file:
        lines = file.read().split("```sh\n")[1].split("```")[0].splitlines()
    assert len(lines) == 9 and lines[0] == f'eval "$(flyt-local up --gpus-per-node {GPUS})"', lines
    with Local(BIN, tempfile.mkdtemp(prefix="flyt-gangs-doc-"), "--gpus-per-node", str(GPUS)) as cluster:
        for line in lines[1:]:
            command, _, expected = (part.strip() for part in line.partition("#"))
            told = cluster.shell(command.replace("./program", PROGRAM), input="look\nring\nend\n")
            assert told.returncode == 0, (line, told)
            if "flyt-run" in command:
                count = 2 if "VISIBLE" in command else GPUS
                assert f"look {count} 1" in told.stdout and f"ring {count * (count - 1)} 0" in told.stdout, (line, told)
            else:
                assert expected and expected in told.stdout + told.stderr, (line, told)
    ok("docs/many-gpus.md: the commands do what it says")


def main():
    with Cluster() as cluster:
        for part in (sees, accounts, moves, refused, waits, killed, exported):
            part(cluster)
        as_documented()


sys.exit(story(main))
