#!/bin/sh
# golden.sh            compares cpu_rpc_prot.x, with the calls of cpu/api/driver.api in it, with cpu_rpc_prot.golden
# golden.sh --update   makes that file anew
#
# The golden copy is what programs of this version say on the wire: constants, structures with their bounds,
# procedures with their numbers, arguments, results and classes. Whoever changes it knows that old and new programs
# must still understand each other: numbers are never used again, structures do not change within a major version,
# and what is new comes with a capability bit.
set -eu
here=$(dirname "$0")
golden=$here/cpu_rpc_prot.golden
protocol=$(mktemp)
trap 'rm -f "$protocol"' EXIT
"$here/../../cpu/api/generate.py" forward/cpu_rpc_prot.x > "$protocol"

# One declaration, member or brace a line; one space between words.
wire() {
    awk '
        { text = text $0 "\n" }
        END {
            while ((start = index(text, "/*")) > 0) {
                rest = substr(text, start + 2)
                end = index(rest, "*/")
                text = substr(text, 1, start - 1) " " (end ? substr(rest, end + 2) : "")
            }
            gsub(/[ \t]+/, " ", text)
            gsub(/ *\n */, "\n", text)
            gsub(/[;{,] ?/, "&\n", text)
            gsub(/ \n/, "\n", text)
            gsub(/\n+/, "\n", text)
            sub(/^\n/, "", text)
            printf "%s", text
        }' "$protocol"
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
cat <<MESSAGE
The protocol is not the one of $golden.
If that is meant: is the change one that old peers can live with (else raise FLYT_PROTOCOL_MAJOR)? Then run
    $0 --update
and commit the golden copy with cpu_rpc_prot.x.
MESSAGE
exit 1
