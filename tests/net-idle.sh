#!/bin/bash
# Ten thousand connections that do nothing cost little, and are served when they ask.
. "$(dirname "$0")/functions.sh"
requires python3
export PYTHONDONTWRITEBYTECODE=1

n=10000
# The client needs as many descriptors again.
while [[ $(ulimit -Hn) != unlimited && $(ulimit -Hn) -lt $((n + 200)) ]]; do n=$((n / 2)); done
ulimit -n $((n + 200))
bytes=4000
if grep -qaE '__(asan|tsan)_init' "$BUILD/liftd"; then # has its own idea of memory
	n=$((n / 5))
	bytes=1000000
fi

make_image "$tmp/disk.img" 16M
port=$(free_port)
start_liftd -p "$port" -x disk "$tmp/disk.img"
descriptors=$(ls "/proc/$LIFTD_PID/fd" | wc -l)
python3 "$tests/helpers/net_idle.py" "$SOCK" "127.0.0.1:$port" "$LIFTD_PID" "$n" "$bytes"
python3 "$tests/helpers/net_settled.py" "$CTL" "$n" >/dev/null
wait_for "[[ \$(ls /proc/$LIFTD_PID/fd | wc -l) -eq $descriptors ]]" 20
stop_liftd
