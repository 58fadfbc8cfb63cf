#!/bin/bash
# The plugin for nbdkit: everybody's clients with each scheduler, parameters and their errors, the control socket, what
# clients are told apart by, errors of the disk, clients that are killed.
# timeout: 900
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/helpers/client_checks.sh"
requires nbdinfo nbdcopy qemu-img qemu-io fio python3
requires_nbdkit

plugin=$BUILD/nbdkit-lift-plugin.so
size=$((24 << 20))
img=$tmp/disk.img

# nbdkit with the plugin, to its end.
run_nbdkit=(timeout 60 nbdkit -U - "$plugin")

new_image()
{
	rm -f "$img"
	truncate -s "${1:-$size}" "$img"
}

# A counter of the export.
counter()
{
	ctl stats --json disk.img | python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"
}

# ---- clients -------------------------------------------------------------------------------------------------------

make_image "$tmp/a" $size
make_image "$tmp/b" $size

while read -r scheduler cache disk options <&3; do
	row="nbdkit: $scheduler $cache $disk $options"
	new_image
	[[ $disk == file ]] || options+=" disk_model=$disk"
	# shellcheck disable=SC2086
	start_nbdkit "$img" scheduler="$scheduler" cache="$cache" $options
	copies
	patterns
	verify
	grep -q 'can_fast_zero: true' "$tmp/info" || [[ $disk == hdd7200 ]] || fail "$row: no fast zero"
	[[ $(ctl scheduler disk.img) == *"[$scheduler]"* ]] || fail "$row: liftctl names another scheduler"
	[[ $(counter requests_held) == 0 ]] || fail "$row: requests are held"
	stop_liftd
	echo "$row"
done 3<<'ROWS'
noop none file max_sectors_kb=64
deadline writeback file
cfq writethrough file queue_depth=2
cfq none file
deadline none file max_sectors_kb=4 -t 4
noop writethrough file nomerges=0
cfq writeback hdd7200
noop writeback hdd7200
ROWS

# ---- the schedulers change under load ----

# Until $tmp/enough is there.
load()
{
	until [[ -e $tmp/enough ]]; do
		fio --name=v --ioengine=nbd --uri="$URI" --rw=randrw --bsrange=4k-64k --iodepth=24 --size=$size --number_ios=3000 \
			--verify=crc32c --verify_fatal=1 --verify_state_save=0 --verify_backlog=64 --output="$tmp/fio" >/dev/null 2>&1 ||
			return 1
	done
}

new_image
start_nbdkit "$img" -t 32
load &
load=$!
for ((i = 0; i < 12; i++)); do
	for s in noop deadline cfq; do ctl scheduler disk.img $s >/dev/null; done
	ctl set disk.img queue_depth=$((1 + i % 8)) max_sectors_kb=$((16 << i % 4)) >/dev/null
done
touch "$tmp/enough"
wait $load || { tail -n 30 "$tmp/fio"; fail "fio verify while the scheduler changes"; }
[[ $(counter switches) -ge 24 ]] || fail "the scheduler was changed $(counter switches) times only"
stop_liftd

# ---- what it is told -----------------------------------------------------------------------------------------------

