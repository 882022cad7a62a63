"use strict";
const lanes = ["text", "reasoning", "calls", "notices", "turns"];
const laneColours = { text: "k1", reasoning: "k3", calls: "k0", notices: "k5", turns: "k2" };
const ROWS = 150;

// Shows the pushes of a stream in `root`: a row for each, with the events that the push gave.
function showStream(root, data) {
  const count = data.ids.length;
  const holder = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "pushes" });
  const label = make("output", { for: "size" });
  const same = make("p", { id: "same", "aria-live": "polite" });
  const joinedList = make("ol", { class: "joined", "aria-label": "the events" });

  // The events of all pushes, with the texts of neighbours joined.
  const joinedOf = (pushes) => {
    const joined = [];
    for (const push of pushes)
      for (const [lane, text, , , key] of push) {
        const last = joined[joined.length - 1];
        if (key && last && last.key === key) last.text += text;
        else joined.push({ lane, text, key });
      }
    return joined;
  };
  const first = JSON.stringify(joinedOf(data.runs[0].pushes));

  const heldIn = (from, to) => {
    const held = [];
    for (let id = from; id < to; id++) if (data.held[id] && data.held[id][1] >= to) held.push(id);
    return held;
  };
  const untilOf = (id) => data.held[id][1] < count ? `id ${data.held[id][1]}` : "the end";
  const whyOf = (held) => {
    const reasons = [];
    for (const id of held) {
      const [why] = data.held[id];
      const last = reasons[reasons.length - 1];
      if (last && last.why === why && untilOf(last.to) === untilOf(id)) last.to = id;
      else reasons.push({ why, from: id, to: id });
    }
    return reasons.map(({ why, from, to }) => make("div", {},
      (held.length === 1 ? "" : from === to ? `${from}: ` : `${from}–${to}: `) + `${data.reasons[why]}; until ${untilOf(to)}`));
  };
  const row = ({ size, pushes }, at) => {
    const isEnd = at === pushes.length - 1;
    const from = isEnd ? count : at * size, to = isEnd ? count : Math.min(count, from + size);
    const cells = Object.fromEntries(lanes.map((lane) => [lane, make("td", { class: "lane code " + laneColours[lane], "data-lane": lane })]));
    for (const [lane, text] of pushes[at]) {
      if (cells[lane].hasChildNodes()) cells[lane].append(make("span", { class: "pic" }, " ¦ "));
      cells[lane].append(...shown(text));
    }
    const held = heldIn(from, to);
    const spelled = make("td", { class: "code" });
    for (let id = from; id < to; id++)
      spelled.append(make("span", {
        class: "t" + (data.control[id] ? " control" : id % 2 ? " odd kn" : " kn") + (held.includes(id) ? " wait" : ""), title: "id " + data.ids[id],
      }, ...shown(data.texts[id])));
    if (isEnd) spelled.append("the end");
    return make("tr", { class: held.length ? "held" : "" },
      make("td", {}, isEnd ? "" : to - from === 1 ? String(from) : `${from}–${to - 1}`),
      spelled, ...(held.length && !pushes[at].length
        ? [make("td", { class: "why dim", colspan: String(used.length + 1) }, ...whyOf(held))]
        : [...used.map((lane) => cells[lane]), make("td", { class: "why dim" }, ...whyOf(held))]));
  };

  // Lanes without an event have no column.
  let used = lanes;
  let more = () => false;
  const draw = (nth) => {
    const run = data.runs[nth];
    label.textContent = run.size === 1 ? "1 id a push" : `${run.size} ids a push`;
    const joined = joinedOf(run.pushes);
    const isSame = data.same && JSON.stringify(joined) === first;
    same.className = isSame ? "good" : "wrong";
    same.textContent = isSame
      ? `✓ ${joined.length} events, the same for every size of a push: ${data.runs.map((each) => each.size).join(", ")} ids.`
      : "✕ The events differ between sizes of a push. This is a bug of chatcodec.";
    joinedList.replaceChildren(...joined.slice(0, ROWS).map(({ lane, text }) => make("li", { class: laneColours[lane] },
      make("span", { class: "dim" }, lane + " "), make("bdi", { dir: "auto" }, ...shown(text.length > 300 ? text.slice(0, 300) + "…" : text)))));
    if (joined.length > ROWS) joinedList.append(make("li", {}, `and ${joined.length - ROWS} more`));
    const withEvents = new Set(joined.map(({ lane }) => lane));
    used = lanes.filter((lane) => withEvents.has(lane));
    const columns = ["ids", "pushed", ...used, "held back, and why"];
    const table = make("table", { class: "stream" },
      make("colgroup", {}, ...columns.map((name, at) => make("col", { class: at < 2 ? name : "" }))),
      make("thead", {}, make("tr", {}, ...columns.map((name) => make("th", { scope: "col" }, name)))));
    holder.replaceChildren(table);
    let done = 0;
    more = () => {
      const until = Math.min(run.pushes.length, done + ROWS);
      if (done >= until || !table.isConnected) return false;
      const rows = [];
      while (done < until) rows.push(row(run, done++));
      table.append(make("tbody", {}, ...rows));
      return true;
    };
    more();
    const later = () => (more() ? idle(later) : (root.dataset.ready = "yes"));
    afterPaint(later);
  };
  root.shown?.abort();
  root.shown = new AbortController();
  window.addEventListener("beforeprint", () => { while (more()); }, { signal: root.shown.signal });
  const slider = make("input", { type: "range", min: "0", max: String(data.runs.length - 1), value: "0", id: "size", "aria-label": "ids a push", oninput: () => draw(Number(slider.value)) });
  root.replaceChildren(
    make("fieldset", {}, make("legend", {}, "Ids a push"), slider, label), same, joinedList,
    make("p", { class: "dim" }, "A row is a push. Hatched: at the end of the push no event says yet what some ids are; the last column says why."),
    holder);
  draw(0);
}
