#!/bin/bash
# What liftd refuses: for each thing one clear message that names it, what was given and what was expected; status 2 if
# the fix is in the command line, 1 if it is around it; and nothing left behind.
. "$(dirname "$0")/functions.sh"
requires python3

chmod 755 "$tmp"
work=$tmp/work
mkdir -p "$work"/{a,b,dir}
cd "$work"
truncate -s 8M disk.img a/disk.img b/disk.img
: >empty
mkfifo fifo
ln -s nowhere dangling
sockets=(-U "$work/u.sock" --control "$work/c.sock")
n=0

listing()
{
	find "$work" -printf '%p %y %s\n' | sort
}

# refused STATUS REGEX ARG...: liftd with $sockets and these arguments. Its message must match, ignoring case.
refused()
{
	local want=$1 regex=$2 status=0 before after said
	shift 2
	before=$(listing)
	timeout 30 "${as[@]}" "$liftd" "${sockets[@]}" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null || status=$?
	said=$(grep -v '^liftd: listening on ' "$tmp/err" || :)
	[[ $status -eq $want ]] || fail "exit status $status instead of $want: liftd $*: $said"
	[[ ! -s $tmp/out ]] || fail "its standard output is not empty: liftd $*: $(head -c 300 "$tmp/out")"
	grep -qiE -- "$regex" <<<"${said//$'\n'/ }" || fail "said nothing that matches '$regex': liftd $*: $said"
	[[ $(wc -l <<<"$said") -le $lines ]] || fail "more than $lines line(s): liftd $*: $said"
	after=$(listing)
	[[ $before == "$after" ]] || fail "left something behind: liftd $*: $(diff <(echo "$before") <(echo "$after"))"
	n=$((n + 1))
}
liftd=$BUILD/liftd
as=()
lines=1

# ---- options ---------------------------------------------------------------------------------------------------

lines=2 # getopt's words, and where to look
refused 2 "unrecognized option '--frobnicate'.*--help" --frobnicate disk.img
refused 2 "invalid option.*z" -z disk.img
refused 2 "requires an argument" disk.img -p
refused 2 "doesn't allow an argument" --read-only=yes disk.img
lines=1
refused 2 'no image.*--help'
refused 2 "port 'abc'.*number, 0\.\.65535" -p abc disk.img
refused 2 "port '70000'.*65535" -p 70000 disk.img
refused 2 "port '-5'" -p -5 disk.img
refused 2 "port ''" -p '' disk.img
refused 2 'port.*twice' -p 1 -p 2 disk.img
refused 2 "threads.*'0'.*1\.\.256" --threads 0 disk.img
refused 2 "log.*'loud'.*error, warning, info, debug" --log loud disk.img
refused 2 "no user 'no-such-user'" --user no-such-user disk.img
refused 2 "no group 'no-such-group'" --group no-such-group disk.img

# ---- schedulers and tunables -----------------------------------------------------------------------------------

refused 2 "scheduler.*'cfk'.*noop, deadline, cfq" -s cfk disk.img
refused 2 "scheduler.*'CFQ'.*cfq" -s CFQ disk.img
refused 2 "scheduler.*''.*cfq" -s '' disk.img
refused 2 'scheduler.*twice' -s noop -o scheduler=cfq disk.img
refused 2 "unknown.*'queue_dept'.*mean queue_depth" -o queue_dept=4 disk.img
refused 2 "unknown.*'read_expir'.*mean read_expire" -s deadline -o read_expir=5 disk.img
refused 2 "unknown.*'read_expire'.*cfq.*mean deadline\.read_expire" -o read_expire=5 disk.img
refused 2 "unknown.*'deadlin\.read_expire'.*no scheduler" -o deadlin.read_expire=5 disk.img
refused 2 "unknown.*'colour'" -o colour=blue disk.img
for value in 0 1025 3x -1 ' 4' '4 ' '' 0x10 1e3 99999999999999999999999; do
	refused 2 "queue_depth: '$value'.*expected auto, 1\.\.1024" -o "queue_depth=$value" disk.img
