"""blows.py: what is done to the cluster, one at a time, and what programs may see of it (the table is in chaos.py's
head)."""
import errno
import os
import signal
import sqlite3
import time

from cluster import LOST, NODES, SUSPECT, VMS
from machines import descendants, processes, send
from testlib import alive, until  # noqa: E402

SHORT = 2.0         # seconds: a cut or a stop that everything shall bear
DEAD = 10           # the data plane's limit on silence (FLYT_SILENCE)
SLACK = 6           # seconds around a blow in which its effects may show


class Blow:
    """One kind of blow. strike() does it and undoes it again. A program may be lost if loses() says so, refused if
    refuses() does."""
    name, databases, slow = "", ("sqlite", "mongo"), False

    def __init__(self, cluster, programs, random):
        self.cluster, self.programs, self.random = cluster, programs, random
        self.target, self.began, self.over, self.victims = "", None, None, []

    def pause(self, most=1.5):
        time.sleep(self.random.uniform(0.2, most))

    def overlaps(self, program):
        return self.began is not None and program.started < (self.over
                                                             or time.monotonic()) + SLACK and program.ended > self.began

    def loses(self, program):
        return False

    def refuses(self, program, why):
        return False

    def excuses(self, program, outcome):
        if not self.overlaps(program):
            return False
        return self.loses(program) if outcome == "lost" else self.refuses(program, outcome[1])

    def note_victims(self, chosen):
        """Those that certainly use what is struck now; they must hear of it. One whose worker was killed a moment ago
        is still there, and waits for a reason that nobody knows."""
        now = time.monotonic()
        self.victims = [p for p in self.programs.snapshot()
                        if chosen(p) and p.place()[0] and now - p.started > 3 and not p.has_lost()]

    def missing(self, done):
        """Victims that did not hear."""
        return [f"program {p.number} used {self.target}, which was struck by '{self.name}', and {p.outcome()} after "
                f"{p.ended - self.began:.1f} s"
                for p in self.victims if p.ended is not None and p.outcome() == "passed" and p.ended > self.over]


# ---- daemons ----

class KillDaemon(Blow):
    """kill -9, and started again as systemd would."""
    def choose(self):
        return "cluster"

    def strike(self):
        self.target = self.choose()
        daemon = self.cluster.daemons[self.target]
        daemon.kill()
        self.pause()
        daemon.start()


class StopDaemon(KillDaemon):
    """SIGSTOP for less than the time after which it is taken for dead."""
    seconds = SHORT

    def strike(self):
        self.target = self.choose()
        daemon = self.cluster.daemons[self.target]
        daemon.signal(signal.SIGSTOP)
        time.sleep(self.seconds)
        daemon.signal(signal.SIGCONT)


class RestartDaemon(KillDaemon):
    """SIGTERM, and started again."""
    def choose(self):
        return self.random.choice(["cluster", *NODES, *VMS])

    def strike(self):
        self.target = self.choose()
        daemon = self.cluster.daemons[self.target]
        status = daemon.end()
        assert status == 0, f"{self.target} was to end and gave {status}"
        self.pause(0.5)
        daemon.start()

    def refuses(self, program, why):
        return program.vm == self.target and why == "manager"


class KillCluster(KillDaemon):
    name = "cluster manager killed"


class StopCluster(StopDaemon):
    name = "cluster manager stopped"


class StopClusterLong(StopDaemon):
    """Longer than it would wait for a silent node itself: its own sleep is nobody's silence."""
    name, seconds, slow = "cluster manager stopped for long", LOST + 2, True


class KillNode(KillDaemon):
    name = "node manager killed"

    def choose(self):
        return self.random.choice(NODES)


class StopNode(StopDaemon):
    name, choose = "node manager stopped", KillNode.choose


class KillClient(KillDaemon):
    name = "client manager killed"

    def choose(self):
        return self.random.choice(VMS)

    def refuses(self, program, why):
        return program.vm == self.target and why == "manager"


class StopClient(StopDaemon):
    name, choose = "client manager stopped", KillClient.choose


class RestartAny(RestartDaemon):
    name = "daemon restarted"


class KillMongo(KillDaemon):
    name, databases = "database killed", ("mongo",)

    def choose(self):
        return "db"

    def strike(self):
        super().strike()
        until(self.cluster.mongo_answers, "the database server is back", 30)


class StopMongo(StopDaemon):
    name, databases, choose = "database stopped", ("mongo",), KillMongo.choose


