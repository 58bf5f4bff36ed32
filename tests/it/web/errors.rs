//! Error pages and error responses.

use std::collections::BTreeSet;

use http::{Request, StatusCode, header};
use lockkeeper::oauth::OAuthSettings;

use super::site::{CALLBACK, ROOT, Seen, Site, encode, post};
use crate::support::{internet::Internet, log::Log};

#[tokio::test]
async fn a_missing_page_is_reported_as_a_page_or_as_json() {
    let site = Site::open().await;
    let page = site.browser().get("/nowhere").await;
    assert_eq!((page.status, page.heading()), (StatusCode::NOT_FOUND, "Page not found"));
    assert!(page.body.contains(page.headers["x-request-id"].to_str().unwrap()), "the page has the request id");
    assert!(!page.headers.contains_key(header::SET_COOKIE), "a missing page begins no session");
    let request = Request::get("/nowhere").header(header::ACCEPT, "application/json");
    let json = site.send(request, String::new()).await;
    assert_eq!(json.headers[header::CONTENT_TYPE], "application/json");
    let body: serde_json::Value = serde_json::from_str(&json.body).unwrap();
    assert_eq!(body["error"], "not_found");
    assert_eq!(body["request_id"], json.headers["x-request-id"].to_str().unwrap());
}

// OA-76, N-45
#[tokio::test]
async fn oa_076_an_unknown_client_gets_a_page_with_advice() {
    let site = Site::open().await;
    let page = site.browser().authorize("nobody", &[]).await;
    assert_eq!((page.status, page.heading()), (StatusCode::BAD_REQUEST, "Unknown app"));
    assert!(!page.headers.contains_key(header::LOCATION));
    assert!(page.body.contains("add it again") && page.body.contains("invalid_client"), "{}", page.body);
    let query = encode(&[("client_id", "nobody"), ("redirect_uri", CALLBACK)]);
    let request = Request::get(format!("/oauth/authorize?{query}")).header(header::ACCEPT, "application/json");
    let json = site.send(request, String::new()).await;
    let body: serde_json::Value = serde_json::from_str(&json.body).unwrap();
    assert_eq!(body["error"], "invalid_client");
}

