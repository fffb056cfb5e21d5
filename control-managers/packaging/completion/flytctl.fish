# fish completion for flytctl: flytctl itself knows what may follow (control-managers/flytctl/complete.c).
function __flytctl_complete
    set -l words (commandline --tokenize --cut-at-cursor --current-process)
    set -l begun (commandline --current-token --cut-at-cursor)
    set -l value (string replace --regex '^--[a-z-]+=' '' -- $begun)
    set -l option (string replace -- $value '' $begun)
    set -l reply ($words[1] complete $words[2..-1] $begun 2>/dev/null)
    switch "$reply[1]"
        case ':file'
            set -l source (string match --regex '^file:' -- $value)
            __fish_complete_path (string replace --regex '^file:' '' -- $value) | string replace --regex '^' -- "$option$source"
        case ':dir'
            __fish_complete_directories $value '' | string replace --regex '^' -- "$option"
        case ':user'
            __fish_complete_users | string replace --regex '^' -- "$option"
        case '*'
            for word in $reply
                switch $word
                    case ':*'
                    case '*'
                        if test "$value" != "$begun"
                            echo $option$word
                        else
                            echo $word
                        end
                end
            end
    end
end
complete --command flytctl --no-files --arguments '(__flytctl_complete)'
