#!/bin/bash
# Access lists by what TLS proves: names of certificates, users of pre-shared keys; and sockets with or without TLS on
# one server.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/helpers/pki.sh"
requires qemu-img qemu-io nbdinfo certtool psktool
cd "$tmp"

# ---- keys and certificates -------------------------------------------------------------------------------------

pki_authority ca "the authority"
pki_certificate ca server server localhost
for who in alice backup7 mallory; do pki_certificate ca "$who" client "$who"; done
pki_certificate ca ops client 'ops+"1"'
for who in alice bob; do psktool -u "$who" -p keys >/dev/null 2>&1; done

make_image disk.img 4M
port=$(free_port)
plain=$(free_port)

# as NAME: nbdinfo with this one's certificate; psk NAME: with its key
as()
{
	LIBNBD_DEBUG=1 nbdinfo "nbds://127.0.0.1:$port/disk?tls-certificates=$tmp/$1" >out 2>&1
}

psk()
{
	LIBNBD_DEBUG=1 nbdinfo "nbds+unix://$1@/disk?socket=$SOCK&tls-psk-file=$tmp/keys" >out 2>&1
}

plain()
{
	nbdinfo "nbd://127.0.0.1:$plain/disk" >out 2>&1
}

is_ro()
{
	"${@:2}" || fail "${*:2} was not let in: $(<out)"
	grep -q "is_read_only: $1" out || fail "${*:2}: expected is_read_only: $1: $(<out)"
}

# says REGEX COMMAND...
says()
{
	! "${@:2}" || fail "${*:2} was let in"
	grep -qE "$1" out || fail "${*:2}: expected '$1': $(<out)"
}

# ---- certificates ----------------------------------------------------------------------------------------------

start_liftd -o listen="127.0.0.1:$port" -o listen="127.0.0.1:$plain tls=off readonly" -o tls=require \
	-o tls_certificates="$tmp/server" -o tls_verify_peer=1 -o tls_psk="$tmp/keys" \
	-o access='tls:alice rw, tls:backup* ro, ip:127.0.0.1 ro, tls:mallory no, tls:ops+"1" no' -x disk disk.img
is_ro false as alice
is_ro true as backup7
# As it stands in the certificate, whatever X.509's own way of writing it down.
says "'ops\+\"1\"' at 127\.0\.0\.1 is not permitted: its access list has 'tls:ops\+\"1\" no'" as ops
says "export 'disk': 'mallory' at 127\.0\.0\.1 is not permitted: its access list has 'tls:mallory no'" as mallory
! qemu-img info --object "tls-creds-x509,id=t,dir=$tmp/mallory,endpoint=client" --image-opts \
	"driver=nbd,host=127.0.0.1,port=$port,export=disk,tls-creds=t" >out 2>&1
grep -q "server reported: export 'disk': 'mallory' at 127.0.0.1 is not permitted" out || fail "qemu-img: $(<out)"
qemu-img info --object "tls-creds-x509,id=t,dir=$tmp/alice,endpoint=client" --image-opts \
	"driver=nbd,host=127.0.0.1,port=$port,export=disk,tls-creds=t" >out
# A socket of its own kind beside it: no TLS there, and only to read.
is_ro true plain

# ---- keys ------------------------------------------------------------------------------------------------------

is_ro false psk alice
says "export 'disk': 'bob' at uid [0-9]+ \(pid [0-9]+\) is not permitted: no entry" psk bob
ctl set disk writers=identity access=
# One client by its name, whichever way it comes.
background qemu-io --object "tls-creds-x509,id=t,dir=$tmp/alice,endpoint=client" -c 'sleep 600000' --image-opts \
	"driver=nbd,host=127.0.0.1,port=$port,export=disk,tls-creds=t"
wait_for "ctl clients disk | grep -q '^tls:alice .* yes\$'" 30
is_ro false psk alice
says "export 'disk': 'bob' at uid [0-9]+ \(pid [0-9]+\) cannot attach: tls:alice writes to it" psk bob
kill "$BG_PID"
wait "$BG_PID" || :
is_ro false psk bob
stop_liftd

# ---- TLS on one socket alone -----------------------------------------------------------------------------------

start_liftd -o listen="127.0.0.1:$port tls=require" -o tls_certificates="$tmp/server" -x disk disk.img
is_ro false as alice
! nbdinfo "nbd://127.0.0.1:$port/disk" >out 2>&1 || fail "without TLS"
nbdinfo "nbd+unix:///disk?socket=$SOCK" >out
grep -q 'without TLS' out || fail "by the Unix socket: $(<out)"
stop_liftd

# Its words change with a restart: until then it needs the keys that it has, whatever a reload finds.
printf '[server]\nlisten = 127.0.0.1:%s tls=require\ntls_psk = %s/keys\n[export disk]\npath = disk.img\n' "$port" "$tmp" >conf
start_liftd -c conf
nbdinfo "nbds://alice@127.0.0.1:$port/disk?tls-psk-file=$tmp/keys" >out
sed -i 's/ tls=require//; /tls_psk/d' conf
ctl reload | grep -q "restart: listen" || fail "a reload that takes TLS from a socket does not ask for a restart"
nbdinfo "nbds://alice@127.0.0.1:$port/disk?tls-psk-file=$tmp/keys" >out
! nbdinfo "nbd://127.0.0.1:$port/disk" >out 2>&1 || fail "without TLS after a reload"
stop_liftd
refuses 2 "none/server-cert.pem" "$BUILD/liftd" --check -o listen='127.0.0.1:1 tls=allow' -o tls_certificates="$tmp/none" \
	disk.img
