// Scenario for every TypeScript client, independent of its SDK and transport.
//
// `call(params, options)` calls a tool; results are stored in `report`.

export const limits = { timeout: 20_000 };

const addition = { name: "calculator.add", arguments: { a: 2, b: 3 } };

// Both SDKs handle a notification after a response that they read together with it, and then do not
// know its progress token any more.
const isLate = (error) => String(error).includes("progress notification for an unknown token");

export async function drive(client, call, report) {
  const complain = client.onerror;
  client.onerror = (error) => isLate(error) || complain(error);
  report.tools = (await client.listTools(undefined, limits)).tools.map((tool) => tool.name);
  report.sum = await call(addition);
  report.failure = await call({ name: "fail", arguments: {} });
  report.unknown = await call({ name: "nonsense" }).catch((error) => error.code);
  await call(
    { name: "sleep", arguments: { ms: 300 } },
    { onprogress: ({ progress }) => report.progress.push(progress) },
  );

  // Progress may cross the cancel in transit, which the SDK warns about and the protocol allows.
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
  // Over Streamable HTTP a session is ended by a request.
  await client.transport.terminateSession?.();
  await client.close();

  console.log(JSON.stringify(report));
}
