"""changed.py: what must be so on the machines after a change by the guide: TLS, resource DB, version, monitor."""

import re
import shutil
import subprocess
import sys

from boxes import USER, until
from checks import CONFIGURATION, connected, need, show

WHERE = {"cluster-manager": "cluster", "node-manager": "gpu-1", "client-manager": "vm1"}


def refused_without_tls(boxes):
    """A client manager that forgets its certificate."""
    box, path = boxes["vm1"], CONFIGURATION["client-manager"]
    box.run(f"cp -p {path} /root/kept && sed -i '/^tls:/,$d' {path} && systemctl restart flyt-client-manager")
    try:
        said = box.run(f"cd /home/{USER} && runuser -u {USER} -- env FLYT_WAIT=3 flyt-run ./program", None)
        need("the peer wants TLS" in said and "passed" not in said, said)
    finally:
        box.run(f"cp -p /root/kept {path} && systemctl restart flyt-client-manager")
    connected(boxes)


def reload_without_key(box):
    key, pid = "/etc/flyt/tls/vm1.key", show(box, "client-manager", "MainPID")
    box.run(f"chgrp root {key} && systemctl reload flyt-client-manager", 1)
    said = box.run("journalctl -q -u flyt-client-manager -n 20")
    need(f"user flyt cannot read {key}" in said, said)
    box.run(f"chgrp flyt {key} && systemctl reload flyt-client-manager")
    need(show(box, "client-manager", "MainPID") == pid, "it was restarted")


def restored(box):
    names = box.run("flytctl vm list")
    need("vm1" in names and "late" not in names, names)


def has_version(boxes, version):
    """version None: the one that was built here."""
    for daemon, name in WHERE.items():
        box = boxes[name]
        there = box.run("dpkg-query -W -f '${Version}' flyt")
        need((there == version) if version else (there != "99.0"), there)
        need(show(box, daemon, "ActiveState") == "active", f"{daemon} does not run")
        conf = box.run(f"cat {CONFIGURATION[daemon]}")
        need("99.0" not in conf and ('"0.0.0.0"' in conf or '"10.0.0.1"' in conf), conf)
    until(lambda: " up " in boxes["cluster"].run("flytctl node list"), "the node is up", 60)
    connected(boxes)


# ---- the compiler of the software GPU ----

def compiles(box):
    """An installed program that runs on the software GPU in its own process."""
    settings = "FLYT_SOFTGPU_JIT=always FLYT_SOFTGPU_CACHE=off FLYT_STATS=1"
    said = box.run(f"cd /home/{USER} && runuser -u {USER} -- env {settings} flyt-run --server local:software ./program")
    regions = re.search(r"^softgpu: compiled (\d+) regions", said, re.M)
    need("passed" in said and regions and int(regions[1]) > 0, said)


def servers_compile(box):
    """A GPU server of this node, in its sandbox, has opened LLVM and made code: executable memory of no file."""
    def code():
        pids = [pid for pid, command in box.processes().items() if "cricket-rpc-server" in command]
        maps = [line.split(None, 5) for pid in pids for line in box.run(f"cat /proc/{pid}/maps", None).splitlines()]
        files = [part[5] for part in maps if len(part) > 5]
        need(not any("w" in part[1] and "x" in part[1] for part in maps if len(part) > 1), maps)
        return (any("libLLVM" in name for name in files) and any("libsoftgpu-jit.so" in name for name in files)
                and any(len(part) == 5 and "x" in part[1] for part in maps))
    until(code, "a GPU server has made code", 60)


def starts_again(boxes):
    for daemon, name in WHERE.items():
        boxes[name].run(f"systemctl start flyt-{daemon} || {{ journalctl -q -n 30 -u flyt-{daemon}; false; }}")
    connected(boxes)


# ---- the monitor ----

ASK = """import sys, urllib.request
print(urllib.request.urlopen("http://127.0.0.1:12403" + sys.argv[1], timeout=20).read().decode())
"""


def asked(box, path):
    """The text, asked on that machine."""
    command = box.network.command(sys.executable, "-c", ASK, path)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.stdout or done.stderr


def curl(box, path, *words):
    """The status and the text of https://cluster:12403, asked on that machine."""
    ca, name = "/etc/flyt/monitor/ca.crt", "cluster:12403"
    command = box.network.command("curl", "--silent", "--show-error", "--max-time", "20", "--cacert", box.path(ca),
                                  "--resolve", f"{name}:10.0.0.1", "--write-out", "\n%{http_code}", *words,
                                  f"https://{name}{path}")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    text, _, status = done.stdout.rpartition("\n")
    return int(status or 0), text or done.stderr


def monitor_for_others(boxes):
    """From another machine: with the token, with a certificate, and with neither."""
    box, other = boxes["cluster"], boxes["gpu-1"]
    other.run("mkdir -p /etc/flyt/monitor")
    shutil.copy(box.path("/etc/flyt/monitor/ca.crt"), other.path("/etc/flyt/monitor"))
    token = box.run(f"head -n 1 /home/{USER}/token").split()[-1]
    shown = ("--header", f"Authorization: Bearer {token}")
    until(lambda: '"state":"up"' in curl(other, "/api/v1/nodes", *shown)[1], "it shows a node that is up", 60)
    need(curl(other, "/metrics")[0] == 401 and curl(other, "/")[0] == 200, curl(other, "/metrics"))
    pair = ("--cert", box.path("/etc/flyt/monitor/monitor.crt"), "--key", box.path("/etc/flyt/monitor/monitor.key"))
    need(curl(other, "/metrics", *pair)[0] == 200, curl(other, "/metrics", *pair))
    name = curl(other, "/", "--header", "Host: elsewhere")
    need(name[0] == 421, name)
    box.run("rm /etc/flyt/monitor/tokens && install -m 640 -g flyt-monitor /dev/null /etc/flyt/monitor/tokens && "
            "systemctl reload flyt-monitor")
    until(lambda: curl(other, "/metrics", *shown)[0] == 401, "a token that was taken back counts no more", 20)


def monitor_shows(box):
    until(lambda: '"state":"up"' in asked(box, "/api/v1/nodes"), "the monitor shows a node that is up", 60)
    need("flyt_up" in asked(box, "/metrics"), asked(box, "/metrics"))
