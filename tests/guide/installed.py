"""installed.py: what must be so on a machine set up by the guide: who may what, config check, units, removal."""

from boxes import USER, until
from checks import CONFIGURATION, DAEMONS, need, ok, show

OTHER = "ben"  # a user of the machine who may not use GPUs


def as_other(box, command, expect):
    return box.run(f"runuser -u {OTHER} -- {command}", expect)


# ---- who may what ----

def lists_nothing(box, folder):
    above = ["/var/lib/flyt/" + name for name in ("cluster", "client", "node", "node/servers")]
    for each in [*above, folder]:
        as_other(box, f"ls {each}", 2)


def reads_nothing(box):
    files = box.run("find /var/lib/flyt /etc/flyt/*.secret -type f").split()
    need(all(any(name.endswith(end) for name in files) for end in ("/keys", "flyt.db", "vm.secret")), files)
    for name in files:
        as_other(box, f"cat '{name}'", 1)


def runs_nothing(box, setting, mentions):
    as_other(box, f"cp /home/{USER}/program /home/{OTHER}/", None)
    said = box.run(f"cd /home/{OTHER} && runuser -u {OTHER} -- env {setting} flyt-run ./program", None)
    need(mentions in said and "passed" not in said, said)


def who_may_what(box):
    """Where a GPU server runs."""
    box.run(f"useradd --create-home {OTHER} && chmod 755 /home/{USER}")
    folder = box.run("ls -d /var/lib/flyt/node/servers/[0-9]*").split()[0]
    ok("another user of the machine lists no folder of the daemons", lists_nothing, box, folder)
    ok("nor reads a file of theirs, or a secret", reads_nothing, box)
    ok("nor uses a GPU server at its socket without a ticket", runs_nothing, box,
       f"FLYT_SERVER=unix://{folder}/own/s", "ticket")
    ok("nor gets one from the client manager", runs_nothing, box, "A=b", "/run/flyt/client-manager.sock")


# ---- config check ----

CLOSE = "chown root:root {0} && chmod 600 {0}"
# What is wrong, whose configuration finds it, how it comes about, what the message has in it, and what mends it where
# the message does not end with the command that does.
WRONG = (
    ("a VM's secret that the daemon cannot read", "client-manager", CLOSE.format("/etc/flyt/vm.secret"),
     "user flyt cannot read /etc/flyt/vm.secret", None),
    ("a node's secret that the daemon cannot read", "cluster-manager", CLOSE.format("/etc/flyt/node.secret"),
     "user flyt cannot read /etc/flyt/node.secret", None),
    ("a secret that everybody can read", "client-manager", "chmod 644 /etc/flyt/vm.secret", "chmod 640",
     "chmod 640 /etc/flyt/vm.secret"),
    ("a folder for the state that the daemon cannot write in", "client-manager", "chown root: /var/lib/flyt/client",
     "user flyt cannot write in the folder /var/lib/flyt/client", "chown flyt: /var/lib/flyt/client"),
    ("a resource DB that the daemon cannot write", "cluster-manager", "chown root: /var/lib/flyt/cluster/flyt.db",
     "user flyt cannot read and write", "chown flyt: /var/lib/flyt/cluster/flyt.db"),
    ("a configuration that the daemon cannot read", "client-manager", "chmod 600 /etc/flyt/client-manager.conf",
     "cannot be read by user flyt", "chmod 644 /etc/flyt/client-manager.conf"),
    ("a group that does not exist", "client-manager", "sed -i 's/flyt-users/no-such/' /etc/flyt/client-manager.conf",
     "no group 'no-such'", "sed -i 's/no-such/flyt-users/' /etc/flyt/client-manager.conf"),
    ("folders that are missing", "cluster-manager", "mv /run/flyt /run/kept", "systemd-tmpfiles",
     "mv /run/kept /run/flyt"),
)


def remedy(said):
    """The command that a message ends with."""
    return said[said.rindex("chgrp "):].splitlines()[0]


def finds(box, daemon, spoil, mentions, mend):
    box.run(spoil)
    said = box.run(f"flytctl config check {CONFIGURATION[daemon]}", 10)
    box.run(mend or remedy(said))
    need(mentions in said, said)
    box.run(f"flytctl config check {CONFIGURATION[daemon]}")


def finds_certificates(box):
    check = f"flytctl config check {CONFIGURATION['cluster-manager']}"
    box.run("flytctl ca create /root/ca && flytctl ca issue /root/ca cluster c")
    box.run("cd /root/ca && install -m 600 -t /etc/flyt/tls ca.crt cluster.crt cluster.key")
    box.run("chown root: /etc/flyt/tls/*")
    try:
        said = box.run(check, 10)
        need("user flyt cannot read /etc/flyt/tls/ca.crt" in said, said)
        box.run("chmod 644 /etc/flyt/tls/*.crt")
        said = box.run(check, 10)
        need("user flyt cannot read /etc/flyt/tls/cluster.key" in said, said)
        box.run(remedy(said))
        box.run(check)
        box.run("flytctl ca issue /root/ca cluster c --out /etc/flyt/tls --force --days 3")
        said = box.run(check)
        need("expires in " in said, said)
    finally:
        box.run("rm -rf /root/ca /etc/flyt/tls/*")


