#!/usr/bin/env python3
"""Who may attach what, said raw: options one by one, flags, seats that come free.  access.py UNIX-SOCKET HOST:PORT CONTROL"""
import struct, sys, threading, time
from nbdraw import *

unix, tcp, ctl = sys.argv[1:]
control = Control(ctl)
INFO, GO, LIST, EXPORT_NAME = 6, 7, 3, 1
ACK, SERVER, POLICY = 1, 2, (1 << 31) + 2
READ_ONLY, MULTI_CONN = 2, 256


def setting(export='disk', **values):
    control.call('export.set', name=export, set=values)


def ask(c, number, name='disk'):
    """INFO or GO: (what it ended with, its text, flags)."""
    c.send(option(number, struct.pack('>I', len(name)) + name.encode() + b'\0\0'))
    flags = None
    while True:
        kind, data = c.option_reply()
        if kind == 3 and data[:2] == b'\0\0':
            flags = struct.unpack('>QH', data[2:])[1]
        elif kind != 3:
            return kind, data.decode(), flags


def attach(where):
    """A connection, or why there is none."""
    c = Client(where)
    c.greet()
    kind, text, c.flags = ask(c, GO)
    if kind == ACK:
        return c
    assert kind == POLICY, hex(kind)
    c.close()
    return text


def attached(where):
    c = attach(where)
    assert isinstance(c, Client), c
    return c


def refused(where, *words):
    text = attach(where)
    assert isinstance(text, str), 'it was let in'
    for word in words:
        assert word in text, (word, text)


def names(where):
    c = Client(where)
    c.greet()
    c.send(option(LIST))
    found = []
    while True:
        kind, data = c.option_reply()
        if kind == ACK:
            c.close()
            return found
        assert kind == SERVER
        found.append(data[4:4 + struct.unpack('>I', data[:4])[0]].decode())


def writers():
    return {c['id']: c['writer'] for c in control.call('client.list', export='disk')}


def rules():
    both = ['disk', 'other']
    assert names(unix) == names(tcp) == both
    setting(access='unix rw')
    assert names(unix) == both and names(tcp) == ['other']
    refused(tcp, "export 'disk': 127.0.0.1 is not permitted", 'no entry of its access list matches')
    c = Client(tcp)
    c.greet()
    # A refusal ends the option, not the connection; INFO and GO say the same.
    for number in (INFO, GO):
        kind, text, _ = ask(c, number)
        assert kind == POLICY and 'is not permitted' in text, (kind, text)
    assert ask(c, INFO, 'other')[0] == ACK
    c.send(option(EXPORT_NAME, b'disk'))
    assert c.closed()
    # Read-only by rule: the client is told, and refused if it writes all the same.
    setting(access='ip:127.0.0.0/8 ro, ip:127.0.0.1 ro, unix rw')
    c = attached(tcp)
    assert c.flags & READ_ONLY and c.flags & MULTI_CONN, c.flags
    assert c.write(0, b'x' * 512) == EPERM
    c.send(request(TRIM, 1, 0, 512))
    assert c.reply()[1] == EPERM
    c.send(request(ZEROES, 2, 0, 512))
    assert c.reply()[1] == EPERM
    assert len(c.read(0, 512)) == 512
    other = attached(unix)
    assert not other.flags & READ_ONLY
    assert other.write(0, b'y' * 512) == 0
    # Who is there stays, as it was.
    setting(access='ip:127.0.0.1 no')
    assert other.write(0, b'z' * 512) == 0
    assert c.read(0, 512) == b'z' * 512
    refused(tcp, "its access list has 'ip:127.0.0.1 no'")
    refused(unix, 'uid ', 'no entry')
    c.close()
    other.close()
    setting(access='')
    assert names(tcp) == both


def one_writer():
    setting(writers='one')
    c = attached(unix)
    assert not c.flags & (READ_ONLY | MULTI_CONN), c.flags
    holder = [i for i, w in writers().items() if w]
    assert len(holder) == 1
    refused(tcp, f"export 'disk': 127.0.0.1 cannot attach: {holder[0]} writes to it", 'writers is one')
    refused(unix, f'{holder[0]} writes to it')
    # Asking takes no seat.
    asking = Client(tcp)
    asking.greet()
    assert ask(asking, INFO)[0] == ACK
    setting(access='ip:127.0.0.1 ro, unix rw')
    reader = attached(tcp)
    assert reader.flags & READ_ONLY and reader.flags & MULTI_CONN
    assert writers() == {holder[0]: True, 'ip:127.0.0.1': False}
    c.close()
    setting(access='')
    c = attached(tcp)
    refused(unix, 'ip:127.0.0.1 writes to it')
    reader.close()
    c.close()
    # A client that chose the export and then says nothing has the seat; it is free when that one goes.
    setting(writers='identity')
    c, more = attached(tcp), attached(tcp)
    assert c.flags & MULTI_CONN
    refused(unix, 'writers is identity')
    more.close()
    refused(unix, 'writers is identity')
    c.close()
    attached(unix).close()
    setting(writers='many')


def end_arrived(port):
    """The end of what was sent from this port has reached the other end, past what was still to be sent: no FIN_WAIT1."""
    while any(l.split()[1].endswith(f':{port:04X}') and l.split()[3] == '04' for l in list(open('/proc/net/tcp'))[1:]):
        time.sleep(0.01)


def free_at_once():
    """However a writer goes: the next one, on whatever loop, is let in."""
    setting(writers='one')
    for i in range(100):
        for where in unix, tcp:
            c = attached(where)
            port = c.s.getsockname()[1] if where == tcp else None
            if i % 5 == 0:
                c.close()
            elif i % 5 == 1:
                c.close(reset=True)
            elif i % 5 == 2:
                c.send(request(DISC, 1))
                c.close()
            elif i % 5 == 3:
                c.send(b''.join(request(WRITE, n, 4096 * n, data=b'w' * 4096) for n in range(16)))
                c.close()
            else:
                c.send(request(WRITE, 1, 0, data=b'w' * 4096)[:100])
                c.close()
            if port:
                end_arrived(port)
    # Several at once: one gets it, and another one after it.
    wins, text = [], []

    def compete():
        while len(wins) < 50:
            c = attach(tcp)
            if isinstance(c, Client):
                wins.append(c)
                assert c.write(0, b'c' * 512) == 0
                c.close()
            else:
                text.append(c)

    threads = [threading.Thread(target=compete) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert all('ip:127.0.0.1 writes to it' in t for t in text), set(text)
    setting(writers='many')


def limits():
    setting(export_connections=3, client_connections=2)
    a, b = attached(tcp), attached(tcp)
    refused(tcp, 'ip:127.0.0.1 has 2 connections, and client_connections is 2')
    c = attached(unix)
    refused(unix, 'it has 3 connections, and export_connections is 3')
    refused(tcp, 'it has 3 connections')
    a.close()
    a = attached(tcp)
    for n in range(50):
        a.close(reset=n % 2)
        a = attached(tcp)
        c.close()
        c = attached(unix)
    [x.close() for x in (a, b, c)]
    setting(export_connections=0, client_connections=0)
    [c.close() for c in [attached(tcp) for _ in range(5)]]


rules()
one_writer()
free_at_once()
limits()
