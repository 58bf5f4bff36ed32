// A release of the TypeScript SDK 1.x, whose clients have sessions, at each lock: `classic.mjs NAME PACKAGE VERSION`.

import assert from 'node:assert/strict';
import { check, context, finish, inOrder, textOf, until } from '../harness/case.mjs';

const [name, sdk, version] = process.argv.slice(2);
const { Client } = await import(`${sdk}/client/index.js`);
const { StreamableHTTPClientTransport } = await import(`${sdk}/client/streamableHttp.js`);
const types = await import(`${sdk}/types.js`);

async function connect({ url }) {
  const capabilities = { sampling: {}, elicitation: {}, roots: {} };
  const client = new Client({ name: 'interop-classic', version: '1' }, { capabilities });
  const heard = { logs: [], updates: [], changes: 0, action: 'accept' };
  client.setRequestHandler(types.CreateMessageRequestSchema, () => (
    { role: 'assistant', model: 'interop', content: { type: 'text', text: 'a weir' } }
  ));
  client.setRequestHandler(types.ElicitRequestSchema, ({ params }) => {
    const [name] = Object.keys(params.requestedSchema.properties);
    return heard.action === 'accept' ? { action: 'accept', content: { [name]: name === 'name' ? 'Ada' : 'stone' } } : { action: heard.action };
  });
  client.setRequestHandler(types.ListRootsRequestSchema, () => ({ roots: [{ uri: 'file:///interop', name: 'interop' }] }));
  client.setNotificationHandler(types.LoggingMessageNotificationSchema, ({ params }) => void heard.logs.push(params.data));
  client.setNotificationHandler(types.ResourceUpdatedNotificationSchema, ({ params }) => void heard.updates.push(params.uri));
  client.setNotificationHandler(types.ToolListChangedNotificationSchema, () => void (heard.changes += 1));
  const requestInit = { headers: { Authorization: `Bearer ${context.directKey}` } };
  const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit });
  await client.connect(transport);
  assert.equal(transport.protocolVersion, version);
  return { client, heard };
}

/** Everything at one lock, whose things are called `tool` + name and `mark` + URI. */
async function visit(server) {
  const { client, heard } = await connect(server);
  const { tool, mark } = server;
  const water = `${mark}lock://water`;
  const told = (sentence, body) => check(`${name} at ${server.name}: ${sentence}`, body);
  const send = (name, given = {}, options) => client.callTool({ name: tool + name, arguments: given }, undefined, options);
  const call = async (...args) => textOf(await send(...args));
  await told('it lists, and a call gives structured content', async () => {
    const { tools } = await client.listTools();
    assert.ok(tools.some(({ name }) => name === `${tool}measure`));
    assert.deepEqual((await send('measure', { boat: 'Zeemeeuw' })).structuredContent, { boat: 'Zeemeeuw', metres: 12 });
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
    await client.setLoggingLevel('info');
    await call('speak');
    await until('two log messages', () => heard.logs.length >= 2);
    assert.deepEqual(heard.logs, ['a word of info', 'a word of error']);
  });
  await told('it hears of a resource that it subscribed to, and of a tool', async () => {
    await client.subscribeResource({ uri: water });
    assert.match(await call('raise'), /the water is at/);
    await until('the update', () => heard.updates.includes(water));
    await client.unsubscribeResource({ uri: water });
    const boat = await call('moor');
    await until('the change', () => heard.changes > 0);
    await until('the boat', async () => (await client.listTools()).tools.some(({ name }) => name === tool + boat));
    assert.match(await call(boat), /is moored/);
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
    await check(`${name} at ${server.name}: it connects`, () => Promise.reject(error));
  }
}
finish();
