// An item in words.

import { element } from "./elements.js";

export const nameOf = (item) => item.item_name || String(item.item_id);

export function described(item) {
  const parts = [element("span", { class: "name", text: nameOf(item) })];
  if (nameOf(item) !== String(item.item_id)) {
    parts.push(element("span", { class: "id", text: String(item.item_id) }));
  }
  return parts;
}
