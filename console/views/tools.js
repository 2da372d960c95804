// @ts-check
// Tools: find one, fill in its form, call it, and see what came back and how it was said.

import { appOf, isVisibleTo } from "../lib/app/tools.js";
import { toolResult } from "../lib/content.js";
import { fill, h } from "../lib/dom.js";
import { objectForm } from "../lib/form.js";
import { duration, plural } from "../lib/format.js";
import { code } from "../lib/json.js";
import { markdown } from "../lib/markdown.js";
import { picture } from "../lib/picture.js";
import { button, empty, fold, head, problem, progressBar, search } from "../lib/parts.js";

/** @param {import("../app.js").App} app @returns {import("../app.js").View} */
export function toolsView(app) {
  const list = h("ul", { class: "pick-list" });
  const detail = h("section", { class: "detail", "aria-label": "Tool" });
  const count = h("p", { class: "muted small" });
  /** @type {any[]} */ let tools = [];
  let wanted = "";
  let path = app.path;
  /** Aborted when another tool is shown. */ let leaving = new AbortController();

  const show = () => {
    const found = tools.filter((tool) => `${tool.name} ${tool.title ?? ""} ${tool.description ?? ""}`.toLowerCase().includes(wanted));
    fill(count, plural(found.length, "tool"));
    fill(list, ...found.map((tool) => entry(tool, isOpen(tool))));
  };
  const isOpen = (/** @type {any} */ tool) => tool.name === path[0];
  /** @param {string[]} to */
  const open = (to) => {
    path = to;
    leaving.abort();
    leaving = new AbortController();
    split.classList.toggle("opened", path[0] !== undefined);
    show();
    const tool = tools.find(isOpen);
    if (tool) fill(detail, ...shown(tool));
    else fill(detail, empty("Select a tool", "Its arguments and result are shown here."));
  };
  /** One whose schema makes no sense must not take the others along. @param {any} tool */
  const shown = (tool) => {
    try {
      return toolDetail(app, tool, AbortSignal.any([app.signal, leaving.signal]));
    } catch (error) {
      return [h("a", { class: "back", href: "#/tools" }, "All tools"), h("h2", null, tool.name), problem(error)];
    }
  };
  const load = async () => {
    try {
      const before = JSON.stringify(tools.find(isOpen));
      tools = await app.client.list("tools/list", "tools");
      // A tool that has not changed keeps its form, its result and its app.
      if (before && before === JSON.stringify(tools.find(isOpen))) show();
      else open(path);
    } catch (error) {
      fill(detail, problem(error));
    }
  };
  const changed = (/** @type {Event} */ event) => {
    if (/** @type {CustomEvent} */ (event).detail.method === "notifications/tools/list_changed") load();
  };
  app.client.addEventListener("notification", changed, { signal: app.signal });
  const finder = search("Find a tool", (text) => {
    wanted = text;
    show();
  });
  const split = h("div", { class: "split" }, h("div", { class: "pick" }, finder, count, list), detail);
  load();
  return { element: h("div", { class: "view" }, head("Tools", "Tools of this server."), split), open };
}

/** @param {any} tool @param {boolean} isOpen */
function entry(tool, isOpen) {
  return h(
    "li",
    null,
    h(
      "a",
      { href: `#/tools/${encodeURIComponent(tool.name)}`, "aria-current": isOpen ? "true" : undefined },
      h(
        "span",
        { class: "pick-name" },
        picture(tool),
        tool.title ?? tool.name,
        isFlow(tool) && h("span", { class: "chip accent" }, "interactive"),
        appOf(tool) && h("span", { class: "chip" }, "app"),
        !isVisibleTo(tool, "model") && h("span", { class: "chip" }, "for apps only"),
      ),
      h("span", { class: "pick-about muted" }, tool.description ?? ""),
    ),
  );
}

/** @param {any} tool */
export function isFlow(tool) {
  return tool._meta?.interactive === true;
}

