import { connect } from "/client.js";

const say = (/** @type {string} */ text) => document.getElementById("out")?.append(`${text}\n`);
const client = await connect();
say(`connected by ${client.transport}`);
const sum = await client.call("calculator.add", { a: 2, b: 3 });
say(`2 + 3 = ${sum.content[0].text}`);
client.addEventListener("prompt", (event) => {
  const { prompt, respond } = /** @type {CustomEvent} */ (event).detail;
  respond(window.prompt(prompt.message));
});
client.addEventListener("complete", (event) => say(JSON.stringify(/** @type {CustomEvent} */ (event).detail)));
await client.start("register");
