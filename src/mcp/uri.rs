//! Relations between URIs of resources, of any scheme.

/// True if `uri` is `parent` or below it (all versions, resources: an update may be of a sub-resource).
pub fn covers(parent: &str, uri: &str) -> bool {
    let Some(rest) = uri.strip_prefix(parent) else { return false };
    rest.is_empty() || parent.ends_with('/') || rest.starts_with(['/', '?', '#'])
}

/// All URIs that cover `uri`, itself included.
pub fn above(uri: &str) -> impl Iterator<Item = &str> {
    let ends = uri.bytes().enumerate().flat_map(|(at, sign)| {
        let before = if matches!(sign, b'/' | b'?' | b'#') { Some(at) } else { None };
        let after = if sign == b'/' { Some(at + 1) } else { None };
        [before, after]
    });
    let mut last = None;
    // two signs in a row share an end
    let ends = ends.flatten().chain([uri.len()]).filter(move |end| last.replace(*end) != Some(*end));
    ends.map(|end| &uri[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_beneath_is_told_from_what_begins_the_same() {
        for (parent, uri, covered) in [
            ("file:///a", "file:///a", true),
            ("file:///a", "file:///a/b", true),
            ("file:///a/", "file:///a/b", true),
            ("file:///a", "file:///ab", false),
            ("file:///a/b", "file:///a", false),
        ] {
            assert_eq!(covers(parent, uri), covered, "{parent} {uri}");
        }
    }

    #[test]
    fn all_that_covers_a_uri_is_found_in_it() {
        for uri in ["file:///a/b?c#d", "a//b/", "/", "", "x:é/#"] {
            let parts = uri.char_indices().map(|(at, _)| &uri[..at]).chain([uri]);
            assert_eq!(above(uri).collect::<Vec<_>>(), parts.filter(|part| covers(part, uri)).collect::<Vec<_>>());
        }
    }
}
