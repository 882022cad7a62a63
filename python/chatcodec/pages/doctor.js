"use strict";
// The diagnosis of a model: sections of facts, and lines to copy.
(() => {
  const { sections, problems } = JSON.parse(document.getElementById("data").textContent);
  const main = document.getElementById("page");
  const verdict = problems === 0 ? "No problems." : problems === 1 ? "1 problem." : `${problems} problems.`;

  function value(text, mark) {
    if (mark !== "code") return make("td", { class: mark }, ...shown(text));
    return make("td", { class: "code" }, make("bdi", { dir: "ltr" }, ...shown(text)));
  }
  function row([name, text, mark]) {
    if (!name) return make("tr", {}, make("td", { colspan: "2", class: mark }, ...shown(text)));
    return make("tr", {}, make("th", { scope: "row" }, ...shown(name)), value(text, mark));
  }
  main.append(
    make("p", { class: problems ? "wrong" : "good" }, verdict),
    // Problems are the last section of the text, next to the prompt of a shell, and the first of the page.
    ...[...sections.slice(-1), ...sections.slice(0, -1)].map(({ title, rows }) => make("section", { class: "pane", "aria-label": title },
      make("h2", {}, ...shown(title)), make("table", { class: "known" }, make("tbody", {}, ...rows.map(row))))));
})();
