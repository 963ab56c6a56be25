// Which keys a query may see, from the words of a record: "Causal() & Window(left=3, right=0)". What data decided (padding, documents,
// a mask) is not in the words, and shows only in the weights.

const PART = /^(~?\w+)\(((?:[^()]|\([^()]*\))*)\)$/;
const ROWS = 1; // data decided, row by row
const COLUMNS = 2; // data decided, for all rows alike

const field = (text, name) => {
  const found = new RegExp(`\\b${name}=(\\d+|inf)\\b`).exec(text)?.[1];
  return found === undefined ? null : found === "inf" ? Infinity : Number(found);
};

const within = (left, right) => (query, key) => key >= query - left && key <= query + right;

// a part as (query, key, head) => boolean, or as what data decided; `head` null asks about all heads together
function part(name, text, square) {
  const [query, key, head] = ["query", "key", "head"].map((one) => field(text, one));
  const matches = (at, column, of) =>
    (query === null || query === at) && (key === null || key === column) && (head === null || head === of);
  if (name === "Complete") return () => true;
  if (name === "Causal" && square) return within(Infinity, 0);
  if (name === "Window" && square) return within(field(text, "left") ?? Infinity, field(text, "right") ?? 0);
  if (["~DropHead", "~Cut", "~MaskKey"].includes(name)) return (...place) => !matches(...place);
  return name === "Padding" ? COLUMNS : ROWS;
}

// {allows(query, key, head), data}: what the words say, and whether the weights must be asked as well (0: no)
export function neighborhood(where, square) {
  const found = where.split(" & ").map((one) => PART.exec(one));
  const compound = found.includes(null) || /[|]|PerHead|~\(/.test(where); // nothing that can be read part by part
  const parts = compound ? [ROWS] : found.map(([, name, text]) => part(name, text, square));
  const tests = parts.filter((one) => typeof one === "function");
  const data = parts.filter((one) => typeof one === "number");
  return {
    allows: (query, key, head) => tests.every((test) => test(query, key, head)),
    data: data.length ? Math.min(...data) : 0,
    everyHead: !/PerHead/.test(where),
  };
}

export const decidedByColumns = ({ data }) => data === COLUMNS;
