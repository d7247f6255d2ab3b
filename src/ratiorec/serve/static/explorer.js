// The page: a history, what is recommended for it, and why.

import * as api from "./api.js";
import { headline, modelCard } from "./card.js";
import { bar, button, byId, element, figure } from "./elements.js";
import { described, nameOf } from "./items.js";
import { ItemMap } from "./map.js";
import { openSimilar, openWhy } from "./panel.js";
import { measureOf } from "./ratio.js";
import { combobox } from "./search.js";
import { offerUsers } from "./users.js";

const LISTED = 20;
const FOUND = 10;
const SUGGESTED = 8;
const SIMILAR = 10;

const state = { history: [], user: null, recommended: [], measure: measureOf({}), limits: {} };
let updates = 0;

const map = new ItemMap((item) => add(item));

function say(text) {
  byId("said").textContent = text;
}

function fail(error) {
  if (!(error instanceof api.Refusal)) {
    throw error;
  }
  const { parts, status } = error;
  const list = element("dl");
  for (const name of ["where", "found", "wanted"]) {
    const pair = [element("dt", { text: name }), element("dd", { text: parts[name] })];
    list.append(element("div", {}, ...pair));
  }
  const close = button("Dismiss", "Dismiss this message", calm);
  const what = element("strong", { text: parts.what });
  byId("problem").replaceChildren(element("div", { class: "between" }, what, close), list);
  byId("problem").hidden = false;
  byId("problem").scrollIntoView({ block: "nearest" });
  if (status === 401) {
    byId("key-form").hidden = false;
    byId("key").focus();
  }
}

function calm() {
  byId("problem").hidden = true;
}

// A list that is made anew must not send whoever is in it by keyboard back to the top.
function replaceKeepingFocus(list, children, title) {
  const buttons = () => [...list.querySelectorAll("button")];
  const place = buttons().indexOf(document.activeElement);
  list.replaceChildren(...children);
  if (place >= 0) {
    (buttons()[Math.min(place, buttons().length - 1)] || byId(title)).focus();
  }
}

function showHistory() {
  const { history, user } = state;
  const chips = history.map((item) =>
    element(
      "li",
      { class: "chip" },
      element("span", { text: nameOf(item) }),
      button("×", `Remove ${nameOf(item)}`, () => remove(item)),
    ),
  );
  replaceKeepingFocus(byId("history"), chips, "history-title");
  byId("clear").hidden = !history.length && !user;
  byId("start").hidden = Boolean(history.length || user);
  const n = `${history.length} ${history.length === 1 ? "item" : "items"}`;
  let whose = history.length ? `${n}, as of someone new.` : "Nothing yet.";
  if (user) {
    const kept = user.n_items > history.length ? `, ${history.length} of them shown` : "";
    whose = `User ${user.user_id} had ${user.n_items.toLocaleString("en")} items${kept}.`;
  }
  byId("whose").textContent = whose;
}

function rankedRow(item, share, value) {
  const name = nameOf(item);
  const actions = element(
    "div",
    { class: "actions" },
    button("Add", `Add ${name} to the history`, () => add(item)),
    button("Similar", `Similar to ${name}`, () => showSimilar(item)),
  );
  if (state.history.length) {
    actions.append(button("Why", `Why ${name}?`, () => showWhy(item)));
  }
  const size = element(
    "span",
    { class: "value" },
    element("span", { class: "unseen", text: `${state.measure.name} ` }),
    figure(value),
  );
  const title = element("div", { class: "title" }, ...described(item));
  return element("li", {}, title, element("div", { class: "sized" }, bar(share), size), actions);
}

function showRecommendations() {
  const { recommended, measure } = state;
  const values = recommended.map((item) => measure.value(item.score));
  const lengths = measure.shares(values);
  const rows = recommended.map((item, place) => rankedRow(item, lengths[place], values[place]));
  replaceKeepingFocus(byId("recommendations"), rows, "recommendations-title");
  const asked = state.history.length || state.user;
  byId("measure").textContent = recommended.length
    ? measure.about
    : asked ? "Nothing is left to recommend." : "Add an item or show a user.";
}

