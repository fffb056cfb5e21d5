# stubs.awk names.txt: the C of functions that are not supported.
BEGIN {
    print "/* Made by cpu/client/nccl/stubs.awk from names.txt. */"
    print "#include \"cpu/client/nccl/nccl.h\""
}
/^#/ || NF == 0 { next }
$2 == "no" || $2 == "device" {
    printf "nccl_result %s(void) NCCL_BODY(%s);\n", $1, $1
    printf "nccl_result %s(void) { return nccl_unsupported(\"%s\", %s); }\n", $1, $1, $2 == "device" ? "true" : "false"
    next
}
NF > 1 && $2 != "early" { print FILENAME ":" FNR ": " $0 > "/dev/stderr"; exit 1 }
