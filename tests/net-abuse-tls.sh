#!/bin/bash
# As net-abuse.sh, inside TLS: slow and broken peers cost nobody else anything there either. What is wrong with the TLS
# handshake itself is in tls.sh.
# timeout: 600
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/helpers/pki.sh"
requires python3 certtool
export PYTHONDONTWRITEBYTECODE=1

make_image "$tmp/disk.img" 64M
port=$(free_port)
pki_authority "$tmp/ca" "the authority"
pki_certificate "$tmp/ca" "$tmp/server" server localhost
start_liftd -p "$port" -o stall_timeout=1s -o handshake_timeout=3s -o tls=require -o "tls_certificates=$tmp/server" \
	-x disk "$tmp/disk.img"

sanitized=()
! grep -qaE '__(asan|tsan)_init' "$BUILD/liftd" || sanitized=(sanitized)
python3 "$tests/helpers/net_abuse.py" "$SOCK" "127.0.0.1:$port" "$CTL" "$LIFTD_PID" "tls=$tmp/ca/ca-cert.pem" \
	"${sanitized[@]}"
stop_liftd
