#!/bin/bash
# Configuration files: what they come to, together with options; --check, --dump-config; and all that can be wrong in one.
. "$(dirname "$0")/functions.sh"
requires nbdinfo

chmod 755 "$tmp"
cd "$tmp"
truncate -s 8M a.img
liftd=$BUILD/liftd

# conf NAME: the file from the standard input
conf()
{
	cat >"$1"
}

# ---- what it comes to ------------------------------------------------------------------------------------------

mkdir conf.d
conf conf.d/10-b.conf <<-EOF
	# The scheduler is settled first, wherever it stands.
	[export b]
	path = null:
	size = 1G
	read_expire = 77
	deadline.write_expire = 2s
	cfq.quantum = 3
	scheduler = deadline
EOF
conf conf.d/20-clients.conf <<-EOF
	[client ip:127.0.0.0/8]
	weight = 200
	[client ip:127.0.0.2]
	class = idle
EOF
conf one.conf <<-EOF
	include = conf.d/*.conf
	[export section title]
	  path =   $tmp/a.img
	name = a
	description = fast; cheap # and good = "both"
	queue_depth = 7
	[server]
	listen = 127.0.0.1:0
	unix = $tmp/x.sock
	listen = localhost:0
	threads = 1
	default_export = a
EOF
"$liftd" -c one.conf --check >out 2>err || fail "--check: $(<err)"
grep -q 'nothing is wrong, 2 exports' out && [[ ! -s err ]] || fail "--check: $(<out) $(<err)"
# start_liftd's options -U and --control take the place of the file's unix and control.
start_liftd -c one.conf
[[ $(grep -c 'listening on 127.0.0.1:' "$LIFTD_LOG") -eq 2 ]] || fail "listen is not repeatable"
[[ -S $SOCK && ! -e x.sock ]] || fail "unix of the command line is not in place of the file's"
nbdinfo "nbd+unix:///?socket=$SOCK" >out
grep -qF 'export-size: 8388608' out || fail "default_export: $(<out)"
grep -qF 'description: fast; cheap # and good = "both"' out || fail "description: $(<out)"
[[ $(ctl get a queue_depth) == 7 && $(ctl get a scheduler) == cfq ]] || fail "settings of a"
[[ $(ctl get b read_expire) == 77 && $(ctl get b write_expire) == 2000 && $(ctl get b cfq.quantum) == 3 ]] ||
	fail "settings of b"
! ctl get 'section title' queue_depth 2>/dev/null || fail "the section's title is a name, too"
ctl --json show b >running.json
stop_liftd

# The dump loads to the same, and is the same server.
"$liftd" -c one.conf --dump-config >dump.conf
"$liftd" -c dump.conf --dump-config | diff dump.conf - || fail "the dump of a dump differs"
INSTANCE=dump start_liftd -c dump.conf
[[ $(grep -c 'listening on 127.0.0.1:' "$LIFTD_LOG") -eq 2 ]] || fail "listen in the dump"
python3 - running.json <(ctl --json show b) <<'PY'
import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
assert a['tunables'] and a['tunables'] == b['tunables'], (a, b)
PY
stop_liftd

# Options, in the place of the file's settings: of the server, of all exports, of clients.
"$liftd" -c one.conf -b 127.0.0.9 -p 99 --threads 2 -o nr_requests=64 -o client:ip:127.0.0.2.class=rt \
	-s noop --dump-config >out
[[ $(grep -c '^listen' out) -eq 1 && $(grep '^listen' out) == 'listen = 127.0.0.9:99' ]] || fail "-b: $(<out)"
[[ $(grep -c '^nr_requests = 64$' out) -eq 2 && $(grep -c '^scheduler = noop$' out) -eq 2 ]] || fail "-o: $(<out)"
[[ $(grep '^threads' out) == 'threads = 2' && $(grep '^class' out) == 'class = rt' ]] || fail "--threads: $(<out)"
grep -qx 'deadline.read_expire = 77' out || fail "what a bare name of the file means depends on -s"

# Images as a configuration.
"$liftd" a.img null: -o size=8M -p 0 -o client:uid:*.weight=5 --dump-config >out
"$liftd" -c out --dump-config | diff out - || fail "the dump of a command line"
grep -qx '\[export a.img\]' out && grep -qx 'listen = localhost:0' out && grep -qx '\[client uid:\*\]' out ||
	fail "the dump of a command line: $(<out)"
"$liftd" a.img --check >out || fail "--check of a command line"
"$liftd" -x 'a ] b;#' a.img --dump-config >out
"$liftd" -c out --dump-config | diff out - || fail "a strange name"
refuses 2 "begins or ends with a blank" "$liftd" -x 'a ' a.img --dump-config

# Everything that has a row is in the dump.
"$liftd" null: -o size=1M --dump-config >all
"$liftd" --help | sed -n 's/^  \([a-z_]*\) (.*/\1/p' >names
[[ $(wc -l <names) -gt 40 ]] || fail "--help names few tunables: $(<names)"
while read -r name; do
	grep -qE "^#?([a-z]+\.)?$name =" all || fail "no $name in the dump"
done <names

