#!/bin/bash
# What the server says when it refuses is in what its clients print: libnbd's of Debian 13 and QEMU's. (Debian 12's libnbd
# prints it with LIBNBD_DEBUG=1 only.) That TLS is not set up libnbd passes over: it goes at once.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/../helpers/pki.sh"
requires nbdinfo nbdcopy qemu-img nbd-client certtool

make_image "$tmp/disk.img" 1M
pki_authority "$tmp/ca" "the authority"
pki_certificate "$tmp/ca" "$tmp/server" server localhost
pki_certificate "$tmp/ca" "$tmp/vm1" client vm1
port=$(free_port)
where=nbd://127.0.0.1:$port

start_liftd -x disk -p "$port" "$tmp/disk.img"
for client in "nbdinfo $where/other" "qemu-img info $where/other" "nbdcopy $where/other null:"; do
	refuses 1 "there is no export 'other'" $client
done
refuses 1 "TLS is not set up on this server" qemu-img info --object "tls-creds-x509,id=t,dir=$tmp/vm1,endpoint=client" \
	--image-opts "driver=nbd,host=127.0.0.1,port=$port,export=disk,tls-creds=t"
stop_liftd

start_liftd -x disk -p "$port" -o tls=require -o "tls_certificates=$tmp/server" "$tmp/disk.img"
for client in "nbdinfo $where/disk" "qemu-img info $where/disk" "nbdcopy $where/disk null:" "nbd-client -l 127.0.0.1 $port"; do
	refuses 1 "this server wants TLS: STARTTLS must come before" $client
done
