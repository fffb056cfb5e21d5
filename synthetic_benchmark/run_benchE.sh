#!/usr/bin/env bash
# run_benchE.sh [MOST_KB [THREADS [ITERATIONS [REPETITIONS]]]]: benchE by memory size, doubled from 256 KB. CSV, µs.
# The earlier Flyt ran it to 2097152 KB with 8192 threads and 5000 iterations. RUN: see run_common.sh.
set -euo pipefail
. "$(dirname "$0")/run_common.sh"
most=${1:-2097152} threads=${2:-8192} iterations=${3:-5000} repetitions=${4:-4}
echo "kilobytes$(for ((i = 1; i <= repetitions; i++)); do printf ',r%d' "$i"; done)"
for ((size = 256; size <= most; size *= 2)); do
  row=$size
  for ((i = 0; i < repetitions; i++)); do row+=,$(run benchE "$size" "$threads" "$iterations" | time_us); done
  echo "$row"
done
