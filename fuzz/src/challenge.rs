//! `WWW-Authenticate`. Input: a recipe of challenges and their parameters, which are written here in a spelling of RFC 9110
//! 11.6.1; after the byte `=` the rest is a header as it is.
//!
//! Oracle: the first `Bearer` challenge of the recipe that has parameters. What is as it is must not panic, and has no value from elsewhere.

use lockkeeper::oauth_client::BearerChallenge;

use super::input::{Dice, Speller};

const SCHEMES: [&str; 5] = ["Bearer", "Basic", "bearer", "DPoP", "BEARER"];
const NAMES: [&str; 6] = ["resource_metadata", "scope", "error", "realm", "Scope", "algs"];
const VALUES: [&str; 8] = [
    "x",
    "https://a.example/.well-known/x?a=b",
    "a b",
    "q\"x",
    "back\\slash",
    "a, Bearer scope=evil",
    "",
    "x,bearer error=\"y\"",
];

/// Checks one input.
pub fn run(data: &[u8]) {
    if let Some(header) = data.strip_prefix(b"=") {
        let header = String::from_utf8_lossy(header).into_owned();
        let challenge = BearerChallenge::of(std::slice::from_ref(&header));
        let BearerChallenge { resource_metadata, scope, error, .. } = &challenge;
        for value in [resource_metadata, scope, error].into_iter().flatten() {
            assert!(value.len() <= header.len(), "{value} of {header}");
        }
        return;
    }
    let mut dice = Dice::new(data);
    let mut speller = Speller::new(u64::from(dice.byte()));
    let (mut header, mut expected, mut schemes) = (String::new(), None, Vec::new());
    for _ in 0..=dice.below(3) {
        let scheme = *dice.one(&SCHEMES);
        header.push_str(if header.is_empty() { "" } else { ", " });
        header.push_str(scheme);
        schemes.push(scheme);
        let mut read = BearerChallenge::default();
        let mut names = Vec::new();
        for count in 0..dice.below(4) {
            let (name, value) = (*dice.one(&NAMES), *dice.one(&VALUES));
            // a parameter is there once (RFC 9110 11.2)
            if names.contains(&name.to_ascii_lowercase()) {
                continue;
            }
            names.push(name.to_ascii_lowercase());
            header.push_str(if count == 0 || names.len() == 1 { " " } else { [",", ", ", " ,"][speller.below(3)] });
            header.push_str(&parameter(name, value, &mut speller));
            match name.to_ascii_lowercase().as_str() {
                "resource_metadata" => read.resource_metadata = Some(value.to_owned()),
                "scope" => read.scope = Some(value.to_owned()),
                "error" => read.error = Some(value.to_owned()),
                _ => {}
            }
        }
        // one without parameters says nothing
        if scheme.eq_ignore_ascii_case("bearer") && !names.is_empty() {
            expected = expected.or(Some(read));
        }
    }
    let mut expected = expected.unwrap_or_default();
    if !schemes.iter().any(|scheme| scheme.eq_ignore_ascii_case("bearer")) {
        expected.other_scheme = schemes.first().map(|scheme| (*scheme).to_owned());
    }
    assert_eq!(BearerChallenge::of(std::slice::from_ref(&header)), expected, "{header}");
}

/// Recipes and headers like these.
pub fn seeds() -> Vec<Vec<u8>> {
    let headers = [
        r#"=Bearer resource_metadata="https://a.example/x", scope="a b""#,
        r#"=Basic realm="bearer x", Bearer realm="q\"x", scope="a b""#,
        "=Bearer token68==, Basic",
    ];
    let mut seeds: Vec<Vec<u8>> = headers.into_iter().map(|header| header.as_bytes().to_vec()).collect();
    seeds.extend([vec![1, 0, 0, 2, 0, 1, 1, 2], vec![2, 1, 1, 1, 3, 5, 0, 2, 1, 0, 2, 3]]);
    seeds
}

fn parameter(name: &str, value: &str, speller: &mut Speller) -> String {
    let is_token =
        !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte));
    if is_token && speller.below(2) == 0 {
        return format!("{name}={value}");
    }
    let escaped = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if speller.below(16) == 0 => format!("\\{c}"),
        c => c.to_string(),
    };
    let quoted: String = value.chars().map(escaped).collect();
    format!("{name}=\"{quoted}\"")
}
