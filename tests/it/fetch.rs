//! Requests to URLs that strangers choose, in an internet whose resolver lies.

mod egress_proxy;

use std::time::Duration;

use bytes::Bytes;
use http::Response;
use lockkeeper::{
    fetch::{Exception, FetchError, FetchRequest, FetchRules, Ports, Reach, RefusedUrl},
    model::EgressNames,
};
use serde_json::json;
use url::Url;

use crate::support::internet::{Internet, json_response};

/// An internet with a document at <https://a.example/>, whose address is 1.1.1.1.
fn internet() -> Internet {
    let internet = Internet::new();
    internet.name("a.example", &[&["1.1.1.1"]]);
    internet.host("1.1.1.1", |_| json_response("", &json!({ "a": 1 })));
    internet
}

fn rules() -> FetchRules {
    FetchRules { reach: Reach::default(), max_body: 1024, deadline: Duration::from_secs(5) }
}

async fn get(internet: &Internet, url: &str) -> Result<Response<Bytes>, FetchError> {
    internet.fetcher().send(FetchRequest::get(Url::parse(url).unwrap()), &rules()).await
}

/// The response to a GET of <https://a.example/> from a host that writes this.
async fn answered(text: impl Into<String>) -> Result<Response<Bytes>, FetchError> {
    let (internet, text) = (internet(), text.into());
    internet.host("1.1.1.1", move |_| text.clone());
    get(&internet, "https://a.example/").await
}

fn unreachable(outcome: &Result<Response<Bytes>, FetchError>, reason: &str) {
    assert!(matches!(outcome, Err(FetchError::Unreachable(why)) if why.contains(reason)), "{outcome:?}");
}

#[tokio::test]
async fn oa_047_a_public_document_is_read_with_the_name_of_its_url() {
    let internet = internet();
    let answer = get(&internet, "https://a.example/x?y=z#f").await.unwrap();
    assert_eq!((answer.status().as_u16(), &answer.body()[..]), (200, &b"{\"a\":1}"[..]));
    let seen = internet.seen();
    assert_eq!(seen.lookups, ["a.example"]);
    assert_eq!(seen.connections, ["1.1.1.1:443".parse().unwrap()]);
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!(
        "GET /x?y=z HTTP/1.1\r\naccept: application/json\r\nhost: a.example\r\nuser-agent: lockkeeper/{version}\r\naccept-encoding: identity\r\n\r\n"
    );
    assert_eq!(seen.requests, [expected]);
}

#[tokio::test]
async fn oa_047_a_form_and_json_are_posted() {
    let internet = internet();
    let url = || Url::parse("https://a.example/t").unwrap();
    for request in
        [FetchRequest::form(url(), [("a", "b c"), ("d", "é")]), FetchRequest::json(url(), &json!({ "a": 1 }))]
    {
        assert_eq!(internet.fetcher().send(request, &rules()).await.unwrap().status(), 200);
    }
    let requests = internet.seen().requests;
    assert!(requests[0].contains("content-type: application/x-www-form-urlencoded\r\n"), "{}", requests[0]);
    assert!(requests[0].starts_with("POST /t ") && requests[0].ends_with("\r\n\r\na=b+c&d=%C3%A9"), "{}", requests[0]);
    assert!(requests[1].ends_with("\r\n\r\n{\"a\":1}"), "{}", requests[1]);
}

#[tokio::test]
async fn n_032_a_name_with_a_private_address_gets_no_packet() {
    for address in [
        "127.0.0.1",
        "10.1.2.3",
        "169.254.169.254",
        "100.64.0.1",
        "::1",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
        "64:ff9b:1::a00:1",
        "2002:a00:1::",
        "fc00::1",
    ] {
        let internet = internet();
        for answer in [&[address][..], &["1.1.1.1", address], &[address, "1.1.1.1"]] {
            internet.name("evil.example", &[answer]);
            let outcome = get(&internet, "https://evil.example/").await;
            assert_eq!(outcome.err(), Some(FetchError::Refused(RefusedUrl::Address)), "{address}");
        }
        assert!(internet.seen().connections.is_empty());
    }
}

