// The items on a plane; the history and what is recommended stand out.

import * as api from "./api.js";
import { byId, shape } from "./elements.js";
import { nameOf } from "./items.js";

const WIDTH = 640;
const HEIGHT = 480;
const EDGE = 14;

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
  constructor(choose) {
    this.choose = choose;
    this.places = new Map();
    this.about = null;
    this.drawn = 0;
  }

  async read() {
    const answer = await api.map();
    this.about = answer;
    this.keep(answer.items);
    this.scale = fitted(answer.items);
    const others = shape("g", { class: "others" }, ...answer.items.map((i) => this.point(i, 2.5)));
    this.marked = shape("g");
    byId("map").replaceChildren(others, this.marked);
    byId("map-section").hidden = false;
  }

  keep(items) {
    items.forEach((item) => this.places.set(item.item_id, item));
  }

  point(item, radius, kind = "") {
    const made = shape("circle", {
      cx: this.scale.across(item.x).toFixed(1),
      cy: this.scale.down(item.y).toFixed(1),
      r: radius,
      class: kind,
    });
    const name = nameOf(item);
    made.addEventListener("pointerenter", () => {
      byId("map-pointed").textContent = name;
    });
    made.addEventListener("click", () => this.choose(item));
    return made;
  }

  async mark(history, recommended) {
    if (!this.about) {
      return;
    }
    const mine = ++this.drawn;
    const wanted = [...history, ...recommended].map((item) => item.item_id);
    const missing = [...new Set(wanted)].filter((id) => !this.places.has(id));
    if (missing.length) {
      this.keep((await api.map(missing.slice(0, 500))).items);
    }
    if (mine !== this.drawn) {
      return;
    }
    const placed = (items) => items.map((i) => this.places.get(i.item_id)).filter(Boolean);
    const [had, offered] = [placed(history), placed(recommended)];
    this.marked.replaceChildren(
      ...had.map((item) => this.point(item, 6, "had")),
      ...offered.map((item) => this.point(item, 5, "recommended")),
    );
    byId("map-words").textContent = this.words(had, offered);
  }

  words(had, offered) {
    const [n, all] = [this.about.items.length, this.about.n_items].map((m) => m.toLocaleString("en"));
    const which = n === all ? `All ${all} items` : `Of ${all} items the ${n} with most users`;
    const share = Math.round(100 * this.about.shown);
    const parts = [
      `${which}, by the directions of their vectors on the two principal axes, which show ` +
        `${share} % of the variance: what lies together here need not be alike.`,
    ];
    for (const item of had.length ? offered.slice(0, 3) : []) {
      parts.push(`${nameOf(item)} lies nearest to ${nameOf(nearest(item, had))}.`);
    }
    return parts.join(" ");
  }
}

function nearest(item, others) {
  const distance = (other) => Math.hypot(other.x - item.x, other.y - item.y);
  return others.reduce((best, other) => (distance(other) < distance(best) ? other : best));
}
