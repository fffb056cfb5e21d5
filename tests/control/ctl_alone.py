#!/usr/bin/env python3
"""tests/control/ctl_alone.py BIN: flytctl and the daemons' options and configurations, without a cluster. Speaks TAP.

shows: flytctl: help, manual, configurations as shipped and with mistakes, hostile peers
"""
import glob
import json
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

from ctl_runner import BIN, CTL, TOP, ctl, environment, path, run, work, write
from testlib import Failed, cluster_config, free_ports, need

EARLIER = ("list-vms", "list-servernodes", "list-virt-servers", "change-config", "inc-resources", "dec-resources",
           "migrate", "migrate-auto", "vm-grouping")
GROUPS = ("vm", "node", "gpu", "server", "comm", "program", "move", "checkpoint", "config", "ca", "key")


def words_that_make_no_sense():
    for arguments in (["frobnicate"], ["vm"], ["vm", "frobnicate"], ["vm", "add"], ["vm", "add", "a", "b"],
                      ["vm", "list", "x"], ["--frobnicate", "status"],
                      ["vm", "add", "-x"], ["vm", "add", "a", "--sms"],
                      ["vm", "add", "a", "--sms", "many", "--memory", "1G"],
                      ["vm", "add", "a", "--sms", "1", "--memory", "1G", "--sms", "2"],
                      ["vm", "add", "a", "--sms", "1", "--memory", "1.5G"],
                      ["vm", "add", "a", "--sms", "-1", "--memory", "1G"],
                      ["vm", "add", "a", "--sms", "1"], ["vm", "add", "../a", "--sms", "1", "--memory", "1G"],
                      ["vm", "add", "a" * 65, "--sms", "1", "--memory", "1G"],
                      ["vm", "add", "a", "--sms", "1", "--memory", "1G", "--sharing", "some"],
                      ["vm", "add", "a", "--sms", "1", "--memory", "1G", "--grouping", "maybe"],
                      ["vm", "set", "a"], ["vm", "set", "a", "--now"],
                      ["vm", "set", "a", "--now", "--host", "n1"], ["vm", "set", "a", "--sms", "2", "--within", "5"],
                      ["vm", "set", "a", "--sms", "2", "--now", "--within", "3601"],
                      ["inc-resources", "-i", "a", "--memory", "1.5G"],
                      ["server", "stop", "x"], ["server", "stop", "0"], ["program", "kill", "-5"],
                      ["top", "-d", "61"], ["--timeout", "0", "status"],
                      ["--manager", "http://x", "status"], ["migrate", "-i", "a"], ["change-config", "-i", "a"],
                      ["change-config", "-s", "1"], ["vm-grouping", "-i", "a"],
                      ["--json=1", "status"], ["vm", "show", ""], ["node", "drain", ""], ["server", "list", "--vm", ""],
                      ["vm", "add", "a", "--sms", "1", "--memory", "268435456"], ["top", "-d", "0"],
                      ["vm-grouping", "-i", "a", "-e", "maybe"]):
        ctl(*arguments, expect=2)
    for arguments in (["usage", "--vm", "n" * 300], ["events", "--node", "n" * 65], ["vm", "show", "n" * 65]):
        ctl(*arguments, expect=2)
        need(" has up to 64 letters, not " in ctl.last.stderr, ctl.last.stderr)
    for address in ("999.1.1.1", "1.2.3", "a-name", "10.0.0.1/24", "1.2.3.4 ", "::g"):
        ctl("vm", "add", "a", "--sms", "1", "--memory", "1G", "--address", address, expect=2)
        need(address in ctl.last.stderr and "IP address" in ctl.last.stderr, ctl.last.stderr)
    for host in ("999.1.1.1", "two words", "-x"):
        ctl("vm", "set", "a", "--host=" + host, expect=2)
    ctl("events", "--kind", "vm-added", "--kind", "foo", expect=2)
    said = ctl.last.stderr
    need("'foo'" in said and "node-lost" in said and "vm-added" in said, said)


def help_for_everything():
    text = ctl("--help")
    need(max(map(len, text.splitlines())) < 80, "help is wider than 79 columns")
    lines = text.split("Commands:")[1].split("Options:")[0].splitlines()
    names = [line.strip() for line in lines if re.match("  [a-z]", line)]
    need(len(names) > 35, f"only {len(names)} commands")
    for line in names:
        first, second = (line.split() + [""])[:2]
        group = first in GROUPS
        shown = ctl(*([first, second] if group else [first]), "--help") if first != "complete" else "Usage"
        need(shown.startswith("Usage: flytctl" if first != "complete" else "Usage"), shown)
        need(max(map(len, shown.splitlines())) < 80, shown)
    today, old = text.split("\nNames of an earlier Flyt:\n")
    old = old.split("Options:")[0]
    among = [name for name in EARLIER if re.search(f"^  {name}\\b", today, re.M)]
    need(not among, f"{among} among others: {today}")
    need(re.findall(r"^  ([a-z-]+)", old, re.M) == list(EARLIER), old)
    need("vm add" not in ctl("help", "node") and "drain" in ctl("help", "node"), "help of a group")
    need(ctl("--version").startswith("flytctl "), "version")
    ctl("help", "frobnicate", expect=2)


