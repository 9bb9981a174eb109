"""The floor for a front on aiohttp: it never looks at a request, and sends all of them to the same place.

`python -m bench.peers.front_floor PORT` serves until it is killed.
"""

import asyncio
import sys

from aiohttp import web

_HEADERS = {"Location": "http://ldw-shared-0.ldw-shared.tidb-serverless.svc.cluster.local:19500/load_data"}


async def answer(_request: web.BaseRequest) -> web.Response:
    return web.Response(status=302, headers=_HEADERS)


async def serve(port: int) -> None:
    server = web.Server(answer, access_log=None)
    async with await asyncio.get_running_loop().create_server(server, "127.0.0.1", port) as listening:
        await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
