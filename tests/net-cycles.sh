#!/bin/bash
# Clients that connect, shake hands and go, in every way and at every point, leave nothing behind: neither descriptors
# nor memory. N=100000: so many of each kind instead of some hundreds.
# timeout: 3600
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/helpers/pki.sh"
requires certtool python3
export PYTHONDONTWRITEBYTECODE=1

n=${N:-100}
limit=2048 # KiB that VmRSS may grow in the second half
! grep -qaE '__(asan|tsan)_init' "$BUILD/liftd" || limit=1000000 # has its own idea of memory

pki_authority "$tmp/ca" "the authority"
pki_certificate "$tmp/ca" "$tmp/server" server localhost
make_image "$tmp/disk.img" 1M
port=$(free_port)
start_liftd -x disk -p "$port" -o tls=allow -o "tls_certificates=$tmp/server" "$tmp/disk.img"

fds() { ls "/proc/$LIFTD_PID/fd" | wc -l; }
resident() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$LIFTD_PID/status"; }
cycles() { "$BUILD/tests/cycles" "$1" "$2" "$SOCK" "$port" "$tmp/ca/ca-cert.pem"; }
gone() { python3 "$tests/helpers/net_settled.py" "$CTL" >/dev/null; }

# settled: nobody is there, and the descriptors are as before; sets RESIDENT
settled()
{
	gone
	wait_for '[[ $(fds) -le $((descriptors + 8)) ]]' 30
	RESIDENT=$(resident)
}

for kind in plain tls drop; do cycles $kind 160 >/dev/null; done
gone
# A ring or a worker may have come for the first ones, and some descriptors of theirs may go yet.
descriptors=$(fds)
for kind in plain tls drop; do
	settled
	before=$RESIDENT
	cycles $kind $((n / 2))
	settled
	middle=$RESIDENT
	cycles $kind $((n / 2))
	settled
	echo "VmRSS before, between and after: $before $middle $RESIDENT KiB; $(fds) descriptors, $descriptors before"
	# The heap grows to what most clients at a time need, ever more slowly; what is lost would grow on and on.
	[[ $((RESIDENT - middle)) -le $limit || $((RESIDENT - middle)) -le $(((middle - before) / 2)) ]] ||
		fail "$kind: VmRSS grew from $before to $middle and $RESIDENT KiB in $n cycles"
done
"$BUILD/tests/chunks" "nbd+unix:///?socket=$SOCK" "$tmp/disk.img" >/dev/null || fail "it does not serve any more"
