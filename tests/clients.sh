#!/bin/bash
# Everybody's clients against every way to serve: schedulers, ways of doing I/O, cache modes, disks, sockets.
# By default a set of rows in which each pair of values meets at least once; FULL=1: all combinations.
# timeout: 1500
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/helpers/client_checks.sh"
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
