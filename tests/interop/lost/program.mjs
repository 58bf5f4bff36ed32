// Frame of a client program in JavaScript; program.py describes the lines.

import { createInterface } from 'node:readline';
import { context, within } from '../harness/case.mjs';

export const headers = { Authorization: `Bearer ${context.key}` };
export const at = (path) => new URL(context.url + path);
const PREFIX = 'lost__';
// ends a call that hangs
const MOST_SECONDS = 45;

const reply = (members) => process.stdout.write(`@${JSON.stringify(members)}\n`);

/** Runs a client: `connect(heard)` opens it anew each time, and gives `{ call, leave }`. `heard.changes` is for the handler. */
export async function serve(connect) {
  process.on('unhandledRejection', (error) => console.error(error));
  let connection;
  let heard = { changes: 0 };

  async function call({ tool, arguments: args, timeout, abort, progress }) {
    const stop = new AbortController();
    if (abort) setTimeout(() => stop.abort('stopped'), abort * 1000);
    const options = {
      ...(abort && { signal: stop.signal }),
      ...(timeout && { timeout: timeout * 1000 }),
      ...(progress && { onprogress: () => {} }),
    };
    const found = await within(MOST_SECONDS, connection.call({ name: PREFIX + tool, arguments: args }, options));
    return { text: found.content[0].text };
  }

  async function answer(request) {
    if (request.do === 'call') return call(request);
    if (request.do === 'heard') return { changes: heard.changes };
    if (connection) await within(5, connection.leave()).catch((error) => console.error(error));
    heard = { changes: 0 };
    connection = await within(60, connect(heard));
    return {};
  }

  reply({ ready: true });
  for await (const line of createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    answer(request).then((found) => reply({ id: request.id, ...found }), (error) => {
      console.error(error);
      const said = `${error?.constructor?.name ?? 'Error'}: ${error?.message ?? error}`;
      reply({ id: request.id, error: said.replace(/\s+/g, ' ').slice(0, 400), code: error?.code });
    });
  }
  process.exit(0);
}
