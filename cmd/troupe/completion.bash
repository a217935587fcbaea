# Completion of troupe for bash. To load it in every shell, add to ~/.bashrc:
#   source <(troupe completion bash)
_troupe() {
	local IFS=$'\n' line current=${COMP_WORDS[COMP_CWORD]}
	if [[ $current == "=" ]]; then
		current=
	fi
	COMPREPLY=()
	while read -r line; do
		case $line in
		:files)
			compopt -o filenames 2>/dev/null
			COMPREPLY+=($(compgen -f -- "$current"))
			;;
		:dirs)
			compopt -o filenames 2>/dev/null
			COMPREPLY+=($(compgen -d -- "$current"))
			;;
		*) COMPREPLY+=("${line%%$'\t'*}") ;;
		esac
	done < <("${COMP_WORDS[0]/#\~/$HOME}" completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _troupe troupe
