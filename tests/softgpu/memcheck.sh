#!/bin/sh
# memcheck.sh BIN PROGRAM: FLYT_SOFTGPU_MEMCHECK through Flyt, where the client cuts allocations out of mapped memory.
# shows: software GPU: FLYT_SOFTGPU_MEMCHECK through Flyt: the bounds of cudaMalloc and of pools to the byte, freed
#   memory, lines of the source.
set -u
bin=$1 program=$2
out=$(mktemp)
trap 'rm -f "$out"' EXIT
number=0 failed=0

# run WHAT [VARIABLE=VALUE]
run()
{
    env "${2-FLYT_SOFTGPU_MEMCHECK=1}" "$bin/flyt-run" --server local:software "$program" "$1" > "$out" 2>&1
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

echo 1..9
for of in '' pool-; do
    run ${of}nothing && [ "$(cat "$out")" = "${of}nothing: error 0" ]
    result "${of}nothing is reported where nothing is wrong" $?
    run ${of}beyond && grep -q '^=* Invalid __global__ write of size 4 bytes$' "$out" &&
        grep -q 'at .*fill.* in .*outside.cu:11$' "$out" && grep -q 'by thread (4,0,0) in block (3,0,0)$' "$out" &&
        grep -q 'is 1 bytes after the nearest allocation at 0x[0-9a-f]* of size 400 bytes$' "$out" &&
        grep -q "^${of}beyond: error 719\$" "$out"
    result "${of}beyond: a write behind an allocation" $?
    run ${of}freed && grep -q 'is 0 bytes into a freed allocation at 0x[0-9a-f]* of size 400 bytes$' "$out" &&
        grep -q "^${of}freed: error 719\$" "$out"
    result "${of}freed: a write into freed memory" $?
done
run pool-freed-at-once && grep -q 'is 0 bytes into a freed allocation at 0x[0-9a-f]* of size 400 bytes$' "$out"
result "memory of a pool, freed by cudaFree" $?
for of in '' pool-; do
    run ${of}beyond FLYT_SOFTGPU_MEMCHECK=0 && [ "$(cat "$out")" = "${of}beyond: error 0" ]
    result "off, nothing is checked: ${of}beyond" $?
done
exit $failed
