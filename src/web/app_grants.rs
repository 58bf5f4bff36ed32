//! Grants of the account page by app. What an app got several times, with the same rights, counts once (`OA-132`).

use std::ptr;

use super::texts;
use crate::{
    model::{AccessSubject, GrantId, Groups},
    oauth::GrantView,
    support::Timestamp,
};

/// Grants of one app that differ only in their age.
pub(super) struct AppGrants<'a> {
    /// The one that was used last.
    pub(super) latest: &'a GrantView,
    all: Vec<&'a GrantView>,
}

// === impl AppGrants ===

impl<'a> AppGrants<'a> {
    /// Collects grants; those used last come first.
    pub(super) fn collect(grants: &'a [GrantView]) -> Vec<Self> {
        let mut apps: Vec<Self> = Vec::new();
        for view in grants {
            match apps.iter_mut().find(|app| is_alike(app.latest, view)) {
                Some(app) => app.all.push(view),
                None => apps.push(Self { latest: view, all: vec![view] }),
            }
        }
        apps
    }

    pub(super) fn has(&self, grant: &GrantId) -> bool {
        self.all.iter().any(|view| view.grant.id == *grant)
    }

    /// All ids, separated by spaces.
    pub(super) fn ids(&self) -> String {
        self.all.iter().map(|view| view.grant.id.as_str()).collect::<Vec<_>>().join(" ")
    }

    /// The end of the grant that lasts longest.
    pub(super) fn expires(&self) -> Timestamp {
        self.all.iter().map(|view| view.grant.expires).max().unwrap_or(self.latest.grant.expires)
    }

    /// When, and how often, the person connected the app.
    pub(super) fn connected(&self, now: Timestamp) -> String {
        let last = self.all.iter().map(|view| view.grant.created).max().unwrap_or(self.latest.grant.created);
        let last = texts::ago(now.since(last));
        if self.all.len() == 1 { last } else { format!("{} times, last {last}", self.all.len()) }
    }

    /// Other grants of the same app.
    pub(super) fn others<'b>(&'b self, apps: &'b [Self]) -> impl Iterator<Item = &'b Self> {
        apps.iter().filter(move |app| !ptr::eq(*app, self) && app.latest.grant.client == self.latest.grant.client)
    }

    /// How they differ from the app's other grants, apart from the servers that they open now; `None` if they do not.
    pub(super) fn distinction(&self, apps: &[Self], groups: &Groups) -> Option<String> {
        let own = self.latest;
        let differs = |is_other: &dyn Fn(&GrantView) -> bool| self.others(apps).any(|app| is_other(app.latest));
        let parts = [
            differs(&|other| other.grant.endpoint != own.grant.endpoint)
                .then(|| format!("through {}", own.grant.endpoint)),
            differs(&|other| other.grant.key != own.grant.key).then(|| format!("with the key {}", own.key_name)),
            (own.rights.admin && differs(&|other| !other.rights.admin)).then(|| "administers the gateway".to_owned()),
            (opens_later(own, groups) && differs(&|other| !opens_later(other, groups)))
                .then(|| "servers that come later too".to_owned()),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

fn is_alike(one: &GrantView, other: &GrantView) -> bool {
    let (a, b) = (&one.grant, &other.grant);
    (&a.client, &a.key, &a.endpoint, &one.rights) == (&b.client, &b.key, &b.endpoint, &other.rights)
        && a.redirect_origin() == b.redirect_origin()
}

fn opens_later(view: &GrantView, groups: &Groups) -> bool {
    let GrantView { grant, rights, .. } = view;
    AccessSubject { user: &grant.user, rights }.sees_later(&grant.endpoint.target, groups)
}
