#!/usr/bin/env python3
"""tests/control/forms.py CANNED [--record]: the forms of flytctl's output, with answers that are always the same
(flytctl_canned.c). --record writes the golden file anew: look at what changed. Speaks TAP.

shows: flytctl: what cannot be printed, to a full disk or a closed stdout, is a failure
shows: attacks: no text in flytctl's CSV is a formula to a spreadsheet
shows: flytctl: tables at 40, 80 and 200 columns, YAML, CSV, names, chosen columns, filters, order, colours, top's keys
"""
import csv
import fcntl
import io
import json
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import Skip, case, need, only_cases, until  # noqa: E402

CTL = os.path.abspath(sys.argv[1])
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "forms.golden")
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith(("FLYT", "CANNED"))}
ENVIRONMENT |= {"LC_ALL": "C.UTF-8", "TZ": "UTC", "TERM": "xterm", "CANNED_NOW": str(int(time.time()) - 5)}
LISTS = ("vm", "node", "gpu", "server", "program", "move")
SHOWN = [[kind, "list"] for kind in LISTS] + [
    ["node", "show", "gpu-1"], ["vm", "show", "alpha"], ["status"], ["events"], ["top", "-n", "1"],
    ["top", "nodes", "-n", "1"], ["describe", "vm", "alpha"], ["describe", "server", "4"],
    ["describe", "program", "101"],
    ["describe", "gpu", "GPU-0a1b2c3d-0000-1111-2222-333344446666"]]
work = tempfile.mkdtemp(prefix="flyt-forms-")


def shown_by(*arguments, expect=0, **variables):
    done = subprocess.run([CTL, *arguments], capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL,
                          env=ENVIRONMENT | variables)
    need(done.returncode == expect, f"{arguments}: exit {done.returncode}, not {expect}\n{done.stdout}{done.stderr}")
    shown_by.stderr = done.stderr
    return done.stdout


class Terminal:
    """flytctl on a terminal of so many columns and rows."""

    def __init__(self, columns, rows, *arguments, **variables):
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        keys = {"stdin": theirs} if rows > 1 else {"stdin": subprocess.DEVNULL}
        self.process = subprocess.Popen([CTL, *arguments], stdout=theirs, stderr=theirs, start_new_session=True,
                                        env=ENVIRONMENT | {"NO_COLOR": "1"} | variables, **keys)
        os.close(theirs)
        self.text = ""

    def read(self, seconds):
        """More of the text; false: there is none in that time, or it has ended."""
        try:
            if select.select([self.ours], [], [], seconds)[0]:
                part = os.read(self.ours, 65536).decode()
                self.text += part.replace("\r", "")
                return bool(part)
        except OSError:
            pass
        return False

    def all(self):
        while self.read(20):
            pass
        return self.text

    def key(self, key):
        os.write(self.ours, key.encode())

    def picture(self, pattern):
        """Waits until the newest picture has this."""
        def newest():
            self.read(0.05)
            return re.search(pattern, self.text.split("\033[H\033[2J")[-1])
        return until(newest, lambda: f"a picture with {pattern!r}: {self.text[-2000:]!r}", 20)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.ours)


def on_terminal(columns, *arguments, **variables):
    terminal = Terminal(columns, 1, *arguments, **variables)
    text = terminal.all()
    code = terminal.process.wait()
    terminal.close()
    need(code == 0, f"{arguments}: exit {code}: {text}")
    return text


def all_tables():
    """What the golden file has."""
    text = ""
    for arguments in SHOWN:
        for columns in (40, 80, 200):
            shown = re.sub(r"\033\[[0-9;?]*[A-Za-z]", "", on_terminal(columns, *arguments))
            text += f"==== {columns}: flytctl {' '.join(arguments)}\n{shown}"
        text += f"==== wide: flytctl {' '.join(arguments)}\n{on_terminal(80, '-o', 'wide', *arguments)}"
    return re.sub(r"\033\[[0-9;?]*[A-Za-z]", "", text)


@case
def tables_are_as_recorded_at_40_80_and_200_columns():
    text = all_tables()
    for block in text.split("==== ")[1:]:
        columns = block.split(":")[0]
        # A column of a number keeps its width, so that very narrow terminals get lines that are too long.
        widest = max(map(len, block.splitlines()[1:]))
        need(columns in ("wide", "40") or widest <= int(columns), f"{widest} columns: {block}")
    with open(GOLDEN) as file:
        golden = file.read()
    for now, then in zip(text.split("==== "), golden.split("==== ")):
        need(now == then, f"now:\n{now}\nrecorded:\n{then}")
    need(text == golden, "another number of tables than recorded; --record writes them")


