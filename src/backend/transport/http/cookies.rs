//! Cookies that a server's load balancer sets, so that a session stays on one machine. They belong to one session at
//! the server, end with it, go to no other one, and appear in no log.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Uri, header, uri::Scheme};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::target::secret;

/// Maximum number of cookies of one session; more are ignored.
const MAX_COOKIES: usize = 20;
/// Maximum size of a cookie, name and value together, in bytes.
const MAX_COOKIE: usize = 4096;

/// The cookies of one session.
#[derive(Default)]
pub(super) struct CookieJar(Mutex<Vec<Cookie>>);

struct Cookie {
    name: String,
    value: String,
    path: String,
    is_secure: bool,
    ends: Option<Instant>,
}

// === impl CookieJar ===

impl CookieJar {
    /// Keeps the cookies that an answer from `uri` sets.
    pub(super) fn keep(&self, headers: &HeaderMap, uri: &Uri) {
        for text in headers.get_all(header::SET_COOKIE) {
            let Some(cookie) = text.to_str().ok().and_then(|text| Cookie::read(text, headers, uri)) else { continue };
            let mut kept = self.0.lock();
            kept.retain(|other| other.name != cookie.name || other.path != cookie.path);
            if !cookie.is_over() && kept.len() < MAX_COOKIES {
                kept.push(cookie);
            }
        }
    }

    /// The `Cookie` header for a request of `uri`; `None` if there is no matching cookie.
    pub(super) fn header(&self, uri: &Uri) -> Option<HeaderValue> {
        let mut kept = self.0.lock();
        if kept.is_empty() {
            return None;
        }
        kept.retain(|cookie| !cookie.is_over());
        let mut sent: Vec<&Cookie> = kept.iter().filter(|cookie| cookie.is_for(uri)).collect();
        // longer paths first (RFC 6265 5.4)
        sent.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        let pairs: Vec<String> = sent.iter().map(|cookie| format!("{}={}", cookie.name, cookie.value)).collect();
        if pairs.is_empty() {
            return None;
        }
        HeaderValue::try_from(pairs.join("; ")).ok().map(secret)
    }
}

// === impl Cookie ===

impl Cookie {
    /// Reads the text of `Set-Cookie` in an answer with these headers (RFC 6265 5.2). `Domain` is ignored: the cookie
    /// is sent only to this host.
    fn read(text: &str, headers: &HeaderMap, uri: &Uri) -> Option<Self> {
        let mut parts = text.split(';');
        let (name, value) = parts.next()?.split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        if name.is_empty() || name.len() + value.len() > MAX_COOKIE || text.bytes().any(|byte| byte.is_ascii_control())
        {
            return None;
        }
        let (mut path, mut is_secure, mut age, mut expires) = (None, false, None, None);
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let value = value.trim();
            match key.trim().to_ascii_lowercase().as_str() {
                "path" if value.starts_with('/') => path = Some(value.to_owned()),
                "secure" => is_secure = true,
                "max-age" => age = value.parse::<i64>().ok(),
                "expires" => expires = lifetime(value, headers),
                _ => {}
            }
        }
        let life = age.map(|seconds| Duration::from_secs(seconds.try_into().unwrap_or_default())).or(expires);
        Some(Self {
            name: name.to_owned(),
            value: value.to_owned(),
            path: path.unwrap_or_else(|| default_path(uri)),
            is_secure,
            ends: life.and_then(|life| Instant::now().checked_add(life)),
        })
    }

    fn is_over(&self) -> bool {
        self.ends.is_some_and(|ends| ends <= Instant::now())
    }

    /// True if a request of `uri` must include the cookie.
    fn is_for(&self, uri: &Uri) -> bool {
        let rest = uri.path().strip_prefix(self.path.as_str());
        let is_beneath = rest.is_some_and(|rest| rest.is_empty() || self.path.ends_with('/') || rest.starts_with('/'));
        is_beneath && (!self.is_secure || uri.scheme() == Some(&Scheme::HTTPS))
    }
}

