// Every view once, in light and dark, with something to see in it; then on a phone.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { accessible, blank, browse, folder, go, main, open, post, serve, shots, until } from "./harness.mjs";

const NOTES = `# Field notes

The server reads **files** below its roots, and tells clients when they change.

- resources are listed a page at a time
- \`resources/read\` streams what is large

| kind | travels |
|---|---|
| small | in the message |
| large | beside it |
`;

await main(async () => {
  const files = folder();
  writeFileSync(join(files, "notes.md"), NOTES);
  writeFileSync(join(files, "people.json"), JSON.stringify([{ name: "Ada", born: 1815 }, { name: "Grace", born: 1906 }]));
  writeFileSync(join(files, "large.bin"), Buffer.alloc(3_000_000, 7));
  const server = await serve({ args: ["--store", "memory:", "--diagnostics", "--root", files] });
  const browser = await browse();
  for (const theme of ["light", "dark"]) await tour(await open(browser, server, { colorScheme: theme }), server, theme);
  await phone(await open(browser, server, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true }));
  await identity(browser, server);
  await load(browser, server);
});

async function tour(page, server, theme) {
  const shot = (name) => shoot(page, `${name}-${theme}`);
  await tools(page);
  await accessible(page, "tools");
  await shot("tools");
  await sessions(page, server);
  await accessible(page, "sessions");
  await shot("sessions");
  await workflows(page, server);
  await accessible(page, "workflows");
  await shot("workflows");
  await resources(page);
  await accessible(page, "resources");
  await shot("resources");
  await prompts(page);
  await accessible(page, "prompts");
  await shot("prompts");
  await traffic(page);
  await accessible(page, "traffic");
  await shot("traffic");
  await server_(page, server);
  await accessible(page, "server");
  await shot("server");
  assert.deepEqual(page.complaints, []);
}

/** A tool is found and called, an invalid call is refused, and both are shown in the traffic. */
async function tools(page) {
  await page.getByRole("searchbox", { name: "Find a tool" }).fill("divide");
  await page.getByRole("link", { name: /calculator.divide/ }).click();
  await page.getByRole("button", { name: "Call" }).click();
  await until(page, "both numbers to be called for", () => document.querySelectorAll(".field.wrong .field-problem").length === 2);
  await page.getByLabel(/^a/).fill("1");
  await page.getByLabel(/^b/).fill("0");
  await page.getByRole("button", { name: "Call" }).click();
  await page.getByText("The tool failed").waitFor();
  await page.getByLabel(/^b/).fill("8");
  await page.getByRole("button", { name: "Call" }).click();
  await page.locator(".result .plain", { hasText: "0.125" }).waitFor();
  await page.locator(".exchange", { hasText: /"tools\/call"[\s\S]*"0\.125"/ }).waitFor({ state: "attached" });
  await page.getByRole("searchbox", { name: "Find a tool" }).fill("");
  await asking(page);
  await go(page, "tools/calculator.divide");
  await page.getByLabel(/^a/).fill("1");
  await page.getByLabel(/^b/).fill("8");
  await page.getByRole("button", { name: "Call" }).click();
  await page.locator(".result .plain", { hasText: "0.125" }).waitFor();
}

