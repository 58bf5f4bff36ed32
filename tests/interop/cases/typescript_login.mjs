// The newest TypeScript SDKs, 1.x and 2.x, through the life of a login: discovery, registration, the person, calls, a refresh,
// a revocation, and the new login that follows. With `clientDocument` in the context they do not register: that URL is their id.

import assert from 'node:assert/strict';
import * as one from 'sdk/client/index.js';
import * as overHttp from 'sdk/client/streamableHttp.js';
import * as two from 'client-2';
import { check, context, finish, textOf } from '../harness/case.mjs';
import { connect, Provider } from '../harness/provider.mjs';

const LINES = {
  '1.x': { Client: one.Client, Transport: overHttp.StreamableHTTPClientTransport, finishAuth: (answer) => [answer.get('code')] },
  // it checks `iss` too, and refuses an answer without
  '2.x': { Client: two.Client, Transport: two.StreamableHTTPClientTransport, finishAuth: (answer) => [answer] },
};
const isKnown = context.clientDocument ? 'is known by its document' : 'registers';
const url = new URL(`${context.url}/mcp`);

async function revoke(provider) {
  const form = new URLSearchParams({ token: provider.given.refresh_token, client_id: provider.client.client_id });
  assert.equal((await fetch(`${context.url}/oauth/revoke`, { method: 'POST', body: form })).status, 200);
}

for (const [line, { Client, Transport, finishAuth }] of Object.entries(LINES)) {
  const provider = new Provider(`Interop TypeScript ${line}`, finishAuth);
  provider.clientMetadataUrl = context.clientDocument;
  const open = () => new Transport(url, { authProvider: provider });
  const fresh = () => new Client({ name: 'interop-login', version: '1' });
  const uses = async (client) => {
    const result = await client.callTool({ name: 'everything__echo', arguments: { message: line } });
    assert.equal(textOf(result), `Echo: ${line}`);
  };
  let client = fresh();

  await check(`TypeScript ${line} ${isKnown}, logs in through the browser, and calls`, async () => {
    const { loggedIn } = await connect(client, provider, open);
    assert.ok(loggedIn && provider.client.client_id);
    await uses(client);
  });
  await check(`TypeScript ${line} refreshes a token that no longer counts, without a person`, async () => {
    const before = provider.given;
    provider.saveTokens({ ...before, access_token: 'expired.or.revoked' });
    await uses(client);
    assert.notEqual(provider.given.refresh_token, before.refresh_token, 'the refresh token was not rotated');
  });
  await check(`TypeScript ${line} comes back with what it kept, without a person`, async () => {
    const again = fresh();
    assert.equal((await connect(again, provider, open)).loggedIn, false);
    await uses(again);
    await again.close();
  });
  await check(`TypeScript ${line} logs in again after its grant was revoked`, async () => {
    await revoke(provider);
    await assert.rejects(uses(client), (error) => error.constructor.name === 'UnauthorizedError');
    await client.close();
    client = fresh();
    assert.ok((await connect(client, provider, open)).loggedIn);
    await uses(client);
  });
  await client.close();
}
finish();
