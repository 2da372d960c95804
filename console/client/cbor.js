// @ts-check
// CBOR (RFC 8949), as far as JSON goes: what cannot be said in JSON is not written, and refused when
// it comes. Everything read is bounded by the bytes there are and by how deep it goes.

/** A value as bytes, where `JSON.stringify` would give the same value as text. @param {any} value */
export function encode(value) {
  const writer = new Writer();
  writer.value(value);
  return writer.bytes();
}

/** The value that bytes stand for; throws if they stand for none. @param {Uint8Array} bytes @returns {any} */
export function decode(bytes) {
  const reader = new Reader(bytes);
  const value = reader.value(0);
  if (!reader.isAtEnd) throw new Error("there are extra bytes after the message");
  return value;
}

class Writer {
  #buffer = new Uint8Array(256);
  #length = 0;

  bytes() {
    return this.#buffer.subarray(0, this.#length);
  }

  /** @param {any} value */
  value(value) {
    switch (typeof value) {
      case "string":
        return this.#text(value);
      case "number":
        return this.#number(value);
      case "boolean":
        return this.#byte(value ? TRUE : FALSE);
      case "object":
        if (value === null) return this.#byte(NULL);
        if (Array.isArray(value)) {
          this.#head(ARRAY, value.length);
          return value.forEach((item) => this.value(item));
        }
        return this.#map(value);
      default:
        return this.#byte(NULL);
    }
  }

