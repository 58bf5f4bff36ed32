"""`deploy/lockkeeper.service` and its sockets, as systemd reads them."""

import shutil
import subprocess

from checks import Report
from proxy import DEPLOY

# of 100, where 0 is a service that can do nothing
MOST_EXPOSED = 20


def check(binary, work):
    report = Report("systemd")
    if not shutil.which("systemd-analyze"):
        report.lines.append("# systemd: left out, systemd-analyze is not installed")
        return report
    # the program must be where the unit says
    unit = work / "lockkeeper.service"
    unit.write_text((DEPLOY / "lockkeeper.service").read_text().replace("/usr/local/bin/lockkeeper", binary))
    sockets = [shutil.copy(socket, work) for socket in DEPLOY.glob("*.socket")]
    with report.check("systemd finds no fault with the unit and its sockets"):
        done = analyze("verify", "--man=no", unit, *sockets)
        if done.returncode or done.stderr.strip():
            raise AssertionError(done.stderr)
    with report.check(f"the unit is exposed to at most {MOST_EXPOSED / 10}"):
        done = analyze("security", "--offline=yes", "--no-pager", f"--threshold={MOST_EXPOSED}", unit)
        if done.returncode:
            raise AssertionError(done.stdout[-2000:] + done.stderr)
    return report


def analyze(*arguments):
    return subprocess.run(["systemd-analyze", *map(str, arguments)], capture_output=True, text=True)
