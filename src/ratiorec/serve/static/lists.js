// Ranked lists: one, or those of two variants side by side with what has moved between them.

import { bar, button, byId, element, figure } from "./elements.js";
import { replaceKeepingFocus } from "./history.js";
import { described, nameOf } from "./items.js";

// `lists` has one or two of {items, measure, variant}, or with a refusal in place of items; `actions` gives the buttons of an item.
export function showLists(lists, actions) {
  const [first, second] = lists;
  byId("lists").classList.toggle("two", Boolean(second));
  byId("beside-list").hidden = !second;
  showOne(first, second, ["recommendations", "kind", "variant-title"], actions);
  showOne(second || { items: [], measure: first.measure }, first, ["beside-items", "beside-kind", "beside-title"], actions);
}

function showOne(list, other, [rows, kind, title], actions) {
  const { items, measure, refusal } = list;
  const values = items.map((item) => measure.value(item.score));
  const lengths = measure.shares(values);
  const ranks = other && !other.refusal && new Map(other.items.map((item) => [item.item_id, item.rank]));
  const made = items.map((item, place) => {
    const size = element(
      "span",
      { class: "value" },
      element("span", { class: "unseen", text: `${measure.name} ` }),
      figure(values[place]),
    );
    const sized = element("div", { class: "sized" }, bar(lengths[place]), size);
    const marks = [...(item.kind === "cold" ? [mark("new item", "cold")] : []), ...moved(item, ranks, list)];
    return element("li", {}, described(item, ...marks), sized, ...menu(item, actions));
  });
  replaceKeepingFocus(byId(rows), made, "recommendations-title");
  byId(kind).textContent = refusal ? told(refusal.parts) : kindOf(items);
  byId(title).hidden = !other;
  byId(title).textContent = list.variant ? `Variant ${list.variant}` : "";
}

const mark = (text, kind) => element("span", { class: `mark ${kind}`, text });

// Marks say where an item of the second list stood in the first, and which of the first have gone.
function moved(item, ranks, { isSecond }) {
  if (!ranks) {
    return [];
  }
  const before = ranks.get(item.item_id);
  if (before === undefined) {
    return [mark("only here", "only")];
  }
  const by = before - item.rank;
  if (!isSecond || !by) {
    return [];
  }
  return [mark(`${by > 0 ? "▲" : "▼"} ${Math.abs(by)} ${by > 0 ? "up" : "down"}`, by > 0 ? "up" : "down")];
}

const told = ({ what, where, found, wanted }) =>
  `There is no list: ${what} (where: ${where}; found: ${found}; wanted: ${wanted}).`;

function kindOf(items) {
  const cold = items.filter((item) => item.kind === "cold").length;
  if (!items.length) {
    return "";
  }
  if (items.every((item) => item.kind === "fallback")) {
    return "Nothing is known of this user: these are the items with most users.";
  }
  const few = cold === 1 ? "1 of them is a new item" : `${cold} of them are new items`;
  return cold
    ? `Ranked for this history; ${few}, which nobody has had: ranked by what is known of them.`
    : "Ranked for this history.";
}

// One quiet button a row; what it opens goes away when another is opened.
function menu(item, actions) {
  const opener = button("⋯", `Actions for ${nameOf(item)}`, () => {
    const isOpen = opener.getAttribute("aria-expanded") === "true";
    closeMenus();
    if (!isOpen) {
      opener.setAttribute("aria-expanded", "true");
      opened.append(...actions(item));
      opened.hidden = false;
      opened.firstElementChild.focus();
    }
  });
  opener.className = "more quiet";
  opener.setAttribute("aria-expanded", "false");
  const opened = element("div", { class: "actions", role: "group", "aria-label": `For ${nameOf(item)}` });
  opened.hidden = true;
  return [opener, opened];
}

function closeMenus() {
  document.querySelectorAll('.more[aria-expanded="true"]').forEach((opener) => {
    const opened = opener.nextElementSibling;
    if (opened.contains(document.activeElement)) {
      opener.focus();
    }
    opener.setAttribute("aria-expanded", "false");
    opened.replaceChildren();
    opened.hidden = true;
  });
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !event.defaultPrevented && !byId("panel").open) {
    closeMenus();
  }
});
