"use strict";
// Tabs: buttons that show one of several panels, with the arrow keys too. `chosen` is called with the name.
function startTabs(names, panels, chosen) {
  const node = make("div", { class: "tabs", role: "tablist", "aria-label": "what is shown" });
  const holders = Object.entries(panels).map(([name, panel]) =>
    make("div", { role: "tabpanel", id: "panel-" + name, "aria-labelledby": "tab-" + name }, panel));
  const show = (name) => {
    for (const tab of node.children) {
      const isChosen = tab.dataset.view === name;
      tab.setAttribute("aria-selected", String(isChosen));
      tab.tabIndex = isChosen ? 0 : -1;
    }
    for (const holder of holders) holder.hidden = holder.id !== "panel-" + name;
    chosen(name);
  };
  for (const name of Object.keys(panels))
    node.append(make("button", { type: "button", role: "tab", id: "tab-" + name, "data-view": name, "aria-controls": "panel-" + name, onclick: () => show(name) }, names[name]));
  node.addEventListener("keydown", (event) => {
    const all = [...node.children];
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = all[(all.indexOf(document.activeElement) + step + all.length) % all.length];
    next.focus();
    show(next.dataset.view);
  });
  return { node, holders, show };
}
