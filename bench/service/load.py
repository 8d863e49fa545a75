"""Asks the same thing again and again over kept connections: with wrk where it is installed, else from here."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from statistics import quantiles
from urllib.parse import urlsplit

MOST_REQUESTS = 50_000
"""A bound on what the client of our own asks in one go."""

_UNITS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}


class Failed(Exception):
    """An answer was an error, or none came."""


@dataclass(frozen=True)
class Load:
    """Times in milliseconds."""

    a_second: float
    p50: float
    p99: float


def tool() -> str:
    return "wrk" if shutil.which("wrk") else "a client of the bench's own"


def load(url: str, *, at_once: int, seconds: float, headers: dict[str, str]) -> Load:
    if shutil.which("wrk"):
        return _by_wrk(url, at_once, seconds, headers)
    return asyncio.run(_by_hand(url, at_once, seconds, headers))


def _by_wrk(url: str, at_once: int, seconds: float, headers: dict[str, str]) -> Load:
    lasts = f"{max(1, round(seconds))}s"
    command = ["wrk", "--latency", "-t", "1", "-c", str(at_once), "-d", lasts, "--timeout", "20s"]
    for name, value in headers.items():
        command += ["-H", f"{name}: {value}"]
    done = subprocess.run([*command, url], capture_output=True, text=True, timeout=seconds + 60)
    if done.returncode or "Non-2xx" in done.stdout or "Socket errors" in done.stdout:
        raise Failed(f"{url}: {done.stdout}{done.stderr}")
    rate = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
    assert rate is not None, done.stdout
    return Load(float(rate[1]), _latency(done.stdout, "50%"), _latency(done.stdout, "99%"))


def _latency(text: str, part: str) -> float:
    found = re.search(rf"{part}\s+([\d.]+)(us|ms|s|m)\b", text)
    assert found is not None, text
    return float(found[1]) * _UNITS[found[2]]


async def _by_hand(url: str, at_once: int, seconds: float, headers: dict[str, str]) -> Load:
    times: list[float] = []
    began = time.perf_counter()

    async def ask_on() -> None:
        address = urlsplit(url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        path = f"{address.path or '/'}{'?' + address.query if address.query else ''}"
        lines = [f"GET {path} HTTP/1.1", f"Host: {address.netloc}", *(f"{k}: {v}" for k, v in headers.items())]
        request = ("\r\n".join(lines) + "\r\n\r\n").encode()
        while time.perf_counter() - began < seconds and len(times) < MOST_REQUESTS:
            asked = time.perf_counter()
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
            if not head.startswith("HTTP/1.1 2") or length is None:
                raise Failed(f"{url}: {head}")
            await reader.readexactly(int(length[1]))
            times.append(time.perf_counter() - asked)
        writer.close()
        await writer.wait_closed()

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(ask_on())
    took = time.perf_counter() - began
    cuts = quantiles(times, n=100) if len(times) > 1 else times * 99
    return Load(len(times) / took, cuts[49] * 1000, cuts[98] * 1000)