// OA-149
#[tokio::test]
async fn oa_149_the_page_for_a_gateway_that_reaches_no_host_says_why_and_what_to_configure() {
    let internet = Internet::new();
    let document_hosts = vec!["claude.ai".to_owned()];
    let settings = OAuthSettings { fetcher: Some(internet.fetcher()), document_hosts, ..OAuthSettings::new(ROOT) };
    let site = Site::with(crate::support::empty_storage().await, settings).await;
    let page = site.browser().authorize("https://claude.ai/oauth/claude-code-client-metadata", &[]).await;
    let heading = "The gateway cannot read the description of the app";
    assert_eq!((page.status, page.heading()), (StatusCode::BAD_GATEWAY, heading));
    for part in ["no name server", "egress_proxy", "client_documents", "in five minutes"] {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
}

// OA-30
#[tokio::test]
async fn forms_are_small_and_well_formed() {
    let site = Site::open().await;
    let mut browser = site.browser();
    let large = browser.post("/login", &[("token", &"x".repeat(9000))]).await;
    assert_eq!((large.status, large.heading()), (StatusCode::PAYLOAD_TOO_LARGE, "The form is too large"));
    // one that names servers may be larger
    let servers = browser.post("/oauth/authorize", &[("use", &*"x".repeat(60_000))]).await;
    assert_eq!(servers.status, StatusCode::FORBIDDEN);
    let large = browser.post("/oauth/authorize", &[("use", &"x".repeat(70_000))]).await;
    assert_eq!((large.status, large.heading()), (StatusCode::PAYLOAD_TOO_LARGE, "The form is too large"));
    let request = post("/oauth/authorize").header(header::ACCEPT, "application/json");
    let large = browser.send(request, encode(&[("token", &"x".repeat(70_000))])).await;
    let json: serde_json::Value = serde_json::from_str(&large.body).unwrap();
    assert_eq!((large.status, &json["error"]), (StatusCode::PAYLOAD_TOO_LARGE, &"payload_too_large".into()));
    // larger than any message may be
    let announced = post("/login").header(header::CONTENT_LENGTH, "17000000");
    let large = browser.send(announced, "x".repeat(17_000_000)).await;
    assert_eq!((large.status, large.heading()), (StatusCode::PAYLOAD_TOO_LARGE, "The form is too large"));
    let odd = browser.post("/oauth/authorize", &[("decision", "perhaps")]).await;
    assert!(odd.status.is_client_error());
    assert_eq!(odd.heading(), "This request cannot be used");
    let request = Request::post("/login").header(header::CONTENT_TYPE, "application/json");
    let json = browser.send(request, "{}".to_owned()).await;
    assert_eq!(json.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

// N-65
#[tokio::test]
async fn a_form_without_its_fields_is_refused_as_a_foreign_one() {
    let site = Site::open().await;
    let client = site.register("App", CALLBACK).await;
    let mut browser = site.browser();
    let page = browser.authorize(&client, &[]).await;
    let (token, transaction) = (page.field("token"), page.field("transaction"));
    for fields in [vec![], vec![("token", &*token)], vec![("transaction", &*transaction), ("decision", "log-in")]] {
        let answer = browser.post("/oauth/authorize", &fields).await;
        assert_eq!(
            (answer.status, answer.heading()),
            (StatusCode::FORBIDDEN, "This form cannot be used"),
            "{fields:?}"
        );
    }
    for path in ["/oauth/authorize", "/login", "/logout", "/account/revoke", "/account/revoke-all"] {
        // without a Content-Type too
        for request in [post(path), Request::post(path)] {
            let answer = browser.send(request, String::new()).await;
            assert_eq!(
                (answer.status, answer.heading()),
                (StatusCode::FORBIDDEN, "This form cannot be used"),
                "{path}"
            );
        }
    }
    // no key is a wrong key, and no button shows the page again
    let fields = [("token", &*token), ("transaction", &*transaction), ("decision", "log-in")];
    let answer = browser.post("/oauth/authorize", &fields).await;
    assert_eq!((answer.status, answer.heading()), (StatusCode::FORBIDDEN, "Log in"));
    let answer = browser.post("/oauth/authorize", &fields[..2]).await;
    assert_eq!((answer.status, answer.heading()), (StatusCode::OK, "Log in"));
}

#[tokio::test]
async fn the_style_sheet_and_the_logo_are_cached_forever() {
    let site = Site::open().await;
    let page = site.browser().get("/").await;
    for part in ["rel=\"stylesheet\" href=\"", "type=\"image/svg+xml\" href=\""] {
        let path = page.body.split_once(part).unwrap().1.split('"').next().unwrap();
        let asset = site.browser().get(path).await;
        assert_eq!(asset.status, StatusCode::OK, "{path}");
        assert_eq!(asset.headers[header::CACHE_CONTROL], "public, max-age=31536000, immutable");
    }
    assert_eq!(site.browser().get("/assets/other").await.status, StatusCode::NOT_FOUND);
    // its URL has no digest
    let icon = site.browser().get("/favicon.ico").await;
    assert_eq!(icon.status, StatusCode::OK);
    assert_eq!(icon.headers[header::CACHE_CONTROL], "public, max-age=86400");
}

#[tokio::test]
async fn oa_076_each_refusal_has_a_code_on_the_page_and_its_reason_in_the_log() {
    let log = Log::open();
    let site = Site::open().await;
    let mut browser = site.browser();
    browser.get("/login").await;
    let mut codes = Vec::new();
    for (fields, headers, reason) in [
        (&[][..], &[][..], "it has no token"),
        (&[("token", "x.y"), ("key", "s3cret")], &[], "the token belongs to another browser"),
        (&[("token", "x.y")], &[("sec-fetch-site", "cross-site")], "another site sent it"),
    ] {
        log.lines("");
        let request = headers.iter().fold(post("/login"), |request, (name, value)| request.header(*name, *value));
        let page = browser.send(request, encode(fields)).await;
        assert_eq!(page.status, StatusCode::FORBIDDEN);
        assert!(page.body.contains("Sending it has changed nothing"), "{}", page.body);
        let code = page.refusal().unwrap().to_owned();
        let lines = log.lines("the request was refused");
        assert_eq!(lines.len(), 1, "{lines:?}");
        let is_told = [&*code, reason, "status=403"].iter().all(|part| lines[0].contains(part));
        assert!(is_told && !lines[0].contains("s3cret"), "{}", lines[0]);
        assert!(!codes.contains(&code), "a code names one refusal");
        codes.push(code);
    }
    // programs get the code too, and endpoints log their reason
    let request = post("/login").header(header::ACCEPT, "application/json");
    let json: serde_json::Value = serde_json::from_str(&browser.send(request, String::new()).await.body).unwrap();
    assert!(log.lines("the request was refused")[0].contains(json["refusal"].as_str().unwrap()));
    site.send(post("/oauth/token"), encode(&[("client_id", "nobody"), ("grant_type", "x")])).await;
    let lines = log.lines("the request was refused");
    assert!(lines[0].contains("invalid_client") && lines[0].contains("is not registered"), "{lines:?}");
}

/// What the only refusal in the log says, and the code that the page and the log have for it.
fn refused(log: &Log, page: &Seen) -> (String, String) {
    let code = page.refusal().unwrap_or_else(|| panic!("{}", page.body)).to_owned();
    let lines = log.lines("the request was refused");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(code.len() == 8 && lines[0].contains(&format!("refusal={code} ")), "{code}: {}", lines[0]);
    (lines[0].clone(), code)
}

#[tokio::test]
async fn oa_076_pages_for_wrong_keys_are_the_same_but_for_the_code_that_the_log_has_too() {
    let log = Log::open();
    let site = Site::open().await;
    let client = site.register("App", CALLBACK).await;
    let (revoked_id, revoked) = site.key_for("somebody").await;
    site.oauth.keys().revoke(&revoked_id).await.unwrap();
    let mut browser = site.browser();
    let asked = browser.authorize(&client, &[]).await;
    let alone = browser.get("/login").await;
    assert_eq!((asked.refusal(), alone.refusal()), (None, None), "nothing is refused yet");
    let mut codes = BTreeSet::new();
    for is_asked in [true, false] {
        let mut pages = BTreeSet::new();
        for key in ["nonsense", &*revoked] {
            log.lines("");
            let seen = if is_asked {
                browser.press(&asked, "log-in", key).await
            } else {
                browser.post("/login", &[("token", &alone.field("token")), ("key", key)]).await
            };
            let (line, code) = refused(&log, &seen);
            assert!(line.contains("the API key was refused") && !line.contains(key), "{line}");
            codes.insert(code);
            pages.insert(seen.without_token());
        }
        assert_eq!(pages.len(), 1, "{pages:?}");
    }
    assert_eq!(codes.len(), 4, "{codes:?}");
    // after too many
    let limited = loop {
        log.lines("");
        let seen = browser.press(&asked, "log-in", "nonsense").await;
        if seen.status == StatusCode::TOO_MANY_REQUESTS {
            break seen;
        }
    };
    assert!(refused(&log, &limited).0.contains("status=429"));
}

#[tokio::test]
async fn oa_076_pages_for_a_wrong_device_code_and_a_request_in_error_show_the_code_of_the_log() {
    let log = Log::open();
    let site = Site::open().await;
    let mut browser = site.browser();
    browser.log_in_alone(&site.key).await;
    let entry = browser.get("/device").await;
    assert_eq!(entry.refusal(), None);
    let fields = [("token", &*entry.field("token")), ("user_code", "BCDF-GHJK")];
    let mut seen = Vec::new();
    for _ in 0..2 {
        log.lines("");
        let page = browser.post("/device", &fields).await;
        let (line, code) = refused(&log, &page);
        assert!(line.contains("No device is waiting with this code"), "{line}");
        seen.push((page.without_token(), code));
    }
    assert!(seen[0].0 == seen[1].0 && seen[0].1 != seen[1].1, "{seen:?}");
    // a page with a link to an app that nobody has verified
    let far = "https://app.example.org/cb";
    let client = site.register("App", far).await;
    log.lines("");
    let page = browser.authorize(&client, &[("redirect_uri", far), ("code_challenge", "")]).await;
    assert_eq!((page.status, page.heading()), (StatusCode::BAD_REQUEST, "Back to the app"));
    assert!(refused(&log, &page).0.contains("The request was not accepted"));
}

#[tokio::test]
async fn oa_073_spaces_and_quotes_around_a_key_are_dropped() {
    let site = Site::open().await;
    for (before, after) in [("  ", "\t"), ("\"", "\""), ("'", "'"), ("“", "”"), ("` ", " `")] {
        let mut browser = site.browser();
        let page = browser.get("/login").await;
        let key = format!("{before}{}{after}", site.key);
        let seen = browser.post("/login", &[("token", &page.field("token")), ("key", &key)]).await;
        assert_eq!(seen.status, StatusCode::SEE_OTHER, "{key}");
    }
}
