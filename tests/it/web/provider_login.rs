//! Login at an OpenID provider.

use std::time::Duration;

use http::StatusCode;
use lockkeeper::model::{Access, AllowedBackends, KeyKind, LoginProvider, LoginRule, People, Rights};
use serde_json::{Value, json};
use url::Url;

use super::site::{Browser, CALLBACK, Seen, Site};
use crate::{
    kit::{
        authority::{
            Endpoint,
            signing::{SigningKey, signed_by_everybody, unsigned},
        },
        provider::{CLIENT, ISSUER, OpenIdProvider},
    },
    support::log::Log,
};

/// People of a domain get one server; a group gets another, and administration.
fn spec_with_rules() -> LoginProvider {
    let only = |name: &str, admin| {
        let backends = AllowedBackends::Only([(name.to_owned(), Access::Full)].into());
        Rights { backends, admin }
    };
    let listed = |domains: &[&str], groups: &[&str]| {
        let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
        People::Listed { domains: texts(domains), groups: texts(groups), subjects: Vec::new() }
    };
    let rules = vec![
        LoginRule { people: listed(&["example.com"], &[]), rights: only("docs", false) },
        LoginRule { people: listed(&[], &["ops"]), rights: only("git", true) },
    ];
    LoginProvider { rules, ..OpenIdProvider::spec() }
}

/// A browser that the provider has sent back with a good answer, which it has not delivered.
async fn before_the_return<'a>(site: &'a Site, provider: &OpenIdProvider) -> (Browser<'a>, String) {
    let mut browser = site.browser();
    let page = browser.get("/login").await;
    let start = browser.choose_provider(&page).await;
    assert_eq!(start.status, StatusCode::SEE_OTHER, "{}", start.body);
    let answer = provider.log_in(start.location());
    (browser, answer)
}

/// A page of the gateway itself, without the provider's text; nobody is logged in.
async fn refused(browser: &mut Browser<'_>, answer: &Seen, (status, heading): (u16, &str)) {
    assert_eq!((answer.status.as_u16(), answer.heading()), (status, heading), "{}", answer.body);
    assert!(!answer.body.contains("text of the provider") && !answer.headers.contains_key("location"));
    assert_eq!(browser.get("/account").await.location(), "/login", "nobody is logged in");
}

const EXPIRED: (u16, &str) = (400, "This login has expired");
const UNVERIFIED: (u16, &str) = (403, "This login cannot be verified");

