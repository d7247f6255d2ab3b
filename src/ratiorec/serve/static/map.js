// The items on a plane; the history and what is recommended stand out, colours are an attribute's.

import * as api from "./api.js";
import { byId, element, shape } from "./elements.js";
import { nameOf } from "./items.js";

const WIDTH = 640;
const HEIGHT = 520;
const EDGE = 14;
const MOST_COLOURS = 8;
const ASKED_AT_ONCE = 500;
const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

// As large as the drawing allows, and both axes alike, so that distances can be compared.
function fitted(items) {
  const range = (values) => [Math.min(...values), Math.max(...values)];
  const [left, right] = range(items.map((item) => item.x));
  const [low, high] = range(items.map((item) => item.y));
  const scale = Math.min(
    (WIDTH - 2 * EDGE) / (right - left || 1),
    (HEIGHT - 2 * EDGE) / (high - low || 1),
  );
  return {
    across: (x) => WIDTH / 2 + (x - (left + right) / 2) * scale,
    down: (y) => HEIGHT / 2 - (y - (low + high) / 2) * scale,
  };
}

export class ItemMap {
  constructor(choose, say) {
    this.choose = choose;
    this.say = say;
    this.about = null;
    this.drawn = 0;
    byId("map").addEventListener("keydown", (event) => this.pressed(event));
  }

  // A variant's items, with the attribute that colours them, or none.
  async read(variant, colour) {
    this.options = { variant, attributes: colour };
    this.about = null;
    const mine = ++this.drawn;
    const answer = await api.map(this.options);
    if (mine !== this.drawn) {
      return;
    }
    this.about = answer;
    this.places = new Map(answer.items.map((item) => [item.item_id, item]));
    this.scale = fitted(answer.items);
    this.classes = this.coloured(answer.items, colour);
    const hidden = { "aria-hidden": "true" }; // told in words
    const others = answer.items.map((item) => this.point(item, 2.8));
    this.marked = shape("g", hidden);
    this.cursor = shape("circle", { ...hidden, class: "cursor", r: 0 });
    this.pointed = null;
    byId("map").replaceChildren(shape("g", { ...hidden, class: "others" }, ...others), this.marked, this.cursor);
    byId("map-section").hidden = false;
  }

  // The values that most items have get a colour each; the first of several tags is what counts.
  coloured(items, colour) {
    const counts = new Map();
    for (const value of colour ? items.map((item) => valueOf(item, colour)) : []) {
      counts.set(value, (counts.get(value) || 0) + 1);
    }
    counts.delete(undefined);
    const most = [...counts].sort((one, other) => other[1] - one[1]).slice(0, MOST_COLOURS);
    const classes = new Map(most.map(([value], place) => [value, `c${place + 1}`]));
    const entries = [...classes].map(([value, kind]) => legend(kind, value));
    byId("colours").replaceChildren(...entries, ...(colour ? [legend("c0", "other")] : []));
    byId("plain-legend").hidden = Boolean(colour);
    return (item) => (colour ? classes.get(valueOf(item, colour)) || "c0" : "");
  }

  // The history is diamonds, what is recommended rings: told apart without any colour.
  point(item, radius, kind = "") {
    const [x, y] = [this.scale.across(item.x), this.scale.down(item.y)].map((n) => n.toFixed(1));
    const made =
      kind === "had"
        ? shape("path", { d: `M${x},${y}m0,-7l7,7l-7,7l-7,-7z`, class: kind })
        : shape("circle", { cx: x, cy: y, r: radius, class: `${kind} ${this.classes(item)}` });
    made.addEventListener("pointerenter", () => {
      byId("map-pointed").textContent = nameOf(item);
    });
    made.addEventListener("click", () => this.choose(item));
    return made;
  }

  // By keyboard: to the nearest item within 45 degrees of the arrow, at first to one that is marked.
  pressed(event) {
    const step = STEPS[event.key];
    if (!this.about || (!step && event.key !== "Enter")) {
      return;
    }
    event.preventDefault();
    if (!step) {
      if (this.pointed) {
        this.choose(this.pointed);
      }
      return;
    }
    const next = this.pointed ? this.beside(this.pointed, step) : this.first || this.about.items[0];
    if (next) {
      this.pointed = next;
      this.cursor.setAttribute("cx", this.scale.across(next.x));
      this.cursor.setAttribute("cy", this.scale.down(next.y));
      this.cursor.setAttribute("r", 9);
      byId("map-pointed").textContent = nameOf(next);
      this.say(nameOf(next));
    }
  }

  beside(from, [right, up]) {
    let best = null;
    let least = Infinity;
    for (const item of this.places.values()) {
      const [x, y] = [item.x - from.x, item.y - from.y];
      const along = x * right + y * up;
      const across = Math.abs(x * up) + Math.abs(y * right);
      if (along > 0 && across <= along && along * along + across * across < least) {
        least = along * along + across * across;
        best = item;
      }
    }
    return best;
  }

  async mark(history, recommended) {
    if (!this.about) {
      return;
    }
    const mine = ++this.drawn;
    const wanted = [...history, ...recommended].map((item) => item.item_id);
    const missing = [...new Set(wanted)].filter((id) => !this.places.has(id));
    if (missing.length) {
      const found = await api.map({ ...this.options, item: missing.slice(0, ASKED_AT_ONCE) });
      found.items.forEach((item) => this.places.set(item.item_id, item));
    }
    if (mine !== this.drawn) {
      return;
    }
    const placed = (items) => items.map((i) => this.places.get(i.item_id)).filter(Boolean);
    const [had, offered] = [placed(history), placed(recommended)];
    this.first = offered[0] || had[0];
    this.marked.replaceChildren(
      ...had.map((item) => this.point(item, 0, "had")),
      ...offered.map((item) => this.point(item, 5.5, "recommended")),
    );
    byId("map-words").textContent = this.words();
    byId("map-nearest").textContent = (had.length ? offered.slice(0, 3) : [])
      .map((item) => `${nameOf(item)} lies nearest to ${nameOf(nearest(item, had))}.`)
      .join(" ");
  }

  words() {
    const [n, all] = [this.about.items.length, this.about.n_items].map((m) => m.toLocaleString("en"));
    const which = n === all ? `All ${all} items.` : `Of ${all} items the ${n} with most users.`;
    return `${which} ${meaning(this.about)}`;
  }
}

function meaning(about) {
  const share = (value) => `${Math.round(100 * value)} %`;
  if (typeof about.neighbours_kept !== "number") {
    return `The two principal axes of their vectors, which show ${share(about.shown)} of the variance.`;
  }
  return (
    `Near here means alike: of an item's 10 neighbours on this map, ${share(about.neighbours_kept)} are ` +
    `among the 30 items most like it (on the two principal axes ${share(about.kept_by_plane)}).`
  );
}

const valueOf = (item, colour) => [(item.attributes || {})[colour]].flat()[0] ?? undefined;

const legend = (kind, text) =>
  element("li", {}, element("span", { class: `swatch ${kind}` }), String(text));

function nearest(item, others) {
  const distance = (other) => Math.hypot(other.x - item.x, other.y - item.y);
  return others.reduce((best, other) => (distance(other) < distance(best) ? other : best));
}
