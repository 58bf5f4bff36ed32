//! Origins whose pages may call MCP endpoints: a single one, or all names below one.

use url::{Host, Url};

/// An origin that the operator allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedOrigin {
    /// This one, as serialized (RFC 6454 6.2): a site's, an extension's or an app's.
    Exact(String),
    /// The origins of all names below a registrable one.
    Below {
        scheme: String,
        /// The name they end with, after a dot.
        name: String,
        /// `None` for the default port.
        port: Option<u16>,
    },
}

// === impl AllowedOrigin ===

impl AllowedOrigin {
    /// Reads `scheme://host[:port]`, where `*.` may precede the name of a site.
    ///
    /// # Errors
    ///
    /// The fault, for people.
    pub fn parse(text: &str) -> Result<Self, String> {
        const FORM: &str = "an origin is `https://host` or `https://host:port`, without a path, `https://*.example.com` for all \
                            names below one, or `chrome-extension://id` and the like";
        let parse = |text: &str| Url::parse(text).ok().filter(|url| is_bare(url) && !text.ends_with('/'));
        if let Some((scheme, below)) = text.split_once("://*.") {
            let url = parse(&format!("{scheme}://{below}")).ok_or(FORM)?;
            let (true, Some(Host::Domain(name))) = (matches!(url.scheme(), "http" | "https"), url.host()) else {
                return Err("`*.` stands before the name of a site with `http` or `https`".to_owned());
            };
            if name.contains('*') {
                return Err(FORM.to_owned());
            }
            if psl::suffix(name.as_bytes()).is_some_and(|suffix| suffix == name) {
                return Err(format!("anybody can have a name below `{name}`: name one that is yours"));
            }
            return Ok(Self::Below { scheme: url.scheme().to_owned(), name: name.to_owned(), port: url.port() });
        }
        let origin = parse(text).as_ref().and_then(serialized).filter(|origin| !origin.contains('*'));
        origin.map(Self::Exact).ok_or_else(|| FORM.to_owned())
    }

    /// True if pages at this address have this origin, or one of these.
    pub fn has(&self, page: &Url) -> bool {
        match self {
            Self::Exact(origin) => serialized(page).as_ref() == Some(origin),
            Self::Below { scheme, name, port } => {
                let host = page.host_str().and_then(|host| host.strip_suffix(name.as_str()));
                page.scheme() == scheme
                    && page.port() == *port
                    && host.and_then(|host| host.strip_suffix('.')).is_some_and(|labels| !labels.is_empty())
            }
        }
    }
}

/// True if nothing precedes the host or follows the origin.
fn is_bare(url: &Url) -> bool {
    let is_of_nobody = url.username().is_empty() && url.password().is_none();
    is_of_nobody && url.path().len() <= 1 && url.query().is_none() && url.fragment().is_none()
}

/// The origin of an address with a host. Schemes added by browsers and apps are written their way.
fn serialized(url: &Url) -> Option<String> {
    let host = url.host_str().filter(|host| !host.is_empty())?;
    let origin = url.origin();
    if origin.is_tuple() {
        return Some(origin.ascii_serialization());
    }
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    is_bare(url).then(|| format!("{}://{host}{port}", url.scheme()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(allowed: &str, page: &str) -> bool {
        AllowedOrigin::parse(allowed).unwrap().has(&Url::parse(page).unwrap())
    }

    #[test]
    fn oa_025_origins_of_sites_extensions_and_apps_are_exact() {
        for (allowed, page) in [
            ("https://app.example.com", "https://app.example.com:443"),
            ("https://app.example.com:8443", "https://APP.example.com:8443"),
            ("chrome-extension://abcdefghijklmnop", "chrome-extension://abcdefghijklmnop"),
            ("tauri://localhost", "tauri://localhost"),
            ("app://obsidian.md", "app://obsidian.md"),
        ] {
            assert!(has(allowed, page), "{allowed} {page}");
        }
        for (allowed, page) in [
            ("https://app.example.com", "http://app.example.com"),
            ("https://app.example.com", "https://x.app.example.com"),
            ("chrome-extension://abcdefghijklmnop", "chrome-extension://abcdefghijklmnoq"),
            ("tauri://localhost", "tauri://localhost:1"),
            ("tauri://localhost", "tauri://localhost/page"),
            ("app://obsidian.md", "https://obsidian.md"),
        ] {
            assert!(!has(allowed, page), "{allowed} {page}");
        }
    }

    #[test]
    fn oa_025_one_or_more_labels_below_a_name_are_allowed() {
        for page in ["https://a.example.com", "https://b.a.example.com", "https://A.EXAMPLE.com"] {
            assert!(has("https://*.example.com", page), "{page}");
        }
        for page in [
            "https://example.com",
            "https://.example.com",
            "https://aexample.com",
            "https://a.example.com:8443",
            "http://a.example.com",
            "https://a.example.com.evil.example",
            "tauri://a.example.com",
        ] {
            assert!(!has("https://*.example.com", page), "{page}");
        }
        assert!(has("http://*.corp.internal:8080", "http://wiki.corp.internal:8080"));
    }

    #[test]
    fn everything_else_is_refused() {
        for text in [
            "*",
            "null",
            "",
            "example.com",
            "https://",
            "https://*",
            "https://*.com",
            "https://*.co.uk",
            "https://*.github.io",
            "https://*.internal",
            "https://*.*.example.com",
            "https://a.*.example.com",
            "https://a*.example.com",
            "*://app.example.com",
            "https://*.1.2.3.4",
            "https://app.example.com/",
            "https://app.example.com/page",
            "https://*.example.com/",
            "https://me@app.example.com",
            "https://app.example.com?x",
            "https://app.example.com#x",
            "tauri://localhost/",
            "chrome-extension://*",
            "chrome-extension://*.abc",
            "file://",
            "about:blank",
            "data:text/html,x",
        ] {
            assert!(AllowedOrigin::parse(text).is_err(), "{text}");
        }
    }
}