@case
def yaml_read_back_equals_json():
    try:
        import yaml
    except ImportError:
        raise Skip("python3-yaml is not installed") from None
    names = ["alpha", "yes", "NULL", "0x10", "1e3", "2026-01-02", "- a", "a: b", "#x",
             "'\"\\", "é漢🙂", "~", "=", "<<", "",
             "12:30:45", "1_000", ".inf", "a\u2028b", "tab\there", " blank "]
    for name in names:
        for arguments in SHOWN:
            if "top" in arguments or arguments in (["vm", "show", "alpha"], ["describe", "vm", "alpha"]):
                continue
            text = shown_by(*arguments, "-o", "json", CANNED_NAME=name)
            lines = arguments == ["events"]
            wanted = [json.loads(row) for row in text.splitlines()] if lines else [json.loads(text)]
            # Times are texts in JSON; YAML's own type for them would be taken for unquoted ones.
            found = list(yaml.safe_load_all(shown_by(*arguments, "-o", "yaml", CANNED_NAME=name)))
            need(found == wanted, f"{name!r}, {arguments}: {found}\n{wanted}")
            if name != names[0] and arguments == SHOWN[1]:
                break


@case
def json_is_one_form_of_many():
    need(shown_by("node", "list", "-j") == shown_by("-o", "json", "node", "list") ==
         shown_by("node", "list", "--output=json"), "json")
    need(shown_by("node", "list", "-j", "-o", "name") == "gpu-1\ngpu-2\ngpu-3\n", "the last one counts")
    need(shown_by("server", "list", "-o", "name").split() == ["1", "2", "3", "4"], "names")
    need(shown_by("node", "show", "gpu-2", "-o", "name") == "gpu-2\n", "the name of one")
    shown_by("node", "list", "-o", "xml", expect=2)
    need("table, wide, json" in shown_by.stderr, shown_by.stderr)
    failure = shown_by("node", "show", "nowhere", "-o", "yaml", expect=5)
    need("ok: false" in failure and "error: not-found" in failure and "exit: 5" in failure, failure)


@case
def what_cannot_be_printed_fails():
    for arguments in [[kind, "list"] for kind in LISTS] + [["status"], ["events"], ["--version"], ["help"]]:
        for where in (">&-", ">/dev/full"):
            done = subprocess.run(["sh", "-c", f'"$0" "$@" {where}', CTL, *arguments], capture_output=True, timeout=20,
                                  env=ENVIRONMENT)
            need(done.returncode == 1, f"{arguments} {where}: exit {done.returncode}")


@case
def csv_is_read_back():
    hostile = 'a "b", c\n=1+1'
    for kind in LISTS:
        rows = list(csv.DictReader(io.StringIO(shown_by(kind, "list", "-o", "csv", CANNED_NAME='a "b", c'))))
        wanted = json.loads(shown_by(kind, "list", "-o", "json", CANNED_NAME='a "b", c'))
        need(len(rows) == len(wanted) and rows, rows)
        for found, row in zip(rows, wanted):
            for key, text in found.items():
                value = row[key]
                value = ",".join(value) if isinstance(value, list) else "" if value is None else value
                value = str(value).lower() if isinstance(value, bool) else str(value)
                need(text == value, f"{kind} {key}: {text!r}, not {value!r}")
    need("\n=1" not in shown_by("vm", "list", "-o", "csv", CANNED_NAME=hostile).replace('\n"', ""), "a line of its own")
    for formula in ("=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", '=a,"b"'):
        rows = list(csv.DictReader(io.StringIO(shown_by("vm", "list", "-o", "csv", CANNED_NAME=formula))))
        need(rows[0]["name"] == "'" + formula, rows[0])
    need("memory" not in shown_by("vm", "list", "-o", "csv", "--no-headers"), "titles")
    need(shown_by("events", "-o", "csv").startswith("number,time,severity,kind"), "events")


