// Everything that the suite asks a server to offer, and what can be added to it and taken away.

import * as asking from './asking.mjs';
import * as content from './content.mjs';

export { read, resources, templates } from './content.mjs';

const tools = { ...content.tools, ...asking.tools };
const prompts = { ...content.prompts, ...asking.prompts };
const listed = (things, part) =>
  Object.entries(things).map(([name, [given]]) => ({ name, description: `The fixture ${name}`, [part]: given }));

export const offered = { tools, prompts };
export const listTools = () => ({ tools: listed(tools, 'inputSchema') });
export const listPrompts = () => ({ prompts: listed(prompts, 'arguments') });

/** Changes the list of `tools` or `prompts`. */
export function change(kind) {
  const things = offered[kind];
  if (things.test_added) delete things.test_added;
  else things.test_added = kind === 'tools' ? tools.test_simple_text : prompts.test_simple_prompt;
}

/** Completions of the beginning of an argument. */
export function complete({ argument }) {
  const values = ['paris', 'park', 'party'].filter((value) => value.startsWith(argument.value));
  return { completion: { values, total: values.length, hasMore: false } };
}
