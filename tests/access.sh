#!/bin/bash
# Who may attach what: access lists by address, user and group, one writer, limits, sockets with rules of their own;
# what is refused says why, in what the usual clients print. By TLS: access-tls.sh.
. "$(dirname "$0")/functions.sh"
requires python3 qemu-img qemu-io nbdinfo ss
export PYTHONDONTWRITEBYTECODE=1

cd "$tmp"
chmod 711 .
make_image disk.img 4M
truncate -s 4M other.img
port=$(free_port)
readers=$(free_port)
all=$tmp/all.sock

# What clients print: qemu-img the server's sentence, nbdinfo as well if it is to tell all.
says()
{
	local uri=$1 regex=$2
	! qemu-img info "$uri" >out 2>&1 || fail "qemu-img was let in: $uri"
	grep -qE "server reported: $regex" out || fail "qemu-img, $uri: $(<out)"
	! LIBNBD_DEBUG=1 nbdinfo "$uri" >out 2>&1 || fail "nbdinfo was let in: $uri"
	grep -qE "server error message: $regex" out || fail "nbdinfo, $uri: $(<out)"
	grep -qE "liftd: connection [0-9]+: $regex" "$LIFTD_LOG" || fail "the log does not say: $regex"
}

# is_ro true|false COMMAND...
is_ro()
{
	local want=$1
	shift
	"$@" >out 2>&1 || fail "$*: $(<out)"
	grep -q "is_read_only: $want" out || fail "$*: expected is_read_only: $want: $(<out)"
}

# ---- addresses, writers, limits, said raw ----------------------------------------------------------------------

cat >liftd.conf <<-EOF2
	[server]
	threads = 2
	[export disk]
	path = $tmp/disk.img
	[export other]
	path = $tmp/other.img
	description = no list of its own
EOF2
start_liftd -c liftd.conf -U "$all mode=0666" -p "$port" -o listen="127.0.0.1:$readers readonly"
python3 "$tests/helpers/access.py" "$SOCK" "127.0.0.1:$port" "$CTL"

# ---- what is printed -------------------------------------------------------------------------------------------

unix="nbd+unix:///disk?socket=$SOCK"
ctl set disk access='ip:10.0.0.0/8 rw'
says "nbd://127.0.0.1:$port/disk" "export 'disk': 127\.0\.0\.1 is not permitted: no entry of its access list matches"
says "$unix" "export 'disk': uid $(id -u) \(pid [0-9]+\) is not permitted: no entry of its access list matches"
nbdinfo --list "nbd://127.0.0.1:$port" >out
grep -q 'export="other"' out && ! grep -q 'export="disk"' out || fail "--list: $(<out)"
! qemu-img info "nbd://127.0.0.1:$port/none" >out 2>&1
grep -q "there is no export 'none'" out || fail "$(<out)"

ctl set disk access= writers=one
background qemu-io -f raw -c 'sleep 600000' "$unix"
wait_for "ctl clients disk | grep -q '^pid:$BG_PID .* yes\$'" 20
says "nbd://127.0.0.1:$port/disk" "export 'disk': 127\.0\.0\.1 cannot attach: pid:$BG_PID writes to it, and writers is one"
is_ro true nbdinfo "nbd://127.0.0.1:$readers/disk"
ctl clients disk | grep -qE "^pid:$BG_PID .* yes$"
kill "$BG_PID"
wait "$BG_PID" || :
is_ro false nbdinfo "nbd://127.0.0.1:$port/disk"
ctl set disk writers=many export_connections=1
background qemu-io -f raw -c 'sleep 600000' "$unix"
wait_for "ctl clients disk | grep -q '^pid:$BG_PID '" 20
says "nbd://127.0.0.1:$port/disk" "export 'disk': 127\.0\.0\.1 cannot attach: it has 1 connections, and export_connections is 1"
kill "$BG_PID"
wait "$BG_PID" || :
ctl set disk export_connections=0

refuses 1 "access: '10.0.0.1/33' is neither an address nor a network; expected ip:ADDRESS" \
	"$BUILD/liftctl" --socket "$CTL" set disk access='ip:10.0.0.1/33 rw'
refuses 1 "access: 'unix no' is for the same as 'unix rw'" \
	"$BUILD/liftctl" --socket "$CTL" set disk access='unix rw, unix no'
refuses 1 "writers: 'two' is not a choice; expected many, one, identity" \
	"$BUILD/liftctl" --socket "$CTL" set disk writers=two

# ---- sockets with rules of their own ---------------------------------------------------------------------------

