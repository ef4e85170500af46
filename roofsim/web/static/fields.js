// What can be asked: the verbs, the fields of each, and where what they hold stands in a question.

/** Verbs as questions, in the order in which people ask them; `light` ones are asked while a person types. */
export const VERBS = [
  { name: "run", title: "How long", about: "How long a step takes, what limits it, whether it fits and what it costs.", light: true },
  { name: "fit", title: "Does it fit", about: "Memory against the card, the largest that fits, the fewest GPUs.", light: true },
  { name: "compare", title: "Which card", about: "Cards side by side, by time and by cost.", light: true },
  { name: "advise", title: "What to buy", about: "Buy bandwidth or compute; changes that cost nothing, cards that pay." },
  { name: "plan", title: "Which layout", about: "The best parallel layout, batch and recomputation on some GPUs." },
  { name: "serve", title: "Under load", about: "Latencies and rates of a server, and what it costs." },
  { name: "need", title: "To reach a target", about: "How much of which resource, how many GPUs, which card." },
  { name: "whatif", title: "What if", about: "The same before and after changes, and where the difference comes from." },
  { name: "sweep", title: "Over a range", about: "Every combination of some values, as lines or a map." },
  { name: "memory", title: "Memory", about: "What takes memory at the peak.", light: true },
  { name: "timeline", title: "Timeline", about: "When things happen in a step, on which stream of which ranks.", light: true },
  { name: "explain", title: "Why", about: "Where a figure comes from: down to ops, formulas, constants and their sources.", light: true },
];

const PHASES = [["train", "Train"], ["prefill", "Prefill"], ["decode", "Decode"], ["generate", "Generate"], ["forward", "Forward"]];
const TRAINS = ["train"];
const NOT_SERVE = (question) => question.verb !== "serve";
const phase = (question) => (question.scenario.workload || {}).phase || "train";
const during = (...phases) => (question) => NOT_SERVE(question) && phases.includes(phase(question));
const asked = (...verbs) => (question) => verbs.includes(question.verb);
const both = (one, other) => (question) => one(question) && other(question);
const serving = (question, catalog) => question.verb === "serve" && generates(question, catalog) !== false;
const words = (section, key) => (catalog) => (((catalog.keys || []).find((each) => each.section === section && each.key === key) || {}).choices || []).map((each) => [each, each]);
const names = (list) => (catalog) => (catalog[list] || []).map((each) => [nameOf(each), nameOf(each)]);

/** Return what an entry of the catalog is called. */
export function nameOf(entry) {
  return typeof entry === "string" ? entry : entry.name;
}

// Engines run some phases, and few of them serve; one trains in some formats only.
const runs = (question, engine) => (question.verb === "serve" ? engine.serves !== false : !engine.phases || engine.phases.includes(phase(question)));
const trained = (question, format) => format.trains !== false || question.verb === "serve" || phase(question) !== "train";

/** Return whether what a field holds can do what is asked; what no catalog holds, Python judges. */
export function suits(field, value, question, catalog) {
  if (!field.able || value === undefined) return true;
  const entry = (catalog[field.list] || []).find((each) => each.name === value || (each.aliases || []).includes(value));
  return !entry || field.able(question, entry);
}

/**
 * Fields of work: in the scenario at `path`, or an option of the verb (`option`); shown `when` the question has a use for them.
 * What one says `instead` of another key need not be shown of that key.
 */
