"""An export is removed while several clients write to it as fast as they can.

  removal_load.py WHERE CONTROL IMAGE [extended | tls=CA-CERTIFICATE]    a Unix socket or HOST:PORT; IMAGE: what `gone` is

Each client writes every one of its blocks once. A write is either answered and in the file, or refused with ESHUTDOWN
or never answered and then not in the file; what is never answered was sent last. Two clients of `stays` notice nothing.
"""
import itertools, random, sys, threading
from guarded import guarded, stop, wrong
from nbdraw import *
from nbdtls import tls_client

ESHUTDOWN = 108
BLOCK, BLOCKS, DEPTH, CLIENTS = 4096, 4000, 8, 6
where, control, image, mode = (sys.argv[1:] + [''])[:4]
if mode:
    Client = Extended if mode == 'extended' else tls_client(mode.removeprefix('tls='))
acked = [0] * CLIENTS


def content(n):
    return n.to_bytes(8, 'big') * (BLOCK // 8)


class Writer:
    def __init__(self, index):
        self.index, self.sent, self.answers = index, [], {}
        self.client = Client(where).go('gone')
        self.thread = threading.Thread(target=guarded(self.run))

    def send(self, block):
        """Nobody may read it any more; answers are still to be read then."""
        self.sent.append(block)
        try:
            self.client.send(self.client.request(WRITE, block, block * BLOCK, data=content(block + 1)))
        except ConnectionError:
            pass

    def run(self):
        blocks = list(range(self.index, BLOCKS, CLIENTS))
        random.Random(self.index).shuffle(blocks)
        try:
            for block in blocks[:DEPTH]:
                self.send(block)
            for block in itertools.chain(blocks[DEPTH:], itertools.repeat(None)):
                cookie, error = self.client.reply()
                assert error in (0, ESHUTDOWN), error
                assert cookie not in self.answers, 'answered twice'
                self.answers[cookie] = error
                acked[self.index] += not error
                if block is not None:
                    self.send(block)
        except Closed:
            pass
        # What the server closed upon had not been read: nothing that was sent later is answered.
        n = len(self.answers)
        assert set(self.sent[:n]) == set(self.answers), [block in self.answers for block in self.sent]


@guarded
def neighbour(index, rounds):
    c = Client(where).go('stays')
    place = random.Random(index)
    while not stop.is_set():
        at = (place.randrange(500) * 2 + index) * BLOCK
        data = place.randbytes(BLOCK)
        assert c.write(at, data) == 0
        assert c.read(at, BLOCK) == data
        rounds.append(at)


def main():
    rounds = [], []
    others = [threading.Thread(target=neighbour, args=(i, rounds[i])) for i in range(2)]
    writers = [Writer(i) for i in range(CLIENTS)]
    for t in others + [w.thread for w in writers]:
        t.start()
    while min(acked) < 3 and not wrong:
        stop.wait(0.01)
    assert Control(control).call('export.remove', name='gone') == {}
    written = b''
    with open(image, 'rb') as f:                 # at once: it is free, and complete
        written = f.read()
    for w in writers:
        w.thread.join()
    before = [len(r) for r in rounds]
    while any(len(r) < b + 3 for r, b in zip(rounds, before)) and not wrong:
        stop.wait(0.01)
    stop.set()
    for t in others:
        t.join()
    assert not wrong, wrong
    answers = {}
    for w in writers:
        answers.update(w.answers)
    for block in range(BLOCKS):
        want = content(block + 1) if answers.get(block) == 0 else bytes(BLOCK)
        assert written[block * BLOCK:(block + 1) * BLOCK] == want, (block, answers.get(block))
    refused = sum(e == ESHUTDOWN for e in answers.values())
    assert refused, 'nothing was refused'
    sent = sum(len(w.sent) for w in writers)
    print(f'{sent} sent, {len(answers) - refused} written, {refused} refused, {sent - len(answers)} not answered')


main()
