//! Python for the scripted servers, which need nothing but its standard library.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    process::{Command, Stdio},
    sync::LazyLock,
};

use lockkeeper::model::StdioSpec;

/// Leaves out the packages of the machine: looking for them takes longer than all else in a start.
const WITHOUT_PACKAGES: &str = "-S";

/// The interpreter itself: `python3` may be the script of a version manager, which takes longer than the scripted servers.
static INTERPRETER: LazyLock<String> = LazyLock::new(|| {
    let asked = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).stdin(Stdio::null()).output();
    let path = String::from_utf8(asked.expect("the tests need Python").stdout).unwrap();
    path.trim().to_owned()
});

/// The interpreter and the arguments that run a script with `arguments`: its path first, or `-c` and its text.
fn words<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&[INTERPRETER.as_str(), WITHOUT_PACKAGES], arguments].concat()
}

pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(INTERPRETER.as_str());
    command.arg(WITHOUT_PACKAGES).args(arguments);
    command
}

/// The same as the transport of a server.
pub(crate) fn stdio(arguments: &[&str]) -> StdioSpec {
    let mut words = words(arguments).into_iter().map(str::to_owned);
    let command = words.next().unwrap();
    StdioSpec { command, args: words.collect(), env: BTreeMap::new(), cwd: None }
}

/// The same as lines of a server's section.
pub(crate) fn lines(arguments: &[&str]) -> String {
    let StdioSpec { command, args, .. } = stdio(arguments);
    let mut lines = String::new();
    writeln!(lines, "command = {command:?}\nargs = {args:?}").unwrap();
    lines
}
