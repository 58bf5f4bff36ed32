// The TypeScript SDK's client of HTTP+SSE: `typescript_client.mjs PACKAGE HEADER`. HEADER says how a program sets a header on that
// release: in the `fetch` of EventSource and in `requestInit` (before 1.12 the GET takes nothing from that; since 1.17 it is then
// sent twice), or only in `init`, which is `requestInit`.

import EventSource2 from 'eventsource-2';
import { Provider } from '../harness/provider.mjs';
import { headers, serve, TOOL, url, way } from './frame.mjs';

const [sdk, header] = process.argv.slice(2);
const two = sdk === 'client-2';
const { Client } = await import(two ? sdk : `${sdk}/client/index.js`);
globalThis.EventSource ??= EventSource2; // 1.0 expects the browser's
const { SSEClientTransport } = await import(two ? sdk : `${sdk}/client/sse.js`);

// 2.x checks `iss` too, and refuses an answer without
const provider = new Provider('Old TypeScript', (answer) => [two ? answer : answer.get('code')]);
/** `fetch` with the header, as programs write it. */
const withHeaders = (address, init) => fetch(address, { ...init, headers: { ...plain(init?.headers), ...headers } });
const plain = (given) => Object.fromEntries(new Headers(given).entries());

function options() {
  if (way === 'login') return { authProvider: provider };
  if (way === 'query') return {};
  const eventSourceInit = header === 'fetch' ? { fetch: withHeaders } : undefined;
  return { requestInit: { headers }, ...(eventSourceInit && { eventSourceInit }) };
}

let client;
let logins = 0;

/** Opens the transport that it gives, with a client of its own: a failed connection may leave one that is in use. */
async function open() {
  client = new Client({ name: 'old-typescript', version: '1' }, { capabilities: {} });
  client.onerror = (error) => console.error('onerror', error);
  const transport = new SSEClientTransport(url, options());
  try {
    await client.connect(transport);
    return undefined;
  } catch (error) {
    if (error?.constructor?.name !== 'UnauthorizedError') throw error;
    return transport;
  }
}

async function connect() {
  const refused = await open();
  if (!refused) return;
  await refused.finishAuth(...await provider.answer());
  logins += 1;
  if (await open()) throw new Error('the token of the login was refused');
}

await serve({
  connect,
  call: async (text) => (await client.callTool({ name: TOOL, arguments: { text } })).content[0].text,
  leave: () => client.close(),
  logins: () => logins,
});
