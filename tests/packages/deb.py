"""The Debian package on a fresh machine and on one that was set up by hand before there was a package."""

import json
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import machine
from checks import Report
from gateway import KEY
from machine_root import Debian, base

URL = "http://127.0.0.1:8080"
NAME = "mcp.example.com"
DATA, HOME = "/var/lib/lockkeeper", "/var/lib/lockkeeper-home"
# A program that writes down whose it is and where it runs, and ends.
CONFIG = """
[servers.where]
command = "sh"
args = ["-c", "echo $PPID $HOME $(pwd) > ~/seen.new; mv ~/seen.new ~/seen"]
"""
INITIALIZE = (
    '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {},'
    ' "clientInfo": {"name": "packages", "version": "1"}}}'
)
ANSWERS = f"curl -sS --retry 60 --retry-delay 1 --retry-all-errors --fail {URL}/healthz"
# What the unit had before data and home were two folders.
EARLIER = {
    "StateDirectory=lockkeeper lockkeeper-home": "StateDirectory=lockkeeper",
    "WorkingDirectory=~": f"WorkingDirectory={DATA}\nEnvironment=HOME={DATA}",
}
LINTIAN = ("lintian", "--allow-root", "--fail-on", "error,warning", "--no-tag-display-limit")


def check(package, program, root, work, logs):
    base()

    def on_a_machine(steps, name):
        report = Report(name)
        try:
            with Debian(work / f"root-{steps.__name__}", logs / f"{steps.__name__}.log") as debian:
                debian.put(package, "/lockkeeper.deb")
                steps(report, debian, package, program, root)
        except Exception as error:
            report.broke(error)
        return report

    with ThreadPoolExecutor() as pool:
        running = [
            pool.submit(on_a_machine, fresh, "deb"),
            pool.submit(on_a_machine, existing, "deb, after an installation by hand"),
            pool.submit(on_a_machine, public, "deb, with a domain"),
        ]
        style = Report("deb")
        with style.check("lintian finds no fault"):
            machine.run(*LINTIAN, package)
        return [style, *(each.result() for each in running)]


def fresh(report, debian, package, program, root):
    run = debian.run
    with report.check("it installs, says what to do next, and starts nothing before that"):
        said = run("apt-get install -y -q /lockkeeper.deb")
        assert "set public_url in /etc/lockkeeper/lockkeeper.toml" in said, said
        assert run("getent passwd lockkeeper").split(":")[5] == HOME
        assert run("systemctl is-active lockkeeper lockkeeper.socket || true").split() == ["inactive"] * 2
        assert run("systemctl is-enabled lockkeeper lockkeeper.socket || true").split() == ["disabled"] * 2
    with report.check("program, manual and completions are there"):
        assert run("lockkeeper version").startswith("lockkeeper ")
        run("test -s /usr/share/bash-completion/completions/lockkeeper && test -s /usr/share/zsh/vendor-completions/_lockkeeper")
        assert "lockkeeper-serve.1" in run("dpkg -L lockkeeper")
    with report.check("systemd finds no fault with the units, each pair with the service"):
        run("systemd-analyze verify --man=no lockkeeper.service lockkeeper.socket lockkeeper-https.socket lockkeeper-http.socket")
    with report.check("commands work before the first start"):
        key = create_key(run)
    with report.check("the service starts, answers, asks a client to log in, and takes a key"):
        configure(run)
        run("systemctl enable --now lockkeeper")
        serves(run, key)
    with report.check("programs have a home and a working directory away from the data"):
        assert where(run) == [HOME, HOME]
        assert run(f"ls -A {DATA}; stat -c %a:%U {DATA} {HOME}").split()[-2:] == ["700:lockkeeper"] * 2
        assert "lockkeeper.sqlite3" in run(f"ls {DATA}") and "lockkeeper.sqlite3" not in run(f"ls -A {HOME}")
    with report.check("it installs over itself while the service runs"):
        run("apt-get install -y -q --reinstall /lockkeeper.deb")
        serves(run, key)
    with report.check("an upgrade restarts the service with the new program, and keeps what was edited"):
        before = run("systemctl show -p MainPID lockkeeper")
        later(package, debian)
        run("apt-get install -y -q /later.deb")
        serves(run, key)
        assert before != run("systemctl show -p MainPID lockkeeper")
        assert "[servers.where]" in run("cat /etc/lockkeeper/lockkeeper.toml")
    with report.check("systemd holds the port with lockkeeper.socket, and an upgrade leaves it open"):
        run("systemctl stop lockkeeper && systemctl enable --now lockkeeper.socket")
        serves(run, key)
        since = run("systemctl show -p ActiveEnterTimestampMonotonic lockkeeper.socket")
        run("apt-get install -y -q --reinstall /later.deb")
        serves(run, key)
        assert since == run("systemctl show -p ActiveEnterTimestampMonotonic lockkeeper.socket")
        run("systemctl disable --now lockkeeper.socket && systemctl stop lockkeeper")
    with report.check("ports 80 and 443 come to the service by name, without a right of its own"):
        assert ports(run) == ["2", "http", "https"]
    with report.check("removed, it is stopped, and data and configuration stay"):
        run("systemctl start lockkeeper")
        run("apt-get remove -y -q lockkeeper")
        assert run("pgrep -c lockkeeper || true").strip() == "0"
        run(f"test -s {DATA}/lockkeeper.sqlite3 && test -s /etc/lockkeeper/lockkeeper.toml && ! test -e /usr/bin/lockkeeper")
    with report.check("installed again, it goes on with them"):
        run("apt-get install -y -q /lockkeeper.deb && systemctl start lockkeeper")
        serves(run, key)
    with report.check("purged, nothing of it is left; twice is no error"):
        run("touch /etc/lockkeeper/secrets.env; apt-get purge -y -q lockkeeper && dpkg --purge lockkeeper")
        run(f"! test -e {DATA} && ! test -e {HOME} && ! test -e /etc/lockkeeper && ! pgrep lockkeeper")
    with report.check("purged, it installs anew"):
        run("apt-get install -y -q /lockkeeper.deb && systemctl start lockkeeper")
        run(ANSWERS)


