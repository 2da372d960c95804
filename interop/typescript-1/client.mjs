// Drives a server with the TypeScript SDK 1.x and prints a report as one line of JSON.
//
// usage: client.mjs stdio PROGRAM [ARGUMENT...]
//        client.mjs (mcp | sse | websocket) URL

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { WebSocketClientTransport } from "@modelcontextprotocol/sdk/client/websocket.js";
import { drive, limits } from "../script.mjs";

const [kind, target, ...args] = process.argv.slice(2);
const report = { progress: [], complaints: [] };

const transport = {
  stdio: () => new StdioClientTransport({ command: target, args }),
  mcp: () => new StreamableHTTPClientTransport(new URL(target)),
  sse: () => new SSEClientTransport(new URL(target)),
  websocket: () => new WebSocketClientTransport(new URL(target)),
}[kind]();
// This SDK tells only its transport which revision was agreed on.
const told = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (version) => {
  report.revision = version;
  told?.(version);
};

const client = new Client({ name: "interop-typescript-1", version: "1.0.0" });
const complain = (error) => report.complaints.push(String(error));
client.onerror = complain;
const call = (params, options) => client.callTool(params, undefined, { ...limits, ...options });

await client.connect(transport, limits);
await drive(client, call, report);
