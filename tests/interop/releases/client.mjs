// A client on one release of the TypeScript SDK, at the server of every release: `client.mjs NAME PACKAGE VERSION`.

import assert from 'node:assert/strict';
import { EventSource } from 'eventsource';
import { check, context, finish } from '../harness/case.mjs';
import { filled, known, offered } from './offer.mjs';

globalThis.EventSource ??= EventSource; // 1.0.1 expects the browser's

const [name, sdk, version] = process.argv.slice(2);
const { Client } = await import(`${sdk}/client/index.js`);

async function transport(id) {
  if (version === '2024-11-05') {
    const { SSEClientTransport } = await import(`${sdk}/client/sse.js`);
    return new SSEClientTransport(new URL(`${context.url}/sse/${id}?api_key=${context.key}`));
  }
  const { StreamableHTTPClientTransport } = await import(`${sdk}/client/streamableHttp.js`);
  const requestInit = { headers: { Authorization: `Bearer ${context.directKey}` } };
  return new StreamableHTTPClientTransport(new URL(`${context.url}/mcp/${id}`), { requestInit });
}

/** The lists: clients of 2025-03-26 take a tool's title from its annotations. */
const listed = (kind, { entry }) =>
  kind === 'tools' && version === '2025-03-26' && entry.title
    ? { ...entry, annotations: { title: entry.title } }
    : entry;

/** A value for comparison: only known members, and JSON in a text as a value. */
const seen = (value) => known(version, JSON.parse(JSON.stringify(value), (member, part) => {
  const json = member === 'text' && /^(\[resource_link\] )?(\{.*\})$/.exec(part);
  return json ? [json[1], JSON.parse(json[2])] : part;
}));

function same(what, found, expected) {
  assert.deepEqual({ [what]: seen(found) }, { [what]: seen(expected) });
}

function answers(thing, found) {
  const expected = filled(thing.since > version ? thing.lowered : thing.result, thing.arguments);
  const part = Object.fromEntries(Object.keys(expected).map((member) => [member, found[member]]));
  same(thing.entry.name, part, expected);
}

async function visit(client, offers) {
  const list = {
    tools: () => client.listTools(),
    prompts: () => client.listPrompts(),
    resources: () => client.listResources(),
    resourceTemplates: () => client.listResourceTemplates(),
  };
  for (const [kind, ask] of Object.entries(list)) {
    same(kind, (await ask())[kind], offers(kind).map((thing) => listed(kind, thing)));
  }
  for (const tool of offers('tools')) {
    answers(tool, await client.callTool({ name: tool.entry.name, arguments: tool.arguments }));
  }
  for (const prompt of offers('prompts')) {
    answers(prompt, await client.getPrompt({ name: prompt.entry.name, arguments: prompt.arguments }));
  }
  for (const resource of [...offers('resources'), ...offers('resourceTemplates')]) {
    answers(resource, await client.readResource({ uri: resource.uri }));
  }
}

for (const server of context.servers) {
  await check(`${name} lists, calls, gets and reads at ${server.name}`, async () => {
    const client = new Client({ name: 'interop-releases', version: '1' }, { capabilities: {} });
    const way = await transport(server.id);
    await client.connect(way);
    assert.equal(way.protocolVersion ?? version, version); // 1.0.1 and 1.11.0 do not tell
    await visit(client, (kind) => offered(kind, server.version));
    await client.close();
  });
}
finish();
