//! The section `[auth]`: the authorization server. Knows nothing of how tokens are made.

use std::time::Duration;

use super::section::Section;

/// The authorization server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Auth {
    /// `access_token_lifetime`: 5 minutes to 24 hours (OA-95).
    pub access_token_lifetime: Duration,
    /// `refresh_idle`: how long a grant lives without a refresh, 1 hour to 365 days.
    pub refresh_idle: Duration,
    /// `refresh_absolute`: how long a grant lives in all, 1 hour to 1,825 days.
    pub refresh_absolute: Duration,
    /// `refresh_grace`: how long a refresh token that was used gives the same successor again, 0 to 5 minutes
    /// (OA-90).
    pub refresh_grace: Duration,
    /// `code_lifetime`: how long an authorization code may be redeemed, 10 seconds to 10 minutes.
    pub code_lifetime: Duration,
    /// `transaction_lifetime`: how long a person may take from the authorize page to consent, 1 minute to 1 hour.
    pub transaction_lifetime: Duration,
    /// `redirect_schemes`: URI schemes of applications that clients may be answered at, beside the well-known ones and
    /// those with a period such as `com.example.app` (OA-58). Lower case.
    pub redirect_schemes: Vec<String>,
    /// `trusted_redirect_hosts`: hosts of https redirect URIs that errors are sent to without asking (OA-75).
    pub trusted_redirect_hosts: Vec<String>,
    /// `registration`: whether clients may register by themselves (RFC 7591).
    pub registration: Register,
    /// `conceal_backends`: whether backends that do not exist look like others until somebody logs in (OA-6).
    pub conceal_backends: Conceal,
    /// `advertise_iss`: whether the metadata says that answers carry `iss`; they do in any case (OA-12).
    pub advertise_iss: Advertise,
}

/// Whether clients may register by themselves (RFC 7591).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Register {
    /// Everybody may, within limits.
    Open,
    /// Nobody may.
    Off,
}

/// Whether backends that do not exist look like others until somebody logs in (OA-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conceal {
    /// They do.
    Concealed,
    /// They are answered with 404 at once.
    Told,
}

/// Whether the metadata says that authorization responses carry `iss` (RFC 9207, OA-12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advertise {
    /// It does.
    Advertised,
    /// It does not, for clients that trip over it.
    Silent,
}

impl Default for Auth {
    fn default() -> Self {
        Self {
            access_token_lifetime: Duration::from_hours(1),
            refresh_idle: Duration::from_hours(30 * 24),
            refresh_absolute: Duration::from_hours(180 * 24),
            refresh_grace: Duration::from_mins(1),
            code_lifetime: Duration::from_mins(1),
            transaction_lifetime: Duration::from_mins(10),
            redirect_schemes: Vec::new(),
            trusted_redirect_hosts: Vec::new(),
            registration: Register::Open,
            conceal_backends: Conceal::Concealed,
            advertise_iss: Advertise::Advertised,
        }
    }
}

impl Auth {
    /// Reads the section; what is wrong is noted there, and the default stands in.
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        let (second, minute, hour) = (Duration::from_secs(1), Duration::from_mins(1), Duration::from_hours(1));
        let mut lifetime = |key, from, to, otherwise| section.duration(key, from..=to).unwrap_or(otherwise);
        Self {
            access_token_lifetime: lifetime(
                "access_token_lifetime",
                minute * 5,
                hour * 24,
                default.access_token_lifetime,
            ),
            refresh_idle: lifetime("refresh_idle", hour, hour * 24 * 365, default.refresh_idle),
            refresh_absolute: lifetime("refresh_absolute", hour, hour * 24 * 1825, default.refresh_absolute),
            refresh_grace: lifetime("refresh_grace", Duration::ZERO, minute * 5, default.refresh_grace),
            code_lifetime: lifetime("code_lifetime", second * 10, minute * 10, default.code_lifetime),
            transaction_lifetime: lifetime("transaction_lifetime", minute, hour, default.transaction_lifetime),
            redirect_schemes: section.parsed_list("redirect_schemes", scheme).unwrap_or_default(),
            trusted_redirect_hosts: section
                .parsed_list("trusted_redirect_hosts", super::http::host)
                .unwrap_or_default(),
            registration: section
                .choice("registration", &[("open", Register::Open), ("off", Register::Off)])
                .unwrap_or(default.registration),
            conceal_backends: match section.flag("conceal_backends") {
                Some(false) => Conceal::Told,
                _ => default.conceal_backends,
            },
            advertise_iss: match section.flag("advertise_iss") {
                Some(false) => Advertise::Silent,
                _ => default.advertise_iss,
            },
        }
    }
}

/// A private-use URI scheme: the grammar of RFC 3986 3.1, and none that a browser runs or opens itself (OA-55).
fn scheme(text: &str) -> Result<String, String> {
    const REFUSED: [&str; 9] =
        ["http", "https", "javascript", "data", "file", "blob", "about", "vbscript", "view-source"];
    let lowered = text.to_ascii_lowercase();
    let well_formed = lowered.starts_with(|c: char| c.is_ascii_lowercase())
        && lowered.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    if !well_formed {
        Err("a URI scheme is a letter, then letters, digits, `+`, `-` and `.`; without `://`".to_owned())
    } else if REFUSED.contains(&lowered.as_str()) {
        Err("this scheme cannot belong to an application; take a private one such as `myapp`".to_owned())
    } else {
        Ok(lowered)
    }
}
