// The newest 1.x TypeScript SDK over Streamable HTTP with its own OAuth provider, through a whole
// visit: registration, login, every kind of call in both directions, and the refresh.

import assert from 'node:assert/strict';
import { Client } from 'sdk/client/index.js';
import { StreamableHTTPClientTransport } from 'sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema, LoggingMessageNotificationSchema,
} from 'sdk/types.js';
import { check, context, finish, inOrder, textOf, until } from '../harness/case.mjs';
import { connect, Provider } from '../harness/provider.mjs';

const provider = new Provider('Interop TypeScript');
const open = () => new StreamableHTTPClientTransport(new URL(`${context.url}/mcp`), { authProvider: provider });
const capabilities = { sampling: {}, elicitation: {}, roots: { listChanged: true } };
const client = new Client({ name: 'interop-typescript', version: '1' }, { capabilities });
const logged = [];
client.setRequestHandler(CreateMessageRequestSchema, (request) => ({
  model: 'script', role: 'assistant', content: { type: 'text', text: `heard: ${request.params.messages[0].content.text}` },
}));
client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'accept', content: { name: 'Ada', check: true } }));
client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [{ uri: 'file:///srv/harbour', name: 'harbour' }] }));
client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => { logged.push(params); });

let transport;
await check('a client that was never seen registers, logs in through the browser, and connects', async () => {
  const connected = await connect(client, provider, open);
  transport = connected.transport;
  assert.ok(connected.loggedIn, 'the gateway let it in without a login');
  assert.ok(provider.client.client_id);
  assert.equal(provider.given.token_type.toLowerCase(), 'bearer');
  assert.ok(provider.given.refresh_token, 'no refresh token');
});
if (!transport) finish();

await check('the session speaks 2025-11-25', () => assert.equal(transport.protocolVersion, '2025-11-25'));
await check('a ping is answered', () => client.ping());
await check('a tool answers', async () => {
  const result = await client.callTool({ name: 'everything__echo', arguments: { message: 'ahoy' } });
  assert.equal(textOf(result), 'Echo: ahoy');
});
await check('progress arrives step by step, before the answer', async () => {
  const steps = [];
  const result = await client.callTool(
    { name: 'everything__trigger-long-running-operation', arguments: { duration: 1, steps: 4 } },
    undefined,
    { onprogress: ({ progress, total }) => steps.push(`${progress}/${total}`) },
  );
  inOrder(steps, ['1/4', '2/4', '3/4', '4/4']);
  assert.match(textOf(result), /completed/);
});
await check('a cancelled call ends at once, and the session goes on', async () => {
  const abort = new AbortController();
  const running = client.callTool(
    { name: 'everything__trigger-long-running-operation', arguments: { duration: 600, steps: 600 } },
    undefined,
    { signal: abort.signal, onprogress: () => abort.abort('changed my mind') },
  );
  await assert.rejects(running);
  const result = await client.callTool({ name: 'everything__get-sum', arguments: { a: 1, b: 2 } });
  assert.match(textOf(result), /\b3\b/);
});
await check('twenty calls at once get each its own answer', async () => {
  const numbers = Array.from({ length: 20 }, (_, n) => n);
  const answers = await Promise.all(numbers.map((n) => client.callTool({ name: 'everything__echo', arguments: { message: `boat ${n}` } })));
  assert.deepEqual(answers.map(textOf), numbers.map((n) => `Echo: boat ${n}`));
});
await check('tools that need what this client can do are listed', () => until('the three tools', async () => {
  const names = (await client.listTools()).tools.map(({ name }) => name);
  return ['get-roots-list', 'trigger-sampling-request', 'trigger-elicitation-request'].every((name) => names.includes(`everything__${name}`));
}));
await check('a server samples from the client in the midst of a call', async () => {
  const result = await client.callTool({ name: 'everything__trigger-sampling-request', arguments: { prompt: 'how deep?', maxTokens: 10 } });
  assert.match(textOf(result), /heard: .*how deep\?/);
});
await check('a server asks the person in the midst of a call', async () => {
  const result = await client.callTool({ name: 'everything__trigger-elicitation-request', arguments: {} });
  assert.match(textOf(result), /Ada/);
});
await check('a server asks for the roots of the client', async () => {
  const result = await client.callTool({ name: 'everything__get-roots-list', arguments: {} });
  assert.match(textOf(result), /file:\/\/\/srv\/harbour/);
});
await check('a resource is read under the URI that the list gave', async () => {
  const { resources } = await client.listResources();
  const { uri } = resources.find((entry) => entry.uri.startsWith('everything+'));
  const { contents } = await client.readResource({ uri });
  assert.equal(contents[0].uri, uri);
  assert.ok(contents[0].text.length > 100);
});
await check('a resource template is filled in and read', async () => {
  const { resourceTemplates } = await client.listResourceTemplates();
  const template = resourceTemplates.find(({ uriTemplate }) => uriTemplate.startsWith('everything+') && uriTemplate.includes('text'));
  const uri = template.uriTemplate.replace('{resourceId}', '7');
  const { contents } = await client.readResource({ uri });
  assert.equal(contents[0].uri, uri);
});
await check('a resource is subscribed to and left again', async () => {
  const { resources } = await client.listResources();
  const { uri } = resources.find((entry) => entry.uri.startsWith('everything+'));
  await client.subscribeResource({ uri });
  await client.unsubscribeResource({ uri });
});
await check('a prompt answers, with the resource that it embeds', async () => {
  const { messages } = await client.getPrompt({
    name: 'everything__resource-prompt', arguments: { resourceType: 'Text', resourceId: '3' },
  });
  const embedded = messages.find(({ content }) => content.type === 'resource');
  assert.ok(embedded.content.resource.uri.startsWith('everything+'), embedded.content.resource.uri);
});
await check('an argument is completed', async () => {
  const { completion } = await client.complete({
    ref: { type: 'ref/prompt', name: 'everything__completable-prompt' }, argument: { name: 'department', value: 'S' },
  });
  assert.ok(completion.values.includes('Sales'), JSON.stringify(completion));
});
await check('log messages of a server arrive, and say whose they are', async () => {
  await client.setLoggingLevel('debug');
  await client.callTool({ name: 'everything__toggle-simulated-logging', arguments: {} });
  await until('a log message', () => logged.some(({ logger }) => logger === undefined || String(logger).startsWith('everything')));
  await client.callTool({ name: 'everything__toggle-simulated-logging', arguments: {} });
});
await check('an access token that no longer counts is refreshed without a person', async () => {
  const before = provider.given;
  provider.saveTokens({ ...before, access_token: 'expired.or.revoked' });
  const result = await client.callTool({ name: 'everything__echo', arguments: { message: 'still here' } });
  assert.equal(textOf(result), 'Echo: still here');
  assert.notEqual(provider.given.access_token, 'expired.or.revoked');
  assert.notEqual(provider.given.refresh_token, before.refresh_token, 'the refresh token was not rotated');
});
await check('one server alone is a resource of its own, with its own login', async () => {
  const alone = new Provider('Interop TypeScript alone');
  const second = new Client({ name: 'interop-typescript-alone', version: '1' });
  const url = new URL(`${context.url}/mcp/time`);
  const { loggedIn } = await connect(second, alone, () => new StreamableHTTPClientTransport(url, { authProvider: alone }));
  assert.ok(loggedIn);
  const result = await second.callTool({ name: 'get_current_time', arguments: { timezone: 'Europe/Amsterdam' } });
  assert.match(textOf(result), /Europe\/Amsterdam/);
  await second.close();
});
await check('the client ends its session', () => transport.terminateSession());
await client.close();
finish();
