#compdef troupe
# Completion of troupe for zsh. To load it in every shell, write it as _troupe into a directory of $fpath, or add to
# ~/.zshrc, after compinit:
#   source <(troupe completion zsh)
_troupe() {
	local line tab=$'\t'
	local -a found
	while IFS= read -r line; do
		case $line in
		:files)
			compset -P '-*='
			_files
			;;
		:dirs)
			compset -P '-*='
			_files -/
			;;
		*$tab*) found+=("${line%%$tab*}:${line#*$tab}") ;;
		*) found+=("$line") ;;
		esac
	done < <("${(Q)words[1]}" completion words -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)
	if (( $#found )); then
		_describe 'troupe' found
	fi
}
if [[ $funcstack[1] == _troupe ]]; then
	_troupe "$@"
else
	compdef _troupe troupe
fi