#[tokio::test]
async fn up_012_a_person_logs_in_at_the_provider_and_decides_at_the_gateway() {
    let (site, provider) = Site::with_provider(OpenIdProvider::spec()).await;
    let client = site.register("App", CALLBACK).await;
    let mut browser = site.browser();
    let page = browser.authorize(&client, &[("state", &"s".repeat(2000))]).await;
    assert!(page.body.contains("Log in with Example Corp") && page.body.contains("API key"));
    let start = browser.choose_provider(&page).await;
    let url = Url::parse(start.location()).unwrap();
    assert!(start.location().starts_with("https://id.example/authorize?tenant=1&"));
    let asked = |name: &str| url.query_pairs().find(|(found, _)| found == name).map(|(_, value)| value.into_owned());
    for (name, value) in [
        ("response_type", "code"),
        ("client_id", CLIENT),
        ("redirect_uri", "https://mcp.example.com/oauth/login/callback/corp"),
        ("scope", "openid email"),
        ("code_challenge_method", "S256"),
    ] {
        assert_eq!(asked(name).as_deref(), Some(value), "{name}");
    }
    for name in ["state", "nonce", "code_challenge"] {
        assert_eq!(asked(name).unwrap().len(), 43, "{name}");
    }
    assert_eq!(asked("prompt"), None);

    let (planted, answer) = (browser.cookie.clone(), provider.log_in(start.location()));
    let back = browser.return_with(&answer).await;
    assert_eq!(back.status, StatusCode::SEE_OTHER, "{}", back.body);
    assert_ne!(browser.cookie, planted, "another session id");
    assert!(browser.logins.is_empty(), "the cookies of the login are gone");
    let next = back.location().to_owned();
    assert!(next.starts_with("/oauth/consent/"), "{next}");
    let consent = browser.get(&next).await;
    assert!(consent.heading().contains("App") && consent.body.contains("ann@example.com"));
    let approved = browser.press(&consent, "approve", "").await;
    let told: std::collections::BTreeMap<String, String> = approved.told().into_iter().collect();
    assert_eq!(told["state"], "s".repeat(2000));
    site.redeem(&client, &told["code"]).await;
    let account = browser.get("/account").await;
    assert_eq!(account.heading(), "ann@example.com");
    assert!(account.body.contains("logged in through <strong class=\"name\">Example Corp</strong>"));

    // UP-13: the second app is asked for like the first, though provider and gateway know the person
    let other = site.register("Other", CALLBACK).await;
    assert!(browser.authorize(&other, &[]).await.heading().contains("Other"));
    // OA-77
    let fresh = browser.authorize(&other, &[("prompt", "login")]).await;
    let start = browser.choose_provider(&fresh).await;
    assert!(start.location().contains("&prompt=login"), "{}", start.location());
    let answer = provider.log_in(start.location());
    let back = browser.return_with(&answer).await;
    let next = back.location().to_owned();
    assert!(browser.get(&next).await.heading().contains("Other"));
}

#[tokio::test]
async fn up_012_an_answer_counts_once_for_ten_minutes_in_its_own_browser_and_for_its_own_provider() {
    let (site, provider) = Site::with_provider(OpenIdProvider::spec()).await;
    let (browser, answer) = before_the_return(&site, &provider).await;
    let (cookie, logins) = (browser.cookie.clone(), browser.logins.clone());
    let again = || {
        let mut again = site.browser();
        (again.cookie, again.logins) = (cookie.clone(), logins.clone());
        again
    };
    let mut stranger = site.browser();
    stranger.get("/login").await;
    let seen = stranger.return_with(&answer).await;
    refused(&mut stranger, &seen, EXPIRED).await;
    for wrong in [
        String::new(),
        answer.replace("state=", "state=x"),
        answer.replace("state=", "other="),
        format!("{answer}&state=x"),
        format!("{answer}&code=x"),
        format!("{answer}&iss=a&iss=a"),
    ] {
        let mut browser = again();
        let seen = browser.return_with(&wrong).await;
        refused(&mut browser, &seen, EXPIRED).await;
    }
    let mut changed = again();
    for value in changed.logins.values_mut() {
        *value = format!("A{}", &value[1..]);
    }
    let seen = changed.return_with(&answer).await;
    refused(&mut changed, &seen, EXPIRED).await;
    let mut elsewhere = again();
    let seen = elsewhere.get(&format!("/oauth/login/callback/other?{answer}")).await;
    assert_eq!(seen.status, StatusCode::NOT_FOUND);
    assert_eq!(provider.requests("/token"), 0, "no code was redeemed");

    let mut own = again();
    assert_eq!(own.return_with(&answer).await.location(), "/account");
    let seen = own.return_with(&answer).await;
    assert_eq!(seen.status, StatusCode::BAD_REQUEST);
    assert!(seen.body.contains("You are logged in already"), "{}", seen.body);
    assert!(own.get("/account").await.body.contains("Log out"));
    let mut replayed = again();
    let seen = replayed.return_with(&answer).await;
    assert_eq!(provider.requests("/token"), 1, "a second visit redeems no code");
    assert_eq!(replayed.get("/account").await.location(), "/login", "and logs nobody in");
    // the provider is asked once more, by a login of its own
    assert!(
        seen.location().starts_with("https://id.example/")
            && !seen.location().contains(answer.split("state=").nth(1).unwrap())
    );
    let answer = provider.log_in(seen.location());
    assert_eq!(replayed.return_with(&answer).await.location(), "/account");

    let (mut late, answer) = before_the_return(&site, &provider).await;
    site.clock.advance(Duration::from_mins(10));
    let seen = late.return_with(&answer).await;
    refused(&mut late, &seen, EXPIRED).await;
}