def manual_has_everything():
    page = open(os.path.join(TOP, "docs/man/flytctl.1")).read().replace("\\-", "-").replace("\\e", "\\")
    text = ctl("--help")
    for line in text.split("Commands:")[1].split("Options:")[0].splitlines():
        words = line.split()
        if not re.match("  [a-z]", line):
            continue
        group = words[0] in GROUPS
        name = words[:2] if group else words[:1]
        need(re.search(r"^\.B " + " ".join(name) + r"\b", page, re.M), f"the manual lacks {' '.join(name)}")
        if name == ["complete"]:
            continue
        own = ctl(*name, "--help").split("For all commands:")[0]
        section = page.split(".B " + " ".join(name), 1)[1].split("\n.SH", 1)[0]
        for option in re.findall(r"--[a-z-]+", own.split("Options:")[1]) if "Options:" in own else []:
            need(option in section, f"the manual of {' '.join(name)} lacks {option}")
    for option in re.findall(r"^  .{4}(--[a-z-]+)", text.split("Options:")[1], re.M):
        need(option in page, f"the manual lacks {option}")


def manuals_are_well_formed():
    if not shutil.which("man"):
        return "no man here"
    pages = glob.glob(os.path.join(TOP, "docs/man/*.[18]"))
    need(len(pages) >= 4, "pages are missing")
    for page in pages:
        done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page], capture_output=True,
                              text=True,
                              env={**environment, "MANWIDTH": "80", "MANROFFSEQ": ""})
        need(done.returncode == 0 and not done.stderr, f"{page}: {done.stderr}")


def every_kind_of_event_is_known():
    """flytctl refuses --kind with other words than the manager's: its list must have all of them, and no other."""
    kinds = set()
    for source in glob.glob(os.path.join(TOP, "control-managers/cluster-manager/*.c")):
        for call in re.findall(r"cluster_event\(\w[^;]*;", open(source).read()):
            before_format = re.split(r'&which|NULL|about', call.split("ADMIN_", 1)[-1])[0]
            kinds |= set(re.findall(r'"([a-z]+(?:-[a-z]+)*)"', before_format))
    listed = set(re.findall(r'"([a-z-]+)"', open(os.path.join(TOP, "control-managers/common/protocol.c")).read()
                            .split("protocol_event_kinds[] = {")[1].split("};")[0]))
    need(len(kinds) > 30 and kinds == listed, f"in one only: {kinds ^ listed}")


def nobody_there():
    missing = "unix://" + path("nobody.sock")
    ctl("--manager", missing, "status", expect=3)
    need("Is flyt-cluster-manager running there?" in ctl.last.stderr, ctl.last.stderr)
    ctl("--manager", missing, "status", expect=3)
    failure = ctl("--manager", missing, "--json", "status", expect=3)
    need(failure["ok"] is False and failure["error"] == "unreachable" and failure["exit"] == 3 and failure["message"],
         failure)
    ctl("-M", f"tcp://127.0.0.1:{free_ports(1)[0]}", "status", expect=3)


def silent_and_senseless_peers():
    """Who says nothing, and who says nonsense, costs no longer than the time that was given."""
    for answer in (b"", b"HTTP/1.0 400 Bad Request\r\n\r\n" * 4, b"\x80\x00\x00\x04\x00\x00\x00\x01", b"\xff" * 64):
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(4)

        def serve():
            peer, _ = listener.accept()
            peer.settimeout(5)
            try:
                peer.recv(4096)
                peer.sendall(answer)
                peer.recv(4096)
            except OSError:
                pass
            peer.close()
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        started = time.monotonic()
        done = subprocess.run([CTL, "-t", "1", "-M", f"tcp://127.0.0.1:{listener.getsockname()[1]}", "status"],
                              capture_output=True, text=True, env=environment,
                              timeout=20)
        need(done.returncode in (1, 3) and done.stderr, f"{answer[:8]}: exit {done.returncode} {done.stderr}")
        need(time.monotonic() - started < 6, "it took too long")
        listener.close()


def check_configuration(*arguments):
    """The problems of configurations for another machine."""
    ctl("config", "check", "--file-only", *arguments, expect=None)
    need(ctl.last.returncode in (0, 10), ctl.last.stderr)
    return [line for line in ctl.last.stdout.splitlines() if not re.search(r"^note: |: good \(", line)]