async function recommended() {
  const { history, user } = state;
  if (user) {
    return (await api.recommendToUser(user.user_id, LISTED)).items;
  }
  if (history.length) {
    return (await api.recommendToHistory(history.map((i) => i.item_id), LISTED)).items;
  }
  return [];
}

async function update(news) {
  const mine = ++updates;
  showHistory();
  try {
    const items = await recommended();
    if (mine !== updates) {
      return;
    }
    state.recommended = items;
    calm();
    showRecommendations();
    const best = items.length ? `${items.length} recommendations, first ${nameOf(items[0])}.` : "";
    say(`${news} ${best}`);
    await map.mark(state.history, items);
  } catch (error) {
    if (mine === updates) {
      state.recommended = []; // those of another history would stand beside this one
      showRecommendations();
      byId("measure").textContent = "There is no list for this history.";
      fail(error);
    }
  }
}

function add(item) {
  const entry = { item_id: item.item_id, item_name: item.item_name };
  if (state.history.some((other) => other.item_id === entry.item_id)) {
    say(`${nameOf(entry)} is in the history already.`);
    return;
  }
  state.user = null;
  state.history = [...state.history, entry];
  update(`Added ${nameOf(entry)}.`);
}

function remove(item) {
  state.user = null;
  state.history = state.history.filter((other) => other.item_id !== item.item_id);
  update(`Removed ${nameOf(item)}.`);
}

function clear() {
  state.user = null;
  state.history = [];
  byId("search").focus();
  update("The history is empty.");
}

async function showUser(id) {
  const most = Math.min(state.limits.max_history || 100, state.limits.max_k || 100);
  try {
    const answer = await api.historyOf(id, most);
    state.user = answer;
    state.history = answer.items;
    await update(`User ${answer.user_id}.`);
  } catch (error) {
    fail(error);
  }
}

async function showSimilar(item) {
  try {
    openSimilar(item, await api.similarTo(item.item_id, SIMILAR), add);
  } catch (error) {
    fail(error);
  }
}

async function showWhy(item) {
  try {
    const answer = await api.why(state.history.map((i) => i.item_id), item.item_id);
    openWhy(item, answer, Boolean(state.user));
  } catch (error) {
    fail(error);
  }
}

async function showSuggestions() {
  const { items } = await api.searchItems("", SUGGESTED);
  byId("suggestions").replaceChildren(
    ...items.map((item) => {
      const put = button(nameOf(item), `${nameOf(item)}, add to the history`, () => {
        byId("search").focus();
        add(item);
      });
      return element("li", {}, put);
    }),
  );
}

async function showMap() {
  try {
    await map.read();
    await map.mark(state.history, state.recommended);
  } catch (error) {
    byId("to-map").parentElement.hidden = true; // a model without vectors has no map
    if (error.status !== 404) {
      fail(error);
    }
  }
}

async function start() {
  try {
    const answer = await api.model();
    state.measure = measureOf(answer.settings);
    state.limits = answer.limits;
    byId("lead").textContent = headline(answer);
    byId("card").replaceChildren(...modelCard(answer));
    byId("key-form").hidden = true;
    calm();
    offerUsers(answer.user_search, { show: showUser, say, fail });
    await showSuggestions();
    showHistory();
  } catch (error) {
    byId("lead").textContent = "The model could not be read.";
    fail(error);
    return;
  }
  await showMap();
}

combobox({
  input: byId("search"),
  list: byId("options"),
  noun: "item",
  find: async (query) => (await api.searchItems(query, FOUND)).items,
  choose: add,
  describe: described,
  say,
  fail,
});
byId("user-form").addEventListener("submit", (event) => {
  event.preventDefault();
  showUser(byId("user").value); // as it is: spaces may be a part of an id
});
byId("clear").addEventListener("click", clear);
byId("panel-close").addEventListener("click", () => byId("panel").close());
byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  api.useKey(byId("key").value.trim());
  byId("key").value = "";
  start();
});
start();
