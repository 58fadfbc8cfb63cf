#!/bin/bash
# Stopping: what was received is finished and answered, nothing more is taken in, and it does not take for ever.
. "$(dirname "$0")/functions.sh"
requires python3
export PYTHONDONTWRITEBYTECODE=1

for how in SIGTERM SIGINT control; do
	rm -f "$tmp/disk.img"
	truncate -s 16M "$tmp/disk.img"
	start_liftd -x disk -o fault_delay=20ms -o queue_depth=2 --pid-file "$tmp/pid" "$tmp/disk.img"
	[[ $(cat "$tmp/pid") == "$LIFTD_PID" ]] || fail "pid file: $(cat "$tmp/pid")"
	python3 "$tests/helpers/net_stop.py" "$how" "$SOCK" "$CTL" "$LIFTD_PID"
	stop_liftd
	[[ ! -e $SOCK && ! -e $CTL && ! -e $tmp/pid ]] || fail "$how: files are left behind"
	python3 - "$tmp/disk.img" <<-'PY'
	import sys
	with open(sys.argv[1], 'rb') as f:
	    for i in range(30):
	        f.seek(i * 8192)
	        assert f.read(4096) == bytes([i + 1]) * 4096, i
	PY
done

# A last flush that fails is an exit status, and told.
start_liftd -x disk -o fault_sync_error_every=1 "$tmp/disk.img"
qemu-io -f raw -t unsafe -c 'write 0 4096' "nbd+unix:///disk?socket=$SOCK" >/dev/null
STATUS=1 stop_liftd
grep -q "export 'disk': the last flush failed, .*: Input/output error" "$LIFTD_LOG" || fail "nothing was said about the last flush"

# What takes longer than drain_timeout is left behind.
start_liftd -x disk -o fault_delay=60s -o drain_timeout=500ms "$tmp/disk.img"
background qemu-io -f raw -c 'read 0 4096' "nbd+unix:///disk?socket=$SOCK" >/dev/null 2>&1
wait_for "ctl stats --json disk 2>/dev/null | grep -q '\"requests_held\": *1'" 20
began=$SECONDS
stop_liftd
[[ $((SECONDS - began)) -lt 20 ]] || fail "drain_timeout=500ms took $((SECONDS - began)) s"
grep -q drain_timeout "$LIFTD_LOG" || fail "nothing was said about drain_timeout"

# Told twice, it does not wait: neither for requests, nor for the flush.
for what in requests flush; do
	INSTANCE=$what start_liftd -x disk -o fault_delay=60s -o drain_timeout=100s "$tmp/disk.img"
	if [[ $what == requests ]]; then
		background qemu-io -f raw -c 'read 0 4096' "nbd+unix:///disk?socket=$SOCK" >/dev/null 2>&1
		wait_for "ctl stats --json disk 2>/dev/null | grep -q '\"requests_held\": *1'" 20
	fi
	kill -TERM "$LIFTD_PID"
	wait_for "grep -q stopping '$LIFTD_LOG'" 10 # two signals at once would be one
	began=$SECONDS
	stop_liftd
	[[ $((SECONDS - began)) -lt 20 ]] || fail "the second signal was not heard"
	grep -q 'told to stop again' "$LIFTD_LOG" || fail "the second signal was not heard"
done
