// Drives a server with the TypeScript SDK 1.x and prints what it saw as one line of JSON.
//
// usage: client.mjs PROGRAM [ARGUMENT...]

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [command, ...args] = process.argv.slice(2);
const limits = { timeout: 20_000 };
const addition = { name: "calculator.add", arguments: { a: 2, b: 3 } };
const report = { progress: [], complaints: [] };

const transport = new StdioClientTransport({ command, args });
// This SDK tells only its transport which revision was agreed on.
transport.setProtocolVersion = (version) => (report.revision = version);

const client = new Client({ name: "interop-typescript-1", version: "1.0.0" });
const complain = (error) => report.complaints.push(String(error));
client.onerror = complain;
const call = (params, options) => client.callTool(params, undefined, { ...limits, ...options });

await client.connect(transport, limits);
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
