#!/bin/bash
# scripts/demo: its table and its picture say something, and nothing of it is left behind, also when it is interrupted.
. "$(dirname "$0")/functions.sh"
requires python3 fio
demo=$tests/../scripts/demo
# Its picture goes to $BUILD: one of its own.
mkdir -p "$tmp/build" "$tmp/t"
ln -s "$BUILD/liftd" "$BUILD/liftctl" "$tmp/build/"
export BUILD=$tmp/build TMPDIR=$tmp/t

nothing_is_left()
{
	[[ ! $(ls -A "$tmp/t") ]] || fail "left behind: $(ls -A "$tmp/t")"
	! pgrep -f "$tmp/t/" >"$tmp/alive" || fail "still running: $(cat "$tmp/alive")"
}

"$demo" --seconds 2 >"$tmp/out" || fail "$(cat "$tmp/out")"
for line in 'cfq, reader alone' noop deadline cfq; do
	grep -qE "^  $line +[0-9.]*[1-9][0-9.]* +[0-9]+ ms +[0-9]+ ms +" "$tmp/out" || fail "no figures for '$line': $(cat "$tmp/out")"
done
python3 - "$BUILD/demo.svg" <<'PY'
import sys, xml.etree.ElementTree as xml
kinds = [e.tag.rsplit('}', 1)[-1] for e in xml.parse(sys.argv[1]).iter()]
assert kinds.count('circle') > 50 and kinds.count('rect') > 10, {k: kinds.count(k) for k in set(kinds)}
PY
nothing_is_left

for signal in INT TERM; do
	rm -f "$tmp/out"
	# As a shell would start it in the foreground: one in the background would ignore SIGINT.
	background python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
os.execv(sys.argv[1], sys.argv[1:])' "$demo" --seconds 600 >"$tmp/out" 2>&1
	wait_for "ls $tmp/t/*/reader.log >/dev/null 2>&1" 30
	kill -$signal "$BG_PID"
	status=0
	wait "$BG_PID" || status=$?
	unset "_others[$BG_PID]"
	[[ $status -eq 130 ]] || fail "exit status $status after SIG$signal: $(cat "$tmp/out")"
	nothing_is_left
done

refuses 2 "0.5: 1 to 3600 are allowed" "$demo" --seconds 0.5
BUILD=$tmp refuses 1 "no liftd, no liftctl" "$demo"
