#!/usr/bin/env python3
"""tests/nvml/nvml.py BIN PROGRAM NAMES: libnvidia-ml.so.1 and flyt-smi; TAP on stdout.

PROGRAM MIB takes so much device memory and computes without end. NAMES lists the functions that must be exported.

shows: NVML: devices, names, UUIDs, PCI addresses, memory and compute capability are those that CUDA tells
shows: NVML: programs on the GPU with their process ids, their memory and how busy they are; within the VM's limit
shows: NVML: every function of NVIDIA's header is there; one that is not answered returns NVML_ERROR_NOT_SUPPORTED
shows: NVML: a program that uses it gets no child, no signal and no descriptor; it may fork, and use CUDA then
shows: NVML: no GPU server, a server that ends, a fork, a killed program: the right error, and nothing left behind
shows: flyt-smi: the table, all values, chosen fields as CSV, a loop, and errors
shows: flyt-smi: XML as nvidia-smi writes it, dmon, pmon and topo; programs under flyt-run find it as nvidia-smi
"""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from xml.etree import ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cuda"))
import e2e  # noqa: E402
from testlib import case, plan, run_cases, until  # noqa: E402

BIN, PROGRAM, NAMES = (os.path.abspath(path) for path in sys.argv[1:4])
LIBRARY = os.path.join(BIN, "cudart", "libnvidia-ml.so.1")
MIB = 1 << 20
NOT_INITIALISED, INVALID, NOT_SUPPORTED, TOO_SMALL, NO_DRIVER, LOST = 1, 2, 3, 7, 9, 15


class Bed:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="flyt-nvml.")
        self.server = None
        self.start()

    def start(self, **environment):
        self.end()
        self.server = e2e.Server(BIN, "unix", "software", self.folder, environment)
        os.environ["FLYT_SERVER"] = self.server.uri

    def end(self):
        if self.server:
            status, log = self.server.stop()
            assert status == 0, f"the server: {status}\n{log[-1000:]}"
        self.server = None

    @contextlib.contextmanager
    def program(self, mib=100):
        process = subprocess.Popen([f"{BIN}/flyt-run", PROGRAM, str(mib)], stdout=subprocess.PIPE, text=True)
        try:
            assert "running" in process.stdout.readline()
            yield process
        finally:
            process.kill()
            process.wait()

    def asks(self, code, status=0, **environment):
        """What a program of its own prints that does `code` with `nvml`, `one` and `all_of`."""
        done = subprocess.run([sys.executable, "-c", PRELUDE + code], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "LIBRARY": LIBRARY, "BIN": BIN, **environment})
        assert done.returncode == status, f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout.strip()


PRELUDE = """
import ctypes, os, signal, subprocess, sys, time
nvml = ctypes.CDLL(os.environ["LIBRARY"])
class Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gi", ctypes.c_uint), ("ci", ctypes.c_uint)]
class Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]
class Pci(ctypes.Structure):
    _fields_ = [("legacy", ctypes.c_char * 16), ("numbers", ctypes.c_uint * 5), ("bus", ctypes.c_char * 32)]
def good(code):
    assert code == 0, code
def count():
    value = ctypes.c_uint()
    good(nvml.nvmlDeviceGetCount_v2(ctypes.byref(value)))
    return value.value
def device(index=0):
    handle = ctypes.c_void_p()
    good(nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)))
    return handle
def text(function, *arguments):
    out = ctypes.create_string_buffer(96)
    good(function(*arguments, out, 96))
    return out.value.decode()
def memory(handle):
    value = Memory()
    good(nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(value)))
    return value
def processes(handle):
    number, out = ctypes.c_uint(8), (Process * 8)()
    good(nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(number), out))
    return [(out[i].pid, out[i].used) for i in range(number.value)]
def busy(handle):
    value = (ctypes.c_uint * 2)()
    good(nvml.nvmlDeviceGetUtilizationRates(handle, value))
    return value[0]
"""


