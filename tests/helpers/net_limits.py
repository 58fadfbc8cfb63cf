"""Limits and the waiting for them: connections | descriptors | requests | memory |
crowd | gone, UNIX-SOCKET CONTROL-SOCKET [sanitized]"""
import os, select, signal, sys, threading, time
from nbdraw import *

what, path, ctl = sys.argv[1], sys.argv[2], Control(sys.argv[3])
sanitized = len(sys.argv) > 4 # and has its own idea of memory
MIB = 1 << 20


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, 'not within time'
        time.sleep(0.01)


def connections():
    """max_connections=5: the sixth waits to be accepted until one has gone."""
    clients = [Client(path).go('disk') for i in range(5)]
    late = Client(path, 1)
    try:
        late.recv(1)
        assert False, 'more connections than max_connections'
    except TimeoutError:
        pass
    for c in clients:
        assert c.read(0, 16)
    clients.pop().close()
    late.s.settimeout(20)
    assert late.go('disk').read(0, 16)
    for c in clients + [late]:
        c.close()
    until(lambda: ctl.stats()['connections'] == 0)
    assert Client(path).go('disk').read(0, 16)


def descriptors():
    """The server has few descriptors: who finds none waits, nobody is sent away, and it goes on by itself."""
    clients = [Client(path, 60) for i in range(60)]
    for c in clients:
        c.s.setblocking(False)
    until(lambda: sum(c.s in select.select([c.s], [], [], 0)[0] for c in clients) >= 10)
    early = [c for c in clients if select.select([c.s], [], [], 0)[0]]
    assert len(early) < 50, len(early)
    for c in clients:
        c.s.settimeout(60)
    for c in early:
        assert c.go('disk').read(0, 16)
        c.close()
    # The next ones get their places; each is let go before one more is waited for.
    left = [c for c in clients if c not in early]
    while left:
        got = select.select([c.s for c in left], [], [], 30)[0]
        assert got, f'{len(left)} connections are forgotten'
        for c in [c for c in left if c.s in got]:
            assert c.go('disk').read(0, 16)
            c.close()
            left.remove(c)


def requests():
    """nr_requests=4, 20 ms a request: never more in each direction; another client is not held up; all are answered."""
    c = Client(path).go('disk')
    n = 60
    c.send(b''.join(request(READ, i, i * 4096, 4096) for i in range(n)))
    most, got = 0, {}

    def receive():
        for i in range(n):
            cookie, error, data = c.reply(4096)
            got[cookie] = (error, data)

    receiver = threading.Thread(target=receive)
    receiver.start()
    while receiver.is_alive():
        most = max(most, ctl.stats()['requests_held'])
        assert ctl.call('client.list')[0]['queued'] <= 4
    receiver.join()
    assert len(got) == n and all(e == 0 for e, d in got.values())
    assert 3 <= most <= 4, most
    # In each direction: reads that wait do not hold up a write of another connection of the same client.
    d = Client(path).go('disk')
    c.send(b''.join(request(READ, i, i * 4096, 4096) for i in range(n)))
    assert d.write(8 * MIB, b'y' * 4096) == 0
    seen = 0
    for i in range(n):
        c.reply(4096)
    s = ctl.stats()
    assert s['budget_waits'] > 10, brief(s)
    # A higher limit holds at once, for those who wait already.
    c.send(b''.join(request(READ, i, i * 4096, 4096) for i in range(100)))
    until(lambda: ctl.stats()['requests_held'] == 4)
    ctl.call('export.set', name='disk', set={'nr_requests': 128, 'queue_depth': 1})
    until(lambda: ctl.stats()['requests_held'] > 50)
    for i in range(100):
        assert c.reply(4096)[1] == 0


def gone():
    """A client goes while its socket is not read, for want of budget: what is queued is withdrawn at once."""
    c = Client(path).go('disk')
    c.send(b''.join(request(READ, i, i * 8192, 4096) for i in range(20)))
    until(lambda: ctl.stats()['requests_held'] == 4)
    began = time.monotonic()
    c.close()
    until(lambda: ctl.stats()['connections'] == 0)
    s = ctl.stats()
    # One is in flight and takes its 3 s; the three behind it will never go there.
    assert s['requests_held'] == 1 and s['requests_withdrawn'] == 3, brief(s)
    assert time.monotonic() - began < 2.5


def memory():
    """memory=64M: greedy clients fill it and not more; a modest one is served at once all the while."""
    greedy = [Client(path, 120).go('disk') for i in range(6)]
    size = 16 * MIB
    done = [0] * len(greedy)

    def work(i):
        c = greedy[i]
        sender = threading.Thread(target=c.send, args=(
            b''.join(request(WRITE, k, k % 2 * size, data=bytes([i]) * size) for k in range(6)),))
        sender.start()
        for k in range(6):
            assert c.reply()[1] == 0
            done[i] += 1
        sender.join()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(greedy))]
    modest = Client(path).go('disk')
    for t in threads:
        t.start()
    most, waiting, slowest = 0, 0, 0
    while any(t.is_alive() for t in threads):
        began = time.monotonic()
        assert modest.write(48 * MIB, b'm' * 4096) == 0
        slowest = max(slowest, time.monotonic() - began)
        s = ctl.stats()
        most = max(most, s['bytes_held'])
        waiting = max(waiting, s['connections_waiting'])
    for t in threads:
        t.join()
    print(f'most held {most / MIB:.0f} MiB, most waiting {waiting}, slowest modest request {slowest * 1000:.0f} ms')
    assert done == [6] * len(greedy), done
    # What is free goes to anybody; beyond it there is one request for each who holds nothing.
    assert 32 * MIB <= most <= 64 * MIB + len(greedy) * size, most
    assert waiting > 0
    for c in greedy:
        assert c.read(0, 4096)[:1] < bytes([len(greedy)])
        c.close()
    modest.close()


def crowd():
    """A thousand connections ask for far more than they may: what they sent stays in their sockets."""
    pid = ctl.call('server.info')['pid']

    def resident():
        with open(f'/proc/{pid}/status') as f:
            return next(int(line.split()[1]) for line in f if line.startswith('RssAnon')) / 1024

    clients = [Client(path, 120).go('disk') for i in range(1000)]
    n = 40
    before = resident()
    os.kill(pid, signal.SIGSTOP)    # so that all of it is there when it looks
    for i, c in enumerate(clients):
        c.send(b''.join(request(WRITE, k, (i % 100 * n + k) * 4096, data=bytes([k]) * 4096) for k in range(n)))
    os.kill(pid, signal.SIGCONT)
    until(lambda: ctl.stats()['connections_waiting'] > 500)
    most = resident()
    for c in clients:
        for k in range(n):
            assert c.reply()[1] == 0
    print(f'{most - before:.0f} MiB for {len(clients)} connections with {n * 4} KiB each')
    assert sanitized or most - before < 64, most - before
    for c in clients:
        c.close()


globals()[what]()
until(lambda: ctl.stats()['requests_held'] == ctl.stats()['bytes_held'] == 0)