def shipped_configurations_are_good():
    ctl("config", "check", "--file-only", *glob.glob(os.path.join(TOP, "configs/*.conf")))
    for daemon in ("cluster-manager", "node-manager", "client-manager", "monitor", "flytctl"):
        text = open(os.path.join(TOP, f"configs/{daemon}.conf")).read()
        keys = ctl("config", "keys", daemon, "--json")
        need(keys and all(each["help"] for each in keys), keys)
        # What is commented out must be true as well, except second values of one key.
        lines, group, live = [], "", set()
        for line in text.splitlines():
            group = line if re.match(r"^[a-z-]+:", line) else group
            if key := re.match(r"^ +([a-z-]+) =", line):
                live.add((group, key.group(1)))
        for line in text.splitlines():
            group = line if re.match(r"^[a-z-]+:", line) else group
            bare = re.match(r"^( *)# ( *([a-z-]+) = .*|[{}];?|(tls|mps|migration|metrics|security|recovery):( {.*)?)$",
                            line)
            if bare and (group, bare.group(3)) not in live:
                live.add((group, bare.group(3))) if bare.group(3) else None
                line = bare.group(1) + bare.group(2)
            lines.append(line)
        ctl("config", "check", "--file-only", write(f"all-{daemon}.conf", "\n".join(lines) + "\n"))
        for each in keys:
            need(re.search(rf"(^|[ {{#]){each['key'].split('.')[1]} =", text, re.M),
                 f"configs/{daemon}.conf says nothing of {each['key']}")
        # What the file says is what holds without it.
        for each in keys:
            group, name = each["key"].split(".")
            said = re.search(rf"^{group}:\s*\n?{{(?:[^}}]*[{{;\n])?\s*{name} = ([^;]*);", text, re.M)
            said = said and "".join(re.findall(r'[^\s"()]', said.group(1)))
            initial = re.sub(r'[\s"]', "", str(each["initial"]))
            if said is not None and each["key"] not in DIFFERENT and not same(said, initial):
                raise Failed(f"configs/{daemon}.conf has {each['key']} = {said}, without it it would be {initial}")


# The installation decides where secrets lie and who may use the socket.
DIFFERENT = ("security.node-secret", "node.secret", "ipc.group", "log.audit")


def same(a, b):
    try:
        return float(a) == float(b)
    except ValueError:
        return a == b


def keys_without_effect_are_refused():
    old = write("old-cluster-manager.conf", 'migration = { ckp-path = "/tmp"; };\nmetrics = { port = 12403; };\n')
    done = subprocess.run([CTL, "config", "check", old], capture_output=True, text=True, env=environment)
    need(done.returncode == 10 and f"{old}:1: migration would have no effect" in done.stdout
         and f"{old}:2: metrics" in done.stdout, done)


def mistakes_are_named_with_file_and_line():
    bad = write("cluster-manager.conf",
                'ports =\n{\n  nod = 12401;\n  client = "x";\n};\nlog = { level = "loud"; };\n'
                'silence = { suspect = 1e9; };\n')
    done = subprocess.run([CTL, "config", "check", bad, "--json"], capture_output=True, text=True, env=environment)
    result = json.loads(done.stdout)[0]
    need(done.returncode == 10 and not result["ok"], done)
    for line, what in ((3, "nod"), (4, "ports.client"), (6, "loud"), (7, "silence.suspect")):
        need(any(each.startswith(f"{bad}:{line}:") and what in each for each in result["problems"]),
             f"line {line}, {what}: {result['problems']}")
    broken = write("node-manager.conf", "node = {\n  name = \n};\n")
    done = subprocess.run([CTL, "config", "check", broken], capture_output=True, text=True, env=environment)
    need(done.returncode == 10 and f"{broken}:3" in done.stdout, done)
    done = subprocess.run([CTL, "config", "check", path("client-manager-none.conf")], capture_output=True, text=True,
                          env=environment)
    need(done.returncode == 10 and "client-manager-none.conf" in done.stdout and "No such file" in done.stdout, done)
    ctl("config", "check", write("strange", ""), expect=2)
    ctl("config", "check", "--daemon", "flytctl", path("strange"))
    secret = write("open.secret", "word", 0o644)
    loose = write("loose-client-manager.conf", f'vm = {{ secret = "file:{secret}"; }};\n')
    done = subprocess.run([CTL, "config", "check", loose], capture_output=True, text=True, env=environment)
    need(done.returncode == 10 and f"{loose}:1" in done.stdout and "chmod" in done.stdout, done)


