//! Metrics: what the code counts, what the program says of it, the tables of the page, and the rules for alerts.

use std::{collections::BTreeSet, env, fs, path::Path};

use lockkeeper::telemetry::{DescribedMetric, LabelValues, METRICS, MetricKind, MetricLabel};

/// The page with the tables.
const PAGE: &str = "docs/operations.md";
/// The source of the tables.
const DESCRIPTIONS: &str = "telemetry/described.rs";

const HEADER: [&str; 2] = ["| Metric | Type | Labels | Meaning |", "|---|---|---|---|"];

#[test]
fn every_metric_of_the_code_is_described_and_no_other() {
    let is_metric = |text: &&str| is_name(text) || text.starts_with("process_") && DescribedMetric::of(text).is_some();
    let sources = super::sources();
    let others = sources.iter().filter(|(path, _)| path != DESCRIPTIONS);
    let counted: BTreeSet<String> = others
        .flat_map(|(_, text)| super::code(text).split('"').filter(is_metric).map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let described: BTreeSet<String> = DescribedMetric::all().map(|metric| metric.name.to_owned()).collect();
    assert_eq!(counted, described, "the metrics of the code, and those of {DESCRIPTIONS}");
    assert_eq!(DescribedMetric::all().count(), described.len(), "one is described twice");
}

#[test]
fn names_say_what_prometheus_expects_of_them() {
    for DescribedMetric { name, kind, meaning, .. } in DescribedMetric::all() {
        assert_eq!(name.ends_with("_total"), *kind == MetricKind::Counter, "{name}");
        assert!(!meaning.is_empty() && !meaning.contains(['|', '\n', '\\']), "{name}: {meaning}");
        let is_of_parts = ["_count", "_sum", "_bucket"].iter().any(|end| name.ends_with(end));
        assert!(!is_of_parts, "{name} would be taken for a part of a histogram");
    }
}

/// `UPDATE=1` writes them.
#[test]
fn the_page_has_the_tables_of_the_program() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let found = fs::read_to_string(&path).unwrap();
    let mut page: Vec<String> = found.lines().map(str::to_owned).collect();
    for group in METRICS {
        let heading = format!("### {}", group.title);
        let start = page.iter().position(|line| *line == heading).unwrap_or_else(|| panic!("{PAGE} has no {heading}"));
        let start = start + page[start..].iter().position(|line| line.starts_with('|')).unwrap();
        let end = start + page[start..].iter().position(|line| !line.starts_with('|')).unwrap();
        let rows = group.metrics.iter().map(row);
        page.splice(start..end, HEADER.map(str::to_owned).into_iter().chain(rows));
    }
    let wanted = page.join("\n") + "\n";
    if is_update() {
        fs::write(&path, &wanted).unwrap();
        return;
    }
    let differing = wanted.lines().zip(found.lines()).find(|(wanted, found)| wanted != found);
    let command = "UPDATE=1 cargo test --test it tidy::metrics";
    assert!(
        found == wanted,
        "{PAGE} is not what the program says ({command} writes it): it should have and has {differing:#?}"
    );
    let rows = found.lines().filter(|line| line.starts_with("| `lockkeeper_") || line.starts_with("| `process_"));
    assert_eq!(rows.count(), DescribedMetric::all().count(), "a metric stands in another table of {PAGE} too");
}

#[test]
fn what_pages_and_rules_name_is_a_metric() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/prometheus");
    let rules = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    for path in rules.chain([page]) {
        let text = fs::read_to_string(&path).unwrap();
        let words = text.split(|c: char| !(c.is_ascii_lowercase() || c == '_'));
        let unknown: Vec<&str> = words.filter(|word| is_name(word) && !is_described(word)).collect();
        assert!(unknown.is_empty(), "{}: {unknown:?}", path.display());
    }
}

#[expect(clippy::disallowed_methods, reason = "whoever runs the test asks for the update")]
fn is_update() -> bool {
    env::var_os("UPDATE").is_some()
}

fn is_name(text: &str) -> bool {
    text.strip_prefix("lockkeeper_")
        .is_some_and(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
}

/// True for a metric, and for a part of a histogram.
fn is_described(name: &str) -> bool {
    let parts = ["_bucket", "_sum", "_count"].iter().filter_map(|end| name.strip_suffix(end));
    let is_histogram = |whole: &str| DescribedMetric::of(whole).is_some_and(|one| one.kind == MetricKind::Histogram);
    DescribedMetric::of(name).is_some() || parts.into_iter().any(is_histogram)
}

fn row(metric: &DescribedMetric) -> String {
    let labels: Vec<String> = metric.labels.iter().map(label).collect();
    let labels = if labels.is_empty() { String::new() } else { format!(" {}", labels.join(", ")) };
    format!("| `{}` | {} |{labels} | {} |", metric.name, metric.kind.word(), metric.meaning)
}

fn label(MetricLabel { name, values }: &MetricLabel) -> String {
    match values {
        LabelValues::Servers | LabelValues::Known { of: "", .. } => format!("`{name}`"),
        LabelValues::Fixed(values) => {
            format!("`{name}` ({})", values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", "))
        }
        LabelValues::Known { of, .. } => format!("`{name}` ({of})"),
    }
}
