//! Commands that gain rights from the file system when they start. They do not work in a program that may gain none.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use crate::model::StdioSpec;

/// Such commands, including those whose helper program gains the rights.
const COMMANDS: [&str; 21] = [
    "sudo",
    "sudo-rs",
    "su",
    "doas",
    "pkexec",
    "runuser",
    "gosu",
    "su-exec",
    "setpriv",
    "podman",
    "buildah",
    "distrobox",
    "distrobox-enter",
    "toolbox",
    "flatpak",
    "fusermount",
    "fusermount3",
    "firejail",
    "snap",
    "apptainer",
    "singularity",
];
/// Commands that run another command from their arguments.
const WRAPPERS: [&str; 9] = ["env", "nice", "nohup", "setsid", "stdbuf", "timeout", "ionice", "xvfb-run", "exec"];
/// Shells, which take a command line after `-c`.
const SHELLS: [&str; 5] = ["sh", "bash", "dash", "zsh", "ash"];
/// Mode bits that give a program the rights of the file's owner or group.
const GIVES_RIGHTS: u32 = 0o6000;

/// The command in `program` that must gain rights; `None` if none is known.
pub(super) fn command(program: &StdioSpec, path: &str) -> Option<String> {
    let words: Vec<&str> = [&program.command].into_iter().chain(&program.args).map(String::as_str).collect();
    found_in(&words, path)
}

fn found_in(words: &[&str], path: &str) -> Option<String> {
    let (first, rest) = words.split_first()?;
    let name = Path::new(first).file_name()?.to_str()?;
    if is_privileged(first, name, path) {
        return Some(name.to_owned());
    }
    if SHELLS.contains(&name) {
        let line = rest.iter().skip_while(|word| **word != "-c").nth(1)?;
        return found_in(&line.split_whitespace().collect::<Vec<_>>(), path);
    }
    if WRAPPERS.contains(&name) {
        // an option may have a value, so check every word
        let words = rest.iter().filter(|word| !word.starts_with('-') && !word.contains('='));
        return words
            .filter_map(|word| Path::new(word).file_name()?.to_str())
            .find(|name| COMMANDS.contains(name))
            .map(str::to_owned);
    }
    None
}

fn is_privileged(command: &str, name: &str, path: &str) -> bool {
    let is_image = Path::new(name).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("appimage"));
    if COMMANDS.contains(&name) || is_image || command.starts_with("/snap/bin/") {
        return true;
    }
    let gives_rights = |file: &Path| {
        fs::metadata(file).is_ok_and(|file| file.is_file() && file.permissions().mode() & GIVES_RIGHTS != 0)
    };
    if command.contains('/') {
        return gives_rights(Path::new(command));
    }
    path.split(':')
        .map(|folder| Path::new(folder).join(command))
        .find(|file| file.is_file())
        .is_some_and(|file| gives_rights(&file))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn needed(words: &[&str]) -> Option<String> {
        let (name, args) = words.split_first().unwrap();
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let program = StdioSpec { command: (*name).to_owned(), args, env: BTreeMap::new(), cwd: None };
        command(&program, "")
    }

    #[test]
    fn commands_that_need_more_rights_are_known_also_behind_others() {
        for words in [
            &["sudo", "-n", "server"][..],
            &["/usr/bin/sudo", "server"],
            &["env", "-i", "A=b", "sudo", "server"],
            &["sh", "-ec", "-c", "exec sudo server"],
            &["bash", "-c", "sudo -n server"],
        ] {
            assert_eq!(needed(words).as_deref(), Some("sudo"), "{words:?}");
        }
        assert_eq!(needed(&["podman", "run", "image"]).as_deref(), Some("podman"));
        assert_eq!(needed(&["./Server-1.0.AppImage"]).as_deref(), Some("Server-1.0.AppImage"));
        assert_eq!(needed(&["/snap/bin/server"]).as_deref(), Some("server"));
        for words in [&["npx", "-y", "sudo"][..], &["docker", "run", "-i", "x"], &["sh", "-c", "echo sudo"], &["bwrap"]]
        {
            assert_eq!(needed(words), None, "{words:?}");
        }
    }

    #[test]
    fn a_file_that_gives_rights_is_one_of_them() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("server");
        fs::write(&file, "").unwrap();
        let name = file.to_str().unwrap();
        assert_eq!(needed(&[name]), None);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o4755)).unwrap();
        assert_eq!(needed(&[name]).as_deref(), Some("server"));
    }
}
