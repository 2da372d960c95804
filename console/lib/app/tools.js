// @ts-check
// Tools that an app may call.

/** Returns whether a tool is visible to these callers, which is the default. @param {any} tool @param {"app" | "model"} callers */
export function isVisibleTo(tool, callers) {
  const visibility = tool?._meta?.ui?.visibility;
  return !Array.isArray(visibility) || visibility.includes(callers);
}

/** The app that shows the results of a tool. @param {any} tool @returns {string | null} */
export function appOf(tool) {
  const uri = tool?._meta?.ui?.resourceUri ?? tool?._meta?.["ui/resourceUri"];
  return typeof uri === "string" && uri.startsWith("ui://") ? uri : null;
}

/**
 * Finds the tool that an app means, of the server of the tool that opened the app. Behind a gateway that
 * server knows the tool without the prefix.
 *
 * @param {any[]} tools
 * @param {string} name
 * @param {any} [opener] The tool that opened the app.
 */
export function resolve(tools, name, opener) {
  const server = upstreamOf(opener);
  const own = tools.filter((one) => upstreamOf(one) === server);
  return own.find((one) => one.name === `${server}.${name}`) ?? own.find((one) => one.name === name) ?? null;
}

/** The server behind a gateway that a tool is of. @param {any} tool @returns {string | undefined} */
function upstreamOf(tool) {
  return tool?._meta?.["mcp-flow/upstream"];
}
