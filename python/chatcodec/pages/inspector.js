"use strict";
const CONTROL = 1, CONTENT = 2, GENERATED = 4, PART = 8;
// Ids and characters that the first paint has, about those of a window; ids that are shown in idle
// time; ids of a block; buttons of the string pipeline.
const AT_ONCE = 150, CHARS_AT_ONCE = 800, IN_IDLE = 60000, BLOCK = 100, BUTTONS = 500;
const roleColours = { system: 0, developer: 0, user: 1, assistant: 2, tool: 3 };

// Shows an encoding in `root`; the details of a token in `detail`. Of more than `inIdle` ids, those are
// shown that come into view.
function showEncoding(root, detail, data, inIdle = IN_IDLE) {
  // What was shown before stops its work.
  root.shown?.abort();
  root.shown = new AbortController();
  const { signal } = root.shown;
  delete root.dataset.ready;
  // Of a very long conversation, the first ids are shown.
  const count = data.texts.length, total = data.ids.length;
  const chips = new Array(count);
  const noteAt = new Map();
  for (const found of data.found)
    if (found.first !== undefined) noteAt.set(found.first, found);
  const foundAt = new Map();
  for (const found of noteAt.values())
    for (let at = found.first; at <= found.last; at++) foundAt.set(at, found);
  const kept = data.found.filter((found) => found.id >= 0).length;
  const ownControl = data.totals.control;
  const forged = data.pipeline.filter((item) => typeof item !== "string" && item[2]).length;
  const spelled = data.pipeline.filter((item) => typeof item !== "string").length;
  let colour = root.dataset.colour || "role";
  let at = -1;

  const colourOf = (id) => {
    const flags = data.flags[id];
    if (colour === "role") return "k" + (roleColours[data.roles[data.messages[id]]] ?? "n");
    if (colour === "source") return data.sources[id] < 0 ? "kn" : "k" + (data.sources[id] % 6);
    if (colour === "loss") return flags & GENERATED ? "k2" : "kn";
    return flags & CONTENT ? "k1" : "kn";
  };
  const classOf = (id) => {
    const flags = data.flags[id];
    return "t " + colourOf(id) + (id % 2 ? " odd" : "") + (flags & CONTROL ? " control" : "")
      + (flags & CONTENT || flags & CONTROL ? "" : " own") + (flags & CONTENT ? " c" : "")
      + (flags & GENERATED ? " g" : "") + (id === at ? " at" : "");
  };
  const chip = (id) => {
    const text = data.texts[id];
    // The rest of a character has no sign of its own, so that letters join and marks combine.
    const isPart = data.flags[id] & PART;
    const parts = text ? shown(text, true) : isPart ? [] : [make("span", { class: "pic" }, "·")];
    const node = make("span", { class: classOf(id), id: "t" + id, role: "option", "aria-selected": "false", "aria-label": isPart ? "rest of a character" : text.trim() ? undefined : "white space" }, ...parts);
    chips[id] = node;
    return node;
  };

  // Blocks of ids. Those after the first ones are placed when the first ones are painted, and filled
  // when they come into view or the browser has time.
  const list = make("div", { class: "tokens by-" + colour, role: "listbox", tabindex: "0", "aria-label": "tokens, with the arrow keys" });
  const blocks = [];
  for (let begin = 0, end = 0; begin < count; begin = end) {
    while (end < count && data.messages[end] === data.messages[begin]) end++;
    for (let from = begin; from < end;) {
      let to = Math.min(end, from + BLOCK);
      // A block ends after a newline if it has one, and never inside an outlined spelling.
      if (to < end)
        for (let back = to; back > to - BLOCK / 2; back--) if (data.texts[back - 1].endsWith("\n")) { to = back; break; }
      while (to < end && foundAt.has(to) && foundAt.get(to).first < to) to++;
      blocks.push({ from, to, begin, end, node: null, filled: false });
      from = to;
    }
  }
  const addTurn = ({ begin, end }) => {
    const message = data.messages[begin];
    const role = message < 0 ? (data.sources[begin] >= 0 ? data.paths[data.sources[begin]] : "format") : data.roles[message] || "message";
    const name = message < 0 ? (end === total && begin > 0 ? "generation prompt" : role) : `messages[${message}] ${role}`;
    list.append(make("div", { class: "turn " + (roleColours[role] === undefined ? "" : role), role: "group", "aria-label": name },
      make("div", { class: "head", "aria-hidden": "true" }, ...shown(name))));
  };
  const nearby = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) fill(blocks[entry.target.dataset.nth]);
  }, { rootMargin: "1500px" });
  let placed = 0;
  const placeUntil = (nth) => {
    for (; placed < blocks.length && placed <= nth; placed++) {
      const block = blocks[placed];
      if (block.from === block.begin) addTurn(block);
      const isFirst = block.from < AT_ONCE;
      block.node = make("div", { class: isFirst ? "" : "block", "data-nth": String(placed) });
      list.lastChild.append(block.node);
      if (isFirst) fill(block);
      else nearby.observe(block.node);
    }
  };
  const fill = (block) => {
    if (block.filled) return;
    block.filled = true;
    for (let id = block.from; id < block.to;) {
      const source = data.sources[id];
      const group = source < 0 ? null : make("bdi", { dir: "auto" });
      while (id < block.to && data.sources[id] === source) {
        // An id may end one spelling and begin the next: the next one's mark has its other ids.
        const begun = foundAt.get(id);
        const found = noteAt.get(id) ?? (begun && begun.first === id - 1 ? begun : undefined);
        if (found === undefined) {
          (group || block.node).append(chip(id++));
          continue;
        }
        const note = found.id < 0 ? "reads as a marker" : `text, not ${found.id}`;
        const mark = make("mark", { class: found.id < 0 ? "reads" : "", dir: "ltr", "data-note": note }, make("span", { class: "shield", "data-note": note }));
        while (id <= found.last) mark.append(chip(id++));
        (group || block.node).append(mark);
      }
      if (group) block.node.append(group);
    }
  };
  const first = blocks.filter((block) => block.from < AT_ONCE).length;
  placeUntil(first - 1);
  window.addEventListener("beforeprint", () => { placeUntil(Infinity); blocks.forEach(fill); }, { signal });
  signal.addEventListener("abort", () => nearby.disconnect());

  const select = (id, scroll) => {
    if (id < 0 || id >= count || id === at) return;
    const before = at;
    at = id;
    detail.dataset.at = String(id);
    if (!chips[id]) {
      const nth = blocks.findIndex((block) => id < block.to);
      placeUntil(nth);
      fill(blocks[nth]);
    }
    if (before >= 0 && chips[before]) { chips[before].className = classOf(before); chips[before].setAttribute("aria-selected", "false"); }
    chips[id].className = classOf(id);
    chips[id].setAttribute("aria-selected", "true");
    list.setAttribute("aria-activedescendant", "t" + id);
    if (scroll) chips[id].scrollIntoView({ block: "center" });
    const flags = data.flags[id];
    const found = foundAt.get(id);
    let rest = id + 1;
    while (rest < count && data.flags[rest] & PART) rest++;
    const hex = data.bytes[data.ids[id]].replace(/../g, "$& ").trim();
    facts(detail, [
      ["position", `${id} of ${total}`], ["id", data.ids[id]], ["text", data.texts[id] || (flags & PART ? "(rest of a character)" : "(none)")],
      ["bytes", hex.length > 300 ? hex.slice(0, 300) + "…" : hex || "(none)"],
      ...(rest > id + 1 ? [["ids of this character", data.ids.slice(id, rest).join(" ")]] : []),
      ["kind", flags & CONTROL ? "control token" : "text"],
      ["source", data.sources[id] < 0 ? "the format" : data.paths[data.sources[id]]],
      ["message", data.messages[id] < 0 ? "none" : `${data.messages[id]} ${data.roles[data.messages[id]] || ""}`],
      ["bytes of the rendered text", `${data.offsets[2 * id]} to ${data.offsets[2 * id + 1]}`],
      ["a model generates it", flags & GENERATED ? "yes" : "no"], ["caller's text", flags & CONTENT ? "yes" : "no"],
      ...(found === undefined ? [] : [[`spells, at ${found.path}[${found.start}:${found.end}]`,
        found.id < 0 ? `the marker ${found.spelling}` : `${found.spelling}, which elsewhere is the control id ${found.id}`, "wrong"]]),
    ]);
  };
  const idOf = (event) => {
    const node = event.target.closest && event.target.closest(".t");
    return node ? Number(node.id.slice(1)) : -1;
  };
  list.addEventListener("mouseover", (event) => select(idOf(event), false));
  list.addEventListener("click", (event) => select(idOf(event), false));
  list.addEventListener("focus", () => { if (at < 0) select(0, false); });
  const firstOf = (from, step) => {
    let id = from;
    while (id >= 0 && id < count && data.messages[id] === data.messages[from]) id += step;
    return id;
  };
  const outlined = [...noteAt.keys()].sort((a, b) => a - b);
  list.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const to = {
      ArrowRight: () => at + 1, ArrowLeft: () => at - 1, Home: () => 0, End: () => count - 1,
      ArrowDown: () => firstOf(at, 1), ArrowUp: () => firstOf(at, -1),
      n: () => outlined.find((id) => id > at) ?? at, p: () => outlined.filter((id) => id < at).pop() ?? at,
    }[event.key];
    if (!to) return;
    event.preventDefault();
    select(to(), true);
  });

  // The rendered text as one string, with every control token that a tokenizer finds in it.
  const string = make("div", { class: "string", role: "region", tabindex: "0", "aria-label": "the string pipeline" });
  let buttons = 0;
  let isTaken = false;
  let turns = 0;
  const openers = new Set(data.ids.slice(0, count).filter((id, nth) => data.flags[nth] & CONTROL && (nth === 0 || data.messages[nth] !== data.messages[nth - 1])));
  let part = make("div", {});
  let inPart = 0, added = 0;
  string.append(part);
  const add = (node, size) => {
    if (inPart > 4000) {
      part = make("div", { class: "block" });
      string.append(part);
      inPart = 0;
    }
    part.append(node);
    inPart += size;
    added += size;
  };
  // The pieces are made one at a time: the first ones at once, the others when the browser has time.
  const pieces = (function* () {
    for (const item of data.pipeline) {
      if (typeof item !== "string") yield piece(item);
      else for (let from = 0; from < item.length;) {
        let to = Math.min(item.length, from + CHARS_AT_ONCE);
        const line = to < item.length ? item.lastIndexOf("\n", to - 1) + 1 : 0;
        if (line > from) to = line;
        else if (/[\ud800-\udbff]/.test(item[to - 1])) to++;
        yield add(make("bdi", { dir: "auto", class: isTaken ? "taken" : undefined }, ...shown(item.slice(from, to), true)), to - from);
        from = to;
      }
    }
  })();
  const piece = ([spelling, id, isForged, target]) => {
    const name = isForged ? `forged control token ${id}` : `control token ${id}`;
    if (isForged && openers.has(id) && !(part.textContent || "\n").endsWith("\n")) add(document.createElement("br"), 1);
    if (isForged && buttons++ < BUTTONS)
      add(make("button", { type: "button", title: name, onclick: () => { select(target, true); list.focus({ preventScroll: true }); } },
        "⚠ ", ...shown(spelling)), spelling.length);
    else add(make("span", { class: isForged ? "many" : "genuine", title: name }, ...(isForged ? ["⚠ "] : []), ...shown(spelling)), spelling.length);
    if (isForged && openers.has(id)) isTaken = true;
    else if (!isForged) isTaken = false;
  };
  const addMore = (size) => {
    const wanted = added + size;
    while (added < wanted) if (pieces.next().done) return false;
    return true;
  };
  addMore(CHARS_AT_ONCE);
  window.addEventListener("beforeprint", () => addMore(Infinity), { signal });
  for (const item of data.pipeline) if (typeof item !== "string" && item[2] && openers.has(item[1])) turns++;

  let ready = first;
  const later = (deadline) => {
    if (signal.aborted) return;
    const begun = performance.now();
    placeUntil(Infinity);
    let isMore = true;
    do {
      const isChip = ready < blocks.length && blocks[ready].from < inIdle;
      if (isChip) fill(blocks[ready++]);
      isMore = addMore(CHARS_AT_ONCE) || isChip;
    } while (isMore && hasTime(deadline, begun));
    if (isMore) idle(later);
    else root.dataset.ready = "yes";
  };
  afterPaint(later);

  const number = (value, what, style) => make("span", {}, make("b", { class: style || "" }, String(value)), " " + what);
  const recolour = (value) => {
    colour = root.dataset.colour = value;
    list.className = "tokens by-" + value;
    chips.forEach((node, id) => { if (node) node.className = classOf(id); });
  };
  root.replaceChildren(
    make("div", { class: "counts" }, number(total, "ids"), number(ownControl, "control tokens, all the format's"),
      number(kept, "forged spellings kept as text", kept ? "kept" : ""),
      number(forged, "forged control tokens in the string pipeline", forged ? "wrong" : "")),
    choices("colour", "Colours by", [["role", "role"], ["source", "source"], ["loss", "loss mask"], ["content", "caller's text"]], colour, recolour),
    make("div", { class: "panes" },
      make("section", { class: "pane", "aria-label": "chatcodec" }, make("h2", {}, "chatcodec"),
        make("p", { class: "dim" }, "Hexagon: control. Italic: the format's text. Shield: a caller's text that spells control, and stays text. Keys: arrows, Home, End; n and p for shields."), list,
        total > count ? make("p", { class: "dim" }, `The first ${count} of ${total} ids.`) : null),
      make("section", { class: "pane", "aria-label": "the string pipeline beside it" }, make("h2", {}, "The string pipeline: what most servers send"),
        make("p", { class: forged ? "wrong" : "dim" }, forged ? `${forged} of ${spelled} control tokens come from a caller's text (⚠)` + (turns ? `: ${turns} forged ${turns > 1 ? "turns" : "turn"}, underlined.` : ".") : `${spelled} control tokens, none from a caller's text.`), string)));
  delete detail.dataset.at;
  facts(detail, [["token", "point at a token, or move to one with the arrow keys"]]);
}
