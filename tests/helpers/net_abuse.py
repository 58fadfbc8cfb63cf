"""What net-abuse.sh sends: UNIX-SOCKET HOST:PORT CONTROL-SOCKET PID [sanitized] [tls=CA-CERTIFICATE: all of it inside TLS]"""
import os, random, sys, threading, time
from nbdraw import *
from nbdtls import tls_client

unix, tcp, ctl, pid = sys.argv[1:5]
sanitized = 'sanitized' in sys.argv[5:]
ca = next((a[4:] for a in sys.argv[5:] if a.startswith('tls=')), None)
random.seed(5)
control = Control(ctl)


if ca:
    Client = tls_client(ca)

# ---- the neighbour: whatever happens to others, its data is right and it is never cut off ----
stop = threading.Event()
trouble = []
rounds = 0

def neighbour():
    global rounds
    try:
        c = Client(unix).go('disk')
        while not stop.is_set():
            data = bytes([rounds & 255]) * 4096
            at = 32 << 20 | (rounds % 64) << 12
            assert c.write(at, data) == 0
            assert c.read(at, 4096) == data
            rounds += 1
        c.send(request(DISC, 0))
        assert c.closed()
    except Exception as e:
        trouble.append(repr(e))

def settled():
    """All that the bad clients held is given back."""
    end = time.monotonic() + 20
    while True:
        s = control.stats()
        # the neighbour itself holds one request at a time
        if s['connections'] == 1 and s['requests_held'] <= 1 and s['bytes_held'] <= 4096 and \
           s['requests_received'] == s['requests_answered'] + s['requests_withdrawn'] + s['requests_held']:
            return
        assert time.monotonic() < end, brief(s)
        time.sleep(0.02)

thread = threading.Thread(target=neighbour, daemon=True)
thread.start()
settled()
base = descriptors(pid)
both = (unix, tcp)

def check(what):
    settled()
    assert descriptors(pid) == base, (what, descriptors(pid), base)
    assert not trouble, (what, trouble)
    print('ok', what)

def cut(n, reset):
    """Says n bytes of a handshake and goes."""
    c = Client(both[n % 2])
    c.recv(18)
    info = b'\0\0\0\4disk\0\1\0\3'
    c.send((b'\0\0\0\3' + option(3) + option(99, b'what') + option(6, info) + option(7, info) * 4)[:n])
    c.close(reset)

# ---- the handshake ----
for n in range(230):                                # cut off anywhere
    cut(n, n & 2)
    cut(n + 1, n & 2)
check('handshakes cut off')

for where in both:
    for i in range(30):                             # noise
        c = Client(where)
        c.recv(18)
        try:
            c.send(random.randbytes(random.randrange(1, 3000)))
        except ConnectionError:
            pass
        c.close(i % 2 == 0)
check('random bytes in a handshake')

c = Client(unix)
c.greet()
c.send(b'IHAVEOPT' + struct.pack('>II', 3, 0xffffffff))  # 4 GiB of option
assert c.closed()
c.close()
check('an absurd option')

for where in both:                                  # silent, or trickling a handshake
    c = Client(where)
    c.recv(18)
    began = time.monotonic()
    assert c.closed()
    assert 0.8 < time.monotonic() - began < 8
    c.close()
c = Client(unix)
c.recv(18)
began = time.monotonic()
try:
    for byte in b'\0\0\0\3' + option(7, b'\0' * 200):
        c.send(bytes([byte]))
        time.sleep(0.05)
    assert False, 'a trickled handshake was not stopped'
except ConnectionError:
    assert time.monotonic() - began > 0.8
c.close()
check('handshake_timeout')

if not ca:                                          # half-closed; inside TLS: below
    info = b'\0\0\0\4disk\0\0'
    for where in both:
        for said in b'', b'\0\0', option(3)[:7], option(3), option(3) + option(7, info)[:21], option(7, info):
            c = Client(where)
            c.recv(18)
            c.send(b'\0\0\0\3' + said)
            c.s.shutdown(socket.SHUT_WR)
            assert c.closed()
            c.close()
    check('half-closed in a handshake')

for where in both:                                  # asks and asks, and reads nothing
    c = Client(where)
    try:
        c.send(b'\0\0\0\3')
        while True:                                 # until nobody takes it any more
            c.send(option(3) * 100)
    except ConnectionError:
        pass
    try:
        assert c.closed()
    finally:
        c.close()
check('answers to options are not read')

# ---- requests ----
for where in both:                                  # every byte by itself, and all is right
    c = Client(where)
    c.recv(18)
    for byte in b'\0\0\0\3' + option(7, b'\0\0\0\4disk\0\0'):
        c.send(bytes([byte]))
    while (kind := c.option_reply()[0]) != 1:
        assert kind == 3, hex(kind)
    for byte in request(WRITE, 1, 8 << 20, data=b'slow' * 50):
        c.send(bytes([byte]))
    assert c.reply() == (1, 0)
    for byte in request(READ, 2, 8 << 20, 200):
        c.send(bytes([byte]))
    assert c.reply(200) == (2, 0, b'slow' * 50)
    for byte in request(DISC, 3):
        c.send(bytes([byte]))
    assert c.closed()
    c.close()
check('byte by byte')

for where in both:
    for i in range(30):
        c = Client(where).go('disk')
        try:
            c.send(random.randbytes(random.randrange(1, 100000)))
        except ConnectionError:
            pass
        c.close(i % 2 == 0)
    c = Client(where).go('disk')                    # out of step after a good request
    c.send(request(READ, 1, 0, 512) + request(READ, 2, 0, 512, magic=0x25609514) + request(READ, 3, 0, 512))
    assert c.closed()
    c.close()
