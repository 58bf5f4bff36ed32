//! The section `[tls]`: names, and where their certificate comes from.

use std::{
    collections::BTreeSet,
    net::{Ipv6Addr, SocketAddr},
    path::Path,
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use url::{Host, Url};

use super::{network, section::Section};
use crate::{
    model::{
        AcmeChallenge, AuthoritySpec, CertificateFiles, CertificateSource, ExternalAccount, NetworkSpec, TlsIdentity,
        TlsSpec, config_key::key_rows,
    },
    support::Secret,
};

/// The address of a gateway with TLS, for IPv4 too.
pub const TLS_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V6(Ipv6Addr::UNSPECIFIED), 443);
/// The port where it answers without TLS.
const PLAIN_PORT: u16 = 80;

/// Directories with a name.
const DIRECTORIES: [(&str, &str); 3] = [
    ("letsencrypt", "https://acme-v02.api.letsencrypt.org/directory"),
    ("letsencrypt-staging", "https://acme-staging-v02.api.letsencrypt.org/directory"),
    ("zerossl", "https://acme.zerossl.com/v2/DV90"),
];
/// Maximum number of names in a certificate: authorities issue none with more.
const MAX_NAMES: usize = 100;

/// The challenges by their names.
const CHALLENGES: [(&str, AcmeChallenge); 2] =
    [("tls-alpn-01", AcmeChallenge::TlsAlpn01), ("http-01", AcmeChallenge::Http01)];

key_rows! {
    /// The keys of `[tls]`.
    pub(super) const KEYS {
        /// The names of the gateway for people; `public_url` is the first one, unless it is set.
        ///
        /// Without files, an authority issues a certificate for them, and the gateway agrees to its terms. `--domain`
        /// and `LOCKKEEPER_DOMAIN`, with names separated by commas, override this.
        domains: Texts, None("[\"mcp.example.com\"]");
        /// A PEM file with a certificate, and the certificates up to its authority, in place of an authority's. Needs
        /// `key_file`; both are read again when they change.
        cert_file: Text("text"), None("\"gateway.pem\"");
        /// A PEM file with its private key.
        key_file: Text("text"), None("\"gateway.key\"");
        /// The authority: `letsencrypt`, `letsencrypt-staging` (whose certificates no client trusts), `zerossl`, or the
        /// URL of an ACME directory.
        directory: Text("text"), Value("\"letsencrypt\"");
        /// The address that the authority writes to if a certificate is not renewed.
        email: Text("text"), None("\"ops@example.com\"");
        /// A PEM file with certificates of authorities to trust in addition to the system's, for requests to the
        /// directory.
        ca_file: Text("text"), None("\"company-ca.pem\"");
        /// The id of an existing account at the authority (external account binding). Needs `external_account_key`.
        external_account_id: Text("text"), None("\"kid-1\"");
        /// Its key in base64url, preferably as `${file:PATH}` or `${VAR}`.
        external_account_key: Text("text"), None("\"${file:authority.key}\"");
        /// How the authority may check that the names are this gateway's, the preferred way first: at port 443
        /// (`tls-alpn-01`), or at port 80 (`http-01`). If one fails, the next order tries the other.
        challenges: Texts, Value("[\"tls-alpn-01\", \"http-01\"]");
        /// Address without TLS, which answers the authority and redirects people to https, or `false`. If the gateway
        /// may not listen there, it runs without it.
        http_listen: TextOrFalse, Derived("the address of `listen`, with port 80", "\"[::]:80\"");
    }
}

/// The section as in the file, or its defaults.
#[derive(Debug, Clone)]
pub(super) struct TlsOptions {
    pub(super) names: Vec<String>,
    files: Option<CertificateFiles>,
    authority: AuthoritySpec,
    plain_listen: PlainListen,
}

/// The place for answers without TLS.
#[derive(Debug, Clone, Copy)]
enum PlainListen {
    /// At port 80 of the address with TLS.
    Beside,
    At(SocketAddr),
    Off,
}

