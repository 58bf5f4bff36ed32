//! What the operator lets a server learn about its callers.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Caller, CallerIdentity, CallerText, HttpSpec, IdentityToken, SecretName, SecretValues, StdioSpec, TransportSpec,
    UserId,
};
use crate::support::Secret;

/// Disclosure of callers to a server. The transport of a backend holds the texts for the gateway itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Disclosure {
    /// The header that names the caller.
    pub identity: Option<IdentityHeader>,
    /// The arguments that contain the caller, by position.
    pub args: BTreeMap<usize, CallerText>,
    /// The variables that contain the caller.
    pub env: BTreeMap<String, CallerText>,
    /// The headers that contain the caller.
    pub headers: BTreeMap<String, CallerText>,
    /// The secrets of its one user in these texts, which are never shown.
    pub hidden: Vec<Secret>,
}

/// The header that names the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityHeader {
    /// Its name, in lower case.
    pub name: String,
    pub form: IdentityForm,
}

/// The form in which a header names the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdentityForm {
    /// The user in plain text: trustworthy only at a server that no one else can reach.
    Plain,
    /// A short-lived JWT for this audience, signed by the gateway.
    Signed {
        /// The `aud` of the token.
        audience: String,
    },
}

// === impl Disclosure ===

impl Disclosure {
    /// True if the server learns nothing.
    pub fn is_empty(&self) -> bool {
        self.identity.is_none() && !self.has_texts()
    }

    /// True if a text of the configuration contains the caller.
    pub fn has_texts(&self) -> bool {
        !self.args.is_empty() || !self.env.is_empty() || !self.headers.is_empty()
    }

    /// The secrets that each user enters for the server.
    pub fn secret_names(&self) -> BTreeSet<SecretName> {
        self.texts().flat_map(CallerText::secret_names).cloned().collect()
    }

    /// True if the server gets something different for each caller.
    pub fn tells_apart(&self) -> bool {
        self.identity.is_some() || self.texts().any(CallerText::is_of_caller)
    }

    /// The disclosure to a server that only this user reaches.
    #[must_use]
    pub fn of_user(&self, user: &UserId, secrets: &SecretValues) -> Self {
        let named = |texts: &BTreeMap<String, CallerText>| {
            texts.iter().map(|(name, text)| (name.clone(), text.of_user(user, secrets))).collect()
        };
        Self {
            identity: self.identity.clone(),
            args: self.args.iter().map(|(at, text)| (*at, text.of_user(user, secrets))).collect(),
            env: named(&self.env),
            headers: named(&self.headers),
            hidden: secrets.values().cloned().collect(),
        }
    }

    fn texts(&self) -> impl Iterator<Item = &CallerText> {
        self.args.values().chain(self.env.values()).chain(self.headers.values())
    }

    /// Identity of this caller in the server's view. Two callers with an equal one may share a connection.
    pub fn identity_of(&self, caller: &Caller) -> CallerIdentity {
        let is_signed = self.identity.as_ref().is_some_and(|header| matches!(header.form, IdentityForm::Signed { .. }));
        CallerIdentity { user: caller.user.clone(), client: caller.client.clone().filter(|_| is_signed) }
    }

    /// The transport `to` for a connection of this caller. `token` is the signed statement about the caller, if that
    /// form is configured.
    #[must_use]
    pub fn applied(&self, to: TransportSpec, caller: &CallerIdentity, token: Option<IdentityToken>) -> TransportSpec {
        match to {
            TransportSpec::Stdio(stdio) => TransportSpec::Stdio(self.to_program(stdio, caller)),
            TransportSpec::Http(http) => TransportSpec::Http(self.to_url(http, caller, token)),
            TransportSpec::Sse(http) => TransportSpec::Sse(self.to_url(http, caller, token)),
            TransportSpec::WebSocket(http) => TransportSpec::WebSocket(self.to_url(http, caller, token)),
            other @ (TransportSpec::Socket(_) | TransportSpec::Demo) => other,
        }
    }

    fn to_program(&self, mut stdio: StdioSpec, caller: &CallerIdentity) -> StdioSpec {
        for (at, text) in &self.args {
            if let Some(argument) = stdio.args.get_mut(*at) {
                text.for_caller(caller).expose().clone_into(argument);
            }
        }
        stdio.env.extend(self.env.iter().map(|(name, text)| (name.clone(), text.for_caller(caller))));
        stdio
    }

    fn to_url(&self, mut http: HttpSpec, caller: &CallerIdentity, token: Option<IdentityToken>) -> HttpSpec {
        http.headers.extend(self.headers.iter().map(|(name, text)| (name.clone(), text.for_caller(caller))));
        match &self.identity {
            Some(IdentityHeader { name, form: IdentityForm::Plain }) => {
                http.headers.insert(name.clone(), caller.header_value().into());
            }
            Some(IdentityHeader { form: IdentityForm::Signed { .. }, .. }) => http.identity = token,
            None => {}
        }
        http
    }
}