is_ro true nbdinfo "nbd://127.0.0.1:$readers/disk"
is_ro true nbdinfo "nbd://127.0.0.1:$readers/other"
is_ro false nbdinfo "nbd://127.0.0.1:$port/other"
! qemu-io -f raw -c 'write 0 4k' "nbd://127.0.0.1:$readers/other" >out 2>&1 || ! grep -q wrote out ||
	fail "written by a socket for readers: $(<out)"
[[ $(stat -c %a "$all") == 666 ]] || fail "mode=0666: $(stat -c %a "$all")"

# ---- users and groups ------------------------------------------------------------------------------------------

if [[ $(id -u) -eq 0 ]] && command -v setpriv >/dev/null; then
	as()
	{
		setpriv --reuid "$1" --regid "$2" --groups "$3" "${@:4}"
	}
	all_uri="nbd+unix:///disk?socket=$all"
	ctl set disk access='uid:12001 rw, gid:13001 ro, gid:13002 no, unix no'
	is_ro false as 12001 13000 13000 nbdinfo "$all_uri"
	is_ro true as 12002 13001 13000 nbdinfo "$all_uri"
	is_ro true as 12002 13000 13005,13001 nbdinfo "$all_uri"
	is_ro false as 12001 13001 13000 nbdinfo "$all_uri" # the more permissive one
	for who in "12001 13002 13000" "12001 13000 13001,13002" "12003 13003 13003"; do
		# shellcheck disable=SC2086
		! as $who nbdinfo "$all_uri" >out 2>&1 || fail "$who was let in"
	done
	grep -q "uid 12001 (pid [0-9]*) is not permitted: its access list has 'gid:13002 no'" "$LIFTD_LOG"
	grep -q "uid 12003 (pid [0-9]*) is not permitted: its access list has 'unix no'" "$LIFTD_LOG"
	ctl set disk access=
	INSTANCE=group start_liftd -U "$tmp/g.sock mode=0660 group=12345" -o size=1M null:
	[[ $(stat -c '%a %g' "$tmp/g.sock") == "660 12345" ]] || fail "group=12345: $(stat -c '%a %g' "$tmp/g.sock")"
	as 12001 13000 12345 nbdinfo "nbd+unix:///?socket=$tmp/g.sock" >out
	! as 12001 13000 13000 nbdinfo "nbd+unix:///?socket=$tmp/g.sock" >out 2>&1 || fail "who is not of the group"
	stop_liftd
	stop_liftd "${!_servers[@]}"
else
	echo "not root: users and groups of others are not tested"
	ctl set disk access="uid:$(id -u) ro"
	is_ro true nbdinfo "$unix"
	ctl set disk access="gid:$(id -g) ro"
	is_ro true nbdinfo "$unix"
	stop_liftd
fi

# ---- IPv6, and IPv4 on the same socket -------------------------------------------------------------------------

port=$(free_port)
if start=$(python3 -c 'import socket; socket.socket(socket.AF_INET6).bind(("::1", 0))' 2>&1); then
	start_liftd -o listen="[::]:$port" -o access='ip:127.0.0.1 ro, ip:::1 rw' -x disk disk.img
	is_ro true nbdinfo "nbd://127.0.0.1:$port/disk"
	is_ro false nbdinfo "nbd://[::1]:$port/disk"
	stop_liftd
	# Both named: each gets its own.
	start_liftd -o listen="[::]:$port" -o listen="0.0.0.0:$port" -x disk disk.img
	nbdinfo "nbd://127.0.0.1:$port/disk" >out
	nbdinfo "nbd://[::1]:$port/disk" >out
	stop_liftd
else
	echo "no IPv6 here: $start"
fi

# ---- what sockets are set to -----------------------------------------------------------------------------------

# The timers of the server's end of a connection, to out.
timers()
{
	background qemu-io -r -f raw -c 'sleep 600000' "nbd://127.0.0.1:$port/disk"
	wait_for "ctl clients disk | grep -q '^ip:127.0.0.1 '" 20
	ss -tnoH state established "( sport = :$port )" >out
	kill "$BG_PID"
	wait "$BG_PID" || :
	wait_for "! ctl clients disk | grep -q '^ip:127.0.0.1 '" 20
}

start_liftd -p "$port" -x disk -o keepalive=1000 disk.img
timers
grep -qE 'keepalive,1[56]min' out || fail "keepalive=1000: $(<out)"
stop_liftd
start_liftd -p "$port" -x disk -o keepalive=0 disk.img
timers
! grep -q keepalive out || fail "keepalive=0: $(<out)"
stop_liftd