/** @param {import("../app.js").App} app @param {any} tool @param {AbortSignal} left */
function toolDetail(app, tool, left) {
  const form = objectForm(tool.inputSchema);
  const answer = h("div", { class: "answer", "aria-live": "polite" });
  const exchange = h("div", { class: "exchange" });
  const stage = h("div", { class: "stage" });
  /** Aborted when another result is shown. */ let staged = new AbortController();
  const bar = progressBar("Progress of the call");
  bar.element.hidden = true;
  const told = h("span", { class: "muted small" });
  /** @type {AbortController | null} */ let running = null;
  const stop = button("Cancel", () => running?.abort(), { hidden: true });
  const run = h("button", { type: "submit", class: "button primary" }, "Call");

  const call = async () => {
    let args;
    try {
      args = form.read();
    } catch (error) {
      return fill(told, /** @type {Error} */ (error).message);
    }
    running = new AbortController();
    [run.disabled, stop.hidden, bar.element.hidden] = [true, false, false];
    bar.set(0);
    fill(answer);
    const begun = performance.now();
    const heard = listen(app.client, tool.name);
    fill(told, "Calling…");
    try {
      const calling = app.client.call(tool.name, args, {
        signal: running.signal,
        onProgress: ({ progress, total, message }) => {
          bar.set(progress, total);
          fill(told, message ?? (total ? `${progress} of ${total}` : String(progress)));
        },
      });
      staged.abort();
      staged = new AbortController();
      const uri = appOf(tool);
      if (uri) stageApp(app, stage, uri, AbortSignal.any([left, staged.signal]), { tool, args, result: calling });
      const result = await calling;
      fill(told, `${duration(performance.now() - begun)} by ${app.client.transport}`);
      fill(answer, toolResult(app.client, result, hintFor(app.client, args, result)));
    } catch (error) {
      fill(told, running.signal.aborted ? "Cancelled" : duration(performance.now() - begun));
      if (!running.signal.aborted) fill(answer, problem(error));
    } finally {
      fill(exchange, ...wire(heard()));
      [run.disabled, stop.hidden, bar.element.hidden] = [false, true, true];
    }
  };
  const startSession = async () => {
    try {
      const begun = await app.client.request("interaction.start", { toolName: tool.name });
      app.go(`sessions/${begun.sessionId}`);
    } catch (error) {
      fill(answer, problem(error));
    }
  };
  return [
    h("a", { class: "back", href: "#/tools" }, "All tools"),
    h("header", { class: "detail-head" }, h("h2", null, picture(tool), tool.title ?? tool.name), tool.title && h("p", { class: "mono small muted" }, tool.name), tool.description && markdown(tool.description), annotations(tool)),
    h(
      "div",
      { class: "columns" },
      h(
        "form",
        { class: "card", onsubmit: (/** @type {Event} */ event) => (event.preventDefault(), void call()) },
        form.element.children.length > 0 ? form.element : h("p", { class: "muted" }, "No arguments."),
        h("div", { class: "actions" }, run, isFlow(tool) && button("Start a session", startSession), stop, told),
        bar.element,
        answer,
      ),
      h("div", { class: "card sunken" }, h("h3", null, "Messages"), exchange),
    ),
    stage,
    fold("Schema", code(JSON.stringify(tool.inputSchema), "Input schema"), tool.outputSchema && code(JSON.stringify(tool.outputSchema), "Output schema")),
  ];
}

/**
 * Shows the app of a tool. Loaded on first use, because most tools have none.
 *
 * @param {import("../app.js").App} app
 * @param {HTMLElement} stage
 * @param {string} uri
 * @param {AbortSignal} signal
 * @param {import("../lib/app/panel.js").Call} call
 */
async function stageApp(app, stage, uri, signal, call) {
  // The app is told of a failure as well.
  call.result.catch(() => {});
  const { appPanel } = await import("../lib/app/panel.js");
  if (!signal.aborted) fill(stage, appPanel(app, uri, signal, call));
}

/**
 * A stream comes without a name and a length; for a file both can be known.
 *
 * @param {import("../client.js").Client} client
 * @param {any} args
 * @param {any} result
 */
function hintFor(client, { path }, { content = [] }) {
  const isStreamed = content.some((/** @type {any} */ one) => one.type === "ref/stream");
  if (typeof path !== "string" || !isStreamed) return {};
  const end = `/${path.replace(/^\/+/, "").split("/").map(encodeURIComponent).join("/")}`;
  const size = client
    .list("resources/list", "resources")
    .then((all) => all.find((one) => one.uri.startsWith("file:") && one.uri.endsWith(end))?.size)
    .catch(() => undefined);
  return { name: path.split("/").pop() ?? path, size };
}

/** @param {any} tool */
function annotations(tool) {
  const hints = tool.annotations ?? {};
  const words = [
    hints.readOnlyHint && "read-only",
    hints.destructiveHint && "destructive",
    hints.idempotentHint && "idempotent",
    hints.openWorldHint && "open world",
  ].filter(Boolean);
  return words.length > 0 ? h("p", { class: "chips" }, ...words.map((word) => h("span", { class: "chip" }, word))) : null;
}

/**
 * Listens to the next call of a tool, as it is said on the wire. What it returns stops that, and
 * gives the messages.
 *
 * @param {import("../client.js").Client} client
 * @param {string} name
 */
function listen(client, name) {
  /** @type {any[]} */ const messages = [];
  const hear = (/** @type {Event} */ event) => {
    const { sent, message } = /** @type {CustomEvent} */ (event).detail;
    const [first] = messages;
    const isFirst = sent && message.method === "tools/call" && message.params.name === name;
    if (first ? !sent && message.id === first.id && !message.method : isFirst) messages.push(message);
  };
  client.addEventListener("message", hear);
  return () => {
    client.removeEventListener("message", hear);
    return messages;
  };
}

/** Both sides of an exchange. @param {any[]} messages */
function wire([request, response]) {
  return [
    request && h("h4", null, "Request"),
    request && code(JSON.stringify(request), "Request"),
    response && h("h4", null, "Response"),
    response && code(JSON.stringify(response), "Response"),
  ];
}
