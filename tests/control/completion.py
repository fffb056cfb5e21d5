#!/usr/bin/env python3
"""completion.py BIN: what the TAB key does in bash, for each of our commands; TAP on stdout.

shows: completion: commands, options, values, names of the cluster and files, typed into a real bash

A bash runs on a terminal of its own. A case types a line and TAB, and looks at the line that results, or at the
candidates that are listed. A cluster of one node gives names of VMs, nodes and GPUs.
"""

import os
import pty
import re
import select
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import Local, plan, run_cases  # noqa: E402

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.path.abspath(sys.argv[1])
SCRIPT = os.path.join(TOP, "control-managers/packaging/completion/flytctl.bash")
FOLDER = tempfile.mkdtemp(prefix="flyt-tab-")
# Control-T prints the line; the marks tell output of ours from what is echoed.
SETUP = f"""PS1='$ '; PATH={BIN}:$PATH; . {SCRIPT}; cd {FOLDER}
bind 'set enable-bracketed-paste off'; bind 'set show-all-if-ambiguous on'
bind 'set completion-query-items 0'; bind 'set page-completions off'
bind -x '"\\C-t": printf "\\n<line>%s</line>\\n" "$READLINE_LINE"'
stty -echoctl; echo re''ady
"""


class Bash:
    def __init__(self, env):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execvpe(
                "bash",
                ["bash", "--norc", "--noprofile", "-i"],
                {**env, "TERM": "dumb", "COLUMNS": "400", "LINES": "200"},
            )
        self.write(SETUP)
        self.read_until("ready")

    def write(self, text):
        os.write(self.terminal, text.encode())

    def read_until(self, mark, seconds=20):
        text, end = "", time.monotonic() + seconds
        while mark not in text:
            assert time.monotonic() < end, f"no {mark!r} in {text!r}"
            if select.select([self.terminal], [], [], 0.2)[0]:
                text += os.read(self.terminal, 65536).decode(errors="replace")
        return text.replace("\r", "")

    def tab(self, line):
        """The line behind TAB, and the candidates that were listed."""
        self.write(line + "\t\x14")
        text = self.read_until("</line>")
        result = re.search(r"<line>(.*)</line>", text, re.S).group(1)
        listed = text[: text.index("<line>")].split("\n")[1:]
        self.write("\x15")  # away with it
        return result, [word for row in listed for word in row.split() if not row.startswith("$ ")]


def gives(bash, line, wanted):
    """TAB makes it this line."""
    result, _ = bash.tab(line)
    assert result == wanted, f"{line!r} becomes {result!r}, not {wanted!r}"


def lists(bash, line, *wanted, without=()):
    """TAB lists these, and leaves the line as it is but for what all have in common."""
    result, listed = bash.tab(line)
    assert result.startswith(line), f"{line!r} becomes {result!r}"
    missing = [word for word in wanted if word not in listed]
    assert not missing, f"{line!r} does not list {missing}, but {listed}"
    wrong = [word for word in without if word in listed]
    assert not wrong, f"{line!r} lists {wrong}"


def flytctl_commands(bash):
    gives(bash, "flytctl stat", "flytctl status ")
    lists(bash, "flytctl vm s", "set", "show", without=["list"])
    gives(bash, "flytctl help config c", "flytctl help config check ")
    gives(bash, "flytctl complet", "flytctl complet")


def flytctl_options(bash):
    lists(bash, "flytctl --", "--manager", "--timeout", "--version")
    lists(bash, "flytctl vm set local --", "--sms", "--sharing", "--json")
    gives(bash, "flytctl vm set local --shar", "flytctl vm set local --sharing ")
    lists(bash, "flytctl vm set --sms 2 --", "--memory", without=["--sms"])


def flytctl_values(bash):
    lists(bash, "flytctl vm set local --wait ", "in-line", "fail", "default")
    gives(bash, "flytctl vm set local --wait i", "flytctl vm set local --wait in-line ")
    gives(bash, "flytctl vm set local --wait=i", "flytctl vm set local --wait=in-line ")
    gives(bash, "flytctl vm set local --sharing=ex", "flytctl vm set local --sharing=exclusive ")
    gives(bash, "flytctl vm set local --sharing exclusive,t", "flytctl vm set local --sharing exclusive,time-slice ")
    lists(bash, "flytctl vm set local --grouping o", "on", "off")
    lists(bash, "flytctl events --kind node-", "node-lost", "node-drained")
    gives(bash, "flytctl config keys no", "flytctl config keys node-manager ")
    gives(bash, "flytctl ca issue here cl", "flytctl ca issue here cl")  # client, cluster: nothing more in common
    gives(bash, "flytctl --manager un", "flytctl --manager unix://")


