//! One run of the counted program under callgrind, and its output.

use std::{
    collections::HashMap,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

use super::pair::Pair;
use crate::process::this_program;

/// The functions of the allocators, in the C library and the program, that allocate memory.
const ALLOCATING: [&str; 9] = [
    "malloc",
    "calloc",
    "realloc",
    "aligned_alloc",
    "memalign",
    "posix_memalign",
    "mi_malloc_aligned",
    "mi_zalloc_aligned",
    "mi_realloc_aligned",
];

/// The cost of all counted calls together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Count {
    pub(super) instructions: u64,
    pub(super) allocations: u64,
}

/// The counts of one run, in the order of `pairs`: the cost of `calls` calls of each.
pub(super) fn run(pairs: &[Pair], calls: u32, profiles: Option<&Path>) -> Result<Vec<Count>> {
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("out");
    let log = fs::File::create(folder.path().join("log"))?;
    let status = Command::new("valgrind")
        .args(["--tool=callgrind", "--dump-before=*counts::subject::mark*"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(this_program()?)
        .arg("subject")
        .args([folder.path().as_os_str(), env!("CARGO_BIN_EXE_lockkeeper").as_ref()])
        .arg(calls.to_string())
        .args(pairs.iter().map(Pair::to_string))
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .status()
        .context("valgrind cannot be run: is it installed?")?;
    let log = || fs::read_to_string(folder.path().join("log")).unwrap_or_default();
    ensure!(status.success(), "{status}\n{}", log());
    let counts = pairs.iter().enumerate().map(|(index, pair)| {
        // two parts for each pair: the first has the opening of a session and the first half of the calls
        let part = folder.path().join(format!("out.{}", 2 * index + 2));
        let text = fs::read_to_string(&part).with_context(|| format!("{pair}: no count\n{}", log()))?;
        if let Some(profiles) = profiles {
            fs::create_dir_all(profiles)?;
            fs::write(profiles.join(format!("{pair}.callgrind")), &text)?;
        }
        Count::parse(&text).with_context(|| pair.to_string())
    });
    counts.collect()
}

impl Count {
    /// Reads the format of callgrind's profiles: each name is defined once, with a number.
    fn parse(profile: &str) -> Result<Self> {
        let mut names = HashMap::new();
        let (mut from, mut to, mut allocations, mut instructions) = ("", "", 0, None);
        for line in profile.lines() {
            if let Some(name) = line.strip_prefix("fn=") {
                from = resolve(name, &mut names);
            } else if let Some(name) = line.strip_prefix("cfn=") {
                to = resolve(name, &mut names);
            } else if let Some(count) = line.strip_prefix("calls=") {
                // an allocator also calls itself
                if ALLOCATING.contains(&to) && !ALLOCATING.contains(&from) && !from.starts_with("mi_") {
                    allocations += count.split(' ').next().unwrap_or_default().parse::<u64>()?;
                }
            } else if let Some(totals) = line.strip_prefix("totals: ") {
                instructions = Some(totals.parse::<u64>()?);
            }
        }
        Ok(Self { instructions: instructions.context("no totals")?, allocations })
    }
}

/// `(7) name` the first time, `(7)` after that.
fn resolve<'a>(text: &'a str, names: &mut HashMap<&'a str, &'a str>) -> &'a str {
    match text.split_once(' ') {
        Some((number, name)) => {
            names.insert(number, name);
            name
        }
        None => names.get(text).copied().unwrap_or_default(),
    }
}
