"""A server with tasks for tests of our client, made with FastMCP. PORT is its port; without one it
speaks over its pipes."""

import asyncio
import os

import mcp_types
from fastmcp import Context, FastMCP
from fastmcp_tasks import TasksExtension

server = FastMCP("tasks-server")
server.add_extension(TasksExtension(name=f"interop-{os.getpid()}"))


@server.tool(task=True)
async def slow_sum(a: int, b: int) -> int:
    """Adds two numbers, after a while"""
    await asyncio.sleep(0.2)
    return a + b


@server.tool(task=True)
async def greet(ctx: Context) -> str | mcp_types.InputRequiredResult:
    """Asks for a name while it runs"""
    answers = ctx.input_responses
    if answers:
        return f"Hello, {answers['who'].content['name']}!"
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    params = mcp_types.ElicitRequestFormParams(message="Who is there?", requested_schema=schema)
    return mcp_types.InputRequiredResult(input_requests={"who": mcp_types.ElicitRequest(params=params)})


@server.tool(task=True)
async def broken() -> str:
    """Fails"""
    raise ValueError("it did not work")


if __name__ == "__main__":
    port = os.environ.get("PORT")
    if port:
        server.run(transport="streamable-http", host="127.0.0.1", port=int(port), show_banner=False)
    else:
        server.run(transport="stdio", show_banner=False)
