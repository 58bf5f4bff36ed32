// The newest 1.x TypeScript SDK answering what the everything server asks, and hearing what it tells, over a server on
// stdio and one on HTTP, on a server's own endpoint and the merged one, over Streamable HTTP, HTTP+SSE, WebSocket (as a
// program and as a web page) and `lockkeeper stdio`.

import assert from 'node:assert/strict';
import { Client } from 'sdk/client/index.js';
import { SSEClientTransport } from 'sdk/client/sse.js';
import { StdioClientTransport } from 'sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from 'sdk/client/streamableHttp.js';
import { WebSocketClientTransport } from 'sdk/client/websocket.js';
import {
  CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema, LoggingMessageNotificationSchema,
  ResourceUpdatedNotificationSchema,
} from 'sdk/types.js';
import { WebSocket } from 'undici';
import { check, context, finish, inOrder, textOf, until } from '../harness/case.mjs';

const options = { requestInit: { headers: { Authorization: `Bearer ${context.directKey}` } } };
const url = (path) => new URL(context.url + path);
const streamable = (path) => new StreamableHTTPClientTransport(url(path), options);
const everything = context.servers.find(({ id }) => id === 'everything');
const ways = [
  ['stdio', () => streamable('/mcp/everything'), ''],
  ['http', () => streamable('/mcp/everything-http'), ''],
  ['merged', () => streamable('/mcp'), 'everything__'],
  ['sse', () => new SSEClientTransport(url('/sse/everything'), options), ''],
  ['WebSocket', () => socket('/ws/everything', { headers: { Authorization: `Bearer ${context.directKey}` } }), ''],
  ['WebSocket of a page', () => socket('/ws', { more: [`bearer.${context.directKey}`] }), 'everything__'],
  ['lockkeeper stdio', () => local('--config', context.config), 'everything__'],
  ['lockkeeper stdio for one server', () => local('--', everything.command, ...everything.args), ''],
];

/** The transport of the SDK, which takes no token: it is in a header of the socket that it opens, or a subprotocol. */
function socket(path, { headers = {}, more = [] }) {
  globalThis.WebSocket = class extends WebSocket {
    constructor(address, protocol) {
      super(address, { protocols: [protocol, ...more], headers });
    }
  };
  return new WebSocketClientTransport(new URL(context.url.replace('http', 'ws') + path));
}

function local(...args) {
  return new StdioClientTransport({ command: context.binary, args: ['stdio', ...args], env: process.env, cwd: context.work });
}

async function open(transport) {
  const capabilities = { sampling: {}, elicitation: { form: {}, url: {} }, roots: { listChanged: true } };
  const client = new Client({ name: 'interop-duplex', version: '1' }, { capabilities });
  const heard = { asked: [], logs: [], updates: [] };
  client.setRequestHandler(CreateMessageRequestSchema, ({ params }) => {
    heard.asked.push(params.messages[0].content.text);
    return { role: 'assistant', model: 'interop', content: { type: 'text', text: 'a model answers' } };
  });
  client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
    heard.asked.push(params.message);
    return { action: heard.action ?? 'accept', content: heard.action ? undefined : { name: 'Ada', check: true, integer: 7 } };
  });
  client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [{ uri: 'file:///interop', name: 'interop' }] }));
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void heard.logs.push(params));
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => void heard.updates.push(params.uri));
  await client.connect(transport());
  return { client, heard };
}

for (const [way, transport, prefix] of ways) {
  const { client, heard } = await open(transport);
  const call = (name, args = {}, more) => client.callTool({ name: prefix + name, arguments: args }, undefined, more);
  await check(`${way}: the server has the client's model write`, async () => {
    const result = await call('trigger-sampling-request', { prompt: 'a lock at dawn', maxTokens: 20 });
    assert.match(textOf(result), /a model answers/);
    assert.match(heard.asked.at(-1), /a lock at dawn/);
  });
  await check(`${way}: the server asks the person, who accepts and then declines`, async () => {
    assert.match(textOf(await call('trigger-elicitation-request')), /Ada/);
    const message = heard.asked.at(-1);
    assert.equal(message.includes('(from everything)'), prefix !== '', message);
    heard.action = 'decline';
    assert.match(textOf(await call('trigger-elicitation-request')), /declin/i);
    heard.action = undefined;
  });
  await check(`${way}: the server looks at the roots`, async () => {
    assert.match(textOf(await call('get-roots-list')), /file:\/\/\/interop/);
  });
  await check(`${way}: progress comes in order`, async () => {
    const steps = [];
    await call('trigger-long-running-operation', { duration: 1.2, steps: 4 }, { onprogress: ({ progress }) => steps.push(progress) });
    inOrder(steps, [1, 2, 3, 4]);
  });
  await check(`${way}: log messages come, and the level is kept to`, async () => {
    await client.setLoggingLevel('debug');
    await call('toggle-simulated-logging');
    await until('a log message', () => heard.logs.length > 0);
    await call('toggle-simulated-logging');
    await client.setLoggingLevel('emergency');
    heard.logs.length = 0;
  });
  await check(`${way}: an update of a resource that was subscribed to comes, under the URI that the client knows`, async () => {
    const { resources } = await client.listResources();
    const { uri } = resources.find(({ uri }) => (prefix ? uri.startsWith('everything+') : true));
    await client.subscribeResource({ uri });
    await call('toggle-subscriber-updates');
    await until('an update', () => heard.updates.includes(uri));
    await call('toggle-subscriber-updates');
    await client.unsubscribeResource({ uri });
  });
  await client.close();
}
finish();
