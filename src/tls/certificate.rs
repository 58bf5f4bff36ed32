//! A certificate and its key, as presented to clients, and the facts about them for people.

use std::sync::Arc;

use rustls::{
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    sign::CertifiedKey,
};
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use crate::support::Timestamp;

/// A certificate presented to clients.
#[derive(Debug)]
pub struct ServedCertificate {
    /// The part that TLS needs.
    pub key: Arc<CertifiedKey>,
    /// The names it is valid for.
    pub names: Vec<String>,
    /// The authority that issued it.
    pub issuer: String,
    /// The time from which it is valid.
    pub not_before: Timestamp,
    /// The time until which it is valid.
    pub not_after: Timestamp,
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateFault {
    /// There is no certificate, or no readable one.
    #[error("the certificate cannot be read: {0}")]
    Unreadable(String),
    /// There is no key, or no usable one.
    #[error("its private key cannot be read: {0}")]
    Key(String),
    /// The key does not belong to it.
    #[error("the private key belongs to another certificate")]
    OtherKey,
}

impl ServedCertificate {
    /// Reads PEM: the certificate, with those up to its authority, and its key.
    ///
    /// # Errors
    ///
    /// If they cannot be read, or do not belong together.
    pub fn from_pem(chain: &str, key: &[u8]) -> Result<Self, CertificateFault> {
        let unreadable = |why: &dyn std::fmt::Display| CertificateFault::Unreadable(why.to_string());
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|error| unreadable(&error))?;
        let first = chain.first().ok_or_else(|| unreadable(&"it is not PEM"))?;
        let (_, parsed) = X509Certificate::from_der(first).map_err(|error| unreadable(&error))?;
        let (names, issuer) = (names(&parsed), issuer(&parsed));
        let validity = parsed.validity();
        let moment = |time: x509_parser::time::ASN1Time| Timestamp::from_seconds(time.timestamp());
        let (not_before, not_after) = (moment(validity.not_before), moment(validity.not_after));
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| CertificateFault::Key(error.to_string()))?;
        let key =
            aws_lc_rs::sign::any_supported_type(&key).map_err(|error| CertificateFault::Key(error.to_string()))?;
        let key = CertifiedKey::new(chain, key);
        match key.keys_match() {
            // a key that does not reveal its public half is trusted
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
            Err(_) => return Err(CertificateFault::OtherKey),
        }
        Ok(Self { key: Arc::new(key), names, issuer, not_before, not_after })
    }
}

/// The names, as a browser compares them: the common name does not count (RFC 9525).
fn names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let names = certificate.subject_alternative_name().ok().flatten().map(|extension| &extension.value.general_names);
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => <[u8; 4]>::try_from(*bytes)
            .map(|bytes| std::net::IpAddr::from(bytes).to_string())
            .or_else(|_| <[u8; 16]>::try_from(*bytes).map(|bytes| std::net::IpAddr::from(bytes).to_string()))
            .ok(),
        _ => None,
    };
    names.into_iter().flatten().filter_map(name).collect()
}

/// The organization of the authority, or its name.
fn issuer(certificate: &X509Certificate<'_>) -> String {
    let issuer = certificate.issuer();
    let text = issuer.iter_organization().chain(issuer.iter_common_name()).find_map(|part| part.as_str().ok());
    text.map_or_else(|| issuer.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn made(name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned(), "192.0.2.7".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::OrganizationName, "Example Authority");
        params.not_after = rcgen::date_time_ymd(2030, 1, 2);
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    #[test]
    fn names_issuer_and_times_are_read() {
        let (chain, key) = made("mcp.example.com");
        let served = ServedCertificate::from_pem(&chain, key.as_bytes()).unwrap();
        assert_eq!(served.names, ["mcp.example.com", "192.0.2.7"]);
        assert_eq!(served.issuer, "Example Authority");
        assert_eq!(served.not_after.to_string(), "2030-01-02T00:00:00Z");
    }

    #[test]
    fn what_cannot_be_shown_is_told_apart() {
        let ((chain, key), (_, other)) = (made("a.example"), made("b.example"));
        let fault = |chain: &str, key: &str| ServedCertificate::from_pem(chain, key.as_bytes()).unwrap_err();
        assert!(matches!(fault(&chain, &other), CertificateFault::OtherKey));
        assert!(matches!(fault("", &key), CertificateFault::Unreadable(_)));
        assert!(matches!(fault(&chain, ""), CertificateFault::Key(_)));
    }
}