# ---- GPU servers, workers, programs ----

class OnServer(Blow):
    def server(self):
        """One that runs, and is used if there is such a one. The row of flytctl."""
        servers = [s for s in self.cluster.ctl("server", "list") if s["state"] == "running" and alive(s["pid"])]
        used = {p.place()[0] for p in self.programs.snapshot() if time.monotonic() - p.started > 3}
        preferred = [s for s in servers if s["id"] in used] or servers
        assert preferred, "there is no server to strike"
        row = self.random.choice(preferred)
        self.number, self.target = row["id"], f"server {row['id']} of {row['vm']} on {row['node']}"
        return row

    def loses(self, program):
        return program.place()[0] == self.number

    def refuses(self, program, why):
        return program.place()[0] in (self.number, None) and why in ("server", "gone")


class KillServer(OnServer):
    name = "GPU server killed"

    def strike(self):
        row = self.server()
        self.note_victims(lambda p: p.place()[0] == self.number)
        send(row["pid"], signal.SIGKILL)
        until(lambda: not alive(row["pid"]), "the server ends", 5)

    def missing(self, done):
        # One that has outlived its client manager has nobody to ask.
        renewed = [(b.target, b.began) for b in self.programs.blows if isinstance(b, (KillClient, RestartAny))
                   and b.target in VMS]
        untold = [p.number for p in self.victims if p.ended is not None and p.outcome() == "lost"
                  and "why, as the cluster says" not in p.text()
                  and not any(vm == p.vm and p.started < began for vm, began in renewed)]
        return super().missing(done) + ([f"programs {untold} lost {self.target} and were not told why"] if untold
                                        else [])


class StopServer(OnServer):
    """With its workers, as when its machine has no time for it."""
    name = "GPU server stopped"

    def strike(self):
        row = self.server()
        pids = descendants(row["pid"])
        for pid in pids:
            send(pid, signal.SIGSTOP)
        time.sleep(SHORT)
        for pid in pids:
            send(pid, signal.SIGCONT)

    def loses(self, program):
        return False

    def refuses(self, program, why):
        return False


class KillWorker(OnServer):
    """The process that serves one program: nobody else may notice."""
    name = "worker killed"

    def strike(self):
        row = self.server()
        workers = self.cluster.workers(row["pid"])
        assert workers, f"{self.target} has no workers"
        self.workers = len(workers)
        send(self.random.choice(workers), signal.SIGKILL)

    def missing(self, done):
        lost = [p.number for p in done if p.outcome() == "lost" and p.place()[0] == self.number
                and self.began < p.ended < self.over + SLACK]
        if len(lost) <= 1 or self.others_excuse(done, lost):
            return []
        return [f"one worker of {self.target} was killed, and programs {lost} were lost"]

    def others_excuse(self, done, lost):
        others = [b for b in self.programs.blows if b is not self]
        return any(b.excuses(p, "lost") for b in others for p in done if p.number in lost)


class KillProgram(Blow):
    name = "program killed"

    def strike(self):
        program = self.programs.kill_one()
        self.target = f"program {program.number} of {program.vm}" if program else "none"


# ---- machines ----

class CrashNode(Blow):
    """Everything on it ends at once, and the node manager starts again."""
    name, choose = "node's machine crashed", KillNode.choose

    def strike(self):
        self.target = self.choose()
        daemon, mark = self.cluster.daemons[self.target], f"/state/{self.target}/servers/"
        self.note_victims(lambda p: p.place()[1] == self.target)
        daemon.kill()
        for pid, command in processes().items():
            if mark in command:
                send(pid, signal.SIGKILL)
        self.pause()
        daemon.start()

    def loses(self, program):
        return program.place()[1] == self.target

    def refuses(self, program, why):
        return program.place()[1] in (self.target, None) and why in ("server", "gone")


class CrashVM(Blow):
    """The same for a VM: what its programs held comes back."""
    name, choose = "VM crashed", KillClient.choose

    def strike(self):
        self.target = self.choose()
        daemon = self.cluster.daemons[self.target]
        daemon.kill()
        self.programs.kill_all(self.target)
        self.pause()
        daemon.start()

    def refuses(self, program, why):
        return program.vm == self.target and why == "manager"


# ---- links ----

