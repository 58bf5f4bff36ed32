//! A whole list of one backend, as received and as the merged endpoint shows it.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use url::Origin;

use crate::{
    gateway::{hints::CacheHints, names, rewrite::Rewriter},
    mcp::{
        Facts, Feature, ListKind, Payload, Revision, ServerOrigin, ToolHint,
        json::{self, Object},
        methods::places,
        mirrored_params::Mirrored,
        translate::{self, Checked, LeftOut, Omitted, Profile, ValidIn},
    },
    model::{BackendId, status::EmptyList},
    support::{
        Account, Digest,
        memory::{Charge, Exhausted},
    },
};

/// Maximum number of entries of one list.
pub(super) const MAX_ENTRIES: usize = 100_000;

/// Everything of one kind that one backend offers.
#[derive(Debug, Default)]
pub(crate) struct List {
    /// Entries, in the backend's order.
    pub(crate) entries: Vec<ListEntry>,
    /// Version of the entries; `None` if the backend was not asked.
    pub(crate) revision: Option<Revision>,
    /// The server that wrote them, if known.
    origin: Option<ServerOrigin>,
    /// Cache hints; `None` if the backend was not asked.
    pub(crate) hints: Option<CacheHints>,
    /// The unchanged result, if one page held all entries.
    pub(crate) whole: Option<Payload>,
    conversions: Conversions,
    /// Position of each entry whose merged name was shortened.
    short: HashMap<String, usize>,
    /// Tools with parameters that clients mirror, by name.
    mirrored: HashMap<String, Mirrored>,
    /// Names of tools whose output schema is wrapped for clients whose version allows only objects as structured
    /// output.
    wrapped: HashSet<String>,
    /// Entries hidden from all clients, or from clients of some versions.
    left_out: Omitted,
    /// Names or URIs of all entries; filled from the second page on.
    keys: HashSet<String>,
    /// Positions of the entries in the order of their keys; filled by the first search.
    by_key: OnceLock<Vec<usize>>,
    /// What the server says of each tool; filled by the first question.
    tool_hints: OnceLock<Vec<ToolHint>>,
    /// Positions and origins of resources and templates that are web addresses.
    web: Vec<(usize, Option<Origin>)>,
    /// Digest of its pages as received; `None` if there were none.
    pub(super) written: Option<Digest>,
    /// Memory charged for its pages.
    charge: Option<Charge>,
    /// Why there are no entries, unless the server sent an empty list.
    absence: Option<EmptyList>,
    /// True if the server marks it as private to its reader.
    pub(super) is_for_reader_only: bool,
    /// True if an earlier run fetched it.
    pub(crate) is_remembered: bool,
}

/// The entries of one list, in order; `None` for an entry that the version cannot express.
pub(crate) type ConvertedEntries = Arc<[Option<Bytes>]>;

/// The entries of a list in other versions, by version and profile: at most one for each pair.
#[derive(Debug, Default)]
struct Conversions(Mutex<Vec<(Revision, Profile, ConvertedEntries)>>);

#[derive(Debug)]
pub(crate) struct ListEntry {
    pub(crate) key: String,
    /// The bytes that the backend wrote.
    pub(crate) raw: Bytes,
    /// The same with the names and URIs of the merged endpoint.
    pub(crate) merged: Bytes,
    /// Versions whose clients see the entry.
    pub(crate) valid_in: ValidIn,
}

/// Result of adding a page to a list with limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageFit {
    Whole,
    /// The list is full; the remaining entries were dropped.
    Cut,
}

// === impl List ===

impl List {
    pub(crate) fn empty() -> Self {
        Self::default()
    }

    /// An empty list, for entries of an earlier run.
    pub(super) fn remembered() -> Self {
        Self { is_remembered: true, ..Self::default() }
    }

    /// An empty list, for this reason.
    pub(crate) fn absent(reason: EmptyList) -> Self {
        Self { absence: Some(reason), ..Self::default() }
    }

    /// Why there are no entries; `None` if there are some.
    pub(crate) fn emptiness(&self) -> Option<EmptyList> {
        if !self.entries.is_empty() {
            return None;
        }
        Some(match (&self.absence, self.left_out.count()) {
            (Some(absence), _) => absence.clone(),
            (None, 0) => EmptyList::Nothing,
            (None, entries) => EmptyList::LeftOut { entries },
        })
    }

