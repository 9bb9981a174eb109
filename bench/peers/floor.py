"""The floor for a webhook on aiohttp: it reads the body, never looks at it, and answers always the same.

`python -m bench.peers.floor PORT FOLDER` serves until it is killed, with tls.crt and tls.key of the folder, and with
the loop and the TLS settings of the product.
"""

import asyncio
import sys
from functools import partial
from pathlib import Path

import uvloop
from aiohttp import web

from webhook.tls import server_context

ANSWER = b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"","allowed":true}}'
_LARGEST = 7 << 20
_HEADERS = {"Content-Type": "application/json"}


async def answer(request: web.BaseRequest) -> web.Response:
    await request.read()
    return web.Response(body=ANSWER, headers=_HEADERS)


async def serve(port: int, folder: Path) -> None:
    context = server_context((folder / "tls.crt").read_bytes(), (folder / "tls.key").read_bytes())
    loop = asyncio.get_running_loop()
    server = web.Server(
        answer, request_factory=partial(web.BaseRequest, loop=loop, client_max_size=_LARGEST), access_log=None
    )
    async with await loop.create_server(server, "127.0.0.1", port, ssl=context) as listening:
        await listening.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(int(sys.argv[1]), Path(sys.argv[2])))
