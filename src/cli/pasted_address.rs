//! Address at which a browser on another machine ends its login, pasted on the terminal. It is requested from here,
//! where the redirect URI is served. Knows nothing of the response in it.

use std::{
    io::{self, IsTerminal as _},
    thread,
    time::Duration,
};

use tokio::sync::mpsc;
use url::Url;

use super::failure::CommandFailure;
use crate::fetch::open_client;

/// Maximum time of the request to this machine.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Lines that a person types or pastes on the terminal.
#[derive(Debug)]
pub struct PastedLines(mpsc::Receiver<String>);

// === impl PastedLines ===

impl PastedLines {
    /// The lines of standard input; `None` if that is no terminal.
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

    /// The next line; never, after the end of the input.
    pub async fn next(&mut self) -> String {
        match self.0.recv().await {
            Some(line) => line,
            None => std::future::pending().await,
        }
    }
}

/// Requests `line`, the address at which the browser ended that was shown `page`.
///
/// # Errors
///
/// An error if it is not the redirect URI of the page with a response, or if nothing answers there.
pub(super) async fn visit(line: &str, page: &Url) -> Result<(), CommandFailure> {
    let address = response_address(line.trim(), page).ok_or_else(|| {
        CommandFailure::usage("this is not the address at which the login ends")
            .advise("paste the whole address of the browser's last page, even if it says that it cannot connect")
    })?;
    let failed = || CommandFailure::failed("the login did not take the address");
    let client = open_client::client(|http| http.no_proxy().timeout(REQUEST_TIMEOUT));
    let client = client.map_err(|error| failed().why(error))?;
    client.get(address).send().await.map_err(|error| failed().why(error))?;
    Ok(())
}

/// The address, if it is the redirect URI in the query of `page`, with a query.
fn response_address(text: &str, page: &Url) -> Option<Url> {
    let (_, redirect_uri) = page.query_pairs().find(|(name, _)| name == "redirect_uri")?;
    let (expected, address) = (Url::parse(&redirect_uri).ok()?, Url::parse(text).ok()?);
    let is_same = address.origin() == expected.origin() && address.path() == expected.path();
    (is_same && address.query().is_some()).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_redirect_uri_of_the_page_is_taken_and_nothing_else() {
        let page = "https://as.example/authorize?redirect_uri=http%3A%2F%2F127.0.0.1%3A4711%2Fcallback&state=s";
        let page = Url::parse(page).unwrap();
        let response = "http://127.0.0.1:4711/callback?code=c&state=s";
        assert_eq!(response_address(response, &page).unwrap().as_str(), response);
        for other in [
            "http://127.0.0.1:4711/callback",
            "http://127.0.0.1:4712/callback?code=c",
            "http://127.0.0.1:4711/other?code=c",
            "https://as.example/callback?code=c",
            "code=c&state=s",
            "",
        ] {
            assert_eq!(response_address(other, &page), None, "{other}");
        }
    }
}
