// A server on one release of the TypeScript SDK: `server.mjs PACKAGE VERSION [PORT]`; on pipes, or over
// Streamable HTTP without sessions.

import { createServer } from 'node:http';
import { filled, offered } from './offer.mjs';

const [sdk, version, port] = process.argv.slice(2);
const { Server } = await import(`${sdk}/server/index.js`);
const types = await import(`${sdk}/types.js`);

const lists = {
  tools: types.ListToolsRequestSchema,
  prompts: types.ListPromptsRequestSchema,
  resources: types.ListResourcesRequestSchema,
  resourceTemplates: types.ListResourceTemplatesRequestSchema,
};
const named = (kind) => ({ params }) => {
  const { result } = offered(kind, version).find(({ entry }) => entry.name === params.name);
  return filled(result, params.arguments);
};
const readable = [...offered('resources', version), ...offered('resourceTemplates', version)];
const read = ({ params }) => readable.find(({ uri }) => uri === params.uri).result;

function serve(transport) {
  const server = new Server({ name: sdk, version }, { capabilities: { tools: {}, prompts: {}, resources: {} } });
  for (const [kind, schema] of Object.entries(lists)) {
    server.setRequestHandler(schema, () => ({ [kind]: offered(kind, version).map(({ entry }) => entry) }));
  }
  server.setRequestHandler(types.CallToolRequestSchema, named('tools'));
  server.setRequestHandler(types.GetPromptRequestSchema, named('prompts'));
  server.setRequestHandler(types.ReadResourceRequestSchema, read);
  return server.connect(transport);
}

if (port) {
  const { StreamableHTTPServerTransport } = await import(`${sdk}/server/streamableHttp.js`);
  createServer(async (request, response) => {
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    response.on('close', () => transport.close());
    await serve(transport);
    await transport.handleRequest(request, response);
  }).listen(Number(port), '127.0.0.1');
} else {
  const { StdioServerTransport } = await import(`${sdk}/server/stdio.js`);
  await serve(new StdioServerTransport());
}
