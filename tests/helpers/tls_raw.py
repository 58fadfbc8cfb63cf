"""STARTTLS by hand, for what no proper client does: tls_raw.py WHERE CA WHAT

  injected    options sent before the answer to STARTTLS must not be answered: not outside TLS, not inside
  forgotten   structured replies agreed on before STARTTLS are not agreed on inside
  versions    TLS 1.2 and 1.3 are spoken, 1.1 is not
  serial      prints the serial number of the server's certificate
  hold        attaches and prints that number; after a line on stdin reads a block, and prints a new connection's number
  cycles N    connects, shakes hands and goes, N times
  crumbs      while a client sends data of an option and of a WRITE a byte a record, others are served (by one thread)
  crooked     handshakes that end, or turn into something else, at each byte

WHERE is as in nbdraw.py.
"""
import os, socket, ssl, struct, sys, threading, warnings

from nbdraw import Client, Closed, READ, WRITE, option, request

ABORT, LIST, STARTTLS, GO, STRUCTURED, SET_CONTEXT = 2, 3, 5, 7, 8, 10
ACK, ERR_INVALID = 1, 0x80000003


def context(ca, low=ssl.TLSVersion.TLSv1_2, high=ssl.TLSVersion.TLSv1_3):
    c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    c.minimum_version, c.maximum_version = low, high
    c.load_verify_locations(ca)
    return c


def connect(where, *options):
    """With these options agreed on, STARTTLS the last."""
    c = Client(where, 60)
    c.greet()
    for number in options + (STARTTLS,):
        c.send(option(number))
        assert c.option_reply()[0] == ACK
    return c


def secure(c, ctx):
    c.s = ctx.wrap_socket(c.s, server_hostname='localhost')
    return c


def start(where, ca):
    return secure(connect(where), context(ca))


def ask(c, number, data=b''):
    c.send(option(number, data))
    return c.option_reply()[0]


def attach(c):
    c.send(option(GO, struct.pack('>IH', 0, 0)))
    while (kind := c.option_reply()[0]) != ACK:
        assert kind == 3, hex(kind)


def serial(where, ca):
    print(start(where, ca).s.getpeercert()['serialNumber'], flush=True)


def injected(where, ca):
    c = Client(where, 60)
    c.greet()
    c.send(option(STARTTLS) + option(LIST))
    try:
        assert c.option_reply() == (ACK, b'')
        print(c.option_reply())
        sys.exit('an option from outside TLS was answered')
    except Closed:
        pass


def forgotten(where, ca):
    c = secure(connect(where, STRUCTURED), context(ca))
    query = struct.pack('>III', 0, 1, 15) + b'base:allocation'
    assert ask(c, SET_CONTEXT, query) == ERR_INVALID, 'structured replies were not forgotten'
    assert ask(c, STRUCTURED) == ACK
    assert ask(c, STARTTLS) == ERR_INVALID
    assert ask(c, ABORT) == ACK


def versions(where, ca):
    V = ssl.TLSVersion
    warnings.simplefilter('ignore', DeprecationWarning)
    for version, works in ((V.TLSv1_1, False), (V.TLSv1_2, True), (V.TLSv1_3, True)):
        ctx = context(ca, version, version)
        ctx.set_ciphers('ALL:@SECLEVEL=0')
        try:
            spoken = secure(connect(where), ctx).s.version()
        except (ssl.SSLError, OSError):
            spoken = None
        assert bool(spoken) == works, (version, spoken)


def hold(where, ca):
    c = start(where, ca)
    attach(c)
    print(c.s.getpeercert()['serialNumber'], flush=True)
    sys.stdin.readline()
    c.send(request(READ, 77, 0, 4096))
    assert c.reply(4096)[:2] == (77, 0)
    serial(where, ca)


def cycles(where, ca, n):
    ctx = context(ca)
    for i in range(int(n)):
        c = secure(connect(where), ctx)
        if i % 3 == 0:
            attach(c)
        if i % 2:
            c.s.unwrap() if i % 4 == 1 and i % 3 else None
        c.s.close()


class Sealed:
    """A client that makes its records first, and sends them when it likes."""
    def __init__(self, where, ca):
        self.c = connect(where)
        self.c.s.settimeout(600)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context(ca).wrap_bio(self.incoming, self.outgoing, server_hostname='localhost')
        self.wait(self.tls.do_handshake)
        self.flush()

    def wait(self, do, *args):
        while True:
            try:
                return do(*args)
            except ssl.SSLWantReadError:
                self.flush()
                data = self.c.s.recv(65536)
                assert data, 'closed'
                self.incoming.write(data)

    def flush(self):
        self.c.s.sendall(self.outgoing.read())

    def send(self, data):
        self.tls.write(data)

    def recv(self, n):
        data = b''
        while len(data) < n:
            more = self.wait(self.tls.read, n - len(data))
            assert more, 'closed'
            data += more
        return data

    def option_reply(self):
        kind, length = struct.unpack('>II', self.recv(20)[12:])
        self.recv(length)
        return kind


def crumbs(where, ca):
    n = 400000
    for write in False, True:
        c = Sealed(where, ca)
        if write:
            c.send(option(GO, struct.pack('>IH', 0, 0)))
            while c.option_reply() != ACK:
                pass
            c.send(request(WRITE, 1, 0, n))
        else:
            c.send(option(0x7777)[:12] + struct.pack('>I', n))
        for i in range(n):
            c.send(b'x')
        answered = []
        def talk():
            c.flush()
            c.recv(16)
            answered.append(True)
        t = threading.Thread(target=talk)
        t.start()
        secure(connect(where), context(ca)).s.close()
        assert not answered, 'nobody was served before the whole of it had been read'
        t.join()
        assert answered


def hello(ca):
    """The first bytes of a TLS client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    o = context(ca).wrap_bio(incoming, outgoing, server_hostname='localhost')
    try:
        o.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def crooked(where, ca):
    whole = hello(ca)
    for i in range(0, len(whole), 7):
        for n, junk in enumerate((b'', b'\0' * 64, os.urandom(64))):
            c = connect(where)
            c.send(whole[:i] + junk)
            if (i + n) % 2:
                c.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            c.s.close()
    attach(start(where, ca))


if __name__ == '__main__':
    globals()[sys.argv[3]](*sys.argv[1:3], *sys.argv[4:])
