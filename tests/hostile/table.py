"""The results of the attacks as a table."""

COLUMNS = (
    ("attack", lambda row: row.attack),
    ("from", lambda row: f"{row.kind}/{row.spread}"),
    ("rate/s", lambda row: row.rate),
    ("sent", lambda row: row.attacker.get("sent")),
    ("open", lambda row: row.attacker.get("peak")),
    ("kept ms", lambda row: beside(row, "kept")),
    ("ratio", lambda row: ratio(row, "kept")),
    ("fresh ms", lambda row: beside(row, "fresh")),
    ("ratio", lambda row: ratio(row, "fresh")),
    ("logins", lambda row: row.with_attack.get("login", {}).get("served")),
    ("failed", lambda row: row.failed()),
    ("MiB", lambda row: change(row, "mib")),
    ("fds", lambda row: change(row, "descriptors")),
    ("disk", lambda row: f"{row.before['disk']} > {row.after['disk']}" if row.after else "-"),
    ("verdict", lambda row: "FAILED" if row.faults else "ok"),
)
LEGEND = """\
rate/s: the rate of the attack; sent: its connections or requests; open: most connections at once. kept, fresh: p50/p99 in ms
of calls on a keep-alive connection and on new ones, without > with the attack; ratio: of the p99. logins: served during the
attack. failed: calls and logins that failed during it. MiB, fds: memory and descriptors of the gateway before/peak/after; disk:
its data folder in MiB before > after."""


def beside(row, name):
    times = lambda phase: "/".join(f"{phase[name][part]:.1f}" if phase.get(name, {}).get("p50") is not None else "-" for part in ("p50", "p99"))
    return f"{times(row.without_attack)} > {times(row.with_attack)}"


def ratio(row, name):
    found = row.ratio(name)
    return "-" if found is None else f"{found:.1f}"


def change(row, name):
    return "/".join(f"{when[name]:.0f}" if when else "-" for when in (row.before, row.peak, row.after))


def table(rows):
    cells = [[title for title, _ in COLUMNS]] + [[str(show(row)) for _, show in COLUMNS] for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(len(COLUMNS))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in cells)
