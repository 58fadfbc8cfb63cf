#!/bin/bash
# The fuzz targets over the inputs that were worth keeping (tests/fuzz/corpus): whatever was found stays fixed.
. "$(dirname "$0")/functions.sh"

n=0
for source in "$tests"/fuzz/*.c; do
	name=$(basename "$source" .c)
	[[ $name != check && $name != replay ]] || continue
	TMPDIR=$tmp "$BUILD/tests/fuzz-$name" "$tests/fuzz/corpus/$name" 2>"$tmp/log" >"$tmp/out" || {
		tail -n 60 "$tmp/log" >&2
		fail "$name: the last input named above"
	}
	echo "$name: $(cat "$tmp/out")"
	n=$((n + 1))
done
[[ $n -ge 5 ]] || fail "only $n targets"
[[ $(find "$tests/fuzz/corpus" -type f | wc -l) -le 300 ]] || fail "too many inputs are kept"
[[ $(cat "$tests"/fuzz/corpus/*/* | wc -c) -le 307200 ]] || fail "more than 300 KB of inputs are kept"