    /// Adds the entries of another page, with merged names of at most `longest_name` characters. Returns `Cut` if the
    /// list would exceed [`MAX_ENTRIES`]. If the backend changes its version between two pages, the list keeps the
    /// version of the first.
    pub(crate) fn add(&mut self, page: &Payload, kind: ListKind, backend: &BackendId, longest_name: usize) -> PageFit {
        let hints = CacheHints::of(page);
        self.is_for_reader_only |= CacheHints::is_for_reader_only(page);
        self.hints = Some(self.hints.map_or(hints, |before| before.and(hints)));
        let method = kind.method();
        let most = MAX_ENTRIES.saturating_sub(self.entries.len());
        let Checked { page, left_out, is_cut } =
            translate::checked(&method, page.clone().with_whole_characters(), most);
        self.left_out.extend(left_out);
        self.whole = self.entries.is_empty().then(|| page.clone());
        let revision = *self.revision.get_or_insert(page.revision);
        self.origin = page.origin().cloned();
        let facts = Facts::new(translate::Kind::Result, &method);
        let Ok(page) = page.into_revision(revision, &facts).inspect_err(translate::Untranslatable::report) else {
            return PageFit::Whole;
        };
        if kind == ListKind::Tools && page.revision.has(Feature::AnyOutput) {
            self.wrapped.extend(translate::wrapped_tools(&page));
        }
        let Some(entries) = entries(&page, kind, backend, longest_name) else {
            self.absence = Some(EmptyList::Malformed);
            return PageFit::Whole;
        };
        if is_cut {
            self.whole = None;
        }
        let is_further = !self.entries.is_empty();
        if is_further && self.keys.is_empty() {
            self.keys = self.entries.iter().map(|entry| entry.key.clone()).collect();
        }
        let mut on_page = HashSet::with_capacity(entries.len());
        for entry in entries {
            // clients and model providers refuse a list with duplicate names
            if !on_page.insert(entry.key.clone()) {
                let reason = "its server lists this name twice on one page: the first one is shown".to_owned();
                self.left_out.push(LeftOut::new(&entry.key, reason));
                self.whole = None;
                continue;
            }
            // a server may repeat a page, or move an entry to a later page during the fetch
            if is_further && !self.keys.insert(entry.key.clone()) {
                continue;
            }
            if matches!(kind, ListKind::Tools | ListKind::Prompts) {
                let shown = names::merged_name(backend, &entry.key, longest_name);
                if names::split_name(&shown).is_some_and(|(_, rest)| rest != entry.key) {
                    self.short.entry(shown).or_insert(self.entries.len());
                }
            }
            if matches!(kind, ListKind::Resources | ListKind::Templates) && names::is_web(&entry.key) {
                self.web.push((self.entries.len(), names::web_origin(&entry.key)));
            }
            if kind == ListKind::Tools
                && let Some(mirrored) = Mirrored::of_tool(&entry.raw)
            {
                self.mirrored.insert(entry.key.clone(), mirrored);
            }
            if let Some(reason) = entry.valid_in.exceptions() {
                self.left_out.push(LeftOut::new(&entry.key, reason));
            }
            self.entries.push(entry);
        }
        if is_cut { PageFit::Cut } else { PageFit::Whole }
    }

    /// Charges the server's account for a page: for its text, and again for the text with merged names.
    ///
    /// # Errors
    ///
    /// If there is no memory for it.
    pub(crate) fn hold(&mut self, page: &Payload, account: &Account) -> Result<(), Exhausted> {
        self.charge.get_or_insert_with(|| Charge::nothing(account.clone())).grow(2 * page.json().len())?;
        let before = self.written.map(|digest| *digest.as_bytes()).unwrap_or_default();
        let text = Digest::sha256(page.json());
        self.written = Some(Digest::sha256([&before, text.as_bytes(), page.revision.as_str().as_bytes()].concat()));
        Ok(())
    }

