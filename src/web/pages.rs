//! The data of each page's template, one type for each page. The account and consent pages have files of their own.

use askama::Template;
use axum::response::{Html, IntoResponse, Response};
use http::StatusCode;

use super::{
    assets, problem,
    state::WebSettings,
    texts::{Permission, Sensitivity},
};
use crate::{
    model::{LoginProvider, RefusalCode},
    oauth::RequestDecision,
    openid::Providers,
};

/// Data that every page shows.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    /// Base path of the pages; empty at the root.
    pub(super) base: String,
    pub(super) name: String,
    pub(super) host: String,
    /// The path of the style sheet.
    pub(super) style: &'static str,
    /// The path of the script.
    pub(super) script: &'static str,
    /// The path of the logo.
    pub(super) mark: &'static str,
}

#[derive(Template)]
#[template(path = "start.html")]
pub(super) struct StartPage<'a> {
    pub(super) layout: Layout,
    /// The public URL, without a slash at its end.
    pub(super) root: &'a str,
    /// The shown endpoint's path after `/mcp`: empty, or a group's.
    pub(super) path: String,
    /// The link that adds the endpoint to Cursor.
    pub(super) cursor: String,
    /// The link that adds the endpoint to VS Code.
    pub(super) vs_code: String,
    /// Backends, for a logged-in visitor.
    pub(super) backends: Option<BackendList>,
    /// The version, shown only after a login.
    pub(super) version: &'static str,
}

/// The login page, on its own or during an authorization.
#[derive(Template)]
#[template(path = "login.html")]
pub(super) struct LoginPage<'a> {
    pub(super) layout: Layout,
    pub(super) token: String,
    /// Reason why the last attempt failed.
    pub(super) alert: Option<Alert>,
    /// The authorization request waiting for the login.
    pub(super) request: Option<LoginRequest<'a>>,
    /// The address of the connect page that follows the login.
    pub(super) connect: Option<String>,
    /// Code of the device waiting for the login.
    pub(super) device: Option<String>,
    /// Providers as an alternative login.
    pub(super) providers: Vec<ProviderButton>,
}

/// Reason why an attempt failed, shown on the page for the next one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Alert {
    pub(super) text: &'static str,
    /// The code of this refusal, logged with its reason.
    pub(super) refusal: RefusalCode,
}

#[derive(Debug)]
pub(super) struct ProviderButton {
    pub(super) name: String,
    pub(super) label: String,
}

/// The authorization request that a login is for.
#[derive(Debug)]
pub(super) struct LoginRequest<'a> {
    pub(super) transaction: &'a str,
    pub(super) client: &'a str,
}

/// The connect page of a server.
#[derive(Template)]
#[template(path = "connect.html")]
pub(super) struct ConnectPage<'a> {
    pub(super) layout: Layout,
    pub(super) token: String,
    /// The address of this page.
    pub(super) address: &'a str,
    pub(super) backend: &'a str,
    /// Host of the server.
    pub(super) server: &'a str,
    /// Host of the authorization server.
    pub(super) authorization_server: &'a str,
    /// The resource that the access is for, unless it is the server.
    pub(super) resource: Option<&'a str>,
    pub(super) scopes: &'a [String],
    pub(super) user: &'a str,
}

/// The page where a user enters a secret that a server needs.
#[derive(Template)]
#[template(path = "secret.html")]
pub(super) struct SecretPage<'a> {
    pub(super) layout: Layout,
    pub(super) token: String,
    /// The address of this page.
    pub(super) address: &'a str,
    pub(super) backend: &'a str,
    pub(super) name: &'a str,
    pub(super) user: &'a str,
}

/// A secret that users enter for servers, without its value.
#[derive(Debug)]
pub(super) struct SecretItem {
    pub(super) name: String,
    /// The servers that need it; empty if no server needs it any more.
    pub(super) servers: String,
    /// Time since it was entered, if it was.
    pub(super) entered: Option<String>,
}

/// The page after a login at a server.
#[derive(Template)]
#[template(path = "connect_done.html")]
pub(super) struct ConnectDonePage<'a> {
    pub(super) layout: Layout,
    pub(super) backend: &'a str,
}

/// The page after a login that the user denied.
#[derive(Template)]
#[template(path = "connect_denied.html")]
pub(super) struct ConnectDeniedPage<'a> {
    pub(super) layout: Layout,
    pub(super) backend: &'a str,
}

/// A server where users log in.
#[derive(Debug)]
pub(super) struct AccountItem {
    pub(super) backend: String,
    /// Time since the login, if there is one.
    pub(super) connected: Option<String>,
    /// Host of the authorization server.
    pub(super) issuer: String,
    pub(super) scope: String,
}

/// `GET /device`: the page for entering the code of a device.
#[derive(Template)]
#[template(path = "device.html")]
pub(super) struct DevicePage<'a> {
    pub(super) layout: Layout,
    pub(super) token: String,
    /// The prefilled code.
    pub(super) code: &'a str,
    /// Reason why the last attempt failed.
    pub(super) alert: Option<Alert>,
    pub(super) user: &'a str,
}

/// The page after the decision about a device.
#[derive(Template)]
#[template(path = "device_decided.html")]
pub(super) struct DeviceDecidedPage<'a> {
    pub(super) layout: Layout,
    pub(super) client: &'a str,
    pub(super) outcome: DeviceOutcome,
    /// Time since the decision.
    pub(super) when: String,
}

/// The decision about a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeviceOutcome {
    Approved,
    Denied,
}

