#!/bin/bash
# What must cost the sender his connection and nobody else anything: random bytes, truncations, absurd lengths,
# resets in the middle of a payload, trickling, never reading. A neighbour on the same server is served all the while.
. "$(dirname "$0")/functions.sh"
requires python3
export PYTHONDONTWRITEBYTECODE=1

make_image "$tmp/disk.img" 64M
port=$(free_port)
start_liftd -p "$port" -o stall_timeout=1s -o handshake_timeout=1s -x disk "$tmp/disk.img"

sanitized=()
! grep -qaE '__(asan|tsan)_init' "$BUILD/liftd" || sanitized=(sanitized)
python3 "$tests/helpers/net_abuse.py" "$SOCK" "127.0.0.1:$port" "$CTL" "$LIFTD_PID" "${sanitized[@]}"
stop_liftd

# Large payloads take their time on a busy machine.
start_liftd -p "$port" -x disk "$tmp/disk.img"
python3 "$tests/helpers/net_refused.py" "$SOCK" "127.0.0.1:$port"
stop_liftd
