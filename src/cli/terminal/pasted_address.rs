//! The last address of a login in a browser on another machine, pasted on the terminal. It is requested from here,
//! since the redirect URI is served on this machine.

use std::{
    io::{self, IsTerminal as _},
    thread,
    time::Duration,
};

use tokio::sync::mpsc;
use url::Url;

use super::failure::CommandFailure;
use crate::{
    fetch::{BodyBound, FetchRequest, OpenBounds, OpenClient},
    oauth_client::is_loopback,
};

/// Timeout of the request to this machine, whose answer waits for the end of the login.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Lines that a person types or pastes on the terminal.
#[derive(Debug)]
pub struct PastedLines(mpsc::Receiver<String>);

// === impl PastedLines ===

impl PastedLines {
    /// The lines of standard input; `None` if that is not a terminal.
    pub fn of_terminal() -> Option<Self> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return None;
        }
        let (lines, pasted) = mpsc::channel(1);
        // nothing can interrupt a read of the terminal: the thread ends with the process
        let read = move || {
            for line in stdin.lines().map_while(Result::ok) {
                if lines.blocking_send(line).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("terminal".to_owned()).spawn(read).ok()?;
        Some(Self(pasted))
    }

    /// The next line. Waits forever after the end of the input.
    pub async fn next(&mut self) -> String {
        match self.0.recv().await {
            Some(line) => line,
            None => std::future::pending().await,
        }
    }
}

/// Requests the address in `line`, at which the browser ended after it opened `page`. The line may also be only the
/// query.
///
/// # Errors
///
/// If the address is not the redirect URI of the page with a response to it, or if nothing answers there.
pub(super) async fn visit(line: String, page: Url) -> Result<(), CommandFailure> {
    let address = response_address(&line, &page).ok_or_else(|| {
        CommandFailure::usage("this is not the address at which the login ends")
            .advise("paste the whole address of the browser's last page, even if it says that it cannot connect")
    })?;
    if value(&address, "state") != value(&page, "state") {
        return Err(CommandFailure::usage("this address belongs to another login")
            .advise("open the page that is shown above, and paste the address at which that one ends"));
    }
    let failed = || CommandFailure::failed("the login did not accept the address");
    let client = OpenClient::direct().map_err(|error| failed().why(error))?;
    let bounds = OpenBounds { deadline: REQUEST_TIMEOUT, body: BodyBound::Beginning(0) };
    client.send(FetchRequest::get(address), bounds).await.map_err(|error| failed().why(error.reason()))?;
    Ok(())
}

/// The redirect URI in the query of `page`, with the query of the pasted text. The text is an address there, under any
/// loopback name, or only its query. Quotes around it are dropped, since terminals and chats add them.
fn response_address(text: &str, page: &Url) -> Option<Url> {
    let mut expected = Url::parse(&value(page, "redirect_uri")?).ok()?;
    let text = text.trim_matches(|c: char| c.is_whitespace() || "\"'`<>".contains(c));
    let query = match Url::parse(text) {
        Ok(address) => {
            let place = |url: &Url| (url.scheme().to_owned(), url.port_or_known_default(), url.path().to_owned());
            let is_same = address.host() == expected.host() || is_loopback(&address) && is_loopback(&expected);
            (is_same && place(&address) == place(&expected)).then(|| address.query().map(str::to_owned))?
        }
        Err(_) => Some(text.trim_start_matches('?').to_owned()),
    };
    expected.set_query(query.as_deref());
    let is_response = ["code", "error"].iter().any(|name| value(&expected, name).is_some());
    is_response.then_some(expected)
}

fn value(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_026_the_redirect_uri_of_the_page_is_taken_in_every_form_in_which_people_paste_it() {
        let page = "https://as.example/authorize?redirect_uri=http%3A%2F%2F127.0.0.1%3A4711%2Fcallback&state=s";
        let page = Url::parse(page).unwrap();
        let response = "http://127.0.0.1:4711/callback?code=c&state=s";
        for pasted in [
            response,
            "  http://127.0.0.1:4711/callback?code=c&state=s\r",
            "\"http://127.0.0.1:4711/callback?code=c&state=s\"",
            "<http://localhost:4711/callback?code=c&state=s>",
            "http://[::1]:4711/callback?code=c&state=s",
            "code=c&state=s",
            "?code=c&state=s",
        ] {
            let address = response_address(pasted, &page).unwrap_or_else(|| panic!("{pasted}"));
            assert_eq!(address.as_str(), response, "{pasted}");
        }
        for other in [
            "http://127.0.0.1:4711/callback",
            "http://127.0.0.1:4712/callback?code=c",
            "http://127.0.0.1:4711/other?code=c",
            "https://127.0.0.1:4711/callback?code=c",
            "https://as.example/callback?code=c",
            "http://evil.example:4711/callback?code=c",
            "state=s",
            "hello",
            "",
        ] {
            assert_eq!(response_address(other, &page), None, "{other}");
        }
    }

    #[tokio::test]
    async fn up_026_the_address_of_another_login_is_refused_before_anything_is_sent() {
        let page = "https://as.example/authorize?redirect_uri=http%3A%2F%2F127.0.0.1%3A1%2Fcallback&state=s";
        for line in ["code=c&state=t", "code=c"] {
            let refused = visit(line.to_owned(), Url::parse(page).unwrap()).await.unwrap_err();
            assert!(format!("{refused:?}").contains("another login"), "{refused:?}");
        }
    }
}
