"""Requests that are illegal but well formed: refused, their payload consumed, the connection still in step. And the largest
that are legal. SOCKET..."""
import sys
from nbdraw import *

for where in sys.argv[1:]:
    c = Client(where).go('disk')
    size = c.size
    big = 40 << 20
    c.send(request(WRITE, 1, 0, data=b'b' * big) + request(READ, 2, 0, 33 << 20) + request(READ, 3, size - 1, 2) +
           request(WRITE, 4, size - 1, data=b'xx') + request(READ, 5, 0xffffffffffffffff, 1) +
           request(99, 6, 0, 5) + request(READ, 7, 0, 1, flags=NO_HOLE) + request(FLUSH, 8, 5, 5) +
           request(TRIM, 9, 0, 0) + request(READ, 10, 0, 0) + request(WRITE, 11, 0, 0))
    errors = dict(c.reply() for i in range(11))
    assert errors == {1: EINVAL, 2: EINVAL, 3: EINVAL, 4: ENOSPC, 5: EINVAL, 6: EINVAL, 7: EINVAL, 8: EINVAL, 9: 0,
                      10: 0, 11: 0}, errors
    assert len(c.read(0, 32 << 20)) == 32 << 20     # the largest that is legal
    assert c.write(0, b'm' * (32 << 20)) == 0
    for at in range(0, 32 << 20, 8 << 20):
        assert c.read(at + 5, 4096) == b'm' * 4096
    c.close()
