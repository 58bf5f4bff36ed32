//! The hosts that may describe clients (`OA-54`).

/// Trust in Client ID Metadata Documents, by the host that serves them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientDocumentPolicy {
    /// `client_documents`, `client_document_hosts`.
    pub trust: DocumentTrust,
    /// `denied_client_document_hosts`: never read, even with any trust.
    pub denied: Vec<String>,
}

/// The hosts that may describe clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentTrust {
    Any,
    /// These domains, with all names below.
    Listed(Vec<String>),
    /// No documents: clients register.
    Off,
}

// === impl ClientDocumentPolicy ===

impl ClientDocumentPolicy {
    /// True if documents of this host may be read.
    pub fn allows(&self, host: &str) -> bool {
        let listed = |domains: &[String]| domains.iter().any(|domain| is_within(host, domain));
        !listed(&self.denied)
            && match &self.trust {
                DocumentTrust::Any => true,
                DocumentTrust::Listed(domains) => listed(domains),
                DocumentTrust::Off => false,
            }
    }
}

impl Default for ClientDocumentPolicy {
    fn default() -> Self {
        Self { trust: DocumentTrust::Any, denied: Vec::new() }
    }
}

/// True if the host is this domain or below it. The root label is allowed: `a.example.` is `a.example`.
fn is_within(host: &str, domain: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oa_054_a_denied_domain_is_denied_whatever_else_is_said() {
        let domains = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let policy = |trust, denied: &[&str]| ClientDocumentPolicy { trust, denied: domains(denied) };
        let listed = || DocumentTrust::Listed(domains(&["example.com"]));
        for (policy, host, allowed) in [
            (policy(DocumentTrust::Any, &[]), "a.example", true),
            (policy(DocumentTrust::Any, &["a.example"]), "a.example", false),
            (policy(DocumentTrust::Any, &["a.example"]), "b.a.example", false),
            (policy(DocumentTrust::Any, &["a.example"]), "a.example.", false),
            (policy(DocumentTrust::Any, &["a.example"]), "ba.example", true),
            (policy(listed(), &[]), "example.com", true),
            (policy(listed(), &[]), "app.example.com", true),
            (policy(listed(), &[]), "evilexample.com", false),
            (policy(listed(), &[]), "example.com.evil", false),
            (policy(listed(), &["app.example.com"]), "app.example.com", false),
            (policy(DocumentTrust::Off, &[]), "example.com", false),
        ] {
            assert_eq!(policy.allows(host), allowed, "{host} {policy:?}");
        }
    }
}
