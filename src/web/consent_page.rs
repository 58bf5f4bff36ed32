//! The consent page of apps and devices.

use askama::Template;

use super::{
    host_name::HostName,
    pages::Layout,
    texts::{Destination, Permission, Sensitivity},
};
use crate::{model::Access, oauth::ClientOrigin};

#[derive(Template)]
#[template(path = "consent.html")]
pub(super) struct ConsentPage<'a> {
    pub(super) layout: Layout,
    pub(super) token: String,
    pub(super) subject: ConsentSubject<'a>,
    pub(super) client: &'a str,
    pub(super) origin: OriginText,
    pub(super) choice: ServerSelection,
    pub(super) resource: &'a str,
    pub(super) lifetime: String,
    pub(super) user: &'a str,
}

/// The servers on a consent page.
pub(super) struct ServerSelection {
    /// The servers that the app could use, by name.
    pub(super) items: Vec<OfferedServer>,
    /// What the choice of all reaches beyond them.
    pub(super) later: Option<&'static str>,
    /// What the app could do beside using them.
    pub(super) permissions: Vec<Permission>,
    /// Why the choice that was sent grants nothing.
    pub(super) alert: Option<&'static str>,
}

/// A server on a consent page.
pub(super) struct OfferedServer {
    pub(super) name: String,
    /// The number of its tools, in words.
    pub(super) tools: String,
    /// The label of the choice to read.
    pub(super) read_only: String,
    /// The most that the person can give.
    pub(super) most: Access,
    /// The choice at first; `None` if it is left out.
    pub(super) chosen: Option<Access>,
    /// True if the user has to log in there, or owes it a secret.
    pub(super) lacks_login: bool,
}

/// The source of a client's name, on a page.
pub(super) enum OriginText {
    /// Its own claim.
    Registered,
    /// The site of its document.
    Document(HostName),
    Operator,
}

/// The party waiting for a consent.
pub(super) enum ConsentSubject<'a> {
    /// An app, at a redirect URI.
    App { transaction: &'a str, destination: Destination },
    /// A device, which shows a code.
    Device { code: String },
}

// === impl OriginText ===

impl From<&ClientOrigin> for OriginText {
    fn from(origin: &ClientOrigin) -> Self {
        match origin {
            ClientOrigin::Registered => Self::Registered,
            ClientOrigin::Document { host } => Self::Document(HostName::of(host)),
            ClientOrigin::Operator => Self::Operator,
        }
    }
}