#[tokio::test]
async fn up_012_a_login_at_the_provider_goes_on_with_the_device_that_waits_for_it() {
    let (site, provider) = Site::with_provider(OpenIdProvider::spec()).await;
    let mut browser = site.browser();
    let page = browser.get("/device").await;
    let (token, device) = (page.field("token"), page.field("device"));
    let fields = [("token", &*token), ("device", &*device), ("provider", "corp")];
    let start = browser.post("/oauth/login/start", &fields).await;
    let answer = provider.log_in(start.location());
    assert_eq!(browser.return_with(&answer).await.location(), "/device");
}

#[tokio::test]
async fn up_012_two_tabs_log_in_each_by_itself() {
    let (site, provider) = Site::with_provider(OpenIdProvider::spec()).await;
    let mut browser = site.browser();
    let page = browser.get("/login").await;
    let (one, two) = (browser.choose_provider(&page).await, browser.choose_provider(&page).await);
    assert_eq!(browser.logins.len(), 2);
    let (one, two) = (provider.log_in(one.location()), provider.log_in(two.location()));
    assert_eq!(browser.return_with(&two).await.location(), "/account");
    assert_eq!(browser.return_with(&one).await.location(), "/account");
}

#[tokio::test]
async fn up_012_a_login_begins_with_a_form_of_the_gateway() {
    let (site, provider) = Site::with_provider(OpenIdProvider::spec()).await;
    let mut browser = site.browser();
    browser.get("/login").await;
    let forged = browser.post("/oauth/login/start", &[("token", "x"), ("provider", "corp")]).await;
    assert_eq!(forged.status, StatusCode::FORBIDDEN);
    assert_eq!(browser.get("/oauth/login/start").await.status, StatusCode::METHOD_NOT_ALLOWED);
    let token = browser.get("/login").await.field("token");
    let unknown = browser.post("/oauth/login/start", &[("token", &token), ("provider", "nope")]).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    assert_eq!(provider.internet.seen().connections, []);
}

#[tokio::test]
async fn up_012_the_answer_names_its_issuer_if_the_provider_announces_it() {
    let (site, provider) = Site::with_provider(OpenIdProvider::spec()).await;
    let (mut browser, answer) = before_the_return(&site, &provider).await;
    let seen = browser.return_with(&format!("{answer}&iss=https%3A%2F%2Fevil.example")).await;
    refused(&mut browser, &seen, UNVERIFIED).await;

    let (site, provider) = Site::with_provider(OpenIdProvider::spec()).await;
    provider.authority.differs(Endpoint::Metadata, json!({ "authorization_response_iss_parameter_supported": true }));
    let (mut browser, answer) = before_the_return(&site, &provider).await;
    let (without, issuer) = answer.split_once("&iss=").unwrap();
    assert_eq!(issuer, "https%3A%2F%2Fid.example");
    let seen = browser.return_with(without).await;
    refused(&mut browser, &seen, UNVERIFIED).await;
    assert_eq!(provider.requests("/token"), 0);
    let (mut browser, answer) = before_the_return(&site, &provider).await;
    assert_eq!(browser.return_with(&answer).await.location(), "/account");
}

