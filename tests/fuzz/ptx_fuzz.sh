#!/bin/sh
# ptx_fuzz.sh PROGRAM SECONDS: feeds the PTX reader with changed seeds. New inputs stay beside the program, findings too.
set -eu
program=$1 seconds=$2
here=$(dirname "$0")
if ! [ -x "$program" ]; then
    echo "1..0 # SKIP no clang with libFuzzer"
    exit 77
fi
mkdir -p "$program.corpus" "$program.findings"
exec "$program" -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=3000 -verbosity=0 -print_final_stats=1 \
    -dict="$here/ptx_fuzz.dict" -artifact_prefix="$program.findings/" "$program.corpus" "$here/ptx_seeds"
