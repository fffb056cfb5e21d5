"""scenarios.py: which parts of the guide somebody reads, in which order, and what must be so afterwards."""
import os
import re
import shutil
import subprocess
import tempfile

import afterwards
from boxes import TOP, USER, Boxes, Unusable
from reader import Reader, Tap

THREE = {"cluster": 1, "gpu-1": 5, "vm1": 21}
ONE = {"cluster": 1}
HOME = f"/home/{USER}"
BIN = PROGRAM = WORKER = ""     # of main()
tap = Tap()


# ---- what the reader has before the guide begins ----

def toolkit():
    """Folders of the CUDA Toolkit that the build here uses, to be seen at the same place in a box. None: it is in pieces over the system."""
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
        self.folder = tempfile.mkdtemp(prefix="sources-", dir=os.path.join(TOP, "build/guide"))

    def __enter__(self):
        files = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=TOP, capture_output=True, check=True).stdout.split(b"\0")
        for name in filter(None, files):
            name = name.decode()
            if os.path.lexists(os.path.join(TOP, name)):
                os.makedirs(os.path.dirname(os.path.join(self.folder, name)), exist_ok=True)
                shutil.copy2(os.path.join(TOP, name), os.path.join(self.folder, name), follow_symlinks=False)
        if self.built:
            self.copy_built()
        for at, folders, names in os.walk(self.folder):
            for name in folders + names:
                os.lchown(os.path.join(at, name), 1000, 1000)
        os.chown(self.folder, 1000, 1000)
        return self

    def copy_built(self):
        os.makedirs(os.path.join(self.folder, "build"))
        shutil.copy2(os.path.join(TOP, "build/toolkit.mk"), os.path.join(self.folder, "build"))
        shutil.copytree(BIN, os.path.join(self.folder, "bin"), symlinks=True, dirs_exist_ok=True)
        shutil.copytree(os.path.join(TOP, "build/plain"), os.path.join(self.folder, "build/plain"), symlinks=True,
                        ignore=lambda at, names: {"tests", "fuzz"} & set(names) if at.endswith("build/plain") else ())

    def binds(self, where):
        return [("-ro", each, each) for each in self.toolkit] + [("", self.folder, where)]

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)


def give_program(box):
    """Those that somebody wants to run."""
    shutil.copy(PROGRAM, box.path(f"{HOME}/program"))
    shutil.copy(WORKER, box.path(f"{HOME}/worker"))


def give_package(box, version="now"):
    """What `make deb` makes of what is built here; or the same of another version, with configurations that differ."""
    folder = os.path.join(os.path.dirname(box.folder), "package-" + version)
    if not os.path.isdir(folder):
        os.mkdir(folder)
        if version == "now":
            subprocess.run([os.path.join(TOP, "control-managers/packaging/make-deb"), BIN, folder], check=True, capture_output=True)
        else:
            other_version(os.path.join(os.path.dirname(box.folder), "package-now"), folder, version)
    for name in os.listdir(box.path(HOME)):
        if name.endswith(".deb"):
            os.remove(box.path(f"{HOME}/{name}"))
    for name in os.listdir(folder):
        shutil.copy(os.path.join(folder, name), box.path(HOME))


def other_version(source, folder, version):
    package = next(os.path.join(source, name) for name in os.listdir(source))
    tree = folder + "-tree"
    subprocess.run(["dpkg-deb", "-R", package, tree], check=True)
    for name in ("DEBIAN/control", "etc/flyt/cluster-manager.conf", "etc/flyt/node-manager.conf", "etc/flyt/client-manager.conf"):
        with open(os.path.join(tree, name)) as file:
            text = file.read()
        with open(os.path.join(tree, name), "w") as file:
            file.write(re.sub("^Version: .*", f"Version: {version}", text, flags=re.M) if name == "DEBIAN/control" else text + f"# {version}\n")
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "-b", tree, os.path.join(folder, f"flyt_{version}_all.deb")], check=True, capture_output=True)
    shutil.rmtree(tree)


# ---- scenarios ----

FROM_SOURCES = ("In place of the toolkit's libcudart",)


A = "Setup A: installed"


def setup_a(reader, install):
    """Whether a program runs at the end of it."""
    for part in (install, "2. The cluster's machine", "3. GPU machines", "4. Entitle a VM", "5. The VM"):
        if not reader.read(A, part):
            return False
    give_program(reader.boxes["vm1"])
    return reader.read(A, "6. Run programs", without=FROM_SOURCES)


def three_from_source(name, built, then):
    with Sources(built) as sources:
        boxes = Boxes(THREE, build=True, binds=sources.binds(HOME + "/flyt"))
        try:
            reader = Reader(tap, boxes, name, {"the sources": HOME + "/flyt", "the other sources": HOME + "/flyt", "the certificates": HOME})
            if setup_a(reader, "From source"):
                then(reader)
        finally:
            boxes.end()


def three_from_package(name, then):
    boxes = Boxes(THREE)
    try:
        for box in boxes.all.values():
            give_package(box)
        reader = Reader(tap, boxes, name, {"the package": HOME, "the other package": HOME, "the certificates": HOME})
        if setup_a(reader, "As a Debian package"):
            then(reader)
    finally:
        boxes.end()


def worker_passes(what, worker):
    afterwards.ok(tap, f"{what} disturbs no program that runs", worker.passed)


