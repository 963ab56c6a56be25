// The page around the views: its head, the tabs, the choice of layer and heads, the keyboard.

import { h, svg } from "./elements.js";
import { layerName, short, visible } from "./tokens.js";
import { LayerPicker } from "./picker.js";
import { showHelp } from "./help.js";
import { changeChips, whatIfCard } from "./whatif.js";
import { VIEWS } from "./views.js";

export class Shell {
  constructor(root, app, title) {
    Object.assign(this, { root, app, title });
    this.live = h("p", { class: "aloud", "aria-live": "polite" });
    this.listener = (changed) => this.#changed(changed);
    app.listeners.add(this.listener);
    this.onkey = (event) => this.#key(event);
    document.addEventListener("keydown", this.onkey);
    this.scheme = window.matchMedia("(prefers-color-scheme: dark)");
    this.onscheme = () => this.build();
    this.scheme.addEventListener("change", this.onscheme);
    this.views = VIEWS.filter((view) => view.supports(app));
    this.build();
  }
  close() {
    this.view?.close?.();
    this.app.listeners.delete(this.listener);
    document.removeEventListener("keydown", this.onkey);
    this.scheme.removeEventListener("change", this.onscheme);
    this.root.replaceChildren();
  }
  build() {
    const { app, root } = this;
    root.dataset.theme = app.state.theme;
    root.lang = app.state.language;
    this.tabs = h("nav", { class: "tabs", role: "tablist", "aria-label": app.t("views") }, this.views.map((view, index) =>
      h(
        "button",
        {
          type: "button",
          role: "tab",
          "data-view": view.name,
          title: `${index + 1} · ${view.key}`,
          onclick: (event) => this.#click(event, view),
        },
        app.t(`view_${view.name}`),
      )));
    const fits = (stream) => this.views.find((view) => view.name === app.state.view)?.fits(stream, app) ?? true;
    this.picker = new LayerPicker(app, fits);
    this.whatif = h("div");
    this.panel = h("main", { class: "panel", role: "tabpanel", tabindex: -1 });
    root.replaceChildren(
      this.#head(), this.tabs,
      h("div", { class: "stage" }, h("aside", { class: "side" }, this.picker.element, this.whatif), this.panel),
      this.#foot(), this.live,
    );
    this.picker.update(); // once more, now that it has a height
    this.#whatIf();
    this.#show();
  }
  // a tab that was clicked gives the keys to its view; with the keyboard one stays among the tabs
  #click(event, view) {
    this.open(view.name);
    if (event.detail) this.panel.focus({ preventScroll: true });
  }
  open(name) {
    const view = this.views.find((one) => one.name === name);
    if (!view) return;
    const { app } = this;
    const patch = { view: name };
    if (!view.fits(app.stream, app)) {
      const fitting = app.record.streams.filter((stream) => view.fits(stream, app));
      if (fitting.length) patch.stream = fitting.at(-1).index;
    }
    app.set(patch);
  }
  #head() {
    const { app, title } = this;
    const { made, answer } = app.record;
    const about = [...new Set([made.task, made.model, made.run].filter(Boolean).map(String))];
    const facts = about.filter((fact) => fact !== title).map((fact) => h("span", { dir: "auto" }, short(fact, 60)));
    const line = (text, kind) => {
      const [first, ...more] = String(text).split("\n");
      return h(
        "bdi",
        { class: kind, title: visible(String(text)).slice(0, 2000) },
        short(first, 160),
        more.length && !short(first, 160).endsWith("…") ? " …" : "",
      );
    };
    const input = made.input ? line(made.input, "asked") : null;
    const reply = answer?.text ? line(answer.text, "answered") : null;
    const tool = (text, label, act) => h(
      "button",
      { type: "button", class: "tool", "aria-label": label, title: label, onclick: act },
      text,
    );
    const theme = { auto: "dark", dark: "light", light: "auto" }[app.state.theme];
    return h(
      "header", { class: "top" },
      h("div", { class: "brand" }, eye(), h("span", {}, "mirada")),
      h("div", { class: "what" },
        input || reply ? h(
          "h1",
          {},
          input,
          input && reply ? h("span", { class: "arrow", "aria-label": "→" }, "→") : null,
          reply,
        ) : h("h1", {}, h("bdi", {}, title)),
        h("p", { class: "meta" }, facts, changeChips(app.record))),
      h("div", { class: "tools" },
        tool(
          app.state.language === "es" ? "EN" : "ES",
          app.t("otherLanguage"),
          () => app.set({ language: app.state.language === "es" ? "en" : "es" }),
        ),
        tool(
          { auto: "◐", dark: "☾", light: "☀" }[app.state.theme],
          app.t("theme", app.t(`theme_${theme}`)),
          () => app.set({ theme }),
        ),
        tool("?", app.t("help"), () => this.help())),
    );
  }
  #foot() {
    const { app } = this;
    const { made } = app.record;
    return h(
      "footer",
      { class: "foot" },
      h("p", {}, app.t("foot", made.mirada ? ` ${made.mirada}` : "")),
      h("p", {}, app.t("keysHint")),
    );
  }
  #whatIf() {
    this.whatif.replaceChildren(whatIfCard(this.app));
  }
  #show() {
    const { app } = this;
    this.view?.close?.();
    const kind = this.views.find((view) => view.name === app.state.view) ?? this.views[0];
    for (const tab of this.tabs.children) {
      const on = tab.dataset.view === kind.name;
      tab.setAttribute("aria-selected", String(on));
      tab.tabIndex = on ? 0 : -1;
      if (on) tab.scrollIntoView({ block: "nearest", inline: "center" });
    }
    this.panel.dataset.panel = kind.name;
    this.panel.setAttribute("aria-label", app.t(`view_${kind.name}`));
    this.panel.replaceChildren();
    try {
      this.view = kind.create(app);
      this.panel.replaceChildren(h("p", { class: "lead" }, app.t(`lead_${kind.name}`)), this.view.element);
      this.view.shown?.();
    } catch (error) {
      this.view = null;
      this.panel.replaceChildren(problem(app, error));
    }
  }
  #changed(changed) {
    const { app } = this;
    if (changed.has("language") || changed.has("theme")) return this.build();
    if (changed.has("view")) this.#show();
    else {
      try {
        this.view?.update?.(changed);
      } catch (error) {
        this.panel.replaceChildren(problem(app, error));
      }
    }
    if (["stream", "heads", "view"].some((name) => changed.has(name))) this.picker.update();
    if (["stream", "heads", "row", "rows", "column", "changes"].some((name) => changed.has(name))) this.#whatIf();
    if (["stream", "heads", "row"].some((name) => changed.has(name))) this.#say();
  }
  // what a screen reader announces after a step
  #say() {
    const { app } = this;
    const row = app.row();
    const best = row.reduce((most, weight, place) => (weight > row[most] ? place : most), 0);
    this.live.textContent = app.t(
      "aloud",
      layerName(app.stream.name),
      visible(app.rowToken()).slice(0, 60),
      visible(app.token(app.stream.columns, best)).slice(0, 60),
      app.number(row[best], 2),
    );
  }
  #key(event) {
    const { app } = this;
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.closest?.("input, select, textarea, [contenteditable]")) return;
    if (event.target !== document.body && !this.root.contains(event.target)) return; // keys of whatever stands around
    if (document.querySelector("dialog[open]")) return;
    const { state, stream } = app;
    const step = (size, value, by) => (size ? (value + by + size) % size : 0);
    const alone = state.heads.length === 1;
    const head = (by) => app.set({ heads: [alone ? step(stream.heads, state.heads[0], by) : by > 0 ? 0 : stream.heads - 1] });
    const layer = (by) => {
      const view = this.views.find((one) => one.name === state.view);
      const fitting = app.record.streams.filter((one) => view.fits(one, app)).map((one) => one.index);
      app.set({ stream: fitting[step(fitting.length, fitting.indexOf(state.stream), by)] ?? state.stream });
    };
    const row = (by) => app.set({ row: Math.max(0, Math.min(stream.queries - 1, state.row + by)) });
    const tab = event.target.closest?.("[role=tab]");
    if (tab && (event.key === "ArrowLeft" || event.key === "ArrowRight")) {
      const at = this.views.findIndex((view) => view.name === state.view);
      const next = this.views[step(this.views.length, at, event.key === "ArrowRight" ? 1 : -1)];
      this.open(next.name);
      this.tabs.querySelector("[aria-selected=true]").focus();
      return event.preventDefault();
    }
    if (this.view?.key?.(event)) return event.preventDefault();
    const acts = {
      ArrowRight: () => head(1), ArrowLeft: () => head(-1), "[": () => layer(-1), "]": () => layer(1),
      ArrowDown: () => (event.shiftKey ? layer(1) : row(1)), ArrowUp: () => (event.shiftKey ? layer(-1) : row(-1)),
      Home: () => app.set({ row: 0 }), End: () => app.set({ row: Math.max(0, stream.queries - 1) }),
      Escape: () => app.set({ column: null, rows: [] }),
      a: () => app.set({ heads: app.all() }), "?": () => this.help(), t: () => app.set({ theme: app.dark ? "light" : "dark" }),
      e: () => app.set({ language: state.language === "es" ? "en" : "es" }),
      "+": () => this.view?.zoom?.(1.6), "-": () => this.view?.zoom?.(1 / 1.6), "=": () => this.view?.zoom?.(1.6),
    };
    const digit = "1234567890".indexOf(event.key);
    const named = this.views.find((view) => view.key === event.key);
    if (digit >= 0 && this.views[digit]) this.open(this.views[digit].name);
    else if (named) this.open(named.name);
    else if (Object.hasOwn(acts, event.key)) acts[event.key]();
    else return;
    event.preventDefault();
  }
  help() {
    showHelp(this.root, this.app, this.views);
  }
}

export function problem(app, error) {
  const known = error.reason !== undefined;
  const text = known ? app.t(`error_${error.reason}`, ...error.values) : app.t("error_unknown", String(error.message ?? error));
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("h2", {}, app.t("cannotShow")),
    h("p", {}, text),
    known ? h("p", { class: "soft" }, app.t("wayOut")) : null,
  );
}

function eye() {
  return svg("svg", { viewBox: "0 0 32 32", width: 28, height: 28, "aria-hidden": "true", class: "eye" },
    svg(
      "path",
      {
        d: "M2 16 C8 6.5 24 6.5 30 16 C24 25.5 8 25.5 2 16 Z",
        fill: "none",
        stroke: "currentColor",
        "stroke-width": 2.2,
        "stroke-linejoin": "round",
      },
    ),
    svg("circle", { cx: 16, cy: 16, r: 5.2, fill: "var(--accent)" }), svg(
      "circle",
      { cx: 17.6, cy: 14.4, r: 1.5, fill: "var(--card)" },
    ));
}
