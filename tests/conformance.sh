#!/bin/bash
# liftd passes the conformance program in full, and does all that the specification only recommends: over Unix, TCP and
# TLS with certificates and keys, with each scheduler, read-only and writable. What it does not offer is not asked for.
# FULL=1: every scheduler over all of these, instead of each over one or two.
# timeout: 900
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/helpers/pki.sh"
requires "$BUILD/tests/conformance" certtool psktool

judge()
{
	local status=0
	"$BUILD/tests/conformance" --strict --timeout 60 "$@" >"$tmp/table" || status=$?
	if [[ $status -ne 0 ]]; then
		grep -A 1 '^FAIL' "$tmp/table" >&2 || cat "$tmp/table" >&2
		fail "conformance $*: exit status $status"
	fi
	tail -n 1 "$tmp/table"
}

truncate -s 64M "$tmp/disk.img"
port=$(free_port)
pki_authority "$tmp/pki" "an authority"
pki_certificate "$tmp/pki" "$tmp/pki" server localhost
pki_certificate "$tmp/pki" "$tmp/pki" client vm1
psktool -u alice -p "$tmp/keys.psk" >/dev/null 2>&1
tls=(-o tls_verify_peer=yes -o "tls_certificates=$tmp/pki" -o "tls_psk=$tmp/keys.psk")
for scheduler in noop deadline cfq; do
	start_liftd -p "$port" -s "$scheduler" -x disk -o tls=allow "${tls[@]}" "$tmp/disk.img"
	[[ ${FULL:-} != 1 && $scheduler != noop ]] || judge "nbd+unix:///disk?socket=$SOCK"
	[[ ${FULL:-} != 1 && $scheduler != deadline ]] || judge "nbd://127.0.0.1:$port/disk"
	[[ ${FULL:-} != 1 && $scheduler != cfq ]] || judge "nbds://127.0.0.1:$port/disk?tls-certificates=$tmp/pki"
	stop_liftd
	[[ ${FULL:-} == 1 || $scheduler == deadline ]] || continue
	start_liftd -p "$port" -s "$scheduler" -x disk -o tls=require "${tls[@]}" "$tmp/disk.img"
	judge "nbds://alice@127.0.0.1:$port/disk?tls-psk-file=$tmp/keys.psk"
	stop_liftd
done
# With the means for TLS, but without it: the rows about STARTTLS.
start_liftd -p "$port" -x disk -o tls=allow "${tls[@]}" "$tmp/disk.img"
judge "nbd://alice@127.0.0.1:$port/disk?tls-psk-file=$tmp/keys.psk"
stop_liftd

start_liftd -p "$port" -r -x disk "$tmp/disk.img"
judge "nbd://127.0.0.1:$port/disk"
[[ $(grep -c '^pass  *write_read_only' "$tmp/table") -eq 1 ]] || fail "the read-only export was not taken for one"
stop_liftd

# Two exports, one above 4 GiB; the smaller is the default export of nobody.
truncate -s 6G "$tmp/big.img"
truncate -s 1M "$tmp/small.img"
start_liftd "$tmp/big.img" "$tmp/small.img"
judge "nbd+unix:///big.img?socket=$SOCK"
judge "nbd+unix:///small.img?socket=$SOCK"
stop_liftd

# Direct I/O, where the file system has it.
if dd if="$tmp/disk.img" of=/dev/null bs=4096 count=1 iflag=direct 2>/dev/null; then
	start_liftd -x disk -o cache=none "$tmp/disk.img"
	judge "nbd+unix:///disk?socket=$SOCK"
	stop_liftd
fi

# The judge itself: what is wrong with the command line, with the server, and a server that is not there.
start_liftd -x disk -o fault_error_every=7 "$tmp/disk.img"
refuses 1 '^FAIL .* write ' "$BUILD/tests/conformance" "nbd+unix:///disk?socket=$SOCK"
stop_liftd
refuses 1 'cannot connect' "$BUILD/tests/conformance" --timeout 1 "nbd+unix:///disk?socket=$tmp/nobody"
refuses 2 'one URI is expected' "$BUILD/tests/conformance"
refuses 2 'expected nbd://' "$BUILD/tests/conformance" http://127.0.0.1/
refuses 2 'no row called' "$BUILD/tests/conformance" --only nonsense "nbd+unix:///disk?socket=$SOCK"
"$BUILD/tests/conformance" --list | grep -q '^greeting ' || fail "--list does not show the rows"
