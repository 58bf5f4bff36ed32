//! Data of the consent page's template, for apps and devices.

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

/// The choice of servers on a consent page.
pub(super) struct ServerSelection {
    /// The servers that the app could use, by name.
    pub(super) items: Vec<OfferedServer>,
    /// The sentence that an unchanged choice includes servers added later.
    pub(super) later: Option<&'static str>,
    /// Permissions beyond the use of these servers.
    pub(super) permissions: Vec<Permission>,
    /// The reason why the submitted choice grants nothing.
    pub(super) alert: Option<&'static str>,
}

/// A server on a consent page.
pub(super) struct OfferedServer {
    pub(super) name: String,
    /// The number of its tools, in words.
    pub(super) tools: String,
    /// Label of the read-only option.
    pub(super) read_only: String,
    /// The widest access that the person can grant.
    pub(super) most: Access,
    /// The preselected access; `None` if the server is left out.
    pub(super) chosen: Option<Access>,
    /// True if the user still has to log in there, or to enter a secret for it.
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

/// The app or device that asks for consent.
pub(super) enum ConsentSubject<'a> {
    /// An app, at a redirect URI.
    App { transaction: &'a str, destination: Destination },
    /// A device that shows this code.
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