#[tokio::test]
async fn up_012_an_id_token_that_proves_nothing_logs_nobody_in() {
    let (site, provider) = Site::with_provider(OpenIdProvider::spec()).await;
    let now = 1_767_225_600;
    let claims = [
        json!({ "iss": "https://evil.example" }),
        json!({ "aud": "other" }),
        json!({ "aud": [CLIENT, "other"] }),
        json!({ "azp": "other" }),
        json!({ "nonce": "other" }),
        json!({ "nonce": null }),
        json!({ "exp": now - 60 }),
        json!({ "iat": now + 61 }),
        json!({ "iat": now - 61 }),
        json!({ "sub": null }),
    ];
    let forgeries: [fn(&Value, &SigningKey) -> String; 8] = [
        |claims, _| SigningKey::new("one").sign(claims),
        |claims, _| SigningKey::new("unknown").sign(claims),
        |claims, _| unsigned("none", claims),
        |claims, _| unsigned("ES256", claims),
        |claims, _| unsigned("RS256", claims),
        signed_by_everybody,
        |claims, key| format!("{}x", key.sign(claims)),
        |_, _| "a.b".to_owned(),
    ];
    let changes = claims.into_iter().map(|claims| (claims, None));
    for (claims, forge) in changes.chain(forgeries.into_iter().map(|forge| (json!({}), Some(forge)))) {
        (provider.script().claims, provider.script().forge) = (claims, forge);
        let (mut browser, answer) = before_the_return(&site, &provider).await;
        let seen = browser.return_with(&answer).await;
        refused(&mut browser, &seen, UNVERIFIED).await;
    }
    (provider.script().claims, provider.script().forge) = (json!({ "aud": [CLIENT, "other"], "azp": CLIENT }), None);
    assert_eq!(site.browser().log_in_at(&provider).await.location(), "/account");
}

#[tokio::test]
async fn up_012_new_keys_of_the_provider_are_read_again_at_most_every_thirty_seconds() {
    let (site, provider) = Site::with_provider(OpenIdProvider::spec()).await;
    assert_eq!(site.browser().log_in_at(&provider).await.location(), "/account");
    assert_eq!(site.browser().log_in_at(&provider).await.location(), "/account");
    assert_eq!(provider.requests("/jwks"), 1, "the keys are kept");
    provider.script().key = SigningKey::new("two");
    for _ in 0..3 {
        assert_eq!(site.browser().log_in_at(&provider).await.status, StatusCode::FORBIDDEN);
    }
    assert_eq!(provider.requests("/jwks"), 1);
    site.clock.advance(Duration::from_secs(30));
    assert_eq!(site.browser().log_in_at(&provider).await.location(), "/account");
    assert_eq!(provider.requests("/jwks"), 2);
}

#[tokio::test]
async fn up_012_a_failure_at_the_provider_is_a_page_of_the_gateway() {
    let (site, provider) = Site::with_provider(OpenIdProvider::spec()).await;
    let description = "error_description=text+of+the+provider";
    for (error, page) in [
        ("access_denied", (403, "You are not logged in")),
        ("login_required", (403, "You are not logged in")),
        ("server_error", (502, "You cannot log in there")),
        ("%3Cscript%3E", (502, "You cannot log in there")),
    ] {
        let (mut browser, answer) = before_the_return(&site, &provider).await;
        let state = answer.split("state=").nth(1).unwrap();
        let seen = browser.return_with(&format!("error={error}&{description}&state={state}")).await;
        refused(&mut browser, &seen, page).await;
    }
    assert_eq!(provider.requests("/token"), 0);
    for error in ["invalid_client", "invalid_grant", "made_up"] {
        provider.refuses(error);
        let (mut browser, answer) = before_the_return(&site, &provider).await;
        let seen = browser.return_with(&answer).await;
        refused(&mut browser, &seen, (502, "You cannot log in there")).await;
    }
    let (site, provider) = Site::with_provider(OpenIdProvider::spec()).await;
    provider.internet.name("id.example", &[&["93.184.216.35"]]);
    let mut browser = site.browser();
    let page = browser.get("/login").await;
    let seen = browser.choose_provider(&page).await;
    refused(&mut browser, &seen, (502, "You cannot log in there now")).await;
    // UP-12: another issuer's metadata is none
    let (site, provider) = Site::with_provider(OpenIdProvider::spec()).await;
    provider.authority.differs(Endpoint::Metadata, json!({ "issuer": "https://evil.example" }));
    let mut browser = site.browser();
    let page = browser.get("/login").await;
    assert_eq!(browser.choose_provider(&page).await.status, StatusCode::BAD_GATEWAY);
}

