#!/bin/sh
# flyt-run: what it sets, what it passes on, how it ends.
bin=$(cd "$1" && pwd)
count=0
check() {   # name, expected, got
    count=$((count + 1))
    if [ "$2" = "$3" ]; then echo "ok $count - $1"; else echo "not ok $count - $1"; echo "# expected: $2"; echo "# got: $3"; fi
}
unset FLYT_SERVER FLYT_STATS LD_LIBRARY_PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A program that exports the symbol of ThreadSanitizer, as clang builds it. $1: a flag of the compiler; $2: the option
with_tsan() {
    echo 'int puts(const char *); char *getenv(const char *); void __tsan_init(void) { }
          int main(void) { const char *set = getenv("TSAN_OPTIONS"); return puts(set ? set : "none") < 0; }' |
        ${CC:-cc} "$1" -x c -o "$work/program" - && TSAN_OPTIONS=$2 "$bin/flyt-run" "$work/program"
}
echo 1..15
check "library path" "$bin/nccl:$bin/cudart:$bin" "$("$bin/flyt-run" sh -c 'echo $LD_LIBRARY_PATH')"
check "in front of the program's own" "$bin/nccl:$bin/cudart:$bin:/x:/y" "$(LD_LIBRARY_PATH=/x:/y "$bin/flyt-run" sh -c 'echo $LD_LIBRARY_PATH')"
check "server" "tcp://h:1" "$("$bin/flyt-run" --server tcp://h:1 sh -c 'echo $FLYT_SERVER')"
check "server with =" "local:" "$("$bin/flyt-run" --server=local: sh -c 'echo $FLYT_SERVER')"
check "server of the environment" "unix:///z" "$(FLYT_SERVER=unix:///z "$bin/flyt-run" sh -c 'echo $FLYT_SERVER')"
check "stats" "1" "$("$bin/flyt-run" --stats sh -c 'echo $FLYT_STATS')"
check "arguments stay as they are" "--server|a b|" "$("$bin/flyt-run" -- sh -c 'printf "%s|" "$@"' x --server 'a b')"
"$bin/flyt-run" sh -c 'exit 7'; check "the program's status" 7 $?
"$bin/flyt-run" /nonexistent/program 2>/dev/null; check "not found" 127 $?
"$bin/flyt-run" / 2>/dev/null; check "not executable" 126 $?
"$bin/flyt-run" --nonsense true 2>/dev/null; check "wrong option" 125 $?
check "help" "NAME" "$("$bin/flyt-run" --help | head -1)"
check "ThreadSanitizer inside the program" "ignore_noninstrumented_modules=1" "$(with_tsan -rdynamic)"
check "with the user's own options" "ignore_noninstrumented_modules=1:a=b" "$(with_tsan -rdynamic a=b)"
check "no such symbol, no such option" "a=b" "$(with_tsan -O1 a=b)"
