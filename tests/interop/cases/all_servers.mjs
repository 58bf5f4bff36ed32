// Seven real servers, one of them over both transports, behind one gateway at once: nothing is lost
// against each server asked directly, and a tool of each works.

import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import assert from 'node:assert/strict';
import { Client } from 'sdk/client/index.js';
import { StdioClientTransport } from 'sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from 'sdk/client/streamableHttp.js';
import { check, context, finish, textOf, until } from '../harness/case.mjs';

const requestInit = { headers: { Authorization: `Bearer ${context.directKey}` } };
const open = async (path) => {
  const client = new Client({ name: 'interop-all-servers', version: '1' });
  await client.connect(new StreamableHTTPClientTransport(new URL(context.url + path), { requestInit }));
  return client;
};
const directly = async ({ command, args, url, env }) => {
  const client = new Client({ name: 'interop-direct', version: '1' });
  const transport = url
    ? new StreamableHTTPClientTransport(new URL(url))
    : new StdioClientTransport({ command, args, env: { ...process.env, ...env }, stderr: 'ignore' });
  await client.connect(transport);
  return client;
};
const prefixed = (id, entry) => ({ ...entry, name: `${id}__${entry.name}` });
const prefixedUri = (id, entry) => ({ ...entry, uri: `${id}+${entry.uri}` });
const byName = (entries) => entries.toSorted((a, b) => (a.name < b.name ? -1 : 1));

const client = await open('/mcp');
await check('all eight servers appear in one list of tools', () => until('all servers listed', async () => {
  const { tools } = await client.listTools();
  return context.servers.every(({ id }) => tools.some(({ name }) => name.startsWith(`${id}__`)));
}));

const { tools } = await client.listTools();
/** Listed entries that are `mine`, once there are as many as expected: a slow server is listed later. */
async function listed(ask, kind, mine, expected) {
  let found;
  const all = async () => (found = (await ask())[kind].filter(mine)).length >= expected.length;
  await until(`${expected.length} ${kind}`, all).catch(() => undefined);
  return found;
}
for (const server of context.servers) {
  const direct = await directly(server);
  const id = server.id;
  await check(`${id}: every tool is listed as the server itself lists it, under ${id}__`, async () => {
    const expected = (await direct.listTools()).tools.map((tool) => prefixed(id, tool));
    assert.deepEqual(byName(tools.filter(({ name }) => name.startsWith(`${id}__`))), byName(expected));
  });
  if (direct.getServerCapabilities().prompts) {
    await check(`${id}: every prompt is listed as the server itself lists it`, async () => {
      const expected = (await direct.listPrompts()).prompts.map((prompt) => prefixed(id, prompt));
      const found = await listed(() => client.listPrompts(), 'prompts', ({ name }) => name.startsWith(`${id}__`), expected);
      assert.deepEqual(byName(found), byName(expected));
    });
  }
  if (direct.getServerCapabilities().resources) {
    await check(`${id}: every resource and template is listed, its URI marked ${id}+`, async () => {
      const expected = (await direct.listResources()).resources.map((entry) => prefixedUri(id, entry));
      const found = await listed(() => client.listResources(), 'resources', ({ uri }) => uri.startsWith(`${id}+`), expected);
      assert.deepEqual(byName(found), byName(expected));
      const templates = await direct.listResourceTemplates().then((list) => list.resourceTemplates, () => []);
      const marked = await listed(
        () => client.listResourceTemplates(), 'resourceTemplates', ({ uriTemplate }) => uriTemplate.startsWith(`${id}+`), templates,
      );
      assert.deepEqual(
        marked.map((entry) => entry.uriTemplate).toSorted(),
        templates.map((entry) => `${id}+${entry.uriTemplate}`).toSorted(),
      );
    });
  }
  await check(`${id}: alone at /mcp/${id} it keeps its own names`, async () => {
    const alone = await open(`/mcp/${id}`);
    const names = (list) => list.tools.map(({ name }) => name).toSorted();
    assert.deepEqual(names(await alone.listTools()), names(await direct.listTools()));
    await alone.close();
  });
  await direct.close();
}
await check('nothing is listed that no server has', async () => {
  const strangers = tools.filter(({ name }) => !context.servers.some(({ id }) => name.startsWith(`${id}__`)));
  assert.deepEqual(strangers, []);
});

const call = async (name, args = {}) => textOf(await client.callTool({ name, arguments: args }));