/// Remaining time until `expires`, measured from the date of the response. Without such a date: zero if `expires` is
/// before 2020, a common way to delete a cookie; otherwise `None`.
fn lifetime(expires: &str, headers: &HeaderMap) -> Option<Duration> {
    let ends = httpdate::parse_http_date(expires).ok()?;
    let sent = headers.get(header::DATE).and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
    match sent {
        Some(sent) => Some(ends.duration_since(sent).unwrap_or_default()),
        None if ends < std::time::UNIX_EPOCH + Duration::from_hours(24 * 365 * 50) => Some(Duration::ZERO),
        None => None,
    }
}

/// The directory of the request's path (RFC 6265 5.1.4).
fn default_path(uri: &Uri) -> String {
    match uri.path().rsplit_once('/') {
        Some((folder, _)) if !folder.is_empty() => folder.to_owned(),
        _ => "/".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const BASE: &str = "https://a.example/api/mcp";

    fn jar(set: &[&str]) -> CookieJar {
        let jar = CookieJar::default();
        set_in(&jar, set);
        jar
    }

    fn set_in(jar: &CookieJar, set: &[&str]) {
        let mut headers = HeaderMap::new();
        headers.insert(header::DATE, HeaderValue::from_static("Sun, 29 Nov 2026 09:00:00 GMT"));
        for text in set {
            headers.append(header::SET_COOKIE, HeaderValue::try_from(*text).unwrap());
        }
        jar.keep(&headers, &Uri::from_static(BASE));
    }

    fn sent(jar: &CookieJar, uri: &'static str) -> Option<String> {
        jar.header(&Uri::from_static(uri)).map(|value| value.to_str().unwrap().to_owned())
    }

    #[tokio::test]
    async fn cookies_go_to_the_paths_and_schemes_that_they_are_for() {
        let jar = jar(&[
            "a=1; Path=/; Domain=evil.example",
            "b=2; path=/api/mcp",
            "c=3; Path=/other",
            "d=4; Secure",
            "e=5; Path=/ap",
        ]);
        assert_eq!(sent(&jar, BASE).as_deref(), Some("b=2; d=4; a=1"));
        assert_eq!(sent(&jar, "http://a.example/api/mcp").as_deref(), Some("b=2; a=1"));
        assert_eq!(sent(&jar, "https://a.example/api").as_deref(), Some("d=4; a=1"));
        set_in(&jar, &["a=6; Path=/"]);
        assert_eq!(sent(&jar, "https://a.example/").as_deref(), Some("a=6"), "a later one replaces it");
        assert!(jar.header(&Uri::from_static(BASE)).unwrap().is_sensitive());
    }

    #[tokio::test(start_paused = true)]
    async fn cookies_end_when_they_say_so() {
        let jar = jar(&["a=1; Max-Age=60", "b=2; Expires=Sun, 29 Nov 2026 09:02:00 GMT", "c=3"]);
        assert_eq!(sent(&jar, BASE).as_deref(), Some("a=1; b=2; c=3"));
        advance(Duration::from_secs(61)).await;
        assert_eq!(sent(&jar, BASE).as_deref(), Some("b=2; c=3"));
        advance(Duration::from_mins(1)).await;
        assert_eq!(sent(&jar, BASE).as_deref(), Some("c=3"));
        set_in(&jar, &["c=; Max-Age=0"]);
        assert_eq!(sent(&jar, BASE), None);
    }

    #[tokio::test]
    async fn cookies_are_few_and_small() {
        let many: Vec<String> = (0..100).map(|number| format!("c{number}=x")).collect();
        let full = jar(&many.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(sent(&full, BASE).unwrap().split("; ").count(), MAX_COOKIES);
        let large = format!("large={}", "x".repeat(MAX_COOKIE));
        assert_eq!(sent(&jar(&[&large, "=x", "none"]), BASE), None);
    }
}
