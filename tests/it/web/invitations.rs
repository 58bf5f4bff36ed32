//! Invitations: the page of a link, the key that it makes once, and rules for addresses at a provider.

use std::time::Duration;

use http::{StatusCode, header};
use lockkeeper::{
    model::{
        Access, AllowedBackends, BackendId, Invitation, InvitationLink, InvitationOffer, InvitationState, Invitee,
        KeyChange, LoginProvider, Rights, UserId,
    },
    oauth::{NewInvitation, invitation_rule},
    storage::{InvitationAddition, Storage},
    support::{Clock as _, Secret},
};

use super::site::{Browser, Seen, Site};
use crate::kit::provider::{ISSUER, OpenIdProvider};

const DAY: Duration = Duration::from_hours(24);

/// Outcome of an invitation.
type Made = Result<(Invitation, Option<Secret>), InvitationAddition>;

fn only(name: &str) -> Rights {
    let mut rights = Rights::none();
    rights.backends.allow(&BackendId::parse(name).unwrap(), Access::Full);
    rights
}

impl Site {
    async fn invite(&self, new: NewInvitation) -> Made {
        self.oauth.invitations().invite(new).await.unwrap()
    }

    /// The link of an invitation by the operator, for three days.
    async fn link(&self, user: &str, rights: Rights) -> String {
        self.link_of(None, user, rights).await.unwrap()
    }

    async fn link_of(&self, inviter: Option<&str>, user: &str, rights: Rights) -> Result<String, InvitationAddition> {
        let (_, secret) = self.invite(self.offer(inviter, (user, Invitee::New), rights)).await?;
        Ok(format!("/invite?i={}", secret.unwrap().expose()))
    }

    fn offer(&self, by: Option<&str>, (user, invitee): (&str, Invitee), rights: Rights) -> NewInvitation {
        let offer = InvitationOffer::Link(InvitationLink {
            user: UserId::new(user),
            invitee,
            key_life: Some(90 * DAY),
            expires: self.clock.now() + 3 * DAY,
            key: None,
        });
        NewInvitation { offer, rights, inviter: by.map(UserId::new) }
    }

    async fn users(&self) -> Vec<String> {
        let users = self.oauth.users().list().await.unwrap();
        users.into_iter().map(|user| user.user.to_string()).collect()
    }
}

impl Browser<'_> {
    /// Presses the button of the page of an invitation.
    async fn accept(&mut self, page: &Seen) -> Seen {
        let (token, link) = (page.field("token"), page.field("i"));
        let leave = if page.body.contains("name=\"leave\"") { page.field("leave") } else { String::new() };
        self.post("/invite", &[("token", &token), ("i", &link), ("leave", &leave)]).await
    }
}

/// The key on a page.
fn key(page: &Seen) -> String {
    let rest = page.body.split_once("lkk_").unwrap_or_else(|| panic!("no key: {}", page.body)).1;
    format!("lkk_{}", rest.split('<').next().unwrap())
}

fn is_unusable(page: &Seen) -> bool {
    page.status == StatusCode::FORBIDDEN && page.heading() == "This link cannot be used"
}