@case
def columns_are_chosen():
    text = shown_by("server", "list", "-o", "custom=NUMBER:id,VM:vm,BY:transports", "--no-headers")
    need([line.split() for line in text.splitlines()][0] == ["1", "alpha", "tls,tcp"], text)
    text = shown_by("node", "list", "-o", "custom=name,GPUS:gpus.product,nothing:gpus.text", "--filter", "name=gpu-1")
    need(text.splitlines()[0].split() == ["name", "GPUS", "nothing"] and text.count("NVIDIA H100") == 2, text)
    for wrong in ("custom=", "custom=A:", "custom=:name", "custom=A:name,", "custom=A:nonsense", "custom=" + "a," * 20):
        shown_by("node", "list", "-o", wrong, expect=2)
    need(shown_by("events", "-n", "2", "-o", "custom=N:number,K:kind") .split()[-2:] == ["6", "node-lost"], "events")


@case
def rows_are_chosen_and_ordered():
    names = lambda *more, **variables: shown_by("server", "list", "-o", "name", *more, **variables).split()
    need(names("--filter", "vm=alpha") == ["1", "3"], "one")
    need(shown_by("server", "list", "--filter", "vm=none") == "No row matches the filters.\n", "others there are")
    need(shown_by("server", "list", "--filter", "vm=none", "--no-headers") == "", "nothing for scripts")
    need(names("--filter", "vm=alpha", "--filter", "vm=beta") == ["1", "2", "3", "4"], "either")
    need(names("--filter", "vm=alpha", "--filter", "node=gpu-2") == ["3"], "both")
    need(names("--filter", "vm!=alpha", "--filter", "state!=failed") == ["2"], "neither")
    need(names("--filter", "gpu=*5555", "--filter", "silent=no", "--filter", "silent=false") == ["1", "2", "3", "4"],
         "yes")
    need(names("--filter", "transports=tls", "--filter", "restarts=1") == ["4"], "lists")
    need(names("--sort-by", "memory_used") == ["2", "4", "1", "3"], "order")
    need(names("--sort-by", "-memory_used") == ["3", "1", "4", "2"], "reverse")
    need(names("--sort-by", "vm") == ["1", "3", "2", "4"], "stable")
    need(names("--sort-by=-id", CANNED_SERVERS="300") == [str(i) for i in range(300, 0, -1)], "all pages, as numbers")
    for wrong in (["--filter", "vm"], ["--filter", "=x"], ["--filter", "vmm=x"], ["--sort-by", "size"],
                  ["--interval", "2"], ["--count", "3"]):
        shown_by("server", "list", *wrong, expect=2)
    shown_by("server", "list", "--sort-by", "size", CANNED_SERVERS="0", expect=2)
    need("there is no key 'size'" in shown_by.stderr and "memory_used" in shown_by.stderr, shown_by.stderr)
    need(shown_by("server", "list", CANNED_SERVERS="0") == "No GPU server runs.\n", "none")
    shown_by("node", "drain", "gpu-1", "--sort-by", "name", expect=2)


@case
def colours_are_asked_for():
    plain, bright = shown_by("server", "list"), shown_by("server", "list", "--color", "always")
    need("\033" not in plain and "\033[32mrunning\033[0m" in bright and "\033[31mfailed\033[0m" in bright, bright)
    need(re.sub(r"\033\[[0-9]*m", "", bright) == plain, "colours take no room")
    shown = lambda *more, **variables: "\033[32m" in on_terminal(80, "server", "list", *more, **variables)
    need(not shown() and shown(NO_COLOR="") and not shown("--color=never", NO_COLOR=""), "on a terminal")
    need(shown("--color=always") and not shown(NO_COLOR="", TERM="dumb"), "NO_COLOR and TERM")
    need("\033" not in shown_by("server", "list", "--color", "always", "-j"), "JSON has none")
    shown_by("server", "list", "--color", "green", expect=2)


@case
def times_have_a_zone():
    east = {"TZ": "EST+5"}
    need("2025-11-26T09:40:00" in shown_by("events") and "TIME (UTC)" in shown_by("events"), "UTC")
    need("2025-11-26T04:40:00" in shown_by("events", **east) and "TIME (EST)" in shown_by("events", **east), "local")
    text = shown_by("events", "--utc", **east)
    need("2025-11-26T09:40:00" in text and "TIME (UTC)" in text, "--utc")
    need("2025-11-26T09:40:00.000000Z" in shown_by("events", "-j", **east), "JSON")
    count = lambda since, *more: len(shown_by("events", "-j", "--since", since, *more, **east).splitlines())
    need(count("2025-11-26T04:43") == count("2025-11-26T09:43Z") == count("2025-11-26T09:43", "--utc") == 3, "--since")
    need(shown_by("events", "--no-headers").startswith("2025"), "--no-headers")


