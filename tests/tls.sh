#!/bin/bash
# TLS with certificates and with pre-shared keys: everybody's clients, who is let in and who is not, new certificates
# while clients are there, and what may be wrong with files.
# timeout: 600
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/helpers/client_checks.sh"
. "$(dirname "$0")/helpers/pki.sh"
requires certtool psktool nbdinfo nbdcopy qemu-img qemu-io python3

size=$((16 << 20))
disk=file
make_image "$tmp/a" $size
make_image "$tmp/b" $size
truncate -s $size "$tmp/disk.img"
port=$(free_port)
raw=$(dirname "$0")/helpers/tls_raw.py
where=127.0.0.1:$port

pki_authority "$tmp/ca" "the authority"
pki_authority "$tmp/other" "somebody else"
pki_certificate "$tmp/ca" "$tmp/server" server localhost
pki_certificate "$tmp/ca" "$tmp/vm1" client vm1
pki_certificate "$tmp/other" "$tmp/stranger" client vm1
cp "$tmp/ca/ca-cert.pem" "$tmp/stranger/"
pki_certificate "$tmp/ca" "$tmp/late" client vm1 'activation_date = "2001-01-01 00:00:00"' \
	'expiration_date = "2001-02-03 04:05:06"'
mkdir "$tmp/nobody"
cp "$tmp/ca/ca-cert.pem" "$tmp/nobody/"
for who in alice:keys bob:keys alice:wrong eve:eve; do
	psktool -u "${who%:*}" -p "$tmp/${who#*:}.psk" >/dev/null 2>&1
done

plain=nbd://127.0.0.1:$port/disk
certificate() { echo "nbds://127.0.0.1:$port/disk?tls-certificates=$tmp/$1"; }
key() { echo "nbds://$1@127.0.0.1:$port/disk?tls-psk-file=$tmp/$2"; }
qemu=(--object "tls-creds-x509,id=t,dir=$tmp/vm1,endpoint=client")
qemu_disk=driver=nbd,host=127.0.0.1,port=$port,export=disk,tls-creds=t

# ---- everybody's clients, and who they are ---------------------------------------------------------------------

start_liftd -x disk -p "$port" -o log=debug -o tls=require -o "tls_certificates=$tmp/server" -o tls_verify_peer=yes \
	-o "tls_psk=$tmp/keys.psk" "$tmp/disk.img"
for URI in "$(certificate vm1)" "$(key alice keys.psk)"; do
	row=${URI%%\?*}
	nbdinfo "$URI" | grep -q "with TLS, using \(structured\|extended\) packets" || fail "$row: not with TLS"
	nbdcopy --flush "$tmp/a" "$URI"
	nbdcopy "$URI" "$tmp/out"
	same "$tmp/a" "$tmp/out" "nbdcopy in and out"
	nbdinfo --map "$URI" | grep -q data || fail "$row: no map"
done
qemu-img convert "${qemu[@]}" -n -f raw --target-image-opts "$tmp/b" "$qemu_disk"
qemu-img compare "${qemu[@]}" --image-opts driver=file,filename="$tmp/b" "$qemu_disk" >/dev/null || fail "qemu-img compare"
qemu-io "${qemu[@]}" --image-opts "$qemu_disk" -c "write -P 7 4097 70000" -c flush -c "read -P 7 4097 70000" \
	>"$tmp/io" 2>&1 || { cat "$tmp/io"; fail "qemu-io"; }
nbdinfo "$(key bob keys.psk)" >/dev/null
for id in tls:vm1 tls:alice tls:bob; do
	grep -q "connection [0-9]*: $id uses export" "$LIFTD_LOG" || fail "no client is called $id"
done

# ---- who is not let in, and what they are told -----------------------------------------------------------------

refuses 1 . nbdinfo "$plain"
refuses 1 "this server wants TLS: STARTTLS must come before" qemu-img info "$plain"
refuses 1 . nbdinfo "$(certificate nobody)"
refuses 1 . nbdinfo "$(certificate stranger)"
refuses 1 . nbdinfo "$(certificate late)"
refuses 1 . nbdinfo "$(key alice wrong.psk)"
refuses 1 . nbdinfo "$(key eve eve.psk)"
grep -q "from [^ ]*: TLS: the client's certificate: .*expired" "$LIFTD_LOG" || fail "the log does not say what is wrong with a certificate"
nbdinfo "$(key bob keys.psk)" >/dev/null
stop_liftd

