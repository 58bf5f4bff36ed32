"""`@playwright/mcp` with Chromium through the gateway: two client sessions open a page, read it and click, each in a browser
of its own."""

import http.server
import re
import threading

import anyio
from case import check, contains, context, finish
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client

PAGE = b"""<!doctype html><title>Locks</title><h1>Gates: <output id=gates>0</output></h1>
<button onclick="document.getElementById('gates').textContent++">Open a gate</button>"""


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_):
        pass


site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
threading.Thread(target=site.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{site.server_port}/"


class Visitor:
    def __init__(self, session, server):
        self.session, self.server = session, server

    async def use(self, tool, **arguments):
        result = await self.session.call_tool(f"{self.server}__browser_{tool}", arguments)
        text = "\n".join(part.text for part in result.content if part.type == "text")
        assert not result.isError, text
        return text

    async def click(self):
        seen = await self.use("snapshot")
        target = re.search(r'button "Open a gate".*?\[ref=(\w+)\]', seen).group(1)
        await self.use("click", element="Open a gate", target=target)

    async def gates(self):
        return await self.use("evaluate", function="() => 'gates ' + document.getElementById('gates').textContent")


async def two(server):
    headers = {"Authorization": f"Bearer {context['directKey']}"}
    connect = lambda: streamablehttp_client(f"{context['url']}/mcp", headers=headers)
    async with connect() as (read, write, _), ClientSession(read, write) as one, connect() as (read2, write2, _), ClientSession(read2, write2) as two:
        await one.initialize()
        await two.initialize()
        first, second = Visitor(one, server), Visitor(two, server)
        await first.use("navigate", url=address)
        await second.use("navigate", url=address)
        contains(await first.use("snapshot"), "Open a gate")
        for _ in range(3):
            await first.click()
        await second.click()
        contains(await first.gates(), "gates 3")
        contains(await second.gates(), "gates 1")


for server in (peer["id"] for peer in context["peers"] if peer["id"].startswith("playwright")):
    with check(f"{server}: two sessions open, read and click, each in its own browser"):
        anyio.run(two, server)
finish()
