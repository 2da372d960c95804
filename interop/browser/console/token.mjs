// A server that requires a token, which then becomes invalid.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { blank, browse, connected, folder, main, serve } from "./harness.mjs";

const [FIRST, SECOND] = ["first-0123456789abcdef", "second-0123456789abcdef"];

await main(async () => {
  const file = join(folder(), "tokens");
  const args = ["--store", "memory:", "--token-file", file];
  writeFileSync(file, `ada:${FIRST}\n`);
  const server = await serve({ args });
  const browser = await browse();
  const page = await blank(browser);
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  await page.goto(`${server.url}#/tools`);
  await enter(page, "wrong");
  await page.getByText("Invalid token.").waitFor();
  await enter(page, FIRST);
  await connected(page);
  await page.locator(".pick-list a").first().waitFor();
  assert.equal(await page.evaluate((token) => JSON.stringify(localStorage).includes(token), FIRST), false);

  // The server restarts with other tokens.
  await server.stop();
  writeFileSync(file, `ada:${SECOND}\n`);
  await serve({ port: server.port, args });
  await page.getByText("The token is no longer valid.").waitFor();
  await enter(page, SECOND);
  await connected(page);
  await page.locator(".pick-list a").first().click();
  await page.locator(".detail h2").waitFor();
  assert.deepEqual(complaints, []);
});

async function enter(page, token) {
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Connect" }).click();
}
