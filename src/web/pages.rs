//! One type for each page: what its template shows. Knows nothing of where that comes from.

use askama::Template;
use axum::response::{Html, IntoResponse, Response};
use http::StatusCode;

use super::{
    assets, problem,
    state::Settings,
    words::{Destination, Permission, Weight},
};

/// What every page shows.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    /// The path below which the pages lie; empty at the root.
    pub(super) base: String,
    /// What the gateway calls itself.
    pub(super) name: String,
    /// The host by which people know it.
    pub(super) host: String,
    /// The path of the style sheet.
    pub(super) style: &'static str,
    /// The path of the mark.
    pub(super) mark: &'static str,
}

/// `GET /`.
#[derive(Template)]
#[template(path = "start.html")]
pub(super) struct Start<'a> {
    pub(super) frame: Frame,
    /// The public URL, without a slash at its end.
    pub(super) root: &'a str,
    /// The backends, where somebody is logged in.
    pub(super) backends: Option<Vec<Backend>>,
    pub(super) version: &'static str,
}

/// The login, by itself or on the way to a decision.
#[derive(Template)]
#[template(path = "login.html")]
pub(super) struct Login<'a> {
    pub(super) frame: Frame,
    pub(super) token: String,
    /// Why the last try did not do.
    pub(super) alert: Option<String>,
    /// What the login is for; by itself it leads to the account page.
    pub(super) request: Option<Request<'a>>,
}

/// The authorization request that a login is for.
#[derive(Debug)]
pub(super) struct Request<'a> {
    /// The request itself, sealed.
    pub(super) transaction: &'a str,
    pub(super) client: &'a str,
}

/// The decision on an authorization request.
#[derive(Template)]
#[template(path = "consent.html")]
pub(super) struct Consent<'a> {
    pub(super) frame: Frame,
    pub(super) token: String,
    pub(super) transaction: &'a str,
    pub(super) client: &'a str,
    pub(super) destination: Destination,
    pub(super) permissions: Vec<Permission>,
    pub(super) resource: &'a str,
    pub(super) lifetime: String,
    pub(super) user: &'a str,
}

/// The way back to an app that a browser is not sent to by itself (`OA-75`).
#[derive(Template)]
#[template(path = "handover.html")]
pub(super) struct Handover<'a> {
    pub(super) frame: Frame,
    pub(super) reason: &'a str,
    pub(super) host: &'a str,
    pub(super) location: &'a str,
}

/// `GET /account`.
#[derive(Template)]
#[template(path = "account.html")]
pub(super) struct Account<'a> {
    pub(super) frame: Frame,
    pub(super) token: String,
    pub(super) user: &'a str,
    /// The name of the key of the login, where other keys may share its user.
    pub(super) key: Option<&'a str>,
    /// What was just done.
    pub(super) notice: Option<&'static str>,
    pub(super) grants: Vec<Grant>,
    pub(super) clients: Vec<Client>,
    pub(super) backends: Vec<Backend>,
}

/// What went wrong.
#[derive(Template)]
#[template(path = "problem.html")]
pub(super) struct Problem<'a> {
    pub(super) frame: Frame,
    pub(super) title: &'a str,
    pub(super) text: &'a str,
    pub(super) advice: &'a [&'static str],
    pub(super) error: &'a str,
    pub(super) request: Option<String>,
}

/// One grant on the account page.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) id: String,
    pub(super) client: String,
    pub(super) destination: Destination,
    pub(super) permissions: Vec<Permission>,
    pub(super) endpoint: String,
    /// The name of the key that it was allowed with, where its user may have several.
    pub(super) key: Option<String>,
    pub(super) created: String,
    pub(super) used: String,
}

/// One client on the account page, with a session or without.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) name: String,
    pub(super) endpoint: String,
    pub(super) protocol_version: String,
    pub(super) used: String,
}

/// One backend at a glance.
#[derive(Debug)]
pub(super) struct Backend {
    pub(super) id: String,
    pub(super) health: Health,
    /// What it offers, or what is wrong with it.
    pub(super) detail: String,
}

/// How a backend is, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Health {
    /// It answers.
    Ready,
    /// It will answer soon.
    Starting,
    /// It does not answer.
    Down,
}

/// A page with its status.
pub(super) struct Page<T>(pub(super) StatusCode, pub(super) T);

// === impl Frame ===

impl Frame {
    /// The frame of every page of this gateway.
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            base: settings.base().to_owned(),
            name: settings.name.clone(),
            host: settings.host(),
            style: assets::style_path(),
            mark: assets::mark_path(),
        }
    }
}

// === impl Health ===

impl Health {
    /// The word for it, which the style sheet knows too.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Starting => "starting",
            Self::Down => "down",
        }
    }
}

// === impl Page ===

impl<T: Template> IntoResponse for Page<T> {
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
