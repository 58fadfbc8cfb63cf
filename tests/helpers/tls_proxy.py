"""For clients that know no TLS: tls_proxy.py LISTEN SERVER CA-CERTIFICATE     both are Unix sockets

Each connection to LISTEN becomes one to SERVER, with STARTTLS; all bytes are handed on as they come. The server sees the
client's options and requests as if it had sent them inside TLS.
"""
import asyncio, contextlib, ssl, sys
from nbdraw import option

PIECE = 1 << 18
listen, server, ca = sys.argv[1:]
context = ssl.create_default_context(cafile=ca)


async def hand_on(reader, writer):
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(PIECE):
            writer.write(data)
            await writer.drain()
    writer.close()


async def serve(reader, writer):
    secure, to_server = await asyncio.open_unix_connection(server)
    greeting = await secure.readexactly(18)
    to_server.write(b'\0\0\0\3' + option(5))
    assert (await secure.readexactly(20))[12:16] == b'\0\0\0\1', 'STARTTLS was refused'
    await to_server.start_tls(context, server_hostname='localhost')
    writer.write(greeting)
    await reader.readexactly(4)                       # its flags: sent above
    await asyncio.gather(hand_on(reader, to_server), hand_on(secure, writer))


async def main():
    async with await asyncio.start_unix_server(serve, listen) as s:
        await s.serve_forever()


asyncio.run(main())
