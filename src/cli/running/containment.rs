//! The containment of programs as text: a table of the protections, and what is missing. Used by `status` and `check`.

use crate::{
    cli::terminal::{
        output::Style,
        table::{Cell, TextTable},
    },
    model::{ContainmentStatus, Protection, status::BackendStatus},
    support::printable,
};

/// A table of the protections of servers that are programs, and notes, with a blank line above; empty if there are no
/// programs. Programs with the same note share a line.
pub(in crate::cli) fn render(backends: &[BackendStatus], style: Style) -> String {
    let contained: Vec<(&str, &ContainmentStatus)> =
        backends.iter().filter_map(|one| Some((one.id.as_str(), one.containment.as_ref()?))).collect();
    if contained.is_empty() {
        return String::new();
    }
    let mut table = TextTable::new(&["PROGRAM", "CONTAIN", "PROCESSES", "DATA FOLDER", "NO NEW PRIVILEGES"]);
    let mut notes: Vec<(String, Vec<&str>)> = Vec::new();
    for (id, status) in contained {
        let state = |protection: Protection| status.protections.iter().find(|state| state.protection == protection);
        let word = |protection| state(protection).map_or_else(|| "-".to_owned(), ToString::to_string);
        let words = Protection::ALL.map(word).map(Cell::from);
        table.row([id, status.level.as_str()].map(Cell::from).into_iter().chain(words));
        for note in texts(status) {
            match notes.iter_mut().find(|(text, _)| *text == note) {
                Some((_, ids)) => ids.push(id),
                None => notes.push((note, vec![id])),
            }
        }
    }
    let notes = notes.iter().map(|(note, ids)| format!("  {}: {}\n", printable(&ids.join(", ")), printable(note)));
    format!("\n{}{}", table.render(style), notes.collect::<String>())
}

/// Sentences about missing protections, and notes on the others. Protections with the same note share a sentence.
fn texts(status: &ContainmentStatus) -> Vec<String> {
    let mut texts: Vec<(&str, bool, Vec<&str>)> = Vec::new();
    for state in &status.protections {
        let Some(note) = state.note.as_deref() else { continue };
        let (holds, name) = (state.by.is_some(), state.protection.name());
        match texts.iter_mut().find(|(text, its, _)| *text == note && *its == holds) {
            Some((.., names)) => names.push(name),
            None => texts.push((note, holds, vec![name])),
        }
    }
    let text = |(note, holds, names): (&str, bool, Vec<&str>)| {
        let names = names.join(", ");
        if holds { format!("{names}: {note}") } else { format!("not protected: {names}: {note}") }
    };
    texts.into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Mechanism, status::BackendState};

    fn program(id: &str, level: &str, protections: Vec<crate::model::ProtectionState>) -> BackendStatus {
        BackendStatus {
            containment: Some(ContainmentStatus { level: level.to_owned(), protections }),
            ..BackendStatus::new(id.to_owned(), "stdio", BackendState::Ready)
        }
    }

    #[test]
    fn each_program_has_its_protections_and_a_reason_is_given_once() {
        let held = vec![
            Protection::Processes.held(Mechanism::Landlock),
            Protection::DataFolder.held(Mechanism::Namespace),
            Protection::NoNewPrivileges.held(Mechanism::NoNewPrivileges),
        ];
        let off = Protection::ALL.map(|protection| protection.missing("`contain` is \"off\"")).to_vec();
        let mut old = held.clone();
        old[0] = Protection::Processes.held(Mechanism::Landlock).priced("no program in it can mount");
        let programs = [
            program("files", "keys", held),
            program("a", "off", off.clone()),
            program("b", "off", off),
            program("old", "keys", old),
        ];
        insta::assert_snapshot!(render(&programs, Style::Plain), @r#"

        PROGRAM  CONTAIN  PROCESSES  DATA FOLDER  NO NEW PRIVILEGES
        files    keys     landlock   namespace    yes
        a        off      no         no           no
        b        off      no         no           no
        old      keys     landlock   namespace    yes
          a, b: not protected: processes, data folder, no new privileges: `contain` is "off"
          old: processes: no program in it can mount
        "#);
        assert_eq!(render(&[], Style::Plain), "");
    }
}