#[tokio::test]
async fn oa_047_a_public_address_behind_nat64_is_public() {
    let internet = internet();
    internet.name("a.example", &[&["64:ff9b::101:101", "1.1.1.1"]]);
    internet.host("64:ff9b::101:101", |_| json_response("", &json!({})));
    assert_eq!(get(&internet, "https://a.example/").await.unwrap().status(), 200);
    assert_eq!(internet.seen().connections, ["[64:ff9b::101:101]:443".parse().unwrap()]);
}

#[tokio::test]
async fn oa_148_fake_addresses_are_public_only_where_the_operator_says_so() {
    let internet = internet();
    let url = |host: &str| FetchRequest::get(Url::parse(&format!("https://{host}/")).unwrap());
    for (name, address) in
        [("claude.ai", "198.18.0.7"), ("inside.example.com", "10.0.0.1"), ("printer.local", "198.18.0.7")]
    {
        internet.name(name, &[&[address]]);
    }
    internet.host("198.18.0.7", |_| json_response("", &json!({})));
    let refused = Some(FetchError::Refused(RefusedUrl::Address));
    assert_eq!(internet.fetcher().send(url("claude.ai"), &rules()).await.err(), refused);
    let fetcher = internet.fetcher().with_names(EgressNames::Fake);
    assert_eq!(fetcher.send(url("claude.ai"), &rules()).await.unwrap().status(), 200);
    assert_eq!(fetcher.send(url("inside.example.com"), &rules()).await.err(), refused);
    let unnamed = Some(FetchError::Refused(RefusedUrl::Name));
    for host in ["printer.local", "198.18.0.7", "intranet"] {
        assert_eq!(fetcher.send(url(host), &rules()).await.err(), unnamed, "{host}");
    }
}

#[tokio::test]
async fn n_032_an_address_in_the_url_needs_no_look_up_to_be_refused() {
    let internet = internet();
    for host in ["10.0.0.1", "0x7f.1", "2130706433", "[::1]", "[::ffff:169.254.169.254]", "[64:ff9b::a00:1]"] {
        let outcome = get(&internet, &format!("https://{host}/")).await;
        assert_eq!(outcome.err(), Some(FetchError::Refused(RefusedUrl::Address)), "{host}");
    }
    for (url, refusal) in [
        ("http://a.example/", RefusedUrl::Scheme),
        ("https://a.example:6379/", RefusedUrl::Port(6379)),
        ("https://u:p@a.example/", RefusedUrl::Credentials),
    ] {
        assert_eq!(get(&internet, url).await.err(), Some(FetchError::Refused(refusal)), "{url}");
    }
    let seen = internet.seen();
    assert!(seen.lookups.is_empty() && seen.connections.is_empty(), "{seen:?}");
}

#[tokio::test]
async fn n_034_a_name_that_changes_its_address_is_looked_up_once() {
    let internet = internet();
    internet.name("rebinds.example", &[&["1.1.1.1"], &["127.0.0.1"]]);
    assert_eq!(get(&internet, "https://rebinds.example/").await.unwrap().status(), 200);
    let seen = internet.seen();
    assert_eq!((seen.lookups.len(), seen.connections), (1, vec!["1.1.1.1:443".parse().unwrap()]));
    // the next request is one of its own
    assert_eq!(get(&internet, "https://rebinds.example/").await.err(), Some(FetchError::Refused(RefusedUrl::Address)));
}

#[tokio::test]
async fn n_035_a_redirect_is_not_followed() {
    for target in ["http://127.0.0.1/", "https://a.example/other"] {
        let internet = internet();
        internet
            .host("1.1.1.1", move |_| format!("HTTP/1.1 302 Found\r\nlocation: {target}\r\ncontent-length: 0\r\n\r\n"));
        assert_eq!(get(&internet, "https://a.example/").await.unwrap().status(), 302);
        assert_eq!(internet.seen().connections.len(), 1);
    }
}

