// Clients that people have not updated: TypeScript SDK 1.0.1 (HTTP+SSE, 2024-11-05), 1.11.0
// (2025-03-26) and 1.17.5 (2025-06-18) over Streamable HTTP.

import assert from 'node:assert/strict';
import { EventSource } from 'eventsource';
import { check, context, finish, textOf } from '../harness/case.mjs';
import { connect, Provider } from '../harness/provider.mjs';

globalThis.EventSource ??= EventSource; // 1.0.1 expects the browser's

async function use(client) {
  const { tools } = await client.listTools();
  assert.ok(tools.some(({ name }) => name === 'everything__echo'));
  const result = await client.callTool({ name: 'everything__echo', arguments: { message: 'from afar' } });
  assert.equal(textOf(result), 'Echo: from afar');
  const { prompts } = await client.listPrompts();
  assert.ok(prompts.some(({ name }) => name === 'everything__simple-prompt'));
  await client.close();
}

await check('SDK 1.0.1 lists and calls over SSE with the key in the URL', async () => {
  const { Client } = await import('sdk-1.0.1/client/index.js');
  const { SSEClientTransport } = await import('sdk-1.0.1/client/sse.js');
  const client = new Client({ name: 'interop-1.0.1', version: '1' }, { capabilities: {} });
  await client.connect(new SSEClientTransport(new URL(`${context.url}/sse?api_key=${context.key}`)));
  await use(client);
});
for (const version of ['1.11.0', '1.17.5']) {
  const { Client } = await import(`sdk-${version}/client/index.js`);
  const { StreamableHTTPClientTransport } = await import(`sdk-${version}/client/streamableHttp.js`);
  await check(`SDK ${version} logs in, lists and calls`, async () => {
    const provider = new Provider(`Interop ${version}`);
    const client = new Client({ name: `interop-${version}`, version: '1' }, { capabilities: {} });
    const url = new URL(`${context.url}/mcp`);
    const { loggedIn } = await connect(client, provider, () => new StreamableHTTPClientTransport(url, { authProvider: provider }));
    assert.ok(loggedIn);
    await use(client);
  });
  await check(`SDK ${version} lists and calls with a direct key`, async () => {
    const client = new Client({ name: `interop-${version}`, version: '1' }, { capabilities: {} });
    const requestInit = { headers: { Authorization: `Bearer ${context.directKey}` } };
    await client.connect(new StreamableHTTPClientTransport(new URL(`${context.url}/mcp`), { requestInit }));
    await use(client);
  });
}
finish();