@case
def every_function_is_there(bed):
    with open(NAMES) as file:
        names = set(file.read().split())
    done = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True)
    there = {line.split()[-1] for line in done.stdout.splitlines()}
    assert names <= there, sorted(names - there)
    assert not [name for name in there if not name.startswith("nvml")], there - names
    said = bed.asks("""
some = ["nvmlDeviceGetTemperature", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetFanSpeed", "nvmlDeviceSetFanSpeed_v2"]
print({getattr(nvml, name)() for name in some}, nvml.nvmlShutdown(),
      nvml.nvmlDeviceGetCount_v2(ctypes.byref(ctypes.c_uint())))
good(nvml.nvmlInit_v2())
print({getattr(nvml, name)(device(), 0, 0) for name in some})
""")
    assert said == f"{{{NOT_INITIALISED}}} {NOT_INITIALISED} {NOT_INITIALISED}\n{{{NOT_SUPPORTED}}}", said


@case
def it_tells_of_devices_what_cuda_tells(bed):
    bed.start(FLYT_SOFTGPU_DEVICES="2")
    said = bed.asks("""
good(nvml.nvmlInit_v2())
cuda = ctypes.CDLL(os.environ["BIN"] + "/cudart/libcuda.so.1")
good(cuda.cuInit(0))
version = [ctypes.c_int(), ctypes.c_int()]
good(nvml.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(version[0])))
good(cuda.cuDriverGetVersion(ctypes.byref(version[1])))
assert version[0].value == version[1].value > 12000
for i in range(2):
    handle, number, total = device(i), ctypes.c_int(), ctypes.c_size_t()
    good(cuda.cuDeviceGet(ctypes.byref(number), i))
    name, bus, uuid = (ctypes.create_string_buffer(96) for _ in range(3))
    good(cuda.cuDeviceGetName(name, 96, number))
    good(cuda.cuDeviceGetPCIBusId(bus, 96, number))
    good(cuda.cuDeviceGetUuid_v2(uuid, number))
    good(cuda.cuDeviceTotalMem_v2(ctypes.byref(total), number))
    assert text(nvml.nvmlDeviceGetName, handle) == name.value.decode()
    assert text(nvml.nvmlDeviceGetUUID, handle).replace("-", "") == "GPU" + uuid.raw[:16].hex()
    pci = Pci()
    good(nvml.nvmlDeviceGetPciInfo_v3(handle, ctypes.byref(pci)))
    assert pci.bus.decode() == "0000" + bus.value.decode().upper(), (pci.bus, bus.value)
    assert memory(handle).total == total.value
    numbers = [ctypes.c_int() for _ in range(4)]
    good(nvml.nvmlDeviceGetCudaComputeCapability(handle, ctypes.byref(numbers[0]), ctypes.byref(numbers[1])))
    good(cuda.cuDeviceGetAttribute(ctypes.byref(numbers[2]), 75, number))
    good(cuda.cuDeviceGetAttribute(ctypes.byref(numbers[3]), 76, number))
    assert [n.value for n in numbers[:2]] == [n.value for n in numbers[2:]]
    for function, key in ((nvml.nvmlDeviceGetHandleByUUID, text(nvml.nvmlDeviceGetUUID, handle)),
                          (nvml.nvmlDeviceGetHandleByPciBusId_v2, bus.value.decode())):
        found = ctypes.c_void_p()
        good(function(key.encode(), ctypes.byref(found)))
        assert found.value == handle.value
def peers(one, other, what):
    status = ctypes.c_uint(99)
    good(nvml.nvmlDeviceGetP2PStatus(device(one), device(other), what, ctypes.byref(status)))
    return status.value
can = ctypes.c_int()
good(cuda.cuDeviceCanAccessPeer(ctypes.byref(can), 0, 1))
assert can.value == 1 and [peers(0, 1, what) for what in range(5)] == [0, 0, 5, 0, 0], can.value
assert nvml.nvmlDeviceGetP2PStatus(device(0), device(1), 5, ctypes.byref(ctypes.c_uint())) == 2
print(count())
""")
    assert said == "2", said


@case
def cuda_visible_devices_is_not_its_matter(bed):
    assert bed.asks("good(nvml.nvmlInit_v2()); print(count())", CUDA_VISIBLE_DEVICES="") == "2"
    bed.start()