#[tokio::test]
async fn oa_155_a_link_makes_its_users_key_once_and_logs_the_browser_in() {
    let site = Site::with_group().await;
    let link = site.link("ann", only("work")).await;
    // chats load links, as often as they like
    for _ in 0..3 {
        let previewed = site.browser().get(&link).await;
        assert_eq!(previewed.status, StatusCode::OK, "{}", previewed.body);
    }
    assert_eq!(site.users().await, ["owner"], "reading the page makes nothing");
    let mut browser = site.browser();
    let page = browser.get(&link).await;
    assert_eq!(page.heading(), "You are invited");
    for said in ["ann", "The operator of this gateway", "“work”", "“files”", "“search”", "90 days after you accept"]
    {
        assert!(page.body.contains(said), "{said}: {}", page.body);
    }
    let title = page.body.split_once("<title>").unwrap().1.split('<').next().unwrap();
    assert_eq!(title, "Invitation · Lockkeeper");
    for (name, value) in
        [("cache-control", "no-store"), ("referrer-policy", "no-referrer"), ("x-robots-tag", "noindex, nofollow")]
    {
        assert_eq!(page.headers[name], value, "{name}");
    }

    let accepted = browser.accept(&page).await;
    assert_eq!((accepted.status, accepted.heading()), (StatusCode::OK, "Welcome, <span class=\"name\">ann</span>"));
    assert_eq!(accepted.headers[header::CACHE_CONTROL], "no-store");
    let made = key(&accepted);
    assert_eq!(site.users().await, ["ann", "owner"]);
    let account = browser.get("/account").await;
    assert_eq!(account.heading(), "ann");
    assert!(account.body.contains("by an invitation of the operator"), "{}", account.body);
    assert!(account.body.contains("“work”") && account.body.contains("in 90 days"), "{}", account.body);
    // the key is one like others
    let mut elsewhere = site.browser();
    assert_eq!(elsewhere.log_in_alone(&made).await.location(), "/account");
    let listed = site.oauth.invitations().list().await.unwrap();
    assert_eq!(listed[0].state(site.clock.now()), InvitationState::Accepted);
}

#[tokio::test]
async fn oa_155_the_same_browser_sees_its_key_for_ten_minutes_and_nobody_else_does() {
    let site = Site::open().await;
    let link = site.link("ann", only("files")).await;
    let (mut browser, mut stranger) = (site.browser(), site.browser());
    let (page, theirs) = (browser.get(&link).await, stranger.get(&link).await);
    let tab = browser.get(&link).await;
    let first = key(&browser.accept(&page).await);
    // pressed twice, gone back and pressed again
    assert_eq!(key(&browser.accept(&page).await), first);
    site.clock.advance(Duration::from_mins(9));
    assert_eq!(key(&browser.accept(&page).await), first);
    assert_eq!(site.oauth.keys().list().await.unwrap().len(), 2, "one key");
    // another tab of this browser is told, and so is a second visit; neither shows the key
    for seen in [browser.accept(&tab).await, browser.get(&link).await] {
        assert_eq!((seen.status, seen.heading()), (StatusCode::OK, "You have accepted this invitation"));
        assert!(!seen.body.contains("lkk_"));
    }
    assert!(is_unusable(&stranger.accept(&theirs).await), "another form");
    assert!(is_unusable(&stranger.get(&link).await));
    // that form from elsewhere
    let stolen = [("token", &*page.field("token")), ("i", &*page.field("i"))];
    assert_eq!(stranger.post("/invite", &stolen).await.heading(), "This form cannot be used");
    site.clock.advance(Duration::from_mins(2));
    let late = browser.accept(&page).await;
    assert!(!late.body.contains("lkk_"), "{}", late.body);
}

#[tokio::test]
async fn oa_155_two_at_once_get_one_key() {
    let site = Site::open().await;
    let link = site.link("ann", only("files")).await;
    let (mut one, mut two) = (site.browser(), site.browser());
    let (first, second) = (one.get(&link).await, two.get(&link).await);
    let (first, second) = tokio::join!(one.accept(&first), two.accept(&second));
    let mut statuses = [first.status.as_u16(), second.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 403]);
    assert_eq!(site.oauth.keys().list().await.unwrap().len(), 2);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server: scripts/test-postgres"]
