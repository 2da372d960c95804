// Several large files at once, each by a stream of its own, while a conversation goes on.

import assert from "node:assert/strict";
import { closeSync, ftruncateSync, openSync } from "node:fs";
import { join } from "node:path";
import { answer, browse, folder, go, main, open, serve } from "./harness.mjs";

const FILES = ["a.bin", "b.bin", "c.bin", "d.bin"];
const SIZE = 60_000_000;

await main(async () => {
  const files = folder();
  for (const name of FILES) {
    const file = openSync(join(files, name), "w");
    ftruncateSync(file, SIZE);
    closeSync(file);
  }
  const server = await serve({ args: ["--store", "memory:", "--root", files] });
  const browser = await browse();
  for (const query of ["", "?transport=http"]) {
    const page = await open(browser, server, { path: "tools/read_file", query });
    const transport = await page.locator(".status").getAttribute("data-transport");
    if (query) assert.equal(transport, "http");
    await page.evaluate(watchTray);
    for (const name of FILES) {
      await page.getByLabel(/^path/).fill(name);
      await page.getByRole("button", { name: "Call" }).click();
      await page.locator(".attachment", { hasText: name }).or(page.locator(".attachment", { hasText: "stream" })).first().waitFor();
    }
    // The conversation is not held up by any of it.
    await go(page, "conversations");
    await page.getByRole("button", { name: "New conversation" }).click();
    await page.getByRole("menuitem", { name: "register" }).click();
    await answer(page, /name/i, "Ada Lovelace");
    await answer(page, /mail/i, "ada@example.org");
    await page.locator(".tomb", { hasText: "ada@example.org" }).waitFor();
    const busy = await page.locator('.download[data-state="running"]').count();
    await page.waitForFunction((count) => document.querySelectorAll('.download[data-state="done"]').length === count, FILES.length);
    const sizes = await page.locator(".download .numbers").allTextContents();
    assert.deepEqual(sizes, FILES.map(() => "60 MB"));
    const { most, bars } = await page.evaluate(() => globalThis.tray);
    assert.ok(most > 1, "they run at once");
    assert.ok(bars > FILES.length, "bars move");
    const saved = page.waitForEvent("download");
    await page.getByRole("button", { name: /^Save / }).first().click();
    assert.ok((await saved).suggestedFilename());
    console.log(JSON.stringify({ transport, atOnce: most, runningWhenTheConversationWasOver: busy }));
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  }
});

/** Notes how many downloads ran at once, and how often their bars moved. */
function watchTray() {
  globalThis.tray = { most: 0, bars: 0 };
  new MutationObserver(() => {
    const running = document.querySelectorAll('.download[data-state="running"]').length;
    globalThis.tray.most = Math.max(globalThis.tray.most, running);
    globalThis.tray.bars += 1;
  }).observe(document.querySelector(".tray"), { subtree: true, childList: true, attributes: true });
}
