// @ts-check
// Server-sent events of a response; `EventSource` cannot send headers.

/**
 * Yields the events of a response.
 *
 * @param {Response} response
 * @returns {AsyncGenerator<{id: string, data: string}>}
 */
export async function* events(response) {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let event = { id: "", data: "" };
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (line === "" || line === "\r") {
          if (event.id || event.data) yield event;
          event = { id: "", data: "" };
        } else {
          add(event, line.replace(/\r$/, ""));
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** @param {{id: string, data: string}} event @param {string} line */
function add(event, line) {
  const colon = line.indexOf(":");
  // A line that starts with a colon is a comment, used as a keep-alive.
  if (colon === 0) return;
  const name = colon < 0 ? line : line.slice(0, colon);
  const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
  if (name === "data") event.data += event.data ? `\n${value}` : value;
  if (name === "id") event.id = value;
}
