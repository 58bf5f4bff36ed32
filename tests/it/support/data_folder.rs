//! A data folder of a gateway, which is searched for secrets when the test is over: none may be there in the clear
//! (`OA-117`, `OA-142`). Knows the forms of secrets alone.

use std::{
    fs,
    path::{Path, PathBuf},
};

use memchr::memmem;
use tempfile::TempDir;

/// The start of each kind of secret, and the length from which a text is one.
const FORMS: [(&str, usize); 4] =
    [("lkk_", "lkk_".len() + 58), ("lkr_", "lkr_".len() + 50), ("lkv_", "lkv_".len() + 50), ("eyJ", 120)];

/// A folder that is deleted with the test.
pub(crate) struct DataFolder(TempDir);

// === impl DataFolder ===

impl DataFolder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for DataFolder {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for file in files(self.path()) {
            let content = fs::read(&file).unwrap_or_default();
            assert_eq!(secret(&content), None, "in {}", file.display());
        }
    }
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The start of a secret that is in these bytes.
fn secret(content: &[u8]) -> Option<String> {
    FORMS.into_iter().find_map(|(start, length)| {
        let texts = memmem::find_iter(content, start).map(|at| &content[at..]);
        let mut texts = texts.map(|rest| rest.iter().take_while(|byte| is_of_a_secret(**byte)).copied().collect());
        // sealed texts have these letters too, but no such parts
        let is_whole = |text: &[u8]| match start {
            "eyJ" => memmem::find(text, b".eyJ").is_some(),
            _ => text.split(|byte| *byte == b'_').skip(1).take(2).any(is_random_part),
        };
        let long = texts.find(|text: &Vec<u8>| text.len() >= length && is_whole(text))?;
        Some(format!("{}…", String::from_utf8_lossy(&long[..12])))
    })
}

/// True for the 256 random bits of a secret.
fn is_random_part(part: &[u8]) -> bool {
    part.len() == 43 && part.iter().all(u8::is_ascii_alphanumeric)
}

const fn is_of_a_secret(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

#[test]
fn oa_142_a_secret_in_the_clear_is_found() {
    let key = format!("lkk_0123456789_{}_abcdef", "x".repeat(43));
    let refresh = format!("lkr_{}_abcdef", "x".repeat(43));
    let token = format!("eyJ{}.eyJ{}.{}", "a".repeat(40), "b".repeat(60), "c".repeat(40));
    let invitation = format!("lkv_{}_abcdef", "x".repeat(43));
    for text in [&key, &refresh, &invitation, &token] {
        assert!(secret(format!("\u{1}{text}\u{2}").as_bytes()).is_some(), "{text}");
        assert_eq!(secret(&text.as_bytes()[..40]), None, "{text}");
    }
    assert_eq!(secret(format!("lkk_{}", "x-9_".repeat(40)).as_bytes()), None, "a sealed text");
}
