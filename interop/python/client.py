"""Drives a server with the Python SDK and prints a report as one line of JSON.

usage: client.py ERA stdio PROGRAM [ARGUMENT...]
       client.py ERA (mcp | sse) URL

ERA is `legacy` for the handshake, `auto` to ask the server, or a revision to insist on.
"""

import json
import sys

import anyio
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client

ADDITION = ("calculator.add", {"a": 2, "b": 3})


async def main(era: str, kind: str, target: str, *arguments: str) -> None:
    report = {"progress": [], "complaints": []}

    async def receive(message: object) -> None:
        if isinstance(message, Exception):
            report["complaints"].append(repr(message))

    async def progress(value: float, total: float | None, message: str | None) -> None:
        report["progress"].append(value)

    async with Client(
        server(kind, target, *arguments),
        mode=era,
        read_timeout_seconds=20,
        message_handler=receive,
    ) as client:
        report["revision"] = client.protocol_version
        report["tools"] = [tool.name for tool in (await client.list_tools()).tools]
        report["sum"] = wire(await client.call_tool(*ADDITION))
        report["failure"] = wire(await client.call_tool("fail", {}))
        try:
            report["unknown"] = wire(await client.call_tool("nonsense"))
        except MCPError as error:
            report["unknown"] = error.code
        await client.call_tool("sleep", {"ms": 300}, progress_callback=progress)

        with anyio.CancelScope() as scope:

            async def cancel(*_: object) -> None:
                scope.cancel()

            await client.call_tool("sleep", {"ms": 60_000}, progress_callback=cancel)
        report["cancelled"] = scope.cancelled_caught
        report["sumAfterCancel"] = wire(await client.call_tool(*ADDITION))

    print(json.dumps(report))


def server(kind: str, target: str, *arguments: str) -> object:
    if kind == "stdio":
        return StdioServerParameters(command=target, args=list(arguments))
    # By itself a URL means Streamable HTTP to this SDK.
    return sse_client(target) if kind == "sse" else target


def wire(result: object) -> object:
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


anyio.run(main, *sys.argv[1:])
