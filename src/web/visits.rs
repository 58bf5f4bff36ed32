//! The visits of a browser: every session id that it had in the last ten minutes, so that a form from before a login in
//! another tab is still accepted (`OA-151`).
//!
//! Nothing is stored: each visit has its own cookie, so that two concurrent responses cannot overwrite each other's.
//! The cookie contains a digest of the session id, so it opens no session.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, HeaderValue, header};
use parking_lot::Mutex;
use tower_sessions::{
    cookie::{Cookie, SameSite, time},
    session::Id,
};

use super::{forms::Forms, state::WebSettings};
use crate::{
    oauth::Browser,
    support::{Digest, Timestamp},
};

/// Time that a visit is remembered after its end.
const LIFETIME: Duration = Duration::from_mins(10);
/// Maximum number of visits that a browser remembers, with the present one; the oldest go. Eight tabs that open at once
/// bring one each, and so do the logins in them.
const MAX_VISITS: usize = 16;
/// Length of the digest in a cookie.
const LENGTH: usize = 43;

/// One visit, which its forms are bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Visit(String);

/// Visits that this response tells the browser to remember.
#[derive(Debug, Clone, Default)]
pub(super) struct NewVisits(Arc<Mutex<Vec<Visit>>>);

/// The visits that a browser remembers.
#[derive(Debug)]
pub(super) struct EarlierVisits(Vec<(Timestamp, Visit)>);

// === impl Visit ===

impl Visit {
    /// The visit with this session id.
    pub(super) fn of(id: Id) -> Self {
        Self(Digest::sha256(format!("visit {id}")).to_base64url())
    }

    pub(super) fn forms(&self) -> Forms {
        Forms::with_secret(self.0.clone())
    }

    /// The identity that requests are sealed for before a login.
    pub(super) fn browser(&self) -> Browser {
        Browser(Digest::sha256(format!("browser {}", self.0)))
    }

    /// The identity of the session that a login with this key begins after this visit: the same in all tabs that log in
    /// at the same time.
    pub(super) fn seed(&self, key: &str) -> String {
        Digest::sha256(format!("seed {} {key}", self.0)).to_base64url()
    }

    fn tag(&self) -> String {
        Digest::sha256(&self.0).short_hex(4)
    }
}

// === impl NewVisits ===

impl NewVisits {
    pub(super) fn add(&self, visit: Visit) {
        self.0.lock().push(visit);
    }

    /// The cookies to set, given those that the browser sent.
    pub(super) fn cookies(&self, earlier: &HeaderMap, settings: &WebSettings, now: Timestamp) -> Vec<HeaderValue> {
        let new = std::mem::take(&mut *self.0.lock());
        if new.is_empty() {
            return Vec::new();
        }
        let mut kept = EarlierVisits::read(earlier, settings, now).0;
        kept.retain(|(_, visit)| !new.contains(visit));
        kept.sort_by_key(|(at, _)| *at);
        let dropped = (kept.len() + new.len()).saturating_sub(MAX_VISITS).min(kept.len());
        let gone = kept.drain(..dropped).map(|(_, visit)| cookie(settings, &visit, "", time::Duration::ZERO));
        let life = time::Duration::seconds(LIFETIME.as_secs().cast_signed());
        let set = new.iter().map(|visit| {
            let value = format!("{}.{}", visit.0, now.as_seconds());
            cookie(settings, visit, &value, life)
        });
        gone.chain(set).collect()
    }
}

// === impl EarlierVisits ===

impl EarlierVisits {
    /// Reads the cookies of a request, leaving out expired and malformed ones.
    pub(super) fn read(headers: &HeaderMap, settings: &WebSettings, now: Timestamp) -> Self {
        let prefix = prefix(settings);
        let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let cookies = lines.flat_map(Cookie::split_parse).flatten();
        let own = cookies.filter(|cookie| cookie.name().starts_with(&prefix));
        let read = |cookie: Cookie<'_>| {
            let (digest, at) = cookie.value().split_once('.')?;
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            let at = Timestamp::from_seconds(at.parse().ok()?);
            let is_good = digest.len() == LENGTH && digest.chars().all(fits) && at <= now && now < at + LIFETIME;
            is_good.then(|| (at, Visit(digest.to_owned())))
        };
        Self(own.filter_map(read).take(2 * MAX_VISITS).collect())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Visit> {
        self.0.iter().map(|(_, visit)| visit)
    }
}

