// What the page opens on: somebody whose lists there are to look at.

import * as api from "./api.js";

const LOOKED_AT = 50;

// Users are named only where the server lets people search for them.
export async function example(model) {
  const most = model.limits.max_k || 1;
  if (model.user_search) {
    const { users } = await api.searchUsers("", Math.min(LOOKED_AT, most));
    const had = users.filter((user) => user.n_items).sort((one, other) => one.n_items - other.n_items);
    if (had.length) {
      return { user: had[Math.floor(had.length / 2)].user_id, items: [] };
    }
  }
  const { items } = await api.searchItems("", 1);
  return { user: "", items: items.length ? await withNeighbours(items[0].item_id, most) : [] };
}

async function withNeighbours(item, most) {
  try {
    const like = await api.similarTo(item, { k: Math.min(2, most) });
    return [item, ...like.items.map((one) => one.similar_id)];
  } catch (error) {
    if (error.status === 409) {
      return [item]; // a model that holds no items alike
    }
    throw error;
  }
}
