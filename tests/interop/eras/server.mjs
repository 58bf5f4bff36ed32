// The lock on the TypeScript SDK 2.x: `server.mjs ERA [PORT]`; on pipes, or over Streamable HTTP. As `modern` it serves
// clients of 2026-07-28 alone, as `dual` what the SDK serves by itself.

import { createServer } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import {
  acceptedContent, createMcpHandler, createRequestStateCodec, fromJsonSchema, inputRequired, inputResponse, McpServer,
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

const [era, port] = process.argv.slice(2);
const codec = createRequestStateCodec({ key: crypto.getRandomValues(new Uint8Array(32)) });
const water = 'lock://water';
let [level, abandoned, boats] = [0, 0, 0];
let handler;

const said = (text) => ({ content: [{ type: 'text', text }] });
const pause = () => new Promise((resolve) => setTimeout(resolve, 20));
const schema = (properties) => ({ type: 'object', properties, required: Object.keys(properties) });
const form = (name) => schema({ [name]: { type: 'string' } });
const asked = (inputRequests, more) => inputRequired({ inputRequests, ...more });
const elicit = (message, name) => inputRequired.elicit({ message, requestedSchema: form(name) });

async function askTwice(_, { mcpReq }) {
  const { name } = mcpReq.requestState() ?? acceptedContent(mcpReq.inputResponses, 'name') ?? {};
  if (!name) return asked({ name: elicit('Who goes there?', 'name') });
  const load = acceptedContent(mcpReq.inputResponses, 'load')?.load;
  if (!load) return asked({ load: elicit(`What does ${name} carry?`, 'load') }, { requestState: await codec.mint({ name }) });
  return said(`${name} carries ${load}`);
}

function askName(_, { mcpReq }) {
  const answer = inputResponse(mcpReq.inputResponses, 'name');
  if (answer.kind === 'missing') return asked({ name: elicit('Who goes there?', 'name') });
  return said(answer.action === 'accept' ? `${answer.content.name} may pass` : `nobody passes: ${answer.action}`);
}

function askModel(_, { mcpReq }) {
  const answer = mcpReq.inputResponses?.model;
  const messages = [{ role: 'user', content: { type: 'text', text: 'What is upstream?' } }];
  return answer ? said(`the model says: ${answer.content.text}`) : asked({ model: inputRequired.createMessage({ messages, maxTokens: 20 }) });
}

function askRoots(_, { mcpReq }) {
  const roots = mcpReq.inputResponses?.roots?.roots;
  return roots ? said(roots.map(({ uri }) => uri).join(' ')) : asked({ roots: inputRequired.listRoots() });
}

async function fill({ steps }, { mcpReq }) {
  const progressToken = mcpReq._meta?.progressToken;
  for (let progress = 1; progress <= steps; progress++) {
    if (mcpReq.signal.aborted) break;
    if (progressToken !== undefined) {
      await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total: steps } });
    }
    await pause();
  }
  abandoned += mcpReq.signal.aborted;
  return said(`filled in ${steps} steps`);
}

async function speak(_, { mcpReq }) {
  for (const level of ['debug', 'info', 'error']) await mcpReq.log(level, `a word of ${level}`, 'lock');
  return said('spoken');
}

function build({ era }) {
  const capabilities = {
    tools: { listChanged: true }, resources: { subscribe: true, listChanged: true }, prompts: {}, completions: {}, logging: {},
  };
  const lock = new McpServer({ name: 'lock', version: '2.0.0' }, { capabilities, requestState: { verify: codec.verify } });
  const tell = handler && era === 'modern' ? handler.notify : {
    resourceUpdated: (uri) => lock.server.sendResourceUpdated({ uri }),
    toolsChanged: () => {}, // whoever registers tells it
  };
  const tool = (name, body, given = {}, more = {}) =>
    lock.registerTool(name, { description: `The lock: ${name}`, inputSchema: fromJsonSchema(schema(given)), ...more }, body);
  const metres = { boat: { type: 'string' }, metres: { type: 'integer' } };
  tool('measure', ({ boat }) => {
    const structuredContent = { boat, metres: 12 };
    return { ...said(JSON.stringify(structuredContent)), structuredContent };
  }, { boat: { type: 'string', 'x-mcp-header': 'Boat' } }, { outputSchema: fromJsonSchema(schema(metres)) });
  tool('ask-name', askName);
  tool('ask-model', askModel);
  tool('ask-roots', askRoots);
  tool('ask-twice', askTwice);
  tool('fill', fill, { steps: { type: 'integer' } });
  tool('abandoned', () => said(String(abandoned)));
  tool('speak', speak);
  tool('raise', async () => {
    level += 1;
    await tell.resourceUpdated(water);
    return said(`the water is at ${level}`);
  });
  const moor = (boat) => tool(`boat-${boat}`, () => said(`boat-${boat} is moored`));
  tool('moor', async () => {
    boats += 1;
    moor(boats);
    await tell.toolsChanged();
    return said(`boat-${boats}`);
  });
  for (let boat = 1; boat <= boats; boat++) moor(boat);
  lock.registerResource('water', water, { mimeType: 'text/plain' }, () => ({ contents: [{ uri: water, text: String(level) }] }));
  const greet = { description: 'A greeting', argsSchema: fromJsonSchema(form('name')) };
  lock.registerPrompt('greet', greet, ({ name }) => ({ messages: [{ role: 'user', content: { type: 'text', text: `Greet ${name}` } }] }));
  lock.server.setRequestHandler('completion/complete', ({ params }) => {
    const values = ['Ada', 'Adam', 'Grace'].filter((name) => name.startsWith(params.argument.value));
    return { completion: { values, total: values.length, hasMore: false } };
  });
  return lock;
}

const options = era === 'modern' ? { legacy: 'reject' } : {};
if (port) {
  handler = createMcpHandler(build, options);
  createServer(toNodeHandler(handler)).listen(Number(port), '127.0.0.1');
} else {
  serveStdio(build, options);
}