#[tokio::test]
async fn n_037_a_body_over_the_limit_is_cut_off_with_and_without_an_announcement() {
    let body = "x".repeat(1025);
    let announced = format!("HTTP/1.1 200 OK\r\ncontent-length: 1025\r\n\r\n{body}");
    let chunked = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n401\r\n{body}\r\n0\r\n\r\n");
    for answer in [announced, chunked, format!("HTTP/1.1 200 OK\r\n\r\n{body}")] {
        assert_eq!(answered(answer).await.err(), Some(FetchError::TooLarge(1024)));
    }
    let largest = "x".repeat(1024);
    assert_eq!(answered(format!("HTTP/1.1 200 OK\r\n\r\n{largest}")).await.unwrap().body(), largest.as_bytes());
}

#[tokio::test(start_paused = true)]
async fn n_038_a_body_that_drips_ends_with_the_deadline() {
    let internet = internet();
    internet.dripping_host("1.1.1.1", || {});
    let start = tokio::time::Instant::now();
    let outcome = get(&internet, "https://a.example/").await;
    assert_eq!(outcome.err(), Some(FetchError::TooSlow(Duration::from_secs(5))));
    assert_eq!(start.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn oa_046_a_host_that_accepts_no_connection_is_given_up_after_2_seconds() {
    let internet = internet();
    internet.silent_host("1.1.1.1");
    let start = tokio::time::Instant::now();
    unreachable(&get(&internet, "https://a.example/").await, "no connection after 2s");
    assert_eq!(start.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_host_with_one_silent_address_is_reached_at_the_next() {
    let internet = internet();
    internet.silent_host("9.9.9.9");
    internet.name("a.example", &[&["2606:4700::1", "9.9.9.9", "1.1.1.1"]]);
    assert_eq!(get(&internet, "https://a.example/").await.unwrap().status(), 200);
    let tried: Vec<String> = internet.seen().connections.iter().map(ToString::to_string).collect();
    assert_eq!(tried, ["[2606:4700::1]:443", "9.9.9.9:443", "1.1.1.1:443"]);
}

#[tokio::test]
async fn a_host_without_a_valid_certificate_gets_no_request() {
    let internet = internet();
    let request = FetchRequest::get(Url::parse("https://a.example/").unwrap());
    let trusting_others = internet.fetcher_trusting(&Internet::new());
    unreachable(&trusting_others.send(request, &rules()).await, "TLS failed");
    assert!(internet.seen().requests.is_empty());
    let unresolved = get(&internet, "https://none.example/").await;
    assert!(matches!(&unresolved, Err(FetchError::Unresolved(why)) if why == "no such name"), "{unresolved:?}");
}

#[tokio::test]
async fn what_is_not_http_is_told_from_silence() {
    for answer in ["", "nonsense\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"] {
        let outcome = answered(answer).await;
        assert!(matches!(outcome, Err(FetchError::Broken(_))), "{answer:?}: {outcome:?}");
    }
    let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(100 * 1024));
    assert!(matches!(answered(long).await, Err(FetchError::Broken(_))));
}

#[tokio::test]
async fn up_005_the_operator_alone_opens_private_addresses() {
    let internet = internet();
    internet.name("internal.example", &[&["10.0.0.7"]]);
    internet.host("10.0.0.7", |_| json_response("", &json!({})));
    let request = |url: &str| FetchRequest::get(Url::parse(url).unwrap());
    let own = Url::parse("http://internal.example").unwrap().origin();
    let reach = Reach { ports: Ports::Https, exceptions: vec![Exception::Origin(own)] };
    let rules = FetchRules { reach, ..rules() };
    let fetcher = internet.fetcher();
    assert_eq!(fetcher.send(request("http://internal.example/x"), &rules).await.unwrap().status(), 200);
    let outcome = fetcher.send(request("https://internal.example/x"), &rules).await;
    assert_eq!(outcome.err(), Some(FetchError::Refused(RefusedUrl::Address)));
}
