// The history that lists are made for, as chips.

import { button, byId, element } from "./elements.js";
import { nameOf } from "./items.js";

const FEW = 8;
let isWhole = false;

function chip(item, remove) {
  return element(
    "li",
    { class: "chip" },
    element("span", { text: nameOf(item), title: String(item.item_id) }),
    button("×", `Remove ${nameOf(item)}`, () => remove(item)),
  );
}

export function showHistory({ history, user, isExample }, remove) {
  const draw = () => {
    const shown = isWhole ? history : history.slice(-FEW);
    replaceKeepingFocus(byId("history"), shown.map((item) => chip(item, remove)), "history-title");
    byId("whole").hidden = history.length <= FEW;
    byId("whole").textContent = isWhole ? "Show fewer" : `Show all ${history.length}`;
    byId("whole").setAttribute("aria-expanded", String(isWhole));
  };
  byId("whole").onclick = () => {
    isWhole = !isWhole;
    draw();
  };
  draw();
  byId("clear").hidden = !history.length && !user;
  byId("start").hidden = Boolean(history.length || user);
  byId("whose").textContent = whose(history, user, isExample);
}

function whose(history, user, isExample) {
  const count = (n) => `${n.toLocaleString("en")} ${n === 1 ? "item" : "items"}`;
  const [one, another] = isExample ? ["An example: user", "An example: a"] : ["User", "A"];
  if (user) {
    const kept = user.n_items > history.length ? `, ${history.length} of them are shown` : "";
    return `${one} ${user.user_id} had ${count(user.n_items)}${kept}.`;
  }
  return history.length ? `${another} new visitor with ${count(history.length)}.` : "No items yet.";
}

// A list that is made anew must not send whoever is in it by keyboard back to the top.
export function replaceKeepingFocus(list, children, title) {
  const places = () => [...list.children];
  const place = places().findIndex((row) => row.contains(document.activeElement));
  list.replaceChildren(...children);
  if (place >= 0) {
    const row = places()[Math.min(place, places().length - 1)];
    (row ? row.querySelector("button") : byId(title)).focus();
  }
}