await check('everything: echo answers over stdio', async () => {
  assert.equal(await call('everything__echo', { message: 'across the lock' }), 'Echo: across the lock');
});
await check('everything: get-sum answers over Streamable HTTP', async () => {
  assert.match(await call('everything-http__get-sum', { a: 19, b: 23 }), /\b42\b/);
});
await check('everything: an image comes through whole', async () => {
  const { content } = await client.callTool({ name: 'everything__get-tiny-image', arguments: {} });
  const image = content.find((part) => part.type === 'image');
  assert.equal(Buffer.from(image.data, 'base64').subarray(1, 4).toString(), 'PNG');
});
await check('everything: structured content comes through beside the text', async () => {
  const result = await client.callTool({ name: 'everything__get-structured-content', arguments: { location: 'Chicago' } });
  assert.equal(typeof result.structuredContent.temperature, 'number');
});
await check('everything: links to resources can be read back as they are', async () => {
  const { content } = await client.callTool({ name: 'everything__get-resource-links', arguments: { count: 2 } });
  const links = content.filter((part) => part.type === 'resource_link');
  assert.equal(links.length, 2);
  const { contents } = await client.readResource({ uri: links[0].uri });
  assert.equal(contents[0].uri, links[0].uri);
});
await check('everything: a prompt answers with its argument in it', async () => {
  const { messages } = await client.getPrompt({ name: 'everything__args-prompt', arguments: { city: 'Delft' } });
  assert.match(messages[0].content.text, /Delft/);
});
await check('everything: an argument of a prompt is completed', async () => {
  const { completion } = await client.complete({
    ref: { type: 'ref/prompt', name: 'everything__completable-prompt' },
    argument: { name: 'department', value: 'E' },
  });
  assert.ok(completion.values.includes('Engineering'), JSON.stringify(completion));
});
await check('filesystem: a file is written and read back', async () => {
  const path = `${context.files}/written.txt`;
  await call('filesystem__write_file', { path, content: 'boats pass\n' });
  assert.equal(await readFile(path, 'utf8'), 'boats pass\n');
  assert.equal(await call('filesystem__read_text_file', { path }), 'boats pass\n');
});
await check('filesystem: its own refusal comes through', async () => {
  const result = await client.callTool({ name: 'filesystem__read_text_file', arguments: { path: '/etc/passwd' } });
  assert.equal(result.isError, true);
  assert.match(textOf(result), /denied/i);
});
await check('memory: what was stored is found again in the same session', async () => {
  const entity = { name: 'Lock 7', entityType: 'lock', observations: ['opens at dawn'] };
  await call('memory__create_entities', { entities: [entity] });
  assert.match(await call('memory__search_nodes', { query: 'dawn' }), /Lock 7/);
});
await check('sequential-thinking: a thought is counted', async () => {
  const answer = await call('thinking__sequentialthinking', {
    thought: 'first', thoughtNumber: 1, totalThoughts: 2, nextThoughtNeeded: true,
  });
  assert.equal(JSON.parse(answer).thoughtHistoryLength, 1);
});
await check('git: the log of a repository', async () => {
  assert.match(await call('git__git_log', { repo_path: context.repository }), /The first boat/);
});
await check('time: a conversion', async () => {
  const args = { source_timezone: 'Asia/Tokyo', time: '12:00', target_timezone: 'Asia/Kolkata' };
  assert.match(await call('time__convert_time', args), /T08:30/);
});
await check('time: an unknown zone is the server’s own error', async () => {
  const result = await client.callTool({ name: 'time__get_current_time', arguments: { timezone: 'Moon/Base' } }).catch((error) => error);
  assert.match(result.message ?? textOf(result), /Moon\/Base/);
});

const page = createServer((request, response) => {
  const robots = request.url === '/robots.txt';
  response.setHeader('Content-Type', robots ? 'text/plain' : 'text/html');
  response.end(robots ? 'User-agent: *\nDisallow: /private\n' : '<html><body><h1>Sluice</h1><p>Water level: 4 m</p></body></html>');
});
await new Promise((resolve) => page.listen(0, '127.0.0.1', resolve));
const site = `http://127.0.0.1:${page.address().port}`;
await check('fetch: a page of a local server', async () => {
  assert.match(await call('fetch__fetch', { url: `${site}/levels` }), /Water level: 4 m/);
});
await check('fetch: what robots.txt forbids is refused by the server, and the refusal comes through', async () => {
  const result = await client.callTool({ name: 'fetch__fetch', arguments: { url: `${site}/private` } }).catch((error) => error);
  assert.match(result.message ?? textOf(result), /autonomous fetching of this page is not allowed/);
});
page.close();

await check('an unknown tool is refused as one', async () => {
  const refused = await client.callTool({ name: 'everything__no-such-tool', arguments: {} }).catch((error) => error);
  assert.match(refused.message ?? textOf(refused), /no-such-tool/);
});
await check('a tool of an unknown server is refused as an unknown tool', async () => {
  const refused = await client.callTool({ name: 'nowhere__echo', arguments: {} }).catch((error) => error);
  assert.equal(refused.code, -32602, String(refused));
});
await client.close();
await writeFile(`${context.artefacts}/tools.json`, JSON.stringify(tools, null, 2));
finish();
