#!/usr/bin/env python3
"""alone.py BIN FOLDER [SUITE...]: Flyt's libraries in machines that have nothing but a C library; TAP on stdout.

shows: first steps: the client's libraries need only the C library, 2.31 or newer, and export only their own names
shows: first steps: programs built with AddressSanitizer or ThreadSanitizer, or with functions of the same names
shows: first steps: a program with a limit on its addresses gets a smaller window, and else an error that says so
shows: first steps: a copied folder serves programs in an image without any other library; what is missing is named

FOLDER has the programs `static` and `shared` (with that CUDA runtime, linked for an old C library), `musl`, and those
of tests/driver/sanitized.c. SUITE is a release of Debian: the folder is tried in a small image of it, made by
mmdebstrap from the network.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import GpuServer, Skip, case, cases, only_cases  # noqa: E402

BIN, FOLDER = (os.path.abspath(path) for path in sys.argv[1:3])
SUITES = sys.argv[3:]
OLDEST = (2, 31)
C_LIBRARY = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "libanl.so.1", "ld-linux-x86-64.so.2"}
CUDA = r"(cuda|cu)[A-Z]\w*|__cuda[A-Z]\w*|libcudart\.so\.\d+(\.\d+)?"
# What each exports, and what of ours it takes from another one.
EXPORTS = {
    "libflyt-client.so": r"flyt_\w+",
    "libflyt-tls.so": r"rpc_channel_tls_connect|checkpoint_cipher|flyt_environment",
    "libflyt-server.so": r"flyt_server_local(_end)?|flyt_environment",
    "libflyt-comm.so": r"flyt_\w+",
    "libflyt-coordinator.so": r"flyt_\w+",
    "nccl/libnccl.so.2": r"p?nccl[A-Z]\w+|flyt_libnccl",
    "libsoftgpu.so": r"cu[A-Z]\w*|flyt_environment|"
                     r"softgpu_(last_log|extent|graphs|absences|releases|shut|register_shut|capability|limits|"
                     r"adopt_memory|heap|heap_state|host_view|read|announce|look|module_place|place_heap|place_module|"
                     r"place_object|retire_object|tell_compiled|watch|hold|run)",
    "libflyt-nvrtc.so": r"dlsym|dlopen|l?stat(64)?|__l?xstat(64)?|fstatat(64)?|statx|f?access(at)?|open(at)?(64)?"
                        r"|(__)?(nvrtc|nvvm|nvJitLink)\w+",
    "cricket-client.so": CUDA,
    "cudart/libcudart.so.11.0": CUDA,
    "cudart/libcudart.so.12": CUDA,
    "cudart/libcudart.so.13": CUDA,
    "cudart/libcuda.so.1": r"cu[A-Z]\w*|flyt_libcuda",
    "cudart/libnvidia-ml.so.1": r"nvml[A-Z]\w*",
    "cudart/flyt-nvml": "",
    "flyt-smi": "",
}
PASSED = "vector_add: passed\n0"
SYMBOL = re.compile(r"^[0-9a-f]{16} .{7} (\S+)\s+[0-9a-f]+\s+(\(?[A-Za-z]\S*\)?)?\s+(?:0x\w\w )?(\S+)$")
work = tempfile.mkdtemp(prefix="flyt-alone-")


# ---- what the files say ----

def read(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def symbols(name):
    """[(defined?, version or None, name)] of the dynamic symbols."""
    found = []
    for line in read("objdump", "-T", f"{BIN}/{name}").splitlines():
        if match := SYMBOL.match(line):
            version = (match[2] or "").strip("()")
            found.append((match[1] != "*UND*", None if version in ("", "Base") else version, match[3]))
    return found


@case
def they_need_the_C_library_only():
    for name in EXPORTS:
        needed = set(re.findall(r"NEEDED +(\S+)", read("objdump", "-p", f"{BIN}/{name}")))
        others = needed - C_LIBRARY - {"libflyt-client.so", "libnvidia-ml.so.1"}
        assert needed and not others, f"{name} needs {others}"


@case
def an_old_C_library_has_all_that_they_call():
    for name in EXPORTS:
        for version in re.findall(r"\(?GLIBC_([0-9.]+)", read("objdump", "-T", f"{BIN}/{name}")):
            assert tuple(map(int, version.split("."))) <= OLDEST, f"{name} needs GLIBC_{version}"


@case
def they_export_their_own_names_only():
    for name, pattern in EXPORTS.items():
        exported = {symbol for defined, _, symbol in symbols(name) if defined}
        others = {symbol for symbol in exported if not re.fullmatch(pattern, symbol)}
        assert bool(exported) == bool(pattern) and not others, f"{name} exports {sorted(others)[:10]}"


@case
def what_they_call_is_the_C_librarys_or_ours():
    """A weak symbol without a version would be anybody's."""
    for name in EXPORTS:
        ours = r"flyt_\w+|nvml[A-Z]\w*" if name.endswith(("nvml", "smi")) else r"flyt_\w+"
        program = r"|_ITM_\w+|__gmon_start__" if not EXPORTS[name] else ""
        others = {symbol for defined, version, symbol in symbols(name)
                  if not defined and not version and not re.fullmatch(ours + program, symbol)}
        assert not others, f"{name} calls {sorted(others)[:10]}"


# ---- other programs ----

def run(program, server, **variables):
    done = subprocess.run([f"{BIN}/flyt-run", "--server", server, f"{FOLDER}/{program}"], capture_output=True,
                          text=True, timeout=100, env={**os.environ, **variables})
    return f"{done.stdout}{done.returncode}", done.stderr


def good(done):
    assert done == ("result 42\n0", ""), "\n".join(done)


