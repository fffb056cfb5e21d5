"""scenarios.py: which parts of the guide somebody reads, in which order, and what must be so afterwards."""

import glob
import os
import re
import shutil
import subprocess
import tempfile

import changed
import installed
from boxes import ROOTS, TOP, USER, Boxes, Unusable
from checks import Mongo, Worker, ok
from reader import Reader
from testlib import plan, result, skip

HOME = f"/home/{USER}"
THREE = {"cluster": 1, "gpu-1": 5, "vm1": 21}
ONE = {"cluster": 1}
OLD, NEW = None, "99.0"  # versions of the package: as built here, and the same as another
BIN = PROGRAM = WORKER = ""  # of main()


# ---- what the reader has before the guide begins ----

def toolkit():
    """Folders of the CUDA Toolkit of the build here, to be seen at the same place in a box. None: it is in /usr."""
    with open(os.path.join(TOP, "build/toolkit.mk")) as lines:
        home = next(line.split("?=")[1].strip() for line in lines if line.startswith("CUDA_HOME"))
    if home in ("/usr", "/"):
        return None
    return sorted({home, os.path.realpath(home)})


class Sources:
    """A copy of the sources for the user of the boxes, with what is built of them or without."""

    def __init__(self, built):
        self.built, self.toolkit = built, toolkit()
        if not self.toolkit:
            raise Unusable("the CUDA Toolkit here is spread over /usr, and cannot be shown to a container")
        self.folder = tempfile.mkdtemp(prefix="sources-", dir=ROOTS)

    def __enter__(self):
        command = ["git", "ls-files", "-coz", "--exclude-standard"]
        files = subprocess.run(command, cwd=TOP, capture_output=True, check=True, text=True).stdout.split("\0")
        for name in files:
            source, copy = os.path.join(TOP, name), os.path.join(self.folder, name)
            if name and os.path.lexists(source):
                os.makedirs(os.path.dirname(copy), exist_ok=True)
                shutil.copy2(source, copy, follow_symlinks=False)
        if self.built:
            self.copy_built()
        subprocess.run(["chown", "-R", "1000:1000", self.folder], check=True)
        return self

    def copy_built(self):
        os.makedirs(os.path.join(self.folder, "build"))
        shutil.copy2(os.path.join(TOP, "build/toolkit.mk"), os.path.join(self.folder, "build"))
        shutil.copytree(BIN, os.path.join(self.folder, "bin"), symlinks=True, dirs_exist_ok=True)
        plain = os.path.join(TOP, "build/plain")
        shutil.copytree(plain, os.path.join(self.folder, "build/plain"), symlinks=True,
                        ignore=lambda at, names: {"tests", "fuzz"} & set(names) if at == plain else ())

    def binds(self, where):
        return [("-ro", each, each) for each in self.toolkit] + [("", self.folder, where)]

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)


def give_programs(box):
    """Those that somebody wants to run."""
    shutil.copy(PROGRAM, box.path(f"{HOME}/program"))
    shutil.copy(WORKER, box.path(f"{HOME}/worker"))


def has_compiler():
    """Whether the compiler of the software GPU was built here, and the boxes can have the LLVM that it needs."""
    there = glob.glob(os.path.join(ROOTS, "base/var/cache/apt/archives/libllvm*.deb"))
    return bool(there) and os.path.exists(os.path.join(BIN, "libsoftgpu-jit.so"))


def give_package(box, version=OLD):
    """What `make deb` makes of what is built here; or the same as another version, with configurations that differ."""
    folder = os.path.join(os.path.dirname(box.folder), f"package-{version}")
    if not os.path.isdir(folder):
        os.mkdir(folder)
        if version == OLD:
            make = os.path.join(TOP, "control-managers/packaging/make-deb")
            for which in ([], ["compiler"])[:1 + has_compiler()]:
                subprocess.run([make, BIN, folder, *which], check=True, capture_output=True)
        else:
            other_version(folder.replace(version, str(OLD)), folder, version)
    for name in os.listdir(box.path(HOME)):
        if name.endswith(".deb"):
            os.remove(box.path(f"{HOME}/{name}"))
    for name in os.listdir(folder):
        shutil.copy(os.path.join(folder, name), box.path(HOME))


