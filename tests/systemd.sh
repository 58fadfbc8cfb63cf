#!/bin/bash
# What belongs to the configuration: samples, systemd units, sockets that systemd passes by name, and what it is told.
. "$(dirname "$0")/functions.sh"
requires python3 nbdinfo make

cd "$tmp"
top=$tests/..

# ---- samples ---------------------------------------------------------------------------------------------------

n=0
for sample in "$top"/conf/samples/*.conf; do
	"$BUILD/liftd" -c "$sample" --check >out 2>&1 || fail "$(<out)"
	"$BUILD/liftd" -c "$sample" --dump-config >dump
	"$BUILD/liftd" -c dump --dump-config | diff dump - || fail "$sample: its dump is another configuration"
	n=$((n + 1))
done
[[ $n -ge 3 ]] || fail "$n samples"
# What is commented out in them is right, too.
mkdir exports
for sample in "$top"/conf/samples/*.conf; do
	sed 's/^# \([a-z_]* = .*\)/\1/' "$sample" >"$(basename "$sample")"
	! cmp -s "$sample" "$(basename "$sample")" || fail "$sample: nothing is commented out"
	"$BUILD/liftd" -c "$(basename "$sample")" --check >out 2>&1 || fail "$(<out)"
done

# The one that is made from the rows has every default as it is, and every name.
file=$BUILD/liftd.conf
"$BUILD/liftd" null: -o size=1G --dump-config >want
sed 's/^#\(\[.*\]\)$/\1/; s/^#\([a-z_.]* = .*\)$/\1/; s/^#path =$/path = null:/; s/^size = 0$/size = 1G/' "$file" |
	sed 's/^#name =$/name = null/; s/\[client MATCH\]/[client *]/' >all.conf
"$BUILD/liftd" -c all.conf --dump-config >got 2>&1 || fail "$file: $(<got)"
diff <(sed 's/\[export .*/[export]/' want) <(sed 's/\[export .*/[export]/; /^\[client/,$d; ' got | sed '$d') ||
	fail "$file does not have the defaults"
[[ $(grep -c '^weight = 100$\|^class = be$' got) -eq 2 ]] || fail "$file: client"
while read -r name; do
	grep -qE "^#($name)( =|$)" "$file" || fail "$file does not have $name"
done < <(sed -n 's/^#\?\([a-z_.]*\) =.*/\1/p' want)
grep -q '^#include =' "$file" || fail "$file does not have include"

# ---- units -----------------------------------------------------------------------------------------------------

env -u MAKEFLAGS make -s -C "$top" install-conf DESTDIR= PREFIX="$tmp/inst" >/dev/null
units=$tmp/inst/lib/systemd/system
ls "$units"/liftd.{service,socket} "$units/liftd-unix.socket" "$tmp"/inst/share/doc/liftd/samples/{hdd,ssd,many-clients}.conf \
	"$tmp/inst/lib/sysusers.d/liftd.conf" >/dev/null
mkdir "$tmp/inst/bin"
ln -s "$BUILD"/lift{d,ctl} "$tmp/inst/bin/"
grep -qx "ExecStart=$tmp/inst/bin/liftd -c /etc/liftd/liftd.conf" "$units/liftd.service" || fail "ExecStart"
if command -v systemd-analyze >/dev/null; then
	systemd-analyze --man=no verify "$units"/* >out 2>&1 || fail "systemd-analyze verify: $(<out)"
	[[ ! -s out ]] || fail "systemd-analyze verify: $(<out)"
	# 10 is best, 100 worst.
	systemd-analyze security --offline=true --threshold=20 "$units/liftd.service" >out 2>&1 ||
		fail "systemd-analyze security: $(tail -n 3 out)"
else
	echo "there is no systemd-analyze: the units are not verified"
fi
# The names of the sockets are those that liftd takes.
for unit in "$units"/*.socket; do
	grep -qxE 'FileDescriptorName=(listen|unix)' "$unit" || fail "$unit: FileDescriptorName"
done

# ---- sockets by name -------------------------------------------------------------------------------------------

cat >liftd.conf <<-EOF
	[server]
	listen = 192.0.2.1:1
	unix = $tmp/none/sock
	control = $tmp/none/control
	[export a]
	path = null:
	size = 8M
EOF

# activated NAME=ADDRESS... LOG ARG...: liftd with these sockets; returns when it is ready
activated()
{
	local sockets=() log
	while [[ $1 == *=* ]]; do
		sockets+=("$1")
		shift
	done
	log=$1
	shift
	background env ${NOTIFY:+NOTIFY_SOCKET=$NOTIFY} python3 "$tests/helpers/activate.py" "${sockets[@]}" \
		"$BUILD/liftd" "$@" >ports 2>"$log"
	wait_for "grep -qx 'liftd: ready' '$log'" 30
}

stop_activated()
{
	kill -TERM "$BG_PID"
	wait "$BG_PID" || fail "exit status $?"
	unset "_others[$BG_PID]"
}

# Each name takes the place of the setting of this name, none of which could be had.
python3 -u -c "import socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind('$tmp/notify')
while True: print(s.recv(4096).decode().replace('\n', ' '))" >notices &
_others[$!]=1
wait_for '[[ -S $tmp/notify ]]' 20
NOTIFY=$tmp/notify activated listen=127.0.0.1:0 unix="$tmp/u" control="$tmp/c" listen=127.0.0.1:0 log -c liftd.conf
mapfile -t ports <ports
[[ ${#ports[@]} -eq 2 ]] || fail "ports: ${ports[*]}"
for uri in "nbd://127.0.0.1:${ports[0]}/a" "nbd://127.0.0.1:${ports[1]}/a" "nbd+unix:///a?socket=$tmp/u"; do
	[[ $(nbdinfo --size "$uri") == 8388608 ]] || fail "$uri"
done
! grep -q '192.0.2.1' log || fail "what is set is used as well: $(<log)"
# systemd is told when it is ready, and when it loads its configuration.
wait_for 'grep -qx READY=1 notices' 20
CTL=$tmp/c ctl reload >out || fail "reload: $(<out)"
wait_for '[[ $(grep -c READY=1 notices) -eq 2 ]]' 20
grep -qxE 'RELOADING=1 MONOTONIC_USEC=[0-9]+' notices || fail "no RELOADING=1: $(<notices)"
[[ $(sed -n '2s/ .*//p;3p' notices) == $'RELOADING=1\nREADY=1' ]] || fail "notices: $(<notices)"
stop_activated
wait_for 'grep -qx STOPPING=1 notices' 20
# They are systemd's: it goes on listening.
[[ -S $tmp/u && -S $tmp/c ]] || fail "sockets that systemd has made are removed"

# Only one of them is passed: what is set counts for the others.
sed -i "s|192.0.2.1:1|127.0.0.1:0|; s|/none/|/|" liftd.conf
rm -f u c
activated unix="$tmp/u" log2 -c liftd.conf
port=$(sed -n 's/.*listening on 127.0.0.1:\([0-9]*\)$/\1/p' log2)
[[ $(nbdinfo --size "nbd://127.0.0.1:$port/a") == 8388608 && ! -e $tmp/sock ]] || fail "listen is not used: $(<log2)"
CTL=$tmp/control ctl list >/dev/null || fail "control is not used"
stop_activated

# What keeps clients out of one socket would not hold for that which comes in its place.
for words in "listen = 127.0.0.1:0 readonly" "listen = 127.0.0.1:0 tls=require" "unix = $tmp/sock readonly"; do
	sed "s|^${words%% *} = .*|$words|" liftd.conf >words.conf
	echo "liftd:00112233445566778899aabbccddeeff" >keys
	chmod 600 keys
	sed -i "s|^control.*|&\ntls_psk = $tmp/keys|" words.conf
	"$BUILD/liftd" -c words.conf --check >/dev/null
	rm -f u
	refuses 2 "${words%% *}: systemd passes other sockets instead of '${words#*= }'" \
		python3 "$tests/helpers/activate.py" "${words%% *}=$tmp/u" "$BUILD/liftd" -c words.conf
done

rm -f u
refuses 2 "called 'http'; expected listen, unix or control" \
	python3 "$tests/helpers/activate.py" http="$tmp/u" "$BUILD/liftd" -c liftd.conf
rm -f u
refuses 2 "no Unix stream socket" \
	python3 "$tests/helpers/activate.py" control=127.0.0.1:0 "$BUILD/liftd" -c liftd.conf
