"""The server behind `divulge view`."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from divulge import lazy
from divulge.errors import InputError
from divulge.validation import check_integer
from divulge.viewing.server import WORKER, application

if TYPE_CHECKING:
    import uvicorn

    from divulge.viewing.shelf import Shelf
else:
    uvicorn = lazy.module("uvicorn")


def serve(shelf: Shelf, *, host: str, port: int, ready: Callable[[str], object]) -> bool:
    """Serve until interrupted.

    Args:
        shelf: the runs.
        host: address to listen at.
        port: to listen at; 0 for a free one.
        ready: called with the address to open, token included, once the port is ours.

    Returns:
        Whether an answer is still being computed, in a thread that ends with the process.

    Raises:
        divulge.InputError: an address or port that cannot be had.
    """
    check_integer(port, "--port", least=0, most=65535)
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()  # whoever is told the address waits for an answer, and is not turned away
    except OSError as error:
        listening.close()
        raise InputError(f"--port: {host}:{port} cannot be had ({error.strerror or error})") from None
    token = secrets.token_urlsafe(24)  # a key, not a draw that a result depends on
    shown = f"[{host}]" if ":" in host else host
    server = uvicorn.Server(
        uvicorn.Config(
            application(shelf, token, (shown, "localhost")),
            log_level="critical",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=0,  # nothing is written, so no answer is worth waiting for
        )
    )
    try:
        ready(f"http://{shown}:{listening.getsockname()[1]}/?token={token}")
        server.run(sockets=[listening])
    except KeyboardInterrupt:
        pass  # the only way to end it
    finally:
        listening.close()
    return any(thread.name == WORKER for thread in threading.enumerate())
