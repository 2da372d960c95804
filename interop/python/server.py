"""A server for tests of our client: made with the official Python SDK, or with FastMCP.

Called with who makes it and how it is reached: `official stdio`, `fastmcp http`.
"""

import os
import sys

from pydantic import BaseModel

maker, transport = sys.argv[1:]
if maker == "fastmcp":
    from fastmcp import Context
    from fastmcp import FastMCP as Server
else:
    from mcp.server import MCPServer as Server
    from mcp.server.mcpserver import Context

server = Server("python-server")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers"""
    return a + b


@server.tool()
def fail() -> str:
    """Fails"""
    raise ValueError("it did not work")


class Guest(BaseModel):
    """Who is there"""

    name: str


@server.tool()
async def greet(ctx: Context) -> str:
    """Asks for a name, by a request to the client"""
    answer = await ctx.elicit("Who is there?", Guest)
    return f"Hello, {answer.data.name}!"


@server.resource("note://today")
def today() -> str:
    """A note"""
    return "sun"


@server.prompt()
def review(code: str) -> str:
    """Asks for a review"""
    return f"Review this: {code}"


if __name__ == "__main__":
    if transport == "stdio":
        server.run(transport=transport)
    else:
        server.run(transport=transport, host="127.0.0.1", port=int(os.environ["PORT"]))
