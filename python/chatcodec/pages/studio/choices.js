"use strict";
// The selects of a model and of what writes, for the conversation and for what it is compared with.
// The state has the chosen ones: a model by its number, a writer by its name.
const CHOSEN = ["vocabulary", "format", "besideVocabulary", "besideFormat"];

function startChoices(state, offered, ask) {
  const isModel = (key) => /vocabulary/i.test(key);
  const selects = Object.fromEntries(CHOSEN.map((key) => [key, make("select", { onchange: () => {
    state[key] = isModel(key) ? Number(selects[key].value) : selects[key].value;
    ask();
  } })]));
  // Fills the selects, anew when something more is offered.
  const draw = () => {
    const models = offered.vocabularies.map((name, at) => [String(at), name]);
    const writers = [["", "the model's own"], ...offered.formats.map((name) => [name, name])];
    for (const key of CHOSEN)
      selects[key].replaceChildren(...(isModel(key) ? models : writers).map(([value, text]) =>
        make("option", { value, selected: value === String(state[key]) }, ...shown(text))));
  };
  draw();
  const nameOf = (vocabulary, format) => offered.vocabularies[vocabulary] + (format ? ` · ${format}` : "");
  return {
    selects,
    names: () => [nameOf(state.vocabulary, state.format), nameOf(state.besideVocabulary, state.besideFormat)],
    take: ({ key, name, offered: more }) => {
      Object.assign(offered, more);
      state[key] = key === "format" ? name : offered.vocabularies.indexOf(name);
      draw();
      ask();
    },
  };
}
