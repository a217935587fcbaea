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

# The daemon may have died before it could tell of a command, and the command's
# own children may have dropped the mark: what is marked and leads a group counts
# as told.
marked() {
	for env in $(grep -lsF -e "$1" /proc/[0-9]*/environ); do
		pid=${env#/proc/}
		echo "${pid%/environ}"
	done
}
for pid in $(marked "$1"); do
	live="$live$pid "
done

rest() {
	for group in $live; do
		kill -s 0 -- "-$group" 2>/dev/null && echo "-$group"
	done
	marked "$1"
}

for signal in TERM KILL; do
	pids=$(rest "$1")
	[ -n "$pids" ] || continue
	for pid in $pids; do
		kill -s "$signal" -- "$pid" 2>/dev/null
	done
	[ "$signal" = KILL ] || sleep 1
done
