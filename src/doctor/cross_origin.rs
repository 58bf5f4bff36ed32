//! Checks the cross-origin headers that a client in a web page needs (Fetch, CORS protocol).

use http::Method;
use url::Url;

use super::{
    discovery::{self, DiscoveredDocuments},
    exchange::{ProbeRequest, ProbeResponse, Prober},
    finding::Finding,
};

/// The origin of the page: that of the MCP Inspector.
const ORIGIN: &str = "http://localhost:6274";
/// Headers that the page sends to the server.
const SENT: [&str; 3] = ["authorization", "content-type", "mcp-protocol-version"];

/// The problems that a page of another origin has with the server, its documents and its endpoints.
pub(super) async fn problems(
    prober: &Prober,
    server: &Url,
    found: &DiscoveredDocuments,
) -> Result<Vec<Finding>, Finding> {
    let mut problems = preflight(prober, server, &SENT).await?;
    let headers = [("origin", ORIGIN), ("content-type", "application/json")];
    let refusal = prober
        .send(ProbeRequest { method: Method::POST, url: server, headers: &headers, body: "{}".to_owned() })
        .await?;
    if !allows_origin(&refusal) {
        problems.push(if is_doubled(&refusal) {
            doubled(server)
        } else {
            let problem = "pages of another origin cannot read the 401: it has no `Access-Control-Allow-Origin`";
            Finding::blocks(server.as_str(), problem, "add the header to refusals too")
        });
    } else if !lists(&refusal, "access-control-expose-headers", "www-authenticate") {
        let (problem, advice) = ("pages cannot read `WWW-Authenticate`", "add it to `Access-Control-Expose-Headers`");
        problems.push(Finding::may_fail(server.as_str(), problem, advice));
    }
    let documents = found.resource.iter().chain([&found.server]).map(|document| document.url.clone());
    for url in documents {
        let headers = [("origin", ORIGIN), ("accept", "application/json")];
        let answer = prober
            .send(ProbeRequest { method: Method::GET, url: &url, headers: &headers, body: String::new() })
            .await?;
        if !allows_origin(&answer) {
            problems.push(if is_doubled(&answer) { doubled(&url) } else { unreadable(&url) });
        }
    }
    let endpoints = ["token_endpoint", "registration_endpoint"];
    for url in endpoints.into_iter().filter_map(|name| found.server.url_of(name)) {
        problems.extend(preflight(prober, &url, &["content-type"]).await?);
    }
    Ok(problems)
}

/// The problems that a page of another origin has with a server that needs no login. Such a page sends no token.
pub(super) async fn problems_without_login(prober: &Prober, server: &Url) -> Result<Vec<Finding>, Finding> {
    let mut problems = preflight(prober, server, &["content-type", "mcp-protocol-version"]).await?;
    let answer = discovery::first_response_from(prober, server, Some(ORIGIN)).await?;
    if !allows_origin(&answer) {
        problems.push(if is_doubled(&answer) { doubled(server) } else { unreadable(server) });
    }
    Ok(problems)
}

async fn preflight(prober: &Prober, url: &Url, sent: &[&str]) -> Result<Vec<Finding>, Finding> {
    let asked = sent.join(",");
    let headers = [
        ("origin", ORIGIN),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", asked.as_str()),
    ];
    let answer =
        prober.send(ProbeRequest { method: Method::OPTIONS, url, headers: &headers, body: String::new() }).await?;
    if !answer.is_success() {
        let problem = format!("the preflight is answered {}", answer.status);
        return Ok(vec![Finding::blocks(url.as_str(), problem, "answer OPTIONS with 204, without a token")]);
    }
    if !allows_origin(&answer) {
        return Ok(vec![if is_doubled(&answer) { doubled(url) } else { unreadable(url) }]);
    }
    let missing: Vec<&str> =
        sent.iter().copied().filter(|name| !lists(&answer, "access-control-allow-headers", name)).collect();
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let problem = format!("the preflight does not allow the header {}", missing.join(", "));
    Ok(vec![Finding::blocks(url.as_str(), problem, "name it in `Access-Control-Allow-Headers`")])
}

fn unreadable(url: &Url) -> Finding {
    let problem = "pages of another origin cannot read it";
    Finding::blocks(url.as_str(), problem, "answer `Access-Control-Allow-Origin: *`")
}

fn doubled(url: &Url) -> Finding {
    let problem = "`Access-Control-Allow-Origin` comes twice, or has two values: browsers refuse that";
    Finding::blocks(url.as_str(), problem, "let the server or what stands in front of it set the header, not both")
}

/// Browsers join repeated headers to one value, and compare that (Fetch, CORS check).
fn allows_origin(answer: &ProbeResponse) -> bool {
    ["*", ORIGIN].contains(&&*answer.joined("access-control-allow-origin"))
}

fn is_doubled(answer: &ProbeResponse) -> bool {
    answer.joined("access-control-allow-origin").contains(',')
}

/// True if the list in a header has the name. A `*` does not cover `Authorization` (Fetch).
fn lists(answer: &ProbeResponse, header: &str, name: &str) -> bool {
    let listed = answer.joined(header).to_ascii_lowercase();
    let mut names = listed.split(',').map(str::trim);
    names.any(|listed| listed == name || listed == "*" && name != "authorization")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubled_header_is_refused_as_browsers_refuse_it() {
        let answer = |values: &[&'static str]| {
            let headers: Vec<_> = values.iter().map(|value| ("access-control-allow-origin", *value)).collect();
            ProbeResponse::of("https://gw.example/mcp", 401, &headers, "")
        };
        for (values, allows, doubles) in [
            (&["*"][..], true, false),
            (&[ORIGIN], true, false),
            (&["*", "*"], false, true),
            (&["*, *"], false, true),
            (&[ORIGIN, "*"], false, true),
            (&[], false, false),
        ] {
            assert_eq!((allows_origin(&answer(values)), is_doubled(&answer(values))), (allows, doubles), "{values:?}");
        }
    }
}
