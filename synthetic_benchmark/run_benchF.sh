#!/usr/bin/env bash
# run_benchF.sh RESULT_BASE PROCESSES [ITERATIONS]: so many benchF (25 KB, 512 threads) started together. The launches' times
# of process i, in µs, go to RESULT_BASE_i.csv; the time of all of them to RESULT_BASE_all.txt. RUN: see run_common.sh.
set -euo pipefail
. "$(dirname "$0")/run_common.sh"
[ $# -ge 2 ] || { echo "usage: $0 RESULT_BASE PROCESSES [ITERATIONS]" >&2; exit 2; }
base=$1 processes=$2 iterations=${3:-5000}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
one() { run benchF 25 512 "$iterations" "${base}_$1.csv" "$2"; }
together "$processes" "$folder" | tee "${base}_all.txt"
