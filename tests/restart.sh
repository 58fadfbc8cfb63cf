#!/bin/bash
# A server that was killed in the middle of its I/O can be started again at once: nothing that the kernel keeps of it for a
# moment, above all the lock on its image, is in the way.
. "$(dirname "$0")/functions.sh"
requires fio

in_flight()
{
	[[ $(ctl --json list) =~ \"in_flight\":([1-9]) ]]
}

make_image "$tmp/disk.img" 64M
for cache in none writeback; do
	start_liftd -o cache=$cache -o queue_depth=32 "$tmp/disk.img"
	for i in $(seq 8); do
		background fio --name=load --ioengine=nbd --uri="$URI" --rw=randrw --bs=64k --iodepth=32 --fsync=16 --size=64M \
			--time_based --runtime=60 --output="$tmp/fio" >/dev/null 2>&1
		wait_for in_flight 20
		kill_liftd
		start_liftd -o cache=$cache -o queue_depth=32 "$tmp/disk.img"
		kill -KILL "$BG_PID" 2>/dev/null || :
		wait "$BG_PID" 2>/dev/null || :
		unset "_others[$BG_PID]"
	done
	stop_liftd
done
