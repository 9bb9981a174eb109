"""Credentials that the API server does not accept: the same sentence from every command, with what to do."""

from pathlib import Path

import pytest
from aiohttp import web

from tests.ebbtide.cli.commands import kubeconfig, run, serving

MANIFEST = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: b}\nspec: {containers: []}\n"


async def refuse(_request: web.BaseRequest) -> web.StreamResponse:
    status = {"kind": "Status", "status": "Failure", "reason": "Unauthorized", "message": "Unauthorized", "code": 401}
    return web.json_response(status, status=401)


@pytest.mark.parametrize(
    "command",
    [
        "status",
        "status --output json",
        "cleanup",
        "cleanup --dry-run",
        "preflight",
        "explain node a",
        "explain zone g/a",
        "explain pod b/a",
        "explain pod -f MANIFEST",
        "explain task 1-1701753296955293956-139-0",
        "certs inspect",
        "certs issue",
        "certs rotate --ca",
    ],
)
async def test_refused_credentials_are_told_in_one_way(command: str, tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(MANIFEST)
    async with serving(refuse) as url:
        config = kubeconfig(tmp_path, url)
        words = [str(manifest) if word == "MANIFEST" else word for word in command.split()]
        ended = await run(*words, "--kubeconfig", str(config))
    assert ended.err == (
        f"ebbtide: {url} does not accept the credentials of context test in {config} (401): "
        "log in anew, or name another kubeconfig or context by --kubeconfig or --context\n"
    )
    assert (ended.code, ended.out) == (3, "")
