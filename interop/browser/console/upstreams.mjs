// Upstreams of a gateway in the console: their state, quarantined tools, calls that wait for approval, traffic.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { accessible, browse, folder, go, main, open, serve, within } from "./harness.mjs";

const here = dirname(fileURLToPath(import.meta.url));

await main(async () => {
  const files = folder();
  const gateway = join(files, "servers.json");
  const up = { command: process.execPath, args: [join(here, "upstream-server.mjs")], approve: ["pay"] };
  const lost = { command: "sh", args: ["-c", "echo 'it has no license' >&2; exit 3"] };
  writeFileSync(gateway, JSON.stringify({ mcpServers: { up, lost } }));
  const server = await serve({ args: ["--store", `sqlite:${join(files, "journal.db")}`, "--no-examples", "--gateway", gateway] });
  const browser = await browse();
  const page = await open(browser, server, { query: "?transport=http" });
  await page.locator(".pick-list", { hasText: "up.greet" }).waitFor();

  // The state of both.
  await go(page, "upstreams");
  await page.locator('[data-upstream="up"][data-state="running"]').waitFor();
  const failing = page.locator('[data-upstream="lost"]', { hasText: "failed start" });
  await failing.waitFor();
  await accessible(page, "the upstreams");

  // Somebody whose client cannot be asked calls a tool that needs approval: a person approves it here.
  const paid = call(server, "up.pay", { sum: 7 });
  await page.getByRole("link", { name: "Answer" }).click();
  await page.getByText("Allow a call of up.pay").first().waitFor();
  await page.getByRole("button", { name: "Yes" }).click();
  const outcome = await within("the approved call", paid);
  assert.equal(outcome.result?.content?.[0]?.text, "pay done", JSON.stringify(outcome));

  // A definition that changes is quarantined, shown with its difference, and approved.
  await call(server, "up.change", {});
  await go(page, "upstreams");
  const pin = page.locator('[data-pin="up.greet"]');
  await pin.waitFor();
  await pin.getByText("sends your files elsewhere").waitFor();
  const refused = await call(server, "up.greet", {});
  assert.equal(refused.error?.data?.name, "QUARANTINED", JSON.stringify(refused));
  await accessible(page, "a quarantined tool");
  await page.getByRole("button", { name: "Approve up.greet" }).click();
  await pin.waitFor({ state: "detached" });
  const greeted = await call(server, "up.greet", {});
  assert.equal(greeted.result?.content?.[0]?.text, "greet done", JSON.stringify(greeted));

  // The traffic of one upstream.
  await page.locator('[data-upstream="up"]').getByRole("link", { name: "Traffic" }).click();
  const filter = page.getByLabel("Filter by upstream");
  await filter.waitFor();
  assert.equal(await filter.inputValue(), "up");
  await call(server, "up.change", {});
  await call(server, "lost.anything", {});
  const rows = page.locator('[aria-label="Exchanges, newest first"]');
  await rows.getByText("up.change").first().waitFor();
  assert.ok(!(await rows.textContent()).includes("lost.anything"));
  await filter.selectOption("lost");
  await rows.getByText("lost.anything").first().waitFor();
  await rows.getByText("up.change").first().waitFor({ state: "hidden" });
  assert.deepEqual(page.complaints, []);
});

/** Calls a tool as a client that cannot be asked. */
async function call(server, name, args) {
  const meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": { name: "script", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  const response = await fetch(server.mcp, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
      "MCP-Protocol-Version": "2026-07-28",
      "Mcp-Method": "tools/call",
      "Mcp-Name": name,
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: args, _meta: meta } }),
  });
  const text = await response.text();
  const data = text.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6));
  const messages = (data.length > 0 ? data : [text]).map((one) => JSON.parse(one));
  return messages.find((message) => message.id === 1);
}
