// Drives a server with the TypeScript SDK 2.x and prints what it saw as one line of JSON.
//
// usage: client.mjs ERA PROGRAM [ARGUMENT...]
//
// ERA is `legacy` for the handshake, `auto` to ask the server, or a revision to insist on.

import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { drive, limits } from "../script.mjs";

const [era, command, ...args] = process.argv.slice(2);
const mode = era === "legacy" || era === "auto" ? era : { pin: era };
const report = { progress: [], complaints: [] };

const client = new Client(
  { name: "interop-typescript-2", version: "1.0.0" },
  { versionNegotiation: { mode } },
);
client.onerror = (error) => report.complaints.push(String(error));
const call = (params, options) => client.callTool(params, { ...limits, ...options });

await client.connect(new StdioClientTransport({ command, args }), limits);
report.revision = client.getNegotiatedProtocolVersion();
await drive(client, call, report);
