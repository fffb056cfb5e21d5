#!/usr/bin/env bash
# run_benchR.sh RESULT_BASE PROCESSES SYNC [ITERATIONS]: so many benchR started together. All but the last synchronise every
# SYNC launches (0: every one, 100: only at the end); the last always after every launch, so that it shows what the others
# do to it. Results as with run_benchF.sh. RUN: see run_common.sh.
set -euo pipefail
. "$(dirname "$0")/run_common.sh"
[ $# -ge 3 ] || { echo "usage: $0 RESULT_BASE PROCESSES SYNC [ITERATIONS]" >&2; exit 2; }
base=$1 processes=$2 every=$3 iterations=${4:-5000}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
one() {
  local sync=$every
  [ "$1" -lt "$processes" ] || sync=0
  run benchR 25 512 "$iterations" "$sync" "${base}_$1.csv" "$2"
}
together "$processes" "$folder" | tee "${base}_all.txt"