pki_certificate "$tmp/ca" "$tmp/vm2" client vm2
pki_revoke "$tmp/ca" "$tmp/vm2/client-cert.pem" "$tmp/server/ca-crl.pem"
start_liftd -x disk -p "$port" -o tls=require -o "tls_certificates=$tmp/server" -o tls_verify_peer=yes "$tmp/disk.img"
nbdinfo "$(certificate vm1)" >/dev/null
refuses 1 . nbdinfo "$(certificate vm2)"
grep -q "from [^ ]*: TLS: the client's certificate: .*revoked" "$LIFTD_LOG" || fail "the log does not say that a certificate is revoked"
stop_liftd
rm "$tmp/server/ca-crl.pem"

start_liftd -x disk -p "$port" "$tmp/disk.img"
refuses 1 . nbdinfo "$(certificate vm1)"
refuses 1 "TLS is not set up on this server" qemu-img info "${qemu[@]}" --image-opts "$qemu_disk"
nbdinfo "$plain" >/dev/null
stop_liftd

# ---- by hand ---------------------------------------------------------------------------------------------------

by_hand() { python3 "$raw" "$where" "$tmp/ca/ca-cert.pem" "$@" || fail "$*"; }
fds() { ls "/proc/$LIFTD_PID/fd" | wc -l; }

start_liftd -x disk -p "$port" -o tls=allow -o "tls_certificates=$tmp/server" "$tmp/disk.img"
nbdinfo "$plain" >/dev/null
nbdinfo "$(certificate nobody)" | grep -q "with TLS" || fail "tls=allow without TLS"
for what in injected forgotten versions crooked; do
	by_hand $what
done
by_hand cycles 50
wait_for '[[ $(ctl stats) =~ connections[^_a-z]*\ 0 ]]' 30
before=$(fds)
by_hand cycles 200
wait_for '[[ $(fds) -le $before ]]' 30
stop_liftd

start_liftd -x disk -p "$port" --threads 1 -o handshake_timeout=600000 -o stall_timeout=600000 -o tls=allow -o "tls_certificates=$tmp/server" "$tmp/disk.img"
by_hand crumbs
stop_liftd

# ---- new certificates, and none, while a client is there -------------------------------------------------------

# write_conf TLS [LINE...]
write_conf()
{
	printf '%s\n' "[server]" "listen = $where" "tls = $1" "${@:2}" "[export disk]" "path = $tmp/disk.img" >"$tmp/conf"
}

pki_certificate "$tmp/ca" "$tmp/server" server localhost "serial = 1111" "expiration_days = 1"
write_conf require "tls_certificates = $tmp/server"
start_liftd -c "$tmp/conf"
coproc HOLD { exec python3 "$raw" "$where" "$tmp/ca/ca-cert.pem" hold; }
read -r -t 60 serial <&"${HOLD[0]}"
[[ $serial == *457 ]] || fail "the certificate's number is $serial, not 0x457"
pki_certificate "$tmp/ca" "$tmp/server" server localhost "serial = 2222" "expiration_days = 1"
ctl reload >/dev/null
echo go >&"${HOLD[1]}"
read -r -t 60 serial <&"${HOLD[0]}"
[[ $serial == *8AE ]] || fail "after a reload the certificate's number is $serial, not 0x8AE"

# A faulty file changes nothing.
echo junk >"$tmp/server/server-cert.pem"
refuses 1 "$tmp/conf:4: .*server-cert.pem is no certificate in PEM" "$BUILD/liftctl" --socket "$CTL" reload
nbdinfo "$(certificate nobody)" >/dev/null
write_conf off "tls_certificates = $tmp/server"
ctl reload | grep -q "tls" || fail "reload does not say that tls changed"
nbdinfo "$plain" >/dev/null
stop_liftd

# ---- --check -----------------------------------------------------------------------------------------------------

# complains REGEX [LINE...]: of a configuration with TLS and these lines
complains()
{
	write_conf require "${@:2}"
	refuses 2 "$1" "$BUILD/liftd" --check -c "$tmp/conf"
}

