# classes.awk: makes cpu_rpc_classes.h from cpu_rpc_prot.x:
#   #define FLYT_PROCEDURES(X)  X(number, NAME, name, class, argument type, result type) …
# for each procedure of the program. Fails where a procedure has no class, a class no procedure, or where class
# and result disagree: an ASYNC procedure has no result, a SYNC procedure has one.
function fail(what) { print FILENAME ":" FNR ": " what > "/dev/stderr"; failed = 1 }

/^%#define FLYT_CLASS_/ {
    name = substr($2, length("FLYT_CLASS_") + 1)
    if ($3 != "ASYNC" && $3 != "SYNC") fail(name " has class " $3 "; ASYNC and SYNC are allowed")
    if (name in class) fail(name " has two classes")
    class[name] = $3
    next
}
/^program / { in_program = 1; next }
in_program && /^[ \t]+[a-z_]+[ \t]+FLYT_[A-Z0-9_]+\([a-z_]+\)[ \t]*=[ \t]*[0-9]+;/ {
    line = $0
    sub(/\/\*.*/, "", line)
    gsub(/[();=]/, " ", line)
    split(line, word, " ")
    result = word[1]; name = word[2]; arguments = word[3]; number = word[4]
    if (number in used) fail(name " and " used[number] " both have number " number)
    if (number == 0) fail(name " has number 0, which is NULL in every program")
    used[number] = name
    if (!(name in class)) fail(name " has no class: add a line %#define FLYT_CLASS_" name)
    else if (class[name] == "ASYNC" && result != "void") fail(name " is ASYNC and has a result")
    else if (class[name] == "SYNC" && result == "void") fail(name " is SYNC and has no result")
    known[name] = 1
    body = body sprintf(" \\\n    X(%s, %s, %s, %s, %s, %s)", number, name, tolower(name), class[name], arguments, result)
    count++
    next
}
in_program && /FLYT_[A-Z0-9_]+\(.*=/ { fail("not understood: " $0) }
END {
    for (name in class)
        if (!(name in known)) fail("class of " name ", which is no procedure")
    if (count == 0) fail("no procedures found")
    if (failed) exit 1
    print "/* Made by classes.awk from cpu_rpc_prot.x. */"
    print "#ifndef FLYT_RPC_CLASSES_H"
    print "#define FLYT_RPC_CLASSES_H"
    print ""
    print "#define FLYT_PROCEDURES(X)" body
    print ""
    print "#endif"
}
