// The lists of the servers of all releases, in the form of a protocol version.

import { readFileSync } from 'node:fs';

const { members, ...offer } = JSON.parse(readFileSync(new URL('offer.json', import.meta.url)));

/** The members that `version` has, at any depth: others may pass, but are not required to. */
export function known(version, value) {
  if (Array.isArray(value)) return value.map((part) => known(version, part));
  if (value === null || typeof value !== 'object') return value;
  const kept = Object.entries(value).filter(([name]) => !(members[name] > version));
  return Object.fromEntries(kept.map(([name, part]) => [name, known(version, part)]));
}

/** Of `tools`, `prompts`, `resources` or `resourceTemplates`, those that a server of `version` can have. */
export const offered = (kind, version) => known(version, offer[kind].filter(({ since }) => since <= version));

/** An answer with the arguments in it. */
export const filled = (answer, given = {}) =>
  JSON.parse(JSON.stringify(answer).replace(/\{(\w+)\}/g, (_, name) => given[name]));
