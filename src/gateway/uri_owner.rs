//! The owner of a web address: `https://` resources keep their URI on the merged endpoint, so origins and lists
//! determine their owner (`translation` section 5).
//!
//! The owner is the server whose URL has the same origin; otherwise the first in configured order that lists the
//! address; otherwise the first with a matching template. So a server cannot take over another's resource by listing
//! it.

use std::collections::{HashMap, HashSet};

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use url::{Origin, Url};

use super::{
    access::VisibleBackend,
    backends::{BackendEntry, Backends},
    catalog::List,
    gateway_settings::GatewaySettings,
    gather::{Gathered, WaitPolicy, gather},
    names,
};
use crate::{
    mcp::{Context, ListKind, translate::LeftOut},
    model::BackendId,
};

/// Characters that are always encoded in an address.
const OUTSIDE_ASCII: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>');

/// A backend that may own web addresses.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    id: &'a BackendId,
    /// The origin of its own URL.
    origin: Option<&'a Origin>,
    list: Option<&'a List>,
}

/// A list entry that belongs to another backend, which has its origin or lists it too.
#[derive(Debug, PartialEq, Eq)]
struct ForeignEntry {
    /// Positions of the backend and of the entry in its list.
    place: (usize, usize),
    /// The reason, for people.
    reason: String,
}

/// The backend in `seen` that owns the resource `uri`. If neither origins nor lists decide: the only backend that has
/// resources, if there is just one.
pub(crate) async fn of<'a>(
    settings: &GatewaySettings,
    seen: &'a [VisibleBackend],
    uri: &str,
    context: &Context,
) -> Option<&'a VisibleBackend> {
    let origin = names::web_origin(uri);
    let of_origin: Vec<_> = seen.iter().filter(|one| origin.is_some() && one.entry.origin == origin).collect();
    let seen = match of_origin[..] {
        [] => seen.iter().collect(),
        [only] => return Some(only),
        _ => of_origin,
    };
    let budget = settings.cold_budget;
    let ask = |kind| seen.iter().map(|one| one.entry.catalog.list(context, kind)).collect();
    let (resources, templates) = tokio::join!(
        gather(ask(ListKind::Resources), budget, WaitPolicy::UntilOne),
        gather(ask(ListKind::Templates), budget, WaitPolicy::UntilOne),
    );
    let owner = |is_listed: &dyn Fn(&str) -> bool, fits: &dyn Fn(&str) -> bool| {
        let listed = resources.iter().position(|list| keys(list).any(is_listed));
        listed.or_else(|| templates.iter().position(|list| keys(list).any(fits)))
    };
    let decided = owner(&|key| key == uri, &|template| fits(template, uri)).or_else(|| {
        // clients that parse addresses write them as browsers do
        let written = Url::parse(uri).ok()?;
        let is_same = |key: &str| Url::parse(key).is_ok_and(|key| key == written);
        owner(&is_same, &|template| fits(&normal_literals(template), written.as_str()))
    });
    if let Some(at) = decided {
        return seen.get(at).copied();
    }
    let has_some = |at: &usize| keys(&resources[*at]).chain(keys(&templates[*at])).next().is_some();
    let mut with_resources = (0..seen.len()).filter(has_some);
    match (with_resources.next(), with_resources.next()) {
        (Some(only), None) => seen.get(only).copied(),
        _ => None,
    }
}

/// Positions of entries in these lists that belong to another backend: a merged list has each web address once.
pub(crate) fn foreign_places(seen: &[VisibleBackend], lists: &[Gathered<List>]) -> HashSet<(usize, usize)> {
    let candidates: Vec<_> =
        seen.iter().zip(lists).map(|(one, list)| Candidate::new(&one.entry, list.as_deref().ok())).collect();
    foreign(&candidates).into_iter().map(|entry| entry.place).collect()
}

/// Entries of a backend that belong to another one on the merged endpoint, with the reasons, according to the gateway's
/// own lists.
pub(crate) fn left_out(backends: &Backends, entry: &BackendEntry) -> Vec<(ListKind, LeftOut)> {
    let mut left_out = Vec::new();
    for kind in [ListKind::Resources, ListKind::Templates] {
        let lists: Vec<_> = backends.entries.iter().map(|one| one.catalog.listed(kind)).collect();
        let candidates: Vec<_> =
            backends.entries.iter().zip(&lists).map(|(one, list)| Candidate::new(one, list.as_deref())).collect();
        for ForeignEntry { place: (backend, place), reason } in foreign(&candidates) {
            if let Some(list) = lists[backend].as_ref().filter(|_| backends.entries[backend].id == entry.id) {
                left_out.push((kind, LeftOut { name: list.entries[place].key.clone(), reason }));
            }
        }
    }
    left_out
}

