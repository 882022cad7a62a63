"use strict";
// A heat map of an audit: a row for each control token, a column for each place of a caller's text.
(() => {
  const audit = JSON.parse(document.getElementById("data").textContent);
  const main = document.getElementById("page");
  const order = ["forged", "refused", "text", "absent"];
  const signs = { forged: "✕ forged", refused: "⊘ refused", text: "text", absent: "–" };
  const detail = make("aside", { class: "detail", "aria-live": "polite", "aria-label": "the examples", tabindex: "0" });
  const cells = new Map();
  for (const finding of audit.findings) {
    const key = finding[0] + " " + finding[1];
    if (!cells.has(key)) cells.set(key, []);
    cells.get(key).push(finding);
  }
  function worst(found, side) {
    return order.find((word) => found.some((finding) => finding[side] === word));
  }
  function open(found) {
    facts(detail, found.flatMap(([token, place, spelling, text, string, codec]) => [
      ["control token", audit.tokens[token]], ["place", audit.places[place]], ["spelling", spelling],
      ["text", text, "code"], ["string pipeline", string], ["codec", codec],
    ]));
  }
  function cell(token, place, side) {
    const found = cells.get(token + " " + place);
    if (!found) return make("td", {}, "–");
    const word = worst(found, side);
    const name = audit.tokens[token] + ", " + audit.places[place] + ": " + word;
    const button = make("button", {
      type: "button", class: word === "forged" ? "bad" : "", "data-outcome": word, "aria-label": name, onclick: () => open(found),
    }, signs[word]);
    return make("td", {}, button);
  }
  function map(title, side, count) {
    const head = make("tr", {}, make("th", { scope: "col" }, "control token"),
      ...audit.places.map((place) => make("th", { scope: "col" }, place)));
    const rows = audit.tokens.map((token, nth) => make("tr", {},
      make("th", { scope: "row" }, make("code", {}, ...shown(token))),
      ...audit.places.map((_, place) => cell(nth, place, side))));
    const about = count + " of " + audit.findings.length + " texts forge a control token.";
    return make("section", { class: "pane" }, make("h2", {}, title), make("p", {}, about),
      make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title },
        make("table", { class: "heat" }, make("thead", {}, head), make("tbody", {}, ...rows))));
  }
  main.append(
    make("p", {}, ...shown(audit.model)),
    make("p", { class: "dim" }, "A cell has the worst outcome of all spellings; press it for the examples."),
    map("The string pipeline: the rendered text is tokenized whole", 4, audit.forged_by_string),
    map("chatcodec", 5, audit.forged),
  );
  document.body.append(detail);
})();
