//! Parameters in `application/x-www-form-urlencoded`, of a query or a body (`OA-30`, `OA-80`).

use std::{borrow::Cow, collections::BTreeMap};

use percent_encoding::percent_decode_str;

/// Parameters of one request. An empty value counts as absent, and repeated parameters are kept. It has no `Debug`,
/// because it holds codes, tokens and secrets.
#[derive(Default)]
pub struct Params(BTreeMap<String, Vec<String>>);

/// A parameter occurs more than once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the parameter {0} occurs more than once")]
pub struct Repeated(pub &'static str);

impl Params {
    /// Parses parameters; `None` if one is not UTF-8.
    pub fn parse(text: &str) -> Option<Self> {
        let mut params: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decode(name)?, decode(value)?);
            if !value.is_empty() {
                params.entry(name).or_default().push(value);
            }
        }
        Some(Self(params))
    }

    /// The value of a parameter that may occur only once.
    pub fn get(&self, name: &'static str) -> Result<Option<&str>, Repeated> {
        match self.all(name) {
            [] => Ok(None),
            [value] => Ok(Some(value)),
            _ => Err(Repeated(name)),
        }
    }

    /// Every value of a parameter.
    pub fn all(&self, name: &str) -> &[String] {
        self.0.get(name).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Decodes one name or value; `None` if it is not UTF-8.
pub fn decode(text: &str) -> Option<String> {
    let spaced = if text.contains('+') { Cow::Owned(text.replace('+', " ")) } else { Cow::Borrowed(text) };
    percent_decode_str(&spaced).decode_utf8().ok().map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded_and_empty_ones_are_absent() {
        let params = Params::parse("state=a%2Bb%252Fc%3D%26%C3%A9&scope=a+b&empty=&twice=1&twice=2").unwrap();
        assert_eq!(params.get("state"), Ok(Some("a+b%2Fc=&é")));
        assert_eq!(params.get("scope"), Ok(Some("a b")));
        assert_eq!(params.get("empty"), Ok(None));
        assert_eq!(params.get("twice"), Err(Repeated("twice")));
        assert!(Params::parse("x=%ff").is_none());
    }
}
