// Drives a server with the TypeScript SDK 1.x and prints what it saw as one line of JSON.
//
// usage: client.mjs PROGRAM [ARGUMENT...]

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { drive, limits } from "../script.mjs";

const [command, ...args] = process.argv.slice(2);
const report = { progress: [], complaints: [] };

const transport = new StdioClientTransport({ command, args });
// This SDK tells only its transport which revision was agreed on.
transport.setProtocolVersion = (version) => (report.revision = version);

const client = new Client({ name: "interop-typescript-1", version: "1.0.0" });
const complain = (error) => report.complaints.push(String(error));
client.onerror = complain;
const call = (params, options) => client.callTool(params, undefined, { ...limits, ...options });

await client.connect(transport, limits);
await drive(client, call, report);
