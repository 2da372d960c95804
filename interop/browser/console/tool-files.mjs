// Tool files: their problems are shown with their positions, their tools can be tried, and a change
// of a file shows without a reload.

import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { accessible, answer, browse, folder, go, main, open, serve } from "./harness.mjs";

const GOOD = `tools:
- name: greet
  description: Greets someone
  input: {type: object, properties: {name: {type: string, title: Name}}, required: [name]}
  run: {program: echo, args: ["Hello, {{name}}!"]}
- name: order
  description: Orders something
  flow:
  - ask: {key: item, message: Which item?}
  - approve: {message: "Order {{item}}?"}
  - call: {tool: greet, arguments: {name: "{{item}}"}, as: said}
  - return: {ordered: "{{item}}", said: "{{said}}"}
- name: locked
  description: Needs a secret
  run: {program: env, env: {KEY: {secret: "env:CONSOLE_TEST_MISSING"}}}
`;

const BROKEN = `tools:
- name: shout
  run: {progam: echo}
`;

await main(async () => {
  const tools = join(folder(), "tools");
  mkdirSync(tools);
  const write = (name, text) => writeFileSync(join(tools, name), text);
  write("good.yaml", GOOD);
  write("shout.yaml", BROKEN);
  const server = await serve({ args: ["--tools", tools, "--no-examples", "--store", "memory:"] });
  const browser = await browse();
  const page = await open(browser, server, { path: "server" });
  const card = page.locator(".card", { has: page.getByRole("heading", { name: "Tool files" }) });
  await card.getByText("3:9: error: `progam` is unknown; did you mean `program`?").waitFor();
  await card.getByText(/^13:9: error: locked is not available: the secret env:CONSOLE_TEST_MISSING is not set/).waitFor();
  assert.deepEqual(await card.locator("a.chip").allTextContents(), ["greet", "order"]);
  await accessible(page, "the server view with tool files");

  // A tool is tried.
  await card.getByRole("link", { name: "greet" }).click();
  await page.getByLabel(/Name/).fill("Ada <b>");
  await page.getByRole("button", { name: "Call" }).click();
  await page.locator(".answer").getByText("Hello, Ada <b>!").waitFor();

  // A flow as well: its questions are those of a session.
  await go(page, "tools/order");
  await page.getByRole("button", { name: "Start a session" }).click();
  await answer(page, "Which item?", "tea");
  await page.getByText("Order tea?").waitFor();
  await page.getByRole("button", { name: "Yes" }).click();
  await page.locator(".tomb", { hasText: "Hello, tea!" }).waitFor();

  // The file is mended: its tool appears by itself.
  await go(page, "tools");
  await page.locator(".pick-list a", { hasText: "greet" }).waitFor();
  write("shout.yaml", BROKEN.replace("progam", "program"));
  await page.locator(".pick-list a", { hasText: "shout" }).waitFor();
  await go(page, "server");
  await card.getByRole("link", { name: "shout" }).waitFor();
  assert.equal(await card.getByText("progam").count(), 0);

  // It breaks again: its last version is served, and the card says so.
  write("shout.yaml", BROKEN);
  await card.getByText("The tools of its last valid version are served.").waitFor();
  await card.getByRole("link", { name: "shout" }).waitFor();
  assert.deepEqual(page.complaints, []);
});
