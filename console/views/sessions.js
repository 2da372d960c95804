// @ts-check
// Sessions: a live list, and the selected session.

import { eachFrame, fill, h, icon } from "../lib/dom.js";
import { ago, plural, short } from "../lib/format.js";
import { ICONS } from "../lib/icons.js";
import { button, empty, head, search, segments, toast } from "../lib/parts.js";
import { phaseOf, wordFor } from "../lib/sessions.js";
import { VirtualList } from "../lib/virtual.js";
import { sessionDetail } from "./session.js";
import { isFlow } from "./tools.js";

/** @typedef {import("../lib/sessions.js").Row} Row */

/** @param {import("../app.js").App} app @returns {import("../app.js").View} */
export function sessionsView(app) {
  const { sessions } = app;
  /** @type {"all" | import("../lib/sessions.js").Phase} */ let phase = "all";
  let wanted = "";
  /** @type {ReturnType<typeof sessionDetail> | null} */ let opened = null;
  const detail = h("section", { class: "detail", "aria-label": "Session" });
  const list = new VirtualList({
    label: "Sessions",
    height: 68,
    row,
    key: (/** @type {Row} */ item) => item.sessionId,
    onopen: (item) => app.go(`sessions/${item.sessionId}`),
  });
  const phases = segments(
    "Filter by state",
    [
      { value: "all", label: "All" },
      { value: "waiting", label: "Waiting" },
      { value: "working", label: "Running" },
      { value: "finished", label: "Ended" },
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
    fill(none, sessions.isLoading ? "Loading…" : "No sessions.");
  });
  const openFile = async () => {
    split.classList.add("opened");
    fill(detail, (await import("./history.js")).filePanel());
  };
  /** @param {string[]} path */
  const open = ([id]) => {
    opened?.dispose();
    opened = null;
    split.classList.toggle("opened", id !== undefined);
    list.choose(id ?? null);
    if (id === undefined) return fill(detail, empty("Select a session", "Or start one. Its questions appear here.", button("Open a recording", openFile)));
    opened = sessionDetail(app, id);
    fill(detail, opened.element);
  };
  sessions.addEventListener("change", show, { signal: app.signal });
  const clock = setInterval(show, 5000);
  app.signal.addEventListener("abort", () => {
    clearInterval(clock);
    list.dispose();
    opened?.dispose();
  });
  const finder = search("Search by flow, owner or ID", (text) => {
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
  const view = h("div", { class: "view fixed" }, head("Sessions", "Sessions of flows: questions, answers and results.", starter(app)), split);
  return { element: view, open };
}

/** A reusable row of the list. */
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
    fill(menu, flows.length === 0 && h("p", { class: "muted small" }, `None of the ${plural(tools.length, "tool")} is a flow.`), ...flows.map(one));
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
      app.go(`sessions/${begun.sessionId}`);
    } catch (error) {
      const { data, message } = /** @type {any} */ (error);
      toast(data?.details ?? message);
    }
  };
  const opener = h("button", { type: "button", class: "button primary", "aria-expanded": "false", onclick: toggle }, icon(ICONS.plus), "New session");
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
