#!/bin/sh
# abi.sh ABI_PROGRAM_PREFIX INCLUDE_DIR: our structures against the recorded layouts of CUDA 11.8, 12.9 and 13.0, and
# against the header of the toolkit at hand.
set -u
prefix=$1
include=$2
number=0
here=tests/runtime

check() {   # NAME COMMAND...
    name=$1
    shift
    number=$((number + 1))
    if "$@"; then echo "ok $number - $name"; else echo "not ok $number - $name"; fi
}

echo 1..4
for version in 11 12 13; do
    check "layouts of CUDA $version as recorded" "$prefix$version" "$here/layouts/$version.txt"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
major=$(sed -n 's/^#define CUDART_VERSION *\([0-9]*\)[0-9]\{3\}.*/\1/p' "$include/cuda_runtime_api.h" 2>/dev/null)
if [ -z "$major" ]; then
    echo "ok 4 - layouts of the toolkit at hand # SKIP no cuda_runtime_api.h in $include"
elif ! ${CC:-cc} -I. -I"$include" "$here/abi_layout.c" -o "$work/layout" 2> "$work/log"; then
    sed 's/^/# /' "$work/log" | head -5
    echo "ok 4 - layouts of the toolkit at hand # SKIP its header lacks members that later releases of CUDA $major have"
else
    "$work/layout" > "$work/layout.txt"
    check "layouts of the toolkit at hand (CUDA $major)" "$prefix$major" "$work/layout.txt"
fi