fn cookie(settings: &WebSettings, visit: &Visit, value: &str, life: time::Duration) -> HeaderValue {
    let cookie = Cookie::build((format!("{}{}", prefix(settings), visit.tag()), value))
        .path("/")
        .http_only(true)
        .secure(settings.is_https())
        .same_site(SameSite::Lax)
        .max_age(life);
    HeaderValue::try_from(cookie.build().to_string()).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Prefix of the cookies' names.
fn prefix(settings: &WebSettings) -> String {
    format!("{}-visit-", settings.cookie_name())
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;

    const NOW: Timestamp = Timestamp::from_seconds(1_000_000);

    fn settings() -> WebSettings {
        WebSettings::new(Url::parse("https://gw.example").unwrap())
    }

    fn sent(lines: &[HeaderValue]) -> HeaderMap {
        let pairs = lines.iter().map(|line| line.to_str().unwrap().split(';').next().unwrap());
        let line = pairs.filter(|pair| !pair.ends_with('=')).collect::<Vec<_>>().join("; ");
        HeaderMap::from_iter([(header::COOKIE, HeaderValue::try_from(line).unwrap())])
    }

    fn set(earlier: &HeaderMap, id: i128, now: Timestamp) -> Vec<HeaderValue> {
        let new = NewVisits::default();
        new.add(Visit::of(Id(id)));
        new.cookies(earlier, &settings(), now)
    }

    #[test]
    fn two_answers_at_once_leave_two_visits_for_ten_minutes() {
        let none = HeaderMap::new();
        let both = sent(&[set(&none, 1, NOW), set(&none, 2, NOW)].concat());
        let known = |now| EarlierVisits::read(&both, &settings(), now).iter().cloned().collect::<Vec<_>>();
        assert_eq!(known(NOW + Duration::from_secs(599)), [Visit::of(Id(1)), Visit::of(Id(2))]);
        assert_eq!(known(NOW + LIFETIME), []);
        assert_eq!(known(NOW - Duration::from_secs(1)), [], "one from the future is none");
        let line = set(&none, 1, NOW)[0].to_str().unwrap().to_owned();
        for part in ["__Host-lockkeeper-visit-", "HttpOnly", "SameSite=Lax", "Secure", "Path=/", "Max-Age=600"] {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert!(!line.contains(&Id(1).to_string()), "the id of the session is not in it");
    }

    #[test]
    fn a_browser_remembers_a_bounded_number_of_visits() {
        let mut jar: Vec<HeaderValue> = Vec::new();
        for number in 0..20_i32 {
            let now = NOW + Duration::from_secs(u64::from(number.unsigned_abs()));
            let lines = set(&sent(&jar), i128::from(number), now);
            let gone: Vec<&str> = lines
                .iter()
                .map(|line| line.to_str().unwrap())
                .filter(|line| line.contains("Max-Age=0"))
                .map(|line| line.split('=').next().unwrap())
                .collect();
            jar.retain(|line| !gone.contains(&line.to_str().unwrap().split('=').next().unwrap()));
            jar.extend(lines.iter().filter(|line| !line.to_str().unwrap().contains("Max-Age=0")).cloned());
        }
        let left = EarlierVisits::read(&sent(&jar), &settings(), NOW + Duration::from_secs(20));
        let expected: Vec<Visit> = (4..20).map(|number| Visit::of(Id(number))).collect();
        assert_eq!(left.iter().cloned().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_cookie_of_another_form_is_no_visit() {
        for value in ["", "x", "x.1", &format!("{}.x", "a".repeat(43)), &format!("{}.1000000", "é".repeat(43))] {
            let line = HeaderValue::try_from(format!("__Host-lockkeeper-visit-00000000={value}")).unwrap();
            let headers = HeaderMap::from_iter([(header::COOKIE, line)]);
            assert_eq!(EarlierVisits::read(&headers, &settings(), NOW).iter().count(), 0, "{value}");
        }
    }
}
