//! The owner of a web address: `https://` resources keep their URI on the merged endpoint, so the lists must tell
//! (`translation` section 5). Knows nothing of calls.

use super::{
    backends::VisibleBackend,
    catalog::{List, ListKind},
    gateway_settings::GatewaySettings,
    gather::{Gathered, WaitPolicy, gather},
};
use crate::mcp::Context;

/// The backend among those seen that the resource `uri` belongs to: the first that lists it, else the one whose
/// matching template has the longest literal start, else the only one with resources.
pub(crate) async fn of<'a>(
    settings: &GatewaySettings,
    seen: &'a [VisibleBackend],
    uri: &str,
    context: &Context,
) -> Option<&'a VisibleBackend> {
    let budget = settings.cold_budget;
    let ask = |kind| seen.iter().map(|one| one.entry.catalog.list(context, kind)).collect();
    let (resources, templates) = tokio::join!(
        gather(ask(ListKind::Resources), budget, WaitPolicy::UntilOne),
        gather(ask(ListKind::Templates), budget, WaitPolicy::UntilOne),
    );
    if let Some(at) = resources.iter().position(|list| keys(list).any(|key| key == uri)) {
        return seen.get(at);
    }
    let fit = |list: &Gathered<List>| keys(list).filter_map(|template| fits(template, uri)).max();
    let best = templates.iter().enumerate().filter_map(|(at, list)| Some((fit(list)?, std::cmp::Reverse(at)))).max();
    if let Some((_, std::cmp::Reverse(at))) = best {
        return seen.get(at);
    }
    let has_some = |at: &usize| keys(&resources[*at]).chain(keys(&templates[*at])).next().is_some();
    let mut with_resources = (0..seen.len()).filter(has_some);
    match (with_resources.next(), with_resources.next()) {
        (Some(only), None) => seen.get(only),
        _ => None,
    }
}

fn keys(list: &Gathered<List>) -> impl Iterator<Item = &str> {
    list.iter().flat_map(|list| list.entries.iter().map(|entry| entry.key.as_str()))
}

/// The number of literal characters at the start of the RFC 6570 template; `None` if `uri` does not match its start and
/// end.
fn fits(template: &str, uri: &str) -> Option<usize> {
    if template == uri {
        return Some(uri.len());
    }
    let (start, rest) = template.split_once('{')?;
    let end = rest.rsplit_once('}').map_or("", |(_, end)| end);
    (uri.len() >= start.len() + end.len() && uri.starts_with(start) && uri.ends_with(end)).then_some(start.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_fits_by_its_beginning_and_end() {
        assert_eq!(fits("https://a/{x}/raw", "https://a/1/raw"), Some(10));
        assert_eq!(fits("https://a/{x}{?q}", "https://a/1?q=2"), Some(10));
        assert_eq!(fits("https://a/{x}/raw", "https://a/1"), None);
        assert_eq!(fits("https://a/x", "https://a/y"), None);
    }
}
