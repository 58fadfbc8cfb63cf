# Sourced by tests that serve a disk to everybody's clients, whoever serves it.
#
# Uses $URI; $row (what is tested, for messages), $size (of the disk, bytes), $disk (hdd7200: the emulated one, which
# has no trim), and two different images of that size, $tmp/a and $tmp/b. The disk is overwritten.

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
