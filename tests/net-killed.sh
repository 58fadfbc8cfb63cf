#!/bin/bash
# Clients that are killed in the middle of writing, 500 times, while others verify: what they held is given back,
# nothing leaks, and no write of theirs lands after one of the client that comes next.
# timeout: 600
. "$(dirname "$0")/functions.sh"
requires python3 fio
export PYTHONDONTWRITEBYTECODE=1

truncate -s 256M "$tmp/disk.img"

run()
{
	start_liftd -x disk "$@" "$tmp/disk.img"
	descriptors=$(ls "/proc/$LIFTD_PID/fd" | wc -l)
	fio --name=v --ioengine=nbd --uri="nbd+unix:///disk?socket=$SOCK" --rw=randrw --bs=4k --iodepth=8 --size=32M \
		--offset=128M --number_ios=6000 --verify=crc32c --verify_fatal=1 --verify_backlog=256 \
		--verify_state_save=0 --output="$tmp/fio" \
		>/dev/null 2>&1 &
	local fio=$!
	python3 "$tests/helpers/net_killed.py" "$SOCK" "$kills"
	wait "$fio" || { tail -n 30 "$tmp/fio"; fail "fio verify, beside clients that were killed: $*"; }
	python3 "$tests/helpers/net_settled.py" "$CTL" $((kills / 2))
	wait_for "[[ \$(ls /proc/$LIFTD_PID/fd | wc -l) -eq $descriptors ]]" 10
	stop_liftd
}

kills=200
run -o scheduler=cfq
run -o scheduler=deadline -o cache=none -o aio=threads
kills=100
run -o scheduler=noop -o cache=none -o queue_depth=2
