#!/bin/sh
# shows: installation: one version: every program, the library's log, HELLO and the manual pages say that of the build
# shows: installation: each commit has its own version, which rises, also in an archive; it alone compiles one file
# shows: installation: the changelog has a section for each version, the newest of which is the release
# tests/tools/version.sh BIN: TAP on stdout. The Debian package's version is looked at where one is made (tests/control/install.py).
bin=${1:-bin}
number=0 failed=0
say() { # status name
  number=$((number + 1))
  if [ "$1" = 0 ]; then echo "ok $number - $2"; else echo "not ok $number - $2"; failed=1; fi
}
version=$(control-managers/packaging/version)
case $version in [0-9]*.[0-9]*) ;; *) false ;; esac; say $? "the version of this tree: $version"

# The changelog: Unreleased on top, then versions that fall, the newest of which is the release.
headings=$(sed -n 's/^## //p' CHANGELOG.md)
[ "$(echo "$headings" | head -1)" = Unreleased ]; say $? 'CHANGELOG.md begins with what is not released'
sections=$(echo "$headings" | sed -n 's/^\([0-9][0-9.]*\) ([0-9]\{4\}-[0-9][0-9]-[0-9][0-9])$/\1/p')
[ "$(echo "$sections" | wc -l)" = "$(($(echo "$headings" | wc -l) - 1))" ] &&
  [ "$sections" = "$(echo "$sections" | sort -ruV)" ]
say $? 'CHANGELOG.md: each other section has a version and a date, the newest first'
[ "$(echo "$sections" | head -1)" = "$(sed -n 's/^#define FLYT_RELEASE "\(.*\)"$/\1/p' cpu/common/version.h)" ]
say $? 'CHANGELOG.md: its newest version is the release'

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

# Any second number that somebody writes beside a program's name.
numbers='(Flyt|flytctl|flyt-[a-z-]+|libflyt-client|cricket-rpc-server) [0-9]+\.[0-9.]*[0-9]([+][a-z0-9.]*)?'
other=$(grep -a -o -h -E "$numbers" "$bin"/flyt* "$bin"/cricket-rpc-server "$bin"/*.so "$bin"/cudart/*.so* | sort -u | grep -vF " $version")
[ -z "$other" ]; say $? "no program holds another version${other:+ (but: $other)}"

work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
BIN=$(realpath "$bin") DESTDIR=$work PREFIX=/usr SYSCONFDIR=/etc control-managers/packaging/install ALL 2>/dev/null
for page in docs/man/*.[158]; do
  name=$(basename "$page")
  head -1 "$work/usr/share/man/man${name##*.}/$name" | grep -q "\"Flyt $version\""; say $? "$name, installed, is Flyt $version's"
done
"$work/usr/bin/flyt-local" --version | grep -qF "$version"; say $? "flyt-local, installed, says it too"

# A checkout of its own: commits, a tag, an archive, and neither.
tree=$work/tree
mkdir -p "$tree/control-managers/packaging" "$tree/cpu/common"
cp control-managers/packaging/version* "$tree/control-managers/packaging"
cp .gitattributes "$tree"; cp cpu/common/version.h "$tree/cpu/common"
release=$(sed -n 's/^#define FLYT_RELEASE "\(.*\)"$/\1/p' cpu/common/version.h)
number_of() { "$1/control-managers/packaging/version"; }
in_tree() { GIT_CONFIG_GLOBAL=/dev/null git -C "$tree" -c user.name=t -c user.email=t@t "$@"; }
commit() { GIT_COMMITTER_DATE=$1 in_tree commit -q --allow-empty --date "$1" -m "$1"; }
got=$(number_of "$tree"); [ "$got" = "$release+0.unknown" ]; say $? "without git and without an archive's file: $got"
in_tree init -q && in_tree add . && commit "2031-02-03T04:05:06+0100"
first=$(number_of "$tree"); [ "$first" = "$release+git20310203.030506.$(in_tree rev-parse HEAD | cut -c1-7)" ]
say $? "a commit: $first"
in_tree archive --prefix=archive/ HEAD | tar -xm -C "$work"
got=$(number_of "$work/archive"); [ "$got" = "$first" ]; say $? "what git archive wrote, without git: $got"
# It lies in somebody's checkout: that one's commits are not its own.
mv "$work/archive" "$tree/archive"
commit "2031-02-03T04:05:07+0100"
got=$(number_of "$tree/archive"); [ "$got" = "$first" ]; say $? "the same inside another checkout: $got"
second=$(number_of "$tree"); dpkg --compare-versions "$second" gt "$first"
say $? "a second later it has risen: $second"
dpkg --compare-versions "$first" gt "$release+0.unknown"; say $? "a known commit is newer than an unknown one"
in_tree tag "v$release"; got=$(number_of "$tree"); [ "$got" = "$release" ]; say $? "a tagged release: $got"
dpkg --compare-versions "$first" gt "$release"; say $? "what follows a release is newer"
"$tree/control-managers/packaging/version" --into "$work/kept"; touch -d 2001-01-01 "$work/kept"
"$tree/control-managers/packaging/version" --into "$work/kept"
[ "$(stat -c %Y "$work/kept")" -lt 1000000000 ]; say $? "a file that holds the version is not written again"

# The Makefile believes that the version is another.
# With -n make believes that files which it would only compare are made anew, so what it would do anyway is left out.
${MAKE:-make} -n all >"$work/anyway"
commands=$(${MAKE:-make} -n -W build/version all)
got=$(echo "$commands" | grep -vxFf "$work/anyway" | grep -c -E -- ' -c [^ ]+\.c '); [ "$got" = 1 ]
say $? "another commit compiles one file, not $got"
for program in cricket-rpc-server libflyt-client.so flytctl flyt-node-manager flyt-nvml; do
  echo "$commands" | grep -q -E -- "-o [^ ]*$program( |\$)"; say $? "and links $program"
done
echo "1..$number"
exit $failed
