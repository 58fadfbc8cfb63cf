"""Many idle connections: what they cost, and that those that are not idle are served: UNIX-SOCKET HOST:PORT PID N BYTES (the most that each may cost)"""
import sys, time
from nbdraw import *

unix, tcp = sys.argv[1:3]
pid, n, limit = map(int, sys.argv[3:])


def resident():
    with open(f'/proc/{pid}/status') as f:
        return next(int(line.split()[1]) for line in f if line.startswith('RssAnon'))


first = Client(unix).go('disk')
first.write(0, b'x' * 4096)
before = resident()
idle = []
for i in range(n):
    idle.append(Client(tcp if i % 100 == 0 else unix, 60).go('disk'))
    if i % 5 == 0:      # used once, with data of all sizes
        assert idle[-1].write(0, b'x' * (4096 << i // 5 % 8)) == 0
        assert len(idle[-1].read(0, 65536)) == 65536
    if i % 1000 == 0:   # others are served meanwhile
        assert first.read(0, 4096) == b'x' * 4096
# Caches are given back after two seconds without work.
end = time.monotonic() + 20
while (resident() - before) * 1024 / n >= limit and time.monotonic() < end:
    time.sleep(0.1)
cost = resident() - before
print(f'{n} idle connections: {cost} KiB, {cost * 1024 // n} bytes each')
assert cost * 1024 / n < limit, f'more than {limit} bytes each'

began = time.monotonic()
for c in idle:          # all of them are still there
    c.send(request(READ, 1, 0, 512))
for c in idle:
    assert c.reply(512) == (1, 0, b'x' * 512)
print(f'one request of each: {time.monotonic() - began:.2f} s')
for i, c in enumerate(idle):
    c.close(i % 2 == 0)
assert first.read(0, 4096) == b'x' * 4096
