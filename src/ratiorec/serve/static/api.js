// Asks the server; ids stay text, as numbers of 64 bits would lose their last digits here.

const LONG_ID = /("(?:item|similar|user)_id":)(-?\d+)/g;
let key = null;

export class Refusal extends Error {
  constructor(status, parts) {
    super(parts.what);
    this.status = status;
    this.parts = parts;
  }
}

export function useKey(given) {
  key = given;
}

export async function ask(path, body) {
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  const options = { headers };
  if (body !== undefined) {
    options.method = "POST";
    options.body = JSON.stringify(body);
    headers["Content-Type"] = "application/json";
  }
  let answer;
  let content;
  try {
    answer = await fetch(path, options);
    content = JSON.parse((await answer.text()).replace(LONG_ID, '$1"$2"'));
  } catch (error) {
    throw new Refusal(0, {
      what: "the server did not answer",
      where: path,
      found: String(error.message),
      wanted: "a server that runs, and a network that reaches it",
    });
  }
  if (!answer.ok) {
    throw new Refusal(answer.status, content);
  }
  return content;
}

export const searchItems = (query, k) =>
  ask(`/v1/items?k=${k}&query=${encodeURIComponent(query)}`);
export const searchUsers = (query, k) =>
  ask(`/v1/users?k=${k}&query=${encodeURIComponent(query)}`);
export const recommendToUser = (user, k) =>
  ask(`/v1/recommend/${encodeURIComponent(user)}?k=${k}`);
export const recommendToHistory = async (history, k) => {
  const answer = await ask("/v1/recommend", { histories: [history], k });
  return { items: answer.lists[0].items };
};
export const historyOf = (user, k) =>
  ask(`/v1/users/${encodeURIComponent(user)}/history?k=${k}`);
export const similarTo = (item, k) => ask(`/v1/similar/${encodeURIComponent(item)}?k=${k}`);
export const why = (history, item) => ask("/v1/why", { history, item });
export const model = () => ask("/v1/model");
export const map = (items) =>
  ask(`/v1/map${items ? `?${items.map((i) => `item=${encodeURIComponent(i)}`).join("&")}` : ""}`);
