//! Shows the pages of a login to a person: in the browser, with the URL on standard error. A person whose browser is on
//! another machine can paste the address of its last page.

use std::{io, thread};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::sync::mpsc;
use url::Url;

use super::{
    output::Output,
    pasted_address::{PastedLines, visit},
};
use crate::oauth_client::Attempt;

/// A page of a login.
#[derive(Debug)]
pub struct PageToShow {
    /// Its URL.
    pub url: Url,
    /// Says whether the page is new or already open.
    pub attempt: Attempt,
}

/// Shows pages while a command runs.
#[derive(Debug)]
pub struct PageViewer {
    pages: mpsc::UnboundedReceiver<PageToShow>,
    display: PageDisplay,
    /// Lines of the terminal, if it is not the client's.
    pasted: Option<PastedLines>,
}

/// Place where pages are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageDisplay {
    /// The person's browser, and the URL on standard error.
    Browser,
    /// Only the URL on standard error.
    UrlAlone,
}

// === impl PageViewer ===

impl PageViewer {
    /// Shows these pages.
    pub const fn new(pages: mpsc::UnboundedReceiver<PageToShow>, display: PageDisplay) -> Self {
        Self { pages, display, pasted: None }
    }

    /// Also takes pasted addresses from these lines.
    #[must_use]
    pub fn with_pasted(self, pasted: Option<PastedLines>) -> Self {
        Self { pasted, ..self }
    }

    /// Runs `command`, and shows the pages that it asks for.
    pub async fn shown_while<T>(&mut self, command: impl Future<Output = T>, output: &mut Output) -> T {
        let mut command = Box::pin(command);
        let mut shown = None;
        // they run alongside the command, which serves the redirect URI
        let mut visits = FuturesUnordered::new();
        loop {
            tokio::select! {
                outcome = &mut command => return outcome,
                Some(page) = self.pages.recv() => {
                    self.show(&page, output);
                    shown = Some(page.url);
                }
                line = next_line(&mut self.pasted) => {
                    let page = shown.as_ref().filter(|_| !line.trim().is_empty() && visits.is_empty());
                    visits.extend(page.map(|page| visit(line, page.clone())));
                }
                Some(visited) = visits.next() => {
                    if let Err(failure) = visited {
                        output.failure(&failure);
                    }
                }
            }
        }
    }

    fn show(&self, page: &PageToShow, output: &mut Output) {
        let text = match (page.attempt, self.display) {
            (Attempt::New, PageDisplay::Browser) => {
                "Log in: your browser opens this page. If it does not, open it yourself:"
            }
            (Attempt::New, PageDisplay::UrlAlone) => "Log in: open this page in your browser:",
            (Attempt::Resumed, _) => "Waiting for the login that was begun on this page:",
        };
        output.remark(&format!("{text}\n  {}", page.url));
        if self.pasted.is_some() {
            output.remark("If that browser is on another machine, paste the address of its last page here.");
        }
        if (page.attempt, self.display) == (Attempt::New, PageDisplay::Browser) {
            // not joined, since a browser that runs in the terminal would block
            let _ = open_browser(page.url.to_string());
        }
    }
}

/// Opens a page in the person's browser, on a thread of its own.
pub(in crate::cli) fn open_browser(url: String) -> io::Result<thread::JoinHandle<()>> {
    // the client would take the browser's output for messages
    let options = webbrowser::BrowserOptions::new().with_suppress_output(true).clone();
    let open = move || drop(webbrowser::open_browser_with_options(webbrowser::Browser::Default, &url, &options));
    thread::Builder::new().name("browser".to_owned()).spawn(open)
}

async fn next_line(pasted: &mut Option<PastedLines>) -> String {
    match pasted {
        Some(lines) => lines.next().await,
        None => std::future::pending().await,
    }
}
