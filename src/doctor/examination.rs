//! The examination of a deployment for one client, following the client's steps.

use std::sync::Arc;

use serde::Serialize;
use tokio::sync::OnceCell;
use url::Url;

use super::{
    authorization, certificate,
    client::{ClientProfile, ScopeSource},
    cross_origin,
    discovery::{self, DiscoveredDocuments, FirstAnswer},
    exchange::Prober,
    finding::{Finding, Severity},
    login::OpenLogin,
    reach,
    registration::{self, Identified, RegistrationPolicy},
    requirement::Requirement,
};
use crate::{fetch::OpenClient, support::Random};

/// Examines one deployment.
pub struct Doctor {
    server: Url,
    policy: RegistrationPolicy,
    prober: Prober,
    random: Arc<dyn Random>,
    /// The finding about the certificate, the same for every client.
    certificate: OnceCell<Option<Finding>>,
    /// Problems that keep clients that run at their vendors from the server.
    reach: OnceCell<Vec<Finding>>,
}

/// The result for one client.
pub struct Examination {
    pub client: &'static ClientProfile,
    /// Verdict: does it connect?
    pub verdict: ClientVerdict,
    /// Everything that is wrong.
    pub findings: Vec<Finding>,
    /// The login, if the examination got that far.
    pub login: Option<OpenLogin>,
}

/// Verdict on a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientVerdict {
    /// Everything up to the login page meets the client's needs.
    Connects,
    /// The server needs no login.
    NeedsNoLogin,
    /// Everything tried meets the client's needs; it was not registered.
    NotRegistered,
    /// It runs at its vendor, from where the server cannot be reached. Nothing else keeps it from connecting.
    CannotReach,
    /// It does not connect.
    Fails,
}

/// The point that the examination for a client reached.
enum Reached {
    NoLogin,
    Discovery,
    LoginPage(Box<OpenLogin>),
}

// === impl Examination ===

impl Examination {
    /// The result for a client that would get no response at all.
    pub fn without_response(client: &'static ClientProfile, why: &Finding) -> Self {
        Self { client, verdict: ClientVerdict::Fails, findings: vec![why.clone()], login: None }
    }
}

// === impl Doctor ===

impl Doctor {
    /// Creates the examination of the MCP server at `server`.
    pub fn new(server: Url, policy: RegistrationPolicy, http: OpenClient, random: Arc<dyn Random>) -> Self {
        Self { server, policy, prober: Prober::new(http), random, certificate: OnceCell::new(), reach: OnceCell::new() }
    }

    /// Sends one request. The error says why no client would get a response.
    pub async fn reach(&self) -> Result<(), Finding> {
        discovery::first_response(&self.prober, &self.server).await.map(drop)
    }

    /// Follows the steps of one client.
    pub async fn examine(&self, client: &'static ClientProfile) -> Examination {
        let mut findings = Vec::new();
        let reached = Box::pin(self.walk(client, &mut findings)).await.map_err(|finding| findings.push(finding));
        findings.sort_by_key(|finding| finding.severity);
        let mut blocking = findings.iter().filter(|finding| finding.severity == Severity::Blocks).peekable();
        let is_blocked = blocking.peek().is_some();
        let out_of_reach = self.reach.get().is_some_and(|reach| blocking.all(|finding| reach.contains(finding)));
        let (verdict, login) = match reached {
            Ok(Reached::NoLogin) if !is_blocked => (ClientVerdict::NeedsNoLogin, None),
            Ok(Reached::Discovery) if !is_blocked => (ClientVerdict::NotRegistered, None),
            Ok(Reached::LoginPage(login)) if !is_blocked => (ClientVerdict::Connects, Some(*login)),
            Ok(Reached::LoginPage(login)) if out_of_reach => (ClientVerdict::CannotReach, Some(*login)),
            Ok(_) if out_of_reach => (ClientVerdict::CannotReach, None),
            Ok(Reached::LoginPage(login)) => (ClientVerdict::Fails, Some(*login)),
            _ => (ClientVerdict::Fails, None),
        };
        Examination { client, verdict, findings, login }
    }

    /// Collects problems in `findings`; the error is the problem that ended the examination.
    async fn walk(&self, client: &'static ClientProfile, findings: &mut Vec<Finding>) -> Result<Reached, Finding> {
        let answer = discovery::first_answer(&self.prober, &self.server).await?;
        findings.extend(self.certificate.get_or_init(|| certificate::ends_soon(&self.server)).await.clone());
        if client.requires.contains(&Requirement::PublicAddress) {
            findings.extend_from_slice(self.reach.get_or_init(|| reach::problems(&self.server)).await);
        }
        let is_page = client.requires.contains(&Requirement::CrossOrigin);
        let (challenge, problems) = match answer {
            FirstAnswer::Served if is_page => {
                findings.extend(cross_origin::problems_without_login(&self.prober, &self.server).await?);
                return Ok(Reached::NoLogin);
            }
            FirstAnswer::Served => return Ok(Reached::NoLogin),
            FirstAnswer::Refused(challenge, problems) => (challenge, problems),
        };
        findings.extend(problems);
        let found = discovery::discover(&self.prober, &self.server, challenge).await?;
        findings.extend(client.requires.iter().flat_map(|requirement| requirement.broken(&self.server, &found)));
        if is_page {
            findings.extend(cross_origin::problems(&self.prober, &self.server, &found).await?);
        }
        let scope = client.scope(|source| named_scope(&found, source));
        let scope = scope.as_deref();
        let (identified, problems) = registration::identify(&self.prober, client, &found, self.policy, scope).await?;
        findings.extend(problems);
        let Identified::As(known) = identified else { return Ok(Reached::Discovery) };
        let begun = OpenLogin::begin(client, known, &found, &self.server, scope, &*self.random);
        let Some(login) = begun else { return Ok(Reached::Discovery) };
        authorization::open_page(&self.prober, &login).await?;
        findings.extend(authorization::token_errors(&self.prober, &login).await?);
        Ok(Reached::LoginPage(Box::new(login)))
    }
}

fn named_scope(found: &DiscoveredDocuments, source: ScopeSource) -> Option<String> {
    match source {
        ScopeSource::Challenge => found.challenge.as_ref()?.scope.clone(),
        ScopeSource::Resource => Some(found.resource.as_ref()?.strings("scopes_supported")?.join(" ")),
        ScopeSource::AuthorizationServer => Some(found.server.strings("scopes_supported")?.join(" ")),
        ScopeSource::Fixed(scope) => Some(scope.to_owned()),
    }
}
