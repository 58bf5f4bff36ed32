//! Rules for programs: `[programs]`, what is hidden from each, and keys that only programs have.

use std::path::PathBuf;

use lockkeeper::model::Contain;

use super::{errors, load, load_beside};

#[test]
fn a_server_is_contained_as_said_of_all_unless_it_says_otherwise() {
    let text = "[programs]\ncontain = \"off\"\nrequire_containment = true\n[servers.a]\ncommand = \"a\"\n\
                [servers.b]\ncommand = \"b\"\ncontain = \"keys\"\nmemory = \"64MiB\"\ncpu = 50\n";
    let config = load("lockkeeper.toml", text, &[]).unwrap();
    let [a, b] = &config.backends[..] else { panic!("two servers") };
    assert_eq!((a.containment(), b.containment()), (Contain::Off, Contain::Keys));
    assert!(a.programs.is_required && b.programs.is_required);
    assert_eq!((b.memory, b.cpu), (Some(64 << 20), Some(50)));
    let config = load("lockkeeper.toml", "[servers.a]\ncommand = \"a\"\n", &[]).unwrap();
    assert_eq!(config.backends[0].containment(), Contain::Keys);
    assert!(!config.backends[0].programs.is_required);
}

#[test]
fn secrets_that_the_file_names_are_hidden_from_all_but_their_own_server() {
    let text = "[servers.a]\ncommand = \"a\"\nenv = { KEY = \"${file:a.key}\" }\n\
                [servers.b]\ncommand = \"b\"\nenv_file = \"b.env\"\n[servers.c]\nurl = \"https://c.example/mcp\"\n\
                headers = { Authorization = \"Bearer ${file:c.key}\" }\n";
    let files = [("lockkeeper.toml", text), ("a.key", "k"), ("b.env", "A=b"), ("c.key", "k")];
    let config = load_beside(&files, &[]);
    let hidden = |server: usize| {
        let hidden = &config.backends[server].programs.hidden;
        assert_eq!(hidden.folder, Some(PathBuf::from("/data")));
        hidden.files.iter().map(|file| file.file_name().unwrap().to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(hidden(0), ["b.env", "c.key", "lockkeeper.toml"]);
    assert_eq!(hidden(1), ["a.key", "c.key", "lockkeeper.toml"]);
    assert_eq!(config.backends[2].programs.hidden.folder, None, "it is no program");
}

#[test]
fn keys_of_programs_are_refused_elsewhere() {
    for key in
        ["contain = \"off\"", "container = \"node\"", "run_as = \"mcp\"", "open_files = 64", "memory = \"64MiB\""]
    {
        let text = format!("[servers.a]\nurl = \"https://a.example/mcp\"\n{key}\n");
        let said = errors("lockkeeper.toml", &text, &[]);
        assert!(said.contains("this needs a `command`"), "{key}: {said}");
    }
    let said = errors("lockkeeper.toml", "[servers.a]\ncommand = \"a\"\ncontainer = \"--privileged\"\n", &[]);
    assert!(said.contains("this must be the name of an image"), "{said}");
}
