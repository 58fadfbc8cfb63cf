"""Clients that are killed while they write, each followed by one that writes the same place: UNIX-SOCKET KILLS"""
import os, random, signal, sys, time
from nbdraw import *

path, kills = sys.argv[1], int(sys.argv[2])
WORKERS, BLOCKS = 4, 64
SIZE = 16384

def block(generation, k):
    return struct.pack('>QQ', generation, k) * (SIZE // 16)

def victim(base, generation, begun):
    """Writes its generation to all blocks, again and again, and reads no answer if it need not."""
    c = Client(path).go('disk')
    os.write(begun, b'!')
    batch = b''.join(request(WRITE, k, base + k * SIZE, data=block(generation, k)) for k in range(BLOCKS))
    while True:
        c.send(batch)
        for k in range(BLOCKS):
            c.reply()

def worker(n):
    random.seed(n)
    base = n * BLOCKS * SIZE
    c = Client(path).go('disk')
    for i in range(kills // WORKERS):
        wait, begun = os.pipe()
        child = os.fork()
        if not child:
            try:
                victim(base, 2 * i, begun)
            finally:
                os._exit(9)
        assert os.read(wait, 1) == b'!'
        os.close(wait)
        os.close(begun)
        time.sleep(random.random() * 0.01)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        # The next one, at once: a connection that is there already, or a new one.
        if i % 2:
            c.send(request(DISC, 0))
            c = Client(path).go('disk')
        batch = random.sample(range(BLOCKS), 32)
        c.send(b''.join(request(WRITE, k, base + k * SIZE, data=block(2 * i + 1, k)) for k in batch))
        for k in batch:
            assert c.reply()[1] == 0
        for again in range(3):
            if again == 1:
                c.send(request(FLUSH, 1))
                assert c.reply() == (1, 0)
            for k in batch:
                data = c.read(base + k * SIZE, SIZE)
                assert data == block(2 * i + 1, k), \
                    f'block {k}: generation {struct.unpack(">Q", data[:8])} after {2 * i + 1}'
            time.sleep(0.005)
    c.send(request(DISC, 0))
    c.closed()

children = []
for n in range(WORKERS):
    child = os.fork()
    if not child:
        ok = False
        try:
            worker(n)
            ok = True
        except BaseException as e:
            print('worker', n, repr(e), file=sys.stderr)
        finally:
            os._exit(0 if ok else 1)
    children.append(child)
failed = sum(os.waitpid(child, 0)[1] != 0 for child in children)
assert not failed, f'{failed} workers failed'
