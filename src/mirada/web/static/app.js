// The app: a question, its answer, the attention behind it, and the answer with a changed attention.

import { answers, attention, get, stream, token } from "./client.js";
import { drawAnswer, drawChange, latest } from "./answer.js";
import { eye, h } from "./elements.js";
import { Form } from "./form.js";
import { known, preferred, words } from "./words.js";
import { mount } from "./attention/mount.js";

const THEMES = { auto: "dark", dark: "light", light: "auto" };
const COMPARED = new Set(["text", "question", "picture", "recording"]); // input kinds that other methods can explain
const part = (id) => document.getElementById(id);

class Page {
  constructor() {
    this.language = preferred();
    this.theme = localStorage.getItem("mirada-theme") ?? "auto";
    this.runs = [];
    this.run = null;
    this.viewer = null;
    this.shown = null; // {request, answer, bytes, past}
  }
  async start() {
    token(); // read from the URL at the start
    this.dress();
    try {
      this.runs = (await get("/api/health")).runs;
    } catch (error) {
      if (error.status === 401) return this.#login();
      return part("ask").replaceChildren(h("p", { class: "problem", role: "alert" }, error.message || this.t("offline")));
    }
    const wanted = new URLSearchParams(window.location.search).get("run");
    this.choose(this.runs.find((run) => run.name === wanted) ?? this.runs[0]);
  }
  get t() {
    return words(this.language);
  }
  #login() {
    const field = h("input", { type: "password", id: "token", autocomplete: "off" });
    part("ask").replaceChildren(h("form", { class: "card login", onsubmit: (event) => { event.preventDefault(); token(field.value.trim()); this.start(); } },
      h("p", {}, this.t("tokenNeeded")), h("label", { class: "field" }, h("span", {}, this.t("token")), field), h("button", { class: "go", type: "submit" }, this.t("enter"))));
    field.focus();
  }
  // the header: language and theme
  dress() {
    const { t } = this;
    document.documentElement.lang = this.language;
    document.documentElement.dataset.theme = this.theme;
    document.querySelector(".skip").textContent = t("skip");
    const choice = this.runs.length > 1 ? h("label", { class: "runs" }, h("span", { class: "aloud" }, t("run")),
      h("select", { id: "run", onchange: (event) => this.choose(this.runs.find((run) => run.name === event.target.value)) },
        this.runs.map((run) => h("option", { value: run.name, selected: run === this.run }, run.name)))) : null;
    document.querySelector(".masthead").replaceChildren(...[
      h("a", { class: "brand", href: "/" }, eye(), h("span", {}, "mirada")), choice, h("span", { class: "gap" }),
      h("a", { class: "tool", href: `/docs?lang=${this.language}` }, t("api")),
      h("button", { type: "button", class: "tool", id: "language", lang: this.language === "es" ? "en" : "es", onclick: () => this.speak(this.language === "es" ? "en" : "es") }, t("language")),
      h("button", { type: "button", class: "tool", id: "theme", "aria-label": t("theme", t(`theme_${this.theme}`)), title: t("theme", t(`theme_${this.theme}`)), onclick: () => this.color(THEMES[this.theme]) }, { auto: "◐", dark: "☾", light: "☀" }[this.theme]),
    ].filter(Boolean));
  }
  speak(language) {
    this.language = language;
    localStorage.setItem("mirada-language", language);
    const kept = this.form && { text: this.form.field?.value, passage: this.form.passage?.value, file: this.form.file };
    const { shown, viewer } = this;
    this.dress();
    if (!this.run) return this.start();
    this.#form(kept);
    if (shown) {
      this.#answer(shown.request, shown.answer);
      this.#attentionHead();
    }
    viewer?.app?.set({ language });
  }
  color(theme) {
    this.theme = theme;
    localStorage.setItem("mirada-theme", theme);
    this.dress();
    this.viewer?.app?.set({ theme });
  }
  choose(run) {
    this.stop?.abort();
    this.run = run;
    this.dress();
    this.#close();
    this.#form();
  }
  #close() {
    this.viewer?.close();
    this.viewer = this.shown = null;
    part("answer").hidden = part("attention").hidden = true;
    part("answer").replaceChildren();
    part("attention").replaceChildren();
  }
  #form(kept = {}) {
    const { run, t } = this;
    const submit = () => this.submit();
    this.form = new Form(run, t, this.language, submit);
    if (kept?.text) this.form.field.value = kept.text;
    if (kept?.passage) this.form.passage.value = kept.passage;
    if (kept?.file) this.form.take(kept.file);
    const title = known(`task_${run.task}`) ? t(`task_${run.task}`) : t("task_other");
    const facts = `${run.model} · ${t("parameters", run.parameters.toLocaleString(this.language))}`;
    part("ask").replaceChildren(h("div", { class: "title" }, h("h1", {}, title), h("p", { class: "soft" }, h("bdi", {}, run.name), ` · ${facts}`)), this.form.element);
    if (!kept?.text && !kept?.file && window.matchMedia("(pointer: fine)").matches) this.form.field?.focus();
    const form = this.form;
    get(`/api/samples?run=${encodeURIComponent(run.name)}`).then(({ samples }) => { if (form === this.form) form.offer(samples, submit); }, () => {});
  }
  async submit() {
    if (this.stop) return this.stop.abort(); // the button now means "stop"
    const { form, t } = this;
    const request = form.request();
    if (!request) return;
    this.stop = new AbortController();
    const { signal } = this.stop;
    form.busy(true);
    try {
      const answer = await this.#ask(request, signal);
      const past = answer.values ? latest(await request.file.text(), answer.columns, 3 * answer.values.length) : [];
      this.shown = { request, answer, bytes: null, past };
      this.#answer(request, answer);
      if (!answer.error) await this.#look(request, signal);
    } catch (error) {
      if (error.name !== "AbortError") form.say(error.message || t("offline"));
    } finally {
      this.stop = null;
      form.busy(false);
    }
  }
  async #ask(request, signal) {
    const plain = (request.beam ?? 1) === 1 && (request.best ?? 1) === 1;
    if (!this.run.streams || !plain) return (await answers(request, signal))[0];
    const text = h("p", { class: "text", dir: "auto" });
    this.#close();
    part("answer").replaceChildren(h("div", { class: "card result" }, text));
    part("answer").hidden = false;
    try {
      return await stream(request, signal, (piece) => text.append(piece));
    } catch (error) {
      if (error.name === "AbortError" || !error.message) throw error;
      return { error: error.message };
    }
  }
  #answer(request, answer) {
    part("answer").replaceChildren(drawAnswer(this.run, answer, { passage: request.passage, past: this.shown.past }, this.t, this.language));
    part("answer").hidden = false;
  }
  #attentionHead() {
    const { t } = this;
    const save = h("button", { type: "button", class: "quiet", id: "save", onclick: () => this.#save() }, t("save"));
    const methods = h("button", { type: "button", class: "quiet", id: "methods", title: t("methodsHint"), onclick: () => this.compare() }, t("methods"));
    const head = h("div", { class: "head" }, h("div", {}, h("h2", {}, t("attentionTitle")), h("p", { class: "soft" }, t("whatIfHint"))), h("div", { class: "tools" }, COMPARED.has(this.run.input) ? methods : null, save));
    part("attention").querySelector(".head")?.replaceWith(head);
    return head;
  }
  async #look(request, signal) {
    const { t } = this;
    this.viewer?.close();
    this.viewer = null;
    const place = h("div", { class: "viewer", id: "viewer" }, h("p", { class: "soft waiting" }, t("looking")));
    part("attention").replaceChildren(this.#attentionHead(), place);
    part("attention").hidden = false;
    let bytes;
    try {
      bytes = await attention(request, signal);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      place.replaceChildren(h("p", { class: "soft waiting" }, t("noAttention", error.message || t("offline"))));
      return;
    }
    this.shown.bytes = bytes;
    place.replaceChildren();
    this.viewer = mount(place, bytes, { language: this.language, theme: this.theme, rerun: (changes) => this.change(changes) });
    window.mirada = this.viewer;
  }
  // runs the model again with changes; the answer is shown next to the first one
  async change(changes) {
    const { request, answer } = this.shown;
    const [after] = await answers({ ...request, changes });
    if (after.error) throw new Error(after.error);
    const bytes = await attention({ ...request, changes });
    part("answer").replaceChildren(drawChange(this.run, answer, after, this.shown, this.t, this.language, () => this.undo()));
    part("answer").scrollIntoView({ behavior: "smooth", block: "nearest" });
    return bytes;
  }
  // other explanations next to the weights
  async compare() {
    const button = part("methods");
    const { shown } = this;
    button.disabled = true;
    try {
      shown.bytes = await attention({ ...shown.request, methods: true });
      if (shown !== this.shown) return;
      this.viewer.show(shown.bytes);
      this.viewer.open("compare");
    } catch (error) {
      this.form.say(error.message || this.t("offline"));
    } finally {
      button.disabled = false;
    }
  }
  undo() {
    const { request, answer, bytes } = this.shown;
    this.#answer(request, answer);
    this.viewer?.show(bytes);
  }
  #save() {
    const { bytes } = this.shown ?? {};
    if (!bytes) return;
    const link = h("a", { href: URL.createObjectURL(new Blob([bytes], { type: "application/zip" })), download: `${this.run.name}.attn` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
}

const page = new Page();
window.page = page;
page.start();
