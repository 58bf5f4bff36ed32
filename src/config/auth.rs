//! The section `[auth]`: policy of the authorization server. Knows nothing of tokens.

use std::time::Duration;

use super::{http::host, section::Section};
use crate::model::{
    AdvertiseIss, AssertionAudience, AuthPolicy, ClientDocumentPolicy, ConcealBackends, DocumentTrust, EgressNames,
    EgressPolicy, EgressProxy, ParentAudience, RateLimitScope, Registration,
};

/// Reads the section; reports invalid values and uses their defaults.
pub(super) fn read(section: &mut Section<'_>) -> AuthPolicy {
    let default = AuthPolicy::default();
    let (second, minute, hour) = (Duration::from_secs(1), Duration::from_mins(1), Duration::from_hours(1));
    let mut lifetime = |key, from, to, otherwise| section.duration(key, from..=to).unwrap_or(otherwise);
    AuthPolicy {
        access_token_lifetime: lifetime("access_token_lifetime", minute * 5, hour * 24, default.access_token_lifetime),
        refresh_idle: lifetime("refresh_idle", hour, hour * 24 * 365, default.refresh_idle),
        refresh_absolute: lifetime("refresh_absolute", hour, hour * 24 * 1825, default.refresh_absolute),
        refresh_grace: lifetime("refresh_grace", Duration::ZERO, minute * 5, default.refresh_grace),
        code_lifetime: lifetime("code_lifetime", second * 10, minute * 10, default.code_lifetime),
        transaction_lifetime: lifetime("transaction_lifetime", minute, hour, default.transaction_lifetime),
        audit_retention: lifetime("audit_retention", hour * 24 * 7, hour * 24 * 3650, default.audit_retention),
        rate_limits: section
            .choice("rate_limits", &[("shared", RateLimitScope::Shared), ("replica", RateLimitScope::Replica)])
            .unwrap_or(default.rate_limits),
        redirect_schemes: section.parsed_list("redirect_schemes", scheme).unwrap_or_default(),
        trusted_redirect_hosts: section.parsed_list("trusted_redirect_hosts", host).unwrap_or_default(),
        registration: registration(section),
        client_documents: client_documents(section),
        egress: egress(section),
        conceal_backends: match section.flag("conceal_backends") {
            Some(false) => ConcealBackends::No,
            _ => default.conceal_backends,
        },
        advertise_iss: match section.flag("advertise_iss") {
            Some(false) => AdvertiseIss::No,
            _ => default.advertise_iss,
        },
        assertion_audience: section
            .choice(
                "assertion_audience",
                &[("issuer", AssertionAudience::Issuer), ("token-endpoint", AssertionAudience::IssuerOrTokenEndpoint)],
            )
            .unwrap_or(default.assertion_audience),
        parent_audience: match section.flag("aud_parent_ok") {
            Some(true) => ParentAudience::Accepted,
            _ => default.parent_audience,
        },
    }
}

/// Who may register.
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

/// The way to what strangers name.
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

/// A private-use URI scheme: the grammar of RFC 3986 3.1, without schemes that a browser runs or opens itself (OA-55).
fn scheme(text: &str) -> Result<String, String> {
    const REFUSED: [&str; 9] =
        ["http", "https", "javascript", "data", "file", "blob", "about", "vbscript", "view-source"];
    let lowered = text.to_ascii_lowercase();
    let well_formed = lowered.starts_with(|c: char| c.is_ascii_lowercase())
        && lowered.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    if !well_formed {
        Err("a URI scheme is a letter, then letters, digits, `+`, `-` and `.`; without `://`".to_owned())
    } else if REFUSED.contains(&lowered.as_str()) {
        Err("this scheme cannot belong to an application; use a private one such as `myapp`".to_owned())
    } else {
        Ok(lowered)
    }
}
