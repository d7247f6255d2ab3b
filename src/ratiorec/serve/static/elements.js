// Text goes in as text, never as markup: names and cards may hold anything.

export function element(name, options = {}, ...children) {
  const made = document.createElement(name);
  for (const [option, value] of Object.entries(options)) {
    if (option === "text") {
      made.textContent = value;
    } else if (option === "onclick") {
      made.addEventListener("click", value);
    } else if (value !== undefined && value !== null) {
      made.setAttribute(option, value);
    }
  }
  made.append(...children);
  return made;
}

// The page's own drawing knows the name space, so that no address is written here.
const space = document.querySelector("svg").namespaceURI;

export function shape(name, options = {}, ...children) {
  const made = document.createElementNS(space, name);
  for (const [option, value] of Object.entries(options)) {
    if (option === "text") {
      made.textContent = value;
    } else {
      made.setAttribute(option, value);
    }
  }
  made.append(...children);
  return made;
}

export function button(text, label, onclick) {
  return element("button", { type: "button", text, "aria-label": label, onclick });
}

export function bar(share, kind = "") {
  const filled = element("span", { class: `filled ${kind}` });
  filled.style.inlineSize = `${Math.max(1, Math.min(100, 100 * share))}%`;
  return element("span", { class: "bar", "aria-hidden": "true" }, filled);
}

export function figure(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e6 || size < 1e-3)) {
    return value.toExponential(1);
  }
  return size >= 1000 ? Math.round(value).toLocaleString("en") : value.toPrecision(3);
}

export const byId = (id) => document.getElementById(id);
