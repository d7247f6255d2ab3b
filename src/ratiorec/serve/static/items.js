// An item in words: its title, its id beside it, and what else is known of it.

import { element } from "./elements.js";

const MOST_SHOWN = 6;
const LONGEST_CHIP = 30;
const MOST_TAGS = 2;

export const nameOf = (item) => item.item_name || String(item.item_id);

export function named(item) {
  const parts = [element("span", { class: "name", text: nameOf(item) })];
  if (nameOf(item) !== String(item.item_id)) {
    parts.push(element("span", { class: "id", text: String(item.item_id) }));
  }
  return parts;
}

// Categories before tags before numbers: what tells items apart at a glance. Texts are too long.
export function shownAttributes(kinds) {
  const order = ["category", "tags", "number"];
  const names = Object.keys(kinds).filter((name) => order.includes(kinds[name]));
  names.sort((one, other) => order.indexOf(kinds[one]) - order.indexOf(kinds[other]));
  return names.slice(0, MOST_SHOWN);
}

export function chips(item) {
  return Object.entries(item.attributes || {}).flatMap(([name, value]) => {
    if (Array.isArray(value)) {
      return value.slice(0, MOST_TAGS).map((tag) => chip(name, tag));
    }
    if (typeof value === "number") {
      return [chip(name, `${name} ${value.toLocaleString("en", { maximumFractionDigits: 2 })}`)];
    }
    return value && value.length <= LONGEST_CHIP ? [chip(name, value)] : [];
  });
}

function chip(name, text) {
  const spoken = text.startsWith(`${name} `) ? "" : `${name}: `;
  return element(
    "span",
    { class: "attribute", title: name },
    element("span", { class: "unseen", text: spoken }),
    text,
  );
}

export function described(item, ...marks) {
  const more = [...marks, ...chips(item)];
  const rows = [element("div", { class: "title" }, ...named(item))];
  if (more.length) {
    rows.push(element("div", { class: "about" }, ...more));
  }
  return element("div", { class: "described" }, ...rows);
}
