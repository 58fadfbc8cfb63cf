#!/bin/bash
# An error that somebody must know of has reached nobody if it was sent and not read: a failed sync is told again, or, when
# the server stops, by its exit status.
. "$(dirname "$0")/functions.sh"
requires python3
export PYTHONDONTWRITEBYTECODE=1

make_image "$tmp/disk.img" 1M
port=$(free_port)
start_liftd -p "$port" -x disk -o fault_sync_error_every=3 "$tmp/disk.img"
python3 "$tests/helpers/net_unheard.py" "$CTL" "$SOCK" "127.0.0.1:$port"
STATUS=1 stop_liftd
grep -q "export 'disk': a flush failed (Input/output error), and ip:127.0.0.1 has not heard of it" "$LIFTD_LOG" ||
	fail "nothing was said about who has not heard"
