#!/bin/bash
# The same random requests to liftd, plain and inside TLS, and to nbdkit's memory plugin: errors and bytes are equal, and
# zeroes are zeroes.
#
# SEED=N sends another stream; TIME=N (seconds, or with m or h behind it) is for each of the servers below, instead
# of 2 s: TIME=10m BUILD=build tests/differential.sh
# timeout: 600
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/helpers/pki.sh"
requires nbdkit certtool python3
export PYTHONDONTWRITEBYTECODE=1

seconds=$(duration "${TIME:-2}")
seed=${SEED:-1}

pki_authority "$tmp/ca" "the authority"
pki_certificate "$tmp/ca" "$tmp/server" server localhost

# compare plain | tls SIZE OPTION...: a new disk of this size, under these options of liftd.
compare()
{
	local how=$1 size=$2 other=$tmp/other.sock sock kit
	shift 2
	rm -f "$tmp/img" "$other" "$tmp/other.pid"
	truncate -s "$size" "$tmp/img"
	start_liftd -x '' -o tls=allow -o "tls_certificates=$tmp/server" "$@" "$tmp/img"
	sock=$SOCK
	background nbdkit -f -U "$other" -P "$tmp/other.pid" memory "$size" 2>"$tmp/other.log"
	kit=$BG_PID
	wait_for "[[ -e $tmp/other.pid ]]" 60
	if [[ $how == tls ]]; then
		sock=$tmp/inside.sock
		background python3 "$tests/helpers/tls_proxy.py" "$sock" "$SOCK" "$tmp/ca/ca-cert.pem"
		wait_for "[[ -S $sock ]]" 60
	fi
	"$BUILD/tests/differential" "$sock" "$other" "$size" "$seed" "$seconds"
	[[ $how == plain ]] || kill -TERM "$BG_PID"
	stop_liftd
	kill -TERM "$kit"
	seed=$((seed + 1))
}

compare plain 8389842 -s noop
compare plain 8388608 -s deadline -o cache=none -o aio=threads
compare plain 8389842 -s cfq -o max_sectors_kb=16 -o max_discard_kb=64
compare plain 3145728 -s cfq -o cache=none -o disk_model=hdd7200
compare tls 8389842 -s cfq
