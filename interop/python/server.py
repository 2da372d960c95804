"""A server made with the official Python SDK, for our client to try."""

import sys

from mcp.server import MCPServer

server = MCPServer("python-server")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers"""
    return a + b


@server.tool()
def fail() -> str:
    """Fails"""
    raise ValueError("it did not work")


@server.resource("note://today")
def today() -> str:
    """A note"""
    return "sun"


@server.prompt()
def review(code: str) -> str:
    """Asks for a review"""
    return f"Review this: {code}"


if __name__ == "__main__":
    server.run(transport=sys.argv[1])
