// The ZIP around a record: its entries by name, unpacked when asked for. Whatever is odd about it is an error.

import { inflate } from "./inflate.js";

const MOST_UNPACKED = 512 * 2 ** 20;
const END = 0x06054b50;
const DIRECTORY = 0x02014b50;
const LOCAL = 0x04034b50;

// What is wrong with a record, as a name in `words.js` and the values of its message.
export class RecordError extends Error {
  constructor(reason, ...values) {
    super([reason, ...values].join(" "));
    this.reason = reason;
    this.values = values;
  }
}

let crcTable = null;
function checksum(bytes) {
  crcTable ??= Uint32Array.from({ length: 256 }, (_, byte) => {
    let value = byte;
    for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
    return value;
  });
  let value = 0xffffffff;
  for (let i = 0; i < bytes.length; i += 1) value = crcTable[(value ^ bytes[i]) & 255] ^ (value >>> 8);
  return (value ^ 0xffffffff) >>> 0;
}

export class Archive {
  constructor(bytes) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.entries = this.#directory();
  }

  #directory() {
    const { view, bytes } = this;
    let end = bytes.length - 22;
    const first = Math.max(0, end - 65535); // a comment may follow
    while (end >= first && view.getUint32(end, true) !== END) end -= 1;
    if (end < first || bytes.length < 22) throw new RecordError("notZip");
    const count = view.getUint16(end + 10, true);
    let at = view.getUint32(end + 16, true);
    const entries = new Map();
    let unpacked = 0;
    for (let i = 0; i < count; i += 1) {
      if (at + 46 > bytes.length || view.getUint32(at, true) !== DIRECTORY) throw new RecordError("damaged");
      const [nameLength, extra, comment] = [28, 30, 32].map((offset) => view.getUint16(at + offset, true));
      const name = new TextDecoder().decode(bytes.subarray(at + 46, at + 46 + nameLength));
      const entry = {
        name,
        flags: view.getUint16(at + 8, true),
        method: view.getUint16(at + 10, true),
        crc: view.getUint32(at + 16, true),
        packed: view.getUint32(at + 20, true),
        size: view.getUint32(at + 24, true),
        offset: view.getUint32(at + 42, true),
      };
      if (!/^(manifest\.json|data\/[\w.-]+)$/.test(name) || name.includes("..")) throw new RecordError("entryName", name);
      if (entries.has(name)) throw new RecordError("entryTwice", name);
      if (entry.flags & 1) throw new RecordError("entryLocked", name);
      if (entry.method !== 0 && entry.method !== 8) throw new RecordError("entryMethod", name);
      unpacked += entry.size;
      if (unpacked > MOST_UNPACKED) throw new RecordError("tooLarge");
      entries.set(name, entry);
      at += 46 + nameLength + extra + comment;
    }
    return entries;
  }

  size(name) {
    const entry = this.entries.get(name);
    if (!entry) throw new RecordError("entryMissing", name);
    return entry.size;
  }

  read(name) {
    this.size(name);
    const { view, bytes } = this;
    const { offset, packed, size, method, crc } = this.entries.get(name);
    if (offset + 30 > bytes.length || view.getUint32(offset, true) !== LOCAL) throw new RecordError("damaged");
    const start = offset + 30 + view.getUint16(offset + 26, true) + view.getUint16(offset + 28, true);
    if (start + packed > bytes.length) throw new RecordError("damaged");
    const data = bytes.subarray(start, start + packed);
    let unpacked;
    try {
      unpacked = method === 0 ? data.slice() : inflate(data, size);
    } catch {
      throw new RecordError("entryDamaged", name);
    }
    if (unpacked.length !== size || checksum(unpacked) !== crc) throw new RecordError("entryDamaged", name);
    return unpacked;
  }
}
