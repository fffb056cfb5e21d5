#!/bin/sh
# fatbin_nvcc.sh READER NVCC: containers as nvcc makes them, in each way of packing.
set -eu
reader=$1
nvcc=$2
command -v "$nvcc" >/dev/null 2>&1 || { echo "no nvcc at $nvcc: skipped"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/k.cu" <<'CODE'
__device__ int counter[16];
__global__ void add(int *a, const int *b, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) a[i] += b[i]; }
extern "C" __global__ void count(int by) { atomicAdd(&counter[threadIdx.x % 16], by); }
CODE
echo 1..6
number=0
failed=0

# try DESCRIPTION WANTED-PATTERN NVCC-OPTIONS…
try() {
    number=$((number + 1))
    description=$1; pattern=$2; shift 2
    if "$nvcc" -fatbin "$@" -o "$work/k.fatbin" "$work/k.cu" 2> "$work/err" &&
       "$reader" "$work/k.fatbin" > "$work/list" 2>> "$work/err" &&
       ! grep -q UNSOUND "$work/list" && grep -q "$pattern" "$work/list"
    then echo "ok $number - $description"
         # the PTX is the same however it was packed
         grep '^ptx sm=75 ' "$work/list" | cut -d' ' -f5- >> "$work/$(case "$*" in *rdc*) echo rdc;; *) echo same;; esac)"
    else echo "not ok $number - $description"; failed=1; sed 's/^/# /' "$work/list" "$work/err"
    fi
}
try "as nvcc does by itself (zstd)" '^ptx sm=75 zstd sound' -arch=sm_75
try "LZ4" '^ptx sm=75 lz4 sound' -arch=sm_75 --compress-mode=speed
try "not compressed" '^ptx sm=75 plain sound' -arch=sm_75 --compress-mode=none
try "all compressed" '^cubin sm=75 zstd sound' -arch=sm_75 --compress-mode=size
try "relocatable, several architectures" '^ptx sm=90 zstd sound' -rdc=true -gencode arch=compute_75,code=sm_75 \
    -gencode arch=compute_75,code=compute_75 -gencode arch=compute_90,code=compute_90
number=$((number + 1))
if [ "$(sort -u "$work/same" | wc -l)" -eq 1 ] && [ "$(wc -l < "$work/same")" -eq 4 ]
then echo "ok $number - the same PTX however it is packed"
else echo "not ok $number - the same PTX however it is packed"; failed=1; sed 's/^/# /' "$work/same"; fi
exit $failed
