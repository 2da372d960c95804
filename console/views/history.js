// @ts-check
// A session step by step: the events of its journal, with state, data and traffic at each of them, beside
// another session or an exported one.

import { fill, h } from "../lib/dom.js";
import { clock, duration } from "../lib/format.js";
import { code } from "../lib/json.js";
import { button, empty, fact, problem } from "../lib/parts.js";

/** @typedef {{label: string, value: any, at: number, state: string, question: string | null, data: any}} Step */

/**
 * The panel of one session.
 *
 * @param {import("../app.js").App} app
 * @param {string} id
 */
export function historyPanel(app, id) {
  const place = h("div", { class: "history-steps" });
  const element = h("section", { class: "card history", "aria-label": "History, step by step" }, place);
  read(app, id).then(
    ({ history, traffic }) => fill(place, ...stepper(history, traffic), comparison(app, history)),
    (error) => fill(place, problem(error)),
  );
  return element;
}

/** @param {import("../app.js").App} app @param {string} id */
async function read(app, id) {
  const history = await app.client.request("interaction.getHistory", { sessionId: id }, { repeat: true });
  // Only admins see traffic.
  const seen = await app.client.request("admin/traffic", { contains: id }, { repeat: true }).catch(() => ({ exchanges: [] }));
  return { history, traffic: seen.exchanges ?? [] };
}

/** The steps of a history, with a slider to go through them. @param {any} history @param {any[]} traffic */
function stepper(history, traffic) {
  const steps = stepsOf(history);
  if (steps.length === 0) return [empty("No history", "Nothing is left of this session.")];
  const detail = h("div", { "aria-live": "polite" });
  const slider = h("input", { type: "range", min: 1, max: steps.length, value: steps.length, "aria-label": "Step", oninput: () => show() });
  const name = h("h3", { class: "mono" });
  /** @param {number} by */
  const move = (by) => {
    slider.value = String(Number(slider.value) + by);
    show();
  };
  const show = () => {
    const number = Number(slider.value);
    const step = steps[number - 1];
    if (!step) return;
    fill(name, `${number} of ${steps.length}: ${step.label}`);
    const during = traffic.filter((one) => step.at >= one.at - one.time - 2 && step.at <= one.at + 2);
    fill(
      detail,
      h("dl", { class: "facts" }, fact("Time", clock(step.at)), fact("State", step.state), fact("Question", step.question)),
      step.value !== undefined && step.value !== null && code(JSON.stringify(step.value, null, 2), "Value"),
      code(JSON.stringify(step.data, null, 2), "Data"),
      ...during.map((one) => code(one.params, `${one.method}, ${duration(one.time)}`)),
    );
  };
  show();
  return [h("div", { class: "actions" }, button("Previous", () => move(-1)), slider, button("Next", () => move(1))), name, detail];
}

/** A choice of another session or file, and how it differs. @param {import("../app.js").App} app @param {any} own */
function comparison(app, own) {
  const out = h("div", { "aria-live": "polite" });
  const others = [...app.sessions.rows.values()].filter((row) => row.toolName === own.flow && row.sessionId !== own.sessionId);
  const against = (/** @type {any} */ other) => fill(out, ...differences(stepsOf(own), stepsOf(other)));
  const choose = h(
    "select",
    {
      "aria-label": "Compare with another session",
      onchange: () => choose.value && read(app, choose.value).then(({ history }) => against(history), (error) => fill(out, problem(error))),
    },
    h("option", { value: "" }, "Compare with…"),
    ...others.map((row) => h("option", { value: row.sessionId }, row.sessionId)),
  );
  const file = h("input", {
    type: "file",
    "aria-label": "Compare with an exported history",
    onchange: async () => {
      try {
        against(JSON.parse(await /** @type {File} */ (file.files?.[0]).text()));
      } catch (error) {
        fill(out, problem(error));
      }
    },
  });
  return h("div", { class: "history-compare" }, h("div", { class: "actions" }, choose, file), out);
}

/** @param {Step[]} one @param {Step[]} other */
export function differences(one, other) {
  const lines = [];
  const count = Math.max(one.length, other.length);
  for (let place = 0; place < count; place += 1) {
    const [left, right] = [one[place], other[place]];
    const [from, to] = [left, right].map((step) => (step ? `${step.label} ${JSON.stringify(step.value) ?? ""}` : "—"));
    if (from !== to) lines.push(h("tr", null, h("td", { class: "numbers" }, String(place + 1)), h("td", { class: "mono" }, from), h("td", { class: "mono" }, to)));
  }
  return [lines.length === 0 ? empty("No difference", "Both sessions went the same way.") : h("table", { class: "plain" }, h("tbody", null, ...lines))];
}

/** Reads a history as `interaction.getHistory` returns and `mcp-flow sessions history --export` writes it. @param {any} history @returns {Step[]} */
export function stepsOf(history) {
  if (!Array.isArray(history?.entries)) throw new Error("this is not the history of a session");
  let open = "";
  return history.entries.map((/** @type {any} */ entry) => {
    const [kind, event] = Object.entries(entry.event ?? {})[0] ?? ["unknown", {}];
    const about = event.key ?? (kind === "started" ? event.flow : kind === "answered" || kind === "rejected" ? open : "");
    open = entry.question ?? "";
    const value = event.value ?? event.answered?.value ?? event.outcome ?? event.ending ?? event.params ?? event.violation?.error;
    return { label: `${kind.replaceAll("_", " ")} ${about}`.trim(), value, at: event.at ?? event.answered?.at ?? 0, state: entry.state, question: entry.question, data: entry.data ?? {} };
  });
}
