#!/bin/bash
# Power cuts: liftd with a volatile write cache is killed with -9, again and again, under a client that remembers what
# it was promised (tests/helpers/lossclient.c) and checks it when the server is back; through switches of the scheduler,
# connections that are dropped, failing syncs and operations, and stops in good order.
# timeout: 300
. "$(dirname "$0")/functions.sh"
client=$BUILD/tests/lossclient
[[ -x $client ]] || fail "$client is not built"
schedulers=(noop deadline cfq)

# power_cuts COUNT OPTION...: OPTIONs of liftd, each after -o.
power_cuts()
{
	local count=$1 i options=() pid name=$* STATUS=0
	shift
	# The last flush may fail, and what it was about is lost: an exit status of its own.
	[[ $* != *error_every* ]] || STATUS="0 1"
	for i in "$@"; do options+=(-o "$i"); done
	rm -f "$tmp/disk.img" "$tmp/clean"
	truncate -s 1M "$tmp/disk.img"
	: >"$tmp/said"
	start_liftd -x disk -o fault_volatile=1 -o max_sectors_kb=16 "${options[@]}" "$tmp/disk.img"
	"$client" "$SOCK" "$RANDOM" "$tmp/clean" >"$tmp/said" 2>"$tmp/complaint" &
	pid=$!
	_others[$pid]=1
	for ((i = 1; i <= count; i++)); do
		# Checked after the last power cut, and back at work.
		wait_for '! kill -0 $pid 2>/dev/null || [[ $(wc -l <"$tmp/said") -ge $i ]]' 60
		kill -0 "$pid" 2>/dev/null || fail "$name: $(cat "$tmp/complaint")"
		sleep "0.$((RANDOM % 3))$((RANDOM % 10))"
		ctl scheduler disk "${schedulers[RANDOM % 3]}" >/dev/null
		sleep "0.0$((RANDOM % 10))"
		if ((i % 5)); then
			rm -f "$tmp/clean"
			kill_liftd
		else
			: >"$tmp/clean"
			stop_liftd
			[[ $STOPPED -eq 0 ]] || rm "$tmp/clean"
		fi
		start_liftd -x disk -o fault_volatile=1 -o max_sectors_kb=16 "${options[@]}" "$tmp/disk.img"
	done
	wait_for '! kill -0 $pid 2>/dev/null || [[ $(wc -l <"$tmp/said") -ge $i ]]' 60
	sleep 0.2
	kill -TERM "$pid" 2>/dev/null
	wait "$pid" || fail "$name: $(cat "$tmp/complaint")"
	unset "_others[$pid]"
	stop_liftd
	echo "$name: $(tail -n 1 "$tmp/said")"
}

power_cuts 11 client_key=connection
power_cuts 11 aio=threads cache=none fault_seed=5 queue_depth=3
power_cuts 11 fault_delay=300us fault_flush_delay=2ms fault_seed=77
power_cuts 11 fault_sync_error_every=9
power_cuts 11 fault_error_every=23 fault_short_every=5 fault_errno=ENOSPC client_key=uid
power_cuts 6 cache=writethrough fault_error_every=31
