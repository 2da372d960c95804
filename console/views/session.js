// @ts-check
// One session as a chat: history, the open question, the result.

import { data } from "../lib/content.js";
import { fill, h } from "../lib/dom.js";
import { duration, minute, short } from "../lib/format.js";
import { button, copyButton, empty, problem, progressBar } from "../lib/parts.js";
import { questionForm, wrongWith } from "../lib/question.js";
import { phaseOf, wordFor } from "../lib/sessions.js";

/**
 * @param {import("../app.js").App} app
 * @param {string} id
 */
export function sessionDetail(app, id) {
  const title = h("h2", null, "…");
  const chip = h("span", { class: "chip" });
  const facts = h("p", { class: "muted small" });
  const cancel = button("Cancel session", () => end(), { class: "button danger", hidden: true });
  const revoke = button("Revoke links", () => revokeLinks(), { class: "button", hidden: true });
  const steps = h("div", { hidden: true });
  const stepping = button("Step through", async () => {
    steps.hidden = !steps.hidden;
    stepping.setAttribute("aria-expanded", String(!steps.hidden));
    if (!steps.hidden) fill(steps, (await import("./history.js")).historyPanel(app, id));
  });
  stepping.setAttribute("aria-expanded", "false");
  const history = h("ol", { class: "chat", "aria-label": "History" });
  const now = h("div", { class: "now", "aria-live": "polite" });
  const bar = progressBar("Session progress");
  bar.element.hidden = true;
  const element = h(
    "article",
    { class: "session" },
    h("a", { class: "back", href: "#/sessions" }, "All sessions"),
    h("header", { class: "detail-head row-head" }, h("div", null, h("div", { class: "chips" }, title, chip), facts), h("div", { class: "actions" }, copyButton("Id", () => id), stepping, revoke, cancel)),
    bar.element,
    steps,
    h("div", { class: "chat-scroll", tabIndex: 0, role: "region", "aria-label": "Questions and answers" }, history, now),
  );
  let isOver = false;
  let loads = 0;
  let shownQuestion = "";
  let shownTurns = -1;
  /** @type {ReturnType<typeof questionForm> | null} */ let form = null;
  /** @type {any} */ let known = {};

  const load = async () => {
    const load = ++loads;
    try {
      const state = await app.client.request("interaction.getState", { sessionId: id }, { repeat: true });
      if (load === loads && !isOver) show(state);
    } catch (error) {
      if (load === loads && !isOver) refused(error);
    }
  };
  /** @param {any} state */
  const show = (state) => {
    const { metadata = {}, history: turns = [] } = state;
    fill(title, metadata.toolName ?? "session");
    known = metadata;
    showState(metadata.stuck ? "stuck" : state.state);
    showTime();
    if (turns.length !== shownTurns) {
      shownTurns = turns.length;
      fill(history, ...turns.flatMap(turn));
    }
    const prompt = state.currentPrompt;
    // An unchanged question keeps its form and input.
    const wakes = metadata.wakesAt;
    /** @type {string[]} */ const awaits = metadata.awaits ?? [];
    if (metadata.stuck) {
      shownQuestion = "";
      return fill(now, stuckWith(metadata.stuck));
    }
    const question = prompt ? JSON.stringify([prompt.metadata?.turnId, prompt.message]) : `${state.state} ${wakes ?? ""} ${awaits}`;
    if (question === shownQuestion) return prompt && form?.complain(prompt);
    shownQuestion = question;
    if (prompt) ask(prompt);
    else if (phaseOf(state.state) === "finished") fill(now, ending(state));
    else fill(now, h("p", { class: "working" }, h("i", { class: "dot" }), wakes ? `Asleep until ${minute(wakes)}` : awaits.length > 0 ? "Waiting for a signal" : "Running…"));
    if (phaseOf(state.state) !== "finished") now.append(...awaits.map(signalCard));
    now.scrollIntoView({ block: "nearest" });
  };
  const showTime = () => {
    if (!known.createdAt) return;
    const left = known.expiresAt ? ` · expires in ${duration(Math.max(0, known.expiresAt - Date.now()))}` : "";
    const wakes = known.wakesAt ? ` · wakes in ${duration(Math.max(0, known.wakesAt - Date.now()))}` : "";
    fill(facts, `${short(id)} · started ${minute(known.createdAt)}${wakes}${left}`);
  };
  /** @param {string} state */
  const showState = (state) => {
    fill(chip, wordFor(state));
    chip.className = `chip ${phaseOf(state)} ${state}`;
    cancel.hidden = phaseOf(state) === "finished";
    revoke.hidden = !(known.links ?? []).some((/** @type {any} */ link) => link.state === "open" || link.state === "not_asked");
  };
  /** @param {any} prompt */
  const ask = (prompt) => {
    form = questionForm(prompt, (value) => answer(value, prompt.metadata?.turnId));
    fill(now, h("div", { class: "card ask" }, form.element));
    if (!matchMedia("(pointer: coarse)").matches) {
      /** @type {HTMLElement | null} */ (form.element.querySelector("input, select, textarea, button"))?.focus({ preventScroll: true });
    }
  };
  /** @param {any} value @param {number} turnId */
  const answer = async (value, turnId) => {
    const params = { sessionId: id, response: { value, turnId } };
    const verdict = await app.client.request("interaction.respond", params, { repeat: true });
    if (!verdict.accepted) {
      return wrongWith(verdict.validation);
    }
    await load();
    return null;
  };
  /** A form that sends a signal for which the flow waits. @param {string} name */
  const signalCard = (name) => {
    const prompt = { type: "signal", message: `Waiting for the signal “${name}”. Value:` };
    const form = questionForm(prompt, async (value) => {
      await app.client.request("interaction.signal", { sessionId: id, name, value: value ?? null });
      await load();
      return null;
    });
    return h("div", { class: "card ask" }, form.element);
  };
  /** Ends the links by which others send signals and answers. */
  const revokeLinks = async () => {
    await app.client.request("interaction.revokeLinks", { sessionId: id }, { repeat: true }).catch(() => {});
    await load();
  };
  const end = async () => {
    cancel.disabled = true;
    await app.client.request("interaction.cancel", { sessionId: id, reason: "cancelled in the console" }, { repeat: true }).catch(() => {});
    cancel.disabled = false;
    await load();
  };
  /** Shows what the list knows of a session that the user may not read. @param {unknown} error */
  const refused = (error) => {
    const row = app.sessions.rows.get(id);
    fill(history);
    if (!row) return fill(now, empty("Session not found", "It was removed after it ended, or it belongs to someone else."), problem(error));
    fill(title, row.toolName);
    showState(row.state);
    cancel.hidden = true;
    fill(facts, `${short(id)} · started ${minute(row.createdAt)}`);
    fill(now, empty(`Owned by ${row.owner}`, "Only the owner can read and answer it."));
  };
  const changed = (/** @type {Event} */ event) => {
    const ids = /** @type {CustomEvent} */ (event).detail.changed;
    if (ids && !ids.includes(id)) return;
    const row = app.sessions.rows.get(id);
    const far = row && phaseOf(row.state) !== "finished" ? row.progress : undefined;
    bar.element.hidden = !far;
    if (far) bar.set(far.current, far.total);
    load();
  };
  const expired = (/** @type {Event} */ event) => /** @type {CustomEvent} */ (event).detail.sessionId === id && load();
  app.sessions.addEventListener("change", changed);
  app.client.addEventListener("expired", expired);
  const clock = setInterval(showTime, 5000);
  load();
  return {
    element,
    dispose() {
      isOver = true;
      clearInterval(clock);
      app.sessions.removeEventListener("change", changed);
      app.client.removeEventListener("expired", expired);
    },
  };
}

