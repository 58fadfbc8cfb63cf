"""A server that is told to stop: SIGNAL or control, UNIX-SOCKET CONTROL-SOCKET PID"""
import os, signal, sys, time
from nbdraw import *

how, path, ctl, pid = sys.argv[1], sys.argv[2], Control(sys.argv[3]), int(sys.argv[4])

idle = Client(path).go('disk')
young = Client(path)
young.recv(18)
partial = Client(path).go('disk')
partial.send(request(WRITE, 1, 0, data=b'p' * 4096)[:1000])
busy = Client(path).go('disk')
n = 30
busy.send(b''.join(request(WRITE, i, i * 8192, data=bytes([i + 1]) * 4096) for i in range(n)) +
          request(FLUSH, n, 0, 0) + request(READ, n + 1, 0, 4096))
end = time.monotonic() + 20
while ctl.stats()['requests_received'] < n + 3:   # and the one whose payload is incomplete
    assert time.monotonic() < end, brief(ctl.stats())
    time.sleep(0.005)

if how == 'control':
    assert ctl.call('server.shutdown') == {}
else:
    os.kill(pid, getattr(signal, how))

# Who asked for nothing is let go at once; what was received is answered, all of it, without an error.
assert idle.closed() and young.closed() and partial.closed()
answers = dict(busy.reply() if i <= n else busy.reply(4096)[:2] for i in range(1))
while len(answers) < n + 2:
    magic, error, cookie = struct.unpack('>IIQ', busy.recv(16))
    assert magic == 0x67446698
    answers[cookie] = error
    if cookie == n + 1:
        busy.recv(4096)
assert set(answers) == set(range(n + 2)) and not any(answers.values()), answers
assert busy.closed()
try:
    Client(path)
    assert False, 'a connection was accepted'
except (ConnectionError, FileNotFoundError):
    pass
