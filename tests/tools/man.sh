#!/bin/sh
# shows: installation: each command has a manual page that formats and names every option that its --help names
# shows: installation: each daemon's configuration has a manual page with all its keys
# tests/tools/man.sh BIN: TAP on stdout.
bin=${1:-bin}
number=0 failed=0
say() { # status name
  number=$((number + 1))
  if [ "$1" = 0 ]; then echo "ok $number - $2"; else echo "not ok $number - $2"; failed=1; fi
}
for page in docs/man/*.[158]; do
  command=$(basename "${page%.*}")
  lacking=
  for option in $("$bin/$command" --help 2>&1 | grep -o -e '--[a-z][a-z-]*' | sort -u); do
    sed 's/\\-/-/g' "$page" | grep -q -e "$option\\([^a-z-]\\|\$\\)" || lacking="$lacking $option"
  done
  [ -z "$lacking" ]; say $? "$page names every option${lacking:+ (not:$lacking)}"
  if command -v groff >/dev/null; then
    complaints=$(groff -man -ww -z -Tutf8 "$page" 2>&1)
    [ -z "$complaints" ]; say $? "$page formats"
  fi
done
tools/man-keys --check "$bin"; say $? 'the pages of the configurations name all keys (tools/man-keys)'
for program in "$bin"/flyt* "$bin"/cricket-rpc-server; do
  name=$(basename "$program")
  ls docs/man/"$name".[158] >/dev/null 2>&1; say $? "$name has a page"
done
echo "1..$number"
exit $failed
