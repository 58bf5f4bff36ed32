//! A host as pages show it. The registrable domain stands out, since only that part says who runs the site.

use url::{Host, Url};

/// The authority of a web site, in three parts: the subdomains, which its owner chooses freely, the registrable domain,
/// and the port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostName {
    /// Subdomains, with the period at the end.
    pub(super) below: String,
    /// The registrable domain; the whole host if it is an IP address or a name without such a domain.
    pub(super) domain: String,
    /// The port with its colon, if it is not the default.
    pub(super) port: String,
}

// === impl HostName ===

impl HostName {
    /// The authority of an https URL, as a browser reads it.
    pub(super) fn of(authority: &str) -> Self {
        let Ok(url) = Url::parse(&format!("https://{authority}/")) else { return Self::whole(authority) };
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let (below, domain) = match url.host() {
            Some(Host::Domain(name)) => {
                let own = psl::domain(name.as_bytes()).filter(|own| own.suffix().is_known());
                let own = own.and_then(|own| str::from_utf8(own.as_bytes()).ok()).unwrap_or(name);
                name.split_at(name.len() - own.len())
            }
            Some(_) => ("", url.host_str().unwrap_or_default()),
            None => return Self::whole(authority),
        };
        Self { below: below.to_owned(), domain: domain.to_owned(), port }
    }

    /// A name that stands out as a whole.
    pub(super) fn whole(name: &str) -> Self {
        Self { below: String::new(), domain: name.to_owned(), port: String::new() }
    }

    /// True if the name has letters beyond a to z, which may look like other letters. Pages show it in Punycode.
    pub(super) fn is_foreign(&self) -> bool {
        [&self.below, &self.domain].iter().any(|part| part.split('.').any(|label| label.starts_with("xn--")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oa_070_the_registrable_domain_of_an_app_stands_out() {
        let shown = |authority: &str| {
            let HostName { below, domain, port } = HostName::of(authority);
            format!("{below}[{domain}]{port}")
        };
        for (authority, expected) in [
            ("claude.ai", "[claude.ai]"),
            ("claude.ai.login.evil.example.com", "claude.ai.login.evil.[example.com]"),
            ("app.evil.co.uk:8443", "app.[evil.co.uk]:8443"),
            ("ada.github.io", "[ada.github.io]"),
            ("a.ada.github.io:443", "a.[ada.github.io]"),
            ("CLAUDE.ai.", "[claude.ai.]"),
            ("claude%2eai.example.org", "claude.ai.[example.org]"),
            ("xn--clude-9ta.ai", "[xn--clude-9ta.ai]"),
            ("192.0.2.7:8080", "[192.0.2.7]:8080"),
            ("0x7f.1", "[127.0.0.1]"),
            ("[2001:DB8::1]:8080", "[[2001:db8::1]]:8080"),
            ("localhost:8080", "[localhost]:8080"),
            ("intranet", "[intranet]"),
            ("app.intranet", "[app.intranet]"),
            ("co.uk", "[co.uk]"),
            ("", "[]"),
        ] {
            assert_eq!(shown(authority), expected, "{authority}");
        }
        assert!(HostName::of("xn--clude-9ta.ai").is_foreign() && !HostName::of("claude.ai").is_foreign());
    }
}
