#!/bin/sh
# run.sh TARGET SECONDS CORPUS [SEEDS]: runs a fuzz target. The corpus is kept between runs. SEEDS is a folder, or a
# packed one. What the target finds lies beside it: TARGET-crash-…
set -eu
target=$1 seconds=$2 corpus=$3 seeds=${4-}
name=$(basename "$target")
dictionary=$(dirname "$0")/$name.dict
if [ ! -s "$target" ] || head -c 64 "$target" | grep -q 'no libFuzzer'; then
    echo "clang cannot build libFuzzer targets here: skipped"
    exit 77
fi
mkdir -p "$corpus"
case $seeds in
    '') ;;
    *.tar.gz) tar -xzf "$seeds" -C "$corpus" ;;
    *) cp -r "$seeds/." "$corpus/" ;;
esac
longest=8192 memory=2048
case $name in
    exec) longest=512 ;;
    ptx) longest=4096 memory=3000 ;;
esac
set --
[ ! -f "$dictionary" ] || set -- -dict="$dictionary"
# Counts of coverage are taken by fuzz.sh only.
export LLVM_PROFILE_FILE=/dev/null
exec "$target" "$@" -max_total_time="$seconds" -timeout=30 -rss_limit_mb="$memory" -max_len="$longest" \
     -print_final_stats=1 -artifact_prefix="$target-" "$corpus"
