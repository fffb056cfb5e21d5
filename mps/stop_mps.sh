#!/usr/bin/env bash
# stop_mps.sh [--force]: stops the MPS of this user's CUDA_MPS_PIPE_DIRECTORY (default /tmp/nvidia-mps), and sets the GPUs' compute
# mode back to DEFAULT (root).
#
# Refuses while GPU servers use it, unless --force is given: their programs lose their sessions then.
# Exit status: 0 it does not run any more, 1 it could not be stopped, or is in use, 2 wrong usage.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
force=
case ${1:-} in
  '') ;;
  --force) force=yes ;;
  -h|--help) sed -n '2,6p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;;
  *) echo "stop_mps.sh: unknown argument '$1' (see --help)" >&2; exit 2 ;;
esac
export CUDA_MPS_PIPE_DIRECTORY=${CUDA_MPS_PIPE_DIRECTORY:-/tmp/nvidia-mps}
if ! "$here/status_mps.sh" >/dev/null 2>&1; then
  echo "MPS does not run in $CUDA_MPS_PIPE_DIRECTORY"
  exit 0
fi
control() { echo "$1" | timeout 10 nvidia-cuda-mps-control; }
clients=0
for server in $(control get_server_list); do
  n=$(control "get_client_list $server" | grep -c '^[0-9]' || true)
  clients=$((clients + n))
done
if [ "$clients" -gt 0 ] && [ -z "$force" ]; then
  echo "stop_mps.sh: $clients processes use it; drain the node first (flytctl node drain), or give --force" >&2
  exit 1
fi
if [ -n "$force" ]; then control "quit -t 5" || true; else control quit; fi
for _ in $(seq 100); do
  if ! "$here/status_mps.sh" >/dev/null 2>&1; then
    if [ "$(id -u)" -eq 0 ] && command -v nvidia-smi >/dev/null; then nvidia-smi -c DEFAULT >/dev/null || true; fi
    echo "MPS is stopped"
    exit 0
  fi
  sleep 0.1
done
echo "stop_mps.sh: it does not end within 10 s" >&2
exit 1
