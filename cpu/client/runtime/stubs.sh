#!/bin/sh
# stubs.sh EXPORTS OBJECT...: C for every name that NVIDIA's library exports and these objects do not define.
# A stub takes whatever it is given, says once that the name is not supported, and returns cudaErrorNotSupported:
# a program that imports a name it never calls starts, and one that calls it is told.
set -eu
exports=$1
shift
defined=$(mktemp)
trap 'rm -f "$defined"' EXIT
"${NM:-nm}" -g --defined-only "$@" | awk 'NF == 3 { print $3 }' | LC_ALL=C sort -u > "$defined"
echo '/* Made by cpu/client/runtime/stubs.sh. */'
echo '#include "cpu/client/runtime/runtime.h"'
LC_ALL=C sort -u "$exports" | LC_ALL=C comm -23 - "$defined" |
    awk '{ printf "RUNTIME_API int %s(void) { return runtime_unsupported(\"%s\"); }\n", $1, $1 }'
