// What becomes of a question when its verb or phase changes: what it has no use for is put aside, and comes back where it has.

import { at, put } from "./dom.js";
import { FIELDS, STARTS, suits } from "./fields.js";

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

/** Return what keeps the parts of questions that are not asked now: `moved` is the next question, `keep` notes one that was taken as it is. */
export function keeper(catalog) {
  const options = {}, stash = {};
  let begun = {}; // values that the present verb began with

  /** Return the options and the work that a verb begins with, in this question. */
  function startOf(question) {
    const start = STARTS[question.verb] || {};
    const own = (part) => (typeof part === "function" ? part(catalog, question) : part) || {};
    return { options: own(start.options), workload: own(start.workload) };
  }

  /** Return a question with what its verb needs and has no default for. */
  function started(question, anew) {
    const start = startOf(question);
    let next = Object.keys(question.options).length ? question : { ...question, options: { ...start.options } };
    if (!anew) return next;
    for (const [key, value] of Object.entries(start.workload)) {
      if (at(next.scenario, ["workload", key]) !== undefined) continue;
      begun[key] = value;
      next = { ...next, scenario: put(next.scenario, ["workload", key], value) };
    }
    return next;
  }

  /** Return a question without the values that it has no use for, and with those that it had a use for before. */
  function settled(question) {
    let next = question;
    const set = (path, value) => { next = { ...next, scenario: put(next.scenario, path, value) }; };
    const batch = at(next.scenario, ["workload", "micro_batch_size"]) ?? at(next.scenario, ["workload", "batch_size"]);
    // Fields in their order: what runs comes before what depends on it.
    for (const field of FIELDS.filter((each) => each.path)) {
      const key = field.path.join("."), value = at(next.scenario, field.path);
      const shown = (!field.when || field.when(next, catalog)) && suits(field, value ?? stash[key], next, catalog);
      if (!shown && value !== undefined) { stash[key] = value; set(field.path, undefined); }
      else if (shown && value === undefined && stash[key] !== undefined) { set(field.path, stash[key]); delete stash[key]; }
    }
    for (const key of ["micro_batch_size", "batch_size"]) {
      const field = FIELDS.find((each) => each.path && each.path[1] === key);
      if (batch !== undefined && field.when(next, catalog) && at(next.scenario, field.path) === undefined) set(field.path, batch);
    }
    return next;
  }

  return {
    keep(question) { options[question.verb] = question.options; begun = {}; },
    /** Return the next question: `before` was changed to `next`, in its verb or in what runs. */
    moved(before, next) {
      const anew = next.verb !== before.verb;
      const untouched = same(before.options, startOf(before).options);
      if (anew) {
        if (untouched) delete options[before.verb];
        else options[before.verb] = before.options;
        for (const [key, value] of Object.entries(begun)) {
          if (at(next.scenario, ["workload", key]) === value) next = { ...next, scenario: put(next.scenario, ["workload", key], undefined) };
        }
        begun = {};
        next = { ...next, options: options[next.verb] || {} };
      } else if (untouched) next = { ...next, options: {} };
      return started(settled(next), anew);
    },
  };
}