#[tokio::test]
async fn up_012_a_declined_login_says_that_the_app_received_nothing_if_an_app_waits_for_it() {
    let (site, provider) = Site::with_provider(OpenIdProvider::spec()).await;
    let client = site.register("App", CALLBACK).await;
    for is_for_app in [false, true] {
        let mut browser = site.browser();
        let page = if is_for_app { browser.authorize(&client, &[]).await } else { browser.get("/login").await };
        let start = browser.choose_provider(&page).await;
        let answer = provider.log_in(start.location());
        let state = answer.split("state=").nth(1).unwrap();
        let seen = browser.return_with(&format!("error=access_denied&state={state}")).await;
        assert!(seen.body.contains("You did not log in at Example Corp, or it did not let you in."), "{}", seen.body);
        assert_eq!(seen.body.contains("The app received nothing."), is_for_app, "{}", seen.body);
    }
}

#[tokio::test]
async fn up_012_user_information_fills_in_what_the_id_token_does_not_say_and_only_of_the_same_person() {
    let (site, provider) = Site::with_provider(spec_with_rules()).await;
    provider.script().claims = json!({ "email": null, "email_verified": null });
    let about = |subject: &str| json!({ "sub": subject, "email": "ann@example.com", "email_verified": true });
    for (info, is_let_in) in [(Value::Null, false), (about("s-2"), false), (about("s-1"), true)] {
        provider.script().user_info = info.clone();
        let seen = site.browser().log_in_at(&provider).await;
        assert_eq!(seen.status == StatusCode::SEE_OTHER, is_let_in, "{info}: {}", seen.body);
    }
    // what the token says stays
    provider.script().claims = json!({ "email": "ann@other.example" });
    let seen = site.browser().log_in_at(&provider).await;
    assert_eq!(seen.heading(), "Your account has no access here");
}

#[tokio::test]
async fn up_013_an_account_is_the_issuer_and_the_subject_whatever_the_address_is() {
    let (site, provider) = Site::with_provider(OpenIdProvider::spec()).await;
    let accounts = async || {
        let keys = site.oauth.keys().list().await.unwrap();
        let mut accounts: Vec<String> =
            keys.into_iter().filter(|key| matches!(key.kind, KeyKind::Account(_))).map(|key| key.name).collect();
        accounts.sort();
        accounts
    };
    site.browser().log_in_at(&provider).await;
    provider.script().claims = json!({ "email": "ann@new.example" });
    site.browser().log_in_at(&provider).await;
    assert_eq!(accounts().await, ["ann@example.com"]);
    // another person who says the same of himself, but is not believed
    provider.script().claims = json!({ "sub": "s-2", "email_verified": false, "name": "Mallory" });
    let mut mallory = site.browser();
    mallory.log_in_at(&provider).await;
    assert_eq!(mallory.get("/account").await.heading(), "Mallory");
    assert_eq!(accounts().await, ["Mallory", "ann@example.com"]);
}

