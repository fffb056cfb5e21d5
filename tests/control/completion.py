#!/usr/bin/env python3
"""completion.py BIN: what the TAB key does in bash, for each of our commands; TAP on stdout.

shows: completion: commands, options, values, names of the cluster and files, typed into a real bash, zsh and fish

A bash runs on a terminal of its own. A case types a line and TAB, and looks at the line that results, or at the
candidates that are listed. A cluster of one node gives names of VMs, nodes and GPUs. A zsh does the same; fish prints
candidates by itself.
"""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import Local, Skip, plan, run_cases  # noqa: E402

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


# compinit finds _flytctl in $fpath, as it does in an installation.
ZSH_SETUP = f"""PS1='$ '; PATH={BIN}:$PATH; cd {FOLDER}; fpath=({os.path.dirname(SCRIPT)} $fpath)
autoload -Uz compinit; compinit -u -D; unsetopt zle_bracketed_paste; zstyle ':completion:*' list-prompt ''
show-line() {{ print -r -- $'\n'"<line>$BUFFER</line>"; }}; zle -N show-line; bindkey '^T' show-line
bindkey '^U' kill-whole-line; LISTMAX=0; echo re''ady
"""


class Bash:
    def __init__(self, env, command=("bash", "--norc", "--noprofile", "-i"), setup=SETUP):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], command, {**env, "TERM": "dumb", "COLUMNS": "400", "LINES": "200"})
        self.write(setup)
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
    lists(bash, "flyt-run --", "--server", "--stats", "--status")
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


def flytctl_forms(bash):
    lists(bash, "flytctl vm list -o ", "table", "wide", "json", "yaml", "name", "csv", "custom=")
    gives(bash, "flytctl vm list -o custom=NAME:na", "flytctl vm list -o custom=NAME:name")
    gives(bash, "flytctl vm list --sort-by conn", "flytctl vm list --sort-by connected ")
    gives(bash, "flytctl server list --filter restar", "flytctl server list --filter restarts=")
    gives(bash, "flytctl node list --filter state=", "flytctl node list --filter state=up ")
    gives(bash, "flytctl vm list --filter name!=lo", "flytctl vm list --filter name!=local ")
    gives(bash, "flytctl usage --sort-by sm", "flytctl usage --sort-by sm")  # sms, sm_seconds
    gives(bash, "flytctl usage --by node --filter no", "flytctl usage --by node --filter node=")
    gives(bash, "flytctl usage --filter pi", "flytctl usage --filter pi")
    gives(bash, "flytctl server lo", "flytctl server logs ")
    lists(bash, "flytctl server logs --", "--follow", "--tail", "--previous", "--node")
    lists(bash, "flytctl --color ", "auto", "always", "never")
    lists(bash, "flytctl ca issue here ", "cluster", "issuer", "node", "client", "admin", "operator",
          "viewer", "server")
    lists(bash, "flytctl describe ", "vm", "node", "gpu", "server", "program", "move")
    gives(bash, "flytctl describe vm lo", "flytctl describe vm local ")
    gives(bash, "flytctl top prog", "flytctl top programs ")


def in_zsh(bash):
    if not shutil.which("zsh"):
        raise Skip("zsh is not installed")
    zsh = Bash(bash.env, ("zsh", "-f", "-i"), ZSH_SETUP)
    gives(zsh, "flytctl stat", "flytctl status ")
    gives(zsh, "flytctl vm show lo", "flytctl vm show local ")
    gives(zsh, "flytctl vm list -o ya", "flytctl vm list -o yaml ")
    gives(zsh, "flytctl server list --vm=lo", "flytctl server list --vm=local ")
    gives(zsh, "flytctl ca issue here op", "flytctl ca issue here operator ")
    gives(zsh, "flytctl vm import pro", "flytctl vm import program ")
    gives(zsh, "flytctl server list --filter restar", "flytctl server list --filter restarts=")
    gives(zsh, "flytctl node list --filter state=", "flytctl node list --filter state=up ")
    zsh.write("exit\n")
    os.waitpid(zsh.pid, 0)


def in_fish(bash):
    if not shutil.which("fish"):
        raise Skip("fish is not installed")
    script = os.path.join(os.path.dirname(SCRIPT), "flytctl.fish")

    def offers(line, *wanted):
        done = subprocess.run(["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"], cwd=FOLDER,
                              capture_output=True, text=True, timeout=20,
                              env={**bash.env, "PATH": BIN + ":" + os.environ["PATH"], "HOME": FOLDER})
        words = [word.split("\t")[0] for word in done.stdout.splitlines()]
        assert words == list(wanted), f"{line!r}: {words} {done.stderr}"
    offers("flytctl stat", "status")
    offers("flytctl vm s", "set", "show")
    offers("flytctl vm show lo", "local")
    offers("flytctl vm list -o ya", "yaml")
    offers("flytctl server list --vm=lo", "--vm=local")
    offers("flytctl ca issue here op", "operator")
    offers("flytctl vm import pro", "program")
    offers("flytctl ca create fo", "folder/")
    offers("flytctl server list --filter restar", "restarts=")
    offers("flytctl node list --filter state=u", "state=up")


def main():
    cases = [flytctl_commands, flytctl_options, flytctl_values, flytctl_names, flytctl_forms, files, flyt_run,
             flyt_local, the_others, in_zsh, in_fish]
    for name in ("a file.json", "program"):
        with open(os.path.join(FOLDER, name), "w"):
            pass
    os.chmod(os.path.join(FOLDER, "program"), 0o755)
    os.mkdir(os.path.join(FOLDER, "folder"))
    cluster = Local(BIN, os.path.join(FOLDER, "cluster"))
    try:
        env = {**os.environ, "FLYT_CLUSTER": f"unix://{cluster.dir}/run/cluster.sock"}
        bash = Bash(env)
        bash.env = env
        run_cases(cases, lambda test: test(bash))
        bash.write("\x15exit\n")
        os.waitpid(bash.pid, 0)
    finally:
        cluster.down()
        shutil.rmtree(FOLDER, ignore_errors=True)
    return plan()


sys.exit(main())
