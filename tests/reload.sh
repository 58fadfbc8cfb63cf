#!/bin/bash
# The configuration loaded again: what changes, what is said about it, what a faulty file does, and all that under load.
. "$(dirname "$0")/functions.sh"
requires python3 nbdinfo qemu-io

cd "$tmp"
truncate -s 8M disk.img other.img
conf=$tmp/liftd.conf

# write_conf [LINE...]: the file; further lines belong to its last export. WEIGHT is that of 127.0.0.2.
write_conf()
{
	cat >"$conf.new" <<-EOF
		[server]
		listen = 127.0.0.1:0
		threads = 2
		stall_timeout = ${STALL:-60000}
		[client ip:127.0.0.2]
		weight = ${WEIGHT:-100}
		[export disk]
		path = $tmp/disk.img
		scheduler = ${SCHEDULER:-cfq}
		[export slow]
		path = null:
		size = 1G
		queue_depth = 1
		fault_delay = ${DELAY:-2ms}
	EOF
	printf '%s\n' "$@" >>"$conf.new"
	mv "$conf.new" "$conf"
}

# reloads [LINE...]: liftctl reload prints exactly these lines, in whatever order
reloads()
{
	ctl reload >out 2>&1 || fail "reload: $(<out)"
	diff <(printf '%s\n' "$@" | sort) <(sort out) || fail "reload says other things than expected"
}

# faulty REGEX: the file is refused with this, and nothing changes; by SIGHUP as well
faulty()
{
	local status=0 lines
	ctl --json show disk >before
	ctl --json clients >>before
	ctl reload >out 2>&1 || status=$?
	[[ $status -eq 1 ]] || fail "exit status $status: $(<out)"
	grep -q 'was not loaded, nothing is changed' out || fail "reload of a faulty file: $(<out)"
	grep -qE -- "$1" out || fail "does not say '$1': $(<out)"
	ctl --json show disk >after
	ctl --json clients >>after
	diff before after || fail "a faulty file changed something"
	lines=$(grep -c 'nothing is changed' "$LIFTD_LOG")
	kill -HUP "$LIFTD_PID"
	wait_for "[[ \$(grep -c 'nothing is changed' '$LIFTD_LOG') -gt $lines ]]" 20
	grep -qE -- "liftd: error: .*$1" "$LIFTD_LOG" || fail "the log does not say '$1'"
}

write_conf
start_liftd -c "$conf"
port=$(sed -n 's/.*listening on 127.0.0.1:\([0-9]*\)$/\1/p' "$LIFTD_LOG")

# ---- what it says and does -------------------------------------------------------------------------------------

reloads 'nothing has changed'
SCHEDULER=deadline STALL=5s WEIGHT=250 DELAY=1ms write_conf 'description = a slow one' 'quantum = 3'
reloads "changed: export 'disk': scheduler: cfq -> deadline" \
	"changed: export 'slow': description: (not set) -> a slow one" "changed: export 'slow': cfq.quantum: 8 -> 3" \
	"changed: export 'slow': fault_delay: 2000 -> 1000" "changed: stall_timeout: 60000 -> 5000" \
	"changed: client ip:127.0.0.2: weight: 100 -> 250"
[[ $(ctl scheduler disk) == *'[deadline]'* && $(ctl get slow quantum) == 3 ]] || fail "not changed"
nbdinfo "nbd+unix:///slow?socket=$SOCK" | grep -q 'description: a slow one' || fail "description"
grep -q "changed: export 'slow': cfq.quantum: 8 -> 3" "$LIFTD_LOG" || fail "the log does not say what has changed"

# What liftctl has set since is as in the file again.
ctl set disk nr_requests=99 scheduler=noop >/dev/null
WEIGHT=100 write_conf
reloads "changed: export 'disk': scheduler: noop -> cfq" "changed: export 'disk': nr_requests: 99 -> 128" \
	"changed: export 'slow': description: a slow one -> (not set)" "changed: export 'slow': cfq.quantum: 3 -> 8" \
	"changed: export 'slow': fault_delay: 1000 -> 2000" "changed: stall_timeout: 5000 -> 60000" \
	"changed: client ip:127.0.0.2: weight: 250 -> 100"
python3 - "$tests/helpers" "127.0.0.1:$port" "$CTL" <<'PY'
import sys
sys.path.insert(0, sys.argv[1])
from nbdraw import *
c = Client(sys.argv[2]).go('disk')
ctl = Control(sys.argv[3])
assert len(c.read(0, 512)) == 512                # by then it is known
ctl.call('client.set', id='ip:127.0.0.1', export='disk', set={'weight': 7})
ctl.call('client.set', id='ip:127.0.0.1', set={'class': 'idle'})
answer = ctl.call('server.reload')
assert sorted(answer['changed']) == ["client ip:127.0.0.1 of export 'disk': weight: 7 -> (not set)",
                                     'client ip:127.0.0.1: class: idle -> (not set)'], answer