#[tokio::test]
async fn up_013_rights_are_those_of_the_rules_at_each_login() {
    let (site, provider) = Site::with_provider(spec_with_rules()).await;
    let account = async || {
        let key = site.oauth.keys().find_person(ISSUER, "s-1").await.unwrap();
        site.oauth.keys().holder(&key?).await.unwrap().map(|holder| holder.rights)
    };
    let names = |rights: Option<Rights>| match rights.unwrap() {
        Rights { backends: AllowedBackends::Only(backends), admin } => {
            (backends.into_keys().collect::<Vec<_>>(), admin)
        }
        Rights { .. } => (Vec::new(), true),
    };
    for stranger in [
        json!({ "email": "ann@other.example" }),
        json!({ "email_verified": false }),
        json!({ "email": null, "groups": ["staff"] }),
    ] {
        provider.script().claims = stranger.clone();
        let mut browser = site.browser();
        let seen = browser.log_in_at(&provider).await;
        refused(&mut browser, &seen, (403, "Your account has no access here")).await;
        assert_eq!(account().await, None, "no account is made: {stranger}");
    }
    provider.script().claims = json!({});
    site.browser().log_in_at(&provider).await;
    assert_eq!(names(account().await), (vec!["docs".to_owned()], false));
    provider.script().claims = json!({ "groups": ["ops"] });
    site.browser().log_in_at(&provider).await;
    assert_eq!(names(account().await), (vec!["docs".to_owned(), "git".to_owned()], true));
    provider.script().claims = json!({ "groups": [] });
    site.browser().log_in_at(&provider).await;
    assert_eq!(names(account().await), (vec!["docs".to_owned()], false));
}

#[tokio::test]
async fn up_013_whom_the_operator_revoked_stays_out() {
    let (site, provider) = Site::with_provider(OpenIdProvider::spec()).await;
    let mut browser = site.browser();
    browser.log_in_at(&provider).await;
    let key = site.oauth.keys().find_person(ISSUER, "s-1").await.unwrap().unwrap();
    assert!(site.oauth.keys().revoke(&key).await.unwrap());
    assert_eq!(browser.get("/account").await.location(), "/login");
    let seen = browser.log_in_at(&provider).await;
    refused(&mut browser, &seen, (403, "Your access was revoked")).await;
}

/// A parameter of the address at a provider.
fn asked(location: &str, name: &str) -> Option<String> {
    let url = Url::parse(location).unwrap();
    url.query_pairs().find(|(found, _)| found == name).map(|(_, value)| value.into_owned())
}

#[tokio::test]
async fn up_020_after_a_logout_and_a_refusal_the_provider_lets_people_choose_an_account() {
    let (site, provider) = Site::with_provider(spec_with_rules()).await;
    let mut browser = site.browser();
    let page = browser.get("/login").await;
    let start = browser.choose_provider(&page).await;
    assert_eq!(asked(start.location(), "prompt"), None);
    let answer = provider.log_in(start.location());
    assert_eq!(browser.return_with(&answer).await.location(), "/account");
    let account = browser.get("/account").await;
    browser.post("/logout", &[("token", &account.field("token"))]).await;
    // refused: the session there is of a person whom no rule lets in
    provider.script().claims = json!({ "sub": "s-9", "email": "eve@evil.example" });
    for _ in 0..2 {
        let page = browser.get("/login").await;
        let start = browser.choose_provider(&page).await;
        assert_eq!(asked(start.location(), "prompt").as_deref(), Some("select_account"));
        let answer = provider.log_in(start.location());
        assert_eq!(browser.return_with(&answer).await.heading(), "Your account has no access here");
    }
    // until somebody is let in
    provider.script().claims = json!({});
    let seen = browser.log_in_at(&provider).await;
    assert_eq!(seen.location(), "/account");
    let client = site.register("App", CALLBACK).await;
    let page = browser.authorize(&client, &[("prompt", "login")]).await;
    let start = browser.choose_provider(&page).await;
    assert_eq!(asked(start.location(), "prompt").as_deref(), Some("login"));
}

