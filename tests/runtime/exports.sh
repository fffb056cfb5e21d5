#!/bin/sh
# exports.sh BIN: the libraries export what NVIDIA's export, under the same version nodes, and find the core beside them.
set -u
bin=$1
number=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C

check() {   # NAME COMMAND...
    name=$1
    shift
    number=$((number + 1))
    if "$@" > "$work/log" 2>&1; then echo "ok $number - $name"; else echo "not ok $number - $name"; sed 's/^/# /' "$work/log" | head -20; fi
}

exported() { nm -D --defined-only "$1" | awk '$2 != "A" { print $3 }' | sort; }
dynamic() { readelf -d "$1" | sed -n "s/.*($2).*\[\(.*\)\]/\1/p"; }
equal() { [ "$1" = "$2" ] || { echo "have: $1"; echo "want: $2"; false; }; }

# Those that run on the stacks of a program's threads.
binds_at_once() {
    for library; do
        if ! readelf -d "$library" | grep -q BIND_NOW; then
            echo "$library looks functions up at the first call"
            return 1
        fi
    done
}

echo 1..12
golden=tests/api/golden/libcudart
for pair in 11.8:libcudart.so.11.0 12.9:libcudart.so.12 13.0:libcudart.so.13; do
    list=$golden-${pair%%:*}.txt
    node=${pair#*:}
    library=$bin/cudart/$node
    exported "$library" > "$work/have"
    sed "s/\$/@@$node/" "$list" | sort > "$work/want"
    check "$node exports every name that NVIDIA's has, and no other" diff "$work/want" "$work/have"
    check "$node is its soname" equal "$(dynamic "$library" SONAME)" "$node"
    check "$node finds the core in its own folder and the one above" equal "$(dynamic "$library" RUNPATH)" '$ORIGIN:$ORIGIN/..'
done

exported "$bin/cricket-client.so" > "$work/have"
{
    sed 's/$/@libcudart.so.11.0/' $golden-11.8.txt
    sed 's/$/@libcudart.so.12/' $golden-12.9.txt
    sed 's/$/@@libcudart.so.13/' $golden-13.0.txt
} | sort > "$work/want"
check "cricket-client.so has all three under their nodes" diff "$work/want" "$work/have"
check "cricket-client.so finds the core beside it" equal "$(dynamic "$bin/cricket-client.so" RUNPATH)" '$ORIGIN'
check "no library of a program takes its stack to look functions up" binds_at_once "$bin"/libflyt-*.so \
    "$bin"/cricket-client.so "$bin"/cudart/lib*.so* "$bin"/nccl/lib*.so*