/// The page with a link back to the app, for redirects that are not automatic (`OA-75`).
#[derive(Template)]
#[template(path = "return.html")]
pub(super) struct ReturnPage<'a> {
    pub(super) layout: Layout,
    pub(super) reason: &'a str,
    pub(super) host: &'a str,
    pub(super) location: &'a str,
    /// The code of this refusal, logged with its reason.
    pub(super) refusal: RefusalCode,
}

/// The page that opens an app by its own URL scheme: browsers do it at once, and there is a link.
#[derive(Template)]
#[template(path = "opened.html")]
pub(super) struct OpenedPage<'a> {
    pub(super) layout: Layout,
    /// The scheme, with its colon.
    pub(super) scheme: &'a str,
    pub(super) location: &'a str,
}

/// The page after a denial. The browser goes on to the app after a moment, unless the app's address is not trusted
/// (`OA-75`).
#[derive(Template)]
#[template(path = "denied.html")]
pub(super) struct DeniedPage<'a> {
    pub(super) layout: Layout,
    pub(super) client: &'a str,
    /// The host of the app, if it is unverified.
    pub(super) host: Option<&'a str>,
    pub(super) location: &'a str,
}

/// `GET /invite`: an open invitation.
#[derive(Template)]
#[template(path = "invite.html")]
pub(super) struct InvitePage<'a> {
    pub(super) layout: Layout,
    pub(super) token: String,
    /// The secret of the link.
    pub(super) link: &'a str,
    pub(super) inviter: &'a str,
    pub(super) user: &'a str,
    /// True if the user already exists and gets another key.
    pub(super) is_further: bool,
    pub(super) permissions: Vec<Permission>,
    /// Life of the key, if it expires.
    pub(super) key_life: Option<String>,
    /// Time until the link ends.
    pub(super) valid: String,
    /// The logged-in person.
    pub(super) present: Option<PresentPerson<'a>>,
}

/// The logged-in person on a page that is meant for someone else.
pub(super) struct PresentPerson<'a> {
    pub(super) name: &'a str,
    /// Id of the key of the login.
    pub(super) key: &'a str,
}

/// The page after an invitation was accepted.
#[derive(Template)]
#[template(path = "invited.html")]
pub(super) struct InvitedPage<'a> {
    pub(super) layout: Layout,
    pub(super) user: &'a str,
    /// The new key, if this page may show it.
    pub(super) key: Option<&'a str>,
}

/// The page of an authorization request that was already decided.
#[derive(Template)]
#[template(path = "decided.html")]
pub(super) struct DecidedPage<'a> {
    pub(super) layout: Layout,
    pub(super) client: &'a str,
    pub(super) decision: RequestDecision,
    /// Time since the decision.
    pub(super) when: String,
    /// The address of the app, without parameters.
    pub(super) home: &'a str,
}

#[derive(Template)]
#[template(path = "problem.html")]
pub(super) struct ProblemPage<'a> {
    pub(super) layout: Layout,
    pub(super) title: &'a str,
    pub(super) text: &'a str,
    pub(super) advice: Vec<String>,
    pub(super) error: &'a str,
    /// The code of this refusal, logged with its reason.
    pub(super) refusal: String,
    pub(super) request: Option<String>,
}

#[derive(Debug)]
pub(super) struct BackendItem {
    pub(super) id: String,
    /// Its state as one word, which is also a CSS class.
    pub(super) state: &'static str,
    /// True if the user still has to log in there, or to enter a secret for it.
    pub(super) lacks_login: bool,
    /// The number of tools and the like, or the reason why it is not ready.
    pub(super) detail: String,
    /// For administrators: the last lines of its output, next to its messages.
    pub(super) output: Vec<String>,
}

/// The backends that a visitor may use.
pub(super) struct BackendList {
    /// Differences between the gateway and its configuration file; only for administrators.
    pub(super) configuration: Vec<String>,
    /// The number of backends in each state.
    pub(super) summary: String,
    /// Backends that need attention come first.
    pub(super) items: Vec<BackendItem>,
    pub(super) groups: Vec<GroupItem>,
    /// A sentence about the groups.
    pub(super) groups_note: &'static str,
}

pub(super) struct GroupItem {
    pub(super) id: String,
    pub(super) url: String,
    pub(super) servers: Vec<String>,
}

/// A page with its HTTP status.
pub(super) struct PageResponse<T>(pub(super) StatusCode, pub(super) T);

/// The buttons of the providers, as configured.
pub(super) fn provider_buttons(providers: &Providers) -> Vec<ProviderButton> {
    let button = |spec: &LoginProvider| ProviderButton { name: spec.name.clone(), label: spec.label.clone() };
    providers.specs().map(button).collect()
}

// === impl Layout ===

impl Layout {
    pub(super) fn new(settings: &WebSettings) -> Self {
        Self {
            base: settings.base().to_owned(),
            name: settings.name.clone(),
            host: settings.host(),
            style: assets::style_path(),
            script: assets::script_path(),
            mark: assets::mark_path(),
        }
    }
}

// === impl PageResponse ===

impl<T: Template> IntoResponse for PageResponse<T> {
    fn into_response(self) -> Response {
        match self.1.render() {
            Ok(page) => (self.0, Html(page)).into_response(),
            Err(error) => {
                tracing::error!(%error, "a template could not be rendered");
                problem::Problem::internal().into_response()
            }
        }
    }
}

#[cfg(test)]
mod tests;
