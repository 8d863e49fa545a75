"""Listens to the live changes for a while, as a program would."""

from __future__ import annotations

import socket
import time
from urllib.parse import urlsplit


def events_a_second(url: str, seconds: float) -> float:
    """Events of `/api/v1/events` that came in so many seconds, a second."""
    address = urlsplit(url)
    with socket.create_connection((address.hostname or "", address.port or 80), timeout=seconds + 10) as connection:
        connection.sendall(
            f"GET /api/v1/events HTTP/1.1\r\nHost: {address.netloc}\r\nAccept: text/event-stream\r\n\r\n".encode()
        )
        deadline = time.monotonic() + seconds
        began = time.monotonic()
        count = 0
        rest = b""
        while (left := deadline - time.monotonic()) > 0:
            connection.settimeout(left)
            try:
                chunk = connection.recv(1 << 16)
            except TimeoutError:
                break
            if not chunk:
                break
            lines = (rest + chunk).split(b"\n")
            rest = lines.pop()
            count += sum(line.startswith(b"id:") for line in lines)
        return count / (time.monotonic() - began)
