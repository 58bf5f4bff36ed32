//! The file of a configured program: where it is, and why it cannot be started, if that can be seen in advance.

use std::{
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
};

use nix::unistd::{AccessFlags, access};

use crate::model::StdioSpec;

/// Number of bytes at the start of a file that are searched for an interpreter.
const HEAD: usize = 256;
/// Offset of the machine type in the header of an ELF file.
const ELF_MACHINE: usize = 18;
/// Machine types of ELF files.
const I386: u16 = 3;
const ARM: u16 = 40;
const X86_64: u16 = 62;
const AARCH64: u16 = 183;
/// First bytes of programs for macOS: for one processor, and for several.
const MACH_O: [&[u8]; 3] = [b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe"];
/// Byte order mark, as editors on Windows write it.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Checks the command of `spec`; `path` is the `PATH` of its environment.
///
/// # Errors
///
/// Why the program cannot be started, and what to do.
pub(super) fn check(spec: &StdioSpec, path: &str) -> Result<(), String> {
    let command = spec.command.as_str();
    let file = match found(spec, path) {
        CommandFile::Program(file) => file,
        CommandFile::Folder(file) => {
            return Err(format!("the command `{command}` is a folder ({}): name the program in it", file.display()));
        }
        CommandFile::NotExecutable(file) => return Err(not_executable(command, &file)),
        CommandFile::Nothing => return Err(not_found(spec)),
    };
    let Some(head) = head_of(&file) else { return Ok(()) };
    if let Some(line) = interpreter(&head) {
        return check_interpreter(command, line, path);
    }
    if head.is_empty() {
        return Err(format!("the command `{command}` is an empty file: install it again"));
    }
    if head.strip_prefix(MARK).is_some_and(|rest| interpreter(rest).is_some()) {
        return Err(format!(
            "`{command}` begins with a byte order mark, so its interpreter is not found: save the file without it"
        ));
    }
    match foreign(&head) {
        Some(what) => Err(format!(
            "the command `{command}` is a program for {what} (Exec format error): install the one for this machine"
        )),
        None => Ok(()),
    }
}

/// Checks a working directory.
///
/// # Errors
///
/// Why no program can be started there, and what to do.
pub(super) fn check_folder(cwd: &Path) -> Result<(), String> {
    if cwd.is_dir() {
        return Ok(());
    }
    let name = cwd.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let cause = if cwd.exists() {
        "is a file: name its folder in `cwd`"
    } else if is_of_windows(&name) {
        "is a path of Windows, which does not exist here: give the path on this machine in `cwd`"
    } else {
        "does not exist: create it or correct `cwd`"
    };
    Err(format!("the working directory `{}` {cause}", cwd.display()))
}

/// What a command refers to.
enum CommandFile {
    Program(PathBuf),
    Folder(PathBuf),
    NotExecutable(PathBuf),
    Nothing,
}

fn found(spec: &StdioSpec, path: &str) -> CommandFile {
    let command = Path::new(&spec.command);
    if spec.command.contains('/') {
        let cwd = spec.cwd.as_deref().unwrap_or(Path::new(""));
        return kind_of(cwd.join(command));
    }
    let mut best = CommandFile::Nothing;
    for folder in path.split(':') {
        match kind_of(Path::new(folder).join(command)) {
            program @ CommandFile::Program(_) => return program,
            CommandFile::NotExecutable(file) => best = CommandFile::NotExecutable(file),
            CommandFile::Folder(_) | CommandFile::Nothing => {}
        }
    }
    best
}

fn kind_of(file: PathBuf) -> CommandFile {
    match fs::metadata(&file) {
        Ok(about) if about.is_dir() => CommandFile::Folder(file),
        Ok(about) if !about.is_file() => CommandFile::Nothing,
        Ok(_) if access(&file, AccessFlags::X_OK).is_ok() => CommandFile::Program(file),
        Ok(_) => CommandFile::NotExecutable(file),
        Err(_) => CommandFile::Nothing,
    }
}

fn not_executable(command: &str, file: &Path) -> String {
    let head = head_of(file).unwrap_or_default();
    let by = match file.extension().and_then(|ending| ending.to_str()) {
        Some("py") => Some("python3"),
        Some("js" | "mjs" | "cjs") => Some("node"),
        Some("sh") => Some("sh"),
        _ => None,
    };
    match by.filter(|_| interpreter(&head).is_none()) {
        Some(by) => {
            format!("the command `{command}` may not be run: put `{by}` into `command` and the file into `args`")
        }
        None => format!("the command `{command}` may not be run: make it executable"),
    }
}

fn not_found(spec: &StdioSpec) -> String {
    let command = spec.command.as_str();
    let base = command.strip_suffix(".exe").or_else(|| command.strip_suffix(".cmd")).unwrap_or(command);
    if base.eq_ignore_ascii_case("cmd") && spec.args.first().is_some_and(|first| first.eq_ignore_ascii_case("/c")) {
        let program = spec.args.get(1).map_or("the program", String::as_str);
        return format!(
            "`cmd /c` exists on Windows alone: put `{program}` into `command`, and what follows it into `args`"
        );
    }
    if is_of_windows(command) {
        return format!(
            "the command `{command}` is a path of Windows, which does not exist here: give the path on this machine"
        );
    }
    if command.starts_with("~/") {
        return format!("the command `{command}` was not found: `~` stands for no folder here, give its full path");
    }
    if command.contains(char::is_whitespace) {
        return format!("the command `{command}` was not found: put its arguments into `args`");
    }
    format!("the command `{command}` was not found: install it, or give its full path in `command`")
}

/// Checks the interpreter in the first line of a file.
fn check_interpreter(command: &str, line: &[u8], path: &str) -> Result<(), String> {
    let line = String::from_utf8_lossy(line);
    if line.ends_with('\r') {
        return Err(format!(
            "the first line of `{command}` ends as on Windows, so its interpreter is not found: give the file line ends of Unix (`dos2unix`)"
        ));
    }
    let mut words = line.split_whitespace();
    let Some(interpreter) = words.next() else { return Ok(()) };
    let missing = |name: &str| {
        format!(
            "the command `{command}` needs `{name}`, which its first line names and which was not found: install it"
        )
    };
    if !Path::new(interpreter).exists() {
        return Err(missing(interpreter));
    }
    let by_env = interpreter
        .ends_with("/env")
        .then(|| words.find(|word| !word.starts_with('-') && !word.contains('=')))
        .flatten();
    match by_env {
        Some(name) if !name.contains('/') && path.split(':').all(|folder| !Path::new(folder).join(name).exists()) => {
            Err(missing(name))
        }
        _ => Ok(()),
    }
}

/// True for a path in the style of Windows.
fn is_of_windows(path: &str) -> bool {
    path.contains('\\') || path.get(1..2) == Some(":")
}

/// The first [`HEAD`] bytes of a file; `None` if it cannot be read.
fn head_of(file: &Path) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    File::open(file).and_then(|file| file.take(HEAD as u64).read_to_end(&mut head)).ok()?;
    Some(head)
}

