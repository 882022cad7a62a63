"use strict";
// Buttons that put an attack where the cursor is, and what became of the attacks.
function attackButtons(insert) {
  const node = make("div", { class: "adds", role: "group", "aria-label": "forge" });
  const draw = (attacks) => node.replaceChildren(...Object.entries(attacks).map(([name, text]) =>
    press(`⚠ ${name}`, `forge ${name}`, () => insert(text), "small attack")));
  return { node, draw };
}

// One line on an encoding: what its texts would forge in the string pipeline, and what they are here.
function verdict(encoding) {
  const kept = encoding.found.filter((found) => found.id >= 0).length;
  const asMarkers = encoding.found.length - kept;
  const forged = encoding.pipeline.filter((item) => typeof item !== "string" && item[2]).length;
  const times = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;
  if (asMarkers) return make("p", { class: "verdict open" }, `${times(asMarkers, "text")} of the conversation can be read as a marker: the markers of this format are text.`);
  if (!kept) return make("p", { class: "verdict" }, "No text spells a control token. Try an attack.");
  return make("p", { class: "verdict safe" }, `Kept as text: ${times(kept, "spelling")} of control tokens. `
    + (forged ? `The string pipeline reads ${times(forged, "control token")} there.` : ""));
}
