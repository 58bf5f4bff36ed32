// Frame of a client program in JavaScript; frame.py describes the lines.

import { createInterface } from 'node:readline';
import { context, within } from '../harness/case.mjs';

/** How the client brings its credential: `header`, `query` or `login`. */
export const way = process.env.OLD_SSE_WAY;
export const url = new URL(`${context.url}/sse${way === 'query' ? `?api_key=${context.key}` : ''}`);
export const headers = way === 'header' ? { Authorization: `Bearer ${context.key}` } : {};
export const TOOL = 'echo__echo';

const reply = (members) => process.stdout.write(`@${JSON.stringify(members)}\n`);

/** Runs a client: `connect` opens it anew each time, `call` calls the tool, `leave` closes it. */
export async function serve({ connect, call, leave, logins = () => 0 }) {
  process.on('unhandledRejection', (error) => console.error(error));
  let opened = false;
  reply({ ready: true });
  for await (const line of createInterface({ input: process.stdin })) {
    const [command, ...rest] = line.split(' ');
    const text = rest.join(' ');
    try {
      if (command === 'call') {
        const found = await within(20, call(text));
        if (found !== text) throw new Error(`the answer is ${JSON.stringify(found)}`);
      } else {
        if (opened) await within(5, leave()).catch((error) => console.error(error));
        opened = true;
        await within(60, connect());
      }
      reply({ ok: true, logins: logins(), at: Date.now() / 1000 });
    } catch (error) {
      console.error(error);
      const said = `${error?.constructor?.name ?? 'Error'}: ${error?.message ?? error}`;
      reply({ error: said.replace(/\s+/g, ' ').slice(0, 400), logins: logins() });
    }
  }
  process.exit(0);
}
