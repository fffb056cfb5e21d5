#!/usr/bin/env bash
# flyt-local and folders that somebody else has prepared: local_trust.sh BIN. TAP on stdout.
#
# shows: attacks: a folder prepared by another user: flyt-local ends no process that such a folder names
# shellcheck disable=SC2034 # `status` is looked at by what ok evaluates
set -u
bin=$(readlink -f "$1")
work=$(mktemp -d /tmp/flyt-trust-XXXXXX)
sleep 600 &
victim=$!
clean_up() {
  kill $victim
  # A flyt-local that is not to be trusted may have started a cluster.
  awk '{ print $1 }' "$work"/open/run/*.pid | xargs -r kill
  rm -rf "$work"
} 2>/dev/null
trap clean_up EXIT
count=0
ok() {
  count=$((count + 1))
  if eval "$2"; then echo "ok $count - $1"; else echo "not ok $count - $1"; echo "# $out"; fi
}
run() { out=$("$@" 2>&1); status=$?; }

# A folder that looks like flyt-local's, whose cluster manager is a process of the victim's.
prepare() { # folder
  rm -rf "$1"
  mkdir -p "$1/run" "$1/log" "$1/etc"
  : >"$1/flyt-local"
  echo "$victim $(awk '{ sub(/.*\) /, ""); print $20 }' "/proc/$victim/stat")" >"$1/run/cluster-manager.pid"
  chmod "${2:-700}" "$1"
}
unhurt() { kill -0 $victim 2>/dev/null; }
local_default() { # command: without XDG_RUNTIME_DIR, /tmp being $work
  unshare --user --map-root-user --mount \
    bash -c 'mount --bind "$1" /tmp && shift && unset XDG_RUNTIME_DIR && exec "$@"' - "$work/tmp" "$bin/flyt-local" "$@"
}

prepare "$work/open" 777
run "$bin/flyt-local" down "$work/open"
ok "down: a folder that everybody may write is refused" \
  '[ $status -eq 1 ] && [[ $out == *"others may write in $work/open"* ]]'
ok "and the process that it names lives" unhurt
run "$bin/flyt-local" up "$work/open"
ok "up refuses it too" '[ $status -eq 1 ] && [[ $out == *others* ]]'
run "$bin/flyt-local" status "$work/open"
ok "and status" '[ $status -eq 1 ] && [[ $out == *others* ]]'

if [ "$(id -u)" -eq 0 ]; then
  prepare "$work/foreign"
  chown -R 65534:65534 "$work/foreign"
  run "$bin/flyt-local" down "$work/foreign"
  ok "a folder of another user is refused" '[ $status -eq 1 ] && [[ $out == *"user 65534"* ]]'
  mkdir "$work/home"
  prepare "$work/home/flyt-local"
  chown 65534 "$work/home"
  run env XDG_RUNTIME_DIR="$work/home" "$bin/flyt-local" down
  ok "one in a folder of another user, who could exchange it, is refused" \
    '[ $status -eq 1 ] && [[ $out == *"user 65534"* ]]'
  ok "and the process that they name lives" unhurt
fi

# The test puts a /tmp of its own over the real one, which would hide a checkout that lies there.
if [ "${PWD#/tmp/}" = "$PWD" ] && unshare --user --map-root-user --mount true 2>/dev/null; then
  mkdir -m 1777 "$work/tmp"
  prepare "$work/elsewhere"
  ln -s "$work/elsewhere" "$work/tmp/flyt-local-0"
  run local_default down
  ok "without XDG_RUNTIME_DIR a link in /tmp is refused" '[ $status -eq 1 ] && [[ $out == *link* ]]'
  ok "and the process that it leads to lives" unhurt
  rm "$work/tmp/flyt-local-0"
  prepare "$work/tmp/flyt-local-0" 755
  run local_default down
  ok "of an earlier version's own folder (mode 0755) down is still known" '[ $status -eq 0 ]'
fi
echo "1..$count"
