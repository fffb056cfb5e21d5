#!/bin/sh
# version_script.sh NODE EXPORTS: the linker's version script of one library. NODE alone: only the node (the names
# carry it already).
set -eu
echo "$1 {"
if [ $# -gt 1 ]; then
    echo '  global:'
    sed 's/.*/    &;/' "$2"
    echo '  local: *;'
fi
echo '};'