def flytctl_names(bash):
    gives(bash, "flytctl vm show lo", "flytctl vm show local ")
    gives(bash, "flytctl server list --node n", "flytctl server list --node node-1 ")
    gives(bash, "flytctl server list --vm=lo", "flytctl server list --vm=local ")
    gives(bash, "flytctl node drain ", "flytctl node drain node-1 ")
    gives(bash, "flytctl migrate --dst-gpu so", "flytctl migrate --dst-gpu soft-node-1-0 ")
    gives(bash, "flytctl vm show local lo", "flytctl vm show local lo")  # it takes one name


def files(bash):
    gives(bash, "flytctl vm import a", "flytctl vm import a\\ file.json ")
    gives(bash, "flytctl vm add x --secret-file=a", "flytctl vm add x --secret-file=a\\ file.json ")
    gives(bash, f"flytctl --secret file:{FOLDER}/pro", f"flytctl --secret file:{FOLDER}/program ")
    gives(bash, "flytctl ca create f", "flytctl ca create folder/")
    gives(bash, f"flyt-cluster-manager --config {FOLDER}/pro", f"flyt-cluster-manager --config {FOLDER}/program ")


def flyt_run(bash):
    lists(bash, "flyt-run --", "--server", "--stats")
    gives(bash, "flyt-run --server un", "flyt-run --server unix://")
    gives(bash, "flyt-run --server local:so", "flyt-run --server local:software ")
    gives(bash, "flyt-run --server=local:so", "flyt-run --server=local:software ")
    gives(bash, f"flyt-run --server unix://{FOLDER}/pro", f"flyt-run --server unix://{FOLDER}/program ")
    gives(bash, "flyt-run ./pro", "flyt-run ./program ")
    gives(bash, "flyt-run --stats bashb", "flyt-run --stats bashbug ")
    gives(bash, "flyt-run -- ./pro", "flyt-run -- ./program ")
    gives(bash, "flyt-run ./program a", "flyt-run ./program a\\ file.json ")
    gives(bash, "flyt-run ./program --stat", "flyt-run ./program --stat")  # the program's own affair


def flyt_local(bash):
    lists(bash, "flyt-local ", "up", "down", "status")
    lists(bash, "flyt-local up --", "--nodes", "--tls")
    gives(bash, "flyt-local up --gpu s", "flyt-local up --gpu software ")
    gives(bash, "flyt-local up --gpu=s", "flyt-local up --gpu=software ")
    gives(bash, "flyt-local down fo", "flyt-local down folder/")


def the_others(bash):
    lists(bash, "cricket-rpc-server --t", "--tls-key", "--ticket-key")
    gives(bash, "cricket-rpc-server --gpu nv", "cricket-rpc-server --gpu nvidia ")
    lists(bash, "cricket-rpc-server --listen ", "unix://", "tcp://", without=["local:"])
    lists(bash, "flyt-node-manager --", "--config", "--check")


def main():
    cases = [flytctl_commands, flytctl_options, flytctl_values, flytctl_names, files, flyt_run, flyt_local, the_others]
    for name in ("a file.json", "program"):
        with open(os.path.join(FOLDER, name), "w"):
            pass
    os.chmod(os.path.join(FOLDER, "program"), 0o755)
    os.mkdir(os.path.join(FOLDER, "folder"))
    cluster = Local(BIN, os.path.join(FOLDER, "cluster"))
    try:
        bash = Bash({**os.environ, "FLYT_CLUSTER": f"unix://{cluster.dir}/run/cluster.sock"})
        run_cases(cases, lambda test: test(bash))
        bash.write("\x15exit\n")
        os.waitpid(bash.pid, 0)
    finally:
        cluster.down()
        shutil.rmtree(FOLDER, ignore_errors=True)
    return plan()


sys.exit(main())
