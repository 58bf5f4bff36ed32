//! TLS toward clients: the certificate, from files or from an authority that speaks ACME (RFC 8555), and the port that
//! answers without TLS.
//!
//! [`Certificates`] holds the present certificate, and answers the challenges of authorities. A [`CertificateKeeper`]
//! replaces it: it reads files again, or orders a new certificate before the old one ends. Its state is in the
//! database, so that replicas share one order, and a gateway killed in the middle continues it.

mod acme_http;
mod certificate;
mod certificates;
mod challenges;
mod first_look;
mod keeper;
mod order;
mod plain_port;
mod schedule;

pub use self::{
    certificate::{CertificateFault, ServedCertificate},
    certificates::{Certificates, server_config},
    keeper::CertificateKeeper,
    order::AuthorityDeps,
    plain_port::PlainPort,
};
