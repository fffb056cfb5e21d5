# exports.awk names.txt: the version script of libnccl.so.2.
BEGIN { print "{ global:" }
/^#/ || NF == 0 { next }
{ printf "  %s; p%s;\n", $1, $1 }
END { print "  local: *; };" }
