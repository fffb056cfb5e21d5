#!/usr/bin/env bash
# start_mps.sh [--gpus LIST]: starts NVIDIA MPS as Flyt needs it, for the user who runs this (the one who runs
# flyt-node-manager). Nothing happens where it runs already.
#
#   CUDA_MPS_PIPE_DIRECTORY   where its pipes are (default /tmp/nvidia-mps; mps.pipe-directory of the node manager)
#   CUDA_MPS_LOG_DIRECTORY    default /var/log/nvidia-mps, else the pipe directory
#   --gpus LIST               indices or UUIDs as nvidia-smi has them (default: all)
#
# The GPUs are set to EXCLUSIVE_PROCESS where we may (root), so that nothing gets past MPS and its limits.
# Exit status: 0 it runs, 1 it could not be started, 2 wrong usage, 3 there is no MPS on this machine.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
gpus=
while [ $# -gt 0 ]; do
  case $1 in
    --gpus) gpus=${2:?--gpus wants a list}; shift 2 ;;
    -h|--help) sed -n '2,11p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;;
    *) echo "start_mps.sh: unknown argument '$1' (see --help)" >&2; exit 2 ;;
  esac
done
export CUDA_MPS_PIPE_DIRECTORY=${CUDA_MPS_PIPE_DIRECTORY:-/tmp/nvidia-mps}
if [ -z "${CUDA_MPS_LOG_DIRECTORY:-}" ]; then
  CUDA_MPS_LOG_DIRECTORY=/var/log/nvidia-mps
  mkdir -p "$CUDA_MPS_LOG_DIRECTORY" 2>/dev/null && [ -w "$CUDA_MPS_LOG_DIRECTORY" ] || CUDA_MPS_LOG_DIRECTORY=$CUDA_MPS_PIPE_DIRECTORY
fi
export CUDA_MPS_LOG_DIRECTORY
if ! command -v nvidia-cuda-mps-control >/dev/null; then
  echo "start_mps.sh: there is no nvidia-cuda-mps-control; it comes with NVIDIA's driver (Debian: nvidia-cuda-mps)" >&2
  exit 3
fi
if "$here/status_mps.sh" >/dev/null 2>&1; then
  echo "MPS runs already in $CUDA_MPS_PIPE_DIRECTORY"
  exit 0
fi
# GPU servers run as a user of their own, and go through this folder to MPS's socket. What is in it keeps its own
# permissions; nobody else can list it.
# shellcheck disable=SC2174 # only the last folder has to be closed to others
mkdir -p -m 0711 "$CUDA_MPS_PIPE_DIRECTORY"
if [ ! -O "$CUDA_MPS_PIPE_DIRECTORY" ]; then
  echo "start_mps.sh: $CUDA_MPS_PIPE_DIRECTORY belongs to somebody else; set CUDA_MPS_PIPE_DIRECTORY to a folder of your own" >&2
  exit 1
fi
if [ "$(id -u)" -eq 0 ] && command -v nvidia-smi >/dev/null; then
  if [ -n "$gpus" ]; then select=(-i "$gpus"); else select=(); fi
  nvidia-smi "${select[@]}" -c EXCLUSIVE_PROCESS >/dev/null ||
    echo "start_mps.sh: warning: the compute mode could not be set; programs may use the GPU beside MPS, without limits" >&2
elif [ "$(id -u)" -ne 0 ]; then
  echo "start_mps.sh: not root: to keep programs from using the GPU beside MPS, run as root: nvidia-smi -c EXCLUSIVE_PROCESS" >&2
fi
[ -z "$gpus" ] || export CUDA_VISIBLE_DEVICES=$gpus
nvidia-cuda-mps-control -d
for _ in $(seq 50); do
  if "$here/status_mps.sh" >/dev/null 2>&1; then
    echo "MPS runs in $CUDA_MPS_PIPE_DIRECTORY; its log: $CUDA_MPS_LOG_DIRECTORY/control.log"
    exit 0
  fi
  sleep 0.1
done
echo "start_mps.sh: MPS was started and does not answer within 5 s; see $CUDA_MPS_LOG_DIRECTORY/control.log" >&2
exit 1
