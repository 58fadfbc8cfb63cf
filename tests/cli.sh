#!/bin/bash
# The command line: what is refused, with which status and sentence, and that nothing is left behind by it.
. "$(dirname "$0")/functions.sh"
requires python3 nbdinfo

liftd=$BUILD/liftd
[[ -x $liftd ]] || skip "$liftd is not built"
img=$tmp/disk.img
truncate -s 16M "$img"
u=(-U "$tmp/s" --control "$tmp/c")

# ---- 2: the fix is in the command line ----
refuses 2 'no image' "$liftd"
refuses 2 'bogus' "$liftd" --bogus "$img"
refuses 2 'requires an argument' "$liftd" "$img" --port
refuses 2 "NAME=VALUE" "$liftd" "${u[@]}" -o read_expire "$img"
refuses 2 "NAME=VALUE" "$liftd" "${u[@]}" -o =5 "$img"
refuses 2 "unknown tunable 'nr_request'.*nr_requests" "$liftd" "${u[@]}" -o nr_request=5 "$img"
refuses 2 "nr_requests.*'x'" "$liftd" "${u[@]}" -o nr_requests=x "$img"
refuses 2 "nr_requests.*5x" "$liftd" "${u[@]}" -o nr_requests=5x "$img"
refuses 2 "nr_requests.*65536" "$liftd" "${u[@]}" -o nr_requests=100000 "$img"
refuses 2 "max_queue_age.*5K" "$liftd" "${u[@]}" -o max_queue_age=5K "$img"
refuses 2 "nr_requests.*twice" "$liftd" "${u[@]}" -o nr_requests=5 -o nr_requests=6 "$img"
refuses 2 "readonly.*twice" "$liftd" "${u[@]}" -r -o readonly=1 "$img"
refuses 2 "scheduler.*bogus.*noop, deadline, cfq" "$liftd" "${u[@]}" -s bogus "$img"
refuses 2 "fifo_batch.*deadline.fifo_batch" "$liftd" "${u[@]}" -o fifo_batch=5 "$img"
refuses 2 "bogus.*no scheduler" "$liftd" "${u[@]}" -o bogus.fifo_batch=5 "$img"
refuses 2 "memory.*67108864" "$liftd" "${u[@]}" -o memory=1M "$img"
refuses 2 "memory.*unknown|memory" "$liftd" "${u[@]}" -o memory=x "$img"
refuses 2 "threads" "$liftd" "${u[@]}" --threads 0 "$img"
refuses 2 "log" "$liftd" "${u[@]}" --log loud "$img"
refuses 2 "port.*65536" "$liftd" -p 65536 "$img"
refuses 2 "port.*'x'" "$liftd" -p x "$img"
refuses 2 "listen" "$liftd" -o listen=127.0.0.1 "$img"
refuses 2 "client:" "$liftd" "${u[@]}" -o client:weight=5 "$img"
refuses 2 "weight.*1000" "$liftd" "${u[@]}" -o client:uid:5.weight=1001 "$img"
refuses 2 "unknown tunable 'wait'" "$liftd" "${u[@]}" -o client:uid:5.wait=1 "$img"
refuses 2 "10.0.0.1/8" "$liftd" "${u[@]}" -o client:ip:10.0.0.1/8.weight=5 "$img"
refuses 2 "called 'disk.img'" "$liftd" "${u[@]}" "$img" "$tmp/../$(basename "$tmp")/disk.img"
refuses 2 "2 images" "$liftd" "${u[@]}" -x a "$img" null:
refuses 2 "size" "$liftd" "${u[@]}" null:
refuses 2 "there is no user 'nobody-at-all'" "$liftd" "${u[@]}" --user nobody-at-all "$img"
refuses 2 "1..107 bytes" "$liftd" -U "$tmp/$(printf 'x%.0s' {1..120})" --control "$tmp/c" "$img"

# ---- 1: something around it is wrong ----
mkdir "$tmp/dir"
: >"$tmp/empty"
refuses 1 "$tmp/missing" "$liftd" "${u[@]}" "$tmp/missing"
refuses 1 "directory" "$liftd" "${u[@]}" "$tmp/dir"
refuses 1 "empty" "$liftd" "${u[@]}" "$tmp/empty"
refuses 1 "No such file or directory" "$liftd" -U "$tmp/none/s" --control "$tmp/c" "$img"
refuses 1 "control socket.*No such file" "$liftd" -U "$tmp/s" --control "$tmp/none/c" "$img"
refuses 1 "no socket" "$liftd" -U "$img" --control "$tmp/c" "$img"
refuses 1 "pid" "$liftd" "${u[@]}" --pid-file "$tmp/none/pid" "$img"
refuses 1 "cannot listen on 192.0.2.1" "$liftd" -b 192.0.2.1 --control "$tmp/c" "$img"
[[ ! -e $tmp/s && ! -e $tmp/c ]] || fail "sockets are left behind"
if [[ $(id -u) -eq 0 ]] && command -v setpriv >/dev/null; then
	chmod 600 "$img"
	chmod 755 "$tmp"
	# The build may lie where nobody may look, as in /root.
	install -m 755 "$liftd" "$tmp/liftd"
	refuses 1 "writing.*65534.*Permission denied" \
		setpriv --reuid 65534 --regid 65534 --clear-groups "$tmp/liftd" -p 0 "$img"
fi

