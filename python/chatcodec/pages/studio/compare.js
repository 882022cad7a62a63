"use strict";
// Two encodings of one conversation side by side: counts, texts and ids, with the first difference marked.
const CHUNK = 200;

// The length of what two lists have in common at their beginnings.
function commonLength(left, right) {
  let at = 0;
  while (at < left.length && at < right.length && left[at] === right[at]) at++;
  return at;
}

// The texts and ids of an encoding, from `first` on marked; those that come into view are made then.
function idsOf(data, name, first, differs) {
  const list = make("div", { class: "ids", tabindex: "0", role: "region", "aria-label": name });
  const chip = (at) => make("span", {
    class: "id" + (data.flags[at] & CONTROL ? " control" : "") + (at >= first && differs(at) ? " differs" : "") + (at === first ? " first" : ""),
  }, make("span", { class: "text" }, ...shown(data.texts[at] || "·")), make("span", { class: "num" }, String(data.ids[at])));
  const seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) if (isIntersecting) fill(target);
  }, { root: list, rootMargin: "600px" });
  const fill = (block) => {
    seen.unobserve(block);
    const from = Number(block.dataset.from), to = Math.min(data.texts.length, from + CHUNK);
    for (let at = from; at < to; at++) block.append(chip(at));
  };
  for (let from = 0; from < data.texts.length; from += CHUNK) {
    const block = make("div", { class: "chunk", "data-from": String(from) });
    list.append(block);
    if (from <= first && first < from + CHUNK) fill(block);
    else seen.observe(block);
  }
  if (data.texts.length < data.ids.length) list.append(make("p", { class: "dim" }, `The first ${data.texts.length} of ${data.ids.length} ids.`));
  return list;
}

function showComparison(root, names, left, right) {
  const sides = [left, right];
  const isSame = left.ids.length === right.ids.length && left.ids.every((id, at) => id === right.ids[at]);
  const first = commonLength(left.ids, right.ids);
  const back = commonLength(left.ids.slice(first).reverse(), right.ids.slice(first).reverse());
  const texts = sides.map((data) => data.texts.join(""));
  const textAt = commonLength(...texts);
  const rows = [
    ["ids", ...sides.map((data) => data.ids.length)],
    ["control tokens", ...sides.map((data) => data.totals.control)],
    ["ids of the caller's text", ...sides.map((data) => data.totals.content)],
    ["characters", ...sides.map((data) => data.totals.characters)],
    ["bytes of an id", ...sides.map((data) => (data.totals.bytes / Math.max(1, data.ids.length)).toFixed(2))],
  ];
  const more = (row) => (typeof row[1] === "number" && row[2] !== row[1] ? `${row[2] > row[1] ? "+" : "−"}${Math.abs(row[2] - row[1])}` : "");
  const lists = sides.map((data, at) => idsOf(data, ["the ids", "the ids beside"][at], isSame ? -1 : first, (id) => id < data.ids.length - back));
  const around = (text) => shown(text.slice(Math.max(0, textAt - 20), textAt + 40));
  root.replaceChildren(
    isSame ? make("p", { class: "verdict safe" }, `The same ${left.ids.length} ids.`)
      : make("p", { class: "verdict differ" }, `The first difference is at id ${first}${texts[0] === texts[1] ? "; the texts are the same" : `, of the texts at character ${[...texts[0].slice(0, textAt)].length}`}.`),
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "counts" }, make("table", { class: "counted" },
      make("thead", {}, make("tr", {}, ...["what", ...names, "difference"].map((name) => make("th", { scope: "col" }, ...shown(name))))),
      make("tbody", {}, ...rows.map((row) => make("tr", {}, make("th", { scope: "row" }, row[0]), make("td", {}, String(row[1])), make("td", {}, String(row[2])), make("td", { class: "dim" }, more(row)))),
        ...(texts[0] === texts[1] ? [] : [make("tr", {}, make("th", { scope: "row" }, "text around it"), ...texts.map((text) => make("td", { class: "code" }, ...around(text))), make("td", {}))])))),
    make("div", { class: "sides" }, ...sides.map((_, at) => make("div", { class: "pane" }, make("h2", {}, ...shown(names[at])), lists[at]))));
  for (const list of lists) {
    const node = list.querySelector(".first");
    if (node) list.scrollTop = node.offsetTop - list.offsetTop - list.clientHeight / 3;
  }
}
