"""changed.py: what must be so on the machines after a change by the guide: TLS, resource DB, version, monitor."""

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


def monitor_shows(box):
    until(lambda: '"state":"up"' in asked(box, "/api/v1/nodes"), "the monitor shows a node that is up", 60)
    need("flyt_up" in asked(box, "/metrics"), asked(box, "/metrics"))
