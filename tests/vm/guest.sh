# Functions for the scenarios (*.guest), in busybox ash under `set -e`. A line on descriptor 3 asks the host to do
# something (tests/vm/boot says what there is); it answers with a line, or ends the test.

# This shell prefers what busybox has to programs of the same name; such a program is called by its path, /sbin/NAME.

# Says nothing of how many records it was.
dd()
{
	busybox dd status=none "$@"
}

# host VERB ARG...: sets HOST_SAID to the answer.
host()
{
	echo "$*" >&3
	read -r HOST_SAID <&3
}

say()
{
	host say "[$(cut -d ' ' -f 1 /proc/uptime)] $*"
}

fail()
{
	echo "FAIL: $*"
	echo "fail $*" >&3
	exit 1
}

# until_true SECONDS COMMAND...: tries until it succeeds.
until_true()
{
	local end=$(($(cut -d . -f 1 /proc/uptime) + $1))
	shift
	until "$@"; do
		[ "$(cut -d . -f 1 /proc/uptime)" -lt "$end" ] || fail "never true: $*"
		usleep 20000
	done
}

# ---- the kernel's log ------------------------------------------------------------------------------------------

# What a slow emulation makes the kernel say, and nbd whenever it is asked to detach.
usual='clocksource|hrtimer|sched_clock|shutting down sockets'

# kernel_log [PATTERN]: fails if since the last call the kernel has warned of anything but what matches PATTERN.
kernel_log()
{
	dmesg -r -c >/tmp/kernel.new
	cat /tmp/kernel.new >>/tmp/kernel.log
	awk -F '[<>]' '$2 % 8 <= 4' /tmp/kernel.new | grep -vE "$usual${1:+|$1}" >/tmp/kernel.bad || return 0
	cat /tmp/kernel.bad
	fail "the kernel complains: $(head -n 1 /tmp/kernel.bad)"
}

# kernel_said PATTERN: in what the last kernel_log looked at.
kernel_said()
{
	grep -qE -- "$1" /tmp/kernel.new || fail "the kernel did not say: $1"
}

# ---- nbd devices -----------------------------------------------------------------------------------------------

# Unbound kernel threads of high priority, which read the replies.
receivers()
{
	awk '$2 ~ /^\(kworker\/u/ && $19 == -20' /proc/[0-9]*/stat | wc -l
}

# prepare EXPORT: makes the kernel start enough of them, which then stay for five minutes.
#
# Each connection's replies are read by a work that ends with the connection. If the kernel must start threads for such
# works and needs more than 10 ms for one, as it may here, the one rescuer thread of the device takes all that wait, and
# runs one after the other: never a second one. Then a connection is not read, and its requests time out (seen with 6.1).
# A lone connection cannot suffer that, and leaves a thread behind.
prepare()
{
	local i=4
	host port "$1"
	while [ "$(receivers)" -lt 7 ]; do
		[ $i -lt 16 ] || fail "the kernel starts no threads: $(receivers)"
		nbd-netlink attach $i 10.0.2.2 "$HOST_SAID" "$1" 1 4096 0 0
		usleep 20000
		i=$((i + 1))
	done
	while [ $i -gt 4 ]; do
		i=$((i - 1))
		nbd-client -d "/dev/nbd$i"
	done
}

# queue DEVICE NAME: what the kernel has taken from the handshake, as in /sys/block/DEVICE/queue/NAME.
queue()
{
	cat "/sys/block/$1/queue/$2"
}

attached()
{
	[ "$(cat "/sys/block/$1/size")" != 0 ] && nbd-client -c "/dev/$1" >/dev/null
}

# attach DEVICE EXPORT [OPTION...]
attach()
{
	local device=$1 export=$2
	shift 2
	host port "$export"
	nbd-client 10.0.2.2 "$HOST_SAID" "/dev/$device" -N "$export" "$@"
	until_true 20 attached "$device"
}

# One whose last user is gone.
detached()
{
	[ ! -e "/sys/block/$1/pid" ] && [ "$(cat "/sys/block/$1/size")" = 0 ]
}

detach()
{
	nbd-client -d "/dev/$1"
	until_true 20 detached "$1"
}

# ---- files -----------------------------------------------------------------------------------------------------

# 8 MiB without repetition.
pattern=/tmp/pattern
dd if=/dev/urandom of=$pattern bs=1M count=8

# make_files FOLDER: some of each size.
make_files()
{
	local i=0
	mkdir -p "$1/small" "$1/large"
	while [ $i -lt 60 ]; do
		echo "$1: the text of file $i" >"$1/small/$i"
		i=$((i + 1))
	done
	for i in 1 2 3 4 5 6 7 8; do
		dd if=$pattern of="$1/large/$i" bs=64k skip=$i count=$((i * 7))
	done
	mkdir "$1/holes"
	dd if=$pattern of="$1/holes/1" bs=4k seek=200 count=3
	truncate -s 3M "$1/holes/1"
}

# sums FOLDER: of all its files, to compare.
sums()
{
	(cd "$1" && find . -type f | sort | xargs sha256sum)
}

# same_sums FOLDER FILE: the files are those of which FILE has the sums.
same_sums()
{
	sums "$1" | cmp - "$2" || fail "files in $1 have changed"
}

# ---- load ------------------------------------------------------------------------------------------------------

jobs=

# background COMMAND...: until finish; it has no word with the host.
background()
{
	rm -f /tmp/stop
	("$@") 3>&- &
	jobs="$jobs $!"
}

# Lets the background jobs come to their end; all must be content.
finish()
{
	local job
	touch /tmp/stop
	for job in $jobs; do
		wait "$job" || fail "a background job found something wrong"
	done
	jobs=
}

# churn FOLDER: writes files, flushes, and compares what comes back from the server with what was written.
churn()
{
	local round=0 blocks skip expected=/tmp/churn.$$.${1##*/}
	mkdir -p "$1"
	while [ ! -e /tmp/stop ]; do
		skip=$((round % 50)) blocks=$((round * 7 % 60 + 1))
		dd if=$pattern of="$1/$((round % 3))" bs=64k skip=$skip count=$blocks conv=fsync
		dd if=$pattern bs=64k skip=$skip count=$blocks >"$expected"
		dd if="$1/$((round % 3))" bs=64k iflag=direct | cmp - "$expected"
		round=$((round + 1))
		echo $round >"/tmp/rounds.${1##*/}"
	done
	echo "$1: $round rounds"
}

rounds()
{
	local n=
	[ ! -e "/tmp/rounds.$1" ] || read -r n <"/tmp/rounds.$1" || :
	echo "${n:-0}"
}

# progress NAME...: waits until the churn of each folder of that NAME has come two rounds further.
progress()
{
	local name was
	for name in "$@"; do
		was=$(rounds "$name")
		until_true 120 eval "[ \$(rounds $name) -ge $((was + 2)) ]"
	done
}
