// What a score says, and how long its bar is.

const LINKS = {
  softplus: (score) => Math.max(score, 0) + Math.log1p(Math.exp(-Math.abs(score))),
  exponential: Math.exp,
};

// A density-ratio model's scores become ratios by its link; any other's are compared as they are.
export function measureOf(settings) {
  const risk = settings.risk || {};
  const link = risk.kind === "density-ratio" ? LINKS[risk.link] : undefined;
  if (link) {
    return {
      name: "ratio",
      about: `Bars show the estimated ratio. ${meaning(risk.weights || {})}`,
      value: link,
      shares: (values) => shares(values, 0),
    };
  }
  return {
    name: "score",
    about: "Bars show the score beside the best of the list; it has no unit.",
    value: (score) => score,
    shares: (values) => shares(values, Math.min(0, ...values)),
  };
}

// Only even weights leave the ratio what it is; others keep the order and bend the size.
function meaning(weights) {
  return weights.kind === "uniform"
    ? "At 2, the item is twice as likely among what this user likes as among all items."
    : "Compare ratios within a list only: this model weights items, which changes their size.";
}

function shares(values, least) {
  const most = Math.max(...values);
  return values.map((value) => (most > least ? (value - least) / (most - least) : 1));
}
