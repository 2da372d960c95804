// @ts-check
// A session or recording step by step: the events of its journal, with state, data and traffic at each of
// them, beside another one. Exported histories and cassettes need no session on the server.

import { fill, h } from "../lib/dom.js";
import { clock, duration } from "../lib/format.js";
import { code } from "../lib/json.js";
import { button, empty, fact, problem } from "../lib/parts.js";

/** @typedef {{label: string, value: any, at: number, state: string, question: string | null, data: any, turn?: number | "unknown" | null}} Step */

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
    ({ history, traffic }) => {
      const steps = stepsOf(history);
      const others = [...app.sessions.rows.values()].filter((row) => row.toolName === history.flow && row.sessionId !== history.sessionId);
      const choose = others.length > 0 && chooser(app, others.map((row) => row.sessionId));
      fill(place, ...stepper(steps, traffic), comparison(steps, choose));
    },
    (error) => fill(place, problem(error)),
  );
  return element;
}

/** A panel that opens an exported history or a cassette, without a session on the server. */
export function filePanel() {
  const place = h("div", { class: "history-steps" });
  const file = fileInput("Open an exported history or a recording", async (text) => {
    const { steps, traffic } = stepsOfText(text);
    fill(place, ...stepper(steps, traffic), comparison(steps, false));
  }, (error) => fill(place, problem(error)));
  const label = h("label", { class: "muted small" }, "Open an exported history or a recording (.json, .jsonl)", file);
  return h("section", { class: "card history", "aria-label": "History from a file" }, label, place);
}

/** @param {string} label @param {(text: string) => void} use @param {(error: any) => void} fail */
function fileInput(label, use, fail) {
  const input = h("input", {
    type: "file",
    "aria-label": label,
    onchange: async () => {
      const file = input.files?.[0];
      if (!file) return;
      try {
        if (file.size > MAX_FILE) throw new Error("the file is larger than 64 MiB; use mcp-flow history FILE");
        await use(await file.text());
      } catch (error) {
        fail(error);
      }
    },
  });
  return input;
}

/** @param {import("../app.js").App} app @param {string} id */
async function read(app, id) {
  const history = await app.client.request("interaction.getHistory", { sessionId: id }, { repeat: true });
  // Only admins see traffic.
  const seen = await app.client.request("admin/traffic", { contains: id }, { repeat: true }).catch(() => ({ exchanges: [] }));
  return { history, traffic: seen.exchanges ?? [] };
}

/** Steps, with a slider to go through them. @param {Step[]} steps @param {any[]} traffic */
function stepper(steps, traffic) {
  if (steps.length === 0) return [empty("No history", "There is nothing in it.")];
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
    const during = traffic.filter((one) => causes(one, step));
    fill(
      detail,
      h("dl", { class: "facts" }, fact("Time", time(step.at)), fact("State", step.state), fact("Question", step.question)),
      step.value !== undefined && step.value !== null && code(JSON.stringify(step.value, null, 2), "Value"),
      code(JSON.stringify(step.data, null, 2), "Data"),
      ...during.map((one) => code(one.params, `${one.method}, ${duration(one.time)}`)),
    );
  };
  show();
  return [h("div", { class: "actions" }, button("Previous", () => move(-1)), slider, button("Next", () => move(1))), name, detail];
}

/**
 * Whether an exchange caused a step: it was under way at the time, and is the start of the session or the
 * answer in the turn of the step. One call follows another too closely to be told apart by time alone.
 *
 * @param {any} exchange @param {Step} step
 */
export function causes(exchange, step) {
  const isDuring = step.at >= exchange.at - exchange.time - 2 && step.at <= exchange.at + 2;
  const isAnswer = step.turn !== null;
  if (exchange.method === "interaction.start") return isDuring && !isAnswer;
  if (exchange.method !== "interaction.respond") return isDuring;
  let turn;
  try {
    turn = JSON.parse(exchange.params)?.response?.turnId;
  } catch {
    // Long params are cut off.
  }
  return isDuring && isAnswer && (typeof turn !== "number" || step.turn === "unknown" || turn === step.turn);
}

