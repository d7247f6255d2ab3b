// What is shown about one item: those like it, and what of the history speaks for it.

import { bar, button, byId, element, figure } from "./elements.js";
import { described, nameOf } from "./items.js";

const LONGEST = 20;

function open(title, note, rows, members = []) {
  byId("panel-title").textContent = title;
  byId("panel-note").textContent = note;
  byId("panel-list").replaceChildren(...rows);
  byId("panel-members").hidden = !members.length;
  byId("panel-members-list").replaceChildren(...members);
  if (!byId("panel").open) {
    byId("panel").showModal();
  }
}

function row(item, share, value, kind, ...actions) {
  return element(
    "li",
    {},
    described(item),
    element("div", { class: "sized" }, bar(share, kind), element("span", { class: "value", text: value })),
    ...actions,
  );
}

export function openSimilar(item, answer, add) {
  const items = answer.items.map((like) => ({
    item_id: like.similar_id,
    item_name: like.similar_name,
    score: like.score,
    attributes: like.attributes,
  }));
  const most = Math.max(...items.map((like) => like.score), 0);
  const rows = items.map((like) => {
    const put = button("Add", `Add ${nameOf(like)} to the history`, () => {
      byId("panel").close();
      add(like);
    });
    const share = most > 0 ? like.score / most : 0;
    return row(like, share, figure(like.score), "", element("div", { class: "actions" }, put));
  });
  open(`Similar to ${nameOf(item)}`, "The items that the model holds most alike, the nearest first.", rows);
}

function contributed(parts) {
  const most = Math.max(...parts.map((part) => Math.abs(part.contribution)));
  return parts.map((part) => {
    const size = part.contribution;
    const value = `${size > 0 ? "+" : ""}${figure(size)}`;
    return row(part, most > 0 ? Math.abs(size) / most : 0, value, size < 0 ? "lowers" : "");
  });
}

export function openWhy(item, answer, isUser) {
  const members = (answer.members || []).map((part) => ({ ...part, item_id: part.member }));
  const of = isUser ? " The history is scored as of someone new, not with what training made of this user." : "";
  const sum = members.length ? ", the sum of what its members give" : "";
  const note =
    `The score is ${figure(answer.score)}${sum}. Beside each item of the history: how much of it would be ` +
    `missing without that item; below 0, it speaks against.${of}`;
  const rows = contributed(answer.history).slice(0, LONGEST);
  open(`Why ${nameOf(item)}?`, note, rows, contributed(members));
}
