// What a list is asked with: a filter, rules, diversity, and which variants.

import { byId, element } from "./elements.js";
import { combobox } from "./search.js";

const KEYWORDS = ["and", "or", "not", "in", "has", "any", "all", "contains", "is", "missing", "true", "false"];
const PLAIN = /^[\p{L}_](?:[\p{L}\p{N}_.-]*[\p{L}\p{N}_])?$/u;
const WORD = /[\p{L}\p{N}_.-]*$/u;
const AROUND = 20; // characters of a filter shown on both sides of a mistake
const EXAMPLES = {
  number: (name) => `${name} < 50`,
  category: (name) => `${name} in ["…"]`,
  tags: (name) => `${name} has "…"`,
  text: (name) => `${name} contains "…"`,
};

let columns = {};

const quoted = (name) =>
  PLAIN.test(name) && !KEYWORDS.includes(name.toLowerCase()) ? name : `\`${name.replaceAll("`", "``")}\``;

export function filterOf({ named, filter }) {
  const name = named && `@${quoted(named)}`;
  return name && filter ? `${name} and (${filter})` : name || filter;
}

// A control appears only where there is something to control.
export function offer(model, view) {
  const variants = model.variants || [];
  columns = (model.attributes || {}).items || {};
  const filters = model.filters || {};
  byId("filter-field").hidden = !Object.keys(columns).length;
  fill("named", [["", "none"], ...Object.keys(filters).map((name) => [name, name])], view.named);
  fill("rules", [["", "none"], ...(model.rules || []).map((name) => [name, name])], view.rules);
  const names = variants.length > 1 ? variants.map(({ name, share }) => [name, shareOf(name, share)]) : [];
  fill("variant", names, view.variant || model.variant || "");
  fill("beside", names.length ? [["", "nothing"], ...names] : [], view.beside);
  byId("filter").value = view.filter;
  byId("diversity").value = view.diversity;
  byId("diversity-shown").textContent = Number(view.diversity).toFixed(2);
}

const shareOf = (name, share) =>
  typeof share === "number" ? `${name} (${Number(share.toFixed(2))} %)` : name;

function fill(id, options, chosen) {
  byId(`${id}-field`).hidden = options.length < 2;
  byId(id).replaceChildren(...options.map(([value, text]) => element("option", { value, text })));
  byId(id).value = options.some(([value]) => value === chosen) ? chosen : (options[0] || [""])[0];
}

// The value of each control; a select without any choice has none.
export function chosen() {
  const texts = ["named", "rules", "variant", "beside"].map((id) => [id, byId(id).value]);
  const filter = byId("filter").value.trim();
  return { ...Object.fromEntries(texts), filter, diversity: Number(byId("diversity").value) };
}

export function listen(changed, { say, fail }) {
  byId("controls").addEventListener("submit", (event) => {
    event.preventDefault();
    changed("Filtered.");
  });
  for (const [id, told] of [
    ["named", "Filtered."],
    ["rules", "Other rules."],
    ["variant", "Another variant."],
    ["beside", "Compared."],
  ]) {
    byId(id).addEventListener("change", () => changed(told));
  }
  byId("diversity").addEventListener("input", () => {
    byId("diversity-shown").textContent = Number(byId("diversity").value).toFixed(2);
  });
  byId("diversity").addEventListener("change", () => changed(`Diversity ${byId("diversity").value}.`));
  combobox({
    input: byId("filter"),
    list: byId("columns"),
    noun: "column",
    find: async () => offered(byId("filter")),
    choose: put,
    typed: () => byId("controls").requestSubmit(),
    describe: ({ name, kind }) => [
      element("span", { class: "name", text: name }),
      element("span", { class: "id", text: EXAMPLES[kind](quoted(name)) }),
    ],
    say,
    fail,
  });
}

// Columns that begin with the word before the cursor; nothing inside of a text in quotes.
function offered(input) {
  const before = input.value.slice(0, input.selectionStart);
  const [word] = WORD.exec(before);
  const isQuoted = (before.match(/"/g) || []).length % 2 === 1;
  const known = Object.entries(columns).map(([name, kind]) => ({ name, kind }));
  const found = known.filter(({ name }) => name.toLowerCase().startsWith(word.toLowerCase()));
  const isValue = /(?:[<>=]|\bhas|\bcontains|\[|,)\s*$/.test(before.slice(0, before.length - word.length));
  return isQuoted || isValue || !found.length || /^\d/.test(word) ? null : found;
}

function put(column) {
  const input = byId("filter");
  const [before, after] = [input.value.slice(0, input.selectionStart), input.value.slice(input.selectionStart)];
  const start = `${before.replace(WORD, "")}${quoted(column.name)} `;
  input.value = start + after.trimStart();
  input.setSelectionRange(start.length, start.length);
}

export const isOfFilter = (error) => Boolean(error.parts) && /^(?:filter|@)/.test(error.parts.where);

// A refusal of the filter stands under it, with the character that it is about.
export function showFilterProblem(error, filter) {
  const { what, where, found, wanted } = error.parts;
  const at = Number((/character (\d+)$/.exec(where) || [])[1]) - 1;
  const parts = [element("strong", { text: what })];
  if (at >= 0 && where.startsWith("filter")) {
    const start = Math.max(0, at - AROUND);
    const before = `${start ? "…" : ""}${filter.slice(start, at)}`;
    const text = `${before}${filter.slice(at, at + AROUND)}\n${" ".repeat(before.length)}^`;
    parts.push(element("pre", { text, "aria-hidden": "true" }));
  }
  const rows = Object.entries({ where, found, wanted }).map(([name, text]) =>
    element("div", {}, element("dt", { text: name }), element("dd", { text })),
  );
  byId("filter-problem").replaceChildren(...parts, element("dl", {}, ...rows));
  byId("filter-problem").hidden = false;
  byId("filter").setAttribute("aria-invalid", "true");
}

export function hideFilterProblem() {
  byId("filter-problem").hidden = true;
  byId("filter").removeAttribute("aria-invalid");
}
