"""A client that asks for much and reads nothing, for as long as it lives:  removal_hog.py SOCKET CONTROL EXPORT FILE

FILE is made when the server has all that it takes."""
import signal, sys
from nbdraw import *

where, control, name, sign = sys.argv[1:]
c = Client(where).go(name)
c.send(b''.join(request(READ, i, 0, 65536) for i in range(600)))
ctl = Control(control)
while ctl.stats(name)['requests_received'] < 250:
    signal.sigtimedwait([], 0.01)
open(sign, 'w').close()
signal.pause()
