//! The device grant at the token endpoint (RFC 8628 3.4; `OA-146`).

use std::{sync::Arc, time::Duration};

use super::issuer::{Issued, Issuer};
use crate::{
    audit::{GrantEvent, GrantParties},
    model::{Client, ClientIp, GrantType},
    oauth::{device::INTERVAL, error::ErrorResponse, form::Params, logged_reason::GrantProblem, opaque},
    support::{Digest, limits::Buckets},
};

/// The device grant.
pub(super) struct DeviceGrant {
    issuer: Arc<Issuer>,
    /// Polls by device code; only codes that exist are counted.
    polls: Buckets<Digest>,
}

impl DeviceGrant {
    pub(super) fn new(issuer: Arc<Issuer>) -> Self {
        Self { issuer, polls: Buckets::new(1, Duration::from_secs(INTERVAL)) }
    }

    /// Answers a poll: with tokens, once, if the person approved.
    pub(super) async fn poll(&self, client: &Client, form: &Params, from: ClientIp) -> Result<Issued, ErrorResponse> {
        let deps = &self.issuer.deps;
        let now = deps.now();
        let digest = Digest::sha256(form.get("device_code")?.ok_or_else(|| ErrorResponse::missing("device_code"))?);
        let found = deps.storage.device_authorizations().lookup(&digest).await?;
        // a device code of another client reveals and changes nothing
        let Some(row) = found.filter(|row| row.client == client.id) else {
            return Err(ErrorResponse::InvalidGrant(GrantProblem::UnknownDevice(client.id.clone())));
        };
        self.polls.take(digest, now).map_err(|_| ErrorResponse::SlowDown)?;
        if row.denied.is_some() {
            return Err(ErrorResponse::AccessDenied);
        }
        let Some(id) = row.grant else {
            return Err(if now < row.expires {
                ErrorResponse::AuthorizationPending
            } else {
                ErrorResponse::ExpiredToken
            });
        };
        let grant = self.issuer.live_grant(&id, client, from).await?;
        if row.redeemed.is_some() {
            return Err(ErrorResponse::InvalidGrant(GrantProblem::DeviceReplayed(grant.id)));
        }
        if now >= row.expires {
            return Err(ErrorResponse::ExpiredToken);
        }
        let refresh =
            client.grant_types.contains(&GrantType::RefreshToken).then(|| self.issuer.mint_refresh(&grant, now));
        let (token, new) = refresh.unzip();
        let generation = new.as_ref().map_or_else(|| opaque::base62(&*deps.random, 16), |new| new.generation.clone());
        let issued = self.issuer.issue(&grant, grant.scopes.clone(), &generation, now)?;
        if !deps.storage.device_authorizations().redeem(&digest, &grant.id, new.as_ref(), now).await? {
            return Err(ErrorResponse::InvalidGrant(GrantProblem::DeviceReplayed(grant.id)));
        }
        deps.audit.record(GrantEvent::CodeRedeemed(GrantParties::of(&grant)));
        Ok(Issued { refresh: token, ..issued })
    }
}
