// An app's part of a login: it registers, builds the address to send the browser to, and redeems the code.

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';

// The functions of an app that logs in at the gateway at `base`, for its endpoint /mcp.
export async function appsOf(base) {
  const metadata = await (await fetch(`${base}/.well-known/oauth-authorization-server`)).json();

  async function register(name, redirectUris, grantTypes) {
    const answer = await fetch(metadata.registration_endpoint, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        client_name: name,
        redirect_uris: redirectUris,
        grant_types: grantTypes,
        token_endpoint_auth_method: 'none',
      }),
    });
    assert.equal(answer.status, 201, await answer.clone().text());
    return (await answer.json()).client_id;
  }

  function authorization(client, redirectUri, state = randomBytes(8).toString('hex')) {
    const verifier = randomBytes(32).toString('base64url');
    const url = new URL(metadata.authorization_endpoint);
    url.search = new URLSearchParams({
      response_type: 'code',
      client_id: client,
      redirect_uri: redirectUri,
      code_challenge: createHash('sha256').update(verifier).digest('base64url'),
      code_challenge_method: 'S256',
      resource: `${base}/mcp`,
      state,
    }).toString();
    return { url: url.href, verifier, state };
  }

  async function redeem(client, redirectUri, code, verifier) {
    const answer = await fetch(metadata.token_endpoint, {
      method: 'POST',
      body: new URLSearchParams({
        grant_type: 'authorization_code',
        client_id: client,
        redirect_uri: redirectUri,
        code,
        code_verifier: verifier,
      }),
    });
    assert.equal(answer.status, 200, await answer.clone().text());
    return answer.json();
  }

  return { metadata, register, authorization, redeem };
}
