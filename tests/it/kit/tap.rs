//! Reads one response, event by event.

use reqwest::{Response, StatusCode};

pub(crate) struct Tap {
    response: Response,
    text: String,
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Events,
}

/// One event; for a comment, only the comment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) retry: Option<String>,
    pub(crate) data: Option<String>,
}

impl Tap {
    pub(crate) fn of(response: Response) -> Self {
        let kind = response.headers().get("content-type");
        let form = match kind.map(|kind| kind.to_str().unwrap()) {
            Some("application/json") => Form::Json,
            Some(kind) if kind.starts_with("text/event-stream") => Form::Events,
            kind => panic!("{} of the type {kind:?}", response.status()),
        };
        Self { response, text: String::new(), form }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// True if the response is a single message.
    pub(crate) fn is_whole(&self) -> bool {
        self.form == Form::Json
    }

    /// The next event or comment; `None` at the end, or if the stream was cut off.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if self.form == Form::Events
                && let Some(end) = self.text.find("\n\n")
            {
                let event = Event::read(&self.text[..end]);
                self.text.drain(..end + 2);
                return Some(event);
            }
            match self.response.chunk().await {
                Ok(Some(chunk)) => self.text.push_str(std::str::from_utf8(&chunk).unwrap()),
                _ if self.form == Form::Json && !self.text.is_empty() => {
                    return Some(Event { data: Some(std::mem::take(&mut self.text)), ..Event::default() });
                }
                _ => return None,
            }
        }
    }
}

impl Event {
    pub(crate) fn read(text: &str) -> Self {
        let field = |name: &str| {
            text.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim_start().to_owned()))
        };
        Self { id: field("id"), name: field("event"), retry: field("retry"), data: field("data") }
    }
}
