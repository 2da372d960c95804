// Several large files concurrently, each on its own stream, beside a session.

import assert from "node:assert/strict";
import { closeSync, ftruncateSync, openSync } from "node:fs";
import { join } from "node:path";
import { answer, browse, folder, go, main, open, serve, until } from "./harness.mjs";

const FILES = ["a.bin", "b.bin", "c.bin", "d.bin"];
const SIZE = 20_000_000;

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
    await page.evaluate(holdDownloads);
    for (const name of FILES) {
      await page.getByLabel(/^path/).fill(name);
      await page.getByRole("button", { name: "Call" }).click();
      await page.locator(".attachment", { hasText: name }).or(page.locator(".attachment", { hasText: "stream" })).first().waitFor();
    }
    // The session is not delayed.
    await go(page, "sessions");
    await page.getByRole("button", { name: "New session" }).click();
    await page.getByRole("menuitem", { name: "register" }).click();
    await answer(page, /name/i, "Ada Lovelace");
    await answer(page, /mail/i, "ada@example.org");
    await page.locator(".tomb", { hasText: "ada@example.org" }).waitFor();
    assert.equal(await page.locator('.download[data-state="running"]').count(), FILES.length, "all run at once");
    await until(page, "the bars to move", (count) => globalThis.tray.moves > count, FILES.length);
    await page.evaluate(() => globalThis.tray.release());
    await until(page, "all downloads to be done", (count) => document.querySelectorAll('.download[data-state="done"]').length === count, FILES.length);
    const sizes = await page.locator(".download .numbers").allTextContents();
    assert.deepEqual(sizes, FILES.map(() => "20 MB"));
    const saved = page.waitForEvent("download");
    await page.getByRole("button", { name: /^Save / }).first().click();
    assert.ok((await saved).suggestedFilename());
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  }
});

/** Keeps every download from ending until it is released, and counts how often a bar moved. */
async function holdDownloads() {
  const { downloads } = await import("/lib/downloads.js");
  const released = new Promise((release) => (globalThis.tray = { moves: 0, release }));
  const start = downloads.start.bind(downloads);
  downloads.start = (wanted) => {
    const open = async () => (await wanted.open())?.pipeThrough(new TransformStream({ flush: () => released }));
    return start({ ...wanted, open });
  };
  new MutationObserver((seen) => (globalThis.tray.moves += seen.length)).observe(downloads.element, { subtree: true, attributeFilter: ["aria-valuenow"] });
}
