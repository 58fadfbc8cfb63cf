"""An error of a failed sync that was sent but not read: CONTROL UNIX-SOCKET HOST:PORT. Every third sync of the server fails."""
import select, sys, time
from nbdraw import *

ctl = Control(sys.argv[1])
syncs = 0


def flush(c, cookie=0):
    """Returns the error, and whether the sync that it caused was to fail."""
    global syncs
    syncs += 1
    c.send(request(FLUSH, cookie))
    return c.reply()[1], syncs % 3 == 0


def until_next_fails(c):
    while syncs % 3 != 2:
        assert flush(c) == (0, False)


def unread(c):
    """A FLUSH that fails; its reply has come, and stays unread."""
    global syncs
    syncs += 1
    assert syncs % 3 == 0
    c.send(request(FLUSH, 9))
    assert select.select([c.s], [], [], 20)[0]


def until_closed():
    """The server has seen the end of the last one."""
    end = time.monotonic() + 20
    while ctl.call('export.list')[0]['connections']:
        assert time.monotonic() < end
        time.sleep(0.002)


def client():
    until_closed()
    return Client(where).go('disk')


for where in sys.argv[2:]:
    # Read: the client knows, and its next connection begins anew.
    for disc in False, True:
        c = client()
        until_next_fails(c)
        assert c.write(0, b'a' * 512) == 0
        assert flush(c) == (EIO, True)
        if disc:
            c.send(request(DISC, 1))
            assert c.closed()
        c.close()
        c = client()
        assert flush(c) == (0, False), (where, disc)
        c.close()

    # Not read, however it ended: told again, once.
    # On TCP nobody can know, after DISC, or if this end did not close.
    for how in ['close', 'reset'] + ['disc', 'client.disconnect', 'client.drain'] * ('/' in where):
        c = client()
        until_next_fails(c)
        assert c.write(0, b'b' * 512) == 0
        unread(c)
        if how == 'disc':
            c.send(request(DISC, 1))
        if 'client' in how:
            ctl.call(how, id=ctl.call('client.list')[0]['id'])
            until_closed()
        c.close(reset=how == 'reset')
        c = client()
        assert flush(c) == (EIO, False), (where, how)
        assert flush(c) == (0, False), (where, how)
        c.close()

# The last one is for the server to tell, when it is stopped.
c = client()
until_next_fails(c)
assert c.write(0, b'c' * 512) == 0
unread(c)
c.close()
