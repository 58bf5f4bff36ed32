//! The cookies of a login, which are set in pieces and come back among others. Input: the state, a line end, and the content;
//! or, after a flag, the value of a `Cookie` header.
//!
//! Oracles: what was set comes back, in any order and among other cookies; what a stranger makes up is the values of the
//! named cookies, read by hand (RFC 6265 5.4).

use http::{HeaderMap, HeaderValue, header};
use lockkeeper::fuzzing::{login_cookie, set_login_cookie};
use url::Url;

use super::input::{Dice, Speller};

const STATE: &str = "abc";

/// Checks one input.
pub fn run(data: &[u8]) {
    let mut dice = Dice::new(data);
    let flags = dice.byte();
    let url = if flags & 1 == 1 { "http://127.0.0.1:8000" } else { "https://gw.example" };
    let url = Url::parse(url).expect("a URL");
    if flags & 2 == 2 {
        stranger(&url, dice.rest());
    } else {
        let state = String::from_utf8_lossy(dice.line()).into_owned();
        let content: String = dice.rest().iter().map(|byte| char::from(b"AZaz09-_"[usize::from(byte % 8)])).collect();
        comes_back(&url, &state, &content, flags);
    }
}

/// Cookies like these.
pub fn seeds() -> Vec<Vec<u8>> {
    let long = format!("0state\n{}", "abcdefgh".repeat(1100));
    let made_up =
        "2__Host-lockkeeper-login-abc-0=x; __Host-lockkeeper-login-abc-1=\"y\";a=b ; __Host-lockkeeper-login-abc-0=z";
    vec![
        b"0s\nabc".to_vec(),
        long.into_bytes(),
        made_up.as_bytes().to_vec(),
        b"3lockkeeper-8000-login-abc-0==".to_vec(),
    ]
}

fn comes_back(url: &Url, state: &str, content: &str, seed: u8) {
    let Some(set) = set_login_cookie(&HeaderMap::new(), url, state, content) else {
        assert!(content.len() > 4 * 3600, "{} bytes", content.len());
        return;
    };
    let mut pairs: Vec<String> = vec!["other=1".to_owned()];
    for header in &set {
        let text = header.to_str().expect("text");
        assert!(text.len() < 4096 && text.contains("HttpOnly") && text.contains("SameSite=Lax"), "{text}");
        assert_eq!(text.contains("Secure"), url.scheme() == "https", "{text}");
        pairs.push(text.split(';').next().unwrap_or_default().to_owned());
    }
    let by = Speller::new(u64::from(seed)).below(pairs.len());
    pairs.rotate_left(by);
    let Ok(line) = HeaderValue::try_from(pairs.join("; ")) else { panic!("{pairs:?}") };
    let headers = HeaderMap::from_iter([(header::COOKIE, line)]);
    assert_eq!(login_cookie(&headers, url, state), content);
    // of another login there is nothing, unless its name is the same
    let is_same = |other: &str| {
        let tag = |state: &str| -> String {
            state.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')).take(12).collect()
        };
        tag(other) == tag(state)
    };
    assert!(is_same("another") || login_cookie(&headers, url, "another").is_empty());
}

fn stranger(url: &Url, bytes: &[u8]) {
    let Ok(line) = HeaderValue::from_bytes(bytes) else { return };
    let headers = HeaderMap::from_iter([(header::COOKIE, line.clone())]);
    let found = login_cookie(&headers, url, STATE);
    let Ok(text) = line.to_str() else {
        assert_eq!(found, "");
        return;
    };
    let start = if url.scheme() == "https" { "__Host-lockkeeper" } else { "lockkeeper-8000" };
    let pairs: Vec<(&str, &str)> = text
        .split(';')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.trim(), value.trim()))
        .collect();
    let piece = |number: usize| {
        let wanted = format!("{start}-login-{STATE}-{number}");
        pairs.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value)
    };
    let expected: String = (0..4).map_while(piece).collect();
    assert_eq!(found, expected, "{text:?}");
}