def tells_others(box):
    said = as_other(box, "flytctl config check " + " ".join(CONFIGURATION.values()), 0)
    need("checked as user ben, but the daemon runs as flyt" in said and "cannot read /etc/flyt/vm.secret" in said, said)
    said = as_other(box, f"flytctl config check --user flyt {CONFIGURATION['client-manager']}", 4)
    need("only root" in said, said)


def config_check(box):
    for what, *arguments in WRONG:
        ok(f"config check finds {what}", finds, box, *arguments)
    ok("config check finds certificates that the daemon cannot read or that soon expire", finds_certificates, box)
    ok("config check tells somebody else that it did not check as the daemon's user", tells_others, box)


# ---- units ----

def reload_is_refused(box, daemon):
    pid, path = show(box, daemon, "MainPID"), CONFIGURATION[daemon]
    box.run(f"cp -p {path} /root/kept && echo 'nonsense = 1;' >>{path}")
    try:
        box.run(f"systemctl reload flyt-{daemon}", 1)
        need("nonsense" in box.run(f"journalctl -q -u flyt-{daemon} -n 20"), "the journal does not say why")
        need(show(box, daemon, "MainPID") == pid and show(box, daemon, "ActiveState") == "active", "it does not go on")
    finally:
        box.run(f"cp -p /root/kept {path}")
    box.run(f"systemctl reload flyt-{daemon}")
    need(show(box, daemon, "MainPID") == pid, "it was restarted")


def stays_ended(box, daemon, spoil, mend):
    box.run(f"systemctl stop flyt-{daemon} && {spoil}")
    try:
        box.run(f"systemctl start flyt-{daemon}", 1)
        until(lambda: show(box, daemon, "ActiveState") == "failed", "it has failed", 60)
        need(show(box, daemon, "ExecMainStatus") == "3", show(box, daemon, "ExecMainStatus"))
        need(show(box, daemon, "NRestarts") == "0", show(box, daemon, "NRestarts"))
    finally:
        box.run(mend)
    box.run(f"systemctl reset-failed flyt-{daemon}; systemctl start flyt-{daemon}")


def comes_back(box, daemon):
    pid = show(box, daemon, "MainPID")
    box.run(f"systemctl kill -s KILL --kill-who=main flyt-{daemon}")
    until(lambda: show(box, daemon, "ActiveState") == "active" and show(box, daemon, "MainPID") not in (pid, "0"),
          "it is active again", 60)


def units(box):
    for daemon in DAEMONS:
        ok(f"reload of the {daemon} with a mistake in its configuration fails, and it keeps the old one",
           reload_is_refused, box, daemon)
    ok("a client manager that cannot read its secret is not started again and again", stays_ended, box,
       "client-manager", "chgrp root /etc/flyt/vm.secret", "chgrp flyt /etc/flyt/vm.secret")
    ok("nor is a node manager without its secret", stays_ended, box, "node-manager",
       "mv /etc/flyt/node.secret /root/kept-secret", "mv /root/kept-secret /etc/flyt/node.secret")
    key = "/var/lib/flyt/cluster/ticket.key"
    ok("nor is a cluster manager with a key that it cannot read", stays_ended, box, "cluster-manager",
       f"chown root {key}", f"chown flyt {key}")
    for daemon in DAEMONS:
        ok(f"a {daemon} that was killed comes back", comes_back, box, daemon)


# ---- removal ----

NOT_OURS = ("/proc", "/home", "/root", "/tmp", "/var/log", "/var/cache", "/run/systemd")


def no_process(box):
    left = [command for command in box.processes().values() if "flyt" in command or "cricket" in command]
    need(not [command for command in left if "flyt-run" not in command], left)


def no_unit(box):
    left = box.run("systemctl list-units --all --no-legend 'flyt*'; systemctl list-unit-files 'flyt*'", None)
    need("flyt" not in left, left)


def no_user(box):
    left = box.run("getent passwd; getent group")
    need("flyt" not in left, left)
    left = box.run("find /etc /var /run -xdev \\( -nouser -o -nogroup \\)")
    need(not left, left)


def no_file(box, kept):
    left = box.run("find / -xdev \\( -name '*flyt*' -o -name '*cricket*' \\)").split()
    left = [each for each in left if not each.startswith(NOT_OURS) and not (kept and each.startswith(kept))]
    need(not left, left)


def nothing_left(box, how, purged):
    """After Flyt was taken away; purged: with its state."""
    ok(f"{how}: no daemon and no GPU server runs any more", no_process, box)
    ok(f"{how}: no unit is left", no_unit, box)
    ok(f"{how}: no user or group is left, nor a file of one", no_user, box)
    ok(f"{how}: no file is left" + ("" if purged else " but state and secrets"), no_file, box,
       () if purged else ("/etc/flyt", "/var/lib/flyt"))
