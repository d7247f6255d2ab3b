"use strict";

// Text goes in as text, never as markup: a model's card may hold anything.
function put(list, name, value) {
  const term = document.createElement("dt");
  const detail = document.createElement("dd");
  term.textContent = name;
  if (value !== null && typeof value === "object") {
    const block = document.createElement("pre");
    block.textContent = JSON.stringify(value, null, 2);
    detail.append(block);
  } else {
    detail.textContent = String(value);
  }
  list.append(term, detail);
}

async function show() {
  const state = document.getElementById("state");
  try {
    const answer = await fetch("/v1/model");
    const card = await answer.json();
    state.textContent = answer.ok ? "" : "The card was refused:";
    for (const [name, value] of Object.entries(card)) {
      put(document.getElementById("card"), name, value);
    }
  } catch (error) {
    state.textContent = "The server did not answer.";
  }
}

show();
