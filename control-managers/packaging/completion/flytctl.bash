# bash completion for flytctl, flyt-run, flyt-local, cricket-rpc-server and the daemons. Not installed: `. flytctl.bash`.
#
# bash splits words at = and : (COMP_WORDBREAKS) and replaces only the last piece by what it is given. So the words are
# put together again here (_flyt_words), and of each candidate what stands there already is taken off (_flyt_reply).
# shellcheck disable=SC2207 # candidates have no blanks, but file names, which readline completes

# Sets words, up to the cursor, and cur, the one being written.
_flyt_words() {
    local line=${COMP_LINE:0:COMP_POINT} i word
    words=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ ${#words[@]} -eq 0 || $line == [[:space:]]* ]]; then
            line=${line#"${line%%[![:space:]]*}"}
            words+=('')
        fi
        [[ $i -lt $COMP_CWORD ]] || word=$line
        words[-1]+=$word
        line=${line#"$word"}
    done
    cur=${words[-1]}
}

# Offers the candidates of "$@" that continue $1, which is cur or the value behind its =. A candidate :file, :dir, :user or
# :nospace says what to do instead, or besides.
_flyt_reply() {
    local begun=$1 each there='' splits=${COMP_WORDBREAKS//[^:=]/}
    shift
    COMPREPLY=()
    # shellcheck disable=SC2295 # a set of characters
    [[ -z $splits ]] || there=${begun%"${begun##*[$splits]}"}
    for each; do
        case $each in
            :nospace) compopt -o nospace 2>/dev/null ;;
            :file) compopt -o default 2>/dev/null; COMPREPLY=(); return ;;
            :dir) compopt -o dirnames 2>/dev/null; COMPREPLY=(); return ;;
            :user) COMPREPLY=($(compgen -u -- "$begun")); return ;;
            "$begun"*) COMPREPLY+=("${each#"$there"}") ;;
        esac
    done
}

_flyt_value() { [[ $cur == --*=* ]] && printf '%s' "${cur#*=}" || printf '%s' "$cur"; }

_flytctl() {
    local words cur reply
    _flyt_words
    mapfile -t reply < <("${words[0]}" complete "${words[@]:1}" 2>/dev/null)
    _flyt_reply "$(_flyt_value)" "${reply[@]}"
}

# Offers the options that the program's own --help names.
_flyt_options() {
    local options
    mapfile -t options < <("${words[0]}" --help 2>/dev/null | grep -o -e '--[a-z][a-z-]*' | sort -u)
    _flyt_reply "$cur" "${options[@]}"
}

# The option that cur is the value of: the word before, or what stands before the = in cur.
_flyt_option() {
    if [[ $cur == --*=* ]]; then
        printf '%s' "${cur%%=*}"
    elif [[ ${#words[@]} -gt 1 ]]; then
        printf '%s' "${words[-2]}"
    fi
}

# Sets server, to candidates for an address of a GPU server.
_flyt_server() {
    case $1 in
        unix://*|shm://*) server=(:file) ;;
        local:*) server=(local:software local:nvidia local:null) ;;
        *) server=(:nospace unix:// tcp:// tls:// shm:// local:) ;;
    esac
}

_flyt_run() {
    local words cur server i value
    _flyt_words
    value=$(_flyt_value)
    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        case ${words[i]} in
            --server) i=$((i + 1)) ;;
            --) i=$((i + 1)); break ;;
            -*) ;;
            *) break ;;
        esac
    done
    if [[ $i -gt $((${#words[@]} - 1)) || $cur == --server=* ]]; then
        _flyt_server "$value"
        _flyt_reply "$value" "${server[@]}"
    elif [[ $i -lt $((${#words[@]} - 1)) ]]; then
        # The program's own completion, if bash-completion is here to find it; else files.
        local at=$i
        while [[ $at -lt $COMP_CWORD && ${COMP_WORDS[at]} != "${words[i]}" ]]; do at=$((at + 1)); done
        if declare -F _comp_command_offset >/dev/null; then _comp_command_offset "$at"
        elif declare -F _command_offset >/dev/null; then _command_offset "$at"
        else _flyt_reply "$cur" :file; fi
    elif [[ $cur == -* && ${words[i - 1]} != -- ]]; then
        _flyt_options
    else
        compopt -o filenames 2>/dev/null
        COMPREPLY=($(compgen -c -- "$cur") $(compgen -f -- "$cur"))
    fi
}

_flyt_local() {
    local words cur value
    _flyt_words
    value=$(_flyt_value)
    case $(_flyt_option) in
        --gpu) _flyt_reply "$value" auto software nvidia; return ;;
        --nodes|--sms|--memory) COMPREPLY=(); return ;;
    esac
    if [[ $cur == -* ]]; then
        _flyt_options
    elif [[ ${#words[@]} -eq 2 ]]; then
        _flyt_reply "$cur" up status down
    else
        _flyt_reply "$cur" :dir
    fi
}

_flyt_rpc_server() {
    local words cur server value
    _flyt_words
    value=$(_flyt_value)
    case $(_flyt_option) in
        --gpu) _flyt_reply "$value" auto nvidia software null ;;
        --listen) _flyt_server "$value"; _flyt_reply "$value" "${server[@]/local:/}" ;;
        --tls-certificate|--tls-key|--tls-ca|--ticket-key|--bar) _flyt_reply "$value" :file ;;
        --ticket-state) _flyt_reply "$value" :dir ;;
        --workers|--host-memory|--ticket-server|--listen-fd) COMPREPLY=() ;;
        *) _flyt_options ;;
    esac
}

_flyt_daemon() {
    local words cur
    _flyt_words
    case $(_flyt_option) in
        --config|-c) _flyt_reply "$(_flyt_value)" :file ;;
        *) _flyt_options ;;
    esac
}

complete -F _flytctl flytctl
complete -F _flyt_run flyt-run
complete -F _flyt_local flyt-local
complete -F _flyt_rpc_server cricket-rpc-server
complete -F _flyt_daemon flyt-cluster-manager flyt-node-manager flyt-client-manager
