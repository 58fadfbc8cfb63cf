#!/bin/bash
# liftctl: every command against a live server, what it prints, its exit statuses, and what it says without a server.
. "$(dirname "$0")/functions.sh"
requires python3 qemu-io "$BUILD/liftctl"

# json EXPR CMD...: what this Python expression makes of the JSON that CMD prints, d
json()
{
	local expr=$1
	shift
	"$@" | python3 -c "import json, sys; d = json.load(sys.stdin); print($expr)"
}

# is WANT CMD...: CMD succeeds and prints just this
is()
{
	local want=$1 got
	shift
	got=$("$@") || fail "$* failed"
	[[ $got == "$want" ]] || fail "$*: '$got' instead of '$want'"
}

lift=$BUILD/liftctl

# ---- without a server ------------------------------------------------------------------------------------------

refuses 1 "no control socket at $tmp/none: start liftd" "$lift" --socket "$tmp/none" list
refuses 1 "is not a socket" "$lift" --socket "$0" list
refuses 1 "too long for a socket" "$lift" --socket "/$(printf 'x%.0s' {1..200})" list
refuses 1 "no control socket at $tmp/a/control.sock, $tmp/b/liftd/control.sock, " \
	env RUNTIME_DIRECTORY="$tmp/a" XDG_RUNTIME_DIR="$tmp/b" "$lift" list
python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$tmp/stale"
refuses 1 "nobody listens on $tmp/stale: liftd is not running" "$lift" --socket "$tmp/stale" list

# One that answers nothing, one that closes at once, one that speaks something else.
cat >"$tmp/servers.py" <<'EOP'
import socket, sys, threading
def serve(name, answer):
    s = socket.socket(socket.AF_UNIX)
    s.bind(sys.argv[1] + '/' + name)
    s.listen()
    while True:
        c = s.accept()[0]
        c.recv(65536)
        if answer is None:
            c.recv(1)
        else:
            c.sendall(answer)
        c.close()
for what in (('mute', None), ('shut', b''), ('http', b'HTTP/1.1 400 Bad Request\r\n\r\n'), ('odd', b'{"jsonrpc":"2.0","id":1}\n'),
             ('rude', b'{"error":{"code":-1,"message":"a\\u001b[31mb"}}\n'), ('half', b'{"jsonrpc":"2.0"')):
    threading.Thread(target=serve, args=what).start()
EOP
background python3 "$tmp/servers.py" "$tmp"
for name in mute shut http odd rude half; do wait_for "[[ -S $tmp/$name ]]" 10; done
refuses 1 "did not answer on $tmp/mute within 1 s" "$lift" --timeout 1 --socket "$tmp/mute" list
refuses 1 "closed $tmp/shut without an answer" "$lift" --socket "$tmp/shut" list
refuses 1 "closed $tmp/half without an answer" "$lift" --socket "$tmp/half" list
refuses 1 "not one of a liftd control socket" "$lift" --socket "$tmp/http" list
refuses 1 "not one of a liftd control socket" "$lift" --json --socket "$tmp/odd" list
refuses 1 "a\?\[31mb" "$lift" --socket "$tmp/rude" list

# ---- the command line ------------------------------------------------------------------------------------------

refuses 2 "no command given" "$lift"
refuses 2 "unknown command 'lsit'" "$lift" lsit
refuses 2 "unknown option '--sock-et'" "$lift" --sock-et x list
refuses 2 "socket needs a value" "$lift" --socket
refuses 2 "socket needs the path" "$lift" --socket "" list
refuses 2 "no number of seconds" "$lift" --timeout 0 list
refuses 2 "usage: liftctl get EXPORT NAME" "$lift" get a
refuses 2 "'b' is not NAME=VALUE" "$lift" set a b
refuses 2 "not UTF-8" "$lift" show $'\xff'
refuses 0 'set EXPORT NAME=VALUE' "$lift" --help
refuses 0 'EXPORT "" is the default export' "$lift" help
refuses 0 'scheduler EXPORT NAME' "$lift" help scheduler
refuses 2 "did you mean scheduler" "$lift" help schedulre
refuses 0 '^liftctl [0-9.]+$' "$lift" --version
if [[ -w /dev/full ]]; then
	status=0
	"$lift" --help >/dev/full 2>"$tmp/err" || status=$?
	[[ $status -eq 1 ]] && grep -q 'cannot write' "$tmp/err" || fail "a full disk: status $status"
