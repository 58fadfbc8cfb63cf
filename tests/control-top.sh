#!/bin/bash
# liftctl top: a sample without a terminal, and everything on one.
. "$(dirname "$0")/functions.sh"
requires python3 qemu-io "$BUILD/liftctl"
export PYTHONDONTWRITEBYTECODE=1

lift=$BUILD/liftctl
refuses 2 "interval: '0.01' is no number of seconds in 0.1..60" "$lift" top --interval 0.01
refuses 2 "interval: '1x' is no number" "$lift" top --interval 1x
refuses 2 "interval: 'nan' is no number" "$lift" top --interval nan
refuses 2 "n: '0' is no number of samples" "$lift" top -n 0
refuses 2 "n: '' is no number of samples" "$lift" top -n ''
refuses 2 "n needs a value" "$lift" top -n
refuses 2 "are for top" "$lift" list -n 1
refuses 2 "are for top" "$lift" --json top -n 1
refuses 2 "usage: liftctl top \[EXPORT\]" "$lift" top a b
refuses 1 "no control socket at $tmp/none" "$lift" --socket "$tmp/none" top

truncate -s 64M "$tmp/disk.img"
start_liftd -x disk -o fault_delay=2ms -o queue_depth=1 "$tmp/disk.img"
refuses 1 "no export is named 'dsk'; did you mean 'disk'" "$lift" --socket "$CTL" top dsk

# Without a terminal: plain text, one sample or so many.
TERM=xterm ctl top --interval 0.1 >"$tmp/out"
[[ $(wc -l <"$tmp/out") -eq 1 ]] || fail "without clients: $(cat "$tmp/out")"
background qemu-io -f raw -c 'read 0 4k' -c 'sleep 600000' "$URI"
wait_for 'ctl clients | grep -q "^pid:$BG_PID "' 20
ctl top --interval 0.1 -n 3 >"$tmp/out"
[[ $(grep -c '^CLIENT  *EXPORT  *SHARE  *ENTITLED  *IOPS  *BYTES/S  *QUEUE  *SERVICE  *P50  *P99' "$tmp/out") -eq 3 ]] ||
	fail "-n 3: $(cat "$tmp/out")"
[[ $(grep -c "^pid:$BG_PID  *disk  *-  *-  *0 " "$tmp/out") -eq 3 ]] || fail "a client that does nothing: $(cat "$tmp/out")"
! grep -q $'\033' "$tmp/out" || fail "codes for a terminal"
[[ $(ctl --json top) == "[{\"id\":\"pid:$BG_PID\",\"export\":\"disk\","* ]] || fail "--json: $(ctl --json top)"
kill "$BG_PID"
wait_for '[[ $(ctl --json clients) == "[]" ]]' 20

# In a chroot there may be none.
python3 -c 'import os; os.openpty()' 2>/dev/null || skip "there are no pseudo-terminals here; without a terminal top is right"
python3 "$tests/helpers/control_top.py" "$lift" "$CTL" "$SOCK" "$LIFTD_PID"
wait_for '_gone $LIFTD_PID' 20
stop_liftd
