# Completion of troupe for fish. To load it in every shell:
#   troupe completion fish > ~/.config/fish/completions/troupe.fish
function __troupe_complete
    set -l given (commandline -opc)
    set -l program $given[1]
    set -e given[1]
    set -l current (commandline -ct)
    for line in ($program completion words -- $given "$current" 2>/dev/null)
        switch $line
            case ':files'
                __fish_complete_path "$current"
            case ':dirs'
                __fish_complete_directories "$current"
            case '*'
                echo $line
        end
    end
end
complete -c troupe -f -a '(__troupe_complete)'
