"""A server on a loopback socket that sends exactly the bytes it is told, whatever HTTP says."""

import contextlib
import socket
import threading


class Wire:
    """A server that answers each request with the parts it is told, and then closes or waits.

    Args:
        parts: of every answer.
        hold: whether it lets a moment pass after each part, and keeps the connection open after the last.
    """

    def __init__(self, *parts, hold=False):
        self.parts, self.hold, self.asked = parts, hold, 0
        self.over = threading.Event()

    def reply(self, head, body):
        """Parts of the answer to one request, and whether it is held."""
        return self.parts, self.hold

    @contextlib.contextmanager
    def running(self, port=0):
        with socket.create_server(("127.0.0.1", port)) as listening:
            self.port = listening.getsockname()[1]
            self.url = f"http://127.0.0.1:{self.port}/v1"
            thread = threading.Thread(target=self.serve, args=(listening,))
            thread.start()
            try:
                yield self
            finally:
                self.over.set()
                with contextlib.suppress(OSError):
                    listening.shutdown(socket.SHUT_RDWR)
                thread.join()

    def serve(self, listening):
        while not self.over.is_set():
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection):
        with connection, contextlib.suppress(OSError):
            parts, hold = self.reply(*_request(connection))
            self.asked += 1
            for part in parts:
                connection.sendall(part)
                if hold and self.over.wait(0.02):
                    return
            while hold and connection.recv(65536):  # until the other side hangs up
                pass


def _request(connection):
    received = b""
    while b"\r\n\r\n" not in received:
        received += _receive(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    lengths = [line.partition(b":")[2] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    while len(body) < int(lengths[0]):
        body += _receive(connection)
    return head.decode(), body


def _receive(connection):
    got = connection.recv(65536)
    if not got:
        raise ConnectionResetError
    return got


def page(body, *headers, status="200 OK", length=None):
    """A whole answer."""
    lines = [f"HTTP/1.1 {status}", "connection: close", f"content-length: {len(body) if length is None else length}"]
    return "\r\n".join([*lines, *headers, "", ""]).encode() + body