check('random bytes as requests')

whole = request(WRITE, 9, 4096, data=b'w' * 70000)
mixed = request(READ, 1, 0, 4096) + request(WRITE, 2, 8192, data=b'mixd') + request(FLUSH, 3) + request(TRIM, 4, 0, 512)

def cut_requests(n, data, reset, where=None):
    c = Client(where or both[n % 2]).go('disk')
    c.send(data[:n])
    c.close(reset)

for n in *range(len(mixed) + 1), 4096, 65536, 70027, 70028: # cut off, or reset, anywhere
    for where in both:
        for reset in (False, True):
            cut_requests(n, whole if n > len(mixed) or n % 3 == 0 else mixed, reset, where)
check('requests cut off')

def half_closed_tls():
    """The end of the socket without the end of TLS; the end of TLS; and what is no TLS at all."""
    for where in both:
        for asked in b'', request(READ, 1, 0, 4096) * 3, whole[:1000]:
            c = Client(where).go('disk')
            c.send(asked)
            end = socket.socket(fileno=os.dup(c.s.fileno()))
            end.shutdown(socket.SHUT_WR)
            assert c.closed()
            c.close()
            end.close()
            c = Client(where).go('disk')
            c.send(asked)
            end = socket.socket(fileno=os.dup(c.s.fileno()))
            end.sendall(random.randbytes(300))
            assert c.closed()
            c.close()
            end.close()
        c = Client(where).go('disk')
        assert c.read(0, 512)
        c.s = c.s.unwrap()
        assert c.closed()
        c.close()


# Half-closed. On a Unix socket what came whole is answered; on TCP it looks like a client that was killed.
asked = b''.join(request(READ, i, i * 4096, 4096) for i in range(50)) + whole[:1000]
if ca:
    half_closed_tls()
else:
    c = Client(unix).go('disk')
    c.send(asked)
    c.s.shutdown(socket.SHUT_WR)
    got = sorted(c.reply(4096)[0] for i in range(50))
    assert got == list(range(50)), got
    assert c.closed()
    c.close()
    c = Client(tcp).go('disk')
    c.send(asked)
    c.s.shutdown(socket.SHUT_WR)
    assert c.closed()
    c.close()
check('half-closed')

for where in both:                                  # a payload that does not come
    c = Client(where).go('disk')
    c.send(request(WRITE, 1, 0, data=b'z' * (1 << 20))[:500000])
    began = time.monotonic()
    assert c.closed()
    assert 0.8 < time.monotonic() - began < 8
    c.close()
    c = Client(where).go('disk')                    # or trickles: counted from its header
    c.send(request(WRITE, 1, 0, data=b'')[:24] + struct.pack('>I', 1 << 20))
    began = time.monotonic()
    try:
        while time.monotonic() - began < 8:
            c.send(b'zz')
            time.sleep(0.05)
        assert False, 'a trickled payload was not stopped'
    except ConnectionError:
        assert time.monotonic() - began > 0.8
    c.close()
    c = Client(where).go('disk')                    # likewise of a request that is refused
    c.send(request(WRITE, 1, 1 << 40, 1 << 30))
    assert c.closed()
    c.close()
check('stall_timeout of payloads')

# Replies are not read: the client asks and asks, until it is thrown out.
for where in both:
    for asked in request(READ, 1, 0, 1 << 20), request(FLUSH, 1, 0, 0) * 100, request(TRIM, 1, 0, 0) * 1000:
        c = Client(where, 60).go('disk')
        most = sent = 0
        try:
            while True:
                c.send(asked)
                sent += 1
                if sent % 20 == 0:
                    most = max(most, control.stats()['requests_held'])
        except ConnectionError:
            pass
        c.close()
        assert most < 1000, f'{most} unread replies'
check('stall_timeout of replies')

for where in both:                                  # gone with replies under way
    for reset in (False, True):
        for i in range(10):
            c = Client(where).go('disk')
            c.send(b''.join(request(READ, k, k << 16, 1 << 18) for k in range(100)))
            if i % 2:
                c.recv(100000)
            c.close(reset)
check('gone while answered')

for n, where in enumerate(both):                    # said DISC and went: its writes are carried out
    base_at = 48 << 20 | n << 20
    c = Client(where).go('disk')
    c.send(b''.join(request(WRITE, k, base_at | k << 12, data=bytes([k]) * 4096) for k in range(100)) +
           request(DISC, 0))
    if where == tcp:                                # there, going with unread replies would be a reset
        assert sorted(c.reply()[0] for k in range(100)) == list(range(100))
        assert c.closed()
    c.close()
    settled()
    c = Client(unix).go('disk')
    for k in range(100):
        assert c.read(base_at | k << 12, 4096) == bytes([k]) * 4096, k
    c.send(request(DISC, 0))
    assert c.closed()
    c.close()
check('DISC, and away')

for i in range(1000):                               # come and gone
    c = Client(both[i % 2])
    if i % 3:
        c.go('disk')
    c.close(i % 5 == 0)
check('a thousand visits')

# All of this does not add up.
def memory():
    with open(f'/proc/{pid}/status') as f:
        return next(int(line.split()[1]) for line in f if line.startswith('VmRSS'))

sizes = []
for i in range(5):
    for n in range(100):
        cut(n, n & 2)
        cut_requests(70000 - n, whole, n & 2)
    settled()
    sizes.append(memory())
assert sanitized or sizes[-1] <= sizes[0] + 1024, f'{sizes} KiB of memory'
check(f'memory: {sizes} KiB')

stop.set()
thread.join()
assert not trouble and rounds > 50, (trouble, rounds)