def source():
    """TLS while a program runs, removal while one runs, and installed again with the state that was left."""
    def then(reader):
        boxes = reader.boxes
        reader.read(A, *FROM_SOURCES)
        worker = afterwards.Worker(boxes["vm1"])
        if not reader.read("TLS", "Moving to TLS", before={"flytctl server stop": lambda: worker_passes("moving to TLS", worker)}):
            return
        afterwards.ok(tap, "nobody without TLS gets in any more", lambda: afterwards.refused_without_tls(boxes))
        worker = afterwards.Worker(boxes["vm1"])
        reader.read("TLS", "Renewing certificates")
        afterwards.ok(tap, "reload with a key that the daemon cannot use fails", lambda: afterwards.reload_without_key(boxes["vm1"]))
        afterwards.ok(tap, "an upgrade from source leaves what it needs", lambda: reader.read("Upgrading, and going back", only=("other sources",)))
        worker_passes("renewing certificates and an upgrade", worker)
        afterwards.Worker(boxes["vm1"])
        reader.read("Taking Flyt away", only=("the sources",))
        for box in boxes.all.values():
            afterwards.nothing_left(tap, box, f"make uninstall on {box.name}", False)
        reader.read(A, "From source")
        afterwards.ok(tap, "the next installation takes over the state that was left", lambda: afterwards.starts_again(boxes))
        for box in boxes.all.values():
            box.shell().type("cd ~/flyt && sudo make uninstall PURGE=1")
            afterwards.nothing_left(tap, box, f"make uninstall PURGE=1 on {box.name}", True)
    three_from_source("source", True, then)


def build():
    three_from_source("build", False, lambda reader: reader.read(A, *FROM_SOURCES))


def package():
    """Backup and restore, another version and back, all while a program runs; MongoDB; removal."""
    def then(reader):
        boxes = reader.boxes
        worker = afterwards.Worker(boxes["vm1"])
        if reader.read("The resource DB", "Backup and restore", but=("to restore it",)):
            boxes["cluster"].run("flytctl vm add late --sms 1 --memory 64M")
            reader.read("The resource DB", "Backup and restore", only=("to restore it",))
            afterwards.ok(tap, "the DB is as it was at the time of the backup", lambda: afterwards.restored(boxes["cluster"]))
        worker_passes("backup and restore", worker)
        worker = afterwards.Worker(boxes["vm1"])
        for version in ("99.0", "now"):
            for box in boxes.all.values():
                give_package(box, version)
            reader.read("Upgrading, and going back", only=("other package",))
            afterwards.ok(tap, f"version {version} runs everywhere, with the configurations as they were", lambda: afterwards.upgraded(boxes, version))
            reader.read(A, "6. Run programs", without=FROM_SOURCES)
        worker_passes("another version and back", worker)
        with afterwards.Mongo(boxes) as mongo:
            if not mongo.program:
                tap.skip("MongoDB", "there is no server for it (tests/control/mongo-install)")
            elif reader.read("The resource DB", "MongoDB"):
                reader.read("Setup A: installed", "6. Run programs", without=FROM_SOURCES)
            afterwards.Worker(boxes["vm1"])
            reader.read("Taking Flyt away", only=("the package is installed",))
            for box in boxes.all.values():
                afterwards.nothing_left(tap, box, f"purge of the package on {box.name}", True)
    three_from_package("package", then)


def one():
    """All on one machine, and what must be so there; then it is removed while a program runs."""
    boxes = Boxes(ONE)
    box = boxes["cluster"]
    try:
        give_package(box)
        give_program(box)
        box.run(f"apt-get install -y {HOME}/flyt_*.deb")
        reader = Reader(tap, boxes, "one")
        if not reader.read(A, "All on one machine"):
            return
        afterwards.who_may_what(tap, box)
        afterwards.config_check(tap, box)
        afterwards.units(tap, box)
        reader.read(A, "All on one machine", only=("logged in again",))
        afterwards.Worker(box)
        reader.read("Taking Flyt away", only=("where the package is installed",))
        afterwards.nothing_left(tap, box, "purge of the package", True)
    finally:
        boxes.end()


def shared():
    """Setup B, and what is started by hand."""
    with Sources(True) as sources:
        boxes = Boxes(THREE, build=True, sudo=False, binds=sources.binds("/shared/flyt"))
        try:
            for box in boxes.all.values():
                give_program(box)
            reader = Reader(tap, boxes, "shared", {"the sources": "/shared/flyt"})
            reader.read("Setup B: built once, shared")
            for box in boxes.all.values():
                box.log_in_again()
            reader.read("RPC only, without any daemon", without=("A virtual machine and its host",))
            reader.read("TLS", "TLS between programs and GPU servers")
        finally:
            boxes.end()


SCENARIOS = {"source": source, "build": build, "package": package, "one": one, "shared": shared}


def main(bin_folder, program, worker, names):
    global BIN, PROGRAM, WORKER
    BIN, PROGRAM, WORKER = bin_folder, program, worker
    for name in names if names != ["all"] else SCENARIOS:
        try:
            SCENARIOS[name]()
        except Unusable as why:
            tap.skip(f"the scenario {name}", why)
        except Exception as problem:                            # the next scenario says something of its own
            tap.ok(False, f"{name}: {type(problem).__name__}", problem)
    return tap.end()
