"""The raw client of nbdraw.py inside TLS.

  Client = tls_client(CA-CERTIFICATE)
"""
import ssl
from nbdraw import Client, Closed, option


class TlsClient(Client):
    """Looks like one without TLS: the greeting can be read, and the client's flags sent, though both were outside."""
    context = None

    def __init__(self, where, timeout=30):
        super().__init__(where, timeout)
        self.seen = super().recv(18)
        super().send(b'\0\0\0\3' + option(5))
        assert super().recv(20)[12:16] == b'\0\0\0\1'
        self.s = self.context.wrap_socket(self.s, server_hostname='localhost', suppress_ragged_eofs=True)
        self.unsaid = 4

    def recv(self, n):
        if self.seen:
            data, self.seen = self.seen[:n], self.seen[n:]
            return data
        try:
            return super().recv(n)
        except ssl.SSLError as e:
            raise Closed(str(e))

    def send(self, data):
        skip = min(self.unsaid, len(data))
        self.unsaid -= skip
        try:
            super().send(data[skip:])
        except ssl.SSLError as e:
            raise ConnectionError(str(e))

    def closed(self):
        try:
            return super().closed()
        except ssl.SSLError:
            return True


def tls_client(ca):
    """A class in the place of nbdraw.Client, for servers whose certificate this CA has signed."""
    return type('Client', (TlsClient,), {'context': ssl.create_default_context(cafile=ca)})
