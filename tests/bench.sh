#!/bin/bash
# scripts/bench: its yardstick serves correctly, a short run measures every server, and an interrupt leaves nothing.
. "$(dirname "$0")/functions.sh"
requires fio nbdinfo nbdcopy qemu-io nbdkit nbd-server python3 cmp

bench=$tests/../scripts/bench
make_image "$tmp/img" 16M
make_image "$tmp/other" 16M

background "$BUILD/tests/bare" "$tmp/sock" "$tmp/img"
wait_for '[[ -S $tmp/sock ]]' 10
uri="nbd+unix:///x?socket=$tmp/sock"
[[ $(nbdinfo --size "$uri") -eq $((16 << 20)) ]]
nbdinfo --list "$uri" >"$tmp/out"
grep -q 'export="x"' "$tmp/out"
nbdcopy "$uri" "$tmp/copy"
cmp "$tmp/img" "$tmp/copy"
nbdcopy --flush "$tmp/other" "$uri"
cmp "$tmp/img" "$tmp/other"
qemu-io -f raw -c 'write -P 5 4k 64k' -c 'read -P 5 4k 64k' -c 'write -z 8k 8k' -c 'read -P 0 8k 8k' -c 'discard 0 64k' \
	-c flush "$uri" >"$tmp/out"
fio --name=v --ioengine=nbd --uri="$uri" --size=16m --rw=randwrite --bs=4k --iodepth=32 --verify=crc32c --verify_state_save=0 >"$tmp/out"
kill "$BG_PID"

# Every server that is there gets a row with figures in it.
"$bench" peers --size 16M --runtime 1 --rounds 1 --jobs randrw-4k --servers bare,liftd/noop,liftd/cfq,nbdkit,nbd-server \
	--json "$tmp/json" >"$tmp/out"
cat "$tmp/out"
python3 - "$tmp/json" "$BUILD/liftd" <<'EOP'
import json, os, sys
rows = json.load(open(sys.argv[1]))['randrw-4k']
want = {'bare', 'nbdkit', 'nbd-server'} | ({'liftd/noop', 'liftd/cfq'} if os.path.exists(sys.argv[2]) else set())
assert set(rows) == want, (set(rows), want)
for name, row in rows.items():
    assert row['iops'] > 10 and row['p99_us'] >= row['p50_us'] > 0 and row['cpu_us'] > 0, (name, row)
EOP

# Neighbours: a round of each scheduler, switched at run time.
if [[ -x $BUILD/liftd ]]; then
	"$bench" greedy --size 64M --runtime 1 --rounds 1 --json "$tmp/json" >"$tmp/out"
	cat "$tmp/out"
	python3 - "$tmp/json" <<'EOP'
import json, sys
rows = json.load(open(sys.argv[1]))
assert set(rows) == {'alone', 'noop', 'deadline', 'cfq'}, rows
assert rows['alone']['iops'] > rows['cfq']['iops'] > rows['noop']['iops'] > 0, rows
assert all(rows[p]['writers_mb_s'] > 1 for p in ('noop', 'deadline', 'cfq')), rows
EOP
fi

refuses 1 "'5x' is not a size" "$bench" bare --size 5x
refuses 1 'no such job: x;' "$bench" bare --jobs x
refuses 2 'invalid choice' "$bench" nonsense
refuses 1 'no such server: x;' "$bench" bare --servers x

# Interrupted in a run of nbd-server, which is a daemon: it goes too, and so does the work folder.
mkdir "$tmp/work"
background env TMPDIR="$tmp/work" "$bench" peers --size 16M --runtime 60 --jobs randread-4k --servers nbd-server
wait_for '[[ -s $(echo "$tmp"/work/*/nbd-server.pid) ]]' 20
daemon=$(<"$(echo "$tmp"/work/*/nbd-server.pid)")
kill -TERM "$BG_PID"
wait_for '! kill -0 $BG_PID 2>/dev/null' 30
! kill -0 "$daemon" 2>/dev/null || fail "nbd-server ($daemon) is still there"
[[ ! $(ls "$tmp/work") ]] || fail "bench left its work folder"