def public(report, debian, package, program, root):
    """A public endpoint: the package, one name, and an authority on the same machine (Pebble)."""
    run = debian.run
    sys.path.append(str(root / "tests" / "tls"))
    from authority import certificate

    with tempfile.TemporaryDirectory() as folder:
        pem, key = certificate(Path(folder))
        debian.put(pem, "/etc/pebble/authority.pem")
        debian.put(key, "/etc/pebble/authority.key")
    for tool in ("pebble", "pebble-challtestsrv"):
        debian.put(Path("/usr/bin") / tool, f"/usr/bin/{tool}", "0755")
    pebble = {"listenAddress": "127.0.0.1:14000", "managementListenAddress": "127.0.0.1:15000", "httpPort": 80, "tlsPort": 443}
    pebble |= {"certificate": "/etc/pebble/authority.pem", "privateKey": "/etc/pebble/authority.key"}
    run(f"printf '%s' '{json.dumps({'pebble': pebble})}' > /etc/pebble/pebble.json")
    run("systemd-run --quiet --unit=names pebble-challtestsrv -defaultIPv6 '' -dns01 127.0.0.1:8053 -http01 '' -https01 '' -tlsalpn01 ''")
    run("systemd-run --quiet --unit=authority -E PEBBLE_VA_NOSLEEP=1 pebble -config /etc/pebble/pebble.json -dnsserver 127.0.0.1:8053")
    tls = f'[tls]\ndomains = ["{NAME}"]\ndirectory = "https://127.0.0.1:14000/dir"\nca_file = "/etc/pebble/authority.pem"\n'
    with report.check("the package, a name and the sockets of ports 443 and 80 are a public endpoint"):
        run("apt-get install -y -q /lockkeeper.deb")
        run(f"printf '%s' '{tls}[servers.demo]\nbuiltin = \"demo\"\n' > /etc/lockkeeper/lockkeeper.toml")
        run("systemctl enable --now lockkeeper-https.socket lockkeeper-http.socket && systemctl start lockkeeper")
        run("curl -sSk --retry 30 --retry-delay 1 --retry-all-errors https://127.0.0.1:15000/roots/0 > /root.pem")
        curl = f"curl -sS --cacert /root.pem --resolve {NAME}:443:127.0.0.1 --resolve {NAME}:80:127.0.0.1"
        run(f"{curl} --retry 60 --retry-delay 1 --retry-all-errors --fail https://{NAME}/healthz")
    with report.check("a client is asked to log in by the name, and calls with a key"):
        post = f"{curl} -o /dev/null -D - -X POST https://{NAME}/mcp -H 'Content-Type: application/json' -d '{INITIALIZE}'"
        post += " -H 'Accept: application/json, text/event-stream'"
        refused = run(post)
        assert f'resource_metadata="https://{NAME}/' in refused and " 401 " in refused.splitlines()[0], refused
        assert " 200 " in run(f"{post} -H 'Authorization: Bearer {create_key(run)}'").splitlines()[0]
    with report.check("the owner opens the invitation of the first start over https, and port 80 leads there"):
        invited = re.search(r"https://\S+/invite\?i=\S+", run("journalctl --unit lockkeeper --no-pager")).group()
        assert "<form" in run(f"{curl} --fail '{invited}'")
        moved = run(f"{curl} -o /dev/null -D - http://{NAME}/login")
        assert " 308 " in moved.splitlines()[0] and f"https://{NAME}/login" in moved, moved
    with report.check("the status has the certificate, by the socket of the data folder"):
        assert f"Certificate: {NAME}" in run(f"runuser -u lockkeeper -- lockkeeper status --data-dir {DATA}")
        run(f"runuser -u lockkeeper -- lockkeeper healthcheck --data-dir {DATA}")


