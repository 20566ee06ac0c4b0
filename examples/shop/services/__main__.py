"""Runs one service:  python -m shop.services inventory|payments|shipping --ledger FILE --port 0 --seed 7

Prints one line of JSON with its ``url`` once it listens; ends on SIGTERM or Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
from pathlib import Path

from aiohttp import web

from shop.services import app, inventory, payments, shipping
from shop.services.ledger import Ledger

ENDPOINTS = {
    "inventory": inventory.endpoints,
    "payments": payments.endpoints,
    "shipping": shipping.endpoints,
}


async def serve(service: str, host: str, port: int, ledger_path: Path, seed: int) -> None:
    """Serves on the loopback until a signal comes."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    ledger = Ledger(ledger_path)
    runner = web.AppRunner(
        app.build(service, ledger, seed, ENDPOINTS[service](ledger, seed)),
        access_log=None,
        shutdown_timeout=1,
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        bound_host, bound_port = runner.addresses[0][:2]
        print(json.dumps({"service": service, "url": f"http://{bound_host}:{bound_port}"}), flush=True)
        await stop.wait()
    finally:
        await runner.cleanup()
        ledger.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m shop.services", description="Run one service of the shop."
    )
    parser.add_argument("service", choices=sorted(ENDPOINTS))
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument(
        "--ledger", type=Path, required=True, help="the file of calls and effects; goes on if there"
    )
    parser.add_argument("--seed", type=int, default=7, help="what its faults and refusals are drawn from")
    chosen = parser.parse_args()
    asyncio.run(serve(chosen.service, chosen.host, chosen.port, chosen.ledger, chosen.seed))


if __name__ == "__main__":
    main()
