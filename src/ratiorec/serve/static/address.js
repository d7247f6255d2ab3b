// What is shown, in the address behind the #, so that a view can be shared; it is not sent to the server.

const TEXTS = ["user", "filter", "named", "rules", "variant", "beside", "colour"];
let written = "";

export function read() {
  const found = new URLSearchParams(location.hash.slice(1));
  const view = Object.fromEntries(TEXTS.map((name) => [name, found.get(name) ?? ""]));
  const diversity = Number(found.get("diversity"));
  view.diversity = diversity > 0 && diversity <= 1 ? diversity : 0;
  view.items = found.getAll("item");
  return view;
}

export function write(view) {
  const found = new URLSearchParams();
  for (const name of TEXTS) {
    if (view[name]) {
      found.append(name, view[name]);
    }
  }
  if (view.diversity) {
    found.append("diversity", view.diversity);
  }
  if (!view.user) {
    view.items.forEach((item) => found.append("item", item));
  }
  written = found.size ? `#${found}` : "";
  history.replaceState(null, "", `${location.pathname}${written}`);
}

// Told when somebody else has changed the address: another link, or the reader's own hand.
export function watch(changed) {
  addEventListener("hashchange", () => {
    if (location.hash !== written) {
      changed(read());
    }
  });
}
