//! The device grant at the token endpoint (RFC 8628 3.4; `OA-146`).

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;

use super::issuer::{Issued, Issuer};
use crate::{
    audit::{GrantEvent, GrantParties},
    model::{Client, ClientIp, GrantType},
    oauth::{
        authorize::device::INTERVAL, error::ErrorResponse, form::Params, logged_reason::GrantProblem, secrets::opaque,
    },
    support::{Digest, Timestamp},
};

/// Time by which a poll may be early, because clocks and networks differ.
const EARLY: Duration = Duration::from_secs(1);
/// Time that `slow_down` adds to the interval (RFC 8628 3.5).
const SLOWER: Duration = Duration::from_secs(5);
/// Maximum interval after `slow_down`.
const LONGEST: Duration = Duration::from_mins(1);
/// Maximum number of devices whose polls are remembered: twice the number that may wait.
const MAX_POLLED: usize = 20_000;

pub(super) struct DeviceGrant {
    issuer: Arc<Issuer>,
    polls: DevicePolls,
}

/// The polls of each device code; only existing codes are counted.
#[derive(Default)]
struct DevicePolls(Mutex<HashMap<Digest, LastPoll>>);

/// The last poll of a device.
struct LastPoll {
    at: Timestamp,
    /// The interval given to the device.
    interval: Duration,
}

impl DevicePolls {
    /// Records a poll. Returns false if it came too early, which makes the interval longer.
    fn note(&self, device: Digest, now: Timestamp) -> bool {
        let mut polls = self.0.lock();
        if polls.len() >= MAX_POLLED && !polls.contains_key(&device) {
            polls.retain(|_, last| now.since(last.at) <= 2 * LONGEST);
            if polls.len() >= MAX_POLLED {
                return false;
            }
        }
        let Some(last) = polls.get_mut(&device) else {
            polls.insert(device, LastPoll { at: now, interval: Duration::from_secs(INTERVAL) });
            return true;
        };
        let is_early = now.since(last.at) + EARLY < last.interval;
        last.at = now;
        if is_early {
            last.interval = (last.interval + SLOWER).min(LONGEST);
        }
        !is_early
    }
}

impl DeviceGrant {
    pub(super) fn new(issuer: Arc<Issuer>) -> Self {
        Self { issuer, polls: DevicePolls::default() }
    }

    /// Answers a poll: with tokens, once, if the person approved.
    pub(super) async fn poll(&self, client: &Client, form: &Params, from: ClientIp) -> Result<Issued, ErrorResponse> {
        let deps = &self.issuer.deps;
        let now = deps.now();
        let digest = Digest::sha256(form.get("device_code")?.ok_or_else(|| ErrorResponse::missing("device_code"))?);
        let found = deps.storage.device_authorizations().lookup(&digest).await?;
        // the device code of another client reveals and changes nothing
        let Some(row) = found.filter(|row| row.client == client.id) else {
            return Err(ErrorResponse::InvalidGrant(GrantProblem::UnknownDevice(client.id.clone())));
        };
        if !self.polls.note(digest, now) {
            return Err(ErrorResponse::SlowDown);
        }
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
