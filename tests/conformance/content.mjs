// Content that the official suite requires: tools, resources and prompts, by the names of the suite.
// Knows nothing of transports and versions.

const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==';
const SILENCE = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=';

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const text = (text) => ({ type: 'text', text });
const said = (...content) => ({ content });
const embedded = (uri, mimeType, text) => ({ type: 'resource', resource: { uri, mimeType, text } });
const image = { type: 'image', data: PIXEL, mimeType: 'image/png' };
const nothing = { type: 'object', properties: {} };
const string = (name) => ({ type: 'object', properties: { [name]: { type: 'string' } }, required: [name] });

const DEFAULTS = {
  type: 'object',
  properties: {
    name: { type: 'string', default: 'John Doe' },
    age: { type: 'integer', default: 30 },
    score: { type: 'number', default: 95.5 },
    status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
    verified: { type: 'boolean', default: true },
  },
};
const titled = (word, labels) => labels.map((title, index) => ({ const: `value${index + 1}`, title: `${title} ${word}` }));
const ORDINALS = ['First', 'Second', 'Third'];
const ENUMS = {
  type: 'object',
  properties: {
    untitledSingle: { type: 'string', enum: ['option1', 'option2', 'option3'] },
    titledSingle: { type: 'string', oneOf: titled('Option', ORDINALS) },
    legacyEnum: { type: 'string', enum: ['opt1', 'opt2', 'opt3'], enumNames: ['Option One', 'Option Two', 'Option Three'] },
    untitledMulti: { type: 'array', items: { type: 'string', enum: ['option1', 'option2', 'option3'] } },
    titledMulti: { type: 'array', items: { anyOf: titled('Choice', ORDINALS) } },
  },
};
const MODERN_SCHEMA = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  $defs: {
    address: { $anchor: 'addressDef', type: 'object', properties: { street: { type: 'string' }, city: { type: 'string' } } },
  },
  properties: {
    name: { type: 'string' },
    address: { $ref: '#/$defs/address' },
    contactMethod: { type: 'string', enum: ['phone', 'email'] },
    phone: { type: 'string' },
    email: { type: 'string' },
  },
  allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
  if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
  then: { required: ['phone'] },
  else: { required: ['email'] },
  additionalProperties: false,
};

async function elicit(peer, message, requestedSchema, begin) {
  const answer = await peer.ask('elicitation/create', { message, requestedSchema });
  return said(text(`${begin}action=${answer.action}, content=${JSON.stringify(answer.content ?? {})}`));
}

/** Each tool: what it is, and what it does with its arguments and the peer that called. */
export const tools = {
  test_simple_text: [nothing, () => said(text('This is a simple text response for testing.'))],
  test_image_content: [nothing, () => said(image)],
  test_audio_content: [nothing, () => said({ type: 'audio', data: SILENCE, mimeType: 'audio/wav' })],
  test_embedded_resource: [
    nothing,
    () => said(embedded('test://embedded-resource', 'text/plain', 'This is an embedded resource content.')),
  ],
  test_multiple_content_types: [
    nothing,
    () => said(
      text('Multiple content types test:'), image,
      embedded('test://mixed-content-resource', 'application/json', JSON.stringify({ test: 'data', value: 123 })),
    ),
  ],
  test_tool_with_logging: [
    nothing,
    async (_, peer) => {
      for (const data of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
        await peer.tell('notifications/message', { level: 'info', data });
        await pause(50);
      }
      return said(text('Tool with logging executed successfully'));
    },
  ],
  test_tool_with_progress: [
    nothing,
    async (_, peer) => {
      for (const progress of [0, 50, 100]) {
        if (peer.token !== undefined) {
          await peer.tell('notifications/progress', { progressToken: peer.token, progress, total: 100 });
        }
        await pause(50);
      }
      return said(text(String(peer.token ?? 'no token')));
    },
  ],
  test_error_handling: [
    nothing,
    () => ({ ...said(text('This tool intentionally returns an error for testing')), isError: true }),
  ],
  test_sampling: [
    string('prompt'),
    async ({ prompt }, peer) => {
      const messages = [{ role: 'user', content: text(prompt) }];
      const answer = await peer.ask('sampling/createMessage', { messages, maxTokens: 100 });
      return said(text(`LLM response: ${answer.content?.text ?? 'none'}`));
    },
  ],
  test_elicitation: [
    string('message'),
    ({ message }, peer) => {
      const field = (description) => ({ type: 'string', description });
      const properties = { username: field("User's response"), email: field("User's email address") };
      return elicit(peer, message, { type: 'object', properties, required: ['username', 'email'] }, 'User response: ');
    },
  ],
  test_elicitation_sep1034_defaults: [
    nothing,
    (_, peer) => elicit(peer, 'Please review the defaults', DEFAULTS, 'Elicitation completed: '),
  ],
  test_elicitation_sep1330_enums: [
    nothing,
    (_, peer) => elicit(peer, 'Please choose', ENUMS, 'Elicitation completed: '),
  ],
  test_reconnection: [
    nothing,
    async (_, peer) => {
      await pause(50);
      peer.closeStream();
      await pause(5000);
      return said(text('Reconnection test completed successfully'));
    },
  ],
  json_schema_2020_12_tool: [MODERN_SCHEMA, (given) => said(text(JSON.stringify(given)))],
};

const TEMPLATE = /^test:\/\/template\/([^/]+)\/data$/;
const json = 'application/json';

export const resources = [
  { uri: 'test://static-text', name: 'static-text', mimeType: 'text/plain', description: 'A text' },
  { uri: 'test://static-binary', name: 'static-binary', mimeType: 'image/png', description: 'An image' },
  { uri: 'test://watched-resource', name: 'watched-resource', mimeType: 'text/plain', description: 'What changes' },
];
export const templates = [
  { uriTemplate: 'test://template/{id}/data', name: 'template', mimeType: json, description: 'Data by id' },
];

/** The contents of a resource; undefined where there is none. */
export function read(uri) {
  const id = TEMPLATE.exec(uri)?.[1];
  if (id !== undefined) {
    return { uri, mimeType: json, text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) };
  }
  return {
    'test://static-text': { uri, mimeType: 'text/plain', text: 'This is the content of the static text resource.' },
    'test://static-binary': { uri, mimeType: 'image/png', blob: PIXEL },
    'test://watched-resource': { uri, mimeType: 'text/plain', text: 'Watched resource content' },
  }[uri];
}

const user = (content) => ({ role: 'user', content });
const argument = (name) => ({ name, description: `The argument ${name}`, required: true });

export const prompts = {
  test_simple_prompt: [[], () => [user(text('This is a simple prompt for testing.'))]],
  test_prompt_with_arguments: [
    ['arg1', 'arg2'].map(argument),
    ({ arg1, arg2 }) => [user(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`))],
  ],
  test_prompt_with_embedded_resource: [
    [argument('resourceUri')],
    ({ resourceUri }) => [
      user(embedded(resourceUri, 'text/plain', 'Embedded resource content for testing.')),
      user(text('Please process the embedded resource above.')),
    ],
  ],
  test_prompt_with_image: [[], () => [user(image), user(text('Please analyze the image above.'))]],
};
