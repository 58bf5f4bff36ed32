//! Other things that answer in a server's place: pages of tunnels, bot challenges, single-page apps.

use super::{exchange::ProbeResponse, finding::Finding};

/// Pages that answer in a server's place: a piece of their text, and a name for people.
const PAGES: [(&str, &str); 9] = [
    ("just a moment", "a bot challenge (Cloudflare)"),
    ("challenge-platform", "a bot challenge (Cloudflare)"),
    ("captcha", "a bot challenge"),
    ("err_ngrok", "the warning page of a tunnel (ngrok)"),
    ("ngrok", "a page of a tunnel (ngrok)"),
    ("localtunnel", "the warning page of a tunnel (localtunnel)"),
    ("cloudflareaccess", "the login of a proxy in front (Cloudflare Access)"),
    ("id=\"root\"", "the start page of a single-page app, which answers every path"),
    ("id=\"app\"", "the start page of a single-page app, which answers every path"),
];

/// The finding for a successful answer that is not MCP.
pub(super) fn no_mcp(answer: &ProbeResponse) -> Finding {
    let problem = format!("it answers {} to `initialize`, which is not MCP: {}", said(answer), page(answer));
    let advice =
        "give people the URL of the server itself, and have what stands in front let requests of programs through";
    Finding::blocks(answer.url.as_str(), problem, advice)
}

/// The finding for a refusal that does not come from an MCP server.
pub(super) fn in_front(answer: &ProbeResponse) -> Finding {
    let problem = format!("it answers {} to a request without a token: {}", said(answer), page(answer));
    let advice = match answer.status {
        413 => "look at what stands in front: it refuses a request of some hundred bytes for its size",
        403 => "look at what stands in front: it refuses programs before they reach the server",
        _ => "look at what stands in front: it does not reach the server, or gives up on it",
    };
    Finding::blocks(answer.url.as_str(), problem, advice)
}

fn said(answer: &ProbeResponse) -> String {
    match answer.header("content-type") {
        "" => format!("{} without a content type", answer.status),
        kind => format!("{} with `{kind}`", answer.status),
    }
}

/// The name of the page that the answer probably is.
fn page(answer: &ProbeResponse) -> &'static str {
    if answer.header("cf-mitigated") == "challenge" {
        return "a bot challenge (Cloudflare)";
    }
    if !answer.header("ngrok-error-code").is_empty() {
        return "the warning page of a tunnel (ngrok)";
    }
    let text = answer.text().to_ascii_lowercase();
    let known = PAGES.into_iter().find(|(sign, _)| text.contains(sign)).map(|(_, name)| name);
    let is_page = answer.header("content-type").starts_with("text/html") || text.trim_start().starts_with('<');
    known.unwrap_or(if is_page { "a web page" } else { "something else" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_that_answers_in_place_of_a_server_is_named() {
        for (status, headers, body, expected) in [
            (200, vec![("content-type", "text/html")], "<html>ERR_NGROK_6024", "tunnel (ngrok)"),
            (403, vec![("content-type", "text/html"), ("cf-mitigated", "challenge")], "<html>", "bot challenge"),
            (200, vec![("content-type", "text/html; charset=utf-8")], "<div id=\"root\"></div>", "single-page app"),
            (200, vec![("content-type", "text/html")], "<p>parked", "a web page"),
            (200, vec![], "", "something else"),
        ] {
            let answer = ProbeResponse::of("https://gw.example/mcp", status, &headers, body);
            let finding = if status == 200 { no_mcp(&answer) } else { in_front(&answer) };
            assert!(finding.problem.contains(expected), "{}", finding.problem);
            assert!(finding.problem.contains(&status.to_string()));
        }
        let too_large = ProbeResponse::of("https://gw.example/mcp", 413, &[("content-type", "text/html")], "<html>413");
        assert!(in_front(&too_large).advice.contains("stands in front"));
    }
}
