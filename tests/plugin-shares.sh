#!/bin/bash
# Two processes at the emulated disk in nbdkit, by the server's count. With cfq two alike get the same; and one that has
# eight times as many requests as the other gets half of the disk's time, where with noop it gets nearly all.
# timeout: 600
# alone
. "$(dirname "$0")/functions.sh"
requires fio python3
requires_nbdkit

truncate -s 1G "$tmp/disk.img"

reader()
{
	background fio --name=r --ioengine=nbd --uri="$URI" --rw=randread --bs=4k --iodepth="$1" --size=64M --time_based \
		--runtime=300 --randrepeat=0 --output=/dev/null
}

# What each client got of all bytes, in percent, the largest first: the mean of $1 seconds, from when all have begun.
shares()
{
	PYTHONPATH=$tests/helpers python3 - "$CTL" "$1" <<'PY'
import sys, time
from nbdraw import Control
control, seconds = Control(sys.argv[1]), int(sys.argv[2])
while True:
    clients = control.call('client.list')
    if len(clients) == 2 and all(c['bytes_per_s'] for c in clients):
        break
    time.sleep(0.2)
total = {c['id']: 0 for c in clients}
time.sleep(3)
for _ in range(seconds):
    for c in control.call('client.list'):
        total[c['id']] += c['bytes_per_s']
    time.sleep(1)
print(*sorted((round(100 * t / sum(total.values()), 1) for t in total.values()), reverse=True))
PY
}

start_nbdkit "$tmp/disk.img" disk_model=hdd7200 scheduler=cfq -t 64
reader 32
second=$BG_PID
reader 32
read -r more less < <(shares 40)
echo "two alike, cfq: $more and $less %"
python3 -c 'import sys; sys.exit(not float(sys.argv[1]) <= 52.5)' "$more" || fail "not within 5 % of a half each"

kill -TERM "$second"
wait_for "[[ \$(ctl --json clients | grep -o '\"id\"' | wc -l) == 1 ]]" 60
reader 4
read -r cfq less < <(shares 15)
echo "32 requests and 4, cfq: $cfq and $less %"
ctl scheduler disk.img noop >/dev/null
read -r noop less < <(shares 15)
echo "32 requests and 4, noop: $noop and $less %"
# The disk's time is halved; with more to choose from, more can be done in it.
python3 -c 'import sys; cfq, noop = map(float, sys.argv[1:]); sys.exit(not (cfq < 68 and noop > 80))' "$cfq" "$noop" ||
	fail "cfq does not protect the small one, or noop does"
