//! Hash maps for keys that no stranger chooses, such as random ids, digests and configured names: each call looks some up,
//! and the hash of the standard library, which also withstands chosen keys, costs ten times as much.

use std::collections::HashMap;

/// The hash.
pub type FastHash = foldhash::fast::RandomState;

/// A map with that hash.
pub type FastMap<K, V> = HashMap<K, V, FastHash>;
