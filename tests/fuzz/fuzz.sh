#!/usr/bin/env bash
# fuzz.sh BUILD SECONDS TARGET...: fuzzes each target for an equal part of the time, as many at once as there are
# processors (JOBS), and prints how much of the code its corpus reaches. The corpus begins with
# tests/fuzz/seeds/TARGET.tar.gz, tests/fuzz/seeds/TARGET/ or BUILD/fuzz/seeds/TARGET/, and stays in
# BUILD/fuzz/corpus/TARGET. What was found lies in BUILD/fuzz/TARGET-crash-…; the exit status is then 1.
#   FUZZ_PACK=1   also packs the smallest corpus that reaches the same into tests/fuzz/seeds/TARGET.tar.gz
set -uo pipefail
build=$1 seconds=$2
shift 2
jobs=${JOBS:-$(nproc)}
[ "$jobs" -le $# ] || jobs=$#
each=$((seconds * jobs / $#))
here=$(dirname "$0")

# Coverage of what the corpus reaches: lines of our own code, without what is generated and the targets themselves.
coverage() {
  local target=$1 raw=$build/fuzz/$1.profraw data=$build/fuzz/$1.profdata log=$build/fuzz/$1-coverage.log
  rm -f "$raw"
  if ! { LLVM_PROFILE_FILE=$raw "$build/fuzz/$target" -runs=0 "$build/fuzz/corpus/$target" &&
    llvm-profdata merge -sparse "$raw" -o "$data"; } >"$log" 2>&1; then
    echo "no figures of coverage: $log"
    return
  fi
  llvm-cov report "$build/fuzz/$target" -instr-profile="$data" -ignore-filename-regex='tests/|generated/|/usr/' \
    2>>"$log" | awk '$1 == "TOTAL" {
      printf "lines %s of %s (%s), functions %s of %s (%s)", $8 - $9, $8, $10, $5 - $6, $5, $7 }'
}

pack() {
  local target=$1 corpus=$2
  rm -rf "$corpus.small"
  mkdir "$corpus.small"
  LLVM_PROFILE_FILE=/dev/null "$build/fuzz/$target" -merge=1 -use_counters=0 "$corpus.small" "$corpus" >/dev/null 2>&1
  tar -C "$corpus.small" --sort=name --owner=0 --group=0 --mtime=@0 -c . | gzip -9n >"$here/seeds/$target.tar.gz"
  rm -rf "$corpus.small"
  ls -l "$here/seeds/$target.tar.gz"
}

# The exit status says whether something was found, or 77.
fuzz() {
  local target=$1 corpus=$build/fuzz/corpus/$1 log=$build/fuzz/$1.log seeds='' place status inputs runs cover
  for place in "$build/fuzz/seeds/$target" "$here/seeds/$target" "$here/seeds/$target.tar.gz"; do
    [ ! -e "$place" ] || seeds=$place
  done
  nice -n 19 "$here/run.sh" "$build/fuzz/$target" "$each" "$corpus" "$seeds" >"$log" 2>&1
  status=$?
  [ "$status" != 77 ] || { echo "fuzz: $target: $(cat "$log")"; return 77; }
  [ "$status" = 0 ] || echo "fuzz: $target: FOUND something: $log"
  inputs=$(find "$corpus" -type f | wc -l)
  runs=$(awk '/number_of_executed_units/ { print $2 }' "$log")
  cover='no llvm-cov: no figures of coverage'
  [ -z "$(command -v llvm-cov)" ] || cover=$(coverage "$target")
  echo "fuzz: $target: $each s, ${runs:-?} runs, $inputs inputs; $cover"
  [ -z "${FUZZ_PACK:-}" ] || pack "$target" "$corpus"
  return "$status"
}

running=0 worst=0
# Waits for one of them to end.
one_ends() {
  local status
  wait -n
  status=$?
  [ "$status" -le "$worst" ] || worst=$status
  running=$((running - 1))
}
for target in "$@"; do
  [ "$running" -lt "$jobs" ] || one_ends
  fuzz "$target" &
  running=$((running + 1))
done
while [ "$running" -gt 0 ]; do
  one_ends
done
exit "$worst"
