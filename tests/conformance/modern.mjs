// The reference server of 2026-07-28: the suite's fixtures on the TypeScript SDK 2.x, for clients of that version alone
// or, as `dual`, for those with sessions too: `modern.mjs stdio ERA` or `modern.mjs http PORT ERA`.

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import {
  localhostHostValidation, localhostOriginValidation, NodeStreamableHTTPServerTransport, toNodeHandler, toWebRequest,
} from '@modelcontextprotocol/node';
import { createMcpHandler, fromJsonSchema, isLegacyRequest, McpServer, ProtocolError } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { Events } from './events.mjs';
import { change, complete, listPrompts, listTools, offered, read, resources, templates } from './fixtures.mjs';
import { inRounds, requestState } from './rounds.mjs';

const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';

const [binding, ...rest] = process.argv.slice(2);
const [port, era] = binding === 'http' ? [Number(rest[0]), rest[1]] : [0, rest[0]];
const legacy = era === 'dual' ? undefined : 'reject';
let handler;

function build(context) {
  const capabilities = {
    tools: { listChanged: true }, resources: { subscribe: true, listChanged: true }, prompts: { listChanged: true },
    logging: {}, completions: {},
  };
  const whole = new McpServer({ name: 'lockkeeper-reference', version: '2.0.0' }, { capabilities, requestState });
  const { server } = whole;
  const answer = (method, body) => server.setRequestHandler(method, body);
  const teller = handler && context.era === 'modern' ? handler.notify : {
    toolsChanged: () => server.sendToolListChanged(),
    promptsChanged: () => server.sendPromptListChanged(),
  };
  const peer = ({ mcpReq, http }, ask) => ({
    ask,
    token: mcpReq._meta?.progressToken,
    capabilities: () => mcpReq.envelope?.[CAPABILITIES] ?? server.getClientCapabilities() ?? {},
    tell: (method, params) =>
      method === 'notifications/message'
        ? mcpReq.log(params.level, params.data, params.logger)
        : mcpReq.notify({ method, params }),
    changed: (kind) => {
      change(kind);
      return kind === 'tools' ? teller.toolsChanged() : teller.promptsChanged();
    },
    closeStream: () => http?.closeSSE?.(),
  });
  for (const [name, [schema, body, keepsState]] of Object.entries(offered.tools)) {
    const tool = { description: `The fixture ${name}`, inputSchema: fromJsonSchema(schema) };
    whole.registerTool(name, tool, (given, extra) => inRounds(extra, keepsState, async (ask) => body(given, peer(extra, ask))));
  }
  answer('tools/list', listTools);
  answer('resources/list', () => ({ resources }));
  answer('resources/templates/list', () => ({ resourceTemplates: templates }));
  answer('resources/read', ({ params }) => {
    const contents = read(params.uri);
    const code = context.era === 'modern' ? -32602 : -32002;
    if (!contents) throw new ProtocolError(code, 'Resource not found', { uri: params.uri });
    return { contents: [contents] };
  });
  answer('prompts/list', listPrompts);
  answer('prompts/get', ({ params }, extra) => {
    const prompt = offered.prompts[params.name];
    if (!prompt) throw new ProtocolError(-32602, `Unknown prompt: ${params.name}`);
    return inRounds(extra, false, async (ask) => ({ messages: await prompt[1](params.arguments ?? {}, peer(extra, ask)) }));
  });
  answer('completion/complete', ({ params }) => complete(params));
  if (context.era === 'legacy') {
    answer('resources/subscribe', () => ({}));
    answer('resources/unsubscribe', () => ({}));
  }
  return whole;
}

const sessions = new Map();

/** Clients with sessions, which the SDK's own handler would serve without. */
async function serveSession(request, response) {
  const id = request.headers['mcp-session-id'];
  let transport = sessions.get(id);
  if (!transport && id) return response.writeHead(404).end();
  if (!transport) {
    transport = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID, eventStore: new Events(), retryInterval: 500,
      onsessioninitialized: (id) => void sessions.set(id, transport),
      onsessionclosed: (id) => void sessions.delete(id),
    });
    await build({ era: 'legacy' }).connect(transport);
  }
  return transport.handleRequest(request, response, request.body);
}

async function body(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return parts.length ? JSON.parse(Buffer.concat(parts)) : undefined;
}

if (binding === 'http') {
  handler = createMcpHandler(build, { legacy: 'reject' });
  const guards = [localhostHostValidation(), localhostOriginValidation()];
  const serve = toNodeHandler(handler);
  const handle = async (request, response) => {
    request.body = await body(request);
    const older = !legacy && (await isLegacyRequest(await toWebRequest(request, request.body), request.body));
    await (older ? serveSession(request, response) : serve(request, response, request.body));
  };
  createServer((request, response) => {
    if (!guards.every((allows) => allows(request, response))) return;
    handle(request, response).catch((error) => {
      console.error(error);
      response.destroy();
    });
  }).listen(port, '127.0.0.1', () => console.log('listening'));
} else {
  serveStdio(build, { legacy });
}
