#!/bin/bash
# scripts/check-layers finds what it is for, and nothing else: a small tree with one violation after another.
. "$(dirname "$0")/functions.sh"
requires python3 gcc nm

tree=$tmp/tree
mkdir -p "$tree"/{scripts,build/obj/sched} "$tree"/sched/sim "$tree"/server/{store,nbd,net,export,control,ctl} \
	"$tree"/{conf,plugin,tests}
cp "$tests/../scripts/check-layers" "$tree/scripts/"
touch "$tree"/sched/{request,tunable}.h "$tree"/sched/sim/sim.h "$tree"/conf/conf.h
for d in store nbd net export control ctl; do touch "$tree/server/$d/$d.h"; done
touch "$tree/server/control/commands.h"

compile()
{
	gcc -g -O0 -fno-builtin -c -o "$tree/build/obj/sched/pure.o" "$tree/sched/pure.c"
}

check()
{
	"$tree/scripts/check-layers" "$tree/build" >"$tmp/out" 2>&1
}

# allowed|forbidden FILE LINE...: FILE consists of these lines.
allowed()
{
	local file=$1
	shift
	printf '%s\n' "$@" >"$tree/$file"
	check || fail "$file: $* should pass: $(<"$tmp/out")"
	[[ $file == sched/pure.c ]] || rm "$tree/$file"
}

forbidden()
{
	local file=$1 number=$2
	shift 2
	printf '%s\n' "$@" >"$tree/$file"
	! check || fail "$file: $* should not pass"
	grep -q "^$file:$number: " "$tmp/out" || fail "$file: $*: no line '$file:$number: ...' in: $(<"$tmp/out")"
	rm "$tree/$file"
}

echo 'int pure(const char *s); int pure(const char *s) { return *s; }' >"$tree/sched/pure.c"
compile
check

allowed sched/a.h '#include <string.h>' '#include "sched/request.h"'
forbidden sched/a.h 2 '' '#include <time.h>'
forbidden sched/a.h 1 '#include "server/store/store.h"'
forbidden sched/a.h 1 '#include "sched/sim/sim.h"'
forbidden sched/a.h 1 '#include "request.h"'
allowed sched/sim/a.c '#include "sched/request.h"' '#include <time.h>'
forbidden sched/sim/a.c 1 '#include "server/store/store.h"'
allowed server/store/a.c '#include "sched/request.h"' '#include <liburing.h>'
forbidden server/store/a.c 1 '#include "server/export/export.h"'
forbidden server/store/a.c 1 '#include <event2/event.h>'
allowed server/nbd/a.c '#include "server/nbd/nbd.h"' '#include <endian.h>'
forbidden server/nbd/a.c 1 '  #  include <sys/socket.h>'
forbidden server/nbd/a.c 1 '#include <netinet/in.h>'
forbidden server/nbd/a.c 1 '#include "server/net/net.h"'
allowed server/net/a.c '#include "server/control/control.h"' '#include <event2/event.h>' '#include "sched/request.h"'
allowed server/export/a.c '#include "server/store/store.h"' '#include "sched/request.h"'
forbidden server/export/a.c 1 '#include "server/net/net.h"'
allowed server/control/a.c '#include "server/export/export.h"' '#include "server/store/store.h"'
forbidden server/control/a.c 1 '#include "server/net/net.h"'
allowed server/ctl/a.c '#include "server/control/commands.h"' '#include "sched/tunable.h"' '#include "server/ctl/ctl.h"'
forbidden server/ctl/a.c 1 '#include "server/control/control.h"'
forbidden server/ctl/a.c 1 '#include "sched/request.h"'
allowed server/a.c '#include "server/net/net.h"' '#include "conf/conf.h"'
forbidden server/a.c 1 '#include <event2/event.h>'
allowed conf/a.c '#include "sched/tunable.h"'
forbidden conf/a.c 1 '#include "server/export/export.h"'
allowed plugin/a.c '#include "server/control/control.h"'
forbidden plugin/a.c 1 '#include "server/net/net.h"'
allowed tests/a.c '#include "server/net/net.h"' '#include "sched/sim/sim.h"' '#include <sys/socket.h>'

for call in 'time(0)' 'clock_gettime(0, 0)' 'printf("")' 'write(1, "", 1)' 'pthread_mutex_lock(0)' 'getenv("")' 'usleep(1)' \
	'fopen("", "")' 'syslog(1, "")' 'rand()'; do
	printf '\n%s\n' "extern int ${call%%(*}(); int f(void); int f(void) { return (int)(long)$call; }" >"$tree/sched/pure.c"
	compile
	! check || fail "$call should not pass"
	grep -q "^sched/pure.c:2: uses ${call%%(*}()" "$tmp/out" || fail "$call: $(<"$tmp/out")"
done
for call in 'malloc(1)' 'strtoull("", 0, 0)' 'memcpy(0, 0, 0)' 'snprintf(0, 0, "")' 'abort()' 'free(0)' 'strcmp("", "")'; do
	echo "extern long ${call%%(*}(); int f(void); int f(void) { return (int)$call; }" >"$tree/sched/pure.c"
	compile 2>/dev/null
	check || fail "$call should pass: $(<"$tmp/out")"
done

# An object that was never built is an error, not a pass.
rm "$tree/build/obj/sched/pure.o"
refuses 1 'is not built' "$tree/scripts/check-layers" "$tree/build"
