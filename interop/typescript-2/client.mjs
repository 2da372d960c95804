// Drives a server with the TypeScript SDK 2.x and prints what it saw as one line of JSON.
//
// usage: client.mjs ERA PROGRAM [ARGUMENT...]
//
// ERA is `legacy` for the handshake, `auto` to ask the server, or a revision to insist on.

import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [era, command, ...args] = process.argv.slice(2);
const mode = era === "legacy" || era === "auto" ? era : { pin: era };
const limits = { timeout: 20_000 };
const addition = { name: "calculator.add", arguments: { a: 2, b: 3 } };
const report = { progress: [], complaints: [] };

const client = new Client(
  { name: "interop-typescript-2", version: "1.0.0" },
  { versionNegotiation: { mode } },
);
client.onerror = (error) => report.complaints.push(String(error));
const call = (params, options) => client.callTool(params, { ...limits, ...options });

await client.connect(new StdioClientTransport({ command, args }), limits);
report.revision = client.getNegotiatedProtocolVersion();
report.tools = (await client.listTools(undefined, limits)).tools.map((tool) => tool.name);
report.sum = await call(addition);
report.failure = await call({ name: "fail", arguments: {} });
report.unknown = await call({ name: "nonsense" }).catch((error) => error.code);
await call(
  { name: "sleep", arguments: { ms: 300 } },
  { onprogress: ({ progress }) => report.progress.push(progress) },
);

// Progress may cross the cancel on its way, which this SDK complains about and the protocol allows.
client.onerror = undefined;
const abort = new AbortController();
report.cancelled = await call(
  { name: "sleep", arguments: { ms: 60_000 } },
  { signal: abort.signal, onprogress: () => abort.abort("interop") },
).then(
  () => false,
  () => abort.signal.aborted,
);
report.sumAfterCancel = await call(addition);
await client.close();

console.log(JSON.stringify(report));