@case
def functions_of_the_same_names_are_not_called():
    with GpuServer(BIN, "tls://127.0.0.1:0") as there:
        for server in ("local:software", there.uri):
            good(run("taker", server))


@case
def AddressSanitizer_and_no_leaks():
    with GpuServer(BIN, f"unix://{work}/asan.sock") as there:
        for server in ("local:software", there.uri):
            good(run("asan", server))
        output, messages = run("asan-static", there.uri)
        assert output.endswith(PASSED) and not messages, (output, messages)
        # It is to be the first library, and libflyt-nvrtc.so comes before it.
        good(run("asan", there.uri, FLYT_NVRTC="always"))


@case
def ThreadSanitizer_and_no_races():
    """It leaves few addresses to programs: the window is another one."""
    with GpuServer(BIN, f"unix://{work}/tsan.sock") as there:
        for server in ("local:software", there.uri):
            good(run("tsan", server))


def limited(gib, server):
    done = subprocess.run(["prlimit", f"--as={gib << 30}", f"{BIN}/flyt-run", "--server", server, f"{FOLDER}/static"],
                          capture_output=True, text=True, timeout=100)
    return f"{done.stdout}{done.returncode}", done.stderr


@case
def a_limit_on_addresses():
    with GpuServer(BIN, f"unix://{work}/limit.sock") as there:
        for server in ("local:software", there.uri):
            for gib in (24, 400):
                output, messages = limited(gib, server)
                assert output.endswith(PASSED) and not messages, (server, gib, output, messages)
        output, messages = limited(3, there.uri)
        assert "ulimit -v unlimited" in messages and not output.endswith(PASSED), (output, messages)


# ---- images ----

def flyt_into(root):
    """The folder, copied as a user would."""
    for name in (*EXPORTS, "flyt-run"):
        os.makedirs(os.path.dirname(f"{root}/opt/flyt/{name}"), exist_ok=True)
        shutil.copy(f"{BIN}/{name}", f"{root}/opt/flyt/{name}")
    for name in ("static", "static.so", "shared", "shared.so", "musl"):
        shutil.copy(f"{FOLDER}/{name}", f"{root}/opt/{name}")


def inside(root, program, server, *, lacks=()):
    """Runs the program in the image, without the files in `lacks`: (standard output and exit status, messages)."""
    script = "mount -t proc none $0/proc && mount --rbind /dev $0/dev"
    for path in lacks:
        script += f" && mount --bind {work}/nothing $0{path}"
    script += " && exec chroot $0 /opt/flyt/flyt-run --server \"$@\""
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, root, server, program], capture_output=True,
                          text=True, timeout=100)
    return f"{done.stdout}{done.returncode}", done.stderr


def can_make_images():
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        raise Skip("only root can change its root")


def bare_image():
    """The C library, and what the programs (not Flyt) are linked with."""
    can_make_images()
    root = f"{work}/bare"
    if os.path.exists(root):
        return root
    for place in ("proc", "dev", "tmp", "lib64", "lib/x86_64-linux-gnu", "etc"):
        os.makedirs(f"{root}/{place}")
    listing = read("ldd", f"{FOLDER}/static.so")
    paths = set(re.findall(r"(/\S+) \(0x", listing))
    folder = os.path.dirname(next(path for path in paths if path.endswith("/libc.so.6")))
    for path in paths | {f"{folder}/{name}" for name in C_LIBRARY}:
        if os.path.exists(path):
            shutil.copy(path, f"{root}/lib/x86_64-linux-gnu")
    shutil.copy("/lib64/ld-linux-x86-64.so.2", f"{root}/lib64")
    flyt_into(root)
    return root


def all_transports(root):
    for program in ("/opt/static", "/opt/shared"):
        output, messages = inside(root, program, "local:software")
        assert output.endswith(PASSED) and not messages, (program, output, messages)
    with GpuServer(BIN, "tls://127.0.0.1:0") as there:
        output, messages = inside(root, "/opt/static", there.uri)
        assert output.endswith(PASSED) and not messages, (output, messages)


@case
def in_an_image_with_the_C_library_only():
    all_transports(bare_image())


@case
def a_library_that_is_missing_is_named():
    root = bare_image()
    output, messages = inside(root, "/opt/static", "local:software",
                              lacks=["/lib/x86_64-linux-gnu/libanl.so.1"])
    assert not output.endswith(PASSED), output
    first = messages.splitlines()[0]
    assert first.startswith("flyt-run: warning: Flyt's libraries cannot be loaded here"), messages
    assert "libanl.so.1" in first, messages


@case
def an_image_of_musl():
    """There is no glibc, and flyt-run starts all the same."""
    output, messages = inside(bare_image(), "/opt/musl", "local:software", lacks=["/lib64/ld-linux-x86-64.so.2"])
    assert output == "127" and "/opt/musl was built for musl (Alpine Linux)" in messages, (output, messages)
    assert "cannot be loaded here" not in messages, messages


def in_debian(suite):
    def test():
        can_make_images()
        root = f"{work}/{suite}"
        # Releases under development are signed for a few days only, and this machine's clock may be another.
        done = subprocess.run(["mmdebstrap", "--variant=minbase", "--mode=root", suite, root,
                               f"deb [check-valid-until=no] http://deb.debian.org/debian {suite} main"],
                              capture_output=True, text=True)
        if done.returncode:
            raise Skip(f"mmdebstrap cannot make {suite}: {done.stderr.strip().splitlines()[-1:]}")
        flyt_into(root)
        all_transports(root)

    test.__name__ = f"in_an_image_of_{suite}"
    return test


cases += [in_debian(suite) for suite in SUITES]


with open(f"{work}/nothing", "w"):
    pass
sys.exit(only_cases(work))
