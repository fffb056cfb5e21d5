# exports.awk names.txt: the version script of libnccl.so.2. flyt_libnccl is a mark: another copy of this library is not
# the program's own NCCL (own.c).
BEGIN { print "{ global: flyt_libnccl;" }
/^#/ || NF == 0 { next }
{ printf "  %s; p%s;\n", $1, $1 }
END { print "  local: *; };" }
