//! Cookies of logins in progress at a provider. Each login has its own; a long one is split into pieces, since browsers
//! drop long cookies.

use http::{HeaderMap, HeaderValue, header};
use tower_sessions::cookie::{Cookie, SameSite, time::Duration};

use super::state::WebSettings;

/// Maximum length of a piece, in bytes: with its name and attributes it stays below the 4,096 that browsers keep (RFC
/// 6265 6.1).
const PIECE: usize = 3600;
/// Maximum number of pieces of a login.
const MAX_PIECES: usize = 4;
/// Maximum number of pieces in a browser, so that its requests stay small. A login that would exceed it drops all
/// others.
const MAX_PENDING: usize = 8;
/// Life of a cookie, the same as the login's.
const LIFETIME: Duration = Duration::minutes(10);

/// The cookies that came with a request.
pub(crate) struct LoginCookies<'a> {
    settings: &'a WebSettings,
    found: Vec<(String, String)>,
}

impl<'a> LoginCookies<'a> {
    /// Reads the cookies of a request.
    pub(crate) fn read(headers: &HeaderMap, settings: &'a WebSettings) -> Self {
        let prefix = prefix(settings);
        let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let cookies = lines.flat_map(Cookie::split_parse).flatten();
        let own = cookies.filter(|cookie| cookie.name().starts_with(&prefix));
        Self { found: own.map(|cookie| (cookie.name().to_owned(), cookie.value().to_owned())).collect(), settings }
    }

    /// The content for this state; empty if there is none.
    pub(crate) fn content(&self, state: &str) -> String {
        let pieces = (0..MAX_PIECES).map_while(|number| {
            let name = name(self.settings, state, number);
            self.found.iter().find(|(found, _)| *found == name).map(|(_, value)| value.as_str())
        });
        pieces.collect()
    }

    /// Headers that set the content for a state; `None` if it is too long. If the browser would have too many pieces,
    /// they also remove the earlier ones.
    pub(crate) fn set(&self, state: &str, content: &str) -> Option<Vec<HeaderValue>> {
        let pieces: Vec<&str> =
            content.as_bytes().chunks(PIECE).filter_map(|piece| str::from_utf8(piece).ok()).collect();
        if pieces.len() > MAX_PIECES {
            return None;
        }
        let crowded = self.found.len() + pieces.len() > MAX_PENDING;
        let dropped = self.found.iter().filter(|_| crowded).map(|(name, _)| self.cookie(name, "", Duration::ZERO));
        let set = pieces
            .iter()
            .enumerate()
            .map(|(number, piece)| self.cookie(&name(self.settings, state, number), piece, LIFETIME));
        Some(dropped.chain(set).collect())
    }

    /// Headers that remove the content for a state.
    pub(crate) fn remove(&self, state: &str) -> Vec<HeaderValue> {
        let start = format!("{}{}-", prefix(self.settings), tag(state));
        let own = self.found.iter().filter(|(name, _)| name.starts_with(&start));
        own.map(|(name, _)| self.cookie(name, "", Duration::ZERO)).collect()
    }

    fn cookie(&self, name: &str, value: &str, life: Duration) -> HeaderValue {
        let cookie = Cookie::build((name, value))
            .path("/")
            .http_only(true)
            .secure(self.settings.is_https())
            // the provider sends the browser here from another site
            .same_site(SameSite::Lax)
            .max_age(life);
        HeaderValue::try_from(cookie.build().to_string()).unwrap_or_else(|_| HeaderValue::from_static(""))
    }
}

fn name(settings: &WebSettings, state: &str, number: usize) -> String {
    format!("{}{}-{number}", prefix(settings), tag(state))
}

/// Prefix of the cookies' names.
fn prefix(settings: &WebSettings) -> String {
    format!("{}-login-", settings.cookie_name())
}

/// The part of a state that is in the names of its cookies, so that each tab has a login of its own.
fn tag(state: &str) -> String {
    state.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')).take(12).collect()
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;

    fn settings() -> WebSettings {
        WebSettings::new(Url::parse("https://gw.example").unwrap())
    }

    /// The headers that a browser sends after these responses.
    fn sent(answers: &[Vec<HeaderValue>]) -> HeaderMap {
        let pairs = answers.iter().flatten().map(|line| line.to_str().unwrap().split(';').next().unwrap().to_owned());
        let line = pairs.collect::<Vec<_>>().join("; ");
        HeaderMap::from_iter([(header::COOKIE, HeaderValue::try_from(line).unwrap())])
    }

    #[test]
    fn long_contents_come_back_whole_and_each_tab_has_its_own() {
        let settings = settings();
        let empty = LoginCookies::read(&HeaderMap::new(), &settings);
        let (long, short) = ("x".repeat(9000), "short".to_owned());
        let (one, two) = (empty.set("state-one-aaaa", &long).unwrap(), empty.set("state-two-bbbb", &short).unwrap());
        assert_eq!((one.len(), two.len()), (3, 1));
        let line = two[0].to_str().unwrap();
        assert_eq!(
            line,
            "__Host-lockkeeper-login-state-two-bb-0=short; HttpOnly; SameSite=Lax; Secure; Path=/; Max-Age=600"
        );
        let headers = sent(&[one, two]);
        let both = LoginCookies::read(&headers, &settings);
        assert_eq!((both.content("state-one-aaaa"), both.content("state-two-bbbb")), (long, short));
        assert_eq!(both.content("state-three"), "");
        let removed = both.remove("state-one-aaaa");
        assert_eq!(removed.len(), 3);
        assert!(removed.iter().all(|line| line.to_str().unwrap().contains("Max-Age=0")));
        assert!(empty.set("s", &"x".repeat(PIECE * MAX_PIECES + 1)).is_none());
    }

    #[test]
    fn a_browser_with_many_logins_under_way_loses_the_earlier_ones() {
        let settings = settings();
        let empty = LoginCookies::read(&HeaderMap::new(), &settings);
        let answers: Vec<_> = (0..8).map(|number| empty.set(&format!("s{number}"), "x").unwrap()).collect();
        let headers = sent(&answers);
        let full = LoginCookies::read(&headers, &settings).set("s8", "x").unwrap();
        assert_eq!(full.iter().filter(|line| line.to_str().unwrap().contains("Max-Age=0")).count(), 8);
    }
}