async fn oa_155_a_link_works_once_at_two_replicas_at_once() {
    let (url, _) = crate::storage::postgres::schema("invited_at_replicas").await;
    let folder = tempfile::tempdir().unwrap();
    let master = || lockkeeper::oauth::MasterKeySource::File(folder.path().join("master.key"));
    let settings = || {
        let settings = lockkeeper::oauth::OAuthSettings::new(super::site::ROOT);
        lockkeeper::oauth::OAuthSettings { master_key: master(), ..settings }
    };
    let site = Site::seeded((Storage::connect(&url).await.unwrap(), settings(), 1)).await;
    let other = Site::seeded((Storage::connect(&url).await.unwrap(), settings(), 2)).await;
    for round in 0..10 {
        let link = site.link(&format!("ann{round}"), only("files")).await;
        let (mut one, mut two) = (site.browser(), other.browser());
        let (first, second) = (one.get(&link).await, two.get(&link).await);
        let (first, second) = tokio::join!(one.accept(&first), two.accept(&second));
        let mut statuses = [first.status.as_u16(), second.status.as_u16()];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 403], "{round}");
    }
}

#[tokio::test]
async fn oa_155_links_that_cannot_be_used_look_alike_and_count_as_wrong_keys() {
    let site = Site::open().await;
    let used = site.link("ann", only("files")).await;
    let mut browser = site.browser();
    let page = browser.get(&used).await;
    browser.accept(&page).await;
    let expired = site.link("bob", only("files")).await;
    site.clock.advance(3 * DAY);
    let (invitation, secret) = site.invite(site.offer(None, ("carl", Invitee::New), only("files"))).await.unwrap();
    let revoked = format!("/invite?i={}", secret.unwrap().expose());
    assert!(site.oauth.invitations().revoke(&invitation.id).await.unwrap());
    assert!(!site.oauth.invitations().revoke(&invitation.id).await.unwrap(), "once");
    let unknown = used.replace(&used[20..30], "0123456789");
    let mut pages = Vec::new();
    for link in [&*used, &expired, &revoked, &unknown, "/invite?i=x", "/invite"] {
        let seen = site.browser().get(link).await;
        assert!(is_unusable(&seen), "{link}: {}", seen.body);
        // without the ids of the request and of the refusal
        pages.push(seen.body.split_once("hint after").unwrap().0.to_owned());
    }
    pages.dedup();
    assert_eq!(pages.len(), 1, "{pages:?}");
    // six of the ten of this network
    for _ in 0..4 {
        assert!(is_unusable(&site.browser().get(&unknown).await));
    }
    let limited = site.browser().get(&unknown).await;
    assert_eq!((limited.status, limited.heading()), (StatusCode::TOO_MANY_REQUESTS, "This link cannot be used"));
    assert!(limited.headers.contains_key(header::RETRY_AFTER));
    let wrong = site.browser().log_in_alone("lkk_wrong").await;
    assert_eq!(wrong.status, StatusCode::TOO_MANY_REQUESTS, "they count together");
    // what is right passes
    let good = site.link("dan", only("files")).await;
    assert_eq!(site.browser().get(&good).await.status, StatusCode::OK);
    assert_eq!(site.browser().log_in_alone(&site.key).await.location(), "/account");
}

#[tokio::test]
async fn oa_155_somebody_who_is_logged_in_is_told_and_chooses() {
    let site = Site::open().await;
    let link = site.link("ann", only("files")).await;
    let (_, bob) = site.key_for("bob").await;
    let mut browser = site.browser();
    // the page is shown before bob logs in, in another tab
    let before = browser.get(&link).await;
    browser.log_in_alone(&bob).await;
    let told = browser.accept(&before).await;
    assert_eq!((told.status, told.heading()), (StatusCode::OK, "You are invited"));
    assert!(told.body.contains("You are logged in here as <strong class=\"name\">bob</strong>"), "{}", told.body);
    assert_eq!(browser.get("/account").await.heading(), "bob", "nobody is logged out without a click");
    assert_eq!(site.users().await, ["bob", "owner"]);
    let page = browser.get(&link).await;
    assert!(page.body.contains(">Stay logged in as bob</a>"));
    assert_eq!(browser.accept(&page).await.heading(), "Welcome, <span class=\"name\">ann</span>");
    assert_eq!(browser.get("/account").await.heading(), "ann");
    let bobs = site.oauth.keys().list().await.unwrap().into_iter().filter(|key| key.user.as_str() == "bob").count();
    assert_eq!(bobs, 1, "nothing is added to bob");
}