@case
def programs_and_what_they_use(bed):
    show = "good(nvml.nvmlInit_v2()); h = device(); print(processes(h), memory(h).used, busy(h))"
    assert bed.asks(show) == "[] 0 0"
    with bed.program(100) as one, bed.program(30) as other:
        def shown():
            rows, used, busy = re.match(r"(\[.*\]) (\d+) (\d+)", bed.asks(show)).groups()
            rows = dict(eval(rows))
            return rows if int(busy) == 100 and int(used) == sum(rows.values()) else None
        rows = until(shown, "the GPU is busy")
        assert set(rows) == {one.pid, other.pid}, rows
        assert 100 * MIB <= rows[one.pid] < 200 * MIB and 30 * MIB <= rows[other.pid] < 100 * MIB, rows
        named = bed.asks(f"good(nvml.nvmlInit_v2()); print(text(nvml.nvmlSystemGetProcessName, {one.pid}))")
        assert named == PROGRAM, named
    until(lambda: bed.asks(show) == "[] 0 0", "nothing is used any more")


@case
def too_little_room_for_all_programs(bed):
    with bed.program(1):
        said = bed.asks("""
good(nvml.nvmlInit_v2())
number = ctypes.c_uint(0)
print(nvml.nvmlDeviceGetComputeRunningProcesses_v3(device(), ctypes.byref(number), None), number.value)
""")
    assert said == f"{TOO_SMALL} 1", said


@case
def the_limit_of_the_tenant_is_all_there_is(bed):
    bed.start(FLYT_TENANT_MEMORY=str(256 * MIB), FLYT_TENANT_LEDGER=f"{bed.folder}/books")
    show = "good(nvml.nvmlInit_v2()); m = memory(device()); print(m.total, m.free + m.used)"
    assert bed.asks(show) == f"{256 * MIB} {256 * MIB}", bed.asks(show)
    bed.start()


@case
def the_program_notices_nothing(bed):
    """No child to wait for, no SIGCHLD, and the end of its pipes is seen while NVML is in use."""
    bed.asks("""
came = []
signal.signal(signal.SIGCHLD, lambda *_: came.append(1))
ends = os.pipe()
os.set_inheritable(ends[1], True)
good(nvml.nvmlInit_v2())
count()
try:
    os.waitpid(-1, os.WNOHANG)
    raise SystemExit("it has a child")
except ChildProcessError:
    pass
os.close(ends[1])
assert os.read(ends[0], 1) == b"" and not came, came
assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()
""")


def helpers(uri):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as environ, open(f"/proc/{pid}/comm") as name:
                if name.read().strip() == "flyt-nvml" and uri.encode() in environ.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


@case
def what_it_starts_ends(bed):
    uri = bed.server.uri
    said = bed.asks("good(nvml.nvmlInit_v2()); good(nvml.nvmlInit_v2()); good(nvml.nvmlShutdown()); print(count()); "
                    "good(nvml.nvmlShutdown()); print(nvml.nvmlShutdown())")
    assert said == f"1\n{NOT_INITIALISED}", said
    bed.asks("good(nvml.nvmlInit_v2()); os.kill(os.getpid(), signal.SIGKILL)", status=-signal.SIGKILL)
    until(lambda: not helpers(uri), "nothing of it is left")


@case
def a_program_forks_and_uses_cuda_in_the_child(bed):
    said = bed.asks("""
good(nvml.nvmlInit_v2())
count()
child = os.fork()
if child == 0:
    cuda = ctypes.CDLL(os.environ["BIN"] + "/cudart/libcuda.so.1")
    code = cuda.cuInit(0)
    os._exit(code or count() != 1)
print(os.waitpid(child, 0)[1], count())
""")
    assert said == "0 1", said


@case
def no_server_and_a_server_that_ends(bed):
    said = bed.asks("print(nvml.nvmlInit_v2(), nvml.nvmlDeviceGetCount_v2(ctypes.byref(ctypes.c_uint())))",
                    FLYT_SERVER="unix:///none")
    assert said == f"{NO_DRIVER} {NOT_INITIALISED}", said
    ask = subprocess.Popen([sys.executable, "-c", PRELUDE + """
good(nvml.nvmlInit_v2())
print(count(), flush=True)
sys.stdin.readline()
print(nvml.nvmlDeviceGetCount_v2(ctypes.byref(ctypes.c_uint())), flush=True)
sys.stdin.readline()
print(count())
"""], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "LIBRARY": LIBRARY, "BIN": BIN})
    assert ask.stdout.readline() == "1\n"
    bed.end()
    time.sleep(0.2)                             # what it has been told is older than what it keeps
    ask.stdin.write("\n")
    ask.stdin.flush()
    said = ask.stdout.readline()
    assert said == f"{LOST}\n", said
    bed.start()
    said, _ = ask.communicate("\n", timeout=30)
    assert said == "1\n", said