class Cut(Blow):
    """The machine's cable is pulled (it sees that), or its switch forwards nothing (it does not)."""
    seconds = SHORT

    def strike(self):
        machine = self.cluster.machines[self.choose()]
        pulled = self.random.random() < 0.5
        self.machine = machine.name
        self.target = f"{machine.name}, {'cable pulled' if pulled else 'nothing forwarded'}, {self.seconds:g} s"
        self.struck()
        (machine.unplug if pulled else machine.drop)()
        time.sleep(self.seconds)
        (machine.plug if pulled else machine.forward)()

    def struck(self):
        pass


class CutNode(Cut):
    name, choose = "node's link cut", KillNode.choose


class CutVM(Cut):
    name, choose = "VM's link cut", KillClient.choose


class CutCluster(Cut):
    name, choose = "cluster manager's link cut", KillDaemon.choose


class CutClusterMedium(Cut):
    """Long enough for every node to be suspect, not for them to be lost."""
    name, choose = "cluster manager's link cut until nodes are suspect", KillDaemon.choose
    seconds, slow = (SUSPECT + LOST) / 2, True


class CutDatabase(Cut):
    name, databases, choose = "database's link cut", ("mongo",), KillMongo.choose


class CutNodeLong(Cut):
    """Longer than a node may be silent: its servers are given up, and their programs are told."""
    name, seconds = "node's link cut for long", max(LOST, DEAD) + 2

    def choose(self):
        nodes = sorted({p.place()[1] for p in self.programs.snapshot() if p.place()[1]})
        return self.random.choice(nodes or NODES)

    def struck(self):
        self.note_victims(lambda p: p.place()[1] == self.machine)

    def loses(self, program):
        return program.place()[1] == self.machine

    def refuses(self, program, why):
        return program.place()[1] in (self.machine, None) and why in ("server", "gone")


class CutVMLong(Cut):
    """The VM's programs lose their servers, and the servers their programs; nobody else notices."""
    name, choose, seconds, slow = "VM's link cut for long", KillClient.choose, DEAD + 4, True

    def struck(self):
        self.note_victims(lambda p: p.vm == self.machine and not p.near())

    def loses(self, program):
        return program.vm == self.machine

    def refuses(self, program, why):
        return program.vm == self.machine and why in ("server", "gone")


# ---- the database ----

class LockDatabase(Blow):
    """Another process has it."""
    name, databases, target = "database locked by somebody else", ("sqlite",), "flyt.db"

    def strike(self):
        other = sqlite3.connect(f"{self.cluster.dir}/db/flyt.db", isolation_level=None, timeout=10)
        other.execute("BEGIN EXCLUSIVE")
        time.sleep(SHORT)
        other.execute("ROLLBACK")
        other.close()


class FillDisk(Blow):
    name, databases = "no room on the database's disk", ("sqlite",)

    def strike(self):
        self.target = path = f"{self.cluster.dir}/db/fill"
        with open(path, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError as error:
                assert error.errno == errno.ENOSPC, error
        time.sleep(SHORT)
        os.unlink(path)


class StartWithoutDatabase(Blow):
    """The cluster manager is killed and started while its database is away: it waits, says so, and serves when it is
    back."""
    name = "cluster manager started while the database is away"

    def strike(self):
        cluster = self.cluster
        daemon, self.target = cluster.daemons["cluster"], cluster.database
        daemon.kill()
        if cluster.database == "mongo":
            cluster.daemons["db"].kill()
        else:
            other = sqlite3.connect(f"{cluster.dir}/db/flyt.db", isolation_level=None, timeout=10)
            other.execute("BEGIN EXCLUSIVE")
        try:
            daemon.start()
            until(self.said, "flytctl says by its exit status that the database is away", 10)
        finally:
            if cluster.database == "mongo":
                cluster.daemons["db"].start()
                until(cluster.mongo_answers, "the database server is back", 30)
            else:
                other.execute("ROLLBACK")
                other.close()

    def said(self):
        result = self.cluster.flytctl.run("--json", "status")
        return result.returncode == 11 and "waits for the resource DB" in result.stderr


KINDS = [KillCluster, StopCluster, KillNode, StopNode, KillClient, StopClient, RestartAny, KillMongo, StopMongo,
         KillServer, StopServer,
         KillWorker, KillProgram, CrashNode, CrashVM, CutNode, CutVM, CutCluster, CutDatabase, CutNodeLong,
         LockDatabase, FillDisk, StartWithoutDatabase,
         StopClusterLong, CutClusterMedium, CutVMLong]