fi

# ---- one export ------------------------------------------------------------------------------------------------

make_image "$tmp/disk.img" 8M
start_liftd -s deadline "$tmp/disk.img"
c=("$lift" --socket "$CTL")

is "disk.img" json 'd[0]["name"]' ctl --json list
is "8388608" json 'd[0]["size"]' ctl --json list
ctl list >"$tmp/out"
grep -qE '^NAME +SIZE' "$tmp/out"
grep -qE '^disk.img +8 MiB +rw +deadline ' "$tmp/out"
is "$LIFTD_PID" json 'd["pid"]' ctl --json info
ctl info >"$tmp/out"
grep -q "process $LIFTD_PID" "$tmp/out"
grep -q 'schedulers: noop deadline cfq' "$tmp/out"

# get, set: values alone, in the row's unit; all or none.
is 500 ctl get disk.img read_expire
is 500 ctl get "" read_expire
is "" ctl set disk.img read_expire=2s writes_starved=3 cfq.quantum=5
is 2000 ctl get disk.img read_expire
is 5 ctl get disk.img cfq.quantum
refuses 1 "writes_starved: '0' is out of range; expected 1" "${c[@]}" set disk.img read_expire=7 writes_starved=0
refuses 1 "did you mean read_expire" "${c[@]}" set disk.img writes_starved=1 read_expier=7
refuses 1 "did you mean cfq.quantum" "${c[@]}" set disk.img quantum=7
refuses 1 "can be set at start only" "${c[@]}" set disk.img read_expire=7 cache=none
refuses 1 "expected 0..[0-9]+ ms" "${c[@]}" set disk.img read_expire=7K
is 2000 ctl get disk.img read_expire
is 3 ctl get disk.img writes_starved
refuses 1 "unknown tunable 'read_expier'; did you mean read_expire" "${c[@]}" get disk.img read_expier
refuses 1 "no export is named 'dusk.img'; did you mean 'disk.img'" "${c[@]}" get dusk.img read_expire
[[ $(ctl get disk.img queue_depth) -gt 0 ]]
is writeback ctl get disk.img cache
is deadline ctl get disk.img scheduler

# scheduler
is "noop [deadline] cfq" ctl scheduler disk.img
is "" ctl scheduler disk.img cfq
is "noop deadline [cfq]" ctl scheduler disk.img
is 5 ctl get disk.img quantum
refuses 1 "scheduler: 'bfqq' .*expected noop, deadline, cfq" "${c[@]}" scheduler disk.img bfqq
is "" ctl set disk.img fifo_batch=4 scheduler=deadline
is "noop [deadline] cfq" ctl scheduler ""
is 4 ctl get disk.img fifo_batch
is 2000 ctl get disk.img read_expire

# show
ctl show disk.img >"$tmp/out"
grep -q 'the kernel decides' "$tmp/out"
grep -q 'cache=none' "$tmp/out"
grep -qE '^read_expire +2000 +500 +ms +0\.\.[0-9]+ +[a-z]' "$tmp/out"
grep -qE '^cfq\.quantum +5 ' "$tmp/out"
[[ $(ctl --json show disk.img) == $(ctl --json get disk.img cache) ]]
is 2000 json 'd["tunables"]["read_expire"]["value"]' ctl --json show disk.img
is "default max min runtime unit value" \
	json '" ".join(sorted(d["tunables"]["read_expire"]))' ctl --json show disk.img

# --json: the bytes of the server's result, as it sends them.
python3 - "$CTL" >"$tmp/raw" <<'EOP'
import json, re, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b'{"jsonrpc":"2.0","id":1,"method":"export.get","params":{"name":"disk.img"}}\n')
line = s.makefile().readline()
start = line.index('"result":') + 9
result = json.dumps(json.loads(line)['result'], separators=(',', ':'), ensure_ascii=False)
assert line[start:start + len(result)] == result
print(result)
EOP
ctl --json show disk.img | cmp - "$tmp/raw"

