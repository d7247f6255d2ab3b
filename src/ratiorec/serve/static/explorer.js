// The page: a history, what is recommended for it, and why.

import * as address from "./address.js";
import * as api from "./api.js";
import { headline, modelCard } from "./card.js";
import * as controls from "./controls.js";
import { button, byId, element } from "./elements.js";
import { example } from "./example.js";
import { showHistory } from "./history.js";
import { described, nameOf, shownAttributes } from "./items.js";
import { showLists } from "./lists.js";
import { ItemMap } from "./map.js";
import { openSimilar, openWhy } from "./panel.js";
import { measureOf } from "./ratio.js";
import { combobox } from "./search.js";
import { offerUsers } from "./users.js";

const LISTED = 20;
const FOUND = 10;
const SUGGESTED = 8;
const SIMILAR = 10;
const LONGEST_SEARCH = 200; // characters

const state = { history: [], user: null, isExample: false, lists: [], view: address.read(), model: null };
const models = new Map(); // what is known of each variant
let updates = 0;
let wishes = 0; // whose history is to be shown: what comes too late for an earlier one is dropped

const map = new ItemMap((item) => add(item), (text) => say(text));

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
  controls.hideFilterProblem();
}

// --- asking ------------------------------------------------------------------------------------

const several = () => (state.model.variants || []).length > 1;

// What is asked of every address that knows variants and attributes, if there are any.
function asking(variant = state.view.variant) {
  const known = models.get(variant) || state.model;
  const attributes = shownAttributes((known.attributes || {}).items || {});
  return { variant: several() ? variant : "", attributes };
}

async function known(variant) {
  if (!models.has(variant)) {
    models.set(variant, await api.model({ variant }));
  }
  return models.get(variant);
}

async function listOf(variant, isSecond) {
  const { history, user, view } = state;
  const { settings } = several() ? await known(variant) : state.model;
  const { rules, diversity } = view;
  const options = { k: LISTED, filter: controls.filterOf(view), rules, diversity, ...asking(variant) };
  const answer = user
    ? await api.recommendToUser(user.user_id, options)
    : await api.recommendToHistory(history.map((item) => item.item_id), options);
  return { items: answer.items, measure: measureOf(settings), variant: options.variant, isSecond };
}

async function asked() {
  const { history, user, view } = state;
  if (!user && !history.length) {
    return [{ items: [], measure: measureOf(state.model.settings) }];
  }
  const variants = several() && view.beside ? [view.variant, view.beside] : [view.variant];
  const [first, ...others] = variants.map((variant, place) => listOf(variant, place > 0));
  return Promise.all([first, ...others.map((list) => list.catch(withoutList))]);
}

// A second variant that refuses leaves the list of the first one as it is.
function withoutList(refusal) {
  if (!(refusal instanceof api.Refusal)) {
    throw refusal;
  }
  const measure = measureOf(state.model.settings);
  return { items: [], measure, variant: state.view.beside, isSecond: true, refusal };
}

// --- showing -----------------------------------------------------------------------------------

function showRecommendations() {
  const [first, second] = state.lists;
  showLists(state.lists, actions);
  const isAsked = state.history.length || state.user;
  byId("measure").textContent = first.items.length
    ? second && !second.refusal ? "Marks say how far an item has moved from its place in the first list." : first.measure.about
    : isAsked ? "Nothing is left to recommend." : "Add an item or show a user.";
}

function actions(item) {
  const name = nameOf(item);
  const why = button("Why", `Why ${name}?`, () => showWhy(item));
  return [
    button("Add", `Add ${name} to the history`, () => add(item)),
    button("Similar", `Similar to ${name}`, () => showSimilar(item)),
    ...(state.history.length ? [why] : []),
  ];
}