def existing(report, debian, package, program, root):
    """Set up as docs/deployment.md said before data and home were two folders."""
    run = debian.run
    unit = (root / "deploy" / "lockkeeper.service").read_text()
    earlier = unit
    for line, was in EARLIER.items():
        assert line in unit, line
        earlier = earlier.replace(line, was)
    target = debian.folder / "etc/systemd/system/lockkeeper.service"
    debian.put(program, "/usr/local/bin/lockkeeper", "0755")
    debian.put(root / "deploy" / "lockkeeper.toml", "/etc/lockkeeper/lockkeeper.toml")
    run(f"useradd --system --home-dir {DATA} --shell /usr/sbin/nologin lockkeeper")
    target.write_text(earlier)
    with report.check("the earlier unit runs"):
        configure(run)
        run("systemctl daemon-reload && systemctl enable --now lockkeeper")
        run(ANSWERS)
        key = create_key(run)
        serves(run, key)
        assert where(run) == [DATA, DATA]
        run(f"echo kept > {DATA}/.state")
    with report.check("with the new unit its data is there, and so is what its programs keep"):
        target.write_text(unit)
        run("systemctl daemon-reload && systemctl restart lockkeeper")
        serves(run, key)
        assert where(run) == [DATA, DATA]
    with report.check("the package leaves it running, its user as it is, and names what stands in its way"):
        said = run("apt-get install -y -q -o Dpkg::Options::=--force-confold /lockkeeper.deb")
        assert "/etc/systemd/system/lockkeeper.service is used" in said and "/usr/local/bin/lockkeeper is used" in said, said
        assert run("getent passwd lockkeeper").split(":")[5] == DATA
        serves(run, key)
    with report.check("with these away, the package's unit goes on with data and home"):
        run("rm /etc/systemd/system/lockkeeper.service /usr/local/bin/lockkeeper")
        run("systemctl daemon-reload && systemctl enable lockkeeper && systemctl restart lockkeeper")
        serves(run, key)
        assert where(run) == [DATA, DATA]
        assert "/usr/bin/lockkeeper" in run("readlink /proc/$(systemctl show -P MainPID lockkeeper)/exe")
        assert run(f"cat {DATA}/.state") == "kept\n"


# === steps ===


def configure(run):
    run(f"cat >> /etc/lockkeeper/lockkeeper.toml <<'END'\n{CONFIG}\nEND")


def create_key(run):
    made = run(f"runuser -u lockkeeper -- lockkeeper keys create ci --direct --data-dir {DATA}")
    return KEY.search(made).group()


def serves(run, key):
    """A health check, a request without a login, and one with a key."""
    run(ANSWERS)
    post = f"curl -sS -o /dev/null -D - -X POST {URL}/mcp -H 'Content-Type: application/json' -d '{INITIALIZE}'"
    post += " -H 'Accept: application/json, text/event-stream'"
    refused = run(post)
    assert " 401 " in refused.splitlines()[0] and re.search("www-authenticate:.*resource_metadata=", refused, re.I), refused
    assert " 200 " in run(f"{post} -H 'Authorization: Bearer {key}'").splitlines()[0]


def where(run):
    """HOME and working directory of a program of the gateway that runs, which may be about to start one."""
    main = run("systemctl show -P MainPID lockkeeper").strip()
    home = run(f"tr '\\0' '\\n' < /proc/{main}/environ | sed -n 's/^HOME=//p'").strip()
    of_main = f"grep -q '^{main} ' {home}/seen"
    seen = run(f"for i in $(seq 100); do {of_main} && break; sleep 0.1; done; {of_main} && cat {home}/seen").split()[1:]
    assert run(f"readlink /proc/{main}/cwd").strip() == seen[1]
    return seen


def ports(run):
    """What systemd passes to the service with both sockets, instead of the gateway to a shell."""
    script = f'echo "$LISTEN_FDS" "$LISTEN_FDNAMES" > {HOME}/passed; exec sleep 1000'
    drop = "mkdir -p /run/systemd/system/lockkeeper.service.d && cat > /run/systemd/system/lockkeeper.service.d/test.conf <<'END'\n"
    drop += f"[Service]\nExecStart=\nExecStart=/bin/sh -c '{script.replace('$', '$$')}'\nEND\n"
    both = "lockkeeper-https.socket lockkeeper-http.socket"
    try:
        run(f"{drop}systemctl daemon-reload && systemctl enable --now {both} && systemctl start lockkeeper")
        bound = run("cat /proc/net/tcp6")
        assert ":01BB " in bound and ":0050 " in bound, bound
        passed = run(f"for i in $(seq 50); do test -s {HOME}/passed && break; sleep 0.1; done; cat {HOME}/passed")
        return sorted(re.split("[ :\n]", passed.strip()))
    finally:
        run(f"systemctl stop lockkeeper; systemctl disable --now {both}; rm -r /run/systemd/system/lockkeeper.service.d; systemctl daemon-reload")


def later(package, debian):
    """The same package with a higher version."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder) / "package"
        machine.run("dpkg-deb", "--raw-extract", package, folder)
        control = folder / "DEBIAN" / "control"
        control.write_text(re.sub(r"(?m)^(Version: .*)$", r"\1+later", control.read_text()))
        made = folder.parent / "later.deb"
        machine.run("dpkg-deb", "--build", "--root-owner-group", "-Zgzip", "-z1", folder, made)
        debian.put(made, "/later.deb")
