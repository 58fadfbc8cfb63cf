# Sourced first by every tests/NAME.sh:   . "$(dirname "$0")/functions.sh"
#
# Gives each test a folder of its own ($tmp), ends everything that the test started, and fails it if a server that it
# started ended badly or a sanitizer complained. Any failing command ends the test; pipes fail by their last command.
#
#   requires TOOL...             skip the test if a program (or file with a /) is missing
#   skip TEXT, fail TEXT         end the test
#   start_liftd ARG...           start $BUILD/liftd; returns when it is ready. Sets LIFTD_PID SOCK URI CTL LIFTD_LOG.
#                                INSTANCE=NAME start_liftd ... for a second one beside the first
#   start_nbdkit IMAGE ARG...    the same with nbdkit and the plugin. ARG: parameters and nbdkit's options.
#                                PORT=N start_nbdkit ... on TCP
#   stop_liftd [PID]             SIGTERM; the exit status must be 0, or one of $STATUS. Sets STOPPED to it.
#   kill_liftd [PID]             SIGKILL, and forget it
#   ctl ARG...                   liftctl on the control socket $CTL
#   refuses STATUS REGEX CMD...  CMD must end with this exit status and say something that matches
#   wait_for CONDITION SECONDS   until the shell command succeeds; fails the test after that time
#   background CMD...            run in the background; ended with the test. Sets BG_PID.
#   at_exit CMD                  run this shell command when the test ends (last one first)
#   loop_device IMG [OPTION...]  attach a loop device; sets LOOP; detached with the test
#   free_port                    prints a free TCP port on 127.0.0.1
#   duration TEXT                prints seconds: a number, with s, m or h behind it
#   make_image FILE SIZE         a file of random bytes (SIZE as for truncate: 64M)

set -eEu
: "${BUILD:=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/build}"
tests=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# Short: the path of a Unix socket holds 107 bytes.
tmp=$(mktemp -d "${TMPDIR:-/tmp}/lift.XXXXXX")
export BUILD tmp
INSTANCE=liftd
LIFTD_PID='' SOCK='' URI='' CTL='' LIFTD_LOG='' LOOP='' BG_PID=''
_exit_commands=()
declare -A _servers=() _drains=() _others=()      # pid -> log; pid -> pid of what reads its output; pid -> 1

fail()
{
	echo "FAIL: $*" >&2
	exit 1
}

skip()
{
	echo "$*"
	exit 77
}

requires()
{
	local t
	for t in "$@"; do
		case $t in
		*/*) [[ -e $t ]] || skip "needs $t" ;;
		*) command -v "$t" >/dev/null || skip "needs the program $t" ;;
		esac
	done
}

at_exit()
{
	_exit_commands=("$1" "${_exit_commands[@]}")
}

wait_for()
{
	local end=$((SECONDS + ${2:-10}))
	until eval "$1"; do
		[[ $SECONDS -lt $end ]] || fail "not within ${2:-10} s: $1"
		sleep 0.05
	done
}

background()
{
	"$@" &
	BG_PID=$!
	_others[$BG_PID]=1
}

# ---- the server ------------------------------------------------------------------------------------------------

start_liftd()
{
	local fd line ready= name=$INSTANCE
	[[ -x $BUILD/liftd ]] || fail "$BUILD/liftd is not built"
	SOCK=$tmp/$name.sock
	CTL=$tmp/$name.ctl
	LIFTD_LOG=$tmp/$name.log
	URI="nbd+unix:///?socket=$SOCK"
	rm -f "$tmp/$name.fifo"
	mkfifo "$tmp/$name.fifo"
	# The error output comes through a fifo: its first lines are read here until the server is ready, or gone.
	"$BUILD/liftd" -U "$SOCK" --control "$CTL" "$@" </dev/null 2>"$tmp/$name.fifo" &
	LIFTD_PID=$!
	_servers[$LIFTD_PID]=$LIFTD_LOG
	exec {fd}<"$tmp/$name.fifo"
	while IFS= read -r -t 60 -u "$fd" line; do
		printf '%s\n' "$line" >>"$LIFTD_LOG"
		if [[ $line == "liftd: ready" ]]; then
			ready=1
			break
		fi
	done
	cat <&"$fd" >>"$LIFTD_LOG" &
	_drains[$LIFTD_PID]=$!
	exec {fd}<&-
	[[ $ready ]] || {
		cat "$LIFTD_LOG" >&2
		fail "liftd $* did not become ready"
	}
}

# nbdkit with the plugin. It is built without sanitizers, and with libasan loaded before it (LD_PRELOAD) it may hang at
# its end: after some errors, with its own plugins too, it waits in libp11-kit's destructor for a lock of the C library.
requires_nbdkit()
{
	case $BUILD in
	*/asan | */tsan) skip "nbdkit is not built with sanitizers; test_gate is" ;;
	esac
	requires nbdkit "$BUILD/nbdkit-lift-plugin.so"
}