export const FIELDS = [
  { group: "ask", option: "gpus", label: "Cards", kind: "cards", when: asked("compare"), instead: "hardware.gpu", hint: "A card, 8xa100, a system such as dgx-h100, or a100{memory.bandwidth=2x}" },
  { group: "ask", option: "largest", label: "Also find the largest", kind: "choice", when: asked("fit"), choices: [["", "No"], ["micro-batch-size", "Micro batch"], ["batch-size", "Batch"], ["sequence-length", "Sequence"], ["context-length", "Context"], ["model", "Model of a family"]] },
  { group: "ask", option: "family", label: "Family", kind: "text", when: (question) => question.verb === "fit" && question.options.largest === "model" },
  { group: "ask", option: "fewest", label: "Also find the fewest", kind: "choice", when: asked("fit"), choices: [["", "No"], ["gpus", "GPUs"]] },
  { group: "ask", option: "gpus", label: "GPUs to use", kind: "words", when: asked("plan"), hint: "64, or 64,128, or 64..512" },
  { group: "ask", option: "gpu", label: "Cards to try", kind: "words", when: asked("plan"), hint: "a100,h100" },
  { group: "ask", option: "objective", label: "Best by", kind: "choice", when: asked("plan"), choices: [["", "Step time"], ["cost", "Cost"], ["tokens_per_usd", "Tokens per USD"], ["tokens_per_joule", "Tokens per joule"], ["memory", "Memory"]] },
  { group: "ask", path: ["workload", "request_rate"], label: "Requests per second", when: asked("serve") },
  { group: "ask", path: ["workload", "concurrency"], label: "Or requests in flight", when: asked("serve") },
  { group: "ask", option: "ttft", label: "First token within", kind: "text", when: asked("serve"), hint: "500ms" },
  { group: "ask", option: "tpot", label: "Each token within", kind: "text", when: asked("serve"), hint: "50ms" },
  { group: "ask", option: "percentile", label: "For so many percent", when: asked("serve"), hint: "90" },
  { group: "ask", option: "step_time", label: "Step time", kind: "text", when: asked("need"), hint: "60ms" },
  { group: "ask", option: "tokens_per_second", label: "Or tokens per second", when: asked("need") },
  { group: "ask", option: "time_to_first_token", label: "Or time to first token", kind: "text", when: asked("need"), hint: "200ms" },
  { group: "ask", option: "cost", label: "Or USD per million tokens", when: asked("need") },
  { group: "ask", option: "changes", label: "Changes", kind: "lines", wide: true, when: asked("whatif"), hint: "One a line: gpu=h200, memory.bandwidth=2x, micro_batch_size=+50%" },
  { group: "ask", option: "axes", label: "Ranges", kind: "lines", wide: true, when: asked("sweep"), hint: "One a line: micro_batch_size=1..64:x2, gpu=a100,h100, memory.bandwidth=1..4x:4" },
  { group: "ask", option: "by", label: "By", kind: "choice", when: asked("memory"), choices: [["", "What it is"], ["op", "Op"], ["layer", "Layer"], ["role", "Role"], ["stage", "Pipeline stage"]] },
  { group: "ask", option: "figure", label: "Figure or op", kind: "text", wide: true, when: asked("explain"), hint: "step_time, memory.peak, mfu, or the name of an op",
    offers: ["step_time", "step_time_interval", "throughput", "memory.peak", "mfu", "hfu", "model_flops", "parameters", "bound", "time", "latency"] },

  { group: "work", path: ["workload", "phase"], label: "What runs", kind: "segments", wide: true, when: NOT_SERVE, choices: PHASES, standard: "train" },
  { group: "work", path: ["workload", "micro_batch_size"], label: "Micro batch", when: during(...TRAINS) },
  { group: "work", path: ["workload", "global_batch_size"], label: "Global batch", when: during(...TRAINS) },
  { group: "work", path: ["workload", "batch_size"], label: "Batch", when: during("prefill", "decode", "generate", "forward") },
  { group: "work", path: ["workload", "sequence_length"], label: "Sequence length", when: during("train", "forward") },
  { group: "work", path: ["workload", "prompt_length"], label: "Prompt length", when: (question, catalog) => serving(question, catalog) || during("prefill", "generate")(question) },
  { group: "work", path: ["workload", "context_length"], label: "Context length", when: during("decode") },
  { group: "work", path: ["workload", "output_length"], label: "Output length", when: (question, catalog) => serving(question, catalog) || during("generate", "decode")(question) },
  { group: "work", path: ["workload", "precision"], label: "Precision", kind: "choice", choices: names("precisions"), list: "precisions", able: trained, standardText: "Default" },
  { group: "work", path: ["workload", "engine"], label: "Engine", kind: "choice", choices: names("engines"), list: "engines", able: runs, standardText: "Default" },

  { group: "hardware", path: ["hardware", "gpu"], label: "Card", kind: "card", wide: true, when: (question) => question.verb !== "compare" },
  { group: "hardware", path: ["hardware", "gpus"], label: "How many", when: (question) => question.verb !== "plan" },
  { group: "hardware", path: ["hardware", "system"], label: "System", kind: "choice", choices: names("systems"), standardText: "The usual one" },

  { group: "layout", path: ["parallel", "tensor"], label: "Tensor" },
  { group: "layout", path: ["parallel", "pipeline"], label: "Pipeline" },
  { group: "layout", path: ["parallel", "data"], label: "Data" },
  { group: "layout", path: ["parallel", "context"], label: "Context" },
  { group: "layout", path: ["parallel", "expert"], label: "Expert" },
  { group: "layout", path: ["parallel", "sharding"], label: "Sharding", kind: "choice", when: during(...TRAINS), choices: words("parallel", "sharding") },
  { group: "layout", path: ["parallel", "schedule"], label: "Schedule", kind: "choice", when: both(during(...TRAINS), (question) => Number(((question.scenario.parallel || {}).pipeline) || 1) !== 1), choices: words("parallel", "schedule") },

  { group: "job", option: "tokens", label: "Tokens in all", kind: "text", when: asked("run"), hint: "15T" },
  { group: "job", option: "samples", label: "Or samples", kind: "text", when: asked("run"), hint: "1.2M images or sequences" },
  { group: "job", option: "epochs", label: "Epochs of samples", kind: "text", when: asked("run"), hint: "3" },
  { group: "job", path: ["hardware", "override", "gpu.price.hourly"], label: "Price of a card", kind: "text", hint: "2.50 USD/h" },

  { group: "more", path: ["workload", "optimizer"], label: "Optimizer", kind: "choice", when: during(...TRAINS), choices: words("workload", "optimizer") },
  { group: "more", path: ["workload", "recompute"], label: "Recompute", kind: "choice", when: during(...TRAINS), choices: words("workload", "recompute") },
  { group: "more", path: ["workload", "attention"], label: "Attention", kind: "choice", choices: words("workload", "attention"), standardText: "The engine's own" },
  { group: "more", path: ["workload", "image_size"], label: "Image size", when: NOT_SERVE, hint: "For image models" },
  { group: "more", path: ["hardware", "power_limit"], label: "Power limit", kind: "text", hint: "500 W" },
];

