// The reference server: the suite's fixtures on the TypeScript SDK 1.x, in any set of its versions, on stdio or Streamable
// HTTP. `server.mjs stdio VERSION…` or `server.mjs http PORT VERSION…`; a client that asks for another gets the first.

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { Server } from 'sdk/server/index.js';
import { StdioServerTransport } from 'sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from 'sdk/server/streamableHttp.js';
import {
  CallToolRequestSchema, CompleteRequestSchema, CreateMessageResultSchema, ElicitResultSchema, GetPromptRequestSchema,
  ListPromptsRequestSchema, ListResourcesRequestSchema, ListResourceTemplatesRequestSchema, ListRootsResultSchema, ListToolsRequestSchema,
  McpError, ReadResourceRequestSchema, SetLevelRequestSchema, SubscribeRequestSchema, UnsubscribeRequestSchema,
} from 'sdk/types.js';
import { Events } from './events.mjs';
import { change, complete, listPrompts, listTools, offered, read, resources, templates } from './fixtures.mjs';

const [binding, ...rest] = process.argv.slice(2);
const [port, versions] = binding === 'http' ? [Number(rest[0]), rest.slice(1)] : [0, rest];
const ANSWERS = {
  'sampling/createMessage': CreateMessageResultSchema, 'elicitation/create': ElicitResultSchema, 'roots/list': ListRootsResultSchema,
};

function serve() {
  const capabilities = {
    tools: { listChanged: true }, resources: { subscribe: true, listChanged: true }, prompts: { listChanged: true },
    logging: {}, completions: {},
  };
  const server = new Server({ name: 'lockkeeper-reference', version: '1.0.0' }, { capabilities });
  const answer = (schema, body) => server.setRequestHandler(schema, body);
  answer(ListToolsRequestSchema, listTools);
  const peer = (params, extra) => ({
    token: params._meta?.progressToken,
    capabilities: () => server.getClientCapabilities() ?? {},
    tell: (method, params) => extra.sendNotification({ method, params }),
    ask: (method, params) => extra.sendRequest({ method, params }, ANSWERS[method]),
    changed: (kind) => {
      change(kind);
      return kind === 'tools' ? server.sendToolListChanged() : server.sendPromptListChanged();
    },
    closeStream: () => extra.closeSSEStream?.(),
  });
  answer(CallToolRequestSchema, ({ params }, extra) => {
    const tool = offered.tools[params.name];
    if (!tool) throw new McpError(-32602, `Unknown tool: ${params.name}`);
    return tool[1](params.arguments ?? {}, peer(params, extra));
  });
  answer(ListResourcesRequestSchema, () => ({ resources }));
  answer(ListResourceTemplatesRequestSchema, () => ({ resourceTemplates: templates }));
  answer(ReadResourceRequestSchema, ({ params }) => {
    const contents = read(params.uri);
    if (!contents) throw new McpError(-32002, 'Resource not found', { uri: params.uri });
    return { contents: [contents] };
  });
  answer(SubscribeRequestSchema, () => ({}));
  answer(UnsubscribeRequestSchema, () => ({}));
  answer(ListPromptsRequestSchema, listPrompts);
  answer(GetPromptRequestSchema, async ({ params }, extra) => {
    const prompt = offered.prompts[params.name];
    if (!prompt) throw new McpError(-32602, `Unknown prompt: ${params.name}`);
    return { messages: await prompt[1](params.arguments ?? {}, peer(params, extra)) };
  });
  answer(CompleteRequestSchema, ({ params }) => complete(params));
  answer(SetLevelRequestSchema, () => ({}));
  return server;
}

/** The versions that this server speaks: another one that a client asks for is taken for the first. */
function pin(message) {
  if (message?.method === 'initialize' && versions.length && !versions.includes(message.params?.protocolVersion)) {
    message.params.protocolVersion = versions[0];
  }
  return message;
}

const sessions = new Map();
const allowed = new Set([`127.0.0.1:${port}`, `localhost:${port}`]);

async function body(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return parts.length ? pin(JSON.parse(Buffer.concat(parts))) : undefined;
}

async function handle(request, response) {
  const { host, origin } = request.headers;
  if (!allowed.has(host) || (origin && !allowed.has(new URL(origin).host))) return response.writeHead(403).end();
  const message = request.method === 'POST' ? await body(request) : undefined;
  const id = request.headers['mcp-session-id'];
  let transport = sessions.get(id);
  if (!transport && message?.method === 'initialize') {
    transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID, eventStore: new Events(), retryInterval: 500,
      onsessioninitialized: (id) => void sessions.set(id, transport),
      onsessionclosed: (id) => void sessions.delete(id),
    });
    await serve().connect(transport);
  }
  if (!transport) {
    const error = { jsonrpc: '2.0', error: { code: -32600, message: 'no such session' } };
    return response.writeHead(id ? 404 : 400, { 'content-type': 'application/json' }).end(JSON.stringify(error));
  }
  await transport.handleRequest(request, response, message);
}

if (binding === 'http') {
  createServer((request, response) => handle(request, response).catch((error) => {
    console.error(error);
    response.destroy();
  })).listen(port, '127.0.0.1', () => console.log('listening'));
} else {
  const transport = new StdioServerTransport();
  await serve().connect(transport);
  const { onmessage } = transport;
  transport.onmessage = (message, extra) => onmessage(pin(message), extra);
}