impl Default for TlsOptions {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            files: None,
            authority: AuthoritySpec {
                directory: DIRECTORIES[0].1.to_owned(),
                email: None,
                network: Arc::default(),
                external_account: None,
                challenges: CHALLENGES.map(|(_, challenge)| challenge).to_vec(),
            },
            plain_listen: PlainListen::Beside,
        }
    }
}

impl TlsOptions {
    /// Reads the section. Relative paths start at `folder`.
    pub(super) fn read(section: &mut Section<'_>, folder: &Path) -> Self {
        let default = Self::default();
        let has_files = (section.has("cert_file"), section.has("key_file"));
        let chain = section.parsed("cert_file", |file| Ok((folder.join(file), network::authorities(folder, file)?)));
        let key = section.parsed("key_file", |file| Ok((folder.join(file), network::private_key(folder, file)?)));
        if has_files.0 != has_files.1 {
            section.fault("a certificate needs its key", Some("set both `cert_file` and `key_file`"));
        }
        let files = chain.zip(key).map(|((certificate, certificates), (path, key))| {
            if !network::belong_together(&TlsIdentity { certificates, key }) {
                section.fault(
                    "`key_file` is not the key of the first certificate in `cert_file`",
                    Some("name the files of one certificate"),
                );
            }
            CertificateFiles { certificate, key: path }
        });
        let names = section.parsed_list("domains", domain).unwrap_or_default();
        if names.len() > MAX_NAMES {
            section.fault(format!("`domains` has more than {MAX_NAMES} names"), Some("authorities allow no more"));
        }
        let authorities = section.parsed("ca_file", |file| network::authorities(folder, file));
        Self {
            names,
            files,
            authority: AuthoritySpec {
                directory: section.parsed("directory", directory).unwrap_or(default.authority.directory),
                email: section.parsed("email", email),
                network: Arc::new(NetworkSpec { authorities, ..NetworkSpec::default() }),
                external_account: external_account(section),
                challenges: challenges(section).unwrap_or(default.authority.challenges),
            },
            plain_listen: section
                .parsed_or_false("http_listen", PlainListen::Off, |text| listen(text).map(PlainListen::At))
                .unwrap_or(default.plain_listen),
        }
    }

    /// The specification for these names of a gateway that listens on `listen`; the error says what is missing.
    pub(super) fn for_names(self, names: Vec<String>, listen: SocketAddr) -> Result<TlsSpec, &'static str> {
        let source = match self.files {
            Some(files) => CertificateSource::Files(files),
            None if names.is_empty() => {
                return Err(
                    "this needs `domains`, for which an authority issues a certificate, or `cert_file` and `key_file`",
                );
            }
            None => CertificateSource::Authority(self.authority),
        };
        let plain_listen = match self.plain_listen {
            PlainListen::Beside => Some(SocketAddr::new(listen.ip(), PLAIN_PORT)),
            PlainListen::At(address) => Some(address),
            PlainListen::Off => None,
        };
        Ok(TlsSpec { names, source, plain_listen })
    }
}

/// A name that an authority can certify, in its DNS form.
pub(super) fn domain(text: &str) -> Result<String, String> {
    if text.contains("://") || text.contains(['/', ':']) {
        return Err(format!("`{}` must be only a name, such as `mcp.example.com`", text.escape_debug()));
    }
    if text.contains('*') {
        let why = "an authority issues such a certificate only to those who can change the name's records; name each \
                   host";
        return Err(format!("`{}` stands for many names: {why}, or use `cert_file`", text.escape_debug()));
    }
    match Host::parse(text.trim().trim_end_matches('.')) {
        Ok(Host::Domain(name)) if name.contains('.') && name.len() <= 253 => Ok(name),
        Ok(Host::Domain(name)) => Err(format!("`{name}` is not a full name, such as `mcp.example.com`")),
        Ok(_) => Err("certificates are for names; for an address use `cert_file`".to_owned()),
        Err(_) => Err(format!("`{}` is not a host name", text.escape_debug())),
    }
}

