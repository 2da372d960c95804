// @ts-check
// Upstreams: the servers behind a gateway, their quarantined tools, and the calls that wait for approval.

import { fill, h } from "../lib/dom.js";
import { clock, count, duration, plural } from "../lib/format.js";
import { button, empty, fact, head, problem } from "../lib/parts.js";

/** @param {import("../app.js").App} app @returns {import("../app.js").View} */
export function upstreamsView(app) {
  const title = head("Upstreams", "Servers behind this one.");
  if (!app.watched.all) {
    return { element: h("div", { class: "view" }, title, empty("Permission required", "Only admins can see this. Start the server with --admin NAME.")) };
  }
  const waiting = h("div", { class: "cards" });
  const pins = h("div", { class: "cards" });
  const cards = h("div", { class: "cards" });
  const failure = h("div", null);
  const load = async () => {
    try {
      const [{ upstreams }, { pins: all }] = await Promise.all([app.client.request("admin/upstreams"), app.client.request("admin/pins")]);
      const quarantined = all.filter((/** @type {any} */ pin) => pin.state !== "pinned");
      fill(failure);
      fill(pins, ...quarantined.map((/** @type {any} */ pin) => quarantine(pin, approve)));
      fill(cards, ...(upstreams.length > 0 ? upstreams.map(upstream) : [empty("No upstreams", "Start the server with --gateway FILE.")]));
    } catch (error) {
      fill(failure, problem(error));
    }
  };
  /** Approves the definition that is shown, and no later one. @param {string} name @param {string} quarantined */
  const approve = async (name, quarantined) => {
    try {
      await app.client.request("admin/approvePin", { name, quarantined });
      await load();
    } catch (error) {
      fill(failure, problem(error));
    }
  };
  const showWaiting = () => {
    const open = app.sessions.ordered.filter((session) => session.toolName === "gateway.call" && session.state === "waiting_user");
    fill(waiting, ...open.map(waitingCall));
  };
  app.sessions.addEventListener("change", showWaiting, { signal: app.signal });
  const clockwork = setInterval(load, 5_000);
  app.signal.addEventListener("abort", () => clearInterval(clockwork));
  showWaiting();
  load();
  return { element: h("div", { class: "view" }, title, failure, waiting, pins, cards) };
}

/** A call that waits for approval or an answer. @param {any} session */
function waitingCall(session) {
  return h(
    "section",
    { class: "card" },
    h("h2", null, "A call waits for an answer"),
    h("dl", { class: "facts column" }, fact("Session", h("span", { class: "mono small" }, session.sessionId)), fact("Owner", session.owner ?? "")),
    h("div", { class: "actions" }, h("a", { class: "button primary", href: `#/sessions/${encodeURIComponent(session.sessionId)}` }, "Answer")),
  );
}

/** A tool whose definition is new or has changed. @param {any} pin @param {(name: string, quarantined: string) => void} approve */
function quarantine(pin, approve) {
  const name = `${pin.server}.${pin.tool}`;
  const what = pin.state === "new" ? "new" : "changed";
  return h(
    "section",
    { class: "card", "data-pin": name },
    h("h2", null, h("span", { class: "mono" }, name), ` is ${what}`),
    h("p", { class: "muted" }, "It is hidden and cannot be called until its definition is approved."),
    h("pre", { class: "mono small" }, pin.difference ?? ""),
    h("div", { class: "actions" }, button(`Approve ${name}`, () => approve(name, pin.quarantined), { class: "button primary" })),
  );
}

/** @param {any} one */
function upstream(one) {
  const { calls } = one;
  const average = calls.total > 0 ? duration(calls.micros / 1000 / calls.total) : "–";
  const errors = one.errors.slice(0, 5).map((/** @type {any} */ error) => h("li", { class: "small" }, `${clock(error.at)} ${error.name}: ${error.message}`));
  return h(
    "section",
    { class: "card", "data-upstream": one.name, "data-state": one.state },
    h("h2", null, one.name),
    h(
      "dl",
      { class: "facts column" },
      fact("State", one.state),
      fact("Target", h("span", { class: "mono small" }, one.target)),
      fact("Connections", count(one.connections)),
      fact("Tools", `${count(one.tools)}${one.quarantined > 0 ? `, ${count(one.quarantined)} quarantined` : ""}`),
      fact("Calls", `${count(calls.total)}, ${count(calls.failed)} failed, ${count(calls.running)} running`),
      fact("Average", average),
      one.lastError && fact("Last failure", `${one.lastError} (${plural(one.failures, "failed start")})`),
    ),
    errors.length > 0 && h("ul", null, ...errors),
    h("div", { class: "actions" }, h("a", { class: "button", href: `#/traffic/${encodeURIComponent(one.name)}` }, "Traffic")),
  );
}
