"use strict";
// Tables with bars: a section for each chart, a row for each bar.
(() => {
  const { facts: known, charts, made, samples } = JSON.parse(document.getElementById("data").textContent);
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
    return make("section", { class: "pane" }, make("h2", {}, ...shown(chart.title)),
      make("p", { class: "dim" }, ...shown(chart.about)),
      rows.length ? make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": chart.title },
        make("table", { class: "amounts" }, make("thead", {}, make("tr", {}, ...chart.columns.map((name) => make("th", { scope: "col" }, name)))), make("tbody", {}, ...rows)))
        : make("p", {}, "None."));
  }
  // A row of a shard: what is trained on has a colour and an underline.
  function sample({ texts, control, trained, ids, count }, nth) {
    const chips = texts.map((text, at) => make("span", {
      class: "t " + (trained && trained[at] ? "k2 g" : "kn") + (at % 2 ? " odd" : "") + (control[at] ? " control" : "") + (control[at] && trained && trained[at] ? " g" : ""),
    }, ...(text ? shown(text, true) : ["·"])));
    const more = ids > texts.length ? `; the first ${number(texts.length)} are shown` : "";
    return make("section", {}, make("h3", {}, `Row ${nth}`),
      make("p", { class: "dim" }, `${number(ids)} ids` + (trained ? `, ${number(count)} of them trained on` : "") + more),
      make("div", { class: "tokens by-loss sample", tabindex: "0", role: "region", "aria-label": `row ${nth}` }, ...chips));
  }
  if (made.length) main.append(make("dl", { class: "made" }, ...made.map(([term, value]) => make("div", {}, make("dt", {}, ...shown(term)), make("dd", {}, ...shown(value))))));
  main.append(
    make("div", { class: "counts" }, ...known.map(([name, value]) => make("span", {}, make("b", {}, number(value)), " " + name))),
    ...charts.map(section));
  if (samples.length)
    main.append(make("section", { class: "pane" }, make("h2", {}, "Samples"),
      make("p", { class: "dim" }, samples.some(({ trained }) => trained) ? "The first rows. Green and underlined: what is trained on. Hexagon: control." : "The first rows. Hexagon: control."),
      ...samples.map(sample)));
})();