# ---- clients ---------------------------------------------------------------------------------------------------

is "[]" ctl --json clients
background qemu-io -f raw -c 'read 0 64k' -c 'write 0 4k' -c 'flush' -c 'sleep 900000' "$URI"
id=pid:$BG_PID
wait_for 'ctl clients | grep -q "^$id "' 20
is 1 json 'd[0]["connections"]' ctl --json clients disk.img
ctl clients >"$tmp/out"
grep -qE '^CLIENT +EXPORT' "$tmp/out"
grep -qE "^$id +disk.img +1 +100 +be " "$tmp/out"
is "" ctl client "$id" set weight=300 class=idle
grep -qE "^$id +disk.img +1 +300 +idle " < <(ctl clients "")
refuses 1 "weight: '1001' is out of range; expected 1..1000" "${c[@]}" client "$id" set class=rt weight=1001
is idle json 'd[0]["class"]' ctl --json clients
refuses 1 "no client is known as 'pid:1'" "${c[@]}" client pid:1 set weight=1
refuses 1 "no export is named 'x'" "${c[@]}" clients x
is "$id" json 'd[0]["id"]' ctl --json client $id set weight=7

# stats
wait_for '[[ $(json "d[\"flushes\"]" ctl --json stats) -ge 1 ]]' 20
for name in requests_received requests_answered requests_withdrawn requests_held bytes_held connections flushes syncs; do
	json "d['$name'] + 0" ctl --json stats >/dev/null
	ctl stats | grep -qE "^$name +[0-9]"
done
is 1 json 'd["connections"]' ctl --json stats ''
[[ $(json 'd["exports"]["disk.img"]["histograms"]["read_total"]["count"]' ctl --json stats disk.img) -ge 1 ]]
ctl stats disk.img >"$tmp/out"
grep -qE '^disk.img +read_total +[1-9]' "$tmp/out"

# drain, disconnect: qemu-io sleeps and will not notice.
refuses 1 "no client is known as 'pid:1'" "${c[@]}" client pid:1 drain
refuses 1 "no client is known as 'pid:1'" "${c[@]}" client pid:1 disconnect
refuses 2 "usage: liftctl client ID drain" "${c[@]}" client "$id" drian
is "" ctl client "$id" drain
wait_for '[[ $(ctl --json clients) == "[]" ]]' 20
is 0 json 'd[0]["connections"]' ctl --json client "$id" disconnect
kill "$BG_PID"
background qemu-io -f raw -c 'read 0 64k' -c 'sleep 900000' "$URI"
id=pid:$BG_PID
wait_for 'ctl clients | grep -q "^$id "' 20
is 1 json 'd[0]["connections"]' ctl --json client "$id" disconnect
wait_for '[[ $(ctl --json clients) == "[]" ]]' 20
kill "$BG_PID"

# ---- the end ---------------------------------------------------------------------------------------------------

is "{}" ctl --json shutdown
wait_for '_gone $LIFTD_PID' 20
stop_liftd
refuses 1 "$CTL" "$lift" --socket "$CTL" list

# With several exports there is no default one; the places where liftctl looks by itself.
make_image "$tmp/second.img" 1M
XDG_RUNTIME_DIR=$tmp start_liftd -r "$tmp/disk.img" "$tmp/second.img"
[[ $(ctl list | wc -l) -eq 3 ]]
grep -qE '^second.img +1 MiB +ro ' < <(ctl list)
refuses 1 "there is no default export" "${c[@]}" show ""
mkdir "$tmp/liftd"
ln -s "$CTL" "$tmp/liftd/control.sock"
[[ $(env -u RUNTIME_DIRECTORY XDG_RUNTIME_DIR="$tmp" "$lift" list) == "$(ctl list)" ]]
[[ $(env RUNTIME_DIRECTORY="$tmp/nothing" XDG_RUNTIME_DIR="$tmp" "$lift" list) == "$(ctl list)" ]]
ctl shutdown
wait_for '_gone $LIFTD_PID' 20