/// Names separated by commas, each once.
pub(super) fn domains(text: &str) -> Result<Vec<String>, String> {
    let mut seen = BTreeSet::new();
    let names = text.split(',').filter(|name| !name.trim().is_empty()).map(domain);
    names.filter(|name| name.as_ref().map_or(true, |name| seen.insert(name.clone()))).collect()
}

fn directory(text: &str) -> Result<String, String> {
    if let Some((_, url)) = DIRECTORIES.iter().find(|(name, _)| *name == text) {
        return Ok((*url).to_owned());
    }
    let url = Url::parse(text).ok().filter(|url| url.scheme() == "https" && url.has_host());
    let names = || DIRECTORIES.map(|(name, _)| format!("`{name}`")).join(", ");
    url.map(String::from).ok_or_else(|| format!("this must be one of {}, or the https URL of a directory", names()))
}

fn email(text: &str) -> Result<String, String> {
    let is_one = text.split_once('@').is_some_and(|(name, host)| !name.is_empty() && host.contains('.'));
    let is_one = is_one && !text.contains(char::is_whitespace);
    if is_one { Ok(text.to_owned()) } else { Err("this must be an e-mail address".to_owned()) }
}

fn external_account(section: &mut Section<'_>) -> Option<ExternalAccount> {
    let given = (section.has("external_account_id"), section.has("external_account_key"));
    let id = section.text("external_account_id");
    let key = section.parsed("external_account_key", |text| {
        let text = text.trim().trim_end_matches('=');
        let decoded = URL_SAFE_NO_PAD.decode(text);
        decoded.map(|_| Secret::new(text)).map_err(|_| "this must be base64url, as the authority shows it".to_owned())
    });
    if given.0 != given.1 {
        let advice = "set both `external_account_id` and `external_account_key`";
        section.fault("an external account needs its id and its key", Some(advice));
    }
    id.zip(key).map(|(id, key)| ExternalAccount { id, key })
}

fn challenges(section: &mut Section<'_>) -> Option<Vec<AcmeChallenge>> {
    let chosen = section.parsed_list("challenges", |text| {
        let found = CHALLENGES.iter().find(|(name, _)| *name == text).map(|(_, challenge)| *challenge);
        found.ok_or_else(|| "this must be `tls-alpn-01` or `http-01`".to_owned())
    })?;
    if chosen.is_empty() {
        section.fault("`challenges` is empty", Some("name `tls-alpn-01`, `http-01` or both"));
    }
    Some(chosen).filter(|chosen| !chosen.is_empty())
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "this must be an address and a port, such as `0.0.0.0:80`, or false".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_as_dns_has_them() {
        for (text, name) in [
            ("mcp.example.com", "mcp.example.com"),
            ("MCP.Example.com.", "mcp.example.com"),
            ("bücher.example", "xn--bcher-kva.example"),
        ] {
            assert_eq!(domain(text).as_deref(), Ok(name));
        }
        for text in
            ["", "mcp", "*.example.com", "https://mcp.example.com", "mcp.example.com:443", "192.0.2.7", "a b.example"]
        {
            assert!(domain(text).is_err(), "{text}");
        }
        assert_eq!(domains("a.example, b.example,A.example").unwrap(), ["a.example", "b.example"]);
    }

    #[test]
    fn a_directory_has_a_name_or_a_url() {
        assert_eq!(directory("letsencrypt").unwrap(), "https://acme-v02.api.letsencrypt.org/directory");
        assert_eq!(directory("https://ca.internal/acme").unwrap(), "https://ca.internal/acme");
        assert!(directory("http://ca.internal/acme").is_err() && directory("letsencript").is_err());
    }
}
