// The TypeScript SDK as an app that an enterprise manages: no page, no consent, an assertion of the identity provider.
//
//   node managed_client.mjs GATEWAY PROVIDER CLIENT SECRET      prints what the tool answers

import { Client, CrossAppAccessProvider, StreamableHTTPClientTransport, discoverAndRequestJwtAuthGrant } from 'client-2';

const [gateway, provider, clientId, clientSecret] = process.argv.slice(2);
const { id_token: idToken } = await (await fetch(`${provider}/id-token`)).json();
const authProvider = new CrossAppAccessProvider({
  clientId,
  clientSecret,
  expectedIssuer: gateway,
  assertion: async ({ authorizationServerUrl, resourceUrl, scope, fetchFn }) => {
    const asked = { idpUrl: provider, audience: authorizationServerUrl, resource: resourceUrl, scope, fetchFn };
    const given = await discoverAndRequestJwtAuthGrant({ ...asked, idToken, clientId: `${clientId}@provider` });
    return given.jwtAuthGrant;
  },
});
const client = new Client({ name: 'managed', version: '1' });
await client.connect(new StreamableHTTPClientTransport(new URL(`${gateway}/mcp`), { authProvider }));
const { tools } = await client.listTools();
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), tokens: await authProvider.tokens() }));
await client.close();
