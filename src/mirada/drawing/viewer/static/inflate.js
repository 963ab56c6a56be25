// Raw DEFLATE (RFC 1951), at once and in one call: what a record holds can be asked for as soon as the page has loaded.

const LENGTH_START = [
  3,
  4,
  5,
  6,
  7,
  8,
  9,
  10,
  11,
  13,
  15,
  17,
  19,
  23,
  27,
  31,
  35,
  43,
  51,
  59,
  67,
  83,
  99,
  115,
  131,
  163,
  195,
  227,
  258,
];
const LENGTH_EXTRA = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
const REACH_START = [
  1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289,
  16385, 24577,
];
const REACH_EXTRA = [0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13];
const CODE_ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

export class DeflateError extends Error {}

// A canonical Huffman code as a table: the next bits of the input are its index, an entry is symbol * 16 + length.
function huffman(lengths) {
  const counts = new Uint16Array(16);
  for (const length of lengths) counts[length] += 1;
  counts[0] = 0;
  let longest = 15;
  while (longest > 0 && !counts[longest]) longest -= 1;
  const next = new Uint16Array(17);
  for (let length = 1; length <= 15; length += 1) next[length + 1] = (next[length] + counts[length]) << 1;
  const table = new Uint16Array(1 << longest);
  lengths.forEach((length, symbol) => {
    if (!length) return;
    const code = next[length]++;
    if (code >= 1 << length) throw new DeflateError("more codes than their lengths allow");
    let reversed = 0;
    for (let bit = 0; bit < length; bit += 1) reversed |= ((code >> bit) & 1) << (length - 1 - bit);
    for (let index = reversed; index < table.length; index += 1 << length) table[index] = (symbol << 4) | length;
  });
  return table;
}

const fixed = () => ({
  literals: huffman(Array.from({ length: 288 }, (_, i) => (i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8))),
  reaches: huffman(new Array(30).fill(5)),
});

export function inflate(input, size) {
  const output = new Uint8Array(size);
  let at = 0; // of the input
  let hold = 0;
  let held = 0;
  let out = 0;

  const bits = (count) => {
    while (held < count) {
      hold |= input[at++] << held;
      held += 8;
    }
    const value = hold & ((1 << count) - 1);
    hold >>>= count;
    held -= count;
    return value;
  };
  const symbol = (table) => {
    while (held < 15) {
      hold |= input[at++] << held;
      held += 8;
    }
    const entry = table[hold & (table.length - 1)];
    const length = entry & 15;
    if (!length) throw new DeflateError("a code that stands for nothing");
    hold >>>= length;
    held -= length;
    return entry >> 4;
  };
  const codes = () => {
    const [literals, reaches, orders] = [bits(5) + 257, bits(5) + 1, bits(4) + 4];
    const first = new Array(19).fill(0);
    for (let i = 0; i < orders; i += 1) first[CODE_ORDER[i]] = bits(3);
    const table = huffman(first);
    const lengths = [];
    while (lengths.length < literals + reaches) {
      const code = symbol(table);
      if (code < 16) lengths.push(code);
      else {
        if (code === 16 && !lengths.length) throw new DeflateError("a repetition of nothing");
        const value = code === 16 ? lengths.at(-1) : 0;
        const times = code === 16 ? 3 + bits(2) : code === 17 ? 3 + bits(3) : 11 + bits(7);
        for (let i = 0; i < times; i += 1) lengths.push(value);
      }
      if (at > input.length + 4) throw new DeflateError("the data ends too early");
    }
    return { literals: huffman(lengths.slice(0, literals)), reaches: huffman(lengths.slice(literals, literals + reaches)) };
  };
  const stored = () => {
    at -= held >> 3; // whole bytes that were read ahead
    hold = held = 0;
    const length = input[at] | (input[at + 1] << 8);
    at += 4;
    if (at + length > input.length || out + length > size) throw new DeflateError("a stored part that does not fit");
    output.set(input.subarray(at, at + length), out);
    at += length;
    out += length;
  };
  const compressed = ({ literals, reaches }) => {
    for (;;) {
      const code = symbol(literals);
      if (code < 256) {
        if (out >= size) throw new DeflateError("more data than announced");
        output[out++] = code;
        continue;
      }
      if (code === 256) return;
      if (at > input.length + 4 || code > 285) throw new DeflateError("the data is damaged");
      const length = LENGTH_START[code - 257] + bits(LENGTH_EXTRA[code - 257]);
      const far = symbol(reaches);
      const reach = far < 30 ? REACH_START[far] + bits(REACH_EXTRA[far]) : Infinity;
      if (reach > out || out + length > size) throw new DeflateError("a copy from outside the data");
      for (let i = 0; i < length; i += 1, out += 1) output[out] = output[out - reach];
    }
  };

  for (let last = 0; !last; ) {
    last = bits(1);
    const kind = bits(2);
    if (kind === 0) stored();
    else if (kind === 1) compressed(fixed());
    else if (kind === 2) compressed(codes());
    else throw new DeflateError("an unknown kind of block");
    if (at > input.length + 4) throw new DeflateError("the data ends too early");
  }
  if (out !== size) throw new DeflateError("less data than announced");
  return output;
}
