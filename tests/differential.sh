#!/bin/bash
# The same random requests to liftd and to nbdkit's memory plugin: errors and bytes are equal, and zeroes are zeroes.
#
# SEED=N sends another stream; TIME=N (seconds, or with m or h behind it) is for each of the servers below, instead
# of 2 s: TIME=10m BUILD=build tests/differential.sh
# timeout: 600
. "$(dirname "$0")/functions.sh"
requires nbdkit

seconds=$(duration "${TIME:-2}")
seed=${SEED:-1}

# Compare a new disk of this size, under these options of liftd.
compare()
{
	local size=$1 other=$tmp/other.sock
	shift
	rm -f "$tmp/img" "$other" "$tmp/other.pid"
	truncate -s "$size" "$tmp/img"
	start_liftd -x '' "$@" "$tmp/img"
	background nbdkit -f -U "$other" -P "$tmp/other.pid" memory "$size" 2>"$tmp/other.log"
	wait_for "[[ -e $tmp/other.pid ]]" 60
	"$BUILD/tests/differential" "$SOCK" "$other" "$size" "$seed" "$seconds"
	stop_liftd
	kill -TERM "$BG_PID"
	seed=$((seed + 1))
}

compare 8389842 -s noop
compare 8388608 -s deadline -o cache=none -o aio=threads
compare 8389842 -s cfq -o max_sectors_kb=16 -o max_discard_kb=64
compare 3145728 -s cfq -o cache=none -o disk_model=hdd7200
