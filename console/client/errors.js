// @ts-check
// What can go wrong between a client and its server.

/** The server answered with an error. */
export class RpcError extends Error {
  /** @param {{code: number, message: string, data?: any}} error */
  constructor({ code, message, data }) {
    super(message);
    this.name = "RpcError";
    this.code = code;
    this.data = data;
  }
}

/** There is no connection to be had. A status of 401 means that a token is needed. */
export class ConnectError extends Error {
  /** @param {string} message @param {number} [status] */
  constructor(message, status) {
    super(message);
    this.name = "ConnectError";
    this.status = status;
  }
}

/** Nothing answers at the server's address, by any transport. */
export class UnreachableError extends ConnectError {}

/** The connection broke before an answer came, so nobody knows what became of the request. */
export class LostError extends Error {
  /** @param {string} message */
  constructor(message) {
    super(message);
    this.name = "LostError";
  }
}
