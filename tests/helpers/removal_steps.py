"""An export is removed, step by step: a client that does not read its answers keeps it going.

  removal_steps.py SOCKET CONTROL IMAGE     exports `gone`, of IMAGE, `stays` and, as a third, `also`
"""
import sys, threading, time
from nbdraw import *

ESHUTDOWN = 108
ERR_UNKNOWN, ERR_SHUTDOWN = 0x80000006, 0x80000007
where, control, image = sys.argv[1:]
ctl = Control(control)


def ask(number, name):
    """INFO (6) or GO (7): the final reply's type and data."""
    c = Client(where)
    c.greet()
    n = name.encode()
    c.send(option(number, struct.pack('>I', len(n)) + n + b'\0\0'))
    kind = 3
    while kind == 3:
        kind, data = c.option_reply()
    return kind, data


def listed():
    c = Client(where)
    c.greet()
    c.send(option(3))
    names = set()
    while True:
        kind, data = c.option_reply()
        if kind != 2:
            return names
        names.add(data[4:4 + int.from_bytes(data[:4], 'big')].decode())


def wait_for(what):
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end, 'it does not come'
        time.sleep(0.005)


other, partial = Client(where).go('gone'), Client(where).go('gone')
young = Client(where)                             # between options
young.greet()
n, length = 600, 65536
hog = Client(where).go('gone')
assert other.write(0, b'a' * 4096) == 0
partial.send(request(WRITE, 1, 8192, data=b'p' * 4096)[:2000])
# More than the replies that may be unsent: the last ones have been read and must wait.
hog.send(b''.join(request(READ, i, 0, length) for i in range(n)))
wait_for(lambda: ctl.stats('gone')['requests_received'] >= 3 + 250)

answers = []


def remove():
    answers.append(Control(control).call('export.remove', name='gone'))


removers = [threading.Thread(target=remove) for i in range(2)]
removers[0].start()
wait_for(lambda: ask(7, 'gone')[0] == ERR_SHUTDOWN)
removers[1].start()                               # waits for the same
kind, text = ask(6, 'gone')
assert kind == ERR_SHUTDOWN and text == b"export 'gone' is being removed", (kind, text)
assert listed() == {'stays', 'also'}, listed()
c = Client(where)
c.greet()
c.send(option(1, b'gone'))
assert c.closed()
young.send(option(7, struct.pack('>I', 4) + b'gone' + b'\0\0'))
assert young.option_reply()[0] == ERR_SHUTDOWN
assert ask(6, '')[0] == ERR_UNKNOWN               # two are left: none is the default
assert {e['name'] for e in ctl.call('export.list')} == {'stays', 'also'}
assert set(ctl.stats()['exports']) == {'stays', 'also'}

# Each loop refuses as soon as it knows.
wait_for(lambda: other.write(4096, b'b' * 4096) == ESHUTDOWN)
other.send(request(READ, 1, 0, 4096) + request(FLUSH, 2, 0, 0) + request(99, 3, 0, 0) + request(READ, 4, 0, 512))
got = dict(other.reply() for i in range(4))
assert got == {1: ESHUTDOWN, 2: ESHUTDOWN, 3: EINVAL, 4: ESHUTDOWN}, got
partial.send(request(WRITE, 1, 8192, data=b'p' * 4096)[2000:])
assert partial.reply() == (1, ESHUTDOWN)
assert not answers

# Another may go meanwhile, and be the last but one: then the last one is the default.
assert Control(control).call('export.remove', name='also') == {}
assert ask(6, '')[0] == 1

# All that it had asked for is answered, and then everybody is let go.
for i in range(n):
    cookie, error, data = hog.reply(length)
    assert not error and len(data) == length, (cookie, error)
assert hog.closed() and other.closed() and partial.closed()
for r in removers:
    r.join()
assert answers == [{}, {}], answers
assert ask(7, 'gone')[0] == ERR_UNKNOWN
with open(image, 'rb') as f:
    data = f.read(16384)
assert data[8192:] == bytes(8192), 'what was refused is in the file'
assert data[:4096] == b'a' * 4096
