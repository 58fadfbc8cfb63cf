"""Waits until a server without connections holds nothing, and checks its books: CONTROL-SOCKET [CONNECTIONS-TOTAL]"""
import sys, time
from nbdraw import *

ctl = Control(sys.argv[1])
end = time.monotonic() + 20
while True:
    s = ctl.stats()
    if s['connections'] == s['requests_held'] == s['bytes_held'] == 0:
        break
    assert time.monotonic() < end, brief(s)
    time.sleep(0.02)
assert s['requests_received'] == s['requests_answered'] + s['requests_withdrawn'], brief(s)
assert len(sys.argv) < 3 or s['connections_total'] >= int(sys.argv[2]), brief(s)
print(brief(s))
