#!/usr/bin/env bash
# status_mps.sh: whether NVIDIA MPS runs as Flyt needs it: its control daemon answers, belongs to this user, and the GPUs'
# compute mode lets nothing past it. Says what it sees, and each thing that is not as it should be.
#
#   CUDA_MPS_PIPE_DIRECTORY   default /tmp/nvidia-mps
#
# Exit status: 0 it runs, 1 it does not, 3 there is no MPS on this machine.
set -euo pipefail
case ${1:-} in
  '') ;;
  -h|--help) sed -n '2,7p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;;
  *) echo "status_mps.sh: it takes no arguments (see --help)" >&2; exit 2 ;;
esac
export CUDA_MPS_PIPE_DIRECTORY=${CUDA_MPS_PIPE_DIRECTORY:-/tmp/nvidia-mps}
if ! command -v nvidia-cuda-mps-control >/dev/null; then
  echo "there is no nvidia-cuda-mps-control on this machine; it comes with NVIDIA's driver"
  exit 3
fi
if [ ! -e "$CUDA_MPS_PIPE_DIRECTORY/control" ]; then
  echo "MPS does not run in $CUDA_MPS_PIPE_DIRECTORY; start it with start_mps.sh"
  exit 1
fi
owner=$(stat -c %U "$CUDA_MPS_PIPE_DIRECTORY/control")
if [ "$owner" != "$(id -un)" ]; then
  echo "MPS in $CUDA_MPS_PIPE_DIRECTORY belongs to $owner; it serves the GPU servers of that user only"
  exit 1
fi
if ! servers=$(echo get_server_list | timeout 5 nvidia-cuda-mps-control 2>/dev/null); then
  echo "the MPS control daemon of $CUDA_MPS_PIPE_DIRECTORY does not answer; stop_mps.sh --force, then start_mps.sh"
  exit 1
fi
echo "MPS runs in $CUDA_MPS_PIPE_DIRECTORY, servers: ${servers:-none yet}"
if command -v nvidia-smi >/dev/null; then
  nvidia-smi --query-gpu=index,name,compute_mode --format=csv,noheader 2>/dev/null | while IFS= read -r line; do
    case $line in
      *Exclusive_Process*) echo "GPU $line" ;;
      *) echo "GPU $line: programs may use it beside MPS, without limits; as root: nvidia-smi -c EXCLUSIVE_PROCESS" ;;
    esac
  done
fi
