# run_common.sh: what the run scripts share. RUN is what a program is started with: nothing (default) runs it natively,
# on this machine's GPU (or, after `make install-client-lib`, on Flyt's), RUN=flyt on the GPU server that the client
# manager names, RUN=URI on the one there, RUN=local in process (RUN=local:software on the software GPU).
here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")
programs=${PROGRAMS:-$top/build/bench}
flyt_run=$top/bin/flyt-run
[ -x "$flyt_run" ] || flyt_run=flyt-run       # installed

run() { # program arguments...
  local program=$1; shift
  case ${RUN:-} in
    '')    "$programs/$program" "$@" ;;
    flyt)  "$flyt_run" "$programs/$program" "$@" ;;
    local) "$flyt_run" --server local: "$programs/$program" "$@" ;;
    *)     "$flyt_run" --server "$RUN" "$programs/$program" "$@" ;;
  esac
}

time_us() { sed -n 's/^time_us //p'; }

# Starts the function `one NUMBER` for 1 … $1 in the background, lets all go at once, waits, and prints the seconds that
# all took together. The processes wait for a file's lock, which is held until each has said "ready".
together() { # processes folder
  local lock=$2/start status=0 began i pids=()
  : > "$lock"
  exec 9<"$lock"
  flock 9
  for ((i = 1; i <= $1; i++)); do
    one "$i" "$lock" 9<&- > "$2/out.$i" &
    pids+=($!)
  done
  for ((i = 1; i <= $1; i++)); do
    until grep -q '^ready$' "$2/out.$i" 2>/dev/null; do
      kill -0 "${pids[i - 1]}" 2>/dev/null || { echo "process $i ended before the start" >&2; break; }
      sleep 0.02
    done
  done
  began=$(date +%s%N)
  exec 9<&-
  for i in "${pids[@]}"; do wait "$i" || status=1; done
  echo "all_us $(( ($(date +%s%N) - began) / 1000 ))"
  return "$status"
}
