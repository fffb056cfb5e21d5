#!/bin/sh
# memcheck.sh BIN PROGRAM LOADER: FLYT_SOFTGPU_MEMCHECK through Flyt, where the client cuts allocations out of mapped
# memory.
# shows: software GPU: FLYT_SOFTGPU_MEMCHECK through Flyt: the bounds of cudaMalloc, of pools and of graphs' allocation
#   nodes to the byte, freed memory, lines of the source; a report is not lost, whichever call learns of the fault.
set -u
bin=$1 program=$2 loader=$3
folder=$(mktemp -d) server=
out=$folder/out
trap 'kill $server 2>/dev/null; rm -rf "$folder"' EXIT
number=0 failed=0

# What a program built without a sanitizer must load first to use libraries built with one.
sanitizer=
case $bin in
*address*) sanitizer="LD_PRELOAD=$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0" ;;
*thread*) sanitizer="LD_PRELOAD=$(gcc -print-file-name=libtsan.so)" ;;
esac

# run WHAT [VARIABLE=VALUE]
run()
{
    # shellcheck disable=SC2086
    env $sanitizer "${2-FLYT_SOFTGPU_MEMCHECK=1}" "$bin/flyt-run" --server local:software "$program" "$1" > "$out" 2>&1
}

result()
{
    number=$((number + 1))
    if [ "$2" = 0 ]; then
        echo "ok $number $1"
    else
        echo "not ok $number $1"
        sed 's/^/# /' "$out"
        failed=1
    fi
}

# wrote_beyond, wrote_freed WHAT: what the report of a run says.
wrote_beyond()
{
    grep -q '^=* Invalid __global__ write of size 4 bytes$' "$out" &&
        grep -q 'at .*fill.* in .*outside.cu:11$' "$out" && grep -q 'by thread (4,0,0) in block (3,0,0)$' "$out" &&
        grep -q 'is 1 bytes after the nearest allocation at 0x[0-9a-f]* of size 400 bytes$' "$out" &&
        grep -q "^$1: error 719\$" "$out"
}
wrote_freed()
{
    grep -q 'is [0-9]* bytes into a freed allocation at 0x[0-9a-f]* of size 400 bytes$' "$out" &&
        grep -q "^$1: error 719\$" "$out"
}

echo 1..17
for of in '' pool- graph-; do
    run ${of}nothing && [ "$(cat "$out")" = "${of}nothing: error 0" ]
    result "${of}nothing is reported where nothing is wrong" $?
    run ${of}beyond && wrote_beyond ${of}beyond
    result "${of}beyond: a write behind an allocation" $?
    run ${of}freed && wrote_freed ${of}freed
    result "${of}freed: a write into freed memory" $?
done
for of in pool- graph-; do
    run ${of}freed-at-once && wrote_freed ${of}freed-at-once
    result "${of}freed-at-once: memory that cudaFree frees" $?
done
run graph-beyond-inside && wrote_beyond graph-beyond-inside
result "a node that writes behind the allocation of another node" $?
run graph-freed-inside && wrote_freed graph-freed-inside
result "a node that writes into what another node has freed" $?
for of in '' pool- graph-; do
    run ${of}beyond FLYT_SOFTGPU_MEMCHECK=0 && [ "$(cat "$out")" = "${of}beyond: error 0" ]
    result "off, nothing is checked: ${of}beyond" $?
done

# A server of its own: its workers' text travels with answers.
mkfifo "$folder/ready"
FLYT_SOFTGPU_MEMCHECK=1 "$bin/cricket-rpc-server" --gpu software --listen "unix://$folder/s" \
    >"$folder/ready" 2>"$folder/log" &
server=$!
read -r _ <"$folder/ready"
"$bin/flyt-run" --server "unix://$folder/s" "$loader" >"$out" 2>&1
grep -q '^=* Invalid __global__ write of size 4 bytes$' "$out" && grep -q '^load: error 719$' "$out"
result "the first call that learns of it loads a module" $?
exit $failed
