"use strict";
// Heat maps of an audit: a row for each control token, a column for each place of a caller's text.
(() => {
  const audit = JSON.parse(document.getElementById("data").textContent);
  const main = document.getElementById("page");
  const order = ["forged", "refused", "text", "absent"];
  const signs = { forged: "✕", refused: "⊘", text: "✓", absent: "–" };
  const meanings = {
    forged: "forged: the text becomes a control token", refused: "refused with an error",
    text: "stays text", absent: "not written: the conversation's text does not have the place",
  };
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
    const [token, place] = found[0];
    detail.replaceChildren(
      make("p", {}, make("b", {}, ...shown(audit.tokens[token])), " in " + audit.places[place]),
      make("table", {},
        make("thead", {}, make("tr", {}, ...["spelling", "text", ...audit.sides.map(([, name]) => name)].map((name) => make("th", { scope: "col" }, name)))),
        make("tbody", {}, ...found.map((finding) => make("tr", {},
          make("td", {}, finding[2]), make("td", { class: "code" }, make("bdi", { dir: "ltr" }, ...shown(finding[3]))),
          ...audit.sides.map(([, , at]) => make("td", { class: finding[at] === "forged" ? "wrong" : "" }, signs[finding[at]] + " " + finding[at])))))));
  }
  function cell(token, place, side) {
    const found = cells.get(token + " " + place);
    if (!found) return make("td", {});
    const word = worst(found, side);
    const name = audit.tokens[token] + ", " + audit.places[place] + ": " + word;
    return make("td", {}, make("button", {
      type: "button", class: word, "data-outcome": word, "aria-label": name, title: name, onclick: () => open(found),
    }, signs[word]));
  }
  function map([title, , side, count]) {
    const head = make("tr", {}, make("th", { scope: "col" }, "control token"),
      ...audit.places.map((place) => make("th", { scope: "col" }, make("span", {}, place))));
    const rows = audit.tokens.map((token, nth) => make("tr", {},
      make("th", { scope: "row", title: token }, make("code", {}, ...shown(token))),
      ...audit.places.map((_, place) => cell(nth, place, side))));
    return make("section", { class: "pane" }, make("h2", {}, title),
      make("p", { class: count ? "wrong" : "good" }, `${count} of ${audit.findings.length} texts forge a control token.`),
      make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title },
        make("table", { class: "heat" }, make("thead", {}, head), make("tbody", {}, ...rows))));
  }
  main.append(
    make("p", {}, "Each control token, put into each place that a caller's text reaches: ", make("b", {}, ...shown(audit.model)), "."),
    make("p", { class: "legend" }, ...order.map((word) => make("span", {}, make("span", { class: "cell " + word }, signs[word]), " " + meanings[word]))),
    make("div", { class: "maps" }, ...audit.sides.map(map)),
  );
  facts(detail, [["cell", "press one for its examples; it shows the worst outcome of all spellings"]]);
  document.body.append(detail);
})();
