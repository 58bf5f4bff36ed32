//! Hash maps for keys that strangers cannot choose, such as random ids, digests and configured names. Each call looks
//! some up, and the standard library's hash, which also withstands chosen keys, costs ten times as much.

use std::collections::HashMap;

pub type FastHash = foldhash::fast::RandomState;

/// A map with that hash.
pub type FastMap<K, V> = HashMap<K, V, FastHash>;
