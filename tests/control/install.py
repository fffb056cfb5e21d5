#!/usr/bin/env python3
"""tests/control/install.py BIN PROGRAM [packages]: make install and uninstall, into folders of their own; units by
systemd-analyze. With `packages`: make deb and deb-client, which take a minute of a processor. PROGRAM: any CUDA
program. Speaks TAP.

shows: installation: what a VM needs alone, as make install-cpu-client and as a Debian package of its own
shows: installation: the package does not install over an installation from source, and says what to do
shows: installation: a program compiles code on the software GPU, installed from source or from the compiler's own
  Debian package; a build without the compiler leaves none of an earlier one behind
shows: installation: a compiler of another build than the software GPU in the process is not used
shows: installation: install, again over changed configurations, uninstall, hardening of the units, the Debian package
"""
import glob
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import Skip, need, only_cases, sanitized  # noqa: E402

BIN, PROGRAM = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGING = os.path.join(TOP, "control-managers/packaging")
work = tempfile.mkdtemp(prefix="flyt-install-")
version = subprocess.run([os.path.join(PACKAGING, "version")], capture_output=True, text=True).stdout.strip()
COMPILER = "libsoftgpu-jit.so"
# No unit may be weaker than this by `systemd-analyze security` (0: nothing can be reached, 10: everything).
EXPOSURE = {"cluster-manager": 20, "client-manager": 25, "node-manager": 60}


