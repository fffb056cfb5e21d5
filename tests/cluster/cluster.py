"""cluster.py: the cluster under test: its files, daemons and database, and what its books say."""
import glob
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

from machines import Daemon, Machine, descendants, processes
import testlib  # noqa: E402
from testlib import Ctl, alive, client_config, cluster_config, node_config, until  # noqa: E402

NODES, VMS = ("node1", "node2", "node3"), ("vm1", "vm2")
SMS, MEMORY = 2, 256 << 20                     # of each node's software GPU
SUSPECT, LOST, GRACE = 3.0, 12.0, 3.0          # seconds: silence.suspect, silence.lost, grace period of unused servers
MONGO_PORT = 27017
HOST = "node1"                                  # of vm1


class Cluster:
    def __init__(self, folder, programs, database, tls):
        self.dir, self.bin, self.database, self.tls = folder, programs, database, tls
        for name in ("etc", "run", "state", "log", "db", "programs"):
            os.makedirs(f"{folder}/{name}", exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "none", f"{folder}/db"], check=True)
        self.machines = {"cluster": Machine("cluster", 1)}
        if database == "mongo":
            self.machines["db"] = Machine("db", 2)
        for number, name in enumerate(NODES):
            self.machines[name] = Machine(name, 11 + number)
        for number, name in enumerate(VMS):
            self.machines[name] = Machine(name, 21 + number)
        self.daemons = {}
        self.flytctl = Ctl(programs, "--manager", f"unix://{folder}/run/cluster.sock", "--timeout", "5", limit=15)
        self.ctl = self.flytctl.json

    # ---- files ----

    def write(self, name, text, mode=0o644):
        return testlib.write(f"{self.dir}/etc/{name}", text, mode)

    def tls_lines(self, name):
        folder = f"{self.dir}/etc/tls"
        if not self.tls:
            return ""
        return (f'tls = {{ ca = "{folder}/ca.crt"; certificate = "{folder}/{name}.crt"; '
                f'key = "{folder}/{name}.key"; }};\n')

    def make_certificates(self):
        folder = f"{self.dir}/etc/tls"
        self.run(f"{self.bin}/flytctl", "ca", "create", folder)
        for role, name in [("cluster", "cluster")] + [("node", n) for n in NODES] + [("client", v) for v in VMS]:
            extra = ["--host", self.machines["cluster"].address] if role == "cluster" else []
            self.run(f"{self.bin}/flytctl", "ca", "issue", folder, role, name, *extra)

    def write_cluster(self):
        address = self.machines["cluster"].address
        uri = f"sqlite://{self.dir}/db/flyt.db"
        if self.database != "sqlite":
            uri = f"mongodb://{self.machines['db'].address}:{MONGO_PORT}/flyt"
        self.write("cluster.conf", cluster_config(
            f"{self.dir}/run", (12401, 12402), uri, address=address, state=f"{self.dir}/state",
            tls=f"{self.dir}/etc/tls", security=f'tls = "{"on" if self.tls else "off"}";', more=f'''
virt-server-auto-deallocate = {{ enabled = true; grace-period = {GRACE}; }};
placement = {{ ungrouped-programs = 4; }};
silence = {{ suspect = {SUSPECT}; lost = {LOST}; client-lost = 20.0; start = 30.0; }};
'''))

    def write_node(self, name):
        self.write(f"{name}.conf", node_config(
            self.bin, 12401, name, f"{self.dir}/state/{name}", f"{self.dir}/etc/{name}.secret",
            more=self.tls_lines(name), address=self.machines[name].address, manager=self.machines["cluster"].address))

    def write_vm(self, name, secret):
        file = self.write(f"{name}.secret", secret, 0o600)
        self.write(f"{name}.conf", client_config(
            12402, name, f"{self.dir}/state/{name}", f"{self.dir}/run/{name}.sock", file, self.tls_lines(name),
            manager=self.machines["cluster"].address))

    # ---- daemons ----

    def daemon(self, machine, name, *command, **environment):
        self.daemons[name] = Daemon(self.machines[machine], name, command, f"{self.dir}/log/{name}.log",
                                    {"FLYT_LOG": "info"} | environment)
        self.daemons[name].start()
        return self.daemons[name]

    def start(self):
        if self.tls:
            self.make_certificates()
        if self.database == "mongo":
            self.start_mongo()
        self.write_cluster()
        self.daemon("cluster", "cluster", f"{self.bin}/flyt-cluster-manager", "--config",
                    f"{self.dir}/etc/cluster.conf")
        until(lambda: self.ctl("status"), "the cluster manager answers", 30)
        for name in NODES:
            self.write_node(name)
            self.ctl("node", "add", name, "--secret-file", f"{self.dir}/etc/{name}.secret")
            self.daemon(name, name, f"{self.bin}/flyt-node-manager", "--config", f"{self.dir}/etc/{name}.conf",
                        FLYT_SOFTGPU_SMS=str(SMS), FLYT_SOFTGPU_MEMORY=str(MEMORY), FLYT_SOFTGPU_THREADS="1")
        # vm1 has one server, a whole GPU; vm2 has one for each program, half a GPU, and up to four of them.
        entitlements = {"vm1": (SMS, MEMORY >> 20, "on"), "vm2": (2 * SMS, 2 * MEMORY >> 20, "off")}
        for name, (sms, memory, grouping) in entitlements.items():
            # vm1 counts as a guest of node1: where it is placed there, its programs use shared memory, which no cut of
            # a link touches.
            host = ["--host", self.machines[HOST].address] if name == "vm1" else []
            answer = self.ctl("vm", "add", name, "--sms", str(sms), "--memory", f"{memory}M", "--address",
                              self.machines[name].address, *host)
            self.write_vm(name, re.search(r'"secret": *"([^"]+)"', json.dumps(answer)).group(1))
            if grouping == "off":
                self.ctl("vm", "set", name, "--grouping", "off")
            self.daemon(name, name, f"{self.bin}/flyt-client-manager", "--config", f"{self.dir}/etc/{name}.conf")
        until(lambda: self.joined(), "all nodes and VMs have joined", 30)

    def start_mongo(self):
        program = os.environ.get("FLYT_TEST_MONGOD") or shutil.which("mongod")
        if not program:
            found = subprocess.run([os.path.join(os.path.dirname(__file__), "../control/mongo-install")],
                                   capture_output=True, text=True, timeout=300)
            program = found.stdout.strip().splitlines()[-1] if found.returncode == 0 and found.stdout.strip() else None
        if not program:
            print("1..0 # SKIP no MongoDB server could be had: neither $FLYT_TEST_MONGOD nor mongod, nor one from PyPI")
            sys.exit(77)
        self.mongo, address = program, self.machines["db"].address
        command = [program, "--dbpath", f"{self.dir}/state/mongo", "--port", str(MONGO_PORT), "--bind_ip", address]
        if os.path.basename(program).startswith("secantus"):
            command = [program, "--storage-path", f"{self.dir}/state/mongo", "--host", address, "--port",
                       str(MONGO_PORT), "--cache-size", "64M", "--sync-on-commit"]
        os.makedirs(f"{self.dir}/state/mongo")
        self.daemon("db", "db", *command)
        until(self.mongo_answers, "the database server answers", 30)

    def mongo_answers(self):
        """From the cluster manager's machine."""
        probe = "import socket; socket.create_connection(('%s', %d), 1)" % (self.machines["db"].address, MONGO_PORT)
        return subprocess.run(self.machines["cluster"].command(sys.executable, "-c", probe), stderr=subprocess.DEVNULL,
                              timeout=10).returncode == 0

    # ---- asking ----

    def run(self, *command, timeout=30):
        result = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
        said = result.stdout + result.stderr
        assert result.returncode == 0, f"{' '.join(command)} ended with {result.returncode}: {said}"
        return result.stdout

    def joined(self):
        """Everybody runs, is known, and the database is there. An AssertionError says what is missing."""
        for name, daemon in self.daemons.items():
            assert daemon.running(), f"{name} has ended; see {daemon.log}"
        status = self.ctl("status")
        for key, wanted in (("db_up", True), ("nodes_up", len(NODES)), ("gpus_ready", len(NODES)),
                            ("vms_connected", len(VMS))):
            assert status[key] == wanted, f"{key} is {status[key]}, not {wanted}"
        return status

    def server_processes(self):
        """The first process of each GPU server: process 1 of its own namespace."""
        found = set()
        for pid, command in processes().items():
            if "cricket-rpc-server" not in command or "--listen" not in command:
                continue
            try:
                with open(f"/proc/{pid}/status") as file:
                    numbers = re.search(r"^NSpid:\s*(.*)$", file.read(), re.M).group(1).split()
            except (OSError, AttributeError):
                continue
            if numbers[-1] == "1":
                found.add(pid)
        return found

    def workers(self, server_pid):
        """Processes of a server that may serve a program."""
        return [pid for pid in descendants(server_pid) if pid != server_pid]

    # ---- the books ----

    def balance(self):
        """What is booked is what servers hold, and they are there. An AssertionError says what does not fit."""
        status, nodes, servers = self.ctl("status"), self.ctl("node", "list"), self.ctl("server", "list")
        sms, memory = sum(s["sms"] for s in servers), sum(s["memory"] for s in servers)
        assert status["sms_used"] == sms and status["memory_used"] == memory and status["servers"] == len(servers), \
            (f"status says {status['sms_used']} SMs, {status['memory_used']} bytes, {status['servers']} servers; "
             f"the servers have {sms}, {memory}, {len(servers)}")
        for node in nodes:
            own = [s for s in servers if s["node"] == node["name"]]
            for what in ("sms", "memory"):
                assert node[f"{what}_used"] == sum(s[what] for s in own) <= node[what], \
                    (f"{node['name']} has {node['sms_used']} of {node['sms']} SMs and {node['memory_used']} bytes in "
                     f"use; its servers {own}")
        for vm in VMS:
            own = [s for s in servers if s["vm"] == vm]
            assert sum(s["sms"] for s in own) <= (SMS if vm == "vm1"
                                                  else 2 * SMS), f"{vm} has more than its entitlement: {own}"
        listed = {s["pid"] for s in servers if s["state"] == "running"}
        running = self.server_processes()
        steady = all(s["state"] == "running" for s in servers)
        assert listed <= running and (not steady or listed == running), (
            f"servers {sorted(listed)} are listed, and {sorted(running)} run")
        return servers

    def known(self, before, after):
        """Every program is listed that has had a server all the time between two looks at what runs, and none
        that is gone."""
        rows = self.ctl("program", "list")
        listed = {row["pid"] for row in rows}
        steady = {p.pid for p in before if p.place()[0]} & {p.pid for p in after()}
        strangers = {pid for pid in listed if not alive(pid)}
        assert steady <= listed, f"programs {sorted(steady - listed)} run and are not listed"
        assert not strangers, f"programs {sorted(strangers)} are listed and have ended"

    def complaints(self):
        """Lines of logs that must never be there, whatever was struck."""
        never = re.compile(r"db-write-failed|db-write-refused|state-unsaved|keys-unwritten|report-lost|answer-lost|"
                           r"order-lost|program-not-terminated|"
                           r"Sanitizer|runtime error|Assertion")
        found = []
        for log in glob.glob(f"{self.dir}/log/*.log") + glob.glob(f"{self.dir}/programs/*.log"):
            with open(log, errors="replace") as file:
                found += [f"{os.path.basename(log)}: {line.strip()}" for line in file if never.search(line)]
        return found

    def rows(self):
        """How many rows the database has of servers, nodes and VMs; the cluster manager has ended. None: nothing here
        can ask."""
        if self.database == "sqlite":
            with closing(sqlite3.connect(f"{self.dir}/db/flyt.db")) as connection:
                return {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                        for table in ("servers", "nodes", "vms")}
        python = os.path.join(os.path.dirname(self.mongo),
                              "python")       # of the environment that the server from PyPI lives in
        if not os.path.exists(python):
            return None
        script = ("import json, pymongo; db = pymongo.MongoClient('%s', %d).flyt; "
                  "names = {'servers': 'flyt_servers', 'nodes': 'flyt_nodes', 'vms': 'vm_required_resources'}; "
                  "print(json.dumps({k: db[v].count_documents({}) for k, v in names.items()}))")
        script %= (self.machines["db"].address, MONGO_PORT)
        return json.loads(self.run(*self.machines["cluster"].command(python, "-c", script)))

    def leftovers(self):
        """What should not be there once everything has ended."""
        found = [f"process {pid}: {command}" for pid, command in processes().items() if "/secantusd" not in command]
        for pattern in ("/dev/shm/*", f"{self.dir}/run/*", f"{self.dir}/state/node*/servers/[0-9]*",
                        f"{self.dir}/state/*/*.new"):
            found += glob.glob(pattern)
        for vm in VMS:
            with open(f"{self.dir}/state/{vm}/programs") as file:
                found += [f"{vm} still knows program {line.strip()}" for line in file.readlines()[1:]]
        return found

    def stop(self):
        """In order. What did not end as it should is returned."""
        bad = []
        for name in (*VMS, *NODES, "cluster"):
            if name in self.daemons and self.daemons[name].running():
                status = self.daemons[name].end()
                if status != 0:
                    bad.append(f"{name}: {status}")
        return bad

    def stop_database(self):
        if "db" in self.daemons:
            self.daemons["db"].end()