def other_version(source, folder, version):
    for package in os.listdir(source):
        tree = folder + "-tree"
        subprocess.run(["dpkg-deb", "-R", os.path.join(source, package), tree], check=True)
        for path in [f"{tree}/DEBIAN/control"] + glob.glob(f"{tree}/etc/flyt/*-manager.conf"):
            with open(path) as file:
                text = file.read()
            text = re.sub("^Version: .*", f"Version: {version}", text, flags=re.M)
            text = re.sub(r"\bflyt \(= .*?\)", f"flyt (= {version})", text)
            text += "" if path.endswith("/control") else f"# {version}\n"
            with open(path, "w") as file:
                file.write(text)
        made = os.path.join(folder, f"{package.split('_')[0]}_{version}_all.deb")
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "-b", tree, made], check=True, capture_output=True)
        shutil.rmtree(tree)


# ---- scenarios ----

A = "Setup A: installed"
FROM_SOURCES = ("In place of the toolkit's libcudart",)


def setup_a(reader, install):
    """Whether a program runs at the end of it."""
    for part in (install, "2. The cluster's machine", "3. GPU machines", "4. Entitle a VM", "5. The VM"):
        if not reader.read(A, part):
            return False
    give_programs(reader.boxes["vm1"])
    return reader.read(A, "6. Run programs", without=FROM_SOURCES)


def three_from_source(name, built, then):
    with Sources(built) as sources, Boxes(THREE, build=True, binds=sources.binds(HOME + "/flyt")) as boxes:
        folders = {"the sources": HOME + "/flyt", "the other sources": HOME + "/flyt", "the certificates": HOME}
        reader = Reader(boxes, name, folders)
        if setup_a(reader, "From source"):
            then(reader, boxes)


def worker_on(boxes):
    return Worker(boxes["vm1"], boxes["cluster"])


def passes(what, worker):
    ok(f"{what} disturbs no program that runs", worker.passed)


def source():
    """TLS while a program runs, removal while one runs, and installed again with the state that was left."""
    def then(reader, boxes):
        reader.read(A, *FROM_SOURCES)
        worker = worker_on(boxes)
        before = {"flytctl server stop": lambda: passes("moving to TLS", worker)}
        if not reader.read("TLS", "Moving to TLS", before=before):
            return
        ok("nobody without TLS gets in any more", changed.refused_without_tls, boxes)
        worker = worker_on(boxes)
        if reader.read("The monitor", "For other machines"):
            ok("the monitor shows the cluster to other machines, and to nobody without a token or a certificate",
               changed.monitor_for_others, boxes)
        reader.read("TLS", "Renewing certificates")
        ok("reload with a key that the daemon cannot read fails", changed.reload_without_key, boxes["vm1"])
        reader.read("Upgrading, and going back", only=("other sources",))
        passes("renewing certificates and an upgrade", worker)
        worker_on(boxes)
        reader.read("Taking Flyt away", only=("the sources",))
        for box in boxes.all.values():
            installed.nothing_left(box, f"make uninstall on {box.name}", False)
        reader.read(A, "From source")
        ok("the next installation takes over the state that was left", changed.starts_again, boxes)
        for box in boxes.all.values():
            box.shell().type("cd ~/flyt && sudo make uninstall PURGE=1")
            installed.nothing_left(box, f"make uninstall PURGE=1 on {box.name}", True)
    three_from_source("source", True, then)


def build():
    three_from_source("build", False, lambda reader, boxes: reader.read(A, *FROM_SOURCES))


COMPILER = "The compiler of the software GPU"


def compiler(reader, boxes):
    """Installed and turned on; the node is as before when it is back. Whether it is there."""
    if not has_compiler():
        skip(COMPILER, "it was not built here (llvm-dev), or the distribution has no package of its LLVM")
        return False
    if not reader.read(A, COMPILER):
        return False
    ok("a program compiles code on the software GPU", changed.compiles, boxes["gpu-1"])
    worker = worker_on(boxes)
    ok("a GPU server compiles code in its sandbox", changed.servers_compile, boxes["gpu-1"])
    passes("compiling", worker)
    return True


