#!/bin/bash
# Extended headers, with every scheduler, over TCP and a Unix socket, plain and with TLS: they are negotiated, carry data,
# and requests of all of an export of 8 TiB.
# timeout: 900
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/../helpers/pki.sh"
requires nbdinfo nbdcopy qemu-img nbd-client python3-newest certtool psktool

pki_authority "$tmp/ca" "the authority"
pki_certificate "$tmp/ca" "$tmp/server" server localhost
pki_certificate "$tmp/ca" "$tmp/vm1" client vm1
psktool -u alice -p "$tmp/keys.psk" >/dev/null 2>&1
cp "$(dirname "$0")/extended.py" "$BUILD/tests/chunks" "$tmp/"
make_image "$tmp/src.img" 16M
dd if=/dev/zero of="$tmp/src.img" bs=1M seek=3 count=5 conv=notrunc status=none
fallocate -p -o 3M -l 5M "$tmp/src.img"

# serve TLS SCHEDULER [ARG...]
serve()
{
	local tls=()
	[[ $1 == off ]] || tls=(-o "tls=$1" -o "tls_certificates=$tmp/server" -o tls_verify_peer=yes -o "tls_psk=$tmp/keys.psk")
	start_liftd -x disk -s "$2" -p "$port" "${tls[@]}" "${@:3}"
}

# The ways to attach where TLS is off, or required.
uris()
{
	local to=tls-certificates=$tmp/vm1 psk=tls-psk-file=$tmp/keys.psk
	case $1 in
	off) printf '%s\n' "nbd://127.0.0.1:$port/disk" "nbd+unix:///disk?socket=$SOCK" ;;
	require)
		printf '%s\n' "nbds://127.0.0.1:$port/disk?$to" "nbds://alice@127.0.0.1:$port/disk?$psk" \
			"nbds+unix:///disk?socket=$SOCK&tls-hostname=localhost&$to" "nbds+unix://alice@/disk?socket=$SOCK&$psk" ;;
	esac
}

port=$(free_port)
for tls in off require; do
	for scheduler in noop deadline cfq; do
		rm -f "$tmp/disk.img"
		truncate -s 16M "$tmp/disk.img"
		serve $tls $scheduler "$tmp/disk.img"
		while read -r uri; do
			how="$scheduler, ${uri%%\?*}"
			nbdinfo --no-content "$uri" >"$tmp/info"
			grep -q "using extended packets" "$tmp/info" || fail "$how: $(head -n 1 "$tmp/info")"
			[[ $tls == off ]] || grep -q "with TLS" "$tmp/info" || fail "$how: $(head -n 1 "$tmp/info")"
			nbdcopy --flush "$tmp/src.img" "$uri"
			nbdcopy "$uri" "$tmp/out.img"
			cmp "$tmp/src.img" "$tmp/out.img" || fail "$how: nbdcopy"
			nbdinfo --map --totals "$uri" | grep -qE '^ *5242880 .*hole,zero' || fail "$how: $(nbdinfo --map "$uri")"
			chroot "$NEWEST" "$tmp/chunks" "$uri" "$tmp/src.img" >"$tmp/chunks.out" || fail "$how: chunks"
		done < <(uris $tls)
		[[ $tls != off ]] || nbd-client -l 127.0.0.1 "$port" 2>&1 | grep -qx disk || fail "nbd-client -l"
		stop_liftd

		for size in 8T 32G; do
			rm -f "$tmp/large.img"
			truncate -s $size "$tmp/large.img" 2>/dev/null || truncate -s 1T "$tmp/large.img"
			serve $tls $scheduler "$tmp/large.img"
			uri=$(uris $tls | tail -n 1)
			echo "$scheduler, ${uri%%\?*}"
			python3-newest "$tmp/extended.py" "$uri" "$tmp/large.img"
			stop_liftd
		done
	done
done
