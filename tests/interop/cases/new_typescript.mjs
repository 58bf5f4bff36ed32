// The TypeScript SDK 2.x as a client of 2026-07-28, at servers that have sessions and ask in mid-call.

import assert from 'node:assert/strict';
import { Client, StreamableHTTPClientTransport } from 'client-2';
import { StdioClientTransport } from 'client-2/stdio';
import { check, context, finish, textOf } from '../harness/case.mjs';

const requestInit = { headers: { Authorization: `Bearer ${context.directKey}` } };
const over = (path) => () => new StreamableHTTPClientTransport(new URL(context.url + path), { requestInit });
const args = ['stdio', '--config', context.config];
const WAYS = {
  stdio: [over('/mcp/everything'), '', ''],
  http: [over('/mcp/everything-http'), '', ''],
  merged: [over('/mcp'), 'everything-http__', 'everything-http+'],
  'lockkeeper stdio': [
    () => new StdioClientTransport({ command: context.binary, args, env: process.env }), 'everything-http__', 'everything-http+',
  ],
};

async function connect(transport) {
  const capabilities = { sampling: {}, elicitation: { form: {} }, roots: {} };
  const client = new Client({ name: 'interop-2', version: '1' }, { capabilities, versionNegotiation: { mode: 'auto' } });
  client.setRequestHandler('sampling/createMessage', () => (
    { role: 'assistant', model: 'interop', content: { type: 'text', text: 'a model answers' } }
  ));
  client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: { name: 'Ada', check: true } }));
  client.setRequestHandler('roots/list', () => ({ roots: [{ uri: 'file:///interop', name: 'interop' }] }));
  await client.connect(transport());
  assert.equal(client.getNegotiatedProtocolVersion(), '2026-07-28');
  return client;
}

for (const [way, [transport, tool, resource]] of Object.entries(WAYS)) {
  const client = await connect(transport);
  const call = async (name, args = {}, options) => textOf(await client.callTool({ name: tool + name, arguments: args }, options));

  await check(`${way}: the TypeScript client of 2026-07-28 lists, reads and calls`, async () => {
    assert.equal(await call('echo', { message: 'from 2026' }), 'Echo: from 2026');
    const { prompts } = await client.listPrompts();
    assert.ok(prompts.some(({ name }) => name === `${tool}simple-prompt`));
    const { messages } = await client.getPrompt({ name: `${tool}simple-prompt` });
    assert.equal(messages[0].role, 'user');
    const { resources } = await client.listResources();
    const { uri } = resources.find(({ uri }) => uri.startsWith(resource));
    const { contents } = await client.readResource({ uri });
    assert.equal(contents[0].uri, uri);
    await assert.rejects(client.getPrompt({ name: `${tool}nobody` }), (error) => error.code === -32602);
  });
  await check(`${way}: a server with sessions asks the TypeScript client of 2026-07-28 in mid-call`, async () => {
    for (const _ of [1, 2]) {
      assert.match(await call('trigger-sampling-request', { prompt: 'a lock', maxTokens: 20 }), /a model answers/);
      assert.match(await call('trigger-elicitation-request'), /Ada/);
    }
  });
  await check(`${way}: a listen hears of a resource`, async () => {
    const { resources } = await client.listResources();
    const { uri } = resources.find(({ uri }) => uri.startsWith(resource));
    const updated = new Promise((resolve) => {
      client.setNotificationHandler('notifications/resources/updated', ({ params }) => resolve(params.uri));
    });
    const listen = await client.listen({ toolsListChanged: true, resourceSubscriptions: [uri] });
    assert.deepEqual(listen.honoredFilter.resourceSubscriptions, [uri]);
    await call('toggle-subscriber-updates');
    assert.equal(await updated, uri);
    await call('toggle-subscriber-updates');
    await listen.close();
    assert.equal(await listen.closed, 'local');
  });
  await check(`${way}: progress comes, and a cancel ends the call`, async () => {
    const steps = [];
    // the client itself announces its answer, which this server may have by then
    const onprogress = ({ progress, message }) => message ?? steps.push(progress);
    await call('trigger-long-running-operation', { duration: 1, steps: 4 }, { onprogress });
    assert.deepEqual(steps.slice(0, 3), [1, 2, 3]); // the client drops one that comes together with the answer
    const abort = new AbortController();
    const options = { signal: abort.signal, onprogress: () => abort.abort() };
    await assert.rejects(call('trigger-long-running-operation', { duration: 60, steps: 60 }, options));
  });
  await client.close();
}
finish();
