"use strict";

function element(name, text) {
  const made = document.createElement(name);
  if (text !== undefined) {
    made.textContent = text;
  }
  return made;
}

function parameterRow(parameter) {
  const row = element("tr");
  const fallback = parameter.schema && parameter.schema.default;
  const cells = [
    parameter.name,
    parameter.in,
    fallback === undefined || fallback === null ? "" : String(fallback),
    parameter.description || "",
  ];
  row.append(...cells.map((cell) => element("td", cell)));
  return row;
}

function parameters(operation) {
  const table = element("table");
  const head = element("tr");
  head.append(...["parameter", "in", "default", "meaning"].map((cell) => element("th", cell)));
  table.append(head, ...operation.parameters.map(parameterRow));
  return table;
}

function examples(operation, schemas) {
  const content = operation.requestBody && operation.requestBody.content["application/json"];
  const name = content && content.schema.$ref && content.schema.$ref.split("/").pop();
  return (name && schemas[name].examples) || [];
}

function section(path, method, operation, schemas) {
  const made = element("section");
  made.append(element("h2", `${method.toUpperCase()} ${path}`));
  made.append(element("p", operation.description || operation.summary || ""));
  if (operation.parameters && operation.parameters.length) {
    made.append(parameters(operation));
  }
  for (const example of examples(operation, schemas)) {
    made.append(element("pre", JSON.stringify(example, null, 2)));
  }
  made.append(element("p", `Answers: ${Object.keys(operation.responses).join(", ")}`));
  return made;
}

async function show() {
  const about = document.getElementById("about");
  try {
    const description = await (await fetch("/openapi.json")).json();
    about.textContent = description.info.description;
    for (const [path, methods] of Object.entries(description.paths)) {
      for (const [method, operation] of Object.entries(methods)) {
        document
          .getElementById("operations")
          .append(section(path, method, operation, description.components.schemas));
      }
    }
  } catch (error) {
    about.textContent = "The server did not answer.";
  }
}

show();