#[tokio::test]
async fn oa_155_a_user_must_be_new_or_gets_a_further_key() {
    let site = Site::open().await;
    site.key_for("ann").await;
    let new = site.invite(site.offer(None, ("ann", Invitee::New), only("files"))).await;
    assert_eq!(new.unwrap_err(), InvitationAddition::UserExists);
    let nobody = site.invite(site.offer(None, ("eve", Invitee::Existing), only("files"))).await;
    assert_eq!(nobody.unwrap_err(), InvitationAddition::NoSuchUser);
    // two invitations of one name: the first that is accepted counts
    let (one, two) = (site.link("bob", only("files")).await, site.link("bob", only("search")).await);
    let mut browser = site.browser();
    let page = browser.get(&one).await;
    browser.accept(&page).await;
    assert!(is_unusable(&site.browser().get(&two).await));

    let again = site.invite(site.offer(None, ("ann", Invitee::Existing), only("files"))).await.unwrap().1.unwrap();
    let again = format!("/invite?i={}", again.expose());
    let mut browser = site.browser();
    let page = browser.get(&again).await;
    assert!(page.body.contains("Anyone who opens it becomes ann"), "{}", page.body);
    browser.accept(&page).await;
    let anns = site.oauth.keys().list().await.unwrap().into_iter().filter(|key| key.user.as_str() == "ann").count();
    assert_eq!(anns, 2);
}

#[tokio::test]
async fn oa_155_an_invitation_ends_with_its_inviters_rights_and_with_its_user() {
    let site = Site::open().await;
    let (bob, _) = site.key_for("bob").await;
    let (usable, link_of) = (
        async |link: &str| site.browser().get(link).await.status == StatusCode::OK,
        async |user: &str| site.link_of(Some("bob"), user, only("files")).await,
    );
    let first = link_of("ann").await.unwrap();
    let page = site.browser().get(&first).await;
    assert!(page.body.contains("<strong class=\"name\">bob</strong> invites you"), "{}", page.body);
    let docs = AllowedBackends::Only([("docs".to_owned(), Access::Full)].into());
    let narrower = KeyChange { backends: Some(docs), ..KeyChange::default() };
    site.oauth.keys().change(&bob, &narrower).await.unwrap();
    assert!(!usable(&first).await, "bob has no right to files any more");
    assert_eq!(link_of("ann").await.unwrap_err(), InvitationAddition::BeyondInviter);
    // rights that come back bring no invitation back
    let wider = KeyChange { backends: Some(AllowedBackends::All), ..KeyChange::default() };
    site.oauth.keys().change(&bob, &wider).await.unwrap();
    assert!(!usable(&first).await);

    let second = link_of("ann").await.unwrap();
    site.oauth.users().disable(&UserId::new("bob")).await.unwrap();
    site.oauth.users().enable(&UserId::new("bob")).await.unwrap();
    assert!(!usable(&second).await, "disabled once");
    let third = link_of("ann").await.unwrap();
    site.oauth.keys().revoke(&bob).await.unwrap();
    assert!(!usable(&third).await, "bob's last key is revoked");
    site.key_for("bob").await;
    let fourth = link_of("ann").await.unwrap();
    assert_eq!(site.oauth.users().delete(&UserId::new("bob")).await.unwrap().unwrap().invitations, 1);
    assert!(!usable(&fourth).await);

    // and for the user who is invited
    site.key_for("carl").await;
    let further = site.invite(site.offer(None, ("carl", Invitee::Existing), only("files"))).await.unwrap().1.unwrap();
    let further = format!("/invite?i={}", further.expose());
    assert!(usable(&further).await);
    site.oauth.users().disable(&UserId::new("carl")).await.unwrap();
    assert!(!usable(&further).await);
}

