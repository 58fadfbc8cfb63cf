"""client.disconnect and client.drain, again and again, under load: CONTROL WHERE ROUNDS
WHERE is a Unix socket, where this process is one client and its child another; or HOST:PORT, where the child has another
address. The child works all the time and must notice nothing."""
import mmap, os, random, signal, sys, time
from nbdraw import *

ctl, where, rounds = Control(sys.argv[1]), sys.argv[2], int(sys.argv[3])
CONNS, BLOCKS, SIZE = 16, 24, 4096
STRIDE = 2 * SIZE                        # nothing merges
random.seed(7)


class From(Client):
    """One with this address."""
    def __init__(self, address):
        self.s = socket.create_connection(where.rsplit(':', 1), 30, (address, 0))


def place(conn, k):
    return (conn * BLOCKS + k) * STRIDE


def block(generation, conn, k):
    return struct.pack('>QQ', generation, conn * BLOCKS + k) * (SIZE // 16)


def rows(id):
    return [c for c in ctl.call('client.list') if c['id'] == id]


def until(good):
    end = time.monotonic() + 60
    while not good():
        assert time.monotonic() < end, (rows(me), brief(ctl.stats()))
        time.sleep(0.001)


def until_gone():
    until(lambda: not rows(me))


def connections():
    return sum(c['connections'] for c in rows(me))


# ---- the other client ----

def work_on(counter):
    conns = [Client(where).go('disk') if '/' in where else From('127.0.0.2').go('disk') for i in range(3)]
    base = CONNS * BLOCKS * STRIDE
    stop = []
    signal.signal(signal.SIGTERM, lambda *a: stop.append(1))
    n = 0
    while not stop:
        n += 1
        for i, c in enumerate(conns):
            c.send(request(WRITE, 1, base + i * STRIDE, data=block(n, CONNS, i)) + request(READ, 2, base + (i + 8) * STRIDE, SIZE))
        for c in conns:
            for i in range(2):
                cookie, error = c.reply()
                assert not error
                if cookie == 2:
                    c.recv(SIZE)
        for i, c in enumerate(conns):
            assert c.read(base + i * STRIDE, SIZE) == block(n, CONNS, i)
        counter[:8] = struct.pack('Q', n)
    for c in conns:
        c.send(request(DISC, 0))
        c.closed()


counter = mmap.mmap(-1, 4096)
child = os.fork()
if not child:
    ok = False
    try:
        work_on(counter)
        ok = True
    finally:
        os._exit(0 if ok else 1)

me, other = (f'pid:{os.getpid()}', f'pid:{child}') if '/' in where else ('ip:127.0.0.1', 'ip:127.0.0.2')


def progress():
    return struct.unpack('Q', counter[:8])[0]


# ---- this one ----

def load(generation):
    """Connections with requests on their way, some not whole. Returns them, and what each has sent: cookie -> is a READ."""
    conns, sent = [Client(where).go('disk') for i in range(CONNS)], []
    for i, c in enumerate(conns):
        lines, kinds = [], []
        for k in range(random.randint(1, BLOCKS)):
            lines.append(request(WRITE, len(kinds), place(i, k), data=block(generation, i, k)))
            kinds.append(k)
            if random.random() < 0.3:
                lines.append(request(READ, len(kinds), place(random.randrange(CONNS), k), SIZE))
                kinds.append(None)
        if random.random() < 0.5:
            lines.append(request(WRITE, 99, place(i, 0), data=b'never' * 800)[:random.randint(1, 3000)])
        c.send(b''.join(lines))
        sent.append(kinds)
    return conns, sent


def answers(c, kinds, size=SIZE):
    """All until the end; which were answered."""
    got = set()
    try:
        while True:
            cookie, error = c.reply()
            assert not error and cookie not in got, (cookie, error)
            if kinds[cookie] is None:
                c.recv(size)
            got.add(cookie)
    except Closed:
        return got


def look(generation):
    """What is on the disk: (connection, block) of this generation."""
    c, there = Client(where).go('disk'), set()
    for i in range(CONNS):
        c.send(b''.join(request(READ, k, place(i, k), SIZE) for k in range(BLOCKS)))
        for k in range(BLOCKS):
            cookie, error, data = c.reply(SIZE)
            assert not error
            if data == block(generation, i, cookie):
                there.add((i, cookie))
            else:
                assert data == bytes(SIZE) or struct.unpack('>Q', data[:8])[0] < generation
    c.send(request(DISC, 0))
    c.closed()
    until_gone()
    return there


# Answers that are not read: the call returns all the same, the drain waits for the reader. Nothing holds up a disconnect.
slow, stuck = Client(where).go('disk'), Client(where).go('disk')
for c in slow, stuck:
    c.send(b''.join(request(READ, i, 0, 1 << 20) for i in range(20)))
    until(lambda: ctl.stats()['bytes_held'] >= 4 << 20)
for i in range(2):
    until(lambda: not rows(me)[0]['queued'] + rows(me)[0]['in_flight'])
    assert ctl.call('client.drain', id=me)[0]['connections'] == 2
slow.send(request(READ, 20, 0, 1 << 20))         # too late
got = answers(slow, [None] * 20, 1 << 20)
assert got == set(range(len(got))) and len(got) >= 16, got
until(lambda: connections() == 1)
assert ctl.call('client.drain', id=me)[0]['connections'] == 1
assert ctl.call('client.disconnect', id=me)[0]['connections'] == 1
until_gone()
assert stuck.closed()

partly = 0
for n in range(1, rounds + 1):
    for how in 'drain', 'disconnect':
        generation = 2 * n + (how == 'disconnect')
        before = ctl.stats()['requests_received']
        conns, sent = load(generation)
        until(lambda: connections() == CONNS)    # the last one has its answer and is about to be attached
        while random.random() < 0.7 and ctl.stats()['requests_received'] < before + 10:
            pass
        told = ctl.call('client.' + how, id=me, **({'export': 'disk'} if n % 2 else {}))
        assert len(told) == 1 and told[0]['id'] == me and told[0]['connections'] == CONNS, told
        got = [answers(c, kinds) for c, kinds in zip(conns, sent)]
        until_gone()
        there = look(generation)
        wrote = {(i, sent[i][cookie]) for i in range(CONNS) for cookie in got[i] if sent[i][cookie] is not None}
        if how == 'drain':
            # What was received was finished and answered, the rest was not begun.
            for i in range(CONNS):
                assert got[i] == set(range(len(got[i]))), (i, got[i])
                partly += 0 < len(got[i]) < len(sent[i])
            assert there == wrote, (sorted(there), sorted(wrote))
        else:
            assert wrote <= there, (sorted(there), sorted(wrote))
        assert rows(other)[0]['connections'] == 3
        for c in conns:
            c.close()
        # It is remembered, and has nothing to close.
        assert ctl.call('client.' + how, id=me)[0]['connections'] == 0
    if n == 1:
        since = progress()
assert progress() > since, 'the other client did nothing meanwhile'
os.kill(child, signal.SIGTERM)
assert os.waitpid(child, 0)[1] == 0, 'the other client failed'
print(f'{partly} connections were drained before all was read; the other client did {progress()} rounds')
