// @ts-check
// Conversations: a live list of any length, and one of them open.

import { eachFrame, fill, h, icon } from "../lib/dom.js";
import { ago, plural, short } from "../lib/format.js";
import { ICONS } from "../lib/icons.js";
import { empty, head, search, segments, toast } from "../lib/parts.js";
import { phaseOf, wordFor } from "../lib/sessions.js";
import { VirtualList } from "../lib/virtual.js";
import { conversation } from "./conversation.js";
import { isFlow } from "./tools.js";

/** @typedef {import("../lib/sessions.js").Row} Row */

/** @param {import("../app.js").App} app @returns {import("../app.js").View} */
export function conversationsView(app) {
  const { sessions } = app;
  /** @type {"all" | import("../lib/sessions.js").Phase} */ let phase = "all";
  let wanted = "";
  /** @type {ReturnType<typeof conversation> | null} */ let opened = null;
  const detail = h("section", { class: "detail", "aria-label": "Conversation" });
  const list = new VirtualList({
    label: "Conversations",
    height: 68,
    row,
    key: (/** @type {Row} */ item) => item.sessionId,
    onopen: (item) => app.go(`conversations/${item.sessionId}`),
  });
  const phases = segments(
    "Which conversations",
    [
      { value: "all", label: "All" },
      { value: "waiting", label: "Waiting" },
      { value: "working", label: "At work" },
      { value: "finished", label: "Over" },
    ],
    /** @type {any} */ (phase),
    (value) => {
      phase = /** @type {any} */ (value);
      show();
    },
  );
  const none = h("div", { class: "none" });

  const show = eachFrame(() => {
    const isWanted = (/** @type {Row} */ item) =>
      (phase === "all" || phaseOf(item.state) === phase) &&
      (wanted === "" || `${item.toolName} ${item.sessionId} ${item.owner}`.toLowerCase().includes(wanted));
    const items = phase === "all" && wanted === "" ? sessions.ordered : sessions.ordered.filter(isWanted);
    list.set(items);
    phases.setCounts({ all: sessions.rows.size, ...sessions.counts });
    none.hidden = items.length > 0;
    fill(none, sessions.isLoading ? "Loading…" : "Nothing here.");
  });
  /** @param {string[]} path */
  const open = ([id]) => {
    opened?.dispose();
    opened = null;
    split.classList.toggle("opened", id !== undefined);
    list.choose(id ?? null);
    if (id === undefined) return fill(detail, empty("Pick a conversation", "Or start one: its questions appear here as they are asked."));
    opened = conversation(app, id);
    fill(detail, opened.element);
  };
  sessions.addEventListener("change", show, { signal: app.signal });
  const clock = setInterval(show, 5000);
  app.signal.addEventListener("abort", () => {
    clearInterval(clock);
    list.dispose();
    opened?.dispose();
  });
  const finder = search("Find by flow, owner or id", (text) => {
    wanted = text;
    show();
  });
  const split = h(
    "div",
    { class: "split wide-pick" },
    h("div", { class: "pick" }, finder, phases.element, h("div", { class: "virtual-box" }, list.element, none)),
    detail,
  );
  open(app.path);
  show();
  const view = h("div", { class: "view fixed" }, head("Conversations", "What tools ask, and what they were told.", starter(app)), split);
  return { element: view, open };
}

/** A row to be filled again and again: its texts change, its elements stay. */
function row() {
  const dot = h("i", { class: "dot" });
  const name = h("span", { class: "row-name" });
  const state = h("span", { class: "row-state small" });
  const about = h("span", { class: "row-about muted small" });
  const time = h("span", { class: "row-time muted small numbers" });
  const element = h("div", { class: "row" }, dot, h("div", { class: "row-text" }, name, about), h("div", { class: "row-side" }, state, time));
  /** @type {Row | null} */ let last = null;
  let lastAgo = "";
  return {
    element,
    /** @param {Row} item */
    show(item) {
      const since = ago(item.lastActivityAt);
      if (item === last && since === lastAgo) return;
      lastAgo = since;
      time.textContent = since;
      if (item === last) return;
      last = item;
      element.dataset.phase = phaseOf(item.state);
      element.dataset.state = item.state;
      name.textContent = item.toolName;
      state.textContent = wordFor(item.state);
      const far = item.progress ? ` · ${item.progress.current} of ${item.progress.total}` : "";
      about.textContent = `${short(item.sessionId)} · ${item.owner}${far}`;
    },
  };
}

/** A menu of the flows that can be started. @param {import("../app.js").App} app */
function starter(app) {
  const menu = h("div", { class: "menu", hidden: true, role: "menu", "aria-label": "Flows" });
  const toggle = async () => {
    menu.hidden = !menu.hidden;
    opener.setAttribute("aria-expanded", String(!menu.hidden));
    if (menu.hidden) return;
    fill(menu, h("p", { class: "muted small" }, "Loading…"));
    const tools = await app.client.list("tools/list", "tools").catch(() => []);
    const flows = tools.filter(isFlow);
    fill(menu, flows.length === 0 && h("p", { class: "muted small" }, `No tool here asks anything; there are ${plural(tools.length, "tool")}.`), ...flows.map(one));
    /** @type {HTMLElement | null} */ (menu.querySelector("button"))?.focus();
  };
  /** @param {any} flow */
  const one = (flow) =>
    h(
      "button",
      { type: "button", role: "menuitem", onclick: () => start(flow.name) },
      h("strong", null, flow.title ?? flow.name),
      h("span", { class: "muted small" }, flow.description ?? ""),
    );
  /** @param {string} toolName */
  const start = async (toolName) => {
    menu.hidden = true;
    opener.setAttribute("aria-expanded", "false");
    try {
      const begun = await app.client.request("interaction.start", { toolName });
      app.go(`conversations/${begun.sessionId}`);
    } catch (error) {
      const { data, message } = /** @type {any} */ (error);
      toast(data?.details ?? message);
    }
  };
  const opener = h("button", { type: "button", class: "button primary", "aria-expanded": "false", onclick: toggle }, icon(ICONS.plus), "New conversation");
  const element = h("div", { class: "menu-box" }, opener, menu);
  element.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !menu.hidden) {
      toggle();
      opener.focus();
    }
  });
  addEventListener(
    "click",
    (event) => {
      if (!menu.hidden && !element.contains(/** @type {Node} */ (event.target))) toggle();
    },
    { signal: app.signal },
  );
  return element;
}
