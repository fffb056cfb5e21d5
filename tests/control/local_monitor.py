#!/usr/bin/env python3
"""flyt-local with a monitor that has nothing to show at first; TAP on stdout.

    local_monitor.py BIN

shows: flyt-local: with --monitor, the cluster is up when the monitor has the cluster manager's first answer
"""
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import Local, ok, story, write  # noqa: E402

BIN = os.path.abspath(sys.argv[1])
MONITOR = """#!/usr/bin/env python3
import http.server

class Page(http.server.BaseHTTPRequestHandler):
    asked = 0

    def do_GET(self):
        Page.asked += 1
        own = f"127.0.0.1:{self.server.server_port}"
        code = 421 if self.headers["Host"] != own else 503 if Page.asked < 4 else 200
        print(self.path, code, flush=True)
        self.send_response(code)
        self.end_headers()

    def log_message(self, *words):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Page)
print(f"http://127.0.0.1:{server.server_port}/", flush=True)
server.serve_forever()
"""


def programs(folder):
    """Those of BIN, with another monitor. flyt-local takes what lies beside it."""
    os.mkdir(folder)
    for name in os.listdir(BIN):
        if name not in ("flyt-local", "flyt-monitor"):
            os.symlink(f"{BIN}/{name}", f"{folder}/{name}")
    shutil.copy(f"{BIN}/flyt-local", folder)
    write(f"{folder}/flyt-monitor", MONITOR, 0o755)
    return folder


def main():
    with tempfile.TemporaryDirectory(prefix="flyt-monitor-") as folder:
        with Local(programs(f"{folder}/bin"), f"{folder}/cluster", "--monitor") as cluster:
            said = cluster.log("monitor")
            assert said.endswith("/metrics 200\n") and said.count("/metrics 503") == 3, said
            ok("up --monitor waits until the monitor has rows")


if __name__ == "__main__":
    sys.exit(story(main))
