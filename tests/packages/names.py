"""The names under which releases are published: packages/published.toml, and the pages that repeat them."""

import re

from checks import Report

# A command of a page, and what it must name.
COMMANDS = {
    r"npx (?:-y )?(lockkeeper\S*)": "npm",
    r"uvx --from (\S+) lockkeeper": "pypi",
    r"ghcr\.io/([\w.-]+/[\w.-]+)": "image",
    r"--repo (\S+)": "repository",
    r"github\.com/(OWNER/[\w.-]+)": "repository",
}


def check(root, published):
    report = Report("names")
    expected = published | {"image": published["repository"].lower()}
    with report.check("the commands of the README and the pages name what packages/published.toml does"):
        wrong, seen = [], set()
        for page in [root / "README.md", *(root / "docs").glob("*.md")]:
            for pattern, kind in COMMANDS.items():
                for found in re.findall(pattern, page.read_text()):
                    seen.add(kind)
                    if found.rstrip(".,)`") != expected[kind]:
                        wrong.append(f"{page.name}: {found}, not {expected[kind]}")
        assert not wrong, wrong
        assert seen == set(COMMANDS.values()), seen
    with report.check("the README says that there is no release as long as nobody has set where"):
        is_set = published["repository"] != "OWNER/REPOSITORY"
        assert is_set != ("(there is none yet)" in (root / "README.md").read_text())
    return report