  /** @param {object} value */
  #map(value) {
    const isSaid = (/** @type {[string, any]} */ [, member]) => member !== undefined && typeof member !== "function";
    const members = Object.entries(value).filter(isSaid);
    this.#head(MAP, members.length);
    for (const [name, member] of members) {
      this.#text(name);
      this.value(member);
    }
  }

  /** @param {number} value */
  #number(value) {
    if (!Number.isFinite(value)) return this.#byte(NULL);
    if (Number.isSafeInteger(value)) {
      return value < 0 ? this.#head(NEGATIVE, -1 - value) : this.#head(POSITIVE, value);
    }
    this.#byte(DOUBLE);
    const place = this.#room(8);
    view(this.#buffer).setFloat64(place, value);
  }

  /** @param {string} text */
  #text(text) {
    // A character of UTF-16 is three bytes of UTF-8 at most.
    const most = text.length * 3;
    if (most < 24 * 3) {
      // The head of a text this short takes one byte or two; which is known when it is written.
      this.#reserve(2 + most);
      const { written } = encoder.encodeInto(text, this.#buffer.subarray(this.#length + 2));
      const head = written < 24 ? 1 : 2;
      if (head === 1) this.#buffer.copyWithin(this.#length + 1, this.#length + 2, this.#length + 2 + written);
      this.#head(TEXT, written);
      this.#length += written;
      return;
    }
    const bytes = encoder.encode(text);
    this.#head(TEXT, bytes.length);
    const place = this.#room(bytes.length);
    this.#buffer.set(bytes, place);
  }

  /** The kind of what follows, and how much of it there is. @param {number} kind @param {number} count */
  #head(kind, count) {
    const major = kind << 5;
    if (count < 24) return this.#byte(major | count);
    const [extra, size] = count < 2 ** 8 ? [24, 1] : count < 2 ** 16 ? [25, 2] : count < 2 ** 32 ? [26, 4] : [27, 8];
    this.#byte(major | extra);
    const place = this.#room(size);
    for (let left = size, rest = count; left > 0; left--, rest = Math.floor(rest / 256)) {
      this.#buffer[place + left - 1] = rest % 256;
    }
  }

  /** @param {number} byte */
  #byte(byte) {
    const place = this.#room(1);
    this.#buffer[place] = byte;
  }

  /** Takes room, and says where it is. @param {number} size */
  #room(size) {
    this.#reserve(size);
    const place = this.#length;
    this.#length += size;
    return place;
  }

  /** @param {number} size */
  #reserve(size) {
    const needed = this.#length + size;
    if (needed <= this.#buffer.length) return;
    const larger = new Uint8Array(Math.max(needed, 2 * this.#buffer.length));
    larger.set(this.#buffer);
    this.#buffer = larger;
  }
}

class Reader {
  #place = 0;
  #bytes;
  #view;

  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    this.#bytes = bytes;
    this.#view = view(bytes);
  }

  get isAtEnd() {
    return this.#place === this.#bytes.length;
  }

  /** @param {number} depth How many lists and maps it is in. @returns {any} */
  value(depth) {
    if (depth > DEEPEST) throw new Error("the message goes too deep");
    const first = this.#byte();
    const [kind, extra] = [first >> 5, first & 31];
    switch (kind) {
      case POSITIVE:
        return this.#count(extra);
      case NEGATIVE:
        return -1 - this.#count(extra);
      case TEXT:
        return this.#text(extra);
      case ARRAY:
        return this.#items(extra, () => this.value(depth + 1));
      case MAP:
        // Made of entries, so that no name of a member means anything to the object itself.
        return Object.fromEntries(this.#items(extra, () => [this.#name(), this.value(depth + 1)]));
      case SIMPLE:
        return this.#simple(extra);
      default:
        throw new Error("the message has a value that JSON cannot represent");
    }
  }

  #name() {
    const first = this.#byte();
    if (first >> 5 !== TEXT) throw new Error("a map key is not a string");
    return this.#text(first & 31);
  }

  /**
   * Items until there are enough, or until the end if nobody has counted them.
   *
   * @template T
   * @param {number} extra
   * @param {() => T} item
   * @returns {T[]}
   */
  #items(extra, item) {
    /** @type {T[]} */ const items = [];
    if (extra === OPEN) {
      while (this.#bytes[this.#place] !== BREAK) items.push(item());
      this.#place++;
      return items;
    }
    for (let left = this.#count(extra); left > 0; left--) items.push(item());
    return items;
  }

  /** @param {number} extra @returns {string} */
  #text(extra) {
    if (extra === OPEN) {
      return this.#items(extra, () => {
        const first = this.#byte();
        if (first >> 5 !== TEXT || (first & 31) === OPEN) throw new Error("a chunk of a text string has another type");
        return this.#text(first & 31);
      }).join("");
    }
    const place = this.#skip(this.#count(extra));
    return decoder.decode(this.#bytes.subarray(place, this.#place));
  }

  /** @param {number} extra */
  #simple(extra) {
    switch ((SIMPLE << 5) | extra) {
      case FALSE:
        return false;
      case TRUE:
        return true;
      case NULL:
      case UNDEFINED:
        return null;
      case HALF:
        return half(this.#view.getUint16(this.#skip(2)));
      case FLOAT:
        return this.#view.getFloat32(this.#skip(4));
      case DOUBLE:
        return this.#view.getFloat64(this.#skip(8));
      default:
        throw new Error("the message has a value that JSON cannot represent");
    }
  }

  /** A number of up to 64 bits; as in JSON, the largest lose their last digits. @param {number} extra */
  #count(extra) {
    switch (extra) {
      case 24:
        return this.#byte();
      case 25:
        return this.#view.getUint16(this.#skip(2));
      case 26:
        return this.#view.getUint32(this.#skip(4));
      case 27:
        return Number(this.#view.getBigUint64(this.#skip(8)));
      default:
        if (extra > 23) throw new Error("the message is malformed");
        return extra;
    }
  }

  #byte() {
    return this.#view.getUint8(this.#skip(1));
  }

  /** Goes on by so many bytes, and says from where. @param {number} size */
  #skip(size) {
    const place = this.#place;
    if (size > this.#bytes.length - place) throw new Error("the message ends too early");
    this.#place += size;
    return place;
  }
}

/** @param {number} bits */
function half(bits) {
  const [sign, exponent, fraction] = [bits & 0x8000 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** @param {Uint8Array} bytes */
function view(bytes) {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

// The kinds of items, as the first three bits of an item say them.
const [POSITIVE, NEGATIVE, TEXT, ARRAY, MAP, SIMPLE] = [0, 1, 3, 4, 5, 7];

// Items that are whole bytes.
const [FALSE, TRUE, NULL, UNDEFINED, HALF, FLOAT, DOUBLE, BREAK] = [0xf4, 0xf5, 0xf6, 0xf7, 0xf9, 0xfa, 0xfb, 0xff];

/** Stands for a count that is left open. */
const OPEN = 31;

/** Deepest nesting of lists and maps. */
const DEEPEST = 128;
