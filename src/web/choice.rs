//! The cookie that makes the next login at a provider begin with a choice of accounts (`UP-20`). It is set after a
//! refusal and after a logout here, since the provider's session would bring back the same person.

use http::{HeaderMap, HeaderValue, header};
use tower_sessions::cookie::{Cookie, SameSite, time::Duration};

use super::state::WebSettings;

/// True if the browser sent the cookie.
pub(super) fn is_due(headers: &HeaderMap, settings: &WebSettings) -> bool {
    let name = name(settings);
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(Cookie::split_parse).flatten().any(|cookie| cookie.name() == name && !cookie.value().is_empty())
}

/// The header that sets the cookie until the browser closes, or removes it.
pub(super) fn cookie(settings: &WebSettings, is_due: bool) -> HeaderValue {
    let cookie = Cookie::build((name(settings), if is_due { "1" } else { "" }))
        .path("/")
        .http_only(true)
        .secure(settings.is_https())
        .same_site(SameSite::Lax);
    let cookie = if is_due { cookie } else { cookie.max_age(Duration::ZERO) };
    HeaderValue::try_from(cookie.build().to_string()).unwrap_or_else(|_| HeaderValue::from_static(""))
}

fn name(settings: &WebSettings) -> String {
    format!("{}-choose", settings.cookie_name())
}
