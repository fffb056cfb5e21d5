"""reader.py: somebody who does what docs/setup.md says, and nothing else, on the boxes.

What a reader does between two commands, without being told each key, is under `hands`: pasting the secret that another
machine has shown, copying certificates from the machine where they were made.
"""
import os
import re
import shutil
import subprocess
import time

import guide
from boxes import USER
from testlib import ok, result

SHOW_SECONDS = 60               # within which a daemon that was started shows what the guide says that it shows


class Reader:
    """folders: where "the sources", "the package" … are on the machines."""

    def __init__(self, boxes, scenario, folders=None):
        self.boxes, self.scenario = boxes, scenario
        self.folders = folders or {}
        self.secret = ""                # the last one that was shown
        self.blocks = guide.read()

    def read(self, *heads, without=(), only=(), but=(), before=None):
        """Executes a part of the guide. Left out are its sub-parts `without` and the blocks whose first line says none
        of `only` or one of `but`. before: {part of a command: what is called ahead of it}. Whether all went well."""
        self.before = before or {}
        good = True
        blocks = [block for block in guide.part(self.blocks, *heads) if not set(without) & set(block.heads)]
        blocks = [block for block in blocks if not only or any(words in block.how for words in only)]
        blocks = [block for block in blocks if not any(words in block.how for words in but)]
        if not blocks:
            raise ValueError(f"docs/setup.md has no such blocks: {heads} {only}")
        for block in blocks:
            for name in block.places:
                if name in self.boxes.all:
                    good = self.do(block, name) and good
        return good

    def do(self, block, name):
        box, where = self.boxes[name], " / ".join(block.heads[1:])
        if block.kind == "conf":
            path = box.path(re.sub("^~", f"/home/{USER}", block.file))
            what = f"{self.scenario}: {where}: {name}: {block.file} is edited"
            try:
                self.edit(path, "\n".join(block.lines))
            except OSError as error:
                result(what, str(error))
                return False
            ok(what)
            return True
        if "logged in again" in block.how:
            box.log_in_again()
        folder = re.search(r"in the folder with (.*)", block.how)
        before = f"cd {self.folders[folder.group(1)]} && " if folder else ""
        commands = list(block.commands())
        for number, command in enumerate(commands):
            expected = block.expected if number == len(commands) - 1 else None
            what = f"{self.scenario}: {where}: {name}: {command.splitlines()[0]}"
            for words, call in self.before.items():
                if words in command:
                    call()
            self.copy_certificates(name, command, self.folders[folder.group(1)] if folder else f"/home/{USER}")
            status, said = self.type(box, before + command, expected)
            before = ""
            self.look(command, said)
            why = f"exit status {status}\n{said}" + ("\nexpected:\n" + "\n".join(expected) if expected else "")
            good = status == 0 and (not expected or guide.matches(expected, said))
            result(what, "" if good else why[-4000:])
            if not good:
                return False
        if folder:
            box.shell().type("cd ~")
        return True

    def type(self, box, command, expected):
        """What is expected of it may take a moment, and somebody would look again."""
        given = self.secret if "/dev/stdin" in command else ""
        end = time.monotonic() + SHOW_SECONDS
        while True:
            status, said = box.shell().type(command, given, 900 if "make" in command else 180)
            if not expected or time.monotonic() > end or (status == 0 and guide.matches(expected, said)):
                return status, said
            time.sleep(0.3)

    @staticmethod
    def edit(path, fragment):
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(guide.edit(text, fragment))

    # ---- hands ----

    def look(self, command, said):
        """Remembers a secret that is shown."""
        if re.search(r"\b(vm|node) add |--new-secret", command) and said:
            self.secret = said.splitlines()[-1]

    def copy_certificates(self, name, command, folder):
        """As with scp, from where they were made: into the folder where the command looks for them."""
        for file in re.findall(r"(?<![\w/.-])([\w.-]+\.(?:crt|key))\b", command) if " install " in command else ():
            made = self.boxes["cluster"].path(f"/etc/flyt/ca/{file}")
            to = os.path.join(self.boxes[name].path(folder), file)
            if os.path.exists(made):
                shutil.copy(made, to)
                os.chmod(to, 0o600)
                subprocess.run(["chroot", self.boxes[name].root, "chown", USER, os.path.join(folder, file)], check=True)
