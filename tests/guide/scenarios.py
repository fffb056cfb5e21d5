"""scenarios.py: which parts of the guide somebody reads, in which order, and what must be so afterwards."""
import os
import shutil
import subprocess

from boxes import TOP, USER, Boxes, Unusable
from reader import Reader, Tap

THREE = {"cluster": 1, "gpu-1": 5, "vm1": 21}
ONE = {"cluster": 1}
BIN = PROGRAM = ""              # of main()
tap = Tap()


# ---- what the reader has before the guide begins ----

def toolkit():
    """Folders of the CUDA Toolkit that the build here uses, to be seen at the same place in a box. None: it is in pieces over the system."""
    with open(os.path.join(TOP, "build/toolkit.mk")) as lines:
        home = next(line.split("?=")[1].strip() for line in lines if line.startswith("CUDA_HOME"))
    if home in ("/usr", "/"):
        return None
    return sorted({home, os.path.realpath(home)})


def sources(work, built):
    """A copy of the sources for the user of the boxes, with what is built of them or without."""
    folder = os.path.join(work, "sources")
    files = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=TOP, capture_output=True, check=True).stdout.split(b"\0")
    for name in filter(None, files):
        name = name.decode()
        if os.path.lexists(os.path.join(TOP, name)):
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            shutil.copy2(os.path.join(TOP, name), os.path.join(folder, name), follow_symlinks=False)
    os.makedirs(os.path.join(folder, "build"), exist_ok=True)
    if built:
        shutil.copy2(os.path.join(TOP, "build/toolkit.mk"), os.path.join(folder, "build"))
        shutil.copytree(BIN, os.path.join(folder, "bin"), symlinks=True, dirs_exist_ok=True)
        shutil.copytree(os.path.join(TOP, "build/plain"), os.path.join(folder, "build/plain"), symlinks=True,
                        ignore=lambda at, names: {"tests", "fuzz"} & set(names) if at.endswith("build/plain") else ())
    for at, folders, names in os.walk(folder):
        for name in folders + names:
            os.lchown(os.path.join(at, name), 1000, 1000)
    os.chown(folder, 1000, 1000)
    return folder


def give_program(box):
    shutil.copy(PROGRAM, box.path(f"/home/{USER}/program"))


# ---- scenarios ----

def setup_a(reader, install):
    boxes = reader.boxes
    if not reader.read("Setup A: installed", install):
        return False
    for part in ("2. The cluster's machine", "3. GPU machines", "4. Entitle a VM", "5. The VM"):
        if not reader.read("Setup A: installed", part):
            return False
    give_program(boxes["vm1"])
    return True


def from_source(name, built):
    bound = toolkit()
    if not bound:
        tap.skip(f"{name}: setup A from source", "the CUDA Toolkit here is spread over /usr, and cannot be shown to a container")
        return
    import tempfile
    work = tempfile.mkdtemp(prefix="sources-", dir=os.path.join(TOP, "build/guide"))
    boxes = None
    try:
        folder = sources(work, built)
        boxes = Boxes(THREE, build=True, binds=[("-ro", each, each) for each in bound] + [("", folder, f"/home/{USER}/flyt")])
        reader = Reader(tap, boxes, name, {"the sources": f"/home/{USER}/flyt"})
        if setup_a(reader, "From source"):
            reader.read("Setup A: installed", "6. Run programs")
    finally:
        if boxes:
            boxes.end()
        shutil.rmtree(work, ignore_errors=True)


def source():
    from_source("source", True)


def build():
    from_source("build", False)


SCENARIOS = {"source": source, "build": build}


def main(bin_folder, program, names):
    global BIN, PROGRAM
    BIN, PROGRAM = bin_folder, program
    for name in names if names != ["all"] else SCENARIOS:
        try:
            SCENARIOS[name]()
        except Unusable as why:
            tap.skip(f"the scenario {name}", why)
        except Exception as problem:                            # the next scenario says something of its own
            tap.ok(False, f"{name}: {type(problem).__name__}", problem)
    return tap.end()
