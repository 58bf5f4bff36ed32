//! Content negotiation of errors: HTML for people, JSON for programs (RFC 9110 12.5.1).

use http::{HeaderMap, header};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorFormat {
    Page,
    Json,
}

/// JSON if `Accept` prefers it to HTML; otherwise a page.
pub(super) fn preferred(headers: &HeaderMap) -> ErrorFormat {
    let lines: Vec<&str> = headers.get_all(header::ACCEPT).iter().filter_map(|line| line.to_str().ok()).collect();
    let weight = |kinds: &[&str]| {
        lines.iter().flat_map(|line| line.split(',')).map(|range| weight_of(range, kinds)).max().unwrap_or(0)
    };
    // wildcards count for neither; on equal weights JSON wins only if it comes first, since browsers name HTML first
    let (json, html) = (weight(&["application/json"]), weight(&["text/html", "text/*"]));
    let first = lines.first().and_then(|line| line.split([',', ';']).next()).unwrap_or_default();
    let names_json_first = json > 0 && first.trim().eq_ignore_ascii_case("application/json");
    if json > html || (json == html && names_json_first) { ErrorFormat::Json } else { ErrorFormat::Page }
}

/// Weight of one media range in thousandths; zero if it names none of these types.
fn weight_of(range: &str, kinds: &[&str]) -> u16 {
    let mut parts = range.split(';').map(str::trim);
    let kind = parts.next().unwrap_or_default();
    if !kinds.iter().any(|known| known.eq_ignore_ascii_case(kind)) {
        return 0;
    }
    let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    match weight {
        None => 1000,
        Some(weight) => {
            let digits: String = weight.chars().filter(char::is_ascii_digit).chain("000".chars()).take(4).collect();
            digits.parse().unwrap_or(0).min(1000)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_get_pages_and_clients_get_json() {
        let form = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            preferred(&headers)
        };
        assert_eq!(form("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"), ErrorFormat::Page);
        assert_eq!(form("*/*"), ErrorFormat::Page);
        assert_eq!(form("application/json"), ErrorFormat::Json);
        assert_eq!(form("application/json, text/event-stream"), ErrorFormat::Json);
        assert_eq!(form("text/html;q=0.5, application/json;q=0.9"), ErrorFormat::Json);
        assert_eq!(form("text/html, application/json;q=0.9"), ErrorFormat::Page);
        assert_eq!(form("application/json, text/html"), ErrorFormat::Json);
        assert_eq!(form("text/html, application/json"), ErrorFormat::Page);
        assert_eq!(form("application/json;q=0"), ErrorFormat::Page);
        assert_eq!(preferred(&HeaderMap::new()), ErrorFormat::Page);
    }
}
