# symbols.awk: makes what libsoftgpu.so exports beyond what is written by hand, and the table for cuGetProcAddress.
#   awk -f symbols.awk symbols.txt cudaTypedefs.h > symbols.c
# symbols.txt: the names that NVIDIA's libcuda.so exports (nm -D). Each gets a weak definition that says "not supported",
# which a real one replaces at link time. cudaTypedefs.h says from which CUDA version on a name means which symbol: the
# PFN_<name>_v<version> of a name, in order of version, are the symbols <name>, <name>_v2 … in order of number.
function split_name(name) {
    variant = 0
    if (name ~ /_pt(ds|sz)$/) { variant = 1; sub(/_pt(ds|sz)$/, "", name) }
    order = 1
    if (match(name, /_v[0-9]+$/)) { order = substr(name, RSTART + 2) + 0; name = substr(name, 1, RSTART - 1) }
    base = name
}
FNR == NR {
    symbols[++count] = $1
    split_name($1)
    have[base, variant, order] = $1
    next
}
match($0, /PFN_cu[A-Za-z0-9_]+_v[0-9]+(_pt(ds|sz))?\)/) {
    name = substr($0, RSTART + 4, RLENGTH - 5)
    split_name(name)
    if (!((base, variant, order) in version_seen)) {
        version_seen[base, variant, order] = 1
        n = ++versions[base, variant]
        version[base, variant, n] = order
    }
}
END {
    print "/* Made by softgpu/driver/symbols.awk. */"
    print "#include \"softgpu/driver/symbols.h\""
    print "#pragma GCC diagnostic ignored \"-Wmissing-prototypes\""
    print "#define UNSUPPORTED(name) __attribute__((weak, visibility(\"default\"))) int name(void) { return sgd_unsupported(#name); }"
    for (i = 1; i <= count; i++)
        print "UNSUPPORTED(" symbols[i] ")"
    print "const struct sgd_symbol sgd_symbols[] = {"
    for (key in versions) {
        split(key, k, SUBSEP)
        n = versions[key]
        for (i = 2; i <= n; i++)                    # insertion sort by version
            for (j = i; j > 1 && version[key, j - 1] + 0 > version[key, j] + 0; j--) {
                t = version[key, j]; version[key, j] = version[key, j - 1]; version[key, j - 1] = t
            }
        at = 0
        for (i = 1; i <= n; i++) {
            for (at++; at < 10 && !((k[1], k[2], at) in have); at++) ;
            if ((k[1], k[2], at) in have)
                printf "    { \"%s\", %d, %d, (void (*)(void))%s },\n", k[1], version[key, i], k[2], have[k[1], k[2], at] | "LC_ALL=C sort"
        }
    }
    close("LC_ALL=C sort")
    print "    { \"cuGetProcAddress\", 11030, 0, (void (*)(void))cuGetProcAddress },"
    print "    { \"cuGetProcAddress\", 12000, 0, (void (*)(void))cuGetProcAddress_v2 },"
    print "    { \"cuProfilerStart\", 4000, 0, (void (*)(void))cuProfilerStart },"
    print "    { \"cuProfilerStop\", 4000, 0, (void (*)(void))cuProfilerStop },"
    print "};"
    print "const size_t sgd_symbol_count = sizeof sgd_symbols / sizeof *sgd_symbols;"
}
