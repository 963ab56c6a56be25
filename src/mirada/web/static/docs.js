// The documentation of the API, made from /openapi.json: nothing is loaded from other sites.

import { eye, h } from "./elements.js";
import { get, token } from "./client.js";
import { preferred, words } from "./words.js";

const language = preferred();
const t = words(language);
document.documentElement.lang = language;
document.documentElement.dataset.theme = localStorage.getItem("mirada-theme") ?? "auto";

const kind = (schema) => {
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
  if (schema.oneOf) return schema.oneOf.map(kind).join(" | ");
  if (schema.type === "array") return `[${kind(schema.items)}]`;
  if (schema.type === "object" && schema.properties) return `{${Object.keys(schema.properties).join(", ")}}`;
  const range = schema.minimum !== undefined ? ` ${schema.minimum} … ${schema.maximum ?? ""}` : "";
  return `${Array.isArray(schema.type) ? schema.type.join(" | ") : (schema.type ?? "any")}${range}`;
};

function fields(schema) {
  const rows = Object.entries(schema.properties ?? {}).map(([name, one]) => h("tr", {}, h("th", { scope: "row" }, h("code", {}, name), schema.required?.includes(name) ? " *" : ""), h("td", {}, h("code", {}, kind(one))), h("td", {}, one.description ?? "")));
  return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, [t("docsField"), t("docsType"), t("docsAbout")].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, rows)));
}

function example(path, schema) {
  const { inputs, input, run } = schema.properties;
  const item = inputs?.items ?? input;
  const one = item.type === "object" ? { name: "file", base64: "…" } : "…";
  return { ...(inputs ? { inputs: [one] } : { input: one }), ...(schema.required.includes("run") ? { run: run.enum[0] } : {}) };
}

function card(path, method, operation) {
  const content = operation.requestBody?.content ?? {};
  const json = content["application/json"]?.schema;
  const area = json ? h("textarea", { rows: 6, spellcheck: "false", "aria-label": `${path} JSON`, value: JSON.stringify(example(path, json), null, 2) }) : null;
  const out = h("pre", { hidden: true, "aria-live": "polite" });
  const send = h("button", { type: "button", class: "go", onclick: async () => {
    send.disabled = true;
    out.hidden = false;
    const headers = { ...(json ? { "Content-Type": "application/json" } : {}), ...(token() ? { Authorization: `Bearer ${token()}` } : {}) };
    try {
      const response = await fetch(path, { method: method.toUpperCase(), headers, body: area?.value });
      const type = response.headers.get("content-type") ?? "";
      const text = type.includes("zip") ? `${(await response.arrayBuffer()).byteLength} B, ${type}` : await response.text();
      out.textContent = `${response.status}\n${type.includes("json") ? JSON.stringify(JSON.parse(text), null, 2) : text}`;
    } catch (error) {
      out.textContent = String(error.message);
    }
    send.disabled = false;
  } }, t("docsTry"));
  const forms = Object.keys(content);
  return h(
    "article", { class: "card" },
    h("div", { class: "route" }, h("span", { class: `method ${method}` }, method.toUpperCase()), h("code", {}, path), h("span", { class: "soft" }, operation.summary)),
    forms.length ? h("p", { class: "soft" }, `${t("docsTakes")} ${forms.join(", ")}`) : null,
    json ? fields(json) : null,
    area, h("p", {}, send), out,
    h("details", {}, h("summary", {}, t("docsErrors")), h("table", {}, h("tbody", {}, Object.entries(operation.responses).filter(([status]) => status >= "400").map(([status, one]) => h("tr", {}, h("th", { scope: "row" }, status), h("td", {}, one.description)))))),
  );
}

document.querySelector(".masthead").replaceChildren(h("a", { class: "brand", href: "/" }, eye(), h("span", {}, "mirada")), h("span", { class: "gap" }), h("a", { class: "tool", href: `/?lang=${language}` }, t("docsApp")));
const main = document.getElementById("docs");
get("/openapi.json").then(
  (api) => {
    const routes = Object.entries(api.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, operation]) => card(path, method, operation)));
    const schemas = Object.entries(api.components.schemas).filter(([, schema]) => schema.properties).map(([name, schema]) => h("article", { class: "card", id: name }, h("h2", {}, h("code", {}, name)), fields(schema)));
    main.replaceChildren(h("div", { class: "title" }, h("h1", {}, t("docsTitle")), h("p", { class: "soft" }, t("docsLead"))), ...routes, ...schemas);
  },
  (error) => main.replaceChildren(h("p", { class: "problem", role: "alert" }, error.message || t("offline"))),
);
