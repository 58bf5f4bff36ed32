//! Relations between URIs of resources. Knows nothing of their schemes.

/// True if `uri` is `parent` or below it (all versions, resources: an update may be of a sub-resource).
pub fn covers(parent: &str, uri: &str) -> bool {
    let Some(rest) = uri.strip_prefix(parent) else { return false };
    rest.is_empty() || parent.ends_with('/') || rest.starts_with(['/', '?', '#'])
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
}
