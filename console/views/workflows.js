// @ts-check
// Workflows: their steps as a track, how far a run has come, and both to take away as a file.

import { fill, h, icon } from "../lib/dom.js";
import { downloads } from "../lib/downloads.js";
import { ago, plural, short } from "../lib/format.js";
import { ICONS } from "../lib/icons.js";
import { markdown } from "../lib/markdown.js";
import { button, empty, fold, head, problem, search, toast } from "../lib/parts.js";
import { phaseOf, wordFor } from "../lib/sessions.js";

/** @param {import("../app.js").App} app @returns {import("../app.js").View} */
export function workflowsView(app) {
  const list = h("ul", { class: "pick-list" });
  const detail = h("section", { class: "detail", "aria-label": "Workflow" });
  const count = h("p", { class: "muted small" });
  /** @type {any[]} */ let workflows = [];
  let wanted = "";
  let path = app.path;
  /** Aborted when another workflow is shown. */ let leaving = new AbortController();

  const show = () => {
    const found = workflows.filter((one) => `${one.id} ${one.name} ${one.description} ${one.category}`.toLowerCase().includes(wanted));
    fill(count, plural(found.length, "workflow"));
    fill(list, ...found.map((one) => entry(one, path[0] === one.id)));
  };
  /** @param {string[]} to */
  const open = async (to) => {
    path = to;
    leaving.abort();
    leaving = new AbortController();
    split.classList.toggle("opened", path[0] !== undefined);
    show();
    const [id] = path;
    if (id === undefined) return fill(detail, empty("Pick a workflow", "Its steps are shown as a track, with how far you have come."));
    try {
      const workflow = await ask(app, "workflow_get", { id });
      if (path[0] === id) fill(detail, ...track(app, workflow, AbortSignal.any([app.signal, leaving.signal])));
    } catch (error) {
      fill(detail, problem(error));
    }
  };
  const load = async () => {
    try {
      const tools = await app.client.list("tools/list", "tools");
      if (!tools.some((tool) => tool.name === "workflow_list")) {
        return fill(detail, empty("No workflows", "This server offers none."));
      }
      ({ workflows } = await ask(app, "workflow_list", {}));
      open(path);
    } catch (error) {
      fill(detail, problem(error));
    }
  };
  const finder = search("Find a workflow", (text) => {
    wanted = text;
    show();
  });
  const split = h("div", { class: "split" }, h("div", { class: "pick" }, finder, count, list), detail);
  load();
  return { element: h("div", { class: "view" }, head("Workflows", "Work in steps, and how far it has come."), split), open };
}

/** Calls a workflow tool, and gives what it says as data. @param {import("../app.js").App} app @param {string} name @param {object} args */
async function ask(app, name, args) {
  const result = await app.client.call(name, args);
  const text = result.content?.[0]?.text ?? "{}";
  if (result.isError) throw new Error(text);
  return result.structuredContent ?? JSON.parse(text);
}

/** @param {any} one @param {boolean} isOpen */
function entry(one, isOpen) {
  return h(
    "li",
    null,
    h(
      "a",
      { href: `#/workflows/${encodeURIComponent(one.id)}`, "aria-current": isOpen ? "true" : undefined },
      h("span", { class: "pick-name" }, one.name, h("span", { class: "muted small numbers" }, one.version)),
      h("span", { class: "pick-about muted" }, one.description),
    ),
  );
}

/** @param {import("../app.js").App} app @param {any} workflow @param {AbortSignal} shown */
function track(app, workflow, shown) {
  /** @type {Set<string>} */ const done = new Set();
  const status = h("p", { class: "muted", role: "status" });
  const steps = h("ol", { class: "track" });
  const isDone = (/** @type {any} */ step) => done.has(step.id);
  let next = "";
  let guidance = "";
  const draw = () => {
    const of = workflow.steps.length;
    fill(status, done.size === of ? `All ${of} steps are done.` : `${done.size} of ${plural(of, "step")} done.`);
    fill(
      steps,
      ...workflow.steps.map((/** @type {any} */ step, /** @type {number} */ place) =>
        stepItem(step, place + 1, isDone(step) ? "done" : step.id === next ? "next" : "open", step.id === next ? guidance : "", () => {
          done.add(step.id);
          advance();
        }),
      ),
    );
  };
  const advance = async () => {
    try {
      const found = await ask(app, "workflow_next", { workflowId: workflow.id, completedSteps: [...done] });
      next = found.isComplete ? "" : (found.step?.id ?? "");
      guidance = found.guidance?.prompt ?? "";
    } catch (error) {
      toast(String(/** @type {Error} */ (error).message));
    }
    draw();
  };
  const restart = () => {
    done.clear();
    advance();
  };
  const save = () => downloads.save(`${workflow.id}.json`, new Blob([JSON.stringify(workflow, null, 2)], { type: "application/json" }));
  draw();
  advance();
  return [
    h("a", { class: "back", href: "#/workflows" }, "All workflows"),
    h(
      "header",
      { class: "detail-head row-head" },
      h("div", null, h("div", { class: "chips" }, h("h2", null, workflow.name), workflow.version && h("span", { class: "chip" }, workflow.version)), h("p", null, workflow.description)),
      h("div", { class: "actions" }, button("Start over", restart, { class: "button quiet" }), button("Export", save)),
    ),
    (workflow.preconditions ?? []).length > 0 && fold("What has to be there before", h("ul", { class: "plain-list" }, ...workflow.preconditions.map((/** @type {string} */ one) => h("li", null, one)))),
    runs(app, workflow, shown),
    status,
    steps,
  ].filter(Boolean);
}

/** @param {any} step @param {number} number @param {string} state @param {string} guidance @param {() => void} finish */
function stepItem(step, number, state, guidance, finish) {
  const mark = h("span", { class: "step-mark", "aria-hidden": "true" }, state === "done" ? icon(ICONS.check) : number);
  const words = { done: "done", next: "next", open: "" }[state];
  return h(
    "li",
    { class: "step", "data-state": state },
    mark,
    h(
      "div",
      { class: "step-body" },
      h("h3", null, step.title ?? step.id, words && h("span", { class: state === "next" ? "chip accent" : "chip" }, words), step.requireConfirmation === true && h("span", { class: "chip" }, "needs a yes")),
      state === "next" ? h("div", { class: "card" }, markdown(guidance || String(step.prompt ?? "")), h("div", { class: "actions" }, button("Done", finish, { class: "button primary" }))) : h("p", { class: "muted small step-prompt" }, String(step.prompt ?? "")),
    ),
  );
}

/** Runs of a workflow are conversations, where they are kept. @param {import("../app.js").App} app @param {any} workflow @param {AbortSignal} shown */
function runs(app, workflow, shown) {
  const list = h("ul", { class: "runs" });
  const show = () => {
    const own = app.sessions.ordered.filter((row) => row.toolName === workflow.id || row.toolName === `workflow.${workflow.id}`);
    list.hidden = own.length === 0;
    fill(
      list,
      ...own.slice(0, 8).map((row) =>
        h("li", null, h("a", { href: `#/conversations/${row.sessionId}` }, `Run ${short(row.sessionId)}`), h("span", { class: `chip ${phaseOf(row.state)}` }, wordFor(row.state)), h("span", { class: "muted small" }, ago(row.lastActivityAt))),
      ),
    );
  };
  app.sessions.addEventListener("change", show, { signal: shown });
  show();
  return list;
}