@case
def handles_that_are_none(bed):
    said = bed.asks("""
good(nvml.nvmlInit_v2())
print({nvml.nvmlDeviceGetName(ctypes.c_void_p(bad), ctypes.create_string_buffer(96), 96)
       for bad in (0, 8, device().value + 1, device().value + 4)},
      nvml.nvmlDeviceGetHandleByIndex_v2(7, ctypes.byref(ctypes.c_void_p())),
      nvml.nvmlDeviceGetName(device(), ctypes.create_string_buffer(4), 4), nvml.nvmlDeviceGetName(device(), None, 4))
""")
    assert said == f"{{{INVALID}}} {INVALID} {TOO_SMALL} {INVALID}", said


# ---- flyt-smi ----


def smi(*options, status=0):
    done = subprocess.run([f"{BIN}/flyt-smi", *options], capture_output=True, text=True, timeout=60)
    assert done.returncode == status, (options, done.returncode, done.stdout, done.stderr)
    return done.stdout if status == 0 else done.stderr


@case
def smi_shows_tables_and_values(bed):
    with bed.program(100) as process:
        until(lambda: "100%" in smi(), "the GPU is busy")
        lines = smi().splitlines()
        table = [line for line in lines[1:] if line]
        assert {len(line) for line in table} == {91}, "\n".join(lines)
        assert re.search(r"\| +1\d\dMiB / +4096MiB +\| +100% +Default \|", "\n".join(lines)), "\n".join(lines)
        assert re.search(rf"\| +0 .* {process.pid} +C .*/forever +1\d\dMiB \|", "\n".join(lines)), "\n".join(lines)
        assert re.search(rf"Process ID +: {process.pid}", smi("-q")) and "Product Name" in smi("-q")
        assert re.fullmatch(rf"{process.pid}, {PROGRAM}, 1\d\d MiB\n",
                            smi("--query-compute-apps=pid,name,used_memory", "--format=csv,noheader"))
    until(lambda: "No running processes found" in smi(), "the program has gone")
    assert re.fullmatch(r"GPU 0: Flyt software GPU \(UUID: GPU-[0-9a-f-]{36}\)\n", smi("-L"))


@case
def smi_shows_no_name_that_speaks_to_a_terminal(bed):
    name = f"{bed.folder}/a\x1b[31m\nname"
    shutil.copy(PROGRAM, name)
    process = subprocess.Popen([f"{BIN}/flyt-run", name, "1"], stdout=subprocess.PIPE, text=True)
    try:
        assert "running" in process.stdout.readline()
        for options in ((), ("-q",), ("--query-compute-apps=name", "--format=csv,noheader")):
            assert "/a?[31m?name" in smi(*options) and "\x1b" not in smi(*options), smi(*options)
    finally:
        process.kill()
        process.wait()


@case
def smi_answers_queries(bed):
    fields = "--query-gpu=index,name,memory.total,utilization.gpu,temperature.gpu"
    header = "index, name, memory.total [MiB], utilization.gpu [%], temperature.gpu\n"
    row = "0, Flyt software GPU, 4096 MiB, 0 %, [N/A]\n"
    until(lambda: smi(fields, "--format=csv") == header + row, "the answer", 5)
    assert smi(fields, "--format=csv,noheader,nounits") == row.replace(" MiB", "").replace(" %", "")
    uuid = smi("--query-gpu=uuid", "--format=csv,noheader").strip()
    assert smi("-i", uuid, "--query-gpu=index", "--format=csv,noheader") == "0\n"
    process = subprocess.Popen([f"{BIN}/flyt-smi", "--query-gpu=index", "--format=csv", "-l", "1"],
                               stdout=subprocess.PIPE, text=True)
    assert [process.stdout.readline() for _ in range(3)] == ["index\n", "0\n", "0\n"]
    process.kill()
    process.wait()


