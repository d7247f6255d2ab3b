// What the page opens on: somebody whose lists there are to look at.

import * as api from "./api.js";

const LOOKED_AT = 50;

// Users are named only where the server lets people search for them.
export async function example(model) {
  if (model.user_search) {
    const { users } = await api.searchUsers("", LOOKED_AT);
    const had = users.filter((user) => user.n_items).sort((one, other) => one.n_items - other.n_items);
    if (had.length) {
      return { user: had[Math.floor(had.length / 2)].user_id, items: [] };
    }
  }
  const { items } = await api.searchItems("", 1);
  const visitor = items.length ? await withNeighbours(items[0].item_id) : [];
  return { user: "", items: visitor.slice(0, model.limits.max_history || visitor.length) };
}

async function withNeighbours(item) {
  try {
    const like = await api.similarTo(item, { k: 2 });
    return [item, ...like.items.map((one) => one.similar_id)];
  } catch (error) {
    if ([409, 422].includes(error.status)) {
      return [item]; // a model that knows of no items alike
    }
    throw error;
  }
}
