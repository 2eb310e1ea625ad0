// An agent on one of the official clients: it connects, lists, searches, and proposes a
// ticket. What it saw is one line of JSON.
//
//   node client.mjs modern|legacy http URL CLIENT_ID REDIRECT
//   node client.mjs modern|legacy stdio COMMAND ARGUMENT...
const [generation, kind, ...target] = process.argv.slice(2);
const modern = generation === 'modern';
const { Client, StreamableHTTPClientTransport, UnauthorizedError } = modern
  ? await import('@modelcontextprotocol/client')
  : {
      ...(await import('@modelcontextprotocol/sdk/client/index.js')),
      ...(await import('@modelcontextprotocol/sdk/client/streamableHttp.js')),
      ...(await import('@modelcontextprotocol/sdk/client/auth.js')),
    };
const { StdioClientTransport } = modern
  ? await import('@modelcontextprotocol/client/stdio')
  : await import('@modelcontextprotocol/sdk/client/stdio.js');

const saw = { consents: 0 };

// What a client keeps of its sign-in, in memory.
class SignIn {
  constructor(id, redirect) {
    this.redirectUrl = redirect;
    this.clientMetadata = { client_name: 'official client', redirect_uris: [redirect], token_endpoint_auth_method: 'none', grant_types: ['authorization_code'], response_types: ['code'] };
    this.id = id;
    this.nonce = Math.random().toString(36).slice(2);
  }
  state() { return this.nonce; }
  clientInformation() { return { client_id: this.id }; }
  tokens() { return this.saved; }
  saveTokens(tokens) { this.saved = tokens; }
  saveCodeVerifier(verifier) { this.verifier = verifier; }
  codeVerifier() { return this.verifier; }
  redirectToAuthorization(url) { this.page = url; }
}

// The person's browser: the server agrees at once and sends it back.
async function consent(signIn) {
  saw.consents++;
  const page = await fetch(signIn.page, { redirect: 'manual' });
  if (page.status !== 302) throw new Error(`no way back from the sign-in: ${page.status} ${await page.text()}`);
  const back = new URL(page.headers.get('location')).searchParams;
  if (back.get('state') !== signIn.nonce) throw new Error('another state came back');
  return modern ? back : back.get('code');
}

let signIn;
const transport = () => {
  if (kind === 'stdio') return new StdioClientTransport({ command: target[0], args: target.slice(1), stderr: 'inherit' });
  signIn ??= new SignIn(target[1], target[2]);
  return new StreamableHTTPClientTransport(new URL(target[0]), { authProvider: signIn });
};

// Does something, with the person's consent where it is wanted.
async function agreed(wire, act) {
  try {
    return await act();
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
    await wire().finishAuth(await consent(signIn));
    return act();
  }
}

let wire;
const client = await agreed(() => wire, async () => {
  const made = new Client({ name: 'official client', version: '1' }, modern ? { versionNegotiation: { mode: { pin: '2026-07-28' } } } : {});
  wire = transport();
  await made.connect(wire);
  return made;
});
saw.version = (modern ? client.getNegotiatedProtocolVersion() : wire.protocolVersion) ?? null;
saw.server = client.getServerVersion()?.name ?? null;
saw.tools = (await client.listTools()).tools.map((tool) => tool.name);
saw.search = (await client.callTool({ name: 'sandbox.tickets.search', arguments: { query: 'customer', page_size: 2, cursor: null } })).structuredContent;
const propose = () => client.callTool({ name: 'sandbox.tickets.create', arguments: { project: 'orders', title: 'From an official client', body: 'b', severity: 'low' } });
saw.create = (await agreed(() => wire, propose)).structuredContent;
try {
  const hidden = await client.callTool({ name: 'sandbox.nothing', arguments: {} });
  saw.unknown = hidden.isError ? 'isError' : 'result';
} catch (error) {
  saw.unknown = error.code;
}
await client.close();
console.log(JSON.stringify(saw));
