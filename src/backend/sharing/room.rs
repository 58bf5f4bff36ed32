//! Room for one more entry in a table that users share. An eighth is kept for users without entries. If the table is
//! full, the user with the most entries loses the one that was idle longest.

use std::{cmp::Reverse, collections::HashMap};

use tokio::time::Instant;

use crate::model::UserId;

#[derive(Debug)]
pub(crate) struct TakenPlace<'a, K> {
    /// Key of the entry.
    pub(crate) key: &'a K,
    /// User who has the entry.
    pub(crate) user: &'a UserId,
    /// The time of the last use; `None` while it is in use.
    pub(crate) idle_since: Option<Instant>,
}

/// Why there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Full {
    /// All places are in use.
    #[error("all {0} sessions that it may have are in use; try again later, or raise `server_sessions` in `[limits]`")]
    All(usize),
    /// All places are in use, except those kept for users without entries.
    #[error(
        "{taken} of the {most} sessions that it may have are in use, and the others are kept for users who have none; \
         end some of yours, try again later, or raise `server_sessions` in `[limits]`"
    )]
    Kept {
        /// Number of places in use.
        taken: usize,
        /// Number of places of the table.
        most: usize,
    },
}

/// Finds room for an entry of `user` in a table with the entries `taken` and `most` places. Returns the key of the
/// entry to end, or `None` if a place is free. Entries in use stay, and so do those of other users who have no more
/// entries than `user`.
pub(crate) fn find_room<'a, K: Clone + 'a>(
    user: &UserId,
    most: usize,
    taken: impl Iterator<Item = TakenPlace<'a, K>>,
) -> Result<Option<K>, Full> {
    let taken: Vec<TakenPlace<'a, K>> = taken.collect();
    let own = taken.iter().filter(|place| place.user == user).count();
    let allowed = if own == 0 { most } else { most - most / 8 };
    if taken.len() < allowed {
        return Ok(None);
    }
    let mut counts: HashMap<&UserId, usize> = HashMap::new();
    for place in &taken {
        *counts.entry(place.user).or_default() += 1;
    }
    let count = |place: &TakenPlace<'_, K>| counts[place.user];
    let idle = taken.iter().filter_map(|place| Some((place.idle_since?, place)));
    let gives_way = idle.filter(|(_, place)| place.user == user || count(place) > own);
    let first = gives_way.max_by_key(|(since, place)| (count(place), Reverse(*since)));
    match first {
        Some((_, place)) => Ok(Some(place.key.clone())),
        None if taken.len() < most => Err(Full::Kept { taken: taken.len(), most }),
        None => Err(Full::All(most)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A table whose entries have a user, a number in the order of last use, and a flag if in use.
    struct Table(Vec<(UserId, u64, bool)>);

    impl Table {
        fn of(entries: impl IntoIterator<Item = (&'static str, u64, bool)>) -> Self {
            Self(entries.into_iter().map(|(user, number, in_use)| (UserId::new(user), number, in_use)).collect())
        }

        /// Number of the entry that makes room for one of this user; 0 if a place is free.
        fn room(&self, start: Instant, user: &str, most: usize) -> Result<u64, Full> {
            let taken = self.0.iter().map(|(user, number, in_use)| TakenPlace {
                key: number,
                user,
                idle_since: (!in_use).then(|| start + Duration::from_secs(*number)),
            });
            find_room(&UserId::new(user), most, taken).map(Option::unwrap_or_default)
        }
    }

    #[test]
    fn whoever_has_the_most_gives_way_with_what_is_idle() {
        let now = Instant::now();
        let full = Table::of([
            ("ann", 1, false),
            ("hostile", 2, true),
            ("hostile", 3, false),
            ("hostile", 4, false),
            ("bob", 5, true),
            ("bob", 6, false),
        ]);
        assert_eq!(full.room(now, "new", 6), Ok(3), "the hostile one has the most");
        assert_eq!(full.room(now, "ann", 6), Ok(3));
        assert_eq!(full.room(now, "hostile", 6), Ok(3), "never somebody else's");
        let busy = Table::of([("hostile", 1, true), ("hostile", 2, true), ("ann", 3, false)]);
        assert_eq!(busy.room(now, "hostile", 3), Err(Full::All(3)), "those with fewer keep theirs");
        assert_eq!(busy.room(now, "bob", 3), Ok(3), "where those with more use all of theirs");
        assert_eq!(busy.room(now, "ann", 3), Ok(3), "her own");
    }

    #[test]
    fn an_eighth_is_kept_for_users_who_have_none() {
        let now = Instant::now();
        let most = Table::of((1..=14).map(|number| ("hostile", number, true)));
        assert_eq!(most.room(now, "hostile", 16), Err(Full::Kept { taken: 14, most: 16 }));
        assert_eq!(most.room(now, "ann", 16), Ok(0));
    }
}
