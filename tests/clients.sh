#!/bin/bash
# Everybody's clients against every way to serve: schedulers, ways of doing I/O, cache modes, disks, sockets.
# By default a set of rows in which each pair of values meets at least once; FULL=1: all combinations.
# timeout: 1500
. "$(dirname "$0")/functions.sh"
requires nbdinfo nbdcopy qemu-img qemu-io fio python3

size=$((24 << 20))

# Rows "scheduler aio cache disk socket": the covering set is built greedily from the full product, and checked.
rows()
{
	python3 - "${FULL:-0}" <<'PY'
import itertools, sys
factors = (('noop', 'deadline', 'cfq'), ('io_uring', 'threads'), ('none', 'writeback', 'writethrough'),
           ('file', 'loop', 'hdd7200'), ('unix', 'tcp'))
every = list(itertools.product(*factors))
pairs = lambda row: {(i, row[i], j, row[j]) for i, j in itertools.combinations(range(len(row)), 2)}
left, chosen = set().union(*map(pairs, every)), []
while left and sys.argv[1] != '1':
    best = max(every, key=lambda row: len(pairs(row) & left))
    chosen.append(best)
    left -= pairs(best)
for row in chosen or every:
    print(*row)
PY
}

have_ring()
{
	[[ ! -r /proc/sys/kernel/io_uring_disabled || $(cat /proc/sys/kernel/io_uring_disabled) == 0 ]]
}

same()
{
	cmp "$1" "$2" || fail "$row: $3: contents differ"
}

# nbdcopy and qemu-img, in and out.
copies()
{
	nbdinfo --size "$URI" | grep -qx "$size" || fail "$row: nbdinfo: wrong size"
	nbdinfo "$URI" >"$tmp/info"
	local flag flags=(can_flush can_fua can_multi_conn can_zero)
	[[ $disk == hdd7200 ]] || flags+=(can_trim)
	for flag in "${flags[@]}"; do
		grep -q "$flag: true" "$tmp/info" || fail "$row: nbdinfo: no $flag"
	done
	nbdcopy --flush "$tmp/a" "$URI"
	nbdcopy "$URI" "$tmp/out"
	same "$tmp/a" "$tmp/out" "nbdcopy in and out"
	qemu-img convert -n -f raw -O raw "$tmp/b" "$URI"
	qemu-img compare -f raw -F raw "$tmp/b" "$URI" >/dev/null || fail "$row: qemu-img compare"
	qemu-img convert -f raw -O raw "$URI" "$tmp/out"
	same "$tmp/b" "$tmp/out" "qemu-img convert"
}

# Patterns at odd places, zeroes, discard, FUA, what lies at the edges of each.
patterns()
{
	qemu-io -f raw -d unmap -c "write -P 0xa1 0 1M" -c "write -P 0xa2 4097 1023" -c "write -f -P 0xa3 123457 77777" \
		-c "flush" -c "read -P 0xa1 0 4097" -c "read -P 0xa2 4097 1023" -c "read -P 0xa1 5120 118337" \
		-c "read -P 0xa3 123457 77777" -c "read -P 0xa1 201234 1000" \
		-c "write -z 65536 8192" -c "read -P 0 65536 8192" -c "read -P 0xa1 64000 1536" \
		-c "write -z -u 131072 65536" -c "read -P 0 131072 65536" \
		-c "write -z 200000 333" -c "read -P 0 200000 333" -c "read -P 0xa3 199999 1" \
		-c "discard 524288 262144" -c "write -P 0xa4 $((size - 513)) 513" -c "read -P 0xa4 $((size - 513)) 513" \
		-c "aio_write -P 0xa5 2M 64k" -c "aio_write -P 0xa6 2112k 64k" -c "aio_flush" \
		-c "read -P 0xa5 2M 64k" -c "read -P 0xa6 2112k 64k" "$URI" >"$tmp/io" 2>&1 ||
		{ cat "$tmp/io"; fail "$row: qemu-io failed"; }
	! grep -qiE 'pattern verification failed|error' "$tmp/io" || { cat "$tmp/io"; fail "$row: qemu-io: wrong data"; }
}

verify()
{
	local ios=4000
	[[ $disk != hdd7200 ]] || ios=150
	fio --name=v --ioengine=nbd --uri="$URI" --rw=randrw --bs=4k --iodepth=16 --size=$((size / 2)) \
		--number_ios=$ios --verify=crc32c --verify_fatal=1 --verify_state_save=0 --verify_backlog=64 --randrepeat=0 --output="$tmp/fio" \
		>/dev/null 2>&1 || { tail -n 30 "$tmp/fio"; fail "$row: fio verify"; }
	fio --name=s --ioengine=nbd --uri="$URI" --rw=write --bs=64k --iodepth=8 --offset=$((size / 2)) \
		--size=$((size / 8)) --verify=crc32c --do_verify=1 --verify_fatal=1 --verify_state_save=0 --output="$tmp/fio" \
		>/dev/null 2>&1 || { tail -n 30 "$tmp/fio"; fail "$row: fio sequential verify"; }
}

make_image "$tmp/a" $size
make_image "$tmp/b" $size
truncate -s $size "$tmp/loop.img"
if [[ $(id -u) -eq 0 ]]; then
	loop_device "$tmp/loop.img"
fi

n=0
while read -r scheduler aio cache disk socket <&3; do
	row="$scheduler $aio $cache $disk $socket"
	if [[ $aio == io_uring ]] && ! have_ring; then
		echo "no io_uring here: left out: $row"
		continue
	fi
	options=(-o "scheduler=$scheduler" -o "aio=$aio" -o "cache=$cache")
	case $disk in
	loop)
		[[ $LOOP ]] || { echo "no loop device here: left out: $row"; continue; }
		image=$LOOP ;;
	*)
		image=$tmp/disk.img
		rm -f "$image"
		truncate -s $size "$image"
		[[ $disk == file ]] || options+=(-o "disk_model=$disk") ;;
	esac
	began=$SECONDS
	port=
	if [[ $socket == tcp ]]; then
		port=$(free_port)
		options+=(-p "$port")
	fi
	start_liftd -x disk "${options[@]}" "$image"
	[[ ! $port ]] || URI=nbd://127.0.0.1:$port/disk
	[[ $port ]] || URI="nbd+unix:///disk?socket=$SOCK"
	copies
	patterns
	verify
	[[ $(ctl scheduler disk) == *"[$scheduler]"* ]] || fail "$row: liftctl names another scheduler"
	stop_liftd
	n=$((n + 1))
	echo "$row: $((SECONDS - began)) s"
done 3< <(rows)
[[ $n -gt 0 ]] || skip "no combination can be served here"
echo "$n combinations"