    /// All entries as one page, for a later run.
    pub(super) fn as_page(&self, kind: ListKind) -> Payload {
        if let Some(whole) = &self.whole {
            return whole.clone();
        }
        let entries: Vec<&[u8]> = self.entries.iter().map(|entry| entry.raw.as_ref()).collect();
        let text = [format!("{{\"{}\":[", kind.member()).as_bytes(), &entries.join(&b","[..]), b"]}"].concat();
        Payload::new(self.revision.unwrap_or(Revision::NEWEST_LEGACY), text.into())
    }

    /// Records that the list ends here because its server repeats a cursor.
    pub(crate) fn ends_in_loop(&mut self) {
        let reason = "its server repeats a `nextCursor`: the list ends at the page that did so".to_owned();
        self.left_out.push(LeftOut::new("", reason));
    }

    /// The entries with the names of the merged endpoint, for a client of `revision`. A merged list has a single
    /// version but holds entries of several versions, so each entry is translated separately, once for all clients with
    /// the same version and profile.
    pub(crate) fn converted(&self, kind: ListKind, revision: Revision, profile: Profile) -> ConvertedEntries {
        if let Some(converted) = self.conversion(revision, profile) {
            return converted;
        }
        let converted: ConvertedEntries =
            self.entries.iter().map(|entry| self.convert(entry, kind, revision, profile)).collect();
        let mut conversions = self.conversions.0.lock();
        if conversions.iter().all(|(of, with, _)| (*of, *with) != (revision, profile)) {
            conversions.push((revision, profile, Arc::clone(&converted)));
        }
        converted
    }

    /// Number of bytes that [`Self::converted`] would translate; 0 if they are translated already or need no
    /// translation.
    pub(crate) fn untranslated(&self, revision: Revision, profile: Profile) -> usize {
        let is_written = self.revision.is_none_or(|written| written == revision);
        if is_written || self.conversion(revision, profile).is_some() {
            return 0;
        }
        self.entries.iter().map(|entry| entry.merged.len()).sum()
    }

    fn conversion(&self, revision: Revision, profile: Profile) -> Option<ConvertedEntries> {
        let conversions = self.conversions.0.lock();
        let mut alike = conversions.iter().filter(|(of, with, _)| (*of, *with) == (revision, profile));
        alike.next().map(|(.., converted)| Arc::clone(converted))
    }

    fn convert(&self, entry: &ListEntry, kind: ListKind, revision: Revision, profile: Profile) -> Option<Bytes> {
        if !entry.valid_in.has(revision) {
            return None;
        }
        if self.revision.is_none_or(|written| written == revision) {
            return Some(entry.merged.clone());
        }
        let method = kind.method();
        let facts = Facts { profile, ..Facts::new(translate::Kind::Result, &method) };
        let alone = [format!("{{\"{}\":[", kind.member()).as_bytes(), &entry.merged, b"]}"].concat();
        let alone = Payload::new(self.revision?, alone.into());
        let converted = alone.into_revision(revision, &facts);
        let converted = converted.inspect_err(|refusal| refusal.clone().of(self.origin.as_ref()).report()).ok()?;
        let object = Object::parse(converted.json())?;
        let inner = object.get(kind.member())?.strip_prefix('[')?.strip_suffix(']')?.trim().as_bytes();
        match inner {
            [] => None,
            same if same == entry.merged => Some(entry.merged.clone()),
            other => Some(Bytes::copy_from_slice(other)),
        }
    }

    /// Entries hidden from clients, with the reasons.
    pub(crate) const fn left_out(&self) -> &Omitted {
        &self.left_out
    }

    /// True if the entry with this own name is hidden from clients of `revision`. If too many entries were hidden to
    /// record all their names, this is true for every entry that is not shown.
    pub(crate) fn leaves_out(&self, name: &str, revision: Revision) -> bool {
        let may_be_left_out = self.left_out.is_cut() || self.left_out.first().iter().any(|entry| entry.name == name);
        may_be_left_out && !self.shows(name, revision)
    }

    /// True if clients of `revision` see an entry with this own name.
    pub(crate) fn shows(&self, name: &str, revision: Revision) -> bool {
        self.named(name).any(|entry| entry.valid_in.has(revision))
    }

    /// Positions, URIs and origins of resources and templates that are web addresses.
    pub(crate) fn web(&self) -> impl Iterator<Item = (usize, &str, Option<&Origin>)> {
        self.web.iter().map(|(at, origin)| (*at, self.entries[*at].key.as_str(), origin.as_ref()))
    }

