#!/usr/bin/env python3
"""GPU servers that were taken over, and misbehave on their control socket (share_liar.py); TAP on stdout.

    share_hostile.py BIN PROGRAM [all]

shows: elastic: a GPU server that says nothing, nonsense, too much, or more than it was given does not hold up its
   node manager, and gets nothing
"""
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import elastic          # noqa: E402
from elastic import BIN, MIB, PROGRAM, ok, until          # noqa: E402

LIAR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "share_liar.py")
WAYS = ("flood", "generous", "nonsense", "long", "closes", "silent")[:6 if elastic.ALL else 2]


def processor_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def lies(cluster):
    name = f"{cluster.dir}/etc/node-1.conf"
    with open(name) as file:
        text = file.read()
    for way in WAYS:
        with open(name, "w") as file:
            file.write(text.replace(f'program-path = "{BIN}/cricket-rpc-server";',
                                    f'program-path = "{LIAR}"; program-args = ["{way}"];'))
        cluster.kill("node-1")
        cluster.start()
        cluster.settled()
        program = subprocess.Popen([f"{BIN}/flyt-run", PROGRAM], env={**os.environ, **cluster.place},
                                   stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: [row["state"] for row in cluster.rows("server", "list")] == ["running"], f"{way}: it runs", 20)
        begin = time.monotonic()
        change = cluster.begin("change-config", "-i", "local", "-m", "64", "-s", "2")
        while change.poll() is None:
            looked = time.monotonic()
            assert [row["state"] for row in cluster.rows("node", "list")] == ["up"], way
            assert time.monotonic() - looked < 5 and looked - begin < 12, way
            time.sleep(0.2)
        # Only the generous one says "done"; it has what it was ordered to have, whatever it claims.
        assert (change.returncode == 0) == (way == "generous"), (way, change.communicate())
        row = cluster.rows("server", "list")[0]
        wanted = (2, 64 * MIB) if way == "generous" else (4, 128 * MIB)
        assert (row["sms"], row["memory"]) == wanted and row["sms_granted"] <= 4, (way, row)
        used = processor_seconds(cluster.pid("node-1"))
        assert used < 3, f"{way}: the node manager has used {used} s"
        cluster.run("server", "stop", "--force", str(row["id"]))
        program.kill()
        program.wait()
        until(lambda: not cluster.rows("server", "list"), f"{way}: it is gone", 20)
        ok(f"a server that is {way} on its control socket")


sys.exit(elastic.main(lies))