async function update(news) {
  const mine = ++updates;
  showHistory(state, remove);
  if (!state.isExample) {
    const items = state.history.map((item) => item.item_id);
    address.write({ ...state.view, user: state.user ? state.user.user_id : "", items });
  }
  try {
    const lists = await asked();
    if (mine !== updates) {
      return;
    }
    state.lists = lists;
    calm();
    showRecommendations();
    const { items } = lists[0];
    say(`${news} ${items.length ? `${items.length} recommendations, first ${nameOf(items[0])}.` : ""}`);
    await map.mark(state.history, items);
  } catch (error) {
    if (mine === updates) {
      refuse(error);
    }
  }
}

// The lists of another history or filter would stand beside this one.
function refuse(error) {
  state.lists = [{ items: [], measure: measureOf(state.model.settings) }];
  showRecommendations();
  const isOfFilter = controls.isOfFilter(error);
  byId("measure").textContent = `There is no list for this ${isOfFilter ? "filter" : "history"}.`;
  if (isOfFilter) {
    controls.showFilterProblem(error, controls.filterOf(state.view));
  } else {
    fail(error);
  }
}

// --- changing the history ------------------------------------------------------------------------

function become(history, user, isExample = false) {
  wishes += 1;
  Object.assign(state, { history, user, isExample });
}

function add({ item_id, item_name, attributes }) {
  const entry = { item_id, item_name, attributes };
  if (state.history.some((other) => other.item_id === item_id)) {
    say(`${nameOf(entry)} is in the history already.`);
    return;
  }
  become([...state.history, entry], null);
  update(`Added ${nameOf(entry)}.`);
}

function remove(item) {
  become(state.history.filter((other) => other.item_id !== item.item_id), null);
  update(`Removed ${nameOf(item)}.`);
}

function clear() {
  become([], null);
  byId("search").focus();
  update("The history is empty.");
}

async function showUser(id, isExample = false) {
  const mine = ++wishes;
  const k = Math.min(state.model.limits.max_history || 100, 100);
  try {
    const answer = await api.historyOf(id, { k, ...asking() });
    if (mine !== wishes) {
      return;
    }
    become(answer.items, answer, isExample);
  } catch (error) {
    if (mine !== wishes) {
      return;
    }
    if (!state.lists.length) {
      await update("There is no such user."); // of a shared address: nothing stands there yet
    }
    fail(error);
    return;
  }
  await update(`${isExample ? "An example: user" : "User"} ${state.user.user_id}.`);
}

// Ids of a shared address alone have no titles; a search for a whole id finds it first.
async function withTitle(id) {
  const { items } = id.length > LONGEST_SEARCH ? { items: [] } : await api.searchItems(id, 1, asking());
  return items.find((item) => item.item_id === id) || { item_id: id };
}

async function showItems(ids, isExample = false) {
  const mine = ++wishes;
  const items = await Promise.all(ids.map(withTitle));
  if (mine !== wishes) {
    return;
  }
  become(items, null, isExample);
  await update(isExample ? "An example visitor." : "A shared history.");
}

// --- dialogs -----------------------------------------------------------------------------------

async function showSimilar(item) {
  try {
    openSimilar(item, await api.similarTo(item.item_id, { k: SIMILAR, ...asking() }), add);
  } catch (error) {
    fail(error);
  }
}

async function showWhy(item) {
  try {
    const { variant } = asking();
    const answer = await api.why(state.history.map((i) => i.item_id), item.item_id, { variant });
    openWhy(item, answer, Boolean(state.user));
  } catch (error) {
    fail(error);
  }
}

