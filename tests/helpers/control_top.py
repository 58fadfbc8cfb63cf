"""liftctl top on a terminal, with two clients at work: LIFTCTL CONTROL UNIX-SOCKET LIFTD-PID"""
import fcntl, os, pty, re, select, signal, sys, termios, time
from nbdraw import *

liftctl, ctl, path, liftd = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])


class Top:
    def __init__(self, *args, rows=24, columns=120):
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.environ['TERM'] = 'xterm'
            self.resize(rows, columns, 1)
            os.execv(liftctl, [liftctl, '--socket', ctl, 'top', '--interval', '0.2', *args])
        self.out = ''

    def resize(self, rows, columns, fd=None):
        fcntl.ioctl(self.fd if fd is None else fd, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))

    def more(self, timeout):
        if not select.select([self.fd], [], [], timeout)[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.out += data.decode()
        return bool(data)

    def until(self, good):
        """A screen, as lines, for which this holds; what came before is forgotten."""
        end = time.monotonic() + 30
        while True:
            assert time.monotonic() < end, repr(self.out)
            screens = self.out.split('\033[H')
            for s in screens[1:-1]:
                lines = re.sub('\033\\[[0-9;?]*[A-Za-z]', '', s).split('\r\n')
                if good(lines):
                    self.out = '\033[H' + screens[-1]
                    return lines
            self.more(1)

    def quiet(self):
        """Does the terminal show no keys, and give each at once?"""
        return not termios.tcgetattr(self.fd)[3] & (termios.ICANON | termios.ECHO)

    def ended(self):
        while self.more(20):
            pass
        status = os.waitpid(self.pid, 0)[1]
        assert '\033[?25h' in self.out, 'the cursor is hidden'
        os.close(self.fd)
        return status


def rows(lines):
    return [line.split() for line in lines if line.startswith('pid:')]


def looks_right(lines):
    """Both work, the one with three times the weight first."""
    r = rows(lines)
    return len(r) == 2 and r[0][0] == f'pid:{workers[0]}' and r[0][3] == '75.0%' and r[1][3] == '25.0%' and \
        '%' in r[1][2] and int(r[0][4]) > 0


def work():
    c = Client(path).go('disk')
    c.send(b''.join(request(READ, i, i * 1048576, 4096) for i in range(4)))
    while True:
        cookie = c.reply(4096)[0]
        c.send(request(READ, cookie, cookie * 1048576, 4096))


workers = []
for i in range(2):
    child = os.fork()
    if not child:
        try:
            work()
        finally:
            os._exit(1)
    workers.append(child)
try:
    control = Control(ctl)
    while {c['id'] for c in control.call('client.list')} != {f'pid:{w}' for w in workers}:
        time.sleep(0.01)
    control.call('client.set', id=f'pid:{workers[0]}', set={'weight': 300})

    # q; and before that another size, which shows without waiting for the next sample.
    t = Top()
    lines = t.until(looks_right)
    assert lines[0] == 'every 0.2 s; q ends', lines
    assert lines[2].split()[:4] == ['CLIENT', 'EXPORT', 'SHARE', 'ENTITLED'], lines
    assert t.quiet()
    t.resize(4, 40)
    lines = t.until(lambda lines: len(lines) == 4 and max(map(len, lines)) == 40)
    assert rows(lines)[0][0] == f'pid:{workers[0]}', lines
    t.resize(24, 120)
    t.until(looks_right)
    os.write(t.fd, b'xq')
    while t.more(0.1):
        pass
    assert t.ended() == 0

    # Ctrl-C, as a key; signals; Ctrl-Z and back.
    for how in 'key', signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
        t = Top('disk')
        slave = os.open(os.readlink(f'/proc/{t.pid}/fd/0'), os.O_RDWR | os.O_NOCTTY)
        t.until(looks_right)
        assert t.quiet()
        if how == signal.SIGTERM:
            os.kill(t.pid, signal.SIGTSTP)
            assert os.WIFSTOPPED(os.waitpid(t.pid, os.WUNTRACED)[1])
            assert not t.quiet()
            os.kill(t.pid, signal.SIGCONT)
            t.until(looks_right)
            t.until(looks_right)
            assert t.quiet()
        if how == 'key':
            os.write(t.fd, b'\x03')
        else:
            os.kill(t.pid, how)
        end = time.monotonic() + 20
        while t.quiet():
            assert time.monotonic() < end, how
            t.more(0.01)
        os.close(slave)
        assert t.ended() == (0 if how in ('key', signal.SIGINT) else how), how

    # So many, and then it ends by itself.
    t = Top('-n', '2')
    assert t.ended() == 0
    assert t.out.count('CLIENT') == 2, t.out

    # The server goes away.
    t = Top()
    t.until(looks_right)
    os.kill(liftd, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(t.ended()) == 1
    assert 'liftctl: ' in t.out, t.out
finally:
    for w in workers:
        os.kill(w, signal.SIGKILL)