# ---- the command line with it ----------------------------------------------------------------------------------

refuses 2 'a configuration \(one.conf\) and an image \(a.img\)' "$liftd" -c one.conf a.img
refuses 2 'config is given twice' "$liftd" -c one.conf -c one.conf
refuses 2 'name of an export is given' "$liftd" -c one.conf -x vm
refuses 2 'path of an export is given' "$liftd" -c one.conf -o path=a.img
refuses 2 "export 'b': queue_depth: '0'" "$liftd" -c one.conf -o queue_depth=0
refuses 2 "weight: '0'" "$liftd" -c one.conf -o client:uid:0.weight=0
refuses 2 "no export 'zz'" "$liftd" -c one.conf -o default_export=zz
refuses 2 '--check and --dump-config' "$liftd" -c one.conf --check --dump-config
refuses 2 'none.conf: cannot be read: No such file' "$liftd" -c none.conf
refuses 2 'conf.d: cannot be read: Is a directory' "$liftd" -c conf.d --check
if [[ $(id -u) -eq 0 ]] && command -v setpriv >/dev/null; then
	install -m 600 one.conf secret.conf
	refuses 1 'secret.conf: cannot be read: Permission denied' \
		setpriv --reuid 65534 --regid 65534 --clear-groups "$liftd" -c secret.conf --check
fi

# What is wrong around it says where it is asked for.
conf missing.conf <<-EOF
	[server]
	listen = localhost:0
	control = $tmp/c
	[export x]
	path = $tmp/none.img
EOF
"$liftd" -c missing.conf --check >out || fail "--check looks at images"
refuses 1 "missing.conf:5: .*none.img does not exist" "$liftd" -c missing.conf

# ---- bad input -------------------------------------------------------------------------------------------------

n=0

