"use strict";
// Shows the items of the page's data, one at a time.
(() => {
  const { items } = JSON.parse(document.getElementById("data").textContent);
  const main = document.getElementById("page");
  const detail = make("aside", { class: "detail", "aria-live": "polite", "aria-label": "the token", tabindex: "0" });
  const root = make("div", {});
  const show = (nth) => {
    const item = items[nth];
    detail.hidden = item.kind !== "encoding";
    delete root.dataset.ready;
    if (item.kind === "encoding") showEncoding(root, detail, item);
    else if (item.kind === "stream") showStream(root, item);
    else root.replaceChildren(make("p", { class: "wrong" }, ...shown(item.error)));
  };
  if (items.length > 1) {
    const select = make("select", { id: "item", onchange: () => show(Number(select.value)) },
      ...items.map((item, nth) => make("option", { value: String(nth) }, ...shown(item.title || String(nth)))));
    main.append(make("p", {}, make("label", { for: "item" }, "Line "), select));
  }
  main.append(root);
  document.body.append(detail);
  if (items.length) show(0);
  else root.append("There is nothing to show.");
})();
