#!/bin/bash
# Four verifying clients while the scheduler is switched every 10 ms and tunables change at random: no error, no lost
# block, no stale one. fio's verify relies on overlapping writes that keep their order, so it notices if they do not.
# timeout: 240
. "$(dirname "$0")/functions.sh"
requires fio python3

seconds=${STORM_SECONDS:-20}
size=$((64 << 20))
truncate -s $size "$tmp/disk.img"
start_liftd -x disk -o cache=writeback -o queue_depth=8 "$tmp/disk.img"
URI="nbd+unix:///disk?socket=$SOCK"

# The control socket is spoken to directly: a liftctl for each change would not be every 10 ms.
storm()
{
	exec python3 - "$CTL" "$tmp/storm" <<'PY'
import json, random, signal, socket, sys, time
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
f, n, random = s.makefile('rw'), 0, random.Random(1)
def call(values):
    global n
    n += 1
    f.write(json.dumps({'jsonrpc': '2.0', 'id': n, 'method': 'export.set', 'params': {'name': 'disk', 'set': values}}) + '\n')
    f.flush()
    answer = json.loads(f.readline())
    assert 'result' in answer, (values, answer)
tunables = {
    'queue_depth': lambda: random.randint(1, 64), 'nr_requests': lambda: random.choice((4, 16, 128, 1000)),
    'max_sectors_kb': lambda: random.choice((4, 8, 64, 1280)), 'nomerges': lambda: random.randint(0, 2),
    'max_queue_age': lambda: random.choice((0, 1, 10, 10000)), 'deadline.fifo_batch': lambda: random.randint(1, 32),
    'deadline.read_expire': lambda: random.randint(0, 500), 'deadline.writes_starved': lambda: random.randint(1, 4),
    'deadline.front_merges': lambda: random.randint(0, 1), 'cfq.quantum': lambda: random.randint(1, 16),
    'cfq.slice_idle': lambda: random.randint(0, 10),
}
due = time.monotonic()
while not stop:
    call({'scheduler': random.choice(('noop', 'deadline', 'cfq'))})
    for name in random.sample(sorted(tunables), 2):
        call({name: tunables[name]()})
    due += .010
    time.sleep(max(0, due - time.monotonic()))
open(sys.argv[2], 'w').write(str(n))
PY
}

# A fixed block size and a number of laps, not time_based: else fio does not notice stale blocks.
load()
{
	fio --name="c$1" --ioengine=nbd --uri="$URI" --rw=randrw --bs=4k --iodepth=16 --offset=$((size / 4 * $1)) \
		--size=$((size / 4)) --loops=1000 --verify=crc32c --verify_fatal=1 --verify_state_save=0 --verify_backlog=256 --randseed=$1 \
		--runtime=$seconds --output="$tmp/fio$1" >/dev/null 2>&1
}

storm &
storm_pid=$!
_others[$storm_pid]=1
pids=()
for i in 0 1 2 3; do
	load $i &
	pids+=($!)
done
status=0
for pid in "${pids[@]}"; do
	wait "$pid" || status=1
done
[[ $status -eq 0 ]] || { cat "$tmp"/fio?; fail "a client met an error or wrong data"; }
kill -TERM $storm_pid
wait $storm_pid || fail "the storm was refused something: see above"
unset "_others[$storm_pid]"
changes=$(cat "$tmp/storm")
[[ $changes -gt $((seconds * 20)) ]] || fail "only $changes changes in $seconds s: this was no storm"
ctl stats disk >"$tmp/stats"
stop_liftd
echo "$changes changes during $(grep -hoE 'issued rwts: total=[0-9]+,[0-9]+' "$tmp"/fio? | tr '\n' ' ')"
