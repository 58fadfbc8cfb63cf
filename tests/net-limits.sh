#!/bin/bash
# Limits of connections, requests and memory: never exceeded, nobody is refused or forgotten for them.
. "$(dirname "$0")/functions.sh"
requires python3
export PYTHONDONTWRITEBYTECODE=1
truncate -s 64M "$tmp/disk.img"
sanitized=()
! grep -qaE '__(asan|tsan)_init' "$BUILD/liftd" || sanitized=(sanitized)
[[ $(ulimit -n) == unlimited || $(ulimit -n) -ge 2100 ]] || ulimit -n 2100

check()
{
	local what=$1 used
	shift
	start_liftd -x disk "$@" "$tmp/disk.img"
	if [[ $what == descriptors ]]; then
		used=$(ls "/proc/$LIFTD_PID/fd" | wc -l)
		prlimit --pid "$LIFTD_PID" --nofile=$((used + 25)):$((used + 25))
	fi
	python3 "$tests/helpers/net_limits.py" "$what" "$SOCK" "$CTL" "${sanitized[@]}"
	stop_liftd
}

check connections -o max_connections=5
if command -v prlimit >/dev/null; then
	check descriptors --threads 2
	grep -q 'warning: cannot accept' "$LIFTD_LOG" || fail "nothing was said about descriptors"
fi
check requests -o nr_requests=4 -o fault_delay=20ms -o scheduler=noop
check memory -o memory=64M -o client_key=connection -o fault_delay=5ms
check crowd -o fault_delay=1ms -o scheduler=noop -o nomerges=2
check gone -o nr_requests=4 -o fault_delay=3s -o queue_depth=1 -o nomerges=2
