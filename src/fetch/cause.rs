//! Why a connection failed, in words: the innermost error, which is the most specific.

use std::{error::Error, io};

use rustls::{CertificateError, Error as TlsError};

/// The innermost cause.
pub fn innermost<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause
}

/// Its words.
pub fn cause(error: &(dyn Error + 'static)) -> String {
    tls_advice(error).map_or_else(|| innermost(error).to_string(), str::to_owned)
}

/// Advice on a TLS error, if the operator can do something about it.
pub fn tls_advice(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let mut cause = innermost(error);
    // I/O errors may wrap it without naming it as their source
    while let Some(inner) = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        cause = inner;
    }
    cause.downcast_ref().and_then(advice)
}

/// True if a server answered plain HTTP the way a TLS-only server does: with something else, or not at all.
pub fn is_as_of_tls(error: &(dyn Error + 'static)) -> bool {
    let innermost = innermost(error);
    innermost.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse)
        || innermost.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::ConnectionReset)
}

fn advice(error: &TlsError) -> Option<&'static str> {
    const UNKNOWN: &str = "its certificate is not of an authority that is trusted here; if it is to be trusted, name the file of the \
                           authority, or of the certificate itself, in `ca_file` or with `--ca-file`";
    match error {
        TlsError::InvalidCertificate(CertificateError::UnknownIssuer) => Some(UNKNOWN),
        // the only kind of self-signed certificate that has an error of its own
        TlsError::InvalidCertificate(CertificateError::Other(other))
            if other.to_string().contains("CaUsedAsEndEntity") =>
        {
            Some(UNKNOWN)
        }
        TlsError::InvalidMessage(_) => {
            Some("it does not speak TLS: its URL may have to begin with `http` instead of `https`")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_tls_say_what_to_do() {
        let unknown = TlsError::InvalidCertificate(CertificateError::UnknownIssuer);
        let wrapped = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, unknown));
        assert!(cause(&wrapped).contains("`ca_file`"));
        assert_eq!(cause(&io::Error::other("odd")), "odd");
        assert!(is_as_of_tls(&io::Error::from(io::ErrorKind::ConnectionReset)));
        assert!(!is_as_of_tls(&io::Error::from(io::ErrorKind::ConnectionRefused)));
    }
}
