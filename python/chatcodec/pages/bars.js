"use strict";
// Tables with bars: a section for each chart, a row for each bar.
(() => {
  const { facts: known, charts } = JSON.parse(document.getElementById("data").textContent);
  const main = document.getElementById("page");
  const number = (value) => value.toLocaleString("en");

  // A bar from the left for an amount; for a ratio, from 1 in the middle, by doublings.
  function bar(chart, value, most) {
    const node = make("span", { class: "bar" + (chart.isRatio && value < 1 ? " less" : "") });
    if (!chart.isRatio) node.style.width = `${(100 * value) / most}%`;
    else {
      const length = (50 * Math.abs(Math.log2(value))) / most;
      node.style.width = `${Math.max(length, 0.4)}%`;
      node.style.marginInlineStart = `${value < 1 ? 50 - length : 50}%`;
    }
    return make("div", { class: "track" + (chart.isRatio ? " ratio" : "") }, node);
  }
  function section(chart) {
    const sizes = chart.rows.map(([, value]) => (chart.isRatio ? Math.abs(Math.log2(value)) : value));
    const most = Math.max(...sizes, chart.isRatio ? 1 : 0) || 1;
    const rows = chart.rows.map(([labels, value, text]) => make("tr", {},
      ...labels.map((label, at) => make(at ? "td" : "th", { scope: at ? undefined : "row", class: "code" }, make("bdi", {}, ...shown(label)))),
      make("td", { class: "amount" }, text === undefined ? number(value) : text), make("td", { class: "bars" }, bar(chart, value, most))));
    return make("section", { class: "pane", "aria-label": chart.title }, make("h2", {}, ...shown(chart.title)),
      make("p", { class: "dim" }, ...shown(chart.about)),
      rows.length ? make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": chart.title },
        make("table", { class: "amounts" }, make("thead", {}, make("tr", {}, ...chart.columns.map((name) => make("th", { scope: "col" }, name)))), make("tbody", {}, ...rows)))
        : make("p", {}, "None."));
  }
  main.append(
    make("div", { class: "counts" }, ...known.map(([name, value]) => make("span", {}, make("b", {}, number(value)), " " + name))),
    ...charts.map(section));
})();
