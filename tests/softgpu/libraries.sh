#!/bin/sh
# libraries.sh BIN FOLDER NAME…: programs that call NVIDIA's libraries, on the software GPU through Flyt. FOLDER/NAME is a
# program that compares results with its own and exits with 0.
# shows: software GPU: cuBLAS, cuRAND, cuSPARSE, cuSOLVER and cuDNN, unmodified, through their PTX, against sums on the
#   host.
set -u
bin=$1 folder=$2
shift 2
out=$(mktemp)
trap 'rm -f "$out"' EXIT
number=0 failed=0
echo "1..$#"
for name in "$@"; do
    number=$((number + 1))
    if ! [ -x "$folder/$name" ]; then
        echo "ok $number $name # SKIP the library or its header is not installed"
    elif "$bin/flyt-run" --server local:software "$folder/$name" > "$out" 2>&1; then
        echo "ok $number $name"
    else
        echo "not ok $number $name"
        failed=1
    fi
    [ -x "$folder/$name" ] && sed 's/^/# /' "$out"
done
exit $failed