#[tokio::test]
async fn up_020_a_provider_that_knows_no_choice_of_accounts_is_asked_with_login_once() {
    let (site, provider) = Site::with_provider(OpenIdProvider::spec()).await;
    let client = site.register("App", CALLBACK).await;
    let mut browser = site.browser();
    let page = browser.authorize(&client, &[("prompt", "select_account"), ("state", "s1")]).await;
    let start = browser.choose_provider(&page).await;
    assert_eq!(asked(start.location(), "prompt").as_deref(), Some("select_account"));
    let state = asked(start.location(), "state").unwrap();
    let again = browser.return_with(&format!("error=invalid_request&state={state}")).await;
    assert_eq!((again.status, asked(again.location(), "prompt").as_deref()), (StatusCode::SEE_OTHER, Some("login")));
    // what waits for the login came along
    let answer = provider.log_in(again.location());
    let seen = browser.return_with(&answer).await;
    let consent = browser.get(seen.location()).await;
    assert!(consent.heading().contains("App"), "{}", consent.heading());
    // a second refusal is one
    let mut other = site.browser();
    let page = other.authorize(&client, &[("prompt", "select_account")]).await;
    let mut start = other.choose_provider(&page).await;
    for (status, _) in [(StatusCode::SEE_OTHER, 1), (StatusCode::BAD_GATEWAY, 2)] {
        let state = asked(start.location(), "state").unwrap();
        let seen = other.return_with(&format!("error=invalid_request&state={state}")).await;
        assert_eq!(seen.status, status);
        if status == StatusCode::SEE_OTHER {
            start = seen;
        }
    }
}

#[tokio::test]
async fn up_020_prompts_of_apps_concern_the_provider_or_the_page() {
    let spec = LoginProvider {
        scopes: vec!["openid".to_owned(), "offline_access".to_owned()],
        authorize_params: vec![
            ("access_type".to_owned(), "offline".to_owned()),
            ("prompt".to_owned(), "consent login".to_owned()),
        ],
        ..OpenIdProvider::spec()
    };
    for (spec, expected) in [
        (
            LoginProvider { authorize_params: Vec::new(), ..spec.clone() },
            [None, Some("login"), Some("login select_account")],
        ),
        (spec, [Some("consent login"), Some("login consent"), Some("login select_account consent")]),
    ] {
        let has_extra = !spec.authorize_params.is_empty();
        let (site, _provider) = Site::with_provider(spec).await;
        let client = site.register("App", CALLBACK).await;
        for (prompt, expected) in ["consent", "login", "select_account login"].into_iter().zip(expected) {
            let mut browser = site.browser();
            let page = browser.authorize(&client, &[("prompt", prompt)]).await;
            let start = browser.choose_provider(&page).await;
            assert_eq!(asked(start.location(), "prompt").as_deref(), expected, "{prompt}");
            assert_eq!(asked(start.location(), "access_type").is_some(), has_extra);
        }
        let told = site.browser().authorize(&client, &[("prompt", "none")]).await.told();
        assert!(told.contains(&("error".to_owned(), "interaction_required".to_owned())), "{told:?}");
    }
}

#[tokio::test]
async fn up_012_the_log_says_why_a_login_failed_and_the_page_names_what_entra_leaves_out() {
    let log = Log::open();
    let (site, provider) = Site::with_provider(spec_with_rules()).await;
    let (mut browser, answer) = before_the_return(&site, &provider).await;
    let state = answer.split("state=").nth(1).unwrap();
    browser.return_with(&format!("error=server_error&state={state}")).await;
    assert!(log.lines("login through a provider refused")[0].contains("server_error"));
    let (mut browser, answer) = before_the_return(&site, &provider).await;
    let state = answer.split("state=").nth(1).unwrap();
    browser.return_with(&format!("error=%3Cscript%3E&state={state}")).await;
    let line = log.lines("login through a provider refused").remove(0);
    assert!(line.contains("a code of another form") && !line.contains("script"), "{line}");
    provider.script().claims = json!({ "sub": "s-9", "email_verified": null, "_claim_names": { "groups": "src1" } });
    let seen = site.browser().log_in_at(&provider).await;
    assert!(seen.body.contains("email_verified") && seen.body.contains("Microsoft Entra ID"), "{}", seen.body);
    let line = log.lines("login through a provider refused").remove(0);
    assert!(line.contains("email_verified") && line.contains("overage"), "{line}");
}
