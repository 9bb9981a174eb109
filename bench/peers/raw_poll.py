"""The floor for anything in Python that asks the metadata service: aiohttp, one open connection, answers not looked at.

`python -m bench.peers.raw_poll ENDPOINT INTERVAL` runs until it is killed.
"""

import asyncio
import sys

import aiohttp

PATHS = ("/latest/meta-data/events/recommendations/rebalance", "/latest/meta-data/spot/instance-action")
_TTL = {"X-aws-ec2-metadata-token-ttl-seconds": "21600"}


def command(endpoint: str, interval: float) -> tuple[str, ...]:
    """The arguments of a Python interpreter that runs it."""
    return ("-m", __name__, endpoint, str(interval))


async def poll(endpoint: str, interval: float) -> None:
    async with aiohttp.ClientSession() as session:
        async with session.put(f"{endpoint}/latest/api/token", headers=_TTL) as answer:
            headers = {"X-aws-ec2-metadata-token": await answer.text()}
        while True:
            for path in PATHS:
                async with session.get(endpoint + path, headers=headers) as answer:
                    await answer.read()
            await asyncio.sleep(interval)


if __name__ == "__main__":
    asyncio.run(poll(sys.argv[1], float(sys.argv[2])))
