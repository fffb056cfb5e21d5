#!/usr/bin/env bash
# fuzz.sh BUILD SECONDS [TARGET...]: fuzzes each target in turn, with an equal part of the time, and says how much of
# the code its corpus reaches. Targets: exec (kernels that are executed), rpc (records, calls, memory shared with a
# client, first words of connections), lanes (what comes over the connections for large copies), control (the control protocol), fatbin. The corpus begins with
# tests/fuzz/seeds/TARGET.tar.gz or tests/fuzz/seeds/TARGET/, and stays in BUILD/fuzz/corpus. Findings are in
# BUILD/fuzz/TARGET-crash-…, and end this program with 1.
#   FUZZ_PACK=1   also packs the smallest corpus that reaches the same into tests/fuzz/seeds/TARGET.tar.gz
set -uo pipefail
build=$1 seconds=$2
shift 2
[ $# -gt 0 ] || set -- exec rpc lanes control fatbin
each=$((seconds / $#)) found=0
here=$(dirname "$0")

# Coverage of what the corpus reaches: lines of our own code, without what is generated and the targets themselves.
coverage() {
  local target=$1 raw=$build/fuzz/$1.profraw data=$build/fuzz/$1.profdata
  LLVM_PROFILE_FILE=$raw "$build/fuzz/$target" -runs=0 "$build/fuzz/corpus/$target" >/dev/null 2>&1
  llvm-profdata merge -sparse "$raw" -o "$data" 2>/dev/null || return
  llvm-cov report "$build/fuzz/$target" -instr-profile="$data" -ignore-filename-regex='tests/|generated/|/usr/' \
    2>/dev/null | awk '$1 == "TOTAL" {
      printf "lines %s of %s (%s), functions %s of %s (%s)", $8 - $9, $8, $10, $5 - $6, $5, $7 }'
}

for target in "$@"; do
  program=$build/fuzz/$target corpus=$build/fuzz/corpus/$target
  if [ ! -s "$program" ] || head -c 64 "$program" | grep -q 'no libFuzzer'; then
    echo "fuzz: $target: clang cannot build libFuzzer targets here"
    exit 77
  fi
  mkdir -p "$corpus"
  [ ! -d "$here/seeds/$target" ] || cp -r "$here/seeds/$target/." "$corpus/"
  [ ! -f "$here/seeds/$target.tar.gz" ] || tar -xzf "$here/seeds/$target.tar.gz" -C "$corpus"
  [ "$target" != exec ] || most=512
  log=$build/fuzz/$target.log
  options=(-max_total_time="$each" -timeout=30 -rss_limit_mb=2048 -max_len="${most:-8192}" -print_final_stats=1
    -artifact_prefix="$build/fuzz/$target-")
  unset most
  if ! LLVM_PROFILE_FILE=/dev/null nice -n 19 "$program" "${options[@]}" "$corpus" >"$log" 2>&1; then
    found=1
    echo "fuzz: $target: FOUND something: $log"
  fi
  inputs=$(find "$corpus" -type f | wc -l)
  runs=$(awk '/number_of_executed_units/ { print $2 }' "$log")
  cover='no llvm-cov: no figures of coverage'
  [ -z "$(command -v llvm-cov)" ] || cover=$(coverage "$target")
  echo "fuzz: $target: $each s, ${runs:-?} runs, $inputs inputs; $cover"
  if [ -n "${FUZZ_PACK:-}" ]; then
    rm -rf "$corpus.small"
    mkdir "$corpus.small"
    LLVM_PROFILE_FILE=/dev/null "$program" -merge=1 -use_counters=0 "$corpus.small" "$corpus" >/dev/null 2>&1
    tar -C "$corpus.small" --sort=name --owner=0 --group=0 --mtime=@0 -c . | gzip -9n >"$here/seeds/$target.tar.gz"
    ls -l "$here/seeds/$target.tar.gz"
  fi
done
exit "$found"