#[tokio::test]
async fn other_links_for_a_new_user_end_when_one_is_used_and_no_others_do() {
    let site = Site::open().await;
    let (first, _) = (site.link("ann", only("files")).await, site.link("ann", only("files")).await);
    let of_bob = site.link("bob", only("files")).await;
    let mut browser = site.browser();
    let page = browser.get(&first).await;
    browser.accept(&page).await;
    let listed = site.oauth.invitations().list().await.unwrap();
    let mut states: Vec<_> = listed.iter().map(|one| one.state(site.clock.now())).collect();
    states.sort_by_key(|state| format!("{state:?}"));
    assert_eq!(states, [InvitationState::Accepted, InvitationState::Open, InvitationState::Revoked]);
    assert_eq!(site.browser().get(&of_bob).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_user_who_invites_without_end_keeps_no_other_from_inviting() {
    let site = Site::open().await;
    site.key_for("eve").await;
    site.key_for("bob").await;
    let mut made = 0;
    let refused = loop {
        match site.link_of(Some("eve"), &format!("friend{made}"), only("files")).await {
            Ok(_) => made += 1,
            Err(refusal) => break refusal,
        }
    };
    assert_eq!((made, refused), (500, InvitationAddition::TooMany));
    let link = site.link_of(Some("bob"), "ann", only("files")).await.unwrap();
    assert_eq!(site.browser().get(&link).await.status, StatusCode::OK);
    assert!(site.link_of(None, "carl", only("files")).await.is_ok(), "nor the operator");
    // those that have ended count no more
    site.clock.advance(3 * DAY);
    assert!(site.link_of(Some("eve"), "another", only("files")).await.is_ok());
}

#[tokio::test]
async fn oa_155_only_the_owner_of_a_gateway_without_an_administrator_gets_administration_by_a_link() {
    let site = Site::open().await;
    let owner = || site.oauth.invitations().of_owner(DAY);
    let (_, first) = site.invite(owner()).await.unwrap();
    let first = format!("/invite?i={}", first.unwrap().expose());
    assert_eq!(site.browser().get(&first).await.status, StatusCode::OK);
    let (_, second) = site.invite(owner()).await.unwrap();
    let second = format!("/invite?i={}", second.unwrap().expose());
    assert!(is_unusable(&site.browser().get(&first).await), "another one ends the one before");
    let mut browser = site.browser();
    let page = browser.get(&second).await;
    assert!(page.body.contains("administer"), "{}", page.body);
    browser.accept(&page).await;
    let keys = site.oauth.keys().list().await.unwrap();
    let admin = keys.iter().find(|key| key.rights.admin).unwrap();
    assert_eq!((admin.user.as_str(), &admin.rights.backends), ("owner", &AllowedBackends::All));
    assert_eq!(site.invite(owner()).await.unwrap_err(), InvitationAddition::Administered);

    // one that waits while an administrator comes by another way ends
    let site = Site::open().await;
    let (_, waiting) = site.invite(site.oauth.invitations().of_owner(DAY)).await.unwrap();
    let waiting = format!("/invite?i={}", waiting.unwrap().expose());
    let change = KeyChange { admin: Some(true), ..KeyChange::default() };
    site.oauth.keys().change(&site.key_id, &change).await.unwrap();
    assert!(is_unusable(&site.browser().get(&waiting).await));
}

#[tokio::test]
async fn a_first_start_makes_one_invitation_and_a_second_start_none() {
    let storage = crate::support::empty_storage().await;
    let settings = lockkeeper::oauth::OAuthSettings::new(super::site::ROOT);
    let oauth = lockkeeper::oauth::OAuth::open(
        storage,
        std::sync::Arc::new(lockkeeper::support::ManualClock::default()),
        std::sync::Arc::new(lockkeeper::support::SeededRandom::new(1)),
        settings,
    );
    let oauth = oauth.await.unwrap();
    assert!(oauth.invitations().first().await.unwrap().is_some());
    assert!(oauth.invitations().first().await.unwrap().is_none(), "one waits");
    oauth.keys().first().await.unwrap().unwrap();
    assert!(oauth.invitations().first().await.unwrap().is_none(), "there was a key");
}

#[tokio::test]
async fn up_031_a_rule_lets_a_verified_address_in_until_it_is_revoked() {
    let spec = LoginProvider { rules: Vec::new(), ..OpenIdProvider::spec() };
    let (site, provider) = Site::with_provider(spec).await;
    assert_eq!(site.browser().log_in_at(&provider).await.heading(), "Your account has no access here");
    let rule = |email: &str, name: &str, inviter: Option<&str>| NewInvitation {
        offer: InvitationOffer::Rule(invitation_rule(ISSUER, email).unwrap()),
        rights: only(name),
        inviter: inviter.map(UserId::new),
    };
    assert!(invitation_rule(ISSUER, "no address").is_none());
    let (docs, _) = site.invite(rule("Ann@Example.com", "docs", None)).await.unwrap();
    site.key_for("bob").await;
    site.invite(rule("ann@example.com", "git", Some("bob"))).await.unwrap();
    site.invite(rule("carl@example.com", "ops", None)).await.unwrap();
    let mut browser = site.browser();
    assert_eq!(browser.log_in_at(&provider).await.location(), "/account");
    let account = browser.get("/account").await;
    for said in ["“docs”", "“git”", "an invitation of the operator", "an invitation of bob"] {
        assert!(account.body.contains(said), "{said}: {}", account.body);
    }
    assert!(!account.body.contains("“ops”"));
    let listed = site.oauth.invitations().list().await.unwrap();
    let found = listed.iter().find(|listed| listed.id == docs.id).unwrap();
    let InvitationOffer::Rule(accepted) = &found.offer else { panic!("{found:?}") };
    assert_eq!((&*accepted.issuer, accepted.subject.as_deref()), (ISSUER, Some("s-1")));

    // an address that passes on to somebody else brings nobody in
    provider.authority.account("s-2");
    assert_eq!(site.browser().log_in_at(&provider).await.heading(), "Your account has no access here");
    provider.authority.account("s-1");

    assert!(site.oauth.invitations().revoke(&docs.id).await.unwrap());
    assert_eq!(browser.get("/account").await.location(), "/login", "the account is logged out");
    browser.log_in_at(&provider).await;
    let account = browser.get("/account").await;
    assert!(account.body.contains("“git”") && !account.body.contains("“docs”"), "{}", account.body);
    // the inviter of the other rule leaves
    site.oauth.users().delete(&UserId::new("bob")).await.unwrap();
    assert_eq!(browser.get("/account").await.location(), "/login");
    assert_eq!(site.browser().log_in_at(&provider).await.heading(), "Your account has no access here");
}

#[tokio::test]
async fn up_031_an_address_that_is_not_verified_takes_no_rule_and_an_invitation_lets_a_former_account_in_again() {
    let spec = LoginProvider { rules: Vec::new(), ..OpenIdProvider::spec() };
    let (site, provider) = Site::with_provider(spec).await;
    let rule = || NewInvitation {
        offer: InvitationOffer::Rule(invitation_rule(ISSUER, "ann@example.com").unwrap()),
        rights: only("docs"),
        inviter: None,
    };
    site.invite(rule()).await.unwrap();
    provider.script().person.insert("email_verified".to_owned(), false.into());
    assert_eq!(site.browser().log_in_at(&provider).await.heading(), "Your account has no access here");
    provider.script().person.insert("email_verified".to_owned(), true.into());
    assert_eq!(site.browser().log_in_at(&provider).await.location(), "/account");
    let account = site.oauth.keys().find_person(ISSUER, "s-1").await.unwrap().unwrap();
    site.oauth.keys().revoke(&account).await.unwrap();
    site.clock.advance(Duration::from_mins(1));
    assert_eq!(site.browser().log_in_at(&provider).await.heading(), "Your access was revoked");
    site.invite(rule()).await.unwrap();
    assert_eq!(site.browser().log_in_at(&provider).await.location(), "/account");
}