pki_certificate "$tmp/ca" "$tmp/server" server localhost
complains "TLS needs tls_certificates or tls_psk"
complains "conf:4: cannot read $tmp/nowhere/server-cert.pem: No such file" "tls_certificates = $tmp/nowhere"
complains "tls_verify_peer needs tls_certificates" "tls_verify_peer = yes" "tls_psk = $tmp/keys.psk"
chmod 644 "$tmp/server/server-key.pem"
complains "conf:4: $tmp/server/server-key.pem is a secret, but its mode 0644 .*expected 0640" "tls_certificates = $tmp/server"
chmod 600 "$tmp/server/server-key.pem"
cp "$tmp/vm1/client-key.pem" "$tmp/server/server-key.pem"
complains "are no pair" "tls_certificates = $tmp/server"
pki_certificate "$tmp/ca" "$tmp/server" server localhost 'activation_date = "2001-01-01 00:00:00"' \
	'expiration_date = "2001-02-03 04:05:06"'
complains "conf:4: the certificate $tmp/server/server-cert.pem has expired on 2001-02-03" "tls_certificates = $tmp/server"
rm "$tmp/server/ca-cert.pem"
pki_certificate "$tmp/ca" "$tmp/server" server localhost
rm "$tmp/server/ca-cert.pem"
complains "tls_verify_peer: cannot use $tmp/server/ca-cert.pem" "tls_certificates = $tmp/server" "tls_verify_peer = yes"
cp "$tmp/ca/ca-cert.pem" "$tmp/server/"
pki_revoke "$tmp/other" "$tmp/vm1/client-cert.pem" "$tmp/server/ca-crl.pem"
complains "ca-crl.pem: its list 1 is not signed by an authority in ca-cert.pem" "tls_certificates = $tmp/server" "tls_verify_peer = yes"
pki_revoke "$tmp/ca" "$tmp/vm1/client-cert.pem" "$tmp/server/ca-crl.pem"
write_conf require "tls_certificates = $tmp/server" "tls_verify_peer = yes"
"$BUILD/liftd" --check -c "$tmp/conf" >/dev/null
rm "$tmp/server/ca-crl.pem"
mkdir "$tmp/old"
printf '%s\n' "cn = the authority" ca cert_signing_key 'activation_date = "2001-01-01 00:00:00"' \
	'expiration_date = "2001-02-03 04:05:06"' >"$tmp/old/ca.info"
certtool --generate-self-signed --load-privkey "$tmp/ca/ca-key.pem" --template "$tmp/old/ca.info" \
	--outfile "$tmp/server/ca-cert.pem" 2>/dev/null
complains "the certificate $tmp/server/ca-cert.pem has expired on 2001-02-03" "tls_certificates = $tmp/server" \
	"tls_verify_peer = yes"
# Of several one must be good.
cat "$tmp/ca/ca-cert.pem" >>"$tmp/server/ca-cert.pem"
write_conf require "tls_certificates = $tmp/server" "tls_verify_peer = yes"
"$BUILD/liftd" --check -c "$tmp/conf" >/dev/null
rm "$tmp/server/ca-cert.pem"
write_conf require "tls_certificates = $tmp/server"
"$BUILD/liftd" --check -c "$tmp/conf" >/dev/null

psk_is()
{
	printf "$1" >"$tmp/some.psk"
	chmod 600 "$tmp/some.psk"
}
key=$(printf 'a%.0s' {1..64})
for row in "alice|1: expected USER:HEXKEY" ":$key|1: expected USER:HEXKEY" "# keys\nalice:zz|2: expected a key of 32 to 1024" \
	"alice:abcd|1: expected a key" "a b:$key|1: a user with a space" "|there is no key in it" \
	"alice:$key\nbob:$key\nalice:$key|3: this user has a key already" "alice:$key\0|a NUL byte"; do
	psk_is "${row%|*}"
	complains "conf:4: $tmp/some.psk:.*${row##*|}" "tls_psk = $tmp/some.psk"
done
psk_is "# two\n\nalice:$key\r\nbob:$key"
write_conf allow "tls_psk = $tmp/some.psk"
"$BUILD/liftd" --check -c "$tmp/conf" >/dev/null
chmod 604 "$tmp/some.psk"
complains "some.psk is a secret" "tls_psk = $tmp/some.psk"