    /// The entries with this own name.
    fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a ListEntry> {
        let key = |at: usize| self.entries[at].key.as_str();
        let by_key = self.by_key.get_or_init(|| {
            let mut places: Vec<usize> = (0..self.entries.len()).collect();
            places.sort_by(|one, other| key(*one).cmp(key(*other)));
            places
        });
        let first = by_key.partition_point(|at| key(*at) < name);
        by_key[first..].iter().map(|at| &self.entries[*at]).take_while(move |entry| entry.key == name)
    }

    /// The original name for a shortened merged name.
    pub(crate) fn unshorten(&self, shown: &str) -> Option<&str> {
        self.short.get(shown).map(|at| self.entries[*at].key.as_str())
    }

    /// True if a tool mirrors parameters.
    pub(super) fn mirrors_params(&self) -> bool {
        !self.mirrored.is_empty()
    }

    /// The mirrored parameters of a tool, if it has any.
    pub(crate) fn mirrored(&self, name: &str) -> Option<&Mirrored> {
        self.mirrored.get(name)
    }

    /// True if this tool's output schema is wrapped for clients whose version allows only objects as structured output;
    /// `None` if there is no such tool.
    pub(crate) fn wraps_output_of(&self, name: &str) -> Option<bool> {
        self.wrapped.contains(name).then_some(true).or_else(|| self.named(name).next().map(|_| false))
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// What the server says of each tool, in the order of the entries.
    pub(crate) fn tool_hints(&self) -> &[ToolHint] {
        self.tool_hints.get_or_init(|| self.entries.iter().map(|entry| ToolHint::of(&entry.raw)).collect())
    }
}

/// Two lists are equal if clients cannot tell them apart.
impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        let alike = |(one, other): (&ListEntry, &ListEntry)| one.raw == other.raw;
        let (ours, theirs) = (&self.entries, &other.entries);
        self.revision == other.revision && ours.len() == theirs.len() && ours.iter().zip(theirs).all(alike)
    }
}

/// The entries of one page; `None` if it has no list.
fn entries(page: &Payload, kind: ListKind, backend: &BackendId, longest_name: usize) -> Option<Vec<ListEntry>> {
    let object = page.object()?;
    let elements: Vec<&RawValue> = serde_json::from_str(object.get(kind.member())?).ok()?;
    let entry = |text: &str| {
        let key = Object::parse(text.as_bytes())?.string(kind.key())?;
        let raw = page.json().slice_ref(text.as_bytes());
        let merged = merged(&raw, page.revision, kind, backend, longest_name);
        let valid_in = ValidIn::of(&kind.method(), text, page.revision);
        Some(ListEntry { key, raw, merged, valid_in })
    };
    Some(elements.into_iter().filter_map(|element| entry(element.get())).collect())
}

