"""A program that a package has put somewhere, as the one who installed it meets it."""

import contextlib
import http.client
import os
import signal
import subprocess
import time

from gateway import KEY, free_port

START_SECONDS = 60
STOP_SECONDS = 30


def version(command, expected, **options):
    printed = subprocess.run([*command, "version"], capture_output=True, text=True, timeout=START_SECONDS, **options)
    assert printed.stdout.startswith(f"lockkeeper {expected}\n"), printed


@contextlib.contextmanager
def serving(command, work, environment):
    """`serve` of it, without a configuration. What started it is asked to stop at the end, and the gateway must be gone then."""
    port = free_port()
    log, data = work / f"serve-{port}.log", work / f"data-{port}"
    own = ["serve", "--listen", f"127.0.0.1:{port}", "--data-dir", str(data)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, *own], cwd=work, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True
        )
    try:
        end = time.monotonic() + START_SECONDS
        while answer(port, "GET", "/healthz")[0] != 200:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"it does not answer:\n{log.read_text()[-2000:]}")
            time.sleep(0.1)
        yield port, log
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
            end = time.monotonic() + STOP_SECONDS
            while answer(port, "GET", "/healthz")[0]:
                if time.monotonic() > end:
                    raise RuntimeError("the gateway goes on after what started it has ended")
                time.sleep(0.1)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def answer(port, method, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request(method, path, headers={"Content-Type": "application/json"}, body="{}" if method == "POST" else None)
        response = connection.getresponse()
        return response.status, response
    except OSError:
        return None, None
    finally:
        connection.close()


def works(report, kind, command, expected, work, environment):
    """The checks of one way to run it."""
    with report.check(f"{kind}: the version is that of the package"):
        version(command, expected, cwd=work, env=environment)
    with report.check(f"{kind}: it serves, prints a key, and asks a client to log in; it ends when asked"):
        with serving(command, work, environment) as (port, log):
            status, response = answer(port, "POST", "/mcp")
            assert status == 401 and "resource_metadata=" in response.headers["WWW-Authenticate"], status
            assert answer(port, "GET", "/.well-known/oauth-protected-resource/mcp")[0] == 200
            assert KEY.search(log.read_text())
