#!/bin/bash
# Abuse of the control socket: whatever is written to it, there is a clear answer or the connection ends, and the server
# goes on serving, with no descriptor and no memory lost.
. "$(dirname "$0")/functions.sh"
requires python3 qemu-io "$BUILD/liftctl"

make_image "$tmp/disk.img" 4M
start_liftd "$tmp/disk.img"

descriptors()
{
	ls "/proc/$LIFTD_PID/fd" | wc -l
}

serves()
{
	qemu-io -f raw -c 'write -P 7 0 64k' -c 'read -P 7 0 64k' "$URI" >/dev/null
	[[ $(ctl --json info) == *"\"pid\":$LIFTD_PID,"* ]]
}

serves
wait_for '[[ $(ctl --json clients) == "[]" ]]' 20
before=$(descriptors)

cat >"$tmp/abuse.py" <<'EOP'
import json, random, resource, socket, struct, sys

path = sys.argv[1]
INFO = b'{"jsonrpc":"2.0","id":%d,"method":"server.info"}\n'

def connect():
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(30)
    s.connect(path)
    return s

def send(s, data):
    """What the server takes of it: it may close, or answer, before it has read all."""
    try:
        s.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        pass

def line(s, buf):
    """The next answer, or None when the server has closed."""
    while b'\n' not in buf:
        try:
            more = s.recv(65536)
        except ConnectionResetError:
            return None
        if not more:
            return None
        buf += more
    at = buf.index(b'\n')
    out = json.loads(bytes(buf[:at]))
    del buf[:at + 1]
    return out

def answers(data):
    """Everything that is answered to data, after which nothing is sent."""
    s, buf, out = connect(), bytearray(), []
    send(s, data)
    try:
        s.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    while (a := line(s, buf)) is not None:
        out.append(a)
    s.close()
    return out

def alive():
    assert answers(INFO % 7)[0]['result']['version']

def is_error(data, code, n=1):
    got = answers(data)
    assert len(got) >= n, (data[:80], got)
    for a in got[:n]:
        assert a['error']['code'] == code and a['error']['message'] and a['jsonrpc'] == '2.0', (data[:80], a)
    alive()

# Garbage: one answer a line.
is_error(b'garbage\n', -32700)
is_error(b'\n', -32700)
is_error(b'GET / HTTP/1.1\r\nHost: x\r\n\r\n', -32700, 3)
is_error(b'\0\0\0\0\n', -32700)
is_error(b'\xff\xfe\xfd\n', -32700)
is_error(b'NBDMAGICIHAVEOPT' + struct.pack('>IQ', 3, 0) + b'\n', -32700)
is_error(b'[' * 1000 + b'\n', -32700)
is_error(b'{"a":' * 5000 + b'\n', -32700)
is_error(b'[]\n', -32600)
is_error(b'[' + (INFO % 1).strip() + b']\n', -32600)
is_error(b'{"jsonrpc":"2.0","id":1,"method":5}\n', -32600)
is_error(b'{"jsonrpc":"2.0","id":1,"method":"export.frobnicate"}\n', -32601)
is_error(b'{"jsonrpc":"2.0","id":1,"method":"export.get","params":{"name":5}}\n', -32602)
is_error(b'{"jsonrpc":"2.0","id":1,"method":"export.get","params":["disk.img"]}\n', -32602)
is_error(b'{"jsonrpc":"2.0","id":1,"method":"export.set","params":{"name":"disk.img","set":{"nr_requests":"many"}}}\n', -32602)
is_error(b'{"jsonrpc":"2.0","id":1,"method":"export.get","params":{"name":"none"}}\n', -32001)
rng = random.Random(1)
for _ in range(50):
    is_error(bytes(rng.randrange(256) for _ in range(rng.randrange(1, 4000))).replace(b'\n', b'') + b'\n', -32700)

# Lines of 10 MB, and of just more than the limit: an error; of just the limit: an answer like any other.
for data in (b'x' * 10_000_000 + b'\n', b'{"jsonrpc":"2.0","id":"' + b'x' * 10_000_000 + b'","method":"server.info"}\n', b' ' * (1 << 20) + b' \n'):
    is_error(data, -32700)
is_error(b'x' * 10_000_000, -32700)
long = (INFO % 1).strip()
long += b' ' * ((1 << 20) - len(long)) + b'\n'
assert 'result' in answers(long)[0]

# Half a line, then nothing, or a reset: no answer, no harm.
for data in (b'', b'{', b'{"jsonrpc":"2.0","id":1,"method":"server.shut', b'{"jsonrpc":"2.0","id":1,"method":"server.shutdown"}'):
    assert all('error' in a for a in answers(data)), data
    s = connect()
    s.sendall(data)
    s.close()
    alive()

# A line in single bytes; many requests at once; requests whose answers nobody reads.
s, buf = connect(), bytearray()
for i in range(len(INFO % 3)):
    s.sendall((INFO % 3)[i:i + 1])
assert line(s, buf)['id'] == 3
s.sendall(b''.join(INFO % i for i in range(1000)))
assert [line(s, buf)['id'] for _ in range(1000)] == list(range(1000))
s.sendall(b'{"jsonrpc":"2.0","method":"server.info"}\n' + INFO % 5)
assert line(s, buf)['id'] == 5
s.close()
s = connect()
s.setblocking(False)
flood, sent = b'{"jsonrpc":"2.0","id":1,"method":"stats.get"}\n' * 1000, 0
try:
    while sent < 64 << 20:
        sent += s.send(flood)
except BlockingIOError:
    pass
except (BrokenPipeError, ConnectionResetError):
    pass
assert sent < 64 << 20, 'the server takes requests without end whose answers nobody reads'
alive()
s.close()

# Many connections, most of which say nothing.
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
idle = []
for i in range(min(300, soft - 50)):
    try:
        idle.append(connect())
    except OSError:
        break
for s in idle:
    s.close()
for i in range(300):
    s = connect()
    send(s, b'{"jsonrpc":"2.0","id":1,"method":"export.list"}\n' if i % 2 else b'{"jsonrpc"')
    s.close()
alive()
EOP
python3 "$tmp/abuse.py" "$CTL"
serves
wait_for '[[ $(descriptors) -le $before ]]' 20
[[ $(ctl get disk.img nr_requests) -eq 128 ]]