/** A request of a running tool is answered in a dialog. */
async function asking(page) {
  await go(page, "tools/register");
  await page.getByRole("button", { name: "Call" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel(/name/i).fill("Ada Lovelace");
  await dialog.getByRole("button", { name: "Answer" }).click();
  await dialog.getByLabel(/mail/i).fill("ada@example.org");
  await accessible(page, "a dialog");
  await dialog.getByRole("button", { name: "Answer" }).click();
  await page.locator(".result", { hasText: "ada@example.org" }).waitFor();
}

/** Some sessions wait, one is open, one has ended. */
async function sessions(page, server) {
  for (const toolName of ["register", "book_trip", "all_prompts", "book_trip"]) await post(server, "interaction.start", { toolName });
  const ended = await post(server, "interaction.start", { toolName: "register", initialParams: { name: "Grace Hopper", email: "grace@example.org" } });
  const { sessionId } = await post(server, "interaction.start", { toolName: "book_trip" });
  const later = new Date(Date.now() + 9 * 86_400_000).toISOString().slice(0, 10);
  for (const value of ["Reykjavík", later, 2]) await post(server, "interaction.respond", { sessionId, response: { value } });
  await go(page, `sessions/${ended.sessionId}`);
  await page.locator(".tomb", { hasText: /grace@example.org/ }).waitFor();
  await go(page, `sessions/${sessionId}`);
  await page.getByText("Which offer?").waitFor();
  await page.getByLabel(/Night train/).check();
  await page.locator(`.row[aria-selected="true"]`, { hasText: "book_trip" }).waitFor();
  await keyboard(page);
  await task(page, server);
  await go(page, `sessions/${sessionId}`);
  await page.getByLabel(/Night train/).check();
}

/** A task is a session: it is listed, and answered in the page. */
async function task(page, server) {
  const capabilities = { extensions: { "io.modelcontextprotocol/tasks": {} } };
  const call = { name: "countdown", arguments: { from: 1 } };
  const { taskId } = await post(server, "tools/call", call, { name: "countdown", capabilities });
  await go(page, `sessions/${taskId}`);
  await page.locator(`.row[aria-selected="true"]`, { hasText: "countdown" }).waitFor();
  await page.locator(".ask", { hasText: "Launch?" }).waitFor();
  await post(server, "tasks/cancel", { taskId }, { name: taskId, capabilities });
  await page.locator(".tomb").waitFor();
}

/** The list is navigated and opened with the keyboard. */
async function keyboard(page) {
  const list = page.getByRole("listbox", { name: "Sessions" });
  await list.focus();
  const before = page.url();
  await list.press("End");
  await list.press("ArrowUp");
  await list.press("Enter");
  await page.waitForURL((url) => url.href !== before);
  // Sessions come to the top when something happens to them, so the first one need not be the one from before.
  await until(page, "the first session to be opened", () => {
    const list = document.querySelector('[role="listbox"][aria-label="Sessions"]');
    for (const key of ["Home", "Enter"]) list.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    return list.querySelector('[aria-posinset="1"]:not([hidden])')?.getAttribute("aria-selected") === "true";
  });
}

/** A workflow run is started, rejected, confirmed, followed from another window, and exported. */
async function workflows(page, server) {
  await go(page, "workflows");
  await page.getByRole("link", { name: /AI Task Prompt/ }).click();
  const saved = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export" }).click();
  assert.equal((await saved).suggestedFilename(), "ai-task-implementation.json");
  await page.getByRole("button", { name: "Start a run" }).click();
  const give = async (output) => {
    await page.getByLabel("Output", { exact: true }).fill(output);
    await page.getByRole("button", { name: "Continue" }).click();
  };
  await give("ok");
  await page.locator(".step .problem").waitFor();
  await give("The page is to show runs. Open: nothing. ".repeat(5));
  // The page asks for a confirmation, which is dismissed here.
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await page.getByText("Confirmation required").waitFor();
  const run = page.url().split("/").at(-1);
  const { structuredContent } = await post(server, "tools/call", { name: "workflow_status", arguments: { runId: run } }, { name: "workflow_status" });
  assert.equal(structuredContent.status, "waiting_for_confirmation");
  // After an answer elsewhere, the page continues by itself.
  await post(server, "interaction.respond", { sessionId: run, response: { value: true } });
  await page.locator('.step[data-state="done"]').first().waitFor();
  await page.locator('.step[data-state="next"]').getByRole("button", { name: "Continue" }).waitFor();
  const exported = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export Markdown" }).click();
  const file = await exported;
  assert.match(file.suggestedFilename(), /^ai-task-implementation-.*\.md$/);
  assert.match(readFileSync(await file.path(), "utf8"), /Confirmed by a person[^]*The page is to show runs/);
  await page.locator(".toast").first().waitFor({ state: "detached" });
}

async function resources(page) {
  await go(page, "resources");
  await page.getByRole("link", { name: /people.json/ }).click();
  await page.getByRole("cell", { name: "Ada" }).waitFor();
  await page.getByRole("link", { name: /notes.md/ }).click();
  await page.getByRole("heading", { name: "Field notes" }).waitFor();
  await page.getByRole("link", { name: /large.bin/ }).click();
  await page.getByText("Too large to show here").waitFor();
  await page.getByLabel("Select large.bin").check();
  await page.locator(".view-head").getByRole("button", { name: "Download" }).click();
  await page.locator('.download[data-state="done"]', { hasText: "3.0 MB" }).waitFor();
  await page.getByRole("button", { name: "Close downloads" }).click();
  await page.getByRole("link", { name: /notes.md/ }).click();
}

async function prompts(page) {
  await go(page, "prompts");
  await page.locator(".pick-list a").first().click();
  // The list is loaded from the server, so the form appears after the view.
  const inputs = page.locator("form.card input");
  await inputs.first().waitFor();
  for (let place = 0; place < (await inputs.count()); place += 1) await inputs.nth(place).fill("Oslo");
  await page.getByRole("button", { name: "Render" }).click();
  await page.locator(".message").first().waitFor();
}

/** The page's own traffic is listed, with both ways to repeat it. */
async function traffic(page) {
  await go(page, "traffic");
  await page.getByRole("searchbox", { name: /^Filter by/ }).fill("calculator.divide");
  // Rows are recycled, so one that is found before the filter applies may be replaced.
  await until(page, "nothing but calls of calculator.divide to be listed", () => {
    const rows = [...document.querySelectorAll(".row:not([hidden])")];
    return rows.length > 0 && rows.every((row) => row.textContent.includes("calculator.divide"));
  });
  await page.locator(".row:visible", { hasText: "tools/call" }).first().click();
  await page.getByRole("button", { name: "Copy as curl" }).waitFor();
  await page.getByRole("button", { name: "Copy as mcp-flow call" }).waitFor();
  const said = await page.evaluate(async () => {
    const { asCall, asCurl } = await import("/views/traffic.js");
    const item = { method: "tools/call", params: JSON.stringify({ name: "echo", arguments: { text: "it's" }, _meta: { progressToken: 1 } }) };
    return [asCall(item), asCurl(item)];
  });
  assert.match(said[0], /^mcp-flow call http:\S+\/mcp echo --json '\{"text":"it'\\''s"\}'$/);
  assert.match(said[1], /^curl -s http:\S+\/mcp[\s\S]*Mcp-Name: echo[\s\S]*2026-07-28/);
  const saving = page.waitForEvent("download");
  await page.getByRole("button", { name: "Save as cassette" }).click();
  const lines = readFileSync(await (await saving).path(), "utf8").trim().split("\n").map((line) => JSON.parse(line));
  assert.equal(lines[0].cassette, 1);
  assert.ok(lines.some((line) => line.message?.params?.name === "calculator.divide"), "the cassette has the call");
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("searchbox", { name: /^Filter by/ }).fill("");
}

/** Metrics fall without traffic, and rise with it. */
async function server_(page, server) {
  await go(page, "server");
  await page.getByRole("heading", { name: "Limits" }).waitFor();
  // The rate is a mean over ten seconds, so it includes earlier calls.
  await until(page, "less than 5 calls per second", () => Number(document.querySelector(".tile strong").textContent) < 5);
  const call = () => post(server, "tools/call", { name: "calculator.add", arguments: { a: 1, b: 2 } }, { name: "calculator.add" });
  let isBusy = true;
  const risen = until(page, "more than 5 calls per second", () => Number(document.querySelector(".tile strong").textContent) > 5);
  risen.catch(() => {}).finally(() => (isBusy = false));
  while (isBusy) await Promise.all(Array.from({ length: 20 }, call));
  await risen;
}

async function phone(page) {
  await page.getByRole("link", { name: /calculator.add/ }).waitFor();
  await accessible(page, "tools on a phone");
  await shoot(page, "phone-tools");
  await page.getByRole("link", { name: "Sessions", exact: false }).first().click();
  await page.locator(".row", { hasText: "book_trip" }).first().click();
  await page.locator(".ask").waitFor();
  await accessible(page, "a session on a phone");
  await shoot(page, "phone-session");
  const isWide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
  assert.equal(isWide, false, "nothing sticks out at the side");
}

/** The server's own icon and website are shown, unless they lead elsewhere than they say. */
async function identity(browser, server) {
  const icon = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=";
  for (const [src, websiteUrl, isShown] of [
    [icon, "https://example.org/docs", true],
    ["https://example.org/icon.png", "javascript:alert(1)", false],
  ]) {
    const described = `$1${JSON.stringify({ icons: [{ src }], websiteUrl }).slice(1, -1)},`;
    const before = (page) =>
      page.route(server.mcp, async (route) => {
        // Others are streams, which do not end.
        if (!/"(server\/discover|initialize)"/.test(route.request().postData() ?? "")) return route.continue();
        const response = await route.fetch();
        await route.fulfill({ response, body: (await response.text()).replace(/(serverInfo"\s*:\s*\{)/i, described) });
      });
    const page = await open(browser, server, { query: "?transport=http", before });
    const status = page.locator(".status");
    assert.equal(await status.locator("img").count(), isShown ? 1 : 0);
    assert.deepEqual(await status.locator("a").evaluateAll((links) => links.map((link) => link.href)), isShown ? [websiteUrl] : []);
    if (isShown) assert.equal(await status.locator("img").getAttribute("src"), src);
    assert.deepEqual(page.complaints, []);
    await page.close();
  }
}

/** Bytes transferred until the first view is shown. */
async function load(browser, server) {
  const page = await blank(browser);
  const wire = await page.context().newCDPSession(page);
  await wire.send("Network.enable");
  let total = 0;
  wire.on("Network.loadingFinished", ({ encodedDataLength }) => (total += encodedDataLength));
  await page.goto(server.url);
  await page.locator(".pick-list a").first().waitFor();
  // Responses follow earlier events, so everything loaded is counted now.
  await wire.send("Network.disable");
  console.log(JSON.stringify({ firstPaintBytes: total }));
  assert.ok(total > 0 && total < 64 * 1024, `${total} bytes`);
}

async function shoot(page, name) {
  mkdirSync(shots, { recursive: true });
  await page.screenshot({ path: join(shots, `${name}.png`) });
}
