"""A client that is there until its input ends: nbd_hold.py WHERE CONNECTIONS [write OFFSET]

WHERE is as in nbdraw.py. write: meanwhile each connection writes blocks from OFFSET on, one at a time.
"""
import random, select, sys

from nbdraw import Client, WRITE, request

conns = [Client(sys.argv[1]).go() for _ in range(int(sys.argv[2]))]
if sys.argv[3:4] == ['write']:
    base = int(sys.argv[4])
    blocks = (conns[0].size - base) // 4096
    while True:
        for c in conns:
            c.send(request(WRITE, 1, base + 4096 * random.randrange(blocks), data=bytes(4096)))
        for c in conns:
            assert c.reply()[1] == 0
while True:
    select.select([sys.stdin], [], [])
    if not sys.stdin.buffer.read(4096):
        break
