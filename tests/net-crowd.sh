#!/bin/bash
# Two thousand idle connections, some of them inside TLS, while one client works at full speed: it hardly notices.
# alone
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/helpers/pki.sh"
requires certtool python3
export PYTHONDONTWRITEBYTECODE=1

n=2000 secure=200 bytes=20000
[[ $(ulimit -Hn) == unlimited || $(ulimit -Hn) -ge $((n + 200)) ]] || skip "needs $((n + 200)) descriptors"
ulimit -n $((n + 200))
! grep -qaE '__(asan|tsan)_init' "$BUILD/liftd" || bytes=1000000 # has its own idea of memory

pki_authority "$tmp/ca" "the authority"
pki_certificate "$tmp/ca" "$tmp/server" server localhost
make_image "$tmp/disk.img" 16M
port=$(free_port)
start_liftd -x disk -p "$port" -o tls=allow -o "tls_certificates=$tmp/server" "$tmp/disk.img"
python3 "$tests/helpers/net_crowd.py" "$SOCK" "127.0.0.1:$port" "$LIFTD_PID" "$tmp/ca/ca-cert.pem" $n $secure $bytes
python3 "$tests/helpers/net_settled.py" "$CTL" $n
