// The AI SDK's client of HTTP+SSE.

import { auth, createMCPClient, UnauthorizedError } from '@ai-sdk/mcp';
import { Provider } from '../harness/provider.mjs';
import { headers, serve, TOOL, url, way } from './frame.mjs';

const provider = new Provider('Old AI SDK', (answer) => [answer]);
const authProvider = way === 'login' ? provider : undefined;
const open = () => createMCPClient({ transport: { type: 'sse', url: url.href, headers, authProvider } });

let client;
let tool;
let logins = 0;
await serve({
  async connect() {
    try {
      client = await open();
    } catch (error) {
      if (!(error instanceof UnauthorizedError)) throw error;
      logins += 1;
      // the issuer is checked too
      const [answer] = await provider.answer();
      const [authorizationCode, callbackIssuer] = ['code', 'iss'].map((name) => answer.get(name));
      await auth(provider, { serverUrl: url, authorizationCode, callbackState: answer.get('state'), callbackIssuer });
      client = await open();
    }
    tool = (await client.tools())[TOOL];
  },
  call: async (text) => (await tool.execute({ text }, { toolCallId: 'call', messages: [] })).content[0].text,
  leave: () => client.close(),
  logins: () => logins,
});
