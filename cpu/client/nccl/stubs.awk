# stubs.awk names.txt: the C of functions without a body, and the second names of all.
BEGIN {
    print "/* Made by cpu/client/nccl/stubs.awk from names.txt. */"
    print "#include \"cpu/client/nccl/nccl.h\""
}
/^#/ || NF == 0 { next }
$2 == "no" {
    printf "NCCL_API nccl_result %s(void);\n", $1
    printf "nccl_result %s(void) { return nccl_unsupported(\"%s\"); }\n", $1, $1
    printf "NCCL_API nccl_result p%s(void) __attribute__((alias(\"%s\")));\n", $1, $1
    next
}
NF != 1 { print FILENAME ":" FNR ": " $0 > "/dev/stderr"; exit 1 }