done
refused 2 "max_queue_age: '5K' is not a time.*ms" -o max_queue_age=5K disk.img
refused 2 "max_queue_age: '500us'.*ms" -o max_queue_age=500us disk.img
refused 2 "max_queue_age: '2h'.*ms" -o max_queue_age=2h disk.img
refused 2 "max_sectors_kb: '5ms' is not a size.*KiB" -o max_sectors_kb=5ms disk.img
refused 2 "max_sectors_kb: '4097s'.*KiB" -o max_sectors_kb=4097s disk.img
refused 2 "max_sectors_kb: '33M'.*4\.\.32768 KiB" -o max_sectors_kb=33M disk.img
refused 2 "nr_requests: '3'.*4\.\.65536" -o nr_requests=3 disk.img
refused 2 "nr_requests: 'auto'.*4\.\.65536" -o nr_requests=auto disk.img
refused 2 "lock: '2'.*yes, no" -o lock=2 disk.img
refused 2 "cache: 'maybe'.*none, writeback, writethrough" -o cache=maybe disk.img
refused 2 "aio: 'uring'.*auto, io_uring, threads" -o aio=uring disk.img
refused 2 "disk_model: 'floppy'.*hdd7200" -o disk_model=floppy disk.img
refused 2 "memory: '1M'.*67108864" -o memory=1M disk.img
refused 2 "handshake_timeout: '5'.*100\.\.3600000 ms" -o handshake_timeout=5 disk.img
refused 2 'queue_depth.*twice' -o queue_depth=1 -o queue_depth=2 disk.img
refused 2 "'queue_depth'.*NAME=VALUE" -o queue_depth disk.img
refused 2 "'=5'.*NAME=VALUE" -o =5 disk.img
refused 2 "''.*NAME=VALUE" -o '' disk.img
# Nothing of a bad set of options is applied, wherever the bad one stands.
refused 2 "'colour'" -o colour=blue -p 0 --pid-file "$work/pid" disk.img
refused 2 "'colour'" -p 0 --pid-file "$work/pid" disk.img -o colour=blue

# ---- clients ---------------------------------------------------------------------------------------------------

for text in client: client:. client:weight=5 client:.weight=3 client:ip:10.0.0.7 'client:ip:10.0.0.7.weight'; do
	refused 2 "'$text'.*expected client:MATCH\.NAME=VALUE" -o "$text" disk.img
done
refused 2 "weight: '0'.*1\.\.1000" -o client:ip:10.0.0.1.weight=0 disk.img
refused 2 "weight: '2000'.*1\.\.1000" -o client:ip:10.0.0.1.weight=2000 disk.img
refused 2 "weight: 'heavy'.*1\.\.1000" -o client:ip:10.0.0.1.weight=heavy disk.img
refused 2 "class: 'high'.*rt, be, idle" -o client:uid:0.class=high disk.img
refused 2 "unknown.*'wait'" -o client:ip:10.0.0.1.wait=1 disk.img
refused 2 "'ip:10.0.0.1/33'.*ADDRESS/PREFIX" -o client:ip:10.0.0.1/33.weight=3 disk.img
refused 2 "'ip:10.0.0.1/8'.*bits beyond /8" -o client:ip:10.0.0.1/8.weight=3 disk.img
refused 2 "'ip:999.1.1.1'.*no address" -o client:ip:999.1.1.1.weight=3 disk.img
refused 2 "'nonsense'.*expected ip:ADDRESS" -o client:nonsense.weight=3 disk.img

# ---- exports ---------------------------------------------------------------------------------------------------

refused 2 "a/disk.img.*b/disk.img.*'disk.img'" a/disk.img b/disk.img
refused 2 "disk.img.*'disk.img'" disk.img disk.img
refused 2 'name.*2 images' -x vm disk.img a/disk.img
refused 2 'name.*2 images' -o name=vm disk.img a/disk.img
refused 2 'disk.img.*8388608.*5242880' -o size=5M disk.img
refused 2 'null store needs a size' null:
refused 2 "size: '5X'" -o size=5X null:

# ---- images ----------------------------------------------------------------------------------------------------

refused 1 'missing.img does not exist' missing.img
refused 1 'dangling' dangling
refused 1 'dir is a directory.*regular file or a block device' dir
refused 1 'fifo is a FIFO.*regular file or a block device' fifo
refused 1 'empty is empty' empty
refused 1 '/dev/null is a character device' /dev/null
refused 1 'disk.img/x.*not a directory' disk.img/x
refused 1 'missing.img' a/disk.img missing.img
refused 2 "'' has no path" ''

# ---- other people's files --------------------------------------------------------------------------------------

if [[ $(id -u) -eq 0 ]] && command -v setpriv >/dev/null; then
	as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
	# The build may lie where nobody may look, as in /root.
	install -m 755 "$liftd" "$tmp/liftd"
	liftd=$tmp/liftd
	mkdir -m 777 "$tmp/shared"
	sockets=(-U "$tmp/shared/u.sock" --control "$tmp/shared/c.sock")
	chmod 600 disk.img
	refused 1 'disk.img.*writing.*65534.*permission denied' "$work/disk.img"
	refused 1 'disk.img.*reading.*65534.*permission denied' -r "$work/disk.img"
	chmod 644 disk.img
	refused 1 'disk.img.*writing.*permission denied.*readonly=1' "$work/disk.img"
	chmod 700 a
	refused 1 'a/disk.img.*permission denied' -r "$work/a/disk.img"
	refused 1 'cannot become user 0.*not permitted' -r --user root "$work/disk.img"
	sockets=(-U "$work/u.sock" --control "$tmp/shared/c.sock")
	refused 1 "$work/u.sock.*permission denied" -r "$work/disk.img"
	sockets=(-U "$tmp/shared/u.sock" --control "$work/c.sock")
	refused 1 "$work/c.sock.*permission denied" -r "$work/disk.img"
	[[ ! $(ls "$tmp/shared") ]] || fail "left behind: $(ls "$tmp/shared")"
	chmod 755 a
	liftd=$BUILD/liftd
	as=()
	sockets=(-U "$work/u.sock" --control "$work/c.sock")
