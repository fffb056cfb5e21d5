#!/bin/sh
# rpc_fatbin_run.sh TARGET SECONDS CORPUS [SEEDS]: runs a fuzz target; the corpus is kept between runs. SEEDS is a
# folder, or a packed one.
set -eu
target=$1
seconds=$2
corpus=$3
if [ ! -s "$target" ] || head -c 64 "$target" | grep -q 'no libFuzzer'; then
    echo "clang cannot build libFuzzer targets here: skipped"
    exit 77
fi
mkdir -p "$corpus"
case ${4-} in
    '') ;;
    *.tar.gz) tar -xzf "$4" -C "$corpus" ;;
    *) cp -r "$4/." "$corpus/" ;;
esac
# Counts of coverage are taken by tests/fuzz/fuzz.sh only.
export LLVM_PROFILE_FILE=/dev/null
exec "$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=8192 -print_final_stats=1 \
     -artifact_prefix="$corpus/../$(basename "$target")-" "$corpus"
