#!/bin/bash
# Exports that are taken away while the server runs, by liftctl and by the configuration: under load, plain, inside TLS and
# with extended headers, again and again, with clients that do not read, with a flush that fails, and while the server stops.
# timeout: 600
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/helpers/pki.sh"
requires python3 qemu-io nbdinfo certtool
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$tests/helpers

cd "$tmp"
conf=$tmp/liftd.conf

# write_conf DRAIN [EXPORT-LINE...]
write_conf()
{
	printf '%s\n' '[server]' 'listen = 127.0.0.1:0' 'threads = 3' "drain_timeout = $1" "${@:2}" >"$conf.new"
	mv "$conf.new" "$conf"
}

# image NAME [SIZE]: a new file of zeroes
image()
{
	rm -f "$1"
	truncate -s "${2:-16M}" "$1"
}

# is_free IMAGE: another server can have it, so its lock has gone
is_free()
{
	local pid=$LIFTD_PID sock=$SOCK uri=$URI ctl=$CTL log=$LIFTD_LOG
	INSTANCE=next start_liftd "$1"
	stop_liftd
	LIFTD_PID=$pid SOCK=$sock URI=$uri CTL=$ctl LIFTD_LOG=$log
}

serves()
{
	nbdinfo --size "nbd+unix:///$1?socket=$SOCK" >/dev/null 2>&1
}

stays=('[export stays]' "path = $tmp/stays.img")
gone=('[export gone]' "path = $tmp/gone.img")
image stays.img

# ---- under load ------------------------------------------------------------------------------------------------

pki_authority "$tmp/ca" "the authority"
pki_certificate "$tmp/ca" "$tmp/server" server localhost
for row in "cfq" "deadline extended" "noop tls=$tmp/ca/ca-cert.pem"; do
	read -r scheduler mode <<<"$row"
	image gone.img
	write_conf 60s 'tls = allow' "tls_certificates = $tmp/server" "${stays[@]}" \
		"${gone[@]}" "scheduler = $scheduler" 'queue_depth = 2' 'fault_delay = 5ms'
	start_liftd -c "$conf"
	# shellcheck disable=SC2086
	python3 "$tests/helpers/removal_load.py" "$SOCK" "$CTL" gone.img $mode
	is_free gone.img
	! serves gone || fail "it is still served"
	refuses 1 "no export is named 'gone'" "$BUILD/liftctl" --socket "$CTL" remove gone
	# It is in the configuration: that brings it back.
	[[ $(ctl --timeout 120 reload) == "changed: export 'gone': added" ]] || fail "it does not come back"
	serves gone
	stop_liftd
done

# ---- step by step ----------------------------------------------------------------------------------------------

image gone.img
write_conf 600s "${stays[@]}" "${gone[@]}" '[export also]' 'path = null:' 'size = 1M'
start_liftd -c "$conf"
python3 "$tests/helpers/removal_steps.py" "$SOCK" "$CTL" gone.img
is_free gone.img
refuses 1 "no export is named ''" "$BUILD/liftctl" --socket "$CTL" remove ''
refuses 2 'usage: liftctl remove EXPORT' "$BUILD/liftctl" --socket "$CTL" remove

# hog NAME: a client that has asked for much and reads nothing
hog()
{
	background python3 "$tests/helpers/removal_hog.py" "$SOCK" "$CTL" "$1" "$tmp/hog"
	wait_for '[[ -e hog ]]' 60
	rm hog
}

# Nothing of that name can be added while it goes on, nor anything else of that file; nothing changes then.
ctl --timeout 120 reload >/dev/null
hog gone
write_conf 600s "${stays[@]}"
[[ $(ctl --timeout 120 reload) == *"changed: export 'gone': still going"* ]] || fail "reload does not say that it still goes"
! serves gone || fail "an export that is still going is found"
write_conf 600s "${stays[@]}" 'description = other' '[export gone]' "path = $tmp/other.img" 'size = 1M'
refuses 1 "export 'gone': one of this name is still being removed" "$BUILD/liftctl" --socket "$CTL" --timeout 120 reload
[[ $(ctl get stays description) == '' ]] || fail "a refused configuration changed something"
INSTANCE=next refuses 1 'gone.img' "$BUILD/liftd" -U "$tmp/next.sock" --control "$tmp/next.ctl" "$tmp/gone.img"
kill "$BG_PID"
ctl --timeout 120 reload >out
diff out - <<-'OUT' || fail "the export did not come, with another path"
	changed: export 'stays': description: (not set) -> other
	changed: export 'gone': added
OUT
[[ $(nbdinfo --size "nbd+unix:///gone?socket=$SOCK") == 1048576 ]] || fail "it has the old path"
is_free gone.img

# SIGTERM while one is going.
hog gone
background "$BUILD/liftctl" --socket "$CTL" --timeout 120 remove gone 2>/dev/null
wait_for '! ctl list | grep -q ^gone' 20
kill -TERM "$LIFTD_PID"
wait_for "grep -q 'liftd: .*stopping' '$LIFTD_LOG'" 20
kill -TERM "$LIFTD_PID"                            # it waits, for who does not read
stop_liftd
is_free other.img

# ---- time and errors -------------------------------------------------------------------------------------------

# Who does not read is waited for, but no longer than drain_timeout.
image gone.img
write_conf 300ms "${stays[@]}" "${gone[@]}" '[export bad]' "path = $tmp/bad.img" 'size = 1M' 'fault_sync_error_every = 1' \
	'[export worse]' "path = $tmp/worse.img" 'size = 1M' 'fault_sync_error_every = 1'
INSTANCE=errors start_liftd -c "$conf"
hog gone
ctl --timeout 120 remove gone
is_free gone.img
grep -q "export 'gone': removed" "$LIFTD_LOG" || fail "the log does not say so"

