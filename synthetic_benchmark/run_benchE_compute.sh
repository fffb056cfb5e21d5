#!/usr/bin/env bash
# run_benchE_compute.sh [FIRST [STEP [COUNT [THREADS [REPETITIONS]]]]]: benchE by length of the kernel, 64 KB. CSV, µs.
# The earlier Flyt ran it from 16000 iterations in nine steps of 1000 with 8192 threads. RUN: see run_common.sh.
set -euo pipefail
. "$(dirname "$0")/run_common.sh"
first=${1:-16000} step=${2:-1000} count=${3:-9} threads=${4:-8192} repetitions=${5:-4}
echo "iterations$(for ((i = 1; i <= repetitions; i++)); do printf ',r%d' "$i"; done)"
for ((n = 0; n < count; n++)); do
  row=$((first + n * step))
  for ((i = 0; i < repetitions; i++)); do row+=,$(run benchE 64 "$threads" $((first + n * step)) | time_us); done
  echo "$row"
done