# nbdkit writes its pid file once it listens.
start_nbdkit()
{
	local name=$INSTANCE listen
	requires_nbdkit
	SOCK=$tmp/$name.sock
	CTL=$tmp/$name.ctl
	LIFTD_LOG=$tmp/$name.log
	URI="nbd+unix:///?socket=$SOCK"
	listen=(-U "$SOCK")
	if [[ ${PORT:-} ]]; then
		listen=(-i 127.0.0.1 -p "$PORT")
		URI=nbd://127.0.0.1:$PORT
	fi
	rm -f "$SOCK" "$tmp/$name.pid"
	nbdkit -f "${listen[@]}" -P "$tmp/$name.pid" "$BUILD/nbdkit-lift-plugin.so" \
		control="$CTL" "$@" </dev/null >"$LIFTD_LOG" 2>&1 &
	LIFTD_PID=$!
	_servers[$LIFTD_PID]=$LIFTD_LOG
	_drains[$LIFTD_PID]=$LIFTD_PID
	wait_for "[[ -e $tmp/$name.pid ]] || _gone $LIFTD_PID" 60
	! _gone "$LIFTD_PID" || {
		cat "$LIFTD_LOG" >&2
		fail "nbdkit $* did not become ready"
	}
}

# A pid that is gone has been reaped by the shell, which keeps its status for `wait`.
_gone()
{
	! kill -0 "$1" 2>/dev/null
}

_wait_gone()
{
	local end=$((SECONDS + $2))
	until _gone "$1"; do
		[[ $SECONDS -lt $end ]] || return 1
		sleep 0.05
	done
}

# Ends a server and sets _verdict to what was wrong with it, if anything.
_finish_server()
{
	local pid=$1 status=0 log=${_servers[$1]}
	_verdict=
	unset "_servers[$pid]"
	kill -TERM "$pid" 2>/dev/null || :
	_wait_gone "$pid" 60 || {
		kill -KILL "$pid" 2>/dev/null || :
		_verdict="liftd ($pid) did not stop within 60 s of SIGTERM"
	}
	wait "$pid" 2>/dev/null || status=$?
	# Its last words are in the log when the reader has come to their end.
	_wait_gone "${_drains[$pid]}" 10 || :
	STOPPED=$status
	if [[ ! $_verdict && " ${STATUS:-0} " != *" $status "* ]]; then
		_verdict="liftd ($pid) ended with status $status"
	fi
	if grep -qsE 'ERROR: (Address|Leak|Undefined)|WARNING: ThreadSanitizer|runtime error:' "$log"; then
		_verdict="sanitizer report in liftd's output"
	fi
	[[ ! $_verdict ]] || tail -n 60 "$log" >&2
}

stop_liftd()
{
	local pid=${1:-$LIFTD_PID} _verdict
	[[ -n ${_servers[$pid]:-} ]] || fail "stop_liftd: no server with pid '$pid'"
	_finish_server "$pid"
	[[ ! $_verdict ]] || fail "$_verdict"
}

kill_liftd()
{
	local pid=${1:-$LIFTD_PID}
	unset "_servers[$pid]"
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null || :
}

ctl()
{
	"$BUILD/liftctl" --socket "$CTL" "$@"
}

refuses()
{
	local want=$1 regex=$2 status=0 out
	shift 2
	out=$(timeout 60 "$@" 2>&1 </dev/null) || status=$?
	[[ $status -eq $want ]] || fail "exit status $status instead of $want: $*: $out"
	grep -qE -- "$regex" <<<"$out" || fail "said nothing that matches '$regex': $*: $out"
}

# ---- things to serve -------------------------------------------------------------------------------------------

make_image()
{
	rm -f "$1"
	truncate -s "$2" "$1"
	shred -n 1 "$1"
}

loop_device()
{
	local img=$1
	shift
	requires losetup
	[[ $(id -u) -eq 0 ]] || skip "a loop device needs root"
	LOOP=$(losetup --find --show "$@" "$img" 2>&1) || skip "no loop device here: $LOOP"
	at_exit "losetup -d $LOOP"
}

duration()
{
	case $1 in
	*[!0-9smh]* | *[smh]?* | [smh] | '') fail "'$1' is no time: expected a number, with s, m or h behind it" ;;
	*m) echo $((${1%m} * 60)) ;;
	*h) echo $((${1%h} * 3600)) ;;
	*) echo "${1%s}" ;;
	esac
}

free_port()
{
	python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# ---- the end ---------------------------------------------------------------------------------------------------

_cleanup()
{
	local status=$? pid command _verdict
	trap - EXIT ERR
	trap '' INT TERM HUP
	set +eE
	for pid in "${!_others[@]}"; do kill -TERM "$pid" 2>/dev/null; done
	for pid in "${!_others[@]}"; do
		_wait_gone "$pid" 10 || kill -KILL "$pid" 2>/dev/null
	done
	for pid in "${!_servers[@]}"; do
		_finish_server "$pid"
		if [[ $_verdict && $status -eq 0 ]]; then
			echo "FAIL: $_verdict" >&2
			status=1
		fi
	done
	for command in "${_exit_commands[@]}"; do eval "$command"; done
	rm -rf "$tmp"
	exit "$status"
}

trap _cleanup EXIT
trap 'exit 143' INT TERM HUP
trap 'echo "${BASH_SOURCE[0]##*/}:$LINENO: failed: $BASH_COMMAND" >&2' ERR
