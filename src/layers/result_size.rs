//! A limit for the text in results of tools, for servers whose results fill the context of a model.
//!
//! Texts are kept from the front until the limit is reached; a note at the end says so. `structuredContent`, images and
//! links stay whole.

use std::sync::Arc;

use metrics::Counter;

use super::layer::{Beneath, Layer};
use crate::mcp::{
    Call, Context, Event, Outcome, Payload, Reply, Server,
    json::{self, At, draft::Draft},
    methods::ResultShape,
};

/// The texts of a result: text blocks, and embedded resources that are text.
const TEXTS: [&[At]; 2] = [
    &[At::Key("content"), At::Each, At::Key("text")],
    &[At::Key("content"), At::Each, At::Key("resource"), At::Key("text")],
];

/// The layer that limits the text in a tool's result to `size` bytes; `None`: any.
pub fn result_size(size: Option<usize>) -> Option<Layer> {
    let max = size?;
    Some(Arc::new(move |Beneath { backend, server, .. }| {
        let cuts = metrics::counter!("lockkeeper_gateway_results_cut_total", "server" => backend.to_string());
        Arc::new(BoundedResults { server, cuts, max })
    }))
}

struct BoundedResults {
    server: Arc<dyn Server>,
    cuts: Counter,
    /// The most text in a result, in bytes of UTF-8.
    max: usize,
}

/// Cuts texts, in order, to a total number of bytes.
struct Cut {
    left: usize,
    whole: usize,
    shown: usize,
}

impl Server for BoundedResults {
    fn call(&self, call: Call) -> Reply {
        let is_of_tool = call.method.result() == ResultShape::Tool;
        let reply = self.server.call(call);
        if !is_of_tool {
            return reply;
        }
        let (max, cuts) = (self.max, self.cuts.clone());
        reply.map(move |event| match event {
            Event::Done(Outcome::Complete(result)) => {
                let short = bounded(&result, max);
                if short.is_some() {
                    cuts.increment(1);
                }
                Event::Done(Outcome::Complete(short.unwrap_or(result)))
            }
            event => event,
        })
    }

    fn expect(&self, client: &Context) {
        self.server.expect(client);
    }
}

/// The result with less text and a note; `None` if it is within the limit.
pub(crate) fn bounded(result: &Payload, max: usize) -> Option<Payload> {
    // no text is longer than the whole
    if result.json().len() <= max {
        return None;
    }
    let mut cut = Cut { left: max, whole: 0, shown: 0 };
    let short = result.rewrite(&TEXTS, |text| cut.next(text));
    (cut.whole > max).then(|| with_note(&short, &cut.note()))
}

/// The result with one more block of text.
fn with_note(result: &Payload, note: &str) -> Payload {
    let Some(content) = result.member("content") else { return result.clone() };
    let mut content = Draft::of(content);
    content.push(&format!(r#"{{"type":"text","text":{}}}"#, json::quote(note)));
    result.with("content", &content.text())
}

// === impl Cut ===

impl Cut {
    /// The part of the next text to keep; `None` to keep all of it.
    fn next(&mut self, quoted: &str) -> Option<String> {
        let text = json::unquote(quoted)?;
        let end = text.floor_char_boundary(self.left);
        self.whole += text.len();
        self.shown += end;
        // after a cut, later texts are left out
        self.left = if end < text.len() { 0 } else { self.left - end };
        (end < text.len()).then(|| json::quote(&text[..end]))
    }

    fn note(&self) -> String {
        let Self { whole, shown, .. } = self;
        format!(
            "[The gateway cut this result: {shown} of {whole} bytes of text are shown. To see more, call the tool for a \
             smaller part: a range, a page, a filter, or a narrower search.]"
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::mcp::Revision;

    fn cut(result: &Value, max: usize) -> Value {
        let whole = Payload::of(Revision::NEWEST_LEGACY, result);
        let payload = bounded(&whole, max).unwrap_or(whole);
        serde_json::from_slice(payload.json().as_ref()).unwrap()
    }

    fn text(text: &str) -> Value {
        json!({ "type": "text", "text": text })
    }

    #[test]
    fn texts_are_cut_from_the_end_and_a_note_says_so() {
        let image = json!({ "type": "image", "data": "aGk=", "mimeType": "image/png" });
        let file = json!({ "type": "resource", "resource": { "uri": "file:///a", "text": "third" } });
        let whole =
            json!({ "content": [text("first"), image, text("s\u{e9}cond"), file], "structuredContent": { "a": 1 } });
        let note = "[The gateway cut this result: 6 of 17 bytes of text are shown. To see more, call the tool for a \
                    smaller part: a range, a page, a filter, or a narrower search.]";
        let empty = json!({ "type": "resource", "resource": { "uri": "file:///a", "text": "" } });
        // the second byte of the accented letter does not fit
        let expected =
            json!({ "content": [text("first"), image, text("s"), empty, text(note)], "structuredContent": { "a": 1 } });
        assert_eq!(cut(&whole, 7), expected);
    }

    #[test]
    fn results_within_the_bound_pass_unchanged() {
        let long_structure = json!({ "content": [text("ten bytes!")], "structuredContent": { "a": "x".repeat(100) } });
        assert_eq!(cut(&long_structure, 10), long_structure);
        let no_content = json!({ "structuredContent": { "a": "x".repeat(100) } });
        assert_eq!(cut(&no_content, 10), no_content);
    }
}
