#!/usr/bin/env python3
# shows: virtual machine: libvirt understands the definition of docs/vm.md, and makes of it what the page says for QEMU
"""tests/vm/libvirt.py: the definitions of docs/vm.md, given to libvirt (virsh domxml-to-native); TAP on stdout.

A libvirtd of our own runs in namespaces of its own and leaves nothing behind. Exit status 77 where there is none, or
no right to make namespaces.
"""
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/lib"))
from testlib import ok, plan, result, skip_all  # noqa: E402

# Process 1 of the namespace is a shell that waits for orphans: libvirtd waits until they are gone.
INSIDE = """
for folder in /run/libvirt /var/lib/libvirt /var/cache/libvirt /var/log/libvirt /etc/libvirt; do
  mkdir -p "$folder" && mount -t tmpfs none "$folder" || exit 77
done
printf 'unix_sock_dir = "/run/libvirt"\\nauth_unix_rw = "none"\\n' >/run/libvirt/conf
libvirtd --config /run/libvirt/conf --pid-file /run/libvirt/pid --timeout 240 >/run/libvirt/log 2>&1 &
for _ in $(seq 300); do [ ! -S /run/libvirt/libvirt-sock ] || break; sleep 0.1; done
virsh -c qemu:///system domxml-to-native qemu-argv --xml "$1" || { cat /run/libvirt/log >&2; exit 1; }
"""


def definitions():
    with open(os.path.join(TOP, "docs/vm.md")) as file:
        return re.findall(r"```xml\n(<domain.*?</domain>)\n```", file.read(), re.S)


def command_of(definition):
    """What libvirt would start."""
    if not os.path.exists("/dev/kvm"):
        definition = definition.replace("type='kvm'", "type='qemu'").replace("host-passthrough", "maximum")
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
        file.write(definition)
        file.flush()
        words = ["unshare", "-mpf", "--kill-child", "--mount-proc", "bash", "-c", INSIDE, "-", file.name]
        done = subprocess.run(words, capture_output=True, text=True, timeout=280, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr[-3000:]
    return shlex.split(done.stdout)


def objects(words, option):
    """The values of that option that name something: as JSON's text, or with commas."""
    return [words[i + 1] for i, word in enumerate(words) if word == option]


def judge(definition):
    words = command_of(definition)
    name = re.search(r"<shmem name='([^']+)'", definition).group(1)
    size = int(re.search(r"<size unit='M'>(\d+)<", definition).group(1)) << 20
    memory = [value for value in objects(words, "-object") if f"/dev/shm/{name}" in value]
    assert len(memory) == 1 and str(size) in memory[0] and '"share":true' in memory[0], words
    device = [value for value in objects(words, "-device") if "ivshmem-plain" in value]
    backend = re.search(r'"id":"([^"]+)"', memory[0]).group(1)
    assert len(device) == 1 and f'"memdev":"{backend}"' in device[0] and '"master":"on"' in device[0], words
    assert "-no-acpi" not in words, "the guest would have no ACPI"
    assert any("virtio-net-pci" in value for value in objects(words, "-device")), words


def main():
    missing = [tool for tool in ("libvirtd", "virsh", "unshare") if not shutil.which(tool)]
    if missing or os.geteuid() != 0:
        why = f"no {missing[0]} (libvirt-daemon-system, libvirt-clients)" if missing else "only root can"
        return skip_all(why)
    found = definitions()
    assert found, "docs/vm.md has no definition"
    for number, definition in enumerate(found, 1):
        try:
            judge(definition)
            ok(f"definition {number} of docs/vm.md")
        except (AssertionError, subprocess.TimeoutExpired) as problem:
            result(f"definition {number} of docs/vm.md", str(problem) or repr(problem))
    return plan()


if __name__ == "__main__":
    sys.exit(main())
