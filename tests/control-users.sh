#!/bin/bash
# Who may use the control socket: root and the server's user change things, its group looks, nobody else does either.
. "$(dirname "$0")/functions.sh"
requires setpriv python3 "$BUILD/liftctl"
[[ $(id -u) -eq 0 ]] || skip "needs root, to become others"

# Somebody, somebody in root's group, somebody else.
nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups --)
member=(setpriv --reuid=65534 --regid=0 --clear-groups --)
other=(setpriv --reuid=65533 --regid=65533 --clear-groups --)

chmod 755 "$tmp"
cp "$BUILD/liftctl" "$tmp/liftctl"
lift=("$tmp/liftctl" --socket)
"${nobody[@]}" "$tmp/liftctl" --version >/dev/null 2>&1 || skip "others cannot run programs in $tmp"
make_image "$tmp/disk.img" 1M
start_liftd "$tmp/disk.img"
[[ $(stat -c %a "$CTL") == 660 ]]

# By the mode of the socket alone.
refuses 1 "permission denied on $CTL: be root, the user that liftd runs as" "${nobody[@]}" "${lift[@]}" "$CTL" list

# Whoever gets past that is still known: by uid and by group, primary or not.
chmod 666 "$CTL"
refuses 1 "permission denied: export.list" "${nobody[@]}" "${lift[@]}" "$CTL" list
refuses 1 "permission denied: export.set.*you are uid 65534" "${nobody[@]}" "${lift[@]}" "$CTL" set disk.img nr_requests=7
refuses 1 "permission denied: server.shutdown" "${nobody[@]}" "${lift[@]}" "$CTL" shutdown
"${member[@]}" "${lift[@]}" "$CTL" list | grep -q '^disk.img '
setpriv --reuid=65534 --regid=65534 --groups=65534,0 -- "${lift[@]}" "$CTL" get disk.img nr_requests | grep -qx 128
for command in "set disk.img nr_requests=7" "scheduler disk.img noop" "client pid:1 set weight=7" "client pid:1 drain" \
	"client pid:1 disconnect" shutdown; do
	# shellcheck disable=SC2086
	refuses 1 "permission denied" "${member[@]}" "${lift[@]}" "$CTL" $command
done
[[ $(ctl get disk.img nr_requests) -eq 128 ]]
stop_liftd

# A server that gave up root: its user may change things, its group look, root both.
second=(setpriv --reuid=65533 --regid=65534 --clear-groups --)
chmod 777 "$tmp"
chown 65534 "$tmp/disk.img"
start_liftd -o user=65534 -o group=65534 "$tmp/disk.img"
[[ $(stat -c %u:%g:%a "$CTL") == 65534:65534:660 ]]
"${nobody[@]}" "${lift[@]}" "$CTL" set disk.img nr_requests=7
[[ $(ctl get disk.img nr_requests) -eq 7 ]]
ctl set disk.img nr_requests=8
"${second[@]}" "${lift[@]}" "$CTL" get disk.img nr_requests | grep -qx 8
refuses 1 "permission denied: export.set" "${second[@]}" "${lift[@]}" "$CTL" set disk.img nr_requests=9
refuses 1 "permission denied on" "${other[@]}" "${lift[@]}" "$CTL" list
chmod 666 "$CTL"
refuses 1 "permission denied: export.list" "${other[@]}" "${lift[@]}" "$CTL" list
