# stubs.awk: makes a C file of names.txt: a weak function for each name, which gives way to the real one where there is
# one.
BEGIN {
    print "/* Made by stubs.awk from names.txt. */"
    print "__attribute__((visibility(\"hidden\"))) int nvml_stub(void);"
}
/^nvml[A-Za-z0-9_]+$/ {
    printf "__attribute__((weak, visibility(\"default\"))) int %s(void);\n", $1
    printf "int %s(void) { return nvml_stub(); }\n", $1
    next
}
{ print FILENAME ":" FNR ": no name of a function: " $0 > "/dev/stderr"; failed = 1 }
END { exit failed }
