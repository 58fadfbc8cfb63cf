"""One client at full speed among idle ones: SOCKET HOST:PORT PID CA IDLE SECURE BYTES

IDLE connections, SECURE of them inside TLS, each of which may cost BYTES at most. Writes and reads go on meanwhile, many
at a time, and their data are compared; then each idle one is served.
"""
import os, sys, time

import tls_raw
from nbdraw import *

unix, tcp, pid, ca = sys.argv[1:5]
idle, secure, limit = map(int, sys.argv[5:])
DEPTH, BLOCK, ROUNDS = 32, 16384, 150


def resident():
    with open(f'/proc/{pid}/status') as f:
        return next(int(line.split()[1]) for line in f if line.startswith('RssAnon'))


def work(c, seed):
    """DEPTH at a time: seconds for all, and for the slowest DEPTH."""
    began = last = time.monotonic()
    slowest = 0
    for n in range(ROUNDS):
        base = n % 4 * DEPTH * BLOCK
        data = [b'%08d' % (seed + n * DEPTH + i) * (BLOCK // 8) for i in range(DEPTH)]
        c.send(b''.join(request(WRITE, i, base + i * BLOCK, data=d) for i, d in enumerate(data)))
        for i in range(DEPTH):
            assert c.reply()[1] == 0
        c.send(b''.join(request(READ, i, base + i * BLOCK, BLOCK) for i in range(DEPTH)))
        for i in range(DEPTH):
            cookie, error, got = c.reply(BLOCK)
            assert not error and got == data[cookie], f'round {n}: other data'
        now = time.monotonic()
        slowest, last = max(slowest, now - last), now
    return last - began, slowest


def comes(i):
    if i < secure:
        c = tls_raw.start(unix if i % 2 else tcp, ca)
        tls_raw.attach(c)
        return c
    return Client(unix if i % 10 else tcp, 60).go()


worker = Client(tcp, 60).go()
alone, slow_alone = min(work(worker, seed) for seed in range(0, 3000000, 1000000))
before, fds = resident(), descriptors(pid)
crowd = [comes(i) for i in range(idle)]
assert descriptors(pid) <= fds + idle + 8, f'{descriptors(pid)} descriptors for {idle} connections, {fds} before'
took, slow = min(work(worker, seed) for seed in range(5000000, 8000000, 1000000))
total = ROUNDS * DEPTH * 2
print(f'{total} requests: alone {alone:.2f} s, {total / alone:.0f} a second, the slowest {DEPTH} {slow_alone:.3f} s;'
      f' among {idle} idle ones {took:.2f} s, {total / took:.0f} a second, {slow:.3f} s')
# The best of three each: idle connections cost nothing; what is left is what else the machine does.
assert took < 4 * alone + 2, 'idle connections make the one that works slow'
end = time.monotonic() + 20
while (resident() - before) * 1024 / idle >= limit and time.monotonic() < end:
    time.sleep(0.1)
cost = (resident() - before) * 1024 // idle
print(f'{cost} bytes for each idle connection')
assert cost < limit, f'more than {limit} bytes each'
for c in crowd:
    c.send(request(READ, 1, 0, 512))
    assert c.reply(512)[:2] == (1, 0)
for i, c in enumerate(crowd):
    c.close(i % 2 == 0)
end = time.monotonic() + 30
while descriptors(pid) > fds + 8 and time.monotonic() < end:
    time.sleep(0.1)
assert descriptors(pid) <= fds + 8, f'{descriptors(pid)} descriptors are left, {fds} before'
assert work(worker, 9000000)