/** A question and its answer. @param {any} turn */
function turn({ prompt, response, timestamp }) {
  return [
    h("li", { class: "said asked" }, h("p", null, prompt.message)),
    h("li", { class: "said answered" }, h("p", null, spoken(prompt, response.value)), h("time", { class: "small" }, minute(timestamp))),
  ];
}

/** Display text of an answer. @param {any} prompt @param {any} value */
function spoken(prompt, value) {
  const chosen = (prompt.choices ?? []).find((/** @type {any} */ one) => JSON.stringify(one.value) === JSON.stringify(value));
  if (chosen) return chosen.label;
  if (typeof value === "boolean") return value ? "Yes" : "No";
  if (prompt.type === "file" && value?.name) return `📎 ${value.name}`;
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** Renders the result of a session. @param {any} state */
function ending({ state, result, summary, metadata = {} }) {
  const failed = result?.success === false || state !== "completed";
  const why = metadata.reason ?? metadata.error?.message ?? EXPIRED[metadata.error?.limit] ?? null;
  const words = summary ?? why ?? "Ended without a result.";
  const values = result?.data ?? {};
  return h(
    "div",
    { class: `card tomb ${failed ? "failed" : ""}` },
    h("h3", null, state === "completed" && !failed ? "Completed" : wordFor(state)),
    h("p", null, words),
    why && summary && h("p", { class: "muted" }, why),
    Object.keys(values).length > 0 && data(values),
  );
}

/** A session whose flow has changed, with both sides. @param {{recorded: string, asked: string}} stuck */
function stuckWith({ recorded, asked }) {
  return h(
    "div",
    { class: "card tomb failed" },
    h("h3", null, "Stuck"),
    h("p", null, "The code of the flow has changed. The session goes on when code that fits runs, or can be cancelled."),
    h("p", { class: "muted" }, `Recorded: ${recorded}`),
    h("p", { class: "muted" }, `Now: ${asked}`),
  );
}

/** Reasons of expiry, by the limit that was reached. @type {Record<string, string>} */
const EXPIRED = { inactivity: "Expired: no answer in time.", duration: "Expired: maximum duration reached." };
