#!/bin/bash
# Limits of connections, requests and memory: never exceeded, nobody is refused or forgotten for them.
. "$(dirname "$0")/functions.sh"
requires python3
export PYTHONDONTWRITEBYTECODE=1
truncate -s 64M "$tmp/disk.img"

check()
{
	local what=$1
	shift
	start_liftd -x disk "$@" "$tmp/disk.img"
	python3 "$tests/helpers/net_limits.py" "$what" "$SOCK" "$CTL"
	stop_liftd
}

check connections -o max_connections=5
check requests -o nr_requests=4 -o fault_delay=20ms -o scheduler=noop
check memory -o memory=64M -o client_key=connection -o fault_delay=5ms
