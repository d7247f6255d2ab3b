// A user by the whole id; by a part of it where the server lets people search.

import * as api from "./api.js";
import { byId, element } from "./elements.js";
import { combobox } from "./search.js";

const FOUND = 10;
const LONGEST = 200; // the server searches for no more, and an id that long has few like it
let isOffered = false;

function described(user) {
  const n = `${user.n_items.toLocaleString("en")} ${user.n_items === 1 ? "item" : "items"}`;
  return [
    element("span", { class: "name", text: String(user.user_id) }),
    element("span", { class: "id", text: n }),
  ];
}

export function offerUsers(isSearchable, { show, say, fail }) {
  byId("user-note").className = isSearchable ? "unseen" : "note";
  byId("user-note").textContent = isSearchable
    ? "Arrow keys choose, Enter shows, Escape closes."
    : "The whole id: this server does not search for users.";
  if (!isSearchable || isOffered) {
    return;
  }
  isOffered = true; // the model is read again once a key is given
  const input = byId("user");
  input.placeholder = "Part of a user id";
  for (const [name, value] of [
    ["role", "combobox"],
    ["aria-expanded", "false"],
    ["aria-controls", "user-options"],
    ["aria-autocomplete", "list"],
  ]) {
    input.setAttribute(name, value);
  }
  combobox({
    input,
    list: byId("user-options"),
    noun: "user",
    find: async (query) => (await api.searchUsers(query.slice(0, LONGEST), FOUND)).users,
    choose: (user) => {
      input.value = user.user_id;
      show(user.user_id);
    },
    typed: () => input.form.requestSubmit(),
    describe: described,
    say,
    fail,
  });
}
