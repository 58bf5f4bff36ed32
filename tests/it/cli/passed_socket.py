"""A service manager that passes a listening socket. Usage: passed_socket.py KIND FOLDER PROGRAM ARGUMENT…

Prints the socket's port. At each line `start` it starts the program with the socket, at `stop` it ends the program; then it
prints how the program ended. What the program prints is appended to FOLDER/output."""
import os, signal, socket, sys

kind, folder, program = sys.argv[1:4]
if kind == "unix":
    first = socket.socket(socket.AF_UNIX)
    first.bind(os.path.join(folder, "socket"))
else:
    first = socket.create_server(("0.0.0.0" if kind == "everywhere" else "127.0.0.1", 0))
first.listen()
sockets = [first, socket.create_server(("127.0.0.1", 0))] if kind == "two" else [first]
print(0 if kind == "unix" else first.getsockname()[1], flush=True)


def start():
    child = os.fork()
    if child:
        return child
    output = os.open(os.path.join(folder, "output"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    copies = [os.dup(one.fileno()) for one in sockets]
    high = [os.dup2(copy, 100 + index) for index, copy in enumerate(copies)]
    for index, one in enumerate(high):
        os.dup2(one, 3 + index)
    os.closerange(3 + len(sockets), 200)
    passed_to = os.getppid() if kind == "other" else os.getpid()
    os.environ.update(LISTEN_PID=str(passed_to), LISTEN_FDS=str(len(sockets)), LISTEN_FDNAMES="lockkeeper.socket")
    os.execv(program, [program, *sys.argv[4:]])


for line in sys.stdin:
    if line.strip() == "start":
        child = start()
    elif line.strip() == "stop":
        os.kill(child, signal.SIGTERM)
    if line.strip() != "start":
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
