// @ts-check
// A workflow run: finished steps with their output, the current step, the remaining steps. Uses the
// workflow tools only, and follows runs that another client continues.

import { eachFrame, fill, h, icon, unique } from "../lib/dom.js";
import { downloads } from "../lib/downloads.js";
import { ago, plural, short } from "../lib/format.js";
import { ICONS } from "../lib/icons.js";
import { markdown } from "../lib/markdown.js";
import { button, fold, problem } from "../lib/parts.js";
import { phaseOf } from "../lib/sessions.js";

/** The flow that runs are sessions of. */
const FLOW = "workflow_run";

/** Calls a workflow tool and returns its structured result. @param {import("../app.js").App} app @param {string} name @param {object} args */
export async function ask(app, name, args) {
  const result = await app.client.call(name, args);
  const text = result.content?.[0]?.text ?? "{}";
  if (result.isError) throw new Error(text);
  return result.structuredContent ?? JSON.parse(text);
}

/** The runs of a workflow, kept up to date. @param {import("../app.js").App} app @param {any} workflow @param {string | undefined} opened @param {AbortSignal} shown */
export function runList(app, workflow, opened, shown) {
  const list = h("ul", { class: "runs", "aria-label": "Runs", hidden: true });
  const load = async () => {
    const { runs } = await ask(app, "workflow_status", {});
    if (shown.aborted) return;
    const own = runs.filter((/** @type {any} */ run) => run.workflowId === workflow.id);
    own.sort((/** @type {any} */ one, /** @type {any} */ other) => other.changedAt - one.changedAt);
    list.hidden = own.length === 0;
    fill(list, ...own.slice(0, 8).map((/** @type {any} */ run) => listed(workflow, run, run.runId === opened)));
  };
  const change = whenRunsChange(app, () => load().catch(() => {}));
  app.sessions.addEventListener("change", change, { signal: shown });
  load().catch((error) => list.replaceWith(problem(error)));
  return list;
}

/** @param {any} workflow @param {any} run @param {boolean} isOpen */
function listed(workflow, run, isOpen) {
  const href = `#/workflows/${encodeURIComponent(workflow.id)}/${run.runId}`;
  const [word, kind] = standing(run.state, run.waitsForPerson ? "waiting_for_confirmation" : "step");
  return h(
    "li",
    null,
    h("a", { href, "aria-current": isOpen ? "true" : undefined }, `Run ${short(run.runId)}`),
    h("span", { class: `chip ${kind}` }, word),
    h("span", { class: "muted small" }, `${plural(run.stepsDone, "step")} done · ${ago(run.changedAt)}`),
  );
}

/** One run. @param {import("../app.js").App} app @param {any} workflow @param {string} id @param {AbortSignal} shown */
export function runTrack(app, workflow, id, shown) {
  const chip = h("span", { class: "chip" });
  const status = h("p", { class: "muted", role: "status" });
  const track = h("ol", { class: "track" });
  const actions = h("div", { class: "actions" });
  let shownState = "";
  let isActing = false;
  /** @param {any} run */
  const show = (run) => {
    const [word, kind] = standing("", run.status);
    fill(chip, word);
    chip.className = `chip ${kind}`;
    const done = run.done ?? [];
    fill(status, `${plural(done.length, "step")} done of ${workflow.name} ${run.workflow?.version ?? ""}`);
    const isOver = kind === "finished";
    fill(actions, button("Export Markdown", save), !isOver && button("Cancel run", cancel, { class: "button danger" }));
    // What is being typed stays as it is until the run has moved.
    const state = JSON.stringify([run.status, run.token && run.step, run.turnId, done.length, run.issues]);
    if (state === shownState) return;
    shownState = state;
    fill(track, ...items(run, done));
  };
  /** @param {any} run @param {any[]} done */
  const items = (run, done) => {
    const doneIds = new Set(done.map(({ stepId }) => stepId));
    const past = done.map((one, place) => item(place + 1, "done", one.title, [one.round && `round ${one.round}`, one.confirmed && "confirmed"], fold("Output", markdown(one.output))));
    const now = current(run, done.length + 1);
    const isOver = standing("", run.status)[1] === "finished";
    const left = isOver ? [] : workflow.steps.filter((/** @type {any} */ step) => !doneIds.has(step.id) && !covers(step, run.step?.id) && ![...doneIds].some((one) => covers(step, one)));
    return [...past, ...now, ...left.map((/** @type {any} */ step, /** @type {number} */ place) => item(done.length + now.length + place + 1, "open", step.title ?? step.id, [step.requireConfirmation === true && "needs confirmation"]))];
  };
  /** Items of the current step or question. @param {any} run @param {number} number */
  const current = (run, number) => {
    if (run.step) {
      const wrong = [...(run.issues ?? []), ...(run.suggestions ?? [])];
      const form = stepForm(run.step, (given) => act(() => ask(app, "workflow_continue", { token: run.token, ...given })));
      return [item(number, "next", run.step.title, ["next", run.step.round && `round ${run.step.round}`], h("div", { class: "card" }, wrong.length > 0 && h("ul", { class: "problem plain-list", role: "alert" }, ...wrong.map((one) => h("li", null, one))), markdown(run.step.prompt), form))];
    }
    if (run.status !== "waiting_for_confirmation") return run.reason ? [item(number, "open", run.reason, [])] : [];
    const say = (/** @type {boolean} */ value) => act(() => app.client.request("interaction.respond", { sessionId: id, response: { value, turnId: run.turnId } }));
    const question = h("div", { class: "card" }, markdown(run.question), h("div", { class: "actions" }, button("Approve", () => say(true), { class: "button primary" }), button("Reject and redo", () => say(false))));
    return [item(number, "next", "Confirmation required", ["needs confirmation"], question)];
  };
  /** Changes the run, and shows the result. @param {() => Promise<unknown>} work */
  const act = async (work) => {
    isActing = true;
    try {
      await work();
    } catch (error) {
      fill(status, problem(error));
    }
    isActing = false;
    shownState = "";
    await load();
  };
  const load = async () => {
    const run = await ask(app, "workflow_status", { runId: id });
    if (!shown.aborted) show(run);
  };
  const save = async () => {
    const told = await app.client.call("workflow_status", { runId: id, format: "markdown" });
    downloads.save(`${workflow.id}-${short(id)}.md`, new Blob([told.content[0].text], { type: "text/markdown" }));
  };
  const cancel = () => act(() => app.client.request("interaction.cancel", { sessionId: id, reason: "cancelled in the console" }));
  // Changes by this page are shown when they are done: shown twice, input in between would be lost.
  const follow = whenRunsChange(app, () => isActing || load().catch(() => {}), id);
  app.sessions.addEventListener("change", follow, { signal: shown });
  load().catch((error) => fill(status, problem(error)));
  return h("section", { class: "run", "aria-label": "Run" }, h("div", { class: "run-head" }, h("div", { class: "chips" }, h("h3", null, `Run ${short(id)}`), chip), actions), status, track);
}

