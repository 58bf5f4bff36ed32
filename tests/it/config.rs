//! The `config` module, tested through its public interface.

mod client_files;
mod documentation;
mod errors;
mod formats;
mod former_names;
mod key_tables;
mod precedence;
mod programs;
mod snippets;

use std::path::Path;

use lockkeeper::config::{self, CommandLineOptions, Config, ConfigProblems, Environment};

/// Loads `text` as the file `name` in a separate folder, with these environment variables.
fn load(name: &str, text: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigProblems> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(name), text).unwrap();
    load_in(
        folder.path(),
        &CommandLineOptions { config: Some(name.into()), ..CommandLineOptions::default() },
        variables,
    )
}

/// Loads the first of these files, with the others beside it.
fn load_beside(files: &[(&str, &str)], variables: &[(&str, &str)]) -> Config {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let given = CommandLineOptions { config: Some(files[0].0.into()), ..CommandLineOptions::default() };
    load_in(folder.path(), &given, variables).unwrap()
}

/// Loads the configuration in `folder`, with `given` on the command line and a home folder.
fn load_in(folder: &Path, given: &CommandLineOptions, variables: &[(&str, &str)]) -> Result<Config, ConfigProblems> {
    let given = CommandLineOptions { data_dir: given.data_dir.clone().or(Some("/data".into())), ..given.clone() };
    config::load(&given, &variables.iter().copied().collect::<Environment>(), folder)
}

/// The errors of a file, as a person sees them.
fn errors(name: &str, text: &str, variables: &[(&str, &str)]) -> String {
    load(name, text, variables).unwrap_err().to_string()
}
