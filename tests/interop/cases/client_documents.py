"""Real clients whose id is the URL of their metadata document (OA-45 to OA-54): each goes through the life of a login, and none
registers. The documents are on this machine, which a gateway reads while it is itself reached on it alone (OA-47), over https of an
authority that SSL_CERT_FILE names."""

import datetime
import json
import os
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from case import check, context, equal, finish
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from gateway import Gateway

CASES = Path(__file__).parent
folder = Path(context["work"]) / "client_documents"
# Each client with what runs it.
CLIENTS = {
    "typescript": [context["node"], CASES / "typescript_login.mjs"],
    "python-1": [context["pythons"]["client-1"], CASES / "python_login.py"],
    "python-2": [context["pythons"]["servers"], CASES / "python_login.py"],
    "rmcp": [f"{context['rust']}/login"],
    "mcp-remote": [context["node"], CASES / "mcp_remote.mjs"],
    "inspector": [context["pythons"]["client-1"], CASES / "inspector_login.py"],
}


def certificate(name, issuer=None):
    """A key with a certificate for a name: of an authority, or signed by one."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    by, signer = issuer or (subject, key)
    now = datetime.datetime.now(datetime.timezone.utc)
    day = datetime.timedelta(days=1)
    builder = x509.CertificateBuilder(by, subject, key.public_key(), x509.random_serial_number(), now - day, now + day)
    builder = builder.add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    if issuer:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    return subject, key, builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


class Documents(BaseHTTPRequestHandler):
    """The document of each client, under its name."""

    def do_GET(self):
        name = self.path.removeprefix("/").removesuffix(".json")
        found = name in CLIENTS
        self.server.read.append(name)
        body = json.dumps(document(self.server.url, name)).encode() if found else b"{}"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def document(url, name):
    return {
        "client_id": f"{url}/{name}.json", "client_name": f"Document {name}", "token_endpoint_auth_method": "none",
        # the port is the client's own
        "redirect_uris": ["http://127.0.0.1/callback", "http://127.0.0.1/oauth/callback", "http://localhost/oauth/callback"],
        "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
    }


def serve():
    """The site of the documents, and the file with its authority."""
    authority, key, pem = certificate("Interop authority")
    _, own_key, own = certificate("localhost", (authority, key))
    trusted, shown = folder / "authority.pem", folder / "site.pem"
    trusted.write_bytes(pem)
    private = own_key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    shown.write_bytes(own + private)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Documents)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(shown)
    server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.daemon_threads, server.read, server.url = True, [], f"https://localhost:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, trusted


config = Path(context["work"]) / "client_documents.toml"
everything = next(server for server in context["servers"] if server["id"] == "everything")
config.write_text(f"[servers.everything]\ncommand = {json.dumps(everything['command'])}\nargs = {json.dumps(everything['args'])}\n")
gateway = Gateway.alone(context, "client_documents", config)
site, trusted = serve()
gateway.environment["SSL_CERT_FILE"] = str(trusted)
gateway.start()
gateway.ready()
mine = {"url": gateway.url, "key": gateway.create_key("documents"), "config": str(config), "commands": gateway.commands()}
for name, command in CLIENTS.items():
    changed = {**context, **mine, "clientDocument": f"{site.url}/{name}.json"}
    environment = {**os.environ, "INTEROP": json.dumps(changed)}
    ended = subprocess.run([str(part) for part in command], env=environment).returncode
    with check(f"{name} is known by its document alone"):
        equal((ended, name in site.read), (0, True))
        [client] = [client for client in json.loads(gateway.cli("clients", "list", "--json"))["clients"] if name in client["name"]]
        equal((client["id"], client["name"]), (changed["clientDocument"], f"Document {name}"))
with check("nobody has registered"):
    equal([client["id"] for client in json.loads(gateway.cli("clients", "list", "--json"))["clients"] if not client["id"].startswith("https://")], [])
gateway.stop()
finish()
