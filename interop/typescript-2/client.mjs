// Drives a server with the TypeScript SDK 2.x and prints a report as one line of JSON.
//
// usage: client.mjs ERA stdio PROGRAM [ARGUMENT...]
//        client.mjs ERA (mcp | sse) URL
//
// ERA is `legacy` for the handshake, `auto` to ask the server, or a revision to insist on.

import { Client, SSEClientTransport, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { drive, limits } from "../script.mjs";

const [era, kind, target, ...args] = process.argv.slice(2);
const mode = era === "legacy" || era === "auto" ? era : { pin: era };
const report = { progress: [], complaints: [] };

const client = new Client(
  { name: "interop-typescript-2", version: "1.0.0" },
  { versionNegotiation: { mode } },
);
client.onerror = (error) => report.complaints.push(String(error));
const call = (params, options) => client.callTool(params, { ...limits, ...options });

const transport = {
  stdio: () => new StdioClientTransport({ command: target, args }),
  mcp: () => new StreamableHTTPClientTransport(new URL(target)),
  sse: () => new SSEClientTransport(new URL(target)),
}[kind]();
await client.connect(transport, limits);
report.revision = client.getNegotiatedProtocolVersion();
await drive(client, call, report);
