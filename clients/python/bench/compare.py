"""Compares the batching clients with one request per check, on a real node: 64 concurrent callers in one process.

    python3 bench/compare.py [--seconds 5] [--rounds 3] [--callers 64] [--generated FOLDER]

SLUICE_BIN is the program sluice; without it, one is built. For each way it prints the checks a second of the program,
and the CPU of the server and of the program per check. The rounds alternate, and the medians count: absolute figures
depend on the machine, the ratios hardly. The way "one request per check" is http.client with one kept connection for
each caller, which is less than what a generated client does for a request. With --generated, the client that
openapi-python-client made in FOLDER is a way too; its dependency httpx has to be installed:

    openapi-python-client generate --path openapi.yaml --meta none --output-path FOLDER
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import importlib
import json
import os
import statistics
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Tuple
from urllib.parse import urlsplit

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import sluice  # noqa: E402
from tests.support import Node  # noqa: E402

TIMEOUT_MS = 10_000


def check(caller: int) -> sluice.Check:
    return sluice.Check(key=f"caller-{caller}", limit=sluice.Limit(1_000_000_000, 60_000))


def cpu_of(pid: int) -> float:
    """The CPU that a process has used, in s."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def in_threads(callers: int, seconds: float, ask: Callable[[int], Callable[[], None]]) -> int:
    """Lets each caller ask in a thread of its own, and returns how many checks were decided."""
    done = [0] * callers
    until = time.monotonic() + seconds

    def run(caller: int) -> None:
        one = ask(caller)
        while time.monotonic() < until:
            one()
            done[caller] += 1

    threads = [threading.Thread(target=run, args=(i,)) for i in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done)


def one_request_per_check(url: str, callers: int, seconds: float) -> int:
    server = urlsplit(url)

    def ask(caller: int) -> Callable[[], None]:
        connection = http.client.HTTPConnection(server.hostname or "", server.port, timeout=TIMEOUT_MS / 1000)
        document = {"key": f"caller-{caller}", "limit": 1_000_000_000, "window_ms": 60_000}

        def one() -> None:
            connection.request("POST", "/ratelimit/check", json.dumps(document), {"Content-Type": "application/json"})
            response = connection.getresponse()
            if not json.loads(response.read())["allowed"]:
                raise SystemExit("denied")

        return one

    return in_threads(callers, seconds, ask)


def client(url: str, callers: int, seconds: float) -> int:
    with sluice.Client(url, timeout_ms=TIMEOUT_MS, on_degraded=fails) as c:
        return in_threads(callers, seconds, lambda caller: lambda: decided(c.check(check(caller))))


def generated(folder: str) -> Callable[[str, int, float], int]:
    """One request per check by a generated client, as its documentation shows."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(folder)))
    name = os.path.basename(os.path.abspath(folder))
    made = importlib.import_module(f"{name}.client")
    call = importlib.import_module(f"{name}.api.decisions.check")
    models = importlib.import_module(f"{name}.models")

    def way(url: str, callers: int, seconds: float) -> int:
        one = made.Client(base_url=url, timeout=TIMEOUT_MS / 1000)

        def ask(caller: int) -> Callable[[], None]:
            body = models.DirectCheck(key=f"caller-{caller}", limit=1_000_000_000, window_ms=60_000)
            return lambda: decided(call.sync(client=one, body=body))

        with one:
            return in_threads(callers, seconds, ask)

    return way


def async_client(url: str, callers: int, seconds: float) -> int:
    async def main() -> int:
        done = 0
        until = time.monotonic() + seconds
        async with sluice.AsyncClient(url, timeout_ms=TIMEOUT_MS, on_degraded=fails) as c:
            async def run(caller: int) -> None:
                nonlocal done
                while time.monotonic() < until:
                    decided(await c.check(check(caller)))
                    done += 1

            await asyncio.gather(*(run(i) for i in range(callers)))
        return done

    return asyncio.run(main())


def decided(answer: Any) -> None:
    if not answer.allowed:
        raise SystemExit("denied")


def fails(error: Exception) -> None:
    print("degraded:", error, file=sys.stderr)
    os._exit(1)


WAYS: Dict[str, Callable[[str, int, float], int]] = {
    "one request per check, threads": one_request_per_check,
    "Client, threads": client,
    "AsyncClient, tasks": async_client,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--callers", type=int, default=64)
    parser.add_argument("--generated", metavar="FOLDER")
    options = parser.parse_args()
    ways = WAYS
    if options.generated:
        ways = {"generated client, threads": generated(options.generated), **WAYS}
    node = Node()
    rows: Dict[str, List[Tuple[float, float, float]]] = {name: [] for name in ways}
    try:
        for way in ways.values():
            way(node.url, options.callers, 0.5)
        for _ in range(options.rounds):
            for name, way in ways.items():
                begin, server, own = time.monotonic(), cpu_of(node.pid), time.process_time()
                checks = way(node.url, options.callers, options.seconds)
                took = time.monotonic() - begin
                rows[name].append((checks / took, (cpu_of(node.pid) - server) / checks * 1e6,
                                   (time.process_time() - own) / checks * 1e6))
    finally:
        node.stop()
    medians = {name: [statistics.median(column) for column in zip(*values)] for name, values in rows.items()}
    base = next(iter(medians.values()))
    print("| way | checks/s | ratio | server CPU a check | ratio | own CPU a check |\n|---|---|---|---|---|---|")
    for name, (rate, server, own) in medians.items():
        ratio, share = rate / base[0], server / base[1]
        print(f"| {name} | {rate:,.0f} | {ratio:.1f} | {server:.0f} µs | {share:.2f} | {own:.0f} µs |")


if __name__ == "__main__":
    main()
