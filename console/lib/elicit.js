// @ts-check
// Elicitations (`elicitation/create`) in a dialog.

import { fill, h } from "./dom.js";
import { objectForm } from "./form.js";
import { link } from "./markdown.js";
import { button } from "./parts.js";

/**
 * Asks the user and returns the result of the request.
 *
 * @param {any} params
 * @returns {Promise<{action: "accept" | "decline" | "cancel", content?: any}>}
 */
export function elicit({ message, requestedSchema, url }) {
  const form = objectForm(requestedSchema ?? {});
  const problem = h("p", { class: "field-problem", role: "alert" });
  return new Promise((resolve) => {
    /** @param {"accept" | "decline" | "cancel"} action @param {any} [content] */
    const end = (action, content) => {
      resolve(content === undefined ? { action } : { action, content });
      dialog.close();
      dialog.remove();
    };
    const accept = (/** @type {Event} */ event) => {
      event.preventDefault();
      if (url) return end("accept");
      try {
        end("accept", form.read());
      } catch (error) {
        fill(problem, /** @type {Error} */ (error).message);
      }
    };
    const dialog = h(
      "dialog",
      { class: "dialog", "aria-label": "Input required" },
      h(
        "form",
        { class: "question", noValidate: true, onsubmit: accept },
        h("p", { class: "chip accent" }, "Input required"),
        h("p", { class: "question-text" }, String(message ?? "")),
        url ? h("p", null, link(String(url), String(url))) : form.element,
        problem,
        h("div", { class: "actions" }, h("button", { type: "submit", class: "button primary" }, url ? "Continue" : "Answer"), button("Decline", () => end("decline"))),
      ),
    );
    dialog.addEventListener("cancel", () => end("cancel"));
    document.body.append(dialog);
    dialog.showModal();
  });
}
