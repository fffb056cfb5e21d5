#!/bin/sh
# shows: installation: one version: every program, the library's log and the manual pages say what cpu/common/version.h says
# tests/tools/version.sh BIN: TAP on stdout. The Debian package's version is looked at where one is made (tests/control/install.py).
bin=${1:-bin}
number=0 failed=0
say() { # status name
  number=$((number + 1))
  if [ "$1" = 0 ]; then echo "ok $number - $2"; else echo "not ok $number - $2"; failed=1; fi
}
version=$(sed -n 's/^#define FLYT_VERSION "\(.*\)"$/\1/p' cpu/common/version.h)
case $version in [0-9]*.[0-9]*) ;; *) false ;; esac; say $? "cpu/common/version.h holds a version: $version"

for program in "$bin"/flyt* "$bin"/cricket-rpc-server; do
  name=$(basename "$program")
  got=$("$program" --version 2>&1) && case $got in "$name $version"|"$name $version,"*) ;; *) false ;; esac
  say $? "$name --version: $got"
  "$program" --help 2>&1 | grep -q -e --version; say $? "$name --help names --version"
done
got=$(synthetic_benchmark/bench.py --version 2>&1); [ "$got" = "bench.py, Flyt $version" ]; say $? "bench.py --version: $got"

# What the library in a program logs of itself and of the server.
got=$(FLYT_SERVER=local: FLYT_LOG=info python3 -c \
      "import ctypes; ctypes.CDLL('$bin/cudart/libcudart.so.12').cudaFree(None)" 2>&1)
case $got in *"Flyt $version is connected to local: (Flyt $version, "*) ;; *) false ;; esac; say $? "the library's log: $got"

# What programs say to each other, and any second number that somebody writes beside a program's name.
other=$(grep -a -o -h -E '(Flyt|flytctl|flyt-[a-z-]+|libflyt-client|cricket-rpc-server) [0-9]+\.[0-9.]*[0-9]' "$bin"/flyt* \
        "$bin"/cricket-rpc-server "$bin"/*.so "$bin"/cudart/*.so* | sort -u | grep -v " $version\$")
[ -z "$other" ]; say $? "no program holds another version${other:+ (but: $other)}"

work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
BIN=$(realpath "$bin") DESTDIR=$work PREFIX=/usr SYSCONFDIR=/etc control-managers/packaging/install ALL 2>/dev/null
for page in docs/man/*.[158]; do
  name=$(basename "$page")
  head -1 "$work/usr/share/man/man${name##*.}/$name" | grep -q "\"Flyt $version\""; say $? "$name, installed, is Flyt $version's"
done
"$work/usr/bin/flyt-local" --version | grep -q "$version\$"; say $? "flyt-local, installed, says it too"
echo "1..$number"
exit $failed
