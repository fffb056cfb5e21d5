# procedures.awk: makes control_procedures.h from control_prot.x:
#   #define CTL_PROCEDURES(X)  X(NUMBER, NAME, argument type, result type) …
# where an argument of void is written ctl_nothing (protocol.h).
# Fails where two procedures have one number, or a line of the program is not understood.
function fail(what) { print FILENAME ":" FNR ": " what > "/dev/stderr"; failed = 1 }
/^program / { in_program = 1; next }
in_program && /^[ \t]+[a-z_]+[ \t]+[A-Z0-9_]+\([a-z_]+\)[ \t]*=[ \t]*[0-9]+;/ {
    line = $0
    sub(/\/\*.*/, "", line)
    gsub(/[();=]/, " ", line)
    split(line, word, " ")
    result = word[1]; name = word[2]; arguments = word[3]; number = word[4]
    if (arguments == "void") arguments = "ctl_nothing"
    if (result == "void") fail(name " has no result")
    if (number in used) fail(name " and " used[number] " both have number " number)
    if (number == 0) fail(name " has number 0, which is NULL in every program")
    used[number] = name
    body = body sprintf(" \\\n    X(%s, %s, %s, %s)", number, name, arguments, result)
    if (number + 0 > last) last = number + 0
    count++
    next
}
in_program && /\(.*=/ { fail("not understood: " $0) }
END {
    if (count == 0) fail("no procedures found")
    if (failed) exit 1
    print "/* Made by procedures.awk from control_prot.x. */"
    print "#ifndef FLYT_CONTROL_PROCEDURES_H"
    print "#define FLYT_CONTROL_PROCEDURES_H"
    print ""
    print "enum { CTL_LAST_PROCEDURE = " last " };"
    print ""
    print "#define CTL_PROCEDURES(X)" body
    print ""
    print "#endif"
}
