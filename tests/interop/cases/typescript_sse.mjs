// The newest 1.x TypeScript SDK over HTTP+SSE with an API key: by header, and in the URL for
// programs that can set nothing else.

import assert from 'node:assert/strict';
import { Client } from 'sdk/client/index.js';
import { SSEClientTransport } from 'sdk/client/sse.js';
import { check, context, finish, inOrder, textOf } from '../harness/case.mjs';

const header = { requestInit: { headers: { Authorization: `Bearer ${context.key}` } } };
const ways = [
  ['the key as bearer', '/sse', header, 'everything__'],
  ['the key in the URL', `/sse?api_key=${context.key}`, {}, 'everything__'],
  ['the key as bearer, one server', '/sse/everything', header, ''],
];
for (const [way, path, options, prefix] of ways) {
  await check(`SSE with ${way}: list, call, progress`, async () => {
    const client = new Client({ name: 'interop-sse', version: '1' });
    await client.connect(new SSEClientTransport(new URL(context.url + path), options));
    const { tools } = await client.listTools();
    assert.ok(tools.some(({ name }) => name === `${prefix}echo`), tools.map(({ name }) => name).join(' '));
    const echo = await client.callTool({ name: `${prefix}echo`, arguments: { message: 'old boat' } });
    assert.equal(textOf(echo), 'Echo: old boat');
    const steps = [];
    await client.callTool(
      { name: `${prefix}trigger-long-running-operation`, arguments: { duration: 0.4, steps: 2 } },
      undefined,
      { onprogress: ({ progress }) => steps.push(progress) },
    );
    inOrder(steps, [1, 2]);
    await client.close();
  });
}
await check('SSE with a wrong key is refused with 401 and a challenge', async () => {
  const wrong = context.key.slice(0, -1) + (context.key.endsWith('x') ? 'y' : 'x');
  const response = await fetch(`${context.url}/sse`, { headers: { Authorization: `Bearer ${wrong}` } });
  assert.equal(response.status, 401);
  assert.match(response.headers.get('www-authenticate') ?? '', /^Bearer/);
});
await check('SSE without a key is refused with 401', async () => {
  assert.equal((await fetch(`${context.url}/sse`)).status, 401);
});
finish();
