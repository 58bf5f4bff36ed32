//! The write-ahead log of a database file: what each transaction wrote (SQLite, File Format, section 4).

use std::{fs, path::Path};

/// The pages that each transaction wrote, in order, since the log began anew. Each is one wait for the disk.
pub(crate) fn transactions(database: &Path) -> Vec<usize> {
    let log = fs::read(database.with_extension("sqlite3-wal")).unwrap_or_default();
    let Some((head, frames)) = log.split_at_checked(32) else { return Vec::new() };
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
    let page = usize::try_from(number(&head[8..12])).unwrap();
    let (mut transactions, mut pages) = (Vec::new(), 0);
    // frames of an earlier log have other salts
    for frame in frames.chunks_exact(24 + page).take_while(|frame| frame[8..16] == head[16..24]) {
        pages += 1;
        if number(&frame[4..8]) != 0 {
            transactions.push(std::mem::take(&mut pages));
        }
    }
    transactions
}
