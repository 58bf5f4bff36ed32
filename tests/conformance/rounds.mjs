// A body that asks, run as servers of 2026-07-28 ask: in rounds, in each of which it runs again from its start and finds
// what was answered before.

import { createRequestStateCodec } from '@modelcontextprotocol/server';

const { mint, verify } = createRequestStateCodec({ key: crypto.getRandomValues(new Uint8Array(32)) });

/** Shows a server whether a state is its own. */
export const requestState = { verify };

/** Runs `body`, which is given `ask(method, params, key)`: its result, or the questions that it waits for. */
export async function inRounds({ mcpReq }, keepsState, body) {
  const before = mcpReq.requestState()?.answers ?? {};
  const answers = { ...before, ...mcpReq.inputResponses };
  const inputRequests = {};
  let waits;
  const waiting = new Promise((resolve) => {
    waits = resolve;
  });
  const result = body((method, params, key = method) => {
    if (typeof answers[key] === 'object') return Promise.resolve(answers[key]);
    inputRequests[key] = { method, params };
    setImmediate(waits); // by then everything was asked that can be asked in this round
    return new Promise(() => {});
  });
  const done = await Promise.race([result, waiting]);
  if (done) return done;
  const state = keepsState || Object.keys(before).length ? { requestState: await mint({ answers }) } : {};
  return { resultType: 'input_required', inputRequests, ...state };
}