/** Groups of fields; `folded` ones open when somebody asks, or when they hold something. */
export const GROUPS = [
  { name: "ask", title: null },
  { name: "model", title: "Model" },
  { name: "work", title: "Work" },
  { name: "hardware", title: "Hardware" },
  { name: "layout", title: "Layout over GPUs", folded: true },
  { name: "job", title: "The whole job, and prices", folded: true },
  { name: "more", title: "More", folded: true },
];

/** Return where a field stands, as errors name it. */
export function keyOf(field) {
  return field.path ? field.path.join(".") : `options.${field.option}`;
}

/** What is asked first, where the link says nothing. */
export const FIRST = {
  verb: "run",
  scenario: { model: "llama3-8b", workload: { phase: "decode", batch_size: 32, context_length: 4096, engine: "vllm" }, hardware: { gpu: "h100-sxm5-80gb" } },
  options: {},
};

/** Return whether a question's model makes tokens one by one; of one that is not in the catalog, and of lists of layers, null. */
export function generates(question, catalog) {
  const { model } = question.scenario;
  const entry = model && typeof model === "object" ? model : (catalog.models || []).find((each) => each.name === model || (each.aliases || []).includes(String(model).toLowerCase()));
  const family = entry && entry.family !== "layers" && (catalog.families || []).find((each) => each.name === entry.family);
  return family ? family.phases.includes("generate") : null;
}

/** What a verb needs that has no default, so that a change of the verb gives an answer and no error. */
export const STARTS = {
  compare: { options: (catalog) => ({ gpus: ((catalog.usual || {}).cards || []).slice(0, 6) }) },
  fit: { options: (catalog, question) => ({ largest: phase(question) === "train" ? "micro-batch-size" : "batch-size" }) },
  plan: { options: { gpus: 8 } },
  need: { options: { tokens_per_second: 10000 } },
  whatif: { options: { changes: ["memory.bandwidth=2x"] } },
  sweep: { options: (catalog, question) => ({ axes: [`${phase(question) === "train" ? "micro_batch_size" : "batch_size"}=1..256:x2`] }) },
  serve: {
    workload: (catalog, question) => ({
      ...((question.scenario.workload || {}).concurrency === undefined ? { request_rate: 4 } : {}),
      ...(generates(question, catalog) ? { prompt_length: 1000, output_length: 250 } : {}),
    }),
  },
  explain: { options: { figure: "step_time" } },
};

/** What turns: paths by phase, and the stops of a slider. */
export const SLIDERS = [
  { name: "batch", label: "Batch", path: (question) => ["workload", phase(question) === "train" ? "micro_batch_size" : "batch_size"], stops: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512] },
  { name: "length", label: "Length", path: (question) => ["workload", { prefill: "prompt_length", decode: "context_length", generate: "output_length" }[phase(question)] || "sequence_length"], stops: [128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768] },
  { name: "bandwidth", label: "Bandwidth", path: () => ["hardware", "override", "gpu.memory.bandwidth"], factor: true },
  { name: "compute", label: "Compute", path: () => ["hardware", "override", "gpu.peak"], factor: true },
  { name: "price", label: "Price", path: () => ["hardware", "override", "gpu.price.hourly"], factor: true, draws: "cost.usd_per_million" },
];
export const FACTORS = ["0.25x", "0.5x", "0.75x", "1x", "1.25x", "1.5x", "2x", "3x", "4x"];
