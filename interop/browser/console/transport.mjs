// WebTransport if available, otherwise HTTP: progress, cancellation and sessions work over both.

import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { answer, browse, connected, go, main, open, serve } from "./harness.mjs";

await main(async () => {
  const server = await serve({ args: ["--store", "memory:", "--diagnostics"] });
  const browser = await browse();
  const page = await open(browser, server);
  assert.equal(await transport(page), "webtransport");
  await use(page);
  assert.deepEqual(page.complaints, []);

  const blocked = await silent();
  const other = await open(browser, server, { path: "tools", before: (page) => block(page, blocked) });
  assert.equal(await transport(other), "http");
  await use(other);
  assert.deepEqual(other.complaints, []);
  await other.context().close();

  // The page reconnects to a restarted server over the same transport.
  await server.stop("SIGKILL");
  await page.waitForSelector('.status[data-state="lost"]');
  await serve({ port: server.port, args: ["--store", "memory:", "--diagnostics"] });
  await connected(page);
  assert.equal(await transport(page), "webtransport");
  await use(page);
});

function transport(page) {
  return page.locator(".status").getAttribute("data-transport");
}

async function use(page) {
  await go(page, "tools/sleep");
  await page.getByLabel(/^ms/).fill("400");
  await page.getByRole("button", { name: "Call" }).click();
  await page.locator(".result", { hasText: "slept 400 ms" }).waitFor();
  // The bar is there for as long as the call takes, so only a long one is sure to be seen.
  await page.getByLabel(/^ms/).fill("60000");
  await page.getByRole("button", { name: "Call" }).click();
  await page.locator('.bar[aria-valuenow]:not([aria-valuenow="0"])').first().waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByText("Cancelled").waitFor();
  await go(page, "sessions");
  await page.getByRole("button", { name: "New session" }).click();
  await page.getByRole("menuitem", { name: "register" }).click();
  await answer(page, /name/i, "Ada Lovelace");
  await answer(page, /mail/i, "ada@example.org");
  await page.locator(".tomb", { hasText: "ada@example.org" }).waitFor();
}

/** Points the page to a WebTransport port that drops packets, as behind a firewall. */
async function block(page, port) {
  await page.route("**/connect.json", async (route) => {
    const told = await (await route.fetch()).json();
    told.webtransport.url = `https://127.0.0.1:${port}/mcp-flow`;
    await route.fulfill({ json: told });
  });
}

/** A UDP port that drops everything. */
async function silent() {
  const socket = createSocket("udp4");
  await new Promise((resolve) => socket.bind(0, "127.0.0.1", resolve));
  socket.unref();
  return socket.address().port;
}
