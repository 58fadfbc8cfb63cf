"""Starts a program as systemd would start it.

  activate.py NAME=ADDRESS... PROGRAM ARG...      ADDRESS: a path, or HOST:PORT; NAME as in FileDescriptorName=

The sockets listen before the program runs. A port of 0 is chosen by the kernel; all ports come out, one a line.
"""
import fcntl, os, socket, sys

args, sockets = sys.argv[1:], []
while '=' in args[0]:
    name, address = args.pop(0).split('=', 1)
    if '/' in address:
        s = socket.socket(socket.AF_UNIX)
        s.bind(address)
    else:
        host, port = address.rsplit(':', 1)
        s = socket.socket()
        s.bind((host, int(port)))
        print(s.getsockname()[1], flush=True)
    s.listen()
    sockets.append((name, s))
# Copies above where they go, so that none overwrites another.
high = [fcntl.fcntl(s, fcntl.F_DUPFD_CLOEXEC, 3 + len(sockets)) for _, s in sockets]
for i, fd in enumerate(high):
    os.dup2(fd, 3 + i, inheritable=True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(sockets)),
                  LISTEN_FDNAMES=':'.join(name for name, _ in sockets))
os.execvp(args[0], args)
