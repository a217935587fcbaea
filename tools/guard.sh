# Reads from the daemon which process groups live (+N) and which are gone (-N).
# The end of input means that the daemon is gone, however it went: then what is
# left of its commands is ended. $1 is in the environment of all of them.
trap '' HUP INT TERM
live=' '
while read -r op group; do
	case $op in
	+) live="$live$group " ;;
	-) live="${live%%" $group "*} ${live#*" $group "}" ;;
	esac
done

rest() {
	for group in $live; do
		kill -s 0 -- "-$group" 2>/dev/null && echo "-$group"
	done
	for env in $(grep -lsF -e "$1" /proc/[0-9]*/environ); do
		pid=${env#/proc/}
		echo "${pid%/environ}"
	done
}

for signal in TERM KILL; do
	pids=$(rest "$1")
	[ -n "$pids" ] || continue
	for pid in $pids; do
		kill -s "$signal" -- "$pid" 2>/dev/null
	done
	[ "$signal" = KILL ] || sleep 1
done
