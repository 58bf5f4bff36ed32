//! Completions for shells.

use super::lockkeeper;

#[test]
fn each_shell_completes_the_values_that_a_command_takes_by_position() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let output = lockkeeper(folder.path(), &["completions", shell], &[]);
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(script.contains("lm-studio"), "the clients of `lockkeeper client`, in {shell}:\n{script}");
    }
}