/// Entries that belong to another backend. The candidates are in configured order.
fn foreign(candidates: &[Candidate<'_>]) -> Vec<ForeignEntry> {
    let mut of_origin: HashMap<&Origin, Vec<usize>> = HashMap::new();
    for (at, candidate) in candidates.iter().enumerate() {
        candidate.origin.into_iter().for_each(|origin| of_origin.entry(origin).or_default().push(at));
    }
    let mut owners: HashMap<&str, usize> = HashMap::new();
    let mut foreign = Vec::new();
    for (at, candidate) in candidates.iter().enumerate() {
        for (place, key, origin) in candidate.list.iter().flat_map(|list| list.web()) {
            let of_origin = origin.and_then(|origin| of_origin.get(origin));
            let reason = match of_origin {
                Some(owners) if !owners.contains(&at) => {
                    let owner = candidates[owners[0]].id;
                    Some(format!("it has the origin of `{owner}` and is only at this server's own endpoint"))
                }
                _ => {
                    let owner = *owners.entry(key).or_insert(at);
                    let first = candidates[owner].id;
                    (owner != at).then(|| {
                        format!("`{first}` comes first and lists it too; it is only at this server's own endpoint")
                    })
                }
            };
            foreign.extend(reason.map(|reason| ForeignEntry { place: (at, place), reason }));
        }
    }
    foreign
}

// === impl Candidate ===

impl<'a> Candidate<'a> {
    fn new(entry: &'a BackendEntry, list: Option<&'a List>) -> Self {
        Self { id: &entry.id, origin: entry.origin.as_ref(), list }
    }
}

fn keys(list: &Gathered<List>) -> impl Iterator<Item = &str> {
    list.iter().flat_map(|list| list.entries.iter().map(|entry| entry.key.as_str()))
}

/// Writes the literal start and end of a template as browsers write addresses (RFC 6570 3.1).
fn normal_literals(template: &str) -> String {
    let Some((start, rest)) = template.split_once('{') else { return template.to_owned() };
    let (expressions, end) = rest.rsplit_once('}').unwrap_or((rest, ""));
    let encode = |literal: &str| utf8_percent_encode(literal, OUTSIDE_ASCII).to_string();
    let start = match start.split_once("://") {
        Some((scheme, after)) => {
            let (host, path) = after.split_at(after.find('/').unwrap_or(after.len()));
            format!("{}://{}{}", scheme.to_ascii_lowercase(), host.to_ascii_lowercase(), encode(path))
        }
        None => encode(start),
    };
    format!("{start}{{{expressions}}}{}", encode(end))
}

/// True if `uri` begins and ends like the RFC 6570 template.
fn fits(template: &str, uri: &str) -> bool {
    if template == uri {
        return true;
    }
    let Some((start, rest)) = template.split_once('{') else { return false };
    let end = rest.rsplit_once('}').map_or("", |(_, end)| end);
    uri.len() >= start.len() + end.len() && uri.starts_with(start) && uri.ends_with(end)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::mcp::{Payload, Revision};

    #[test]
    fn a_template_fits_by_its_beginning_and_end() {
        assert!(fits("https://a/{x}/raw", "https://a/1/raw"));
        assert!(fits("https://a/{x}{?q}", "https://a/1?q=2"));
        assert!(!fits("https://a/{x}/raw", "https://a/1"));
        assert!(!fits("https://a/x", "https://a/y"));
    }

    #[test]
    fn the_literals_of_a_template_are_compared_as_addresses_are_written() {
        let fits = |template: &str, uri: &str| fits(&normal_literals(template), Url::parse(uri).unwrap().as_str());
        assert!(fits("https://a/café/{x}", "https://a/caf%C3%A9/1"));
        assert!(fits("HTTPS://A.example/my docs/{x}/the end", "https://a.example/my%20docs/1/the%20end"));
        assert!(!fits("https://a/café/{x}", "https://a/cafe/1"));
        assert!(!fits("https://a/Case/{x}", "https://a/case/1"));
    }

    #[test]
    fn an_entry_belongs_to_its_origin_and_else_to_the_first_that_lists_it() {
        let list = |kind, text: &'static str| {
            let mut list = List::empty();
            let page = Payload::new(Revision::V2025_11_25, Bytes::from_static(text.as_bytes()));
            list.add(&page, kind, &BackendId::parse("b").unwrap(), 64);
            list
        };
        let ids = ["one", "two", "three"].map(|id| BackendId::parse(id).unwrap());
        let own = names::web_origin("https://two.example/mcp").unwrap();
        let origins = [None, Some(&own), None];
        let reasons = |lists: [&List; 3]| {
            let candidate = |at: usize| Candidate { id: &ids[at], origin: origins[at], list: Some(lists[at]) };
            foreign(&[0, 1, 2].map(candidate)).into_iter().map(|one| (one.place, one.reason)).collect::<Vec<_>>()
        };
        let taken = list(
            ListKind::Resources,
            r#"{"resources":[{"uri":"HTTPS://Two.Example:443/a","name":"a"},{"uri":"https://two.example@x/b","name":"b"},{"uri":"file:///a","name":"c"}]}"#,
        );
        let second = list(ListKind::Resources, r#"{"resources":[{"uri":"https://x/c","name":"a"}]}"#);
        let third = list(
            ListKind::Resources,
            r#"{"resources":[{"uri":"https://two.example@x/b","name":"b"},{"uri":"https://x/c","name":"c"},{"uri":"https://x/d","name":"d"},{"uri":"file:///a","name":"e"}]}"#,
        );
        assert_eq!(
            reasons([&taken, &second, &third]),
            [
                ((0, 0), "it has the origin of `two` and is only at this server's own endpoint".to_owned()),
                ((2, 0), "`one` comes first and lists it too; it is only at this server's own endpoint".to_owned()),
                ((2, 1), "`two` comes first and lists it too; it is only at this server's own endpoint".to_owned()),
            ]
        );
        let templates = |text| list(ListKind::Templates, text);
        let wide = templates(
            r#"{"resourceTemplates":[{"uriTemplate":"https://{host}/a","name":"t"},{"uriTemplate":"https://two.example{/p}","name":"u"},{"uriTemplate":"https://two.example/{p}","name":"v"}]}"#,
        );
        let same = templates(r#"{"resourceTemplates":[{"uriTemplate":"https://{host}/a","name":"t"}]}"#);
        let places: Vec<_> = reasons([&wide, &List::empty(), &same]).into_iter().map(|(place, _)| place).collect();
        assert_eq!(places, [(0, 2), (2, 0)]);
    }
}