assert answer['restart'] == [], answer
who = [w for w in ctl.call('client.list') if w['id'] == 'ip:127.0.0.1']
assert [(w['weight'], w['class']) for w in who] == [(100, 'be')], who
assert c.write(0, b'x') == 0
PY

# Exports: a new one, and one that is no longer there; what cannot change needs a restart.
write_conf '[export new]' "path = $tmp/other.img" 'queue_depth = 3'
reloads "changed: export 'new': added"
[[ $(nbdinfo --size "nbd+unix:///new?socket=$SOCK") == 8388608 && $(ctl get new queue_depth) == 3 ]] || fail "not added"
nbdinfo --list "nbd+unix:///?socket=$SOCK" | grep -q 'export="new"' || fail "not listed"
reloads 'nothing has changed'
write_conf
sed -i 's/^threads = 2/threads = 1/; s/^\(path = .*disk.img\)$/\1\nreadonly = yes/' "$conf"
reloads "needs a restart: threads: 2 -> 1" "needs a restart: export 'disk': readonly: 0 -> 1" "changed: export 'new': removed"
! nbdinfo --list "nbd+unix:///?socket=$SOCK" | grep -q 'export="new"' || fail "not removed"
write_conf
reloads 'nothing has changed'

# ---- faulty files ----------------------------------------------------------------------------------------------

SCHEDULER=noop WEIGHT=900 write_conf 'frobnicate = 1'
faulty 'liftd.conf:15: frobnicate: unknown setting'
SCHEDULER=noop WEIGHT=1001 write_conf
faulty 'liftd.conf:6: weight: .1001. is out of range'
SCHEDULER=noop write_conf '[export fine]' "path = $tmp/other.img" '[export x]' "path = $tmp/none.img"
faulty 'liftd.conf:18: .*none.img does not exist'
! nbdinfo --size "nbd+unix:///fine?socket=$SOCK" 2>/dev/null || fail "an export of a faulty file is served"
SCHEDULER=noop write_conf '[export x]' "path = $tmp/disk.img" 'cache = none'
faulty "liftd.conf:16: .*'x' and 'disk' are of the same image.*cache must be the same"
SCHEDULER=noop write_conf
sed -i 's/^scheduler.*/&\nfault_error_at = 5/' "$conf"
faulty 'liftd.conf:8: .*fault_ settings can be changed only where'
rm "$conf"
faulty 'liftd.conf: cannot be read: No such file'

# ---- under load ------------------------------------------------------------------------------------------------

write_conf
reloads 'nothing has changed'
reload_under_load()
{
	SCHEDULER=$([[ $((WEIGHT % 3)) -eq 0 ]] && echo deadline || echo cfq)
	SCHEDULER=$SCHEDULER DELAY=1ms write_conf 'quantum = 1' "[export $NEW]" 'path = null:' 'size = 1M' \
		${FAULT:+'[export fault]' "path = $tmp/none.img"}
	ctl reload
}
export -f reload_under_load write_conf ctl
export conf CTL
PYTHONPATH=$tests/helpers python3 "$tests/helpers/reload_load.py" "127.0.0.1:$port" reload_under_load
stop_liftd

# An image that is open for reading becomes writable by one more export of it, while clients look at the first.
for name in first second; do
	printf '%s\n' "[export $name]" "path = $tmp/other.img" "readonly = $([[ $name == first ]] && echo 1 || echo 0)"
done >both.conf
head -n 3 both.conf >"$conf"
INSTANCE=shared start_liftd -c "$conf"
background bash -c "while nbdinfo --can write 'nbd+unix:///first?socket=$SOCK'; [[ \$? -eq 2 ]]; do echo; done" >looks
wait_for '[[ -s looks ]]' 20
cp both.conf "$conf"
reloads "changed: export 'second': added"
seen=$(wc -l <looks)
wait_for '[[ $(wc -l <looks) -gt $((seen + 5)) ]]' 20
kill -0 "$BG_PID" || fail "nbdinfo fails, or the export is writable"
qemu-io -f raw -c 'write -P 0x5a 0 64k' -c 'flush' "nbd+unix:///second?socket=$SOCK" >/dev/null
qemu-io -f raw -r -c 'read -P 0x5a 0 64k' "nbd+unix:///first?socket=$SOCK" >/dev/null
stop_liftd

# Images alone: there is nothing to load again, and a SIGHUP does no harm.
INSTANCE=images start_liftd disk.img
kill -HUP "$LIFTD_PID"
wait_for "grep -q 'there is no configuration to load again' '$LIFTD_LOG'" 20
! ctl reload 2>err || fail "reload of images"
grep -q 'started with images' err || fail "reload of images: $(<err)"
nbdinfo --size "$URI" >/dev/null
stop_liftd
