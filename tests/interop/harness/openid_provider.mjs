// A certified OpenID provider (oidc-provider) with everything in memory, at which anybody logs in by writing a name, or an address.
//
//   node openid_provider.mjs PORT GATEWAY           the provider is at http://localhost:PORT, GATEWAY is the gateway's URL
//   GET /leave?name=NAME                             deletes the account NAME: it has no session, and no token is renewed
//   GET /disable?name=NAME, GET /enable?name=NAME    the account stays, and is refused meanwhile
//   GET /groups?name=NAME&of=staff,ops               its groups from now on; without `of` nothing says that it has any

import Provider, { errors } from 'oidc-provider';

const [port, gateway] = process.argv.slice(2);
const gone = new Set();
const disabled = new Set();
const groups = new Map();
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
  claims: { openid: ['sub', 'groups'], email: ['email', 'email_verified'] },
  issueRefreshToken: () => true,
  findAccount(_, id, token) {
    if (gone.has(id)) return undefined;
    if (disabled.has(id)) throw token ? new errors.InvalidGrant('the account is disabled') : new errors.AccessDenied('the account is disabled');
    return { accountId: id, claims: () => claims(id) };
  },
});
const commands = {
  '/leave': ({ name }) => gone.add(name),
  '/disable': ({ name }) => disabled.add(name),
  '/enable': ({ name }) => disabled.delete(name),
  '/groups': ({ name, of }) => groups.set(name, of?.split(',').filter(Boolean)),
};
provider.use((context, next) => {
  const command = commands[context.path];
  if (!command) return next();
  command(context.query);
  context.body = 'done';
});
provider.on('backchannel.error', (_, error) => console.error(`back-channel logout: ${error} ${error.cause ?? ''}`));
provider.listen(Number(port), 'localhost', () => console.log('ready'));

function claims(id) {
  const email = id.includes('@') ? id : `${id}@example.com`;
  return { sub: id, email, email_verified: id !== 'mallory', groups: groups.get(id) };
}
