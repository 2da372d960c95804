// @ts-check
// Errors of the client.

/** An error response of the server. */
export class RpcError extends Error {
  /** @param {{code: number, message: string, data?: any}} error */
  constructor({ code, message, data }) {
    super(message);
    this.name = "RpcError";
    this.code = code;
    this.data = data;
  }
}

/** Connecting failed. Status 401 means that a token is required. */
export class ConnectError extends Error {
  /** @param {string} message @param {number} [status] */
  constructor(message, status) {
    super(message);
    this.name = "ConnectError";
    this.status = status;
  }
}

/** The server cannot be reached by any transport. */
export class UnreachableError extends ConnectError {}

/** The connection was lost before the response; the request may have been processed. */
export class LostError extends Error {
  /** @param {string} message */
  constructor(message) {
    super(message);
    this.name = "LostError";
  }
}
