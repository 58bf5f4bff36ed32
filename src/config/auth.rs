//! The section `[auth]`: policy of the authorization server.

use super::{keys, section::Section};
use crate::model::{
    AuthPolicy, ClientDocumentPolicy, DocumentTrust, EgressNames, EgressPolicy, EgressProxy, Registration, policy::host,
};

/// Reads the section; reports invalid values and uses their defaults.
pub(super) fn read(section: &mut Section<'_>) -> AuthPolicy {
    let (policy, _) = keys::read(section, AuthPolicy::KEYS, AuthPolicy::default());
    AuthPolicy {
        registration: registration(section),
        client_documents: client_documents(section),
        egress: egress(section),
        ..policy
    }
}

fn registration(section: &mut Section<'_>) -> Registration {
    let listed = section.parsed_list("registration_hosts", host).unwrap_or_default();
    let choices = [
        ("open", Registration::Open),
        ("allowlist", Registration::Listed(listed)),
        ("initial-access-token", Registration::ByToken),
        ("off", Registration::Off),
    ];
    section.choice("registration", &choices).unwrap_or(Registration::Open)
}

/// Trust in metadata documents of clients.
fn client_documents(section: &mut Section<'_>) -> ClientDocumentPolicy {
    let listed = section.parsed_list("client_document_hosts", host).unwrap_or_default();
    let denied = section.parsed_list("denied_client_document_hosts", host).unwrap_or_default();
    let choices =
        [("any", DocumentTrust::Any), ("allowlist", DocumentTrust::Listed(listed)), ("off", DocumentTrust::Off)];
    ClientDocumentPolicy { trust: section.choice("client_documents", &choices).unwrap_or(DocumentTrust::Any), denied }
}

/// Access to URLs named by strangers.
fn egress(section: &mut Section<'_>) -> EgressPolicy {
    let proxy = section.parsed("egress_proxy", EgressProxy::parse);
    let (by_proxy, fake) = (section.flag("egress_proxy_resolves"), section.flag("fake_ip_resolver"));
    let names = match (by_proxy == Some(true), fake == Some(true)) {
        (true, true) => {
            section.fault(
                "`egress_proxy_resolves` and `fake_ip_resolver` exclude each other",
                Some("leave one of them out"),
            );
            EgressNames::Resolved
        }
        (true, false) if proxy.is_none() => {
            let advice = Some("add `egress_proxy = \"http://proxy.example.com:3128\"`, or leave it out");
            section.fault("`egress_proxy_resolves` needs a proxy", advice);
            EgressNames::Resolved
        }
        (true, false) => EgressNames::ByProxy,
        (false, true) => EgressNames::Fake,
        (false, false) => EgressNames::Resolved,
    };
    EgressPolicy { proxy, names }
}
