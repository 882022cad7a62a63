"use strict";
const lanes = ["text", "reasoning", "calls", "notices", "turns"];
const laneColours = { text: "k1", reasoning: "k3", calls: "k0", notices: "k5", turns: "k2" };
const ROWS = 5000;

// Why ids of a push gave no event yet: the event that they became part of says it.
function heldFor(lane, text) {
  if (lane === "calls") return "held: may be the header or the arguments of a call";
  if (lane === "turns") return "held: may end or begin a turn";
  if (lane === "notices") return "held: not decided, and then reported";
  return "held: may be the beginning of a marker, or part of a character";
}

function showStream(root, data) {
  const holder = make("div", {});
  const label = make("output", {});
  const draw = (nth) => {
    const { size, pushes } = data.runs[nth];
    label.textContent = size === 1 ? "1 id a push" : `${size} ids a push`;
    const became = new Array(data.ids.length);
    for (const push of pushes)
      for (const [lane, text, from, to] of push)
        for (let id = from; id < Math.min(to, data.ids.length); id++) became[id] = became[id] || [lane, text];
    const rows = [];
    for (let at = 0; at < Math.min(pushes.length, ROWS); at++) {
      const from = at * size, to = Math.min(data.ids.length, from + size);
      const isEnd = at === pushes.length - 1;
      const cells = Object.fromEntries(lanes.map((lane) => [lane, make("td", { class: "lane code " + laneColours[lane] })]));
      for (const [lane, text] of pushes[at]) {
        if (cells[lane].hasChildNodes()) cells[lane].append(make("span", { class: "pic" }, " ¦ "));
        cells[lane].append(...shown(text));
      }
      const isHeld = !isEnd && pushes[at].length === 0;
      const known = became[to - 1];
      const why = isHeld ? (known ? heldFor(known[0], known[1]) : "held, or a control token without an event") : "";
      const spelled = make("td", { class: "code" });
      for (let id = from; id < to && !isEnd; id++)
        spelled.append(make("span", { class: data.control[id] ? "t control" : id % 2 ? "t odd kn" : "t kn", title: "id " + data.ids[id] }, ...shown(data.texts[id])));
      if (isEnd) spelled.append("the end");
      rows.push(make("tr", { class: isHeld ? "held" : "" }, make("td", {}, isEnd ? "" : to - from === 1 ? String(from) : `${from}–${to - 1}`),
        spelled, ...lanes.map((lane) => cells[lane]), make("td", { class: "dim" }, why)));
    }
    if (pushes.length > ROWS) rows.push(make("tr", {}, make("td", { colspan: "8" }, `${pushes.length - ROWS} more pushes`)));
    holder.replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, ...["ids", "pushed", ...lanes, "held back"].map((name) => make("th", { scope: "col" }, name)))), make("tbody", {}, ...rows)));
  };
  const slider = make("input", { type: "range", min: "0", max: String(data.runs.length - 1), value: "0", id: "size", "aria-label": "ids a push", oninput: () => draw(Number(slider.value)) });
  root.replaceChildren(
    make("p", { class: data.same ? "dim" : "wrong", id: "same" }, data.same
      ? `The events are the same for every size of a push: ${data.runs.map((run) => run.size).join(", ")} ids.`
      : "The events differ between sizes of a push. This is a bug of chatcodec."),
    make("fieldset", {}, make("legend", {}, "Ids a push"), slider, label), holder);
  draw(0);
}
