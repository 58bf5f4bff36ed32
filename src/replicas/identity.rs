//! How replicas prove themselves to each other: TLS 1.3 with raw public keys (RFC 7250) on both sides. Each start of a
//! replica has a key of its own, which its row in the store names.

use std::sync::Arc;

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair},
};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme,
    client::{
        AlwaysResolvesClientRawPublicKeys, Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{
        CryptoProvider,
        aws_lc_rs::{default_provider, sign::any_ecdsa_type},
        verify_tls13_signature_with_raw_key,
    },
    pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime},
    server::{
        AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    sign::CertifiedKey,
    version::TLS13,
};

/// The key of this replica.
#[derive(Debug, Clone)]
pub(super) struct ReplicaIdentity {
    key: Arc<CertifiedKey>,
    provider: Arc<CryptoProvider>,
}

/// Why the key of this replica cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// No key was generated.
    #[error("no key can be generated")]
    Generation,
    /// TLS does not accept the key.
    #[error("the key between replicas cannot be used: {0}")]
    Tls(#[from] Error),
}

/// Accepts one key of a server, or any key of a client, after checking the proof: the store decides who is known.
#[derive(Debug)]
struct RawKeyVerifier {
    /// The `SubjectPublicKeyInfo` of the server; `None` for clients.
    expected: Option<Vec<u8>>,
    provider: Arc<CryptoProvider>,
}

// === impl ReplicaIdentity ===

impl ReplicaIdentity {
    pub(super) fn generate() -> Result<Self, IdentityError> {
        let generated = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new());
        let pkcs8 = PrivatePkcs8KeyDer::from(generated.map_err(|_| IdentityError::Generation)?.as_ref().to_vec());
        let key = any_ecdsa_type(&pkcs8.into())?;
        let public = key.public_key().ok_or(IdentityError::Generation)?;
        let shown = CertificateDer::from(public.as_ref().to_vec());
        Ok(Self { key: Arc::new(CertifiedKey::new(vec![shown], key)), provider: Arc::new(default_provider()) })
    }

    /// The public key, as a `SubjectPublicKeyInfo` in DER.
    pub(super) fn public_key(&self) -> &[u8] {
        self.key.cert.first().map_or(&[], |public| public.as_ref())
    }

    /// TLS toward the replica with this public key.
    pub(super) fn toward(&self, public_key: &[u8]) -> Result<Arc<ClientConfig>, Error> {
        let verifier = Arc::new(self.verifier(Some(public_key.to_vec())));
        let tls = ClientConfig::builder_with_provider(Arc::clone(&self.provider)).with_protocol_versions(&[&TLS13])?;
        let shown = Arc::new(AlwaysResolvesClientRawPublicKeys::new(Arc::clone(&self.key)));
        let mut tls = tls.dangerous().with_custom_certificate_verifier(verifier).with_client_cert_resolver(shown);
        // each connection proves both sides anew
        tls.resumption = Resumption::disabled();
        Ok(Arc::new(tls))
    }

    /// TLS for the other replicas. Check afterwards whose key they show.
    pub(super) fn acceptor(&self) -> Result<Arc<ServerConfig>, Error> {
        let tls = ServerConfig::builder_with_provider(Arc::clone(&self.provider)).with_protocol_versions(&[&TLS13])?;
        let shown = Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::clone(&self.key)));
        let mut tls = tls.with_client_cert_verifier(Arc::new(self.verifier(None))).with_cert_resolver(shown);
        tls.session_storage = Arc::new(NoServerSessionStorage {});
        tls.send_tls13_tickets = 0;
        Ok(Arc::new(tls))
    }

    fn verifier(&self, expected: Option<Vec<u8>>) -> RawKeyVerifier {
        RawKeyVerifier { expected, provider: Arc::clone(&self.provider) }
    }
}

// === impl RawKeyVerifier ===

impl RawKeyVerifier {
    fn check(&self, shown: &CertificateDer<'_>) -> Result<(), Error> {
        if self.expected.as_ref().is_some_and(|expected| expected != shown.as_ref()) {
            return Err(CertificateError::ApplicationVerificationFailure.into());
        }
        Ok(())
    }

    fn proof(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        proof: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(shown.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, proof, &self.provider.signature_verification_algorithms)
    }

    /// Nothing older than TLS 1.3 is offered.
    fn no_tls12() -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("replicas speak TLS 1.3".to_owned()))
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl ServerCertVerifier for RawKeyVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _shown: &CertificateDer<'_>,
        _proof: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Self::no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        proof: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.proof(message, shown, proof)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for RawKeyVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _shown: &CertificateDer<'_>,
        _proof: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Self::no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        proof: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.proof(message, shown, proof)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    use super::*;

    /// The key that the server sees, if both sides are content.
    async fn handshake(client: &ReplicaIdentity, server: &ReplicaIdentity, expected: &[u8]) -> Option<Vec<u8>> {
        let (near, far) = duplex(16 * 1024);
        let connector = TlsConnector::from(client.toward(expected).unwrap());
        let acceptor = TlsAcceptor::from(server.acceptor().unwrap());
        let name = ServerName::try_from("replica").unwrap();
        let (connected, accepted) = tokio::join!(connector.connect(name, near), acceptor.accept(far));
        let (_, connection) = accepted.ok()?.into_inner();
        connected.ok()?;
        connection.peer_certificates()?.first().map(|shown| shown.to_vec())
    }

    #[tokio::test]
    async fn both_sides_prove_their_keys() {
        let (one, two) = (ReplicaIdentity::generate().unwrap(), ReplicaIdentity::generate().unwrap());
        assert_eq!(handshake(&one, &two, two.public_key()).await.as_deref(), Some(one.public_key()));
        let other = ReplicaIdentity::generate().unwrap();
        assert_eq!(handshake(&one, &other, two.public_key()).await, None, "another replica at the address");
    }
}