def run(*command, expect=0, **environment):
    done = subprocess.run(command, capture_output=True, text=True, timeout=200,
                          env={**os.environ, "BIN": BIN, **environment})
    need(expect is None or done.returncode == expect,
         f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def install(what, root, prefix="/usr", **environment):
    return run(os.path.join(PACKAGING, "install"), what, DESTDIR=root, PREFIX=prefix, **environment)


def files(root):
    return sorted(os.path.relpath(os.path.join(folder, name), root) for folder, _,
                  names in os.walk(root) for name in names)


def everything_is_there_and_works():
    root = os.path.join(work, "root")
    install("ALL", root)
    for name in ("usr/bin/flytctl", "usr/bin/flyt-run", "usr/bin/flyt-local", "usr/bin/cricket-rpc-server",
                 "usr/sbin/flyt-cluster-manager"):
        path = os.path.join(root, name)
        need(os.path.islink(path) and os.access(path, os.X_OK), name)
        run(path, "--help")
    for name in ("etc/flyt/cluster-manager.conf", "usr/lib/systemd/system/flyt-node-manager.service",
                 "usr/lib/sysusers.d/flyt.conf", "usr/lib/tmpfiles.d/flyt.conf",
                 "etc/logrotate.d/flyt", "usr/share/man/man1/flytctl.1", "usr/share/man/man8/flyt-cluster-manager.8",
                 "usr/share/bash-completion/completions/flytctl", "usr/share/bash-completion/completions/flyt-run",
                 "usr/share/zsh/site-functions/_flytctl", "usr/share/fish/vendor_completions.d/flytctl.fish",
                 "usr/libexec/flyt/cudart/libcudart.so.12", "usr/libexec/flyt/libsoftgpu.so"):
        need(os.path.isfile(os.path.join(root, name)), name)
    # What is built is installed, whatever is added.
    for name in files(BIN):
        need(name == "README.md" or os.path.isfile(os.path.join(root, "usr/libexec/flyt", name)),
             f"{name} is not installed")
    for name in files(root):
        path = os.path.join(root, name)
        need(os.path.islink(path) or not os.stat(path).st_mode & (stat.S_IWGRP | stat.S_IWOTH),
             f"{name} can be written by others")
        need(os.path.islink(path) or name.startswith("usr/libexec")
             or not re.search(rb"@[A-Z]+@|" + work.encode(), open(path, "rb").read()), f"{name} has unfilled places")


def needs_compiler():
    if not os.path.exists(os.path.join(BIN, COMPILER)):
        raise Skip("the compiler of the software GPU was not built (llvm-dev)")
    if sanitized(BIN):
        raise Skip("a program that is not built with the sanitizer cannot load its libraries")


def said_with_compiler(root):
    """What an installed program says whose code is to be compiled. Nothing leads to what was built, or to a cache."""
    environment = {"PATH": "/usr/bin:/bin", "FLYT_SOFTGPU_JIT": "always", "FLYT_STATS": "1"}
    done = subprocess.run([os.path.join(root, "usr/bin/flyt-run"), "--server", "local:software", PROGRAM],
                          env=environment, cwd=work, capture_output=True, text=True, timeout=100)
    need(done.returncode == 0, done.stdout + done.stderr)
    return done.stderr


def compiles(root):
    said = said_with_compiler(root)
    regions = re.search(r"^softgpu: compiled (\d+) regions", said, re.M)
    need(regions and int(regions[1]) > 0, said)


def does_not_compile(root, why="there is no compiler"):
    said = said_with_compiler(root)
    need(why in said and "softgpu: compiled" not in said, said)


def a_program_compiles():
    needs_compiler()
    compiles(os.path.join(work, "root"))


def a_compiler_that_an_upgrade_has_put_there():
    """A program that runs meanwhile has the old software GPU. Both contain the hash of the headers that they share."""
    needs_compiler()
    root = os.path.join(work, "upgraded")
    install("ALL", root)
    path, headers = os.path.join(root, "usr/libexec/flyt", COMPILER), hashlib.sha256()
    for name in sorted(name for room in ("", "alu/", "exec/", "ptx/") for name in
                       glob.glob(os.path.join(TOP, f"softgpu/{room}*.h"))):
        with open(name, "rb") as file:
            headers.update(file.read())
    mark = headers.digest()[7::-1]
    with open(path, "rb") as file:
        library = file.read()
    need(library.count(mark) == 1, "the hash of the headers is not in the library once")
    with open(path, "wb") as file:
        file.write(library.replace(mark, mark[::-1]))
    does_not_compile(root, "is of another build")


def a_build_without_the_compiler_replaces_one_with_it():
    needs_compiler()
    root, built = os.path.join(work, "twice"), os.path.join(work, "built")
    install("ALL", root)
    shutil.copytree(BIN, built, symlinks=True, ignore=shutil.ignore_patterns(COMPILER))
    install("ALL", root, BIN=built)
    need(not os.path.exists(os.path.join(root, "usr/libexec/flyt", COMPILER)), "the one of the earlier build is there")
    does_not_compile(root)
    install("UNINSTALL", root)
    need(files(root) == [], files(root))


def the_managers_alone():
    root = os.path.join(work, "managers")
    install("CMGRS", root, prefix="/usr/local")
    there = files(root)
    need("usr/local/bin/flytctl" in there and "usr/local/sbin/flyt-node-manager" in there, there)
    need(not any("cricket" in name or "libcudart" in name for name in there), there)
    unit = open(os.path.join(root, "usr/local/lib/systemd/system/flyt-cluster-manager.service")).read()
    need("ExecStart=/usr/local/sbin/flyt-cluster-manager --config /etc/flyt/" in unit, unit)


CLIENT_HAS = ("usr/bin/flyt-run", "usr/bin/flytctl", "usr/sbin/flyt-client-manager", "etc/flyt/client-manager.conf",
              "usr/lib/udev/rules.d/70-flyt-ivshmem.rules", "usr/libexec/flyt/libflyt-client.so",
              "usr/lib/systemd/system/flyt-client-manager.service", "usr/libexec/flyt/cudart/libcudart.so.13",
              "usr/libexec/flyt/cudart/libcudart.so", "usr/libexec/flyt/cudart/libcuda.so.1",
              "usr/libexec/flyt/cudart/libcuda.so", "usr/libexec/flyt/cudart/libnvidia-ml.so",
              "usr/libexec/flyt/cudart/libnvidia-ml.so.1", "usr/libexec/flyt/cudart/flyt-nvml", "usr/bin/flyt-smi",
              "usr/libexec/flyt/compilers/nvcc", "usr/libexec/flyt/compilers/ptxas-blackwell",
              "usr/libexec/flyt/compilers/compilers.sh", "usr/libexec/flyt/tools/nvidia-smi")
CLIENT_LACKS = ("cluster-manager", "node-manager", "cricket-rpc-server", "softgpu", "flyt-server", "flyt-local")


def the_client_alone():
    root = os.path.join(work, "client")
    install("CLIENT", root)
    there = files(root)
    need(all(name in there for name in CLIENT_HAS), there)
    need(not any(word in name for word in CLIENT_LACKS for name in there), there)


def again_leaves_changed_configurations_alone():
    root = os.path.join(work, "root")
    path = os.path.join(root, "etc/flyt/node-manager.conf")
    with open(path, "a") as out:
        out.write("# mine\n")
    said = install("ALL", root).stderr
    need("left alone" in said and open(path).read().endswith("# mine\n") and os.path.exists(path + ".new"), said)


def uninstall_takes_away_what_was_put():
    root = os.path.join(work, "root")
    foreign = os.path.join(root, "usr/bin/other")
    secret = os.path.join(root, "etc/flyt/node.secret")
    for path in (foreign, secret):
        open(path, "w").close()
    said = install("UNINSTALL", root).stderr
    left = files(root)
    need(left == ["etc/flyt/node-manager.conf", "etc/flyt/node.secret", "usr/bin/other"], f"left: {left}\n{said}")
    need("was changed" in said and not os.path.exists(os.path.join(root, "usr/libexec/flyt")), said)
    need(run(os.path.join(PACKAGING, "install"), "UNINSTALL", expect=1, DESTDIR=root, PREFIX="/usr").stderr, "twice")
    root = os.path.join(work, "managers")
    install("UNINSTALL", root, prefix="/usr/local")
    need(files(root) == [], files(root))
    run(os.path.join(PACKAGING, "install"), "ALL", expect=2, DESTDIR=root, PREFIX="relative")
    run(os.path.join(PACKAGING, "install"), "ALL", expect=2, DESTDIR=root, PREFIX="/a b;c")


def beside_the_package():
    """dpkg says that the package is installed: nothing of what it has, too, is touched. flyt-system only says what it
    is asked for."""
    place = os.path.join(work, "beside")
    commands, calls = os.path.join(place, "commands"), os.path.join(place, "calls")
    os.makedirs(commands)
    for name, text in (("dpkg-query", '[ "$4" = flyt ] && echo "install ok installed"'),
                       ("systemctl", ":"), ("systemd-sysusers", f"echo sysusers >>{calls}"),
                       ("systemd-tmpfiles", f"echo tmpfiles >>{calls}")):
        with open(os.open(os.path.join(commands, name), os.O_WRONLY | os.O_CREAT, 0o755), "w") as out:
            out.write(f"#!/bin/sh\n{text}\n")
    there = {"DESTDIR": "", "PREFIX": f"{place}/usr", "SYSCONFDIR": f"{place}/etc",
             "PATH": f"{commands}:{os.environ['PATH']}"}
    for what in ("ALL", "CMGRS", "CLIENT"):
        said = run(os.path.join(PACKAGING, "install"), what, expect=3, **there).stderr
        need("the package flyt is installed" in said and "make deb" in said, said)
    need(not os.path.exists(calls) and not os.path.exists(f"{place}/usr"), "something was installed")
    # Installed from source before the package came.
    install("ALL", place, prefix="/usr", SYSCONFDIR="/etc")
    with open(f"{place}/usr/libexec/flyt/.installed") as manifest:
        lines = manifest.read()
    with open(f"{place}/usr/libexec/flyt/.installed", "w") as manifest:
        manifest.write(re.sub("^/", f"{place}/", lines, flags=re.M))
    with open(f"{place}/usr/libexec/flyt/flyt-system", "w") as script:
        script.write(f'#!/bin/sh\necho "$1" >>{calls}\n')
    said = run(os.path.join(PACKAGING, "install"), "UNINSTALL", PURGE="1", **there).stderr
    need("belong to the package flyt and stay" in said and not os.path.exists(calls), said)
    need(os.path.exists(f"{place}/etc/flyt/node-manager.conf"), said)
    need(not os.path.exists(f"{place}/usr/libexec/flyt"), said)


def a_package_over_an_installation_from_source():
    """What dpkg runs before it puts the package there."""
    script = os.path.join(PACKAGING, "debian/preinst")
    for prefix in ("/usr/local", "/usr"):
        root = os.path.join(work, "over" + prefix.replace("/", "-"))
        run("sh", script, "install", DPKG_ROOT=root)
        install("ALL", root, prefix=prefix)
        said = run("sh", script, "install", expect=1, DPKG_ROOT=root).stderr
        need(f"make uninstall PREFIX={prefix}'" in said and "Secrets and state stay" in said, said)
        run("sh", script, "upgrade", "1.0", DPKG_ROOT=root)
        install("UNINSTALL", root, prefix=prefix)
        run("sh", script, "install", DPKG_ROOT=root)


def units():
    """Their programs are looked for in the test's root: systemd-analyze wants to find them."""
    if not shutil.which("systemd-analyze"):
        return "no systemd-analyze here"
    root = os.path.join(work, "units")
    install("ALL", root)
    for name, most in EXPOSURE.items():
        text = open(os.path.join(root, f"usr/lib/systemd/system/flyt-{name}.service")).read()
        path = os.path.join(work, f"flyt-{name}.service")
        with open(path, "w") as out:
            out.write(re.sub(r"^(Exec\w+=\+?)/usr/", rf"\1{root}/usr/", text, flags=re.M))
        done = run("systemd-analyze", "verify", "--man=no", path, expect=None)
        # Folders above a temporary one may be writable by everyone, which it dislikes; all else counts.
        problems = [line for line in (done.stdout + done.stderr).splitlines() if f"flyt-{name}" in line]
        need(done.returncode == 0 and not problems, f"{name}: {done.returncode} {problems}")
        run("systemd-analyze", "security", "--offline=true", f"--threshold={most}", path)


def users_and_folders():
    if not shutil.which("systemd-sysusers") or os.geteuid() != 0:
        return "no systemd-sysusers, or not root"
    root = os.path.join(work, "units")
    # Whoever may not write there is not asked to.
    os.makedirs(os.path.join(root, "etc"), exist_ok=True)
    for name in ("passwd", "group", "shadow", "gshadow"):
        open(os.path.join(root, "etc", name), "w").close()
    run("systemd-sysusers", f"--root={root}", "flyt.conf")
    need(re.search(r"^flyt:.*:/usr/sbin/nologin$", open(os.path.join(root, "etc/passwd")).read(), re.M), "no user flyt")
    run("systemd-tmpfiles", f"--root={root}", "--create", "flyt.conf")
    for name, mode in (("run/flyt", 0o1775), ("var/lib/flyt", 0o755), ("var/lib/flyt/node", 0o711),
                       ("etc/flyt", 0o2755), ("etc/flyt/tls", 0o2755), ("var/lib/flyt/client", 0o700),
                       ("var/lib/flyt/cluster", 0o700)):
        status = os.stat(os.path.join(root, name))
        need(stat.S_IMODE(status.st_mode) == mode, f"{name}: {status.st_mode:o}")


def first_start_makes_the_secret_once():
    folder = os.path.join(work, "etc")
    script = os.path.join(PACKAGING, "flyt-first-start")
    if os.geteuid() != 0:
        return "not root"
    run(script, FLYT_ETC=folder)
    path = os.path.join(folder, "node.secret")
    secret = open(path).read()
    need(re.fullmatch(r"[0-9a-f]{64}", secret) and stat.S_IMODE(os.stat(path).st_mode) == 0o640, secret)
    run(script, FLYT_ETC=folder)
    need(open(path).read() == secret, "it was made anew")


def log_rotation():
    if not shutil.which("logrotate"):
        return "no logrotate here"
    rules = os.path.join(work, "logrotate.conf")
    with open(rules, "w") as out:
        out.write(open(os.path.join(PACKAGING, "flyt.logrotate")).read().replace("/var/lib/flyt", work))
    done = run("logrotate", "-d", "-s", os.path.join(work, "state"), rules)
    need("error" not in done.stderr.lower(), done.stderr)


def needs_packaging():
    for tool in ("dpkg-deb", "dpkg-shlibdeps", "lintian"):
        if not shutil.which(tool):
            raise Skip(f"no {tool} here")
    if sanitized(BIN):
        raise Skip("a build with a sanitizer is never packaged")


def without_findings(package):
    done = run("lintian", "--allow-root", "--fail-on", "error,warning", package, expect=None)
    need(done.returncode == 0 and not re.search(r"^[EW]: ", done.stdout, re.M), done.stdout + done.stderr)


def a_debian_package_of_the_client():
    needs_packaging()
    package = run(os.path.join(PACKAGING, "make-deb"), BIN, work, "client").stdout.strip()
    depends = run("dpkg-deb", "-f", package, "Depends").stdout
    need(run("dpkg-deb", "-f", package, "Package").stdout.strip() == "flyt-client", package)
    need("libtirpc3" in depends and not re.search("mongoc|sqlite|cuda|nvidia", depends), depends)
    root = os.path.join(work, "client-deb")
    run("dpkg-deb", "-x", package, root)
    need(not any(word in name for word in CLIENT_LACKS for name in files(root)), files(root))
    without_findings(package)


def a_debian_package_of_the_compiler():
    """It and what it needs are installed by hand in tests/guide."""
    needs_packaging()
    needs_compiler()
    package = run(os.path.join(PACKAGING, "make-deb"), BIN, work, "compiler").stdout.strip()
    name, depends = (run("dpkg-deb", "-f", package, field).stdout.strip() for field in ("Package", "Depends"))
    need(name == "flyt-softgpu-compiler" and f"flyt (= {version})" in depends and "libllvm" in depends, depends)
    root = os.path.join(work, "deb")
    does_not_compile(root)
    before = files(root)
    run("dpkg-deb", "-x", package, root)
    compiles(root)
    more = [name for name in files(root) if name not in before and not name.startswith("usr/share/doc/")]
    need(more == ["usr/libexec/flyt/" + COMPILER], more)
    without_findings(package)


def a_debian_package():
    needs_packaging()
    package = run(os.path.join(PACKAGING, "make-deb"), BIN, work).stdout.strip()
    depends = run("dpkg-deb", "-f", package, "Depends").stdout
    need(run("dpkg-deb", "-f", package, "Version").stdout.strip() == version and f"_{version}_" in package, package)
    need(all(name in depends for name in ("libuv1", "libsqlite3-0", "passwd")) and "libmongoc" in depends
         and "flyt" not in depends and "llvm" not in depends, depends)
    # Its name has a number that is another one in each release of Debian.
    need("libconfig" not in depends, depends)
    root = os.path.join(work, "deb")
    run("dpkg-deb", "-x", package, root)
    there = files(root)
    need("usr/share/man/man1/flytctl.1.gz" in there and "usr/libexec/flyt/.installed" not in there, there)
    etc = os.path.join(root, "etc/flyt")
    configurations = [os.path.join(etc, name) for name in os.listdir(etc)]
    run(os.path.join(root, "usr/bin/flytctl"), "config", "check", "--file-only", *configurations)
    control = os.path.join(work, "control")
    run("dpkg-deb", "-e", package, control)
    configuration = sorted("/" + name for name in there if name.startswith("etc/"))
    need(sorted(open(os.path.join(control, "conffiles")).read().split()) == configuration, "conffiles")
    for script in ("preinst", "postinst", "prerm", "postrm"):
        run("sh", "-n", os.path.join(control, script))
    without_findings(package)


TESTS = [everything_is_there_and_works, a_program_compiles, a_compiler_that_an_upgrade_has_put_there,
         a_build_without_the_compiler_replaces_one_with_it,
         the_managers_alone, the_client_alone, again_leaves_changed_configurations_alone,
         uninstall_takes_away_what_was_put, beside_the_package,
         a_package_over_an_installation_from_source, units, users_and_folders,
         first_start_makes_the_secret_once, log_rotation]
PACKAGES = [a_debian_package, a_debian_package_of_the_compiler, a_debian_package_of_the_client]
sys.exit(only_cases(work, PACKAGES if sys.argv[3:] == ["packages"] else TESTS))