def nvidia_smi(*options):
    """As a program under flyt-run finds it."""
    done = subprocess.run([f"{BIN}/flyt-run", "sh", "-c", 'exec nvidia-smi "$@"', "sh", *options], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 0, (options, done.returncode, done.stdout, done.stderr)
    return done.stdout


@case
def nvidia_smi_is_found_by_programs(bed):
    assert nvidia_smi("-L") == smi("-L")
    # What GPUtil asks.
    fields = ("index,uuid,utilization.gpu,memory.total,memory.used,memory.free,driver_version,name,gpu_serial,"
              "display_active,display_mode,temperature.gpu")
    values = nvidia_smi(f"--query-gpu={fields}", "--format=csv,noheader,nounits").strip().split(", ")
    assert values[0] == "0" and values[3] == "4096" and values[7:] == ["Flyt software GPU"] + ["[N/A]"] * 4, values


@case
def smi_speaks_xml(bed):
    name = f"{bed.folder}/<a>&\xff\x1b"
    shutil.copy(PROGRAM, name.encode("latin-1"))
    process = subprocess.Popen([f"{BIN}/flyt-run", name.encode("latin-1"), "100"], stdout=subprocess.PIPE, text=True)
    try:
        assert "running" in process.stdout.readline()
        until(lambda: "100%" in smi(), "the GPU is busy")
        log = ElementTree.fromstring(nvidia_smi("-q", "-x"))
        gpu = log.find("gpu")
        assert log.tag == "nvidia_smi_log" and log.findtext("attached_gpus") == "1"
        assert re.fullmatch(r"\d+\.\d+", log.findtext("cuda_version"))
        assert gpu.get("id") == gpu.findtext("pci/pci_bus_id") == "00000000:01:00.0"
        assert gpu.findtext("product_name") == "Flyt software GPU" and gpu.findtext("uuid") in smi("-L")
        assert gpu.findtext("fb_memory_usage/total") == "4096 MiB"
        assert re.fullmatch(r"1\d\d MiB", gpu.findtext("fb_memory_usage/used"))
        assert gpu.findtext("utilization/gpu_util") == "100 %" and gpu.findtext("temperature/gpu_temp") == "N/A"
        running = gpu.findall("processes/process_info")
        assert [p.findtext("pid") for p in running] == [str(process.pid)]
        assert running[0].findtext("process_name").endswith("/<a>&??"), running[0].findtext("process_name")
        assert re.fullmatch(r"1\d\d MiB", running[0].findtext("used_memory"))
    finally:
        process.kill()
        process.wait()


@case
def smi_monitors(bed):
    with bed.program(30) as process:
        until(lambda: "100%" in smi(), "the GPU is busy")
        lines = nvidia_smi("dmon", "-c", "2", "-d", "1").splitlines()
        assert len(lines) == 4 and lines[0].split()[:2] == ["#", "gpu"] and lines[1].split()[:2] == ["#", "Idx"], lines
        column = lines[0].split().index("sm") - 1
        assert [line.split()[0] for line in lines[2:]] == ["0", "0"], lines
        assert lines[2].split()[column] == "100", lines
        lines = nvidia_smi("pmon", "-c", "1").splitlines()
        assert len(lines) == 3, lines
        assert lines[2].split()[:4] + lines[2].split()[-1:] == ["0", str(process.pid), "C", "100", "forever"], lines
    lines = nvidia_smi("topo", "-m").splitlines()
    assert lines[0].split("\t")[:2] == ["", "GPU0"] and lines[1].split("\t")[:2] == ["GPU0", " X "], lines


@case
def smi_says_what_is_wrong(bed):
    assert "-x goes with -q" in smi("-x", status=2)
    assert "number above 0" in smi("dmon", "-c", "none", status=2)
    assert "topo -m" in smi("topo", status=2)
    assert "one of" in smi("pmon", "-L", status=2)
    assert '"nonsense" is not a valid field' in smi("--query-gpu=index,nonsense", "--format=csv", status=2)
    assert "--format=csv is needed" in smi("--query-gpu=index", status=2)
    smi("--nonsense", status=2)
    assert "no such GPU" in smi("-i", "7", status=6)
    server = os.environ["FLYT_SERVER"]
    os.environ["FLYT_SERVER"] = "unix:///none"
    try:
        assert smi(status=9).count("no GPU server answers at unix:///none") == 1
    finally:
        os.environ["FLYT_SERVER"] = server


def main():
    for name in ("CUDA_VISIBLE_DEVICES", "FLYT_LOG", "FLYT_STATS"):
        os.environ.pop(name, None)
    bed = Bed()
    try:
        run_cases(call=lambda test: test(bed))
        bed.end()
    finally:
        shutil.rmtree(bed.folder, ignore_errors=True)
    return plan()


if __name__ == "__main__":
    sys.exit(main())