fn merged(raw: &Bytes, revision: Revision, kind: ListKind, backend: &BackendId, longest_name: usize) -> Bytes {
    let rewriter = Rewriter { backend: backend.clone(), names_server: false };
    let entry = Payload::new(revision, raw.clone());
    let name =
        |text: &str| json::unquote(text).map(|name| json::quote(&names::merged_name(backend, &name, longest_name)));
    let entry = match kind {
        ListKind::Tools | ListKind::Prompts => entry.rewrite(&[places::NAME], name),
        ListKind::Resources | ListKind::Templates => entry,
    };
    entry.rewrite(kind.uris(), |text| rewriter.uri(text)).json().clone()
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn list(kind: ListKind, text: &'static str) -> List {
        let page = Payload::new(Revision::V2025_11_25, Bytes::from_static(text.as_bytes()));
        let mut list = List::empty();
        list.add(&page, kind, &BackendId::parse("b1").unwrap(), 64);
        list
    }

    fn shown(list: &List) -> String {
        let texts: Vec<_> = list.entries.iter().map(|entry| String::from_utf8_lossy(&entry.merged)).collect();
        texts.join("\n")
    }

    #[test]
    fn half_a_character_of_one_server_does_not_break_the_list_of_all() {
        let list = list(
            ListKind::Tools,
            r#"{"tools":[{"name":"a","description":"cut \ud83d","inputSchema":{}},{"name":"b","title":"\ud83d\ude00","inputSchema":{}}]}"#,
        );
        let shown = shown(&list);
        assert!(shown.contains(r#""cut \ufffd""#) && shown.contains(r#""\ud83d\ude00""#), "{shown}");
    }

    proptest! {
        #[test]
        fn every_listed_name_leads_back_to_its_tool(
            names in vec("[a-z_]{1,4}|.{0,40}|[a-z.]{50,80}|[a-z]{0,3}_[0-9a-f]{8}", 0..12)
        ) {
            let b1 = BackendId::parse("b1").unwrap();
            let tools: Vec<_> = names.iter().map(|name| serde_json::json!({ "name": name })).collect();
            let mut list = List::empty();
            let page = Payload::of(Revision::V2025_11_25, &serde_json::json!({ "tools": tools }));
            list.add(&page, ListKind::Tools, &b1, 64);
            let mut listed = HashSet::new();
            let names: Vec<_> = names.iter().filter(|name| listed.insert(*name)).collect();
            prop_assert_eq!(list.len(), names.len());
            for (entry, name) in list.entries.iter().zip(names) {
                let shown = Object::parse(&entry.merged).unwrap().string("name").unwrap();
                let rest = names::split_name(&shown).unwrap().1;
                let original = if names::may_be_short(rest) { list.unshorten(&shown).unwrap_or(rest) } else { rest };
                prop_assert_eq!((&entry.key, original), (name, name.as_str()));
            }
        }
    }

    #[test]
    fn a_name_that_is_twice_on_a_page_is_listed_once_and_the_other_one_is_reported() {
        for (kind, member, key) in [
            (ListKind::Tools, "tools", "name"),
            (ListKind::Prompts, "prompts", "name"),
            (ListKind::Resources, "resources", "uri"),
        ] {
            let entry = |key_of: &str, about: &str| serde_json::json!({ key: key_of, "name": key_of, "description": about, "inputSchema": { "type": "object" } });
            let page = serde_json::json!({ member: [entry("a:x", "one"), entry("a:y", "other"), entry("a:x", "two")] });
            let mut list = List::empty();
            list.add(&Payload::of(Revision::V2025_11_25, &page), kind, &BackendId::parse("b1").unwrap(), 64);
            let shown: Vec<_> =
                list.entries.iter().map(|entry| String::from_utf8_lossy(&entry.raw).contains("one")).collect();
            assert_eq!(shown, [true, false], "{member}");
            assert!(list.whole.is_none());
            assert_eq!(list.left_out().first().iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["a:x"]);
        }
    }

    #[test]
    fn entries_are_copied_but_for_names_and_uris() {
        let tools = list(
            ListKind::Tools,
            r#"{"tools":[ { "name" : "a","x":1.00,"inputSchema":{"name":"a"},"name":"a", "_meta":{"ui":{"resourceUri":"ui://p"},"openai/outputTemplate":"ui://q"}} ,{"title":"no name"}, 7,{"name":"repo.log"}]}"#,
        );
        assert_snapshot!(shown(&tools), @r#"
        { "x":1.00,"inputSchema":{"name":"a","type":"object"},"name":"b1__a", "_meta":{"ui":{"resourceUri":"ui://b1+p"},"openai/outputTemplate":"ui://b1+q"}}
        {"name":"b1__repo_log_0823bac8","inputSchema":{"type":"object"}}
        "#);
        assert_eq!(tools.unshorten("b1__repo_log_0823bac8"), Some("repo.log"));
        let resources =
            list(ListKind::Resources, r#"{"resources":[{"uri":"file:///a","name":"a"},{"uri":"https://x/y"}]}"#);
        assert_snapshot!(shown(&resources), @r#"
        {"uri":"b1+file:///a","name":"a"}
        {"uri":"https://x/y","name":"https://x/y"}
        "#);
        let templates =
            list(ListKind::Templates, r#"{"resourceTemplates":[{"uriTemplate":"file:///{p}","name":"f"}]}"#);
        assert_snapshot!(shown(&templates), @r#"{"uriTemplate":"b1+file:///{p}","name":"f"}"#);
    }
}
