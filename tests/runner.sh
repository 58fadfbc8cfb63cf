#!/bin/bash
# tests/run and tests/functions.sh: what passes, fails, is skipped, hangs or is interrupted is told apart and cleaned up.
. "$(dirname "$0")/functions.sh"

tree=$tmp/tree
mkdir -p "$tree/tests" "$tree/build"
cp "$tests/run" "$tests/functions.sh" "$tree/tests/"

# script NAME LINE...: a test of these lines
script()
{
	local file=$tree/tests/$1.sh
	shift
	printf '%s\n' '#!/bin/bash' '. "$(dirname "$0")/functions.sh"' "$@" >"$file"
	chmod +x "$file"
}

# run STATUS [NAME=VALUE...]: run the tests of the small tree
run()
{
	local want=$1 status=0
	shift
	env -u TESTS -u CI BUILD="$tree/build" TMPDIR="$tmp" "$@" "$tree/tests/run" >"$tmp/out" 2>&1 || status=$?
	[[ $status -eq $want ]] || fail "exit status $status instead of $want: $(<"$tmp/out")"
}

says()
{
	grep -qE -- "$1" "$tmp/out" || fail "no line matches '$1' in: $(<"$tmp/out")"
}

# A server of a few lines: as good as liftd for starting and stopping. WORDS on its command line spoil it.
cat >"$tree/build/liftd" <<'EOS'
#!/bin/bash
status=0
case " $* " in
*" die "*) echo "liftd: no such image" >&2; exit 1 ;;
*" bad "*) status=3 ;;
*" leak "*) echo "==1==ERROR: LeakSanitizer: detected memory leaks" >&2 ;;
esac
trap 'exit $status' TERM
mkfifo "$0.$$"
exec 3<>"$0.$$"
echo "liftd: ready" >&2
while :; do read -r -t 0.2 -u 3; done
EOS
chmod +x "$tree/build/liftd"

run 1
says 'no tests found'

script pass 'true'
run 0
says '^ok +pass '
[[ $(tail -n 1 "$tmp/out") == "1 passed, 0 failed, 0 skipped" ]]

script skipped 'requires bash no-such-tool'
run 0 CI=true
says '^skip +skipped .*: needs the program no-such-tool'
says '^!!! +skipped: needs the program no-such-tool'
[[ $(tail -n 1 "$tmp/out") == "1 passed, 0 failed, 1 skipped" ]]

script wrong 'f() { false; }' 'f' 'true'
run 1
says '^FAIL +wrong '
says 'wrong.sh:3: failed: false'
[[ $(tail -n 1 "$tmp/out") == "1 passed, 1 failed, 1 skipped" ]]
run 0 TESTS=pass
[[ $(tail -n 1 "$tmp/out") == "1 passed, 0 failed, 0 skipped" ]]
run 2 TESTS="pass nonsense"
says "no test 'nonsense'"
rm "$tree"/tests/{wrong,skipped}.sh

# The pid is told by the very command that hangs: were it told before, a signal could come when bash has begun no
# command yet and heeds it only after the next.
script hangs '# timeout: 1' 'at_exit "echo cleaned up"' 'background sleep 600' \
	"sh -c 'echo \$1 >$tmp/pid; exec sleep 600' - \$BG_PID"
run 1 TESTS=hangs
says '^FAIL +hangs .*not finished after 1 s'
says 'cleaned up'
! kill -0 "$(<"$tmp/pid")" 2>/dev/null || fail "the background process of a test that was stopped is still there"

script server 'start_liftd -x a; one=$LIFTD_PID' 'INSTANCE=two start_liftd -x b; [[ $one != $LIFTD_PID ]]' \
	'stop_liftd' 'stop_liftd $one' 'start_liftd' 'kill_liftd' 'start_liftd'
script server-dies 'start_liftd die'
script server-bad 'start_liftd bad' 'stop_liftd'
script server-left-bad 'start_liftd bad'
script server-leaks 'start_liftd leak' 'stop_liftd'
run 1 TESTS="server server-dies server-bad server-left-bad server-leaks"
says '^ok +server '
says '^FAIL +server-dies '
says 'no such image'
says '^FAIL +server-bad '
says '^FAIL +server-left-bad '
says 'ended with status 3'
says '^FAIL +server-leaks '
says 'sanitizer report'

# Interrupted: the runner ends its tests, and each of them cleans up.
rm "$tmp/pid"
sed -i 's/^# timeout: 1/# timeout: 60/' "$tree/tests/hangs.sh"
background env -u CI TESTS=hangs BUILD="$tree/build" TMPDIR="$tmp" "$tree/tests/run"
wait_for '[[ -s $tmp/pid ]]' 20
kill -TERM "$BG_PID"
wait_for '! kill -0 $BG_PID 2>/dev/null' 20
wait_for '! kill -0 $(<$tmp/pid) 2>/dev/null' 20

leftover=$(find "$tmp" -mindepth 1 -maxdepth 1 -name 'lift.*')
[[ ! $leftover ]] || fail "tests left $leftover"
