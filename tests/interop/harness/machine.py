"""Installation of the suite: npm packages, Python environments and a Rust crate, each made once for a set of pins."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

SUITE = Path(__file__).parent.parent
ROOT = SUITE.parent.parent
BROWSER = ROOT / "tests" / "browser"
ENVIRONMENTS = ("servers", "client-1", "client-old")
# Further releases of the Python SDK, each with an environment that has what it depends on.
RELEASES = {"mcp-1.6.0": "client-old", "mcp-1.22.0": "client-1", "mcp-1.26.0": "client-1"}


def cache():
    """`$LOCKKEEPER_CACHE`, else the user's cache folder, else an ignored folder in the clone."""
    given = os.environ.get("LOCKKEEPER_CACHE")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    for folder in [Path(given)] if given else [Path(home) / "lockkeeper", ROOT / "target" / "interop-cache"]:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return folder
        except OSError:
            continue
    raise RuntimeError("no folder for the cache can be made: set LOCKKEEPER_CACHE")


def kept(name, pins, install):
    """The folder that `install` fills, recreated when a pin changes. Suites that run side by side install one after the other."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in pins)).hexdigest()[:12]
    folder = cache() / f"{name}-{digest}"
    with open(cache() / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".complete").exists():
            print(f"# installing {name}", flush=True)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            install(folder)
            (folder / ".complete").touch()
    return folder


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(str(part) for part in command)} ended with {done.returncode}:\n{done.stdout[-3000:]}")


def node_modules(name, pins, beside):
    """npm packages, linked beside the scripts that use them, where Node looks for them."""

    def install(folder):
        for pin in pins:
            shutil.copy(pin, folder)
        run("npm", "ci", "--loglevel=error", "--no-fund", "--no-audit", cwd=folder)

    installed = kept(name, pins, install) / "node_modules"
    link = beside / "node_modules"
    if link.is_symlink():
        link.unlink()
    if not link.exists():
        link.symlink_to(installed)
    return installed


def inspector():
    """The Inspector's command line, with the Node that it needs."""
    pins = [SUITE / "inspector" / name for name in ("package.json", "package-lock.json", ".npmrc")]
    modules = node_modules("npm-inspector", pins, SUITE / "inspector")
    [node] = modules.glob("node-linux-*/bin/node")
    return [str(node), str(modules / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"), "--cli"]


def python(name, pins=None):
    """The interpreter of one environment, of `python/NAME.txt` or other pins."""
    pins = pins or SUITE / "python" / f"{name}.txt"

    def install(folder):
        run(sys.executable, "-m", "venv", folder)
        run(folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "-r", pins)

    return kept(f"python-{name}", [pins], install) / "bin" / "python"


def release(name, environment, base):
    """The interpreter of one release of the Python SDK, which goes before that of an environment, whose interpreter is `base`."""

    def install(folder):
        run(sys.executable, "-m", "venv", "--without-pip", folder)
        [packages] = folder.glob("lib/python*/site-packages")
        [beneath] = base.parent.parent.glob("lib/python*/site-packages")
        (packages / "base.pth").write_text(f"{beneath}\n")
        pin = name.replace("-", "==")
        run(base, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target", packages, pin)

    return kept(f"python-{name}", [SUITE / "python" / f"{environment}.txt"], install) / "bin" / "python"


def rust():
    """The folder of the Rust client and server, built where the sources changed."""
    target = cache() / "rust-peers"
    manifest = SUITE / "rust" / "Cargo.toml"
    run("cargo", "build", "--quiet", "--locked", "--manifest-path", manifest, "--target-dir", target)
    return target / "debug"


def install():
    """Everything: the folder of npm packages, and the interpreter of each environment by its name."""
    for_pages = [BROWSER / name for name in ("package.json", "package-lock.json")]
    if all(pin.exists() for pin in for_pages):
        node_modules("npm-browser", for_pages, BROWSER)
    peers = [SUITE / "npm" / name for name in ("package.json", "package-lock.json", ".npmrc")]
    pythons = {name: python(name) for name in ENVIRONMENTS}
    pythons |= {name: release(name, base, pythons[base]) for name, base in RELEASES.items()}
    return node_modules("npm", peers, SUITE), pythons
