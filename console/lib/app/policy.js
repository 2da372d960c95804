// @ts-check
// The security policy of an app's page, from what its server declares. Nothing is allowed that is not
// declared, and of that only origins of encrypted connections.

/** Origins an app asks for, by purpose. @typedef {{connectDomains: string[], resourceDomains: string[], frameDomains: string[], baseUriDomains: string[]}} Origins */

/** An origin, perhaps with a wildcard for subdomains. Anything else could begin another directive. */
const ORIGIN = /^(https|wss):\/\/(\*\.)?[a-z0-9-]+(\.[a-z0-9-]+)*(:[0-9]{1,5})?$/i;

/** Origins of each kind that are used at most. */
const MOST = 32;

/** The declared origins that can be allowed. @param {any} csp @returns {Origins} */
export function originsOf(csp) {
  const read = (/** @type {string} */ name) => {
    const listed = Array.isArray(csp?.[name]) ? csp[name] : [];
    const good = listed.filter((/** @type {unknown} */ one) => typeof one === "string" && one.length <= 256 && ORIGIN.test(one));
    return /** @type {string[]} */ ([...new Set(good)].slice(0, MOST));
  };
  return { connectDomains: read("connectDomains"), resourceDomains: read("resourceDomains"), frameDomains: read("frameDomains"), baseUriDomains: read("baseUriDomains") };
}

/** All origins, once each. @param {Origins} origins */
export function allOrigins(origins) {
  return [...new Set(Object.values(origins).flat())];
}

/** The Content-Security-Policy of the page. @param {Origins} origins */
export function policyFor({ connectDomains, resourceDomains, frameDomains, baseUriDomains }) {
  const some = (/** @type {string[]} */ ...sources) => (sources.length > 0 ? sources.join(" ") : "'none'");
  return [
    "default-src 'none'",
    `script-src ${some("'unsafe-inline'", ...resourceDomains)}`,
    `style-src ${some("'unsafe-inline'", ...resourceDomains)}`,
    `img-src ${some("data:", "blob:", ...resourceDomains)}`,
    `font-src ${some("data:", ...resourceDomains)}`,
    `media-src ${some("data:", "blob:", ...resourceDomains)}`,
    `connect-src ${some(...connectDomains)}`,
    `frame-src ${some(...frameDomains)}`,
    `base-uri ${some(...baseUriDomains)}`,
    "object-src 'none'",
    "form-action 'none'",
  ].join("; ");
}
