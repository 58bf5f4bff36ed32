//! `lockkeeper add NAME npx -y …`: adds the two dashes that people leave out before a program with its own options.

use std::ffi::OsString;

/// Options with a value, before or after the command.
const WITH_VALUE: [&str; 7] = ["--env", "--header", "--config", "-c", "--data-dir", "--log", "--log-format"];

/// The arguments with `--` before the program for `add`. Anything like an address or a `server.json` is not a program.
pub(in crate::cli) fn with_dashes(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if let Some(at) = program(&arguments) {
        arguments.insert(at, "--".into());
    }
    arguments
}

/// The index of a program without dashes before it.
fn program(arguments: &[OsString]) -> Option<usize> {
    let mut words = Vec::new();
    let mut at = 1;
    while let Some(argument) = arguments.get(at) {
        match argument.to_str()? {
            "--" => return None,
            option if WITH_VALUE.contains(&option) => at += 1,
            option if option.starts_with('-') => {}
            word => words.push((at, word)),
        }
        if let [(_, command), _, (at, target)] = words[..] {
            return (command == "add" && !is_place(target)).then_some(at);
        }
        at += 1;
    }
    None
}

/// True for a URL, also without a scheme, and for a `server.json`.
fn is_place(word: &str) -> bool {
    let is_path = word.starts_with(['/', '.', '~']);
    let host = word.split_once('/').map(|(host, _)| host);
    let is_host = host.is_some_and(|host| !is_path && host.contains(['.', ':']));
    word.contains("://") || word.starts_with("unix:") || word.to_ascii_lowercase().ends_with(".json") || is_host
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_gets_the_dashes_that_are_missing() {
        for (written, meant) in [
            ("add files npx -y server /data", "add files -- npx -y server /data"),
            ("add --env A=b files --no-check npx -c x", "add --env A=b files --no-check -- npx -c x"),
            ("-c x.toml add files ./run", "-c x.toml add files -- ./run"),
            ("add files -- npx -y server", "add files -- npx -y server"),
            ("add docs https://docs.example/mcp --header A=b", "add docs https://docs.example/mcp --header A=b"),
            ("add docs docs.example/mcp", "add docs docs.example/mcp"),
            ("add docs ./server.json", "add docs ./server.json"),
            ("add docs", "add docs"),
            ("connect https://a.example/mcp x y", "connect https://a.example/mcp x y"),
        ] {
            let words = |text: &str| std::iter::once("lockkeeper").chain(text.split(' ')).map(OsString::from).collect();
            assert_eq!(with_dashes(words(written)), words(meant) as Vec<OsString>, "{written}");
        }
    }
}
