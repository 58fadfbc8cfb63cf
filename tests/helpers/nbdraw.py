"""A raw NBD client for tests: says exactly what it is told to say, right or wrong.

  c = Client(sys.argv[1])              a Unix socket's path, or HOST:PORT
  c.go('name')                         handshake with GO; .size, .flags
  c.send(request(WRITE, 7, 0, data=b))
  c.reply()                            (cookie, error); of a READ: c.reply(length) -> (cookie, error, data)
  Extended(sys.argv[1])                the same with extended headers; requests by c.request(...) fit either
  Control(path).call('stats.get')      the control socket
"""
import json, os, socket, struct

READ, WRITE, DISC, FLUSH, TRIM, CACHE, ZEROES = range(7)
FUA, NO_HOLE, PAYLOAD_LEN = 1, 2, 32
EPERM, EIO, ENOMEM, EINVAL, ENOSPC, ENOTSUP = 1, 5, 12, 22, 28, 95


def connect(where, timeout=30):
    if '/' in where:
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(timeout)
        s.connect(where)
    else:
        host, port = where.rsplit(':', 1)
        s = socket.create_connection((host.strip('[]'), int(port)), timeout)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def request(command, cookie, offset=0, length=None, data=b'', flags=0, magic=0x25609513):
    if length is None:
        length = len(data)
    return struct.pack('>IHHQQI', magic, flags, command, cookie, offset, length) + data


def option(number, data=b''):
    return b'IHAVEOPT' + struct.pack('>II', number, len(data)) + data


class Closed(Exception):
    pass


class Client:
    def __init__(self, where, timeout=30):
        self.s = connect(where, timeout)

    def send(self, data):
        self.s.sendall(data)

    def recv(self, n):
        data = bytearray(n)
        got = 0
        while got < n:
            try:
                more = self.s.recv_into(memoryview(data)[got:])
            except ConnectionError:
                more = 0
            if not more:
                raise Closed(f'{got} of {n} bytes')
            got += more
        return bytes(data)

    def greet(self):
        assert self.recv(18) == b'NBDMAGICIHAVEOPT\0\3'
        self.send(b'\0\0\0\3')

    def option_reply(self):
        magic, opt, kind, length = struct.unpack('>QIII', self.recv(20))
        assert magic == 0x3e889045565a9
        return kind, self.recv(length)

    def go(self, name=''):
        self.greet()
        n = name.encode()
        self.send(option(7, struct.pack('>I', len(n)) + n + b'\0\0'))
        while True:
            kind, data = self.option_reply()
            if kind == 3 and data[:2] == b'\0\0':
                self.size, self.flags = struct.unpack('>QH', data[2:])
            if kind == 1:
                return self
            assert kind == 3, (hex(kind), data)

    def request(self, *args, **more):
        return request(*args, **more)

    def reply(self, length=0):
        magic, error, cookie = struct.unpack('>IIQ', self.recv(16))
        assert magic == 0x67446698, hex(magic)
        if length:
            return cookie, error, b'' if error else self.recv(length)
        return cookie, error

    def write(self, offset, data, flags=0):
        self.send(self.request(WRITE, offset, offset, data=data, flags=flags))
        return self.reply()[1]

    def read(self, offset, length):
        self.send(self.request(READ, offset, offset, length))
        return self.reply(length)[2]

    def closed(self):
        """Has the server closed? Waits for it, and drops what still comes."""
        try:
            while self.s.recv(1 << 20):
                pass
        except ConnectionError:
            pass
        return True

    def close(self, reset=False):
        if reset:
            self.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        self.s.close()


class Extended(Client):
    """With extended headers. A reply is put together from its chunks, which must come one after the other."""

    def greet(self):
        super().greet()
        self.send(option(11))
        assert self.option_reply() == (1, b'')

    def request(self, command, cookie, offset=0, length=None, data=b'', flags=0):
        if command == WRITE:
            flags |= PAYLOAD_LEN
        if length is None:
            length = len(data)
        return struct.pack('>IHHQQQ', 0x21e41c71, flags, command, cookie, offset, length) + data

    def reply(self, length=0):
        result, got, done = bytearray(length), 0, 0
        while not done:
            magic, done, kind, cookie, start, size = struct.unpack('>IHHQQQ', self.recv(32))
            assert magic == 0x6e8a278c, hex(magic)
            payload = self.recv(size)
            if kind & 0x8000:
                assert done
                return (cookie, int.from_bytes(payload[:4], 'big')) + ((b'',) if length else ())
            if not kind:
                continue
            assert kind in (1, 2) and length, kind
            at = int.from_bytes(payload[:8], 'big') - start
            data = payload[8:] if kind == 1 else bytes(int.from_bytes(payload[8:], 'big'))
            result[at:at + len(data)] = data
            got += len(data)
        assert got == length
        return (cookie, 0, bytes(result)) if length else (cookie, 0)


class Control:
    def __init__(self, path):
        self.f = connect(path).makefile('rwb')

    def call(self, method, **params):
        line = json.dumps({'jsonrpc': '2.0', 'id': 1, 'method': method, 'params': params})
        self.f.write(line.encode() + b'\n')
        self.f.flush()
        r = json.loads(self.f.readline())
        assert 'result' in r, r
        return r['result']

    def stats(self, export=None):
        return self.call('stats.get', **({'export': export} if export else {}))


def brief(stats):
    """The counters alone."""
    return {k: v for k, v in stats.items() if isinstance(v, int)}


def descriptors(pid):
    return len(os.listdir(f'/proc/{pid}/fd'))
