#!/bin/bash
# liftctl client ID disconnect, drain: under load, with connections on all loops, a hundred times each; others notice nothing, and
# nothing is held back.
. "$(dirname "$0")/functions.sh"
requires python3 "$BUILD/liftctl"
export PYTHONDONTWRITEBYTECODE=1

run()
{
	local where=$1 rounds=$2
	shift 2
	truncate -s 16M "$tmp/disk.img"
	start_liftd --threads 4 -x disk -p "$port" -o fault_delay=200us -o nr_requests=16 "$@" "$tmp/disk.img"
	descriptors=$(ls "/proc/$LIFTD_PID/fd" | wc -l)
	python3 "$tests/helpers/control_clients.py" "$CTL" "$where" "$rounds"
	python3 "$tests/helpers/net_settled.py" "$CTL" $((32 * rounds))
	wait_for "[[ \$(ls /proc/$LIFTD_PID/fd | wc -l) -eq $descriptors ]]" 10
	stop_liftd
	rm "$tmp/disk.img"
}

port=$(free_port)
run "$tmp/liftd.sock" 75 -o queue_depth=4
run "127.0.0.1:$port" 25 -o queue_depth=2 -s deadline
