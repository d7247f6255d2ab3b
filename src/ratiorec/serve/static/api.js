// Asks the server; ids stay text, as numbers of 64 bits would lose their last digits here.

const LONG_ID = /("(?:item|similar|user)_id":)(-?\d+)/g;
let key = null;
let longest = Infinity;

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

// The items of a list that the server gives at most.
export function askForAtMost(k) {
  longest = k || Infinity;
}

const within = ({ k, ...options }) => (k ? { k: Math.min(k, longest), ...options } : options);

// An option that is not set is not sent: a server knows those that it tells of alone.
const isSet = (value) => value !== undefined && value !== null && value !== "" && value !== 0;

function address(path, options) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(options)) {
    [value].flat().filter(isSet).forEach((one) => query.append(name, one));
  }
  return query.size ? `${path}?${query}` : path;
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

const set = (options) =>
  Object.fromEntries(Object.entries(options).filter(([, value]) => isSet(value) && value.length !== 0));

export const searchItems = (query, k, options = {}) => ask(address("/v1/items", within({ k, query, ...options })));
export const searchUsers = (query, k) => ask(address("/v1/users", within({ k, query })));
export const recommendToUser = (user, options) =>
  ask(address(`/v1/recommend/${encodeURIComponent(user)}`, within(options)));
export const recommendToHistory = async (history, options) =>
  (await ask("/v1/recommend", { histories: [history], ...set(within(options)) })).lists[0];
export const historyOf = (user, options) =>
  ask(address(`/v1/users/${encodeURIComponent(user)}/history`, within(options)));
export const similarTo = (item, options) =>
  ask(address(`/v1/similar/${encodeURIComponent(item)}`, within(options)));
export const why = (history, item, options) => ask("/v1/why", { history, item, ...set(options) });
export const model = (options = {}) => ask(address("/v1/model", options));
export const map = (options) => ask(address("/v1/map", options));
