// What stands between the suite and the gateway: it adds the credential that the suite cannot send, and has its client
// ask for an older version. `proxy.mjs PORT TARGET_PORT TARGET_PATH VERSION [KEY]`. Everything else passes as it is.

import http from 'node:http';

const [port, targetPort, path, version, key] = process.argv.slice(2);

function changed(body) {
  if (!body.includes('"initialize"')) return body;
  const message = JSON.parse(body);
  if (message.method === 'initialize') message.params.protocolVersion = version;
  return Buffer.from(JSON.stringify(message));
}

http.createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  const body = changed(Buffer.concat(parts));
  const headers = { ...request.headers, 'content-length': body.length };
  // the port is this proxy's; a foreign name stays foreign
  for (const name of ['host', 'origin']) headers[name] = headers[name]?.replace(`:${port}`, `:${targetPort}`);
  if (!headers.origin) delete headers.origin;
  if (key) headers.authorization = `Bearer ${key}`;
  const onward = http.request({ host: '127.0.0.1', port: targetPort, path, method: request.method, headers }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    response.flushHeaders();
    answer.pipe(response);
    answer.on('error', () => response.destroy());
  });
  onward.on('error', () => response.destroy());
  response.on('close', () => onward.destroy());
  onward.end(body);
}).listen(Number(port), '127.0.0.1', () => console.log('listening'));
