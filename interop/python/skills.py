"""Skills by FastMCP, in both roles.

usage: skills.py serve DIRECTORY
       skills.py read PROGRAM [ARGUMENT...]

`read` prints the skills of a server, with the digest of what it read, as one line of JSON.
"""

import asyncio
import hashlib
import json
import sys
from pathlib import Path

from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.server.providers.skills import SkillsDirectoryProvider
from fastmcp.skills import SkillsClientExtension
from fastmcp.skills.extension import SkillsExtension


def serve(directory: str) -> None:
    server = FastMCP("skills-server")
    provider = SkillsDirectoryProvider(roots=Path(directory), experimental_skills=True)
    server.add_provider(provider)
    server.add_extension(SkillsExtension(providers=[provider]))
    server.run(transport="stdio", show_banner=False)


async def read(program: str, *arguments: str) -> None:
    transport = StdioTransport(command=program, args=list(arguments))
    async with Client(transport, extensions=[SkillsClientExtension()]) as client:
        report = []
        for skill in await client.list_skills():
            (contents,) = await client.read_resource(skill.uri)
            digest = "sha256:" + hashlib.sha256(contents.text.encode()).hexdigest()
            entry = skill.model_dump(mode="json", by_alias=True, exclude_none=True)
            report.append({"skill": entry, "digest": digest})
    print(json.dumps(report))


if __name__ == "__main__":
    role, *rest = sys.argv[1:]
    if role == "serve":
        serve(*rest)
    else:
        asyncio.run(read(*rest))
