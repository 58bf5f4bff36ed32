//! The authorization request up to the login page, and the errors of the token endpoint.

use http::Method;

use super::{
    exchange::{ProbeRequest, Prober},
    finding::Finding,
    login::{OpenLogin, TokenEndpointRequest},
};

/// Opens the page that a person would see.
pub(super) async fn open_page(prober: &Prober, login: &OpenLogin) -> Result<(), Finding> {
    let headers = [("accept", "text/html,application/xhtml+xml")];
    let answer = prober
        .send(ProbeRequest { method: Method::GET, url: &login.url, headers: &headers, body: String::new() })
        .await?;
    let mut endpoint = login.url.clone();
    endpoint.set_query(None);
    let blocks = |problem: String, advice: &str| Err(Finding::blocks(endpoint.as_str(), problem, advice));
    let location = answer.header("location");
    match answer.status {
        _ if answer.is_redirect() && location.starts_with(&login.redirect_uri) => {
            let pairs = url::Url::parse(location).ok();
            let said = |name: &str| {
                let pairs = pairs.as_ref().map(url::Url::query_pairs)?;
                pairs.into_iter().find(|(found, _)| found == name).map(|(_, value)| value.into_owned())
            };
            match said("error") {
                Some(error) => {
                    let description = said("error_description").unwrap_or_default();
                    blocks(format!("the request is refused: {error}: {description}"), "accept what the client sends")
                }
                None => blocks(
                    "it gives a code without asking anybody".to_owned(),
                    "ask the person: any program on their machine could do the same",
                ),
            }
        }
        200 | 302 | 303 | 307 => Ok(()),
        // an error page is for people; the answer in JSON may have an error code
        _ => {
            let headers = [("accept", "application/json")];
            let asked = ProbeRequest { method: Method::GET, url: &login.url, headers: &headers, body: String::new() };
            let answer = prober.send(asked).await?;
            let problem = format!("the request is refused: {}", answer.outline());
            match (login.document(), answer.error().as_str()) {
                (Some(document), "invalid_client" | "temporarily_unavailable") => {
                    blocks(problem, &unread_document(document))
                }
                _ => blocks(problem, "accept the redirect URI, the scopes and the `resource` that the client sends"),
            }
        }
    }
}

/// The advice for a server that announces client documents but refuses one.
fn unread_document(document: &str) -> String {
    format!(
        "let the server read the client's document `{document}`: let it connect to that host, directly or through a \
         proxy (`egress_proxy` of Lockkeeper), or have clients register (`client_documents = \"off\"`, and \
         `registration`)"
    )
}

/// Checks the token endpoint's answers to an invalid code and an invalid refresh token: their error codes tell clients
/// what to discard.
pub(super) async fn token_errors(prober: &Prober, login: &OpenLogin) -> Result<Vec<Finding>, Finding> {
    let mut found = Vec::new();
    for request in [login.redeem("lockkeeper-doctor"), login.refresh("lockkeeper-doctor")] {
        let TokenEndpointRequest { url, authorization, form } = request;
        let mut headers = vec![("content-type", "application/x-www-form-urlencoded"), ("accept", "application/json")];
        headers.extend(authorization.as_ref().map(|value| ("authorization", value.expose())));
        let body = form.expose().to_owned();
        let answer = prober.send(ProbeRequest { method: Method::POST, url: &url, headers: &headers, body }).await?;
        let at = url.as_str();
        match (answer.status, answer.error().as_str()) {
            (400 | 401, "invalid_grant") => {}
            (400 | 401, "invalid_client" | "unauthorized_client") => {
                let problem = format!("the client that was just registered is refused: {}", answer.outline());
                return Err(Finding::blocks(at, problem, "accept the client's way to authenticate"));
            }
            (500.., _) => {
                let problem = format!("it answers {} to a code that does not exist", answer.outline());
                found.push(Finding::may_fail(at, problem, "answer 400 `invalid_grant` (RFC 6749 5.2)"));
            }
            _ => {
                let problem =
                    format!("it answers {} to a token that does not exist: clients do not know it", answer.outline());
                found.push(Finding::may_fail(at, problem, "answer 400 `invalid_grant` in JSON (RFC 6749 5.2)"));
            }
        }
    }
    found.dedup();
    Ok(found)
}