/** A time, or the time since a recording began. @param {number} at */
function time(at) {
  return at > 1e11 ? clock(at) : `${(at / 1000).toFixed(3)} s`;
}

/** A choice of another session. @param {import("../app.js").App} app @param {string[]} ids */
function chooser(app, ids) {
  return (/** @type {(steps: Step[]) => void} */ against, /** @type {(error: any) => void} */ fail) => {
    const choose = h(
      "select",
      {
        "aria-label": "Compare with another session",
        onchange: () => choose.value && read(app, choose.value).then(({ history }) => against(stepsOf(history)), fail),
      },
      h("option", { value: "" }, "Compare with…"),
      ...ids.map((id) => h("option", { value: id }, id)),
    );
    return choose;
  };
}

/** A choice of something else, and how it differs. @param {Step[]} own @param {false | ReturnType<typeof chooser>} chooser */
function comparison(own, chooser) {
  const out = h("div", { "aria-live": "polite" });
  const against = (/** @type {Step[]} */ other) => fill(out, ...differences(own, other));
  const fail = (/** @type {any} */ error) => fill(out, problem(error));
  const file = fileInput("Compare with an exported history or a recording", (text) => against(stepsOfText(text).steps), fail);
  return h("div", { class: "history-compare" }, h("div", { class: "actions" }, chooser && chooser(against, fail), file), out);
}

/**
 * How two sessions differ, as `mcp-flow history FILE OTHER` says it: `-` is in the first only, `+` in the
 * second only, `~` has other values.
 *
 * @param {Step[]} one @param {Step[]} other
 */
export function differences(one, other) {
  const rows = compare(one.slice(0, MAX_STEPS), other.slice(0, MAX_STEPS)).map(({ sign, place, label, text }) =>
    h("tr", null, h("td", { class: "mono" }, sign), h("td", { class: "numbers" }, String(place)), h("td", { class: "mono" }, label), h("td", { class: "mono" }, text)),
  );
  const cut = Math.max(one.length, other.length) - MAX_STEPS;
  if (cut > 0) rows.push(h("tr", null, h("td", { colSpan: 4 }, `The last ${cut} steps were not compared.`)));
  return [rows.length === 0 ? empty("No difference", "Both sessions went the same way.") : h("table", { class: "plain" }, h("tbody", null, ...rows))];
}

/** Along the longest common subsequence of their labels. @param {Step[]} one @param {Step[]} other */
export function compare(one, other) {
  // Lengths of the longest common subsequences of what is left from each pair of steps on.
  const lengths = Array.from({ length: one.length + 1 }, () => new Uint16Array(other.length + 1));
  const length = (/** @type {number} */ left, /** @type {number} */ right) => lengths[left]?.[right] ?? 0;
  for (let left = one.length - 1; left >= 0; left -= 1) {
    const row = /** @type {Uint16Array} */ (lengths[left]);
    for (let right = other.length - 1; right >= 0; right -= 1) {
      row[right] = one[left]?.label === other[right]?.label ? length(left + 1, right + 1) + 1 : Math.max(length(left + 1, right), length(left, right + 1));
    }
  }
  const lines = [];
  let [left, right] = [0, 0];
  while (left < one.length || right < other.length) {
    const [from, to] = [one[left], other[right]];
    if (from && to && from.label === to.label) {
      const [before, after] = [canonical(from.value), canonical(to.value)];
      if (before !== after) lines.push({ sign: "~", place: left + 1, label: from.label, text: `${before} / ${after}` });
      left += 1;
      right += 1;
    } else if (from && (!to || length(left + 1, right) >= length(left, right + 1))) {
      left += 1;
      lines.push({ sign: "-", place: left, label: from.label, text: canonical(from.value) });
    } else if (to) {
      right += 1;
      lines.push({ sign: "+", place: right, label: to.label, text: canonical(to.value) });
    }
  }
  return lines;
}

