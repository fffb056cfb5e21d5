#!/bin/sh
# classes.sh: classes.awk accepts the protocol and refuses each kind of mistake, naming it.
set -eu
root=$(dirname "$0")/../..
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
number=0
failed=0

result() {      # ok|not-ok description
    number=$((number + 1))
    if [ "$1" = ok ]; then echo "ok $number - $2"; else echo "not ok $number - $2"; failed=1; fi
}

run() { awk -f "$root/cpu/rpc/classes.awk" "$1" > "$work/out" 2> "$work/err"; }

# mistake DESCRIPTION SED-SCRIPT WORDS-OF-THE-MESSAGE
mistake() {
    sed "$2" "$root/cpu/rpc/cpu_rpc_prot.x" > "$work/changed.x"
    if cmp -s "$root/cpu/rpc/cpu_rpc_prot.x" "$work/changed.x"; then result not-ok "$1 (the test changed nothing)"
    elif run "$work/changed.x"; then result not-ok "$1 was accepted"
    elif ! grep -q "$3" "$work/err"; then result not-ok "$1: the message does not say '$3'"; sed 's/^/# /' "$work/err"
    else result ok "$1"
    fi
}

echo 1..12
if run "$root/cpu/rpc/cpu_rpc_prot.x" && grep -q 'X(1, FLYT_HELLO, flyt_hello, SYNC, hello_args, hello_result)' "$work/out"
then result ok "the protocol"; else result not-ok "the protocol"; sed 's/^/# /' "$work/err"; fi
listed=$(grep -c '    X([0-9]' "$work/out")
there=$(sed -n '/^program/,$p' "$root/cpu/rpc/cpu_rpc_prot.x" | grep -c 'FLYT_[A-Z_]*(.*) *= *[0-9]*;')
if [ "$listed" -eq "$there" ]; then
    result ok "all $there procedures are listed"
else
    result not-ok "$listed of $there procedures are listed"
fi
sequenced=$(grep -c '    X([A-Z]' "$work/out")
steps_out=$(grep -c 'AT_ONCE$' "$root/cpu/rpc/cpu_rpc_prot.x")
if [ "$steps_out" -eq 2 ] && [ "$sequenced" -eq $((there - 2)) ] &&
   grep -q 'X(LAUNCH, launch, launch_args, void)' "$work/out"; then
    result ok "all but EVENTS and ABANDON keep to the sequence"
else
    result not-ok "$sequenced procedures keep to the sequence, $steps_out do not"
fi
mistake "a word behind the class" 's/\(FLYT_CLASS_FLYT_EVENTS .*\)AT_ONCE/\1SOON/' 'FLYT_EVENTS has the word SOON'
mistake "arguments of another name" 's/launch_args/launch_words/' 'launch_words does not end in _args'
mistake "procedure without a class" '/FLYT_CLASS_FLYT_LAUNCH /d' 'FLYT_LAUNCH has no class'
mistake "class of no procedure" 's/FLYT_CLASS_FLYT_LAUNCH /FLYT_CLASS_FLYT_LUNCH /' 'FLYT_LUNCH, which is no procedure'
mistake "ASYNC with a result" 's/\(FLYT_CLASS_FLYT_HELLO *\)SYNC/\1ASYNC/' 'FLYT_HELLO is ASYNC and has a result'
mistake "SYNC without a result" 's/\(FLYT_CLASS_FLYT_LAUNCH *\)ASYNC/\1SYNC/' 'FLYT_LAUNCH is SYNC and has no result'
mistake "unknown class" 's/\(FLYT_CLASS_FLYT_LAUNCH *\)ASYNC/\1LATER/' 'FLYT_LAUNCH has class LATER'
mistake "a number used twice" 's/\(FLYT_WINDOW(window_args) *= \)2/\11/' 'both have number 1'
mistake "a line that is not understood" 's/FLYT_WINDOW(window_args)/FLYT_WINDOW(window_args, int)/' 'not understood'
exit $failed
