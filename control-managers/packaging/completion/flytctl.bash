# bash completion for flytctl: flytctl itself knows what may follow.
_flytctl() {
    local words reply
    words=("${COMP_WORDS[@]:1:COMP_CWORD}")
    reply=$("${COMP_WORDS[0]}" complete "${words[@]}" 2>/dev/null)
    if [ "$reply" = file ]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
    else
        mapfile -t COMPREPLY <<<"$reply"
        [ -n "$reply" ] || COMPREPLY=()
    fi
}
complete -F _flytctl flytctl
