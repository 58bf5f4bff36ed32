// An identity provider of an enterprise, as small as it can be: it exchanges the id token of anybody for an identity assertion
// (ID-JAG) by token exchange (RFC 8693), and signs both with a key of its own.
//
//   node identity_provider.mjs PORT      the provider is at http://localhost:PORT; `/id-token` gives the id token of a person

import { generateKeyPairSync, randomUUID, sign } from 'node:crypto';
import { createServer } from 'node:http';

const [port] = process.argv.slice(2);
const issuer = `http://localhost:${port}`;
const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const keys = [{ ...publicKey.export({ format: 'jwk' }), kid: 'one', alg: 'ES256', use: 'sig' }];
const metadata = {
  issuer,
  authorization_endpoint: `${issuer}/auth`,
  token_endpoint: `${issuer}/token`,
  jwks_uri: `${issuer}/jwks`,
  response_types_supported: ['code'],
  subject_types_supported: ['public'],
  id_token_signing_alg_values_supported: ['ES256'],
  code_challenge_methods_supported: ['S256'],
};
const idTokens = new Set();

function signed(typ, claims) {
  const now = Math.floor(Date.now() / 1000);
  const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const whole = { iss: issuer, iat: now, exp: now + 300, jti: randomUUID(), ...claims };
  const text = `${part({ typ, alg: 'ES256', kid: 'one' })}.${part(whole)}`;
  return `${text}.${sign('sha256', Buffer.from(text), { key: privateKey, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`;
}

// The gateway knows a client by another id than this provider: the operator told it both.
function exchange(form) {
  if (form.requested_token_type !== 'urn:ietf:params:oauth:token-type:id-jag' || !idTokens.has(form.subject_token)) {
    return [400, { error: 'invalid_request' }];
  }
  const [client_id] = form.client_id.split('@');
  const { audience: aud, resource, scope } = form;
  const person = { sub: 'ann', email: 'ann@example.com', email_verified: true };
  const assertion = signed('oauth-id-jag+jwt', { aud, client_id, resource, scope, ...person });
  const kind = { issued_token_type: form.requested_token_type, token_type: 'N_A' };
  return [200, { access_token: assertion, expires_in: 300, ...kind }];
}

async function answer(request) {
  const { pathname } = new URL(request.url, issuer);
  if (pathname.startsWith('/.well-known/')) return [200, metadata];
  if (pathname === '/jwks') return [200, { keys }];
  if (pathname === '/id-token') {
    const idToken = signed('JWT', { sub: 'ann', aud: 'app' });
    idTokens.add(idToken);
    return [200, { id_token: idToken }];
  }
  let body = '';
  for await (const chunk of request) body += chunk;
  return pathname === '/token' ? exchange(Object.fromEntries(new URLSearchParams(body))) : [404, {}];
}

createServer(async (request, response) => {
  const [status, document] = await answer(request);
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(document));
}).listen(Number(port), 'localhost', () => console.log('ready'));
