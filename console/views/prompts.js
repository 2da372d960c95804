// @ts-check
// Prompts: fill one in, and see the messages it makes.

import { content } from "../lib/content.js";
import { fill, h } from "../lib/dom.js";
import { plural } from "../lib/format.js";
import { picture } from "../lib/picture.js";
import { empty, head, problem, search } from "../lib/parts.js";

/** @param {import("../app.js").App} app @returns {import("../app.js").View} */
export function promptsView(app) {
  const list = h("ul", { class: "pick-list" });
  const detail = h("section", { class: "detail", "aria-label": "Prompt" });
  const count = h("p", { class: "muted small" });
  /** @type {any[]} */ let prompts = [];
  let wanted = "";
  let path = app.path;

  const show = () => {
    const found = prompts.filter((one) => `${one.name} ${one.title ?? ""} ${one.description ?? ""}`.toLowerCase().includes(wanted));
    fill(count, plural(found.length, "prompt"));
    fill(list, ...found.map((one) => entry(one, path[0] === one.name)));
  };
  /** @param {string[]} to */
  const open = (to) => {
    path = to;
    split.classList.toggle("opened", path[0] !== undefined);
    show();
    const prompt = prompts.find((one) => one.name === path[0]);
    if (prompt) fill(detail, ...promptDetail(app, prompt));
    else fill(detail, empty("Select a prompt", "Fill in its arguments to see the messages."));
  };
  const load = async () => {
    try {
      if (!app.client.server?.capabilities?.prompts) return fill(detail, empty("No prompts", "This server has none."));
      prompts = await app.client.list("prompts/list", "prompts");
      open(path);
    } catch (error) {
      fill(detail, problem(error));
    }
  };
  const finder = search("Find a prompt", (text) => {
    wanted = text;
    show();
  });
  const split = h("div", { class: "split" }, h("div", { class: "pick" }, finder, count, list), detail);
  load();
  return { element: h("div", { class: "view" }, head("Prompts", "Prompts of this server."), split), open };
}

/** @param {any} prompt @param {boolean} isOpen */
function entry(prompt, isOpen) {
  return h(
    "li",
    null,
    h(
      "a",
      { href: `#/prompts/${encodeURIComponent(prompt.name)}`, "aria-current": isOpen ? "true" : undefined },
      h("span", { class: "pick-name" }, picture(prompt), prompt.title ?? prompt.name),
      h("span", { class: "pick-about muted" }, prompt.description ?? ""),
    ),
  );
}

/** @param {import("../app.js").App} app @param {any} prompt */
function promptDetail(app, prompt) {
  const fields = (prompt.arguments ?? []).map((/** @type {any} */ argument) => field(app, prompt, argument));
  const made = h("div", { class: "messages", "aria-live": "polite" });
  const get = async (/** @type {Event} */ event) => {
    event.preventDefault();
    /** @type {Record<string, string>} */ const args = {};
    for (const { name, input } of fields) if (input.value !== "") args[name] = input.value;
    try {
      const found = await app.client.request("prompts/get", { name: prompt.name, arguments: args });
      fill(made, found.description && h("p", { class: "muted" }, found.description), ...found.messages.map((/** @type {any} */ one) => message(app, found, one)));
    } catch (error) {
      fill(made, problem(error));
    }
  };
  return [
    h("a", { class: "back", href: "#/prompts" }, "All prompts"),
    h("header", { class: "detail-head" }, h("h2", null, prompt.title ?? prompt.name), prompt.title && h("p", { class: "mono small muted" }, prompt.name), h("p", null, prompt.description ?? "")),
    h(
      "form",
      { class: "card", onsubmit: get },
      ...fields.map((/** @type {any} */ { element }) => element),
      h("div", { class: "actions" }, h("button", { type: "submit", class: "button primary" }, "Render")),
    ),
    made,
  ];
}

/** An argument, with what the server suggests for it. @param {import("../app.js").App} app @param {any} prompt @param {any} argument */
function field(app, prompt, argument) {
  const id = `argument-${argument.name}`;
  const options = h("datalist", { id: `${id}-options` });
  const suggest = async () => {
    const params = { ref: { type: "ref/prompt", name: prompt.name }, argument: { name: argument.name, value: input.value } };
    const found = await app.client.request("completion/complete", params).catch(() => null);
    fill(options, ...(found?.completion?.values ?? []).map((/** @type {string} */ value) => h("option", { value })));
  };
  const input = h("input", { type: "text", id, list: `${id}-options`, oninput: suggest, onfocus: suggest, autocomplete: "off", "aria-required": String(argument.required === true) });
  const element = h(
    "div",
    { class: "field" },
    h("label", { htmlFor: id }, argument.title ?? argument.name, argument.required && h("span", { class: "needed" }, "required")),
    argument.description && h("p", { class: "hint" }, argument.description),
    input,
    options,
  );
  return { name: argument.name, input, element };
}

/** @param {import("../app.js").App} app @param {any} found @param {any} one */
function message(app, found, one) {
  return h("div", { class: `card message ${one.role}` }, h("p", { class: "chip" }, one.role), content(app.client, found, one.content));
}
