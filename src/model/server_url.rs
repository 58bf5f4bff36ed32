//! URL of a configured server, whose scheme selects the transport.

use std::path::Path;

use url::Url;

use super::{HttpSpec, SocketAddress, TransportSpec};

/// URL of a server; its scheme selects the transport.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerUrl {
    /// With `http` or `https`.
    Http(Url),
    /// With `ws` or `wss`.
    WebSocket(Url),
    /// As `unix:PATH` or `tcp://HOST:PORT`.
    Socket(SocketAddress),
}

// === impl ServerUrl ===

impl ServerUrl {
    /// Parses a URL. Messages never quote it, since it may hold keys.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            // `unix:///path` is `unix:/path`
            let path = path.strip_prefix("//").filter(|path| path.starts_with('/')).unwrap_or(path);
            if path.is_empty() || path.contains('\0') {
                return Err("`unix:` must be followed by the path of a socket".to_owned());
            }
            return Ok(Self::Socket(SocketAddress::Unix(path.into())));
        }
        let url = Url::parse(text).map_err(|error| format!("this is not a URL: {error}"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("put user and password into `headers`, as `Authorization`".to_owned());
        }
        match (url.scheme(), url.host_str(), url.port()) {
            ("http" | "https", ..) => Ok(Self::Http(url)),
            ("ws" | "wss", ..) => Ok(Self::WebSocket(url)),
            ("tcp", Some(host), Some(port)) if !host.is_empty() && matches!(url.path(), "" | "/") => {
                Ok(Self::Socket(SocketAddress::Tcp { host: host.to_owned(), port }))
            }
            ("tcp", ..) => Err("`tcp` must have the form `tcp://HOST:PORT`".to_owned()),
            _ => Err("this must be a URL with http, https, ws, wss, tcp or unix".to_owned()),
        }
    }

    /// A URL of a server over HTTP.
    pub(crate) fn parse_http(text: &str) -> Result<Url, String> {
        match Self::parse(text)? {
            Self::Http(url) => Ok(url),
            Self::WebSocket(_) | Self::Socket(_) => Err("this must be a URL with http or https".to_owned()),
        }
    }

    /// The host; `None` for the path of a socket.
    pub(crate) fn host(&self) -> Option<&str> {
        match self {
            Self::Http(url) | Self::WebSocket(url) => url.host_str(),
            Self::Socket(SocketAddress::Tcp { host, .. }) => Some(host),
            Self::Socket(SocketAddress::Unix(_)) => None,
        }
    }

    /// The transport, without headers.
    pub(crate) fn transport(self, folder: &Path) -> TransportSpec {
        match self {
            Self::Http(url) => TransportSpec::Http(HttpSpec::new(url)),
            Self::WebSocket(url) => TransportSpec::WebSocket(HttpSpec::new(url)),
            Self::Socket(SocketAddress::Unix(path)) => TransportSpec::Socket(SocketAddress::Unix(folder.join(path))),
            Self::Socket(tcp) => TransportSpec::Socket(tcp),
        }
    }

    /// The URL without its query, as the audience of tokens for the server; `None` for a socket.
    pub(crate) fn audience(&self) -> Option<String> {
        let (Self::Http(url) | Self::WebSocket(url)) = self else { return None };
        let mut audience = url.clone();
        audience.set_query(None);
        audience.set_fragment(None);
        Some(audience.into())
    }

    /// True if it is an HTTP URL whose path ends in `/sse`.
    pub(crate) fn ends_in_sse(&self) -> bool {
        matches!(self, Self::Http(url) if url.path().trim_end_matches('/').ends_with("/sse"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transport(url: &str) -> Result<TransportSpec, String> {
        ServerUrl::parse(url).map(|url| url.transport(Path::new("/etc/lockkeeper")))
    }

    #[test]
    fn the_scheme_of_a_url_selects_the_transport() {
        let name = |url: &str| transport(url).map(|transport| transport.name());
        let cases = [
            ("https://a.test/mcp", "streamable-http"),
            ("https://a.test/sse", "streamable-http"),
            ("wss://a.test/", "websocket"),
            ("tcp://a.test:7000", "tcp"),
            ("tcp://[::1]:7000", "tcp"),
            ("unix:/run/a.sock", "unix"),
        ];
        for (url, expected) in cases {
            assert_eq!(name(url), Ok(expected), "{url}");
        }
        for wrong in
            ["a", "unix:", "tcp://a.test", "tcp://:7000", "tcp://a.test:7000/x", "https://u:p@a.test/", "ftp://a/"]
        {
            assert!(name(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_path_of_a_socket_is_relative_to_the_file() {
        let path = |url: &str| match transport(url) {
            Ok(TransportSpec::Socket(SocketAddress::Unix(path))) => path,
            other => panic!("{other:?}"),
        };
        assert_eq!(path("unix:mcp.sock"), Path::new("/etc/lockkeeper/mcp.sock"));
        assert_eq!(path("unix:/run/mcp.sock"), Path::new("/run/mcp.sock"));
        assert_eq!(path("unix:///run/mcp.sock"), Path::new("/run/mcp.sock"));
    }
}
