#!/bin/bash
# Holes: what is a hole in the image is one for clients, is read as one, copied as one, and stays one when it is copied
# in; with every scheduler and cache mode.
# timeout: 600
. "$(dirname "$0")/functions.sh"
requires nbdinfo nbdcopy qemu-img python3

size=$((64 << 20))

# Data here and there, some of it zeroes that are there.
sparse_image()
{
	rm -f "$1"
	truncate -s $size "$1"
	for piece in 0:4096 5242880:3145728 21823488:196608 41947136:8192 67104768:4096; do
		head -c "${piece#*:}" /dev/urandom | dd of="$1" bs=4096 seek=$((${piece%:*} / 4096)) conv=notrunc status=none
	done
	dd if=/dev/zero of="$1" bs=64k seek=512 count=4 conv=notrunc status=none
}

# data_map FILE: where it has data, as the file system says
data_map()
{
	python3 - "$1" <<'PY'
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
os.fsync(fd)
at, size = 0, os.fstat(fd).st_size
while at < size:
    try:
        at = os.lseek(fd, at, os.SEEK_DATA)
    except OSError:
        break
    end = os.lseek(fd, at, os.SEEK_HOLE)
    print(at, end - at)
    at = end
PY
}

# alike FILE WHAT: the same bytes and the same holes as the source, but for zeroes that lie in it
alike()
{
	cmp "$tmp/src.img" "$1" || fail "$2: other contents"
	diff <(grep -v ^33554432 "$tmp/src.map") <(data_map "$1" | grep -v ^33554432) || fail "$2: other holes"
}

sparse_image "$tmp/src.img"
data_map "$tmp/src.img" >"$tmp/src.map"
[[ $(wc -l <"$tmp/src.map") -gt 3 ]] || skip "the file system of $tmp knows no holes"
for row in "noop writeback" "deadline none" "cfq writethrough"; do
	read -r scheduler cache <<<"$row"
	start_liftd -x disk -r -s "$scheduler" -o "cache=$cache" "$tmp/src.img"
	URI="nbd+unix:///disk?socket=$SOCK"
	diff <(nbdinfo --map "$URI" | awk '$3 == 0 { print $1, $2 }') "$tmp/src.map" || fail "$row: nbdinfo --map"
	diff <(qemu-img map -f raw --output=json "$URI" | python3 -c '
import json, sys
for e in json.load(sys.stdin):
    if e["data"]:
        print(e["start"], e["length"])') "$tmp/src.map" || fail "$row: qemu-img map"
	nbdcopy "$URI" "$tmp/out.img"
	alike "$tmp/out.img" "$row: nbdcopy out"
	rm "$tmp/out.img"
	qemu-img convert -f raw -O raw "$URI" "$tmp/out.img"
	alike "$tmp/out.img" "$row: qemu-img convert out"
	rm "$tmp/out.img"
	"$BUILD/tests/chunks" "$URI" "$tmp/src.img" >"$tmp/chunks" || fail "$row: chunks"
	grep -qE '[1-9][0-9]* chunks of data, [1-9][0-9]* holes' "$tmp/chunks" || fail "$row: $(<"$tmp/chunks")"
	stop_liftd

	for copy in "nbdcopy" "qemu-img convert -n -f raw -O raw"; do
		rm -f "$tmp/in.img"
		truncate -s $size "$tmp/in.img"
		start_liftd -x disk -s "$scheduler" -o "cache=$cache" "$tmp/in.img"
		$copy "$tmp/src.img" "nbd+unix:///disk?socket=$SOCK"
		stop_liftd
		alike "$tmp/in.img" "$row: $copy in"
	done
done
