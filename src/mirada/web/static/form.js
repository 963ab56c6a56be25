// The input form: a text, a question about a passage, the name of a node, or a file, by the kind of input.

import { h } from "./elements.js";

const ACCEPTS = { picture: "image/*", recording: ".wav,audio/wav,audio/x-wav", table: ".csv,.tsv,.txt,text/csv" };

export class Form {
  constructor(run, t, language, onSubmit) {
    Object.assign(this, { run, t, language, file: null, options: new Map() });
    this.isFile = run.input in ACCEPTS;
    this.problem = h("p", { class: "problem", role: "alert", hidden: true });
    this.button = h("button", { type: "submit", class: "go" }, t("ask"));
    this.samples = h("div", { class: "samples", hidden: true });
    this.element = h(
      "form", { class: "form", onsubmit: (event) => { event.preventDefault(); onSubmit(); } },
      this.isFile ? this.#drop(onSubmit) : this.#text(onSubmit),
      h("div", { class: "controls" }, this.#options(), this.button),
      this.samples, this.problem,
    );
  }
  #text(onSubmit) {
    const { t, run } = this;
    const question = run.input === "question";
    const submit = (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        onSubmit();
      }
    };
    this.field = h("textarea", { id: "input", rows: run.task === "write" || question ? 2 : 1, spellcheck: "false", autocomplete: "off", placeholder: t(`hint_${run.input === "text" ? "text" : run.input}`), onkeydown: submit, oninput: () => grow(this.field), dir: "auto" });
    this.passage = question ? h("textarea", { id: "passage", rows: 5, spellcheck: "false", placeholder: t("passageHint"), dir: "auto" }) : null;
    return [
      question ? h("label", { class: "field" }, h("span", {}, run.fields.find(({ name }) => name === "passage").label[this.language]), this.passage) : null,
      h("label", { class: "field main" }, h("span", { class: question ? null : "aloud" }, question ? t("question") : t(`task_${run.task}`)), this.field),
    ];
  }
  #drop(onSubmit) {
    const { t, run } = this;
    this.input = h("input", { type: "file", id: "file", accept: ACCEPTS[run.input], onchange: () => { if (this.input.files[0]) { this.take(this.input.files[0]); onSubmit(); } } });
    this.preview = h("div", { class: "preview" });
    this.area = h("label", { class: "drop" }, this.input, this.preview);
    this.area.addEventListener("dragover", (event) => { event.preventDefault(); this.area.classList.add("over"); });
    this.area.addEventListener("dragleave", () => this.area.classList.remove("over"));
    this.area.addEventListener("drop", (event) => {
      event.preventDefault();
      this.area.classList.remove("over");
      if (event.dataTransfer.files[0]) { this.take(event.dataTransfer.files[0]); onSubmit(); }
    });
    this.#show();
    return this.area;
  }
  take(file) {
    this.file = file;
    this.#show();
  }
  #show() {
    const { t, run, file } = this;
    if (this.url) URL.revokeObjectURL(this.url);
    this.url = file ? URL.createObjectURL(file) : null;
    if (!file) return this.preview.replaceChildren(h("strong", {}, t("drop")), h("span", { class: "soft" }, t(`hint_${run.input}`)));
    const shown = run.input === "picture" ? h("img", { src: this.url, alt: file.name }) : run.input === "recording" ? h("audio", { src: this.url, controls: true }) : null;
    this.preview.replaceChildren(...[shown, h("bdi", { class: "name" }, file.name), h("span", { class: "soft" }, t("change"))].filter(Boolean));
  }
  #options() {
    const { t, run, language } = this;
    const fields = run.fields.filter(({ name }) => name !== "passage").map(({ name, type, label, minimum, maximum, step }) => {
      if (type === "boolean") {
        const box = h("input", { type: "checkbox" });
        this.options.set(name, () => (box.checked ? true : null));
        return h("label", { class: "option check" }, box, label[language]);
      }
      const number = type === "integer" || type === "number";
      const field = number ? h("input", { type: "number", min: minimum, max: maximum, step }) : h("input", { type: "text" });
      const read = { array: (text) => text.split(",").map((word) => word.trim()).filter(Boolean), string: (text) => text }[type] ?? Number;
      this.options.set(name, () => (field.value.trim() === "" ? null : read(field.value)));
      return h("label", { class: "option" }, h("span", {}, label[language]), field);
    });
    return fields.length ? h("details", { class: "options" }, h("summary", {}, t("options")), h("div", { class: "grid" }, fields)) : h("span", {});
  }
  // the request: {input or file, run, options}; null after a message about what is missing
  request() {
    const { t, run } = this;
    const input = this.field?.value ?? "";
    const missing = this.isFile ? (this.file ? "" : t("noFile")) : input.trim() || run.task === "write" ? "" : t("noInput");
    this.say(missing);
    if (missing) {
      (this.field ?? this.input).focus();
      return null;
    }
    const options = Object.fromEntries([...this.options].map(([name, read]) => [name, read()]).filter(([, value]) => value !== null));
    return { run: run.name, ...(this.isFile ? { file: this.file } : { input }), ...(this.passage ? { passage: this.passage.value } : {}), ...options };
  }
  say(text) {
    this.problem.textContent = text;
    this.problem.hidden = !text;
  }
  busy(on) {
    this.element.classList.toggle("busy", on);
    this.button.textContent = on ? this.t("stop") : this.t("ask");
  }
  offer(samples, onSubmit) {
    if (!samples.length) return;
    const pick = (sample) => {
      if (typeof sample === "string") {
        const [first, second] = sample.split("\t");
        this.field.value = this.passage ? first : sample;
        if (this.passage) this.passage.value = second ?? "";
        grow(this.field);
      } else {
        const bytes = Uint8Array.from(atob(sample.base64), (letter) => letter.charCodeAt(0));
        this.take(new File([bytes], sample.name, { type: this.run.input === "picture" ? "image/png" : this.run.input === "recording" ? "audio/wav" : "text/csv" }));
      }
      onSubmit();
    };
    const label = (sample) => (typeof sample === "string" ? sample.split("\t")[0] : sample.name);
    const thumb = (sample) => (typeof sample === "string" || this.run.input !== "picture" ? null : h("img", { src: `data:image/png;base64,${sample.base64}`, alt: "" }));
    this.samples.replaceChildren(h("span", { class: "soft" }, this.t("try")), ...samples.map((sample) =>
      h("button", { type: "button", class: thumb(sample) ? "sample pictured" : "sample", title: label(sample), onclick: () => pick(sample) }, thumb(sample) ?? h("bdi", {}, label(sample)))));
    this.samples.hidden = false;
  }
}

function grow(field) {
  field.style.height = "auto";
  field.style.height = `${Math.min(field.scrollHeight + 2, 320)}px`;
}
