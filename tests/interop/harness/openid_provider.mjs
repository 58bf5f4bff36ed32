// A certified OpenID provider (oidc-provider) with everything in memory, at which anybody logs in by writing a name.
//
//   node openid_provider.mjs PORT GATEWAY      the provider is at http://localhost:PORT, GATEWAY is the gateway's URL
//   GET /leave?name=NAME                        deletes the account NAME: it has no session, and no token is renewed

import Provider from 'oidc-provider';

const [port, gateway] = process.argv.slice(2);
const gone = new Set();
const provider = new Provider(`http://localhost:${port}`, {
  clients: [
    {
      client_id: 'lockkeeper',
      client_secret: 'a secret: + and %',
      redirect_uris: [`${gateway}/oauth/login/callback/corp`],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      backchannel_logout_uri: `${gateway}/oauth/login/backchannel/corp`,
      backchannel_logout_session_required: true,
    },
  ],
  features: { devInteractions: { enabled: true }, backchannelLogout: { enabled: true } },
  // by default it sends nothing to addresses of this machine
  fetch: (url, options) => fetch(url, { ...options, dispatcher: undefined }),
  pkce: { required: () => true },
  claims: { openid: ['sub'], email: ['email', 'email_verified'] },
  issueRefreshToken: () => true,
  findAccount: (_, id) =>
    gone.has(id) ? undefined : { accountId: id, claims: () => ({ sub: id, email: `${id}@example.com`, email_verified: id !== 'mallory' }) },
});
provider.use((context, next) => {
  if (context.path !== '/leave') return next();
  gone.add(context.query.name);
  context.body = 'gone';
});
provider.on('backchannel.error', (_, error) => console.error(`back-channel logout: ${error} ${error.cause ?? ''}`));
provider.listen(Number(port), 'localhost', () => console.log('ready'));