# bad REGEX...: bad.conf is refused by --check and at the start; each line of the first is FILE:LINE: ..., one a regex
bad()
{
	local status=0 regex i=0 out
	timeout 60 "$liftd" -c bad.conf --check >out 2>err </dev/null || status=$?
	[[ $status -eq 2 && ! -s out ]] || fail "--check: exit status $status: $(<out) $(<err): of $(head -c 400 bad.conf)"
	[[ $(wc -l <err) -eq $# ]] || fail "$# errors expected: $(<err): of $(head -c 400 bad.conf)"
	for regex in "$@"; do
		i=$((i + 1))
		out=$(sed -n "${i}p" err)
		grep -qE -- "^$regex" <<<"$out" || fail "does not match '$regex': $out"
	done
	refuses 2 "liftd: error: $1" "$liftd" -U "$tmp/s" --control "$tmp/c" -c bad.conf
	[[ ! -e $tmp/s && ! -e $tmp/c ]] || fail "something is left behind"
	n=$((n + 1))
}

# wrong REGEX LINE...: the fourth line and so on of a good file are wrong
wrong()
{
	local regex=$1
	shift
	printf '%s\n' '[export a]' 'path = null:' 'size = 1M' "$@" >bad.conf
	bad "bad.conf:$regex"
}

wrong "4: frobnicate: unknown setting" 'frobnicate = 1'
wrong "4: queue_dept: unknown setting; did you mean queue_depth\?" 'queue_dept = 4'
wrong "4: read_expire: unknown setting.*did you mean deadline.read_expire\?" 'read_expire = 5'
wrong "4: deadlin.read_expire: unknown setting.*no scheduler" 'deadlin.read_expire = 5'
wrong "4: threads: stands in \[server\], not in \[export a\]" 'threads = 2'
wrong "4: weight: stands in \[client MATCH\], not in \[export a\]" 'weight = 2'
wrong "4: \[expotr\]: unknown section; expected \[server\], \[export NAME\] or \[client MATCH\]" '[expotr b]' 'path = x'
wrong "4: \[export\]: expected \[export NAME\]" '[export]'
wrong "4: \[server x\]: expected \[server\]" '[server x]'
wrong "5: \[server\]: is there already, at bad.conf:4; expected once" '[server]' '[server]'
wrong "4: \[export a\]: is there already, at bad.conf:1" '[export a]' 'path = null:' 'size = 2M'
wrong "5: queue_depth: is set already, at bad.conf:4; expected once" 'queue_depth = 4' 'queue_depth = 4'
wrong "5: cfq.quantum: is set already, at bad.conf:4" 'quantum = 4' 'cfq.quantum = 4'
wrong "4: queue_depth 4: expected NAME = VALUE, \[SECTION\] or # COMMENT" 'queue_depth 4'
wrong "4: queue_depth: 4: expected NAME = VALUE" 'queue_depth: 4'
wrong "4: max_queue_age: '5K' is not a time.*ms" 'max_queue_age = 5K'
wrong "4: max_sectors_kb: '5ms' is not a size.*KiB" 'max_sectors_kb = 5ms'
wrong "4: queue_depth: '4 ; four'" 'queue_depth = 4 ; four'
wrong "4: queue_depth: '0' is out of range; expected auto, 1\.\.1024" 'queue_depth = 0'
wrong "4: queue_depth: '1025' is out of range" 'queue_depth = 1025'
wrong "4: scheduler: 'CFQ' is not a choice; expected noop, deadline, cfq" 'scheduler = CFQ'
wrong "4: readonly: 'maybe'.*expected 0, 1, yes, no" 'readonly = maybe'
wrong "5: listen: '10.0.0.1' is no address.*expected HOST:PORT" '[server]' 'listen = 10.0.0.1'
wrong "5: unix: .*1\.\.107 bytes" '[server]' "unix = $(printf 'x%.0s' {1..108})"
wrong "5: memory: '1M' is out of range" '[server]' 'memory = 1M'
wrong "5: default_export: there is no export 'zz'" '[server]' 'default_export = zz'
wrong "4: \[client nonsense\]: .*expected ip:ADDRESS" '[client nonsense]'
wrong "4: \[client ip:10.0.0.1/8\]: .*bits beyond /8" '[client ip:10.0.0.1/8]' 'weight = 5'
wrong "5: weight: '1001' is out of range; expected 1\.\.1000" '[client uid:0]' 'weight = 1001'
wrong "6: \[client ip:FD00::1\]: there is a section for 'ip:fd00::1' already" '[client ip:fd00::1]' 'weight = 5' \
	'[client ip:FD00::1]' 'class = rt'
wrong "4: path: export 'b' has no path: expected a file" '[export b]' 'queue_depth = 4'
wrong "5: size: export 'b': the null store needs a size" '[export b]' 'path = null:'
wrong "7: name: the export of bad.conf:1 is called 'a', too; expected another name" '[export b]' 'path = null:' \
	'size = 1M' 'name = a'
wrong "7: path: exports 'c' and 'b' are of the same image, $tmp/none.img, so cache must be the same: it is none and" \
	'[export b]' "path = $tmp/none.img" '[export c]' "path = $tmp/none.img" 'cache = none'
wrong "5: user: there is no user 'no-such-user'" '[server]' 'user = no-such-user'
wrong "5: group: there is no group 'no-such-group'" '[server]' 'group = no-such-group'
long=$(printf 'n%.0s' {1..5000})
wrong "4: \[export n*\.\.\.\]: NAME has 5000 bytes; expected at most 4096" "[export $long]"
wrong "4: name: .*4096 bytes" "name = $long"
wrong "4: n*\.\.\.: unknown setting" "$long = 1"
wrong "4: \[client ip:n*\.\.\.\]: MATCH has .*at most 255" "[client ip:$long]"
wrong "4: a control character \(0x07\)" $'description = \a'

# Nothing to serve; settings before any section.
: >bad.conf
bad 'bad.conf: there is nothing to serve; expected \[export NAME\]'
printf 'threads = 1\n[export a]\npath = null:\nsize = 1M\n' >bad.conf
bad 'bad.conf:1: threads: stands before the first section'

# NUL bytes, a line of 1 MB, random bytes.
printf '[export a]\npath = nu\0ll:\n' >bad.conf
bad "bad.conf:1: path: export 'a' has no path" 'bad.conf:2: a NUL byte is in the line; expected text'
{ printf '[export a]\npath = null:\nsize = 1M\ndescription = '; head -c 1000000 /dev/zero | tr '\0' x; echo; } >bad.conf
bad 'bad.conf:4: the line has 1000014 bytes; expected at most 65536'
shred -n 1 -s 20000 bad.conf 2>/dev/null || head -c 20000 /dev/urandom >bad.conf
refuses 2 'bad.conf:1: ' "$liftd" -c bad.conf --check

# Includes: missing, of itself, in a ring, twice, where they may not stand.
printf '[server]\ninclude = none.conf\n[export a]\npath = null:\nsize = 1M\n' >bad.conf
bad 'bad.conf:2: include: there is no none.conf; expected a file, or a pattern'
sed -i 's/none.conf/bad.conf/' bad.conf
bad 'bad.conf:2: include: bad.conf would include itself'
sed -i 's/= bad.conf/= ring.conf/' bad.conf
echo 'include = bad.conf' >ring.conf
bad 'ring.conf:1: include: bad.conf would include itself'
: >ring.conf
sed -i '2p' bad.conf
bad 'bad.conf:3: include: ring.conf is included already, at bad.conf:2'
wrong '4: include: stands in \[server\]' 'include = ring.conf'
# An error of an included file has its name and line; those of all files come at once, in order.
printf '\nqueue_depth = 3\n[export b]\nqueue_depth = 3x\n' >ring.conf
conf bad.conf <<-EOF
	colour = blue
	include = ring.conf
	[export a]
	path = null:
	scheduler = best
	size = large
	read_expire = never
	[server]
	log = loud
EOF
bad 'bad.conf:1: colour: stands before the first section' "bad.conf:4: size: export 'a': the null store needs" \
	"bad.conf:5: scheduler: 'best'" "bad.conf:6: size: 'large'" "bad.conf:7: read_expire: 'never' is not a time" \
	"bad.conf:9: log: 'loud'" 'ring.conf:2: queue_depth: stands before' "ring.conf:3: path: export 'b' has no path" \
	"ring.conf:4: queue_depth: '3x'"

echo "$n bad configurations"
