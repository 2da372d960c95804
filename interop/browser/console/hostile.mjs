// Texts that would like to be scripts stay texts, wherever a tool, a prompt or a question says them.

import assert from "node:assert/strict";
import { answer, browse, go, main, open, serve } from "./harness.mjs";

const EVIL = [
  "<script>globalThis.harmed = 1</script>",
  "<img src=x onerror='globalThis.harmed = 2'>",
  "# <svg onload=\"globalThis.harmed = 3\">\n\n[click](javascript:globalThis.harmed=4) **<b onclick=alert(1)>b</b>**",
  '{"__proto__": {"harmed": 5}, "<img src=x onerror=globalThis.harmed=6>": "</pre><script>globalThis.harmed=7</script>"}',
  "| a | b |\n|---|---|\n| <iframe srcdoc='<script>parent.harmed=8</script>'> | x |",
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
  await lists(page, server);
  assert.equal(await page.evaluate(() => globalThis.harmed ?? ({}).harmed), undefined);
  assert.deepEqual(page.complaints, []);
  await foreign(browser, server);
});

/** What a tool answers. */
async function results(page) {
  await go(page, "tools/echo");
  for (const text of EVIL) {
    await page.getByLabel(/^text/).fill(text);
    await page.getByRole("button", { name: "Call" }).click();
    await page.locator(".result").waitFor();
    await unharmed(page);
    const hrefs = await page.locator(".result a").evaluateAll((links) => links.map((link) => link.protocol));
    assert.deepEqual(hrefs.filter((protocol) => !/^https?:$/.test(protocol)), []);
  }
}

/** What a user answered, shown again. */
async function answers(page) {
  await go(page, "conversations");
  await page.getByRole("button", { name: "New conversation" }).click();
  await page.getByRole("menuitem", { name: "register" }).click();
  await answer(page, /name/i, "<img src=x onerror='globalThis.harmed=9'>");
  await page.locator(".said.answered").or(page.locator(".field-problem", { hasText: /\S/ })).first().waitFor();
  await unharmed(page);
}

/** What a server says of its tools: names, titles, descriptions, schemas. */
async function lists(page) {
  const evil = EVIL[1];
  await page.route("**/mcp", async (route) => {
    const asked = route.request().postDataJSON?.()?.method;
    if (!["tools/list", "prompts/list"].includes(asked)) return route.continue();
    const response = await route.fetch();
    const body = await response.json();
    const schema = { type: "object", title: evil, properties: { [evil]: { type: "string", title: evil, description: evil, enum: [evil], default: evil } }, required: [evil] };
    const annotations = { readOnlyHint: evil };
    body.result.tools = [{ name: evil, title: evil, description: EVIL[2], inputSchema: schema, annotations }];
    body.result.prompts = [{ name: evil, title: evil, description: evil, arguments: [{ name: evil, title: evil, description: evil, required: true }] }];
    await route.fulfill({ response, json: body });
  });
  for (const view of ["tools", "prompts"]) {
    await go(page, view);
    await page.locator(".pick-list a").first().click();
    await page.locator(".detail h2").waitFor();
    await unharmed(page);
  }
}

async function unharmed(page) {
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve))));
  assert.equal(await page.evaluate(() => globalThis.harmed), undefined);
  assert.equal(await page.locator("main :is(script, iframe, object, embed, [onerror], [onload], [onclick])").count(), 0);
}

/** Pages of others can neither read the console nor put it into a frame. */
async function foreign(browser, server) {
  const { headers } = await fetch(server.url);
  const policy = headers.get("content-security-policy");
  for (const part of ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"]) {
    assert.ok(policy.includes(part), policy);
  }
  assert.ok(!policy.includes("unsafe"), policy);
  const refused = await fetch(`${server.url}connect.json`, { headers: { Origin: "http://evil.example" } });
  assert.equal(refused.status, 403);
}