async function showSuggestions() {
  const { items } = await api.searchItems("", SUGGESTED, asking());
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

// --- the map -----------------------------------------------------------------------------------

function offerColours() {
  const kinds = (state.model.attributes || {}).items || {};
  const names = shownAttributes(kinds).filter((name) => kinds[name] !== "number");
  const { view } = state;
  byId("colour-field").hidden = !names.length;
  byId("colour").replaceChildren(
    ...[["none", "no colours"], ...names.map((name) => [name, name])].map(([value, text]) =>
      element("option", { value, text }),
    ),
  );
  byId("colour").value = [view.colour, names[0]].find((name) => name === "none" || names.includes(name)) || "none";
}

async function showMap() {
  const colour = byId("colour").value;
  try {
    await map.read(asking().variant, colour === "none" ? "" : colour);
    await map.mark(state.history, state.lists[0]?.items || []);
    byId("to-map").parentElement.hidden = false;
  } catch (error) {
    byId("map-section").hidden = true; // a model without vectors has no map
    byId("to-map").parentElement.hidden = true;
    if (error.status !== 404) {
      fail(error);
    }
  }
}

// --- the beginning -------------------------------------------------------------------------------

async function begin() {
  const answer = await api.model();
  state.model = answer;
  api.askForAtMost(answer.limits.max_k);
  models.clear();
  if (several()) {
    models.set(answer.variant, answer);
    const names = answer.variants.map(({ name }) => name);
    state.view.variant = names.includes(state.view.variant) ? state.view.variant : answer.variant;
    state.model = await known(state.view.variant);
  }
  showModel();
  byId("key-form").hidden = true;
  calm();
  controls.offer(state.model, state.view);
  Object.assign(state.view, controls.chosen());
  offerColours();
  offerUsers(answer.user_search, { show: showUser, say, fail });
}

function showModel() {
  byId("lead").textContent = headline(state.model);
  byId("card").replaceChildren(...modelCard(state.model));
}

async function showView({ user, items }) {
  const isExample = !user && !items.length;
  const mine = wishes;
  const wanted = isExample ? await example(state.model) : { user, items };
  if (mine !== wishes) {
    return;
  }
  await (wanted.user ? showUser(wanted.user, isExample) : showItems(wanted.items, isExample));
}

async function start() {
  byId("page").setAttribute("aria-busy", "true");
  try {
    await begin();
    await showSuggestions();
    await Promise.all([showView(state.view), showMap()]);
  } catch (error) {
    if (!state.model) {
      byId("lead").textContent = "The model could not be read.";
    }
    fail(error);
    byId("measure").textContent = "";
  } finally {
    byId("page").setAttribute("aria-busy", "false");
  }
}

async function changed(news) {
  const { variant } = state.view;
  Object.assign(state.view, controls.chosen());
  state.isExample = false;
  try {
    if (variant !== state.view.variant) {
      state.model = await known(state.view.variant);
      showModel();
      controls.offer(state.model, state.view);
      offerColours();
      await showMap();
    }
    await update(news);
  } catch (error) {
    fail(error);
  }
}

controls.listen(changed, { say, fail });
address.watch((view) => {
  state.view = view;
  start();
});
combobox({
  input: byId("search"),
  list: byId("options"),
  noun: "item",
  find: async (query) => (await api.searchItems(query, FOUND, asking())).items,
  choose: (item) => {
    byId("search").value = "";
    add(item);
  },
  describe: (item) => [described(item)],
  say,
  fail,
});
byId("user-form").addEventListener("submit", (event) => {
  event.preventDefault();
  showUser(byId("user").value); // as it is: spaces may be a part of an id
});
byId("clear").addEventListener("click", clear);
byId("colour").addEventListener("change", () => {
  state.view.colour = byId("colour").value;
  state.isExample = false;
  showMap();
  update("Other colours.");
});
byId("panel-close").addEventListener("click", () => byId("panel").close());
byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  api.useKey(byId("key").value.trim());
  byId("key").value = "";
  start();
});
document.querySelectorAll('nav a[href^="#"]').forEach((link) =>
  link.addEventListener("click", (event) => {
    event.preventDefault(); // what stands behind the # is the view
    byId(link.hash.slice(1)).focus();
    byId(link.hash.slice(1)).scrollIntoView();
  }),
);
start();
