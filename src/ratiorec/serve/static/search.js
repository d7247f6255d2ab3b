// A combobox: what is typed is searched for, and one of what is found is chosen.

import { element } from "./elements.js";

const PAUSE = 120; // milliseconds without a key, so that not every letter is a request

// `noun` is what is searched for, in words; `typed`, where it is given, takes what stands in the
// field when Enter is pressed and nothing of the list is pointed at. What is chosen is put into the
// field, or not, by `choose`; `find` gives null where there is nothing to be told of.
export function combobox({ input, list, noun, find, choose, typed, describe, say, fail }) {
  let found = [];
  let active = -1;
  let asked = 0;
  let timer = 0;

  function close() {
    clearTimeout(timer);
    asked += 1;
    found = [];
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    point(-1);
  }

  function point(place) {
    active = place;
    [...list.children].forEach((option, other) => {
      option.setAttribute("aria-selected", String(other === place));
    });
    if (place < 0) {
      input.removeAttribute("aria-activedescendant");
    } else {
      input.setAttribute("aria-activedescendant", `${list.id}-${place}`);
      list.children[place].scrollIntoView({ block: "nearest" });
    }
  }

  function take(place) {
    const item = found[place];
    close();
    choose(item);
  }

  function show(items) {
    found = items;
    list.replaceChildren(
      ...items.map((item, place) => {
        const id = `${list.id}-${place}`;
        const option = element("li", { role: "option", id }, ...describe(item));
        option.addEventListener("click", () => take(place));
        return option;
      }),
    );
    list.hidden = items.length === 0;
    input.setAttribute("aria-expanded", String(items.length > 0));
    point(-1);
    say(items.length ? `${items.length} ${noun}${items.length > 1 ? "s" : ""} found.` : `No ${noun} found.`);
  }

  async function look() {
    const mine = ++asked;
    try {
      const items = await find(input.value.trim());
      if (mine === asked) {
        (items ? show : close)(items);
      }
    } catch (error) {
      if (mine === asked) {
        close();
        fail(error);
      }
    }
  }

  async function step(direction) {
    if (!found.length) {
      await look();
    }
    if (found.length) {
      const from = active < 0 && direction < 0 ? 0 : active;
      point((from + direction + found.length) % found.length);
    }
  }

  // Whoever types and presses Enter at once means the first of what was typed, or just that.
  async function enter() {
    clearTimeout(timer);
    if (active < 0 && typed) {
      close();
      typed();
      return;
    }
    if (active < 0 && input.value.trim()) {
      await look();
    }
    if (found.length) {
      take(Math.max(active, 0));
    }
  }

  const keys = {
    ArrowDown: () => step(1),
    ArrowUp: () => step(-1),
    Enter: enter,
    Escape: () => {
      if (list.hidden) {
        input.value = "";
      }
      close();
    },
  };

  input.addEventListener("keydown", (event) => {
    if (keys[event.key] && !event.isComposing) {
      event.preventDefault();
      keys[event.key]();
    }
  });
  input.addEventListener("input", () => {
    close();
    if (input.value.trim()) {
      timer = setTimeout(look, PAUSE);
    }
  });
  input.addEventListener("blur", close);
  list.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps focus
}