for name in bad worse; do
	qemu-io -f raw -t unsafe -c 'write 0 4096' "nbd+unix:///$name?socket=$SOCK" >/dev/null
done
refuses 1 "export 'bad': removed, but its last flush failed, writes may be lost: Input/output error" \
	"$BUILD/liftctl" --socket "$CTL" --timeout 120 remove bad
grep -q "liftd: error: export 'bad': removed, but its last flush failed" "$LIFTD_LOG" || fail "the log does not name the error"
write_conf 300ms "${stays[@]}"
ctl --timeout 120 reload >out
grep -qx "changed: export 'worse': removed, but its last flush failed, writes may be lost: Input/output error" out ||
	fail "reload does not tell of the flush: $(<out)"
! serves bad && ! serves worse && serves stays || fail "not what is left"
stop_liftd

# What was answered is on disk when it has gone. This store forgets what was never flushed.
image cached.img 1M
write_conf 60s "${stays[@]}" '[export cached]' "path = $tmp/cached.img" 'fault_volatile = yes'
INSTANCE=cached start_liftd -c "$conf"
python3 - "$SOCK" "$CTL" cached.img <<'PY'
import sys
from nbdraw import *
c = Client(sys.argv[1]).go('cached')
assert c.write(0, b'x' * 65536) == 0
with open(sys.argv[3], 'rb') as f:
    assert f.read(65536) == bytes(65536), 'the store has no cache'
    assert Control(sys.argv[2]).call('export.remove', name='cached') == {}
    f.seek(0)
    assert f.read(65536) == b'x' * 65536, 'what was answered is not in the file'
PY
stop_liftd

# Two exports of one image: it is closed with the last one.
write_conf 60s '[export a]' "path = $tmp/gone.img" '[export b]' "path = $tmp/gone.img"
INSTANCE=shared start_liftd -c "$conf"
background qemu-io -f raw -c 'write -P 7 0 64k' -c 'sleep 600000' "nbd+unix:///a?socket=$SOCK"
background qemu-io -f raw -c 'read 0 64k' -c 'sleep 600000' "nbd+unix:///b?socket=$SOCK"
wait_for '[[ $(ctl list | grep -cE "^[ab] .* 1 +1 ") -eq 2 ]]' 20
ctl --timeout 120 remove a
refuses 1 'gone.img' "$BUILD/liftd" -U "$tmp/next.sock" --control "$tmp/next.ctl" "$tmp/gone.img"
qemu-io -f raw -c 'read -P 7 0 64k' -c 'write -P 8 0 64k' -c flush "$URI" >/dev/null
ctl list | grep -qE '^b .* 1 +1 ' || fail "the other export's connection is gone"
ctl --timeout 120 remove b
is_free gone.img
[[ $(ctl list | wc -l) -eq 1 ]] || fail "there is still an export"
! nbdinfo "$URI" >/dev/null 2>&1 || fail "nothing is served as the default"
stop_liftd

# ---- again and again -------------------------------------------------------------------------------------------

image gone.img
write_conf 60s "${stays[@]}" "${gone[@]}" '[export null]' 'path = null:' 'size = 1M'
cp "$conf" with.conf
write_conf 60s "${stays[@]}"
cp "$conf" without.conf
cp with.conf "$conf"
INSTANCE=cycles start_liftd -c "$conf"
python3 - "$SOCK" "$CTL" "$LIFTD_PID" "$conf" <<'PY'
import os, shutil, sys
from nbdraw import *

where, pid, conf = sys.argv[1], int(sys.argv[3]), sys.argv[4]
ctl = Control(sys.argv[2])
stays = Client(where).go('stays')


def memory():
    with open(f'/proc/{pid}/status') as f:
        return next(int(line.split()[1]) for line in f if line.startswith('VmRSS'))


def reload(name):
    shutil.copy(name, conf + '.new')
    os.rename(conf + '.new', conf)
    answer = ctl.call('server.reload')
    assert answer['restart'] == [], answer
    return sorted(line for line in answer['changed'] if not line.startswith('client '))


def cycle(n):
    clients = [Client(where).go(name) for name in ('gone', 'null', 'gone')]
    for i, c in enumerate(clients):
        error = c.write(4096 * i, bytes([n % 256]) * 4096)
        assert not error, (n, i, error)
    ctl.call('client.set', id=f'pid:{os.getpid()}', export='gone', set={'weight': 10 + n % 50})
    if n % 2:
        assert reload('without.conf') == ["export 'gone': removed", "export 'null': removed"]
    else:
        assert ctl.call('export.remove', name='gone') == {} and ctl.call('export.remove', name='null') == {}
    assert all(c.closed() for c in clients)
    for c in clients:
        c.close()
    assert stays.write(0, bytes([n % 256]) * 512) == 0
    sizes = descriptors(pid)
    assert reload('with.conf') == ["export 'gone': added", "export 'null': added"]
    # Of a rule for an export that has gone nothing is left.
    c = Client(where).go('gone')
    assert c.read(0, 4096) == bytes([n % 256]) * 4096
    weight = [w['weight'] for w in ctl.call('client.list', export='gone') if w['id'] == f'pid:{os.getpid()}']
    assert weight == [100], weight
    c.close()
    return sizes


first = [cycle(n) for n in range(10)]
before = memory()
later = [cycle(n) for n in range(50)]
assert set(first) == set(later) and len(set(first)) == 1, (first, later)
grown = memory() - before
# A sanitizer keeps what was freed for a while.
assert grown < 1024 or '/asan' in os.environ['BUILD'] or '/tsan' in os.environ['BUILD'], f'{grown} KiB more'
print(f'{grown} KiB more after 50 times')
PY
stop_liftd