/** JSON with sorted members. @param {any} value @returns {string} */
function canonical(value) {
  const sort = (/** @type {string} */ _, /** @type {any} */ inner) =>
    inner && typeof inner === "object" && !Array.isArray(inner) ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1))) : inner;
  return JSON.stringify(value ?? null, sort);
}

/** Reads the text of an exported history or a cassette. @param {string} text @returns {{steps: Step[], traffic: any[]}} */
export function stepsOfText(text) {
  let history;
  try {
    history = JSON.parse(text);
  } catch {
    // Several lines: a cassette.
  }
  if (history?.entries) return { steps: stepsOf(history), traffic: Array.isArray(history.traffic) ? history.traffic : [] };
  return { steps: stepsOfCassette(text), traffic: [] };
}

/** The requests of a cassette with their responses. @param {string} text @returns {Step[]} */
function stepsOfCassette(text) {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const parsed = lines.map((line, index) => {
    try {
      return JSON.parse(line);
    } catch {
      // The last line of an interrupted recording may be cut off.
      if (index > 0 && index === lines.length - 1) return {};
      throw new Error(index === 0 ? "this is neither an exported history nor a recording" : `line ${index + 1} is damaged`);
    }
  });
  const version = parsed[0]?.cassette;
  if (!Number.isInteger(version)) throw new Error("this is neither an exported history nor a recording");
  if (version > 1) throw new Error(`the recording has format version ${version}, which this console cannot read`);
  /** @type {(Step & {id: string, from: string, exchange: any, connection: any, open: boolean})[]} */ const steps = [];
  for (const { at = 0, from, connection = 1, exchange, message } of parsed.slice(1).filter((line) => line?.message)) {
    for (const one of Array.isArray(message) ? message : [message]) {
      const id = JSON.stringify(one?.id);
      if (one?.method && id !== undefined) {
        const name = one.params?.name ?? one.params?.uri ?? one.params?.toolName ?? "";
        steps.push({ label: `${one.method} ${name}`.trim(), value: null, at, state: "", question: null, data: one.params ?? {}, id, from, exchange, connection, open: true });
      } else if (id !== undefined) {
        const asked = steps.filter((step) => step.open && step.id === id && step.connection === connection && step.from !== from);
        const step = asked.find((step) => step.exchange === exchange) ?? asked[0];
        if (!step) continue;
        step.open = false;
        step.value = one.error ? { error: one.error } : one.result;
        step.state = String(one.result?.state ?? "");
        step.question = one.result?.next?.prompt?.message ?? null;
      }
    }
  }
  return steps.sort((one, other) => one.at - other.at);
}

/** Steps that are compared, which bounds the table. */
const MAX_STEPS = 2000;

/** Largest file that is opened. */
const MAX_FILE = 64 * 1024 * 1024;

/** Reads a history as `interaction.getHistory` returns and `mcp-flow sessions history --export` writes it. @param {any} history @returns {Step[]} */
export function stepsOf(history) {
  if (!Array.isArray(history?.entries)) throw new Error("this is not the history of a session");
  let open = "";
  /** @type {number | "unknown" | null} */ let turn = null;
  /** @type {number | "unknown"} */ let next = 0;
  return history.entries.map((/** @type {any} */ entry) => {
    const [kind, event] = Object.entries(entry.event ?? {})[0] ?? ["unknown", {}];
    const about = event.key ?? (kind === "started" ? event.flow : kind === "answered" || kind === "rejected" ? open : "");
    open = entry.question ?? "";
    // An answer that was given ahead ends a turn without an event.
    if (kind === "answered_ahead") next = "unknown";
    if (["answered", "answered_ahead", "rejected"].includes(kind)) turn = next;
    if (next !== "unknown" && (kind === "answered" || event.skipped === true)) next += 1;
    const value = event.value ?? event.answered?.value ?? event.outcome ?? event.ending ?? event.params ?? event.violation?.error;
    return { label: `${kind.replaceAll("_", " ")} ${about}`.trim(), value, at: event.at ?? event.answered?.at ?? 0, state: entry.state, question: entry.question, data: entry.data ?? {}, turn };
  });
}