/// The first line after `#!`; `None` if there is no `#!`.
fn interpreter(head: &[u8]) -> Option<&[u8]> {
    let line = head.strip_prefix(b"#!")?;
    line.split(|byte| *byte == b'\n').next()
}

/// The system or processor that a program is for, if this machine cannot run it.
fn foreign(head: &[u8]) -> Option<&'static str> {
    if head.starts_with(b"MZ") {
        return Some("Windows");
    }
    let is_mac = cfg!(target_os = "macos");
    if !is_mac && MACH_O.iter().any(|begin| head.starts_with(begin)) {
        return Some("macOS");
    }
    if !head.starts_with(b"\x7fELF") {
        return None;
    }
    if is_mac {
        return Some("Linux");
    }
    // 64-bit processors also run 32-bit programs
    let own = match std::env::consts::ARCH {
        "x86_64" => [X86_64, I386],
        "aarch64" => [AARCH64, ARM],
        _ => return None,
    };
    let machine = head.get(ELF_MACHINE..ELF_MACHINE + 2)?;
    let is_own = own.iter().any(|own| machine == own.to_le_bytes());
    (!is_own).then_some("another kind of processor")
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, os::unix::fs::PermissionsExt as _};

    use super::*;

    fn spec(command: &str, args: &[&str]) -> StdioSpec {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        StdioSpec { command: command.to_owned(), args, env: BTreeMap::new(), cwd: None }
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told_before_it_is_started() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &[u8], mode: u32| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path.display().to_string()
        };
        let elf = |bits: u8, machine: u8| {
            let mut elf = vec![0x7f, b'E', b'L', b'F', bits, 1, 1];
            elf.resize(64, 0);
            elf[ELF_MACHINE] = machine;
            elf
        };
        let cases = [
            (folder.path().display().to_string(), "is a folder"),
            (file("plain", b"x", 0o644), "make it executable"),
            (file("server.py", b"print(1)", 0o644), "put `python3` into `command`"),
            (file("crlf", b"#!/bin/sh\r\necho\r\n", 0o755), "ends as on Windows"),
            (file("lost", b"#!/opt/none/python3\n", 0o755), "needs `/opt/none/python3`"),
            (file("env", b"#!/usr/bin/env -S none-such --x\n", 0o755), "needs `none-such`"),
            (file("mips", &elf(2, 8), 0o755), "for another kind of processor (Exec format error)"),
            (file("small-mips", &elf(1, 8), 0o755), "for another kind of processor (Exec format error)"),
            (file("server.exe", b"MZ\x90", 0o755), "for Windows (Exec format error)"),
            (file("empty", b"", 0o755), "is an empty file"),
            (file("marked", b"\xef\xbb\xbf#!/bin/sh\necho\n", 0o755), "begins with a byte order mark"),
            (folder.path().join("none").display().to_string(), "was not found"),
            ("none-such".to_owned(), "install it, or give its full path"),
            ("npx -y x".to_owned(), "put its arguments into `args`"),
            ("~/bin/server".to_owned(), "`~` stands for no folder here"),
            (r"C:\tools\server.exe".to_owned(), "a path of Windows"),
        ];
        for (command, told) in cases {
            let reason = check(&spec(&command, &[]), "/usr/bin:/bin").unwrap_err();
            assert!(reason.contains(told), "{command}: {reason}");
        }
        let reason = check(&spec("cmd", &["/c", "npx", "-y"]), "/usr/bin:/bin").unwrap_err();
        assert!(reason.contains("put `npx` into `command`"), "{reason}");
        #[cfg(not(target_os = "macos"))]
        {
            let reason = check(&spec(&file("mac", b"\xcf\xfa\xed\xfe\x0c", 0o755), &[]), "/usr/bin").unwrap_err();
            assert!(reason.contains("for macOS (Exec format error)"), "{reason}");
        }
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        assert_eq!(check(&spec(&file("of-32-bits", &elf(1, 3), 0o755), &[]), "/usr/bin"), Ok(()));
        for fine in [file("fine", b"#!/bin/sh\necho\n", 0o755), file("no-mark", b"echo\n", 0o755), "sh".to_owned()] {
            assert_eq!(check(&spec(&fine, &[]), "/usr/bin:/bin"), Ok(()), "{fine}");
        }
        for (cwd, told) in [
            ("fine", "is a file: name its folder"),
            ("none", "create it or correct"),
            (r"C:\Users\me", "a path of Windows"),
        ] {
            let reason = check_folder(&folder.path().join(cwd)).unwrap_err();
            assert!(reason.contains(told), "{cwd}: {reason}");
        }
        assert_eq!(check_folder(folder.path()), Ok(()));
        let inside = StdioSpec { cwd: Some(folder.path().to_owned()), ..spec("./fine", &[]) };
        assert_eq!(check(&inside, "/usr/bin:/bin"), Ok(()));
    }
}
