//! Certificates and proxy of one server at a URL.

use std::{path::Path, sync::Arc};

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use rustls::{
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    sign::CertifiedKey,
};

use super::{section::Section, text_file};
use crate::{
    model::{NetworkSpec, ProxyChoice, TlsIdentity, config_key::key_rows},
    support::Secret,
};

/// Maximum size of a file with certificates or a key, in bytes.
const LONGEST: u64 = 1 << 20;

key_rows! {
    /// The keys of a server's connections.
    pub(super) const KEYS {
        /// A PEM file with certificates of authorities to trust in addition to the system's. If the server presents one
        /// of them itself, it is a pin: the server has to prove its key, and its name and authority do not count. Only
        /// with an HTTP or WebSocket `url`.
        ca_file: Text("text"), None("\"company-ca.pem\"");
        /// A PEM file with the gateway's certificate for this server, and the certificates up to its authority (mutual
        /// TLS). Needs `client_key_file`.
        client_cert_file: Text("text"), None("\"gateway.pem\"");
        /// A PEM file with its private key.
        client_key_file: Text("text"), None("\"gateway.key\"");
        /// The URL of the HTTP proxy to this server, with user and password if it needs them, or `none`. Without it:
        /// according to `https_proxy`, `http_proxy` and `no_proxy` in the gateway's environment, but never for loopback
        /// addresses.
        ///
        /// Only with an HTTP or WebSocket `url`.
        proxy: Text("text"), None("\"http://proxy.example.com:3128\"");
    }
}

/// Reads the options of a server's connections; `None` if there are none. Relative paths start at `folder`.
pub(super) fn read(section: &mut Section<'_>, folder: &Path) -> Option<Arc<NetworkSpec>> {
    let certificates = |file: &str| authorities(folder, file);
    let ca_file = section.parsed("ca_file", certificates);
    let has_identity = (section.has("client_cert_file"), section.has("client_key_file"));
    let chain = section.parsed("client_cert_file", certificates);
    let key = section.parsed("client_key_file", |file| private_key(folder, file));
    if has_identity.0 != has_identity.1 {
        section.fault("a client certificate needs its key", Some("set both `client_cert_file` and `client_key_file`"));
    }
    let identity = chain.zip(key).map(|(certificates, key)| TlsIdentity { certificates, key });
    if identity.as_ref().is_some_and(|identity| !belong_together(identity)) {
        section.fault(
            "`client_key_file` is not the key of the first certificate in `client_cert_file`",
            Some("name the files of one certificate"),
        );
    }
    let proxy = section.parsed("proxy", proxy);
    let network = NetworkSpec { authorities: ca_file, identity, proxy };
    (network != NetworkSpec::default()).then(|| Arc::new(network))
}

/// The text of a file with certificates.
pub(super) fn authorities(folder: &Path, file: &str) -> Result<String, String> {
    let text = pem(folder, file)?;
    certificates(file, &text).map(|_| text)
}

fn pem(folder: &Path, file: &str) -> Result<String, String> {
    text_file::read(&folder.join(file), LONGEST).map_err(|why| format!("the file `{file}` {why}"))
}

/// Reports the options as not allowed.
pub(super) fn refuse(section: &mut Section<'_>) {
    for key in KEYS {
        section.refuse(key.name, "this needs a `url` with http, https, ws or wss", "remove it, or set such a `url`");
    }
}

/// The certificates of a file, at least one.
fn certificates(file: &str, text: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    match all {
        Ok(all) if all.is_empty() => Err(format!("the file `{file}` has no certificate in PEM")),
        Ok(all) => Ok(all),
        Err(error) => Err(format!("the file `{file}` is not PEM: {error}")),
    }
}

/// The text of a file with a private key.
pub(super) fn private_key(folder: &Path, file: &str) -> Result<Secret, String> {
    let text = pem(folder, file)?;
    let key = PrivateKeyDer::from_pem_slice(text.as_bytes());
    key.map(|_| Secret::new(text)).map_err(|_| format!("the file `{file}` has no private key in PEM"))
}

/// True if the key belongs to the first certificate.
pub(super) fn belong_together(identity: &TlsIdentity) -> bool {
    let chain = certificates("", &identity.certificates).unwrap_or_default();
    let key = PrivateKeyDer::from_pem_slice(identity.key.expose().as_bytes());
    key.is_ok_and(|key| CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).is_ok())
}

/// The proxy of a URL. Messages never quote it, since it may hold a password.
fn proxy(text: &str) -> Result<ProxyChoice, String> {
    if text == "none" {
        return Ok(ProxyChoice::Direct);
    }
    let is_http = |proxy: &Uri| matches!(proxy.scheme_str(), Some("http" | "https"));
    let is_named = text.starts_with("http://") || text.starts_with("https://");
    // checked here, since the connector would go without a proxy if it cannot read it
    let probe = Matcher::builder().all(text.to_owned()).build().intercept(&Uri::from_static("http://a"));
    if is_named && probe.is_some_and(|proxy| is_http(proxy.uri())) {
        return Ok(ProxyChoice::Through(Secret::new(text)));
    }
    Err("this must be the URL of an HTTP proxy, such as `http://proxy.example.com:3128`, or `none`; in a password, `%7C` stands for `|`, and so on".to_owned())
}
