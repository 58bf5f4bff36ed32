// The TypeScript SDK: `typescript_client.mjs PACKAGE TRANSPORT ERA`. TRANSPORT is `http` or `sse`. ERA is `classic`, or `modern`,
// which is 2026-07-28: there an application listens for changes, and listens again after it lost that stream.

import { at, headers, serve } from './program.mjs';

const [sdk, transport, era] = process.argv.slice(2);
const two = sdk === 'client-2';
const from = async (file) => import(two ? sdk : `${sdk}/${file}`);
const { Client } = await from('client/index.js');
const { SSEClientTransport } = await from('client/sse.js');
const { StreamableHTTPClientTransport } = await from('client/streamableHttp.js');
const { ToolListChangedNotificationSchema } = two ? {} : await from('types.js');
const LISTEN_AGAIN_MS = 1000;

const options = { requestInit: { headers } };
const overSse = () => new SSEClientTransport(at('/sse'), options);
const overHttp = () => new StreamableHTTPClientTransport(at('/mcp'), options);

/** Listens for as long as the client lives. */
async function listen(client, isOver) {
  while (!isOver()) {
    try {
      const listening = await client.listen({ toolsListChanged: true });
      if (await listening.closed === 'local') return;
    } catch (error) {
      console.error('listen', error);
    }
    await new Promise((resolve) => setTimeout(resolve, LISTEN_AGAIN_MS));
  }
}

await serve(async (heard) => {
  const negotiation = two ? { versionNegotiation: { mode: era === 'modern' ? 'auto' : 'legacy' } } : {};
  const client = new Client({ name: 'lost-typescript', version: '1' }, { capabilities: {}, ...negotiation });
  let over = false;
  client.onerror = (error) => console.error('onerror', error);
  const changed = two ? 'notifications/tools/list_changed' : ToolListChangedNotificationSchema;
  client.setNotificationHandler(changed, () => void (heard.changes += 1));
  await client.connect(transport === 'sse' ? overSse() : overHttp());
  if (era === 'modern') {
    if (client.getNegotiatedProtocolVersion() !== '2026-07-28') throw new Error(client.getNegotiatedProtocolVersion());
    listen(client, () => over);
  }
  return {
    call: (params, given) => (two ? client.callTool(params, given) : client.callTool(params, undefined, given)),
    leave: () => {
      over = true;
      return client.close();
    },
  };
});
