#!/bin/bash
# Manual pages and completions: programs, --help and pages agree, pages render, and their examples do what they say.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/helpers/pki.sh"
requires certtool psktool python3 scdoc qemu-io nbdinfo

top=$tests/..
PATH=$BUILD:$PATH
cd "$tmp"
truncate -s 16M vm1.img
port=$(free_port)
start_liftd -b 127.0.0.1 -p "$port" vm1.img -x vm1
background qemu-io -f raw -c 'read 0 64k' -c 'sleep 600000' "$URI"
wait_for 'ctl clients | grep -q ^pid:' 20

# ---- what the pages say ----------------------------------------------------------------------------------------

python3 "$tests/helpers/manuals.py" "$BUILD" "$CTL"

if command -v man >/dev/null; then
	for page in "$BUILD"/man/*; do
		LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l "$page" 2>warnings >page.txt
		[[ ! -s warnings ]] || fail "$page: $(<warnings)"
		# What fill or scdoc did not understand would be seen.
		! grep -nE '^@|\*\*|\\f' page.txt || fail "$page: markup is left over"
	done
fi

# ---- examples --------------------------------------------------------------------------------------------------

# Blocks between lines of ```, each in a file of its own, PAGE.N.
awk '/^```/ { inside = !inside; n += inside; next }
     inside { name = FILENAME; sub(".*/", "", name); print >sprintf("%s.%03d", name, n) }' "$top"/*/man/*.scd

mkdir exports conf.d
tee exports/a.conf >conf.d/a.conf <<-EOF
	[export included]
	path = null:
	size = 1G
EOF
nconf=0
for file in *.scd.*; do
	grep -qE '^(\[(server|export|client)|include =)' "$file" || continue
	"$BUILD/liftd" -c "$file" --check >out 2>&1 || fail "the example in $file: $(<out)"
	nconf=$((nconf + 1))
done
[[ $nconf -ge 7 ]] || fail "only $nconf example configurations were found"

# What is in /etc/liftd in the examples.
"$BUILD/liftd" null: -o size=1G --dump-config >liftd.conf
pki_authority pki "an authority"
pki_certificate pki pki server localhost
pki_certificate pki pki client vm1
nliftd=0
while IFS= read -r line; do
	[[ $line != psktool* ]] || { ${line/\/etc\/liftd/.} >/dev/null 2>&1 || fail "example: $line"; continue; }
	line=${line//\/etc\/liftd\//}
	[[ $line == *--dump-config* ]] || line+=' --check'
	bash -c "$line" >out 2>&1 || fail "example: $line: $(<out)"
	nliftd=$((nliftd + 1))
done < <(grep -hE '^(liftd|psktool) ' ./*.scd.*)
[[ $nliftd -ge 11 ]] || fail "only $nliftd command lines of liftd were found"

# In the order in which they stand, at a server that has what they name, but for clients: of those one is there.
id=$(ctl --json clients | grep -o 'pid:[0-9]*' | head -n 1)
nctl=0
while IFS= read -r line; do
	case $line in
	*shutdown | *reload | *drain | *disconnect | *remove\ *)
		refuses 1 'no control socket' $line --socket "$tmp/none" ;;
	*)
		$(sed -E "s/ip:192\.0\.2\.[0-9]+|pid:4711/$id/" <<<"$line") --socket "$CTL" >out 2>&1 ||
			fail "example: $line: $(<out)" ;;
	esac
	nctl=$((nctl + 1))
done < <(grep -hE '^liftctl ' ./liftctl.8.scd.* ./liftd-schedulers.7.scd.*)
[[ $nctl -ge 20 ]] || fail "only $nctl command lines of liftctl were found"
[[ $(ctl get vm1 slice_sync) == 40 && $(ctl --json clients) == *'"class":"idle"'* ]] || fail "the examples of liftctl did nothing"

qemu-img create -q -f qcow2 vm1.qcow2 16M
nnbd=0
while IFS= read -r line; do
	line=$(sed "s|192.0.2.7|127.0.0.1:$port|; s|/run/liftd.sock|$SOCK|" <<<"$line")
	timeout 60 $line >out 2>&1 || fail "example: $line: $(<out)"
	nnbd=$((nnbd + 1))
done < <(grep -hE '^(nbdinfo|nbdcopy|qemu-img) .*nbd' ./*.scd.* | grep -v tls)
[[ $nnbd -ge 5 ]] || fail "only $nnbd command lines of other clients were found"
cmp vm1.img copy.img || fail "the copy differs"

tls_port=$(free_port) first=("$SOCK" "$CTL" "$URI" "$LIFTD_PID")
INSTANCE=tls start_liftd -p "$tls_port" -o tls=require -o tls_psk=keys.psk -o tls_certificates=pki -o size=1M null:
ntls=0
while IFS= read -r line; do
	line=$(sed -E "s#(@|//)(192.0.2.7|server.example)/#\1127.0.0.1:$tls_port/#; s#host=[0-9.]+,port=[0-9]+#host=127.0.0.1,port=$tls_port#
		s#/etc/keys.psk#$tmp/keys.psk#; s#/etc/qemu#$tmp#; s#/etc/pki/vm1#$tmp/pki#" <<<"$line")
	timeout 60 bash -c "$line" >out 2>&1 || fail "example: $line: $(<out)"
	ntls=$((ntls + 1))
done < <(grep -hE '^(nbdinfo|nbdcopy|qemu-img) .*tls' ./*.scd.*)
[[ $ntls -ge 3 ]] || fail "only $ntls command lines of clients with TLS were found"
stop_liftd
SOCK=${first[0]} CTL=${first[1]} URI=${first[2]} LIFTD_PID=${first[3]}

# Under a sanitizer nbdkit would have to be built with it, too.
if [[ -e $BUILD/nbdkit-lift-plugin.so && $BUILD != */?san ]] && command -v nbdkit >/dev/null; then
	truncate -s 16M disk.img
	nnbdkit=0
	while IFS= read -r line; do
		line=$(sed "s| lift | $BUILD/nbdkit-lift-plugin.so |; s|/run/|$tmp/|" <<<"$line")
		timeout 60 $line -U - --run 'nbdinfo --size "$uri"' >out 2>&1 || fail "example: $line: $(<out)"
		nnbdkit=$((nnbdkit + 1))
	done < <(grep -h '^nbdkit .*lift ' nbdkit-lift-plugin.1.scd.*)
	[[ $nnbdkit -ge 5 ]] || fail "only $nnbdkit command lines of the plugin were found"