# Replies that are not read stay unacknowledged; stall_timeout would take longer.
start_liftd -p "$port" -x disk -o user_timeout=500ms -o stall_timeout=3600s disk.img
PYTHONPATH=$tests/helpers background python3 -c '
import sys, time
from nbdraw import *
c = Client(sys.argv[1]).go("disk")
c.send(b"".join(request(READ, i, 0, 4 << 20) for i in range(8)))
time.sleep(600)' "127.0.0.1:$port"
wait_for "[[ \$(ctl --json stats disk | python3 -c 'import json, sys; print(json.load(sys.stdin)[\"connections_total\"])') == 1 ]]" 20
wait_for "! ctl clients disk | grep -q '^ip:127.0.0.1 '" 40
kill "$BG_PID"
wait "$BG_PID" || :
stop_liftd

# ---- vsock -----------------------------------------------------------------------------------------------------

vsock()
{
	python3 -c "import socket, sys; s = socket.socket(socket.AF_VSOCK); s.bind((int(sys.argv[1]), 10809))" "$1" 2>/dev/null
}

if vsock 1; then
	start_liftd -o log=debug -o listen=vsock:1:10809 -x disk -o access='cid:1 ro' disk.img
	is_ro true nbdinfo nbd+vsock://1:10809/disk
	stop_liftd
	grep -q "connection [0-9]*: cid:1 uses export 'disk'" "$LIFTD_LOG"
elif vsock -1; then
	echo "this machine has no loopback of vsock: nobody can connect"
	refuses 1 "cannot listen on vsock:1:10809: this machine does not have that CID" \
		"$BUILD/liftd" -o listen=vsock:1:10809 --control "$CTL" disk.img
	start_liftd -o listen=vsock:10809 -x disk disk.img
	grep -q "listening on vsock:10809" "$LIFTD_LOG"
	stop_liftd
else
	echo "this machine has no vsock"
	refuses 1 "cannot listen on vsock:10809: " "$BUILD/liftd" -o listen=vsock:10809 --control "$CTL" disk.img
fi
refuses 2 "listen: 'vsock:x' is no address of vsock; expected vsock:PORT" \
	"$BUILD/liftd" --check -o listen=vsock:x disk.img
refuses 2 "unix: 'mode=0888' is not a mode; expected an octal number" \
	"$BUILD/liftd" --check -U "$tmp/x mode=0888" disk.img
refuses 2 "listen: 'tls=maybe' is not a choice; expected tls=off" \
	"$BUILD/liftd" --check -o listen='127.0.0.1:1 tls=maybe' disk.img
refuses 2 "tls" "$BUILD/liftd" --check -o listen='127.0.0.1:1 tls=require' disk.img

# ---- inside nbdkit ---------------------------------------------------------------------------------------------

case $BUILD in
*/asan | */tsan) exit 0 ;; # nbdkit is built without
esac
if command -v nbdkit >/dev/null && [[ -e $BUILD/nbdkit-lift-plugin.so ]]; then
	start_nbdkit disk.img access="uid:$(id -u) ro" writers=one
	is_ro true nbdinfo "$URI"
	ctl set disk.img access="gid:$(id -g) rw"
	is_ro false nbdinfo "$URI"
	grep -q 'can_multi_conn: false' out || fail "a writer of one: $(<out)"
	background qemu-io -f raw -c 'sleep 600000' "$URI"
	wait_for "ctl clients | grep -q '^pid:$BG_PID .* yes\$'" 20
	! nbdinfo "$URI" >out 2>&1 || fail "a second writer"
	grep -q "export 'disk.img': uid [0-9]* (pid [0-9]*) cannot attach: pid:$BG_PID writes to it" "$LIFTD_LOG" ||
		fail "nbdkit's log: $(<"$LIFTD_LOG")"
	kill "$BG_PID"
	wait "$BG_PID" || :
	wait_for "! ctl clients | grep -q '^pid:$BG_PID '" 20
	ctl set disk.img access='uid:4294967294 rw'
	! nbdinfo "$URI" >out 2>&1 || fail "who is not permitted"
	grep -q "export 'disk.img': uid [0-9]* (pid [0-9]*) is not permitted: no entry" "$LIFTD_LOG"
	nbdinfo --list "$URI" >out 2>&1 || :
	! grep -q 'export="disk.img"' out || fail "nbdkit lists it: $(<out)"
	stop_liftd
fi
