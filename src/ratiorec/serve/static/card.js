// The card of the model: what it is, how good, and how it was trained.

import { element, figure, shape } from "./elements.js";

const WIDTH = 360;
const HEIGHT = 150;
const LEFT = 48;
const BOTTOM = 22;
const TOP = 10;

const isTable = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const isNumber = (value) => typeof value === "number";
const whole = (value) => (isNumber(value) ? value.toLocaleString("en") : value);

export function headline(answer) {
  const { card } = answer;
  const data = isTable(card.data) ? card.data.name : undefined;
  const what = card.preset || answer.kind.replaceAll("_", " ");
  const size = `${whole(answer.n_users)} users, ${whole(answer.n_items)} items`;
  const since = card.pairs_since ? " and updated since" : "";
  return data ? `${what}, trained on ${data}${since}: ${size}` : `${what}: ${size}`;
}

export function modelCard(answer) {
  const settings = element("details", { class: "card" });
  const text = JSON.stringify(answer.settings, null, 2);
  settings.append(
    element("summary", { text: "Settings" }),
    element("pre", { text, tabindex: "0", role: "region", "aria-label": "Settings as JSON" }),
  );
  const curves = curvesOf(answer.card.curve);
  return [facts(answer), metrics(answer.card), members(answer), curves, settings].filter(Boolean);
}

// What an automatic choice has tried: each candidate's figure, weight, and why it was taken or not.
function members(answer) {
  const tried = [answer.members, answer.card.members].find(Array.isArray)?.filter(isTable) || [];
  if (!tried.length) {
    return null;
  }
  const number = (value, text) => element("td", { class: "number", text: isNumber(value) ? text(value) : "–" });
  const rows = tried.map((member) => {
    const [low, high] = Array.isArray(member.lead) ? member.lead : [];
    return element(
      "tr",
      member.weight ? { class: "chosen" } : {},
      element("th", { scope: "row", text: String(member.name) }),
      number((member.validation || {})["ndcg@20"], (value) => value.toFixed(4)),
      number(low, () => `${signed(low)} to ${signed(high)}`),
      number(member.validation ? member.seconds : undefined, (value) => value.toFixed(1)),
      number(member.weight || undefined, (value) => value.toFixed(2)),
      element("td", { class: "words", text: String(member.why ?? "") }),
    );
  });
  const titles = ["model", "nDCG@20", "less the chosen", "seconds", "weight", "why"];
  const head = titles.map((text, place) =>
    element("th", { scope: "col", text, class: place % 5 ? "number" : "" }),
  );
  const table = element(
    "table",
    {},
    element("caption", { text: "What was tried" }),
    element("thead", {}, element("tr", {}, ...head)),
    element("tbody", {}, ...rows),
  );
  const note =
    "nDCG@20 is of pairs held out from the search. Less the chosen: the 95 % interval of the " +
    "difference from the chosen model or blend, user by user; below 0, the chosen one is better.";
  const region = { class: "wide", tabindex: "0", role: "region", "aria-label": "What was tried, a table" };
  return element(
    "div",
    { class: "card" },
    element("div", region, table),
    element("p", { class: "note", text: note }),
  );
}

const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(4)}`;

function facts(answer) {
  const { card } = answer;
  const data = isTable(card.data) ? card.data : {};
  const seconds = isTable(card.seconds) ? card.seconds.total : undefined;
  const rows = {
    variant: answer.variant || undefined,
    preset: card.preset,
    data: data.name,
    users: whole(answer.n_users),
    items: whole(answer.n_items),
    "new items": whole(answer.n_cold_items || undefined),
    pairs: whole(data.pairs),
    "pairs since training": whole(card.pairs_since),
    steps: whole(card.steps),
    "stopped by": card.stopped_by,
    trained: isNumber(seconds) ? `${figure(seconds)} s on ${card.device || "?"}` : undefined,
    kind: answer.kind.replaceAll("_", " "),
    version: answer.model,
  };
  const list = element("dl");
  for (const [name, value] of Object.entries(rows)) {
    if (value !== undefined && value !== null) {
      const pair = [element("dt", { text: name }), element("dd", { text: String(value) })];
      list.append(element("div", {}, ...pair));
    }
  }
  return list;
}

function metrics(card) {
  const columns = ["validation", "test", "metrics"].filter((name) => isTable(card[name]));
  const names = [...new Set(columns.flatMap((column) => Object.keys(card[column])))];
  if (!names.length) {
    return null;
  }
  const head = ["metric", ...columns].map((text) => element("th", { scope: "col", text }));
  const rows = names.map((name) => {
    const cells = columns.map((column) => {
      const value = card[column][name];
      return element("td", { text: isNumber(value) ? value.toFixed(4) : "–", class: "number" });
    });
    return element("tr", {}, element("th", { scope: "row", text: name }), ...cells);
  });
  return element(
    "div",
    { class: "card" },
    element(
      "table",
      {},
      element("caption", { text: "How good it is" }),
      element("thead", {}, element("tr", {}, ...head)),
      element("tbody", {}, ...rows),
    ),
  );
}

function curvesOf(curve) {
  const records = (Array.isArray(curve) ? curve : []).filter(isTable);
  const figures = phases(records).flatMap(([phase, steps]) => {
    const names = steps.flatMap((r) => (isTable(r.validation) ? Object.keys(r.validation) : []));
    const series = [["risk", (r) => r.risk]];
    if (names.length) {
      series.push([`validation ${names[0]}`, (r) => (r.validation || {})[names[0]]]);
    }
    return series.map(([name, pick]) => chart(`${name} (${phase})`, steps, pick));
  });
  const drawn = figures.filter(Boolean);
  return drawn.length ? element("div", { class: "columns" }, ...drawn) : null;
}

function phases(records) {
  const found = new Map();
  for (const record of records) {
    const phase = String(record.phase || "training");
    found.set(phase, [...(found.get(phase) || []), record]);
  }
  return [...found];
}

function chart(title, records, pick) {
  const points = records
    .map((record) => [record.step, pick(record)])
    .filter(([step, value]) => isNumber(step) && isNumber(value));
  if (points.length < 2) {
    return null;
  }
  const steps = points.map(([step]) => step);
  const values = points.map(([, value]) => value);
  const [first, last] = [Math.min(...steps), Math.max(...steps)];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const x = (step) => LEFT + ((step - first) / (last - first || 1)) * (WIDTH - LEFT - 10);
  const y = (value) => HEIGHT - BOTTOM - ((value - low) / (high - low || 1)) * (HEIGHT - BOTTOM - TOP);
  const line = points.map(([step, value]) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`);
  const words =
    `${title}: from ${figure(values[0])} at step ${first} to ${figure(values.at(-1))} ` +
    `at step ${last}; lowest ${figure(low)}, highest ${figure(high)}.`;
  const label = (text, at) => shape("text", { text, ...at });
  const drawing = shape(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": words, class: "chart" },
    shape("path", { class: "axis", d: `M${LEFT},${TOP}V${HEIGHT - BOTTOM}H${WIDTH - 10}` }),
    shape("polyline", { class: "line", points: line.join(" ") }),
    label(figure(high), { x: LEFT - 6, y: TOP + 4, "text-anchor": "end" }),
    label(figure(low), { x: LEFT - 6, y: HEIGHT - BOTTOM, "text-anchor": "end" }),
    label(`step ${first}`, { x: LEFT, y: HEIGHT - 6 }),
    label(`${last}`, { x: WIDTH - 10, y: HEIGHT - 6, "text-anchor": "end" }),
  );
  return element("figure", { class: "card" }, element("figcaption", { text: title }), drawing);
}
