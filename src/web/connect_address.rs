//! The address of a connect page, without `/connect/`. It is checked, so that a login can lead back to such a page and
//! nowhere else.

use url::form_urlencoded;

use crate::{model::BackendId, oauth::TransactionId};

const MAX_TICKET: usize = 2_048;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConnectAddress {
    pub(super) backend: BackendId,
    /// The opaque ticket, parameter `t`.
    pub(super) ticket: Option<String>,
    /// The app's authorization request to continue with, parameter `consent`.
    pub(super) consent: Option<TransactionId>,
}

// === impl ConnectAddress ===

impl ConnectAddress {
    /// Reads the server's name and the query; `None` if the name is not valid. Malformed parameters are left out.
    pub(super) fn read(backend: &str, query: &str) -> Option<Self> {
        let backend = BackendId::parse(backend).ok()?;
        let mut address = Self { backend, ticket: None, consent: None };
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                "t" if is_ticket(&value) => address.ticket = Some(value.into_owned()),
                "consent" => address.consent = TransactionId::parse(&value),
                _ => {}
            }
        }
        Some(address)
    }

    /// Reads the text made by [`ConnectAddress::text`].
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (backend, query) = text.split_once('?').unwrap_or((text, ""));
        Self::read(backend, query)
    }

    pub(super) fn text(&self) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        if let Some(ticket) = &self.ticket {
            query.append_pair("t", ticket);
        }
        if let Some(consent) = &self.consent {
            query.append_pair("consent", consent.as_str());
        }
        let query = query.finish();
        if query.is_empty() { self.backend.to_string() } else { format!("{}?{query}", self.backend) }
    }
}

fn is_ticket(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    !text.is_empty() && text.len() <= MAX_TICKET && text.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leads_to_a_connect_page_and_nowhere_else() {
        let consent = "c".repeat(43);
        for text in ["github".to_owned(), "github?t=a-B_9".to_owned(), format!("github?t=x&consent={consent}")] {
            assert_eq!(ConnectAddress::parse(&text).unwrap().text(), text);
        }
        for (text, read) in [
            ("github?t=a%22b", "github"),
            ("github?t=", "github"),
            ("github?next=https://evil.example", "github"),
            ("github?consent=../x", "github"),
        ] {
            assert_eq!(ConnectAddress::parse(text).unwrap().text(), read);
        }
        for text in ["", "//evil.example", "../account", "https://evil.example", "git/hub", "Git"] {
            assert_eq!(ConnectAddress::parse(text), None, "{text}");
        }
    }
}
