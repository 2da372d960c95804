"""Drives tasks of a server with FastMCP's client, and prints what it saw as one line of JSON.

Over HTTP its client leaves out the header `Mcp-Name` of `tasks/*`, which the extension requires.

usage: tasks_client.py PROGRAM [ARGUMENT...]
"""

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp_tasks import call_tool_task


async def main(program: str, *arguments: str) -> None:
    asked = []

    async def answer(message: str, response_type: type, params: object, context: object) -> object:
        asked.append(message)
        return response_type(launch=True)

    transport = StdioTransport(command=program, args=list(arguments))
    async with Client(transport, elicitation_handler=answer) as client:
        # The client polls and answers by itself.
        done = await client.call_tool("countdown", {"from": 12})
        report = {"asked": asked, "result": done.structured_content}
        # Or its caller does.
        task = await call_tool_task(client, "countdown", {"from": 60})
        report["status"] = (await task.status()).status
        await task.cancel()
        report["cancelled"] = (await task.wait(timeout=60)).status
        try:
            await client.call_tool("calculator.add", {"a": 2, "b": 3})
            report["plain"] = True
        except Exception as error:
            report["plain"] = repr(error)
    print(json.dumps(report))


asyncio.run(main(*sys.argv[1:]))
