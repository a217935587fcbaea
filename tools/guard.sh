# Reads from the daemon which process groups live (+N) and which are gone (-N).
# The end of input means that the daemon is gone, however it went: then what is
# left of its commands is ended; so it is, without that end, when nothing was read for
# as many seconds as were said last (=N). $1 is in the environment of all of them.
trap '' HUP INT TERM
live=' '

# The daemon may have died before it could tell of a command, and the command's
# own children may have dropped the mark: what is marked and leads a group counts
# as told.
marked() {
	for env in $(grep -lsF -e "$1" /proc/[0-9]*/environ); do
		pid=${env#/proc/}
		echo "${pid%/environ}"
	done
}

rest() {
	for group in $live; do
		kill -s 0 -- "-$group" 2>/dev/null && echo "-$group"
	done
	marked "$1"
}

end() {
	for pid in $(marked "$1"); do
		live="$live$pid "
	done
	for signal in TERM KILL; do
		pids=$(rest "$1")
		[ -n "$pids" ] || continue
		for pid in $pids; do
			kill -s "$signal" -- "$pid" 2>/dev/null
		done
		[ "$signal" = KILL ] || sleep 1
	done
}

timer=
disarm() {
	[ -n "$timer" ] || return
	kill -s KILL "$timer" 2>/dev/null
	wait "$timer" 2>/dev/null
	timer=
}
while read -r op group; do
	case $op in
	+) live="$live$group " ;;
	-) live="${live%%" $group "*} ${live#*" $group "}" ;;
	=)
		disarm
		[ "$group" = 0 ] || {
			{
				while [ "$group" -gt 0 ]; do
					sleep 1 # short: who is killed leaves it behind
					group=$((group - 1))
				done
				end "$1"
			} <&- >/dev/null 2>&1 &
			timer=$!
		}
		;;
	esac
done
disarm
end "$1"
