"""Clients that never stop while a server's configuration is loaded again.

  reload_load.py HOST:PORT RELOAD        RELOAD: for bash; $WEIGHT is what 127.0.0.2 is to
  have, $NEW an export that is to be there then. With $FAULT the file is to be refused, after that export was opened.

Two clients, 127.0.0.2 and 127.0.0.3, read from export `slow` with 64 requests each in flight; a third writes to export
`disk` and reads back. Weights change by RELOAD; within a second of its end the shares must be those of the new weights.
No connection may end, and no request may fail.
"""
import os, random, socket, subprocess, sys, threading, time
from guarded import guarded, stop, wrong
from nbdraw import *

where, reload = sys.argv[1:]
port = int(where.rsplit(':', 1)[1])


class From(Client):
    """Comes from this address of the loopback network."""
    def __init__(self, address):
        self.s = socket.create_connection(('127.0.0.1', port), 60, (address, 0))
        self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


@guarded
def reader(address, times):
    c = From(address).go('slow')
    place = random.Random(address)
    for n in range(64):
        c.send(request(READ, n, place.randrange(1000) * 1048576, 512))
    while not stop.is_set():
        cookie, error, data = c.reply(512)
        assert not error, error
        times.append(time.monotonic())
        c.send(request(READ, cookie, place.randrange(1000) * 1048576, 512))


@guarded
def verifier(rounds):
    c = From('127.0.0.4').go('disk')
    place = random.Random(4)
    while not stop.is_set():
        at = place.randrange(c.size // 4096) * 4096
        data = place.randbytes(4096)
        assert c.write(at, data) == 0
        c.send(request(READ, 1, at, 4096))
        cookie, error, back = c.reply(4096)
        assert not error and back == data, 'data that was written is not read'
        rounds.append(at)


def settle(seen, until):
    while len(seen) < until and not wrong:
        time.sleep(0.01)


def share(a, b, begin, end):
    """Replies of a for each of b."""
    n = [sum(begin <= t < end for t in list(times)) for times in (a, b)]
    return n[0] / max(n[1], 1)


def ratio_within_a_second(a, b, want):
    """Did the shares become those of the weights, in half a second that began within one second?"""
    begin = time.monotonic()
    while time.monotonic() < begin + 1.6 and not wrong:
        time.sleep(0.05)
    got = [share(a, b, begin + i / 10, begin + i / 10 + 0.5) for i in range(11)]
    good = [abs(g / want - 1) < 0.2 for g in got]
    # Once they are, they stay so, but for a moment in which a client could not keep up.
    assert sum(good) >= 6, (want, got)


def run(weight, new, fault=False):
    env = dict(os.environ, WEIGHT=str(weight), NEW=new, FAULT='1' if fault else '')
    status = subprocess.run(['bash', '-c', reload], env=env, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL if fault else None).returncode
    assert status == (1 if fault else 0), (status, weight, new, fault)


def serves(name):
    c = From('127.0.0.4')
    try:
        c.go(name)
    except AssertionError:
        return False
    return c.read(0, 512) == bytes(512)


def main():
    a, b, rounds = [], [], []
    threads = [threading.Thread(target=reader, args=('127.0.0.2', a)),
               threading.Thread(target=reader, args=('127.0.0.3', b)),
               threading.Thread(target=verifier, args=(rounds,))]
    for t in threads:
        t.start()
    try:
        settle(a, 100)
        settle(b, 100)
        for weight in (100, 300, 50, 500):
            run(weight, 'new')
            ratio_within_a_second(a, b, weight / 100)
        # A storm of them, while everybody goes on.
        before = len(rounds)
        for i in range(40):
            run(100 + i, f'new{i}', fault=i % 2 == 1)
            assert serves(f'new{i}') == (i % 2 == 0), f'new{i}'
        settle(rounds, before + 10)
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert not wrong, wrong
    print(f'{len(a)} and {len(b)} reads, {len(rounds)} writes read back')


main()