# Each wrong value is refused with the words that liftd has for it.
new_image
while read -r bad <&3; do
	want=$("$BUILD/liftd" -U "$tmp/s" --control "$tmp/c" -o "$bad" "$img" 2>&1) && fail "liftd takes $bad"
	got=$("${run_nbdkit[@]}" "$img" "$bad" --run true 2>&1) && fail "the plugin takes $bad"
	want=${want#liftd: error: }
	got=$(sed -n 's/^nbdkit: error: //p' <<<"$got")
	[[ $got && $got == "$want" ]] || fail "$bad: '$got', where liftd says '$want'"
done 3<<'BAD'
nr_request=5
nr_requests=x
nr_requests=5x
nr_requests=100000
max_queue_age=5K
scheduler=bogus
fifo_batch=5
bogus.fifo_batch=5
deadline.bogus=5
cache=some
client_key=name
queue_depth=0
readonly=maybe
client:weight=5
client:uid:5.weight=1001
client:uid:5.wait=1
client:ip:10.0.0.1/8.weight=5
BAD
refuses 1 "nr_requests.*twice" "${run_nbdkit[@]}" "$img" nr_requests=5 nr_requests=6 --run true
refuses 1 "no image" "${run_nbdkit[@]}" --run true
refuses 1 "does not exist" "${run_nbdkit[@]}" "$tmp/nothing" --run true
refuses 1 "size" "${run_nbdkit[@]}" null: --run true
refuses 1 "control.*1..107|control.*107" "${run_nbdkit[@]}" "$img" control="$tmp/$(printf 'x%.0s' {1..120})" --run true
start_nbdkit "$img"
refuses 1 "in use|locked|lock=0" "${run_nbdkit[@]}" "$img" --run true
refuses 1 "control socket: .*a running server" "${run_nbdkit[@]}" null: size=1M control="$CTL" --run true
stop_liftd
[[ ! -e $CTL ]] || fail "the control socket is still there"

# --help and --dump-plugin have every name that liftd has for exports, schedulers and clients.
nbdkit "$plugin" --help >"$tmp/help"
nbdkit "$plugin" --dump-plugin >"$tmp/dump"
"$BUILD/liftd" --help | sed -n '/^Exports:/,$p' >"$tmp/liftd-help"
names=$(sed -n 's/^  \([a-z_:.A-Z]*\) (.*/\1/p' "$tmp/liftd-help")
[[ $(wc -w <<<"$names") -gt 40 ]] || fail "liftd --help has too few names"
for name in $names; do
	grep -q "^  $name (" "$tmp/help" || fail "--help does not have $name"
	grep -qE "^lift_([a-z]+\.)?${name##*.}=" "$tmp/dump" || fail "--dump-plugin does not have $name"
done
grep -q '^lift_deadline.read_expire=' "$tmp/dump" || fail "--dump-plugin does not name the scheduler"
grep -q '^lift_scheduler=noop, deadline, cfq$' "$tmp/dump" || fail "--dump-plugin: schedulers"
grep -q '^thread_model=parallel' "$tmp/dump" || fail "--dump-plugin: thread model"

# ---- ways to run it ----

new_image
"${run_nbdkit[@]}" path="$img" name=x description="a disk" --run 'nbdinfo --list "$uri"' >"$tmp/info"
grep -q 'export="x"' "$tmp/info" || fail "no export is called x"
grep -q 'description: a disk' "$tmp/info" || fail "no description"
"${run_nbdkit[@]}" -r "$img" --run 'nbdinfo "$uri"' | grep -q 'is_read_only: true' || fail "-r: not read-only"
"${run_nbdkit[@]}" readonly=1 "$img" --run 'nbdinfo "$uri"' | grep -q 'is_read_only: true' || fail "readonly=1: not read-only"
"${run_nbdkit[@]}" "$img" --run 'nbdinfo --map --totals "$uri"' | grep -q 'hole,zero' || fail "no hole in an empty file"
"${run_nbdkit[@]}" null: size=1M --run 'nbdinfo --size "$uri"' | grep -qx 1048576 || fail "null:"
refuses 1 "no export 'y'.*'x'" "${run_nbdkit[@]}" "$img" name=x --run 'nbdinfo "nbd+unix:///y?socket=$unixsocket"'
for filter in blocksize cow cache readahead; do
	"${run_nbdkit[@]}" --filter=$filter "$img" --run "nbdcopy --flush '$tmp/a' \"\$uri\" && nbdcopy \"\$uri\" '$tmp/out'"
	[[ $filter == cow || $filter == cache ]] || same "$tmp/a" "$tmp/out" "--filter=$filter"
done
(cd "$tmp" && "${run_nbdkit[@]}" disk.img control=here.ctl --run "'$BUILD/liftctl' --socket '$tmp/here.ctl' list") |
	grep -q '^disk.img' || fail "paths that are not absolute"
nbdinfo --size -- [ nbdkit "$plugin" "$img" ] | grep -qx $size || fail "by a socket that is passed"
PYTHONPATH=$tests/helpers python3 - "$plugin" "$img" <<'PY' | grep -qx $size || fail "on stdin and stdout"
import socket, subprocess, sys
from nbdraw import Client, DISC, request
ours, theirs = socket.socketpair()
nbdkit = subprocess.Popen(['nbdkit', '-s', *sys.argv[1:]], stdin=theirs, stdout=theirs)
theirs.close()
c = Client.__new__(Client)
c.s = ours
print(c.go().size)
assert c.write(4096, b'x' * 4096) == 0 and c.read(4096, 4096) == b'x' * 4096
c.send(request(DISC, 1))
assert c.closed() and nbdkit.wait() == 0
PY

# An image that may not be written to: with -r nbdkit serves it, without nobody may connect.
if [[ $(id -u) -eq 0 ]] && command -v setpriv >/dev/null; then
	chmod 755 "$tmp"
	chmod 644 "$img"
	# The build may lie where nobody may look, as in /root.
	install -m 755 "$plugin" "$tmp/nbdkit-lift-plugin.so"
	as_nobody=(timeout 60 setpriv --reuid 65534 --clear-groups nbdkit -U - "$tmp/nbdkit-lift-plugin.so" "$img")
	"${as_nobody[@]}" -r --run 'nbdinfo --size "$uri"' | grep -qx $size || fail "-r: an image that cannot be written to"
	refuses 1 "cannot be opened for writing" "${as_nobody[@]}" --run 'nbdinfo --size "$uri"'
fi

# ---- who is who ----------------------------------------------------------------------------------------------------

clients()
{
	ctl --json clients | python3 -c '
import json, sys
for c in json.load(sys.stdin): print(c["id"].split(":")[0], c["connections"], c["weight"])' | sort
}

# A client with some connections, until it is released.
holds=()
hold()
{
	local fd fifo=$tmp/hold.${#holds[@]}
	rm -f "$fifo"
	mkfifo "$fifo"
	python3 "$tests/helpers/nbd_hold.py" "$@" <"$fifo" &
	_others[$!]=1
	exec {fd}>"$fifo"
	holds+=("$fd")
}

release()
{
	local fd
	for fd in "${holds[@]}"; do exec {fd}>&-; done
	holds=()
}

new_image
start_nbdkit "$img" "client:pid:*.weight=300"
hold "$SOCK" 3
hold "$SOCK" 1
wait_for "[[ \$(clients) == \$'pid 1 300\npid 3 300' ]]" 20
release
wait_for "[[ \$(counter connections) == 0 ]]" 20
stop_liftd

# Told to stop, nbdkit waits for its clients to go, and does not close their connections.
start_nbdkit "$img" client_key=uid
hold "$SOCK" 3
hold "$SOCK" 1
wait_for "[[ \$(clients) == 'uid 4 100' ]]" 20
kill -TERM "$LIFTD_PID"
release
stop_liftd

port=$(free_port)
PORT=$port start_nbdkit "$img"
hold "127.0.0.1:$port" 2
hold "127.0.0.1:$port" 1
wait_for "[[ \$(clients) == 'ip 3 100' ]]" 20
release
stop_liftd

# ---- errors of the disk --------------------------------------------------------------------------------------------

new_image
start_nbdkit "$img" fault_error_at=1 fault_sync_error_every=1
PYTHONPATH=$tests/helpers python3 - "$SOCK" <<'PY' || fail "errors of the disk do not come through"
import sys
from nbdraw import *
def answers(c, command, **more):
    c.send(request(command, 1, **more))
    return c.reply(4096 if command == READ else 0)[1]
a, b = Client(sys.argv[1]).go(), Client(sys.argv[1]).go()
assert answers(a, READ, length=4096) == EIO
assert answers(a, READ, length=4096) == 0
assert a.write(0, b'x' * 4096) == 0
for c in a, a, b, a:                        # each connection that was open has it until it closes
    assert answers(c, FLUSH) == EIO
assert a.write(0, b'x' * 4096, FUA) == EIO
assert answers(a, READ, length=4096) == 0
PY
refuses 1 "wrote 4096" qemu-io -f raw -t writeback -c "write 0 4k" -c flush "$URI"
grep -q 'nbdkit.*error: read, 4096 bytes at 0: Input/output error' "$LIFTD_LOG" || fail "no message about the read"
stop_liftd
new_image
start_nbdkit "$img" fault_space=1M cache=none
refuses 1 "No space left" qemu-io -f raw -c "write 0 4M" "$URI"
stop_liftd

# ---- the last flush ------------------------------------------------------------------------------------------------

# Write a block of x, and flush nothing.
write_only()
{
	PYTHONPATH=$tests/helpers python3 -c 'import sys, nbdraw
assert nbdraw.Client(sys.argv[1]).go().write(0, b"x" * 4096) == 0' "$SOCK"
	[[ $(counter syncs) == 0 ]] || fail "something else has flushed"
}

has_block()
{
	[[ $(head -c 4096 "$img" | tr -d x | wc -c) == 0 ]]
}

for end in kill_liftd stop_liftd; do
	new_image
	start_nbdkit "$img" fault_volatile=1
	write_only
	! has_block || fail "fault_volatile=1 did not keep the block back"
	$end
	if [[ $end == stop_liftd ]]; then
		has_block || fail "a stop did not flush"
	else
		! has_block || fail "the end of the process flushed"
	fi
done
start_nbdkit "$img" fault_sync_error_every=1
write_only
stop_liftd
grep -q 'nbdkit: error: the last flush failed, .*: Input/output error' "$LIFTD_LOG" || fail "nothing was said about the last flush"

# ---- clients that are killed ---------------------------------------------------------------------------------------

# Each connection has one request: nbdkit 1.32 aborts, whatever the plugin, if a client goes away that has several on
# one connection (CLIENTS THAT GO AWAY in nbdkit-lift-plugin(1)).
new_image
start_nbdkit "$img" fault_delay=1us queue_depth=64
fio --name=v --ioengine=nbd --uri="$URI" --rw=randrw --bs=4k --iodepth=8 --size=8M --number_ios=12000 --verify=crc32c \
	--verify_fatal=1 --verify_backlog=64 --verify_state_save=0 --output="$tmp/fio" >/dev/null 2>&1 &
load=$!
for ((i = 0; i < 5; i++)); do
	ctl set disk.img fault_delay=2s >/dev/null
	python3 "$tests/helpers/nbd_hold.py" "$SOCK" 16 write $((16 << 20)) </dev/zero &
	victim=$!
	wait_for "[[ \$(counter requests_held) -ge 12 ]]" 30
	kill -KILL $victim
	wait $victim 2>/dev/null || :
	wait_for "[[ \$(counter connections) -le 1 ]]" 30
	ctl set disk.img fault_delay=1us >/dev/null
	wait_for "[[ \$(counter requests_held) -le 8 ]]" 30
done
wait $load || { tail -n 30 "$tmp/fio"; fail "fio verify, beside clients that were killed"; }
wait_for "[[ \$(counter requests_held) == 0 && \$(counter connections) == 0 ]]" 30
[[ $(counter bytes_held) == 0 ]] || fail "bytes are held for nobody"
ctl shutdown >/dev/null
wait_for "_gone $LIFTD_PID" 30
stop_liftd
