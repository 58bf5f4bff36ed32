// The TypeScript SDK 2.x as a client of 2026-07-28, at each lock: `modern.mjs`.

import assert from 'node:assert/strict';
import { Client, StreamableHTTPClientTransport } from 'client-2';
import { check, context, finish, inOrder, textOf, until } from '../harness/case.mjs';

const LEVEL = 'io.modelcontextprotocol/logLevel';

async function connect({ url }) {
  const capabilities = { sampling: {}, elicitation: { form: {} }, roots: {} };
  const client = new Client({ name: 'interop-modern', version: '2' }, { capabilities, versionNegotiation: { mode: 'auto' } });
  const heard = { logs: [], updates: [], changes: 0, action: 'accept' };
  client.setRequestHandler('sampling/createMessage', () => (
    { role: 'assistant', model: 'interop', content: { type: 'text', text: 'a weir' } }
  ));
  client.setRequestHandler('elicitation/create', ({ params }) => {
    const [name] = Object.keys(params.requestedSchema.properties);
    return heard.action === 'accept' ? { action: 'accept', content: { [name]: name === 'name' ? 'Ada' : 'stone' } } : { action: heard.action };
  });
  client.setRequestHandler('roots/list', () => ({ roots: [{ uri: 'file:///interop', name: 'interop' }] }));
  client.setNotificationHandler('notifications/message', ({ params }) => void heard.logs.push(params.data));
  client.setNotificationHandler('notifications/resources/updated', ({ params }) => void heard.updates.push(params.uri));
  client.setNotificationHandler('notifications/tools/list_changed', () => void (heard.changes += 1));
  const requestInit = { headers: { Authorization: `Bearer ${context.directKey}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
  assert.equal(client.getNegotiatedProtocolVersion(), '2026-07-28');
  return { client, heard };
}

/** Everything at one lock, whose things are called `tool` + name and `mark` + URI. */
async function visit(server) {
  const { client, heard } = await connect(server);
  const { tool, mark } = server;
  const water = `${mark}lock://water`;
  const told = (sentence, body) => check(`TypeScript 2.4.0 at ${server.name}: ${sentence}`, body);
  const call = async (name, given = {}, options) => textOf(await client.callTool({ name: tool + name, arguments: given }, options));
  await told('it lists, and a call gives structured content', async () => {
    const { tools } = await client.listTools();
    assert.ok(tools.some(({ name }) => name === `${tool}measure`));
    const result = await client.callTool({ name: `${tool}measure`, arguments: { boat: 'Zeemeeuw' } });
    assert.deepEqual(result.structuredContent, { boat: 'Zeemeeuw', metres: 12 });
  });
  await told('it is asked for a name, and gives or declines it', async () => {
    assert.equal(await call('ask-name'), 'Ada may pass');
    heard.action = 'decline';
    assert.equal(await call('ask-name'), 'nobody passes: decline');
    heard.action = 'accept';
  });
  await told('it is asked for its model and its roots', async () => {
    assert.equal(await call('ask-model'), 'the model says: a weir');
    assert.equal(await call('ask-roots'), 'file:///interop');
  });
  await told('it is asked twice in one call', async () => assert.equal(await call('ask-twice'), 'Ada carries stone'));
  await told('progress comes, and a cancel reaches the server', async () => {
    const steps = [];
    await call('fill', { steps: 4 }, { onprogress: ({ progress }) => steps.push(progress) });
    inOrder(steps, [1, 2, 3, 4]);
    const before = Number(await call('abandoned'));
    const abort = new AbortController();
    await assert.rejects(call('fill', { steps: 100_000 }, { signal: abort.signal, onprogress: () => abort.abort() }));
    await until('the server abandons the call', async () => Number(await call('abandoned')) > before);
  });
  await told('log messages come as asked for', async () => {
    await client.callTool({ name: `${tool}speak`, arguments: {} });
    await client.callTool({ name: `${tool}speak`, arguments: {}, _meta: { [LEVEL]: 'info' } });
    await until('two log messages', () => heard.logs.length >= 2);
    assert.deepEqual(heard.logs, ['a word of info', 'a word of error']);
  });
  await told('a listen hears of a resource and of a tool', async () => {
    const listen = await client.listen({ toolsListChanged: true, resourceSubscriptions: [water] });
    assert.match(await call('raise'), /the water is at/);
    await until('the update', () => heard.updates.includes(water));
    const boat = await call('moor');
    await until('the change', () => heard.changes > 0);
    await until('the boat', async () => (await client.listTools()).tools.some(({ name }) => name === tool + boat));
    assert.match(await call(boat), /is moored/);
    await listen.close();
  });
  await told('it reads, gets a prompt and completes', async () => {
    const { contents } = await client.readResource({ uri: water });
    assert.match(contents[0].text, /^\d+$/);
    const { messages } = await client.getPrompt({ name: `${tool}greet`, arguments: { name: 'Ada' } });
    assert.equal(messages[0].content.text, 'Greet Ada');
    const ref = { type: 'ref/prompt', name: `${tool}greet` };
    const { completion } = await client.complete({ ref, argument: { name: 'name', value: 'Ad' } });
    assert.deepEqual(completion.values, ['Ada', 'Adam']);
  });
  await client.close();
}

for (const server of context.servers) {
  try {
    await visit(server);
  } catch (error) {
    await check(`TypeScript 2.4.0 at ${server.name}: it connects`, () => Promise.reject(error));
  }
}
finish();