fi

# ---- sockets ---------------------------------------------------------------------------------------------------

# A port that somebody else has, with a Unix socket and a pid file made before or after: they are gone again.
exec {fd}< <(exec python3 -c 'import socket, time
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen()
print(s.getsockname()[1], flush=True)
time.sleep(600)')
background_pid=$!
at_exit "kill $background_pid 2>/dev/null"
read -r -u "$fd" port
refused 1 "127.0.0.1:$port.*in use" -p "$port" --pid-file "$work/pid" disk.img
refused 1 "127.0.0.1:$port.*in use" -b 127.0.0.1 -p "$port" disk.img
refused 1 '192.0.2.77:[0-9]*.*cannot assign' -b 192.0.2.77 -p 0 disk.img
refused 1 "$work/none/pid.*no such file" --pid-file "$work/none/pid" disk.img

sum=$(cksum disk.img)
for thing in disk.img dir fifo; do
	sockets=(-U "$work/$thing" --control "$work/c.sock")
	refused 1 "$thing.*no socket" disk.img
	sockets=(-U "$work/u.sock" --control "$work/$thing")
	refused 1 "control.*$thing.*no socket" disk.img
done
[[ $(cksum disk.img) == "$sum" ]] || fail "a file was overwritten by a socket"
long=$(printf 'x%.0s' {1..108})
sockets=(-U "$long" --control "$work/c.sock")
refused 2 "unix: 'xxx.*1\.\.107 bytes" disk.img
sockets=(-U "$work/u.sock" --control "$long")
refused 2 "control: 'xxx.*107 bytes" disk.img
sockets=(-U '' --control "$work/c.sock")
refused 2 "unix: ''.*1\.\.300 bytes" disk.img
sockets=(-U "$work/none/u.sock" --control "$work/c.sock")
refused 1 'none/u.sock.*no such file' disk.img
sockets=(-U "$work/u.sock" --control "$work/none/c.sock")
refused 1 'control.*none/c.sock.*no such file' disk.img
sockets=(-U "$work/u.sock" --control "$work/u.sock")
refused 1 "u.sock" disk.img

# Live sockets and locked images are refused, and whoever has them does not notice.
start_liftd disk.img
live=$LIFTD_PID
sockets=(-U "$SOCK" --control "$work/c.sock")
refused 1 "$SOCK: a running server" a/disk.img
sockets=(-U "$work/u.sock" --control "$CTL")
refused 1 "control.*$CTL: a running server" a/disk.img
sockets=(-U "$work/u.sock" --control "$work/c.sock")
refused 1 'disk.img is locked' disk.img
refused 1 'disk.img is locked' -r disk.img
ln disk.img same.img
refused 1 'same.img is locked' same.img
rm same.img
ctl list >/dev/null || fail "the control socket of the server that lives is gone"
requires nbdinfo
[[ $(nbdinfo --size "$URI") == 8388608 ]] || fail "the socket of the server that lives is gone"

# The default control socket is not worth refusing to serve.
mkdir "$work/run"
RUNTIME_DIRECTORY=$work/run "$BUILD/liftd" -U "$work/1.sock" a/disk.img 2>"$tmp/first" </dev/null &
first=$!
_others[$first]=1
wait_for 'grep -qx "liftd: ready" "$tmp/first"' 30
RUNTIME_DIRECTORY=$work/run "$BUILD/liftd" -U "$work/2.sock" b/disk.img 2>"$tmp/second" </dev/null &
second=$!
_others[$second]=1
wait_for 'grep -qx "liftd: ready" "$tmp/second"' 30
grep -q "warning: no control socket.*$work/run/control.sock.*running" "$tmp/second" || fail "no warning: $(cat "$tmp/second")"
kill -TERM $second
wait $second || fail "the server without a control socket ended badly"
[[ -S $work/run/control.sock ]] || fail "the control socket of the first server was removed by the second"
CTL=$work/run/control.sock ctl list >/dev/null || fail "the first server's control socket is dead"
kill -TERM $first
wait $first || fail "the first server ended badly"
unset "_others[$first]" "_others[$second]"
rmdir "$work/run" || fail "left behind: $(ls "$work/run")"

# Stale ones, left by a server that was killed, are replaced.
kill_liftd $live
[[ -S $SOCK && -S $CTL ]] || fail "no sockets are left of a killed server: nothing to test"
start_liftd disk.img
ctl list >/dev/null
[[ $(nbdinfo --size "$URI") == 8388608 ]] || fail "not served on a socket that was stale"
stop_liftd
[[ ! -e $SOCK && ! -e $CTL ]] || fail "sockets are left behind after a clean stop"
echo "$n refusals"
