//! How long a document is used before it is requested again (RFC 9111 4.2, 5.2.2).

use std::time::Duration;

use http::{HeaderMap, header};

/// Bounds for the lifetime that a host sets: less would cause a request every time, more would keep documents the host
/// has withdrawn.
const SHORTEST: Duration = Duration::from_mins(1);
const LONGEST: Duration = Duration::from_hours(24);
/// The lifetime if `Cache-Control` sets none.
const DEFAULT: Duration = Duration::from_mins(5);

/// The time for a response with these headers to stay fresh from now on.
pub(super) fn lifetime(headers: &HeaderMap) -> Duration {
    let lines = headers.get_all(header::CACHE_CONTROL).iter().filter_map(|line| line.to_str().ok());
    let directives: Vec<String> = lines.flat_map(|line| line.split(',')).map(|one| one.trim().to_lowercase()).collect();
    if directives.iter().any(|one| one == "no-store" || one.split('=').next() == Some("no-cache")) {
        return SHORTEST;
    }
    let seconds = directives.iter().find_map(|one| one.strip_prefix("max-age=")?.trim_matches('"').parse().ok());
    let Some(lifetime) = seconds.map(Duration::from_secs) else { return DEFAULT };
    // the time spent in other caches
    let age = headers.get(header::AGE).and_then(|age| age.to_str().ok()?.parse().ok()).unwrap_or(0);
    lifetime.saturating_sub(Duration::from_secs(age)).clamp(SHORTEST, LONGEST)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn seconds(cache_control: &'static str, age: &'static str) -> u64 {
        let mut headers = HeaderMap::new();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache_control));
        headers.insert(header::AGE, HeaderValue::from_static(age));
        lifetime(&headers).as_secs()
    }

    #[test]
    fn oa_051_the_host_says_how_long_within_a_minute_and_a_day() {
        assert_eq!(lifetime(&HeaderMap::new()), DEFAULT);
        assert_eq!(seconds("public, max-age=3600", "0"), 3600);
        assert_eq!(seconds("Max-Age=3600", "600"), 3000);
        assert_eq!(seconds("max-age=3600", "soon"), 3600);
        assert_eq!(seconds("max-age=5", "0"), 60);
        assert_eq!(seconds("max-age=100", "100"), 60);
        assert_eq!(seconds("max-age=31536000", "0"), 86400);
        assert_eq!(seconds("max-age=3600, no-store", "0"), 60);
        assert_eq!(seconds("no-cache=\"x\", max-age=3600", "0"), 60);
        assert_eq!(seconds("max-age=99999999999999999999", "0"), 300);
        assert_eq!(seconds("private", "0"), 300);
    }
}
