//! The code grant at the token endpoint (RFC 6749 4.1.3; `OA-84`, `OA-85`).

use std::{sync::Arc, time::Duration};

use super::issuer::{Issued, Issuer, narrowed};
use crate::{
    audit::{GrantEvent, GrantParties},
    model::{Client, ClientIp, Grant, GrantType},
    oauth::{
        authorize::pkce::CodeChallenge, credentials::revocation::Revocations, error::ErrorResponse, form::Params,
        logged_reason::GrantProblem, secrets::opaque,
    },
    support::{Digest, Timestamp},
};

/// Time in which a client that got no answer may repeat the exchange of a code once without losing its login.
const REPEATED_WITHIN: Duration = Duration::from_secs(10);

pub(super) struct CodeGrant {
    pub(super) issuer: Arc<Issuer>,
    pub(super) revocations: Arc<Revocations>,
}

impl CodeGrant {
    /// Checks everything, then consumes the code in one step, so that a failed request leaves it usable. A missing
    /// `code_verifier` counts as a wrong one (N-89).
    pub(super) async fn redeem(&self, client: &Client, form: &Params, from: ClientIp) -> Result<Issued, ErrorResponse> {
        let deps = &self.issuer.deps;
        let now = deps.now();
        let digest = Digest::sha256(form.get("code")?.ok_or_else(|| ErrorResponse::missing("code"))?);
        let verifier = form.get("code_verifier")?;
        let redirect_uri = form.get("redirect_uri")?;
        let refused = |problem: GrantProblem| Err(ErrorResponse::InvalidGrant(problem));
        let Some(row) = deps.storage.codes().lookup(&digest).await? else {
            return refused(GrantProblem::UnknownCode(client.id.clone()));
        };
        let grant = self.issuer.live_grant(&row.grant, client, from).await?;
        // it may be omitted, since PKCE binds the code (OA-61)
        if redirect_uri.is_some_and(|uri| Some(uri) != grant.delivery.redirect_uri()) {
            return refused(GrantProblem::RedirectUri(grant.id));
        }
        let Some(verifier) = verifier else { return refused(GrantProblem::VerifierMissing(grant.id)) };
        if !CodeChallenge::parse(&row.challenge).is_some_and(|challenge| challenge.is_met_by(verifier)) {
            return refused(GrantProblem::VerifierWrong(grant.id));
        }
        self.issuer.check_resource(form, &grant)?;
        let scopes = narrowed(form, &grant)?;
        if row.used.is_some() {
            return self.used_again(&digest, &grant, now).await;
        }
        if now >= row.expires {
            return refused(GrantProblem::CodeExpired(grant.id));
        }
        let refresh =
            client.grant_types.contains(&GrantType::RefreshToken).then(|| self.issuer.mint_refresh(&grant, now));
        let (token, new) = refresh.unzip();
        let generation = new.as_ref().map_or_else(|| opaque::base62(&*deps.random, 16), |new| new.generation.clone());
        let issued = self.issuer.issue(&grant, scopes, &generation, now)?;
        if !deps.storage.codes().redeem(&digest, &grant.id, new.as_ref(), now).await? {
            return self.used_again(&digest, &grant, now).await;
        }
        deps.audit.record(GrantEvent::CodeRedeemed(GrantParties::of(&grant)));
        Ok(Issued { refresh: token, ..issued })
    }

    /// RFC 6749 4.1.2: a second use of a valid code means theft, so everything issued for it is revoked. A second use
    /// within ten seconds that equals the first comes from a client that tries again. It gets nothing and loses
    /// nothing, once (`OA-85`).
    async fn used_again(&self, code: &Digest, grant: &Grant, now: Timestamp) -> Result<Issued, ErrorResponse> {
        let codes = self.issuer.deps.storage.codes();
        if codes.repeat(code, now - REPEATED_WITHIN, now).await? {
            self.issuer.deps.audit.record(GrantEvent::CodeRepeated(GrantParties::of(grant)));
            return Err(ErrorResponse::InvalidGrant(GrantProblem::CodeRepeated(grant.id.clone())));
        }
        self.issuer.deps.audit.record(GrantEvent::CodeReplayed(GrantParties::of(grant)));
        self.revocations.end_grant(&grant.id).await?;
        Err(ErrorResponse::InvalidGrant(GrantProblem::CodeReplayed(grant.id.clone())))
    }
}
