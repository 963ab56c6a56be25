// The keys, in a dialog.

import { h } from "./elements.js";

export function showHelp(root, app, views) {
  const lines = [
    ["← →", "help_head"],
    ["↑ ↓", "help_row"],
    ["[ ]", "help_layer"],
    ["a", "help_all"],
    ["⇧ + click", "help_more"],
    ["Esc", "help_escape"],
    ["+ −", "help_zoom"],
    ["space", "help_play"],
    ["t", "help_theme"],
    ["e", "help_language"],
    ["?", "help_help"],
  ];
  const dialog = h("dialog", {
    class: "help",
    "aria-label": app.t("help"),
    onclose: () => dialog.remove(),
    onclick: (event) => event.target === dialog && dialog.close(),
  },
    h("h2", {}, app.t("help")),
    h("dl", {}, views.map((view, index) => h(
      "div",
      {},
      h("dt", {}, index < 10 ? h("kbd", {}, String((index + 1) % 10)) : "", h("kbd", {}, view.key)),
      h("dd", {}, app.t(`view_${view.name}`)),
    )),
      lines.map(([keys, text]) => h("div", {}, h("dt", {}, h("kbd", {}, keys)), h("dd", {}, app.t(text))))),
    h("form", { method: "dialog" }, h("button", { class: "primary" }, app.t("close"))));
  root.append(dialog);
  dialog.showModal();
}
