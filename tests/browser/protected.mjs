// A server where each user logs in, with its authorization server, which asks with one button, gives one code for each
// request, and refuses to exchange a code twice.

import { createHash, randomBytes } from 'node:crypto';

export function protectedServer(origin) {
  const asked = new Map();
  const heard = { registered: 0, exchanged: 0, refused: 0 };
  const metadata = {
    issuer: origin,
    authorization_endpoint: `${origin}/authorize`,
    token_endpoint: `${origin}/token`,
    registration_endpoint: `${origin}/register`,
    response_types_supported: ['code'],
    code_challenge_methods_supported: ['S256'],
    token_endpoint_auth_methods_supported: ['none'],
    authorization_response_iss_parameter_supported: true,
  };
  const documents = {
    '/.well-known/oauth-protected-resource/mcp': { resource: `${origin}/mcp`, authorization_servers: [origin], scopes_supported: ['read'] },
    '/.well-known/oauth-authorization-server': metadata,
  };

  function page(response, { searchParams }) {
    const state = searchParams.get('state');
    if (!asked.has(state)) {
      const [redirect, challenge] = ['redirect_uri', 'code_challenge'].map((name) => searchParams.get(name));
      asked.set(state, { redirect, challenge, code: randomBytes(16).toString('hex') });
    }
    response.setHeader('content-type', 'text/html');
    response.end(`<title>Allow?</title><form action="/allow"><input type="hidden" name="state" value="${state}"><button>Allow</button></form>`);
  }

  function allow(response, { searchParams }) {
    const state = searchParams.get('state');
    const { redirect, code } = asked.get(state);
    const location = new URL(redirect);
    for (const [name, value] of Object.entries({ code, state, iss: origin })) location.searchParams.set(name, value);
    response.writeHead(302, { location: location.href }).end();
  }

  function token(response, form) {
    const request = [...asked.values()].find(({ code }) => code === form.get('code'));
    const challenge = createHash('sha256').update(form.get('code_verifier') ?? '').digest('base64url');
    if (!request || request.isUsed || request.challenge !== challenge) {
      heard.refused += 1;
      return json(response, 400, { error: 'invalid_grant' });
    }
    request.isUsed = true;
    heard.exchanged += 1;
    return json(response, 200, { access_token: randomBytes(16).toString('hex'), token_type: 'Bearer', expires_in: 3600, scope: 'read' });
  }

  function call(response, { id, method, params }) {
    if (id === undefined) return response.writeHead(202).end();
    const info = { capabilities: { tools: {} }, serverInfo: { name: 'protected', version: '1' } };
    const result = method === 'initialize' ? { protocolVersion: params.protocolVersion, ...info } : { tools: [] };
    return json(response, 200, { jsonrpc: '2.0', id, result });
  }

  async function answer(request, response) {
    const url = new URL(request.url, origin);
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks).toString();
    if (documents[url.pathname]) return json(response, 200, documents[url.pathname]);
    if (url.pathname === '/authorize') return page(response, url);
    if (url.pathname === '/allow') return allow(response, url);
    if (url.pathname === '/token') return token(response, new URLSearchParams(body));
    if (url.pathname === '/register') {
      heard.registered += 1;
      return json(response, 201, { ...JSON.parse(body), client_id: `client-${heard.registered}` });
    }
    if (url.pathname !== '/mcp') return response.writeHead(404).end();
    if (!request.headers.authorization) {
      const challenge = `Bearer resource_metadata="${origin}/.well-known/oauth-protected-resource/mcp"`;
      return response.writeHead(401, { 'www-authenticate': challenge }).end();
    }
    return request.method === 'POST' ? call(response, JSON.parse(body)) : response.writeHead(405).end();
  }

  return { answer, heard };
}

function json(response, status, body) {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
