#!/bin/bash
# Clients that are killed in the middle of writing, 500 times, while others verify: what they held is given back,
# nothing leaks, and no write of theirs lands after one of the client that comes next.
# timeout: 600
. "$(dirname "$0")/functions.sh"
requires python3 fio
export PYTHONDONTWRITEBYTECODE=1

truncate -s 256M "$tmp/disk.img"

# Bystander number $1 at the URI $2.
verify()
{
	fio --name="v$1" --ioengine=nbd --uri="$2" --rw=randrw --bs=4k --iodepth=8 --size=24M --offset=$((128 + 32 * $1))M \
		--number_ios=4000 --verify=crc32c --verify_fatal=1 --verify_backlog=256 --verify_state_save=0 \
		--output="$tmp/fio$1" >/dev/null 2>&1
}

run()
{
	local port fio=() i
	port=$(free_port)
	start_liftd -x disk -p "$port" "$@" "$tmp/disk.img"
	descriptors=$(ls "/proc/$LIFTD_PID/fd" | wc -l)
	verify 0 "nbd+unix:///disk?socket=$SOCK" &
	fio+=($!)
	verify 1 "nbd://127.0.0.1:$port/disk" &
	fio+=($!)
	python3 "$tests/helpers/net_killed.py" "$SOCK" "$kills"
	for i in 0 1; do
		wait "${fio[i]}" || { tail -n 30 "$tmp/fio$i"; fail "fio verify, beside clients that were killed: $*"; }
	done
	python3 "$tests/helpers/net_settled.py" "$CTL" "$kills"
	wait_for "[[ \$(ls /proc/$LIFTD_PID/fd | wc -l) -eq $descriptors ]]" 10
	stop_liftd
}

kills=200
run -o scheduler=cfq
kills=100
run -o scheduler=deadline -o cache=none -o aio=threads
run -o scheduler=cfq -o cache=none -o aio=threads -o client_key=uid
run -o scheduler=noop -o cache=none -o queue_depth=2