# ---- live and stale sockets ----
start_liftd -p "$(free_port)" "$img"
refuses 1 "running server" "$liftd" -U "$SOCK" --control "$tmp/c" null: -o size=1M
refuses 1 "control socket.*running server" "$liftd" -U "$tmp/s" --control "$CTL" null: -o size=1M
refuses 1 "locked" "$liftd" -U "$tmp/s" --control "$tmp/c" "$img"
nbdinfo --size "$URI" >/dev/null
kill_liftd
[[ -e $SOCK && -e $CTL ]] || fail "kill -9 removed a socket?"
start_liftd "$img"
nbdinfo --size "$URI" >/dev/null
stop_liftd
[[ ! -e $SOCK && ! -e $CTL ]] || fail "sockets are left behind"
port=$(free_port)
background python3 -c "import socket, time; s = socket.socket(); s.bind(('127.0.0.1', $port)); s.listen(); time.sleep(600)"
wait_for "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", $port))' 2>/dev/null" 60
refuses 1 "127.0.0.1:$port.*in use" "$liftd" -p "$port" --control "$tmp/c" "$img"

# ---- 0 ----
"$liftd" --version | grep -q '^liftd [0-9]' || fail "--version"
"$liftd" --help >"$tmp/help"
for name in nr_requests read_expire quantum slice_idle memory stall_timeout cache client:MATCH.weight; do
	grep -q "$name" "$tmp/help" || fail "--help does not know $name"
done

# Options in any order; the default control socket may be missing.
port=$(free_port)
start_liftd "$img" -o read_expire=100 -s deadline -x 'a name' -r -p "$port" -b 127.0.0.1 -o description='what it is' \
	-o client:ip:127.0.0.0/8.weight=250 -o client:ip:127.0.0.1.class=rt --threads 1 --log debug
nbdinfo "nbd://127.0.0.1:$port/a%20name" >"$tmp/info"
grep -q 'is_read_only: true' "$tmp/info" || fail "not read-only"
grep -q 'description: what it is' "$tmp/info" || fail "no description"
[[ $(ctl get 'a name' read_expire) == 100 ]] || fail "read_expire"
[[ $(ctl scheduler 'a name') == *'[deadline]'* ]] || fail "scheduler"
python3 - "$tests/helpers" "127.0.0.1:$port" "$CTL" <<'PY'
import sys
sys.path.insert(0, sys.argv[1])
from nbdraw import *
c = Client(sys.argv[2]).go()            # the only export is also the default one
assert c.write(0, b'x') == EPERM
who = Control(sys.argv[3]).call('client.list')[0]
assert (who['id'], who['weight'], who['class']) == ('ip:127.0.0.1', 250, 'rt'), who
PY
stop_liftd

# Several images; a description of each; LIST.
truncate -s 1M "$tmp/b.img"
start_liftd "$img" "$tmp/b.img"
nbdinfo --list "nbd+unix:///?socket=$SOCK" >"$tmp/info"
grep -q 'export="disk.img"' "$tmp/info" && grep -q 'export="b.img"' "$tmp/info" || fail "LIST"
[[ $(nbdinfo --size "nbd+unix:///b.img?socket=$SOCK") == 1048576 ]] || fail "wrong export"
! nbdinfo --size "nbd+unix:///?socket=$SOCK" >/dev/null 2>&1 || fail "two exports, and a default one"
! nbdinfo --size "nbd+unix:///c.img?socket=$SOCK" >"$tmp/info" 2>&1 || fail "an unknown export was found"
stop_liftd

# The default control socket: where systemd or the session says. If it cannot be had, it is done without.
serve_null()
{
	local socket=$1 log=$2
	shift 2
	RUNTIME_DIRECTORY=$1 exec "$liftd" -U "$socket" null: -o size=1M 2>"$log"
}
background serve_null "$tmp/s1" "$tmp/log1" "$tmp/run"
first=$BG_PID
wait_for "grep -q 'liftd: ready' '$tmp/log1'" 20
RUNTIME_DIRECTORY=$tmp/run "$BUILD/liftctl" list | grep -q null || fail "no default control socket"
for folder in "$tmp/run" "$tmp/no/where"; do
	background serve_null "$tmp/s2" "$tmp/log2" "$folder"
	wait_for "grep -q 'liftd: ready' '$tmp/log2'" 20
	grep -q 'warning: no control socket' "$tmp/log2" || fail "nothing was said about the control socket"
	[[ $(nbdinfo --size "nbd+unix:///?socket=$tmp/s2") == 1048576 ]] || fail "not served"
	kill -TERM "$BG_PID"
	wait "$BG_PID" || fail "exit status $?"
	rm "$tmp/log2"
done
RUNTIME_DIRECTORY=$tmp/run "$BUILD/liftctl" list | grep -q null || fail "the first one's control socket is gone"
kill -TERM "$first"
wait "$first" || fail "exit status $?"

# It gives up root; the control socket is its new group's.
if [[ $(id -u) -eq 0 ]]; then
	start_liftd --user nobody "$img"
	[[ $(stat -c %U "/proc/$LIFTD_PID") == nobody ]] || fail "still $(stat -c %U "/proc/$LIFTD_PID")"
	grep -q '^Groups:[[:space:]]*[0-9]' "/proc/$LIFTD_PID/status" || fail "no groups"
	! grep -qE '^Groups:.*\b0\b' "/proc/$LIFTD_PID/status" || fail "still in group 0"
	[[ $(stat -c '%U %a' "$CTL") == 'nobody 660' ]] || fail "control socket: $(stat -c '%U %a' "$CTL")"
	nbdinfo --size "$URI" >/dev/null
	ctl list >/dev/null
	stop_liftd
fi
