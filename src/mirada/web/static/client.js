// Requests to the server: JSON or a form, errors as messages, a token where one is required.

const KEPT = "mirada-token";

export class ServerError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function token(given) {
  if (given !== undefined) sessionStorage.setItem(KEPT, given);
  const match = /[#&]token=([^&]+)/.exec(window.location.hash);
  if (match) {
    sessionStorage.setItem(KEPT, decodeURIComponent(match[1]));
    history.replaceState(null, "", window.location.pathname + window.location.search); // removes the token from the URL
  }
  return sessionStorage.getItem(KEPT) ?? "";
}

async function request(path, options = {}) {
  const headers = { ...options.headers };
  if (token()) headers.Authorization = `Bearer ${token()}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError(0, "");
  }
  if (response.ok) return response;
  let message = `${response.status} ${response.statusText}`;
  try {
    message = (await response.json()).error ?? message;
  } catch {
    // no JSON: the status is all there is
  }
  throw new ServerError(response.status, message);
}

export const get = async (path) => (await request(path)).json();

// files are sent as a form, everything else as JSON
export function body(fields, file) {
  if (!file) return { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(fields) };
  const form = new FormData();
  form.append("file", file, file.name);
  for (const [name, value] of Object.entries(fields)) {
    if (value !== null && value !== undefined) form.append(name, typeof value === "object" ? JSON.stringify(value) : String(value));
  }
  return { method: "POST", body: form };
}

export async function answers({ input, file, ...fields }, signal) {
  const sent = file ? body(fields, file) : body({ inputs: [input], ...fields });
  return (await (await request("/api/run", { ...sent, signal })).json()).answers;
}

export async function attention({ input, file, ...fields }, signal) {
  const sent = file ? body(fields, file) : body({ input, ...fields });
  return new Uint8Array(await (await request("/api/look", { ...sent, signal })).arrayBuffer());
}

// server-sent events: calls `onPiece` with every piece, returns the answer
export async function stream({ input, ...fields }, signal, onPiece) {
  const response = await request("/api/run", { ...body({ inputs: [input], ...fields, stream: true }), signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new ServerError(0, "");
    rest += value;
    const events = rest.split("\n\n");
    rest = events.pop();
    for (const one of events) {
      // a line ends at \n only: a text may contain other line separators, which a dot would not match
      const field = (name) => new RegExp(`(?:^|\n)${name}: ([^\n]*)`).exec(one)?.[1];
      const name = field("event") ?? "piece";
      const data = JSON.parse(field("data"));
      if (name === "done") return data.answers[0];
      if (name === "error") throw new ServerError(422, data.error);
      onPiece(data.text);
    }
  }
}