@case
def pictures_follow_each_other():
    lines = shown_by("server", "list", "-w", "-n", "2", "-d", "1", "-j").splitlines()
    need(len(lines) == 2 and all(len(json.loads(line)) == 4 for line in lines), lines)
    text = shown_by("server", "list", "--watch", "--count=2", "--interval=1", "--no-headers")
    need(len(text.splitlines()) == 9, text)
    documents = shown_by("top", "-n", "2", "-d", "1", "-o", "yaml")
    need(documents.count("---\n") == 2, documents)


@case
def top_has_keys_and_pages():
    top = Terminal(80, 24, "top", "-d", "60", CANNED_SERVERS="300")
    try:
        top.picture("1-19 of 300")
        top.key("\033[6~")
        top.picture("20-38 of 300")
        top.key("\033[F")
        top.picture("282-300 of 300")
        top.key("\033[B")
        top.picture("282-300 of 300")
        top.key("\033[5~\033[A")
        top.picture("262-280 of 300")
        top.key("\033[H")
        top.picture(r"1-19 of 300")
        top.key("sr")
        top.picture(r"SERVER down(.|\n)*")
        need(top.picture(r"\n *300 +beta"), "the largest first")
        top.key("/failed")
        top.picture("/failed")
        top.key("\r")
        top.picture("1-1 of 1 .*only:failed")
        fcntl.ioctl(top.ours, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 80, 0, 0))
        top.key("/\033")
        top.picture("1-7 of 300")
        top.key("q")
        need(top.process.wait(10) == 0, "q ends it")
        top.read(0.2)
        need(top.text.endswith("\033[?25h\033[?1049l"), "the screen is as it was")
    finally:
        top.close()


@case
def top_under_tmux():
    if not shutil.which("tmux"):
        raise Skip("tmux is not installed")
    socket = os.path.join(work, "tmux")
    tmux = lambda *arguments: subprocess.run(["tmux", "-S", socket, "-f", "/dev/null", *arguments], capture_output=True,
                                             text=True, timeout=20, env=ENVIRONMENT | {"CANNED_SERVERS": "300"})
    made = tmux("new-session", "-d", "-x", "100", "-y", "20", "-s", "top", CTL, "top", "-d", "60")
    need(made.returncode == 0, made.stderr)
    screen = lambda: tmux("capture-pane", "-p", "-t", "top").stdout
    try:
        until(lambda: "1-15 of 300" in screen(), screen)
        tmux("send-keys", "-t", "top", "NPage")
        until(lambda: "16-30 of 300" in screen(), screen)
        tmux("resize-window", "-t", "top", "-x", "100", "-y", "30")
        until(lambda: "16-40 of 300" in screen(), screen)
        tmux("send-keys", "-t", "top", "q")
        until(lambda: tmux("list-sessions").returncode != 0, "q ends it")
    finally:
        tmux("kill-server")


@case
def all_about_one_thing():
    text = shown_by("describe", "vm", "alpha", "-n", "1")
    need("Programs" in text and "python3.11" in text and "program-refused" in text and "vm-added" not in text, text)
    need(re.search(r"^Programs +[1-9]", text, re.M) and re.search(r"^GPU servers +[1-9]", text, re.M), text)
    row = json.loads(shown_by("describe", "node", "gpu-1", "-j"))
    need(row["name"] == "gpu-1" and len(row["gpus"]) == 2 and [each["id"] for each in row["servers"]] == [1, 2, 4]
         and [each["kind"] for each in row["events"]] == ["node-joined", "server-started"], row)
    row = json.loads(shown_by("describe", "server", "1", "-j"))
    need([each["id"] for each in row["programs"]] == [100]
         and [each["kind"] for each in row["events"]] == ["server-started"], row)
    need(json.loads(shown_by("describe", "program", "101", "-j"))["moves"][0]["outage_ms"] == 12.625, "moves")
    for wrong, code in ((["cloud", "x"], 2), (["server", "x"], 2), (["server", "99"], 5), (["gpu", "none"], 5),
                        (["node", "nowhere"], 5)):
        shown_by("describe", *wrong, expect=code)


if "--record" in sys.argv:
    with open(GOLDEN, "w") as golden:
        golden.write(all_tables())
    shutil.rmtree(work)
    sys.exit(0)
sys.exit(only_cases(work))
