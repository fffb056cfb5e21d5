#!/usr/bin/env bash
# shellcheck disable=SC2034 # `status` is looked at by what ok evaluates
# The scripts in mps/ with commands of NVIDIA's that a file stands in for: TAP on stdout.
set -u
work=$(mktemp -d /tmp/flyt-mps-XXXXXX)
trap 'rm -rf "$work"' EXIT
count=0
ok() { count=$((count + 1)); if eval "$2"; then echo "ok $count - $1"; else echo "not ok $count - $1"; echo "# $out"; fi; }
run() { out=$(env PATH="$work/bin:/usr/bin:/bin" CUDA_MPS_PIPE_DIRECTORY="$work/pipe" CUDA_MPS_LOG_DIRECTORY="$work/log" FAKE="$work" "$@" 2>&1); status=$?; }

run mps/status_mps.sh;  ok "no MPS on this machine" '[ $status -eq 3 ]'
run mps/start_mps.sh;   ok "start says so too" '[ $status -eq 3 ]'
mkdir -p "$work/bin"
cat >"$work/bin/nvidia-cuda-mps-control" <<'E'
#!/bin/sh
if [ "${1:-}" = -d ]; then : >"$CUDA_MPS_PIPE_DIRECTORY/control"; exit 0; fi
[ -e "$FAKE/deaf" ] && exit 1
read -r word rest
case $word in
  get_server_list) cat "$FAKE/servers" 2>/dev/null; exit 0 ;;
  get_client_list) cat "$FAKE/clients" 2>/dev/null; exit 0 ;;
  quit) rm -f "$CUDA_MPS_PIPE_DIRECTORY/control" ;;
esac
E
cat >"$work/bin/nvidia-smi" <<'E'
#!/bin/sh
case "$*" in
  *query*) echo "0, Some GPU, $(cat "$FAKE/mode" 2>/dev/null || echo Default)" ;;
  *EXCLUSIVE_PROCESS*) echo Exclusive_Process >"$FAKE/mode" ;;
  *DEFAULT*) rm -f "$FAKE/mode" ;;
esac
E
chmod +x "$work"/bin/*
run mps/status_mps.sh;  ok "it does not run" '[ $status -eq 1 ] && [[ $out == *start_mps.sh* ]]'
run mps/stop_mps.sh;    ok "stopping what does not run" '[ $status -eq 0 ]'
run mps/start_mps.sh;   ok "start" '[ $status -eq 0 ] && [ -e "$work/pipe/control" ]'
run mps/start_mps.sh;   ok "start again changes nothing" '[ $status -eq 0 ] && [[ $out == *already* ]]'
run mps/status_mps.sh;  ok "it runs" '[ $status -eq 0 ]'
echo 42 >"$work/servers"; echo 4711 >"$work/clients"
run mps/stop_mps.sh;    ok "not while it is used" '[ $status -eq 1 ] && [[ $out == *"1 processes"* ]]'
: >"$work/deaf"
run mps/status_mps.sh;  ok "a deaf daemon is noticed" '[ $status -eq 1 ] && [[ $out == *"does not answer"* ]]'
rm "$work/deaf"
run mps/stop_mps.sh --force;  ok "unless forced" '[ $status -eq 0 ] && [ ! -e "$work/pipe/control" ]'
for i in start stop status; do
  run mps/${i}_mps.sh --nonsense;  ok "$i refuses what it does not know" '[ $status -eq 2 ]'
  run mps/${i}_mps.sh --help;      ok "$i explains itself" '[ $status -eq 0 ] && [[ $out == ${i}_mps.sh* ]]'
done
echo "1..$count"
