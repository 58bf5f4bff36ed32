// The suite's fixtures of 2026-07-28, those that ask before they answer among them: each question has a key, and a tool
// may keep a state between rounds, which means nothing to a server with sessions. Knows nothing of transports and versions.

const text = (text) => ({ type: 'text', text });
const said = (words) => ({ content: [text(words)] });
const nothing = { type: 'object', properties: {} };
const form = (name, type = 'string') => ({ type: 'object', properties: { [name]: { type } }, required: [name] });

const keepsState = true;

const elicit = (peer, key, message, requestedSchema) => peer.ask('elicitation/create', { message, requestedSchema }, key);
const sample = (peer, key, words, maxTokens) =>
  peer.ask('sampling/createMessage', { messages: [{ role: 'user', content: text(words) }], maxTokens }, key);
const roots = (peer) => peer.ask('roots/list', {}, 'client_roots');
const name = async (peer) => (await elicit(peer, 'user_name', 'What is your name?', form('name'))).content?.name;

async function confirm(_, peer) {
  const { content } = await elicit(peer, 'confirm', 'Please confirm', form('ok', 'boolean'));
  return said(content?.ok ? 'state-ok' : 'not confirmed');
}

async function changed(peer, kind) {
  await peer.changed(kind);
  return said(`a change of the ${kind} was told`);
}

/** Each tool: what it is, what it does with its arguments and the peer that called, and whether it keeps a state. */
export const tools = {
  test_input_required_result_elicitation: [nothing, async (_, peer) => said(`Hello, ${await name(peer)}!`)],
  test_input_required_result_sampling: [
    nothing,
    async (_, peer) => said((await sample(peer, 'capital_question', 'What is the capital of France?', 100)).content.text),
  ],
  test_input_required_result_list_roots: [
    nothing,
    async (_, peer) => said((await roots(peer)).roots.map(({ uri }) => uri).join(' ')),
  ],
  test_input_required_result_request_state: [nothing, confirm, keepsState],
  test_input_required_result_tampered_state: [nothing, confirm, keepsState],
  test_input_required_result_multiple_inputs: [
    nothing,
    async (_, peer) => {
      const [who, greeting, places] = await Promise.all([name(peer), sample(peer, 'greeting', 'Generate a greeting', 50), roots(peer)]);
      return said(`${greeting.content.text} ${who} ${places.roots.length}`);
    },
    keepsState,
  ],
  test_input_required_result_multi_round: [
    nothing,
    async (_, peer) => {
      const first = await elicit(peer, 'step1', 'Step 1: What is your name?', form('name'));
      const { content } = await elicit(peer, 'step2', 'Step 2: What is your favorite color?', form('color'));
      return said(`${first.content?.name} likes ${content?.color}`);
    },
    keepsState,
  ],
  test_input_required_result_capabilities: [
    nothing,
    async (_, peer) => {
      const able = peer.capabilities();
      if (able.elicitation) await name(peer);
      return said(able.sampling ? (await sample(peer, 'something', 'Say something', 50)).content.text : 'nothing can be asked');
    },
  ],
  test_streaming_elicitation: [nothing, async (_, peer) => said(`Hello, ${await name(peer)}!`)],
  test_missing_capability: [
    nothing,
    async (_, peer) => said((await sample(peer, 'word', 'Reply with one word', 10)).content.text),
  ],
  test_trigger_tool_change: [nothing, (_, peer) => changed(peer, 'tools')],
  test_trigger_prompt_change: [nothing, (_, peer) => changed(peer, 'prompts')],
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
      const { content } = await elicit(peer, 'user_context', 'What context should the prompt use?', form('context'));
      return [{ role: 'user', content: text(`Answer in the context of ${content?.context}.`) }];
    },
  ],
};
