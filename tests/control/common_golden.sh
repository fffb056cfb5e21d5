#!/bin/sh
# common_golden.sh            compares control_prot.x, less its comments and spacing, with control_prot.golden
# common_golden.sh --update   makes that file anew
#
# As tests/rpc/golden.sh does for the data plane: whoever changes the protocol knows that old and new programs must still
# understand each other (control_prot.x: numbers are never used again).
set -eu
here=$(dirname "$0")
golden=$here/control_prot.golden
wire() {
    sed 's|/\*.*\*/||g' "$here/../../control-managers/common/control_prot.x" |
        awk '/\/\*/ { sub(/\/\*.*/, ""); comment = 1; print; next } comment && /\*\// { sub(/.*\*\//, ""); comment = 0 } !comment' |
        tr -s ' \t' '  ' | sed 's/^ //; s/ $//; /^$/d'
}
if [ "${1-}" = --update ]; then
    wire > "$golden"
    echo "$golden is new: look at the difference before you commit it"
    exit 0
fi
if difference=$(wire | diff -u "$golden" -); then
    exit 0
fi
echo "$difference"
echo "The protocol is not the one of $golden. If that is meant, and old peers can live with it (else raise CTL_MAJOR):"
echo "    $0 --update"
exit 1
