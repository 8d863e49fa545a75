"""What can be known from outside about the service at an address."""

from __future__ import annotations

import http.client
import json
import socket

PATIENCE = 2.0


def readiness(host: str, port: int) -> list[str] | None:
    """Why the Penstock service there is not ready; empty if it is; None if there is none."""
    connection = http.client.HTTPConnection(_near(host), port, timeout=PATIENCE)
    try:
        connection.request("GET", "/health/ready")
        answer = json.loads(connection.getresponse().read())
        ours = isinstance(answer, dict) and {"ready", "reasons"} <= answer.keys()
        return [str(reason) for reason in answer["reasons"]] if ours else None
    except (OSError, http.client.HTTPException, ValueError, TypeError):
        return None
    finally:
        connection.close()


def is_taken(host: str, port: int) -> bool:
    """Whether any program listens there."""
    try:
        with socket.create_connection((_near(host), port), timeout=PATIENCE):
            return True
    except OSError:
        return False


def url_of(host: str, port: int) -> str:
    near = _near(host)
    return f"http://[{near}]:{port}" if ":" in near else f"http://{near}:{port}"


def _near(host: str) -> str:
    """Where this machine reaches a service that listens on all its addresses."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
