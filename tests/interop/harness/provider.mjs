// An OAuth provider for clients of the TypeScript SDK: registers dynamically, keeps everything in
// memory, and has the browser's part walked by a script.

import { randomUUID } from 'node:crypto';
import { record, walk } from './case.mjs';

export class Provider {
  redirectUrl = 'http://127.0.0.1:7777/callback';
  #state = randomUUID();
  #authorizeUrl;
  #finishAuth;

  /** `finishAuth` makes the arguments of the SDK's function of that name out of the answer's parameters. */
  constructor(name, finishAuth = (answer) => [answer.get('code')]) {
    this.#finishAuth = finishAuth;
    this.clientMetadata = {
      client_name: name,
      redirect_uris: [this.redirectUrl],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
    };
  }

  state() { return this.#state; }
  clientInformation() { return this.client; }
  saveClientInformation(client) { this.client = client; record(client.client_secret); }
  tokens() { return this.given; }
  saveTokens(tokens) { this.given = tokens; record(tokens.access_token, tokens.refresh_token); }
  saveCodeVerifier(verifier) { this.verifier = verifier; }
  codeVerifier() { return this.verifier; }
  redirectToAuthorization(url) { this.#authorizeUrl = url; }
  invalidateCredentials() { this.given = undefined; }

  /** Walks the login and gives what the SDK wants of the redirect. */
  async answer() {
    const end = await walk(this.#authorizeUrl);
    if (!end.href.startsWith(this.redirectUrl)) throw new Error(`sent to ${end.origin}${end.pathname} instead of the callback`);
    const sent = this.#authorizeUrl.searchParams.get('state');
    if (sent && end.searchParams.get('state') !== sent) throw new Error('the state did not come back');
    if (!end.searchParams.get('code')) throw new Error(`no code: ${end.searchParams.get('error')} ${end.searchParams.get('error_description')}`);
    return this.#finishAuth(end.searchParams);
  }
}

/**
 * Connects `client` over the transport that `open` makes, logging in where the server asks for it.
 * Says whether it did.
 */
export async function connect(client, provider, open) {
  const first = open();
  try {
    await client.connect(first);
    return { transport: first, loggedIn: false };
  } catch (error) {
    if (error?.constructor?.name !== 'UnauthorizedError') throw error;
    await first.finishAuth(...await provider.answer());
  }
  const second = open();
  await client.connect(second);
  return { transport: second, loggedIn: true };
}
