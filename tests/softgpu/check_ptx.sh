#!/bin/sh
# check_ptx.sh CHECK_PTX PROGRAM: what `make check-ptx` counts.
# shows: software GPU: check-ptx names each instruction that cannot be executed and counts the kernels that have it.
set -u
check=$1 program=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
number=0 failed=0

# result NAME STATUS: what the last command printed is in $folder/out
result()
{
    number=$((number + 1))
    if [ "$2" = 0 ]; then
        echo "ok $number $1"
    else
        echo "not ok $number $1"
        sed 's/^/# /' "$folder/out"
        failed=1
    fi
}

echo 1..4
mkdir "$folder/all"
cat > "$folder/all/some.ptx" <<'PTX'
.version 8.5
.target sm_90
.address_size 64
.func helper() { .reg .b32 x; fancy.u32 x, 1; fancy.u32 x, 2; ret; }
.visible .entry good() { ret; }
.visible .entry bad() { .reg .b32 x; fancy.u32 x, 3; strange.b32 x; call helper; ret; }
.visible .entry calls() { call helper; ret; }
PTX
"$check" "$folder/all" > "$folder/out" 2>&1
[ $? = 1 ] && grep -q '^| some.ptx | 1 | 0 | 90 | 3 | 1 | 33.3 % |$' "$folder/out"
result "two of three kernels cannot be decoded" $?
grep -q "^| 'fancy.u32': .* | 2 | 5 | 1 |$" "$folder/out" && grep -q "^| 'strange.b32': .* | 1 | 1 | 1 |$" "$folder/out"
result "each instruction is counted, by kernels and by occurrences" $?
rm "$folder/all/some.ptx"
cp "$program" "$folder/all/program"
"$check" "$folder/all" > "$folder/out" 2>&1 && grep -q '^| program | [1-9].* | 100.0 % |$' "$folder/out"
result "a program's kernels can be decoded" $?
rm "$folder/all/program"
"$check" "$folder/all" > "$folder/out" 2>&1
[ $? = 77 ]
result "a folder without PTX is told by the exit status" $?
exit $failed