fi

# ---- completion ------------------------------------------------------------------------------------------------

# offered LINE: what is offered, in one line.
offered()
{
	bash -c '
		. "$1/completion/liftd" && . "$1/completion/liftctl" || exit
		COMP_LINE=$2 COMP_POINT=${#2}
		f=$(complete -p "${2%% *}") && ${f#complete -F } >/dev/null
		printf "%s\n" "${COMPREPLY[@]}" | sort | xargs' - "$BUILD" "$1" 2>&1
}

# completes LINE WORDS: these are offered, and nothing else. A server that is busy may not answer in time at once.
completes()
{
	local got i
	for i in 1 2 3 4 5; do
		got=$(offered "$1")
		[[ $got != "$2" ]] || return 0
	done
	fail "completion of '$1': '$got', not '$2'"
}

completes 'liftd --sch' --scheduler
completes 'liftd -s ' 'cfq deadline noop'
completes 'liftd --scheduler=d' deadline
completes 'liftd --log w' warning
completes 'liftd -o queue_d' queue_depth=
completes 'liftd -o cache=w' 'writeback writethrough'
completes 'liftd --option=cache=n' none
completes 'liftd -o deadline.r' deadline.read_expire=
completes 'liftd -o fifo_b' ''
completes 'liftd -s deadline -o fifo_b' fifo_batch=
completes 'liftd -o client:ip:192.0.2.7.' '192.0.2.7.class= 192.0.2.7.weight='
completes 'liftd -o client:uid:5.class=i' idle
completes 'liftd -c exp' exports
completes 'liftd -c exports/' exports/a.conf
completes 'liftd -p 1' ''
completes 'liftd vm1.i' vm1.img
completes 'liftd nul' null:
completes 'liftctl --s' --socket
completes 'liftctl sch' scheduler
completes 'liftctl scheduler x d' deadline
completes 'liftctl help shu' shutdown
completes 'liftctl --socket vm1.i' vm1.img
completes 'liftctl list ' ''
# What the server knows.
c="liftctl --socket $CTL"
completes "$c show " vm1
completes "$c client pid" "$id"
completes "$c client pid:" "${id#pid:}"
completes "$c client $id " "disconnect drain set"
completes "$c client $id set class=rt w" weight=
completes "$c client $id set class=r" rt
completes "$c get vm1 deadline.f" 'deadline.fifo_batch deadline.front_merges'
completes "$c set vm1 quantum=4 sch" scheduler=
completes "$c set vm1 quantum=4 scheduler=n" noop
completes "$c set vm1 cac" '' # not at run time
completes "$c get vm1 cac" cache
completes "$c set vm1 front" '' # its scheduler has none
ctl scheduler vm1 deadline
completes "$c set vm1 front" front_merges=
stop_liftd
# And without one.
completes "$c show " ''
completes "$c set vm1 queue_d" queue_depth=

# ---- installed -------------------------------------------------------------------------------------------------

env -u MAKEFLAGS make -s -C "$top" install-man OUT="$BUILD" DESTDIR= PREFIX="$tmp/inst" >/dev/null
for page in "$BUILD"/man/*; do
	cmp "$page" "$tmp/inst/share/man/man${page##*.}/${page##*/}"
done
ls "$tmp"/inst/share/bash-completion/completions/{liftd,liftctl} >/dev/null
