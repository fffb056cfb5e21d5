# classes.awk: makes cpu_rpc_classes.h from cpu_rpc_prot.x:
#   #define FLYT_PROCEDURES(X)  X(number, NAME, name, class, argument type, result type) …
# for each procedure of the program, and
#   #define FLYT_SEQUENCED(X)  X(NAME, name, argument type, result type) …  those that keep to the session's sequence
#   #define FLYT_ARGUMENTS(X)  X(name) …  the types name_args of their arguments, each once
#   #define FLYT_RESULTS(X)    X(name) …  the types name_result of their results, each once
# where NAME and name are without FLYT_. The word AT_ONCE behind a class says that a procedure steps out of the sequence.
# Fails where a procedure has no class, a class no procedure, or where class and result disagree: an ASYNC procedure has
# no result, a SYNC procedure has one.
function once(type, ending,    short) {
    short = substr(type, 1, length(type) - length(ending))
    if (type in seen || type == "void") return ""
    if (short ending != type) fail(type " does not end in " ending)
    seen[type] = 1
    return " X(" short ")"
}
function fail(what) { print FILENAME ":" FNR ": " what > "/dev/stderr"; failed = 1 }

/^%#define FLYT_CLASS_/ {
    name = substr($2, length("FLYT_CLASS_") + 1)
    if ($3 != "ASYNC" && $3 != "SYNC") fail(name " has class " $3 "; ASYNC and SYNC are allowed")
    if (name in class) fail(name " has two classes")
    if (NF > 3 && $4 != "AT_ONCE") fail(name " has the word " $4 "; AT_ONCE is allowed")
    class[name] = $3
    at_once[name] = $4
    next
}
/^program / { in_program = 1; next }
in_program && /^[ \t]+[a-z0-9_]+[ \t]+FLYT_[A-Z0-9_]+\([a-z0-9_]+\)[ \t]*=[ \t]*[0-9]+;/ {
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
    if (at_once[name] == "") {
        short = substr(name, length("FLYT_") + 1)
        sequenced = sequenced sprintf(" \\\n    X(%s, %s, %s, %s)", short, tolower(short), arguments, result)
        argument_types = argument_types once(arguments, "_args")
        result_types = result_types once(result, "_result")
    }
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
    print "#define FLYT_SEQUENCED(X)" sequenced
    print "#define FLYT_ARGUMENTS(X)" argument_types
    print "#define FLYT_RESULTS(X)" result_types
    print ""
    print "#endif"
}
