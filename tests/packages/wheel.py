"""The wheel: the tools of PyPI read it, and pip, uv and uvx install it from a folder."""

import os
import subprocess
import sys
import zipfile

import installed
import machine
from checks import Report

# What checks and installs.
TOOLS = "auditwheel==6.8.2 check-wheel-contents==0.6.3 twine==7.0.0 uv==0.13.9".split()


def tools():
    def make(folder):
        machine.run(sys.executable, "-m", "venv", folder)
        machine.run(folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", *TOOLS)

    return machine.kept("python-wheel-tools", [machine.Path(__file__)], make) / "bin"


def check(wheel, names, version, program, work):
    report = Report("wheel")
    bin_ = tools()
    # a wheel that is a program has no library
    with report.check("twine and check-wheel-contents find no fault"):
        machine.run(bin_ / "twine", "check", "--strict", wheel)
        machine.run(bin_ / "check-wheel-contents", "--ignore", "W007", wheel)
    with report.check("its tag is no older than what auditwheel finds in the program"):
        tags = wheel.stem.split("-")[-1].split(".")
        # a static program asks nothing of glibc, and auditwheel looks at what is dynamic alone
        if not any("musllinux" in tag for tag in tags):
            shown = subprocess.run([bin_ / "auditwheel", "show", wheel], capture_output=True, text=True, check=True).stdout
            [tag] = tags
            assert f'constrains the platform tag to "{tag}"' in " ".join(shown.split()), (tag, shown)
    with report.check("it carries the program of the archive, bit for bit"):
        with zipfile.ZipFile(wheel) as archive:
            [name] = [name for name in archive.namelist() if name.endswith("/scripts/lockkeeper")]
            assert archive.read(name) == program.read_bytes()

    environment = {"PATH": f"{bin_}:{os.environ['PATH']}", "HOME": str(work), "UV_NO_CONFIG": "1", "UV_PYTHON": sys.executable}
    with report.check("pip installs it"):
        machine.run(sys.executable, "-m", "venv", work / "venv")
        machine.run(work / "venv" / "bin" / "pip", "install", "--quiet", "--no-index", wheel)
    installed.works(report, "pip", [str(work / "venv" / "bin" / "lockkeeper")], version, work, environment)
    uvx = ["uvx", "--quiet", "--offline", "--find-links", str(wheel.parent), "--from", names["pypi"], "lockkeeper"]
    (work / "uvx").mkdir()
    installed.works(report, "uvx", uvx, version, work / "uvx", environment)
    with report.check("pip uninstalls it"):
        machine.run(work / "venv" / "bin" / "pip", "uninstall", "--quiet", "--yes", names["pypi"])
        assert not (work / "venv" / "bin" / "lockkeeper").exists()
    return report