/** Form that answers a step. @param {any} step @param {(given: object) => Promise<void>} give */
function stepForm(step, give) {
  const [output, context] = [unique("output"), unique("context")];
  const text = h("textarea", { id: output, rows: 4, required: true });
  const known = h("textarea", { id: context, rows: 2, spellcheck: false, placeholder: "name=value, one a line" });
  const send = h("button", { type: "submit", class: "button primary" }, "Continue");
  const onlyContext = step.asksFor === "context";
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    send.disabled = true;
    const given = readContext(known.value);
    await give({ ...(onlyContext ? {} : { output: text.value }), ...(Object.keys(given).length > 0 ? { context: given } : {}) });
    send.disabled = false;
  };
  const field = (/** @type {string} */ id, /** @type {string} */ label, /** @type {HTMLElement} */ input) => h("div", { class: "field" }, h("label", { htmlFor: id }, label), input);
  const more = field(context, "Context", known);
  return h("form", { class: "fields", onsubmit: submit }, !onlyContext && field(output, "Output", text), onlyContext ? more : fold("Context for later steps", more), h("div", { class: "actions" }, send));
}

/** `name=value` a line, where the value is JSON, or plain text if it is none. @param {string} text */
function readContext(text) {
  /** @type {Record<string, unknown>} */ const context = {};
  for (const line of text.split("\n")) {
    const place = line.indexOf("=");
    if (place < 1) continue;
    const value = line.slice(place + 1).trim();
    try {
      context[line.slice(0, place).trim()] = JSON.parse(value);
    } catch {
      context[line.slice(0, place).trim()] = value;
    }
  }
  return context;
}

/** One step of the track. @param {number} number @param {string} state @param {string} title @param {(string | false | undefined | null | 0)[]} chips @param {...import("../lib/dom.js").Child} body */
export function item(number, state, title, chips, ...body) {
  const mark = h("span", { class: "step-mark", "aria-hidden": "true" }, state === "done" ? icon(ICONS.check) : number);
  const shown = chips.filter(Boolean).map((chip) => h("span", { class: chip === "next" ? "chip accent" : "chip" }, /** @type {string} */ (chip)));
  return h("li", { class: "step", "data-state": state }, mark, h("div", { class: "step-body" }, h("h3", null, title, ...shown), ...body));
}

/** Returns whether a step is this one, or a loop with it. @param {any} step @param {string | undefined} id */
function covers(step, id) {
  if (step.id === id || step.body === id) return true;
  return Array.isArray(step.body) && step.body.some((/** @type {any} */ one) => one.id === id);
}

/** Status of a run, in words, and as a phase. @param {string} state @param {string} status @returns {[string, string]} */
function standing(state, status) {
  if (state === "completed" || status === "complete") return ["complete", "finished"];
  if (state === "cancelled" || status === "cancelled") return ["cancelled", "finished"];
  if (state === "error" || status === "failed" || status === "expired") return ["failed", "finished"];
  if (status === "waiting_for_confirmation") return ["waiting for confirmation", "waiting"];
  if (phaseOf(state || "waiting_user") === "working" || status === "working") return ["running", "working"];
  return [status === "refused" ? "rejected" : "in progress", "waiting"];
}

/** Calls back when a run has moved, this one if it is named, at most once a frame. @param {import("../app.js").App} app @param {() => void} then @param {string} [id] */
function whenRunsChange(app, then, id) {
  const soon = eachFrame(then);
  return (/** @type {Event} */ event) => {
    const changed = /** @type {CustomEvent} */ (event).detail?.changed;
    const concerns = (/** @type {string} */ one) => (id ? one === id : app.sessions.rows.get(one)?.toolName === FLOW);
    if (!changed || changed.some(concerns)) soon();
  };
}
