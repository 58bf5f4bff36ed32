// The suite's fixtures of 2026-07-28 that ask before they answer, as a server with sessions offers them: it asks in
// mid-call. Knows nothing of transports and versions.

const text = (text) => ({ type: 'text', text });
const said = (words) => ({ content: [text(words)] });
const nothing = { type: 'object', properties: {} };
const form = (name, type = 'string') => ({ type: 'object', properties: { [name]: { type } }, required: [name] });

const elicit = (peer, message, requestedSchema) => peer.ask('elicitation/create', { message, requestedSchema });
const sample = (peer, words, maxTokens) =>
  peer.ask('sampling/createMessage', { messages: [{ role: 'user', content: text(words) }], maxTokens });
const roots = (peer) => peer.ask('roots/list', {});
const name = async (peer, message = 'What is your name?') => (await elicit(peer, message, form('name'))).content?.name;

async function confirm(_, peer) {
  const { content } = await elicit(peer, 'Please confirm', form('ok', 'boolean'));
  return said(content?.ok ? 'state-ok' : 'not confirmed');
}

/** Each tool: what it is, and what it does with its arguments and the peer that called. */
export const tools = {
  test_input_required_result_elicitation: [nothing, async (_, peer) => said(`Hello, ${await name(peer)}!`)],
  test_input_required_result_sampling: [
    nothing,
    async (_, peer) => said((await sample(peer, 'What is the capital of France?', 100)).content.text),
  ],
  test_input_required_result_list_roots: [
    nothing,
    async (_, peer) => said((await roots(peer)).roots.map(({ uri }) => uri).join(' ')),
  ],
  test_input_required_result_request_state: [nothing, confirm],
  test_input_required_result_tampered_state: [nothing, confirm],
  test_input_required_result_multiple_inputs: [
    nothing,
    async (_, peer) => {
      const [who, greeting, places] = await Promise.all([name(peer), sample(peer, 'Generate a greeting', 50), roots(peer)]);
      return said(`${greeting.content.text} ${who} ${places.roots.length}`);
    },
  ],
  test_input_required_result_multi_round: [
    nothing,
    async (_, peer) => {
      const who = await name(peer, 'Step 1: What is your name?');
      const { content } = await elicit(peer, 'Step 2: What is your favorite color?', form('color'));
      return said(`${who} likes ${content?.color}`);
    },
  ],
  test_input_required_result_capabilities: [
    nothing,
    async (_, peer) => {
      const able = peer.capabilities();
      if (able.elicitation) await name(peer);
      return said(able.sampling ? (await sample(peer, 'Say something', 50)).content.text : 'nothing can be asked');
    },
  ],
  test_streaming_elicitation: [nothing, async (_, peer) => said(`Hello, ${await name(peer)}!`)],
  test_x_mcp_header: [
    { type: 'object', properties: { region: { type: 'string', 'x-mcp-header': 'Region' } } },
    ({ region }) => said(`in ${region}`),
  ],
  test_logging_tool: [
    nothing,
    async (_, peer) => {
      await peer.tell('notifications/message', { level: 'info', logger: 'reference', data: 'This is a log message' });
      return said('logged');
    },
  ],
};

/** Each prompt: its arguments, and what it says. */
export const prompts = {
  test_input_required_result_prompt: [
    [],
    async (_, peer) => {
      const { content } = await elicit(peer, 'What context should the prompt use?', form('context'));
      return [{ role: 'user', content: text(`Answer in the context of ${content?.context}.`) }];
    },
  ],
};