def package():
    """The compiler; backup and restore, another version and back, all while a program runs; MongoDB; removal."""
    with Boxes(THREE) as boxes:
        for box in boxes.all.values():
            give_package(box)
        reader = Reader(boxes, "package", {"the package": HOME, "the packages": HOME,
                                           "the other package": HOME, "the other packages": HOME})
        if not setup_a(reader, "As a Debian package"):
            return
        give_programs(boxes["gpu-1"])
        compiled = compiler(reader, boxes)
        worker = worker_on(boxes)
        if reader.read("The resource DB", "Backup and restore", but=("to restore it",)):
            boxes["cluster"].run("flytctl vm add late --sms 1 --memory 64M")
            reader.read("The resource DB", "Backup and restore", only=("to restore it",))
            ok("the DB is as it was at the time of the backup", changed.restored, boxes["cluster"])
        passes("backup and restore", worker)
        worker = worker_on(boxes)
        for version in (NEW, OLD):
            for box in boxes.all.values():
                give_package(box, version)
            but = () if compiled else ("other packages",)
            reader.read("Upgrading, and going back", only=("other package",), but=but)
            ok(f"version {version or 'as built'} runs everywhere, with the configurations as they were",
               changed.has_version, boxes, version)
            if compiled:
                ok("its compiler, too", changed.compiles, boxes["gpu-1"])
            reader.read(A, "6. Run programs", without=FROM_SOURCES)
        passes("another version and back", worker)
        with Mongo(boxes) as mongo:
            if not mongo.program:
                skip("MongoDB", "there is no server for it (tests/control/mongo-install)")
            elif reader.read("The resource DB", "MongoDB"):
                reader.read(A, "6. Run programs", without=FROM_SOURCES)
            worker_on(boxes)
            boxes["gpu-1"].run("rm -rf /etc/systemd/system/flyt-node-manager.service.d")     # the administrator's own
            reader.read("Taking Flyt away", only=("the package is installed",))
            for box in boxes.all.values():
                installed.nothing_left(box, f"purge of the package on {box.name}", True)


def one():
    """All on one machine, and what must be so there; then it is removed while a program runs."""
    with Boxes(ONE) as boxes:
        box = boxes["cluster"]
        give_package(box)
        give_programs(box)
        box.run(f"apt-get install -y {HOME}/flyt_*.deb")
        reader = Reader(boxes, "one")
        if not reader.read(A, "All on one machine"):
            return
        installed.who_may_what(box)
        installed.config_check(box)
        installed.units(box)
        if reader.read("The monitor", "On the cluster's machine only"):
            ok("the monitor shows the cluster", changed.monitor_shows, box)
        reader.read(A, "All on one machine", only=("logged in again",))
        Worker(box, box)
        reader.read("Taking Flyt away", only=("the package is installed",))
        installed.nothing_left(box, "purge of the package", True)


def shared():
    """Setup B, and what is started by hand."""
    with Sources(True) as sources, Boxes(THREE, build=True, sudo=False, binds=sources.binds("/shared/flyt")) as boxes:
        for box in boxes.all.values():
            give_programs(box)
        reader = Reader(boxes, "shared", {"the sources": "/shared/flyt"})
        reader.read("Setup B: built once, shared")
        for box in boxes.all.values():
            box.log_in_again()
        reader.read("RPC only, without any daemon", without=("A virtual machine and its host",))
        reader.read("TLS", "TLS between programs and GPU servers")


SCENARIOS = {"source": source, "build": build, "package": package, "one": one, "shared": shared}


def main(bin_folder, program, worker, names):
    global BIN, PROGRAM, WORKER
    BIN, PROGRAM, WORKER = bin_folder, program, worker
    for name in names if names != ["all"] else SCENARIOS:
        try:
            SCENARIOS[name]()
        except Unusable as why:
            skip(f"the scenario {name}", why)
        except Exception as problem:  # the next scenario says something of its own
            result(f"{name}: {type(problem).__name__}", str(problem)[-4000:] or repr(problem))
    return plan()
