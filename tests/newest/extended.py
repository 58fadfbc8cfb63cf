"""Extended headers as libnbd speaks them: extended.py URI FILE

The export is FILE: sparse, and of 16 GiB or more. Requests of the whole export at once, while a second connection reads
and writes. Prints how many requests that one had meanwhile.
"""
import os, sys, time

import nbd

uri, path = sys.argv[1:]
MIB, GIB = 1 << 20, 1 << 30
ALLOCATION = nbd.CONTEXT_BASE_ALLOCATION
HOLE = nbd.STATE_HOLE | nbd.STATE_ZERO


def connect():
    h = nbd.NBD()
    h.add_meta_context(ALLOCATION)
    h.set_uri_allow_local_file(True)
    h.connect_uri(uri)
    assert h.get_extended_headers_negotiated(), 'extended headers were not negotiated'
    assert h.get_protocol() == 'newstyle-fixed'
    return h


h, other = connect(), connect()
size = h.get_size()
assert size == os.stat(path).st_size and size >= 16 * GIB, size
places = 0, 4 * GIB - MIB, 4 * GIB, size // 2 + 4096, size - MIB
scratch = size // 4     # where the second connection works


def fill():
    for at in places:
        h.pwrite(b'x' * MIB, at)
    assert h.pread(MIB, places[1]) == b'x' * MIB


def allocated():
    return os.stat(path).st_blocks * 512


def meanwhile(name, length, cookie):
    """Until that request is done the other connection works."""
    began, n, slowest = time.monotonic(), 0, 0
    while True:
        at = time.monotonic()
        other.pwrite(b'%04d' % (n % 10000) * 1024, scratch)
        assert len(other.pread(4096, scratch + (n % 64 + 1) * MIB)) == 4096
        n += 1
        slowest = max(slowest, time.monotonic() - at)
        # It moves on only while it is polled; takes no time if there is nothing.
        h.poll(0)
        if h.aio_command_completed(cookie):
            break
    took = time.monotonic() - began
    print(f'{name} of {length >> 30} GiB: {took:.2f} s, the other one had {n} pairs of requests, the slowest {slowest:.3f} s')
    return n


def status(length, offset, flags=0, contexts=None):
    """Extents as the server gives them: [(length, flags)]"""
    found = []

    def got(context, at, entries, error):
        assert context == ALLOCATION and at == offset
        found.extend(entries)
        return 0
    if contexts is None:
        h.block_status_64(length, offset, got, flags)
    else:
        h.block_status_filter(length, offset, contexts, got, flags)
    return [tuple(e) for e in found]


def extents(contexts=None):
    """All of the export, neighbours of the same kind in one."""
    at, whole = 0, []
    while at < size:
        new = status(size - at, at, contexts=contexts)
        assert new
        for length, flags in new:
            at += length
            if whole and whole[-1][1] == flags:
                length += whole.pop()[0]
            whole.append((length, flags))
    assert at == size
    return whole


def check_status():
    whole = extents()
    assert max(length for length, flags in whole if flags == HOLE) > 4 * GIB, whole
    data, at = set(), 0
    for length, flags in whole:
        if flags == 0:
            data.update(range(at // MIB, (at + length) // MIB))
        at += length
    assert {p // MIB for p in places if p % MIB == 0} <= data, whole
    assert len(data) < 100, whole
    # One request is enough for one extent of more than 32 bits.
    hole = size // 2 + 2 * GIB
    (length, flags), = status(size - hole, hole, nbd.CMD_FLAG_REQ_ONE)
    assert flags == HOLE and length > 4 * GIB, length
    assert h.can_block_status_payload(), 'no BLOCK_STATUS with payload'
    assert extents([ALLOCATION]) == whole
    (length, flags), = status(size - hole, hole, nbd.CMD_FLAG_REQ_ONE, [ALLOCATION])
    assert flags == HOLE and length > 4 * GIB, length


def check_zero(name, send):
    fill()
    before = allocated()
    assert before >= len(places) * MIB
    n = meanwhile(name, size, send())
    h.flush()
    for at in places:
        assert h.pread(MIB, at) == bytes(MIB), f'{name}: not zero at {at}'
    assert allocated() <= before - (len(places) - 1) * MIB, f'{name}: {before} bytes before, {allocated()} after'
    return n


fill()
check_status()
counts = [check_zero('zero', lambda: h.aio_zero(size, 0)), check_zero('trim', lambda: h.aio_trim(size, 0))]
fill()
# In the end this is done in slices of max_sectors_kb, also of holes: all of 8 TiB are seven million.
length = min(size, 32 * GIB)
counts.append(meanwhile('cache', length, h.aio_cache(length, 0)))
assert sum(counts) > 3, 'nobody else was served'
for length, offset in (size, 4096), (size + 4096, 0):
    for call in h.zero, h.trim, h.cache:
        try:
            h.set_strict_mode(0)
            call(length, offset)
            sys.exit(f'{call.__name__} of {length} bytes at {offset} is beyond the end, but was done')
        except nbd.Error as e:
            assert e.errno in ('EINVAL', 'ENOSPC'), e
assert h.pread(MIB, places[3]) == b'x' * MIB
for c in h, other:
    c.shutdown()
