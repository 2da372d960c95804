// Script injection: texts of tools, prompts and questions stay texts.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { answer, browse, go, main, open, serve, until, within } from "./harness.mjs";

const EVIL = [
  "<script>globalThis.harmed = 1</script>",
  "<img src=x onerror='globalThis.harmed = 2'>",
  "# <svg onload=\"globalThis.harmed = 3\">\n\n[click](javascript:globalThis.harmed=4) **<b onclick=alert(1)>b</b>**",
  '{"__proto__": {"harmed": 5}, "<img src=x onerror=globalThis.harmed=6>": "</pre><script>globalThis.harmed=7</script>"}',
  "| a | b |\n|---|---|\n| <iframe srcdoc='<script>parent.harmed=8</script>'> | x |",
  // These would take a careless Markdown parser minutes.
  `# ${"[".repeat(90_000)}`,
  `# ${"[a](".repeat(25_000)}`,
  "**a ".repeat(100_000),
];

await main(async () => {
  const server = await serve({ args: ["--store", "memory:", "--diagnostics"] });
  const browser = await browse();
  const page = await open(browser, server, { query: "?transport=http" });
  page.on("dialog", (dialog) => {
    page.complaints.push(`a dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  await results(page);
  await answers(page);
  await commands(page);
  await addresses(page);
  await lists(page, server);
  assert.equal(await page.evaluate(() => globalThis.harmed ?? ({}).harmed), undefined);
  assert.deepEqual(page.complaints, []);
  await foreign(browser, server);
});

/** Tool results. */
async function results(page) {
  await go(page, "tools/echo");
  for (const text of EVIL) {
    await page.getByLabel(/^text/).fill(text);
    await page.locator(".answer").evaluate((answer) => answer.replaceChildren());
    await page.getByRole("button", { name: "Call" }).click();
    await page.locator(".answer .result").waitFor();
    await unharmed(page);
    const hrefs = await page.locator(".result a").evaluateAll((links) => links.map((link) => link.protocol));
    assert.deepEqual(hrefs.filter((protocol) => !/^https?:$/.test(protocol)), []);
  }
}

/** Answers of a user, shown again. */
async function answers(page) {
  await go(page, "sessions");
  await page.getByRole("button", { name: "New session" }).click();
  await page.getByRole("menuitem", { name: "register" }).click();
  await answer(page, /name/i, "<img src=x onerror='globalThis.harmed=9'>");
  await page.locator(".said.answered").or(page.locator(".field-problem", { hasText: /\S/ })).first().waitFor();
  await unharmed(page);
}

/** A copied shell command is escaped, whatever its arguments. */
async function commands(page) {
  const evil = "x'; echo harmed; '";
  const item = { method: evil, params: JSON.stringify({ name: evil, arguments: { evil } }) };
  for (const copy of ["asCurl", "asCall"]) {
    const command = await page.evaluate(async ([copy, item]) => (await import("/views/traffic.js"))[copy](item), [copy, item]);
    const shell = `show() { printf '<%s>\\n' "$@"; }; ${command.replace(/^(curl|mcp-flow)/, "show")}`;
    const said = execFileSync("sh", ["-c", shell], { encoding: "utf8" });
    assert.ok(!/^harmed/m.test(said) && said.includes(evil), said);
  }
}

/** Forged URLs, and a fragment within the page. */
async function addresses(page) {
  await page.evaluate(() => (location.hash = "#/tools/%E0%A4%A"));
  await page.getByText("Select a tool").waitFor();
  await go(page, "prompts");
  await page.getByRole("heading", { name: "Prompts" }).waitFor();
  await page.locator(".skip").focus();
  await page.keyboard.press("Enter");
  await until(page, "the page to skip to its main part", () => location.hash === "#main");
  await drawn(page);
  assert.ok(await page.getByRole("heading", { name: "Prompts" }).isVisible());
}

/** Tool definitions: names, titles, descriptions, schemas. */
async function lists(page) {
  const evil = EVIL[1];
  await page.route("**/mcp", async (route) => {
    const asked = route.request().postDataJSON?.()?.method;
    if (!["tools/list", "prompts/list"].includes(asked)) return route.continue();
    const response = await route.fetch();
    const body = await response.json();
    const schema = { type: "object", title: evil, properties: { [evil]: { type: "string", title: evil, description: evil, enum: [evil], default: evil } }, required: [evil] };
    const annotations = { readOnlyHint: evil };
    const node = { type: "object", properties: { child: { $ref: "#/$defs/node" } } };
    const endless = { name: "endless", inputSchema: { ...node, $defs: { node } } };
    const odd = { name: "odd", inputSchema: { type: "object", required: 5, properties: { a: { enum: 7 } } } };
    body.result.tools = [{ name: evil, title: evil, description: EVIL[2], inputSchema: schema, annotations }, endless, odd];
    body.result.prompts = [{ name: evil, title: evil, description: evil, arguments: [{ name: evil, title: evil, description: evil, required: true }] }];
    await route.fulfill({ response, json: body });
  });
  for (const view of ["tools", "prompts"]) {
    await go(page, view);
    await page.locator(".pick-list a").first().click();
    await page.locator(".detail h2").waitFor();
    await unharmed(page);
  }
  await go(page, "tools/endless");
  await page.locator(".nested .nested textarea").waitFor();
  await go(page, "tools/odd");
  await page.locator(".detail .problem").waitFor();
}

async function unharmed(page) {
  await drawn(page);
  assert.equal(await page.evaluate(() => globalThis.harmed), undefined);
  assert.equal(await page.locator("main :is(script, iframe, object, embed, [onerror], [onload], [onclick])").count(), 0);
}

/** Waits until the page has finished and rendered. */
async function drawn(page) {
  const next = page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve))));
  await within("the page to be drawn", next);
}

/** Pages of other origins can neither read nor frame the console. */
async function foreign(browser, server) {
  const { headers } = await within("the page of the console", fetch(server.url));
  const policy = headers.get("content-security-policy");
  for (const part of ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"]) {
    assert.ok(policy.includes(part), policy);
  }
  assert.ok(!policy.includes("unsafe"), policy);
  const asked = fetch(`${server.url}connect.json`, { headers: { Origin: "http://evil.example" } });
  const refused = await within("a foreign page to be refused", asked);
  assert.equal(refused.status, 403);
}