def daemons_take_the_same_options():
    bad = write("bad-daemon.conf", "nonsense = { };\n")
    for daemon in ("flyt-cluster-manager", "flyt-node-manager", "flyt-client-manager"):
        run = lambda *arguments: subprocess.run([os.path.join(BIN, daemon), *arguments], capture_output=True, text=True,
                                                env=environment, timeout=20)
        need(run("--config", bad).returncode == 3 and "nonsense" in run("-c", bad).stderr,
             f"{daemon} runs with mistakes in its configuration")
        need(run("--check", "-c", path("strange")).returncode == 0, f"{daemon} --check")
        need(run("stray").returncode == 2 and run("--frobnicate").returncode == 2, f"{daemon} takes everything")
        need(run("--print-keys").stdout.startswith(f"# {daemon}:") and run("--version").stdout.startswith(daemon),
             daemon)
        for option in re.findall(r"--[a-z-]+", run("--help").stdout):
            page = open(os.path.join(TOP, f"docs/man/{daemon}.8")).read().replace("\\-", "-")
            need(option in page, f"the manual of {daemon} does not know {option}")


def a_node_that_could_offer_nothing_says_so():
    config = write("mig-node-manager.conf",
                   f'node = {{ gpu = "software"; sharing = ("mig"); state-directory = "{work}/mig"; }};\n')
    done = subprocess.run([os.path.join(BIN, "flyt-node-manager"), "-c", config], capture_output=True, text=True,
                          env=environment, timeout=20)
    need(done.returncode == 1 and "node.sharing allows mig, and the GPUs of this machine offer "
         "exclusive,time-slice,mps only" in done.stderr, done)


def ports_in_use_are_named():
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = taken.getsockname()[1]
        mine = write("taken-cluster-manager.conf", cluster_config(work, (port, free_ports(1)[0]), name="taken"))
        me = pwd.getpwuid(os.geteuid()).pw_name
        done = subprocess.run([CTL, "config", "check", "--user", me, "--ports", mine], capture_output=True, text=True,
                              env=environment)
        need(done.returncode == 10 and f"{mine}:2: ports.node" in done.stdout and str(port) in done.stdout, done)
    ctl("config", "check", "--user", me, "--ports", path("taken-cluster-manager.conf"))
    ctl("config", "check", "--user", "nobody-of-this-name", mine, expect=2)


def without_rights():
    """The socket's folder can be reached, the socket is not for us."""
    if os.geteuid() or not shutil.which("setpriv"):
        return "not root, or no setpriv here"
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        shutil.copy(CTL, folder)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(os.path.join(folder, "c.sock"))
        os.chmod(os.path.join(folder, "c.sock"), 0o600)
        listener.listen()
        done = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", os.path.join(folder, "flytctl"),
                               "--settings",
                               "/dev/null", "-M", f"unix://{folder}/c.sock", "status"], capture_output=True, text=True,
                               timeout=20,
                              env={k: v for k, v in environment.items() if k != "FLYTCTL_SETTINGS"})
        listener.close()
        need(done.returncode == 4 and "Permission denied" in done.stderr and "ipc.frontend-group" in done.stderr, done)


def a_node_manager_without_a_driver():
    config = write("nvidia-node-manager.conf", f'node = {{ gpu = "nvidia"; state-directory = "{work}/nvidia"; }};\n')
    done = subprocess.run([os.path.join(BIN, "flyt-node-manager"), "-c", config], capture_output=True, text=True,
                          timeout=20,
                          env=environment)
    if done.returncode == 0 or "no NVIDIA driver" not in done.stderr:
        return "there is a driver here" if os.path.exists("/dev/nvidia0") else need(False, done)
    need(done.returncode == 1 and "node.gpu is 'nvidia'" in done.stderr and "'software'" in done.stderr, done)


def one_word_for_waiting():
    """in-line and fail, everywhere; the booleans of older files mean the same."""
    for value, good in (('"in-line"', True), ('"fail"', True), ("true", True), ("false", True), ('"maybe"', False),
                        ("1", False)):
        problems = check_configuration(write("wait-cluster-manager.conf", f"placement = {{ wait = {value}; }};\n"))
        need(not problems if good else "placement.wait" in problems[0], f"placement.wait = {value}: {problems}")


TESTS = [
    words_that_make_no_sense, help_for_everything, manual_has_everything, manuals_are_well_formed,
    every_kind_of_event_is_known, nobody_there, silent_and_senseless_peers, shipped_configurations_are_good,
    mistakes_are_named_with_file_and_line, keys_without_effect_are_refused, daemons_take_the_same_options,
    a_node_that_could_offer_nothing_says_so, ports_in_use_are_named, without_rights,
    a_node_manager_without_a_driver, one_word_for_waiting,
]

sys.exit(run(TESTS))
